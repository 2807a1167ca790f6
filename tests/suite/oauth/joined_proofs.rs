//! Requests of a client whose tokens are bound to a key.

use mcp_proto::binding::http::HttpAction;
use mcp_proto::binding::oauth::{OAuthInput, PublicKey};
use sha2::{Digest, Sha256};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use mcp_proto::{Event, Request, RequestId};

use crate::web::{Exchange, Reply, Site as McpSite, modern_site, site as legacy_site};

use super::extensions::claims;
use super::joined::{Joined, MCP, interrupt};
use super::*;

/// A client that is ready, whose embedder signs.
pub(super) fn ready() -> Joined {
    ready_at(modern_site())
}

/// As [`ready`], at this server.
pub(super) fn ready_at(site: McpSite) -> Joined {
    let key = PublicKey::from_coordinates([1; 32], [2; 32]);
    let mut it = Joined::with(site, |options| options.dpop = Some(key));
    for _ in 0..100 {
        it.serve();
        if it.browse.is_some() {
            it.consent();
        }
        sign(&mut it);
        if it.web.is_ready() {
            return it;
        }
    }
    panic!("{:?}", it.log);
}

pub(super) fn sign(it: &mut Joined) {
    while let Some(request) = it.signs.pop_front() {
        it.input(OAuthInput::Signature { id: request.id, signature: b"signature" });
    }
}

#[test]
fn each_request_has_a_proof_of_its_own() {
    let mut it = ready();
    let last = it.web.last("tools/list");
    assert_eq!(last.header("authorization"), Some("DPoP at1-hush"));
    let proof = claims(last.header("dpop").unwrap());
    assert_eq!((&proof["htm"], &proof["htu"]), (&json!("POST"), &json!(MCP)));
    assert_eq!(proof["ath"], URL_SAFE_NO_PAD.encode(Sha256::digest("at1-hush")));
    assert!(proof.get("nonce").is_none());
    // A request waits for its signature, and others do not wait for it.
    let call = it.web.request(mcp_proto::Request::call_tool("a", None));
    it.take();
    assert!(it.web.take().is_empty() && it.signs.len() == 1);
    sign(&mut it);
    let exchange = it.web.take_named("tools/call");
    assert_ne!(claims(exchange.header("dpop").unwrap())["jti"], proof["jti"]);
    assert_eq!(it.web.outcome(call), "open");
}

#[test]
fn nothing_is_kept_of_calls_that_are_cancelled_before_their_proofs_are_signed() {
    let mut it = ready();
    let length = |it: &Joined| format!("{:?}", it.web.session).len();
    let (before, mut first) = (length(&it), None);
    for _ in 0..100 {
        let call = it.web.request(mcp_proto::Request::call_tool("a", None));
        it.take();
        first = first.or(it.signs.pop_front());
        it.web.session.cancel(it.web.now, call).unwrap();
        it.web.collect();
    }
    assert!(length(&it) < before + 200, "{before} {}", length(&it));
    // A signature that is late changes nothing, and the next call is sent.
    it.web.request(mcp_proto::Request::call_tool("a", None));
    it.take();
    let late = first.expect("a proof is to be signed").id;
    it.input(OAuthInput::Signature { id: late, signature: b"signature" });
    assert!(it.web.take().is_empty());
    sign(&mut it);
    it.web.take_named("tools/call");
}

#[test]
fn a_proof_of_a_request_that_is_cancelled_before_it_is_polled_is_not_asked_for() {
    let mut it = ready();
    let call = || mcp_proto::Request::call_tool("a", None);
    let [kept, cancelled, other] = [(); 3].map(|()| it.web.session.request(it.web.now, call()).unwrap());
    let first = std::iter::from_fn(|| it.web.session.poll()).find_map(|action| match action {
        HttpAction::OAuth(OAuthAction::Sign(request)) => Some(request.id),
        _ => None,
    });
    it.web.session.cancel(it.web.now, cancelled).unwrap();
    it.web.collect();
    it.take();
    assert_eq!(it.signs.len(), 1, "that of the other call");
    it.input(OAuthInput::Signature { id: first.expect("a proof is to be signed"), signature: b"signature" });
    assert_eq!(it.web.take_named("tools/call").of, Some(kept));
    sign(&mut it);
    assert_eq!(it.web.take_named("tools/call").of, Some(other));
}

