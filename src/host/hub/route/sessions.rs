//! Creates, replaces and removes the sessions of servers, and applies the effects of their table.

use alloc::boxed::Box;
use alloc::sync::Arc;

use super::{About, Router, Subject};
use crate::catalog::hash;
use crate::host::config::Entry;
use crate::host::hub::connection::{Connection, Place};
use crate::host::hub::event::{HubEvent, SessionHandle};
use crate::host::hub::lifetime::Lifetime;
use crate::host::hub::server::Server;
use crate::host::hub::starts::Rank;
use crate::machine::breaker::Input as BreakerInput;
use crate::machine::hub_server::{Effect, Input, refuses, take};
use crate::machine::{hub, hub_offer};

impl Router {
    /// Creates a session for a configured server, unless it is disabled. It is the server's current one from now on.
    fn create(&mut self, name: &str) -> Option<SessionHandle> {
        let entry = self.configuration.servers.get(name).filter(|entry| entry.enabled)?;
        let fault = Place::of(name, entry).err();
        #[cfg(feature = "oauth")]
        let fault = fault.or_else(|| self.oauth.as_ref()?.fault(name, entry));
        let (name, follows) = (Arc::<str>::from(name), self.starts.is_leaving(name));
        let handle = self.servers.insert(Server::new(Arc::clone(&name)));
        self.current.insert(name, handle);
        if follows {
            self.step(handle, Input::Follows);
        }
        if let Some(fault) = fault {
            self.step_about(handle, Input::Ended, About::Failure(&fault));
        }
        Some(handle)
    }

    /// Adds a server.
    fn add(&mut self, name: &str) {
        if let Some(handle) = self.create(name) {
            self.hub_step(hub::Input::Admitted, Subject::Session(handle));
        }
    }

    /// Removes a server; `entry` is the entry of its session.
    fn retire(&mut self, name: &str, entry: Option<Entry>) {
        let Some(handle) = self.current.remove(name) else { return };
        self.offer_step(handle, hub_offer::Input::Lost, None);
        self.names.remove(name);
        self.leave(handle, entry);
    }

    /// Gives a server another session, which is opened after the current one is closed; `entry` is the entry of the
    /// current one.
    fn renew(&mut self, name: &str, entry: Option<Entry>) -> Option<SessionHandle> {
        let now = self.configuration.servers.get(name)?;
        // At the same command or address, the lists are likely the same.
        let same = entry.as_ref().is_some_and(|entry| entry.endpoint == now.endpoint);
        let former = self.current.get(name).copied()?;
        let handle = self.create(name)?;
        // A session that failed takes no calls, and offers nothing that could be called.
        let inherits = same && self.takes_calls(handle);
        let replaced = if inherits { hub_offer::Input::Replaced } else { hub_offer::Input::Lost };
        self.offer_step(former, replaced, None);
        self.leave(former, entry);
        self.hub_step(hub::Input::Admitted, Subject::Session(handle));
        Some(handle)
    }

    /// A server was added or removed, enabled or disabled, or its entry changed so that it needs another session;
    /// `entry` is the entry before.
    pub(in super::super) fn change(&mut self, name: &str, entry: Option<Entry>) {
        let is_enabled = self.configuration.servers.get(name).is_some_and(|entry| entry.enabled);
        match (self.current.contains_key(name), is_enabled) {
            (true, true) => _ = self.renew(name, entry),
            (true, false) => self.retire(name, entry),
            (false, _) => self.add(name),
        }
    }

    /// Closes a session whose entry was removed or replaced.
    fn leave(&mut self, handle: SessionHandle, entry: Option<Entry>) {
        if let Some(server) = self.servers.get_mut(&handle) {
            server.former_entry = entry.map(Box::new);
        }
        self.step(handle, Input::Leave);
    }

    /// The current session of a server, if it is not this one.
    pub(super) fn next(&self, handle: SessionHandle) -> Option<SessionHandle> {
        let current = *self.current.get(&*self.servers.get(&handle)?.name)?;
        (current != handle).then_some(current)
    }

