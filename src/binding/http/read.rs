//! Reads responses as they come.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use http::header::LOCATION;
use http::{HeaderMap, HeaderValue, StatusCode};

use super::action::ExchangeId;
use super::address::same_origin;
use super::exchange::{Exchange, Purpose, Reply};
use super::limits::{LONGEST_RETRY_AFTER, REDIRECTS, WORDS};
use super::parts::Http;
use super::response::{Events, Kind, Refusal, head_status, stream_input};
use crate::binding::{Sse as Item, SseDecoder, keep};
use crate::client::{Engine, Outgoing, Transport};
use crate::jsonrpc::MessageLimits;
use crate::machine::http_end::End;
use crate::machine::{QuirkKind, get_stream, http_head, http_reach, http_sse};
use crate::protocol::method;

impl Http {
    /// Takes the head of a response.
    pub(super) fn head(&mut self, engine: &mut Engine, id: ExchangeId, status: StatusCode, headers: &HeaderMap) {
        let Some(it) = self.exchanges.get(id) else { return };
        let purpose = self.head_purpose(engine, &it.purpose);
        let decision = http_head::take(purpose, head_status(status));
        self.reach_step(engine, http_reach::Input::Head, "");
        if status.is_success() {
            self.good_head(id, headers);
        }
        let labelled = Kind::labelled(headers);
        let reply = match decision {
            http_head::Decision::ReadAny => Reply::Begun(labelled),
            http_head::Decision::ReadEvents => Reply::Begun(Some(Kind::Events)),
            http_head::Decision::Delivered => return self.delivered(engine, id, status),
            http_head::Decision::DeliveredAs(kind) => {
                let message = self.exchanges.get(id).and_then(|it| it.purpose.one_way());
                let method = message.and_then(|message| message.method().map(ToOwned::to_owned));
                let detail = format!("answered with HTTP {} where 202 was due", status.as_u16());
                engine.transport_quirk(kind, method.as_deref(), detail);
                return self.delivered(engine, id, status);
            }
            http_head::Decision::Ignore => Reply::Ignored,
            http_head::Decision::ReadRefusal => {
                let Some(it) = self.exchanges.get(id) else { return };
                Reply::Refusal(Box::new(Refusal::new(status, headers, &it.url)))
            }
            http_head::Decision::Redirect => return self.redirect(engine, id, headers),
            http_head::Decision::GetStream => {
                self.begin_reply(id, status, Reply::Begun(Some(Kind::Events)));
                return self.stream_decided(engine, stream_input(status, labelled));
            }
            http_head::Decision::Nothing => return,
        };
        self.begin_reply(id, status, reply);
    }

    fn head_purpose(&self, engine: &Engine, purpose: &Purpose) -> http_head::Purpose {
        if purpose.request().is_some_and(|id| !engine.is_waiting(id)) {
            return http_head::Purpose::Over;
        }
        let sse = http_sse::is_sse(self.sse.state());
        match purpose {
            Purpose::Message(message) => match (message.id(), sse) {
                (Some(_), false) => http_head::Purpose::Request,
                (None, false) => http_head::Purpose::OneWay,
                (Some(_), true) => http_head::Purpose::SseRequest,
                (None, true) => http_head::Purpose::SseOneWay,
            },
            Purpose::Resume(..) => http_head::Purpose::Resume,
            Purpose::Stream => http_head::Purpose::Stream,
            Purpose::Sse => http_head::Purpose::Sse,
            Purpose::DeleteFormer(..) | Purpose::Delete(_) => http_head::Purpose::Delete,
        }
    }

    fn begin_reply(&mut self, id: ExchangeId, status: StatusCode, reply: Reply) {
        self.exchanges.set_reply(id, reply);
        if let Some(it) = self.exchanges.get_mut(id) {
            it.status = status.as_u16();
        }
    }

    /// What the head of a good response to a POST says of the session.
    fn good_head(&mut self, id: ExchangeId, headers: &HeaderMap) {
        let Some(Exchange { purpose: Purpose::Message(message), .. }) = self.exchanges.get(id) else { return };
        match message.method() {
            Some(method::INITIALIZE) => self.session.open(headers),
            Some(method) => self.session.remove_not_found(method),
            None => {}
        }
    }

