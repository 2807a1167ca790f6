//! The entry of a server.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::ProtocolVersion;
#[cfg(feature = "oauth")]
use crate::binding::oauth::{Flow, OAuthOptions, RegisteredClient, Secret, port_of, with_port};
use crate::catalog::{Fingerprint, FingerprintKey, Tool};
use crate::client::{Eras, Keepalive, Options, SamplingPolicy};
use crate::host::results::Bounded;
use crate::host::{Utility, glob, results};
use crate::text::shown;

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
    /// Timeout of a tool call, which progress restarts. Default: 120 s.
    pub timeout: Duration,
    /// Maximum time of a tool call, whatever progress is reported. Default: that of the host
    /// ([`Timeouts::request_max`](crate::Timeouts::request_max), 10 min), and at least `timeout`.
    pub max_timeout: Option<Duration>,
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
    /// [`HubEvent::IdleShutdown`](crate::host::hub::HubEvent::IdleShutdown).
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
    /// A file with more of them, a line each: `NAME=value`. [`Entry::expand`] asks its lookup for the text of this file, as
    /// `envFile:` and what is here, and puts its variables into `env`, where those of the entry win. A relative path is
    /// relative to the folder of the configuration file.
    pub env_file: Option<Box<str>>,
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
    /// Whether the server is first tried with the older HTTP+SSE, and with Streamable HTTP after that; otherwise the other
    /// way around. Default: `false`.
    pub sse: bool,
    /// Whether the server is asked for a stream of what it sends on its own ([`Options::listen`]). Default: `true`. It never
    /// asks where the host does not.
    pub get_stream: bool,
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
        Self::new(Endpoint::Stdio(Stdio { command, args: Vec::new(), env: Texts::new(), env_file: None, cwd: None }))
    }

    /// An entry for a URL, with the defaults.
    pub fn http(url: impl Into<Box<str>>) -> Self {
        let (url, headers) = (url.into(), Texts::new());
        Self::new(Endpoint::Http(Http { url, sse: false, get_stream: true, headers, auth: None, oauth: None }))
    }

    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            enabled: true,
            timeout: Self::TIMEOUT,
            max_timeout: None,
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
    /// `timeout` bounds the time of a request without progress, `max_timeout` the whole of it. `connect_timeout` bounds the opening of the transport, the handshake and discovery together. The
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
        if let Endpoint::Http(http) = &self.endpoint {
            options.listen &= http.get_stream;
        }
        options.capabilities.elicitation &= self.elicitation;
        options.capabilities.elicitation_url &= self.elicitation;
        let timeouts = &mut options.timeouts;
        timeouts.request_max = self.max_timeout.unwrap_or(timeouts.request_max.max(self.timeout));
        timeouts.request = self.timeout.min(timeouts.request_max);
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
        let mut blank = match self.endpoint {
            Endpoint::Stdio(_) => Self::stdio(""),
            Endpoint::Http(_) => Self::http(""),
        };
        if let (Endpoint::Http(blank), Endpoint::Http(own)) = (&mut blank.endpoint, &self.endpoint) {
            blank.get_stream = own.get_stream;
        }
        let Self { timeout, max_timeout, connect_timeout, supports_parallel_tool_calls, trust, .. } = *self;
        let Self { protocol, keepalive_interval, elicitation, .. } = *self;
        let sampling = self.sampling.clone();
        let session = Self { protocol, keepalive_interval, elicitation, sampling, ..blank };
        Self { timeout, max_timeout, connect_timeout, supports_parallel_tool_calls, trust, ..session }.text()
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

