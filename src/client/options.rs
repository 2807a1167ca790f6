use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
#[cfg(feature = "http")]
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::LogLevel;
use crate::jsonrpc;
use crate::protocol::{ClientCapabilities, Era, Implementation, ProtocolVersion};
use crate::text::shown;

/// The options of a client. [`Options::new`] has the defaults.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Options {
    /// The server's name in messages for people: `the server`, unless it is set. A host of several servers sets it. Over HTTP its address follows the name. If the name is an address, its
    /// user information and query are neither shown nor serialized.
    #[cfg_attr(feature = "serde", serde(serialize_with = "serialize_server"))]
    pub server: Box<str>,
    /// Name and version of the client, which are sent to the server.
    pub client: Implementation,
    /// The capabilities that the client declares to the server.
    #[cfg_attr(feature = "serde", serde(default))]
    pub capabilities: ClientCapabilities,
    /// Which eras are tried, and in which order.
    #[cfg_attr(feature = "serde", serde(default))]
    pub eras: Eras,
    /// The era of this server that [`Engine::known_era`](crate::Engine::known_era) returned earlier.
    pub known_era: Option<KnownEra>,
    /// The minimum severity of log messages that the server sends; `None` leaves it to the server. See also
    /// [`Client::set_log_level`](crate::Client::set_log_level).
    pub log_level: Option<LogLevel>,
    /// Which deviations of a server are tolerated.
    #[cfg_attr(feature = "serde", serde(default))]
    pub tolerance: Tolerance,
    /// Timeouts and intervals. Zero stands for one millisecond.
    #[cfg_attr(feature = "serde", serde(default))]
    pub timeouts: Timeouts,
    /// Limits on memory and messages.
    #[cfg_attr(feature = "serde", serde(default))]
    pub limits: Limits,
    /// Whether a modern server is asked to announce changes (specification 2026-07-28, "Subscriptions") of its lists,
    /// if it declares that it can, and of resources with a subscription. Over HTTP, whether a legacy server is asked for a
    /// GET stream: turn it off for one that answers nothing while the stream is open. `true`.
    pub listen: bool,
    /// Whether the embedder's HTTP client keeps cookies itself, as a browser does: the client then neither keeps those that a
    /// server sets nor sends any. `false`.
    #[cfg_attr(feature = "serde", serde(default))]
    pub keeps_cookies: bool,
    /// Whether the embedder's HTTP client decodes compressed bodies: the client then leaves `Accept-Encoding` to it, and does not
    /// look at `Content-Encoding`. Otherwise it asks for `identity`, and a body in another coding is an error. `false`.
    #[cfg_attr(feature = "serde", serde(default))]
    pub decodes_bodies: bool,
    /// Whether several tool calls may be in flight; otherwise one at a time. `true`.
    pub parallel_tool_calls: bool,
    /// Whether the server's annotations of its tools are believed: a call of a tool that says that it is read-only or
    /// idempotent may be sent again ([`Request::replay`](crate::Request::replay)), and a read-only one needs no approval
    /// ([`Engine::needs_approval`](crate::Engine::needs_approval)). "Clients MUST consider tool annotations to be untrusted unless
    /// they come from trusted servers" (specification 2026-07-28, "Tools"). `false`.
    #[cfg_attr(feature = "serde", serde(default))]
    pub trust: bool,
    /// Limits on the server's use of the client's model, if [`ClientCapabilities::sampling`] is declared.
    #[cfg_attr(feature = "serde", serde(default))]
    pub sampling: SamplingPolicy,
    /// Requests for elicitation per minute, if [`ClientCapabilities::elicitation`] is declared; others are refused at once,
    /// without an event (specification 2026-07-28, "Elicitation", Security Considerations). `None`: any number.
    #[cfg_attr(feature = "serde", serde(default))]
    pub elicitations_per_minute: Option<u32>,
    /// Whether fields that an accepted form leaves out get the defaults of the form (specification 2025-11-25,
    /// "Elicitation", Requested Schema). Turn it off if the user can clear a field that has a default. `true`.
    pub form_defaults: bool,
    /// How a peer that does not respond is detected; `None` turns it off. Default: [`Keepalive::default`].
    pub keepalive: Option<Keepalive>,
    /// How a lost connection is reopened; `None` turns it off, except for the one new handshake after a request was
    /// refused for its era or version; while a client obtains authorization, it waits as by default. Default: [`Reconnect::default`].
    pub reconnect: Option<Reconnect>,
    /// What every request over HTTP has.
    #[cfg(feature = "http")]
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(crate) shared: SharedHeaders,
}