    /// A notification or a response was accepted, and its room is wanted for others.
    fn delivered(&mut self, engine: &mut Engine, id: ExchangeId, status: StatusCode) {
        self.begin_reply(id, status, Reply::Ignored);
        if self.initialized == Some(id) {
            self.accepted(engine);
        }
        if self.is_current(engine) {
            if let Some(timer) = self.exchanges.get_mut(id).and_then(|it| it.release.take()) {
                self.timers.disarm(timer);
            }
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
            let rest = chunk.get(blank..).unwrap_or_default();
            if let Some(kind) = Kind::sniffed(rest, labelled) {
                if let (Purpose::Stream, Kind::Json) = (&it.purpose, kind) {
                    return self.stream_decided(engine, get_stream::Input::NoStream);
                }
                if let Purpose::Message(message) = &it.purpose {
                    label_quirk(engine, message, labelled, kind);
                }
                it.reply = match kind {
                    Kind::Json => Reply::Json(Vec::new()),
                    Kind::Events => {
                        let (decoder, sure) = (SseDecoder::new(limit), labelled == Some(Kind::Events));
                        Reply::Events(Box::new(Events { decoder, retry: None, sure }))
                    }
                };
                chunk = rest;
                self.drain(engine);
            }
        }
        let Some(it) = self.exchanges.get_mut(id) else { return };
        let mut overflow = false;
        match &mut it.reply {
            Reply::Json(kept) => overflow = !keep(kept, chunk, limit.min(room)) && room < limit,
            Reply::Refusal(refusal) => {
                keep(&mut refusal.body, chunk, limit.min(WORDS).min(room));
            }
            Reply::Events(_) => return self.events(engine, id, chunk, room),
            Reply::Unsent | Reply::Nothing | Reply::Begun(_) | Reply::Ignored => {}
        }
        let after = it.reply.buffered();
        self.exchanges.grown(before, after);
        self.read(engine, id, overflow || after > room);
    }

    /// A chunk of a response was read; the exchange may have nothing more to do.
    fn read(&mut self, engine: &mut Engine, id: ExchangeId, overflow: bool) {
        let Some(it) = self.exchanges.get(id) else { return };
        let (request, resumed) = (it.purpose.request(), matches!(it.purpose, Purpose::Resume(..)));
        if request.is_some_and(|request| !engine.is_waiting(request)) {
            if resumed {
                // The server may hold a resumed stream open for ever.
                self.drop_exchange(id);
                return;
            }
            self.linger(engine, id);
        }
        if overflow {
            self.overflow(engine, id);
        }
    }

    /// Takes a piece of a stream. What each event leads to is done before the next one is read, so that it makes no
    /// difference how the stream is cut into chunks.
    fn events(&mut self, engine: &mut Engine, id: ExchangeId, chunk: &[u8], room: usize) {
        let Some(it) = self.exchanges.get_mut(id) else { return };
        let Reply::Events(mut events) = core::mem::replace(&mut it.reply, Reply::Ignored) else { return };
        self.exchanges.grown(events.decoder.buffered(), 0);
        let (mut any, mut retry) = (false, events.retry);
        events.decoder.feed(chunk, |item| match item {
            Item::Event(event) | Item::TooLong(event) => {
                any = true;
                // The exchange may have ended with the event before.
                if self.exchanges.get(id).is_some() {
                    self.event(engine, id, event.name, event.data);
                    self.drain(engine);
                }
            }
            Item::Retry(wait) => retry = Some(wait.min(LONGEST_RETRY_AFTER)),
        });
        let Some(it) = self.exchanges.get(id) else { return };
        events.retry = retry;
        events.sure |= any;
        if let Purpose::Stream = it.purpose {
            self.get_stream.read(any, events.decoder.last_id(), retry);
        }
        let overflow = events.decoder.buffered() > room;
        self.exchanges.set_reply(id, Reply::Events(events));
        self.read(engine, id, overflow);
    }

