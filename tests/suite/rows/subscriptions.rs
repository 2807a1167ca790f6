//! Rows of subscriptions to resources, and of the stream of a modern server, which change while it is requested.

use mcp_proto::{CommandError, Event, QuirkKind, Transport};
use serde_json::{Value, json};

use crate::common::{Host, Server, legacy, options, reconnecting, seconds};
use crate::rows::{refuse, reply};

const LISTEN: &str = "subscriptions/listen";
const SUBSCRIBE: &str = "resources/subscribe";
const UNSUBSCRIBE: &str = "resources/unsubscribe";
const NO_STREAM: &str = "it refused `subscriptions/listen`";

/// A server with subscriptions to resources, and without `listChanged`.
fn server(mut of_era: impl FnMut(Value) -> Server) -> Server {
    of_era(json!({"resources": {"subscribe": true}}))
        .result("resources/list", json!({"resources": []}))
        .result("resources/templates/list", json!({"resourceTemplates": []}))
}

fn modern() -> Host {
    let host = Host::connect(reconnecting(options()), &mut server(Server::modern));
    assert!(host.is_ready());
    host
}

fn subscribe(host: &mut Host, uri: &str) {
    host.session.subscribe(host.now, uri).unwrap();
    host.collect();
}

fn unsubscribe(host: &mut Host, uri: &str) {
    host.session.unsubscribe(host.now, uri).unwrap();
    host.collect();
}

/// The one request that was sent, which is for a stream of these resources.
fn the_listen(host: &mut Host, uris: &[&str]) -> Value {
    let sent = host.take_one();
    assert_listens(&sent, uris);
    sent
}

fn assert_listens(sent: &Value, uris: &[&str]) {
    assert_eq!(sent["method"], LISTEN);
    assert_eq!(sent["params"]["notifications"]["resourceSubscriptions"], json!(uris));
}

/// The server accepts a stream of these resources.
fn agree(host: &mut Host, stream: &Value, uris: &[&str]) {
    acknowledge(host, stream, json!({"resourceSubscriptions": uris}));
}

fn acknowledge(host: &mut Host, stream: &Value, to: Value) {
    let meta = json!({"io.modelcontextprotocol/subscriptionId": stream["id"]});
    let method = "notifications/subscriptions/acknowledged";
    host.receive(json!({"jsonrpc": "2.0", "method": method, "params": {"_meta": meta, "notifications": to}}));
}

/// The stream ends before the server accepted it.
fn end(host: &mut Host, stream: &Value) {
    reply(host, stream, json!({"resultType": "complete"}));
}

/// The subscription events since the last call.
fn take_subscription_events(host: &mut Host) -> Vec<String> {
    let reported = std::mem::take(&mut host.events).into_iter().filter_map(|event| match event {
        Event::Subscription { uri, outcome: Ok(()) } => Some(format!("{uri} active")),
        Event::Subscription { uri, outcome: Err(why) } => Some(format!("{uri} refused: {why}")),
        _ => None,
    });
    reported.collect()
}

/// The messages sent cancel these streams, and nothing else.
fn assert_cancels(host: &mut Host, streams: &[&Value]) {
    let sent = host.take_sent();
    assert!(sent.iter().all(|message| message["method"] == "notifications/cancelled"), "{sent:?}");
    let ids: Vec<_> = sent.iter().map(|message| message["params"]["requestId"].clone()).collect();
    assert_eq!(ids, streams.iter().map(|stream| stream["id"].clone()).collect::<Vec<_>>());
}

/// Nothing is requested over time.
fn assert_sends_nothing(host: &mut Host) {
    host.wait(seconds(200));
    assert!(host.take_sent().is_empty() && host.is_ready());
}

/// Nothing is requested over time until there is a subscription.
fn assert_listens_anew(host: &mut Host) {
    assert_sends_nothing(host);
    subscribe(host, "new");
    the_listen(host, &["new"]);
}

/// A stream of `x` that the server accepted.
fn open() -> (Host, Value) {
    let mut host = modern();
    subscribe(&mut host, "x");
    let stream = the_listen(&mut host, &["x"]);
    agree(&mut host, &stream, &["x"]);
    assert_eq!(take_subscription_events(&mut host), ["x active"]);
    (host, stream)
}

/// The start of a change: the open stream, the requested stream, and the resources then subscribed to.
type Start = (fn() -> (Host, Value, Value), &'static [&'static str]);

