//! A hub of many sessions in virtual time: start, an idle hour, a burst of changes, calls, a reload, the end.
//!
//! Times are informative. Requests, events, allocations and held bytes are compared with their bounds, and a violation
//! fails the run. `run instructions` counts instructions, for few sessions and for ten times as many.

mod meter;
mod servers;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use mcp_proto::host::config::{Configuration, Endpoint, Entry};
use mcp_proto::host::hub::{Hub, HubAction, HubEvent, HubOptions};
use mcp_proto::host::names::{Names, Target};
use mcp_proto::{
    Action, Client, Eras, Event, Lines, Options, Outcome, RawValue, Request, ShutdownStep, Time, Transport,
};

use crate::meter::{held, measure};
use crate::servers::{Answer, Arrival, Counts, Definitions, LIST_CHANGED, Servers, TOOLS, put, tool};

const SESSIONS: u64 = 10_000;
const STARTS: usize = 64;
const MINUTE: Duration = Duration::from_secs(60);

/// Number of change notifications per server in the burst, within a second.
const CHANGES: u64 = 100;

/// Calls per session.
const CALLS: u64 = 10;

/// Calls that are measured alone, in all.
const CALLS_ALONE: u64 = 20_000;

/// What the names of the servers begin with: without `_`, and with several.
const PLAIN: &str = "s";
const UNDERSCORES: &str = "a_b_c_d_e_s";

/// The reload changes one of this many entries, removes as many and adds as many.
const RELOADED: u64 = 100;

/// Delivery time of a message.
const LATENCY: Duration = Duration::from_millis(1);

/// Maximum bytes of an idle session without its catalogue, as in DESIGN.
const IDLE: i64 = 2048;

/// Maximum bytes of the hub per server, without its session, names and catalogue.
const OWN: i64 = 512;

struct Bench {
    hub: Hub,
    servers: Servers,
    now: Time,
    latency: Duration,
    events: Events,
}

/// Counts of the hub's events.
#[derive(Default)]
struct Events {
    settled: u64,
    toolsets: u64,
    finished: u64,
    closed: u64,
    timeouts: u64,
}

/// Violated expectations.
#[derive(Default)]
struct Checks {
    failed: u32,
}

impl Checks {
    fn check(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.failed += 1;
            println!("FAILED: {}", what());
        }
    }
}

fn options() -> Options {
    let mut options = Options::new("bench", "1");
    options.eras = Eras::LegacyOnly;
    options
}

fn entry(argument: &str) -> Entry {
    let mut entry = Entry::stdio("canned-server");
    if let Endpoint::Stdio(stdio) = &mut entry.endpoint {
        stdio.args.push(argument.into());
    }
    entry
}

fn server(number: u64) -> String {
    format!("{PLAIN}{number:08}")
}

fn configuration(sessions: u64, prefix: &str) -> Configuration {
    let mut configuration = Configuration::default();
    let name = |number| format!("{prefix}{number:08}");
    configuration.servers.extend((0..sessions).map(|number| (name(number).into(), entry("first"))));
    configuration
}

/// The next of a sequence of numbers without order.
fn next(at: &mut u64) -> u64 {
    *at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *at >> 20
}

