//! The tolerances of the section "Handshake", row by row, over stdio; eras, versions, metadata.

use std::time::Duration;

use crate::common::{Deliver, Host, Server, Steps, options, reconnecting, seconds, tools};
use mcp_proto::{
    Action, CommandError, Era, Eras, Event, FailureKind, Family, FamilyStatus, KnownEra, LogLevel, Options, Outcome,
    ProtocolVersion, QuirkKind, Request, ShutdownStep, Time, TraceContext, Transport,
};
use serde_json::{Value, json};

const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
const MODERN: &str = "2026-07-28";
const PREFIX: &str = "io.modelcontextprotocol/";

fn with(eras: Eras) -> Options {
    let mut options = options();
    options.server = "acme".into();
    options.eras = eras;
    options
}

fn auto() -> Options {
    with(Eras::Auto)
}

fn modern_only() -> Options {
    with(Eras::ModernOnly(ProtocolVersion::V2026_07_28))
}

fn saved(version: ProtocolVersion) -> Options {
    let mut options = auto();
    options.known_era = Some(KnownEra::new(version));
    options
}

fn server() -> Server {
    Server::legacy(json!({"tools": {}})).result("tools/list", tools(&["a"]))
}

fn modern_server() -> Server {
    Server::modern(json!({"tools": {}})).result("tools/list", tools(&["a"]))
}

/// A server that answers `initialize` with this result.
fn initializing(result: Value) -> Server {
    Server::new().result("initialize", result).result("tools/list", tools(&[]))
}

