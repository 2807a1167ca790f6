//! A server that costs little itself: it finds the method and the id in a line, and answers with bytes that it has.
//!
//! mcp-proto-end-to-end-server stdio|json|events legacy|modern TOOLS
//!
//! Over HTTP it prints its port. `json` and `events` say how it answers. It ends with its standard input.

use std::cell::RefCell;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use memchr::memmem;
use tokio::net::TcpListener;
use tokio::task::LocalSet;

/// Tools of one page.
const PAGE: usize = 100;
/// Bytes that are written at once.
const BURST: usize = 32 << 10;

const CONTENT: &str = concat!(
    r#""content":[{"type":"text","text":"Created issue #4711 in example/widgets: "#,
    r#"\"Crash when the configuration file is empty\". Labels applied: bug, triage. "#,
    r#"Assigned to nobody. Three similar open issues were found: #4012, #3998 and #3555.\n"#,
    r#"https://git.example.com/example/widgets/issues/4711"}],"isError":false}"#
);

struct Server {
    is_modern: bool,
    /// Pages of `tools/list`.
    pages: Vec<String>,
    /// The last large result, and its size.
    large: (usize, String),
}

fn main() -> io::Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [transport, era, tools] = arguments.as_slice() else { panic!("stdio|json|events legacy|modern TOOLS") };
    let server = Server::new(era == "modern", tools.parse().unwrap());
    match transport.as_str() {
        "stdio" => lines(server),
        transport => serve(server, transport == "events"),
    }
}

