//! The server of the tests of both drivers (2025-11-25), on each system; each driver's package builds it. Its first argument,
//! if any, is what it does instead of serving over stdio, or how.
#![allow(
    missing_docs,
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write, copy, repeat, stdin, stdout};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio, exit};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

fn main() {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        [] | ["serve" | "stubborn" | "mute" | "crlf", ..] => {}
        ["exit"] => end("the key is missing\n", 1),
        // It says this on standard error.
        ["says", words] => {
            eprintln!("{words}");
            sleep();
        }
        ["says", words, status] => end(&format!("{words}\n"), status.parse().unwrap()),
        ["deaf" | "sleep", ..] => sleep(),
        ["cat"] => return drop(copy(&mut stdin(), &mut stdout())),
        ["zeros"] => return drop(copy(&mut repeat(0), &mut stdout())),
        // Its helper holds its output.
        ["leaves"] => {
            println!("{}", helper(Stdio::inherit()).id());
            exit(7);
        }
        // It serves, and says the value of a variable first.
        ["tells", variable] => eprint!("{}", std::env::var(variable).unwrap_or_default()),
        // A child serves, as one of `npx` does. What follows tells its processes from others.
        ["wrapped", ..] => exit(own().args(["serve"]).args(&args[1..]).status().unwrap().code().unwrap_or(1)),
        ["modern"] => return modern(),
        ["floods"] => loop {
            println!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping"}}"#);
        },
        ["http"] => return http(&Server::new("")),
        other => panic!("{other:?}"),
    }
    stdio(&Server::new(args.first().copied().unwrap_or_default()));
}

fn end(words: &str, status: i32) -> ! {
    eprint!("{words}");
    exit(status);
}

fn sleep() -> ! {
    loop {
        thread::sleep(Duration::from_secs(1000));
    }
}

fn own() -> Command {
    Command::new(std::env::current_exe().unwrap())
}

/// A process that keeps the output open.
fn helper(output: Stdio) -> Child {
    own().arg("sleep").stdin(Stdio::null()).stdout(output).spawn().unwrap()
}

/// A server of 2026-07-28 with a tool that requires input, and one that ends the server.
fn modern() {
    let form = json!({"message": "who?", "requestedSchema": {"type": "object", "properties": {}}});
    for line in stdin().lines() {
        let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let result = match message["method"].as_str().unwrap() {
            "server/discover" => json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}),
            "tools/list" => json!({"tools": [
                {"name": "ask", "inputSchema": {"type": "object"}}, {"name": "die", "inputSchema": {"type": "object"}},
            ]}),
            "tools/call" if message["params"]["name"] == "die" => end("first words\nthe disk is full\n", 3),
            "tools/call" => json!({
                "resultType": "input_required",
                "inputRequests": {"who": {"method": "elicitation/create", "params": form}},
            }),
            _ => continue,
        };
        let mut result = result;
        result.as_object_mut().unwrap().entry("resultType").or_insert_with(|| "complete".into());
        println!("{}", json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
    }
}

