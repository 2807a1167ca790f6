//! The body of the target `session`.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use mcp_proto::jsonrpc::{self, Body, Decoded, Message};
use mcp_proto::{Action, Challenge, Era, Event, OpenFailure, Outgoing, Request, Session, Time, Transport, Wire};

use super::checks::{END, OWED, check_line, members};
use super::embedder::Embedder;
use super::input::Input;
use super::peer::{self, Peer};
use super::rig::{Clock, Driven};

/// Reads the bytes as operations on a session, and checks invariants after each.
pub(crate) fn session(bytes: &[u8]) -> u64 {
    let mut rig = Rig::run(bytes);
    rig.end();
    rig.print.finish()
}

/// A session with the state that its invariants need.
pub(super) struct Rig {
    pub(super) session: Session,
    host: Embedder,
    peer: Peer,
    clock: Clock,
    /// Requests that were sent and not answered, except stream requests.
    wire: Vec<(u64, String)>,
    /// Stream requests that were not answered.
    streams: Vec<u64>,
    wire_ids: BTreeSet<u64>,
    aborted: BTreeSet<u64>,
    /// The ids of the server's requests on this connection without a response.
    owed_answers: BTreeMap<String, usize>,
    /// The last id that was answered before its request was polled.
    guessed: u64,
    last_message: Vec<u8>,
    epoch: u32,
    print: DefaultHasher,
}

impl Rig {
    pub(super) fn run(bytes: &[u8]) -> Self {
        let mut input = Input(bytes);
        let options = input.options();
        let peer = Peer::new(&mut input);
        let mut rig = Self {
            session: Session::new(options),
            host: Embedder::default(),
            peer,
            clock: Clock::default(),
            wire: Vec::new(),
            streams: Vec::new(),
            wire_ids: BTreeSet::new(),
            aborted: BTreeSet::new(),
            owed_answers: BTreeMap::new(),
            guessed: 0,
            last_message: Vec::new(),
            epoch: 0,
            print: DefaultHasher::new(),
        };
        while let Some(operation) = input.operation() {
            rig.operate(operation, &mut input);
            rig.check();
        }
        rig
    }

    fn operate(&mut self, operation: u8, input: &mut Input<'_>) {
        let ours = self.host.operate(operation, &mut self.session, self.clock.now, input);
        if ours || self.pass(operation, input) {
            return;
        }
        match operation {
            b'b' => self.transport(Transport::Opened),
            b'c' => {
                let how = [OpenFailure::Connect, OpenFailure::Spawn][input.pick(2)];
                self.transport(Transport::OpenFailed { how, why: "no" });
            }
            b'd' => {
                self.transport(Transport::Closed { why: "gone" });
                // Actions that were queued when the session gave up stay queued.
                let mut behind = self.session.clone();
                let ended = std::iter::from_fn(|| behind.poll()).any(|action| is_end(&action));
                if !ended {
                    self.owed_answers.clear();
                }
            }
            b'e' => self.answer(input, |peer, method, variant| peer.result(method, variant)),
            b'f' => self.answer(input, |_, _, variant| peer::error(variant)),
            b'g' => self.answer_oddly(input),
            b'h' => self.answer_unasked(input),
            b'i' => {
                let last = self.wire_ids.last().copied().unwrap_or(0);
                let stream = self.streams.last().copied().unwrap_or(last);
                let text = peer::notification(input, last, stream);
                self.receive_text(text);
            }
            b'j' => {
                let text = peer::ask(input);
                self.receive_text(text);
            }
            b'p' => self.transport(Transport::SignOfLife),
            // The last message again, a part of it, and arbitrary bytes.
            b'x' => {
                let message = self.last_message.clone();
                self.receive(&message);
            }
            b'y' => {
                let message = self.last_message.clone();
                let cut = input.byte().into();
                self.receive(&message[..message.len().min(cut)]);
            }
            b'z' => {
                let len = usize::from(input.byte());
                self.receive(input.take(len));
            }
            b'E' => self.answer_stream(input),
            b'H' => self.exchange(input),
            b'T' => self.exchange_ended(input),
            _ => {}
        }
    }

    fn transport(&mut self, event: Transport<'_>) {
        self.host.own += 8;
        self.session.handle_transport(self.clock.now, event);
    }

