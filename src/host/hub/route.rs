//! The router: the only file that sees every component. Inputs and commands go to a server's or the hub's table, and
//! effects to the components; new events of the sessions are processed until there are none.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

use super::breaker::end_of;
use super::calls::listing;
use super::connection::{Connection, Place, Tail, Wish};
use super::event::{CallId, CallKind, HubAction, HubEvent, HubOptions, SessionHandle};
use super::offers::{Content, Offer, rename};
use super::queue::{Queue, Turn};
use super::server::Server;
use super::servers::Servers;
use super::sharing::Sharing;
use super::starts::{Rank, Starts};
use crate::Time;
use crate::catalog::hash;
use crate::client::{Cause, Event, Failure, FailureKind, Outcome, Recovery, RequestId};
use crate::host::Saved;
use crate::host::config::{Configuration, Entry, ToolPolicy};
use crate::host::names::Names;
use crate::machine::breaker::{End, Input as BreakerInput};
use crate::machine::hub_server::{Effect, Input, State, take};
use crate::machine::{Verdict, hub, hub_offer};
use crate::protocol::{Family, PerFamily};

/// The components of a hub.
#[derive(Clone, Debug)]
pub(super) struct Router {
    pub(super) options: HubOptions,
    seed: u64,
    pub(super) now: Time,
    pub(super) configuration: Configuration,
    pub(super) names: Names,
    pub(super) state: hub::State,
    /// The current sessions of configured servers.
    pub(super) current: BTreeMap<Arc<str>, SessionHandle>,
    /// The servers of current and former sessions.
    pub(super) servers: Servers,
    /// How many of them are closed and not polled completely.
    over: usize,
    pub(super) last_list_call: u64,
    pub(super) sharing: Sharing,
    pub(super) starts: Starts,
    /// The required servers that were not up yet; `None` after all of them were.
    pub(super) missing: Option<BTreeSet<Box<str>>>,
    pub(super) queue: Queue,
}

/// An event of a session, classified.
enum Heard {
    Ready,
    Changed,
    /// The server responds during a call.
    Alive,
    Finished(RequestId, End),
    Lost(Failure, Recovery),
    Closed(Failure),
    Other,
}

impl Router {
    pub(super) fn new(mut options: HubOptions, seed: u64) -> Self {
        let names = core::mem::take(&mut options.names);
        Self {
            seed,
            now: Time::ZERO,
            configuration: Configuration::default(),
            names,
            state: hub::State::New,
            current: BTreeMap::new(),
            servers: Servers::default(),
            over: 0,
            last_list_call: 0,
            sharing: Sharing::default(),
            starts: Starts::default(),
            missing: Some(options.required.clone()),
            queue: Queue::default(),
            options,
        }
    }

    pub(super) fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    /// The current session of a configured server.
    pub(super) fn server(&self, name: &str) -> Option<&Server> {
        self.servers.get(self.current.get(name)?)
    }

