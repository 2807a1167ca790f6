//! A client of one MCP server: messages and time go in, actions come out.

#![cfg_attr(not(feature = "http"), allow(dead_code, reason = "only an HTTP binding has exchanges"))]

mod action;
mod binding;
mod calls;
mod core;
mod encode;
mod engine;
mod event;
mod face;
mod forms;
mod handshake;
mod keepalive;
mod link;
mod lists;
mod notifications;
mod options;
mod outbox;
mod request_table;
mod requests;
mod route;
mod sampling;
mod server;
mod server_requests;
mod signal;
mod subscriptions;
mod timers;
mod transport;
mod views;

pub use action::{Action, ConnectionId, Outgoing, ShutdownStep, WireId};
pub use binding::{Binding, Messages};
pub use engine::{Engine, Stats};
pub use event::{
    Cause, Challenge, CommandError, Event, Failure, FailureKind, InputRequest, Outcome, Quirk, Recovery, RequestError,
    RequestId, ServerRequestId,
};
pub use lists::{FamilyReport, FamilyStatus};
pub use options::{
    Eras, Keepalive, KeepaliveMethod, KnownEra, Limits, ListErrors, LogLevel, Options, Reconnect, SamplingPolicy,
    Timeouts, Tolerance,
};
pub use requests::{Reference, Request, TraceContext};
pub use server::Server;
pub use transport::{OpenFailure, Transport};
pub use views::{Progress, ServerMethod};

pub(crate) use action::Output;
pub(crate) use binding::{Operate, poll_pipe};
pub(crate) use options::Wire;
#[cfg(feature = "http")]
pub(crate) use transport::Report;

use ::core::fmt;
use ::core::ops::Deref;
use alloc::borrow::Cow;
use alloc::sync::Arc;
use serde_json::value::RawValue;

use crate::Time;
use crate::jsonrpc::ErrorObject;
use crate::protocol::Family;

