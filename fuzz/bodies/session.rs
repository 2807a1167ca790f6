//! The body of the target `session`.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

#[cfg(feature = "snapshot")]
use mcp_proto::Moved;
use mcp_proto::jsonrpc::{self, Body, Decoded, Message, ResponseId};
use mcp_proto::{Action, Client, ConnectionId, Event, Messages, OpenFailure, Outgoing, Transport};

use super::checks::{OWED, assert_same, canonical, check_line, members};
use super::embedder::Embedder;
use super::input::Input;
use super::peer::{self, Peer};
use super::rig::{Clock, Driven, Operated};

/// Reads the bytes as operations on a session, and checks invariants after each.
pub fn session(bytes: &[u8]) -> u64 {
    Rig::run(bytes).end()
}

/// A session with the state that its invariants need.
#[derive(Clone)]
pub(super) struct Rig {
    pub(super) session: Client<Messages>,
    host: Embedder,
    peer: Peer,
    clock: Clock,
    /// Requests that were sent and not answered, except stream requests.
    wire: Vec<(u64, String)>,
    /// Stream requests that were not answered.
    streams: Vec<u64>,
    wire_ids: BTreeSet<u64>,
    /// The ids of the server's requests on this connection without a response.
    owed_answers: BTreeMap<String, usize>,
    /// The last id that was answered before its request was polled.
    guessed: u64,
    last_message: Vec<u8>,
    /// The newest connection, and the one before it.
    connection: ConnectionId,
    former: Option<ConnectionId>,
    print: DefaultHasher,
}

impl Operated for Rig {
    fn new(input: &mut Input<'_>) -> Self {
        let options = input.options();
        let peer = Peer::new(input);
        Self {
            host: Embedder::new(&options, false),
            session: Client::new(Messages::new(), options, 0),
            peer,
            clock: Clock::default(),
            wire: Vec::new(),
            streams: Vec::new(),
            wire_ids: BTreeSet::new(),
            owed_answers: BTreeMap::new(),
            guessed: 0,
            last_message: Vec::new(),
            connection: ConnectionId::default(),
            former: None,
            print: DefaultHasher::new(),
        }
    }

    fn operate(&mut self, operation: u8, input: &mut Input<'_>) {
        self.perform(operation, input);
        self.check();
    }

    fn state(&self) -> String {
        let Self { session, host, wire, streams, owed_answers, .. } = self;
        let wire: Vec<_> = wire.iter().map(|(id, method)| (Some(id), method)).collect();
        let text = format!("{session:?} {host:?} wire: {wire:?} {streams:?} {owed_answers:?}");
        canonical(&text, self.clock.now)
    }

