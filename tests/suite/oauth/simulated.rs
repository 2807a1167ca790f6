//! The authorization server of the test kit, and clients that sign in to it in virtual time.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_proto::binding::oauth::{
    ClientAuth, Flow, IdentityProvider, OAuthConfigError, OAuthInput, PublicKey, RefreshScopes, Secret,
};
use mcp_proto::host::config::Configuration;
use mcp_proto::host::hub::{Hub, HubOAuth, HubOptions};
use mcp_proto::testkit::{
    Collector, Endpoint, FakeAuthorizationServer, FakeServer, FakeTool, Fault, Link, NodeId, On, Received, Reply, Sim,
};
use mcp_proto::{Options, Outcome, Request};
use proptest::prelude::*;

use crate::common::seconds;

use super::program::{Host, Store, URL, issuer, options};
use super::*;

const OTHER: &str = "https://as2.example";

fn registered(id: &str, secret: Option<&str>, auth: Option<ClientAuth>) -> RegisteredClient {
    let mut client = RegisteredClient::new(id);
    (client.issuer, client.secret, client.auth) = (Some(ISSUER.into()), secret.map(Secret::new), auth);
    client
}

/// A client that opens its connection, and its servers.
fn world(issuer: FakeAuthorizationServer, options: OAuthOptions) -> (Sim<Host>, NodeId) {
    world_with(FakeServer::modern().tool(FakeTool::new("a")), issuer, options)
}

fn world_with(server: FakeServer, issuer: FakeAuthorizationServer, options: OAuthOptions) -> (Sim<Host>, NodeId) {
    let mut sim = Sim::new(7).with_server("s", server, Link::new(Duration::from_millis(20)));
    sim = sim.with_authorization_server("as", issuer, Link::new(Duration::from_millis(20)).piece(100));
    let node = sim.add("s", Host::new(options, &Store::default()));
    sim.tell(node, |now, host| host.client.open(now)).unwrap().unwrap();
    (sim, node)
}

/// As `world`, once the client is ready.
fn ready(issuer: FakeAuthorizationServer, options: OAuthOptions) -> (Sim<Host>, NodeId) {
    let (mut sim, node) = world(issuer, options);
    let is_ready = sim.run_until(seconds(700), |sim| sim.get(node).unwrap().client.is_ready()).unwrap();
    assert!(is_ready, "{:?}", sim.get(node).unwrap().oauth);
    sim.run_for(seconds(61)).unwrap();
    (sim, node)
}

fn call(sim: &mut Sim<Host>, node: NodeId) -> bool {
    let id = sim.tell(node, |now, host| host.client.request(now, Request::call_tool("a", None))).unwrap().unwrap();
    sim.run_for(seconds(900)).unwrap();
    matches!(sim.get(node).unwrap().outcome(id), Some(Outcome::Result(_)))
}

fn at<'a>(sim: &'a Sim<Host>, name: &str) -> &'a FakeAuthorizationServer {
    sim.authorization_server(name).unwrap()
}

/// The secrets that came, each with where it came.
fn came<'a>(issuer: &'a FakeAuthorizationServer, name: &str) -> Vec<(&'a str, &'a str)> {
    let secrets = |request: &'a Received| request.secrets().map(|(kind, secret)| (kind, secret, &*request.url));
    issuer
        .requests()
        .flat_map(secrets)
        .filter(|(kind, ..)| *kind == name)
        .map(|(_, secret, url)| (secret, url))
        .collect()
}

#[test]
fn a_user_signs_in_and_each_secret_comes_to_its_place() {
    let (mut sim, node) = ready(issuer(), options(|_| {}));
    assert!(call(&mut sim, node));
    let issuer = at(&sim, "as");
    let token = "https://as.example/token";
    assert_eq!(came(issuer, "code"), [("code1-as.example", token)]);
    assert_eq!(came(issuer, "code_verifier").len(), 1);
    assert!(came(issuer, "access_token").iter().all(|came| *came == ("at1-as.example", URL)));
    assert!(issuer.requests().flat_map(Received::secrets).all(|(_, secret)| issuer.owns(secret)));
    assert!(!issuer.owns("at1-as2.example"));
    assert_eq!(issuer.received(&Endpoint::Registration), 1);
    assert_eq!(issuer.violations(), [""; 0]);
    assert_eq!(sim.get(node).unwrap().shown.len(), 1);
    assert!(sim.strays().is_empty());
    // A refused request is none that the MCP server saw.
    let refused = issuer.requests().filter(|it| it.endpoint == Some(Endpoint::Resource)).count();
    assert_eq!(refused - 1, sim.server("s").unwrap().messages().count());
}

