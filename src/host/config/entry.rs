//! The entry of a server.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use serde_json::value::RawValue;

use super::keys::{Entry, Http, Sampling, Scope, Stdio, ToolOverride, ToolPolicy, Written};
use crate::ProtocolVersion;
#[cfg(feature = "oauth")]
use crate::binding::oauth::{Flow, OAuthOptions, RegisteredClient, Secret, port_of, with_port};
use crate::catalog::{Fingerprint, FingerprintKey, Tool};
use crate::client::{Eras, Keepalive, Options, SamplingPolicy};
use crate::host::results::Bounded;
use crate::host::{Utility, glob, results};

/// Strings by name: environment variables or headers.
pub type Texts = BTreeMap<Box<str>, Box<str>>;

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Endpoint {
    /// A program that the host starts.
    Stdio(Stdio),
    /// A URL.
    Http(Http),
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
        Self::new(Endpoint::Stdio(Stdio { command: command.into(), ..Stdio::new() }))
    }

    /// An entry for a URL, with the defaults.
    pub fn http(url: impl Into<Box<str>>) -> Self {
        Self::new(Endpoint::Http(Http { url: url.into(), ..Http::new() }))
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
        let scopes = &[Scope::Session, Scope::Live];
        serde_json::to_string(&Written { entry: self, scopes }).unwrap_or_default().into()
    }

    /// The fingerprint of the entry's meaning: equal for equal entries, however they are written. Saved data of a
    /// server is valid as long as its entry has the same fingerprint.
    pub fn fingerprint(&self, key: FingerprintKey) -> Fingerprint {
        Fingerprint::of(key, serde_json::to_string(self).unwrap_or_default().as_bytes())
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
    pub(super) const ALL: [Self; 2] = [Self::AuthorizationCode, Self::ClientCredentials];

    /// The value in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AuthorizationCode => "authorization_code",
            Self::ClientCredentials => "client_credentials",
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
