//! Changes that a server announces: streams of a modern server, resources of a legacy one, the log messages of both.

use crate::common::{Host, Server, Steps, legacy, options, reconnecting, seconds, tools};
use mcp_proto::{CommandError, Event, Family, LogLevel, Options, QuirkKind, Request, Transport};
use serde_json::{Value, json};

const LISTEN: &str = "subscriptions/listen";

/// A modern server with tools and resources that change. The test accepts its streams.
fn modern() -> Server {
    let capabilities = json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}});
    Server::modern(capabilities)
        .result("tools/list", tools(&["a"]))
        .result("resources/list", json!({"resources": []}))
        .result("resources/templates/list", json!({"resourceTemplates": []}))
}

fn old(subscribe: bool) -> Server {
    Server::legacy(json!({"resources": {"subscribe": subscribe}, "logging": {}}))
        .result("resources/list", json!({"resources": []}))
        .result("resources/templates/list", json!({"resourceTemplates": []}))
        .result("resources/subscribe", json!({}))
        .result("resources/unsubscribe", json!({}))
        .result("logging/setLevel", json!({}))
}

/// Answers all requests except those for streams, which are returned.
fn serve(host: &mut Host, server: &mut Server) -> Vec<Value> {
    let mut streams = Vec::new();
    let mut steps = Steps::until("nothing is left to answer");
    loop {
        steps.step();
        let sent = host.take_sent();
        if sent.is_empty() {
            return streams;
        }
        for message in sent {
            if message["method"] == LISTEN {
                streams.push(message);
            } else {
                server.answer(&message).into_iter().for_each(|answer| host.receive(answer));
            }
        }
    }
}

/// A client that is ready, and the stream that it requested.
fn listening(options: Options) -> (Host, Server, Value) {
    let (mut host, mut server) = (Host::open(options), modern());
    let mut streams = serve(&mut host, &mut server);
    assert!(host.is_ready());
    assert_eq!(streams.len(), 1);
    (host, server, streams.remove(0))
}

fn agree(host: &mut Host, stream: &Value, to: Value) {
    host.receive(json!({
        "jsonrpc": "2.0",
        "method": "notifications/subscriptions/acknowledged",
        "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": stream["id"]}, "notifications": to}
    }));
}

fn agree_to_all(host: &mut Host, stream: &Value) {
    agree(host, stream, stream["params"]["notifications"].clone());
}

fn tools_changed(host: &mut Host, stream: &Value) {
    host.receive(json!({
        "jsonrpc": "2.0",
        "method": "notifications/tools/list_changed",
        "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": stream["id"]}}
    }));
}

fn end(host: &mut Host, stream: &Value) {
    let meta = json!({"io.modelcontextprotocol/subscriptionId": stream["id"]});
    host.receive(json!({"jsonrpc": "2.0", "id": stream["id"], "result": {"resultType": "complete", "_meta": meta}}));
}

/// The subscription events, removed from the events.
fn take_subscription_events(host: &mut Host) -> Vec<String> {
    let reported = host.events.iter().filter_map(|event| match event {
        Event::Subscription { uri, outcome: Ok(()) } => Some(format!("{uri} active")),
        Event::Subscription { uri, outcome: Err(why) } => Some(format!("{uri} refused: {why}")),
        Event::ResourceUpdated { uri } => Some(format!("{uri} updated")),
        _ => None,
    });
    let reported = reported.collect();
    host.events.clear();
    reported
}

#[test]
fn a_stream_is_requested_before_the_lists_whose_changes_it_announces() {
    let mut host = Host::open(options());
    let discover = host.take_one();
    modern().answer(&discover).into_iter().for_each(|answer| host.receive(answer));
    let sent = host.take_sent();
    let methods: Vec<_> = sent.iter().map(|message| message["method"].as_str().unwrap()).collect();
    assert_eq!(methods, [LISTEN, "tools/list", "resources/list", "resources/templates/list"]);
    assert_eq!(sent[0]["params"]["notifications"], json!({"toolsListChanged": true}), "the declared lists");
}

#[test]
fn an_acknowledgement_before_the_handshake_is_done_is_not_of_the_stream() {
    let (mut host, mut server) = (Host::open(options()), modern());
    agree(&mut host, &json!({"id": 999}), json!({"toolsListChanged": true}));
    let streams = serve(&mut host, &mut server);
    assert!(host.is_ready());
    assert_eq!(streams.len(), 1);
    assert!(!host.session.family(Family::Tools).watched);
    assert!(!host.events.iter().any(|event| matches!(event, Event::Notification { .. })));
}

