//! No secret appears in output for people: texts of events and failures, quirks, `Debug`.
//!
//! Each secret contains `hush`: user info, queries and fragments of URLs, session ids, tokens, values of headers, of
//! parameters of challenges, of variables, and arguments. Bodies of the server are reported unchanged, so they contain
//! secrets only in the URLs that the protocol defines.

use crate::common::{Deliver, Steps};
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use mcp_proto::binding::http::{Broken, HttpAction, HttpRequest};
use mcp_proto::host::config::{Configuration, Endpoint};
use mcp_proto::host::hub::{Hub, HubOptions};
use mcp_proto::{
    Cause, Client, Eras, Event, FailureKind, Http, Keepalive, Messages, OpenFailure, Options, ProtocolVersion,
    Reconnect, Request, Time, Transport,
};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use serde_json::{Value, json};

const URL: &str = "https://hush-user:hush-pw@example.com/mcp?key=hush";

/// References with secrets: within the origin, of another origin, and invalid URLs.
const REFERENCES: [&str; 12] = [
    "/moved?key=hush",
    "?key=hush",
    "https://ada:hush@example.com/mcp?key=hush#hush",
    "https://ada:hush@elsewhere.example/mcp?key=hush#hush",
    "//hush@elsewhere.example/?hush",
    "https://ada:hush?hush@elsewhere.example/",
    "https://ada:hush#hush@elsewhere.example/",
    "https://ada:hush/hush@elsewhere.example/",
    "https://ada:hush\\hush@elsewhere.example/",
    "https://ada:hush@[elsewhere.example/?hush",
    "hush:hush",
    "https://ada:hush@elsewhere.example:99999/",
];

/// Texts of failures that HTTP clients report.
const FAILURES: [&str; 5] = [
    "error sending request for url (https://hush-user:hush-pw@example.com/mcp?key=hush): dns error: no such host",
    "https://hush-user:hush-pw@example.com/mcp?key=hush: Connection refused",
    "GET /mcp?key=hush: reset by peer",
    "lookup of hush-user:hush-pw@example.com failed",
    "url=\"https://ada:hush?hush@example.com/mcp?key=hush\"",
];

/// How a server reacts to a request.
#[derive(Clone, Debug)]
enum Act {
    Answers { by_stream: bool },
    Redirects { status: u16, to: usize },
    Refuses(u16),
    Challenges(u16),
    Forgets,
    NamesEndpoint(usize),
    Nonsense(&'static str),
    Fails { unreachable: bool, why: usize },
    BreaksOff(usize),
    Hangs,
}

fn act() -> impl Strategy<Value = Act> {
    let status = prop_oneof![Just(301), Just(302), Just(303), Just(307), Just(308)];
    let refusal = prop_oneof![Just(400), Just(404), Just(405), Just(429), Just(500), Just(503)];
    let nonsense = prop_oneof![Just("<html>"), Just("{"), Just(""), Just("data: x\n\n"), Just("[1]")];
    prop_oneof![
        8 => any::<bool>().prop_map(|by_stream| Act::Answers { by_stream }),
        4 => (status, 0..REFERENCES.len()).prop_map(|(status, to)| Act::Redirects { status, to }),
        2 => refusal.prop_map(Act::Refuses),
        2 => prop_oneof![Just(401), Just(403)].prop_map(Act::Challenges),
        1 => Just(Act::Forgets),
        3 => (0..REFERENCES.len()).prop_map(Act::NamesEndpoint),
        1 => nonsense.prop_map(Act::Nonsense),
        3 => (any::<bool>(), 0..FAILURES.len()).prop_map(|(unreachable, why)| Act::Fails { unreachable, why }),
        1 => (0..FAILURES.len()).prop_map(Act::BreaksOff),
        1 => Just(Act::Hangs),
    ]
}

fn is_secret(text: &str) -> bool {
    text.contains("hush")
}

fn check(what: &impl Debug) {
    let text = format!("{what:?}");
    assert!(!is_secret(&text), "{text}");
}

/// A client whose outputs are all examined.
struct Watch {
    session: Client<Http>,
    now: Time,
    asked: Vec<HttpRequest>,
    /// The kinds of failure that occurred.
    failed: BTreeSet<FailureKind>,
}

impl Watch {
    fn new(options: Options) -> Self {
        check(&options);
        let mut session = Client::new(Http::new(URL).unwrap(), options, 0);
        check(&session);
        session.open(Time::ZERO).unwrap();
        let mut watch = Self { session, now: Time::ZERO, asked: vec![], failed: BTreeSet::new() };
        watch.poll();
        watch
    }