/// Where messages to the client go.
#[derive(Clone, Copy)]
enum To<'a> {
    Lines(&'static str),
    Events(&'a TcpStream),
}

impl To<'_> {
    fn send(self, message: &Value) {
        let message = message.to_string();
        let message = format!(r#"{{"jsonrpc":"2.0",{}"#, message.strip_prefix('{').unwrap());
        // The client may be gone.
        let _ = match self {
            Self::Lines(end) => {
                let mut stdout = stdout().lock();
                stdout.write_all(format!("{message}{end}").as_bytes()).and_then(|()| stdout.flush())
            }
            Self::Events(mut stream) => stream.write_all(format!("data: {message}\n\n").as_bytes()),
        };
    }
}

/// Calls of `wait` over stdio: how many came, those that are open, and the most that were open at a time.
#[derive(Default)]
struct Waits {
    all: usize,
    open: BTreeSet<String>,
    most: usize,
}

struct Server {
    mode: String,
    tools: Mutex<Vec<&'static str>>,
    cancelled: Mutex<Vec<Value>>,
    waits: Mutex<Waits>,
    answers: Mutex<BTreeMap<String, mpsc::Sender<Value>>>,
}

fn text(words: &str) -> Value {
    json!({"content": [{"type": "text", "text": words}]})
}

impl Server {
    fn new(mode: &str) -> Arc<Self> {
        let tools =
            "echo fail count ask sample roots wait waits cancelled helper log errors die add-tool processes arguments";
        Arc::new(Self {
            mode: mode.into(),
            tools: Mutex::new(tools.split(' ').collect()),
            cancelled: Mutex::default(),
            waits: Mutex::default(),
            answers: Mutex::default(),
        })
    }

    /// Asks the client, and waits for its response.
    fn ask(&self, to: To<'_>, method: &str, params: &Value) -> Value {
        let (sender, answered) = mpsc::channel();
        let id = {
            let mut answers = self.answers.lock().unwrap();
            let id = format!("ask-{}", answers.len());
            answers.insert(id.clone(), sender);
            id
        };
        to.send(&json!({"id": id, "method": method, "params": params}));
        answered.recv().unwrap()
    }

    fn call(&self, to: To<'_>, params: &Value) -> Option<Value> {
        let arguments = &params["arguments"];
        Some(match params["name"].as_str().unwrap() {
            "echo" => {
                let message = arguments["message"].as_str().unwrap_or_default();
                let mut reply = text(message);
                reply["structuredContent"] = json!({"message": message, "pid": std::process::id()});
                reply
            }
            "fail" => {
                let mut reply = text("it does not work");
                reply["isError"] = true.into();
                reply
            }
            "count" => {
                for step in 1..=arguments["to"].as_u64().unwrap() {
                    to.send(&json!({"method": "notifications/progress", "params": {
                        "progressToken": params["_meta"]["progressToken"], "progress": step, "total": arguments["to"],
                    }}));
                    thread::sleep(Duration::from_secs_f64(arguments["pause"].as_f64().unwrap_or(0.0)));
                }
                text("counted")
            }
            "ask" => {
                let schema =
                    json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
                let params = json!({"message": "who?", "requestedSchema": schema});
                text(&self.ask(to, "elicitation/create", &params).to_string())
            }
            "sample" => {
                let message = json!({"role": "user", "content": {"type": "text", "text": "hi"}});
                let params = json!({"messages": [message], "maxTokens": 9});
                text(&self.ask(to, "sampling/createMessage", &params).to_string())
            }
            "roots" => text(&self.ask(to, "roots/list", &json!({})).to_string()),
            "cancelled" => text(&Value::from(self.cancelled.lock().unwrap().clone()).to_string()),
            "waits" => {
                let waits = self.waits.lock().unwrap();
                let counted = json!({"all": waits.all, "open": waits.open.len(), "most": waits.most});
                json!({"content": [], "structuredContent": counted})
            }
            "helper" => text(&helper(Stdio::inherit()).id().to_string()),
            "log" => {
                let size = usize::try_from(arguments["size"].as_u64().unwrap()).unwrap();
                for number in 0..arguments["count"].as_u64().unwrap() {
                    let data = number.to_string().repeat(size);
                    to.send(&json!({"method": "notifications/message", "params": {"level": "info", "data": data}}));
                }
                text("logged")
            }
            "errors" => {
                let size = usize::try_from(arguments["size"].as_u64().unwrap()).unwrap();
                eprintln!("{}", "x".repeat(size));
                text("written")
            }
            "die" => end("first words\nthe disk is full\n", 3),
            "add-tool" => {
                self.tools.lock().unwrap().push("added");
                to.send(&json!({"method": "notifications/tools/list_changed"}));
                text("added")
            }
            "processes" => {
                #[cfg(unix)]
                let parent = std::os::unix::process::parent_id();
                #[cfg(windows)]
                let parent = ();
                json!({"content": [], "structuredContent": {"server": std::process::id(), "parent": parent}})
            }
            "arguments" => {
                let args: Vec<_> = std::env::args().collect();
                json!({"content": [], "structuredContent": {"arguments": args}})
            }
            _ => return None,
        })
    }

    fn result(&self, to: To<'_>, method: &str, params: &Value) -> Option<Value> {
        Some(match method {
            "initialize" => {
                let all = json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}, "prompts": {}, "logging": {}});
                let capabilities = if self.mode == "mute" { json!({"tools": {}}) } else { all };
                json!({
                    "protocolVersion": "2025-11-25",
                    "capabilities": capabilities,
                    "serverInfo": {"name": "test", "version": "1"},
                })
            }
            "tools/list" => {
                let tools = self.tools.lock().unwrap();
                let tools: Vec<_> =
                    tools.iter().map(|name| json!({"name": name, "inputSchema": {"type": "object"}})).collect();
                json!({"tools": tools})
            }
            "tools/call" => return self.call(to, params),
            "resources/list" => json!({"resources": [{"uri": "test:a", "name": "a"}]}),
            "resources/templates/list" => json!({"resourceTemplates": []}),
            "resources/read" => json!({"contents": [{"uri": params["uri"], "text": "the content"}]}),
            "prompts/list" => json!({"prompts": [{"name": "greet"}]}),
            "prompts/get" => {
                let words = format!("hello, {}", params["arguments"]["who"].as_str().unwrap());
                json!({"messages": [{"role": "user", "content": {"type": "text", "text": words}}]})
            }
            "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => json!({}),
            _ => return None,
        })
    }

    fn respond(&self, to: To<'_>, message: &Value) {
        let (id, method) = (&message["id"], message["method"].as_str().unwrap());
        to.send(&match self.result(to, method, &message["params"]) {
            Some(result) => json!({"id": id, "result": result}),
            None => json!({"id": id, "error": {"code": -32601, "message": "no such method"}}),
        });
    }

    /// Takes what needs no response.
    fn receive(&self, message: &Value) {
        if message["method"] == "notifications/cancelled" {
            let id = message["params"]["requestId"].clone();
            self.waits.lock().unwrap().open.remove(&id.to_string());
            self.cancelled.lock().unwrap().push(id);
        } else if let Some(id) = message["id"].as_str()
            && let Some(sender) = self.answers.lock().unwrap().get(id)
        {
            let answer = message.get("result").or_else(|| message.get("error")).unwrap();
            // Who asked is waiting.
            let _ = sender.send(answer.clone());
        }
    }
}

