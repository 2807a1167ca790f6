use super::*;

/// A rig whose user is asked.
fn asked(params: &[(&str, &str)], change: impl FnOnce(&mut Rig)) -> Rig {
    let mut rig = Rig::registered();
    change(&mut rig);
    rig.refuse(params).unwrap();
    rig.run();
    assert!(rig.browse.is_some(), "{:?}", rig.events);
    rig
}

#[test]
fn the_url_has_what_the_specification_requires() {
    let rig = asked(&[], |rig| {
        let endpoint = json!({"authorization_endpoint": "https://as.example/authorize?tenant=1"});
        rig.site.json(METADATA, metadata_with(endpoint));
    });
    assert!(rig.browse.as_ref().unwrap().starts_with("https://as.example/authorize?tenant=1&response_type=code&"));
    for (name, value) in
        [("client_id", "app"), ("redirect_uri", REDIRECT), ("code_challenge_method", "S256"), ("resource", SERVER)]
    {
        assert_eq!(rig.shown(name), value);
    }
    assert_eq!(rig.shown("code_challenge").len(), 43);
    assert_eq!(rig.shown("state").len(), 43);
    assert_eq!(rig.shown_if("scope"), None);
}

#[test]
fn the_url_for_the_browser_has_nothing_that_a_shell_would_interpret() {
    let rig = asked(&[("scope", "a$(b) `c` ;d")], |rig| {
        let endpoint = "https://as.example/a'b(c)$d;e!f*g&h/authorize?x='$(calc)'&y=1;2";
        rig.site.json(METADATA, metadata_with(json!({"authorization_endpoint": endpoint})));
    });
    let shown = rig.browse.as_ref().unwrap();
    let expected =
        "https://as.example/a%27b%28c%29%24d%3Be%21f%2Ag%26h/authorize?x=%27%24%28calc%29%27&y=1%3B2&response_type=";
    assert!(shown.starts_with(expected), "{shown}");
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "-._~:/?=&%@+,".contains(c);
    assert!(shown.chars().all(is_safe), "{shown}");
    assert_eq!(rig.shown("scope"), "a$(b) `c` ;d");
    for host in ["as.$(calc).example", "as.'x'.example", "as;calc", "as!x", "as(x)", "as,x", "as=x", "as*x", "as%41"] {
        let mut rig = Rig::registered();
        let endpoint = json!({"authorization_endpoint": format!("https://{host}/authorize")});
        rig.site.json(METADATA, metadata_with(endpoint));
        rig.refuse(&[]).unwrap();
        rig.run();
        rig.assert_failed(Stage::ServerMetadata, "authorization_endpoint");
    }
    for host in ["AS-1_x.example:8443", "[2001:4860::1]:8443"] {
        asked(&[], |rig| {
            let endpoint = json!({"authorization_endpoint": format!("https://{host}/authorize")});
            rig.site.json(METADATA, metadata_with(endpoint));
        });
    }
}

#[test]
fn oauth_parameters_that_the_endpoint_already_has_are_refused() {
    for query in [
        "client_id=evil",
        "x=1&redirect_uri=https%3A%2F%2Fevil.example",
        "st%61te=x",
        "scope",
        "request_uri=https://evil.example",
        "request=e30.",
        "response_mode=form_post",
        "response_type=token",
        "code_challenge_method=plain",
        "code_challenge=x",
        "resource=https://evil.example",
    ] {
        let mut rig = Rig::registered();
        let endpoint = json!({"authorization_endpoint": format!("https://as.example/authorize?{query}")});
        rig.site.json(METADATA, metadata_with(endpoint));
        rig.refuse(&[]).unwrap();
        rig.run();
        rig.assert_failed(Stage::ServerMetadata, "already");
    }
    asked(&[], |rig| {
        let endpoint = json!({"authorization_endpoint": "https://as.example/authorize?prompt=consent&p=client_id"});
        rig.site.json(METADATA, metadata_with(endpoint));
    });
}

#[test]
fn the_url_for_the_browser_has_8_kib_at_most() {
    let mut rig = Rig::registered();
    let endpoint = json!({"authorization_endpoint": format!("https://as.example/authorize?x={}", "y".repeat(7900))});
    rig.site.json(METADATA, metadata_with(endpoint));
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.assert_failed(Stage::Authorization, "more than 8192 bytes");
}

#[test]
fn a_policy_requires_the_issuer_in_each_response() {
    for (iss, accepted) in [("&iss=https%3A%2F%2Fas.example", true), ("", false)] {
        for outcome in ["code=code-hush", "error=access_denied"] {
            let mut rig = Rig::with(|options| options.tolerance.require_iss = true);
            rig.refuse(&[]).unwrap();
            rig.run();
            let redirect = format!("{outcome}&state={}{iss}", rig.shown("state"));
            assert!(rig.redirect(&redirect));
            match (accepted, outcome) {
                (true, "code=code-hush") => assert_eq!(rig.sent[0].url, "https://as.example/token"),
                (true, _) => rig.assert_failed(Stage::Authorization, "access_denied"),
                (false, _) => rig.assert_failed(Stage::Authorization, "names no or another issuer"),
            }
        }
    }
}

