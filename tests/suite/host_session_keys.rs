//! Keys of a configuration that change the session with a server: `protocol`, `keepalive_interval`, `elicitation`; and the
//! environment of programs.

use std::time::Duration;

use mcp_proto::host::config::{Configuration, Document, Endpoint, Entry, Oddity, Protocol, Stdio};
use mcp_proto::testkit::{Collector, FakeServer, FakeTool, Link, Sim};
use mcp_proto::{Client, Era, Lines, Options};
use serde_json::{Value, json};

use crate::common::seconds;

fn configuration(entry: &Value) -> Configuration {
    let Document(configuration) = serde_json::from_value(json!({"mcp_servers": {"s": entry}})).unwrap();
    configuration
}

fn entry(key: &str, value: Value) -> Entry {
    let mut configuration = configuration(&json!({"command": "x", key: value}));
    assert!(configuration.errors.is_empty() && configuration.warnings.is_empty(), "{configuration:?}");
    configuration.servers.remove("s").unwrap()
}

fn problem(key: &str, value: Value) -> String {
    let configuration = configuration(&json!({"command": "x", key: value}));
    let errors = configuration.errors.iter().map(ToString::to_string);
    errors.chain(configuration.warnings.iter().map(ToString::to_string)).collect::<Vec<_>>().join("; ")
}

fn options(entry: &Entry) -> Options {
    let mut options = Options::new("host", "1.0");
    options.capabilities.elicitation = true;
    options.capabilities.elicitation_url = true;
    entry.options("s", options)
}

/// A client with the options of this entry, after 10 minutes with a server that knows both eras.
fn session(entry: &Entry) -> Sim<Collector<Client<Lines>>> {
    let versions = ["2025-11-25", "2026-07-28"].map(|version| version.parse().unwrap());
    let server = FakeServer::new(versions).tool(FakeTool::new("a"));
    let mut sim = Sim::new(1).with_server("s", server, Link::default());
    let node = sim.add("s", Collector::new(Client::new(Lines::new(), options(entry), 1)));
    sim.tell(node, |now, client| client.open(now)).unwrap().unwrap();
    sim.run_for(seconds(600)).unwrap();
    assert!(sim.embedders().all(|client| client.is_ready()));
    sim
}

fn era(entry: &Entry) -> Option<Era> {
    session(entry).embedders().next().unwrap().server().map(|server| server.version.era())
}

fn pings(entry: &Entry) -> usize {
    session(entry).server("s").unwrap().received("ping")
}

#[test]
fn protocol_chooses_the_eras_that_are_tried() {
    let of = |word: &str| entry("protocol", word.into());
    assert_eq!(era(&of("legacy")), Some(Era::Legacy));
    assert_eq!(era(&of("modern")), Some(Era::Modern));
    assert_eq!(era(&of("auto")), Some(Era::Modern));
    assert_eq!(of("legacy").protocol, Some(Protocol::Legacy));
    let none = Entry::stdio("x");
    let mut host = Options::new("host", "1.0");
    host.eras = mcp_proto::Eras::LegacyFirst;
    assert_eq!(none.options("s", host.clone()).eras, host.eras, "the host's own choice");
    assert!(problem("protocol", "newest".into()).contains("newest"));
    assert!(problem("protocol", json!(7)).contains("`auto`, `modern` or `legacy`"));
}

#[test]
fn keepalive_interval_sets_or_ends_keepalive() {
    let legacy = |value: Value| {
        let mut entry = entry("keepalive_interval", value);
        entry.protocol = Some(Protocol::Legacy);
        entry
    };
    let often = pings(&legacy(json!(10)));
    let seldom = pings(&legacy(json!(200)));
    assert!((40..=60).contains(&often) && (2..=3).contains(&seldom), "{often} {seldom}");
    for off in [json!(0), json!(false), json!("0"), json!(0.0)] {
        assert_eq!(pings(&legacy(off)), 0);
    }
    let mut host = Options::new("host", "1.0");
    host.keepalive = None;
    assert_eq!(Entry::stdio("x").options("s", host.clone()).keepalive, None, "the host's own choice");
    let interval = legacy(json!(5)).options("s", host).keepalive.map(|keepalive| keepalive.interval);
    assert_eq!(interval, Some(Duration::from_secs(5)));
    for wrong in [json!(-1), json!("soon"), json!(true), json!([1])] {
        assert!(!problem("keepalive_interval", wrong).is_empty());
    }
}