#[test]
fn an_announced_change_refreshes_the_list_and_is_reported_as_a_difference() {
    let (mut host, server, stream) = listening(options());
    agree_to_all(&mut host, &stream);
    assert!(host.session.family(Family::Tools).watched);
    assert!(!host.session.family(Family::Resources).watched, "not declared");
    let mut server = server.result("tools/list", tools(&["a", "b"]));
    // The first page arrived before the server accepted: a change in between was missed.
    host.wait(seconds(2));
    serve(&mut host, &mut server);
    assert_eq!(host.keys(Family::Tools), ["a", "b"]);
    assert_eq!(server.received("tools/list"), 2);
    let mut server = server.result("tools/list", tools(&["b"]));
    tools_changed(&mut host, &stream);
    host.wait(seconds(2));
    serve(&mut host, &mut server);
    assert_eq!(host.keys(Family::Tools), ["b"]);
    let differences = host.events.iter().filter(|event| matches!(event, Event::CatalogChanged { .. })).count();
    assert_eq!((differences, host.quirks()), (2, vec![]));
}

#[test]
fn a_list_received_after_the_acknowledgement_is_not_requested_again() {
    let (mut host, mut server) = (Host::open(options()), modern());
    let discover = host.take_one();
    server.answer(&discover).into_iter().for_each(|answer| host.receive(answer));
    let sent = host.take_sent();
    agree_to_all(&mut host, &sent[0]);
    sent[1..].iter().flat_map(|message| server.answer(message)).for_each(|answer| host.receive(answer));
    assert!(host.is_ready());
    host.wait(seconds(100));
    assert!(host.take_sent().is_empty());
}

/// The server handles the list request before the stream request, so that a change may fall between the two.
#[test]
fn a_list_requested_before_the_stream_is_requested_again_whichever_response_comes_first() {
    let (mut host, mut server) = (Host::open(options()), modern());
    let discover = host.take_one();
    server.answer(&discover).into_iter().for_each(|answer| host.receive(answer));
    let sent = host.take_sent();
    end(&mut host, &sent[0]);
    let lists: Vec<_> = sent[1..].iter().flat_map(|message| server.answer(message)).collect();
    host.wait(seconds(2));
    let stream = host.take_one();
    agree_to_all(&mut host, &stream);
    lists.into_iter().for_each(|answer| host.receive(answer));
    let mut server = server.result("tools/list", tools(&["a", "b"]));
    host.wait(seconds(2));
    serve(&mut host, &mut server);
    assert_eq!(host.keys(Family::Tools), ["a", "b"]);
    assert_eq!((server.received("tools/list"), host.session.family(Family::Tools).watched), (2, true));
    host.wait(seconds(100));
    assert!(host.take_sent().is_empty());
}

#[test]
fn no_stream_is_requested_without_content_or_if_the_options_turn_it_off() {
    let mut server = Server::modern(json!({"tools": {}})).result("tools/list", tools(&[]));
    let host = Host::connect(options(), &mut server);
    assert_eq!((host.is_ready(), server.received(LISTEN)), (true, 0));
    let (mut options, mut server) = (options(), modern());
    options.listen = false;
    let mut host = Host::connect(options, &mut server);
    host.session.subscribe(host.now, "x://r").unwrap();
    assert_eq!((host.is_ready(), server.received(LISTEN)), (true, 0));
}

/// github-mcp-server #3073, appwrite #100
#[test]
fn a_refused_stream_is_requested_once_per_connection() {
    for (code, words) in [(-32601, "Method not found"), (-32603, "internal"), (-32000, "Session not found"), (7, "no")]
    {
        let mut server = modern().error(LISTEN, code, words);
        let mut host = Host::connect(reconnecting(options()), &mut server);
        host.session.subscribe(host.now, "x://r").unwrap();
        host.collect();
        assert_eq!(take_subscription_events(&mut host), ["x://r refused: it refused `subscriptions/listen`"]);
        host.serve(&mut server);
        host.wait(seconds(1000));
        assert_eq!((host.is_ready(), host.opens, server.received(LISTEN)), (true, 1, 1), "{code}");
        assert_eq!(host.keys(Family::Tools), ["a"]);
        assert_eq!(host.quirk_methods(QuirkKind::ListenRefused), [LISTEN]);
        host.close_transport();
        host.wait(seconds(1));
        host.transport(Transport::Opened);
        host.serve(&mut server);
        assert_eq!((host.is_ready(), server.received(LISTEN)), (true, 2), "the next connection requests it again");
    }
}

