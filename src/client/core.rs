//! What all components share: time, the outbox, the timers, the request table, and what is known of the server; and
//! the signals with which they report to the router.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use serde_json::value::RawValue;

use super::request::{Call, Purpose};
use super::request_table::{OpenRequest, RequestTable};
use super::{
    CommandError, Event, Failure, FailureKind, FamilyStatus, KnownEra, LogLevel, Options, Outgoing, Output, Quirk,
    RequestId, Server, ServerMethod, Stats, Wire, options,
};
use crate::Time;
use crate::catalog::{Catalog, TaskSupport};
use crate::collections::{Series, start};
use crate::jsonrpc::{Json, Object, Spans};
use crate::machine::keepalive::Pings;
use crate::machine::link::Phase;
use crate::machine::request::{Abandoned, CancelMethod};
use crate::machine::{QuirkKind, gate, link, request};
use crate::protocol::{Capability, Era, Family, PerFamily, ProtocolVersion, Root, method};
use crate::text::excerpt;

/// This part of the limits on output is reserved for responses to server requests.
const RESERVE: usize = 8;

/// The output that waits to be polled or delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backlog {
    Free,
    /// Seven eighths of the limits on output are used; the rest is reserved for responses to server requests.
    Full,
    /// A limit is reached.
    Overrun,
}

/// The stage of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// There is no transport.
    Down,
    /// The transport is being opened.
    Opening,
    /// The handshake is in progress.
    Handshake,
    /// The handshake is done, and discovery is in progress.
    Discovery,
    /// Requests of the embedder are sent.
    Ready,
    /// Ready, but nobody is reached: what is in flight is tried again.
    Unreached,
    /// The client is closing.
    Closing,
    /// The client is closed.
    Closed,
}

impl Stage {
    /// Whether the handshake is done on an open connection.
    pub(crate) const fn is_established(self) -> bool {
        matches!(self, Self::Discovery | Self::Ready | Self::Unreached)
    }

    /// Whether a transport is open, or is being opened.
    pub(crate) const fn has_transport(self) -> bool {
        matches!(self, Self::Opening | Self::Handshake | Self::Discovery | Self::Ready | Self::Unreached)
    }
}

