//! Lists, notifications and streams of a client that authorizes itself, when the server refuses them.

use std::cell::RefCell;
use std::rc::Rc;

use mcp_proto::binding::http::Broken;
use mcp_proto::{Event, Family, Options};
#[cfg(feature = "snapshot")]
use mcp_proto::{Http, Moved};

#[cfg(feature = "snapshot")]
use crate::moved::moved;
use crate::web::{Exchange, Reply, Site as McpSite, Web, modern_site, site as legacy_site};

use super::joined::{Joined, MCP, issuer, refused};
use super::*;

fn refreshes(it: &Joined) -> usize {
    it.web.events.iter().filter(|event| matches!(event, Event::Refreshed { .. })).count()
}

#[test]
fn a_list_that_is_refused_is_requested_again() {
    let mut it = Joined::ready(modern_site());
    it.revoke();
    let lists = it.web.count("tools/list");
    it.web.session.refresh(it.web.now, Family::Tools).unwrap();
    it.web.collect();
    it.serve();
    assert_eq!(it.web.count("tools/list"), lists + 2);
    assert_eq!(it.token_requests(), 1);
    assert!(it.web.is_ready());
}

#[test]
fn a_list_that_waits_ends_when_there_is_no_token() {
    let mut it = Joined::ready(modern_site());
    it.revoke();
    it.web.session.refresh(it.web.now, Family::Tools).unwrap();
    it.web.collect();
    it.web.serve(&mut it.site);
    it.take();
    let lists = it.web.count("tools/list");
    for _ in 0..20 {
        let Some(sent) = it.sent.front() else { break };
        let status = if sent.url.ends_with("/token") { 400 } else { 404 };
        it.answer(status, r#"{"error":"invalid_request"}"#);
    }
    assert!(matches!(it.events.last(), Some(OAuthEvent::Failed(_))));
    assert_eq!((it.web.count("tools/list"), it.web.is_ready()), (lists, true));
}

#[test]
fn the_time_of_a_list_stands_still_while_it_waits_for_the_user() {
    let mut it = Joined::ready(modern_site());
    it.issuer.borrow_mut().revoke_tokens();
    it.web.session.refresh(it.web.now, Family::Tools).unwrap();
    it.web.collect();
    it.serve();
    assert!(it.browse.is_some());
    let lists = it.web.count("tools/list");
    it.wait(500);
    it.serve();
    assert_eq!((it.web.count("tools/list"), refreshes(&it)), (lists, 0));
    it.consent();
    it.serve();
    assert_eq!((it.web.count("tools/list"), refreshes(&it), it.web.is_ready()), (lists + 1, 1, true));
}

/// A server that demands a token for its lists alone.
fn refuses_lists(it: &Exchange) -> Option<Reply> {
    (it.is("tools/list") && it.header("authorization").is_none()).then(refused)
}

/// The user has as much time as an attempt, whatever the server asks for a token first, and with whatever era.
#[test]
fn the_time_of_discovery_stands_still_while_it_waits_for_the_user() {
    for site in [modern_site as fn() -> McpSite, legacy_site] {
        let mut it = Joined::new(site());
        it.site = site().rule(refuses_lists);
        it.serve();
        assert!(it.browse.is_some());
        it.wait(500);
        it.serve();
        it.consent();
        it.serve();
        assert!(it.web.is_ready() && it.web.session.quirks().is_empty(), "{:?}", it.web.events);
        assert_eq!(it.web.count("tools/list"), 2);
    }
}

#[test]
fn the_time_of_a_list_that_waited_for_the_user_goes_on_afterwards() {
    for connecting in [false, true] {
        let mut it = if connecting { Joined::new(modern_site()) } else { Joined::ready(modern_site()) };
        if connecting {
            it.site = modern_site().rule(refuses_lists);
        } else {
            it.issuer.borrow_mut().revoke_tokens();
            it.web.session.refresh(it.web.now, Family::Tools).unwrap();
            it.web.collect();
        }
        it.serve();
        it.wait(60);
        it.consent();
        while !it.sent.is_empty() {
            it.issue();
        }
        assert!(it.web.take_named("tools/list").header("authorization").is_some());
        it.wait(130);
        let is_over = if connecting { !it.web.session.quirks().is_empty() } else { refreshes(&it) == 1 };
        assert!(is_over, "{:?}", it.web.events);
    }
}

#[test]
fn a_list_that_waited_for_the_user_in_vain_is_not_cancelled() {
    // The longer one of the two decides.
    let patience = |options: &mut Options| options.timeouts.server_request = Duration::from_secs(10);
    let mut it = Joined::build(legacy_site(), Rc::new(RefCell::new(issuer())), |_| {}, patience);
    it.serve();
    it.consent();
    it.serve();
    it.issuer.borrow_mut().revoke_tokens();
    it.web.session.refresh(it.web.now, Family::Tools).unwrap();
    it.web.collect();
    it.serve();
    assert!(it.browse.is_some());
    it.wait(119);
    assert_eq!(refreshes(&it), 0);
    it.wait(1);
    assert_eq!((refreshes(&it), it.web.count("notifications/cancelled")), (1, 0));
}

#[test]
fn a_subscription_and_a_notification_that_are_refused_are_sent_again() {
    let mut it = Joined::ready(McpSite::legacy(json!({"resources": {"subscribe": true}})));
    it.revoke();
    it.web.session.subscribe(it.web.now, "file:///a").unwrap();
    it.web.session.notify(it.web.now, "notifications/example", None).unwrap();
    it.web.collect();
    it.serve();
    assert_eq!(it.web.count("resources/subscribe"), 2);
    assert_eq!(it.web.count("notifications/example"), 2);
    assert_eq!(it.token_requests(), 1);
}

/// What the body of a 401 says means nothing.
#[test]
fn a_notification_that_is_refused_with_any_error_is_sent_again_with_a_token() {
    for code in [-32601, -32602, -32002, -32020, -32021, -32000] {
        let mut it = Joined::ready(McpSite::legacy(json!({})));
        it.web.session.notify(it.web.now, "notifications/example", None).unwrap();
        it.web.collect();
        let posted = it.web.take_named("notifications/example");
        let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": "no"}});
        it.web.reply(&posted, Reply::json(401, &error).with("www-authenticate", "Bearer"));
        it.take();
        it.serve();
        assert_eq!(it.web.count("notifications/example"), 2, "{code}");
    }
    // Without a challenge, and without a session that may have expired.
    let mut site = McpSite::legacy(json!({}));
    (site.sessions, site.streams) = (false, false);
    let mut it = Joined::ready(site);
    it.web.session.notify(it.web.now, "notifications/example", None).unwrap();
    it.web.collect();
    let posted = it.web.take_named("notifications/example");
    it.web.reply(&posted, Reply::text(401, "no"));
    it.take();
    it.serve();
    assert_eq!(it.web.count("notifications/example"), 2);
}

#[test]
fn a_notification_that_waits_for_a_token_that_does_not_come_counts_as_undelivered() {
    let mut it = Joined::ready(McpSite::legacy(json!({})));
    it.revoke();
    it.web.session.notify(it.web.now, "notifications/example", None).unwrap();
    it.web.collect();
    it.web.serve(&mut it.site);
    it.take();
    while let Some(sent) = it.sent.front() {
        let status = if sent.url.ends_with("/token") { 400 } else { 404 };
        it.answer(status, r#"{"error":"invalid_request"}"#);
    }
    // Nobody signs in.
    it.wait(3600);
    assert!(matches!(it.events.last(), Some(OAuthEvent::Failed(_))));
    assert_eq!(it.web.session.stats().undelivered, 1);
}

#[test]
fn a_notification_that_waits_for_a_token_ends_with_its_session() {
    let mut it = Joined::ready(legacy_site());
    let (_, call) = it.call();
    it.revoke();
    it.web.session.notify(it.web.now, "notifications/example", None).unwrap();
    it.web.collect();
    let posted = it.web.take_named("notifications/example");
    it.web.reply(&posted, Reply::text(401, "no").with("www-authenticate", "Bearer"));
    it.take();
    it.web.reply(&call, Reply::text(404, "Session not found"));
    it.serve();
    assert!(it.web.is_ready(), "{:?}", it.web.events);
    assert_eq!(it.web.count("notifications/example"), 1);
}

#[test]
fn a_notification_beyond_the_limit_of_those_that_wait_for_a_token_is_dropped() {
    let mut it = Joined::ready(McpSite::legacy(json!({})));
    let limit = it.web.session.options().limits.in_flight;
    it.revoke();
    for _ in 0..=limit {
        it.web.session.notify(it.web.now, "notifications/example", None).unwrap();
    }
    it.web.collect();
    it.web.serve(&mut it.site);
    assert_eq!(it.web.session.stats().undelivered, 1);
    it.serve();
    assert_eq!((it.web.count("notifications/example"), it.token_requests()), (2 * limit + 1, 1));
}

#[test]
fn a_stream_that_was_never_open_is_requested_again_when_there_is_a_token() {
    let mut it = Joined::ready(McpSite::legacy(json!({})).first("GET", 1, |_| Reply::status(503)));
    it.wait(61);
    // The second GET is in flight.
    it.revoke();
    let streams = it.web.count("GET");
    it.serve();
    assert_eq!(it.web.count("GET"), streams + 1);
    assert_eq!(it.web.last("GET").header("authorization"), Some("Bearer at2-hush"));
}

/// The stream of the server ends, and the next one is refused: it waits for a token.
fn refuse_stream(it: &mut Joined) {
    it.revoke();
    let stream = it.web.last("GET");
    it.web.end(&stream);
    it.wait(10);
    it.web.serve(&mut it.site);
    it.take();
}

#[test]
fn the_stream_of_the_server_waits_for_the_token_that_comes_after_a_failure() {
    let mut it = Joined::ready(legacy_site());
    refuse_stream(&mut it);
    let streams = it.web.count("GET");
    while let Some(sent) = it.sent.front() {
        let status = if sent.url.ends_with("/token") { 400 } else { 404 };
        it.answer(status, r#"{"error":"invalid_request"}"#);
    }
    // Nobody signs in.
    it.wait(3600);
    assert!(matches!(it.events.last(), Some(OAuthEvent::Failed(_))));
    assert_eq!(it.web.count("GET"), streams);
    // The credentials stay with the authorization server that issued them.
    it.ask();
    it.serve();
    assert_eq!(it.web.count("GET"), streams + 1);
    assert_eq!(it.web.last("GET").header("authorization"), Some("Bearer at2-hush"));
}

#[test]
fn the_stream_of_a_session_that_expired_waits_for_no_token() {
    let mut it = Joined::ready(legacy_site());
    let (_, call) = it.call();
    refuse_stream(&mut it);
    let streams = it.web.count("GET");
    it.web.reply(&call, Reply::text(404, "Session not found"));
    it.serve();
    assert!(it.web.is_ready(), "{:?}", it.web.events);
    assert_eq!(it.web.count("GET"), streams + 1);
}

#[test]
fn the_stream_of_the_server_is_requested_again_when_there_is_a_token() {
    let mut it = Joined::ready(McpSite::legacy(json!({})));
    it.revoke();
    let streams = it.web.count("GET");
    let stream = it.web.last("GET");
    it.web.body(&stream, "id: 7\ndata:\n\n");
    it.web.end(&stream);
    it.wait(10);
    it.serve();
    assert_eq!(it.web.count("GET"), streams + 2);
    let (again, last) = (&it.web.log[it.web.log.len() - 2], it.web.last("GET"));
    assert_eq!((again.name(), again.header("last-event-id")), ("GET".into(), Some("7")));
    // The token may be of another user.
    assert_eq!((last.header("authorization"), last.header("last-event-id")), (Some("Bearer at2-hush"), None));
}

#[test]
fn a_keepalive_that_is_refused_shows_that_the_server_is_there() {
    let keepalive = mcp_proto::Keepalive::default();
    let mut options = Options::new("suite", "1.0");
    options.keepalive = Some(keepalive);
    let mut site = McpSite::legacy(json!({}));
    let mut web = Web::connect(options, &mut site);
    web.wait(keepalive.interval);
    let ping = web.take_named("ping");
    web.reply(&ping, Reply::text(401, "no").with("www-authenticate", "Bearer"));
    assert!(web.is_ready());
    web.wait(keepalive.interval);
    assert_eq!(web.count("ping"), 2);
}

#[test]
fn every_request_of_a_session_has_the_token() {
    let mut it = Joined::ready(legacy_site());
    let (_, exchange) = it.call();
    it.web.head(&exchange, 200, &[("content-type", "text/event-stream")]);
    it.web.body(&exchange, "id: 7\ndata:\n\n");
    it.web.fail(&exchange, Broken::Midway);
    it.wait(5);
    assert_eq!(it.web.last("GET").header("last-event-id"), Some("7"));
    it.web.session.close(it.web.now).unwrap();
    it.web.collect();
    assert_eq!(it.web.count("DELETE"), 1);
    let first = it.web.log.iter().position(|asked| asked.header("authorization").is_some()).unwrap();
    for asked in &it.web.log[first..] {
        assert_eq!(asked.header("authorization"), Some("Bearer at1-hush"), "{}", asked.name());
    }
}

/// The other process has another authorization, and asks its user.
#[cfg(feature = "snapshot")]
#[test]
fn what_waits_for_a_token_is_sent_again_after_a_move() {
    type Ask = fn(&mut Joined);
    let refresh: Ask = |it| it.web.session.refresh(it.web.now, Family::Tools).unwrap();
    let subscribe: Ask = |it| it.web.session.subscribe(it.web.now, "file:///a").unwrap();
    let library = || McpSite::legacy(json!({"resources": {"subscribe": true}}));
    for (site, method, ask) in [(modern_site(), "tools/list", refresh), (library(), "resources/subscribe", subscribe)] {
        let mut it = Joined::ready(site.result("resources/subscribe", json!({})));
        it.issuer.borrow_mut().revoke_tokens();
        let before = it.web.count(method);
        ask(&mut it);
        it.web.collect();
        it.serve();
        assert_eq!((it.browse.take().is_some(), it.web.count(method)), (true, before + 1));
        let mut options = OAuthOptions::new("suite", REDIRECT);
        options.registered.push(RegisteredClient::new("app"));
        let auth = Authorization::new(MCP, options, [2; 32], it.web.now, Duration::from_secs(EPOCH)).unwrap();
        let http = Http::new(MCP).unwrap().with_oauth(auth);
        it.web.session = moved(&it.web.session, http, Moved::WithTransport);
        it.sent.clear();
        it.web.collect();
        it.serve();
        it.consent();
        it.serve();
        assert_eq!(it.web.count(method), before + 3);
    }
}
