//! Records what passes between the servers of a run and their sessions, live or from a journal, and says what follows.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use mcp_proto::binding::oauth::{OAuthAction, OAuthError, OAuthEvent};
use mcp_proto::catalog::Difference;
use mcp_proto::host::hub::HubEvent;
use mcp_proto::{Cause, Challenge, Engine, Event, Failure, Family, InputRequest, Recovery, Time};
use mcp_proto_tokio::{Input, Output, Passed, Passing};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::args::Settings;
use crate::peer::Peer;
use crate::raw::{self, Members};
use crate::record::FailureReport;
use crate::secrets;
use crate::text::{cut, one_line, write_stderr};

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

/// When something passed, and the state of its session.
#[derive(Clone, Copy)]
pub(crate) struct Moment<'a> {
    pub(crate) now: Time,
    pub(crate) session: Option<&'a Engine>,
}

/// What a run has to do after something passed.
pub(crate) enum Reaction {
    /// Subscribe to these resources, if the server supports it, and to those before no more.
    Subscribe { removed: Vec<Box<str>>, added: Vec<Box<str>> },
    /// The session waits until this time before it connects again.
    Parked(Time),
    /// The session closes by itself.
    Closing,
    /// There is no token, and there will be none.
    Unauthorized,
}

/// The servers of a run and their records.
pub(crate) struct Observer {
    settings: Arc<Settings>,
    pub(crate) peers: Vec<Peer>,
    /// Whether there are several servers.
    pub(crate) is_hub: bool,
    pub(crate) is_replay: bool,
    /// The run closes its sessions.
    pub(crate) is_closing: bool,
    /// The credentials are being given up.
    pub(crate) is_signing_out: bool,
    /// No server of the hub is starting.
    pub(crate) is_settled: bool,
    /// What passes now is not recorded any more.
    pub(crate) is_over: bool,
    /// The server whose sign-in waits for the user.
    pub(crate) shown: Option<usize>,
    tell: Box<dyn FnMut(Reaction) + Send>,
}

impl Observer {
    /// `tell` takes what the run has to do.
    pub(crate) fn new(
        settings: &Arc<Settings>,
        peers: Vec<Peer>,
        is_hub: bool,
        tell: impl FnMut(Reaction) + Send + 'static,
    ) -> Self {
        Self {
            settings: Arc::clone(settings),
            peers,
            is_hub,
            is_replay: false,
            is_closing: false,
            is_signing_out: false,
            is_settled: false,
            is_over: false,
            shown: None,
            tell: Box::new(tell),
        }
    }

    /// Takes what passed between a client and its driver.
    pub(crate) fn session(&mut self, passed: &Passed<'_, Event>) {
        let moment = Moment { now: passed.now, session: passed.engine };
        match &passed.what {
            Passing::Input(input) => self.input(0, moment, passed.process, input),
            Passing::Output(Output::Event(event)) => self.event(0, moment, event),
            Passing::Output(output) => self.output(0, moment, output),
        }
    }

    /// Takes what passed between a hub and its driver.
    pub(crate) fn hub(&mut self, passed: &Passed<'_, HubEvent>) {
        let moment = Moment { now: passed.now, session: passed.engine };
        let of = |server: &str| self.peers.iter().position(|peer| peer.name == server);
        match (&passed.what, of(passed.server)) {
            (Passing::Output(Output::Event(HubEvent::Settled)), _) => {
                self.is_settled = true;
            }
            (Passing::Output(Output::Event(HubEvent::Failed { server, failure, .. })), _) => {
                if let Some(at) = of(server) {
                    self.failed(at, moment.now, failure);
                }
            }
            (Passing::Input(input), Some(at)) => self.input(at, moment, passed.process, input),
            (Passing::Output(Output::Event(HubEvent::Session { event, .. })), Some(at)) => {
                self.event(at, moment, event)
            }
            (Passing::Output(Output::Event(HubEvent::IdleShutdown { .. })), Some(at)) => {
                self.record(at, moment.now, "resting", &());
                if let Some(peer) = self.peers.get_mut(at) {
                    peer.anew = true;
                    peer.trace.note("resting");
                }
            }
            (Passing::Output(output), Some(at)) => self.output(at, moment, output),
            (_, None) => {}
        }
    }

    pub(crate) fn input(&mut self, at: usize, moment: Moment<'_>, process: Option<u32>, input: &Input<'_>) {
        let Some(peer) = self.peers.get_mut(at).filter(|_| !self.is_over) else { return };
        peer.input(process, self.is_closing, input);
        let Some(session) = moment.session else { return };
        let late = peer.late_answers(session);
        if session.server().is_some() {
            peer.record.introduced.get_or_insert(moment.now);
        }
        if late > 0 {
            self.record(at, moment.now, "late-answer", &json!({"answers": late}));
        }
    }

