//! The session of one server, over the transport of its entry.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::ops::Deref;

use super::event::{HubAction, HubEvent, SessionHandle};
#[cfg(feature = "http")]
use crate::binding::http::{Http, HttpAction};
#[cfg(feature = "oauth")]
use crate::binding::oauth::{Authorization, BrowserUse};
#[cfg(feature = "snapshot")]
use crate::client::ClientState;
use crate::client::{Action, Client, Engine, Event, Failure, FailureKind, KnownEra, Operate, Options, Output, Wire};
use crate::host::config::{Endpoint, Entry};
#[cfg(feature = "snapshot")]
use crate::snapshot::{Moved, Secrets, SnapshotError};
use crate::{Lines, Time};

/// A session, over the transport of its entry.
#[derive(Clone, Debug)]
pub(super) enum Connection {
    Lines(Box<Client<Lines>>),
    #[cfg(feature = "http")]
    Http(Box<Client<Http>>),
}

/// Does the same for a session over any transport.
macro_rules! any {
    ($connection:expr, $session:ident => $result:expr) => {
        match $connection {
            Connection::Lines($session) => $result,
            #[cfg(feature = "http")]
            Connection::Http($session) => $result,
        }
    };
}

/// The transport of a server's entry.
pub(super) enum Place {
    Process,
    #[cfg(feature = "http")]
    Address {
        url: http::Uri,
        /// Whether it is first tried with the older transport.
        is_sse: bool,
    },
}

impl Place {
    pub(super) fn of(server: &str, entry: &Entry) -> Result<Self, Failure> {
        let Endpoint::Http(endpoint) = &entry.endpoint else { return Ok(Self::Process) };
        Self::address(&endpoint.url, endpoint.sse).map_err(|why| {
            // The address may contain a secret.
            let message = format!("{server} cannot be reached: {why}");
            Failure { kind: FailureKind::Connect, message: message.into() }
        })
    }

    /// Creates the client, which is not open yet.
    pub(super) fn connect(
        self,
        options: &Arc<Options>,
        server: Arc<str>,
        seed: u64,
        known_era: Option<KnownEra>,
    ) -> Connection {
        let engine = |wire| Engine::with_shared(options, server, wire, seed, known_era);
        match self {
            Self::Process => Connection::Lines(Box::new(Client::over(Lines::new(), engine(Wire::Pipe)))),
            #[cfg(feature = "http")]
            Self::Address { url, is_sse } => {
                Connection::Http(Box::new(Client::over(Http::at(url).trying_sse(is_sse), engine(Wire::Http))))
            }
        }
    }

    #[cfg(feature = "http")]
    fn address(url: &str, is_sse: bool) -> Result<Self, String> {
        let url = crate::binding::http::parse(url);
        url.map(|url| Self::Address { url, is_sse })
            .map_err(|why| format!("its `url` is invalid: {why}. An example is `https://example.com/mcp`."))
    }

    #[cfg(not(feature = "http"))]
    fn address(_: &str, _: bool) -> Result<Self, String> {
        Err("it has a `url`, and this program is built without HTTP".into())
    }
}

/// The last output in a session's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tail {
    /// The queue is empty.
    Empty,
    /// An event.
    Event,
    /// Another output.
    Action,
}

impl Connection {
    /// The first event of the session after this many.
    pub(super) fn event_after(&self, processed: u64) -> Option<&Event> {
        let before = usize::try_from(self.events().checked_sub(processed)?.checked_sub(1)?).ok()?;
        let events = self.pending().rev().filter_map(|output| match output {
            Output::Event(event) => Some(event),
            Output::Open(_)
            | Output::Send(_)
            | Output::Abort(_)
            | Output::Shutdown(_)
            | Output::Start(_)
            | Output::Drop(_) => None,
        });
        events.into_iter().nth(before)
    }

    pub(super) fn tail(&self) -> Tail {
        if any!(self, session => session.binding.has_action()) {
            return Tail::Action;
        }
        match self.pending().next_back() {
            None => Tail::Empty,
            Some(Output::Event(_)) => Tail::Event,
            Some(_) => Tail::Action,
        }
    }

    /// Whether the next output is an event.
    pub(super) fn is_event_next(&self) -> bool {
        matches!(self.pending().next(), Some(Output::Event(_)))
    }

    /// Takes the next output of the session; `session` is its handle, and `report` is what the embedder gets of an event.
    pub(super) fn poll(&mut self, session: SessionHandle, report: impl FnOnce(Event) -> HubEvent) -> Option<HubAction> {
        Some(match self {
            Self::Lines(it) => match it.poll()? {
                Action::Open(connection) => HubAction::Open { session, connection },
                Action::Send(message) => HubAction::Send { session, message },
                Action::Shutdown(how) => HubAction::Shutdown { session, how },
                Action::Event(event) => HubAction::Event(report(event)),
            },
            #[cfg(feature = "http")]
            Self::Http(it) => match it.poll()? {
                HttpAction::Request(request) => HubAction::Request { session, request: Box::new(request) },
                HttpAction::Drop(exchange) => HubAction::Drop { session, exchange },
                HttpAction::Event(event) => HubAction::Event(report(event)),
                #[cfg(feature = "oauth")]
                HttpAction::OAuth(action) => HubAction::OAuth { session, action: Box::new(action) },
            },
        })
    }

