//! The run: a session, its server, one clock.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use mcp_proto::binding::http::{Broken, ExchangeId, HttpAction};
use mcp_proto::{Action, Keepalive, OpenFailure, Options, Reconnect, RequestId, Shut, Time, Transport};
use serde_json::json;

use crate::args::{DEMO_SERVER, Settings, Target};
use crate::child::{Heard, Server};
use crate::exchanges::{self, Piece};
use crate::link::{Link, Wish};
use crate::progress::Progress;
use crate::raw;
use crate::record::{CallRecord, FailureReport, Record};
use crate::trace::Trace;
use crate::web::Web;

/// How long the session may take to close, at most.
const CLOSING: Duration = Duration::from_secs(10);

pub(crate) struct Outcome {
    pub(crate) session: Link,
    pub(crate) record: Record,
    pub(crate) trace: Trace,
}

/// Connects, discovers, calls, watches, closes.
pub(crate) fn run(settings: &Settings) -> Outcome {
    let start = Instant::now();
    let options = options(settings);
    let trace = Trace::new(options.limits.message, settings.diagram);
    let mut run = Run {
        settings,
        start,
        deadline: start.checked_add(settings.timeout),
        session: Link::new(options, &settings.target),
        server: None,
        web: None,
        epoch: 0,
        anew: true,
        record: Record::default(),
        trace,
        progress: Progress::new(start),
        calling: None,
        watched: None,
        closing: None,
    };
    match run.prepare() {
        Ok(()) => run.drive(),
        Err(message) => run.record.failure = Some(FailureReport { kind: "connect".into(), message }),
    }
    let Run { session, mut record, trace, .. } = run;
    for step in settings.steps.iter().skip(record.calls.len()) {
        record.calls.push(CallRecord::without_answer(step, "not-sent"));
    }
    if record.events_left_out > 0 {
        let (now, left_out) = (Time::from_epoch(start.elapsed()), record.events_left_out);
        record.event(now, "left-out", raw::of(&json!({"events": left_out})));
    }
    Outcome { session, record, trace }
}

fn options(settings: &Settings) -> Options {
    let mut options = Options::new("mcp-proto-probe", env!("CARGO_PKG_VERSION"));
    options.server = settings.target.name().into();
    options.capabilities.elicitation = true;
    options.capabilities.sampling = settings.answers.offer_sampling();
    options.eras = settings.eras;
    options.reconnect = None;
    if settings.watch.is_some() {
        let mut keepalive = Keepalive::default();
        keepalive.interval = Duration::from_secs(5);
        keepalive.timeout = Duration::from_secs(3);
        keepalive.threshold = 2;
        keepalive.discover = true;
        options.keepalive = Some(keepalive);
        let mut reconnect = Reconnect::default();
        reconnect.initial = Duration::from_millis(250);
        options.reconnect = Some(reconnect);
    }
    options
}

pub(crate) struct Run<'a> {
    pub(crate) settings: &'a Settings,
    start: Instant,
    /// When the whole run is to be over.
    deadline: Option<Instant>,
    pub(crate) session: Link,
    server: Option<Server>,
    /// Where the server is reached over HTTP.
    pub(crate) web: Option<Web>,
    /// Which of the session's transports the process is.
    epoch: u32,
    /// The next process, or the next that is heard over HTTP, opens the session anew; otherwise it goes on with the
    /// handshake of the one before.
    pub(crate) anew: bool,
    pub(crate) record: Record,
    pub(crate) trace: Trace,
    progress: Progress,
    /// The step that waits for its answer, and since when.
    pub(crate) calling: Option<(RequestId, Time)>,
    /// Since when the session is only watched.
    pub(crate) watched: Option<Instant>,
    /// Since when the session is being closed.
    pub(crate) closing: Option<Instant>,
}

