//! What is recorded of a server in a run: failures, calls, events, its authorization.

use std::time::Duration;

use mcp_proto::binding::oauth::{Grant, GrantKind, OAuthError, RegistrationKind, TokenId};
use mcp_proto::{Diagnosis, Failure, FailureKind, Outcome, RequestError, Time, TimeBound};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::args::Step;
use crate::raw::Members;

/// Bounds on recorded events, whatever a server sends.
const EVENTS: usize = 10_000;
const EVENT_BYTES: usize = 64 << 20;

#[derive(Default)]
pub(crate) struct Record {
    pub(crate) ready: bool,
    pub(crate) failure: Option<FailureReport>,
    pub(crate) diagnosis: Option<Diagnosis>,
    pub(crate) calls: Vec<CallRecord>,
    pub(crate) connects: u32,
    /// How often its program was started.
    pub(crate) starts: u32,
    /// `None` where no authorization was required.
    pub(crate) authorization: Option<AuthorizationReport>,
    /// When the transport first opened, when the handshake completed, and when the session became ready.
    pub(crate) opened: Option<Time>,
    pub(crate) introduced: Option<Time>,
    pub(crate) discovered: Option<Time>,
    pub(crate) events: Vec<EventRecord>,
    event_bytes: usize,
    pub(crate) events_left_out: u64,
}

#[derive(Clone, Serialize)]
pub(crate) struct FailureReport {
    pub(crate) kind: String,
    pub(crate) message: String,
    /// What it is to the library; `None` if it is none of a server.
    #[serde(skip)]
    pub(crate) of: Option<FailureKind>,
}

impl FailureReport {
    pub(crate) fn new(kind: &str, message: String, of: Option<FailureKind>) -> Self {
        Self { kind: kind.into(), message, of }
    }
}

impl From<&Failure> for FailureReport {
    fn from(failure: &Failure) -> Self {
        Self::new(failure.kind.as_str(), (&*failure.message).into(), Some(failure.kind))
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
    pub(crate) took: Option<Duration>,
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

    pub(crate) fn ended(step: &Step, outcome: Outcome, took: Duration) -> Self {
        let bare = |word| Self { took: Some(took), ..Self::without_answer(step, word) };
        let late = |why: &str| Self { error: Some(ErrorReport::new(why.into())), ..bare("timeout") };
        match outcome {
            Outcome::Result(result) => {
                let failed = || Members::of(&result).get("isError").is_some_and(|value| value.get() == "true");
                let word = if step.is_call() && failed() { "tool-error" } else { "result" };
                Self { result: Some(result), ..bare(word) }
            }
            Outcome::Error(error) => Self { error: Some(error.into()), ..bare("error") },
            Outcome::InputRequired(result) => Self { result: Some(result), ..bare("input-required") },
            Outcome::NotAdvertised => bare("not-advertised"),
            Outcome::TimedOut(bound) => late(passed(bound)),
            // Only the end of the run's time cancels a call.
            Outcome::Cancelled => late("no response before the run's time was up"),
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
    /// Has the cause of the failure found, if it is one of the server.
    pub(crate) fn diagnose(&mut self, diagnose: impl FnOnce(Failure) -> Diagnosis) {
        let failure = self.failure.as_ref().and_then(|it| Some(Failure::new(it.of?, &*it.message)));
        self.diagnosis = failure.map(diagnose);
    }

    pub(crate) fn event(&mut self, at: Time, kind: &'static str, detail: Box<RawValue>) {
        let bytes = self.event_bytes.saturating_add(detail.get().len());
        if self.events.len() >= EVENTS || bytes > EVENT_BYTES {
            self.events_left_out = self.events_left_out.saturating_add(1);
            return;
        }
        self.event_bytes = bytes;
        self.events.push(EventRecord { at_ms: at.as_millis(), kind, detail });
    }
}

#[derive(Clone, Default, Serialize)]
pub(crate) struct AuthorizationReport {
    pub(crate) issuer: Option<Box<str>>,
    pub(crate) resource: Option<Box<str>>,
    /// How the client of the last token was registered, or `stored` if it came with a stored record.
    pub(crate) registration: Option<&'static str>,
    pub(crate) scopes: Vec<String>,
    /// How each token was obtained, in order.
    pub(crate) grants: Vec<&'static str>,
    pub(crate) error: Option<AuthorizationError>,
    #[serde(skip)]
    last: Option<TokenId>,
    /// This run registers a client.
    #[serde(skip)]
    is_registered: bool,
}

#[derive(Clone, Serialize)]
pub(crate) struct AuthorizationError {
    pub(crate) stage: &'static str,
    pub(crate) reason: Box<str>,
}

/// The registration of a client that came with a stored record.
const STORED: &str = "stored";

impl AuthorizationReport {
    pub(crate) const fn registers(&mut self) {
        self.is_registered = true;
    }

    pub(crate) fn granted(&mut self, grant: Grant) {
        self.error = None;
        // Requests that are sent again with a known token are reported, too.
        if self.last.replace(grant.token) == Some(grant.token) {
            return;
        }
        let registered = grant.registration.as_str();
        self.registration = Some(match (grant.kind, self.registration) {
            // A refresh uses the client of the token before it; if it is the first token, that of the stored record.
            (GrantKind::Stored, _) | (GrantKind::RefreshToken, None) => STORED,
            (GrantKind::RefreshToken, Some(before)) => before,
            (_, Some(STORED)) if !self.is_registered => STORED,
            (_, None) if grant.registration == RegistrationKind::Dynamic && !self.is_registered => STORED,
            _ => registered,
        });
        if grant.kind != GrantKind::Stored {
            self.grants.push(grant.kind.as_str());
        }
        self.scopes = grant.scopes.split_ascii_whitespace().map(str::to_owned).collect();
        (self.issuer, self.resource) = (Some(grant.issuer), Some(grant.resource));
    }

    pub(crate) fn failed(&mut self, error: &OAuthError) {
        self.error = Some(AuthorizationError { stage: error.stage.as_str(), reason: error.reason.clone() });
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
            let call =
                CallRecord::ended(&Step::new("call", "a".into()).unwrap(), Outcome::TimedOut(bound), Duration::ZERO);
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
