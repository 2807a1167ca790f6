//! The engine behind every client: its state, its commands and its getters.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::num::NonZero;
use serde_json::value::RawValue;

use super::ask::Asks;
use super::handshake::Handshake;
use super::keepalive::Liveness;
use super::ledger::Requests;
use super::sampling::Sampled;
use super::subscriptions::Subscriptions;
use super::timers::{Timer, Timers};
use super::walk::Slot;
use super::{
    CommandError, ConnectionId, Event, Failure, FamilyReport, KnownEra, LogLevel, Options, Outgoing, Output, Quirk,
    Request, RequestId, Server, Transport, Wire, classify, discovery, options,
};
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

/// The part of a [`Client`](crate::Client) that does not depend on its binding. A client dereferences to it: these are
/// its getters.
#[derive(Clone, Debug)]
pub struct Engine {
    pub(super) options: Arc<Options>,
    pub(super) wire: Wire,
    /// Where it is not the one in the options: they are shared, and name no server, or they name it by its address.
    pub(super) server_name: Option<Arc<str>>,
    pub(super) now: Time,
    pub(super) rng: fastrand::Rng,
    pub(super) link: link_machine::State,
    pub(super) ladder: shutdown::State,
    pub(super) handshake: Handshake,
    pub(super) liveness: Liveness,
    pub(super) families: PerFamily<Slot>,
    pub(super) catalog: Catalog,
    pub(super) server: Option<Box<Server>>,
    pub(super) requests: Requests,
    pub(super) subscriptions: Subscriptions,
    pub(super) log_level: Option<LogLevel>,
    /// Few sessions have any, and not for long.
    pub(super) asks: Option<Box<Asks>>,
    pub(super) last_ask: u64,
    pub(super) sampled: Option<Box<Sampled>>,
    pub(super) held: Option<Box<Held>>,
    pub(super) quirks: Vec<Quirk>,
    pub(super) timers: Timers,
    pub(super) out: VecDeque<Output>,
    /// Bytes of what the server sent unasked, and of the answers to it, in `out`.
    pub(super) out_bytes: usize,
    pub(super) connection: ConnectionId,
    pub(super) losses: u32,
    /// How often the server forgot the session since a request of the embedder's was answered.
    pub(super) expiries: u32,
    /// The request in whose HTTP exchange the message at hand came.
    pub(super) exchange: Option<NonZero<u64>>,
    pub(super) known_era: Option<KnownEra>,
    /// The handshake under way follows one that closed on the probe.
    pub(super) reopened: bool,
    pub(super) was_ready: bool,
    pub(super) ready_since: Option<Time>,
    pub(super) proven: bool,
    pub(super) failure: Option<Failure>,
    pub(super) stats: Stats,
}

/// Notifications that wait for the session to be ready. Few sessions have any, and not for long.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    pub(super) bytes: usize,
    pub(super) notifications: Vec<(Box<str>, Option<Box<RawValue>>)>,
}

