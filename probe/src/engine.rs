//! The library's part of a run: a session or a hub.

use std::hash::{BuildHasher, Hasher, RandomState};

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName};
use mcp_proto::binding::http::{ExchangeId, HttpAction, HttpRequest};
use mcp_proto::binding::oauth::{Authorization, OAuthAction, OAuthInput};
use mcp_proto::host::hub::{CallError, CallId, Hub, HubAction, HubEvent, SessionHandle};
use mcp_proto::journal::{ApplyError, HubAccepted, HubApplyError, HubInput, Input, JournalLimits, Recorder};
use mcp_proto::{
    Action, Client, CommandError, ConnectionId, Event, Failure, Http, Lines, Options, Outcome, Outgoing, RequestId,
    ShutdownStep, Time,
};

use crate::args::{Step, Target};
use crate::text::write_stderr;

/// The library's part of a run, and the time of the last input that it was given.
pub(crate) struct Engine {
    session: Session,
    now: Time,
}

pub(crate) enum Session {
    Pipe(Box<Recorder<Client<Lines>>>),
    Http(Box<Recorder<Client<Http>>>),
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
    IdleShutdown,
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

    /// For one server, which the client may authorize itself at. The journal has no value of these headers.
    pub(crate) fn one(
        options: Options,
        target: &Target,
        authorization: Option<Authorization>,
        headers: &HeaderMap,
        limits: JournalLimits,
    ) -> Self {
        Self::new(match target {
            Target::Http { http, .. } => {
                let http = match authorization {
                    Some(authorization) => (**http).clone().with_oauth(authorization),
                    None => (**http).clone(),
                };
                let mut session = Recorder::new(http, options, seed(), limits);
                for (name, secret) in secrets(headers) {
                    if let Err(why) = session.hide(secret)
                        && limits.entries > 0
                    {
                        write_stderr(&format!("probe: the journal may contain the value of {name}: {why}\n"));
                    }
                }
                Session::Http(Box::new(session))
            }
            Target::Demo | Target::Stdio { .. } => {
                Session::Pipe(Box::new(Recorder::new(Lines::new(), options, seed(), limits)))
            }
        })
    }

    /// Gives an input to the authorization of a server. Returns whether it belongs to what is in progress.
    pub(crate) fn handle_oauth(&mut self, now: Time, at: usize, input: OAuthInput<'_>) -> bool {
        self.now = now;
        match &mut self.session {
            Session::Http(session) => session.apply(now, input.into()).is_ok(),
            Session::Hub(hub, handles) => handles.get(at).is_some_and(|handle| hub.handle_oauth(now, *handle, input)),
            Session::Pipe(_) | Session::Replayed => false,
        }
    }

    /// The hub, with several servers.
    pub(crate) const fn hub(&self) -> Option<&Hub> {
        match &self.session {
            Session::Hub(hub, _) => Some(hub),
            Session::Pipe(_) | Session::Http(_) | Session::Replayed => None,
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
            Session::Hub(..) | Session::Replayed => (String::new(), 0),
        }
    }

    /// Ends the journal: [`journal`](Self::journal) returns its last lines.
    pub(crate) fn end_journal(&mut self) {
        match &mut self.session {
            Session::Pipe(session) => session.end(),
            Session::Http(session) => session.end(),
            Session::Hub(..) | Session::Replayed => {}
        }
    }

    /// Gives an input or a command to a server's session. With several servers, [`Input::Open`], [`Input::Close`] and
    /// [`Input::Timeout`] are for all of them.
    pub(crate) fn apply(&mut self, now: Time, at: usize, input: Input) -> Result<Option<InFlight>, Refused> {
        self.now = now;
        let applied = match &mut self.session {
            Session::Pipe(session) => session.apply(now, input),
            Session::Http(session) => session.apply(now, input),
            #[allow(clippy::wildcard_enum_match_arm, reason = "all others are for one session")]
            Session::Hub(hub, handles) => {
                let input = match input {
                    Input::Open => HubInput::Open,
                    Input::Close => HubInput::Close,
                    Input::Timeout => HubInput::Timeout,
                    input => match handles.get(at) {
                        Some(session) => HubInput::Session { session: *session, input },
                        None => return Ok(None),
                    },
                };
                return apply(hub, now, input);
            }
            Session::Replayed => Ok(None),
        };
        match applied {
            Ok(request) => Ok(request.map(InFlight::Request)),
            Err(error) => Err(Refused(refusal(&error), None)),
        }
    }

    /// The same for an input that never fails, or a command that may come too late.
    pub(crate) fn give(&mut self, now: Time, at: usize, input: Input) {
        let _ = self.apply(now, at, input);
    }

    /// Starts a step; with a hub, a call by its exposed name.
    pub(crate) fn start(&mut self, now: Time, step: &Step) -> Result<InFlight, Refused> {
        let started = match &mut self.session {
            Session::Hub(hub, _) => {
                self.now = now;
                let (name, arguments) = (step.target.as_str().into(), step.call_arguments().map(ToOwned::to_owned));
                apply(hub, now, HubInput::Call { name, arguments, timeout: None, progress: true })
            }
            Session::Pipe(_) | Session::Http(_) | Session::Replayed => {
                self.apply(now, 0, Input::Request(step.request()))
            }
        };
        started?.ok_or(Refused("not-sent", None))
    }

