//! Handles a session's events: records them for the report, and responds to server requests.

use std::time::{Duration, Instant};

use mcp_proto::catalog::Difference;
use mcp_proto::jsonrpc::ErrorObject;
use mcp_proto::{
    Cause, Challenge, Event, Failure, Family, InputRequest, Outcome, Recovery, RequestId, ServerRequestId, Time,
};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::args::Settings;
use crate::engine::Engine;
use crate::peer::Peer;
use crate::raw::{self, Members};
use crate::record::FailureReport;
use crate::text::{cut, one_line};

/// Maximum characters of an event on standard error.
const SHOWN: usize = 300;

#[derive(Serialize)]
struct AskedDetail<'a> {
    key: Option<&'a str>,
    method: &'a str,
    params: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct LogDetail<'a> {
    level: &'a str,
    logger: Option<&'a str>,
    data: &'a RawValue,
}

#[derive(Serialize)]
struct NotificationDetail<'a> {
    method: &'a str,
    params: Option<&'a RawValue>,
}

/// Measures time since the run began.
#[derive(Clone, Copy)]
pub(crate) struct Clock(pub(crate) Instant);

impl Clock {
    pub(crate) fn now(self) -> Time {
        Time::from_epoch(self.0.elapsed())
    }

    pub(crate) fn at(self, instant: Instant) -> Time {
        Time::from_epoch(instant.saturating_duration_since(self.0))
    }

    pub(crate) fn instant(self, time: Time) -> Option<Instant> {
        self.0.checked_add(Duration::from_micros(time.as_micros()))
    }
}

/// A server and its session while an event is handled.
pub(crate) struct EventHandler<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) peer: &'a mut Peer,
    pub(crate) engine: &'a mut Engine,
    /// The index of the server in the run.
    pub(crate) at: usize,
}

/// What the run has to do after an event.
pub(crate) enum Reaction {
    Nothing,
    Ready,
    Finished(RequestId, Outcome),
    Parked(Time),
    Closing,
    Closed,
}