impl Server {
    fn new(is_modern: bool, tools: usize) -> Self {
        let complete =
            if is_modern { r#""resultType":"complete","ttlMs":3600000,"cacheScope":"private","# } else { "" };
        let pages = (0..tools).step_by(PAGE).map(|first| {
            let listed: Vec<_> = (first..tools.min(first + PAGE)).map(tool).collect();
            let mut page = format!(r#"{{{complete}"tools":[{}]"#, listed.join(","));
            if first + PAGE < tools {
                write!(page, r#","nextCursor":"{}""#, first / PAGE + 1).unwrap();
            }
            page + "}"
        });
        Self { is_modern, pages: pages.collect(), large: (0, String::new()) }
    }

    /// Answers a line: a message that is no request is not answered.
    fn answer(&mut self, line: &[u8], out: &mut Answer<'_>) {
        let (Some(method), Some(id)) = (string(line, br#""method":""#), token(line, br#""id":"#)) else { return };
        match method {
            b"tools/call" => match string(line, br#""name":""#) {
                Some(b"storm") => {
                    let progress = std::str::from_utf8(token(line, br#""progressToken":"#).unwrap()).unwrap();
                    for number in 0..self.size(line) {
                        out.message(format_args!(
                            concat!(
                                r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"#,
                                r#""progressToken":{},"progress":{},"total":1000000,"message":"files read"}}}}"#
                            ),
                            progress, number
                        ));
                    }
                    out.result(id, &[self.complete(), CONTENT]);
                }
                Some(b"large") => {
                    let size = self.size(line);
                    if self.large.0 != size {
                        self.large = (size, text(size));
                    }
                    out.result(
                        id,
                        &[self.complete(), r#""content":[{"type":"text","text":""#, &self.large.1, r#""}]}"#],
                    );
                }
                _ => out.result(id, &[self.complete(), CONTENT]),
            },
            b"tools/list" => {
                let page = string(line, br#""cursor":""#).map_or(0, |cursor| number(cursor).unwrap());
                out.result(id, &[&self.pages[page]]);
            }
            b"server/discover" if self.is_modern => out.result(
                id,
                &[concat!(
                    r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"#,
                    r#""ttlMs":0,"cacheScope":"private","_meta":{"#,
                    r#""io.modelcontextprotocol/serverInfo":{"name":"bench-server","version":"1.2.3"}}}"#
                )],
            ),
            b"initialize" if !self.is_modern => out.result(
                id,
                &[concat!(
                    r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"#,
                    r#""serverInfo":{"name":"bench-server","version":"1.2.3"}}"#
                )],
            ),
            b"ping" => out.result(id, &["{}"]),
            _ => out.error(id),
        }
    }

    /// How a result begins.
    const fn complete(&self) -> &'static str {
        if self.is_modern { r#"{"resultType":"complete","# } else { "{" }
    }

    /// The argument of a tool.
    fn size(&self, line: &[u8]) -> usize {
        number(token(line, br#""size":"#).unwrap()).unwrap()
    }
}

/// Where messages go.
struct Answer<'a> {
    out: &'a mut Vec<u8>,
    /// Of an event stream.
    is_stream: bool,
    /// Writes what there is, if it is a burst.
    flush: &'a mut dyn FnMut(&mut Vec<u8>),
}

impl Answer<'_> {
    fn message(&mut self, message: std::fmt::Arguments<'_>) {
        self.begin();
        self.out.write_fmt(message).unwrap();
        self.end();
    }

    fn result(&mut self, id: &[u8], parts: &[&str]) {
        self.begin();
        self.out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        self.out.extend_from_slice(id);
        self.out.extend_from_slice(br#","result":"#);
        for piece in parts.iter().flat_map(|part| part.as_bytes().chunks(BURST)) {
            self.out.extend_from_slice(piece);
            if self.out.len() >= BURST {
                (self.flush)(self.out);
            }
        }
        self.out.push(b'}');
        self.end();
    }

    fn error(&mut self, id: &[u8]) {
        self.begin();
        self.out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        self.out.extend_from_slice(id);
        self.out.extend_from_slice(br#","error":{"code":-32601,"message":"Method not found"}}"#);
        self.end();
    }

    fn begin(&mut self) {
        if self.is_stream {
            self.out.extend_from_slice(b"event: message\ndata: ");
        }
    }

    fn end(&mut self) {
        self.out.extend_from_slice(if self.is_stream { b"\n\n" } else { b"\n" });
        if self.out.len() >= BURST {
            (self.flush)(self.out);
        }
    }
}

/// A tool of about 600 bytes.
fn tool(number: usize) -> String {
    let name = match number {
        0 => "echo".into(),
        1 => "storm".into(),
        2 => "large".into(),
        _ => format!("github_create_issue_{number:04}"),
    };
    format!(
        concat!(
            r#"{{"name":"{name}","title":"github create_issue","#,
            r#""description":"Run create_issue against a github repository. Returns the new object's number and URL. "#,
            r#"Fails if the caller lacks write access.","inputSchema":{{"type":"object","properties":{{"#,
            r#""owner":{{"type":"string","description":"Repository owner"}},"#,
            r#""repo":{{"type":"string","description":"Repository name"}},"#,
            r#""title":{{"type":"string","minLength":1,"maxLength":256}},"#,
            r#""labels":{{"type":"array","items":{{"type":"string"}},"description":"Labels to apply"}}}},"#,
            r#""required":["owner","repo","title"],"additionalProperties":true}},"#,
            r#""annotations":{{"readOnlyHint":false,"idempotentHint":false}}}}"#
        ),
        name = name
    )
}

/// A text of this size in JSON: lines of a log.
fn text(size: usize) -> String {
    let line = r"2026-11-29T12:00:00Z INFO  worker 7: wrote 4096 bytes to \/var\/lib\/widgets\/00017.db in 3 ms\n";
    let mut text = line.repeat(size / line.len() + 1);
    text.truncate(size - 1);
    text.truncate(text.trim_end_matches('\\').len());
    text
}

/// The value of a member that is a string without escapes.
fn string<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let rest = &line[memmem::find(line, name)? + name.len()..];
    Some(&rest[..memchr::memchr(b'"', rest)?])
}

/// The value of a member that is a number, or a string without commas.
fn token<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let rest = &line[memmem::find(line, name)? + name.len()..];
    Some(&rest[..memchr::memchr2(b',', b'}', rest)?])
}

fn number(text: &[u8]) -> Option<usize> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn lines(mut server: Server) -> io::Result<()> {
    // Past the buffers of the standard library, which copy.
    let mut stdin = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let (mut input, mut end) = (vec![0; BURST], 0);
    let mut out = Vec::new();
    loop {
        let len = stdin.read(&mut input[end..])?;
        if len == 0 {
            return Ok(());
        }
        end += len;
        let mut start = 0;
        while let Some(length) = memchr::memchr(b'\n', &input[start..end]) {
            let line = &input[start..start + length];
            let mut flush = |out: &mut Vec<u8>| write(&mut stdout, out);
            server.answer(line, &mut Answer { out: &mut out, is_stream: false, flush: &mut flush });
            start += length + 1;
        }
        input.copy_within(start..end, 0);
        end -= start;
        if end == input.len() {
            input.resize(end * 2, 0);
        }
        if !out.is_empty() {
            write(&mut stdout, &mut out);
        }
    }
}

fn write(stdout: &mut File, out: &mut Vec<u8>) {
    if stdout.write_all(out).is_err() {
        std::process::exit(0);
    }
    out.clear();
}

fn serve(server: Server, answers_with_events: bool) -> io::Result<()> {
    std::thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let tasks = LocalSet::new();
    tasks.block_on(&runtime, async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        println!("{}", listener.local_addr()?.port());
        let server = Rc::new(RefCell::new(server));
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let server = Rc::clone(&server);
            tokio::task::spawn_local(async move {
                let service = service_fn(|request| exchange(&server, answers_with_events, request));
                let _ =
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    })
}

async fn exchange(
    server: &RefCell<Server>,
    answers_with_events: bool,
    request: Request<Incoming>,
) -> Result<Response<Content>, hyper::Error> {
    let mut response = Response::new(Content::Whole(None));
    match *request.method() {
        Method::POST => {
            let body = request.into_body().collect().await?.to_bytes();
            let mut out = Vec::new();
            let mut answer = Answer { out: &mut out, is_stream: answers_with_events, flush: &mut |_| {} };
            server.borrow_mut().answer(&body, &mut answer);
            if out.is_empty() {
                *response.status_mut() = StatusCode::ACCEPTED;
                return Ok(response);
            }
            let kind = if answers_with_events { "text/event-stream" } else { "application/json" };
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            if memmem::find(&body, br#""method":"initialize""#).is_some() {
                response.headers_mut().insert("mcp-session-id", HeaderValue::from_static("7d0a2b3e-session"));
            }
            *response.body_mut() = Content::Whole(Some(out.into()));
        }
        Method::GET => {
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
            *response.body_mut() = Content::Open;
        }
        _ => {}
    }
    Ok(response)
}

enum Content {
    Whole(Option<Bytes>),
    /// A stream that never ends.
    Open,
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Open => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Open => SizeHint::new(),
        }
    }
}
