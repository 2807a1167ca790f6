//! Signing out at every step, and revocation.

use mcp_proto::binding::oauth::ClientAuth;

use super::*;

/// Signs out, and checks that nothing is left of the attempt, nor of the record.
fn sign_out(mut rig: Rig) {
    let count = |name| rig.store.log.iter().filter(|it| **it == name).count();
    let is_requested = rig.waiting.iter().any(|action| matches!(action, StoreAction::Acquire(_)));
    let locked = is_requested || count("acquire") > count("release");
    rig.store.log.clear();
    rig.auth.sign_out(rig.now);
    // What the store answers later is of no use, but for a save, which is awaited.
    rig.waiting.retain(|action| matches!(action, StoreAction::Save { .. }));
    let is_saving = !rig.waiting.is_empty();
    rig.pump();
    assert!(rig.browse.is_none() && rig.sent.is_empty() && rig.bearer().is_none());
    rig.run();
    assert_eq!(rig.auth.deadline(), None);
    if is_saving {
        assert!(["save", "conflict"].contains(&rig.store.log.remove(0)));
    }
    let expected = if locked {
        &["release", "acquire", "load", "remove", "release"][..]
    } else {
        &["acquire", "load", "remove", "release"]
    };
    assert_eq!(rig.store.log, expected);
    assert!(rig.store.record.is_none());
    rig.events.clear();
    rig.authorize();
}

fn stored() -> Rig {
    Rig::with(|options| options.stored = true)
}

/// The token came, and the store is asked to save it.
fn saving() -> Rig {
    let mut rig = stored();
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.consent();
    let page = rig.site.page(&rig.sent[0]);
    rig.answer_page(&page);
    rig
}

#[test]
fn signing_out_ends_an_attempt_at_every_step() {
    let steps: [fn(&mut Rig); 10] = [
        |_| {},
        |rig| rig.refuse(&[]).unwrap(),
        |rig| {
            rig.refuse(&[]).unwrap();
            let action = rig.waiting.pop_front().unwrap();
            rig.serve_store(&action);
        },
        |rig| {
            rig.refuse(&[]).unwrap();
            rig.run_to("a/mcp");
        },
        |rig| {
            // The metadata is requested again later.
            rig.site.put(RESOURCE, 503, "");
            rig.refuse(&[]).unwrap();
            rig.run();
            assert!(rig.sent.is_empty() && rig.events.is_empty());
            rig.site.json(RESOURCE, json!({"resource": SERVER, "authorization_servers": [ISSUER]}));
        },
        |rig| {
            rig.refuse(&[]).unwrap();
            rig.run_to("oauth-authorization-server");
        },
        |rig| {
            let origin = "https://mcp.example/.well-known/oauth-authorization-server";
            rig.site.remove(RESOURCE);
            rig.site.json(origin, metadata_with(json!({"issuer": "https://mcp.example"})));
            rig.refuse(&[]).unwrap();
            rig.run_to(origin);
        },
        |rig| {
            rig.refuse(&[]).unwrap();
            rig.run_to("/register");
        },
        |rig| {
            rig.refuse(&[]).unwrap();
            rig.run();
            assert!(rig.browse.is_some());
        },
        |rig| {
            rig.refuse(&[]).unwrap();
            rig.run();
            rig.consent();
            rig.run_to("/token");
        },
    ];
    for step in steps {
        let mut rig = stored();
        step(&mut rig);
        sign_out(rig);
    }
}

