//! What a simulation needs of a client or a hub, plain or recorded.

use core::ops::{Deref, DerefMut};
#[cfg(feature = "http")]
use std::boxed::Box;
use std::vec::Vec;

#[cfg(feature = "http")]
use crate::Http;
#[cfg(feature = "http")]
use crate::binding::http::{Broken, ExchangeId, HttpAction, HttpRequest};
#[cfg(feature = "oauth")]
use crate::binding::oauth::{OAuthAction, OAuthExchangeId, OAuthInput};
use crate::client::{Binding, Engine};
use crate::host::hub::{Hub, HubAction, HubEvent, SessionHandle};
#[cfg(feature = "journal")]
use crate::journal::{self, JournalBinding};
use crate::{Action, Client, ConnectionId, Event, Lines, Messages, ShutdownStep, Time, Transport};

/// What a [`Sim`](super::Sim) drives: a [`Client`] over any binding, or a [`Hub`]. It is implemented in this crate; another
/// crate implements it for what connects a client of its own driver.
pub trait Driven {
    /// The events that it reports.
    type Event;

    /// Takes the next action.
    fn step(&mut self) -> Option<Step<Self::Event>>;

    /// The newest connection of a client, or of a session of a hub.
    fn connection_of(&self, session: Option<SessionHandle>) -> Option<ConnectionId>;

    /// When [`time_out`](Self::time_out) is due.
    fn next_deadline(&self) -> Option<Time>;

    /// Handles the deadlines that are due.
    fn time_out(&mut self, now: Time);

    /// Takes an input of a connection.
    fn input(&mut self, now: Time, port: Port, input: Arrival<'_>);

    /// The server of a session of a hub; `None` for a client.
    fn server(&self, session: Option<SessionHandle>) -> Option<&str>;

    /// Whether an input is a whole message, which a link must not split.
    fn takes_messages(&self) -> bool {
        false
    }
}

/// A connection or an exchange of a client, or of a session of a hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Port {
    /// A connection.
    Connection(Option<SessionHandle>, ConnectionId),
    /// An HTTP exchange (feature `http`).
    #[cfg(feature = "http")]
    Exchange(Option<SessionHandle>, ExchangeId),
    /// An exchange of an authorization (feature `oauth`).
    #[cfg(feature = "oauth")]
    OAuth(Option<SessionHandle>, OAuthExchangeId),
    /// The browser of a user who authorizes (feature `oauth`).
    #[cfg(feature = "oauth")]
    Browser(Option<SessionHandle>),
}

impl Port {
    /// The session of a hub.
    pub const fn session(self) -> Option<SessionHandle> {
        match self {
            Self::Connection(session, _) => session,
            #[cfg(feature = "http")]
            Self::Exchange(session, _) => session,
            #[cfg(feature = "oauth")]
            Self::OAuth(session, _) | Self::Browser(session) => session,
        }
    }
}

/// What an embedder has to do next, for every kind of client.
#[derive(Clone, Debug)]
pub enum Step<E> {
    /// Open a connection.
    Open(Port),
    /// Write to the newest connection of a session.
    Write(Option<SessionHandle>, Vec<u8>),
    /// Shut the newest connection of a session down.
    Shutdown(Option<SessionHandle>, ShutdownStep),
    /// Run an HTTP request (feature `http`).
    #[cfg(feature = "http")]
    Request(Option<SessionHandle>, Box<HttpRequest>),
    /// Drop an HTTP exchange (feature `http`).
    #[cfg(feature = "http")]
    Drop(Port),
    /// Do something for an authorization (feature `oauth`).
    #[cfg(feature = "oauth")]
    OAuth(Option<SessionHandle>, Box<OAuthAction>),
    /// An event for the embedder.
    Event(E),
}