fn initialized_with(version: &str) -> Value {
    json!({"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}})
}

fn discovered(versions: &[&str]) -> Value {
    json!({"resultType": "complete", "supportedVersions": versions, "capabilities": {}, "ttlMs": 0, "cacheScope": "public"})
}

fn unsupported(versions: &[&str]) -> Value {
    json!({"code": -32022, "message": "Unsupported protocol version", "data": {"supported": versions, "requested": MODERN}})
}

fn reply(host: &mut Host, request: &Value, result: Value) {
    host.receive(json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
}

fn refuse(host: &mut Host, request: &Value, error: Value) {
    host.receive(json!({"jsonrpc": "2.0", "id": request["id"], "error": error}));
}

fn offered(message: &Value) -> &str {
    match message["method"].as_str() {
        Some("initialize") => message["params"]["protocolVersion"].as_str().unwrap(),
        _ => message["params"]["_meta"][format!("{PREFIX}protocolVersion")].as_str().unwrap(),
    }
}

/// The versions in all messages of this method that were sent.
fn offers<'a>(host: &'a Host, method: &str) -> Vec<&'a str> {
    host.transcript
        .iter()
        .map(|(_, message)| message)
        .filter(|message| message["method"] == method)
        .map(offered)
        .collect()
}

/// The method of a message and the version that it offers.
fn opening(message: &Value) -> (&str, &str) {
    (message["method"].as_str().unwrap(), offered(message))
}

fn era(host: &Host) -> Option<Era> {
    host.session.server().filter(|_| host.is_ready()).map(|server| server.era())
}

fn version(host: &Host) -> Option<&str> {
    host.session.server().map(|server| server.version.as_str())
}

/// The client failed with this kind, and its message contains these words.
fn assert_failed(host: &Host, kind: FailureKind, words: &[&str]) {
    let failure = host.failure().expect("a failure");
    assert_eq!(failure.kind, kind, "{failure}");
    for word in [&["acme"], words].concat() {
        assert!(failure.message.contains(word), "no {word:?} in {failure}");
    }
    assert!(!host.is_ready());
}

fn assert_quirk(host: &Host, kind: QuirkKind, method: &str) {
    assert_eq!(host.quirk_methods(kind), [method]);
    let told = host.events.iter().filter(|event| matches!(event, Event::Quirk(quirk) if quirk.kind == kind));
    assert_eq!(told.count(), 1);
}

/// Opens the transport that the client requested, and completes handshake and discovery.
fn reopen(host: &mut Host, server: &mut Server) {
    host.take_sent();
    host.transport(Transport::Opened);
    host.serve(server);
    assert!(host.is_ready());
}

/// The connection breaks, and the delay of the reconnect passes.
fn crash(host: &mut Host) {
    let opens = host.opens;
    host.close_transport();
    host.wait(Duration::from_secs(1));
    assert_eq!(host.opens, opens + 1);
}

// The rows of the section.

/// rmcp before 3, lific #57, copilot-cli #4809
/// kody #2159
#[test]
fn modern_silent_a_server_that_answers_no_list_is_tried_once_with_initialize() {
    for (limit, wait) in [("connect", 10), ("discovery", 20), ("request", 60)] {
        let mut options = options();
        match limit {
            "connect" => options.timeouts.connect = Some(seconds(10)),
            "discovery" => options.timeouts.discovery = seconds(20),
            _ => {}
        }
        let mut host = Host::open(options);
        let discover = host.take_one();
        Server::modern(json!({"tools": {}})).answer(&discover).into_iter().for_each(|answer| host.receive(answer));
        assert_eq!(host.take_one()["method"], "tools/list");
        host.wait(seconds(wait - 1));
        assert!(host.quirks().is_empty() && host.shuts.is_empty());
        host.wait(seconds(1));
        assert_eq!(host.quirk_methods(QuirkKind::ModernSilent), ["server/discover"], "{limit}");
        assert!(!host.shuts.is_empty(), "a new connection");
        host.take_sent();
        host.close_transport();
        assert_eq!(host.opens, 2);
        host.transport(Transport::Opened);
        let mut server = Server::legacy(json!({"tools": {}})).result("tools/list", tools(&["a"]));
        host.serve(&mut server);
        assert!(host.is_ready(), "{:?}", host.failure());
        assert_eq!((server.received("server/discover"), host.keys(Family::Tools)), (0, vec!["a"]));
        assert_eq!(host.session.known_era().map(|known| known.era()), Some(Era::Legacy));
    }
}

#[test]
fn modern_silent_the_first_failure_is_told_where_initialize_fails_too() {
    let mut options = options();
    options.timeouts.connect = Some(seconds(10));
    let mut host = Host::open(options);
    let discover = host.take_one();
    Server::modern(json!({"tools": {}})).answer(&discover).into_iter().for_each(|answer| host.receive(answer));
    host.wait(seconds(10));
    host.close_transport();
    host.transport(Transport::Opened);
    let initialize = host.take_sent().pop().unwrap();
    assert_eq!(initialize["method"], "initialize");
    host.wait(seconds(10));
    let failure = host.failure().unwrap();
    assert_eq!(failure.kind, FailureKind::ListFailed);
    assert!(failure.message.contains("answered `server/discover`, and no list within 10s"), "{}", failure.message);
}

#[test]
fn modern_silent_does_not_apply_to_a_forced_era_or_after_an_answer() {
    for forced in [true, false] {
        let mut options = options();
        options.timeouts.connect = Some(seconds(10));
        if forced {
            options.eras = Eras::ModernOnly(ProtocolVersion::NEWEST_MODERN);
        }
        let mut host = Host::open(options);
        let discover = host.take_one();
        let mut server = Server::modern(json!({"tools": {}, "prompts": {}})).result("tools/list", tools(&["a"]));
        server.answer(&discover).into_iter().for_each(|answer| host.receive(answer));
        if !forced {
            let tools = host.take_sent().into_iter().find(|it| it["method"] == "tools/list").unwrap();
            server.answer(&tools).into_iter().for_each(|answer| host.receive(answer));
        }
        host.wait(seconds(10));
        assert_eq!((host.quirk_methods(QuirkKind::ModernSilent).len(), host.opens), (0, 1), "{forced}");
        assert_eq!(host.failure_kind(), Some(FailureKind::HandshakeTimeout));
    }
}

#[test]
fn modern_silent_does_not_apply_to_a_legacy_server() {
    let mut options = options();
    options.timeouts.connect = Some(seconds(10));
    let mut host = Host::open(options);
    let mut server = Server::legacy(json!({"tools": {}}));
    for method in ["server/discover", "initialize"] {
        let sent = host.take_one();
        assert_eq!(sent["method"], method);
        server.answer(&sent).into_iter().for_each(|answer| host.receive(answer));
    }
    host.wait(seconds(10));
    assert_eq!((host.quirk_methods(QuirkKind::ModernSilent).len(), host.opens), (0, 1));
    assert_eq!(host.failure_kind(), Some(FailureKind::HandshakeTimeout));
}

#[test]
fn probe_closed_opens_again_with_initialize() {
    let mut host = Host::open(auto());
    assert_eq!(host.take_methods(), ["server/discover"]);
    host.close_transport();
    assert_eq!((host.opens, host.take_sent().len(), host.failure(), &host.shuts[..]), (2, 0, None, &[][..]));
    assert!(host.quirks().is_empty());
    reopen(&mut host, &mut server());
    assert_eq!(host.methods(), ["server/discover", "initialize", "notifications/initialized", "tools/list"]);
    assert_eq!((era(&host), version(&host)), (Some(Era::Legacy), Some("2025-11-25")));
    assert_quirk(&host, QuirkKind::ProbeClosed, "server/discover");
    let verdict = host.session.known_era().unwrap();
    assert_eq!((verdict.version, verdict.discover_closes), (ProtocolVersion::V2025_11_25, true));
}

#[test]
fn probe_closed_is_remembered_for_the_next_reconnect() {
    let mut host = Host::open(reconnecting(auto()));
    host.close_transport();
    reopen(&mut host, &mut server());
    for _ in 0..2 {
        crash(&mut host);
        reopen(&mut host, &mut server());
    }
    assert_eq!(offers(&host, "server/discover"), [MODERN]);
    assert_quirk(&host, QuirkKind::ProbeClosed, "server/discover");
    assert!(host.session.known_era().unwrap().discover_closes);
}

/// "Re-probing if the cached assumption later fails" (specification 2026-07-28, "Versioning and Compatibility").
#[test]
fn probe_closed_is_probed_again_if_a_later_connection_refuses_initialize() {
    let mut host = Host::open(reconnecting(auto()));
    host.close_transport();
    reopen(&mut host, &mut server());
    crash(&mut host);
    reopen(&mut host, &mut modern_server());
    assert_eq!(era(&host), Some(Era::Modern));
}

#[test]
fn probe_closed_opens_again_once() {
    let mut host = Host::open(auto());
    host.close_transport();
    host.transport(Transport::Opened);
    assert_eq!(host.methods(), ["server/discover", "initialize"]);
    host.transport(Transport::Closed { why: "exit status 7" });
    assert_eq!(host.opens, 2);
    assert_failed(&host, FailureKind::Closed, &["exit status 7"]);
    assert!(host.session.is_closed() && host.quirks().is_empty());
}

/// python-sdk 1.2 to 1.6: mcp-server-sqlite, mcp-server-time
#[test]
fn probe_closed_on_the_initialize_that_follows_a_silent_probe() {
    let mut host = Host::open(auto());
    host.wait(Duration::from_secs(5));
    assert_eq!(host.take_methods(), ["server/discover", "initialize"]);
    host.close_transport();
    assert_eq!((host.opens, host.failure()), (2, None));
    reopen(&mut host, &mut server());
    assert_eq!(offers(&host, "server/discover").len(), 1);
    assert_quirk(&host, QuirkKind::ProbeClosed, "server/discover");
    assert!(host.session.known_era().unwrap().discover_closes);
}

#[test]
fn probe_closed_anywhere_in_a_handshake_that_began_with_a_probe() {
    for error in [json!({"code": -32601, "message": "no"}), unsupported(&[MODERN]), unsupported(&["2025-06-18"])] {
        let mut host = Host::open(auto());
        let probe = host.take_one();
        refuse(&mut host, &probe, error);
        assert_eq!(host.take_sent().len(), 1);
        host.close_transport();
        assert_eq!((host.opens, host.failure()), (2, None));
        host.transport(Transport::Opened);
        assert_eq!(opening(&host.take_one()), ("initialize", "2025-11-25"));
    }
}

#[test]
fn probe_closed_withdraws_unpolled_messages() {
    let mut host = Host::new(auto());
    host.session.open(host.now).unwrap();
    host.session.report(host.now, Transport::Opened);
    host.session.report(host.now, Transport::Closed { why: "end of file" });
    host.collect();
    assert!(host.take_sent().is_empty());
    host.transport(Transport::Opened);
    assert_eq!(host.take_methods(), ["initialize"]);
}

#[test]
fn probe_closed_keeps_waiting_requests() {
    let mut host = Host::open(auto());
    let request = host.session.request(host.now, Request::new("tools/call")).unwrap();
    host.close_transport();
    reopen(&mut host, &mut server().result("tools/call", json!({"content": []})));
    assert!(matches!(host.result_of(request), Outcome::Result(_)));
    assert_eq!(host.methods().iter().filter(|method| **method == "tools/call").count(), 1);
}

#[test]
fn a_close_after_the_handshake_is_not_probe_closed() {
    let mut host = Host::open(auto());
    let probe = host.take_one();
    reply(&mut host, &probe, json!({"supportedVersions": [MODERN], "capabilities": {"tools": {}}}));
    assert_eq!(host.take_methods(), ["tools/list"]);
    host.transport(Transport::Closed { why: "exit status 7" });
    assert_eq!(host.opens, 1);
    assert_failed(&host, FailureKind::Closed, &["exit status 7"]);
}

#[test]
fn a_close_with_only_one_era_allowed_fails() {
    for options in [modern_only(), with(Eras::LegacyOnly)] {
        let mut host = Host::open(options);
        host.transport(Transport::Closed { why: "exit status 7" });
        assert_eq!(host.opens, 1);
        assert_failed(&host, FailureKind::Closed, &["exit status 7"]);
        assert!(host.session.is_closed());
    }
}

/// snow-app #55
#[test]
fn probe_silent_is_followed_by_initialize_on_the_same_connection() {
    let mut host = Host::open(auto());
    assert_eq!(host.take_methods(), ["server/discover"]);
    host.wait(Duration::from_millis(4999));
    assert!(host.take_sent().is_empty());
    host.wait(Duration::from_millis(1));
    let sent = host.take_one();
    assert_eq!(opening(&sent), ("initialize", "2025-11-25"));
    reply(&mut host, &sent, initialized_with("2025-11-25"));
    host.serve(&mut server());
    assert_eq!((era(&host), host.opens), (Some(Era::Legacy), 1));
    assert_eq!(host.quirks(), [QuirkKind::ProbeSilent]);
    assert_quirk(&host, QuirkKind::ProbeSilent, "server/discover");
    assert!(!host.session.known_era().unwrap().discover_closes);
}

#[test]
fn the_options_set_the_time_of_probe_silent() {
    let mut options = auto();
    options.timeouts.discover = Duration::from_millis(200);
    let mut host = Host::open(options);
    host.wait(Duration::from_millis(200));
    assert_eq!(host.take_methods(), ["server/discover", "initialize"]);
}

/// It is more likely slow to start.
#[test]
fn a_server_that_was_modern_before_has_three_times_as_long_for_the_probe() {
    let mut host = Host::open(saved(ProtocolVersion::V2026_07_28));
    host.wait(Duration::from_millis(14_999));
    assert_eq!(host.take_methods(), ["server/discover"]);
    host.wait(Duration::from_millis(1));
    assert_eq!(host.take_methods(), ["initialize"]);
}

/// Only a modern server names a modern version, or has the error for it.
#[test]
fn an_initialize_that_is_refused_as_by_a_modern_server_fails() {
    let named = json!({"code": -32602, "message": "no", "data": {"supported": [MODERN]}});
    for error in [named, json!({"code": -32022, "message": "Unsupported protocol version"})] {
        let mut host = Host::open(with(Eras::LegacyOnly));
        let sent = host.take_one();
        refuse(&mut host, &sent, error);
        assert_failed(&host, FailureKind::HandshakeRejected, &["speaks only an era that the options exclude"]);
        assert!(host.take_sent().is_empty());
    }
}

#[test]
fn silence_with_only_the_modern_era_allowed_fails_without_initialize() {
    let mut host = Host::open(modern_only());
    host.wait(Duration::from_secs(60));
    assert_failed(&host, FailureKind::HandshakeTimeout, &["server/discover"]);
    assert_eq!(host.methods(), ["server/discover"]);
}

/// "The `initialize` request MUST NOT be cancelled by clients" (specification 2025-11-25, "Cancellation").
#[test]
fn silence_on_initialize_fails_without_a_cancellation() {
    for (options, sent) in
        [(auto(), &["server/discover", "initialize"][..]), (with(Eras::LegacyOnly), &["initialize"][..])]
    {
        let mut host = Host::open(options);
        host.wait(Duration::from_millis(59_999));
        assert_eq!(host.failure(), None);
        host.wait(Duration::from_millis(1));
        assert_failed(&host, FailureKind::HandshakeTimeout, &["initialize"]);
        assert_eq!(host.methods(), sent);
    }
}

/// A client that sent `initialize` after a probe without a response; the probe, and `initialize`.
fn initialize_after_silent_probe() -> (Host, Value, Value) {
    let mut host = Host::open(auto());
    let probe = host.take_one();
    host.wait(Duration::from_secs(5));
    let initialize = host.take_one();
    (host, probe, initialize)
}

#[test]
fn probe_late_continues_in_the_modern_era_if_initialize_is_refused() {
    let errors = [
        json!({"code": -32601, "message": "Method not found"}),
        json!({"code": -32602, "message": "Unsupported protocol version"}),
        json!({"code": -32602, "message": "no", "data": {"supported": [MODERN]}}),
        json!({"code": -32022, "message": "no", "data": {"supported": [MODERN]}}),
    ];
    for error in errors {
        let (mut host, probe, initialize) = initialize_after_silent_probe();
        reply(&mut host, &probe, discovered(&[MODERN]));
        assert!(!host.is_ready() && host.take_sent().is_empty());
        refuse(&mut host, &initialize, error);
        assert_eq!((era(&host), version(&host)), (Some(Era::Modern), Some(MODERN)));
        assert_eq!(host.quirks(), [QuirkKind::ProbeSilent, QuirkKind::ProbeLate]);
        assert_quirk(&host, QuirkKind::ProbeLate, "server/discover");
        assert!(!host.methods().contains(&"notifications/initialized"));
        assert_eq!(host.session.known_era().map(KnownEra::era), Some(Era::Modern));
    }
}

#[test]
fn probe_late_continues_in_the_modern_era_if_initialize_is_not_answered() {
    let (mut host, probe, _) = initialize_after_silent_probe();
    reply(&mut host, &probe, discovered(&[MODERN]));
    host.wait(Duration::from_secs(60));
    assert_eq!((era(&host), host.failure()), (Some(Era::Modern), None));
    assert!(!host.methods().contains(&"notifications/cancelled"), "`initialize` must not be cancelled");
}

#[test]
fn probe_late_stays_legacy_if_initialize_is_accepted() {
    let (mut host, probe, initialize) = initialize_after_silent_probe();
    reply(&mut host, &probe, discovered(&[MODERN]));
    reply(&mut host, &initialize, initialized_with("2025-11-25"));
    assert_eq!((era(&host), host.take_methods()), (Some(Era::Legacy), vec!["notifications/initialized".into()]));
    assert_eq!(host.quirks(), [QuirkKind::ProbeSilent, QuirkKind::ProbeLate]);
}

#[test]
fn a_probe_answered_after_initialize_changes_nothing() {
    let (mut host, probe, initialize) = initialize_after_silent_probe();
    reply(&mut host, &initialize, initialized_with("2025-11-25"));
    host.take_sent();
    reply(&mut host, &probe, discovered(&[MODERN]));
    assert_eq!((era(&host), host.take_sent().len()), (Some(Era::Legacy), 0));
    assert_eq!(host.session.stats().late_answers, 1);
}

#[test]
fn a_probe_that_is_never_answered_does_not_stay_in_flight() {
    let (mut host, _, initialize) = initialize_after_silent_probe();
    reply(&mut host, &initialize, initialized_with("2025-11-25"));
    let request = host.session.request(host.now, Request::new("acme/do")).unwrap();
    host.collect();
    host.receive(json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "broken"}}));
    assert!(
        matches!(host.result_of(request), Outcome::Error(error) if error.server().is_some_and(|error| &*error.message == "broken"))
    );
}

