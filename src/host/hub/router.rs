//! What follows from inputs and commands: steps of the tables and their effects, events of the sessions, and what can be
//! polled.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use core::time::Duration;
use serde_json::value::RawValue;

use super::Hub;
use super::connection::{Connection, Place, Tail};
use super::event::{CallId, CallKind, HubAction, HubEvent, HubOptions, RenamedTool, SessionHandle};
use super::queue::Turn;
use super::server::{Content, End, Lifetime, Offer, Origin, Server, end_of, listing, rename};
use super::sharing::Sharing;
use crate::Time;
#[cfg(feature = "oauth")]
use crate::binding::oauth::BrowserUse;
use crate::catalog::Difference;
use crate::client::{Cause, Command, Event, Failure, FailureKind, Options, Outcome, Recovery, RequestId};
use crate::collections::{ByName, LeastMap, hash};
use crate::host::config::{Configuration, Entry, ToolPolicy};
use crate::host::names::Target;
use crate::host::results::{Bounded, MIN_BYTES, Omission, one_form};
use crate::host::{Saved, Utility};
use crate::machine::hub::breaker::Input as BreakerInput;
use crate::machine::hub::server::{self, Effect, Input, Phase, State};
use crate::machine::hub::whole;
use crate::machine::table::refuses;
use crate::protocol::{Family, PerFamily};
#[cfg(feature = "validate")]
use crate::validation::{JsonSchema, Validator};

impl Hub {
    /// The current session of a configured server.
    pub(super) fn current_server(&self, name: &str) -> Option<&Server> {
        self.servers.get(self.current.get(name)?)
    }

    pub(super) fn breaker_step(&mut self, handle: SessionHandle, input: BreakerInput) {
        if let Some(options) = self.options.breaker {
            self.servers.at_mut(handle).breaker.step(options, self.now, input);
        }
    }

    /// A session may have new outputs.
    pub(super) fn touch(&mut self, handle: SessionHandle) {
        self.queue.touch(handle, &mut self.servers.at_mut(handle).pending);
    }

    /// The number of former sessions that are not polled completely.
    pub(super) fn former(&self) -> usize {
        self.servers.len().saturating_sub(self.current.len())
    }

    /// Adds the record of a new session of a configured server, unless that is disabled; with the reason why the session
    /// cannot be opened, if there is one.
    fn insert(&mut self, name: &str) -> Option<(SessionHandle, Option<Failure>)> {
        let entry = self.configuration.servers.get(name).filter(|entry| entry.enabled)?;
        let fault = Place::of(name, entry).err();
        #[cfg(feature = "oauth")]
        let fault = fault.or_else(|| self.oauth.as_ref()?.fault(name, entry));
        let name = Arc::<str>::from(name);
        let handle = self.servers.insert(Server::new(Arc::clone(&name), Phase::Idle));
        self.current.insert(name, handle);
        Some((handle, fault))
    }

    /// The current session of a server, if it is not this one.
    fn next(&self, handle: SessionHandle) -> Option<SessionHandle> {
        let current = *self.current.get(&self.servers.at(handle).name)?;
        (current != handle).then_some(current)
    }

    /// Gives an input to the connection of a session, if it has one, which may have new outputs then.
    fn tell<T>(&mut self, handle: SessionHandle, input: impl FnOnce(&mut Connection) -> T) -> Option<T> {
        let server = self.servers.at_mut(handle);
        let result = input(server.connection.as_mut()?);
        self.queue.touch(handle, &mut server.pending);
        Some(result)
    }

    /// Reports that a session failed.
    fn report_failure(&mut self, handle: SessionHandle, failure: Option<&Failure>, again: bool) {
        if let Some(failure) = failure {
            let server = self.servers.at_mut(handle);
            let failure = failure.clone();
            server.failure = Some(failure.clone());
            self.queue.report(HubEvent::Failed { server: Arc::clone(&server.name), failure, again });
        }
    }

    /// A new session for a server's entry, without an authorization. The server does not have it yet.
    pub(super) fn new_session(&mut self, handle: SessionHandle) -> Option<Connection> {
        let server = self.servers.at(handle);
        let entry = self.configuration.servers.get(&*server.name)?;
        // A server without a valid address failed when its session was created.
        let place = Place::of(&server.name, entry).ok()?;
        // Sessions that lose their connection at the same time reconnect at different times.
        let seed = self.seed ^ hash(server.name.as_bytes());
        let options = session_options(&self.options, &mut self.sharing, &server.name, entry);
        Some(place.connect(&options, Arc::clone(&server.name), seed, server.known_era))
    }

    /// Gives a session the options of its changed entry.
    pub(super) fn adjust(&mut self, handle: SessionHandle) {
        let server = self.servers.at_mut(handle);
        let entry = self.configuration.servers.get(&*server.name);
        if let (Some(entry), Some(session)) = (entry, &mut server.connection) {
            let options = session_options(&self.options, &mut self.sharing, &server.name, entry);
            session.run(|engine| engine.set_options(options));
            self.queue.touch(handle, &mut server.pending);
        }
    }

