//! Reads entries: the keys of every known form, and a warning or an error for each that is not known.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::entry::path;
use super::others::{self, Host, Reading, Transport};
use super::{
    Auth, Endpoint, Entry, Error, Http, OAuth, OAuthGrant, Oddity, Problem, Protocol, Sampling, Stdio, Texts,
    ToolOverride, ToolPolicy, Warning,
};
use crate::host::glob;
use crate::host::results::MIN_BYTES;
use crate::text::cut;

const ENTRY: &[&str] = &[
    "command",
    "args",
    "env",
    "env_file",
    "cwd",
    "url",
    "headers",
    "env_http_headers",
    "bearer_token_env_var",
    "get_stream",
    "env_keys",
    "enabled",
    "disabled",
    "timeout",
    "max_timeout",
    "connect_timeout",
    "supports_parallel_tool_calls",
    "auth",
    "oauth",
    "trust",
    "protocol",
    "keepalive_interval",
    "idle_timeout",
    "idle_timeout_seconds",
    "max_lifetime",
    "max_lifetime_seconds",
    "lifecycle",
    "elicitation",
    "sampling",
    "tools",
    "type",
    "transport",
];

const LIFECYCLE: &[&str] = &["idle_timeout", "idle_timeout_seconds", "max_lifetime", "max_lifetime_seconds"];

const SAMPLING: &[&str] =
    &["enabled", "model", "max_tokens_cap", "timeout", "max_rpm", "allowed_models", "max_tool_rounds", "log_level"];

const OAUTH: &[&str] = &[
    "client_id",
    "client_secret",
    "client_metadata_url",
    "issuer",
    "scopes",
    "redirect_uri",
    "redirect_port",
    "grant",
];

/// The keys that have no effect on a server with a URL.
const PROGRAM: [&str; 10] = [
    "args",
    "env",
    "env_keys",
    "env_file",
    "cwd",
    "idle_timeout",
    "idle_timeout_seconds",
    "max_lifetime",
    "max_lifetime_seconds",
    "lifecycle",
];

/// The keys that have no effect on a program.
const ADDRESS: [&str; 6] = ["headers", "env_http_headers", "bearer_token_env_var", "get_stream", "auth", "oauth"];

/// Where the entry has keys, too, with a final dot.
const TRANSPORT: &str = "transport.";

