//! A fake server without a simulation: what it sends for what comes, on pipes and over HTTP.

use http::Request;
use mcp_proto::testkit::{Ask, ChannelId, FakeServer, FakeTool, On, Reply, ServerOutput};
use mcp_proto::{ShutdownStep, Time};
use serde_json::{Value, json};

use crate::common::seconds;

const URL: &str = "https://example.com/mcp";

fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn notification(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

fn call(id: u64, tool: &str) -> Value {
    request(id, "tools/call", &json!({"name": tool}))
}

/// A call of the modern era.
fn modern_call(id: u64, tool: &str) -> Value {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
    request(id, "tools/call", &json!({"name": tool, "_meta": meta}))
}

/// What the server sends until this time, with its channels.
fn sent(server: &mut FakeServer, until: Time) -> Vec<(u64, ServerOutput)> {
    std::iter::from_fn(|| server.poll(until)).map(|action| (action.channel.as_u64(), action.output)).collect()
}

/// The messages in lines, bodies and events.
fn messages(sent: &[(u64, ServerOutput)]) -> Vec<(u64, Value)> {
    let mut all = Vec::new();
    for (channel, output) in sent {
        let ServerOutput::Bytes(bytes) = output else { continue };
        let lines = std::str::from_utf8(bytes).unwrap().lines();
        let messages = lines.map(|line| line.strip_prefix("data: ").unwrap_or(line));
        all.extend(messages.filter_map(|text| Some((*channel, serde_json::from_str(text).ok()?))));
    }
    all
}

/// The text of all bytes that are sent.
fn text(sent: &[(u64, ServerOutput)]) -> String {
    let bytes = sent.iter().filter_map(|(_, output)| match output {
        ServerOutput::Bytes(bytes) => Some(std::str::from_utf8(bytes).unwrap()),
        _ => None,
    });
    bytes.collect()
}

/// A client that is initialized: on the pipe of this number, or over HTTP with this and the next numbers as exchanges.
struct Peer {
    first: u64,
    exchanges: u64,
    /// The id of the session over HTTP.
    session: Option<String>,
    is_http: bool,
}

impl Peer {
    fn new(server: &mut FakeServer, is_http: bool, first: u64) -> Self {
        let mut peer = Self { first, exchanges: 0, session: None, is_http };
        if !is_http {
            server.handle_open(Time::ZERO, ChannelId::from_u64(first));
        }
        let version = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
        peer.send(server, &request(0, "initialize", &version));
        peer.session = sent(server, Time::ZERO).into_iter().find_map(|(_, output)| match output {
            ServerOutput::Head { headers, .. } => {
                headers.into_iter().find_map(|(name, value)| (name == "mcp-session-id").then_some(value))
            }
            _ => None,
        });
        peer.send(server, &notification("notifications/initialized", &json!({})));
        sent(server, Time::ZERO);
        peer
    }

    /// Sends a message, and returns the channel on which it was.
    fn send(&mut self, server: &mut FakeServer, message: &Value) -> ChannelId {
        if !self.is_http {
            let channel = ChannelId::from_u64(self.first);
            server.handle_bytes(Time::ZERO, channel, format!("{message}\n").as_bytes());
            return channel;
        }
        let post = Request::post(URL).header("content-type", "application/json");
        let post = post.header("accept", "application/json, text/event-stream");
        self.exchange(server, post, message.to_string())
    }

    /// Opens a stream: the GET stream of the session, or the one that continues after an event.
    fn get(&mut self, server: &mut FakeServer, last_event: Option<&str>) -> ChannelId {
        let get = last_event.into_iter().fold(Request::get(URL), |get, last| get.header("last-event-id", last));
        self.exchange(server, get, String::new())
    }

    fn exchange(&mut self, server: &mut FakeServer, request: http::request::Builder, body: String) -> ChannelId {
        let channel = ChannelId::from_u64(self.first + self.exchanges);
        self.exchanges += 1;
        let session = self.session.iter();
        let request = session.fold(request, |request, session| request.header("mcp-session-id", session));
        server.handle_request(Time::ZERO, channel, &request.body(body.into_bytes()).unwrap());
        channel
    }
}

fn slow(server: FakeServer) -> FakeServer {
    server.tool(FakeTool::new("slow").takes(seconds(3)))
}

fn after(time: u64) -> Time {
    Time::ZERO + seconds(time)
}

#[test]
fn a_cancelled_call_is_not_answered_and_one_that_waits_for_the_client_does_not_run() {
    for is_http in [false, true] {
        let mut server = slow(FakeServer::legacy()).tool(FakeTool::new("asks").asks(Ask::elicitation("Sure?")));
        let mut peers = [1000, 2000].map(|first| Peer::new(&mut server, is_http, first));
        for peer in &mut peers {
            for message in [call(1, "slow"), call(2, "slow"), call(3, "asks"), call(4, "asks")] {
                peer.send(&mut server, &message);
            }
        }
        let asked = messages(&sent(&mut server, Time::ZERO));
        assert_eq!(asked.len(), 4);
        for id in [1, 3] {
            peers[0].send(&mut server, &notification("notifications/cancelled", &json!({"requestId": id})));
        }
        for (channel, question) in asked {
            let peer = &mut peers[usize::from(channel >= 2000)];
            let result = json!({"action": "decline"});
            peer.send(&mut server, &json!({"jsonrpc": "2.0", "id": question["id"], "result": result}));
        }
        let answers = messages(&sent(&mut server, after(10))).into_iter();
        let mut answers: Vec<_> = answers.map(|(channel, it)| (channel / 1000, it["id"].as_u64().unwrap())).collect();
        answers.sort_unstable();
        assert_eq!(answers, [(1, 2), (1, 4), (2, 1), (2, 2), (2, 3), (2, 4)], "over HTTP: {is_http}");
        assert_eq!((server.tool_runs("slow"), server.tool_runs("asks")), (4, 3));
        assert_eq!(server.violations(), [""; 0]);
    }
}

#[test]
fn a_connection_that_is_gone_gets_nothing_more() {
    for is_http in [false, true] {
        let mut server = slow(FakeServer::legacy());
        let mut peer = Peer::new(&mut server, is_http, 1);
        let channel = peer.send(&mut server, &call(1, "slow"));
        server.handle_closed(after(1), channel);
        assert_eq!(sent(&mut server, after(10)), []);
        assert_eq!(server.tool_runs("slow"), 1);
    }
}

#[test]
fn a_process_exits_at_its_step_of_a_shutdown_and_at_each_later_one() {
    let steps = [ShutdownStep::CloseInput, ShutdownStep::Terminate, ShutdownStep::Kill];
    for (own, exits_at) in steps.into_iter().enumerate() {
        for (number, step) in steps.into_iter().enumerate() {
            let mut server = FakeServer::legacy().exits_at(exits_at);
            Peer::new(&mut server, false, 1);
            server.handle_shutdown(Time::ZERO, ChannelId::from_u64(1), step);
            let exit: &[_] = if number >= own { &[(1, ServerOutput::End)] } else { &[] };
            assert_eq!(sent(&mut server, Time::ZERO), exit, "{exits_at:?} {step:?}");
        }
    }
}

#[test]
fn sessions_over_http_expire_with_their_streams_and_pipes_do_not() {
    let mut server = FakeServer::legacy();
    let (mut web, mut pipe) = (Peer::new(&mut server, true, 1000), Peer::new(&mut server, false, 1));
    let stream = web.get(&mut server, None);
    sent(&mut server, Time::ZERO);
    server.expire(Time::ZERO);
    assert_eq!(sent(&mut server, Time::ZERO), [(stream.as_u64(), ServerOutput::End)]);
    web.send(&mut server, &request(1, "ping", &json!({})));
    assert!(matches!(&sent(&mut server, Time::ZERO)[..], [(_, ServerOutput::Head { status: 404, .. }), ..]));
    pipe.send(&mut server, &request(1, "ping", &json!({})));
    assert_eq!(messages(&sent(&mut server, Time::ZERO))[0].1["result"], json!({}));
}

#[test]
fn a_stream_that_broke_before_its_response_ends_with_it_where_it_is_resumed() {
    let mut server = slow(FakeServer::legacy()).resumes(true);
    let mut peer = Peer::new(&mut server, true, 1);
    let channel = peer.send(&mut server, &call(7, "slow"));
    let begun = text(&sent(&mut server, Time::ZERO));
    let id = begun.lines().find_map(|line| line.strip_prefix("id: ")).unwrap();
    server.handle_closed(after(1), channel);
    assert_eq!(sent(&mut server, after(10)), []);
    let resumed = peer.get(&mut server, Some(id)).as_u64();
    let outputs = sent(&mut server, after(10));
    assert_eq!(messages(&outputs)[0].1["id"], 7);
    assert_eq!(outputs.last(), Some(&(resumed, ServerOutput::End)));
}

/// What the server sends for a call of the tool `a`, on a pipe or over HTTP.
fn answer(server: FakeServer, is_http: bool, call: &Value) -> Vec<ServerOutput> {
    let mut server = server.tool(FakeTool::new("a"));
    let mut peer = Peer::new(&mut server, is_http, 1);
    peer.send(&mut server, call);
    sent(&mut server, Time::ZERO).into_iter().map(|(_, output)| output).collect()
}

fn content_type(output: &ServerOutput) -> &str {
    let ServerOutput::Head { status: 200, headers } = output else { panic!("{output:?}") };
    headers.iter().find(|(name, _)| *name == "content-type").map(|(_, value)| value).unwrap()
}

#[test]
fn a_response_over_http_is_json_or_a_stream_as_the_server_is_set() {
    let (json, stream) = ("application/json", "text/event-stream");
    for (server, legacy, modern) in [
        (FakeServer::new as fn([_; 2]) -> FakeServer, json, json),
        (|versions| FakeServer::new(versions).streams(true), stream, stream),
        (|versions| FakeServer::new(versions).resumes(true), stream, json),
    ] {
        let versions = [mcp_proto::ProtocolVersion::NEWEST_LEGACY, mcp_proto::ProtocolVersion::NEWEST_MODERN];
        assert_eq!(content_type(&answer(server(versions), true, &call(1, "a"))[0]), legacy);
        assert_eq!(content_type(&answer(server(versions), true, &modern_call(1, "a"))[0]), modern);
    }
}

#[test]
fn a_torn_answer_is_half_of_it_and_the_end_of_the_connection() {
    let torn = || FakeServer::legacy().script(On::tool("a"), [Reply::Torn]);
    let whole = answer(FakeServer::legacy(), true, &call(1, "a"));
    let ServerOutput::Bytes(body) = &whole[1] else { panic!("{whole:?}") };
    let half = ServerOutput::Bytes(body[..body.len() / 2].to_vec());
    assert_eq!(answer(torn(), false, &call(1, "a")), [half.clone(), ServerOutput::Break]);
    assert_eq!(answer(torn(), true, &call(1, "a")), [whole[0].clone(), half.clone(), ServerOutput::Break]);
    // In the middle of a stream.
    let stream = answer(torn().resumes(true), true, &call(1, "a"));
    assert_eq!(content_type(&stream[0]), "text/event-stream");
    assert_eq!(stream[2..], [half, ServerOutput::Break]);
}

#[test]
fn noise_is_a_line_on_a_pipe_and_an_event_over_http() {
    let noisy = || FakeServer::legacy().script(On::tool("a"), [Reply::Noise("not JSON".into())]);
    let pipe = answer(noisy(), false, &call(1, "a"));
    assert_eq!((&pipe[0], pipe.len()), (&ServerOutput::Bytes(b"not JSON\n".to_vec()), 2));
    let web = answer(noisy(), true, &call(1, "a"));
    assert_eq!(content_type(&web[0]), "text/event-stream");
    assert_eq!(web[1], ServerOutput::Bytes(b"event: message\ndata: not JSON\n\n".to_vec()));
}

#[test]
fn headers_that_a_client_does_not_send_are_noted() {
    let versions = [mcp_proto::ProtocolVersion::NEWEST_LEGACY, mcp_proto::ProtocolVersion::NEWEST_MODERN];
    let right = [
        ("accept", "application/json, text/event-stream"),
        ("content-type", "application/json"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
    ];
    for (name, value) in [
        ("accept", "application/json"),
        ("accept", "text/event-stream"),
        ("content-type", "text/plain"),
        ("mcp-protocol-version", "2025-11-25"),
        ("mcp-method", "tools/list"),
    ] {
        let mut server = FakeServer::new(versions).tool(FakeTool::new("a"));
        for (channel, wrong) in [(1, None), (2, Some(value))] {
            let value = |known: &str, right| wrong.filter(|_| known == name).unwrap_or(right);
            let headers = right.iter().map(|(known, right)| (*known, value(known, *right)));
            let post = headers.fold(Request::post(URL), |post, (name, value)| post.header(name, value));
            let post = post.body(modern_call(1, "a").to_string().into_bytes()).unwrap();
            server.handle_request(Time::ZERO, ChannelId::from_u64(channel), &post);
        }
        assert_eq!(server.violations(), [format!("{name}: {value}")]);
    }
}

/// The error of the only answer, or its result.
fn only(answers: &[Value]) -> &Value {
    let [answer] = answers else { panic!("{answers:?}") };
    if answer["error"].is_null() { &answer["result"] } else { &answer["error"]["message"] }
}

#[test]
fn a_script_is_for_its_kind_of_request_and_name_only() {
    let requests = ["x", "y"].map(|name| {
        [
            request(1, "tools/call", &json!({"name": name})),
            request(1, "resources/read", &json!({"uri": name})),
            request(1, "prompts/get", &json!({"name": name})),
        ]
    });
    let requests = requests.as_flattened();
    for (at, on) in [On::tool("x"), On::resource("x"), On::prompt("x")].into_iter().enumerate() {
        let server = FakeServer::legacy().tool(FakeTool::new("x")).tool(FakeTool::new("y"));
        let server = server.resource("x").resource("y").prompt("x").prompt("y");
        let mut server = server.always(on, Reply::error(-1, "scripted"));
        for (number, request) in requests.iter().enumerate() {
            assert_eq!(only(&server.answer(request)) == "scripted", number == at, "{request}");
        }
    }
}

#[test]
fn scripts_are_used_up_in_the_order_in_which_they_were_added() {
    let replies = |texts: &[&str]| texts.iter().map(|text| Reply::error(-1, text)).collect::<Vec<_>>();
    let server = FakeServer::legacy().tool(FakeTool::new("a")).tool(FakeTool::new("b"));
    let server = server.script(On::tool("a"), replies(&["1", "2"])).script(On::tool("b"), replies(&["of b"]));
    let mut server = server.script(On::method("tools/call"), replies(&["3"]));
    let next = |server: &mut FakeServer, tool: &str| only(&server.answer(&call(1, tool))).clone();
    let all = ["a", "a", "b", "a", "a"].map(|tool| next(&mut server, tool));
    assert_eq!(all[..4], ["1", "2", "of b", "3"]);
    assert_eq!(all[4]["content"][0]["text"], "a");
    server.add_script(On::tool("a"), replies(&["4"]));
    assert_eq!(next(&mut server, "a"), "4");
}

#[test]
fn a_status_is_an_error_on_a_pipe() {
    let mut server = FakeServer::legacy().script(On::method("ping"), [Reply::status(503, "overloaded")]);
    let answer = server.answer(&request(1, "ping", &json!({}))).remove(0);
    assert_eq!(answer["error"], json!({"code": -32000, "message": "overloaded"}));
}

#[test]
fn a_server_has_the_methods_of_what_it_was_given() {
    let list = |method: &str| request(1, method, &json!({}));
    let mut server = FakeServer::legacy();
    assert_eq!(only(&server.answer(&call(1, "a"))), "Method not found");
    assert_eq!(only(&server.answer(&list("resources/list"))), "Method not found");
    // Resources and templates are one family.
    let mut server = FakeServer::legacy().resource("r:1");
    assert_eq!(only(&server.answer(&list("resources/templates/list"))), &json!({"resourceTemplates": []}));
    let mut server = FakeServer::legacy().template("r:{x}");
    assert_eq!(only(&server.answer(&list("resources/list"))), &json!({"resources": []}));
    assert_eq!(only(&server.answer(&list("prompts/list"))), "Method not found");
}

#[test]
fn a_tool_asks_with_a_ping_in_the_legacy_era_only() {
    let tool = || FakeTool::new("asks").asks(Ask::ping()).asks(Ask::elicitation("Sure?"));
    let mut server = FakeServer::legacy().tool(tool()).prompt("asks");
    let methods = |answers: &[Value]| answers.iter().map(|it| it["method"].clone()).collect::<Vec<_>>();
    let ping = server.answer(&call(1, "asks"));
    assert_eq!(methods(&ping), ["ping"]);
    let next = server.answer(&json!({"jsonrpc": "2.0", "id": ping[0]["id"], "result": {}}));
    assert_eq!(methods(&next), ["elicitation/create"]);
    assert_eq!(server.tool_runs("asks"), 0);
    // A prompt of this name is not the tool.
    let prompt = server.answer(&request(2, "prompts/get", &json!({"name": "asks"})));
    assert_eq!(only(&prompt)["messages"][0]["content"]["text"], "asks");
    assert_eq!((server.prompt_gets("asks"), server.prompt_gets("none")), (1, 0));
    let mut server = FakeServer::modern().tool(tool());
    let answers = server.answer(&modern_call(1, "asks"));
    let inputs = only(&answers)["inputRequests"].as_object().unwrap();
    assert_eq!(inputs.values().map(|it| &it["method"]).collect::<Vec<_>>(), ["elicitation/create"]);
}

#[test]
fn what_is_kept_of_a_client_is_limited() {
    let mut server = FakeServer::legacy();
    for id in 0..65_537 {
        server.answer(&json!({"jsonrpc": "2.0", "id": id, "result": {}}));
    }
    assert_eq!((server.answers().len(), &server.answers()[65_535]["id"]), (65_536, &json!(65_535)));
    assert_eq!(server.violations().len(), 256);
}