    /// Lets a session authorize itself, if its entry says so.
    #[cfg(feature = "oauth")]
    pub(super) fn join_authorization(&mut self, handle: SessionHandle) {
        let server = self.servers.at_mut(handle);
        // One that is being closed needs no token, and one that is being refreshed would be lost with its authorization.
        if matches!(server.state.phase, Phase::Closing | Phase::Closed) {
            return;
        }
        let entry = self.configuration.servers.get(&*server.name);
        if let (Some(entry), Some(connection), Some(oauth)) = (entry, &mut server.connection, &mut self.oauth)
            && let Some(authorization) = oauth.authorization(&server.name, entry, self.now)
        {
            connection.set_oauth(authorization);
        }
    }

    #[cfg(not(feature = "oauth"))]
    const fn join_authorization(&mut self, _: SessionHandle) {}

    /// Tracks the required servers that were not up yet.
    fn note_present(&mut self, handle: SessionHandle, present: bool) {
        let Some(missing) = &mut self.missing else { return };
        let server = self.servers.at(handle);
        if present {
            missing.remove(&*server.name);
        } else if self.options.required.contains(&*server.name) {
            missing.insert((&*server.name).into());
        }
    }

    /// The embedder can authorize a session's requests.
    pub(super) fn authorize(&mut self, handle: SessionHandle) {
        let now = self.now;
        // A closed session needs no authorization.
        self.tell(handle, |session| session.run(|engine| engine.authorized(now)));
    }

    /// Whether a server's table refuses a command.
    pub(super) fn refuses(&self, handle: SessionHandle, command: Input) -> bool {
        refuses(server::step::row, server::step, self.servers.at(handle).state, command)
    }

    /// The lists of a session, whose memory is shared with equal ones.
    fn listed(&mut self, handle: SessionHandle) -> Option<Content> {
        let session = self.servers.at_mut(handle).connection.as_mut()?;
        for family in Family::EACH {
            if let Some(list) = session.catalog().held(family) {
                let shared = self.sharing.list(family, Arc::clone(list));
                session.run(|engine| engine.share_list(family, shared));
            }
        }
        let catalog = session.catalog().clone();
        let families = PerFamily::from_fn(|family| session.family(family).status);
        let instructions = session.server().and_then(|server| server.instructions.clone());
        Some(Content { catalog, families, instructions, saved: None })
    }

    /// Takes saved lists: shares the memory of equal ones, and keeps the era for the next start.
    fn take_saved(&mut self, handle: SessionHandle, saved: Saved) -> Content {
        let Saved { at, known_era, instructions, mut catalog, families, fresh_until, scope, .. } = saved;
        self.servers.at_mut(handle).known_era = known_era;
        for family in Family::EACH {
            if let Some(list) = catalog.held(family) {
                let shared = self.sharing.list(family, Arc::clone(list));
                catalog.share(family, shared);
            }
        }
        Content { catalog, families, instructions, saved: Some(Box::new(Origin { at, fresh_until, scope })) }
    }

