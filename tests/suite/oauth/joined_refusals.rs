//! A client that authorizes itself: which of several refused requests is sent again, how often, and what they end with.

use std::cell::RefCell;
use std::rc::Rc;

use mcp_proto::binding::oauth::{ClientAuth, OAuthInput};
use mcp_proto::{Event, FailureKind, Family, Keepalive, Recovery, Request};

use crate::web::{Exchange, Reply, modern_site};

use super::extensions::claims;
use super::joined::{Joined, MCP, forbid, refused, serve_store, signed_in};
use super::joined_proofs;
use super::*;

/// The authorization server answers everything, and its answers do not lead to answers of the MCP server.
fn answer_all(it: &mut Joined) {
    while !it.sent.is_empty() {
        it.issue();
    }
}

fn demand_nonce(it: &mut Joined, exchange: &Exchange, nonce: &str) {
    let reply = Reply::text(401, "no").with("www-authenticate", "DPoP error=\"use_dpop_nonce\"");
    it.web.reply(exchange, reply.with("dpop-nonce", nonce));
    it.take();
    joined_proofs::sign(it);
}

#[test]
fn a_call_that_waits_for_scopes_is_not_sent_again_for_the_nonce_of_another() {
    let mut it = joined_proofs::ready();
    let waiting = it.web.request(Request::call_tool("a", None));
    it.take();
    joined_proofs::sign(&mut it);
    let exchange = it.web.take_named("tools/call");
    forbid(&mut it, &exchange, "write");
    answer_all(&mut it);
    assert!(it.browse.is_some());
    let other = it.web.request(Request::call_tool("b", None));
    it.take();
    joined_proofs::sign(&mut it);
    let exchange = it.web.take_named("tools/call");
    demand_nonce(&mut it, &exchange, "n1");
    assert_eq!(it.web.take_named("tools/call").json()["params"]["name"], "b");
    assert!(it.web.take().is_empty());
    assert_eq!((it.web.outcome(waiting).as_str(), it.web.outcome(other).as_str()), ("open", "open"));
    // The user authorizes, and the call goes on.
    it.consent();
    joined_proofs::sign(&mut it);
    answer_all(&mut it);
    joined_proofs::sign(&mut it);
    it.serve();
    assert_eq!(it.web.outcome(waiting), "Result");
}

#[test]
fn all_that_is_refused_for_its_nonce_is_sent_again_at_once() {
    let mut it = joined_proofs::ready();
    it.web.session.refresh(it.web.now, Family::Tools).unwrap();
    it.web.session.notify(it.web.now, "notifications/custom", None).unwrap();
    it.web.collect();
    it.take();
    joined_proofs::sign(&mut it);
    let exchanges = it.web.take();
    let names: Vec<_> = exchanges.iter().map(Exchange::name).collect();
    for exchange in &exchanges {
        demand_nonce(&mut it, exchange, "n1");
    }
    let again: Vec<_> = it.web.take().iter().map(Exchange::name).collect();
    assert_eq!(again, names);
    assert!(names.contains(&"tools/list".into()) && names.contains(&"notifications/custom".into()));
    assert!(it.log.is_empty() || it.token_requests() == 1);
}

#[test]
fn a_handshake_that_is_refused_for_its_nonce_goes_on_at_once() {
    let demand = |exchange: &Exchange| {
        let proof = exchange.header("dpop")?;
        let reply = || Reply::text(401, "no").with("www-authenticate", "DPoP error=\"use_dpop_nonce\"");
        claims(proof).get("nonce").is_none().then(|| reply().with("dpop-nonce", "n1"))
    };
    let it = joined_proofs::ready_at(modern_site().rule(demand));
    assert_eq!(claims(it.web.last("tools/list").header("dpop").unwrap())["nonce"], "n1");
    assert_eq!(it.token_requests(), 1);
    let refused = it.web.events.iter().any(|event| matches!(event, Event::Unauthorized { .. }));
    assert!(!refused);
}

#[test]
fn a_call_that_waits_ends_when_the_user_signs_out() {
    for forbidden in [false, true] {
        let mut it = Joined::ready(modern_site());
        let (call, exchange) = it.call();
        if forbidden {
            forbid(&mut it, &exchange, "write");
        } else {
            it.web.reply(&exchange, refused());
            it.take();
        }
        assert_eq!(it.web.outcome(call), "open");
        it.input(OAuthInput::SignOut);
        it.assert_refused(call, if forbidden { 403 } else { 401 }, "the user signed out");
        assert!(it.browse.is_none());
        // A client that has no request that waits reports nothing.
        it.events.clear();
        it.input(OAuthInput::SignOut);
        assert!(it.events.is_empty(), "{:?}", it.events);
    }
}

