//! Responses: their heads, bodies and ends, and what they mean.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use http::header::{CONTENT_ENCODING, CONTENT_TYPE, LOCATION, RETRY_AFTER, SET_COOKIE, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, StatusCode};

use super::Broken;
use super::connection::{
    BARREN, Http, Initialized, LONGEST_RETRY_AFTER, LONGEST_STREAM_RETRY, REDIRECTS, REFUSAL_BYTES, RETRY, Refused,
    SHORTEST_RETRY, is_paced, wait,
};
use super::exchange::{Due, Exchange, ExchangeKind, Past, Paused, Reply, ResumePoint};
use super::refusal::{
    Held, Refusal, error_class, error_in, error_to, is_initialized, is_known_expiry, refusal_text, says_no_session,
    status_class, stream_input,
};
use super::tokens::Sent;
use crate::binding::address::same_origin;
use crate::binding::coding::{coding_of, encoded_detail};
use crate::binding::sse::{Decoder, Sse as Item, keep};
use crate::client::{
    AUTHORIZATIONS, Again, Engine, ExchangeId, OpenFailure, Outgoing, Report, Transport, Unauthorized,
};
use crate::jsonrpc::{Decoded, ERROR_SHAPE, ErrorObject, Incoming, MessageLimits, Noise};
use crate::machine::QuirkKind;
use crate::machine::http_connection::{get_stream, phase, sse};
use crate::machine::http_response::refusal::challenge::Step;
use crate::machine::http_response::refusal::{Authority, Authorization};
use crate::machine::http_response::{
    self, AtEnd, Body, End, Expiry, First, HttpStatus, Outcome, Post, Purpose, Reading, Received, Redirect, Redirected,
    Session, Source, Target,
};
use crate::protocol::{Era, method};
use crate::text::excerpt_of;

/// The kind of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Kind {
    Json,
    Events,
}

/// A stream of events.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Events {
    pub(super) decoder: Decoder,
    /// The wait before it is resumed.
    pub(super) retry: Option<Duration>,
    /// It is certainly a stream, by its content type or an event.
    pub(super) sure: bool,
    /// An event came.
    brought: bool,
}

impl Kind {
    /// The kind by the content type.
    fn labelled(headers: &HeaderMap) -> Option<Self> {
        let label = headers.get(CONTENT_TYPE)?;
        match label.as_bytes() {
            b"application/json" => return Some(Self::Json),
            b"text/event-stream" => return Some(Self::Events),
            _ => {}
        }
        let label = label.to_str().ok()?;
        let kind = label.split(';').next()?.trim();
        let is = |known: &str| kind.eq_ignore_ascii_case(known);
        if is("application/json") {
            Some(Self::Json)
        } else if is("text/event-stream") {
            Some(Self::Events)
        } else {
            None
        }
    }
}

/// Reports what came of a request. Of a message without a response there is nothing to report.
fn report(engine: &mut Engine, report: Option<Report<'_>>) {
    if let Some(report) = report {
        engine.handle_report(report);
    }
}

/// A request gets no response, and may have run.
fn lost(engine: &mut Engine, request: Option<u64>, why: &str) {
    report(engine, request.map(|id| Report::Lost { id, sent: true, why }));
}

/// The body is not a response to a request.
fn no_answer(engine: &mut Engine, request: Option<u64>, status: u16, why: &str) {
    report(engine, request.map(|id| Report::Refused { id, status, why }));
}

impl Http {
    /// Takes the head of a response.
    pub(super) fn head(&mut self, engine: &mut Engine, id: ExchangeId, status: StatusCode, headers: &HeaderMap) {
        if let Some(reply) = self.reply_of(engine, id, status, headers) {
            self.begin_reply(id, status, reply);
        }
    }

