//! The library's part of a run: one session, or a hub of them.

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
    /// The handles in the order of the run's servers.
    Hub(Box<Hub>, Vec<SessionHandle>),
}

/// What is wanted next.
pub(crate) enum Wish {
    Open(ConnectionId),
    Send(Outgoing),
    Shut(ShutdownStep),
    Request(HttpRequest),
    Drop(ExchangeId),
    Event(Event),
    /// The server is not there, or not any more.
    Failed(Failure),
    /// A call of the hub's ended.
    Finished(CallId, Outcome),
    /// Of no server: none is starting any more.
    Settled,
}

/// What was asked, and has no answer yet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Request(RequestId),
    Call(CallId),
}

/// Why something cannot be asked: the outcome of it, and in words.
pub(crate) struct Refused(pub(crate) &'static str, pub(crate) Option<String>);

impl Engine {
    /// For one server.
    pub(crate) fn one(options: Options, target: &Target) -> Self {
        match target {
            Target::Http { url } => Self::Http(Box::new(Client::new(Http::new(url.clone()), options, seed()))),
            Target::Demo | Target::Stdio { .. } => Self::Pipe(Box::new(Client::new(Lines::new(), options, seed()))),
        }
    }

    /// What is wanted next, and of which of the run's servers.
    pub(crate) fn poll(&mut self) -> Option<(usize, Wish)> {
        loop {
            let wish = match self {
                Self::Pipe(session) => of_pipe(session.poll()?),
                Self::Http(session) => of_http(session.poll()?),
                Self::Hub(hub, handles) => {
                    let action = hub.poll()?;
                    let Some((handle, wish)) = of_hub(hub, action) else { continue };
                    let at = handles.iter().position(|known| handle == Some(*known));
                    match at {
                        Some(at) => return Some((at, wish)),
                        None if handle.is_none() => Some(wish),
                        None => None,
                    }
                }
            };
            if let Some(wish) = wish {
                return Some((0, wish));
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
        // What is new can be opened.
        match self {
            Self::Pipe(session) => drop(session.open(now)),
            Self::Http(session) => drop(session.open(now)),
            Self::Hub(hub, _) => drop(hub.open(now)),
        }
    }

    pub(crate) fn close(&mut self, now: Time) {
        // What is closed needs no closing.
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
            Self::Http(session) => exchanges::tell(session, now, exchange, piece),
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

    /// Makes a step; of a hub it is a call by the exposed name.
    pub(crate) fn ask(&mut self, now: Time, step: &Step) -> Result<Asked, Refused> {
        let asked = match self {
            Self::Pipe(session) => session.request(now, step.request()),
            Self::Http(session) => session.request(now, step.request()),
            Self::Hub(hub, _) => {
                let asked = hub.call_with(now, &step.target, step.call_arguments(), |request| request.progress());
                return asked.map(Asked::Call).map_err(|error| {
                    let unknown = matches!(error, CallError::UnknownTool { .. });
                    Refused(if unknown { "not-advertised" } else { "not-sent" }, Some(error.to_string()))
                });
            }
        };
        asked.map(Asked::Request).map_err(|misuse| {
            let not_advertised = matches!(misuse, CommandError::NotAdvertised { .. });
            Refused(if not_advertised { "not-advertised" } else { "not-sent" }, None)
        })
    }

    pub(crate) fn cancel(&mut self, now: Time, asked: Asked) {
        // One that ended meanwhile needs no end.
        let _ = match (self, asked) {
            (Self::Pipe(session), Asked::Request(request)) => session.cancel(now, request),
            (Self::Http(session), Asked::Request(request)) => session.cancel(now, request),
            (Self::Hub(hub, _), Asked::Call(call)) => hub.cancel(now, call),
            _ => Ok(()),
        };
    }

    /// Responds to a request of a server, as long as somebody waits for it.
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

    /// Gives a request the input that its server requires, as long as the request waits for it.
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

    /// Declines to give input, or to authorize, as long as the request waits for it.
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

    /// Subscribes to a resource; false where that is refused here.
    pub(crate) fn subscribe(&mut self, now: Time, at: usize, uri: &str) -> bool {
        match self {
            Self::Pipe(session) => session.subscribe(now, uri).is_ok(),
            Self::Http(session) => session.subscribe(now, uri).is_ok(),
            Self::Hub(hub, handles) => handles.get(at).is_some_and(|handle| hub.subscribe(now, *handle, uri).is_ok()),
        }
    }

    /// Ends a subscription, if there is one.
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

    /// The server that a call goes to, where there are several.
    pub(crate) fn server_of(&self, asked: Asked) -> Option<usize> {
        match (self, asked) {
            (Self::Hub(_, handles), Asked::Call(call)) => handles.iter().position(|known| *known == call.session()),
            _ => None,
        }
    }
}

/// Seeds the jitter of reconnects.
pub(crate) fn seed() -> u64 {
    std::process::id().into()
}

fn of_pipe(action: Action) -> Option<Wish> {
    Some(match action {
        Action::Open(connection) => Wish::Open(connection),
        Action::Send(message) => Wish::Send(message),
        Action::Shutdown(how) => Wish::Shut(how),
        Action::Event(event) => Wish::Event(event),
        _ => return None,
    })
}

fn of_http(action: HttpAction) -> Option<Wish> {
    Some(match action {
        HttpAction::Request(request) => Wish::Request(request),
        HttpAction::Drop(exchange) => Wish::Drop(exchange),
        HttpAction::Event(event) => Wish::Event(event),
        _ => return None,
    })
}

fn of_hub(hub: &Hub, action: HubAction) -> Option<(Option<SessionHandle>, Wish)> {
    let (session, wish) = match action {
        HubAction::Open { session, connection } => (session, Wish::Open(connection)),
        HubAction::Send { session, message } => (session, Wish::Send(message)),
        HubAction::Shutdown { session, how } => (session, Wish::Shut(how)),
        HubAction::Request { session, request } => (session, Wish::Request(request)),
        HubAction::Drop { session, exchange } => (session, Wish::Drop(exchange)),
        HubAction::Event(HubEvent::Session { session, event, .. }) => (session, Wish::Event(event)),
        HubAction::Event(HubEvent::Failed { server, failure, .. }) => (hub.handle(&server)?, Wish::Failed(failure)),
        HubAction::Event(HubEvent::Finished { call, outcome, .. }) => (call.session(), Wish::Finished(call, outcome)),
        HubAction::Event(HubEvent::Settled) => return Some((None, Wish::Settled)),
        HubAction::Event(_) | _ => return None,
    };
    Some((Some(session), wish))
}
