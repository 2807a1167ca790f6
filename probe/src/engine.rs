//! The library's part of a run: one session, or a hub of them.

use mcp_proto::binding::http::{ExchangeId, HttpAction, HttpRequest, HttpSession};
use mcp_proto::host::hub::{CallError, CallId, Hub, HubAction, HubEvent, SessionHandle};
use mcp_proto::jsonrpc::ErrorObject;
use mcp_proto::{
    Action, CommandError, Event, Failure, LineSession, Options, Outcome, Outgoing, RequestId, ServerRequestId, Session,
    ShutdownStep, Time, Transport,
};
use serde_json::value::RawValue;

use crate::args::Target;
use crate::exchanges::{self, Piece};
use crate::step::Step;

pub(crate) enum Engine {
    Pipe(Box<LineSession>),
    Http(Box<HttpSession>),
    /// The handles in the order of the run's servers.
    Hub(Box<Hub>, Vec<SessionHandle>),
}

/// What is wanted next.
pub(crate) enum Wish {
    Open(u32),
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
            Target::Http { url } => Self::Http(Box::new(HttpSession::new(options, url.clone()))),
            Target::Demo | Target::Stdio { .. } => Self::Pipe(Box::new(LineSession::new(Session::new(options)))),
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

    pub(crate) fn session(&self, at: usize) -> Option<&Session> {
        match self {
            Self::Pipe(session) => Some(session),
            Self::Http(session) => Some(session),
            Self::Hub(hub, handles) => hub.session(*handles.get(at)?),
        }
    }

    /// The commands of a session that is there.
    pub(crate) fn commands(&mut self, at: usize) -> Option<Commands<'_>> {
        self.session(at)?;
        Some(match self {
            Self::Pipe(session) => Commands::Session(session),
            Self::Http(session) => Commands::Session(session),
            Self::Hub(hub, handles) => Commands::Hub(hub, *handles.get(at)?),
        })
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

    pub(crate) fn handle_bytes(&mut self, now: Time, at: usize, bytes: &[u8]) {
        match self {
            Self::Pipe(session) => session.handle_bytes(now, bytes),
            Self::Http(_) => {}
            Self::Hub(hub, handles) => {
                if let Some(handle) = handles.get(at) {
                    hub.handle_bytes(now, *handle, bytes);
                }
            }
        }
    }

    pub(crate) fn handle_transport(&mut self, now: Time, at: usize, event: Transport<'_>) {
        match self {
            Self::Pipe(session) => session.handle_transport(now, event),
            Self::Http(_) => {}
            Self::Hub(hub, handles) => {
                if let Some(handle) = handles.get(at) {
                    hub.handle_transport(now, *handle, event);
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
            (Self::Hub(hub, _), Asked::Call(call)) => return drop(hub.cancel(now, call)),
            _ => Ok(()),
        };
    }

    /// The server that a call goes to, where there are several.
    pub(crate) fn server_of(&self, asked: Asked) -> Option<usize> {
        match (self, asked) {
            (Self::Hub(_, handles), Asked::Call(call)) => handles.iter().position(|known| *known == call.session()),
            _ => None,
        }
    }
}

/// The commands of one session, by itself or in a hub. What a session refuses changed nothing, and is left at that.
pub(crate) enum Commands<'a> {
    Session(&'a mut Session),
    Hub(&'a mut Hub, SessionHandle),
}

impl Commands<'_> {
    pub(crate) fn session(&self) -> Option<&Session> {
        match self {
            Self::Session(session) => Some(session),
            Self::Hub(hub, handle) => hub.session(*handle),
        }
    }

    /// Whether the session takes it.
    pub(crate) fn subscribe(&mut self, now: Time, uri: &str) -> bool {
        match self {
            Self::Session(session) => session.subscribe(now, uri).is_ok(),
            Self::Hub(hub, handle) => hub.subscribe(now, *handle, uri).is_ok(),
        }
    }

    pub(crate) fn unsubscribe(&mut self, now: Time, uri: &str) {
        match self {
            Self::Session(session) => drop(session.unsubscribe(now, uri)),
            Self::Hub(hub, handle) => drop(hub.unsubscribe(now, *handle, uri)),
        }
    }

    pub(crate) fn respond(&mut self, now: Time, request: ServerRequestId, answer: Result<&RawValue, ErrorObject>) {
        match self {
            Self::Session(session) => drop(session.respond(now, request, answer)),
            Self::Hub(hub, handle) => drop(hub.respond(now, *handle, request, answer)),
        }
    }

    pub(crate) fn provide<'a>(
        &mut self,
        now: Time,
        request: RequestId,
        answers: impl IntoIterator<Item = (&'a str, &'a RawValue)>,
    ) {
        match self {
            Self::Session(session) => drop(session.provide(now, request, answers)),
            Self::Hub(hub, handle) => drop(hub.provide(now, *handle, request, answers)),
        }
    }

    pub(crate) fn decline(&mut self, now: Time, request: RequestId) {
        match self {
            Self::Session(session) => drop(session.decline(now, request)),
            Self::Hub(hub, handle) => drop(hub.decline(now, *handle, request)),
        }
    }
}

fn of_pipe(action: Action) -> Option<Wish> {
    Some(match action {
        Action::Open(open) => Wish::Open(open.epoch),
        Action::Send(message) => Wish::Send(message),
        Action::Shutdown(how) => Wish::Shut(how),
        Action::Event(event) => Wish::Event(event),
        // Over stdio there is no exchange to drop.
        Action::Abort(_) | _ => return None,
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
        HubAction::Open { session, open } => (session, Wish::Open(open.epoch)),
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
