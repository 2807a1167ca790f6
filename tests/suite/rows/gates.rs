//! What a server sends: lists, by what is declared, tolerated and known; requests, and notifications in each phase.

use std::time::Duration;

use crate::common::{Deliver, Host, Server, legacy, options, reconnecting, tools};
use crate::web::raw;
use mcp_proto::{
    Eras, Event, Keepalive, ListErrors, LogLevel, OpenFailure, Options, Outcome, QuirkKind, Recovery, Request,
    Transport,
};
use serde_json::{Value, json};

/// What the first response to `tools/list` makes of the list.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Known {
    Listed,
    Partial,
    Failed,
    Absent,
    /// It is not requested.
    NotRequested,
}

/// A legacy server with these capabilities, or none in its response to `initialize`.
fn server(capabilities: Option<Value>, known: Known) -> Server {
    let sent = capabilities.clone();
    let server = Server::legacy(capabilities.unwrap_or_default()).on("initialize", move |params| {
        let mut result =
            json!({"protocolVersion": params["protocolVersion"], "serverInfo": {"name": "s", "version": "1"}});
        if let Some(capabilities) = &sent {
            result["capabilities"] = capabilities.clone();
        }
        Ok(result)
    });
    listing(server, known)
}

fn listing(server: Server, known: Known) -> Server {
    match known {
        Known::Listed | Known::NotRequested => server.result("tools/list", tools(&["a"])),
        Known::Partial => {
            let mut page = tools(&["a"]);
            page["nextCursor"] = json!("2");
            server.result("tools/list", page)
        }
        Known::Failed => server.error("tools/list", -32603, "no"),
        Known::Absent => server.error("tools/list", -32601, "no"),
    }
}

fn tolerant(lenient: bool) -> Options {
    let mut options = reconnecting(legacy());
    options.tolerance.list_errors = ListErrors::Degrade;
    (options.tolerance.list_undeclared, options.tolerance.undeclared_list_changed) = (true, lenient);
    options.tolerance.tools_absent = true;
    options.limits.pages = 1;
    options
}

