//! The library's part of a run: a session or a hub.

use std::hash::{BuildHasher, Hasher, RandomState};

use mcp_proto::binding::http::{ExchangeId, HttpAction, HttpRequest};
use mcp_proto::host::hub::{CallError, CallId, Hub, HubAction, HubEvent, SessionHandle};
use mcp_proto::jsonrpc::ErrorObject;
use mcp_proto::{
    Action, Client, CommandError, ConnectionId, Event, Failure, Http, Lines, Options, Outcome, Outgoing, RawValue,
    RequestId, ServerRequestId, ShutdownStep, Time, Transport,
};

use crate::args::Target;
use crate::exchanges::{self, Piece};
use crate::step::Step;

pub(crate) enum Engine {
    Pipe(Box<Client<Lines>>),
    Http(Box<Client<Http>>),
    /// The handles are in the order of the run's servers.
    Hub(Box<Hub>, Vec<SessionHandle>),
}

/// The next action to run.
pub(crate) enum EngineAction {
    Open(ConnectionId),
    Send(Outgoing),
    Shut(ShutdownStep),
    Request(HttpRequest),
    Drop(ExchangeId),
    Event(Event),
    /// The server failed or closed.
    Failed(Failure),
    /// A call of the hub finished.
    Finished(CallId, Outcome),
    /// No server is starting any more; belongs to no server.
    Settled,
}

/// A request in flight.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum InFlight {
    Request(RequestId),
    Call(CallId),
}