#[cfg(feature = "oauth")]
impl Entry {
    /// The options of the authorization of this server: `options`, which describe the host, with this entry's settings
    /// applied. `None` unless the entry has `auth: oauth` (feature `oauth`).
    ///
    /// The host's clients and its assertion ([`Flow::JwtBearer`]) stay with the authorization server that the host
    /// names, whichever one the entry names. A secret of the host that names none, and options of an entry that would send the
    /// assertion to another one, are refused: [`OAuthConfigError::Issuer`](crate::binding::oauth::OAuthConfigError::Issuer).
    ///
    /// ```
    /// use mcp_proto::binding::oauth::OAuthOptions;
    /// use mcp_proto::host::config::{Configuration, Entry};
    ///
    /// let json = r#"{"docs": {"url": "https://example.com/mcp", "auth": "oauth", "oauth": {"redirect_port": 9000}}}"#;
    /// let configuration: Configuration = serde_json::from_str(json).unwrap();
    /// let host = OAuthOptions::new("my-host", "http://127.0.0.1:8765/callback");
    /// let options = configuration.servers["docs"].oauth(host).unwrap();
    /// assert_eq!(&*options.redirect_uri, "http://127.0.0.1:9000/callback");
    /// ```
    pub fn oauth(&self, mut options: OAuthOptions) -> Option<OAuthOptions> {
        let Endpoint::Http(http) = &self.endpoint else { return None };
        match &http.auth {
            Some(Auth::OAuth) => {}
            Some(Auth::Other(_)) | None => return None,
        }
        let Some(oauth) = &http.oauth else { return Some(options) };
        if let Some(uri) = oauth.redirect_port.and_then(|port| with_port(&options.redirect_uri, port)) {
            options.redirect_uri = uri.into();
        }
        if let Some(uri) = &oauth.redirect_uri {
            let port = port_of(&options.redirect_uri).unwrap_or_default();
            options.redirect_uri = uri.replace("{port}", &port).into();
        }
        // What the host configured stays with its authorization server.
        let (own, assertion) = (options.tolerance.issuer.clone(), options.issuer_of_assertion().map(Box::<str>::from));
        for client in &mut options.registered {
            client.issuer = client.issuer.take().or_else(|| own.clone());
        }
        if let Some(id) = &oauth.client_id {
            let mut client = RegisteredClient::new(id.clone());
            client.secret = oauth.client_secret.as_deref().map(Secret::new);
            client.issuer.clone_from(&oauth.issuer);
            options.registered = [client].into();
        }
        options.client_metadata_url = oauth.client_metadata_url.clone().or(options.client_metadata_url);
        // A secret of the host that belongs to no authorization server is an error, and not the entry's to give away.
        let is_unnamed = |client: &RegisteredClient| client.issuer.is_none() && options.is_confidential(client);
        let has_unnamed = oauth.client_id.is_none() && options.registered.iter().any(is_unnamed);
        options.tolerance.issuer = oauth.issuer.clone().or(own).filter(|_| !has_unnamed);
        options.scopes = oauth.scopes.as_ref().map(|scopes| scopes.join(" ").into()).or(options.scopes);
        match oauth.grant {
            OAuthGrant::AuthorizationCode => {}
            OAuthGrant::ClientCredentials => options.flow = Flow::ClientCredentials,
        }
        let is_moved = assertion.is_some() && options.issuer_of_assertion() != assertion.as_deref();
        if is_moved && matches!(options.flow, Flow::JwtBearer(_)) {
            // An assertion that belongs to no authorization server is an error.
            options.registered.clear();
            options.tolerance.issuer = None;
        }
        Some(options)
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
        let Self { command, args, env, env_file, cwd } = self;
        let env: Vec<_> = env.keys().collect();
        f.debug_struct("Stdio")
            .field("command", command)
            .field("args", &args.len())
            .field("env", &env)
            .field("env_file", env_file)
            .field("cwd", cwd)
            .finish()
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url, sse, get_stream, headers, auth, oauth } = self;
        let headers: Vec<_> = headers.keys().collect();
        f.debug_struct("Http")
            .field("url", &shown(url))
            .field("sse", sse)
            .field("get_stream", get_stream)
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
            Endpoint::Stdio(Stdio { command, args, env, env_file, cwd }) => {
                map.always("command", command)?;
                map.unless(args.is_empty(), "args", args)?;
                map.unless(env.is_empty(), "env", env)?;
                map.unless(env_file.is_none(), "env_file", env_file)?;
                map.unless(cwd.is_none(), "cwd", cwd)?;
            }
            Endpoint::Http(Http { url, sse, get_stream, headers, auth, oauth }) => {
                map.always("url", url)?;
                map.unless(!sse, "transport", &"sse")?;
                map.unless(*get_stream, "get_stream", get_stream)?;
                map.unless(headers.is_empty(), "headers", headers)?;
                map.unless(auth.is_none(), "auth", &auth.as_ref().map(Auth::as_str))?;
                map.unless(oauth.is_none(), "oauth", oauth)?;
            }
        }
        map.unless(self.enabled, "enabled", &self.enabled)?;
        map.unless(self.timeout == Self::TIMEOUT, "timeout", &Seconds(self.timeout))?;
        let max_timeout = self.max_timeout.map(Seconds);
        map.unless(max_timeout.is_none(), "max_timeout", &max_timeout)?;
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