#[test]
fn a_change_of_a_list_counts_by_what_is_declared_tolerated_and_known() {
    for capabilities in [Some(json!({"tools": {"listChanged": true}})), Some(json!({})), None] {
        for lenient in [false, true] {
            for known in [Known::Listed, Known::Partial, Known::Failed, Known::Absent, Known::NotRequested] {
                let told = format!("{capabilities:?} {lenient} {known:?}");
                let is_undeclared = capabilities.as_ref().is_some_and(|it| it["tools"].is_null());
                let mut options = tolerant(lenient);
                // An unknown family is requested in any case.
                options.tolerance.list_undeclared = known != Known::NotRequested && (capabilities.is_some() || lenient);
                let mut server = server(capabilities.clone(), known);
                let mut host = Host::connect(options, &mut server);
                assert!(host.is_ready(), "{told}");
                let is_requested = known != Known::NotRequested || !is_undeclared;
                assert_eq!(host.methods().contains(&"tools/list"), is_requested, "{told}");
                let is_listed = is_undeclared && matches!(known, Known::Listed | Known::Partial);
                assert_eq!(host.quirks().contains(&QuirkKind::UndeclaredFamily), is_listed, "{told}");
                host.take_sent();
                host.receive(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
                host.wait(Duration::from_secs(2));
                // An undeclared list that failed is absent.
                let is_absent = known == Known::Absent || is_undeclared && known == Known::Failed;
                let counts = (!is_undeclared || lenient) && !is_absent;
                assert_eq!(host.take_methods(), vec!["tools/list"; usize::from(counts)], "{told}");
                let is_quirk = is_undeclared && !lenient;
                assert_eq!(host.quirks().contains(&QuirkKind::UndeclaredListChanged), is_quirk, "{told}");
                // The next connection requests the list again, whatever became of it.
                host.close_transport();
                host.wait(Duration::from_secs(1));
                host.transport(Transport::Opened);
                host.serve(&mut server);
                assert!(host.is_ready(), "{told}");
                let before = server.received("tools/list");
                assert_eq!(before, if is_requested { 2 } else { 0 }, "{told}");
            }
        }
    }
}

#[test]
fn a_list_that_is_not_declared_any_more_is_a_deviation_whatever_became_of_it_before() {
    for known in [Known::Listed, Known::Partial, Known::Failed, Known::Absent] {
        let mut host = Host::connect(tolerant(false), &mut server(Some(json!({"tools": {}})), known));
        assert!(host.is_ready() && !host.quirks().contains(&QuirkKind::UndeclaredFamily), "{known:?}");
        host.close_transport();
        host.wait(Duration::from_secs(1));
        host.transport(Transport::Opened);
        host.serve(&mut server(Some(json!({})), Known::Listed));
        assert!(host.is_ready() && host.quirks().contains(&QuirkKind::UndeclaredFamily), "{known:?}");
    }
}

/// A stream that is requested after discovery.
#[test]
fn a_stream_is_requested_for_the_lists_whose_changes_the_server_may_announce_whatever_became_of_them() {
    let declaring = |tools: Value| Some(json!({"tools": tools, "resources": {"subscribe": true}}));
    for (capabilities, announced) in
        [(declaring(json!({})), None), (declaring(json!({"listChanged": true})), Some(true)), (None, Some(true))]
    {
        for known in [Known::Listed, Known::Partial, Known::Failed, Known::Absent] {
            let mut options = tolerant(false);
            options.eras = Eras::Auto;
            let mut discovered = json!({"supportedVersions": ["2026-07-28"]});
            if let Some(capabilities) = &capabilities {
                discovered["capabilities"] = capabilities.clone();
            }
            let server = Server::modern(json!({})).result("server/discover", discovered);
            let mut host = Host::connect(options, &mut listing(server, known));
            assert!(host.is_ready(), "{known:?}");
            host.session.subscribe(host.now, "a:b").unwrap();
            host.collect();
            let listen = host.take_request();
            let filter = &listen["params"]["notifications"];
            assert_eq!(filter["resourceSubscriptions"], json!(["a:b"]), "{listen}");
            assert_eq!(filter["toolsListChanged"].as_bool(), announced, "{capabilities:?} {known:?}");
        }
    }
}

#[test]
fn a_level_is_sent_to_a_legacy_server_only_if_it_declares_logging() {
    for (capabilities, sent) in [(Some(json!({"logging": {}})), 1), (Some(json!({})), 0), (None, 0)] {
        let mut host = Host::new(legacy());
        host.session.set_log_level(host.now, LogLevel::Warning).unwrap();
        host.session.open(host.now).unwrap();
        host.collect();
        host.transport(Transport::Opened);
        let mut server = server(capabilities, Known::Listed);
        host.serve(&mut server);
        assert!(host.is_ready());
        assert_eq!(server.received("logging/setLevel"), sent);
    }
}

#[test]
fn a_keepalive_requests_no_list_that_is_incomplete_or_failed() {
    for capabilities in [Some(json!({"tools": {}})), Some(json!({})), None] {
        for known in [Known::Listed, Known::Partial, Known::Failed, Known::Absent] {
            let mut options = tolerant(false);
            options.keepalive = Some(Keepalive::default());
            let mut server = server(capabilities.clone(), known).error("prompts/list", -32601, "no");
            for method in ["resources/list", "resources/templates/list"] {
                server = server.error(method, -32601, "no");
            }
            let mut host = Host::connect(options, &mut server);
            host.take_sent();
            host.wait(Duration::from_secs(60));
            let ping = host.take_request();
            assert_eq!(ping["method"], "ping");
            host.receive(json!({"jsonrpc": "2.0", "id": ping["id"], "error": {"code": -32601, "message": "no"}}));
            host.wait(Duration::from_secs(600));
            let is_listed = known == Known::Listed;
            assert_eq!(host.take_methods().contains(&"tools/list".into()), is_listed, "{capabilities:?} {known:?}");
        }
    }
}

/// The requests of a server, and what refuses each where the capability is not declared.
fn asked() -> [(&'static str, Value); 7] {
    [
        ("ping", json!({})),
        ("roots/list", json!({})),
        ("elicitation/create", json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}}})),
        (
            "elicitation/create",
            json!({"mode": "url", "message": "?", "url": "https://a.example/", "elicitationId": "1"}),
        ),
        ("elicitation/create", json!({"mode": "x", "message": "?"})),
        ("sampling/createMessage", json!({"messages": [], "maxTokens": 1})),
        ("x/y", json!({})),
    ]
}

fn declaring(mut options: Options, which: usize) -> Options {
    let all = which == 2;
    let capabilities = &mut options.capabilities;
    (capabilities.elicitation, capabilities.elicitation_url) = (matches!(which, 1 | 2), which > 1);
    (capabilities.sampling, capabilities.roots) = (all, all.then(Vec::new));
    options
}

