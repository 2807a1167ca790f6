use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use serde::{Deserialize, Serialize};

use crate::address::shown;
use crate::jsonrpc;
use crate::protocol::{ClientCapabilities, Era, Implementation, ProtocolVersion};

/// The options of a client. [`Options::new`] has the defaults.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// The server's name in messages for people. If it is an address, its user information and query are not shown.
    pub server: Box<str>,
    /// Name and version of the client, which are sent to the server.
    pub client: Implementation,
    /// The capabilities that the client declares to the server.
    pub capabilities: ClientCapabilities,
    /// Which eras are tried, and in which order.
    pub eras: Eras,
    /// The era of this server that [`Engine::known_era`](crate::Engine::known_era) returned earlier.
    pub known_era: Option<KnownEra>,
    /// The minimum severity of log messages that the server sends; `None` leaves it to the server. See also
    /// [`Client::set_log_level`](crate::Client::set_log_level).
    pub log_level: Option<LogLevel>,
    /// Which deviations of a server are tolerated.
    pub tolerance: Tolerance,
    /// Timeouts and intervals. Zero stands for one millisecond.
    pub timeouts: Timeouts,
    /// Limits on memory and messages.
    pub limits: Limits,
    /// Whether a modern server is asked to announce changes (specification 2026-07-28, "Subscriptions") of its lists,
    /// if it declares that it can, and of resources with a subscription. `true`.
    pub listen: bool,
    /// Whether several tool calls may be in flight; otherwise one at a time. `true`.
    pub parallel_tool_calls: bool,
    /// Limits on the server's use of the client's model, if [`ClientCapabilities::sampling`] is declared.
    pub sampling: SamplingPolicy,
    /// How a peer that does not respond is detected; `None` turns it off. Default: [`Keepalive::default`].
    pub keepalive: Option<Keepalive>,
    /// How a lost connection is reopened; `None` turns it off. Default: [`Reconnect::default`].
    pub reconnect: Option<Reconnect>,
}

/// The name of a server without secrets, if it is an address.
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
    /// The default options, for a client of this name and version.
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

/// How the messages of a client are carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// One stream in each direction.
    Pipe,
    /// An HTTP exchange for each message (specification 2026-07-28, "Streamable HTTP").
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
    /// Only the modern era, and only this version of it. For a version of another era, the newest modern one.
    ModernOnly(ProtocolVersion),
}

impl Eras {
    /// The only version that is allowed, if there is one.
    pub(super) fn pinned(self) -> Option<ProtocolVersion> {
        match self {
            Self::ModernOnly(version) if version.era() == Era::Modern => Some(version),
            Self::ModernOnly(_) => Some(ProtocolVersion::NEWEST_MODERN),
            Self::Auto | Self::LegacyFirst | Self::LegacyOnly => None,
        }
    }
}

/// The era of a server. Saving it spares a legacy server the discover request, and prevents that a modern server that
/// starts slowly is taken for a legacy one.
///
/// "Clients MAY persist it across restarts of the same server configuration, re-probing if the cached
/// assumption later fails" (specification 2026-07-28, "Versioning and Compatibility").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct KnownEra {
    /// The version to offer first.
    pub version: ProtocolVersion,
    /// The server closes the connection on `server/discover`.
    pub discover_closes: bool,
}

impl KnownEra {
    /// A server to which this version is offered first.
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
    /// Normal operation.
    Info,
    /// Normal, but significant.
    Notice,
    /// A possible problem.
    Warning,
    /// An error.
    Error,
    /// A failure of a component.
    Critical,
    /// Immediate action is required.
    Alert,
    /// The system is unusable.
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

    /// The level with this name in the protocol.
    pub(super) fn read(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == name)
    }

    /// The name of the level in the protocol.
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

/// Which deviations of a server are tolerated, where there is a choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tolerance {
    /// What follows when a list request is answered with an error. -32601 is always tolerated, except for tools.
    pub list_errors: ListErrors,
    /// Tolerate -32601 to `tools/list` from a server that declares tools.
    pub tools_absent: bool,
    /// Treat another error with a text such as "method not found" as -32601.
    pub absent_by_text: bool,
    /// Request the lists of families that the server did not declare.
    pub ask_anyway: bool,
    /// Accept `list_changed` for a family that the server did not declare.
    pub undeclared_list_changed: bool,
    /// If the server answers with an unknown version, use the nearest older legacy version.
    pub nearest_version: bool,
}

/// What follows when a list request is answered with an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListErrors {
    /// The connection fails.
    #[default]
    Fail,
    /// Only the family fails, and keeps the pages before the error.
    Degrade,
}

/// Limits on the server's use of the client's model (specification 2026-07-28, "Sampling"). A request beyond them is
/// refused at once, without an event. The default has no limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SamplingPolicy {
    /// Requests per minute.
    pub per_minute: Option<u32>,
    /// Maximum tokens that a request may ask for.
    pub max_tokens: Option<u64>,
    /// The models that a request may hint at, by name; empty allows any. A request without hints leaves the choice to
    /// the client.
    pub models: Vec<Box<str>>,
    /// Messages with tool use in one request: the number of rounds in a conversation with tools.
    pub tool_rounds: Option<u32>,
    /// Time for the embedder to respond; the default is [`Timeouts::server_request`].
    pub timeout: Option<Duration>,
}

