//! The router: passes messages, timers and signals to the components. It is the only part that sees all of them.

mod http;

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use serde_json::value::RawValue;

use super::core::{Core, EXCERPT, excerpt};
use super::lists::ListFailure;
use super::notifications::on_progress;
use super::request_table::{Block, Match, Purpose};
use super::signal::{Signal, Signals};
use super::timers::Timer;
use super::{Engine, Output, RequestError, Transport, calls};
use crate::Time;
use crate::jsonrpc::{self, Body, Decoded, Deviations, ErrorObject, Message, Noise, ResponseId};
use crate::machine::{QuirkKind, handshake, link, loss, request, shutdown};
use crate::protocol::{Family, ProtocolVersion, method};

impl Engine {
    /// Takes a message or a batch of the server.
    pub(crate) fn handle_message(&mut self, now: Time, bytes: &[u8]) {
        self.core.advance(now);
        self.receive(bytes);
        self.write_requests();
    }

    /// Takes a report on the transport.
    pub(crate) fn handle_transport(&mut self, now: Time, event: Transport<'_>) {
        self.core.advance(now);
        match event {
            Transport::SignOfLife => self.handshake.on_sign_of_life(&mut self.core),
            Transport::Opened
            | Transport::OpenFailed { .. }
            | Transport::Closed { .. }
            | Transport::ProtocolViolation { .. } => {
                let signals = self.link.on_transport(&mut self.core, event);
                self.act(signals);
            }
        }
        self.write_requests();
    }

    /// Handles the deadlines that are due before an input with this time. Deadlines up to the time of the input before
    /// were handled then.
    pub(crate) fn handle_due(&mut self, now: Time) {
        if now > self.core.served {
            self.handle_timeout(now);
        }
    }