const STARTS: [Start; 2] = [(changing, &["x", "y"]), (changing_stale, &["x", "y", "z"])];

/// As `open`, and another stream, of `x` and `y`, was requested.
fn changing() -> (Host, Value, Value) {
    let (mut host, open) = open();
    subscribe(&mut host, "y");
    let request = the_listen(&mut host, &["x", "y"]);
    (host, open, request)
}

/// As `changing`, and `z` is subscribed to as well.
fn changing_stale() -> (Host, Value, Value) {
    let (mut host, open, request) = changing();
    subscribe(&mut host, "z");
    assert!(host.take_sent().is_empty(), "one at a time");
    (host, open, request)
}

#[test]
fn a_requested_stream_is_cancelled_with_the_last_subscription() {
    let mut host = modern();
    subscribe(&mut host, "x");
    let request = the_listen(&mut host, &["x"]);
    unsubscribe(&mut host, "x");
    assert_cancels(&mut host, &[&request]);
    agree(&mut host, &request, &["x"]);
    assert_listens_anew(&mut host);
    assert_eq!(take_subscription_events(&mut host), [""; 0]);
}

#[test]
fn a_requested_and_outdated_stream_is_cancelled_with_the_last_subscription() {
    let mut host = modern();
    subscribe(&mut host, "x");
    let request = the_listen(&mut host, &["x"]);
    subscribe(&mut host, "y");
    unsubscribe(&mut host, "x");
    assert!(host.take_sent().is_empty());
    unsubscribe(&mut host, "y");
    assert_cancels(&mut host, &[&request]);
    assert_listens_anew(&mut host);
}

#[test]
fn both_streams_of_a_change_are_cancelled_with_the_last_subscription() {
    let (mut host, _, wide) = changing();
    agree(&mut host, &wide, &["x", "y"]);
    host.take_sent();
    unsubscribe(&mut host, "y");
    let narrow = the_listen(&mut host, &["x"]);
    unsubscribe(&mut host, "x");
    assert_cancels(&mut host, &[&narrow, &wide]);
    assert_listens_anew(&mut host);
}

#[test]
fn a_stream_is_not_requested_again_after_the_last_subscription() {
    let mut host = modern();
    subscribe(&mut host, "x");
    let request = the_listen(&mut host, &["x"]);
    end(&mut host, &request);
    assert!(host.session.deadline().is_some());
    unsubscribe(&mut host, "x");
    assert_eq!(host.session.deadline(), None);
    assert_listens_anew(&mut host);
}

/// There is no stream, and none is requested: subscriptions are refused.
fn assert_refused(host: &mut Host, uris: &[&str]) {
    assert_eq!(
        take_subscription_events(host),
        uris.iter().map(|uri| format!("{uri} refused: {NO_STREAM}")).collect::<Vec<_>>()
    );
    assert_sends_nothing(host);
    subscribe(host, "later");
    assert_eq!(take_subscription_events(host), [format!("later refused: {NO_STREAM}")]);
    assert_sends_nothing(host);
}

#[test]
fn a_refusal_of_a_changed_stream_ends_the_open_one() {
    for (start, uris) in STARTS {
        let (mut host, open, request) = start();
        refuse(&mut host, &request, -32601, "Method not found");
        assert_cancels(&mut host, &[&open]);
        assert_refused(&mut host, uris);
        assert_eq!(host.quirk_methods(QuirkKind::ListenRefused), [LISTEN]);
    }
}

/// A server without declared capabilities, and the requested stream of its lists.
fn without_capabilities() -> (Host, Value) {
    let mut host = Host::open(options());
    let discover = host.take_one();
    reply(&mut host, &discover, json!({"resultType": "complete", "supportedVersions": ["2026-07-28"]}));
    let mut sent = host.take_sent();
    let request = sent.remove(0);
    assert_eq!(request["method"], LISTEN);
    for list in sent {
        let member = match list["method"].as_str().unwrap() {
            "tools/list" => "tools",
            "prompts/list" => "prompts",
            "resources/list" => "resources",
            "resources/templates/list" => "resourceTemplates",
            other => panic!("{other}"),
        };
        reply(&mut host, &list, json!({"resultType": "complete", member: []}));
    }
    assert!(host.is_ready());
    (host, request)
}

