//! Handles deadlines and inputs, and processes what they lead to.

use alloc::collections::BTreeSet;

use super::{Router, Subject};
use crate::Time;
use crate::host::hub::connection::Connection;
use crate::host::hub::event::SessionHandle;
use crate::machine::hub;
use crate::machine::hub_server::Input;

impl Router {
    /// Handles the deadlines that are due before an input, and advances the time.
    pub(in super::super) fn advance(&mut self, now: Time) {
        self.now = self.handle_due(now);
    }

    /// Processes every session with new outputs, starts as many servers as there is room for, and steps the hub's
    /// table.
    pub(in super::super) fn settle(&mut self) {
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
                self.hub_step(hub::Input::Complete, Subject::Hub);
            }
            if self.starts.is_settled() {
                self.hub_step(hub::Input::Settled, Subject::Hub);
            }
            if self.servers.len() == self.over {
                self.hub_step(hub::Input::Gone, Subject::Hub);
            }
            if !self.queue.has_touched() {
                return;
            }
        }
    }

    /// Passes an input to a session, if it exists.
    pub(in super::super) fn input<T>(
        &mut self,
        now: Time,
        handle: SessionHandle,
        give: impl FnOnce(&mut Connection, Time) -> T,
    ) -> Option<T> {
        // The session handles its own: a response that is complete ends its exchange before a deadline does.
        let now = self.handle_due_except(now, Some(handle));
        self.now = now;
        self.servers.get(&handle).filter(|server| server.connection.is_some())?;
        self.step(handle, Input::Taken);
        let server = self.servers.get_mut(&handle)?;
        let given = give(server.connection.as_mut()?, now);
        self.queue.touch(handle, &mut server.pending);
        self.settle();
        Some(given)
    }

    /// Handles the deadlines of every session that are due, before an input or a command. Returns its time, which does
    /// not go back. If none is due, this changes nothing: the command may be refused.
    pub(in super::super) fn handle_due(&mut self, now: Time) -> Time {
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
            let Some(server) = self.servers.get_mut(&handle) else { continue };
            server.pending.deadline_taken();
            if except == Some(handle) {
                continue;
            }
            self.queue.touch(handle, &mut server.pending);
            self.step(handle, Input::Taken);
            if let Some(connection) = self.servers.get_mut(&handle).and_then(|server| server.connection.as_mut()) {
                connection.handle_timeout(now);
            }
        }
        self.settle();
        now
    }
}
