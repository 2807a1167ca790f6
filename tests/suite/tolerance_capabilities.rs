//! TOLERANCE.md, "Capabilities and discovery": each row, with the default and with each policy.

use std::time::Duration;

use crate::common::{Host, Server, Steps, legacy, options};
use mcp_proto::catalog::ToolHints;
use mcp_proto::protocol::{Capability, ServerCapabilities};
use mcp_proto::{
    CommandError, Era, Event, FailureKind, Family, FamilyStatus, ListErrors, LogLevel, Options, QuirkKind,
};
use mcp_proto::{Reconnect, Request};
use serde_json::{Value, json};

/// Runs a case against a legacy server and against a modern one.
fn both(case: impl Fn(Era)) {
    case(Era::Legacy);
    case(Era::Modern);
}

fn options_for(era: Era) -> Options {
    let mut options = match era {
        Era::Legacy => legacy(),
        Era::Modern => options(),
    };
    options.server = "rovo".into();
    options
}

fn degrading(era: Era) -> Options {
    let mut options = options_for(era);
    options.tolerance.list_errors = ListErrors::Degrade;
    options
}

fn requesting_undeclared(era: Era) -> Options {
    let mut options = options_for(era);
    options.tolerance.list_undeclared = true;
    options
}

fn server(era: Era, capabilities: Value) -> Server {
    match era {
        Era::Legacy => Server::legacy(capabilities),
        Era::Modern => Server::modern(capabilities),
    }
}

/// The result of a list request, with the members that the era requires.
fn list(era: Era, family: Family, items: Value) -> Value {
    match era {
        Era::Legacy => json!({family.member(): items}),
        Era::Modern => {
            json!({"resultType": "complete", family.member(): items, "ttlMs": 0, "cacheScope": "public"})
        }
    }
}

fn item(family: Family) -> Value {
    match family {
        Family::Tools => json!({"name": "t", "inputSchema": {"type": "object"}}),
        Family::Prompts => json!({"name": "p"}),
        Family::Resources => json!({"uri": "r:1", "name": "r"}),
        Family::ResourceTemplates => json!({"uriTemplate": "r:{x}", "name": "rt"}),
        _ => panic!("{family:?}"),
    }
}

/// A server that has one item of each family, whatever it declares.
fn server_with_all_families(era: Era, capabilities: Value) -> Server {
    Family::ALL.iter().copied().fold(server(era, capabilities), |server, family| {
        server.result(family.list_method(), list(era, family, json!([item(family)])))
    })
}

fn everything() -> Value {
    json!({"tools": {}, "prompts": {}, "resources": {}})
}

/// A session with a server that has these tools.
fn with_tools(era: Era, tools: Value) -> Host {
    let mut server = server(era, json!({"tools": {}})).result("tools/list", list(era, Family::Tools, tools));
    let host = Host::connect(options_for(era), &mut server);
    assert!(host.is_ready(), "{:?}", host.failure());
    assert_eq!(host.status(Family::Tools), FamilyStatus::Listed);
    host
}

/// The list requests, in order.
fn lists(host: &Host) -> Vec<&str> {
    host.methods().into_iter().filter(|method| method.ends_with("/list")).collect()
}

fn list_methods(families: &[Family]) -> Vec<&'static str> {
    families.iter().map(|family| family.list_method()).collect()
}

/// These families have this status and no items; every other family is listed.
fn assert_lost(host: &Host, families: &[Family], status: FamilyStatus) {
    assert!(host.is_ready(), "{:?}", host.failure());
    for &family in Family::ALL {
        let expected = if families.contains(&family) { (status, 0) } else { (FamilyStatus::Listed, 1) };
        assert_eq!((host.status(family), host.count(family)), expected, "{family:?}");
    }
}

/// The session failed over this method, with the server's message.
fn assert_list_failed(host: &Host, method: &str, words: &str) {
    assert!(!host.is_ready(), "{method}");
    assert_eq!(host.failure_kind(), Some(FailureKind::ListFailed), "{method}");
    let message = &host.failure().unwrap().message;
    for part in ["rovo", method, words] {
        assert!(message.contains(part), "no {part:?} in {message:?}");
    }
    assert!(!host.events.iter().any(|event| matches!(event, Event::Ready)));
}

fn notification(method: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": method})
}

const LIST_CHANGED: [&str; 3] =
    ["notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed"];

const RESOURCES: [Family; 2] = [Family::Resources, Family::ResourceTemplates];

/// hermes-agent #44550, opencode #31271
#[test]
fn an_undeclared_family_is_not_requested() {
    let cases = [
        (json!({"prompts": {}, "resources": {}}), &[Family::Tools][..]),
        (json!({"tools": {}, "resources": {}}), &[Family::Prompts]),
        (json!({"tools": {}, "prompts": {}}), &RESOURCES),
        (json!({"logging": {}, "completions": {}}), Family::ALL),
    ];
    both(|era| {
        for (capabilities, left_out) in &cases {
            let host = Host::connect(options_for(era), &mut server_with_all_families(era, capabilities.clone()));
            assert_lost(&host, left_out, FamilyStatus::NotAdvertised);
            let asked: Vec<_> = Family::ALL.iter().copied().filter(|family| !left_out.contains(family)).collect();
            assert_eq!(lists(&host), list_methods(&asked));
            assert!(host.quirks().is_empty());
        }
    });
}

