//! The run: a session, a process, the calls, one clock.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use mcp_proto::{
    Action, Cause, Event, Family, LineSession, Misuse, OpenFailure, Options, Request, RequestId, Session, Shut, Time,
    Transport,
};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::args::{Call, DEMO_SERVER, Settings, Target};
use crate::child::{Heard, Server};
use crate::progress::Progress;
use crate::raw;
use crate::record::{CallRecord, FailureReport, Record};
use crate::trace::Trace;

/// How long the session may take to close, at most.
const CLOSING: Duration = Duration::from_secs(10);

pub(crate) struct Outcome {
    pub(crate) session: LineSession,
    pub(crate) record: Record,
    pub(crate) trace: Trace,
}

/// Connects, discovers, calls, closes.
pub(crate) fn run(settings: &Settings) -> Outcome {
    let start = Instant::now();
    let mut options = Options::new("mcp-proto-probe", env!("CARGO_PKG_VERSION"));
    options.server = settings.target.name().into();
    options.capabilities.elicitation = true;
    options.reconnect = None;
    options.eras = settings.eras;
    let trace = Trace::new(options.limits.message, settings.diagram);
    let mut run = Run {
        settings,
        start,
        deadline: start.checked_add(settings.timeout),
        session: LineSession::new(Session::new(options)),
        server: None,
        epoch: 0,
        record: Record::default(),
        trace,
        progress: Progress::new(start),
        calling: None,
        closing: None,
    };
    run.drive();
    let Run { session, mut record, trace, .. } = run;
    for call in settings.calls.iter().skip(record.calls.len()) {
        record.calls.push(CallRecord::without_answer(&call.name, "not-sent"));
    }
    if record.events_left_out > 0 {
        let (now, left_out) = (Time::from_epoch(start.elapsed()), record.events_left_out);
        record.event(now, "left-out", &json!({"events": left_out}));
    }
    Outcome { session, record, trace }
}

struct Run<'a> {
    settings: &'a Settings,
    start: Instant,
    /// When the whole run is to be over.
    deadline: Option<Instant>,
    session: LineSession,
    server: Option<Server>,
    /// Which of the session's transports the process is.
    epoch: u32,
    record: Record,
    trace: Trace,
    progress: Progress,
    calling: Option<(RequestId, Time)>,
    /// Since when the session is being closed.
    closing: Option<Instant>,
}

#[derive(Serialize)]
struct AskedDetail<'a> {
    key: Option<&'a str>,
    method: &'a str,
    params: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct NotificationDetail<'a> {
    method: &'a str,
    params: Option<&'a RawValue>,
}