/// `initialize` in place of `server/discover`, once until the client is ready, for a server that answers no list in the
/// modern era.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum FallBack {
    Possible,
    /// It is tried, because a connection failed so.
    Tried(Box<Failure>),
    /// It did not help.
    Over,
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
    pub(super) binding: BindingState,
    /// Bytes that required inputs of requests may use: the limit, less what server requests use.
    pub(super) input_room: usize,
    /// Written by the link only.
    pub(super) link: Phase,
    /// The negotiated version of this connection.
    pub(super) agreed: Option<ProtocolVersion>,
    /// No capabilities of the client are declared: it has none, or the server refused them. Written by the handshake only.
    pub(super) is_bare: bool,
    /// The server's description, from this connection or the last one.
    #[cfg_attr(feature = "snapshot", serde(with = "super::server::form"))]
    pub(super) server: Option<Box<Server>>,
    #[cfg_attr(feature = "snapshot", serde(with = "crate::catalog::form::catalog"))]
    pub(super) catalog: Catalog,
    /// The members of `_meta` that each request to the modern server has, with the brace before them.
    #[cfg_attr(feature = "snapshot", serde(skip))]
    pub(super) identity: Option<Box<[u8]>>,
    /// The state of each family's list.
    pub(super) families: PerFamily<FamilyStatus>,
    /// The server's era, from an earlier connection.
    pub(super) known_era: Option<KnownEra>,
    /// How many responses in a row showed that the server changed its era or version.
    pub(super) outdated_responses: u8,
    /// What is known of responses to `ping`.
    pub(super) pings: Pings,
    /// How many connections in a row closed on a `ping`.
    pub(super) ping_exits: u8,
    pub(super) fall_back: FallBack,
    pub(super) log_level: Option<LogLevel>,
    /// The roots that the embedder set in place of those in the options.
    #[cfg_attr(feature = "snapshot", serde(default))]
    pub(super) roots: Option<Box<[Root]>>,
    /// The client was ready before, on this connection or an earlier one.
    pub(super) was_ready: bool,
    /// Where the members of the items are, in the message that is read.
    #[cfg_attr(feature = "snapshot", serde(skip))]
    pub(super) spans: Spans,
    /// Few servers ask for any.
    pub(super) url_elicitations: Option<Box<UrlElicitations>>,
    /// What the embedder got within the last minute or second, where that is limited. Few servers send any.
    pub(super) rates: Option<Box<Rates>>,
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
            requests: RequestTable::new(wire == Wire::Http),
            binding: BindingState::default(),
            input_room: options.limits.input_bytes,
            link: Phase::Idle,
            agreed: None,
            is_bare: false,
            server: None,
            catalog: Catalog::default(),
            identity: None,
            families: PerFamily::from_fn(|_| FamilyStatus::NotRequested),
            known_era: None,
            outdated_responses: 0,
            pings: Pings::Unknown,
            ping_exits: 0,
            fall_back: FallBack::Possible,
            log_level: options.log_level,
            roots: None,
            was_ready: false,
            spans: Spans::default(),
            url_elicitations: None,
            rates: None,
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
        self.encode_identity();
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

    /// Whether a connection is open as soon as it is wanted: HTTP opens none.
    pub(super) fn opens_at_once(&self) -> bool {
        matches!(self.wire, Wire::Http) && !self.binding.opens_stream
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

    /// Discovery, and what opens the connection, may take this long from now on, if they are in progress.
    pub(super) fn extend(&mut self, discovery: Duration, connect: Option<Duration>) {
        for (timer, wait) in [(Timer::Discovery, Some(discovery)), (Timer::Connect, connect)] {
            if let Some(wait) = wait.filter(|_| self.timers.get(timer).is_some()) {
                self.arm(timer, wait);
            }
        }
    }

    /// The deadline of an engine request that is made now.
    pub(super) fn request_deadline(&self) -> Time {
        self.after(self.options.timeouts.request)
    }

    /// The stage of the client: the link's, and whether the handshake is done.
    pub(super) const fn stage(&self) -> Stage {
        match self.link {
            Phase::Connecting if self.agreed.is_some() => Stage::Discovery,
            Phase::Connecting => Stage::Handshake,
            Phase::Ready => Stage::Ready,
            Phase::Unreached => Stage::Unreached,
            Phase::Closing => Stage::Closing,
            Phase::Closed => Stage::Closed,
            Phase::Opening => Stage::Opening,
            Phase::Idle
            | Phase::Draining
            | Phase::Retiring
            | Phase::Waiting
            | Phase::Parked
            | Phase::Suspending
            | Phase::Resuming
            | Phase::Suspended => Stage::Down,
        }
    }

    /// Whether the handshake is done on an open connection.
    pub(super) const fn is_established(&self) -> bool {
        self.stage().is_established()
    }

    pub(super) const fn is_ready(&self) -> bool {
        matches!(self.link, Phase::Ready)
    }

    pub(super) fn check_open(&self) -> Result<(), CommandError> {
        if matches!(self.link, Phase::Closing | Phase::Closed) { Err(CommandError::Closed) } else { Ok(()) }
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
    pub(super) fn gate(&self, purpose: gate::Use, family: Family) -> crate::machine::Decision {
        let tolerance = &self.options.tolerance;
        let lenient = purpose == gate::Use::Discover && tolerance.list_undeclared
            || purpose == gate::Use::ListChanged && tolerance.undeclared_list_changed;
        let server = self.server.as_ref();
        let declared = declaration(server.and_then(|server| {
            if purpose == gate::Use::Listen {
                server.declared.map(|declared| declared.list_changed(family.capability()))
            } else {
                server.declares(family)
            }
        }));
        gate::decide(purpose, declared, lenient, self.families.get(family).known())
    }

    /// The gate's decision for a capability that is not a family's.
    pub(super) fn gate_capability(&self, purpose: gate::Use, declared: Option<bool>) -> bool {
        gate::decide(purpose, declaration(declared), false, gate::Known::NotRequested).is_allowed()
    }

    /// Whether a legacy server is sent the embedder's settings. A modern one gets them with the requests.
    pub(super) fn sends_settings(&self) -> bool {
        self.is_established() && !self.is_modern()
    }

    /// The capability that the method needs, if the gate withholds the method.
    pub(super) fn missing_capability(&self, method: &str) -> Option<Capability> {
        let capability = Capability::needed_for(method)?;
        let declared = declaration(self.server.as_ref()?.has(capability));
        let families = Family::of(capability).iter();
        let known =
            families.map(|family| self.families.get(*family).known()).min().unwrap_or(gate::Known::NotRequested);
        let decision = gate::decide(gate::Use::Call, declared, false, known);
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
        self.classify_backlog((0, 0)) != Backlog::Free
    }

    /// Whether no more messages without a response may be made, because too much output waits to be polled or
    /// delivered.
    pub(super) fn is_undelivered_full(&self) -> bool {
        self.backlog() == Backlog::Overrun
    }

    /// How much output waits to be polled or delivered.
    pub(super) fn backlog(&self) -> Backlog {
        self.classify_backlog(self.binding.undelivered)
    }

    /// Whether the limit of outputs that wait to be polled is reached.
    pub(super) fn is_outbox_full(&self) -> bool {
        self.outbox.len() >= self.options.limits.output
    }

    fn classify_backlog(&self, (count, bytes): (usize, usize)) -> Backlog {
        let limits = &self.options.limits;
        let count = self.outbox.len().saturating_add(count);
        let bytes = self.outbox.unasked_bytes().saturating_add(bytes);
        let reaches = |most: usize, most_bytes: usize| count >= most || bytes >= most_bytes;
        let open = |limit: usize| limit.saturating_sub(limit.div_ceil(RESERVE));
        let full = reaches(open(limits.output), open(limits.output_bytes));
        match (full, reaches(limits.output, limits.output_bytes)) {
            (false, _) => Backlog::Free,
            (true, false) => Backlog::Full,
            (true, true) => Backlog::Overrun,
        }
    }

    pub(super) fn event(&mut self, event: Event) {
        self.outbox.push(Output::Event(event));
    }

    pub(super) fn events(&mut self, events: impl IntoIterator<Item = Event>) {
        events.into_iter().for_each(|event| self.event(event));
    }

    /// A notification or a response is dropped, because the server did not accept the messages before it.
    pub(super) fn drop_undelivered(&mut self, method: Option<&str>) {
        self.stats.undelivered = self.stats.undelivered.saturating_add(1);
        let what = if method.is_some() { "a notification" } else { "a response" };
        let detail = format!("{what} was dropped, because the server did not accept the messages before it");
        self.quirk(QuirkKind::Undelivered, None, method, detail);
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
        if self.link == Phase::Closed { 0 } else { self.options.limits.quirks }
    }

    pub(super) fn is_sent(&self, id: u64) -> bool {
        self.requests.is_sent(id)
    }

    /// The embedder's id of a request, if it is the embedder's.
    pub(super) fn handle_of(&self, id: u64) -> Option<RequestId> {
        self.requests.call(id).map(|call| call.handle)
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
        let capabilities = self.server.as_ref().and_then(|server| server.capabilities());
        // An optional task gains nothing for a caller that waits for the result.
        let as_task =
            capabilities.is_some_and(|it| it.runs_tools_as_tasks()) && tool.task_support() == TaskSupport::Required;
        as_task.then(|| call.latest.since(self.requests.call_time(self.now)))
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

impl Core {
    /// Ends a request of the engine; `None` if it is not open, or the input does not end it.
    pub(super) fn end_request(&mut self, id: u64, input: request::Input, reason: &str) -> Option<OpenRequest> {
        use request::Effect;
        let row = request::step(self.requests.get(id)?.phase, input);
        if row.next != request::State::Ended {
            return None;
        }
        for effect in row.effects {
            match effect {
                Effect::Retract => self.outbox.retract(id),
                Effect::Cancel => self.cancel_request(id, reason),
                Effect::Drop => self.drop_request(id),
                // A request of the engine has no outcome that is reported, and nothing else ends a request.
                Effect::Requeue
                | Effect::RequeueAnew
                | Effect::CountLoss
                | Effect::CountExpiry
                | Effect::AwaitInput
                | Effect::AwaitTask
                | Effect::Block
                | Effect::EndAnswered
                | Effect::EndInvalid
                | Effect::EndInputRequired
                | Effect::EndRefused
                | Effect::EndCancelled
                | Effect::EndTimedOut
                | Effect::EndNotAdvertised
                | Effect::EndUnsent
                | Effect::EndUnknown => {}
            }
        }
        self.requests.remove(id)
    }

    /// Ends a request of the handshake whose response is not needed any more.
    pub(super) fn give_up(&mut self, id: u64) {
        self.end_request(id, request::Input::Withdrawn, "");
    }

    /// Cancels a sent request; its response may still come.
    pub(super) fn cancel_request(&mut self, id: u64, reason: &str) {
        let kind = match self.requests.call(id) {
            _ if self.requests.does_not_run(id) => Abandoned::Dropped,
            Some(call) if call.task.is_some() => Abandoned::AboutTask,
            Some(call) if self.task_ttl(call).is_some() => Abandoned::CreatesTask,
            Some(_) | None => Abandoned::Plain,
        };
        self.abandon(id, kind, reason);
    }

    /// Cancels a task, if there is one, and a connection, and the server takes that.
    pub(super) fn cancel_task(&mut self, task: Option<&str>) {
        let declares = |server: &Server| server.has(Capability::TaskCancellation) == Some(true);
        if let Some(task) = task
            && self.is_ready()
            && (self.is_modern() || self.server.as_deref().is_some_and(declares))
        {
            let deadline = self.request_deadline();
            self.requests.insert(Purpose::CancelTask(task.into()), Some(deadline));
        }
    }

    /// Drops a sent request; its response may still come.
    pub(super) fn drop_request(&mut self, id: u64) {
        self.abandon(id, Abandoned::Dropped, "");
    }

    /// The response to a sent request is not needed any more, but may still come.
    fn abandon(&mut self, id: u64, kind: Abandoned, reason: &str) {
        match request::cancel(self.wire, kind, self.era().unwrap_or(Era::Legacy)) {
            CancelMethod::Notify => self.send_cancelled(id, reason),
            CancelMethod::CloseAndNotify => {
                self.outbox.push(Output::Abort(id));
                self.send_cancelled(id, reason);
            }
            CancelMethod::Close => self.outbox.push(Output::Abort(id)),
            CancelMethod::Nothing => {}
        }
        self.requests.expect_late(id);
    }

    /// Sends a cancellation of a request.
    fn send_cancelled(&mut self, id: u64, reason: &str) {
        if self.binding.is_full {
            return self.drop_undelivered(Some(method::CANCELLED));
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
}

/// What a component reports to the router, which passes it to the component that handles it.
#[derive(Debug)]
pub(super) enum Signal {
    /// A transport is to be opened: the state of the last handshake is dropped.
    Opening,
    /// The transport is open: the handshake starts.
    Opened,
    /// The handshake is done with a modern server.
    ModernAgreed,
    /// The lists can be requested.
    Discover,
    /// Discovery is done for every family.
    Discovered,
    /// The transport closed during the handshake.
    TransportClosed(Box<str>),
    /// The handshake needs a new transport, for `initialize` without `server/discover`.
    Reopen,
    /// The connection is lost or unusable.
    Lost(Loss),
    /// The client is ready.
    Ready,
    /// The client closes.
    Finish,
    /// The session expired; this request was refused because of it and did not run.
    Expired(Option<u64>),
    /// A call needs the tools' schemas.
    SchemasWanted,
    /// The tools were listed again, or could not be.
    Schemas { known: bool },
    /// The listen stream of this request announces changes from now on.
    Watched { request: u64, families: PerFamily<Watch> },
    /// A call runs as a task from now on.
    TaskCreated,
    /// Changes of these families are not announced any more.
    Unwatched(PerFamily<bool>),
}

/// Whether changes of a family were announced before, and are announced now.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watch {
    pub(super) before: bool,
    pub(super) now: bool,
}

/// A connection that is lost or unusable.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Loss {
    pub(super) kind: FailureKind,
    pub(super) message: Box<str>,
    pub(super) transport: link::Transport,
}

impl Loss {
    /// What the embedder is told of it.
    pub(super) fn failure(&self) -> Failure {
        Failure { kind: self.kind, message: self.message.clone() }
    }
}

/// The signals of a step, in order. Most steps have none, and few have more than one.
#[derive(Debug, Default)]
#[must_use = "the router acts on signals"]
pub(super) struct Signals {
    first: Option<Signal>,
    more: Vec<Signal>,
}

impl Signals {
    pub(super) const NONE: Self = Self { first: None, more: Vec::new() };

    pub(super) const fn one(signal: Signal) -> Self {
        Self { first: Some(signal), more: Vec::new() }
    }

    pub(super) fn lost(kind: FailureKind, message: impl Into<Box<str>>, transport: link::Transport) -> Self {
        Self::one(Signal::Lost(Loss { kind, message: message.into(), transport }))
    }

    /// Reports whether the tools were listed again, if the list is theirs.
    pub(super) const fn schemas(family: Family, known: bool) -> Self {
        match family {
            Family::Tools => Self::one(Signal::Schemas { known }),
            Family::Prompts | Family::Resources | Family::ResourceTemplates => Self::NONE,
        }
    }

    pub(super) fn push(&mut self, signal: Signal) {
        match &self.first {
            None => self.first = Some(signal),
            Some(_) => self.more.push(signal),
        }
    }

    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Whether one of them is a loss of the connection.
    pub(super) fn has_loss(&self) -> bool {
        self.first.iter().chain(&self.more).any(|signal| matches!(signal, Signal::Lost(_)))
    }

    pub(super) fn extend(&mut self, other: Self) {
        other.into_iter().for_each(|signal| self.push(signal));
    }
}

impl IntoIterator for Signals {
    type Item = Signal;
    type IntoIter = core::iter::Chain<core::option::IntoIter<Signal>, alloc::vec::IntoIter<Signal>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.more)
    }
}

/// The outputs that wait to be polled, in order.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Outbox {
    queue: VecDeque<Output>,
    /// Bytes in it that the server sent unsolicited, and of responses to them.
    unasked_bytes: usize,
    /// Number of events that were ever queued. Events are never withdrawn.
    events: u64,
}

