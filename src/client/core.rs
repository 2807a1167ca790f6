//! What all components share: time, the outbox, the request table, and the server's properties.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::num::NonZero;
use core::time::Duration;

use super::binding_report::BindingReport;
use super::outbox::Outbox;
use super::quirks::Quirks;
use super::request_table::{Call, Purpose, RequestTable};
use super::timers::{SHORTEST, Timer, Timers};
use super::url_elicitations::UrlElicitations;
use super::{CommandError, Event, LogLevel, Options, Output, Quirk, RequestId, Server, Stats, Wire, options};
use crate::Time;
use crate::catalog::Catalog;
use crate::jsonrpc::{Json, Spans};
use crate::machine::setting::{self, Declared, Setting, Telling};
use crate::machine::{QuirkKind, admission, approval, gate, loss, offer, task};
use crate::protocol::{Capability, Era, Family, PerFamily, ProtocolVersion, Root, ServerCapabilities, method};
use crate::text::excerpt;

/// This part of the limits on output is reserved for responses to server requests.
const RESERVE: usize = 8;

/// What the link tells the other components of its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum LinkStage {
    /// There is no connection that takes messages.
    Down,
    /// Handshake and discovery are in progress.
    Connecting,
    /// Requests of the embedder are sent.
    Ready,
    /// The client is closing.
    Closing,
    /// The client is closed.
    Closed,
}

