//! One session with one server: messages and time go in, actions come out.

mod action;
mod ask;
mod calls;
mod classify;
mod discovery;
mod encode;
mod event;
mod exchange;
#[cfg(feature = "http")]
mod face;
mod handshake;
mod keepalive;
mod ledger;
mod link;
mod options;
mod pump;
mod refresh;
mod requests;
mod sampling;
mod server;
mod subscriptions;
mod timers;
mod transport;
mod walk;

pub use action::{Action, Open, Outgoing, ShutdownStep};
pub use event::{
    Cause, Challenge, CommandError, Event, Failure, FailureKind, InputRequest, Outcome, Quirk, Recovery, RequestId,
    ServerRequestId,
};
pub use options::{
    Eras, Keepalive, KeepaliveMethod, KnownEra, Limits, ListErrors, LogLevel, Options, Reconnect, SamplingPolicy,
    Timeouts, Tolerance, Wire,
};
pub use requests::{Reference, Request, TraceContext};
pub use server::Server;
pub use transport::{OpenFailure, Transport};
pub use walk::{FamilyReport, FamilyStatus};

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::num::NonZero;
use serde_json::value::RawValue;

use self::ask::Asks;
use self::handshake::Handshake;
use self::keepalive::Liveness;
use self::ledger::Requests;
use self::sampling::Sampled;
use self::subscriptions::Subscriptions;
use self::timers::{Timer, Timers};
use self::walk::Slot;
use crate::Time;
use crate::catalog::{Catalog, List};
use crate::machine::{QuirkKind, gate, link as link_machine, request, shutdown};
use crate::protocol::{Capability, Family, PerFamily, ProtocolVersion, method};

/// How much of what came was of no use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Answers to requests that had timed out or were cancelled.
    pub late_answers: u64,
    /// Notifications and requests that were left out: too much waited already, or progress was told of too often.
    pub left_out: u64,
}

/// A session with one server, through as many connections as it takes.
///
/// It does nothing by itself: the embedder carries out what [`poll`](Self::poll) says, and reports what happens
/// through the `handle_*` methods, each with the time it is. Those never fail, whatever comes. What the embedder
/// asks for returns a [`CommandError`] where it cannot be, and then nothing changed.
#[derive(Clone, Debug)]
pub struct Session {
    options: Arc<Options>,
    /// Where it is not the one in the options: they are shared, and name no server, or they name it by its address.
    server_name: Option<Arc<str>>,
    now: Time,
    rng: fastrand::Rng,
    link: link_machine::State,
    ladder: shutdown::State,
    handshake: Handshake,
    liveness: Liveness,
    families: PerFamily<Slot>,
    catalog: Catalog,
    server: Option<Box<Server>>,
    requests: Requests,
    subscriptions: Subscriptions,
    log_level: Option<LogLevel>,
    /// Few sessions have any, and not for long.
    asks: Option<Box<Asks>>,
    last_ask: u64,
    sampled: Option<Box<Sampled>>,
    held: Option<Box<Held>>,
    quirks: Vec<Quirk>,
    timers: Timers,
    out: VecDeque<Action>,
    /// How many events were ever put into `out`.
    events: u64,
    /// Bytes of what the server sent unasked, and of the answers to it, in `out`.
    out_bytes: usize,
    epoch: u32,
    losses: u32,
    /// How often the server forgot the session since a request of the embedder's was answered.
    expiries: u32,
    /// The request in whose HTTP exchange the message at hand came.
    exchange: Option<NonZero<u64>>,
    known_era: Option<KnownEra>,
    /// The handshake under way follows one that closed on the probe.
    reopened: bool,
    was_ready: bool,
    ready_since: Option<Time>,
    proven: bool,
    failure: Option<Failure>,
    stats: Stats,
}

/// Notifications that wait for the session to be ready. Few sessions have any, and not for long.
#[derive(Clone, Debug, Default)]
struct Held {
    bytes: usize,
    notifications: Vec<(Box<str>, Option<Box<RawValue>>)>,
}

impl Session {
    /// A session that is not open yet.
    pub fn new(options: impl Into<Arc<Options>>) -> Self {
        let options = options.into();
        Self {
            now: Time::ZERO,
            rng: fastrand::Rng::with_seed(options.seed),
            link: link_machine::State::Idle,
            ladder: shutdown::State::Up,
            handshake: Handshake::default(),
            liveness: Liveness::default(),
            families: PerFamily::default(),
            catalog: Catalog::default(),
            server: None,
            requests: Requests::default(),
            subscriptions: Subscriptions::default(),
            log_level: options.log_level,
            asks: None,
            last_ask: 0,
            sampled: None,
            held: None,
            quirks: Vec::new(),
            timers: Timers::default(),
            out: VecDeque::new(),
            events: 0,
            out_bytes: 0,
            epoch: 0,
            losses: 0,
            expiries: 0,
            exchange: None,
            known_era: options.known_era,
            reopened: false,
            was_ready: false,
            ready_since: None,
            proven: false,
            failure: None,
            stats: Stats::default(),
            server_name: options::without_secrets(&options.server),
            options,
        }
    }