#[test]
fn a_run_is_the_same_each_time() {
    let run = || {
        let (mut sim, node) = ready(issuer(), options(|_| {}));
        call(&mut sim, node);
        at(&sim, "as").requests().cloned().collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}

#[test]
fn a_token_expires_and_is_refreshed_with_rotation() {
    let lives = Reply::With(json!({"expires_in": 60}));
    let (mut sim, node) = ready(issuer().always(Endpoint::Token, lives), options(|_| {}));
    sim.run_for(seconds(300)).unwrap();
    assert!(call(&mut sim, node));
    let refreshed: Vec<_> = came(at(&sim, "as"), "refresh_token").iter().map(|(token, _)| *token).collect();
    assert!(refreshed.len() > 3, "{refreshed:?}");
    assert!(refreshed.iter().enumerate().all(|(at, token)| *token == format!("rt{}-as.example", at + 1)));
    assert_eq!(at(&sim, "as").received(&Endpoint::Authorization), 1);
}

#[test]
fn a_refresh_token_that_does_not_rotate_stays() {
    let same = Reply::With(json!({"refresh_token": null, "expires_in": 60}));
    let lives = Reply::With(json!({"expires_in": 60}));
    let issuer = issuer().always(Endpoint::Refresh, same).always(Endpoint::Token, lives);
    let (mut sim, node) = ready(issuer, options(|_| {}));
    sim.run_for(seconds(300)).unwrap();
    assert!(call(&mut sim, node));
    let refreshed = came(at(&sim, "as"), "refresh_token");
    assert!(refreshed.len() > 3 && refreshed.iter().all(|(token, _)| *token == "rt1-as.example"));
}

/// The user has to sign in again, after this happened to the refresh.
fn signs_in_again(script: Reply) {
    let (mut sim, node) = ready(issuer(), options(|_| {}));
    sim.change_authorization_server("as", |issuer| {
        issuer.expire_tokens();
        issuer.add_script(Endpoint::Refresh, [script]);
    });
    assert!(call(&mut sim, node));
    assert_eq!(at(&sim, "as").received(&Endpoint::Authorization), 2);
}

#[test]
fn a_refused_refresh_leads_to_the_user() {
    signs_in_again(Reply::error(400, "invalid_grant: the user left"));
}

#[test]
fn a_rotated_refresh_token_whose_answer_is_lost_leads_to_the_user() {
    signs_in_again(Reply::Dies);
    signs_in_again(Reply::Torn);
}

#[test]
fn revoked_tokens_lead_to_the_user() {
    let (mut sim, node) = ready(issuer(), options(|_| {}));
    sim.change_authorization_server("as", FakeAuthorizationServer::revoke_tokens).unwrap();
    assert!(call(&mut sim, node));
    assert_eq!(at(&sim, "as").received(&Endpoint::Authorization), 2);
    assert!(sim.change_authorization_server("nobody", |_| ()).is_none() && sim.change("as", |_| ()).is_none());
}

#[test]
fn a_refresh_is_tried_again_after_each_outage() {
    for script in [
        Reply::status(503, ""),
        Reply::status(200, "<html>"),
        Reply::Noise("<html>".into()),
        Reply::DiesFirst,
        Reply::error(503, "temporarily_unavailable"),
        Reply::Late(seconds(20)),
    ] {
        // A refresh token that does not rotate survives an answer that cannot be read.
        let same = Reply::With(json!({"refresh_token": null}));
        let (mut sim, node) = ready(issuer().always(Endpoint::Refresh, same), options(|_| {}));
        sim.change_authorization_server("as", |issuer| {
            issuer.expire_tokens();
            issuer.add_script(Endpoint::Refresh, [script.clone()]);
        });
        assert!(call(&mut sim, node), "{script:?}");
        assert_eq!(at(&sim, "as").received(&Endpoint::Authorization), 1, "{script:?}");
    }
}

#[test]
fn each_deviation_and_outage_of_a_sign_in_ends_it_where_it_happens() {
    let with = |changes| Reply::With(changes);
    for (endpoint, script, words) in [
        (Endpoint::ResourceMetadata, with(json!({"resource": "https://evil.example"})), "resource-metadata"),
        (Endpoint::ResourceMetadata, Reply::DiesFirst, "resource-metadata"),
        (Endpoint::ServerMetadata, with(json!({"issuer": "https://evil.example"})), "its `issuer` is `https://evil"),
        (Endpoint::ServerMetadata, with(json!({"code_challenge_methods_supported": ["plain"]})), "S256"),
        (Endpoint::ServerMetadata, with(json!({"token_endpoint": "http://as.example/token"})), "is not https"),
        (Endpoint::ServerMetadata, with(json!({"authorization_endpoint": null})), "authorization_endpoint"),
        (Endpoint::Registration, Reply::error(400, "invalid_client_metadata: no"), "`invalid_client_metadata`: no"),
        (Endpoint::Registration, Reply::Silent, "at registration"),
        (Endpoint::Authorization, Reply::error(400, "access_denied: not now"), "`access_denied`: not now"),
        (Endpoint::Authorization, Reply::Silent, "600 s"),
        (Endpoint::Authorization, Reply::status(200, "sign in"), "600 s"),
        (Endpoint::Authorization, Reply::status(302, "https://evil.example/callback?code=x"), "600 s"),
        (Endpoint::Authorization, with(json!({"state": "other"})), "600 s"),
        (Endpoint::Authorization, with(json!({"state": null})), "600 s"),
        (Endpoint::Authorization, with(json!({"iss": "https://evil.example"})), "names no or another issuer"),
        (Endpoint::Authorization, with(json!({"iss": null})), "names no or another issuer"),
        (Endpoint::Token, Reply::error(400, "invalid_grant"), "invalid_grant"),
        (Endpoint::Token, Reply::Dies, "at token"),
        (Endpoint::Token, Reply::Torn, "at token"),
        (Endpoint::Token, with(json!({"token_type": "mac"})), "`token_type` is `mac`"),
        (Endpoint::Token, with(json!({"access_token": null})), "no `access_token`"),
    ] {
        let mut options = options(|_| {});
        options.timeouts.cooldown = seconds(6000);
        let (mut sim, node) = world(issuer().always(endpoint.clone(), script.clone()), options);
        sim.run_for(seconds(700)).unwrap();
        let host = sim.get(node).unwrap();
        assert!(
            !host.client.is_ready() && host.failure().contains(words),
            "{endpoint:?} {script:?}: {}",
            host.failure()
        );
        assert_eq!(came(at(&sim, "as"), "access_token"), [], "{endpoint:?} {script:?}");
        // And it is over when the deviation is.
        sim.change_authorization_server("as", |issuer| issuer.set_always(endpoint, Reply::Normal));
        sim.tell(node, |now, host| host.client.handle_oauth(now, OAuthInput::Authorize));
        sim.run_for(seconds(1200)).unwrap();
        assert!(sim.get(node).unwrap().client.is_ready(), "{script:?}: {}", sim.get(node).unwrap().failure());
    }
}

#[test]
fn places_that_have_no_metadata_lead_to_the_next_ones() {
    let nothing = || Reply::status(404, "");
    let root = Endpoint::url("https://mcp.example/.well-known/oauth-protected-resource/mcp");
    for issuer_url in [ISSUER, "https://as.example/tenant"] {
        let issuer = FakeAuthorizationServer::new(issuer_url).protects(URL);
        let issuer = issuer.always(root.clone(), nothing()).always(Endpoint::OpenIdMetadata, Reply::Normal);
        let issuer = issuer.always(Endpoint::ServerMetadata, Reply::status(200, "<p>"));
        let (sim, _) = ready(issuer, options(|_| {}));
        assert_eq!(at(&sim, "as").received(&Endpoint::OpenIdMetadata), 1);
        assert_eq!((at(&sim, "as").issuer(), at(&sim, "as").violations()), (issuer_url, &[][..]));
    }
    // Only the last place of an issuer with a path.
    let issuer = FakeAuthorizationServer::new("https://as.example/tenant").protects(URL);
    let issuer = issuer.always(Endpoint::ServerMetadata, nothing()).always(Endpoint::OpenIdMetadata, Reply::Normal);
    let inserted = Endpoint::url("https://as.example/.well-known/openid-configuration/tenant");
    let (sim, _) = ready(issuer.always(inserted, nothing()), options(|_| {}));
    assert_eq!(at(&sim, "as").received(&Endpoint::OpenIdMetadata), 2);
}

#[test]
fn documents_at_other_urls_are_scripts() {
    let named = "https://other.example/prm";
    let prm = json!({"resource": URL, "authorization_servers": [ISSUER]});
    let issuer = issuer()
        .always(Endpoint::Resource, Reply::With(json!({"resource_metadata": named, "scope": "read write"})))
        .always(Endpoint::url(named), Reply::Result(prm));
    let (sim, node) = ready(issuer, options(|_| {}));
    assert_eq!(at(&sim, "as").received(&Endpoint::url(named)), 1);
    assert_eq!(at(&sim, "as").received(&Endpoint::ResourceMetadata), 0);
    assert!(sim.get(node).unwrap().shown[0].contains("scope=read%20write"));
}

#[test]
fn an_outage_of_a_server_passes() {
    for (name, fault) in [
        ("as", Fault::Unreachable(seconds(30))),
        ("s", Fault::Unreachable(seconds(30))),
        ("as", Fault::Stall(seconds(40))),
    ] {
        let (mut sim, node) = ready(issuer(), options(|_| {}));
        sim.change_authorization_server("as", FakeAuthorizationServer::expire_tokens);
        sim.fault(name, fault);
        call(&mut sim, node);
        assert!(call(&mut sim, node), "{fault:?}");
        assert_eq!(at(&sim, "as").received(&Endpoint::Authorization), 1, "{fault:?}");
    }
    // The tokens of an authorization server expire; a crash costs what is in flight.
    let (mut sim, node) = ready(issuer(), options(|_| {}));
    sim.fault("as", Fault::Expire);
    sim.tell(node, |now, host| host.client.request(now, Request::call_tool("a", None))).unwrap().unwrap();
    sim.run_until(seconds(60), |sim| at(sim, "as").received(&Endpoint::Refresh) > 0).unwrap();
    sim.fault("as", Fault::Crash);
    assert!(call(&mut sim, node));
    assert_eq!(at(&sim, "as").received(&Endpoint::Authorization), 2, "the refresh token was used");
}

#[test]
fn a_user_takes_their_time() {
    let (mut sim, node) = world(issuer().always(Endpoint::Authorization, Reply::Late(seconds(500))), options(|_| {}));
    sim.run_for(seconds(490)).unwrap();
    assert!(!sim.get(node).unwrap().client.is_ready());
    sim.run_for(seconds(20)).unwrap();
    assert!(sim.get(node).unwrap().client.is_ready());
}

#[test]
fn a_server_may_demand_tokens_and_scopes_for_some_requests_only() {
    let issuer = issuer().anonymous(true).demands(On::tool("a"), "write");
    let (mut sim, node) = ready(issuer, options(|_| {}));
    assert_eq!(at(&sim, "as").received(&Endpoint::Token), 0);
    assert!(call(&mut sim, node));
    assert!(sim.get(node).unwrap().shown[0].contains("scope=write"));
    // A step-up.
    sim.change_authorization_server("as", |issuer| issuer.demand(On::tool("a"), "admin"));
    assert!(call(&mut sim, node));
    assert!(sim.get(node).unwrap().shown[1].contains("scope=write%20admin"));
    assert_eq!(at(&sim, "as").received(&Endpoint::Refresh), 0);
    // Fewer scopes than were requested.
    sim.change_authorization_server("as", |issuer| {
        issuer.demand(On::tool("a"), "more");
        issuer.set_always(Endpoint::Token, Reply::With(json!({"scope": "write admin"})));
    });
    assert!(!call(&mut sim, node));
}

#[test]
fn clients_authenticate_as_they_are_registered() {
    let basic = Some(ClientAuth::Basic);
    let key = Some(ClientAuth::PrivateKeyJwt { algorithm: "ES256".into(), key_id: None });
    for (client, flow) in [
        (registered("app", Some("app-secret"), basic.clone()), Flow::ClientCredentials),
        (registered("app", Some("app-secret"), Some(ClientAuth::Post)), Flow::ClientCredentials),
        (registered("app", Some("app-secret"), None), Flow::User),
        (registered("signs", None, key.clone()), Flow::ClientCredentials),
        (registered("signs", None, key), Flow::User),
        (registered("app", Some("app-secret"), basic), Flow::JwtBearer(Secret::new("an-assertion"))),
    ] {
        let issuer = issuer().client_with_secret("app", "app-secret").client_with_key("signs").accepts("an-assertion");
        let has_refresh = flow == Flow::User;
        let options = options(|options| {
            options.flow = flow;
            options.registered.push(client);
        });
        let (mut sim, node) = ready(issuer, options);
        sim.change_authorization_server("as", FakeAuthorizationServer::expire_tokens);
        assert!(call(&mut sim, node));
        let issuer = at(&sim, "as");
        assert_eq!(issuer.received(&Endpoint::Refresh), usize::from(has_refresh));
        assert_eq!(issuer.violations(), [""; 0]);
        assert!(issuer.requests().flat_map(Received::secrets).all(|(_, secret)| issuer.owns(secret)));
    }
    let client = registered("app", Some("another"), None);
    let options = options(|options| {
        options.flow = Flow::ClientCredentials;
        options.registered.push(client);
    });
    let (mut sim, node) = world(issuer().client_with_secret("app", "app-secret"), options);
    sim.run_for(seconds(5)).unwrap();
    assert!(sim.get(node).unwrap().failure().contains("`invalid_client`: the secret is not that of the client"));
    assert!(!at(&sim, "as").owns("another") && came(at(&sim, "as"), "client_secret")[0].0 == "another");
}

#[test]
fn an_identity_provider_issues_grants_that_another_server_accepts_once() {
    let idp = || FakeAuthorizationServer::new("https://idp.example").client("idp-app").accepts("id-token");
    let options = || {
        options(|options| {
            options.registered.push(registered("app", Some("app-secret"), None));
            let token = Secret::new("id-token");
            options.flow = Flow::Enterprise(IdentityProvider::new("https://idp.example/token", "idp-app", token));
        })
    };
    let server = FakeServer::modern().tool(FakeTool::new("a"));
    let mut sim = Sim::new(7)
        .with_server("s", server, Link::default())
        .with_authorization_server("as", issuer().client_with_secret("app", "app-secret"), Link::default())
        .with_authorization_server("idp", idp(), Link::default());
    let node = sim.add("s", Host::new(options(), &Store::default()));
    sim.tell(node, |now, host| host.client.open(now)).unwrap().unwrap();
    sim.run_for(seconds(5)).unwrap();
    sim.change_authorization_server("as", FakeAuthorizationServer::expire_tokens);
    assert!(call(&mut sim, node));
    assert_eq!(came(at(&sim, "as"), "assertion").len(), 2);
    for issuer in sim.authorization_servers() {
        let mut secrets = issuer.requests().flat_map(Received::secrets);
        assert!(secrets.all(|(_, secret)| issuer.owns(secret)), "{}", issuer.issuer());
    }
    assert!(!at(&sim, "idp").owns(came(at(&sim, "as"), "assertion")[0].0));
}

#[test]
fn tokens_are_bound_to_a_key_and_proofs_need_the_nonce_that_is_demanded() {
    let bound = |options: &mut OAuthOptions| options.dpop = Some(PublicKey::from_coordinates([1; 32], [2; 32]));
    let (mut sim, node) =
        world(issuer().script(Endpoint::Token, [Reply::error(400, "use_dpop_nonce")]), options(bound));
    sim.run_for(seconds(5)).unwrap();
    assert_eq!((at(&sim, "as").received(&Endpoint::Token), sim.get(node).unwrap().client.is_ready()), (2, true));
    let demand = [Reply::error(401, "use_dpop_nonce")];
    sim.change_authorization_server("as", |issuer| issuer.add_script(Endpoint::Resource, demand));
    assert!(call(&mut sim, node));
    sim.run_for(seconds(2700)).unwrap();
    assert_eq!(at(&sim, "as").received(&Endpoint::Refresh), 1);
    sim.tell(node, |now, host| host.client.refresh(now, mcp_proto::Family::Tools)).unwrap().unwrap();
    sim.run_for(seconds(5)).unwrap();
    assert_eq!(at(&sim, "as").received(&Endpoint::Authorization), 1);
    // A token without its proof, and with one of another request.
    let request = |proof: Option<&str>| {
        let mut request = http::Request::post(URL).header("authorization", "DPoP at2-as.example");
        request = proof.into_iter().fold(request, |request, proof| request.header("dpop", proof));
        request.body(b"{}".to_vec()).unwrap()
    };
    let last = at(&sim, "as").requests().next_back().unwrap();
    let (now, proof) = (sim.now(), last.param("dpop").unwrap().to_owned());
    sim.change_authorization_server("as", |issuer| {
        for proof in [None, Some(&*proof), Some("x"), Some("e30.e30.")] {
            let refused = issuer.answer(now, &request(proof)).unwrap();
            assert_eq!(refused.status(), 401, "{proof:?}");
        }
    });
}

#[test]
fn signing_out_revokes_what_was_issued() {
    let (mut sim, node) = ready(issuer(), options(|_| {}));
    sim.tell(node, |now, host| host.client.handle_oauth(now, OAuthInput::SignOut));
    sim.run_for(seconds(5)).unwrap();
    let tokens: Vec<_> = came(at(&sim, "as"), "token").iter().map(|(token, _)| *token).collect();
    assert_eq!(tokens, ["rt1-as.example", "at1-as.example"]);
    let request = http::Request::post(URL).header("authorization", "Bearer at1-as.example").body(vec![]).unwrap();
    let now = sim.now();
    let refused = sim.change_authorization_server("as", |issuer| issuer.answer(now, &request)).unwrap().unwrap();
    assert_eq!(refused.status(), 401);
}

#[test]
fn a_stored_token_is_used_by_the_next_process() {
    let store = Store::default();
    let stored = || {
        options(|options| {
            options.stored = true;
            options.tolerance.refresh_scopes = RefreshScopes::Granted;
        })
    };
    let server = FakeServer::legacy().tool(FakeTool::new("a"));
    let mut sim = Sim::new(7).with_server("s", server, Link::default());
    sim = sim.with_authorization_server("as", issuer(), Link::default());
    for process in 0..3 {
        let host = Host::at(sim.now(), stored(), &store);
        let node = sim.add("s", host);
        sim.tell(node, |now, host| host.client.open(now)).unwrap().unwrap();
        sim.run_for(seconds(70)).unwrap();
        assert!(sim.get(node).unwrap().client.is_ready(), "{process}");
        sim.change_authorization_server("as", FakeAuthorizationServer::expire_tokens);
        assert!(call(&mut sim, node), "{process}");
    }
    assert_eq!(at(&sim, "as").received(&Endpoint::Authorization), 1);
}

#[test]
fn the_servers_of_a_hub_sign_in_one_after_the_other() {
    let entry = |name: &str| json!({"url": format!("https://mcp.example/{name}"), "auth": "oauth"});
    let servers: Configuration = serde_json::from_value(json!({"a": entry("a"), "b": entry("b")})).unwrap();
    let oauth = HubOAuth::new(options(|_| {}), [1; 32], Time::ZERO, Duration::from_secs(EPOCH));
    let hub = Hub::new(HubOptions::new(Options::new("suite", "1.0")), 1).with_oauth(oauth);
    let issuer =
        FakeAuthorizationServer::new(ISSUER).protects("https://mcp.example/a").protects("https://mcp.example/b");
    let mut sim = Sim::new(7)
        .with_server("a", FakeServer::modern().tool(FakeTool::new("x")), Link::default())
        .with_server("b", FakeServer::legacy().tool(FakeTool::new("y")), Link::default())
        .with_authorization_server(
            "as",
            issuer.always(Endpoint::Authorization, Reply::Late(seconds(90))),
            Link::default(),
        );
    let node = sim.add_hub(Collector::new(hub));
    sim.tell(node, |now, hub| hub.configure(now, servers)).unwrap().unwrap();
    sim.tell(node, |now, hub| hub.open(now)).unwrap().unwrap();
    sim.run_for(seconds(100)).unwrap();
    assert_eq!(at_hub(&sim).received(&Endpoint::Authorization), 2);
    sim.run_for(seconds(100)).unwrap();
    for name in ["mcp_a_x", "mcp_b_y"] {
        sim.tell(node, |now, hub| hub.call(now, name, None).map(drop)).unwrap().unwrap();
    }
    sim.run_for(seconds(5)).unwrap();
    assert_eq!((sim.server("a").unwrap().tool_runs("x"), sim.server("b").unwrap().tool_runs("y")), (1, 1));
    let events = &sim.get(node).unwrap().oauth;
    let is_authorized = |action: &OAuthAction| matches!(action, OAuthAction::Event(OAuthEvent::Authorized(_)));
    assert_eq!(events.iter().filter(|(_, action)| is_authorized(action)).count(), 2);
}

fn at_hub(sim: &Sim<Collector<Hub>>) -> &FakeAuthorizationServer {
    sim.authorization_server("as").unwrap()
}

#[test]
fn an_authorization_server_that_is_nowhere_is_not_reached_and_what_went_there_is_kept() {
    let named = Reply::With(json!({"authorization_servers": ["https://nowhere.example"]}));
    let (mut sim, node) = world(issuer().always(Endpoint::ResourceMetadata, named), options(|_| {}));
    // Metadata without a response is requested again, three times at most.
    sim.run_for(seconds(30)).unwrap();
    assert!(sim.get(node).unwrap().failure().contains("no such server"), "{}", sim.get(node).unwrap().failure());
    assert_eq!(sim.strays()[0].url, "https://nowhere.example/.well-known/oauth-authorization-server");
    assert_eq!(sim.strays()[0].secrets().count(), 0);
}

#[test]
fn a_protection_moves_to_another_authorization_server() {
    let server = FakeServer::modern().tool(FakeTool::new("a"));
    let mut sim = Sim::new(7)
        .with_server("s", server, Link::default())
        .with_authorization_server("as", issuer(), Link::default())
        .with_authorization_server("as2", FakeAuthorizationServer::new(OTHER), Link::default());
    let node = sim.add("s", Host::new(options(|_| {}), &Store::default()));
    sim.tell(node, |now, host| host.client.open(now)).unwrap().unwrap();
    sim.run_for(seconds(70)).unwrap();
    sim.change_authorization_server("as", |issuer| issuer.unprotect(URL));
    sim.change_authorization_server("as2", |issuer| issuer.protect(URL));
    assert!(call(&mut sim, node));
    assert_eq!(at(&sim, "as").received(&Endpoint::Refresh) + at(&sim, "as2").received(&Endpoint::Refresh), 0);
    assert_eq!(at(&sim, "as2").received(&Endpoint::Authorization), 1);
}

/// A request with a form.
fn post(url: &str, params: &[(&str, &str)]) -> http::request::Request<Vec<u8>> {
    let body = params.iter().map(|(name, value)| format!("{name}={}", value.replace('+', "%2B"))).collect::<Vec<_>>();
    let request = http::Request::post(url).header("content-type", "application/x-www-form-urlencoded");
    request.body(body.join("&").into_bytes()).unwrap()
}

fn answer(issuer: &mut FakeAuthorizationServer, request: &http::Request<Vec<u8>>) -> (u16, Value) {
    let response = issuer.answer(Time::ZERO, request).unwrap();
    (response.status().as_u16(), serde_json::from_slice(response.body()).unwrap_or_default())
}

/// A request for a token, as a form.
fn form(issuer: &mut FakeAuthorizationServer, url: &str, params: &[(&str, &str)]) -> (u16, Value) {
    answer(issuer, &post(url, params))
}

/// The parameters of a code that a client without a secret redeems.
fn redeems<'a>(client: &'a str, code: &'a str) -> [(&'a str, &'a str); 6] {
    [
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", "my-app:/back"),
        ("code_verifier", VERIFIER),
        ("client_id", client),
        ("resource", URL),
    ]
}

