//! Streamable HTTP, in both eras, and the older HTTP+SSE, over any HTTP client (feature `http`).

mod answer;
mod exchange;
mod exchanges;
mod older;
mod refusal;
mod request;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode, Uri};

use self::exchange::{Exchange, Purpose, Reply};
use self::exchanges::Exchanges;
use self::request::{Address, Common};
use crate::client::{
    Binding, Client, ConnectionId, Engine, Event, Operate, Outgoing, Output, Report, RequestId, ShutdownStep,
    Transport, Wire,
};
use crate::jsonrpc::MessageLimits;
use crate::machine::get_stream;
use crate::protocol::{Era, method};
use crate::{Time, machine::Verdict};

/// How long a call waits for the stream on which the server may ask something during it.
const STREAM_WAIT: Duration = Duration::from_millis(500);

/// The wait before a stream is taken up again, or a refused message sent again, where the server does not say.
const RETRY: Duration = Duration::from_secs(1);

/// The least of these waits, so that a server that says nothing is not asked without a pause.
const SHORTEST_RETRY: Duration = Duration::from_millis(100);

/// The longest of these waits.
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// How long an exchange may go on after its request was answered.
const LINGER: Duration = Duration::from_secs(1);

/// Bytes that it may keep meanwhile of an event that is not whole.
const LINGER_BYTES: usize = 64 << 10;

/// How often a message is sent on to where an answer points.
const REDIRECTS: u8 = 5;

/// What the embedder is to do next.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum HttpAction {
    /// Run a request.
    Request(HttpRequest),
    /// Drop an exchange: close its stream, read no more of it, report nothing more of it.
    Drop(ExchangeId),
    /// Something to know.
    Event(Event),
}

/// A request to run. Its `Debug` shows no secret: of the headers the names, and nothing of the body.
#[derive(Clone)]
#[non_exhaustive]
pub struct HttpRequest {
    /// What becomes of it is reported under this name.
    pub exchange: ExchangeId,
    /// Which request of the embedder's it carries or is about, if any: so that it can be authorised as its user.
    pub of: Option<RequestId>,
    /// The request, without the embedder's own headers. They are given anew for each, and never kept here.
    pub request: http::Request<Vec<u8>>,
}

impl fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { exchange, of, request } = self;
        f.debug_struct("HttpRequest")
            .field("exchange", exchange)
            .field("of", of)
            .field("method", request.method())
            .field("uri", &Address(request.uri().clone()))
            .field("headers", &request.headers().keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// An exchange of a session's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExchangeId(u64);

/// In which way an exchange failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Broken {
    /// Nobody was reached: the request was not sent.
    Unreachable,
    /// It broke after the request was sent, or after a part of it was.
    Midway,
}

/// Which transport the server has.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Mode {
    /// Streamable HTTP, as far as is known.
    Streamable,
    /// HTTP+SSE, whose messages go to an endpoint of their own; none while its stream is opened.
    Events(Option<Address>),
}

/// What a request has that waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carrier {
    /// An exchange.
    Exchange(u64),
    /// An entry in `later`, until which there is no exchange.
    Timer((Time, u64)),
}

/// What is due later.
#[derive(Clone, Debug)]
enum Later {
    /// Send a message again that has no id.
    Send(Outgoing),
    /// Send a request again.
    Restart(u64),
    /// Take up the stream of a request.
    Resume { id: u64, last_id: Vec<u8>, retry: Option<Duration> },
    /// Ask for the stream again.
    Stream,
    /// Let go of an exchange whose request is answered.
    LetGo(ExchangeId),
}

