use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::written::{Seconds, Written};
use super::{OAuth, Protocol, Sampling, ToolPolicy};
use crate::address::shown;
use crate::catalog::{Fingerprint, FingerprintKey};
use crate::client::{Keepalive, Options};

/// Strings by name: environment variables or headers.
pub type Texts = BTreeMap<Box<str>, Box<str>>;

/// A server's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// How the server is reached: `command` or `url`.
    pub endpoint: Endpoint,
    /// Whether the server is used. Default: `true`.
    pub enabled: bool,
    /// Timeout of a tool call. Default: 120 s.
    pub timeout: Duration,
    /// Timeout of the first connection. Default: 60 s.
    pub connect_timeout: Duration,
    /// Whether tool calls to this server may run in parallel. Default: `false`.
    pub supports_parallel_tool_calls: bool,
    /// Whether the annotations of its tools are believed, see [`Options::trust`]. `None` leaves the host's own choice.
    pub trust: Option<bool>,
    /// Which eras of the protocol are tried. `None` leaves the host's own choice.
    pub protocol: Option<Protocol>,
    /// How long the server may be silent until it is sent a keepalive request ([`Keepalive::interval`]); zero turns
    /// keepalive off. `None` leaves the host's own choice.
    pub keepalive_interval: Option<Duration>,
    /// How long nothing may use the server until its connection is closed, which stops its program. The server is started
    /// again when it is used. `None` or zero: however long. It has no effect on a server with a URL.
    ///
    /// A server is used by calls, and by other commands for its session. It is not closed while a request is in flight, a
    /// task runs, a server request waits for a response, or a resource has a subscription. See
    /// [`HubEvent::Resting`](crate::host::hub::HubEvent::Resting).
    pub idle_timeout: Option<Duration>,
    /// How old the connection may be until it is closed, under the same conditions as by `idle_timeout`. `None` or zero:
    /// however old. It has no effect on a server with a URL.
    pub max_lifetime: Option<Duration>,
    /// Whether the server may ask the user for input, by a form or a URL. Default: `true`. It never adds a capability that
    /// the host does not declare.
    pub elicitation: bool,
    /// Which of its tools and utility tools a model sees.
    pub tools: ToolPolicy,
    /// Limits on the server's sampling requests. `None` leaves the host's own policy.
    pub sampling: Option<Box<Sampling>>,
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Endpoint {
    /// A program that the host starts.
    Stdio(Stdio),
    /// A URL.
    Http(Http),
}

/// A server started as a program. Its `Debug` shows the names in `env` without their values, and the number of
/// arguments.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stdio {
    /// The program.
    pub command: Box<str>,
    /// Its arguments.
    pub args: Vec<Box<str>>,
    /// Environment variables.
    pub env: Texts,
    /// Working directory, as in the `mcpServers` files of other clients. `None` is the host's.
    pub cwd: Option<Box<str>>,
}

/// A server reached by URL. Its `Debug` shows the names in `headers` without their values, and the URL without user
/// information and query.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Http {
    /// The URL.
    pub url: Box<str>,
    /// Headers of every request.
    pub headers: Texts,
    /// How the user authenticates, in addition to `headers`.
    pub auth: Option<Auth>,
    /// How a token is obtained, with `auth: oauth`.
    pub oauth: Option<Box<OAuth>>,
}

/// How the user authenticates to a server. Its `Debug` hides unknown values, which may be secrets.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Auth {
    /// `oauth`: OAuth 2.1 with PKCE.
    OAuth,
    /// Any other value; the embedder interprets it.
    Other(Box<str>),
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OAuth => "OAuth",
            Self::Other(_) => "Other(…)",
        })
    }
}

impl Auth {
    /// The value in the configuration.
    pub fn as_str(&self) -> &str {
        match self {
            Self::OAuth => "oauth",
            Self::Other(word) => word,
        }
    }
}