    /// Handles every deadline that is due.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.core.advance(now);
        self.core.served = self.core.now;
        if self.timers_deadline().is_none_or(|at| at > self.core.now) {
            return;
        }
        // Each timer fires once: at the maximum of `Time`, a restarted timer is due at once.
        if self.core.timers.next().is_some_and(|at| at <= self.core.now) {
            for timer in Timer::ALL {
                if self.core.timers.take_due(timer, self.core.now) {
                    self.on_timer(timer);
                }
            }
        }
        for id in self.core.requests.expired(self.core.now) {
            self.on_request_timeout(id);
        }
        self.server_requests.on_time(&mut self.core);
        self.write_requests();
    }

    /// Acts on signals, in order; the signals that one causes come before the next.
    pub(super) fn act(&mut self, signals: Signals) {
        for signal in signals {
            let next = self.act_on(signal);
            self.act(next);
        }
    }

    fn act_on(&mut self, signal: Signal) -> Signals {
        let core = &mut self.core;
        match signal {
            Signal::Opening => {
                self.handshake.reset(core);
                Signals::NONE
            }
            Signal::Opened => {
                self.lists.reset();
                self.handshake.start(core)
            }
            Signal::ModernAgreed => {
                // A modern server sends no requests, and expects no responses.
                self.server_requests.end(core, true);
                Signals::one(Signal::Discover)
            }
            Signal::Discover => {
                core.send_log_level();
                if core.is_modern() {
                    let signals = self.subscriptions.start_stream(core);
                    self.act(signals);
                }
                self.lists.start(&mut self.core)
            }
            Signal::Discovered => self.link.step(core, link::Input::Established),
            Signal::TransportClosed(why) => self.handshake.on_closed(core, why),
            Signal::Reopen => {
                self.end_connection(true);
                self.link.step(&mut self.core, link::Input::Reopen)
            }
            Signal::Lost(loss) => {
                self.handshake.on_lost();
                let input = self.link.classify(core, &loss);
                let unseen = core.unseen;
                let gone = loss.transport == loss::Transport::Closed;
                if gone {
                    core.outbox.take_back_transport();
                }
                self.end_connection(gone);
                self.link.lose(&mut self.core, input, loss, unseen)
            }
            Signal::Ready => {
                let cheapest = self.lists.cheapest(core);
                let signals = self.keepalive.start(core, cheapest);
                self.act(signals);
                self.subscriptions.start_requests(&mut self.core);
                for (method, params) in self.notifications.release() {
                    self.on_notification(&method, params.as_deref());
                }
                calls::unblock(&mut self.core, Block::Headers, request::Input::Admitted);
                self.core.release_memory();
                Signals::NONE
            }
            Signal::Finish => {
                calls::end(core);
                self.link.finish(core);
                Signals::NONE
            }
            Signal::Expired(refused) => match self.link.count_expiry(core) {
                Err(lost) => lost,
                Ok(()) => {
                    self.expire(refused);
                    self.link.expire(&mut self.core)
                }
            },
            Signal::SchemasWanted => self.lists.want(core, Family::Tools),
            Signal::Schemas { known } => {
                let input = if known { request::Input::Admitted } else { request::Input::Denied };
                calls::unblock(core, Block::Headers, input);
                Signals::NONE
            }
            Signal::Watched { request, families } => self.lists.on_watched(core, request, &families),
            Signal::Unwatched(families) => {
                self.lists.on_unwatched(&families);
                Signals::NONE
            }
        }
    }

    /// Ends everything that belongs to an expired session; `refused` did not run because of it.
    fn expire(&mut self, refused: Option<u64>) {
        if let Some(id) = refused {
            calls::on_expired(&mut self.core, id);
        }
        self.core.outbox.take_back_transport();
        self.end_connection(true);
    }

    /// Ends everything that belongs to a connection, so that nothing affects the next one. A server that is still there
    /// gets responses to its open requests.
    pub(super) fn end_connection(&mut self, gone: bool) {
        let core = &mut self.core;
        core.outbox.take_back(|output| matches!(output, Output::Send(message) if gone || message.method.is_some()));
        let signals = self.keepalive.stop(core);
        core.timers.clear_but(Timer::Grace);
        self.link.on_connection_ended();
        self.notifications.drop_held();
        self.server_requests.end(core, gone);
        calls::on_connection_lost(core);
        let unwatched = self.subscriptions.on_connection_ended(core);
        core.requests.end_connection();
        self.act(signals);
        self.act(unwatched);
    }

    /// Encodes as many queued requests as may be sent now.
    pub(super) fn write_requests(&mut self) {
        if !self.link.is_connected() {
            return;
        }
        let core = &mut self.core;
        let (limit, parallel) = (core.options.limits.in_flight, core.options.parallel_tool_calls);
        let ready = core.is_ready();
        while let Some(id) = core.requests.next(limit, ready, parallel) {
            let Some(open) = core.requests.get(id) else { continue };
            if let Purpose::Call(call) = &open.purpose
                && core.missing_capability(&call.request.method).is_some()
            {
                calls::step(core, id, request::Input::NotAdvertised);
                continue;
            }
            let message = core.encode_request(id, &open.purpose);
            core.requests.step(id, request::Input::Write);
            core.outbox.push(Output::Send(message));
        }
    }

    fn on_timer(&mut self, timer: Timer) {
        let core = &mut self.core;
        let signals = match timer {
            Timer::Open => self.link.open_timed_out(core),
            Timer::Discover => self.handshake.step(core, handshake::Input::DiscoverTimeout),
            Timer::Handshake => self.handshake.step(core, handshake::Input::Deadline),
            Timer::Discovery => self.lists.on_discovery_timeout(core),
            Timer::Reopen => self.link.step(core, link::Input::Timer),
            Timer::Keepalive => {
                let cheapest = self.lists.cheapest(core);
                self.keepalive.on_timer(core, cheapest)
            }
            Timer::Grace => self.link.step_shutdown(core, shutdown::Input::Timer),
            Timer::Stream => self.subscriptions.on_timer(core),
            Timer::Refresh(family) => self.lists.on_timer(core, family),
        };
        self.act(signals);
    }

    fn on_request_timeout(&mut self, id: u64) {
        let core = &mut self.core;
        let Some(open) = core.requests.get(id) else { return };
        if let Purpose::Call(_) = open.purpose {
            return calls::step(core, id, request::Input::TimedOut);
        }
        if let Purpose::Listen { .. } = open.purpose {
            let signals = self.subscriptions.on_silent(core);
            return self.act(signals);
        }
        core.outbox.retract(id);
        let Some(open) = core.requests.abandon(id) else { return };
        if open.phase == request::State::Sent {
            core.send_cancelled(id, "no answer in time");
        }
        let words = format!("no answer within {:?}", core.options.timeouts.request);
        let signals = match open.purpose {
            Purpose::List { family, .. } => self.lists.on_failure(core, family, ListFailure::Engine(words.into())),
            Purpose::Subscribe(uri) | Purpose::Unsubscribe(uri) => {
                self.subscriptions.on_response(core, &uri, Some(&words));
                Signals::NONE
            }
            Purpose::Discover(_)
            | Purpose::Initialize(_)
            | Purpose::SetLevel
            | Purpose::Keepalive(_)
            | Purpose::Listen { .. }
            | Purpose::Call(_) => Signals::NONE,
        };
        self.act(signals);
    }

    fn receive(&mut self, bytes: &[u8]) {
        if self.link.is_connected() {
            self.on_decoded(self.decode(bytes), bytes);
        }
    }

    /// Reads what the server sent.
    pub(crate) fn decode<'a>(&self, bytes: &'a [u8]) -> Result<Decoded<'a>, Noise> {
        jsonrpc::decode(bytes, self.core.options.limits.message)
    }

    fn on_decoded(&mut self, decoded: Result<Decoded<'_>, Noise>, bytes: &[u8]) {
        self.keepalive.hear(&self.core);
        match decoded {
            Ok(Decoded::Blank) => {}
            Ok(Decoded::One(message)) => self.on_message(message),
            Ok(Decoded::Batch(messages)) => {
                if self.core.version() != Some(ProtocolVersion::V2025_03_26) {
                    let detail = format!("{} messages in one array, which only 2025-03-26 allows", messages.len());
                    self.core.quirk(QuirkKind::Batch, None, None, detail);
                }
                for message in messages {
                    match message {
                        Ok(message) => self.on_message(message),
                        Err(noise) => record_noise(&mut self.core, &noise, bytes),
                    }
                }
            }
            Err(noise) => record_noise(&mut self.core, &noise, bytes),
        }
    }

    fn on_message(&mut self, message: Message<'_>) {
        // A message that ended the connection also ended the rest of its batch.
        if !self.link.is_connected() {
            return;
        }
        let Message { body, deviations } = message;
        match body {
            Body::Request { id, method, params } => {
                record_deviations(&mut self.core, deviations, &method);
                if self.core.is_undelivered_full() {
                    self.core.leave_out();
                } else {
                    self.server_requests.on_request(&mut self.core, id, &method, params);
                }
            }
            Body::Notification { method, params } => {
                record_deviations(&mut self.core, deviations, &method);
                self.on_notification(&method, params);
            }
            Body::Result { id, result } => self.on_response(id, deviations, Ok(result)),
            Body::Error { id, error } => self.on_response(id, deviations, Err(error)),
        }
    }

    fn on_notification(&mut self, method: &str, params: Option<&RawValue>) {
        let core = &mut self.core;
        let established = core.agreed.is_some();
        let families: &[Family] = match method {
            method::CANCELLED => return self.on_cancelled(params),
            method::PROGRESS if on_progress(core, params) => return,
            method::ACKNOWLEDGED if established => {
                let signals = self.subscriptions.on_acknowledged(core, params);
                return self.act(signals);
            }
            method::TOOLS_LIST_CHANGED if established => &[Family::Tools],
            method::PROMPTS_LIST_CHANGED if established => &[Family::Prompts],
            method::RESOURCES_LIST_CHANGED if established => &[Family::Resources, Family::ResourceTemplates],
            _ => return self.notifications.on_other(core, method, params),
        };
        for family in families {
            let signals = self.lists.on_changed(&mut self.core, *family);
            self.act(signals);
        }
    }

    /// The server cancels one of its requests, or ends a stream.
    fn on_cancelled(&mut self, params: Option<&RawValue>) {
        let id = params.and_then(|params| jsonrpc::Json::from(params).member("requestId"));
        let Some(id) = id else { return };
        match self.subscriptions.on_cancelled(&mut self.core, id.text()) {
            Some(signals) => self.act(signals),
            None => self.server_requests.on_cancelled(&mut self.core, id.text()),
        }
    }

    fn on_response(&mut self, id: ResponseId, deviations: Deviations, response: Result<&RawValue, ErrorObject>) {
        let core = &mut self.core;
        let exchange = core.exchange.map(core::num::NonZero::get);
        let (id, quirk) = match core.requests.match_response(id, response.is_err(), exchange) {
            Match::Id(id) => (id, None),
            Match::Loose(id) => (id, Some((QuirkKind::IdType, "the id came back in another type"))),
            Match::Only(id) => {
                (id, Some((QuirkKind::IdNull, "an error without an id of ours; the only request was meant")))
            }
            Match::Late => {
                core.stats.late_answers = core.stats.late_answers.saturating_add(1);
                return;
            }
            Match::NoId => {
                let words = response.err().map(|error| format!("an error without an id of ours: {error}"));
                return core.quirk(QuirkKind::IdNull, None, None, excerpt(&words.unwrap_or_default()));
            }
            Match::Unknown => {
                return core.quirk(QuirkKind::UnknownId, None, None, "an answer to no open request; ignored");
            }
        };
        let Some(open) = core.requests.get(id) else { return };
        let method = method_of(&open.purpose);
        record_deviations(core, deviations, &method);
        if let Some((kind, detail)) = quirk {
            core.quirk(kind, None, Some(&method), detail);
        }
        self.answer(id, response.map_err(RequestError::Server));
    }

    /// Takes the response to an open request, or what was received in its place.
    pub(super) fn answer(&mut self, id: u64, response: Result<&RawValue, RequestError>) {
        let core = &mut self.core;
        let Some(open) = core.requests.get(id) else { return };
        if matches!(open.purpose, Purpose::Call(_)) {
            self.link.prove();
            let server_requests = &mut self.server_requests;
            return calls::on_response(core, id, response, &mut |core, method, params| {
                server_requests.judge_input(core, method, params)
            });
        }
        let Some(open) = core.requests.remove(id) else { return };
        let signals = match open.purpose {
            Purpose::Discover(_) => self.handshake.on_discovered(core, id, response),
            Purpose::Initialize(_) => self.handshake.on_initialized(core, id, response),
            Purpose::List { family, .. } => match response {
                Ok(result) => {
                    let watched = self.subscriptions.watches(core, family);
                    self.lists.on_result(core, family, result, watched)
                }
                Err(RequestError::Server(error)) => self.lists.on_failure(core, family, ListFailure::Server(&error)),
                Err(error) => self.lists.on_failure(core, family, ListFailure::Engine(error.to_string().into())),
            },
            Purpose::SetLevel => {
                if let Err(error) = response {
                    let detail = format!("declared, yet answered with {error}; the level is not set");
                    core.quirk(QuirkKind::MethodNotFound, None, Some(method::SET_LEVEL), detail);
                }
                Signals::NONE
            }
            Purpose::Keepalive(_) => {
                let cheapest = self.lists.cheapest(core);
                self.keepalive.on_response(core, response.err().as_ref(), cheapest)
            }
            Purpose::Listen { .. } => self.subscriptions.on_ended(core, id, response.err().as_ref()),
            Purpose::Subscribe(uri) | Purpose::Unsubscribe(uri) => {
                let words = response.err().map(|error| format!("{error}"));
                self.subscriptions.on_response(core, &uri, words.as_deref());
                Signals::NONE
            }
            Purpose::Call(_) => Signals::NONE,
        };
        self.act(signals);
    }
}