#[test]
fn initialize_follows_a_silent_probe_although_one_request_may_be_in_flight() {
    let mut options = auto();
    options.limits.in_flight = 0;
    let mut host = Host::open(options.clone());
    host.wait(seconds(60));
    assert!(host.take_sent().is_empty(), "nothing is ever sent");
    options.limits.in_flight = 1;
    let mut host = Host::open(options);
    let probe = host.take_one();
    host.wait(Duration::from_secs(5));
    let initialize = host.take_one();
    assert_eq!((&probe["method"], &initialize["method"]), (&json!("server/discover"), &json!("initialize")));
    reply(&mut host, &initialize, initialized_with("2025-11-25"));
    assert_eq!(era(&host), Some(Era::Legacy));
}

#[test]
fn probe_late_with_an_error_waits_for_initialize() {
    let refusal = json!({"code": -32601, "message": "no such thing"});
    let (mut host, probe, initialize) = initialize_after_silent_probe();
    refuse(&mut host, &probe, refusal.clone());
    assert!(host.take_sent().is_empty());
    reply(&mut host, &initialize, initialized_with("2025-11-25"));
    assert_eq!(era(&host), Some(Era::Legacy));
    assert_eq!(host.quirks(), [QuirkKind::ProbeSilent, QuirkKind::ProbeLate]);

    let (mut host, probe, initialize) = initialize_after_silent_probe();
    refuse(&mut host, &probe, refusal.clone());
    refuse(&mut host, &initialize, refusal);
    assert_failed(&host, FailureKind::HandshakeRejected, &["initialize", "no such thing", "-32601"]);
}

/// A recognized error of the modern era shows that the server is modern, however late (specification 2026-07-28,
/// "stdio").
#[test]
fn probe_late_with_a_modern_error_selects_the_modern_era() {
    let (mut host, probe, initialize) = initialize_after_silent_probe();
    refuse(&mut host, &probe, unsupported(&[MODERN]));
    assert!(host.take_sent().is_empty());
    refuse(&mut host, &initialize, json!({"code": -32601, "message": "Method not found"}));
    host.serve(&mut modern_server());
    assert_eq!(era(&host), Some(Era::Modern));
}

#[test]
fn probe_late_never_makes_initialize_offer_a_modern_version_or_one_twice() {
    for late in [&[MODERN][..], &["2025-11-25"], &["2025-06-18"]] {
        let (mut host, probe, initialize) = initialize_after_silent_probe();
        refuse(&mut host, &probe, unsupported(late));
        let mut refusing = Server::new().error("initialize", -32602, "unsupported protocol version");
        for answer in refusing.answer(&initialize) {
            host.receive(answer);
        }
        host.serve(&mut refusing);
        let offers = offers(&host, "initialize");
        assert_eq!(offers, LEGACY, "{late:?}");
    }
}

#[test]
fn any_other_error_to_the_probe_is_followed_by_initialize() {
    let codes = [-32601, -32602, -32603, -32600, -32700, -32002, -32042, -32023, -32099, -1, 0, 404];
    for code in codes {
        let mut host = Host::open(auto());
        let probe = host.take_one();
        refuse(
            &mut host,
            &probe,
            json!({"code": code, "message": "unsupported version", "data": {"supported": [MODERN]}}),
        );
        assert_eq!(opening(&host.take_one()), ("initialize", "2025-11-25"), "{code}");
        assert!(host.quirks().is_empty());
    }
}

#[test]
fn a_malformed_error_to_the_probe_is_followed_by_initialize() {
    for error in [json!("no"), json!(5), json!([]), json!({}), json!({"code": "x"})] {
        let mut host = Host::open(auto());
        let probe = host.take_one();
        refuse(&mut host, &probe, error);
        assert_eq!(host.take_methods(), ["initialize"]);
    }
}

/// "Do not fall back to `initialize`" (specification 2026-07-28, "stdio").
#[test]
fn a_recognized_modern_error_to_the_probe_fails_without_initialize() {
    for code in [-32020, -32021] {
        for options in [auto(), modern_only()] {
            let mut host = Host::open(options);
            let probe = host.take_one();
            refuse(&mut host, &probe, json!({"code": code, "message": "you lack sampling"}));
            assert_failed(&host, FailureKind::HandshakeRejected, &["server/discover", "you lack sampling"]);
            assert_eq!(host.methods(), ["server/discover"]);
        }
    }
}

#[test]
fn a_malformed_result_of_the_probe_is_followed_by_initialize() {
    for result in [json!(null), json!({}), json!([]), json!("ok"), json!({"tools": []})] {
        let mut host = Host::open(auto());
        let probe = host.take_one();
        reply(&mut host, &probe, result);
        assert_eq!(opening(&host.take_one()), ("initialize", "2025-11-25"));
    }
}

/// go-sdk: kubernetes-mcp-server
#[test]
fn a_probe_that_lists_legacy_versions_only_is_followed_by_the_newest_of_them() {
    for (versions, newest) in [
        (&["2024-11-05", "2025-06-18", "2025-03-26"][..], "2025-06-18"),
        (&["2099-01-01", "2024-11-05"], "2024-11-05"),
        (&["2025-11-25"], "2025-11-25"),
    ] {
        let mut host = Host::open(auto());
        let probe = host.take_one();
        reply(&mut host, &probe, discovered(versions));
        assert_eq!(opening(&host.take_one()), ("initialize", newest));
        assert!(host.quirks().is_empty());
    }
}

#[test]
fn a_probe_that_lists_no_version_in_common_fails() {
    let mut host = Host::open(auto());
    let probe = host.take_one();
    reply(&mut host, &probe, discovered(&["2099-01-01", "1999-01-01"]));
    assert_failed(&host, FailureKind::UnsupportedVersion, &["2099-01-01", "1999-01-01"]);
    assert!(host.take_sent().is_empty());
}