impl Run<'_> {
    fn now(&self) -> Time {
        Time::from_epoch(self.start.elapsed())
    }

    fn drive(&mut self) {
        let now = self.now();
        // A session that is new can be opened.
        let _ = self.session.open(now);
        self.act();
        while !self.session.is_closed() {
            if self.closing.is_some_and(|since| since.elapsed() >= CLOSING) {
                break;
            }
            self.listen();
            let now = self.now();
            if self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                self.time_is_up();
            }
            if self.session.deadline().is_some_and(|deadline| deadline <= now) {
                self.session.handle_timeout(now);
                self.act();
            }
            let (trace, server, closing) = (&self.trace, &self.server, self.closing.is_some());
            self.progress.tell(|| waiting(trace, server.as_ref(), closing));
        }
    }

    /// Waits for the server, or for the time at which something is due.
    fn listen(&mut self) {
        let session = self.session.deadline().map(|at| Duration::from_micros(at.as_micros()));
        let session = session.and_then(|at| self.start.checked_add(at));
        let closing = self.closing.and_then(|since| since.checked_add(CLOSING));
        let deadline = self.deadline.filter(|_| self.closing.is_none());
        let second = Instant::now().checked_add(Duration::from_secs(1));
        let dates = [session, closing, deadline, self.progress.next(), second];
        let until = dates.into_iter().flatten().min().unwrap_or_else(Instant::now);
        let heard = match &mut self.server {
            Some(server) => server.wait(until),
            None => {
                std::thread::sleep(until.saturating_duration_since(Instant::now()));
                Heard::Nothing
            }
        };
        match heard {
            Heard::Output(bytes) => self.receive(&bytes),
            Heard::Life => self.transport(Transport::SignOfLife),
            Heard::Closed(why) => {
                self.server = None;
                self.trace.note(format!("process gone: {why}"));
                self.trace.reset();
                self.transport(Transport::Closed { why: &why });
            }
            Heard::Nothing => {}
        }
    }

    /// Line by line, so that what follows from each is done, and drawn, before the next.
    fn receive(&mut self, bytes: &[u8]) {
        let epoch = self.epoch;
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.epoch != epoch {
                return;
            }
            self.trace.received(piece);
            let now = self.now();
            self.session.handle_bytes(now, piece);
            self.act();
        }
    }

    fn transport(&mut self, event: Transport<'_>) {
        let now = self.now();
        self.session.handle_transport(now, event);
        self.act();
    }

    fn act(&mut self) {
        loop {
            if self.record.introduced.is_none() && self.session.server().is_some() {
                self.record.introduced = Some(self.now());
            }
            let Some(action) = self.session.poll() else { return };
            match action {
                Action::Open(open) => self.open(open.epoch),
                Action::Send(message) => {
                    self.trace.sent(&message);
                    if let Some(server) = &self.server {
                        server.send(message.line());
                    }
                }
                Action::Shut(how) => self.shut(how),
                Action::Event(event) => self.event(event),
                _ => {}
            }
        }
    }

    fn open(&mut self, epoch: u32) {
        let now = self.now();
        self.epoch = epoch;
        self.record.opened.get_or_insert(now);
        self.server = None;
        self.trace.reset();
        let started = match &self.settings.target {
            Target::Demo => std::env::current_exe()
                .and_then(|program| Server::start(program.as_os_str(), &[OsString::from(DEMO_SERVER)])),
            Target::Stdio { program, args } => Server::start(program, args),
        };
        match started {
            Ok(server) => {
                // A second process belongs to the same handshake: it goes without the probe.
                self.record.connects = 1;
                self.trace.note(format!("process {} started", server.id()));
                self.server = Some(server);
                self.transport(Transport::Opened);
            }
            Err(error) => {
                self.trace.note(format!("not started: {error}"));
                let why = error.to_string();
                self.transport(Transport::OpenFailed { how: OpenFailure::Spawn, why: &why });
            }
        }
    }

    fn shut(&mut self, how: Shut) {
        self.closing.get_or_insert_with(Instant::now);
        self.trace.note(match how {
            Shut::CloseInput => "input closed",
            Shut::Terminate => "told to terminate",
            Shut::Kill => "killed",
        });
        match &mut self.server {
            Some(server) => server.shut(how),
            None => self.transport(Transport::Closed { why: "there is no process" }),
        }
    }

    fn event(&mut self, event: Event) {
        let now = self.now();
        match event {
            Event::Ready => {
                self.record.ready = true;
                self.record.discovered.get_or_insert(now);
                self.record.event(now, "ready", &());
                self.trace.note("ready");
                self.next_call();
            }
            Event::CatalogChanged { family, difference } => {
                let kind = match family {
                    Family::Tools => "tools-changed",
                    Family::Prompts => "prompts-changed",
                    Family::Resources => "resources-changed",
                    Family::ResourceTemplates => "resource-templates-changed",
                };
                let (added, removed, changed) = (difference.added, difference.removed, difference.changed);
                self.record.event(now, kind, &json!({"added": added, "removed": removed, "changed": changed}));
            }
            Event::Finished { request, outcome } => self.finished(request, outcome),
            Event::Asked { ask, method, params } => {
                self.record.event(now, "asked", &AskedDetail { key: None, method: &method, params: params.as_deref() });
                let decline = raw::of(&json!({"action": "decline"}));
                // Where the question ended meanwhile, nobody waits for this.
                let _ = self.session.answer(now, ask, Ok(&decline));
            }
            // A modern server's questions: the same answer, for each of its keys.
            Event::InputRequired { request, inputs } => {
                let decline = raw::of(&json!({"action": "decline"}));
                for input in &inputs {
                    let (key, method, params) = (Some(&*input.key), &*input.method, input.params.as_deref());
                    self.record.event(now, "asked", &AskedDetail { key, method, params });
                }
                // Where the call ended meanwhile, nobody waits for this.
                let _ = self.session.provide(now, request, inputs.iter().map(|input| (&*input.key, &*decline)));
            }
            Event::Notification { method, params } => match &*method {
                "notifications/message" => self.record.event(now, "log", &params),
                "notifications/progress" => self.record.event(now, "progress", &params),
                "notifications/resources/updated" => self.record.event(now, "resource-updated", &params),
                _ => {
                    let detail = NotificationDetail { method: &method, params: params.as_deref() };
                    self.record.event(now, "notification", &detail);
                }
            },
            Event::Down { failure, .. } => {
                let failure = FailureReport::from(&failure);
                self.record.event(now, "down", &failure);
                self.record.failure.get_or_insert(failure);
            }
            Event::Closed { cause } => {
                if let Cause::Failed(failure) = &cause {
                    self.record.failure.get_or_insert_with(|| failure.into());
                }
                self.record.event(now, "closed", &self.record.failure.clone());
            }
            Event::AskEnded { .. } | Event::Quirk(_) | _ => {}
        }
    }

    /// Starts the next call that can be made; after the last one, closes.
    fn next_call(&mut self) {
        while let Some(call) = self.settings.calls.get(self.record.calls.len()) {
            let now = self.now();
            match self.call(now, call) {
                Ok(request) => {
                    self.calling = Some((request, now));
                    return;
                }
                Err(misuse) => {
                    let not_advertised = matches!(misuse, Misuse::NotAdvertised { .. });
                    let outcome = if not_advertised { "not-advertised" } else { "not-sent" };
                    self.record.calls.push(CallRecord::without_answer(&call.name, outcome));
                }
            }
        }
        self.close();
    }

    fn call(&mut self, now: Time, call: &Call) -> Result<RequestId, Misuse> {
        let none = raw::of(&json!({}));
        let arguments = call.arguments.as_deref().unwrap_or(&none);
        // The run's own bound, which the user set, ends it.
        let request = Request::call_tool(&call.name, Some(arguments)).timeout(Duration::MAX);
        self.session.request(now, request)
    }

    fn finished(&mut self, request: RequestId, outcome: mcp_proto::Outcome) {
        let Some((_, since)) = self.calling.take_if(|(calling, _)| *calling == request) else { return };
        let Some(call) = self.settings.calls.get(self.record.calls.len()) else { return };
        let now = self.now();
        // Only the end of the run's time cancels a call.
        let late = matches!(outcome, mcp_proto::Outcome::Cancelled);
        let outcome = if late { mcp_proto::Outcome::TimedOut } else { outcome };
        let took = Some(now.since(since));
        self.record.calls.push(CallRecord { took, ..CallRecord::ended(&call.name, outcome) });
        if self.closing.is_none() && self.session.is_ready() {
            self.next_call();
        }
    }

    fn close(&mut self) {
        let now = self.now();
        self.closing.get_or_insert_with(Instant::now);
        // One that is closed needs no closing.
        let _ = self.session.close(now);
    }

    /// The whole run took too long: what was learned stays, the rest is closed.
    fn time_is_up(&mut self) {
        self.deadline = None;
        if self.closing.is_some() {
            return;
        }
        let waiting = waiting(&self.trace, self.server.as_ref(), false);
        let now = self.now();
        let message = format!("not done within {:?}: waited for {waiting}", self.settings.timeout);
        self.record.failure.get_or_insert(FailureReport { kind: "timeout".into(), message });
        self.trace.note("time is up");
        self.closing = Some(Instant::now());
        if let Some((request, _)) = self.calling {
            // One that ended meanwhile needs no end.
            let _ = self.session.cancel(now, request);
            self.act();
        }
        self.close();
        self.act();
    }
}

fn waiting(trace: &Trace, server: Option<&Server>, closing: bool) -> String {
    match server {
        Some(_) if closing => "the process to end".into(),
        None => "the process to start".into(),
        Some(_) => trace.waiting().unwrap_or_else(|| "the server".into()),
    }
}
