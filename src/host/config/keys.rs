//! The keys of an entry, each declared once: its field, default, kind, the servers that it is for, and what a change of it
//! affects. Reading, writing, comparing, expanding, showing, suggestions and the [`reference`] follow.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::entry::{Auth, Endpoint, OAuthGrant, Protocol, Texts};
use super::expand::Expansion;
use super::kind::{
    Arguments, Authentication, Count, Enabled, Expanded, Flag, Headers, Interval, Kind, Lifetime, Link, ListOrText,
    MaxResultBytes, Opt, Overrides, Program, Registration, Required, SamplingLimits, Seconds, Secret, Sse, Text, Tools,
    Variables, Words,
};
use super::read::{Members, Reader};

/// A key of an entry.
#[derive(Clone, Copy)]
pub(super) struct Key {
    pub(super) name: &'static str,
    /// Its path in an entry: `tools.include`.
    pub(super) path: &'static str,
    /// Other keys that add to its value.
    pub(super) others: &'static [&'static str],
    pub(super) servers: Servers,
    pub(super) scope: Scope,
}

/// Which servers a key has an effect on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Servers {
    Both,
    Program,
    Url,
}

/// What a change of a key's value affects.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Which server it is, or when it is connected: a new session is needed.
    Server,
    /// How its sessions behave: a new session is needed.
    Session,
    /// How a running session behaves.
    Live,
    /// What a model sees.
    Model,
}

/// What has keys: an entry, or a map within it.
pub(super) trait Keys {
    fn keys() -> Vec<Key>;

    /// Adds the paths of the keys whose values differ.
    fn compare(&self, new: &Self, keys: &mut Vec<&'static str>);

    /// Replaces the variables in the values.
    fn expand_keys(&mut self, expansion: &mut Expansion<'_, '_>);
}

/// The name of a key: that of its field unless it has another.
macro_rules! name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $name:literal) => {
        $name
    };
}

macro_rules! servers {
    (Both) => {
        "both"
    };
    (Program) => {
        "program"
    };
    (Url) => {
        "URL"
    };
}

