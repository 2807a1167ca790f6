//! Sessions over a month of virtual time: keepalives, calls, list changes, lost connections.
//!
//! Compares the memory of an idle session at the start and at the end; it must be equal. The start is after each kind
//! of event happened once, because empty queues keep their capacity.

use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

use mcp_proto::{
    Action, Client, Eras, Event, Family, Keepalive, Lines, OpenFailure, Options, Outcome, Outgoing, RawValue, Request,
    RequestId, ShutdownStep, Time, Transport,
};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const DAYS: u64 = 30;
const CALLS: u32 = 1_000_000;
const RECONNECTS: u32 = 10_000;

/// Number of ways to lose a connection.
const LOSSES: u32 = 5;

/// Timeout of a call.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How the server handles a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Answers,
    Refuses,
    /// Responds after the timeout.
    IsLate,
    NeverAnswers,
    TellsOfProgress,
    /// Requests input first: by a server request, or by a round of the call.
    Asks,
}

#[derive(Default)]
struct Counts {
    opens: u32,
    ready: u32,
    lists: u32,
    probes: u32,
    calls: u32,
    unknown: u32,
    timed_out: u32,
    refused: u32,
    progress: u32,
    asked: u32,
    changes: u32,
}

/// A session, with a server that is a function call.
struct Soak {
    session: Client<Lines>,
    now: Time,
    modern: bool,
    way: Way,
    /// Whether the server sends nothing.
    silent: bool,
    /// Whether the server has a second tool.
    second: bool,
    /// The ids of the pending call and the change stream.
    call: Option<u64>,
    stream: Option<u64>,
    /// Lines in transit to the client.
    lines: String,
    opening: bool,
    counts: Counts,
}

impl Soak {
    fn new(modern: bool) -> Self {
        let mut options = Options::new("soak", "1");
        options.eras = if modern { Eras::Auto } else { Eras::LegacyOnly };
        options.capabilities.elicitation = true;
        let mut keepalive = Keepalive::default();
        keepalive.discover = true;
        options.keepalive = Some(keepalive);
        Self {
            session: Client::new(Lines::new(), options, 0),
            now: Time::ZERO,
            modern,
            way: Way::Answers,
            silent: false,
            second: false,
            call: None,
            stream: None,
            lines: String::new(),
            opening: false,
            counts: Counts::default(),
        }
    }

