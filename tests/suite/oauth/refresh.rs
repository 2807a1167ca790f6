use mcp_proto::binding::oauth::{Flow, GrantKind, RefreshScopes};

use super::*;

/// A rig with a token, whose refresh is in flight after a 401.
fn refreshing() -> Rig {
    let mut rig = Rig::new();
    rig.authorize();
    rig.wait(600);
    rig.refuse(&[]).unwrap();
    rig.run_to("/token");
    assert_eq!(rig.sent[0].form("grant_type").unwrap(), "refresh_token");
    rig
}

fn kinds(rig: &Rig) -> Vec<GrantKind> {
    let kind = |event: &OAuthEvent| match event {
        OAuthEvent::Authorized(grant) => Some(grant.kind),
        _ => None,
    };
    rig.events.iter().filter_map(kind).collect()
}

fn posts(rig: &Rig) -> usize {
    rig.log.iter().filter(|line| line.starts_with("POST")).count()
}

#[test]
fn all_who_are_refused_wait_for_one_refresh() {
    let mut rig = refreshing();
    for _ in 0..5 {
        rig.refuse(&[]).unwrap();
    }
    assert_eq!(rig.sent.len(), 1);
    let former = rig.token();
    rig.run();
    assert_eq!(kinds(&rig), [GrantKind::RefreshToken]);
    assert_eq!(rig.bearer().unwrap(), "at2-hush");
    // One that was sent before is sent again, and nothing is renewed for it.
    rig.refuse_as(former, false, &[]).unwrap();
    assert_eq!(kinds(&rig).len(), 2);
    assert!(rig.sent.is_empty());
}

#[test]
fn a_token_is_renewed_before_it_expires_and_used_meanwhile() {
    let mut rig = Rig::new();
    rig.authorize();
    rig.wait(3569);
    assert_eq!(rig.log, [""; 0]);
    rig.wait(1);
    // The metadata is known.
    assert_eq!(rig.log, ["POST https://as.example/token"]);
    assert_eq!(rig.bearer().unwrap(), "at1-hush");
    rig.run();
    assert_eq!(rig.bearer().unwrap(), "at2-hush");
    rig.assert_authorized();
}

#[test]
fn the_metadata_is_read_again_when_a_token_is_refused_that_had_not_expired() {
    let mut rig = Rig::new();
    rig.authorize();
    rig.wait(100);
    rig.refuse(&[]).unwrap();
    rig.run();
    assert_eq!(rig.log, [format!("GET {RESOURCE}"), format!("GET {METADATA}"), "POST https://as.example/token".into()]);
    let mut rig = Rig::new();
    rig.authorize();
    // It expired while nothing ran, so no refresh was due before.
    rig.now = rig.now + Duration::from_secs(4000);
    rig.auth.handle_timeout(rig.now);
    rig.refuse(&[]).unwrap();
    rig.run();
    assert_eq!(rig.log, ["POST https://as.example/token"]);
}

/// The process slept for so long, in which its own clock stood still.
fn sleep(rig: &mut Rig, seconds: u64) {
    let passed = rig.now.since(Time::from_millis(5_000));
    rig.auth.handle_clock(rig.now, passed + Duration::from_secs(EPOCH + seconds));
    rig.pump();
}

#[test]
fn the_expiry_of_a_token_follows_the_wall_clock() {
    // A token that expires soon is renewed as soon as the clock is reported.
    let mut rig = Rig::new();
    rig.authorize();
    rig.wait(100);
    sleep(&mut rig, 3000);
    assert!(rig.sent.is_empty());
    sleep(&mut rig, 3480);
    assert_eq!(rig.log, ["POST https://as.example/token"]);
    // One that expired meanwhile is none that had not expired: the metadata is known.
    let mut rig = Rig::new();
    rig.authorize();
    sleep(&mut rig, 7000);
    assert!(rig.sent.is_empty());
    rig.refuse(&[]).unwrap();
    rig.run();
    assert_eq!(rig.log, ["POST https://as.example/token"]);
    // The clock was behind when the token was issued.
    let mut rig = Rig::new();
    rig.authorize();
    rig.wait(3500);
    rig.auth.handle_clock(rig.now, Duration::from_secs(EPOCH + 100));
    rig.wait(3460);
    assert!(rig.sent.is_empty());
    rig.wait(10);
    assert_eq!(rig.log, ["POST https://as.example/token"]);
}

