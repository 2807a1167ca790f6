//! What all components share: time, the outbox, the request table, and the server's properties.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::num::NonZero;
use core::time::Duration;

use super::outbox::Outbox;
use super::request_table::{Purpose, RequestTable};
use super::timers::{SHORTEST, Timer, Timers};
use super::{CommandError, Event, LogLevel, Options, Outgoing, Output, Quirk, RequestId, Server, Stats, Wire, options};
use crate::Time;
use crate::catalog::Catalog;
use crate::jsonrpc::Object;
use crate::machine::{QuirkKind, gate, request};
use crate::protocol::{Capability, Era, Family, PerFamily, ProtocolVersion, method};

/// Maximum length of a stored text of the server, in characters.
pub(super) const EXCERPT: usize = 200;

/// The beginning of a text, at most `EXCERPT` characters.
pub(super) fn excerpt(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(EXCERPT) {
        Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or(""))),
        None => Cow::Borrowed(text),
    }
}

/// The stage of the client, for components other than the link and the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// There is no connection that takes messages.
    Down,
    /// The handshake is in progress.
    Handshake,
    /// The handshake is done, and discovery is in progress.
    Discovery,
    /// Requests of the embedder are sent.
    Ready,
    /// The client is closing.
    Closing,
    /// The client is closed.
    Closed,
}

#[derive(Clone, Debug)]
pub(super) struct Core {
    pub(super) options: Arc<Options>,
    pub(super) wire: Wire,
    /// The server's name, if it differs from the one in the options: shared options have no name, and an address may
    /// contain secrets.
    server_name: Option<Arc<str>>,
    pub(super) now: Time,
    /// When due deadlines were served last.
    pub(super) served: Time,
    pub(super) rng: fastrand::Rng,
    pub(super) timers: Timers,
    pub(super) outbox: Outbox,
    pub(super) requests: RequestTable,
    /// Bytes that required inputs of requests may use: the limit, less what server requests use.
    pub(super) input_room: usize,
    pub(super) stage: Stage,
    /// The negotiated version of this connection.
    pub(super) agreed: Option<ProtocolVersion>,
    /// The client's capabilities are not declared on this connection, because the server refused them.
    pub(super) undeclared: bool,
    /// The server's description, from this connection or the last one.
    pub(super) server: Option<Box<Server>>,
    pub(super) catalog: Catalog,
    /// What is known of each family's list.
    pub(super) known: PerFamily<gate::Known>,
    pub(super) log_level: Option<LogLevel>,
    /// The embedder was not asked for the connection yet: it polled neither the request to open it nor one on it.
    pub(super) unseen: bool,
    /// The client was ready before, on this connection or an earlier one.
    pub(super) was_ready: bool,
    /// The request in whose HTTP exchange the current message arrived.
    pub(super) exchange: Option<NonZero<u64>>,
    pub(super) quirks: Vec<Quirk>,
    pub(super) stats: Stats,
}

impl Core {
    pub(super) fn new(options: Arc<Options>, server: Option<Arc<str>>, wire: Wire, seed: u64) -> Self {
        let name = server.as_deref().unwrap_or(&options.server);
        Self {
            server_name: options::without_secrets(name).or(server),
            wire,
            now: Time::ZERO,
            served: Time::ZERO,
            rng: fastrand::Rng::with_seed(seed),
            timers: Timers::default(),
            outbox: Outbox::default(),
            requests: RequestTable::default(),
            input_room: options.limits.input_bytes,
            stage: Stage::Down,
            agreed: None,
            undeclared: false,
            server: None,
            catalog: Catalog::default(),
            known: PerFamily::from_fn(|_| gate::Known::Unasked),
            log_level: options.log_level,
            unseen: false,
            was_ready: false,
            exchange: None,
            quirks: Vec::new(),
            stats: Stats::default(),
            options,
        }
    }

    /// The server's name for messages, without secrets.
    pub(super) fn server_name(&self) -> &str {
        self.server_name.as_deref().unwrap_or(&self.options.server)
    }

    /// Time never goes back, whatever the embedder's clock does.
    pub(super) fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    /// The time after this wait; always later than now.
    pub(super) fn after(&self, wait: Duration) -> Time {
        self.now + wait.max(SHORTEST)
    }

