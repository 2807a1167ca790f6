//! Steps the tables of the hub, of a server and of its lists, and applies the effects, which are inputs of one another.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use super::sessions::Created;
use super::{About, Router, Subject};
use crate::Time;
use crate::host::config::Entry;
use crate::host::hub::connection::Connection;
use crate::host::hub::event::{HubEvent, SessionHandle};
use crate::host::hub::lifetime::Lifetime;
use crate::host::hub::offers::Content;
use crate::host::hub::sharing::Sharing;
use crate::host::hub::starts::Rank;
use crate::machine::breaker::Input as BreakerInput;
use crate::machine::hub_change::{self, Next, Place};
use crate::machine::hub_rest::{Occasion, Rest};
use crate::machine::hub_server::{Effect, Input, take};
use crate::machine::{hub, hub_offer};

/// The shortest wait until a server rests.
const SHORTEST: Duration = Duration::from_millis(1);

impl Router {
    /// Steps the hub's table, and applies the effects.
    pub(in super::super) fn hub_step(&mut self, input: hub::Input, subject: Subject) {
        let row = hub::take(self.state, input);
        self.state = row.next;
        let mut subject = Some(subject);
        for effect in row.effects {
            match effect {
                hub::Effect::Start => {
                    for handle in self.servers.handles() {
                        self.offer_step(handle, hub_offer::Input::Opened, None);
                    }
                }
                hub::Effect::StartServer => {
                    if let Some(Subject::Session(handle)) = subject {
                        self.step(handle, Input::Wanted);
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
                hub::Effect::ReportChanged => {
                    if let Some(Subject::Functions(server, difference)) = subject.take() {
                        self.queue.report(HubEvent::ToolsetChanged { server, difference });
                    }
                }
                hub::Effect::Clear => {
                    self.current.clear();
                    self.sharing = Sharing::default();
                }
                hub::Effect::ReportClosed => self.queue.report(HubEvent::Closed),
            }
        }
    }

    /// Steps the table of a server's lists, and applies the effects. `content` are the lists that the input is about.
    pub(in super::super) fn offer_step(
        &mut self,
        handle: SessionHandle,
        input: hub_offer::Input,
        mut content: Option<Content>,
    ) {
        let Some(server) = self.servers.get_mut(&handle) else { return };
        let row = hub_offer::take(server.offer_state, input);
        server.offer_state = row.next;
        for effect in row.effects {
            match effect {
                hub_offer::Effect::Offer => self.offer_change(handle, content.take()),
                hub_offer::Effect::Start => self.step(handle, Input::Wanted),
                hub_offer::Effect::Filter => {
                    if let Some(content) = self.offered(handle) {
                        self.offer_change(handle, Some(content));
                        self.give_up_calls(handle);
                    }
                }
                hub_offer::Effect::HandOver => {
                    if let Some(next) = self.hand_over(handle) {
                        self.offer_step(next, hub_offer::Input::Inherited, None);
                    }
                }
                hub_offer::Effect::Withdraw => self.offer_change(handle, None),
                hub_offer::Effect::Present => self.note_present(handle, true),
                hub_offer::Effect::Absent => self.note_present(handle, false),
            }
        }
    }

    /// Offers these lists of a server, or none, and reports the change.
    fn offer_change(&mut self, handle: SessionHandle, content: Option<Content>) {
        if let Some((name, difference)) = self.offer(handle, content) {
            self.hub_step(hub::Input::Changed, Subject::Functions(name, difference));
        }
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
            Effect::Offer => {
                if let Some(content) = self.listed(handle) {
                    self.offer_step(handle, hub_offer::Input::Listed, Some(content));
                }
            }
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
                // A session that failed at once refuses it, so that this does not recur.
                if let Some(handle) = self.renew(&name, None) {
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

    /// Creates a session for a configured server, unless it is disabled. It is the server's current one from now on.
    pub(super) fn create(&mut self, name: &str) -> Option<SessionHandle> {
        let Created { handle, follows, fault } = self.insert(name)?;
        if follows {
            self.step(handle, Input::Follows);
        }
        if let Some(fault) = fault {
            self.step_about(handle, Input::Ended, About::Failure(&fault));
        }
        Some(handle)
    }

    /// Gives a server another session, which is opened after the current one is closed; `entry` is the entry of the
    /// current one.
    pub(super) fn renew(&mut self, name: &str, entry: Option<Entry>) -> Option<SessionHandle> {
        let now = self.configuration.servers.get(name)?;
        let same = entry.as_ref().is_some_and(|entry| entry.endpoint == now.endpoint);
        let place = if same { Place::Same } else { Place::Other };
        let former = self.current.get(name).copied()?;
        let handle = self.create(name)?;
        let next = if self.takes_calls(handle) { Next::Created } else { Next::Failed };
        self.offer_step(former, hub_change::take_lists(place, next), None);
        self.leave(former, entry);
        self.hub_step(hub::Input::Admitted, Subject::Session(handle));
        Some(handle)
    }

    /// Closes a session whose entry was removed or replaced.
    pub(super) fn leave(&mut self, handle: SessionHandle, entry: Option<Entry>) {
        if let Some(server) = self.servers.get_mut(&handle) {
            server.former_entry = entry.map(Box::new);
        }
        self.step(handle, Input::Leave);
    }

    /// If nothing of a session waits to be polled: removes it if it is over, and updates its deadline otherwise.
    pub(super) fn note_polled(&mut self, handle: SessionHandle) {
        let Some(server) = self.servers.get(&handle).filter(|server| server.pending.is_empty()) else { return };
        if !server.connection.as_ref().is_some_and(Connection::is_authorizing) {
            self.step(handle, Input::Polled);
        }
        let Some(server) = self.servers.get_mut(&handle) else { return };
        let rests_at = match server.rest(self.now, Occasion::Polled) {
            Some((Rest::Later | Rest::Now, at)) => Some(at.max(self.now + SHORTEST)),
            Some((Rest::Never, _)) | None => None,
        };
        let deadline = server.connection.as_ref().and_then(Connection::deadline);
        let deadline = Time::earliest([deadline, rests_at]);
        self.queue.set_deadline(handle, &mut server.pending, deadline);
    }
}
