use mcp_proto::binding::oauth::GrantKind;

use super::*;

/// A rig with a store, after the change of its options.
fn stored() -> Rig {
    Rig::with(|options| options.stored = true)
}

/// A rig of another process, with this store.
fn sibling(store: &Store) -> Rig {
    let mut rig = stored();
    rig.store = store.clone();
    rig.store.log.clear();
    rig.site.issued = 100;
    rig
}

/// A rig with a token in its store, whose refresh is in flight.
fn refreshing() -> Rig {
    let mut rig = stored();
    rig.authorize();
    rig.wait(600);
    rig.store.log.clear();
    rig.refuse(&[]).unwrap();
    rig.run_to("/token");
    assert_eq!(rig.store.log, ["load", "acquire", "load"]);
    rig
}

/// A rig with a token in its store, which requests the lock for a refresh.
fn locking() -> (Rig, StoreAction) {
    let mut rig = stored();
    rig.authorize();
    rig.refuse(&[]).unwrap();
    let load = rig.waiting.pop_front().unwrap();
    rig.serve_store(&load);
    rig.store.log.clear();
    let acquire = rig.waiting.pop_front().unwrap();
    assert!(matches!(acquire, StoreAction::Acquire(_)));
    (rig, acquire)
}

/// The record with other members.
fn changed(record: &[u8], changes: Value) -> Vec<u8> {
    let mut json: Value = serde_json::from_slice(record).unwrap();
    for (name, value) in changes.as_object().unwrap() {
        json[name] = value.clone();
    }
    json.to_string().into_bytes()
}

fn kind(rig: &Rig) -> GrantKind {
    match rig.events.last() {
        Some(OAuthEvent::Authorized(grant)) => grant.kind,
        other => panic!("{other:?} {:?}", rig.log),
    }
}

#[test]
fn a_stored_token_is_used_by_the_next_process() {
    let mut rig = stored();
    rig.authorize();
    assert_eq!(rig.store.log, ["load", "save"]);
    // Whether it is loaded at the beginning, or because the server demands it.
    for demanded in [false, true] {
        let mut next = sibling(&rig.store);
        if demanded {
            next.refuse(&[]).unwrap();
        }
        next.pump();
        next.run();
        assert_eq!(kind(&next), GrantKind::Stored);
        assert_eq!(next.bearer(), rig.bearer());
        assert_eq!(next.log, [""; 0]);
        // A lock that another process holds delays nobody.
        assert_eq!(next.store.log, ["load"]);
    }
}

