//! What becomes of servers: admitted, started, lost, replaced, retired.

use alloc::boxed::Box;
use alloc::sync::Arc;

use super::connection::{Connection, Place};
use super::event::{HubEvent, HubOptions, SessionHandle};
use super::member::Member;
use super::shelf::Shelf;
use super::{Hub, Phase};
use crate::catalog::hash;
use crate::client::{Cause, Event, Failure, FailureKind, Recovery};
use crate::host::config::Entry;
use crate::machine::breaker;
use crate::machine::hub_server::{Effect, Input, State, take};

/// In which order servers start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// Somebody waits for it.
    Called,
    Required,
    Other,
}

impl Hub {
    /// Takes a server that is configured now, unless it is turned off.
    pub(super) fn admit(&mut self, server: &str) -> Option<SessionHandle> {
        let entry = self.configuration.servers.get(server).filter(|entry| entry.enabled)?;
        let fault = Place::of(server, entry).err();
        self.last_handle = self.last_handle.saturating_add(1);
        let (handle, name) = (SessionHandle(self.last_handle), Arc::<str>::from(server));
        self.current.insert(Arc::clone(&name), handle);
        let member = Member { failure: fault.clone(), ..Member::new(Arc::clone(&name)) };
        self.members.insert(handle, Box::new(member));
        if let Some(failure) = fault {
            self.step(handle, Input::Ended);
            self.events.push_back(HubEvent::Failed { server: name, failure, again: false });
        }
        Some(handle)
    }

    /// A server is not to be there any more; `entry` is what it was set up by.
    pub(super) fn retire(&mut self, server: &str, entry: Option<Entry>) {
        let Some(handle) = self.current.remove(server) else { return };
        self.offer(handle, None);
        self.names.remove(server);
        self.dismiss(handle, entry);
        self.note_required(server);
    }

    /// A server is to have another session, once the one that it has is gone; `entry` is what that was set up by.
    pub(super) fn renew(&mut self, server: &str, entry: Option<Entry>) {
        let (Some(former), Some(now)) = (self.current.get(server).copied(), self.configuration.servers.get(server))
        else {
            if let Some(handle) = self.admit(server)
                && self.phase == Phase::Open
            {
                self.want(handle, Rank::Other);
            }
            return;
        };
        if !now.enabled {
            return self.retire(server, entry);
        }
        // A server at the same place most likely offers the same.
        let same = entry.as_ref().is_some_and(|entry| entry.endpoint == now.endpoint);
        let Some(member) = self.members.get_mut(&former) else { return };
        let wanted = self.phase == Phase::Open || !matches!(member.state, State::Idle | State::Failed);
        let kept = if same && member.stands_in.is_none() { member.offer.take() } else { None };
        if kept.is_none() {
            self.offer(former, None);
        }
        self.current.remove(server);
        self.dismiss(former, entry);
        let Some(handle) = self.admit(server) else { return };
        if let Some(member) = self.members.get_mut(&handle) {
            member.offer = kept;
        }
        self.choose_again(handle);
        if wanted {
            self.want(handle, Rank::Other);
        }
    }

    fn dismiss(&mut self, handle: SessionHandle, entry: Option<Entry>) {
        let Some(member) = self.members.get_mut(&handle) else { return };
        (member.retired, member.leaves) = (entry.map(Box::new), true);
        let leaving = self.leaving.entry(Arc::clone(&member.name)).or_default();
        *leaving = leaving.saturating_add(1);
        self.step(handle, Input::Close);
    }

    /// A server is wanted.
    pub(super) fn want(&mut self, handle: SessionHandle, rank: Rank) {
        let Some(member) = self.members.get(&handle) else { return };
        let next = self.leaving.contains_key(&member.name);
        let required = self.options.required.contains(&*member.name);
        let rank = if required { rank.min(Rank::Required) } else { rank };
        let Some(member) = self.members.get_mut(&handle) else { return };
        let former = member.rank;
        member.rank = rank.min(former);
        if member.rank < former && self.waiting.remove(&(former, handle)) {
            self.waiting.insert((member.rank, handle));
        }
        self.step(handle, if next { Input::WantedNext } else { Input::Wanted });
    }

