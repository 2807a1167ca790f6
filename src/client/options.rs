use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use serde::{Deserialize, Serialize};

use crate::address::shown;
use crate::jsonrpc;
use crate::protocol::{ClientCapabilities, Era, Implementation, ProtocolVersion};

/// How a session behaves. [`Options::new`] has the defaults.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// The server's name in messages for people. Where it is an address, they show neither its user info nor its query.
    pub server: Box<str>,
    /// Who the client says it is.
    pub client: Implementation,
    /// What the client offers to the server.
    pub capabilities: ClientCapabilities,
    /// Which eras are tried, in which order.
    pub eras: Eras,
    /// What [`Engine::known_era`](crate::Engine::known_era) said of this server before.
    pub known_era: Option<KnownEra>,
    /// The least severity of the log messages that the server is to send; unset, it is not told. See also
    /// [`Client::set_log_level`](crate::Client::set_log_level).
    pub log_level: Option<LogLevel>,
    /// What of a server's mistakes is tolerated.
    pub tolerance: Tolerance,
    /// How long things may take. A wait of zero is a millisecond, so that nothing is due for ever.
    pub timeouts: Timeouts,
    /// How much is kept.
    pub limits: Limits,
    /// Whether a modern server is asked to tell of changes (specification 2026-07-28, "Subscriptions"): of its lists,
    /// where it declares that it can, and of resources that are subscribed to. `true`.
    pub listen: bool,
    /// Whether tools may be called while others are; otherwise they are called one after the other. `true`.
    pub parallel_tool_calls: bool,
    /// What the server may have of the client's model, where [`ClientCapabilities::sampling`] offers it at all.
    pub sampling: SamplingPolicy,
    /// How a peer that went silent is found; `None` for not at all. On, as [`Keepalive::default`] says.
    pub keepalive: Option<Keepalive>,
    /// How a lost connection is opened again; `None` for never. On, as [`Reconnect::default`] says.
    pub reconnect: Option<Reconnect>,
}

/// The name of a server for messages, where it is an address, which may hold secrets.
pub(super) fn without_secrets(server: &str) -> Option<Arc<str>> {
    server.contains("://").then(|| shown(server).into())
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            server,
            client,
            capabilities,
            eras,
            known_era,
            log_level,
            tolerance,
            timeouts,
            limits,
            listen,
            parallel_tool_calls,
            sampling,
            keepalive,
            reconnect,
        } = self;
        f.debug_struct("Options")
            .field("server", &without_secrets(server).as_deref().unwrap_or(server))
            .field("client", client)
            .field("capabilities", capabilities)
            .field("eras", eras)
            .field("known_era", known_era)
            .field("log_level", log_level)
            .field("tolerance", tolerance)
            .field("timeouts", timeouts)
            .field("limits", limits)
            .field("listen", listen)
            .field("parallel_tool_calls", parallel_tool_calls)
            .field("sampling", sampling)
            .field("keepalive", keepalive)
            .field("reconnect", reconnect)
            .finish()
    }
}

impl Options {
    /// The defaults, for a client of this name and version.
    pub fn new(name: impl Into<Box<str>>, version: impl Into<Box<str>>) -> Self {
        Self {
            server: "the server".into(),
            client: Implementation::new(name, version),
            capabilities: ClientCapabilities::default(),
            eras: Eras::Auto,
            known_era: None,
            log_level: None,
            tolerance: Tolerance::default(),
            timeouts: Timeouts::default(),
            limits: Limits::default(),
            listen: true,
            parallel_tool_calls: true,
            sampling: SamplingPolicy::default(),
            keepalive: Some(Keepalive::default()),
            reconnect: Some(Reconnect::default()),
        }
    }
}

/// What carries the messages of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// One stream each way.
    Pipe,
    /// An exchange for each message (specification 2026-07-28, "Streamable HTTP").
    Http,
}

/// Which eras are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Eras {
    /// `server/discover` first, then `initialize` (specification 2026-07-28, "stdio", Backward Compatibility).
    #[default]
    Auto,
    /// `initialize` first, then `server/discover`.
    LegacyFirst,
    /// `initialize` only.
    LegacyOnly,
    /// Only the modern era, and only this version of it; the newest, where this is none of it.
    ModernOnly(ProtocolVersion),
}

impl Eras {
    /// The only version that will do, where there is one.
    pub(super) fn pinned(self) -> Option<ProtocolVersion> {
        match self {
            Self::ModernOnly(version) if version.era() == Era::Modern => Some(version),
            Self::ModernOnly(_) => Some(ProtocolVersion::NEWEST_MODERN),
            Self::Auto | Self::LegacyFirst | Self::LegacyOnly => None,
        }
    }
}

