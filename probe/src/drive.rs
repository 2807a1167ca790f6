//! Drives a run: executes actions, waits for input, and records events.

use std::time::{Duration, Instant};

use mcp_proto::binding::oauth::{OAuthExchangeId, OAuthInput};
use mcp_proto::catalog::Difference;
use mcp_proto::journal::Input;
use mcp_proto::jsonrpc::ErrorObject;
use mcp_proto::{
    Cause, Challenge, ConnectionId, Event, Failure, Family, InputRequest, OpenFailure, Outcome, Recovery, RequestId,
    ServerRequestId, Time, Transport,
};
use mcp_proto_tokio::HttpPiece;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::args::Settings;
use crate::engine::{Engine, EngineAction, InFlight};
use crate::oauth::{self, Access};
use crate::peer::{Came, FromPeer, Io, Peer};
use crate::raw::{self, Members};
use crate::report::{CallRecord, FailureReport};
use crate::run::Run;
use crate::text::{cut, one_line, write_stderr};
use crate::web::Id;

/// Maximum time for closing sessions.
const CLOSING: Duration = Duration::from_secs(10);
/// How much of it may be after the time of the run, and how much while credentials are being stored.
const LATE: Duration = Duration::from_millis(250);
const STORING: Duration = Duration::from_secs(2);