    pub(super) fn step(&mut self, handle: SessionHandle, input: Input) {
        let Some(member) = self.members.get_mut(&handle) else { return };
        let row = take(member.state, input);
        member.state = row.next;
        let server = Arc::clone(&member.name);
        for effect in row.effects {
            self.apply(handle, *effect);
        }
        self.note_required(&server);
    }

    /// Keeps account of the required servers that are not there, until all of them are.
    pub(super) fn note_required(&mut self, server: &str) {
        if self.ready || !self.options.required.contains(server) {
            return;
        }
        let member = self.current.get(server).and_then(|handle| self.members.get(handle));
        if member.is_some_and(|member| member.state == State::Up || member.stands_in.is_some()) {
            self.missing.remove(server);
        } else {
            self.missing.insert(server.into());
        }
    }

    fn apply(&mut self, handle: SessionHandle, effect: Effect) {
        let now = self.now;
        let Some(member) = self.members.get_mut(&handle) else { return };
        match effect {
            Effect::Await => {
                self.settled = false;
                self.awaiting = self.awaiting.saturating_add(1);
            }
            Effect::Arrive => self.awaiting = self.awaiting.saturating_sub(1),
            Effect::Queue => {
                self.settled = false;
                self.waiting.insert((member.rank, handle));
            }
            Effect::Leave => {
                self.waiting.remove(&(member.rank, handle));
            }
            Effect::Open => {
                self.starting = self.starting.saturating_add(1);
                self.connect(handle);
                // It is new.
                let _ = self.command(handle, |engine| engine.open(now));
            }
            Effect::Reopen => {
                // One that is on its way already cannot be opened, and need not be.
                let _ = self.command(handle, |engine| engine.open(now));
            }
            Effect::Release => self.starting = self.starting.saturating_sub(1),
            Effect::Show => {
                member.failure = None;
                (member.stands_in, member.parked) = (None, false);
                self.show(handle);
                self.end_lists(handle, true);
            }
            Effect::Hide => {
                member.stands_in = None;
                self.offer(handle, None);
                self.end_lists(handle, false);
            }
            Effect::Shut => {
                let has_session = member.connection.is_some();
                if let Some(session) = &mut member.connection {
                    // One that is over already has said so, or will.
                    let _ = session.command(|engine| engine.close(now));
                    self.touch(handle);
                }
                self.end_lists(handle, false);
                if !has_session {
                    self.step(handle, Input::Ended);
                }
            }
            // A session may have something to say yet; it is forgotten once that was polled.
            Effect::Forget if member.connection.is_some() => self.touch(handle),
            Effect::Forget => self.forget(handle),
        }
    }

    /// Something was done, all of it: has as many servers start as there is room for, and tells what became of the hub.
    pub(super) fn settle(&mut self) {
        self.unsettled = false;
        while self.starting < self.options.starts.max(1) && matches!(self.phase, Phase::Fresh | Phase::Open) {
            let Some((_, handle)) = self.waiting.pop_first() else { break };
            self.step(handle, Input::Room);
        }
        self.tell();
    }

    /// Makes sure that a server has a session, open or not.
    fn connect(&mut self, handle: SessionHandle) {
        let Some(member) = self.members.get_mut(&handle).filter(|member| member.connection.is_none()) else { return };
        if let Some(entry) = self.configuration.servers.get(&*member.name) {
            member.connection = new_session(member, entry, &self.options, self.seed, &mut self.shelf);
        }
    }

    /// Tells what became of the hub as a whole.
    fn tell(&mut self) {
        let at_rest = self.starting == 0 && self.waiting.is_empty() && self.awaiting == 0;
        match self.phase {
            Phase::Fresh | Phase::Open => {
                if self.phase == Phase::Open && self.missing.is_empty() && !self.ready {
                    self.ready = true;
                    self.events.push_back(HubEvent::Ready);
                }
                if at_rest && !self.settled {
                    self.settled = true;
                    self.events.push_back(HubEvent::Settled);
                }
            }
            Phase::Closing if self.members.is_empty() => {
                self.phase = Phase::Closed;
                self.current.clear();
                self.shelf = Shelf::default();
                self.events.push_back(HubEvent::Closed);
            }
            Phase::Closing | Phase::Closed => {}
        }
    }

