//! Responses that are too long, too many or nonsense: each ends in an error, within a bound.

use mcp_proto::binding::oauth::Flow;

use super::*;

/// Sends a body of this many bytes in chunks to the request in flight, and returns how many were read before the exchange
/// was dropped.
fn flood(rig: &mut Rig, bytes: usize) -> usize {
    let id = rig.sent[0].id;
    rig.auth.handle_head(rig.now, id, StatusCode::OK, &HeaderMap::new());
    let chunk = vec![b' '; 64 << 10];
    let mut read = 0;
    while read < bytes && !rig.sent.is_empty() {
        rig.auth.handle_body(rig.now, id, &chunk);
        rig.pump();
        read += chunk.len();
    }
    read
}

/// The ending of the URL of each step's request, and the stage that fails.
const STAGES: [(&str, Stage); 4] = [
    ("a/mcp", Stage::ResourceMetadata),
    ("oauth-authorization-server", Stage::ServerMetadata),
    ("/register", Stage::Registration),
    ("/token", Stage::Token),
];

#[test]
fn a_document_of_50_megabytes_is_refused_at_the_limit() {
    for (ending, stage) in STAGES {
        let mut rig = Rig::new();
        rig.refuse(&[]).unwrap();
        if ending == "/token" {
            rig.run();
            rig.consent();
        }
        rig.run_to(ending);
        assert!(flood(&mut rig, 50 << 20) <= (1 << 20) + (64 << 10));
        rig.assert_failed(stage, "longer than 1048576 bytes");
    }
}

#[test]
fn a_response_of_a_byte_per_second_fails_at_the_timeout() {
    for (ending, stage) in STAGES {
        let mut rig = Rig::new();
        rig.auth.set_modern(true);
        rig.refuse(&[]).unwrap();
        if ending == "/token" {
            rig.run();
            rig.consent();
        }
        rig.run_to(ending);
        let sent = rig.sent.pop_front().unwrap();
        let page = rig.site.page(&sent);
        let body = format!("{:30}{}", "", page.body).into_bytes();
        rig.auth.handle_head(rig.now, sent.id, StatusCode::from_u16(page.status).unwrap(), &HeaderMap::new());
        for byte in body[..30].chunks(1) {
            rig.auth.handle_body(rig.now, sent.id, byte);
            rig.pump();
            assert!(rig.events.is_empty() && rig.sent.is_empty());
            rig.now = rig.now + Duration::from_secs(1);
        }
        // The rest comes at once, and too late.
        rig.auth.handle_body(rig.now, sent.id, &body[30..]);
        rig.auth.handle_end(rig.now, sent.id);
        rig.pump();
        while rig.events.is_empty() {
            rig.run_until(|sent| sent.url.ends_with(ending));
            rig.wait(30);
        }
        let is_metadata = matches!(stage, Stage::ResourceMetadata | Stage::ServerMetadata);
        rig.assert_failed(stage, if is_metadata { "within 120 s" } else { "in time" });
        assert!(rig.token().is_none());
    }
}

#[test]
fn of_ten_thousand_authorization_servers_a_few_are_tried() {
    let mut rig = Rig::new();
    let servers: Vec<_> = (0..10_000).map(|at| format!("https://as{at}.example")).collect();
    rig.site.json(RESOURCE, json!({"resource": SERVER, "authorization_servers": servers}));
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.assert_failed(Stage::ServerMetadata, "HTTP 404");
    assert_eq!(rig.log.len(), 1 + 4 * 2);
}

#[test]
fn a_challenge_of_a_megabyte_is_refused() {
    let long = format!("https://mcp.example/{}", "x".repeat(1 << 20));
    for name in ["resource_metadata", "scope"] {
        let mut rig = Rig::new();
        let error = rig.refuse(&[(name, &long)]).unwrap_err();
        assert!(error.reason.contains(name) && error.reason.len() < 200, "{error}");
        assert!(rig.log.is_empty());
    }
    let mut rig = Rig::new();
    rig.refuse(&[("error_description", &long), ("error", &long), ("realm", &long)]).unwrap();
    rig.run();
    assert!(rig.browse.is_some());
}