/// Streamable HTTP, in both eras, and HTTP+SSE.
///
/// The embedder executes requests with an HTTP client that follows no redirects, and reports the results by
/// [`handle_head`](Client::<Http>::handle_head), [`handle_body`](Client::<Http>::handle_body),
/// [`handle_end`](Client::<Http>::handle_end) and [`handle_failure`](Client::<Http>::handle_failure). Exchanges run
/// concurrently; a stream may last as long as the client, so no exchange has a time limit but the client's own.
#[derive(Clone, Debug)]
pub struct Http {
    /// Where the server is.
    url: Address,
    /// Which of the session's connections the exchanges belong to.
    connection: ConnectionId,
    mode: Mode,
    session_id: Option<HeaderValue>,
    /// The session before, which the server may still know.
    former: Option<HeaderValue>,
    exchanges: Exchanges,
    /// By the ids of requests.
    carriers: BTreeMap<u64, Carrier>,
    /// Answers and notifications that wait for an exchange, with the time at which they are given up.
    waiting: VecDeque<(Time, Outgoing)>,
    waiting_bytes: usize,
    last_exchange: u64,
    out: VecDeque<HttpAction>,
    later: BTreeMap<(Time, u64), Later>,
    last_later: u64,
    /// The exchange of `notifications/initialized`, before whose end nothing else is sent.
    initialized: Option<u64>,
    stream: get_stream::State,
    /// Where the stream broke, and how long to wait then.
    stream_id: Vec<u8>,
    stream_retry: Option<Duration>,
    /// How many of them in a row brought nothing.
    barren: u32,
    /// Until when calls wait for the stream.
    stream_wait: Option<Time>,
    /// The stream stood in this session.
    stood: bool,
    /// The stream of the older transport was asked for, on this connection.
    tried_events: bool,
    /// A request reached nobody, and nothing was answered since.
    unreached: bool,
    /// The session is being ended.
    shutting: bool,
}

impl Binding for Http {}

impl Operate for Http {
    type Action = HttpAction;
    const WIRE: Wire = Wire::Http;

    fn attach(&mut self, engine: &mut Engine) {
        engine.track_settled();
    }

    fn settle(&mut self, _: &mut Engine) {}

    fn handle_timeout(&mut self, engine: &mut Engine, now: Time) {
        self.time_passed(engine, now);
    }

    fn poll(&mut self, engine: &mut Engine) -> Option<HttpAction> {
        self.next_action(engine)
    }

    fn deadline(&self, engine: &Engine) -> Option<Time> {
        self.next_deadline(engine)
    }

    fn is_drained(&self) -> bool {
        self.out.is_empty()
    }
}

impl Client<Http> {
    /// Takes the head of a response.
    pub fn handle_head(&mut self, now: Time, exchange: ExchangeId, status: StatusCode, headers: &HeaderMap) {
        self.binding.head(&mut self.engine, now, exchange, status, headers);
    }

    /// Takes a chunk of any size of a response's body.
    pub fn handle_body(&mut self, now: Time, exchange: ExchangeId, chunk: &[u8]) {
        self.binding.body(&mut self.engine, now, exchange, chunk);
    }

    /// Takes the end of a response.
    pub fn handle_end(&mut self, now: Time, exchange: ExchangeId) {
        self.binding.ended(&mut self.engine, now, exchange, None);
    }

    /// Takes that an exchange failed, at any time before its end. An exchange whose head came has reached the server,
    /// however it failed.
    pub fn handle_failure(&mut self, now: Time, exchange: ExchangeId, broken: Broken, why: &str) {
        self.binding.failed(&mut self.engine, now, exchange, broken, why);
    }
}

impl Http {
    /// A server at this URL, which is absolute.
    pub fn new(url: Uri) -> Self {
        Self {
            url: Address(url),
            connection: ConnectionId::default(),
            mode: Mode::Streamable,
            session_id: None,
            former: None,
            exchanges: Exchanges::default(),
            carriers: BTreeMap::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            last_exchange: 0,
            out: VecDeque::new(),
            later: BTreeMap::new(),
            last_later: 0,
            initialized: None,
            stream: get_stream::State::Idle,
            stream_id: Vec::new(),
            stream_retry: None,
            barren: 0,
            stream_wait: None,
            stood: false,
            tried_events: false,
            unreached: false,
            shutting: false,
        }
    }

    fn next_action(&mut self, engine: &mut Engine) -> Option<HttpAction> {
        loop {
            self.tidy(engine);
            if let Some(action) = self.out.pop_front() {
                return Some(action);
            }
            if self.may_send_one_way(engine)
                && let Some((due, message)) = self.pop_waiting()
            {
                self.send_by(engine, due, message, 0);
                continue;
            }
            let unanswered = self.initialized.is_some();
            match engine.poll_but(|action| is_held(action, unanswered))? {
                Output::Event(event) => return Some(HttpAction::Event(event)),
                Output::Send(message) => self.dispatch(engine, message),
                Output::Abort(id) => self.abort(id),
                Output::Open(connection) => self.open_transport(engine, connection),
                Output::Shutdown(how) => self.shut(engine, how),
            }
        }
    }

