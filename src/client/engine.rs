//! The engine behind every client: its components, its getters, and the router, which passes messages, timers, commands
//! and signals to the components. It is the only part that sees all of them.

use alloc::borrow::Cow;
use alloc::boxed::Box;
#[cfg(feature = "snapshot")]
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use serde_json::value::RawValue;

use super::core::{Core, FallBack, Signal, Signals, Stage, Timer};
use super::handshake::{self, Handshake, Via, detect_era_change};
use super::keepalive::Keepalive;
use super::link::Link;
use super::lists::{ListFailure, Lists};
use super::notifications::{
    Notifications, families_of_change, id_of_progress, notify, on_level_failed, on_progress, report, route, send_level,
    set_level,
};
use super::request::{Block, Purpose};
use super::result_type::complete;
use super::server::Freshness;
use super::server_requests::{ServerRequests, set_roots};
use super::subscriptions::Subscriptions;
use super::{
    Command, CommandError, ConnectionId, Failure, FamilyReport, KnownEra, Options, Outgoing, Output, Quirk, Request,
    RequestError, RequestId, Server, Stats, Transport, Wire, calls,
};
use crate::Time;
use crate::catalog::{Catalog, List};
use crate::jsonrpc::{
    self, Body, Broken, Decoded, Deviations, ErrorObject, Incoming, Json, Message, Noise, ResponseId, Spans,
};
use crate::machine::handshake::Input as HandshakeInput;
use crate::machine::link::shutdown;
use crate::machine::request::Match;
use crate::machine::server::notification::Route;
use crate::machine::{QuirkKind, gate, link, request};
use crate::protocol::{CacheScope, Family, ProtocolVersion, method};
use crate::text::{excerpt, excerpt_at, excerpt_of};

/// The part of a [`Client`](crate::Client) that does not depend on its binding. A client dereferences to it: these are
/// its getters.
#[derive(Clone, Debug)]
pub struct Engine {
    pub(super) core: Core,
    pub(super) link: Link,
    pub(super) connection: Connection,
    pub(super) lists: Lists,
    pub(super) subscriptions: Subscriptions,
    pub(super) server_requests: ServerRequests,
}

/// What belongs to one connection, and is dropped with it. [`Lists`] and [`Subscriptions`] have parts of their own.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Connection {
    pub(super) handshake: Handshake,
    pub(super) keepalive: Keepalive,
    pub(super) freshness: Freshness,
    pub(super) notifications: Notifications,
}

impl Engine {
    pub(crate) fn new(options: Arc<Options>, wire: Wire, seed: u64) -> Self {
        let known_era = options.known_era;
        Self::over(Core::new(options, None, wire, seed), known_era)
    }

    /// A client of a server, with options that are shared with other clients.
    pub(crate) fn with_shared(
        options: &Arc<Options>,
        server: Arc<str>,
        wire: Wire,
        seed: u64,
        known_era: Option<KnownEra>,
    ) -> Self {
        let core = Core::new(Arc::clone(options), Some(server), wire, seed);
        Self::over(core, known_era.or(options.known_era))
    }

    fn over(mut core: Core, known_era: Option<KnownEra>) -> Self {
        core.known_era = known_era;
        Self {
            core,
            link: Link::default(),
            connection: Connection::default(),
            lists: Lists::default(),
            subscriptions: Subscriptions::default(),
            server_requests: ServerRequests::default(),
        }
    }

    /// Whether closing the connection ends nothing, if nothing waits to be polled: the client is ready, nothing is in flight,
    /// and no resource has a subscription.
    pub(crate) fn is_unused(&self) -> bool {
        let core = &self.core;
        core.is_ready()
            && core.requests.is_unused()
            && !self.server_requests.has_open()
            && self.subscriptions.resources().next().is_none()
    }

    /// The outputs that wait to be polled, in order.
    pub(crate) fn pending(&self) -> impl DoubleEndedIterator<Item = &Output> {
        self.core.outbox.iter()
    }

    /// Number of events so far, those included that wait to be polled. Events are never withdrawn.
    pub(crate) const fn events(&self) -> u64 {
        self.core.outbox.events()
    }

    /// The next deadline, whatever waits to be polled.
    pub(crate) fn next_timer(&self) -> Option<Time> {
        let core = &self.core;
        Time::earliest([
            core.timers.next(),
            core.requests.next_deadline(),
            core.requests.next_poll(),
            self.server_requests.next_deadline(),
        ])
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.stage() == Stage::Closed && self.core.outbox.is_empty()
    }

    /// The connection, if there is one that takes messages.
    pub(crate) fn live_connection(&self) -> Option<ConnectionId> {
        self.link.takes_messages().then(|| self.link.connection())
    }

    /// Whether a request is open and was not sent yet.
    pub(crate) fn is_unsent(&self, request: RequestId) -> bool {
        let open = self.core.requests.wire_id(request).and_then(|id| self.core.requests.get(id));
        open.is_some_and(|open| matches!(open.phase, request::State::Queued | request::State::Written))
    }

    /// Replaces the options. What is in flight keeps its deadlines.
    pub(crate) fn set_options(&mut self, options: Arc<Options>) {
        self.core.options = options;
        self.core.encode_identity();
        self.write_requests();
    }

    /// Replaces the items of a family by equal items that are shared.
    pub(crate) fn share_list(&mut self, family: Family, list: Arc<List>) {
        self.core.catalog.share(family, list);
    }