/// A token that it never accepted is not refreshed: the user is asked.
#[test]
fn a_server_that_accepts_no_token_leads_to_the_user() {
    let mut it = Joined::ready(modern_site().on("tools/call", |_| refused()));
    let tokens = it.token_requests();
    it.call();
    let exchange = it.web.last("tools/call");
    it.web.reply(&exchange, refused());
    it.take();
    it.serve();
    assert!(it.browse.is_some());
    assert_eq!(it.token_requests(), tokens + 1);
}

#[test]
fn a_token_is_not_sent_after_sign_out() {
    let mut it = joined_proofs::ready();
    it.web.session.request(it.web.now, Request::call_tool("a", None)).unwrap();
    it.web.collect();
    it.take();
    let request = it.signs.pop_front().unwrap();
    // The request has its proof, and was not polled yet.
    it.web.session.handle_oauth(it.web.now, OAuthInput::Signature { id: request.id, signature: b"signature" });
    it.web.session.handle_oauth(it.web.now, OAuthInput::SignOut);
    it.web.collect();
    it.take();
    let exchange = it.web.take_named("tools/call");
    assert_eq!((exchange.header("authorization"), exchange.header("dpop")), (None, None));
}

/// Refuses what is sent with this name, each time for other scopes, and has the user consent. Returns how often.
fn forbid_each_time(it: &mut Joined, name: &str) -> usize {
    for at in 0..20 {
        let Some(exchange) = it.web.take().into_iter().find(|exchange| exchange.is(name)) else { return at };
        forbid(it, &exchange, &format!("s{at}"));
        answer_all(it);
        if it.browse.is_none() {
            return at;
        }
        it.consent();
        answer_all(it);
    }
    panic!("the user is asked without an end");
}

#[test]
fn the_user_is_asked_three_times_for_one_list() {
    let mut it = Joined::ready(modern_site());
    it.web.session.refresh(it.web.now, Family::Tools).unwrap();
    it.web.collect();
    assert_eq!(forbid_each_time(&mut it, "tools/list"), 3);
    let error = it.web.session.list_error(Family::Tools).unwrap().to_string();
    assert!(error.contains("forbidden: the scopes `s3` are required"), "{error}");
    assert!(it.web.is_ready());
    // The next one is counted anew.
    it.web.session.refresh(it.web.now, Family::Tools).unwrap();
    it.web.collect();
    let exchange = it.web.take_named("tools/list");
    forbid(&mut it, &exchange, "s4");
    answer_all(&mut it);
    assert!(it.browse.is_some());
}

#[test]
fn the_user_is_asked_three_times_for_one_notification() {
    let mut it = Joined::ready(modern_site());
    let name = "notifications/custom";
    it.web.events.clear();
    it.web.session.notify(it.web.now, name, None).unwrap();
    it.web.collect();
    assert_eq!(forbid_each_time(&mut it, name), 3);
    assert!(it.web.is_ready());
    assert!(it.web.events.is_empty(), "no request is refused: {:?}", it.web.events);
}

#[test]
fn the_user_is_asked_three_times_for_one_call() {
    let mut it = Joined::ready(modern_site());
    let call = it.web.request(Request::call_tool("a", None));
    assert_eq!(forbid_each_time(&mut it, "tools/call"), 3);
    it.assert_refused(call, 403, "forbidden: the scopes `s3` are required");
}

/// A lost connection, and whether the parked client obtains a token.
fn down(event: &Event) -> Option<(FailureKind, &str, Option<bool>)> {
    let Event::Down { failure, next } = event else { return None };
    let authorizes = match next {
        Recovery::Parked { authorizing, .. } => Some(*authorizing),
        _ => None,
    };
    Some((failure.kind, &failure.message, authorizes))
}