/// What an embedder reports about a connection, for every kind of client.
#[derive(Clone, Copy, Debug)]
pub enum Arrival<'a> {
    /// A report on the transport.
    Transport(Transport<'a>),
    /// The server wrote this; over HTTP it is a part of the body.
    Bytes(&'a [u8]),
    /// The head of an HTTP response (feature `http`).
    #[cfg(feature = "http")]
    Head(::http::StatusCode, &'a ::http::HeaderMap),
    /// The HTTP response is complete (feature `http`).
    #[cfg(feature = "http")]
    End,
    /// The exchange failed (feature `http`).
    #[cfg(feature = "http")]
    Failure(Broken, &'a str),
    /// The user's browser was redirected to this URL (feature `oauth`).
    #[cfg(feature = "oauth")]
    Redirect(&'a str),
}

/// What an arrival means to the authorization of a client.
#[cfg(feature = "oauth")]
fn oauth_input(port: Port, input: Arrival<'_>) -> Option<OAuthInput<'_>> {
    Some(match (port, input) {
        (Port::OAuth(_, exchange), Arrival::Head(status, headers)) => OAuthInput::Head { exchange, status, headers },
        (Port::OAuth(_, exchange), Arrival::Bytes(chunk)) => OAuthInput::Body { exchange, chunk },
        (Port::OAuth(_, exchange), Arrival::End) => OAuthInput::End { exchange },
        (Port::OAuth(_, exchange), Arrival::Failure(_, why)) => OAuthInput::Failure { exchange, why },
        (Port::Browser(_), Arrival::Redirect(url)) => OAuthInput::Redirect(url),
        _ => return None,
    })
}

/// A binding whose clients a [`Sim`](super::Sim) drives. All of this crate are.
pub trait Carried: Binding {
    /// Whether an input is a whole message, which a link must not split.
    const TAKES_MESSAGES: bool = false;

    /// An action, for every kind of client.
    fn step_of(action: Self::Action) -> Step<Event>;

    /// Gives an input of a connection to a client.
    fn take(client: &mut Client<Self>, now: Time, port: Port, input: Arrival<'_>)
    where
        Self: Sized;
}

fn step_of(action: Action) -> Step<Event> {
    match action {
        Action::Open(connection) => Step::Open(Port::Connection(None, connection)),
        Action::Send(message) => Step::Write(None, message.line().to_vec()),
        Action::Shutdown(step) => Step::Shutdown(None, step),
        Action::Event(event) => Step::Event(event),
    }
}

/// A message of a pipe, without the end of its line.
fn message(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

impl Carried for Messages {
    const TAKES_MESSAGES: bool = true;

    fn step_of(action: Action) -> Step<Event> {
        step_of(action)
    }

    fn take(client: &mut Client<Self>, now: Time, port: Port, input: Arrival<'_>) {
        match (port, input) {
            (Port::Connection(_, connection), Arrival::Transport(event)) => {
                client.handle_transport(now, connection, event);
            }
            (Port::Connection(_, connection), Arrival::Bytes(line)) => {
                client.handle_message(now, connection, message(line));
            }
            #[cfg(feature = "http")]
            _ => {}
        }
    }
}

impl Carried for Lines {
    fn step_of(action: Action) -> Step<Event> {
        step_of(action)
    }

    fn take(client: &mut Client<Self>, now: Time, port: Port, input: Arrival<'_>) {
        match (port, input) {
            (Port::Connection(_, connection), Arrival::Transport(event)) => {
                client.handle_transport(now, connection, event);
            }
            (Port::Connection(_, connection), Arrival::Bytes(bytes)) => client.handle_bytes(now, connection, bytes),
            #[cfg(feature = "http")]
            _ => {}
        }
    }
}

#[cfg(feature = "http")]
impl Carried for Http {
    fn step_of(action: HttpAction) -> Step<Event> {
        match action {
            HttpAction::Request(request) => Step::Request(None, Box::new(request)),
            HttpAction::Drop(exchange) => Step::Drop(Port::Exchange(None, exchange)),
            HttpAction::Event(event) => Step::Event(event),
            #[cfg(feature = "oauth")]
            HttpAction::OAuth(action) => Step::OAuth(None, Box::new(action)),
        }
    }

    fn take(client: &mut Client<Self>, now: Time, port: Port, input: Arrival<'_>) {
        match (port, input) {
            (Port::Exchange(_, exchange), Arrival::Head(status, headers)) => {
                client.handle_head(now, exchange, status, headers);
            }
            (Port::Exchange(_, exchange), Arrival::Bytes(chunk)) => client.handle_body(now, exchange, chunk),
            (Port::Exchange(_, exchange), Arrival::End) => client.handle_end(now, exchange),
            (Port::Exchange(_, exchange), Arrival::Failure(broken, why)) => {
                client.handle_failure(now, exchange, broken, why);
            }
            #[cfg(feature = "oauth")]
            (port, input) => drop(oauth_input(port, input).map(|input| client.handle_oauth(now, input))),
            #[cfg(not(feature = "oauth"))]
            _ => {}
        }
    }
}

impl<B: Carried> Driven for Client<B> {
    type Event = Event;

    fn step(&mut self) -> Option<Step<Event>> {
        self.poll().map(B::step_of)
    }

    fn connection_of(&self, _: Option<SessionHandle>) -> Option<ConnectionId> {
        Some(self.connection())
    }

    fn next_deadline(&self) -> Option<Time> {
        self.deadline()
    }

    fn time_out(&mut self, now: Time) {
        self.handle_timeout(now);
    }

    fn input(&mut self, now: Time, port: Port, input: Arrival<'_>) {
        B::take(self, now, port, input);
    }

    fn server(&self, _: Option<SessionHandle>) -> Option<&str> {
        None
    }

    fn takes_messages(&self) -> bool {
        B::TAKES_MESSAGES
    }
}

fn hub_step(action: HubAction) -> Step<HubEvent> {
    match action {
        HubAction::Open { session, connection } => Step::Open(Port::Connection(Some(session), connection)),
        HubAction::Send { session, message } => Step::Write(Some(session), message.line().to_vec()),
        HubAction::Shutdown { session, how } => Step::Shutdown(Some(session), how),
        #[cfg(feature = "http")]
        HubAction::Request { session, request } => Step::Request(Some(session), request),
        #[cfg(feature = "http")]
        HubAction::Drop { session, exchange } => Step::Drop(Port::Exchange(Some(session), exchange)),
        #[cfg(feature = "oauth")]
        HubAction::OAuth { session, action } => Step::OAuth(Some(session), action),
        HubAction::Event(event) => Step::Event(event),
    }
}

/// What a simulation needs of a hub, plain or recorded, which have the same methods.
macro_rules! drive_hub {
    ($hub:ty) => {
        impl Driven for $hub {
            type Event = HubEvent;

            fn step(&mut self) -> Option<Step<HubEvent>> {
                self.poll().map(hub_step)
            }

            fn connection_of(&self, session: Option<SessionHandle>) -> Option<ConnectionId> {
                session.and_then(|session| self.session(session)).map(Engine::connection)
            }

            fn next_deadline(&self) -> Option<Time> {
                self.deadline()
            }

            fn time_out(&mut self, now: Time) {
                self.handle_timeout(now);
            }

            fn input(&mut self, now: Time, port: Port, input: Arrival<'_>) {
                let Some(session) = port.session() else { return };
                match (port, input) {
                    (Port::Connection(_, connection), Arrival::Transport(event)) => {
                        self.handle_transport(now, session, connection, event);
                    }
                    (Port::Connection(_, connection), Arrival::Bytes(chunk)) => {
                        self.handle_bytes(now, session, connection, chunk);
                    }
                    #[cfg(feature = "http")]
                    (Port::Exchange(_, exchange), Arrival::Head(status, headers)) => {
                        self.handle_head(now, session, exchange, status, headers);
                    }
                    #[cfg(feature = "http")]
                    (Port::Exchange(_, exchange), Arrival::Bytes(chunk)) => {
                        self.handle_body(now, session, exchange, chunk)
                    }
                    #[cfg(feature = "http")]
                    (Port::Exchange(_, exchange), Arrival::End) => self.handle_end(now, session, exchange),
                    #[cfg(feature = "http")]
                    (Port::Exchange(_, exchange), Arrival::Failure(broken, why)) => {
                        self.handle_failure(now, session, exchange, broken, why);
                    }
                    #[cfg(feature = "oauth")]
                    (port, input) => drop(oauth_input(port, input).map(|input| self.handle_oauth(now, session, input))),
                    #[cfg(all(feature = "http", not(feature = "oauth")))]
                    _ => {}
                }
            }

            fn server(&self, session: Option<SessionHandle>) -> Option<&str> {
                session.and_then(|session| Hub::server(self, session))
            }
        }
    };
}

drive_hub!(Hub);
#[cfg(feature = "journal")]
drive_hub!(journal::Recorder<Hub>);

/// A program around a [`Client`] or a [`Hub`], which a [`Sim`](super::Sim) runs. A plain client or hub is run as a
/// [`Collector`].
pub trait Embedder {
    /// The client or the hub.
    type Driven: Driven;

    /// The client or the hub.
    fn driven(&mut self) -> &mut Self::Driven;

    /// Takes an event.
    fn on_event(&mut self, now: Time, event: <Self::Driven as Driven>::Event);

    /// Takes an action of the authorization of a client, or of a session of a hub (feature `oauth`): everything but
    /// requests, which the simulation runs, so that the embedder stores and signs. The URL that a user is to open is
    /// also here, for an embedder that shows it; the simulation opens it itself.
    #[cfg(feature = "oauth")]
    fn on_oauth(&mut self, now: Time, session: Option<SessionHandle>, action: OAuthAction) {
        let _ = (now, session, action);
    }

    /// When [`on_timeout`](Self::on_timeout) is due, for an embedder with timers of its own.
    fn deadline(&self) -> Option<Time> {
        None
    }

    /// Handles the embedder's own deadlines that are due.
    fn on_timeout(&mut self, now: Time) {
        let _ = now;
    }
}

/// A client or a hub that collects its events. It dereferences to the client or hub, for commands and getters. It writes no
/// journal; `journal::Collector` does that.
#[derive(Clone, Debug)]
pub struct Collector<D: Driven> {
    driven: D,
    /// The events, with their times.
    pub events: Vec<(Time, D::Event)>,
    /// The actions of [`on_oauth`](Embedder::on_oauth), with their times (feature `oauth`). Those on a store and for
    /// signatures wait until a test answers them.
    #[cfg(feature = "oauth")]
    pub oauth: Vec<(Time, OAuthAction)>,
}

impl<D: Driven> Collector<D> {
    /// Records the events of this client or hub.
    pub const fn new(driven: D) -> Self {
        Self {
            driven,
            events: Vec::new(),
            #[cfg(feature = "oauth")]
            oauth: Vec::new(),
        }
    }
}

impl<D: Driven> Deref for Collector<D> {
    type Target = D;

    fn deref(&self) -> &D {
        &self.driven
    }
}

impl<D: Driven> DerefMut for Collector<D> {
    fn deref_mut(&mut self) -> &mut D {
        &mut self.driven
    }
}

impl<D: Driven> Embedder for Collector<D> {
    type Driven = D;

    fn driven(&mut self) -> &mut D {
        &mut self.driven
    }

    fn on_event(&mut self, now: Time, event: D::Event) {
        self.events.push((now, event));
    }

    #[cfg(feature = "oauth")]
    fn on_oauth(&mut self, now: Time, _: Option<SessionHandle>, action: OAuthAction) {
        self.oauth.push((now, action));
    }
}

#[cfg(feature = "journal")]
impl<B: Carried + JournalBinding> Driven for journal::Recorder<Client<B>> {
    type Event = Event;

    fn step(&mut self) -> Option<Step<Event>> {
        self.poll().map(B::step_of)
    }

    fn connection_of(&self, _: Option<SessionHandle>) -> Option<ConnectionId> {
        Some(self.connection())
    }

    fn next_deadline(&self) -> Option<Time> {
        self.deadline()
    }

    fn time_out(&mut self, now: Time) {
        self.handle_timeout(now);
    }

    fn input(&mut self, now: Time, port: Port, input: Arrival<'_>) {
        if let Some(input) = recorded(port, input, B::TAKES_MESSAGES) {
            let _ = self.handle_input(now, input);
        }
    }

    fn server(&self, _: Option<SessionHandle>) -> Option<&str> {
        None
    }

    fn takes_messages(&self) -> bool {
        B::TAKES_MESSAGES
    }
}

/// An input as a value; `None` if a connection of this kind has none such.
#[cfg(feature = "journal")]
fn recorded(port: Port, input: Arrival<'_>, takes_messages: bool) -> Option<journal::Input> {
    Some(match (port, input) {
        (Port::Connection(_, connection), Arrival::Transport(event)) => {
            journal::Input::Transport { connection, event: event.into() }
        }
        (Port::Connection(_, connection), Arrival::Bytes(bytes)) if takes_messages => {
            journal::Input::Message { connection, bytes: message(bytes).into() }
        }
        (Port::Connection(_, connection), Arrival::Bytes(bytes)) => {
            journal::Input::Bytes { connection, bytes: bytes.into() }
        }
        #[cfg(feature = "http")]
        (Port::Exchange(_, exchange), Arrival::Head(status, headers)) => {
            journal::Input::Head { exchange, status, headers: headers.clone() }
        }
        #[cfg(feature = "http")]
        (Port::Exchange(_, exchange), Arrival::Bytes(bytes)) => journal::Input::Body { exchange, bytes: bytes.into() },
        #[cfg(feature = "http")]
        (Port::Exchange(_, exchange), Arrival::End) => journal::Input::End { exchange },
        #[cfg(feature = "http")]
        (Port::Exchange(_, exchange), Arrival::Failure(broken, why)) => {
            journal::Input::Failure { exchange, broken, why: why.into() }
        }
        #[cfg(feature = "oauth")]
        (port, input) => oauth_input(port, input)?.into(),
        #[cfg(all(feature = "http", not(feature = "oauth")))]
        _ => return None,
    })
}