#[test]
fn a_modern_server_that_sends_requests_gets_no_response() {
    for which in 0..4 {
        for open in [0, 1] {
            for (method, params) in asked() {
                let mut options = declaring(options(), which);
                options.limits.server_requests = open;
                let mut host = Host::connect(options, &mut Server::modern(json!({})));
                host.take_sent();
                let before = host.events.len();
                host.receive(json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}));
                assert!(host.take_sent().is_empty(), "{method}");
                assert_eq!(host.quirks(), [QuirkKind::ServerRequest], "{method}");
                assert_eq!(host.events.len(), before + 1, "{method}: nothing but the deviation");
            }
        }
    }
}

/// There is no response that would have to be kept.
#[test]
fn a_modern_server_that_sends_requests_while_output_waits_is_not_disconnected() {
    for (method, params) in asked() {
        let mut options = options();
        options.limits.output_bytes = 1 << 20;
        let mut host = Host::connect(options, &mut Server::modern(json!({})));
        let notification = json!({"jsonrpc": "2.0", "method": "m".repeat(1 << 20)}).to_string();
        host.session.deliver(host.now, notification.as_bytes());
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        host.session.deliver(host.now, request.as_bytes());
        host.collect();
        assert!(host.is_ready() && host.take_sent().is_empty(), "{method}");
        assert_eq!(host.quirks(), [QuirkKind::ServerRequest], "{method}");
    }
}

#[test]
fn a_legacy_server_gets_a_response_to_each_request_by_what_is_declared() {
    for which in 0..3 {
        for full in [false, true] {
            for (at, (method, params)) in asked().into_iter().enumerate() {
                let mut options = declaring(options(), which);
                options.eras = Eras::LegacyOnly;
                options.limits.server_requests = usize::from(!full);
                let mut host = Host::connect(options, &mut Server::legacy(json!({})));
                host.take_sent();
                host.receive(json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}));
                let sent = host.take_sent();
                let answer = sent.first().map(|answer| match &answer["error"]["code"] {
                    Value::Null => answer["result"].to_string(),
                    code => code.to_string(),
                });
                let expected = match (at, which) {
                    (0, _) => Some("{}"),
                    (1, 2) => Some(r#"{"roots":[]}"#),
                    (4, 1 | 2) | (3, 1) => Some("-32602"),
                    (2, 1 | 2) | (3 | 5, 2) if full => Some("-32603"),
                    (2, 1 | 2) | (3 | 5, 2) => None,
                    _ => Some("-32601"),
                };
                assert_eq!(answer.as_deref(), expected, "{method} {params} {which} {full}");
            }
        }
    }
}

#[test]
fn a_request_whose_last_connection_closed_is_unknown_whatever_may_be_repeated() {
    for (method, params) in [("tools/call", json!({"name": "a"})), ("resources/read", json!({"uri": "a:b"}))] {
        for replay in [None, Some(false), Some(true)] {
            let mut tools = tools(&["a"]);
            tools["tools"][0]["annotations"] = json!({"readOnlyHint": true});
            for trusted in [false, true] {
                let mut options = legacy();
                options.trust = trusted;
                let server = Server::legacy(json!({"tools": {}, "resources": {}})).result("tools/list", tools.clone());
                let server = server.result("resources/list", json!({"resources": []}));
                let server = server.result("resources/templates/list", json!({"resourceTemplates": []}));
                let mut host = Host::connect(options, &mut { server });
                assert!(host.is_ready());
                let request = Request::new(method).params(raw(&params));
                let request = replay.into_iter().fold(request, Request::replay);
                let request = host.session.request(host.now, request).unwrap();
                host.collect();
                host.close_transport();
                assert!(matches!(host.result_of(request), Outcome::Unknown), "{method} {replay:?} {trusted}");
            }
        }
    }
}

fn answer_list(host: &mut Host) {
    let list = host.take_sent().into_iter().find(|sent| sent["method"] == "tools/list").unwrap();
    host.receive(json!({"jsonrpc": "2.0", "id": list["id"], "result": tools(&["a"])}));
}

/// A modern client in discovery, and ready. Before, the era is not known.
fn phases() -> [Host; 2] {
    [false, true].map(|is_ready| {
        let mut host = Host::open(options());
        let discover = host.take_request();
        let result = json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": true}}});
        host.receive(json!({"jsonrpc": "2.0", "id": discover["id"], "result": result}));
        if is_ready {
            answer_list(&mut host);
        }
        assert_eq!(host.is_ready(), is_ready);
        host
    })
}

