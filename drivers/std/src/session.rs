//! The loop around a client.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_proto::jsonrpc::ErrorObject;
use mcp_proto::{
    Action, Cause, Client, CommandError, ConnectionId, Diagnosis, Engine, Event, Failure, Lines, OpenFailure, Options,
    Recovery, Request, RequestId, ShutdownStep, StderrLines, Time, Transport,
};
use serde::Serialize;

use crate::reply::{CallError, CallErrorKind, Reply, arguments, reply};
use crate::{Piece, Process, Program};

/// A client of a server over stdio, with the server's process and the clock. It runs while a method waits: on the thread
/// that calls it, and on no other.
///
/// There are two ways to use it. [`connect`](Self::connect), [`call_tool`](Self::call_tool) and [`call`](Self::call) wait
/// for what they are for, and drop other events. [`open`](Self::open) and [`next_event`](Self::next_event) are for a loop
/// that handles each event.
///
/// The getters are those of [`Engine`]; further commands are those of [`client`](Self::client), with the time of
/// [`now`](Self::now), which is taken first: `let now = session.now(); session.client().cancel(now, request)?`.
///
/// ```no_run
/// use mcp_proto::{Event, Options, Request};
/// use mcp_proto_std::{Program, Session};
///
/// let mut session = Session::open(Program::new("my-server"), Options::new("my-host", "1.0"));
/// while let Some(event) = session.next_event(None) {
///     match event {
///         Event::Ready => drop(session.request(Request::read_resource("file:///a"))?),
///         Event::Finished { outcome, .. } => {
///             println!("{outcome:?}");
///             session.close();
///         }
///         other => eprintln!("{other:?}"),
///     }
/// }
/// # Ok::<(), mcp_proto::CommandError>(())
/// ```
pub struct Session {
    client: Client<Lines>,
    program: Program,
    process: Option<(ConnectionId, Process)>,
    /// What the last process said.
    stderr_lines: StderrLines,
    start: Instant,
}

impl Session {
    /// Opens a client of the server that a program is. Nothing is started until [`next_event`](Self::next_event) waits.
    pub fn open(program: Program, mut options: Options) -> Self {
        if &*options.server == Options::UNNAMED {
            options.server = program.file_name().into();
        }
        let seed = RandomState::new().hash_one("the jitter of reconnects");
        let mut client = Client::new(Lines::new(), options, seed);
        // A new client can be opened.
        let _ = client.open(Time::ZERO);
        Self { client, program, process: None, stderr_lines: StderrLines::default(), start: Instant::now() }
    }

    /// Opens a client, and waits until it is ready. The first failure ends it; a client that was ready reconnects as its
    /// options say.
    ///
    /// # Errors
    /// Why it cannot connect. A program that says nothing is waited for as long as
    /// [`Timeouts::connect`](mcp_proto::Timeouts::connect) allows, or for the time of the handshake.
    pub fn connect(program: Program, mut options: Options) -> Result<Self, Diagnosis> {
        options.reconnect.iter_mut().for_each(|reconnect| reconnect.first_attempts = 1);
        Self::connect_patiently(program, options)
    }

    /// As [`connect`](Self::connect), with as many attempts as
    /// [`Reconnect::first_attempts`](mcp_proto::Reconnect::first_attempts) allows.
    ///
    /// # Errors
    /// As of [`connect`](Self::connect).
    pub fn connect_patiently(program: Program, options: Options) -> Result<Self, Diagnosis> {
        let mut session = Self::open(program, options);
        while let Some(event) = session.next_event(None) {
            match event {
                Event::Ready => return Ok(session),
                Event::Down { failure, next: Recovery::Parked { .. } }
                | Event::Closed { cause: Cause::Failed(failure) } => return Err(session.diagnose(failure)),
                other => session.decline(&other),
            }
        }
        Err(session.diagnose(Failure::new(mcp_proto::FailureKind::Closed, "the client closed before it was ready")))
    }

    /// Finds the cause of a failure that an event told.
    pub fn diagnose(&self, failure: Failure) -> Diagnosis {
        let stderr_lines = self.process.as_ref().map(|(_, process)| process.stderr_lines());
        Diagnosis::new(failure, &self.client, stderr_lines.as_ref().unwrap_or(&self.stderr_lines))
    }

    /// Calls a tool, and waits for its result.
    ///
    /// `arguments` is a value that serializes to a JSON object, such as a struct, a map or `serde_json::json!`; without
    /// arguments, `json!({})`.
    ///
    /// # Errors
    /// Why there is no result. A tool that fails has one: see [`Reply::is_error`].
    pub fn call_tool(&mut self, name: &str, arguments: &impl Serialize) -> Result<Reply, CallError> {
        let request = self::arguments(arguments).map(|arguments| Request::call_tool(name, Some(&arguments)));
        self.finish(("tools/call", name), request)
    }

    /// Makes any request, and waits for its result. Events that come meanwhile are dropped; what the server asks for
    /// meanwhile is declined.
    ///
    /// # Errors
    /// As of [`call_tool`](Self::call_tool).
    pub fn call(&mut self, request: Request) -> Result<Reply, CallError> {
        let method = request.method().to_owned();
        self.finish((&method, ""), Ok(request))
    }

