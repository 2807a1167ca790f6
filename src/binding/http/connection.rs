//! The binding: the state of its connection (phase, session, GET stream, HTTP+SSE), what it sends, and the inputs of the
//! embedder.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, HeaderValue, StatusCode, Uri};

use super::basic::Basic;
#[cfg(feature = "journal")]
use super::basic::UserSecret;
use super::cookies::Cookies;
use super::exchange::{Carrier, Due, Exchange, ExchangeKind, Exchanges, Past, Paused, Queue, Reply, Timer, Timers};
use super::refusal::{Waiting, error_in};
use super::request::{self, Common, Identity, SESSION_ID};
use super::response::is_modern;
use super::tokens::Tokens;
use super::{Broken, HttpAction, HttpRequest};
use crate::Time;
use crate::binding::address::{Address, UrlError, parse, without_user};
use crate::client::{
    Again, Binding, BindingState, Client, ConnectionId, Engine, ExchangeId, OpenFailure, Operate, Outgoing, Output,
    Report, ShutdownStep, Stage, StartId, Transport, Wire,
};
use crate::machine::http_connection::{get_stream, phase, sse};
use crate::machine::http_response::End;
use crate::machine::{Row, Verdict};
use crate::protocol::{Era, method};
use crate::text::shown_in;

/// Streamable HTTP, in both eras, and HTTP+SSE.
///
/// The embedder executes requests with an HTTP client that follows no redirects, and reports the results by
/// [`handle_head`](crate::Client::<Http>::handle_head), [`handle_body`](crate::Client::<Http>::handle_body),
/// [`handle_end`](crate::Client::<Http>::handle_end) and [`handle_failure`](crate::Client::<Http>::handle_failure).
/// Exchanges run concurrently; a stream may last as long as the client, so no exchange has a time limit but the client's
/// own.
#[derive(Clone, Debug)]
pub struct Http {
    /// Where the server is.
    pub(super) url: Address,
    /// The name and the password of the URL.
    pub(super) basic: Option<Box<Basic>>,
    pub(super) identity: Identity,
    pub(super) server: KnownServer,
    pub(super) connection: Connection,
    pub(super) exchanges: Exchanges,
    pub(super) queue: Queue,
    pub(super) timers: Timers,
    pub(super) tokens: Tokens,
    /// The number of events whose secrets are masked.
    pub(super) masked: u64,
}

/// What is known of the server, whatever becomes of a connection.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct KnownServer {
    pub(super) session: Session,
    /// It had HTTP+SSE when it was last connected.
    has_sse: bool,
    /// A connection ended because the POST of `notifications/initialized` broke twice. The server may have taken it, so the
    /// next connection goes on without a response.
    doubted: bool,
}

/// A connection. A loss replaces it.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Connection {
    /// The engine's id of it.
    id: ConnectionId,
    pub(super) phase: phase::State,
    /// The step of the engine's shutdown that was carried out.
    shutdown: Option<ShutdownStep>,
    /// A request did not reach the server, and no response began since.
    pub(super) unreached: bool,
    /// Nobody is reached, and what is in flight is tried again.
    pub(super) outage: Option<Outage>,
    pub(super) initialized: Initialized,
    /// `notifications/initialized` was sent again, because its first POST broke.
    repeated: bool,
    /// The wait of tool calls for the GET stream.
    stream_wait: Option<Timer>,
    pub(super) sse: Sse,
    pub(super) get_stream: GetStream,
}

impl Connection {
    fn new(id: ConnectionId) -> Self {
        Self {
            id,
            phase: phase::State::Idle,
            shutdown: None,
            unreached: false,
            outage: None,
            initialized: Initialized::Unsent,
            repeated: false,
            stream_wait: None,
            sse: Sse { state: sse::State::Streamable, endpoint: None, is_named: false, refused: None },
            get_stream: GetStream::new(get_stream::State::Idle),
        }
    }

    /// A response began, so that the server is there.
    pub(super) fn note_reached(&mut self, engine: &mut Engine, timers: &mut Timers) {
        self.unreached = false;
        if let Some(outage) = self.outage.take() {
            timers.disarm(Some(outage.settles));
            engine.handle_report(Report::Reached);
        }
    }
}

/// Nobody is reached while requests of the embedder wait for their responses. It ends when a response begins, or the last
/// attempt was not refused for some time: a server that is reached may take long to answer.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Outage {
    /// Attempts that found nobody.
    attempts: u8,
    /// When the next one is made. What is refused before belongs to the last one.
    until: Time,
    /// When it ends, unless an attempt is refused before.
    settles: Timer,
    /// What the system said.
    why: Box<str>,
}

/// How often what is in flight is tried again when nobody is reached. The waits double from [`RETRY`].
const ATTEMPTS: u8 = 3;

/// How long an attempt is not refused before the server counts as reached.
const SETTLED: Duration = Duration::from_secs(5);

/// `notifications/initialized`.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Initialized {
    #[default]
    Unsent,
    /// The last exchange that carries it.
    Sent(ExchangeId),
    /// It waits to be sent again, for this long.
    Waiting(Box<(Outgoing, Duration)>),
}

impl Initialized {
    /// Whether this exchange carries it.
    pub(super) fn is_in(&self, exchange: ExchangeId) -> bool {
        matches!(self, Self::Sent(id) if *id == exchange)
    }
}

impl Http {
    /// The server's address, without its secrets.
    #[cfg(feature = "journal")]
    pub(crate) fn redacted_url(&self) -> alloc::string::String {
        let url = super::serialize::address(&self.url);
        // A replay presents them, too.
        if self.basic.is_some() { url.replacen("://", "://redacted@", 1) } else { url }
    }

    /// The secret in the user information of the URL.
    #[cfg(feature = "journal")]
    pub(crate) fn user_secret(&self) -> Option<UserSecret> {
        self.basic.as_ref()?.secret()
    }

    /// A server at this URL, which was checked.
    pub(crate) fn at(url: Uri) -> Self {
        let (url, user) = without_user(url);
        Self {
            url: Address(url),
            basic: user.filter(|user| !user.is_empty()).and_then(|user| Basic::of(&user)).map(Box::new),
            identity: Identity::default(),
            server: KnownServer::default(),
            connection: Connection::new(ConnectionId::default()),
            exchanges: Exchanges::default(),
            queue: Queue::default(),
            timers: Timers::default(),
            tokens: Tokens::default(),
            masked: 0,
        }
    }