/// hermes-agent #44550
#[test]
fn an_undeclared_family_is_not_requested_later() {
    both(|era| {
        let mut server = server_with_all_families(era, json!({}));
        let mut host = Host::connect(options_for(era), &mut server);
        for method in LIST_CHANGED {
            host.receive(notification(method));
            host.serve(&mut server);
            host.wait(Duration::from_secs(600));
        }
        for &family in Family::ALL {
            let refused = host.session.request(host.now, Request::new(family.list_method()));
            assert!(matches!(refused, Err(CommandError::NotAdvertised { .. })), "{refused:?}");
        }
        host.collect();
        assert_eq!(lists(&host), Vec::<&str>::new());
        assert_lost(&host, Family::ALL, FamilyStatus::NotAdvertised);
    });
}

/// codebase-memory-mcp #1185
#[test]
fn undeclared_family_is_listed_by_policy() {
    both(|era| {
        let host = Host::connect(requesting_undeclared(era), &mut server_with_all_families(era, json!({})));
        assert_lost(&host, &[], FamilyStatus::Listed);
        assert_eq!(lists(&host), list_methods(Family::ALL));
        assert_eq!(host.quirk_methods(QuirkKind::UndeclaredFamily), list_methods(Family::ALL));
        assert_eq!(host.quirks(), [QuirkKind::UndeclaredFamily; 4]);
    });
}

/// codebase-memory-mcp #1185
#[test]
fn undeclared_family_is_reported_once_for_all_its_pages() {
    both(|era| {
        let mut server = server(era, json!({})).on("tools/list", move |params| {
            let second = params["cursor"] == "2";
            let mut page = list(era, Family::Tools, json!([{"name": if second { "b" } else { "a" }}]));
            if !second {
                page["nextCursor"] = "2".into();
            }
            Ok(page)
        });
        let host = Host::connect(requesting_undeclared(era), &mut server);
        assert_eq!(host.keys(Family::Tools), ["a", "b"]);
        assert_eq!(host.quirk_methods(QuirkKind::UndeclaredFamily), ["tools/list"]);
    });
}

/// codebase-memory-mcp #1185
#[test]
fn undeclared_family_is_absent_if_its_request_fails_by_policy() {
    both(|era| {
        for code in [-32601, -32602, -32603, -32000] {
            for &family in Family::ALL {
                let mut server =
                    server_with_all_families(era, json!({})).error(family.list_method(), code, "none of that here");
                let host = Host::connect(requesting_undeclared(era), &mut server);
                assert_lost(&host, &[family], FamilyStatus::Absent);
                assert_eq!(host.quirks(), [QuirkKind::UndeclaredFamily; 3]);
            }
        }
    });
}

/// codebase-memory-mcp #1185
#[test]
fn undeclared_family_that_never_answers_causes_no_failure() {
    both(|era| {
        let mut host = Host::open(requesting_undeclared(era));
        let mut server = server_with_all_families(era, json!({}));
        for _ in 0..3 {
            for message in host.take_sent().into_iter().filter(|message| message["method"] != "tools/list") {
                server.answer(&message).into_iter().for_each(|answer| host.receive(answer));
            }
        }
        assert!(!host.is_ready());
        host.wait(Duration::from_secs(60));
        assert_lost(&host, &[Family::Tools], FamilyStatus::Absent);
    });
}

/// codebase-memory-mcp #1185
#[test]
fn the_clients_own_capabilities_sent_back_declare_no_family() {
    let echo = |policy: bool| {
        let mut options = options_for(Era::Legacy);
        options.capabilities.sampling = true;
        options.capabilities.elicitation = true;
        options.tolerance.list_undeclared = policy;
        let mut server = server_with_all_families(Era::Legacy, json!({})).on("initialize", |params| {
            Ok(json!({
                "protocolVersion": params["protocolVersion"],
                "capabilities": params["capabilities"],
                "serverInfo": {"name": "echo", "version": "1"}
            }))
        });
        Host::connect(options, &mut server)
    };
    assert_lost(&echo(false), Family::ALL, FamilyStatus::NotAdvertised);
    assert_eq!(lists(&echo(false)), Vec::<&str>::new());
    assert_lost(&echo(true), &[], FamilyStatus::Listed);
}

/// hermes-agent #44550
#[test]
fn undeclared_list_changed_is_ignored() {
    both(|era| {
        let mut server = server_with_all_families(era, json!({"completions": {}}));
        let mut host = Host::open(options_for(era));
        // Before the handshake ends, after it, and once more.
        for _ in 0..3 {
            for method in LIST_CHANGED {
                host.receive(notification(method));
            }
            host.serve(&mut server);
            host.wait(Duration::from_secs(5));
        }
        assert_lost(&host, Family::ALL, FamilyStatus::NotAdvertised);
        assert_eq!(lists(&host), Vec::<&str>::new());
        assert_eq!(host.quirk_methods(QuirkKind::UndeclaredListChanged), LIST_CHANGED);
        assert_eq!(host.quirks(), [QuirkKind::UndeclaredListChanged; 3]);
    });
}

/// hermes-agent #44550
#[test]
fn undeclared_list_changed_during_discovery_starts_no_refresh() {
    both(|era| {
        let mut server = server_with_all_families(era, json!({"prompts": {}}));
        let mut host = Host::open(options_for(era));
        let mut steps = Steps::until("the prompts are asked for");
        while !host.methods().contains(&"prompts/list") {
            steps.step();
            for message in host.take_sent() {
                server.answer(&message).into_iter().for_each(|answer| host.receive(answer));
            }
        }
        host.receive(notification("notifications/tools/list_changed"));
        host.serve(&mut server);
        assert_eq!(lists(&host), ["prompts/list"]);
        assert_eq!(host.status(Family::Tools), FamilyStatus::NotAdvertised);
        assert_eq!(host.quirks(), [QuirkKind::UndeclaredListChanged]);
    });
}

