//! The engine behind every client: its components, its commands and its getters.

use alloc::borrow::Cow;
use alloc::sync::Arc;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::core::Core;
use super::forms;
use super::freshness::Freshness;
use super::handshake::Handshake;
use super::keepalive::Keepalive;
use super::link::Link;
use super::lists::Lists;
use super::notifications::Notifications;
use super::request_table::Block;
use super::server_requests::ServerRequests;
use super::subscriptions::Subscriptions;
use super::{
    CommandError, ConnectionId, FamilyReport, KnownEra, LogLevel, Options, Output, Quirk, Request, RequestId, Server,
    ServerRequestId, Stats, Wire, calls, log_level, roots,
};
use crate::Time;
use crate::catalog::{Catalog, List};
use crate::jsonrpc::{ErrorObject, Json};
use crate::machine::approval::{self, Approval, Hint};
use crate::machine::{gate, link, request};
use crate::protocol::{CacheScope, Family, Root, method};
use crate::validation::{ValidationError, Validator};

/// The part of a [`Client`](crate::Client) that does not depend on its binding. A client dereferences to it: these are
/// its getters.
#[derive(Clone, Debug)]
pub struct Engine {
    pub(super) core: Core,
    pub(super) link: Link,
    pub(super) handshake: Handshake,
    pub(super) lists: Lists,
    pub(super) keepalive: Keepalive,
    pub(super) freshness: Freshness,
    pub(super) subscriptions: Subscriptions,
    pub(super) server_requests: ServerRequests,
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

    fn over(core: Core, known_era: Option<KnownEra>) -> Self {
        Self {
            core,
            link: Link::default(),
            handshake: Handshake::new(known_era),
            lists: Lists::default(),
            keepalive: Keepalive::default(),
            freshness: Freshness::default(),
            subscriptions: Subscriptions::default(),
            server_requests: ServerRequests::default(),
            notifications: Notifications::default(),
        }
    }

    pub(crate) fn open(&mut self, now: Time) -> Result<(), CommandError> {
        self.link.check(link::Input::Open, CommandError::AlreadyOpen)?;
        self.core.advance(now);
        let signals = self.link.step(&mut self.core, link::Input::Open);
        self.act(signals);
        Ok(())
    }

    pub(crate) fn close(&mut self, now: Time) -> Result<(), CommandError> {
        self.link.check(link::Input::Close, CommandError::Closed)?;
        self.core.advance(now);
        calls::end(&mut self.core);
        self.end_connection(false);
        let signals = self.link.close(&mut self.core);
        self.act(signals);
        Ok(())
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

    /// Closes the connection of a client that is not used. [`open`](Self::open) opens another one.
    pub(crate) fn rest(&mut self, now: Time) {
        self.core.advance(now);
        self.end_connection(false);
        let signals = self.link.rest(&mut self.core);
        self.act(signals);
        self.core.release_memory();
    }

    pub(crate) fn request(&mut self, now: Time, request: Request) -> Result<RequestId, CommandError> {
        let id = calls::request(&mut self.core, now, request)?;
        self.freshness.on_use(&mut self.core);
        self.write_requests();
        Ok(id)
    }

    pub(crate) fn cancel(&mut self, now: Time, request: RequestId, reason: Option<&str>) -> Result<(), CommandError> {
        calls::cancel(&mut self.core, now, request, reason)?;
        self.write_requests();
        Ok(())
    }

    pub(crate) fn provide<'a>(
        &mut self,
        now: Time,
        request: RequestId,
        responses: impl IntoIterator<Item = (&'a str, &'a RawValue)>,
    ) -> Result<(), CommandError> {
        calls::provide(&mut self.core, now, request, responses)?;
        self.write_requests();
        Ok(())
    }

    pub(crate) fn decline(&mut self, now: Time, request: RequestId) -> Result<(), CommandError> {
        calls::decline(&mut self.core, now, request)?;
        self.write_requests();
        Ok(())
    }

    pub(crate) fn respond(
        &mut self,
        now: Time,
        request: ServerRequestId,
        response: Result<&RawValue, ErrorObject>,
    ) -> Result<(), CommandError> {
        self.server_requests.respond(&mut self.core, now, request, response)
    }