    /// A server at this URL. A name and a password in it are sent as `Authorization: Basic` (RFC 7617), and not in the URL.
    /// They and the query are never shown.
    ///
    /// # Errors
    /// What is wrong with the URL: it has to be absolute, with the scheme `http` or `https`.
    pub fn new(url: &str) -> Result<Self, UrlError> {
        parse(url).map(Self::at)
    }

    /// Whether HTTP+SSE is tried before Streamable HTTP, or after it. A server that refuses the first is asked for the other
    /// within the same attempt.
    #[must_use]
    pub fn trying_sse(mut self, first: bool) -> Self {
        self.server.has_sse = first;
        self
    }

    /// A server that may require OAuth: the client authorizes itself. Its requests present the token, a request that is
    /// refused waits for a token and is sent again, and [`HttpAction::OAuth`](super::HttpAction::OAuth) is what the
    /// embedder has to do, whose results [`handle_oauth`](crate::Client::<Http>::handle_oauth) takes. The authorization
    /// has to be that of the same server.
    ///
    /// A snapshot does not contain it, so a restored client gets a new one.
    #[cfg(feature = "oauth")]
    #[must_use]
    pub fn with_oauth(mut self, authorization: crate::binding::oauth::Authorization) -> Self {
        self.tokens.set(authorization);
        self
    }

    /// From now on the client authorizes itself.
    #[cfg(feature = "oauth")]
    pub(crate) fn set_oauth(&mut self, authorization: crate::binding::oauth::Authorization) {
        self.tokens.set(authorization);
    }

    #[cfg(feature = "oauth")]
    pub(crate) fn oauth(&self) -> Option<&crate::binding::oauth::Authorization> {
        self.tokens.get()
    }

    /// The user's browser is free for the authorization.
    #[cfg(feature = "oauth")]
    pub(crate) fn show_browser(&mut self, now: crate::Time) {
        self.tokens.change(|authorization| authorization.show(now));
    }
}

/// The wait of tool calls for the GET stream.
const STREAM_WAIT: Duration = Duration::from_millis(500);

/// The wait before a stream is resumed, or a refused message sent again, if the server sets none.
pub(super) const RETRY: Duration = Duration::from_secs(1);

/// Resumed streams in a row that bring nothing, after which a call ends.
pub(super) const BARREN: u32 = 5;

/// The minimum of these waits, if the server sets none.
pub(super) const SHORTEST_RETRY: Duration = Duration::from_millis(100);

/// The maximum of these waits.
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// The maximum wait that the `retry` field of a stream may set.
pub(super) const LONGEST_STREAM_RETRY: Duration = Duration::from_secs(24 * 3600);

/// The maximum wait that `Retry-After` may set.
pub(super) const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// How long an exchange may stay open after its request was answered.
pub(super) const LINGER: Duration = Duration::from_secs(1);

/// Maximum bytes of an incomplete event in that time.
pub(super) const LINGER_BYTES: usize = 64 << 10;

/// Maximum redirects per message.
pub(super) const REDIRECTS: u8 = 5;

/// Buffered bytes of a refusal's body.
pub(super) const REFUSAL_BYTES: usize = 64 << 10;

/// Methods that are remembered for a 404.
const METHODS: usize = 16;

/// The session id, and data of the previous session.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Session {
    #[cfg_attr(feature = "snapshot", serde(with = "super::snapshot::optional_header"))]
    id: Option<HeaderValue>,
    /// The handshake in which the server gave the id is done, and the server is a legacy one.
    is_agreed: bool,
    /// The previous session, which the server may still know.
    former: Option<Box<Former>>,
    /// The methods that the server answered with 404 in the previous session, and not otherwise since.
    not_found: VecDeque<Box<str>>,
    /// What the server's load balancers know the session by, from the first response on.
    cookies: Cookies,
}

/// A session that was replaced, for its DELETE: a load balancer finds the node that has it by its cookies.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Former {
    #[cfg_attr(feature = "snapshot", serde(with = "super::snapshot::header"))]
    id: HeaderValue,
    cookies: Cookies,
}

impl Session {
    pub(super) const fn id(&self) -> Option<&HeaderValue> {
        self.id.as_ref()
    }

    pub(super) const fn has_former(&self) -> bool {
        self.former.is_some()
    }

    pub(super) fn take_former(&mut self) -> Option<Box<Former>> {
        self.former.take()
    }

    /// The number of the cookies of each session.
    #[cfg(feature = "snapshot")]
    pub(super) fn cookies(&self) -> [usize; 2] {
        [self.cookies.len(), self.former.as_ref().map_or(0, |former| former.cookies.len())]
    }

    /// The cookies of the session that an exchange belongs to.
    const fn cookies_of<'a>(&'a self, purpose: &'a ExchangeKind) -> &'a Cookies {
        if let ExchangeKind::DeleteFormer(_, former) = purpose { &former.cookies } else { &self.cookies }
    }

    /// Takes the cookies that the response to a request of this URL sets.
    pub(super) fn take_cookies(&mut self, now: Time, headers: &HeaderMap, url: &Uri) {
        self.cookies.take(now, headers, url);
    }

    /// A new connection: the session becomes the previous one.
    pub(super) fn renew(&mut self) {
        self.is_agreed = false;
        let cookies = core::mem::take(&mut self.cookies);
        if let Some(id) = self.id.take() {
            self.former = Some(Box::new(Former { id, cookies }));
        }
    }

    /// Drops the ids and the cookies, which are secrets.
    #[cfg(feature = "snapshot")]
    pub(super) fn forget(&mut self) {
        self.cookies = Cookies::default();
        (self.id, self.former) = (None, None);
    }

    /// `initialize` is sent: a session id from an earlier one on this connection is invalid.
    pub(super) fn reset(&mut self) {
        (self.id, self.is_agreed) = (None, false);
    }

    /// The handshake with a legacy server is done.
    const fn agree(&mut self) {
        self.is_agreed = true;
    }

    /// Whether there is a session to end. A modern server has none, even if it sent a session id before it was
    /// recognized as modern, and there is none before `initialize` was answered.
    const fn is_agreed(&self) -> bool {
        self.is_agreed && self.id.is_some()
    }

