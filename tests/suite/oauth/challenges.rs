use mcp_proto::binding::oauth::Flow;

use super::*;

#[test]
fn nothing_is_asked_before_the_server_demands_a_token() {
    let mut rig = Rig::new();
    rig.pump();
    rig.wait(3600);
    assert!(rig.log.is_empty() && rig.events.is_empty() && rig.auth.deadline().is_none());
}

#[test]
fn a_token_that_was_just_issued_and_is_refused_leads_to_one_more_grant() {
    // No clock counts.
    for wait in [0, 61, 3000] {
        let mut rig = Rig::new();
        rig.obtain();
        rig.wait(wait);
        rig.refuse(&[]).unwrap();
        rig.run();
        // Never a refresh.
        assert!(!rig.log.iter().any(|line| line.ends_with("/token")));
        rig.consent();
        rig.run();
        rig.assert_authorized();
        rig.wait(wait);
        let error = rig.refuse(&[("error_description", "bad audience")]).unwrap_err();
        assert!(error.reason.contains("bad audience"), "{error}");
        assert!(rig.sent.is_empty() && rig.browse.is_none());
    }
}

#[test]
fn a_server_that_accepts_no_token_is_not_asked_again_however_often_it_refuses() {
    let mut rig = Rig::new();
    for _ in 0..2 {
        rig.refuse(&[]).unwrap();
        rig.run();
        rig.consent();
        rig.run();
    }
    rig.log.clear();
    for _ in 0..100 {
        rig.wait(60);
        rig.refuse(&[]).unwrap_err();
        assert!(rig.sent.is_empty() && rig.browse.is_none());
    }
    assert_eq!(rig.log, [""; 0], "it is not renewed either");
}

#[test]
fn a_token_that_was_accepted_once_is_refreshed_whenever_it_is_refused() {
    for wait in [0, 5, 600] {
        let mut rig = Rig::new();
        rig.authorize();
        for _ in 0..3 {
            rig.wait(wait);
            rig.refuse(&[]).unwrap();
            rig.run();
            rig.assert_authorized();
            assert!(rig.browse.is_none());
            rig.accept();
        }
        // A refreshed one that is refused at once is replaced by a grant of the user, once.
        rig.refuse(&[]).unwrap();
        rig.run();
        rig.refuse(&[]).unwrap();
        rig.run();
        rig.consent();
        rig.run();
        rig.refuse(&[]).unwrap_err();
    }
    // One from the store is not just issued.
    let mut one = Rig::with(|options| options.stored = true);
    one.obtain();
    let mut other = Rig::with(|options| options.stored = true);
    other.store = one.store;
    other.site.issued = 1;
    other.wait(0);
    other.run();
    other.refuse(&[]).unwrap();
    other.run();
    other.assert_authorized();
    assert_eq!(other.bearer().unwrap(), "at2-hush");
}

#[test]
fn all_wait_while_a_user_authorizes() {
    let mut rig = Rig::new();
    rig.refuse(&[]).unwrap();
    rig.run();
    for _ in 0..3 {
        rig.refuse(&[]).unwrap();
        rig.forbid("x").unwrap();
    }
    assert!(rig.browse.is_some() && rig.events.is_empty());
}

#[test]
fn further_scopes_are_requested_with_those_before_and_never_by_a_refresh() {
    let mut rig = Rig::new();
    rig.refuse(&[("scope", "a")]).unwrap();
    rig.run();
    rig.consent();
    rig.run();
    rig.events.clear();
    rig.log.clear();
    rig.forbid("b c").unwrap();
    rig.run();
    assert_eq!(rig.shown("scope"), "a b c");
    assert!(rig.log.is_empty(), "the metadata and the client are known");
    // Other requests go on meanwhile.
    assert_eq!(rig.bearer().unwrap(), "at1-hush");
    rig.consent();
    rig.run();
    rig.assert_authorized();
    assert_eq!(rig.bearer().unwrap(), "at2-hush");
}