impl Outbox {
    pub(super) fn push(&mut self, output: Output) {
        self.events = self.events.saturating_add(u64::from(matches!(output, Output::Event(_))));
        self.unasked_bytes = self.unasked_bytes.saturating_add(output.unasked_bytes());
        start(&mut self.queue);
        self.queue.push_back(output);
    }

    /// Adds an output of an HTTP binding. `Closed` remains the last one.
    #[cfg(feature = "http")]
    pub(super) fn push_action(&mut self, action: Output) {
        let is_closed = matches!(self.queue.back(), Some(Output::Event(Event::Closed { .. })));
        let closed = if is_closed { self.queue.pop_back() } else { None };
        start(&mut self.queue);
        self.queue.push_back(action);
        self.queue.extend(closed);
    }

    /// Adds the starts of exchanges before everything else, but for starts that are there already.
    #[cfg(feature = "http")]
    pub(super) fn push_starts_first(&mut self, numbers: impl IntoIterator<Item = super::StartId>) {
        let first = self.queue.iter().take_while(|output| matches!(output, Output::Start(_))).count();
        for (at, number) in (first..).zip(numbers) {
            start(&mut self.queue);
            self.queue.insert(at, Output::Start(number));
        }
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<Output> {
        let output = self.queue.pop_front()?;
        self.unasked_bytes = self.unasked_bytes.saturating_sub(output.unasked_bytes());
        Some(output)
    }

    /// Releases the memory of a burst that was polled.
    #[cfg(feature = "http")]
    pub(super) fn trim(&mut self) {
        crate::collections::trim(&mut self.queue);
    }

    /// Changes the events after the first `seen` that were ever queued.
    #[cfg(feature = "http")]
    pub(super) fn amend(&mut self, seen: u64, amend: impl FnMut(&mut Event)) {
        let new = usize::try_from(self.events.saturating_sub(seen)).unwrap_or(usize::MAX);
        let outputs = self.queue.iter_mut().rev();
        let events = outputs.filter_map(|output| if let Output::Event(event) = output { Some(event) } else { None });
        events.take(new).for_each(amend);
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Output> {
        self.queue.iter()
    }

    pub(super) const fn events(&self) -> u64 {
        self.events
    }

    pub(super) const fn unasked_bytes(&self) -> usize {
        self.unasked_bytes
    }

    /// Withdraws outputs that were not polled.
    pub(super) fn withdraw(&mut self, unwanted: impl Fn(&Output) -> bool) {
        self.queue.retain(|output| !unwanted(output));
        self.unasked_bytes = self.iter().map(Output::unasked_bytes).sum();
    }

    /// Withdraws outputs for a transport that is gone.
    pub(super) fn withdraw_transport(&mut self) {
        self.withdraw(|output| matches!(output, Output::Send(_) | Output::Shutdown(_) | Output::Open(_)));
    }

    /// Withdraws a request.
    pub(super) fn retract(&mut self, id: u64) {
        // Requests do not count as unsolicited. If many are withdrawn in turn, each is near the front.
        let is_it = |output: &Output| matches!(output, Output::Send(Outgoing { id: Some(sent), .. }) if *sent == id);
        if let Some(at) = self.queue.iter().position(is_it) {
            self.queue.remove(at);
        }
    }

    #[cfg(feature = "snapshot")]
    pub(super) fn check(&self) -> Result<(), crate::snapshot::SnapshotError> {
        let bytes: usize = self.iter().map(Output::unasked_bytes).sum();
        let events = self.iter().filter(|output| matches!(output, Output::Event(_))).count();
        if bytes == self.unasked_bytes && u64::try_from(events).is_ok_and(|events| events <= self.events) {
            Ok(())
        } else {
            Err(crate::snapshot::invalid("its outputs are counted wrongly"))
        }
    }

    /// Releases memory that is not needed.
    pub(super) fn release(&mut self) {
        self.queue.shrink_to_fit();
    }
}

/// The shortest wait. A wait of zero would be due again at the same time without end.
pub(super) const SHORTEST: Duration = Duration::from_millis(1);

/// The longest wait between refreshes that fail or find no change.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The timers of a client, except those of its requests and of server requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// The deadline for opening the transport.
    Open,
    /// The deadline of `server/discover`.
    Discover,
    /// The deadline of the handshake.
    Handshake,
    /// The deadline of discovery.
    Discovery,
    /// The backoff before the transport is opened again.
    Reopen,
    /// The next keepalive request, or the deadline of its response.
    Keepalive,
    /// The grace period between the steps of the shutdown.
    Grace,
    /// The wait before the listen stream is requested again.
    Stream,
    /// The wait before a family's list is requested again.
    Refresh(Family),
    /// The deadline of a connection until the client is ready.
    Connect,
}

impl Timer {
    pub(super) const ALL: [Self; Timers::COUNT] = [
        Self::Open,
        Self::Discover,
        Self::Handshake,
        Self::Discovery,
        Self::Reopen,
        Self::Keepalive,
        Self::Grace,
        Self::Stream,
        Self::Refresh(Family::Tools),
        Self::Refresh(Family::Prompts),
        Self::Refresh(Family::Resources),
        Self::Refresh(Family::ResourceTemplates),
        Self::Connect,
    ];

