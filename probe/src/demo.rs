//! The demo server, which `probe` starts if no server is given: a small garden, over stdio, in both eras. It follows
//! the specification and shares no code with the library, so that each tests the other.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write},
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};

#[path = "demo_content.rs"]
mod content;
#[path = "demo_schedule.rs"]
pub(crate) mod schedule;

use self::content::Guests;

/// The supported version with per-request metadata.
const MODERN: &str = "2026-07-28";
/// The versions that `initialize` accepts, except the newest, which is also the response to an unknown version.
const LEGACY: [&str; 3] = ["2024-11-05", "2025-03-26", "2025-06-18"];
const NEWEST_LEGACY: &str = "2025-11-25";

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";

const PAGE: usize = 3;
const FRESH_MS: u64 = 60_000;
const LONGEST_SLEEP_MS: u64 = 60_000;
const SLOW_MS: u64 = 4000;
const PROGRESS_STEPS: u64 = 4;

type Object = Map<String, Value>;

/// Writes one line under a lock, because sleeping calls write too.
fn send(message: &Value) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut output = io::stdout().lock();
    output.write_all(&line)?;
    output.flush()
}

fn notify(method: &str, params: &Value) -> io::Result<()> {
    send(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
}

#[derive(Clone, Copy)]
enum Era {
    Legacy,
    Modern,
}

struct Request<'a> {
    id: &'a Value,
    era: Era,
    method: &'a str,
    params: &'a Object,
}

/// The error of a response.
struct Refusal(Value);

impl Refusal {
    fn new(code: i64, message: impl Into<String>) -> Self {
        Self(json!({"code": code, "message": message.into()}))
    }

    fn with_data(code: i64, message: &str, data: &Value) -> Self {
        Self(json!({"code": code, "message": message, "data": data}))
    }

    fn params(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }

    /// The response; without an id if the request's id could not be read.
    fn answer(self, id: Option<&Value>) -> Value {
        let Self(error) = self;
        match id {
            Some(id) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
            None => json!({"jsonrpc": "2.0", "error": error}),
        }
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::new(-32603, error.to_string())
    }
}

/// The result; `None` if a sleeping call responds later, or a subscription stays open.
type Outcome = Result<Option<Value>, Refusal>;

/// An open request, until it is cancelled.
enum Open {
    Listening {
        id: Value,
        tools: bool,
        resources: BTreeSet<String>,
    },
    /// Dropping `_stop` wakes the thread, which then ends without a response.
    Sleeping {
        thread: JoinHandle<()>,
        _stop: Sender<()>,
    },
}

#[derive(Default)]
struct Server {
    /// The version that `initialize` negotiated; irrelevant for modern requests.
    legacy: Option<&'static str>,
    /// Tools that appear and disappear. A call that changes the list is for demonstration only: the modern era
    /// discourages it.
    guests: Guests,
    /// Number of rain events while watched.
    showers: u8,
    /// Resources that a legacy session subscribed to.
    subscribed: BTreeSet<String>,
    /// By request id as JSON text, which distinguishes `1` from `"1"`.
    open: BTreeMap<String, Open>,
}

impl Server {
    fn handle_line(&mut self, line: &[u8]) -> io::Result<()> {
        let answer = if line.trim_ascii().is_empty() { None } else { self.receive(line) };
        answer.map_or(Ok(()), |answer| send(&answer))
    }

    fn receive(&mut self, line: &[u8]) -> Option<Value> {
        match serde_json::from_slice(line) {
            // The only version with batches. A sleeping call in a batch still responds separately.
            Ok(Value::Array(batch)) if self.legacy == Some("2025-03-26") && !batch.is_empty() => {
                let answers: Vec<_> = batch.iter().filter_map(|one| self.message(one)).collect();
                (!answers.is_empty()).then(|| answers.into())
            }
            Ok(message) => self.message(&message),
            Err(error) => Some(Refusal::new(-32700, error.to_string()).answer(None)),
        }
    }

    fn message(&mut self, message: &Value) -> Option<Value> {
        let given = message.get("id");
        let id = given.filter(|id| is_id(id));
        let member = |key| message.get(key).and_then(Value::as_str);
        let (Some(method), Some("2.0")) = (member("method"), member("jsonrpc")) else {
            // This server sends no requests, so it ignores responses.
            let response = message.get("result").or(message.get("error")).is_some();
            return (!response).then(|| Refusal::new(-32600, "Not a JSON-RPC message").answer(id));
        };
        let none = Object::new();
        let params = message.get("params").map_or(Some(&none), Value::as_object);
        if given.is_none() {
            self.notification(method, params.unwrap_or(&none));
            return None;
        }
        let Some(id) = id else {
            return Some(Refusal::new(-32600, "An id must be a string or an integer").answer(None));
        };
        let outcome = params.ok_or_else(|| Refusal::params("`params` must be an object")).and_then(|params| {
            let era = self.era(method, params)?;
            let request = Request { id, era, method, params };
            Ok(self.request(&request)?.map(|result| success(&request, result)))
        });
        outcome.unwrap_or_else(|refusal| Some(refusal.answer(Some(id))))
    }