/// hermes-agent #44550
#[test]
fn undeclared_list_changed_is_honoured_by_policy() {
    both(|era| {
        let mut options = options_for(era);
        options.tolerance.undeclared_list_changed = true;
        let mut server = server_with_all_families(era, json!({}));
        let mut host = Host::connect(options, &mut server);
        assert_lost(&host, Family::ALL, FamilyStatus::NotAdvertised);
        for method in LIST_CHANGED {
            host.receive(notification(method));
        }
        host.wait(Duration::from_secs(2));
        host.serve(&mut server);
        assert_lost(&host, &[], FamilyStatus::Listed);
        assert_eq!(lists(&host), list_methods(Family::ALL));
        assert_eq!(host.quirk_methods(QuirkKind::UndeclaredListChanged), Vec::<&str>::new());
    });
}

/// hermes-agent #44550
#[test]
fn undeclared_list_changed_with_a_failing_list_causes_no_failure() {
    both(|era| {
        let mut options = options_for(era);
        options.tolerance.undeclared_list_changed = true;
        let mut server = server(era, json!({}));
        let mut host = Host::connect(options, &mut server);
        host.receive(notification("notifications/tools/list_changed"));
        host.wait(Duration::from_secs(2));
        host.serve(&mut server);
        assert_eq!(server.received("tools/list"), 1);
        assert!(host.is_ready(), "{:?}", host.failure());
        assert_eq!(host.count(Family::Tools), 0);
    });
}

/// toolhive #5231, toolhive #5232, crush #2227, drawio #13
#[test]
fn method_not_found_of_prompts_or_resources_keeps_the_other_families() {
    both(|era| {
        for lost in [&[Family::Prompts][..], &RESOURCES, &Family::ALL[1..]] {
            let server = server_with_all_families(era, everything());
            let mut server = lost.iter().fold(server, |server, family| {
                server.error(family.list_method(), -32601, "method not found: Method not found")
            });
            let host = Host::connect(options_for(era), &mut server);
            assert_lost(&host, lost, FamilyStatus::Absent);
            assert_eq!(lists(&host), list_methods(Family::ALL), "each is requested once");
            assert_eq!(host.quirk_methods(QuirkKind::MethodNotFound), list_methods(lost));
            assert_eq!(host.quirks().len(), lost.len());
            let families: Vec<_> = host.session.quirks().iter().filter_map(|quirk| quirk.family).collect();
            assert_eq!(families, lost);
        }
    });
}

/// toolhive #5232
#[test]
fn method_not_found_is_a_warning_that_names_server_and_method() {
    both(|era| {
        let mut server = server_with_all_families(era, everything()).error("prompts/list", -32601, "Method not found");
        let host = Host::connect(options_for(era), &mut server);
        let [quirk] = host.session.quirks() else { panic!("{:?}", host.quirks()) };
        assert_eq!(quirk.method.as_deref(), Some("prompts/list"));
        for part in ["rovo", "prompts/list", "Method not found"] {
            assert!(quirk.detail.contains(part), "no {part:?} in {:?}", quirk.detail);
        }
    });
}

/// toolhive #5232
#[test]
fn method_not_found_is_reported_once_for_all_connections() {
    both(|era| {
        let mut options = options_for(era);
        options.reconnect = Some(Reconnect::default());
        let mut server = server_with_all_families(era, everything()).error("prompts/list", -32601, "Method not found");
        let mut host = Host::connect(options, &mut server);
        host.close_transport();
        host.wait(Duration::from_secs(1));
        assert_eq!(host.opens, 2);
        host.transport(mcp_proto::Transport::Opened);
        host.serve(&mut server);
        assert_eq!(server.received("prompts/list"), 2);
        assert_lost(&host, &[Family::Prompts], FamilyStatus::Absent);
        assert_eq!(host.quirk_methods(QuirkKind::MethodNotFound), ["prompts/list"]);
        let told = host.events.iter().filter(|event| matches!(event, Event::Quirk(_))).count();
        assert_eq!(told, 1);
    });
}

/// turnstone #993, shim-mcp #19
#[test]
fn method_not_found_of_resource_templates_keeps_the_resources() {
    both(|era| {
        let mut server =
            server_with_all_families(era, everything()).error("resources/templates/list", -32601, "Method not found");
        let host = Host::connect(options_for(era), &mut server);
        assert_lost(&host, &[Family::ResourceTemplates], FamilyStatus::Absent);
        assert_eq!(host.keys(Family::Resources), ["r:1"]);
        assert_eq!(host.quirk_methods(QuirkKind::MethodNotFound), ["resources/templates/list"]);
        assert_eq!(host.quirks(), [QuirkKind::MethodNotFound]);
    });
}

/// toolhive #5232
#[test]
fn method_not_found_of_tools_fails() {
    both(|era| {
        let mut server = server_with_all_families(era, everything()).error("tools/list", -32601, "no such thing here");
        let host = Host::connect(options_for(era), &mut server);
        assert_list_failed(&host, "tools/list", "no such thing here");
        assert!(host.quirks().is_empty());
    });
}

/// toolhive #5232
#[test]
fn method_not_found_of_tools_is_tolerated_by_policy() {
    both(|era| {
        let mut options = options_for(era);
        options.tolerance.tools_absent = true;
        let mut server = server_with_all_families(era, everything()).error("tools/list", -32601, "Method not found");
        let host = Host::connect(options, &mut server);
        assert_lost(&host, &[Family::Tools], FamilyStatus::Absent);
        assert_eq!(host.quirk_methods(QuirkKind::MethodNotFound), ["tools/list"]);
    });
}