    /// Offers these lists of a server, or none. Returns how its functions change.
    fn offer(&mut self, handle: SessionHandle, content: Option<Content>) -> Option<(Arc<str>, Difference)> {
        let server = self.servers.at_mut(handle);
        let name = Arc::clone(&server.name);
        let no_policy = ToolPolicy::default();
        let policy = self.configuration.servers.get(&*name).map_or(&no_policy, |entry| &entry.tools);
        let offer = content.map(|content| {
            let tools = (content.catalog.held(Family::Tools), content.view(&self.options));
            let chosen = self.sharing.choose(&name, policy, self.options.suspicion, tools);
            Offer { content, chosen }
        });
        let former = core::mem::replace(&mut server.offer, offer);
        let same = match (&former, &server.offer) {
            (Some(a), Some(b)) => Arc::ptr_eq(&a.chosen, &b.chosen),
            // Restored names are kept for tools that may come.
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        let difference = (!same).then(|| {
            let (before, after) = (former.as_ref().map(|it| &*it.chosen), server.offer.as_ref().map(|it| &*it.chosen));
            rename(&mut self.names, &name, before, after)
        });
        if let Some(Offer { content, chosen }) = former {
            self.sharing.release(&content.catalog, chosen);
        }
        difference.filter(|it| !it.is_empty()).map(|difference| (name, difference))
    }

    /// Ends the calls that wait for lists, with what is known or as not sent.
    fn end_list_calls(&mut self, handle: SessionHandle, with_lists: bool, failure: Option<&Failure>) {
        let server = self.servers.at_mut(handle);
        let failure = failure.cloned().map(Arc::new);
        for (number, utility) in core::mem::take(&mut server.list_calls) {
            let known = server.offer.as_ref().filter(|_| with_lists);
            let mut left_out = None;
            let outcome = known.map_or(Outcome::NotSent, |offer| {
                let mut result = listing(&offer.content.catalog, utility);
                let entry = || server.former_entry.as_deref().or(self.configuration.servers.get(&*server.name));
                left_out = bound(&mut result, Some(utility), entry);
                Outcome::Result(result)
            });
            let call = CallId { session: handle, kind: CallKind::List(number, utility) };
            let server = Arc::clone(&server.name);
            let failure = failure.clone();
            self.queue.report(HubEvent::Finished { call, server, outcome, left_out, attempts: 0, failure });
        }
    }

    /// Cancels unsent calls that the filters do not allow any more.
    fn give_up_calls(&mut self, handle: SessionHandle) {
        let now = self.now;
        let server = self.servers.at_mut(handle);
        let (Some(session), Some(offer)) = (&mut server.connection, &server.offer) else { return };
        for (request, _) in server.calls.iter().filter(|(_, target)| !offer.chosen.has(target)) {
            if session.is_unsent(*request) {
                // The request is open.
                let cancel = Command::Cancel { request: *request, reason: None };
                let _ = session.run(|engine| engine.apply(now, cancel));
            }
        }
        self.queue.touch(handle, &mut server.pending);
    }

    /// Steps the hub's table, and applies the effects.
    pub(super) fn hub_step(&mut self, input: whole::Input) {
        let row = whole::step(self.state, input);
        self.state = row.next;
        for effect in row.effects {
            match effect {
                whole::Effect::StartServers => {
                    self.starts.activate();
                    for handle in self.servers.handles() {
                        // Saved lists do until the server is called.
                        if self.servers.at(handle).saved_at().is_none() {
                            self.step(handle, Input::Wanted);
                        }
                    }
                }
                whole::Effect::CloseServers => {
                    for handle in self.servers.handles() {
                        self.step(handle, Input::Close);
                    }
                }
                whole::Effect::ReportReady => {
                    self.missing = None;
                    self.queue.report(HubEvent::Ready);
                }
                whole::Effect::ReportSettled => self.queue.report(HubEvent::Settled),
                whole::Effect::DropSessions => {
                    self.current = ByName::new();
                    self.sharing = Sharing::default();
                }
                whole::Effect::ReportClosed => self.queue.report(HubEvent::Closed),
            }
        }
    }

    /// Uses saved lists until the server is started.
    pub(super) fn offer_saved(&mut self, handle: SessionHandle, saved: Saved) {
        let content = self.take_saved(handle, saved);
        self.change_offer(handle, Some(content));
        self.note_present(handle, true);
    }

    /// Applies the filters of a server's entry to its lists again.
    pub(super) fn filter(&mut self, handle: SessionHandle) {
        if let Some(content) = self.servers.at(handle).offer.as_ref().map(|offer| offer.content.clone()) {
            self.change_offer(handle, Some(content));
            self.give_up_calls(handle);
        }
    }

    /// Passes the lists of a session to the next one, which is likely to have the same.
    fn hand_over(&mut self, handle: SessionHandle, next: SessionHandle) {
        self.servers.at_mut(next).offer = self.servers.at_mut(handle).offer.take();
        self.filter(next);
    }

    /// Removes the lists of a server from the offer.
    fn withdraw(&mut self, handle: SessionHandle) {
        self.change_offer(handle, None);
        self.note_present(handle, false);
    }

    /// Offers these lists of a server, or none, and reports the change.
    fn change_offer(&mut self, handle: SessionHandle, content: Option<Content>) {
        if let Some((server, difference)) = self.offer(handle, content) {
            self.report_toolset(server, difference);
        }
    }

    fn report_toolset(&mut self, server: Arc<str>, difference: Difference) {
        if matches!(self.state, whole::State::New | whole::State::Open) {
            let renamed = difference.added.iter().filter_map(|name| {
                let target = self.names.resolve(name)?.target;
                let why = self.names.renamed(&server, target)?;
                Some(RenamedTool { tool: target.name().into(), name: name.clone(), why })
            });
            let renamed = renamed.collect();
            self.queue.report(HubEvent::ToolsetChanged { server, difference, renamed });
        }
    }

    /// Gives the names to the configured servers, whichever comes up first.
    pub(super) fn name_servers(&mut self) {
        let Configuration { servers, errors, .. } = &self.configuration;
        let faulty = errors.iter().map(|error| &*error.server);
        let names: BTreeSet<&str> = servers.keys().map(|server| &**server).chain(faulty).collect();
        let moved = self.names.set_servers(names);
        for (server, difference) in moved {
            if self.current_server(&server).is_some_and(|server| server.offer.is_some()) {
                self.report_toolset(server, difference);
            }
        }
    }

    /// Starts a server that was configured, if the hub is open.
    fn admit(&mut self, handle: SessionHandle) {
        if self.state == whole::State::Open {
            self.step(handle, Input::Wanted);
        }
    }

    /// Steps a server's table, and applies the effects.
    pub(super) fn step(&mut self, handle: SessionHandle, input: Input) {
        self.step_failed(handle, input, None);
    }

    /// As [`step`](Self::step), with the failure that the input is about.
    fn step_failed(&mut self, handle: SessionHandle, input: Input, failure: Option<&Failure>) {
        let server = self.servers.at_mut(handle);
        let state = server.state;
        let row = server::step(state, input);
        server.state = row.next;
        if row.next != state {
            self.note_state(handle, state, row.next);
        }
        for effect in row.effects {
            self.apply_effect(handle, *effect, failure);
        }
    }

    /// Keeps what depends on the states of servers: the queue and the room for starts, the sessions that are being closed,
    /// and which servers are up.
    fn note_state(&mut self, handle: SessionHandle, former: State, state: State) {
        if former.phase == Phase::Queued {
            self.starts.dequeue(handle);
        }
        if state.phase == Phase::Queued {
            self.enqueue(handle);
        }
        let enters = |phase| former.phase != phase && state.phase == phase;
        let leaves = |phase| former.phase == phase && state.phase != phase;
        let is_up = |state: State| matches!(state.phase, Phase::Ready | Phase::Suspended);
        if enters(Phase::Starting) {
            self.starts.take_room();
        }
        if leaves(Phase::Starting) {
            self.starts.release_room();
        }
        if is_up(former) && !is_up(state) {
            self.note_present(handle, false);
        }
        let server = self.servers.at_mut(handle);
        if enters(Phase::Ready) {
            let entry = self.configuration.servers.get(&*server.name);
            server.failure = None;
            server.lifetime = entry.and_then(|entry| Lifetime::start(entry, self.now)).map(Box::new);
            self.note_present(handle, true);
        } else if enters(Phase::Closing) {
            self.starts.remove(&server.name);
        } else if leaves(Phase::Closing) && self.starts.free(&server.name) {
            let next = self.next(handle).filter(|next| self.starts.is_behind(*next));
            next.into_iter().for_each(|next| self.enqueue(next));
        }
    }

    /// Queues a server to start: those that a request waits for first, then required ones.
    fn enqueue(&mut self, handle: SessionHandle) {
        let server = self.servers.at(handle);
        let rank = match server.state.called {
            true => Rank::Called,
            false if self.options.required.contains(&*server.name) => Rank::Required,
            false => Rank::Other,
        };
        self.starts.enqueue(rank, handle, &server.name);
    }

    fn apply_effect(&mut self, handle: SessionHandle, effect: Effect, failure: Option<&Failure>) {
        let now = self.now;
        let server = self.servers.at_mut(handle);
        match effect {
            Effect::Create => {
                if server.connection.is_none() {
                    self.servers.at_mut(handle).connection = self.new_session(handle);
                }
                self.join_authorization(handle);
            }
            // It refuses if its connection is being opened already.
            Effect::Open => _ = self.tell(handle, |session| session.run(|engine| engine.open(now))),
            Effect::Discard => {
                server.connection = None;
                self.queue.drop_turns(handle, &mut server.pending);
            }
            Effect::Offer => {
                let content = self.listed(handle);
                self.change_offer(handle, content);
            }
            Effect::Withdraw => {
                self.withdraw(handle);
                self.end_list_calls(handle, false, failure);
            }
            Effect::Suspend => {
                self.queue.report(HubEvent::IdleShutdown { session: handle, server: Arc::clone(&server.name) });
                self.tell(handle, |session| session.run(|engine| engine.shut_down_unused(now)));
            }
            Effect::AnswerLists => self.end_list_calls(handle, true, None),
            Effect::RefuseCalls => self.breaker_step(handle, BreakerInput::FailedAgain),
            Effect::AllowCalls => self.breaker_step(handle, BreakerInput::Reset),
            Effect::ReportRetry => self.report_failure(handle, failure, true),
            Effect::ReportFailed => self.report_failure(handle, failure, false),
            Effect::Renew => {
                let name = Arc::clone(&server.name);
                // A session that failed at once refuses it, so that this does not recur.
                let renewed = self.renew(&name, None);
                renewed.into_iter().for_each(|handle| self.step(handle, Input::Called));
            }
            Effect::StartNext => {
                if let Some(next) = self.next(handle) {
                    self.step(next, Input::Wanted);
                }
            }
            Effect::Shut => {
                // A closed session has reported it, or will.
                self.tell(handle, |session| session.run(|engine| engine.close(now)));
                self.end_list_calls(handle, false, None);
            }
            Effect::Forget => {
                self.end_list_calls(handle, false, None);
                let server = self.servers.at_mut(handle);
                self.over = self.over.saturating_add(1);
                if !server.pending.is_empty() {
                    // It is removed after its last event, not with it.
                    self.queue.push_actions(handle, &mut server.pending);
                }
                self.note_polled(handle);
            }
        }
    }

    /// Creates a session for a configured server, unless it is disabled. It is the server's current one from now on.
    fn create(&mut self, name: &str) -> Option<SessionHandle> {
        let (handle, fault) = self.insert(name)?;
        if fault.is_some() {
            self.step_failed(handle, Input::Ended, fault.as_ref());
        }
        Some(handle)
    }

    /// Gives a server another session, which is opened after the current one is closed; `entry` is the entry of the
    /// current one.
    fn renew(&mut self, name: &str, entry: Option<Entry>) -> Option<SessionHandle> {
        let now = self.configuration.servers.get(name)?;
        let is_same_endpoint = entry.as_ref().is_some_and(|entry| entry.endpoint == now.endpoint);
        let former = self.current.get(name).copied()?;
        let handle = self.create(name)?;
        // The lists are likely the same, unless the new session failed at once.
        let has_lists = self.servers.at(former).saved_at().is_none();
        if is_same_endpoint && has_lists && !self.refuses(handle, Input::Called) {
            self.hand_over(former, handle);
        } else {
            self.withdraw(former);
        }
        self.leave(former, entry);
        self.admit(handle);
        Some(handle)
    }

    /// Closes a session whose entry was removed or replaced.
    fn leave(&mut self, handle: SessionHandle, entry: Option<Entry>) {
        self.servers.at_mut(handle).former_entry = entry.map(Box::new);
        self.step(handle, Input::Removed);
    }

    /// If nothing of a session waits to be polled: removes it if it is over, and updates its deadline otherwise.
    fn note_polled(&mut self, handle: SessionHandle) {
        let server = self.servers.at_mut(handle);
        if !server.pending.is_empty() {
            return;
        }
        let is_authorizing = server.connection.as_ref().is_some_and(Connection::is_authorizing);
        if server.state.phase == Phase::Closed && !is_authorizing {
            self.queue.set_deadline(handle, &mut server.pending, None);
            self.servers.remove(handle);
            self.over = self.over.saturating_sub(1);
            return;
        }
        // `poll` only takes from a queue: what is idle for too long by now is shut down at the next input.
        let idle_until = server.idle_until().map(|at| at.max(self.now + SHORTEST));
        let deadline = server.connection.as_ref().and_then(Connection::next_timer);
        let deadline = Time::earliest([deadline, idle_until]);
        self.queue.set_deadline(handle, &mut server.pending, deadline);
    }

    /// A server was added or removed, enabled or disabled, or its entry changed so that it needs another session;
    /// `entry` is the entry before.
    pub(super) fn change(&mut self, name: &str, entry: Option<Entry>) {
        let is_enabled = self.configuration.servers.get(name).is_some_and(|entry| entry.enabled);
        match self.current.get(name).copied() {
            Some(_) if is_enabled => _ = self.renew(name, entry),
            Some(handle) => self.retire(handle, name, entry),
            None => {
                if let Some(handle) = self.create(name) {
                    self.admit(handle);
                }
            }
        }
    }

    /// Removes a server; `entry` is the entry of its session.
    fn retire(&mut self, handle: SessionHandle, name: &str, entry: Option<Entry>) {
        self.current.remove(name);
        self.withdraw(handle);
        self.names.remove(name);
        self.leave(handle, entry);
    }

    /// A session may require the browser, or not any more.
    #[cfg(feature = "oauth")]
    fn note_browser(&mut self, handle: SessionHandle) {
        match self.servers.at(handle).connection.as_ref().map_or(BrowserUse::Unused, Connection::browser) {
            BrowserUse::Wanted => self.browser.enqueue(handle),
            BrowserUse::Unused => self.browser.release(handle),
            BrowserUse::Shown => {}
        }
    }

    /// Gives the browser to the next session that waits for it, if it is free.
    #[cfg(feature = "oauth")]
    fn lend_browser(&mut self) {
        let now = self.now;
        let Some(handle) = self.browser.dequeue() else { return };
        self.tell(handle, |session| session.show_browser(now));
    }

    /// Processes new events of a session, and adds its turns.
    fn process_events(&mut self, handle: SessionHandle) {
        self.servers.at_mut(handle).pending.mark_processed();
        while let Some(event) = self.servers.at(handle).next_event() {
            let event = classify(event);
            self.queue.push_event(handle, &mut self.servers.at_mut(handle).pending);
            self.on_event(handle, event);
        }
        #[cfg(feature = "oauth")]
        if self.oauth.is_some() {
            self.note_browser(handle);
        }
        let server = self.servers.at_mut(handle);
        let Some(connection) = &server.connection else { return };
        match connection.tail() {
            Tail::Empty => {
                return match server.idle_until() {
                    Some(at) if at <= self.now => self.step(handle, Input::IdleTimeout),
                    Some(_) | None => self.note_polled(handle),
                };
            }
            Tail::Event => {}
            Tail::Action => self.queue.push_actions(handle, &mut server.pending),
        }
        self.queue.bring_forward(handle, &mut server.pending, connection.next_timer());
    }

    fn on_event(&mut self, handle: SessionHandle, event: SessionEvent) {
        match event {
            SessionEvent::Input(input, failure) => {
                if let (Input::Down | Input::Parked, Some(failure)) = (input, &failure) {
                    self.note_failure(handle, failure);
                }
                self.step_failed(handle, input, failure.as_ref());
            }
            SessionEvent::Responding => self.breaker_step(handle, BreakerInput::Answered),
            SessionEvent::RequestEnded(request, end) => self.request_ended(handle, request, end),
            SessionEvent::Ending(failure) => self.note_failure(handle, &failure),
            SessionEvent::Refused(failure) => {
                self.step_failed(handle, Input::Ended, Some(&failure));
                self.step(handle, Input::Unauthorized);
            }
            SessionEvent::Other => {}
        }
    }

    fn note_failure(&mut self, handle: SessionHandle, failure: &Failure) {
        self.servers.at_mut(handle).failure = Some(failure.clone());
    }

    /// A request of a session ended: it was used, and if the request is a call, its breaker takes the end.
    fn request_ended(&mut self, handle: SessionHandle, request: RequestId, end: End) {
        let server = self.servers.at_mut(handle);
        server.note_use(self.now);
        if let Some(options) = self.options.breaker
            && server.calls.has(&request)
        {
            server.breaker.call_ended(options, self.now, request, end, server.state.phase == Phase::Ready);
        }
    }

    /// Handles the deadlines that are due before an input, and advances the time.
    pub(super) fn advance(&mut self, now: Time) {
        self.now = self.handle_due(now);
    }

    /// Processes every session with new outputs, starts as many servers as there is room for, and steps the hub's
    /// table.
    pub(super) fn settle(&mut self) {
        loop {
            while let Some(handle) = self.queue.next_touched() {
                self.process_events(handle);
            }
            while let Some(handle) = self.starts.next(self.options.starts.max(1)) {
                self.step(handle, Input::Room);
            }
            #[cfg(feature = "oauth")]
            self.lend_browser();
            if self.missing.as_ref().is_some_and(BTreeSet::is_empty) {
                self.hub_step(whole::Input::Complete);
            }
            if self.starts.settle() {
                self.hub_step(whole::Input::Settled);
            }
            if self.servers.len() == self.over {
                self.hub_step(whole::Input::Gone);
            }
            if !self.queue.has_touched() {
                return;
            }
        }
    }

    /// Passes an input to a session, if it exists.
    pub(super) fn input<T>(
        &mut self,
        now: Time,
        handle: SessionHandle,
        give: impl FnOnce(&mut Connection, Time) -> T,
    ) -> Option<T> {
        // The session handles its own: a response that is complete ends its exchange before a deadline does.
        let now = self.handle_due_except(now, Some(handle));
        self.now = now;
        let server = self.servers.at_mut(handle);
        let given = give(server.connection.as_mut()?, now);
        server.note_contact();
        self.queue.touch(handle, &mut server.pending);
        self.settle();
        Some(given)
    }

    /// Handles the deadlines of every session that are due, before an input or a command. Returns its time, which does
    /// not go back. If none is due, this changes nothing: the command may be refused.
    pub(super) fn handle_due(&mut self, now: Time) -> Time {
        self.handle_due_except(now, None)
    }

    /// Handles the deadlines that are due, except those of one session, which handles its own.
    fn handle_due_except(&mut self, now: Time, except: Option<SessionHandle>) -> Time {
        let now = self.now.max(now);
        if !self.queue.is_due(now) {
            return now;
        }
        self.now = now;
        // Sessions are processed after this loop, so each one has its turn once.
        while let Some(handle) = self.queue.take_due(now) {
            let server = self.servers.at_mut(handle);
            server.pending.deadline_taken();
            if except != Some(handle) {
                server.note_contact();
                self.tell(handle, |session| session.handle_timeout(now));
            }
        }
        self.settle();
        now
    }

    /// The next action.
    #[must_use = "what it says has to be done"]
    pub fn poll(&mut self) -> Option<HubAction> {
        loop {
            let action = match *self.queue.front()? {
                Turn::Event(_) => match self.queue.pop(None) {
                    Some(Turn::Event(event)) => Some(HubAction::Event(*event)),
                    Some(Turn::ThroughEvent(_) | Turn::UntilEvent(_)) | None => None,
                },
                Turn::ThroughEvent(handle) => self.take_output(handle, true),
                Turn::UntilEvent(handle) => self.take_output(handle, false),
            };
            if action.is_some() {
                return action;
            }
        }
    }

    /// Takes the next output of a session in its turn, which ends as soon as nothing of it is left.
    fn take_output(&mut self, handle: SessionHandle, is_through_event: bool) -> Option<HubAction> {
        let Self { servers, queue, configuration, options, .. } = self;
        let (mut action, mut is_last) = (None, true);
        let server = servers.at_mut(handle);
        let connection = server.connection.as_mut();
        if let Some(connection) = connection.filter(|it| is_through_event || !it.is_event_next()) {
            let Server { name, calls, former_entry, offer, .. } = server;
            let entry = || former_entry.as_deref().or_else(|| configuration.servers.get(&**name));
            let adapt = |result: &mut Box<RawValue>, target: &Target| {
                if let (Target::Tool(tool), false) = (target, options.both_forms) {
                    let schema = || offer.as_ref()?.content.catalog.tool(tool)?.output_schema;
                    keep_one_form(result, schema);
                }
                bound(result, target.utility(), entry)
            };
            action = connection.poll(handle, |event| report(handle, name, calls, adapt, event));
            // A session that is closed is known until the next poll, for the embedder to look up what its last action needs.
            is_last = match &action {
                None => true,
                Some(action) if is_through_event => matches!(action, HubAction::Event(_)),
                Some(_) => server.state.phase != Phase::Closed && connection.tail() == Tail::Empty,
            };
            if !(is_last && server.pending.is_last_turn()) {
                queue.bring_forward(handle, &mut server.pending, connection.next_timer());
            }
            if action.is_some() {
                server.note_contact();
            }
        }
        if is_last {
            self.end_turn(handle);
        }
        action
    }

    /// Ends the first turn.
    fn end_turn(&mut self, handle: SessionHandle) {
        self.queue.pop(Some(&mut self.servers.at_mut(handle).pending));
        self.note_polled(handle);
    }
}

/// Brings a result within the bound of its server's entry. Returns what was left out.
fn bound<'a>(
    result: &mut Box<RawValue>,
    utility: Option<Utility>,
    entry: impl FnOnce() -> Option<&'a Entry>,
) -> Option<Box<Omission>> {
    // What is short is within every bound.
    let policy = if result.get().len() > MIN_BYTES { &entry()?.tools } else { return None };
    let bounded = match utility {
        Some(utility) => policy.bound_utility(utility, result),
        None => policy.bound(result),
    };
    let Bounded { result: Cow::Owned(kept), left_out } = bounded else { return None };
    *result = kept;
    left_out.map(Box::new)
}