#[test]
fn a_notification_of_a_foreign_subscription_changes_nothing() {
    let (mut host, mut server, stream) = listening(options());
    agree_to_all(&mut host, &stream);
    host.wait(seconds(2));
    serve(&mut host, &mut server);
    host.events.clear();
    let changed = |method: &str, params: Value| json!({"jsonrpc": "2.0", "method": method, "params": params});
    for foreign in [json!(999), json!("999"), json!("theirs"), json!(null), json!({})] {
        let meta = json!({"io.modelcontextprotocol/subscriptionId": foreign});
        host.receive(changed("notifications/tools/list_changed", json!({"_meta": meta})));
        host.receive(changed("notifications/resources/updated", json!({"uri": "x://a", "_meta": meta})));
    }
    host.wait(seconds(100));
    assert_eq!((host.take_sent(), host.events.len(), host.quirks()), (vec![], 0, vec![]));
    assert_eq!(host.session.stats().left_out, 10);
    for own in [json!(stream["id"]), json!(stream["id"].to_string())] {
        let meta = json!({"io.modelcontextprotocol/subscriptionId": own});
        host.receive(changed("notifications/tools/list_changed", json!({"_meta": meta})));
        host.wait(seconds(2));
        assert_eq!(serve(&mut host, &mut server), [json!(null); 0]);
    }
    host.receive(changed("notifications/tools/list_changed", json!({})));
    host.wait(seconds(2));
    serve(&mut host, &mut server);
    assert_eq!(server.received("tools/list"), 5, "one without a subscription id counts");
}

#[test]
fn a_notification_of_a_change_that_nobody_asked_for_changes_nothing() {
    let mut silent = options();
    silent.listen = false;
    let capabilities = json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}});
    let mut host = Host::connect(silent, &mut Server::modern(capabilities).result("tools/list", tools(&["a"])));
    assert!(host.is_ready());
    host.take_sent();
    host.events.clear();
    for (method, params) in [("tools/list_changed", json!({})), ("resources/updated", json!({"uri": "x://a"}))] {
        host.receive(json!({"jsonrpc": "2.0", "method": format!("notifications/{method}"), "params": params}));
    }
    host.receive(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    host.wait(seconds(100));
    assert_eq!((host.take_sent(), host.events.len(), host.session.stats().left_out), (vec![], 0, 3));
}

#[test]
fn a_legacy_server_may_name_any_subscription() {
    let mut server = Server::legacy(json!({"tools": {"listChanged": true}})).result("tools/list", tools(&["a"]));
    let mut host = Host::connect(legacy(), &mut server);
    let meta = json!({"io.modelcontextprotocol/subscriptionId": "theirs"});
    let params = json!({"_meta": meta});
    host.receive(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": params}));
    host.wait(seconds(2));
    assert_eq!(host.take_methods(), ["tools/list"]);
}

#[test]
fn a_stream_that_ends_is_requested_again_and_the_lists_after_it() {
    let (mut host, mut server, mut stream) = listening(options());
    agree_to_all(&mut host, &stream);
    host.wait(seconds(2));
    serve(&mut host, &mut server);
    let mut waits = Vec::new();
    for round in 0..8 {
        let before = server.received("tools/list");
        end(&mut host, &stream);
        assert!(!host.session.family(Family::Tools).watched);
        let ended = host.now;
        host.now = host.session.deadline().unwrap();
        waits.push(host.now.since(ended).as_secs());
        host.session.handle_timeout(host.now);
        host.collect();
        stream = host.take_one();
        assert_eq!(stream["method"], LISTEN);
        agree_to_all(&mut host, &stream);
        host.wait(seconds(5));
        serve(&mut host, &mut server);
        assert_eq!(server.received("tools/list"), before + 1, "round {round}");
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60], "with increasing delays, up to a limit");
    assert!(host.quirks().is_empty(), "refreshes without a notification are no loop");
    host.wait(seconds(60));
    end(&mut host, &stream);
    assert_eq!(host.session.deadline().unwrap().since(host.now), seconds(1), "a stream that was open is no failure");
}

#[test]
fn a_stream_that_the_server_cancels_has_ended() {
    let (mut host, mut server, stream) = listening(options());
    agree_to_all(&mut host, &stream);
    host.wait(seconds(2));
    serve(&mut host, &mut server);
    let cancelled =
        |id: &Value| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    host.receive(cancelled(&json!(999)));
    assert!(host.session.family(Family::Tools).watched);
    host.receive(cancelled(&stream["id"]));
    assert!(!host.session.family(Family::Tools).watched);
    host.wait(seconds(1));
    assert_eq!(host.take_methods(), [LISTEN]);
    end(&mut host, &stream);
    assert_eq!((host.quirks(), host.session.stats().late_answers), (vec![], 1), "the response may still arrive");
}