#[test]
fn scopes_are_bounded_wherever_they_come_from() {
    // Of many that the metadata names, the first are requested.
    let mut rig = Rig::registered();
    let scopes: Vec<_> = (0..200).map(|at| format!("{at:0>100}")).collect();
    let named = json!({"resource": SERVER, "authorization_servers": [ISSUER], "scopes_supported": scopes});
    rig.site.json(RESOURCE, named);
    rig.refuse(&[]).unwrap();
    rig.run();
    assert!((3000..4096).contains(&rig.shown("scope").len()));
    // One that is too long is none.
    let long = "s".repeat(5000);
    let named = json!({"resource": SERVER, "authorization_servers": [ISSUER], "scopes_supported": [long]});
    let mut rig = Rig::registered();
    rig.site.json(RESOURCE, named);
    rig.refuse(&[]).unwrap();
    rig.run();
    assert_eq!(rig.shown_if("scope"), None);
    // What was granted is not believed.
    let mut rig = Rig::registered();
    rig.site
        .tokens
        .push_back((200, json!({"access_token": "t", "scope": long, "refresh_token": "r".repeat(70_000)}).to_string()));
    rig.refuse(&[("scope", "a")]).unwrap();
    rig.run();
    rig.consent();
    rig.run();
    assert!(matches!(rig.events.last(), Some(OAuthEvent::Authorized(grant)) if &*grant.scopes == "a"));
    // Nor does a registration with it narrow anything.
    let mut rig = Rig::new();
    rig.site.put("https://as.example/register", 201, &json!({"client_id": "c", "scope": long}).to_string());
    rig.refuse(&[("scope", "a")]).unwrap();
    rig.run();
    assert_eq!(rig.shown("scope"), "a");
}

#[test]
fn the_scopes_of_step_ups_are_bounded_together() {
    for has_user in [true, false] {
        let mut rig = Rig::with(|options| {
            if !has_user {
                (options.flow, options.registered) = (Flow::ClientCredentials, vec![client_with("s-hush")]);
                options.step_up_without_user = true;
            }
        });
        let mut steps = 0;
        rig.refuse(&[]).unwrap();
        loop {
            rig.run();
            if rig.browse.is_some() {
                rig.consent();
                rig.run();
            }
            if let Some(OAuthEvent::Failed(error)) = rig.events.last() {
                assert!(error.stage == Stage::StepUp && error.reason.contains("more than 4096 bytes"), "{error}");
                break;
            }
            steps += 1;
            assert!(steps < 50);
            rig.forbid(&format!("{steps:0>300}")).unwrap();
        }
        assert!((10..15).contains(&steps), "{steps}");
        // The token before is still there.
        assert!(rig.bearer().is_some());
    }
}

#[test]
fn words_of_a_server_are_cut() {
    let mut rig = Rig::registered();
    let long = "word\u{0}\n ".repeat(10_000);
    rig.site.tokens.push_back((400, json!({"error": long, "error_description": long}).to_string()));
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.consent();
    rig.run();
    let error = rig.failure();
    assert!(error.reason.len() < 1200 && !error.reason.contains(['\n', '\0']), "{error}");
}

#[test]
fn a_redirect_that_is_too_long_is_ignored() {
    let mut rig = Rig::registered();
    rig.refuse(&[]).unwrap();
    rig.run();
    let state = rig.shown("state");
    assert!(!rig.redirect(&format!("code={}&state={state}", "x".repeat(100_000))));
    rig.consent();
}

#[test]
fn nested_and_broken_documents_are_no_metadata() {
    for body in ["[".repeat(100_000), format!("{{\"a\":{}", "{\"a\":".repeat(50_000)), "\u{feff}".into(), "null".into()]
    {
        let mut rig = Rig::registered();
        rig.site.put(RESOURCE, 200, &body);
        rig.site.put(METADATA, 200, &body);
        rig.refuse(&[]).unwrap();
        rig.run();
        rig.assert_authorized_or_failed();
    }
}

impl Rig {
    fn assert_authorized_or_failed(&self) {
        assert!(self.browse.is_some() || matches!(self.events.last(), Some(OAuthEvent::Failed(_))));
    }
}

