//! The state of the connection: its phase, the session, the GET stream, HTTP+SSE and the timers; and the inputs of the
//! embedder.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode, Uri};

use super::action::{Broken, ExchangeId, HttpAction};
use super::exchange::{Exchange, ExchangeKind, Exchanges, Reply};
use super::request::SESSION_ID;
use super::send::{Queue, is_response, refuse_undelivered};
use super::tokens::Tokens;
use crate::Time;
use crate::binding::address::{Address, UrlError, parse};
use crate::client::{
    Binding, Client, ConnectionId, Engine, OpenFailure, Operate, Outgoing, Output, Report, Transport, Wire, trim,
};
use crate::machine::http_connection::{get_stream, phase, sse};
use crate::machine::{Row, Verdict};
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
    /// `notifications/initialized`, while it waits to be sent again.
    initialized_again: Option<alloc::boxed::Box<Outgoing>> = None,
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

/// The maximum wait that a server may set.
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

/// The effect of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Due {
    /// Send a request again, by its id on the wire.
    SendAgain(u64),
    /// Send `notifications/initialized` again.
    SendInitialized,
    /// Resume the stream of a request, by its id on the wire.
    Resume(u64),
    /// Request the GET stream again.
    GetStream,
    /// Stop the wait for the GET stream.
    StreamLate,
    /// Drop an exchange that is not needed.
    Release(ExchangeId),
    /// Drop the oldest message that waits for an exchange.
    GiveUp,
}

/// A timer: its time, and a number that distinguishes timers of the same time.
pub(super) type Timer = (Time, u64);

/// The timers of a connection.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Timers {
    /// Ordered by time. Most streamed calls use one, so the memory of a few is kept.
    due: VecDeque<(Timer, Due)>,
    last: u64,
}

impl Timers {
    pub(super) fn arm(&mut self, at: Time, due: Due) -> Timer {
        self.last = self.last.saturating_add(1);
        let timer = (at, self.last);
        let place = self.due.partition_point(|(other, _)| *other < timer);
        self.due.insert(place, (timer, due));
        timer
    }

    /// Changes the effect of a timer, not its time.
    pub(super) fn set(&mut self, timer: Timer, due: Due) {
        if let Some((_, known)) = self.find(timer).and_then(|place| self.due.get_mut(place)) {
            *known = due;
        }
    }

    pub(super) fn disarm(&mut self, timer: Timer) {
        if let Some(place) = self.find(timer) {
            self.due.remove(place);
            trim(&mut self.due);
        }
    }

    fn find(&self, timer: Timer) -> Option<usize> {
        self.due.binary_search_by_key(&timer, |(timer, _)| *timer).ok()
    }

    /// Whether the timers are ordered.
    #[cfg(feature = "snapshot")]
    pub(super) fn is_sorted(&self) -> bool {
        self.due.iter().is_sorted_by(|(one, _), (next, _)| one < next)
    }

    pub(super) fn clear(&mut self) {
        self.due = VecDeque::new();
    }

    /// The time of the next timer.
    pub(super) fn next(&self) -> Option<Time> {
        self.due.front().map(|((at, _), _)| *at)
    }

    /// The newest timer so far.
    pub(super) const fn last(&self) -> u64 {
        self.last
    }

    /// Takes the next due timer up to `last`: at the end of time, a new one is due at once.
    fn take(&mut self, now: Time, last: u64) -> Option<(Timer, Due)> {
        let due = self.due.iter().take_while(|((at, _), _)| *at <= now);
        let place = due.into_iter().position(|((_, number), _)| *number <= last)?;
        let due = self.due.remove(place);
        trim(&mut self.due);
        due
    }
}

/// Releases the memory of a rarely used queue when it is empty.
pub(super) fn release<T>(queue: &mut VecDeque<T>) {
    if queue.is_empty() {
        *queue = VecDeque::new();
    }
}

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

    /// Takes the state of the GET stream, which calls may wait for.
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
        let closing = engine.is_closing();
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
        if engine.has_closed() {
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
        if engine.has_closed()
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
            Due::SendAgain(request) => self.post_again(engine, request),
            Due::SendInitialized => self.post_initialized(engine),
            Due::Resume(request) => {
                if let Some(broken) = self.exchanges.resume(request)
                    && engine.is_sent(request)
                {
                    self.get(engine, ExchangeKind::Resume(request, broken), 0);
                }
            }
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
