//! The library's part of a run: a session or a hub.

use std::hash::{BuildHasher, Hasher, RandomState};

use http::HeaderMap;
use mcp_proto::binding::http::{ExchangeId, HttpAction, HttpRequest};
use mcp_proto::binding::oauth::{Authorization, OAuthAction, OAuthInput};
use mcp_proto::host::config::Entry;
use mcp_proto::host::hub::{CallError, CallId, Hub, HubAction, HubEvent, SessionHandle};
use mcp_proto::journal::{ApplyError, Input, JournalLimits, Recorder};
use mcp_proto::jsonrpc::ErrorObject;
use mcp_proto::{
    Action, Client, CommandError, ConnectionId, Event, Failure, Http, Lines, Options, Outcome, Outgoing, RawValue,
    RequestId, ServerRequestId, ShutdownStep, Time, Transport,
};

use crate::args::Step;
use crate::args::Target;
use crate::web::Piece;

/// The library's part of a run, and the time of the last input that it was given.
pub(crate) struct Engine {
    session: Session,
    now: Time,
}

pub(crate) enum Session {
    Pipe(Box<Recorder<Client<Lines>>>),
    Http(Box<Recorder<Client<Http>>>),
    /// A client that authorizes itself, of which there is no journal.
    OAuth(Box<Client<Http>>),
    /// The handles are in the order of the run's servers.
    Hub(Box<Hub>, Vec<SessionHandle>),
    /// A journal is replayed, which has the commands, too.
    Replayed,
}

/// The next action to run.
pub(crate) enum EngineAction {
    Open(ConnectionId),
    Send(Outgoing),
    Shut(ShutdownStep),
    Request(HttpRequest),
    Drop(ExchangeId),
    OAuth(OAuthAction),
    Event(Event),
    /// The server failed or closed.
    Failed(Failure),
    /// The server is stopped until it is called again.
    Resting,
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
    pub(crate) const fn new(session: Session) -> Self {
        Self { session, now: Time::ZERO }
    }

    /// For one server. The journal has no credentials of these headers.
    pub(crate) fn one(options: Options, target: &Target, headers: &HeaderMap, limits: JournalLimits) -> Self {
        Self::new(match target {
            Target::Http { http, .. } => {
                let mut session = Recorder::new((**http).clone(), options, seed(), limits);
                for secret in credentials(headers) {
                    // One that is too short may be a part of other texts.
                    let _ = session.hide(secret);
                }
                Session::Http(Box::new(session))
            }
            Target::Demo | Target::Stdio { .. } => {
                Session::Pipe(Box::new(Recorder::new(Lines::new(), options, seed(), limits)))
            }
        })
    }

    /// For one server over HTTP, which the client authorizes itself at.
    pub(crate) fn authorizing(options: Options, http: Http, authorization: Authorization) -> Self {
        let client = Client::new(http.with_oauth(authorization), options, seed());
        Self::new(Session::OAuth(Box::new(client)))
    }

    /// Gives an input to the authorization of a server. Returns whether it belongs to what is in progress.
    pub(crate) fn handle_oauth(&mut self, now: Time, at: usize, input: OAuthInput<'_>) -> bool {
        self.now = now;
        match &mut self.session {
            Session::OAuth(client) => client.handle_oauth(now, input),
            Session::Hub(hub, handles) => handles.get(at).is_some_and(|handle| hub.handle_oauth(now, *handle, input)),
            Session::Pipe(_) | Session::Http(_) | Session::Replayed => false,
        }
    }

    /// The entry of a server, with several servers.
    pub(crate) fn entry(&self, at: usize) -> Option<&Entry> {
        match &self.session {
            Session::Hub(hub, handles) => hub.entry(*handles.get(at)?),
            Session::Pipe(_) | Session::Http(_) | Session::OAuth(_) | Session::Replayed => None,
        }
    }

    /// The hub, with several servers.
    pub(crate) const fn hub(&self) -> Option<&Hub> {
        match &self.session {
            Session::Hub(hub, _) => Some(hub),
            Session::Pipe(_) | Session::Http(_) | Session::OAuth(_) | Session::Replayed => None,
        }
    }

    /// The time of the last input: that of the events that it caused.
    pub(crate) const fn now(&self) -> Time {
        self.now
    }

    pub(crate) const fn set_now(&mut self, now: Time) {
        self.now = now;
    }

    /// The lines of the journal since the last call, and how many entries are left out of it.
    pub(crate) fn journal(&mut self) -> (String, u64) {
        match &mut self.session {
            Session::Pipe(session) => (session.take(), session.dropped()),
            Session::Http(session) => (session.take(), session.dropped()),
            Session::OAuth(_) | Session::Hub(..) | Session::Replayed => (String::new(), 0),
        }
    }

