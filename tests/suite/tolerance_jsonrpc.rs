//! The tolerances of the section "JSON-RPC", row by row.

use std::time::Duration;

use crate::common::{Deliver, Host, Server, Steps, legacy, options, tools};
use mcp_proto::protocol::content::{Block, ToolResult};
use mcp_proto::{Eras, Event, FailureKind, Options, Outcome, QuirkKind, Request, RequestId};
use serde_json::{Value, json};

fn server() -> Server {
    Server::legacy(json!({"tools": {}})).result("tools/list", tools(&["a"]))
}

fn ready_with(options: Options) -> Host {
    let host = Host::connect(options, &mut server());
    assert!(host.is_ready() && host.quirks().is_empty());
    host
}

fn ready() -> Host {
    ready_with(legacy())
}

fn ready_modern() -> Host {
    let mut server = Server::modern(json!({"tools": {}})).result("tools/list", tools(&["a"]));
    let host = Host::connect(options(), &mut server);
    assert!(host.is_ready());
    host
}

/// A client whose server answers `initialize` with this version.
fn ready_at(version: &'static str) -> Host {
    let answer = json!({"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}});
    Host::connect(legacy(), &mut Server::new().result("initialize", answer))
}

/// Sends a request. Returns it and its id in the message.
fn ask(host: &mut Host, method: &'static str) -> (RequestId, Value) {
    let request = host.session.request(host.now, Request::new(method)).unwrap();
    host.collect();
    (request, host.take_one()["id"].clone())
}

fn result(id: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"ok": true}})
}

fn error(id: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": "broken"}})
}

fn is_ok(host: &Host, request: RequestId) -> bool {
    matches!(host.result_of(request), Outcome::Result(raw) if raw.get() == r#"{"ok":true}"#)
}

fn is_broken(host: &Host, request: RequestId) -> bool {
    matches!(host.result_of(request), Outcome::Error(error) if error.code() == Some(-32000) && error.server().is_some_and(|error| &*error.message == "broken"))
}

fn is_open(host: &Host, request: RequestId) -> bool {
    !host.events.iter().any(|event| matches!(event, Event::Finished { request: ended, .. } if *ended == request))
}

/// All quirks are of this kind, one for each of these methods, and each was reported once.
fn assert_quirks(host: &Host, kind: QuirkKind, methods: &[&str]) {
    assert_eq!(host.quirks(), vec![kind; methods.len()]);
    assert_eq!(host.quirk_methods(kind), methods);
    let reported = host.events.iter().filter(|event| matches!(event, Event::Quirk(quirk) if quirk.kind == kind));
    assert_eq!(reported.count(), methods.len());
}

fn notifications(host: &Host) -> Vec<&str> {
    let mut methods = Vec::new();
    for event in &host.events {
        if let Event::Notification { method, .. } = event {
            methods.push(&**method);
        }
    }
    methods
}

/// python-sdk #192
#[test]
fn id_type_a_string_is_accepted_for_an_integer() {
    let mut host = ready();
    for _ in 0..2 {
        let (request, id) = ask(&mut host, "tools/call");
        host.receive(result(&json!(id.to_string())));
        assert!(is_ok(&host, request));
    }
    assert_quirks(&host, QuirkKind::IdType, &["tools/call"]);
}

/// python-sdk #1720
#[test]
fn id_type_a_fraction_of_zero_is_accepted() {
    let mut host = ready();
    let (request, id) = ask(&mut host, "tools/call");
    host.receive_text(&format!(r#"{{"jsonrpc":"2.0","id":{id}.0,"result":{{"ok":true}}}}"#));
    assert!(is_ok(&host, request));
    assert_quirks(&host, QuirkKind::IdType, &["tools/call"]);
}

#[test]
fn id_type_is_recorded_once_for_each_method() {
    let mut host = ready();
    for method in ["tools/call", "x/y", "tools/call"] {
        let (request, id) = ask(&mut host, method);
        host.receive(error(&json!(id.to_string())));
        assert!(is_broken(&host, request));
    }
    assert_quirks(&host, QuirkKind::IdType, &["tools/call", "x/y"]);
}

#[test]
fn id_type_is_tolerated_in_the_handshake() {
    let mut host = Host::open(legacy());
    let id = host.take_one()["id"].to_string();
    host.receive(json!({"jsonrpc": "2.0", "id": id, "result": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}
    }}));
    assert!(host.is_ready());
    assert_quirks(&host, QuirkKind::IdType, &["initialize"]);
}

/// mcp_dart #107
#[test]
fn id_type_a_progress_token_as_a_string_is_accepted_for_an_integer() {
    let mut host = ready();
    let call = Request::call_tool("a", None).timeout(Duration::from_secs(10));
    let request = host.session.request(host.now, call).unwrap();
    host.collect();
    let sent = host.take_one();
    let token = sent["params"]["_meta"]["progressToken"].as_u64().unwrap();
    for done in 0..3 {
        host.wait(Duration::from_secs(8));
        let params = json!({"progressToken": token.to_string(), "progress": done});
        host.receive(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
    }
    let reported =
        host.events.iter().filter(|event| matches!(event, Event::Progress { request: of, .. } if *of == request));
    assert_eq!((reported.count(), notifications(&host).len()), (3, 0));
    assert!(is_open(&host, request), "progress extends the deadline");
    assert_quirks(&host, QuirkKind::IdType, &["notifications/progress"]);
}

/// A client that takes forms, which the server asked for under these ids.
fn asked_under(ids: &[Value]) -> Host {
    let mut options = legacy();
    options.capabilities.elicitation = true;
    let mut host = ready_with(options);
    let form = json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}}});
    for id in ids {
        host.receive(json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": form}));
    }
    host
}

