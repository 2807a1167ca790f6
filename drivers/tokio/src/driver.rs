//! Carries out what a client or a hub wants done, and gives it what came. Whoever has an input, a task with a piece of output
//! or a caller with a command, locks the client, gives the input, and carries out the actions that follow; one more task
//! waits for deadlines.

use std::collections::BTreeMap;
use std::future::ready;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_proto::host::hub::{CallId, SessionHandle};
use mcp_proto::jsonrpc::ErrorObject;
use mcp_proto::{
    ConnectionId, Diagnosis, Failure, FailureKind, InputRequest, OpenFailure, Outcome, Progress, RawValue, RequestId,
    ServerRequestId, ShutdownStep, StderrLines, Time, TraceContext, Transport,
};
use mcp_proto_std::{CallError, CallErrorKind, Piece, Program};
use tokio::runtime::Handle as Runtime;
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::call::{Call, Cancel, Ended};
use crate::endpoint::Target;
use crate::host::{Ask, Watchers, Wiring};
use crate::machine::{Input, Machine, Output, Passed, Passing, Sorted, Tap};
use crate::process::{Aborted, Process, SharedLines, Writing, copy_of};
use crate::queue::{Queue, Subscribers};
use crate::status::{StartError, Status};
use crate::stream::{Connection, Opening, Stream};
use crate::trace::CallSpan;

/// The connection of a session to a program or over a stream.
struct Slot {
    connection: ConnectionId,
    /// `None` while it is being opened.
    open: Option<Connection>,
    /// Dropped, when it is not wanted any more.
    _wanted: oneshot::Sender<()>,
}

/// An exchange with a server over HTTP.
#[cfg(feature = "http")]
struct Exchange {
    task: AbortHandle,
    /// Its response is a stream of events.
    is_stream: bool,
}

/// A call in flight.
struct Pending {
    /// `None` once it was given.
    outcome: Option<oneshot::Sender<Ended>>,
    progress: Arc<Queue<Progress>>,
}

impl Drop for Pending {
    /// A call that has no outcome ends as one that may have run, and its progress ends.
    fn drop(&mut self) {
        self.progress.finish();
    }
}

/// What a handler answers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Question {
    Server(ServerRequestId),
    Input(RequestId),
}

/// What the lock protects.
struct Core<M: Machine> {
    machine: M,
    /// The time of the last input.
    now: Time,
    slots: BTreeMap<SessionHandle, Slot>,
    /// What the last program of each session said.
    stderr_lines: BTreeMap<SessionHandle, SharedLines>,
    #[cfg(feature = "http")]
    exchanges: BTreeMap<(SessionHandle, mcp_proto::binding::http::ExchangeId), Exchange>,
    #[cfg(feature = "oauth")]
    sign_ins: crate::oauth::SignIns,
    calls: BTreeMap<CallId, Pending>,
    questions: BTreeMap<(SessionHandle, Question), AbortHandle>,
    subscribers: Subscribers<M::Event>,
    tap: Option<Tap<M::Event>>,
    /// Why it closed, until its processes have ended.
    closed: Option<Status>,
    /// When the task of deadlines wakes up.
    armed: Option<Time>,
    /// What has to be complete at the end: starts of processes, their ends, and actions on the store.
    tasks: JoinSet<()>,
    /// What was left was killed, and nothing is waited for any more.
    is_killed: bool,
    /// The task of deadlines ended before the client did.
    gone: Option<Diagnosis>,
}

/// A client or a hub with its I/O.
struct Shared<M: Machine> {
    core: Mutex<Core<M>>,
    wiring: Wiring,
    start: Instant,
    /// The client's time at the start.
    epoch: Time,
    runtime: Runtime,
    wake: Notify,
    status: watch::Sender<Status>,
}

/// The embedder's end. When the last one is dropped, the client closes.
pub(crate) struct Handle<M: Machine>(Arc<Shared<M>>);

impl<M: Machine> Handle<M> {
    /// Drives a client, in the context of a runtime. Its time begins at `epoch`.
    pub(crate) fn start(
        machine: M,
        wiring: Wiring,
        watchers: Watchers<M::Event>,
        epoch: Time,
    ) -> Result<Arc<Self>, StartError> {
        let runtime = Runtime::try_current().map_err(|_| StartError::NoRuntime)?;
        let status = if machine.is_ready() { Status::Ready } else { Status::Connecting };
        let shared = Arc::new(Shared {
            core: Mutex::new(Core {
                machine,
                now: epoch,
                slots: BTreeMap::new(),
                stderr_lines: BTreeMap::new(),
                #[cfg(feature = "http")]
                exchanges: BTreeMap::new(),
                #[cfg(feature = "oauth")]
                sign_ins: crate::oauth::SignIns::default(),
                calls: BTreeMap::new(),
                questions: BTreeMap::new(),
                subscribers: watchers.subscribers,
                tap: watchers.tap,
                closed: None,
                armed: None,
                tasks: JoinSet::new(),
                is_killed: false,
                gone: None,
            }),
            wiring,
            start: Instant::now(),
            epoch,
            runtime,
            wake: Notify::new(),
            status: watch::Sender::new(status),
        });
        // It tells the end even if the task is never polled.
        let guard = Guard(Some(Arc::clone(&shared)));
        shared.runtime.spawn(Arc::clone(&shared).run(guard));
        Ok(Arc::new(Self(shared)))
    }

