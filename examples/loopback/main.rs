//! Many sessions with one server, while a proxy cuts their connections at random. Every accepted call must end exactly
//! once, with its own response if there is one, and every session must be ready at the end.
//!
//! ```sh
//! cargo run -p mcp-proto-examples --bin loopback -- SESSIONS SECONDS SEED URL TOOL ARGUMENTS WORD
//! ```
//!
//! In ARGUMENTS and in WORD, which each response must contain, `$` stands for the number of the call.

mod proxy;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mcp_proto::{Event, Options, Outcome, RawValue, Reconnect, Request};
use mcp_proto_tokio::{CallError, CallErrorKind, Host, HttpClient, Remote, Reply, Session, Status};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use self::proxy::Faults;

/// Calls in flight per session, and how often that number is restored.
const CALLS: usize = 2;
const PACE: Duration = Duration::from_millis(200);
/// Maximum time for a session to be ready again and for its calls to end, once connections are stable.
const PATIENCE: Duration = Duration::from_secs(60);

struct Setup {
    server: Remote,
    tool: String,
    arguments: String,
    word: String,
    client: HttpClient,
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
        server: Remote::new(&format!("http://{}{path}", listener.local_addr()?))?,
        tool: tool.clone(),
        arguments: arguments.clone(),
        word: word.clone(),
        client: HttpClient::new()?,
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
struct Caller<'a> {
    setup: &'a Setup,
    number: u64,
    session: Session,
    /// Calls in flight: each ends with its number.
    open: JoinSet<(u64, Result<Reply, CallError>)>,
    calls: u64,
    /// The call that was made once connections were stable.
    last: Option<u64>,
    tally: &'a mut Tally,
}

async fn session(setup: Arc<Setup>, number: u64) -> Tally {
    let mut tally = Tally::default();
    // Sessions do not start at the same moment.
    sleep(Duration::from_millis(number)).await;
    match start(&setup, number, &mut tally).await {
        Ok(()) => tally.ready = 1,
        Err(wrong) => tally.wrong.push(format!("session {number}: {wrong}")),
    }
    tally
}

async fn start(setup: &Setup, number: u64, tally: &mut Tally) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut options = Options::new("loopback", "1.0");
    let mut reconnect = Reconnect::default();
    reconnect.initial_backoff = Duration::from_millis(100);
    reconnect.parked_backoff = Duration::from_secs(2);
    options.reconnect = Some(reconnect);
    let host = Host::new(options).http(setup.client.clone());
    let session = Session::start(setup.server.clone(), host)?;
    Caller { setup, number, session, open: JoinSet::new(), calls: 0, last: None, tally }.run().await
}

impl Caller<'_> {
    async fn run(&mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        let mut events = self.session.events();
        let (mut pause, mut ready) = (Duration::ZERO, 0_usize);
        loop {
            let elapsed = self.setup.start.elapsed();
            if elapsed >= self.setup.calm.saturating_add(PATIENCE) {
                return Err(format!("{:?}, {} calls without an end", self.session.status(), self.open.len()).into());
            }
            let calm = elapsed >= self.setup.calm;
            let idle = self.open.is_empty() && self.session.status() == Status::Ready;
            match self.last {
                None if !calm && ready > 0 && elapsed >= pause => {
                    pause = elapsed.saturating_add(PACE);
                    while self.open.len() < CALLS && self.call()? {}
                }
                None if calm && idle => {
                    if self.call()? {
                        self.last = Some(self.calls);
                    }
                }
                Some(_) if idle => return self.close().await,
                None | Some(_) => {}
            }
            tokio::select! {
                event = events.next() => match event {
                    Some(Event::Ready) => {
                        ready = ready.saturating_add(1);
                        self.tally.reconnects = ready.saturating_sub(1);
                    }
                    Some(_) => {}
                    None => return Err(format!("closed: {:?}", self.session.closed().await).into()),
                },
                Some(ended) = self.open.join_next() => {
                    let (call, reply) = ended?;
                    self.ended(call, reply)?;
                }
                () = sleep(PACE) => {}
            }
        }
    }

    /// The text with the number of a call.
    fn of_call(&self, text: &str, call: u64) -> String {
        text.replace('$', &format!("{}-{call}.", self.number))
    }

    /// Makes a call. Returns whether it was accepted: none is while the session gave up for some time.
    fn call(&mut self) -> Result<bool, Box<dyn Error + Send + Sync>> {
        let call = self.calls.saturating_add(1);
        let arguments = RawValue::from_string(self.of_call(&self.setup.arguments, call))?;
        // Every other call allows a replay if its exchange breaks.
        let request = Request::call_tool(&self.setup.tool, Some(&arguments)).replay(call.is_multiple_of(2));
        match self.session.start_request(request) {
            Ok(started) => drop(self.open.spawn(async move { (call, started.await) })),
            Err(CallError { kind: CallErrorKind::Down(_), .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        (self.calls, self.tally.accepted) = (call, self.tally.accepted.saturating_add(1));
        Ok(true)
    }

    fn ended(&mut self, call: u64, reply: Result<Reply, CallError>) -> Result<(), String> {
        let kind = match reply.map_err(|error| error.kind) {
            Ok(reply) => {
                let word = self.of_call(&self.setup.word, call);
                if !reply.raw().get().contains(&word) {
                    return Err(format!("a call with {word} was answered with {}", reply.raw()));
                }
                "result"
            }
            Err(CallErrorKind::Ended(Outcome::Unknown)) => "unknown",
            Err(CallErrorKind::Ended(Outcome::NotSent)) => "not sent",
            Err(CallErrorKind::Ended(Outcome::TimedOut(_))) => "timed out",
            Err(kind) => return Err(format!("a call ended oddly: {kind:?}")),
        };
        self.tally.end(kind, 1);
        if self.last == Some(call) && kind != "result" {
            return Err(format!("the last call ended {kind}"));
        }
        Ok(())
    }

    async fn close(&self) -> Result<(), Box<dyn Error + Send + Sync>> {
        timeout(PATIENCE, self.session.close()).await?;
        self.session.closed().await.map_or(Ok(()), |failure| Err(failure.into()))
    }
}