/// A request to the MCP server with a token.
fn with_token(token: &str) -> http::Request<Vec<u8>> {
    http::Request::post(URL).header("authorization", format!("Bearer {token}")).body(vec![]).unwrap()
}

/// A JWT that nobody signed.
fn jwt(header: &Value, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.signature", part(header), part(claims))
}

const VERIFIER: &str = "a-verifier-of-forty-three-characters-or-more";
/// The SHA-256 of the verifier.
const CHALLENGE: &str = "y5UF_tmp_ICTDGza-Ou2vUvx2cu7DBN-Xwf_z0RDfTw";

fn authorize(issuer: &mut FakeAuthorizationServer, changes: &[(&str, &str)]) -> Option<String> {
    let mut params = vec![
        ("response_type", "code"),
        ("client_id", "app"),
        ("redirect_uri", "my-app:/back"),
        ("code_challenge", CHALLENGE),
        ("code_challenge_method", "S256"),
        ("state", "s"),
        ("resource", URL),
    ];
    for (name, value) in changes {
        params.retain(|(known, _)| known != name);
        params.push((name, value));
    }
    let query: Vec<_> = params.iter().map(|(name, value)| format!("{name}={value}")).collect();
    issuer.browse(Time::ZERO, &format!("{ISSUER}/authorize?{}", query.join("&")))
}