#[test]
fn idle_timeout_and_max_lifetime_limit_how_long_a_program_runs() {
    let limits = |entry: Entry| (entry.idle_timeout, entry.max_lifetime);
    let (minute, hour) = (Some(Duration::from_secs(60)), Some(Duration::from_secs(3600)));
    assert_eq!(limits(Entry::stdio("x")), (None, None));
    for (key, expected) in [
        ("idle_timeout", (minute, None)),
        ("idle_timeout_seconds", (minute, None)),
        ("max_lifetime", (None, minute)),
        ("max_lifetime_seconds", (None, minute)),
    ] {
        for seconds in [json!(60), json!("60"), json!(60.0)] {
            assert_eq!(limits(entry(key, seconds.clone())), expected, "{key}");
            assert_eq!(limits(entry("lifecycle", json!({key: seconds}))), expected, "{key} under lifecycle");
        }
        for none in [json!(0), json!("0"), json!(0.0), json!(false), json!(null)] {
            assert_eq!(limits(entry(key, none)), (None, None), "{key}");
        }
        for wrong in [json!(-1), json!("soon"), json!(true), json!([1])] {
            let problem = problem(key, wrong);
            assert!(problem.contains(key), "{problem}");
        }
        assert!(problem(key, json!(60_000_000)).contains("not in milliseconds"));
        let configuration = configuration(&json!({"url": "https://example.com/mcp", key: 60_000_000}));
        assert_eq!(limits(configuration.servers["s"].clone()), (None, None));
        let warnings: Vec<_> = configuration.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(warnings, [format!("server `s`, `{key}`: it has no effect on a server without `command`")]);
    }
    let both = entry("lifecycle", json!({"idle_timeout_seconds": 60, "max_lifetime": 3600}));
    assert_eq!(limits(both), (minute, hour));
    let twice = configuration(&json!({"command": "x", "idle_timeout": 1, "lifecycle": {"idle_timeout_seconds": 60}}));
    assert_eq!(twice.servers["s"].idle_timeout, minute, "the last one counts");
    let warnings: Vec<_> = twice.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        ["server `s`, `lifecycle.idle_timeout_seconds`: it is there more than once; the last one counts"]
    );
    assert!(problem("lifecycle", json!({"idle": 3})).contains("lifecycle.idle"));
    assert!(problem("idleTimeouts", json!(3)).contains("`idle_timeout`"));
}

#[test]
fn elicitation_is_removed_but_never_added() {
    for (value, expected) in [(true, true), (false, false)] {
        let entry = entry("elicitation", value.into());
        let declared = options(&entry).capabilities;
        assert_eq!((declared.elicitation, declared.elicitation_url), (expected, expected));
        let none = entry.options("s", Options::new("host", "1.0")).capabilities;
        assert_eq!((none.elicitation, none.elicitation_url), (false, false));
    }
    let mut sim = session(&entry("elicitation", json!(false)));
    let declares =
        sim.change("s", |server| server.messages().any(|message| message.to_string().contains("elicitation")));
    assert_eq!(declares, Some(false));
    let mut sim = session(&Entry::stdio("x"));
    let declares =
        sim.change("s", |server| server.messages().any(|message| message.to_string().contains("elicitation")));
    assert_eq!(declares, Some(true));
}

#[test]
fn an_empty_include_beside_exclude_is_warned_about() {
    let template = configuration(&json!({"command": "x", "tools": {"include": [], "exclude": ["a"]}}));
    assert_eq!(template.warnings.len(), 1);
    assert_eq!(
        (template.warnings[0].key.as_deref(), &template.warnings[0].oddity),
        (Some("tools.include"), &Oddity::NoTools)
    );
    assert!(template.warnings[0].to_string().contains("no tool is used"));
    assert!(!template.servers["s"].tools.admits("b"));
    let template = configuration(&json!({"command": "x", "tools": {"include": [], "exclude": []}}));
    assert_eq!(template.warnings.len(), 1);
    // A server whose resources alone are used.
    let resources = configuration(&json!({"command": "x", "tools": {"include": [], "resources": true}}));
    assert_eq!(resources.warnings, []);
}

#[test]
fn a_program_inherits_no_variable_that_may_be_a_secret() {
    let Endpoint::Stdio(stdio) = entry("env", json!({"TOKEN": "own", "HOME": "/own"})).endpoint else {
        panic!("a program")
    };
    let host = |name: &str| (name != "TZ").then(|| format!("host's {name}").into());
    let environment = stdio.environment(host);
    assert_eq!((&*environment["TOKEN"], &*environment["HOME"], &*environment["PATH"]), ("own", "/own", "host's PATH"));
    assert!(!environment.contains_key("TZ"));
    assert_eq!(environment.len(), Stdio::INHERITED.len());
    let words = ["SECRET", "TOKEN", "KEY", "PASS", "CREDENTIAL", "PROXY"];
    assert!(Stdio::INHERITED.iter().all(|name| words.iter().all(|word| !name.contains(word))));
}
