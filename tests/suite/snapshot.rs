//! Saved clients: rejected documents, and moves without the transport.

use std::hash::Hasher;

use mcp_proto::{
    Action, Client, Event, Http, Lines, Messages, Moved, Options, Request, RequestId, Secrets, Snapshot, SnapshotError,
    Time, Transport,
};
use serde_json::{Value, json};
use siphasher::sip128::{Hasher128, SipHasher13};

use crate::common::{Host, Server, legacy, reconnecting, seconds, tools};
use crate::moved::moved;
use crate::web::{LAST_ID, Reply, SESSION, Site, URL, Web};

fn server() -> Server {
    Server::legacy(json!({"tools": {}}))
        .result("tools/list", tools(&["a", "b"]))
        .result("tools/call", json!({"content": []}))
}

fn options() -> Options {
    reconnecting(legacy())
}

/// A client that is ready, with one polled call and two queued ones.
fn client_with_calls() -> (Host, [RequestId; 3]) {
    let mut options = options();
    options.parallel_tool_calls = false;
    let mut host = Host::connect(options, &mut server());
    let now = host.now;
    let call = |host: &mut Host, name| host.session.request(now, Request::call_tool(name, None)).unwrap();
    let first = call(&mut host, "a");
    host.collect();
    let (second, third) = (call(&mut host, "b"), call(&mut host, "a"));
    (host, [first, second, third])
}

fn text(client: &Client<Messages>) -> String {
    serde_json::to_string(&client.snapshot(Secrets::Included)).unwrap()
}

fn restore(text: &str) -> Result<Client<Messages>, SnapshotError> {
    restore_with(text, options())
}

fn restore_with(text: &str, options: Options) -> Result<Client<Messages>, SnapshotError> {
    let snapshot: Snapshot = serde_json::from_str(text).expect("a document");
    Client::from_snapshot(Messages::new(), options, &snapshot, Moved::WithTransport)
}

/// The document with a changed value.
fn with(text: &str, member: &str, value: Value) -> String {
    let mut document: Value = serde_json::from_str(text).unwrap();
    document[member] = value;
    document.to_string()
}

#[test]
fn any_other_document_is_foreign() {
    for text in ["{}", r#"{"version":"1","state":"{}"}"#, r#"{"a":{"b":[]}}"#] {
        assert_eq!(restore(text).unwrap_err(), SnapshotError::Foreign);
    }
}

#[test]
fn a_snapshot_of_another_version_names_both() {
    let text = text(&client_with_calls().0.session);
    let error = restore(&with(&text, "version", json!("9.9.9"))).unwrap_err();
    assert!(matches!(&error, SnapshotError::Version { .. }), "{error:?}");
    assert!(error.to_string().contains("9.9.9") && error.to_string().contains(env!("CARGO_PKG_VERSION")), "{error}");
    let error = restore(&with(&text, "format", json!(1000))).unwrap_err();
    assert!(error.to_string().contains("format 1000"), "{error}");
}

#[test]
fn a_snapshot_of_another_kind_names_both() {
    let client = Client::new(Lines::new(), options(), 1);
    let error = restore(&serde_json::to_string(&client.snapshot(Secrets::Included)).unwrap()).unwrap_err();
    assert_eq!(error, SnapshotError::Kind { found: "lines".into(), expected: "messages" });
}

#[test]
fn each_changed_byte_and_each_cut_is_noticed() {
    let whole = text(&client_with_calls().0.session);
    assert!(restore(&whole).is_ok());
    for at in (0..whole.len()).step_by(7) {
        let mut bytes = whole.clone().into_bytes();
        bytes[at] = if bytes[at] == b'1' { b'2' } else { b'1' };
        // Some changes are not JSON any more, and changed names remove a member.
        let read = serde_json::from_slice(&bytes).ok();
        let read =
            read.map(|it| Client::from_snapshot(Messages::new(), options(), &it, Moved::WithTransport).map(drop));
        assert!(read.is_none_or(|read| read.is_err()), "the change at {at} is not noticed");
        assert!(serde_json::from_str::<Snapshot>(&whole[..at]).is_err());
    }
    let state = serde_json::from_str::<Value>(&whole).unwrap()["state"].as_str().unwrap().to_owned();
    for end in (0..state.len()).step_by(101) {
        let cut = with(&whole, "state", json!(state[..end]));
        assert_eq!(restore(&cut).unwrap_err(), SnapshotError::Damaged);
    }
}

