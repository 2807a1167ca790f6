//! Saves a hub, and restores it (feature `snapshot`).

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use super::Hub;
use super::connection::{Connection, SavedConnection};
use super::event::{HubOptions, SessionHandle};
use super::queue::{Pending, Queue};
use super::router::Starts;
use super::server::{CallBreaker, Content, Lifetime, Offer, Origin, Server, Servers};
use crate::Time;
use crate::catalog::Catalog;
use crate::client::{Failure, FamilyStatus, KnownEra, RequestId};
use crate::collections::{ByName, LeastMap, hash};
use crate::host::Utility;
use crate::host::config::{Configuration, ToolPolicy};
use crate::host::names::{Names, Target};
use crate::machine::hub::{server, whole};
use crate::protocol::{Family, PerFamily};
use crate::snapshot::{Moved, Secrets, Snapshot, SnapshotError, invalid};

const KIND: &str = "hub";

/// What is saved of a hub: all but its options, its configuration and what its servers share.
#[derive(Serialize, Deserialize)]
struct State<Slots> {
    fields: Fields,
    slots: Slots,
    free: Vec<u32>,
    admissions: u32,
}

#[derive(Serialize, Deserialize)]
struct Fields {
    seed: u64,
    now: Time,
    names: Names,
    state: whole::State,
    current: BTreeMap<Arc<str>, SessionHandle>,
    over: usize,
    last_list_call: u64,
    starts: Starts,
    missing: Option<BTreeSet<Box<str>>>,
    queue: Queue,
}

/// What is saved of a server.
#[derive(Serialize, Deserialize)]
struct SavedServer<Session, Entries> {
    name: Arc<str>,
    state: server::State,
    connection: Option<Session>,
    /// A configuration with this entry alone.
    former_entry: Option<Entries>,
    breaker: CallBreaker,
    lifetime: Option<Box<Lifetime>>,
    calls: LeastMap<RequestId, Target>,
    list_calls: Vec<(u64, Utility)>,
    offer: Option<SavedOffer>,
    known_era: Option<KnownEra>,
    failure: Option<Failure>,
    pending: Pending,
}

/// A server that is being restored.
type SavedSlot = SavedServer<SavedConnection, Configuration>;
type Slot = Option<(SessionHandle, SavedSlot)>;

/// What is saved of a server's lists.
#[derive(Serialize, Deserialize)]
struct SavedOffer {
    /// `None` if they are those of the session.
    #[serde(with = "crate::catalog::form::optional_catalog")]
    catalog: Option<Catalog>,
    families: PerFamily<FamilyStatus>,
    instructions: Option<Box<str>>,
    saved: Option<Box<Origin>>,
    /// The hash of the filters by which its functions are chosen.
    filters: u64,
}

impl SavedOffer {
    fn of(content: &Content, connection: Option<&Connection>, filters: u64) -> Self {
        let of_session = connection.is_some_and(|session| content.is_of(session));
        let Content { catalog, families, instructions, saved } = content.clone();
        Self { catalog: (!of_session).then_some(catalog), families, instructions, saved, filters }
    }
}

impl Hub {
    /// Saves the hub with its sessions (feature `snapshot`), as [`Client::snapshot`](crate::Client::snapshot) does. With
    /// [`Secrets::Included`], it contains the entries of sessions that are being closed, if the configuration does not
    /// have them any more.
    pub fn snapshot(&self, secrets: Secrets) -> Snapshot {
        match secrets {
            Secrets::Included => self.seal(secrets),
            Secrets::Excluded => {
                let mut hub = self.clone();
                // What follows is processed by the hub that is restored, which may start other servers.
                for handle in hub.servers.handles() {
                    if let Some(connection) = &mut hub.servers.at_mut(handle).connection {
                        connection.forget_secrets();
                    }
                }
                hub.seal(secrets)
            }
        }
    }