#[test]
fn signing_out_ends_a_refresh_at_every_step() {
    let steps: [fn(&mut Rig); 6] = [
        |_| {},
        |rig| rig.answer(503, ""),
        |rig| rig.answer(400, r#"{"error":"invalid_request"}"#),
        |rig| rig.answer(400, r#"{"error":"invalid_grant"}"#),
        |rig| {
            let mut record: Value = serde_json::from_slice(rig.store.record.as_ref().unwrap()).unwrap();
            record["refresh_token"] = json!("rt9");
            rig.store.record = Some(record.to_string().into_bytes());
            rig.answer(400, r#"{"error":"invalid_grant"}"#);
            rig.run_to("/token");
        },
        |rig| rig.answer(200, r#"{"access_token":"t"}"#),
    ];
    for step in steps {
        let mut rig = stored();
        rig.authorize();
        rig.wait(600);
        rig.refuse(&[]).unwrap();
        rig.run_to("/token");
        step(&mut rig);
        sign_out(rig);
    }
}

#[test]
fn signing_out_ends_a_save_and_a_conflict() {
    for answers in 0..3 {
        let mut rig = stored();
        rig.refuse(&[]).unwrap();
        rig.run();
        rig.consent();
        rig.answer(200, r#"{"access_token":"t"}"#);
        rig.store.record = Some(b"{\"generation\":5}".to_vec());
        for _ in 0..answers {
            let action = rig.waiting.pop_front().unwrap();
            rig.serve_store(&action);
        }
        sign_out(rig);
    }
}

#[test]
fn signing_out_ends_the_load_and_the_wait_for_the_lock() {
    for answers in 0..3 {
        let mut rig = stored();
        rig.authorize();
        rig.refuse(&[]).unwrap();
        for _ in 0..answers {
            let action = rig.waiting.pop_front().unwrap();
            rig.serve_store(&action);
        }
        sign_out(rig);
    }
    // Before anything was loaded, and in the first load.
    sign_out(stored());
    let mut rig = stored();
    rig.pump();
    sign_out(rig);
}

#[test]
fn signing_out_ends_the_wait_for_a_signature() {
    let mut rig = keyed();
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.consent();
    assert_eq!(rig.signs.len(), 1);
    rig.signs.clear();
    sign_out_of(&mut rig);
    assert_eq!(rig.auth.deadline(), None);
}

/// A rig with a store, whose client authenticates by assertions.
fn keyed() -> Rig {
    Rig::with(|options| {
        options.stored = true;
        let mut client = client();
        client.auth = Some(ClientAuth::PrivateKeyJwt { algorithm: "ES256".into(), key_id: None });
        options.registered.push(client);
    })
}

/// The authorization server revokes tokens.
fn revocable(mut rig: Rig) -> Rig {
    rig.site.json(METADATA, metadata_with(json!({"revocation_endpoint": "https://as.example/revoke"})));
    rig.site.put("https://as.example/revoke", 200, "");
    rig
}

fn sign_out_of(rig: &mut Rig) {
    rig.auth.sign_out(rig.now);
    rig.pump();
    rig.run();
}

#[test]
fn tokens_are_revoked_where_the_server_supports_it() {
    let mut rig = revocable(stored());
    rig.authorize();
    rig.store.log.clear();
    sign_out_of_until_revoked(&mut rig);
    assert!(rig.bearer().is_none());
    for (hint, token) in [("refresh_token", "rt1-hush"), ("access_token", "at1-hush")] {
        // A response to something else is ignored.
        rig.auth.handle_head(rig.now, OAuthExchangeId::from_u64(1 << 40), StatusCode::IM_A_TEAPOT, &HeaderMap::new());
        rig.auth.handle_end(rig.now, OAuthExchangeId::from_u64(1 << 40));
        // The record is there as long as its tokens may be valid.
        assert_eq!(rig.store.log, ["acquire", "load"]);
        let sent = &rig.sent[0];
        assert_eq!(sent.url, "https://as.example/revoke");
        assert_eq!(sent.form("token_type_hint").unwrap(), hint);
        assert_eq!(sent.form("token").unwrap(), token);
        rig.answer(200, "");
    }
    assert_eq!(rig.store.log, ["acquire", "load", "remove", "release"]);
    assert_eq!((rig.auth.deadline(), &*rig.events), (None, &[][..]));
}

fn sign_out_of_until_revoked(rig: &mut Rig) {
    rig.auth.sign_out(rig.now);
    rig.pump();
    rig.run_to("/revoke");
}

#[test]
fn a_token_that_was_not_revoked_is_reported() {
    for failure in ["status", "broken", "silent", "no head"] {
        let mut rig = revocable(stored());
        rig.authorize();
        sign_out_of_until_revoked(&mut rig);
        for _ in 0..2 {
            match failure {
                "status" => rig.answer(503, "no"),
                "broken" => rig.break_off(),
                "silent" => rig.wait(30),
                _ => {
                    let sent = rig.sent.pop_front().unwrap();
                    rig.auth.handle_end(rig.now, sent.id);
                    rig.pump();
                }
            }
        }
        let told: Vec<_> = rig
            .events
            .iter()
            .map(|event| match event {
                OAuthEvent::NotRevoked(why) => why.to_string(),
                other => panic!("{other:?}"),
            })
            .collect();
        let [refresh, access] = &*told else { panic!("{told:?}") };
        assert!(refresh.starts_with("`https://as.example` did not revoke the refresh_token: "), "{refresh}");
        assert!(access.contains("access_token") && !told.concat().contains("hush"), "{access}");
        assert_eq!(failure == "status", access.ends_with("HTTP 503"), "{access}");
        // The credentials are gone all the same.
        assert!(rig.store.record.is_none() && rig.sent.is_empty());
        assert_eq!(rig.auth.deadline(), None);
    }
}

#[test]
fn each_token_that_was_not_revoked_is_reported_although_nothing_is_polled_meanwhile() {
    let mut rig = revocable(Rig::new());
    rig.authorize();
    sign_out_of_until_revoked(&mut rig);
    let sent = rig.sent.pop_front().unwrap();
    rig.auth.handle_failure(rig.now, sent.id, "broken");
    rig.now = rig.now + Duration::from_secs(60);
    rig.auth.handle_timeout(rig.now);
    rig.pump();
    let told: Vec<_> = rig.events.iter().map(|event| format!("{event:?}")).collect();
    let [refresh, access] = &*told else { panic!("{told:?}") };
    assert!(refresh.contains("refresh_token") && access.contains("access_token"), "{told:?}");
    assert_eq!(rig.log.iter().filter(|line| line.ends_with("/revoke")).count(), 1);
}

/// The same client may be registered with several authorization servers, each with other credentials.
#[test]
fn a_revocation_is_not_authenticated_by_what_belongs_to_another_issuer() {
    let mut rig = revocable(Rig::with(|options| {
        options.stored = true;
        let mut other = client();
        other.issuer = Some("https://other.example".into());
        other.auth = Some(ClientAuth::PrivateKeyJwt { algorithm: "ES256".into(), key_id: None });
        options.registered.extend([other, client_with("s-hush")]);
    }));
    rig.authorize();
    rig.auth.sign_out(rig.now);
    rig.pump();
    rig.run_until(|sent| sent.url.ends_with("/revoke"));
    assert_eq!((rig.signs.len(), rig.sent.len()), (0, 1));
    assert!(rig.sent[0].headers.contains_key("authorization"));
}

#[test]
fn a_revocation_is_authenticated_as_the_client_is_registered() {
    for auth in [ClientAuth::Basic, ClientAuth::Post, ClientAuth::None] {
        let mut rig = revocable(Rig::with(|options| {
            options.stored = true;
            let mut client = if auth == ClientAuth::None { client() } else { client_with("s-hush") };
            client.auth = Some(auth.clone());
            options.registered.push(client);
        }));
        rig.authorize();
        sign_out_of_until_revoked(&mut rig);
        for _ in 0..2 {
            let sent = &rig.sent[0];
            assert_eq!(sent.headers.contains_key("authorization"), auth == ClientAuth::Basic);
            assert_eq!(sent.form("client_secret").is_some(), auth == ClientAuth::Post);
            assert_eq!(sent.form("client_id").is_some(), auth != ClientAuth::Basic);
            rig.answer(200, "");
        }
    }
    // Each assertion is signed, and used once.
    for outcome in ["signed", "not signed", "silent"] {
        let mut rig = revocable(keyed());
        rig.refuse(&[]).unwrap();
        rig.run();
        rig.consent();
        let sign = rig.signs.pop_front().unwrap();
        rig.auth.handle_signature(rig.now, sign.id, b"signature");
        rig.pump();
        rig.run();
        rig.events.clear();
        sign_out_of(&mut rig);
        let (other, mut seen) = (sign.id, vec![sign.input]);
        for _ in 0..2 {
            let sign = rig.signs.pop_front().unwrap();
            assert!(!seen.contains(&sign.input));
            for signature in [&b"signature"[..], b""] {
                rig.auth.handle_signature(rig.now, other, signature);
            }
            rig.pump();
            assert!(rig.sent.is_empty() && rig.signs.is_empty(), "it is the signature of something else");
            match outcome {
                "silent" => rig.wait(60),
                _ => rig.auth.handle_signature(rig.now, sign.id, if outcome == "signed" { b"signature" } else { b"" }),
            }
            rig.pump();
            if outcome == "signed" {
                assert_eq!(rig.sent[0].form("client_assertion").unwrap(), format!("{}.c2lnbmF0dXJl", sign.input));
            }
            seen.push(sign.input);
            rig.run();
        }
        assert_eq!(rig.events.len(), if outcome == "signed" { 0 } else { 2 }, "{:?}", rig.events);
        assert!(rig.store.record.is_none());
    }
}

#[test]
fn a_request_that_was_not_polled_is_not_run_after_sign_out() {
    let mut rig = Rig::new();
    let challenge = [Challenge::new("Bearer", vec![])];
    rig.auth.handle_unauthorized(rig.now, None, false, &challenge).unwrap();
    rig.auth.sign_out(rig.now);
    rig.pump();
    assert!(rig.log.is_empty(), "{:?}", rig.log);
}

#[test]
fn signing_out_in_a_fresh_process_revokes_and_removes_what_is_stored() {
    let mut one = revocable(stored());
    one.authorize();
    for opened in [false, true] {
        let mut rig = revocable(stored());
        rig.store = one.store.clone();
        if opened {
            rig.pump();
            rig.run();
        }
        sign_out_of_until_revoked(&mut rig);
        assert_eq!(rig.sent[0].form("token").unwrap(), "rt1-hush");
        rig.run();
        assert!(rig.store.record.is_none());
    }
    // A record of another issuer than the configured one is not revoked with the secret.
    let mut rig = revocable(Rig::with(|options| {
        options.stored = true;
        let mut client = client_with("s-hush");
        (client.id, client.issuer) = ("dyn".into(), Some("https://old.example".into()));
        options.registered.push(client);
    }));
    rig.store = one.store.clone();
    sign_out_of(&mut rig);
    assert!(rig.log.is_empty() && rig.store.record.is_none(), "{:?}", rig.log);
}

#[test]
fn a_sign_out_revokes_the_tokens_that_another_process_stored_meanwhile() {
    let mut rig = revocable(stored());
    rig.authorize();
    let mut record: Value = serde_json::from_slice(rig.store.record.as_ref().unwrap()).unwrap();
    (record["generation"], record["refresh_token"]) = (json!(9), json!("rt9-hush"));
    rig.store.record = Some(record.to_string().into_bytes());
    sign_out_of_until_revoked(&mut rig);
    assert_eq!(rig.sent[0].form("token").unwrap(), "rt9-hush");
    // A record that was not stored is newer than the one in the store.
    let mut rig = revocable(stored());
    rig.authorize();
    let older = rig.store.record.clone();
    rig.refuse(&[]).unwrap();
    rig.run();
    assert_eq!(rig.bearer().unwrap(), "at2-hush");
    rig.store.record = older;
    sign_out_of_until_revoked(&mut rig);
    assert_eq!(rig.sent[0].form("token").unwrap(), "rt2-hush");
}

#[test]
fn a_process_that_refreshes_during_a_sign_out_does_not_bring_the_record_back() {
    let mut rig = revocable(stored());
    rig.authorize();
    rig.refuse(&[]).unwrap();
    rig.run_to("/token");
    // Another process signs out, although this one has the lock.
    rig.store.record = None;
    rig.run();
    assert!(rig.store.record.is_none() && rig.bearer().is_none(), "{:?}", rig.store.log);
    assert_eq!(rig.log.iter().filter(|line| line.ends_with("/revoke")).count(), 2, "what it got is revoked");
    assert!(matches!(rig.events.last(), Some(OAuthEvent::Failed(_))));
    assert!(rig.browse.is_none() && rig.auth.deadline().is_none());
}

#[test]
fn a_store_that_does_not_answer_holds_up_no_sign_out() {
    for answers in 0..2 {
        let mut rig = revocable(stored());
        rig.authorize();
        rig.auth.sign_out(rig.now);
        rig.pump();
        for _ in 0..answers {
            let action = rig.waiting.pop_front().unwrap();
            rig.serve_store(&action);
        }
        rig.waiting.clear();
        rig.wait(60);
        assert_eq!(rig.sent[0].form("token").unwrap(), "rt1-hush");
        rig.run();
        assert!(rig.store.record.is_none());
    }
}

#[test]
fn what_is_requested_during_a_sign_out_follows_it() {
    for at in 0..3 {
        for request in ["refused", "authorize", "sign out again"] {
            let mut rig = revocable(stored());
            rig.authorize();
            rig.auth.sign_out(rig.now);
            rig.pump();
            for _ in 0..at {
                let action = rig.waiting.pop_front().unwrap();
                rig.serve_store(&action);
            }
            match request {
                "refused" => rig.refuse(&[]).unwrap(),
                "authorize" => rig.auth.authorize(rig.now),
                _ => {
                    rig.refuse(&[]).unwrap();
                    rig.auth.sign_out(rig.now);
                }
            }
            rig.pump();
            assert!(rig.browse.is_none());
            rig.run();
            assert_eq!(rig.browse.is_some(), request != "sign out again", "{at} {request}");
            assert!(rig.store.record.is_none());
        }
    }
}

#[test]
fn what_is_requested_while_a_sign_out_waits_for_a_save_follows_it() {
    for again in [false, true] {
        let mut rig = saving();
        let save = rig.waiting.pop_front().unwrap();
        rig.browse = None;
        rig.auth.sign_out(rig.now);
        rig.auth.authorize(rig.now);
        if again {
            rig.auth.sign_out(rig.now);
        }
        rig.pump();
        assert!(rig.waiting.is_empty() && rig.browse.is_none(), "{:?}", rig.waiting);
        rig.serve_store(&save);
        rig.run();
        assert_eq!((rig.browse.is_some(), rig.store.record.is_none()), (!again, true));
    }
}

#[test]
fn each_step_has_a_deadline_at_which_it_ends() {
    for ending in ["a/mcp", "oauth-authorization-server", "/register", "/token"] {
        let mut rig = Rig::new();
        rig.refuse(&[]).unwrap();
        if ending == "/token" {
            rig.run();
            rig.consent();
        }
        rig.run_to(ending);
        let mut waits = 0;
        while rig.events.is_empty() && rig.browse.is_none() {
            waits += 1;
            assert!(waits < 30, "{ending}: {:?}", rig.log);
            let deadline = rig.auth.deadline().expect("a deadline");
            rig.wait(deadline.since(rig.now).as_secs() + 1);
        }
    }
}

#[test]
fn a_sign_out_follows_the_save_that_is_in_progress() {
    for outcome in [Some(SaveOutcome::Stored), Some(SaveOutcome::Conflict), Some(SaveOutcome::Failed), None] {
        for again in [false, true] {
            let mut rig = saving();
            if again {
                // The first save met the record of another process, which has gone.
                rig.store.record = Some(b"{\"generation\":5}".to_vec());
                let save = rig.waiting.pop_front().unwrap();
                rig.serve_store(&save);
                rig.store.record = None;
                let load = rig.waiting.pop_front().unwrap();
                rig.serve_store(&load);
            }
            // The store is at work on it.
            let save = rig.waiting.pop_front().unwrap();
            let StoreAction::Save { id, .. } = save else { panic!("{save:?}") };
            rig.auth.sign_out(rig.now);
            rig.auth.sign_out(rig.now);
            rig.pump();
            assert!(rig.waiting.is_empty() && rig.bearer().is_none(), "{:?}", rig.waiting);
            match outcome {
                Some(SaveOutcome::Stored) => rig.serve_store(&save),
                Some(saved) => {
                    rig.auth.handle_saved(rig.now, id, saved);
                    rig.pump();
                }
                None => rig.wait(60),
            }
            rig.run();
            assert_eq!(rig.store.record, None, "{outcome:?}");
            assert_eq!(rig.store.log.last(), Some(&"release"), "{outcome:?} {:?}", rig.store.log);
            assert!(rig.auth.deadline().is_none(), "{outcome:?}");
            // The next grant begins anew.
            rig.authorize();
            assert!(rig.store.record.is_some(), "{outcome:?}");
        }
    }
}