#[test]
fn the_embedder_can_cancel_the_attempt_and_nothing_is_signed_out() {
    // Before the user is asked, and while.
    for until in ["a/mcp", "oauth-authorization-server", ""] {
        let mut rig = Rig::registered();
        rig.refuse(&[]).unwrap();
        if until.is_empty() {
            rig.run();
        } else {
            rig.run_to(until);
        }
        rig.auth.cancel(rig.now);
        rig.pump();
        rig.assert_failed(Stage::Authorization, "the sign-in was cancelled");
        // The next one is a new one.
        rig.wait(10);
        rig.obtain();
    }
    // A token that is used meanwhile stays.
    let mut rig = Rig::with(|options| options.stored = true);
    rig.authorize();
    rig.forbid("more").unwrap();
    rig.auth.cancel(rig.now);
    rig.pump();
    rig.assert_failed(Stage::StepUp, "the sign-in was cancelled");
    assert!(rig.bearer().is_some() && rig.store.record.is_some());
    // A code that was issued is exchanged, and a refresh is not interrupted.
    let mut rig = Rig::registered();
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.consent();
    rig.auth.cancel(rig.now);
    rig.run();
    rig.assert_authorized();
    rig.accept();
    rig.refuse(&[]).unwrap();
    rig.auth.cancel(rig.now);
    rig.run();
    rig.assert_authorized();
}

#[test]
fn two_attempts_share_no_state_and_no_verifier() {
    let mut rig = asked(&[], |_| {});
    let first = (rig.shown("state"), rig.shown("code_challenge"));
    rig.auth.sign_out(rig.now);
    rig.refuse(&[]).unwrap();
    rig.run();
    assert_ne!(first.0, rig.shown("state"));
    assert_ne!(first.1, rig.shown("code_challenge"));
}

#[test]
fn a_redirect_of_an_earlier_attempt_is_discarded() {
    let mut rig = asked(&[], |_| {});
    let earlier = rig.shown("state");
    rig.auth.sign_out(rig.now);
    rig.refuse(&[]).unwrap();
    rig.run();
    let log = rig.log.len();
    for outcome in ["code=x", "error=access_denied"] {
        assert!(!rig.redirect(&format!("{outcome}&state={earlier}")));
    }
    assert!(rig.browse.is_some() && rig.sent.is_empty());
    // The request that was refused first is told that the user signed out.
    assert!(matches!(&*rig.events, [OAuthEvent::Failed(_)]), "{:?}", rig.events);
    assert_eq!(rig.log.len(), log);
    rig.consent();
    rig.run();
    rig.assert_authorized();
}

#[test]
fn the_resource_is_the_url_as_it_was_given() {
    for url in
        ["https://mcp.example", "https://mcp.example/", "https://MCP.example/a/../b", "https://mcp.example/?k=%7e"]
    {
        let mut rig = Rig::at(url, |options| options.registered.push(RegisteredClient::new("app")));
        rig.site = Site::default();
        rig.refuse(&[]).unwrap();
        rig.run();
        assert_eq!(rig.shown("resource"), url);
    }
    // It has no fragment, whoever names it.
    let mut rig = Rig::at(&format!("{SERVER}#a"), |_| {});
    rig.refuse(&[]).unwrap();
    rig.run();
    assert_eq!(rig.shown("resource"), SERVER);
    let mut rig = Rig::new();
    let named = json!({"resource": "https://mcp.example/a#b", "authorization_servers": [ISSUER]});
    rig.site.json(RESOURCE, named);
    rig.refuse(&[]).unwrap();
    rig.run();
    assert_eq!(rig.shown("resource"), "https://mcp.example/a");
    let mut rig = Rig::with(|options| options.tolerance.omit_resource = true);
    rig.refuse(&[]).unwrap();
    rig.run();
    assert_eq!(rig.shown_if("resource"), None);
    rig.consent();
    assert_eq!(rig.sent[0].form("resource"), None);
}

#[test]
fn the_scope_is_that_of_the_challenge_else_that_of_the_metadata_else_none() {
    let prm = json!({"authorization_servers": [ISSUER], "scopes_supported": ["p", "q"]});
    let rig = asked(&[("scope", "c d")], |rig| rig.site.json(RESOURCE, prm.clone()));
    assert_eq!(rig.shown("scope"), "c d");
    let rig = asked(&[], |rig| rig.site.json(RESOURCE, prm.clone()));
    assert_eq!(rig.shown("scope"), "p q");
    let mut rig = Rig::with(|options| options.scopes = Some("own".into()));
    rig.refuse(&[("scope", "c d")]).unwrap();
    rig.run();
    assert_eq!(rig.shown("scope"), "own");
}