fn cancel(host: &mut Host, id: Value) {
    host.receive(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
}

/// The numbers of the requests of the server that ended, counted from zero.
fn ended_requests(host: &Host) -> Vec<usize> {
    let asked: Vec<_> = host
        .events
        .iter()
        .filter_map(|event| if let Event::ServerRequest { id, .. } = event { Some(*id) } else { None })
        .collect();
    let ended = host.events.iter().filter_map(|event| match event {
        Event::ServerRequestEnded { id, .. } => asked.iter().position(|asked| asked == id),
        _ => None,
    });
    ended.collect()
}

#[test]
fn id_type_a_cancellation_with_an_id_in_another_type_is_accepted() {
    for (id, other) in
        [(json!(7), json!("7")), (json!("7"), json!(7)), (json!(-1), json!("-1")), (json!("1.5"), json!(1.5))]
    {
        let mut host = asked_under(std::slice::from_ref(&id));
        cancel(&mut host, other);
        assert_eq!(ended_requests(&host), [0], "{id}");
        assert_quirks(&host, QuirkKind::IdType, &["notifications/cancelled"]);
    }
}

#[test]
fn id_type_an_id_in_its_own_type_is_preferred() {
    let mut host = asked_under(&[json!(7), json!("7")]);
    cancel(&mut host, json!("7"));
    assert_eq!((ended_requests(&host), host.quirks()), (vec![1], vec![]));
    cancel(&mut host, json!("7"));
    assert_eq!(ended_requests(&host), [1, 0]);
    assert_quirks(&host, QuirkKind::IdType, &["notifications/cancelled"]);
}

#[test]
fn id_type_the_text_of_another_value_is_no_id() {
    let mut host = asked_under(&[json!("null"), json!("true"), json!("[7]"), json!("{}")]);
    for id in [json!(null), json!(true), json!([7]), json!({})] {
        cancel(&mut host, id);
    }
    assert_eq!((ended_requests(&host), host.quirks()), (vec![], vec![]));
}

fn foreign_ids() -> [Value; 7] {
    [json!(null), json!("server-error"), json!(9999), json!("9999"), json!(-1), json!(1.5), json!({})]
}

fn without_id() -> Value {
    json!({"jsonrpc": "2.0", "error": {"code": -32000, "message": "broken"}})
}

/// helidon-mcp #65, claude-code #55970
#[test]
fn id_null_answers_the_only_request_in_flight() {
    for message in foreign_ids().iter().map(error).chain([without_id()]) {
        let mut host = ready();
        let (request, _) = ask(&mut host, "tools/call");
        host.receive(message);
        assert!(is_broken(&host, request));
        assert_quirks(&host, QuirkKind::IdNull, &["tools/call"]);
    }
}

#[test]
fn id_null_answers_the_only_request_in_flight_while_others_are_queued() {
    let mut options = legacy();
    options.limits.in_flight = 1;
    let mut host = ready_with(options);
    let (first, _) = ask(&mut host, "tools/call");
    let second = host.session.request(host.now, Request::new("tools/call")).unwrap();
    host.receive(error(&json!(null)));
    assert!(is_broken(&host, first));
    assert!(is_open(&host, second));
    let id = host.take_one()["id"].clone();
    host.receive(result(&id));
    assert!(is_ok(&host, second));
}

#[test]
fn id_null_is_only_recorded_with_two_requests_in_flight() {
    for message in foreign_ids().iter().map(error).chain([without_id()]) {
        let mut host = ready();
        let (first, first_id) = ask(&mut host, "tools/call");
        let (second, second_id) = ask(&mut host, "tools/call");
        host.receive(message.clone());
        host.receive(message);
        assert!(is_open(&host, first) && is_open(&host, second));
        assert_quirks(&host, QuirkKind::IdNull, &[""]);
        host.receive(result(&second_id));
        host.receive(result(&first_id));
        assert!(is_ok(&host, first) && is_ok(&host, second));
    }
}

#[test]
fn id_null_is_only_recorded_without_a_request_in_flight() {
    let mut host = ready();
    host.receive(without_id());
    assert_quirks(&host, QuirkKind::IdNull, &[""]);
    assert!(host.session.quirks()[0].detail.contains("broken"));
    assert!(host.is_ready() && host.take_sent().is_empty());
}

/// claude-code #55970
#[test]
fn id_null_refuses_the_probe() {
    let mut host = Host::open(options());
    assert_eq!(host.take_methods(), ["server/discover"]);
    host.receive(error(&json!("server-error")));
    assert_eq!(host.take_methods(), ["initialize"]);
    assert_quirks(&host, QuirkKind::IdNull, &["server/discover"]);
}

#[test]
fn id_null_refuses_initialize() {
    let mut host = Host::open(legacy());
    host.receive(without_id());
    assert_eq!(host.failure_kind(), Some(FailureKind::HandshakeRejected));
    assert_quirks(&host, QuirkKind::IdNull, &["initialize"]);
}

#[test]
fn error_null_beside_a_result_is_the_result() {
    let mut host = ready();
    for _ in 0..2 {
        let (request, id) = ask(&mut host, "tools/call");
        host.receive(json!({"jsonrpc": "2.0", "id": id, "result": {"ok": true}, "error": null}));
        assert!(is_ok(&host, request));
    }
    assert_quirks(&host, QuirkKind::ErrorNull, &["tools/call"]);
}

#[test]
fn error_null_a_null_result_beside_an_error_is_the_error() {
    let mut host = ready();
    let (request, id) = ask(&mut host, "tools/call");
    host.receive(json!({"jsonrpc": "2.0", "id": id, "result": null, "error": {"code": -32000, "message": "broken"}}));
    assert!(is_broken(&host, request));
    assert_quirks(&host, QuirkKind::ErrorNull, &["tools/call"]);
}

#[test]
fn error_shape_ends_the_request_with_an_error_without_a_code() {
    for error in [
        json!({"message": "broken"}),
        json!({"code": null, "message": "broken"}),
        json!({"code": "E_BROKEN", "message": "broken"}),
        json!({"code": 1.5, "message": "broken"}),
        json!("broken"),
        json!(["broken"]),
    ] {
        let mut host = ready();
        let (request, id) = ask(&mut host, "tools/call");
        host.receive(json!({"jsonrpc": "2.0", "id": id, "error": error}));
        let Outcome::Error(told) = host.result_of(request) else { panic!("{:?}", host.result_of(request)) };
        assert_eq!((told.code(), told.server()), (None, None), "{error}");
        assert!(told.to_string().contains("broken"), "{told}");
        assert_quirks(&host, QuirkKind::ErrorShape, &["tools/call"]);
    }
    // A code that can be read is one.
    for code in [json!(-32000), json!("-32000"), json!(-32000.0)] {
        let mut host = ready();
        let (request, id) = ask(&mut host, "tools/call");
        host.receive(json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "broken"}}));
        assert!(is_broken(&host, request) && host.session.quirks().is_empty(), "{code}");
    }
}

