//! Configuration files.

use std::collections::BTreeSet;

use mcp_proto::catalog::FingerprintKey;
use mcp_proto::host::config::{
    Changes, Configuration, Document, Endpoint, Entry, Error, Http, OAuth, Oddity, Problem, Stdio, Warning,
};
use mcp_proto::{Client, Messages, Options, Time, Transport};

use super::super::checks::{END, OWED};

/// A name that `serde_json` reserves: a map with only such a member is read as a number.
const RESERVED: &str = "$serde_json::private::";

/// Reads the bytes as a file, and as the values in one.
pub(super) fn check(json: &[u8]) -> String {
    let file = serde_json::from_slice::<Document>(json).map(|Document(read)| read);
    let map = serde_json::from_slice::<Configuration>(json);
    for read in [&file, &map].into_iter().flatten() {
        check_messages(read);
        check_changes(read);
        for (server, entry) in &read.servers {
            check_session(server, entry);
            check_expansion(server, entry);
            check_policy(entry);
            check_environment(entry);
            #[cfg(feature = "oauth")]
            check_oauth(entry);
        }
        check_expansions(read);
        if !String::from_utf8_lossy(json).contains(RESERVED) {
            check_written(read);
        }
    }
    format!("{file:?} {map:?}")
}

fn check_messages(read: &Configuration) {
    for error in &read.errors {
        let Error { server, key, problem, .. } = error;
        let message = error.to_string();
        assert!(message.starts_with(&format!("server `{}`", excerpt(server))), "{message}");
        let Some(key) = key else { continue };
        assert!(message.contains(&**key), "{message}");
        // The value may be a secret.
        let secret = ["env.", "headers."].iter().any(|map| key.starts_with(map));
        assert!(!secret || matches!(problem, Problem::Kind { .. }), "{message}");
    }
    for warning in &read.warnings {
        let (server, message) = (&warning.server, warning.to_string());
        assert!(message.starts_with(&format!("server `{}`", excerpt(server))), "{message}");
        assert!(read.servers.contains_key(&**server) || is_wrong(read, server), "nobody is {server:?}");
    }
    assert!(!read.servers.keys().any(|server| is_wrong(read, server)), "of use, and of none");
}

fn is_wrong(read: &Configuration, server: &str) -> bool {
    read.errors.iter().any(|error| *error.server == *server)
}