impl Reader<'_> {
    /// The entry, if it has no errors.
    pub(super) fn entry(&mut self, value: &Value) -> Option<Entry> {
        let before = self.errors.len();
        let entry = self.any_entry(value);
        entry.filter(|_| self.errors.len() == before)
    }

    fn any_entry(&mut self, value: &Value) -> Option<Entry> {
        let Value::Map(members) = value else {
            return self.report_problem(None, Problem::NotAMap { found: value.kind() });
        };
        let mut members = self.members(members, "", ENTRY);
        self.add_transport(&mut members);
        if self.host == Host::Goose
            && let Some((key, Value::Text(word))) = members.get("type")
            && others::BUILT_IN.contains(&&**word)
        {
            return self.report_problem(Some(&key), Problem::BuiltIn { word: word.clone() });
        }
        if let (true, Some((key, _))) = (self.host != Host::Own, members.get("trust")) {
            self.warn(Some(key), Oddity::Trust);
        }
        let endpoint = self.endpoint(&members);
        let disabled = self.boolean(&members, "disabled", false);
        let lifecycle = self.map(&members, "lifecycle", LIFECYCLE);
        let is_program = members.get("command").is_some();
        let places = [is_program.then_some(&members), lifecycle.as_ref().filter(|_| is_program)];
        // Reads everything before returning, so that every problem is reported at once.
        let entry = Entry {
            enabled: self.boolean(&members, "enabled", true) && !disabled,
            timeout: self.seconds(&members, "timeout", Entry::TIMEOUT),
            max_timeout: members.get("max_timeout").map(|_| self.seconds(&members, "max_timeout", Entry::TIMEOUT)),
            connect_timeout: self.seconds(&members, "connect_timeout", Entry::CONNECT_TIMEOUT),
            supports_parallel_tool_calls: self.boolean(&members, "supports_parallel_tool_calls", false),
            trust: members.get("trust").and_then(|(key, value)| self.boolean_value(&key, value)),
            protocol: self.protocol(&members),
            keepalive_interval: self.interval(&members, "keepalive_interval"),
            idle_timeout: self.lifetime(places, ["idle_timeout", "idle_timeout_seconds"]),
            max_lifetime: self.lifetime(places, ["max_lifetime", "max_lifetime_seconds"]),
            elicitation: self.boolean(&members, "elicitation", true),
            tools: self.tools(&members),
            sampling: self.sampling(&members).map(Box::new),
            ..Entry::stdio("")
        };
        Some(Entry { endpoint: endpoint?, ..entry })
    }

    /// Adds the keys of the map that other hosts have under `transport`.
    fn add_transport(&mut self, members: &mut Members<'_>) {
        let is_map = |member: &Member<'_>| member.key == "transport" && matches!(member.value, Value::Map(_));
        let Some(at) = members.values.iter().position(is_map) else { return };
        let Value::Map(map) = members.values.swap_remove(at).value else { return };
        let own = self.members(map, TRANSPORT, ENTRY);
        members.filters.extend(own.filters);
        for member in own.values.into_iter().filter(|member| *member.value != Value::Null) {
            match members.get(member.key) {
                Some((other, _)) => self.report_problem(Some(&member.at), Problem::SameMeaning { other: other.into() }),
                None => {
                    members.values.push(member);
                    None::<()>
                }
            };
        }
    }

    fn endpoint(&mut self, members: &Members<'_>) -> Option<Endpoint> {
        let (has_command, has_url) = (members.get("command").is_some(), members.get("url").is_some());
        let command = self.command(members);
        let url = self.text(members, "url", "the server's address");
        let (more_args, env) = (self.list(members, "args"), self.env(members));
        let (env_file, cwd) = (self.text(members, "env_file", "a file"), self.text(members, "cwd", "a folder"));
        let (headers, auth) = (self.headers(members), self.text(members, "auth", "`oauth`"));
        let auth = auth.map(|word| if &*word == "oauth" { Auth::OAuth } else { Auth::Other(word) });
        let get_stream = self.boolean(members, "get_stream", true);
        let oauth = self.oauth(members);
        let (foreign, needs): (&[&str], _) = match (has_command, has_url) {
            (false, false) => return self.report_problem(None, Problem::NoEndpoint),
            (true, true) => return self.report_problem(None, Problem::TwoEndpoints),
            (true, false) => (&ADDRESS, "url"),
            (false, true) => (&PROGRAM, "command"),
        };
        for (key, _) in foreign.iter().filter_map(|key| members.get(key)) {
            self.warn(Some(key), Oddity::NoEffect { needs });
        }
        let transports = ["type", "transport"].map(|key| self.transport(members, key, has_url));
        let sse = transports.contains(&Some(Transport::Sse));
        if let (true, Some(Auth::Other(_))) = (has_url, &auth) {
            self.warn(Some("auth".into()), Oddity::UnknownAuth);
        }
        if has_url && oauth.is_some() && auth != Some(Auth::OAuth) {
            self.warn(Some("oauth".into()), Oddity::NoEffect { needs: "auth: oauth" });
        }
        Some(match (command, url) {
            (Some((command, mut args)), _) => {
                args.extend(more_args);
                Endpoint::Stdio(Stdio { command, args, env, env_file, cwd })
            }
            (None, url) => {
                Endpoint::Http(Http { url: url?, sse, get_stream, headers, auth, oauth: oauth.map(Box::new) })
            }
        })
    }

    /// The program to start, and the arguments that are in one list with it.
    fn command(&mut self, members: &Members<'_>) -> Option<(Box<str>, Vec<Box<str>>)> {
        const EXPECTED: &str = "the program to start";
        let (key, value) = members.get("command")?;
        let Value::List(_) = value else { return Some((self.text(members, "command", EXPECTED)?, Vec::new())) };
        let mut parts = self.elements(&key, value, false).into_iter();
        match parts.next().filter(|command| !command.trim().is_empty()) {
            Some(command) => Some((command, parts.collect())),
            None => self.report_problem(Some(&key), Problem::Empty { expected: EXPECTED }),
        }
    }

    /// The environment, of which some has its values where the host keeps secrets.
    fn env(&mut self, members: &Members<'_>) -> Texts {
        let mut env = self.texts(members, "env");
        for name in self.list(members, "env_keys") {
            if let Some(reference) = self.reference("env_keys", &name) {
                env.entry(name).or_insert(reference.into());
            }
        }
        env
    }

    /// The headers, of which some have their values in variables.
    fn headers(&mut self, members: &Members<'_>) -> Texts {
        let mut headers = self.texts(members, "headers");
        if let Some((key, _)) = members.get("env_http_headers") {
            for (name, variable) in self.texts(members, "env_http_headers") {
                let at = path(&key, &excerpt(&name));
                self.add_header(&mut headers, &at, name, "", &variable);
            }
        }
        let bearer = self.text(members, "bearer_token_env_var", "the name of a variable");
        if let (Some((key, _)), Some(variable)) = (members.get("bearer_token_env_var"), bearer) {
            self.add_header(&mut headers, &key, "Authorization".into(), "Bearer ", &variable);
        }
        headers
    }

    /// Adds a header whose value is in a variable, after a word.
    fn add_header(&mut self, headers: &mut Texts, key: &str, name: Box<str>, before: &str, variable: &str) {
        if let Some(other) = headers.keys().find(|other| other.eq_ignore_ascii_case(&name)) {
            let other = path("headers", &excerpt(other)).into();
            return self.report_problem(Some(key), Problem::SameMeaning { other }).unwrap_or_default();
        }
        if let Some(reference) = self.reference(key, variable) {
            headers.insert(name, format!("{before}{reference}").into());
        }
    }

    /// `${NAME}` for the name of a variable. Anything else would be read as something else within the braces.
    fn reference(&mut self, key: &str, variable: &str) -> Option<String> {
        if variable.is_empty() || !variable.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return self.report_problem(Some(key), Problem::NotAVariable);
        }
        Some(format!("${{{variable}}}"))
    }

    /// The transport that a key names. `command` or `url` already determines which ones it may be.
    fn transport(&mut self, members: &Members<'_>, key: &str, has_url: bool) -> Option<Transport> {
        let word = self.text(members, key, "`stdio` or `http`")?;
        let (at, _) = members.get(key)?;
        let Some(transport) = Transport::named(&word) else {
            self.warn(Some(at), Oddity::UnknownWord { word: excerpt(&word) });
            return None;
        };
        if (transport != Transport::Program) != has_url {
            self.warn(Some(at), Oddity::Contradiction);
        }
        Some(transport)
    }

    fn oauth(&mut self, members: &Members<'_>) -> Option<OAuth> {
        let members = self.map(members, "oauth", OAUTH)?;
        let oauth = OAuth {
            client_id: self.text(&members, "client_id", "the ID of a registered client"),
            client_secret: self.text(&members, "client_secret", "the secret of a registered client"),
            client_metadata_url: self.text(&members, "client_metadata_url", "the URL of a document"),
            issuer: self.text(&members, "issuer", "the URL of an authorization server"),
            scopes: members.get("scopes").map(|(key, value)| self.elements(&key, value, true)),
            redirect_uri: self.text(&members, "redirect_uri", "a URL"),
            redirect_port: members.get("redirect_port").map(|_| self.count(&members, "redirect_port", 0)),
            grant: self.grant(&members),
        };
        if oauth.client_secret.is_some() && oauth.client_id.is_none() {
            self.warn(Some("oauth.client_secret".into()), Oddity::NoEffect { needs: "oauth.client_id" });
        }
        if oauth.client_id.is_some() && oauth.issuer.is_none() {
            if oauth.client_secret.is_some() {
                return self.report_problem(Some("oauth.client_secret"), Problem::NoIssuer);
            }
            if oauth.grant == OAuthGrant::ClientCredentials {
                return self.report_problem(Some("oauth.grant"), Problem::NoIssuer);
            }
        }
        Some(oauth)
    }

    fn grant(&mut self, members: &Members<'_>) -> OAuthGrant {
        let Some(word) = self.text(members, "grant", "`authorization_code` or `client_credentials`") else {
            return OAuthGrant::default();
        };
        let known = [OAuthGrant::AuthorizationCode, OAuthGrant::ClientCredentials];
        let found = known.into_iter().find(|grant| grant.as_str() == &*word);
        if found.is_none() {
            self.warn(Some("oauth.grant".into()), Oddity::UnknownWord { word: excerpt(&word) });
        }
        found.unwrap_or_default()
    }

    fn protocol(&mut self, members: &Members<'_>) -> Option<Protocol> {
        let word = self.text(members, "protocol", "`auto`, `modern` or `legacy`")?;
        let found = Protocol::ALL.into_iter().find(|protocol| protocol.as_str() == &*word);
        if found.is_none() {
            self.warn(Some("protocol".into()), Oddity::UnknownWord { word: excerpt(&word) });
        }
        found
    }

    /// A number of seconds, where 0 and `false` stand for zero.
    fn interval(&mut self, members: &Members<'_>, key: &str) -> Option<Duration> {
        match members.get(key)?.1 {
            Value::Bool(false) => Some(Duration::ZERO),
            Value::Number { text, .. } | Value::Text(text) if text.trim().parse() == Ok(0.0) => Some(Duration::ZERO),
            Value::Null
            | Value::Bool(true)
            | Value::Number { .. }
            | Value::Text(_)
            | Value::List(_)
            | Value::Map(_) => Some(self.seconds_up_to(DAY, members, key, Duration::ZERO)),
        }
    }

    /// A number of seconds, where 0 and `false` stand for no limit. Other hosts write the unit into the key, and put the
    /// key into a map.
    fn lifetime(&mut self, places: [Option<&Members<'_>>; 2], keys: [&str; 2]) -> Option<Duration> {
        let places = places.into_iter().flatten().flat_map(|place| keys.map(|key| (place, key)));
        let mut found = places.filter_map(|(place, key)| Some((place, key, place.get(key)?.0)));
        let mut last = found.next()?;
        for next in found {
            self.warn(Some(next.2.clone()), Oddity::Twice);
            last = next;
        }
        self.interval(last.0, last.1).filter(|limit| !limit.is_zero())
    }

    fn sampling(&mut self, members: &Members<'_>) -> Option<Sampling> {
        let (key, value) = members.get("sampling")?;
        // `sampling: false` disables it.
        if matches!(value, Value::Bool(_) | Value::Text(_) | Value::Number { .. }) {
            let enabled = self.boolean_value(&key, value).unwrap_or(true);
            return Some(Sampling { enabled, ..Sampling::default() });
        }
        let members = self.map(members, "sampling", SAMPLING)?;
        let default = Sampling::default();
        Some(Sampling {
            enabled: self.boolean(&members, "enabled", default.enabled),
            model: self.text(&members, "model", "a model's name"),
            max_tokens_cap: self.count(&members, "max_tokens_cap", default.max_tokens_cap),
            timeout: self.seconds(&members, "timeout", default.timeout),
            max_rpm: self.count(&members, "max_rpm", default.max_rpm),
            allowed_models: members
                .get("allowed_models")
                .map(|(key, value)| self.elements(&key, value, true))
                .unwrap_or_default(),
            max_tool_rounds: self.count(&members, "max_tool_rounds", default.max_tool_rounds),
            log_level: self.text(&members, "log_level", "`debug`, `info` or `warning`"),
        })
    }

    fn tools(&mut self, members: &Members<'_>) -> ToolPolicy {
        let mut policy = self.own_tools(members);
        self.add_filters(members, &mut policy);
        policy
    }

    /// Adds the filters in keys of other hosts. No tool that one of them excludes is used, whatever includes it.
    fn add_filters(&mut self, members: &Members<'_>, policy: &mut ToolPolicy) {
        let filters = members.filters.iter().filter(|filter| *filter.value != Value::Null);
        let mut include_key: Option<&str> = policy.include.as_ref().map(|_| match members.get("tools") {
            Some((_, Value::List(_))) => "tools",
            Some(_) | None => "tools.include",
        });
        let mut has_any = false;
        for Filter { includes, at, value } in filters {
            has_any = true;
            let patterns = self.elements(at, value, true);
            match (includes, include_key) {
                (false, _) => policy.exclude.extend(patterns),
                (true, None) => {
                    include_key = Some(at);
                    policy.include = all_or(patterns);
                }
                (true, Some(other)) => {
                    self.report_problem(Some(at), Problem::SameMeaning { other: other.into() }).unwrap_or_default()
                }
            }
        }
        if !has_any || policy.exclude.is_empty() {
            return;
        }
        // A policy has either of them.
        policy.include = policy.include.take().and_then(all_or);
        let ToolPolicy { include: Some(include), exclude, .. } = policy else { return };
        if include.iter().any(|pattern| glob::is_glob(pattern)) {
            return self.report_problem(include_key, Problem::MixedFilters).unwrap_or_default();
        }
        include.retain(|tool| !exclude.iter().any(|pattern| glob::matches(pattern, tool)));
        exclude.clear();
    }

    /// What the key `tools` says.
    fn own_tools(&mut self, members: &Members<'_>) -> ToolPolicy {
        // Copilot has a list here.
        if let Some((key, value @ Value::List(_))) = members.get("tools") {
            return ToolPolicy { include: all_or(self.elements(&key, value, false)), ..ToolPolicy::default() };
        }
        let Some(members) = self.map(members, "tools", TOOLS) else { return ToolPolicy::default() };
        let empty =
            members.get("include").filter(|(_, include)| matches!(include, Value::List(list) if list.is_empty()));
        // A template of all keys, copied: who wants no tool has no use for `exclude`.
        if let (Some((key, _)), Some(_)) = (empty, members.get("exclude")) {
            self.warn(Some(key), Oddity::NoTools);
        }
        ToolPolicy {
            include: members.get("include").map(|(key, value)| self.elements(&key, value, true)),
            exclude: members.get("exclude").map(|(key, value)| self.elements(&key, value, true)).unwrap_or_default(),
            resources: self.boolean(&members, "resources", true),
            prompts: self.boolean(&members, "prompts", true),
            overrides: self.overrides(&members),
            max_result_bytes: self.max_result_bytes(&members),
        }
    }

    fn max_result_bytes(&mut self, members: &Members<'_>) -> Option<usize> {
        const KEY: &str = "max_result_bytes";
        let max = Some(self.count(members, KEY, 0)).filter(|max| *max > 0)?;
        if let (true, Some((key, _))) = (max < MIN_BYTES, members.get(KEY)) {
            self.warn(Some(key), Oddity::BelowLeast { least: MIN_BYTES });
        }
        Some(max)
    }

    fn overrides(&mut self, members: &Members<'_>) -> BTreeMap<Box<str>, ToolOverride> {
        let mut overrides = BTreeMap::new();
        let Some((key, value)) = members.get("overrides") else { return overrides };
        let Value::Map(map) = value else {
            return self.kind(&key, value, "a map of tools by name").unwrap_or_default();
        };
        for (tool, value) in map {
            let at = path(&key, &excerpt(tool));
            let known = match value {
                Value::Map(known) => known,
                Value::Null => continue,
                Value::Bool(_) | Value::Number { .. } | Value::Text(_) | Value::List(_) => {
                    self.kind::<()>(&at, value, "a map of keys");
                    continue;
                }
            };
            let members = self.members(known, &format!("{at}."), OVERRIDE);
            let own = ToolOverride {
                name: self.text(&members, "name", "the name for the model"),
                title: self.text(&members, "title", "the title to show"),
                description: self.text(&members, "description", "the description for the model"),
            };
            if overrides.insert(tool.clone(), own).is_some() {
                self.warn(Some(at), Oddity::Twice);
            }
        }
        // One without a value replaces nothing.
        overrides.retain(|_, own| *own != ToolOverride::default());
        overrides
    }

    /// The known members of a map.
    fn members<'v>(&mut self, map: &'v [(Box<str>, Value)], prefix: &str, known: &[&'static str]) -> Members<'v> {
        let mut members = Members { values: Vec::new(), filters: Vec::new() };
        for (name, value) in map {
            let at = format!("{prefix}{}", excerpt(name));
            let reading = match known.iter().find(|key| others::is_same(key, name)) {
                Some(key) => Some(Reading::As(key)),
                None if is_of_entry(prefix) => others::reading(name),
                None => None,
            };
            let key = match reading {
                Some(Reading::As(key)) => key,
                Some(Reading::Nothing) => continue,
                Some(Reading::IncludeSome) if matches!(value, Value::List(list) if list.is_empty()) => continue,
                Some(Reading::Include | Reading::IncludeSome) => {
                    members.filters.push(Filter { includes: true, at, value });
                    continue;
                }
                Some(Reading::Exclude) => {
                    members.filters.push(Filter { includes: false, at, value });
                    continue;
                }
                Some(Reading::Approval) => {
                    self.warn(Some(at), Oddity::Approval);
                    continue;
                }
                None => {
                    self.unknown(at, name, prefix, known);
                    continue;
                }
            };
            match members.values.iter_mut().find(|known| known.key == key) {
                Some(first) if first.at == at => {
                    first.value = value;
                    self.warn(Some(at), Oddity::Twice);
                }
                Some(first) if *first.value == Value::Null => *first = Member { key, at, value },
                Some(first) if *value != Value::Null => {
                    let other = first.at.as_str().into();
                    self.report_problem::<()>(Some(&at), Problem::SameMeaning { other });
                }
                Some(_) => {}
                None => members.values.push(Member { key, at, value }),
            }
        }
        members
    }

    /// A key that nobody knows: an error if it may be a filter, which would let tools through.
    fn unknown(&mut self, at: String, name: &str, prefix: &str, known: &[&'static str]) {
        let nearest = nearest(name, known);
        if !others::may_filter(prefix, name) {
            return self.warn(Some(at), Oddity::UnknownKey { nearest });
        }
        let of_others = || is_of_entry(prefix).then(|| nearest_other(name)).flatten();
        let write = nearest.map(|nearest| format!("{prefix}{nearest}")).or_else(|| of_others().map(String::from));
        let write = write.unwrap_or_else(|| others::filter(name).into()).into();
        self.report_problem(Some(&at), Problem::MayFilter { write }).unwrap_or_default()
    }

    fn map<'v>(&mut self, members: &Members<'v>, key: &str, known: &[&'static str]) -> Option<Members<'v>> {
        let (key, value) = members.get(key)?;
        let Value::Map(map) = value else { return self.kind(&key, value, "a map of keys") };
        Some(self.members(map, &format!("{key}."), known))
    }

    fn boolean(&mut self, members: &Members<'_>, key: &str, default: bool) -> bool {
        members.get(key).and_then(|(key, value)| self.boolean_value(&key, value)).unwrap_or(default)
    }

    fn boolean_value(&mut self, key: &str, value: &Value) -> Option<bool> {
        let word = match value {
            Value::Bool(value) => return Some(*value),
            Value::Number { text, .. } | Value::Text(text) => text.trim().to_ascii_lowercase(),
            Value::Null | Value::List(_) | Value::Map(_) => return self.kind(key, value, "true or false"),
        };
        match &*word {
            "true" | "yes" | "on" | "1" => Some(true),
            "false" | "no" | "off" | "0" => Some(false),
            _ => self.report_problem(Some(key), Problem::NotBoolean { found: excerpt(&word) }),
        }
    }

    /// How long something may take.
    fn seconds(&mut self, members: &Members<'_>, key: &str, default: Duration) -> Duration {
        self.seconds_up_to(HOUR, members, key, default)
    }

    /// A time, with a warning if it is so long that other hosts may have meant milliseconds.
    fn seconds_up_to(&mut self, longest: Duration, members: &Members<'_>, key: &str, default: Duration) -> Duration {
        let Some((key, value)) = members.get(key) else { return default };
        let (Value::Number { text, .. } | Value::Text(text)) = value else {
            return self.kind(&key, value, "a number of seconds").unwrap_or(default);
        };
        let seconds = text.trim().parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let Some(seconds) = seconds.filter(|seconds| !seconds.is_zero()) else {
            return self.report_problem(Some(&key), Problem::NotSeconds { found: excerpt(text) }).unwrap_or(default);
        };
        if seconds > longest {
            self.warn(Some(key), Oddity::LongTime);
        }
        // Some formats change a number with many digits.
        if seconds > DAY { Duration::from_secs(seconds.as_secs()) } else { seconds }
    }

    fn count<N: TryFrom<u64>>(&mut self, members: &Members<'_>, key: &str, default: N) -> N {
        let Some((key, value)) = members.get(key) else { return default };
        let (Value::Number { text, .. } | Value::Text(text)) = value else {
            return self.kind(&key, value, "a whole number").unwrap_or(default);
        };
        let count = text.trim().parse().ok().and_then(|count: u64| count.try_into().ok());
        count.or_else(|| self.report_problem(Some(&key), Problem::NotCount { found: excerpt(text) })).unwrap_or(default)
    }

    /// A string that is not empty.
    fn text(&mut self, members: &Members<'_>, key: &str, expected: &'static str) -> Option<Box<str>> {
        let (key, value) = members.get(key)?;
        match value {
            Value::Text(text) if text.trim().is_empty() => self.report_problem(Some(&key), Problem::Empty { expected }),
            Value::Text(text) => Some(text.clone()),
            Value::Null | Value::Bool(_) | Value::Number { .. } | Value::List(_) | Value::Map(_) => {
                self.kind(&key, value, expected)
            }
        }
    }

    fn list(&mut self, members: &Members<'_>, key: &str) -> Vec<Box<str>> {
        members.get(key).map(|(key, value)| self.elements(&key, value, false)).unwrap_or_default()
    }

    /// A list of strings; a single string is accepted if `single`.
    fn elements(&mut self, key: &str, value: &Value, single: bool) -> Vec<Box<str>> {
        const EXPECTED: &str = "a list of texts";
        match value {
            Value::List(list) => list.iter().filter_map(|value| self.scalar(key, value, EXPECTED)).collect(),
            Value::Text(text) if single => [text.clone()].into(),
            Value::Null | Value::Bool(_) | Value::Number { .. } | Value::Text(_) | Value::Map(_) => {
                let expected = if single { "text, or a list of texts" } else { EXPECTED };
                self.kind(key, value, expected).unwrap_or_default()
            }
        }
    }

    fn texts(&mut self, members: &Members<'_>, key: &str) -> Texts {
        let Some((key, value)) = members.get(key) else { return Texts::new() };
        let Value::Map(map) = value else {
            return self.kind(&key, value, "a map of texts by name").unwrap_or_default();
        };
        let mut texts = Texts::new();
        for (name, value) in map {
            let at = path(&key, &excerpt(name));
            let text = self.scalar(&at, value, "text, `\"\"` for an empty one");
            if text.is_some_and(|text| texts.insert(name.clone(), text).is_some()) {
                self.warn(Some(at), Oddity::Twice);
            }
        }
        texts
    }

    /// A string, or an unquoted scalar used as one.
    fn scalar(&mut self, key: &str, value: &Value, expected: &'static str) -> Option<Box<str>> {
        match value {
            Value::Text(text) => Some(text.clone()),
            Value::Number { text, exact: true } => Some(text.clone()),
            Value::Number { text, exact: false } => {
                self.warn(Some(key.into()), Oddity::TakenAsText);
                Some(text.clone())
            }
            Value::Bool(value) => {
                self.warn(Some(key.into()), Oddity::TakenAsText);
                Some(value.to_string().into())
            }
            Value::Null | Value::List(_) | Value::Map(_) => self.kind(key, value, expected),
        }
    }

    fn kind<T>(&mut self, key: &str, value: &Value, expected: &'static str) -> Option<T> {
        self.report_problem(Some(key), Problem::Kind { found: value.kind(), expected })
    }

    fn report_problem<T>(&mut self, key: Option<&str>, problem: Problem) -> Option<T> {
        self.errors.push(Error { server: Arc::clone(self.server), key: key.map(Box::from), problem });
        None
    }

    fn warn(&mut self, key: Option<String>, oddity: Oddity) {
        self.warnings.push(Warning { server: Arc::clone(self.server), key: key.map(Box::from), oddity });
    }
}

const TOOLS: &[&str] = &["include", "exclude", "resources", "prompts", "overrides", "max_result_bytes"];

const OVERRIDE: &[&str] = &["name", "title", "description"];

const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Reads one server's entry and collects all problems in it.
pub(super) struct Reader<'a> {
    pub(super) server: &'a Arc<str>,
    pub(super) host: Host,
    pub(super) errors: &'a mut Vec<Error>,
    pub(super) warnings: &'a mut Vec<Warning>,
}

/// The known members of a map, each once.
struct Members<'v> {
    values: Vec<Member<'v>>,
    /// The filters of tools under the keys of other hosts.
    filters: Vec<Filter<'v>>,
}

struct Member<'v> {
    key: &'static str,
    /// Its path, as it is written in the file.
    at: String,
    value: &'v Value,
}

