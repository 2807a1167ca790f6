//! What is asked of the server after discovery: a tool's call, a resource's text, a prompt.

use std::time::Duration;

use mcp_proto::Request;
use serde_json::value::RawValue;

use crate::raw::{self, Members};

pub(crate) struct Step {
    what: What,
    /// A tool's or a prompt's own name, or a resource's URI.
    pub(crate) target: String,
}

enum What {
    Call(Option<Box<RawValue>>),
    Read,
    Prompt(Option<Vec<(String, String)>>),
}

impl Step {
    pub(crate) fn call(target: String) -> Self {
        Self { what: What::Call(None), target }
    }

    pub(crate) fn read(target: String) -> Self {
        Self { what: What::Read, target }
    }

    pub(crate) fn prompt(target: String) -> Self {
        Self { what: What::Prompt(None), target }
    }

    /// Takes a JSON object as its arguments.
    pub(crate) fn arguments(&mut self, json: &str) -> Result<(), String> {
        let target = &self.target;
        let twice = Err(format!("--args came twice for {target}"));
        let object = raw::object(json).map_err(|wrong| format!("--args for {target} {wrong}"))?;
        match &mut self.what {
            What::Call(Some(_)) | What::Prompt(Some(_)) => return twice,
            What::Read => return Err("--args needs a --call or a --prompt before it; --read has none".into()),
            What::Call(arguments) => *arguments = Some(object),
            What::Prompt(arguments) => {
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
        match self.what {
            What::Call(_) => "tools/call",
            What::Read => "resources/read",
            What::Prompt(_) => "prompts/get",
        }
    }

    pub(crate) fn is_call(&self) -> bool {
        matches!(self.what, What::Call(_))
    }

    pub(crate) fn call_arguments(&self) -> Option<&RawValue> {
        match &self.what {
            What::Call(arguments) => arguments.as_deref(),
            What::Read | What::Prompt(_) => None,
        }
    }

    pub(crate) fn request(&self) -> Request {
        let request = match &self.what {
            What::Call(arguments) => {
                let none = raw::of(&serde_json::json!({}));
                Request::call_tool(&self.target, Some(arguments.as_deref().unwrap_or(&none)))
            }
            What::Read => Request::read_resource(&self.target),
            What::Prompt(arguments) => {
                let arguments = arguments.iter().flatten().map(|(name, value)| (&**name, &**value));
                Request::get_prompt(&self.target, arguments)
            }
        };
        // The run's own bound, which the user set, ends it.
        request.timeout(Duration::MAX).progress()
    }
}
