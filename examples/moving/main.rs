//! Calls a tool many times over HTTP, and survives being killed: it saves its session before it sends anything, and
//! another process continues with the same server.
//!
//! ```sh
//! cargo run -p mcp-proto-examples --bin moving -- http://127.0.0.1:3001/mcp state.json work 20
//! ```
//!
//! The arguments of the tool are `{"n": 0}`, `{"n": 1}` and so on. At the end it prints a line per call.

mod exchanges;

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mcp_proto::binding::http::HttpAction;
use mcp_proto::{Client, Event, Http, Moved, Options, Outcome, RawValue, Request, RequestId, Secrets, Snapshot, Time};
use mcp_proto_tokio::HttpClient;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use self::exchanges::{Exchanges, give};

/// What the file has: the session, and what this program knows of its requests.
#[derive(Serialize, Deserialize)]
struct Saved {
    session: Snapshot,
    book: Book,
}

#[derive(Default, Serialize, Deserialize)]
struct Book {
    open: BTreeMap<RequestId, u32>,
    ended: BTreeMap<u32, String>,
}

/// A time that continues in the next process.
fn now() -> Time {
    Time::from_epoch(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Replaces the file as a whole, so that a kill leaves the old one or the new one.
fn save(file: &Path, session: &Client<Http>, book: Book) -> Result<Book, Box<dyn Error>> {
    let saved = Saved { session: session.snapshot(Secrets::Included), book };
    let next = file.with_extension("next");
    fs::write(&next, serde_json::to_vec(&saved)?)?;
    fs::rename(&next, file)?;
    Ok(saved.book)
}

fn options() -> Options {
    let mut options = Options::new("moving", "1.0");
    options.limits.in_flight = 4;
    options
}

fn start(http: Http, tool: &str, calls: u32) -> Result<(Client<Http>, Book), Box<dyn Error>> {
    let mut session = Client::new(http, options(), RandomState::new().build_hasher().finish());
    let mut book = Book::default();
    session.open(now())?;
    for n in 0..calls {
        let arguments = RawValue::from_string(format!(r#"{{"n": {n}}}"#))?;
        book.open.insert(session.request(now(), Request::call_tool(tool, Some(&arguments)))?, n);
    }
    Ok((session, book))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let [url, file, tool, calls] = &args[..] else { return Err("usage: moving URL FILE TOOL CALLS".into()) };
    let (http, file) = (Http::new(url)?, Path::new(file));
    let (mut session, mut book) = if file.exists() {
        let Saved { session, book } = serde_json::from_slice(&fs::read(file)?)?;
        // The exchanges ended with the other process. What it sent may have run, and is not sent again.
        (Client::from_snapshot(http, options(), &session, Moved::WithoutTransport)?, book)
    } else {
        start(http, tool, calls.parse()?)?
    };
    let mut exchanges = Exchanges::new(HttpClient::new()?);
    let mut is_closing = false;
    loop {
        let mut requests = Vec::new();
        while let Some(action) = session.poll() {
            match action {
                HttpAction::Request(request) => requests.push(request),
                HttpAction::Drop(exchange) => exchanges.drop(exchange),
                HttpAction::Event(Event::Finished { request, outcome, .. }) => {
                    if let Some(n) = book.open.remove(&request) {
                        book.ended.insert(n, name(&outcome));
                    }
                }
                HttpAction::Event(_) | _ => {}
            }
        }
        book = save(file, &session, book)?;
        if session.is_closed() {
            break;
        }
        // Only what is in the file is sent.
        for request in requests {
            exchanges.start(request);
        }
        if book.open.is_empty() && !is_closing {
            is_closing = true;
            session.close(now())?;
            continue;
        }
        let wait = session.deadline().map_or(Duration::MAX, |deadline| deadline.since(now()));
        match timeout(wait, exchanges.next()).await {
            Ok(Some((exchange, piece))) => give(&mut session, now(), exchange, &piece),
            Ok(None) | Err(_) => session.handle_timeout(now()),
        }
    }
    for (n, outcome) in &book.ended {
        println!("{n} {outcome}");
    }
    Ok(())
}

fn name(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Result(_) => "result".into(),
        Outcome::Unknown => "unknown".into(),
        Outcome::Error(_)
        | Outcome::InputRequired(_)
        | Outcome::NotAdvertised
        | Outcome::TimedOut(_)
        | Outcome::Cancelled
        | Outcome::NotSent
        | _ => format!("{outcome:?}"),
    }
}
