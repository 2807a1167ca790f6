//! What a fake server offers: tools, prompts, resources and resource templates, with the results of their requests.

use core::time::Duration;
use std::string::String;
use std::vec::Vec;

use serde_json::{Map, Value, json};

/// A tool of a fake server. By default its result is one text: the tool's name.
#[derive(Clone, Debug, PartialEq)]
pub struct FakeTool {
    pub(super) item: Map<String, Value>,
    pub(super) result: Option<Value>,
    pub(super) asks: Vec<Ask>,
    pub(super) progress: u32,
    pub(super) takes: Duration,
}

impl FakeTool {
    /// A tool of this name, which takes any object as its arguments.
    pub fn new(name: &str) -> Self {
        let item = object(json!({"name": name, "inputSchema": {"type": "object"}}));
        Self { item, result: None, asks: Vec::new(), progress: 0, takes: Duration::ZERO }
    }

    /// The tool's name.
    pub fn name(&self) -> &str {
        text_of(&self.item, "name")
    }

    /// Sets a member of the tool, such as `description`, `inputSchema` or `annotations`.
    #[must_use]
    pub fn with(mut self, member: &str, value: Value) -> Self {
        self.item.insert(member.into(), value);
        self
    }

    /// Sets `annotations.readOnlyHint`.
    #[must_use]
    pub fn read_only(self) -> Self {
        self.with("annotations", json!({"readOnlyHint": true}))
    }

    /// Sets the result of each call.
    #[must_use]
    pub fn result(mut self, result: Value) -> Self {
        self.result = Some(result);
        self
    }

    /// Makes each call ask the client before it runs: with a server request in the legacy era, with a result
    /// `input_required` in the modern one.
    #[must_use]
    pub fn asks(mut self, ask: Ask) -> Self {
        self.asks.push(ask);
        self
    }

    /// Makes each call report progress this many times, if the client wants progress. The reports are spread evenly
    /// over the time that the tool [takes](Self::takes).
    #[must_use]
    pub fn progress(mut self, reports: u32) -> Self {
        self.progress = reports;
        self
    }

    /// Sets the time from the start of a call to its result; 0 by default.
    #[must_use]
    pub fn takes(mut self, time: Duration) -> Self {
        self.takes = time;
        self
    }
}

/// A question of a server to the client: a server request, or required input.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    pub(super) method: String,
    pub(super) params: Value,
}

impl Ask {
    /// A question with this method and these parameters.
    pub fn new(method: &str, params: Value) -> Self {
        Self { method: method.into(), params }
    }

    /// `ping`, which the modern era does not have: there it is left out.
    pub fn ping() -> Self {
        Self::new("ping", json!({}))
    }

    /// `roots/list`.
    pub fn roots() -> Self {
        Self::new("roots/list", json!({}))
    }

    /// `sampling/createMessage` with this text of the user, for at most 100 tokens.
    pub fn sampling(text: &str) -> Self {
        let content = json!({"type": "text", "text": text});
        Self::new(
            "sampling/createMessage",
            json!({"messages": [{"role": "user", "content": content}], "maxTokens": 100}),
        )
    }

    /// `elicitation/create` of a form with this text and one optional field, `answer`.
    pub fn elicitation(text: &str) -> Self {
        let schema = json!({"type": "object", "properties": {"answer": {"type": "string"}}});
        Self::new("elicitation/create", json!({"mode": "form", "message": text, "requestedSchema": schema}))
    }
}

/// The lists of a fake server. `None` is a family that it was never given: it does not have its methods.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    pub(super) tools: Option<Vec<FakeTool>>,
    pub(super) prompts: Option<Vec<Map<String, Value>>>,
    pub(super) resources: Option<Vec<Map<String, Value>>>,
    pub(super) templates: Option<Vec<Map<String, Value>>>,
}

impl Content {
    /// The items of a list method, and the member of the result that holds them.
    pub(super) fn list(&self, method: &str) -> Option<(&'static str, Vec<Value>)> {
        let all = |items: &[Map<String, Value>]| items.iter().cloned().map(Value::Object).collect();
        let (member, items) = match method {
            "tools/list" => {
                let tools = self.tools.as_deref()?.iter();
                return Some(("tools", tools.map(|tool| Value::Object(tool.item.clone())).collect()));
            }
            "prompts/list" => ("prompts", &self.prompts),
            "resources/list" => ("resources", &self.resources),
            "resources/templates/list" => ("resourceTemplates", &self.templates),
            _ => return None,
        };
        // A server with either has both methods.
        let has_resources = method.starts_with("resources/") && (self.resources.is_some() || self.templates.is_some());
        match items {
            Some(items) => Some((member, all(items))),
            None => has_resources.then(|| (member, Vec::new())),
        }
    }

    pub(super) fn tool(&self, name: &str) -> Option<&FakeTool> {
        self.tools.iter().flatten().find(|tool| tool.name() == name)
    }

    /// The capabilities that the content implies.
    pub(super) fn capabilities(&self) -> Value {
        let mut capabilities = Map::new();
        if self.tools.is_some() {
            capabilities.insert("tools".into(), json!({"listChanged": true}));
        }
        if self.prompts.is_some() {
            capabilities.insert("prompts".into(), json!({"listChanged": true}));
        }
        if self.resources.is_some() || self.templates.is_some() {
            capabilities.insert("resources".into(), json!({"listChanged": true, "subscribe": true}));
        }
        Value::Object(capabilities)
    }
}

/// Whether a list has an item with this key; `None` if there is no list.
pub(super) fn has(items: Option<&[Map<String, Value>]>, member: &str, key: &str) -> Option<bool> {
    items.map(|items| items.iter().any(|item| text_of(item, member) == key))
}

/// The members of an object; none of another value.
pub(super) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}

pub(super) fn text_of<'a>(item: &'a Map<String, Value>, member: &str) -> &'a str {
    item.get(member).and_then(Value::as_str).unwrap_or_default()
}
