//! A client and its binding, which carries the messages.

use alloc::sync::Arc;
use core::fmt;
use core::ops::Deref;
#[cfg(feature = "snapshot")]
use serde::Serialize;

#[cfg(feature = "snapshot")]
use super::engine::EngineState;
use super::{
    Action, Command, CommandError, ConnectionId, Engine, Options, Output, Request, RequestId, Transport, Wire,
    command_methods,
};
use crate::Time;
#[cfg(feature = "snapshot")]
use crate::snapshot::{Moved, Secrets, Snapshot, SnapshotError};

/// A client of one server, across reconnects, over one kind of transport: [`Messages`](crate::Messages),
/// [`Lines`](crate::Lines) or [`Http`](crate::Http).
///
/// It performs no I/O. The embedder executes the actions that [`poll`](Self::poll) returns, and reports inputs through
/// the `handle_*` methods, each with the current time. Inputs never fail. Inputs and commands first handle the deadlines
/// that are due, as [`handle_timeout`](Self::handle_timeout) does. A command that is not possible then returns a
/// [`CommandError`], and changes nothing else. The getters are those of [`Engine`].
pub struct Client<B: Binding> {
    pub(crate) engine: Engine,
    pub(crate) binding: B,
}

impl<B: Binding + Clone> Clone for Client<B> {
    fn clone(&self) -> Self {
        Self { engine: self.engine.clone(), binding: self.binding.clone() }
    }
}

impl<B: Binding + fmt::Debug> fmt::Debug for Client<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("binding", &self.binding).field("engine", &self.engine).finish()
    }
}

impl<B: Binding> Client<B> {
    /// Creates a client, which is not open yet. `seed` is for the jitter of reconnects: the same options, seed and
    /// inputs cause the same outputs. Each client needs a different seed, or all of them reconnect at the same time.
    pub fn new(binding: B, options: impl Into<Arc<Options>>, seed: u64) -> Self {
        Self::over(binding, Engine::new(options.into(), B::WIRE, seed))
    }

    pub(crate) fn over(mut binding: B, mut engine: Engine) -> Self {
        binding.attach(&mut engine);
        Self { engine, binding }
    }

    /// Handles the deadlines that are due, and runs a command.
    fn command<T>(&mut self, now: Time, command: impl FnOnce(&mut Engine) -> T) -> T {
        if now > self.engine.served() && self.is_due(now) {
            self.handle_timeout(now);
        }
        self.run(command)
    }

    /// Handles the deadlines that are due, before an input. Those up to the time of the last input were handled then.
    #[inline]
    pub(crate) fn begin_input(&mut self, now: Time) {
        if now <= self.engine.served() {
            return;
        }
        if self.is_due(now) {
            self.handle_timeout(now);
        } else {
            self.engine.advance(now);
        }
    }

    #[inline]
    fn is_due(&self, now: Time) -> bool {
        self.next_timer().is_some_and(|at| at <= now)
    }

    /// Runs a command.
    pub(crate) fn run<T>(&mut self, command: impl FnOnce(&mut Engine) -> T) -> T {
        let result = command(&mut self.engine);
        self.binding.follow_up(&mut self.engine);
        result
    }

    /// Applies a command. Returns the id of a request that was accepted.
    ///
    /// # Errors
    /// Those of the command's method.
    pub fn apply(&mut self, now: Time, command: Command) -> Result<Option<RequestId>, CommandError> {
        self.command(now, |engine| engine.apply(now, command))
    }

    /// Queues a request; it is sent as soon as the client is ready.
    ///
    /// # Errors
    /// [`CommandError::Closed`], [`CommandError::NotAdvertised`], [`CommandError::Reserved`],
    /// [`CommandError::ParamsNotObject`], [`CommandError::TooManyRequests`].
    pub fn request(&mut self, now: Time, request: Request) -> Result<RequestId, CommandError> {
        self.command(now, |engine| engine.request(now, request))
    }

    command_methods!(client, CommandError);