    /// Only a cancellation needs a reaction.
    fn notification(&mut self, method: &str, params: &Object) {
        if method == "notifications/cancelled"
            && let Some(id) = params.get("requestId")
        {
            self.open.remove(&id.to_string());
        }
    }

    /// Each request shows its era; only one without modern metadata needs a session.
    fn era(&self, method: &str, params: &Object) -> Result<Era, Refusal> {
        let meta = |key| params.get("_meta").and_then(|meta| meta.get(key));
        let (version, capabilities) = (meta(VERSION_KEY), meta(CAPABILITIES_KEY));
        let bare = version.is_none() && capabilities.is_none();
        if method == "initialize" || bare && (self.legacy.is_some() || method == "ping") {
            return Ok(Era::Legacy);
        }
        if bare {
            let message = format!("Send `initialize` first, or `{VERSION_KEY}` and `{CAPABILITIES_KEY}` in `_meta`");
            return Err(Refusal::params(message));
        }
        let version = version
            .and_then(Value::as_str)
            .ok_or_else(|| Refusal::params(format!("`_meta` needs `{VERSION_KEY}`, a string")))?;
        if version != MODERN {
            // Without legacy versions: they do not support per-request metadata.
            return Err(Refusal::with_data(
                -32022,
                "Unsupported protocol version",
                &json!({"supported": [MODERN], "requested": version}),
            ));
        }
        if !capabilities.is_some_and(Value::is_object) {
            return Err(Refusal::params(format!("`_meta` needs `{CAPABILITIES_KEY}`, an object")));
        }
        Ok(Era::Modern)
    }

    fn request(&mut self, request: &Request) -> Outcome {
        let params = request.params;
        let result = match (request.era, request.method) {
            (Era::Legacy, "initialize") => self.initialize(params)?,
            (Era::Legacy, "ping") => json!({}),
            (Era::Legacy, "resources/subscribe") => {
                let uri = string(params, "uri")?;
                self.find(request, uri)?;
                self.subscribed.insert(uri.into());
                json!({})
            }
            (Era::Legacy, "resources/unsubscribe") => {
                self.subscribed.remove(string(params, "uri")?);
                json!({})
            }
            (Era::Modern, "server/discover") => json!({
                "supportedVersions": [MODERN],
                "capabilities": content::capabilities(),
                "instructions": content::INSTRUCTIONS,
            }),
            (Era::Modern, "subscriptions/listen") => return self.listen(request),
            (_, "tools/list") => page("tools", content::tools(self.guests), params)?,
            (_, "tools/call") => return self.call(request),
            (_, "prompts/list") => page("prompts", content::prompts(), params)?,
            (_, "prompts/get") => get_prompt(params)?,
            (_, "resources/list") => page("resources", content::resources(), params)?,
            (_, "resources/templates/list") => page("resourceTemplates", content::templates(), params)?,
            (_, "resources/read") => {
                let uri = string(params, "uri")?;
                let (mime_type, text) = self.find(request, uri)?;
                json!({"contents": [{"uri": uri, "mimeType": mime_type, "text": text}]})
            }
            (_, method) => return Err(Refusal::new(-32601, format!("Method not found: {method}"))),
        };
        Ok(Some(result))
    }

    fn initialize(&mut self, params: &Object) -> Result<Value, Refusal> {
        let asked = string(params, "protocolVersion")?;
        object(params, "capabilities")?;
        object(params, "clientInfo")?;
        let agreed = LEGACY.into_iter().find(|version| *version == asked).unwrap_or(NEWEST_LEGACY);
        self.legacy = Some(agreed);
        Ok(json!({
            "protocolVersion": agreed,
            "capabilities": content::capabilities(),
            "serverInfo": content::server_info(),
            "instructions": content::INSTRUCTIONS,
        }))
    }

