//! The cases that the project came from.

mod common;

use common::{Host, Server, legacy, tools};
use mcp_proto::{FailureKind, Family, FamilyStatus};
use serde_json::json;

/// hermes-agent #44550
#[test]
fn a_prompt_only_server_connects_and_is_never_asked_for_tools() {
    let mut server = Server::legacy(json!({"prompts": {}})).result("prompts/list", json!({"prompts": [{"name": "p"}]}));
    let host = Host::connect(legacy(), &mut server);
    assert!(host.is_ready());
    assert_eq!(server.was_asked("tools/list"), 0);
    assert_eq!(host.status(Family::Tools), FamilyStatus::NotAdvertised);
    assert_eq!(host.keys(Family::Prompts), ["p"]);
    assert!(host.quirks().is_empty());
}

/// toolhive #5232
#[test]
fn tools_list_answering_method_not_found_fails_and_names_the_method() {
    let mut server = Server::legacy(json!({"tools": {}}));
    let host = Host::connect(legacy(), &mut server);
    assert_eq!(host.failure_kind(), Some(FailureKind::ListFailed));
    assert!(host.failure().unwrap().message.contains("tools/list"));
}

#[test]
fn a_success_fills_every_family() {
    let mut server = Server::legacy(json!({"tools": {}, "prompts": {}, "resources": {}}))
        .result("tools/list", tools(&["a", "b"]))
        .result("prompts/list", json!({"prompts": [{"name": "p"}]}))
        .result("resources/list", json!({"resources": [{"uri": "r:1", "name": "r"}]}))
        .result("resources/templates/list", json!({"resourceTemplates": [{"uriTemplate": "r:{x}", "name": "t"}]}));
    let host = Host::connect(legacy(), &mut server);
    assert_eq!(Family::ALL.map(|family| host.count(family)), [2, 1, 1, 1]);
    assert_eq!(Family::ALL.map(|family| host.status(family)), [FamilyStatus::Listed; 4]);
}