#[test]
fn a_notification_of_a_stream_that_is_not_the_clients_is_counted_in_each_phase() {
    let foreign = json!({"_meta": {"io.modelcontextprotocol/subscriptionId": 999}, "uri": "a:b", "taskId": "t", "status": "working"});
    for method in ["notifications/tools/list_changed", "notifications/resources/updated", "notifications/tasks"] {
        let mut connecting = Host::connect(reconnecting(options()), &mut Server::modern(json!({"tools": {}})));
        connecting.close_transport();
        connecting.wait(Duration::from_secs(1));
        connecting.transport(Transport::Opened);
        for mut host in phases().into_iter().chain([connecting]) {
            host.take_sent();
            let before = host.events.len();
            host.receive(json!({"jsonrpc": "2.0", "method": method, "params": foreign}));
            assert_eq!(host.session.stats().left_out, 1, "{method}");
            assert!(host.take_sent().is_empty() && host.events.len() == before, "{method}");
        }
    }
}

#[test]
fn the_status_of_an_unknown_task_is_reported_when_the_client_is_ready() {
    let status =
        json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": {"taskId": "t", "status": "working"}});
    for phase in 0..3 {
        let mut host = Host::open(options());
        let discover = host.take_request();
        let reported =
            |host: &Host| host.events.iter().filter(|event| matches!(event, Event::Notification { .. })).count();
        let receive = |host: &mut Host, at| {
            if phase == at {
                host.receive(status.clone());
            }
        };
        receive(&mut host, 0);
        let result = json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}});
        host.receive(json!({"jsonrpc": "2.0", "id": discover["id"], "result": result}));
        receive(&mut host, 1);
        assert_eq!(reported(&host), 0, "{phase}");
        answer_list(&mut host);
        receive(&mut host, 2);
        assert_eq!(reported(&host), 1, "{phase}");
    }
}

/// A legacy client in the handshake, in discovery, and ready.
fn legacy_phases(options: &Options) -> impl Iterator<Item = Host> {
    (0..3).map(|phase| {
        let mut host = Host::open(options.clone());
        let initialize = host.take_request();
        if phase > 0 {
            let result = json!({"protocolVersion": initialize["params"]["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "s", "version": "1"}});
            host.receive(json!({"jsonrpc": "2.0", "id": initialize["id"], "result": result}));
        }
        if phase > 1 {
            answer_list(&mut host);
        }
        host
    })
}

#[test]
fn the_end_of_an_elicitation_is_reported_in_each_phase() {
    let mut options = legacy();
    options.capabilities.elicitation_url = true;
    for (phase, mut host) in legacy_phases(&options).enumerate() {
        let params = json!({"mode": "url", "elicitationId": "e", "url": "https://x/e", "message": "sign in"});
        host.receive(json!({"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": params}));
        let params = json!({"elicitationId": "e"});
        host.receive(json!({"jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": params}));
        assert!(matches!(host.events.last(), Some(Event::ElicitationComplete { .. })), "{phase}");
    }
}

#[test]
fn a_server_request_can_be_cancelled_in_each_phase() {
    let mut options = legacy();
    options.capabilities.elicitation = true;
    for (phase, mut host) in legacy_phases(&options).enumerate() {
        let params = json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}}});
        host.receive(json!({"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": params}));
        assert!(host.events.iter().any(|event| matches!(event, Event::ServerRequest { .. })), "{phase}");
        let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
        host.receive(cancelled);
        assert!(host.events.iter().any(|event| matches!(event, Event::ServerRequestEnded { .. })), "{phase}");
    }
}

/// The session moves to another process without its transport.
fn move_alone(host: &mut Host) {
    host.session = crate::moved::moved(&host.session, mcp_proto::Messages::new(), mcp_proto::Moved::WithoutTransport);
    host.collect();
}

#[test]
fn the_end_of_a_connection_that_was_not_open_is_not_counted_as_a_loss() {
    let ends: [fn(&mut Host); 4] = [
        |host| host.transport(Transport::OpenFailed { how: OpenFailure::Connect, why: "no" }),
        |host| host.transport(Transport::Closed { why: "no" }),
        |host| host.transport(Transport::ProtocolViolation { why: "no" }),
        move_alone,
    ];
    for end in ends {
        for place in ["not opened", "waiting", "parked"] {
            let mut options = reconnecting(legacy());
            let reconnect = options.reconnect.as_mut().unwrap();
            (reconnect.max_losses, reconnect.first_attempts) = (2, 2);
            let mut host = match place {
                "waiting" => Host::connect(options, &mut server(Some(json!({"tools": {}})), Known::Listed)),
                _ => Host::new(options),
            };
            match place {
                "waiting" => host.close_transport(),
                "parked" => {
                    host.session.open(host.now).unwrap();
                    host.collect();
                    host.transport(Transport::OpenFailed { how: OpenFailure::Spawn, why: "no" });
                }
                _ => {}
            }
            let (due, opens) = (host.session.deadline(), host.opens);
            for _ in 0..5 {
                end(&mut host);
            }
            assert_eq!((host.session.deadline(), host.opens), (due, opens), "{place}");
            if place == "not opened" {
                host.session.open(host.now).unwrap();
            } else {
                host.wait(due.unwrap().since(host.now));
            }
            host.collect();
            assert_eq!(host.opens, opens + 1, "{place}");
            if place != "parked" {
                host.transport(Transport::Opened);
                host.close_transport();
                let next = host.events.iter().rev().find_map(|event| match event {
                    Event::Down { next, .. } => Some(*next),
                    _ => None,
                });
                assert!(matches!(next, Some(Recovery::Reopen { .. })), "{place} {:?}", host.events);
            }
        }
    }
}