    /// Until when the server's description is fresh ([`server`](Self::server)): the time to live of `server/discover`
    /// (specification 2026-07-28, "Caching"). `None` if it has none, or none above zero.
    ///
    /// The first request, refresh or subscription after that time has the engine send `server/discover` again. The
    /// response replaces the description; until then, and if there is no valid response, the stale one stays in use.
    pub const fn server_fresh_until(&self) -> Option<Time> {
        self.connection.freshness.until()
    }

    /// The current connection, the one that is being opened, or the last one.
    pub const fn connection(&self) -> ConnectionId {
        self.link.connection()
    }

    /// Whether the connection is established, and handshake and discovery are done.
    pub fn is_ready(&self) -> bool {
        self.core.is_ready()
    }

    /// Name, version, capabilities and instructions of the server, from the last handshake.
    pub fn server(&self) -> Option<&Server> {
        self.core.server.as_deref()
    }

    /// The items of the last lists.
    pub const fn catalog(&self) -> &Catalog {
        &self.core.catalog
    }

    /// Whether a user should approve a call of this tool: always, unless [`Options::trust`] is set and the server says
    /// that the tool modifies nothing.
    pub fn needs_approval(&self, tool: &str) -> bool {
        let read_only = self.core.catalog.tool(tool).and_then(|tool| tool.hints.read_only) == Some(true);
        !(self.core.options.trust && read_only)
    }

    /// The state of a family.
    pub fn family(&self, family: Family) -> FamilyReport {
        self.lists.report(&self.core, family, self.subscriptions.watches(&self.core, family))
    }

    /// Who may use what the server said of itself and in its lists, if that is stored: its description
    /// ([`server`](Self::server)) and each list that it has.
    pub fn cache_scope(&self) -> CacheScope {
        let description = self.server().and_then(|server| Json::from(&*server.raw).member("cacheScope")?.as_string());
        let lists = Family::EACH.into_iter().filter(|family| !self.catalog().list(*family).is_empty());
        let scopes = lists.map(|family| self.family(family).cache_scope);
        scopes.fold(CacheScope::read(description.as_deref()), CacheScope::and)
    }

    /// The last error of a family's list: the server's message, if there is one.
    pub fn list_error(&self, family: Family) -> Option<&str> {
        self.lists.error(family)
    }

    /// The server's deviations from the protocol, in order.
    pub fn quirks(&self) -> &[Quirk] {
        self.core.quirks.as_slice()
    }

    /// The server's era, to be saved and given back in [`Options::known_era`]; `None` until the first handshake.
    pub const fn known_era(&self) -> Option<KnownEra> {
        self.core.known_era
    }

    /// Counts of messages that were dropped.
    pub const fn stats(&self) -> Stats {
        self.core.stats
    }

    /// The server's name for messages. Over HTTP its address follows, unless the name is one: `docs
    /// (https://example.com/mcp)`. An address is shown without its secrets.
    pub fn server_name(&self) -> &str {
        self.core.server_name()
    }

    /// The options. In a [`Hub`](crate::host::hub::Hub), clients with the same options share them; the server's name and
    /// the known era are each client's own.
    pub fn options(&self) -> &Options {
        &self.core.options
    }

    /// The resources with a subscription.
    pub fn subscriptions(&self) -> impl Iterator<Item = &str> {
        self.subscriptions.resources()
    }
}

/// What a binding needs from the engine, beyond the public getters.
impl Engine {
    pub(crate) const fn wire(&self) -> Wire {
        self.core.wire
    }

    /// Whether the handshake of this connection is over.
    pub(crate) const fn has_agreed(&self) -> bool {
        self.core.agreed.is_some()
    }

    /// The stage of the client, whatever waits to be polled.
    pub(crate) const fn stage(&self) -> Stage {
        self.core.stage()
    }

    /// The time of the last input.
    pub(crate) const fn now(&self) -> Time {
        self.core.now
    }

    /// Takes the next output; a message counts as sent.
    #[inline]
    pub(crate) fn poll(&mut self) -> Option<Output> {
        let output = self.core.outbox.pop()?;
        match &output {
            Output::Send(Outgoing { id: Some(id), .. }) => self.core.requests.mark_sent(*id),
            Output::Open(_) => self.link.mark_polled(),
            Output::Send(_)
            | Output::Abort(_)
            | Output::Shutdown(_)
            | Output::Event(_)
            | Output::Start(_)
            | Output::Drop(_) => {}
        }
        Some(output)
    }

    /// When due deadlines were served last.
    pub(crate) const fn served(&self) -> Time {
        self.core.served
    }
}

/// What is saved of an engine: its components.
#[cfg(feature = "snapshot")]
#[derive(serde::Deserialize)]
pub(crate) struct EngineState(Core, Link, Connection, Lists, Subscriptions, ServerRequests);

#[cfg(feature = "snapshot")]
impl Engine {
    pub(super) fn state(&self) -> impl serde::Serialize {
        let Self { core, link, connection, lists, subscriptions, server_requests } = self;
        (core, link, connection, lists, subscriptions, server_requests)
    }

