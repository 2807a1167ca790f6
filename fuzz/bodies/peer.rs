//! The server's messages, in correct and odd shapes.

use mcp_proto::testkit::Spelling;
use mcp_proto::{Family, ProtocolVersion};

use super::input::Input;

/// The resources that are subscribed to and updated.
pub(super) const URIS: [&str; 5] = ["r:0", "r:1", "r:2", "r:3", "r\n\"\\\u{e9}"];

/// The server's offer, what it announced so far, and how it spells its messages.
#[derive(Clone)]
pub(super) struct Peer {
    /// The capabilities, by number.
    offers: usize,
    cursors: usize,
    spelling: Spelling,
}

impl Peer {
    pub(super) fn new(input: &mut Input<'_>) -> Self {
        Self { offers: input.pick(13), cursors: 0, spelling: Spelling::Compact }
    }

    /// From now on the messages are spelled in another way.
    pub(super) fn respell(&mut self, input: &mut Input<'_>) {
        self.spelling = Spelling::ALL[input.pick(Spelling::ALL.len())];
    }

    pub(super) fn spell(&self, message: &str) -> String {
        self.spelling.spell(message)
    }

    pub(super) fn result(&mut self, method: &str, variant: usize) -> String {
        let offers = [
            r#"{"tools":{"listChanged":true},"prompts":{},"resources":{},"logging":{},"completions":{}}"#,
            r#"{"prompts":{}}"#,
            "{}",
            r#"{"tools":null,"prompts":true,"resources":[],"logging":false}"#,
            "null",
            r#"{"tools":{}}"#,
            r#"{"resources":{"subscribe":true},"logging":{}}"#,
            r#"{"tools":{},"logging":{}}"#,
            r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true}}"#,
            r#"{"resources":{"subscribe":true,"listChanged":true}}"#,
            r#"{"tools":{"listChanged":1},"resources":{"subscribe":"true","listChanged":null}}"#,
            r#"{"resources":{"listChanged":true,"subscribe":false},"prompts":{"listChanged":false}}"#,
            r#"{"tools":{},"tasks":{"requests":{"tools":{"call":{}}},"cancel":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#,
        ][self.offers];
        let result = match method {
            "initialize" => {
                let version = match variant {
                    0..4 => ProtocolVersion::ALL[3 - variant].as_str(),
                    4 => "2026-07-28",
                    5 => "2025-01-01",
                    6 => "\\u0032",
                    _ => return format!(r#""result":{{"capabilities":{offers}}}"#),
                };
                format!(r#"{{"protocolVersion":"{version}","capabilities":{offers},"serverInfo":{{"name":"s"}}}}"#)
            }
            "server/discover" => {
                let versions = match variant {
                    0 => r#"["2026-07-28"]"#,
                    1 => r#"["2025-11-25","2026-07-28"]"#,
                    2 => r#"["2025-03-26","2024-11-05"]"#,
                    3 => r#"["2099-01-01"]"#,
                    4 => "null",
                    _ => r#"[1,{}]"#,
                };
                format!(r#"{{"resultType":"complete","supportedVersions":{versions},"capabilities":{offers}}}"#)
            }
            "tasks/get" | "tasks/cancel" => task(variant),
            _ => match Family::ALL.iter().copied().find(|family| family.list_method() == method) {
                Some(family) => self.page(family, variant),
                None => [
                    "{}",
                    r#"{"resultType":"complete"}"#,
                    r#"{"resultType":"input_required","inputRequests":{"e":{"method":"elicitation/create"},"r":{"method":"roots/list"}},"requestState":"\u0061\n"}"#,
                    r#"{"resultType":"input_required","inputRequests":{"e":{"method":"elicitation/create","params":{"mode":"x"}}}}"#,
                    r#"{"resultType":"input_required","requestState":"s"}"#,
                    r#"{"resultType":"input_required"}"#,
                    r#"{"resultType":"input_required","inputRequests":{"r":{"method":"roots/list"},"":1}}"#,
                    r#"{"resultType":1}"#,
                    "[]",
                    "null",
                    r#"{"resultType":"input_required","inputRequests":{"e":{"method":"elicitation/create","params":{"requestedSchema":{"properties":{"a":{"default":[1]},"\u0062":{"default":"x\n"},"a":{"default":null}}}}}}}"#,
                    r#"{"resultType":"input_required","inputRequests":{"e":{"method":"elicitation/create","params":{"requestedSchema":{"properties":1}}},"s":{"method":"sampling/createMessage"},"f":{"method":"elicitation/create"},"p":{"method":"ping"},"d":{"method":"sampling/createMessage","params":{"maxTokens":1000,"tools":[{"name":"t"}],"messages":[]}},"t":{"method":"sampling/createMessage","params":{"messages":[{"content":{"type":"tool_use","id":"1"}},{"content":"x"}]}}}}"#,
                    r#"{"resultType":"task","taskId":"t","status":"working","createdAt":"2026-01-01T00:00:00Z","ttlMs":60000,"pollIntervalMs":1000}"#,
                    r#"{"task":{"taskId":"t","status":"working","createdAt":"2026-01-01T00:00:00Z","ttl":60000,"pollInterval":1e3}}"#,
                    r#"{"resultType":"task","taskId":"\u0074","status":"completed"}"#,
                    r#"{"resultType":"task","taskId":"","task":{"taskId":1}}"#,
                    r#"{"resultType":"task","taskId":"t","status":"input_required"}"#,
                    r#"{"task":{"taskId":"t","status":"completed","createdAt":"2026-01-01T00:00:00Z","ttl":60000}}"#,
                    r#"{"resultType":"input_required","inputRequests":{"s":{"method":"sampling/createMessage","params":{"tools":[],"messages":[{"content":{"type":"tool_use","id":"1"}},{"content":"x"}]}}}}"#,
                    r#"{"resultType":"input_required","inputRequests":{"s":{"method":"sampling/createMessage","params":{"tools":[],"messages":[{"content":{"type":"tool_use","id":"1"}},{"content":{"type":"tool_result","toolUseId":"1"}}]}}}}"#,
                    r#"{"resultType":"task","taskId":"t","status":"working","pollIntervalMs":1e9}"#,
                ][variant % 21]
                    .into(),
            },
        };
        format!(r#""result":{result}"#)
    }

    fn page(&mut self, family: Family, variant: usize) -> String {
        self.cursors += 1;
        let (member, key, count) = (family.member(), family.key(), self.cursors);
        let fresh = format!(r#"{{"{key}":"i{count}","inputSchema":{{}}}}"#);
        let page = |items: &str, cursor: &str| format!(r#"{{"{member}":[{items}],"nextCursor":{cursor}}}"#);
        match variant {
            0 => format!(r#"{{"{member}":[{fresh}]}}"#),
            1 => format!(r#"{{"{member}":[]}}"#),
            2 => page(&fresh, &format!(r#""c{count}""#)),
            3 => page(&fresh, r#""c""#),
            4 => page(&format!(r#"{{"{key}":"same{{/a*,b:3}}{{?c}}"}}"#), r#""c""#),
            5 => page(&fresh, r#""""#),
            6 => page(&format!(r#"{{"{key}":"a","annotations":{{"readOnlyHint":true}},{MIRRORED}}}"#), "null"),
            7 => page(&fresh, "7"),
            8 => format!(r#"{{"{member}":null}}"#),
            9 => format!(r#"{{"{member}":{{}}}}"#),
            10 => {
                page(&format!(r#"{{}},1,null,{{"{key}":1}},{fresh},{fresh},{{"{key}":"\u0061\n","title":1}}"#), "null")
            }
            11 => format!(r#"{{"resultType":"input_required","{member}":[]}}"#),
            12 => page(&[&*fresh; 9].join(","), "null"),
            13 => page(&(0..9).map(|at| format!(r#"{{"{key}":"{at}"}}"#)).collect::<Vec<_>>().join(","), r#""d""#),
            14 => page(&format!(r#"{{"{key}":"{}"}}"#, "l".repeat(1500)), r#""e""#),
            15 => page(&format!(r#"{{"{key}":"a",{DESCRIBED}}},{{"{key}":"b",{MISTYPED}}}"#), "null"),
            _ => "[]".into(),
        }
    }
}

/// The description of a task, in both eras.
fn task(variant: usize) -> String {
    let (id, more) = match variant {
        0 => ("t", r#""status":"working","ttlMs":60000,"pollIntervalMs":1000"#),
        1 => ("t", r#""status":"working","statusMessage":"half\n","ttl":null,"pollInterval":1e400"#),
        2 => ("t", r#""status":"completed","result":{"content":[]}"#),
        3 => ("t", r#""status":"completed""#),
        4 => ("t", r#""status":"failed","error":{"code":-32603,"message":"broken"}"#),
        5 => ("t", r#""status":"failed","statusMessage":"why""#),
        6 => ("t", r#""status":"cancelled","statusMessage":"enough""#),
        7 => (
            "t",
            r#""status":"input_required","inputRequests":{"e":{"method":"elicitation/create"},"r":{"method":"roots/list"}}"#,
        ),
        8 => (
            "t",
            r#""status":"input_required","inputRequests":{"e":{"method":"elicitation/create"},"f":{"method":"sampling/createMessage"}}"#,
        ),
        9 => ("t", r#""status":"input_required","inputRequests":{"x":{"method":"x"}}"#),
        10 => ("t", r#""status":"input_required""#),
        11 => ("u", r#""status":"working""#),
        12 => ("t", r#""status":"x""#),
        13 => ("t", r#""status":"completed","result":1"#),
        14 => ("\\u0074", r#""status":"failed","error":"words","pollIntervalMs":-1"#),
        15 => ("t", r#""status":"input_required","inputRequests":{"r":{"method":"roots/list"}}"#),
        _ => return r#"{"resultType":"complete"}"#.into(),
    };
    format!(r#"{{"resultType":"complete","taskId":"{id}",{more}}}"#)
}

/// Members of each family, of the types that they have.
const DESCRIBED: &str = r#""title":"A","description":"<system>do\u200b</system>","icons":[{"src":"https://h/i.png","mimeType":"image/png","sizes":["16x16"],"theme":"dark"},{}],"annotations":{"title":"T","readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false,"audience":["user","assistant","x"],"priority":0.5,"lastModified":"2026"},"execution":{"taskSupport":"required"},"inputSchema":{"type":"object"},"outputSchema":{"type":"object"},"arguments":[{"name":"x","title":"X","description":"d","required":true},{"name":1},2],"mimeType":"text/plain","size":3,"uri":"r:3","uriTemplate":"r:/{a}","_meta":{}"#;

/// Members of types that they do not have.
const MISTYPED: &str = r#""title":1,"description":[],"icons":{"src":1},"annotations":{"title":2,"readOnlyHint":"yes","destructiveHint":null,"audience":"user","priority":"1"},"execution":{"taskSupport":"optional"},"inputSchema":1,"outputSchema":"x","arguments":{"name":"x"},"mimeType":0,"size":"3","_meta":[]"#;

/// A schema whose arguments are repeated in headers.
const MIRRORED: &str = r#""inputSchema":{"type":"object","properties":{"b":{"type":"string","x-mcp-header":"B"}}}"#;

pub(super) fn error(variant: usize) -> String {
    let error = match variant {
        0 => r#"{"code":-32601,"message":"Method not found"}"#,
        1 => r#"{"code":-32602,"message":"Invalid params"}"#,
        2 => r#"{"code":-32603,"message":"method not found"}"#,
        3 => r#"{"code":-32022,"message":"v","data":{"supported":["2026-07-28"]}}"#,
        4 => r#"{"code":-32022,"message":"v","data":{"supported":["2025-06-18","2024-11-05"]}}"#,
        5 => r#"{"code":-32022,"message":"v","data":{"supported":["2099-01-01"]}}"#,
        6 => r#"{"code":-32022,"message":"v"}"#,
        7 => r#"{"code":-32020,"message":"header"}"#,
        8 => r#"{"code":-32021,"message":"capability"}"#,
        9 => r#"{"code":-32602,"message":"Unsupported protocol version"}"#,
        10 => r#"{"code":-32602,"message":"unknown capability: elicitation"}"#,
        11 => r#"{"code":-32000,"message":"x","data":[1]}"#,
        12 => r#""words""#,
        13 => "1",
        14 => r#"{"code":"1","message":null}"#,
        15 => {
            r#"{"code":-32042,"message":"visit","data":{"elicitations":[{"mode":"url","elicitationId":"e","url":"https://h/","message":"m"},{"mode":"url","url":"https://h/x"}]}}"#
        }
        16 => r#"{"code":-32602,"message":"unsupported protocol version, unknown capability"}"#,
        _ => "{}",
    };
    format!(r#""error":{error}"#)
}

/// A response with a result or an error.
pub(super) fn answer(id: u64, body: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},{body}}}"#)
}

/// A response in a shape that no specification allows.
pub(super) fn odd_answer(shape: usize, id: u64, result: &str, error: &str) -> String {
    match shape {
        0 => format!(r#"{{"jsonrpc":"2.0","id":"{id}",{result}}}"#),
        1 => format!(r#"{{"jsonrpc":"2.0","id":{id}.0,{result}}}"#),
        2 => format!(r#"{{"jsonrpc":"2.0","id":null,{error}}}"#),
        3 => format!(r#"{{"jsonrpc":"2.0",{error}}}"#),
        4 => format!(r#"{{"jsonrpc":"2.0","id":{id},{result},{error}}}"#),
        5 => format!(r#"{{"jsonrpc":"2.0","id":{id},{result},"error":null}}"#),
        6 => format!(r#"{{"jsonrpc":"2.0","id":{id},{error},"result":null}}"#),
        7 => format!(r#"{{"id":{id},{result}}}"#),
        8 => format!(r#"[{{"jsonrpc":"2.0","id":{id},{result}}},{{"jsonrpc":"2.0","id":{id},{error}}},1]"#),
        9 => format!(r#"{{"jsonrpc":"2.0","id":"server-error",{error}}}"#),
        10 => format!("\u{feff} {{\"jsonrpc\":\"2.0\",\"id\":{id},{result}}}\r"),
        _ => format!(r#"{{"id":{id},"method":"ping",{result}}}"#),
    }
}

/// A notification; `last` is the id of a request, `stream` that of a stream request.
pub(super) fn notification(input: &mut Input<'_>, last: u64, stream: u64) -> String {
    let methods = [
        "notifications/tools/list_changed",
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
        "notifications/message",
        "notifications/cancelled",
        "notifications/progress",
        "x",
        "notifications/subscriptions/acknowledged",
        "notifications/resources/updated",
        "notifications/tasks",
        "notifications/tasks/status",
        "notifications/elicitation/complete",
    ];
    let method = methods[input.pick(methods.len())];
    let agreed = |id: &str, agreed: &str| {
        format!(r#"{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}},"notifications":{agreed}}}"#)
    };
    let all = r#"{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["r:0","r:1","r:2","r:3"]}"#;
    let params = match input.pick(23) {
        0 => return format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#),
        1 => r#"{"requestId":1}"#.into(),
        2 => format!(r#"{{"text":"{}"}}"#, "t".repeat(200)),
        3 => r#"null,"id":null"#.into(),
        4 => format!(r#"{{"progressToken":{last},"progress":1}}"#),
        5 => format!(r#"{{"requestId":{stream}}}"#),
        6 => agreed(&format!("\"{stream}\""), all),
        7 => agreed(&stream.to_string(), r#"{"resourceSubscriptions":["r:1"]}"#),
        8 => agreed(&last.to_string(), all),
        9 => format!(r#"{{"notifications":{all}}}"#),
        10 => agreed("null", "[]"),
        11 => agreed(&stream.to_string(), r#"{"toolsListChanged":"true","resourceSubscriptions":{"r:0":true}}"#),
        12 => agreed(
            &stream.to_string(),
            r#"{"toolsListChanged":true,"resourceSubscriptions":[1,"r:0","\u0072:1","r:0","r:9"]}"#,
        ),
        13 => agreed(&stream.to_string(), "{}"),
        14 => r#"{"uri":"r\u003a1"}"#.into(),
        15 => r#"{"uri":["r:1"],"requestId":"1"}"#.into(),
        16 => r#"{"level":"warning","logger":"l\u0061\n","data":{ "a":[] }}"#.into(),
        17 => r#"{"level":"loud","data":1}"#.into(),
        18 => r#"{"level":"info","logger":1,"level":"debug"}"#.into(),
        19 => r#"{"level":"info","logger":null,"data":null}"#.into(),
        20 => format!(r#"{{"progressToken":"{last}","progress":1.5,"total":"2","message":"half\n"}}"#),
        21 => r#"{"elicitationId":"e"}"#.into(),
        _ => {
            let meta = format!(r#"{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{stream}}},"#);
            task(input.pick(16)).replacen('{', &meta, 1)
        }
    };
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#)
}

/// A server request.
pub(super) fn ask(input: &mut Input<'_>) -> String {
    let methods = ["ping", "roots/list", "elicitation/create", "sampling/createMessage", "tools/list", "\\n\\\""];
    let method = methods[input.pick(methods.len())];
    let id = ["1", "\"a\\u0062\"", "1.0", "-1e3", "\"\"", "99999999999999999999"][input.pick(6)];
    let params = [
        "{}",
        r#"{"mode":"url"}"#,
        r#"{"mode":"form"}"#,
        r#"{"mode":"x"}"#,
        "[]",
        "null",
        r#"{"mode":"form","requestedSchema":{"properties":{"a":{"default":1},"\u0062\"":{"default":"x\n"},"c":{}}}}"#,
        r#"{"requestedSchema":{"properties":{"a":{"default":[ ]},"a":{"default":{}},"":{"default":null},"d":1}}}"#,
        r#"{"requestedSchema":{"properties":[{"default":1}]}}"#,
        r#"{"requestedSchema":"s"}"#,
        r#"{"maxTokens":1e3,"modelPreferences":{"hints":[{"name":"m-1"},{"name":1}],"costPriority":1},"messages":[{"role":"user","content":{"type":"text","text":"x"}}]}"#,
        r#"{"maxTokens":7,"tools":[{"name":"t"}],"messages":[{"content":[{"type":"tool_use","id":"1"}]},{"content":[{"type":"tool_result","toolUseId":"1"}]}],"modelPreferences":{"hints":[{"name":"other"}]}}"#,
        r#"{"messages":[{"content":{"type":"tool_use","id":"1"}},{"content":[{"type":"tool_result","toolUseId":"1"},{"type":"text"}]}],"toolChoice":{},"tools":[]}"#,
        r#"{"messages":[{"content":{"type":"tool_use","id":"1"}},{"content":"x"}],"tools":[{}]}"#,
        r#"{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}},"mode":"url","url":"https://h/","elicitationId":"e"}"#,
    ];
    let params = params[input.pick(params.len())];
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}