#[test]
fn the_user_is_asked_three_times_for_one_handshake() {
    let mut it = Joined::new(modern_site());
    it.serve();
    let mut asked = 0;
    while it.browse.is_some() {
        asked += 1;
        assert!(asked < 20, "the user is asked without an end");
        it.consent();
        answer_all(&mut it);
        let exchange = it.web.take_one();
        forbid(&mut it, &exchange, &format!("s{asked}"));
        answer_all(&mut it);
    }
    assert_eq!(asked, 3);
    let failures: Vec<_> = it.web.events.iter().filter_map(down).collect();
    let (kind, message, authorizes) = failures.last().unwrap();
    assert!(message.contains("the scopes `s3`"), "{message}");
    assert_eq!((kind, authorizes), (&FailureKind::Forbidden, &Some(false)));
    let waits = failures.iter().filter(|(_, _, authorizes)| *authorizes == Some(true)).count();
    assert_eq!(waits, asked, "each time, the client obtains a token");
    it.wait(60);
    answer_all(&mut it);
    assert!(it.browse.is_none() && it.web.take().is_empty());
    // The embedder begins anew.
    it.input(OAuthInput::Authorize);
    answer_all(&mut it);
    it.consent();
    it.serve();
    assert!(it.web.is_ready());
}

#[test]
fn the_stream_of_the_server_waits_for_a_token_three_times() {
    let mut it = Joined::ready(crate::web::site());
    let stream = it.web.last("GET");
    it.web.end(&stream);
    it.wait(10);
    for tokens in 1..=4 {
        let stream = it.web.take_named("GET");
        it.accept();
        it.web.reply(&stream, Reply::text(401, "no").with("www-authenticate", "Bearer"));
        it.take();
        answer_all(&mut it);
        assert_eq!(it.token_requests(), tokens.min(3));
        it.wait(61);
    }
    assert!(it.web.is_ready() && it.web.take().is_empty());
}

#[test]
fn a_token_stays_under_its_resource() {
    for (target, has_token) in [("/mcp/", true), ("/mcp/more", true), ("/mcp-other", false), ("/other", false)] {
        let mut it = Joined::ready(modern_site());
        let (_, exchange) = it.call();
        let location = MCP.replace("/mcp", target);
        it.web.reply(&exchange, Reply::status(307).with("location", &location));
        it.take();
        let again = it.web.take_named("tools/call");
        assert_eq!((again.url(), again.header("authorization").is_some()), (location, has_token));
        // So do later requests, which go to the same place.
        let (_, next) = it.call();
        assert_eq!(next.header("authorization").is_some(), has_token, "{target}");
    }
}

#[test]
fn over_http_with_sse_the_endpoint_that_the_stream_names_gets_the_token_wherever_its_path_lies() {
    let (record, issuer) = signed_in();
    let record = record.unwrap();
    for (resource, endpoint, has_token) in [
        (MCP, "/mcp/messages?session=1", true),
        (MCP, "/messages?session=1", true),
        (MCP, "/mcp-other", true),
        ("http://127.0.0.1:3001", "/messages", true),
    ] {
        let mut json: Value = serde_json::from_slice(&record).unwrap();
        json["resource"] = json!(resource);
        let mut record = Some(json.to_string().into_bytes());
        let issuer = Rc::new(RefCell::new(issuer.clone()));
        let mut it = Joined::build(crate::web::site(), issuer, |options| options.stored = true, |_| {});
        let posted = loop {
            if let Some(action) = it.store.pop_front() {
                serve_store(&mut it, &action, &mut record);
            }
            let exchange = it.web.take().into_iter().next();
            match exchange {
                Some(get) if get.verb() == "GET" => {
                    assert!(get.header("authorization").is_some());
                    it.web.reply(&get, Reply::stream(&format!("event: endpoint\ndata: {endpoint}\n\n")));
                }
                Some(post) if post.url() == MCP => it.web.reply(&post, Reply::status(405)),
                Some(post) => break post,
                None => {}
            }
            it.take();
        };
        assert!(posted.url().ends_with(endpoint));
        assert_eq!(posted.header("authorization").is_some(), has_token, "{resource} {endpoint}");
        // The stream did not name the target of a redirect.
        it.web.reply(&posted, Reply::status(307).with("location", &MCP.replace("/mcp", "/there")));
        it.take();
        let again = it.web.take_named(&posted.name());
        assert_eq!(again.header("authorization").is_some(), resource != MCP, "{resource} {endpoint}");
    }
}

#[test]
fn a_token_that_a_challenge_repeats_is_not_shown_by_the_event() {
    let mut it = Joined::ready(modern_site());
    let (call, exchange) = it.call();
    let challenge = "Bearer error=\"invalid\", error_description=\"at1-hush\", x=at1-hush";
    it.web.reply(&exchange, Reply::text(403, "at1-hush").with("www-authenticate", challenge));
    assert_eq!(it.web.outcome(call), "Error");
    let told = it.web.events.iter().filter_map(|event| match event {
        Event::Unauthorized { challenges, .. } => Some(challenges),
        _ => None,
    });
    let params: Vec<_> = told.flatten().flat_map(|challenge| &challenge.params).collect();
    assert!(!params.is_empty() && params.iter().all(|(_, value)| !value.contains("hush")), "{params:?}");
}

