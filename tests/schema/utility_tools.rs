//! The schemas of the utility tools, and matching values.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::match_wildcard_for_single_variants,
    clippy::needless_pass_by_value,
    clippy::panic,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a helper may fail as a test may"
)]

#[path = "../common/mod.rs"]
mod common;

use common::{Host, Server, legacy, tools};
use mcp_proto::host::Utility;
use mcp_proto::host::config::ToolPolicy;
use mcp_proto::host::names::Names;
use mcp_proto::host::toolset::{Suspicion, choose};
use serde_json::{Value, json};

/// A session with a server without tools, with resources and prompts.
fn host() -> Host {
    let mut server = Server::legacy(json!({"tools": {}, "resources": {}, "prompts": {}}))
        .result("tools/list", tools(&[]))
        .result("resources/list", json!({"resources": []}))
        .result("resources/templates/list", json!({"resourceTemplates": []}))
        .result("prompts/list", json!({"prompts": []}));
    let host = Host::connect(legacy(), &mut server);
    assert!(host.is_ready(), "{:?}", host.failure());
    host
}

#[test]
fn utility_tools_are_functions_with_schemas() {
    let host = host();
    let policy = ToolPolicy::default();
    let toolset = choose("docs", &policy, &*host.session, Suspicion::Warn).toolset.unwrap();
    let mut names = Names::default();
    names.update([("docs", toolset.targets())]);
    for (function, utility) in toolset.clone().into_functions(&names).zip(Utility::ALL.iter().copied()) {
        assert_eq!(function.name, format!("mcp_docs_{utility}"));
        assert_eq!(function.hints.read_only, Some(true));
        let (verb, noun) = utility.name().split_once('_').unwrap();
        let description = function.description.unwrap().to_lowercase();
        assert!(description.starts_with(verb) && description.contains(noun), "{description}");
        let schema: Value = serde_json::from_str(function.input_schema.get()).unwrap();
        let fits = |arguments: Value| jsonschema::draft202012::new(&schema).unwrap().is_valid(&arguments);
        match utility {
            Utility::ListResources | Utility::ListPrompts => assert!(fits(json!({}))),
            Utility::ReadResource => assert!(fits(json!({"uri": "file:///a"})) && !fits(json!({}))),
            Utility::GetPrompt => {
                assert!(fits(json!({"name": "a"})) && fits(json!({"name": "a", "arguments": {"b": "c"}})));
                assert!(!fits(json!({"name": "a", "arguments": {"b": 1}})) && !fits(json!({})));
            }
            _ => panic!("{utility}"),
        }
    }
}
