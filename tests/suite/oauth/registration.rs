use mcp_proto::binding::oauth::{ClientAuth, Flow, IdentityProvider, OAuthConfigError, RegistrationKind};

use super::*;

const DOCUMENT: &str = "https://app.example/client.json";

/// How the client was registered that got a token.
fn kind(rig: &mut Rig) -> RegistrationKind {
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.consent();
    rig.run();
    match rig.events.last() {
        Some(OAuthEvent::Authorized(grant)) => grant.registration,
        other => panic!("{other:?} {:?}", rig.log),
    }
}

#[test]
fn a_registered_client_comes_before_a_document_and_a_document_before_dynamic_registration() {
    let offered = metadata_with(json!({"client_id_metadata_document_supported": true}));
    let mut rig = Rig::with(|options| {
        options.registered.push(RegisteredClient::new("app"));
        options.client_metadata_url = Some(DOCUMENT.into());
    });
    rig.site.json(METADATA, offered.clone());
    assert_eq!(kind(&mut rig), RegistrationKind::PreRegistered);
    let mut rig = Rig::with(|options| options.client_metadata_url = Some(DOCUMENT.into()));
    rig.site.json(METADATA, offered);
    assert_eq!(kind(&mut rig), RegistrationKind::MetadataDocument);
    let mut rig = Rig::with(|options| options.client_metadata_url = Some(DOCUMENT.into()));
    assert_eq!(kind(&mut rig), RegistrationKind::Dynamic);
}

#[test]
fn without_a_way_to_register_the_error_says_what_to_configure() {
    let mut rig = Rig::new();
    rig.site.json(METADATA, metadata_with(json!({"registration_endpoint": null})));
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.assert_failed(Stage::Registration, "configure a client ID");
}

#[test]
fn a_client_of_another_authorization_server_is_an_error_that_names_both() {
    let mut rig = Rig::with(|options| {
        let mut client = RegisteredClient::new("app");
        client.issuer = Some("https://old.example".into());
        options.registered.push(client);
    });
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.assert_failed(Stage::Registration, "https://old.example");
    rig.assert_failed(Stage::Registration, ISSUER);
}

/// A rig with a store, and with these clients, whose authorization servers are not configured.
fn stored_with(clients: &[&str]) -> Rig {
    Rig::with(|options| {
        options.stored = true;
        options.registered.extend(clients.iter().copied().map(RegisteredClient::new));
    })
}

/// In a fresh process, only the record says where a client without an issuer was used.
#[test]
fn a_client_without_an_issuer_stays_at_its_authorization_server_and_another_one_may_be_used_elsewhere() {
    // One that was registered dynamically was used as another client.
    for (before, clients, used) in [(&["one", "two"][..], &["one", "two"][..], "two"), (&[], &["dyn"], "dyn")] {
        let mut before = stored_with(before);
        before.authorize();
        let mut rig = stored_with(clients);
        rig.store = before.store;
        let (issuer, metadata) = ("https://as2.example", "https://as2.example/.well-known/oauth-authorization-server");
        rig.site.json(RESOURCE, json!({"resource": SERVER, "authorization_servers": [issuer]}));
        let endpoints = json!({
            "issuer": issuer,
            "authorization_endpoint": "https://as2.example/authorize",
            "token_endpoint": "https://as2.example/token",
            "registration_endpoint": null,
        });
        rig.site.json(metadata, metadata_with(endpoints));
        rig.refuse(&[]).unwrap();
        rig.run();
        assert_eq!(rig.bearer().unwrap(), "at1-hush");
        rig.refuse(&[]).unwrap();
        rig.run();
        assert!(rig.browse.as_ref().is_some_and(|url| url.starts_with("https://as2.example/")), "{:?}", rig.events);
        assert_eq!(rig.shown("client_id"), used);
    }
}