#[test]
fn an_encoded_secret_in_an_error_is_not_shown() {
    for said in [
        "bad request: grant_type=refresh_token&refresh_token=1%2F%2F0gtoken%2Bsecret-hash",
        "bad header: Basic YXBwOmNsaWVudC1zZWNyZXQtaGFzaA==",
        "bad refresh_token 1\\/\\/0gtoken+secret-hash",
    ] {
        let mut rig = Rig::with(|options| {
            let mut client = client_with("client-secret-hash");
            client.auth = Some(ClientAuth::Basic);
            options.registered.push(client);
        });
        let token = json!({
            "access_token": "at1-hush", "token_type": "Bearer", "expires_in": 3600,
            "refresh_token": "1//0gtoken+secret-hash",
        });
        rig.site.tokens.push_back((200, token.to_string()));
        rig.authorize();
        rig.wait(600);
        let _ = rig.refuse(&[]);
        rig.run_to("/token");
        rig.answer(400, &json!({"error": "invalid_request", "error_description": said}).to_string());
        match rig.events.last() {
            Some(OAuthEvent::Failed(error)) => {
                let text = error.to_string();
                assert!(text.contains("[hidden]"), "{text}");
                assert!(!["hash", "2Bsecret", "aGFza"].iter().any(|part| text.contains(part)), "{text}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// 403 without a challenge: no token helps.
fn denied() -> Reply {
    Reply::text(403, "no")
}

fn lacks(scope: &str) -> Reply {
    Reply::text(403, "no").with("www-authenticate", &format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\""))
}

/// The user consents as often as they are asked. Returns how often.
fn consent_each_time(it: &mut Joined) -> usize {
    for at in 0..20 {
        it.serve();
        if it.browse.is_none() {
            return at;
        }
        it.consent();
    }
    panic!("the user is asked without an end");
}

/// Why the connection was lost the last time, if the client is not ready.
fn last_failure(it: &Joined) -> Option<FailureKind> {
    let (kind, ..) = it.web.events.iter().rev().find_map(down)?;
    (!it.web.is_ready()).then_some(kind)
}

#[test]
fn a_request_of_the_connection_that_no_token_allows_ends_the_connection() {
    for method in ["server/discover", "tools/list"] {
        let mut it = Joined::new(modern_site().on(method, |_| denied()));
        assert_eq!(consent_each_time(&mut it), 1, "{method}");
        assert_eq!(last_failure(&it), Some(FailureKind::Forbidden), "{method}");
    }
    // The scopes do not help, however often they are granted.
    let mut it = Joined::new(modern_site().on("tools/list", |_| lacks("x")));
    assert!(consent_each_time(&mut it) > 2);
    assert_eq!(last_failure(&it), Some(FailureKind::Forbidden));
    // They help.
    let mut it = Joined::new(modern_site().first("tools/list", 1, |_| lacks("x")));
    assert_eq!(consent_each_time(&mut it), 2);
    assert!(it.web.is_ready());
}

#[test]
fn a_call_that_no_token_allows_is_refused_by_the_status() {
    let mut it = Joined::ready(modern_site().on("tools/call", |_| denied()));
    let call = it.web.request(Request::call_tool("a", None));
    it.serve();
    it.assert_refused(call, 403, "forbidden: the server refuses this user");
}

/// Whoever refuses a request is alive.
#[test]
fn a_keepalive_that_is_refused_for_lack_of_authorization_is_answered() {
    for denial in [refused, denied, || lacks("x")] {
        let mut keepalive = Keepalive::default();
        keepalive.discover = true;
        let issuer = Rc::new(RefCell::new(super::joined::issuer()));
        let mut it = Joined::build(modern_site(), issuer, |_| {}, |options| options.keepalive = Some(keepalive));
        it.serve();
        it.consent();
        it.serve();
        for _ in 0..8 {
            it.web.wait(keepalive.interval);
            let discover = it.web.take_named("server/discover");
            it.web.reply(&discover, denial());
            it.take();
            answer_all(&mut it);
            if it.browse.is_some() {
                it.consent();
                answer_all(&mut it);
            }
            assert!(it.web.is_ready() && it.web.take().is_empty());
        }
    }
}
