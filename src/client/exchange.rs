use alloc::format;

use super::calls::REPLAYS;
use super::discovery::ListFailure;
use super::ledger::{Bar, Purpose};
use super::link::Loss;
use super::{Challenge, CommandError, Engine, Event, Failure, FailureKind, Outcome, Output, Recovery, Wire};
use crate::Time;
use crate::jsonrpc::ErrorObject;
use crate::machine::handshake::Input as HandshakeInput;
use crate::machine::request::{Input, State};
use crate::machine::{QuirkKind, link, refresh};
use crate::protocol::{Family, ProtocolVersion};

/// How often a request may wait for a token.
const BARS: u32 = 3;

/// How many sessions in a row may expire without an answered call.
const RECOVERIES: u32 = 3;

impl Engine {
    /// The embedder can authorise its requests now, or again: those that wait for it go on, and a session that was
    /// parked for it is opened.
    ///
    /// # Errors
    /// [`CommandError::Closed`].
    pub(crate) fn authorized(&mut self, now: Time) -> Result<(), CommandError> {
        self.check_open()?;
        self.advance(now);
        self.unbar(Bar::Token, Input::Admitted);
        let refused = |failure: &Failure| matches!(failure.kind, FailureKind::Unauthorized | FailureKind::Forbidden);
        let stopped = matches!(self.link, link::State::Parked | link::State::Retiring);
        if stopped && self.failure.as_ref().is_some_and(refused) {
            self.link_step(link::Input::Open);
        }
        self.pump();
        Ok(())
    }

    /// Has the embedder drop the exchange of a request that is given up.
    pub(super) fn abort(&mut self, id: u64) {
        if self.wire == Wire::Http {
            self.out.push_back(Output::Abort(id));
        }
    }

    pub(super) fn is_sent(&self, id: u64) -> bool {
        self.requests.get(id).is_some_and(|open| open.phase == State::Sent)
    }

    /// The exchange of a request broke: what only reads goes again, under a new id.
    pub(super) fn exchange_lost(&mut self, id: u64, sent: bool, why: &str) {
        if !self.is_sent(id) {
            return;
        }
        if self.requests.call_mut(id).is_some() {
            let replayable = sent && self.is_replayable(id);
            if replayable && let Some(call) = self.requests.call_mut(id) {
                call.replays = call.replays.saturating_add(1);
            }
            let input = match (sent, replayable) {
                (false, _) => Input::NotRun,
                (true, true) => Input::LostReplayable,
                (true, false) => Input::Lost,
            };
            return self.call_step(id, input);
        }
        let Some(open) = self.requests.remove(id) else { return };
        let words = format!("the exchange broke before its answer ({why})");
        match open.purpose {
            Purpose::List(family) => {
                let walk = self.families.get_mut(family).walk.as_mut();
                match walk.filter(|walk| walk.broken < REPLAYS) {
                    Some(walk) => {
                        walk.broken = walk.broken.saturating_add(1);
                        self.ask_page(family);
                    }
                    // The server refused nothing: where another connection may be had, it is had.
                    None if self.link == link::State::Connecting && self.options.reconnect.is_some() => {
                        let message = format!("{} during discovery: {words}", self.server_name());
                        self.lose(FailureKind::Closed, message.into(), Loss::Gone);
                    }
                    None => self.list_failed(family, ListFailure::Engine(words.into())),
                }
            }
            Purpose::Discover if self.handshake.broken < REPLAYS => {
                self.handshake.broken = self.handshake.broken.saturating_add(1);
                self.send_discover(self.handshake.offered.unwrap_or(ProtocolVersion::NEWEST_MODERN));
            }
            Purpose::Discover | Purpose::Initialize => {
                let message = format!("{} broke the exchange of the handshake: {why}", self.server_name());
                self.lose(FailureKind::Closed, message.into(), Loss::Gone);
            }
            Purpose::Listen { .. } => self.stream_ended(id, None),
            Purpose::Subscribe(uri) | Purpose::Unsubscribe(uri) => self.subscription_answered(&uri, Some(&words)),
            // The keepalive's own timer tells what is missing.
            Purpose::Keepalive(_) | Purpose::SetLevel | Purpose::Call(_) => {}
        }
    }

    /// The server refused a request by a status alone.
    pub(super) fn exchange_refused(&mut self, id: u64, status: u16, why: &str) {
        if !self.is_sent(id) {
            return;
        }
        let separator = if why.is_empty() { "" } else { ": " };
        let words = format!("HTTP {status}{separator}{}", super::classify::excerpt(why));
        let handshake = self.handshake.request == Some(id);
        let Some(open) = self.requests.get(id) else { return };
        // A gateway tells that it got no answer, not what became of the request.
        if matches!(status, 502 | 504) && !matches!(open.purpose, Purpose::Discover | Purpose::Initialize) {
            return self.exchange_lost(id, true, &words);
        }
        match open.purpose {
            Purpose::Discover if handshake => {
                self.requests.remove(id);
                self.handshake.words = Some(words.into());
                self.handshake.faulty |= status >= 500;
                let input = if status >= 500 { HandshakeInput::ServerFault } else { HandshakeInput::NotModern };
                self.handshake_step(input);
            }
            Purpose::Initialize if handshake => {
                self.requests.remove(id);
                self.handshake.words = Some(words.into());
                let older = self.handshake.older().is_some();
                let input = match status {
                    200..300 => HandshakeInput::Malformed,
                    400 | 404 | 405 if older => HandshakeInput::VersionRefused,
                    _ => HandshakeInput::Refused,
                };
                self.handshake_step(input);
            }
            Purpose::Call(_) if (200..300).contains(&status) => self.call_senseless(id, words),
            Purpose::Discover
            | Purpose::Initialize
            | Purpose::List(_)
            | Purpose::SetLevel
            | Purpose::Keepalive(_)
            | Purpose::Listen { .. }
            | Purpose::Subscribe(_)
            | Purpose::Unsubscribe(_)
            | Purpose::Call(_) => self.answered(id, Err(ErrorObject::new(0, words)), false),
        }
    }

