//! Enterprise-managed authorization, and token requests with proofs of possession.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_proto::binding::oauth::{ClientAuth, Flow, IdentityProvider, OAuthConfigError, PublicKey, SignKey};

use super::*;

const IDP: &str = "https://idp.example/token";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

/// A rig whose user is known to an identity provider.
fn enterprise() -> Rig {
    Rig::with(|options| {
        options.registered.push(client_with("s-hush"));
        let mut provider = IdentityProvider::new(IDP, "idp-app", Secret::new("id-hush"));
        provider.client_secret = Some(Secret::new("idp-hush"));
        options.flow = Flow::Enterprise(provider);
    })
}

/// The token exchange is in flight.
fn exchanging() -> Rig {
    let mut rig = enterprise();
    rig.refuse(&[("scope", "a b")]).unwrap();
    rig.run_to("idp.example/token");
    rig
}

fn grant() -> String {
    json!({"access_token": "jag-hush", "issued_token_type": ID_JAG, "token_type": "N_A"}).to_string()
}

#[test]
fn the_identity_provider_issues_a_grant_that_is_exchanged_for_a_token() {
    let mut rig = exchanging();
    for (name, value) in [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("requested_token_type", ID_JAG),
        ("audience", ISSUER),
        ("resource", SERVER),
        ("scope", "a b"),
        ("subject_token", "id-hush"),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:id_token"),
        ("client_id", "idp-app"),
        ("client_secret", "idp-hush"),
    ] {
        assert_eq!(rig.sent[0].form(name).unwrap(), value);
    }
    rig.answer(200, &grant());
    let sent = &rig.sent[0];
    assert_eq!(sent.url, "https://as.example/token");
    assert_eq!(sent.form("grant_type").unwrap(), "urn:ietf:params:oauth:grant-type:jwt-bearer");
    assert_eq!(sent.form("assertion").unwrap(), "jag-hush");
    rig.run();
    rig.assert_authorized();
    assert!(rig.browse.is_none());
}

