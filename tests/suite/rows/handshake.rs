//! Rows of the handshake: a second `server/discover`, a second transport, late responses.

use std::time::Duration;

use mcp_proto::{Cause, Era, Eras, FailureKind, Options, ProtocolVersion, QuirkKind, Transport};
use serde_json::{Value, json};

use crate::common::{Host, options, seconds, tools};
use crate::rows::{notify, refuse, refuse_with, reply};
use crate::web::{Exchange, Reply, Web};

const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-11-25";
const OLD: &str = "2025-06-18";
const FUTURE: &str = "2031-01-01";

fn modern_only() -> Options {
    let mut options = options();
    options.eras = Eras::ModernOnly(ProtocolVersion::NEWEST_MODERN);
    options
}

/// The client offers a capability, which a server may refuse.
fn capable() -> Options {
    let mut options = options();
    options.capabilities.elicitation = true;
    options
}

fn unsupported(versions: &[&str]) -> Value {
    json!({"code": -32022, "message": "Unsupported protocol version", "data": {"supported": versions}})
}

fn discovered(versions: &[&str]) -> Value {
    json!({"resultType": "complete", "supportedVersions": versions, "capabilities": {"tools": {}}})
}

fn initialized(version: &str) -> Value {
    json!({"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}})
}

/// A server that refused the first `server/discover` with -32022, and the second one.
fn discovering_again(options: Options) -> (Host, Value) {
    let mut host = Host::open(options);
    let first = host.take_one();
    refuse_with(&mut host, &first, unsupported(&[MODERN]));
    let second = host.take_one();
    assert_eq!(second["method"], "server/discover");
    assert_eq!(second["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], MODERN);
    (host, second)
}

/// The transport closed on `server/discover`; `initialize` was sent on the next one.
fn initializing_again(options: Options) -> (Host, Value) {
    let mut host = Host::open(options);
    assert_eq!(host.take_methods(), ["server/discover"]);
    host.close_transport();
    host.transport(Transport::Opened);
    let initialize = the_initialize(&mut host);
    (host, initialize)
}

/// `server/discover` was refused by a server that does not know it; `initialize` was sent.
fn initializing_after_discover(options: Options) -> (Host, Value) {
    let mut host = Host::open(options);
    let discover = host.take_one();
    refuse(&mut host, &discover, -32601, "Method not found");
    let initialize = the_initialize(&mut host);
    (host, initialize)
}

/// `server/discover` was not answered, and `initialize` was sent. Returns both.
fn initializing_after_silence(options: Options) -> (Host, Value, Value) {
    let mut host = Host::open(options);
    let discover = host.take_one();
    host.wait(seconds(5));
    assert_eq!(host.quirks(), [QuirkKind::ProbeSilent]);
    let initialize = the_initialize(&mut host);
    (host, discover, initialize)
}

/// `initialize` was sent first.
fn initializing_first(mut options: Options) -> (Host, Value) {
    options.eras = Eras::LegacyFirst;
    let mut host = Host::open(options);
    let initialize = the_initialize(&mut host);
    (host, initialize)
}

/// `initialize` was sent first, and refused; `server/discover` was sent.
fn discovering_last() -> (Host, Value) {
    let (mut host, initialize) = initializing_first(options());
    refuse(&mut host, &initialize, -32600, "no such method");
    let discover = host.take_one();
    assert_eq!(discover["method"], "server/discover");
    (host, discover)
}

/// As `initializing_after_silence`, and then a modern server answered `server/discover`.
fn initializing_after_late_result(options: Options) -> (Host, Value) {
    let (mut host, discover, initialize) = initializing_after_silence(options);
    reply(&mut host, &discover, discovered(&[MODERN]));
    assert_eq!(host.quirks(), [QuirkKind::ProbeSilent, QuirkKind::ProbeLate]);
    assert!(host.take_sent().is_empty(), "`initialize` is in flight");
    (host, initialize)
}

/// As `initializing_after_silence`, and then `server/discover` was refused with an error of the modern era.
fn initializing_after_late_error(options: Options) -> (Host, Value) {
    let (mut host, discover, initialize) = initializing_after_silence(options);
    refuse(&mut host, &discover, -32021, "a capability is missing");
    assert_eq!(host.quirks(), [QuirkKind::ProbeSilent, QuirkKind::ProbeLate]);
    assert!(host.take_sent().is_empty(), "`initialize` is in flight");
    (host, initialize)
}

fn the_initialize(host: &mut Host) -> Value {
    let initialize = host.take_one();
    assert_eq!(
        (&initialize["method"], &initialize["params"]["protocolVersion"]),
        (&json!("initialize"), &json!(LEGACY))
    );
    initialize
}

/// Completes discovery after the handshake, and returns the era.
fn finish(host: &mut Host) -> Era {
    let list = host.take_sent().pop().unwrap();
    assert_eq!(list["method"], "tools/list");
    reply(host, &list, tools(&["a"]));
    assert!(host.is_ready());
    // Messages of the server from here on belong to the session, not to the handshake.
    notify(host, "notifications/tools/list_changed");
    host.wait(seconds(2));
    assert_eq!(host.take_methods(), ["tools/list"]);
    host.session.server().unwrap().era()
}

/// The session failed in this way, sent no further request and did not open another transport.
fn assert_failed(mut host: Host, kind: FailureKind, words: &[&str]) {
    let opens = host.opens;
    let failure = host.failure().expect("a failure");
    assert_eq!(failure.kind, kind, "{failure}");
    for word in words {
        assert!(failure.message.contains(word), "no {word:?} in {failure}");
    }
    if !host.session.is_closed() {
        assert!(!host.shuts.is_empty(), "the transport is shut");
        host.close_transport();
    }
    assert!(matches!(host.cause(), Some(Cause::Failed(failure)) if failure.kind == kind));
    assert_eq!((host.take_sent().len(), host.opens), (0, opens));
}

#[test]
fn a_second_discover_that_names_legacy_versions_is_followed_by_initialize_with_the_newest() {
    let (mut host, discover) = discovering_again(options());
    reply(&mut host, &discover, discovered(&["2025-03-26", OLD]));
    let initialize = host.take_one();
    assert_eq!(initialize["params"]["protocolVersion"], OLD);
    reply(&mut host, &initialize, initialized(OLD));
    assert_eq!(finish(&mut host), Era::Legacy);
}

#[test]
fn a_second_discover_without_a_common_version_fails() {
    let (mut host, discover) = discovering_again(options());
    reply(&mut host, &discover, discovered(&[FUTURE]));
    assert_failed(host, FailureKind::UnsupportedVersion, &["no protocol version in common", FUTURE]);
}

#[test]
fn a_second_discover_that_is_refused_fails() {
    for (code, words) in [(-32020, "header mismatch"), (-32601, "no such method")] {
        let (mut host, discover) = discovering_again(options());
        refuse(&mut host, &discover, code, words);
        assert_failed(host, FailureKind::HandshakeRejected, &["server/discover", words]);
    }
}

#[test]
fn a_second_discover_that_is_not_answered_fails_at_the_deadline() {
    let (mut host, _) = discovering_again(options());
    host.wait(seconds(59));
    assert!(host.failure().is_none() && host.take_sent().is_empty(), "it is not a probe that `initialize` may follow");
    host.wait(seconds(2));
    // The shutdown continues meanwhile.
    assert_failed(host, FailureKind::HandshakeTimeout, &["server/discover"]);
}

#[test]
fn a_second_discover_that_gets_a_server_error_fails() {
    let mut legacy_first = options();
    legacy_first.eras = Eras::LegacyFirst;
    for (options, first) in
        [(options(), "server/discover"), (modern_only(), "server/discover"), (legacy_first, "initialize")]
    {
        let mut web = Web::open(options);
        let first = web.take_named(first);
        web.end_with(&first, Reply::json(400, &first.answer("error", unsupported(&[MODERN]))));
        let second = web.take_named("server/discover");
        web.end_with(&second, Reply::text(500, "out of order"));
        assert_eq!(web.failure_kind(), Some(FailureKind::HandshakeRejected));
        assert!(web.failure().unwrap().message.contains("out of order"));
        assert!(web.take().is_empty() && !web.quirks().contains(&QuirkKind::Probe5xx), "`initialize` does not follow");
    }
}

#[test]
fn modern_only_a_second_discover_that_names_legacy_versions_fails() {
    let (mut host, discover) = discovering_again(modern_only());
    reply(&mut host, &discover, discovered(&[LEGACY]));
    assert_failed(host, FailureKind::HandshakeRejected, &["the options exclude", LEGACY]);
}

#[test]
fn modern_only_a_second_discover_without_a_common_version_fails() {
    let (mut host, discover) = discovering_again(modern_only());
    reply(&mut host, &discover, discovered(&[FUTURE]));
    assert_failed(host, FailureKind::UnsupportedVersion, &["no protocol version in common", FUTURE]);
}

#[test]
fn modern_only_a_refused_second_discover_fails() {
    for (code, words) in [(-32020, "header mismatch"), (-32601, "no such method")] {
        let (mut host, discover) = discovering_again(modern_only());
        refuse(&mut host, &discover, code, words);
        assert_failed(host, FailureKind::HandshakeRejected, &[words]);
    }
}

#[test]
fn modern_only_a_close_on_a_second_discover_opens_no_other_transport() {
    let (mut host, _) = discovering_again(modern_only());
    host.close_transport();
    assert_failed(host, FailureKind::Closed, &["during the handshake"]);
}

#[test]
fn an_unknown_version_fails_wherever_initialize_was_sent() {
    for start in [
        || initializing_again(options()),
        || initializing_first(options()),
        || {
            let (host, _, initialize) = initializing_after_silence(options());
            (host, initialize)
        },
        || initializing_after_late_error(options()),
    ] {
        let (mut host, initialize) = start();
        reply(&mut host, &initialize, initialized(FUTURE));
        assert_failed(host, FailureKind::UnsupportedVersion, &[FUTURE]);
    }
}

#[test]
fn an_invalid_response_fails_wherever_initialize_was_sent() {
    for start in [
        || initializing_again(options()),
        || initializing_first(options()),
        || {
            let (host, _, initialize) = initializing_after_silence(options());
            (host, initialize)
        },
        || initializing_after_late_error(options()),
    ] {
        let (mut host, initialize) = start();
        reply(&mut host, &initialize, json!({"capabilities": {}}));
        assert_failed(host, FailureKind::Protocol, &["invalid response"]);
    }
}

#[test]
fn refused_capabilities_are_left_out_wherever_initialize_was_sent() {
    let after_silence = |options| {
        let (host, _, initialize) = initializing_after_silence(options);
        (host, initialize)
    };
    for start in [
        initializing_again,
        initializing_first,
        initializing_after_discover,
        after_silence,
        initializing_after_late_error,
    ] {
        let (mut host, initialize) = start(capable());
        assert_eq!(initialize["params"]["capabilities"], json!({"elicitation": {}}));
        refuse(&mut host, &initialize, -32602, "unknown capability elicitation");
        assert!(host.quirks().contains(&QuirkKind::CapabilitiesRefused));
        let bare = host.take_one();
        assert_eq!((&bare["method"], &bare["params"]["capabilities"]), (&json!("initialize"), &json!({})));
        reply(&mut host, &bare, initialized(LEGACY));
        assert_eq!(finish(&mut host), Era::Legacy);
    }
}

#[test]
fn a_refusal_on_the_second_transport_is_final() {
    let (mut host, initialize) = initializing_again(options());
    refuse(&mut host, &initialize, -32000, "go away");
    assert_failed(host, FailureKind::HandshakeRejected, &["initialize", "go away"]);
}

#[test]
fn a_refusal_after_silence_is_final() {
    let (mut host, _, initialize) = initializing_after_silence(options());
    refuse(&mut host, &initialize, -32000, "go away");
    assert_failed(host, FailureKind::HandshakeRejected, &["initialize", "go away"]);
}

#[test]
fn a_refused_version_is_followed_by_an_older_one_wherever_initialize_was_sent() {
    for start in [initializing_again, initializing_first, initializing_after_discover] {
        let (mut host, initialize) = start(options());
        refuse(&mut host, &initialize, -32602, "unsupported protocol version");
        let older = host.take_one();
        assert_eq!(older["params"]["protocolVersion"], OLD);
        reply(&mut host, &older, initialized(OLD));
        assert_eq!(finish(&mut host), Era::Legacy);
    }
    let (mut host, _, initialize) = initializing_after_silence(options());
    refuse(&mut host, &initialize, -32602, "unsupported protocol version");
    assert_eq!(host.take_one()["params"]["protocolVersion"], OLD);
}

#[test]
fn initialize_has_a_deadline_wherever_it_was_sent() {
    for start in [initializing_first, initializing_after_discover] {
        let (mut host, _) = start(options());
        host.wait(seconds(61));
        assert_failed(host, FailureKind::HandshakeTimeout, &["initialize"]);
    }
}

#[test]
fn the_microseconds_by_which_a_clock_is_late_are_not_in_a_message() {
    let (mut host, _) = initializing_first(options());
    host.now = host.session.deadline().unwrap() + Duration::from_micros(122);
    host.session.handle_timeout(host.now);
    host.collect();
    assert_failed(host, FailureKind::HandshakeTimeout, &["did not answer `initialize` within 60s"]);
}

#[test]
fn the_nearest_version_is_accepted_where_initialize_was_sent_first() {
    let mut options = options();
    options.tolerance.nearest_version = true;
    let (mut host, initialize) = initializing_first(options);
    reply(&mut host, &initialize, initialized(FUTURE));
    assert_eq!(host.quirks(), [QuirkKind::VersionUnknown]);
    assert_eq!(host.take_methods(), ["notifications/initialized", "tools/list"]);
}

#[test]
fn a_discover_after_initialize_is_the_last_attempt() {
    let (mut host, _) = discovering_last();
    host.wait(seconds(61));
    assert_failed(host, FailureKind::HandshakeTimeout, &["server/discover"]);
    let (mut host, discover) = discovering_last();
    refuse(&mut host, &discover, -32021, "a capability is missing");
    assert_failed(host, FailureKind::HandshakeRejected, &["a capability is missing"]);
    let (mut host, discover) = discovering_last();
    reply(&mut host, &discover, discovered(&[FUTURE]));
    assert_failed(host, FailureKind::UnsupportedVersion, &[FUTURE]);
    let (mut host, _) = discovering_last();
    host.close_transport();
    assert_failed(host, FailureKind::Closed, &["during the handshake"]);
}

#[test]
fn a_discover_after_initialize_is_repeated_with_the_version_that_the_server_names() {
    let repeated = || {
        let (mut host, discover) = discovering_last();
        refuse_with(&mut host, &discover, unsupported(&[MODERN]));
        let again = host.take_one();
        assert_eq!(again["method"], "server/discover");
        (host, again)
    };
    let (mut host, again) = repeated();
    reply(&mut host, &again, discovered(&[MODERN]));
    assert_eq!(finish(&mut host), Era::Modern);
    let (mut host, _) = repeated();
    host.wait(seconds(61));
    assert_failed(host, FailureKind::HandshakeTimeout, &["server/discover"]);
}

#[test]
fn initialize_that_is_answered_with_a_modern_version_is_followed_by_discover() {
    for start in [initializing_first, initializing_after_discover] {
        let (mut host, initialize) = start(options());
        reply(&mut host, &initialize, initialized(MODERN));
        let discover = host.take_one();
        assert_eq!(discover["method"], "server/discover");
        reply(&mut host, &discover, discovered(&[MODERN]));
        assert_eq!(host.session.server().unwrap().version, ProtocolVersion::NEWEST_MODERN);
    }
}

#[test]
fn after_a_late_modern_result_a_failed_initialize_does_not_matter() {
    let answers: [fn(&mut Host, &Value); 3] = [
        |host, initialize| reply(host, initialize, initialized(FUTURE)),
        |host, initialize| refuse(host, initialize, -32602, "unknown capability elicitation"),
        |host, initialize| reply(host, initialize, json!({"capabilities": {}})),
    ];
    for answer in answers {
        let (mut host, initialize) = initializing_after_late_result(capable());
        answer(&mut host, &initialize);
        assert_eq!(host.methods(), ["server/discover", "initialize", "tools/list"], "no version is offered again");
        assert_eq!(finish(&mut host), Era::Modern);
        assert_eq!(host.quirks(), [QuirkKind::ProbeSilent, QuirkKind::ProbeLate]);
    }
}

/// A server that does not know `server/discover` is not told that it is given up.
#[test]
fn after_silence_an_accepted_initialize_opens_a_legacy_session() {
    let (mut host, _, initialize) = initializing_after_silence(options());
    reply(&mut host, &initialize, initialized(LEGACY));
    assert_eq!(host.methods()[2..], ["notifications/initialized", "tools/list"]);
    assert_eq!(finish(&mut host), Era::Legacy);
}

#[test]
fn after_a_late_modern_error_an_accepted_initialize_opens_a_legacy_session() {
    let (mut host, initialize) = initializing_after_late_error(options());
    reply(&mut host, &initialize, initialized(LEGACY));
    assert_eq!(host.methods()[2..], ["notifications/initialized", "tools/list"]);
    assert_eq!(finish(&mut host), Era::Legacy);
}

#[test]
fn after_a_late_modern_error_a_refusal_that_names_modern_versions_leads_to_discover() {
    let (mut host, initialize) = initializing_after_late_error(options());
    refuse_with(&mut host, &initialize, unsupported(&[MODERN]));
    let discover = host.take_one();
    assert_eq!(discover["method"], "server/discover");
    reply(&mut host, &discover, discovered(&[MODERN]));
    assert_eq!(finish(&mut host), Era::Modern);
}

#[test]
fn after_a_late_modern_error_initialize_has_a_deadline() {
    let (mut host, _) = initializing_after_late_error(options());
    host.wait(seconds(61));
    assert_failed(host, FailureKind::HandshakeTimeout, &["initialize"]);
}

#[test]
fn after_a_late_modern_error_a_close_reopens_the_transport_for_initialize() {
    let (mut host, _) = initializing_after_late_error(options());
    host.close_transport();
    assert_eq!((host.opens, host.failure()), (2, None));
    host.transport(Transport::Opened);
    let initialize = the_initialize(&mut host);
    reply(&mut host, &initialize, initialized(LEGACY));
    assert_eq!(finish(&mut host), Era::Legacy);
    assert!(host.quirks().contains(&QuirkKind::ProbeClosed));
}

#[test]
fn a_version_that_is_refused_on_the_second_transport_is_followed_by_an_older_one() {
    let (mut host, initialize) = initializing_again(options());
    refuse(&mut host, &initialize, -32602, "Unsupported protocol version");
    let older = host.take_one();
    assert_eq!((&older["method"], &older["params"]["protocolVersion"]), (&json!("initialize"), &json!(OLD)));
    assert_eq!(host.quirks(), [QuirkKind::VersionRefused]);
    reply(&mut host, &older, initialized(OLD));
    assert_eq!(finish(&mut host), Era::Legacy);
}

#[test]
fn initialize_on_the_second_transport_has_a_deadline() {
    let (mut host, _) = initializing_again(options());
    host.wait(seconds(61));
    assert_failed(host, FailureKind::HandshakeTimeout, &["initialize"]);
}

#[test]
fn a_refusal_that_names_modern_versions_leads_to_another_discover() {
    let (mut host, _, initialize) = initializing_after_silence(options());
    refuse_with(&mut host, &initialize, unsupported(&[MODERN]));
    let discover = host.take_one();
    assert_eq!(discover["method"], "server/discover");
    reply(&mut host, &discover, discovered(&[MODERN]));
    assert_eq!(finish(&mut host), Era::Modern);
}

#[test]
fn after_a_late_modern_result_a_close_reopens_the_transport_for_initialize() {
    let (mut host, _) = initializing_after_late_result(options());
    host.close_transport();
    assert_eq!((host.opens, host.failure()), (2, None));
    host.transport(Transport::Opened);
    let initialize = the_initialize(&mut host);
    reply(&mut host, &initialize, initialized(LEGACY));
    assert_eq!(finish(&mut host), Era::Legacy);
}

type Begin = fn(Options) -> (Host, Value);

/// An unknown version counts as the nearest older one if the options say so, however the handshake reached
/// `initialize`.
#[test]
fn an_unknown_version_counts_as_the_nearest_in_every_handshake() {
    let nearest = || {
        let mut options = options();
        options.tolerance.nearest_version = true;
        options
    };
    let ways: [(&str, Begin); 5] = [
        ("again", initializing_again),
        ("after discover", initializing_after_discover),
        ("blind", |options| {
            let (host, _, initialize) = initializing_after_silence(options);
            (host, initialize)
        }),
        ("backed", initializing_after_late_result),
        ("warned", initializing_after_late_error),
    ];
    for (way, begin) in ways {
        let (mut host, initialize) = begin(nearest());
        reply(&mut host, &initialize, initialized(FUTURE));
        let quirk = host.session.quirks().iter().find(|quirk| quirk.kind == QuirkKind::VersionUnknown);
        assert!(quirk.is_some_and(|quirk| quirk.detail.contains(LEGACY)), "{way}: {:?}", host.session.quirks());
        assert_eq!(finish(&mut host), Era::Legacy, "{way}");
    }
}

/// A server over HTTP that answered `server/discover` with a 5xx; `initialize` was sent.
fn initializing_after_server_error(options: Options) -> (Web, Exchange) {
    let mut web = Web::open(options);
    let discover = web.take_named("server/discover");
    web.end_with(&discover, Reply::text(503, "out of order"));
    assert_eq!(web.quirks(), [QuirkKind::Probe5xx]);
    let initialize = web.take_named("initialize");
    (web, initialize)
}

#[test]
fn an_era_found_after_a_server_error_is_not_remembered() {
    for version in [LEGACY, FUTURE] {
        let mut nearest = options();
        nearest.tolerance.nearest_version = true;
        let (mut web, initialize) = initializing_after_server_error(nearest);
        let result = initialize.result(initialized(version));
        web.end_with(&initialize, Reply::json(200, &result));
        assert_eq!(web.session.server().map(|server| server.version.as_str()), Some(LEGACY));
        assert_eq!(web.session.known_era(), None);
    }
}

type Answer = fn(&Exchange) -> Value;

#[test]
fn initialize_after_a_server_error_fails_with_the_same_failure() {
    let answers: [(Answer, FailureKind); 3] = [
        (|initialize| initialize.result(initialized(FUTURE)), FailureKind::UnsupportedVersion),
        (|initialize| initialize.result(json!({"capabilities": {}})), FailureKind::Protocol),
        (|initialize| initialize.error(-32000, "go away"), FailureKind::HandshakeRejected),
    ];
    for (answer, kind) in answers {
        let (mut web, initialize) = initializing_after_server_error(options());
        let answer = answer(&initialize);
        web.end_with(&initialize, Reply::json(200, &answer));
        assert_eq!(web.failure_kind(), Some(kind));
    }
    let (mut web, _) = initializing_after_server_error(options());
    web.wait(seconds(61));
    assert_eq!(web.failure_kind(), Some(FailureKind::HandshakeTimeout));
}

#[test]
fn initialize_after_a_server_error_offers_less_if_refused() {
    let (mut web, initialize) = initializing_after_server_error(capable());
    let refusal = initialize.error(-32602, "Unsupported protocol version");
    web.end_with(&initialize, Reply::json(200, &refusal));
    let older = web.take_named("initialize");
    assert_eq!(older.json()["params"]["protocolVersion"], OLD);
    let refusal = older.error(-32602, "unknown capability elicitation");
    web.end_with(&older, Reply::json(200, &refusal));
    let bare = web.take_named("initialize");
    assert_eq!(bare.json()["params"]["capabilities"], json!({}));
    let refusal = bare.answer("error", unsupported(&[MODERN]));
    web.end_with(&bare, Reply::json(200, &refusal));
    let discover = web.take_named("server/discover");
    let result = discover.result(discovered(&[MODERN]));
    web.end_with(&discover, Reply::json(200, &result));
    assert_eq!(web.session.known_era().map(|known| known.era()), Some(Era::Modern));
}