    /// Steps the hub's table. Returns the effects; some are the caller's.
    pub(super) fn hub_step(&mut self, input: hub::Input) -> &'static [hub::Effect] {
        let row = hub::take(self.state, input);
        self.state = row.next;
        for effect in row.effects {
            match effect {
                hub::Effect::Start => {
                    for handle in self.servers.handles() {
                        self.offer_step(handle, hub_offer::Input::Opened);
                    }
                }
                hub::Effect::Close => {
                    for handle in self.servers.handles() {
                        self.step(handle, Input::Close);
                    }
                }
                hub::Effect::ReportReady => {
                    self.missing = None;
                    self.queue.report(HubEvent::Ready);
                }
                hub::Effect::ReportSettled => self.queue.report(HubEvent::Settled),
                hub::Effect::Clear => {
                    self.current.clear();
                    self.sharing = Sharing::default();
                }
                hub::Effect::ReportClosed => self.queue.report(HubEvent::Closed),
                // The caller knows the server and the change.
                hub::Effect::StartServer | hub::Effect::ReportChanged => {}
            }
        }
        row.effects
    }

    /// Creates a session for a configured server, unless it is disabled.
    pub(super) fn admit(&mut self, name: &str) -> Option<SessionHandle> {
        let entry = self.configuration.servers.get(name).filter(|entry| entry.enabled)?;
        let fault = Place::of(name, entry).err();
        let (name, follows) = (Arc::<str>::from(name), self.starts.is_leaving(name));
        let handle = self.servers.insert(Server::new(Arc::clone(&name)));
        self.current.insert(name, handle);
        if follows {
            self.step(handle, Input::Follows);
        }
        if let Some(fault) = fault {
            self.step_for(handle, Input::Ended, Some(&fault));
        }
        Some(handle)
    }

    /// Adds a server.
    pub(super) fn add(&mut self, name: &str) {
        if let Some(handle) = self.admit(name) {
            self.start_admitted(handle, false);
        }
    }

    /// Removes a server; `entry` is the entry of its session.
    pub(super) fn retire(&mut self, name: &str, entry: Option<Entry>) {
        let Some(handle) = self.current.remove(name) else { return };
        self.offer_step(handle, hub_offer::Input::Lost);
        self.names.remove(name);
        self.dismiss(handle, entry);
    }

    /// Gives a server another session, which is opened after the current one is closed; `entry` is the entry of the
    /// current one.
    pub(super) fn renew(&mut self, name: &str, entry: Option<Entry>) -> Option<SessionHandle> {
        let now = self.configuration.servers.get(name)?;
        let former = self.current.get(name).copied()?;
        // At the same command or address, the lists are likely the same.
        let same = entry.as_ref().is_some_and(|entry| entry.endpoint == now.endpoint);
        let replaced = if same { hub_offer::Input::Replaced } else { hub_offer::Input::Lost };
        let inherited = self.offer_step(former, replaced);
        self.current.remove(name);
        let succeeds = self.dismiss(former, entry);
        let handle = self.admit(name)?;
        if let Some(server) = self.servers.get_mut(&handle)
            && inherited.is_some()
        {
            server.offer = inherited;
            self.offer_step(handle, hub_offer::Input::Inherited);
        }
        self.start_admitted(handle, succeeds);
        Some(handle)
    }

    /// A server's entry changed so that it needs another session, or it was enabled or disabled.
    pub(super) fn change(&mut self, name: &str, entry: Option<Entry>) {
        let is_enabled = self.configuration.servers.get(name).is_some_and(|entry| entry.enabled);
        match (self.current.contains_key(name), is_enabled) {
            (true, true) => _ = self.renew(name, entry),
            (true, false) => self.retire(name, entry),
            (false, _) => self.add(name),
        }
    }

    fn start_admitted(&mut self, handle: SessionHandle, succeeds: bool) {
        let starts = self.hub_step(hub::Input::Admitted).contains(&hub::Effect::StartServer);
        if starts || succeeds {
            self.step(handle, Input::Wanted);
        }
    }

    /// Closes a session whose entry was removed or replaced. Returns whether the next session is to be started.
    fn dismiss(&mut self, handle: SessionHandle, entry: Option<Entry>) -> bool {
        if let Some(server) = self.servers.get_mut(&handle) {
            server.former_entry = entry.map(Box::new);
        }
        self.step(handle, Input::Leave).contains(&Effect::Succeed)
    }

    /// Steps a server's table, and applies the effects.
    pub(super) fn step(&mut self, handle: SessionHandle, input: Input) -> &'static [Effect] {
        self.step_for(handle, input, None)
    }

    fn step_for(&mut self, handle: SessionHandle, input: Input, failure: Option<&Failure>) -> &'static [Effect] {
        let Some(server) = self.servers.get_mut(&handle) else { return &[] };
        let row = take(server.state, input);
        server.state = row.next;
        for effect in row.effects {
            self.apply(handle, *effect, failure);
        }
        row.effects
    }

    fn apply(&mut self, handle: SessionHandle, effect: Effect, failure: Option<&Failure>) {
        let now = self.now;
        let Some(server) = self.servers.get_mut(&handle) else { return };
        match effect {
            Effect::Await => {
                self.starts.begin_wait();
                self.hub_step(hub::Input::Wanted);
            }
            Effect::Arrive => self.starts.end_wait(),
            Effect::Queue => {
                let rank = self.rank(handle);
                self.starts.queue(rank, handle);
                self.hub_step(hub::Input::Wanted);
            }
            Effect::Promote => {
                let rank = self.rank(handle);
                self.starts.dequeue(handle);
                self.starts.queue(rank, handle);
            }
            Effect::Dequeue => self.starts.dequeue(handle),
            Effect::Prepare => self.prepare(handle),
            Effect::Open => {
                self.starts.take_room();
                self.open_session(handle);
            }
            Effect::Reopen => self.open_session(handle),
            Effect::Discard => {
                server.connection = None;
                self.queue.drop_turns(handle, &mut server.pending);
            }
            Effect::Release => self.starts.release_room(),
            Effect::Offer => self.offer_listed(handle),
            Effect::Withdraw => {
                self.offer_step(handle, hub_offer::Input::Lost);
                self.end_list_calls(handle, false);
            }
            Effect::Present => {
                server.failure = None;
                self.note_present(handle, true);
            }
            Effect::Absent => self.note_present(handle, false),
            Effect::AnswerLists => self.end_list_calls(handle, true),
            Effect::Rest => self.breaker_step(handle, BreakerInput::FailedAgain),
            Effect::Reset => self.breaker_step(handle, BreakerInput::Reset),
            Effect::ReportRetry => self.report_failure(handle, failure, true),
            Effect::ReportFailed => self.report_failure(handle, failure, false),
            Effect::Renew => {
                let name = Arc::clone(&server.name);
                if let Some(handle) = self.renew(&name, None) {
                    // A session that fails at once is not replaced again.
                    self.step(handle, Input::Called);
                }
            }
            Effect::Depart => {
                let name = Arc::clone(&server.name);
                self.starts.depart(&name);
            }
            Effect::Free => {
                let name = Arc::clone(&server.name);
                if self.starts.free(&name)
                    && let Some(next) = self.current.get(&name).copied()
                {
                    self.step(next, Input::Free);
                }
            }
            Effect::Shut => {
                if let Some(session) = &mut server.connection {
                    // A closed session has reported it, or will.
                    let _ = session.command(|engine| engine.close(now));
                    self.queue.touch(handle, &mut server.pending);
                }
                self.end_list_calls(handle, false);
            }
            Effect::Forget => {
                self.over = self.over.saturating_add(1);
                if !server.pending.is_empty() {
                    // It is removed after its last event, not with it.
                    self.queue.push_rest(handle, &mut server.pending);
                }
                self.sweep(handle);
            }
            // The caller knows whether a session follows.
            Effect::Succeed => {}
        }
    }

    fn open_session(&mut self, handle: SessionHandle) {
        let Some(server) = self.servers.get_mut(&handle) else { return };
        if let Some(session) = &mut server.connection {
            // It refuses if its connection is being opened already.
            let now = self.now;
            let _ = session.command(|engine| engine.open(now));
            self.queue.touch(handle, &mut server.pending);
        }
    }

    fn report_failure(&mut self, handle: SessionHandle, failure: Option<&Failure>, again: bool) {
        if let (Some(server), Some(failure)) = (self.servers.get_mut(&handle), failure.cloned()) {
            server.failure = Some(failure.clone());
            self.queue.report(HubEvent::Failed { server: Arc::clone(&server.name), failure, again });
        }
    }

    /// The rank of a server in the order of starts.
    fn rank(&self, handle: SessionHandle) -> Rank {
        let Some(server) = self.servers.get(&handle) else { return Rank::Other };
        if server.state == State::QueuedCalled {
            Rank::Called
        } else if self.options.required.contains(&*server.name) {
            Rank::Required
        } else {
            Rank::Other
        }
    }

    /// Creates the session of a server, if there is none.
    pub(super) fn prepare(&mut self, handle: SessionHandle) {
        let Some(server) = self.servers.get_mut(&handle).filter(|server| server.connection.is_none()) else { return };
        if let Some(entry) = self.configuration.servers.get(&*server.name) {
            server.connection = new_session(server, entry, &self.options, self.seed, &mut self.sharing);
        }
    }

    /// Tracks the required servers that were not up yet.
    fn note_present(&mut self, handle: SessionHandle, present: bool) {
        let (Some(server), Some(missing)) = (self.servers.get(&handle), &mut self.missing) else { return };
        if present {
            missing.remove(&*server.name);
        } else if self.options.required.contains(&*server.name) {
            missing.insert((&*server.name).into());
        }
    }

    /// Steps the table of a server's lists. Returns what is handed over to the next session.
    pub(super) fn offer_step(&mut self, handle: SessionHandle, input: hub_offer::Input) -> Option<Offer> {
        let server = self.servers.get_mut(&handle)?;
        let row = hub_offer::take(server.offer_state, input);
        server.offer_state = row.next;
        let mut handed_over = None;
        for effect in row.effects {
            let Some(server) = self.servers.get_mut(&handle) else { break };
            match effect {
                hub_offer::Effect::Start => _ = self.step(handle, Input::Wanted),
                hub_offer::Effect::Filter => {
                    if let Some(Offer { content, .. }) = server.offer.clone() {
                        self.offer(handle, Some(content));
                        self.give_up_calls(handle);
                    }
                }
                hub_offer::Effect::HandOver => handed_over = server.offer.take(),
                hub_offer::Effect::Withdraw => self.offer(handle, None),
                hub_offer::Effect::Present => self.note_present(handle, true),
                hub_offer::Effect::Absent => self.note_present(handle, false),
                // The caller has the lists.
                hub_offer::Effect::Offer => {}
            }
        }
        handed_over
    }

    /// Offers the lists of a session.
    fn offer_listed(&mut self, handle: SessionHandle) {
        let Some(server) = self.servers.get_mut(&handle) else { return };
        let Some(session) = &mut server.connection else { return };
        for family in Family::EACH {
            if let Some(list) = session.catalog().held(family) {
                let shared = self.sharing.list(family, Arc::clone(list));
                session.command(|engine| engine.share_list(family, shared));
            }
        }
        let catalog = session.catalog().clone();
        let families = PerFamily::from_fn(|family| session.family(family).status);
        let instructions = session.server().and_then(|server| server.instructions.clone());
        self.offer_step(handle, hub_offer::Input::Listed);
        self.offer(handle, Some(Content { catalog, families, instructions, saved_at: None }));
    }

    /// Offers saved lists until the server is started.
    pub(super) fn offer_saved(&mut self, handle: SessionHandle, saved: Saved) {
        let Saved { at, known_era, instructions, mut catalog, families, .. } = saved;
        let Some(server) = self.servers.get_mut(&handle) else { return };
        server.known_era = known_era;
        for family in Family::EACH {
            if let Some(list) = catalog.held(family) {
                let shared = self.sharing.list(family, Arc::clone(list));
                catalog.share(family, shared);
            }
        }
        self.offer_step(handle, hub_offer::Input::Restored);
        self.offer(handle, Some(Content { catalog, families, instructions, saved_at: Some(at) }));
    }

    /// Offers these lists of a server, or none.
    fn offer(&mut self, handle: SessionHandle, content: Option<Content>) {
        let Some(server) = self.servers.get_mut(&handle) else { return };
        let name = Arc::clone(&server.name);
        let no_policy = ToolPolicy::default();
        let policy = self.configuration.servers.get(&*name).map_or(&no_policy, |entry| &entry.tools);
        let offer = content.map(|content| {
            let tools = (content.catalog.held(Family::Tools), content.view());
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
        if !same {
            let (before, after) = (former.as_ref().map(|it| &*it.chosen), server.offer.as_ref().map(|it| &*it.chosen));
            let difference = rename(&mut self.names, &name, before, after);
            if !difference.is_empty() && self.hub_step(hub::Input::Changed).contains(&hub::Effect::ReportChanged) {
                self.queue.report(HubEvent::ToolsetChanged { server: name, difference });
            }
        }
        if let Some(Offer { content, chosen }) = former {
            self.sharing.release(&content.catalog, chosen);
        }
    }

    /// The embedder can authorize a session's requests.
    pub(super) fn authorize(&mut self, handle: SessionHandle) {
        let Some(server) = self.servers.get_mut(&handle) else { return };
        if let Some(session) = &mut server.connection {
            // A closed session needs no authorization.
            let now = self.now;
            let _ = session.command(|engine| engine.authorized(now));
            self.queue.touch(handle, &mut server.pending);
        }
    }

    /// A session may have new outputs.
    pub(super) fn touch(&mut self, handle: SessionHandle) {
        if let Some(server) = self.servers.get_mut(&handle) {
            self.queue.touch(handle, &mut server.pending);
        }
    }

    /// Ends the calls that wait for lists, with what is known or as not sent.
    fn end_list_calls(&mut self, handle: SessionHandle, with_lists: bool) {
        let Some(server) = self.servers.get_mut(&handle) else { return };
        for (number, utility) in core::mem::take(&mut server.list_calls) {
            let known = server.offer.as_ref().filter(|_| with_lists);
            let outcome =
                known.map_or(Outcome::NotSent, |offer| Outcome::Result(listing(&offer.content.catalog, utility)));
            let call = CallId { session: handle, kind: CallKind::List(number, utility) };
            self.queue.report(HubEvent::Finished { call, server: Arc::clone(&server.name), outcome });
        }
    }

    /// Cancels unsent calls that the filters do not allow any more.
    fn give_up_calls(&mut self, handle: SessionHandle) {
        let now = self.now;
        let Some(server) = self.servers.get_mut(&handle) else { return };
        let (Some(session), Some(offer)) = (&mut server.connection, &server.offer) else { return };
        for (request, _) in server.calls.iter().filter(|(_, target)| !offer.chosen.has(target)) {
            if session.is_unsent(*request) {
                // The request is open.
                let _ = session.command(|engine| engine.cancel(now, *request));
            }
        }
        self.queue.touch(handle, &mut server.pending);
    }

    pub(super) fn breaker_step(&mut self, handle: SessionHandle, input: BreakerInput) {
        if let (Some(options), Some(server)) = (self.options.breaker, self.servers.get_mut(&handle)) {
            server.breaker.step(options, self.now, input);
        }
    }

    /// Processes every session with new outputs, starts as many servers as there is room for, and steps the hub's
    /// table.
    pub(super) fn settle(&mut self) {
        loop {
            while let Some(handle) = self.queue.next_touched() {
                self.hear(handle);
            }
            while let Some(handle) = self.starts.next(self.options.starts.max(1)) {
                self.step(handle, Input::Room);
            }
            if self.missing.as_ref().is_some_and(BTreeSet::is_empty) {
                self.hub_step(hub::Input::Complete);
            }
            if self.starts.is_settled() {
                self.hub_step(hub::Input::Settled);
            }
            if self.servers.len() == self.over {
                self.hub_step(hub::Input::Gone);
            }
            if !self.queue.has_touched() {
                return;
            }
        }
    }

    /// Processes new events of a session, and adds its turns.
    fn hear(&mut self, handle: SessionHandle) {
        if let Some(server) = self.servers.get_mut(&handle) {
            server.pending.untouch();
        }
        while let Some(server) = self.servers.get_mut(&handle) {
            let Some(connection) = &server.connection else { return };
            let Some(event) = connection.event_after(server.pending.heard()) else { break };
            let heard = heard(event);
            self.queue.push_event(handle, &mut server.pending);
            self.react(handle, heard);
        }
        let Some(server) = self.servers.get_mut(&handle) else { return };
        let Some(connection) = &server.connection else { return };
        match connection.tail() {
            Tail::Empty => self.rest(handle),
            Tail::Event => {}
            Tail::Rest => self.queue.push_rest(handle, &mut server.pending),
        }
    }

    /// Reacts to an event of a session.
    fn react(&mut self, handle: SessionHandle, heard: Heard) {
        let now = self.now;
        let Some(server) = self.servers.get_mut(&handle) else { return };
        match heard {
            Heard::Ready => _ = self.step(handle, Input::Ready),
            Heard::Changed => _ = self.step(handle, Input::Changed),
            Heard::Alive => self.breaker_step(handle, BreakerInput::Answered),
            Heard::Finished(request, end) => {
                if let Some(options) = self.options.breaker.filter(|_| server.calls.contains_key(&request)) {
                    server.breaker.call_ended(options, now, end, server.state == State::Up);
                }
            }
            Heard::Lost(failure, next) => {
                server.failure = Some(failure.clone());
                let input = match next {
                    // `Closed` follows.
                    Recovery::Close => return,
                    Recovery::Reopen { .. } => Input::Down,
                    Recovery::Parked { .. } => Input::Parked,
                };
                self.step_for(handle, input, Some(&failure));
            }
            Heard::Closed(failure) => {
                let refused = matches!(failure.kind, FailureKind::Unauthorized | FailureKind::Forbidden);
                self.step_for(handle, Input::Ended, Some(&failure));
                if refused {
                    self.step(handle, Input::Unauthorized);
                }
            }
            Heard::Other => {}
        }
    }

    /// The next action.
    pub(super) fn poll(&mut self) -> Option<HubAction> {
        loop {
            let action = match self.queue.front()? {
                Turn::Event(_) => match self.queue.pop(None) {
                    Some(Turn::Event(event)) => Some(HubAction::Event(*event)),
                    Some(Turn::ToEvent(_) | Turn::Rest(_)) | None => None,
                },
                Turn::ToEvent(handle) => {
                    let handle = *handle;
                    self.take_to_event(handle)
                }
                Turn::Rest(handle) => {
                    let handle = *handle;
                    self.take_rest(handle)
                }
            };
            if action.is_some() {
                return action;
            }
        }
    }

    fn take_to_event(&mut self, handle: SessionHandle) -> Option<HubAction> {
        match self.pull(handle) {
            None => {
                self.end_turn(handle);
                None
            }
            Some(Wish::Event(event)) => {
                let event = self.event_taken(handle, event);
                self.end_turn(handle);
                event
            }
            Some(Wish::Action(action)) => Some(action),
        }
    }

    fn take_rest(&mut self, handle: SessionHandle) -> Option<HubAction> {
        let connection = self.servers.get(&handle).and_then(|server| server.connection.as_ref());
        if connection.is_none_or(Connection::is_event_next) {
            self.end_turn(handle);
            return None;
        }
        match self.pull(handle) {
            None => {
                self.end_turn(handle);
                None
            }
            Some(Wish::Event(event)) => self.event_taken(handle, event),
            Some(Wish::Action(action)) => Some(action),
        }
    }

    /// Takes the next output of a session.
    fn pull(&mut self, handle: SessionHandle) -> Option<Wish> {
        let server = self.servers.get_mut(&handle)?;
        let connection = server.connection.as_mut()?;
        let wish = connection.poll(handle);
        if wish.is_some() {
            self.step(handle, Input::Taken);
        }
        wish
    }

    /// An event of a session's is taken, in its turn: what the embedder gets.
    fn event_taken(&mut self, handle: SessionHandle, event: Event) -> Option<HubAction> {
        let server = self.servers.get_mut(&handle)?;
        server.pending.event_taken();
        let name = Arc::clone(&server.name);
        let mut call = None;
        if let Event::Finished { request, .. } = &event {
            call = server.calls.remove(request).map(|target| (*request, target.utility()));
        }
        let event = match (call, event) {
            (Some((request, utility)), Event::Finished { outcome, .. }) => {
                let kind = CallKind::Request(request, utility);
                HubEvent::Finished { call: CallId { session: handle, kind }, server: name, outcome }
            }
            (_, event) => HubEvent::Session { session: handle, server: name, event },
        };
        Some(HubAction::Event(event))
    }

    /// Ends the first turn.
    fn end_turn(&mut self, handle: SessionHandle) {
        let server = self.servers.get_mut(&handle);
        self.queue.pop(server.map(|server| &mut server.pending));
        self.rest(handle);
    }

    /// If nothing of a session waits to be polled, updates its deadline, or removes it.
    fn rest(&mut self, handle: SessionHandle) {
        let Some(server) = self.servers.get_mut(&handle).filter(|server| server.pending.is_empty()) else { return };
        if server.is_over() {
            return self.sweep(handle);
        }
        let deadline = server.connection.as_ref().and_then(Connection::deadline);
        self.queue.set_deadline(handle, &mut server.pending, deadline);
    }

    /// Removes a server whose session is closed and polled completely.
    fn sweep(&mut self, handle: SessionHandle) {
        let Some(server) = self.servers.get_mut(&handle).filter(|server| server.pending.is_empty()) else { return };
        self.queue.set_deadline(handle, &mut server.pending, None);
        self.servers.remove(handle);
        self.over = self.over.saturating_sub(1);
    }

    /// The number of former sessions that are not polled completely.
    pub(super) fn former(&self) -> usize {
        self.servers.len().saturating_sub(self.current.len())
    }

    /// Passes an input to a session, if it exists.
    pub(super) fn input<T>(
        &mut self,
        now: Time,
        handle: SessionHandle,
        give: impl FnOnce(&mut Connection, Time) -> T,
    ) -> Option<T> {
        self.advance(now);
        let now = self.now;
        self.servers.get(&handle).filter(|server| server.connection.is_some())?;
        self.step(handle, Input::Taken);
        let server = self.servers.get_mut(&handle)?;
        let given = give(server.connection.as_mut()?, now);
        self.queue.touch(handle, &mut server.pending);
        self.settle();
        Some(given)
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        self.advance(now);
        let now = self.now;
        while let Some(handle) = self.queue.due(now) {
            let Some(server) = self.servers.get_mut(&handle) else { break };
            self.queue.set_deadline(handle, &mut server.pending, None);
            self.step(handle, Input::Taken);
            let Some(server) = self.servers.get_mut(&handle) else { break };
            if let Some(connection) = &mut server.connection {
                connection.handle_timeout(now);
                self.queue.touch(handle, &mut server.pending);
            }
        }
        self.settle();
    }

    /// Whether saved lists of a server may be restored.
    pub(super) fn may_restore(&self, handle: SessionHandle) -> bool {
        let state = self.servers.get(&handle).map(|server| server.state);
        state.is_some_and(|state| take(state, Input::Restored).verdict != Verdict::Reject)
    }
}

/// Classifies an event of a session.
fn heard(event: &Event) -> Heard {
    match event {
        Event::Ready => Heard::Ready,
        Event::CatalogChanged { .. } => Heard::Changed,
        Event::Down { failure, next } => Heard::Lost(failure.clone(), *next),
        Event::Closed { cause: Cause::Failed(failure) } => Heard::Closed(failure.clone()),
        Event::Closed { cause: Cause::Requested } => {
            Heard::Closed(Failure { kind: FailureKind::Closed, message: "the host closed the session".into() })
        }
        Event::Finished { request, outcome } => Heard::Finished(*request, end_of(outcome)),
        Event::InputRequired { .. } | Event::Progress { .. } | Event::ServerRequest { .. } => Heard::Alive,
        Event::Unauthorized { .. }
        | Event::ServerRequestEnded { .. }
        | Event::Subscription { .. }
        | Event::ResourceUpdated { .. }
        | Event::Log { .. }
        | Event::Notification { .. }
        | Event::Quirk(_) => Heard::Other,
    }
}

/// Creates a session for a server's entry.
fn new_session(
    server: &Server,
    entry: &Entry,
    options: &HubOptions,
    seed: u64,
    sharing: &mut Sharing,
) -> Option<Connection> {
    // A server without a valid address failed when its session was created.
    let place = Place::of(&server.name, entry).ok()?;
    // Sessions that lose their connection at the same time reconnect at different times.
    let seed = seed ^ hash(server.name.as_bytes());
    let options = match options.own.get(&*server.name) {
        Some(own) => Arc::new(entry.options(&server.name, own.clone())),
        None => sharing.options(entry, &options.session),
    };
    Some(place.connect(&options, Arc::clone(&server.name), seed, server.known_era))
}