#[test]
fn id_type_a_stream_that_the_server_cancels_by_a_string_has_ended() {
    let (mut host, mut server, stream) = listening(options());
    agree_to_all(&mut host, &stream);
    host.wait(seconds(2));
    serve(&mut host, &mut server);
    let params = json!({"requestId": stream["id"].to_string()});
    host.receive(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    assert!(!host.session.family(Family::Tools).watched);
    assert_eq!(host.quirk_methods(QuirkKind::IdType), ["notifications/cancelled"]);
}

#[test]
fn a_stream_that_is_not_acknowledged_in_time_is_cancelled_and_requested_again() {
    let (mut host, mut server, stream) = listening(options());
    host.wait(seconds(61));
    let sent = host.take_sent();
    assert_eq!(sent[0]["method"], "notifications/cancelled");
    assert_eq!(sent[0]["params"]["requestId"], stream["id"]);
    assert_eq!((&sent[1]["method"], sent.len()), (&json!(LISTEN), 2));
    agree_to_all(&mut host, &stream);
    assert!(!host.session.family(Family::Tools).watched, "that stream was cancelled");
    agree_to_all(&mut host, &sent[1]);
    assert!(host.session.family(Family::Tools).watched);
    host.wait(seconds(2));
    serve(&mut host, &mut server);
    end(&mut host, &stream);
    assert!(host.session.family(Family::Tools).watched);
    assert_eq!(host.session.stats().late_answers, 1);
}

#[test]
fn an_acknowledged_stream_does_not_count_as_a_request_in_flight() {
    let mut with_keepalive = options();
    with_keepalive.keepalive = Some(mcp_proto::Keepalive::default());
    with_keepalive.keepalive.as_mut().unwrap().discover = true;
    with_keepalive.limits.in_flight = 1;
    let (mut host, mut server, stream) = listening(with_keepalive);
    agree_to_all(&mut host, &stream);
    let call = host.session.request(host.now, Request::call_tool("a", None)).unwrap();
    host.collect();
    let sent = host.take_one();
    let error = json!({"code": -32000, "message": "no"});
    host.receive(json!({"jsonrpc": "2.0", "id": null, "error": error}));
    assert!(matches!(host.result_of(call), mcp_proto::Outcome::Error(_)), "{sent}");
    host.wait(seconds(2));
    serve(&mut host, &mut server);
    host.wait(seconds(70));
    assert_eq!(host.take_methods(), ["server/discover"], "the keepalive ignores streams");
}

#[test]
fn the_outcome_of_each_subscription_is_reported_as_the_server_acknowledges_it() {
    let (mut host, mut server, first) = listening(options());
    agree_to_all(&mut host, &first);
    serve(&mut host, &mut server);
    host.session.subscribe(host.now, "x://a").unwrap();
    host.session.subscribe(host.now, "x://b").unwrap();
    host.collect();
    let second = host.take_one();
    let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["x://a"]});
    assert_eq!(second["params"]["notifications"], filter);
    assert_eq!(take_subscription_events(&mut host), [""; 0]);
    agree_to_all(&mut host, &second);
    let sent = host.take_sent();
    assert_eq!(
        (&sent[0]["method"], &sent[0]["params"]["requestId"]),
        (&json!("notifications/cancelled"), &first["id"])
    );
    let third = &sent[1];
    assert_eq!(third["params"]["notifications"]["resourceSubscriptions"], json!(["x://a", "x://b"]));
    agree(&mut host, third, json!({"toolsListChanged": true, "resourceSubscriptions": ["x://a"]}));
    assert_eq!(take_subscription_events(&mut host), ["x://a active", "x://b refused: the server did not agree to it"]);
    let updated = json!({"uri": "x://a", "_meta": {"io.modelcontextprotocol/subscriptionId": third["id"]}});
    host.receive(json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": updated}));
    assert_eq!(take_subscription_events(&mut host), ["x://a updated"]);
    host.take_sent();
    host.session.unsubscribe(host.now, "x://b").unwrap();
    host.collect();
    assert!(host.take_sent().is_empty(), "the stream has no notifications of it");
    host.session.unsubscribe(host.now, "x://a").unwrap();
    host.collect();
    assert_eq!(host.take_one()["params"]["notifications"], json!({"toolsListChanged": true}));
    assert_eq!(host.session.subscriptions().count(), 0);
    assert_eq!(host.session.unsubscribe(host.now, "x://a"), Err(CommandError::UnknownSubscription));
}