    pub(super) fn restore(
        state: EngineState,
        options: Arc<Options>,
        server: Option<Arc<str>>,
        wire: Wire,
    ) -> Result<Self, crate::snapshot::SnapshotError> {
        use crate::snapshot::within;

        let EngineState(mut core, link, connection, lists, subscriptions, server_requests) = state;
        core.give_options(options, server, wire);
        let limits = &core.options.limits;
        core.requests.check(limits)?;
        core.outbox.check()?;
        lists.check(limits)?;
        server_requests.check(limits)?;
        connection.notifications.check(limits)?;
        within("quirks", core.quirks.as_slice().len(), limits.quirks)?;
        let elicitations = core.url_elicitations.as_ref().map_or(0, |known| known.len());
        within("server_requests", elicitations, limits.server_requests)?;
        within("subscriptions", subscriptions.resources().count(), limits.subscriptions)?;
        for family in Family::EACH {
            core.catalog.list(family).check(limits.items, limits.list_bytes)?;
        }
        let mut engine = Self { core, link, connection, lists, subscriptions, server_requests };
        let sent = |output: &Output| if let Output::Send(message) = output { message.id() } else { None };
        let mut written = BTreeSet::new();
        let is_final = |output: &&Output| matches!(output, Output::Send(message) if message.is_cancellation());
        let is_written = |id| engine.core.requests.get(id).is_some_and(|open| open.phase == request::State::Written);
        if !engine
            .pending()
            .filter(|output| !is_final(output))
            .filter_map(sent)
            .all(|id| is_written(id) && written.insert(id))
        {
            return Err(crate::snapshot::invalid("the messages to be sent contradict the requests"));
        }
        engine.core.timers.recount();
        engine.server_requests.publish(&mut engine.core);
        Ok(engine)
    }

    /// Whether a request waits to be sent, and was not given to the binding.
    pub(crate) fn is_queued(&self, id: u64) -> bool {
        self.core.requests.get(id).is_some_and(|open| open.phase == request::State::Queued)
    }

    /// The session moved without its transport: what was sent may have run.
    pub(crate) fn lose_transport(&mut self) {
        let signals = self.link.on_moved(&mut self.core);
        self.act(signals);
    }
}

impl Engine {
    /// Takes a message or a batch of the server.
    pub(crate) fn handle_message(&mut self, now: Time, bytes: &[u8]) {
        self.handle_bytes(now, bytes, Incoming::new);
    }

    /// Takes a line that the end of the connection cut off.
    pub(crate) fn handle_unfinished(&mut self, now: Time, bytes: &[u8]) {
        self.handle_bytes(now, bytes, Incoming::unfinished);
    }

    fn handle_bytes<'a>(&mut self, now: Time, bytes: &'a [u8], source: fn(&'a [u8]) -> Incoming<'a>) {
        self.core.advance(now);
        // A line that ended the connection also ended what came with it.
        if self.link.takes_messages() {
            let decoded = jsonrpc::decode_with_spans(bytes, self.core.options.limits.message, &mut self.core.spans);
            self.on_bytes(decoded, bytes, source);
        }
        self.write_requests();
    }

    /// Takes a line with its memory. If it is the result of a call, the result keeps that memory.
    pub(crate) fn handle_line(&mut self, now: Time, line: Vec<u8>) {
        self.core.advance(now);
        if self.link.takes_messages() {
            match jsonrpc::decode_with_spans(&line, self.core.options.limits.message, &mut self.core.spans) {
                Ok(Decoded::One(Message { body: Body::Result { id, result }, deviations })) if self.is_of_call(id) => {
                    let start = (result.get().as_ptr() as usize).wrapping_sub(line.as_ptr() as usize);
                    let place = start..start.saturating_add(result.get().len());
                    // The result moves within the memory of the line.
                    self.core.spans = Spans::default();
                    self.connection.keepalive.on_message(&self.core);
                    self.on_response(id, None, deviations, Ok(Cow::Owned(jsonrpc::part_of(line, place))));
                }
                decoded => self.on_bytes(decoded, &line, Incoming::new),
            }
        }
        self.write_requests();
    }

    /// Whether a response with this id is that to a request of the embedder.
    fn is_of_call(&self, id: ResponseId) -> bool {
        matches!(id, ResponseId::Exact(id) if self.core.requests.call(id).is_some())
    }

    /// Takes what was read; once more, and repaired, if it is not JSON.
    fn on_bytes<'a>(
        &mut self,
        decoded: Result<Decoded<'a>, Noise>,
        bytes: &'a [u8],
        source: fn(&'a [u8]) -> Incoming<'a>,
    ) {
        match decoded {
            Err(Noise::NotJson) => {
                let source = source(bytes);
                let decoded = source.decode_repaired(self.core.options.limits.message, &mut self.core.spans);
                self.on_incoming(decoded, &source, None);
            }
            decoded => self.on_decoded(decoded, bytes, None),
        }
    }

    /// Takes a report on the transport.
    pub(crate) fn handle_transport(&mut self, now: Time, event: Transport<'_>) {
        self.core.advance(now);
        match event {
            Transport::SignOfLife => self.connection.handshake.on_sign_of_life(&mut self.core),
            Transport::Opened
            | Transport::OpenFailed { .. }
            | Transport::Closed { .. }
            | Transport::ProtocolViolation { .. } => {
                let signals = self.link.on_transport(&mut self.core, event);
                self.act(signals);
            }
        }
        self.write_requests();
    }

    /// An input has this time, at which no deadline is due.
    pub(crate) fn advance(&mut self, now: Time) {
        self.core.advance(now);
        self.core.served = self.core.now;
    }