#[test]
fn a_step_up_asks_for_the_union_of_what_was_asked_for_and_granted_and_of_the_challenge() {
    for (granted, expected) in [("a d", "a e d b"), ("a", "a e b"), ("d", "a e d b")] {
        for flow in [Flow::User, Flow::ClientCredentials] {
            let is_user = flow == Flow::User;
            let mut rig = Rig::with(|options| {
                (options.flow, options.registered) = (flow, vec![client_with("s-hush")]);
                options.step_up_without_user = true;
            });
            rig.refuse(&[("scope", "a e")]).unwrap();
            if is_user {
                rig.run();
                rig.consent();
            }
            rig.run_to("/token");
            rig.answer(200, &json!({"access_token": "at1-hush", "scope": granted}).to_string());
            rig.accept();
            rig.forbid("b").unwrap();
            let asked = if is_user { Some(rig.shown("scope")) } else { rig.sent[0].form("scope") };
            assert_eq!(asked.as_deref(), Some(expected), "{granted}");
        }
    }
}

#[test]
fn further_scopes_are_requested_three_times_at_most() {
    let mut rig = Rig::new();
    rig.authorize();
    for scopes in ["b a", "a b", "a  b"] {
        rig.forbid(scopes).unwrap();
        rig.consent();
        rig.run();
        rig.assert_authorized();
    }
    let error = rig.forbid("a b").unwrap_err();
    assert_eq!(error.stage, Stage::StepUp);
    assert!(error.reason.starts_with("forbidden") && error.reason.contains("`a b`"), "{error}");
    // Other scopes have a count of their own, up to a limit.
    rig.forbid("c").unwrap();
    rig.consent();
    rig.run();
    for scope in 0..100 {
        if rig.forbid(&format!("s{scope}")).is_err() {
            // A 401 leads to a grant all the same, and no further one follows for its scopes.
            rig.refuse(&[("scope", "t")]).unwrap();
            rig.run();
            rig.consent();
            rig.run();
            rig.assert_authorized();
            assert_eq!(rig.forbid("t").unwrap_err().stage, Stage::StepUp);
            return;
        }
        rig.consent();
        rig.run();
    }
    panic!("the count of scopes is not limited");
}

#[test]
fn the_first_grant_for_the_scopes_of_a_challenge_counts_as_well() {
    let mut rig = Rig::new();
    rig.refuse(&[("scope", "a")]).unwrap();
    for _ in 0..2 {
        rig.run();
        rig.consent();
        rig.run();
        rig.assert_authorized();
        rig.forbid("a").unwrap();
    }
    rig.consent();
    rig.run();
    assert_eq!(rig.forbid("a").unwrap_err().stage, Stage::StepUp);
    // A token that was accepted, and is renewed, resets the count.
    rig.accept();
    rig.refuse(&[("scope", "a")]).unwrap();
    rig.run();
    rig.forbid("a").unwrap();
    assert!(rig.browse.is_some());
}

#[test]
fn a_request_with_a_former_token_is_sent_again_with_the_one_that_has_more_scopes() {
    let mut rig = Rig::new();
    rig.authorize();
    let former = rig.token();
    rig.forbid("b").unwrap();
    rig.consent();
    rig.run();
    rig.events.clear();
    rig.refuse_as(former, true, &[("error", "insufficient_scope"), ("scope", "b")]).unwrap();
    rig.assert_authorized();
    assert!(rig.browse.is_none());
}

#[test]
fn a_token_is_demanded_also_by_a_lack_of_scopes() {
    let mut rig = Rig::new();
    rig.forbid("b").unwrap();
    rig.run();
    assert_eq!(rig.shown("scope"), "b");
}

#[test]
fn a_denied_step_up_leaves_the_token_in_use() {
    let mut rig = Rig::new();
    rig.authorize();
    rig.forbid("b").unwrap();
    let redirect = format!("error=access_denied&state={}", rig.shown("state"));
    assert!(rig.redirect(&redirect));
    rig.assert_failed(Stage::StepUp, "access_denied");
    assert_eq!(rig.bearer().unwrap(), "at1-hush");
}