    /// Receives redirects.
    #[cfg(feature = "oauth")]
    pub(crate) fn listen(&self, loopback: crate::Loopback) {
        self.0.lock().sign_ins.listen(&self.0, loopback);
    }

    /// Runs a command.
    pub(crate) fn command<T>(&self, command: impl FnOnce(&mut M, Time) -> T) -> T {
        self.0.input(command)
    }

    /// Reads something.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&M) -> T) -> T {
        read(&self.0.lock().machine)
    }

    /// Cancels the calls, and takes the client: this one, which is closed, is left.
    #[cfg(feature = "snapshot")]
    pub(crate) fn take(&self, mut closed: M) -> M {
        let mut core = self.0.lock();
        let (now, calls) = (self.0.stamp(&mut core), core.calls.keys().copied().collect::<Vec<_>>());
        calls.into_iter().for_each(|call| core.machine.cancel(now, call, None));
        self.0.act(&mut core);
        closed.close(now);
        let machine = std::mem::replace(&mut core.machine, closed);
        self.0.act(&mut core);
        machine
    }

    /// The client's time.
    pub(crate) fn now(&self) -> Time {
        self.0.now()
    }

    /// Gives an input to the authorization of a session. Returns whether it belongs to what is in progress.
    #[cfg(feature = "oauth")]
    pub(crate) fn give_oauth(&self, session: SessionHandle, input: mcp_proto::binding::oauth::OAuthInput<'_>) -> bool {
        let mut core = self.0.lock();
        let is_taken = self.0.give(&mut core, session, Input::OAuth(input));
        self.0.act(&mut core);
        is_taken
    }

    /// Closes the client, and waits for its end. What is left after this time is killed.
    pub(crate) async fn close_within(&self, bound: Duration) {
        self.command(Machine::close);
        let is_closed = |status: &Status| matches!(status, Status::Closed(_));
        if timeout(bound, self.until(is_closed)).await.is_err() {
            self.0.kill();
            self.until(is_closed).await;
        }
    }

    /// Cancels the calls in flight, and closes the client.
    pub(crate) fn time_out(&self) {
        let mut core = self.0.lock();
        let (now, calls) = (self.0.stamp(&mut core), core.calls.keys().copied().collect::<Vec<_>>());
        if calls.is_empty() {
            // Nothing is polled before the close: a replay of the journal knows by it that the time was up.
            core.machine.handle_timeout(now);
        } else {
            calls.into_iter().for_each(|call| core.machine.cancel(now, call, None));
            self.0.act(&mut core);
        }
        core.machine.close(now);
        self.0.act(&mut core);
    }

    /// Closes the client, then gives up the credentials of a session, and waits for the end of both.
    #[cfg(feature = "oauth")]
    pub(crate) async fn sign_out(&self, session: SessionHandle) {
        self.0.lock().sign_ins.outlive_the_session();
        self.command(Machine::close);
        self.until(|status| matches!(status, Status::Closed(_))).await;
        self.0.finish_authorization().await;
        self.give_oauth(session, mcp_proto::binding::oauth::OAuthInput::SignOut);
        self.0.finish_authorization().await;
    }

    /// Starts a call.
    pub(crate) fn call(
        self: &Arc<Self>,
        name: (&str, &str),
        command: impl FnOnce(&mut M, Time, Option<TraceContext>) -> Result<CallId, (Box<str>, CallErrorKind)>,
    ) -> Result<Call, CallError> {
        let span = CallSpan::start(name);
        let trace = self.0.wiring.trace.as_ref().and_then(|context| span.within(|| context()));
        let (outcome, receiver) = oneshot::channel();
        let progress = Queue::new();
        let mut core = self.0.lock();
        let now = self.0.stamp(&mut core);
        let started = match core.gone.clone() {
            Some(gone) => Err(("the driver".into(), CallErrorKind::Down(gone))),
            None => command(&mut core.machine, now, trace),
        };
        if let Ok(call) = &started {
            core.calls.insert(*call, Pending { outcome: Some(outcome), progress: Arc::clone(&progress) });
        }
        let server = match &started {
            Ok(call) => core.machine.server(call.session()),
            Err((server, _)) => server.clone(),
        };
        self.0.act(&mut core);
        drop(core);
        match started {
            Ok(call) => {
                let session = Arc::clone(self) as Arc<dyn Cancel>;
                Ok(Call::new(session, call, server, name, receiver, progress, span))
            }
            Err((server, kind)) => {
                span.end(&server, Err(&kind));
                Err(CallError::new(&server, name.0, name.1, kind))
            }
        }
    }

    /// Finds the cause of a failure of a session.
    pub(crate) fn diagnose(&self, session: SessionHandle, failure: Failure) -> Diagnosis {
        self.0.lock().diagnose(session, failure)
    }

    pub(crate) fn subscribe(&self) -> Arc<Queue<M::Event>> {
        let queue = Queue::new();
        let mut core = self.0.lock();
        if matches!(*self.0.status.borrow(), Status::Closed(_)) {
            queue.finish();
        } else {
            core.subscribers.add(&queue);
        }
        queue
    }

    pub(crate) fn status(&self) -> Status {
        self.0.status.borrow().clone()
    }

    /// Runs a command that has a parked client connect, and returns whether it is accepted.
    pub(crate) fn connect<T, E>(&self, open: impl FnOnce(&mut M, Time) -> Result<T, E>) -> Result<T, E> {
        let mut core = self.0.lock();
        let now = self.0.stamp(&mut core);
        let opened = open(&mut core.machine, now);
        if opened.is_ok() {
            // Before what follows, which may be that it parks again.
            self.0.status.send_if_modified(|status| {
                let is_parked = matches!(status, Status::Parked(_));
                if is_parked {
                    *status = Status::Connecting;
                }
                is_parked
            });
        }
        self.0.act(&mut core);
        opened
    }

    /// Waits until this holds of the status.
    pub(crate) async fn until(&self, holds: impl FnMut(&Status) -> bool) -> Status {
        let mut status = self.0.status.subscribe();
        let found = status.wait_for(holds).await.map(|status| status.clone());
        // The sender is in `self`.
        found.unwrap_or(Status::Closed(None))
    }
}