    fn poll(&mut self) {
        check(&self.session);
        let mut steps = Steps::until("nothing is left to poll");
        while let Some(mut action) = self.session.poll() {
            steps.step();
            check(&action);
            match &mut action {
                HttpAction::Request(request) => {
                    let bearer = HeaderValue::from_static("Bearer hush");
                    request.request.headers_mut().insert(AUTHORIZATION, bearer);
                    self.asked.push(request.clone());
                }
                HttpAction::Drop(dropped) => self.asked.retain(|asked| asked.exchange != *dropped),
                HttpAction::Event(Event::Down { failure, .. }) => self.fails(failure),
                HttpAction::Event(Event::Closed { cause: Cause::Failed(failure) }) => self.fails(failure),
                _ => {}
            }
            check(&action);
            check(&self.session);
        }
        for quirk in self.session.quirks() {
            assert!(!is_secret(&quirk.detail), "{}", quirk.detail);
        }
        assert!(!is_secret(self.session.server_name()));
    }

    fn fails(&mut self, failure: &mcp_proto::Failure) {
        assert!(!is_secret(&failure.to_string()), "{failure}");
        self.failed.insert(failure.kind);
    }

    fn head(&mut self, asked: &HttpRequest, status: u16, headers: &[(&'static str, &str)]) {
        let header = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).unwrap())
        };
        let headers: HeaderMap = headers.iter().map(header).collect();
        let status = StatusCode::from_u16(status).unwrap();
        self.session.handle_head(self.now, asked.exchange, status, &headers);
        self.poll();
    }

    fn body(&mut self, asked: &HttpRequest, body: &str) {
        self.session.handle_body(self.now, asked.exchange, body.as_bytes());
        self.poll();
    }

    fn end(&mut self, asked: &HttpRequest) {
        self.session.handle_end(self.now, asked.exchange);
        self.poll();
    }