    /// The POST of a message with this method is answered with success.
    /// Returns whether the session id is valid, if there is one.
    pub(super) fn on_success(&mut self, method: Option<&str>, headers: &HeaderMap) -> bool {
        match method {
            Some(method::INITIALIZE) => self.open(headers),
            Some(method) => {
                self.remove_not_found(method);
                true
            }
            None => true,
        }
    }

    /// Takes the id from the response to `initialize`. Returns whether it is valid.
    fn open(&mut self, headers: &HeaderMap) -> bool {
        let named = headers.get(SESSION_ID);
        self.id = named.filter(|id| is_visible(id.as_bytes())).cloned();
        if let Some(id) = &mut self.id {
            // Whoever has the id can use the session.
            id.set_sensitive(true);
        }
        named.is_some() == self.id.is_some()
    }

    /// A request of this method was answered with 404, so the session counts as expired.
    pub(super) fn add_not_found(&mut self, method: &str) {
        if self.not_found.len() >= METHODS {
            self.not_found.pop_front();
        }
        self.not_found.push_back(method.into());
    }

    /// A request of this method was answered otherwise.
    fn remove_not_found(&mut self, method: &str) {
        if !self.not_found.is_empty() {
            self.not_found.retain(|known| **known != *method);
        }
    }

    /// Whether a new session was opened since a request of this method was answered with 404.
    pub(super) fn is_not_found(&self, method: &str) -> bool {
        self.not_found.iter().any(|known| **known == *method)
    }
}

pub(super) fn is_visible(id: &[u8]) -> bool {
    !id.is_empty() && id.iter().all(u8::is_ascii_graphic)
}

/// The state of the GET stream, and what the next GET needs.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct GetStream {
    state: get_stream::State,
    #[cfg_attr(feature = "snapshot", serde(with = "crate::form::bytes"))]
    last_id: Vec<u8>,
    /// The wait before the next GET that the server named.
    retry: Option<Duration>,
    /// GETs in a row that brought nothing.
    barren: u32,
}

impl GetStream {
    const fn new(state: get_stream::State) -> Self {
        Self { state, last_id: Vec::new(), retry: None, barren: 0 }
    }

    pub(super) fn step(&mut self, input: get_stream::Input) -> Row<get_stream::State, get_stream::Effect> {
        let row = get_stream::step(self.state, input);
        self.state = row.next;
        row
    }

    /// What follows is another stream.
    pub(super) fn reset(&mut self) {
        *self = Self::new(self.state);
    }

    /// The id of the last event, where it named one.
    pub(super) fn last_id(&self) -> Option<&[u8]> {
        Some(&*self.last_id).filter(|id| !id.is_empty())
    }

    /// A chunk of the stream was read.
    pub(super) fn read(&mut self, any: bool, last_id: Option<&[u8]>, retry: Option<Duration>) {
        self.retry = retry.or(self.retry);
        if let Some(id) = last_id.filter(|id| *id != self.last_id) {
            self.last_id = id.to_vec();
        }
        if any {
            self.barren = 0;
        }
    }

    /// The wait before the next GET.
    pub(super) fn wait(&mut self) -> Duration {
        let wait = wait(self.retry, self.barren);
        self.barren = self.barren.saturating_add(1).min(16);
        wait
    }
}

/// The wait before a stream is requested again, after so many in a row that brought nothing: what the server names. One that
/// names none, or next to none, is asked again after a wait that doubles.
pub(super) fn wait(named: Option<Duration>, barren: u32) -> Duration {
    match named {
        Some(named) if barren == 0 || is_paced(Some(named)) => named.max(SHORTEST_RETRY),
        Some(_) | None => crate::time::backoff(RETRY, barren, LONGEST_RETRY),
    }
}

/// Whether the server names a wait with which its streams may end again and again.
pub(super) fn is_paced(named: Option<Duration>) -> bool {
    named.is_some_and(|named| named > SHORTEST_RETRY)
}

/// An `initialize` that was refused as by an HTTP+SSE server.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Refused {
    pub(super) id: u64,
    pub(super) status: u16,
    pub(super) text: Box<str>,
    #[cfg_attr(feature = "snapshot", serde(with = "crate::form::bytes"))]
    pub(super) body: Vec<u8>,
}

/// The state of the server's transport.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Sse {
    state: sse::State,
    endpoint: Option<Box<Address>>,
    /// The stream named the endpoint. A redirect may lead to another one.
    is_named: bool,
    refused: Option<Box<Refused>>,
}

impl Sse {
    /// Whether responses come by the HTTP+SSE stream, not in the exchange of their request.
    pub(super) fn is_ready(&self) -> bool {
        self.state == sse::State::Ready
    }

    pub(super) const fn state(&self) -> sse::State {
        self.state
    }

    pub(super) fn step(&mut self, input: sse::Input) -> Row<sse::State, sse::Effect> {
        let row = sse::step(self.state, input);
        self.state = row.next;
        if row.next != sse::State::Ready {
            self.endpoint = None;
        }
        row
    }

    /// Where messages are posted, if not to the server's address.
    pub(super) fn endpoint(&self) -> Option<&Address> {
        self.endpoint.as_deref()
    }

    pub(super) fn set_endpoint(&mut self, endpoint: Address, is_named: bool) {
        (self.endpoint, self.is_named) = (Some(Box::new(endpoint)), is_named);
    }

    /// Whether the stream named this endpoint: who did that has what requests to it present.
    fn names(&self, url: &Address) -> bool {
        self.is_named && self.endpoint.as_deref() == Some(url)
    }

    pub(super) fn refuse(&mut self, refused: Option<Refused>) {
        self.refused = refused.map(Box::new);
    }

    fn take_refused(&mut self) -> Option<Box<Refused>> {
        self.refused.take()
    }
}

impl Http {
    pub(super) fn step(&mut self, engine: &mut Engine, input: phase::Input) {
        self.step_because(engine, input, "every exchange is dropped");
    }

