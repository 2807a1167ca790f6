use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::ops::Deref;

#[cfg(feature = "http")]
use crate::binding::http::{Http, HttpAction};
use crate::client::{Action, Client, Engine, Failure, FailureKind, KnownEra, Options, Wire};
use crate::host::config::{Endpoint, Entry};
use crate::{Lines, Time};

/// A session over the transport that its server has.
#[derive(Clone, Debug)]
pub(super) enum Connection {
    Lines(Box<Client<Lines>>),
    #[cfg(feature = "http")]
    Http(Box<Client<Http>>),
}

/// What such a session wants done.
pub(super) enum Wish {
    Lines(Action),
    #[cfg(feature = "http")]
    Http(HttpAction),
}

/// Where a server is.
pub(super) enum Place {
    Process,
    #[cfg(feature = "http")]
    Address(http::Uri),
}

impl Place {
    pub(super) fn of(server: &str, entry: &Entry) -> Result<Self, Failure> {
        let Endpoint::Http(endpoint) = &entry.endpoint else { return Ok(Self::Process) };
        Self::address(&endpoint.url).map_err(|why| {
            // The address itself may hold a secret.
            let message = format!("{server} cannot be reached: {why}");
            Failure { kind: FailureKind::Connect, message: message.into() }
        })
    }

    /// A client of the server there, not open yet.
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
            Self::Address(url) => Connection::Http(Box::new(Client::over(Http::new(url), engine(Wire::Http)))),
        }
    }

    #[cfg(feature = "http")]
    fn address(url: &str) -> Result<Self, String> {
        let wanted = "one is as `https://example.com/mcp`";
        let url: http::Uri = url.parse().map_err(|why| format!("its `url` is no address ({why}); {wanted}"))?;
        match (url.scheme_str(), url.host()) {
            (Some("http" | "https"), Some(_)) => Ok(Self::Address(url)),
            (None, _) => Err(format!("its `url` does not begin with `http://` or `https://`; {wanted}")),
            (Some(scheme), _) => Err(format!("its `url` begins with `{scheme}`, which is not HTTP; {wanted}")),
        }
    }

    #[cfg(not(feature = "http"))]
    fn address(_: &str) -> Result<Self, String> {
        Err("it has a `url`, and this program is built without HTTP".into())
    }
}

impl Connection {
    pub(super) fn poll(&mut self) -> Option<Wish> {
        match self {
            Self::Lines(session) => session.poll().map(Wish::Lines),
            #[cfg(feature = "http")]
            Self::Http(session) => session.poll().map(Wish::Http),
        }
    }

    /// Runs a command.
    pub(super) fn command<T>(&mut self, command: impl FnOnce(&mut Engine) -> T) -> T {
        match self {
            Self::Lines(client) => client.command(command),
            #[cfg(feature = "http")]
            Self::Http(client) => client.command(command),
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        match self {
            Self::Lines(session) => session.deadline(),
            #[cfg(feature = "http")]
            Self::Http(session) => session.deadline(),
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        match self {
            Self::Lines(session) => session.handle_timeout(now),
            #[cfg(feature = "http")]
            Self::Http(session) => session.handle_timeout(now),
        }
    }
}

impl Deref for Connection {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        match self {
            Self::Lines(client) => client,
            #[cfg(feature = "http")]
            Self::Http(client) => client,
        }
    }
}
