//! Applies a new configuration, and restores saved lists.

use super::{Router, Subject};
use crate::host::Saved;
use crate::host::config::Entry;
use crate::host::hub::event::SessionHandle;
use crate::machine::{hub, hub_offer};

impl Router {
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
        if let Some(content) = self.restored(handle, saved) {
            self.offer_step(handle, hub_offer::Input::Restored, Some(content));
        }
    }
}
