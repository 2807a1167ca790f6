//! The engine behind every client: its components, its getters, and what a binding asks of it.

use alloc::sync::Arc;
use serde_json::value::RawValue;

use super::core::Core;
use super::handshake::Handshake;
use super::keepalive::Keepalive;
use super::link::Link;
use super::lists::Lists;
use super::notifications::Notifications;
use super::server::Freshness;
use super::server_requests::ServerRequests;
use super::subscriptions::Subscriptions;
use super::{
    ConnectionId, FamilyReport, KnownEra, Options, Outgoing, Output, Quirk, RequestId, Server, Stats, Wire, inputs,
};
use crate::Time;
use crate::catalog::{Catalog, List};
use crate::jsonrpc::Json;
use crate::machine::link;
use crate::machine::request::{self};
use crate::protocol::{CacheScope, Family};
use crate::validation::{ValidationError, Validator};

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

    /// Whether closing the connection ends nothing: the client is ready, nothing is in flight or waits to be polled, and no
    /// resource has a subscription.
    pub(crate) fn is_unused(&self) -> bool {
        let core = &self.core;
        core.is_ready()
            && core.outbox.is_empty()
            && core.requests.is_unused()
            && !self.server_requests.has_open()
            && self.subscriptions.resources().next().is_none()
    }

    /// The outputs that wait to be polled.
    pub(crate) fn pending(&self) -> impl DoubleEndedIterator<Item = &Output> {
        self.core.outbox.iter()
    }

    /// Number of events so far, those included that wait to be polled. Events are never withdrawn.
    pub(crate) const fn events(&self) -> u64 {
        self.core.outbox.events()
    }

    /// When the next deadline is due. While there is an output, it is now.
    pub(crate) fn deadline(&self) -> Option<Time> {
        if self.core.outbox.is_empty() { self.next_timer() } else { Some(self.core.now) }
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

    /// Whether the client is closed, whatever waits to be polled.
    pub(crate) fn has_closed(&self) -> bool {
        self.core.link == link::Phase::Closed
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.has_closed() && self.core.outbox.is_empty()
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

    /// Checks a user's response to an elicitation against the form's schema (specification 2026-07-28, "Elicitation"):
    /// before it is given to [`Client::respond`](crate::Client::respond) or [`Client::provide`](crate::Client::provide),
    /// which check nothing. `params` are those of the request. The defaults that [`Options::form_defaults`] adds are part
    /// of the response that is checked.
    ///
    /// A response that does not accept, or to an elicitation that is not a form, is never wrong.
    ///
    /// # Errors
    ///
    /// What the validator found.
    pub fn check_form(
        &self,
        validator: &dyn Validator,
        params: Option<&RawValue>,
        response: &RawValue,
    ) -> Result<(), ValidationError> {
        inputs::check(validator, params, response, self.core.options.form_defaults)
    }

    /// The state of a family.
    pub fn family(&self, family: Family) -> FamilyReport {
        self.lists.report(family, self.subscriptions.watches(&self.core, family))
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
    /// The time of the last input.
    pub(crate) const fn now(&self) -> Time {
        self.core.now
    }

    /// Takes the next output; a message counts as sent.
    #[inline]
    pub(crate) fn poll(&mut self) -> Option<Output> {
        let output = self.core.outbox.pop()?;
        match &output {
            Output::Send(Outgoing { id: Some(id), .. }) => self.core.requests.hand(*id),
            Output::Open(_) => self.link.see(),
            Output::Send(_)
            | Output::Abort(_)
            | Output::Shutdown(_)
            | Output::Event(_)
            | Output::Exchange(_)
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
        within("server_requests", core.url_elicitations.len(), limits.server_requests)?;
        within("subscriptions", subscriptions.resources().count(), limits.subscriptions)?;
        for family in Family::EACH {
            core.catalog.list(family).check(limits.items, limits.list_bytes)?;
        }
        let mut engine = Self { core, link, connection, lists, subscriptions, server_requests };
        engine.core.timers.recount();
        engine.server_requests.publish(&mut engine.core);
        Ok(engine)
    }

    /// The session moved without its transport: what was sent may have run.
    pub(crate) fn lose_transport(&mut self) {
        let signals = self.link.on_moved(&mut self.core);
        self.act(signals);
    }
}