/// Headers of requests: of those that name no version of the protocol, then of those that name each version.
#[cfg(feature = "http")]
pub(crate) type Headers = [OnceLock<http::HeaderMap>; ProtocolVersion::ALL.len() + 1];

/// Headers that the clients with the same options share: made once, since each request has them. A copy of the options,
/// which may be changed, begins without.
#[cfg(feature = "http")]
#[derive(Default)]
pub(crate) struct SharedHeaders(OnceLock<Arc<Headers>>);

#[cfg(feature = "http")]
impl SharedHeaders {
    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> Arc<Headers>) -> &Arc<Headers> {
        self.0.get_or_init(make)
    }
}

#[cfg(feature = "http")]
impl Clone for SharedHeaders {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// They follow from the options.
#[cfg(feature = "http")]
impl PartialEq for SharedHeaders {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

#[cfg(feature = "http")]
impl Eq for SharedHeaders {}

/// Stands for the options of a client that is being restored.
#[cfg(feature = "snapshot")]
pub(super) fn placeholder() -> Arc<Options> {
    Arc::new(Options::new("", ""))
}

/// The name of a server without secrets, if it is an address.
pub(super) fn without_secrets(server: &str) -> Option<Arc<str>> {
    server.contains("://").then(|| shown(server).into())
}

#[cfg(feature = "serde")]
fn serialize_server<S: serde::Serializer>(server: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(without_secrets(server).as_deref().unwrap_or(server))
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
            keeps_cookies,
            decodes_bodies,
            parallel_tool_calls,
            trust,
            sampling,
            elicitations_per_minute,
            form_defaults,
            keepalive,
            reconnect,
            #[cfg(feature = "http")]
                shared: _,
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
            .field("keeps_cookies", keeps_cookies)
            .field("decodes_bodies", decodes_bodies)
            .field("parallel_tool_calls", parallel_tool_calls)
            .field("trust", trust)
            .field("sampling", sampling)
            .field("elicitations_per_minute", elicitations_per_minute)
            .field("form_defaults", form_defaults)
            .field("keepalive", keepalive)
            .field("reconnect", reconnect)
            .finish()
    }
}

impl Options {
    /// The name of a server that was given none. The drivers replace it by that of the program or the host.
    pub const UNNAMED: &str = "the server";

    /// The default options, for a client of this name and version.
    pub fn new(name: impl Into<Box<str>>, version: impl Into<Box<str>>) -> Self {
        Self {
            server: Self::UNNAMED.into(),
            client: Implementation::new(name, version),
            capabilities: ClientCapabilities::default(),
            eras: Eras::Auto,
            known_era: None,
            log_level: None,
            tolerance: Tolerance::default(),
            timeouts: Timeouts::default(),
            limits: Limits::default(),
            listen: true,
            keeps_cookies: false,
            decodes_bodies: false,
            parallel_tool_calls: true,
            trust: false,
            sampling: SamplingPolicy::default(),
            elicitations_per_minute: None,
            form_defaults: true,
            keepalive: Some(Keepalive::default()),
            reconnect: Some(Reconnect::default()),
            #[cfg(feature = "http")]
            shared: SharedHeaders::default(),
        }
    }
}

/// Which eras are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "type", content = "value", rename_all = "snake_case")
)]
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