#[test]
fn a_client_without_a_user_requests_further_scopes_only_if_the_policy_says_so() {
    for policy in [false, true] {
        let mut rig = Rig::with(|options| {
            (options.flow, options.registered) = (Flow::ClientCredentials, vec![client_with("s-hush")]);
            options.step_up_without_user = policy;
        });
        rig.refuse(&[("scope", "a")]).unwrap();
        rig.run();
        let result = rig.forbid("b");
        assert_eq!(result.is_ok(), policy);
        assert_eq!(rig.sent.front().and_then(|sent| sent.form("scope")).as_deref(), policy.then_some("a b"));
        // It is requested once.
        rig.run();
        assert!(rig.forbid("b").is_err() && rig.sent.is_empty());
    }
}

#[test]
fn a_403_without_a_lack_of_scopes_is_final() {
    let mut rig = Rig::new();
    rig.authorize();
    for params in [&[][..], &[("error", "invalid_token")], &[("scope", "b")]] {
        let error = rig.refuse_as(rig.token(), true, params).unwrap_err();
        assert!(error.reason.starts_with("forbidden"), "{error}");
        assert!(rig.token().is_some(), "the token is good for other requests");
    }
    let error = rig.auth.handle_unauthorized(rig.now, None, true, &[]).unwrap_err();
    assert!(error.reason.starts_with("forbidden"), "{error}");
    assert!(rig.sent.is_empty() && rig.events.is_empty());
}