    /// Steps the table of the phases; `why` says how the connection ends.
    fn step_because(&mut self, engine: &mut Engine, input: phase::Input, why: &str) {
        let row = phase::step(self.connection.phase, input);
        self.connection.phase = row.next;
        for effect in row.effects {
            match effect {
                phase::Effect::SendInitialized => self.post_initialized(engine),
                phase::Effect::ReportBroken => engine.handle_transport(engine.now(), Transport::Closed { why }),
                // Some servers hang on every request while a stream is open.
                phase::Effect::StartStream if !engine.options().listen => {
                    self.step(engine, phase::Input::StreamDecided);
                }
                phase::Effect::StartStream => {
                    self.connection.stream_wait = Some(self.timers.arm(engine.now() + STREAM_WAIT, Due::StreamLate));
                    self.stream_step(engine, get_stream::Input::Start);
                }
                phase::Effect::StopWait => self.timers.disarm(self.connection.stream_wait.take()),
                phase::Effect::Delete => {
                    for timer in self.queue.clear(|_| false) {
                        self.timers.disarm(Some(timer));
                    }
                    if let Some(session) = self.server.session.id().cloned() {
                        self.run(engine, ExchangeKind::Delete(session));
                    }
                }
                phase::Effect::ReportClosed => {
                    self.drop_exchanges(engine, |_, _| false);
                    for timer in self.queue.clear(|_| false) {
                        self.timers.disarm(Some(timer));
                    }
                    engine.handle_transport(engine.now(), Transport::Closed { why });
                }
            }
        }
    }

    /// Steps the table of the transport. `why` is the text that is reported.
    pub(super) fn sse_step(&mut self, engine: &mut Engine, input: sse::Input, why: &str) {
        let now = engine.now();
        for effect in self.connection.sse.step(input).effects {
            match effect {
                sse::Effect::Remember => self.server.has_sse = true,
                sse::Effect::Forget => self.server.has_sse = false,
                sse::Effect::ReportOpened => engine.handle_transport(now, Transport::Opened),
                sse::Effect::Get => self.run(engine, ExchangeKind::Sse),
                sse::Effect::Drop => self.drop_first(engine, |purpose| matches!(purpose, ExchangeKind::Sse)),
                sse::Effect::SendAgain => {
                    if let Some(refused) = self.connection.sse.take_refused() {
                        self.post_again(engine, refused.id, Again::Refused, Past::default());
                    }
                }
                sse::Effect::Refuse => {
                    if let Some(refused) = self.connection.sse.take_refused() {
                        self.refuse_initialize(engine, &refused);
                    }
                }
                sse::Effect::ReportViolation => {
                    engine.handle_transport(now, Transport::ProtocolViolation { why });
                }
                sse::Effect::ReportUnreached => {
                    engine.handle_transport(now, Transport::OpenFailed { how: OpenFailure::Connect, why });
                }
                sse::Effect::ReportClosed => engine.handle_transport(now, Transport::Closed { why }),
            }
        }
    }

    /// The refusal of `initialize` is its response.
    fn refuse_initialize(&self, engine: &mut Engine, refused: &Refused) {
        let (id, status, why) = (refused.id, refused.status, &*refused.text);
        let error = error_in(&refused.body).filter(|(_, deviations)| !deviations.error_shape);
        match error {
            Some((error, _)) => {
                engine.handle_report(Report::Error { id, error, unprocessed: true, headers: false });
            }
            None => engine.handle_report(Report::Refused { id, status, why }),
        }
    }

    pub(super) fn stream_step(&mut self, engine: &mut Engine, input: get_stream::Input) {
        let row = self.connection.get_stream.step(input);
        if let Verdict::Quirk(kind) = row.verdict {
            let detail = "the GET of a stream was refused with another status than 405, or answered with no stream";
            engine.transport_quirk(kind, None, detail);
        }
        for effect in row.effects {
            match effect {
                get_stream::Effect::Get => self.run(engine, ExchangeKind::Stream),
                get_stream::Effect::Drop => self.drop_first(engine, |purpose| matches!(purpose, ExchangeKind::Stream)),
                get_stream::Effect::Arm => {
                    self.timers.arm(engine.now() + self.connection.get_stream.wait(), Due::GetStream);
                }
                get_stream::Effect::Reset => self.connection.get_stream.reset(),
                get_stream::Effect::CountRefusal => {
                    self.tokens.update(|waiting| waiting.stream = waiting.stream.saturating_add(1));
                }
                get_stream::Effect::ClearRefusals => self.tokens.update(|waiting| waiting.stream = 0),
                get_stream::Effect::Expire => engine.handle_report(Report::Expired { id: None }),
            }
        }
    }

    /// The GET stream is open or refused: calls that waited for it go on.
    pub(super) fn stream_decided(&mut self, engine: &mut Engine, input: get_stream::Input) {
        self.step(engine, phase::Input::StreamDecided);
        self.stream_step(engine, input);
    }

    /// `notifications/initialized` was accepted, or counts as such.
    pub(super) fn accept_initialized(&mut self, engine: &mut Engine) {
        (self.connection.repeated, self.server.doubted) = (false, false);
        self.go_live(engine);
    }

    fn go_live(&mut self, engine: &mut Engine) {
        // What was held has its full time from here on.
        engine.renew_unsent(engine.now());
        let is_sse = self.connection.sse.is_ready();
        self.step(engine, if is_sse { phase::Input::AcceptedSse } else { phase::Input::Accepted });
    }

    /// The POST of `notifications/initialized` broke before a response.
    pub(super) fn initialized_broke(&mut self, engine: &mut Engine, why: &str) {
        match (core::mem::replace(&mut self.connection.repeated, true), self.server.doubted) {
            (false, _) => self.step(engine, phase::Input::InitializedBroke),
            (true, false) => {
                self.server.doubted = true;
                self.step_because(engine, phase::Input::InitializedBrokeAgain, why);
            }
            (true, true) => self.go_live(engine),
        }
    }

    /// The connection ended.
    pub(super) fn lose(&mut self, engine: &mut Engine) {
        self.connection = Connection::new(self.connection.id);
        self.tokens.update(Waiting::forget);
        // While the client closes, outstanding responses and cancellations are still delivered.
        let closing = engine.stage() == Stage::Closing;
        self.timers.clear();
        self.queue.clear(|message| closing && is_final(message)).for_each(drop);
        self.queue.rearm(|due| self.timers.arm(due, Due::GiveUp));
        self.exchanges.forget_paused();
        self.drop_exchanges(engine, Self::is_owed);
    }

    fn drop_exchanges(&mut self, engine: &mut Engine, keep: impl Fn(&Engine, &ExchangeKind) -> bool) {
        let starts = self.exchanges.starts().filter(|(_, it)| !keep(engine, &it.purpose));
        let withdrawn: Vec<_> = starts.map(|(number, _)| number).collect();
        for number in &withdrawn {
            self.withdraw(*number);
        }
        if !withdrawn.is_empty() {
            engine.withdraw_starts(|number| self.exchanges.start(number).is_none());
        }
        let dropped = self.exchanges.iter().filter(|(_, it)| !keep(engine, &it.purpose));
        for id in dropped.map(|(id, _)| id).collect::<Vec<_>>() {
            self.drop_exchange(engine, id);
        }
    }

