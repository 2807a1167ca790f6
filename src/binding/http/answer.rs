//! Judges responses: classifies them for the tables, and applies the decisions.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use http::header::LOCATION;
use http::{HeaderMap, HeaderValue, StatusCode};

use super::action::{Broken as Failure, ExchangeId};
use super::address::same_origin;
use super::exchange::{Broken, Exchange, Purpose, Reply};
use super::limits::{EXCERPT, LONGEST_RETRY_AFTER, REDIRECTS, RETRY, SHORTEST_RETRY, WORDS};
use super::parts::Http;
use super::response::{Events, Kind, Refusal, head_status, stream_input};
use super::send::is_modern;
use super::sse::Refused;
use super::timers::Due;
use super::words::{class, is_initialized, is_known_expiry, json_error, names_session, short_error};
use crate::binding::{Sse as Item, SseDecoder, keep};
use crate::client::{Engine, Outgoing, Report, Transport};
use crate::jsonrpc::{ErrorObject, MessageLimits};
use crate::machine::http_answer::{Expiry, Meaning, Post, Session, Status, Words, take_expiry, take_meaning};
use crate::machine::http_end::{Decision, End};
use crate::machine::{QuirkKind, get_stream, http_end, http_head, http_reach, http_sse};
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
                        Reply::Events(Events { decoder, retry: None, sure })
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
                let (request, concerned) = (message.id(), self.concerned(engine, message, data));
                match (concerned, request) {
                    (Some(error), _) => {
                        if let Some(it) = self.drop_exchange(id)
                            && let Purpose::Message(message) = it.purpose
                        {
                            self.take_error(engine, &message, &error);
                        }
                    }
                    (None, Some(request)) => engine.handle_exchange(engine.now(), request, data),
                    (None, None) => engine.handle_message(engine.now(), data),
                }
            }
            (Purpose::Resume(request, _), b"message") => {
                let request = *request;
                engine.handle_exchange(engine.now(), request, data);
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
        self.end(engine, *it, End::Overflow, Some(&why));
    }

    /// Takes the end of a response, or that an exchange failed.
    pub(super) fn ended(&mut self, engine: &mut Engine, it: Exchange, failure: Option<Failure>, why: &str) {
        let end = match failure {
            None => End::Ended,
            // One whose response began has reached the server, however it failed.
            Some(Failure::Unreachable) if it.status == 0 => End::Unreached,
            Some(Failure::Unreachable | Failure::Midway) => End::Broke,
        };
        self.end(engine, it, end, failure.map(|_| why));
    }

    /// An exchange that was taken out is over; `why` are words for how it broke.
    fn end(&mut self, engine: &mut Engine, it: Exchange, end: End, why: Option<&str>) {
        let (purpose, response) = (self.end_purpose(engine, &it.purpose), self.end_response(&it.reply));
        let decision = http_end::take(purpose, end, response);
        let initialized =
            matches!(&it.purpose, Purpose::Message(message) if message.method() == Some(method::INITIALIZED));
        let Exchange { purpose, reply, status, .. } = it;
        let request = purpose.request();
        let why_lost = || match response {
            http_end::Response::EmptyStream | http_end::Response::Events => "the stream ended before the answer",
            http_end::Response::Unauthorized | http_end::Response::Refusal | http_end::Response::NotFound => {
                "the stream of the request cannot be taken up again"
            }
            http_end::Response::Nothing
            | http_end::Response::Empty
            | http_end::Response::Json
            | http_end::Response::NoEvents
            | http_end::Response::Busy
            | http_end::Response::Ignored => "the connection closed before an answer",
        };
        match decision {
            Decision::Nothing => {}
            Decision::Judge => match (purpose, reply) {
                (Purpose::Message(message), Reply::Json(body)) => self.answered(engine, &message, status, &body),
                (Purpose::Message(message), Reply::Refusal(refusal)) => {
                    return self.refused(engine, message, *refusal, end == End::Broke);
                }
                _ => {}
            },
            Decision::Resume => self.resume_broken(engine, purpose, reply, why),
            Decision::ResumeLater => {
                if let (Purpose::Resume(id, broken), Reply::Refusal(refusal)) = (purpose, reply) {
                    let wait = refusal.retry_after.or(broken.retry).unwrap_or(RETRY).max(SHORTEST_RETRY);
                    self.pause(engine, id, wait, Some(broken));
                }
            }
            Decision::Lost => lost(engine, request, why.unwrap_or(why_lost())),
            Decision::NoAnswer => {
                let own = match response {
                    http_end::Response::NoEvents => "the body is neither JSON nor a stream of events",
                    _ => "the body is empty",
                };
                no_answer(engine, request, status, why.unwrap_or(own));
            }
            Decision::Unreached => return self.unreached(engine, request, initialized, why.unwrap_or_default()),
            Decision::Expire => engine.handle_report(engine.now(), Report::Expired { id: None }),
            Decision::Authorize => {
                if let Reply::Refusal(refusal) = reply {
                    let words = String::from_utf8_lossy(&refusal.body);
                    authorize(engine, None, &refusal, &words);
                }
            }
            Decision::StreamBroke => self.stream_decided(engine, get_stream::Input::Broke),
            Decision::SseRefused => {
                let why = format!("HTTP {status}");
                self.sse_step(engine, http_sse::Input::Refused, &why, b"");
            }
            Decision::SseEnded => {
                self.sse_step(engine, http_sse::Input::Ended, why.unwrap_or("the stream of events ended"), b"");
            }
            Decision::SseBroke => self.sse_step(engine, http_sse::Input::Broke, why.unwrap_or_default(), b""),
            Decision::SseUnreached => self.sse_step(engine, http_sse::Input::Unreached, why.unwrap_or_default(), b""),
            Decision::SendAgain => {
                if let Purpose::DeleteFormer(id, _) = purpose {
                    self.post_again(engine, id);
                }
            }
            Decision::Deleted => {
                self.session.reset();
                self.step(engine, crate::machine::http::Input::Deleted);
            }
        }
        if initialized {
            self.accepted(engine);
        }
    }

    fn end_purpose(&self, engine: &Engine, purpose: &Purpose) -> http_end::Purpose {
        match purpose {
            Purpose::Message(message) if message.id().is_some() => http_end::Purpose::Request,
            Purpose::Message(_) if Self::is_owed(engine, purpose) => http_end::Purpose::Owed,
            Purpose::Message(_) => http_end::Purpose::OneWay,
            Purpose::Resume(..) => http_end::Purpose::Resume,
            Purpose::Stream => http_end::Purpose::Stream,
            Purpose::Sse => match self.sse.state() {
                http_sse::State::Fallback => http_end::Purpose::Fallback,
                http_sse::State::Streamable
                | http_sse::State::Absent
                | http_sse::State::Known
                | http_sse::State::Connecting
                | http_sse::State::Ready => http_end::Purpose::Sse,
            },
            Purpose::DeleteFormer(..) => http_end::Purpose::DeleteFormer,
            Purpose::Delete(_) => http_end::Purpose::Delete,
        }
    }

    fn end_response(&self, reply: &Reply) -> http_end::Response {
        match reply.class() {
            // Without a session none can expire.
            http_end::Response::NotFound if self.session.id().is_none() => http_end::Response::Refusal,
            class => class,
        }
    }

    /// The stream of a request broke off: it is resumed from the last id, and after the wait, that the server named in
    /// any part of it.
    fn resume_broken(&mut self, engine: &mut Engine, purpose: Purpose, reply: Reply, why: Option<&str>) {
        let (id, before) = match purpose {
            Purpose::Message(message) => (message.id(), None),
            Purpose::Resume(id, broken) => (Some(id), Some(*broken)),
            Purpose::Stream | Purpose::Sse | Purpose::DeleteFormer(..) | Purpose::Delete(_) => (None, None),
        };
        let Some(id) = id.filter(|id| engine.is_waiting(*id)) else { return };
        let events = match &reply {
            Reply::Events(events) => Some(events),
            Reply::Unsent | Reply::Nothing | Reply::Begun(_) | Reply::Json(_) | Reply::Refusal(_) | Reply::Ignored => {
                None
            }
        };
        let named = events.and_then(|events| events.decoder.last_id()).map(<[u8]>::to_vec);
        let before = before.unwrap_or(Broken { last_id: Vec::new(), retry: None });
        let (last_id, retry) = (named.unwrap_or(before.last_id), events.and_then(|it| it.retry).or(before.retry));
        if last_id.is_empty() || !engine.is_legacy() {
            return lost(engine, Some(id), why.unwrap_or("the stream ended before the answer"));
        }
        let wait = retry.unwrap_or(RETRY).max(SHORTEST_RETRY);
        self.pause(engine, id, wait, Some(Box::new(Broken { last_id, retry })));
    }

    /// A request reached nobody.
    fn unreached(&mut self, engine: &mut Engine, request: Option<u64>, initialized: bool, why: &str) {
        let agreed = engine.has_handshake();
        if let Some(id) = request.filter(|_| agreed) {
            engine.handle_report(engine.now(), Report::Lost { id, sent: false, why });
        }
        let others = agreed && !initialized && self.exchanges.iter().any(|(_, it)| it.status != 0);
        let input = if others { http_reach::Input::MissedOne } else { http_reach::Input::MissedAll };
        self.reach_step(engine, input, why);
    }

    /// The whole response to a request came, as JSON.
    fn answered(&mut self, engine: &mut Engine, message: &Outgoing, status: u16, body: &[u8]) {
        let Some(id) = message.id() else { return };
        if let Some(error) = self.concerned(engine, message, body) {
            return self.take_error(engine, message, &error);
        }
        engine.handle_exchange(engine.now(), id, body);
        if engine.is_waiting(id) {
            let excerpt = String::from_utf8_lossy(body.get(..body.len().min(EXCERPT)).unwrap_or(body));
            let why = format!("the body is no answer to the request: {}", excerpt.trim());
            no_answer(engine, Some(id), status, &why);
        }
    }

    /// The error that a body under a good status is, where it concerns the transport and is not the engine's.
    fn concerned(&self, engine: &Engine, message: &Outgoing, body: &[u8]) -> Option<ErrorObject> {
        let opening = message.method() == Some(method::INITIALIZE);
        let may_concern = if opening { self.session.has_former() } else { self.session.id().is_some() };
        let error = Some(message).filter(|_| may_concern).and_then(|message| short_error(body, message))?;
        match self.judge(engine, message, &error) {
            (Expiry::No, Meaning::EndFormerAs(_)) => Some(error),
            (Expiry::No, _) => None,
            (Expiry::Unprocessed | Expiry::UnprocessedAs(_) | Expiry::AnsweredAs(_), _) => Some(error),
        }
    }

    /// What an error under a good status means.
    fn judge(&self, engine: &Engine, message: &Outgoing, error: &ErrorObject) -> (Expiry, Meaning) {
        let words = if is_known_expiry(error) { Words::NoSession } else { Words::Other };
        let session = self.session_of(engine, message, Status::Good);
        let post = self.post_of(engine, message, &error.message);
        let class = class(Some(error));
        (take_expiry(session, Status::Good, words, class), take_meaning(post, Status::Good, class))
    }

    /// Takes an error under a good status that concerns the transport.
    fn take_error(&mut self, engine: &mut Engine, message: &Outgoing, error: &ErrorObject) {
        match self.judge(engine, message, error) {
            (Expiry::No, Meaning::EndFormerAs(kind)) => self.end_former(engine, kind, message),
            (Expiry::AnsweredAs(kind), _) => {
                expiry_quirk(engine, kind, message, StatusCode::OK);
                if let Some(id) = message.id() {
                    engine.take_expiry(engine.now(), id, error.clone());
                }
            }
            (Expiry::No | Expiry::Unprocessed | Expiry::UnprocessedAs(_), _) => {}
        }
    }

    /// A message was refused by its status.
    fn refused(&mut self, engine: &mut Engine, message: Outgoing, refusal: Refusal, broke: bool) {
        let now = engine.now();
        let (id, status, cut) = (message.id(), refusal.answer_status(), refusal.is_cut(broke));
        let initialized = message.method() == Some(method::INITIALIZED);
        let error = json_error(&refusal.body).map(|(_, error)| error);
        let words = String::from_utf8_lossy(&refusal.body);
        let said = error.as_ref().map_or(&*words, |error| &error.message);
        let session = self.session_of(engine, &message, status);
        // What broke off may have gone on about something else.
        let no_session = session != Session::None && !cut && names_session(said);
        let about = if no_session { Words::NoSession } else { Words::Other };
        match take_expiry(session, status, about, class(error.as_ref())) {
            Expiry::No => {}
            Expiry::Unprocessed | Expiry::AnsweredAs(_) => {
                if let (Some(method), Some(_), false) = (message.method(), id, no_session) {
                    self.session.add_not_found(method);
                }
                return engine.handle_report(now, Report::Expired { id });
            }
            Expiry::UnprocessedAs(kind) => {
                expiry_quirk(engine, kind, &message, refusal.status);
                return engine.handle_report(now, Report::Expired { id });
            }
        }
        match take_meaning(self.post_of(engine, &message, said), status, class(error.as_ref())) {
            Meaning::Deliver | Meaning::Nothing => {}
            Meaning::Authorize => authorize(engine, id, &refusal, said),
            Meaning::Retry => {
                return self.retry(engine, message, refusal.retry_after.unwrap_or(RETRY).max(SHORTEST_RETRY));
            }
            Meaning::EndFormerAs(kind) => self.end_former(engine, kind, &message),
            Meaning::Answer => take_refusal(engine, id, error, false),
            Meaning::RenewHeaders => take_refusal(engine, id, error, true),
            Meaning::RefusedAsSse => {
                if let Some(id) = id {
                    self.sse.refuse(Refused {
                        id,
                        status: refusal.status.as_u16(),
                        words: refusal_words(&refusal, said),
                    });
                    self.sse_step(engine, http_sse::Input::RefusedAsSse, "", b"");
                }
            }
            Meaning::Refuse => no_answer(engine, id, refusal.status.as_u16(), &refusal_words(&refusal, said)),
        }
        if initialized {
            self.accepted(engine);
        }
    }

    /// The session that a message was sent in.
    fn session_of(&self, engine: &Engine, message: &Outgoing, status: Status) -> Session {
        let method = message.method();
        if self.session.id().is_none() || is_modern(message) || method == Some(method::INITIALIZE) {
            return Session::None;
        }
        let renewed = match status {
            Status::Unchallenged => engine.expiries() > 0,
            Status::NotFound => method.is_some_and(|method| self.session.is_not_found(method)),
            Status::Good
            | Status::BadRequest
            | Status::Unauthorized
            | Status::NotAllowed
            | Status::Busy
            | Status::Client
            | Status::Unavailable
            | Status::UnavailableNow
            | Status::Server
            | Status::Other => false,
        };
        if message.id().is_some_and(|id| engine.is_resent(id)) {
            Session::Resent
        } else if renewed {
            Session::Renewed
        } else {
            Session::Held
        }
    }

    fn post_of(&self, engine: &Engine, message: &Outgoing, said: &str) -> Post {
        match (message.id(), message.method()) {
            (Some(_), Some(method::INITIALIZE)) if self.session.has_former() && is_initialized(said) => {
                Post::InitializeAgain
            }
            (Some(_), Some(method::INITIALIZE)) => Post::Initialize,
            (Some(_), Some(method::DISCOVER)) if !engine.has_handshake() => Post::Discover,
            (Some(_), Some(method::TOOLS_CALL)) if is_modern(message) => Post::ModernCall,
            (Some(_), _) => Post::Request,
            (None, Some(method::INITIALIZED)) => Post::Initialized,
            (None, _) => Post::OneWay,
        }
    }

    /// A message is sent again after this wait.
    fn retry(&mut self, engine: &Engine, message: Outgoing, wait: Duration) {
        match message.id() {
            Some(id) => self.pause(engine, id, wait, None),
            None => {
                self.timers.arm(engine.now() + wait, Due::SendInitialized);
                self.initialized_again = Some(Box::new(message));
            }
        }
    }

    /// `initialize` was refused for the session before, which is ended first then.
    fn end_former(&mut self, engine: &mut Engine, kind: QuirkKind, message: &Outgoing) {
        let (Some(former), Some(id)) = (self.session.take_former(), message.id()) else { return };
        let detail = "a new `initialize` was refused for the session before, which was ended first then";
        engine.transport_quirk(kind, Some(method::INITIALIZE), detail);
        self.delete(Purpose::DeleteFormer(id, former));
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
                self.post(engine, message, again);
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

fn expiry_quirk(engine: &mut Engine, kind: QuirkKind, message: &Outgoing, status: StatusCode) {
    let detail = format!("an expired session was told of by HTTP {}, where 404 is due", status.as_u16());
    engine.transport_quirk(kind, message.method(), detail);
}

/// What a refusal says, as far as people may see it.
fn refusal_words(refusal: &Refusal, said: &str) -> Box<str> {
    match &refusal.location {
        Some(location) if refusal.status.is_redirection() => format!("it points to `{location}`").into(),
        // The body repeats the address, with what secrets it has.
        None if refusal.status.is_redirection() => "it points to no address".into(),
        Some(_) | None if said.trim_start().starts_with('<') => "".into(),
        Some(_) | None => said.trim().into(),
    }
}

fn authorize(engine: &mut Engine, id: Option<u64>, refusal: &Refusal, why: &str) {
    let (forbidden, challenges) = (refusal.status == StatusCode::FORBIDDEN, &*refusal.challenges);
    engine.handle_report(engine.now(), Report::Unauthorized { id, forbidden, why, challenges });
}

/// The error that came with a refusal is the response, whatever id it bears.
fn take_refusal(engine: &mut Engine, id: Option<u64>, error: Option<ErrorObject>, headers: bool) {
    if let (Some(id), Some(error)) = (id, error) {
        engine.take_refusal(engine.now(), id, error, headers);
    }
}

/// A request stays without a response, and may have run.
fn lost(engine: &mut Engine, request: Option<u64>, why: &str) {
    if let Some(id) = request {
        engine.handle_report(engine.now(), Report::Lost { id, sent: true, why });
    }
}

/// What came is no response to a request.
fn no_answer(engine: &mut Engine, request: Option<u64>, status: u16, why: &str) {
    if let Some(id) = request {
        engine.handle_report(engine.now(), Report::Refused { id, status, why });
    }
}
