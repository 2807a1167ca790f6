use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::jsonrpc::{Json, Object};
use crate::protocol::method;

/// A request to make: a method, parameters, and how long it may take.
#[derive(Clone, Debug)]
pub struct Request {
    pub(super) method: Cow<'static, str>,
    pub(super) params: Option<Box<RawValue>>,
    pub(super) timeout: Option<Duration>,
    pub(super) max_timeout: Option<Duration>,
    pub(super) progress: bool,
    pub(super) replay: Option<bool>,
    pub(super) trace: Option<Box<TraceContext>>,
}

/// What a completion is for (specification 2026-07-28, "Completion").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference<'a> {
    /// An argument of the prompt of this name.
    Prompt(&'a str),
    /// A variable of the resource template of this URI template.
    Resource(&'a str),
}

/// Parameters that are an object with these members.
fn object(members: impl FnOnce(&mut Object<'_>)) -> Option<Box<RawValue>> {
    let mut json = Vec::with_capacity(128);
    let mut object = Object::begin(&mut json);
    members(&mut object);
    object.end();
    String::from_utf8(json).ok().map(|json| Json::trusted(&json).to_raw())
}

impl Request {
    /// `tools/call` of the tool of this name, its own, with these arguments: a JSON object.
    pub fn call_tool(name: &str, arguments: Option<&RawValue>) -> Self {
        let params = object(|params| {
            params.string("name", name);
            if let Some(arguments) = arguments {
                params.raw("arguments", arguments.get());
            }
        });
        Self { params, ..Self::new(method::TOOLS_CALL) }
    }

    /// `prompts/get` of the prompt of this name, with these arguments by their names.
    pub fn get_prompt<'a>(name: &str, arguments: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let params = object(|params| {
            // Some servers miss an object that is not there, though there is nothing to say in it.
            params.string("name", name).object("arguments", |object| {
                for (name, value) in arguments {
                    object.string(name, value);
                }
            });
        });
        Self { params, ..Self::new(method::PROMPTS_GET) }
    }

    /// `resources/read` of the resource of this URI.
    pub fn read_resource(uri: &str) -> Self {
        let params = object(|params| {
            params.string("uri", uri);
        });
        Self { params, ..Self::new(method::RESOURCES_READ) }
    }

    /// `completion/complete` of what was typed of an argument.
    pub fn complete(reference: Reference<'_>, argument: &str, typed: &str) -> Self {
        let params = object(|params| {
            params.object("ref", |object| match reference {
                Reference::Prompt(name) => {
                    object.string("type", "ref/prompt").string("name", name);
                }
                Reference::Resource(uri) => {
                    object.string("type", "ref/resource").string("uri", uri);
                }
            });
            params.object("argument", |object| {
                object.string("name", argument).string("value", typed);
            });
        });
        Self { params, ..Self::new(method::COMPLETE) }
    }

    /// A request of this method, without parameters.
    pub fn new(method: impl Into<Cow<'static, str>>) -> Self {
        Self {
            method: method.into(),
            params: None,
            timeout: None,
            max_timeout: None,
            progress: false,
            replay: None,
            trace: None,
        }
    }

    /// The parameters, raw: a JSON object. What it says beyond `_meta` reaches the server as it is.
    #[must_use]
    pub fn params(mut self, params: Box<RawValue>) -> Self {
        self.params = Some(params);
        self
    }

    /// The parameters, from what serialises to a JSON object.
    ///
    /// # Errors
    /// What the value's own serialisation says.
    pub fn with_params(self, params: &impl Serialize) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(params).map(|params| self.params(params))
    }

    /// How long it may take, the wait for the session to be ready included.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How long it may take at most, however much progress the server tells of.
    #[must_use]
    pub fn max_timeout(mut self, max: Duration) -> Self {
        self.max_timeout = Some(max);
        self
    }

    /// Asks the server to tell of its progress: as [`Event::Progress`](crate::Event::Progress), and each time the
    /// request may take its timeout once more (specification 2026-07-28, "Progress").
    #[must_use]
    pub fn progress(mut self) -> Self {
        self.progress = true;
        self
    }

    /// Whether it may be sent again, twice at most, where the connection broke after it was sent: it may run more
    /// than once then. Unless this says so, only a tool call may whose tool is read-only or idempotent by its hints.
    #[must_use]
    pub fn replay(mut self, allowed: bool) -> Self {
        self.replay = Some(allowed);
        self
    }

    /// The trace that it belongs to (specification 2026-07-28, "OpenTelemetry trace context").
    #[must_use]
    pub fn trace(mut self, trace: TraceContext) -> Self {
        self.trace = Some(Box::new(trace));
        self
    }
}

/// The members of `_meta` that OpenTelemetry reserves, passed through as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceContext {
    /// W3C Trace Context, `traceparent`.
    pub traceparent: Option<Box<str>>,
    /// W3C Trace Context, `tracestate`.
    pub tracestate: Option<Box<str>>,
    /// W3C Baggage.
    pub baggage: Option<Box<str>>,
}

impl TraceContext {
    pub(super) fn members(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [("traceparent", &self.traceparent), ("tracestate", &self.tracestate), ("baggage", &self.baggage)]
            .into_iter()
            .filter_map(|(name, value)| value.as_deref().map(|value| (name, value)))
    }
}