/// Whether structured content satisfies an output schema.
#[cfg(feature = "validate")]
fn satisfies(schema: &RawValue, structured: &RawValue) -> bool {
    JsonSchema::default().validate(schema, structured).is_ok()
}

/// Without a validator that is not known.
#[cfg(not(feature = "validate"))]
const fn satisfies(_schema: &RawValue, _structured: &RawValue) -> bool {
    false
}

/// Leaves a result of a tool one of its forms. `schema` is the output schema of the tool.
fn keep_one_form<'a>(result: &mut Box<RawValue>, schema: impl FnOnce() -> Option<&'a RawValue>) {
    let is_valid = |structured: &RawValue| schema().is_some_and(|schema| satisfies(schema, structured));
    if let Cow::Owned(kept) = one_form(result, is_valid) {
        *result = kept;
    }
}

/// What the embedder gets of an event of a session.
fn report(
    session: SessionHandle,
    name: &Arc<str>,
    calls: &mut LeastMap<RequestId, Target>,
    adapt: impl FnOnce(&mut Box<RawValue>, &Target) -> Option<Box<Omission>>,
    event: Event,
) -> HubEvent {
    let server = Arc::clone(name);
    let Event::Finished { request, mut outcome, attempts, failure } = event else {
        return HubEvent::Session { session, server, event };
    };
    let Some(target) = calls.remove(&request) else {
        return HubEvent::Session { session, server, event: Event::Finished { request, outcome, attempts, failure } };
    };
    let mut left_out = None;
    if let Outcome::Result(result) = &mut outcome {
        left_out = adapt(result, &target);
    }
    let call = CallId { session, kind: CallKind::Request(request, target.utility()) };
    HubEvent::Finished { call, server, outcome, left_out, attempts, failure }
}