macro_rules! keys {
    ($(
        $(#[doc = $about:literal])+
        $Struct:ident in $prefix:literal $(with $(#[doc = $more:literal])+ $extra:ident: $Extra:ty)? {
            $(
                $(#[doc = $doc:literal])+
                $field:ident $(= $name:literal)?: $Type:ty, $default:expr, $kind:expr, $servers:ident, $scope:ident;
            )+
        }
    )+) => {
        $(
            $(#[doc = $about])+
            #[derive(Clone, PartialEq, Eq)]
            #[non_exhaustive]
            pub struct $Struct {
                $($(#[doc = $more])+ pub $extra: $Extra,)?
                $($(#[doc = $doc])+ pub $field: $Type,)+
            }

            impl $Struct {
                /// With the defaults.
                pub(super) fn new($($extra: $Extra)?) -> Self {
                    Self { $($extra,)? $($field: $default,)+ }
                }

                /// Of the keys that have an effect on this server. One that is absent or wrong has its default.
                pub(super) fn read(reader: &mut Reader<'_>, members: &Members<'_> $(, $extra: $Extra)?) -> Self {
                    let mut read = Self::new($($extra)?);
                    $(
                        if reader.is_for(Servers::$servers)
                            && let Some(value) = $kind.read(reader, members, name!($field $($name)?))
                        {
                            read.$field = value;
                        }
                    )+
                    read
                }

                /// Writes the keys of these scopes that do not have their defaults, and those that are required.
                pub(super) fn write<M: SerializeMap>(&self, map: &mut M, scopes: &[Scope]) -> Result<(), M::Error> {
                    $(
                        let kind = $kind;
                        let is_written = Kind::<$Type>::is_required(&kind) || self.$field != $default;
                        if is_written && scopes.contains(&Scope::$scope) {
                            map.serialize_entry(name!($field $($name)?), &kind.written(&self.$field))?;
                        }
                    )+
                    Ok(())
                }
            }

            impl Keys for $Struct {
                fn keys() -> Vec<Key> {
                    [$(Key {
                        name: name!($field $($name)?),
                        path: concat!($prefix, name!($field $($name)?)),
                        others: Kind::<$Type>::others(&$kind),
                        servers: Servers::$servers,
                        scope: Scope::$scope,
                    },)+].into()
                }

                fn compare(&self, new: &Self, keys: &mut Vec<&'static str>) {
                    $($kind.compare(&self.$field, &new.$field, concat!($prefix, name!($field $($name)?)), keys);)+
                }

                fn expand_keys(&mut self, expansion: &mut Expansion<'_, '_>) {
                    $($kind.expand(&mut self.$field, concat!($prefix, name!($field $($name)?)), expansion);)+
                }
            }

            impl fmt::Debug for $Struct {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    let mut shown = f.debug_struct(stringify!($Struct));
                    $(shown.field(stringify!($extra), &self.$extra);)?
                    $(shown.field(stringify!($field), &$kind.shown(&self.$field));)+
                    shown.finish()
                }
            }
        )+

        /// The keys of a server's entry.
        ///
        /// | key | server | meaning |
        /// | --- | --- | --- |
        $($(
            #[doc = concat!("| `", $prefix, name!($field $($name)?), "` | ", servers!($servers), " |", $($doc,)+ " |")]
        )+)+
        pub mod reference {}
    };
}

keys! {
    /// A server's configuration.
    Entry in "" with /// How the server is reached: `command` or `url`.
        endpoint: Endpoint
    {
        /// Whether the server is used. Default: `true`. `disabled` is the opposite.
        enabled: bool, true, Enabled, Both, Server;
        /// Timeout of a tool call, in seconds; progress restarts it. Default: 120 s.
        timeout: Duration, Self::TIMEOUT, Seconds, Both, Live;
        /// Maximum time of a tool call, in seconds, whatever progress is reported. Default: that of the host
        /// ([`Timeouts::request_max`](crate::Timeouts::request_max), 10 min), and at least `timeout`.
        max_timeout: Option<Duration>, None, Opt(Seconds), Both, Live;
        /// Timeout of the first connection, in seconds. Default: 60 s.
        connect_timeout: Duration, Self::CONNECT_TIMEOUT, Seconds, Both, Live;
        /// Whether tool calls to this server may run in parallel. Default: `false`.
        supports_parallel_tool_calls: bool, false, Flag, Both, Live;
        /// Whether the annotations of its tools are believed, see [`Options::trust`](crate::Options::trust). `None` leaves
        /// the host's own choice.
        trust: Option<bool>, None, Opt(Flag), Both, Live;
        /// Which eras of the protocol are tried: `auto`, `modern` or `legacy`. `None` leaves the host's own choice.
        protocol: Option<Protocol>, None, Opt(Words(&Protocol::ALL, Protocol::as_str, "`auto`, `modern` or `legacy`")),
            Both, Session;
        /// How long the server may be silent until it is sent a keepalive request, in seconds
        /// ([`Keepalive::interval`](crate::Keepalive::interval)); zero or `false` turns keepalive off. `None` leaves the
        /// host's own choice.
        keepalive_interval: Option<Duration>, None, Opt(Interval), Both, Session;
        /// How long nothing may use the server until its connection is closed, which stops its program, in seconds. The
        /// server is started again when it is used. `None`, zero or `false`: however long.
        ///
        /// A server is used by calls, and by other commands for its session. It is not closed while a request is in
        /// flight, a task runs, a server request waits for a response, or a resource has a subscription. See
        /// [`HubEvent::IdleShutdown`](crate::host::hub::HubEvent::IdleShutdown).
        idle_timeout: Option<Duration>, None, Opt(Lifetime), Program, Server;
        /// How old the connection may be until it is closed, in seconds, under the same conditions as by `idle_timeout`.
        /// `None`, zero or `false`: however old.
        max_lifetime: Option<Duration>, None, Opt(Lifetime), Program, Server;
        /// Whether the server may ask the user for input, by a form or a URL. Default: `true`. It never adds a capability
        /// that the host does not declare.
        elicitation: bool, true, Flag, Both, Session;
        /// Which of its tools and utility tools a model sees; a list is `tools.include`.
        tools: ToolPolicy, ToolPolicy::default(), Tools, Both, Model;
        /// Limits on the server's sampling requests; `false` allows none. `None` leaves the host's own policy.
        sampling: Option<Box<Sampling>>, None, Opt(SamplingLimits), Both, Session;
    }

    /// A server started as a program. Its `Debug` shows the names in `env` without their values, and the number of
    /// arguments.
    Stdio in "" {
        /// The program. A list is the program with its first arguments.
        command: Box<str>, Box::default(), Expanded(Required(Program)), Program, Server;
        /// Its arguments.
        args: Vec<Box<str>>, Vec::new(), Expanded(Arguments), Program, Server;
        /// Environment variables. `env_keys` is a list of variables of the host that the program gets, too.
        env: Texts, Texts::new(), Expanded(Variables), Program, Server;
        /// A file with more of them, a line each: `NAME=value`. [`Entry::expand`] asks its lookup for the text of this file,
        /// as `envFile:` and what is here, and puts its variables into `env`, where those of the entry win. A relative path
        /// is relative to the folder of the configuration file.
        env_file: Option<Box<str>>, None, Opt(Expanded(Text("a file"))), Program, Server;
        /// Working directory, as in the `mcpServers` files of other clients. `None` is the host's.
        cwd: Option<Box<str>>, None, Opt(Expanded(Text("a folder"))), Program, Server;
    }

    /// A server reached by URL. Its `Debug` shows the names in `headers` without their values, and the URL without user
    /// information and query.
    Http in "" {
        /// The URL.
        url: Box<str>, Box::default(), Expanded(Required(Link("the server's address"))), Url, Server;
        /// Whether the server is first tried with the older HTTP+SSE, and with Streamable HTTP after that; otherwise the
        /// other way around. `transport` or `type` says so with `sse`; `stdio` and `http` are what `command` and `url` say.
        sse = "transport": bool, false, Sse, Both, Server;
        /// Whether the server is asked for a stream of what it sends on its own
        /// ([`Options::listen`](crate::Options::listen)). Default: `true`. It never asks where the host does not.
        get_stream: bool, true, Flag, Url, Session;
        /// Headers of every request. `env_http_headers` has the names of variables with the values of headers,
        /// `bearer_token_env_var` the name of one with a token.
        headers: Texts, Texts::new(), Expanded(Headers), Url, Server;
        /// How the user authenticates, in addition to `headers`: `oauth`.
        auth: Option<Auth>, None, Opt(Authentication), Url, Server;
        /// How a token is obtained, with `auth: oauth`.
        oauth: Option<Box<OAuth>>, None, Opt(Registration), Url, Server;
    }

    /// How a token for a server is obtained: the keys under `oauth`. Each overrides an option of the host. Its `Debug` does
    /// not show the secret.
    OAuth in "oauth." {
        /// The ID of a client that was registered in advance.
        client_id: Option<Box<str>>, None, Opt(Expanded(Text("the ID of a registered client"))), Url, Server;
        /// Its secret.
        client_secret: Option<Box<str>>, None, Opt(Expanded(Secret(Text("the secret of a registered client")))), Url, Server;
        /// The URL of the client ID metadata document.
        client_metadata_url: Option<Box<str>>, None, Opt(Expanded(Link("the URL of a document"))), Url, Server;
        /// The authorization server to use, of those that the server names. It knows the client in `client_id`; one with a
        /// secret, or without a user, requires it.
        issuer: Option<Box<str>>, None, Opt(Expanded(Link("the URL of an authorization server"))), Url, Server;
        /// The scopes to request, instead of those that the server names: a list, or a string.
        scopes: Option<Vec<Box<str>>>, None, Opt(Expanded(ListOrText)), Url, Server;
        /// Where the user's browser is redirected; `{port}` stands for the port of the host's redirect URI.
        redirect_uri: Option<Box<str>>, None, Opt(Expanded(Link("a URL"))), Url, Server;
        /// The port of the host's redirect URI.
        redirect_port: Option<u16>, None, Opt(Count), Url, Server;
        /// How the token is obtained: `authorization_code`, the default, or `client_credentials` without a user.
        grant: OAuthGrant, OAuthGrant::default(),
            Words(&OAuthGrant::ALL, OAuthGrant::as_str, "`authorization_code` or `client_credentials`"), Url, Server;
    }

    /// Which of a server's tools and utility tools a model sees.
    ToolPolicy in "tools." {
        /// The tools to use, by the server's own names: a list, or a string; `*` stands for any text, `?` for any
        /// character, `[a-z]` for one of these, `[!a-z]` for another. `None` includes all tools, an empty list none.
        include: Option<Vec<Box<str>>>, None, Opt(ListOrText), Both, Model;
        /// The tools not to use. Has no effect if `include` is set.
        exclude: Vec<Box<str>>, Vec::new(), ListOrText, Both, Model;
        /// Whether to add `list_resources` and `read_resource`. Default: `true`.
        resources: bool, true, Flag, Both, Model;
        /// Whether to add `list_prompts` and `get_prompt`. Default: `true`.
        prompts: bool, true, Flag, Both, Model;
        /// What a model sees of a tool in place of the server's own, by the server's names.
        overrides: BTreeMap<Box<str>, ToolOverride>, BTreeMap::new(), Overrides, Both, Model;
        /// The most bytes of JSON that a result of a tool or a utility tool may have for a model
        /// ([`bound`](ToolPolicy::bound), [`bound_utility`](ToolPolicy::bound_utility)), at least
        /// [`MIN_BYTES`](crate::host::results::MIN_BYTES). `None` or 0 sets no bound.
        max_result_bytes: Option<usize>, None, Opt(MaxResultBytes), Both, Model;
    }

    /// What a model sees of a tool in place of what the server says. The tool is called by the server's own name, which
    /// the filters have, too.
    ToolOverride in "tools.overrides.TOOL." {
        /// The name from which the exposed name is formed ([`names`](crate::host::names)): `issue` is exposed as
        /// `mcp_github_issue`.
        name: Option<Box<str>>, None, Opt(Text("the name for the model")), Both, Model;
        /// Display name.
        title: Option<Box<str>>, None, Opt(Text("the title to show")), Both, Model;
        /// Description for the model.
        description: Option<Box<str>>, None, Opt(Text("the description for the model")), Both, Model;
    }

    /// Limits on a server's sampling requests (`sampling/createMessage`).
    Sampling in "sampling." {
        /// Whether the server may send them. Default: `true`.
        enabled: bool, true, Flag, Both, Session;
        /// The model to use, regardless of the server's preference.
        model: Option<Box<str>>, None, Opt(Text("a model's name")), Both, Session;
        /// Maximum tokens of one response. Default: 4,096.
        max_tokens_cap: u64, 4096, Count, Both, Session;
        /// Timeout of one response, in seconds. Default: 30 s.
        timeout: Duration, Duration::from_secs(30), Seconds, Both, Session;
        /// Maximum requests per minute. Default: 10.
        max_rpm: u32, 10, Count, Both, Session;
        /// The models that the server may request: a list, or a string; empty allows any.
        allowed_models: Vec<Box<str>>, Vec::new(), ListOrText, Both, Session;
        /// Maximum consecutive rounds with tools; 0 allows none. Default: 5.
        max_tool_rounds: u32, 5, Count, Both, Session;
        /// Log level; the embedder interprets it.
        log_level: Option<Box<str>>, None, Opt(Text("`debug`, `info` or `warning`")), Both, Session;
    }
}

/// The keys of an entry, those of both kinds of servers.
pub(super) fn of_entry() -> Vec<Key> {
    [Entry::keys(), Stdio::keys(), Http::keys()].concat()
}

/// The names of keys, and of those that add to them.
pub(super) fn names(keys: &[Key]) -> Vec<&'static str> {
    keys.iter().flat_map(|key| [key.name].into_iter().chain(key.others.iter().copied())).collect()
}

const ALL: [Scope; 4] = [Scope::Server, Scope::Session, Scope::Live, Scope::Model];

/// An entry as it is written in the `mcp_servers` map: the keys of these scopes, without default values.
pub(super) struct Written<'a> {
    pub(super) entry: &'a Entry,
    pub(super) scopes: &'a [Scope],
}

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { entry, scopes } = self;
        let mut map = serializer.serialize_map(None)?;
        match &entry.endpoint {
            Endpoint::Stdio(stdio) => stdio.write(&mut map, scopes)?,
            Endpoint::Http(http) => http.write(&mut map, scopes)?,
        }
        entry.write(&mut map, scopes)?;
        map.end()
    }
}

/// As in the `mcp_servers` map, without default values.
impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Written { entry: self, scopes: &ALL }.serialize(serializer)
    }
}

/// The maps within an entry.
macro_rules! maps {
    ($($Struct:ident),+) => {
        $(
            /// Without default values.
            impl Serialize for $Struct {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    let mut map = serializer.serialize_map(None)?;
                    self.write(&mut map, &ALL)?;
                    map.end()
                }
            }

            impl Default for $Struct {
                fn default() -> Self {
                    Self::new()
                }
            }
        )+
    };
}

maps!(OAuth, ToolPolicy, ToolOverride, Sampling);