    pub(crate) fn output<E>(&mut self, at: usize, moment: Moment<'_>, output: &Output<E>) {
        let Some(peer) = self.peers.get_mut(at).filter(|_| !self.is_over) else { return };
        peer.output(moment.now, output);
        if let Output::Request(_, it) = output {
            self.keep_sent(&it.request);
        }
        if let Output::OAuth(_, action) = output {
            self.authorize(at, moment.now, action);
        }
    }

    /// What a journal has in place of secrets is none.
    fn keep_sent(&self, request: &Request<Vec<u8>>) {
        if !self.is_replay {
            secrets::keep_sent(request);
        }
    }

    fn authorize(&mut self, at: usize, now: Time, action: &OAuthAction) {
        match action {
            OAuthAction::Browse(_) => self.shown = Some(at),
            OAuthAction::EndBrowse => drop(self.shown.take_if(|shown| *shown == at)),
            OAuthAction::Event(event) => self.authorization_event(at, now, event),
            OAuthAction::Request(it) => self.keep_sent(&it.request),
            // The driver does them.
            OAuthAction::Drop(_) | OAuthAction::Store(_) | OAuthAction::Sign(_) | _ => {}
        }
    }

    fn authorization_event(&mut self, at: usize, now: Time, event: &OAuthEvent) {
        let Some(peer) = self.peers.get_mut(at) else { return };
        let note = |text: &str| {
            if !self.is_replay {
                write_stderr(&format!("probe: {text}\n"));
            }
        };
        match event {
            OAuthEvent::Authorized(grant) => peer.authorized(grant.clone()),
            // A sign-out is no failure of the run.
            OAuthEvent::Failed(_) if self.is_signing_out => {}
            OAuthEvent::Failed(error) => {
                peer.trace.note(error.to_string());
                peer.record.authorization.get_or_insert_default().failed(error);
                // Closing ends it, too.
                if !peer.record.ready && !self.is_closing {
                    self.unauthorized(at, now, error);
                }
            }
            OAuthEvent::ChallengeIgnored(why) => peer.trace.note(format!("the challenge is not followed: {why}")),
            OAuthEvent::RecordUnreadable => {
                note("--tokens: the record of this server cannot be read, and is replaced");
            }
            OAuthEvent::NotStored => note("--tokens: the credentials were not stored, and end with this run"),
            OAuthEvent::NotRevoked(why) => {
                note(&format!("--sign-out: a token was not revoked, and may still be valid: {why}"));
            }
            _ => {}
        }
    }

    /// A server that demands a token has none.
    fn unauthorized(&mut self, at: usize, now: Time, error: &OAuthError) {
        let Some(peer) = self.peers.get_mut(at) else { return };
        let text = peer.unauthorized(error, self.settings.oauth.as_ref());
        if self.is_hub {
            self.announce(at, now, &text);
        } else {
            self.tell(Reaction::Unauthorized);
        }
    }

    /// A server of a hub failed or closed.
    fn failed(&mut self, at: usize, now: Time, failure: &Failure) {
        if let Some(peer) = self.peers.get_mut(at).filter(|peer| !self.is_over && !peer.is_authorizing) {
            let FailureReport { kind, message, .. } = peer.record.failure.get_or_insert_with(|| failure.into());
            let text = format!("failed: {kind}: {message}");
            self.announce(at, now, &text);
        }
    }