struct Filter<'v> {
    includes: bool,
    at: String,
    value: &'v Value,
}

impl<'v> Members<'v> {
    /// The value of a key. A null value, as from `key:` in YAML, counts as absent.
    fn get(&self, key: &str) -> Option<(String, &'v Value)> {
        let member = self.values.iter().find(|member| member.key == key)?;
        (*member.value != Value::Null).then(|| (member.at.clone(), member.value))
    }
}

/// Whether a map with this path has keys of an entry.
fn is_of_entry(prefix: &str) -> bool {
    prefix.is_empty() || others::is_same(prefix, TRANSPORT)
}

/// Tools to include, of which `*` is all.
fn all_or(patterns: Vec<Box<str>>) -> Option<Vec<Box<str>>> {
    (!patterns.iter().any(|pattern| &**pattern == "*")).then_some(patterns)
}

/// What other programs call a key, in letters.
const SYNONYMS: [(&[u8], &str); 5] =
    [(b"cmd", "command"), (b"program", "command"), (b"arguments", "args"), (b"directory", "cwd"), (b"endpoint", "url")];

/// The known key that was probably meant: different case, one or two letters wrong, or another word for it.
fn nearest(key: &str, known: &[&'static str]) -> Option<&'static str> {
    let letters = letters(key);
    let synonym = SYNONYMS.iter().find(|(other, _)| *other == &*letters).map(|(_, known)| *known);
    if let Some(synonym) = synonym.filter(|synonym| known.contains(synonym)) {
        return Some(synonym);
    }
    closest(&letters, known.iter().map(|known| (*known, *known)))
}

/// The key to write if a key of another host was probably meant.
fn nearest_other(key: &str) -> Option<&'static str> {
    let others = others::OTHERS.iter().filter_map(|(other, reading)| Some((*other, reading.own()?)));
    closest(&letters(key), others)
}

/// The first letters and digits of a key.
fn letters(key: &str) -> Vec<u8> {
    key.bytes().take(64).filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase()).collect()
}