#[test]
fn responses_to_exchanges_that_do_not_exist_are_ignored() {
    let mut rig = Rig::new();
    rig.refuse(&[]).unwrap();
    let id = rig.sent[0].id;
    // A response that ends without a head is no document.
    rig.auth.handle_end(rig.now, id);
    rig.pump();
    for _ in 0..2 {
        rig.auth.handle_head(rig.now, id, StatusCode::OK, &HeaderMap::new());
        rig.auth.handle_body(rig.now, id, b"x");
        rig.auth.handle_failure(rig.now, id, "late");
        rig.auth.handle_end(rig.now, id);
        rig.pump();
    }
    assert_eq!(rig.log.len(), 2);
}

/// With the same entropy, the first requests differ in their addresses only.
#[test]
fn requests_to_different_servers_are_unequal() {
    let first = |server: &str| {
        let mut auth = Rig::at(server, |_| {}).auth;
        auth.handle_unauthorized(Time::from_millis(5_000), None, false, &[Challenge::new("Bearer", vec![])]).unwrap();
        let mut actions = std::iter::from_fn(|| auth.poll());
        actions.find(|action| matches!(action, OAuthAction::Request(_))).expect("a request")
    };
    assert_eq!(first(SERVER), first(SERVER));
    assert_ne!(first(SERVER), first("https://mcp.example/b/mcp"));
}

/// Answers the oldest request in flight with a body in a coding that nobody asked for.
fn answer_compressed(rig: &mut Rig) {
    let sent = rig.sent.pop_front().expect("a request is in flight");
    assert_eq!(sent.headers.get("accept-encoding").map(|it| it.to_str().unwrap()), Some("identity"), "{}", sent.url);
    let mut headers = HeaderMap::new();
    headers.insert("content-encoding", HeaderValue::from_static("gzip"));
    rig.auth.handle_head(rig.now, sent.id, StatusCode::OK, &headers);
    rig.auth.handle_body(rig.now, sent.id, &[0x1f, 0x8b, 0x08, 0x00, b'=', b'{', 0xff, 0x03]);
    rig.auth.handle_end(rig.now, sent.id);
    rig.pump();
}

/// codex #37228
#[test]
fn a_compressed_answer_that_nobody_asked_for_is_an_error_that_names_the_coding() {
    const CODING: &str = "the body is encoded as `gzip`";
    let mut rig = Rig::registered();
    rig.auth.set_modern(true);
    rig.refuse(&[]).unwrap();
    while !rig.sent.is_empty() {
        answer_compressed(&mut rig);
    }
    rig.assert_failed(Stage::ResourceMetadata, CODING);
    for (stage, ending) in [
        (Stage::ServerMetadata, "as.example/.well-known/"),
        (Stage::Registration, "/register"),
        (Stage::Token, "/token"),
    ] {
        let mut rig = Rig::new();
        rig.refuse(&[]).unwrap();
        rig.run_until(|sent| sent.url.contains(ending));
        if stage == Stage::Token {
            rig.consent();
            rig.run_to(ending);
        }
        while !rig.sent.is_empty() {
            answer_compressed(&mut rig);
        }
        rig.assert_failed(stage, CODING);
    }
}

/// Some HTTP clients decode a body, and leave the header.
#[test]
fn an_answer_that_was_decoded_is_read_whatever_its_coding_was() {
    let mut rig = Rig::new();
    rig.refuse(&[]).unwrap();
    for _ in 0..20 {
        let Some(sent) = rig.sent.pop_front() else { break };
        let page = rig.site.page(&sent);
        let mut headers = HeaderMap::new();
        headers.insert("content-encoding", HeaderValue::from_static("br"));
        rig.auth.handle_head(rig.now, sent.id, StatusCode::from_u16(page.status).unwrap(), &headers);
        rig.auth.handle_body(rig.now, sent.id, page.body.as_bytes());
        rig.auth.handle_end(rig.now, sent.id);
        rig.pump();
    }
    assert!(rig.browse.is_some(), "{:?} {:?}", rig.log, rig.events);
}