/// toolhive #5232
#[test]
fn any_other_error_to_a_list_fails() {
    both(|era| {
        for (code, words) in [(-32603, "INTERNAL_ERROR"), (-32602, "INVALID_PARAMS"), (-32000, "not today"), (7, "odd")]
        {
            for &family in Family::ALL {
                let mut server = server_with_all_families(era, everything()).error(family.list_method(), code, words);
                let host = Host::connect(options_for(era), &mut server);
                assert_list_failed(&host, family.list_method(), words);
                assert!(host.quirks().is_empty());
                assert_eq!(server.received(family.list_method()), 1);
            }
        }
    });
}

/// toolhive #5232
#[test]
fn any_other_error_to_a_list_fails_that_family_alone_by_policy() {
    both(|era| {
        for (code, words) in [(-32603, "INTERNAL_ERROR"), (-32602, "INVALID_PARAMS"), (-32000, "not today")] {
            for &family in Family::ALL {
                let mut server = server_with_all_families(era, everything()).error(family.list_method(), code, words);
                let host = Host::connect(degrading(era), &mut server);
                assert_lost(&host, &[family], FamilyStatus::Failed);
                assert!(host.failure().is_none() && host.quirks().is_empty());
                assert_eq!(server.received(family.list_method()), 1);
            }
        }
    });
}

/// toolhive #5232
#[test]
fn a_server_whose_every_list_fails_is_ready_with_nothing_by_policy() {
    both(|era| {
        let failing = Family::ALL.iter().copied().fold(server(era, everything()), |server, family| {
            server.error(family.list_method(), -32603, "INTERNAL_ERROR")
        });
        let host = Host::connect(degrading(era), &mut { failing });
        assert_lost(&host, Family::ALL, FamilyStatus::Failed);
    });
}

/// python-sdk #1561, fastmcp #4865
#[test]
fn method_not_found_text_fails_as_any_other_error() {
    both(|era| {
        for code in [-32602, -32603, -32000] {
            let mut server =
                server_with_all_families(era, everything()).error("prompts/list", code, "Method not found");
            let host = Host::connect(options_for(era), &mut server);
            assert_list_failed(&host, "prompts/list", "Method not found");
            assert!(host.quirks().is_empty());
        }
    });
}

fn by_text(era: Era) -> Options {
    let mut options = options_for(era);
    options.tolerance.absent_by_text = true;
    options
}

fn assert_absent_by_text(texts: &[&str]) {
    both(|era| {
        for text in texts {
            for code in [-32602, -32603, -32000] {
                let mut server = server_with_all_families(era, everything()).error("prompts/list", code, text);
                let host = Host::connect(by_text(era), &mut server);
                assert!(host.is_ready(), "{text:?}: {:?}", host.failure());
                assert_lost(&host, &[Family::Prompts], FamilyStatus::Absent);
                assert_eq!(host.quirk_methods(QuirkKind::MethodNotFoundText), ["prompts/list"]);
                assert_eq!(host.quirks(), [QuirkKind::MethodNotFoundText]);
            }
        }
    });
}

/// python-sdk #1561, fastmcp #4865
#[test]
fn method_not_found_text_is_absent_by_policy() {
    assert_absent_by_text(&["Method not found", "METHOD NOT FOUND: prompts/list", "Unknown method: prompts/list"]);
}

/// hermes-agent #50063
#[test]
fn method_not_found_text_has_many_phrasings() {
    assert_absent_by_text(&[
        "Method not implemented",
        "Unsupported method: prompts/list",
        "Unrecognized method",
        "method_not_found",
        "Method not supported: prompts/list",
    ]);
}

/// python-sdk #1561
#[test]
fn method_not_found_text_policy_keeps_other_texts_fatal() {
    both(|era| {
        for words in ["Invalid request parameters", "the database is down"] {
            let mut server = server_with_all_families(era, everything()).error("resources/list", -32602, words);
            let host = Host::connect(by_text(era), &mut server);
            assert_list_failed(&host, "resources/list", words);
        }
    });
}

/// fastmcp #4865
#[test]
fn method_not_found_text_of_tools_equals_the_code() {
    both(|era| {
        let server = || server_with_all_families(era, everything()).error("tools/list", -32602, "Method not found");
        let host = Host::connect(by_text(era), &mut server());
        assert_list_failed(&host, "tools/list", "Method not found");

        let mut options = by_text(era);
        options.tolerance.tools_absent = true;
        let host = Host::connect(options, &mut server());
        assert_lost(&host, &[Family::Tools], FamilyStatus::Absent);
        assert_eq!(host.quirk_methods(QuirkKind::MethodNotFoundText), ["tools/list"]);
    });
}

fn handshake_method(era: Era) -> &'static str {
    match era {
        Era::Legacy => "initialize",
        Era::Modern => "server/discover",
    }
}

/// flapi #100, mcp-sdk-php #1
#[test]
fn capability_shape_null_or_false_is_not_advertised() {
    both(|era| {
        for odd in [json!(null), json!(false)] {
            let capabilities = json!({"tools": {}, "prompts": odd, "resources": odd});
            let host = Host::connect(options_for(era), &mut server_with_all_families(era, capabilities));
            assert_lost(&host, &Family::ALL[1..], FamilyStatus::NotAdvertised);
            assert_eq!(lists(&host), ["tools/list"]);
            assert_eq!(host.quirk_methods(QuirkKind::CapabilityShape), [handshake_method(era)]);
            assert_eq!(host.quirks(), [QuirkKind::CapabilityShape]);
        }
    });
}