/// A serialized configuration can be read in either format. Only values that were kept cause warnings.
fn check_written(read: &Configuration) {
    let written = serde_json::to_string(read).expect("a configuration can be written");
    let kept = read.warnings.iter().filter(|warning| is_kept(read, warning));
    let mut kept: Vec<Warning> = kept.cloned().map(under_own_key).collect();
    kept.sort_by(|one, other| one.server.cmp(&other.server));
    for key in ["mcp_servers", "mcpServers"] {
        let Document(mut again) = serde_json::from_str(&format!(r#"{{"{key}":{written}}}"#)).expect("what was written");
        // In a file of another host, it may be an approval.
        again.warnings.retain(|warning| key == "mcp_servers" || warning.oddity != Oddity::Trust);
        assert_eq!(again.servers, read.servers, "{written}");
        assert_eq!(again.errors, [], "{written}");
        assert_eq!(again.warnings, kept, "{written}");
        let key = FingerprintKey::new([7; 16]);
        let prints =
            |read: &Configuration| read.servers.values().map(|entry| entry.fingerprint(key)).collect::<Vec<_>>();
        assert_eq!(prints(&again), prints(read), "{written}");
    }
}

/// A name as shown in a message: 40 characters. A last word that is cut shows eight bytes at least, or nothing.
fn excerpt(name: &str) -> String {
    let mut short: String = name.chars().take(40).map(|char| if char.is_control() { ' ' } else { char }).collect();
    if name.chars().count() <= 40 {
        return short;
    }
    let separates = |char: char| char.is_whitespace() || "\"'`()[]{}<>=:,;&/?#".contains(char);
    let word = short.rfind(separates).map_or(0, |at| at + short[at..].chars().next().map_or(0, char::len_utf8));
    if short.len() - word < 8 {
        short.truncate(word);
    }
    short + "…"
}

/// Whether the warning is about a value that an entry keeps.
fn is_kept(read: &Configuration, warning: &Warning) -> bool {
    let Some(entry) = read.servers.get(&*warning.server) else { return false };
    let has_oauth = matches!(&entry.endpoint, Endpoint::Http(http) if http.oauth.is_some());
    match warning.oddity {
        Oddity::LongTime | Oddity::UnknownAuth => true,
        Oddity::NoEffect { .. } => has_oauth && warning.key.as_deref().is_some_and(|key| key.starts_with("oauth")),
        _ => false,
    }
}

/// The warning as it is about the key that is written, which is not the one of another host.
fn under_own_key(mut warning: Warning) -> Warning {
    warning.key = warning.key.map(|key| {
        let letters: String =
            key.chars().filter(|char| !"_-".contains(*char)).map(|char| char.to_ascii_lowercase()).collect();
        let own = letters.strip_prefix("lifecycle.").unwrap_or(&letters);
        match own.strip_suffix("seconds").unwrap_or(own) {
            "timeout" | "tooltimeoutsec" => "timeout".into(),
            "connecttimeout" | "startuptimeoutsec" | "inittimeout" => "connect_timeout".into(),
            "maxtimeout" => "max_timeout".into(),
            "keepaliveinterval" => "keepalive_interval".into(),
            "idletimeout" => "idle_timeout".into(),
            "maxlifetime" => "max_lifetime".into(),
            "sampling.timeout" => "sampling.timeout".into(),
            _ => key,
        }
    });
    warning
}

fn check_changes(read: &Configuration) {
    let servers: Vec<_> = read.servers.keys().cloned().collect();
    let same = Changes::between(read, read);
    assert!(same.is_empty() && same.invalid.is_empty(), "{same:?}");
    assert_eq!(same.unchanged, servers);
    let nothing = Configuration::default();
    let mut all = Changes::default();
    all.added = servers.clone();
    assert_eq!(Changes::between(&nothing, read), all);
    let mut none = Changes::default();
    none.removed = servers.clone();
    assert_eq!(Changes::between(read, &nothing), none);

    // A mistake removes nothing.
    let sound = configuration(read.errors.iter().map(|error| (&*error.server, Entry::stdio("x"))));
    let mut slip = Changes::default();
    slip.invalid = sound.servers.keys().cloned().collect();
    slip.added = servers;
    assert_eq!(Changes::between(&sound, read), slip);

    for (one, other) in read.servers.values().zip(read.servers.values().skip(1)) {
        let [before, after] = [one, other].map(|entry| configuration([("s", entry.clone())]));
        let changes = Changes::between(&before, &after);
        assert_eq!(changes.changed.is_empty(), one == other, "{one:?} {other:?}");
        assert!(changes.changed.iter().all(|change| !change.keys.is_empty()));
    }
}

fn configuration<'a>(servers: impl IntoIterator<Item = (&'a str, Entry)>) -> Configuration {
    let mut configuration = Configuration::default();
    configuration.servers = servers.into_iter().map(|(server, entry)| (server.into(), entry)).collect();
    configuration
}

/// Any valid entry's session can be opened.
fn check_session(server: &str, entry: &Entry) {
    let options = entry.options(server, Options::new("fuzz", "1"));
    assert_eq!(*options.server, *server);
    let mut session = Client::new(Messages::new(), options, 0);
    session.open(Time::ZERO).expect("a new session can be opened");
    for now in [Time::ZERO, END] {
        session.handle_transport(now, session.connection(), Transport::Opened);
        session.handle_timeout(now);
        assert!((0..OWED).any(|_| session.poll().is_none()), "poll does not run dry");
    }
}