    fn seal(&self, secrets: Secrets) -> Snapshot {
        let (slots, free, admissions) = self.servers.parts();
        let slots =
            slots.iter().map(|slot| slot.as_ref().map(|(handle, server)| (*handle, self.saved(server, secrets))));
        let fields = Fields {
            seed: self.seed,
            now: self.now,
            names: self.names.clone(),
            state: self.state,
            current: self.current.iter().map(|(name, handle)| (Arc::clone(name), *handle)).collect(),
            over: self.over,
            last_list_call: self.last_list_call,
            starts: self.starts.clone(),
            missing: self.missing.clone(),
            queue: self.queue.clone(),
        };
        let state = State { fields, slots: slots.collect::<Vec<_>>(), free: free.to_vec(), admissions };
        Snapshot::seal(KIND, self.now, secrets, &state)
    }

    /// Restores a hub (feature `snapshot`), with the options that it was created with and its configuration, as
    /// [`Client::from_snapshot`](crate::Client::from_snapshot) does. The names in the options do not count. Secrets in
    /// entries may have changed; for other changes, call [`configure`](Self::configure) after it.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn from_snapshot(
        options: HubOptions,
        configuration: Configuration,
        snapshot: &Snapshot,
        moved: Moved,
    ) -> Result<Self, SnapshotError> {
        let state: State<Vec<Slot>> = snapshot.open(KIND, options.session.limits.message.depth)?;
        let secrets = snapshot.secrets();
        if moved == Moved::WithTransport && secrets == Secrets::Excluded {
            return Err(SnapshotError::NoSecrets);
        }
        let State { fields, slots, free, admissions } = state;
        let mut hub = Self::new(options, fields.seed);
        hub.configuration = configuration;
        let contradiction = || invalid("its servers contradict each other");
        let restored = slots.into_iter().map(|slot| {
            let Some((handle, saved)) = slot else { return Ok(None) };
            if !saved.state.is_possible() {
                return Err(contradiction());
            }
            let is_current = fields.current.get(&saved.name) == Some(&handle);
            let server = hub.restore_server(saved, is_current, secrets)?;
            Ok(Some((handle, Box::new(server))))
        });
        let slots = restored.collect::<Result<_, _>>()?;
        hub.servers = Servers::from_parts(slots, free, admissions).ok_or_else(contradiction)?;
        let Fields { seed: _, now, names, state, current, over, last_list_call, starts, missing, queue } = fields;
        if current.iter().any(|(name, handle)| hub.servers.get(handle).is_some_and(|server| server.name != *name)) {
            return Err(contradiction());
        }
        let is_open = !matches!(state, whole::State::Closing | whole::State::Closed);
        let mut entries = hub.configuration.servers.iter();
        if let Some((name, _)) =
            entries.find(|(name, entry)| is_open && entry.enabled != current.contains_key(&***name))
        {
            return Err(SnapshotError::Configuration { server: name.clone() });
        }
        let mut by_name = ByName::new();
        current.into_iter().for_each(|(name, handle)| by_name.insert(name, handle));
        let current = by_name;
        queue.check(|handle| hub.servers.get(handle).map(|server| &server.pending))?;
        hub = Self { now, names, state, current, over, last_list_call, starts, missing, queue, ..hub };
        hub.name_servers();
        if moved == Moved::WithoutTransport {
            hub.lose_transports(secrets);
        }
        Ok(hub)
    }
    /// The hash of the filters of a server's entry.
    fn filters(&self, server: &str) -> u64 {
        self.configuration.servers.get(server).map_or(0, |entry| hash(entry.tools.text().as_bytes()))
    }

    /// What is saved of a server.
    fn saved(&self, server: &Server, secrets: Secrets) -> impl Serialize {
        let Server {
            name,
            state,
            connection,
            former_entry,
            breaker,
            lifetime,
            calls,
            list_calls,
            offer,
            known_era,
            failure,
            pending,
        } = server;
        let (connection, filters) = (connection.as_ref(), self.filters(name));
        let former_entry = former_entry.as_ref().filter(|_| secrets == Secrets::Included);
        SavedServer {
            name: Arc::clone(name),
            state: *state,
            connection: connection.map(|connection| connection.saved(secrets)),
            former_entry: former_entry.map(|entry| BTreeMap::from([(Arc::clone(name), (**entry).clone())])),
            breaker: *breaker,
            lifetime: lifetime.clone(),
            calls: calls.clone(),
            list_calls: list_calls.clone(),
            offer: offer.as_ref().map(|offer| SavedOffer::of(&offer.content, connection, filters)),
            known_era: *known_era,
            failure: failure.clone(),
            pending: *pending,
        }
    }

    /// Restores a server. A current one has its entry in the configuration.
    fn restore_server(
        &mut self,
        saved: SavedSlot,
        is_current: bool,
        secrets: Secrets,
    ) -> Result<Server, SnapshotError> {
        let SavedServer {
            name,
            state,
            connection,
            former_entry,
            breaker,
            lifetime,
            calls,
            list_calls,
            offer,
            known_era,
            failure,
            pending,
        } = saved;
        let former_entry = former_entry.and_then(|former| former.servers.into_values().next()).map(Box::new);
        let configured = self.configuration.servers.get(&*name);
        let other = || SnapshotError::Configuration { server: (&*name).into() };
        let entry = former_entry.as_deref().or(configured);
        let entry = entry.filter(|entry| connection.as_ref().is_none_or(|session| session.is_of(entry)));
        if is_current && entry.is_none() {
            return Err(other());
        }
        let options = match (self.options.own.get(&*name), entry) {
            (Some(own), Some(entry)) => Arc::new(entry.options(&name, own.clone())),
            (None, Some(entry)) => self.sharing.options(entry, &self.options.session),
            (_, None) => Arc::new(self.options.session.clone()),
        };
        let restored = connection.map(|saved| saved.restore(entry, options, &name, secrets));
        let mut connection = restored.transpose()?;
        let filters = self.filters(&name);
        let offer = match offer {
            None => None,
            Some(offer) if is_current && offer.filters != filters => return Err(other()),
            Some(SavedOffer { catalog, families, instructions, saved, filters: _ }) => {
                let of_session = catalog.is_none();
                let mut catalog = match (catalog, &connection) {
                    (Some(catalog), _) => catalog,
                    (None, Some(session)) => session.catalog().clone(),
                    (None, None) => return Err(invalid("a server has the lists of a session that it does not have")),
                };
                for family in Family::EACH {
                    let Some(list) = catalog.held(family).map(Arc::clone) else { continue };
                    let shared = self.sharing.list(family, list);
                    catalog.share(family, Arc::clone(&shared));
                    if let (true, Some(session)) = (of_session, &mut connection) {
                        session.run(|engine| engine.share_list(family, shared));
                    }
                }
                let content = Content { catalog, families, instructions, saved };
                let no_policy = ToolPolicy::default();
                let policy = self.configuration.servers.get(&*name).map_or(&no_policy, |entry| &entry.tools);
                let tools = (content.catalog.held(Family::Tools), content.view(&self.options));
                let chosen = self.sharing.choose(&name, policy, self.options.suspicion, tools);
                Some(Offer { content, chosen })
            }
        };
        Ok(Server {
            name,
            state,
            connection,
            former_entry,
            breaker,
            lifetime,
            calls,
            list_calls,
            offer,
            known_era,
            failure,
            pending,
        })
    }

    /// The sessions moved without their transports, which is an input to each.
    fn lose_transports(&mut self, secrets: Secrets) {
        for handle in self.servers.handles() {
            let server = self.servers.at_mut(handle);
            if let Some(connection) = &mut server.connection {
                connection.lose_transport(secrets);
                server.note_contact();
                self.queue.touch(handle, &mut server.pending);
            }
        }
        self.settle();
    }
}
