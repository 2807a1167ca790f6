//! What the demo server answers, line by line: it shares no code with the library, and each is the other's test.
#![allow(
    missing_docs,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests"
)]

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

struct Demo {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Demo {
    fn start(args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcp-probe"));
        command.arg("demo-server").args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()).lines());
        Self { child, input, output }
    }

    /// One with a session of this version.
    fn legacy(version: &str) -> Self {
        let mut demo = Self::start(&[]);
        let answer = demo.initialize(version);
        assert_eq!(answer["result"]["protocolVersion"], version, "{answer}");
        demo
    }

    fn initialize(&mut self, version: &str) -> Value {
        self.ask(
            "initialize",
            json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}),
        )
    }

    fn write(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    fn read(&mut self) -> Value {
        serde_json::from_str(&self.output.next().unwrap().unwrap()).unwrap()
    }

    fn exchange(&mut self, message: &Value) -> Value {
        self.write(&message.to_string());
        self.read()
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.exchange(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
    }

    /// A request of the modern era.
    fn modern(&mut self, method: &str, mut params: Value) -> Value {
        params["_meta"] = meta();
        self.ask(method, params)
    }

    fn call(&mut self, name: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({"name": name, "arguments": arguments}))["result"].take()
    }

    /// What it writes until it ends by itself.
    fn rest(&mut self) -> Vec<Value> {
        self.output.by_ref().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        drop(self.input.take());
        // It ends with its input.
        let status = self.child.wait().unwrap();
        assert!(std::thread::panicking() || status.success());
    }
}

fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