    pub(crate) fn notify(
        &mut self,
        now: Time,
        method: Cow<'static, str>,
        params: Option<&RawValue>,
    ) -> Result<(), CommandError> {
        let core = &mut self.core;
        if matches!(&*method, method::INITIALIZED | method::CANCELLED | method::ROOTS_LIST_CHANGED) {
            return Err(CommandError::Reserved { method: (&*method).into() });
        }
        if params.is_some_and(|params| !params.get().starts_with('{')) {
            return Err(CommandError::ParamsNotObject);
        }
        core.check_open()?;
        if !core.is_ready() {
            return Err(CommandError::NotReady);
        }
        if core.is_undelivered_full() {
            return Err(CommandError::TooManyRequests { limit: core.options.limits.output });
        }
        core.advance(now);
        let write = params.map(|params| |out: &mut Vec<u8>| out.extend_from_slice(params.get().as_bytes()));
        let message = core.encode_notification(method, write);
        core.outbox.push(Output::Send(message));
        Ok(())
    }

    pub(crate) fn authorized(&mut self, now: Time) -> Result<(), CommandError> {
        self.core.check_open()?;
        self.core.advance(now);
        calls::unblock(&mut self.core, Block::Authorization, request::Input::Admitted);
        self.admit_connection();
        Ok(())
    }

    /// The handshake was refused for lack of what is there by now: the connection is opened again.
    #[cfg(feature = "http")]
    pub(crate) fn readmit_connection(&mut self, now: Time) {
        self.core.advance(now);
        self.admit_connection();
    }

    /// A call was refused for lack of what is there by now: it is sent again.
    #[cfg(feature = "http")]
    pub(crate) fn readmit_call(&mut self, now: Time, id: u64) {
        self.core.advance(now);
        calls::unblock_one(&mut self.core, id, Block::Authorization, request::Input::Admitted);
        self.write_requests();
    }

    fn admit_connection(&mut self) {
        let signals = self.link.step(&mut self.core, link::Input::Authorized);
        self.act(signals);
        self.write_requests();
    }

    pub(crate) fn subscribe(&mut self, now: Time, uri: &str) -> Result<(), CommandError> {
        let signals = self.subscriptions.subscribe(&mut self.core, now, uri)?;
        self.freshness.on_use(&mut self.core);
        self.act(signals);
        self.write_requests();
        Ok(())
    }

    pub(crate) fn unsubscribe(&mut self, now: Time, uri: &str) -> Result<(), CommandError> {
        let signals = self.subscriptions.unsubscribe(&mut self.core, now, uri)?;
        self.act(signals);
        self.write_requests();
        Ok(())
    }

    pub(crate) fn set_log_level(&mut self, now: Time, level: LogLevel) -> Result<(), CommandError> {
        log_level::set(&mut self.core, now, level)?;
        self.write_requests();
        Ok(())
    }

    pub(crate) fn set_roots(&mut self, now: Time, new: Vec<Root>) -> Result<(), CommandError> {
        roots::set(&mut self.core, now, new)
    }

    pub(crate) fn refresh(&mut self, now: Time, family: Family) -> Result<(), CommandError> {
        let core = &mut self.core;
        core.check_open()?;
        if !core.is_ready() {
            return Err(CommandError::NotReady);
        }
        if !core.gate(gate::Use::Refresh, family).is_allowed() {
            return Err(core.not_advertised(family.list_method(), family.capability().as_str()));
        }
        core.advance(now);
        let signals = self.lists.demand(core, family);
        self.freshness.on_use(&mut self.core);
        self.act(signals);
        self.write_requests();
        Ok(())
    }

    /// Takes the next output.
    #[inline]
    pub(crate) fn poll(&mut self) -> Option<Output> {
        let output = self.core.outbox.pop()?;
        match &output {
            Output::Send(message) => self.handed_over(message),
            Output::Open(_) => self.link.see(),
            Output::Abort(_) | Output::Shutdown(_) | Output::Event(_) => {}
        }
        Some(output)
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
        [
            core.timers.next(),
            core.requests.next_deadline(),
            core.requests.next_poll(),
            self.server_requests.next_deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.link.state() == link::State::Closed && self.core.outbox.is_empty()
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
        self.freshness.until()
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
    pub fn approval(&self, tool: &str) -> Approval {
        let read_only = self.core.catalog.tool(tool).and_then(|tool| tool.hints.read_only) == Some(true);
        approval::take(self.core.trust(), if read_only { Hint::ReadOnly } else { Hint::Other })
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
        forms::check(validator, params, response, self.core.options.form_defaults)
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
        self.handshake.known_era()
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
