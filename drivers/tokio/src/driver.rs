//! Carries out what a client or a hub wants done, and gives it what came. Whoever has an input, a task with a piece of output
//! or a caller with a command, locks the client, gives the input, and carries out the actions that follow; one more task
//! waits for deadlines.

use std::collections::BTreeMap;
use std::future::ready;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use mcp_proto::host::hub::{CallId, HubCommandError, SessionHandle};
use mcp_proto::jsonrpc::ErrorObject;
use mcp_proto::{
    ConnectionId, Failure, InputRequest, OpenFailure, Outcome, Outgoing, Progress, RawValue, RequestId, ServerMethod,
    ServerRequestId, ShutdownStep, Time, Transport,
};
use mcp_proto_std::{CallError, CallErrorKind, Piece, Program};
use tokio::runtime::Handle as Runtime;
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

use crate::call::{Call, Cancel};
use crate::host::{Ask, Wiring};
use crate::process::Process;
use crate::queue::Queue;

/// A client or a hub: what the driver needs of it. The sessions of a client are one.
pub(crate) trait Machine: Send + 'static {
    type Event: Clone + Send + 'static;

    fn poll(&mut self) -> Option<Step<Self::Event>>;
    fn deadline(&self) -> Option<Time>;
    fn handle_timeout(&mut self, now: Time);
    /// Whether it is ready without another event: it goes on from a snapshot.
    fn is_ready(&self) -> bool;
    fn is_closed(&self) -> bool;
    fn close(&mut self, now: Time);
    fn input(&mut self, now: Time, session: SessionHandle, input: Input<'_>);
    /// The name of a session's server.
    fn server(&self, session: SessionHandle) -> Box<str>;
    /// [`Options::form_defaults`](mcp_proto::Options::form_defaults) of a session.
    fn form_defaults(&self, session: SessionHandle) -> bool;
    fn program(&self, session: SessionHandle) -> Option<Program>;
    /// The embedder's headers of each request to a session's server.
    #[cfg(feature = "http")]
    fn headers(&self, session: SessionHandle) -> http::HeaderMap;
    /// The URL of a session's server.
    #[cfg(feature = "oauth")]
    fn url(&self, session: SessionHandle) -> Box<str>;
    /// Gives an input to the authorization of a session.
    #[cfg(feature = "oauth")]
    fn oauth(&mut self, now: Time, session: SessionHandle, input: mcp_proto::binding::oauth::OAuthInput<'_>) -> bool;
    /// What it says of the whole that there is no token.
    #[cfg(feature = "oauth")]
    fn unauthorized(error: &mcp_proto::binding::oauth::OAuthError) -> Option<Status>;
    #[cfg(feature = "oauth")]
    fn handle_clock(&mut self, now: Time, unix: std::time::Duration);
    fn cancel(&mut self, now: Time, call: CallId);
    fn respond(&mut self, now: Time, ask: (SessionHandle, ServerRequestId), response: Result<&RawValue, ErrorObject>);
    fn provide(&mut self, now: Time, request: (SessionHandle, RequestId), responses: &[(Box<str>, Box<RawValue>)]);
    fn decline(&mut self, now: Time, request: (SessionHandle, RequestId));
    /// What an event says of the whole.
    fn status(event: &Self::Event) -> Option<Status>;
    /// Whom an event is for.
    fn sort(event: Self::Event) -> Sorted<Self::Event>;
    /// Bytes of an event, about.
    fn weigh(event: &Self::Event) -> usize;
}

/// An action of a client or of a hub.
pub(crate) enum Step<E> {
    Open(SessionHandle, ConnectionId),
    Send(SessionHandle, Outgoing),
    Shutdown(SessionHandle, ShutdownStep),
    #[cfg(feature = "http")]
    Request(SessionHandle, mcp_proto::binding::http::HttpRequest),
    #[cfg(feature = "http")]
    Drop(SessionHandle, mcp_proto::binding::http::ExchangeId),
    #[cfg(feature = "oauth")]
    OAuth(SessionHandle, mcp_proto::binding::oauth::OAuthAction),
    Event(E),
}

/// An input of a session.
pub(crate) enum Input<'a> {
    Transport(ConnectionId, Transport<'a>),
    Bytes(ConnectionId, &'a [u8]),
    #[cfg(feature = "http")]
    Http(mcp_proto::binding::http::ExchangeId, &'a crate::HttpPiece),
}

/// Whom an event is for.
pub(crate) enum Sorted<E> {
    Finished(CallId, Outcome),
    Progress(SessionHandle, RequestId, Progress),
    Asked(SessionHandle, ServerRequestId, ServerMethod, Option<Box<RawValue>>),
    AskEnded(SessionHandle, ServerRequestId),
    InputRequired(SessionHandle, RequestId, Vec<InputRequest>),
    /// There is no other token than the one that was refused.
    Unauthorized(SessionHandle, RequestId),
    Other(E),
}

/// The state of a session, or of the sessions of a hub as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// It connects, for the first time or again.
    Connecting,
    /// It is ready; of a hub: no server is starting any more.
    Ready,
    /// It gave up for some time, and then tries again.
    Parked(Failure),
    /// It closed: on request, or because of this failure. The processes have ended.
    Closed(Option<Failure>),
}

/// Why a client cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// It was not called in the context of a runtime.
    #[error("there is no tokio runtime here: call it in an async function of one, or after `Runtime::enter`")]
    NoRuntime,
    /// The hub does not accept the configuration.
    #[error(transparent)]
    Hub(#[from] HubCommandError),
    /// The options of the sign-in do not fit the server.
    #[cfg(feature = "oauth")]
    #[error("it cannot sign in: {0}")]
    OAuth(#[from] mcp_proto::binding::oauth::OAuthConfigError),
    /// The browser's redirect cannot be received.
    #[cfg(feature = "oauth")]
    #[error("no redirect of the browser can be received: {0}")]
    Redirect(#[source] io::Error),
    /// The system has no random numbers for secrets.
    #[cfg(feature = "oauth")]
    #[error(transparent)]
    Entropy(io::Error),
    /// The snapshot cannot be restored.
    #[cfg(feature = "snapshot")]
    #[error(transparent)]
    Snapshot(#[from] mcp_proto::SnapshotError),
}

/// The connection of a session over stdio.
struct Slot {
    connection: ConnectionId,
    /// `None` while it is being started.
    process: Option<Process>,
}

/// A call in flight.
struct Pending {
    outcome: oneshot::Sender<Outcome>,
    progress: Arc<Queue<Progress>>,
}

/// What a handler answers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Question {
    Server(ServerRequestId),
    Input(RequestId),
}

/// What the lock protects.
pub(crate) struct Core<M: Machine> {
    pub(crate) machine: M,
    slots: BTreeMap<SessionHandle, Slot>,
    #[cfg(feature = "http")]
    exchanges: BTreeMap<(SessionHandle, mcp_proto::binding::http::ExchangeId), AbortHandle>,
    #[cfg(feature = "oauth")]
    pub(crate) sign_ins: crate::oauth::SignIns,
    calls: BTreeMap<CallId, Pending>,
    questions: BTreeMap<(SessionHandle, Question), AbortHandle>,
    subscribers: Vec<Weak<Queue<M::Event>>>,
    /// Why it closed, until its processes have ended.
    closed: Option<Status>,
    /// When the task of deadlines wakes up.
    armed: Option<Time>,
    /// What has to be complete at the end: starts of processes, and their ends.
    pub(crate) tasks: JoinSet<()>,
}

/// A client or a hub with its I/O.
pub(crate) struct Shared<M: Machine> {
    core: Mutex<Core<M>>,
    pub(crate) wiring: Wiring,
    start: Instant,
    /// The client's time at the start.
    epoch: Time,
    pub(crate) runtime: Runtime,
    wake: Notify,
    status: watch::Sender<Status>,
}

/// The embedder's end. When the last one is dropped, the client closes.
pub(crate) struct Handle<M: Machine>(Arc<Shared<M>>);

impl<M: Machine> Handle<M> {
    /// Drives a client, in the context of a runtime. Its time begins at `epoch`.
    pub(crate) fn start(machine: M, wiring: Wiring, epoch: Time) -> Result<Arc<Self>, StartError> {
        let runtime = Runtime::try_current().map_err(|_| StartError::NoRuntime)?;
        let status = if machine.is_ready() { Status::Ready } else { Status::Connecting };
        let shared = Arc::new(Shared {
            core: Mutex::new(Core {
                machine,
                slots: BTreeMap::new(),
                #[cfg(feature = "http")]
                exchanges: BTreeMap::new(),
                #[cfg(feature = "oauth")]
                sign_ins: crate::oauth::SignIns::default(),
                calls: BTreeMap::new(),
                questions: BTreeMap::new(),
                subscribers: Vec::new(),
                closed: None,
                armed: None,
                tasks: JoinSet::new(),
            }),
            wiring,
            start: Instant::now(),
            epoch,
            runtime,
            wake: Notify::new(),
            status: watch::Sender::new(status),
        });
        shared.runtime.spawn(Arc::clone(&shared).run());
        Ok(Arc::new(Self(shared)))
    }

    /// Receives redirects.
    #[cfg(feature = "oauth")]
    pub(crate) fn listen(&self, loopback: crate::Loopback) {
        self.0.listen(&mut self.0.lock(), loopback);
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
        let calls: Vec<_> = core.calls.keys().copied().collect();
        calls.into_iter().for_each(|call| core.machine.cancel(self.0.now(), call));
        self.0.act(&mut core);
        closed.close(self.0.now());
        let machine = std::mem::replace(&mut core.machine, closed);
        self.0.act(&mut core);
        machine
    }

    /// Starts a call.
    pub(crate) fn call(
        self: &Arc<Self>,
        name: (&str, &str),
        command: impl FnOnce(&mut M, Time) -> Result<CallId, (Box<str>, CallErrorKind)>,
    ) -> Result<Call, CallError> {
        let (outcome, receiver) = oneshot::channel();
        let progress = Queue::new();
        let mut core = self.0.lock();
        let started = command(&mut core.machine, self.0.now());
        if let Ok(call) = &started {
            core.calls.insert(*call, Pending { outcome, progress: Arc::clone(&progress) });
        }
        let server = match &started {
            Ok(call) => core.machine.server(call.session()),
            Err((server, _)) => server.clone(),
        };
        self.0.act(&mut core);
        drop(core);
        match started {
            Ok(call) => Ok(Call::new(Arc::clone(self) as Arc<dyn Cancel>, call, server, name, receiver, progress)),
            Err((server, kind)) => Err(CallError::new(&server, name.0, name.1, kind)),
        }
    }

    pub(crate) fn subscribe(&self) -> Arc<Queue<M::Event>> {
        let queue = Queue::new();
        let mut core = self.0.lock();
        if matches!(*self.0.status.borrow(), Status::Closed(_)) {
            queue.finish();
        } else {
            core.subscribers.push(Arc::downgrade(&queue));
        }
        queue
    }

    pub(crate) fn status(&self) -> Status {
        self.0.status.borrow().clone()
    }

    /// It was told to connect.
    pub(crate) fn connects(&self) {
        self.0.status.send_if_modified(|status| {
            let is_parked = matches!(status, Status::Parked(_));
            if is_parked {
                *status = Status::Connecting;
            }
            is_parked
        });
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
    fn cancel(&self, call: CallId) {
        self.0.input(|machine, now| machine.cancel(now, call));
    }
}

impl<M: Machine> Drop for Handle<M> {
    fn drop(&mut self) {
        self.0.input(|machine, now| machine.close(now));
    }
}

impl<M: Machine> Shared<M> {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Core<M>> {
        // A handler of the embedder that panics does so outside of the lock.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Time {
        Time::from_epoch(self.epoch.since(Time::ZERO).saturating_add(self.start.elapsed()))
    }

    /// Gives an input, and carries out what follows.
    pub(crate) fn input<T>(self: &Arc<Self>, input: impl FnOnce(&mut M, Time) -> T) -> T {
        let mut core = self.lock();
        let result = input(&mut core.machine, self.now());
        self.act(&mut core);
        result
    }

    /// Handles deadlines until the client is closed, and ends what is left then.
    async fn run(self: Arc<Self>) {
        loop {
            let (deadline, is_closed) = {
                let mut core = self.lock();
                #[cfg(feature = "oauth")]
                self.check_clock(&mut core);
                core.armed = core.machine.deadline();
                (core.armed, core.machine.is_closed())
            };
            if is_closed {
                return self.finish().await;
            }
            let due = deadline.and_then(|due| self.start.checked_add(due.since(self.epoch)));
            tokio::select! {
                () = sleep_until(due.unwrap_or(self.start)), if due.is_some() => {
                    self.input(|machine, now| machine.handle_timeout(now));
                }
                () = self.wake.notified() => {}
            }
        }
    }

    async fn finish(&self) {
        let (closed, mut tasks) = {
            let mut core = self.lock();
            let slots = std::mem::take(&mut core.slots);
            for process in slots.into_values().filter_map(|slot| slot.process) {
                core.tasks.spawn_on(process.kill(), &self.runtime);
            }
            #[cfg(feature = "http")]
            core.exchanges.values().for_each(AbortHandle::abort);
            #[cfg(feature = "oauth")]
            core.sign_ins.end();
            core.questions.values().for_each(AbortHandle::abort);
            (core.closed.take(), std::mem::take(&mut core.tasks))
        };
        while tasks.join_next().await.is_some() {}
        let mut core = self.lock();
        // Each call has ended; what is left here is none.
        core.calls.clear();
        self.status.send_replace(closed.unwrap_or(Status::Closed(None)));
        for queue in core.subscribers.drain(..).filter_map(|queue| queue.upgrade()) {
            queue.finish();
        }
    }

    /// There is no token for a client that connects, which waits for one without a word.
    #[cfg(feature = "oauth")]
    pub(crate) fn unauthorized(&self, failed: Option<Status>) {
        self.status.send_if_modified(|status| match failed.filter(|_| *status == Status::Connecting) {
            Some(failed) => {
                *status = failed;
                true
            }
            None => false,
        });
    }

    /// Carries out the actions of the client.
    pub(crate) fn act(self: &Arc<Self>, core: &mut Core<M>) {
        while let Some(step) = core.machine.poll() {
            match step {
                Step::Open(session, connection) => self.open(core, session, connection),
                Step::Send(session, message) => {
                    if let Some(Slot { process: Some(process), .. }) = core.slots.get_mut(&session) {
                        process.send(message.line());
                    }
                }
                Step::Shutdown(session, step) => self.shut_down(core, session, step),
                #[cfg(feature = "http")]
                Step::Request(session, request) => self.request(core, session, request),
                #[cfg(feature = "http")]
                Step::Drop(session, exchange) => {
                    if let Some(task) = core.exchanges.remove(&(session, exchange)) {
                        task.abort();
                    }
                }
                #[cfg(feature = "oauth")]
                Step::OAuth(session, action) => self.authorize(core, session, action),
                Step::Event(event) => self.event(core, event),
            }
        }
        #[cfg(feature = "oauth")]
        core.sign_ins.close_unused_listeners();
        let deadline = core.machine.deadline();
        let is_earlier = deadline.is_some_and(|deadline| core.armed.is_none_or(|armed| deadline < armed));
        if is_earlier || core.machine.is_closed() {
            self.wake.notify_one();
        }
    }

    /// Ends the process of a session, if there is one, and starts another one.
    fn open(self: &Arc<Self>, core: &mut Core<M>, session: SessionHandle, connection: ConnectionId) {
        let old = core.slots.insert(session, Slot { connection, process: None });
        let (program, shared) = (core.machine.program(session), Arc::clone(self));
        while core.tasks.try_join_next().is_some() {}
        let start = async move {
            if let Some(process) = old.and_then(|old| old.process) {
                process.kill().await;
            }
            let started = match program {
                Some(program) => {
                    let take = Arc::downgrade(&shared);
                    Process::start(&program, move |piece| {
                        if let Some(shared) = take.upgrade() {
                            shared.take(session, connection, &piece);
                        }
                        ready(())
                    })
                }
                None => Err(io::Error::other("there is no program to start")),
            };
            if let Some(process) = shared.started(session, connection, started) {
                process.kill().await;
            }
        };
        core.tasks.spawn_on(start, &self.runtime);
    }

    /// A process was started, or could not be. Returns one that is not wanted any more.
    fn started(
        self: &Arc<Self>,
        session: SessionHandle,
        connection: ConnectionId,
        started: io::Result<Process>,
    ) -> Option<Process> {
        let mut core = self.lock();
        let Some(slot) = core.slots.get_mut(&session).filter(|slot| slot.connection == connection) else {
            return started.ok();
        };
        match started {
            Ok(process) => {
                slot.process = Some(process);
                core.machine.input(self.now(), session, Input::Transport(connection, Transport::Opened));
            }
            Err(error) => {
                core.slots.remove(&session);
                let why = &*error.to_string();
                let failed = Transport::OpenFailed { how: OpenFailure::Spawn, why };
                core.machine.input(self.now(), session, Input::Transport(connection, failed));
            }
        }
        self.act(&mut core);
        None
    }

    /// Takes what came from a process.
    fn take(self: &Arc<Self>, session: SessionHandle, connection: ConnectionId, piece: &Piece) {
        let mut core = self.lock();
        let input = match piece {
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
        core.machine.input(self.now(), session, input);
        self.act(&mut core);
    }

    fn shut_down(&self, core: &mut Core<M>, session: SessionHandle, step: ShutdownStep) {
        let Some(slot) = core.slots.get_mut(&session) else { return };
        match &mut slot.process {
            Some(process) => process.shut_down(step),
            None => {
                // It is being started, and is not wanted any more.
                let connection = slot.connection;
                core.slots.remove(&session);
                let closed = Transport::Closed { why: "it was not started yet" };
                core.machine.input(self.now(), session, Input::Transport(connection, closed));
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
        // The protocol's headers take precedence.
        let headers = std::mem::replace(request.request.headers_mut(), core.machine.headers(session));
        request.request.headers_mut().extend(headers);
        let task = self.runtime.spawn(async move {
            let take = |piece| {
                shared.take_http(session, exchange, &piece);
                ready(())
            };
            match shared.wiring.http() {
                Ok(client) => client.run(request.request, take).await,
                Err(piece) => take(piece).await,
            }
        });
        core.exchanges.insert((session, exchange), task.abort_handle());
    }

    #[cfg(feature = "http")]
    fn take_http(
        self: &Arc<Self>,
        session: SessionHandle,
        exchange: mcp_proto::binding::http::ExchangeId,
        piece: &crate::HttpPiece,
    ) {
        let mut core = self.lock();
        if matches!(piece, crate::HttpPiece::End | crate::HttpPiece::Failure(..)) {
            core.exchanges.remove(&(session, exchange));
        }
        core.machine.input(self.now(), session, Input::Http(exchange, piece));
        self.act(&mut core);
    }

    fn event(self: &Arc<Self>, core: &mut Core<M>, event: M::Event) {
        match M::status(&event) {
            Some(closed @ Status::Closed(_)) => core.closed = Some(closed),
            Some(status) => drop(self.status.send_replace(status)),
            None => {}
        }
        match M::sort(event) {
            Sorted::Finished(call, outcome) => {
                if let Some(request) = call.request() {
                    forget(core, (call.session(), Question::Input(request)));
                }
                if let Some(pending) = core.calls.remove(&call) {
                    pending.progress.finish();
                    // An error means that nobody waits for it.
                    let _ = pending.outcome.send(outcome);
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
                let (server, form_defaults) = (core.machine.server(session), core.machine.form_defaults(session));
                let answer = self.answer(Ask { server, method, params, form_defaults });
                let question = (session, Question::Server(id));
                self.question(core, question, |shared| async move {
                    let answer = answer.await;
                    shared.settle(question, |machine, now| {
                        machine.respond(now, (session, id), answer.as_deref().map_err(Clone::clone));
                    });
                });
            }
            Sorted::AskEnded(session, id) => forget(core, (session, Question::Server(id))),
            Sorted::InputRequired(session, request, inputs) => {
                let (server, form_defaults) = (core.machine.server(session), core.machine.form_defaults(session));
                let asks = inputs.into_iter().map(|input| {
                    let InputRequest { key, method, params, .. } = input;
                    (key, self.answer(Ask { server: server.clone(), method, params, form_defaults }))
                });
                let asks: Vec<_> = asks.collect();
                let question = (session, Question::Input(request));
                self.question(core, question, |shared| async move {
                    let mut responses = Vec::new();
                    for (key, answer) in asks {
                        let Ok(answer) = answer.await else {
                            return shared.settle(question, |machine, now| machine.decline(now, (session, request)));
                        };
                        responses.push((key, answer));
                    }
                    shared.settle(question, |machine, now| machine.provide(now, (session, request), &responses));
                });
            }
            Sorted::Unauthorized(session, request) => core.machine.decline(self.now(), (session, request)),
            Sorted::Other(event) => {
                let bytes = M::weigh(&event);
                core.subscribers.retain(|queue| match queue.upgrade() {
                    Some(queue) => {
                        queue.push(event.clone(), bytes);
                        true
                    }
                    None => false,
                });
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
            give(&mut core.machine, self.now());
            self.act(&mut core);
        }
    }
}

fn forget<M: Machine>(core: &mut Core<M>, question: (SessionHandle, Question)) {
    if let Some(task) = core.questions.remove(&question) {
        task.abort();
    }
}
