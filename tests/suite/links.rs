//! What a simulation does with connections: pieces, losses, faults, and connections that nobody wants any more.

use std::collections::VecDeque;

#[cfg(feature = "http")]
use mcp_proto::binding::http::{ExchangeId, HttpRequest};
use mcp_proto::host::hub::SessionHandle;
use mcp_proto::testkit::{
    Arrival, Collector, Driven, Embedder, FakeServer, Fault, Link, NodeId, Port, Runaway, Sim, Step,
};
use mcp_proto::{Client, ConnectionId, Event, Lines, Messages, Options, Time, Transport};
#[cfg(feature = "http")]
use serde_json::json;

use crate::common::{millis, seconds};

/// In place of a client: the steps that a test gives it, and what arrives.
#[derive(Default)]
struct Wire {
    steps: VecDeque<Step<()>>,
    arrived: Vec<(Port, String)>,
    /// Its next deadline, and that of the program around it.
    due: Option<Time>,
    alarm: Option<Time>,
    timeouts: Vec<(Time, &'static str)>,
}

impl Driven for Wire {
    type Event = ();

    fn step(&mut self) -> Option<Step<()>> {
        self.steps.pop_front()
    }

    fn connection_of(&self, _: Option<SessionHandle>) -> Option<ConnectionId> {
        None
    }

    fn next_deadline(&self) -> Option<Time> {
        self.due
    }

    fn time_out(&mut self, now: Time) {
        if self.due.take_if(|due| *due <= now).is_some() {
            self.timeouts.push((now, "client"));
        }
    }

    fn input(&mut self, _: Time, port: Port, input: Arrival<'_>) {
        let what = match input {
            Arrival::Transport(Transport::Opened) => "opened".into(),
            Arrival::Transport(Transport::Closed { why } | Transport::OpenFailed { why, .. }) => why.into(),
            Arrival::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => format!("{other:?}"),
        };
        self.arrived.push((port, what));
    }

    fn server(&self, _: Option<SessionHandle>) -> Option<&str> {
        None
    }
}

impl Embedder for Wire {
    type Driven = Self;

    fn driven(&mut self) -> &mut Self {
        self
    }

    fn on_event(&mut self, _: Time, (): ()) {}

    fn deadline(&self) -> Option<Time> {
        self.alarm
    }

