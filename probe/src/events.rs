//! What a session tells: noted for the report, and answered where it is a question.

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
use crate::raw;
use crate::record::FailureReport;
use crate::text::{cut, one_line};

/// Characters of an event that standard error shows.
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

/// Time since the run began.
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

/// A server and its session, while it says something.
pub(crate) struct Talk<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) clock: Clock,
    pub(crate) peer: &'a mut Peer,
    pub(crate) engine: &'a mut Engine,
    /// Which of the run's servers it is.
    pub(crate) at: usize,
}

/// What follows from an event for the run.
pub(crate) enum Follow {
    Nothing,
    Ready,
    Finished(RequestId, Outcome),
    Parked(Time),
    Closing,
    Closed,
}

impl Talk<'_> {
    pub(crate) fn event(&mut self, event: Event) -> Follow {
        match event {
            Event::Ready => {
                self.ready();
                return Follow::Ready;
            }
            Event::Finished { request, outcome } => return Follow::Finished(request, outcome),
            Event::Down { failure, next } => return self.down(&failure, next),
            Event::Closed { cause } => {
                if let Cause::Failed(failure) = &cause {
                    self.peer.record.failure.get_or_insert_with(|| failure.into());
                }
                self.tell("closed", &self.peer.record.failure.clone());
                return Follow::Closed;
            }
            Event::CatalogChanged { family, difference } => self.changed(family, &difference),
            Event::ServerRequest { id: ask, method, params } => self.asked(ask, &method, params.as_deref()),
            Event::InputRequired { request, inputs } => self.input_required(request, &inputs),
            Event::Progress { params, .. } => self.tell("progress", &params),
            Event::Subscription { uri, outcome: Ok(()) } => self.tell("subscribed", &json!({"uri": uri})),
            Event::Subscription { uri, outcome: Err(why) } => {
                self.tell("subscribe-refused", &json!({"uri": uri, "reason": why}));
            }
            Event::ResourceUpdated { uri, .. } => self.tell("resource-updated", &json!({"uri": uri})),
            Event::Log { level, logger, data, .. } => {
                self.tell("log", &LogDetail { level: level.as_str(), logger: logger.as_deref(), data: &data });
            }
            Event::Notification { method, params } => {
                self.tell("notification", &NotificationDetail { method: &method, params: params.as_deref() });
            }
            Event::Unauthorized { request, forbidden, why, challenges } => {
                self.unauthorized(request, forbidden, &why, &challenges);
            }
            Event::ServerRequestEnded { .. } | Event::Quirk(_) | _ => {}
        }
        Follow::Nothing
    }

    /// Notes an event; of a session that is watched, whoever watches hears at once.
    pub(crate) fn tell(&mut self, kind: &'static str, detail: &impl Serialize) {
        let (now, detail) = (self.clock.now(), raw::of(detail));
        if self.settings.watch.is_some() {
            let at = Duration::from_millis(now.as_millis()).as_secs_f64();
            let detail = if detail.get() == "null" { String::new() } else { cut(&one_line(detail.get()), SHOWN) };
            crate::complain(&format!("{}\n", format!("probe: {at:.3} s  {kind}  {detail}").trim_end()));
        }
        self.peer.record.event(now, kind, detail);
    }

    fn ready(&mut self) {
        let now = self.clock.now();
        let first = !std::mem::replace(&mut self.peer.record.ready, true);
        self.peer.record.failure = None;
        self.peer.record.discovered.get_or_insert(now);
        self.tell(if first { "ready" } else { "reconnected" }, &());
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
        };
        let (added, removed, changed) = (&difference.added, &difference.removed, &difference.changed);
        self.tell(kind, &json!({"added": added, "removed": removed, "changed": changed}));
        if family == Family::Resources && self.settings.watch.is_some() {
            let now = self.clock.now();
            for uri in removed {
                // One that was never subscribed to needs no end.
                self.engine.unsubscribe(now, self.at, uri);
            }
            self.subscribe(added);
        }
    }

    /// Asks to be told of these resources, where the server lets it.
    fn subscribe(&mut self, uris: &[Box<str>]) {
        let now = self.clock.now();
        // The first that is refused here tells of the others, too: of the server, or of how many there may be.
        let _ = uris.iter().all(|uri| self.engine.subscribe(now, self.at, uri));
    }

    fn asked(&mut self, ask: ServerRequestId, method: &str, params: Option<&RawValue>) {
        self.tell("asked", &AskedDetail { key: None, method, params });
        let answer = self.settings.answers.to(None, method);
        let answer = answer.as_deref().ok_or_else(|| ErrorObject::new(-1, "User rejected sampling request"));
        let now = self.clock.now();
        // Where the question ended meanwhile, nobody waits for this.
        self.engine.respond(now, self.at, ask, answer);
    }

    /// A modern server's questions: an answer for each of its keys, or none at all.
    fn input_required(&mut self, request: RequestId, inputs: &[InputRequest]) {
        for InputRequest { key, method, params, .. } in inputs {
            self.tell("asked", &AskedDetail { key: Some(key), method, params: params.as_deref() });
        }
        let answer = |input: &InputRequest| self.settings.answers.to(Some(&input.key), &input.method);
        let answers: Option<Vec<_>> = inputs.iter().map(answer).collect();
        let now = self.clock.now();
        // Where the call ended meanwhile, nobody waits for this.
        match &answers {
            Some(answers) => {
                let keys = inputs.iter().map(|input| &*input.key);
                self.engine.provide(now, self.at, request, keys.zip(answers.iter().map(|answer| &**answer)));
            }
            None => self.engine.decline(now, self.at, request),
        }
    }

    /// There is no other token than the one that the user gave.
    fn unauthorized(&mut self, request: Option<RequestId>, forbidden: bool, why: &str, challenges: &[Challenge]) {
        let challenges: Vec<_> = challenges
            .iter()
            .map(|challenge| json!({"scheme": challenge.scheme, "params": params(challenge)}))
            .collect();
        self.tell("unauthorized", &json!({"forbidden": forbidden, "message": why, "challenges": challenges}));
        if let Some(request) = request {
            let now = self.clock.now();
            // Where the call ended meanwhile, nobody waits for this.
            self.engine.decline(now, self.at, request);
        }
    }

    fn down(&mut self, failure: &Failure, next: Recovery) -> Follow {
        self.peer.anew = true;
        if self.peer.is_web() {
            self.peer.trace.reset();
        }
        let failure = FailureReport::from(failure);
        self.tell("down", &failure);
        // Until the connection is there again, this is how things stand.
        self.peer.record.failure = Some(failure);
        match next {
            Recovery::Parked { until } => {
                self.tell("parked", &json!({"untilMs": until.as_millis()}));
                Follow::Parked(until)
            }
            Recovery::Close => Follow::Closing,
            Recovery::Reopen { .. } | _ => Follow::Nothing,
        }
    }
}

fn params(challenge: &Challenge) -> Value {
    challenge.params.iter().map(|(name, value)| (name.to_string(), Value::from(&**value))).collect()
}