    /// Takes an event of a stream: a message to the engine, or what concerns the transport.
    fn event(&mut self, engine: &mut Engine, id: ExchangeId, name: &[u8], data: &[u8]) {
        let Some(it) = self.exchanges.get(id) else { return };
        match (&it.purpose, name) {
            (Purpose::Sse, b"endpoint") => match same_origin(&self.url, data) {
                Ok(target) => {
                    self.sse.set_endpoint(target);
                    self.sse_step(engine, http_sse::Input::Endpoint, "", b"");
                }
                Err(shown) => {
                    let why = format!("the server's stream names the endpoint `{shown}`, which is another origin");
                    self.sse_step(engine, http_sse::Input::EndpointElsewhere, &why, b"");
                }
            },
            (Purpose::Sse, b"message") => {
                self.sse_step(engine, http_sse::Input::Message, "the stream names no endpoint", data);
            }
            (Purpose::Message(message), b"message") => {
                let Some(request) = message.id() else { return engine.handle_message(engine.now(), data) };
                let decoded = engine.decode(data);
                let Some(error) = self.concerned(engine, message, &decoded, data.len()) else {
                    return engine.handle_exchange(request, decoded, data);
                };
                if let Some(it) = self.drop_exchange(id)
                    && let Purpose::Message(message) = it.purpose
                {
                    self.take_error(engine, &message, &error);
                }
            }
            (Purpose::Resume(request, _), b"message") => {
                engine.handle_exchange(*request, engine.decode(data), data);
            }
            (Purpose::Stream | Purpose::DeleteFormer(..) | Purpose::Delete(_), b"message") => {
                engine.handle_message(engine.now(), data);
            }
            // Events of other types are not MCP's.
            _ => {}
        }
    }

    /// There is no room to keep more of a response beside those of others.
    fn overflow(&mut self, engine: &mut Engine, id: ExchangeId) {
        self.drain(engine);
        let Some(it) = self.drop_exchange(id) else { return };
        let limit = engine.options().limits.buffered;
        let why = format!("the answers under way are larger together than {limit} bytes");
        self.end(engine, it, End::Overflow, Some(&why));
    }

    fn redirect(&mut self, engine: &mut Engine, id: ExchangeId, headers: &HeaderMap) {
        let Some(it) = self.drop_exchange(id) else { return };
        let Exchange { purpose, url, redirects, .. } = *it;
        let location = headers.get(LOCATION).map_or(&b""[..], HeaderValue::as_bytes);
        let target = match same_origin(&url, location) {
            Ok(target) if redirects < REDIRECTS => Ok(target),
            Ok(target) => Err(format!("the server redirects more than {REDIRECTS} times, last to `{target}`")),
            Err(shown) => Err(format!("the server redirects to `{shown}`, which is another origin, or no address")),
        };
        let again = redirects.saturating_add(1);
        match (target, purpose) {
            // The GET stream is optional.
            (Err(_), Purpose::Stream) => self.stream_decided(engine, get_stream::Input::NoStream),
            (Err(why), _) => engine.handle_transport(engine.now(), Transport::ProtocolViolation { why: &why }),
            (Ok(target), Purpose::Message(message)) => {
                if http_sse::is_sse(self.sse.state()) {
                    self.sse.set_endpoint(target);
                } else {
                    self.url = target;
                }
                self.post(message, again);
            }
            (Ok(target), purpose @ (Purpose::Stream | Purpose::Resume(..) | Purpose::Sse)) => {
                self.url = target;
                self.get(purpose, again);
            }
            (Ok(_), Purpose::DeleteFormer(..) | Purpose::Delete(_)) => {}
        }
    }
}

fn label_quirk(engine: &mut Engine, message: &Outgoing, labelled: Option<Kind>, kind: Kind) {
    let detail: Box<str> = match (labelled, kind) {
        (Some(Kind::Json), Kind::Events) => "the body is a stream of events, and labelled `application/json`".into(),
        (Some(Kind::Events), Kind::Json) => "the body is JSON, and labelled `text/event-stream`".into(),
        (None, _) => "the body has no `Content-Type` that says whether it is JSON or a stream".into(),
        (Some(Kind::Json), Kind::Json) | (Some(Kind::Events), Kind::Events) => return,
    };
    engine.transport_quirk(QuirkKind::ContentType, message.method(), detail);
}
