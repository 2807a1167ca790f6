use super::*;

/// A rig whose token request is in flight.
fn exchanging() -> Rig {
    let mut rig = Rig::registered();
    rig.refuse(&[("scope", "a b")]).unwrap();
    rig.run();
    rig.consent();
    rig
}

fn granted(rig: &Rig) -> String {
    match rig.events.last() {
        Some(OAuthEvent::Authorized(grant)) => grant.scopes.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_token_request_is_a_form_with_the_verifier_and_the_resource() {
    let rig = exchanging();
    let sent = &rig.sent[0];
    assert_eq!((&*sent.method, &*sent.url), ("POST", "https://as.example/token"));
    assert_eq!(sent.headers["content-type"], "application/x-www-form-urlencoded");
    assert_eq!(sent.headers["accept"], "application/json");
    for (name, value) in [
        ("grant_type", "authorization_code"),
        ("code", "code-hush"),
        ("redirect_uri", REDIRECT),
        ("resource", SERVER),
        ("client_id", "app"),
    ] {
        assert_eq!(sent.form(name).unwrap(), value);
    }
    assert_eq!(sent.form("code_verifier").unwrap().len(), 43);
    assert!(!sent.headers.contains_key("authorization"));
}

#[test]
fn a_token_is_used_for_the_origin_of_the_server_and_nowhere_else() {
    let mut rig = exchanging();
    rig.run();
    rig.assert_authorized();
    assert_eq!(rig.bearer().unwrap(), "at1-hush");
    let (_, header) = rig.auth.header(&"https://MCP.example:443/other?x".parse().unwrap()).unwrap();
    assert!(header.is_sensitive());
    for url in [
        "https://as.example/token",
        "https://evil.example/a/mcp",
        "http://mcp.example/a/mcp",
        "https://mcp.example:8443/a/mcp",
        "https://mcp.example.evil.example/",
        "/a/mcp",
    ] {
        assert!(rig.auth.header(&url.parse().unwrap()).is_none(), "{url}");
    }
    assert!(!format!("{:?}", rig.auth).contains("hush"));
}

#[test]
fn an_error_is_an_error_whatever_the_status() {
    for (status, body, words) in [
        (200, r#"{"error":"invalid_request","error_description":"bad thing"}"#, "bad thing"),
        (400, r#"{"error":"invalid_grant","error_description":"old code"}"#, "old code"),
        (400, "error=invalid_grant&error_description=as+a+form", "as a form"),
        (400, r#"{"error":"unsupported_grant_type"}"#, "unsupported_grant_type"),
        (404, "not found", "HTTP 404"),
    ] {
        let mut rig = exchanging();
        rig.answer(status, body);
        rig.assert_failed(Stage::Token, words);
    }
}

#[test]
fn a_code_is_sent_once_whatever_comes_back() {
    for (status, body) in [(200, "<html>"), (502, "bad gateway"), (429, ""), (200, "")] {
        let mut rig = exchanging();
        rig.answer(status, body);
        rig.assert_failed(Stage::Token, &format!("HTTP {status}"));
    }
    let mut rig = exchanging();
    rig.break_off();
    rig.assert_failed(Stage::Token, "connection reset");
    let mut rig = exchanging();
    rig.wait(30);
    rig.assert_failed(Stage::Token, "in time");
}

#[test]
fn a_form_is_read_as_json_is() {
    let mut rig = exchanging();
    rig.answer(200, "access_token=t%2D1&token_type=bearer&expires_in=60&scope=x+y");
    rig.assert_authorized();
    assert_eq!(rig.bearer().unwrap(), "t-1");
    assert_eq!(granted(&rig), "x y");
}

#[test]
fn the_type_is_bearer_in_any_case_or_absent() {
    for (kind, accepted) in [("\"BEARER\"", true), ("null", true), ("\"mac\"", false), ("\"DPoP\"", false)] {
        let mut rig = exchanging();
        rig.answer(200, &format!(r#"{{"access_token":"t","token_type":{kind}}}"#));
        match accepted {
            true => rig.assert_authorized(),
            false => rig.assert_failed(Stage::Token, "token_type"),
        }
    }
}

#[test]
fn a_token_that_no_header_may_have_is_refused() {
    for token in [r#""""#, "7", "null", r#""a b""#, r#""a\r\nb""#, "\"\u{e4}\"", r#""\u0000""#] {
        let mut rig = exchanging();
        rig.answer(200, &format!(r#"{{"access_token":{token}}}"#));
        rig.assert_failed(Stage::Token, "access_token");
    }
    let mut rig = exchanging();
    rig.answer(200, &format!(r#"{{"access_token":"{}"}}"#, "x".repeat(100_000)));
    rig.assert_failed(Stage::Token, "too long");
}

#[test]
fn the_life_of_a_token_is_read_in_every_form() {
    for (life, renewed_after) in [
        ("600", Some(570)),
        ("\"600\"", Some(570)),
        ("600.9", Some(570)),
        ("100", Some(90)),
        ("5", None),
        ("0", None),
        ("-1", None),
        ("null", None),
        ("\"soon\"", None),
        ("1e308", Some(315_359_970)),
        ("1e999", Some(315_359_970)),
        ("99999999999999999999999", Some(315_359_970)),
    ] {
        let mut rig = exchanging();
        rig.answer(200, &format!(r#"{{"access_token":"t","refresh_token":"r","expires_in":{life}}}"#));
        rig.assert_authorized();
        let at = rig.auth.deadline().map(|at| at.since(rig.now).as_secs());
        assert_eq!(at, renewed_after, "{life}");
    }
}

#[test]
fn without_a_scope_in_the_answer_what_was_asked_for_was_granted() {
    let mut rig = exchanging();
    rig.answer(200, r#"{"access_token":"t"}"#);
    assert_eq!(granted(&rig), "a b");
    let mut rig = exchanging();
    rig.answer(200, r#"{"access_token":"t","scope":"a"}"#);
    assert_eq!(granted(&rig), "a");
}

#[test]
fn a_valid_token_without_a_refresh_token_is_used() {
    let mut rig = exchanging();
    rig.answer(200, r#"{"access_token":"t","expires_in":100}"#);
    rig.assert_authorized();
    assert_eq!(rig.auth.deadline(), None);
    rig.wait(99);
    assert_eq!(rig.bearer().unwrap(), "t");
}

#[test]
fn a_secret_that_the_authorization_server_repeats_is_not_shown() {
    let mut rig = exchanging();
    let verifier = rig.sent[0].form("code_verifier").unwrap();
    rig.answer(400, &format!(r#"{{"error":"invalid_grant","error_description":"code-hush and {verifier}"}}"#));
    rig.assert_failed(Stage::Token, "[hidden] and [hidden]");
    // Nor one that is cut off.
    let mut rig = exchanging();
    let words = format!("{}{verifier}", "x".repeat(480));
    let verifier = rig.sent[0].form("code_verifier").unwrap();
    rig.answer(400, &format!(r#"{{"error":"invalid_grant","error_description":"{words}"}}"#));
    assert!(!rig.failure().reason.contains(&verifier[..6]));
}

#[test]
fn a_code_of_a_client_that_was_registered_for_it_is_sent_once_too() {
    for (status, body) in [(503, ""), (400, r#"{"error":"invalid_grant"}"#)] {
        let mut rig = Rig::new();
        rig.refuse(&[]).unwrap();
        rig.run();
        rig.consent();
        rig.answer(status, body);
        rig.assert_failed(Stage::Token, "");
    }
}