/// The stage of the client.
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
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Core {
    /// Not in a snapshot: the embedder gives them again.
    #[cfg_attr(feature = "snapshot", serde(skip, default = "options::placeholder"))]
    pub(super) options: Arc<Options>,
    pub(super) wire: Wire,
    /// The server's name, if it differs from the one in the options: shared options have no name, an address may contain
    /// secrets, and over HTTP the address stands behind the name.
    #[cfg_attr(feature = "snapshot", serde(skip))]
    server_name: Option<Arc<str>>,
    pub(super) now: Time,
    /// When due deadlines were handled last.
    pub(super) served: Time,
    #[cfg_attr(feature = "snapshot", serde(with = "crate::form::rng"))]
    pub(super) rng: fastrand::Rng,
    pub(super) timers: Timers,
    pub(super) outbox: Outbox,
    pub(super) requests: RequestTable,
    pub(super) binding: BindingReport,
    /// Bytes that required inputs of requests may use: the limit, less what server requests use.
    pub(super) input_room: usize,
    /// Written by the link only.
    pub(super) link: LinkStage,
    /// The negotiated version of this connection.
    pub(super) agreed: Option<ProtocolVersion>,
    /// Whether `initialize` declares the client's capabilities. Written by the handshake only.
    pub(super) offer: offer::State,
    /// The server's description, from this connection or the last one.
    #[cfg_attr(feature = "snapshot", serde(with = "super::server::form"))]
    pub(super) server: Option<Box<Server>>,
    #[cfg_attr(feature = "snapshot", serde(with = "crate::catalog::form::catalog"))]
    pub(super) catalog: Catalog,
    /// What is known of each family's list.
    pub(super) known: PerFamily<gate::Known>,
    pub(super) log_level: Option<LogLevel>,
    /// The roots that the embedder set in place of those in the options.
    #[cfg_attr(feature = "snapshot", serde(default))]
    pub(super) roots: Option<Box<[Root]>>,
    /// The client was ready before, on this connection or an earlier one.
    pub(super) was_ready: bool,
    /// The request in whose HTTP exchange the current message arrived.
    pub(super) exchange: Option<NonZero<u64>>,
    /// Where the long values of the message that is read are.
    #[cfg_attr(feature = "snapshot", serde(skip))]
    pub(super) spans: Spans,
    pub(super) url_elicitations: UrlElicitations,
    pub(super) quirks: Quirks,
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
            binding: BindingReport::default(),
            input_room: options.limits.input_bytes,
            link: LinkStage::Down,
            agreed: None,
            offer: offer::State::Declared,
            server: None,
            catalog: Catalog::default(),
            known: PerFamily::from_fn(|_| gate::Known::NotRequested),
            log_level: options.log_level,
            roots: None,
            was_ready: false,
            exchange: None,
            spans: Spans::default(),
            url_elicitations: UrlElicitations::default(),
            quirks: Quirks::default(),
            stats: Stats::default(),
            options,
        }
    }

    /// Gives a restored client its options.
    #[cfg(feature = "snapshot")]
    pub(super) fn give_options(&mut self, options: Arc<Options>, server: Option<Arc<str>>, wire: Wire) {
        let name = server.as_deref().unwrap_or(&options.server);
        self.server_name = options::without_secrets(name).or(server);
        self.wire = wire;
        self.options = options;
    }

    /// The server's name for messages, without secrets.
    pub(super) fn server_name(&self) -> &str {
        self.server_name.as_deref().unwrap_or(&self.options.server)
    }

    /// Adds the server's address to its name for messages, unless the name is an address.
    pub(super) fn locate(&mut self, address: &str) {
        let name = self.server_name();
        if !name.contains("://") {
            self.server_name = Some([name, " (", address, ")"].concat().into());
        }
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

    /// The stage of the client: the link's, and whether the handshake is done.
    pub(super) const fn stage(&self) -> Stage {
        match self.link {
            LinkStage::Down => Stage::Down,
            LinkStage::Connecting if self.agreed.is_some() => Stage::Discovery,
            LinkStage::Connecting => Stage::Handshake,
            LinkStage::Ready => Stage::Ready,
            LinkStage::Closing => Stage::Closing,
            LinkStage::Closed => Stage::Closed,
        }
    }

    /// Whether the handshake is done on an open connection.
    pub(super) const fn is_established(&self) -> bool {
        matches!(self.stage(), Stage::Discovery | Stage::Ready)
    }

    pub(super) const fn is_ready(&self) -> bool {
        matches!(self.link, LinkStage::Ready)
    }

    pub(super) fn check_open(&self) -> Result<(), CommandError> {
        match self.link {
            LinkStage::Closing | LinkStage::Closed => Err(CommandError::Closed),
            LinkStage::Down | LinkStage::Connecting | LinkStage::Ready => Ok(()),
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

    /// Whether no capabilities of the client were declared: it has none, or the server refused them.
    pub(super) const fn is_undeclared(&self) -> bool {
        matches!(self.offer, offer::State::LeftOut)
    }

    /// Whether the server's annotations are believed.
    pub(super) fn trust(&self) -> approval::Trust {
        if self.options.trust { approval::Trust::Trusted } else { approval::Trust::Untrusted }
    }

    /// The gate's decision for a family.
    pub(super) fn gate(&self, purpose: gate::Use, family: Family) -> crate::machine::Decision {
        let tolerance = &self.options.tolerance;
        let lenient = match purpose {
            gate::Use::Discover => tolerance.list_undeclared,
            gate::Use::ListChanged => tolerance.undeclared_list_changed,
            gate::Use::Listed
            | gate::Use::Refresh
            | gate::Use::Keepalive
            | gate::Use::Call
            | gate::Use::Listen
            | gate::Use::SetLevel => false,
        };
        let policy = if lenient { gate::Policy::Lenient } else { gate::Policy::Strict };
        let server = self.server.as_ref();
        let declared = declaration(server.and_then(|server| match purpose {
            gate::Use::Listen => server.capabilities.as_ref().map(|it| it.list_changed(family.capability())),
            gate::Use::Discover
            | gate::Use::Listed
            | gate::Use::Refresh
            | gate::Use::Keepalive
            | gate::Use::Call
            | gate::Use::ListChanged
            | gate::Use::SetLevel => server.declares(family),
        }));
        gate::take(purpose, declared, policy, *self.known.get(family))
    }

    /// The gate's decision for a capability that is not a family's.
    pub(super) fn gate_capability(&self, purpose: gate::Use, declared: Option<bool>) -> bool {
        gate::take(purpose, declaration(declared), gate::Policy::Strict, gate::Known::NotRequested).is_allowed()
    }

    /// Whether the server is told a setting, whose capability is declared or not.
    pub(super) fn telling(&self, declared: bool, setting: Setting) -> Telling {
        let handshake = if self.is_established() { loss::Handshake::Done } else { loss::Handshake::Open };
        let declared = if declared { Declared::Yes } else { Declared::No };
        setting::take(handshake, self.era().unwrap_or(Era::Legacy), declared, setting)
    }

    /// The capability that the method needs, if the gate withholds the method.
    pub(super) fn missing_capability(&self, method: &str) -> Option<Capability> {
        let capability = Capability::needed_for(method)?;
        let declared = declaration(self.server.as_ref()?.has(capability));
        let families = Family::of(capability).iter();
        let known = families.map(|family| *self.known.get(*family)).min().unwrap_or(gate::Known::NotRequested);
        let decision = gate::take(gate::Use::Call, declared, gate::Policy::Strict, known);
        (!decision.is_allowed()).then_some(capability)
    }

    pub(super) fn not_advertised(&self, method: &str, capability: &'static str) -> CommandError {
        CommandError::NotAdvertised {
            server: self.server_name().into(),
            method: method.into(),
            capability: capability.into(),
        }
    }

    /// Whether notifications of the server are left out, because too much output waits to be polled.
    pub(super) fn is_full(&self) -> bool {
        self.classify_backlog((0, 0)) != admission::Backlog::Free
    }

    /// Whether no more messages without a response may be made, because too much output waits to be polled or
    /// delivered.
    pub(super) fn is_undelivered_full(&self) -> bool {
        self.backlog() == admission::Backlog::Overrun
    }

    /// How much output waits to be polled or delivered.
    pub(super) fn backlog(&self) -> admission::Backlog {
        self.classify_backlog(self.binding.undelivered)
    }

    /// Whether the limit of outputs that wait to be polled is reached.
    pub(super) fn is_outbox_full(&self) -> bool {
        self.outbox.len().saturating_add(self.binding.unpolled.0) >= self.options.limits.output
    }

    fn classify_backlog(&self, (count, bytes): (usize, usize)) -> admission::Backlog {
        let (limits, (events, event_bytes)) = (&self.options.limits, self.binding.unpolled);
        let count = self.outbox.len().saturating_add(events).saturating_add(count);
        let bytes = self.outbox.unasked_bytes().saturating_add(event_bytes).saturating_add(bytes);
        let reaches = |most: usize, most_bytes: usize| count >= most || bytes >= most_bytes;
        let open = |limit: usize| limit.saturating_sub(limit.div_ceil(RESERVE));
        let full = reaches(open(limits.output), open(limits.output_bytes));
        match (full, reaches(limits.output, limits.output_bytes)) {
            (false, _) => admission::Backlog::Free,
            (true, false) => admission::Backlog::Full,
            (true, true) => admission::Backlog::Overrun,
        }
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
        self.quirks.release();
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
        if self.quirks.has_room(kind, method.as_deref(), self.quirk_limit()) {
            let detail = excerpt(&detail).into();
            let quirk = self.quirks.add(Quirk { kind, family, method: method.map(Box::from), detail });
            self.event(Event::Quirk(quirk));
        }
    }

    /// Records deviations of the items of a list, in a text of limited length. At the end of the list, a text that
    /// further pages changed is reported again.
    pub(super) fn item_quirk(&mut self, kind: QuirkKind, family: Family, detail: Box<str>, ends: bool) {
        let method = family.list_method();
        if self.quirks.has_room(kind, Some(method), self.quirk_limit()) {
            let quirk = self.quirks.add(Quirk { kind, family: Some(family), method: Some(method.into()), detail });
            self.event(Event::Quirk(quirk));
        } else if ends && let Some(quirk) = self.quirks.change(kind, Some(method), &detail).cloned() {
            self.event(Event::Quirk(quirk));
        }
    }

    /// A client that is closed records none.
    fn quirk_limit(&self) -> usize {
        if self.link == LinkStage::Closed { 0 } else { self.options.limits.quirks }
    }

    pub(super) fn is_sent(&self, id: u64) -> bool {
        self.requests.is_sent(id)
    }

    /// The embedder's id of a request, if it is the embedder's.
    pub(super) fn handle_of(&self, id: u64) -> Option<RequestId> {
        if let Purpose::Call(call) = &self.requests.get(id)?.purpose { Some(call.handle) } else { None }
    }

    /// Whether the client enables tasks, and the server's version has those of 2025-11-25.
    pub(super) fn has_legacy_tasks(&self) -> bool {
        self.options.capabilities.tasks && self.version() == Some(ProtocolVersion::V2025_11_25)
    }

    /// How long the task of a call is kept, if the call is sent as a task (2025-11-25): as long as the call may take.
    pub(super) fn task_ttl(&self, call: &Call) -> Option<Duration> {
        if !self.has_legacy_tasks() || call.request.method != method::TOOLS_CALL {
            return None;
        }
        let params = call.request.params.as_deref().map(Json::from)?;
        let tool = params.member("name").and_then(Json::as_string).and_then(|name| self.catalog.tool(&name))?;
        let capabilities = self.server.as_ref().and_then(|server| server.capabilities.as_ref());
        let declared = match capabilities.is_some_and(ServerCapabilities::runs_tools_as_tasks) {
            true => task::Server::Declared,
            false => task::Server::Undeclared,
        };
        match task::take_form(declared, tool.task_support()) {
            task::Form::Task => Some(call.latest.since(self.requests.call_time(self.now))),
            task::Form::Plain => None,
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