    /// Takes an event of a session.
    pub(crate) fn event(&mut self, at: usize, moment: Moment<'_>, event: &Event) {
        if self.is_over || self.peers.get(at).is_none() {
            return;
        }
        let now = moment.now;
        match event {
            Event::Ready => self.ready(at, moment),
            Event::Down { failure, next } => self.down(at, now, failure, *next),
            Event::Closed { cause } => {
                let Some(peer) = self.peers.get_mut(at) else { return };
                if let Cause::Failed(failure) = cause {
                    peer.record.failure.get_or_insert_with(|| failure.into());
                }
                let failure = peer.record.failure.clone();
                peer.last = moment.session.cloned();
                self.record(at, now, "closed", &failure);
            }
            Event::CatalogChanged { family, difference } => self.changed(at, now, *family, difference),
            Event::ServerRequest { method, params, .. } => {
                let (method, params) = (method.as_str(), params.as_deref());
                self.record(at, now, "asked", &AskedDetail { key: None, method, params });
                show_url(params);
            }
            Event::InputRequired { inputs, .. } => {
                for InputRequest { key, method, params, .. } in inputs {
                    let (method, params) = (method.as_str(), params.as_deref());
                    self.record(at, now, "asked", &AskedDetail { key: Some(key), method, params });
                    show_url(params);
                }
            }
            Event::Progress { progress, .. } => self.record(at, now, "progress", &progress.raw()),
            Event::Task { task, .. } => self.record(at, now, "task", &task.raw()),
            Event::ElicitationComplete { id, .. } => {
                self.record(at, now, "elicitation-complete", &json!({"elicitationId": id}));
            }
            Event::Subscription { uri, outcome: Ok(()) } => self.record(at, now, "subscribed", &json!({"uri": uri})),
            Event::Subscription { uri, outcome: Err(why) } => {
                self.record(at, now, "subscribe-refused", &json!({"uri": uri, "reason": why}));
            }
            Event::ResourceUpdated { uri, .. } => self.record(at, now, "resource-updated", &json!({"uri": uri})),
            Event::Log { level, logger, data, .. } => {
                let (level, logger) = (level.as_str(), logger.as_deref());
                self.record(at, now, "log", &LogDetail { level, logger, data });
            }
            Event::Notification { method, params } => {
                self.record(at, now, "notification", &NotificationDetail { method, params: params.as_deref() });
            }
            Event::Unauthorized { forbidden, why, challenges, .. } => {
                let challenges: Vec<_> = challenges
                    .iter()
                    .map(|challenge| json!({"scheme": challenge.scheme, "params": params(challenge)}))
                    .collect();
                let detail = json!({"forbidden": forbidden, "message": why, "challenges": challenges});
                self.record(at, now, "unauthorized", &detail);
            }
            Event::Resending { attempt, reason, .. } => {
                self.record(at, now, "resending", &json!({"attempt": attempt, "reason": reason}));
            }
            Event::Finished { .. } | Event::ServerRequestEnded { .. } | Event::Quirk(_) | _ => {}
        }
    }

    /// Records an event, and prints it if the session is watched.
    fn record(&mut self, at: usize, now: Time, kind: &'static str, detail: &impl Serialize) {
        let detail = raw::of(detail);
        if self.settings.watch.is_some() {
            let at = Duration::from_millis(now.as_millis()).as_secs_f64();
            let detail = if detail.get() == "null" { String::new() } else { cut(&one_line(detail.get()), SHOWN) };
            write_stderr(&format!("{}\n", format!("probe: {at:.3} s  {kind}  {detail}").trim_end()));
        }
        if let Some(peer) = self.peers.get_mut(at) {
            peer.record.event(now, kind, detail);
        }
    }

    /// Prints the state of one of several servers at once.
    fn announce(&self, at: usize, now: Time, text: &str) {
        let name = self.peers.get(at).map_or_else(String::new, |peer| one_line(&peer.name));
        let now = Duration::from_millis(now.as_millis()).as_secs_f64();
        write_stderr(&format!("probe: {now:.3} s  {name}  {}\n", one_line(text)));
    }

    fn tell(&mut self, reaction: Reaction) {
        (self.tell)(reaction);
    }

    fn ready(&mut self, at: usize, moment: Moment<'_>) {
        let Some(peer) = self.peers.get_mut(at) else { return };
        let first = !std::mem::replace(&mut peer.record.ready, true);
        peer.record.failure = None;
        peer.is_authorizing = false;
        peer.record.discovered.get_or_insert(moment.now);
        self.record(at, moment.now, if first { "ready" } else { "reconnected" }, &());
        if let Some(peer) = self.peers.get_mut(at) {
            peer.trace.note(if first { "ready" } else { "ready again" });
        }
        if first && self.settings.watch.is_some() {
            let resources = moment.session.into_iter().flat_map(|session| session.catalog().resources());
            let added = resources.map(|resource| resource.uri.into()).collect();
            self.tell(Reaction::Subscribe { removed: Vec::new(), added });
        }
        if self.is_hub {
            let tools = moment.session.map_or(0, |session| session.catalog().tools().count());
            self.announce(at, moment.now, &format!("ready, {tools} {}", if tools == 1 { "tool" } else { "tools" }));
        }
    }

    fn changed(&mut self, at: usize, now: Time, family: Family, difference: &Difference) {
        let kind = match family {
            Family::Tools => "tools-changed",
            Family::Prompts => "prompts-changed",
            Family::Resources => "resources-changed",
            Family::ResourceTemplates => "resource-templates-changed",
            _ => "list-changed",
        };
        let (added, removed, changed) = (&difference.added, &difference.removed, &difference.changed);
        self.record(at, now, kind, &json!({"added": added, "removed": removed, "changed": changed}));
        if family == Family::Resources && self.settings.watch.is_some() {
            self.tell(Reaction::Subscribe { removed: removed.clone(), added: added.clone() });
        }
    }

