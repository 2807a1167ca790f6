//! Creates sessions, and what is done with them.

use alloc::sync::Arc;

use super::{About, Router};
use crate::catalog::hash;
use crate::client::Failure;
use crate::host::hub::connection::{Connection, Place};
use crate::host::hub::event::{HubEvent, SessionHandle};
use crate::host::hub::server::Server;
use crate::machine::hub_server::{Input, refuses};

/// A session that was created.
pub(super) struct Created {
    pub(super) handle: SessionHandle,
    /// Whether an earlier session of its server is not closed yet.
    pub(super) follows: bool,
    /// Why it cannot be opened.
    pub(super) fault: Option<Failure>,
}

impl Router {
    /// Adds the record of a new session of a configured server, unless that is disabled, without stepping its table.
    pub(super) fn insert(&mut self, name: &str) -> Option<Created> {
        let entry = self.configuration.servers.get(name).filter(|entry| entry.enabled)?;
        let fault = Place::of(name, entry).err();
        #[cfg(feature = "oauth")]
        let fault = fault.or_else(|| self.oauth.as_ref()?.fault(name, entry));
        let (name, follows) = (Arc::<str>::from(name), self.starts.is_leaving(name));
        let handle = self.servers.insert(Server::new(Arc::clone(&name)));
        self.current.insert(name, handle);
        Some(Created { handle, follows, fault })
    }

    /// The current session of a server, if it is not this one.
    pub(super) fn next(&self, handle: SessionHandle) -> Option<SessionHandle> {
        let current = *self.current.get(&*self.servers.get(&handle)?.name)?;
        (current != handle).then_some(current)
    }

    /// Opens the connection of a session.
    pub(super) fn open_session(&mut self, handle: SessionHandle) {
        let Some(server) = self.servers.get_mut(&handle) else { return };
        if let Some(session) = &mut server.connection {
            // It refuses if its connection is being opened already.
            let now = self.now;
            let _ = session.run(|engine| engine.open(now));
            self.queue.touch(handle, &mut server.pending);
        }
    }

    /// Reports that a session failed.
    pub(super) fn report_failure(&mut self, handle: SessionHandle, about: &About<'_>, again: bool) {
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
    pub(super) fn join_authorization(&mut self, handle: SessionHandle) {
        let Some(server) = self.servers.get_mut(&handle) else { return };
        if let Some(entry) = self.configuration.servers.get(&*server.name)
            && let (Some(connection), Some(oauth)) = (&mut server.connection, &mut self.oauth)
            && let Some(authorization) = oauth.authorization(&server.name, entry, self.now)
        {
            connection.set_oauth(authorization);
        }
    }

    #[cfg(not(feature = "oauth"))]
    pub(super) const fn join_authorization(&mut self, _: SessionHandle) {}

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
    pub(super) fn takes_calls(&self, handle: SessionHandle) -> bool {
        self.servers.get(&handle).is_some_and(|server| !refuses(server.state, Input::Called))
    }

    /// Whether saved lists of a server may be restored.
    pub(in super::super) fn may_restore(&self, handle: SessionHandle) -> bool {
        self.servers.get(&handle).is_some_and(|server| !refuses(server.state, Input::Restored))
    }
}