    /// Handles every deadline that is due.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.advance(now);
        if self.next_timer().is_none_or(|at| at > self.core.now) {
            return;
        }
        // Each timer and each poll fires once: at the maximum of `Time`, a restarted one is due at once.
        if self.core.timers.next().is_some_and(|at| at <= self.core.now) {
            for timer in Timer::ALL {
                if self.core.timers.take_due(timer, self.core.now) {
                    self.on_timer(timer);
                }
            }
        }
        for id in self.core.requests.due_polls(self.core.now) {
            calls::on_due(&mut self.core, id);
        }
        for id in self.core.requests.expired(self.core.now) {
            let signals = self.on_request_timeout(id);
            self.act(signals);
        }
        self.server_requests.on_time(&mut self.core);
        self.write_requests();
    }

    /// Acts on signals, in order; the signals that one causes come before the next.
    #[inline]
    pub(super) fn act(&mut self, signals: Signals) {
        if !signals.is_empty() {
            self.act_on_each(signals);
        }
    }

    fn act_on_each(&mut self, signals: Signals) {
        for signal in signals {
            let next = self.act_on(signal);
            self.act(next);
        }
    }

    fn act_on(&mut self, signal: Signal) -> Signals {
        let core = &mut self.core;
        match signal {
            Signal::Opening => {
                self.connection.handshake.on_opening(core);
                Signals::NONE
            }
            Signal::Opened => self.connection.handshake.start(core),
            Signal::ModernAgreed => {
                // A modern server sends no requests, and expects no responses.
                self.server_requests.end(core, true);
                self.connection.freshness = Freshness::new(core);
                let signals = self.subscriptions.start_stream(core);
                self.act(signals);
                Signals::one(Signal::Discover)
            }
            Signal::Discover => {
                send_level(core);
                self.lists.start(core)
            }
            Signal::Discovered => self.link.step(core, link::Input::Established),
            Signal::TransportClosed(why) => self.connection.handshake.on_closed(core, why),
            Signal::Reopen => {
                // The second transport does not extend the deadline of the connection.
                let connect = core.timers.get(Timer::Connect);
                self.end_connection(true, None);
                self.connection.handshake = Handshake::reopening();
                let signals = self.link.step(&mut self.core, link::Input::Reopen);
                self.core.timers.set(Timer::Connect, connect);
                signals
            }
            Signal::Lost(mut loss) => {
                let lost = self.link.count_loss(core, &loss);
                let gone = loss.transport == link::Transport::Closed;
                if gone {
                    core.outbox.withdraw_transport();
                    self.connection.keepalive.on_closed(core);
                }
                handshake::report_first_failure(core, &mut loss);
                self.end_connection(gone, Some(&Arc::new(loss.failure())));
                self.link.lose(&mut self.core, lost, loss)
            }
            Signal::Ready => {
                core.fall_back = FallBack::Possible;
                let cheapest = self.lists.smallest_list(core);
                let signals = self.connection.keepalive.start(core, cheapest);
                self.act(signals);
                let signals = self.subscriptions.on_connected(&mut self.core);
                self.act(signals);
                for (method, params) in self.connection.notifications.release() {
                    let signals = self.on_notification(&method, params.as_deref());
                    self.act(signals);
                }
                calls::unblock(&mut self.core, Block::Headers, request::Input::Admitted);
                self.core.release_memory();
                Signals::NONE
            }
            Signal::Finish => {
                let loss = self.link.failure().map(Arc::new);
                calls::end(core, loss.as_ref());
                self.link.finish(core);
                Signals::NONE
            }
            Signal::Expired(refused) => match self.link.count_expiry(core) {
                Err(lost) => lost,
                Ok(()) => {
                    self.expire(refused);
                    self.link.expire(&mut self.core)
                }
            },
            Signal::SchemasWanted => self.lists.request_again(core, Family::Tools),
            Signal::Schemas { known } => {
                let input = if known { request::Input::Admitted } else { request::Input::Denied };
                calls::unblock(core, Block::Headers, input);
                Signals::NONE
            }
            Signal::Watched { request, families } => self.lists.on_watched(core, request, &families),
            Signal::TaskCreated => self.subscriptions.on_task_created(core),
            Signal::Unwatched(families) => {
                self.lists.on_unwatched(&families);
                Signals::NONE
            }
        }
    }

    /// Ends everything that belongs to an expired session; `refused` did not run because of it.
    fn expire(&mut self, refused: Option<u64>) {
        if let Some(id) = refused {
            calls::on_expired(&mut self.core, id);
        }
        self.core.outbox.withdraw_transport();
        let loss = Link::expiry(&self.core).failure();
        self.end_connection(true, Some(&Arc::new(loss)));
    }

    /// Ends everything that belongs to a connection, so that nothing affects the next one. A server that is still there
    /// gets responses to its open requests. Calls that end report the `loss`, if there is one.
    pub(super) fn end_connection(&mut self, gone: bool, loss: Option<&Arc<Failure>>) {
        let core = &mut self.core;
        let is_over = |message: &Outgoing| gone || message.method.is_some() && !message.is_cancellation();
        core.outbox.withdraw(|output| matches!(output, Output::Send(message) if is_over(message)));
        core.timers.clear_but(Timer::Grace);
        self.connection = Connection::default();
        self.server_requests.end(core, gone);
        calls::on_connection_lost(core, loss);
        self.lists.on_connection_ended(core);
        self.subscriptions.on_connection_ended();
        for id in core.requests.engine() {
            // The cancellation of a task still leaves.
            let open = core.requests.get(id).filter(|open| !gone && matches!(open.purpose, Purpose::CancelTask(_)));
            if let Some(open) = open {
                if open.phase == request::State::Queued {
                    let message = core.encode_request(id, &open.purpose);
                    core.outbox.push(Output::Send(message));
                }
                core.requests.remove(id);
            } else {
                core.end_request(id, request::Input::Closed, "");
            }
        }
        core.requests.end_connection();
    }

    /// Encodes as many queued requests as may be sent now.
    pub(super) fn write_requests(&mut self) {
        while write_next(&mut self.core).is_some() {}
    }

    fn on_timer(&mut self, timer: Timer) {
        let is_silent = self.is_silent();
        let core = &mut self.core;
        let timeouts = core.options.timeouts;
        let signals = match timer {
            Timer::Connect if is_silent => self.fall_back(timeouts.connect.unwrap_or_default()),
            Timer::Discovery if is_silent => self.fall_back(timeouts.discovery),
            Timer::Connect => Link::connect_timed_out(core),
            Timer::Open => self.link.open_timed_out(core),
            Timer::Discover => self.connection.handshake.on_discover_timeout(core),
            Timer::Handshake => self.connection.handshake.step(core, HandshakeInput::Deadline),
            Timer::Discovery => self.lists.on_discovery_timeout(core),
            Timer::Reopen => self.link.step(core, link::Input::Timer),
            Timer::Keepalive => {
                let cheapest = self.lists.smallest_list(core);
                self.connection.keepalive.on_timer(core, cheapest)
            }
            Timer::Grace => self.link.step_shutdown(core, shutdown::Input::Timer),
            Timer::Stream => self.subscriptions.on_timer(core),
            Timer::Refresh(family) => self.lists.on_timer(core, family),
        };
        self.act(signals);
    }

    /// Whether a server that answered `server/discover` answered no list, and another connection may have the legacy era.
    fn is_silent(&self) -> bool {
        let requests = &self.core.requests;
        let has_no_answer =
            || self.lists.has_no_answer() && !requests.engine().iter().any(|id| requests.is_refused(*id));
        handshake::may_fall_back(&self.core) && has_no_answer()
    }

    /// The server answered no list: `initialize` is sent on a new connection, once.
    fn fall_back(&mut self, within: Duration) -> Signals {
        handshake::fall_back(&mut self.core, within);
        self.end_connection(false, None);
        self.link.step(&mut self.core, link::Input::Replace)
    }

    /// Reads what the server sent; once more, and repaired, if it is not JSON.
    pub(crate) fn decode<'a>(&mut self, source: &'a Incoming<'_>) -> Result<Decoded<'a>, Noise> {
        source.decode(self.core.options.limits.message, &mut self.core.spans)
    }

    /// Takes what was read. `exchange` is the request in whose HTTP exchange it came.
    pub(super) fn on_incoming(
        &mut self,
        decoded: Result<Decoded<'_>, Noise>,
        source: &Incoming<'_>,
        exchange: Option<u64>,
    ) {
        match source.repaired() {
            None => self.on_decoded(decoded, source.bytes(), exchange),
            Some(_) => self.on_repaired(decoded, source, exchange),
        }
    }

    fn on_decoded(&mut self, decoded: Result<Decoded<'_>, Noise>, bytes: &[u8], exchange: Option<u64>) {
        self.connection.keepalive.on_message(&self.core);
        if let Ok(Decoded::Batch(messages)) = &decoded
            && self.core.version() != Some(ProtocolVersion::V2025_03_26)
        {
            let detail = format!("{} messages in one array, which only 2025-03-26 allows", messages.len());
            self.core.quirk(QuirkKind::Batch, None, None, detail);
        }
        self.on_each(decoded, bytes, exchange);
        self.core.spans = Spans::default();
    }

    /// Takes what was not JSON.
    #[cold]
    fn on_repaired(&mut self, decoded: Result<Decoded<'_>, Noise>, source: &Incoming<'_>, exchange: Option<u64>) {
        self.connection.keepalive.on_message(&self.core);
        if source.repaired().is_some_and(|repaired| !repaired.messages.is_empty()) {
            let detail = format!("not JSON, and read repaired: {}", excerpt_of(source.bytes()));
            self.core.quirk(QuirkKind::Repaired, None, None, detail);
        }
        self.on_each(decoded, source.bytes(), exchange);
        for broken in source.broken() {
            self.on_broken_response(broken, source.bytes());
        }
        self.core.spans = Spans::default();
    }

    fn on_each(&mut self, decoded: Result<Decoded<'_>, Noise>, bytes: &[u8], exchange: Option<u64>) {
        match decoded {
            Ok(Decoded::Blank) => {}
            Ok(Decoded::One(message)) => self.on_message(message, exchange),
            Ok(Decoded::Batch(messages)) => {
                for message in messages {
                    match message {
                        Ok(message) => self.on_message(message, exchange),
                        Err(noise) => record_noise(&mut self.core, &noise, bytes),
                    }
                }
            }
            Err(noise) => {
                record_noise(&mut self.core, &noise, bytes);
                if let Noise::TooLong { limit, .. } = noise {
                    self.on_too_long(limit, bytes);
                }
            }
        }
    }

    /// A message that is too long names an open request at its beginning, which ends without a wait for its timeout.
    #[cold]
    fn on_too_long(&mut self, limit: usize, bytes: &[u8]) {
        let id = jsonrpc::id_of_beginning(bytes, self.core.options.limits.message);
        if let Some(id) = id.and_then(|id| self.named_by(id)) {
            self.on_unreadable_response(id, format!("the response has more than the {limit} bytes allowed"));
        }
    }

    /// The open request that a response names, which was not read.
    fn named_by(&self, id: ResponseId) -> Option<u64> {
        let (ResponseId::Exact(id) | ResponseId::Loose(id)) = id else { return None };
        (self.link.takes_messages() && self.core.is_sent(id)).then_some(id)
    }

    fn on_message(&mut self, message: Message<'_>, exchange: Option<u64>) {
        // A message that ended the connection also ended the rest of its batch.
        if !self.link.takes_messages() {
            return;
        }
        let Message { body, deviations } = message;
        match body {
            Body::Request { id, method, params } => {
                record_deviations(&mut self.core, deviations, &method);
                let of = exchange.and_then(|id| self.core.handle_of(id));
                let signals = self.server_requests.on_request(&mut self.core, id, &method, params, of);
                self.act(signals);
            }
            Body::Notification { method, params } => {
                record_deviations(&mut self.core, deviations, &method);
                let signals = self.on_notification(&method, params);
                self.act(signals);
            }
            Body::Result { id, result } => self.on_response(id, exchange, deviations, Ok(Cow::Borrowed(result))),
            Body::Error { id, error } => self.on_response(id, exchange, deviations, Err(error)),
        }
    }

    /// A response that is not JSON names an open request, which ends without a wait for another one.
    #[cold]
    fn on_broken_response(&mut self, broken: &Broken, bytes: &[u8]) {
        let Some(id) = self.named_by(broken.id) else { return };
        let Broken { at, why, .. } = broken;
        let why = format!("the response is not JSON: {why}, at byte {at}: {}", excerpt_at(bytes, *at));
        self.core.quirk(QuirkKind::Noise, None, None, &*why);
        self.on_unreadable_response(id, why);
    }

    fn on_unreadable_response(&mut self, id: u64, why: String) {
        let core = &mut self.core;
        if matches!(core.requests.get(id).map(|open| &open.purpose), Some(Purpose::Initialize(_))) {
            core.end_request(id, request::Input::Answered, "");
            let signals = self.connection.handshake.on_unreadable(core, &why);
            return self.act(signals);
        }
        self.answer(id, Err(RequestError::Invalid(why.into())));
    }

    fn on_response(
        &mut self,
        id: ResponseId,
        exchange: Option<u64>,
        deviations: Deviations,
        response: Result<Cow<'_, RawValue>, ErrorObject>,
    ) {
        let core = &mut self.core;
        let (named, id) = core.requests.classify_response(id, exchange);
        let quirk = match request::match_response(named, response.is_err()) {
            Match::Named | Match::Exchange => None,
            Match::NamedAs(kind) => Some((kind, "the id came back in another type")),
            Match::OnlyAs(kind) => {
                Some((kind, "an error without an id of this connection; it is taken for the only request in flight"))
            }
            Match::Late => {
                core.requests.forget_abandoned(id);
                core.stats.late_answers = core.stats.late_answers.saturating_add(1);
                if let Ok(result) = response {
                    calls::on_late(core, &result);
                }
                return;
            }
            Match::NoneAs(kind) => {
                let detail: Box<str> = match response.err().filter(|_| named == request::Id::Foreign) {
                    Some(error) => format!("an error without an id of this connection: {error}").into(),
                    None => "a response to no open request; ignored".into(),
                };
                return core.quirk(kind, None, None, detail);
            }
        };
        if deviations != Deviations::default() || quirk.is_some() {
            let method = core.requests.method(id).unwrap_or_default();
            record_deviations(core, deviations, &method);
            if let Some((kind, detail)) = quirk {
                core.quirk(kind, None, Some(&method), detail);
            }
        }
        let via = match core.wire {
            Wire::Pipe => Via::Pipe,
            Wire::Http => Via::HttpSuccess,
        };
        let renewed = detect_era_change(core, id, via, response.as_ref().err());
        if renewed.is_empty() || !calls::on_version_refused(core, id) {
            // Without a code it is no error that a table knows.
            let is_coded = !deviations.error_shape;
            let error = |error: ErrorObject| match is_coded {
                true => RequestError::Server(error),
                false => RequestError::Invalid(excerpt(&error.message).into()),
            };
            self.answer(id, response.map_err(error));
        }
        self.act(renewed);
    }

    /// Takes the response to an open request, or what was received in its place.
    pub(super) fn answer(&mut self, id: u64, response: Result<Cow<'_, RawValue>, RequestError>) {
        let core = &mut self.core;
        if core.requests.call(id).is_some() {
            self.link.mark_healthy();
            let signals = calls::on_response(core, id, response);
            return self.act(signals);
        }
        let ended = core.end_request(id, request::Input::Answered, "");
        let signals = match (ended, response) {
            (Some(open), Ok(result)) => self.answer_own(id, open.purpose, Ok(&result)),
            (Some(open), Err(error)) => self.answer_own(id, open.purpose, Err(error)),
            (None, _) => Signals::NONE,
        };
        self.act(signals);
    }

    /// Takes the response to a request of the engine, which is over.
    fn answer_own(&mut self, id: u64, purpose: Purpose, response: Result<&RawValue, RequestError>) -> Signals {
        let core = &mut self.core;
        let response = response.and_then(|result| complete(core, &purpose, result));
        match purpose {
            Purpose::Discover(_) => self.connection.handshake.on_discovered(core, id, response),
            Purpose::Initialize(_) => self.connection.handshake.on_initialized(core, response),
            Purpose::List { family, .. } => match response {
                Ok(result) => {
                    let watched = self.subscriptions.watches(core, family);
                    self.lists.on_page(core, family, result, watched)
                }
                Err(RequestError::Server(error)) => self.lists.on_failure(core, family, ListFailure::Server(&error)),
                Err(error) => self.lists.on_failure(core, family, ListFailure::Engine(error.to_string().into())),
            },
            Purpose::SetLevel => {
                if let Err(error) = response {
                    on_level_failed(core, error);
                }
                Signals::NONE
            }
            Purpose::Keepalive(_) => {
                let cheapest = self.lists.smallest_list(core);
                self.connection.keepalive.on_response(core, response.err().as_ref(), cheapest)
            }
            Purpose::Rediscover => {
                self.connection.freshness.on_response(core, response.ok());
                Signals::NONE
            }
            Purpose::Listen { .. } => self.subscriptions.on_ended(core, id, response.err().as_ref()),
            Purpose::Subscribe(uri) | Purpose::Unsubscribe(uri) => {
                let error = response.err().map(|error| format!("{error}"));
                self.subscriptions.on_response(core, &uri, error.as_deref());
                Signals::NONE
            }
            Purpose::PollTask(task) => {
                calls::on_polled(core, &task, Some(response));
                Signals::NONE
            }
            Purpose::CancelTask(_) | Purpose::Call(_) => Signals::NONE,
        }
    }
}