    /// The reply that begins with a head, unless the exchange has nothing more to do with it.
    fn reply_of(
        &mut self,
        engine: &mut Engine,
        id: ExchangeId,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Option<Reply> {
        // A response has one head.
        let it = self.exchanges.get(id).filter(|it| it.status == 0)?;
        self.connection.note_reached(engine, &mut self.timers);
        self.tokens.on_head(engine.now(), it.sent, status, headers);
        // Most responses have neither.
        let has = |name: HeaderName| headers.keys().any(|it| *it == name);
        let (sets_cookies, is_encoded) = (has(SET_COOKIE), has(CONTENT_ENCODING));
        // Those that end a former session are not kept.
        let is_former = matches!(it.purpose, ExchangeKind::DeleteFormer(..));
        if sets_cookies && !is_former && !engine.options().keeps_cookies {
            self.server.session.take_cookies(engine.now(), headers, &it.url);
        }
        let purpose = self.purpose(engine, &it.purpose);
        let method = it.purpose.message().and_then(Outgoing::method);
        if status.is_success() && !self.server.session.on_success(method, headers) {
            let detail = "the session id has characters that no header may have; the client sends none";
            engine.transport_quirk(QuirkKind::SessionIdShape, method, detail);
        }
        if is_over(engine, it) {
            return None;
        }
        let has = |name| !status.is_success() && headers.contains_key(name);
        let class = status_class(status, has(RETRY_AFTER), has(WWW_AUTHENTICATE));
        let coding = if is_encoded && !engine.options().decodes_bodies { coding_of(headers) } else { None };
        let coding: Option<Box<str>> = coding.map(Into::into);
        let labelled = Kind::labelled(headers);
        let refusal = || Refusal { coding: coding.clone(), ..Refusal::new(status, headers, &it.url) };
        match http_response::head(purpose, self.connection.sse.is_ready(), class) {
            Reading::Any | Reading::Events if coding.is_some() => {
                self.encoded(engine, id, status, &coding.unwrap_or_default());
                None
            }
            Reading::Any => Some(Reply::Begun(labelled)),
            Reading::Events => Some(Reply::Begun(Some(Kind::Events))),
            Reading::Delivered => {
                self.delivered(engine, id, status);
                None
            }
            Reading::DeliveredAs(kind) => {
                let detail = format!("answered with HTTP {} where 202 was due", status.as_u16());
                engine.transport_quirk(kind, it.purpose.message().and_then(Outgoing::method), detail);
                self.delivered(engine, id, status);
                None
            }
            Reading::Ignore => Some(Reply::Ignored),
            Reading::Refusal => Some(Reply::Refusal(Box::new(refusal()))),
            Reading::Redirect => self.redirect(engine, id, status, headers),
            Reading::GetStream => {
                let input = if status == StatusCode::UNAUTHORIZED {
                    let (sent, refusal) = (it.sent, refusal());
                    self.stream_refused(engine, sent, &refusal)
                } else if coding.is_some() {
                    // No stream that can be read.
                    stream_input(class, Some(Kind::Json))
                } else {
                    stream_input(class, labelled)
                };
                self.begin_reply(id, status, Reply::Begun(Some(Kind::Events)));
                self.stream_decided(engine, input);
                None
            }
        }
    }

    /// The body of a response is in a coding that nobody decodes.
    fn encoded(&mut self, engine: &mut Engine, id: ExchangeId, status: StatusCode, coding: &str) {
        let Some(mut it) = self.drop_exchange(engine, id) else { return };
        it.status = status.as_u16();
        self.end(engine, it, End::Overflow, Some(&encoded_detail(coding)));
    }

    fn purpose(&self, engine: &Engine, purpose: &ExchangeKind) -> Purpose {
        match purpose {
            ExchangeKind::Message(message) if message.id().is_some() => Purpose::Request,
            ExchangeKind::Message(message) if message.method() == Some(method::INITIALIZED) => Purpose::Initialized,
            ExchangeKind::Message(_) if Self::is_owed(engine, purpose) => Purpose::Owed,
            ExchangeKind::Message(_) => Purpose::OneWay,
            ExchangeKind::Resume(..) => Purpose::Resume,
            ExchangeKind::Stream => Purpose::GetStream,
            ExchangeKind::Sse if self.connection.sse.state() == sse::State::Fallback => Purpose::Fallback,
            ExchangeKind::Sse => Purpose::Sse,
            ExchangeKind::DeleteFormer(..) => Purpose::DeleteFormer,
            ExchangeKind::Delete(_) => Purpose::Delete,
        }
    }

    fn begin_reply(&mut self, id: ExchangeId, status: StatusCode, reply: Reply) {
        self.exchanges.update(id, |it| (it.status, it.reply) = (status.as_u16(), reply));
    }

    /// A notification or a response was accepted, and its room is wanted for others.
    fn delivered(&mut self, engine: &mut Engine, id: ExchangeId, status: StatusCode) {
        self.begin_reply(id, status, Reply::Ignored);
        if self.connection.initialized.is_in(id) {
            self.accept_initialized(engine);
        }
        if self.is_current(engine) {
            self.exchanges.update(id, |it| self.timers.disarm(it.release.take()));
            self.linger(engine, id);
        }
    }

    /// Takes a piece of a response's body, of any size.
    pub(super) fn body(&mut self, engine: &mut Engine, id: ExchangeId, mut chunk: &[u8]) {
        let limits = &engine.options().limits;
        // Somewhat more than a message may have, so that the engine sees what it has to refuse.
        let limit = limits.message.bytes.saturating_add(MessageLimits::SLACK).saturating_add(1);
        let room = limits.buffered.saturating_sub(self.exchanges.buffered());
        let Some(it) = self.exchanges.get_mut(id) else { return };
        let before = it.reply.buffered();
        let room = room.saturating_add(before);
        if let Reply::Begun(labelled) = it.reply {
            // White space says nothing, and neither does a byte order mark.
            let is_blank = |byte: &&u8| byte.is_ascii_whitespace() || b"\xef\xbb\xbf".contains(byte);
            let blank = chunk.iter().take_while(is_blank).count();
            chunk = chunk.get(blank..).unwrap_or_default();
            let Some(first) = chunk.first() else { return };
            let (kind, quirk) = match body_of(&it.purpose, labelled, first_byte(*first)) {
                Some(Body::Json) => (Kind::Json, None),
                Some(Body::JsonAs(quirk)) => (Kind::Json, Some(quirk)),
                Some(Body::Events) => (Kind::Events, None),
                Some(Body::EventsAs(quirk)) => (Kind::Events, Some(quirk)),
                Some(Body::NoStream) => return self.stream_decided(engine, get_stream::Input::NoStream),
                None => return,
            };
            if let (Some(quirk), ExchangeKind::Message(message)) = (quirk, &it.purpose) {
                engine.transport_quirk(quirk, message.method(), label_detail(labelled, kind));
            }
            it.reply = match kind {
                Kind::Json => Reply::Json(Vec::new()),
                Kind::Events => {
                    let (decoder, sure) = (Decoder::new(limit), labelled == Some(Kind::Events));
                    Reply::Events(Box::new(Events { decoder, retry: None, sure, brought: false }))
                }
            };
        }
        let mut overflow = false;
        it.reply = match core::mem::replace(&mut it.reply, Reply::Ignored) {
            Reply::Json(mut kept) => {
                overflow = !keep(&mut kept, chunk, limit.min(room)) && room < limit;
                Reply::Json(kept)
            }
            Reply::Refusal(mut refusal) => {
                refusal.goes_on |=
                    refusal.coding.is_none() && !keep(&mut refusal.body, chunk, limit.min(REFUSAL_BYTES).min(room));
                Reply::Refusal(refusal)
            }
            Reply::Events(events) => return self.events(engine, id, events, chunk, room),
            reply @ (Reply::Nothing | Reply::Begun(_) | Reply::Ignored) => reply,
        };
        let after = it.reply.buffered();
        self.exchanges.grown(before, after);
        self.read(engine, id, overflow);
    }

    /// A chunk of a response was read; the exchange may have nothing more to do.
    fn read(&mut self, engine: &mut Engine, id: ExchangeId, overflow: bool) {
        match self.exchanges.get(id).filter(|it| is_over(engine, it)).map(|it| &it.purpose) {
            Some(ExchangeKind::Resume(..)) => {
                // A server may hold a resumed stream open for ever.
                self.drop_exchange(engine, id);
                return;
            }
            Some(_) => self.linger(engine, id),
            None => {}
        }
        if overflow {
            self.overflow(engine, id);
        }
    }

    /// Takes a piece of a stream. What each event leads to is done before the next one is read, so that it makes no
    /// difference how the stream is cut into chunks.
    fn events(&mut self, engine: &mut Engine, id: ExchangeId, mut events: Box<Events>, chunk: &[u8], room: usize) {
        self.exchanges.grown(events.decoder.buffered(), 0);
        let (mut any, mut retry) = (false, events.retry);
        events.decoder.feed(chunk, |item| match item {
            Item::Event(event) | Item::TooLong(event) => {
                // What the last one leads to is done by the caller.
                if core::mem::replace(&mut any, true) {
                    self.follow(engine);
                }
                // Does nothing if the exchange ended with the event before.
                self.event(engine, id, event.name, event.data);
            }
            Item::Retry(wait) => retry = Some(wait.min(LONGEST_STREAM_RETRY)),
        });
        let Some(it) = self.exchanges.get_mut(id) else { return };
        events.retry = retry;
        events.sure |= any;
        events.brought |= any;
        if let ExchangeKind::Stream = it.purpose {
            self.connection.get_stream.read(any, events.decoder.last_id(), retry);
        }
        let buffered = events.decoder.buffered();
        it.reply = Reply::Events(events);
        self.exchanges.grown(0, buffered);
        self.read(engine, id, buffered > room);
    }

    /// Takes an event of a stream: a message to the engine, or what concerns the transport.
    fn event(&mut self, engine: &mut Engine, id: ExchangeId, name: &[u8], data: &[u8]) {
        let Some(it) = self.exchanges.get(id) else { return };
        if let (ExchangeKind::Sse, b"endpoint") = (&it.purpose, name) {
            match same_origin(&self.url, data) {
                Ok(target) => {
                    self.connection.sse.set_endpoint(target, true);
                    self.sse_step(engine, sse::Input::Endpoint, "");
                }
                Err(shown) => {
                    let why = format!("the server's stream names the endpoint `{shown}`, which is another origin");
                    self.sse_step(engine, sse::Input::EndpointElsewhere, &why);
                }
            }
            return;
        }
        let source = Incoming::new(data);
        let decoded = engine.decode(&source);
        if name != b"message" {
            // Only a whole message is one under another name.
            if !is_message(&decoded) || source.repaired().is_some() {
                return;
            }
            event_quirk(
                engine,
                QuirkKind::SseEventName,
                &it.purpose,
                format!("an event named `{}`", String::from_utf8_lossy(name)),
            );
        }
        match &it.purpose {
            ExchangeKind::Message(message) => match self.transport_error(engine, message, &decoded, data.len()) {
                Some(error) => {
                    self.drop_exchange(engine, id);
                    self.on_transport_error(engine, error);
                }
                None => engine.handle_exchange(message.id(), decoded, &source),
            },
            ExchangeKind::Resume(request, _) => engine.handle_exchange(Some(*request), decoded, &source),
            ExchangeKind::Sse if !self.connection.sse.is_ready() => {
                self.sse_step(engine, sse::Input::Message, "the stream names no endpoint");
            }
            ExchangeKind::Stream | ExchangeKind::Sse => engine.handle_exchange(None, decoded, &source),
            ExchangeKind::DeleteFormer(..) | ExchangeKind::Delete(_) => {}
        }
    }

    /// The stream of an exchange that was removed ended regularly: an event that no blank line ended counts if it is a whole
    /// message. Returns whether the exchange is settled by it.
    fn finish_stream(&mut self, engine: &mut Engine, it: &mut Exchange) -> bool {
        let Reply::Events(events) = &mut it.reply else { return false };
        let Some(data) = events.decoder.finish() else { return false };
        let source = Incoming::new(&data);
        let decoded = engine.decode(&source);
        if !is_message(&decoded) {
            return false;
        }
        event_quirk(engine, QuirkKind::SseUnfinished, &it.purpose, "no blank line ends the last event".into());
        match &it.purpose {
            ExchangeKind::Message(message) => return !self.take_answer(engine, message, decoded, &source),
            ExchangeKind::Resume(request, _) => engine.handle_exchange(Some(*request), decoded, &source),
            ExchangeKind::Sse if !self.connection.sse.is_ready() => {
                self.sse_step(engine, sse::Input::Message, "the stream names no endpoint");
            }
            ExchangeKind::Stream | ExchangeKind::Sse => engine.handle_exchange(None, decoded, &source),
            ExchangeKind::DeleteFormer(..) | ExchangeKind::Delete(_) => {}
        }
        false
    }

    /// There is no room to keep more of a response beside those of others.
    fn overflow(&mut self, engine: &mut Engine, id: ExchangeId) {
        self.follow(engine);
        let Some(it) = self.drop_exchange(engine, id) else { return };
        let limit = engine.options().limits.buffered;
        let why = format!("incomplete responses exceed {limit} bytes in total");
        self.end(engine, it, End::Overflow, Some(&why));
    }

    /// Follows a redirect. Returns the reply if it is a refusal.
    fn redirect(
        &mut self,
        engine: &mut Engine,
        id: ExchangeId,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Option<Reply> {
        let it = self.exchanges.get(id)?;
        let what = self.redirected(engine, &it.purpose)?;
        let (target, class) = match headers.get(LOCATION).map(|to| same_origin(&it.url, to.as_bytes())) {
            None => (Err("the server redirects, and names no address".into()), Target::Nowhere),
            Some(Ok(target)) if it.redirects < REDIRECTS => (Ok(target), Target::SameOrigin),
            Some(Ok(target)) => {
                let why = format!("the server redirects more than {REDIRECTS} times, last to `{target}`");
                (Err(why), Target::TooMany)
            }
            Some(Err(shown)) => {
                let why = format!("the server redirects to `{shown}`, which is another origin, or no address");
                (Err(why), Target::Elsewhere)
            }
        };
        let decision = http_response::redirect(what, self.connection.sse.is_ready(), class);
        if decision == Redirect::Refuse {
            return Some(Reply::Refusal(Box::new(Refusal::new(status, headers, &it.url))));
        }
        let it = self.drop_exchange(engine, id)?;
        let past = Past { redirects: it.redirects.saturating_add(1), waited: it.waited, ..Past::default() };
        let purpose = it.purpose;
        match (decision, target) {
            (Redirect::Follow, Ok(target)) => {
                self.url = target;
                self.go_on(engine, purpose, past);
            }
            (Redirect::PostToEndpoint, Ok(target)) => {
                self.connection.sse.set_endpoint(target, false);
                self.go_on(engine, purpose, past);
            }
            (Redirect::NoStream, _) => self.stream_decided(engine, get_stream::Input::NoStream),
            (Redirect::Violation | Redirect::Follow | Redirect::PostToEndpoint, Err(why)) => {
                engine.handle_transport(engine.now(), Transport::ProtocolViolation { why: &why })
            }
            (Redirect::RefuseAndEnd, Err(why)) => {
                no_answer(engine, purpose.request(), status.as_u16(), &why);
                engine.handle_transport(engine.now(), Transport::ProtocolViolation { why: &why });
            }
            (Redirect::Violation | Redirect::RefuseAndEnd, Ok(_)) | (Redirect::Refuse, _) => {}
        }
        None
    }

    /// What a redirect of this exchange concerns. The response to a DELETE is not read.
    fn redirected(&self, engine: &Engine, purpose: &ExchangeKind) -> Option<Redirected> {
        match purpose {
            ExchangeKind::Message(message) => {
                let is_call = message.id().is_some_and(|id| engine.request_info(id).of.is_some());
                Some(if is_call { Redirected::Call } else { Redirected::Message })
            }
            ExchangeKind::Stream => Some(Redirected::GetStream),
            ExchangeKind::Resume(..) | ExchangeKind::Sse => Some(Redirected::Get),
            ExchangeKind::DeleteFormer(..) | ExchangeKind::Delete(_) => None,
        }
    }

    /// Sends a redirected message or request of a stream to its target.
    fn go_on(&mut self, engine: &mut Engine, purpose: ExchangeKind, past: Past) {
        match (purpose.request(), purpose) {
            (Some(id), ExchangeKind::Message(_)) => self.post_again(engine, id, Again::Redirected, past),
            (_, ExchangeKind::Message(message)) => self.post(engine, message, past),
            (_, stream) => self.run_after(engine, stream, past),
        }
    }
}

/// Whether an exchange carries a request that does not wait for its response any more.
fn is_over(engine: &Engine, it: &Exchange) -> bool {
    it.purpose.request().is_some_and(|request| !engine.is_sent(request))
}

/// As what a body is read. The body of a response to a DELETE is not read.
fn body_of(purpose: &ExchangeKind, labelled: Option<Kind>, first: First) -> Option<Body> {
    let source = match (purpose, labelled) {
        (ExchangeKind::Message(_), None) => Source::PostUnlabelled,
        (ExchangeKind::Message(_), Some(Kind::Json)) => Source::PostJson,
        (ExchangeKind::Message(_), Some(Kind::Events)) => Source::PostEvents,
        (ExchangeKind::Stream, _) => Source::GetStream,
        (ExchangeKind::Resume(..) | ExchangeKind::Sse, _) => Source::Get,
        (ExchangeKind::DeleteFormer(..) | ExchangeKind::Delete(_), _) => return None,
    };
    Some(http_response::body(source, first))
}

const fn first_byte(byte: u8) -> First {
    match byte {
        // A page for people is no stream.
        b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b'<' => First::Json,
        // A comment, `data`, `event`, `id`, `retry`.
        b':' | b'd' | b'e' | b'i' | b'r' => First::Field,
        _ => First::Other,
    }
}

/// How the body of a POST deviates from its label.
const fn label_detail(labelled: Option<Kind>, kind: Kind) -> &'static str {
    match (labelled, kind) {
        (None, _) => "the body has no `Content-Type` that says whether it is JSON or a stream",
        (Some(_), Kind::Events) => "the body is a stream of events, and labelled `application/json`",
        (Some(_), Kind::Json) => "the body is JSON, and labelled `text/event-stream`",
    }
}

impl Http {
    /// Takes the end of a response, or the failure of an exchange.
    pub(super) fn ended(&mut self, engine: &mut Engine, mut it: Box<Exchange>, failure: Option<Broken>, why: &str) {
        let end = match failure {
            None => End::Complete,
            // An exchange whose response began has reached the server, whatever the failure.
            Some(Broken::Unreachable) if it.status == 0 => End::Unreached,
            Some(Broken::Unreachable | Broken::Midway) => End::Broke,
        };
        if end != End::Complete || !self.finish_stream(engine, &mut it) {
            self.end(engine, it, end, failure.map(|_| why));
        }
    }