#[test]
fn the_expiry_in_a_record_follows_the_wall_clock() {
    let mut rig = Rig::with(|options| options.stored = true);
    sleep(&mut rig, 50_000);
    rig.authorize();
    let record: Value = serde_json::from_slice(rig.store.record.as_ref().unwrap()).unwrap();
    assert_eq!(record["expires"], EPOCH + 50_000 + 3600);
}

#[test]
fn the_refresh_has_the_resource_and_no_scope_unless_the_policy_says_so() {
    for (policy, expected) in
        [(RefreshScopes::None, None), (RefreshScopes::Granted, Some("a")), (RefreshScopes::Requested, Some("a b"))]
    {
        let mut rig = Rig::with(|options| options.tolerance.refresh_scopes = policy);
        let token = json!({"access_token": "t-hush", "refresh_token": "r-hush", "scope": "a"});
        rig.site.tokens.push_back((200, token.to_string()));
        rig.refuse(&[("scope", "a b")]).unwrap();
        rig.run();
        rig.consent();
        rig.run();
        rig.accept();
        rig.refuse(&[]).unwrap();
        rig.run_to("/token");
        let sent = &rig.sent[0];
        assert_eq!(sent.form("refresh_token").unwrap(), "r-hush");
        assert_eq!(sent.form("resource").unwrap(), SERVER);
        assert_eq!(sent.form("scope").as_deref(), expected);
    }
}

