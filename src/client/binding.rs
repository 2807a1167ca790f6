#[cfg(feature = "snapshot")]
use super::Persist;
use super::{Action, Engine, Output, Wire};
use crate::Time;

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
    fn attach(&mut self, engine: &mut Engine);

    /// Takes the engine's outputs, after each input and command.
    fn settle(&mut self, engine: &mut Engine);

    /// Handles every deadline that is due.
    fn handle_timeout(&mut self, engine: &mut Engine, now: Time);

    /// Takes the next action.
    fn poll(&mut self, engine: &mut Engine) -> Option<Self::Action>;

    /// When the next deadline is due. While there is an action, it is now.
    fn deadline(&self, engine: &Engine) -> Option<Time>;

    /// When the next deadline is due, whatever waits to be polled.
    fn next_timer(&self, engine: &Engine) -> Option<Time>;

    /// Whether the binding's own queue is empty, and no credentials are being refreshed or stored.
    fn is_settled(&self) -> bool;
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
            Output::Abort(_) => {}
        }
    }
}