    /// Steps a server's table, and applies the effects.
    pub(in super::super) fn step(&mut self, handle: SessionHandle, input: Input) {
        self.step_about(handle, input, About::Nothing);
    }

    /// As [`step`](Self::step), with what the input is about.
    pub(in super::super) fn step_about(&mut self, handle: SessionHandle, input: Input, mut about: About<'_>) {
        let Some(server) = self.servers.get_mut(&handle) else { return };
        let row = take(server.state, input);
        server.state = row.next;
        for effect in row.effects {
            self.apply(handle, *effect, &mut about);
        }
    }

    fn apply(&mut self, handle: SessionHandle, effect: Effect, about: &mut About<'_>) {
        let now = self.now;
        let Some(server) = self.servers.get_mut(&handle) else { return };
        match effect {
            Effect::Await => {
                self.starts.begin_wait();
                self.hub_step(hub::Input::Wanted, Subject::Hub);
            }
            Effect::Arrive => self.starts.end_wait(),
            Effect::Queue => {
                let is_required = self.options.required.contains(&*server.name);
                self.starts.queue(if is_required { Rank::Required } else { Rank::Other }, handle);
                self.hub_step(hub::Input::Wanted, Subject::Hub);
            }
            Effect::QueueCalled => {
                self.starts.queue(Rank::Called, handle);
                self.hub_step(hub::Input::Wanted, Subject::Hub);
            }
            Effect::Promote => {
                self.starts.dequeue(handle);
                self.starts.queue(Rank::Called, handle);
            }
            Effect::Dequeue => self.starts.dequeue(handle),
            Effect::Prepare => {
                let session = match core::mem::replace(about, About::Nothing) {
                    About::Session(session) => Some(session),
                    About::Nothing | About::Failure(_) => self.new_session(handle),
                };
                if let Some(server) = self.servers.get_mut(&handle) {
                    server.connection = session;
                }
                self.join_authorization(handle);
            }
            Effect::Join => self.join_authorization(handle),
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
                self.offer_step(handle, hub_offer::Input::Lost, None);
                self.end_list_calls(handle, false);
            }
            Effect::Rest => {
                if let Some(session) = &mut server.connection {
                    session.run(|engine| engine.rest(now));
                    self.queue.report(HubEvent::Resting { session: handle, server: Arc::clone(&server.name) });
                    self.queue.touch(handle, &mut server.pending);
                }
            }
            Effect::Present => {
                server.failure = None;
                let entry = self.configuration.servers.get(&*server.name);
                server.lifetime = entry.and_then(|entry| Lifetime::start(entry, now)).map(Box::new);
                self.note_present(handle, true);
            }
            Effect::Absent => self.note_present(handle, false),
            Effect::AnswerLists => self.end_list_calls(handle, true),
            Effect::RefuseCalls => self.breaker_step(handle, BreakerInput::FailedAgain),
            Effect::AllowCalls => self.breaker_step(handle, BreakerInput::Reset),
            Effect::ReportRetry => self.report_failure(handle, about, true),
            Effect::ReportFailed => self.report_failure(handle, about, false),
            Effect::Renew => {
                let name = Arc::clone(&server.name);
                // A session that fails at once is not replaced again.
                if let Some(handle) = self.renew(&name, None).filter(|handle| self.takes_calls(*handle)) {
                    self.step(handle, Input::Called);
                }
            }
            Effect::Depart => {
                let name = Arc::clone(&server.name);
                self.starts.depart(&name);
                if let Some(next) = self.next(handle) {
                    self.step(next, Input::Follows);
                }
            }
            Effect::Succeed => {
                if let Some(next) = self.next(handle) {
                    self.step(next, Input::Wanted);
                }
            }
            Effect::Free => {
                let name = Arc::clone(&server.name);
                if self.starts.free(&name)
                    && let Some(next) = self.next(handle)
                {
                    self.step(next, Input::Free);
                }
            }
            Effect::Shut => {
                if let Some(session) = &mut server.connection {
                    // A closed session has reported it, or will.
                    let _ = session.run(|engine| engine.close(now));
                    self.queue.touch(handle, &mut server.pending);
                }
                self.end_list_calls(handle, false);
            }
            Effect::Forget => {
                self.end_list_calls(handle, false);
                let Some(server) = self.servers.get_mut(&handle) else { return };
                self.over = self.over.saturating_add(1);
                if !server.pending.is_empty() {
                    // It is removed after its last event, not with it.
                    self.queue.push_actions(handle, &mut server.pending);
                }
                self.note_polled(handle);
            }
            Effect::Remove => {
                self.queue.set_deadline(handle, &mut server.pending, None);
                self.servers.remove(handle);
                self.over = self.over.saturating_sub(1);
            }
        }
    }

    fn open_session(&mut self, handle: SessionHandle) {
        let Some(server) = self.servers.get_mut(&handle) else { return };
        if let Some(session) = &mut server.connection {
            // It refuses if its connection is being opened already.
            let now = self.now;
            let _ = session.run(|engine| engine.open(now));
            self.queue.touch(handle, &mut server.pending);
        }
    }

    fn report_failure(&mut self, handle: SessionHandle, about: &About<'_>, again: bool) {
        if let (Some(server), About::Failure(failure)) = (self.servers.get_mut(&handle), about) {
            let failure = (*failure).clone();
            server.failure = Some(failure.clone());
            self.queue.report(HubEvent::Failed { server: Arc::clone(&server.name), failure, again });
        }
    }

    /// A new session for a server's entry, without an authorization. The server does not have it yet.
    pub(in super::super) fn new_session(&mut self, handle: SessionHandle) -> Option<Connection> {
        let server = self.servers.get(&handle)?;
        let entry = self.configuration.servers.get(&*server.name)?;
        // A server without a valid address failed when its session was created.
        let place = Place::of(&server.name, entry).ok()?;
        // Sessions that lose their connection at the same time reconnect at different times.
        let seed = self.seed ^ hash(server.name.as_bytes());
        let options = match self.options.own.get(&*server.name) {
            Some(own) => Arc::new(entry.options(&server.name, own.clone())),
            None => self.sharing.options(entry, &self.options.session),
        };
        Some(place.connect(&options, Arc::clone(&server.name), seed, server.known_era))
    }

    /// Lets a session authorize itself, if its entry says so.
    #[cfg(feature = "oauth")]
    fn join_authorization(&mut self, handle: SessionHandle) {
        let Some(server) = self.servers.get_mut(&handle) else { return };
        if let Some(entry) = self.configuration.servers.get(&*server.name)
            && let (Some(connection), Some(oauth)) = (&mut server.connection, &mut self.oauth)
            && let Some(authorization) = oauth.authorization(&server.name, entry, self.now)
        {
            connection.set_oauth(authorization);
        }
    }

    #[cfg(not(feature = "oauth"))]
    const fn join_authorization(&mut self, _: SessionHandle) {}

    /// Tracks the required servers that were not up yet.
    pub(super) fn note_present(&mut self, handle: SessionHandle, present: bool) {
        let (Some(server), Some(missing)) = (self.servers.get(&handle), &mut self.missing) else { return };
        if present {
            missing.remove(&*server.name);
        } else if self.options.required.contains(&*server.name) {
            missing.insert((&*server.name).into());
        }
    }

    /// The embedder can authorize a session's requests.
    pub(in super::super) fn authorize(&mut self, handle: SessionHandle) {
        let Some(server) = self.servers.get_mut(&handle) else { return };
        if let Some(session) = &mut server.connection {
            // A closed session needs no authorization.
            let now = self.now;
            let _ = session.run(|engine| engine.authorized(now));
            self.queue.touch(handle, &mut server.pending);
        }
    }

    /// Whether calls to a server are accepted.
    fn takes_calls(&self, handle: SessionHandle) -> bool {
        self.servers.get(&handle).is_some_and(|server| !refuses(server.state, Input::Called))
    }

    /// Whether saved lists of a server may be restored.
    pub(in super::super) fn may_restore(&self, handle: SessionHandle) -> bool {
        self.servers.get(&handle).is_some_and(|server| !refuses(server.state, Input::Restored))
    }
}