#[test]
fn the_time_to_sign_a_proof_is_a_deadline_of_the_client() {
    let mut it = ready();
    let call = it.web.request(mcp_proto::Request::call_tool("a", None));
    it.web.now = it.web.session.deadline().expect("a deadline");
    it.web.session.handle_timeout(it.web.now);
    it.web.collect();
    assert_eq!(it.web.outcome(call), "NotSent");
}

#[test]
fn a_proof_of_a_request_follows_the_wall_clock() {
    let mut it = ready();
    it.input(OAuthInput::Clock { unix: Duration::from_secs(EPOCH + 20_000) });
    it.web.request(mcp_proto::Request::call_tool("a", None));
    it.take();
    sign(&mut it);
    let exchange = it.web.take_named("tools/call");
    assert_eq!(claims(exchange.header("dpop").unwrap())["iat"], EPOCH + 20_000);
}

#[test]
fn a_proof_of_a_request_after_an_idle_hour_has_the_time_to_be_signed() {
    let mut it = ready();
    // Nothing was due meanwhile.
    it.web.now = it.web.now + Duration::from_secs(3_600);
    let unix = EPOCH + it.web.now.since(Time::ZERO).as_secs();
    let call = it.web.request(mcp_proto::Request::call_tool("a", None));
    it.take();
    it.web.now = it.web.now + Duration::from_secs(1);
    sign(&mut it);
    assert_eq!(it.web.outcome(call), "open");
    let exchange = it.web.take_named("tools/call");
    assert_eq!(claims(exchange.header("dpop").unwrap())["iat"], unix);
}

#[test]
fn a_proof_names_the_url_of_its_request_without_the_query() {
    let mut it = ready();
    it.web.request(mcp_proto::Request::call_tool("a", None));
    it.take();
    sign(&mut it);
    let exchange = it.web.take_named("tools/call");
    it.web.reply(&exchange, Reply::text(307, "").with("location", "/mcp?tenant=1"));
    it.take();
    sign(&mut it);
    let again = it.web.take_named("tools/call");
    assert!(again.url().ends_with("/mcp?tenant=1"));
    assert_eq!(claims(again.header("dpop").unwrap())["htu"], MCP);
}

#[test]
fn a_request_is_sent_again_with_the_nonce_that_the_server_demands() {
    let mut it = ready();
    let call = it.web.request(mcp_proto::Request::call_tool("a", None));
    it.take();
    for nonce in ["n1", "n2", "n3", "n4"] {
        sign(&mut it);
        if it.web.outcome(call) != "open" {
            break;
        }
        let exchange = it.web.take_named("tools/call");
        let challenge = "DPoP error=\"use_dpop_nonce\"";
        let reply = Reply::text(401, "no").with("www-authenticate", challenge).with("dpop-nonce", nonce);
        it.web.reply(&exchange, reply);
        it.take();
        sign(&mut it);
        if nonce == "n1" {
            let again = it.web.last("tools/call");
            assert_eq!(claims(again.header("dpop").unwrap())["nonce"], "n1");
            assert_eq!(it.token_requests(), 1);
        }
    }
    // A request is sent again once with a server that refuses each nonce.
    assert_eq!(it.web.outcome(call), "Error");
    assert_eq!(it.web.count("tools/call"), 2);
    // The next one has the last nonce, and is not the end either.
    let call = it.web.request(mcp_proto::Request::call_tool("a", None));
    it.take();
    sign(&mut it);
    it.serve();
    assert_eq!(it.web.outcome(call), "Result");
}

#[test]
fn all_requests_that_were_sent_with_a_former_nonce_are_sent_again() {
    let mut it = ready();
    let calls: Vec<_> = (0..6).map(|_| it.web.request(mcp_proto::Request::call_tool("a", None))).collect();
    it.take();
    sign(&mut it);
    for exchange in it.web.take() {
        let reply = Reply::text(401, "no").with("www-authenticate", "DPoP error=\"use_dpop_nonce\"");
        it.web.reply(&exchange, reply.with("dpop-nonce", "n1"));
        it.take();
    }
    sign(&mut it);
    it.serve();
    assert!(calls.iter().all(|call| it.web.outcome(*call) == "Result"));
    assert_eq!(it.web.count("tools/call"), 12);
}