/// The text of such an error counts as that of another: it may be about the version.
#[test]
fn error_shape_a_refusal_of_the_version_is_followed_by_an_older_one() {
    let mut host = Host::open(legacy());
    let first = host.take_one();
    let error = json!({"message": "unsupported protocol version"});
    host.receive(json!({"jsonrpc": "2.0", "id": first["id"], "error": error}));
    let second = host.take_one();
    assert_eq!((&second["method"], &second["params"]["protocolVersion"]), (&json!("initialize"), &json!("2025-06-18")));
}

/// rust-sdk #1283
#[test]
fn result_and_error_is_the_error() {
    let mut host = ready();
    for _ in 0..2 {
        let (request, id) = ask(&mut host, "tools/call");
        let both = json!({"jsonrpc": "2.0", "id": id, "result": {}, "error": {"code": -32000, "message": "broken"}});
        host.receive(both);
        assert!(is_broken(&host, request));
    }
    assert_quirks(&host, QuirkKind::ResultAndError, &["tools/call"]);
}

#[test]
fn unknown_id_a_result_is_ignored() {
    for id in foreign_ids() {
        let mut host = ready();
        host.receive(result(&id));
        assert_quirks(&host, QuirkKind::UnknownId, &[""]);
        let mut host = ready();
        let (request, _) = ask(&mut host, "tools/call");
        host.receive(result(&id));
        host.receive(result(&id));
        assert!(is_open(&host, request));
        assert_quirks(&host, QuirkKind::UnknownId, &[""]);
    }
}

#[test]
fn unknown_id_a_second_response_of_either_kind_is_ignored() {
    for second in [result, error] {
        let mut host = ready();
        let (answered, id) = ask(&mut host, "tools/call");
        host.receive(result(&id));
        let (open, open_id) = ask(&mut host, "tools/call");
        host.receive(second(&id));
        assert!(is_ok(&host, answered) && is_open(&host, open));
        assert_quirks(&host, QuirkKind::UnknownId, &[""]);
        host.receive(result(&open_id));
        assert!(is_ok(&host, open));
    }
}

#[test]
fn unknown_id_a_second_response_to_initialize_is_ignored() {
    let mut host = ready();
    let initialize = host.transcript[0].1["id"].clone();
    let (request, _) = ask(&mut host, "tools/call");
    host.receive(error(&initialize));
    assert!(host.is_ready() && is_open(&host, request));
    assert_quirks(&host, QuirkKind::UnknownId, &[""]);
}

/// A client with reconnects.
fn reconnecting() -> Host {
    let mut options = legacy();
    options.reconnect = Some(mcp_proto::Reconnect::default());
    ready_with(options)
}

/// The connection is lost, and the next one becomes ready.
fn reconnect(host: &mut Host) {
    host.session.report(host.now, mcp_proto::Transport::Closed { why: "crash" });
    host.collect();
    host.wait(Duration::from_secs(1));
    host.take_sent();
    host.transport(mcp_proto::Transport::Opened);
    let mut steps = Steps::until("the session is ready");
    while !host.is_ready() {
        steps.step();
        for answer in host.take_sent().iter().flat_map(|message| server().answer(message)).collect::<Vec<_>>() {
            host.receive(answer);
        }
    }
}

/// A request that is kept over a reconnect belongs to the new connection, whenever it got its id.
#[test]
fn unknown_id_a_second_response_to_a_kept_request_is_ignored() {
    let mut host = reconnecting();
    let kept = host.session.request(host.now, Request::new("tools/call")).unwrap();
    reconnect(&mut host);
    let id = host.take_one()["id"].clone();
    host.receive(result(&id));
    assert!(is_ok(&host, kept));
    let (open, _) = ask(&mut host, "tools/call");
    host.receive(error(&id));
    assert!(is_open(&host, open));
    assert_quirks(&host, QuirkKind::UnknownId, &[""]);
}