#[test]
fn a_version_error_that_names_a_modern_version_is_followed_by_that_version() {
    for options in [auto(), modern_only()] {
        let mut host = Host::open(options);
        let probe = host.take_one();
        refuse(&mut host, &probe, unsupported(&["2099-01-01", MODERN, "2025-11-25"]));
        let again = host.take_one();
        assert_eq!(opening(&again), ("server/discover", MODERN));
        assert_ne!(again["id"], probe["id"]);
        reply(&mut host, &again, discovered(&[MODERN]));
        assert_eq!((era(&host), host.quirks().len()), (Some(Era::Modern), 0));
    }
}

#[test]
fn a_second_version_error_fails() {
    for options in [auto(), modern_only()] {
        let mut host = Host::open(options);
        host.serve(&mut Server::new().on("server/discover", |_| Err(unsupported(&[MODERN]))));
        assert_failed(&host, FailureKind::UnsupportedVersion, &["Unsupported protocol version"]);
        assert_eq!(host.methods(), ["server/discover", "server/discover"]);
    }
}

#[test]
fn a_version_error_that_names_legacy_versions_only_is_followed_by_the_newest_of_them() {
    let mut host = Host::open(auto());
    let probe = host.take_one();
    refuse(&mut host, &probe, unsupported(&["2024-11-05", "2025-06-18", "2025-03-26"]));
    let initialize = host.take_one();
    assert_eq!(opening(&initialize), ("initialize", "2025-06-18"));
    reply(&mut host, &initialize, initialized_with("2025-06-18"));
    assert_eq!((era(&host), version(&host)), (Some(Era::Legacy), Some("2025-06-18")));
    assert!(host.quirks().is_empty());
}

#[test]
fn a_version_error_without_a_common_version_fails_at_once() {
    let bare = json!({"code": -32022, "message": "Unsupported protocol version"});
    for error in [unsupported(&["2099-01-01"]), unsupported(&[]), bare] {
        for options in [auto(), modern_only()] {
            let mut host = Host::open(options);
            let probe = host.take_one();
            refuse(&mut host, &probe, error.clone());
            assert_failed(&host, FailureKind::UnsupportedVersion, &[]);
            assert_eq!(host.methods(), ["server/discover"]);
        }
    }
}

/// mongodb-mcp-server
#[test]
fn error_codes_of_the_servers_own_are_never_modern_errors() {
    for code in -32019..=-32000 {
        let mut host = Host::open(auto());
        let probe = host.take_one();
        refuse(
            &mut host,
            &probe,
            json!({"code": code, "message": "session required", "data": {"supported": [MODERN]}}),
        );
        assert_eq!(host.take_methods(), ["initialize"], "{code}");
    }
}

fn log(number: usize) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": number}})
}

/// The numbers of the log messages that were reported after `Ready`.
fn logged(host: &Host) -> Vec<usize> {
    let ready = host.events.iter().position(|event| matches!(event, Event::Ready)).unwrap();
    let number = |event: &Event| match event {
        Event::Notification { params: Some(params), .. } => {
            let params: Value = serde_json::from_str(params.get()).unwrap();
            params["data"].as_u64().map(|number| number as usize)
        }
        _ => None,
    };
    assert!(!host.events[..ready].iter().any(|event| number(event).is_some()));
    host.events.iter().filter_map(number).collect()
}

/// effect-mcp #18, ruflo #898
#[test]
fn notifications_before_the_initialize_response_wait_in_order_until_the_session_is_ready() {
    let mut host = Host::open(with(Eras::LegacyOnly));
    let initialize = host.take_one();
    for number in 0..3 {
        host.receive(log(number));
    }
    reply(&mut host, &initialize, json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}));
    host.receive(log(3));
    assert!(!host.is_ready());
    assert!(!host.events.iter().any(|event| matches!(event, Event::Notification { .. })));
    host.serve(&mut server());
    assert_eq!(logged(&host), [0, 1, 2, 3]);
}

#[test]
fn notifications_before_the_initialize_response_are_limited() {
    let mut host = Host::open(with(Eras::LegacyOnly));
    for number in 0..300 {
        host.receive(log(number));
    }
    host.serve(&mut server());
    assert_eq!(logged(&host), (0..256).collect::<Vec<_>>());
    assert_eq!(host.session.stats().left_out, 44);
}

#[test]
fn notifications_before_the_initialize_response_are_limited_in_bytes() {
    let mut host = Host::open(with(Eras::LegacyOnly));
    for number in 0..5 {
        let params = json!({"data": number, "text": "x".repeat(300 << 10)});
        host.receive(json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params}));
    }
    host.serve(&mut server());
    assert_eq!(logged(&host), [0, 1, 2]);
    assert_eq!(host.session.stats().left_out, 2);
}