    /// Cancels a step. An error means that it finished.
    pub(crate) fn cancel(&mut self, now: Time, in_flight: InFlight) {
        match (&mut self.session, in_flight) {
            (Session::Hub(hub, _), InFlight::Call(call)) => drop(hub.cancel(now, call)),
            (_, InFlight::Request(request)) => self.give(now, 0, Input::Cancel { request, reason: None }),
            (_, InFlight::Call(_)) => {}
        }
    }

    /// The next action, with the index of its server.
    pub(crate) fn poll(&mut self) -> Option<(usize, EngineAction)> {
        loop {
            let action = match &mut self.session {
                Session::Replayed => return None,
                Session::Pipe(session) => session.poll()?.seen(),
                Session::Http(session) => session.poll()?.seen(),
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
            Session::Hub(hub, handles) => hub.session(*handles.get(at)?),
            Session::Replayed => None,
        }
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        match &self.session {
            Session::Pipe(session) => session.deadline(),
            Session::Http(session) => session.deadline(),
            Session::Hub(hub, _) => hub.deadline(),
            Session::Replayed => None,
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        match &self.session {
            Session::Pipe(session) => session.is_closed(),
            Session::Http(session) => session.is_closed(),
            Session::Hub(hub, _) => hub.is_closed(),
            Session::Replayed => true,
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

fn apply(hub: &mut Hub, now: Time, input: HubInput) -> Result<Option<InFlight>, Refused> {
    match hub.apply(now, input) {
        Ok(HubAccepted::Call(call)) => Ok(Some(InFlight::Call(call))),
        Ok(_) => Ok(None),
        Err(error) => {
            let is_unknown = matches!(error, HubApplyError::Call(CallError::UnknownTool { .. }));
            Err(Refused(if is_unknown { "not-advertised" } else { "not-sent" }, Some(error.to_string())))
        }
    }
}

/// The outcome of a call that was refused.
pub(crate) const fn refusal(error: &ApplyError) -> &'static str {
    let is_absent = matches!(error, ApplyError::Command(CommandError::NotAdvertised { .. }));
    if is_absent { "not-advertised" } else { "not-sent" }
}

/// The values of headers, any of which may be a secret, and what follows the schemes of credentials. The client has its
/// own values for what describes a message.
fn secrets(headers: &HeaderMap) -> impl Iterator<Item = (&HeaderName, &str)> {
    let values = headers.iter().filter(|(name, _)| ![ACCEPT, CONTENT_TYPE].contains(name));
    let values = values.filter_map(|(name, value)| Some((name, value.to_str().ok()?)));
    values.flat_map(|(name, value)| {
        let scheme = name.as_str().contains("auth").then(|| value.split_once(' ')).flatten();
        let token = scheme.map(|(_, token)| token.trim());
        [Some(value), token].into_iter().flatten().map(move |secret| (name, secret))
    })
}

/// A random seed for the jitter of reconnects.
pub(crate) fn seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// What the actions of a binding are for a run.
pub(crate) trait Seen {
    fn seen(self) -> Option<EngineAction>;
}

impl Seen for Action {
    fn seen(self) -> Option<EngineAction> {
        Some(match self {
            Self::Open(connection) => EngineAction::Open(connection),
            Self::Send(message) => EngineAction::Send(message),
            Self::Shutdown(how) => EngineAction::Shut(how),
            Self::Event(event) => EngineAction::Event(event),
            _ => return None,
        })
    }
}

impl Seen for HttpAction {
    #[allow(clippy::wildcard_enum_match_arm, reason = "features that other packages enable have further actions")]
    fn seen(self) -> Option<EngineAction> {
        Some(match self {
            Self::Request(request) => EngineAction::Request(request),
            Self::Drop(exchange) => EngineAction::Drop(exchange),
            Self::OAuth(action) => EngineAction::OAuth(action),
            Self::Event(event) => EngineAction::Event(event),
            _ => return None,
        })
    }
}

fn of_hub(hub: &Hub, action: HubAction) -> Option<(Option<SessionHandle>, EngineAction)> {
    let (session, action) = match action {
        HubAction::Open { session, connection } => (session, EngineAction::Open(connection)),
        HubAction::Send { session, message } => (session, EngineAction::Send(message)),
        HubAction::Shutdown { session, how } => (session, EngineAction::Shut(how)),
        HubAction::Request { session, request } => (session, EngineAction::Request(*request)),
        HubAction::Drop { session, exchange } => (session, EngineAction::Drop(exchange)),
        HubAction::OAuth { session, action } => (session, EngineAction::OAuth(*action)),
        HubAction::Event(HubEvent::Session { session, event, .. }) => (session, EngineAction::Event(event)),
        HubAction::Event(HubEvent::IdleShutdown { session, .. }) => (session, EngineAction::IdleShutdown),
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
