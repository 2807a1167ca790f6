use alloc::format;
use alloc::vec::Vec;

use super::discovery::ListFailure;
use super::ledger::Purpose;
use super::timers::Timer;
use super::{Engine, Outgoing, Output, RequestId, Wire};
use crate::jsonrpc::Object;
use crate::machine::{handshake, link, refresh, request, shutdown};
use crate::protocol::{Era, method};

impl Engine {
    /// Writes as many of the requests that wait as may be sent now.
    pub(super) fn pump(&mut self) {
        let connected = matches!(self.link, link::State::Connecting | link::State::Ready);
        let (limit, parallel) = (self.options.limits.in_flight, self.options.parallel_tool_calls);
        while connected && let Some(id) = self.requests.next(limit, self.is_ready(), parallel) {
            let Some(open) = self.requests.get(id) else { continue };
            if let Purpose::Call(call) = &open.purpose
                && self.missing_capability(&call.request.method).is_some()
            {
                self.call_step(id, request::Input::NotAdvertised);
                continue;
            }
            let message = self.encode_request(id, &open.purpose);
            self.requests.step(id, request::Input::Write);
            self.out.push_back(Output::Send(message));
        }
    }

    /// Gives the room back that is not needed while nothing happens.
    pub(super) fn rest(&mut self) {
        self.requests.release();
        self.out.shrink_to_fit();
        self.quirks.shrink_to_fit();
    }

    /// Takes a message back that the embedder did not take yet.
    pub(super) fn retract(&mut self, id: u64) {
        // It counts as none of the bytes that came unasked. Where many are taken back in turn, each is near the front.
        let is_it = |action: &Output| matches!(action, Output::Send(message) if message.id == Some(id));
        if let Some(at) = self.out.iter().position(is_it) {
            self.out.remove(at);
        }
    }

    /// Tells the server that an answer is not wanted any more.
    pub(super) fn send_cancelled(&mut self, id: u64, reason: &str) {
        self.abort(id);
        // There the end of the exchange says it all (specification 2026-07-28, "Streamable HTTP", Cancellation).
        let modern = self.server.as_ref().is_some_and(|server| server.era() == Era::Modern);
        if self.wire == Wire::Http && modern {
            return;
        }
        let message = self.encode_notification(
            method::CANCELLED,
            Some(|out: &mut Vec<u8>| {
                let mut params = Object::begin(out);
                params.integer("requestId", id.into()).string("reason", reason);
                params.end();
            }),
        );
        let of = self.handle_of(id);
        self.out.push_back(Output::Send(Outgoing { of, ..message }));
    }

    /// The embedder's name for a request, where it is one of its own.
    pub(crate) fn handle_of(&self, id: u64) -> Option<RequestId> {
        if let Purpose::Call(call) = &self.requests.get(id)?.purpose { Some(call.handle) } else { None }
    }

    /// Gives up a request of the engine's own, whose answer is not wanted any more.
    pub(super) fn give_up(&mut self, id: u64) {
        self.retract(id);
        if self.requests.abandon(id).is_some_and(|open| open.phase == request::State::Sent) {
            self.abort(id);
        }
    }

    pub(super) fn expire(&mut self, id: u64) {
        let Some(open) = self.requests.get(id) else { return };
        match open.purpose {
            Purpose::Call(_) => return self.call_step(id, request::Input::TimedOut),
            Purpose::Listen { .. } => return self.stream_silent(),
            Purpose::Discover
            | Purpose::Initialize
            | Purpose::List(_)
            | Purpose::SetLevel
            | Purpose::Keepalive(_)
            | Purpose::Subscribe(_)
            | Purpose::Unsubscribe(_) => {}
        }
        self.retract(id);
        let Some(open) = self.requests.abandon(id) else { return };
        if open.phase == request::State::Sent {
            self.send_cancelled(id, "no answer in time");
        }
        let words = format!("no answer within {:?}", self.options.timeouts.request);
        match open.purpose {
            Purpose::List(family) => self.list_failed(family, ListFailure::Engine(words.into())),
            Purpose::Subscribe(uri) | Purpose::Unsubscribe(uri) => self.subscription_answered(&uri, Some(&words)),
            Purpose::Discover
            | Purpose::Initialize
            | Purpose::SetLevel
            | Purpose::Keepalive(_)
            | Purpose::Listen { .. }
            | Purpose::Call(_) => {}
        }
    }

    pub(super) fn fire(&mut self, timer: Timer) {
        match timer {
            Timer::Open => self.open_timed_out(),
            Timer::Discover => self.handshake_step(handshake::Input::DiscoverTimeout),
            Timer::Handshake => self.handshake_step(handshake::Input::Deadline),
            Timer::Discovery => self.discovery_timed_out(),
            Timer::Reopen => self.link_step(link::Input::Timer),
            Timer::Keepalive => self.keepalive_fired(),
            Timer::Grace => self.ladder_step(shutdown::Input::Timer),
            Timer::Stream => self.stream_due(),
            Timer::Refresh(family) => self.refresh_step(family, refresh::Input::Timer),
        }
    }
}