#[test]
fn a_refusal_by_a_server_without_capabilities_is_no_quirk() {
    for uris in [&["x"][..], &[]] {
        let (mut host, request) = without_capabilities();
        uris.iter().for_each(|uri| subscribe(&mut host, uri));
        assert!(host.take_sent().is_empty());
        refuse(&mut host, &request, -32601, "Method not found");
        assert_refused(&mut host, uris);
        assert_eq!(host.quirks(), [QuirkKind::InitializeShape]);
    }
}

#[test]
fn a_refusal_of_a_changed_stream_by_a_server_without_capabilities_ends_the_open_one() {
    for uris in [&["x"][..], &["x", "y"]] {
        let (mut host, open) = without_capabilities();
        acknowledge(&mut host, &open, json!({}));
        subscribe(&mut host, "x");
        let request = the_listen(&mut host, &["x"]);
        uris[1..].iter().for_each(|uri| subscribe(&mut host, uri));
        refuse(&mut host, &request, -32601, "Method not found");
        assert_cancels(&mut host, &[&open]);
        assert_refused(&mut host, uris);
        assert_eq!(host.quirks(), [QuirkKind::InitializeShape]);
    }
}

#[test]
fn a_change_that_is_not_acknowledged_in_time_is_followed_by_one_stream_of_all() {
    for (start, uris) in STARTS {
        let (mut host, open, request) = start();
        host.wait(seconds(60));
        assert_cancels(&mut host, &[&request, &open]);
        host.wait(seconds(2));
        let next = the_listen(&mut host, uris);
        agree(&mut host, &next, uris);
        assert_eq!(
            take_subscription_events(&mut host),
            uris.iter().map(|uri| format!("{uri} active")).collect::<Vec<_>>()
        );
    }
}

#[test]
fn a_change_that_fails_is_followed_by_one_stream_of_all() {
    for (start, uris) in STARTS {
        let (mut host, open, request) = start();
        end(&mut host, &request);
        assert_cancels(&mut host, &[&open]);
        host.wait(seconds(2));
        the_listen(&mut host, uris);
    }
}

#[test]
fn a_connection_that_is_lost_during_a_change_is_followed_by_one_stream_of_all() {
    for (start, uris) in STARTS {
        let (mut host, _, _) = start();
        host.close_transport();
        host.wait(seconds(1));
        assert!(host.take_sent().is_empty());
        host.transport(Transport::Opened);
        let discover = host.take_one();
        server(Server::modern).answer(&discover).into_iter().for_each(|answer| host.receive(answer));
        assert_listens(&host.take_sent()[0], uris);
    }
}

#[test]
fn a_second_subscription_to_a_resource_requests_nothing() {
    let (mut host, _) = open();
    subscribe(&mut host, "x");
    assert!(host.take_sent().is_empty() && take_subscription_events(&mut host).is_empty());
}

#[test]
fn an_active_resource_that_the_next_acknowledgement_leaves_out_is_refused() {
    let (mut host, _, request) = changing();
    agree(&mut host, &request, &["y"]);
    assert_eq!(take_subscription_events(&mut host), ["x refused: the server did not agree to it", "y active"]);
}

/// A client whose server accepted nothing of `x`; then the stream of `y` was requested.
fn refused() -> (Host, Value) {
    let mut host = modern();
    subscribe(&mut host, "x");
    let stream = the_listen(&mut host, &["x"]);
    agree(&mut host, &stream, &[]);
    assert_eq!(take_subscription_events(&mut host), ["x refused: the server did not agree to it"]);
    subscribe(&mut host, "y");
    let request = the_listen(&mut host, &["y"]);
    (host, request)
}

#[test]
fn a_refused_resource_is_active_once_an_acknowledgement_lists_it() {
    let (mut host, request) = refused();
    agree(&mut host, &request, &["x", "y"]);
    assert_eq!(take_subscription_events(&mut host), ["x active", "y active"]);
    host.take_sent();
    unsubscribe(&mut host, "y");
    the_listen(&mut host, &["x"]);
}

#[test]
fn an_acknowledgement_without_a_list_accepts_what_was_requested() {
    let (mut host, request) = refused();
    acknowledge(&mut host, &request, Value::Null);
    assert_eq!(take_subscription_events(&mut host), ["y active"], "`x` was not requested");
}

/// A legacy client, and the request for `x`.
fn subscribing() -> (Host, Value) {
    let mut host = Host::connect(reconnecting(legacy()), &mut server(Server::legacy));
    assert!(host.is_ready());
    subscribe(&mut host, "x");
    let request = host.take_one();
    assert_eq!(request["method"], SUBSCRIBE);
    (host, request)
}