    /// Handles the deadlines that are due. Without any it does nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        self.binding.handle_timeout(&mut self.engine, now);
    }

    /// The next action. It is taken from a queue that inputs and commands fill; the only effect is that a message taken
    /// counts as sent, or over HTTP waits until another exchange may begin ([`Limits::in_flight`](crate::Limits::in_flight)).
    #[must_use = "the action has to be executed"]
    pub fn poll(&mut self) -> Option<B::Action> {
        self.binding.poll(&mut self.engine)
    }

    /// When to call [`handle_timeout`](Self::handle_timeout); `None` for never. While there is an action to poll, it is
    /// now.
    pub fn deadline(&self) -> Option<Time> {
        let has_action = self.engine.pending().next().is_some() || self.binding.has_action();
        if has_action { Some(self.engine.now()) } else { self.next_timer() }
    }

    /// The next deadline, whatever waits to be polled.
    pub(crate) fn next_timer(&self) -> Option<Time> {
        self.binding.next_timer(&self.engine)
    }

    /// Whether the client is closed, every action was polled, and no credentials are being refreshed or stored. A loop that
    /// ends before may lose a refresh token.
    pub fn is_closed(&self) -> bool {
        self.engine.is_closed() && !self.binding.has_action() && !self.binding.is_authorizing()
    }
}

impl<B: Binding> Deref for Client<B> {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

#[cfg(feature = "snapshot")]
impl<B: Binding> Client<B> {
    /// Saves the client: its requests, deadlines, lists, and actions that were not polled (feature `snapshot`). It
    /// reads the whole state, the lists included.
    ///
    /// Save after polling a message and before sending it: then each request that was sent is known to be.
    pub fn snapshot(&self, secrets: Secrets) -> Snapshot {
        match secrets {
            Secrets::Included => Snapshot::seal(B::KIND, self.engine.now(), secrets, &self.saved(secrets)),
            Secrets::Excluded => {
                let mut client = self.clone();
                client.forget_secrets();
                Snapshot::seal(B::KIND, client.engine.now(), secrets, &client.saved(secrets))
            }
        }
    }

    /// Restores a client (feature `snapshot`), with the options and the binding that it was created with, or with
    /// higher limits. Inputs and commands have times from [`Snapshot::time`] on.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn from_snapshot(
        binding: B,
        options: impl Into<Arc<Options>>,
        snapshot: &Snapshot,
        moved: Moved,
    ) -> Result<Self, SnapshotError> {
        let options = options.into();
        let state = snapshot.open(B::KIND, options.limits.message.depth)?;
        let with_transport = moved == Moved::WithTransport;
        if with_transport && snapshot.secrets() == Secrets::Excluded && B::WIRE == Wire::Http {
            return Err(SnapshotError::NoSecrets);
        }
        Self::restored(binding, options, None, state, snapshot.secrets(), moved)
    }

    pub(crate) fn saved(&self, secrets: Secrets) -> impl Serialize {
        (self.engine.state(), self.binding.state(secrets))
    }

    /// As [`from_snapshot`](Self::from_snapshot), with options that are shared with other clients if `server` is set.
    pub(crate) fn restored(
        binding: B,
        options: Arc<Options>,
        server: Option<Arc<str>>,
        (state, binding_state): (EngineState, B::State),
        secrets: Secrets,
        moved: Moved,
    ) -> Result<Self, SnapshotError> {
        let mut engine = Engine::restore(state, options, server, B::WIRE)?;
        let binding = binding.restore(&mut engine, binding_state)?;
        let mut client = Self { engine, binding };
        if moved == Moved::WithoutTransport {
            client.lose_transport(secrets);
        }
        Ok(client)
    }

    pub(crate) fn forget_secrets(&mut self) {
        self.binding.forget_secrets(&mut self.engine);
    }

    /// The session moved without its transport.
    pub(crate) fn lose_transport(&mut self, secrets: Secrets) {
        self.binding.lose_transport(&mut self.engine, secrets);
        self.binding.follow_up(&mut self.engine);
    }
}

/// What is saved of a client.
#[cfg(feature = "snapshot")]
pub(crate) type ClientState<B> = (EngineState, <B as Persist>::State);

/// How a [`Client`](super::Client) exchanges messages with its server: [`Messages`](crate::Messages),
/// [`Lines`](crate::Lines) or [`Http`](crate::Http). It decides which inputs a client has and what its `poll` returns.
pub trait Binding: Operate + Persist {}

/// Without the feature `snapshot` a binding saves nothing.
#[cfg(not(feature = "snapshot"))]
pub trait Persist {}

#[cfg(not(feature = "snapshot"))]
impl<B> Persist for B {}