#[test]
fn a_grant_of_the_identity_provider_that_is_repeated_is_not_shown() {
    let mut rig = exchanging();
    rig.answer(200, &grant());
    rig.answer(400, r#"{"error":"invalid_grant","error_description":"no jag-hush here"}"#);
    rig.assert_failed(Stage::Token, "no [hidden] here");
}

#[test]
fn a_token_exchange_that_breaks_is_sent_again_and_one_that_is_refused_is_not() {
    let mut rig = exchanging();
    rig.break_off();
    rig.wait(5);
    rig.run_to("idp.example/token");
    rig.answer(503, "");
    rig.wait(10);
    rig.run_to("idp.example/token");
    rig.answer(200, &grant());
    // A grant may be accepted once only, so another token request has another one.
    rig.run_to("as.example/token");
    rig.answer(503, "");
    rig.wait(30);
    rig.assert_failed(Stage::Token, "HTTP 503");
    for (status, body, words) in [
        (400, r#"{"error":"invalid_grant","error_description":"signed out"}"#, "signed out"),
        (200, r#"{"access_token":"t","issued_token_type":"urn:ietf:params:oauth:token-type:jwt"}"#, "issued `urn"),
        (200, &format!(r#"{{"access_token":"","issued_token_type":"{ID_JAG}"}}"#), "no token"),
        (404, "not found", "HTTP 404"),
    ] {
        let mut rig = exchanging();
        rig.answer(status, body);
        rig.assert_failed(Stage::Token, words);
    }
}

/// No user would be asked, so that is not the reason.
#[test]
fn without_a_client_the_identity_provider_is_not_asked_and_the_error_says_what_to_configure() {
    let mut rig = Rig::with(|options| {
        options.flow = Flow::Enterprise(IdentityProvider::new(IDP, "idp-app", Secret::new("id-hush")));
        (options.may_ask_user, options.tolerance.issuer) = (false, Some(ISSUER.into()));
    });
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.assert_failed(Stage::Registration, "configure a client ID");
}

#[test]
fn a_token_exchange_ends_with_a_sign_out_and_within_a_bound() {
    let mut rig = exchanging();
    rig.auth.sign_out(rig.now);
    rig.pump();
    assert!(rig.sent.is_empty() && rig.auth.deadline().is_none());
    let mut rig = exchanging();
    rig.answer(200, &"x".repeat(2 << 20));
    rig.assert_failed(Stage::Token, "longer than");
}

#[test]
fn an_identity_provider_without_https_is_refused() {
    let mut options = OAuthOptions::new("suite", REDIRECT);
    options.flow = Flow::Enterprise(IdentityProvider::new("http://idp.example/token", "a", Secret::new("t")));
    let error = Authorization::new(SERVER, options, [1; 32], Time::ZERO, Duration::ZERO).unwrap_err();
    assert_eq!(error, OAuthConfigError::TokenEndpoint);
}

/// A rig that binds tokens to a key which the embedder signs with.
fn bound() -> Rig {
    let mut rig = Rig::with(|options| {
        options.dpop = Some(PublicKey::from_coordinates([1; 32], [2; 32]));
        let mut client = client();
        client.auth = Some(ClientAuth::PrivateKeyJwt { algorithm: "ES256".into(), key_id: None });
        options.registered.push(client);
    });
    rig.site.json(METADATA, metadata_with(json!({"dpop_signing_alg_values_supported": ["ES256"]})));
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.consent();
    rig
}

fn sign(rig: &mut Rig) -> Vec<SignKey> {
    let signs: Vec<_> = rig.signs.drain(..).collect();
    for sign in &signs {
        assert!(!format!("{sign:?}").contains(&sign.input));
        rig.auth.handle_signature(rig.now, sign.id, b"signature");
    }
    rig.pump();
    signs.iter().map(|sign| sign.key).collect()
}

/// The claims of a JWT.
pub(super) fn claims(jwt: &str) -> Value {
    let claims = jwt.split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap()
}

#[test]
fn a_token_request_has_a_proof_with_the_nonce_that_the_server_demands() {
    let mut rig = bound();
    assert_eq!(sign(&mut rig), [SignKey::Client, SignKey::Proof]);
    let sent = rig.sent.front().unwrap();
    let proof = claims(sent.headers["dpop"].to_str().unwrap());
    assert_eq!((&proof["htm"], &proof["htu"]), (&json!("POST"), &json!("https://as.example/token")));
    assert!(proof.get("nonce").is_none() && proof.get("ath").is_none());
    let code = sent.form("code").unwrap();
    let (id, headers) = (sent.id, HeaderMap::from_iter([("dpop-nonce".parse().unwrap(), "n1".parse().unwrap())]));
    rig.sent.clear();
    rig.auth.handle_head(rig.now, id, StatusCode::BAD_REQUEST, &headers);
    rig.auth.handle_body(rig.now, id, br#"{"error":"use_dpop_nonce"}"#);
    rig.auth.handle_end(rig.now, id);
    rig.pump();
    sign(&mut rig);
    let sent = rig.sent.front().unwrap();
    // It was not processed, so the code is still good.
    assert_eq!(sent.form("code").unwrap(), code);
    let again = claims(sent.headers["dpop"].to_str().unwrap());
    assert_eq!(again["nonce"], "n1");
    assert_ne!(again["jti"], proof["jti"]);
    rig.answer(200, r#"{"access_token":"at-hush","token_type":"dpop","expires_in":3600}"#);
    assert!(matches!(rig.events.last(), Some(OAuthEvent::Authorized(_))));
    // Without a proof the server refuses the token.
    assert!(rig.token().is_none());
}

#[test]
fn the_times_in_assertions_and_proofs_follow_the_wall_clock() {
    let mut rig = bound();
    rig.signs.clear();
    rig.auth.sign_out(rig.now);
    rig.auth.handle_clock(rig.now, Duration::from_secs(EPOCH + 90_000));
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.consent();
    for sign in &rig.signs {
        assert_eq!(claims(&format!("{}.", sign.input))["iat"], EPOCH + 90_000);
    }
    assert_eq!(claims(&format!("{}.", rig.signs[0].input))["exp"], EPOCH + 90_300);
    assert_eq!(rig.signs.len(), 2);
}

/// The token endpoint demands the nonce `n1`, and accepts the proof that has it.
fn demand_nonce(rig: &mut Rig) {
    rig.events.clear();
    rig.run_to("as.example/token");
    let sent = rig.sent.pop_front().unwrap();
    let headers = HeaderMap::from_iter([("dpop-nonce".parse().unwrap(), "n1".parse().unwrap())]);
    rig.auth.handle_head(rig.now, sent.id, StatusCode::BAD_REQUEST, &headers);
    rig.auth.handle_body(rig.now, sent.id, br#"{"error":"use_dpop_nonce"}"#);
    rig.auth.handle_end(rig.now, sent.id);
    rig.pump();
    sign(rig);
    let again = rig.sent.front().unwrap();
    assert_eq!(again.form("grant_type"), sent.form("grant_type"));
    assert_eq!(claims(again.headers["dpop"].to_str().unwrap())["nonce"], "n1");
    rig.answer(200, r#"{"access_token":"at-hush","token_type":"DPoP","expires_in":3600,"refresh_token":"rt-hush"}"#);
    assert!(matches!(rig.events.last(), Some(OAuthEvent::Authorized(_))));
}

#[test]
fn a_refresh_has_the_nonce_that_the_server_demands() {
    let mut rig = bound();
    sign(&mut rig);
    rig.answer(200, r#"{"access_token":"at-hush","token_type":"DPoP","expires_in":3600,"refresh_token":"rt-hush"}"#);
    rig.wait(3570);
    rig.run();
    sign(&mut rig);
    assert_eq!(rig.sent.front().unwrap().form("grant_type").unwrap(), "refresh_token");
    demand_nonce(&mut rig);
}

#[test]
fn a_token_request_without_a_user_has_the_nonce_that_the_server_demands() {
    let mut rig = Rig::with(|options| {
        options.dpop = Some(PublicKey::from_coordinates([1; 32], [2; 32]));
        (options.flow, options.registered) = (Flow::ClientCredentials, vec![client_with("s-hush")]);
    });
    rig.site.json(METADATA, metadata_with(json!({"dpop_signing_alg_values_supported": ["ES256"]})));
    rig.refuse(&[]).unwrap();
    rig.run();
    sign(&mut rig);
    demand_nonce(&mut rig);
}

#[test]
fn a_nonce_is_demanded_once_in_an_attempt() {
    let mut rig = bound();
    sign(&mut rig);
    rig.answer(400, r#"{"error":"use_dpop_nonce"}"#);
    rig.assert_failed(Stage::Token, "use_dpop_nonce");

    let mut rig = bound();
    sign(&mut rig);
    for nonce in ["n1", "n2"] {
        let sent = rig.sent.pop_front().expect("a token request");
        let headers = HeaderMap::from_iter([("dpop-nonce".parse().unwrap(), nonce.parse().unwrap())]);
        rig.auth.handle_head(rig.now, sent.id, StatusCode::BAD_REQUEST, &headers);
        rig.auth.handle_body(rig.now, sent.id, br#"{"error":"use_dpop_nonce"}"#);
        rig.auth.handle_end(rig.now, sent.id);
        rig.pump();
        sign(&mut rig);
    }
    rig.assert_failed(Stage::Token, "use_dpop_nonce");
}

#[test]
fn a_token_of_another_type_than_was_asked_for_is_refused() {
    let mut rig = bound();
    sign(&mut rig);
    rig.answer(200, r#"{"access_token":"at-hush","token_type":"Bearer"}"#);
    rig.assert_failed(Stage::Token, "not `DPoP`");
}

#[test]
fn a_proof_that_is_not_signed_ends_the_attempt() {
    let mut rig = bound();
    let proof = rig.signs.pop_back().unwrap();
    rig.auth.handle_signature(rig.now, proof.id, b"");
    rig.pump();
    rig.assert_failed(Stage::Token, "not signed");
}

#[test]
fn a_stored_token_that_is_bound_to_another_key_is_not_used() {
    let with_key = |key: u8| {
        Rig::with(|options| {
            options.stored = true;
            options.dpop = Some(PublicKey::from_coordinates([key; 32], [2; 32]));
            options.registered.push(RegisteredClient::new("app"));
        })
    };
    let mut rig = with_key(1);
    rig.site.json(METADATA, metadata_with(json!({"dpop_signing_alg_values_supported": ["ES256"]})));
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.consent();
    sign(&mut rig);
    rig.answer(200, r#"{"access_token":"at-hush","token_type":"DPoP","expires_in":3600}"#);
    rig.run();
    for (key, is_used) in [(1, true), (2, false)] {
        let mut other = with_key(key);
        other.store.record.clone_from(&rig.store.record);
        other.refuse(&[]).unwrap();
        other.run();
        assert_eq!(matches!(other.events.last(), Some(OAuthEvent::Authorized(_))), is_used);
    }
}

#[cfg(feature = "sign")]
#[test]
fn a_key_in_memory_has_to_be_the_one_that_tokens_are_bound_to() {
    use mcp_proto::binding::oauth::SigningKey;
    let mut options = OAuthOptions::new("suite", REDIRECT);
    options.dpop = Some(PublicKey::from_coordinates([1; 32], [2; 32]));
    options.dpop_key = Some(SigningKey::from_bytes(&[7; 32]).unwrap());
    let error = Authorization::new(SERVER, options, [1; 32], Time::ZERO, Duration::ZERO).unwrap_err();
    assert_eq!(error, OAuthConfigError::DpopKey);
}

#[cfg(feature = "sign")]
#[test]
fn a_key_in_memory_signs_at_once() {
    use mcp_proto::binding::oauth::SigningKey;
    let key = SigningKey::from_bytes(&[7; 32]).unwrap();
    let mut rig = Rig::with(|options| {
        options.registered.push(RegisteredClient::new("app"));
        (options.dpop, options.dpop_key) = (Some(key.public()), Some(key));
    });
    rig.site.json(METADATA, metadata_with(json!({"dpop_signing_alg_values_supported": ["ES256"]})));
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.consent();
    assert!(rig.signs.is_empty());
    assert!(rig.sent[0].url.ends_with("/token") && rig.sent[0].headers.contains_key("dpop"));
}

/// An outage of the identity provider is repeated, and what it refuses is no refusal of the authorization server.
#[test]
fn an_identity_provider_that_is_unavailable_is_asked_again() {
    let mut rig = exchanging();
    rig.answer(503, r#"{"error":"temporarily_unavailable"}"#);
    rig.wait(10);
    rig.run_to("idp.example/token");
    rig.answer(200, &grant());
    rig.run();
    rig.assert_authorized();
}

#[test]
fn offline_access_is_requested_only_where_a_user_consents() {
    let scopes = json!({"scopes_supported": ["a", "offline_access"]});
    let offline = |options: &mut OAuthOptions| options.offline_access = true;
    let mut rig = Rig::with(offline);
    rig.site.json(METADATA, metadata_with(scopes.clone()));
    rig.refuse(&[("scope", "a")]).unwrap();
    rig.run();
    assert_eq!(rig.shown("scope"), "a offline_access");
    let mut rig = Rig::with(|options| {
        offline(options);
        options.flow = Flow::ClientCredentials;
        options.registered.push(client_with("s-hush"));
    });
    rig.site.json(METADATA, metadata_with(scopes));
    rig.refuse(&[("scope", "a")]).unwrap();
    rig.run_to("/token");
    assert_eq!(rig.sent[0].form("scope").unwrap(), "a");
}

#[test]
fn a_server_that_requires_proofs_gets_them_whatever_the_authorization_server_says() {
    let proofs = |required: bool| {
        let mut rig = Rig::with(|options| options.dpop = Some(PublicKey::from_coordinates([1; 32], [2; 32])));
        rig.site.json(
            RESOURCE,
            json!({"resource": SERVER, "authorization_servers": [ISSUER], "dpop_bound_access_tokens_required": required}),
        );
        rig.refuse(&[]).unwrap();
        rig.run();
        rig.consent();
        sign(&mut rig)
    };
    assert_eq!(proofs(true), [SignKey::Proof]);
    assert_eq!(proofs(false), []);
}

#[test]
fn a_nonce_without_characters_or_with_too_many_is_none() {
    for (nonce, is_used) in [("n1", true), ("", false), (&*"n".repeat(10_000), false)] {
        let mut rig = bound();
        sign(&mut rig);
        let id = rig.sent.pop_front().unwrap().id;
        let headers = HeaderMap::from_iter([("dpop-nonce".parse().unwrap(), nonce.parse().unwrap())]);
        rig.auth.handle_head(rig.now, id, StatusCode::BAD_REQUEST, &headers);
        rig.auth.handle_body(rig.now, id, br#"{"error":"use_dpop_nonce"}"#);
        rig.auth.handle_end(rig.now, id);
        rig.pump();
        sign(&mut rig);
        let again = rig.sent.front().map(|sent| claims(sent.headers["dpop"].to_str().unwrap())["nonce"] == nonce);
        assert_eq!(again.unwrap_or(false), is_used);
    }
}

#[test]
fn a_client_without_a_registration_in_advance_sends_its_code_again_at_once_with_the_nonce_that_the_server_demands() {
    for document in [None, Some("https://app.example/client.json")] {
        let is_dynamic = document.is_none();
        let mut rig = Rig::with(|options| {
            options.dpop = Some(PublicKey::from_coordinates([1; 32], [2; 32]));
            options.client_metadata_url = document.map(Into::into);
        });
        let offers =
            json!({"dpop_signing_alg_values_supported": ["ES256"], "client_id_metadata_document_supported": true});
        rig.site.json(METADATA, metadata_with(offers));
        rig.refuse(&[]).unwrap();
        rig.run();
        rig.consent();
        assert_eq!(rig.log.iter().any(|line| line.ends_with("/register")), is_dynamic);
        sign(&mut rig);
        demand_nonce(&mut rig);
    }
}

#[test]
fn the_last_token_request_of_an_attempt_without_a_user_fails_with_the_error_of_its_response() {
    let mut rig = Rig::with(|options| {
        (options.flow, options.registered) = (Flow::ClientCredentials, vec![client_with("s-hush")]);
    });
    rig.refuse(&[]).unwrap();
    for _ in 0..2 {
        rig.run_to("as.example/token");
        rig.answer(503, "");
        rig.wait(30);
    }
    rig.run_to("as.example/token");
    rig.answer(400, r#"{"error":"invalid_scope","error_description":"no such scope"}"#);
    rig.assert_failed(Stage::Token, "no such scope");
    rig.wait(100);
    rig.run();
    assert_eq!(rig.log.iter().filter(|line| line.ends_with("/token")).count(), 3);
}
