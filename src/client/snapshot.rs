//! Saves a client, and restores it (feature `snapshot`).

use alloc::sync::Arc;
use serde::{Deserialize, Serialize};

use super::core::Core;
use super::freshness::Freshness;
use super::handshake::Handshake;
use super::keepalive::Keepalive;
use super::link::Link;
use super::lists::Lists;
use super::notifications::Notifications;
use super::server_requests::ServerRequests;
use super::subscriptions::Subscriptions;
use super::{Binding, Client, Engine, Options, Persist, Wire};
use crate::protocol::Family;
use crate::snapshot::{Moved, Secrets, Snapshot, SnapshotError, within};

impl<B: Binding> Client<B> {
    /// Saves the client: its requests, deadlines, lists, and actions that were not polled (feature `snapshot`). It
    /// reads the whole state, the lists included.
    ///
    /// Save after polling a message and before sending it: then each request that was sent is known to be.
    pub fn snapshot(&self, secrets: Secrets) -> Snapshot {
        match secrets {
            Secrets::Included => Snapshot::seal(B::KIND, self.engine.now(), secrets, &self.saved(secrets)),
            Secrets::Excluded => {
                let mut client = self.clone();
                client.forget_secrets();
                Snapshot::seal(B::KIND, client.engine.now(), secrets, &client.saved(secrets))
            }
        }
    }

    /// Restores a client (feature `snapshot`), with the options and the binding that it was created with, or with
    /// higher limits. Inputs and commands have times from [`Snapshot::time`] on.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn from_snapshot(
        binding: B,
        options: impl Into<Arc<Options>>,
        snapshot: &Snapshot,
        moved: Moved,
    ) -> Result<Self, SnapshotError> {
        let options = options.into();
        let state = snapshot.open(B::KIND, options.limits.message.depth)?;
        let with_transport = moved == Moved::WithTransport;
        if with_transport && snapshot.secrets() == Secrets::Excluded && B::WIRE == Wire::Http {
            return Err(SnapshotError::NoSecrets);
        }
        Self::restored(binding, options, None, state, snapshot.secrets(), moved)
    }

    pub(crate) fn saved(&self, secrets: Secrets) -> impl Serialize {
        (self.engine.state(), self.binding.state(secrets))
    }

    /// As [`from_snapshot`](Self::from_snapshot), with options that are shared with other clients if `server` is set.
    pub(crate) fn restored(
        binding: B,
        options: Arc<Options>,
        server: Option<Arc<str>>,
        (state, binding_state): (EngineState, B::State),
        secrets: Secrets,
        moved: Moved,
    ) -> Result<Self, SnapshotError> {
        let mut engine = Engine::restore(state, options, server, B::WIRE)?;
        let binding = binding.restore(&mut engine, binding_state)?;
        let mut client = Self { engine, binding };
        if moved == Moved::WithoutTransport {
            client.lose_transport(secrets);
        }
        Ok(client)
    }

    pub(crate) fn forget_secrets(&mut self) {
        self.binding.forget_secrets(&mut self.engine);
    }

    /// The session moved without its transport.
    pub(crate) fn lose_transport(&mut self, secrets: Secrets) {
        self.binding.lose_transport(&mut self.engine, secrets);
        self.binding.settle(&mut self.engine);
    }
}

/// What is saved of a client.
pub(crate) type ClientState<B> = (EngineState, <B as Persist>::State);

/// What is saved of an engine: its components.
#[derive(Deserialize)]
pub(crate) struct EngineState(
    Core,
    Link,
    Handshake,
    Lists,
    Keepalive,
    Freshness,
    Subscriptions,
    ServerRequests,
    Notifications,
);

impl Engine {
    fn state(&self) -> impl Serialize {
        let Self { core, link, handshake, lists, keepalive, freshness, subscriptions, server_requests, notifications } =
            self;
        (core, link, handshake, lists, keepalive, freshness, subscriptions, server_requests, notifications)
    }

    fn restore(
        state: EngineState,
        options: Arc<Options>,
        server: Option<Arc<str>>,
        wire: Wire,
    ) -> Result<Self, SnapshotError> {
        let EngineState(
            mut core,
            link,
            handshake,
            lists,
            keepalive,
            freshness,
            subscriptions,
            server_requests,
            notifications,
        ) = state;
        core.give_options(options, server, wire);
        let limits = &core.options.limits;
        core.requests.check(limits)?;
        core.outbox.check()?;
        lists.check(limits)?;
        server_requests.check(limits)?;
        notifications.check(limits)?;
        within("quirks", core.quirks.as_slice().len(), limits.quirks)?;
        within("server_requests", core.url_elicitations.len(), limits.server_requests)?;
        within("subscriptions", subscriptions.resources().count(), limits.subscriptions)?;
        for family in Family::EACH {
            core.catalog.list(family).check(limits.items, limits.list_bytes)?;
        }
        let mut engine =
            Self { core, link, handshake, lists, keepalive, freshness, subscriptions, server_requests, notifications };
        engine.core.timers.recount();
        engine.server_requests.publish(&mut engine.core);
        Ok(engine)
    }

    /// The session moved without its transport: what was sent may have run.
    pub(crate) fn lose_transport(&mut self) {
        let signals = self.link.on_moved(&mut self.core);
        self.act(signals);
    }
}