    /// Starts a timer.
    pub(super) fn arm(&mut self, timer: Timer, wait: Duration) {
        let at = self.after(wait);
        self.timers.set(timer, Some(at));
    }

    /// The deadline of an engine request that is made now.
    pub(super) fn request_deadline(&self) -> Time {
        self.after(self.options.timeouts.request)
    }

    /// Whether the handshake is done on an open connection.
    pub(super) fn is_established(&self) -> bool {
        matches!(self.stage, Stage::Discovery | Stage::Ready)
    }

    pub(super) fn is_ready(&self) -> bool {
        self.stage == Stage::Ready
    }

    pub(super) fn check_open(&self) -> Result<(), CommandError> {
        match self.stage {
            Stage::Closing | Stage::Closed => Err(CommandError::Closed),
            Stage::Down | Stage::Handshake | Stage::Discovery | Stage::Ready => Ok(()),
        }
    }

    /// The server's era, if it is known.
    pub(super) fn era(&self) -> Option<Era> {
        self.server.as_ref().map(|server| server.era())
    }

    pub(super) fn is_modern(&self) -> bool {
        self.era() == Some(Era::Modern)
    }

    pub(super) fn version(&self) -> Option<ProtocolVersion> {
        self.server.as_ref().map(|server| server.version)
    }

    /// The gate's decision for a family.
    pub(super) fn gate(&self, purpose: gate::Purpose, family: Family) -> crate::machine::Decision {
        let tolerance = &self.options.tolerance;
        let lenient = match purpose {
            gate::Purpose::Discover => tolerance.ask_anyway,
            gate::Purpose::ListChanged => tolerance.undeclared_list_changed,
            gate::Purpose::Listed
            | gate::Purpose::Refresh
            | gate::Purpose::Keepalive
            | gate::Purpose::Call
            | gate::Purpose::Listen
            | gate::Purpose::SetLevel => false,
        };
        let policy = if lenient { gate::Policy::Lenient } else { gate::Policy::Strict };
        let server = self.server.as_ref();
        let declared = declaration(server.and_then(|server| match purpose {
            gate::Purpose::Listen => server.capabilities.as_ref().map(|it| it.list_changed(family.capability())),
            gate::Purpose::Discover
            | gate::Purpose::Listed
            | gate::Purpose::Refresh
            | gate::Purpose::Keepalive
            | gate::Purpose::Call
            | gate::Purpose::ListChanged
            | gate::Purpose::SetLevel => server.declares(family),
        }));
        gate::take(purpose, declared, policy, *self.known.get(family))
    }

    /// The gate's decision for a capability that is not a family's.
    pub(super) fn gate_capability(&self, purpose: gate::Purpose, declared: Option<bool>) -> bool {
        gate::take(purpose, declaration(declared), gate::Policy::Strict, gate::Known::Unasked).is_allowed()
    }

    /// The capability that the method needs, if the gate withholds the method.
    pub(super) fn missing_capability(&self, method: &str) -> Option<Capability> {
        let capability = Capability::needed_for(method)?;
        let declared = declaration(self.server.as_ref()?.has(capability));
        let families = Family::of(capability).iter();
        let known = families.map(|family| *self.known.get(*family)).min().unwrap_or(gate::Known::Unasked);
        let decision = gate::take(gate::Purpose::Call, declared, gate::Policy::Strict, known);
        (!decision.is_allowed()).then_some(capability)
    }

    pub(super) fn not_advertised(&self, method: &str, capability: &'static str) -> CommandError {
        CommandError::NotAdvertised { server: self.server_name().into(), method: method.into(), capability }
    }

    /// Whether notifications and requests of the server are left out, because too much output waits to be polled.
    pub(super) fn is_full(&self) -> bool {
        self.is_full_beside((0, 0))
    }

    /// Whether no more messages without a response may be made, because too much output waits to be polled or
    /// delivered.
    pub(super) fn is_undelivered_full(&self) -> bool {
        self.is_full_beside(self.requests.http.undelivered)
    }

    /// Whether the limit of outputs that wait to be polled is reached.
    pub(super) fn is_outbox_full(&self) -> bool {
        self.outbox.len().saturating_add(self.requests.http.unpolled.0) >= self.options.limits.output
    }

