//! A request after discovery: a tool call, a resource read or a prompt.

use std::time::Duration;

use mcp_proto::Request;
use serde_json::value::RawValue;

use crate::raw::{self, Members};

pub(crate) struct Step {
    kind: StepKind,
    /// A tool's or a prompt's own name, or a resource's URI.
    pub(crate) target: String,
}

enum StepKind {
    Call(Option<Box<RawValue>>),
    Read,
    Prompt(Option<Vec<(String, String)>>),
}

impl Step {
    pub(crate) fn call(target: String) -> Self {
        Self { kind: StepKind::Call(None), target }
    }

    pub(crate) fn read(target: String) -> Self {
        Self { kind: StepKind::Read, target }
    }

    pub(crate) fn prompt(target: String) -> Self {
        Self { kind: StepKind::Prompt(None), target }
    }

    /// Sets the arguments from a JSON object.
    pub(crate) fn arguments(&mut self, json: &str) -> Result<(), String> {
        let target = &self.target;
        let twice = Err(format!("--args came twice for {target}"));
        let object = raw::object(json).map_err(|wrong| format!("--args for {target} {wrong}"))?;
        match &mut self.kind {
            StepKind::Call(Some(_)) | StepKind::Prompt(Some(_)) => return twice,
            StepKind::Read => return Err("--args needs a --call or a --prompt before it; --read has none".into()),
            StepKind::Call(arguments) => *arguments = Some(object),
            StepKind::Prompt(arguments) => {
                let members = Members::of(&object);
                let string = |(name, _): (&str, _)| {
                    let value = members.string(name);
                    let wrong =
                        || format!("--args for {target}: a prompt's arguments are strings, and `{name}` is not");
                    value.map(|value| (name.to_owned(), value)).ok_or_else(wrong)
                };
                *arguments = Some(members.iter().map(string).collect::<Result<_, _>>()?);
            }
        }
        Ok(())
    }

    pub(crate) fn method(&self) -> &'static str {
        match self.kind {
            StepKind::Call(_) => "tools/call",
            StepKind::Read => "resources/read",
            StepKind::Prompt(_) => "prompts/get",
        }
    }

    pub(crate) fn is_call(&self) -> bool {
        matches!(self.kind, StepKind::Call(_))
    }

    pub(crate) fn call_arguments(&self) -> Option<&RawValue> {
        match &self.kind {
            StepKind::Call(arguments) => arguments.as_deref(),
            StepKind::Read | StepKind::Prompt(_) => None,
        }
    }

    pub(crate) fn request(&self) -> Request {
        let request = match &self.kind {
            StepKind::Call(arguments) => {
                let none = raw::of(&serde_json::json!({}));
                Request::call_tool(&self.target, Some(arguments.as_deref().unwrap_or(&none)))
            }
            StepKind::Read => Request::read_resource(&self.target),
            StepKind::Prompt(arguments) => {
                let arguments = arguments.iter().flatten().map(|(name, value)| (&**name, &**value));
                Request::get_prompt(&self.target, arguments)
            }
        };
        // Only the run's timeout, which the user set, ends it.
        request.timeout(Duration::MAX).progress()
    }
}
