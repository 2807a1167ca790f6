//! Requests: written at their turn, and sent once the embedder takes them.

use mcp_proto::{Outcome, Request, Transport};
use serde_json::json;

use crate::common::{Host, Server, legacy, options, reconnecting, seconds, tools};

/// Whether a request may have run depends on whether the embedder took it.
#[test]
fn a_request_that_nobody_took_is_sent_on_the_next_connection_and_one_that_was_taken_ends_unknown() {
    let mut server = Server::legacy(json!({"tools": {}}))
        .result("tools/list", tools(&["x"]))
        .result("tools/call", json!({"content": []}));
    for taken in [false, true] {
        let mut host = Host::connect(reconnecting(legacy()), &mut server);
        let request = host.session.request(host.now, Request::call_tool("x", None)).unwrap();
        if taken {
            host.collect();
            assert_eq!(host.take_methods(), ["tools/call"]);
        }
        host.close_transport();
        host.wait(seconds(1));
        assert!(host.take_sent().is_empty());
        host.transport(Transport::Opened);
        host.serve(&mut server);
        assert!(host.is_ready());
        match host.result_of(request) {
            Outcome::Unknown => assert!(taken),
            Outcome::Result(_) => assert!(!taken),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(server.was_asked("tools/call"), 1, "the one that nobody took");
}

#[test]
fn a_request_that_waits_for_input_ends_with_its_session_and_what_the_server_wants_to_know() {
    let wanted = json!({"q": {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}}});
    let result = json!({"resultType": "input_required", "inputRequests": wanted});
    let server = Server::modern(json!({"tools": {}})).result("tools/list", tools(&["x"]));
    let mut server = server.result("tools/call", result);
    let mut options = options();
    options.capabilities.elicitation = true;
    let mut host = Host::connect(options, &mut server);
    let request = host.session.request(host.now, Request::call_tool("x", None)).unwrap();
    host.collect();
    host.serve(&mut server);
    assert!(host.ended(request).is_none());
    host.session.close(host.now).unwrap();
    host.collect();
    assert!(
        matches!(host.result_of(request), Outcome::InputRequired(result) if result.get().contains("inputRequests"))
    );
}