    /// An exchange that was removed has ended; `why` says how it broke.
    pub(super) fn end(&mut self, engine: &mut Engine, it: Box<Exchange>, end: End, why: Option<&str>) {
        let (purpose, received) = (self.purpose(engine, &it.purpose), self.received(&it.reply));
        let (request, status) = (it.purpose.request(), it.status);
        match http_response::end(purpose, end, received) {
            AtEnd::Nothing => {}
            AtEnd::Judge => self.on_complete(engine, it, end),
            AtEnd::Unreached => self.unreached(engine, purpose, request, why.unwrap_or_default()),
            AtEnd::Undelivered => engine.handle_report(Report::Unsent),
            AtEnd::Resume => self.resume_broken(engine, it, why),
            AtEnd::ResumeLater => self.resume_later(engine, it),
            AtEnd::ResumeAuthorized => self.resume_authorized(engine, it),
            AtEnd::ResumeUnreached => self.resume_unreached(engine, it, why.unwrap_or_default()),
            AtEnd::Lost => lost(engine, request, why.unwrap_or(lost_reason(received))),
            AtEnd::NoAnswer => {
                let empty = received == Received::Empty;
                let own = if empty { "the body is empty" } else { "the body is neither JSON nor a stream of events" };
                no_answer(engine, request, status, why.unwrap_or(own));
            }
            AtEnd::InitializedAnswered => {
                self.accept_initialized(engine);
            }
            AtEnd::InitializedBroke => {
                if let ExchangeKind::Message(message) = it.purpose {
                    self.connection.initialized = Initialized::Waiting(Box::new((message, it.waited)));
                }
                self.initialized_broke(engine, why.unwrap_or(lost_reason(received)));
            }
            AtEnd::Expire => engine.handle_report(Report::Expired { id: None }),
            AtEnd::Authorize => {
                if let Reply::Refusal(refusal) = &it.reply {
                    let text = self.known().without_secrets(&refusal.text()).into_owned();
                    self.authorize(engine, None, None, it.sent, refusal, &text);
                }
            }
            AtEnd::GetStreamBroke => self.stream_decided(engine, get_stream::Input::Broke),
            AtEnd::SseRefused => {
                self.sse_step(engine, sse::Input::Refused, &format!("HTTP {status}"));
            }
            AtEnd::SseEnded => {
                self.sse_step(engine, sse::Input::Ended, why.unwrap_or("the stream of events ended"));
            }
            AtEnd::SseBroke => self.sse_step(engine, sse::Input::Broke, why.unwrap_or_default()),
            AtEnd::SseUnreached => self.sse_step(engine, sse::Input::Unreached, why.unwrap_or_default()),
            AtEnd::SendAgain => {
                if let ExchangeKind::DeleteFormer(id, _) = it.purpose {
                    self.post_again(engine, id, Again::Refused, Past::default());
                }
            }
            AtEnd::Deleted => {
                self.server.session.reset();
                self.step(engine, phase::Input::Deleted);
            }
        }
    }

