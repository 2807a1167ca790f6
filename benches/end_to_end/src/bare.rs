//! The least that a client costs on tokio: bytes are read and written, `serde_json` reads and writes the messages, and nothing
//! is checked.

use std::borrow::Cow;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use memchr::memmem;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::runtime::Runtime;

use crate::client::{ARGUMENTS, Client, ECHO, Era, LARGE, STORM, Size, Transport, check, shares};
use crate::peer::Peer;

/// Bytes that are read at once, at least.
const READ: usize = 32 << 10;
/// Connections over HTTP, at most.
const CONNECTIONS: usize = 64;

#[derive(Serialize)]
struct Request<P> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    method: &'static str,
    params: P,
}

#[derive(Serialize)]
struct Call<A> {
    name: &'static str,
    arguments: A,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Meta>,
}

#[derive(Clone, Copy, Serialize)]
struct Meta {
    #[serde(rename = "progressToken", skip_serializing_if = "Option::is_none")]
    progress: Option<u64>,
    #[serde(flatten)]
    modern: Option<Modern>,
}

/// What each request of the modern era has.
#[derive(Clone, Copy, Serialize)]
struct Modern {
    #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
    version: &'static str,
    #[serde(rename = "io.modelcontextprotocol/clientInfo")]
    client: Implementation,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities")]
    capabilities: Capabilities,
}

#[derive(Clone, Copy, Serialize)]
struct Capabilities {}

#[derive(Clone, Copy, Serialize)]
struct Implementation {
    name: &'static str,
    version: &'static str,
}

const CLIENT: Implementation = Implementation { name: "end-to-end", version: "1.0" };
const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

#[derive(Serialize)]
struct Initialize {
    #[serde(rename = "protocolVersion")]
    version: &'static str,
    capabilities: Capabilities,
    #[serde(rename = "clientInfo")]
    client: Implementation,
}

#[derive(Serialize)]
struct Page<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<&'a str>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Meta>,
}

#[derive(Deserialize)]
struct Message<'a> {
    id: Option<u64>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ToolResult<'a> {
    #[serde(borrow)]
    content: Vec<Block<'a>>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    #[serde(borrow)]
    tools: Vec<Tool<'a>>,
    next_cursor: Option<String>,
}

#[expect(dead_code, reason = "they are read, as a client has to")]
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tool<'a> {
    name: String,
    description: Option<String>,
    #[serde(borrow)]
    input_schema: &'a RawValue,
}

fn meta(era: Era, progress: Option<u64>) -> Option<Meta> {
    let modern = Modern { version: MODERN, client: CLIENT, capabilities: Capabilities {} };
    let modern = (era == Era::Modern).then_some(modern);
    (progress.is_some() || modern.is_some()).then_some(Meta { progress, modern })
}

fn put(out: &mut Vec<u8>, id: Option<u64>, method: &'static str, params: impl Serialize) {
    serde_json::to_writer(&mut *out, &Request { jsonrpc: "2.0", id, method, params }).unwrap();
    out.push(b'\n');
}

fn put_echo(out: &mut Vec<u8>, era: Era, id: u64) {
    let call = Call { name: ECHO, arguments: ARGUMENTS, meta: meta(era, None) };
    put(out, Some(id), "tools/call", call);
}

fn put_sized(out: &mut Vec<u8>, era: Era, id: u64, name: &'static str, size: usize) {
    let call = Call { name, arguments: Size { size }, meta: meta(era, Some(id)) };
    put(out, Some(id), "tools/call", call);
}

fn put_handshake(out: &mut Vec<u8>, era: Era, id: u64) {
    match era {
        Era::Legacy => {
            let params = Initialize { version: LEGACY, capabilities: Capabilities {}, client: CLIENT };
            put(out, Some(id), "initialize", params);
        }
        Era::Modern => put(out, Some(id), "server/discover", Page { cursor: None, meta: meta(era, None) }),
    }
}

fn put_page(out: &mut Vec<u8>, era: Era, id: u64, cursor: Option<&str>) {
    put(out, Some(id), "tools/list", Page { cursor, meta: meta(era, None) });
}

fn text(result: &RawValue) -> usize {
    let result: ToolResult<'_> = serde_json::from_str(result.get()).unwrap();
    result.content[0].text.clone().into_owned().len()
}

pub fn connect(runtime: &Rc<Runtime>, peer: &Peer) -> (Box<dyn Client>, usize) {
    if peer.transport == Transport::Stdio { Lines::connect(runtime, peer) } else { Http::connect(runtime, peer) }
}

struct Lines {
    runtime: Rc<Runtime>,
    pipes: Pipes,
}

struct Pipes {
    process: Child,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    era: Era,
    id: u64,
    /// What was read and not taken yet.
    input: Vec<u8>,
    start: usize,
    out: Vec<u8>,
}