/// Why a request was rejected: its outcome, and a message.
pub(crate) struct Refused(pub(crate) &'static str, pub(crate) Option<String>);

impl Engine {
    /// For one server.
    pub(crate) fn one(options: Options, target: &Target) -> Self {
        match target {
            Target::Http { url } => Self::Http(Box::new(Client::new(Http::new(url.clone()), options, seed()))),
            Target::Demo | Target::Stdio { .. } => Self::Pipe(Box::new(Client::new(Lines::new(), options, seed()))),
        }
    }

    /// The next action, with the index of its server.
    pub(crate) fn poll(&mut self) -> Option<(usize, EngineAction)> {
        loop {
            let action = match self {
                Self::Pipe(session) => of_pipe(session.poll()?),
                Self::Http(session) => of_http(session.poll()?),
                Self::Hub(hub, handles) => {
                    let action = hub.poll()?;
                    let Some((handle, action)) = of_hub(hub, action) else { continue };
                    let at = handles.iter().position(|known| handle == Some(*known));
                    match at {
                        Some(at) => return Some((at, action)),
                        None if handle.is_none() => Some(action),
                        None => None,
                    }
                }
            };
            if let Some(action) = action {
                return Some((0, action));
            }
        }
    }

    pub(crate) fn session(&self, at: usize) -> Option<&mcp_proto::Engine> {
        match self {
            Self::Pipe(session) => Some(session),
            Self::Http(session) => Some(session),
            Self::Hub(hub, handles) => hub.session(*handles.get(at)?),
        }
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        match self {
            Self::Pipe(session) => session.deadline(),
            Self::Http(session) => session.deadline(),
            Self::Hub(hub, _) => hub.deadline(),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Self::Pipe(session) => session.is_closed(),
            Self::Http(session) => session.is_closed(),
            Self::Hub(hub, _) => hub.is_closed(),
        }
    }

    pub(crate) fn open(&mut self, now: Time) {
        // A new session or hub can be opened.
        match self {
            Self::Pipe(session) => drop(session.open(now)),
            Self::Http(session) => drop(session.open(now)),
            Self::Hub(hub, _) => drop(hub.open(now)),
        }
    }

    pub(crate) fn close(&mut self, now: Time) {
        // A closed session or hub needs no closing.
        match self {
            Self::Pipe(session) => drop(session.close(now)),
            Self::Http(session) => drop(session.close(now)),
            Self::Hub(hub, _) => drop(hub.close(now)),
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        match self {
            Self::Pipe(session) => session.handle_timeout(now),
            Self::Http(session) => session.handle_timeout(now),
            Self::Hub(hub, _) => hub.handle_timeout(now),
        }
    }

    pub(crate) fn handle_bytes(&mut self, now: Time, at: usize, connection: ConnectionId, bytes: &[u8]) {
        match self {
            Self::Pipe(session) => session.handle_bytes(now, connection, bytes),
            Self::Http(_) => {}
            Self::Hub(hub, handles) => {
                if let Some(handle) = handles.get(at) {
                    hub.handle_bytes(now, *handle, connection, bytes);
                }
            }
        }
    }

    pub(crate) fn handle_transport(&mut self, now: Time, at: usize, connection: ConnectionId, event: Transport<'_>) {
        match self {
            Self::Pipe(session) => session.handle_transport(now, connection, event),
            Self::Http(_) => {}
            Self::Hub(hub, handles) => {
                if let Some(handle) = handles.get(at) {
                    hub.handle_transport(now, *handle, connection, event);
                }
            }
        }
    }

    pub(crate) fn handle_exchange(&mut self, now: Time, at: usize, exchange: ExchangeId, piece: &Piece) {
        match self {
            Self::Pipe(_) => {}
            Self::Http(session) => exchanges::deliver(session, now, exchange, piece),
            Self::Hub(hub, handles) => {
                let Some(handle) = handles.get(at).copied() else { return };
                match piece {
                    Piece::Head(status, headers) => hub.handle_head(now, handle, exchange, *status, headers),
                    Piece::Body(chunk) => hub.handle_body(now, handle, exchange, chunk),
                    Piece::End => hub.handle_end(now, handle, exchange),
                    Piece::Failure(broken, why) => hub.handle_failure(now, handle, exchange, *broken, why),
                }
            }
        }
    }

    /// Starts a step; with a hub, a call by its exposed name.
    pub(crate) fn start(&mut self, now: Time, step: &Step) -> Result<InFlight, Refused> {
        let in_flight = match self {
            Self::Pipe(session) => session.request(now, step.request()),
            Self::Http(session) => session.request(now, step.request()),
            Self::Hub(hub, _) => {
                let in_flight = hub.call_with(now, &step.target, step.call_arguments(), |request| request.progress());
                return in_flight.map(InFlight::Call).map_err(|error| {
                    let unknown = matches!(error, CallError::UnknownTool { .. });
                    Refused(if unknown { "not-advertised" } else { "not-sent" }, Some(error.to_string()))
                });
            }
        };
        in_flight.map(InFlight::Request).map_err(|misuse| {
            let not_advertised = matches!(misuse, CommandError::NotAdvertised { .. });
            Refused(if not_advertised { "not-advertised" } else { "not-sent" }, None)
        })
    }

    pub(crate) fn cancel(&mut self, now: Time, in_flight: InFlight) {
        // A finished request needs no cancelling.
        let _ = match (self, in_flight) {
            (Self::Pipe(session), InFlight::Request(request)) => session.cancel(now, request),
            (Self::Http(session), InFlight::Request(request)) => session.cancel(now, request),
            (Self::Hub(hub, _), InFlight::Call(call)) => return drop(hub.cancel(now, call)),
            _ => Ok(()),
        };
    }

    /// Responds to a request of a server. An error means that the request ended in the meantime.
    pub(crate) fn respond(
        &mut self,
        now: Time,
        at: usize,
        request: ServerRequestId,
        response: Result<&RawValue, ErrorObject>,
    ) {
        match self {
            Self::Pipe(session) => drop(session.respond(now, request, response)),
            Self::Http(session) => drop(session.respond(now, request, response)),
            Self::Hub(hub, handles) => {
                if let Some(handle) = handles.get(at) {
                    drop(hub.respond(now, *handle, request, response));
                }
            }
        }
    }

    /// Gives a request the input that its server requires. An error means that the request ended in the meantime.
    pub(crate) fn provide<'a>(
        &mut self,
        now: Time,
        at: usize,
        request: RequestId,
        responses: impl IntoIterator<Item = (&'a str, &'a RawValue)>,
    ) {
        match self {
            Self::Pipe(session) => drop(session.provide(now, request, responses)),
            Self::Http(session) => drop(session.provide(now, request, responses)),
            Self::Hub(hub, handles) => {
                if let Some(handle) = handles.get(at) {
                    drop(hub.provide(now, *handle, request, responses));
                }
            }
        }
    }

    /// Declines to give input, or to authorize. An error means that the request ended in the meantime.
    pub(crate) fn decline(&mut self, now: Time, at: usize, request: RequestId) {
        match self {
            Self::Pipe(session) => drop(session.decline(now, request)),
            Self::Http(session) => drop(session.decline(now, request)),
            Self::Hub(hub, handles) => {
                if let Some(handle) = handles.get(at) {
                    drop(hub.decline(now, *handle, request));
                }
            }
        }
    }

    /// Subscribes to a resource. Returns whether the session accepts it.
    pub(crate) fn subscribe(&mut self, now: Time, at: usize, uri: &str) -> bool {
        match self {
            Self::Pipe(session) => session.subscribe(now, uri).is_ok(),
            Self::Http(session) => session.subscribe(now, uri).is_ok(),
            Self::Hub(hub, handles) => handles.get(at).is_some_and(|handle| hub.subscribe(now, *handle, uri).is_ok()),
        }
    }

    /// Ends a subscription. An error means that the resource was not subscribed to.
    pub(crate) fn unsubscribe(&mut self, now: Time, at: usize, uri: &str) {
        match self {
            Self::Pipe(session) => drop(session.unsubscribe(now, uri)),
            Self::Http(session) => drop(session.unsubscribe(now, uri)),
            Self::Hub(hub, handles) => {
                if let Some(handle) = handles.get(at) {
                    drop(hub.unsubscribe(now, *handle, uri));
                }
            }
        }
    }

    /// The index of the server of a call, if there are several servers.
    pub(crate) fn server_of(&self, in_flight: InFlight) -> Option<usize> {
        match (self, in_flight) {
            (Self::Hub(_, handles), InFlight::Call(call)) => handles.iter().position(|known| *known == call.session()),
            _ => None,
        }
    }
}

/// A random seed for the jitter of reconnects.
pub(crate) fn seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn of_pipe(action: Action) -> Option<EngineAction> {
    Some(match action {
        Action::Open(connection) => EngineAction::Open(connection),
        Action::Send(message) => EngineAction::Send(message),
        Action::Shutdown(how) => EngineAction::Shut(how),
        Action::Event(event) => EngineAction::Event(event),
        _ => return None,
    })
}

fn of_http(action: HttpAction) -> Option<EngineAction> {
    Some(match action {
        HttpAction::Request(request) => EngineAction::Request(request),
        HttpAction::Drop(exchange) => EngineAction::Drop(exchange),
        HttpAction::Event(event) => EngineAction::Event(event),
        _ => return None,
    })
}

fn of_hub(hub: &Hub, action: HubAction) -> Option<(Option<SessionHandle>, EngineAction)> {
    let (session, action) = match action {
        HubAction::Open { session, connection } => (session, EngineAction::Open(connection)),
        HubAction::Send { session, message } => (session, EngineAction::Send(message)),
        HubAction::Shutdown { session, how } => (session, EngineAction::Shut(how)),
        HubAction::Request { session, request } => (session, EngineAction::Request(request)),
        HubAction::Drop { session, exchange } => (session, EngineAction::Drop(exchange)),
        HubAction::Event(HubEvent::Session { session, event, .. }) => (session, EngineAction::Event(event)),
        HubAction::Event(HubEvent::Failed { server, failure, .. }) => {
            (hub.handle(&server)?, EngineAction::Failed(failure))
        }
        HubAction::Event(HubEvent::Finished { call, outcome, .. }) => {
            (call.session(), EngineAction::Finished(call, outcome))
        }
        HubAction::Event(HubEvent::Settled) => return Some((None, EngineAction::Settled)),
        HubAction::Event(_) | _ => return None,
    };
    Some((Some(session), action))
}
