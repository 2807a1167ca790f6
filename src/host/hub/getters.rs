//! What is known of a hub.

use alloc::vec::Vec;

use serde_json::value::RawValue;

use super::Hub;
use super::connection::Connection;
use super::event::SessionHandle;
use super::route::Router;
use super::server::Server;
use crate::Time;
use crate::client::{Engine, Failure};
use crate::host::config::{Configuration, Entry};
use crate::host::inspection::{Notice, inspect};
use crate::host::names::Names;
use crate::host::results::Bounded;
use crate::host::toolset::{self, Choice, Function, Toolset};
use crate::machine::approval::{self, Approval, Hint, Trust};
use crate::machine::hub;
use crate::machine::hub_server::State;

/// The state of a configured server.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ServerReport<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its entry.
    pub entry: &'a Entry,
    /// The handle of its session; `None` if it is disabled.
    pub handle: Option<SessionHandle>,
    /// The state of its session; `None` if it is disabled.
    pub state: Option<State>,
    /// When its lists were saved, in seconds since 1970, while saved lists are used.
    pub stands_in: Option<u64>,
    /// Until when calls to it are refused, because calls failed.
    pub refused_until: Option<Time>,
    /// Its last failure, while it is not up.
    pub failure: Option<&'a Failure>,
    /// Its session, if there is one.
    pub session: Option<&'a Engine>,
    /// Instructions of the server's author to the model.
    pub instructions: Option<&'a str>,
}

impl Hub {
    /// Whether every session is closed, every action was polled, and no credentials are being refreshed or stored. A loop
    /// that ends before may lose a refresh token.
    pub fn is_closed(&self) -> bool {
        let router = &self.router;
        let is_authorizing = |handle: &SessionHandle| {
            let connection = router.servers.get(handle).and_then(|server| server.connection.as_ref());
            connection.is_some_and(Connection::is_authorizing)
        };
        router.state == hub::State::Closed
            && router.queue.is_empty()
            && !router.servers.handles().iter().any(is_authorizing)
    }

