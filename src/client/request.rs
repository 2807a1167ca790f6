//! Requests: what the embedder asks for, and what the client keeps of a request while it is open.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use serde::Serialize;
use serde_json::value::RawValue;

use super::event::TaskStatus;
use super::{Outcome, RequestId};
use crate::Time;
use crate::jsonrpc::{ErrorObject, Json, Object};
use crate::machine::task::{self, State};
use crate::protocol::{Family, ProtocolVersion, method};

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
    /// The request follows the task of an earlier call, which its parameters name.
    #[cfg_attr(feature = "serde", serde(default))]
    pub(super) resumes: bool,
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
    object_of(128, members)
}

/// As [`object`], of about so many bytes.
fn object_of(bytes: usize, members: impl FnOnce(&mut Object<'_>)) -> Option<Box<RawValue>> {
    let mut json = Vec::with_capacity(bytes);
    let mut object = Object::begin(&mut json);
    members(&mut object);
    object.end();
    String::from_utf8(json).ok().map(Json::into_raw)
}

impl Request {
    /// Bytes of its parameters.
    pub(super) fn bytes(&self) -> usize {
        self.params.as_ref().map_or(0, |params| params.get().len())
    }

    /// `tools/call` with the server's name of the tool and its arguments, a JSON object:
    /// `RawValue::from_string(r#"{"text": "hi"}"#.into())`, or `serde_json::value::to_raw_value` of a type that
    /// serializes to an object.
    pub fn call_tool(name: &str, arguments: Option<&RawValue>) -> Self {
        let given = arguments.map_or(0, |arguments| arguments.get().len());
        let around = r#"{"name":"","arguments":}"#.len();
        let params = object_of(name.len().saturating_add(given).saturating_add(around), |params| {
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

    /// Follows a call that the server runs as a task already, by the server's id of the task
    /// ([`Task::id`](crate::Task::id)): the call of an earlier run of the program, or one whose request ended before its task.
    /// The task is polled, its input is asked for, and the request ends with the result of the call, as the call's own
    /// request does (specification of the extension `io.modelcontextprotocol/tasks`, Task Polling; 2025-11-25, "Tasks").
    ///
    /// [`ClientCapabilities::tasks`](crate::ClientCapabilities::tasks) has to be set, and the id has 1 to 1,024 bytes. Cancelling the request cancels the task.
    /// With parameters of its own it is a plain `tasks/get`, which ends with its response.
    pub fn resume_task(id: &str) -> Self {
        let params = object(|params| {
            params.string("taskId", id);
        });
        Self { params, resumes: true, ..Self::new(method::TASKS_GET) }
    }

    /// The task that the request follows.
    pub(super) fn resumed(&self) -> Option<Cow<'_, str>> {
        let params = self.params.as_deref().filter(|_| self.resumes)?;
        Json::from(params).member("taskId").and_then(Json::as_string)
    }

    /// A request with this method, without parameters.
    pub fn new(method: impl Into<Cow<'static, str>>) -> Self {
        let method = method.into();
        Self {
            progress: method == method::TOOLS_CALL,
            method,
            params: None,
            timeout: None,
            max_timeout: None,
            replay: None,
            trace: None,
            resumes: false,
        }
    }

    /// The method.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// Sets the parameters, a raw JSON object. Only its `_meta` is modified.
    #[must_use]
    pub fn params(mut self, params: Box<RawValue>) -> Self {
        (self.params, self.resumes) = (Some(params), false);
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

    /// Sets whether the server is asked for progress, which is reported as [`Event::Progress`](crate::Event::Progress).
    /// Each report restarts the timeout, up to the maximum time (specification 2026-07-28, "Progress"). By default only
    /// calls of tools ask for it.
    #[must_use]
    pub const fn progress(mut self, asked: bool) -> Self {
        self.progress = asked;
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

impl PartialEq for Request {
    fn eq(&self, other: &Self) -> bool {
        let Self { method, params, timeout, max_timeout, progress, replay, trace, resumes } = self;
        (method, timeout, max_timeout, progress, replay, trace)
            == (&other.method, &other.timeout, &other.max_timeout, &other.progress, &other.replay, &other.trace)
            && *resumes == other.resumes
            && params.as_deref().map(RawValue::get) == other.params.as_deref().map(RawValue::get)
    }
}

impl Eq for Request {}

/// A method that the engine sends.
type Method = &'static str;

/// How often a request waits for authorization, so that it ends.
pub(crate) const AUTHORIZATIONS: u8 = 3;

/// The purpose of a request on the wire.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Purpose {
    /// `server/discover`, with this version.
    Discover(ProtocolVersion),
    /// `initialize`, with this version.
    Initialize(ProtocolVersion),
    /// A page of a list, after this cursor, a JSON string.
    List {
        family: Family,
        #[cfg_attr(feature = "snapshot", serde(deserialize_with = "crate::jsonrpc::form::optional_json"))]
        cursor: Option<Box<str>>,
    },
    SetLevel,
    /// A keepalive request with this method.
    Keepalive(#[cfg_attr(feature = "snapshot", serde(deserialize_with = "method::deserialize_keepalive"))] Method),
    /// `server/discover` again, because the time of its result is over.
    Rediscover,
    /// The listen stream with this filter, a JSON object. An acknowledged stream waits for no response.
    Listen {
        #[cfg_attr(feature = "snapshot", serde(deserialize_with = "crate::jsonrpc::form::json"))]
        filter: Box<str>,
        agreed: bool,
    },
    /// Subscribe to this resource (legacy).
    Subscribe(Box<str>),
    /// Unsubscribe from this resource (legacy).
    Unsubscribe(Box<str>),
    /// Cancel the task with this id.
    CancelTask(Box<str>),
    /// Poll the task with this id, whose call waits for input of the embedder.
    PollTask(Box<str>),
    Call(Call),
}

/// A request of the embedder.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Call {
    /// The embedder's id of the request: its first id on the wire.
    pub(super) handle: RequestId,
    pub(super) request: Request,
    /// It is `tools/call`.
    tool: bool,
    /// The timeout, which each progress notification restarts.
    pub(super) timeout: Duration,
    /// When it ends at the latest, on the call clock, whatever progress is reported.
    pub(super) latest: Time,
    /// For how long the call clock had been paused when the call was made.
    pub(super) paused_total: Duration,
    pub(super) progress: CallProgress,
    /// How often it was sent again although it may have run, apart from what only reads after 503.
    pub(super) lost: u8,
    /// An attempt before the last one may have run.
    pub(super) may_have_run: bool,
    /// The server reported progress of the last attempt: it runs.
    pub(super) has_begun: bool,
    /// The input that the server requires or that was provided.
    pub(super) input: Option<Box<InputRounds>>,
    /// What it waits for, while it is blocked.
    pub(super) blocked: Option<Box<Blocked>>,
    /// How often it was sent again because its session expired.
    pub(super) expired: u8,
    /// How often it waited for authorization.
    pub(super) unauthorized: u8,
    /// How often it was refused because of its headers.
    pub(super) headers_refused: u8,
    /// How often it required URLs to be visited.
    pub(super) urls: u8,
    /// How often it was polled.
    pub(super) attempts: u32,
    /// The task that the server runs it as.
    pub(super) task: Option<Box<CallTask>>,
}

/// A request that the server refused unprocessed.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Blocked {
    pub(super) by: Block,
    /// How it ends if what it waits for is not provided.
    pub(super) outcome: Outcome,
    /// The time that it had left when it was blocked.
    pub(super) left: Duration,
    /// Since when it waits, on the call clock.
    pub(super) since: Time,
}

/// What a blocked request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Block {
    /// Authorization by the embedder.
    Authorization,
    /// The headers that the tool's schema requires.
    Headers,
}

/// The rounds of input of a request (specification 2026-07-28, "Multi Round-Trip Requests").
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct InputRounds {
    pub(super) rounds: u32,
    /// The server's last result.
    pub(super) result: Box<RawValue>,
    /// The server's `requestState`, unchanged, if there is one.
    #[cfg_attr(feature = "snapshot", serde(deserialize_with = "crate::jsonrpc::form::optional_json"))]
    pub(super) state: Option<Box<str>>,
    /// The responses that the engine provides itself: the server's keys, and JSON.
    #[cfg_attr(feature = "snapshot", serde(deserialize_with = "crate::jsonrpc::form::json_values"))]
    pub(super) known: Vec<(Box<str>, Box<str>)>,
    /// The value of `inputResponses`, once it is complete.
    #[cfg_attr(feature = "snapshot", serde(deserialize_with = "crate::jsonrpc::form::optional_json"))]
    pub(super) responses: Option<Box<str>>,
    /// How many of its bytes count towards the limit.
    pub(super) bytes: usize,
    /// The server's error, if that required the input.
    pub(super) error: Option<ErrorObject>,
    /// The time that the request had left when the server required input.
    pub(super) left: Duration,
    /// When the server required it, on the call clock.
    pub(super) since: Time,
}

impl Purpose {
    /// The method of the request.
    #[inline]
    pub(super) fn method(&self) -> Cow<'static, str> {
        match self {
            Self::Discover(_) | Self::Rediscover => Cow::Borrowed(method::DISCOVER),
            Self::Initialize(_) => Cow::Borrowed(method::INITIALIZE),
            Self::List { family, .. } => Cow::Borrowed(family.list_method()),
            Self::SetLevel => Cow::Borrowed(method::SET_LEVEL),
            Self::Keepalive(method) => Cow::Borrowed(*method),
            Self::Listen { .. } => Cow::Borrowed(method::LISTEN),
            Self::Subscribe(_) => Cow::Borrowed(method::SUBSCRIBE),
            Self::Unsubscribe(_) => Cow::Borrowed(method::UNSUBSCRIBE),
            Self::CancelTask(_) => Cow::Borrowed(method::TASKS_CANCEL),
            Self::PollTask(_) => Cow::Borrowed(method::TASKS_GET),
            Self::Call(call) => call.method(),
        }
    }

    #[inline]
    pub(super) const fn is_tool_call(&self) -> bool {
        matches!(self, Self::Call(Call { tool: true, task: None, .. }))
    }

    /// The request of the embedder, if it is one.
    #[inline]
    pub(super) const fn call(&self) -> Option<&Call> {
        if let Self::Call(call) = self { Some(call) } else { None }
    }

    #[inline]
    pub(super) const fn call_mut(&mut self) -> Option<&mut Call> {
        if let Self::Call(call) = self { Some(call) } else { None }
    }
}

impl Call {
    /// The method of the call, or of the request about its task.
    #[inline]
    fn method(&self) -> Cow<'static, str> {
        use task::State;
        match self.task.as_ref().map(|task| task.state) {
            None => self.request.method.clone(),
            Some(State::Created | State::Working | State::Done | State::Asking | State::Over) => {
                Cow::Borrowed(method::TASKS_GET)
            }
            Some(State::Updating) => Cow::Borrowed(method::TASKS_UPDATE),
            Some(State::Fetching) => Cow::Borrowed(method::TASKS_RESULT),
        }
    }

    #[inline]
    pub(super) fn new(
        handle: RequestId,
        request: Request,
        timeout: Duration,
        latest: Time,
        paused_total: Duration,
    ) -> Self {
        let followed = request.resumed().map(|id| Box::new(CallTask::new((*id).into(), State::Working, handle.0)));
        Self {
            handle,
            tool: request.method == method::TOOLS_CALL,
            request,
            timeout,
            latest,
            paused_total,
            progress: CallProgress::None,
            lost: 0,
            may_have_run: false,
            has_begun: false,
            input: None,
            blocked: None,
            expired: 0,
            unauthorized: 0,
            headers_refused: 0,
            urls: 0,
            attempts: 0,
            task: followed,
        }
    }
}

/// The progress of a call.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum CallProgress {
    None,
    /// The last was reported to the embedder at this time.
    Reported(Time),
    /// One was reported at this time. What came last was not, since that was shortly before.
    Held(Box<(Time, String)>),
}