impl Lines {
    fn connect(runtime: &Rc<Runtime>, peer: &Peer) -> (Box<dyn Client>, usize) {
        let connected = runtime.block_on(async {
            let [program, arguments @ ..] = peer.command();
            let mut command = Command::new(program);
            command.args(arguments).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
            let mut process = command.spawn().unwrap();
            let (stdin, stdout) = (process.stdin.take(), process.stdout.take().unwrap());
            let (era, input, out) = (peer.era, Vec::new(), Vec::new());
            let mut pipes = Pipes { process, stdin, stdout, era, id: 0, input, start: 0, out };
            put_handshake(&mut pipes.out, era, 0);
            pipes.write().await;
            assert!(message(pipes.line().await).result.is_some());
            if era == Era::Legacy {
                put(&mut pipes.out, None, "notifications/initialized", Capabilities {});
            }
            let (mut tools, mut cursor) = (0, None);
            loop {
                pipes.id += 1;
                put_page(&mut pipes.out, era, pipes.id, cursor.as_deref());
                pipes.write().await;
                let page: Tools<'_> = serde_json::from_str(message(pipes.line().await).result.unwrap().get()).unwrap();
                tools += page.tools.len();
                cursor = page.next_cursor;
                if cursor.is_none() {
                    return (pipes, tools);
                }
            }
        });
        let (pipes, tools) = connected;
        (Box::new(Self { runtime: Rc::clone(runtime), pipes }), tools)
    }
}

fn message(line: &[u8]) -> Message<'_> {
    serde_json::from_slice(line).unwrap()
}

impl Pipes {
    async fn write(&mut self) {
        self.stdin.as_mut().unwrap().write_all(&self.out).await.unwrap();
        self.out.clear();
    }

    /// The next line.
    async fn line(&mut self) -> &[u8] {
        let mut looked = self.start;
        loop {
            if let Some(length) = memchr::memchr(b'\n', &self.input[looked..]) {
                let start = self.start;
                self.start = looked + length + 1;
                return &self.input[start..looked + length];
            }
            if self.start > 0 {
                self.input.drain(..self.start);
                self.start = 0;
            }
            looked = self.input.len();
            self.input.reserve(READ);
            assert_ne!(self.stdout.read_buf(&mut self.input).await.unwrap(), 0, "the server ended");
        }
    }

    fn has_line(&self) -> bool {
        memchr::memchr(b'\n', &self.input[self.start..]).is_some()
    }
}

impl Client for Lines {
    fn calls(&mut self, count: usize, at_once: usize) {
        let pipes = &mut self.pipes;
        self.runtime.block_on(async {
            let (mut started, mut finished) = (0, 0);
            while finished < count {
                while started < count && started - finished < at_once {
                    pipes.id += 1;
                    put_echo(&mut pipes.out, pipes.era, pipes.id);
                    started += 1;
                }
                pipes.write().await;
                loop {
                    let message = message(pipes.line().await);
                    assert!(message.id.is_some());
                    check(text(message.result.unwrap()));
                    finished += 1;
                    if !pipes.has_line() {
                        break;
                    }
                }
            }
        });
    }

    fn storm(&mut self, size: usize) -> usize {
        let pipes = &mut self.pipes;
        self.runtime.block_on(async {
            pipes.id += 1;
            put_sized(&mut pipes.out, pipes.era, pipes.id, STORM, size);
            pipes.write().await;
            let mut reports = 0;
            while message(pipes.line().await).id.is_none() {
                reports += 1;
            }
            reports
        })
    }

    fn large(&mut self, size: usize, reads_text: bool) -> Option<usize> {
        let pipes = &mut self.pipes;
        self.runtime.block_on(async {
            pipes.id += 1;
            put_sized(&mut pipes.out, pipes.era, pipes.id, LARGE, size);
            pipes.write().await;
            let line = pipes.line().await;
            let size = if reads_text { text(message(line).result.unwrap()) } else { line.len() };
            // A large buffer is not kept.
            (pipes.input, pipes.start) = (Vec::new(), 0);
            Some(size)
        })
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        drop(self.pipes.stdin.take());
        let _ = self.runtime.block_on(self.pipes.process.wait());
    }
}

struct Http {
    runtime: Rc<Runtime>,
    /// What each request begins with.
    head: Arc<[u8]>,
    era: Era,
    port: u16,
    free: Vec<Connection>,
    /// The GET stream of the legacy era.
    _stream: Option<Connection>,
    id: u64,
}

struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    out: Vec<u8>,
}

impl Connection {
    async fn open(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, input: Vec::new(), out: Vec::new() })
    }

    async fn read(&mut self) {
        self.input.reserve(READ);
        assert_ne!(self.stream.read_buf(&mut self.input).await.unwrap(), 0, "the server closed the connection");
    }

    /// Reads the head of a response: where the body begins and ends.
    async fn head(&mut self) -> (usize, usize) {
        self.input.clear();
        loop {
            self.read().await;
            if let Some(end) = memmem::find(&self.input, b"\r\n\r\n") {
                let head = std::str::from_utf8(&self.input[..end]).unwrap();
                let length = head.split("\r\n").find_map(|line| line.strip_prefix("content-length: "));
                return (end + 4, end + 4 + length.map_or(0, |length| length.parse().unwrap()));
            }
        }
    }

    /// Posts a body, and reads the response's.
    async fn post(&mut self, head: &[u8], put: impl FnOnce(&mut Vec<u8>)) -> &[u8] {
        let Self { out, .. } = self;
        out.clear();
        out.extend_from_slice(head);
        // The place of the length, with leading zeros.
        out.extend_from_slice(b"content-length: 00000000\r\n\r\n");
        let body = out.len();
        put(out);
        let length = format!("{:08}", out.len() - body);
        out[body - 12..body - 4].copy_from_slice(length.as_bytes());
        self.stream.write_all(&self.out).await.unwrap();
        let (start, end) = self.head().await;
        while self.input.len() < end {
            self.read().await;
        }
        &self.input[start..end]
    }
}

