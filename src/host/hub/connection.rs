//! The session of one server, over the transport of its entry.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::ops::Deref;

use super::event::{HubAction, SessionHandle};
#[cfg(feature = "http")]
use crate::binding::http::{Http, HttpAction};
use crate::client::{Action, Client, Engine, Event, Failure, FailureKind, KnownEra, Options, Output, Wire};
use crate::host::config::{Endpoint, Entry};
use crate::{Lines, Time};

/// A session, over the transport of its entry.
#[derive(Clone, Debug)]
pub(super) enum Connection {
    Lines(Box<Client<Lines>>),
    #[cfg(feature = "http")]
    Http(Box<Client<Http>>),
}

/// An output of a session.
pub(super) enum Wish {
    Event(Event),
    Action(HubAction),
}

/// The transport of a server's entry.
pub(super) enum Place {
    Process,
    #[cfg(feature = "http")]
    Address(http::Uri),
}

impl Place {
    pub(super) fn of(server: &str, entry: &Entry) -> Result<Self, Failure> {
        let Endpoint::Http(endpoint) = &entry.endpoint else { return Ok(Self::Process) };
        Self::address(&endpoint.url).map_err(|why| {
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

/// The last output in a session's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tail {
    /// The queue is empty.
    Empty,
    /// An event.
    Event,
    /// Something else.
    Rest,
}

impl Connection {
    /// The first event of the session after this many.
    pub(super) fn event_after(&self, heard: u64) -> Option<&Event> {
        let before = usize::try_from(self.events().checked_sub(heard)?.checked_sub(1)?).ok()?;
        match self {
            Self::Lines(session) => {
                let events = session.pending().rev().filter_map(|action| match action {
                    Output::Event(event) => Some(event),
                    Output::Open(_) | Output::Send(_) | Output::Abort(_) | Output::Shutdown(_) => None,
                });
                events.into_iter().nth(before)
            }
            #[cfg(feature = "http")]
            Self::Http(session) => session.binding.pending_events().nth_back(before),
        }
    }

    pub(super) fn tail(&self) -> Tail {
        match self {
            Self::Lines(session) => match session.pending().next_back() {
                None => Tail::Empty,
                Some(Output::Event(_)) => Tail::Event,
                Some(Output::Open(_) | Output::Send(_) | Output::Abort(_) | Output::Shutdown(_)) => Tail::Rest,
            },
            #[cfg(feature = "http")]
            Self::Http(session) => match session.binding.is_event_last() {
                None => Tail::Empty,
                Some(true) => Tail::Event,
                Some(false) => Tail::Rest,
            },
        }
    }

    /// Whether an event is next in the queue.
    pub(super) fn is_event_next(&self) -> bool {
        match self {
            Self::Lines(session) => matches!(session.pending().next(), Some(Output::Event(_))),
            #[cfg(feature = "http")]
            Self::Http(session) => session.binding.is_event_first(),
        }
    }

    /// Takes the next output of the session; `session` is its handle.
    pub(super) fn poll(&mut self, session: SessionHandle) -> Option<Wish> {
        Some(match self {
            Self::Lines(it) => match it.poll()? {
                Action::Open(connection) => Wish::Action(HubAction::Open { session, connection }),
                Action::Send(message) => Wish::Action(HubAction::Send { session, message }),
                Action::Shutdown(how) => Wish::Action(HubAction::Shutdown { session, how }),
                Action::Event(event) => Wish::Event(event),
            },
            #[cfg(feature = "http")]
            Self::Http(it) => match it.poll()? {
                HttpAction::Request(request) => Wish::Action(HubAction::Request { session, request }),
                HttpAction::Drop(exchange) => Wish::Action(HubAction::Drop { session, exchange }),
                HttpAction::Event(event) => Wish::Event(event),
            },
        })
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
