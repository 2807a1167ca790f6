//! Requests that need input: rounds in the modern era, and the time that the user takes.

use std::time::Duration;

use crate::common::{Deliver, Host, Server, Steps, options, tools};
use mcp_proto::protocol::Root;
use mcp_proto::{
    Action, CommandError, Event, InputRequest, Options, Outcome, Reconnect, Request, RequestError, RequestId, Transport,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

fn asking() -> Options {
    let mut options = options();
    options.capabilities.elicitation = true;
    options.capabilities.roots = Some(vec![Root::new("file:///project")]);
    options
}

fn server(modern: bool) -> Server {
    let server = if modern { Server::modern(json!({"tools": {}})) } else { Server::legacy(json!({"tools": {}})) };
    let hints = |hint: &str| json!({"name": hint, "inputSchema": {}, "annotations": {hint: true}});
    let mut list = tools(&["plain"]);
    for hint in ["readOnlyHint", "idempotentHint", "destructiveHint"] {
        list["tools"].as_array_mut().unwrap().push(hints(hint));
    }
    server.result("tools/list", list)
}

fn ready(options: Options, modern: bool) -> Host {
    let mut host = Host::connect(options, &mut server(modern));
    assert!(host.is_ready());
    host.take_sent();
    host
}

fn call(host: &mut Host, name: &str) -> (RequestId, Value) {
    let arguments = raw(&json!({"n": 1}));
    let request = Request::call_tool(name, Some(&arguments)).timeout(Duration::from_secs(30));
    let id = host.session.request(host.now, request).unwrap();
    host.collect();
    (id, host.take_one())
}

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap()
}

fn answer(host: &mut Host, sent: &Value, result: &Value) {
    host.receive(json!({"jsonrpc": "2.0", "id": sent["id"], "result": result}));
}

fn required(inputs: Value, state: Option<&str>) -> Value {
    let mut result = json!({"resultType": "input_required", "inputRequests": inputs});
    if let Some(state) = state {
        result["requestState"] = json!(state);
    }
    result
}

fn elicitation() -> Value {
    json!({"method": "elicitation/create", "params": {"message": "who?", "requestedSchema": {"type": "object"}}})
}

fn required_input(host: &Host) -> Vec<&InputRequest> {
    let inputs = host.events.iter().filter_map(|event| match event {
        Event::InputRequired { inputs, .. } => Some(inputs),
        _ => None,
    });
    inputs.flatten().collect()
}

const STATE: &str = "opaque \"\u{e9}\\ state";

#[test]
fn the_retry_has_a_new_id_the_inputs_and_the_exact_state() {
    let mut host = ready(asking(), true);
    let (id, first) = call(&mut host, "plain");
    let inputs = json!({"who": elicitation(), "where": {"method": "roots/list"}});
    answer(&mut host, &first, &required(inputs, Some(STATE)));
    let asked = required_input(&host);
    assert_eq!(asked.len(), 1, "the engine answers the request for roots");
    assert_eq!((&*asked[0].key, asked[0].method.as_str()), ("who", "elicitation/create"));
    assert!(host.take_sent().is_empty());

    let accept = raw(&json!({"action": "accept", "content": {"name": "x"}}));
    host.session.provide(host.now, id, [("who", &*accept)]).unwrap();
    host.collect();
    let retry = host.take_one();
    assert_ne!(retry["id"], first["id"]);
    assert_eq!(retry["params"]["name"], "plain");
    assert_eq!(retry["params"]["arguments"], json!({"n": 1}));
    assert_eq!(retry["params"]["requestState"], STATE);
    let responses = json!({
        "where": {"roots": [{"uri": "file:///project"}]},
        "who": {"action": "accept", "content": {"name": "x"}}
    });
    assert_eq!(retry["params"]["inputResponses"], responses);
    answer(&mut host, &retry, &json!({"resultType": "complete", "content": []}));
    assert!(matches!(host.result_of(id), Outcome::Result(_)));
}