    fn next_deadline(&self, engine: &Engine) -> Option<Time> {
        let now = engine.now();
        let unanswered = self.initialized.is_some();
        let pending = engine.pending().any(|action| !is_held(action, unanswered));
        let waiting = !self.waiting.is_empty() && self.may_send_one_way(engine);
        if pending || waiting || !self.out.is_empty() || self.is_untidy(engine) {
            return Some(now);
        }
        let later = self.later.first_key_value().map(|((at, _), _)| *at);
        let waiting = self.waiting.front().map(|(due, _)| *due);
        [engine.next_timer(), later, self.stream_wait, waiting].into_iter().flatten().min()
    }

    fn time_passed(&mut self, engine: &mut Engine, now: Time) {
        // What was held for an answer to `initialized` that does not come has its time from here on.
        let held_by = self.initialized.and_then(|exchange| self.exchanges.get(exchange)?.let_go);
        if held_by.is_some_and(|(due, _)| due <= now) {
            engine.renew_unsent(now);
        }
        engine.handle_timeout(now);
        self.tidy(engine);
        let now = engine.now();
        while self.waiting.front().is_some_and(|(due, _)| *due <= now) {
            if self.pop_waiting().is_some_and(|(_, message)| is_answer(&message)) {
                engine.leave_out();
            }
        }
        self.set_waits(engine, self.initialized, self.stream_wait.filter(|until| *until > now));
        let later = self.later.split_off(&(now, u64::MAX));
        for what in core::mem::replace(&mut self.later, later).into_values() {
            match what {
                Later::Send(message) => self.send(engine, message, 0),
                Later::Restart(id) => self.restart(engine, id),
                Later::Resume { id, last_id, retry } => {
                    self.carriers.remove(&id);
                    if engine.is_waiting(id) {
                        self.get(engine, Purpose::Resume { id, last_id, retry }, 0);
                    }
                }
                Later::Stream => self.stream_step(engine, get_stream::Input::Timer),
                Later::LetGo(exchange) => {
                    self.accepted(engine, exchange.0);
                    if let Some(it) = self.exchanges.remove(exchange.0) {
                        self.forget(exchange, it.purpose.carried());
                        self.out.push_back(HttpAction::Drop(exchange));
                    }
                }
            }
        }
    }

    /// Whether exchanges are left of a connection that is gone, or of requests that ended.
    fn is_untidy(&self, engine: &Engine) -> bool {
        engine.has_settled() || !self.is_current(engine) && self.has_outlived(engine)
    }

    /// Whether there is something that does not outlive the connection.
    fn has_outlived(&self, engine: &Engine) -> bool {
        let waiting = !self.waiting.is_empty() && !engine.is_closing();
        waiting || !self.later.is_empty() || self.exchanges.values().any(|it| !self.lingers(engine, &it.purpose))
    }

    /// Whether the connection is there that the exchanges belong to.
    fn is_current(&self, engine: &Engine) -> bool {
        engine.is_connected() && engine.connection() == self.connection
    }

    /// Whether an exchange goes on though the session is over: the DELETE, and the answers that are owed.
    fn lingers(&self, engine: &Engine, purpose: &Purpose) -> bool {
        match purpose {
            Purpose::Delete { then: None } => engine.is_closing(),
            Purpose::Message(message) => is_answer(message) && engine.is_closing(),
            Purpose::Delete { .. } | Purpose::Stream | Purpose::Resume { .. } | Purpose::Events { .. } => false,
        }
    }

    fn tidy(&mut self, engine: &mut Engine) {
        if !self.is_current(engine) && self.has_outlived(engine) {
            self.drop_all(engine);
        }
        while let Some(id) = engine.next_settled() {
            self.settle(engine, id);
        }
        let (count, bytes) = self.exchanges.one_way();
        let count = count.saturating_add(self.waiting.len());
        engine.set_undelivered(count, bytes.saturating_add(self.waiting_bytes));
    }

    /// A request waits for no answer any more, so its exchange need not go on; the server has a moment to end it.
    fn settle(&mut self, engine: &mut Engine, id: u64) {
        if engine.is_waiting(id) {
            return;
        }
        match self.carriers.get(&id) {
            Some(Carrier::Exchange(exchange)) => {
                let exchange = *exchange;
                if let Some(mut it) = self.exchanges.remove(exchange) {
                    self.linger(engine, exchange, &mut it);
                    self.exchanges.insert(exchange, it);
                }
            }
            Some(Carrier::Timer(due)) => {
                self.later.remove(due);
                self.carriers.remove(&id);
            }
            None => {}
        }
    }

