use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;
use serde_json::value::RawValue;

use super::super::requests::Request;
use super::super::{Outcome, RequestId};
use super::call_task::CallTask;
use crate::Time;
use crate::jsonrpc::ErrorObject;
use crate::machine::resend::Used;
use crate::machine::task;
use crate::protocol::{Family, ProtocolVersion, method};

/// A method that the engine sends.
type Method = &'static str;

/// The purpose of a request on the wire.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::client) enum Purpose {
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
    Call(Call),
}

/// A request of the embedder.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::client) struct Call {
    /// The embedder's id of the request: its first id on the wire.
    pub(in crate::client) handle: RequestId,
    pub(in crate::client) request: Request,
    /// It is `tools/call`.
    tool: bool,
    /// The timeout, which each progress notification restarts.
    pub(in crate::client) timeout: Duration,
    /// When it ends at the latest, on the call clock, whatever progress is reported.
    pub(in crate::client) latest: Time,
    /// For how long the call clock had been paused when the call was made.
    pub(super) paused_total: Duration,
    /// When progress was reported last.
    pub(in crate::client) progress_reported_at: Option<Time>,
    /// How often it was sent again although it may have run.
    pub(in crate::client) lost: Used,
    /// The input that the server requires or that was provided.
    pub(in crate::client) input: Option<Box<InputRounds>>,
    /// What it waits for, while it is blocked.
    pub(in crate::client) blocked: Option<Box<Blocked>>,
    /// How often it was sent again because its session expired.
    pub(in crate::client) expired: Used,
    /// How often it waited for authorization.
    pub(in crate::client) unauthorized: Used,
    /// How often it was refused because of its headers.
    pub(in crate::client) headers_refused: Used,
    /// How often it required URLs to be visited.
    pub(in crate::client) urls: Used,
    /// How often it was polled.
    pub(in crate::client) attempts: u32,
    /// The task that the server runs it as.
    pub(in crate::client) task: Option<Box<CallTask>>,
}

/// A request that the server refused unprocessed.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::client) struct Blocked {
    pub(in crate::client) by: Block,
    /// How it ends if what it waits for is not provided.
    pub(in crate::client) outcome: Outcome,
    /// The time that it had left when it was blocked.
    pub(in crate::client) left: Duration,
    /// Since when it waits, on the call clock.
    pub(in crate::client) since: Time,
}

/// What a blocked request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::client) enum Block {
    /// Authorization by the embedder.
    Authorization,
    /// The headers that the tool's schema requires.
    Headers,
}

/// The rounds of input of a request (specification 2026-07-28, "Multi Round-Trip Requests").
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(in crate::client) struct InputRounds {
    pub(in crate::client) rounds: u32,
    /// The server's last result.
    pub(in crate::client) result: Box<RawValue>,
    /// The server's `requestState`, unchanged, if there is one.
    #[cfg_attr(feature = "snapshot", serde(deserialize_with = "crate::jsonrpc::form::optional_json"))]
    pub(in crate::client) state: Option<Box<str>>,
    /// The responses that the engine provides itself: the server's keys, and JSON.
    #[cfg_attr(feature = "snapshot", serde(deserialize_with = "crate::jsonrpc::form::json_values"))]
    pub(in crate::client) known: Vec<(Box<str>, Box<str>)>,
    /// The value of `inputResponses`, once it is complete.
    #[cfg_attr(feature = "snapshot", serde(deserialize_with = "crate::jsonrpc::form::optional_json"))]
    pub(in crate::client) responses: Option<Box<str>>,
    /// How many of its bytes count towards the limit.
    pub(in crate::client) bytes: usize,
    /// The server's error, if that required the input.
    pub(in crate::client) error: Option<ErrorObject>,
    /// The time that the request had left when the server required input.
    pub(in crate::client) left: Duration,
    /// When the server required it, on the call clock.
    pub(in crate::client) since: Time,
}

impl Purpose {
    /// The method of the request.
    #[inline]
    pub(in crate::client) fn method(&self) -> Cow<'static, str> {
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
            Self::Call(call) => call.method(),
        }
    }

    #[inline]
    pub(in crate::client) const fn is_tool_call(&self) -> bool {
        matches!(self, Self::Call(Call { tool: true, task: None, .. }))
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
        Self {
            handle,
            tool: request.method == method::TOOLS_CALL,
            request,
            timeout,
            latest,
            paused_total,
            progress_reported_at: None,
            lost: Used::Never,
            input: None,
            blocked: None,
            expired: Used::Never,
            unauthorized: Used::Never,
            headers_refused: Used::Never,
            urls: Used::Never,
            attempts: 0,
            task: None,
        }
    }
}