#[test]
fn a_stream_without_content_is_cancelled() {
    let mut server = Server::modern(json!({"resources": {"subscribe": true}}))
        .result("resources/list", json!({"resources": []}))
        .result("resources/templates/list", json!({"resourceTemplates": []}));
    let mut host = Host::connect(options(), &mut server);
    host.session.subscribe(host.now, "x://a").unwrap();
    host.collect();
    let stream = host.take_one();
    agree_to_all(&mut host, &stream);
    host.session.unsubscribe(host.now, "x://a").unwrap();
    host.collect();
    let cancelled = host.take_one();
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]["requestId"]),
        (&json!("notifications/cancelled"), &stream["id"])
    );
    assert_eq!(host.session.deadline(), None);
}

/// A server with one stream per client ends the previous one when another is requested.
#[test]
fn a_stream_that_ends_while_another_is_requested_leaves_its_subscriptions_to_that_one() {
    let (mut host, _, stream) = listening(options());
    agree_to_all(&mut host, &stream);
    host.session.subscribe(host.now, "x://a").unwrap();
    host.collect();
    let second = host.take_one();
    agree_to_all(&mut host, &second);
    assert_eq!(host.take_methods(), ["notifications/cancelled"]);
    assert_eq!(take_subscription_events(&mut host), ["x://a active"]);
    host.session.subscribe(host.now, "x://b").unwrap();
    host.collect();
    let third = host.take_one();
    end(&mut host, &second);
    assert_eq!((take_subscription_events(&mut host), host.take_sent()), (vec![], vec![]));
    agree_to_all(&mut host, &third);
    // The first stream reported nothing, so the subscription is reported again.
    assert_eq!(take_subscription_events(&mut host), ["x://a active", "x://b active"]);
}

/// A subscription without a stream is reported as refused, whenever it was made.
#[test]
fn a_subscription_without_a_stream_is_reported_as_refused() {
    for has_listen in [true, false] {
        let mut silent = options();
        silent.listen = !has_listen;
        let why = if has_listen { "the options say not to listen" } else { "it refused `subscriptions/listen`" };
        let mut host = Host::open(silent);
        let mut server = modern().error(LISTEN, -32601, "Method not found");
        host.session.subscribe(host.now, "x://early").unwrap();
        host.serve(&mut server);
        assert!(host.is_ready());
        assert_eq!(take_subscription_events(&mut host), [format!("x://early refused: {why}")]);
        host.session.subscribe(host.now, "x://late").unwrap();
        host.collect();
        assert_eq!(take_subscription_events(&mut host), [format!("x://late refused: {why}")]);
        // A repeated subscription is reported again.
        host.session.subscribe(host.now, "x://early").unwrap();
        host.collect();
        assert_eq!(take_subscription_events(&mut host), [format!("x://early refused: {why}")]);
        assert_eq!(server.received(LISTEN), usize::from(!has_listen));
    }
}

#[test]
fn a_stream_and_its_resources_are_restored_on_the_next_connection() {
    let (mut host, mut server, stream) = listening(reconnecting(options()));
    agree_to_all(&mut host, &stream);
    host.session.subscribe(host.now, "x://a").unwrap();
    host.collect();
    let stream = serve(&mut host, &mut server).pop().unwrap();
    agree_to_all(&mut host, &stream);
    assert_eq!(take_subscription_events(&mut host), ["x://a active"]);
    host.take_sent();
    host.close_transport();
    assert!(!host.session.family(Family::Tools).watched);
    host.session.subscribe(host.now, "x://b").unwrap();
    host.wait(seconds(1));
    assert_eq!(host.opens, 2);
    assert!(host.take_sent().is_empty(), "nothing is sent without a connection");
    host.transport(Transport::Opened);
    let streams = serve(&mut host, &mut server);
    assert_eq!((streams.len(), host.is_ready()), (1, true));
    assert_eq!(streams[0]["params"]["notifications"]["resourceSubscriptions"], json!(["x://a", "x://b"]));
    agree_to_all(&mut host, &streams[0]);
    assert_eq!(
        take_subscription_events(&mut host),
        ["x://a active", "x://b active"],
        "including the previously active one"
    );
}