#[test]
fn the_server_verifies_what_it_receives() {
    let mut server = issuer().client("app").client("other");
    let url = format!("{ISSUER}/token");
    let token = |server: &mut _, changes: &[(&str, &str)]| {
        let mut params = redeems("app", "code1-as.example").to_vec();
        for (name, value) in changes {
            params.retain(|(known, _)| known != name);
            params.push((name, value));
        }
        let (status, body) = form(server, &url, &params);
        (status, body["error"].as_str().unwrap_or("none").to_owned())
    };
    let redirect = authorize(&mut server, &[]).unwrap();
    assert!(redirect.starts_with("my-app:/back?") && redirect.contains("code=code1-as.example"), "{redirect}");
    assert!(redirect.contains("state=s") && redirect.contains("iss=https%3A%2F%2Fas.example"), "{redirect}");
    // Each attempt uses up its code.
    for (number, (changes, error)) in [
        (&[("code", "x")][..], "invalid_grant"),
        (&[("client_id", "nobody")], "invalid_client"),
        (&[("grant_type", "password")], "unsupported_grant_type"),
        (&[("grant_type", "client_credentials")], "unauthorized_client"),
        (&[("resource", "https://evil.example/")], "invalid_target"),
        (&[("client_id", "other")], "invalid_grant"),
        (&[("redirect_uri", "my-app:/other")], "invalid_grant"),
        (&[("code_verifier", "another")], "invalid_grant"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut server = server.clone();
        assert_eq!(token(&mut server, changes).1, error, "{changes:?}");
        let left = if number < 5 { "none" } else { "invalid_grant" };
        assert_eq!(token(&mut server, &[]).1, left, "{changes:?}");
    }
    // A code comes again: what was issued for it is revoked.
    assert_eq!(token(&mut server, &[]), (200, "none".into()));
    let refresh = |server: &mut _, token: &str| {
        let params =
            [("grant_type", "refresh_token"), ("refresh_token", token), ("client_id", "app"), ("resource", URL)];
        form(server, &url, &params)
    };
    let mut again = server.clone();
    assert_eq!(token(&mut again, &[]), (400, "invalid_grant".into()));
    assert_eq!(refresh(&mut again, "rt1-as.example").1["error"], "invalid_grant");
    // So it is with a refresh token.
    assert_eq!(refresh(&mut server, "rt1-as.example").1["refresh_token"], "rt2-as.example");
    assert_eq!(refresh(&mut server, "rt1-as.example").1["error"], "invalid_grant");
    assert_eq!(refresh(&mut server, "rt2-as.example").1["error"], "invalid_grant");
}

#[test]
fn the_authorization_endpoint_redirects_only_where_the_client_is() {
    let register = |uri: &str| {
        let body = json!({"redirect_uris": [uri], "token_endpoint_auth_method": "none"}).to_string();
        let mut server = issuer();
        let request = http::Request::post(format!("{ISSUER}/register")).body(body.into_bytes()).unwrap();
        assert_eq!(server.answer(Time::ZERO, &request).unwrap().status(), 201);
        server
    };
    for (known, asked, redirects) in [
        ("https://app.example/back", "https://app.example/back", true),
        ("https://app.example/back", "https://app.example:444/back", false),
        ("http://127.0.0.1:1/back", "http://127.0.0.1:2/back", true),
        ("http://127.0.0.1/back", "http://127.0.0.1:2/back", true),
        ("http://[::1]:1/back", "http://[::1]/back", true),
        ("http://127.0.0.1:1/back", "http://127.0.0.1:1/other", false),
        ("http://127.0.0.1:1/back", "http://localhost:1/back", false),
        ("my-app:/back", "my-app:/other", false),
    ] {
        let redirect = authorize(&mut register(known), &[("client_id", "client1"), ("redirect_uri", asked)]);
        assert_eq!(redirect.is_some(), redirects, "{known} {asked}");
    }
    let mut server = issuer().client("app");
    assert_eq!(authorize(&mut server, &[("client_id", "nobody")]), None);
    assert!(authorize(&mut server, &[("client_id", "https://app.example/client.json")]).is_some());
    for (changes, error) in [
        (&[("response_type", "token")][..], "error=unsupported_response_type"),
        (&[("code_challenge", "")], "error=invalid_request"),
        (&[("code_challenge_method", "plain")], "error=invalid_request"),
        (&[("resource", "https://evil.example")], "error=invalid_target"),
    ] {
        let redirect = authorize(&mut server, changes).unwrap();
        assert!(redirect.contains(error) && redirect.contains("state=s") && redirect.contains("iss="), "{redirect}");
    }
}

#[test]
fn a_client_that_registers_authenticates_as_the_answer_says() {
    let is_of = |method: &str| json!({"redirect_uris": ["my-app:/back"], "token_endpoint_auth_method": method});
    let not_any = "unauthorized_client";
    for (asked, reply, without, with) in [
        (is_of("none"), Reply::Normal, not_any, not_any),
        (json!({"redirect_uris": ["my-app:/back"]}), Reply::Normal, "invalid_client", "none"),
        (is_of("client_secret_post"), Reply::Normal, "invalid_client", "none"),
        (is_of("private_key_jwt"), Reply::Normal, "invalid_client", "invalid_client"),
        (is_of("tls_client_auth"), Reply::Normal, not_any, not_any),
        (is_of("none"), Reply::With(json!({"client_secret": "own"})), not_any, not_any),
        (
            is_of("none"),
            Reply::With(json!({"token_endpoint_auth_method": "private_key_jwt"})),
            "invalid_client",
            "invalid_client",
        ),
    ] {
        let mut server = issuer().script(Endpoint::Registration, [reply]);
        let register = http::Request::post(format!("{ISSUER}/register")).body(asked.to_string().into_bytes()).unwrap();
        assert_eq!(answer(&mut server, &register).0, 201);
        let params = [("grant_type", "client_credentials"), ("client_id", "client1"), ("resource", URL)];
        let mut token = |params: &[_]| {
            let (_, body) = form(&mut server, &format!("{ISSUER}/token"), params);
            body["error"].as_str().unwrap_or("none").to_owned()
        };
        assert_eq!(token(&params), without, "{asked}");
        assert_eq!(token(&[&params[..], &[("client_secret", "cs1-as.example")]].concat()), with, "{asked}");
    }
}

#[test]
fn a_token_has_the_scopes_that_are_asked_for_and_its_life() {
    let mut server = issuer().client("app");
    let url = format!("{ISSUER}/token");
    for (number, (changes, scope)) in
        [(&[][..], Value::Null), (&[("scope", "read")], json!("read"))].into_iter().enumerate()
    {
        authorize(&mut server, changes).unwrap();
        let code = format!("code{}-as.example", number + 1);
        assert_eq!(form(&mut server, &url, &redeems("app", &code)).1["scope"], scope);
    }
    let life = Duration::from_secs(3600);
    let request = with_token("at1-as.example");
    let earlier = Time::ZERO + (life - Duration::from_millis(1));
    assert!(server.answer(earlier, &request).is_none(), "the MCP server answers");
    assert_eq!(server.answer(Time::ZERO + life, &request).unwrap().status(), 401);
}

#[test]
fn an_assertion_authenticates_the_client_that_has_the_key_once() {
    let claims = |iss: &str, sub: &str, aud: &str| jwt(&json!({}), &json!({"iss": iss, "sub": sub, "aud": aud}));
    for (assertion, result) in [
        (claims("signs", "signs", ISSUER), Value::Null),
        (claims("app", "signs", ISSUER), json!("invalid_client")),
        (claims("app", "app", ISSUER), json!("invalid_client")),
        (claims("nobody", "nobody", ISSUER), json!("invalid_client")),
        (claims("signs", "signs", OTHER), json!("invalid_client")),
    ] {
        let mut server = issuer().client_with_key("signs").client_with_secret("app", "app-secret");
        let mut token = || {
            let params = [("grant_type", "client_credentials"), ("client_assertion", &*assertion), ("resource", URL)];
            form(&mut server, &format!("{ISSUER}/token"), &params).1["error"].clone()
        };
        assert_eq!((token(), token()), (result, json!("invalid_client")));
    }
}

#[test]
fn a_grant_of_an_assertion_is_one_that_the_server_accepts_or_is_for_it_once() {
    let is_for = |audience: &str| jwt(&json!({}), &json!({"aud": audience}));
    let (refused, accepted) = (json!("invalid_grant"), Value::Null);
    for (assertion, first, second) in [
        ("known".to_owned(), &accepted, &accepted),
        ("unknown".to_owned(), &refused, &refused),
        (is_for(ISSUER), &accepted, &refused),
        (is_for(OTHER), &refused, &refused),
    ] {
        let mut server = issuer().client("app").accepts("known");
        let grant = "urn:ietf:params:oauth:grant-type:jwt-bearer";
        let params = [("grant_type", grant), ("assertion", &*assertion), ("client_id", "app"), ("resource", URL)];
        let mut token = || form(&mut server, &format!("{ISSUER}/token"), &params).1["error"].clone();
        assert_eq!((&token(), &token()), (first, second), "{assertion}");
    }
}

#[test]
fn a_refresh_token_is_of_its_client_and_revoked_with_what_descends_from_it() {
    let by_document = "https://app.example/client.json";
    let mut server = issuer().client("app");
    let url = format!("{ISSUER}/token");
    for (number, client) in ["app", by_document].into_iter().enumerate() {
        authorize(&mut server, &[("client_id", client)]).unwrap();
        assert_eq!(form(&mut server, &url, &redeems(client, &format!("code{}-as.example", number + 1))).0, 200);
    }
    let refresh = |client| {
        let token = ("refresh_token", "rt1-as.example");
        post(&url, &[("grant_type", "refresh_token"), token, ("client_id", client), ("resource", URL)])
    };
    assert_eq!(answer(&mut server, &refresh(by_document)).1["error"], "invalid_grant");
    let revoke = |client| post(&format!("{ISSUER}/revoke"), &[("token", "rt1-as.example"), ("client_id", client)]);
    assert_eq!(answer(&mut server, &revoke(by_document)).0, 200);
    assert!(server.answer(Time::ZERO, &with_token("at1-as.example")).is_none(), "it is of another client");
    assert_eq!(answer(&mut server, &revoke("app")).0, 200);
    assert_eq!(answer(&mut server, &refresh("app")).1["error"], "invalid_grant");
    assert_eq!(answer(&mut server, &with_token("at1-as.example")).0, 401);
    assert!(server.answer(Time::ZERO, &with_token("at2-as.example")).is_none(), "it does not descend from it");
}

#[test]
fn a_proof_is_for_its_request_and_has_the_nonce_that_is_demanded() {
    let url = format!("{ISSUER}/token");
    let mut server = issuer().client_with_secret("app", "app-secret");
    let mut token = |claims: &Value| {
        let params = [("grant_type", "client_credentials"), ("client_id", "app"), ("client_secret", "app-secret")];
        let mut request = post(&url, &[&params[..], &[("resource", URL)]].concat());
        let proof = jwt(&json!({"typ": "dpop+jwt", "jwk": {"kty": "EC"}}), claims);
        request.headers_mut().insert("dpop", proof.parse().unwrap());
        let response = server.answer(Time::ZERO, &request).unwrap();
        let body: Value = serde_json::from_slice(response.body()).unwrap();
        let nonce = response.headers().get("dpop-nonce").map(|nonce| nonce.to_str().unwrap().to_owned());
        if body["error"].is_null() {
            // The next one needs a nonce.
            server.add_script(Endpoint::Token, [Reply::error(400, "use_dpop_nonce")]);
            server.answer(Time::ZERO, &request);
        }
        (body["error"].as_str().or(body["token_type"].as_str()).unwrap().to_owned(), nonce)
    };
    let invalid = || ("invalid_dpop_proof".into(), None);
    assert_eq!(token(&json!({"htm": "GET", "htu": url, "jti": "1"})), invalid());
    assert_eq!(token(&json!({"htm": "POST", "htu": ISSUER, "jti": "1"})), invalid());
    assert_eq!(token(&json!({"htm": "POST", "htu": url, "jti": "1"})), ("DPoP".into(), None));
    let demands = ("use_dpop_nonce".into(), Some("nonce1".into()));
    assert_eq!(token(&json!({"htm": "POST", "htu": url, "jti": "2"})), demands);
    assert_eq!(token(&json!({"htm": "POST", "htu": url, "jti": "2", "nonce": "nonce0"})), demands);
    assert_eq!(token(&json!({"htm": "POST", "htu": url, "jti": "2", "nonce": "nonce1"})), ("DPoP".into(), None));
}

#[test]
fn metadata_is_at_each_place_that_the_specifications_name() {
    let get = |place: &str| http::Request::get(format!("{ISSUER}{place}")).body(vec![]).unwrap();
    let (server, openid) = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration");
    for (path, places, others) in [
        ("", vec![server.into(), openid.into()], vec![format!("{server}/tenant")]),
        (
            "/tenant",
            vec![format!("{server}/tenant"), format!("{openid}/tenant"), format!("/tenant{openid}")],
            vec![server.into(), openid.into(), format!("/tenant{server}")],
        ),
    ] {
        let mut issuer = FakeAuthorizationServer::new(&format!("{ISSUER}{path}"));
        for place in places {
            assert_eq!(answer(&mut issuer, &get(&place)).1["issuer"], format!("{ISSUER}{path}"), "{place}");
        }
        for place in others {
            assert_eq!(answer(&mut issuer, &get(&place)).0, 404, "{place}");
        }
    }
}

#[test]
fn what_came_is_known_by_its_url_and_its_parameters() {
    let mut server = issuer().client("app");
    let url = format!("{ISSUER}/token");
    form(&mut server, &format!("{url}?a=1"), &[]);
    for (url, count) in [(format!("{url}?a=1"), 1), (url.clone(), 1), (format!("{url}/"), 1), (format!("{url}?a=2"), 0)]
    {
        assert_eq!(server.received(&Endpoint::url(&url)), count, "{url}");
    }
    let body = json!({"redirect_uris": ["my-app:/back"], "client_name": "suite"}).to_string();
    let register = http::Request::post(format!("{ISSUER}/register")).body(body.into_bytes()).unwrap();
    assert_eq!(answer(&mut server, &register).0, 201);
    let last = server.requests().next_back().unwrap();
    assert_eq!((last.param("client_name"), last.param("redirect_uris")), (Some("suite"), Some(r#"["my-app:/back"]"#)));
    // The verifiers of all authorization requests are its own.
    authorize(&mut server, &[]).unwrap();
    authorize(&mut server, &[("code_challenge", "another")]).unwrap();
    assert!(server.owns(VERIFIER) && !server.owns("another"));
}

#[test]
fn the_metadata_of_an_mcp_server_comes_over_the_link_of_that_server() {
    let mut sim = Sim::new(7).with_server("s", FakeServer::modern(), Link::new(seconds(1))).with_authorization_server(
        "as",
        issuer(),
        Link::new(Duration::from_millis(1)),
    );
    let node = sim.add("s", Host::new(options(|_| {}), &Store::default()));
    sim.tell(node, |now, host| host.client.open(now)).unwrap().unwrap();
    sim.run_for(seconds(5)).unwrap();
    let came = at(&sim, "as").requests().take(3).map(|it| (it.endpoint.clone().unwrap(), it.at.as_millis()));
    let expected = [(Endpoint::Resource, 1000), (Endpoint::ResourceMetadata, 3000), (Endpoint::ServerMetadata, 4001)];
    assert_eq!(came.collect::<Vec<_>>(), expected);
}

#[test]
fn a_request_to_the_origin_of_the_issuer_comes_to_it_although_nothing_is_there() {
    let elsewhere = format!("{ISSUER}/elsewhere");
    let named = Reply::With(json!({"registration_endpoint": elsewhere}));
    let (mut sim, _) = world(issuer().always(Endpoint::ServerMetadata, named), options(|_| {}));
    sim.run_for(seconds(5)).unwrap();
    assert_eq!(at(&sim, "as").received(&Endpoint::url(&elsewhere)), 1);
    assert_eq!(sim.strays(), []);
}

#[test]
fn a_torn_response_fails_at_once() {
    let (mut sim, node) = world(issuer().always(Endpoint::Registration, Reply::Torn), options(|_| {}));
    sim.run_for(seconds(5)).unwrap();
    assert!(sim.get(node).unwrap().failure().contains("at registration"), "{}", sim.get(node).unwrap().failure());
}

#[test]
fn what_a_client_does_against_the_protocol_is_noted() {
    let mut server = issuer().client("app");
    authorize(&mut server, &[("state", "")]);
    form(&mut server, &format!("{ISSUER}/register"), &[("client_secret", "x")]);
    form(&mut server, &format!("{ISSUER}/token?code=x"), &[("client_id", "app")]);
    let get = |url: &str| http::Request::get(url).body(vec![]).unwrap();
    assert_eq!(server.answer(Time::ZERO, &get(&format!("{ISSUER}/token"))).unwrap().status(), 405);
    assert_eq!(server.answer(Time::ZERO, &get(&format!("{ISSUER}/elsewhere"))).unwrap().status(), 404);
    assert_eq!(
        server.violations(),
        [
            "GET https://as.example/authorize: there is no `state`",
            "POST https://as.example/register: `client_secret` where it does not belong",
            "POST https://as.example/token: `code` in the URL",
            "POST https://as.example/token: there is no `resource`",
            "GET https://as.example/token: the body is not a form",
        ]
    );
    for _ in 0..300 {
        authorize(&mut server, &[("state", "")]);
    }
    assert_eq!(server.violations().len(), 256);
}

#[test]
fn a_fake_server_answers_with_other_members_and_redirects() {
    let tools = Reply::With(json!({"nextCursor": "x", "ttlMs": null}));
    let mut server = FakeServer::modern().tool(FakeTool::new("a")).script(On::method("tools/list"), [tools]);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}});
    let answers = server.answer(&request);
    let result = &answers[0]["result"];
    assert_eq!(
        (&result["nextCursor"], result.get("ttlMs"), &result["tools"][0]["name"]),
        (&json!("x"), None, &json!("a"))
    );
    // Scripts come before what is always replied, whichever was added first.
    let mut server = FakeServer::modern().always(On::method("tools/list"), Reply::Silent);
    server.add_script(On::method("tools/list"), [Reply::error(-1, "once")]);
    assert_eq!(server.answer(&request)[0]["error"]["message"], "once");
    assert!(server.answer(&request).is_empty());
    // A redirect, which the client follows.
    let server = FakeServer::modern().tool(FakeTool::new("a"));
    let moved = [Reply::status(307, "https://mcp.example/mcp/moved")];
    let (mut sim, node) = world_with(server.script(On::tool("a"), moved), issuer(), options(|_| {}));
    sim.run_for(seconds(61)).unwrap();
    assert!(call(&mut sim, node));
    assert!(came(at(&sim, "as"), "access_token").iter().any(|(_, url)| url.ends_with("/mcp/moved")));
}

#[derive(Clone, Debug)]
enum Step {
    /// A script of one of the authorization servers.
    Script(usize, Endpoint, Vec<Reply>),
    Fault(usize, Fault),
    Call,
    Wait(u64),
    Expire(usize),
    Revoke(usize),
    /// The MCP server names this authorization server.
    Move(usize),
    /// It names this one, which claims to be the other.
    Claim(usize),
    /// The metadata of the MCP server is absent or has an outage, or it is there again.
    Metadata(Option<u16>),
    /// So it is with one place of the metadata of an authorization server.
    Place(usize, usize, Option<u16>),
    SignOut,
    Authorize,
    /// Another process continues with the store.
    Restart,
}

const NAMES: [&str; 3] = ["as", "as2", "s"];

/// The authorization servers; the last one is where the conventions of 2025-03-26 lead.
const ISSUERS: [(&str, &str); 3] = [("as", ISSUER), ("as2", OTHER), ("origin", "https://mcp.example")];

/// Its metadata says that it is the first authorization server.
const ALIAS: &str = "https://alias.example";

/// The embedder's client.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Dynamic,
    /// One with a secret.
    Registered,
    /// One with a secret whose issuer is not named.
    Unnamed,
    /// One with a secret at each authorization server.
    RegisteredTwice,
    /// As `Registered`, where the alias may say that it is the first authorization server.
    Trusting,
    /// As `Registered`, without a user.
    Credentials,
    /// An assertion.
    Assertion,
}