/// Which deviations of a server are tolerated, where there is a choice. By default none of these: each field is `false`,
/// and an error to a list request is a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct Tolerance {
    /// What follows when a list request is answered with an error. -32601 is always tolerated, except for tools.
    pub list_errors: ListErrors,
    /// Tolerate -32601 to `tools/list` from a server that declares tools.
    pub tools_absent: bool,
    /// Treat another error with a text such as "method not found" as -32601.
    pub absent_by_text: bool,
    /// Request the lists of families that the server did not declare.
    pub list_undeclared: bool,
    /// Accept `list_changed` for a family that the server did not declare.
    pub undeclared_list_changed: bool,
    /// If the server answers with an unknown version, use the nearest older legacy version.
    pub nearest_version: bool,
}

/// What follows when a list request is answered with an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum ListErrors {
    /// The connection fails.
    #[default]
    Fail,
    /// Only the family fails, and keeps the pages before the error.
    Degrade,
}

/// Limits on the server's use of the client's model (specification 2026-07-28, "Sampling"). The default has no limits.
///
/// Tokens beyond the limit and the server's choice of a model are replaced in the parameters that the embedder gets. A
/// request beyond any other limit is refused at once, without an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct SamplingPolicy {
    /// Requests per minute.
    pub per_minute: Option<u32>,
    /// Maximum tokens that a request may ask for; a larger `maxTokens` is replaced by it.
    pub max_tokens: Option<u64>,
    /// The model for every request; it replaces the server's hints.
    pub model: Option<Box<str>>,
    /// The models that may be used, by name; empty allows any. [`model`](Self::model) is checked if it is set, the
    /// server's hints otherwise. A request without hints leaves the choice to the client.
    pub models: Vec<Box<str>>,
    /// Messages with tool use in one request: the number of rounds in a conversation with tools.
    pub tool_rounds: Option<u32>,
    /// Time for the embedder to respond; the default is [`Timeouts::server_request`].
    pub timeout: Option<Duration>,
}

/// Timeouts and intervals. Zero stands for one millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct Timeouts {
    /// From `Action::Open` until the client is ready: transport, handshake and discovery together; signs of life extend
    /// it. `None`, the default: only the timeouts of each bound them.
    pub connect: Option<Duration>,
    /// From [`Action::Open`](crate::Action::Open) to [`Transport::Opened`](crate::Transport::Opened); each
    /// [`Transport::SignOfLife`](crate::Transport::SignOfLife) starts it again, up to `handshake_max` in total. 60 s.
    pub open: Duration,
    /// For the response to `server/discover`; signs of life extend it up to three times. 5 s.
    pub discover: Duration,
    /// From the open transport to the end of the handshake; signs of life extend it. 60 s.
    pub handshake: Duration,
    /// Maximum to which signs of life extend `connect`, `open` and `handshake`. 10 min.
    pub handshake_max: Duration,
    /// From the end of the handshake to the end of discovery; incomplete lists have failed then. 5 min.
    pub discovery: Duration,
    /// From the command to the end of a request, including the time in the queue; the default for requests without a
    /// timeout. 60 s.
    pub request: Duration,
    /// Maximum to which progress extends a request, for requests without one. The time described at
    /// [`server_request`](Self::server_request) is added. 10 min.
    pub request_max: Duration,
    /// Minimum between two progress events of one request. Of the ones in between, the last is reported when the request ends,
    /// unless it has more than 4 KiB. 100 ms.
    pub progress_interval: Duration,
    /// For the embedder's response to a server request; then the engine cancels it. Also the time that a request waits
    /// for required input or for authorization. 10 min.
    ///
    /// This time does not count towards the request's own, within limits: open server requests extend a request by this
    /// (or by [`SamplingPolicy::timeout`], if that is longer) in total, however many there are; each round of input, at
    /// most [`Limits::input_rounds`], and each of up to three waits for authorization extend it by this.
    pub server_request: Duration,
    /// Between the steps of the shutdown: close the input, terminate, kill. 2 s.
    pub grace: Duration,
    /// Between two polls of a task whose server names no interval. A server's interval counts from 100 ms up. 1 s.
    pub task_poll: Duration,
    /// From `list_changed` to the refresh, so that several changes cause one refresh. 300 ms.
    pub debounce: Duration,
    /// Minimum between two refreshes of one family. 1 s.
    pub refresh_interval: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: None,
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
            task_poll: Duration::from_secs(1),
            debounce: Duration::from_millis(300),
            refresh_interval: Duration::from_secs(1),
        }
    }
}