    fn answer(&mut self, input: &mut Input<'_>, make: impl FnOnce(&mut Peer, &str, usize) -> String) {
        let at = input.pick(8);
        let variant = input.pick(16);
        if self.wire.is_empty() {
            return;
        }
        let (id, method) = self.wire.remove(at % self.wire.len());
        let answer = make(&mut self.peer, &method, variant);
        self.receive_text(peer::answer(id, &answer));
    }

    fn answer_oddly(&mut self, input: &mut Input<'_>) {
        let at = input.pick(8);
        let shape = input.pick(12);
        let variant = input.pick(16);
        if self.wire.is_empty() {
            return;
        }
        let (id, method) = self.wire.remove(at % self.wire.len());
        let result = self.peer.result(&method, variant);
        self.receive_text(peer::odd_answer(shape, id, &result, &peer::error(variant)));
    }

    /// Responds to an id that was not sent, or whose request was not polled yet.
    fn answer_unasked(&mut self, input: &mut Input<'_>) {
        let last = self.wire_ids.last().copied().unwrap_or(0).max(self.guessed);
        let id = (last + 4).saturating_sub(input.pick(8) as u64);
        self.guessed = id;
        let method = ["initialize", "server/discover", "tools/list", "prompts/list", "resources/list", "tools/call"]
            [input.pick(6)];
        let variant = input.pick(16);
        let result = self.peer.result(method, variant);
        self.receive_text(peer::answer(id, &result));
    }

    /// Ends a stream by a response.
    fn answer_stream(&mut self, input: &mut Input<'_>) {
        let stream = input.choose(&self.streams);
        let variant = input.pick(16);
        let Some(stream) = stream else { return };
        self.streams.retain(|id| *id != stream);
        let body = if variant == 1 { r#""result":{}"#.into() } else { peer::error(variant) };
        self.receive_text(peer::answer(stream, &body));
    }

    /// The id of a request, correct or not.
    fn id(&self, input: &mut Input<'_>) -> u64 {
        let at = input.pick(8);
        let last = self.wire_ids.last().copied().unwrap_or(0);
        match at {
            0..4 => self.wire.get(at).map_or(last, |(id, _)| *id),
            4 => self.streams.last().copied().unwrap_or(last),
            5 => last,
            6 => last + 1,
            _ => 0,
        }
    }

    /// Receives a message in a request's exchange, whether it belongs there or not.
    fn exchange(&mut self, input: &mut Input<'_>) {
        let id = self.id(input);
        let kind = input.pick(6);
        let variant = input.pick(16);
        let method = self.wire.iter().find(|(known, _)| *known == id).map_or("", |(_, method)| method).to_owned();
        let result = self.peer.result(&method, variant);
        let text = match kind {
            0 => peer::answer(id, &result),
            1 => peer::answer(id + 1, &result),
            2 => peer::odd_answer(variant % 12, id, &result, &peer::error(0)),
            3 => peer::odd_answer(3, id, &result, &peer::error(variant)),
            4 => peer::notification(input, id, id),
            _ => peer::ask(input),
        };
        self.owe(text.as_bytes());
        self.session.handle_exchange(self.clock.now, id, text.as_bytes());
        self.last_message = text.into_bytes();
    }

    /// A request's exchange ends, or all exchanges end.
    fn exchange_ended(&mut self, input: &mut Input<'_>) {
        let kind = input.pick(5);
        let id = self.id(input);
        let detail = input.pick(8);
        let named = (detail & 4 == 0).then_some(id);
        let challenges = [Challenge::new("Bearer", vec![("scope".into(), "a b".into())])];
        self.transport(match kind {
            0 => Transport::Lost { id, sent: detail & 1 == 0, why: "reset" },
            1 => {
                let status = [400, 404, 405, 429, 500, 503, 0, 999][detail];
                Transport::Refused { id, status, why: "words\n" }
            }
            2 => Transport::Expired { id: named },
            3 => {
                let challenges = &challenges[..detail >> 1 & 1];
                Transport::Unauthorized { id: named, forbidden: detail & 1 != 0, why: "who", challenges }
            }
            _ => Transport::ProtocolViolation { why: "what" },
        });
        self.wire.retain(|(known, _)| *known != id);
        self.streams.retain(|known| *known != id);
    }

    fn receive_text(&mut self, text: String) {
        self.receive(text.as_bytes());
        self.last_message = text.into_bytes();
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.owe(bytes);
        self.session.handle_message(self.clock.now, bytes);
    }

    fn owe(&mut self, bytes: &[u8]) {
        let mut owe = |message: &Message<'_>| {
            if let Body::Request { id, .. } = &message.body {
                *self.owed_answers.entry(id.get().into()).or_default() += 1;
            }
        };
        match jsonrpc::decode(bytes, self.session.options().limits.message) {
            Ok(Decoded::One(message)) => owe(&message),
            Ok(Decoded::Batch(messages)) => messages.iter().flatten().for_each(owe),
            Ok(Decoded::Blank) | Err(_) => {}
        }
    }