    /// Has an exchange end that is done. Until then a stream may bring other messages, if they are short.
    fn linger(&mut self, engine: &mut Engine, exchange: u64, it: &mut Exchange) {
        if !matches!(it.reply, Reply::Events(_)) || it.reply.buffered() > LINGER_BYTES {
            it.reply = Reply::Ignored;
        }
        if it.let_go.is_none() {
            it.let_go = Some(self.after(engine, LINGER, Later::LetGo(ExchangeId(exchange))));
        }
    }

    /// Drops all that goes on, but for what lingers.
    fn drop_all(&mut self, engine: &mut Engine) {
        self.later.clear();
        self.carriers.clear();
        self.set_waits(engine, None, None);
        // Of what waits, a server that is not gone is owed the answers.
        let closing = engine.is_closing();
        self.waiting.retain(|(_, message)| closing && is_answer(message));
        self.waiting_bytes = self.waiting.iter().map(|(_, message)| message.line().len()).sum();
        for (id, exchange) in self.exchanges.take() {
            if self.lingers(engine, &exchange.purpose) {
                self.exchanges.insert(id, exchange);
            } else {
                self.out.push_back(HttpAction::Drop(ExchangeId(id)));
            }
        }
        self.stream_step(engine, get_stream::Input::Stop);
        self.stood = false;
        (self.stream_id, self.stream_retry, self.barren) = (Vec::new(), None, 0);
    }

    fn open_transport(&mut self, engine: &mut Engine, connection: ConnectionId) {
        self.drop_all(engine);
        self.connection = connection;
        (self.tried_events, self.shutting) = (false, false);
        if let Some(former) = self.session_id.take() {
            self.former = Some(former);
        }
        match &mut self.mode {
            Mode::Streamable => engine.handle_transport(engine.now(), Transport::Opened),
            Mode::Events(endpoint) => {
                *endpoint = None;
                self.get(engine, Purpose::Events { refused: None }, 0);
            }
        }
    }

    /// Ends the session: first the answers that are owed, then the DELETE, each as long as the ladder's step.
    fn shut(&mut self, engine: &mut Engine, how: ShutdownStep) {
        self.drop_all(engine);
        self.shutting = true;
        let has = |is: fn(&Purpose) -> bool| self.exchanges.values().any(|exchange| is(&exchange.purpose));
        if how != ShutdownStep::CloseInput {
            (self.waiting, self.waiting_bytes) = (VecDeque::new(), 0);
        }
        let answers = !self.waiting.is_empty() || has(|purpose| matches!(purpose, Purpose::Message(_)));
        let deleting = has(|purpose| matches!(purpose, Purpose::Delete { .. }));
        if engine.is_closing() {
            // A modern server has no sessions, whatever it named before it turned out to be one, and there is none
            // before `initialize` was answered.
            let legacy = engine.server().is_some_and(|server| server.era() == Era::Legacy);
            let legacy = legacy && engine.has_agreed();
            match (how, self.session_id.clone().filter(|_| legacy)) {
                (ShutdownStep::CloseInput, _) if answers || deleting => return,
                (ShutdownStep::CloseInput | ShutdownStep::Terminate, Some(session)) if !deleting => {
                    return self.delete(engine, &session, None);
                }
                (ShutdownStep::CloseInput | ShutdownStep::Terminate | ShutdownStep::Kill, _) => {}
            }
        }
        for id in self.exchanges.take().into_keys() {
            self.out.push_back(HttpAction::Drop(ExchangeId(id)));
        }
        engine.handle_transport(engine.now(), Transport::Closed { why: "all exchanges are dropped" });
    }

    /// Sets what is waited for before more is sent: the end of the exchange of `notifications/initialized`, and for calls
    /// of tools the stream, until this time.
    pub(super) fn set_waits(&mut self, engine: &mut Engine, initialized: Option<u64>, stream: Option<Time>) {
        (self.initialized, self.stream_wait) = (initialized, stream);
        engine.hold_tools(initialized.is_some() || stream.is_some());
    }