/// flapi #100, mcp-sdk-php #1
#[test]
fn capability_shape_true_or_array_is_advertised_without_options() {
    both(|era| {
        for odd in [json!(true), json!([])] {
            let capabilities = json!({"tools": odd, "prompts": odd, "resources": odd});
            let host = Host::connect(options_for(era), &mut server_with_all_families(era, capabilities));
            assert_lost(&host, &[], FamilyStatus::Listed);
            assert_eq!(host.quirk_methods(QuirkKind::CapabilityShape), [handshake_method(era)]);
            assert_eq!(host.quirks(), [QuirkKind::CapabilityShape]);
            let declared: ServerCapabilities<'_> = host.session.server().unwrap().capabilities().unwrap();
            for capability in [Capability::Tools, Capability::Prompts, Capability::Resources] {
                assert!(declared.has(capability) && !declared.list_changed(capability));
            }
            assert!(!declared.subscribe());
        }
    });
}

#[test]
fn what_a_server_declares_of_each_capability_is_read() {
    both(|era| {
        let capabilities = json!({"tools": {"listChanged": true}, "prompts": {"listChanged": false},
            "resources": {"subscribe": true, "listChanged": true}, "logging": {}});
        let host = Host::connect(options_for(era), &mut server_with_all_families(era, capabilities));
        let declared = host.session.server().unwrap().capabilities().unwrap();
        let announced =
            [Capability::Tools, Capability::Prompts, Capability::Resources].map(|it| declared.list_changed(it));
        assert_eq!(announced, [true, false, true]);
        assert!(declared.subscribe() && declared.has(Capability::Logging) && !declared.has(Capability::Completions));
    });
}

/// flapi #100
#[test]
fn capability_shape_names_the_malformed_capability() {
    both(|era| {
        let host =
            Host::connect(options_for(era), &mut server_with_all_families(era, json!({"tools": {}, "prompts": null})));
        let detail = &host.session.quirks()[0].detail;
        assert!(detail.contains("prompts") && detail.contains("null") && !detail.contains("tools"), "{detail}");
    });
}

/// A server without `capabilities` in its initialize result.
fn server_without_capabilities(era: Era) -> Server {
    let server = server_with_all_families(era, json!({}));
    match era {
        Era::Legacy => server.on("initialize", |params| {
            let info = json!({"name": "test", "version": "1"});
            Ok(json!({"protocolVersion": params["protocolVersion"], "serverInfo": info}))
        }),
        Era::Modern => {
            server.result("server/discover", json!({"resultType": "complete", "supportedVersions": ["2026-07-28"]}))
        }
    }
}

/// hermes-agent #44550
#[test]
fn without_declared_capabilities_every_family_is_requested() {
    both(|era| {
        let host = Host::connect(options_for(era), &mut server_without_capabilities(era));
        assert_lost(&host, &[], FamilyStatus::Listed);
        assert_eq!(lists(&host), list_methods(Family::ALL));
        // The missing member is a row of the handshake.
        assert_eq!(host.quirks(), [QuirkKind::InitializeShape]);
    });
}

/// hermes-agent #44550
#[test]
fn without_declared_capabilities_method_not_found_is_absent() {
    both(|era| {
        for family in [Family::Prompts, Family::Resources, Family::ResourceTemplates] {
            let mut server = server_without_capabilities(era).error(family.list_method(), -32601, "Method not found");
            let host = Host::connect(options_for(era), &mut server);
            assert_lost(&host, &[family], FamilyStatus::Absent);
        }
    });
}

/// hermes-agent #44550
#[test]
fn without_declared_capabilities_method_not_found_is_no_quirk() {
    both(|era| {
        let mut server = server_without_capabilities(era).error("prompts/list", -32601, "Method not found");
        let host = Host::connect(options_for(era), &mut server);
        assert_eq!(host.status(Family::Prompts), FamilyStatus::Absent);
        assert_eq!(host.quirks(), [QuirkKind::InitializeShape]);
    });
}

/// hermes-agent #44550
#[test]
fn without_declared_capabilities_method_not_found_of_tools_fails() {
    both(|era| {
        let mut server = server_without_capabilities(era).error("tools/list", -32601, "Method not found");
        let host = Host::connect(options_for(era), &mut server);
        assert_list_failed(&host, "tools/list", "Method not found");
    });
}

fn logging(level: Option<LogLevel>) -> Options {
    let mut options = options_for(Era::Legacy);
    options.log_level = level;
    options
}

/// inspector #696, terraform-mcp-server #74
#[test]
fn method_not_found_of_set_level_keeps_the_session() {
    let server = server_with_all_families(Era::Legacy, json!({"tools": {}, "logging": {}}));
    let mut server = server.error("logging/setLevel", -32601, "Method not found");
    let host = Host::connect(logging(Some(LogLevel::Warning)), &mut server);
    assert_eq!(server.received("logging/setLevel"), 1);
    assert_lost(&host, &Family::ALL[1..], FamilyStatus::NotAdvertised);
    assert_eq!(host.quirk_methods(QuirkKind::MethodNotFound), ["logging/setLevel"]);
    assert_eq!(host.quirks(), [QuirkKind::MethodNotFound]);
    assert_eq!(level_refusals(&host).len(), 1);
}

/// The reported refusals of the log level.
fn level_refusals(host: &Host) -> Vec<String> {
    let refusal = |event: &Event| match event {
        Event::LogLevelFailed { error } => Some(error.to_string()),
        _ => None,
    };
    host.events.iter().filter_map(refusal).collect()
}

/// inspector #696
#[test]
fn method_not_found_text_of_set_level_counts_only_by_policy() {
    for (text, believed, kind) in [
        ("Unknown method", true, Some(QuirkKind::MethodNotFoundText)),
        ("Unknown method", false, None),
        ("no handler", true, None),
    ] {
        for code in [-32602, -32603, -32000] {
            let server = server_with_all_families(Era::Legacy, json!({"tools": {}, "logging": {}}));
            let mut server = server.error("logging/setLevel", code, text);
            let mut options = logging(Some(LogLevel::Warning));
            options.tolerance.absent_by_text = believed;
            let host = Host::connect(options, &mut server);
            assert!(host.is_ready(), "{:?}", host.failure());
            assert_eq!(host.quirks(), kind.into_iter().collect::<Vec<_>>(), "{text} {code}");
            let [refusal] = &level_refusals(&host)[..] else { panic!("it is reported once") };
            assert!(refusal.contains(text), "{refusal}");
        }
    }
}