    /// Makes a request of this method and name, and waits for its result.
    fn finish(
        &mut self,
        (method, target): (&str, &str),
        request: Result<Request, CallErrorKind>,
    ) -> Result<Reply, CallError> {
        let requested = request.and_then(|request| Ok(self.request(request)?));
        let error = |session: &Self, kind| CallError::new(session.client.server_name(), method, target, kind);
        let id = requested.map_err(|kind| error(self, kind))?;
        while let Some(event) = self.next_event(None) {
            match event {
                Event::Finished { request, outcome, failure, .. } if request == id => {
                    let cause = failure.map(|failure| Box::new(self.diagnose(Arc::unwrap_or_clone(failure))));
                    return reply(outcome).map_err(|kind| error(self, kind).because(cause));
                }
                other => self.decline(&other),
            }
        }
        // Each request ends before the client does.
        Err(error(self, CommandError::Closed.into()))
    }

    /// Declines what an event asks for.
    fn decline(&mut self, event: &Event) {
        let now = self.now();
        // An error means that it is not wanted any more.
        let _ = match event {
            Event::InputRequired { request, .. } => self.client.decline(now, *request),
            Event::ServerRequest { id, method, .. } => {
                let why = format!("{method} was declined");
                self.client.respond(now, *id, Err(ErrorObject::new(-1, why)))
            }
            _ => Ok(()),
        };
    }

    /// Makes a request; [`Event::Finished`] follows.
    ///
    /// # Errors
    /// As of [`Client::request`].
    pub fn request(&mut self, request: Request) -> Result<RequestId, CommandError> {
        let now = self.now();
        self.client.request(now, request)
    }

    /// Closes the client: [`Event::Closed`] follows, when the program's process group has ended. A descendant that left the
    /// group, with `setsid` or as a daemon, is not ended, and not waited for. If it is closed already, nothing happens.
    pub fn close(&mut self) {
        let now = self.now();
        let _ = self.client.close(now);
    }

    /// Closes the client, and waits until the program's process group has ended, as [`close`](Self::close) says. Dropping a
    /// session kills the group instead.
    pub fn end(mut self) {
        self.close();
        while self.next_event(None).is_some() {}
    }

    /// The client, for its commands.
    pub const fn client(&mut self) -> &mut Client<Lines> {
        &mut self.client
    }

    /// The current time of the client.
    pub fn now(&self) -> Time {
        Time::from_epoch(self.start.elapsed())
    }

    /// Waits for the next event, or until this time; without a time, for as long as it takes. `None` if the time passed,
    /// or after the last event, when [`is_closed`](Client::is_closed).
    pub fn next_event(&mut self, until: Option<Instant>) -> Option<Event> {
        let mut has_waited = false;
        loop {
            while let Some(action) = self.client.poll() {
                match action {
                    Action::Open(connection) => self.start(connection),
                    Action::Send(message) => {
                        if let Some((_, process)) = &mut self.process {
                            process.queue(message);
                        }
                    }
                    Action::Shutdown(step) => self.shut_down(step),
                    Action::Event(event) => {
                        self.flush();
                        return Some(event);
                    }
                    _ => {}
                }
            }
            self.flush();
            if self.client.is_closed() {
                self.process = None;
                return None;
            }
            if has_waited && until.is_some_and(|until| until <= Instant::now()) {
                return None;
            }
            let due = self.client.deadline().map(|due| Duration::from_micros(due.as_micros()));
            let due = due.and_then(|due| self.start.checked_add(due));
            self.wait([due, until].into_iter().flatten().min());
            has_waited = true;
        }
    }

    /// Writes the messages that were polled: one write for a burst of them.
    fn flush(&mut self) {
        if let Some((_, process)) = &mut self.process {
            process.flush();
        }
    }

    /// Waits for one input at most.
    fn wait(&mut self, until: Option<Instant>) {
        let piece = match &mut self.process {
            Some((connection, process)) => process.read_until(until).map(|piece| (*connection, piece)),
            None => {
                // Without a process, only the time changes anything.
                let rest = until.map(|until| until.saturating_duration_since(Instant::now()));
                std::thread::sleep(rest.unwrap_or(Duration::from_secs(1)));
                None
            }
        };
        let now = self.now();
        match piece {
            None => self.client.handle_timeout(now),
            Some((connection, Piece::Output(bytes))) => self.client.handle_bytes(now, connection, &bytes),
            Some((connection, Piece::SignOfLife)) => {
                self.client.handle_transport(now, connection, Transport::SignOfLife);
            }
            Some((connection, Piece::Closed { why })) => {
                self.stderr_lines = self.process.take().map(|(_, process)| process.stderr_lines()).unwrap_or_default();
                self.client.handle_transport(now, connection, Transport::Closed { why: &why });
            }
        }
    }

    fn start(&mut self, connection: ConnectionId) {
        (self.process, self.stderr_lines) = (None, StderrLines::default());
        let started = Process::start(&self.program).map_err(|error| error.to_string());
        let event = match &started {
            Ok(_) => Transport::Opened,
            Err(why) => Transport::OpenFailed { how: OpenFailure::Spawn, why },
        };
        self.client.handle_transport(self.now(), connection, event);
        self.process = started.ok().map(|process| (connection, process));
    }

    fn shut_down(&mut self, step: ShutdownStep) {
        match &mut self.process {
            Some((_, process)) => process.shut_down(step),
            None => {
                let connection = self.client.connection();
                self.client.handle_transport(self.now(), connection, Transport::Closed { why: "there is no process" });
            }
        }
    }
}

impl Deref for Session {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.client
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { program, process, .. } = self;
        f.debug_struct("Session").field("program", program).field("process", process).finish_non_exhaustive()
    }
}