    /// Its index.
    const fn place(self) -> usize {
        match self {
            Self::Open => 0,
            Self::Discover => 1,
            Self::Handshake => 2,
            Self::Discovery => 3,
            Self::Reopen => 4,
            Self::Keepalive => 5,
            Self::Grace => 6,
            Self::Stream => 7,
            Self::Refresh(Family::Tools) => 8,
            Self::Refresh(Family::Prompts) => 9,
            Self::Refresh(Family::Resources) => 10,
            Self::Refresh(Family::ResourceTemplates) => 11,
            Self::Connect => 12,
        }
    }
}

/// The running timers, and the earliest deadline.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Timers {
    at: [Option<Time>; Self::COUNT],
    #[cfg_attr(feature = "snapshot", serde(skip))]
    soonest: Option<Time>,
}

impl Timers {
    const COUNT: usize = 13;

    pub(super) fn set(&mut self, timer: Timer, at: Option<Time>) {
        if let Some(slot) = self.at.get_mut(timer.place()) {
            *slot = at;
            self.soonest = self.at.iter().flatten().min().copied();
        }
    }

    /// A running timer fires at this time or later.
    pub(super) fn extend(&mut self, timer: Timer, least: Time) {
        self.set(timer, self.get(timer).map(|at| at.max(least)));
    }