/// Limits on memory and messages. No server can make a client use more.
///
#[doc = include_str!("growth.md")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct Limits {
    /// Limits of one message that the server sends: its bytes (64 MiB), its nesting (128), and the messages of a batch
    /// (10,000).
    pub message: jsonrpc::MessageLimits,
    /// Pages per list; 1,000.
    pub pages: usize,
    /// Items per list; 100,000.
    pub items: usize,
    /// Bytes per list; 64 MiB.
    pub list_bytes: usize,
    /// Requests in flight, those of discovery included; 64. `initialize` may be one more, beside a `server/discover` without
    /// a response. Over HTTP also the maximum number of exchanges that carry responses and notifications. With 0 nothing
    /// is ever sent, so every handshake times out.
    pub in_flight: usize,
    /// Requests in the queue; 1,024.
    pub queued: usize,
    /// Bytes of the parameters of the embedder's requests, in the queue and in flight. A request is accepted while those
    /// before it have fewer, however long it is itself. 64 MiB.
    pub request_bytes: usize,
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
    /// Log messages, and notifications of progress that no request asked for, per second; others are left out, and
    /// counted in [`Stats::left_out`](crate::Stats::left_out). 1,000.
    pub notifications_per_second: u32,
    /// Actions that wait to be polled. The last eighth is reserved for responses to requests of the server: notifications
    /// of the server are left out meanwhile, and its requests that need the embedder are refused. A request of the
    /// server beyond the limit ends the connection ([`FailureKind::Overrun`](crate::FailureKind::Overrun)). Over HTTP
    /// this includes responses and notifications that were polled and are not delivered yet. 4,096.
    pub output: usize,
    /// Bytes of notifications and requests of the server, and of the responses to them, that wait to be polled; as
    /// above. 64 MiB.
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
            request_bytes: 64 << 20,
            server_requests: 64,
            subscriptions: 1024,
            input_bytes: 64 << 20,
            input_rounds: 10,
            held: 256,
            notifications_per_second: 1000,
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
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct Keepalive {
    /// From the last message of the server to the next keepalive request. 60 s.
    pub interval: Duration,
    /// For the response to a keepalive request. 30 s.
    pub timeout: Duration,
    /// How many keepalive requests in a row have to time out before the connection counts as lost. 2; 0 counts as 1.
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
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum KeepaliveMethod {
    /// `ping`; if the server does not have it, the cheapest list that worked; without one, no method.
    #[default]
    Ping,
    /// `tools/list` if the server has tools, as some hosts do; otherwise `ping`.
    ToolsList,
}

/// How a lost connection is reopened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct Reconnect {
    /// The first wait, approximately; each further one is twice as long. 500 ms.
    pub initial_backoff: Duration,
    /// The longest wait. 60 s.
    pub max_backoff: Duration,
    /// Attempts to get ready for the first time, until the client parks; 0 counts as 1. A command that cannot be started,
    /// a refused authorization and versions without a common one park it at once. If this is more than one, a server that
    /// cannot be reached ([`OpenFailure::Connect`](crate::OpenFailure::Connect)) is tried for as long as
    /// [`Timeouts::connect`], or [`Timeouts::open`] without it. 3.
    pub first_attempts: u32,
    /// Lost connections in a row, after the client was ready once, until it parks. A connection that lasted a keepalive
    /// interval, or answered a request, resets the count. 5.
    pub max_losses: u32,
    /// Between the attempts of a parked client. 5 min.
    pub parked_backoff: Duration,
}

impl Default for Reconnect {
    fn default() -> Self {
        Self {
            initial_backoff: Duration::from_millis(500),
            max_backoff: Duration::from_secs(60),
            first_attempts: 3,
            max_losses: 5,
            parked_backoff: Duration::from_secs(300),
        }
    }
}