/// Which era a server turned out to have: worth saving, since it spares a legacy server the probe, and a modern one
/// that starts slowly being taken for legacy.
///
/// "Clients MAY persist it across restarts of the same server configuration, re-probing if the cached
/// assumption later fails" (specification 2026-07-28, "Versioning and Compatibility").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct KnownEra {
    /// The version to offer.
    pub version: ProtocolVersion,
    /// The server closes the connection when it is probed.
    pub discover_closes: bool,
}

impl KnownEra {
    /// A server that is best offered this version.
    pub const fn new(version: ProtocolVersion) -> Self {
        Self { version, discover_closes: false }
    }

    /// The server's era.
    pub const fn era(self) -> Era {
        self.version.era()
    }
}

/// The severity of a log message (RFC 5424).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Detail for debugging.
    Debug,
    /// What goes on.
    Info,
    /// Normal, yet worth noting.
    Notice,
    /// Something may be wrong.
    Warning,
    /// Something is wrong.
    Error,
    /// A part failed.
    Critical,
    /// Act at once.
    Alert,
    /// Nothing works.
    Emergency,
}

impl LogLevel {
    const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// The level of this name on the wire.
    pub(super) fn read(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == name)
    }

    /// The level as it is written on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }
}

/// What of a server's mistakes is tolerated, where there is a choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tolerance {
    /// What an error in the answer to a list costs; -32601 to any list but that of tools is always tolerated.
    pub list_errors: ListErrors,
    /// Tolerate -32601 to `tools/list` of a server that declares tools.
    pub tools_absent: bool,
    /// Take another error with a text such as "method not found" for -32601.
    pub absent_by_text: bool,
    /// Ask for families that the server did not declare.
    pub ask_anyway: bool,
    /// Honour `list_changed` of a family that the server did not declare.
    pub undeclared_list_changed: bool,
    /// Take a version that this crate does not know for the nearest legacy one below it.
    pub nearest_version: bool,
}

/// What an error in the answer to a list costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListErrors {
    /// The session fails.
    #[default]
    Fail,
    /// The family fails, and keeps what came before; the session goes on.
    Degrade,
}

/// What a server may have of the client's model (specification 2026-07-28, "Sampling"). What is over it is refused at
/// once, and the embedder is not asked. The default bounds nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SamplingPolicy {
    /// Requests within a minute.
    pub per_minute: Option<u32>,
    /// The most tokens that a request may want.
    pub max_tokens: Option<u64>,
    /// The models that a request may hint at, by their names; any, where there are none. A request without hints
    /// leaves the choice to the client.
    pub models: Vec<Box<str>>,
    /// Messages in a request that use tools: how many rounds a conversation with tools may have.
    pub tool_rounds: Option<u32>,
    /// From the question to the embedder's answer; unset, [`Timeouts::server_request`].
    pub timeout: Option<Duration>,
}

/// How long things may take. A wait of zero is a millisecond, so that nothing is due for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeouts {
    /// From the wish to open the transport until it is open; signs of life extend it.
    pub open: Duration,
    /// From the probe to its answer; signs of life extend it to three times that. 5 s.
    pub discover: Duration,
    /// From the open transport to the end of the handshake; signs of life extend it. 60 s.
    pub handshake: Duration,
    /// How far signs of life can extend `open` and `handshake`. 10 min.
    pub handshake_max: Duration,
    /// From the end of the handshake to the end of discovery; lists that are not done by then have failed. 5 min.
    pub discovery: Duration,
    /// From the wish for a request to its end, time in the queue included, where the request does not say. 60 s.
    pub request: Duration,
    /// How far progress can extend that, where the request does not say; the time that
    /// [`server_request`](Self::server_request) tells of comes on top. 10 min.
    pub request_max: Duration,
    /// Between two events that tell of the progress of one request; what comes in between is passed over. 100 ms.
    pub progress_interval: Duration,
    /// From a question of the server's to the embedder's answer; then the engine declines. As long a request waits for
    /// input that the server wants, or for a token. 10 min.
    ///
    /// None of that counts as the requests' own time, within bounds: open questions extend a request by this (or by
    /// [`SamplingPolicy::timeout`], if that is longer) at most in all, however many there are; each round of input, of
    /// which there are [`Limits::input_rounds`], and each of three waits for a token extend it by this at most.
    pub server_request: Duration,
    /// Between the steps of the shutdown: input closed, terminated, killed. 2 s.
    pub grace: Duration,
    /// From a `list_changed` to the walk that follows it, in which others are gathered. 300 ms.
    pub debounce: Duration,
    /// Between two walks of one family. 1 s.
    pub refresh_interval: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            open: Duration::from_secs(60),
            discover: Duration::from_secs(5),
            handshake: Duration::from_secs(60),
            handshake_max: Duration::from_secs(600),
            discovery: Duration::from_secs(300),
            request: Duration::from_secs(60),
            request_max: Duration::from_secs(600),
            progress_interval: Duration::from_millis(100),
            server_request: Duration::from_secs(600),
            grace: Duration::from_secs(2),
            debounce: Duration::from_millis(300),
            refresh_interval: Duration::from_secs(1),
        }
    }
}