/// What the most similar of the known keys means, if one or two letters are wrong.
fn closest(key: &[u8], known: impl Iterator<Item = (&'static str, &'static str)>) -> Option<&'static str> {
    let allowed = if key.len() > 4 { 2 } else { 1 };
    let distances = known.map(|(known, means)| (distance(key, &letters(known)), means));
    distances.min().filter(|(distance, _)| *distance <= allowed).map(|(_, means)| means)
}

/// The edit distance: how many letters to insert, remove or replace.
fn distance(from: &[u8], to: &[u8]) -> usize {
    // A row of the matrix, without its first column, which has the number of the row.
    let mut row: Vec<usize> = (1..=to.len()).collect();
    for (at, a) in from.iter().enumerate() {
        let mut diagonal = at;
        let mut left = at.saturating_add(1);
        for (slot, b) in row.iter_mut().zip(to) {
            let replaced = diagonal.saturating_add(usize::from(a != b));
            diagonal = *slot;
            left = replaced.min(left.saturating_add(1)).min(slot.saturating_add(1));
            *slot = left;
        }
    }
    row.last().copied().unwrap_or(from.len())
}

/// Characters of a value in a message.
const LONGEST: usize = 40;

/// The name of a number's only member in `serde_json` with the feature `arbitrary_precision`.
const NUMBER: &str = "$serde_json::private::Number";