    /// Takes what a session says; gives what there is to tell of it.
    pub(super) fn heard(&mut self, handle: SessionHandle, event: Event) -> Option<HubEvent> {
        let server = Arc::clone(&self.members.get(&handle)?.name);
        match &event {
            Event::Ready => {
                // What was refused for want of a connection can be called; calls that failed are not forgotten.
                if self.members.get(&handle).is_some_and(|member| member.parked) {
                    self.reset_breaker(handle);
                }
                self.step(handle, Input::Ready);
            }
            Event::CatalogChanged { .. } => self.show(handle),
            Event::Down { failure, next } => self.lost(handle, failure.clone(), *next),
            Event::Closed { cause } => {
                let failure = match cause {
                    Cause::Failed(failure) => failure.clone(),
                    Cause::Requested => {
                        Failure { kind: FailureKind::Closed, message: "the host closed the session".into() }
                    }
                };
                self.ended(handle, failure);
            }
            Event::Finished { request, outcome } => {
                if let Some(call) = self.finished(handle, *request, outcome) {
                    let Event::Finished { outcome, .. } = event else { return None };
                    return Some(HubEvent::Finished { call, server, outcome });
                }
            }
            // It is there, however long the call takes.
            Event::InputRequired { .. } | Event::Progress { .. } | Event::ServerRequest { .. } => {
                self.breaker_step(handle, breaker::Input::Answered);
            }
            Event::Unauthorized { .. }
            | Event::ServerRequestEnded { .. }
            | Event::Subscription { .. }
            | Event::ResourceUpdated { .. }
            | Event::Log { .. }
            | Event::Notification { .. }
            | Event::Quirk(_) => {}
        }
        self.unsettled = true;
        Some(HubEvent::Session { session: handle, server, event })
    }

    fn lost(&mut self, handle: SessionHandle, failure: Failure, next: Recovery) {
        let Some(member) = self.members.get_mut(&handle) else { return };
        member.failure = Some(failure.clone());
        let (starting, server) = (member.state == State::Starting, Arc::clone(&member.name));
        member.parked = matches!(next, Recovery::Parked { .. });
        match next {
            // Its end follows.
            Recovery::Close => return,
            Recovery::Reopen { .. } => {}
            Recovery::Parked { .. } => self.breaker_step(handle, breaker::Input::FailedAgain),
        }
        self.step(handle, Input::Down);
        if starting {
            self.events.push_back(HubEvent::Failed { server, failure, again: true });
            self.end_lists(handle, true);
        }
    }

    fn ended(&mut self, handle: SessionHandle, failure: Failure) {
        let Some(member) = self.members.get_mut(&handle) else { return };
        let (by_itself, server) = (member.state != State::Closing, Arc::clone(&member.name));
        if by_itself {
            member.failure = Some(failure.clone());
        }
        self.step(handle, Input::Ended);
        if by_itself {
            self.events.push_back(HubEvent::Failed { server, failure, again: false });
        }
    }

    /// A session is over, and has nothing more to say.
    pub(super) fn forget(&mut self, handle: SessionHandle) {
        let Some(member) = self.members.remove(&handle) else { return };
        if let Some(deadline) = member.deadline {
            self.timers.remove(&(deadline, handle));
        }
        if member.leaves {
            let left = self.leaving.get(&member.name).map_or(0, |left| left.saturating_sub(1));
            if left > 0 {
                self.leaving.insert(member.name, left);
            } else {
                self.leaving.remove(&member.name);
                if let Some(next) = self.current.get(&member.name).copied() {
                    self.step(next, Input::Free);
                }
            }
        }
        self.unsettled = true;
    }
}

/// A session with a server as its entry says, not open yet.
pub(super) fn new_session(
    member: &Member,
    entry: &Entry,
    options: &HubOptions,
    seed: u64,
    shelf: &mut Shelf,
) -> Option<Connection> {
    // Whether there is such a place was seen when the server was admitted.
    let place = Place::of(&member.name, entry).ok()?;
    // Sessions that are lost together do not come back together.
    let seed = seed ^ hash(member.name.as_bytes());
    let options = match options.own.get(&*member.name) {
        Some(own) => Arc::new(entry.options(&member.name, own.clone())),
        None => shelf.options(entry, &options.session),
    };
    Some(place.connect(&options, Arc::clone(&member.name), seed, member.known_era))
}
