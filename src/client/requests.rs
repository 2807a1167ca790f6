use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::jsonrpc::{Json, Object};
use crate::protocol::method;

/// A request: its method, parameters and timeouts.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Request {
    pub(super) method: Cow<'static, str>,
    #[cfg_attr(
        feature = "serde",
        serde(
            default,
            skip_serializing_if = "Option::is_none",
            deserialize_with = "crate::form::optional_raw::deserialize"
        )
    )]
    pub(super) params: Option<Box<RawValue>>,
    #[cfg_attr(feature = "serde", serde(default))]
    pub(super) timeout: Option<Duration>,
    #[cfg_attr(feature = "serde", serde(default))]
    pub(super) max_timeout: Option<Duration>,
    #[cfg_attr(feature = "serde", serde(default))]
    pub(super) progress: bool,
    #[cfg_attr(feature = "serde", serde(default))]
    pub(super) replay: Option<bool>,
    #[cfg_attr(feature = "serde", serde(default))]
    pub(super) trace: Option<Box<TraceContext>>,
}

/// What a completion refers to (specification 2026-07-28, "Completion").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference<'a> {
    /// The prompt of this name.
    Prompt(&'a str),
    /// The resource template with this URI template.
    Resource(&'a str),
}

/// An object with these members, as parameters.
fn object(members: impl FnOnce(&mut Object<'_>)) -> Option<Box<RawValue>> {
    let mut json = Vec::with_capacity(128);
    let mut object = Object::begin(&mut json);
    members(&mut object);
    object.end();
    String::from_utf8(json).ok().map(|json| Json::trusted(&json).to_raw())
}

impl Request {
    /// `tools/call` with the server's name of the tool and its arguments, a JSON object:
    /// `RawValue::from_string(r#"{"text": "hi"}"#.into())`, or `serde_json::value::to_raw_value` of a type that
    /// serializes to an object.
    pub fn call_tool(name: &str, arguments: Option<&RawValue>) -> Self {
        let params = object(|params| {
            params.string("name", name);
            if let Some(arguments) = arguments {
                params.raw("arguments", arguments.get());
            }
        });
        Self { params, ..Self::new(method::TOOLS_CALL) }
    }

    /// `prompts/get` with the name of the prompt and its arguments.
    pub fn get_prompt<'a>(name: &str, arguments: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let params = object(|params| {
            // Some servers require the object, even if it is empty.
            params.string("name", name).object("arguments", |object| {
                for (name, value) in arguments {
                    object.string(name, value);
                }
            });
        });
        Self { params, ..Self::new(method::PROMPTS_GET) }
    }

    /// `resources/read` with the URI of the resource.
    pub fn read_resource(uri: &str) -> Self {
        let params = object(|params| {
            params.string("uri", uri);
        });
        Self { params, ..Self::new(method::RESOURCES_READ) }
    }

    /// `completion/complete` of an argument, with the text that was typed so far.
    pub fn complete(reference: Reference<'_>, argument: &str, typed: &str) -> Self {
        Self::complete_with(reference, argument, typed, [])
    }

    /// As [`complete`](Self::complete), with the values of other arguments of the same prompt or template, on which the
    /// completion may depend (`context.arguments`, since 2025-06-18).
    pub fn complete_with<'a>(
        reference: Reference<'_>,
        argument: &str,
        typed: &str,
        others: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let mut others = others.into_iter().peekable();
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
            if others.peek().is_some() {
                params.object("context", |context| {
                    context.object("arguments", |arguments| {
                        for (name, value) in others.by_ref() {
                            arguments.string(name, value);
                        }
                    });
                });
            }
        });
        Self { params, ..Self::new(method::COMPLETE) }
    }

    /// A request with this method, and these members as parameters.
    #[cfg(feature = "skills")]
    pub(crate) fn with_members(method: &'static str, members: impl FnOnce(&mut Object<'_>)) -> Self {
        Self { params: object(members), ..Self::new(method) }
    }

    /// A request with this method, without parameters.
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

    /// Sets the parameters, a raw JSON object. Only its `_meta` is modified.
    #[must_use]
    pub fn params(mut self, params: Box<RawValue>) -> Self {
        self.params = Some(params);
        self
    }

    /// Sets the parameters to a value that serializes to a JSON object.
    ///
    /// # Errors
    /// An error of the value's serialization.
    pub fn with_params(self, params: &impl Serialize) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(params).map(|params| self.params(params))
    }

    /// Sets the timeout, which includes the time until the client is ready.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the maximum time, however much progress the server reports.
    #[must_use]
    pub fn max_timeout(mut self, max: Duration) -> Self {
        self.max_timeout = Some(max);
        self
    }

    /// Asks the server for progress, which is reported as [`Event::Progress`](crate::Event::Progress). Each report
    /// restarts the timeout, up to the maximum time (specification 2026-07-28, "Progress").
    #[must_use]
    pub fn progress(mut self) -> Self {
        self.progress = true;
        self
    }

    /// Sets whether the request may be sent again, up to twice, if the connection is lost after it was sent. It may run
    /// more than once then. By default only calls of tools with a read-only or idempotent hint are sent again, if
    /// [`Options::trust`](crate::Options::trust) is set, and over HTTP requests whose method only reads: lists,
    /// `resources/read`, `prompts/get`, `completion/complete`.
    #[must_use]
    pub fn replay(mut self, allowed: bool) -> Self {
        self.replay = Some(allowed);
        self
    }

    /// Sets the trace context (specification 2026-07-28, "OpenTelemetry trace context").
    #[must_use]
    pub fn trace(mut self, trace: TraceContext) -> Self {
        self.trace = Some(Box::new(trace));
        self
    }
}

/// The members of `_meta` that are reserved for OpenTelemetry. They are sent unchanged. Set them on the default, which
/// has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
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