#[test]
fn the_nonces_of_the_two_servers_are_kept_apart() {
    let mut it = ready();
    let nonce = |proof: &str| claims(proof).get("nonce").cloned();
    let call = |it: &mut Joined| {
        it.web.request(mcp_proto::Request::call_tool("a", None));
        it.take();
        sign(it);
        it.web.take_named("tools/call")
    };
    let exchange = call(&mut it);
    let reply = it.site.reply(&exchange).with("dpop-nonce", "server");
    it.web.reply(&exchange, reply);
    for (expected, next) in [(None, "issuer"), (Some(json!("issuer")), "other")] {
        // A refused token leads to a refresh.
        let exchange = call(&mut it);
        assert_eq!(nonce(exchange.header("dpop").unwrap()), Some(json!("server")));
        it.web.reply(&exchange, Reply::text(401, "no").with("www-authenticate", "DPoP"));
        it.take();
        while it.sent.front().is_some_and(|sent| !sent.url.ends_with("/token")) {
            it.issue();
        }
        sign(&mut it);
        let sent = it.sent.front().expect("a token request");
        assert_eq!(nonce(sent.headers["dpop"].to_str().unwrap()), expected);
        let mut response = it.issuer.borrow_mut().answer(it.web.now, &sent.request()).unwrap();
        response.headers_mut().insert("dpop-nonce", next.parse().unwrap());
        it.answer_with(&response);
        sign(&mut it);
        it.serve();
    }
}

#[test]
fn a_nonce_of_an_accepted_response_is_used_next() {
    let mut it = ready();
    let call = it.web.request(mcp_proto::Request::call_tool("a", None));
    it.take();
    sign(&mut it);
    let exchange = it.web.take_named("tools/call");
    let reply = it.site.reply(&exchange).with("dpop-nonce", "n9");
    it.web.reply(&exchange, reply);
    assert_eq!(it.web.outcome(call), "Result");
    it.web.request(mcp_proto::Request::call_tool("a", None));
    it.take();
    sign(&mut it);
    assert_eq!(claims(it.web.take_named("tools/call").header("dpop").unwrap())["nonce"], "n9");
}

#[test]
fn a_request_whose_proof_is_not_signed_is_not_sent() {
    for late in [false, true] {
        let mut it = ready();
        let call = it.web.request(mcp_proto::Request::call_tool("a", None));
        it.take();
        let request = it.signs.pop_front().unwrap();
        if late {
            it.wait(60);
        } else {
            it.input(OAuthInput::Signature { id: request.id, signature: b"" });
        }
        assert_eq!(it.web.count("tools/call"), 0);
        assert_eq!(it.web.outcome(call), "NotSent");
        // The connection stays, and the next request is signed.
        let call = it.web.request(mcp_proto::Request::call_tool("a", None));
        it.take();
        sign(&mut it);
        it.serve();
        assert_eq!(it.web.outcome(call), "Result");
    }
}

#[test]
fn a_list_whose_proofs_are_not_signed_fails_and_the_connection_stays() {
    let mut it = ready();
    it.web.session.refresh(it.web.now, mcp_proto::Family::Tools).unwrap();
    it.web.collect();
    it.take();
    let mut requests = 0;
    while let Some(request) = it.signs.pop_front() {
        requests += 1;
        assert!(requests < 5, "it is requested without an end");
        it.input(OAuthInput::Signature { id: request.id, signature: b"" });
    }
    let error = it.web.session.list_error(mcp_proto::Family::Tools).unwrap().to_string();
    assert!(error.contains("the proof of possession was not signed"), "{error}");
    assert!(it.web.session.is_ready());
}

#[test]
fn a_proof_for_a_token_that_was_replaced_is_made_again() {
    let mut it = ready();
    let call = it.web.request(mcp_proto::Request::call_tool("a", None));
    it.take();
    let old = it.signs.pop_front().unwrap();
    // Another grant replaces the token meanwhile.
    it.input(OAuthInput::Authorize);
    it.serve();
    it.consent();
    sign(&mut it);
    it.serve();
    it.input(OAuthInput::Signature { id: old.id, signature: b"signature" });
    sign(&mut it);
    let exchange = it.web.take_named("tools/call");
    assert_eq!(exchange.header("authorization"), Some("DPoP at2-hush"));
    assert_eq!(it.web.outcome(call), "open");
}

/// A call that waits for its exchange with a proof, and that exchange.
fn proved(it: &mut Joined) -> (RequestId, Exchange) {
    it.web.take();
    let call = it.web.request(Request::call_tool("a", None));
    it.take();
    sign(it);
    (call, it.web.take_named("tools/call"))
}

fn refuse_to_sign(it: &mut Joined) {
    let request = it.signs.pop_front().expect("a proof is asked for");
    it.input(OAuthInput::Signature { id: request.id, signature: b"" });
}