#[test]
fn a_change_of_a_resource_before_the_client_is_ready_is_reported_once_it_is() {
    for is_agreed in [false, true] {
        let mut host = Host::open(legacy());
        let initialize = host.take_request();
        let change = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "a:b"}});
        let agree = server(Some(json!({"tools": {}})), Known::Listed).answer(&initialize).remove(0);
        let messages = if is_agreed { [agree, change] } else { [change, agree] };
        messages.into_iter().for_each(|message| host.receive(message));
        let reports = |host: &Host| host.events.iter().filter(|it| matches!(it, Event::ResourceUpdated { .. })).count();
        assert_eq!(reports(&host), 0, "{is_agreed}");
        answer_list(&mut host);
        assert!(host.is_ready() && reports(&host) == 1, "{is_agreed}");
    }
}

/// The first message of a server may overtake the response to `server/discover`.
#[test]
fn an_early_acknowledgement_counts_for_the_stream_that_is_requested_then() {
    for is_acknowledged in [false, true] {
        let mut host = Host::open(options());
        let discover = host.take_request();
        if is_acknowledged {
            host.receive(json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged"}));
        }
        let result = json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": true}}});
        host.receive(json!({"jsonrpc": "2.0", "id": discover["id"], "result": result}));
        answer_list(&mut host);
        assert!(host.is_ready());
        host.wait(Duration::from_secs(100));
        let asks_again = host.methods().iter().filter(|method| **method == "subscriptions/listen").count() > 1;
        assert_eq!(asks_again, !is_acknowledged);
    }
}

#[test]
fn a_stream_that_the_server_ends_is_requested_again_in_discovery_and_after_it() {
    for mut host in phases() {
        let listen =
            host.transcript.iter().find(|(_, sent)| sent["method"] == "subscriptions/listen").unwrap().1.clone();
        let params = json!({"requestId": listen["id"]});
        host.receive(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
        host.take_sent();
        host.wait(Duration::from_secs(5));
        assert_eq!(host.take_methods(), ["subscriptions/listen"]);
    }
}

/// A call requires input by each of the requests.
#[test]
fn a_call_that_requires_input_goes_on_or_ends_by_what_the_client_declares() {
    for which in 0..4 {
        for (at, (method, params)) in asked().into_iter().enumerate() {
            let mut server = listing(Server::modern(json!({"tools": {}})), Known::Listed);
            let mut host = Host::connect(declaring(options(), which), &mut server);
            let call = host.session.request(host.now, Request::call_tool("a", None)).unwrap();
            host.collect();
            let sent = host.take_request();
            let inputs = json!({"q": {"method": method, "params": params}});
            let result = json!({"resultType": "input_required", "inputRequests": inputs});
            host.receive(json!({"jsonrpc": "2.0", "id": sent["id"], "result": result}));
            let response = host.take_sent().first().map(|sent| sent["params"]["inputResponses"]["q"].to_string());
            let outcome = host.ended(call).map(|outcome| format!("{outcome:?}"));
            let outcome = outcome.as_deref().map(|outcome| outcome.split('(').next().unwrap());
            let expected = match (at, which) {
                (0, _) => (Some("{}"), None),
                (1, 2) => (Some(r#"{"roots":[]}"#), None),
                // The embedder is asked.
                (2, 1 | 2) | (3, 2 | 3) | (5, 2) => (None, None),
                // The server knows what the client offers.
                (2, 3) | (3, 1) | (4, 1..) | (6, _) => (None, Some("Error")),
                _ => (None, Some("InputRequired")),
            };
            assert_eq!((response.as_deref(), outcome), expected, "{method} {params} {which}");
        }
    }
}
