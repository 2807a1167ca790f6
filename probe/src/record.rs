//! What a run records in addition to the session's state.

use mcp_proto::{Failure, Outcome, RequestError, Time, TimeBound};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::authorization_report::AuthorizationReport;
use crate::raw::Members;
use crate::step::Step;

/// Bounds on recorded events, whatever a server sends.
const EVENTS: usize = 10_000;
const EVENT_BYTES: usize = 64 << 20;

#[derive(Default)]
pub(crate) struct Record {
    pub(crate) ready: bool,
    pub(crate) failure: Option<FailureReport>,
    pub(crate) calls: Vec<CallRecord>,
    pub(crate) connects: u32,
    /// `None` where no authorization was required.
    pub(crate) authorization: Option<AuthorizationReport>,
    /// When the transport first opened, when the handshake completed, and when the session became ready.
    pub(crate) opened: Option<Time>,
    pub(crate) introduced: Option<Time>,
    pub(crate) discovered: Option<Time>,
    events: Vec<EventRecord>,
    event_bytes: usize,
    pub(crate) events_left_out: u64,
}

#[derive(Clone, Serialize)]
pub(crate) struct FailureReport {
    pub(crate) kind: String,
    pub(crate) message: String,
}

impl From<&Failure> for FailureReport {
    fn from(failure: &Failure) -> Self {
        Self { kind: failure.kind.as_str().into(), message: (&*failure.message).into() }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventRecord {
    pub(crate) at_ms: u64,
    pub(crate) kind: &'static str,
    pub(crate) detail: Box<RawValue>,
}

/// A call, a read or a prompt, and its outcome.
#[derive(Serialize)]
pub(crate) struct CallRecord {
    pub(crate) method: &'static str,
    pub(crate) target: String,
    pub(crate) outcome: &'static str,
    pub(crate) result: Option<Box<RawValue>>,
    pub(crate) error: Option<ErrorReport>,
    #[serde(skip)]
    pub(crate) took: Option<std::time::Duration>,
    /// Its server, if there are several.
    #[serde(skip)]
    pub(crate) server: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct ErrorReport {
    /// The code of the server's JSON-RPC error.
    pub(crate) code: Option<i64>,
    /// The HTTP status, if the server sent no JSON-RPC error.
    pub(crate) status: Option<u16>,
    pub(crate) message: String,
    pub(crate) data: Option<Box<RawValue>>,
}

impl ErrorReport {
    /// An error that the engine found.
    pub(crate) fn new(message: String) -> Self {
        Self { code: None, status: None, message, data: None }
    }
}

impl From<RequestError> for ErrorReport {
    fn from(error: RequestError) -> Self {
        let message = error.to_string();
        match error {
            RequestError::Server(error) => {
                Self { code: Some(error.code), data: error.data, ..Self::new((&*error.message).into()) }
            }
            RequestError::Status { status, .. } => Self { status: Some(status), ..Self::new(message) },
            RequestError::Invalid(_) | _ => Self::new(message),
        }
    }
}

impl CallRecord {
    /// A call without a response.
    pub(crate) fn without_answer(step: &Step, outcome: &'static str) -> Self {
        let (method, target) = (step.method(), step.target.clone());
        Self { method, target, outcome, result: None, error: None, took: None, server: None }
    }

    pub(crate) fn ended(step: &Step, outcome: Outcome) -> Self {
        let bare = |word| Self::without_answer(step, word);
        match outcome {
            Outcome::Result(result) => {
                let failed = || Members::of(&result).get("isError").is_some_and(|value| value.get() == "true");
                let word = if step.is_call() && failed() { "tool-error" } else { "result" };
                Self { result: Some(result), ..bare(word) }
            }
            Outcome::Error(error) => Self { error: Some(error.into()), ..bare("error") },
            Outcome::InputRequired(result) => Self { result: Some(result), ..bare("input-required") },
            Outcome::NotAdvertised => bare("not-advertised"),
            Outcome::TimedOut(bound) => Self { error: Some(ErrorReport::new(passed(bound).into())), ..bare("timeout") },
            Outcome::Cancelled => bare("cancelled"),
            Outcome::NotSent => bare("not-sent"),
            Outcome::Unknown => bare("unknown"),
            _ => bare("unknown"),
        }
    }

    pub(crate) fn is_good(&self) -> bool {
        matches!(self.outcome, "result" | "tool-error")
    }
}

/// Says which bound on a request's time passed.
const fn passed(bound: TimeBound) -> &'static str {
    match bound {
        TimeBound::Timeout => "neither a response nor progress within the timeout",
        TimeBound::Total | _ => "no response within the maximum time, despite progress or a task",
    }
}

impl Record {
    pub(crate) fn event(&mut self, at: Time, kind: &'static str, detail: Box<RawValue>) {
        let bytes = self.event_bytes.saturating_add(detail.get().len());
        if self.events.len() >= EVENTS || bytes > EVENT_BYTES {
            self.events_left_out = self.events_left_out.saturating_add(1);
            return;
        }
        self.event_bytes = bytes;
        self.events.push(EventRecord { at_ms: at.as_millis(), kind, detail });
    }

    pub(crate) fn events(&self) -> &[EventRecord] {
        &self.events
    }
}

#[cfg(test)]
mod tests {
    use mcp_proto::jsonrpc::ErrorObject;

    use super::*;

    fn report(error: RequestError) -> String {
        serde_json::to_string(&ErrorReport::from(error)).unwrap_or_default()
    }

    #[test]
    fn a_timeout_names_the_bound_that_passed() {
        for (bound, words) in [(TimeBound::Timeout, "nor progress"), (TimeBound::Total, "maximum time")] {
            let call = CallRecord::ended(&Step::call("a".into()), Outcome::TimedOut(bound));
            assert_eq!(call.outcome, "timeout");
            assert!(call.error.is_some_and(|error| error.message.contains(words)), "{bound:?}");
        }
    }

    #[test]
    fn an_error_of_the_server_has_its_code() {
        assert_eq!(
            report(RequestError::Server(ErrorObject::new(-32602, "no"))),
            r#"{"code":-32602,"status":null,"message":"no","data":null}"#
        );
    }

    #[test]
    fn an_error_without_a_json_rpc_error_has_the_http_status_if_there_is_one() {
        assert_eq!(
            report(RequestError::Status { status: 500, message: "broken".into() }),
            r#"{"code":null,"status":500,"message":"HTTP 500: broken","data":null}"#
        );
        assert_eq!(
            report(RequestError::Invalid("no result".into())),
            r#"{"code":null,"status":null,"message":"no result","data":null}"#
        );
    }
}