impl EventHandler<'_> {
    pub(crate) fn event(&mut self, event: Event) -> Reaction {
        match event {
            Event::Ready => {
                self.ready();
                return Reaction::Ready;
            }
            Event::Finished { request, outcome, .. } => return Reaction::Finished(request, outcome),
            Event::Down { failure, next } => return self.down(&failure, next),
            Event::Closed { cause } => {
                if let Cause::Failed(failure) = &cause {
                    self.peer.record.failure.get_or_insert_with(|| failure.into());
                }
                self.record("closed", &self.peer.record.failure.clone());
                return Reaction::Closed;
            }
            Event::CatalogChanged { family, difference } => self.changed(family, &difference),
            Event::ServerRequest { id: ask, method, params } => {
                self.server_request(ask, method.as_str(), params.as_deref())
            }
            Event::InputRequired { request, inputs } => self.input_required(request, &inputs),
            Event::Progress { progress, .. } => self.record("progress", &progress.raw()),
            Event::Task { task, .. } => self.record("task", &task.raw()),
            Event::ElicitationComplete { id, .. } => self.record("elicitation-complete", &json!({"elicitationId": id})),
            Event::Subscription { uri, outcome: Ok(()) } => self.record("subscribed", &json!({"uri": uri})),
            Event::Subscription { uri, outcome: Err(why) } => {
                self.record("subscribe-refused", &json!({"uri": uri, "reason": why}));
            }
            Event::ResourceUpdated { uri, .. } => self.record("resource-updated", &json!({"uri": uri})),
            Event::Log { level, logger, data, .. } => {
                self.record("log", &LogDetail { level: level.as_str(), logger: logger.as_deref(), data: &data });
            }
            Event::Notification { method, params } => {
                self.record("notification", &NotificationDetail { method: &method, params: params.as_deref() });
            }
            Event::Unauthorized { request, forbidden, why, challenges } => {
                self.unauthorized(request, forbidden, &why, &challenges);
            }
            Event::Resending { attempt, reason, .. } => {
                self.record("resending", &json!({"attempt": attempt, "reason": reason}));
            }
            Event::ServerRequestEnded { .. } | Event::Quirk(_) | _ => {}
        }
        Reaction::Nothing
    }

    /// Records an event, and prints it if the session is watched.
    pub(crate) fn record(&mut self, kind: &'static str, detail: &impl Serialize) {
        let (now, detail) = (self.engine.now(), raw::of(detail));
        if self.settings.watch.is_some() {
            let at = Duration::from_millis(now.as_millis()).as_secs_f64();
            let detail = if detail.get() == "null" { String::new() } else { cut(&one_line(detail.get()), SHOWN) };
            crate::output::write_stderr(&format!("{}\n", format!("probe: {at:.3} s  {kind}  {detail}").trim_end()));
        }
        self.peer.record.event(now, kind, detail);
    }

    /// The server is stopped until it is called again.
    pub(crate) fn rest(&mut self) {
        self.peer.anew = true;
        self.record("resting", &());
        self.peer.trace.note("resting");
    }

    fn ready(&mut self) {
        let now = self.engine.now();
        let first = !std::mem::replace(&mut self.peer.record.ready, true);
        self.peer.record.failure = None;
        self.peer.is_authorizing = false;
        self.peer.record.discovered.get_or_insert(now);
        self.record(if first { "ready" } else { "reconnected" }, &());
        self.peer.trace.note(if first { "ready" } else { "ready again" });
        if first && self.settings.watch.is_some() {
            let session = self.engine.session(self.at);
            let resources = session.into_iter().flat_map(|session| session.catalog().resources());
            let uris: Vec<Box<str>> = resources.map(|resource| resource.uri.into()).collect();
            self.subscribe(&uris);
        }
    }

    fn changed(&mut self, family: Family, difference: &Difference) {
        let kind = match family {
            Family::Tools => "tools-changed",
            Family::Prompts => "prompts-changed",
            Family::Resources => "resources-changed",
            Family::ResourceTemplates => "resource-templates-changed",
            _ => "list-changed",
        };
        let (added, removed, changed) = (&difference.added, &difference.removed, &difference.changed);
        self.record(kind, &json!({"added": added, "removed": removed, "changed": changed}));
        if family == Family::Resources && self.settings.watch.is_some() {
            let now = self.engine.now();
            for uri in removed {
                self.engine.unsubscribe(now, self.at, uri);
            }
            self.subscribe(added);
        }
    }

    /// Subscribes to these resources, if the server supports it.
    fn subscribe(&mut self, uris: &[Box<str>]) {
        let now = self.engine.now();
        // The first error applies to the rest too: the server does not support it, or the limit is reached.
        let _ = uris.iter().all(|uri| self.engine.subscribe(now, self.at, uri));
    }

    fn server_request(&mut self, ask: ServerRequestId, method: &str, params: Option<&RawValue>) {
        self.record("asked", &AskedDetail { key: None, method, params });
        let answer = self.settings.answers.to(None, method);
        show_url(params);
        let answer = answer.as_deref().ok_or_else(|| ErrorObject::new(-1, "User rejected sampling request"));
        let now = self.engine.now();
        self.engine.respond(now, self.at, ask, answer);
    }

    /// Responds to a modern server's input requests: to all of them, or declines.
    fn input_required(&mut self, request: RequestId, inputs: &[InputRequest]) {
        for InputRequest { key, method, params, .. } in inputs {
            self.record("asked", &AskedDetail { key: Some(key), method: method.as_str(), params: params.as_deref() });
            show_url(params.as_deref());
        }
        let answer = |input: &InputRequest| self.settings.answers.to(Some(&input.key), input.method.as_str());
        let answers: Option<Vec<_>> = inputs.iter().map(answer).collect();
        let now = self.engine.now();
        match &answers {
            Some(answers) => {
                let keys = inputs.iter().map(|input| &*input.key);
                self.engine.provide(now, self.at, request, keys.zip(answers.iter().map(|answer| &**answer)));
            }
            None => self.engine.decline(now, self.at, request),
        }
    }

    /// Declines: there is no other token than the user's, or the server refuses it for good.
    fn unauthorized(&mut self, request: Option<RequestId>, forbidden: bool, why: &str, challenges: &[Challenge]) {
        let challenges: Vec<_> = challenges
            .iter()
            .map(|challenge| json!({"scheme": challenge.scheme, "params": params(challenge)}))
            .collect();
        self.record("unauthorized", &json!({"forbidden": forbidden, "message": why, "challenges": challenges}));
        if let Some(request) = request {
            let now = self.engine.now();
            self.engine.decline(now, self.at, request);
        }
    }

    fn down(&mut self, failure: &Failure, next: Recovery) -> Reaction {
        self.peer.anew = true;
        self.peer.is_authorizing = matches!(next, Recovery::Parked { authorizing: true, .. });
        if self.peer.is_web() {
            self.peer.trace.reset();
        }
        let failure = FailureReport::from(failure);
        self.record("down", &failure);
        if self.peer.is_authorizing {
            return Reaction::Nothing;
        }
        // The failure that is reported if no reconnect succeeds.
        self.peer.record.failure = Some(failure);
        match next {
            Recovery::Parked { until, .. } => {
                self.record("parked", &json!({"untilMs": until.as_millis()}));
                Reaction::Parked(until)
            }
            Recovery::Close => Reaction::Closing,
            Recovery::Reopen { .. } | _ => Reaction::Nothing,
        }
    }
}

/// Shows the URL that an elicitation asks the user to visit. Nothing is opened.
fn show_url(params: Option<&RawValue>) {
    let Some(members) = params.map(Members::of) else { return };
    if let (Some("url"), Some(url)) = (members.string("mode").as_deref(), members.string("url")) {
        let message = members.string("message").unwrap_or_default();
        crate::output::write_stderr(&format!(
            "probe: the server asks to visit {}  {}\n",
            one_line(&url),
            one_line(&message)
        ));
    }
}

fn params(challenge: &Challenge) -> Value {
    challenge.params.iter().map(|(name, value)| (name.to_string(), Value::from(&**value))).collect()
}