/// The messages of a body, which is one message or a stream of events.
fn messages(body: &[u8]) -> impl Iterator<Item = Message<'_>> {
    let is_stream = body.starts_with(b"event");
    body.split(|byte| *byte == b'\n').filter_map(move |line| {
        let line = if is_stream { line.strip_prefix(b"data: ")? } else { line };
        (!line.is_empty()).then(|| message(line))
    })
}

fn result(body: &[u8]) -> &RawValue {
    messages(body).find_map(|message| message.result).unwrap()
}

impl Http {
    fn connect(runtime: &Rc<Runtime>, peer: &Peer) -> (Box<dyn Client>, usize) {
        let version = if peer.era == Era::Legacy { LEGACY } else { MODERN };
        let common = format!(
            "host: 127.0.0.1:{}\r\nuser-agent: end-to-end/1.0\r\naccept: application/json, text/event-stream\r\n\
             mcp-protocol-version: {version}\r\n",
            peer.port
        );
        let post = format!("POST /mcp HTTP/1.1\r\n{common}content-type: application/json\r\n");
        let connected = runtime.block_on(async {
            let mut connection = Connection::open(peer.port).await.unwrap();
            let shaken = connection.post(post.as_bytes(), |out| put_handshake(out, peer.era, 0)).await;
            result(shaken);
            let (mut head, mut stream) = (post, None);
            if peer.era == Era::Legacy {
                let of_session = "mcp-session-id: 7d0a2b3e-session\r\n";
                head.push_str(of_session);
                let initialized = |out: &mut Vec<u8>| put(out, None, "notifications/initialized", Capabilities {});
                connection.post(head.as_bytes(), initialized).await;
                let mut events = Connection::open(peer.port).await.unwrap();
                let get = format!("GET /mcp HTTP/1.1\r\n{common}{of_session}\r\n");
                events.stream.write_all(get.as_bytes()).await.unwrap();
                events.head().await;
                stream = Some(events);
            }
            let (mut id, mut tools, mut cursor) = (0, 0, None::<String>);
            loop {
                id += 1;
                let page = connection.post(head.as_bytes(), |out| put_page(out, peer.era, id, cursor.as_deref())).await;
                let page: Tools<'_> = serde_json::from_str(result(page).get()).unwrap();
                tools += page.tools.len();
                cursor = page.next_cursor;
                if cursor.is_none() {
                    return (connection, head, stream, id, tools);
                }
            }
        });
        let (connection, head, stream, id, tools) = connected;
        let client = Self {
            runtime: Rc::clone(runtime),
            head: head.into_bytes().into(),
            era: peer.era,
            port: peer.port,
            free: vec![connection],
            _stream: stream,
            id,
        };
        (Box::new(client), tools)
    }

    fn sized(&mut self, tool: &'static str, size: usize) -> &[u8] {
        self.id += 1;
        let (id, era, connection) = (self.id, self.era, &mut self.free[0]);
        self.runtime.block_on(connection.post(&self.head, |out| put_sized(out, era, id, tool, size)))
    }
}

impl Client for Http {
    fn calls(&mut self, count: usize, at_once: usize) {
        let Self { runtime, free, port, head, era, id, .. } = self;
        runtime.block_on(async {
            let at_once = at_once.min(CONNECTIONS);
            while free.len() < at_once {
                free.push(Connection::open(*port).await.unwrap());
            }
            let mut tasks = Vec::new();
            for count in shares(count, at_once) {
                let (mut connection, head, era, first) = (free.pop().unwrap(), Arc::clone(head), *era, *id + 1);
                *id += count as u64;
                let calls = async move {
                    for id in (first..).take(count) {
                        let body = connection.post(&head, |out| put_echo(out, era, id)).await;
                        check(text(result(body)));
                    }
                    connection
                };
                if at_once == 1 {
                    free.push(calls.await);
                } else {
                    tasks.push(tokio::spawn(calls));
                }
            }
            for task in tasks {
                free.push(task.await.unwrap());
            }
        });
    }

    fn storm(&mut self, size: usize) -> usize {
        messages(self.sized(STORM, size)).filter(|message| message.id.is_none()).count()
    }

    fn large(&mut self, size: usize, reads_text: bool) -> Option<usize> {
        let body = self.sized(LARGE, size);
        let size = if reads_text { text(result(body)) } else { body.len() };
        self.free[0].input = Vec::new();
        Some(size)
    }
}
