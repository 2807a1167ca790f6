//! Many sessions with one server, while a proxy cuts their connections at random. Every accepted call must end exactly
//! once, with its own response if there is one, and every session must be ready at the end.
//!
//! ```sh
//! cargo run -p mcp-proto-examples --bin loopback -- SESSIONS SECONDS SEED URL TOOL ARGUMENTS WORD
//! ```
//!
//! In ARGUMENTS and in WORD, which each response must contain, `$` stands for the number of the call.

#[path = "../http/driver.rs"]
mod driver;
#[path = "../http/exchanges.rs"]
mod exchanges;
mod proxy;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mcp_proto::{Cause, CommandError, Event, Http, Options, Outcome, RawValue, Reconnect, Request, RequestId};
use reqwest::header::HeaderMap;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use self::driver::{Driver, Next};
use self::proxy::Faults;

/// Calls in flight per session, and how often that number is restored.
const CALLS: usize = 2;
const PACE: Duration = Duration::from_millis(200);
/// Maximum time for a session to be ready again and for its calls to end, once connections are stable.
const PATIENCE: Duration = Duration::from_secs(60);

struct Setup {
    http: Http,
    tool: String,
    arguments: String,
    word: String,
    clients: exchanges::Clients,
    start: Instant,
    /// When connections become stable, after the start.
    calm: Duration,
}

/// The results of a session and its calls.
#[derive(Default)]
struct Tally {
    accepted: usize,
    /// The number of calls by outcome.
    ends: BTreeMap<&'static str, usize>,
    reconnects: usize,
    /// Sessions that were ready at the end.
    ready: u64,
    /// Violated expectations.
    wrong: Vec<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [sessions, seconds, seed, url, tool, arguments, word] = args.as_slice() else {
        return Err("usage: loopback SESSIONS SECONDS SEED URL TOOL ARGUMENTS WORD".into());
    };
    let (sessions, seconds, seed): (u64, _, u64) =
        (sessions.parse()?, Duration::from_secs(seconds.parse()?), seed.parse()?);
    let url: http::Uri = url.parse()?;
    let authority = url.authority().ok_or("the URL has no host")?.as_str();
    let target = tokio::net::lookup_host(authority).await?.next().ok_or("the host has no address")?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let setup = Arc::new(Setup {
        http: Http::new(&format!("http://{}{path}", listener.local_addr()?))?,
        tool: tool.clone(),
        arguments: arguments.clone(),
        word: word.clone(),
        clients: exchanges::clients()?,
        start: Instant::now(),
        calm: seconds,
    });
    let faults = Arc::new(Faults::default());
    let proxy = tokio::spawn(proxy::run(listener, target, seed, Arc::clone(&faults)));
    let mut running: JoinSet<Tally> = (0..sessions).map(|number| session(Arc::clone(&setup), number)).collect();
    sleep(setup.calm).await;
    faults.over.store(true, Ordering::Relaxed);
    let mut total = Tally::default();
    while let Some(tally) = running.join_next().await {
        total.add(tally?);
    }
    if proxy.is_finished() {
        total.wrong.push(format!("the proxy ended: {:?}", proxy.await));
    }
    Ok(report(sessions, &total, &faults))
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.accepted = self.accepted.saturating_add(other.accepted);
        self.reconnects = self.reconnects.saturating_add(other.reconnects);
        self.ready = self.ready.saturating_add(other.ready);
        for (kind, count) in other.ends {
            self.end(kind, count);
        }
        self.wrong.extend(other.wrong);
    }

    fn end(&mut self, kind: &'static str, count: usize) {
        let ends = self.ends.entry(kind).or_default();
        *ends = ends.saturating_add(count);
    }
}

