//! The binding: the state of its connection (phase, session, GET stream, HTTP+SSE), what it sends, and the inputs of the
//! embedder.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode, Uri};

use super::action::{Broken, ExchangeId, HttpAction, HttpRequest};
use super::exchange::{Carrier, Due, Exchange, ExchangeKind, Exchanges, Paused, Queue, Reply, Timer, Timers};
use super::request::{self, Common, SESSION_ID};
use super::tokens::{Sent, Tokens};
use crate::Time;
use crate::binding::address::{Address, UrlError, parse};
use crate::client::{
    Binding, Client, ConnectionId, Engine, OpenFailure, Operate, Outgoing, Output, Report, ShutdownStep, Stage,
    Transport, Wire,
};
use crate::machine::http_connection::send::{self, Decision, Message, Room};
use crate::machine::http_connection::{get_stream, phase, sse};
use crate::machine::http_response::End;
use crate::machine::{QuirkKind, Row, Verdict};
use crate::protocol::{Era, method};
use crate::text::shown_in;

/// Declares the parts of [`Http`], their initial values, and their saved state.
macro_rules! parts {
    ($($(#[$doc:meta])* $part:ident: $type:ty = $first:expr),* $(,)?) => {
        /// Streamable HTTP, in both eras, and HTTP+SSE.
        ///
        /// The embedder executes requests with an HTTP client that follows no redirects, and reports the results by
        /// [`handle_head`](crate::Client::<Http>::handle_head), [`handle_body`](crate::Client::<Http>::handle_body),
        /// [`handle_end`](crate::Client::<Http>::handle_end) and
        /// [`handle_failure`](crate::Client::<Http>::handle_failure). Exchanges run concurrently; a stream may last as
        /// long as the client, so no exchange has a time limit but the client's own.
        #[derive(Clone, Debug)]
        pub struct Http {
            /// Where the server is.
            pub(super) url: Address,
            $($(#[$doc])* pub(super) $part: $type,)*
            pub(super) tokens: Tokens,
        }

        impl Http {
            /// A server at this URL, which was checked.
            pub(crate) fn at(url: Uri) -> Self {
                Self { url: Address(url), $($part: $first,)* tokens: Tokens::default() }
            }
        }

        /// The saved state of the binding. Without secrets it has no URL: that of the new binding is used.
        #[cfg(feature = "snapshot")]
        #[derive(Debug, serde::Serialize, serde::Deserialize)]
        pub struct State {
            pub(super) url: Option<Address>,
            $(pub(super) $part: $type,)*
        }

        #[cfg(feature = "snapshot")]
        impl Http {
            /// The saved state, with this URL.
            pub(super) fn into_state(self, url: Option<Address>) -> State {
                State { url, $($part: self.$part,)* }
            }

            /// The binding with its saved state; a URL that was not saved is that of the binding.
            pub(super) fn with_state(self, state: State) -> Self {
                Self { url: state.url.unwrap_or(self.url), $($part: state.$part,)* tokens: self.tokens }
            }
        }
    };
}

parts! {
    /// The connection that the exchanges belong to.
    connection: ConnectionId = ConnectionId::default(),
    phase: phase::State = phase::State::Idle,
    /// A request did not reach the server, and no response began since.
    unreached: bool = false,
    /// `notifications/initialized` was sent again on this connection, because its first POST broke.
    repeated: bool = false,
    /// A connection ended because the POST of `notifications/initialized` broke twice. The server may have taken it, so the
    /// next connection goes on without a response.
    doubted: bool = false,
    /// The exchange of `notifications/initialized`.
    initialized: Option<ExchangeId> = None,
    /// `notifications/initialized`, while it waits to be sent again, and for how long.
    initialized_again: Option<Box<(Outgoing, Duration)>> = None,
    /// The wait of tool calls for the GET stream.
    stream_wait: Option<Timer> = None,
    session: Session = Session::default(),
    sse: Sse = Sse::default(),
    get_stream: GetStream = GetStream::default(),
    exchanges: Exchanges = Exchanges::default(),
    queue: Queue = Queue::default(),
    timers: Timers = Timers::default(),
}

impl Http {
    /// The server's address, without its secrets.
    #[cfg(feature = "journal")]
    pub(crate) fn redacted_url(&self) -> alloc::string::String {
        super::serialize::address(&self.url)
    }

    /// A server at this URL. User information and the query are kept, and never shown.
    ///
    /// # Errors
    /// What is wrong with the URL: it has to be absolute, with the scheme `http` or `https`.
    pub fn new(url: &str) -> Result<Self, UrlError> {
        parse(url).map(Self::at)
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
        if let Some(authorization) = self.tokens.get_mut() {
            authorization.show(now);
        }
    }

    /// Whether credentials are being obtained, refreshed or stored.
    pub(crate) fn is_authorizing(&self) -> bool {
        self.tokens.is_busy()
    }
}

/// The wait of tool calls for the GET stream.
const STREAM_WAIT: Duration = Duration::from_millis(500);

/// The wait before a stream is resumed, or a refused message sent again, if the server sets none.
pub(super) const RETRY: Duration = Duration::from_secs(1);

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

/// Bytes of an invalid body that are quoted.
pub(super) const EXCERPT: usize = 200;

/// Methods that are remembered for a 404.
const METHODS: usize = 16;

/// The session id, and data of the previous session.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Session {
    #[cfg_attr(feature = "snapshot", serde(with = "super::snapshot::optional_header"))]
    id: Option<HeaderValue>,
    /// The previous session, which the server may still know.
    #[cfg_attr(feature = "snapshot", serde(with = "super::snapshot::optional_header"))]
    former: Option<HeaderValue>,
    /// The methods that the server answered with 404 in the previous session, and not otherwise since.
    not_found: VecDeque<Box<str>>,
}

impl Session {
    pub(super) const fn id(&self) -> Option<&HeaderValue> {
        self.id.as_ref()
    }

    pub(super) const fn has_former(&self) -> bool {
        self.former.is_some()
    }

    pub(super) fn take_former(&mut self) -> Option<HeaderValue> {
        self.former.take()
    }

    /// A new connection: the session becomes the previous one.
    pub(super) fn renew(&mut self) {
        if let Some(former) = self.id.take() {
            self.former = Some(former);
        }
    }

    /// Drops the ids, which are secrets.
    #[cfg(feature = "snapshot")]
    pub(super) fn forget(&mut self) {
        (self.id, self.former) = (None, None);
    }

    /// `initialize` is sent: a session id from an earlier one on this connection is invalid.
    pub(super) fn reset(&mut self) {
        self.id = None;
    }

    /// Takes the id from the response to `initialize`.
    pub(super) fn open(&mut self, headers: &HeaderMap) {
        self.id = headers.get(SESSION_ID).filter(|id| is_visible(id.as_bytes())).cloned();
        if let Some(id) = &mut self.id {
            // Whoever has the id can use the session.
            id.set_sensitive(true);
        }
    }

    /// A request of this method was answered with 404, so the session counts as expired.
    pub(super) fn add_not_found(&mut self, method: &str) {
        if self.is_not_found(method) {
            return;
        }
        if self.not_found.len() >= METHODS {
            self.not_found.pop_front();
        }
        self.not_found.push_back(method.into());
    }

    /// A request of this method was answered otherwise.
    pub(super) fn remove_not_found(&mut self, method: &str) {
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

impl Default for GetStream {
    fn default() -> Self {
        Self { state: get_stream::State::Idle, last_id: Vec::new(), retry: None, barren: 0 }
    }
}

impl GetStream {
    pub(super) fn step(&mut self, input: get_stream::Input) -> Row<get_stream::State, get_stream::Effect> {
        let row = get_stream::step(self.state, input);
        self.state = row.next;
        row
    }

    /// What follows is another stream.
    pub(super) fn reset(&mut self) {
        *self = Self { state: self.state, ..Self::default() };
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

    /// The wait before the next GET; longer each time, where the server does not name one.
    pub(super) fn wait(&mut self) -> Duration {
        let own = crate::time::backoff(RETRY, self.barren, LONGEST_RETRY);
        self.barren = self.barren.saturating_add(1).min(16);
        self.retry.unwrap_or(own).max(SHORTEST_RETRY)
    }
}

/// An `initialize` that was refused as by an HTTP+SSE server.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Refused {
    pub(super) id: u64,
    pub(super) status: u16,
    pub(super) text: Box<str>,
}

/// The state of the server's transport.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Sse {
    state: sse::State,
    endpoint: Option<Address>,
    refused: Option<Box<Refused>>,
}

impl Default for Sse {
    fn default() -> Self {
        Self { state: sse::State::Streamable, endpoint: None, refused: None }
    }
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
    pub(super) const fn endpoint(&self) -> Option<&Address> {
        self.endpoint.as_ref()
    }

    pub(super) fn set_endpoint(&mut self, endpoint: Address) {
        self.endpoint = Some(endpoint);
    }

    pub(super) fn refuse(&mut self, refused: Refused) {
        self.refused = Some(Box::new(refused));
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
        let row = phase::step(self.phase, input);
        self.phase = row.next;
        for effect in row.effects {
            match effect {
                phase::Effect::SendInitialized => self.post_initialized(engine),
                phase::Effect::ReportBroken => engine.handle_transport(engine.now(), Transport::Closed { why }),
                // Some servers hang on every request while a stream is open.
                phase::Effect::StartStream if !engine.options().listen => {
                    self.step(engine, phase::Input::StreamDecided);
                }
                phase::Effect::StartStream => {
                    self.stream_wait = Some(self.timers.arm(engine.now() + STREAM_WAIT, Due::StreamLate));
                    self.stream_step(engine, get_stream::Input::Start);
                }
                phase::Effect::StopWait => {
                    if let Some(timer) = self.stream_wait.take() {
                        self.timers.disarm(timer);
                    }
                }
                phase::Effect::Clear => self.clear(engine),
                phase::Effect::Delete => {
                    for timer in self.queue.clear(|_| false) {
                        self.timers.disarm(timer);
                    }
                    if let Some(session) = self.session.id().cloned() {
                        self.delete(engine, ExchangeKind::Delete(session));
                    }
                }
                phase::Effect::ReportClosed => {
                    self.drop_exchanges(engine, |_, _| false);
                    for timer in self.queue.clear(|_| false) {
                        self.timers.disarm(timer);
                    }
                    engine.handle_transport(engine.now(), Transport::Closed { why });
                }
            }
        }
        engine.hold_tools(self.phase.holds_calls());
    }

    /// Steps the table of the transport. `why` is the text that is reported, `message` is the received message.
    pub(super) fn sse_step(&mut self, engine: &mut Engine, input: sse::Input, why: &str, message: &[u8]) {
        let now = engine.now();
        for effect in self.sse.step(input).effects {
            match effect {
                sse::Effect::ReportOpened => engine.handle_transport(now, Transport::Opened),
                sse::Effect::Get => self.get(engine, ExchangeKind::Sse, 0),
                sse::Effect::Drop => self.drop_first(engine, |purpose| matches!(purpose, ExchangeKind::Sse)),
                sse::Effect::SendAgain => {
                    if let Some(refused) = self.sse.take_refused() {
                        self.post_again(engine, refused.id);
                    }
                }
                sse::Effect::Refuse => {
                    if let Some(refused) = self.sse.take_refused() {
                        let (id, status, why) = (refused.id, refused.status, &*refused.text);
                        engine.handle_report(Report::Refused { id, status, why });
                    }
                }
                sse::Effect::Deliver => engine.handle_message(now, message),
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

    pub(super) fn stream_step(&mut self, engine: &mut Engine, input: get_stream::Input) {
        let row = self.get_stream.step(input);
        if let Verdict::Quirk(kind) = row.verdict {
            let detail = "the GET of a stream was refused with another status than 405, or answered with no stream";
            engine.transport_quirk(kind, None, detail);
        }
        for effect in row.effects {
            match effect {
                get_stream::Effect::Get => self.get(engine, ExchangeKind::Stream, 0),
                get_stream::Effect::Drop => self.drop_first(engine, |purpose| matches!(purpose, ExchangeKind::Stream)),
                get_stream::Effect::Arm => {
                    self.timers.arm(engine.now() + self.get_stream.wait(), Due::GetStream);
                }
                get_stream::Effect::Reset => self.get_stream.reset(),
                get_stream::Effect::CountRefusal => {
                    if let Some(waiting) = self.tokens.waiting() {
                        waiting.stream = waiting.stream.saturating_add(1);
                    }
                }
                get_stream::Effect::ClearRefusals => {
                    if let Some(waiting) = self.tokens.waiting() {
                        waiting.stream = 0;
                    }
                }
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
        (self.repeated, self.doubted) = (false, false);
        self.go_live(engine);
    }

    fn go_live(&mut self, engine: &mut Engine) {
        if self.is_current(engine) {
            self.step(engine, if self.sse.is_ready() { phase::Input::AcceptedSse } else { phase::Input::Accepted });
        }
    }

    /// The POST of `notifications/initialized` broke before a response.
    pub(super) fn initialized_broke(&mut self, engine: &mut Engine, why: &str) {
        match (core::mem::replace(&mut self.repeated, true), self.doubted) {
            (false, _) => self.step(engine, phase::Input::InitializedBroke),
            (true, false) => {
                self.doubted = true;
                self.step_because(engine, phase::Input::InitializedBrokeAgain, why);
            }
            (true, true) => self.go_live(engine),
        }
    }

    /// The connection ended.
    pub(super) fn lose(&mut self, engine: &mut Engine) {
        self.step(engine, phase::Input::Lost);
        self.sse_step(engine, sse::Input::Lost, "", b"");
        self.stream_step(engine, get_stream::Input::Stop);
        self.repeated = false;
        (self.initialized, self.initialized_again, self.stream_wait) = (None, None, None);
        if let Some(waiting) = self.tokens.waiting() {
            waiting.forget();
        }
        self.sse.take_refused();
    }

    /// Drops everything of the connection, except responses that are outstanding while the client closes.
    fn clear(&mut self, engine: &mut Engine) {
        let closing = engine.stage() == Stage::Closing;
        self.timers.clear();
        self.queue.clear(|message| closing && is_response(message)).for_each(drop);
        self.queue.rearm(|due| self.timers.arm(due, Due::GiveUp));
        self.exchanges.forget_paused();
        self.drop_exchanges(engine, Self::is_owed);
    }

    fn drop_exchanges(&mut self, engine: &mut Engine, keep: impl Fn(&Engine, &ExchangeKind) -> bool) {
        let dropped = self.exchanges.iter().filter(|(_, it)| !keep(engine, &it.purpose));
        let dropped: alloc::vec::Vec<ExchangeId> = dropped.map(|(id, _)| id).collect();
        for id in dropped {
            self.drop_exchange(engine, id);
        }
    }

    fn drop_first(&mut self, engine: &mut Engine, is_it: impl Fn(&ExchangeKind) -> bool) {
        if let Some(id) = self.exchanges.find(is_it) {
            self.drop_exchange(engine, id);
        }
    }
}

/// Whether a message answers a request of the server.
pub(super) fn is_response(message: &Outgoing) -> bool {
    message.id().is_none() && message.method().is_none()
}

/// A notification or a response is dropped, because the server did not accept the messages before it.
pub(super) fn refuse_undelivered(engine: &mut Engine, method: Option<&str>) {
    engine.count_undelivered();
    let what = if method.is_some() { "a notification" } else { "a response" };
    let detail = format!("{what} was dropped, because the server did not accept the messages before it");
    engine.transport_quirk(QuirkKind::Undelivered, method, detail);
}

impl Http {
    /// Whether the exchanges belong to the engine's current connection.
    pub(super) fn is_current(&self, engine: &Engine) -> bool {
        engine.stage().has_transport() && engine.connection() == self.connection
    }

    /// Whether an exchange continues while the client closes: the DELETE, and outstanding responses.
    pub(super) fn is_owed(engine: &Engine, purpose: &ExchangeKind) -> bool {
        match purpose {
            ExchangeKind::Delete(_) => engine.stage() == Stage::Closing,
            ExchangeKind::Message(message) => is_response(message) && engine.stage() == Stage::Closing,
            ExchangeKind::DeleteFormer(..) | ExchangeKind::Stream | ExchangeKind::Resume(..) | ExchangeKind::Sse => {
                false
            }
        }
    }

    /// Posts a message. If it has no response, a timer that starts with the poll drops its exchange.
    pub(super) fn post(&mut self, engine: &mut Engine, message: Outgoing, redirects: u8) -> ExchangeId {
        let url = self.sse.endpoint().unwrap_or(&self.url).clone();
        let initialized = message.method() == Some(method::INITIALIZED);
        if message.id().is_none() {
            self.queue.enter(&message);
        }
        let id = self.begin(engine, ExchangeKind::Message(message), url, redirects);
        if initialized {
            self.initialized = Some(id);
        }
        id
    }

    /// Posts a message that waited for an exchange: its timeout then drops its exchange.
    fn post_waiting(&mut self, engine: &mut Engine, timer: Timer, message: Outgoing) {
        let id = self.post(engine, message, 0);
        self.timers.set(timer, Due::Release(id));
        if let Some(it) = self.exchanges.get_mut(id) {
            it.release = Some(timer);
        }
    }

    /// Posts a message again after a wait that the server asked for.
    fn post_after(&mut self, engine: &mut Engine, message: Outgoing, waited: Duration) {
        let exchange = self.post(engine, message, 0);
        if let Some(it) = self.exchanges.get_mut(exchange) {
            it.waited = waited;
        }
    }

    /// Posts `notifications/initialized` again.
    pub(super) fn post_initialized(&mut self, engine: &mut Engine) {
        if let Some(again) = self.initialized_again.take() {
            let (message, waited) = *again;
            self.post_after(engine, message, waited);
        }
    }

    /// Posts a request again, with a new id.
    pub(super) fn post_again(&mut self, engine: &mut Engine, request: u64) {
        if let Some(message) = self.restart(engine, request) {
            self.post(engine, message, 0);
        }
    }

    /// Gives a request a new id, with which it is sent again.
    pub(super) fn restart(&mut self, engine: &mut Engine, request: u64) -> Option<Outgoing> {
        self.exchanges.forget(request);
        engine.restart(request)
    }

    /// Requests a stream.
    pub(super) fn get(&mut self, engine: &mut Engine, purpose: ExchangeKind, redirects: u8) {
        self.begin(engine, purpose, self.url.clone(), redirects);
    }

    /// Ends a session of the server.
    pub(super) fn delete(&mut self, engine: &mut Engine, purpose: ExchangeKind) {
        self.begin(engine, purpose, self.url.clone(), 0);
    }

    fn begin(&mut self, engine: &mut Engine, purpose: ExchangeKind, url: Address, redirects: u8) -> ExchangeId {
        let it = Exchange {
            purpose,
            url,
            redirects,
            waited: Duration::ZERO,
            status: 0,
            reply: Reply::Unsent,
            sent: Sent::default(),
            release: None,
        };
        let exchange = self.exchanges.insert(it);
        engine.queue_action(Output::Exchange(exchange.0));
        exchange
    }

    /// The request of an exchange is polled: it counts as sent from here on.
    pub(super) fn hand_over(&mut self, engine: &mut Engine, exchange: ExchangeId) -> Option<HttpRequest> {
        let it = self.exchanges.hand_over(exchange)?;
        let is_opening = |message: &Outgoing| message.method() == Some(method::INITIALIZE);
        let opening = matches!(&it.purpose, ExchangeKind::Message(message) if is_opening(message));
        if opening {
            // Requests polled before it belong to the previous session.
            self.session.reset();
        }
        let session = self.session.id();
        let version = || engine.server().map(|server| server.version);
        let agreed = || Common { session, version: version().filter(|_| engine.stage().is_established()) };
        let (of, mut request) = match &mut it.purpose {
            ExchangeKind::Message(message) => {
                let session = session.filter(|_| !message.is_modern() && !opening);
                let common = Common { session, version: message.version().filter(|_| !opening) };
                let about = message.id().map(|id| engine.carried(id)).unwrap_or_default();
                let request = request::post(&it.url, message, common, about, engine.catalog());
                if message.id().is_none() && it.release.is_none() {
                    let due = engine.now() + engine.options().timeouts.request;
                    it.release = Some(self.timers.arm(due, Due::Release(exchange)));
                }
                (message.of(), request)
            }
            ExchangeKind::Resume(id, broken) => {
                (engine.carried(*id).of, request::get(&it.url, agreed(), Some(&broken.last_id)))
            }
            ExchangeKind::Stream => (None, request::get(&it.url, agreed(), self.get_stream.last_id())),
            ExchangeKind::Sse => (None, request::get(&it.url, agreed(), None)),
            ExchangeKind::DeleteFormer(_, session) | ExchangeKind::Delete(session) => {
                (None, request::delete(&it.url, Common { session: Some(session), version: version() }))
            }
        };
        self.tokens.present(exchange, request.headers_mut(), &mut it.sent);
        let message = if let ExchangeKind::Message(message) = &it.purpose { Some(message) } else { None };
        engine.handed_over(message);
        Some(HttpRequest { exchange, of, request })
    }

    /// Removes an exchange that has ended.
    pub(super) fn take(&mut self, engine: &mut Engine, id: ExchangeId) -> Option<Box<Exchange>> {
        let it = self.exchanges.remove(id)?;
        self.tokens.forget(id);
        if let Some(timer) = it.release {
            self.timers.disarm(timer);
        }
        if let Some(message) = it.purpose.one_way() {
            self.queue.leave(message);
        }
        match it.reply {
            Reply::Unsent => {
                engine.withdraw_action(|action| matches!(action, Output::Exchange(exchange) if *exchange == id.0));
            }
            Reply::Nothing
            | Reply::Begun(_)
            | Reply::Json(_)
            | Reply::Events(_)
            | Reply::Refusal(_)
            | Reply::Ignored => {}
        }
        Some(it)
    }

    /// Ends an exchange: an unpolled request is withdrawn, any other exchange is dropped.
    pub(super) fn drop_exchange(&mut self, engine: &mut Engine, id: ExchangeId) -> Option<Box<Exchange>> {
        let it = self.take(engine, id)?;
        match it.reply {
            Reply::Unsent => {}
            Reply::Nothing
            | Reply::Begun(_)
            | Reply::Json(_)
            | Reply::Events(_)
            | Reply::Refusal(_)
            | Reply::Ignored => engine.queue_action(Output::Drop(id.0)),
        }
        Some(it)
    }

    /// An exchange is complete. It has a short time to end by itself, in which a stream may deliver other messages.
    pub(super) fn linger(&mut self, engine: &Engine, id: ExchangeId) {
        let Some(it) = self.exchanges.get(id) else { return };
        let keeps_reading = matches!(it.reply, Reply::Events(_)) && it.reply.buffered() <= LINGER_BYTES;
        let armed = it.release.is_some();
        if !keeps_reading {
            self.exchanges.set_reply(id, Reply::Ignored);
        }
        if !armed {
            let timer = self.timers.arm(engine.now() + LINGER, Due::Release(id));
            if let Some(it) = self.exchanges.get_mut(id) {
                it.release = Some(timer);
            }
        }
    }

    /// Ends the exchange or timer of a request.
    fn drop_carrier(&mut self, engine: &mut Engine, request: u64) {
        match self.exchanges.carrier(request) {
            Some(Carrier::Exchange(exchange)) => {
                let exchange = *exchange;
                self.drop_exchange(engine, exchange);
            }
            Some(Carrier::Timer(timer, _)) => {
                self.timers.disarm(*timer);
                self.exchanges.forget(request);
            }
            None => {}
        }
    }

    /// A request waits without an exchange.
    pub(super) fn pause(&mut self, engine: &Engine, request: u64, wait: Duration, paused: Paused) {
        let timer = self.timers.arm(engine.now() + wait, Due::Continue(request));
        self.exchanges.pause(request, timer, paused);
    }
}

impl Http {
    /// Exchanges that waited for the token or a proof are sent; those whose proofs were not signed are over.
    pub(super) fn send_ready(&mut self, engine: &mut Engine) {
        while let Some((id, is_ready)) = self.tokens.next_ready() {
            if self.exchanges.get(id).is_none_or(|it| !matches!(it.reply, Reply::Unsent)) {
                self.tokens.forget(id);
            } else if is_ready {
                engine.queue_action(Output::Exchange(id.0));
            } else if let Some(it) = self.take(engine, id) {
                let why = "the proof of possession was not signed";
                match it.purpose.request() {
                    Some(request) => engine.handle_report(Report::Unproved { id: request, why }),
                    None => self.end(engine, it, End::Unreached, Some(why)),
                }
            }
        }
    }

    /// Whether an exchange can be sent, and does not wait for the record of the store or for its proof.
    pub(super) fn ready_to_send(&mut self, engine: &Engine, id: ExchangeId) -> bool {
        let Some(it) = self.exchanges.get(id) else { return false };
        let method = match &it.purpose {
            ExchangeKind::Message(_) => "POST",
            ExchangeKind::Stream | ExchangeKind::Resume(..) | ExchangeKind::Sse => "GET",
            ExchangeKind::DeleteFormer(..) | ExchangeKind::Delete(_) => "DELETE",
        };
        self.tokens.prepare(engine.now(), id, method, &it.url)
    }
}

impl Http {
    /// Carries out the engine's outputs. Events wait to be polled.
    pub(super) fn drain(&mut self, engine: &mut Engine) {
        if self.has_work(engine) {
            loop {
                self.tidy(engine);
                if self.send_next(engine) {
                    continue;
                }
                match engine.next_output(|event| self.tokens.mask(event)) {
                    Some(output) => self.execute(engine, output),
                    None if self.end_if_owing_nothing(engine) => {}
                    None => break,
                }
            }
            self.tokens.mask_texts(engine);
        }
        let (count, bytes) = self.queue.undelivered();
        engine.set_undelivered(count, bytes);
    }

    /// Whether there may be something to carry out. After most of what is received of a response there is not.
    fn has_work(&self, engine: &Engine) -> bool {
        engine.has_reports() || !self.queue.is_empty() || self.phase == phase::State::Ending || self.has_lost(engine)
    }

    /// Whether the connection ended whose exchanges these are.
    fn has_lost(&self, engine: &Engine) -> bool {
        self.phase.is_connected() && !self.is_current(engine)
    }

    /// Ends the exchanges of a connection that ended, or of requests that ended.
    fn tidy(&mut self, engine: &mut Engine) {
        if self.has_lost(engine) {
            self.lose(engine);
        }
        while let Some(request) = engine.next_ended() {
            self.on_request_end(engine, request);
        }
    }

    /// A request ended, and its exchange is not needed; the server has a short time to end it.
    fn on_request_end(&mut self, engine: &mut Engine, request: u64) {
        match self.exchanges.carrier(request) {
            Some(Carrier::Exchange(id)) => {
                let id = *id;
                match self.exchanges.get(id).map(|it| &it.reply) {
                    Some(Reply::Unsent) => self.drop_carrier(engine, request),
                    Some(
                        Reply::Nothing
                        | Reply::Begun(_)
                        | Reply::Json(_)
                        | Reply::Events(_)
                        | Reply::Refusal(_)
                        | Reply::Ignored,
                    )
                    | None => self.linger(engine, id),
                }
            }
            Some(Carrier::Timer(..)) => self.drop_carrier(engine, request),
            None => self.queue.retract(request),
        }
    }

    fn execute(&mut self, engine: &mut Engine, output: Output) {
        match output {
            Output::Send(message) => self.send(engine, message),
            Output::Abort(request) => self.drop_carrier(engine, request),
            Output::Open(connection) => self.open(engine, connection),
            Output::Shutdown(step) => self.shut_down(engine, step),
            // They wait to be polled.
            Output::Event(_) | Output::Exchange(_) | Output::Drop(_) => {}
        }
    }

    fn open(&mut self, engine: &mut Engine, connection: ConnectionId) {
        self.connection = connection;
        self.session.renew();
        self.step(engine, phase::Input::Connect);
        self.sse_step(engine, sse::Input::Connect, "", b"");
    }

    /// Takes a message of the engine.
    fn send(&mut self, engine: &mut Engine, message: Outgoing) {
        let kind = match (message.id(), message.method()) {
            (Some(_), _) => Message::Request,
            (None, Some(method::INITIALIZED)) => Message::Initialized,
            (None, Some(_)) => Message::Notification,
            (None, None) => Message::Response,
        };
        match send::decide(kind, self.phase == phase::State::Accepting, self.room(engine)) {
            Decision::Send => {
                let established = message.is_modern() && message.method() != Some(method::DISCOVER);
                self.post(engine, message, 0);
                if kind == Message::Initialized {
                    self.step(engine, phase::Input::InitializedSent);
                } else if established && self.phase == phase::State::Opening {
                    self.step(engine, phase::Input::Established);
                }
            }
            Decision::Hold => self.queue.hold(message),
            Decision::Queue => {
                let timer = self.timers.arm(engine.now() + engine.options().timeouts.request, Due::GiveUp);
                self.queue.wait(timer, message);
            }
            Decision::Drop => refuse_undelivered(engine, message.method()),
        }
    }

    fn room(&self, engine: &Engine) -> Room {
        let limits = &engine.options().limits;
        let (waiting, bytes) = self.queue.waiting();
        if waiting == 0 && self.has_exchange(engine) {
            Room::Free
        } else if waiting >= limits.output || bytes >= limits.output_bytes {
            Room::Full
        } else {
            Room::Taken
        }
    }

    /// Whether another exchange may carry a message without a response.
    fn has_exchange(&self, engine: &Engine) -> bool {
        self.queue.in_exchange() < engine.options().limits.in_flight.max(1)
    }

    /// Sends the next queued message that may be sent.
    fn send_next(&mut self, engine: &mut Engine) -> bool {
        if self.queue.is_waiting() && self.has_exchange(engine) {
            if let Some((timer, message)) = self.queue.next_waiting() {
                self.post_waiting(engine, timer, message);
            }
            return true;
        }
        if self.phase != phase::State::Accepting
            && let Some(message) = self.queue.next_held()
        {
            self.send(engine, message);
            return true;
        }
        false
    }

    /// Shuts the connection down: first the outstanding responses, then the DELETE, each for as long as a step may
    /// take.
    fn shut_down(&mut self, engine: &mut Engine, step: ShutdownStep) {
        let input = match step {
            _ if engine.stage() != Stage::Closing => phase::Input::Retire,
            ShutdownStep::CloseInput => self.close_input(engine),
            ShutdownStep::Terminate if self.has_session(engine) => phase::Input::OverdueSession,
            ShutdownStep::Terminate | ShutdownStep::Kill => phase::Input::Overdue,
        };
        self.step(engine, input);
    }

    fn close_input(&self, engine: &Engine) -> phase::Input {
        if self.owes(engine) {
            phase::Input::CloseOwing
        } else if self.has_session(engine) {
            phase::Input::CloseSession
        } else {
            phase::Input::CloseNothing
        }
    }

    fn owes(&self, engine: &Engine) -> bool {
        self.queue.is_waiting() || self.exchanges.iter().any(|(_, it)| Self::is_owed(engine, &it.purpose))
    }

    /// Whether there is a session to end. A modern server has none, even if it sent a session id before it was
    /// recognized as modern, and there is none before `initialize` was answered.
    fn has_session(&self, engine: &Engine) -> bool {
        let legacy = engine.server().is_some_and(|server| server.era() == Era::Legacy);
        legacy && engine.has_agreed() && self.session.id().is_some()
    }

    /// While the client closes: after the last outstanding response, the rest follows.
    fn end_if_owing_nothing(&mut self, engine: &mut Engine) -> bool {
        if self.phase != phase::State::Ending || self.owes(engine) {
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
    }

    fn settle(&mut self, engine: &mut Engine) {
        self.send_ready(engine);
        self.drain(engine);
        if engine.stage() == Stage::Closed {
            self.tokens.close();
        }
        // A result may cause another one: each is about other tokens.
        while self.send_authorized(engine) || self.on_verdict(engine) {
            self.drain(engine);
        }
    }

    fn handle_timeout(&mut self, engine: &mut Engine, now: Time) {
        // Messages held for a response to `initialized` that never arrives get their full time from here on.
        let late = |it: &Exchange| match it.release {
            Some((due, _)) => due <= now,
            // It was not polled yet.
            None => true,
        };
        let is_late = self.initialized.and_then(|id| self.exchanges.get(id)).is_some_and(late);
        if self.phase == phase::State::Accepting && is_late {
            engine.renew_unsent(now);
        }
        self.tokens.handle_timeout(now);
        engine.handle_timeout(now);
        self.settle(engine);
        let (now, last) = (engine.now(), self.timers.last());
        while let Some((timer, due)) = self.timers.take(now, last) {
            self.on_timer(engine, timer, due);
            self.settle(engine);
        }
    }

    fn poll(&mut self, engine: &mut Engine) -> Option<HttpAction> {
        // The end of an attempt precedes `Closed`.
        if engine.stage() == Stage::Closed
            && let Some(action) = self.tokens.poll()
        {
            return Some(action);
        }
        loop {
            match engine.poll() {
                Some(Output::Exchange(exchange)) => {
                    let exchange = ExchangeId(exchange);
                    if self.ready_to_send(engine, exchange)
                        && let Some(request) = self.hand_over(engine, exchange)
                    {
                        return Some(HttpAction::Request(request));
                    }
                }
                Some(Output::Drop(exchange)) => return Some(HttpAction::Drop(ExchangeId(exchange))),
                Some(Output::Event(event)) => return Some(HttpAction::Event(event)),
                // They were carried out.
                Some(Output::Open(_) | Output::Send(_) | Output::Abort(_) | Output::Shutdown(_)) => {}
                None => return self.tokens.poll(),
            }
        }
    }

    fn deadline(&self, engine: &Engine) -> Option<Time> {
        if engine.pending().next().is_some() || self.tokens.has_actions() {
            return Some(engine.now());
        }
        self.next_timer(engine)
    }

    fn next_timer(&self, engine: &Engine) -> Option<Time> {
        Time::earliest([engine.next_timer(), self.timers.next(), self.tokens.deadline()])
    }

    fn is_settled(&self) -> bool {
        !self.tokens.has_actions() && !self.tokens.is_busy()
    }
}

impl Client<Http> {
    /// Takes an input for the authorization of [`Http::with_oauth`]. Returns whether it belongs to what is in progress, as
    /// far as that can be said at once: `false` for a redirect of another attempt, and without an authorization.
    #[cfg(feature = "oauth")]
    pub fn handle_oauth(&mut self, now: Time, input: crate::binding::oauth::OAuthInput<'_>) -> bool {
        self.binding.handle_due(&mut self.engine, now);
        let is_ours = self.binding.tokens.handle(self.engine.now(), input);
        self.binding.settle(&mut self.engine);
        is_ours
    }

    /// Takes the head of a response.
    pub fn handle_head(&mut self, now: Time, exchange: ExchangeId, status: StatusCode, headers: &HeaderMap) {
        self.binding.handle_due(&mut self.engine, now);
        self.binding.head(&mut self.engine, exchange, status, headers);
        self.binding.settle(&mut self.engine);
    }

    /// Takes a chunk of any size of a response's body.
    pub fn handle_body(&mut self, now: Time, exchange: ExchangeId, chunk: &[u8]) {
        self.binding.handle_due(&mut self.engine, now);
        self.binding.body(&mut self.engine, exchange, chunk);
        self.binding.settle(&mut self.engine);
    }

    /// Takes the end of a response.
    pub fn handle_end(&mut self, now: Time, exchange: ExchangeId) {
        self.binding.on_end(&mut self.engine, now, exchange, None, "");
    }

    /// Takes the failure of an exchange, at any time before its end. An exchange whose head arrived has reached the
    /// server, whatever the failure.
    pub fn handle_failure(&mut self, now: Time, exchange: ExchangeId, broken: Broken, why: &str) {
        self.binding.on_end(&mut self.engine, now, exchange, Some(broken), &shown_in(why));
    }
}

impl Http {
    /// Whether an action of the authorization waits, which is polled after all others.
    pub(crate) fn has_oauth_action(&self) -> bool {
        self.tokens.has_actions()
    }

    /// Handles due deadlines before an input at this time. Deadlines due at the previous input were handled then.
    fn handle_due(&mut self, engine: &mut Engine, now: Time) {
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        if now <= engine.served() {
            return;
        }
        if is_due(self.next_timer(engine)) {
            self.handle_timeout(engine, now);
        } else {
            engine.handle_timeout(now);
        }
    }

    /// An exchange ended: it is not dropped, whatever is due.
    pub(super) fn on_end(
        &mut self,
        engine: &mut Engine,
        now: Time,
        id: ExchangeId,
        failure: Option<Broken>,
        why: &str,
    ) {
        let (it, connection) = (self.take(engine, id), self.connection);
        self.handle_due(engine, now);
        if let Some(it) = it {
            let current = self.is_current(engine) && self.connection == connection;
            if current || Self::is_owed(engine, &it.purpose) {
                self.ended(engine, it, failure, why);
            }
        }
        self.settle(engine);
    }

    fn on_timer(&mut self, engine: &mut Engine, timer: Timer, due: Due) {
        match due {
            Due::SendInitialized => self.post_initialized(engine),
            Due::Continue(request) => match self.exchanges.resume(request) {
                Some(Paused::Resume(broken)) if engine.is_sent(request) => {
                    self.get(engine, ExchangeKind::Resume(request, broken), 0);
                }
                Some(Paused::Resend(waited)) => {
                    if let Some(message) = self.restart(engine, request) {
                        self.post_after(engine, message, waited);
                    }
                }
                Some(Paused::Resume(_)) | None => {}
            },
            Due::GetStream => self.stream_step(engine, get_stream::Input::Timer),
            Due::StreamLate => self.step(engine, phase::Input::StreamDecided),
            Due::Release(id) => {
                if self.initialized == Some(id) {
                    self.accept_initialized(engine);
                }
                if let Some(it) = self.exchanges.get(id)
                    && it.purpose.one_way().is_some()
                {
                    // A message that was polled may have arrived.
                    if matches!(it.reply, Reply::Unsent) {
                        engine.count_undelivered();
                    }
                }
                self.drop_exchange(engine, id);
            }
            Due::GiveUp => {
                if self.queue.front() == Some(timer)
                    && let Some((_, message)) = self.queue.next_waiting()
                {
                    refuse_undelivered(engine, message.method());
                }
            }
        }
    }
}
