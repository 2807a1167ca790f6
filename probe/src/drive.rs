//! Drives a run: waits for input, passes it on, and carries out what it leads to.

use std::time::{Duration, Instant};

use mcp_proto::binding::http::{Broken, ExchangeId};
use mcp_proto::binding::oauth::{OAuthExchangeId, OAuthInput};
use mcp_proto::{ConnectionId, OpenFailure, ShutdownStep, Transport};
use serde_json::json;

use crate::access::{self, Access};
use crate::authorize::input_of;
use crate::child;
use crate::engine::{EngineAction, InFlight};
use crate::exchanges::Piece;
use crate::io::{Came, Io};
use crate::output::write_stderr;
use crate::peer::{Input, Peer};
use crate::raw;
use crate::record::{CallRecord, FailureReport};
use crate::run_state::Run;

/// Maximum time for closing sessions.
const CLOSING: Duration = Duration::from_secs(10);

impl Run<'_> {
    /// Connects, and continues until the end.
    pub(crate) fn go(&mut self) {
        match self.prepare() {
            Ok(mut io) => {
                self.drive(&mut io);
                self.sign_out(&mut io);
            }
            Err(message) => {
                for peer in &mut self.peers {
                    peer.record.failure = Some(FailureReport { kind: "connect".into(), message: message.clone() });
                }
            }
        }
        for step in self.settings.steps.iter().skip(self.calls.len()) {
            self.calls.push(CallRecord::without_answer(step, "not-sent"));
        }
        self.journal.end(&mut self.engine);
        let now = self.engine.now();
        for peer in &mut self.peers {
            let left_out = peer.record.events_left_out;
            if left_out > 0 {
                peer.record.event(now, "left-out", raw::of(&json!({"events": left_out})));
            }
        }
    }

    fn prepare(&mut self) -> Result<Io, String> {
        let mut io = Io::new()?;
        for peer in &mut self.peers {
            peer.prepare(|| io.client())?;
        }
        Ok(io)
    }

    fn drive(&mut self, io: &mut Io) {
        let now = self.now();
        self.engine.open(now);
        self.act(io);
        while !self.engine.is_closed() && !self.interrupt.came() {
            if self.closing.is_some_and(|since| since.elapsed() >= CLOSING) {
                break;
            }
            self.listen(io);
            let now = self.now();
            if self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                self.time_out(io);
            }
            if self.watch_ends().is_some_and(|end| end <= Instant::now()) && self.closing.is_none() {
                self.note("the watch is over");
                self.close();
                self.act(io);
            }
            if self.engine.deadline().is_some_and(|deadline| deadline <= now) {
                self.engine.handle_timeout(now);
                self.act(io);
            }
            self.journal.write(&mut self.engine);
            self.show_progress();
        }
    }

    /// The run timed out: keeps the results so far and closes.
    fn time_out(&mut self, io: &mut Io) {
        self.deadline = None;
        if self.closing.is_some() {
            return;
        }
        let now = self.now();
        self.fail_late();
        self.closing = Some(Instant::now());
        if let Some((in_flight, _)) = self.calling {
            self.engine.cancel(now, in_flight);
            self.act(io);
        }
        self.close();
        self.act(io);
    }

    /// Gives up the credentials that the server demanded, after its session: the end of a session needs its token.
    fn sign_out(&mut self, io: &mut Io) {
        let is_wanted = self.settings.oauth.as_ref().is_some_and(|oauth| oauth.signs_out);
        if !is_wanted || self.interrupt.came() {
            return;
        }
        if !self.peers.iter().any(|peer| peer.record.authorization.is_some()) {
            return write_stderr("probe: --sign-out: the server demanded no token, so none was given up\n");
        }
        self.closing = Some(Instant::now());
        self.finish_authorization(io);
        self.is_signing_out = true;
        self.give(io, 0, OAuthInput::SignOut);
        self.finish_authorization(io);
        if self.is_authorizing() {
            write_stderr("probe: --sign-out: it took too long, and the tokens may still be valid\n");
        }
    }

    /// Whether a request of the authorization, or an action on the store, is in progress.
    fn is_authorizing(&self) -> bool {
        self.peers.iter().any(Peer::has_oauth_request) || self.access.as_ref().is_some_and(Access::uses_store)
    }

    /// Continues until nothing of the authorization is in progress.
    fn finish_authorization(&mut self, io: &mut Io) {
        let is_late = |since: Instant| since.elapsed() >= CLOSING;
        while self.is_authorizing() && !self.closing.is_some_and(is_late) && !self.interrupt.came() {
            self.listen(io);
            let now = self.now();
            self.engine.handle_timeout(now);
            self.act(io);
            self.show_progress();
        }
    }

    fn show_progress(&mut self) {
        if self.progress.is_due() {
            let waiting = self.waiting();
            self.progress.show(waiting);
        }
    }

    /// Waits for input from a server, or until something is due.
    fn listen(&mut self, io: &mut Io) {
        let due = self.engine.deadline().and_then(|at| self.clock.instant(at));
        let closing = self.closing.and_then(|since| since.checked_add(CLOSING));
        let end = [self.deadline, self.watch_ends()].into_iter().flatten().min().filter(|_| self.closing.is_none());
        let second = Instant::now().checked_add(Duration::from_secs(1));
        let dates = [due, closing, end, self.progress.next(), second];
        let until = dates.into_iter().flatten().min().unwrap_or_else(Instant::now);
        let (at, input) = match io.wait(&mut self.peers, self.access.as_mut(), until) {
            Some(Came::Server(at, input)) => (at, input),
            Some(Came::Access(came)) => return self.came(io, came),
            None => return,
        };
        match input {
            Input::Process(child::Input::Output(bytes)) => self.receive(io, at, &bytes),
            Input::Process(child::Input::SignOfLife) => self.transport(io, at, Transport::SignOfLife),
            Input::Process(child::Input::Closed(why)) => {
                if let Some(peer) = self.peers.get_mut(at) {
                    peer.gone(&why);
                }
                self.transport(io, at, Transport::Closed { why: &why });
            }
            Input::Exchange(exchange, piece) => self.receive_exchange(io, at, exchange, piece),
            Input::OAuth(exchange, piece) => self.receive_oauth(io, at, exchange, &piece),
        }
    }

    fn receive_oauth(&mut self, io: &mut Io, at: usize, exchange: OAuthExchangeId, piece: &Piece) {
        if let (Piece::Head(status, _), Some(peer)) = (piece, self.peers.get_mut(at)) {
            peer.trace.note(format!("authorization: HTTP {}", status.as_u16()));
        }
        self.note_revocation(piece);
        self.give(io, at, input_of(exchange, piece));
    }

    /// Takes what came from the user or from the store.
    fn came(&mut self, io: &mut Io, came: access::Came) {
        let Some(access) = &mut self.access else { return };
        match came {
            access::Came::Redirect(redirect) => {
                if let Some(at) = access.shown() {
                    self.give(io, at, OAuthInput::Redirect(&redirect));
                }
            }
            access::Came::Line(line) => {
                if let Some(at) = access.shown().filter(|_| !line.trim().is_empty())
                    && !self.give(io, at, OAuthInput::Redirect(line.trim()))
                {
                    write_stderr("probe: this is not the redirect that belongs to the URL above\n");
                }
            }
            access::Came::Locked { at, id, lock } => {
                let acquired = lock.is_ok();
                if let Ok(lock) = lock {
                    access.keep(at, lock);
                }
                self.give(io, at, OAuthInput::Acquired { id, acquired });
            }
            access::Came::Loaded { at, id, record } => {
                let record = record.as_ref().map(Option::as_deref).map_err(|_| ());
                self.give(io, at, OAuthInput::Loaded { id, record });
            }
            access::Came::Saved { at, id, saved } => {
                self.give(io, at, OAuthInput::Saved { id, saved });
            }
            access::Came::Removed(Ok(())) => {}
            access::Came::Removed(Err(error)) => {
                write_stderr(&format!("probe: --tokens: the credentials were not removed: {error}\n"));
            }
        }
    }

    fn give(&mut self, io: &mut Io, at: usize, input: OAuthInput<'_>) -> bool {
        let now = self.now();
        let is_ours = self.engine.handle_oauth(now, at, input);
        self.introduced(at);
        self.act(io);
        is_ours
    }

    /// Handles input line by line, so that the effects of a line are carried out and traced before the next line.
    fn receive(&mut self, io: &mut Io, at: usize, bytes: &[u8]) {
        let Some(connection) = self.peers.get(at).map(|peer| peer.connection) else { return };
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let Some(peer) = self.peers.get_mut(at).filter(|peer| peer.connection == connection) else { return };
            peer.trace.received(piece);
            let (now, late) = (self.now(), self.late_answers(at));
            self.engine.handle_bytes(now, at, connection, piece);
            self.after_input(io, at, late);
        }
    }

    /// Handles a piece of an exchange; event streams line by line too.
    fn receive_exchange(&mut self, io: &mut Io, at: usize, exchange: ExchangeId, piece: Piece) {
        let Some(peer) = self.peers.get_mut(at) else { return };
        // If the server is unreachable, no connection was opened.
        let there = !matches!(piece, Piece::Failure(Broken::Unreachable, _));
        if there && self.closing.is_none() {
            peer.opened();
        }
        let pieces: Vec<Piece> = match piece {
            Piece::Body(chunk) if peer.is_stream(exchange) => {
                chunk.split_inclusive(|byte| *byte == b'\n').map(|line| Piece::Body(line.into())).collect()
            }
            Piece::Head(..) | Piece::Body(_) | Piece::End | Piece::Failure(..) => vec![piece],
        };
        for piece in pieces {
            if !self.peers.get_mut(at).is_some_and(|peer| peer.show(exchange, &piece)) {
                return;
            }
            let (now, late) = (self.now(), self.late_answers(at));
            self.engine.handle_exchange(now, at, exchange, piece);
            self.after_input(io, at, late);
        }
    }

    /// Carries out the effects of a server's input. `late` is the earlier number of late responses.
    fn after_input(&mut self, io: &mut Io, at: usize, late: u64) {
        let late = self.late_answers(at).saturating_sub(late);
        if late > 0
            && let Some(mut handler) = self.handler(at)
        {
            handler.record("late-answer", &json!({"answers": late}));
        }
        self.introduced(at);
        self.act(io);
    }

    fn transport(&mut self, io: &mut Io, at: usize, event: Transport<'_>) {
        let Some(connection) = self.peers.get(at).map(|peer| peer.connection) else { return };
        let now = self.now();
        self.engine.handle_transport(now, at, connection, event);
        self.introduced(at);
        self.act(io);
    }

    fn act(&mut self, io: &mut Io) {
        while let Some((at, action)) = self.engine.poll() {
            match action {
                EngineAction::Settled => {
                    self.is_settled = true;
                    self.proceed();
                }
                EngineAction::OAuth(action) => self.authorize(io, at, action),
                EngineAction::Open(connection) => self.open(io, at, connection),
                EngineAction::Shut(how) => self.shut(io, at, how),
                EngineAction::Failed(failure) => self.failed(at, &failure),
                EngineAction::Resting => {
                    if let Some(mut handler) = self.handler(at) {
                        handler.rest();
                    }
                }
                EngineAction::Finished(call, outcome) => self.finished(InFlight::Call(call), outcome),
                EngineAction::Event(event) => {
                    if let Some(reaction) = self.handler(at).map(|mut handler| handler.event(event)) {
                        self.react(at, reaction);
                    }
                }
                EngineAction::Send(message) => {
                    if let Some(peer) = self.peers.get_mut(at) {
                        peer.send(message.bytes(), message.line());
                    }
                }
                EngineAction::Request(request) => {
                    let (now, _context) = (self.engine.now(), io.enter());
                    if let Some(peer) = self.peers.get_mut(at) {
                        peer.request(now, request);
                    }
                }
                EngineAction::Drop(exchange) => {
                    if let Some(peer) = self.peers.get_mut(at) {
                        peer.drop(exchange);
                    }
                }
            }
        }
    }

    fn open(&mut self, io: &mut Io, at: usize, connection: ConnectionId) {
        let now = self.engine.now();
        let Some(opened) = self.peers.get_mut(at).map(|peer| peer.open(connection, now)) else { return };
        let why = opened.map_err(|error| error.to_string());
        let event = match &why {
            Ok(()) => Transport::Opened,
            Err(why) => Transport::OpenFailed { how: OpenFailure::Spawn, why },
        };
        self.transport(io, at, event);
    }

    fn shut(&mut self, io: &mut Io, at: usize, how: ShutdownStep) {
        if !self.peers.get_mut(at).is_some_and(|peer| peer.shut(how)) {
            self.transport(io, at, Transport::Closed { why: "there is no process" });
        }
    }
}