    fn is_full_beside(&self, (count, bytes): (usize, usize)) -> bool {
        let (limits, (events, event_bytes)) = (&self.options.limits, self.requests.http.unpolled);
        self.outbox.len().saturating_add(events).saturating_add(count) >= limits.output
            || self.outbox.unasked_bytes().saturating_add(event_bytes).saturating_add(bytes) >= limits.output_bytes
    }

    pub(super) fn event(&mut self, event: Event) {
        self.outbox.push(Output::Event(event));
    }

    /// Counts a message of the server that is left out.
    pub(super) fn leave_out(&mut self) {
        self.stats.left_out = self.stats.left_out.saturating_add(1);
    }

    /// Releases memory that an idle client does not need.
    pub(super) fn release_memory(&mut self) {
        self.requests.release();
        self.outbox.release();
        self.quirks.shrink_to_fit();
    }

    /// Records a deviation, once per kind and method.
    pub(super) fn quirk(
        &mut self,
        kind: QuirkKind,
        family: Option<Family>,
        method: Option<&str>,
        detail: impl Into<Box<str>>,
    ) {
        let (detail, method) = (detail.into(), method.map(excerpt));
        if self.known_quirk(kind, method.as_deref()).is_none() {
            let detail = excerpt(&detail).into();
            self.record(Quirk { kind, family, method: method.map(Box::from), detail });
        }
    }

    /// Records deviations of the items of a list, in a text of limited length. Further pages of the list add to it.
    pub(super) fn item_quirk(&mut self, kind: QuirkKind, family: Family, detail: Box<str>) {
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
        if self.stage != Stage::Closed && self.quirks.len() < self.options.limits.quirks {
            self.quirks.push(quirk.clone());
            self.event(Event::Quirk(quirk));
        }
    }

    pub(super) fn is_sent(&self, id: u64) -> bool {
        self.requests.get(id).is_some_and(|open| open.phase == request::State::Sent)
    }

    /// The embedder's id of a request, if it is the embedder's.
    pub(super) fn handle_of(&self, id: u64) -> Option<RequestId> {
        if let Purpose::Call(call) = &self.requests.get(id)?.purpose { Some(call.handle) } else { None }
    }

    /// Cancels an engine request whose response is not needed any more.
    pub(super) fn give_up(&mut self, id: u64) {
        self.outbox.retract(id);
        if self.requests.abandon(id).is_some_and(|open| open.phase == request::State::Sent) {
            self.abort(id);
        }
    }

    /// Has the HTTP binding drop the exchange of a cancelled request.
    pub(super) fn abort(&mut self, id: u64) {
        if self.wire == Wire::Http {
            self.outbox.push(Output::Abort(id));
        }
    }

    /// Sends a cancellation of a request.
    pub(super) fn send_cancelled(&mut self, id: u64, reason: &str) {
        self.abort(id);
        // Over HTTP in the modern era, closing the response stream is the cancellation (specification 2026-07-28,
        // "Streamable HTTP", Cancellation).
        if self.wire == Wire::Http && self.is_modern() {
            return;
        }
        let message = self.encode_notification(
            method::CANCELLED,
            Some(|out: &mut Vec<u8>| {
                let mut params = Object::begin(out);
                params.integer("requestId", id.into()).string("reason", reason);
                params.end();
            }),
        );
        let of = self.handle_of(id);
        self.outbox.push(Output::Send(Outgoing { of, ..message }));
    }

    /// Sends the log level to a legacy server, if the embedder set one and the server declares logging.
    pub(super) fn send_log_level(&mut self) {
        let server = self.server.as_ref().filter(|server| server.era() == Era::Legacy);
        let has_log =
            server.is_some_and(|server| self.gate_capability(gate::Purpose::SetLevel, server.has(Capability::Logging)));
        // A request that is not encoded yet takes the current level when it is.
        if has_log && self.log_level.is_some() && !self.requests.is_level_queued() {
            let deadline = self.request_deadline();
            self.requests.insert(Purpose::SetLevel, Some(deadline));
        }
    }
}

/// The server's declaration, as the tables take it.
pub(super) const fn declaration(declared: Option<bool>) -> gate::Declaration {
    match declared {
        Some(true) => gate::Declaration::Declared,
        Some(false) => gate::Declaration::Undeclared,
        None => gate::Declaration::Unknown,
    }
}