    /// Nobody was reached. `again`: by what was tried again; `least`: the wait that the server named. Returns when the next
    /// attempt is made, unless this was the last.
    pub(super) fn count_unreached(
        &mut self,
        engine: &mut Engine,
        again: bool,
        least: Duration,
        why: &str,
    ) -> Option<Time> {
        let now = engine.now();
        let before = self.connection.outage.take();
        let tried = before.as_ref().map_or(u8::from(again), |outage| outage.attempts.saturating_add(1));
        let outage = match before {
            // It belongs to the last attempt.
            Some(outage) if now < outage.until => outage,
            before => {
                self.timers.disarm(before.map(|outage| outage.settles));
                let wait = crate::time::backoff(RETRY, tried.into(), LONGEST_RETRY).max(least.min(LONGEST_RETRY));
                let settles = self.timers.arm(now + wait + SETTLED, Due::Settled);
                Outage { attempts: tried, until: now + wait, settles, why: why.into() }
            }
        };
        let (until, is_last) = (outage.until, outage.attempts >= ATTEMPTS);
        self.connection.outage = Some(outage);
        if is_last {
            return None;
        }
        engine.handle_report(Report::Unreached { why, until });
        Some(until)
    }

    /// Nobody was reached by the last attempt: the connection is lost. Requests that never reached the server did not run.
    pub(super) fn end_unreached(&mut self, engine: &mut Engine, why: &str) {
        for id in self.exchanges.take_unreached() {
            engine.handle_report(Report::Lost { id, sent: false, why });
        }
        engine.handle_transport(engine.now(), Transport::OpenFailed { how: OpenFailure::Connect, why });
    }

    /// What was tried again while nobody is reached ended: there is no other attempt.
    fn end_if_nothing_is_tried(&mut self, engine: &mut Engine) -> bool {
        let ended = self.connection.outage.take_if(|_| !self.exchanges.has_attempt());
        let Some(outage) = ended else { return false };
        self.timers.disarm(Some(outage.settles));
        self.end_unreached(engine, &outage.why);
        true
    }

    fn drop_first(&mut self, engine: &mut Engine, is_it: impl Fn(&ExchangeKind) -> bool) {
        if let Some(id) = self.exchanges.find(is_it) {
            self.drop_exchange(engine, id);
        }
    }
}

/// Whether a message is sent even when the client closes: it answers a request of the server, or cancels a request or a task.
pub(super) fn is_final(message: &Outgoing) -> bool {
    message.is_cancellation() || message.id().is_none() && message.method().is_none()
}

impl Http {
    /// Whether the exchanges belong to the engine's current connection.
    pub(super) fn is_current(&self, engine: &Engine) -> bool {
        engine.stage().has_transport() && engine.connection() == self.connection.id
    }

    /// Whether an exchange continues while the client closes: the DELETE, and outstanding responses.
    pub(super) fn is_owed(engine: &Engine, purpose: &ExchangeKind) -> bool {
        match purpose {
            ExchangeKind::Delete(_) => engine.stage() == Stage::Closing,
            ExchangeKind::Message(message) => is_final(message) && engine.stage() == Stage::Closing,
            ExchangeKind::DeleteFormer(..) | ExchangeKind::Stream | ExchangeKind::Resume(..) | ExchangeKind::Sse => {
                false
            }
        }
    }

    /// Whether nothing waits for what an exchange sends: a notification or a response.
    fn is_dispensable(engine: &Engine, purpose: &ExchangeKind) -> bool {
        let message = purpose.one_way();
        message.is_some_and(|it| it.method() != Some(method::INITIALIZED)) && !Self::is_owed(engine, purpose)
    }

    /// Posts a message again, or one that waited.
    pub(super) fn post(&mut self, engine: &mut Engine, message: Outgoing, past: Past) {
        let number = self.enter(message, past);
        engine.queue(Output::Start(number));
    }

    /// A message enters an exchange.
    fn enter(&mut self, message: Outgoing, past: Past) -> StartId {
        let url = self.connection.sse.endpoint().unwrap_or(&self.url).clone();
        if message.id().is_none() {
            self.queue.enter(&message);
        }
        if message.method() == Some(method::INITIALIZED) {
            self.connection.initialized = Initialized::Unsent;
        }
        self.exchanges.add(Exchange::new(ExchangeKind::Message(message), url, past))
    }

    /// Posts a message that waited for an exchange: its timeout then ends its exchange.
    fn post_waiting(&mut self, engine: &mut Engine, timer: Timer, message: Outgoing) {
        let number = self.enter(message, Past { timer: Some(timer), ..Past::default() });
        engine.queue_starts_first([number]);
        self.timers.set(timer, Due::Withdraw(number));
    }

    /// Posts `notifications/initialized` again.
    pub(super) fn post_initialized(&mut self, engine: &mut Engine) {
        if let Initialized::Waiting(again) = core::mem::take(&mut self.connection.initialized) {
            let (message, waited) = *again;
            self.post(engine, message, Past { waited, ..Past::default() });
        }
    }

    /// Posts a request again, unless it has ended.
    pub(super) fn post_again(&mut self, engine: &mut Engine, request: u64, again: Again, past: Past) {
        self.exchanges.forget(request);
        if let Some(message) = engine.encode_again(request, again) {
            self.post(engine, message, past);
        }
    }

    /// Requests a stream, or ends a session.
    pub(super) fn run(&mut self, engine: &mut Engine, purpose: ExchangeKind) {
        self.run_after(engine, purpose, Past::default());
    }

    /// Requests a stream again.
    pub(super) fn run_after(&mut self, engine: &mut Engine, purpose: ExchangeKind, past: Past) {
        let number = self.exchanges.add(Exchange::new(purpose, self.url.clone(), past));
        engine.queue(Output::Start(number));
    }