/// inspector #696
#[test]
fn the_log_level_is_set_only_if_requested_and_declared() {
    for (level, capabilities, expected) in [
        (Some(LogLevel::Warning), json!({"logging": {}}), vec!["warning"]),
        (Some(LogLevel::Warning), json!({}), vec![]),
        (None, json!({"logging": {}}), vec![]),
    ] {
        let mut server = server(Era::Legacy, capabilities).result("logging/setLevel", json!({}));
        let host = Host::connect(logging(level), &mut server);
        assert!(host.is_ready() && host.quirks().is_empty());
        let asked = server.messages().filter(|message| message["method"] == "logging/setLevel");
        assert_eq!(asked.map(|message| &message["params"]["level"]).collect::<Vec<_>>(), expected);
    }
}

/// Kuadrant #689
#[test]
fn invalid_item_without_a_name_is_left_out() {
    both(|era| {
        let schema = json!({"type": "object"});
        for nameless in
            [json!({"inputSchema": schema}), json!({"name": null, "inputSchema": schema}), json!({"name": 5})]
        {
            let host = with_tools(era, json!([{"name": "a"}, nameless, item(Family::Tools)]));
            assert_eq!(host.keys(Family::Tools), ["a", "t"]);
            assert_eq!(host.quirk_methods(QuirkKind::InvalidItem), ["tools/list"]);
            assert_eq!(host.quirks(), [QuirkKind::InvalidItem]);
        }
    });
}

/// Kuadrant #689
#[test]
fn invalid_item_that_is_not_an_object_is_left_out() {
    both(|era| {
        let host = with_tools(era, json!([null, 5, "t", [item(Family::Tools)], item(Family::Tools)]));
        assert_eq!(host.keys(Family::Tools), ["t"]);
        assert_eq!(host.quirks(), [QuirkKind::InvalidItem]);
    });
}