    /// Runs a command.
    pub(super) fn run<T>(&mut self, command: impl FnOnce(&mut Engine) -> T) -> T {
        any!(self, client => client.run(command))
    }

    /// Whether credentials are being refreshed or stored, which is completed even if the session is closed.
    pub(super) fn is_authorizing(&self) -> bool {
        any!(self, session => session.binding.is_authorizing())
    }

    /// The next deadline, whatever waits to be polled.
    pub(super) fn next_timer(&self) -> Option<Time> {
        any!(self, session => session.next_timer())
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        any!(self, session => session.handle_timeout(now))
    }
}

#[cfg(feature = "oauth")]
impl Connection {
    /// From now on the session authorizes itself.
    pub(super) fn set_oauth(&mut self, authorization: Authorization) {
        match self {
            Self::Lines(_) => {}
            Self::Http(session) => session.binding.set_oauth(authorization),
        }
    }

    /// What its authorization requires the user's browser for.
    pub(super) fn browser(&self) -> BrowserUse {
        match self {
            Self::Lines(_) => BrowserUse::Unused,
            Self::Http(session) => session.binding.oauth().map_or(BrowserUse::Unused, Authorization::browser),
        }
    }

    /// The user's browser is free for its authorization.
    pub(super) fn show_browser(&mut self, now: Time) {
        match self {
            Self::Lines(_) => {}
            Self::Http(session) => session.binding.show_browser(now),
        }
    }
}

/// What is saved of a session.
#[cfg(feature = "snapshot")]
#[derive(serde::Deserialize)]
#[cfg_attr(
    feature = "http",
    expect(clippy::large_enum_variant, reason = "it exists only while a hub is saved or restored")
)]
pub(super) enum SavedConnection {
    Lines(ClientState<Lines>),
    #[cfg(feature = "http")]
    Http(ClientState<Http>),
}

/// A session that is being saved.
#[cfg(feature = "snapshot")]
#[derive(serde::Serialize)]
enum Saving<L, #[cfg(feature = "http")] H> {
    Lines(L),
    #[cfg(feature = "http")]
    Http(H),
}

#[cfg(feature = "snapshot")]
impl SavedConnection {
    /// Whether the session is over the transport of this entry.
    pub(super) const fn is_of(&self, entry: &Entry) -> bool {
        match (self, &entry.endpoint) {
            (Self::Lines(_), Endpoint::Stdio(_)) => true,
            #[cfg(feature = "http")]
            (Self::Http(_), Endpoint::Http(_)) => true,
            (Self::Lines(_), Endpoint::Http(_)) => false,
            #[cfg(feature = "http")]
            (Self::Http(_), Endpoint::Stdio(_)) => false,
        }
    }

    /// Restores the session of an entry, which may be unknown if the session lost its transport.
    #[cfg_attr(not(feature = "http"), expect(unused_variables, reason = "only a session over HTTP needs the entry"))]
    pub(super) fn restore(
        self,
        entry: Option<&Entry>,
        options: Arc<Options>,
        server: &Arc<str>,
        secrets: Secrets,
    ) -> Result<Connection, SnapshotError> {
        let (name, moved) = (Some(Arc::clone(server)), Moved::WithTransport);
        match self {
            Self::Lines(state) => Client::restored(Lines::new(), options, name, state, secrets, moved)
                .map(|client| Connection::Lines(Box::new(client))),
            #[cfg(feature = "http")]
            Self::Http(state) => {
                let place = entry.map(|entry| Place::of(server, entry));
                let url = if let Some(Ok(Place::Address { url, .. })) = place { url } else { http::Uri::default() };
                Client::restored(Http::at(url), options, name, state, secrets, moved)
                    .map(|client| Connection::Http(Box::new(client)))
            }
        }
    }
}

#[cfg(feature = "snapshot")]
impl Connection {
    /// What is saved, serialized as [`SavedConnection`].
    pub(super) fn saved(&self, secrets: Secrets) -> impl serde::Serialize {
        match self {
            Self::Lines(session) => Saving::Lines(session.saved(secrets)),
            #[cfg(feature = "http")]
            Self::Http(session) => Saving::Http(session.saved(secrets)),
        }
    }

    /// Drops the secrets, and with them the transport.
    pub(super) fn forget_secrets(&mut self) {
        any!(self, session => session.forget_secrets())
    }

    /// The session moved without its transport.
    pub(super) fn lose_transport(&mut self, secrets: Secrets) {
        any!(self, session => session.lose_transport(secrets))
    }
}

impl Deref for Connection {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        any!(self, client => client)
    }
}