/// A client of one server, through as many connections as it takes, over one kind of transport: [`Messages`],
/// [`Lines`](crate::Lines) or [`Http`](crate::Http).
///
/// It performs no I/O. The embedder executes what [`poll`](Self::poll) returns, and reports what happens through the
/// `handle_*` methods, each with the current time. Those never fail, whatever comes in. A command returns a
/// [`CommandError`] where it cannot be executed, and then nothing changed.
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
    /// A client that is not open yet. `seed` seeds the jitter of reconnects: the same options, seed and inputs give
    /// the same outputs. Each client needs a seed of its own, or all of them reconnect at the same moments.
    pub fn new(binding: B, options: impl Into<Arc<Options>>, seed: u64) -> Self {
        Self::over(binding, Engine::new(options.into(), B::WIRE, seed))
    }

    pub(crate) fn over(mut binding: B, mut engine: Engine) -> Self {
        binding.attach(&mut engine);
        Self { engine, binding }
    }

    /// Runs a command, and moves what it causes into the binding's queue.
    pub(crate) fn command<T>(&mut self, command: impl FnOnce(&mut Engine) -> T) -> T {
        let result = command(&mut self.engine);
        self.binding.settle(&mut self.engine);
        result
    }

    /// Opens the connection: the first one, or the next one at once where the client waits for it or is parked.
    ///
    /// # Errors
    /// [`CommandError::AlreadyOpen`], [`CommandError::Closed`].
    pub fn open(&mut self, now: Time) -> Result<(), CommandError> {
        self.command(|engine| engine.open(now))
    }

    /// Closes the client: open requests end at once, then the transport is shut down step by step.
    ///
    /// # Errors
    /// [`CommandError::Closed`].
    pub fn close(&mut self, now: Time) -> Result<(), CommandError> {
        self.command(|engine| engine.close(now))
    }

    /// Queues a request; it is sent as soon as the client is ready.
    ///
    /// # Errors
    /// [`CommandError::Closed`], [`CommandError::NotAdvertised`], [`CommandError::Reserved`],
    /// [`CommandError::ParamsNotObject`], [`CommandError::TooManyRequests`].
    pub fn request(&mut self, now: Time, request: Request) -> Result<RequestId, CommandError> {
        self.command(|engine| engine.request(now, request))
    }

    /// Cancels a request; it ends with [`Outcome::Cancelled`].
    ///
    /// # Errors
    /// [`CommandError::UnknownRequest`].
    pub fn cancel(&mut self, now: Time, request: RequestId) -> Result<(), CommandError> {
        self.command(|engine| engine.cancel(now, request))
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// [`CommandError::Closed`], [`CommandError::NotReady`], [`CommandError::ParamsNotObject`],
    /// [`CommandError::Reserved`] for a notification that the engine sends itself, [`CommandError::TooManyRequests`]
    /// where too many actions wait to be polled.
    pub fn notify(
        &mut self,
        now: Time,
        method: impl Into<Cow<'static, str>>,
        params: Option<&RawValue>,
    ) -> Result<(), CommandError> {
        self.command(|engine| engine.notify(now, method.into(), params))
    }

    /// Gives a request the input that the server requires before it continues: for each of its keys the result of the
    /// key's method. The server may ask again for a key that is left out. Fields that an accepted form leaves out get
    /// the defaults that the server proposed (SEP-1034).
    ///
    /// # Errors
    /// [`CommandError::UnknownRequest`] where the request waits for no input, [`CommandError::ParamsNotObject`] where a
    /// result is not a JSON object.
    pub fn provide<'a>(
        &mut self,
        now: Time,
        request: RequestId,
        responses: impl IntoIterator<Item = (&'a str, &'a RawValue)>,
    ) -> Result<(), CommandError> {
        self.command(|engine| engine.provide(now, request, responses))
    }

    /// Declines to give input, and the request ends with [`Outcome::InputRequired`]; or declines to authorize, and it
    /// ends with the server's refusal.
    ///
    /// # Errors
    /// [`CommandError::UnknownRequest`] where the request waits for neither.
    pub fn decline(&mut self, now: Time, request: RequestId) -> Result<(), CommandError> {
        self.command(|engine| engine.decline(now, request))
    }

    /// Responds to a request of the server: with the result of its method, or with an error. Fields that an accepted
    /// form leaves out get the defaults that the server proposed (SEP-1034).
    ///
    /// # Errors
    /// [`CommandError::UnknownServerRequest`] where the server's request ended, [`CommandError::ParamsNotObject`] where
    /// the result is not a JSON object.
    pub fn respond(
        &mut self,
        now: Time,
        request: ServerRequestId,
        response: Result<&RawValue, ErrorObject>,
    ) -> Result<(), CommandError> {
        self.command(|engine| engine.respond(now, request, response))
    }

    /// The embedder can authorize its requests now, or again: requests that wait for authorization are sent again, and a
    /// client that is parked for lack of it opens its connection.
    ///
    /// # Errors
    /// [`CommandError::Closed`].
    pub fn authorized(&mut self, now: Time) -> Result<(), CommandError> {
        self.command(|engine| engine.authorized(now))
    }

    /// Subscribes to changes of a resource, reported as [`Event::ResourceUpdated`], on this connection and on later ones.
    /// [`Event::Subscription`] reports the result on each (specification 2025-11-25, "Resources", Subscriptions;
    /// 2026-07-28, "Subscriptions"). A second subscription to the same resource changes nothing, except that a refused
    /// one is requested again.
    ///
    /// # Errors
    /// [`CommandError::Closed`], [`CommandError::NotAdvertised`] where the server does not declare
    /// `resources.subscribe`, [`CommandError::TooManySubscriptions`], [`CommandError::TooManyRequests`] where too many
    /// actions wait to be polled.
    pub fn subscribe(&mut self, now: Time, uri: &str) -> Result<(), CommandError> {
        self.command(|engine| engine.subscribe(now, uri))
    }

    /// Ends a subscription to a resource.
    ///
    /// # Errors
    /// [`CommandError::UnknownSubscription`].
    pub fn unsubscribe(&mut self, now: Time, uri: &str) -> Result<(), CommandError> {
        self.command(|engine| engine.unsubscribe(now, uri))
    }

    /// Sets the least severity of the log messages that the server sends, on this connection and on later ones
    /// (specification 2025-11-25, "Logging"; in 2026-07-28 each request carries it).
    ///
    /// # Errors
    /// [`CommandError::Closed`], [`CommandError::NotAdvertised`] where the server does not declare `logging`.
    pub fn set_log_level(&mut self, now: Time, level: LogLevel) -> Result<(), CommandError> {
        self.command(|engine| engine.set_log_level(now, level))
    }

    /// Requests a family's list again, whatever its freshness.
    ///
    /// # Errors
    /// [`CommandError::Closed`], [`CommandError::NotReady`], [`CommandError::NotAdvertised`] where the server does not
    /// have the family.
    pub fn refresh(&mut self, now: Time, family: Family) -> Result<(), CommandError> {
        self.command(|engine| engine.refresh(now, family))
    }

    /// Reports that time passed. A call without a deadline that is due does nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        self.binding.handle_timeout(&mut self.engine, now);
    }

    /// The next action, if there is one. It takes the action from a queue that is already filled: nothing else
    /// changes, except that a message taken counts as handed to the transport.
    #[must_use = "the action has to be executed"]
    pub fn poll(&mut self) -> Option<B::Action> {
        self.binding.poll(&mut self.engine)
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) next: at once while there is an action to poll, never for
    /// `None`.
    pub fn deadline(&self) -> Option<Time> {
        self.binding.deadline(&self.engine)
    }

    /// Whether the client is closed, and every action was polled.
    pub fn is_closed(&self) -> bool {
        self.engine.is_closed() && self.binding.is_drained()
    }
}

impl<B: Binding> Deref for Client<B> {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}