/// A configuration value in any format. Reading values before interpreting them makes an invalid value an error of its
/// server only.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    /// A number's text; `exact` if it is written this way, except for its base.
    Number {
        text: Box<str>,
        exact: bool,
    },
    Text(Box<str>),
    List(Vec<Value>),
    /// In the file's order, with duplicates.
    Map(Vec<(Box<str>, Value)>),
}

impl Value {
    /// The value's type, for messages.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "true or false",
            Self::Number { .. } => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }

    fn whole(number: impl fmt::Display) -> Self {
        Self::Number { text: number.to_string().into(), exact: true }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::whole(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::whole(value))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Value, E> {
        Ok(Value::whole(value))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Value, E> {
        Ok(Value::whole(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Number { text: value.to_string().into(), exact: false })
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = seq.next_element()? {
            list.push(value);
        }
        // Most lists are smaller than a vector's initial capacity.
        list.shrink_to_fit();
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members: Vec<(Box<str>, Value)> = Vec::new();
        while let Some((Key(key), value)) = map.next_entry()? {
            members.push((key, value));
        }
        members.shrink_to_fit();
        if let [(name, Value::Text(number))] = &*members
            && **name == *NUMBER
        {
            return Ok(Value::Number { text: number.clone(), exact: true });
        }
        Ok(Value::Map(members))
    }
}

/// A member's name. YAML allows names that are not strings, such as `8080:` or `yes:`. They are requested as strings,
/// because only the format knows how they were written.
pub(super) struct Key(pub(super) Box<str>);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match deserializer.deserialize_str(ValueVisitor)? {
            Value::Null => "null".into(),
            Value::Bool(value) => value.to_string().into(),
            Value::Number { text, .. } | Value::Text(text) => text,
            Value::List(_) | Value::Map(_) => "(no text)".into(),
        }))
    }
}