/// What has an outage at most and is never absent, so that the conventions of 2025-03-26 do not apply.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Never {
    /// The metadata of the MCP server.
    Resource,
    /// The metadata of an authorization server at its origin, which has an outage from the beginning to the end.
    Origin([u16; 2]),
    Nothing,
}

fn never() -> impl Strategy<Value = Never> {
    let outages = prop::sample::select(vec![[503, 404], [404, 429], [503, 503]]);
    prop_oneof![Just(Never::Resource), outages.prop_map(Never::Origin), Just(Never::Nothing)]
}

fn kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(vec![
        Kind::Dynamic,
        Kind::Registered,
        Kind::Unnamed,
        Kind::RegisteredTwice,
        Kind::Trusting,
        Kind::Credentials,
        Kind::Assertion,
    ])
}

/// A place of the metadata of an authorization server.
fn place(server: usize, place: usize) -> Endpoint {
    let name = ["oauth-authorization-server", "openid-configuration"][place];
    Endpoint::url(&format!("{}/.well-known/{name}", ISSUERS[server].1))
}

pub(super) fn endpoint() -> impl Strategy<Value = Endpoint> {
    prop::sample::select(vec![
        Endpoint::ResourceMetadata,
        Endpoint::ServerMetadata,
        Endpoint::OpenIdMetadata,
        Endpoint::Registration,
        Endpoint::Authorization,
        Endpoint::Token,
        Endpoint::Refresh,
        Endpoint::Revocation,
        Endpoint::Resource,
        Endpoint::url("https://mcp.example/.well-known/oauth-protected-resource/mcp"),
    ])
}