    /// The configured servers, disabled ones included, sorted by name.
    pub fn servers(&self) -> impl Iterator<Item = ServerReport<'_>> {
        self.router.configuration.servers.iter().map(|(name, entry)| {
            let handle = self.router.current.get(&**name).copied();
            let server = self.router.server(name);
            ServerReport {
                name,
                entry,
                handle,
                state: server.map(|server| server.state),
                refused_until: server.and_then(|server| server.breaker.refused_until()),
                stands_in: server.and_then(Server::saved_at),
                failure: server.filter(|server| server.state != State::Up).and_then(|server| server.failure.as_ref()),
                session: server.and_then(Server::session),
                instructions: server.and_then(|server| server.offer.as_ref()?.content.instructions.as_deref()),
            }
        })
    }

    /// The required servers that were not up yet, until [`HubEvent::Ready`](super::HubEvent::Ready) is reported:
    /// starting, failed, disabled or not configured.
    pub fn missing(&self) -> impl Iterator<Item = &str> {
        self.router.missing.iter().flatten().map(|server| &**server)
    }

    /// The current configuration.
    pub const fn configuration(&self) -> &Configuration {
        &self.router.configuration
    }

    /// The server of a session.
    pub fn server(&self, session: SessionHandle) -> Option<&str> {
        self.router.servers.get(&session).map(|server| &*server.name)
    }

    /// The entry of a session: the command to start, the headers to send.
    pub fn entry(&self, session: SessionHandle) -> Option<&Entry> {
        let server = self.router.servers.get(&session)?;
        server.former_entry.as_deref().or_else(|| self.router.configuration.servers.get(&*server.name))
    }

    /// A session, for its getters.
    pub fn session(&self, session: SessionHandle) -> Option<&Engine> {
        self.router.servers.get(&session)?.session()
    }

    /// The handle of a server's current session.
    pub fn handle(&self, server: &str) -> Option<SessionHandle> {
        self.router.current.get(server).copied()
    }

    /// The functions for a model, with the names of their servers, sorted by server: its tools in the server's order,
    /// then the utility tools.
    pub fn functions(&self) -> impl Iterator<Item = (&str, Function<'_>)> {
        self.router.current.keys().flat_map(|server| {
            let toolset = self.toolset(server);
            let functions = toolset.map(|toolset| toolset.into_functions(&self.router.names)).into_iter().flatten();
            functions.map(move |function| (&**server, function))
        })
    }

    /// Whether a user should approve a call of this function, by its exposed name; `None` if there is no such function.
    /// See [`Engine::approval`]. Utility tools need no approval.
    pub fn approval(&self, function: &str) -> Option<Approval> {
        let router = &self.router;
        let resolved = router.names.resolve(function)?;
        let server = router.server(resolved.server)?;
        let offer = server.offer.as_ref()?;
        if !offer.chosen.has(resolved.target) {
            return None;
        }
        let read_only = match resolved.target.utility() {
            Some(_) => return Some(Approval::NotNeeded),
            None => offer.content.catalog.tool(resolved.target.name())?.hints.read_only == Some(true),
        };
        let options = router.options.own.get(&*server.name).unwrap_or(&router.options.session);
        let entry = router.configuration.servers.get(&*server.name)?;
        let trust = if entry.trust.unwrap_or(options.trust) { Trust::Trusted } else { Trust::Untrusted };
        Some(approval::take(trust, if read_only { Hint::ReadOnly } else { Hint::Other }))
    }

    /// The functions of a server; `None` if it has none, or its lists are not known.
    pub fn toolset(&self, server: &str) -> Option<Toolset<'_>> {
        let Server { name, offer, .. } = self.router.server(server)?;
        let offer = offer.as_ref()?;
        let tools = offer.content.catalog.tools().filter(|tool| offer.chosen.has_tool(tool.name));
        let tools: Vec<_> = tools.map(|tool| offer.chosen.overridden(tool)).collect();
        let utilities: Vec<_> = offer.chosen.utilities().collect();
        (!tools.is_empty() || !utilities.is_empty()).then_some(Toolset { server: name, tools, utilities })
    }

    /// The tools of a server that were chosen, the ones left out with the reason, and texts that try to instruct the
    /// model; `None` if its lists are not known.
    pub fn choice(&self, server: &str) -> Option<Choice<'_>> {
        let Server { name, offer, .. } = self.router.server(server)?;
        let Router { configuration, names, options, .. } = &self.router;
        let policy = &configuration.servers.get(&**name)?.tools;
        Some(toolset::choose(name, policy, offer.as_ref()?.content.view(), options.suspicion).named(names))
    }

    /// The texts of a server besides its tools that try to instruct the model or have invisible characters: its
    /// instructions, prompts, resources and resource templates ([`inspect`]). `None` if its lists are not known.
    pub fn notices(&self, server: &str) -> Option<Vec<Notice<'_>>> {
        let Server { name, offer, .. } = self.router.server(server)?;
        let content = &offer.as_ref()?.content;
        Some(inspect(name, &content.catalog, content.instructions.as_deref()))
    }

    /// The result of a call within the bound of the server's entry ([`ToolPolicy::bound`]); unchanged if there is none.
    ///
    /// [`ToolPolicy::bound`]: crate::host::config::ToolPolicy::bound
    pub fn bounded<'a>(&self, server: &str, result: &'a RawValue) -> Bounded<'a> {
        let entry = self.router.configuration.servers.get(server);
        entry.map_or(Bounded::whole(result), |entry| entry.tools.bound(result))
    }

    /// The exposed names of all tools, and what they stand for. They stay after the hub is closed, to be saved for a
    /// later run.
    pub const fn names(&self) -> &Names {
        &self.router.names
    }
}