    /// Finds the earliest deadline again, in a restored client.
    #[cfg(feature = "snapshot")]
    pub(super) fn recount(&mut self) {
        self.soonest = self.at.iter().flatten().min().copied();
    }

    pub(super) fn get(&self, timer: Timer) -> Option<Time> {
        self.at.get(timer.place()).copied().flatten()
    }

    pub(super) const fn next(&self) -> Option<Time> {
        self.soonest
    }

    /// Stops a timer if it is due. Returns whether it was.
    pub(super) fn take_due(&mut self, timer: Timer, now: Time) -> bool {
        let due = self.get(timer).is_some_and(|at| at <= now);
        if due {
            self.set(timer, None);
        }
        due
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn clear_but(&mut self, kept: Timer) {
        let at = self.get(kept);
        self.clear();
        self.set(kept, at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_timer_has_its_place() {
        assert_eq!(Timer::ALL.map(Timer::place), core::array::from_fn(|place| place));
    }
}

/// One deviation per kind and method.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub(super) struct Quirks(Vec<Quirk>);

impl Quirks {
    pub(super) fn as_slice(&self) -> &[Quirk] {
        &self.0
    }

    /// Whether there is none of this kind and method, and another one is within the limit.
    fn has_room(&self, kind: QuirkKind, method: Option<&str>, most: usize) -> bool {
        self.0.len() < most && !self.0.iter().any(|known| is(known, kind, method))
    }

    /// Adds a deviation, and returns it.
    pub(super) fn add(&mut self, quirk: Quirk) -> Quirk {
        self.0.push(quirk.clone());
        quirk
    }

    /// Changes the text of a recorded deviation. `None` if it is not recorded, or has this text.
    pub(super) fn change(&mut self, kind: QuirkKind, method: Option<&str>, detail: &str) -> Option<&Quirk> {
        let known = self.0.iter_mut().find(|known| is(known, kind, method))?;
        if *known.detail == *detail {
            return None;
        }
        known.detail = Box::from(detail);
        Some(known)
    }

    /// Replaces a recorded deviation with the same in other words.
    #[cfg(feature = "http")]
    pub(super) fn amend(&mut self, recorded: &Quirk, amended: &Quirk) {
        if recorded != amended
            && let Some(known) = self.0.iter_mut().find(|known| is(known, recorded.kind, recorded.method.as_deref()))
        {
            known.clone_from(amended);
        }
    }

    /// Releases memory that is not needed.
    pub(super) fn release(&mut self) {
        self.0.shrink_to_fit();
    }
}

fn is(known: &Quirk, kind: QuirkKind, method: Option<&str>) -> bool {
    known.kind == kind && known.method.as_deref() == method
}

/// Maximum bytes of an id.
const LONGEST_ID: usize = 1024;

/// The elicitations that are not known to be complete, by the order in which they came. They are saved as a list.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "snapshot", serde(from = "Vec<UrlElicitation>", into = "Vec<UrlElicitation>"))]
pub(super) struct UrlElicitations {
    all: Series<UrlElicitation>,
    places: BTreeMap<Arc<str>, u64>,
}

/// An elicitation's id, and the request of the embedder that it is for.
type UrlElicitation = (Arc<str>, Option<RequestId>);

impl UrlElicitations {
    /// Number of elicitations.
    #[cfg(feature = "snapshot")]
    pub(super) const fn len(&self) -> usize {
        self.all.len()
    }

    /// The server asks for an elicitation, for a request of the embedder if it names that. The oldest one is forgotten
    /// beyond the limit.
    pub(super) fn add(&mut self, id: &str, request: Option<RequestId>, limit: usize) {
        if id.len() > LONGEST_ID || limit == 0 {
            return;
        }
        self.remove(id);
        let oldest = if self.all.len() >= limit { self.all.iter().next() } else { None };
        if let Some(oldest) = oldest.map(|(_, (id, _))| Arc::clone(id)) {
            self.remove(&oldest);
        }
        self.push((id.into(), request));
    }

    fn push(&mut self, elicitation: UrlElicitation) {
        let place = self.all.iter().next_back().map_or(0, |(last, _)| last.saturating_add(1));
        self.places.insert(Arc::clone(&elicitation.0), place);
        self.all.insert(place, elicitation);
    }

    fn remove(&mut self, id: &str) -> Option<UrlElicitation> {
        let place = self.places.remove(id)?;
        self.all.remove(place)
    }

    /// Takes `notifications/elicitation/complete`. One with an unknown id, or for the second time, is ignored.
    pub(super) fn on_complete(&mut self, params: Option<&RawValue>) -> Option<Event> {
        let id = Json::from(params?).member("elicitationId").and_then(Json::as_string)?;
        let (id, request) = self.remove(&id)?;
        Some(Event::ElicitationComplete { id: (&*id).into(), request })
    }
}

#[cfg(feature = "snapshot")]
impl From<Vec<UrlElicitation>> for UrlElicitations {
    fn from(all: Vec<UrlElicitation>) -> Self {
        let mut elicitations = Self::default();
        for elicitation in all {
            elicitations.remove(&elicitation.0);
            elicitations.push(elicitation);
        }
        elicitations
    }
}

#[cfg(feature = "snapshot")]
impl From<UrlElicitations> for Vec<UrlElicitation> {
    fn from(elicitations: UrlElicitations) -> Self {
        elicitations.all.iter().map(|(_, elicitation)| elicitation.clone()).collect()
    }
}

/// The state of the HTTP binding, as far as the engine needs it.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct BindingState {
    /// The next connection is one of HTTP+SSE, which is not open before its stream names the endpoint.
    pub(crate) opens_stream: bool,
    /// Tool calls are held: the binding waits for the GET stream, on which the server may send requests.
    pub(crate) holds_tools: bool,
    /// As many messages without a response as may wait do.
    pub(crate) is_full: bool,
    /// Messages without a response that were polled or wait, and that are not delivered yet; and their bytes.
    pub(crate) undelivered: (usize, usize),
}

/// How often the embedder got what is limited per time.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Rates {
    sampling: Recent,
    elicitation: Recent,
    /// Of the current second: when it began, and how many notifications it has.
    notifications: (Time, u32),
}

/// When requests were allowed within the last minute, oldest first.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
struct Recent(VecDeque<Time>);

impl Recent {
    const PERIOD: Duration = Duration::from_secs(60);