pub(super) fn reply() -> impl Strategy<Value = Reply> {
    let others = [
        json!({"issuer": OTHER}),
        json!({"authorization_servers": [OTHER, ISSUER]}),
        json!({"authorization_servers": [ALIAS]}),
        json!({"resource": OTHER}),
    ];
    let redirects = [json!({"iss": OTHER}), json!({"iss": null}), json!({"state": "x"}), json!({"code": null})];
    let tokens = [
        json!({"expires_in": 40}),
        json!({"refresh_token": null}),
        json!({"scope": "x"}),
        json!({"token_endpoint_auth_method": "client_secret_post"}),
        json!({"code_challenge_methods_supported": null}),
    ];
    let with = others.into_iter().chain(redirects).chain(tokens).map(Reply::With).collect::<Vec<_>>();
    let pages = [(200, "<html>"), (404, ""), (401, ""), (403, ""), (408, ""), (429, ""), (500, ""), (503, "")];
    let pages = pages.map(|(status, text)| Reply::status(status, text)).to_vec();
    let errors = ["invalid_grant", "invalid_client", "invalid_scope", "temporarily_unavailable", "access_denied"];
    let errors = errors.map(|error| Reply::error(400, error)).to_vec();
    let broken = vec![Reply::Silent, Reply::Dies, Reply::Torn, Reply::DiesFirst, Reply::Late(seconds(45))];
    prop_oneof![
        prop::sample::select(with),
        prop::sample::select(pages),
        prop::sample::select(errors),
        prop::sample::select(broken)
    ]
}