    /// Ends the journal, and returns its last lines.
    pub(crate) fn end_journal(&mut self) -> String {
        match &mut self.session {
            Session::Pipe(session) => session.end(),
            Session::Http(session) => session.end(),
            Session::OAuth(_) | Session::Hub(..) | Session::Replayed => return String::new(),
        }
        self.journal().0
    }

    /// Gives an input or a command to the session of the only server.
    fn apply(&mut self, now: Time, input: Input) -> Result<Option<RequestId>, ApplyError> {
        self.now = now;
        match &mut self.session {
            Session::Pipe(session) => session.apply(now, input),
            Session::Http(session) => session.apply(now, input),
            Session::OAuth(session) => session.apply(now, input),
            Session::Hub(..) | Session::Replayed => Ok(None),
        }
    }

    /// The hub and the handle of a server, with several servers, for an input or a command at this time.
    fn of_hub(&mut self, now: Time, at: usize) -> Option<(&mut Hub, Option<SessionHandle>)> {
        match &mut self.session {
            Session::Hub(hub, handles) => {
                self.now = now;
                Some((hub, handles.get(at).copied()))
            }
            Session::Pipe(_) | Session::Http(_) | Session::OAuth(_) | Session::Replayed => None,
        }
    }

    /// The next action, with the index of its server.
    pub(crate) fn poll(&mut self) -> Option<(usize, EngineAction)> {
        loop {
            let action = match &mut self.session {
                Session::Replayed => return None,
                Session::Pipe(session) => of_pipe(session.poll()?),
                Session::Http(session) => of_http(session.poll()?),
                Session::OAuth(session) => of_http(session.poll()?),
                Session::Hub(hub, handles) => {
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
        match &self.session {
            Session::Pipe(session) => Some(session),
            Session::Http(session) => Some(session),
            Session::OAuth(session) => Some(session),
            Session::Hub(hub, handles) => hub.session(*handles.get(at)?),
            Session::Replayed => None,
        }
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        match &self.session {
            Session::Pipe(session) => session.deadline(),
            Session::Http(session) => session.deadline(),
            Session::OAuth(session) => session.deadline(),
            Session::Hub(hub, _) => hub.deadline(),
            Session::Replayed => None,
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        match &self.session {
            Session::Pipe(session) => session.is_closed(),
            Session::Http(session) => session.is_closed(),
            Session::OAuth(session) => session.is_closed(),
            Session::Hub(hub, _) => hub.is_closed(),
            Session::Replayed => true,
        }
    }

    pub(crate) fn open(&mut self, now: Time) {
        // A new session or hub can be opened.
        match self.of_hub(now, 0) {
            Some((hub, _)) => drop(hub.open(now)),
            None => drop(self.apply(now, Input::Open)),
        }
    }

    pub(crate) fn close(&mut self, now: Time) {
        // A closed session or hub needs no closing.
        match self.of_hub(now, 0) {
            Some((hub, _)) => drop(hub.close(now)),
            None => drop(self.apply(now, Input::Close)),
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        match self.of_hub(now, 0) {
            Some((hub, _)) => hub.handle_timeout(now),
            None => drop(self.apply(now, Input::Timeout)),
        }
    }

    pub(crate) fn handle_bytes(&mut self, now: Time, at: usize, connection: ConnectionId, bytes: &[u8]) {
        match self.of_hub(now, at) {
            Some((hub, Some(handle))) => hub.handle_bytes(now, handle, connection, bytes),
            Some((_, None)) => {}
            None => drop(self.apply(now, Input::Bytes { connection, bytes: bytes.into() })),
        }
    }

    pub(crate) fn handle_transport(&mut self, now: Time, at: usize, connection: ConnectionId, event: Transport<'_>) {
        match self.of_hub(now, at) {
            Some((hub, Some(handle))) => hub.handle_transport(now, handle, connection, event),
            Some((_, None)) => {}
            None => drop(self.apply(now, Input::Transport { connection, event: event.into() })),
        }
    }

    pub(crate) fn handle_exchange(&mut self, now: Time, at: usize, exchange: ExchangeId, piece: Piece) {
        match self.of_hub(now, at) {
            Some((hub, Some(handle))) => match &piece {
                Piece::Head(status, headers) => hub.handle_head(now, handle, exchange, *status, headers),
                Piece::Body(chunk) => hub.handle_body(now, handle, exchange, chunk),
                Piece::End => hub.handle_end(now, handle, exchange),
                Piece::Failure(broken, why) => hub.handle_failure(now, handle, exchange, *broken, why),
            },
            Some((_, None)) => {}
            None => drop(self.apply(now, piece.into_input(exchange))),
        }
    }

    /// Starts a step; with a hub, a call by its exposed name.
    pub(crate) fn start(&mut self, now: Time, step: &Step) -> Result<InFlight, Refused> {
        if let Some((hub, _)) = self.of_hub(now, 0) {
            let in_flight = hub.call(now, &step.target, step.call_arguments());
            return in_flight.map(InFlight::Call).map_err(|error| {
                let unknown = matches!(error, CallError::UnknownTool { .. });
                Refused(if unknown { "not-advertised" } else { "not-sent" }, Some(error.to_string()))
            });
        }
        match self.apply(now, Input::Request(step.request())) {
            Ok(Some(request)) => Ok(InFlight::Request(request)),
            Err(ApplyError::Command(CommandError::NotAdvertised { .. })) => Err(Refused("not-advertised", None)),
            Ok(None) | Err(_) => Err(Refused("not-sent", None)),
        }
    }

    pub(crate) fn cancel(&mut self, now: Time, in_flight: InFlight) {
        // A finished request needs no cancelling.
        match (self.of_hub(now, 0), in_flight) {
            (Some((hub, _)), InFlight::Call(call)) => drop(hub.cancel(now, call)),
            (None, InFlight::Request(request)) => drop(self.apply(now, Input::Cancel { request, reason: None })),
            (Some(_), InFlight::Request(_)) | (None, InFlight::Call(_)) => {}
        }
    }

    /// Responds to a request of a server. An error means that the request ended in the meantime.
    pub(crate) fn respond(
        &mut self,
        now: Time,
        at: usize,
        request: ServerRequestId,
        response: Result<&RawValue, ErrorObject>,
    ) {
        match self.of_hub(now, at) {
            Some((hub, Some(handle))) => drop(hub.respond(now, handle, request, response)),
            Some((_, None)) => {}
            None => {
                let response = response.map(ToOwned::to_owned);
                drop(self.apply(now, Input::Respond { request, response }));
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
        match self.of_hub(now, at) {
            Some((hub, Some(handle))) => drop(hub.provide(now, handle, request, responses)),
            Some((_, None)) => {}
            None => {
                let responses =
                    responses.into_iter().map(|(key, response)| (key.into(), response.to_owned())).collect();
                drop(self.apply(now, Input::Provide { request, responses }));
            }
        }
    }

    /// Declines to give input, or to authorize. An error means that the request ended in the meantime.
    pub(crate) fn decline(&mut self, now: Time, at: usize, request: RequestId) {
        match self.of_hub(now, at) {
            Some((hub, Some(handle))) => drop(hub.decline(now, handle, request)),
            Some((_, None)) => {}
            None => drop(self.apply(now, Input::Decline { request })),
        }
    }

    /// Subscribes to a resource. Returns whether the session accepts it.
    pub(crate) fn subscribe(&mut self, now: Time, at: usize, uri: &str) -> bool {
        match self.of_hub(now, at) {
            Some((hub, Some(handle))) => hub.subscribe(now, handle, uri).is_ok(),
            Some((_, None)) => false,
            None => self.apply(now, Input::Subscribe { uri: uri.into() }).is_ok(),
        }
    }

    /// Ends a subscription. An error means that the resource was not subscribed to.
    pub(crate) fn unsubscribe(&mut self, now: Time, at: usize, uri: &str) {
        match self.of_hub(now, at) {
            Some((hub, Some(handle))) => drop(hub.unsubscribe(now, handle, uri)),
            Some((_, None)) => {}
            None => drop(self.apply(now, Input::Unsubscribe { uri: uri.into() })),
        }
    }

    /// The index of the server of a call, if there are several servers.
    pub(crate) fn server_of(&self, in_flight: InFlight) -> Option<usize> {
        match (&self.session, in_flight) {
            (Session::Hub(_, handles), InFlight::Call(call)) => {
                handles.iter().position(|known| *known == call.session())
            }
            _ => None,
        }
    }
}

/// The credentials in headers that have such: each value, and what follows its scheme.
fn credentials(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let has_credentials = |name: &str| {
        name == "cookie" || ["auth", "key", "token", "secret", "password"].iter().any(|word| name.contains(word))
    };
    let values = headers.iter().filter(move |(name, _)| has_credentials(name.as_str()));
    let values = values.filter_map(|(_, value)| value.to_str().ok());
    values.flat_map(|value| [Some(value), value.split_once(' ').map(|(_, token)| token.trim())].into_iter().flatten())
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

#[allow(clippy::wildcard_enum_match_arm, reason = "features that other packages enable have further actions")]
fn of_http(action: HttpAction) -> Option<EngineAction> {
    Some(match action {
        HttpAction::Request(request) => EngineAction::Request(request),
        HttpAction::Drop(exchange) => EngineAction::Drop(exchange),
        HttpAction::OAuth(action) => EngineAction::OAuth(action),
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
        HubAction::OAuth { session, action } => (session, EngineAction::OAuth(action)),
        HubAction::Event(HubEvent::Session { session, event, .. }) => (session, EngineAction::Event(event)),
        HubAction::Event(HubEvent::Resting { session, .. }) => (session, EngineAction::Resting),
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
