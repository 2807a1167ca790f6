//! The router: passes messages, timers and signals to the components. It is the only part that sees all of them.

mod commands;
mod http;
mod notifications;
mod timeout;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use serde_json::value::RawValue;

use super::core::{Core, LinkStage};
use super::link::Link;
use super::lists::ListFailure;
use super::notifications::{on_level_failed, send_level};
use super::request_table::{Block, Purpose};
use super::result_type::complete;
use super::server_requests::ServerRequests;
use super::signal::{Signal, Signals};
use super::timers::Timer;
use super::{Engine, FailureKind, Output, RequestError, Transport, Wire, calls};
use crate::Time;
use crate::jsonrpc::{self, Body, Decoded, Deviations, ErrorObject, Message, Noise, ResponseId, Spans};
use crate::machine::admission::{self, Admission};
use crate::machine::era_change::Carrier;
use crate::machine::response::{self, Match};
use crate::machine::shape::{self, Shape};
use crate::machine::{handshake, link, loss, request, shutdown, turn};
use crate::protocol::{Family, ProtocolVersion};
use crate::text::{EXCERPT, excerpt};

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
        if self.next_timer().is_none_or(|at| at > self.core.now) {
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
        while let Some(id) = self.core.requests.due_poll(self.core.now) {
            calls::on_due(&mut self.core, id);
        }
        for id in self.core.requests.expired(self.core.now) {
            let signals = self.on_request_timeout(id);
            self.act(signals);
        }
        self.server_requests.on_time(&mut self.core);
        self.write_requests();
    }

    /// Acts on signals, in order; the signals that one causes come before the next.
    #[inline]
    pub(super) fn act(&mut self, signals: Signals) {
        if !signals.is_empty() {
            self.act_on_each(signals);
        }
    }

    fn act_on_each(&mut self, signals: Signals) {
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
                self.freshness.start(core);
                let signals = self.subscriptions.start_stream(core);
                self.act(signals);
                Signals::one(Signal::Discover)
            }
            Signal::Discover => {
                send_level(core);
                self.lists.start(core)
            }
            Signal::Discovered => self.link.step(core, link::Input::Established),
            Signal::TransportClosed(why) => self.handshake.on_closed(core, why),
            Signal::Reopen => {
                // The second transport does not extend the deadline of the connection.
                let connect = core.timers.get(Timer::Connect);
                self.end_connection(true);
                let signals = self.link.step(&mut self.core, link::Input::Reopen);
                self.core.timers.set(Timer::Connect, connect);
                signals
            }
            Signal::Lost(loss) => {
                self.handshake.on_lost();
                let lost = self.link.count_loss(core, &loss);
                let gone = loss.transport == loss::Transport::Closed;
                if gone {
                    core.outbox.take_back_transport();
                }
                self.end_connection(gone);
                self.link.lose(&mut self.core, lost, loss)
            }
            Signal::Ready => {
                let cheapest = self.lists.cheapest(core);
                let signals = self.keepalive.start(core, cheapest);
                self.act(signals);
                let signals = self.subscriptions.on_connected(&mut self.core);
                self.act(signals);
                for (method, params) in self.notifications.release() {
                    let signals = self.on_notification(&method, params.as_deref());
                    self.act(signals);
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
            Signal::Elicitations { ids, request } => {
                for id in ids {
                    core.url_elicitations.add(id, request, core.options.limits.server_requests);
                }
                Signals::NONE
            }
            Signal::SamplingRequired(requests) => {
                self.server_requests.count_sampling(core, requests);
                Signals::NONE
            }
            Signal::TaskCreated => self.subscriptions.on_task_created(core),
            Signal::Unwatched(families) => self.lists.on_unwatched(core, &families),
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
        self.freshness.stop(core);
        self.link.on_connection_ended();
        self.notifications.drop_held();
        self.server_requests.end(core, gone);
        calls::on_connection_lost(core);
        self.lists.on_connection_ended(core);
        let unwatched = self.subscriptions.on_connection_ended(core);
        for id in core.requests.engine() {
            core.end_request(id, request::Input::Closed, "");
        }
        core.requests.end_connection();
        self.act(signals);
        self.act(unwatched);
    }

    /// Encodes as many queued requests as may be sent now.
    pub(super) fn write_requests(&mut self) {
        let core = &mut self.core;
        let (limit, parallel) = (core.options.limits.in_flight, core.options.parallel_tool_calls);
        let phase = match core.link {
            LinkStage::Down | LinkStage::Closing | LinkStage::Closed => turn::Phase::Down,
            LinkStage::Connecting => turn::Phase::Connecting,
            LinkStage::Ready => turn::Phase::Ready,
        };
        let held = core.binding.holds_tools;
        while let Some(id) = core.requests.next(limit, phase, held, parallel) {
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
            Timer::Connect => Link::connect_timed_out(core),
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

    fn receive(&mut self, bytes: &[u8]) {
        if self.link.takes_messages() {
            let decoded = self.decode(bytes);
            self.on_decoded(decoded, bytes);
        }
    }

    /// Reads what the server sent.
    pub(crate) fn decode<'a>(&mut self, bytes: &'a [u8]) -> Result<Decoded<'a>, Noise> {
        jsonrpc::decode_with_spans(bytes, self.core.options.limits.message, &mut self.core.spans)
    }

    fn on_decoded(&mut self, decoded: Result<Decoded<'_>, Noise>, bytes: &[u8]) {
        self.keepalive.hear(&self.core);
        match decoded {
            Ok(Decoded::Blank) => {}
            Ok(Decoded::One(message)) => self.on_message(message),
            Ok(Decoded::Batch(messages)) => {
                let batches = self.core.version() == Some(ProtocolVersion::V2025_03_26);
                if let Some(kind) = shape::take(if batches { Shape::Batch } else { Shape::StrayBatch }).quirk() {
                    let detail = format!("{} messages in one array, which only 2025-03-26 allows", messages.len());
                    self.core.quirk(kind, None, None, detail);
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
        self.core.spans = Spans::default();
    }

    fn on_message(&mut self, message: Message<'_>) {
        // A message that ended the connection also ended the rest of its batch.
        if !self.link.takes_messages() {
            return;
        }
        let Message { body, deviations } = message;
        match body {
            Body::Request { id, method, params } => {
                record_deviations(&mut self.core, deviations, &method);
                let backlog = self.core.backlog();
                let signals = match admission::take(ServerRequests::asked(&self.core), backlog) {
                    Admission::Accept => self.server_requests.on_request(&mut self.core, id, &method, params, true),
                    Admission::AcceptAlone => {
                        self.server_requests.on_request(&mut self.core, id, &method, params, false)
                    }
                    Admission::EndConnection => {
                        let server = self.core.server_name();
                        let message = format!("{server} sends requests faster than the responses to them are taken");
                        Signals::lost(FailureKind::Overrun, message, loss::Transport::Open)
                    }
                };
                self.act(signals);
            }
            Body::Notification { method, params } => {
                record_deviations(&mut self.core, deviations, &method);
                let signals = self.on_notification(&method, params);
                self.act(signals);
            }
            Body::Result { id, result } => self.on_response(id, deviations, Ok(result)),
            Body::Error { id, error } => self.on_response(id, deviations, Err(error)),
        }
    }

    fn on_response(&mut self, id: ResponseId, deviations: Deviations, response: Result<&RawValue, ErrorObject>) {
        let core = &mut self.core;
        let exchange = core.exchange.map(core::num::NonZero::get);
        let (named, id) = core.requests.classify_response(id, exchange);
        let body = if response.is_ok() { response::Body::Result } else { response::Body::Error };
        let quirk = match response::take(named, body) {
            Match::Named | Match::Exchange => None,
            Match::NamedAs(kind) => Some((kind, "the id came back in another type")),
            Match::OnlyAs(kind) => {
                Some((kind, "an error without an id of this connection; it is taken for the only request in flight"))
            }
            Match::Late => {
                core.requests.forget_abandoned(id);
                core.stats.late_answers = core.stats.late_answers.saturating_add(1);
                if let Ok(result) = response {
                    calls::on_late(core, result);
                }
                return;
            }
            Match::NoneAs(kind) => {
                let detail = match response.err().filter(|_| named == response::Id::Foreign) {
                    Some(error) => format!("an error without an id of this connection: {error}").into(),
                    None => "a response to no open request; ignored".into(),
                };
                let detail: Box<str> = detail;
                return core.quirk(kind, None, None, detail);
            }
        };
        if deviations != Deviations::default() || quirk.is_some() {
            let Some(open) = core.requests.get(id) else { return };
            let method = open.purpose.method();
            record_deviations(core, deviations, &method);
            if let Some((kind, detail)) = quirk {
                core.quirk(kind, None, Some(&method), detail);
            }
        }
        let carrier = match core.wire {
            Wire::Pipe => Carrier::Pipe,
            Wire::Http => Carrier::HttpSuccess,
        };
        let renewed = self.handshake.on_response(core, id, carrier, response.as_ref().err());
        self.answer(id, response.map_err(RequestError::Server));
        self.act(renewed);
    }

    /// Takes the response to an open request, or what was received in its place.
    pub(super) fn answer(&mut self, id: u64, response: Result<&RawValue, RequestError>) {
        let core = &mut self.core;
        let Some(open) = core.requests.get(id) else { return };
        if matches!(open.purpose, Purpose::Call(_)) {
            self.link.prove();
            let server_requests = &self.server_requests;
            let signals = calls::on_response(core, id, response, &|core, method, params, uncounted| {
                server_requests.judge_input(core, method, params, uncounted)
            });
            return self.act(signals);
        }
        let Some(open) = core.end_request(id, request::Input::Answered, "") else { return };
        let response = response.and_then(|result| complete(core, &open.purpose, result));
        let signals = match open.purpose {
            Purpose::Discover(_) => self.handshake.on_discovered(core, id, response),
            Purpose::Initialize(_) => self.handshake.on_initialized(core, response),
            Purpose::List { family, .. } => match response {
                Ok(result) => {
                    let watched = self.subscriptions.take_watches(core, family);
                    self.lists.on_result(core, family, result, watched)
                }
                Err(RequestError::Server(error)) => self.lists.on_failure(core, family, ListFailure::Server(&error)),
                Err(error) => self.lists.on_failure(core, family, ListFailure::Engine(error.to_string().into())),
            },
            Purpose::SetLevel => {
                if let Err(error) = response {
                    on_level_failed(core, error);
                }
                Signals::NONE
            }
            Purpose::Keepalive(_) => {
                let cheapest = self.lists.cheapest(core);
                self.keepalive.on_response(core, response.err().as_ref(), cheapest)
            }
            Purpose::Rediscover => {
                self.freshness.on_response(core, response.ok());
                Signals::NONE
            }
            Purpose::Listen { .. } => self.subscriptions.on_ended(core, id, response.err().as_ref()),
            Purpose::Subscribe(uri) | Purpose::Unsubscribe(uri) => {
                let words = response.err().map(|error| format!("{error}"));
                self.subscriptions.on_response(core, &uri, words.as_deref());
                Signals::NONE
            }
            Purpose::CancelTask(_) | Purpose::Call(_) => Signals::NONE,
        };
        self.act(signals);
    }
}

fn record_noise(core: &mut Core, noise: &Noise, bytes: &[u8]) {
    let start = bytes.get(..bytes.len().min(EXCERPT.saturating_mul(4))).unwrap_or(bytes);
    let text = String::from_utf8_lossy(start);
    let detail = format!("{noise}: {}", excerpt(text.trim()));
    if let Some(kind) = shape::take(Shape::Noise).quirk() {
        core.quirk(kind, None, None, detail);
    }
}

fn record_deviations(core: &mut Core, deviations: Deviations, method: &str) {
    let found = [
        (deviations.version, Shape::Version, "`jsonrpc` is not \"2.0\""),
        (deviations.error_null, Shape::NullMember, "a null member beside the answer"),
        (deviations.result_and_error, Shape::ResultAndError, "a result and an error; the error counts"),
        (deviations.id_null, Shape::NullId, "a notification with `id: null`"),
    ];
    for (_, shape, detail) in found.into_iter().filter(|(found, _, _)| *found) {
        if let Some(kind) = shape::take(shape).quirk() {
            core.quirk(kind, None, Some(method), detail);
        }
    }
}