fn is_wait(message: &Value) -> bool {
    message["method"] == "tools/call" && message["params"]["name"] == "wait"
}

fn stdio(server: &Arc<Server>) {
    #[cfg(unix)]
    if server.mode == "stubborn" && std::env::var_os("IGNORES_SIGNALS").is_none() {
        // What is ignored stays so in the program that takes its place.
        use std::os::unix::process::CommandExt;
        let script = "trap '' TERM; IGNORES_SIGNALS=1 exec \"$0\" stubborn";
        let error = Command::new("sh").args(["-c", script]).arg(std::env::current_exe().unwrap()).exec();
        panic!("{error}");
    }
    let to = To::Lines(if server.mode == "crlf" { "\r\n" } else { "\n" });
    for line in stdin().lines() {
        let Ok(line) = line else { break };
        let message: Value = serde_json::from_str(&line).unwrap();
        if is_wait(&message) {
            let mut waits = server.waits.lock().unwrap();
            waits.all += 1;
            waits.open.insert(message["id"].to_string());
            waits.most = waits.most.max(waits.open.len());
            drop(waits);
            let token = &message["params"]["_meta"]["progressToken"];
            if !token.is_null() {
                let params = json!({"progressToken": token, "progress": 1});
                to.send(&json!({"method": "notifications/progress", "params": params}));
            }
        } else if server.mode == "mute" && message["method"] == "tools/list" {
            server.respond(to, &message);
            sleep();
        } else if message.get("method").is_some() && message.get("id").is_some() {
            let server = Arc::clone(server);
            thread::spawn(move || server.respond(to, &message));
        } else {
            server.receive(&message);
        }
    }
    if server.mode == "stubborn" {
        sleep();
    }
    exit(0);
}

/// Prints its port, and serves requests with the header `x-key: hush`.
fn http(server: &Arc<Server>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    for stream in listener.incoming() {
        let (server, stream) = (Arc::clone(server), stream.unwrap());
        thread::spawn(move || while exchange(&server, &stream).is_some_and(|goes_on| goes_on) {});
    }
}

/// One request, and its response; whether another one may follow. `None` if the client is gone.
fn exchange(server: &Server, mut stream: &TcpStream) -> Option<bool> {
    // The client sends nothing before it has the response.
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|len| *len > 0)?;
        let line = line.trim().to_owned();
        if line.is_empty() {
            break;
        }
        head.push(line);
    }
    let header = |name: &str| {
        let fields = head.iter().skip(1).filter_map(|line| line.split_once(": "));
        fields.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).next()
    };
    let mut body = vec![0; header("content-length").map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    let mut reply = |head: &str| stream.write_all(format!("HTTP/1.1 {head}\r\n\r\n").as_bytes()).ok();
    let empty = |status: &str| format!("{status}\r\ncontent-length: 0");
    match head.first()?.split(' ').next()? {
        "POST" => {}
        "DELETE" => {
            println!("deleted {}", header("mcp-session-id").unwrap_or_default());
            reply(&empty("200 OK"))?;
            return Some(true);
        }
        _ => {
            reply(&empty("405 Method Not Allowed"))?;
            return Some(true);
        }
    }
    let message: Value = serde_json::from_slice(&body).unwrap();
    if header("x-key").as_deref() != Some("hush") {
        reply(&empty("403 Forbidden"))?;
        return Some(true);
    }
    if message.get("method").is_none() || message.get("id").is_none() {
        server.receive(&message);
        reply(&empty("202 Accepted"))?;
        return Some(true);
    }
    reply("200 OK\r\ncontent-type: text/event-stream\r\nmcp-session-id: one\r\nconnection: close")?;
    if is_wait(&message) {
        while stream.write_all(b": still there\n\n").is_ok() {
            thread::sleep(Duration::from_millis(20));
        }
        server.cancelled.lock().unwrap().push(message["id"].clone());
    } else {
        server.respond(To::Events(stream), &message);
    }
    Some(false)
}