/// The options of a server's session. Sessions with equal ones share them.
fn session_options(options: &HubOptions, sharing: &mut Sharing, name: &str, entry: &Entry) -> Arc<Options> {
    match options.own.get(name) {
        Some(own) => Arc::new(entry.options(name, own.clone())),
        None => sharing.options(entry, &options.session),
    }
}

/// The rank of a server in the order of starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Rank {
    /// A request waits for it.
    Called,
    Required,
    Other,
}

impl Rank {
    const ALL: [Self; 3] = [Self::Called, Self::Required, Self::Other];
}

/// The servers that are starting, or wait to.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Starts {
    /// The servers that wait for room.
    queued: BTreeSet<(Rank, SessionHandle)>,
    /// Those that wait until the earlier sessions of their server are closed: the two might conflict.
    behind: BTreeSet<SessionHandle>,
    /// How many are starting.
    starting: usize,
    /// How many sessions of a server are being closed.
    closing: BTreeMap<Arc<str>, u32>,
    /// Latch: whether servers were to be started, and it was not reported that none is starting any more.
    is_active: bool,
}

impl Starts {
    pub(super) fn enqueue(&mut self, rank: Rank, handle: SessionHandle, server: &str) {
        self.is_active = true;
        if self.closing.contains_key(server) {
            self.behind.insert(handle);
        } else {
            self.behind.remove(&handle);
            self.queued.insert((rank, handle));
        }
    }