    fn on_complete(&mut self, engine: &mut Engine, it: Box<Exchange>, end: End) {
        match (it.purpose, it.reply) {
            (ExchangeKind::Message(message), Reply::Json(body)) => self.answered(engine, &message, it.status, &body),
            (ExchangeKind::Message(message), Reply::Refusal(mut refusal)) => {
                refusal.goes_on |= end == End::Broke;
                self.refused(engine, message, (it.sent, it.waited), &refusal, end == End::Broke);
            }
            (ExchangeKind::Message(_), Reply::Nothing | Reply::Begun(_) | Reply::Events(_) | Reply::Ignored) => {}
            (
                ExchangeKind::Stream
                | ExchangeKind::Resume(..)
                | ExchangeKind::Sse
                | ExchangeKind::DeleteFormer(..)
                | ExchangeKind::Delete(_),
                _,
            ) => {}
        }
    }

    fn resume_later(&mut self, engine: &Engine, it: Box<Exchange>) {
        if let (ExchangeKind::Resume(id, mut broken), Reply::Refusal(refusal)) = (it.purpose, it.reply) {
            broken.waited = backoff(refusal.retry_after.or(broken.retry).unwrap_or(RETRY), broken.waited);
            self.pause(engine, id, broken.waited, Paused::Resume(broken));
        }
    }