#[test]
fn a_state_of_a_hundred_megabytes_is_refused_by_its_checksum() {
    let whole = text(&client_with_calls().0.session);
    let long = with(&whole, "state", json!("[".repeat(100 << 20)));
    assert_eq!(restore(&long).unwrap_err(), SnapshotError::Damaged);
}

/// The document with another state, and the checksum of that.
pub(crate) fn with_state(text: &str, state: &str) -> String {
    let mut document: Value = serde_json::from_str(text).unwrap();
    let mut hasher = SipHasher13::new();
    for text in [document["version"].as_str().unwrap(), document["kind"].as_str().unwrap(), state] {
        hasher.write(&(text.len() as u64).to_le_bytes());
        hasher.write(text.as_bytes());
    }
    let format = u32::try_from(document["format"].as_u64().unwrap()).unwrap();
    hasher.write(&format.to_le_bytes());
    let time: Time = serde_json::from_value(document["time"].clone()).unwrap();
    hasher.write(&time.as_micros().to_le_bytes());
    hasher.write(&[u8::from(document["secrets"].as_bool().unwrap())]);
    document["state"] = state.into();
    document["checksum"] = format!("{:032x}", hasher.finish128().as_u128()).into();
    document.to_string()
}

#[test]
fn a_state_of_a_hundred_megabytes_with_its_checksum_is_invalid() {
    let whole = text(&client_with_calls().0.session);
    let state = serde_json::from_str::<Value>(&whole).unwrap()["state"].as_str().unwrap().to_owned();
    assert!(restore(&with_state(&whole, &state)).is_ok(), "the checksum is that of the state");
    let unknown = format!("{{\"unknown\":\"{}\",{}", "x".repeat(100 << 20), &state[1..]);
    for long in ["[".repeat(100 << 20), format!("[0{}]", ",0".repeat(50 << 20)), unknown] {
        let error = restore(&with_state(&whole, &long)).unwrap_err();
        assert!(matches!(error, SnapshotError::Invalid { .. }), "{error:?}");
    }
}

#[test]
fn the_limits_of_the_given_options_apply() {
    let (host, _) = client_with_calls();
    let text = text(&host.session);
    let lower = |lower: fn(&mut Options)| {
        let mut options = options();
        lower(&mut options);
        restore_with(&text, options).unwrap_err()
    };
    assert_eq!(
        lower(|options| (options.limits.queued, options.limits.in_flight) = (1, 1)),
        SnapshotError::Limit { limit: "queued", found: 3, most: 2 }
    );
    assert_eq!(lower(|options| options.limits.items = 1), SnapshotError::Limit { limit: "items", found: 2, most: 1 });

    // During discovery: the pages so far, and notifications that are held until the client is ready.
    let mut paged = tools(&["a", "b"]);
    paged["nextCursor"] = json!("2");
    let mut server = Server::legacy(json!({"tools": {}})).result("tools/list", paged);
    let mut host = Host::open(options());
    host.receive(json!({"jsonrpc": "2.0", "method": "notifications/example"}));
    for _ in 0..2 {
        for asked in host.take_sent() {
            server.answer(&asked).into_iter().for_each(|answer| host.receive(answer));
        }
    }
    let text = self::text(&host.session);
    let lower = |lower: fn(&mut Options)| {
        let mut options = options();
        lower(&mut options);
        restore_with(&text, options).unwrap_err()
    };
    assert_eq!(lower(|options| options.limits.items = 1), SnapshotError::Limit { limit: "items", found: 2, most: 1 });
    assert_eq!(lower(|options| options.limits.held = 0), SnapshotError::Limit { limit: "held", found: 1, most: 0 });
}