impl Entry {
    /// Default timeout of a tool call.
    pub const TIMEOUT: Duration = Duration::from_secs(120);
    /// Default timeout of the first connection.
    pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);

    /// An entry for a program, with the defaults.
    pub fn stdio(command: impl Into<Box<str>>) -> Self {
        let command = command.into();
        Self::new(Endpoint::Stdio(Stdio { command, args: Vec::new(), env: Texts::new(), cwd: None }))
    }

    /// An entry for a URL, with the defaults.
    pub fn http(url: impl Into<Box<str>>) -> Self {
        Self::new(Endpoint::Http(Http { url: url.into(), headers: Texts::new(), auth: None, oauth: None }))
    }

    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            enabled: true,
            timeout: Self::TIMEOUT,
            connect_timeout: Self::CONNECT_TIMEOUT,
            supports_parallel_tool_calls: false,
            trust: None,
            protocol: None,
            keepalive_interval: None,
            idle_timeout: None,
            max_lifetime: None,
            elicitation: true,
            tools: ToolPolicy::default(),
            sampling: None,
        }
    }

    /// The options of a session with this server: `options`, which describe the client, with this entry's settings
    /// applied.
    ///
    /// `timeout` bounds requests. `connect_timeout` bounds the opening of the transport, the handshake and discovery together. The
    /// discover request gets at most half of it, which leaves time for `initialize` if the server does not respond.
    /// `sampling` limits or removes the sampling capability of `options`, and `elicitation` removes elicitation; they never
    /// add one.
    ///
    /// ```
    /// use core::time::Duration;
    /// use mcp_proto::{Options, host::config::Entry};
    ///
    /// let mut entry = Entry::http("https://example.com/mcp");
    /// entry.timeout = Duration::from_secs(900);
    /// let options = entry.options("docs", Options::new("my-host", "1.0"));
    /// assert_eq!(&*options.server, "docs");
    /// assert_eq!(options.timeouts.request, Duration::from_secs(900));
    /// assert!(!options.parallel_tool_calls);
    /// ```
    pub fn options(&self, server: &str, mut options: Options) -> Options {
        options.server = server.into();
        options.parallel_tool_calls = self.supports_parallel_tool_calls;
        options.trust = self.trust.unwrap_or(options.trust);
        options.eras = self.protocol.map_or(options.eras, Protocol::eras);
        if let Some(interval) = self.keepalive_interval {
            let keepalive = Keepalive { interval, ..options.keepalive.unwrap_or_default() };
            options.keepalive = (!interval.is_zero()).then_some(keepalive);
        }
        options.capabilities.elicitation &= self.elicitation;
        options.capabilities.elicitation_url &= self.elicitation;
        let timeouts = &mut options.timeouts;
        timeouts.request = self.timeout;
        timeouts.request_max = timeouts.request_max.max(self.timeout);
        timeouts.connect = Some(self.connect_timeout);
        timeouts.open = self.connect_timeout;
        timeouts.handshake = self.connect_timeout;
        timeouts.handshake_max = timeouts.handshake_max.max(self.connect_timeout);
        timeouts.discover = timeouts.discover.min(self.connect_timeout.checked_div(2).unwrap_or_default());
        if let Some(sampling) = &self.sampling {
            options.capabilities.sampling &= sampling.enabled;
            options.sampling = sampling.policy();
        }
        options
    }

    /// A canonical text: equal exactly for entries whose sessions behave the same, apart from the server they connect
    /// to.
    pub(in crate::host) fn behaviour(&self) -> Box<str> {
        let blank = match self.endpoint {
            Endpoint::Stdio(_) => Self::stdio(""),
            Endpoint::Http(_) => Self::http(""),
        };
        let Self { timeout, connect_timeout, supports_parallel_tool_calls, trust, .. } = *self;
        let Self { protocol, keepalive_interval, elicitation, .. } = *self;
        let sampling = self.sampling.clone();
        let session = Self { protocol, keepalive_interval, elicitation, sampling, ..blank };
        Self { timeout, connect_timeout, supports_parallel_tool_calls, trust, ..session }.text()
    }

    /// The fingerprint of the entry's meaning: equal for equal entries, however they are written. Saved data of a
    /// server is valid as long as its entry has the same fingerprint.
    pub fn fingerprint(&self, key: FingerprintKey) -> Fingerprint {
        Fingerprint::of(key, self.text().as_bytes())
    }

    fn text(&self) -> Box<str> {
        serde_json::to_string(self).unwrap_or_default().into()
    }
}

impl Stdio {
    /// The variables that a program may inherit from its host: what it needs to find programs, folders and the user's
    /// language, on any system. Others may hold secrets of the host.
    pub const INHERITED: [&str; 31] = [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "TERM",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "TZ",
        "TMPDIR",
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_RUNTIME_DIR",
        "XDG_STATE_HOME",
        "APPDATA",
        "COMSPEC",
        "HOMEDRIVE",
        "HOMEPATH",
        "LOCALAPPDATA",
        "PATHEXT",
        "PROCESSOR_ARCHITECTURE",
        "PROGRAMFILES",
        "SYSTEMDRIVE",
        "SYSTEMROOT",
        "TEMP",
        "TMP",
        "USERNAME",
        "USERPROFILE",
        "WINDIR",
    ];