    /// Sends a complete response.
    fn reply(&mut self, asked: &HttpRequest, status: u16, headers: &[(&'static str, &str)], body: &str) {
        self.head(asked, status, headers);
        self.body(asked, body);
        self.end(asked);
    }

    fn act(&mut self, asked: &HttpRequest, act: &Act) {
        let json = ("content-type", "application/json");
        let stream = ("content-type", "text/event-stream");
        match act {
            Act::Answers { by_stream } => {
                let message: Value = serde_json::from_slice(asked.request.body()).unwrap_or_default();
                let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else {
                    return self.reply(asked, if asked.request.method() == "GET" { 405 } else { 202 }, &[], "");
                };
                let capabilities = json!({"tools": {}, "resources": {}});
                let result = crate::common::result(method, &message["params"], "2025-11-25", &capabilities);
                let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
                let session = ("mcp-session-id", "hush-session");
                if *by_stream {
                    self.reply(asked, 200, &[stream, session], &format!("data: {answer}\n\n"));
                } else {
                    self.reply(asked, 200, &[json, session], &answer.to_string());
                }
            }
            Act::Redirects { status, to } => self.reply(asked, *status, &[("location", REFERENCES[*to])], ""),
            Act::Refuses(status) => self.reply(asked, *status, &[("location", REFERENCES[0])], "no"),
            Act::Challenges(status) => {
                let challenge =
                    "Bearer realm=\"hush\", resource_metadata=\"https://example.com/x?hush\", error=\"hush\"";
                self.reply(asked, *status, &[("www-authenticate", challenge)], "who are you?");
            }
            Act::Forgets => self.reply(asked, 404, &[], "Session not found"),
            Act::NamesEndpoint(at) if asked.request.method() == "GET" => {
                self.head(asked, 200, &[stream]);
                self.body(asked, &format!("event: endpoint\ndata: {}\n\n", REFERENCES[*at]));
            }
            // Leads to HTTP with SSE.
            Act::NamesEndpoint(_) => self.reply(asked, 405, &[], ""),
            Act::Nonsense(body) => self.reply(asked, 200, &[json], body),
            Act::Fails { unreachable, why } => {
                let broken = if *unreachable { Broken::Unreachable } else { Broken::Midway };
                self.session.handle_failure(self.now, asked.exchange, broken, FAILURES[*why]);
                self.poll();
            }
            Act::BreaksOff(why) => {
                self.head(asked, 200, &[stream]);
                self.body(asked, "id: 1\nretry: 100\ndata:\n\n");
                self.session.handle_failure(self.now, asked.exchange, Broken::Midway, FAILURES[*why]);
                self.poll();
            }
            Act::Hangs => {}
        }
    }

    fn serve(&mut self, acts: &mut impl Iterator<Item = Act>) {
        for _ in 0..50 {
            if self.asked.is_empty() {
                return;
            }
            let asked = self.asked.remove(0);
            let act = acts.next().unwrap_or(Act::Answers { by_stream: false });
            self.act(&asked, &act);
        }
    }

    fn wait(&mut self, duration: Duration) {
        let end = self.now + duration;
        for _ in 0..200 {
            let Some(deadline) = self.session.deadline().filter(|deadline| *deadline <= end) else { break };
            self.now = self.now.max(deadline);
            self.session.handle_timeout(self.now);
            self.poll();
        }
        self.now = end;
        self.session.handle_timeout(self.now);
        self.poll();
    }

    fn run(options: Options, acts: &[Act]) -> BTreeSet<FailureKind> {
        let mut watch = Self::new(options);
        let mut acts = acts.iter().cloned();
        for round in 0..6 {
            watch.serve(&mut acts);
            let request = if round % 2 == 0 { Request::call_tool("a", None) } else { Request::read_resource("r:1") };
            if let Err(refused) = watch.session.request(watch.now, request) {
                assert!(!is_secret(&refused.to_string()) && !is_secret(&format!("{refused:?}")));
            }
            watch.poll();
            watch.serve(&mut acts);
            watch.wait(Duration::from_secs(if round % 3 == 2 { 70 } else { 2 }));
        }
        let _ = watch.session.close(watch.now);
        watch.poll();
        watch.serve(&mut acts);
        watch.wait(Duration::from_secs(60));
        assert!(watch.session.is_closed());
        watch.failed
    }
}

fn options(eras: Eras, again: bool) -> Options {
    let mut options = Options::new("host", "1");
    options.server = URL.into();
    options.eras = eras;
    options.keepalive = again.then(Keepalive::default);
    options.reconnect = again.then(Reconnect::default);
    options
}

fn eras() -> impl Strategy<Value = Eras> {
    let modern = Eras::ModernOnly(ProtocolVersion::V2026_07_28);
    prop_oneof![2 => Just(Eras::Auto), 3 => Just(Eras::LegacyOnly), 1 => Just(modern)]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("proptest-regressions/secrets.txt"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_output_of_a_session_shows_a_secret(
        eras in eras(),
        again in any::<bool>(),
        acts in prop::collection::vec(act(), 0..16),
    ) {
        Watch::run(options(eras, again), &acts);
    }
}

/// Each reaction at each step of a connection.
#[test]
fn no_failure_shows_a_secret() {
    let mut acts = vec![Act::Forgets];
    acts.extend((0..REFERENCES.len()).flat_map(|to| [302, 307].map(|status| Act::Redirects { status, to })));
    acts.extend((0..REFERENCES.len()).map(Act::NamesEndpoint));
    acts.extend([401, 403].map(Act::Challenges));
    acts.extend([400, 404, 500, 503].map(Act::Refuses));
    for why in 0..FAILURES.len() {
        acts.extend([true, false].map(|unreachable| Act::Fails { unreachable, why }));
        acts.push(Act::BreaksOff(why));
    }
    let mut failed = BTreeSet::new();
    for eras in [Eras::Auto, Eras::LegacyOnly] {
        for (act, step) in acts.iter().flat_map(|act| (0..6).map(move |step| (act, step))) {
            let mut script = vec![Act::Answers { by_stream: false }; step];
            script.extend(std::iter::repeat_n(act.clone(), 8));
            failed.extend(Watch::run(options(eras, false), &script));
        }
        // The endpoint of HTTP with SSE.
        for at in 0..REFERENCES.len() {
            failed.extend(Watch::run(options(eras, false), &vec![Act::NamesEndpoint(at); 3]));
        }
    }
    let expected = [
        FailureKind::Connect,
        FailureKind::HandshakeRejected,
        FailureKind::Protocol,
        FailureKind::Closed,
        FailureKind::Unauthorized,
        FailureKind::Forbidden,
    ];
    assert!(expected.iter().all(|kind| failed.contains(kind)), "{failed:?}");
}

#[test]
fn a_redirect_to_another_origin_is_reported_without_its_secrets() {
    let mut watch = Watch::new(options(Eras::LegacyOnly, false));
    let asked = watch.asked.remove(0);
    watch.act(&asked, &Act::Redirects { status: 307, to: 3 });
    assert_eq!(watch.failed, BTreeSet::from([FailureKind::Protocol]));
}

#[test]
fn an_endpoint_of_another_origin_is_reported_without_its_secrets() {
    let mut watch = Watch::new(options(Eras::LegacyOnly, false));
    for _ in 0..2 {
        let asked = watch.asked.remove(0);
        watch.act(&asked, &Act::NamesEndpoint(3));
    }
    assert_eq!(watch.failed, BTreeSet::from([FailureKind::Protocol]));
}

/// If the server's name is its address, messages show it without secrets.
#[test]
fn a_session_that_is_named_by_its_address_shows_no_secret() {
    let options = options(Eras::LegacyOnly, false);
    check(&options);
    let over_http = Client::new(Http::new(URL).unwrap(), options.clone(), 0);
    assert_eq!(over_http.server_name(), "https://…@example.com/mcp?…");
    let mut session = Client::new(Messages::new(), options, 0);
    check(&session);
    session.open(Time::ZERO).unwrap();
    session.report(Time::ZERO, Transport::OpenFailed { how: OpenFailure::Connect, why: "no route" });
    let mut steps = Steps::until("nothing is left to poll");
    while let Some(action) = session.poll() {
        steps.step();
        check(&action);
    }
    assert_eq!(session.server_name(), "https://…@example.com/mcp?…");
}

// Configurations.

fn configuration() -> Value {
    json!({
        "stdio": {"command": "x", "args": ["--key", "hush", "--token=hush"], "env": {"KEY": "hush"}},
        "http": {"url": URL, "headers": {"Authorization": "Bearer hush", "X-Key": "hush"}, "auth": "hush"},
        "user-info": {"url": "https://ada:hush?hush@example.com/mcp"},
        "odd": {"url": "https://ada:hush?hush@example.com/mcp", "headers": {"X-Key": ["hush"]}, "timeout": {"hush": 1}},
        "numbers": {"command": "x", "env": {"KEY": {"hush": "hush"}}, "args": [["hush"]]},
        "both": {"command": "x", "url": URL, "env": {"A": "${MISSING} hush"}, "headers": {"A": "hush"}},
        "broken": {"url": "https://ada:hush@[example.com/?hush"},
        "relative": {"url": "ada:hush@example.com/?hush"},
        "missing": {"url": "https://hush@example.com/${MISSING}?key=hush", "headers": {"A": "hush ${MISSING}"}},
    })
}

#[test]
fn no_output_of_a_configuration_or_a_hub_shows_a_secret() {
    let config: Configuration = serde_json::from_value(configuration()).unwrap();
    check(&config);
    assert!(config.errors.len() + config.warnings.len() > 3);
    let expanded = config.expand(|name| (name == "KEY").then(|| "hush".into()));
    check(&expanded);
    for said in config.errors.iter().chain(&expanded.errors).map(ToString::to_string) {
        assert!(!is_secret(&said), "{said}");
    }
    for said in config.warnings.iter().chain(&expanded.warnings).map(ToString::to_string) {
        assert!(!is_secret(&said), "{said}");
    }
    for (name, entry) in &config.servers {
        check(entry);
        if let Endpoint::Http(http) = &entry.endpoint {
            check(http);
        }
        check(&entry.options(name, Options::new("host", "1")));
    }
    let mut hub = Hub::new(HubOptions::new(Options::new("host", "1")), 0);
    let changes = hub.configure(Time::ZERO, config);
    check(&changes);
    hub.open(Time::ZERO).unwrap();
    check(&hub);
    let mut now = Time::ZERO;
    for _ in 0..50 {
        let mut steps = Steps::until("nothing is left to poll");
        while let Some(action) = hub.poll() {
            steps.step();
            check(&action);
            check(&hub);
        }
        for report in hub.servers() {
            check(&report);
        }
        let Some(deadline) = hub.deadline() else { break };
        now = now.max(deadline);
        hub.handle_timeout(now);
    }
}

#[cfg(feature = "http")]
#[test]
fn an_invalid_url_is_refused_without_showing_it() {
    use mcp_proto::{Http, UrlError};

    for (url, error) in [
        ("", UrlError::Scheme),
        ("hush", UrlError::Scheme),
        ("/mcp?hush", UrlError::Scheme),
        ("hush.example/mcp", UrlError::Scheme),
        ("hush:hush@example.com/mcp", UrlError::Scheme),
        ("file:///hush", UrlError::Scheme),
        ("ws://hush.example/", UrlError::Scheme),
        ("https://", UrlError::NoHost),
        ("https:///hush", UrlError::NoHost),
        ("https://hush@/mcp", UrlError::Authority),
        ("https://:hush@:80/mcp", UrlError::NoHost),
        ("https://hush example/mcp", UrlError::Authority),
        ("https://example.com:hush/mcp", UrlError::Authority),
        ("https://[hush/mcp", UrlError::Authority),
        ("https://example.com/hush hush", UrlError::Path),
        ("https://example.com/?hush=\u{7f}", UrlError::Path),
    ] {
        let refused = Http::new(url).unwrap_err();
        assert_eq!(refused, error, "{url}");
        assert!(!format!("{refused:?} {refused}").contains("hush"), "{url}: {refused}");
    }
    for url in ["http://h", "HTTPS://me:hush@[::1]:8443/mcp?key=hush#hush", "https://example.com?x"] {
        let http = Http::new(url).unwrap();
        assert!(!format!("{http:?}").contains("hush"), "{http:?}");
    }
}