/// Encodes the next queued request, if one may be sent now.
fn write_next(core: &mut Core) -> Option<()> {
    let (limit, parallel) = (core.options.limits.in_flight, core.options.parallel_tool_calls);
    let id = core.requests.next(limit, core.stage(), core.binding.holds_tools, parallel)?;
    let open = core.requests.get(id)?;
    if let Purpose::Call(call) = &open.purpose
        && core.missing_capability(&call.request.method).is_some()
    {
        calls::step(core, id, request::Input::NotAdvertised);
    } else {
        let message = core.encode_request(id, &open.purpose);
        core.requests.step(id, request::Input::Write);
        core.outbox.push(Output::Send(message));
    }
    Some(())
}

fn record_noise(core: &mut Core, noise: &Noise, bytes: &[u8]) {
    let detail = format!("{noise}: {}", excerpt_of(bytes));
    core.quirk(QuirkKind::Noise, None, None, detail);
}

fn record_deviations(core: &mut Core, deviations: Deviations, method: &str) {
    if deviations == Deviations::default() {
        return;
    }
    let found = [
        (deviations.version, QuirkKind::JsonrpcVersion, "`jsonrpc` is not \"2.0\""),
        (deviations.error_null, QuirkKind::ErrorNull, "a `result` or `error` of null beside the answer"),
        (deviations.result_and_error, QuirkKind::ResultAndError, "a result and an error; the error counts"),
        (deviations.id_null, QuirkKind::IdNull, "a notification with `id: null`"),
        (deviations.error_shape, QuirkKind::ErrorShape, jsonrpc::ERROR_SHAPE),
        (deviations.lone_surrogate, QuirkKind::LoneSurrogate, "half of a surrogate pair in a string"),
    ];
    for (_, kind, detail) in found.into_iter().filter(|(found, _, _)| *found) {
        core.quirk(kind, None, Some(method), detail);
    }
}