/// The method of a request.
pub(super) fn method_of(purpose: &Purpose) -> Cow<'static, str> {
    match purpose {
        Purpose::Discover(_) => Cow::Borrowed(method::DISCOVER),
        Purpose::Initialize(_) => Cow::Borrowed(method::INITIALIZE),
        Purpose::List { family, .. } => Cow::Borrowed(family.list_method()),
        Purpose::SetLevel => Cow::Borrowed(method::SET_LEVEL),
        Purpose::Keepalive(method) => Cow::Borrowed(*method),
        Purpose::Listen { .. } => Cow::Borrowed(method::LISTEN),
        Purpose::Subscribe(_) => Cow::Borrowed(method::SUBSCRIBE),
        Purpose::Unsubscribe(_) => Cow::Borrowed(method::UNSUBSCRIBE),
        Purpose::Call(call) => call.request.method.clone(),
    }
}

fn record_noise(core: &mut Core, noise: &Noise, bytes: &[u8]) {
    let start = bytes.get(..bytes.len().min(EXCERPT.saturating_mul(4))).unwrap_or(bytes);
    let text = String::from_utf8_lossy(start);
    let detail = format!("{noise}: {}", excerpt(text.trim()));
    core.quirk(QuirkKind::Noise, None, None, detail);
}

fn record_deviations(core: &mut Core, deviations: Deviations, method: &str) {
    let found = [
        (deviations.version, QuirkKind::JsonrpcVersion, "`jsonrpc` is not \"2.0\""),
        (deviations.error_null, QuirkKind::ErrorNull, "a null member beside the answer"),
        (deviations.result_and_error, QuirkKind::ResultAndError, "a result and an error; the error counts"),
        (deviations.id_null, QuirkKind::IdNull, "a notification with `id: null`"),
    ];
    for (_, kind, detail) in found.into_iter().filter(|(found, _, _)| *found) {
        core.quirk(kind, None, Some(method), detail);
    }
}