#[test]
fn offline_access_is_added_where_the_server_has_it_and_refresh_tokens_are_wanted() {
    for (wanted, supported, expected) in [
        (true, json!(["offline_access"]), "c offline_access"),
        (true, json!(["x"]), "c"),
        (false, json!(["offline_access"]), "c"),
    ] {
        let mut rig = Rig::with(|options| options.offline_access = wanted);
        rig.site.json(METADATA, metadata_with(json!({"scopes_supported": supported})));
        rig.refuse(&[("scope", "c")]).unwrap();
        rig.run();
        assert_eq!(rig.shown("scope"), expected);
    }
}

#[test]
fn the_redirect_comes_as_a_url_a_path_or_a_query() {
    for prefix in ["http://127.0.0.1:7777/callback?", "/callback?", "?", "", "  http://[::1]/x?"] {
        let mut rig = asked(&[], |_| {});
        let state = rig.shown("state");
        assert!(rig.redirect(&format!("{prefix}code=code-hush&state={state}#_=_\n")), "{prefix}");
        assert_eq!(rig.sent[0].form("code").unwrap(), "code-hush");
        assert!(rig.browse.is_none());
        rig.run();
        rig.assert_authorized();
    }
}

#[test]
fn a_redirect_without_the_state_is_discarded_and_nothing_is_sent() {
    let mut rig = asked(&[], |_| {});
    let state = rig.shown("state");
    for redirect in [
        "code=x".to_owned(),
        "code=x&state=".to_owned(),
        "code=x&state=other".to_owned(),
        format!("code=x&state={state}x"),
        format!("code=x&state={state}&state={state}"),
        format!("code=x&state={state}&state=other"),
        format!("error=access_denied&state={}", &state[1..]),
        String::new(),
        "%".to_owned(),
    ] {
        assert!(!rig.redirect(&redirect), "{redirect}");
        assert!(rig.sent.is_empty() && rig.browse.is_some() && rig.events.is_empty());
    }
    rig.consent();
    assert!(!rig.redirect(&format!("code=x&state={state}")), "it was seen before");
    assert_eq!(rig.sent.len(), 1);
}

#[test]
fn the_issuer_of_the_response_has_to_be_the_one_that_was_asked() {
    for (advertised, iss, accepted) in [
        (true, Some("https%3A%2F%2Fas.example"), true),
        (true, None, false),
        (true, Some("https%3A%2F%2Fevil.example"), false),
        (false, Some("https%3A%2F%2Fas.example"), true),
        (false, Some("https%3A%2F%2Fas.example%2F"), false),
        (false, Some("https%3A%2F%2FAS.example"), false),
        (false, None, true),
    ] {
        for outcome in ["code=code-hush", "error=access_denied&error_description=hush"] {
            let mut rig = asked(&[], |rig| {
                let member = json!({"authorization_response_iss_parameter_supported": advertised});
                rig.site.json(METADATA, metadata_with(member));
            });
            let iss = iss.map(|iss| format!("&iss={iss}")).unwrap_or_default();
            let redirect = format!("{outcome}&state={}{iss}", rig.shown("state")).replace("=hush", "=no%20way");
            let redirect = redirect.replace("code=no%20way", "code=code-hush");
            assert!(rig.redirect(&redirect));
            match (accepted, outcome.starts_with("code")) {
                (true, true) => assert_eq!(rig.sent[0].url, "https://as.example/token"),
                (true, false) => rig.assert_failed(Stage::Authorization, "no way"),
                (false, _) => {
                    rig.assert_failed(Stage::Authorization, "another issuer");
                    let why = rig.failure().to_string();
                    assert!(!why.contains("no way") && !why.contains("access_denied"), "{why}");
                }
            }
        }
    }
}

#[test]
fn a_denial_ends_the_attempt_in_the_words_of_the_server() {
    let mut rig = asked(&[], |_| {});
    let redirect = format!("error=access_denied&error_description=not+you&state={}", rig.shown("state"));
    assert!(rig.redirect(&redirect));
    rig.assert_failed(Stage::Authorization, "`access_denied`: not you");
    let mut rig = asked(&[], |_| {});
    let redirect = format!("state={}", rig.shown("state"));
    assert!(rig.redirect(&redirect));
    rig.assert_failed(Stage::Authorization, "no code");
}

#[test]
fn the_user_who_never_comes_back_ends_the_attempt() {
    let mut rig = asked(&[], |_| {});
    assert_eq!(rig.auth.deadline(), Some(rig.now + Duration::from_secs(600)));
    rig.wait(599);
    assert!(rig.browse.is_some());
    rig.wait(1);
    rig.assert_failed(Stage::Authorization, "600 s");
}

#[test]
fn a_user_who_may_not_be_asked_is_told_where_the_server_offers_oauth() {
    for registered in [true, false] {
        let mut rig = Rig::with(|options| {
            options.may_ask_user = false;
            options.registered.extend(registered.then(|| RegisteredClient::new("app")));
        });
        rig.refuse(&[]).unwrap();
        rig.run();
        rig.assert_failed(Stage::Authorization, "offers OAuth at `https://as.example`");
        assert!(!rig.log.iter().any(|line| line.starts_with("POST")), "nothing is registered");
    }
}