impl Engine {
    fn on_notification(&mut self, method: &str, params: Option<&RawValue>) -> Signals {
        let core = &mut self.core;
        let request = request_of(core, &self.subscriptions, method, params);
        let is_foreign = |unasked| self.subscriptions.is_foreign(core, params, unasked);
        match route(core, method, request, is_foreign) {
            Route::Cancel => self.on_cancelled(params),
            Route::EndStream => {
                return request.map(|id| self.subscriptions.on_cancelled(core, id)).unwrap_or_default();
            }
            Route::Progress => on_progress(core, request.zip(params)),
            Route::Elicitation => match core.url_elicitations.as_mut().and_then(|known| known.on_complete(params)) {
                Some(event) if !core.is_full() => core.event(event),
                Some(_) | None => core.leave_out(),
            },
            Route::Stream => return self.subscriptions.on_acknowledged(core, params),
            Route::Refresh => {
                let mut signals = Signals::NONE;
                for family in families_of_change(method) {
                    signals.extend(self.lists.on_changed(core, *family));
                }
                return signals;
            }
            Route::Task => calls::on_notification(core, request.zip(params)),
            Route::Report => report(core, method, params),
            Route::Hold => self.connection.notifications.hold(core, method, params),
            Route::LeaveOut => core.leave_out(),
            Route::Nothing => {}
        }
        Signals::NONE
    }