impl<M: Machine> Cancel for Handle<M> {
    fn cancel(&self, call: CallId, reason: Option<&str>) {
        self.0.input(|machine, now| machine.cancel(now, call, reason));
    }

    fn cancel_after(&self, call: CallId, after: Duration, is_over: Arc<AtomicBool>) -> Aborted<()> {
        let shared = Arc::downgrade(&self.0);
        let wait = async move {
            // Without a timer, for which `enable_all` is meant, the client's own timeouts are left.
            sleep(after).await;
            if let Some(shared) = shared.upgrade() {
                is_over.store(true, Ordering::Relaxed);
                shared.input(|machine, now| machine.cancel(now, call, Some("timeout")));
            }
        };
        Aborted(self.0.runtime.spawn(wait))
    }
}

impl<M: Machine> Drop for Handle<M> {
    fn drop(&mut self) {
        self.0.input(|machine, now| machine.close(now));
    }
}

impl<M: Machine> Shared<M> {
    fn lock(&self) -> MutexGuard<'_, Core<M>> {
        // A function of the embedder that panics does so outside of the lock, or is caught.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Time {
        Time::from_epoch(self.epoch.since(Time::ZERO).saturating_add(self.start.elapsed()))
    }

    /// The time of an input, which is that of the outputs that follow.
    fn stamp(&self, core: &mut Core<M>) -> Time {
        core.now = self.now();
        core.now
    }

    /// Runs a command, and carries out what follows.
    fn input<T>(self: &Arc<Self>, input: impl FnOnce(&mut M, Time) -> T) -> T {
        let mut core = self.lock();
        let now = self.stamp(&mut core);
        let result = input(&mut core.machine, now);
        self.act(&mut core);
        result
    }

    /// Gives an input of a session. Returns whether it belongs to what is in progress.
    fn give(&self, core: &mut Core<M>, session: SessionHandle, input: Input<'_>) -> bool {
        let now = self.stamp(core);
        let is_taken = core.machine.input(now, session, input);
        self.tap(core, Some(session), Passing::Input(input));
        is_taken
    }

    /// Shows the embedder what passes.
    fn tap(&self, core: &mut Core<M>, session: Option<SessionHandle>, what: Passing<'_, M::Event>) {
        let Some(mut tap) = core.tap.take() else { return };
        let process = session.and_then(|session| core.slots.get(&session)?.open.as_ref()?.process());
        let passed = Passed {
            now: core.now,
            session,
            server: &session.map(|session| core.machine.server(session)).unwrap_or_default(),
            engine: session.and_then(|session| core.machine.engine(session)),
            process,
            what,
        };
        // One that panicked is not called again.
        let called = catch_unwind(AssertUnwindSafe(|| tap(passed)));
        core.tap = called.is_ok().then_some(tap);
    }

    /// Handles deadlines until the client is closed, and ends what is left then.
    async fn run(self: Arc<Self>, mut guard: Guard<M>) {
        loop {
            let (deadline, is_closed) = {
                let mut core = self.lock();
                #[cfg(feature = "oauth")]
                if let Some(unix) = core.sign_ins.drift(self.now()).filter(|_| self.wiring.oauth.is_some()) {
                    let now = self.stamp(&mut core);
                    core.machine.handle_clock(now, unix);
                    self.act(&mut core);
                }
                core.armed = core.machine.deadline();
                (core.armed, core.machine.is_closed() || core.is_killed)
            };
            if is_closed {
                self.finish().await;
                guard.0 = None;
                return;
            }
            let due = deadline.and_then(|due| self.start.checked_add(due.since(self.epoch)));
            tokio::select! {
                // Tests have the same run again.
                biased;
                () = sleep_until(due.unwrap_or(self.start)), if due.is_some() => {
                    self.input(|machine, now| machine.handle_timeout(now));
                }
                () = self.wake.notified() => {}
            }
        }
    }

    /// Ends all that anybody waits for: nobody handles deadlines any more.
    fn abandon(&self) {
        let why =
            "nothing drives it any more: its tokio runtime is gone, or has no timer (`enable_all`), or a task panicked";
        let gone = Diagnosis::of_server(Failure::new(FailureKind::Closed, why), "the driver", &StderrLines::default());
        let mut core = self.lock();
        core.gone = Some(gone.clone());
        // Dropping a process kills it.
        core.slots.clear();
        core.abort();
        for mut pending in std::mem::take(&mut core.calls).into_values() {
            // An error means that nobody waits for it.
            let ended = (Outcome::Unknown, Some(Box::new(gone.clone())));
            let _ = pending.outcome.take().map(|waiting| waiting.send(ended));
        }
        core.subscribers.clear();
        self.status.send_replace(Status::Closed(Some(gone)));
    }

    async fn finish(&self) {
        let (closed, mut tasks) = {
            let mut core = self.lock();
            let slots = std::mem::take(&mut core.slots);
            for connection in slots.into_values().filter_map(|slot| slot.open) {
                core.tasks.spawn_on(connection.kill(), &self.runtime);
            }
            core.abort();
            (core.closed.take(), std::mem::take(&mut core.tasks))
        };
        while tasks.join_next().await.is_some() {}
        let mut core = self.lock();
        // Each call has ended; what is left here is none.
        core.calls.clear();
        self.status.send_replace(closed.unwrap_or(Status::Closed(None)));
        core.subscribers.clear();
    }

    /// There is no token for a client that connects, which waits for one without a word.
    #[cfg(feature = "oauth")]
    fn unauthorized(&self, failed: Option<Status>) {
        self.status.send_if_modified(|status| match failed.filter(|_| *status == Status::Connecting) {
            Some(failed) => {
                *status = failed;
                true
            }
            None => false,
        });
    }

    /// Kills the processes and drops the exchanges, of which the client is told as of a server that is gone.
    fn kill(self: &Arc<Self>) {
        let mut core = self.lock();
        let why = "the host's time was up";
        for (session, Slot { connection, open, .. }) in std::mem::take(&mut core.slots) {
            if let Some(open) = open {
                core.tasks.spawn_on(open.kill(), &self.runtime);
            }
            self.give(&mut core, session, Input::Transport(connection, Transport::Closed { why }));
        }
        #[cfg(feature = "http")]
        for ((session, exchange), Exchange { task, .. }) in std::mem::take(&mut core.exchanges) {
            task.abort();
            let broken = crate::HttpPiece::Failure(mcp_proto::binding::http::Broken::Midway, why.into());
            self.give(&mut core, session, Input::Http(exchange, &broken));
        }
        core.is_killed = true;
        self.act(&mut core);
    }

    /// Carries out the actions of the client.
    fn act(self: &Arc<Self>, core: &mut Core<M>) {
        let mut added_to = None;
        while let Some(output) = core.machine.poll() {
            if core.tap.is_some() {
                self.tap(core, output.session(M::session), Passing::Output(&output));
            }
            match output {
                Output::Open(session, connection) => self.open(core, session, connection),
                Output::Send(session, message) => {
                    if let Some(before) = added_to.replace(session).filter(|before| *before != session) {
                        core.write(before);
                    }
                    if let Some(input) = core.input(session) {
                        input.push(message);
                    }
                }
                Output::Shutdown(session, step) => self.shut_down(core, session, step),
                #[cfg(feature = "http")]
                Output::Request(session, request) => self.request(core, session, request),
                #[cfg(feature = "http")]
                Output::Drop(session, exchange) => {
                    if let Some(exchange) = core.exchanges.remove(&(session, exchange)) {
                        exchange.task.abort();
                    }
                }
                #[cfg(feature = "oauth")]
                Output::OAuth(session, action) => self.authorize(core, session, action),
                Output::Event(event) => self.event(core, event),
            }
        }
        if let Some(session) = added_to {
            core.write(session);
        }
        #[cfg(feature = "oauth")]
        core.sign_ins.close_unused_listeners();
        let deadline = core.machine.deadline();
        let is_earlier = deadline.is_some_and(|deadline| core.armed.is_none_or(|armed| deadline < armed));
        if is_earlier || core.machine.is_closed() || core.is_killed {
            self.wake.notify_one();
        }
    }

    /// Ends the connection of a session, if there is one, and opens another one.
    fn open(self: &Arc<Self>, core: &mut Core<M>, session: SessionHandle, connection: ConnectionId) {
        let (wanted, mut unwanted) = oneshot::channel();
        let old = core.slots.insert(session, Slot { connection, open: None, _wanted: wanted });
        core.stderr_lines.remove(&session);
        let (target, shared) = (core.machine.target(session), Arc::clone(self));
        let server = core.machine.server(session);
        while core.tasks.try_join_next().is_some() {}
        let start = async move {
            if let Some(open) = old.and_then(|old| old.open) {
                open.kill().await;
            }
            let unneeded = match target {
                Ok(Target::Opens(opener)) => {
                    tokio::select! {
                        biased;
                        _ = &mut unwanted => None,
                        opened = opener.open() => shared.start_stream(session, connection, opened),
                    }
                }
                Ok(Target::Program(program)) => shared.start_process(session, connection, Ok(program), server),
                Err(error) => shared.start_process(session, connection, Err(error), server),
            };
            if let Some(unneeded) = unneeded {
                unneeded.kill().await;
            }
        };
        core.tasks.spawn_on(start, &self.runtime);
    }

    /// What takes what comes from a connection.
    fn taker(
        self: &Arc<Self>,
        session: SessionHandle,
        connection: ConnectionId,
    ) -> impl Fn(Piece) -> std::future::Ready<()> + Clone + use<M> {
        let shared = Arc::downgrade(self);
        move |piece| {
            if let Some(shared) = shared.upgrade() {
                shared.take(session, connection, &piece);
            }
            ready(())
        }
    }

    /// A stream was opened, or could not be. Returns one that is not wanted any more.
    fn start_stream(
        self: &Arc<Self>,
        session: SessionHandle,
        connection: ConnectionId,
        opened: io::Result<Opening>,
    ) -> Option<Connection> {
        let mut core = self.lock();
        let (take, as_lines) = (self.taker(session, connection), !core.machine.takes_messages());
        let started = opened.map(|opening| Connection::Stream(Stream::start(opening, as_lines, take)));
        self.started(&mut core, (session, connection), OpenFailure::Connect, started)
    }

    /// Starts a process. Returns one that is not wanted any more. Under the lock, so that nothing is taken of it before it is
    /// told that it was started.
    fn start_process(
        self: &Arc<Self>,
        session: SessionHandle,
        connection: ConnectionId,
        program: io::Result<Program>,
        server: Box<str>,
    ) -> Option<Connection> {
        let mut core = self.lock();
        let started = match program {
            Ok(mut program) => {
                if self.wiring.inherits_environment {
                    program = program.env_inherit();
                }
                if let Some(sink) = self.wiring.stderr.clone().filter(|_| program.sink().is_none()) {
                    program = program.stderr(move |piece| sink(&server, piece));
                }
                let take = self.taker(session, connection);
                let why = "a function of the host, or the runtime (`enable_all`), failed to start the program";
                let start = AssertUnwindSafe(|| Process::start(&program, take));
                catch_unwind(start).unwrap_or_else(|_| Err(io::Error::other(why)))
            }
            Err(error) => Err(error),
        };
        self.started(&mut core, (session, connection), OpenFailure::Spawn, started.map(Connection::Process))
    }

    /// A connection was opened, or could not be. Returns one that is not wanted any more.
    fn started(
        self: &Arc<Self>,
        core: &mut Core<M>,
        (session, connection): (SessionHandle, ConnectionId),
        how: OpenFailure,
        started: io::Result<Connection>,
    ) -> Option<Connection> {
        let Some(slot) = core.slots.get_mut(&session).filter(|slot| slot.connection == connection) else {
            return started.ok();
        };
        match started {
            Ok(open) => {
                let stderr_lines = open.stderr_lines().cloned();
                slot.open = Some(open);
                let Core { machine, stderr_lines: all, .. } = &mut *core;
                all.retain(|session, _| !machine.server(*session).is_empty());
                all.extend(stderr_lines.map(|stderr_lines| (session, stderr_lines)));
                self.give(core, session, Input::Transport(connection, Transport::Opened));
            }
            Err(error) => {
                core.slots.remove(&session);
                let why = &*error.to_string();
                let failed = Transport::OpenFailed { how, why };
                self.give(core, session, Input::Transport(connection, failed));
            }
        }
        self.act(core);
        None
    }

    /// Takes what came from a program or over a stream.
    fn take(self: &Arc<Self>, session: SessionHandle, connection: ConnectionId, piece: &Piece) {
        let mut core = self.lock();
        let input = match piece {
            // What follows from a line is shown before the next line.
            Piece::Output(bytes) if core.tap.is_some() && !core.machine.takes_messages() => {
                for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                    self.give(&mut core, session, Input::Bytes(connection, line));
                    self.act(&mut core);
                }
                return;
            }
            Piece::Output(bytes) => Input::Bytes(connection, bytes),
            Piece::SignOfLife => Input::Transport(connection, Transport::SignOfLife),
            Piece::Closed { why } => {
                if core.slots.get(&session).is_some_and(|slot| slot.connection == connection) {
                    core.slots.remove(&session);
                }
                Input::Transport(connection, Transport::Closed { why })
            }
            _ => return,
        };
        self.give(&mut core, session, input);
        self.act(&mut core);
    }

    fn shut_down(&self, core: &mut Core<M>, session: SessionHandle, step: ShutdownStep) {
        let Some(slot) = core.slots.get_mut(&session) else { return };
        match &mut slot.open {
            Some(open) => open.shut_down(step),
            None => {
                // It is being opened, and is not wanted any more.
                let connection = slot.connection;
                core.slots.remove(&session);
                let closed = Transport::Closed { why: "it was not started yet" };
                self.give(core, session, Input::Transport(connection, closed));
            }
        }
    }

    #[cfg(feature = "http")]
    fn request(
        self: &Arc<Self>,
        core: &mut Core<M>,
        session: SessionHandle,
        mut request: mcp_proto::binding::http::HttpRequest,
    ) {
        let (shared, exchange) = (Arc::clone(self), request.exchange);
        let mut own = core.machine.headers(session);
        self.wiring.headers.keys().for_each(|name| drop(own.remove(name)));
        own.extend(self.wiring.headers.clone());
        request.add_headers(&own);
        let task = self.runtime.spawn(async move {
            let owner = Arc::clone(&shared);
            let take = move |piece| owner.take_http(session, exchange, &piece);
            match shared.wiring.http() {
                Ok(client) => crate::http::to_its_end(client, request.request, crate::Purpose::Server, take).await,
                Err(piece) => take(piece),
            }
        });
        core.exchanges.insert((session, exchange), Exchange { task: task.abort_handle(), is_stream: false });
    }

    #[cfg(feature = "http")]
    fn take_http(
        self: &Arc<Self>,
        session: SessionHandle,
        exchange: mcp_proto::binding::http::ExchangeId,
        piece: &crate::HttpPiece,
    ) {
        let mut core = self.lock();
        let (key, is_tapped) = ((session, exchange), core.tap.is_some());
        // A task that was aborted goes on until it waits for something: what it still has is not wanted.
        let Some(known) = core.exchanges.get_mut(&key) else { return };
        match piece {
            crate::HttpPiece::Head(_, headers) => {
                let kind = headers.get(http::header::CONTENT_TYPE).map(http::HeaderValue::as_bytes);
                known.is_stream = kind.is_some_and(|kind| kind.starts_with(b"text/event-stream"));
            }
            crate::HttpPiece::Body(bytes) if known.is_stream && is_tapped => {
                for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                    let piece = crate::HttpPiece::Body(line.to_vec());
                    if core.exchanges.contains_key(&key) {
                        self.give(&mut core, session, Input::Http(exchange, &piece));
                        self.act(&mut core);
                    }
                }
                return;
            }
            crate::HttpPiece::Body(_) => {}
            crate::HttpPiece::End | crate::HttpPiece::Failure(..) => drop(core.exchanges.remove(&key)),
        }
        self.give(&mut core, session, Input::Http(exchange, piece));
        self.act(&mut core);
    }

    /// Carries out an action of the authorization of a session.
    #[cfg(feature = "oauth")]
    fn authorize(
        self: &Arc<Self>,
        core: &mut Core<M>,
        session: SessionHandle,
        action: mcp_proto::binding::oauth::OAuthAction,
    ) {
        use mcp_proto::binding::oauth::{OAuthAction, OAuthEvent, OAuthInput};

        let Some(oauth) = &self.wiring.oauth else { return };
        match action {
            OAuthAction::Request(request) => core.sign_ins.request(self, session, request),
            OAuthAction::Drop(exchange) => core.sign_ins.drop_exchange(session, exchange),
            OAuthAction::Browse(url) => {
                let server = core.machine.server(session);
                core.sign_ins.browse(self, oauth, (session, server), url);
            }
            OAuthAction::EndBrowse => core.sign_ins.end_browsing(session),
            OAuthAction::Store(action) => {
                let (url, account) = (core.machine.url(session), core.machine.account(session));
                let site = (session, &*url, account.as_deref());
                if let Some(run) = core.sign_ins.store(self, oauth, site, action) {
                    while core.tasks.try_join_next().is_some() {}
                    core.tasks.spawn_on(run, &self.runtime);
                }
            }
            OAuthAction::Event(event) => {
                if let OAuthEvent::Failed(error) = &event {
                    self.unauthorized(core.machine.unauthorized(error));
                }
                oauth.report(core.machine.server(session), event);
            }
            // Keys in memory need no signature of the host, and there are no others.
            OAuthAction::Sign(request) => {
                let none = OAuthInput::Signature { id: request.id, signature: &[] };
                self.give(core, session, Input::OAuth(none));
            }
            _ => {}
        }
    }

    /// Handles deadlines until nothing of the authorization is in progress, after the end of the client.
    #[cfg(feature = "oauth")]
    async fn finish_authorization(self: &Arc<Self>) {
        loop {
            let deadline = {
                let core = self.lock();
                if core.sign_ins.is_idle() {
                    return;
                }
                core.machine.deadline()
            };
            let due = deadline.and_then(|due| self.start.checked_add(due.since(self.epoch)));
            tokio::select! {
                // Tests have the same run again.
                biased;
                () = sleep_until(due.unwrap_or(self.start)), if due.is_some() => {
                    self.input(|machine, now| machine.handle_timeout(now));
                }
                () = self.wake.notified() => {}
            }
        }
    }

    fn event(self: &Arc<Self>, core: &mut Core<M>, event: M::Event) {
        let stderr_lines = M::session(&event).and_then(|session| core.stderr_lines.get(&session));
        match core.machine.status(&event, stderr_lines) {
            Some(closed @ Status::Closed(_)) => core.closed = Some(closed),
            Some(status) if core.gone.is_none() => drop(self.status.send_replace(status)),
            Some(_) | None => {}
        }
        if let Some((session, request)) = M::refused(&event) {
            // There is no other token than the one that was refused.
            let now = self.stamp(core);
            core.machine.decline(now, session, request);
        }
        match M::sort(event) {
            Sorted::Finished(call, outcome, failure) => {
                if let Some(request) = call.request() {
                    forget(core, (call.session(), Question::Input(request)));
                }
                if let Some(waiting) = core.calls.remove(&call).and_then(|mut pending| pending.outcome.take()) {
                    let cause =
                        failure.map(|failure| Box::new(core.diagnose(call.session(), Arc::unwrap_or_clone(failure))));
                    // An error means that nobody waits for it.
                    let _ = waiting.send((outcome, cause));
                }
            }
            Sorted::Progress(session, request, progress) => {
                let first = CallId::of_request(session, request, None);
                let found = core.calls.range(first..).next();
                if let Some((_, pending)) = found.filter(|(call, _)| call.request() == Some(request)) {
                    let bytes = progress.raw().get().len();
                    pending.progress.push(progress, bytes);
                }
            }
            Sorted::Asked(session, id, method, params) => {
                let (server, form_defaults) = (core.machine.server(session), core.form_defaults(session));
                let answer = self.answer(Ask { server, key: None, method, params, form_defaults });
                let question = (session, Question::Server(id));
                self.question(core, question, |shared| async move {
                    let answer = answer.await;
                    shared.settle(question, |machine, now| machine.respond(now, session, id, answer));
                });
            }
            Sorted::AskEnded(session, id) => forget(core, (session, Question::Server(id))),
            Sorted::InputRequired(session, request, inputs) => {
                let (server, form_defaults) = (core.machine.server(session), core.form_defaults(session));
                let asks = inputs.into_iter().map(|input| {
                    let InputRequest { key, method, params, .. } = input;
                    let ask = Ask { server: server.clone(), key: Some(key.clone()), method, params, form_defaults };
                    (key, self.answer(ask))
                });
                let asks: Vec<_> = asks.collect();
                let question = (session, Question::Input(request));
                self.question(core, question, |shared| async move {
                    let mut responses = Vec::new();
                    for (key, answer) in asks {
                        let Ok(answer) = answer.await else {
                            return shared.settle(question, |machine, now| machine.decline(now, session, request));
                        };
                        responses.push((key, answer));
                    }
                    shared.settle(question, |machine, now| machine.provide(now, session, request, responses));
                });
            }
            Sorted::Other(event) => {
                let bytes = M::weigh(&event);
                core.subscribers.push(&event, bytes);
            }
        }
    }

    /// The embedder's answer, or that there is none. A handler that panics answers with an error.
    fn answer(&self, ask: Ask) -> impl Future<Output = Result<Box<RawValue>, ErrorObject>> + Send + use<M> {
        let (handler, runtime) = (self.wiring.handler(ask.method).cloned(), self.runtime.clone());
        async move {
            let Some(handler) = handler else {
                return Err(ErrorObject::new(-32601, format!("this client does not answer {}", ask.method)));
            };
            let mut task = JoinSet::new();
            task.spawn_on(async move { handler(ask).await }, &runtime);
            let panicked = || Err(ErrorObject::new(-32603, "the client failed to answer"));
            task.join_next().await.and_then(Result::ok).unwrap_or_else(panicked)
        }
    }

    /// Has a question answered by a task.
    fn question<F: Future<Output = ()> + Send + 'static>(
        self: &Arc<Self>,
        core: &mut Core<M>,
        question: (SessionHandle, Question),
        answer: impl FnOnce(Arc<Self>) -> F,
    ) {
        let task = self.runtime.spawn(answer(Arc::clone(self)));
        core.questions.insert(question, task.abort_handle());
    }

    /// Gives an answer, if it is still wanted.
    fn settle(self: &Arc<Self>, question: (SessionHandle, Question), give: impl FnOnce(&mut M, Time)) {
        let mut core = self.lock();
        if core.questions.remove(&question).is_some() {
            let now = self.stamp(&mut core);
            give(&mut core.machine, now);
            self.act(&mut core);
        }
    }
}