fn report(sessions: u64, total: &Tally, faults: &Faults) -> ExitCode {
    let count = |counter: &std::sync::atomic::AtomicUsize| counter.load(Ordering::Relaxed);
    let (connections, cuts, outages) = (count(&faults.connections), count(&faults.cuts), count(&faults.outages));
    println!("{connections} connections, {cuts} of them cut, {outages} outages");
    println!("{sessions} sessions, {} ready in the end, opened again {} times", total.ready, total.reconnects);
    let ended = total.ends.values().sum::<usize>();
    let mut ends = String::new();
    for (kind, count) in &total.ends {
        let _ = write!(ends, ", {count} {kind}");
    }
    println!("{} calls accepted, {ended} ended{ends}", total.accepted);
    for wrong in total.wrong.iter().take(20) {
        println!("WRONG {wrong}");
    }
    // A run without faults proves nothing.
    let shown = cuts > 0 && outages > 0 && ["result", "unknown"].iter().all(|kind| total.ends.contains_key(kind));
    println!("{} wrong{}", total.wrong.len(), if shown { "" } else { "; and too little happened" });
    let sound = total.wrong.is_empty() && total.ready == sessions && total.accepted == ended;
    if shown && sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A session with its calls.
struct Caller {
    setup: Arc<Setup>,
    number: u64,
    driver: Driver,
    /// Calls in flight, with the word that the response must contain.
    open: BTreeMap<RequestId, String>,
    ended: BTreeSet<RequestId>,
    calls: u64,
    ready: usize,
    /// The call that was made once connections were stable.
    last: Option<RequestId>,
    tally: Tally,
}

async fn session(setup: Arc<Setup>, number: u64) -> Tally {
    let mut options = Options::new("loopback", "1.0");
    let mut reconnect = Reconnect::default();
    reconnect.initial_backoff = Duration::from_millis(100);
    reconnect.parked_backoff = Duration::from_secs(2);
    options.reconnect = Some(reconnect);
    let driver = Driver::new(options, number, setup.http.clone(), setup.clients.clone(), HeaderMap::new());
    let (open, ended) = (BTreeMap::new(), BTreeSet::new());
    let tally = Tally::default();
    let mut caller = Caller { setup, number, driver, open, ended, calls: 0, ready: 0, last: None, tally };
    // Sessions do not start at the same moment.
    sleep(Duration::from_millis(number)).await;
    match caller.run().await {
        Ok(()) => caller.tally.ready = 1,
        Err(wrong) => caller.tally.wrong.push(format!("session {number}: {wrong}")),
    }
    caller.tally.reconnects = caller.ready.saturating_sub(1);
    caller.tally
}

impl Caller {
    async fn run(&mut self) -> Result<(), String> {
        let now = self.driver.now();
        self.driver.session.open(now).map_err(|misuse| misuse.to_string())?;
        let mut pause = Duration::ZERO;
        loop {
            let elapsed = self.setup.start.elapsed();
            if elapsed >= self.setup.calm.saturating_add(PATIENCE) {
                let state = if self.driver.session.is_ready() { "ready" } else { "not ready" };
                return Err(format!("{state}, {} calls without an end", self.open.len()));
            }
            let calm = elapsed >= self.setup.calm;
            let idle = self.open.is_empty() && self.driver.session.is_ready();
            match self.last {
                None if !calm && self.ready > 0 && elapsed >= pause => {
                    pause = elapsed.saturating_add(PACE);
                    while self.open.len() < CALLS {
                        self.call()?;
                    }
                }
                None if calm && idle => self.last = Some(self.call()?),
                Some(_) if idle => return self.close().await,
                None | Some(_) => {}
            }
            if let Ok(next) = timeout(PACE, self.driver.next()).await
                && let Next::Event(event) = next.ok_or("closed without a word")?
            {
                self.take(event)?;
            }
        }
    }

    fn call(&mut self) -> Result<RequestId, String> {
        self.calls = self.calls.saturating_add(1);
        let id = format!("{}-{}.", self.number, self.calls);
        let arguments =
            RawValue::from_string(self.setup.arguments.replace('$', &id)).map_err(|error| error.to_string())?;
        // Every other call allows a replay if its exchange breaks.
        let request = Request::call_tool(&self.setup.tool, Some(&arguments)).replay(self.calls.is_multiple_of(2));
        let now = self.driver.now();
        let accepted = self.driver.session.request(now, request).map_err(|misuse: CommandError| misuse.to_string())?;
        self.tally.accepted = self.tally.accepted.saturating_add(1);
        self.open.insert(accepted, self.setup.word.replace('$', &id));
        Ok(accepted)
    }

    fn take(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Ready => self.ready = self.ready.saturating_add(1),
            Event::Finished { request, outcome, .. } => return self.finished(request, &outcome),
            Event::Closed { cause: Cause::Failed(failure) } => return Err(format!("closed: {failure}")),
            Event::CatalogChanged { .. }
            | Event::InputRequired { .. }
            | Event::Unauthorized { .. }
            | Event::ServerRequest { .. }
            | Event::ServerRequestEnded { .. }
            | Event::Progress { .. }
            | Event::Subscription { .. }
            | Event::ResourceUpdated { .. }
            | Event::Log { .. }
            | Event::LogLevelFailed { .. }
            | Event::Notification { .. }
            | Event::Quirk(_)
            | Event::Down { .. }
            | Event::Closed { .. }
            | _ => {}
        }
        Ok(())
    }

    fn finished(&mut self, request: RequestId, outcome: &Outcome) -> Result<(), String> {
        if !self.ended.insert(request) {
            return Err("a call ended twice".into());
        }
        let word = self.open.remove(&request).ok_or("a call ended that was not made")?;
        let kind = match outcome {
            Outcome::Result(result) if !result.get().contains(&word) => {
                return Err(format!("a call with {word} was answered with {result}"));
            }
            Outcome::Result(_) => "result",
            Outcome::Unknown => "unknown",
            Outcome::NotSent => "not sent",
            Outcome::TimedOut(_) => "timed out",
            Outcome::Error(error) => return Err(format!("a call was answered with an error: {error:?}")),
            Outcome::InputRequired(_) | Outcome::NotAdvertised | Outcome::Cancelled | _ => {
                return Err(format!("a call ended oddly: {outcome:?}"));
            }
        };
        self.tally.end(kind, 1);
        if self.last == Some(request) && kind != "result" {
            return Err(format!("the last call ended {kind}"));
        }
        Ok(())
    }

    async fn close(&mut self) -> Result<(), String> {
        let now = self.driver.now();
        self.driver.session.close(now).map_err(|misuse| misuse.to_string())?;
        loop {
            match timeout(PATIENCE, self.driver.next()).await {
                Ok(Some(Next::Event(Event::Closed { cause: Cause::Requested }))) => return Ok(()),
                Ok(Some(Next::Event(event))) => self.take(event)?,
                Ok(Some(Next::OAuth(_))) => {}
                Ok(None) => return Err("closed without a word".into()),
                Err(_) => return Err("it does not close".into()),
            }
        }
    }
}