/// `None` if the metadata is there.
fn status() -> impl Strategy<Value = Option<u16>> {
    prop::sample::select(vec![None, Some(404), Some(429), Some(503)])
}

impl Step {
    /// Whether it may happen in a run.
    fn is_of(&self, never: Never) -> bool {
        let is_resource = |endpoint: &Endpoint| matches!(endpoint, Endpoint::ResourceMetadata | Endpoint::Url(_));
        match (self, never) {
            (Self::Script(_, endpoint, _), Never::Resource) => !is_resource(endpoint),
            (Self::Metadata(status), Never::Resource) => *status != Some(404),
            (Self::Place(at, ..), Never::Origin(_)) => *at != 2,
            _ => true,
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let fault = prop_oneof![
        (1_u64..60).prop_map(|time| Fault::Unreachable(seconds(time))),
        (1_u64..60).prop_map(|time| Fault::Stall(seconds(time))),
        Just(Fault::Cut),
        Just(Fault::Crash),
    ];
    prop_oneof![
        8 => (0_usize..2, endpoint(), prop::collection::vec(reply(), 1..4))
            .prop_map(|(at, endpoint, replies)| Step::Script(at, endpoint, replies)),
        2 => (0_usize..3, fault).prop_map(|(at, fault)| Step::Fault(at, fault)),
        4 => Just(Step::Call),
        4 => (1_u64..900).prop_map(Step::Wait),
        3 => (0_usize..2).prop_map(Step::Expire),
        1 => (0_usize..2).prop_map(Step::Revoke),
        2 => (0_usize..2).prop_map(Step::Move),
        2 => (0_usize..2).prop_map(Step::Claim),
        2 => status().prop_map(Step::Metadata),
        3 => (0..ISSUERS.len(), 0_usize..2, status()).prop_map(|(at, place, status)| Step::Place(at, place, status)),
        1 => Just(Step::SignOut),
        2 => Just(Step::Authorize),
        2 => Just(Step::Restart),
    ]
}

/// What the embedder configured.
fn configured(kind: Kind) -> OAuthOptions {
    let secret = |id: &str, issuer: &str| {
        let mut client = registered(id, Some(&format!("{id}-secret")), None);
        client.issuer = Some(issuer.into()).filter(|_| kind != Kind::Unnamed);
        client
    };
    options(|options| {
        options.stored = true;
        options.registered = match kind {
            Kind::Dynamic => vec![],
            Kind::RegisteredTwice => vec![secret("one", ISSUER), secret("two", OTHER)],
            _ => vec![secret("one", ISSUER)],
        };
        match kind {
            Kind::Trusting => options.tolerance.trusted_issuers.push((ALIAS.into(), ISSUER.into())),
            Kind::Credentials => options.flow = Flow::ClientCredentials,
            Kind::Assertion => options.flow = Flow::JwtBearer(Secret::new("an-assertion")),
            _ => {}
        }
    })
}

/// The MCP server names this authorization server.
fn name_issuer(sim: &mut Sim<Host>, at: usize) {
    for name in &NAMES[..2] {
        sim.change_authorization_server(name, |issuer| issuer.unprotect(URL));
    }
    sim.change_authorization_server(NAMES[at], |issuer| issuer.protect(URL));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn no_secret_leaves_its_issuer_whatever_fails(
        steps in prop::collection::vec(step(), 1..40),
        opens: prop::sample::Index,
        kind in kind(),
        never in never(),
        first in 0_usize..2,
        seed: u64,
    ) {
        if let Err(wrong) = Authorization::new(URL, configured(kind), [1; 32], Time::ZERO, Duration::ZERO) {
            prop_assert_eq!((kind, wrong), (Kind::Unnamed, OAuthConfigError::Issuer));
            return Ok(());
        }
        let alias = json!({
            "issuer": ISSUER, "authorization_endpoint": format!("{ISSUER}/authorize"),
            "token_endpoint": format!("{ISSUER}/token"), "code_challenge_methods_supported": ["S256"],
        });
        let place_of_alias = Endpoint::url(&format!("{ALIAS}/.well-known/oauth-authorization-server"));
        // Each takes the client of the other, without a secret.
        let one = issuer().client_with_secret("one", "one-secret").client("two").accepts("an-assertion");
        let one = one.always(place_of_alias, Reply::Result(alias));
        let two = FakeAuthorizationServer::new(OTHER).client_with_secret("two", "two-secret").client("one");
        let mut origin = FakeAuthorizationServer::new(ISSUERS[2].1).client("one").client("two");
        if let Never::Origin(statuses) = never {
            for (at, status) in statuses.into_iter().enumerate() {
                origin.set_always(place(2, at), Reply::status(status, ""));
            }
        }
        let mut sim = Sim::new(seed)
            .with_server("s", FakeServer::legacy().tool(FakeTool::new("a")), Link::default().cuts_per_mille(5))
            .with_authorization_server("origin", origin, Link::default())
            .with_authorization_server("as", one, Link::default().piece(50).cuts_per_mille(5))
            .with_authorization_server("as2", two, Link::new(Duration::from_millis(90)));
        let store = Store::default();
        let mut node = sim.add("s", Host::new(configured(kind), &store));
        name_issuer(&mut sim, first);
        let opens = opens.index(steps.len());
        for (at, step) in steps.into_iter().enumerate() {
            if at == opens {
                sim.tell(node, |now, host| host.client.open(now).ok());
            }
            match step {
                step if !step.is_of(never) => {}
                Step::Script(at, endpoint, replies) => {
                    sim.change_authorization_server(NAMES[at], |issuer| issuer.add_script(endpoint, replies));
                }
                Step::Fault(at, fault) => sim.fault(NAMES[at], fault),
                Step::Call => {
                    sim.tell(node, |now, host| host.client.request(now, Request::call_tool("a", None)).ok());
                }
                Step::Wait(time) => sim.run_for(seconds(time))?,
                Step::Expire(at) => {
                    sim.change_authorization_server(NAMES[at], FakeAuthorizationServer::expire_tokens);
                }
                Step::Revoke(at) => {
                    sim.change_authorization_server(NAMES[at], FakeAuthorizationServer::revoke_tokens);
                }
                Step::Move(at) => name_issuer(&mut sim, at),
                Step::Claim(at) => {
                    let other = [OTHER, ISSUER][at];
                    sim.change_authorization_server(NAMES[at], |issuer| {
                        issuer.set_always(Endpoint::ServerMetadata, Reply::With(json!({"issuer": other})));
                        issuer.set_always(Endpoint::Authorization, Reply::With(json!({"iss": other})));
                    });
                    name_issuer(&mut sim, at);
                }
                Step::Metadata(status) => {
                    let reply = status.map_or(Reply::Normal, |status| Reply::status(status, ""));
                    for name in ["as", "as2"] {
                        let reply = reply.clone();
                        sim.change_authorization_server(name, |it| it.set_always(Endpoint::ResourceMetadata, reply));
                    }
                }
                Step::Place(at, place, status) => {
                    let reply = status.map_or(Reply::Normal, |status| Reply::status(status, ""));
                    let place = self::place(at, place);
                    sim.change_authorization_server(ISSUERS[at].0, |issuer| issuer.set_always(place, reply));
                }
                Step::SignOut => {
                    sim.tell(node, |now, host| host.client.handle_oauth(now, OAuthInput::SignOut));
                }
                Step::Authorize => {
                    sim.tell(node, |now, host| host.client.handle_oauth(now, OAuthInput::Authorize));
                }
                Step::Restart => {
                    // A process that ends answers nothing more.
                    sim.tell(node, |now, host| host.client.close(now).ok());
                    sim.run_for(seconds(100))?;
                    node = sim.add("s", Host::at(sim.now(), configured(kind), &store));
                    sim.tell(node, |now, host| host.client.open(now)).unwrap().unwrap();
                }
            }
            sim.run_for(seconds(1))?;
        }
        sim.run_for(seconds(3000))?;
        for issuer in sim.authorization_servers() {
            for request in issuer.requests() {
                for (name, secret) in request.secrets() {
                    // An access token belongs to its resource, whichever server issued it.
                    let is_right = if name == "access_token" {
                        request.url == URL && sim.authorization_servers().any(|issuer| issuer.owns(secret))
                    } else {
                        request.url.starts_with(issuer.issuer()) && issuer.owns(secret)
                    };
                    prop_assert!(is_right, "{name} {secret} came to {}", request.url);
                }
            }
            let noted = issuer.violations();
            prop_assert!(noted.is_empty(), "{noted:?}");
        }
        prop_assert_eq!(sim.strays().iter().flat_map(Received::secrets).count(), 0);
        let is_metadata = |endpoint: &Endpoint| matches!(endpoint, Endpoint::ServerMetadata | Endpoint::OpenIdMetadata);
        let mut assumed = at(&sim, "origin").requests().filter(|it| !it.endpoint.as_ref().is_some_and(is_metadata));
        prop_assert!(never == Never::Nothing || assumed.next().is_none(), "an authorization server is assumed in an outage");
    }
}
