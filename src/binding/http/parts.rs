use http::Uri;

use super::action::ExchangeId;
use super::address::{Address, UrlError, parse};
use super::exchanges::Exchanges;
use super::get_stream::GetStream;
use super::outbox::Outbox;
use super::queue::Queue;
use super::session::Session;
use super::sse::Sse;
use super::timers::{Timer, Timers};
use super::tokens::Tokens;
use crate::client::{ConnectionId, Outgoing};
use crate::machine::{http as phase, http_initialized, http_reach};

/// Declares the parts of [`Http`], their initial values, and their saved state.
macro_rules! parts {
    ($($(#[$doc:meta])* $part:ident: $type:ty = $first:expr),* $(,)?) => {
        /// Streamable HTTP, in both eras, and HTTP+SSE.
        ///
        /// The embedder executes requests with an HTTP client that follows no redirects, and reports the results by
        /// [`handle_head`](crate::Client::<Http>::handle_head), [`handle_body`](crate::Client::<Http>::handle_body),
        /// [`handle_end`](crate::Client::<Http>::handle_end) and
        /// [`handle_failure`](crate::Client::<Http>::handle_failure). Exchanges run concurrently; a stream may last as
        /// long as the client, so no exchange has a time limit but the client's own.
        #[derive(Clone, Debug)]
        pub struct Http {
            /// Where the server is.
            pub(super) url: Address,
            $($(#[$doc])* pub(super) $part: $type,)*
            pub(super) tokens: Tokens,
        }

        impl Http {
            /// A server at this URL, which was checked.
            pub(crate) fn at(url: Uri) -> Self {
                Self { url: Address(url), $($part: $first,)* tokens: Tokens::default() }
            }
        }

        /// The saved state of the binding. Without secrets it has no URL: that of the new binding is used.
        #[cfg(feature = "snapshot")]
        #[derive(Debug, serde::Serialize, serde::Deserialize)]
        pub struct State {
            pub(super) url: Option<Address>,
            $(pub(super) $part: $type,)*
        }

        #[cfg(feature = "snapshot")]
        impl Http {
            /// The saved state, with this URL.
            pub(super) fn into_state(self, url: Option<Address>) -> State {
                State { url, $($part: self.$part,)* }
            }

            /// The binding with its saved state; a URL that was not saved is that of the binding.
            pub(super) fn with_state(self, state: State) -> Self {
                Self { url: state.url.unwrap_or(self.url), $($part: state.$part,)* tokens: self.tokens }
            }
        }
    };
}

parts! {
    /// The connection that the exchanges belong to.
    connection: ConnectionId = ConnectionId::default(),
    phase: phase::State = phase::State::Idle,
    reach: http_reach::State = http_reach::State::Reached,
    accepting: http_initialized::State = http_initialized::State::Trusted,
    /// The exchange of `notifications/initialized`.
    initialized: Option<ExchangeId> = None,
    /// `notifications/initialized`, while it waits to be sent again.
    initialized_again: Option<alloc::boxed::Box<Outgoing>> = None,
    /// The wait of tool calls for the GET stream.
    stream_wait: Option<Timer> = None,
    session: Session = Session::default(),
    sse: Sse = Sse::default(),
    get_stream: GetStream = GetStream::default(),
    exchanges: Exchanges = Exchanges::default(),
    queue: Queue = Queue::default(),
    timers: Timers = Timers::default(),
    outbox: Outbox = Outbox::default(),
}

impl Http {
    /// The server's address, without its secrets.
    #[cfg(feature = "journal")]
    pub(crate) fn redacted_url(&self) -> alloc::string::String {
        super::redact::address(&self.url)
    }

    /// A server at this URL. User information and the query are kept, and never shown.
    ///
    /// # Errors
    /// What is wrong with the URL: it has to be absolute, with the scheme `http` or `https`.
    pub fn new(url: &str) -> Result<Self, UrlError> {
        parse(url).map(Self::at)
    }

    /// A server that may require OAuth: the client authorizes itself. Its requests present the token, a request that is
    /// refused waits for a token and is sent again, and [`HttpAction::OAuth`](super::HttpAction::OAuth) is what the
    /// embedder has to do, whose results [`handle_oauth`](crate::Client::<Http>::handle_oauth) takes. The authorization
    /// has to be that of the same server.
    ///
    /// A snapshot does not contain it, so a restored client gets a new one.
    #[cfg(feature = "oauth")]
    #[must_use]
    pub fn with_oauth(mut self, authorization: crate::binding::oauth::Authorization) -> Self {
        self.tokens.set(authorization);
        self
    }

    /// From now on the client authorizes itself.
    #[cfg(feature = "oauth")]
    pub(crate) fn set_oauth(&mut self, authorization: crate::binding::oauth::Authorization) {
        self.tokens.set(authorization);
    }

    #[cfg(feature = "oauth")]
    pub(crate) fn oauth(&self) -> Option<&crate::binding::oauth::Authorization> {
        self.tokens.get()
    }

    /// The user's browser is free for the authorization.
    #[cfg(feature = "oauth")]
    pub(crate) fn show_browser(&mut self, now: crate::Time) {
        if let Some(authorization) = self.tokens.get_mut() {
            authorization.show(now);
        }
    }

    /// Whether credentials are being obtained, refreshed or stored.
    pub(crate) fn is_authorizing(&self) -> bool {
        self.tokens.is_busy()
    }
}