    fn end(&mut self) -> u64 {
        self.reach_last_instant();
        self.close();
        self.receive(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
        for event in [
            Transport::Opened,
            Transport::SignOfLife,
            Transport::Closed { why: "" },
            Transport::ProtocolViolation { why: "" },
        ] {
            self.transport(event);
        }
        self.check_over();
        self.state().hash(&mut self.print);
        self.print.finish()
    }

    #[cfg(feature = "snapshot")]
    fn check_suspended(&self) {
        let restored = |moved| Self::restored(&self.session, Messages::new(), moved);
        restored(Moved::WithTransport);
        let mut suspended = Self { session: restored(Moved::WithoutTransport), ..self.clone() };
        suspended.host.model.ends();
        suspended.wire.clear();
        suspended.end();
    }
}

impl Rig {
    fn perform(&mut self, operation: u8, input: &mut Input<'_>) {
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
                // Actions that were queued when the session gave the connection up, or ended, stay queued.
                let given_up =
                    |action: &Action| matches!(action, Action::Shutdown(_) | Action::Event(Event::Down { .. }));
                let given_up = self.queues(given_up);
                self.transport(Transport::Closed { why: "gone" });
                if !given_up && !self.queues(is_end) {
                    self.owed_answers.clear();
                }
            }
            b'e' => self.answer(input, |peer, method, variant| peer.result(method, variant)),
            b'f' => self.answer(input, |_, _, variant| peer::error(variant)),
            b'G' => self.answer(input, |peer, method, variant| peer.result(method, 16 + variant)),
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
            b'H' => self.late(input),
            b'T' => self.transport(Transport::ProtocolViolation { why: "what" }),
            b'Z' => self.peer.respell(input),
            _ => {}
        }
    }

    /// Whether such an action was not polled yet.
    fn queues(&self, is: impl Fn(&Action) -> bool) -> bool {
        let mut behind = self.session.clone();
        std::iter::from_fn(|| behind.poll()).any(|action| is(&action))
    }

    fn transport(&mut self, event: Transport<'_>) {
        self.catch_up();
        match event {
            Transport::Opened => self.host.model.opened(),
            Transport::Closed { .. } | Transport::ProtocolViolation { .. } => self.host.model.ends(),
            Transport::OpenFailed { .. } => self.host.model.loses_track(),
            _ => {}
        }
        self.host.own += 8;
        self.session.handle_transport(self.clock.now, self.session.connection(), event);
    }

    fn answer(&mut self, input: &mut Input<'_>, make: impl FnOnce(&mut Peer, &str, usize) -> String) {
        let at = input.pick(8);
        let variant = input.pick(17);
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

    /// Input of an older connection has no effect.
    fn late(&mut self, input: &mut Input<'_>) {
        let kind = input.pick(5);
        let now = self.clock.now;
        let Some(former) = self.former else { return };
        self.host.own += 8;
        self.session.handle_timeout(now);
        let before = self.session.clone();
        let event = match kind {
            0 => Transport::Opened,
            1 => Transport::OpenFailed { how: OpenFailure::Connect, why: "late" },
            2 => Transport::Closed { why: "late" },
            3 => Transport::ProtocolViolation { why: "late" },
            _ => {
                self.session.handle_message(now, former, &self.last_message);
                return assert_same(&before, &self.session, "a late message changed the session");
            }
        };
        self.session.handle_transport(now, former, event);
        assert_same(&before, &self.session, "a late report changed the session");
    }

    fn receive_text(&mut self, text: String) {
        let text = self.peer.spell(&text);
        self.receive(text.as_bytes());
        self.last_message = text.into_bytes();
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.catch_up();
        self.owe(bytes);
        self.session.handle_message(self.clock.now, self.session.connection(), bytes);
    }

    fn owe(&mut self, bytes: &[u8]) {
        let mut owe = |message: &Message<'_>| {
            self.host.model.hears(message, self.clock.now);
            if let Body::Request { id, .. } = &message.body {
                *self.owed_answers.entry(id.get().into()).or_default() += 1;
            }
        };
        match jsonrpc::decode(bytes, self.session.options().limits.message) {
            Ok(Decoded::One(message)) => owe(&message),
            Ok(Decoded::Batch(messages)) => messages.iter().flatten().for_each(&mut owe),
            Ok(Decoded::Blank) | Err(_) => {}
        }
        let repaired = jsonrpc::repair(bytes, self.session.options().limits.message);
        for text in &repaired.messages {
            if let Ok(Decoded::One(message)) = jsonrpc::decode(text.as_bytes(), self.session.options().limits.message) {
                owe(&message);
            }
        }
        for broken in &repaired.broken {
            if let ResponseId::Exact(id) | ResponseId::Loose(id) = broken.id {
                self.host.model.hears_unclear(Some(id));
            }
        }
    }

    fn take(&mut self, action: Action) {
        assert!(!self.host.closed, "after the end: {action:?}");
        format!("{action:?}").hash(&mut self.print);
        match action {
            Action::Open(connection) => {
                assert!(connection > self.connection, "a connection came again");
                self.former = Some(self.connection);
                self.connection = connection;
                self.wire.clear();
                self.streams.clear();
                self.host.model.opens(self.clock.now);
                if self.clock.behind {
                    self.host.model.loses_track();
                } else {
                    self.owed_answers.clear();
                }
            }
            Action::Send(message) => self.take_message(&message),
            Action::Shutdown(_) => self.host.model.ends(),
            Action::Event(event) => self.host.take(&event, self.clock.now),
            _ => {}
        }
    }

    fn take_message(&mut self, message: &Outgoing) {
        check_line(message);
        self.host.model.sends(message.bytes(), message.of(), self.clock.now);
        match (message.wire_id().map(|id| id.as_u64()), message.method()) {
            (Some(id), Some(method)) => {
                assert!(self.wire_ids.insert(id), "the id {id} was used twice");
                if method == "subscriptions/listen" {
                    self.streams.push(id);
                } else {
                    self.wire.push((id, method.into()));
                }
            }
            (None, Some(_)) => {}
            (_, None) => {
                let answer = members(message.bytes());
                let owed = self.owed_answers.get_mut(answer["id"].get()).filter(|owed| **owed > 0);
                *owed.unwrap_or_else(|| panic!("nobody asked: {answer:?}")) -= 1;
            }
        }
    }
}

impl Driven for Rig {
    type Binding = Messages;

    fn parts(&mut self) -> (&mut Client<Messages>, &mut Clock, &mut Embedder) {
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