    /// The request of an exchange is polled, and counts as sent. If it has no response, a timer drops the exchange. `None`
    /// if it waits for the record of the store or for its proof, or was withdrawn.
    fn begin(&mut self, engine: &mut Engine, number: StartId) -> Option<HttpRequest> {
        let it = self.exchanges.start(number)?;
        let method = match &it.purpose {
            ExchangeKind::Message(_) => "POST",
            ExchangeKind::Stream | ExchangeKind::Resume(..) | ExchangeKind::Sse => "GET",
            ExchangeKind::DeleteFormer(..) | ExchangeKind::Delete(_) => "DELETE",
        };
        let is_named = self.connection.sse.names(&it.url);
        if !self.tokens.prepare(engine.now(), number, (method, &it.url), is_named) {
            return None;
        }
        let (exchange, it) = self.exchanges.begin(number)?;
        let is = |message: &Outgoing, name| message.method() == Some(name);
        let opening = matches!(&it.purpose, ExchangeKind::Message(message) if is(message, method::INITIALIZE));
        if opening {
            // Requests polled before it belong to the previous session.
            self.server.session.reset();
        }
        let session = self.server.session.id();
        let version = || engine.server().map(|server| server.version);
        let identity = &self.identity;
        let agreed = || Common { identity, session, version: version().filter(|_| engine.stage().is_established()) };
        let url = &it.url;
        let delete = |session| request::delete(url, Common { identity, session: Some(session), version: version() });
        let (of, mut request) = match &mut it.purpose {
            ExchangeKind::Message(message) => {
                let session = session.filter(|_| !message.is_modern() && !opening);
                let common = Common { identity, session, version: message.version().filter(|_| !opening) };
                let about = message.id().map(|id| engine.request_info(id)).unwrap_or_default();
                let request = request::post(&it.url, message, common, about, engine.catalog());
                if message.id().is_none() {
                    let release = Due::Release(exchange);
                    match it.release {
                        Some(timer) => self.timers.set(timer, release),
                        None => {
                            let due = engine.now() + engine.options().timeouts.request;
                            it.release = Some(self.timers.arm(due, release));
                        }
                    }
                }
                if is(message, method::INITIALIZED) {
                    self.connection.initialized = Initialized::Sent(exchange);
                }
                (message.of(), request)
            }
            ExchangeKind::Resume(id, broken) => {
                (engine.request_info(*id).of, request::get(&it.url, agreed(), Some(&broken.last_id)))
            }
            ExchangeKind::Stream => (None, request::get(&it.url, agreed(), self.connection.get_stream.last_id())),
            ExchangeKind::Sse => (None, request::get(&it.url, agreed(), None)),
            ExchangeKind::DeleteFormer(_, former) => (None, delete(&former.id)),
            ExchangeKind::Delete(session) => (None, delete(session)),
        };
        let headers = request.headers_mut();
        if let Some(basic) = &self.basic {
            headers.insert(AUTHORIZATION, basic.value().clone());
        }
        if let Some(cookies) = self.server.session.cookies_of(&it.purpose).header(engine.now(), &it.url) {
            headers.insert(COOKIE, cookies);
        }
        self.tokens.present(number, headers, &mut it.sent);
        engine.handed_over(it.purpose.message());
        Some(HttpRequest { exchange, of, request })
    }

    /// Removes an exchange that does not begin.
    fn withdraw(&mut self, number: StartId) -> Option<Box<Exchange>> {
        let it = self.exchanges.withdraw(number)?;
        self.tokens.forget(number);
        self.on_removed(&it);
        Some(it)
    }

    /// Removes an exchange that has ended.
    fn take(&mut self, id: ExchangeId) -> Option<Box<Exchange>> {
        let it = self.exchanges.remove(id)?;
        self.on_removed(&it);
        Some(it)
    }

    /// Removes an exchange that has ended, on this connection.
    pub(super) fn take_ended(&mut self, id: ExchangeId) -> Option<(Box<Exchange>, ConnectionId)> {
        self.take(id).map(|it| (it, self.connection.id))
    }

    fn on_removed(&mut self, it: &Exchange) {
        self.timers.disarm(it.release);
        if let Some(message) = it.purpose.one_way() {
            self.queue.leave(message);
        }
    }

    /// Ends an exchange that is not needed.
    pub(super) fn drop_exchange(&mut self, engine: &mut Engine, id: ExchangeId) -> Option<Box<Exchange>> {
        let it = self.take(id)?;
        engine.queue(Output::Drop(id));
        Some(it)
    }

    /// An exchange is complete. It has a short time to end by itself, in which a stream may deliver other messages.
    pub(super) fn linger(&mut self, engine: &Engine, id: ExchangeId) {
        self.exchanges.update(id, |it| {
            let keeps_reading = matches!(it.reply, Reply::Events(_)) && it.reply.buffered() <= LINGER_BYTES;
            if !keeps_reading {
                it.reply = Reply::Ignored;
            }
            it.release.get_or_insert_with(|| self.timers.arm(engine.now() + LINGER, Due::Release(id)));
        });
    }

    /// Ends what carries a request, unless that is an exchange in flight, which is returned.
    fn end_carrier(&mut self, request: u64) -> Option<ExchangeId> {
        match self.exchanges.carrier(request)? {
            Carrier::Exchange(exchange) => return Some(*exchange),
            Carrier::Start(number) => {
                let number = *number;
                self.withdraw(number);
            }
            Carrier::Timer(timer, _) => {
                self.timers.disarm(Some(*timer));
                self.exchanges.forget(request);
            }
        }
        None
    }

    /// A request waits without an exchange.
    pub(super) fn pause(&mut self, engine: &Engine, request: u64, wait: Duration, paused: Paused) {
        let timer = self.timers.arm(engine.now() + wait, Due::Continue(request));
        self.exchanges.pause(request, timer, paused);
    }
}

impl Http {
    /// Exchanges that waited for the token or a proof begin when they are polled again; those whose proofs were not signed
    /// are over.
    pub(super) fn send_ready(&mut self, engine: &mut Engine) {
        while let Some((number, is_ready)) = self.tokens.next_ready() {
            let why = "the proof of possession was not signed";
            let over = if is_ready { None } else { self.withdraw(number) };
            match over.map(|it| (it.purpose.request(), it)) {
                None => engine.queue(Output::Start(number)),
                Some((Some(id), it)) if it.purpose.message().is_none() => {
                    engine.handle_report(Report::Lost { id, sent: true, why });
                }
                Some((Some(id), _)) => engine.handle_report(Report::Unproved { id, why }),
                Some((None, it)) if Self::is_dispensable(engine, &it.purpose) => engine.handle_report(Report::Unsent),
                Some((None, it)) => self.end(engine, it, End::Unreached, Some(why)),
            }
        }
    }
}