    /// The server cancels one of its requests.
    fn on_cancelled(&mut self, params: Option<&RawValue>) {
        let member = |name| params.and_then(|params| Json::from(params).member(name));
        if let Some(id) = member("requestId") {
            let reason = member("reason").and_then(Json::as_text);
            self.server_requests.on_cancelled(&mut self.core, id, reason.as_deref());
        }
    }
}

/// The open request that a notification is about.
#[inline]
fn request_of(core: &mut Core, streams: &Subscriptions, method: &str, params: Option<&RawValue>) -> Option<u64> {
    match method {
        method::PROGRESS => id_of_progress(core, params?),
        method::TASKS => calls::id_of_call(core, params?),
        method::CANCELLED => streams.stream_of_wire_id(core, Json::from(params?).member("requestId")?),
        _ => None,
    }
}

impl Engine {
    /// The deadline of a request passed.
    fn on_request_timeout(&mut self, id: u64) -> Signals {
        let is_silent = self.is_silent();
        let core = &mut self.core;
        let Some(open) = core.requests.get(id) else { return Signals::NONE };
        match &open.purpose {
            Purpose::Call(_) => calls::step(core, id, request::Input::TimedOut),
            Purpose::Listen { .. } => return self.subscriptions.on_silent(core),
            Purpose::List { .. } if is_silent => {
                let within = core.options.timeouts.request;
                return self.fall_back(within);
            }
            Purpose::Discover(_)
            | Purpose::Initialize(_)
            | Purpose::List { .. }
            | Purpose::SetLevel
            | Purpose::Keepalive(_)
            | Purpose::Rediscover
            | Purpose::Subscribe(_)
            | Purpose::Unsubscribe(_)
            | Purpose::CancelTask(_)
            | Purpose::PollTask(_) => {
                let is_refused = core.requests.is_refused(id);
                let ended = core.end_request(id, request::Input::TimedOut, "no response in time");
                let error = if is_refused {
                    "the server was too busy for it, or no token came in time".into()
                } else {
                    format!("no response within {:?}", core.options.timeouts.request)
                };
                return ended.map(|open| self.fail(open.purpose, error)).unwrap_or_default();
            }
        }
        Signals::NONE
    }

