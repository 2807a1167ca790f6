//! Applies a new configuration, and restores saved lists.

use super::{Router, Subject};
use crate::host::Saved;
use crate::host::config::Entry;
use crate::host::hub::event::SessionHandle;
use crate::machine::hub_change::{self, Change, Session};
use crate::machine::{hub, hub_offer};

impl Router {
    /// A server was added or removed, enabled or disabled, or its entry changed so that it needs another session;
    /// `entry` is the entry before.
    pub(in super::super) fn change(&mut self, name: &str, entry: Option<Entry>) {
        let session = if self.current.contains_key(name) { Session::Current } else { Session::Missing };
        let is_enabled = self.configuration.servers.get(name).is_some_and(|entry| entry.enabled);
        match hub_change::take(
            session,
            if is_enabled { hub_change::Entry::Enabled } else { hub_change::Entry::Disabled },
        ) {
            Change::Add => self.add(name),
            Change::Renew => _ = self.renew(name, entry),
            Change::Retire => self.retire(name, entry),
            Change::Nothing => {}
        }
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

    /// Offers saved lists until the server is started.
    pub(in super::super) fn offer_saved(&mut self, handle: SessionHandle, saved: Saved) {
        if let Some(content) = self.take_saved(handle, saved) {
            self.offer_step(handle, hub_offer::Input::Restored, Some(content));
        }
    }
}