    fn down(&mut self, at: usize, now: Time, failure: &Failure, next: Recovery) {
        let Some(peer) = self.peers.get_mut(at) else { return };
        peer.is_authorizing = matches!(next, Recovery::Parked { authorizing: true, .. });
        // A first authorization is a part of the handshake.
        peer.anew = !peer.is_authorizing || peer.record.ready;
        if peer.is_web() {
            peer.trace.reset();
        }
        let mut failure = FailureReport::from(failure);
        // A session that expired is renewed at once: nothing is closed.
        let is_renewed = matches!(next, Recovery::Reopen { at: Some(at) } if at <= now);
        if is_renewed {
            failure.kind = "expired".into();
        }
        let is_ongoing = peer.is_authorizing || is_renewed;
        self.record(at, now, "down", &failure);
        if is_ongoing {
            return;
        }
        // The failure that is reported if no reconnect succeeds.
        if let Some(peer) = self.peers.get_mut(at) {
            peer.record.failure = Some(failure);
        }
        match next {
            Recovery::Parked { until, .. } => {
                self.record(at, now, "parked", &json!({"untilMs": until.as_millis()}));
                self.tell(Reaction::Parked(until));
            }
            Recovery::Close => {
                // A hub closes one of several.
                self.is_closing |= !self.is_hub;
                self.tell(Reaction::Closing);
            }
            Recovery::Reopen { .. } | _ => {}
        }
    }

    pub(crate) fn note(&mut self, text: &str) {
        for peer in &mut self.peers {
            peer.trace.note(text);
        }
    }

    /// The run timed out: notes which servers are not done.
    pub(crate) fn fail_late(&mut self, now: Time) {
        let mut failures = Vec::new();
        for (at, peer) in self.peers.iter_mut().enumerate() {
            if !self.is_hub || !peer.record.ready && peer.record.failure.is_none() {
                let FailureReport { kind, message, .. } = peer.fail_late(now);
                failures.push((at, format!("failed: {kind}: {message}")));
            }
        }
        for (at, text) in failures.iter().filter(|_| self.is_hub) {
            self.announce(*at, now, text);
        }
        self.note("time is up");
    }

    /// Whether a server waits for a token.
    pub(crate) fn is_authorizing(&self) -> bool {
        self.peers.iter().any(|peer| peer.is_authorizing)
    }

    /// What the run waits for, for people; `call` is what is being called.
    pub(crate) fn waiting(&self, call: Option<&str>) -> String {
        if let (false, [peer]) = (self.is_hub, self.peers.as_slice()) {
            return peer.waiting(self.is_closing);
        }
        let starting = |peer: &&Peer| !peer.record.ready && peer.record.failure.is_none();
        let awaited: Vec<&Peer> = self.peers.iter().filter(starting).collect();
        if self.is_closing || awaited.is_empty() {
            let call = call.filter(|_| !self.is_closing);
            return call.map_or_else(|| "the servers to end".into(), |call| format!("`{call}`"));
        }
        let listed: Vec<String> = awaited
            .iter()
            .take(4)
            .map(|peer| format!("{} ({})", one_line(&peer.name), peer.waiting(self.is_closing)))
            .collect();
        let more = awaited.len().saturating_sub(listed.len());
        format!("{}{}", listed.join(", "), if more > 0 { format!(", and {more} more") } else { String::new() })
    }

    /// Records how many events there was no room for.
    pub(crate) fn end(&mut self, now: Time) {
        for peer in &mut self.peers {
            let left_out = peer.record.events_left_out;
            if left_out > 0 {
                peer.record.event(now, "left-out", raw::of(&json!({"events": left_out})));
            }
        }
    }
}

/// Shows the URL that an elicitation asks the user to visit. Nothing is opened.
fn show_url(params: Option<&RawValue>) {
    let Some(members) = params.map(Members::of) else { return };
    if let (Some("url"), Some(url)) = (members.string("mode").as_deref(), members.string("url")) {
        let message = members.string("message").unwrap_or_default();
        write_stderr(&format!("probe: the server asks to visit {}  {}\n", one_line(&url), one_line(&message)));
    }
}

fn params(challenge: &Challenge) -> Value {
    challenge.params.iter().map(|(name, value)| (name.to_string(), Value::from(&**value))).collect()
}