    fn abort(&mut self, id: u64) {
        match self.carriers.remove(&id) {
            Some(Carrier::Exchange(exchange)) if self.drop_exchange(ExchangeId(exchange)).is_some() => {
                self.out.push_back(HttpAction::Drop(ExchangeId(exchange)));
            }
            Some(Carrier::Timer(due)) => {
                self.later.remove(&due);
            }
            // An exchange that ended in the same moment is not dropped.
            Some(Carrier::Exchange(_)) | None => {}
        }
    }

    /// Whether there is room for another exchange whose message has no answer of its own.
    fn may_send_one_way(&self, engine: &Engine) -> bool {
        self.exchanges.one_way().0 < engine.options().limits.in_flight.max(1)
    }

    /// Sends a message as soon as it may be sent.
    fn dispatch(&mut self, engine: &mut Engine, message: Outgoing) {
        // The handshake does not wait for what has no part in it.
        let at_once = message.id().is_some() || message.method() == Some(method::INITIALIZED);
        if at_once || self.waiting.is_empty() && self.may_send_one_way(engine) {
            return self.send(engine, message, 0);
        }
        let limits = &engine.options().limits;
        // There are that many only where the server takes no messages, and then it need not know what was cancelled.
        let full = self.waiting.len() >= limits.output || self.waiting_bytes >= limits.output_bytes;
        if is_answer(&message) || !full {
            let due = engine.now() + engine.options().timeouts.request;
            self.waiting_bytes = self.waiting_bytes.saturating_add(message.line().len());
            self.waiting.push_back((due, message));
        }
    }

    fn pop_waiting(&mut self) -> Option<(Time, Outgoing)> {
        let (due, message) = self.waiting.pop_front()?;
        self.waiting_bytes = self.waiting_bytes.saturating_sub(message.line().len());
        if self.waiting.is_empty() {
            // A burst keeps no room.
            self.waiting = VecDeque::new();
        }
        Some((due, message))
    }