    /// A stream is not resumed for lack of authorization, and is requested again later, while the client obtains that. The
    /// waits double, and end with the time of the request.
    fn resume_authorized(&mut self, engine: &mut Engine, it: Box<Exchange>) {
        let (ExchangeKind::Resume(id, _), Reply::Refusal(refusal)) = (&it.purpose, &it.reply) else { return };
        let (authority, why, _) = self.tokens.authority(engine.now(), it.sent, refusal, true);
        if authority == Authority::Client {
            self.resume_later(engine, it);
        } else {
            lost(engine, Some(*id), why.as_deref().unwrap_or(lost_reason(Received::Unauthorized)));
        }
    }

    /// Nobody was reached to resume a stream from. It is tried again, at most three times.
    fn resume_unreached(&mut self, engine: &mut Engine, it: Box<Exchange>, why: &str) {
        let ExchangeKind::Resume(id, broken) = it.purpose else { return };
        if !engine.is_sent(id) {
            return;
        }
        match self.count_unreached(engine, true, broken.retry.unwrap_or_default(), why) {
            Some(until) => self.pause(engine, id, until.since(engine.now()), Paused::Resume(broken)),
            None => self.end_unreached(engine, why),
        }
    }

    fn received(&self, reply: &Reply) -> Received {
        let received = reply.received();
        // Without a session id, no session can expire.
        if received == Received::NotFound && self.server.session.id().is_none() { Received::Refusal } else { received }
    }

    /// The stream of a request broke. That of a legacy server is resumed from the last event id, after the last `retry` time
    /// in the whole stream (specification 2025-11-25, "Resumability and Redelivery"), until five
    /// in a row brought nothing, unless the server names a wait.
    fn resume_broken(&mut self, engine: &mut Engine, it: Box<Exchange>, why: Option<&str>) {
        let (id, before) = match it.purpose {
            ExchangeKind::Message(message) => (message.id(), None),
            ExchangeKind::Resume(id, broken) => (Some(id), Some(*broken)),
            ExchangeKind::Stream | ExchangeKind::Sse | ExchangeKind::DeleteFormer(..) | ExchangeKind::Delete(_) => {
                (None, None)
            }
        };
        let events = if let Reply::Events(events) = &it.reply { Some(events) } else { None };
        let named = events.and_then(|events| events.decoder.last_id()).map(<[u8]>::to_vec);
        let is_first = before.is_none();
        let before = before.unwrap_or_default();
        let is_further = named.as_ref().is_some_and(|id| *id != before.last_id);
        let (last_id, retry) = (named.unwrap_or(before.last_id), events.and_then(|it| it.retry).or(before.retry));
        let has_brought = is_further || events.is_some_and(|events| events.brought);
        let barren = if is_first || has_brought || is_paced(retry) { 0 } else { before.barren.saturating_add(1) };
        let Some(id) = id.filter(|id| engine.is_sent(*id)) else { return };
        if barren >= BARREN {
            lost(engine, Some(id), "the stream of the answer was resumed five times, and brought nothing");
        } else if is_legacy(engine) && !last_id.is_empty() {
            let point = Box::new(ResumePoint { last_id, retry, barren, ..ResumePoint::default() });
            self.pause(engine, id, wait(retry, barren), Paused::Resume(point));
        } else {
            lost(engine, Some(id), why.unwrap_or("the stream ended before the answer"));
        }
    }