/// How much is kept. No server makes a session grow beyond these.
///
#[doc = include_str!("growth.md")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Of one message.
    pub message: jsonrpc::MessageLimits,
    /// Pages in a list; 1,000.
    pub pages: usize,
    /// Items in a list; 100,000.
    pub items: usize,
    /// Bytes in a list; 64 MiB.
    pub list_bytes: usize,
    /// Requests that wait for the server at the same time, those of discovery included; 64. Over HTTP as many
    /// exchanges may carry answers and notifications at the same time.
    pub in_flight: usize,
    /// Requests that wait to be sent; 1,024.
    pub queued: usize,
    /// Questions of the server's that wait for the embedder; 64.
    pub server_requests: usize,
    /// Resources that are subscribed to; 1,024.
    pub subscriptions: usize,
    /// Bytes that are kept of what the server wants to know: the ids and defaults of its open questions, and the results
    /// of requests that wait for input. Beyond them a question is answered with an error, and a request ends
    /// with [`RequestError::Invalid`](crate::RequestError::Invalid). 64 MiB.
    pub input_bytes: usize,
    /// How often a server may want input for one request; 10.
    pub input_rounds: u32,
    /// Notifications that wait for the session to be ready; 256, and 1 MiB.
    pub held: usize,
    /// Actions that wait to be polled; beyond them notifications and requests of the server's are left out. Over HTTP
    /// the answers and notifications count that were polled and are not delivered yet. 4,096.
    pub output: usize,
    /// Bytes in notifications and requests of the server's that wait to be polled; as above. 64 MiB.
    pub output_bytes: usize,
    /// Over HTTP, bytes of answers that are kept until they are whole, in all exchanges together. An exchange that
    /// goes beyond them ends: its request as one whose answer makes no sense, a stream as one that broke. 128 MiB.
    pub buffered: usize,
    /// Quirks that are recorded; 256.
    pub quirks: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message: jsonrpc::MessageLimits::default(),
            pages: 1000,
            items: 100_000,
            list_bytes: 64 << 20,
            in_flight: 64,
            queued: 1024,
            server_requests: 64,
            subscriptions: 1024,
            input_bytes: 64 << 20,
            input_rounds: 10,
            held: 256,
            output: 4096,
            output_bytes: 64 << 20,
            buffered: 128 << 20,
            quirks: 256,
        }
    }
}

/// How a peer that went silent is found.
///
/// Nothing is asked while a request is in flight, or while anything was heard within the interval. An interval or timeout
/// of zero is a millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Keepalive {
    /// Between the last that was heard and the next probe. 60 s.
    pub interval: Duration,
    /// From a probe to its answer. 30 s.
    pub timeout: Duration,
    /// How many probes in a row must be left unanswered for the peer to be taken for dead. 2.
    pub threshold: u32,
    /// What is asked first of a legacy server; what it does not know, it is not asked again. [`KeepaliveMethod::Ping`].
    pub method: KeepaliveMethod,
    /// Whether a modern server is asked, by `server/discover`; otherwise it is left in peace. `false`.
    pub discover: bool,
}

impl Default for Keepalive {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(60),
            timeout: Duration::from_secs(30),
            threshold: 2,
            method: KeepaliveMethod::Ping,
            discover: false,
        }
    }
}

/// What a legacy server is asked first by the keepalive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeepaliveMethod {
    /// `ping`; where it is not known, the cheapest list that worked; where there is none, nothing.
    #[default]
    Ping,
    /// `tools/list` of a server that has tools, as some hosts do; `ping` of the others.
    ToolsList,
}

/// How a lost connection is opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reconnect {
    /// The first wait, about; each further one is twice as long. 500 ms.
    pub initial: Duration,
    /// The longest wait. 60 s.
    pub max: Duration,
    /// How many losses in a row of connections that proved nothing, until the session parks. A connection is
    /// proven once it outlived a keepalive interval, or answered a request. 5.
    pub budget: u32,
    /// Between the tries of a parked session. 10 min.
    pub park: Duration,
}

impl Default for Reconnect {
    fn default() -> Self {
        Self {
            initial: Duration::from_millis(500),
            max: Duration::from_secs(60),
            budget: 5,
            park: Duration::from_secs(600),
        }
    }
}