#[test]
fn without_a_new_refresh_token_the_old_one_stays() {
    let mut rig = refreshing();
    rig.answer(200, r#"{"access_token":"t2-hush","expires_in":100}"#);
    rig.assert_authorized();
    rig.wait(95);
    assert_eq!(rig.sent[0].form("refresh_token").unwrap(), "rt1-hush");
}

#[test]
fn a_refresh_token_that_is_refused_is_dropped_and_the_user_is_asked() {
    let mut rig = refreshing();
    rig.answer(400, r#"{"error":"invalid_grant"}"#);
    assert!(rig.browse.is_some(), "{:?}", rig.events);
    assert_eq!(posts(&rig), 1);
    rig.consent();
    rig.run();
    rig.assert_authorized();
}

#[test]
fn granted_scopes_are_requested_again_after_a_refused_refresh() {
    let mut rig = Rig::new();
    let token = json!({"access_token": "t-hush", "refresh_token": "r-hush", "scope": "a b"});
    rig.site.tokens.push_back((200, token.to_string()));
    rig.refuse(&[("scope", "a c")]).unwrap();
    rig.run();
    rig.consent();
    rig.run();
    rig.accept();
    rig.refuse(&[("scope", "d")]).unwrap();
    rig.run_to("/token");
    rig.answer(400, r#"{"error":"invalid_grant"}"#);
    rig.run();
    assert_eq!(rig.shown("scope"), "a b d");
}

#[test]
fn a_refresh_that_fails_for_another_reason_is_tried_three_times() {
    for end in [
        (503, ""),
        (200, "<html>"),
        (500, r#"{"error":"server_error"}"#),
        (400, r#"{"error":"temporarily_unavailable"}"#),
        // A proxy says it of every request that it refuses.
        (503, r#"{"error":"unknown_error"}"#),
        (429, r#"{"error":"too_many_requests"}"#),
        (429, "slow down"),
    ] {
        let mut rig = refreshing();
        for _ in 0..3 {
            assert_eq!(rig.sent.len(), 1);
            rig.answer(end.0, end.1);
            rig.wait(20);
        }
        assert_eq!(posts(&rig), 3);
        assert_eq!(rig.failure().stage, Stage::Refresh);
        assert_eq!(rig.bearer(), None, "the server refused it");
    }
}

#[test]
fn a_refresh_token_that_is_empty_or_too_long_is_none() {
    for token in [String::new(), "r".repeat(1 << 17)] {
        let mut rig = Rig::new();
        let issued = json!({"access_token": "t-hush", "refresh_token": token, "expires_in": 100});
        rig.site.tokens.push_back((200, issued.to_string()));
        rig.refuse(&[]).unwrap();
        rig.run();
        rig.consent();
        rig.run();
        rig.assert_authorized();
        let before = posts(&rig);
        rig.wait(200);
        rig.refuse(&[]).unwrap();
        rig.run();
        assert!(rig.browse.is_some(), "{} {:?}", token.len(), rig.log);
        assert_eq!(posts(&rig), before);
    }
}

#[test]
fn a_refresh_that_gets_no_answer_of_an_authorization_server_is_not_repeated() {
    for status in [400, 401, 404] {
        let mut rig = refreshing();
        rig.answer(status, "<html>");
        rig.wait(20);
        rig.assert_failed(Stage::Refresh, &format!("HTTP {status}"));
        assert_eq!(posts(&rig), 1);
    }
}

#[test]
fn the_last_attempt_of_a_refresh_may_be_refused_instead() {
    for mut rig in [Rig::new(), Rig::registered()] {
        rig.authorize();
        rig.wait(600);
        rig.refuse(&[]).unwrap();
        rig.run_to("/token");
        let before = posts(&rig);
        for (status, body) in [(503, ""), (503, ""), (400, r#"{"error":"invalid_request"}"#)] {
            assert_eq!(rig.sent.len(), 1);
            rig.answer(status, body);
            rig.wait(20);
        }
        rig.assert_failed(Stage::Refresh, "invalid_request");
        assert_eq!(posts(&rig), before + 2);
    }
}

#[test]
fn the_token_is_used_while_it_lives_although_its_refresh_fails() {
    let mut rig = Rig::new();
    rig.authorize();
    rig.wait(3570);
    rig.answer(400, r#"{"error":"invalid_request"}"#);
    assert!(rig.events.is_empty());
    assert_eq!(rig.bearer().unwrap(), "at1-hush");
    rig.wait(9);
    assert!(rig.sent.is_empty());
    rig.wait(1);
    // The next one is due after a wait, and reads the metadata again.
    rig.run();
    rig.assert_authorized();
    assert_eq!(rig.bearer().unwrap(), "at2-hush");
}

#[test]
fn a_request_that_waits_for_a_refresh_is_told_that_it_failed() {
    for forbidden in [false, true] {
        let mut rig = Rig::new();
        rig.authorize();
        rig.wait(3570);
        assert_eq!(rig.sent.len(), 1, "it is renewed before it expires");
        if forbidden {
            rig.forbid("b").unwrap()
        } else {
            rig.refuse(&[]).unwrap()
        }
        rig.answer(400, r#"{"error":"invalid_request"}"#);
        assert!(rig.failure().reason.contains("invalid_request"));
    }
}

#[test]
fn a_lack_of_scopes_is_told_of_when_the_refresh_that_others_wait_for_failed() {
    let mut rig = refreshing();
    rig.forbid("b").unwrap();
    rig.answer(400, r#"{"error":"invalid_request"}"#);
    rig.assert_failed(Stage::Refresh, "invalid_request");
    rig.wait(10);
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.assert_authorized();
}

#[test]
fn refusals_that_are_not_polled_do_not_add_up() {
    let mut rig = refreshing();
    rig.answer(400, r#"{"error":"invalid_request"}"#);
    for _ in 0..10 {
        let challenge = [Challenge::new("Bearer", Vec::new())];
        rig.auth.handle_unauthorized(rig.now, None, false, &challenge).unwrap();
    }
    let before = rig.events.len();
    rig.pump();
    assert_eq!(rig.events.len(), before + 1);
}

#[test]
fn there_is_never_a_refresh_for_each_request() {
    let mut rig = refreshing();
    rig.answer(400, r#"{"error":"invalid_request"}"#);
    for _ in 0..10 {
        rig.refuse(&[]).unwrap();
        rig.assert_failed(Stage::Refresh, "invalid_request");
    }
    assert_eq!(posts(&rig), 1);
    rig.wait(10);
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.assert_authorized();
}

#[test]
fn another_authorization_server_gets_no_credentials_of_the_old_one() {
    let mut rig = Rig::new();
    rig.authorize();
    rig.wait(100);
    let (issuer, metadata_url) = ("https://new.example", "https://new.example/.well-known/oauth-authorization-server");
    rig.site.json(RESOURCE, json!({"resource": SERVER, "authorization_servers": [issuer]}));
    let endpoints = json!({
        "issuer": issuer,
        "authorization_endpoint": "https://new.example/authorize",
        "token_endpoint": "https://new.example/token",
        "registration_endpoint": "https://new.example/register",
    });
    rig.site.json(metadata_url, metadata_with(endpoints.clone()));
    rig.site.put("https://new.example/register", 201, r#"{"client_id":"dyn2"}"#);
    rig.refuse(&[]).unwrap();
    rig.run();
    assert_eq!(rig.shown("client_id"), "dyn2");
    assert!(!rig.log.iter().any(|line| line.ends_with("/token")));
    rig.consent();
    assert_eq!(rig.sent[0].url, "https://new.example/token");

    // Without a way to register there, that is the error.
    let mut rig = Rig::new();
    rig.authorize();
    rig.wait(100);
    rig.site.json(RESOURCE, json!({"resource": SERVER, "authorization_servers": [issuer]}));
    let mut endpoints = metadata_with(endpoints);
    endpoints.as_object_mut().unwrap().remove("registration_endpoint");
    rig.site.json(metadata_url, endpoints);
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.assert_failed(Stage::Registration, "new.example");
}

#[test]
fn a_registered_client_is_not_used_at_another_authorization_server() {
    let mut rig = Rig::with(|options| {
        options.registered.push(client());
    });
    rig.authorize();
    rig.wait(100);
    rig.site.json(RESOURCE, json!({"resource": SERVER, "authorization_servers": ["https://new.example"]}));
    let own = metadata_with(json!({"issuer": "https://new.example"}));
    rig.site.json("https://new.example/.well-known/oauth-authorization-server", own);
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.assert_failed(Stage::Registration, "https://new.example");
    rig.assert_failed(Stage::Registration, ISSUER);
}

/// The server names another authorization server, which has any client.
fn migrate(rig: &mut Rig) {
    rig.site.json(RESOURCE, json!({"resource": SERVER, "authorization_servers": ["https://new.example"]}));
    let own = metadata_with(json!({
        "issuer": "https://new.example",
        "authorization_endpoint": "https://new.example/authorize",
        "token_endpoint": "https://new.example/token",
    }));
    rig.site.json("https://new.example/.well-known/oauth-authorization-server", own);
}

#[track_caller]
fn assert_stays(rig: &Rig) {
    rig.assert_failed(Stage::Registration, "https://new.example");
    rig.assert_failed(Stage::Registration, ISSUER);
    assert!(!rig.log.iter().any(|line| line.ends_with("/token")), "{:?}", rig.log);
}

#[test]
fn a_registered_client_without_an_issuer_stays_with_the_first_authorization_server() {
    let mut rig = Rig::registered();
    rig.authorize();
    rig.wait(100);
    migrate(&mut rig);
    rig.refuse(&[]).unwrap();
    rig.run();
    assert_stays(&rig);
    rig.auth.authorize(rig.now);
    rig.pump();
    rig.run();
    assert_stays(&rig);
}

fn with_secret(options: &mut OAuthOptions) {
    (options.flow, options.registered) = (Flow::ClientCredentials, vec![client_with("s-hush")]);
}

#[test]
fn the_secret_of_a_registered_client_stays_with_the_first_authorization_server() {
    let mut rig = Rig::with(with_secret);
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.assert_authorized();
    rig.log.clear();
    rig.wait(100);
    migrate(&mut rig);
    rig.refuse(&[]).unwrap();
    rig.run();
    assert_stays(&rig);

    // The credentials that another process stored name the authorization server too.
    let mut first = Rig::with(|options| (with_secret(options), options.stored = true).1);
    first.refuse(&[]).unwrap();
    first.run();
    first.assert_authorized();
    let mut rig = Rig::with(|options| (with_secret(options), options.stored = true).1);
    rig.store = first.store;
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.wait(100);
    migrate(&mut rig);
    rig.refuse(&[]).unwrap();
    rig.run();
    assert_stays(&rig);
}

#[test]
fn the_secret_of_a_registered_client_stays_with_an_authorization_server_that_issued_no_token() {
    let mut rig = Rig::with(with_secret);
    rig.site.tokens.push_back((400, r#"{"error":"invalid_scope"}"#.into()));
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.assert_failed(Stage::Token, "invalid_scope");
    rig.log.clear();
    rig.wait(100);
    migrate(&mut rig);
    rig.refuse(&[]).unwrap();
    rig.run();
    assert_stays(&rig);
}

#[test]
fn a_registered_client_does_not_stay_with_an_authorization_server_that_was_only_assumed() {
    let mut rig = Rig::registered();
    rig.site.remove(RESOURCE);
    rig.site.tokens.push_back((404, String::new()));
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.consent();
    rig.run();
    rig.assert_failed(Stage::Token, "HTTP 404");
    rig.wait(100);
    rig.site.json(RESOURCE, json!({"resource": SERVER, "authorization_servers": [ISSUER]}));
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.consent();
    rig.run();
    rig.assert_authorized();
}

#[test]
fn each_authorization_server_gets_the_client_that_is_registered_there() {
    let mut rig = Rig::with(|options| {
        options.stored = true;
        for (issuer, id) in [(Some(ISSUER), "app"), (None, "other")] {
            let mut client = RegisteredClient::new(id);
            client.issuer = issuer.map(Into::into);
            options.registered.push(client);
        }
    });
    rig.authorize();
    rig.wait(100);
    migrate(&mut rig);
    rig.refuse(&[]).unwrap();
    rig.run();
    assert_eq!(rig.shown("client_id"), "other");
    assert_eq!(rig.store.log.last(), Some(&"release"), "the lock is not held while the user is asked");
    assert!(!rig.log.iter().any(|line| line.ends_with("/token")), "{:?}", rig.log);
}

#[test]
fn a_client_that_is_not_known_any_more_is_registered_again_before_the_user_is_asked() {
    // The official Python SDK has the second form.
    for error in [r#"{"error":"invalid_client"}"#, r#"{"error":"unauthorized_client"}"#] {
        let mut rig = refreshing();
        rig.site.put("https://as.example/register", 201, r#"{"client_id":"dyn2"}"#);
        rig.answer(401, error);
        rig.run();
        assert_eq!(rig.shown("client_id"), "dyn2");
    }
}

#[test]
fn a_client_that_is_not_known_any_more_is_registered_again_once() {
    let mut rig = refreshing();
    rig.answer(401, r#"{"error":"invalid_client"}"#);
    rig.run();
    rig.consent();
    rig.run_to("/token");
    rig.answer(401, r#"{"error":"invalid_client"}"#);
    rig.assert_failed(Stage::Registration, "invalid_client");
}

#[test]
fn a_client_whose_secret_expired_is_registered_again() {
    let mut rig = Rig::new();
    let client = json!({"client_id": "dyn", "client_secret": "s-hush", "client_secret_expires_at": EPOCH + 300});
    rig.site.put("https://as.example/register", 201, &client.to_string());
    rig.authorize();
    rig.wait(600);
    rig.site.put("https://as.example/register", 201, r#"{"client_id":"dyn2"}"#);
    rig.refuse(&[]).unwrap();
    rig.run();
    assert_eq!(rig.shown("client_id"), "dyn2");

    let mut rig = Rig::new();
    rig.site.put("https://as.example/register", 201, &client.to_string());
    rig.authorize();
    rig.wait(600);
    rig.site.json(METADATA, metadata_with(json!({"registration_endpoint": null})));
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.assert_failed(Stage::Registration, "configure a client ID");
}

#[test]
fn a_configured_client_that_is_not_known_any_more_ends_the_refresh() {
    let mut rig = Rig::registered();
    rig.authorize();
    rig.wait(600);
    rig.refuse(&[]).unwrap();
    rig.run_to("/token");
    rig.answer(401, r#"{"error":"invalid_client"}"#);
    rig.assert_failed(Stage::Registration, "invalid_client");
}

#[test]
fn a_client_without_a_user_obtains_the_next_token_by_itself() {
    let mut rig = Rig::with(|options| {
        (options.flow, options.registered) = (Flow::ClientCredentials, vec![client_with("s-hush")]);
    });
    for token in ["t1", "t2", "t3"] {
        rig.site.tokens.push_back((200, format!(r#"{{"access_token":"{token}","expires_in":100}}"#)));
    }
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.wait(90);
    rig.run();
    assert_eq!(kinds(&rig), [GrantKind::ClientCredentials; 2]);
    rig.wait(90);
    rig.run();
    rig.now = rig.now + Duration::from_secs(600);
    for failure in [(503, ""), (400, r#"{"error":"invalid_client"}"#)] {
        rig.site.tokens.push_back((failure.0, failure.1.into()));
    }
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.wait(20);
    rig.run();
    rig.assert_failed(Stage::Registration, "invalid_client");
    rig.wait(3600);
    rig.site.tokens.extend((0..3).map(|_| (503, String::new())));
    rig.refuse(&[]).unwrap();
    for _ in 0..3 {
        rig.run();
        rig.wait(20);
    }
    rig.assert_failed(Stage::Token, "HTTP 503");
    rig.wait(3600);
    rig.site.tokens.push_back((400, r#"{"error":"invalid_grant"}"#.into()));
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.assert_failed(Stage::Token, "invalid_grant");
}

#[test]
fn each_failure_in_a_row_doubles_the_cooldown_before_the_next_attempt() {
    let mut rig = Rig::with(|options| {
        (options.flow, options.registered) = (Flow::ClientCredentials, vec![client_with("s-hush")]);
    });
    let posts = |rig: &Rig| rig.log.iter().filter(|line| line.ends_with("/token")).count();
    for (attempts, cooldown) in [(1, 10), (2, 20), (3, 40), (4, 80)] {
        rig.site.tokens.push_back((400, r#"{"error":"invalid_scope"}"#.into()));
        rig.refuse(&[]).unwrap();
        rig.run();
        rig.wait(cooldown - 1);
        rig.refuse(&[]).unwrap();
        rig.run();
        rig.assert_failed(Stage::Token, "invalid_scope");
        assert_eq!(posts(&rig), attempts, "{cooldown}");
        rig.wait(1);
    }
}

/// A client without a user, which obtains no token.
fn without_token() -> Rig {
    Rig::with(|options| {
        (options.flow, options.registered) = (Flow::ClientCredentials, vec![client_with("s-hush")]);
    })
}

fn token_posts(rig: &Rig) -> usize {
    rig.log.iter().filter(|line| line.ends_with("/token")).count()
}

/// An attempt fails, and none follows within this time.
fn fail_and_cool_down(rig: &mut Rig, cooldown: u64) {
    let before = token_posts(rig);
    rig.site.tokens.push_back((400, r#"{"error":"invalid_scope"}"#.into()));
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.wait(cooldown - 1);
    rig.refuse(&[]).unwrap();
    rig.run();
    assert_eq!(token_posts(rig), before + 1, "{cooldown}");
    rig.wait(1);
}

#[test]
fn the_cooldown_is_ten_minutes_at_most() {
    let mut rig = without_token();
    for cooldown in [10, 20, 40, 80, 160, 320, 600, 600] {
        fail_and_cool_down(&mut rig, cooldown);
    }
    let before = token_posts(&rig);
    rig.refuse(&[]).unwrap();
    rig.run();
    assert_eq!(token_posts(&rig), before + 1);
    rig.assert_authorized();
}

#[test]
fn a_token_resets_the_cooldown() {
    let mut rig = without_token();
    for cooldown in [10, 20, 40] {
        fail_and_cool_down(&mut rig, cooldown);
    }
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.assert_authorized();
    rig.accept();
    rig.wait(60);
    fail_and_cool_down(&mut rig, 10);
    let before = token_posts(&rig);
    rig.refuse(&[]).unwrap();
    rig.run();
    assert_eq!(token_posts(&rig), before + 1, "after 10 s, as after the first failure");
}

#[test]
fn tokens_that_are_refused_soon_after_each_refresh_are_refreshed_later() {
    let mut rig = Rig::registered();
    rig.authorize();
    // At once, the first times.
    for _ in 0..4 {
        rig.refuse(&[]).unwrap();
        rig.run();
        rig.assert_authorized();
        rig.accept();
        rig.events.clear();
    }
    rig.log.clear();
    // Then after 10 s.
    for _ in 0..3 {
        rig.wait(3);
        rig.refuse(&[]).unwrap();
        rig.run();
        assert!(rig.log.is_empty() && rig.events.is_empty(), "{:?} {:?}", rig.log, rig.events);
    }
    assert!(rig.auth.deadline().is_some());
    rig.wait(1);
    rig.run();
    rig.assert_authorized();
    assert_eq!(rig.log.iter().filter(|sent| sent.ends_with("/token")).count(), 1);
    rig.accept();
    rig.log.clear();
    // A sign-out ends the wait.
    rig.refuse(&[]).unwrap();
    rig.auth.sign_out(rig.now);
    rig.pump();
    assert!(matches!(rig.events.last(), Some(OAuthEvent::Failed(_))));
    assert!(rig.auth.deadline().is_none() && rig.log.is_empty());
}

/// The official Python SDK answers so to a client that it does not know; elsewhere it is one that may not do this.
#[test]
fn an_unauthorized_client_is_not_known_only_with_a_401() {
    for (status, stage) in [(401, Stage::Registration), (400, Stage::Refresh)] {
        let mut rig = Rig::registered();
        rig.authorize();
        rig.wait(600);
        rig.refuse(&[]).unwrap();
        rig.run_to("/token");
        rig.answer(status, r#"{"error":"unauthorized_client"}"#);
        rig.assert_failed(stage, "unauthorized_client");
    }
}

#[test]
fn the_last_request_of_a_refresh_may_fail_for_any_reason() {
    let mut rig = refreshing();
    for _ in 0..2 {
        rig.answer(503, "");
        rig.wait(20);
    }
    rig.answer(400, r#"{"error":"invalid_request"}"#);
    assert_eq!((posts(&rig), rig.failure().stage), (3, Stage::Refresh));
    rig.wait(20);
    assert_eq!(posts(&rig), 3);
}

#[test]
fn a_refresh_that_no_client_may_make_releases_the_lock_before_the_user_is_asked() {
    let mut rig = Rig::with(|options| options.stored = true);
    rig.authorize();
    rig.wait(100);
    migrate(&mut rig);
    rig.refuse(&[]).unwrap();
    rig.run();
    assert!(rig.browse.is_some());
    assert_eq!(rig.store.log.last(), Some(&"release"), "{:?}", rig.store.log);
}