#[test]
fn the_registration_says_what_the_client_is() {
    for (redirect, kind) in [
        (REDIRECT, "native"),
        ("http://localhost/x", "native"),
        ("com.example.app:/x", "native"),
        ("https://app.example/x", "web"),
    ] {
        let mut rig = Rig::with(|options| options.redirect_uri = redirect.into());
        rig.refuse(&[]).unwrap();
        rig.run_to("/register");
        let body: Value = serde_json::from_str(&rig.sent[0].body).unwrap();
        let expected = json!({
            "application_type": kind,
            "client_name": "suite",
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "redirect_uris": [redirect],
            "token_endpoint_auth_method": "none",
        });
        assert_eq!(body, expected);
        assert_eq!(rig.sent[0].headers["content-type"], "application/json");
    }
}

#[test]
fn the_method_of_authentication_is_one_that_the_server_supports() {
    for (methods, named, expected) in [
        (Value::Null, None, "client_secret_basic"),
        (json!(["client_secret_post", "none"]), None, "none"),
        (json!(["client_secret_basic", "client_secret_post"]), None, "client_secret_post"),
        (json!(["client_secret_basic"]), None, "client_secret_basic"),
        (json!(["private_key_jwt", "client_secret_post"]), None, "client_secret_post"),
        (json!(["private_key_jwt"]), None, "client_secret_basic"),
        (json!(["client_secret_post", "none"]), Some(ClientAuth::Basic), "client_secret_basic"),
    ] {
        let mut rig = Rig::with(|options| options.registration_auth = named);
        rig.site.json(METADATA, metadata_with(json!({"token_endpoint_auth_methods_supported": methods})));
        rig.refuse(&[]).unwrap();
        rig.run_to("/register");
        let body: Value = serde_json::from_str(&rig.sent[0].body).unwrap();
        assert_eq!(body["token_endpoint_auth_method"], expected);
    }
}

#[test]
fn what_the_registration_answers_counts() {
    let mut rig = Rig::new();
    let answer = json!({
        "client_id": "c",
        "client_secret": "s-hush",
        "token_endpoint_auth_method": "client_secret_post",
        "redirect_uris": ["http://127.0.0.1:7777/other"],
        "scope": "a b",
        "client_secret_expires_at": 0,
    });
    rig.site.put("https://as.example/register", 200, &answer.to_string());
    rig.refuse(&[("scope", "b c")]).unwrap();
    rig.run();
    assert_eq!(rig.shown("redirect_uri"), "http://127.0.0.1:7777/other");
    assert_eq!(rig.shown("scope"), "b");
    rig.consent();
    let sent = &rig.sent[0];
    assert_eq!(sent.form("client_secret").unwrap(), "s-hush");
    assert_eq!(sent.form("client_id").unwrap(), "c");
    assert_eq!(sent.form("redirect_uri").unwrap(), "http://127.0.0.1:7777/other");
}