    fn on_timeout(&mut self, now: Time) {
        self.alarm = None;
        self.timeouts.push((now, "program"));
    }
}

const fn pipe(number: u64) -> Port {
    Port::Connection(None, ConnectionId::from_u64(number))
}

fn server() -> FakeServer {
    FakeServer::legacy().error("ping", -1, "a ping has an error as long as this")
}

/// The answer to a ping.
const PONG: &str =
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-1,\"message\":\"a ping has an error as long as this\"}}\n";

fn ping() -> Step<()> {
    Step::Write(None, br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.iter().chain(b"\n").copied().collect())
}

fn tell(sim: &mut Sim<Wire>, node: NodeId, steps: impl IntoIterator<Item = Step<()>>) {
    sim.tell(node, |_, wire| wire.steps.extend(steps)).unwrap();
}

/// What arrived at a client.
fn arrived(sim: &Sim<Wire>, node: NodeId) -> Vec<(Port, &str)> {
    sim.get(node).unwrap().arrived.iter().map(|(port, what)| (*port, &**what)).collect()
}

#[test]
fn a_link_splits_what_is_longer_than_a_piece_64_times_at_most() {
    for (piece, least, most) in [(0, 1, 1), (1, 64, 64), (7, 12, 64), (1000, 1, 64)] {
        let mut sim = Sim::new(3).with_server("s", server(), Link::default().piece(piece));
        let node = sim.add("s", Wire::default());
        tell(&mut sim, node, [Step::Open(pipe(1)), ping()]);
        sim.run_for(seconds(1)).unwrap();
        let pieces: Vec<_> = arrived(&sim, node).into_iter().skip(1).map(|(_, text)| text).collect();
        assert_eq!(pieces.concat(), PONG, "{piece}");
        assert!((least..=most).contains(&pieces.len()) && !pieces.contains(&""), "{piece}: {pieces:?}");
        assert!(pieces.iter().take(63).all(|text| text.len() <= piece || piece == 0), "{piece}: {pieces:?}");
    }
}

#[test]
fn messages_are_not_split() {
    let options = || Options::new("host", "1");
    assert!(Client::new(Messages::new(), options(), 1).takes_messages());
    assert!(!Client::new(Lines::new(), options(), 1).takes_messages());
    #[cfg(feature = "journal")]
    {
        use mcp_proto::journal::{JournalLimits, Recorder};

        let limits = JournalLimits::default();
        assert!(Recorder::new(Messages::new(), options(), 1, limits).takes_messages());
        assert!(!Recorder::new(Lines::new(), options(), 1, limits).takes_messages());
    }
}

#[test]
fn a_lost_write_breaks_its_connection() {
    for (cuts, expected) in [(0, PONG), (1000, "the pipe broke")] {
        let link = Link::new(millis(20)).cuts_per_mille(cuts);
        let mut sim = Sim::new(1).with_server("s", server(), link);
        let node = sim.add("s", Wire::default());
        tell(&mut sim, node, [Step::Open(pipe(1))]);
        sim.run_for(millis(39)).unwrap();
        assert_eq!(arrived(&sim, node), []);
        sim.run_for(millis(1)).unwrap();
        tell(&mut sim, node, [ping()]);
        sim.run_for(seconds(1)).unwrap();
        assert_eq!(arrived(&sim, node), [(pipe(1), "opened"), (pipe(1), expected)]);
        assert_eq!(sim.server("s").unwrap().received("ping"), usize::from(cuts == 0));
    }
}

/// Two clients of two servers, whose answers are under way.
fn two() -> (Sim<Wire>, [NodeId; 2]) {
    let link = Link::new(millis(10));
    let mut sim = Sim::new(1).with_server("s", server(), link).with_server("t", server(), link);
    let nodes = ["s", "t"].map(|name| sim.add(name, Wire::default()));
    for node in nodes {
        tell(&mut sim, node, [Step::Open(pipe(1)), ping()]);
    }
    sim.run_for(millis(15)).unwrap();
    assert_eq!(sim.server("t").unwrap().received("ping"), 1);
    (sim, nodes)
}

#[test]
fn a_client_that_opens_another_connection_gets_nothing_of_the_former() {
    let (mut sim, [node, other]) = two();
    tell(&mut sim, node, [Step::Open(pipe(2)), ping()]);
    sim.run_for(seconds(1)).unwrap();
    tell(&mut sim, node, [ping()]);
    sim.run_for(seconds(1)).unwrap();
    assert_eq!(arrived(&sim, node), [(pipe(2), "opened"), (pipe(2), PONG), (pipe(2), PONG)]);
    assert_eq!(arrived(&sim, other), [(pipe(1), "opened"), (pipe(1), PONG)]);
}

#[test]
fn a_cut_breaks_the_connections_to_its_server_and_loses_what_is_under_way() {
    let (mut sim, [node, other]) = two();
    sim.fault("s", Fault::Cut);
    sim.run_for(seconds(1)).unwrap();
    // There is no connection to break any more.
    sim.fault("s", Fault::Cut);
    sim.run_for(seconds(1)).unwrap();
    assert_eq!(arrived(&sim, node), [(pipe(1), "the pipe broke")]);
    assert_eq!(arrived(&sim, other), [(pipe(1), "opened"), (pipe(1), PONG)]);
}

#[cfg(feature = "http")]
fn exchange() -> (Port, Step<()>) {
    let post = http::Request::post("https://example.com/mcp").header("accept", "application/json, text/event-stream");
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let exchange = ExchangeId::from_u64(1);
    let request = HttpRequest::new(exchange, None, post.body(ping.into_bytes()).unwrap());
    (Port::Exchange(None, exchange), Step::Request(None, Box::new(request)))
}

#[test]
fn a_connection_to_an_unreachable_server_is_refused() {
    let mut sim = Sim::new(1).with_server("s", server(), Link::default());
    let node = sim.add("s", Wire::default());
    sim.fault("s", Fault::Unreachable(seconds(10)));
    tell(&mut sim, node, [Step::Open(pipe(1))]);
    sim.run_for(seconds(10)).unwrap();
    tell(&mut sim, node, [Step::Open(pipe(2))]);
    sim.run_for(seconds(1)).unwrap();
    assert_eq!(arrived(&sim, node), [(pipe(1), "connection refused"), (pipe(2), "opened")]);
}

#[cfg(feature = "http")]
#[test]
fn an_exchange_with_an_unreachable_server_fails() {
    let mut sim = Sim::new(1).with_server("s", server(), Link::default());
    let node = sim.add("s", Wire::default());
    sim.fault("s", Fault::Unreachable(seconds(10)));
    let (port, request) = exchange();
    tell(&mut sim, node, [request]);
    sim.run_for(seconds(1)).unwrap();
    assert_eq!(arrived(&sim, node), [(port, r#"Failure(Unreachable, "connection refused")"#)]);
}

#[cfg(feature = "http")]
#[test]
fn a_dropped_exchange_gets_no_response() {
    for (drops, arrivals) in [(false, 3), (true, 0)] {
        let mut sim = Sim::new(1).with_server("s", server(), Link::new(millis(10)));
        let node = sim.add("s", Wire::default());
        let (port, request) = exchange();
        tell(&mut sim, node, [request]);
        sim.run_for(millis(15)).unwrap();
        tell(&mut sim, node, drops.then_some(Step::Drop(port)));
        sim.run_for(seconds(1)).unwrap();
        assert_eq!(arrived(&sim, node).len(), arrivals);
    }
}

/// The simulation has no such connection, and says so at once.
#[test]
fn a_client_whose_connection_was_opened_elsewhere_is_told_that_it_is_closed() {
    let mut client = Client::new(Messages::new(), Options::new("host", "1"), 1);
    client.open(Time::ZERO).unwrap();
    client.handle_transport(Time::ZERO, client.connection(), Transport::Opened);
    while client.poll().is_some() {}
    let mut sim = Sim::new(1).with_server("s", server(), Link::default());
    let node = sim.add("s", Collector::new(client));
    sim.tell(node, |now, client| client.close(now)).unwrap().unwrap();
    sim.run_for(seconds(0)).unwrap();
    let events = &sim.get(node).unwrap().events;
    assert!(events.iter().any(|(_, event)| matches!(event, Event::Closed { .. })), "{events:?}");
}

#[test]
fn a_run_may_make_the_maximum_of_steps() {
    for (steps, result) in [(3, Ok(())), (2, Err(Runaway { steps: 2, at: Time::ZERO }))] {
        let mut sim = Sim::new(1).max_steps(steps);
        let node = sim.add_hub(Wire::default());
        tell(&mut sim, node, (0..3).map(|_| Step::Event(())));
        assert_eq!(sim.run_for(seconds(1)), result);
    }
}

#[test]
fn a_program_and_its_client_are_told_of_their_own_deadlines() {
    let mut sim = Sim::new(1);
    let node = sim.add_hub(Wire::default());
    let [first, second] = [5, 10].map(|time| Time::ZERO + seconds(time));
    sim.tell(node, |_, wire| (wire.due, wire.alarm) = (Some(first), Some(second))).unwrap();
    sim.run_for(seconds(60)).unwrap();
    assert_eq!(sim.get(node).unwrap().timeouts, [(first, "client"), (second, "program")]);
}