/// Tells everybody if the task of deadlines is dropped before its end, or panics.
struct Guard<M: Machine>(Option<Arc<Shared<M>>>);

impl<M: Machine> Drop for Guard<M> {
    fn drop(&mut self) {
        if let Some(shared) = self.0.take() {
            shared.abandon();
        }
    }
}

impl<M: Machine> Core<M> {
    /// Where messages for a session are added.
    fn input(&self, session: SessionHandle) -> Option<&Writing> {
        self.slots.get(&session)?.open.as_ref()?.input()
    }

    /// Has the messages written that were added for a session. Those of a lone call are written here, which saves a task its
    /// turn; with more calls, those of all tasks that run now are one write.
    fn write(&self, session: SessionHandle) {
        if let Some(input) = self.input(session) {
            if self.calls.len() > 1 { input.wake() } else { input.flush() }
        }
    }

    /// Ends what has no result any more.
    fn abort(&mut self) {
        #[cfg(feature = "http")]
        self.exchanges.values().for_each(|exchange| exchange.task.abort());
        #[cfg(feature = "oauth")]
        self.sign_ins.end();
        self.questions.values().for_each(AbortHandle::abort);
    }

    /// Finds the cause of a failure of a session.
    fn diagnose(&self, session: SessionHandle, failure: Failure) -> Diagnosis {
        let stderr_lines = copy_of(self.stderr_lines.get(&session));
        match self.machine.engine(session) {
            Some(engine) => Diagnosis::new(failure, engine, &stderr_lines),
            None => Diagnosis::of_server(failure, &self.machine.server(session), &stderr_lines),
        }
    }