#[test]
fn a_refusal_of_a_withdrawn_subscription_is_not_reported() {
    let (mut host, request) = subscribing();
    unsubscribe(&mut host, "x");
    refuse(&mut host, &request, -32603, "out of order");
    assert_eq!(take_subscription_events(&mut host), [""; 0]);
    assert_eq!(host.session.subscriptions().count(), 0);
    assert_sends_nothing(&mut host);
    subscribe(&mut host, "x");
    assert_eq!(host.take_methods(), [SUBSCRIBE], "as if never requested");
}

/// As `subscribing`, and the server accepted. Then it was unsubscribed: the request for it.
fn leaving() -> (Host, Value) {
    let (mut host, request) = subscribing();
    reply(&mut host, &request, json!({}));
    assert_eq!(take_subscription_events(&mut host), ["x active"]);
    unsubscribe(&mut host, "x");
    let ends = host.take_one();
    assert_eq!(ends["method"], UNSUBSCRIBE);
    (host, ends)
}

/// The connection is lost and reopened. Returns how many subscribe and unsubscribe requests were sent.
fn reconnect(host: &mut Host) -> (usize, usize) {
    host.close_transport();
    host.wait(seconds(1));
    host.transport(Transport::Opened);
    let mut server = server(Server::legacy).result(SUBSCRIBE, json!({}));
    host.serve(&mut server);
    assert!(host.is_ready());
    (server.received(SUBSCRIBE), server.received(UNSUBSCRIBE))
}

#[test]
fn a_subscription_renewed_while_it_ends_is_requested_on_the_next_connection() {
    let (mut host, _) = leaving();
    subscribe(&mut host, "x");
    assert_eq!(reconnect(&mut host), (1, 0));
    assert_eq!(take_subscription_events(&mut host), ["x active"]);
}

#[test]
fn a_withdrawn_subscription_is_not_requested_on_the_next_connection() {
    let regretting = || {
        let (mut host, request) = subscribing();
        unsubscribe(&mut host, "x");
        (host, request)
    };
    for start in [leaving, regretting] {
        let (mut host, _) = start();
        assert_eq!(reconnect(&mut host), (0, 0));
        assert_eq!(take_subscription_events(&mut host), [""; 0]);
        assert!(matches!(host.session.unsubscribe(host.now, "x"), Err(CommandError::UnknownSubscription)));
    }
}

#[test]
fn a_refused_end_of_a_subscription_is_not_requested_again() {
    let (mut host, ends) = leaving();
    refuse(&mut host, &ends, -32603, "out of order");
    assert_eq!(take_subscription_events(&mut host), [""; 0]);
    assert_sends_nothing(&mut host);
    subscribe(&mut host, "x");
    assert_eq!(host.take_methods(), [SUBSCRIBE]);
}

#[test]
fn a_subscription_renewed_while_it_ends_is_requested_even_if_the_end_is_refused() {
    let (mut host, ends) = leaving();
    subscribe(&mut host, "x");
    assert!(host.take_sent().is_empty(), "one at a time");
    refuse(&mut host, &ends, -32603, "out of order");
    let request = host.take_one();
    assert_eq!(request["method"], SUBSCRIBE);
    reply(&mut host, &request, json!({}));
    assert_eq!(take_subscription_events(&mut host), ["x active"]);
}

/// A modern client that requested a stream of `x`, and subscribes to `y` as well meanwhile.
fn outdated() -> (Host, Value) {
    let mut host = modern();
    subscribe(&mut host, "x");
    let request = the_listen(&mut host, &["x"]);
    for _ in 0..2 {
        subscribe(&mut host, "y");
        assert!(host.take_sent().is_empty(), "one at a time");
    }
    (host, request)
}

#[test]
fn a_stream_that_names_too_little_is_followed_by_one_of_all_however_it_ends() {
    // What the acknowledgement says of a resource that was not requested is not about this subscription.
    let (mut host, request) = outdated();
    agree(&mut host, &request, &["x", "y"]);
    assert_eq!(take_subscription_events(&mut host), ["x active"]);
    let next = the_listen(&mut host, &["x", "y"]);
    agree(&mut host, &next, &["x", "y"]);
    assert_eq!(take_subscription_events(&mut host), ["y active"]);
    assert_cancels(&mut host, &[&request]);

    let (mut host, request) = outdated();
    end(&mut host, &request);
    subscribe(&mut host, "z");
    assert!(host.take_sent().is_empty() && take_subscription_events(&mut host).is_empty(), "after a wait");
    host.wait(seconds(2));
    the_listen(&mut host, &["x", "y", "z"]);

    let (mut host, request) = outdated();
    refuse(&mut host, &request, -32601, "Method not found");
    assert_refused(&mut host, &["x", "y"]);
}