    /// One of many sessions with the same options, but for what is its own.
    pub(crate) fn one_of_many(
        options: &Arc<Options>,
        server: Arc<str>,
        seed: u64,
        known_era: Option<KnownEra>,
    ) -> Self {
        Self {
            server_name: Some(options::without_secrets(&server).unwrap_or(server)),
            rng: fastrand::Rng::with_seed(seed),
            known_era: known_era.or(options.known_era),
            ..Self::new(Arc::clone(options))
        }
    }

    /// Asks for the connection: the first one, or another one at once while the session waits or is parked.
    ///
    /// # Errors
    /// [`CommandError::AlreadyOpen`], [`CommandError::Closed`].
    pub fn open(&mut self, now: Time) -> Result<(), CommandError> {
        self.command(now, link_machine::Input::Open, CommandError::AlreadyOpen)
    }

    /// Asks for the end: requests end at once, then the transport is shut, step by step.
    ///
    /// # Errors
    /// [`CommandError::Closed`].
    pub fn close(&mut self, now: Time) -> Result<(), CommandError> {
        self.command(now, link_machine::Input::Close, CommandError::Closed)
    }

    /// Makes a request, as soon as the session is ready.
    ///
    /// # Errors
    /// [`CommandError::Closed`], [`CommandError::NotAdvertised`], [`CommandError::Reserved`], [`CommandError::ParamsNotObject`],
    /// [`CommandError::TooManyRequests`].
    pub fn request(&mut self, now: Time, request: Request) -> Result<RequestId, CommandError> {
        self.check_open()?;
        if method::is_engines(&request.method) {
            return Err(CommandError::Reserved { method: (&*request.method).into() });
        }
        if request.params.as_ref().is_some_and(|params| !params.get().starts_with('{')) {
            return Err(CommandError::ParamsNotObject);
        }
        if self.is_ready()
            && let Some(capability) = self.missing_capability(&request.method)
        {
            return Err(CommandError::NotAdvertised {
                server: self.server_name().into(),
                method: (&*request.method).into(),
                capability: capability.as_str(),
            });
        }
        let limits = &self.options.limits;
        // What waits for input or a token is in no queue, and counts all the same.
        let open = self.requests.len() >= limits.queued.saturating_add(limits.in_flight);
        if open || self.requests.queued_calls() >= limits.queued {
            return Err(CommandError::TooManyRequests { limit: limits.queued });
        }
        if self.out.len() >= limits.output {
            return Err(CommandError::TooManyRequests { limit: limits.output });
        }
        self.advance(now);
        let timeout = request.timeout.unwrap_or(self.options.timeouts.request);
        let max_timeout = request.max_timeout.unwrap_or(self.options.timeouts.request_max).max(timeout);
        let id = self.requests.insert_call(request, timeout, max_timeout, self.now);
        self.pump();
        Ok(id)
    }

    /// Gives up a request; it ends [`Outcome::Cancelled`].
    ///
    /// # Errors
    /// [`CommandError::UnknownRequest`].
    pub fn cancel(&mut self, now: Time, request: RequestId) -> Result<(), CommandError> {
        let Some(id) = self.requests.wire_id(request) else { return Err(CommandError::UnknownRequest) };
        self.advance(now);
        self.call_step(id, request::Input::Cancelled);
        self.pump();
        Ok(())
    }

    /// Whether a request is open, and nothing of it went out.
    pub(crate) fn is_unsent(&self, request: RequestId) -> bool {
        let open = self.requests.wire_id(request).and_then(|id| self.requests.get(id));
        open.is_some_and(|open| matches!(open.phase, request::State::Queued | request::State::Written))
    }

    /// Sends a notification, where there is a connection that is ready.
    ///
    /// # Errors
    /// [`CommandError::Closed`], [`CommandError::NotReady`], [`CommandError::ParamsNotObject`], [`CommandError::Reserved`] for what the
    /// engine sends itself, [`CommandError::TooManyRequests`] where too much waits to be polled.
    pub fn notify(
        &mut self,
        now: Time,
        method: impl Into<Cow<'static, str>>,
        params: Option<&RawValue>,
    ) -> Result<(), CommandError> {
        let method = method.into();
        if matches!(&*method, method::INITIALIZED | method::CANCELLED) {
            return Err(CommandError::Reserved { method: (&*method).into() });
        }
        if params.is_some_and(|params| !params.get().starts_with('{')) {
            return Err(CommandError::ParamsNotObject);
        }
        self.check_open()?;
        if !self.is_ready() {
            return Err(CommandError::NotReady);
        }
        if self.is_undelivered_full() {
            return Err(CommandError::TooManyRequests { limit: self.options.limits.output });
        }
        self.advance(now);
        let write = params.map(|params| |out: &mut Vec<u8>| out.extend_from_slice(params.get().as_bytes()));
        let message = self.encode_notification(method, write);
        self.out.push_back(Action::Send(message));
        Ok(())
    }