#[test]
fn url_elicitations_are_restored_in_their_order() {
    let mut options = options();
    (options.capabilities.elicitation, options.capabilities.elicitation_url) = (true, true);
    options.limits.server_requests = 3;
    let mut host = Host::connect(options, &mut server());
    let mut number = 0;
    let mut ask = |host: &mut Host, id: &str| {
        number += 1;
        let params = json!({"mode": "url", "elicitationId": id, "url": "https://x/a", "message": "sign in"});
        host.receive(json!({"jsonrpc": "2.0", "id": number, "method": "elicitation/create", "params": params}));
        host.receive(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}));
    };
    ["a", "b", "c", "a"].iter().for_each(|id| ask(&mut host, id));
    host.session = moved(&host.session, Messages::new(), Moved::WithTransport);
    host.events.clear();
    // `b` is the oldest: `a` was asked for again.
    ask(&mut host, "d");
    for id in ["a", "b", "c", "d", "a"] {
        let params = json!({"elicitationId": id});
        host.receive(json!({"jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": params}));
    }
    let completed = host.events.iter().filter_map(|event| match event {
        Event::ElicitationComplete { id, .. } => Some(&**id),
        _ => None,
    });
    assert_eq!(completed.collect::<Vec<_>>(), ["a", "c", "d"]);
}

#[test]
fn the_time_of_the_last_input_is_known() {
    let mut client = Client::new(Messages::new(), options(), 1);
    client.open(Time::from_millis(77)).unwrap();
    let snapshot = client.snapshot(Secrets::Included);
    assert_eq!((snapshot.time(), snapshot.secrets()), (Time::from_millis(77), Secrets::Included));
    assert!(!format!("{snapshot:?}").contains("state"));
}

#[test]
fn a_restored_client_is_ready_without_the_event() {
    let is_event = |event: &Event| matches!(event, Event::Ready);
    let (host, _) = client_with_calls();
    let mut client = moved(&host.session, Messages::new(), Moved::WithTransport);
    client.handle_timeout(host.now);
    let events: Vec<_> = std::iter::from_fn(|| client.poll()).collect();
    assert!(client.is_ready() && !events.iter().any(|it| matches!(it, Action::Event(event) if is_event(event))));

    let mut site = Site::legacy(json!({"tools": {}})).result("tools/list", tools(&["a"]));
    let mut web = Web::connect(options(), &mut site);
    web.events.clear();
    web.session = moved(&web.session, Http::new(URL).unwrap(), Moved::WithoutTransport);
    web.collect();
    web.serve(&mut site);
    assert!(web.is_ready() && !web.events.iter().any(is_event), "the session goes on");

    let mut host = client_with_calls().0;
    host.events.clear();
    host.session = moved(&host.session, Messages::new(), Moved::WithoutTransport);
    assert!(!host.session.is_ready());
    reconnect(&mut host, &mut server());
    assert!(host.events.iter().any(is_event), "the connection is another one");
}

#[test]
fn an_unfinished_line_is_saved() {
    let mut client = Client::new(Lines::new(), options(), 1);
    client.open(Time::ZERO).unwrap();
    client.handle_transport(Time::ZERO, client.connection(), Transport::Opened);
    let request = std::iter::from_fn(|| client.poll())
        .find_map(|action| if let Action::Send(message) = action { message.wire_id() } else { None });
    let result = crate::common::result("initialize", &json!({}), "2025-11-25", &json!({}));
    let answer = json!({"jsonrpc": "2.0", "id": request.unwrap().as_u64(), "result": result, "_": "é"}).to_string();
    // The cut is within a character.
    let (head, tail) = answer.as_bytes().split_at(answer.find('é').unwrap() + 1);
    client.handle_bytes(Time::ZERO, client.connection(), head);
    let mut client = moved(&client, Lines::new(), Moved::WithTransport);
    client.handle_bytes(Time::ZERO, client.connection(), tail);
    client.handle_bytes(Time::ZERO, client.connection(), b"\n");
    assert!(client.server().is_some());
}

/// The client reconnects to the server, after its backoff.
fn reconnect(host: &mut Host, server: &mut Server) {
    let opens = host.opens;
    host.collect();
    host.wait(seconds(5));
    assert_eq!(host.opens, opens + 1);
    host.transport(Transport::Opened);
    host.serve(server);
}

/// The name of the outcome's variant; `open` if the call has not ended.
fn outcome(host: &Host, request: RequestId) -> String {
    let text = host.ended(request).map_or("open".into(), |outcome| format!("{outcome:?}"));
    text.split('(').next().unwrap().into()
}

