//! A gateway to a server over HTTP that outgrows one process: its sessions are in Valkey, any number of gateways share one
//! port, and when one is killed, the others continue its sessions.
//!
//! ```sh
//! cargo run -p mcp-proto-examples --bin gateway -- 127.0.0.1:7000 redis://127.0.0.1:6379 http://127.0.0.1:3001/mcp
//! ```
//!
//! A user connects to the port, sends lines of JSON, and gets some. The first line names the session, and the first one back
//! says in which record the store has it. `seen` says that the user has the outcomes of all calls before that number.
//!
//! ```text
//! > {"session": "ada"}
//! < {"gateway": 4711, "record": "09c2e8d1a7b3f465"}
//! > {"call": 1, "seen": 1, "record": "09c2e8d1a7b3f465", "tool": "work", "arguments": {"n": 7}}
//! < {"call": 1, "outcome": {"type": "result", "value": {"content": []}}}
//! > {"close": true}
//! ```
//!
//! A reply is one line, whatever the server sent: a line break in its JSON becomes a space.
//!
//! A user whose connection broke connects again, and repeats each call without an outcome under its number, and with the
//! record that it was first sent with. Such a call runs once at most: its outcome is `unknown` if it may have run and the
//! response was lost.
//!
//! # When the store loses its data
//! A gateway whose store lost the lease of a session lets go of it, as if another process held it, and the calls in flight
//! with it. The next connection begins another session, in another record. A call that names a former record is not sent:
//! its outcome is `unknown`, because the former session may have run it. The same holds for a session that was closed, or
//! that nobody used for a day. While the store cannot be reached, connections end, and nothing is sent.
//!
//! What is not noticed is a store that goes back to an older state of the same record: a call that was saved since then runs
//! again. So the store has to have on its disk what it acknowledged (`appendfsync always`), must not evict
//! (`maxmemory-policy noeviction`), and must not fail over to a replica that lags behind.
//!
//! # What a user does not read
//! A user who does not read its replies loses the connection, and not the session. Calls are refused while the user has not
//! seen 64 outcomes, or 256 KiB of them; so what is saved of a session has a bound.
//!
//! It does not authenticate its users. The store has arguments, results and ids of sessions: protect it as those.

#[path = "../moving/exchanges.rs"]
mod exchanges;
mod store;

use std::error::Error;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mcp_proto::binding::http::HttpAction;
use mcp_proto::{Client, Event, Http, Moved, Options, Outcome, RawValue, Request, Secrets, Time};
use mcp_proto_tokio::HttpClient;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::{interval, sleep, timeout};

use self::exchanges::{Exchanges, give};
use self::store::{Book, LEASE, Lease, RENEWAL, Saved};

/// Maximum bytes of a line of a user, and of a message of the server.
const LINE: u64 = 1 << 20;
/// Maximum number of calls whose outcomes the user has not seen, and bytes of these outcomes.
const UNSEEN: usize = 64;
const UNSEEN_BYTES: usize = 256 << 10;

#[derive(Deserialize)]
struct Hello {
    session: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Call { call: u64, seen: u64, record: String, tool: String, arguments: serde_json::Map<String, serde_json::Value> },
    Close { close: bool },
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Answer<'a> {
    Outcome(&'a Outcome),
    /// It did not run.
    Refused(String),
}

#[derive(Serialize)]
struct Reply<'a> {
    call: u64,
    #[serde(flatten)]
    answer: Answer<'a>,
}

/// What the connections of a process share.
#[derive(Clone)]
struct Gateway {
    store: ConnectionManager,
    http_client: HttpClient,
    http: Http,
}

struct Session {
    client: Client<Http>,
    book: Book,
    is_closing: bool,
}