    /// [`Options::form_defaults`](mcp_proto::Options::form_defaults) of a session.
    fn form_defaults(&self, session: SessionHandle) -> bool {
        self.machine.engine(session).is_some_and(|engine| engine.options().form_defaults)
    }
}

#[cfg(feature = "oauth")]
impl<M: Machine> crate::oauth::Owner for Shared<M> {
    fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    fn http(&self) -> Result<&dyn crate::HttpTransport, crate::HttpPiece> {
        self.wiring.http()
    }

    fn report(&self, session: SessionHandle, event: mcp_proto::binding::oauth::OAuthEvent) {
        use mcp_proto::binding::oauth::OAuthAction;

        let Some(oauth) = &self.wiring.oauth else { return };
        let mut core = self.lock();
        let server = core.machine.server(session);
        let output = Output::OAuth(session, OAuthAction::Event(event));
        self.tap(&mut core, Some(session), Passing::Output(&output));
        if let Output::OAuth(_, OAuthAction::Event(event)) = output {
            oauth.report(server, event);
        }
    }

    fn input<T>(self: &Arc<Self>, run: impl FnOnce(&mut crate::oauth::SignIns, crate::oauth::Give<'_>) -> T) -> T {
        let mut core = self.lock();
        let mut sign_ins = std::mem::take(&mut core.sign_ins);
        let result = run(&mut sign_ins, &mut |session, input| self.give(&mut core, session, Input::OAuth(input)));
        core.sign_ins = sign_ins;
        self.act(&mut core);
        result
    }
}

fn forget<M: Machine>(core: &mut Core<M>, question: (SessionHandle, Question)) {
    if let Some(task) = core.questions.remove(&question) {
        task.abort();
    }
}