fn arguments() -> Box<RawValue> {
    RawValue::from_string(r#"{"query":"open invoices","limit":3}"#.into()).expect("JSON")
}

impl Bench {
    fn new(sessions: u64, definitions: Definitions) -> Self {
        let mut options = HubOptions::new(options());
        options.starts = STARTS;
        Self {
            hub: Hub::new(options, 0),
            servers: Servers::new(sessions as usize, definitions),
            now: Time::ZERO,
            latency: LATENCY,
            events: Events::default(),
        }
    }

    fn drain(&mut self) {
        while let Some(action) = self.hub.poll() {
            match action {
                HubAction::Send { session, message } => self.servers.take(session, &message),
                HubAction::Open { session, connection } => {
                    let name = self.hub.server(session).expect("what is opened is known");
                    self.servers.start(session, connection, name);
                }
                HubAction::Shutdown { session, how } => {
                    assert_eq!(how, ShutdownStep::CloseInput, "these servers end at once");
                    self.servers.stop(session);
                }
                HubAction::Event(event) => self.events.take(&event),
                other => panic!("{other:?}"),
            }
        }
    }

    /// Runs the hub's actions and delivers the servers' messages until neither has more.
    fn settle(&mut self) {
        loop {
            self.drain();
            if self.servers.arrivals.is_empty() {
                return;
            }
            self.now = self.now + self.latency;
            // Messages that are sent during delivery arrive later.
            let mut arrivals = std::mem::take(&mut self.servers.arrivals);
            for (session, arrival) in arrivals.drain(..) {
                match arrival {
                    Arrival::Opened(connection) => {
                        self.hub.handle_transport(self.now, session, connection, Transport::Opened);
                    }
                    Arrival::Closed(connection) => {
                        self.hub.handle_transport(self.now, session, connection, Transport::Closed { why: "gone" });
                    }
                    Arrival::Answer(answer, id) => {
                        if let Some((connection, line)) = self.servers.answer(session, answer, id) {
                            self.hub.handle_bytes(self.now, session, connection, line);
                        }
                    }
                }
            }
            self.servers.arrivals = arrivals;
        }
    }

    fn wait_until(&mut self, end: Time) {
        while let Some(deadline) = self.hub.deadline().filter(|deadline| *deadline <= end) {
            self.now = self.now.max(deadline);
            self.events.timeouts += 1;
            self.hub.handle_timeout(self.now);
            self.settle();
        }
        self.now = self.now.max(end);
    }

    #[inline(never)]
    fn open(&mut self, configuration: Configuration) {
        self.hub.configure(self.now, configuration).expect("a new hub can be configured");
        self.hub.open(self.now).expect("a new hub can be opened");
        self.settle();
    }

    #[inline(never)]
    fn keep_alive(&mut self) {
        self.wait_until(self.now + 60 * MINUTE);
    }

    /// Every server sends change notifications repeatedly; two of them report a real change.
    #[inline(never)]
    fn storm(&mut self) {
        let start = self.now;
        let handles: Vec<_> = self.servers.handles().collect();
        for round in 0..CHANGES {
            self.wait_until(start + Duration::from_millis(1000 * round / CHANGES));
            self.servers.version += usize::from(round % (CHANGES / 2) == 0);
            for (session, connection) in &handles {
                self.hub.handle_bytes(self.now, *session, *connection, LIST_CHANGED);
            }
            self.settle();
        }
        self.wait_until(start + Duration::from_secs(10));
    }

    /// Calls tools of all servers by their exposed names.
    #[inline(never)]
    fn calls(&mut self, sessions: u64, count: u64, prefix: &str, arguments: &RawValue) {
        let mut name = format!("mcp_{prefix}00000000_tool_00").into_bytes();
        let mut at = 0_u64;
        self.latency = Duration::ZERO;
        for _ in 0..count {
            let number = next(&mut at);
            put(&mut name[4 + prefix.len()..][..8], (number >> 13) % sessions, b'0');
            put(&mut name[18 + prefix.len()..], number % (TOOLS as u64 - 1), b'0');
            let name = std::str::from_utf8(&name).expect("ASCII");
            self.hub.call(self.now, name, Some(arguments)).expect("there is such a tool");
            self.settle();
        }
        self.latency = LATENCY;
    }

    #[inline(never)]
    fn reload(&mut self, configuration: Configuration) {
        self.hub.configure(self.now, configuration).expect("the hub is open");
        self.settle();
    }

    #[inline(never)]
    fn close(&mut self) {
        self.hub.close(self.now).expect("the hub is open");
        self.settle();
    }
}

impl Events {
    fn take(&mut self, event: &HubEvent) {
        match event {
            HubEvent::Settled => self.settled += 1,
            HubEvent::ToolsetChanged { .. } => self.toolsets += 1,
            HubEvent::Finished { outcome: Outcome::Result(_), .. } => self.finished += 1,
            HubEvent::Closed => self.closed += 1,
            HubEvent::Ready
            | HubEvent::Session { event: Event::Ready | Event::CatalogChanged { .. } | Event::Closed { .. }, .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Sessions without a hub, with the same options.
struct Lone {
    sessions: Vec<Client<Lines>>,
    servers: Servers,
    finished: u64,
}

impl Lone {
    fn open(options: &Arc<Options>, sessions: u64, definitions: Definitions) -> Self {
        let new = |_| Client::new(Lines::new(), Arc::clone(options), 0);
        let sessions: Vec<_> = (0..sessions).map(new).collect();
        let mut lone = Self { sessions, servers: Servers::new(0, definitions), finished: 0 };
        for at in 0..lone.sessions.len() {
            lone.sessions[at].open(Time::ZERO).expect("a new session can be opened");
            lone.settle(at);
        }
        lone
    }

    fn settle(&mut self, at: usize) {
        let session = &mut self.sessions[at];
        while let Some(action) = session.poll() {
            match action {
                Action::Open(connection) => session.handle_transport(Time::ZERO, connection, Transport::Opened),
                Action::Send(message) => {
                    let Some((answer, id)) = Answer::to(&message) else { continue };
                    let line = self.servers.line(answer, id, 0);
                    session.handle_bytes(Time::ZERO, session.connection(), line);
                }
                Action::Event(Event::Finished { outcome: Outcome::Result(_), .. }) => self.finished += 1,
                Action::Event(Event::Ready) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    #[inline(never)]
    fn calls(&mut self, count: u64, arguments: &RawValue) {
        let names: Vec<_> = (0..TOOLS).map(tool).collect();
        let (mut at, sessions) = (0, self.sessions.len());
        for name in names.iter().cycle().take(count as usize) {
            let request = Request::call_tool(name, Some(arguments));
            let session = (next(&mut at) >> 13) as usize % sessions;
            self.sessions[session].request(Time::ZERO, request).expect("the session is ready");
            self.settle(session);
        }
    }
}

/// The size of an idle session without a hub, with these tools and shared options.
fn lone_size(options: &Arc<Options>, definitions: Definitions) -> i64 {
    let Lone { sessions, .. } = Lone::open(options, 1, definitions);
    let before = held();
    drop(sessions);
    before - held()
}

/// The size of the names when all are assigned at once.
fn names_size(names: &Names) -> i64 {
    let mut servers: BTreeMap<&str, Vec<Target>> = BTreeMap::new();
    for (_, found) in names.iter() {
        servers.entry(found.server).or_default().push(found.target.clone());
    }
    let ((_servers, _names), cost) = measure(|| {
        let mut again = Names::new(names.style());
        again.update(servers.iter().map(|(server, targets)| (*server, targets.iter().cloned())));
        (servers, again)
    });
    cost.held
}

/// Opens a hub; also returns the bytes held before it had servers.
fn opened(sessions: u64, prefix: &str, definitions: Definitions, checks: &mut Checks) -> (Bench, i64) {
    let mut bench = Bench::new(sessions, definitions);
    let before = held();
    let configuration = configuration(sessions, prefix);
    let ((), cost) = measure(|| bench.open(configuration));
    let what = if definitions == Definitions::Same { "start, the same tools" } else { "start, different tools" };
    cost.print(what, "sessions", sessions);
    let lists = bench.servers.counts.lists;
    checks.check(bench.events.settled == 1, || format!("settled {} times", bench.events.settled));
    checks.check(bench.events.toolsets == sessions, || format!("{} toolsets", bench.events.toolsets));
    checks.check(lists == sessions, || format!("{lists} lists were asked for"));
    let names = bench.hub.names().len() as u64;
    checks.check(names == sessions * TOOLS as u64, || format!("{names} names"));
    (bench, before)
}

fn run(sessions: u64) -> Checks {
    // The first printed line allocates a buffer.
    println!("{sessions} sessions with {TOOLS} tools each, {STARTS} of them starting at once");
    let mut checks = Checks::default();
    let per = |bytes: i64| bytes / sessions as i64;
    let options = Arc::new(entry("first").options("canned", options()));
    let idle = lone_size(&options, Definitions::None);
    let catalog = lone_size(&options, Definitions::Same) - idle;

    let start = held();
    let (bench, before) = opened(sessions, PLAIN, Definitions::Different, &mut checks);
    let different = held() - before;
    drop(bench);
    let leaked = held() - start;
    checks.check(leaked == 0, || format!("{leaked} bytes are held by nobody"));
    let (mut bench, before) = opened(sessions, PLAIN, Definitions::Same, &mut checks);
    let same = held() - before;

    let names = names_size(bench.hub.names());
    let configured = measure(|| configuration(sessions, PLAIN)).1;
    let list = bench.servers.list_len();
    println!("held by an idle hub, in bytes a session:");
    println!("  {:>7} configuration, {:>5} session, {:>6} names", per(configured.held), idle, per(names));
    let own = per(same - configured.held - names - catalog) - idle;
    println!("  {own:>7} of the hub's own");
    println!("  {:>7} in all with the same tools, {:>5} with different ones", per(same), per(different));
    println!("  {catalog:>7} in the catalogue, which came as a line of {list} bytes");
    checks.check(idle <= IDLE, || format!("an idle session holds {idle} bytes"));
    checks.check(own <= OWN, || format!("of a server, the hub holds {own} bytes"));
    // The first catalogue is held in both cases. The selection from a list belongs to the list and is extra.
    let catalogs = catalog * (sessions as i64 - 1);
    let saved = different - same;
    checks.check(saved >= catalogs && saved < catalogs + catalogs / 3, || {
        format!("the same definitions save {saved} bytes, where all catalogues but one have {catalogs}")
    });

    let was = bench.servers.counts.clone();
    let ((), cost) = measure(|| bench.keep_alive());
    let pings = bench.servers.counts.pings - was.pings;
    cost.print("an hour of keepalives", "probes", pings);
    println!("  {} timeouts", bench.events.timeouts);
    checks.check((59 * sessions..=60 * sessions).contains(&pings), || format!("{pings} probes in an hour"));
    checks.check(cost.held <= 0, || format!("{} bytes more are held after an hour of idleness", cost.held));

    bench.servers.forget_lists();
    bench.events = Events::default();
    let ((), cost) = measure(|| bench.storm());
    cost.print("a storm of changes", "notifications", sessions * CHANGES);
    cost.print("", "sessions", sessions);
    let Counts { lists, most_lists, .. } = bench.servers.counts;
    let toolsets = bench.events.toolsets;
    println!("  {lists} lists, {most_lists} of a server at most; {toolsets} toolsets changed");
    checks.check(most_lists <= 2 && lists >= sessions, || format!("{most_lists} lists of one server"));
    checks.check(toolsets == lists, || format!("{toolsets} toolsets changed, where each list was another"));
    let newest =
        (0..sessions).all(|number| bench.hub.names().resolve(&format!("mcp_{}_extra_2", server(number))).is_some());
    checks.check(newest, || "a toolset is not the newest".into());
    // Empty queues keep their capacity until the session is idle again.
    let ((), rested) = measure(|| bench.wait_until(bench.now + 2 * MINUTE));
    let more = cost.held + rested.held;
    println!("  {} bytes a session more are held; {} once it rested", per(cost.held), per(more));
    // Unused lists stay in the cache until it is swept.
    checks.check(more < 64 * sessions as i64 + 3 * catalog, || format!("{more} bytes more are held after the storm"));

    let arguments = arguments();
    let ((), cost) = measure(|| bench.calls(sessions, sessions * CALLS, PLAIN, &arguments));
    cost.print("calls by exposed names", "calls", sessions * CALLS);
    checks.check(bench.events.finished == sessions * CALLS, || format!("{} results", bench.events.finished));
    let mut lone = Lone::open(&options, 1, Definitions::Same);
    let ((), cost) = measure(|| lone.calls(sessions * CALLS, &arguments));
    cost.print("the same on a lone session", "calls", sessions * CALLS);
    assert_eq!(lone.finished, sessions * CALLS, "every call has a result");
    drop(lone);

    let before_reload = held();
    let few = sessions / RELOADED;
    let mut other = configuration(sessions + few, PLAIN);
    for number in (0..sessions).step_by(RELOADED as usize) {
        other.servers.insert(server(number).into(), entry("second"));
        other.servers.remove(&*server(number + 1));
    }
    bench.servers.forget_lists();
    bench.events = Events::default();
    let was = bench.servers.counts.clone();
    let ((), cost) = measure(|| bench.reload(other));
    cost.print("a reload", "sessions", sessions);
    cost.print("", "touched", 3 * few);
    let Counts { opens, shuts, lists, .. } = bench.servers.counts;
    let (opens, shuts) = (opens - was.opens, shuts - was.shuts);
    println!("  {opens} opened, {shuts} shut, {} toolsets changed", bench.events.toolsets);
    let touched = [opens, shuts, lists] == [2 * few; 3];
    checks.check(touched, || format!("{opens} opened, {shuts} shut, {lists} lists, for {few} of each kind"));
    checks.check(bench.events.toolsets == 4 * few, || format!("{} toolsets changed", bench.events.toolsets));
    checks.check(bench.servers.len() as u64 == sessions, || format!("{} servers run", bench.servers.len()));
    let more = held() - before_reload;
    println!("  {} bytes a session more are held", per(more));
    checks.check(more < 64 * sessions as i64, || format!("{more} bytes more are held after the reload"));

    let shuts = bench.servers.counts.shuts;
    let ((), cost) = measure(|| bench.close());
    cost.print("the end", "sessions", sessions);
    drop(arguments);
    let (left, shuts) = (held() - before, bench.servers.counts.shuts - shuts);
    checks.check((shuts, bench.events.closed) == (sessions, 1), || format!("{shuts} shut"));
    checks.check(bench.hub.is_closed() && bench.hub.deadline().is_none(), || "the hub is not closed".into());
    // The names stay available for saving.
    let (names, configuration) = (names_size(bench.hub.names()), configured.held);
    let [all, of_names, of_configuration] = [left, names, configuration].map(per);
    println!("  {all} bytes a session are held: {of_names} by the names, {of_configuration} by the configuration");
    let Counts { lines, bytes, .. } = bench.servers.counts;
    println!("the servers sent {lines} lines of {bytes} bytes");
    // The trees of names that changed have nodes that are half full at least; those of names that are assigned at once are
    // fuller.
    checks.check(per(left - configuration - names) < per(names), || format!("{left} bytes are held after the end"));
    drop(bench);
    let leaked = held() - start;
    checks.check(leaked == 0, || format!("{leaked} bytes are held by nobody"));
    checks
}

/// Only the calls, by a hub and by as many sessions without one; and what a session holds more after a call.
fn run_calls(sessions: u64, prefix: &str) -> Checks {
    let mut checks = Checks::default();
    let arguments = arguments();
    let count = (sessions * CALLS).min(CALLS_ALONE);
    let (mut bench, _) = opened(sessions, prefix, Definitions::Same, &mut checks);
    let ((), cost) = measure(|| bench.calls(sessions, count, prefix, &arguments));
    println!("allocations {:.2}", cost.allocations as f64 / count as f64);
    checks.check(bench.events.finished == count, || format!("{} results", bench.events.finished));
    drop(bench);
    let options = Arc::new(entry("first").options("canned", options()));
    let mut lone = Lone::open(&options, sessions, Definitions::Same);
    lone.calls(count, &arguments);
    checks.check(lone.finished == count, || format!("{} results without a hub", lone.finished));
    let mut lone = Lone::open(&options, 1, Definitions::Same);
    let ((), cost) = measure(|| lone.calls(1, &arguments));
    println!("held {} {}", cost.held, cost.blocks);
    checks
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let count = |sessions: &str| sessions.parse().expect("how many sessions");
    let checks = match arguments.iter().map(|argument| &**argument).collect::<Vec<_>>()[..] {
        [] => run(SESSIONS),
        ["calls", sessions] => run_calls(count(sessions), PLAIN),
        ["calls", sessions, "underscores"] => run_calls(count(sessions), UNDERSCORES),
        [sessions] => run(count(sessions)),
        _ => panic!("mcp-proto-hub [calls] [SESSIONS] [underscores]"),
    };
    if checks.failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