/// A value for a message, at most one line long.
pub(super) fn excerpt(text: &str) -> Box<str> {
    cut(&text.replace(char::is_control, " "), LONGEST).into()
}

#[cfg(test)]
mod tests {
    use super::{ENTRY, distance, nearest};

    #[test]
    fn the_nearest_key_is_one_that_may_have_been_meant() {
        for (key, expected) in [
            ("connectTimeout", Some("connect_timeout")),
            ("comand", Some("command")),
            ("cmd", Some("command")),
            ("endpoint", Some("url")),
            ("header", Some("headers")),
            ("URL", Some("url")),
            ("arg", Some("args")),
            ("alwaysAllow", None),
            // Two letters may be wrong in a key of more than four, else one.
            ("argsxx", Some("args")),
            ("axgx", None),
            ("", None),
        ] {
            assert_eq!(nearest(key, ENTRY), expected, "{key}");
        }
    }

    #[test]
    fn the_distance_is_the_number_of_changes() {
        for (a, b, expected) in
            [("", "", 0), ("", "abc", 3), ("kitten", "sitting", 3), ("abc", "abc", 0), ("ab", "ba", 2)]
        {
            assert_eq!(distance(a.as_bytes(), b.as_bytes()), expected, "{a} {b}");
            assert_eq!(distance(b.as_bytes(), a.as_bytes()), expected, "{b} {a}");
        }
    }
}