    /// The environment of the program, in place of the host's own: the variables of [`INHERITED`](Self::INHERITED) that
    /// `lookup` has a value for, and those of `env`, which win.
    ///
    /// ```
    /// use mcp_proto::host::config::{Endpoint, Entry};
    ///
    /// let Endpoint::Stdio(mut stdio) = Entry::stdio("docs-mcp").endpoint else { panic!() };
    /// stdio.env.insert("LANG".into(), "C".into());
    /// let host = [("PATH", "/bin"), ("LANG", "de"), ("AWS_SECRET_ACCESS_KEY", "hush")];
    /// let environment =
    ///     stdio.environment(|name| host.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into()));
    /// let names: Vec<&str> = environment.keys().map(|name| &**name).collect();
    /// assert_eq!(names, ["LANG", "PATH"]);
    /// assert_eq!(&*environment["LANG"], "C");
    /// ```
    pub fn environment(&self, lookup: impl Fn(&str) -> Option<Box<str>>) -> Texts {
        let inherited = Self::INHERITED.iter().filter_map(|name| Some(((*name).into(), lookup(name)?)));
        let mut environment: Texts = inherited.collect();
        environment.extend(self.env.iter().map(|(name, value)| (name.clone(), value.clone())));
        environment
    }
}

impl fmt::Debug for Stdio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { command, args, env, cwd } = self;
        let env: Vec<_> = env.keys().collect();
        f.debug_struct("Stdio")
            .field("command", command)
            .field("args", &args.len())
            .field("env", &env)
            .field("cwd", cwd)
            .finish()
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url, headers, auth, oauth } = self;
        let headers: Vec<_> = headers.keys().collect();
        f.debug_struct("Http")
            .field("url", &shown(url))
            .field("headers", &headers)
            .field("auth", auth)
            .field("oauth", oauth)
            .finish()
    }
}

/// As in the `mcp_servers` map, without default values.
impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = Written(serializer.serialize_map(None)?);
        match &self.endpoint {
            Endpoint::Stdio(Stdio { command, args, env, cwd }) => {
                map.always("command", command)?;
                map.unless(args.is_empty(), "args", args)?;
                map.unless(env.is_empty(), "env", env)?;
                map.unless(cwd.is_none(), "cwd", cwd)?;
            }
            Endpoint::Http(Http { url, headers, auth, oauth }) => {
                map.always("url", url)?;
                map.unless(headers.is_empty(), "headers", headers)?;
                map.unless(auth.is_none(), "auth", &auth.as_ref().map(Auth::as_str))?;
                map.unless(oauth.is_none(), "oauth", oauth)?;
            }
        }
        map.unless(self.enabled, "enabled", &self.enabled)?;
        map.unless(self.timeout == Self::TIMEOUT, "timeout", &Seconds(self.timeout))?;
        let connect = self.connect_timeout;
        map.unless(connect == Self::CONNECT_TIMEOUT, "connect_timeout", &Seconds(connect))?;
        let parallel = self.supports_parallel_tool_calls;
        map.unless(!parallel, "supports_parallel_tool_calls", &parallel)?;
        map.unless(self.trust.is_none(), "trust", &self.trust)?;
        map.unless(self.protocol.is_none(), "protocol", &self.protocol.map(Protocol::as_str))?;
        let interval = self.keepalive_interval.map(Seconds);
        map.unless(interval.is_none(), "keepalive_interval", &interval)?;
        let (idle, lifetime) = (self.idle_timeout.map(Seconds), self.max_lifetime.map(Seconds));
        map.unless(idle.is_none(), "idle_timeout", &idle)?;
        map.unless(lifetime.is_none(), "max_lifetime", &lifetime)?;
        map.unless(self.elicitation, "elicitation", &self.elicitation)?;
        map.unless(self.tools == ToolPolicy::default(), "tools", &self.tools)?;
        map.unless(self.sampling.is_none(), "sampling", &self.sampling)?;
        map.0.end()
    }
}

/// The path of a key: `tools.include`.
pub(super) fn path(of: &str, key: &str) -> String {
    format!("{of}.{key}")
}
