//! Approval: which calls a user should approve, by the annotations of the tools and the trust in their server.

use serde_json::json;

use crate::common::{Server, legacy};
use crate::rig::{Rig, configuration};

fn server() -> Server {
    let tool = |name: &str, hint: bool| json!({"name": name, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": hint}});
    Server::legacy(json!({"tools": {}, "resources": {}}))
        .result("tools/list", json!({"tools": [tool("look", true), tool("write", false)]}))
        .result("resources/list", json!({"resources": []}))
        .result("resources/templates/list", json!({"resourceTemplates": []}))
}

fn approvals(entry: &serde_json::Value, host: bool) -> [Option<bool>; 4] {
    let mut options = legacy();
    options.trust = host;
    let mut rig = Rig::of(options).peer("a", server());
    rig.configure(configuration(json!({ "a": entry })));
    rig.open();
    rig.serve();
    ["mcp_a_look", "mcp_a_write", "mcp_a_list_resources", "mcp_a_other"].map(|name| rig.hub.needs_approval(name))
}

#[test]
fn a_read_only_function_of_a_trusted_server_needs_no_approval() {
    let cases = [
        (json!({"command": "a"}), false, true),
        (json!({"command": "a"}), true, false),
        (json!({"command": "a", "trust": true}), false, false),
        (json!({"command": "a", "trust": false}), true, true),
    ];
    for (entry, host, look) in cases {
        let expected = [Some(look), Some(true), Some(false), None];
        assert_eq!(approvals(&entry, host), expected, "{entry}, {host}");
    }
}

#[test]
fn a_function_that_the_filters_leave_out_has_no_approval() {
    let entry = json!({"command": "a", "trust": true, "tools": {"exclude": "look"}});
    assert_eq!(approvals(&entry, false)[0], None);
}