    pub(super) fn dequeue(&mut self, handle: SessionHandle) {
        self.behind.remove(&handle);
        for rank in Rank::ALL {
            self.queued.remove(&(rank, handle));
        }
    }

    pub(super) fn is_behind(&self, handle: SessionHandle) -> bool {
        self.behind.contains(&handle)
    }

    pub(super) const fn take_room(&mut self) {
        self.starting = self.starting.saturating_add(1);
    }

    pub(super) const fn release_room(&mut self) {
        self.starting = self.starting.saturating_sub(1);
    }

    /// The hub is opened, which is reported as settled even if no server is to be started.
    pub(super) const fn activate(&mut self) {
        self.is_active = true;
    }

    /// The next server to start, if fewer than `limit` are starting.
    pub(super) fn next(&mut self, limit: usize) -> Option<SessionHandle> {
        if self.starting >= limit {
            return None;
        }
        self.queued.pop_first().map(|(_, handle)| handle)
    }

    /// Whether servers were to be started, and none is starting or waits to any more. It is reported once. While none is
    /// starting, there is room for those in the queue, so it is empty.
    pub(super) fn settle(&mut self) -> bool {
        let is_over = self.is_active && self.starting == 0 && self.behind.is_empty();
        self.is_active &= !is_over;
        is_over
    }