#[test]
fn a_grant_can_be_requested_at_any_time() {
    let mut rig = Rig::new();
    rig.auth.authorize(rig.now);
    rig.pump();
    rig.run();
    rig.consent();
    rig.run();
    rig.assert_authorized();
    rig.accept();
    rig.refuse(&[]).unwrap();
    rig.run_to("/token");
    rig.answer(400, r#"{"error":"invalid_request"}"#);
    rig.auth.authorize(rig.now);
    rig.pump();
    rig.run();
    assert!(rig.browse.is_some());
}

/// A rig whose refresh is in flight, with a store.
fn renewing() -> Rig {
    let mut rig = Rig::with(|options| options.stored = true);
    rig.authorize();
    rig.wait(600);
    rig.refuse(&[("scope", "a")]).unwrap();
    rig.run_to("/token");
    rig
}

/// The tokens that a refused request may have had: none, a former one, the current one.
fn tokens(rig: &Rig, former: Option<TokenId>) -> [Option<TokenId>; 3] {
    [None, former, rig.token()]
}

#[test]
fn a_401_that_waits_for_a_renewal_in_progress_does_not_say_what_is_requested_after_it() {
    for at in 0..3 {
        let mut rig = renewing();
        let token = tokens(&rig, Some(TokenId::from_u64(9999)))[at];
        rig.refuse_as(token, false, &[("scope", "x")]).unwrap();
        assert!(rig.waiting.is_empty() && rig.sent.len() == 1);
        rig.answer(400, r#"{"error":"invalid_grant"}"#);
        rig.run();
        assert_eq!(rig.shown_if("scope").as_deref(), Some("a"), "{at}");
    }
    // A token that came is just issued while it is stored.
    let mut rig = renewing();
    rig.answer(200, r#"{"access_token":"t"}"#);
    let save = rig.waiting.pop_front().unwrap();
    rig.refuse_as(rig.token(), false, &[("scope", "x")]).unwrap();
    rig.forbid("y").unwrap();
    assert!(rig.waiting.is_empty() && rig.sent.is_empty() && rig.browse.is_none());
    rig.serve_store(&save);
    rig.run();
    rig.assert_authorized();
    let mut rig = renewing();
    rig.answer(200, r#"{"access_token":"t"}"#);
    rig.refuse_as(rig.token(), false, &[("scope", "x")]).unwrap();
    rig.run();
    rig.auth.authorize(rig.now);
    rig.pump();
    assert_eq!(rig.shown_if("scope").as_deref(), Some("a"));
    // The record is requested, and there is no token yet.
    let mut rig = Rig::with(|options| options.stored = true);
    rig.refuse(&[("scope", "a")]).unwrap();
    rig.refuse(&[("scope", "x")]).unwrap();
    assert_eq!(rig.waiting.len(), 1, "it is requested once");
    rig.run();
    assert_eq!(rig.shown("scope"), "a");
}

/// The token that a client has while a user's grant is in progress.
#[derive(Clone, Copy, Debug)]
enum Held {
    Nothing,
    Fresh,
    /// As `Fresh`, and it replaced one that was refused.
    Replaced,
    Accepted,
}

#[test]
fn a_401_that_waits_for_a_grant_in_progress_does_not_say_what_is_requested_after_it() {
    let other = "https://mcp.example/other";
    for held in [Held::Nothing, Held::Fresh, Held::Replaced, Held::Accepted] {
        for at in 0..3 {
            let mut rig = Rig::new();
            match held {
                Held::Nothing => rig.refuse(&[("scope", "b")]).unwrap(),
                Held::Fresh | Held::Replaced | Held::Accepted => {
                    rig.obtain();
                    if matches!(held, Held::Replaced) {
                        rig.refuse(&[]).unwrap();
                        rig.run();
                        rig.consent();
                        rig.run();
                    }
                    if matches!(held, Held::Accepted) {
                        rig.accept();
                    }
                    rig.forbid("b").unwrap();
                }
            }
            rig.run();
            assert_eq!(rig.shown("scope"), "b");
            let token = tokens(&rig, Some(TokenId::from_u64(9999)))[at];
            rig.refuse_as(token, false, &[("scope", "x"), ("resource_metadata", other)]).unwrap();
            rig.auth.cancel(rig.now);
            rig.auth.authorize(rig.now);
            rig.pump();
            rig.run();
            assert_eq!(rig.shown("scope"), "b", "{held:?} {at}");
            assert!(!rig.log.contains(&format!("GET {other}")), "{:?}", rig.log);
        }
    }
}

#[test]
fn a_refused_former_token_causes_no_request_to_the_user_or_the_store() {
    for replaced in [false, true] {
        let mut rig = Rig::with(|options| options.stored = true);
        rig.obtain();
        if replaced {
            // The token that replaced a refused one is just issued.
            rig.refuse(&[]).unwrap();
            rig.run();
            rig.consent();
            rig.run();
        }
        rig.refuse_as(Some(TokenId::from_u64(9999)), false, &[]).unwrap();
        assert!(rig.waiting.is_empty() && rig.sent.is_empty() && rig.browse.is_none());
        rig.assert_authorized();
    }
}

/// The lock was not acquired in time, and the tokens are revoked without it.
#[test]
fn a_lock_that_is_acquired_while_tokens_are_revoked_requests_nothing() {
    let mut rig = Rig::with(|options| options.stored = true);
    rig.site.json(METADATA, metadata_with(json!({"revocation_endpoint": "https://as.example/revoke"})));
    rig.authorize();
    rig.auth.sign_out(rig.now);
    rig.pump();
    let Some(StoreAction::Acquire(id)) = rig.waiting.pop_front() else { panic!("{:?}", rig.waiting) };
    rig.wait(3600);
    assert!(rig.sent.iter().any(|sent| sent.url.ends_with("/revoke")), "{:?}", rig.log);
    rig.auth.handle_acquired(rig.now, id, true);
    rig.pump();
    assert!(rig.waiting.is_empty(), "{:?}", rig.waiting);
}

/// A client without a user whose policy allows no further scopes.
fn without_steps() -> Rig {
    Rig::with(|options| {
        options.stored = true;
        (options.flow, options.registered) = (Flow::ClientCredentials, vec![client_with("s-hush")]);
    })
}

#[test]
fn scopes_that_may_not_be_requested_are_an_error_whatever_is_in_progress() {
    let assert_denied = |rig: &mut Rig| {
        for token in tokens(rig, Some(TokenId::from_u64(9999))) {
            let error = rig.refuse_as(token, true, &[("error", "insufficient_scope"), ("scope", "b")]).unwrap_err();
            assert_eq!(error.stage, Stage::StepUp);
        }
    };
    // Without a token, before, while it is loaded, and while it is obtained.
    let mut rig = without_steps();
    assert_denied(&mut rig);
    rig.refuse(&[]).unwrap();
    assert!(!rig.waiting.is_empty());
    assert_denied(&mut rig);
    rig.run_to("/token");
    assert_denied(&mut rig);
    // While it is stored, when it is new, and when it was accepted.
    let page = rig.site.page(&rig.sent[0]);
    rig.answer_page(&page);
    assert_denied(&mut rig);
    rig.run();
    assert_denied(&mut rig);
    rig.accept();
    assert_denied(&mut rig);
    // While it is renewed.
    rig.refuse(&[]).unwrap();
    assert_denied(&mut rig);
    rig.run_to("/token");
    assert_denied(&mut rig);
    // While another one replaces a new one.
    let mut rig = without_steps();
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.auth.authorize(rig.now);
    rig.pump();
    assert_denied(&mut rig);
}

#[test]
fn scopes_that_may_be_requested_wait_for_what_is_in_progress() {
    // The record is loaded, and there is no token yet.
    let mut rig = Rig::with(|options| options.stored = true);
    rig.refuse(&[]).unwrap();
    rig.forbid("b").unwrap();
    assert_eq!(rig.waiting.len(), 1);
    rig.run();
    assert!(rig.browse.is_some());
    // It is loaded before the first request.
    let mut rig = Rig::with(|options| options.stored = true);
    rig.pump();
    rig.forbid("b").unwrap();
    assert_eq!(rig.waiting.len(), 1);
    // The first token is being stored.
    let mut rig = Rig::with(|options| options.stored = true);
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.consent();
    rig.run_to("/token");
    let page = rig.site.page(&rig.sent[0]);
    rig.answer_page(&page);
    rig.forbid("b").unwrap();
    assert_eq!(rig.waiting.len(), 1);
    // A grant is in progress, with each kind of token.
    for accepted in [false, true] {
        let mut rig = Rig::new();
        rig.obtain();
        if accepted {
            rig.accept();
        }
        rig.forbid("b").unwrap();
        assert!(rig.browse.is_some());
        for token in tokens(&rig, Some(TokenId::from_u64(9999))) {
            rig.refuse_as(token, true, &[("error", "insufficient_scope"), ("scope", "c")]).unwrap();
        }
        assert_eq!(rig.shown("scope"), "b");
    }
}

#[test]
fn a_lack_of_scopes_without_a_token_disturbs_no_sign_out() {
    for at in 0..4 {
        let mut rig = Rig::with(|options| options.stored = true);
        rig.site.json(METADATA, metadata_with(json!({"revocation_endpoint": "https://as.example/revoke"})));
        rig.site.put("https://as.example/revoke", 200, "");
        rig.refuse(&[]).unwrap();
        rig.run();
        rig.consent();
        let page = rig.site.page(&rig.sent[0]);
        rig.answer_page(&page);
        if at > 0 {
            rig.run();
        }
        // The record is being stored, the lock or the record is requested, or a token is revoked.
        let save = rig.waiting.pop_front();
        rig.auth.sign_out(rig.now);
        rig.pump();
        for _ in 1..at {
            let action = rig.waiting.pop_front().unwrap();
            rig.serve_store(&action);
        }
        rig.forbid("b").unwrap();
        if let Some(save) = save {
            rig.serve_store(&save);
        }
        rig.store.log.clear();
        rig.run();
        assert!(rig.store.log.ends_with(&["remove", "release", "load"]), "{at} {:?}", rig.store.log);
        assert!(rig.browse.is_some() && rig.store.record.is_none(), "{at}");
    }
}