impl CallProgress {
    /// When it was last reported.
    pub(super) fn reported_at(&self) -> Option<Time> {
        match self {
            Self::None => None,
            Self::Reported(at) => Some(*at),
            Self::Held(held) => Some(held.0),
        }
    }

    /// Another one came, which is reported now or kept.
    pub(super) fn take(&mut self, reported_at: Option<Time>, json: &str) {
        match (&mut *self, reported_at) {
            (_, Some(now)) => *self = Self::Reported(now),
            (Self::Held(held), None) => {
                held.1.clear();
                held.1.push_str(json);
            }
            (Self::Reported(at), None) => *self = Self::Held(Box::new((*at, json.into()))),
            (Self::None, None) => {}
        }
    }
}

/// A task that the server runs for a call.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct CallTask {
    /// The server's id.
    pub(super) id: Box<str>,
    pub(super) state: State,
    /// The status and the message that were last reported to the embedder.
    pub(super) reported_status: Option<(TaskStatus, Option<Box<str>>)>,
    /// The wait before each poll.
    pub(super) interval: Duration,
    /// The progress token of the call, which stays valid.
    pub(super) token: u64,
    /// When it is polled next, while nothing is on its way.
    pub(super) poll_at: Option<Time>,
    /// The keys of the inputs that were required so far, and their bytes.
    pub(super) keys: BTreeSet<Box<str>>,
    pub(super) key_bytes: usize,
}

impl CallTask {
    /// A task with this id, in the call whose progress token this is.
    pub(super) fn new(id: Box<str>, state: State, token: u64) -> Self {
        Self {
            id,
            state,
            reported_status: None,
            interval: Duration::ZERO,
            token,
            poll_at: None,
            keys: BTreeSet::new(),
            key_bytes: 0,
        }
    }
}