/// The server did not process what it redirected.
#[test]
fn a_redirected_call_that_waits_for_its_proof_is_not_sent() {
    for how in ["unsigned", "cancelled", "closed"] {
        let mut it = ready_at(legacy_site());
        let (call, exchange) = proved(&mut it);
        it.web.reply(&exchange, Reply::status(307).with("location", "/mcp/"));
        it.take();
        let outcome = match how {
            "unsigned" => {
                refuse_to_sign(&mut it);
                "NotSent"
            }
            "cancelled" => {
                it.web.session.cancel(it.web.now, call).unwrap();
                "Cancelled"
            }
            _ => {
                it.web.session.close(it.web.now).unwrap();
                "NotSent"
            }
        };
        it.web.collect();
        it.take();
        sign(&mut it);
        let counts = (it.web.count("notifications/cancelled"), it.web.count("tools/call"));
        assert_eq!((it.web.outcome(call), counts), (outcome.into(), (0, 1)), "{how}");
    }
}

fn demand_nonce(it: &mut Joined, exchange: &Exchange, nonce: &str) {
    let demand = Reply::text(401, "no").with("www-authenticate", "DPoP error=\"use_dpop_nonce\"");
    it.web.reply(exchange, demand.with("dpop-nonce", nonce));
}

#[test]
fn a_stream_is_resumed_with_the_nonce_that_the_server_demands() {
    let mut it = ready_at(legacy_site());
    let (call, exchange) = proved(&mut it);
    interrupt(&mut it, &exchange);
    it.wait(2);
    sign(&mut it);
    let get = it.web.take_named("GET");
    demand_nonce(&mut it, &get, "n1");
    it.wait(2);
    sign(&mut it);
    assert_eq!((it.web.outcome(call), it.web.take_names()), ("open".into(), vec!["GET".into()]));
}

#[test]
fn a_stream_is_not_resumed_again_and_again_with_another_nonce() {
    let mut it = ready_at(legacy_site());
    let (call, exchange) = proved(&mut it);
    let before = it.web.count("GET");
    interrupt(&mut it, &exchange);
    for turn in 0..60 {
        it.wait(1);
        sign(&mut it);
        for get in it.web.take() {
            demand_nonce(&mut it, &get, &format!("n{turn}"));
        }
    }
    assert_eq!((it.web.outcome(call), it.web.count("GET") - before), ("Unknown".into(), 2));
}

#[test]
fn a_call_whose_stream_is_not_resumed_for_want_of_a_proof_may_have_run() {
    let mut it = ready_at(legacy_site());
    let (call, exchange) = proved(&mut it);
    interrupt(&mut it, &exchange);
    it.wait(2);
    refuse_to_sign(&mut it);
    assert_eq!(it.web.outcome(call), "Unknown");
}

/// The server is not ready without it.
#[test]
fn the_end_of_a_handshake_whose_proof_is_not_signed_ends_the_connection() {
    let key = PublicKey::from_coordinates([1; 32], [2; 32]);
    let mut it = Joined::with(legacy_site(), |options| options.dpop = Some(key));
    it.serve();
    it.consent();
    let mut signs = 0;
    for _ in 0..20 {
        it.serve();
        let Some(request) = it.signs.pop_front() else { continue };
        signs += 1;
        let signature: &[u8] = if it.web.count("initialize") == 1 { b"" } else { b"signature" };
        it.input(OAuthInput::Signature { id: request.id, signature });
    }
    assert_eq!((it.web.count("initialize"), signs), (1, 4), "{:?}", it.log);
    let is_told = |it: &Event| matches!(it, Event::Down { failure, .. } if failure.message.contains("not signed"));
    assert!(it.web.events.iter().any(is_told), "{:?}", it.web.events);
}

#[test]
fn a_notification_whose_proof_is_not_signed_ends_nothing_else() {
    for streams in [true, false] {
        let mut site = legacy_site();
        site.streams = streams;
        let mut it = ready_at(site);
        let (call, _exchange) = proved(&mut it);
        for _ in 0..2 {
            it.web.session.notify(it.web.now, "notifications/example", None).unwrap();
            it.web.collect();
            it.take();
            refuse_to_sign(&mut it);
        }
        assert_eq!((it.web.outcome(call), it.web.is_ready()), ("open".into(), true));
        assert_eq!(it.web.session.stats().undelivered, 2);
    }
}