    /// A request did not reach the server. One that cannot be sent, while others get responses, does not end the
    /// connection; the second in a row does. It is tried again first if calls that reached the server wait for their
    /// responses.
    fn unreached(&mut self, engine: &mut Engine, purpose: Purpose, request: Option<u64>, why: &str) {
        let is_required = !engine.stage().is_established() || purpose == Purpose::Initialized;
        let has_responses = self.exchanges.iter().any(|(_, it)| it.status != 0);
        let is_outage = self.connection.outage.is_some();
        let ends = is_required || !has_responses || self.connection.unreached || is_outage;
        self.connection.unreached = !ends;
        let waits = is_outage || engine.has_call(self.exchanges.carried());
        if ends
            && !is_required
            && waits
            && let Some(id) = request.filter(|id| engine.is_sent(*id))
        {
            match self.count_unreached(engine, false, Duration::ZERO, why) {
                Some(until) => {
                    engine.note_unreached(id);
                    return self.pause(engine, id, until.since(engine.now()), Paused::Unreached);
                }
                None => {
                    engine.handle_report(Report::Lost { id, sent: false, why });
                    return self.end_unreached(engine, why);
                }
            }
        }
        report(engine, request.filter(|_| !is_required).map(|id| Report::Lost { id, sent: false, why }));
        if ends {
            engine.handle_transport(engine.now(), Transport::OpenFailed { how: OpenFailure::Connect, why });
        }
    }
}

/// The wait before a message is sent again that the server refused for now: as long as the server says, and at least twice
/// as long as the last time.
fn backoff(named: Duration, last: Duration) -> Duration {
    named.max(SHORTEST_RETRY).max(last.saturating_mul(2)).min(LONGEST_RETRY_AFTER)
}

/// An error with a success status that concerns the transport.
enum TransportError {
    /// `initialize` was refused because of the previous session.
    Former { id: u64, kind: QuirkKind },
    /// The session of the request expired.
    Expired { id: u64, kind: QuirkKind, method: Option<String>, error: ErrorObject },
}

/// Why there is no response to a request.
const fn lost_reason(received: Received) -> &'static str {
    match received {
        Received::EmptyStream | Received::Events => "the stream ended before the answer",
        Received::Unauthorized | Received::Refusal | Received::NotFound | Received::Busy => {
            "the stream of the request cannot be taken up again"
        }
        Received::Nothing | Received::Empty | Received::Json | Received::NoEvents | Received::Ignored => {
            "the connection closed before an answer"
        }
    }
}

impl Http {
    /// The complete response to a request arrived, as JSON.
    pub(super) fn answered(&mut self, engine: &mut Engine, message: &Outgoing, status: u16, body: &[u8]) {
        let source = Incoming::new(body);
        let decoded = engine.decode(&source);
        let is_taken = self.take_answer(engine, message, decoded, &source);
        if let Some(id) = message.id().filter(|id| is_taken && engine.is_sent(*id)) {
            let why = format!("the body does not answer the request: {}", excerpt_of(body));
            no_answer(engine, Some(id), status, &why);
        }
    }

    /// Takes a whole message that answers the POST of a request whose exchange was removed. Returns whether it was the
    /// engine's, and not about the transport.
    fn take_answer(
        &mut self,
        engine: &mut Engine,
        message: &Outgoing,
        decoded: Result<Decoded<'_>, Noise>,
        source: &Incoming<'_>,
    ) -> bool {
        if let Some(error) = self.transport_error(engine, message, &decoded, source.bytes().len()) {
            self.on_transport_error(engine, error);
            return false;
        }
        engine.handle_exchange(message.id(), decoded, source);
        true
    }

    /// The error in a body with a success status, if it concerns the transport and not the engine.
    fn transport_error(
        &self,
        engine: &Engine,
        message: &Outgoing,
        decoded: &Result<Decoded<'_>, Noise>,
        length: usize,
    ) -> Option<TransportError> {
        let id = message.id()?;
        let error = error_to(id, decoded).filter(|_| length <= REFUSAL_BYTES)?;
        let names_session = is_known_expiry(error);
        let session = self.session_of(engine, message, HttpStatus::Success);
        let post = self.post_of(engine, message, Some(error), &error.message);
        let class = error_class(Some(error));
        let expiry = http_response::expiry(HttpStatus::Success, session, names_session, class);
        match (expiry, http_response::meaning(HttpStatus::Success, post, class)) {
            (Expiry::AnsweredAs(kind), _) => {
                let method = message.method().map(ToOwned::to_owned);
                Some(TransportError::Expired { id, kind, method, error: error.clone() })
            }
            (Expiry::No, Outcome::EndFormerAs(kind)) => Some(TransportError::Former { id, kind }),
            (Expiry::No | Expiry::Unprocessed | Expiry::UnprocessedByStatus | Expiry::UnprocessedAs(_), _) => None,
        }
    }

    /// Takes an error with a success status that concerns the transport.
    fn on_transport_error(&mut self, engine: &mut Engine, error: TransportError) {
        match error {
            TransportError::Former { id, kind } => self.end_former(engine, kind, Some(id)),
            TransportError::Expired { id, kind, method, error } => {
                expiry_quirk(engine, kind, method.as_deref(), StatusCode::OK);
                engine.handle_report(Report::ExpiredResponse { id, error });
            }
        }
    }