/// Kuadrant #689
#[test]
fn invalid_item_whose_name_is_not_a_string_is_left_out_and_reported() {
    let mut server = Server::legacy(json!({"tools": {}}));
    let mut host = Host::open(options_for(Era::Legacy));
    let initialize = host.take_one();
    server.answer(&initialize).into_iter().for_each(|answer| host.receive(answer));
    let id = host.take_sent().pop().unwrap()["id"].clone();
    let items = r#"[{"name":"\ud800","inputSchema":{}},{"name":"t","inputSchema":{}}]"#;
    host.receive_text(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tools":{items}}}}}"#));
    assert!(host.is_ready());
    assert_eq!(host.keys(Family::Tools), ["t"]);
    assert_eq!(host.quirks(), [QuirkKind::LoneSurrogate, QuirkKind::InvalidItem]);
}

/// claude-code #88049
#[test]
fn invalid_item_whose_schema_is_not_an_object_is_left_out() {
    both(|era| {
        for schema in [json!("object"), json!([]), json!(true), json!(1)] {
            let host = with_tools(era, json!([{"name": "bad", "inputSchema": schema}, item(Family::Tools)]));
            assert_eq!(host.keys(Family::Tools), ["t"]);
            assert_eq!(host.quirk_methods(QuirkKind::InvalidItem), ["tools/list"]);
            assert_eq!(host.quirks(), [QuirkKind::InvalidItem]);
        }
    });
}

/// claude-code #88049
#[test]
fn a_schema_without_a_type_is_accepted() {
    both(|era| {
        let schema = json!({"anyOf": [{"type": "object"}, {"type": "object", "required": ["x"]}]});
        let host = with_tools(era, json!([{"name": "any", "inputSchema": schema}, item(Family::Tools)]));
        assert_eq!(host.keys(Family::Tools), ["any", "t"]);
        let tool = host.session.catalog().tool("any").unwrap();
        assert_eq!(tool.input_schema.get(), schema.to_string());
    });
}

/// claude-code #88049
#[test]
fn invalid_item_without_a_schema_gets_one_for_any_object() {
    both(|era| {
        for bare in [json!({"name": "bare"}), json!({"name": "bare", "inputSchema": null})] {
            let host = with_tools(era, json!([bare, item(Family::Tools)]));
            assert_eq!(host.keys(Family::Tools), ["bare", "t"]);
            let tool = host.session.catalog().tool("bare").unwrap();
            assert_eq!(tool.input_schema.get(), r#"{"type":"object"}"#);
            assert_eq!(host.quirk_methods(QuirkKind::InvalidItem), ["tools/list"]);
            assert_eq!(host.quirks(), [QuirkKind::InvalidItem]);
        }
    });
}

/// claude-code #88049, Kuadrant #689
#[test]
fn invalid_item_loses_its_fields_of_a_wrong_type() {
    both(|era| {
        for (member, odd) in [
            ("annotations", json!(null)),
            ("annotations", json!("read only")),
            ("title", json!(null)),
            ("description", json!({"en": "d"})),
            ("outputSchema", json!(null)),
            ("_meta", json!([])),
        ] {
            let mut tool = json!({
                "name": "odd",
                "title": "T",
                "description": "D",
                "inputSchema": {"type": "object"},
                "outputSchema": {"type": "object"},
                "annotations": {"readOnlyHint": true},
                "_meta": {"m": 1}
            });
            tool[member] = odd;
            let host = with_tools(era, json!([tool, item(Family::Tools)]));
            assert_eq!(host.keys(Family::Tools), ["odd", "t"]);
            let read = host.session.catalog().tool("odd").unwrap();
            assert_eq!(read.title.is_none(), member == "title");
            assert_eq!(read.description.is_none(), member == "description");
            assert_eq!(read.output_schema.is_none(), member == "outputSchema");
            assert_eq!(read.hints == ToolHints::default(), member == "annotations");
            assert_eq!(read.meta.is_none(), member == "_meta");
            assert_eq!(host.quirks(), [QuirkKind::InvalidItem], "{member}");
            assert_eq!(&*host.session.quirks()[0].detail, format!("odd: `{member}` has the wrong type"));
            let well_typed = read.well_typed();
            let mut kept: Value = serde_json::from_str(read.raw.get()).unwrap();
            kept.as_object_mut().unwrap().shift_remove(member);
            assert_eq!(well_typed.get(), kept.to_string(), "dropped from the tool, and nothing else");
            let sound = host.session.catalog().tool("t").unwrap();
            assert!(std::ptr::eq(&*sound.well_typed(), sound.raw), "byte for byte");
        }
    });
}

/// claude-code #88049
#[test]
fn invalid_item_loses_a_null_annotation_alone() {
    both(|era| {
        let annotations = json!({"title": null, "readOnlyHint": null, "idempotentHint": true});
        let host = with_tools(era, json!([{"name": "t", "inputSchema": {}, "annotations": annotations}]));
        let tool = host.session.catalog().tool("t").unwrap();
        assert_eq!((tool.hints.read_only, tool.hints.idempotent), (None, Some(true)));
        assert_eq!(tool.well_typed().get(), r#"{"name":"t","inputSchema":{},"annotations":{"idempotentHint":true}}"#);
        assert_eq!(host.quirk_methods(QuirkKind::InvalidItem), ["tools/list"]);
    });
}

/// claude-code #88049
#[test]
fn invalid_item_is_reported_once_for_a_list() {
    both(|era| {
        let host = with_tools(era, json!([{}, {"name": "a"}, {"name": "b", "inputSchema": 1}, {"name": "c"}]));
        assert_eq!(host.keys(Family::Tools), ["a", "c"]);
        assert_eq!(host.quirks(), [QuirkKind::InvalidItem]);
    });
}

/// claude-code #88049
#[test]
fn invalid_item_and_duplicate_item_name_each_item_of_each_page() {
    both(|era| {
        let mut server = server(era, json!({"tools": {}})).on("tools/list", move |params| {
            let second = params["cursor"] == "2";
            let long = "l".repeat(300);
            let tools = if second {
                json!([{"name": "c", "title": 1, "inputSchema": {}}, {"name": "a"}, {"name": "a"}])
            } else {
                json!([{}, {"name": "a"}, {"name": "b", "inputSchema": 1}, {"name": long}])
            };
            let mut page = list(era, Family::Tools, tools);
            if !second {
                page["nextCursor"] = "2".into();
            }
            Ok(page)
        });
        let host = Host::connect(options_for(era), &mut server);
        let detail = |kind| host.session.quirks().iter().find(|quirk| quirk.kind == kind).unwrap().detail.to_string();
        let [invalid, duplicate] = [QuirkKind::InvalidItem, QuirkKind::DuplicateItem].map(detail);
        assert_eq!(
            invalid.split("; ").collect::<Vec<_>>(),
            [
                "item 1 of its page: left out: it has no `name`",
                "a: `inputSchema` is missing",
                "b: left out: its `inputSchema` is not an object",
                &format!("{}…: `inputSchema` is missing", "l".repeat(64)),
                "c: `title` has the wrong type",
                "a: `inputSchema` is missing",
                "a: `inputSchema` is missing",
            ]
        );
        assert_eq!(duplicate, "a: came twice; the first is kept; a: came twice; the first is kept");
        let told = host.events.iter().filter_map(|event| match event {
            Event::Quirk(quirk) => Some((quirk.kind, quirk.detail.to_string())),
            _ => None,
        });
        let told: Vec<_> = told.collect();
        assert_eq!(told.len(), 3, "each kind is reported once, and again if a later page has more");
        assert_eq!(told.get(1), Some(&(QuirkKind::InvalidItem, invalid)));
    });
}

/// claude-code #88049
#[test]
fn invalid_item_names_twenty_items_at_most() {
    both(|era| {
        let tools: Vec<_> = (0..1000).map(|at| json!({"name": format!("t{at}")})).collect();
        let host = with_tools(era, json!(tools));
        let detail = &host.session.quirks()[0].detail;
        assert!(detail.contains("t19: ") && !detail.contains("t20: "), "{detail}");
        assert!(detail.ends_with("; and 980 more"), "{detail}");
    });
}

/// Kuadrant #689
#[test]
fn invalid_item_of_any_family_loses_one_item() {
    both(|era| {
        let mut server = Family::ALL.iter().copied().fold(server(era, everything()), |server, family| {
            server.result(family.list_method(), list(era, family, json!([{"title": "nameless"}, item(family)])))
        });
        let host = Host::connect(options_for(era), &mut server);
        assert_lost(&host, &[], FamilyStatus::Listed);
        assert_eq!(host.quirk_methods(QuirkKind::InvalidItem), list_methods(Family::ALL));
    });
}

/// openai-agents-python #3561
#[test]
fn other_members_of_a_list_are_ignored() {
    let mut page = list(Era::Legacy, Family::Tools, json!([{"name": "a", "inputSchema": {"type": "object"}}]));
    page["total"] = json!(1);
    let host = Host::connect(
        options_for(Era::Legacy),
        &mut server(Era::Legacy, json!({"tools": {}})).result("tools/list", page),
    );
    assert_eq!((host.keys(Family::Tools), host.quirks()), (vec!["a"], vec![]));
}

#[test]
fn duplicate_item_keeps_the_first() {
    both(|era| {
        let tool = |name: &str, title: &str| json!({"name": name, "title": title, "inputSchema": {}});
        let tools =
            json!([tool("z", "1"), tool("a", "2"), tool("z", "3"), tool("b", "4"), tool("z", "5"), tool("a", "6")]);
        let host = with_tools(era, tools);
        assert_eq!(host.keys(Family::Tools), ["z", "a", "b"]);
        let titles: Vec<_> = host.session.catalog().tools().map(|tool| tool.title.unwrap()).collect();
        assert_eq!(titles, ["1", "2", "4"]);
        assert_eq!(host.quirk_methods(QuirkKind::DuplicateItem), ["tools/list"]);
        assert_eq!(host.quirks(), [QuirkKind::DuplicateItem]);
    });
}

/// openai-agents-python #3561
#[test]
fn duplicate_item_of_an_earlier_page_is_skipped() {
    both(|era| {
        let mut server = server(era, json!({"tools": {}})).on("tools/list", move |params| {
            let second = params["cursor"] == "2";
            let tool =
                |name: &str| json!({"name": name, "title": if second { "later" } else { "first" }, "inputSchema": {}});
            let mut page = list(era, Family::Tools, json!([tool("a"), tool(if second { "c" } else { "b" })]));
            if !second {
                page["nextCursor"] = "2".into();
            }
            Ok(page)
        });
        let host = Host::connect(options_for(era), &mut server);
        assert_eq!(host.keys(Family::Tools), ["a", "b", "c"]);
        assert_eq!(host.session.catalog().tool("a").unwrap().title.as_deref(), Some("first"));
        assert_eq!(host.status(Family::Tools), FamilyStatus::Listed);
        assert_eq!(host.quirks(), [QuirkKind::DuplicateItem]);
    });
}

/// openai-agents-python #3561
#[test]
fn duplicate_item_of_an_invalid_item_is_kept() {
    both(|era| {
        let host = with_tools(era, json!([{"name": "a", "inputSchema": "bad"}, {"name": "a", "inputSchema": {}}]));
        assert_eq!(host.keys(Family::Tools), ["a"]);
        assert_eq!(host.quirks(), [QuirkKind::InvalidItem]);
    });
}

/// The list of prompts ends with its second page, with its first one, or does not exist; or it is whole.
fn with_prompts(server: Server, era: Era, status: FamilyStatus) -> Server {
    let page = list(era, Family::Prompts, json!([item(Family::Prompts)]));
    server.on("prompts/list", move |params| match status {
        FamilyStatus::Listed => Ok(page.clone()),
        FamilyStatus::Partial if params.get("cursor").is_none() => {
            let mut page = page.clone();
            page["nextCursor"] = "2".into();
            Ok(page)
        }
        FamilyStatus::Absent => Err(json!({"code": -32601, "message": "Method not found"})),
        _ => Err(json!({"code": -32603, "message": "INTERNAL_ERROR"})),
    })
}

/// hermes-agent #44550, codebase-memory-mcp #1185
#[test]
fn a_request_is_sent_where_its_capability_is_declared_or_its_list_has_items() {
    use FamilyStatus::{Absent, Failed, Listed, Partial};
    both(|era| {
        let servers: [fn(Era) -> Server; 3] = [
            |era| server_with_all_families(era, everything()),
            |era| server_with_all_families(era, json!({})),
            server_without_capabilities,
        ];
        for (at, fresh) in servers.into_iter().enumerate() {
            for status in [Listed, Partial, Failed, Absent] {
                let mut server = with_prompts(fresh(era), era, status);
                let mut options = requesting_undeclared(era);
                (options.tolerance.list_errors, options.reconnect) = (ListErrors::Degrade, Some(Reconnect::default()));
                let mut host = Host::connect(options, &mut server);
                // A list that is not declared, and fails, is absent.
                let expected = if at == 1 && status != Listed { Absent } else { status };
                assert_eq!(host.status(Family::Prompts), expected, "{at} {status:?}");
                let sent = host.session.request(host.now, Request::get_prompt("p", [])).is_ok();
                assert_eq!(sent, at != 1 || status == Listed, "{at} {status:?}");
                let refreshed = host.session.refresh(host.now, Family::Prompts).is_ok();
                assert_eq!(refreshed, expected != Absent, "{at} {status:?}");
                // No server declares that it announces changes. Who declares nothing may.
                let listens = |it: &Value| it["params"]["notifications"]["promptsListChanged"] == true;
                let wanted = at == 2 && era == Era::Modern;
                assert_eq!(server.messages().any(listens), wanted, "{at} {status:?}");
                // The next connection requests the list again.
                host.serve(&mut server);
                let before = server.received("prompts/list");
                host.close_transport();
                host.wait(Duration::from_secs(1));
                host.transport(mcp_proto::Transport::Opened);
                host.serve(&mut server);
                assert!(server.received("prompts/list") > before, "{at} {status:?}");
            }
        }
    });
}

/// A capability that is not a family's.
#[test]
fn a_completion_is_requested_where_its_capability_is_declared_or_unknown() {
    both(|era| {
        for (mut server, sent) in [
            (server(era, json!({"completions": {}})), true),
            (server(era, json!({})), false),
            (server_without_capabilities(era), true),
        ] {
            let mut host = Host::connect(options_for(era), &mut server);
            let request = Request::complete(mcp_proto::Reference::Prompt("p"), "name", "x");
            assert_eq!(host.session.request(host.now, request).is_ok(), sent);
        }
    });
}