impl Run<'_> {
    /// Connects, and continues until the end.
    pub(crate) fn go(&mut self) {
        match self.prepare() {
            Ok(mut io) => {
                self.drive(&mut io);
                self.sign_out(&mut io);
                self.add_offers();
            }
            Err(message) => {
                for peer in &mut self.peers {
                    peer.record.failure = Some(FailureReport { kind: "connect".into(), message: message.clone() });
                }
            }
        }
        let (now, mut in_flight) = (self.now(), self.calling.is_some());
        for step in self.settings.steps.iter().skip(self.calls.len()) {
            // For the journal: the session is over.
            if !std::mem::take(&mut in_flight) {
                let _ = self.engine.start(now, step);
            }
            self.calls.push(CallRecord::without_answer(step, "not-sent"));
        }
        self.journal.end(&mut self.engine);
        let now = self.engine.now();
        for peer in &mut self.peers {
            let left_out = peer.record.events_left_out;
            if left_out > 0 {
                peer.record.event(now, "left-out", raw::of(&json!({"events": left_out})));
            }
        }
    }

    fn prepare(&mut self) -> Result<Io, String> {
        let mut io = Io::new()?;
        for peer in &mut self.peers {
            peer.prepare(|| io.client())?;
        }
        Ok(io)
    }

    fn drive(&mut self, io: &mut Io) {
        let now = self.now();
        self.engine.give(now, 0, Input::Open);
        self.act(io);
        while !self.engine.is_closed() && !self.is_over() {
            self.listen(io);
            let now = self.now();
            if self.closing.is_none() && self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                self.time_out(io);
            }
            if self.watch_ends().is_some_and(|end| end <= Instant::now()) && self.closing.is_none() {
                self.note("the watch is over");
                self.close();
                self.act(io);
            }
            if self.engine.deadline().is_some_and(|deadline| deadline <= now) {
                self.engine.give(now, 0, Input::Timeout);
                self.act(io);
            }
            self.journal.write(&mut self.engine);
            self.show_progress();
        }
    }

    /// When the run ends, or the time for closing.
    fn end(&self) -> Option<Instant> {
        let Some(since) = self.closing else { return [self.deadline, self.watch_ends()].into_iter().flatten().min() };
        let stores = self.access.as_ref().is_some_and(Access::uses_store);
        let late = self.deadline.and_then(|deadline| deadline.checked_add(if stores { STORING } else { LATE }));
        [since.checked_add(CLOSING), late].into_iter().flatten().min()
    }

    /// Whether nothing is waited for any more.
    fn is_over(&self) -> bool {
        self.interrupt.came() || self.closing.is_some() && self.end().is_some_and(|end| end <= Instant::now())
    }

    /// The run timed out: keeps the results so far and closes.
    fn time_out(&mut self, io: &mut Io) {
        let now = self.now();
        self.fail_late(now);
        self.closing = Some(Instant::now());
        match self.calling {
            Some((in_flight, _)) => {
                self.engine.cancel(now, in_flight);
                self.act(io);
            }
            // An input between which and the next one nothing is polled: a replay knows by it that time was up.
            None => self.engine.give(now, 0, Input::Timeout),
        }
        self.close();
        self.act(io);
    }

    /// Gives up the credentials that the server demanded, after its session: the end of a session needs its token.
    fn sign_out(&mut self, io: &mut Io) {
        let is_wanted = self.settings.oauth.as_ref().is_some_and(|oauth| oauth.signs_out);
        if !is_wanted || self.interrupt.came() {
            return;
        }
        if !self.peers.iter().any(|peer| peer.record.authorization.is_some()) {
            return write_stderr("probe: --sign-out: the server demanded no token, so none was given up\n");
        }
        self.closing = Some(Instant::now());
        self.finish_authorization(io);
        self.is_signing_out = true;
        self.give(io, 0, OAuthInput::SignOut);
        self.finish_authorization(io);
        if self.is_authorizing() {
            write_stderr("probe: --sign-out: it took too long, and the tokens may still be valid\n");
        }
    }

    /// Whether a request of the authorization, or an action on the store, is in progress.
    fn is_authorizing(&self) -> bool {
        self.peers.iter().any(Peer::has_oauth_request) || self.access.as_ref().is_some_and(Access::uses_store)
    }

    /// Continues until nothing of the authorization is in progress.
    fn finish_authorization(&mut self, io: &mut Io) {
        while self.is_authorizing() && !self.is_over() {
            self.listen(io);
            let now = self.now();
            self.engine.give(now, 0, Input::Timeout);
            self.act(io);
            self.show_progress();
        }
    }

    fn show_progress(&mut self) {
        if self.progress.is_due() {
            let waiting = self.waiting();
            self.progress.show(waiting);
        }
    }

    /// Waits for input from a server, or until something is due.
    fn listen(&mut self, io: &mut Io) {
        let due = self.engine.deadline().and_then(|at| self.clock.instant(at));
        let second = Instant::now().checked_add(Duration::from_secs(1));
        let dates = [due, self.end(), self.progress.next(), second];
        let until = dates.into_iter().flatten().min().unwrap_or_else(Instant::now);
        let (at, input) = match io.wait(&mut self.peers, self.access.as_mut(), until) {
            Some(Came::Server(at, input)) => (at, input),
            Some(Came::Access(came)) => return self.came(io, came),
            None => return,
        };
        match input {
            FromPeer::Input(input) => self.receive(io, at, input),
            FromPeer::OAuth(exchange, piece) => self.receive_oauth(io, at, exchange, &piece),
        }
    }

    fn receive_oauth(&mut self, io: &mut Io, at: usize, exchange: OAuthExchangeId, piece: &HttpPiece) {
        if let (HttpPiece::Head(status, _), Some(peer)) = (piece, self.peers.get_mut(at)) {
            peer.trace.note(format!("authorization: HTTP {}", status.as_u16()));
        }
        self.give(io, at, piece.oauth_input(exchange));
    }

    /// Takes what came from the user or from the store.
    fn came(&mut self, io: &mut Io, came: oauth::Came) {
        let Some(access) = &mut self.access else { return };
        match came {
            oauth::Came::Redirect(redirect, judge) => {
                let shown = access.shown;
                let is_ours = shown.is_some_and(|at| self.give(io, at, OAuthInput::Redirect(&redirect)));
                let _ = judge.send(is_ours);
            }
            oauth::Came::Line(line) => {
                if let Some(at) = access.shown.filter(|_| !line.trim().is_empty())
                    && !self.give(io, at, OAuthInput::Redirect(line.trim()))
                {
                    write_stderr("probe: this is not the redirect that belongs to the URL above\n");
                }
            }
            oauth::Came::Stored(at, result) => {
                if let Some(input) = access.stored(at, &result) {
                    self.give(io, at, input);
                }
            }
        }
    }

    fn give(&mut self, io: &mut Io, at: usize, input: OAuthInput<'_>) -> bool {
        let now = self.now();
        let is_ours = self.engine.handle_oauth(now, at, input);
        self.introduced(at);
        self.act(io);
        is_ours
    }

    /// Handles an input; output and event streams line by line, so that the effects of a line are carried out and traced
    /// before the next line.
    #[allow(clippy::wildcard_enum_match_arm, reason = "all others have no lines")]
    fn receive(&mut self, io: &mut Io, at: usize, input: Input) {
        let is_stream = |exchange| self.peers.get(at).is_some_and(|peer| peer.trace.is_stream(exchange));
        let lines =
            |bytes: &[u8]| -> Vec<Box<[u8]>> { bytes.split_inclusive(|byte| *byte == b'\n').map(Into::into).collect() };
        let inputs: Vec<Input> = match input {
            Input::Bytes { connection, bytes } => {
                lines(&bytes).into_iter().map(|bytes| Input::Bytes { connection, bytes }).collect()
            }
            Input::Body { exchange, bytes } if is_stream(exchange) => {
                lines(&bytes).into_iter().map(|bytes| Input::Body { exchange, bytes }).collect()
            }
            input => vec![input],
        };
        for input in inputs {
            let closing = self.closing.is_some();
            if !self.peers.get_mut(at).is_some_and(|peer| peer.saw(&input, closing)) {
                return;
            }
            let (now, late) = (self.now(), self.late_answers(at));
            self.engine.give(now, at, input);
            let late = self.late_answers(at).saturating_sub(late);
            if let Some(mut handler) = self.handler(at).filter(|_| late > 0) {
                handler.record("late-answer", &json!({"answers": late}));
            }
            self.introduced(at);
            self.act(io);
        }
    }

    fn transport(&mut self, io: &mut Io, at: usize, event: Transport<'_>) {
        let Some(connection) = self.peers.get(at).map(|peer| peer.connection) else { return };
        self.receive(io, at, Input::Transport { connection, event: event.into() });
    }

    fn act(&mut self, io: &mut Io) {
        while let Some((at, action)) = self.engine.poll() {
            match action {
                EngineAction::Settled => {
                    self.is_settled = true;
                    self.proceed();
                }
                EngineAction::OAuth(action) => self.authorize(io, at, action),
                EngineAction::Open(connection) => self.open(io, at, connection),
                EngineAction::Shut(how) => {
                    if !self.peers.get_mut(at).is_some_and(|peer| peer.shut(how)) {
                        self.transport(io, at, Transport::Closed { why: "there is no process" });
                    }
                }
                EngineAction::Failed(failure) => self.failed(at, &failure),
                EngineAction::IdleShutdown => {
                    if let Some(mut handler) = self.handler(at) {
                        handler.rest();
                    }
                }
                EngineAction::Finished(call, outcome) => self.finished(InFlight::Call(call), outcome),
                EngineAction::Event(event) => {
                    if let Some(reaction) = self.handler(at).map(|mut handler| handler.event(event)) {
                        self.react(at, reaction);
                    }
                }
                EngineAction::Send(message) => {
                    if let Some(peer) = self.peers.get_mut(at) {
                        peer.send(message.bytes(), message.line());
                    }
                }
                EngineAction::Request(request) => {
                    let (now, _context) = (self.engine.now(), io.enter());
                    if let Some(peer) = self.peers.get_mut(at) {
                        peer.request(now, request);
                    }
                }
                EngineAction::Drop(exchange) => {
                    if let Some(peer) = self.peers.get_mut(at) {
                        peer.drop(Id::Server(exchange));
                    }
                }
            }
        }
    }

    fn open(&mut self, io: &mut Io, at: usize, connection: ConnectionId) {
        let now = self.engine.now();
        let Some(opened) = self.peers.get_mut(at).map(|peer| peer.open(connection, now)) else { return };
        let why = opened.map_err(|error| error.to_string());
        let event = match &why {
            Ok(()) => Transport::Opened,
            Err(why) => Transport::OpenFailed { how: OpenFailure::Spawn, why },
        };
        self.transport(io, at, event);
    }
}

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
            crate::text::write_stderr(&format!("{}\n", format!("probe: {at:.3} s  {kind}  {detail}").trim_end()));
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
                self.engine.give(now, self.at, Input::Unsubscribe { uri: uri.clone() });
            }
            self.subscribe(added);
        }
    }

    /// Subscribes to these resources, if the server supports it.
    fn subscribe(&mut self, uris: &[Box<str>]) {
        let now = self.engine.now();
        // The first error applies to the rest too: the server does not support it, or the limit is reached.
        let _ = uris.iter().all(|uri| self.engine.apply(now, self.at, Input::Subscribe { uri: uri.clone() }).is_ok());
    }

    fn server_request(&mut self, ask: ServerRequestId, method: &str, params: Option<&RawValue>) {
        self.record("asked", &AskedDetail { key: None, method, params });
        let answer = self.settings.answers.to(None, method);
        show_url(params);
        let response = answer.ok_or_else(|| ErrorObject::new(-1, "User rejected sampling request"));
        self.engine.give(self.engine.now(), self.at, Input::Respond { request: ask, response });
    }

    /// Responds to a modern server's input requests: to all of them, or declines.
    fn input_required(&mut self, request: RequestId, inputs: &[InputRequest]) {
        for InputRequest { key, method, params, .. } in inputs {
            self.record("asked", &AskedDetail { key: Some(key), method: method.as_str(), params: params.as_deref() });
            show_url(params.as_deref());
        }
        let answer = |input: &InputRequest| {
            let answer = self.settings.answers.to(Some(&input.key), input.method.as_str());
            answer.map(|answer| (input.key.clone(), answer))
        };
        let responses: Option<Vec<_>> = inputs.iter().map(answer).collect();
        let input = match responses {
            Some(responses) => Input::Provide { request, responses },
            None => Input::Decline { request },
        };
        self.engine.give(self.engine.now(), self.at, input);
    }

    /// Declines: there is no other token than the user's, or the server refuses it for good.
    fn unauthorized(&mut self, request: Option<RequestId>, forbidden: bool, why: &str, challenges: &[Challenge]) {
        let challenges: Vec<_> = challenges
            .iter()
            .map(|challenge| json!({"scheme": challenge.scheme, "params": params(challenge)}))
            .collect();
        self.record("unauthorized", &json!({"forbidden": forbidden, "message": why, "challenges": challenges}));
        if let Some(request) = request {
            self.engine.give(self.engine.now(), self.at, Input::Decline { request });
        }
    }

    fn down(&mut self, failure: &Failure, next: Recovery) -> Reaction {
        self.peer.is_authorizing = matches!(next, Recovery::Parked { authorizing: true, .. });
        // A first authorization is a part of the handshake.
        self.peer.anew = !self.peer.is_authorizing || self.peer.record.ready;
        if self.peer.is_web() {
            self.peer.trace.reset();
        }
        let mut failure = FailureReport::from(failure);
        // A session that expired is renewed at once: nothing is closed.
        let is_renewed = matches!(next, Recovery::Reopen { at: Some(at) } if at <= self.engine.now());
        if is_renewed {
            failure.kind = "expired".into();
        }
        self.record("down", &failure);
        if self.peer.is_authorizing || is_renewed {
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
        crate::text::write_stderr(&format!(
            "probe: the server asks to visit {}  {}\n",
            one_line(&url),
            one_line(&message)
        ));
    }
}

fn params(challenge: &Challenge) -> Value {
    challenge.params.iter().map(|(name, value)| (name.to_string(), Value::from(&**value))).collect()
}
