//! What the driver needs of a client or a hub: its inputs, its outputs, and whom its events are for.

use std::io;
use std::sync::Arc;

use mcp_proto::host::hub::{CallId, SessionHandle};
use mcp_proto::jsonrpc::ErrorObject;
use mcp_proto::{
    Action, Command, CommandError, ConnectionId, Engine, Event, Failure, InputRequest, Outcome, Outgoing, Progress,
    RawValue, RequestId, ServerMethod, ServerRequestId, ShutdownStep, Time, Transport,
};

use crate::endpoint::Target;
use crate::process::SharedLines;
use crate::status::Status;

/// An input of a session's transport, for [`Passed`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Input<'a> {
    /// A program was started, could not be started, ended, or writes to its standard error; a stream was opened, could not be
    /// opened, or ended.
    Transport(ConnectionId, Transport<'a>),
    /// Bytes of a program's standard output, or of a stream; of channels, a message.
    Bytes(ConnectionId, &'a [u8]),
    /// A piece of a response of the server.
    #[cfg(feature = "http")]
    Http(mcp_proto::binding::http::ExchangeId, &'a crate::HttpPiece),
    /// An input of the authorization: a piece of a response, a redirect, what came of the store.
    #[cfg(feature = "oauth")]
    OAuth(mcp_proto::binding::oauth::OAuthInput<'a>),
}

/// An output of a client or of a hub, with the session that it is of, for [`Passed`].
#[derive(Debug)]
#[non_exhaustive]
pub enum Output<E> {
    /// A program is to be started, or a stream opened.
    Open(SessionHandle, ConnectionId),
    /// A message goes to a program, or to a stream.
    Send(SessionHandle, Outgoing),
    /// A program or a stream is to end.
    Shutdown(SessionHandle, ShutdownStep),
    /// A request to the server begins.
    #[cfg(feature = "http")]
    Request(SessionHandle, mcp_proto::binding::http::HttpRequest),
    /// An exchange is given up.
    #[cfg(feature = "http")]
    Drop(SessionHandle, mcp_proto::binding::http::ExchangeId),
    /// The authorization wants something done, or reports something.
    #[cfg(feature = "oauth")]
    OAuth(SessionHandle, mcp_proto::binding::oauth::OAuthAction),
    /// An event, also one that has another way: the end of a call, its progress, what a server asks for.
    Event(E),
}

/// Something that passed between a client and its driver, for [`Host::tap`](crate::Host::tap).
#[derive(Debug)]
#[non_exhaustive]
pub struct Passed<'a, E> {
    /// The client's time: of the input, or of the last input before the output.
    pub now: Time,
    /// The session; `None` for an event of a hub that is of no session. A client alone is one session.
    pub session: Option<SessionHandle>,
    /// The name of the session's server; empty without a session.
    pub server: &'a str,
    /// The state of the session, if it has been opened: after the input, or when the output was decided or later.
    pub engine: Option<&'a Engine>,
    /// The system's number of the session's process, while one runs.
    pub process: Option<u32>,
    /// What passed.
    pub what: Passing<'a, E>,
}

/// What passed between a client and its driver, in one direction or the other.
#[derive(Debug)]
pub enum Passing<'a, E> {
    /// The client took this.
    Input(Input<'a>),
    /// The driver carries this out next.
    Output(&'a Output<E>),
}

/// What is called with all that passes.
pub(crate) type Tap<E> = Box<dyn FnMut(Passed<'_, E>) + Send>;

/// A client or a hub: what the driver needs of it. The sessions of a client are one.
pub(crate) trait Machine: Send + 'static {
    type Event: Clone + Send + 'static;

    fn poll(&mut self) -> Option<Output<Self::Event>>;
    fn deadline(&self) -> Option<Time>;
    fn handle_timeout(&mut self, now: Time);
    /// Whether it is ready without another event: it goes on from a snapshot.
    fn is_ready(&self) -> bool;
    fn is_closed(&self) -> bool;
    fn close(&mut self, now: Time);
    /// Takes an input. Returns whether it belongs to what is in progress, for inputs of an authorization.
    fn input(&mut self, now: Time, session: SessionHandle, input: Input<'_>) -> bool;
    fn engine(&self, session: SessionHandle) -> Option<&Engine>;
    /// The name of a session's server.
    fn server(&self, session: SessionHandle) -> Box<str>;
    /// Whether each input of bytes is a whole message.
    fn takes_messages(&self) -> bool {
        false
    }
    /// What a session is connected to, unless that is by HTTP.
    fn target(&mut self, session: SessionHandle) -> io::Result<Target>;
    /// The embedder's headers of each request to a session's server.
    #[cfg(feature = "http")]
    fn headers(&self, session: SessionHandle) -> http::HeaderMap;
    /// The URL of a session's server.
    #[cfg(feature = "oauth")]
    fn url(&self, session: SessionHandle) -> Box<str>;
    /// The account of a session, if it has one of its own.
    #[cfg(feature = "oauth")]
    fn account(&self, session: SessionHandle) -> Option<Box<str>>;
    /// What it says of the whole that there is no token.
    #[cfg(feature = "oauth")]
    fn unauthorized(&self, error: &mcp_proto::binding::oauth::OAuthError) -> Option<Status>;
    #[cfg(feature = "oauth")]
    fn handle_clock(&mut self, now: Time, unix: std::time::Duration);
    /// Applies a command of a session. Returns the id of a request that was accepted.
    fn apply(&mut self, now: Time, session: SessionHandle, command: Command)
    -> Result<Option<RequestId>, CommandError>;
    /// What an event says of the whole, with what the session's program said.
    fn status(&self, event: &Self::Event, stderr_lines: Option<&SharedLines>) -> Option<Status>;
    /// The session that an event is of.
    fn session(event: &Self::Event) -> Option<SessionHandle>;
    /// A request that the server refuses for lack of another token.
    fn refused(event: &Self::Event) -> Option<(SessionHandle, RequestId)>;
    /// Whom an event is for.
    fn sort(event: Self::Event) -> Sorted<Self::Event>;
    /// Bytes of an event, about.
    fn weigh(event: &Self::Event) -> usize;

    /// Cancels a call, of which the server may be told a reason.
    fn cancel(&mut self, now: Time, call: CallId, reason: Option<&str>) {
        if let Some(request) = call.request() {
            // An error means that it has ended.
            let _ = self.apply(now, call.session(), Command::Cancel { request, reason: reason.map(Into::into) });
        }
    }

    /// Answers a request of a server; with an error, if the result is not an object.
    fn respond(
        &mut self,
        now: Time,
        session: SessionHandle,
        request: ServerRequestId,
        response: Result<Box<RawValue>, ErrorObject>,
    ) {
        let answered = self.apply(now, session, Command::Respond { request, response });
        if let Err(CommandError::ResultNotObject) = answered {
            let response = Err(ErrorObject::new(-32603, "the client failed to answer"));
            let _ = self.apply(now, session, Command::Respond { request, response });
        }
    }

    /// Provides the input that a request waits for; declines, if that is refused.
    fn provide(
        &mut self,
        now: Time,
        session: SessionHandle,
        request: RequestId,
        responses: Vec<(Box<str>, Box<RawValue>)>,
    ) {
        if self.apply(now, session, Command::Provide { request, responses }).is_err() {
            self.decline(now, session, request);
        }
    }

    fn decline(&mut self, now: Time, session: SessionHandle, request: RequestId) {
        // An error means that it waits for nothing any more.
        let _ = self.apply(now, session, Command::Decline { request });
    }
}

/// The only session of a client.
pub(crate) const ONLY: SessionHandle = SessionHandle::from_u64(0);

impl Output<Event> {
    /// What an action of a client over stdio is as an output: of a journal that is replayed, say.
    pub fn of_lines(action: Action) -> Option<Self> {
        Some(match action {
            Action::Open(connection) => Self::Open(ONLY, connection),
            Action::Send(message) => Self::Send(ONLY, message),
            Action::Shutdown(step) => Self::Shutdown(ONLY, step),
            Action::Event(event) => Self::Event(event),
            _ => return None,
        })
    }

    /// What an action of a client over HTTP is as an output.
    #[cfg(feature = "http")]
    pub fn of_http(action: mcp_proto::binding::http::HttpAction) -> Option<Self> {
        use mcp_proto::binding::http::HttpAction;

        Some(match action {
            HttpAction::Request(request) => Self::Request(ONLY, request),
            HttpAction::Drop(exchange) => Self::Drop(ONLY, exchange),
            #[cfg(feature = "oauth")]
            HttpAction::OAuth(action) => Self::OAuth(ONLY, action),
            HttpAction::Event(event) => Self::Event(event),
            _ => return None,
        })
    }
}

impl<E> Output<E> {
    /// The session that it is of.
    pub(crate) fn session(&self, of: impl FnOnce(&E) -> Option<SessionHandle>) -> Option<SessionHandle> {
        match self {
            Self::Open(session, _) | Self::Send(session, _) | Self::Shutdown(session, _) => Some(*session),
            #[cfg(feature = "http")]
            Self::Request(session, _) | Self::Drop(session, _) => Some(*session),
            #[cfg(feature = "oauth")]
            Self::OAuth(session, _) => Some(*session),
            Self::Event(event) => of(event),
        }
    }
}

/// Whom an event is for.
pub(crate) enum Sorted<E> {
    Finished(CallId, Outcome, Option<Arc<Failure>>),
    Progress(SessionHandle, RequestId, Progress),
    Asked(SessionHandle, ServerRequestId, ServerMethod, Option<Box<RawValue>>),
    AskEnded(SessionHandle, ServerRequestId),
    InputRequired(SessionHandle, RequestId, Vec<InputRequest>),
    Other(E),
}