/// A time that continues in another process.
fn now() -> Time {
    Time::from_epoch(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

impl Session {
    fn new(http: Http, saved: Option<Saved>) -> Result<Self, Box<dyn Error>> {
        let mut options = Options::new("gateway", "1.0");
        options.limits.in_flight = 4;
        options.limits.message.bytes = LINE as usize;
        let mut book = Book::new();
        if let Some(saved) = saved {
            // The exchanges ended with the other process. What it sent may have run, and is not sent again.
            let moved = Moved::WithoutTransport;
            let client = Client::from_snapshot(http.clone(), options.clone(), &saved.client, moved)?;
            if !client.is_closed() {
                return Ok(Self { client, book: saved.book, is_closing: false });
            }
            // The server could not be reached. The calls have ended, and their outcomes are in the book.
            book = saved.book;
        }
        let mut client = Client::new(http, options, RandomState::new().hash_one("seed"));
        client.open(now())?;
        Ok(Self { client, book, is_closing: false })
    }

    /// Takes a line of the user. The reply, if there is one at once, is of what is saved or did not run.
    fn take(&mut self, line: &[u8]) -> Result<Option<String>, Box<dyn Error>> {
        let (call, seen, record, tool, arguments) = match serde_json::from_slice(line)? {
            Line::Call { call, seen, record, tool, arguments } => (call, seen, record, tool, arguments),
            Line::Close { close } => {
                self.is_closing = close;
                self.client.close(now())?;
                return Ok(None);
            }
        };
        let book = &mut self.book;
        if record != book.record {
            return Ok(Some(reply(call, Answer::Outcome(&Outcome::Unknown))?));
        }
        book.seen = book.seen.max(seen);
        book.ended = book.ended.split_off(&book.seen);
        if let Some(reply) = book.ended.get(&call) {
            return Ok(Some(reply.clone()));
        }
        if book.open.values().any(|open| *open == call) {
            return Ok(None);
        }
        if call < book.seen {
            return Ok(Some(reply(call, Answer::Refused("its outcome was seen".into()))?));
        }
        let bytes: usize = book.ended.values().map(String::len).sum();
        if book.ended.len().saturating_add(book.open.len()) >= UNSEEN || bytes >= UNSEEN_BYTES {
            return Ok(Some(reply(call, Answer::Refused("too much was not seen".into()))?));
        }
        let arguments = serde_json::value::to_raw_value(&arguments)?;
        match self.client.request(now(), Request::call_tool(&tool, Some::<&RawValue>(&arguments))) {
            Ok(request) => drop(book.open.insert(request, call)),
            Err(error) => return Ok(Some(reply(call, Answer::Refused(error.to_string()))?)),
        }
        Ok(None)
    }
}

fn reply(call: u64, answer: Answer<'_>) -> serde_json::Result<String> {
    // The server's JSON may have line breaks, each of which would begin another reply. Strings have none, only white space has.
    serde_json::to_string(&Reply { call, answer }).map(|text| text.replace(['\n', '\r'], " ") + "\n")
}

/// The lines of a user. Their end ends the channel.
fn lines(user: OwnedReadHalf) -> Receiver<Vec<u8>> {
    let (sender, lines) = channel(16);
    tokio::spawn(async move {
        let mut user = BufReader::new(user).take(LINE);
        let mut line = Vec::new();
        while user.read_until(b'\n', &mut line).await.is_ok_and(|_| line.ends_with(b"\n")) {
            if sender.send(std::mem::take(&mut line)).await.is_err() {
                return;
            }
            user.set_limit(LINE);
        }
    });
    lines
}

impl Gateway {
    async fn serve(self, user: TcpStream) -> Result<(), Box<dyn Error>> {
        let (input, mut user) = user.into_split();
        let mut lines = lines(input);
        let Some(line) = lines.recv().await else { return Ok(()) };
        let Hello { session: name } = serde_json::from_slice(&line)?;
        let mut lease = Lease::take(self.store.clone(), &name).await?;
        let mut session = Session::new(self.http.clone(), lease.load().await?)?;
        let mut exchanges = Exchanges::new(self.http_client.clone());
        let mut renewal = interval(RENEWAL);
        let record = &session.book.record;
        let mut replies = vec![format!("{{\"gateway\": {}, \"record\": \"{record}\"}}\n", std::process::id())];
        let mut is_due = true;
        let mut is_gone = false;
        loop {
            let mut requests = Vec::new();
            while let Some(action) = session.client.poll() {
                match action {
                    HttpAction::Request(request) => requests.push(request),
                    HttpAction::Drop(exchange) => exchanges.drop(exchange),
                    HttpAction::Event(Event::Finished { request, outcome, .. }) => {
                        if let Some(call) = session.book.open.remove(&request) {
                            let reply = reply(call, Answer::Outcome(&outcome))?;
                            replies.push(reply.clone());
                            session.book.ended.insert(call, reply);
                        }
                    }
                    HttpAction::Event(_) | _ => {}
                }
            }
            // What leaves is saved first: a call that is sent as sent, an outcome that is told as told. If this process is
            // killed in between, the call is unknown, and does not run again. If it was slow, and another one holds the
            // session by now, nothing leaves.
            if is_due || !requests.is_empty() || !replies.is_empty() {
                let saved = Saved { client: session.client.snapshot(Secrets::Included), book: session.book };
                lease.save(&saved).await?;
                session.book = saved.book;
            }
            for request in requests {
                exchanges.start(request);
            }
            // A user who does not read loses the connection, and not the session.
            let written = timeout(RENEWAL, user.write_all(replies.concat().as_bytes())).await;
            is_gone = is_gone || !matches!(written, Ok(Ok(())));
            replies.clear();
            if session.client.is_closed() || is_gone && session.book.open.is_empty() {
                return lease.release(session.is_closing).await;
            }
            let wait = session.client.deadline().map_or(Duration::MAX, |deadline| deadline.since(now()));
            is_due = false;
            tokio::select! {
                line = lines.recv(), if !is_gone => match line {
                    Some(line) => replies.extend(session.take(&line)?),
                    None => is_gone = true,
                },
                Some((exchange, piece)) = exchanges.next() => give(&mut session.client, now(), exchange, &piece),
                () = sleep(wait) => session.client.handle_timeout(now()),
                _ = renewal.tick() => is_due = true,
            }
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let [address, store, url] = &args[..] else { return Err("usage: gateway ADDRESS STORE URL".into()) };
    // After that time, the lease is over.
    let config = ConnectionManagerConfig::new().set_response_timeout(Some(LEASE));
    let store = ConnectionManager::new_with_config(redis::Client::open(store.as_str())?, config).await?;
    let gateway = Gateway { store, http_client: HttpClient::new()?, http: Http::new(url)? };
    let socket = tokio::net::TcpSocket::new_v4()?;
    // Each process has a socket of its own at the port, and the system gives each connection to one of them.
    #[cfg(unix)]
    socket.set_reuseport(true)?;
    socket.bind(address.parse()?)?;
    let listener = socket.listen(1024)?;
    loop {
        let (user, _) = listener.accept().await?;
        let gateway = gateway.clone();
        tokio::spawn(async move {
            if let Err(error) = gateway.serve(user).await {
                eprintln!("{error}");
            }
        });
    }
}