#[test]
fn a_redirect_port_of_an_earlier_run_is_none_that_a_later_run_waits_at() {
    const PRESENT: &str = "http://127.0.0.1:8888/callback";
    let mut one = stored();
    one.authorize();
    for (redirect, registers, client, shown) in [
        // It is registered again, where that is possible.
        (PRESENT, true, "dyn2", PRESENT),
        (REDIRECT, true, "dyn", REDIRECT),
        // Otherwise the authorization server has to allow any port of a loopback address (RFC 8252, section 7.3).
        (PRESENT, false, "dyn", PRESENT),
        ("http://[::1]:8888/other", false, "dyn", PRESENT),
        // The redirect to another kind of receiver stays as it was registered.
        ("https://app.example/x", false, "dyn", REDIRECT),
    ] {
        let mut other = Rig::with(|options| {
            (options.stored, options.redirect_uri) = (true, redirect.into());
        });
        other.store = one.store.clone();
        other.site.put("https://as.example/register", 201, r#"{"client_id":"dyn2"}"#);
        if !registers {
            other.site.json(METADATA, metadata_with(json!({"registration_endpoint": null})));
        }
        other.refuse(&[]).unwrap();
        other.run();
        other.accept();
        // The refresh needs no redirect.
        other.refuse(&[]).unwrap();
        other.run_to("/token");
        assert_eq!(other.sent[0].form("client_id").unwrap(), "dyn");
        other.answer(400, r#"{"error":"invalid_grant"}"#);
        other.run();
        assert_eq!((&*other.shown("client_id"), &*other.shown("redirect_uri")), (client, shown), "{redirect}");
        other.consent();
        assert_eq!(other.sent[0].form("redirect_uri").unwrap(), shown);
        other.run();
        other.assert_authorized();
    }
}

#[test]
fn a_refresh_at_another_port_keeps_the_redirect_of_the_registration() {
    let mut one = stored();
    one.authorize();
    let client =
        |rig: &Rig| serde_json::from_slice::<Value>(rig.store.record.as_ref().unwrap()).unwrap()["client"].clone();
    let registered = client(&one);
    let mut other = Rig::with(|options| {
        (options.stored, options.redirect_uri) = (true, "http://127.0.0.1:8888/callback".into());
    });
    other.store = one.store.clone();
    other.refuse(&[]).unwrap();
    other.run();
    other.refuse(&[]).unwrap();
    other.run();
    assert_eq!((kind(&other), client(&other)), (GrantKind::RefreshToken, registered));
}

#[test]
fn a_client_that_is_registered_for_another_redirect_than_it_asked_for_is_registered_once() {
    let mut rig = stored();
    let answer = json!({"client_id": "dyn", "redirect_uris": ["http://127.0.0.1:7777/other"]});
    rig.site.put("https://as.example/register", 201, &answer.to_string());
    rig.authorize();
    rig.forbid("more").unwrap();
    rig.run();
    assert_eq!(rig.shown("redirect_uri"), "http://127.0.0.1:7777/other");
    assert!(rig.log.is_empty(), "{:?}", rig.log);
}

#[test]
fn the_lock_is_held_from_the_load_to_the_save_of_a_refresh_and_never_while_the_user_is_asked() {
    let mut rig = refreshing();
    rig.run();
    assert_eq!(rig.store.log, ["load", "acquire", "load", "save", "release"]);
    assert_eq!(kind(&rig), GrantKind::RefreshToken);
    let mut rig = stored();
    rig.refuse(&[]).unwrap();
    rig.run();
    assert!(rig.browse.is_some());
    assert_eq!(rig.store.log, ["load"]);
}

#[test]
fn a_newer_record_of_another_process_is_used_instead_of_a_refresh() {
    let mut one = stored();
    one.authorize();
    one.wait(600);
    let mut other = sibling(&one.store);
    other.wait(600);
    other.refuse(&[]).unwrap();
    other.run();
    other.refuse(&[]).unwrap();
    other.run();
    assert_eq!(kind(&other), GrantKind::RefreshToken);
    one.store.record.clone_from(&other.store.record);
    one.refuse(&[]).unwrap();
    one.run();
    assert_eq!((kind(&one), one.bearer()), (GrantKind::Stored, other.bearer()));
    assert!(!one.log.iter().any(|line| line.starts_with("POST")));
}

#[test]
fn a_newer_record_of_another_process_is_used_instead_of_a_renewal() {
    let mut one = stored();
    one.authorize();
    let mut other = sibling(&one.store);
    other.wait(600);
    other.refuse(&[]).unwrap();
    other.run();
    other.refuse(&[]).unwrap();
    other.run();
    one.store.record.clone_from(&other.store.record);
    one.wait(3570);
    one.run();
    assert_eq!((kind(&one), one.bearer()), (GrantKind::Stored, other.bearer()));
    assert_eq!(one.log, [""; 0]);
}

#[test]
fn a_record_that_another_process_removed_takes_its_token_with_it() {
    let mut rig = stored();
    rig.authorize();
    rig.store.record = None;
    rig.wait(3570);
    rig.run();
    assert_eq!(rig.bearer(), None);
    let redirect = format!("error=access_denied&state={}", rig.shown("state"));
    assert!(rig.redirect(&redirect));
    rig.assert_failed(Stage::Authorization, "access_denied");
    // A request that is refused later does not wait for a token that is gone.
    rig.wait(60);
    rig.refuse(&[]).unwrap();
    rig.run();
    assert!(rig.browse.is_some());
}

#[test]
fn a_client_that_another_process_registered_again_is_used_for_the_refresh() {
    let mut rig = refreshing();
    let mut record: Value = serde_json::from_slice(rig.store.record.as_ref().unwrap()).unwrap();
    record["client"]["id"] = json!("theirs");
    let theirs = json!({"refresh_token": "rt9-hush", "expires": EPOCH + 1, "generation": 9});
    rig.store.record = Some(changed(record.to_string().as_bytes(), theirs));
    rig.answer(401, r#"{"error":"invalid_client"}"#);
    rig.run_to("/token");
    let sent = (rig.sent[0].form("client_id").unwrap(), rig.sent[0].form("refresh_token").unwrap());
    assert_eq!(sent, ("theirs".into(), "rt9-hush".into()));
    rig.run();
    rig.assert_authorized();
}

#[test]
fn a_lock_that_is_not_acquired_in_time_is_requested_again() {
    let (mut rig, _) = locking();
    rig.wait(60);
    assert!(rig.failure().reason.contains("store"), "{:?}", rig.failure());
    rig.wait(60);
    rig.refuse(&[]).unwrap();
    rig.run();
    assert_eq!(kind(&rig), GrantKind::RefreshToken);
    assert_eq!(rig.store.log, ["release", "load", "acquire", "load", "save", "release"]);
}

/// The store answers that the lock was acquired.
fn acquired(rig: &mut Rig, action: &StoreAction) {
    let StoreAction::Acquire(id) = action else { panic!("{action:?}") };
    rig.auth.handle_acquired(rig.now, *id, true);
    rig.pump();
}

#[test]
fn a_lock_that_is_acquired_too_late_is_released() {
    let (mut rig, late) = locking();
    rig.wait(60);
    assert_eq!(rig.store.log, ["release"]);
    acquired(&mut rig, &late);
    assert_eq!(rig.store.log, ["release", "release"]);
    assert!(rig.waiting.is_empty());

    let (mut rig, late) = locking();
    rig.auth.authorize(rig.now);
    rig.pump();
    rig.store.log.clear();
    acquired(&mut rig, &late);
    assert_eq!(rig.store.log, ["release"]);
}

#[test]
fn what_another_process_did_while_the_lock_was_waited_for_counts() {
    // It refreshed.
    let (mut rig, acquire) = locking();
    let record = rig.store.record.clone().unwrap();
    rig.store.record = Some(changed(&record, json!({"access_token": "theirs", "generation": 9})));
    acquired(&mut rig, &acquire);
    rig.run();
    assert_eq!((kind(&rig), rig.bearer().unwrap()), (GrantKind::Stored, "theirs".into()));
    assert_eq!(rig.store.log, ["load", "release"]);
    // It signed out.
    let (mut rig, acquire) = locking();
    rig.store.record = None;
    acquired(&mut rig, &acquire);
    rig.run();
    assert!(rig.browse.is_some());
    assert_eq!(rig.store.log, ["load", "release"]);
}

#[test]
fn nobody_is_asked_before_the_server_demands_a_token_whatever_becomes_of_the_record() {
    let mut one = stored();
    one.authorize();
    let record = changed(one.store.record.as_ref().unwrap(), json!({"expires": EPOCH}));
    for case in ["removed", "refused", "refused again", "refused and lost"] {
        let mut rig = sibling(&one.store);
        rig.store.record = Some(record.clone());
        rig.pump();
        let load = rig.waiting.pop_front().unwrap();
        rig.serve_store(&load);
        if case == "removed" {
            rig.store.record = None;
        } else {
            rig.run_to("/token");
        }
        if case == "refused again" {
            rig.store.record = Some(changed(&record, json!({"refresh_token": "rt9-hush", "generation": 9})));
        }
        if case != "removed" {
            rig.answer(400, r#"{"error":"invalid_grant"}"#);
        }
        match case {
            "refused again" => {
                rig.run_to("/token");
                rig.answer(400, r#"{"error":"invalid_grant"}"#);
            }
            "refused and lost" => fail_store(&mut rig, false),
            _ => {}
        }
        rig.run();
        assert!(rig.browse.is_none() && rig.events.is_empty() && rig.bearer().is_none(), "{case} {:?}", rig.events);
        assert_eq!((rig.store.log.last(), rig.auth.deadline()), (Some(&"release"), None), "{case}");
        rig.refuse(&[]).unwrap();
        rig.run();
        assert!(rig.browse.is_some(), "{case}");
    }
}

#[test]
fn a_lock_that_a_former_request_acquired_serves_the_next_one() {
    let (mut rig, late) = locking();
    rig.wait(60);
    rig.wait(60);
    rig.refuse(&[]).unwrap();
    let load = rig.waiting.pop_front().unwrap();
    rig.serve_store(&load);
    let next = rig.waiting.pop_front().unwrap();
    assert!(matches!(next, StoreAction::Acquire(_)) && late != next);
    rig.store.log.clear();
    acquired(&mut rig, &late);
    assert!(matches!(rig.waiting.front(), Some(StoreAction::Load(_))));
    // The store may acquire it for each request.
    acquired(&mut rig, &next);
    assert_eq!(rig.store.log, [""; 0]);
    rig.run();
    assert_eq!(rig.store.log, ["load", "save", "release"]);
}

#[test]
fn a_refused_refresh_token_that_another_process_replaced_is_not_the_end() {
    for (expires, used) in [(EPOCH + 9999, "theirs"), (EPOCH + 1, "rt9-hush")] {
        let mut rig = refreshing();
        let record = rig.store.record.clone().unwrap();
        let theirs =
            json!({"access_token": "theirs", "refresh_token": "rt9-hush", "expires": expires, "generation": 9});
        rig.store.record = Some(changed(&record, theirs));
        rig.answer(400, r#"{"error":"invalid_grant"}"#);
        if expires == EPOCH + 1 {
            rig.run_to("/token");
            assert_eq!(rig.sent[0].form("refresh_token").unwrap(), used);
            rig.run();
            assert_eq!(kind(&rig), GrantKind::RefreshToken);
        } else {
            rig.run();
            assert_eq!(rig.bearer().unwrap(), used);
            assert!(rig.browse.is_none());
        }
    }
}

/// A rig that refreshes with the refresh token of another process, whose access token is still the same.
fn refreshing_again(refused: bool) -> Rig {
    let mut rig = stored();
    rig.authorize();
    rig.wait(if refused { 600 } else { 3570 });
    if refused {
        rig.refuse(&[]).unwrap();
    }
    rig.run_to("/token");
    let record = rig.store.record.clone().unwrap();
    rig.store.record = Some(changed(&record, json!({"refresh_token": "rt9-hush", "generation": 9})));
    rig.answer(400, r#"{"error":"invalid_grant"}"#);
    rig.run_to("/token");
    rig
}

#[test]
fn a_second_refused_refresh_token_is_the_end() {
    let mut rig = refreshing_again(true);
    rig.answer(400, r#"{"error":"invalid_grant"}"#);
    rig.run();
    assert!(rig.browse.is_some());
}

#[test]
fn a_refresh_with_the_token_of_another_process_may_fail_as_any_other() {
    for refused in [true, false] {
        let mut rig = refreshing_again(refused);
        rig.answer(400, r#"{"error":"invalid_request"}"#);
        assert_eq!(rig.bearer().is_some(), !refused);
        assert_eq!(rig.events.is_empty(), !refused);
        assert_eq!(rig.store.log.last(), Some(&"release"));
    }
}

#[test]
fn a_record_that_cannot_be_read_is_begun_anew_and_an_empty_one_is_none() {
    let mut rig = stored();
    rig.authorize();
    let good = rig.store.record.clone().unwrap();
    let other_kind = changed(&good, json!({"client": {}}));
    let no_header = changed(&good, json!({"access_token": "a\nb"}));
    for (record, told) in [
        (b"{".to_vec(), true),
        (b"\xff".to_vec(), true),
        (good[..good.len() / 2].to_vec(), true),
        (other_kind, true),
        (no_header, true),
        (Vec::new(), false),
    ] {
        let mut rig = stored();
        rig.store.record = Some(record);
        rig.refuse(&[]).unwrap();
        rig.run();
        assert_eq!(rig.events.iter().any(|event| matches!(event, OAuthEvent::RecordUnreadable)), told);
        rig.consent();
        rig.run();
        rig.assert_authorized();
        assert_eq!(rig.store.log.last(), Some(&"save"), "{:?}", rig.store.log);
    }
}

#[test]
fn a_record_of_another_server_or_client_is_not_used() {
    let mut rig = stored();
    rig.authorize();
    let good = rig.store.record.clone().unwrap();
    let mut rig = stored();
    rig.store.record = Some(changed(&good, json!({"server": "https://mcp.example/other"})));
    rig.refuse(&[]).unwrap();
    rig.run();
    assert!(rig.browse.is_some());
    let mut rig = Rig::with(|options| {
        options.stored = true;
        options.registered.push(RegisteredClient::new("app"));
    });
    rig.store.record = Some(good);
    rig.refuse(&[]).unwrap();
    rig.run();
    assert_eq!(rig.shown("client_id"), "app");
}

#[test]
fn a_stored_record_of_another_issuer_than_the_configured_one_is_not_used() {
    let mut rig = stored();
    rig.authorize();
    let good = rig.store.record.clone().unwrap();
    for is_client in [true, false] {
        let mut rig = Rig::with(|options| {
            options.stored = true;
            let issuer = Some("https://old.example".into());
            if is_client {
                let mut client = RegisteredClient::new("dyn");
                client.issuer = issuer;
                options.registered.push(client);
            } else {
                options.tolerance.issuer = issuer;
            }
        });
        rig.store.record = Some(good.clone());
        rig.refuse(&[]).unwrap();
        rig.run();
        let stage = if is_client { Stage::Registration } else { Stage::ResourceMetadata };
        rig.assert_failed(stage, "https://old.example");
        assert!(rig.bearer().is_none() && !rig.log.iter().any(|line| line.starts_with("POST")), "{:?}", rig.log);
    }
}

#[test]
fn another_process_that_stored_meanwhile_wins_if_its_token_can_be_used() {
    for alive in [true, false] {
        let mut rig = stored();
        rig.refuse(&[]).unwrap();
        rig.run();
        let mut other = sibling(&rig.store);
        other.authorize();
        let expires = if alive { EPOCH + 9999 } else { EPOCH - 1 };
        rig.store.record = other.store.record.map(|record| changed(&record, json!({"expires": expires})));
        rig.consent();
        rig.run();
        rig.assert_authorized();
        assert_eq!(rig.bearer().unwrap(), if alive { "at101-hush" } else { "at1-hush" });
        let last = if alive { "load" } else { "save" };
        assert_eq!(rig.store.log.last(), Some(&last));
    }
}

#[test]
fn a_grant_that_the_embedder_requests_replaces_the_stored_record() {
    let mut rig = stored();
    rig.authorize();
    let mut next = sibling(&rig.store);
    next.auth.authorize(next.now);
    next.pump();
    next.run();
    next.consent();
    next.run();
    assert_eq!(next.bearer().unwrap(), "at101-hush");
    assert_eq!(next.store.log, ["conflict", "load", "save"]);
}

/// Polls the answers that the store owes, and answers the next action with a failure.
fn fail_store(rig: &mut Rig, timeout: bool) {
    let action = rig.waiting.pop_front().expect("the store owes an answer");
    if timeout {
        rig.wait(60);
    }
    match action {
        StoreAction::Acquire(id) => rig.auth.handle_acquired(rig.now, id, false),
        StoreAction::Load(id) => rig.auth.handle_loaded(rig.now, id, Err(())),
        StoreAction::Save { id, .. } => rig.auth.handle_saved(rig.now, id, SaveOutcome::Failed),
        other => panic!("{other:?}"),
    }
    rig.pump();
}

#[test]
fn a_store_that_fails_or_is_silent_ends_the_attempt_or_costs_the_record() {
    for timeout in [false, true] {
        for failing in 0..3 {
            let mut rig = stored();
            rig.authorize();
            rig.refuse(&[]).unwrap();
            for _ in 0..failing {
                let action = rig.waiting.pop_front().unwrap();
                rig.serve_store(&action);
            }
            fail_store(&mut rig, timeout);
            assert!(rig.failure().reason.contains("store"), "{:?}", rig.failure());
        }
        let mut rig = stored();
        rig.refuse(&[]).unwrap();
        fail_store(&mut rig, timeout);
        assert!(rig.failure().reason.contains("store") && rig.waiting.is_empty(), "{:?}", rig.failure());
        let mut rig = stored();
        rig.refuse(&[]).unwrap();
        rig.run();
        rig.consent();
        rig.answer(200, r#"{"access_token":"t","expires_in":9999}"#);
        fail_store(&mut rig, timeout);
        assert!(matches!(rig.events[..], [OAuthEvent::NotStored, OAuthEvent::Authorized(_)]));
        assert_eq!(rig.bearer().unwrap(), "t");
    }
}

/// The user consented, and the store failed.
fn not_stored() -> Rig {
    let mut rig = stored();
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.consent();
    rig.answer(200, r#"{"access_token":"t-hush","refresh_token":"r-hush","expires_in":100}"#);
    fail_store(&mut rig, false);
    rig
}

#[test]
fn a_record_that_was_not_stored_is_kept_in_memory() {
    let mut rig = not_stored();
    rig.wait(90);
    rig.run_to("/token");
    assert_eq!(rig.sent[0].form("refresh_token").unwrap(), "r-hush");
    rig.run();
    assert_eq!(rig.store.log.last(), Some(&"release"));
    assert!(rig.store.record.is_some());
}

#[test]
fn a_record_that_was_not_stored_is_replaced_by_a_newer_one() {
    let mut rig = not_stored();
    let mut other = sibling(&rig.store);
    other.authorize();
    let token = other.bearer();
    rig.store.record = other.store.record.map(|record| changed(&record, json!({"generation": 77})));
    rig.wait(90);
    rig.run();
    assert_eq!(rig.bearer(), token);
    assert!(rig.sent.is_empty(), "nothing is refreshed");
}

#[test]
fn a_store_that_fails_in_a_conflict_costs_the_record_only() {
    for (answers, conflict) in [(0, false), (1, false), (1, true)] {
        let mut rig = stored();
        rig.refuse(&[]).unwrap();
        rig.run();
        rig.consent();
        let mut other = sibling(&rig.store);
        other.authorize();
        rig.store.record = other.store.record.map(|record| changed(&record, json!({"expires": EPOCH - 1})));
        rig.answer(200, r#"{"access_token":"t","expires_in":9999}"#);
        let save = rig.waiting.pop_front().unwrap();
        rig.serve_store(&save);
        for _ in 0..answers {
            let action = rig.waiting.pop_front().unwrap();
            rig.serve_store(&action);
        }
        if conflict {
            let record = rig.store.record.clone().unwrap();
            rig.store.record = Some(changed(&record, json!({"generation": 77})));
            rig.run();
        } else {
            fail_store(&mut rig, false);
        }
        assert!(matches!(rig.events[..], [OAuthEvent::NotStored, OAuthEvent::Authorized(_)]), "{:?}", rig.events);
        assert_eq!(rig.bearer().unwrap(), "t");
    }
}

#[test]
fn a_store_that_fails_after_a_refused_refresh_leads_to_the_user() {
    let mut rig = refreshing();
    rig.answer(400, r#"{"error":"invalid_grant"}"#);
    fail_store(&mut rig, false);
    rig.run();
    assert!(rig.browse.is_some());
    assert_eq!(rig.store.log.last(), Some(&"release"));
}

#[test]
fn an_answer_of_the_store_to_something_else_is_ignored() {
    let (mut rig, acquire) = locking();
    let StoreAction::Acquire(id) = acquire else { panic!() };
    rig.auth.handle_loaded(rig.now, id, Ok(None));
    rig.auth.handle_saved(rig.now, id, SaveOutcome::Stored);
    rig.auth.handle_acquired(rig.now, id, true);
    rig.auth.handle_acquired(rig.now, id, false);
    rig.pump();
    assert!(matches!(rig.waiting.make_contiguous(), [StoreAction::Load(_)]));
    rig.run();
    rig.assert_authorized();
}

#[test]
fn a_grant_that_is_requested_during_the_load_comes_at_once() {
    for answers in 0..3 {
        let mut rig = stored();
        rig.authorize();
        rig.store.log.clear();
        rig.refuse(&[]).unwrap();
        for _ in 0..answers {
            let action = rig.waiting.pop_front().unwrap();
            rig.serve_store(&action);
        }
        rig.auth.authorize(rig.now);
        rig.waiting.clear();
        rig.pump();
        rig.run();
        assert!(rig.browse.is_some());
        assert_eq!(rig.store.log.last() == Some(&"release"), answers > 0, "{:?}", rig.store.log);
    }
    // Also before anything was loaded, and in the first load.
    for polled in [false, true] {
        let mut rig = stored();
        if polled {
            rig.pump();
        }
        rig.auth.authorize(rig.now);
        rig.waiting.clear();
        rig.pump();
        rig.run();
        assert!(rig.browse.is_some());
    }
    let mut rig = refreshing();
    rig.answer(400, r#"{"error":"invalid_grant"}"#);
    rig.auth.authorize(rig.now);
    rig.waiting.clear();
    rig.pump();
    rig.run();
    assert!(rig.browse.is_some());
}

#[test]
fn a_store_that_fails_after_a_failed_attempt_is_the_reason_that_is_told() {
    let mut rig = stored();
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.consent();
    rig.answer(400, r#"{"error":"access_denied"}"#);
    rig.run();
    assert!(!rig.failure().reason.contains("store"), "{:?}", rig.failure());
    rig.events.clear();
    rig.wait(3600);
    rig.refuse(&[]).unwrap();
    fail_store(&mut rig, false);
    assert!(rig.failure().reason.contains("store"), "{:?}", rig.failure());
}

/// The next process renews a secret that expired, and asks for no scope that the client does not have.
#[test]
fn the_scopes_of_a_registration_and_the_expiry_of_its_secret_are_stored() {
    let mut rig = stored();
    let answer = json!({
        "client_id": "dyn", "client_secret": "s-hush", "client_secret_expires_at": EPOCH + 300, "scope": "a b",
    });
    rig.site.put("https://as.example/register", 201, &answer.to_string());
    rig.authorize();
    let record: Value = serde_json::from_slice(rig.store.record.as_deref().unwrap()).unwrap();
    assert_eq!(record["client"]["secret_expires"], EPOCH + 300);
    assert_eq!(record["client"]["scopes"], "a b");
    for (wait, client) in [(0, "dyn"), (600, "dyn2")] {
        let mut next = sibling(&rig.store);
        next.site.put("https://as.example/register", 201, r#"{"client_id":"dyn2"}"#);
        next.pump();
        next.run();
        next.wait(wait);
        next.forbid("b c").unwrap();
        next.run();
        assert_eq!(next.shown("client_id"), client);
        assert_eq!(next.shown("scope"), if wait == 0 { "b" } else { "b c" });
    }
}

#[test]
fn what_is_not_polled_does_not_add_up() {
    let count = |auth: &mut Watched| std::iter::from_fn(|| auth.poll()).count();
    let (mut rig, acquire) = locking();
    let StoreAction::Acquire(id) = acquire else { panic!("{acquire:?}") };
    rig.wait(600);
    for _ in 0..100 {
        rig.auth.handle_acquired(rig.now, id, true);
    }
    // What nothing waits for any more is released, once.
    assert_eq!(count(&mut rig.auth), 1);
    let refused = Challenge::new("Bearer", vec![("resource_metadata".into(), "ftp://as.example".into())]);
    for mut rig in [Rig::new(), stored()] {
        for _ in 0..100 {
            let _ = rig.auth.handle_unauthorized(rig.now, None, false, std::slice::from_ref(&refused));
            rig.auth.sign_out(rig.now);
        }
        assert!(count(&mut rig.auth) < 10);
    }
    // Time passes, and the store does not answer.
    let mut rig = stored();
    rig.authorize();
    for _ in 0..100 {
        rig.auth.sign_out(rig.now);
        let _ = rig.auth.handle_unauthorized(rig.now, None, false, std::slice::from_ref(&refused));
        rig.now = rig.now + Duration::from_secs(61);
        rig.auth.handle_timeout(rig.now);
    }
    assert!(count(&mut rig.auth) < 10);
}