fn calls(host: &Host) -> usize {
    host.methods().iter().filter(|method| **method == "tools/call").count()
}

#[test]
fn without_the_transport_a_polled_call_is_unknown_and_the_others_are_sent() {
    let (mut host, [first, second, third]) = client_with_calls();
    host.session = moved(&host.session, Messages::new(), Moved::WithoutTransport);
    host.sent.clear();
    host.collect();
    assert_eq!([first, second, third].map(|request| outcome(&host, request)), ["Unknown", "open", "open"]);
    assert!(host.events.iter().any(|event| matches!(event, Event::Down { .. })));
    assert_eq!(calls(&host), 1);
    reconnect(&mut host, &mut server());
    assert_eq!([second, third].map(|request| outcome(&host, request)), ["Result", "Result"]);
    assert_eq!(calls(&host), 3);
}

#[test]
fn without_the_transport_a_call_that_may_run_twice_is_sent_again() {
    let mut host = Host::connect(options(), &mut server());
    let call = host.session.request(host.now, Request::call_tool("a", None).replay(true)).unwrap();
    host.collect();
    host.sent.clear();
    host.session = moved(&host.session, Messages::new(), Moved::WithoutTransport);
    reconnect(&mut host, &mut server());
    assert_eq!((&*outcome(&host, call), calls(&host)), ("Result", 2));
}

#[test]
fn an_unpolled_transport_is_not_lost() {
    let mut client = Client::new(Messages::new(), options(), 1);
    client.open(Time::ZERO).unwrap();
    let mut client = moved(&client, Messages::new(), Moved::WithoutTransport);
    assert!(matches!(client.poll(), Some(Action::Open(_))));
    assert!(client.poll().is_none());
}

/// A client over HTTP that is ready, with a session id.
fn web() -> (Web, Site) {
    let mut site = Site::of(server(), true);
    let web = Web::connect(options(), &mut site);
    (web, site)
}

fn http() -> Http {
    Http::new(URL).unwrap()
}

/// The exchanges ended with their process.
fn move_without_exchanges(web: &mut Web) {
    web.session = moved(&web.session, http(), Moved::WithoutTransport);
    web.open.clear();
    web.collect();
}

#[test]
fn without_its_exchanges_an_http_session_continues() {
    let (mut web, mut site) = web();
    let stream = web.last("GET");
    web.body(&stream, "id: 41\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n");
    let (call, exchange) = web.call("a");
    let session = exchange.header(SESSION).unwrap().to_owned();
    move_without_exchanges(&mut web);
    assert_eq!(web.outcome(call), "Unknown");
    web.wait(seconds(3));
    let stream = web.take_named("GET");
    assert_eq!((stream.header(SESSION), stream.header(LAST_ID)), (Some(&*session), Some("41")));
    web.reply(&stream, Reply::stream(""));
    let (call, exchange) = web.call("a");
    assert_eq!(exchange.header(SESSION), Some(&*session));
    let reply = site.reply(&exchange);
    web.reply(&exchange, reply);
    assert_eq!(web.outcome(call), "Result");
}

#[test]
fn without_its_exchanges_the_stream_of_a_call_is_resumed() {
    let (mut web, _) = web();
    let (call, exchange) = web.call("a");
    web.reply(&exchange, Reply::stream("id: 7\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n"));
    move_without_exchanges(&mut web);
    web.wait(seconds(2));
    let resumed = web.open.values().find(|it| it.header(LAST_ID) == Some("7")).cloned().expect("a GET from event 7");
    web.reply(&resumed, Reply::events(&[exchange.result(json!({"content": []}))]));
    assert_eq!(web.outcome(call), "Result");
}

/// The address may have secrets in it.
#[test]
fn without_secrets_the_address_is_not_saved() {
    let mut web = Web::at(options(), "https://ada:hush@example.com/mcp?key=hush");
    web.reopen();
    web.serve(&mut Site::of(server(), true));
    assert!(web.is_ready());
    let saved = |secrets| serde_json::to_string(&web.session.snapshot(secrets)).unwrap();
    assert!(saved(Secrets::Included).contains("hush") && !saved(Secrets::Excluded).contains("hush"));
}