    /// A message was refused by its status.
    pub(super) fn refused(
        &mut self,
        engine: &mut Engine,
        message: Outgoing,
        (sent, waited): (Sent, Duration),
        refusal: &Refusal,
        broke: bool,
    ) {
        let (id, cut) = (message.id(), refusal.is_cut(broke));
        let status = refusal.class();
        let error = error_in(&refusal.body);
        let (error, malformed) = match error {
            Some((error, deviations)) if deviations.error_shape => (None, Some(error)),
            error => (error.map(|(error, _)| error), None),
        };
        if malformed.is_some() {
            engine.transport_quirk(QuirkKind::ErrorShape, message.method(), ERROR_SHAPE);
        }
        let text = refusal.text();
        let said = error.as_ref().or(malformed.as_ref()).map_or(&*text, |error| &error.message);
        let said = &*self.known().without_secrets(said);
        let session = self.session_of(engine, &message, status);
        // A truncated text may have continued with another subject.
        let names_session = session != Session::None && !cut && says_no_session(said);
        let class = error_class(error.as_ref());
        match http_response::expiry(status, session, names_session, class) {
            Expiry::No => {}
            Expiry::Unprocessed | Expiry::AnsweredAs(_) => return engine.handle_report(Report::Expired { id }),
            Expiry::UnprocessedByStatus => {
                if let (Some(method), Some(_)) = (message.method(), id) {
                    self.server.session.add_not_found(method);
                }
                return engine.handle_report(Report::Expired { id });
            }
            Expiry::UnprocessedAs(kind) => {
                expiry_quirk(engine, kind, message.method(), refusal.status);
                return engine.handle_report(Report::Expired { id });
            }
        }
        // A gateway may have answered 503 for a server that runs the request.
        let may_run = status == HttpStatus::Paused;
        let is_busy = may_run || status == HttpStatus::Busy;
        let ends = is_busy && id.is_some_and(|id| !engine.repeat(id, may_run));
        let status = match (ends, may_run) {
            (false, _) => status,
            (true, true) => HttpStatus::Unavailable,
            (true, false) => HttpStatus::TooMany,
        };
        match http_response::meaning(status, self.post_of(engine, &message, error.as_ref(), said), class) {
            Outcome::Deliver | Outcome::Nothing => {}
            Outcome::Authorize => {
                let message = Some(message).filter(|_| id.is_none());
                self.authorize(engine, id, message, sent, refusal, said);
            }
            Outcome::Retry => {
                self.retry(engine, message, backoff(refusal.retry_after.unwrap_or(RETRY), waited));
            }
            Outcome::EndFormerAs(kind) => self.end_former(engine, kind, id),
            Outcome::Answer => take_refusal(engine, id, error, refusal.status, false),
            Outcome::RenewHeaders => take_refusal(engine, id, error, refusal.status, true),
            Outcome::RefusedAsSse => {
                let status = refusal.status.as_u16();
                let (text, body) = (refusal_text(refusal, said), refusal.body.clone());
                self.connection.sse.refuse(id.map(|id| Refused { id, status, text, body }));
                self.sse_step(engine, sse::Input::RefusedAsSse, "");
            }
            Outcome::Received => self.accept_initialized(engine),
            Outcome::Refuse => no_answer(engine, id, refusal.status.as_u16(), &refusal_text(refusal, said)),
        }
    }

    /// The session in which a message was sent.
    fn session_of(&self, engine: &Engine, message: &Outgoing, status: HttpStatus) -> Session {
        let method = message.method();
        if self.server.session.id().is_none() || message.is_modern() || method == Some(method::INITIALIZE) {
            return Session::None;
        }
        let is_renewed = match method {
            _ if status == HttpStatus::Unchallenged => engine.has_expired(),
            Some(method) => self.server.session.is_not_found(method),
            None => false,
        };
        if message.id().is_some_and(|id| engine.request_info(id).is_expired_again) {
            Session::Resent
        } else if is_renewed {
            Session::Renewed
        } else {
            Session::Held
        }
    }

    fn post_of(&self, engine: &Engine, message: &Outgoing, error: Option<&ErrorObject>, said: &str) -> Post {
        match (message.id(), message.method()) {
            (Some(_), Some(method::INITIALIZE)) if self.server.session.has_former() && is_initialized(said) => {
                Post::InitializeAgain
            }
            // A server that had a session has no HTTP+SSE.
            (Some(_), Some(method::INITIALIZE))
                if !self.server.session.has_former() && error.is_some_and(|error| engine.is_last_offer(error)) =>
            {
                Post::InitializeLast
            }
            (Some(_), Some(method::INITIALIZE)) => Post::Initialize,
            (Some(_), Some(method::DISCOVER)) if !engine.stage().is_established() => Post::Discover,
            (Some(_), Some(method::TOOLS_CALL)) if message.is_modern() => Post::ModernCall,
            (Some(_), _) => Post::Request,
            (None, Some(method::INITIALIZED)) => Post::Initialized,
            (None, _) => Post::OneWay,
        }
    }

    /// Sends a message again after this wait.
    fn retry(&mut self, engine: &Engine, message: Outgoing, wait: Duration) {
        match message.id() {
            Some(id) => self.pause(engine, id, wait, Paused::Resend(wait)),
            None => {
                self.timers.arm(engine.now() + wait, Due::SendInitialized);
                self.connection.initialized = Initialized::Waiting(Box::new((message, wait)));
            }
        }
    }

    /// `initialize` was refused because of the previous session, which is ended first.
    fn end_former(&mut self, engine: &mut Engine, kind: QuirkKind, id: Option<u64>) {
        let (Some(former), Some(id)) = (self.server.session.take_former(), id) else { return };
        let detail = "a new `initialize` was refused for the session before, which was ended first then";
        engine.transport_quirk(kind, Some(method::INITIALIZE), detail);
        self.run(engine, ExchangeKind::DeleteFormer(id, former));
    }
}

fn is_message(decoded: &Result<Decoded<'_>, Noise>) -> bool {
    matches!(decoded, Ok(Decoded::One(_) | Decoded::Batch(_)))
}

/// Records a deviation in the form of an event that is a message all the same.
fn event_quirk(engine: &mut Engine, kind: QuirkKind, purpose: &ExchangeKind, detail: String) {
    engine.transport_quirk(kind, purpose.message().and_then(Outgoing::method), detail);
}

fn expiry_quirk(engine: &mut Engine, kind: QuirkKind, method: Option<&str>, status: StatusCode) {
    let detail = format!("HTTP {} reported an expired session; the specification requires 404", status.as_u16());
    engine.transport_quirk(kind, method, detail);
}

/// The error in a refusal is the response, whatever its id.
fn take_refusal(engine: &mut Engine, id: Option<u64>, error: Option<ErrorObject>, status: StatusCode, headers: bool) {
    let unprocessed = status.is_client_error();
    report(engine, id.zip(error).map(|(id, error)| Report::Error { id, error, unprocessed, headers }));
}