/// Which eras of the protocol are tried with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Protocol {
    /// `auto`: `server/discover` first, then `initialize` ([`Eras::Auto`]).
    Auto,
    /// `modern`: only the newest version of the modern era ([`Eras::ModernOnly`]).
    Modern,
    /// `legacy`: only `initialize` ([`Eras::LegacyOnly`]).
    Legacy,
}

impl Protocol {
    pub(super) const ALL: [Self; 3] = [Self::Auto, Self::Modern, Self::Legacy];

    /// The value in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Modern => "modern",
            Self::Legacy => "legacy",
        }
    }

    /// The option of a session.
    pub const fn eras(self) -> Eras {
        match self {
            Self::Auto => Eras::Auto,
            Self::Modern => Eras::ModernOnly(ProtocolVersion::NEWEST_MODERN),
            Self::Legacy => Eras::LegacyOnly,
        }
    }
}

/// How a token for a server is obtained: the keys under `oauth`. Each overrides an option of the host. Its `Debug` does
/// not show the secret.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OAuth {
    /// The ID of a client that was registered in advance.
    pub client_id: Option<Box<str>>,
    /// Its secret.
    pub client_secret: Option<Box<str>>,
    /// The URL of the client ID metadata document.
    pub client_metadata_url: Option<Box<str>>,
    /// The authorization server to use, of those that the server names. It knows the client in `client_id`; one with a
    /// secret, or without a user, requires it.
    pub issuer: Option<Box<str>>,
    /// The scopes to request, instead of those that the server names.
    pub scopes: Option<Vec<Box<str>>>,
    /// Where the user's browser is redirected; `{port}` stands for the port of the host's redirect URI.
    pub redirect_uri: Option<Box<str>>,
    /// The port of the host's redirect URI.
    pub redirect_port: Option<u16>,
    /// How the token is obtained.
    pub grant: OAuthGrant,
}

/// How a token is obtained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OAuthGrant {
    /// `authorization_code`: a user authorizes in a browser.
    #[default]
    AuthorizationCode,
    /// `client_credentials`: the client acts on its own behalf, without a user.
    ClientCredentials,
}

impl OAuthGrant {
    /// The value in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AuthorizationCode => "authorization_code",
            Self::ClientCredentials => "client_credentials",
        }
    }
}

impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client_id, client_metadata_url, issuer, scopes, redirect_uri, redirect_port, grant, .. } = self;
        f.debug_struct("OAuth")
            .field("client_id", client_id)
            .field("client_metadata_url", client_metadata_url)
            .field("issuer", issuer)
            .field("scopes", scopes)
            .field("redirect_uri", redirect_uri)
            .field("redirect_port", redirect_port)
            .field("grant", grant)
            .finish_non_exhaustive()
    }
}

/// Without default values.
impl Serialize for OAuth {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { client_id, client_secret, client_metadata_url, issuer, .. } = self;
        let mut map = Written(serializer.serialize_map(None)?);
        map.unless(client_id.is_none(), "client_id", client_id)?;
        map.unless(client_secret.is_none(), "client_secret", client_secret)?;
        map.unless(client_metadata_url.is_none(), "client_metadata_url", client_metadata_url)?;
        map.unless(issuer.is_none(), "issuer", issuer)?;
        map.unless(self.scopes.is_none(), "scopes", &self.scopes)?;
        map.unless(self.redirect_uri.is_none(), "redirect_uri", &self.redirect_uri)?;
        map.unless(self.redirect_port.is_none(), "redirect_port", &self.redirect_port)?;
        map.unless(self.grant == OAuthGrant::default(), "grant", &self.grant.as_str())?;
        map.0.end()
    }
}

/// Limits on a server's sampling requests (`sampling/createMessage`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sampling {
    /// Whether the server may send them. Default: `true`.
    pub enabled: bool,
    /// The model to use, regardless of the server's preference.
    pub model: Option<Box<str>>,
    /// Maximum tokens of one response. Default: 4,096.
    pub max_tokens_cap: u64,
    /// Timeout of one response. Default: 30 s.
    pub timeout: Duration,
    /// Maximum requests per minute. Default: 10.
    pub max_rpm: u32,
    /// The models that the server may request; empty allows any.
    pub allowed_models: Vec<Box<str>>,
    /// Maximum consecutive rounds with tools; 0 allows none. Default: 5.
    pub max_tool_rounds: u32,
    /// Log level; the embedder interprets it.
    pub log_level: Option<Box<str>>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            enabled: true,
            model: None,
            max_tokens_cap: 4096,
            timeout: Duration::from_secs(30),
            max_rpm: 10,
            allowed_models: Vec::new(),
            max_tool_rounds: 5,
            log_level: None,
        }
    }
}