#[test]
fn id_null_an_id_of_an_earlier_connection_is_unknown() {
    let mut host = reconnecting();
    let (cancelled, old) = ask(&mut host, "tools/call");
    host.session.cancel(host.now, cancelled).unwrap();
    host.collect();
    reconnect(&mut host);
    host.take_sent();
    let (open, _) = ask(&mut host, "tools/call");
    host.receive(error(&old));
    assert!(is_broken(&host, open));
    assert_eq!(host.session.stats().late_answers, 0);
    assert_quirks(&host, QuirkKind::IdNull, &["tools/call"]);
}

#[test]
fn a_response_after_a_timeout_or_a_cancellation_is_ignored_and_counted() {
    let mut host = ready();
    let (timed_out, first) = ask(&mut host, "tools/call");
    host.wait(Duration::from_secs(61));
    let (cancelled, second) = {
        host.take_sent();
        ask(&mut host, "tools/call")
    };
    host.session.cancel(host.now, cancelled).unwrap();
    host.collect();
    host.receive(result(&first));
    host.receive(error(&json!(second.to_string())));
    assert!(matches!(host.result_of(timed_out), Outcome::TimedOut(mcp_proto::TimeBound::Timeout)));
    assert!(matches!(host.result_of(cancelled), Outcome::Cancelled));
    assert_eq!(host.session.stats().late_answers, 2);
    assert!(host.quirks().is_empty());
}

#[test]
fn unknown_id_a_second_late_response() {
    let mut host = ready();
    let (request, id) = ask(&mut host, "tools/call");
    host.session.cancel(host.now, request).unwrap();
    host.receive(result(&id));
    host.receive(result(&id));
    assert_eq!(host.session.stats().late_answers, 1);
    assert_quirks(&host, QuirkKind::UnknownId, &[""]);
}

