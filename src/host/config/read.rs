//! Reads a server's entry.

mod reader;
mod tools;

use alloc::boxed::Box;
use core::time::Duration;

use super::error::{Oddity, Problem};
use super::value::{Value, excerpt};
use super::{Auth, Endpoint, Entry, Http, OAuth, OAuthGrant, Protocol, Sampling, Stdio};

pub(super) use self::reader::Reader;

use self::reader::Members;

const ENTRY: &[&str] = &[
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "headers",
    "enabled",
    "disabled",
    "timeout",
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
const PROGRAM: [&str; 8] =
    ["args", "env", "cwd", "idle_timeout", "idle_timeout_seconds", "max_lifetime", "max_lifetime_seconds", "lifecycle"];

impl Reader<'_> {
    /// The entry, if it has no errors.
    pub(super) fn entry(&mut self, value: &Value) -> Option<Entry> {
        let before = self.errors.len();
        let entry = self.any_entry(value);
        entry.filter(|_| self.errors.len() == before)
    }

    fn any_entry(&mut self, value: &Value) -> Option<Entry> {
        let Value::Map(members) = value else {
            return self.wrong(None, Problem::NotAMap { found: value.kind() });
        };
        let members = self.members(members, "", ENTRY);
        let endpoint = self.endpoint(&members);
        let disabled = self.boolean(&members, "disabled", false);
        let lifecycle = self.map(&members, "lifecycle", LIFECYCLE);
        let is_program = members.get("command").is_some();
        let places = [is_program.then_some(&members), lifecycle.as_ref().filter(|_| is_program)];
        // Reads everything before returning, so that every problem is reported at once.
        let entry = Entry {
            enabled: self.boolean(&members, "enabled", true) && !disabled,
            timeout: self.seconds(&members, "timeout", Entry::TIMEOUT),
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

    fn endpoint(&mut self, members: &Members<'_>) -> Option<Endpoint> {
        let (has_command, has_url) = (members.get("command").is_some(), members.get("url").is_some());
        let command = self.text(members, "command", "the program to start");
        let url = self.text(members, "url", "the server's address");
        let (args, env) = (self.list(members, "args"), self.texts(members, "env"));
        let cwd = self.text(members, "cwd", "a folder");
        let (headers, auth) = (self.texts(members, "headers"), self.text(members, "auth", "`oauth`"));
        let auth = auth.map(|word| if &*word == "oauth" { Auth::OAuth } else { Auth::Other(word) });
        let oauth = self.oauth(members);
        let (foreign, needs): (&[&str], _) = match (has_command, has_url) {
            (false, false) => return self.wrong(None, Problem::NoEndpoint),
            (true, true) => return self.wrong(None, Problem::TwoEndpoints),
            (true, false) => (&["headers", "auth", "oauth"], "url"),
            (false, true) => (&PROGRAM, "command"),
        };
        for (key, _) in foreign.iter().filter_map(|key| members.get(key)) {
            self.warn(Some(key), Oddity::NoEffect { needs });
        }
        for key in ["type", "transport"] {
            self.transport(members, key, has_url);
        }
        if let (true, Some(Auth::Other(_))) = (has_url, &auth) {
            self.warn(Some("auth".into()), Oddity::UnknownAuth);
        }
        if has_url && oauth.is_some() && auth != Some(Auth::OAuth) {
            self.warn(Some("oauth".into()), Oddity::NoEffect { needs: "auth: oauth" });
        }
        Some(match (command, url) {
            (Some(command), _) => Endpoint::Stdio(Stdio { command, args, env, cwd }),
            (None, url) => Endpoint::Http(Http { url: url?, headers, auth, oauth: oauth.map(Box::new) }),
        })
    }

    /// Checks the name of the transport, which `command` or `url` already determines.
    fn transport(&mut self, members: &Members<'_>, key: &str, http: bool) {
        let Some(word) = self.text(members, key, "`stdio` or `http`") else { return };
        let is_http = match &*word {
            "stdio" => false,
            "http" | "https" | "sse" | "streamable-http" | "streamable_http" | "streamableHttp" => true,
            _ => return self.warn(Some(key.into()), Oddity::UnknownWord { word: excerpt(&word) }),
        };
        if is_http != http {
            self.warn(Some(key.into()), Oddity::Contradiction);
        }
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
            | Value::Map(_) => Some(self.seconds(members, key, Duration::ZERO)),
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
}

#[cfg(test)]
mod tests {
    use super::ENTRY;
    use super::reader::nearest;

    #[test]
    fn the_nearest_key_is_one_that_may_have_been_meant() {
        for (key, expected) in [
            ("connectTimeout", Some("connect_timeout")),
            ("comand", Some("command")),
            ("header", Some("headers")),
            ("URL", Some("url")),
            ("arg", Some("args")),
            ("alwaysAllow", None),
            ("", None),
        ] {
            assert_eq!(nearest(key, ENTRY), expected, "{key}");
        }
    }
}