fn code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn what_is_no_request_is_refused_or_ignored() {
    let mut demo = Demo::legacy("2025-11-25");
    demo.write("");
    demo.write("no JSON");
    let answer = demo.read();
    assert_eq!((code(&answer), answer.get("id")), (-32700, None));
    // Responses and notifications have no answer.
    demo.write(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#);
    demo.write(r#"{"jsonrpc":"2.0","id":7,"error":{}}"#);
    demo.write(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    for (message, id) in [
        (json!({"jsonrpc": "2.0", "id": 2}), Some(2)),
        (json!({"jsonrpc": "1.0", "id": 3, "method": "ping"}), Some(3)),
        (json!({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}), None),
        (json!({"jsonrpc": "2.0", "id": null, "method": "ping"}), None),
        (json!([{"jsonrpc": "2.0", "id": 4, "method": "ping"}]), None),
    ] {
        let answer = demo.exchange(&message);
        assert_eq!((code(&answer), answer.get("id").and_then(Value::as_i64)), (-32600, id), "{message}");
    }
    assert_eq!(code(&demo.ask("no/method", json!({}))), -32601);
    assert_eq!(code(&demo.ask("ping", json!([]))), -32602);
    for id in [json!("text"), json!(-1), json!(u64::MAX)] {
        let answer = demo.exchange(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
        assert_eq!(answer, json!({"jsonrpc": "2.0", "id": id, "result": {}}));
    }
}

#[test]
fn a_batch_is_taken_in_the_one_version_that_has_it() {
    let mut demo = Demo::legacy("2025-03-26");
    let ping = |id: u32| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
    let answers = demo.exchange(&json!([ping(1), {"jsonrpc": "2.0", "method": "notifications/initialized"}, ping(2)]));
    assert_eq!(answers, json!([{"jsonrpc": "2.0", "id": 1, "result": {}}, {"jsonrpc": "2.0", "id": 2, "result": {}}]));
    // Nothing is to be answered.
    demo.write(r#"[{"jsonrpc":"2.0","method":"notifications/initialized"}]"#);
    assert_eq!(code(&demo.exchange(&json!([]))), -32600);
}

#[test]
fn initialize_agrees_on_a_version_and_needs_all_its_members() {
    for (asked, agreed) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("1999", "2025-11-25"),
    ] {
        let answer = Demo::start(&[]).initialize(asked);
        assert_eq!(answer["result"]["protocolVersion"], agreed, "{answer}");
        assert_eq!(answer["result"]["serverInfo"]["name"], "demo-garden");
        assert_eq!(answer["result"]["capabilities"]["resources"]["subscribe"], true);
        assert!(answer["result"]["instructions"].as_str().unwrap().contains("garden"));
    }
    let mut demo = Demo::start(&[]);
    for wrong in [
        json!({"capabilities": {}, "clientInfo": {}}),
        json!({"protocolVersion": "2025-11-25", "clientInfo": {}}),
        json!({"protocolVersion": "2025-11-25", "capabilities": {}}),
    ] {
        assert_eq!(code(&demo.ask("initialize", wrong)), -32602);
    }
    // There is no session, and a ping needs none.
    assert_eq!(code(&demo.ask("tools/list", json!({}))), -32602);
    assert_eq!(demo.ask("ping", json!({}))["result"], json!({}));
}

#[test]
fn a_request_of_the_modern_era_has_its_metadata() {
    let mut demo = Demo::start(&[]);
    let found = demo.modern("server/discover", json!({}))["result"].take();
    assert_eq!(found["supportedVersions"], json!(["2026-07-28"]));
    assert_eq!((&found["resultType"], &found["ttlMs"]), (&json!("complete"), &json!(60_000)));
    assert_eq!(found["cacheScope"], "public");
    assert_eq!(found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "demo-garden");
    let called = demo.modern("tools/call", json!({"name": "echo", "arguments": {"text": "hi"}}))["result"].take();
    assert_eq!((&called["resultType"], called.get("ttlMs")), (&json!("complete"), None));
    for (key, value) in [
        ("io.modelcontextprotocol/protocolVersion", json!(1)),
        ("io.modelcontextprotocol/protocolVersion", json!(null)),
        ("io.modelcontextprotocol/clientCapabilities", json!([])),
        ("io.modelcontextprotocol/clientCapabilities", json!(null)),
    ] {
        let mut wrong = meta();
        wrong[key] = value;
        assert_eq!(code(&demo.ask("tools/list", json!({"_meta": wrong}))), -32602);
        wrong.as_object_mut().unwrap().remove(key);
        assert_eq!(code(&demo.ask("tools/list", json!({"_meta": wrong}))), -32602);
    }
    let mut other = meta();
    other["io.modelcontextprotocol/protocolVersion"] = "2025-11-25".into();
    let answer = demo.ask("tools/list", json!({"_meta": other}));
    assert_eq!(code(&answer), -32022);
    assert_eq!(answer["error"]["data"], json!({"supported": ["2026-07-28"], "requested": "2025-11-25"}));
    // Methods of the other era.
    assert_eq!(code(&demo.modern("ping", json!({}))), -32601);
    assert_eq!(code(&Demo::legacy("2025-11-25").ask("server/discover", json!({}))), -32601);
}

#[test]
fn lists_have_pages_with_cursors() {
    let mut demo = Demo::legacy("2025-11-25");
    for (method, member, sizes) in [
        ("tools/list", "tools", vec![3, 3, 1]),
        ("prompts/list", "prompts", vec![3]),
        ("resources/list", "resources", vec![3, 3, 1]),
        ("resources/templates/list", "resourceTemplates", vec![2]),
    ] {
        let (mut found, mut params) = (Vec::new(), json!({}));
        loop {
            let page = demo.ask(method, params)["result"].take();
            found.push(page[member].as_array().unwrap().len());
            let Some(next) = page.get("nextCursor") else { break };
            params = json!({"cursor": next});
        }
        assert_eq!(found, sizes, "{method}");
        for wrong in [json!("tools@1"), json!("other@3"), json!(3), json!("")] {
            assert_eq!(code(&demo.ask(method, json!({"cursor": wrong}))), -32602);
        }
    }
    // The list may have shrunk since.
    let end = demo.ask("prompts/list", json!({"cursor": "prompts@3"}));
    assert_eq!(end["result"], json!({"prompts": []}));
}

#[test]
fn tools_answer_as_they_are_described() {
    let mut demo = Demo::legacy("2025-11-25");
    let said = |result: &Value| result["content"][0]["text"].as_str().unwrap().to_owned();
    let failed = |result: &Value| result["isError"] == true;
    assert_eq!(demo.call("echo", json!({"text": "hi"})), json!({"content": [{"type": "text", "text": "hi"}]}));
    let sum = demo.call("add", json!({"a": 2, "b": 3}));
    assert_eq!((said(&sum), &sum["structuredContent"]), (r#"{"sum":5}"#.into(), &json!({"sum": 5})));
    assert_eq!(demo.call("add", json!({"a": 0.5, "b": 3}))["structuredContent"], json!({"sum": 3.5}));
    assert!(said(&demo.call("add", json!({"a": 1e308, "b": 1e308}))).contains("too large"));
    assert!(said(&demo.call("server_time", json!({}))).contains("seconds since 1970"));
    for (name, arguments, words) in [
        ("fail", json!({}), "frost"),
        ("echo", json!({}), "`text` is missing"),
        ("echo", json!({"text": 1}), "`text` is of the wrong type"),
        ("echo", json!({"text": "a", "more": 1}), "no argument `more`"),
        ("fail", json!({"more": 1}), "no argument `more`"),
        ("sleep", json!({"ms": -1}), "`ms` is of the wrong type"),
    ] {
        let result = demo.call(name, arguments);
        assert!(failed(&result) && said(&result).contains(words), "{name} {result}");
    }
    assert_eq!(code(&demo.ask("tools/call", json!({"name": "none"}))), -32602);
    assert_eq!(code(&demo.ask("tools/call", json!({"name": "echo", "arguments": []}))), -32602);
    // It is not there yet.
    assert_eq!(code(&demo.ask("tools/call", json!({"name": "surprise"}))), -32602);
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {}});
    let toggle = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "toggle_tool"}});
    assert_eq!(demo.exchange(&toggle), changed);
    assert_eq!(said(&demo.read()["result"]), "A surprise is out.");
    assert_eq!(said(&demo.call("surprise", json!({}))), "A hedgehog, under the lavender.");
    assert_eq!(demo.exchange(&toggle), changed);
    assert_eq!(said(&demo.read()["result"]), "It hid again.");
}

#[test]
fn a_call_that_sleeps_reports_its_progress_and_others_are_answered_meanwhile() {
    let mut demo = Demo::legacy("2025-11-25");
    let sleep = |id: u32, ms: u32, meta: Value| {
        let params = json!({"name": "sleep", "arguments": {"ms": ms}, "_meta": meta});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
    };
    demo.write(&sleep(2, 60_000, json!({"progressToken": "never"})));
    assert_eq!(demo.ask("ping", json!({}))["result"], json!({}));
    demo.write(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}).to_string());
    demo.write(&sleep(3, 40, json!({"progressToken": "t"})));
    for step in 1..=4 {
        let params = json!({"progressToken": "t", "progress": step, "total": 4});
        assert_eq!(demo.read(), json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
    }
    assert_eq!(demo.read()["result"]["content"][0]["text"], "Slept for 40 ms.");
    // Without a token that can be one there is no report.
    demo.write(&sleep(4, 4, json!({"progressToken": 1.5})));
    assert_eq!(demo.read()["id"], 4);
}