    fn len(&self, now: Time) -> usize {
        let old = self.0.partition_point(|at| now.since(*at) >= Self::PERIOD);
        self.0.len().saturating_sub(old)
    }

    fn count(&mut self, now: Time) {
        while self.0.front().is_some_and(|at| now.since(*at) >= Self::PERIOD) {
            self.0.pop_front();
        }
        self.0.push_back(now);
    }
}

impl Core {
    /// Requests of this method per minute, if they are limited.
    fn most_per_minute(&self, method: ServerMethod) -> Option<u32> {
        match method {
            ServerMethod::Sampling => self.options.sampling.per_minute,
            ServerMethod::Elicitation => self.options.elicitations_per_minute,
        }
    }

    /// Why a request of this method exceeds those per minute, if it does. `uncounted`: allowed requests that are not
    /// counted yet.
    pub(super) fn over_rate(&self, method: ServerMethod, uncounted: usize) -> Option<String> {
        let most = self.most_per_minute(method)?;
        let recent = self.rates.as_ref().map_or(0, |rates| match method {
            ServerMethod::Sampling => rates.sampling.len(self.now),
            ServerMethod::Elicitation => rates.elicitation.len(self.now),
        });
        usize::try_from(most)
            .is_ok_and(|most| recent.saturating_add(uncounted) >= most)
            .then(|| format!("at most {most} requests a minute are allowed"))
    }

    /// The embedder gets a request of this method, which counts towards those per minute.
    pub(super) fn count_request(&mut self, method: ServerMethod) {
        if self.most_per_minute(method).is_none() {
            return;
        }
        let rates = self.rates.get_or_insert_default();
        match method {
            ServerMethod::Sampling => rates.sampling.count(self.now),
            ServerMethod::Elicitation => rates.elicitation.count(self.now),
        }
    }

    /// Counts a notification of a kind that is limited per second. Returns whether it is reported.
    pub(super) fn admits_notification(&mut self) -> bool {
        let (now, most) = (self.now, self.options.limits.notifications_per_second);
        let (began, count) = &mut self.rates.get_or_insert_default().notifications;
        if now.since(*began) >= Duration::from_secs(1) {
            (*began, *count) = (now, 0);
        }
        let admitted = *count < most;
        *count = count.saturating_add(u32::from(admitted));
        admitted
    }
}