#[test]
fn a_narrower_scope_that_leaves_nothing_is_not_applied() {
    let mut rig = Rig::new();
    rig.site.put("https://as.example/register", 200, r#"{"client_id":"c","scope":"x"}"#);
    rig.refuse(&[("scope", "b c")]).unwrap();
    rig.run();
    assert_eq!(rig.shown("scope"), "b c");
}

#[test]
fn a_refused_registration_is_told_in_the_words_of_the_server() {
    for (status, body, words) in [
        (400, r#"{"error":"invalid_redirect_uri","error_description":"no loopback"}"#, "no loopback"),
        (500, "<html>", "HTTP 500"),
        (200, "{}", "client_id"),
        (200, r#"{"client_id":""}"#, "client_id"),
        (201, r#"{"client_id":"c","token_endpoint_auth_method":"tls_client_auth"}"#, "tls_client_auth"),
        (201, r#"{"client_id":"c","redirect_uris":["http://evil.example/"]}"#, "redirect URI"),
        (201, r#"{"client_id":"c","redirect_uris":["https://evil.example/"]}"#, "leads elsewhere"),
        (201, r#"{"client_id":"c","redirect_uris":["evil:/x"]}"#, "leads elsewhere"),
        (201, &format!(r#"{{"client_id":"{}"}}"#, "c".repeat(5000)), "more than 4096 bytes"),
        (201, &format!(r#"{{"client_id":"c","client_secret":"{}"}}"#, "s".repeat(5000)), "more than 4096 bytes"),
    ] {
        let mut rig = Rig::new();
        rig.site.put("https://as.example/register", status, body);
        rig.refuse(&[]).unwrap();
        rig.run();
        rig.assert_failed(Stage::Registration, words);
    }
    let mut rig = Rig::new();
    rig.refuse(&[]).unwrap();
    rig.run_to("/register");
    rig.break_off();
    rig.assert_failed(Stage::Registration, "broke");
}

#[test]
fn the_redirect_that_a_registration_answers_is_received_where_the_one_that_was_asked_for_is() {
    for (asked, answered, is_same) in [
        (REDIRECT, "http://localhost:9/x", true),
        ("https://app.example/x", "https://app.example/y", true),
        ("https://app.example/x", "https://app.example:8443/x", false),
        ("https://app.example/x", "http://127.0.0.1/x", false),
        ("com.example:/x", "com.example:/y", true),
        ("com.example:/x", "org.example:/x", false),
    ] {
        let mut rig = Rig::with(|options| options.redirect_uri = asked.into());
        let answer = json!({"client_id": "c", "redirect_uris": [answered]});
        rig.site.put("https://as.example/register", 201, &answer.to_string());
        rig.refuse(&[]).unwrap();
        rig.run();
        assert_eq!(rig.browse.is_some(), is_same, "{asked} {answered}");
    }
    // The one that was asked for may be any of those in the answer.
    let mut rig = Rig::new();
    let answer = json!({"client_id": "c", "redirect_uris": ["https://app.example/x", REDIRECT]});
    rig.site.put("https://as.example/register", 201, &answer.to_string());
    rig.refuse(&[]).unwrap();
    rig.run();
    assert_eq!(rig.shown("redirect_uri"), REDIRECT);
}

#[test]
fn a_forgotten_client_is_registered_once_more() {
    let mut rig = Rig::new();
    let gone = || (401, r#"{"error":"invalid_client"}"#.to_owned());
    rig.site.tokens.push_back(gone());
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.consent();
    rig.run();
    assert_eq!(rig.log.iter().filter(|line| line.contains("/register")).count(), 2);
    rig.consent();
    rig.site.tokens.push_back(gone());
    rig.run();
    rig.assert_failed(Stage::Registration, "invalid_client");
}

#[test]
fn a_configured_client_that_is_not_known_is_an_error() {
    let mut rig = Rig::registered();
    rig.site.tokens.push_back((401, r#"{"error":"invalid_client","error_description":"gone"}"#.into()));
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.consent();
    rig.run();
    rig.assert_failed(Stage::Registration, "gone");
}

#[test]
fn options_that_cannot_be_used_are_errors() {
    let new = |server: &str, change: fn(&mut OAuthOptions)| {
        let mut options = OAuthOptions::new("suite", REDIRECT);
        change(&mut options);
        Authorization::new(server, options, [1; 32], Time::ZERO, Duration::ZERO).map(drop)
    };
    for url in ["http://app.example/c.json", "https://app.example", "https://app.example/", "c.json"] {
        let mut options = OAuthOptions::new("suite", REDIRECT);
        options.client_metadata_url = Some(url.into());
        let made = Authorization::new(SERVER, options, [1; 32], Time::ZERO, Duration::ZERO);
        assert_eq!(made.err(), Some(OAuthConfigError::ClientMetadataUrl), "{url}");
    }
    assert_eq!(new("mcp.example", |_| {}), Err(OAuthConfigError::ServerUrl));
    assert_eq!(new("https://u:p@", |_| {}), Err(OAuthConfigError::ServerUrl));
    for set in [
        (|options| options.redirect_uri = "".into()) as fn(&mut OAuthOptions),
        |options| options.redirect_uri = "http://app.example/".into(),
        |options| options.redirect_uri = "javascript:x".into(),
    ] {
        assert_eq!(new(SERVER, set), Err(OAuthConfigError::RedirectUri));
    }
    assert_eq!(
        new(SERVER, |options| {
            (options.flow, options.redirect_uri) = (Flow::ClientCredentials, "".into());
            options.registered.push(client());
        }),
        Ok(())
    );
    let made = Authorization::new(SERVER, OAuthOptions::new("suite", REDIRECT), [0; 32], Time::ZERO, Duration::ZERO);
    assert_eq!(made.err(), Some(OAuthConfigError::Entropy));
    let key = |algorithm: &str| ClientAuth::PrivateKeyJwt { algorithm: algorithm.into(), key_id: None };
    for change in [
        (|client| client.id = "".into()) as fn(&mut RegisteredClient),
        |client| client.secret = Some(Secret::new("")),
        |client| client.auth = Some(ClientAuth::Basic),
        |client| client.auth = Some(ClientAuth::Post),
        |client| client.auth = Some(ClientAuth::PrivateKeyJwt { algorithm: "none".into(), key_id: None }),
        |client| client.auth = Some(ClientAuth::PrivateKeyJwt { algorithm: "".into(), key_id: None }),
    ] {
        let mut client = client();
        change(&mut client);
        assert_eq!(
            wrong(|options| options.registered.push(client.clone())),
            Some(OAuthConfigError::Client),
            "{client:?}"
        );
    }
    for flow in [
        Flow::JwtBearer(Secret::new("")),
        Flow::Enterprise(IdentityProvider::new("https://idp.example/token", "", Secret::new("t"))),
        Flow::Enterprise(IdentityProvider::new("https://idp.example/token", "a", Secret::new(""))),
    ] {
        let error = wrong(|options| (options.flow, options.registered) = (flow.clone(), vec![client()]));
        assert_eq!(error, Some(OAuthConfigError::Client), "{flow:?}");
    }
    for issuer in
        ["", "as.example", "http://as.example", "https://as.example?x=1", "javascript:x", "https://u@as.example"]
    {
        let mut client = client();
        client.issuer = Some(issuer.into());
        assert_eq!(wrong(|options| options.registered.push(client)), Some(OAuthConfigError::IssuerUrl), "{issuer}");
        let error = wrong(|options| options.tolerance.issuer = Some(issuer.into()));
        assert_eq!(error, Some(OAuthConfigError::IssuerUrl), "{issuer}");
    }
    let error = wrong(|options| options.registration_auth = Some(key("ES256")));
    assert_eq!(error, Some(OAuthConfigError::RegistrationAuth));
    let mut elsewhere = client();
    elsewhere.redirect_uri = Some("http://app.example/".into());
    assert_eq!(wrong(|options| options.registered.push(elsewhere)), Some(OAuthConfigError::RedirectUri));
}

/// What is wrong with options.
fn wrong(change: impl FnOnce(&mut OAuthOptions)) -> Option<OAuthConfigError> {
    let mut options = OAuthOptions::new("suite", REDIRECT);
    change(&mut options);
    Authorization::new(SERVER, options, [1; 32], Time::ZERO, Duration::ZERO).err()
}

/// Clients with a secret, a key or an assertion.
fn confidential() -> Vec<(RegisteredClient, Flow)> {
    let mut key = client();
    key.auth = Some(ClientAuth::PrivateKeyJwt { algorithm: "ES256".into(), key_id: None });
    let provider = IdentityProvider::new("https://idp.example/token", "app", Secret::new("id-hush"));
    vec![
        (client_with("s-hush"), Flow::User),
        (key.clone(), Flow::User),
        (key, Flow::ClientCredentials),
        (client_with("s-hush"), Flow::ClientCredentials),
        (client(), Flow::JwtBearer(Secret::new("jwt-hush"))),
        (client(), Flow::Enterprise(provider)),
    ]
}

#[test]
fn a_client_with_a_secret_a_key_or_an_assertion_names_its_issuer_or_is_refused() {
    for (client, flow) in confidential() {
        let mut unnamed = client.clone();
        unnamed.issuer = None;
        let by = |client: &RegisteredClient, issuer: Option<&str>| {
            wrong(|options| {
                (options.flow, options.registered) = (flow.clone(), vec![client.clone()]);
                options.tolerance.issuer = issuer.map(Into::into);
            })
        };
        assert_eq!(by(&unnamed, None), Some(OAuthConfigError::Issuer), "{unnamed:?} {flow:?}");
        assert_eq!(by(&unnamed, Some(ISSUER)), None);
        assert_eq!(by(&client, None), None);
        if flow != Flow::User {
            assert_eq!(wrong(|options| options.flow = flow.clone()), Some(OAuthConfigError::Issuer));
        }
    }
    // One assertion belongs to one authorization server.
    let mut other = client();
    other.issuer = Some("https://as2.example".into());
    let error = wrong(|options| {
        (options.flow, options.registered) = (Flow::JwtBearer(Secret::new("jwt-hush")), vec![client(), other]);
    });
    assert_eq!(error, Some(OAuthConfigError::Issuer));
    assert_eq!(wrong(|options| options.registered.push(RegisteredClient::new("public"))), None);
}

/// What was sent to where a secret may go.
fn token_requests(rig: &Rig) -> usize {
    rig.log.iter().filter(|line| line.starts_with("POST")).count()
}

#[test]
fn a_client_with_a_secret_goes_to_no_other_issuer_on_no_first_contact_and_in_no_outage() {
    let of_origin = "https://mcp.example/.well-known/oauth-authorization-server";
    for (client, flow) in confidential() {
        for case in ["other", "impostor", "assumed", "assumed itself", "outage"] {
            let mut rig = Rig::with(|options| {
                let mut client = client.clone();
                if case == "assumed itself" {
                    client.issuer = Some("https://mcp.example".into());
                }
                (options.flow, options.registered) = (flow.clone(), vec![client]);
            });
            let evil = "https://evil.example";
            let of_evil = format!("{evil}/.well-known/oauth-authorization-server");
            let endpoints = json!({
                "issuer": if case == "impostor" { ISSUER } else { evil },
                "token_endpoint": "https://evil.example/token",
                "authorization_endpoint": "https://evil.example/authorize",
            });
            rig.site.json(&of_evil, metadata_with(endpoints));
            match case {
                "other" | "impostor" => {
                    rig.site.json(RESOURCE, json!({"resource": SERVER, "authorization_servers": [evil]}));
                }
                "assumed" => {
                    rig.site.remove(RESOURCE);
                    let own = json!({"issuer": "https://mcp.example", "token_endpoint": "https://mcp.example/token"});
                    rig.site.json(of_origin, metadata_with(own));
                }
                "assumed itself" => rig.site.remove(RESOURCE),
                _ => rig.site.put(RESOURCE, 503, ""),
            }
            rig.refuse(&[]).unwrap();
            while rig.events.is_empty() {
                rig.run();
                rig.wait(10);
            }
            assert!(matches!(rig.events[..], [OAuthEvent::Failed(_)]), "{case} {:?}", rig.events);
            assert_eq!((token_requests(&rig), &rig.browse), (0, &None), "{case} {:?}", rig.log);
            if case == "other" {
                rig.assert_failed(Stage::Registration, evil);
                rig.assert_failed(Stage::Registration, ISSUER);
            }
        }
    }
}

#[test]
fn a_configured_issuer_that_the_server_does_not_name_is_an_error_that_names_what_it_offers() {
    let mut rig = Rig::with(|options| {
        options.tolerance.issuer = Some("https://mine.example".into());
        options.registered.push(RegisteredClient::new("app"));
    });
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.assert_failed(Stage::ResourceMetadata, "it names the authorization servers `https://as.example`");
    rig.assert_failed(Stage::ResourceMetadata, "`https://mine.example` is configured");
}

#[test]
fn a_server_over_http_is_refused_unless_it_is_loopback_or_on_a_private_network() {
    let new = |url: &str, private: bool| {
        let mut options = OAuthOptions::new("suite", REDIRECT);
        options.private_network = private;
        Authorization::new(url, options, [1; 32], Time::ZERO, Duration::ZERO).err()
    };
    for url in ["http://mcp.example/mcp", "http://10.0.0.1/mcp", "http://127.0.0.1.example/", "http://8.8.8.8/"] {
        assert_eq!(new(url, false), Some(OAuthConfigError::PlainHttp), "{url}");
        assert_eq!(new(url, true), None, "{url}");
    }
    for url in ["http://127.0.0.1:9/mcp", "http://localhost/", "http://[::1]/mcp", "https://10.0.0.1/mcp"] {
        assert_eq!(new(url, false), None, "{url}");
    }
}

#[test]
fn a_redirect_that_was_registered_in_advance_may_leave_the_port_open() {
    let mut rig = Rig::with(|options| {
        let mut client = RegisteredClient::new("app");
        client.redirect_uri = Some("http://localhost:{port}/cb".into());
        options.registered.push(client);
    });
    rig.refuse(&[]).unwrap();
    rig.run();
    assert_eq!(rig.shown("redirect_uri"), "http://localhost:7777/cb");
}

#[test]
fn a_client_without_a_user_is_not_registered_dynamically() {
    let mut rig = Rig::with(|options| {
        (options.flow, options.tolerance.issuer) = (Flow::ClientCredentials, Some(ISSUER.into()));
    });
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.assert_failed(Stage::Registration, "configure a client ID");
}

#[test]
fn a_client_with_a_secret_authenticates_as_the_server_supports_it() {
    for (methods, header) in [(json!(["client_secret_post"]), false), (Value::Null, true)] {
        let mut rig = Rig::with(|options| {
            options.flow = Flow::ClientCredentials;
            let mut client = client_with("s:%hush");
            client.id = "a pp".into();
            options.registered.push(client);
        });
        rig.site.json(METADATA, metadata_with(json!({"token_endpoint_auth_methods_supported": methods})));
        rig.refuse(&[("scope", "x")]).unwrap();
        rig.run_to("/token");
        let sent = &rig.sent[0];
        assert_eq!(sent.form("grant_type").unwrap(), "client_credentials");
        assert_eq!(sent.form("resource").unwrap(), SERVER);
        assert_eq!(sent.form("scope").unwrap(), "x");
        // Both parts are encoded as in a form first: `a%20pp:s%3A%25hush`.
        let basic = sent.headers.get("authorization").map(|value| value.to_str().unwrap());
        assert_eq!(basic, header.then_some("Basic YSUyMHBwOnMlM0ElMjVodXNo"));
        assert_eq!(sent.form("client_secret").as_deref(), (!header).then_some("s:%hush"));
        rig.run();
        rig.assert_authorized();
    }
}

#[test]
fn a_client_signs_its_assertion() {
    let auth = ClientAuth::PrivateKeyJwt { algorithm: "ES256".into(), key_id: Some("k1".into()) };
    for flow in [Flow::ClientCredentials, Flow::User] {
        let mut rig = Rig::with(|options| {
            let mut client = client();
            client.auth = Some(auth.clone());
            (options.flow, options.registered) = (flow.clone(), vec![client]);
        });
        rig.refuse(&[]).unwrap();
        rig.run();
        if flow == Flow::User {
            rig.consent();
        }
        let request = rig.signs.pop_front().unwrap();
        assert_eq!(&*request.algorithm, "ES256");
        rig.auth.handle_signature(rig.now, request.id, b"signature");
        rig.auth.handle_signature(rig.now, request.id, b"again");
        rig.pump();
        let sent = &rig.sent[0];
        assert_eq!(sent.form("client_assertion").unwrap(), format!("{}.c2lnbmF0dXJl", request.input));
        assert!(sent.form("client_assertion_type").unwrap().ends_with("jwt-bearer"));
        rig.run();
        rig.assert_authorized();
        // A refresh is signed again.
        if flow == Flow::User {
            rig.wait(3580);
            assert_ne!(rig.signs.pop_front().unwrap().input, request.input);
        }
    }
}

/// A client that authenticates by an assertion, at the point where the assertion is to be signed.
fn assertion_wanted() -> (Rig, SignRequest) {
    let mut rig = Rig::with(|options| {
        let mut client = client();
        client.auth = Some(ClientAuth::PrivateKeyJwt { algorithm: "ES256".into(), key_id: None });
        (options.flow, options.registered) = (Flow::ClientCredentials, vec![client]);
    });
    rig.refuse(&[]).unwrap();
    rig.run();
    let request = rig.signs.pop_front().unwrap();
    (rig, request)
}

#[test]
fn an_assertion_of_the_client_that_is_repeated_is_not_shown() {
    let (mut rig, request) = assertion_wanted();
    rig.auth.handle_signature(rig.now, request.id, b"signature");
    rig.pump();
    let assertion = rig.sent[0].form("client_assertion").unwrap();
    rig.answer(400, &json!({"error": "invalid_request", "error_description": format!("bad {assertion}")}).to_string());
    rig.assert_failed(Stage::Token, "bad [hidden]");
    assert!(!rig.failure().reason.contains(&assertion[..20]));
}

#[test]
fn an_assertion_that_is_not_signed_ends_the_attempt() {
    for signs in [true, false] {
        let (mut rig, request) = assertion_wanted();
        if signs {
            rig.auth.handle_signature(rig.now, request.id, b"");
            rig.pump();
        } else {
            rig.wait(60);
        }
        rig.assert_failed(Stage::Token, "signed");
    }
}

#[test]
fn an_assertion_of_the_embedder_is_exchanged_by_whatever_client_there_is() {
    for is_registered in [true, false] {
        let mut rig = Rig::with(|options| {
            options.flow = Flow::JwtBearer(Secret::new("jwt-hush"));
            if is_registered {
                options.registered.push(client());
            } else {
                // An assertion is for one authorization server.
                options.tolerance.issuer = Some(ISSUER.into());
                options.client_metadata_url = Some(DOCUMENT.into());
            }
        });
        rig.site.json(METADATA, metadata_with(json!({"client_id_metadata_document_supported": true})));
        rig.refuse(&[]).unwrap();
        rig.run_to("/token");
        let sent = &rig.sent[0];
        assert_eq!(sent.form("grant_type").unwrap(), "urn:ietf:params:oauth:grant-type:jwt-bearer");
        assert_eq!(sent.form("assertion").unwrap(), "jwt-hush");
        assert_eq!(sent.form("client_id").unwrap() == DOCUMENT, !is_registered);
        rig.run();
        rig.assert_authorized();
    }
}

#[test]
fn a_secret_whose_method_a_registration_does_not_say_is_used_as_it_was_asked_for() {
    for (method, in_body) in [("client_secret_post", true), ("client_secret_basic", false)] {
        let mut rig = Rig::new();
        rig.site.json(METADATA, metadata_with(json!({"token_endpoint_auth_methods_supported": [method]})));
        rig.site.put("https://as.example/register", 201, r#"{"client_id":"dyn","client_secret":"s-hush"}"#);
        rig.refuse(&[]).unwrap();
        rig.run();
        rig.consent();
        let sent = &rig.sent[0];
        assert_eq!(sent.form("client_secret").is_some(), in_body, "{method}");
        assert_eq!(sent.headers.contains_key("authorization"), !in_body, "{method}");
    }
}

/// Scopes of blanks are none: nothing would be left of those that are requested.
#[test]
fn blank_scopes_of_a_registration_or_a_challenge_count_as_none() {
    let mut rig = Rig::new();
    rig.site.put("https://as.example/register", 201, r#"{"client_id":"dyn","scope":"  "}"#);
    rig.refuse(&[("scope", "a b")]).unwrap();
    rig.run();
    assert_eq!(rig.shown("scope"), "a b");
    // A scope has characters of ASCII only (RFC 6749, section 3.3).
    for scope in [" ", "a\u{e9}", "a\tb"] {
        let mut rig = Rig::new();
        rig.refuse(&[("scope", scope)]).unwrap();
        rig.run();
        assert_eq!(rig.shown_if("scope"), None, "{scope:?}");
    }
}

#[test]
fn a_client_that_was_registered_for_http_basic_and_got_no_secret_is_named_in_the_form() {
    let mut rig = Rig::new();
    let registered = json!({"client_id": "dyn", "token_endpoint_auth_method": "client_secret_basic"});
    rig.site.put("https://as.example/register", 201, &registered.to_string());
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.consent();
    let sent = &rig.sent[0];
    assert_eq!(sent.form("client_id").as_deref(), Some("dyn"));
    assert!(!sent.headers.contains_key("authorization"));
}
