//! What comes back, and what it means to the session.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use http::header::LOCATION;
use http::{HeaderMap, HeaderValue, StatusCode};

use super::exchange::{Events, Exchange, Kind, LONGEST_RETRY_AFTER, Purpose, Refusal, Reply};
use super::refusal::{WORDS, is_about_who_asks, is_initialized, is_known_expiry, short_error};
use super::request::{SESSION_ID, same_origin};
use super::{
    Broken, Carrier, ExchangeId, Http, HttpAction, Later, Mode, REDIRECTS, RETRY, SHORTEST_RETRY, STREAM_WAIT,
};
use crate::Time;
use crate::address::shown_in;
use crate::binding::{Sse, SseDecoder, keep};
use crate::client::{Engine, Outgoing, Report, ShutdownStep, Transport};
use crate::jsonrpc::ErrorObject;
use crate::machine::{QuirkKind, get_stream};
use crate::protocol::method;

/// How much of a body that makes no sense is quoted, in bytes.
const EXCERPT: usize = 200;

impl Http {
    /// Takes the head of an answer.
    pub(super) fn head(
        &mut self,
        engine: &mut Engine,
        now: Time,
        exchange: ExchangeId,
        status: StatusCode,
        headers: &HeaderMap,
    ) {
        self.arrive(engine, now);
        let Some(mut it) = self.exchanges.remove(exchange.0) else { return };
        if it.purpose.carried().is_some_and(|id| !engine.is_waiting(id)) {
            // Its request is over, so what it says of it does not matter.
            return self.exchanges.insert(exchange.0, it);
        }
        let moved = matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
        // What a DELETE is answered with changes nothing.
        if moved && !matches!(it.purpose, Purpose::Delete { .. }) {
            return self.redirected(engine, exchange.0, it, headers);
        }
        self.unreached = false;
        let labelled = Kind::labelled(headers);
        let good = status.is_success();
        it.status = status.as_u16();
        it.reply = match &it.purpose {
            Purpose::Message(message) if good => {
                if message.method() == Some(method::INITIALIZE) {
                    self.session_id = headers.get(SESSION_ID).filter(|id| is_visible(id.as_bytes())).cloned();
                    if let Some(id) = &mut self.session_id {
                        // Whoever has it is the session.
                        id.set_sensitive(true);
                    }
                }
                let method = message.method().map(ToOwned::to_owned);
                match message.id() {
                    None => {
                        if status != StatusCode::ACCEPTED && matches!(self.mode, Mode::Streamable) {
                            let detail = format!("answered with HTTP {} where 202 was due", status.as_u16());
                            let kind = QuirkKind::NotificationStatus;
                            engine.transport_quirk(kind, method.as_deref(), detail);
                        }
                        self.accepted(engine, exchange.0);
                        Reply::Ignored
                    }
                    Some(_) if matches!(self.mode, Mode::Events(_)) => Reply::Ignored,
                    Some(_) => Reply::Begun { labelled },
                }
            }
            Purpose::Resume { .. } | Purpose::Events { .. } if good => Reply::Begun { labelled: Some(Kind::Events) },
            Purpose::Stream if good && labelled != Some(Kind::Json) => {
                self.stood = true;
                self.set_waits(engine, self.initialized, None);
                self.stream_step(engine, get_stream::Input::Opened);
                Reply::Begun { labelled: Some(Kind::Events) }
            }
            Purpose::Stream => {
                self.set_waits(engine, self.initialized, None);
                let input = match status {
                    StatusCode::METHOD_NOT_ALLOWED | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                        get_stream::Input::NotOffered
                    }
                    StatusCode::NOT_FOUND if self.stood => get_stream::Input::Forgotten,
                    StatusCode::NOT_IMPLEMENTED => get_stream::Input::Denied,
                    StatusCode::TOO_MANY_REQUESTS => get_stream::Input::Broke,
                    _ if self.stood || status.is_server_error() => get_stream::Input::Broke,
                    _ => get_stream::Input::Denied,
                };
                self.stream_step(engine, input);
                // It is no stream, so its end is none.
                return self.out.push_back(HttpAction::Drop(exchange));
            }
            Purpose::Delete { .. } => Reply::Ignored,
            Purpose::Message(_) | Purpose::Resume { .. } | Purpose::Events { .. } => {
                Reply::Refusal(Box::new(Refusal::new(status, headers, &it.url)))
            }
        };
        if good && it.purpose.one_way().is_some() && self.is_current(engine) {
            // It was delivered, and its room is wanted for others.
            if let Some(due) = it.let_go.take() {
                self.later.remove(&due);
            }
            self.linger(engine, exchange.0, &mut it);
        }
        self.exchanges.insert(exchange.0, it);
    }

    /// Takes a piece of an answer's body, of any size.
    pub(super) fn body(&mut self, engine: &mut Engine, now: Time, exchange: ExchangeId, mut chunk: &[u8]) {
        self.arrive(engine, now);
        let limit = self.limit(engine);
        let Some(mut it) = self.exchanges.remove(exchange.0) else { return };
        let room = self.room(engine);
        if let Reply::Begun { labelled } = it.reply {
            // White space says nothing, and neither does a byte order mark.
            let is_blank = |byte: &&u8| byte.is_ascii_whitespace() || b"\xef\xbb\xbf".contains(byte);
            let blank = chunk.iter().take_while(is_blank).count();
            let rest = chunk.get(blank..).unwrap_or_default();
            if let (Purpose::Stream, Some(Kind::Json)) = (&it.purpose, Kind::sniffed(rest, labelled)) {
                self.exchanges.insert(exchange.0, it);
                return self.stream_step(engine, get_stream::Input::Denied);
            }
            if let Some(kind) = Kind::sniffed(rest, labelled) {
                if let Some(label) = labelled.filter(|label| *label != kind)
                    && let Purpose::Message(message) = &it.purpose
                {
                    let (is, said) = match label {
                        Kind::Json => ("a stream of events", "application/json"),
                        Kind::Events => ("JSON", "text/event-stream"),
                    };
                    let detail = format!("the body is {is}, and labelled `{said}`");
                    engine.transport_quirk(QuirkKind::ContentType, message.method(), detail);
                } else if let (None, Purpose::Message(message)) = (labelled, &it.purpose) {
                    let detail = "the body has no `Content-Type` that says whether it is JSON or a stream";
                    engine.transport_quirk(QuirkKind::ContentType, message.method(), detail);
                }
                it.reply = match kind {
                    Kind::Json => Reply::Json(Vec::new()),
                    Kind::Events => {
                        let (decoder, sure) = (SseDecoder::new(limit), labelled == Some(Kind::Events));
                        Reply::Events(Events { decoder, retry: None, sure })
                    }
                };
                chunk = rest;
            }
        }
        match (&mut it.reply, &mut it.purpose) {
            (Reply::Json(kept), _) => {
                if !keep(kept, chunk, limit.min(room)) && room < limit {
                    return self.overflowed(engine, exchange, it);
                }
            }
            (Reply::Refusal(refusal), _) => {
                keep(&mut refusal.body, chunk, limit.min(WORDS).min(room));
            }
            (Reply::Events(events), Purpose::Events { refused }) => {
                let mut is_older = true;
                events.decoder.feed(chunk, |item| is_older = is_older && self.older_event(engine, now, refused, item));
                if !is_older {
                    return self.out.push_back(HttpAction::Drop(exchange));
                }
            }
            (Reply::Events(events), purpose) => {
                let found = self.feed(engine, now, events, purpose, chunk);
                events.sure |= found.any;
                if let Purpose::Stream = purpose {
                    self.stream_retry = events.retry.or(self.stream_retry);
                    if let Some(id) = events.decoder.last_id() {
                        self.stream_id = id.to_vec();
                    }
                    if found.any {
                        self.barren = 0;
                    }
                }
                if let (Purpose::Message(message), Some(error)) = (purpose, found.error) {
                    let message = message.clone();
                    self.forget(exchange, message.id());
                    self.out.push_back(HttpAction::Drop(exchange));
                    if !self.retry_initialize(engine, &message, &error.message) {
                        self.expired_by_answer(engine, &message, error);
                    }
                    return;
                }
            }
            (Reply::None | Reply::Begun { .. } | Reply::Ignored, _) => {}
        }
        // A resumed stream has done what it was for; the server may hold it open for ever.
        if let Purpose::Resume { id, .. } = it.purpose
            && !engine.is_waiting(id)
        {
            self.carriers.remove(&id);
            self.out.push_back(HttpAction::Drop(exchange));
            return;
        }
        if it.purpose.carried().is_some_and(|id| !engine.is_waiting(id)) {
            self.linger(engine, exchange.0, &mut it);
        }
        if it.reply.buffered() > room {
            return self.overflowed(engine, exchange, it);
        }
        self.exchanges.insert(exchange.0, it);
    }

    /// Ends an exchange for whose answer there is no room beside those of the others.
    fn overflowed(&mut self, engine: &mut Engine, exchange: ExchangeId, it: Exchange) {
        let Exchange { purpose, status, .. } = it;
        self.forget(exchange, purpose.carried());
        self.out.push_back(HttpAction::Drop(exchange));
        let limit = engine.options().limits.buffered;
        let why = format!("the answers under way are larger together than {limit} bytes");
        match purpose {
            Purpose::Message(_) | Purpose::Resume { .. } => {
                if let Some(id) = purpose.carried() {
                    self.unanswered(engine, id, status, &why);
                }
            }
            Purpose::Stream => self.stream_step(engine, get_stream::Input::Broke),
            Purpose::Events { refused: Some(refused) } => self.no_endpoint(engine, Some(refused)),
            Purpose::Events { refused: None } => {
                engine.handle_transport(engine.now(), Transport::Closed { why: &why });
            }
            // Nothing of its answer is kept.
            Purpose::Delete { .. } => {}
        }
    }

    /// Gives the messages of a stream to the session, but for those that concern the transport.
    fn feed(&mut self, engine: &mut Engine, now: Time, events: &mut Events, purpose: &Purpose, chunk: &[u8]) -> Found {
        let (id, message) = match purpose {
            Purpose::Message(message) => (message.id(), Some(message)),
            Purpose::Resume { id, .. } => (Some(*id), None),
            Purpose::Stream | Purpose::Events { .. } | Purpose::Delete { .. } => (None, None),
        };
        let held = message.is_some_and(|message| self.is_held_by_session(message));
        // Without a session before, there is none to end, and the error is the answer.
        let opening = message.is_some_and(|message| message.method() == Some(method::INITIALIZE));
        let opening = opening && self.former.is_some();
        let retry = &mut events.retry;
        let mut found = Found::default();
        events.decoder.feed(chunk, |item| match item {
            Sse::Event(event) | Sse::TooLong(event) if event.name == b"message" && found.error.is_none() => {
                found.any = true;
                if let Some(message) = message
                    && (held || opening)
                    && let Some(error) = short_error(event.data, message)
                    && (held && is_known_expiry(&error) || opening && is_initialized(&error.message))
                {
                    found.error = Some(error);
                    return;
                }
                match id {
                    Some(id) => engine.handle_exchange(now, id, event.data),
                    None => engine.handle_message(now, event.data),
                }
            }
            // Other types are not MCP's.
            Sse::Event(_) | Sse::TooLong(_) => found.any = true,
            Sse::Retry(wait) => *retry = Some(wait.min(LONGEST_RETRY_AFTER)),
        });
        found
    }

    /// An answer ended; `broken` is what the system said where it did not end as the server meant it.
    pub(super) fn ended(&mut self, engine: &mut Engine, now: Time, exchange: ExchangeId, broken: Option<&str>) {
        // It is over, and not to be dropped.
        let it = self.drop_exchange(exchange);
        self.arrive(engine, now);
        let counts = |it: &Exchange| self.is_current(engine) || self.lingers(engine, &it.purpose);
        let Some(it) = it.filter(counts) else { return };
        let Exchange { purpose, reply, status, .. } = it;
        match (purpose, reply) {
            (Purpose::Message(message), Reply::Refusal(mut refusal)) => {
                let kept = refusal.length.map(|length| length.min(WORDS));
                refusal.cut = broken.is_some() || kept.is_some_and(|length| refusal.body.len() < length);
                self.forget(exchange, message.id());
                if self.refused(engine, message, *refusal) {
                    self.accepted(engine, exchange.0);
                }
                self.answer_sent(engine);
            }
            (Purpose::Message(message), reply) => {
                self.accepted(engine, exchange.0);
                let Some(id) = message.id() else { return self.answer_sent(engine) };
                self.forget(exchange, Some(id));
                self.answer_ended(engine, id, &message, status, reply, broken);
            }
            (Purpose::Resume { id, last_id, retry }, Reply::Events(events)) => {
                self.forget(exchange, Some(id));
                self.broke_off(engine, id, Some(&events), last_id, retry, broken);
            }
            (Purpose::Resume { id, last_id, retry }, Reply::Refusal(refusal)) => {
                self.forget(exchange, Some(id));
                if refusal.status == StatusCode::NOT_FOUND && self.session_id.is_some() {
                    return engine.handle_report(now, Report::Expired { id: None });
                }
                let busy = refusal.status == StatusCode::TOO_MANY_REQUESTS || refusal.status.is_server_error();
                if busy && refusal.status != StatusCode::NOT_IMPLEMENTED {
                    let wait = refusal.retry_after.or(retry).unwrap_or(RETRY).max(SHORTEST_RETRY);
                    self.after_for(engine, id, wait, Later::Resume { id, last_id, retry });
                    return;
                }
                self.lost(engine, id, "the stream of the request cannot be taken up again");
            }
            (
                Purpose::Resume { id, last_id, retry },
                Reply::None | Reply::Begun { .. } | Reply::Json(_) | Reply::Ignored,
            ) => {
                self.forget(exchange, Some(id));
                self.broke_off(engine, id, None, last_id, retry, broken);
            }
            (Purpose::Stream, _) => {
                self.set_waits(engine, self.initialized, None);
                self.stream_step(engine, get_stream::Input::Broke);
            }
            (Purpose::Events { .. }, Reply::Refusal(refusal)) if is_about_who_asks(refusal.status) => {
                let Refusal { status, challenges, body, .. } = *refusal;
                let (forbidden, why) = (status == StatusCode::FORBIDDEN, String::from_utf8_lossy(&body));
                let event = Report::Unauthorized { id: None, forbidden, why: &why, challenges: &challenges };
                engine.handle_report(now, event);
            }
            (Purpose::Events { refused: Some(refused) }, _) => self.no_endpoint(engine, Some(refused)),
            (Purpose::Events { refused: None }, Reply::Refusal(refusal)) => {
                // It may have another transport by now.
                self.mode = Mode::Streamable;
                let why = format!("HTTP {}", refusal.status.as_u16());
                engine.handle_transport(now, Transport::Closed { why: &why });
            }
            (Purpose::Events { refused: None }, _) => {
                engine.handle_transport(now, Transport::Closed { why: broken.unwrap_or("the stream of events ended") });
            }
            (Purpose::Delete { then: Some(id) }, _) => self.restart(engine, id),
            (Purpose::Delete { then: None }, _) => self.deleted(engine),
        }
    }

    /// Takes that an exchange failed, at any time before its end. One that has its head reached the server, however it
    /// failed.
    pub(super) fn failed(&mut self, engine: &mut Engine, now: Time, exchange: ExchangeId, broken: Broken, why: &str) {
        engine.handle_timeout(now);
        let Some(it) = self.exchanges.get(exchange.0) else { return };
        let why = &*shown_in(why);
        let unreachable = broken == Broken::Unreachable && it.status == 0;
        match &it.purpose {
            Purpose::Message(message) if unreachable && !self.lingers(engine, &it.purpose) => {
                let (id, initialized) = (message.id(), message.method() == Some(method::INITIALIZED));
                self.drop_exchange(exchange);
                self.forget(exchange, id);
                self.accepted(engine, exchange.0);
                let agreed = engine.has_handshake();
                if let Some(id) = id.filter(|_| agreed) {
                    engine.handle_report(now, Report::Lost { id, sent: false, why });
                }
                // One that reaches nobody while others are being answered is no reason to end those.
                let others = self.exchanges.values().any(|it| it.status != 0);
                if agreed && !initialized && others && !core::mem::replace(&mut self.unreached, true) {
                    return;
                }
                let how = crate::client::OpenFailure::Connect;
                engine.handle_transport(now, Transport::OpenFailed { how, why });
            }
            Purpose::Events { .. } if unreachable => {
                self.drop_exchange(exchange);
                let how = crate::client::OpenFailure::Connect;
                engine.handle_transport(now, Transport::OpenFailed { how, why });
            }
            Purpose::Events { refused: Some(_) } => {
                self.drop_exchange(exchange);
                engine.handle_transport(now, Transport::Closed { why });
            }
            // As far as it came, it is as if it had ended there.
            Purpose::Message(_)
            | Purpose::Stream
            | Purpose::Resume { .. }
            | Purpose::Events { .. }
            | Purpose::Delete { .. } => self.ended(engine, now, exchange, Some(why)),
        }
    }

    /// Time went by, and what belongs to a connection that is gone does not count.
    fn arrive(&mut self, engine: &mut Engine, now: Time) {
        engine.handle_timeout(now);
        self.tidy(engine);
    }

    pub(super) fn forget(&mut self, exchange: ExchangeId, id: Option<u64>) {
        if let Some(id) = id.filter(|id| self.carriers.get(id) == Some(&Carrier::Exchange(exchange.0))) {
            self.carriers.remove(&id);
        }
    }

    /// An exchange is over, and what was due for it is not due any more.
    pub(super) fn drop_exchange(&mut self, exchange: ExchangeId) -> Option<Exchange> {
        let it = self.exchanges.remove(exchange.0)?;
        if let Some(due) = it.let_go {
            self.later.remove(&due);
        }
        Some(it)
    }

    /// `notifications/initialized` was answered: the rest may follow, and the stream is asked for.
    pub(super) fn accepted(&mut self, engine: &mut Engine, exchange: u64) {
        if self.initialized != Some(exchange) {
            return;
        }
        let mut until = None;
        if engine.is_legacy() && matches!(self.mode, Mode::Streamable) {
            until = Some(engine.now() + STREAM_WAIT);
            self.stream_step(engine, get_stream::Input::Start);
        }
        self.set_waits(engine, None, until);
    }

    /// The exchange of a notification or an answer is over: the last one lets the session end.
    fn answer_sent(&mut self, engine: &mut Engine) {
        if self.shutting && engine.is_closing() && self.waiting.is_empty() {
            self.shut(engine, ShutdownStep::CloseInput);
        }
    }

    /// The whole answer to a request came.
    fn answer_ended(
        &mut self,
        engine: &mut Engine,
        id: u64,
        message: &Outgoing,
        status: u16,
        reply: Reply,
        broken: Option<&str>,
    ) {
        match reply {
            Reply::Json(_) | Reply::Begun { .. } | Reply::None if broken.is_some() => {
                self.lost(engine, id, broken.unwrap_or_default());
            }
            Reply::Json(body) => {
                if let Some(error) = short_error(&body, message) {
                    if self.is_held_by_session(message) && is_known_expiry(&error) {
                        return self.expired_by_answer(engine, message, error);
                    }
                    if self.retry_initialize(engine, message, &error.message) {
                        return;
                    }
                }
                engine.handle_exchange(engine.now(), id, &body);
                if !engine.is_waiting(id) {
                    return;
                }
                let excerpt = String::from_utf8_lossy(body.get(..body.len().min(EXCERPT)).unwrap_or(&body));
                self.unanswered(
                    engine,
                    id,
                    status,
                    &format!("the body is no answer to the request: {}", excerpt.trim()),
                );
            }
            Reply::Events(Events { sure: false, .. }) if broken.is_none() => {
                self.unanswered(engine, id, status, "the body is neither JSON nor a stream of events");
            }
            Reply::Events(events) => self.broke_off(engine, id, Some(&events), Vec::new(), None, broken),
            Reply::None => self.lost(engine, id, "the connection closed before an answer"),
            Reply::Begun { labelled: Some(Kind::Events) } => self.broke_off(engine, id, None, Vec::new(), None, broken),
            Reply::Begun { .. } => self.unanswered(engine, id, status, "the body is empty"),
            // Over the older transport answers come by its stream.
            Reply::Ignored | Reply::Refusal(_) => {}
        }
    }

    /// A stream ended. Where its request is not answered, it is taken up again if that can be: from the last id, and
    /// after the wait, that the server named in any part of it.
    fn broke_off(
        &mut self,
        engine: &mut Engine,
        id: u64,
        events: Option<&Events>,
        before: Vec<u8>,
        waited: Option<Duration>,
        broken: Option<&str>,
    ) {
        if !engine.is_waiting(id) {
            return;
        }
        let named = events.and_then(|events| events.decoder.last_id());
        let last_id = named.map_or(before, <[u8]>::to_vec);
        if last_id.is_empty() || !engine.is_legacy() {
            return self.lost(engine, id, broken.unwrap_or("the stream ended before the answer"));
        }
        let retry = events.and_then(|events| events.retry).or(waited);
        let wait = retry.unwrap_or(RETRY).max(SHORTEST_RETRY);
        self.after_for(engine, id, wait, Later::Resume { id, last_id, retry });
    }

    /// Tells the session that a request stays without an answer, where it does.
    fn lost(&mut self, engine: &mut Engine, id: u64, why: &str) {
        engine.handle_report(engine.now(), Report::Lost { id, sent: true, why });
    }

    /// Tells the session that a good status came without an answer, where one is missing.
    fn unanswered(&mut self, engine: &mut Engine, id: u64, status: u16, why: &str) {
        engine.handle_report(engine.now(), Report::Refused { id, status, why });
    }

    fn redirected(&mut self, engine: &mut Engine, exchange: u64, it: Exchange, headers: &HeaderMap) {
        self.forget(ExchangeId(exchange), it.purpose.carried());
        if let Some(due) = it.let_go {
            self.later.remove(&due);
        }
        self.out.push_back(HttpAction::Drop(ExchangeId(exchange)));
        let location = headers.get(LOCATION).map_or(&b""[..], HeaderValue::as_bytes);
        let target = match same_origin(&it.url, location) {
            Ok(target) if it.redirects < REDIRECTS => Ok(target),
            Ok(target) => Err(format!("the server redirects more than {REDIRECTS} times, last to `{target}`")),
            Err(shown) => Err(format!("the server redirects to `{shown}`, which is another origin, or no address")),
        };
        let target = match target {
            Ok(target) => target,
            // The stream is optional.
            Err(_) if matches!(it.purpose, Purpose::Stream) => {
                self.set_waits(engine, self.initialized, None);
                return self.stream_step(engine, get_stream::Input::Denied);
            }
            Err(why) => {
                return engine.handle_transport(engine.now(), Transport::ProtocolViolation { why: &why });
            }
        };
        let again = it.redirects.saturating_add(1);
        match it.purpose {
            Purpose::Message(message) => {
                match &mut self.mode {
                    Mode::Events(endpoint) => *endpoint = Some(target),
                    Mode::Streamable => self.url = target,
                }
                let initialized = self.initialized == Some(exchange);
                self.send(engine, message, again);
                if initialized {
                    self.set_waits(engine, Some(self.last_exchange), self.stream_wait);
                }
            }
            purpose @ (Purpose::Stream | Purpose::Resume { .. } | Purpose::Events { .. }) => {
                self.url = target;
                self.get(engine, purpose, again);
            }
            // What a DELETE is answered with changes nothing.
            Purpose::Delete { .. } => {}
        }
    }

    fn deleted(&mut self, engine: &mut Engine) {
        self.session_id = None;
        engine.handle_transport(engine.now(), Transport::Closed { why: "the session is ended" });
    }
}

fn is_visible(id: &[u8]) -> bool {
    !id.is_empty() && id.iter().all(u8::is_ascii_graphic)
}

/// What a piece of a stream had in it that concerns the transport.
#[derive(Debug, Default)]
struct Found {
    /// Anything at all.
    any: bool,
    /// An error that is about the session, not about the request.
    error: Option<ErrorObject>,
}