#[test]
fn the_end_of_the_open_stream_leaves_a_change_as_it_is() {
    let (mut host, open, request) = changing_stale();
    end(&mut host, &open);
    assert!(host.take_sent().is_empty());
    agree(&mut host, &request, &["x", "y"]);
    assert_eq!(take_subscription_events(&mut host), ["x active", "y active"]);
    the_listen(&mut host, &["x", "y", "z"]);

    let (mut host, open, request) = changing_stale();
    ["x", "y", "z"].iter().for_each(|uri| unsubscribe(&mut host, uri));
    assert_cancels(&mut host, &[&request, &open]);
    assert_listens_anew(&mut host);
}

#[test]
fn a_resource_that_was_left_out_is_not_requested_or_reported_again() {
    let (mut host, request) = refused();
    agree(&mut host, &request, &["y"]);
    assert_eq!(take_subscription_events(&mut host), ["y active"]);
    host.take_sent();
    subscribe(&mut host, "z");
    let next = the_listen(&mut host, &["y", "z"]);
    end(&mut host, &request);
    agree(&mut host, &next, &["y", "z"]);
    assert_eq!(take_subscription_events(&mut host), ["y active", "z active"]);
    assert_eq!(host.session.subscriptions().collect::<Vec<_>>(), ["x", "y", "z"]);
}

/// A resource is subscribed to and unsubscribed from in each state that a request for it leaves.
#[test]
fn a_legacy_server_is_sent_what_the_embedder_wants_last_of_a_resource() {
    // Again while it is requested: nothing more is sent.
    let (mut host, request) = subscribing();
    subscribe(&mut host, "x");
    assert!(host.take_sent().is_empty());
    reply(&mut host, &request, json!({}));
    assert_eq!(take_subscription_events(&mut host), ["x active"]);
    assert!(host.take_sent().is_empty());

    // Withdrawn, and wanted again before the response.
    let (mut host, request) = subscribing();
    unsubscribe(&mut host, "x");
    subscribe(&mut host, "x");
    reply(&mut host, &request, json!({}));
    assert_eq!(take_subscription_events(&mut host), ["x active"]);
    assert!(host.take_sent().is_empty());

    // Ended.
    let (mut host, ends) = leaving();
    reply(&mut host, &ends, json!({}));
    subscribe(&mut host, "x");
    assert_eq!(host.take_methods(), [SUBSCRIBE]);

    // Wanted again while it ends, and given up once more.
    let (mut host, ends) = leaving();
    subscribe(&mut host, "x");
    unsubscribe(&mut host, "x");
    reply(&mut host, &ends, json!({}));
    assert!(host.take_sent().is_empty());
    assert_eq!(host.session.subscriptions().count(), 0);

    // Refused.
    let (mut host, request) = subscribing();
    refuse(&mut host, &request, -32603, "out of order");
    unsubscribe(&mut host, "x");
    assert!(host.take_sent().is_empty());
    assert_eq!(host.session.subscriptions().count(), 0);
}

#[test]
fn a_subscription_that_is_not_possible_can_be_given_up() {
    // The server refused the stream.
    let mut host = modern();
    subscribe(&mut host, "x");
    let request = the_listen(&mut host, &["x"]);
    refuse(&mut host, &request, -32601, "Method not found");
    unsubscribe(&mut host, "x");
    assert_eq!(host.session.subscriptions().count(), 0);

    // The next connection is to a server without subscriptions, and is being made or ready.
    for is_ready in [false, true] {
        let (mut host, request) = subscribing();
        reply(&mut host, &request, json!({}));
        host.close_transport();
        host.wait(seconds(1));
        host.transport(Transport::Opened);
        let mut other = Server::legacy(json!({"tools": {}})).result("tools/list", json!({"tools": []}));
        let initialize = host.take_one();
        other.answer(&initialize).into_iter().for_each(|answer| host.receive(answer));
        if is_ready {
            host.serve(&mut other);
        }
        assert_eq!(host.is_ready(), is_ready);
        unsubscribe(&mut host, "x");
        assert_eq!(host.session.subscriptions().count(), 0);
    }
}