#[test]
fn list_changed_before_the_initialize_response_is_honored_once_ready() {
    let mut host = Host::open(with(Eras::LegacyOnly));
    host.receive(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    let mut server = server();
    host.serve(&mut server);
    assert_eq!((host.is_ready(), server.received("tools/list")), (true, 1));
    host.wait(Duration::from_secs(2));
    assert_eq!(host.take_methods(), ["tools/list"]);
    assert!(host.quirks().is_empty());
}

/// chrome-devtools-mcp #2476, playwright #41490
#[test]
fn server_requests_before_initialized_are_answered_at_once() {
    for eras in [Eras::Auto, Eras::LegacyFirst, Eras::LegacyOnly] {
        let mut options = with(eras);
        options.capabilities.roots = Some(vec![]);
        let mut host = Host::open(options);
        host.take_one();
        for (method, answer) in [
            ("ping", json!({"jsonrpc": "2.0", "id": "s-1", "result": {}})),
            ("roots/list", json!({"jsonrpc": "2.0", "id": "s-1", "result": {"roots": []}})),
        ] {
            host.receive(json!({"jsonrpc": "2.0", "id": "s-1", "method": method}));
            assert_eq!(host.take_one(), answer);
        }
        host.receive(json!({"jsonrpc": "2.0", "id": 5, "method": "acme/ask"}));
        assert_eq!(host.take_one()["error"]["code"], -32601);
        assert!(host.quirks().is_empty());
    }
}

/// rust-sdk #613, #704
#[test]
fn nothing_is_sent_between_the_initialize_response_and_initialized() {
    let mut options = with(Eras::LegacyOnly);
    options.log_level = Some(LogLevel::Info);
    let mut host = Host::open(options);
    let early = host.session.request(host.now, Request::new("tools/call")).unwrap();
    let given_up = host.session.request(host.now, Request::new("tools/call").timeout(Duration::from_secs(1))).unwrap();
    assert_eq!(host.session.notify(host.now, "notifications/example", None), Err(CommandError::NotReady));
    host.wait(Duration::from_secs(2));
    assert!(matches!(host.result_of(given_up), Outcome::TimedOut(mcp_proto::TimeBound::Timeout)));
    let initialize = host.take_one();
    assert_eq!(initialize["method"], "initialize");
    let capabilities = json!({"tools": {}, "logging": {}});
    reply(&mut host, &initialize, json!({"protocolVersion": "2025-11-25", "capabilities": capabilities}));
    let sent = host.take_sent();
    assert_eq!(sent[0], json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let methods: Vec<_> = sent[1..].iter().map(|message| message["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["logging/setLevel", "tools/list"]);
    for answer in sent.iter().flat_map(|message| server().answer(message)) {
        host.receive(answer);
    }
    let call = host.take_one();
    reply(&mut host, &call, json!({}));
    assert!(matches!(host.result_of(early), Outcome::Result(_)));
}

/// mcp-k8s-go #40, FableCut #59
#[test]
fn an_unknown_version_fails() {
    for unknown in ["2024-10-07", "2025-07-01", "2099-01-01", "1.0", "", "latest"] {
        let mut host = Host::connect(auto(), &mut initializing(initialized_with(unknown)));
        assert_failed(&host, FailureKind::UnsupportedVersion, &[unknown]);
        assert!(!host.methods().contains(&"notifications/initialized"));
        host.wait(Duration::from_secs(60));
        assert!(host.session.is_closed());
    }
}

#[test]
fn version_unknown_is_treated_as_the_next_older_one_by_policy() {
    for (unknown, nearest) in [
        ("2025-07-01", "2025-06-18"),
        ("2025-06-17", "2025-03-26"),
        ("2024-12-01", "2024-11-05"),
        ("2026-01-01", "2025-11-25"),
        ("2099-01-01", "2025-11-25"),
    ] {
        let mut options = with(Eras::LegacyOnly);
        options.tolerance.nearest_version = true;
        let host = Host::connect(options, &mut initializing(initialized_with(unknown)));
        assert_eq!((era(&host), version(&host)), (Some(Era::Legacy), Some(nearest)), "{unknown}");
        assert_eq!(host.quirks(), [QuirkKind::VersionUnknown]);
        assert_quirk(&host, QuirkKind::VersionUnknown, "initialize");
        assert!(host.session.quirks()[0].detail.contains(unknown));
    }
}

#[test]
fn an_unknown_version_older_than_all_fails_by_policy_too() {
    let mut options = with(Eras::LegacyOnly);
    options.tolerance.nearest_version = true;
    let host = Host::connect(options, &mut initializing(initialized_with("2024-10-07")));
    assert_failed(&host, FailureKind::UnsupportedVersion, &["2024-10-07"]);
}

/// A server that refuses every version but one with this error.
fn accepting_one_version(accepts: &'static str, error: Value) -> Server {
    Server::new().on("initialize", move |params| {
        if params["protocolVersion"] == accepts { Ok(initialized_with(accepts)) } else { Err(error.clone()) }
    })
}

/// higress #3226, xiaohongshu-mcp #697
#[test]
fn version_refused_offers_the_next_older_version_each_once() {
    let errors = [
        json!({"code": -32602, "message": "unsupported protocol version: 2025-11-25"}),
        json!({"code": -32000, "message": "Bad Request: Unsupported protocol version (supported versions: 2024-11-05)"}),
        json!({"code": -32602, "message": "Invalid request parameters"}),
    ];
    for error in errors {
        for (at, accepts) in LEGACY.into_iter().enumerate().skip(1) {
            let mut server = accepting_one_version(accepts, error.clone());
            let host = Host::connect(with(Eras::LegacyOnly), &mut server);
            assert_eq!(offers(&host, "initialize"), LEGACY[..=at]);
            assert_eq!((era(&host), version(&host)), (Some(Era::Legacy), Some(accepts)));
            assert_eq!(host.quirks(), [QuirkKind::VersionRefused]);
            assert_quirk(&host, QuirkKind::VersionRefused, "initialize");
            let detail = &host.session.quirks()[0].detail;
            assert!(detail.contains("was refused") && detail.contains("another version follows"), "{detail}");
            assert_eq!(host.session.known_era().map(|verdict| verdict.version.as_str()), Some(accepts));
        }
    }
}

#[test]
fn version_refused_is_remembered_for_the_next_reconnect() {
    let error = json!({"code": -32602, "message": "unsupported protocol version"});
    let mut server = accepting_one_version("2025-03-26", error);
    let mut host = Host::connect(reconnecting(with(Eras::LegacyOnly)), &mut server);
    crash(&mut host);
    reopen(&mut host, &mut server);
    assert_eq!(offers(&host, "initialize"), ["2025-11-25", "2025-06-18", "2025-03-26", "2025-03-26"]);
}

#[test]
fn version_refused_offers_the_version_that_the_error_names() {
    let mut error = unsupported(&["2025-03-26", "2024-11-05", "2099-01-01"]);
    error["code"] = json!(-32602);
    let host = Host::connect(with(Eras::LegacyOnly), &mut accepting_one_version("2025-03-26", error));
    assert_eq!(offers(&host, "initialize"), ["2025-11-25", "2025-03-26"]);
    assert_quirk(&host, QuirkKind::VersionRefused, "initialize");
}

#[test]
fn every_version_refused_fails_after_each_was_offered_once() {
    for error in [
        json!({"code": -32602, "message": "unsupported protocol version"}),
        json!({"code": -32602, "message": "unsupported protocol version", "data": {"supported": LEGACY}}),
        json!({"code": -32000, "message": "what version?", "data": {"supported": ["2025-11-25"]}}),
    ] {
        let mut server = Server::new().on("initialize", move |_| Err(error.clone()));
        let host = Host::connect(with(Eras::LegacyOnly), &mut server);
        assert_failed(&host, FailureKind::HandshakeRejected, &["initialize", "version"]);
        assert_eq!(offers(&host, "initialize"), LEGACY);
    }
}

#[test]
fn every_version_refused_is_not_a_refusal_of_the_capabilities() {
    let mut options = with(Eras::LegacyOnly);
    options.capabilities.sampling = true;
    let mut server = Server::new().error("initialize", -32602, "unsupported protocol version");
    let host = Host::connect(options, &mut server);
    assert_eq!(offers(&host, "initialize"), LEGACY);
    assert_eq!(host.quirks(), [QuirkKind::VersionRefused]);
}

#[test]
fn version_refused_after_the_probe_named_versions_offers_none_twice() {
    let error = json!({"code": -32602, "message": "unsupported protocol version"});
    for named in [discovered(&["2025-06-18"]), discovered(&["2025-06-18", "2024-11-05"])] {
        let mut server = accepting_one_version("2025-03-26", error.clone()).result("server/discover", named);
        let host = Host::connect(auto(), &mut server);
        assert_eq!(offers(&host, "initialize"), ["2025-06-18", "2025-03-26"]);
        assert_eq!(version(&host), Some("2025-03-26"));
    }
}

fn capable() -> Options {
    let mut options = with(Eras::LegacyOnly);
    options.capabilities.sampling = true;
    options.capabilities.elicitation = true;
    options.capabilities.roots = Some(vec![]);
    options
}

/// fastmcp #3332, higress #4573
#[test]
fn capabilities_refused_is_followed_by_initialize_without_capabilities() {
    for (code, words) in [(-32602, "Invalid request parameters"), (-32603, "json: unknown field \"elicitation\"")] {
        let mut server = Server::new().on("initialize", move |params| {
            if params["capabilities"] == json!({}) {
                return Ok(initialized_with("2025-11-25"));
            }
            Err(json!({"code": code, "message": words}))
        });
        let host = Host::connect(capable(), &mut server);
        assert_eq!(offers(&host, "initialize"), ["2025-11-25", "2025-11-25"]);
        assert_eq!(host.transcript[0].1["params"]["capabilities"].as_object().unwrap().len(), 3);
        assert!(host.is_ready());
        assert_eq!(host.quirks(), [QuirkKind::CapabilitiesRefused]);
        assert_quirk(&host, QuirkKind::CapabilitiesRefused, "initialize");
        assert!(host.session.quirks()[0].detail.contains(words));
    }
}

#[test]
fn capabilities_refused_means_that_none_were_declared() {
    let mut server = Server::new().on("initialize", |params| {
        if params["capabilities"] == json!({}) {
            return Ok(initialized_with("2025-11-25"));
        }
        Err(json!({"code": -32602, "message": "unknown capability"}))
    });
    let mut host = Host::connect(capable(), &mut server);
    host.take_sent();
    for method in ["roots/list", "sampling/createMessage", "elicitation/create"] {
        host.receive(json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}));
        assert_eq!(host.take_one()["error"]["code"], -32601, "{method}");
    }
}

#[test]
fn capabilities_refused_once_more_fails() {
    let mut server = Server::new().error("initialize", -32603, "json: unknown field \"sampling\"");
    let host = Host::connect(capable(), &mut server);
    assert_eq!(offers(&host, "initialize").len(), 2);
    assert_failed(&host, FailureKind::HandshakeRejected, &["initialize", "json: unknown field", "-32603"]);
}

/// Reports signs of life repeatedly until something is sent or fails; returns the time of that.
fn keep_alive(host: &mut Host, every: Duration) -> Time {
    let (sent, down) = (host.transcript.len(), host.failure().is_some());
    for _ in 0..10_000 {
        host.transport(Transport::SignOfLife);
        let end = host.now + every;
        let mut steps = Steps::until("the time to the next sign of life is over");
        while host.now < end {
            steps.step();
            let step = host.session.deadline().filter(|at| *at <= end).map_or(end, |at| at.max(host.now));
            host.wait(step - host.now);
            if host.transcript.len() > sent || host.failure().is_some() != down {
                return host.now;
            }
        }
    }
    panic!("the wait does not end");
}

/// copilot-cli #4421, comfyui-mcp #1447
#[test]
fn signs_of_life_extend_the_time_to_open_up_to_its_limit() {
    let mut host = Host::new(auto());
    host.session.open(host.now).unwrap();
    host.collect();
    host.wait(Duration::from_secs(59));
    host.transport(Transport::SignOfLife);
    host.wait(Duration::from_millis(59_999));
    assert_eq!(host.failure(), None);
    let end = keep_alive(&mut host, Duration::from_secs(45));
    assert_eq!(end, Time::from_millis(600_000));
    assert_failed(&host, FailureKind::HandshakeTimeout, &[]);
    assert_eq!(host.shuts, [ShutdownStep::CloseInput]);
}

#[test]
fn without_signs_of_life_the_time_to_open_ends() {
    let mut host = Host::new(auto());
    host.now = Time::from_millis(3_600_000);
    host.session.open(host.now).unwrap();
    host.collect();
    host.wait(Duration::from_secs(10));
    host.transport(Transport::SignOfLife);
    host.wait(Duration::from_millis(59_999));
    assert_eq!(host.failure(), None);
    host.wait(Duration::from_millis(1));
    assert_failed(&host, FailureKind::HandshakeTimeout, &[]);
}

#[test]
fn signs_of_life_extend_the_handshake_up_to_its_limit() {
    let mut host = Host::new(with(Eras::LegacyOnly));
    host.session.open(host.now).unwrap();
    host.collect();
    host.wait(Duration::from_secs(50));
    host.transport(Transport::Opened);
    let end = keep_alive(&mut host, Duration::from_secs(45));
    assert_eq!(end, Time::from_millis(650_000));
    assert_failed(&host, FailureKind::HandshakeTimeout, &["initialize"]);
}

#[test]
fn a_server_that_is_slow_to_start_connects_after_signs_of_life() {
    let mut host = Host::open(with(Eras::LegacyOnly));
    for _ in 0..10 {
        host.wait(Duration::from_secs(50));
        host.transport(Transport::SignOfLife);
    }
    host.serve(&mut server());
    assert!(host.is_ready() && host.quirks().is_empty());
}

#[test]
fn signs_of_life_extend_the_probe_up_to_three_times() {
    let mut host = Host::open(auto());
    host.take_one();
    assert_eq!(keep_alive(&mut host, Duration::from_secs(2)), Time::from_millis(15_000));
    assert_eq!(host.take_methods(), ["initialize"]);
    assert_eq!(host.quirks(), [QuirkKind::ProbeSilent]);

    let mut host = Host::open(auto());
    host.wait(Duration::from_secs(4));
    host.transport(Transport::SignOfLife);
    host.take_one();
    host.wait(Duration::from_millis(4999));
    assert!(host.take_sent().is_empty());
    host.wait(Duration::from_millis(1));
    assert_eq!(host.take_methods(), ["initialize"]);
}

#[test]
fn a_sign_of_life_without_a_deadline_changes_nothing() {
    let mut host = Host::connect(auto(), &mut server());
    let before = format!("{:?}", host.session);
    host.transport(Transport::SignOfLife);
    assert_eq!(format!("{:?}", host.session), before);
    assert_eq!(host.session.deadline(), None);
}

#[test]
fn initialize_shape_with_a_missing_or_malformed_server_info_is_accepted() {
    for info in [None, Some(json!(null)), Some(json!("s")), Some(json!({})), Some(json!({"name": 5, "version": "1"}))] {
        let mut answer = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}});
        if let Some(info) = info {
            answer["serverInfo"] = info;
        }
        let host = Host::connect(auto(), &mut initializing(answer));
        assert!(host.is_ready());
        assert_eq!(host.quirks(), [QuirkKind::InitializeShape]);
        assert_quirk(&host, QuirkKind::InitializeShape, "initialize");
        assert_eq!(host.session.server().unwrap().name, None);
    }
}