#[test]
fn a_legacy_server_is_sent_each_subscription_on_each_connection() {
    let (mut host, mut server) = (Host::open(reconnecting(legacy())), old(true));
    let initialize = host.take_one();
    server.answer(&initialize).into_iter().for_each(|answer| host.receive(answer));
    host.session.subscribe(host.now, "x://a").unwrap();
    host.collect();
    assert!(!host.methods().contains(&"resources/subscribe"), "the lists come first");
    host.serve(&mut server);
    assert_eq!(take_subscription_events(&mut host), ["x://a active"]);
    host.session.subscribe(host.now, "x://a").unwrap();
    host.session.subscribe(host.now, "x://b").unwrap();
    host.collect();
    let sent = host.take_one();
    assert_eq!((&sent["method"], &sent["params"]), (&json!("resources/subscribe"), &json!({"uri": "x://b"})));
    server.answer(&sent).into_iter().for_each(|answer| host.receive(answer));
    assert_eq!(take_subscription_events(&mut host), ["x://b active"]);
    host.receive(json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "x://b/1"}}));
    assert_eq!(take_subscription_events(&mut host), ["x://b/1 updated"]);
    host.close_transport();
    host.wait(seconds(1));
    host.transport(Transport::Opened);
    host.serve(&mut server);
    assert_eq!(take_subscription_events(&mut host), ["x://a active", "x://b active"]);
    host.session.unsubscribe(host.now, "x://a").unwrap();
    host.session.unsubscribe(host.now, "x://b").unwrap();
    host.session.subscribe(host.now, "x://b").unwrap();
    host.collect();
    assert_eq!(host.session.subscriptions().collect::<Vec<_>>(), ["x://b"]);
    host.serve(&mut server);
    assert_eq!(take_subscription_events(&mut host), ["x://b active"], "unsubscribed and subscribed again");
    assert_eq!((server.received("resources/subscribe"), server.received("resources/unsubscribe")), (5, 2));
}

#[test]
fn a_subscription_withdrawn_before_its_response_is_ended_after_it() {
    let mut host = Host::connect(legacy(), &mut old(true));
    host.session.subscribe(host.now, "x://a").unwrap();
    host.session.unsubscribe(host.now, "x://a").unwrap();
    assert_eq!(host.session.unsubscribe(host.now, "x://a"), Err(CommandError::UnknownSubscription));
    host.collect();
    let mut server = old(true);
    host.serve(&mut server);
    let asked: Vec<_> = server.messages().map(|asked| asked["method"].clone()).collect();
    assert_eq!(asked, ["resources/subscribe", "resources/unsubscribe"]);
    assert_eq!(take_subscription_events(&mut host), [""; 0]);
}

#[test]
fn a_refusal_is_reported_with_the_servers_text_and_a_subscription_may_be_repeated() {
    let mut host = Host::connect(legacy(), &mut old(true));
    let mut server = old(true).error("resources/subscribe", -32002, "no such resource");
    for _ in 0..2 {
        host.session.subscribe(host.now, "x://a").unwrap();
        host.collect();
        host.serve(&mut server);
        assert_eq!(take_subscription_events(&mut host), ["x://a refused: no such resource (-32002)"]);
    }
    host.session.subscribe(host.now, "x://a").unwrap();
    host.wait(seconds(60));
    assert_eq!(take_subscription_events(&mut host), ["x://a refused: no response within 60s"]);
    assert_eq!(host.take_methods(), ["resources/subscribe", "notifications/cancelled"]);
}

#[test]
fn a_server_that_does_not_declare_subscriptions_is_not_sent_any() {
    for modern in [false, true] {
        let mut server = if modern { Server::modern(json!({"resources": {}})) } else { old(false) };
        server = server
            .result("resources/list", json!({"resources": []}))
            .result("resources/templates/list", json!({"resourceTemplates": []}));
        let mut host = Host::open(options());
        host.session.subscribe(host.now, "x://a").unwrap();
        host.serve(&mut server);
        assert_eq!(
            take_subscription_events(&mut host),
            ["x://a refused: it does not declare `resources.subscribe`"],
            "modern: {modern}"
        );
        let refused = host.session.subscribe(host.now, "x://b").unwrap_err();
        assert!(
            matches!(refused, CommandError::NotAdvertised { ref capability, .. } if capability == "resources.subscribe")
        );
        assert_eq!(server.received("resources/subscribe") + server.received(LISTEN), 0);
    }
}

#[test]
fn the_number_of_subscriptions_is_limited() {
    let mut bounded = legacy();
    bounded.limits.subscriptions = 2;
    let mut host = Host::new(bounded);
    host.session.subscribe(host.now, "x://a").unwrap();
    host.session.subscribe(host.now, "x://b").unwrap();
    assert_eq!(host.session.subscribe(host.now, "x://c"), Err(CommandError::TooManySubscriptions { limit: 2 }));
    host.session.subscribe(host.now, "x://a").unwrap();
    host.session.unsubscribe(host.now, "x://a").unwrap();
    host.session.subscribe(host.now, "x://c").unwrap();
}

