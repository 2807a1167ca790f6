#[cfg(feature = "snapshot")]
use serde::Serialize;

#[cfg(feature = "snapshot")]
use super::Persist;
use super::{Action, Binding, Client, ConnectionId, Engine, Operate, Transport, Wire, poll_pipe};
use crate::Time;
#[cfg(feature = "snapshot")]
use crate::snapshot::{Secrets, SnapshotError};

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

    fn attach(&mut self, _: &mut Engine) {}

    fn settle(&mut self, _: &mut Engine) {}

    fn handle_timeout(&mut self, engine: &mut Engine, now: Time) {
        engine.handle_timeout(now);
    }

    fn poll(&mut self, engine: &mut Engine) -> Option<Action> {
        poll_pipe(engine)
    }

    fn deadline(&self, engine: &Engine) -> Option<Time> {
        engine.deadline()
    }

    fn next_timer(&self, engine: &Engine) -> Option<Time> {
        engine.next_timer()
    }

    fn is_settled(&self) -> bool {
        true
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
        self.engine.handle_due(now);
        if self.engine.live_connection() == Some(connection) {
            self.engine.handle_message(now, bytes);
        }
    }

    /// Takes a report on the transport of a connection. Input of an older connection is dropped.
    pub fn handle_transport(&mut self, now: Time, connection: ConnectionId, event: Transport<'_>) {
        self.engine.handle_due(now);
        if self.engine.connection() == connection {
            self.engine.handle_transport(now, event);
        }
    }
}