#[test]
fn initialize_shape_with_ill_typed_members_is_accepted_without_them() {
    let mut odd = [initialized_with("2025-11-25"), initialized_with("2025-11-25"), initialized_with("2025-11-25")];
    odd[0]["instructions"] = json!(7);
    odd[1]["serverInfo"]["version"] = json!(1.5);
    odd[2]["serverInfo"] = json!({"name": "s"});
    for answer in odd {
        let host = Host::connect(auto(), &mut initializing(answer.clone()));
        assert!(host.is_ready());
        assert_eq!(host.session.server().unwrap().instructions, None);
        assert_eq!(host.quirks(), [QuirkKind::InitializeShape], "{answer}");
        assert_quirk(&host, QuirkKind::InitializeShape, "initialize");
    }
}

#[test]
fn extra_members_in_the_initialize_response_are_no_quirk() {
    let mut answer = initialized_with("2025-11-25");
    answer["x"] = json!({"y": 1});
    answer["serverInfo"]["title"] = json!("S");
    answer["_meta"] = json!({});
    answer["instructions"] = json!("use it");
    let host = Host::connect(auto(), &mut initializing(answer));
    assert!(host.is_ready() && host.quirks().is_empty());
    let server = host.session.server().unwrap();
    assert_eq!((server.name.as_deref(), server.instructions.as_deref()), (Some("s"), Some("use it")));
}

#[test]
fn initialize_shape_without_capabilities_lists_every_family() {
    for capabilities in [None, Some(json!(null)), Some(json!([])), Some(json!("tools"))] {
        let mut answer = json!({"protocolVersion": "2025-11-25", "serverInfo": {"name": "s", "version": "1"}});
        if let Some(capabilities) = capabilities {
            answer["capabilities"] = capabilities;
        }
        let mut host = Host::connect(auto(), &mut initializing(answer));
        assert!(host.is_ready());
        let absent = FamilyStatus::Absent;
        let statuses: Vec<_> = Family::ALL.iter().map(|family| host.status(*family)).collect();
        assert_eq!(statuses, [FamilyStatus::Listed, absent, absent, absent]);
        assert_eq!(host.quirks(), [QuirkKind::InitializeShape]);
        assert_quirk(&host, QuirkKind::InitializeShape, "initialize");
        host.session.request(host.now, Request::new("prompts/get")).unwrap();
        host.collect();
        assert_eq!(host.take_methods(), ["prompts/get"]);
    }
}

#[test]
fn an_initialize_response_without_a_version_fails() {
    for answer in [json!({"capabilities": {}, "x": "odd"}), json!("odd"), json!(null), json!({"protocolVersion": 5})] {
        let host = Host::connect(auto(), &mut initializing(answer.clone()));
        assert_failed(&host, FailureKind::Protocol, &["initialize", &answer.to_string()]);
        assert!(!host.methods().contains(&"notifications/initialized"));
    }
}

// Eras.

#[test]
fn auto_probes_first_and_never_initializes_a_modern_server() {
    let host = Host::connect(auto(), &mut modern_server());
    assert_eq!((era(&host), host.methods()), (Some(Era::Modern), vec!["server/discover", "tools/list"]));
    assert!(host.quirks().is_empty());
    assert_eq!(host.session.known_era(), Some(KnownEra::new(ProtocolVersion::V2026_07_28)));
}

#[test]
fn auto_initializes_a_legacy_server_after_the_probe() {
    let host = Host::connect(auto(), &mut server());
    assert_eq!(era(&host), Some(Era::Legacy));
    assert_eq!(host.methods(), ["server/discover", "initialize", "notifications/initialized", "tools/list"]);
    assert!(host.quirks().is_empty());
    assert_eq!(host.session.known_era(), Some(KnownEra::new(ProtocolVersion::V2025_11_25)));
}

#[test]
fn auto_fails_if_probe_and_initialize_are_refused() {
    let host = Host::connect(auto(), &mut Server::new().error("initialize", -32001, "licence expired"));
    assert_failed(&host, FailureKind::HandshakeRejected, &["initialize", "licence expired", "-32001"]);
    assert_eq!(host.session.known_era(), None);
}

#[test]
fn legacy_first_never_probes_a_legacy_server() {
    let host = Host::connect(with(Eras::LegacyFirst), &mut server());
    assert_eq!(host.methods(), ["initialize", "notifications/initialized", "tools/list"]);
    assert_eq!(era(&host), Some(Era::Legacy));
}

#[test]
fn legacy_first_probes_if_initialize_is_refused() {
    let errors = [
        json!({"code": -32601, "message": "Method not found"}),
        json!({"code": -32602, "message": "no `_meta`", "data": {"supported": [MODERN]}}),
        unsupported(&[MODERN]),
    ];
    for error in errors {
        let mut server = modern_server().on("initialize", move |_| Err(error.clone()));
        let host = Host::connect(with(Eras::LegacyFirst), &mut server);
        assert_eq!((era(&host), offers(&host, "server/discover")), (Some(Era::Modern), vec![MODERN]));
    }
}

#[test]
fn legacy_first_fails_if_probe_and_initialize_are_refused() {
    let mut server = Server::new().error("server/discover", -32001, "licence expired");
    let host = Host::connect(with(Eras::LegacyFirst), &mut server);
    assert_failed(&host, FailureKind::HandshakeRejected, &["server/discover", "licence expired", "-32001"]);
}

#[test]
fn legacy_only_never_probes() {
    let host = Host::connect(with(Eras::LegacyOnly), &mut modern_server());
    assert_failed(&host, FailureKind::HandshakeRejected, &["initialize", "Method not found", "-32601"]);
    assert_eq!(host.methods(), ["initialize"]);
}