impl Http {
    /// Follows the engine: what ended is dropped, a new connection begins, the shutdown goes on, and what waited is sent.
    pub(super) fn follow(&mut self, engine: &mut Engine) {
        loop {
            if !self.is_current(engine) && self.follow_connection(engine) {
                continue;
            }
            while let Some(request) = engine.next_ended() {
                self.on_request_end(engine, request);
            }
            if self.is_current(engine) && self.end_if_nothing_is_tried(engine) {
                continue;
            }
            if self.connection.phase == phase::State::Opening && engine.stage().is_established() {
                self.establish(engine);
            }
            if !self.send_next(engine) {
                break;
            }
        }
        self.publish(engine);
    }

    /// Follows the engine to another connection, or through the shutdown. Returns whether there may be more to do.
    fn follow_connection(&mut self, engine: &mut Engine) -> bool {
        if self.connection.phase.is_connected() {
            self.lose(engine);
        }
        if engine.stage().has_transport() {
            self.open(engine);
            true
        } else if engine.shutdown() != self.connection.shutdown {
            self.shut_down(engine);
            true
        } else {
            self.end_if_owing_nothing(engine)
        }
    }

    /// The handshake is done: in the legacy era, `notifications/initialized` is the first message that follows.
    fn establish(&mut self, engine: &mut Engine) {
        if engine.server().is_some_and(|server| server.era() == Era::Modern) {
            self.step(engine, phase::Input::Established);
        } else {
            self.server.session.agree();
            self.step(engine, phase::Input::InitializedSent);
        }
    }

    /// Tells the engine what it needs to know of the connection.
    fn publish(&self, engine: &mut Engine) {
        engine.set_binding(BindingState {
            opens_stream: self.server.has_sse,
            holds_tools: self.connection.phase.holds_calls(),
            is_full: self.queue.is_full(&engine.options().limits),
            undelivered: self.queue.undelivered(),
        });
    }

    /// A request ended, and its exchange is not needed; the server has a short time to end it.
    fn on_request_end(&mut self, engine: &Engine, request: u64) {
        self.queue.retract(request);
        self.tokens.update(|waiting| waiting.requests.retain(|(id, _)| *id != request));
        if let Some(exchange) = self.end_carrier(request) {
            self.linger(engine, exchange);
        }
    }

    fn open(&mut self, engine: &mut Engine) {
        self.connection = Connection::new(engine.connection());
        self.server.session.renew();
        self.step(engine, phase::Input::Connect);
        if self.server.has_sse {
            self.sse_step(engine, sse::Input::ConnectSse, "");
        }
    }

    /// A message enters an exchange, unless it has to wait.
    fn send(&mut self, engine: &Engine, message: Outgoing) -> Option<StartId> {
        let is_accepting = self.connection.phase == phase::State::Accepting;
        match (message.id(), message.method()) {
            (None, Some(method::INITIALIZED)) => Some(self.enter(message, Past::default())),
            // The server first has to accept `notifications/initialized`.
            (_, Some(_)) if is_accepting => {
                self.queue.hold(message);
                None
            }
            (None, _) if self.queue.is_waiting() || !self.has_exchange(engine) => {
                let timer = self.timers.arm(engine.now() + engine.options().timeouts.request, Due::GiveUp);
                self.queue.wait(timer, message);
                None
            }
            _ => Some(self.enter(message, Past::default())),
        }
    }

    /// Whether another exchange may carry a message without a response.
    fn has_exchange(&self, engine: &Engine) -> bool {
        self.queue.in_exchange() < engine.options().limits.in_flight.max(1)
    }

    /// Sends the next message that waited and may be sent.
    fn send_next(&mut self, engine: &mut Engine) -> bool {
        // If its time is over, its timer gives it up.
        if self.has_exchange(engine)
            && let Some((timer, message)) = self.queue.next_waiting(|(due, _)| due > engine.now())
        {
            self.post_waiting(engine, timer, message);
            return true;
        }
        if self.connection.phase == phase::State::Accepting {
            return false;
        }
        let Some(held) = self.queue.take_held() else { return false };
        let starts: Vec<_> = held.into_iter().filter_map(|message| self.send(engine, message)).collect();
        engine.queue_starts_first(starts);
        true
    }

    /// Shuts the connection down: first the outstanding responses, then the DELETE, each for as long as a step may
    /// take.
    fn shut_down(&mut self, engine: &mut Engine) {
        self.connection.shutdown = engine.shutdown();
        let Some(step) = self.connection.shutdown else { return };
        let input = match step {
            _ if engine.stage() != Stage::Closing => phase::Input::Retire,
            ShutdownStep::CloseInput => self.close_input(engine),
            ShutdownStep::Terminate if self.server.session.is_agreed() => phase::Input::OverdueSession,
            ShutdownStep::Terminate | ShutdownStep::Kill => phase::Input::Overdue,
        };
        self.step(engine, input);
    }

    fn close_input(&self, engine: &Engine) -> phase::Input {
        if self.has_outstanding_responses(engine) {
            phase::Input::CloseOwing
        } else if self.server.session.is_agreed() {
            phase::Input::CloseSession
        } else {
            phase::Input::CloseNothing
        }
    }

    fn has_outstanding_responses(&self, engine: &Engine) -> bool {
        // Of what was not polled, the engine keeps only responses when it closes.
        self.queue.is_waiting()
            || self.exchanges.starts().any(|(_, it)| Self::is_owed(engine, &it.purpose))
            || self.exchanges.iter().any(|(_, it)| Self::is_owed(engine, &it.purpose))
            || engine.pending().any(|output| matches!(output, Output::Send(_)))
    }

    /// While the client closes: after the last outstanding response, the rest follows.
    fn end_if_owing_nothing(&mut self, engine: &mut Engine) -> bool {
        if self.connection.phase != phase::State::Ending || self.has_outstanding_responses(engine) {
            return false;
        }
        let input = self.close_input(engine);
        self.step(engine, input);
        true
    }
}

impl Binding for Http {}

impl Operate for Http {
    type Action = HttpAction;
    const WIRE: Wire = Wire::Http;

    fn attach(&mut self, engine: &mut Engine) {
        engine.locate(&self.url.shown());
        self.identity = Identity::of(engine.options());
        self.publish(engine);
    }

