//! The cases that motivated the project.

use std::time::Duration;

use crate::common::{Host, Server, legacy, options, tools};
use mcp_proto::{Era, FailureKind, Family, FamilyStatus, Options, QuirkKind};
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

/// A server that has items in every family, whatever it declares.
fn server_with_all_families(era: Era, capabilities: Value) -> Server {
    let server = match era {
        Era::Legacy => Server::legacy(capabilities),
        Era::Modern => Server::modern(capabilities),
    };
    server
        .result("tools/list", tools(&["a", "b"]))
        .result("prompts/list", json!({"prompts": [{"name": "p"}]}))
        .result("resources/list", json!({"resources": [{"uri": "r:1", "name": "r"}]}))
        .result("resources/templates/list", json!({"resourceTemplates": [{"uriTemplate": "r:{x}", "name": "t"}]}))
}

fn everything() -> Value {
    json!({"tools": {}, "prompts": {}, "resources": {}})
}

/// A server that declares all families, and refuses these methods.
fn without(era: Era, methods: &[&str]) -> Server {
    let server = server_with_all_families(era, everything());
    methods.iter().fold(server, |server, method| server.error(method, -32601, "Method not found"))
}

/// The list requests, in order.
fn lists(host: &Host) -> Vec<&str> {
    host.methods().into_iter().filter(|method| method.ends_with("/list")).collect()
}

fn statuses(host: &Host) -> Vec<FamilyStatus> {
    Family::ALL.iter().map(|family| host.status(*family)).collect()
}

fn counts(host: &Host) -> Vec<usize> {
    Family::ALL.iter().map(|family| host.count(*family)).collect()
}

fn assert_list_failed(host: &Host, method: &str, words: &str) {
    assert!(!host.is_ready());
    assert_eq!(host.failure_kind(), Some(FailureKind::ListFailed));
    let message = &host.failure().unwrap().message;
    for part in ["rovo", method, words] {
        assert!(message.contains(part), "no {part:?} in {message:?}");
    }
}

/// hermes-agent #44550
#[test]
fn a_prompt_only_server_connects_and_gets_no_tools_list() {
    both(|era| {
        let host = Host::connect(options_for(era), &mut server_with_all_families(era, json!({"prompts": {}})));
        assert!(host.is_ready());
        assert_eq!(lists(&host), ["prompts/list"]);
        assert_eq!(host.status(Family::Tools), FamilyStatus::NotAdvertised);
        assert_eq!(host.keys(Family::Prompts), ["p"]);
        assert!(host.quirks().is_empty());
    });
}

/// hermes-agent #44550
#[test]
fn a_resource_only_server_connects_and_gets_no_tools_list() {
    both(|era| {
        let host = Host::connect(options_for(era), &mut server_with_all_families(era, json!({"resources": {}})));
        assert!(host.is_ready());
        assert_eq!(lists(&host), ["resources/list", "resources/templates/list"]);
        assert_eq!(host.status(Family::Tools), FamilyStatus::NotAdvertised);
        assert_eq!(host.keys(Family::Resources), ["r:1"]);
        assert_eq!(host.keys(Family::ResourceTemplates), ["r:{x}"]);
        assert!(host.quirks().is_empty());
    });
}

/// hermes-agent #44550
#[test]
fn a_server_with_tools_gets_tools_list() {
    both(|era| {
        let host = Host::connect(options_for(era), &mut server_with_all_families(era, json!({"tools": {}})));
        assert_eq!(lists(&host), ["tools/list"]);
        assert_eq!(host.keys(Family::Tools), ["a", "b"]);
    });
}

/// toolhive #5232
#[test]
fn resources_list_answering_method_not_found_keeps_the_tools() {
    both(|era| {
        let host = Host::connect(options_for(era), &mut without(era, &["resources/list"]));
        assert!(host.is_ready());
        assert_eq!(host.keys(Family::Tools), ["a", "b"]);
        assert_eq!(host.status(Family::Resources), FamilyStatus::Absent);
        assert_eq!(host.quirk_methods(QuirkKind::MethodNotFound), ["resources/list"]);
    });
}