impl Http {
    /// A request or a message was refused for lack of authorization. `message` is there if it is a notification or a
    /// response.
    pub(super) fn authorize(
        &mut self,
        engine: &mut Engine,
        id: Option<u64>,
        message: Option<Outgoing>,
        sent: Sent,
        refusal: &Refusal,
        why: &str,
    ) {
        let again = self.may_wait_again(engine, id, sent);
        let (authority, reason, step) = self.tokens.authority(engine.now(), sent, refusal, again);
        let forbidden = refusal.status == StatusCode::FORBIDDEN;
        let why = reason.as_deref().unwrap_or(why);
        let refused = Unauthorized { id, forbidden, why, challenges: &refusal.challenges, authority };
        let decision = engine.handle_unauthorized(refused);
        let used = sent.refused.saturating_add(1);
        let refused = match (decision, id, message) {
            (Authorization::Block, Some(id), _) => Held::Call(id),
            (Authorization::Hold, Some(id), _) => Held::Request(id, used),
            (Authorization::Hold, None, Some(message)) => Held::Message(message, used),
            (Authorization::EndConnection, ..) => Held::Connection,
            (Authorization::Block | Authorization::Hold | Authorization::ByStatus | Authorization::Nothing, ..) => {
                return;
            }
        };
        self.hold(engine, refused, authority, step);
    }

    /// Sends again what was refused, lets it wait for a token, or drops it. Returns whether it is sent again at some time.
    fn hold(&mut self, engine: &mut Engine, refused: Held, authority: Authority, step: Step) -> bool {
        let limit = engine.options().limits.in_flight.max(1);
        let Some(waiting) = self.tokens.waiting() else { return false };
        let is_ready = matches!(step, Step::Resend | Step::ResendWithNonce);
        match refused {
            // The next handshake is another operation.
            Held::Connection if authority != Authority::Client => waiting.handshake = 0,
            Held::Stream if authority != Authority::Client => {}
            Held::Message(..) if !is_ready && waiting.messages.len() >= limit => {
                engine.handle_report(Report::Unsent);
            }
            Held::Call(_) | Held::Request(..) | Held::Message(..) | Held::Stream | Held::Connection => {
                if is_ready {
                    waiting.send_again(refused);
                } else {
                    waiting.keep(refused);
                }
                return true;
            }
        }
        false
    }

    /// Whether what was refused may wait for authorization once more.
    fn may_wait_again(&mut self, engine: &Engine, id: Option<u64>, sent: Sent) -> bool {
        let call = id.map(|id| engine.request_info(id)).filter(|it| it.of.is_some()).map(|it| it.refusals);
        let handshake = self.tokens.waiting().map(|waiting| waiting.handshake).unwrap_or_default();
        call.unwrap_or_else(|| sent.refused.max(handshake)) < AUTHORIZATIONS
    }

    /// The GET stream was refused with 401. Returns what that means to it.
    pub(super) fn stream_refused(&mut self, engine: &mut Engine, sent: Sent, refusal: &Refusal) -> get_stream::Input {
        let used = self.tokens.waiting().map(|waiting| waiting.stream).unwrap_or_default();
        let again = used < AUTHORIZATIONS;
        let (authority, _, step) = self.tokens.authority(engine.now(), sent, refusal, again);
        if self.hold(engine, Held::Stream, authority, step) {
            get_stream::Input::Unauthorized
        } else {
            get_stream::Input::NotOffered
        }
    }

    /// Sends again what was refused for a reason that is over. Returns whether there was any.
    pub(super) fn send_authorized(&mut self, engine: &mut Engine) -> bool {
        let Some(waiting) = self.tokens.waiting() else { return false };
        if engine.is_ready() {
            waiting.handshake = 0;
        }
        let all = core::mem::take(&mut waiting.authorized);
        let any = !all.is_empty();
        for held in all {
            match held {
                Held::Call(id) => engine.handle_report(Report::CallAuthorized { id }),
                Held::Request(id, used) => self.post_refused(engine, id, used),
                Held::Message(message, used) => self.post_held(engine, message, used),
                Held::Stream => self.stream_step(engine, get_stream::Input::Authorized),
                Held::Connection => engine.handle_report(Report::ConnectionAuthorized),
            }
        }
        any
    }

    /// Posts a request again after this many refusals.
    fn post_refused(&mut self, engine: &mut Engine, id: u64, refused: u8) {
        self.post_again(engine, id, Again::Refused, Past { refused, ..Past::default() });
    }

    /// Posts a message again after this many refusals.
    fn post_held(&mut self, engine: &mut Engine, message: Outgoing, refused: u8) {
        self.post(engine, message, Past { refused, ..Past::default() });
    }

    /// Reports the result of the authorization to held requests and messages. Returns whether there was a result.
    pub(super) fn on_verdict(&mut self, engine: &mut Engine) -> bool {
        let Some(verdict) = self.tokens.pop_verdict() else { return false };
        let (requests, messages) = match self.tokens.waiting() {
            Some(waiting) => (core::mem::take(&mut waiting.requests), core::mem::take(&mut waiting.messages)),
            None => Default::default(),
        };
        match verdict {
            Ok(()) => {
                for (id, used) in requests {
                    self.post_refused(engine, id, used);
                }
                for (message, used) in messages {
                    self.post_held(engine, message, used);
                }
                self.stream_step(engine, get_stream::Input::Authorized);
                // A client that is closed needs no token any more.
                let _ = engine.authorized(engine.now());
            }
            Err(why) => {
                for (id, _) in requests {
                    no_answer(engine, Some(id), StatusCode::UNAUTHORIZED.as_u16(), &why);
                }
                messages.iter().for_each(|_| engine.handle_report(Report::Unsent));
                engine.handle_report(Report::Denied { why: &why });
            }
        }
        true
    }
}

pub(super) fn is_modern(engine: &Engine) -> bool {
    engine.server().is_some_and(|server| server.era() == Era::Modern)
}

/// Whether the handshake is done, and the server is a legacy one.
fn is_legacy(engine: &Engine) -> bool {
    engine.stage().is_established() && !is_modern(engine)
}