    fn follow_up(&mut self, engine: &mut Engine) {
        self.send_ready(engine);
        self.follow(engine);
        if engine.stage() == Stage::Closed {
            self.tokens.close();
        }
        self.tokens.set_modern(is_modern(engine));
        // A result may cause another one: each is about other tokens.
        while self.send_authorized(engine) || self.on_verdict(engine) {
            self.follow(engine);
        }
        self.mask(engine);
    }

    fn handle_timeout(&mut self, engine: &mut Engine, now: Time) {
        // Lists wait for the response to `notifications/initialized`, up to the end of discovery.
        if self.connection.phase == phase::State::Accepting && !engine.is_ready() {
            engine.renew_unsent(now);
        }
        self.tokens.handle_timeout(now);
        engine.handle_timeout(now);
        self.follow_up(engine);
        let (now, last) = (engine.now(), self.timers.last());
        while let Some((timer, due)) = self.timers.take(now, last) {
            self.on_timer(engine, timer, due);
            self.follow_up(engine);
        }
    }

    fn poll(&mut self, engine: &mut Engine) -> Option<HttpAction> {
        // The end of an attempt precedes `Closed`.
        if engine.stage() == Stage::Closed
            && let Some(action) = self.next_authorization()
        {
            return Some(action);
        }
        loop {
            let Some(output) = engine.next_output() else { return self.next_authorization() };
            let start = match output {
                Output::Event(event) => return Some(HttpAction::Event(event)),
                Output::Drop(exchange) => return Some(HttpAction::Drop(exchange)),
                Output::Abort(request) => match self.end_carrier(request) {
                    Some(exchange) => {
                        self.take(exchange);
                        return Some(HttpAction::Drop(exchange));
                    }
                    None => None,
                },
                Output::Start(number) => Some(number),
                Output::Send(message) => {
                    let is_one_way = message.id().is_none();
                    let start = self.send(engine, message);
                    if is_one_way {
                        self.publish(engine);
                    }
                    start
                }
                // Only pipes are opened and shut down.
                Output::Open(_) | Output::Shutdown(_) => None,
            };
            if let Some(number) = start
                && let Some(request) = self.begin(engine, number)
            {
                return Some(HttpAction::Request(request));
            }
        }
    }

    fn next_timer(&self, engine: &Engine) -> Option<Time> {
        Time::earliest([engine.next_timer(), self.timers.next(), self.tokens.deadline()])
    }

    fn has_action(&self) -> bool {
        self.tokens.has_actions()
    }

    fn is_authorizing(&self) -> bool {
        self.tokens.is_busy()
    }
}

impl Client<Http> {
    /// Takes an input for the authorization of [`Http::with_oauth`]. Returns whether it belongs to what is in progress, as
    /// far as that can be said at once: `false` for a redirect of another attempt, and without an authorization.
    #[cfg(feature = "oauth")]
    pub fn handle_oauth(&mut self, now: Time, input: crate::binding::oauth::OAuthInput<'_>) -> bool {
        self.begin_input(now);
        let is_ours = self.binding.tokens.handle(self.engine.now(), input);
        self.binding.follow_up(&mut self.engine);
        is_ours
    }

    /// Takes the head of a response.
    pub fn handle_head(&mut self, now: Time, exchange: ExchangeId, status: StatusCode, headers: &HeaderMap) {
        self.begin_input(now);
        self.binding.head(&mut self.engine, exchange, status, headers);
        self.binding.follow_up(&mut self.engine);
    }

    /// Takes a chunk of any size of a response's body.
    pub fn handle_body(&mut self, now: Time, exchange: ExchangeId, chunk: &[u8]) {
        self.begin_input(now);
        self.binding.body(&mut self.engine, exchange, chunk);
        self.binding.follow_up(&mut self.engine);
    }

    /// Takes the end of a response.
    pub fn handle_end(&mut self, now: Time, exchange: ExchangeId) {
        self.end(now, exchange, None, "");
    }

    /// Takes the failure of an exchange, at any time before its end. An exchange whose head arrived has reached the
    /// server, whatever the failure.
    pub fn handle_failure(&mut self, now: Time, exchange: ExchangeId, broken: Broken, why: &str) {
        self.end(now, exchange, Some(broken), &shown_in(why));
    }

    /// An exchange ended: it is not dropped, whatever is due.
    fn end(&mut self, now: Time, exchange: ExchangeId, failure: Option<Broken>, why: &str) {
        let ended = self.binding.take_ended(exchange);
        self.begin_input(now);
        if let Some(ended) = ended {
            self.binding.on_end(&mut self.engine, ended, failure, why);
        }
    }
}

impl Http {
    /// An exchange ended that was removed, on this connection.
    pub(super) fn on_end(
        &mut self,
        engine: &mut Engine,
        (it, connection): (Box<Exchange>, ConnectionId),
        failure: Option<Broken>,
        why: &str,
    ) {
        let current = self.is_current(engine) && self.connection.id == connection;
        if current || Self::is_owed(engine, &it.purpose) {
            self.ended(engine, it, failure, why);
        }
        self.follow_up(engine);
    }

    fn on_timer(&mut self, engine: &mut Engine, timer: Timer, due: Due) {
        match due {
            Due::SendInitialized => self.post_initialized(engine),
            Due::Continue(request) => match self.exchanges.resume(request) {
                Some(Paused::Resume(broken)) if engine.is_sent(request) => {
                    self.run(engine, ExchangeKind::Resume(request, broken));
                }
                Some(Paused::Resend(waited)) => {
                    self.post_again(engine, request, Again::Refused, Past { waited, ..Past::default() });
                }
                Some(Paused::Unreached) => self.post_again(engine, request, Again::Unreached, Past::default()),
                Some(Paused::Resume(_)) | None => {}
            },
            Due::GetStream => self.stream_step(engine, get_stream::Input::Timer),
            Due::StreamLate => self.step(engine, phase::Input::StreamDecided),
            Due::Settled => self.connection.note_reached(engine, &mut self.timers),
            Due::Release(id) => {
                if self.connection.initialized.is_in(id) {
                    self.accept_initialized(engine);
                }
                self.drop_exchange(engine, id);
            }
            Due::Withdraw(number) => {
                self.withdraw(number);
                engine.handle_report(Report::Unsent);
            }
            Due::GiveUp => {
                if let Some((_, message)) = self.queue.next_waiting(|own| own == timer) {
                    engine.handle_report(Report::Undelivered { method: message.method() });
                }
            }
        }
    }
}