    /// A request of the engine that is over has no response, for this reason.
    pub(super) fn fail(&mut self, purpose: Purpose, error: String) -> Signals {
        let core = &mut self.core;
        match purpose {
            Purpose::List { family, .. } => self.lists.on_failure(core, family, ListFailure::Engine(error.into())),
            Purpose::Subscribe(uri) | Purpose::Unsubscribe(uri) => {
                self.subscriptions.on_response(core, &uri, Some(&error));
                Signals::NONE
            }
            Purpose::SetLevel => {
                on_level_failed(core, RequestError::Invalid(error.into()));
                Signals::NONE
            }
            Purpose::Rediscover => {
                self.connection.freshness.on_response(core, None);
                Signals::NONE
            }
            Purpose::PollTask(task) => {
                calls::on_polled(core, &task, None);
                Signals::NONE
            }
            Purpose::Discover(_)
            | Purpose::Initialize(_)
            | Purpose::Keepalive(_)
            | Purpose::Listen { .. }
            | Purpose::CancelTask(_)
            | Purpose::Call(_) => Signals::NONE,
        }
    }
}

impl Engine {
    /// Applies a command. Returns the id of a request that was accepted.
    pub(crate) fn apply(&mut self, now: Time, command: Command) -> Result<Option<RequestId>, CommandError> {
        match command {
            Command::Open => self.open(now)?,
            Command::Close => self.close(now)?,
            Command::Request(request) => return self.request(now, request).map(Some),
            Command::Cancel { request, reason } => calls::cancel(&mut self.core, now, request, reason.as_deref())?,
            Command::Notify { method, params } => notify(&mut self.core, now, method, params.as_deref())?,
            Command::Provide { request, responses } => {
                let responses = responses.iter().map(|(key, response)| (&**key, &**response));
                calls::provide(&mut self.core, now, request, responses)?;
            }
            Command::Decline { request } => calls::decline(&mut self.core, now, request)?,
            Command::Respond { request, response } => {
                self.server_requests.respond(&mut self.core, now, request, response)?;
            }
            Command::Authorized => self.authorized(now)?,
            Command::Subscribe { uri } => {
                let signals = self.subscriptions.subscribe(&mut self.core, now, &uri)?;
                self.connection.freshness.on_use(&mut self.core);
                self.act(signals);
            }
            Command::Unsubscribe { uri } => {
                let signals = self.subscriptions.unsubscribe(&mut self.core, now, &uri)?;
                self.act(signals);
            }
            Command::SetLogLevel { level } => set_level(&mut self.core, now, level)?,
            Command::SetRoots { roots } => set_roots(&mut self.core, now, roots)?,
            Command::Refresh { family } => self.refresh(now, family)?,
        }
        self.write_requests();
        Ok(None)
    }

    pub(crate) fn open(&mut self, now: Time) -> Result<(), CommandError> {
        self.link.check(link::Input::Open, CommandError::AlreadyOpen)?;
        self.core.advance(now);
        let signals = self.link.step(&mut self.core, link::Input::Open);
        self.act(signals);
        self.write_requests();
        Ok(())
    }

    pub(crate) fn close(&mut self, now: Time) -> Result<(), CommandError> {
        self.link.check(link::Input::Close, CommandError::Closed)?;
        self.core.advance(now);
        calls::end(&mut self.core, None);
        self.end_connection(false, None);
        let signals = self.link.close(&mut self.core);
        self.act(signals);
        Ok(())
    }

    /// Closes the connection of a client that is not used. [`open`](Self::open) opens another one.
    pub(crate) fn shut_down_unused(&mut self, now: Time) {
        self.core.advance(now);
        self.end_connection(false, None);
        let signals = self.link.suspend(&mut self.core);
        self.act(signals);
        self.core.release_memory();
    }

    pub(crate) fn request(&mut self, now: Time, request: Request) -> Result<RequestId, CommandError> {
        let is_followed = request.resumes;
        let id = calls::request(&mut self.core, now, request)?;
        self.connection.freshness.on_use(&mut self.core);
        if is_followed && self.core.is_ready() {
            self.act(Signals::one(Signal::TaskCreated));
        }
        self.write_requests();
        Ok(id)
    }

    pub(crate) fn authorized(&mut self, now: Time) -> Result<(), CommandError> {
        self.core.check_open()?;
        self.core.advance(now);
        calls::unblock(&mut self.core, Block::Authorization, request::Input::Admitted);
        self.admit_connection();
        Ok(())
    }

    pub(super) fn admit_connection(&mut self) {
        let signals = self.link.step(&mut self.core, link::Input::Authorized);
        self.act(signals);
        self.write_requests();
    }

    fn refresh(&mut self, now: Time, family: Family) -> Result<(), CommandError> {
        let core = &mut self.core;
        core.check_open()?;
        if !core.is_ready() {
            return Err(CommandError::NotReady);
        }
        if !core.gate(gate::Use::Refresh, family).is_allowed() {
            return Err(core.not_advertised(family.list_method(), family.capability().as_str()));
        }
        core.advance(now);
        let signals = self.lists.refresh_on_command(core, family);
        self.connection.freshness.on_use(&mut self.core);
        self.act(signals);
        Ok(())
    }
}