    fn listen(&mut self, request: &Request) -> Outcome {
        let asked = object(request.params, "notifications")?;
        let mut honoured: Object = ["toolsListChanged", "promptsListChanged", "resourcesListChanged"]
            .into_iter()
            .filter(|kind| asked.get(*kind) == Some(&Value::Bool(true)))
            .map(|kind| (kind.into(), true.into()))
            .collect();
        let uris = asked.get("resourceSubscriptions").and_then(Value::as_array);
        let known: Vec<_> = uris
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .filter(|uri| content::read(uri, self.showers).is_some())
            .collect();
        let resources = known.iter().map(|uri| (*uri).into()).collect();
        if !known.is_empty() {
            honoured.insert("resourceSubscriptions".into(), known.into());
        }
        let tools = honoured.contains_key("toolsListChanged");
        notify(
            "notifications/subscriptions/acknowledged",
            &json!({"_meta": {SUBSCRIPTION_KEY: request.id}, "notifications": honoured}),
        )?;
        let listening = Open::Listening { id: request.id.clone(), tools, resources };
        self.open.insert(request.id.to_string(), listening);
        Ok(None)
    }

    fn call(&mut self, request: &Request) -> Outcome {
        let name = string(request.params, "name")?;
        let arguments = arguments(request.params)?;
        let tool =
            named(content::tools(self.guests), name).ok_or_else(|| Refusal::params(format!("Unknown tool: {name}")))?;
        let properties = tool.pointer("/inputSchema/properties");
        let stray = arguments.keys().find(|key| properties.is_none_or(|properties| properties.get(key).is_none()));
        // Invalid arguments are a tool error, so that the model sees them.
        let result = match (stray, name) {
            (Some(key), _) => Err(format!("There is no argument `{key}`.")),
            (None, "sleep") => match content::argument(&arguments, "ms", Value::as_u64) {
                Ok(ms) => {
                    let ms = ms.min(LONGEST_SLEEP_MS);
                    return self.sleep(request, ms, &format!("Slept for {ms} ms."));
                }
                Err(message) => Err(message),
            },
            (None, "slow") => return self.sleep(request, SLOW_MS, "The beds are watered."),
            (None, "toggle_tool") => {
                self.guests.surprise = !self.guests.surprise;
                self.tools_changed()?;
                Ok(content::text(if self.guests.surprise { "A surprise is out." } else { "It hid again." }))
            }
            (None, _) => content::call(name, &arguments),
        };
        let failed = |message| json!({"content": [{"type": "text", "text": message}], "isError": true});
        Ok(Some(result.unwrap_or_else(failed)))
    }

    /// Sleeps on a thread, so that other requests are answered in the meantime.
    fn sleep(&mut self, request: &Request, ms: u64, text: &str) -> Outcome {
        let meta = request.params.get("_meta");
        let token = meta.and_then(|meta| meta.get("progressToken")).filter(|token| is_id(token)).cloned();
        let answer = success(request, content::text(text));
        let (stop, stopped) = mpsc::channel();
        let start = Instant::now();
        let thread = thread::Builder::new().spawn(move || {
            for step in 1..=PROGRESS_STEPS {
                let due = ms.saturating_mul(step).div_ceil(PROGRESS_STEPS);
                let rest = Duration::from_millis(due).saturating_sub(start.elapsed());
                match stopped.recv_timeout(rest) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
                }
                // Errors are ignored here: the main loop notices that the client is gone.
                if let Some(token) = &token {
                    let params = json!({"progressToken": token, "progress": step, "total": PROGRESS_STEPS});
                    let _ = notify("notifications/progress", &params);
                }
            }
            let _ = send(&answer);
        })?;
        self.open.retain(|_, open| match open {
            Open::Sleeping { thread, .. } => !thread.is_finished(),
            Open::Listening { .. } => true,
        });
        self.open.insert(request.id.to_string(), Open::Sleeping { thread, _stop: stop });
        Ok(None)
    }

    fn is_busy(&self) -> bool {
        self.open.values().any(|open| match open {
            Open::Sleeping { thread, .. } => !thread.is_finished(),
            Open::Listening { .. } => false,
        })
    }

    /// Notifies a legacy session always, a modern client on its subscription stream.
    fn tools_changed(&self) -> io::Result<()> {
        let method = "notifications/tools/list_changed";
        if self.legacy.is_some() {
            notify(method, &json!({}))?;
        }
        for open in self.open.values() {
            if let Open::Listening { id, tools: true, .. } = open {
                notify(method, &json!({"_meta": {SUBSCRIPTION_KEY: id}}))?;
            }
        }
        Ok(())
    }

    /// Notifies the subscribers.
    fn resource_updated(&self, uri: &str) -> io::Result<()> {
        let method = "notifications/resources/updated";
        if self.subscribed.contains(uri) {
            notify(method, &json!({"uri": uri}))?;
        }
        for open in self.open.values() {
            if let Open::Listening { id, resources, .. } = open
                && resources.contains(uri)
            {
                notify(method, &json!({"uri": uri, "_meta": {SUBSCRIPTION_KEY: id}}))?;
            }
        }
        Ok(())
    }

    /// A resource's media type and text. The error code for a missing resource depends on the era.
    fn find(&self, request: &Request, uri: &str) -> Result<(String, String), Refusal> {
        let code = match request.era {
            Era::Legacy => -32002,
            Era::Modern => -32602,
        };
        let refusal = || Refusal::with_data(code, "Resource not found", &json!({"uri": uri}));
        content::read(uri, self.showers).ok_or_else(refusal)
    }
}