/// A tool is admitted as its name matches the patterns.
fn check_policy(entry: &Entry) {
    let policy = &entry.tools;
    let matches_any = |patterns: &[Box<str>], name: &str| {
        patterns.iter().any(|pattern| globs(&pattern.chars().collect::<Vec<_>>(), &name.chars().collect::<Vec<_>>()))
    };
    let is_short = |pattern: &str| pattern.len() <= 40 && pattern.matches('*').count() <= 3;
    if !policy.include.iter().flatten().chain(&policy.exclude).all(|pattern| is_short(pattern)) {
        return;
    }
    for name in ["", "a", "b", "ab", "a-b", "read_1", "read_x", "x[1]", "\u{e9}*", "delete-all"] {
        let expected = match &policy.include {
            Some(include) => matches_any(include, name),
            None => !matches_any(&policy.exclude, name),
        };
        assert_eq!(policy.admits(name), expected, "{name:?} under {policy:?}");
    }
    assert!(policy.name_overrides().count() <= policy.overrides.len());
}

/// A straightforward implementation of patterns.
fn globs(pattern: &[char], text: &[char]) -> bool {
    let Some((first, rest)) = pattern.split_first() else { return text.is_empty() };
    if *first == '*' {
        return (0..=text.len()).any(|at| globs(rest, &text[at..]));
    }
    let Some((char, after)) = text.split_first() else { return false };
    let negated = matches!(rest, ['!' | '^', ..]);
    let set = &rest[usize::from(negated).min(rest.len())..];
    // The first member of a set may be its closing bracket.
    let end = set.iter().skip(1).position(|char| *char == ']').map(|at| at + 1);
    match (first, end) {
        ('?', _) => globs(rest, after),
        ('[', Some(end)) => in_set(&set[..end], *char) != negated && globs(&set[end + 1..], after),
        _ => first == char && globs(rest, after),
    }
}

fn in_set(members: &[char], char: char) -> bool {
    match members {
        [] => false,
        [first, '-', last, rest @ ..] => (first..=last).contains(&&char) || in_set(rest, char),
        [first, rest @ ..] => *first == char || in_set(rest, char),
    }
}

/// A program has the variables of its entry, and those that are inherited.
fn check_environment(entry: &Entry) {
    let Endpoint::Stdio(stdio) = &entry.endpoint else { return };
    let environment = stdio.environment(|name| (name == "PATH").then(|| "/bin".into()));
    assert!(stdio.env.iter().all(|(name, value)| environment.get(name) == Some(value)));
    assert!(environment.len() <= stdio.env.len() + 1 && environment.contains_key("PATH"));
}

/// A server has options for OAuth exactly if its entry says so, and its secret is not shown.
#[cfg(feature = "oauth")]
fn check_oauth(entry: &Entry) {
    use mcp_proto::binding::oauth::{OAuthOptions, RegisteredClient, Secret};
    use mcp_proto::host::config::Auth;

    let mut host = OAuthOptions::new("fuzz", "http://127.0.0.1:1/");
    let mut client = RegisteredClient::new("own");
    client.secret = Some(Secret::new("hush-tide-0ar"));
    host.registered.push(client);
    host.tolerance.issuer = Some("https://as.example".into());
    let options = entry.oauth(host);
    let wants = matches!(&entry.endpoint, Endpoint::Http(http) if matches!(http.auth, Some(Auth::OAuth)));
    assert_eq!(options.is_some(), wants);
    assert!(!super::super::checks::has_marker(format!("{options:?}").as_bytes()), "a secret is shown");
    // The secret of the host goes to its own authorization server only.
    for client in options.iter().flat_map(|options| &options.registered).filter(|client| *client.id == *"own") {
        assert_eq!(client.issuer.as_deref().unwrap_or("https://as.example"), "https://as.example");
    }
}

type Lookup = fn(&str) -> Option<String>;