    fn result(&mut self, id: u64, result: &str) {
        let _ = writeln!(self.lines, r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
    }

    fn serve(&mut self, message: &Outgoing) {
        const CAPABILITIES: &str = r#"{"tools":{"listChanged":true}}"#;
        let Some(method) = message.method() else {
            // The response to the server's request, which is the last thing that it waited for.
            if let Some(id) = self.call.take() {
                self.result(id, r#"{"content":[]}"#);
            }
            return;
        };
        let Some(id) = message.wire_id().map(|id| id.as_u64()).filter(|_| !self.silent) else { return };
        match method {
            "initialize" => {
                let version = message.version().map_or("", |version| version.as_str());
                let info = r#"{"name":"soak","version":"1"}"#;
                let result =
                    format!(r#"{{"protocolVersion":"{version}","capabilities":{CAPABILITIES},"serverInfo":{info}}}"#);
                self.result(id, &result);
            }
            "server/discover" => {
                self.counts.probes += u32::from(self.session.is_ready());
                let versions = r#"["2026-07-28"]"#;
                let result = format!(
                    r#"{{"resultType":"complete","supportedVersions":{versions},"capabilities":{CAPABILITIES}}}"#
                );
                self.result(id, &result);
            }
            "ping" => {
                self.counts.probes += 1;
                self.result(id, "{}");
            }
            "tools/list" => {
                self.counts.lists += 1;
                let tool = r#"{"name":"a","description":"The first.","inputSchema":{"type":"object"}}"#;
                let second = if self.second { r#",{"name":"b","inputSchema":{"type":"object"}}"# } else { "" };
                self.result(id, &format!(r#"{{"resultType":"complete","tools":[{tool}{second}]}}"#));
            }
            "subscriptions/listen" => {
                self.stream = Some(id);
                let meta = format!(r#"{{"io.modelcontextprotocol/subscriptionId":{id}}}"#);
                let agreed = format!(r#"{{"_meta":{meta},"notifications":{{"toolsListChanged":true}}}}"#);
                self.notify("notifications/subscriptions/acknowledged", &agreed);
            }
            "tools/call" => self.called(id),
            _ => panic!("{method} is nothing that this server was to be asked"),
        }
    }

    fn called(&mut self, id: u64) {
        match self.way {
            Way::Answers => self.result(id, r#"{"content":[{"type":"text","text":"done"}]}"#),
            Way::Refuses => {
                let _ =
                    writeln!(self.lines, r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32602,"message":"no"}}}}"#);
            }
            Way::IsLate | Way::NeverAnswers => self.call = Some(id),
            Way::TellsOfProgress => {
                self.notify("notifications/progress", &format!(r#"{{"progressToken":{id},"progress":1}}"#));
                self.result(id, r#"{"content":[]}"#);
            }
            Way::Asks if self.modern => {
                self.way = Way::Answers;
                let wanted = r#"{"k":{"method":"elicitation/create","params":{"message":"?"}}}"#;
                let result =
                    format!(r#"{{"resultType":"input_required","inputRequests":{wanted},"requestState":"state"}}"#);
                self.result(id, &result);
            }
            Way::Asks => {
                self.call = Some(id);
                let asks = r#""method":"elicitation/create","params":{"message":"?"}"#;
                let _ = writeln!(self.lines, r#"{{"jsonrpc":"2.0","id":"ask",{asks}}}"#);
            }
        }
    }

    fn notify(&mut self, method: &str, params: &str) {
        let _ = writeln!(self.lines, r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#);
    }

    /// Runs the session's actions and delivers the server's messages until neither has more.
    fn settle(&mut self) {
        loop {
            while let Some(action) = self.session.poll() {
                self.act(action);
            }
            if self.lines.is_empty() {
                return;
            }
            let lines = std::mem::take(&mut self.lines);
            self.session.handle_bytes(self.now, self.session.connection(), lines.as_bytes());
        }
    }

    fn act(&mut self, action: Action) {
        let accepts = || RawValue::from_string(r#"{"action":"accept","content":{}}"#.into()).unwrap();
        match action {
            Action::Open(_) => {
                self.counts.opens += 1;
                (self.opening, self.silent) = (true, false);
                (self.call, self.stream) = (None, None);
            }
            Action::Send(message) => self.serve(&message),
            Action::Shutdown(ShutdownStep::CloseInput) => self.lose(),
            Action::Event(Event::Ready) => self.counts.ready += 1,
            Action::Event(Event::Finished { outcome, .. }) => {
                self.counts.calls += 1;
                match outcome {
                    Outcome::Result(_) => {}
                    Outcome::Error(_) => self.counts.refused += 1,
                    Outcome::TimedOut(_) => self.counts.timed_out += 1,
                    Outcome::Unknown => self.counts.unknown += 1,
                    outcome => panic!("{outcome:?}"),
                }
            }
            Action::Event(Event::Progress { .. }) => self.counts.progress += 1,
            Action::Event(Event::ServerRequest { id: ask, .. }) => {
                self.counts.asked += 1;
                self.session.respond(self.now, ask, Ok(&accepts())).unwrap();
            }
            Action::Event(Event::InputRequired { request, .. }) => {
                self.counts.asked += 1;
                self.session.provide(self.now, request, [("k", &*accepts())]).unwrap();
            }
            Action::Event(Event::CatalogChanged { .. }) => self.counts.changes += 1,
            Action::Event(Event::Down { .. }) => {}
            action => panic!("{action:?}"),
        }
    }

    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(deadline) = self.session.deadline().filter(|deadline| *deadline <= end) {
            self.now = self.now.max(deadline);
            self.session.handle_timeout(self.now);
            self.settle();
        }
        self.now = end;
    }

    fn lose(&mut self) {
        self.session.handle_transport(self.now, self.session.connection(), Transport::Closed { why: "gone" });
        self.settle();
    }

    fn opened(&mut self) {
        assert!(std::mem::take(&mut self.opening), "the session asked for another connection");
        self.session.handle_transport(self.now, self.session.connection(), Transport::Opened);
        self.settle();
    }

    fn call(&mut self, way: Way) -> RequestId {
        self.way = way;
        let request = Request::call_tool("a", None).timeout(TIMEOUT).progress(true);
        let request = self.session.request(self.now, request).unwrap();
        self.settle();
        request
    }

    fn calls(&mut self, count: u32) {
        for number in 0..count {
            match number {
                1 => drop(self.call(Way::Refuses)),
                2 => {
                    self.call(Way::IsLate);
                    self.wait(TIMEOUT);
                    if let Some(id) = self.call.take() {
                        self.result(id, "{}");
                    }
                    self.settle();
                }
                3 => {
                    self.call(Way::NeverAnswers);
                    self.wait(TIMEOUT);
                    self.call = None;
                }
                4 => drop(self.call(Way::TellsOfProgress)),
                5 => drop(self.call(Way::Asks)),
                _ => drop(self.call(Way::Answers)),
            }
        }
    }

    fn change(&mut self) {
        self.second = !self.second;
        self.tell_of_change();
        self.wait(Duration::from_secs(2));
        assert_eq!(self.session.catalog().list(Family::Tools).len(), 1 + usize::from(self.second));
    }

    fn tell_of_change(&mut self) {
        let params = match self.stream {
            Some(id) => format!(r#"{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}"#),
            None => "{}".into(),
        };
        self.notify("notifications/tools/list_changed", &params);
        self.settle();
    }

    /// Calls, changes, a loss in one of five ways, and a reconnect.
    fn cycle(&mut self, number: u32) {
        // One call is in flight when the connection is lost.
        let in_flight = u32::from(number % LOSSES == 1);
        self.calls(CALLS / RECONNECTS - in_flight);
        self.change();
        self.change();
        match number % LOSSES {
            0 => self.lose(),
            1 => {
                self.call(Way::NeverAnswers);
                self.lose();
            }
            2 => {
                self.lose();
                self.wait(Duration::from_secs(60));
                let failed = Transport::OpenFailed { how: OpenFailure::Connect, why: "not yet" };
                self.session.handle_transport(self.now, self.session.connection(), failed);
                self.opening = false;
                self.settle();
            }
            3 => {
                self.silent = true;
                self.wait(Duration::from_secs(200));
            }
            // A list changed, and was not requested yet.
            _ => {
                self.tell_of_change();
                self.lose();
            }
        }
        assert!(!self.session.is_ready());
        self.wait(Duration::from_secs(60));
        self.opened();
        assert!(self.session.is_ready());
    }
}

/// Whether the memory at the end equals that at the start.
fn soak(modern: bool) -> bool {
    let before = MEMORY.current_usage();
    let mut soak = Soak::new(modern);
    soak.session.open(soak.now).unwrap();
    soak.settle();
    soak.opened();
    assert!(soak.session.is_ready());
    let held = || MEMORY.current_usage() - before;
    let fresh = held();
    (0..LOSSES).for_each(|number| soak.cycle(number));
    soak.counts = Counts::default();

    let start = held();
    MEMORY.reset_peak_usage();
    soak.wait(Duration::from_secs(DAYS * 24 * 60 * 60));
    let kept_alive = std::mem::take(&mut soak.counts.probes);
    (0..RECONNECTS).for_each(|number| soak.cycle(number));
    let (end, peak) = (held(), MEMORY.peak_usage() - before);

    let Counts { opens, ready, lists, calls, unknown, timed_out, refused, progress, asked, changes, .. } = soak.counts;
    assert_eq!((u64::from(kept_alive), calls, ready), (DAYS * 24 * 60, CALLS, RECONNECTS));
    assert_eq!(soak.session.quirks(), []);
    println!("{}", if modern { "modern" } else { "legacy" });
    println!("  {DAYS} days, {kept_alive} keepalive probes");
    println!("  {calls} calls: {refused} refused, {timed_out} timed out, {unknown} lost with their connection,");
    println!("    {progress} with progress, {asked} with input");
    println!("  {ready} reconnects of {opens} tries, {lists} lists, {changes} changes of them");
    println!("  {fresh} bytes before the first call, {start} at the start, {end} at the end, {peak} at most");
    start == end
}

fn main() -> ExitCode {
    let same = [false, true].map(soak);
    if same == [true; 2] {
        return ExitCode::SUCCESS;
    }
    eprintln!("the memory at the end is not that at the start");
    ExitCode::FAILURE
}