#[test]
fn the_log_level_is_set_at_run_time_and_on_each_connection() {
    let (mut host, mut server) = (Host::open(reconnecting(legacy())), old(true));
    host.serve(&mut server);
    assert_eq!(server.received("logging/setLevel"), 0);
    host.session.set_log_level(host.now, LogLevel::Warning).unwrap();
    host.collect();
    let sent = host.take_one();
    assert_eq!((&sent["method"], &sent["params"]["level"]), (&json!("logging/setLevel"), &json!("warning")));
    server.answer(&sent).into_iter().for_each(|answer| host.receive(answer));
    host.close_transport();
    host.session.set_log_level(host.now, LogLevel::Debug).unwrap();
    host.wait(seconds(1));
    host.transport(Transport::Opened);
    host.serve(&mut server);
    assert_eq!(server.messages().next_back().unwrap()["method"], "resources/templates/list");
    let levels = server.messages().filter(|asked| asked["method"] == "logging/setLevel");
    assert_eq!(levels.map(|asked| asked["params"]["level"].clone()).collect::<Vec<_>>(), ["warning", "debug"]);
    let mut host = Host::connect(legacy(), &mut Server::legacy(json!({})));
    let refused = host.session.set_log_level(host.now, LogLevel::Info).unwrap_err();
    assert!(matches!(refused, CommandError::NotAdvertised { ref capability, .. } if capability == "logging"));
}

#[test]
fn a_log_level_that_waits_to_be_sent_is_replaced_by_the_next() {
    let mut options = legacy();
    options.limits.in_flight = 1;
    let mut host = Host::connect(options, &mut old(true));
    host.session.request(host.now, Request::new("acme/do")).unwrap();
    host.collect();
    let request = host.take_one();
    for level in [LogLevel::Warning, LogLevel::Debug] {
        host.session.set_log_level(host.now, level).unwrap();
    }
    host.receive(json!({"jsonrpc": "2.0", "id": request["id"], "result": {}}));
    let sent = host.take_one();
    assert_eq!((&sent["method"], &sent["params"]["level"]), (&json!("logging/setLevel"), &json!("debug")));
    host.receive(json!({"jsonrpc": "2.0", "id": sent["id"], "result": {}}));
    assert!(host.take_sent().is_empty());
}

#[test]
fn in_the_modern_era_each_request_carries_the_log_level() {
    let mut server = Server::modern(json!({"tools": {}, "logging": {}})).result("tools/list", tools(&["a"]));
    let mut host = Host::connect(options(), &mut server);
    host.session.set_log_level(host.now, LogLevel::Error).unwrap();
    host.collect();
    assert!(host.take_sent().is_empty());
    host.session.request(host.now, Request::call_tool("a", None)).unwrap();
    host.collect();
    assert_eq!(host.take_one()["params"]["_meta"]["io.modelcontextprotocol/logLevel"], "error");
}

#[test]
fn log_messages_are_typed_events_and_invalid_ones_are_raw_notifications() {
    let mut host = Host::connect(legacy(), &mut old(true));
    host.events.clear();
    let log = |params: Value| json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params});
    host.receive(log(json!({"level": "notice", "logger": "db", "data": {"a": 1}})));
    host.receive(log(json!({"level": "emergency", "data": "x"})));
    host.receive(log(json!({"level": "loud", "data": 1})));
    host.receive(log(json!({"level": "info"})));
    host.receive(json!({"jsonrpc": "2.0", "method": "notifications/resources/updated"}));
    let reported = host.events.iter().map(|event| match event {
        Event::Log { level, logger, data } => format!("{level:?} {logger:?} {data}"),
        Event::Notification { method, .. } => method.to_string(),
        other => panic!("{other:?}"),
    });
    assert_eq!(
        reported.collect::<Vec<_>>(),
        [
            r#"Notice Some("db") {"a":1}"#,
            r#"Emergency None "x""#,
            "notifications/message",
            "notifications/message",
            "notifications/resources/updated",
        ]
    );
}

#[test]
fn requests_that_the_engine_sends_itself_are_refused() {
    let mut host = Host::connect(legacy(), &mut old(true));
    for method in [LISTEN, "resources/subscribe", "resources/unsubscribe", "logging/setLevel"] {
        let refused = host.session.request(host.now, Request::new(method)).unwrap_err();
        assert!(matches!(refused, CommandError::Reserved { .. }), "{method}");
    }
}

