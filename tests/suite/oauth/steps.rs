//! Signing out at every step, and revocation.

use mcp_proto::binding::oauth::ClientAuth;

use super::*;

/// Signs out, and checks that nothing is left of the attempt.
fn sign_out(mut rig: Rig) {
    let locked = rig.store.log.iter().filter(|it| **it == "acquire").count()
        > rig.store.log.iter().filter(|it| **it == "release").count();
    rig.auth.sign_out(rig.now);
    rig.waiting.clear();
    rig.pump();
    assert!(rig.browse.is_none() && rig.sent.is_empty() && rig.bearer().is_none());
    assert_eq!(rig.auth.deadline(), None);
    assert_eq!(rig.store.log.last(), Some(&"remove"));
    if locked {
        assert!(rig.store.log.ends_with(&["release", "remove"]), "{:?}", rig.store.log);
    }
    rig.events.clear();
    rig.authorize();
}

fn stored() -> Rig {
    Rig::with(|options| options.stored = true)
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
fn signing_out_ends_the_wait_for_a_signature() {
    let mut rig = Rig::with(|options| {
        options.stored = true;
        let mut client = client();
        client.auth = Some(ClientAuth::PrivateKeyJwt { algorithm: "ES256".into(), key_id: None });
        options.registered.push(client);
    });
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.consent();
    assert_eq!(rig.signs.len(), 1);
    rig.auth.sign_out(rig.now);
    rig.pump();
    assert_eq!(rig.auth.deadline(), None);
}

#[test]
fn tokens_are_revoked_where_the_server_supports_it() {
    let mut rig = stored();
    rig.site.json(METADATA, metadata_with(json!({"revocation_endpoint": "https://as.example/revoke"})));
    rig.authorize();
    rig.auth.sign_out(rig.now);
    rig.pump();
    assert!(rig.bearer().is_none() && rig.store.record.is_none());
    for (hint, token) in [("refresh_token", "rt1-hush"), ("access_token", "at1-hush")] {
        let sent = &rig.sent[0];
        assert_eq!(sent.url, "https://as.example/revoke");
        assert_eq!(sent.form("token_type_hint").unwrap(), hint);
        assert_eq!(sent.form("token").unwrap(), token);
        if hint == "refresh_token" { rig.answer(503, "") } else { rig.break_off() }
    }
    assert_eq!(rig.auth.deadline(), None);
    // An answer that never comes ends it, too.
    rig.authorize();
    rig.auth.sign_out(rig.now);
    rig.pump();
    rig.wait(30);
    rig.wait(30);
    assert!(rig.sent.is_empty());
    assert_eq!(rig.auth.deadline(), None);
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