/// toolhive #5232
#[test]
fn prompts_list_answering_method_not_found_keeps_the_tools() {
    both(|era| {
        let host = Host::connect(options_for(era), &mut without(era, &["prompts/list"]));
        assert!(host.is_ready());
        assert_eq!(host.keys(Family::Tools), ["a", "b"]);
        assert_eq!(host.status(Family::Prompts), FamilyStatus::Absent);
        assert_eq!(host.quirk_methods(QuirkKind::MethodNotFound), ["prompts/list"]);
    });
}

/// toolhive #5232
#[test]
fn resources_and_prompts_answering_method_not_found_keep_the_tools() {
    both(|era| {
        let methods = ["prompts/list", "resources/list", "resources/templates/list"];
        let host = Host::connect(options_for(era), &mut without(era, &methods));
        assert!(host.is_ready());
        assert_eq!(counts(&host), [2, 0, 0, 0]);
        let absent = FamilyStatus::Absent;
        assert_eq!(statuses(&host), [FamilyStatus::Listed, absent, absent, absent]);
        assert_eq!(host.quirk_methods(QuirkKind::MethodNotFound), methods);
    });
}

/// toolhive #5232
#[test]
fn tools_list_answering_method_not_found_fails_and_names_the_method() {
    both(|era| {
        let host = Host::connect(options_for(era), &mut without(era, &["tools/list"]));
        assert_list_failed(&host, "tools/list", "Method not found");
    });
}

/// toolhive #5232
#[test]
fn resources_list_answering_internal_error_fails() {
    both(|era| {
        let mut server = server_with_all_families(era, everything()).error("resources/list", -32603, "INTERNAL_ERROR");
        let host = Host::connect(options_for(era), &mut server);
        assert_list_failed(&host, "resources/list", "INTERNAL_ERROR");
    });
}

/// toolhive #5232
#[test]
fn prompts_list_answering_invalid_params_fails() {
    both(|era| {
        let mut server = server_with_all_families(era, everything()).error("prompts/list", -32602, "INVALID_PARAMS");
        let host = Host::connect(options_for(era), &mut server);
        assert_list_failed(&host, "prompts/list", "INVALID_PARAMS");
    });
}

/// toolhive #5232
#[test]
fn a_success_fills_every_family() {
    both(|era| {
        let host = Host::connect(options_for(era), &mut server_with_all_families(era, everything()));
        assert!(host.is_ready() && host.quirks().is_empty());
        assert_eq!(counts(&host), [2, 1, 1, 1]);
        assert_eq!(statuses(&host), [FamilyStatus::Listed; 4]);
    });
}

/// hermes-agent #44550
#[test]
fn without_declared_capabilities_every_family_is_requested() {
    let mut server = server_with_all_families(Era::Legacy, json!({})).on("initialize", |params| {
        let info = json!({"name": "test", "version": "1"});
        Ok(json!({"protocolVersion": params["protocolVersion"], "serverInfo": info}))
    });
    let host = Host::connect(options_for(Era::Legacy), &mut server);
    assert!(host.is_ready());
    assert!(lists(&host).into_iter().eq(Family::ALL.iter().map(|family| family.list_method())));
    assert_eq!(counts(&host), [2, 1, 1, 1]);
}

/// hermes-agent #44550
#[test]
fn list_changed_for_tools_from_a_server_without_tools_sends_nothing() {
    both(|era| {
        let mut host = Host::connect(options_for(era), &mut server_with_all_families(era, json!({"prompts": {}})));
        let before = host.transcript.len();
        host.receive(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
        host.wait(Duration::from_secs(60));
        assert_eq!(host.transcript.len(), before);
        assert!(host.is_ready());
    });
}