    pub(super) fn remove(&mut self, server: &Arc<str>) {
        let count = self.closing.entry(Arc::clone(server)).or_default();
        *count = count.saturating_add(1);
    }

    /// A session is closed. Returns whether no other one of its server is being closed.
    pub(super) fn free(&mut self, server: &Arc<str>) -> bool {
        let others = self.closing.remove(server).map_or(0, |count| count.saturating_sub(1));
        if others > 0 {
            self.closing.insert(Arc::clone(server), others);
        }
        others == 0
    }
}

/// The shortest wait until an idle server is shut down.
const SHORTEST: Duration = Duration::from_millis(1);

/// An event of a session, classified.
enum SessionEvent {
    /// An input of the server's table, and the failure that it is about.
    Input(Input, Option<Failure>),
    /// The server responds during a call.
    Responding,
    RequestEnded(RequestId, End),
    /// It does not reconnect; its end follows.
    Ending(Failure),
    /// It ended because the server refused authorization.
    Refused(Failure),
    Other,
}

/// Classifies an event of a session.
fn classify(event: &Event) -> SessionEvent {
    let failed = |input, failure: &Failure| SessionEvent::Input(input, Some(failure.clone()));
    match event {
        Event::Ready => SessionEvent::Input(Input::Ready, None),
        Event::CatalogChanged { .. } => SessionEvent::Input(Input::Changed, None),
        Event::Down { failure, next: Recovery::Reopen { .. } | Recovery::Resume { .. } } => {
            failed(Input::Down, failure)
        }
        Event::Down { failure, next: Recovery::Parked { .. } } => failed(Input::Parked, failure),
        Event::Down { failure, next: Recovery::Close } => SessionEvent::Ending(failure.clone()),
        Event::Closed { cause: Cause::Failed(failure) } => match failure.kind {
            FailureKind::Unauthorized | FailureKind::Forbidden => SessionEvent::Refused(failure.clone()),
            FailureKind::Spawn
            | FailureKind::Connect
            | FailureKind::HandshakeTimeout
            | FailureKind::HandshakeRejected
            | FailureKind::UnsupportedVersion
            | FailureKind::Protocol
            | FailureKind::Overrun
            | FailureKind::ListFailed
            | FailureKind::Closed => failed(Input::Ended, failure),
        },
        Event::Closed { cause: Cause::Requested } => {
            let message = "the host closed the session".into();
            failed(Input::Ended, &Failure { kind: FailureKind::Closed, message })
        }
        Event::Finished { request, outcome, .. } => SessionEvent::RequestEnded(*request, end_of(outcome)),
        Event::InputRequired { .. } | Event::Progress { .. } | Event::Task { .. } | Event::ServerRequest { .. } => {
            SessionEvent::Responding
        }
        Event::Unauthorized { .. }
        | Event::ServerRequestEnded { .. }
        | Event::Refreshed { .. }
        | Event::Subscription { .. }
        | Event::ElicitationComplete { .. }
        | Event::ResourceUpdated { .. }
        | Event::Log { .. }
        | Event::LogLevelFailed { .. }
        | Event::Notification { .. }
        | Event::Resending { .. }
        | Event::Quirk(_) => SessionEvent::Other,
    }
}