#[test]
fn prompts_are_filled_in() {
    let mut demo = Demo::legacy("2025-11-25");
    let mut get = |name: &str, arguments: Value| demo.ask("prompts/get", json!({"name": name, "arguments": arguments}));
    for (name, arguments, words) in [
        ("haiku", json!({"subject": "rain"}), "Write a haiku about rain."),
        ("plant_doctor", json!({"plant": "rose", "symptom": "spots"}), "My rose looks poorly: spots. What could it be"),
        ("week_plan", json!({}), "Plan a week of garden work for this season:"),
        ("week_plan", json!({"season": "May"}), "Plan a week of garden work for May:"),
    ] {
        let result = get(name, arguments)["result"].take();
        let message = &result["messages"][0];
        assert!(
            message["content"]["text"].as_str().unwrap().starts_with(words) && message["role"] == "user",
            "{result}"
        );
        assert!(result["description"].is_string());
    }
    for (name, arguments) in [
        ("none", json!({})),
        ("haiku", json!({})),
        ("haiku", json!({"subject": 1})),
        ("plant_doctor", json!({"plant": "rose"})),
        ("haiku", json!([])),
    ] {
        assert_eq!(code(&get(name, arguments)), -32602, "{name}");
    }
}

#[test]
fn resources_are_read_and_one_that_is_missing_has_the_code_of_its_era() {
    let mut demo = Demo::legacy("2025-11-25");
    let listed = demo.ask("resources/list", json!({}))["result"]["resources"].take();
    for resource in listed.as_array().unwrap() {
        let read = demo.ask("resources/read", json!({"uri": resource["uri"]}))["result"]["contents"][0].take();
        assert_eq!((&read["uri"], &read["mimeType"]), (&resource["uri"], &resource["mimeType"]));
        assert_eq!(read["text"].as_str().unwrap().len(), usize::try_from(resource["size"].as_u64().unwrap()).unwrap());
    }
    let may = demo.ask("resources/read", json!({"uri": "garden://months/may"}))["result"].take();
    assert_eq!(may["contents"][0]["text"], "Set the pumpkins out after the ice saints.");
    let missing = json!({"uri": "garden://months/none"});
    let answer = demo.ask("resources/read", missing.clone());
    assert_eq!((code(&answer), &answer["error"]["data"]), (-32002, &missing));
    assert_eq!(code(&demo.ask("resources/subscribe", missing.clone())), -32002);
    assert_eq!(code(&demo.ask("resources/read", json!({}))), -32602);
    assert_eq!(code(&Demo::start(&[]).modern("resources/read", missing)), -32602);
}

