//! Sessions that authorize themselves (feature `oauth`).

use alloc::boxed::Box;

use super::connection::Connection;
use super::event::SessionHandle;
use super::{Hub, HubOAuth};
use crate::Time;
use crate::binding::oauth::OAuthInput;
use crate::machine::hub_server::Input;

impl Hub {
    /// Lets the sessions of servers whose entry has `auth: oauth` authorize themselves (feature `oauth`). What the
    /// embedder has to do is [`HubAction::OAuth`](super::HubAction::OAuth), whose results
    /// [`handle_oauth`](Self::handle_oauth) takes. One URL at a time is given to the user's browser: that of another
    /// server follows when the user authorized, or the attempt ended. A server is started without a token, and waits for
    /// one only if it demands it; other servers start meanwhile, and its functions are offered once there is a token.
    ///
    /// Call it before [`configure`](Self::configure). A snapshot does not contain it: call it after
    /// [`from_snapshot`](Self::from_snapshot), too.
    #[must_use]
    pub fn with_oauth(mut self, oauth: HubOAuth) -> Self {
        let router = &mut self.router;
        router.oauth = Some(Box::new(oauth));
        for handle in router.servers.handles() {
            router.step(handle, Input::OAuthGiven);
        }
        self
    }

    /// Takes an input for the authorization of a session (feature `oauth`). Returns whether it belongs to what is in
    /// progress, as [`Client::handle_oauth`](crate::Client::handle_oauth) does.
    pub fn handle_oauth(&mut self, now: Time, session: SessionHandle, input: OAuthInput<'_>) -> bool {
        let handled = self.router.input(now, session, |connection, now| match connection {
            Connection::Http(it) => it.handle_oauth(now, input),
            Connection::Lines(_) => false,
        });
        handled.unwrap_or_default()
    }
}