#[test]
fn jsonrpc_version_missing_or_other_is_accepted() {
    for version in ["", r#""jsonrpc":"1.0","#, r#""jsonrpc":2.0,"#, r#""jsonrpc":null,"#] {
        let mut host = ready();
        for _ in 0..2 {
            let (request, id) = ask(&mut host, "tools/call");
            host.receive_text(&format!(r#"{{{version}"id":{id},"result":{{"ok":true}}}}"#));
            assert!(is_ok(&host, request));
        }
        assert_quirks(&host, QuirkKind::JsonrpcVersion, &["tools/call"]);
    }
}

#[test]
fn jsonrpc_version_of_notifications_and_requests() {
    let mut host = ready();
    host.receive(json!({"method": "notifications/x"}));
    host.receive(json!({"id": 1, "method": "ping"}));
    assert_eq!(notifications(&host), ["notifications/x"]);
    assert_eq!(host.take_one(), json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    assert_quirks(&host, QuirkKind::JsonrpcVersion, &["notifications/x", "ping"]);
}

fn reported(number: u32) -> Value {
    json!({"jsonrpc": "2.0", "method": format!("notifications/{number}")})
}

#[test]
fn batch_is_handled_in_order_and_allowed_in_2025_03_26() {
    let mut host = ready_at("2025-03-26");
    let (request, id) = ask(&mut host, "x/y");
    host.receive(json!([reported(1), result(&id), {"jsonrpc": "2.0", "id": 7, "method": "ping"}, reported(2)]));
    assert!(is_ok(&host, request));
    assert_eq!(notifications(&host), ["notifications/1", "notifications/2"]);
    assert_eq!(host.take_one()["id"], 7);
    assert!(host.quirks().is_empty());
    let order: Vec<_> = host.events.iter().filter(|event| !matches!(event, Event::Ready)).collect();
    assert!(matches!(order[..], [Event::Notification { .. }, Event::Finished { .. }, Event::Notification { .. }]));
}

#[test]
fn batch_is_a_quirk_in_every_other_revision() {
    for version in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let mut host = ready_at(version);
        host.receive(json!([reported(1), reported(2)]));
        host.receive(json!([reported(3)]));
        assert_eq!(notifications(&host), ["notifications/1", "notifications/2", "notifications/3"]);
        assert_quirks(&host, QuirkKind::Batch, &[""]);
    }
    let mut host = ready_modern();
    host.receive(json!([reported(1)]));
    assert_eq!(notifications(&host), ["notifications/1"]);
    assert_quirks(&host, QuirkKind::Batch, &[""]);
}

/// A batch that starts a session of another revision is not a batch of 2025-03-26.
#[test]
fn batch_with_the_initialize_response_of_another_revision() {
    let mut host = Host::open(legacy());
    let sent = host.take_one();
    let mut answers = Server::legacy(json!({})).answer(&sent);
    answers.push(reported(1));
    host.receive(Value::Array(answers));
    assert!(host.is_ready());
    assert_eq!(notifications(&host), ["notifications/1"]);
    assert_quirks(&host, QuirkKind::Batch, &[""]);
}

#[test]
fn batch_with_noise_loses_only_the_noise() {
    let mut host = ready_at("2025-03-26");
    host.receive(json!([reported(1), 5, [reported(2)], {"x": 1}, reported(3)]));
    assert_eq!(notifications(&host), ["notifications/1", "notifications/3"]);
    assert_quirks(&host, QuirkKind::Noise, &[""]);
}

/// azure-devops-mcp #147, WireMCP #24
#[test]
fn noise_is_left_out_with_an_excerpt() {
    let lines =
        ["Server running on stdio", "{\"jsonrpc\":", "[1,", "5", "\"text\"", "null", "{}", r#"{"id":1}"#, "{} {}"];
    for line in lines {
        let mut host = ready();
        let (request, id) = ask(&mut host, "tools/call");
        host.receive_text(line);
        host.receive_text("another one");
        assert!(is_open(&host, request) && host.take_sent().is_empty());
        host.receive(result(&id));
        assert!(is_ok(&host, request));
        assert_quirks(&host, QuirkKind::Noise, &[""]);
        assert!(host.session.quirks()[0].detail.contains(line), "{line}");
    }
}

/// mantine #8792
#[test]
fn repaired_values_that_json_does_not_have_are_null() {
    let mut host = ready();
    for (value, read) in [
        ("NaN", "null"),
        ("Infinity", "null"),
        ("-Infinity", "null"),
        (r#"[NaN,-Infinity , Infinity]"#, "[null,null , null]"),
        (
            r#"{"NaN": NaN,"a":"-Infinity","b":[-1.50,{"c":Infinity}]}"#,
            r#"{"NaN": null,"a":"-Infinity","b":[-1.50,{"c":null}]}"#,
        ),
    ] {
        let (request, id) = ask(&mut host, "tools/call");
        host.receive_text(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"ok":{value}}}}}"#));
        let Outcome::Result(raw) = host.result_of(request) else { panic!("{value}: {:?}", host.result_of(request)) };
        assert_eq!(raw.get(), format!(r#"{{"ok":{read}}}"#));
    }
    assert_quirks(&host, QuirkKind::Repaired, &[""]);
}

#[test]
fn repaired_other_values_that_json_does_not_have_are_noise() {
    for value in
        ["nan", "-NaN", "+Infinity", "inf", "undefined", "None", "True", "01", ".5", "NaN0", "'a'", "", "Infinity1"]
    {
        let mut host = ready();
        host.receive_text(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/x","params":{{"a":{value}}}}}"#));
        assert!(notifications(&host).is_empty(), "{value}");
        assert_quirks(&host, QuirkKind::Noise, &[""]);
    }
}

/// opencode #17282, sagemath-mcp #66
#[test]
fn repaired_what_stands_around_a_message_is_left_out() {
    for (before, after) in [
        ("\x1b[2K", ""),
        ("\x1b[?25l\x1b[2K\x1b[1G", "\x1b[0m"),
        ("\0", ""),
        ("\0\0\0", "\0"),
        ("2026-01-01 [INFO] sending: ", ""),
        ("5 x", ""),
        ("\tx", ","),
        ("\"quoted\" ", ""),
        ("it's 5\" wide: ", " \"done"),
        ("{svc} ready: ", ""),
        ("{\"level\":\"info\"} ", ""),
        ("{\"level\":\"in", ""),
        ("}", ""),
        ("[", ""),
        ("", "done"),
        ("", "}"),
        ("", ","),
        ("", "{"),
        ("", "{\"level\":\"info\"}"),
        ("\u{feff}log \u{2028}é ", "\r"),
    ] {
        let mut host = ready();
        let (request, id) = ask(&mut host, "tools/call");
        host.receive_text(&format!("{before}{}{after}", result(&id)));
        assert!(is_ok(&host, request), "{before:?} {after:?}");
        assert_quirks(&host, QuirkKind::Repaired, &[""]);
    }
}

#[test]
fn repaired_two_messages_on_one_line_both_count() {
    for between in ["", " ", "\0", "\r", " and ", "\x1b[2K"] {
        let mut host = ready();
        let (first, first_id) = ask(&mut host, "tools/call");
        let (second, second_id) = ask(&mut host, "x/y");
        host.receive_text(&format!("{}{between}{}{between}{}", reported(1), result(&second_id), error(&first_id)));
        assert!(is_broken(&host, first) && is_ok(&host, second), "{between:?}");
        assert_eq!(notifications(&host), ["notifications/1"]);
        assert_quirks(&host, QuirkKind::Repaired, &[""]);
    }
}

#[test]
fn repaired_a_message_behind_one_that_was_cut_off_counts() {
    for cut in [
        r#"{"jsonrpc":"2.0","method":"notifications/9","par"#,
        r#"{"jsonrpc":"2.0","#,
        r#"{"jsonrpc"#,
        r#"{"jsonrpc":"2.0","method":"x"#,
    ] {
        let mut host = ready();
        let (request, id) = ask(&mut host, "tools/call");
        host.receive_text(&format!("{cut}{}", result(&id)));
        // Behind a comma, it may be a part of what was cut off.
        assert_eq!(!is_open(&host, request), !cut.ends_with(','), "{cut}");
        assert!(notifications(&host).is_empty());
    }
}

/// What a server passes on in a message is not a message of the server.
#[test]
fn repaired_a_message_within_another_value_is_none() {
    let inner = reported(1).to_string();
    let escaped = json!(inner).to_string();
    for text in [
        format!(r#"log {{"sent":{inner}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":99,"result":{{"a":undefined,"b":{inner}}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":99,"result":{{"a":undefined,"b":[{inner},{inner}]}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":99,"result":{{"a":{inner},"b":[{inner},"#),
        format!(r#"{{"jsonrpc":"2.0","id":99,"result":{{"a":undefined,"b":{escaped}}}}}"#),
        format!("{{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{{\"a\":\"\t\",\"b\":{escaped},\"c\":{inner}}}}}"),
        // Lines of a message over several lines.
        format!(r#"  "structuredContent": {inner}"#),
        format!(r#"  "content": [{inner}, {inner}],"#),
        format!(r#"  }}, {inner}"#),
    ] {
        let mut host = ready();
        host.receive_text(&text);
        assert!(notifications(&host).is_empty(), "{text}");
    }
}

#[test]
fn repaired_an_array_of_messages_loses_only_what_breaks() {
    let mut host = ready_at("2025-03-26");
    let nan = r#"{"jsonrpc":"2.0","method":"notifications/2","params":{"a":NaN}}"#;
    host.receive_text(&format!("[{},{nan},{}]", reported(1), reported(3)));
    assert_eq!(notifications(&host), ["notifications/1", "notifications/2", "notifications/3"]);
    assert_quirks(&host, QuirkKind::Repaired, &[""]);
}

#[test]
fn repaired_within_the_limits_of_a_message() {
    let mut options = legacy();
    (options.limits.message.depth, options.limits.message.batch, options.limits.message.bytes) = (9, 3, 1000);
    let deep = |levels| {
        let (open, close) = ("[".repeat(levels), "]".repeat(levels));
        format!(r#"log {{"jsonrpc":"2.0","method":"notifications/deep","params":{open}{close}}}"#)
    };
    let many = |count| "log ".to_owned() + &reported(1).to_string().repeat(count);
    let long = |count| {
        let values = vec!["NaN"; count].join(",");
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/long","params":[{values}]}}"#)
    };
    // Each value is longer by a byte than what it stands for.
    for (text, heard) in [(deep(8), 1), (deep(9), 0), (many(3), 3), (many(5), 3), (long(180), 1), (long(230), 0)] {
        let mut host = ready_with(options.clone());
        assert!(text.len() < 1000);
        host.receive_text(&text);
        assert_eq!(notifications(&host).len(), heard, "{text}");
    }
}

/// playwright-mcp #1410, open-knowledge #472
#[test]
fn lone_surrogate_the_message_counts_and_its_payload_is_unchanged() {
    for (text, shown, has_half) in [
        (r"a\ud83d", "a\u{fffd}", true),
        (r"\uDE00b", "\u{fffd}b", true),
        (r"\ud83d\ud83d\ude00\n", "\u{fffd}\u{1f600}\n", true),
        (r"\ud83d\u0041", "\u{fffd}A", true),
        (r"\ud83d\\ude00", "\u{fffd}\\ude00", true),
        (r"\ud83d\ude00 \\ud83d", "\u{1f600} \\ud83d", false),
        (r"\ud7ff\ue000", "\u{d7ff}\u{e000}", false),
    ] {
        let mut host = ready();
        for padding in [0, 5_000] {
            let (request, id) = ask(&mut host, "tools/call");
            let block = format!(r#"{{"type":"text","text":"{text}","_meta":{{"a":[1]}}}}"#);
            let payload = format!(r#"{{"content":[{block}],"padding":"{}"}}"#, "x".repeat(padding));
            host.receive_text(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{payload}}}"#));
            let Outcome::Result(raw) = host.result_of(request) else { panic!("{:?}", host.result_of(request)) };
            assert_eq!(raw.get(), payload);
            let read = ToolResult::read(raw);
            let [Block::Text(block)] = &read.content[..] else { panic!("{text}: {:?}", read.content) };
            assert_eq!((&*block.text, block.meta.is_some()), (shown, true));
        }
        assert_quirks(&host, QuirkKind::LoneSurrogate, if has_half { &["tools/call"] } else { &[] });
    }
}

#[test]
fn lone_surrogate_of_an_error_and_of_notifications() {
    let mut host = ready_at("2025-03-26");
    let (request, id) = ask(&mut host, "x/y");
    host.receive_text(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32000,"message":"cut \ud83d"}}}}"#));
    let Outcome::Error(error) = host.result_of(request) else { panic!("{:?}", host.result_of(request)) };
    assert_eq!(error.server().map(|error| &*error.message), Some("cut \u{fffd}"));
    let told = r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"\ud83d":1}}"#;
    host.receive_text(&format!("[{},{told}]", reported(1)));
    assert_eq!(notifications(&host), ["notifications/1", "notifications/x"]);
    assert_quirks(&host, QuirkKind::LoneSurrogate, &["x/y", "notifications/x"]);
}

#[test]
fn lone_surrogate_in_a_list_is_shown_as_a_replacement() {
    let mut host = Host::open(legacy());
    let initialize = host.take_one();
    for answer in server().answer(&initialize) {
        host.receive(answer);
    }
    let list = host.take_sent().into_iter().find(|message| message["method"] == "tools/list").unwrap();
    let tool = r#"{"name":"a","title":"t\ud83d","description":"Cut \ud83d","inputSchema":{"type":"object","description":"\udc00"}}"#;
    host.receive_text(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"tools":[{tool}]}}}}"#, list["id"]));
    assert!(host.is_ready());
    let tool_read = host.session.catalog().tool("a").unwrap();
    assert_eq!(
        (tool_read.title.as_deref(), tool_read.description.as_deref()),
        (Some("t\u{fffd}"), Some("Cut \u{fffd}"))
    );
    assert_eq!(tool_read.raw.get(), tool);
    assert_quirks(&host, QuirkKind::LoneSurrogate, &["tools/list"]);
}

/// What ended a request without an answer.
fn broken_at(host: &Host, request: RequestId) -> String {
    let Outcome::Error(error) = host.result_of(request) else { panic!("{:?}", host.result_of(request)) };
    assert_eq!((error.code(), error.server()), (None, None), "{error:?}");
    error.to_string()
}

#[test]
fn noise_that_names_an_open_request_ends_it_at_once() {
    for (rest, at, why) in [
        (r#""result":{"ok":undefined}}"#, "undefined", "no value"),
        (r#""result":{"ok":tr"#, "tr", "no value"),
        (r#""result":{"ok":"a"#, "", "ends within a string"),
        (r#""result":{"ok":true}"#, "", "ends before its last bracket"),
        ("\"result\":\"a\u{1}b\"}", "\u{1}", "control character"),
        (r#""error":{"code":-32000,'message':"x"}}"#, "'message'", "no name"),
    ] {
        let mut host = ready();
        let (other, _) = ask(&mut host, "x/y");
        let (request, id) = ask(&mut host, "tools/call");
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},{rest}"#);
        host.receive_text(&text);
        let told = broken_at(&host, request);
        let place = if at.is_empty() { text.len() } else { text.rfind(at).unwrap() };
        assert!(told.contains(why) && told.contains(&format!("at byte {place}")), "{told}");
        assert!(told.contains(r#""jsonrpc":"2.0""#), "an excerpt: {told}");
        assert!(is_open(&host, other) && host.is_ready());
        assert_quirks(&host, QuirkKind::Noise, &[""]);
    }
}

#[test]
fn noise_that_names_an_open_request_by_a_string_ends_it() {
    let mut host = ready();
    let (request, id) = ask(&mut host, "tools/call");
    host.receive_text(&format!(r#"log {{"id":"{id}","result":undefined}}"#));
    assert!(broken_at(&host, request).contains("no value"));
}

#[test]
fn noise_ends_the_request_behind_a_message_that_counts() {
    let mut host = ready();
    let (first, first_id) = ask(&mut host, "tools/call");
    let (second, second_id) = ask(&mut host, "tools/call");
    host.receive_text(&format!(r#"{}{{"jsonrpc":"2.0","id":{second_id},"result":{{"a":"#, result(&first_id)));
    assert!(is_ok(&host, first) && broken_at(&host, second).contains("ends before"));
    assert_eq!(host.quirks(), [QuirkKind::Repaired, QuirkKind::Noise]);
}

#[test]
fn noise_that_names_no_open_request_ends_none() {
    let mut host = ready();
    let (request, id) = ask(&mut host, "tools/call");
    for text in [
        format!(r#"{{"jsonrpc":"2.0","result":undefined,"id":{id}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":{id}"#),
        format!(r#"{{"jsonrpc":"2.0","id":{id}0,"result":undefined}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"x","params":undefined}}"#),
        format!(r#"{{"jsonrpc":"2.0","method":"x","id":{id},"params":undefined}}"#),
        format!(r#"{{"jsonrpc":"2.0","method":"x","params":{{"id":{id},"a":undefined}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":999,"result":{{"a":undefined,"b":{{"id":{id},"result":undefined}}}}}}"#),
        format!(r#"  "structuredContent": {{"id":{id},"result":undefined}}"#),
    ] {
        host.receive_text(&text);
        assert!(is_open(&host, request), "{text}");
    }
    host.receive(result(&id));
    assert!(is_ok(&host, request));
}

#[test]
fn noise_in_place_of_a_list_fails_it_at_once() {
    let mut host = Host::open(legacy());
    let initialize = host.take_one();
    for answer in server().answer(&initialize) {
        host.receive(answer);
    }
    let list = host.take_sent().into_iter().find(|message| message["method"] == "tools/list").unwrap();
    host.receive_text(&format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{{"tools":[{{"name":undefined}}]}}}}"#,
        list["id"]
    ));
    let failure = host.failure().unwrap();
    assert_eq!(failure.kind, FailureKind::ListFailed);
    assert!(failure.message.contains("no value") && failure.message.contains("undefined"), "{failure}");
}

#[test]
fn noise_in_place_of_the_handshake_fails_it_at_once() {
    let mut host = Host::open(legacy());
    let id = host.take_one()["id"].clone();
    host.receive_text(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"2025-06-18","x":undefined"#
    ));
    let failure = host.failure().unwrap();
    assert!(failure.message.contains("no value"), "{failure}");
    assert!(host.take_methods().iter().all(|method| method != "initialize"), "no other version is offered");

    let mut host = Host::open(options());
    let id = host.take_one()["id"].clone();
    host.receive_text(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"x":undefined"#));
    assert_eq!(host.take_methods(), ["initialize"]);
}

#[test]
fn excerpts_of_noise_are_limited() {
    let mut host = ready();
    host.receive_text(&"é".repeat(100_000));
    assert_quirks(&host, QuirkKind::Noise, &[""]);
    let detail = &host.session.quirks()[0].detail;
    assert!(detail.contains("éééé") && detail.len() < 2000, "{}", detail.len());
}

#[test]
fn noise_before_the_handshake_is_left_out() {
    let mut host = Host::open(legacy());
    host.receive_text("> server@1.0.0 start");
    host.serve(&mut server());
    assert!(host.is_ready());
    assert_quirks(&host, QuirkKind::Noise, &[""]);
}

/// python-sdk #2433, stackql #668
#[test]
fn a_byte_order_mark_line_ends_and_blank_lines_are_stripped() {
    let mut host = ready();
    for blank in ["", "\r", "  \t", "\u{feff}", "\u{feff}\r\n", "\r\n"] {
        host.receive_text(blank);
    }
    for (before, after) in [("\u{feff}", ""), ("", "\r"), ("\u{feff}", "\r\n"), (" \t", " \t\r\n")] {
        let (request, id) = ask(&mut host, "tools/call");
        host.receive_text(&format!("{before}{}{after}", result(&id)));
        assert!(is_ok(&host, request));
    }
    assert!(host.quirks().is_empty());
}

/// The message that `bad` makes for an id is left out, and the request times out.
fn assert_left_out(options: Options, bad: impl Fn(&Value) -> Vec<u8>) {
    let mut host = ready_with(options);
    let (request, id) = ask(&mut host, "tools/call");
    host.receive_bytes(&bad(&id));
    host.receive_bytes(&bad(&id));
    assert!(is_open(&host, request) && host.is_ready());
    assert_quirks(&host, QuirkKind::Noise, &[""]);
    host.wait(Duration::from_secs(60));
    assert!(matches!(host.result_of(request), Outcome::TimedOut(mcp_proto::TimeBound::Timeout)));
    assert_eq!(host.take_methods(), ["notifications/cancelled"]);
}

#[test]
fn noise_invalid_utf8_is_left_out() {
    assert_left_out(legacy(), |id| {
        let mut bytes = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"x":"?"}}}}"#).into_bytes();
        let at = bytes.iter().position(|byte| *byte == b'?').unwrap();
        bytes[at] = 0xff;
        bytes
    });
}

#[test]
fn noise_a_message_over_the_size_limit_is_left_out() {
    let mut options = legacy();
    options.limits.message.bytes = 1000;
    let long = "y".repeat(1000);
    assert_left_out(options.clone(), |id| format!(r#"{{"result":{{"x":"{long}"}},"id":{id}}}"#).into());
    // One that names its request first ends it.
    let mut host = ready_with(options);
    let (request, id) = ask(&mut host, "tools/call");
    host.receive_text(&json!({"id": id, "jsonrpc": "2.0", "result": {"x": long}}).to_string());
    assert!(matches!(host.result_of(request), Outcome::Error(mcp_proto::RequestError::Invalid(_))));
    assert_quirks(&host, QuirkKind::Noise, &[""]);
}

#[test]
fn a_message_at_the_size_limit_is_accepted() {
    let mut options = legacy();
    options.limits.message.bytes = 1000;
    let mut host = ready_with(options);
    let (request, id) = ask(&mut host, "tools/call");
    let empty = json!({"jsonrpc": "2.0", "id": id, "result": {"x": ""}}).to_string();
    host.receive(json!({"jsonrpc": "2.0", "id": id, "result": {"x": "y".repeat(1000 - empty.len())}}));
    assert!(matches!(host.result_of(request), Outcome::Result(_)));
    assert!(host.quirks().is_empty());
}

fn nested(id: &Value, levels: usize) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"x":{}{}}}}}"#, "[".repeat(levels), "]".repeat(levels))
}

#[test]
fn noise_a_message_too_deep_is_left_out() {
    assert_left_out(legacy(), |id| nested(id, 127).into());
    assert_left_out(legacy(), |id| nested(id, 100_000).into());
}

#[test]
fn a_message_at_the_depth_limit_is_accepted() {
    let mut host = ready();
    let (request, id) = ask(&mut host, "tools/call");
    host.receive_text(&nested(&id, 126));
    assert!(matches!(host.result_of(request), Outcome::Result(_)));
    assert!(host.quirks().is_empty());
}

#[test]
fn an_unknown_notification_is_reported() {
    for mut host in [ready(), ready_modern()] {
        host.receive_text(r#"{"jsonrpc":"2.0","method":"acme/told","params":{ "b": 1, "a": [] }}"#);
        let passed = host.events.iter().any(|event| {
            matches!(event, Event::Notification { method, params: Some(params) }
                if &**method == "acme/told" && params.get() == r#"{ "b": 1, "a": [] }"#)
        });
        assert!(passed && host.quirks().is_empty() && host.take_sent().is_empty());
    }
}

#[test]
fn every_unknown_or_undeclared_request_is_refused_at_once() {
    let mut host = ready();
    let asked = ["acme/ask", "roots/list", "sampling/createMessage", "elicitation/create", "tasks/get", "initialize"];
    for method in asked {
        host.receive(json!({"jsonrpc": "2.0", "id": method, "method": method, "params": {}}));
        let answer = host.take_one();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(method), &json!(-32601)));
    }
    assert!(host.quirks().is_empty());
    assert!(!host.events.iter().any(|event| matches!(event, Event::ServerRequest { .. })));
}

#[test]
fn the_id_of_a_servers_request_is_echoed_byte_for_byte() {
    let mut host = ready();
    for id in ["0", "-5", "18446744073709551616", "1.50", r#""""#, r#""\u00e9\n""#] {
        host.session.deliver(host.now, format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#).as_bytes());
        let Some(mcp_proto::Action::Send(answer)) = host.session.poll() else { panic!("no answer to {id}") };
        assert_eq!(answer.bytes(), format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#).as_bytes());
    }
}

#[test]
fn server_request_in_the_modern_era_is_not_answered() {
    let mut options = options();
    options.capabilities.elicitation = true;
    options.capabilities.roots = Some(vec![]);
    let mut host = Host::connect(options, &mut Server::modern(json!({})));
    for method in ["ping", "elicitation/create", "roots/list", "acme/ask", "ping"] {
        host.receive(json!({"jsonrpc": "2.0", "id": 1, "method": method}));
    }
    assert!(host.take_sent().is_empty() && host.is_ready());
    assert_quirks(&host, QuirkKind::ServerRequest, &["ping", "elicitation/create", "roots/list", "acme/ask"]);
    assert!(!host.events.iter().any(|event| matches!(event, Event::ServerRequest { .. })));
}

/// "The client MUST NOT write JSON-RPC responses" (specification 2026-07-28, "stdio", Sending Messages).
#[test]
fn server_request_is_never_answered_with_only_the_modern_era_allowed() {
    let mut options = options();
    options.eras = Eras::ModernOnly(mcp_proto::ProtocolVersion::V2026_07_28);
    let mut host = Host::open(options);
    assert_eq!(host.take_methods(), ["server/discover"]);
    host.receive(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    assert!(host.take_sent().is_empty());
    assert_quirks(&host, QuirkKind::ServerRequest, &["ping"]);
}