/// A pipe ends with its process.
#[test]
fn without_the_transport_a_client_over_lines_opens_another() {
    let mut client = Client::new(Lines::new(), options(), 1);
    client.open(Time::ZERO).unwrap();
    client.handle_transport(Time::ZERO, client.connection(), Transport::Opened);
    while client.poll().is_some() {}
    let mut client = moved(&client, Lines::new(), Moved::WithoutTransport);
    let is_down = |action| matches!(action, Action::Event(Event::Down { .. }));
    assert!(std::iter::from_fn(|| client.poll()).any(is_down));
}

#[test]
fn the_data_of_an_event_is_within_the_limit_of_the_given_options() {
    let (mut web, _) = web();
    let (_, exchange) = web.call("a");
    web.reply(&exchange, Reply::stream(&format!("data: {}", "x".repeat(2_000))));
    let snapshot = web.session.snapshot(Secrets::Included);
    let mut options = options();
    options.limits.message.bytes = 1_000;
    let error = Client::from_snapshot(http(), options, &snapshot, Moved::WithTransport).unwrap_err();
    assert!(matches!(error, SnapshotError::Limit { limit: "message", found: 2_000, .. }), "{error:?}");
}

#[test]
fn without_secrets_a_new_session_is_opened() {
    let (mut web, mut site) = web();
    let session = site.session.clone().unwrap();
    let snapshot = web.session.snapshot(Secrets::Excluded);
    assert!(!serde_json::to_string(&snapshot).unwrap().contains(&session));
    let restore = |moved| Client::from_snapshot(http(), options(), &snapshot, moved);
    assert_eq!(restore(Moved::WithTransport).unwrap_err(), SnapshotError::NoSecrets);
    web.session = restore(Moved::WithoutTransport).unwrap();
    web.open.clear();
    web.collect();
    web.wait(seconds(5));
    web.serve(&mut site);
    assert!(web.session.is_ready() && site.session.as_ref() != Some(&session));
}

#[test]
fn a_client_that_is_restored_without_a_keepalive_sends_no_request() {
    let mut options = options();
    options.keepalive = Some(mcp_proto::Keepalive::default());
    let mut host = Host::connect(options.clone(), &mut server());
    host.take_sent();
    let text = text(&host.session);
    for keepalive in [options.keepalive, None] {
        options.keepalive = keepalive;
        host.session = restore_with(&text, options.clone()).unwrap();
        host.wait(seconds(600));
        assert_eq!(host.take_methods().is_empty(), keepalive.is_none());
    }
}

/// The values of all members of this name.
fn members<'a>(json: &'a Value, name: &str, found: &mut Vec<&'a Value>) {
    match json {
        Value::Array(all) => all.iter().for_each(|it| members(it, name, found)),
        Value::Object(all) => {
            found.extend(all.get(name));
            all.values().for_each(|it| members(it, name, found));
        }
        _ => {}
    }
}

/// A request that is sent again has another id, by which it is found, until it ends.
#[test]
fn the_id_of_a_request_that_was_sent_again_is_forgotten_with_it() {
    let mut web = Web::connect(options(), &mut Site::of(server(), true));
    // One that stays open, so that the table is not empty.
    let _ = web.call("b");
    let renamed = |web: &Web| {
        let snapshot = serde_json::to_value(web.session.snapshot(Secrets::Included)).unwrap();
        let state: Value = serde_json::from_str(snapshot["state"].as_str().unwrap()).unwrap();
        let mut found = Vec::new();
        members(&state, "renamed", &mut found);
        assert_eq!(found.len(), 1);
        found[0].as_object().map_or_else(|| found[0].as_array().unwrap().len(), serde_json::Map::len)
    };
    for _ in 0..3 {
        let (_, call) = web.call("a");
        web.reply(&call, Reply::status(429).with("retry-after", "1"));
        web.wait(seconds(1));
        let again = web.take_named("tools/call");
        assert_eq!(renamed(&web), 1);
        web.reply(&again, Reply::json(200, &again.result(json!({"content": []}))));
        assert_eq!(renamed(&web), 0);
    }
}