#[test]
fn legacy_only_reports_the_error_of_a_modern_server() {
    let mut server = modern_server().on("initialize", |_| Err(unsupported(&[MODERN])));
    let host = Host::connect(with(Eras::LegacyOnly), &mut server);
    assert_failed(&host, FailureKind::HandshakeRejected, &["Unsupported protocol version"]);
    assert_eq!(host.methods(), ["initialize"]);
}

#[test]
fn modern_only_never_initializes() {
    let host = Host::connect(modern_only(), &mut modern_server());
    assert_eq!((era(&host), host.methods()), (Some(Era::Modern), vec!["server/discover", "tools/list"]));

    let host = Host::connect(modern_only(), &mut server());
    assert_failed(&host, FailureKind::HandshakeRejected, &["server/discover", "Method not found", "-32601"]);
    assert_eq!(host.methods(), ["server/discover"]);
}

#[test]
fn modern_only_refuses_a_server_that_names_legacy_versions_only() {
    for mut server in [
        Server::legacy(json!({})).result("server/discover", discovered(&["2025-11-25"])),
        Server::legacy(json!({})).on("server/discover", |_| Err(unsupported(&["2025-11-25"]))),
    ] {
        let host = Host::connect(modern_only(), &mut server);
        assert_failed(&host, FailureKind::HandshakeRejected, &["2025-11-25"]);
        assert_eq!(host.methods(), ["server/discover"]);
    }
}

/// Without a common version.
#[test]
fn the_failure_of_an_unsupported_version_names_the_method() {
    let words = ["server/discover"];
    let host = Host::connect(auto(), &mut Server::new().result("server/discover", discovered(&["2099-01-01"])));
    assert_failed(&host, FailureKind::UnsupportedVersion, &words);
    assert!(host.shuts == [ShutdownStep::CloseInput] && !host.session.is_closed(), "its process runs");
    let host = Host::connect(auto(), &mut Server::new().on("server/discover", |_| Err(unsupported(&[MODERN]))));
    assert_failed(&host, FailureKind::UnsupportedVersion, &words);
    let host = Host::connect(auto(), &mut initializing(initialized_with("2099-01-01")));
    assert_failed(&host, FailureKind::UnsupportedVersion, &["initialize"]);
}

#[test]
fn the_failure_of_an_excluded_era_names_the_method() {
    let mut server = modern_server().on("initialize", |_| Err(unsupported(&[MODERN])));
    let host = Host::connect(with(Eras::LegacyOnly), &mut server);
    assert_failed(&host, FailureKind::HandshakeRejected, &["initialize"]);
    let host = Host::connect(modern_only(), &mut server.result("server/discover", discovered(&["2025-11-25"])));
    assert_failed(&host, FailureKind::HandshakeRejected, &["server/discover"]);
}

// Saved eras.

#[test]
fn a_saved_legacy_era_avoids_the_probe() {
    for version in &ProtocolVersion::ALL[..4] {
        let host = Host::connect(saved(*version), &mut server());
        assert_eq!(opening(&host.transcript[0].1), ("initialize", version.as_str()));
        assert!(offers(&host, "server/discover").is_empty() && host.is_ready());
        assert_eq!(host.session.known_era(), Some(KnownEra::new(*version)));
    }
}

#[test]
fn a_saved_modern_era_needs_no_initialize() {
    let host = Host::connect(saved(ProtocolVersion::V2026_07_28), &mut modern_server());
    assert_eq!((era(&host), host.methods()), (Some(Era::Modern), vec!["server/discover", "tools/list"]));
}

#[test]
fn a_wrong_legacy_era_is_probed_again() {
    for discover_closes in [false, true] {
        let mut options = saved(ProtocolVersion::V2025_11_25);
        options.known_era.as_mut().unwrap().discover_closes = discover_closes;
        let host = Host::connect(options, &mut modern_server());
        assert_eq!(host.methods(), ["initialize", "server/discover", "tools/list"]);
        assert_eq!(host.session.known_era(), Some(KnownEra::new(ProtocolVersion::V2026_07_28)));
    }
}

#[test]
fn a_wrong_modern_era_is_corrected() {
    let host = Host::connect(saved(ProtocolVersion::V2026_07_28), &mut server());
    assert_eq!(era(&host), Some(Era::Legacy));
    assert_eq!(host.session.known_era(), Some(KnownEra::new(ProtocolVersion::V2025_11_25)));
}

#[test]
fn a_saved_probe_closed_is_kept() {
    let mut options = saved(ProtocolVersion::V2025_06_18);
    options.known_era.as_mut().unwrap().discover_closes = true;
    let verdict = options.known_era;
    let host = Host::connect(options, &mut server());
    assert_eq!(host.methods(), ["initialize", "notifications/initialized", "tools/list"]);
    assert_eq!(host.session.known_era(), verdict);
}

#[test]
fn a_saved_era_that_is_excluded_is_ignored() {
    let mut options = with(Eras::LegacyOnly);
    options.known_era = Some(KnownEra::new(ProtocolVersion::V2026_07_28));
    let host = Host::connect(options, &mut server());
    assert_eq!(opening(&host.transcript[0].1), ("initialize", "2025-11-25"));

    let mut options = modern_only();
    options.known_era = Some(KnownEra::new(ProtocolVersion::V2025_11_25));
    let host = Host::connect(options, &mut modern_server());
    assert_eq!((era(&host), opening(&host.transcript[0].1)), (Some(Era::Modern), ("server/discover", MODERN)));
}

#[test]
fn a_session_uses_its_known_era_on_reconnect() {
    let mut host = Host::connect(reconnecting(auto()), &mut server());
    crash(&mut host);
    reopen(&mut host, &mut server());
    assert_eq!(offers(&host, "server/discover").len(), 1);

    crash(&mut host);
    reopen(&mut host, &mut modern_server());
    assert_eq!((era(&host), offers(&host, "server/discover").len()), (Some(Era::Modern), 2));
}

#[test]
fn a_known_era_survives_serde() {
    let mut verdict = KnownEra::new(ProtocolVersion::V2025_06_18);
    verdict.discover_closes = true;
    let json = serde_json::to_value(verdict).unwrap();
    assert_eq!(json, json!({"version": "2025-06-18", "discover_closes": true}));
    assert_eq!(serde_json::from_value::<KnownEra>(json).unwrap(), verdict);
}

// Versions.

#[test]
fn the_version_that_a_server_answers_is_used_from_then_on() {
    for answered in LEGACY {
        let mut host = Host::connect(with(Eras::LegacyOnly), &mut initializing(initialized_with(answered)));
        host.session.request(host.now, Request::new("acme/do")).unwrap();
        host.collect();
        assert_eq!((era(&host), version(&host)), (Some(Era::Legacy), Some(answered)));
        let sent: Vec<_> =
            host.transcript.iter().map(|(version, message)| (version.as_deref(), &message["method"])).collect();
        let expected = [
            (Some("2025-11-25"), json!("initialize")),
            (Some(answered), json!("notifications/initialized")),
            (Some(answered), json!("acme/do")),
        ];
        assert_eq!(sent, expected.each_ref().map(|(version, method)| (*version, method)));
        assert!(host.quirks().is_empty());
    }
}

#[test]
fn the_newest_common_version_of_a_modern_server_is_used() {
    let versions = ["2024-11-05", "2099-01-01", MODERN, "2025-11-25"];
    let host = Host::connect(auto(), &mut Server::new().result("server/discover", discovered(&versions)));
    assert_eq!((era(&host), version(&host)), (Some(Era::Modern), Some(MODERN)));
    assert!(host.quirks().is_empty());
}

#[test]
fn initialize_has_the_clients_name_and_capabilities() {
    let mut options = capable();
    options.client.title = Some("Test \"Host\"".into());
    options.capabilities.elicitation_url = true;
    options.capabilities.extensions = [("com.acme/x".parse().unwrap(), raw(r#"{"a":1}"#).into())].into();
    let mut host = Host::open(options);
    let expected = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {
            "elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {"listChanged": true}, "extensions": {"com.acme/x": {"a": 1}}
        },
        "clientInfo": {"name": "test-host", "title": "Test \"Host\"", "version": "1.0.0"}
    });
    assert_eq!(host.take_one()["params"], expected);
}

// Metadata.

fn raw(json: &str) -> Box<serde_json::value::RawValue> {
    serde_json::value::RawValue::from_string(json.into()).unwrap()
}

/// The text that is sent for a request.
fn sent_text(host: &mut Host, request: Request) -> String {
    host.session.request(host.now, request).unwrap();
    let Some(Action::Send(message)) = host.session.poll() else { panic!("nothing was sent") };
    String::from_utf8(message.bytes().into()).unwrap()
}

fn sent_params(host: &mut Host, request: Request) -> Value {
    serde_json::from_str::<Value>(&sent_text(host, request)).unwrap()["params"].clone()
}

fn connected(era: Era) -> Host {
    let capabilities = json!({"tools": {}});
    match era {
        Era::Legacy => Host::connect(with(Eras::LegacyOnly), &mut server()),
        Era::Modern => Host::connect(auto(), &mut Server::modern(capabilities).result("tools/list", tools(&[]))),
    }
}

fn reserved() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "test-host", "version": "1.0.0"},
        "io.modelcontextprotocol/clientCapabilities": {}
    })
}