impl Sampling {
    /// The limits that a client enforces. The embedder applies `log_level`.
    pub fn policy(&self) -> SamplingPolicy {
        SamplingPolicy {
            per_minute: Some(self.max_rpm),
            max_tokens: Some(self.max_tokens_cap),
            model: self.model.clone(),
            models: self.allowed_models.clone(),
            tool_rounds: Some(self.max_tool_rounds),
            timeout: Some(self.timeout),
        }
    }
}

/// As under `sampling`, without default values.
impl Serialize for Sampling {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let default = Self::default();
        let mut map = Written(serializer.serialize_map(None)?);
        map.unless(self.enabled, "enabled", &self.enabled)?;
        map.unless(self.model.is_none(), "model", &self.model)?;
        map.unless(self.max_tokens_cap == default.max_tokens_cap, "max_tokens_cap", &self.max_tokens_cap)?;
        map.unless(self.timeout == default.timeout, "timeout", &Seconds(self.timeout))?;
        map.unless(self.max_rpm == default.max_rpm, "max_rpm", &self.max_rpm)?;
        map.unless(self.allowed_models.is_empty(), "allowed_models", &self.allowed_models)?;
        map.unless(self.max_tool_rounds == default.max_tool_rounds, "max_tool_rounds", &self.max_tool_rounds)?;
        map.unless(self.log_level.is_none(), "log_level", &self.log_level)?;
        map.0.end()
    }
}

/// Which of a server's tools and utility tools a model sees.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolPolicy {
    /// The tools to use, by the server's own names; `*` stands for any text, `?` for any
    /// character, `[a-z]` for one of these, `[!a-z]` for another. `None` includes all tools, an empty list
    /// none.
    pub include: Option<Vec<Box<str>>>,
    /// The tools not to use. Has no effect if `include` is set.
    pub exclude: Vec<Box<str>>,
    /// Whether to add `list_resources` and `read_resource`. Default: `true`.
    pub resources: bool,
    /// Whether to add `list_prompts` and `get_prompt`. Default: `true`.
    pub prompts: bool,
    /// What a model sees of a tool in place of the server's own, by the server's names.
    pub overrides: BTreeMap<Box<str>, ToolOverride>,
    /// The most bytes of JSON that a result of a tool or a utility tool may have for a model ([`bound`](Self::bound),
    /// [`bound_utility`](Self::bound_utility)), at least [`results::MIN_BYTES`]. `None` sets no bound.
    pub max_result_bytes: Option<usize>,
}

/// What a model sees of a tool in place of what the server says. The tool is called by the server's own name, which
/// the filters have, too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ToolOverride {
    /// The name from which the exposed name is formed ([`names`](crate::host::names)): `issue` is exposed as
    /// `mcp_github_issue`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
    /// Display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<Box<str>>,
    /// Description for the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Box<str>>,
}

impl Default for ToolPolicy {
    fn default() -> Self {
        Self {
            include: None,
            exclude: Vec::new(),
            resources: true,
            prompts: true,
            overrides: BTreeMap::new(),
            max_result_bytes: None,
        }
    }
}

impl ToolPolicy {
    /// A canonical text: equal exactly for policies with the same meaning.
    pub(in crate::host) fn text(&self) -> Box<str> {
        serde_json::to_string(self).unwrap_or_default().into()
    }

    /// The tools with another name for the model: the server's names, each with the name that replaces it, for
    /// [`Names::set_overrides`](crate::host::names::Names::set_overrides).
    pub fn name_overrides(&self) -> impl Iterator<Item = (&str, &str)> {
        self.overrides.iter().filter_map(|(tool, own)| Some((&**tool, own.name.as_deref()?)))
    }