/// Timeouts and intervals. Zero stands for one millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeouts {
    /// From `Action::Open` until the transport is open; signs of life extend it.
    pub open: Duration,
    /// For the response to `server/discover`; signs of life extend it up to three times. 5 s.
    pub discover: Duration,
    /// From the open transport to the end of the handshake; signs of life extend it. 60 s.
    pub handshake: Duration,
    /// Maximum to which signs of life extend `open` and `handshake`. 10 min.
    pub handshake_max: Duration,
    /// From the end of the handshake to the end of discovery; incomplete lists have failed then. 5 min.
    pub discovery: Duration,
    /// From the command to the end of a request, including the time in the queue; the default for requests without a
    /// timeout. 60 s.
    pub request: Duration,
    /// Maximum to which progress extends a request, for requests without one. The time described at
    /// [`server_request`](Self::server_request) is added. 10 min.
    pub request_max: Duration,
    /// Minimum between two progress events of one request; the ones in between are dropped. 100 ms.
    pub progress_interval: Duration,
    /// For the embedder's response to a server request; then the engine declines it. Also the time that a request waits
    /// for required input or for authorization. 10 min.
    ///
    /// This time does not count towards the request's own, within limits: open server requests extend a request by this
    /// (or by [`SamplingPolicy::timeout`], if that is longer) in total, however many there are; each round of input, at
    /// most [`Limits::input_rounds`], and each of up to three waits for authorization extend it by this.
    pub server_request: Duration,
    /// Between the steps of the shutdown: close the input, terminate, kill. 2 s.
    pub grace: Duration,
    /// From `list_changed` to the refresh, so that several changes cause one refresh. 300 ms.
    pub debounce: Duration,
    /// Minimum between two refreshes of one family. 1 s.
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

/// Limits on memory and messages. No server can make a client use more.
///
#[doc = include_str!("growth.md")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Limits of one message.
    pub message: jsonrpc::MessageLimits,
    /// Pages per list; 1,000.
    pub pages: usize,
    /// Items per list; 100,000.
    pub items: usize,
    /// Bytes per list; 64 MiB.
    pub list_bytes: usize,
    /// Requests in flight, those of discovery included; 64. Over HTTP also the maximum number of exchanges that carry
    /// responses and notifications.
    pub in_flight: usize,
    /// Requests in the queue; 1,024.
    pub queued: usize,
    /// Open server requests; 64.
    pub server_requests: usize,
    /// Subscriptions to resources; 1,024.
    pub subscriptions: usize,
    /// Bytes stored for server requests and required input: the ids and form defaults of open server requests, and the
    /// results of requests that wait for input. Beyond the limit a server request is answered with an error, and a
    /// request ends with [`RequestError::Invalid`](crate::RequestError::Invalid). 64 MiB.
    pub input_bytes: usize,
    /// Rounds of required input per request; 10.
    pub input_rounds: u32,
    /// Notifications that are held until the client is ready; 256, and 1 MiB.
    pub held: usize,
    /// Actions that wait to be polled; beyond the limit, notifications and requests of the server are left out. Over
    /// HTTP this includes responses and notifications that were polled and are not delivered yet. 4,096.
    pub output: usize,
    /// Bytes of notifications and requests of the server that wait to be polled; as above. 64 MiB.
    pub output_bytes: usize,
    /// Over HTTP, bytes of incomplete response bodies in all exchanges together. An exchange that exceeds them ends:
    /// its request with [`RequestError::Invalid`](crate::RequestError::Invalid), a stream as a broken one. 128 MiB.
    pub buffered: usize,
    /// Recorded quirks; 256.
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

/// How a peer that does not respond is detected.
///
/// No keepalive request is sent while a request is in flight, or if a message came within the interval. Zero stands for
/// one millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Keepalive {
    /// From the last message of the server to the next keepalive request. 60 s.
    pub interval: Duration,
    /// For the response to a keepalive request. 30 s.
    pub timeout: Duration,
    /// How many keepalive requests in a row have to time out before the connection counts as lost. 2.
    pub threshold: u32,
    /// The first method for a legacy server. A method that the server does not have is not tried again.
    /// [`KeepaliveMethod::Ping`].
    pub method: KeepaliveMethod,
    /// Whether a modern server is sent keepalive requests, with `server/discover`. `false`.
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

/// The first keepalive method for a legacy server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeepaliveMethod {
    /// `ping`; if the server does not have it, the cheapest list that worked; without one, no method.
    #[default]
    Ping,
    /// `tools/list` if the server has tools, as some hosts do; otherwise `ping`.
    ToolsList,
}

/// How a lost connection is reopened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reconnect {
    /// The first wait, approximately; each further one is twice as long. 500 ms.
    pub initial: Duration,
    /// The longest wait. 60 s.
    pub max: Duration,
    /// Lost connections in a row until the client parks. A connection that lasted a keepalive interval, or answered a
    /// request, resets the count. 5.
    pub budget: u32,
    /// Between the attempts of a parked client. 10 min.
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