    fn take(&mut self, action: Action) {
        assert!(!self.host.closed, "after the end: {action:?}");
        format!("{action:?}").hash(&mut self.print);
        match action {
            Action::Open(open) => {
                assert!(open.epoch > self.epoch, "an epoch came again");
                self.epoch = open.epoch;
                self.wire.clear();
                self.streams.clear();
                if !self.clock.behind {
                    self.owed_answers.clear();
                }
            }
            Action::Send(message) => self.take_message(&message),
            Action::Abort(id) => {
                assert_eq!(self.session.options().wire, Wire::Http);
                assert!(self.wire_ids.contains(&id), "the request {id} was not sent");
                assert!(self.aborted.insert(id), "the request {id} was given up twice");
                self.wire.retain(|(known, _)| *known != id);
                self.streams.retain(|known| *known != id);
            }
            Action::Event(event) => self.host.take(&event),
            _ => {}
        }
    }

    fn take_message(&mut self, message: &Outgoing) {
        check_line(message);
        match (message.id(), message.method()) {
            (Some(id), Some(method)) => {
                assert!(self.wire_ids.insert(id), "the id {id} was used twice");
                if method == "subscriptions/listen" {
                    self.streams.push(id);
                } else {
                    self.wire.push((id, method.into()));
                }
            }
            (None, Some(method)) => {
                let modern = message.version().is_some_and(|version| version.era() == Era::Modern);
                let aborts = modern && self.session.options().wire == Wire::Http;
                assert!(!aborts || method != "notifications/cancelled", "the end of the exchange says it");
            }
            (_, None) => {
                let answer = members(message.bytes());
                let owed = self.owed_answers.get_mut(answer["id"].get()).filter(|owed| **owed > 0);
                *owed.unwrap_or_else(|| panic!("nobody asked: {answer:?}")) -= 1;
            }
        }
    }

    /// Nothing follows the end.
    fn end(&mut self) {
        self.close();
        self.receive(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
        let last = self.wire_ids.last().copied().unwrap_or(0);
        for event in [
            Transport::Opened,
            Transport::SignOfLife,
            Transport::Closed { why: "" },
            Transport::Lost { id: last, sent: false, why: "" },
            Transport::Refused { id: last, status: 404, why: "" },
            Transport::Expired { id: None },
            Transport::Unauthorized { id: None, forbidden: false, why: "", challenges: &[] },
            Transport::ProtocolViolation { why: "" },
        ] {
            self.transport(event);
        }
        let now = self.clock.now;
        assert!(self.host.command(&mut self.session, 0, |session| session.open(now)).is_none());
        assert!(
            self.host.command(&mut self.session, 0, |session| session.request(now, Request::new("ping"))).is_none()
        );
        assert!(self.host.command(&mut self.session, 0, |session| session.subscribe(now, "r:0")).is_none());
        self.session.handle_timeout(self.clock.now + Duration::from_secs(3600));
        self.drain();
        assert_eq!(self.session.deadline(), None);
    }
}

impl Driven for Rig {
    type Session = Session;

    fn parts(&mut self) -> (&mut Session, &mut Clock, &mut Embedder) {
        (&mut self.session, &mut self.clock, &mut self.host)
    }

    fn take_next(&mut self) {
        if let Some(action) = self.session.poll() {
            self.take(action);
        }
    }

    fn drain(&mut self) {
        let mut owed = 0;
        while let Some(action) = self.session.poll() {
            owed += 1;
            self.check_waiting(owed);
            self.take(action);
        }
        self.clock.behind = false;
        self.host.own = 0;
        self.guessed = 0;
    }

    fn check_waiting(&self, owed: usize) {
        let own = self.host.own;
        assert!(owed <= OWED + own, "{owed} actions wait, {own} for the embedder's own doing");
    }
}

fn is_end(action: &Action) -> bool {
    matches!(action, Action::Event(Event::Closed { .. }))
}