fn check_expansion(server: &str, entry: &Entry) {
    let mut entry = entry.clone();
    // Its variables would be added.
    if let Endpoint::Stdio(stdio) = &mut entry.endpoint {
        stdio.env_file = None;
    }
    let lookups: [Lookup; 3] = [|name| Some(format!("${{{name}}}")), |_| None, |_| Some(String::new())];
    for lookup in lookups {
        let mut missing = Vec::new();
        let mut endpoint = entry.endpoint.clone();
        texts(&mut endpoint, |text| {
            // A text has one error per variable, sorted by name. Errors abbreviate names.
            let mut unknown = BTreeSet::new();
            *text = expanded(text, lookup, &mut unknown).into();
            missing.extend(unknown.iter().map(|name| excerpt(name)));
        });
        match entry.expand(server, |name| lookup(name).map(Into::into)) {
            Ok(found) => {
                assert!(missing.is_empty(), "no value for {missing:?}");
                let mut expected = entry.clone();
                expected.endpoint = endpoint;
                assert!(found == expected, "{found:?} is not {expected:?}");
            }
            Err(errors) => {
                let named = errors.iter().map(|error| match &error.problem {
                    Problem::NoVariable { variable } | Problem::NoInput { input: variable } => variable.to_string(),
                    other => panic!("{other:?}"),
                });
                assert_eq!(named.collect::<Vec<_>>(), missing);
            }
        }
    }
}

/// An unset variable makes an error of its server, if the server is enabled, and of no other.
fn check_expansions(read: &Configuration) {
    let found = read.expand(|_| None);
    for (server, entry) in &read.servers {
        let expected = if entry.enabled { entry.expand(server, |_| None).ok() } else { Some(entry.clone()) };
        assert_eq!(found.servers.get(server), expected.as_ref());
        assert_ne!(found.servers.contains_key(server), is_wrong(&found, server), "{server:?}");
    }
    assert!(found.errors.starts_with(&read.errors), "{:?}", found.errors);
}

/// Calls `each` with every text in which variables are replaced.
fn texts(endpoint: &mut Endpoint, each: impl FnMut(&mut Box<str>)) {
    match endpoint {
        Endpoint::Stdio(Stdio { command, args, env, cwd, .. }) => {
            [command].into_iter().chain(args.iter_mut()).chain(env.values_mut()).chain(cwd).for_each(each);
        }
        Endpoint::Http(Http { url, headers, oauth, .. }) => {
            let oauth = oauth.iter_mut().flat_map(|oauth| {
                let OAuth { client_id, client_secret, client_metadata_url, issuer, redirect_uri, scopes, .. } =
                    &mut **oauth;
                let texts = [client_id, client_secret, client_metadata_url, issuer, redirect_uri];
                texts.into_iter().flatten().chain(scopes.iter_mut().flatten())
            });
            [url].into_iter().chain(headers.values_mut()).chain(oauth).for_each(each);
        }
        other => panic!("{other:?}"),
    }
}

/// A straightforward implementation of variable expansion.
fn expanded(text: &str, lookup: Lookup, missing: &mut BTreeSet<String>) -> String {
    let (mut expanded, mut rest) = (String::new(), text);
    while let Some(char) = rest.chars().next() {
        let reference = rest.strip_prefix("${").and_then(|after| after.split_once('}'));
        if let Some(after) = rest.strip_prefix("$${") {
            expanded.push_str("${");
            rest = after;
        } else if let Some((reference, after)) = reference {
            let (name, default) = reference.split_once(":-").map_or((reference, None), |(a, b)| (a, Some(b)));
            let found = if name.starts_with("envFile:") { None } else { lookup(name) };
            match (found, default) {
                (Some(value), None) => expanded.push_str(&value),
                (Some(value), Some(default)) => expanded.push_str(if value.is_empty() { default } else { &value }),
                (None, Some(default)) => expanded.push_str(default),
                (None, None) => drop(missing.insert(name.into())),
            }
            rest = after;
        } else {
            expanded.push(char);
            rest = rest.split_at(char.len_utf8()).1;
        }
    }
    expanded
}