    /// The result of a tool within `max_result_bytes` ([`results::bound`]); unchanged if no bound is set.
    pub fn bound<'a>(&self, result: &'a RawValue) -> Bounded<'a> {
        self.max_result_bytes.map_or(Bounded::whole(result), |max_bytes| results::bound(result, max_bytes))
    }

    /// The result of a utility tool within `max_result_bytes` ([`results::bound_utility`]); unchanged if no bound is set.
    pub fn bound_utility<'a>(&self, utility: Utility, result: &'a RawValue) -> Bounded<'a> {
        let bounded = |max_bytes| results::bound_utility(utility, result, max_bytes);
        self.max_result_bytes.map_or(Bounded::whole(result), bounded)
    }

    /// Whether the tool with this name, the server's own, passes the filters.
    ///
    /// ```
    /// use mcp_proto::host::config::ToolPolicy;
    ///
    /// let mut policy = ToolPolicy::default();
    /// policy.exclude = vec!["delete-*".into()];
    /// assert!(!policy.admits("delete-issue"));
    /// policy.include = Some(vec!["delete-issue".into()]);
    /// assert!(policy.admits("delete-issue"), "include wins");
    /// assert!(!policy.admits("list-issues"));
    /// ```
    pub fn admits(&self, tool: &str) -> bool {
        match &self.include {
            Some(include) => include.iter().any(|pattern| glob::matches(pattern, tool)),
            None => !self.exclude.iter().any(|pattern| glob::matches(pattern, tool)),
        }
    }
}

/// A policy's patterns, prepared for many tools: names are looked up in a set.
pub(in crate::host) struct Filter<'a> {
    names: BTreeSet<&'a str>,
    globs: Vec<&'a str>,
    admits: bool,
}

impl<'a> Filter<'a> {
    pub(in crate::host) fn new(policy: &'a ToolPolicy) -> Self {
        let patterns = policy.include.as_ref().unwrap_or(&policy.exclude).iter().map(|pattern| &**pattern);
        let (globs, names): (Vec<_>, Vec<_>) = patterns.partition(|pattern| glob::is_glob(pattern));
        Self { names: names.into_iter().collect(), globs, admits: policy.include.is_some() }
    }

    /// See [`ToolPolicy::admits`].
    pub(in crate::host) fn admits(&self, tool: &str) -> bool {
        let named = self.names.contains(tool) || self.globs.iter().any(|pattern| glob::matches(pattern, tool));
        named == self.admits
    }
}

impl ToolOverride {
    /// Replaces title and description of a tool.
    pub(in crate::host) fn apply<'a>(&'a self, tool: &mut Tool<'a>) {
        if let Some(title) = &self.title {
            tool.title = Some(Cow::Borrowed(title));
        }
        if let Some(description) = &self.description {
            tool.description = Some(Cow::Borrowed(description));
        }
    }
}

/// As under `tools`, without default values.
impl Serialize for ToolPolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { include, exclude, resources, prompts, overrides, max_result_bytes } = self;
        let mut map = Written(serializer.serialize_map(None)?);
        map.unless(include.is_none(), "include", include)?;
        map.unless(exclude.is_empty(), "exclude", exclude)?;
        map.unless(*resources, "resources", resources)?;
        map.unless(*prompts, "prompts", prompts)?;
        map.unless(overrides.is_empty(), "overrides", overrides)?;
        map.unless(max_result_bytes.is_none(), "max_result_bytes", max_result_bytes)?;
        map.0.end()
    }
}

/// A map that is being serialized.
pub(super) struct Written<M>(pub(super) M);

impl<M: SerializeMap> Written<M> {
    pub(super) fn always(&mut self, key: &'static str, value: &impl Serialize) -> Result<(), M::Error> {
        self.0.serialize_entry(key, value)
    }

    pub(super) fn unless(&mut self, default: bool, key: &'static str, value: &impl Serialize) -> Result<(), M::Error> {
        if default { Ok(()) } else { self.always(key, value) }
    }
}

/// Seconds, as an integer if they are whole.
pub(super) struct Seconds(pub(super) Duration);

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.subsec_nanos() {
            0 => serializer.serialize_u64(self.0.as_secs()),
            _ => serializer.serialize_f64(self.0.as_secs_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Filter, ToolPolicy};
    use alloc::boxed::Box;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn patterns() -> impl Strategy<Value = Vec<Box<str>>> {
        prop::collection::vec("[ab*]{0,4}".prop_map(Box::from), 0..6)
    }

    proptest! {
        #[test]
        fn a_prepared_filter_equals_its_policy(
            include in prop::option::of(patterns()),
            exclude in patterns(),
            tools in prop::collection::vec("[ab*]{0,4}", 0..8),
        ) {
            let policy = ToolPolicy { include, exclude, ..ToolPolicy::default() };
            let filter = Filter::new(&policy);
            for tool in &tools {
                prop_assert_eq!(filter.admits(tool), policy.admits(tool), "{}", tool);
            }
        }
    }
}
