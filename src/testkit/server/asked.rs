//! A request that is being executed, and errors as responses.

use serde_json::{Value, json};

use crate::Era;
use crate::protocol::method;
use crate::testkit::channel::ChannelId;

/// The request being executed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) channel: ChannelId,
    /// The session, in the legacy era.
    pub(super) session: Option<u64>,
    pub(super) era: Era,
    pub(super) message: &'a Value,
}

impl<'a> Asked<'a> {
    pub(super) fn method(&self) -> &'a str {
        self.message.get("method").and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn id(&self) -> &'a Value {
        self.message.get("id").unwrap_or(&Value::Null)
    }

    pub(super) fn params(&self) -> &'a Value {
        self.message.get("params").unwrap_or(&Value::Null)
    }

    /// What the request is about: a tool, a prompt or a resource.
    pub(super) fn subject(&self) -> Option<&'a str> {
        let member = if self.method() == method::RESOURCES_READ { "uri" } else { "name" };
        self.params().get(member).and_then(Value::as_str)
    }
}

pub(super) fn error(code: i64, message: &str) -> Value {
    json!({"code": code, "message": message})
}