impl Engine {
    /// A session that is not open yet.
    pub(crate) fn new(options: Arc<Options>, wire: Wire, seed: u64) -> Self {
        Self {
            wire,
            now: Time::ZERO,
            rng: fastrand::Rng::with_seed(seed),
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
            out_bytes: 0,
            connection: ConnectionId::default(),
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

    /// A client of this server, with options that clients of other servers share.
    pub(crate) fn with_shared(
        options: &Arc<Options>,
        server: Arc<str>,
        wire: Wire,
        seed: u64,
        known_era: Option<KnownEra>,
    ) -> Self {
        Self {
            server_name: Some(options::without_secrets(&server).unwrap_or(server)),
            known_era: known_era.or(options.known_era),
            ..Self::new(Arc::clone(options), wire, seed)
        }
    }

    /// Asks for the connection: the first one, or another one at once while the session waits or is parked.
    ///
    /// # Errors
    /// [`CommandError::AlreadyOpen`], [`CommandError::Closed`].
    pub(crate) fn open(&mut self, now: Time) -> Result<(), CommandError> {
        self.command(now, link_machine::Input::Open, CommandError::AlreadyOpen)
    }

    /// Asks for the end: requests end at once, then the transport is shut, step by step.
    ///
    /// # Errors
    /// [`CommandError::Closed`].
    pub(crate) fn close(&mut self, now: Time) -> Result<(), CommandError> {
        self.command(now, link_machine::Input::Close, CommandError::Closed)
    }

    /// Makes a request, as soon as the session is ready.
    ///
    /// # Errors
    /// [`CommandError::Closed`], [`CommandError::NotAdvertised`], [`CommandError::Reserved`], [`CommandError::ParamsNotObject`],
    /// [`CommandError::TooManyRequests`].
    pub(crate) fn request(&mut self, now: Time, request: Request) -> Result<RequestId, CommandError> {
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
        if self.out.len().saturating_add(self.requests.http.unpolled) >= limits.output {
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
    pub(crate) fn cancel(&mut self, now: Time, request: RequestId) -> Result<(), CommandError> {
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
    pub(crate) fn notify(
        &mut self,
        now: Time,
        method: Cow<'static, str>,
        params: Option<&RawValue>,
    ) -> Result<(), CommandError> {
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
        self.out.push_back(Output::Send(message));
        Ok(())
    }

    /// Takes what the server sent: one message, or a batch.
    pub(crate) fn handle_message(&mut self, now: Time, bytes: &[u8]) {
        self.advance(now);
        self.receive(bytes);
        self.pump();
    }

    /// Takes what happened to the transport.
    pub(crate) fn handle_transport(&mut self, now: Time, event: Transport<'_>) {
        self.advance(now);
        self.transport(event);
        self.pump();
    }

    /// Takes that time went by. A call too many, or too early, does nothing.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
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
    pub(crate) fn poll(&mut self) -> Option<Output> {
        let action = self.out.pop_front()?;
        self.polled(&action);
        Some(action)
    }

    pub(super) fn polled(&mut self, action: &Output) {
        self.out_bytes = self.out_bytes.saturating_sub(action.unasked_bytes());
        if let Output::Send(Outgoing { id: Some(id), .. }) = action {
            self.requests.step(*id, request::Input::Hand);
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is wanted next: at once while there is something to poll,
    /// never where it is `None`. What is due is served before more input is taken: input does not do it, and a server
    /// may never fall silent.
    pub(crate) fn deadline(&self) -> Option<Time> {
        if !self.out.is_empty() {
            return Some(self.now);
        }
        self.timers_deadline()
    }

    pub(super) fn timers_deadline(&self) -> Option<Time> {
        [self.timers.next(), self.requests.next_deadline(), self.next_ask_deadline()].into_iter().flatten().min()
    }

    /// Whether handshake and discovery are done, and the connection is there.
    pub fn is_ready(&self) -> bool {
        self.link == link_machine::State::Ready
    }

    /// Whether the session came to its end, and all of it was polled.
    pub(crate) fn is_closed(&self) -> bool {
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
    pub(super) fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    /// Whether there is a connection whose handshake is done.
    pub(super) fn is_established(&self) -> bool {
        matches!(self.link, link_machine::State::Connecting | link_machine::State::Ready) && self.handshake.is_over()
    }

    /// Which of its connections the session has, where it has one that takes messages.
    pub(crate) fn live_connection(&self) -> Option<ConnectionId> {
        matches!(self.link, link_machine::State::Connecting | link_machine::State::Ready).then_some(self.connection)
    }

    /// The connection that the client has, asks for, or had last.
    pub const fn connection(&self) -> ConnectionId {
        self.connection
    }

    pub(super) fn version(&self) -> Option<ProtocolVersion> {
        self.server.as_ref().map(|server| server.version)
    }

    pub(super) fn check_open(&self) -> Result<(), CommandError> {
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
    pub(super) fn missing_capability(&self, method: &str) -> Option<Capability> {
        let capability = Capability::needed_for(method)?;
        let declared = discovery::declaration(self.server.as_ref()?.has(capability));
        let families = Family::of(capability).iter();
        let known = families.map(|family| self.families.get(*family).known()).min().unwrap_or(gate::Known::Unasked);
        let decision = gate::take(gate::Purpose::Call, declared, gate::Policy::Strict, known);
        (!decision.is_allowed()).then_some(capability)
    }

    /// Whether so much waits to be polled that what the server sends unasked is left out.
    pub(super) fn is_full(&self) -> bool {
        self.is_full_beside(0, 0)
    }

    /// Whether so much waits to be polled, or to be delivered once it was, that no more messages are to be made that
    /// have no answer of their own.
    pub(super) fn is_undelivered_full(&self) -> bool {
        self.is_full_beside(self.requests.http.undelivered, self.requests.http.undelivered_bytes)
    }

    fn is_full_beside(&self, count: usize, bytes: usize) -> bool {
        let (limits, http) = (&self.options.limits, &self.requests.http);
        self.out.len().saturating_add(http.unpolled).saturating_add(count) >= limits.output
            || self.out_bytes.saturating_add(http.unpolled_bytes).saturating_add(bytes) >= limits.output_bytes
    }

    pub(super) fn push(&mut self, action: Output) {
        self.out_bytes = self.out_bytes.saturating_add(action.unasked_bytes());
        self.out.push_back(action);
    }

    pub(super) fn event(&mut self, event: Event) {
        self.push(Output::Event(event));
    }

    /// Takes actions back that the embedder did not take yet.
    pub(super) fn take_back(&mut self, unwanted: impl Fn(&Output) -> bool) {
        self.out.retain(|action| !unwanted(action));
        self.out_bytes = self.out.iter().map(Output::unasked_bytes).sum();
    }

    /// Records a deviation, once for its kind and method.
    pub(super) fn quirk(
        &mut self,
        kind: QuirkKind,
        family: Option<Family>,
        method: Option<&str>,
        detail: impl Into<Box<str>>,
    ) {
        let (detail, method) = (detail.into(), method.map(classify::excerpt));
        if self.known_quirk(kind, method.as_deref()).is_none() {
            let detail = classify::excerpt(&detail).into();
            self.record(Quirk { kind, family, method: method.map(Box::from), detail });
        }
    }

    /// Records what is wrong with the items of a list, in words of bounded length. Further pages of the list add to them.
    pub(super) fn item_quirk(&mut self, kind: QuirkKind, family: Family, detail: Box<str>) {
        let method = family.list_method();
        match self.known_quirk(kind, Some(method)) {
            Some(known) => known.detail = detail,
            None => self.record(Quirk { kind, family: Some(family), method: Some(method.into()), detail }),
        }
    }

    pub(super) fn known_quirk(&mut self, kind: QuirkKind, method: Option<&str>) -> Option<&mut Quirk> {
        self.quirks.iter_mut().find(|quirk| quirk.kind == kind && quirk.method.as_deref() == method)
    }

    pub(super) fn record(&mut self, quirk: Quirk) {
        let over = self.link == link_machine::State::Closed;
        if !over && self.quirks.len() < self.options.limits.quirks {
            self.quirks.push(quirk.clone());
            self.event(Event::Quirk(quirk));
        }
    }
}
