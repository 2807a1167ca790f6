//! Lends the user's browser to the sessions (feature `oauth`).

use super::super::connection::Connection;
use super::super::event::SessionHandle;
use super::Router;
use crate::binding::oauth::BrowserUse;
use crate::machine::hub_browser::{Effect, Input, take};

impl Router {
    /// A session may require the browser, or not any more.
    pub(in crate::host::hub) fn note_browser(&mut self, handle: SessionHandle) {
        let connection = self.servers.get(&handle).and_then(|server| server.connection.as_ref());
        match connection.map(Connection::browser) {
            Some(BrowserUse::Wanted) => self.browser_step(handle, Input::Wanted),
            Some(BrowserUse::Unused) => self.browser_step(handle, Input::Over),
            Some(BrowserUse::Shown) | None => {}
        }
    }

    /// Gives the browser to the next session that waits for it, if it is free.
    pub(in crate::host::hub) fn lend_browser(&mut self) {
        if let Some(handle) = self.browser.next() {
            self.browser_step(handle, Input::Free);
        }
    }

    fn browser_step(&mut self, handle: SessionHandle, input: Input) {
        let now = self.now;
        let Some(server) = self.servers.get_mut(&handle) else { return };
        let row = take(server.browser, input);
        server.browser = row.next;
        for effect in row.effects {
            match effect {
                Effect::Queue => self.browser.queue(handle),
                Effect::Dequeue => self.browser.dequeue(handle),
                Effect::Show => {
                    self.browser.show(handle);
                    if let Some(connection) = &mut server.connection {
                        connection.show_browser(now);
                    }
                    self.queue.touch(handle, &mut server.pending);
                }
                Effect::Release => self.browser.release(),
            }
        }
    }
}