    /// The server forgot the session: one recovery for all requests.
    pub(super) fn session_expired(&mut self, id: Option<u64>) {
        if !self.is_established() || id.is_some_and(|id| !self.is_sent(id)) {
            return;
        }
        if let Some(id) = id
            && self.requests.call_mut(id).is_some_and(|call| call.expired)
        {
            // A new session did not help it: that is its answer, and no expiry.
            let error = ErrorObject::new(0, "refused again on a new session; it did not run");
            return self.call_answered(id, Err(error));
        }
        self.recover(id);
    }

    /// Opens a new session in place of one that the server forgot; `refused` is the request that did not run for it.
    pub(super) fn recover(&mut self, refused: Option<u64>) {
        // One that lived long is no sign of a loop.
        let interval = self.options.keepalive.unwrap_or_default().interval;
        if self.ready_since.is_some_and(|since| self.now.since(since) >= interval) {
            self.expiries = 0;
        }
        self.expiries = self.expiries.saturating_add(1);
        let server = self.server_name();
        if self.expiries > RECOVERIES {
            let detail = format!("{RECOVERIES} sessions in a row expired before a call was answered");
            let message = format!("{server} forgets its sessions as soon as they are opened: {detail}");
            self.quirk(QuirkKind::SessionLoop, None, None, detail);
            return self.lose(FailureKind::Closed, message.into(), Loss::Final);
        }
        let failure = Failure { kind: FailureKind::Closed, message: format!("{server} forgot the session").into() };
        if let Some((id, call)) = refused.and_then(|id| self.requests.call_mut(id).map(|call| (id, call))) {
            // It did not run. One that meets the same fate again is not sent for ever.
            call.expired = true;
            self.call_step(id, Input::NotRun);
        }
        self.drop_output();
        self.end_connection(true);
        self.event(Event::Down { failure, next: Recovery::Reopen { at: Some(self.now) } });
        self.link_step(link::Input::Expired);
    }

    /// The server wants to know who asks.
    pub(super) fn unauthorized(&mut self, id: Option<u64>, forbidden: bool, why: &str, challenges: &[Challenge]) {
        if id.is_some_and(|id| !self.is_sent(id)) {
            return;
        }
        let why = super::classify::excerpt(why);
        let status = if forbidden { 403 } else { 401 };
        let separator = if why.is_empty() { "" } else { ": " };
        let open = id.and_then(|id| self.requests.get(id));
        let request = id.and_then(|id| self.handle_of(id));
        let connecting = matches!(self.link, link::State::Opening | link::State::Connecting);
        if id.is_none() && !connecting {
            return;
        }
        // Only what the handshake and the lists need costs the connection.
        let needed =
            open.is_none_or(|open| matches!(open.purpose, Purpose::Discover | Purpose::Initialize | Purpose::List(_)));
        if !self.is_open_unpolled() {
            self.event(Event::Unauthorized { request, forbidden, why: (&*why).into(), challenges: challenges.into() });
        }
        let final_word = forbidden && challenges.is_empty();
        let barred = request.is_some() && !final_word && id.is_some_and(|id| self.may_be_barred(id));
        match id {
            Some(id) if barred => {
                let error = ErrorObject::new(0, format!("HTTP {status}{separator}{why}"));
                self.bar(id, Bar::Token, Outcome::Error(error));
            }
            Some(_) | None if connecting && needed => {
                let kind = if forbidden { FailureKind::Forbidden } else { FailureKind::Unauthorized };
                let wants = if forbidden { "refuses who asks" } else { "wants to know who asks" };
                let message = format!("{} {wants} (HTTP {status}){separator}{why}", self.server_name());
                self.lose(kind, message.into(), Loss::Unusable);
            }
            Some(id) => self.exchange_refused(id, status, &why),
            None => {}
        }
    }

    /// Whether a request may wait for a token once more.
    fn may_be_barred(&mut self, id: u64) -> bool {
        let Some(call) = self.requests.call_mut(id) else { return false };
        call.bars = call.bars.saturating_add(1);
        call.bars <= BARS
    }

    /// Calls wait for the tools' schemas: ask for them.
    pub(super) fn want_schemas(&mut self) {
        if self.families.get(Family::Tools).is_settled() {
            self.families.get_mut(Family::Tools).on_demand = true;
            self.refresh_step(Family::Tools, refresh::Input::Wanted);
        }
    }

    /// The tools' list came anew, or did not.
    pub(super) fn schemas_known(&mut self, family: Family, known: bool) {
        if family == Family::Tools {
            self.unbar(Bar::Headers, if known { Input::Admitted } else { Input::Denied });
        }
    }
}