    /// Takes what the server sent: one message, or a batch.
    pub fn handle_message(&mut self, now: Time, bytes: &[u8]) {
        self.advance(now);
        self.receive(bytes);
        self.pump();
    }

    /// Takes what the server sent in the HTTP exchange of the request of this id. What answers nothing by its own id
    /// answers that one.
    pub fn handle_exchange(&mut self, now: Time, id: u64, bytes: &[u8]) {
        self.exchange = NonZero::new(id);
        self.handle_message(now, bytes);
        self.exchange = None;
    }

    /// Takes what happened to the transport.
    pub fn handle_transport(&mut self, now: Time, event: Transport<'_>) {
        self.advance(now);
        self.transport(event);
        self.pump();
    }

    /// Takes that time went by. A call too many, or too early, does nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        self.advance(now);
        // Each once: where time is at its end, whatever is armed anew is due at once.
        if self.timers.next().is_some_and(|at| at <= self.now) {
            for timer in Timer::ALL {
                if self.timers.take_due(timer, self.now) {
                    self.fire(timer);
                }
            }
        }
        for id in self.requests.expired(self.now) {
            self.expire(id);
        }
        self.expire_asks();
        self.pump();
    }

    /// The next thing to do, if there is any. It only takes it from a queue.
    #[must_use = "what it says has to be done"]
    pub fn poll(&mut self) -> Option<Action> {
        let action = self.out.pop_front()?;
        self.polled(&action);
        Some(action)
    }

    /// What waits to be polled.
    pub(crate) fn pending(&self) -> impl DoubleEndedIterator<Item = &Action> {
        self.out.iter()
    }

    /// How many events there were, those that wait to be polled among them. No event is taken back.
    pub(crate) const fn events(&self) -> u64 {
        self.events
    }

    fn polled(&mut self, action: &Action) {
        self.out_bytes = self.out_bytes.saturating_sub(action.unasked_bytes());
        if let Action::Send(Outgoing { id: Some(id), .. }) = action {
            self.requests.step(*id, request::Input::Hand);
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is wanted next: at once while there is something to poll,
    /// never where it is `None`. What is due is served before more input is taken: input does not do it, and a server
    /// may never fall silent.
    pub fn deadline(&self) -> Option<Time> {
        if !self.out.is_empty() {
            return Some(self.now);
        }
        self.timers_deadline()
    }

    fn timers_deadline(&self) -> Option<Time> {
        [self.timers.next(), self.requests.next_deadline(), self.next_ask_deadline()].into_iter().flatten().min()
    }

    /// Whether handshake and discovery are done, and the connection is there.
    pub fn is_ready(&self) -> bool {
        self.link == link_machine::State::Ready
    }

    /// Whether the session came to its end, and all of it was polled.
    pub fn is_closed(&self) -> bool {
        self.link == link_machine::State::Closed && self.out.is_empty()
    }

    /// What the server said of itself, as soon as the handshake is done; on reconnects, what it said last.
    pub fn server(&self) -> Option<&Server> {
        self.server.as_deref()
    }

    /// What the server offers, as it was last listed.
    pub const fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Has the items of a family held where others hold the same.
    pub(crate) fn share_list(&mut self, family: Family, list: Arc<List>) {
        self.catalog.share(family, list);
    }

    /// What became of a family.
    pub fn family(&self, family: Family) -> FamilyReport {
        let slot = self.families.get(family);
        FamilyReport {
            status: slot.status,
            pages: slot.pages,
            stale: slot.stale,
            watched: self.is_told_of(family),
            fresh_until: slot.fresh_until,
        }
    }

    /// What went wrong with a family's list last, in the server's words where it had any.
    pub fn list_error(&self, family: Family) -> Option<&str> {
        self.families.get(family).words.as_deref()
    }

    /// The server's deviations so far, in the order in which they were seen.
    pub fn quirks(&self) -> &[Quirk] {
        &self.quirks
    }

    /// Which era the server turned out to have, to be saved and given back in
    /// [`Options::known_era`]; `None` until a handshake was done.
    pub const fn known_era(&self) -> Option<KnownEra> {
        self.known_era
    }

    /// How much of what came was of no use.
    pub const fn stats(&self) -> Stats {
        self.stats
    }

    /// The server's name in messages for people; of an address no more than may be shown.
    pub fn server_name(&self) -> &str {
        self.server_name.as_deref().unwrap_or(&self.options.server)
    }

    /// How the session was set up. In a [`Hub`](crate::host::hub::Hub), how sessions like it are: its name is
    /// [`server_name`](Self::server_name), its seed and its verdict are its own.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Time never runs backwards in here, whatever the embedder's clock does.
    fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    /// Whether there is a connection whose handshake is done.
    fn is_established(&self) -> bool {
        matches!(self.link, link_machine::State::Connecting | link_machine::State::Ready) && self.handshake.is_over()
    }

    /// Which of its connections the session has, where it has one that takes messages.
    pub(crate) fn connection(&self) -> Option<u32> {
        matches!(self.link, link_machine::State::Connecting | link_machine::State::Ready).then_some(self.epoch)
    }

    fn version(&self) -> Option<ProtocolVersion> {
        self.server.as_ref().map(|server| server.version)
    }

    fn check_open(&self) -> Result<(), CommandError> {
        match self.link {
            link_machine::State::Closing | link_machine::State::Closed => Err(CommandError::Closed),
            link_machine::State::Idle
            | link_machine::State::Opening
            | link_machine::State::Connecting
            | link_machine::State::Ready
            | link_machine::State::Draining
            | link_machine::State::Retiring
            | link_machine::State::Waiting
            | link_machine::State::Parked => Ok(()),
        }
    }

    /// The capability that the method needs, where the gate withholds it.
    fn missing_capability(&self, method: &str) -> Option<Capability> {
        let capability = Capability::needed_for(method)?;
        let declared = discovery::declaration(self.server.as_ref()?.has(capability));
        let families = Family::of(capability).iter();
        let known = families.map(|family| self.families.get(*family).known()).min().unwrap_or(gate::Known::Unasked);
        let decision = gate::take(gate::Purpose::Call, declared, gate::Policy::Strict, known);
        (!decision.is_allowed()).then_some(capability)
    }

    /// Whether so much waits to be polled that what the server sends unasked is left out.
    fn is_full(&self) -> bool {
        let limits = &self.options.limits;
        self.out.len() >= limits.output || self.out_bytes >= limits.output_bytes
    }

    /// Whether so much waits to be polled, or to be delivered once it was, that no more messages are to be made that
    /// have no answer of their own.
    fn is_undelivered_full(&self) -> bool {
        let (count, bytes) = (self.requests.http.undelivered, self.requests.http.undelivered_bytes);
        let limits = &self.options.limits;
        self.out.len().saturating_add(count) >= limits.output
            || self.out_bytes.saturating_add(bytes) >= limits.output_bytes
    }

    fn push(&mut self, action: Action) {
        self.out_bytes = self.out_bytes.saturating_add(action.unasked_bytes());
        self.out.push_back(action);
    }

    fn event(&mut self, event: Event) {
        self.events = self.events.saturating_add(1);
        self.push(Action::Event(event));
    }

    /// Takes actions back that the embedder did not take yet.
    fn take_back(&mut self, unwanted: impl Fn(&Action) -> bool) {
        self.out.retain(|action| !unwanted(action));
        self.out_bytes = self.out.iter().map(Action::unasked_bytes).sum();
    }

    /// Records a deviation, once for its kind and method.
    fn quirk(&mut self, kind: QuirkKind, family: Option<Family>, method: Option<&str>, detail: impl Into<Box<str>>) {
        let (detail, method) = (detail.into(), method.map(classify::excerpt));
        if self.known_quirk(kind, method.as_deref()).is_none() {
            let detail = classify::excerpt(&detail).into();
            self.record(Quirk { kind, family, method: method.map(Box::from), detail });
        }
    }

    /// Records what is wrong with the items of a list, in words of bounded length. Further pages of the list add to them.
    fn item_quirk(&mut self, kind: QuirkKind, family: Family, detail: Box<str>) {
        let method = family.list_method();
        match self.known_quirk(kind, Some(method)) {
            Some(known) => known.detail = detail,
            None => self.record(Quirk { kind, family: Some(family), method: Some(method.into()), detail }),
        }
    }

    fn known_quirk(&mut self, kind: QuirkKind, method: Option<&str>) -> Option<&mut Quirk> {
        self.quirks.iter_mut().find(|quirk| quirk.kind == kind && quirk.method.as_deref() == method)
    }

    fn record(&mut self, quirk: Quirk) {
        let over = self.link == link_machine::State::Closed;
        if !over && self.quirks.len() < self.options.limits.quirks {
            self.quirks.push(quirk.clone());
            self.event(Event::Quirk(quirk));
        }
    }
}