/// A response with a result. The modern era requires more members, and a TTL for cacheable results (lists, resources,
/// discovery).
fn success(request: &Request, mut result: Value) -> Value {
    if let (Era::Modern, Some(result)) = (request.era, result.as_object_mut()) {
        result.insert("resultType".into(), "complete".into());
        let meta = json!({"io.modelcontextprotocol/serverInfo": content::server_info()});
        result.insert("_meta".into(), meta);
        if !matches!(request.method, "tools/call" | "prompts/get") {
            result.insert("ttlMs".into(), FRESH_MS.into());
            result.insert("cacheScope".into(), "public".into());
        }
    }
    json!({"jsonrpc": "2.0", "id": request.id, "result": result})
}

/// One page of a list. Cursors are compared with the valid ones, never parsed.
fn page(family: &str, items: Vec<Value>, params: &Object) -> Result<Value, Refusal> {
    let cursor = |at: usize| format!("{family}@{at}");
    let end = items.len();
    let start = match params.get("cursor") {
        None => 0,
        // The end is a valid cursor too: the list may have shrunk since the cursor was sent.
        Some(given) => (PAGE..=end)
            .step_by(PAGE)
            .find(|at| given.as_str() == Some(&cursor(*at)))
            .ok_or_else(|| Refusal::params("Invalid cursor"))?,
    };
    let next = start.saturating_add(PAGE);
    let mut result = Object::new();
    result.insert(family.into(), items.into_iter().skip(start).take(PAGE).collect());
    if next < end {
        result.insert("nextCursor".into(), cursor(next).into());
    }
    Ok(result.into())
}

/// The prompt's definition lists its required arguments.
fn get_prompt(params: &Object) -> Result<Value, Refusal> {
    let name = string(params, "name")?;
    let arguments = arguments(params)?;
    let prompt = named(content::prompts(), name).ok_or_else(|| Refusal::params(format!("Unknown prompt: {name}")))?;
    if let Some((key, _)) = arguments.iter().find(|(_, value)| !value.is_string()) {
        return Err(Refusal::params(format!("The argument `{key}` must be a string")));
    }
    let defined = prompt.get("arguments").and_then(Value::as_array);
    for argument in defined.into_iter().flatten() {
        let key = argument.get("name").and_then(Value::as_str).unwrap_or_default();
        if argument.get("required") == Some(&Value::Bool(true)) && !arguments.contains_key(key) {
            return Err(Refusal::params(format!("The argument `{key}` is missing")));
        }
    }
    let text = content::prompt(name, |key| arguments.get(key).and_then(Value::as_str));
    Ok(json!({
        "description": prompt.get("description"),
        "messages": [{"role": "user", "content": {"type": "text", "text": text}}],
    }))
}

/// Whether a value is a valid id or progress token.
fn is_id(value: &Value) -> bool {
    value.is_string() || value.is_i64() || value.is_u64()
}

fn string<'a>(params: &'a Object, key: &str) -> Result<&'a str, Refusal> {
    let value = params.get(key).and_then(Value::as_str);
    value.ok_or_else(|| Refusal::params(format!("`params` needs `{key}`, a string")))
}

fn object<'a>(params: &'a Object, key: &str) -> Result<&'a Object, Refusal> {
    let value = params.get(key).and_then(Value::as_object);
    value.ok_or_else(|| Refusal::params(format!("`params` needs `{key}`, an object")))
}

fn arguments(params: &Object) -> Result<Object, Refusal> {
    match params.get("arguments") {
        None => Ok(Object::new()),
        Some(_) => object(params, "arguments").cloned(),
    }
}

fn named(items: Vec<Value>, name: &str) -> Option<Value> {
    items.into_iter().find(|item| item.get("name").and_then(Value::as_str) == Some(name))
}
