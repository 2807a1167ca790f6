//! Whose turn it is: what came in goes to its session, and what sessions say comes out, one at a time.

use super::Hub;
use super::connection::{Connection, Wish};
use super::event::{HubAction, SessionHandle};
use super::member::Member;
use crate::Time;
#[cfg(feature = "http")]
use crate::binding::http::HttpAction;
use crate::client::Action;
use crate::machine::hub_server::State;

impl Hub {
    /// The next thing to do, if there is any.
    #[must_use = "what it says has to be done"]
    pub fn poll(&mut self) -> Option<HubAction> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(HubAction::Event(event));
            }
            let Some(handle) = self.touched.front().copied() else {
                if !self.unsettled {
                    return None;
                }
                self.settle();
                continue;
            };
            let wish = self.members.get_mut(&handle).and_then(|member| member.connection.as_mut()?.poll());
            match wish {
                Some(wish) => {
                    if let Some(action) = self.take(handle, wish) {
                        return Some(action);
                    }
                }
                None => {
                    self.touched.pop_front();
                    self.rest(handle);
                }
            }
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is wanted next: at once while there may be something to poll, never
    /// where it is `None`. What is due is served before more input is taken.
    pub fn deadline(&self) -> Option<Time> {
        if !self.events.is_empty() || !self.touched.is_empty() || self.unsettled {
            return Some(self.now);
        }
        self.timers.first().map(|(at, _)| *at)
    }

    /// Takes that time went by. A call too many, or too early, does nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        self.advance(now);
        let now = self.now;
        while let Some((_, handle)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.pop_first();
            self.touch(handle);
            let Some(member) = self.members.get_mut(&handle) else { continue };
            member.deadline = None;
            if let Some(connection) = &mut member.connection {
                connection.handle_timeout(now);
            }
        }
    }

    fn take(&mut self, session: SessionHandle, wish: Wish) -> Option<HubAction> {
        match wish {
            Wish::Lines(action) => match action {
                Action::Open(connection) => Some(HubAction::Open { session, connection }),
                Action::Send(message) => Some(HubAction::Send { session, message }),
                Action::Shutdown(how) => Some(HubAction::Shutdown { session, how }),
                Action::Event(event) => self.heard(session, event).map(HubAction::Event),
            },
            #[cfg(feature = "http")]
            Wish::Http(action) => match action {
                HttpAction::Request(request) => Some(HubAction::Request { session, request }),
                HttpAction::Drop(exchange) => Some(HubAction::Drop { session, exchange }),
                HttpAction::Event(event) => self.heard(session, event).map(HubAction::Event),
            },
        }
    }

    /// Hands something to a session, if it is there.
    pub(super) fn input(&mut self, now: Time, session: SessionHandle, give: impl FnOnce(&mut Connection, Time)) {
        self.advance(now);
        let now = self.now;
        if let Some(connection) = self.members.get_mut(&session).and_then(|member| member.connection.as_mut()) {
            give(connection, now);
            self.touch(session);
        }
    }

    /// A session may have something to say.
    pub(super) fn touch(&mut self, handle: SessionHandle) {
        let silent = |member: &Member| member.touched || member.connection.is_none();
        if let Some(member) = self.members.get_mut(&handle).filter(|member| !silent(member)) {
            member.touched = true;
            self.touched.push_back(handle);
        }
    }

    /// A session has nothing more to say for now.
    fn rest(&mut self, handle: SessionHandle) {
        let Some(member) = self.members.get_mut(&handle) else { return };
        member.touched = false;
        if member.state == State::Closed {
            return self.forget(handle);
        }
        let next = member.connection.as_ref().and_then(Connection::deadline);
        let before = core::mem::replace(&mut member.deadline, next);
        if before != next {
            if let Some(before) = before {
                self.timers.remove(&(before, handle));
            }
            self.timers.extend(next.map(|next| (next, handle)));
        }
    }
}