impl Run<'_> {
    pub(crate) fn now(&self) -> Time {
        Time::from_epoch(self.start.elapsed())
    }

    fn prepare(&mut self) -> Result<(), String> {
        if let Target::Http { .. } = self.settings.target {
            self.web = Some(Web::new(self.settings.headers.clone())?);
        }
        Ok(())
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
            if self.watch_ends().is_some_and(|end| end <= Instant::now()) && self.closing.is_none() {
                self.trace.note("the watch is over");
                self.close();
                self.act();
            }
            if self.session.deadline().is_some_and(|deadline| deadline <= now) {
                self.session.handle_timeout(now);
                self.act();
            }
            if self.progress.is_due() {
                let waiting = self.waiting();
                self.progress.tell(waiting);
            }
        }
    }

    fn watch_ends(&self) -> Option<Instant> {
        self.watched?.checked_add(self.settings.watch?)
    }

    /// Whether the run is over before this time.
    pub(crate) fn ends_before(&self, time: Time) -> bool {
        let end = self.watch_ends().or(self.deadline);
        end.is_some_and(|end| Time::from_epoch(end.saturating_duration_since(self.start)) < time)
    }

    /// Waits for the server, or for the time at which something is due.
    fn listen(&mut self) {
        let session = self.session.deadline().map(|at| Duration::from_micros(at.as_micros()));
        let session = session.and_then(|at| self.start.checked_add(at));
        let closing = self.closing.and_then(|since| since.checked_add(CLOSING));
        let end = [self.deadline, self.watch_ends()].into_iter().flatten().min().filter(|_| self.closing.is_none());
        let second = Instant::now().checked_add(Duration::from_secs(1));
        let dates = [session, closing, end, self.progress.next(), second];
        let until = dates.into_iter().flatten().min().unwrap_or_else(Instant::now);
        if let Some(web) = &mut self.web {
            if let Some((exchange, piece)) = web.wait(until) {
                self.exchanged(exchange, piece);
            }
            return;
        }
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
            let (now, late) = (self.now(), self.session.stats().late_answers);
            if let Link::Pipe(session) = &mut self.session {
                session.handle_bytes(now, piece);
            }
            self.settle(late);
        }
    }

    /// What came of an exchange; of a stream line by line likewise.
    fn exchanged(&mut self, exchange: ExchangeId, piece: Piece) {
        // Where nobody is there, nothing was opened.
        let there = !matches!(piece, Piece::Failure(Broken::Unreachable, _));
        if there && self.closing.is_none() {
            self.opened();
        }
        let streamed = self.web.as_ref().is_some_and(|web| web.is_stream(exchange));
        let pieces: Vec<Piece> = match piece {
            Piece::Body(chunk) if streamed => {
                chunk.split_inclusive(|byte| *byte == b'\n').map(|line| Piece::Body(line.into())).collect()
            }
            Piece::Head(..) | Piece::Body(_) | Piece::End | Piece::Failure(..) => vec![piece],
        };
        for piece in &pieces {
            let Some(web) = self.web.as_mut().filter(|web| web.is_running(exchange)) else { return };
            web.show(exchange, piece, &mut self.trace);
            let (now, late) = (self.now(), self.session.stats().late_answers);
            if let Link::Http(session) = &mut self.session {
                exchanges::tell(session, now, exchange, piece);
            }
            self.settle(late);
        }
    }

    /// Does what follows from what the server sent; so many answers were late before it.
    fn settle(&mut self, late: u64) {
        let late = self.session.stats().late_answers.saturating_sub(late);
        if late > 0 {
            self.tell("late-answer", &json!({"answers": late}));
        }
        self.act();
    }

    fn transport(&mut self, event: Transport<'_>) {
        let now = self.now();
        if let Link::Pipe(session) = &mut self.session {
            session.handle_transport(now, event);
        }
        self.act();
    }

    fn act(&mut self) {
        loop {
            if self.record.introduced.is_none() && self.session.server().is_some() {
                self.record.introduced = Some(self.now());
            }
            let Some(wish) = self.session.poll() else { return };
            match wish {
                Wish::Pipe(Action::Open(open)) => self.open(open.epoch),
                Wish::Pipe(Action::Send(message)) => {
                    self.trace.sent(message.bytes());
                    if let Some(server) = &self.server {
                        server.send(message.line());
                    }
                }
                Wish::Pipe(Action::Shut(how)) => self.shut(how),
                Wish::Pipe(Action::Event(event)) | Wish::Http(HttpAction::Event(event)) => self.event(event),
                Wish::Http(HttpAction::Request(request)) => {
                    let now = self.now();
                    self.record.opened.get_or_insert(now);
                    if let Some(web) = &mut self.web {
                        web.start(request, &mut self.trace);
                    }
                }
                Wish::Http(HttpAction::Drop(exchange)) => {
                    if let Some(web) = &mut self.web {
                        web.drop(exchange, &mut self.trace);
                    }
                }
                // Over stdio there is no exchange to drop.
                Wish::Pipe(Action::Abort(_) | _) | Wish::Http(_) => {}
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
            Target::Demo => std::env::current_exe().and_then(|program| {
                let start = self.settings.watch.map(|_| epoch.to_string());
                let args: Vec<OsString> = [DEMO_SERVER.into()].into_iter().chain(start.map(Into::into)).collect();
                Server::start(program.as_os_str(), &args)
            }),
            Target::Stdio { program, args } => Server::start(program, args),
            // Over HTTP there is nothing to open.
            Target::Http { .. } => return,
        };
        match started {
            Ok(server) => {
                self.opened();
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

    /// Counts how often the session was opened.
    fn opened(&mut self) {
        let anew = std::mem::take(&mut self.anew);
        self.record.connects = self.record.connects.saturating_add(u32::from(anew));
    }

    fn shut(&mut self, how: Shut) {
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

    pub(crate) fn close(&mut self) {
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
        let (now, waiting) = (self.now(), self.waiting());
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

    /// What the run waits for, in words.
    fn waiting(&self) -> String {
        let http = self.web.is_some();
        match &self.server {
            None if !http => "the process to start".into(),
            Some(_) if self.closing.is_some() => "the process to end".into(),
            None if self.closing.is_some() => "the server to end the session".into(),
            Some(_) | None => {
                let idle = if self.watched.is_some() { "the end of the watch" } else { "the server" };
                self.trace.waiting().unwrap_or_else(|| idle.into())
            }
        }
    }
}