/// What a binding does for its client. It is implemented in this crate only.
pub trait Operate {
    /// What [`Client::poll`](super::Client::poll) returns.
    type Action;
    /// How messages are carried.
    const WIRE: Wire;

    /// Called once, when the client is created.
    fn attach(&mut self, _: &mut Engine) {}

    /// Does what follows from an input or a command.
    fn follow_up(&mut self, _: &mut Engine) {}

    /// Handles every deadline that is due.
    fn handle_timeout(&mut self, engine: &mut Engine, now: Time) {
        engine.handle_timeout(now);
        self.follow_up(engine);
    }

    /// Takes the next action.
    fn poll(&mut self, engine: &mut Engine) -> Option<Self::Action>;

    /// When the next deadline is due, whatever waits to be polled.
    fn next_timer(&self, engine: &Engine) -> Option<Time> {
        engine.next_timer()
    }

    /// Whether an action of the authorization waits, which is polled after the engine's outputs.
    fn has_action(&self) -> bool {
        false
    }

    /// Whether credentials are being obtained, refreshed or stored.
    fn is_authorizing(&self) -> bool {
        false
    }
}

/// The next action of a client whose transport is one stream in each direction.
#[inline]
pub(crate) fn poll_pipe(engine: &mut Engine) -> Option<Action> {
    loop {
        match engine.poll()? {
            Output::Open(connection) => return Some(Action::Open(connection)),
            Output::Send(message) => return Some(Action::Send(message)),
            Output::Shutdown(step) => return Some(Action::Shutdown(step)),
            Output::Event(event) => return Some(Action::Event(event)),
            // Only HTTP has exchanges.
            Output::Abort(_) | Output::Start(_) | Output::Drop(_) => {}
        }
    }
}

/// What a binding saves of itself. It is implemented in this crate only.
#[cfg(feature = "snapshot")]
pub trait Persist: Clone {
    /// The name of the binding.
    const KIND: &'static str;
    /// What is saved.
    type State: serde::de::DeserializeOwned;

    /// Drops the secrets, and with them the transport.
    fn forget_secrets(&mut self, engine: &mut Engine);

    /// What is saved, serialized as [`Self::State`].
    fn state(&self, secrets: crate::snapshot::Secrets) -> impl serde::Serialize;

    /// The binding in this state; `self` is a new one.
    ///
    /// # Errors
    /// [`SnapshotError::Invalid`], [`SnapshotError::Limit`].
    fn restore(self, engine: &mut Engine, state: Self::State) -> Result<Self, crate::snapshot::SnapshotError>;

    /// The session moved without its transport.
    fn lose_transport(&mut self, engine: &mut Engine, secrets: crate::snapshot::Secrets);
}

/// Any transport that carries whole messages: a channel, a WebSocket, a custom IPC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Messages;

impl Messages {
    /// Creates the binding.
    pub const fn new() -> Self {
        Self
    }
}

impl Binding for Messages {}

impl Operate for Messages {
    type Action = Action;
    const WIRE: Wire = Wire::Pipe;

    fn poll(&mut self, engine: &mut Engine) -> Option<Action> {
        poll_pipe(engine)
    }
}

#[cfg(feature = "snapshot")]
impl Persist for Messages {
    const KIND: &'static str = "messages";
    type State = ();

    fn forget_secrets(&mut self, _: &mut Engine) {}

    fn state(&self, _: Secrets) -> impl Serialize {}

    fn restore(self, _: &mut Engine, (): ()) -> Result<Self, SnapshotError> {
        Ok(self)
    }

    fn lose_transport(&mut self, engine: &mut Engine, _: Secrets) {
        engine.lose_transport();
    }
}

impl Client<Messages> {
    /// Takes a message or a batch that the server sent on a connection. Input of an older connection is dropped.
    pub fn handle_message(&mut self, now: Time, connection: ConnectionId, bytes: &[u8]) {
        self.begin_input(now);
        if self.engine.live_connection() == Some(connection) {
            self.engine.handle_message(now, bytes);
        }
    }

    /// Takes a report on the transport of a connection. Input of an older connection is dropped.
    pub fn handle_transport(&mut self, now: Time, connection: ConnectionId, event: Transport<'_>) {
        self.begin_input(now);
        if self.engine.connection() == connection {
            self.engine.handle_transport(now, event);
        }
    }
}
