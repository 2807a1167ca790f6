//! Reads responses as they come.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use http::header::LOCATION;
use http::{HeaderMap, StatusCode};

use super::action::ExchangeId;
use super::address::same_origin;
use super::exchange::{Exchange, ExchangeKind, Reply};
use super::limits::{LONGEST_RETRY_AFTER, REDIRECTS, WORDS};
use super::parts::Http;
use super::report::no_answer;
use super::response::{Events, Kind, Refusal, head_status, stream_input};
use crate::binding::{EventDecoder, Sse as Item, keep};
use crate::client::{Engine, Transport};
use crate::jsonrpc::MessageLimits;
use crate::machine::http_end::End;
use crate::machine::http_read::{Carrier, First, Name, Redirected, Source, Stream, Target};
use crate::machine::{get_stream, http_head, http_initialized, http_reach, http_read, http_sse};
use crate::protocol::method;

impl Http {
    /// Takes the head of a response.
    pub(super) fn head(&mut self, engine: &mut Engine, id: ExchangeId, status: StatusCode, headers: &HeaderMap) {
        let Some(it) = self.exchanges.get(id) else { return };
        self.tokens.take_head(status, headers);
        let purpose = self.head_purpose(engine, &it.purpose);
        let decision = http_head::take(purpose, head_status(status));
        self.reach_step(engine, http_reach::Input::Head, None, "");
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
            http_head::Decision::Redirect => return self.redirect(engine, id, status, headers),
            http_head::Decision::GetStream => {
                let refused = self.exchanges.get(id).filter(|_| status == StatusCode::UNAUTHORIZED);
                let input = match refused.map(|it| (it.sent, Refusal::new(status, headers, &it.url))) {
                    Some((sent, refusal)) => self.stream_refused(engine, sent, &refusal),
                    None => stream_input(status, labelled),
                };
                self.begin_reply(id, status, Reply::Begun(Some(Kind::Events)));
                return self.stream_decided(engine, input);
            }
            http_head::Decision::Nothing => return,
        };
        self.begin_reply(id, status, reply);
    }

    fn head_purpose(&self, engine: &Engine, purpose: &ExchangeKind) -> http_head::HeadOf {
        if purpose.request().is_some_and(|id| !engine.is_sent(id)) {
            return http_head::HeadOf::Over;
        }
        let sse = http_sse::is_sse(self.sse.state());
        match purpose {
            ExchangeKind::Message(message) => match (message.id(), sse) {
                (Some(_), false) => http_head::HeadOf::Request,
                (None, false) => http_head::HeadOf::OneWay,
                (Some(_), true) => http_head::HeadOf::SseRequest,
                (None, true) => http_head::HeadOf::SseOneWay,
            },
            ExchangeKind::Resume(..) => http_head::HeadOf::Resume,
            ExchangeKind::Stream => http_head::HeadOf::Stream,
            ExchangeKind::Sse => http_head::HeadOf::Sse,
            ExchangeKind::DeleteFormer(..) | ExchangeKind::Delete(_) => http_head::HeadOf::Delete,
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
        let Some(Exchange { purpose: ExchangeKind::Message(message), .. }) = self.exchanges.get(id) else { return };
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
            self.initialized_step(engine, http_initialized::Input::Answered, "");
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
            chunk = chunk.get(blank..).unwrap_or_default();
            let Some(first) = chunk.first() else { return };
            let Some(source) = body_source(&it.purpose, labelled) else { return };
            let (kind, quirk) = match http_read::take_body(source, first_byte(*first)) {
                http_read::Body::Json => (Kind::Json, None),
                http_read::Body::JsonAs(quirk) => (Kind::Json, Some(quirk)),
                http_read::Body::Events => (Kind::Events, None),
                http_read::Body::EventsAs(quirk) => (Kind::Events, Some(quirk)),
                http_read::Body::NoStream => return self.stream_decided(engine, get_stream::Input::NoStream),
            };
            if let (Some(quirk), ExchangeKind::Message(message)) = (quirk, &it.purpose) {
                engine.transport_quirk(quirk, message.method(), label_detail(labelled, kind));
            }
            it.reply = match kind {
                Kind::Json => Reply::Json(Vec::new()),
                Kind::Events => {
                    let (decoder, sure) = (EventDecoder::new(limit), labelled == Some(Kind::Events));
                    Reply::Events(Box::new(Events { decoder, retry: None, sure }))
                }
            };
            if quirk.is_some() {
                // The body may lead to actions that are not the engine's.
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
        if it.purpose.request().is_some_and(|request| !engine.is_sent(request)) {
            let resumed = matches!(it.purpose, ExchangeKind::Resume(..));
            match http_read::take_over(if resumed { Carrier::Resumed } else { Carrier::Post }) {
                http_read::Over::Linger => self.linger(engine, id),
                http_read::Over::Drop => {
                    self.drain(engine);
                    self.drop_exchange(id);
                    return;
                }
            }
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
                // What the last one leads to is done by the caller.
                if core::mem::replace(&mut any, true) {
                    self.drain(engine);
                }
                // Does nothing if the exchange ended with the event before.
                self.event(engine, id, event.name, event.data);
            }
            Item::Retry(wait) => retry = Some(wait.min(LONGEST_RETRY_AFTER)),
        });
        let Some(it) = self.exchanges.get_mut(id) else { return };
        events.retry = retry;
        events.sure |= any;
        if let ExchangeKind::Stream = it.purpose {
            self.get_stream.read(any, events.decoder.last_id(), retry);
        }
        let buffered = events.decoder.buffered();
        it.reply = Reply::Events(events);
        self.exchanges.grown(0, buffered);
        self.read(engine, id, buffered > room);
    }

    /// Takes an event of a stream: a message to the engine, or what concerns the transport.
    fn event(&mut self, engine: &mut Engine, id: ExchangeId, name: &[u8], data: &[u8]) {
        let Some(it) = self.exchanges.get(id) else { return };
        let Some(stream) = stream_of(&it.purpose) else { return };
        match http_read::take_event(stream, event_name(name)) {
            http_read::Event::Endpoint => match same_origin(&self.url, data) {
                Ok(target) => {
                    self.sse.set_endpoint(target);
                    self.sse_step(engine, http_sse::Input::Endpoint, "", b"");
                }
                Err(shown) => {
                    let why = format!("the server's stream names the endpoint `{shown}`, which is another origin");
                    self.sse_step(engine, http_sse::Input::EndpointElsewhere, &why, b"");
                }
            },
            http_read::Event::SseMessage => {
                self.sse_step(engine, http_sse::Input::Message, "the stream names no endpoint", data);
            }
            http_read::Event::Judge => self.judge_event(engine, id, data),
            http_read::Event::Answer => {
                if let Some(request) = it.purpose.request() {
                    let decoded = engine.decode(data);
                    engine.handle_exchange(request, decoded, data);
                }
            }
            http_read::Event::Message => engine.handle_message(engine.now(), data),
            http_read::Event::Nothing => {}
        }
    }

    /// Takes a message in the stream that answers the POST of a request.
    fn judge_event(&mut self, engine: &mut Engine, id: ExchangeId, data: &[u8]) {
        let Some(Exchange { purpose: ExchangeKind::Message(message), .. }) = self.exchanges.get(id) else { return };
        let Some(request) = message.id() else { return };
        let decoded = engine.decode(data);
        let Some(error) = self.concerned(engine, message, &decoded, data.len()) else {
            return engine.handle_exchange(request, decoded, data);
        };
        if let Some(it) = self.drop_exchange(id)
            && let ExchangeKind::Message(message) = it.purpose
        {
            self.take_error(engine, &message, &error);
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

    fn redirect(&mut self, engine: &mut Engine, id: ExchangeId, status: StatusCode, headers: &HeaderMap) {
        let Some(it) = self.exchanges.get(id) else { return };
        let Some(what) = self.redirected(engine, &it.purpose) else { return };
        let (target, class) = match headers.get(LOCATION).map(|to| same_origin(&it.url, to.as_bytes())) {
            None => (Err("the server redirects, and names no address".into()), Target::Nowhere),
            Some(Ok(target)) if it.redirects < REDIRECTS => (Ok(target), Target::Same),
            Some(Ok(target)) => {
                let why = format!("the server redirects more than {REDIRECTS} times, last to `{target}`");
                (Err(why), Target::TooMany)
            }
            Some(Err(shown)) => {
                let why = format!("the server redirects to `{shown}`, which is another origin, or no address");
                (Err(why), Target::Elsewhere)
            }
        };
        let decision = http_read::take_redirect(what, class);
        if decision == http_read::Redirect::Refuse {
            let refusal = Refusal::new(status, headers, &it.url);
            return self.begin_reply(id, status, Reply::Refusal(Box::new(refusal)));
        }
        let Some(it) = self.drop_exchange(id) else { return };
        let (purpose, again) = (it.purpose, it.redirects.saturating_add(1));
        match (decision, target) {
            (http_read::Redirect::Post, Ok(target)) => {
                self.url = target;
                self.post_on(engine, purpose, again);
            }
            (http_read::Redirect::PostToEndpoint, Ok(target)) => {
                self.sse.set_endpoint(target);
                self.post_on(engine, purpose, again);
            }
            (http_read::Redirect::Get, Ok(target)) => {
                self.url = target;
                self.get(purpose, again);
            }
            (http_read::Redirect::NoStream, _) => self.stream_decided(engine, get_stream::Input::NoStream),
            (
                http_read::Redirect::Violation
                | http_read::Redirect::Post
                | http_read::Redirect::PostToEndpoint
                | http_read::Redirect::Get,
                Err(why),
            ) => engine.handle_transport(engine.now(), Transport::ProtocolViolation { why: &why }),
            (http_read::Redirect::RefuseAndEnd, Err(why)) => {
                no_answer(engine, purpose.request(), status.as_u16(), &why);
                engine.handle_transport(engine.now(), Transport::ProtocolViolation { why: &why });
            }
            (http_read::Redirect::Violation | http_read::Redirect::RefuseAndEnd, Ok(_))
            | (http_read::Redirect::Refuse, _) => {}
        }
    }

    /// What a redirect of this exchange concerns. The response to a DELETE is not read.
    fn redirected(&self, engine: &Engine, purpose: &ExchangeKind) -> Option<Redirected> {
        match purpose {
            ExchangeKind::Message(message) => {
                let is_call = message.id().is_some_and(|id| engine.handle_of(id).is_some());
                Some(match (http_sse::is_sse(self.sse.state()), is_call) {
                    (false, true) => Redirected::Call,
                    (false, false) => Redirected::Message,
                    (true, true) => Redirected::SseCall,
                    (true, false) => Redirected::SseMessage,
                })
            }
            ExchangeKind::Stream => Some(Redirected::Stream),
            ExchangeKind::Resume(..) | ExchangeKind::Sse => Some(Redirected::Get),
            ExchangeKind::DeleteFormer(..) | ExchangeKind::Delete(_) => None,
        }
    }

    /// Posts a redirected message.
    fn post_on(&mut self, engine: &Engine, purpose: ExchangeKind, redirects: u8) {
        let ExchangeKind::Message(message) = purpose else { return };
        let message = match message.id() {
            Some(id) => engine.encode_again(id),
            None => Some(message),
        };
        if let Some(message) = message {
            self.post(message, redirects);
        }
    }
}

/// What a body belongs to. Bodies without a response are not read.
fn body_source(purpose: &ExchangeKind, labelled: Option<Kind>) -> Option<Source> {
    match purpose {
        ExchangeKind::Message(_) => Some(match labelled {
            None => Source::PostUnlabelled,
            Some(Kind::Json) => Source::PostJson,
            Some(Kind::Events) => Source::PostEvents,
        }),
        ExchangeKind::Stream => Some(Source::Stream),
        ExchangeKind::Resume(..) | ExchangeKind::Sse => Some(Source::Get),
        ExchangeKind::DeleteFormer(..) | ExchangeKind::Delete(_) => None,
    }
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

/// The stream that the events of an exchange come in.
fn stream_of(purpose: &ExchangeKind) -> Option<Stream> {
    match purpose {
        ExchangeKind::Message(message) => message.id().map(|_| Stream::Request),
        ExchangeKind::Resume(..) => Some(Stream::Resumed),
        ExchangeKind::Stream => Some(Stream::Get),
        ExchangeKind::Sse => Some(Stream::Sse),
        ExchangeKind::DeleteFormer(..) | ExchangeKind::Delete(_) => None,
    }
}

fn event_name(name: &[u8]) -> Name {
    match name {
        b"message" => Name::Message,
        b"endpoint" => Name::Endpoint,
        _ => Name::Other,
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