/// A request of the embedder may have been written for an earlier round.
#[test]
fn inputs_and_state_of_the_parameters_count_until_the_server_requires_others() {
    let mut host = ready(asking(), true);
    let params = r#"{"name":"plain","inputResponses":{"own":1},"_meta":{"progressToken":"own"},"requestState":"own"}"#;
    let request = Request::new("tools/call").params(RawValue::from_string(params.into()).unwrap()).progress(true);
    let id = host.session.request(host.now, request).unwrap();
    let sent = |host: &mut Host| {
        let mut actions = std::iter::from_fn(|| host.session.poll());
        let sent = actions.find_map(|it| if let Action::Send(sent) = it { Some(sent) } else { None }).unwrap();
        String::from_utf8(sent.bytes().to_vec()).unwrap()
    };
    let first = sent(&mut host);
    assert!(first.contains(r#""inputResponses":{"own":1}"#) && first.contains(r#""requestState":"own""#), "{first}");
    assert_eq!(first.matches("progressToken").count(), 1, "{first}");
    let first: Value = serde_json::from_str(&first).unwrap();
    answer(&mut host, &first, &required(json!({"who": elicitation()}), Some("new")));
    host.session.provide(host.now, id, [("who", &*raw(&json!({"action": "cancel"})))]).unwrap();
    let retry = sent(&mut host);
    assert_eq!(retry.matches("inputResponses").count() + retry.matches("requestState").count(), 2, "{retry}");
    let retry: Value = serde_json::from_str(&retry).unwrap();
    assert_eq!(retry["params"]["inputResponses"], json!({"who": {"action": "cancel"}}));
    assert_eq!(retry["params"]["requestState"], "new");
}

#[test]
fn input_is_given_once_whether_the_retry_waits_or_was_sent() {
    for (sent, others) in [(false, 0), (false, 1), (true, 0)] {
        let mut options = asking();
        options.limits.in_flight = 1;
        let mut host = ready(options, true);
        let (id, first) = call(&mut host, "plain");
        answer(&mut host, &first, &required(json!({"who": elicitation()}), None));
        for _ in 0..others {
            call(&mut host, "plain");
        }
        let [accept, other] = ["x", "y"].map(|name| raw(&json!({"action": "accept", "content": {"name": name}})));
        host.session.provide(host.now, id, [("who", &*accept)]).unwrap();
        if sent {
            host.collect();
        }
        let again = host.session.provide(host.now, id, [("who", &*other)]);
        assert_eq!(again, Err(CommandError::UnknownRequest));
        host.collect();
        if others == 0 {
            assert_eq!(host.take_one()["params"]["inputResponses"]["who"]["content"]["name"], "x");
        }
    }
}

/// Whatever state an earlier round had.
#[test]
fn the_retry_has_no_state_if_the_server_gave_none() {
    for first_state in [None, Some(STATE)] {
        let mut host = ready(asking(), true);
        let (id, mut sent) = call(&mut host, "plain");
        for state in [first_state, None] {
            answer(&mut host, &sent, &required(json!({"who": elicitation()}), state));
            let accept = raw(&json!({"action": "accept", "content": {"name": "x"}}));
            host.session.provide(host.now, id, [("who", &*accept)]).unwrap();
            host.collect();
            sent = host.take_one();
            assert_eq!(sent["params"].get("requestState"), state.map(|state| json!(state)).as_ref());
            assert!(sent["params"].get("inputResponses").is_some());
        }
        answer(&mut host, &sent, &json!({"resultType": "complete", "content": []}));
        assert!(matches!(host.result_of(id), Outcome::Result(_)));
    }
}

#[test]
fn missing_fields_of_an_accepted_form_get_their_defaults() {
    let mut host = ready(asking(), true);
    let (id, first) = call(&mut host, "plain");
    let mut form = elicitation();
    form["params"]["requestedSchema"] = json!({"type": "object", "properties": {
        "name": {"type": "string", "default": "Ann"}, "age": {"type": "integer", "default": 30}
    }});
    answer(&mut host, &first, &required(json!({"who": form}), None));
    let accept = raw(&json!({"action": "accept", "content": {"name": "Bob"}}));
    host.session.provide(host.now, id, [("who", &*accept)]).unwrap();
    host.collect();
    let responses = json!({"who": {"action": "accept", "content": {"name": "Bob", "age": 30}}});
    assert_eq!(host.take_one()["params"]["inputResponses"], responses);
}

#[test]
fn a_field_whose_name_is_no_text_has_no_default() {
    let mut host = ready(asking(), true);
    let (id, first) = call(&mut host, "plain");
    let mut form = elicitation();
    form["params"]["requestedSchema"] = json!({"type": "object", "properties": {
        "lone": {"type": "string", "default": "x"}, "age": {"type": "integer", "default": 30}
    }});
    let required = required(json!({"who": form}), None);
    let answer = json!({"jsonrpc": "2.0", "id": first["id"], "result": required}).to_string();
    host.session.deliver(host.now, answer.replace("\"lone\"", "\"\\ud800\"").as_bytes());
    host.collect();
    let accept = raw(&json!({"action": "accept", "content": {}}));
    host.session.provide(host.now, id, [("who", &*accept)]).unwrap();
    host.collect();
    let responses = json!({"who": {"action": "accept", "content": {"age": 30}}});
    assert_eq!(host.take_one()["params"]["inputResponses"], responses);
}

#[test]
fn responses_that_were_not_required_are_missing_or_come_twice_are_refused() {
    let mut host = ready(asking(), true);
    let (id, first) = call(&mut host, "plain");
    let inputs = json!({"who": elicitation(), "where": elicitation(), "r": {"method": "roots/list"}});
    answer(&mut host, &first, &required(inputs, None));
    let accept = raw(&json!({"action": "accept"}));
    let missing = CommandError::MissingInput { key: "where".into() };
    let unknown = |key: &str| CommandError::UnknownInput { key: key.into() };
    let (who, place) = (("who", &*accept), ("where", &*accept));
    for (responses, error) in [
        (vec![who], missing),
        (vec![who, place, ("when", &*accept)], unknown("when")),
        (vec![who, place, ("r", &*accept)], unknown("r")),
        (vec![who, place, who], CommandError::DuplicateInput { key: "who".into() }),
    ] {
        assert_eq!(host.session.provide(host.now, id, responses), Err(error));
        host.collect();
        assert!(host.take_sent().is_empty());
    }
    host.session.provide(host.now, id, [who, place]).unwrap();
    host.collect();
    let sent = host.take_one()["params"]["inputResponses"].clone();
    assert_eq!(sent.as_object().unwrap().len(), 3, "{sent}");
}

#[test]
fn a_result_that_requires_two_inputs_with_one_key_is_invalid() {
    let mut host = ready(asking(), true);
    let (id, first) = call(&mut host, "plain");
    let input = json!({"method": "roots/list"});
    let inputs = format!(r#"{{"x":{input},"\u0078":{input}}}"#);
    let result = format!(r#"{{"resultType":"input_required","inputRequests":{inputs}}}"#);
    host.receive_text(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, first["id"]));
    assert!(matches!(host.result_of(id), Outcome::Error(RequestError::Invalid(why)) if why.contains("key x")));
    assert!(host.take_sent().is_empty());
}

#[test]
fn input_that_the_engine_provides_is_sent_at_once() {
    let mut host = ready(asking(), true);
    let (id, first) = call(&mut host, "plain");
    answer(&mut host, &first, &required(json!({"r": {"method": "roots/list"}}), None));
    let retry = host.take_one();
    assert_eq!(retry["params"]["inputResponses"], json!({"r": {"roots": [{"uri": "file:///project"}]}}));
    assert_eq!(retry["params"].get("requestState"), None, "no state was given, so none is sent back");
    answer(&mut host, &retry, &json!({"resultType": "input_required", "requestState": "again"}));
    let third = host.take_one();
    assert_eq!(third["params"]["requestState"], "again");
    assert_eq!(third["params"].get("inputResponses"), None);
    answer(&mut host, &third, &json!({}));
    assert!(matches!(host.result_of(id), Outcome::Result(_)));
}

#[test]
fn the_number_of_rounds_is_limited() {
    let mut host = ready(asking(), true);
    let (id, mut sent) = call(&mut host, "plain");
    for _ in 0..10 {
        answer(&mut host, &sent, &json!({"resultType": "input_required", "requestState": "s"}));
        sent = host.take_one();
    }
    answer(&mut host, &sent, &json!({"resultType": "input_required", "requestState": "s"}));
    assert!(matches!(host.result_of(id), Outcome::Error(RequestError::Invalid(why)) if why.contains("10 times")));
    assert!(host.take_sent().is_empty());
}

/// The result and its state count, for all requests that wait for input.
#[test]
fn the_bytes_of_required_input_are_limited() {
    let result = required(json!({"who": elicitation()}), Some(STATE));
    let bytes = result.to_string().len() + json!(STATE).to_string().len();
    for (limit, outcome) in [(2 * bytes, None), (2 * bytes - 1, Some("exceed the limit of"))] {
        let mut options = asking();
        options.limits.input_bytes = limit;
        let mut host = ready(options, true);
        let [(first, one), (second, other)] = [call(&mut host, "plain"), call(&mut host, "plain")];
        answer(&mut host, &one, &result);
        assert!(host.ended(first).is_none());
        answer(&mut host, &other, &result);
        let why = host.ended(second).map(|outcome| format!("{outcome:?}"));
        assert_eq!(why.is_some(), outcome.is_some(), "{why:?}");
        assert!(why.unwrap_or_default().contains(outcome.unwrap_or_default()));
        // A later round takes the place of the one before.
        let decline = raw(&json!({"action": "decline"}));
        host.session.provide(host.now, first, [("who", &*decline)]).unwrap();
        host.collect();
        let retry = host.take_one();
        answer(&mut host, &retry, &result);
        assert!(host.ended(first).is_none(), "{:?}", host.ended(first));
    }
}

#[test]
fn invalid_required_input_is_a_typed_failure() {
    let cases = [
        required(json!({"m": {"method": "acme/ask"}}), None),
        required(json!({"m": 7}), None),
        json!({"resultType": "input_required"}),
        json!({"resultType": "acme/later"}),
        json!({"resultType": null}),
    ];
    for result in cases {
        let mut host = ready(asking(), true);
        let (id, sent) = call(&mut host, "plain");
        answer(&mut host, &sent, &result);
        assert!(matches!(host.result_of(id), Outcome::Error(RequestError::Invalid(_))), "{result}");
        assert!(host.take_sent().is_empty());
    }
}

#[test]
fn declined_input_ends_the_request_and_reports_what_was_required() {
    let mut host = ready(asking(), true);
    let (id, sent) = call(&mut host, "plain");
    let result = required(json!({"who": elicitation()}), Some(STATE));
    answer(&mut host, &sent, &result);
    host.session.decline(host.now, id).unwrap();
    host.collect();
    let Outcome::InputRequired(kept) = host.result_of(id) else { panic!("{:?}", host.result_of(id)) };
    assert_eq!(serde_json::from_str::<Value>(kept.get()).unwrap(), result);
    assert_eq!(host.session.decline(host.now, id), Err(CommandError::UnknownRequest));
}

#[test]
fn the_users_time_does_not_count_towards_the_deadline() {
    let mut host = ready(asking(), true);
    let (id, sent) = call(&mut host, "plain");
    host.wait(Duration::from_secs(20));
    answer(&mut host, &sent, &required(json!({"who": elicitation()}), None));
    host.wait(Duration::from_secs(500));
    let accept = raw(&json!({"action": "accept"}));
    host.session.provide(host.now, id, [("who", &*accept)]).unwrap();
    host.collect();
    host.wait(Duration::from_secs(9));
    assert!(!host.events.iter().any(|event| matches!(event, Event::Finished { .. })));
    host.wait(Duration::from_secs(1));
    assert!(matches!(host.result_of(id), Outcome::TimedOut(mcp_proto::TimeBound::Timeout)));
}

#[test]
fn a_user_who_never_answers_ends_the_request() {
    let mut host = ready(asking(), true);
    let (id, sent) = call(&mut host, "plain");
    answer(&mut host, &sent, &required(json!({"who": elicitation()}), None));
    host.wait(Duration::from_secs(600));
    assert!(matches!(host.result_of(id), Outcome::InputRequired(_)));
}

/// In the legacy era, the server request arrives while the call is in flight.
#[test]
fn the_users_time_does_not_count_in_the_legacy_era_either() {
    let mut host = ready(asking(), false);
    let (id, sent) = call(&mut host, "plain");
    host.wait(Duration::from_secs(20));
    host.receive(json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {"message": "?"}}));
    host.wait(Duration::from_secs(500));
    let ask = host.events.iter().find_map(|event| match event {
        Event::ServerRequest { id: ask, .. } => Some(*ask),
        _ => None,
    });
    host.session.respond(host.now, ask.unwrap(), Ok(&raw(&json!({"action": "decline"})))).unwrap();
    host.collect();
    host.wait(Duration::from_secs(9));
    answer(&mut host, &sent, &json!({"content": []}));
    assert!(matches!(host.result_of(id), Outcome::Result(_)));
}

#[test]
fn a_request_that_waits_for_input_outlives_its_connection() {
    let mut options = asking();
    options.reconnect = Some(Reconnect::default());
    let mut host = ready(options, true);
    let (id, sent) = call(&mut host, "plain");
    answer(&mut host, &sent, &required(json!({"who": elicitation()}), Some(STATE)));
    host.close_transport();
    host.wait(Duration::from_secs(1));
    host.transport(Transport::Opened);
    host.serve(&mut server(true));
    let accept = raw(&json!({"action": "accept"}));
    host.session.provide(host.now, id, [("who", &*accept)]).unwrap();
    host.collect();
    assert_eq!(host.take_one()["params"]["requestState"], STATE);
}

fn crash_and_come_back(host: &mut Host, modern: bool) {
    host.close_transport();
    host.wait(Duration::from_secs(1));
    host.transport(Transport::Opened);
    let mut server = server(modern);
    // Only the handshake is served: resent messages are examined.
    let mut steps = Steps::until("the handshake and discovery come to an end");
    loop {
        steps.step();
        let sent = host.take_sent();
        let (calls, opening): (Vec<_>, Vec<_>) = sent.into_iter().partition(|sent| sent["method"] == "tools/call");
        if opening.is_empty() {
            host.sent = calls;
            return;
        }
        for answer in opening.iter().flat_map(|message| server.answer(message)).collect::<Vec<_>>() {
            host.receive(answer);
        }
        host.sent.splice(0..0, calls);
    }
}

/// Options of an embedder that trusts the server's annotations, with reconnects.
fn trusting() -> Options {
    let mut options = options();
    options.trust = true;
    options.reconnect = Some(Reconnect::default());
    options
}

#[test]
fn only_an_annotated_tool_of_a_trusted_server_is_called_again() {
    let cases = [
        (true, "readOnlyHint", true),
        (true, "idempotentHint", true),
        (true, "destructiveHint", false),
        (true, "plain", false),
        (false, "readOnlyHint", false),
        (false, "idempotentHint", false),
    ];
    for (trust, tool, again) in cases {
        let mut options = trusting();
        options.trust = trust;
        let mut host = ready(options, false);
        let (id, first) = call(&mut host, tool);
        crash_and_come_back(&mut host, false);
        if again {
            let second = host.take_one();
            assert_eq!(second["params"]["arguments"], first["params"]["arguments"]);
            assert_ne!(second["id"], first["id"]);
            answer(&mut host, &second, &json!({"content": []}));
            assert!(matches!(host.result_of(id), Outcome::Result(_)), "{tool}");
        } else {
            assert!(host.take_sent().is_empty());
            assert!(matches!(host.result_of(id), Outcome::Unknown), "{tool}");
        }
    }
}

#[test]
fn only_a_read_only_tool_of_a_trusted_server_needs_no_approval() {
    for trust in [false, true] {
        let mut options = trusting();
        options.trust = trust;
        let host = ready(options, false);
        for tool in ["readOnlyHint", "idempotentHint", "destructiveHint", "plain", "unknown"] {
            let free = trust && tool == "readOnlyHint";
            assert_eq!(host.session.needs_approval(tool), !free, "{tool}, {trust}");
        }
    }
}

#[test]
fn the_embedder_decides_on_replays() {
    for (tool, allowed) in [("plain", true), ("readOnlyHint", false)] {
        let mut host = ready(trusting(), false);
        let request = Request::call_tool(tool, None).replay(allowed);
        host.session.request(host.now, request).unwrap();
        host.collect();
        host.take_sent();
        crash_and_come_back(&mut host, false);
        assert_eq!(host.take_sent().len(), usize::from(allowed));
    }
}

#[test]
fn twice_at_most() {
    let mut host = ready(trusting(), false);
    let (id, _) = call(&mut host, "readOnlyHint");
    for _ in 0..2 {
        crash_and_come_back(&mut host, false);
        assert_eq!(host.take_sent().len(), 1);
    }
    crash_and_come_back(&mut host, false);
    assert!(host.take_sent().is_empty());
    assert!(matches!(host.result_of(id), Outcome::Unknown));
}

#[test]
fn a_call_waiting_to_be_sent_again_ends_as_unknown_with_its_session() {
    let mut host = ready(trusting(), false);
    let (id, _) = call(&mut host, "readOnlyHint");
    host.close_transport();
    host.session.close(host.now).unwrap();
    host.collect();
    assert!(matches!(host.result_of(id), Outcome::Unknown));
}

#[test]
fn undeclared_input_is_declined() {
    let mut host = ready(options(), true);
    for method in ["sampling/createMessage", "elicitation/create", "roots/list"] {
        let (id, first) = call(&mut host, "plain");
        let result = required(json!({"x": {"method": method, "params": {}}}), None);
        answer(&mut host, &first, &result);
        assert!(matches!(host.result_of(id), Outcome::InputRequired(_)), "{method}");
        assert!(required_input(&host).is_empty());
    }
}

/// What the client writes itself takes the place of what the embedder gave under the same name, where it writes it.
#[test]
fn given_members_stay_unless_the_client_writes_them() {
    let given = json!({"name": "plain", "inputResponses": {"x": 1}, "requestState": "mine", "task": {"ttl": 1}});
    for modern in [false, true] {
        let mut host = ready(asking(), modern);
        let request = Request::new("tools/call").params(raw(&given));
        let id = host.session.request(host.now, request).unwrap();
        host.collect();
        let first = host.take_one();
        for (name, value) in given.as_object().unwrap() {
            assert_eq!(&first["params"][name], value, "{name} {modern}");
        }
        if modern {
            answer(&mut host, &first, &required(json!({"who": elicitation()}), Some(STATE)));
            let accept = raw(&json!({"action": "decline"}));
            host.session.provide(host.now, id, [("who", &*accept)]).unwrap();
            host.collect();
            let retry = host.take_one();
            assert_eq!(retry["params"]["inputResponses"], json!({"who": {"action": "decline"}}));
            assert_eq!((&retry["params"]["requestState"], &retry["params"]["task"]), (&json!(STATE), &given["task"]));
        }
    }
}

#[test]
fn a_form_without_defaults_is_answered_as_the_user_did() {
    let mut options = asking();
    options.form_defaults = false;
    let mut host = ready(options, true);
    let (id, first) = call(&mut host, "plain");
    let mut form = elicitation();
    form["params"]["requestedSchema"] =
        json!({"type": "object", "properties": {"age": {"type": "integer", "default": 30}}});
    answer(&mut host, &first, &required(json!({"who": form}), None));
    let accept = raw(&json!({"action": "accept", "content": {}}));
    host.session.provide(host.now, id, [("who", &*accept)]).unwrap();
    host.collect();
    let responses = json!({"who": {"action": "accept", "content": {}}});
    assert_eq!(host.take_one()["params"]["inputResponses"], responses);
}

/// What the engine answers itself counts, too.
#[test]
fn a_result_may_require_as_many_inputs_as_the_limit_says() {
    let mut options = asking();
    options.limits.server_requests = 3;
    for (count, is_allowed) in [(3, true), (4, false)] {
        let mut host = ready(options.clone(), true);
        let (id, first) = call(&mut host, "plain");
        let input = |at: usize| if at == 0 { json!({"method": "roots/list"}) } else { elicitation() };
        let inputs: serde_json::Map<_, _> = (0..count).map(|at| (format!("k{at}"), input(at))).collect();
        answer(&mut host, &first, &required(inputs.into(), None));
        assert_eq!(required_input(&host).len(), if is_allowed { 2 } else { 0 }, "{count}");
        let outcome = host.ended(id).map(|outcome| format!("{outcome:?}"));
        let is_refused = outcome.as_ref().is_some_and(|outcome| outcome.contains("more than 3 inputs at once"));
        assert_eq!((outcome.is_none(), is_refused), (is_allowed, !is_allowed), "{count}: {outcome:?}");
    }
}