fn trace() -> TraceContext {
    let mut trace = TraceContext::default();
    (trace.traceparent, trace.tracestate) = (Some("00-1-2-01".into()), Some("a=b".into()));
    trace.baggage = Some("c=d".into());
    trace
}

#[test]
fn every_modern_request_carries_its_metadata() {
    let mut options = auto();
    options.capabilities.elicitation = true;
    let mut server = Server::modern(json!({"tools": {}, "prompts": {}, "resources": {}}))
        .on("tools/list", |params| {
            let next = if params["cursor"].is_null() { json!("2") } else { json!(null) };
            Ok(json!({"tools": [], "nextCursor": next}))
        })
        .result("prompts/list", json!({"prompts": []}))
        .result("resources/list", json!({"resources": []}))
        .result("resources/templates/list", json!({"resourceTemplates": []}));
    let mut host = Host::connect(options, &mut server);
    for request in [Request::new("tools/call").progress(false), Request::new("acme/do").params(raw(r#"{"a":1}"#))] {
        host.session.request(host.now, request).unwrap();
    }
    host.collect();
    let mut expected = reserved();
    expected[format!("{PREFIX}clientCapabilities")] = json!({"elicitation": {}});
    assert_eq!(host.transcript.len(), 8);
    for (version, message) in &host.transcript {
        assert_eq!(version.as_deref(), Some(MODERN));
        assert_eq!(message["params"]["_meta"], expected, "{message}");
    }
    assert_eq!(host.transcript[7].1["params"]["a"], 1);
}

#[test]
fn legacy_requests_carry_no_metadata_of_the_modern_era() {
    let mut host = connected(Era::Legacy);
    let request = Request::new("tools/call").params(raw(r#"{"name":"a"}"#)).progress(false);
    host.session.request(host.now, request).unwrap();
    host.collect();
    assert!(host.transcript.iter().all(|(_, message)| !message.to_string().contains(PREFIX)));
    assert_eq!(host.take_one()["params"], json!({"name": "a"}));
}

#[test]
fn a_legacy_request_without_parameters_has_none() {
    let text = sent_text(&mut connected(Era::Legacy), Request::new("acme/do"));
    assert!(!text.contains("params"), "{text}");
}

#[test]
fn the_trace_context_is_merged_in_both_eras() {
    let trace_alone = json!({"traceparent": "00-1-2-01", "tracestate": "a=b", "baggage": "c=d"});
    for era in [Era::Legacy, Era::Modern] {
        let mut expected = if era == Era::Modern { reserved() } else { json!({}) };
        expected.as_object_mut().unwrap().extend(trace_alone.as_object().unwrap().clone());
        let mut host = connected(era);
        assert_eq!(sent_params(&mut host, Request::new("acme/do").trace(trace())), json!({"_meta": expected}));

        let given = raw(r#"{"x":[1],"_meta":{"progressToken":"p","com.acme/y":{"z":1},"traceparent":"old"}}"#);
        expected["progressToken"] = json!("p");
        expected["com.acme/y"] = json!({"z": 1});
        let text = sent_text(&mut host, Request::new("acme/do").params(given).trace(trace()));
        let sent: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(sent["params"], json!({"x": [1], "_meta": expected}));
        assert_eq!(text.matches("traceparent").count(), 1);
    }
}

#[test]
fn an_empty_trace_context_adds_nothing() {
    let mut host = connected(Era::Legacy);
    let text = sent_text(&mut host, Request::new("acme/do").trace(TraceContext::default()));
    assert!(!text.contains("_meta"), "{text}");
}

#[test]
fn the_embedders_own_metadata_is_kept_in_both_eras() {
    let params = r#"{"_meta":{"progressToken":7,"com.acme/x":"y"},"name":"a"}"#;
    for era in [Era::Legacy, Era::Modern] {
        let mut expected = if era == Era::Modern { reserved() } else { json!({}) };
        expected["progressToken"] = json!(7);
        expected["com.acme/x"] = json!("y");
        let request = Request::new("tools/call").params(raw(params)).progress(false);
        let sent = sent_params(&mut connected(era), request);
        assert_eq!(sent, json!({"name": "a", "_meta": expected}));
    }
}

#[test]
fn the_embedders_metadata_cannot_override_reserved_keys() {
    let params = r#"{"_meta":{
        "io.modelcontextprotocol/protocolVersion":"1999-01-01",
        "io.modelcontextprotocol\/clientInfo":{"name":"forged"},
        "io.modelcontextprotocol/client\u0043apabilities":{"sampling":{}},
        "io.modelcontextprotocol/subscriptionId":"kept"
    }}"#;
    let request = Request::new("tools/call").params(raw(params)).progress(false);
    let text = sent_text(&mut connected(Era::Modern), request);
    assert!(!text.contains("1999") && !text.contains("forged") && !text.contains("sampling"), "{text}");
    let sent: Value = serde_json::from_str(&text).unwrap();
    let mut expected = reserved();
    expected["io.modelcontextprotocol/subscriptionId"] = json!("kept");
    assert_eq!(sent["params"]["_meta"], expected);
}

#[test]
fn params_beside_the_metadata_are_kept_byte_for_byte() {
    let arguments = r#"{ "n": 1.0e5, "big": 12345678901234567890123, "s": "\u00e9\/", "d": 1, "d": 2 }"#;
    for era in [Era::Legacy, Era::Modern] {
        let params = raw(&format!(r#"{{"name":"a","arguments":{arguments}}}"#));
        let text = sent_text(&mut connected(era), Request::new("tools/call").params(params));
        assert!(text.contains(&format!(r#""arguments":{arguments}"#)), "{text}");
    }
}

fn levelled(eras: Eras) -> Options {
    let mut options = with(eras);
    options.log_level = Some(LogLevel::Warning);
    options
}

#[test]
fn the_log_level_is_set_if_a_legacy_server_declares_logging() {
    let mut server = Server::legacy(json!({"logging": {}})).result("logging/setLevel", json!({}));
    let mut host = Host::connect(levelled(Eras::LegacyOnly), &mut server);
    assert_eq!(host.methods(), ["initialize", "notifications/initialized", "logging/setLevel"]);
    assert_eq!(host.transcript[2].1["params"], json!({"level": "warning"}));
    assert!(host.is_ready() && host.quirks().is_empty() && host.take_sent().is_empty());
}

#[test]
fn the_log_level_is_not_set_if_it_is_unset_or_logging_is_not_declared() {
    for (options, capabilities) in
        [(levelled(Eras::LegacyOnly), json!({})), (with(Eras::LegacyOnly), json!({"logging": {}}))]
    {
        let host = Host::connect(options, &mut Server::legacy(capabilities));
        assert_eq!(host.methods(), ["initialize", "notifications/initialized"]);
    }
}

#[test]
fn the_embedders_log_level_is_kept_where_the_client_has_none() {
    let given = || Request::new("x/y").params(raw(r#"{"_meta":{"io.modelcontextprotocol/logLevel":"debug"}}"#));
    let has = |text: &str| ["debug", "warning"].map(|level| text.contains(level));
    assert_eq!(has(&sent_text(&mut connected(Era::Legacy), given())), [true, false]);
    assert_eq!(has(&sent_text(&mut connected(Era::Modern), given())), [true, false]);
    let mut host = Host::connect(levelled(Eras::Auto), &mut Server::modern(json!({"logging": {}})));
    assert_eq!(has(&sent_text(&mut host, given())), [false, true]);
}

#[test]
fn the_log_level_is_in_the_metadata_of_every_modern_request() {
    let mut server = Server::modern(json!({"tools": {}, "logging": {}})).result("tools/list", tools(&[]));
    let mut host = Host::connect(levelled(Eras::Auto), &mut server);
    let given = raw(r#"{"_meta":{"io.modelcontextprotocol/logLevel":"debug"}}"#);
    host.session.request(host.now, Request::new("tools/call").params(given)).unwrap();
    host.collect();
    assert_eq!(host.methods(), ["server/discover", "tools/list", "tools/call"]);
    for (_, message) in &host.transcript {
        assert_eq!(message["params"]["_meta"][format!("{PREFIX}logLevel")], "warning");
    }
}