/// As above, with one more subscription, which the requested stream does not have.
#[test]
fn a_stream_that_ends_while_two_subscriptions_wait_leaves_both_to_the_next_streams() {
    let (mut host, _, stream) = listening(options());
    agree_to_all(&mut host, &stream);
    host.session.subscribe(host.now, "x://a").unwrap();
    host.collect();
    let second = host.take_one();
    host.session.subscribe(host.now, "x://b").unwrap();
    host.collect();
    end(&mut host, &stream);
    assert_eq!((take_subscription_events(&mut host), host.take_sent()), (vec![], vec![]));
    agree_to_all(&mut host, &second);
    let third = host.take_one();
    assert_eq!(third["params"]["notifications"]["resourceSubscriptions"], json!(["x://a", "x://b"]));
    agree_to_all(&mut host, &third);
    let reported = take_subscription_events(&mut host);
    assert!(reported.contains(&"x://a active".into()) && reported.contains(&"x://b active".into()), "{reported:?}");
    assert!(reported.iter().all(|reported| reported.ends_with(" active")), "{reported:?}");
}

/// Answers all requests except those for streams and for tools, which are returned.
fn serve_but_tools(host: &mut Host, server: &mut Server) -> (Vec<Value>, Vec<Value>) {
    let (mut streams, mut lists) = (Vec::new(), Vec::new());
    let mut steps = Steps::until("nothing is left to answer");
    loop {
        steps.step();
        let sent = host.take_sent();
        if sent.is_empty() {
            return (streams, lists);
        }
        for message in sent {
            match message["method"].as_str() {
                Some(LISTEN) => streams.push(message),
                Some("tools/list") => lists.push(message),
                _ => server.answer(&message).into_iter().for_each(|answer| host.receive(answer)),
            }
        }
    }
}

#[test]
fn a_stream_that_breaks_while_a_list_is_requested_a_second_time_in_discovery_requests_no_third() {
    let (mut host, mut server) = (Host::open(options()), modern());
    let (streams, lists) = serve_but_tools(&mut host, &mut server);
    agree_to_all(&mut host, &streams[0]);
    tools_changed(&mut host, &streams[0]);
    server.answer(&lists[0]).into_iter().for_each(|answer| host.receive(answer));
    let (_, again) = serve_but_tools(&mut host, &mut server);
    assert_eq!(again.len(), 1);
    tools_changed(&mut host, &streams[0]);
    end(&mut host, &streams[0]);
    host.wait(seconds(10));
    let (streams, lists) = serve_but_tools(&mut host, &mut server);
    assert_eq!((streams.len(), lists.len()), (1, 0));
    agree_to_all(&mut host, &streams[0]);
    assert!(serve_but_tools(&mut host, &mut server).1.is_empty() && !host.is_ready());
    server.answer(&again[0]).into_iter().for_each(|answer| host.receive(answer));
    assert!(host.is_ready());
}

/// The description of a server expires, and then declares more.
#[test]
fn a_stream_that_is_replaced_announces_tools_that_were_not_declared_at_first() {
    let described = |capabilities: Value| {
        json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities,
            "ttlMs": 1000, "cacheScope": "public"})
    };
    let mut results = vec![
        described(json!({"tools": {"listChanged": true}, "resources": {"subscribe": true, "listChanged": true}})),
        described(json!({"resources": {"subscribe": true, "listChanged": true}})),
    ];
    let mut server = modern().on("server/discover", move |_| Ok(results.pop().unwrap()));
    let mut host = Host::open(options());
    let streams = serve(&mut host, &mut server);
    agree_to_all(&mut host, &streams[0]);
    assert!(host.is_ready());
    host.wait(seconds(2));
    let mut last = Value::Null;
    for uri in ["a:1", "a:2"] {
        host.session.subscribe(host.now, uri).unwrap();
        host.collect();
        for stream in serve(&mut host, &mut server) {
            agree_to_all(&mut host, &stream);
            last = stream;
        }
    }
    assert_eq!(last["params"]["notifications"]["toolsListChanged"], true, "{last}");
    end(&mut host, &last);
    host.wait(seconds(60));
    let streams = serve(&mut host, &mut server);
    assert_eq!(streams.len(), 1);
    agree_to_all(&mut host, &streams[0]);
    serve(&mut host, &mut server);
    assert!(host.is_ready() && server.received("tools/list") == 0);
}