    /// What every request has, now.
    fn common(&self, engine: &Engine) -> Common<'_> {
        let version = engine.server().map(|server| server.version).filter(|_| engine.has_handshake());
        Common { session: self.session_id.as_ref(), version }
    }

    fn start(
        &mut self,
        engine: &mut Engine,
        purpose: Purpose,
        url: Address,
        redirects: u8,
        request: http::Request<Vec<u8>>,
    ) -> u64 {
        self.last_exchange = self.last_exchange.saturating_add(1);
        let exchange = self.last_exchange;
        if let Some(id) = purpose.carried() {
            self.carriers.insert(id, Carrier::Exchange(exchange));
        }
        let of = match &purpose {
            Purpose::Message(message) => message.of(),
            Purpose::Resume { id, .. } => engine.handle_of(*id),
            Purpose::Stream | Purpose::Events { .. } | Purpose::Delete { .. } => None,
        };
        self.exchanges
            .insert(exchange, Exchange { purpose, url, redirects, status: 0, reply: Reply::None, let_go: None });
        self.out.push_back(HttpAction::Request(HttpRequest { exchange: ExchangeId(exchange), of, request }));
        exchange
    }

    /// Posts a message.
    fn send(&mut self, engine: &mut Engine, message: Outgoing, redirects: u8) {
        let due = engine.now() + engine.options().timeouts.request;
        self.send_by(engine, due, message, redirects);
    }

    /// Posts a message; where it has no answer of its own, its exchange is let go at `due`.
    fn send_by(&mut self, engine: &mut Engine, due: Time, message: Outgoing, redirects: u8) {
        let url = match &self.mode {
            Mode::Events(Some(endpoint)) => endpoint.clone(),
            Mode::Events(None) | Mode::Streamable => self.url.clone(),
        };
        let modern = message.version().is_some_and(|version| version.era() == Era::Modern);
        let opening = message.method() == Some(method::INITIALIZE);
        if opening {
            // What an `initialize` before this one was given is no session's.
            self.session_id = None;
        }
        let version = message.version().filter(|_| !opening);
        let session = self.session_id.as_ref().filter(|_| !modern && !opening);
        let request = request::post(&url, &message, Common { session, version }, engine.catalog());
        let (initialized, one_way) = (message.method() == Some(method::INITIALIZED), message.id().is_none());
        let exchange = self.start(engine, Purpose::Message(message), url, redirects, request);
        if one_way {
            // Nobody else gives up what has no request.
            let due = self.at(due, Later::LetGo(ExchangeId(exchange)));
            self.exchanges.set_let_go(exchange, due);
        }
        if initialized {
            self.set_waits(engine, Some(exchange), self.stream_wait);
        }
    }

    /// Posts a request again that was refused for now, under a new id.
    fn restart(&mut self, engine: &mut Engine, id: u64) {
        self.carriers.remove(&id);
        if let Some(message) = engine.restart(id) {
            self.send(engine, message, 0);
        }
    }

    /// Asks for a stream.
    fn get(&mut self, engine: &mut Engine, purpose: Purpose, redirects: u8) {
        let last_id = match &purpose {
            Purpose::Resume { last_id, .. } => Some(&**last_id),
            Purpose::Stream => Some(&*self.stream_id).filter(|id| !id.is_empty()),
            Purpose::Events { .. } | Purpose::Message(_) | Purpose::Delete { .. } => None,
        };
        let request = request::get(&self.url, self.common(engine), last_id);
        self.start(engine, purpose, self.url.clone(), redirects, request);
    }

    fn delete(&mut self, engine: &mut Engine, session: &HeaderValue, then: Option<u64>) {
        let version = engine.server().map(|server| server.version);
        let common = Common { session: Some(session), version };
        let request = request::delete(&self.url, common);
        self.start(engine, Purpose::Delete { then }, self.url.clone(), 0, request);
    }

    fn after(&mut self, engine: &mut Engine, wait: Duration, what: Later) -> (Time, u64) {
        self.at(engine.now() + wait, what)
    }

    fn at(&mut self, due: Time, what: Later) -> (Time, u64) {
        self.last_later = self.last_later.saturating_add(1);
        let due = (due, self.last_later);
        self.later.insert(due, what);
        due
    }

    /// As [`Self::after`], for a request, which has no exchange until then.
    fn after_for(&mut self, engine: &mut Engine, id: u64, wait: Duration, what: Later) {
        let due = self.after(engine, wait, what);
        self.carriers.insert(id, Carrier::Timer(due));
    }

    fn stream_step(&mut self, engine: &mut Engine, input: get_stream::Input) {
        let row = get_stream::take(self.stream, input);
        self.stream = row.next;
        if let Verdict::Quirk(kind) = row.verdict {
            let detail = "the GET of a stream was refused with another status than 405, or answered with no stream";
            engine.transport_quirk(kind, None, detail);
        }
        for effect in row.effects {
            match effect {
                get_stream::Effect::Get => {
                    self.get(engine, Purpose::Stream, 0);
                }
                get_stream::Effect::Drop => {
                    let ids = self.exchanges.iter().filter(|(_, it)| matches!(it.purpose, Purpose::Stream));
                    for id in ids.map(|(id, _)| id).collect::<Vec<_>>() {
                        self.exchanges.remove(id);
                        self.out.push_back(HttpAction::Drop(ExchangeId(id)));
                    }
                }
                get_stream::Effect::Arm => {
                    // Longer each time, where the server does not say how long.
                    let factor = 1_u32.checked_shl(self.barren).unwrap_or(u32::MAX);
                    self.barren = self.barren.saturating_add(1).min(16);
                    let own = RETRY.saturating_mul(factor).min(LONGEST_RETRY);
                    self.after(engine, self.stream_retry.unwrap_or(own).max(SHORTEST_RETRY), Later::Stream);
                }
                get_stream::Effect::Expire => {
                    engine.handle_report(engine.now(), Report::Expired { id: None });
                }
            }
        }
    }

    /// How much is kept of the answer of an exchange that was taken out of `exchanges`, before it has to end.
    fn room(&self, engine: &Engine) -> usize {
        engine.options().limits.buffered.saturating_sub(self.exchanges.buffered())
    }

    /// How much of an answer is kept: somewhat more than a message may have, so that the session sees what it has to
    /// refuse.
    fn limit(&self, engine: &Engine) -> usize {
        engine.options().limits.message.bytes.saturating_add(MessageLimits::SLACK).saturating_add(1)
    }
}

/// Whether an action has to wait for the answer to `notifications/initialized`, while there is none.
fn is_held(action: &Output, unanswered: bool) -> bool {
    unanswered && matches!(action, Output::Send(message) if !is_answer(message))
}

/// Whether a message answers something that the server asked.
fn is_answer(message: &Outgoing) -> bool {
    message.id().is_none() && message.method().is_none()
}