#[test]
fn a_stream_of_the_modern_era_has_what_it_asked_for() {
    let mut demo = Demo::start(&[]);
    let asked = json!({
        "toolsListChanged": true, "promptsListChanged": false,
        "resourceSubscriptions": ["garden://rain", "garden://none"],
    });
    let listen = json!({"jsonrpc": "2.0", "id": "stream", "method": "subscriptions/listen",
        "params": {"_meta": meta(), "notifications": asked}});
    let acknowledged = demo.exchange(&listen);
    assert_eq!(
        acknowledged["params"]["notifications"],
        json!({"toolsListChanged": true, "resourceSubscriptions": ["garden://rain"]})
    );
    let of = |message: &Value| message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone();
    assert_eq!(
        (&acknowledged["method"], of(&acknowledged)),
        (&json!("notifications/subscriptions/acknowledged"), json!("stream"))
    );
    let toggle = json!({"name": "toggle_tool"});
    let changed = demo.modern("tools/call", toggle.clone());
    assert_eq!((&changed["method"], of(&changed)), (&json!("notifications/tools/list_changed"), json!("stream")));
    assert_eq!(demo.read()["id"], 1);
    demo.write(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"stream"}}"#);
    assert_eq!(demo.modern("tools/call", toggle)["id"], 1, "the stream has ended");
    // One that asked for nothing of tools is told nothing.
    let nothing = demo.modern("subscriptions/listen", json!({"notifications": {}}));
    assert_eq!(nothing["params"]["notifications"], json!({}));
    assert_eq!(demo.modern("tools/call", json!({"name": "toggle_tool"}))["id"], 1);
}

#[test]
fn a_watched_server_changes_and_ends_when_no_call_is_open() {
    let mut demo = Demo::start(&["1"]);
    demo.initialize("2025-11-25");
    for (uri, method) in [
        ("garden://rain", "resources/subscribe"),
        ("garden://shed", "resources/subscribe"),
        ("garden://shed", "resources/unsubscribe"),
    ] {
        assert_eq!(demo.ask(method, json!({"uri": uri}))["result"], json!({}));
    }
    // It lasts longer than the server would.
    demo.write(r#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"sleep","arguments":{"ms":8000}}}"#);
    let mut told = Vec::new();
    while told.last().is_none_or(|last| last != "9") {
        let message = demo.read();
        told.push(message["method"].as_str().map_or_else(|| message["id"].to_string(), str::to_owned));
    }
    let tools = "notifications/tools/list_changed";
    assert_eq!(told, [tools, "notifications/resources/updated", tools, tools, "9"]);
    let status = demo.child.wait().unwrap();
    assert!(status.success());
    assert_eq!(demo.rest(), Vec::<Value>::new());
}
