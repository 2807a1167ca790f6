//! Responses: their heads, bodies and ends, and what they mean.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, DATE, HeaderName, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};

use super::action::{Broken, ExchangeId};
use super::connection::{Due, EXCERPT, Http, LONGEST_RETRY_AFTER, REDIRECTS, RETRY, Refused, SHORTEST_RETRY, WORDS};
use super::exchange::{Exchange, ExchangeKind, Reply, ResumePoint};
use super::send::is_modern;
use super::tokens::Sent;
use crate::binding::address::{Address, resolve, same_origin};
use crate::binding::sse::{Decoder, Sse as Item, keep};
use crate::client::{Challenge, Engine, Outgoing, Report, Transport};
use crate::jsonrpc::{self, Body, Decoded, Deviations, ErrorObject, Message, MessageLimits, Noise, ResponseId};
use crate::machine::http_answer::{
    self, Error, Expiry, Meaning, Post, Session, Status, Words, take_expiry, take_meaning,
};
use crate::machine::http_end::{self, Decision, End, LastId, Response, Resumption};
use crate::machine::http_read::{self, Carrier, First, Name, Redirected, Source, Stream, Target};
use crate::machine::{QuirkKind, get_stream, http as phase, http_head, http_initialized, http_reach, http_sse};
use crate::protocol::{error_code, method};

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
}

/// A response with an error status.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Refusal {
    #[cfg_attr(feature = "snapshot", serde(with = "super::snapshot::status"))]
    pub(super) status: StatusCode,
    /// The wait before the next attempt, [`LONGEST_RETRY_AFTER`] at most; [`RETRY`] if its `Retry-After` has no valid
    /// time.
    pub(super) retry_after: Option<Duration>,
    pub(super) challenges: Vec<Challenge>,
    /// The target of the redirect.
    pub(super) location: Option<Address>,
    /// The length of the body, if the server declares it.
    pub(super) length: Option<usize>,
    #[cfg_attr(feature = "snapshot", serde(with = "crate::form::bytes"))]
    pub(super) body: Vec<u8>,
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

impl Refusal {
    /// Whether the relevant part of the body is incomplete.
    fn is_cut(&self, broke: bool) -> bool {
        broke || self.length.is_some_and(|length| self.body.len() < length.min(WORDS))
    }

    /// The class of the status for a POST.
    fn answer_status(&self) -> http_answer::Status {
        use http_answer::Status;
        match self.status {
            StatusCode::BAD_REQUEST => Status::BadRequest,
            StatusCode::UNAUTHORIZED if self.challenges.is_empty() => Status::Unchallenged,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Status::Unauthorized,
            StatusCode::NOT_FOUND => Status::NotFound,
            StatusCode::METHOD_NOT_ALLOWED => Status::NotAllowed,
            StatusCode::TOO_MANY_REQUESTS if self.retry_after.is_some() => Status::Busy,
            StatusCode::SERVICE_UNAVAILABLE if self.retry_after.is_some() => Status::UnavailableNow,
            StatusCode::SERVICE_UNAVAILABLE => Status::Unavailable,
            status if status.is_client_error() => Status::Client,
            status if status.is_server_error() => Status::Server,
            _ => Status::Other,
        }
    }

    /// The class of the status at the end of an exchange.
    pub(super) fn end_response(&self) -> http_end::Response {
        use http_end::Response;
        match self.status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Response::Unauthorized,
            StatusCode::NOT_FOUND => Response::NotFound,
            StatusCode::TOO_MANY_REQUESTS => Response::Busy,
            status if status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED => Response::Busy,
            _ => Response::Refusal,
        }
    }

    pub(super) fn new(status: StatusCode, headers: &HeaderMap, url: &Address) -> Self {
        let retry_after = headers.contains_key(RETRY_AFTER).then(|| retry_after(headers).unwrap_or(RETRY));
        let mut challenges = Vec::new();
        for value in headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok()) {
            for challenge in http_auth::parser::ChallengeParser::new(value).map_while(Result::ok) {
                let params = challenge.params.iter().map(|(name, value)| ((*name).into(), value.to_unescaped().into()));
                challenges.push(Challenge::new(challenge.scheme, params.collect()));
            }
        }
        let location = headers.get(LOCATION).and_then(|location| resolve(url, location.as_bytes()));
        let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.trim().parse().ok());
        Self { status, retry_after, challenges, location, length, body: Vec::new() }
    }
}

/// The class of a status for the exchange.
fn head_status(status: StatusCode) -> http_head::Status {
    match status {
        StatusCode::ACCEPTED => http_head::Status::Accepted,
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => http_head::Status::Moved,
        status if status.is_success() => http_head::Status::Good,
        _ => http_head::Status::Bad,
    }
}

/// The meaning of a response's head for the GET stream.
fn stream_input(status: StatusCode, labelled: Option<Kind>) -> get_stream::Input {
    match status {
        StatusCode::METHOD_NOT_ALLOWED | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            get_stream::Input::NotOffered
        }
        StatusCode::NOT_FOUND => get_stream::Input::NotFound,
        StatusCode::NOT_IMPLEMENTED => get_stream::Input::NoStream,
        StatusCode::TOO_MANY_REQUESTS => get_stream::Input::Broke,
        status if status.is_server_error() => get_stream::Input::Broke,
        status if status.is_success() && labelled != Some(Kind::Json) => get_stream::Input::Opened,
        _ => get_stream::Input::OtherAnswer,
    }
}

/// The time in `Retry-After`, if valid (RFC 9110, section 10.2.3). A date is relative to the response's own `Date`,
/// since a client has no calendar.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: HeaderName| headers.get(name)?.to_str().ok().map(str::trim);
    let after = text(RETRY_AFTER).filter(|after| !after.is_empty())?;
    let wait = if after.bytes().all(|byte| byte.is_ascii_digit()) {
        // An overflow is above any limit.
        Duration::from_secs(after.parse().unwrap_or(u64::MAX))
    } else {
        let (until, now) = (httpdate::parse_http_date(after).ok()?, httpdate::parse_http_date(text(DATE)?).ok()?);
        until.duration_since(now).unwrap_or_default()
    };
    Some(wait.min(LONGEST_RETRY_AFTER))
}

/// The code of 2025-11-25 for a resource that does not exist.
const RESOURCE_NOT_FOUND: i64 = -32002;

/// The class of the JSON-RPC error in a body.
pub(super) fn class(error: Option<&ErrorObject>) -> Error {
    match error.map(|error| error.code) {
        None => Error::None,
        Some(error_code::METHOD_NOT_FOUND) => Error::MethodNotFound,
        Some(error_code::INVALID_PARAMS) => Error::InvalidParams,
        Some(RESOURCE_NOT_FOUND) => Error::ResourceNotFound,
        Some(error_code::HEADER_MISMATCH) => Error::HeaderMismatch,
        Some(error_code::UNSUPPORTED_PROTOCOL_VERSION | error_code::MISSING_REQUIRED_CLIENT_CAPABILITY) => {
            Error::Modern
        }
        Some(_) => Error::Other,
    }
}

/// The JSON-RPC error in the body of a refusal.
fn error_in(body: &[u8]) -> Option<ErrorObject> {
    let Ok(Decoded::One(Message { body: Body::Error { error, .. }, deviations, .. })) =
        jsonrpc::decode(body, jsonrpc::MessageLimits::default())
    else {
        return None;
    };
    is_error(deviations, &error).then_some(error)
}

/// The error in this message for a request. An error with the id of another request is not a response to this one.
fn error_to<'a>(request: u64, decoded: &'a Result<Decoded<'_>, Noise>) -> Option<&'a ErrorObject> {
    let Ok(Decoded::One(Message { body: Body::Error { id, error }, deviations, .. })) = decoded else { return None };
    match id {
        ResponseId::Exact(id) | ResponseId::Loose(id) if *id != request => None,
        ResponseId::Exact(_) | ResponseId::Loose(_) | ResponseId::Absent | ResponseId::Foreign => {
            is_error(*deviations, error).then_some(error)
        }
    }
}

/// Whether an error is a JSON-RPC error, and not one of a gateway.
const fn is_error(deviations: Deviations, error: &ErrorObject) -> bool {
    !deviations.version || error.code != 0
}

/// Whether code and whole message are those that known transports send with a success status for an unknown session.
fn is_known_expiry(error: &ErrorObject) -> bool {
    const CODES: [i64; 3] = [-32000, -32001, -32600];
    const MESSAGES: [&str; 4] =
        ["session not found", "invalid session id", "no valid session id provided", "server not initialized"];
    if !CODES.contains(&error.code) {
        return false;
    }
    let said = error.message.trim().to_ascii_lowercase();
    let said = said.strip_prefix("bad request: ").unwrap_or(&said);
    let said = said.strip_suffix(" or expired").unwrap_or(said);
    MESSAGES.contains(&said)
}

/// Whether a refusal says that something is wrong with the transport's session, or that the server is not initialized: by
/// words that stand before them in such messages, and no other, and nothing else is said in the same clause. A tool says
/// which session it means: "Browser session not found".
fn names_session(said: &str) -> bool {
    const GENERIC: &str = "\
        a active an and bad be cannot client code could detail error expired find for found has have header http \
        in invalid is message mcp missing must no not of or please provide reason request required requires \
        server service stale status statuscode such terminated the there this to transport unauthorized \
        unavailable unknown unrecognized valid was with you your";
    // What a message says of the session.
    const SAID: &str = "\
        again any been closed does exist exists first gone given id ids initialize initialized it longer new node on \
        provided reinitialize session sessionid yet";
    // At least one of these words is required.
    const FAULTS: &str = "\
        again bad been cannot closed expired first given gone invalid longer missing must no not provide provided \
        reinitialize required requires stale terminated unauthorized unknown unrecognized yet";
    let is_in = |words: &str, word: &str| words.split(' ').any(|known| word.eq_ignore_ascii_case(known));
    let is_generic = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit()) || is_in(GENERIC, word);
    let is_of_id = |word: &str| {
        word.bytes().any(|byte| byte.is_ascii_digit()) || word.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let between = |it: char| !it.is_alphanumeric();
    let (mut negated, mut at_fault, mut rest) = (false, false, said);
    loop {
        rest = rest.trim_start_matches(between);
        let Some((word, after)) = rest.split_at_checked(rest.find(between).unwrap_or(rest.len())) else { return false };
        let is = |known: &str| word.eq_ignore_ascii_case(known);
        if is("session") || is("sessionid") || negated && is("initialized") {
            // It must not continue with another subject: "Session 7 of the workshop is full".
            let clause = after.split([':', '.', ';', '\n']).next().unwrap_or_default();
            let mut words = clause.split(between).filter(|word| !word.is_empty());
            let at_fault = at_fault || words.clone().any(|word| is_in(FAULTS, word));
            return at_fault && words.all(|word| is_generic(word) || is_of_id(word) || is_in(SAID, word));
        }
        if word.is_empty() || !is_generic(word) {
            return false;
        }
        at_fault |= is_in(FAULTS, word);
        (negated, rest) = (is("not"), after);
    }
}

/// Whether the text says that the server is initialized already.
fn is_initialized(said: &str) -> bool {
    const WORDS: &[u8] = b"already initialized";
    said.as_bytes().windows(WORDS.len()).any(|words| words.eq_ignore_ascii_case(WORDS))
}

/// A request gets no response, and may have run.
fn lost(engine: &mut Engine, request: Option<u64>, why: &str) {
    if let Some(id) = request {
        engine.handle_report(engine.now(), Report::Lost { id, sent: true, why });
    }
}

/// The body is not a response to a request.
pub(super) fn no_answer(engine: &mut Engine, request: Option<u64>, status: u16, why: &str) {
    if let Some(id) = request {
        engine.handle_report(engine.now(), Report::Refused { id, status, why });
    }
}

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
                    let (decoder, sure) = (Decoder::new(limit), labelled == Some(Kind::Events));
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

impl Http {
    /// Takes the end of a response, or the failure of an exchange.
    pub(super) fn ended(&mut self, engine: &mut Engine, it: Box<Exchange>, failure: Option<Broken>, why: &str) {
        let end = match failure {
            None => End::Ended,
            // An exchange whose response began has reached the server, whatever the failure.
            Some(Broken::Unreachable) if it.status == 0 => End::Unreached,
            Some(Broken::Unreachable | Broken::Midway) => End::Broke,
        };
        self.end(engine, it, end, failure.map(|_| why));
    }

    /// An exchange that was removed has ended; `why` says how it broke.
    pub(super) fn end(&mut self, engine: &mut Engine, it: Box<Exchange>, end: End, why: Option<&str>) {
        let (purpose, response) = (self.end_purpose(engine, &it.purpose), self.end_response(&it.reply));
        let (request, status) = (it.purpose.request(), it.status);
        match http_end::take(purpose, end, response) {
            Decision::Nothing => {}
            Decision::Judge => self.judged(engine, it, end),
            Decision::Unreached => self.unreached(engine, purpose, request, why.unwrap_or_default()),
            Decision::Resume => self.resume_broken(engine, it, why),
            Decision::ResumeLater => self.resume_later(engine, it),
            Decision::Lost => lost(engine, request, why.unwrap_or(lost_words(response))),
            Decision::NoAnswer => {
                let empty = response == Response::Empty;
                let own = if empty { "the body is empty" } else { "the body is neither JSON nor a stream of events" };
                no_answer(engine, request, status, why.unwrap_or(own));
            }
            Decision::InitializedAnswered => {
                self.initialized_step(engine, http_initialized::Input::Answered, "");
            }
            Decision::InitializedBroke => {
                if let ExchangeKind::Message(message) = it.purpose {
                    self.initialized_again = Some(Box::new(message));
                }
                self.initialized_step(engine, http_initialized::Input::Broke, why.unwrap_or(lost_words(response)));
            }
            Decision::Expire => engine.handle_report(engine.now(), Report::Expired { id: None }),
            Decision::Authorize => {
                if let Reply::Refusal(refusal) = &it.reply {
                    let words = String::from_utf8_lossy(&refusal.body);
                    let words = self.tokens.without_secrets(&words).into_owned();
                    self.authorize(engine, None, None, it.sent, refusal, &words);
                }
            }
            Decision::StreamBroke => self.stream_decided(engine, get_stream::Input::Broke),
            Decision::SseRefused => {
                self.sse_step(engine, http_sse::Input::Refused, &format!("HTTP {status}"), b"");
            }
            Decision::SseEnded => {
                self.sse_step(engine, http_sse::Input::Ended, why.unwrap_or("the stream of events ended"), b"");
            }
            Decision::SseBroke => self.sse_step(engine, http_sse::Input::Broke, why.unwrap_or_default(), b""),
            Decision::SseUnreached => self.sse_step(engine, http_sse::Input::Unreached, why.unwrap_or_default(), b""),
            Decision::SendAgain => {
                if let ExchangeKind::DeleteFormer(id, _) = it.purpose {
                    self.post_again(engine, id);
                }
            }
            Decision::Deleted => {
                self.session.reset();
                self.step(engine, phase::Input::Deleted);
            }
        }
    }

    fn judged(&mut self, engine: &mut Engine, it: Box<Exchange>, end: End) {
        let Exchange { purpose: ExchangeKind::Message(message), reply, status, sent, .. } = *it else { return };
        match reply {
            Reply::Json(body) => self.answered(engine, &message, status, &body),
            Reply::Refusal(refusal) => self.refused(engine, message, sent, &refusal, end == End::Broke),
            Reply::Unsent | Reply::Nothing | Reply::Begun(_) | Reply::Events(_) | Reply::Ignored => {}
        }
    }

    fn resume_later(&mut self, engine: &Engine, it: Box<Exchange>) {
        if let (ExchangeKind::Resume(id, broken), Reply::Refusal(refusal)) = (it.purpose, it.reply) {
            let wait = refusal.retry_after.or(broken.retry).unwrap_or(RETRY).max(SHORTEST_RETRY);
            self.pause(engine, id, wait, Some(broken));
        }
    }

    fn end_purpose(&self, engine: &Engine, purpose: &ExchangeKind) -> http_end::EndOf {
        match purpose {
            ExchangeKind::Message(message) if message.id().is_some() => http_end::EndOf::Request,
            ExchangeKind::Message(message) if message.method() == Some(method::INITIALIZED) => {
                http_end::EndOf::Initialized
            }
            ExchangeKind::Message(_) if Self::is_owed(engine, purpose) => http_end::EndOf::Owed,
            ExchangeKind::Message(_) => http_end::EndOf::OneWay,
            ExchangeKind::Resume(..) => http_end::EndOf::Resume,
            ExchangeKind::Stream => http_end::EndOf::Stream,
            ExchangeKind::Sse => match self.sse.state() {
                http_sse::State::Fallback => http_end::EndOf::Fallback,
                http_sse::State::Streamable
                | http_sse::State::Absent
                | http_sse::State::Known
                | http_sse::State::Connecting
                | http_sse::State::Ready => http_end::EndOf::Sse,
            },
            ExchangeKind::DeleteFormer(..) => http_end::EndOf::DeleteFormer,
            ExchangeKind::Delete(_) => http_end::EndOf::Delete,
        }
    }

    fn end_response(&self, reply: &Reply) -> Response {
        let class = reply.class();
        // Without a session id, no session can expire.
        if class == Response::NotFound && self.session.id().is_none() { Response::Refusal } else { class }
    }

    /// The stream of a request broke: it is resumed from the last event id, after the last `retry` time in the whole
    /// stream.
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
        let before = before.unwrap_or(ResumePoint { last_id: Vec::new(), retry: None });
        let (last_id, retry) = (named.unwrap_or(before.last_id), events.and_then(|it| it.retry).or(before.retry));
        let Some(id) = id else { return };
        let request = match (engine.is_sent(id), engine.is_legacy()) {
            (false, _) => http_end::Broken::Over,
            (true, true) => http_end::Broken::Legacy,
            (true, false) => http_end::Broken::Other,
        };
        match http_end::take_resumption(request, if last_id.is_empty() { LastId::None } else { LastId::Named }) {
            Resumption::Resume => {
                let wait = retry.unwrap_or(RETRY).max(SHORTEST_RETRY);
                self.pause(engine, id, wait, Some(Box::new(ResumePoint { last_id, retry })));
            }
            Resumption::Lost => lost(engine, Some(id), why.unwrap_or("the stream ended before the answer")),
            Resumption::Nothing => {}
        }
    }

    /// A request did not reach the server.
    fn unreached(&mut self, engine: &mut Engine, purpose: http_end::EndOf, request: Option<u64>, why: &str) {
        let input = if !engine.has_handshake() || purpose == http_end::EndOf::Initialized {
            http_reach::Input::MissedHandshake
        } else if self.exchanges.iter().any(|(_, it)| it.status != 0) {
            http_reach::Input::MissedOne
        } else {
            http_reach::Input::MissedAll
        };
        self.reach_step(engine, input, request, why);
    }
}

/// The message for a request without a response.
const fn lost_words(response: Response) -> &'static str {
    match response {
        Response::EmptyStream | Response::Events => "the stream ended before the answer",
        Response::Unauthorized | Response::Refusal | Response::NotFound | Response::Busy => {
            "the stream of the request cannot be taken up again"
        }
        Response::Nothing | Response::Empty | Response::Json | Response::NoEvents | Response::Ignored => {
            "the connection closed before an answer"
        }
    }
}

impl Http {
    /// The complete response to a request arrived, as JSON.
    pub(super) fn answered(&mut self, engine: &mut Engine, message: &Outgoing, status: u16, body: &[u8]) {
        let Some(id) = message.id() else { return };
        let decoded = engine.decode(body);
        if let Some(error) = self.concerned(engine, message, &decoded, body.len()) {
            return self.take_error(engine, message, &error);
        }
        engine.handle_exchange(id, decoded, body);
        if engine.is_sent(id) {
            let excerpt = String::from_utf8_lossy(body.get(..body.len().min(EXCERPT)).unwrap_or(body));
            let why = format!("the body is no answer to the request: {}", excerpt.trim());
            no_answer(engine, Some(id), status, &why);
        }
    }

    /// The error in a body with a success status, if it concerns the transport and not the engine.
    fn concerned(
        &self,
        engine: &Engine,
        message: &Outgoing,
        decoded: &Result<Decoded<'_>, Noise>,
        length: usize,
    ) -> Option<ErrorObject> {
        let error = message.id().and_then(|id| error_to(id, decoded)).filter(|_| length <= WORDS)?;
        match self.judge(engine, message, error) {
            (Expiry::No, Meaning::EndFormerAs(_)) => Some(error.clone()),
            (Expiry::No, _) => None,
            (
                Expiry::Unprocessed | Expiry::UnprocessedByStatus | Expiry::UnprocessedAs(_) | Expiry::AnsweredAs(_),
                _,
            ) => Some(error.clone()),
        }
    }

    /// What an error with a success status means.
    fn judge(&self, engine: &Engine, message: &Outgoing, error: &ErrorObject) -> (Expiry, Meaning) {
        let words = if is_known_expiry(error) { Words::NoSession } else { Words::Other };
        let session = self.session_of(engine, message, Status::Good);
        let post = self.post_of(engine, message, &error.message);
        let class = class(Some(error));
        (take_expiry(Status::Good, session, words, class), take_meaning(Status::Good, post, class))
    }

    /// Takes an error with a success status that concerns the transport.
    fn take_error(&mut self, engine: &mut Engine, message: &Outgoing, error: &ErrorObject) {
        match self.judge(engine, message, error) {
            (Expiry::No, Meaning::EndFormerAs(kind)) => self.end_former(engine, kind, message),
            (Expiry::AnsweredAs(kind), _) => {
                expiry_quirk(engine, kind, message, StatusCode::OK);
                if let Some(id) = message.id() {
                    engine.take_expiry(engine.now(), id, error.clone());
                }
            }
            (Expiry::No | Expiry::Unprocessed | Expiry::UnprocessedByStatus | Expiry::UnprocessedAs(_), _) => {}
        }
    }

    /// A message was refused by its status.
    pub(super) fn refused(
        &mut self,
        engine: &mut Engine,
        message: Outgoing,
        sent: Sent,
        refusal: &Refusal,
        broke: bool,
    ) {
        let now = engine.now();
        let (id, status, cut) = (message.id(), refusal.answer_status(), refusal.is_cut(broke));
        let error = error_in(&refusal.body);
        let words = String::from_utf8_lossy(&refusal.body);
        let said = error.as_ref().map_or(&*words, |error| &error.message);
        let said = &*self.tokens.without_secrets(said);
        let session = self.session_of(engine, &message, status);
        // A truncated text may have continued with another subject.
        let no_session = session != Session::None && !cut && names_session(said);
        let about = if no_session { Words::NoSession } else { Words::Other };
        match take_expiry(status, session, about, class(error.as_ref())) {
            Expiry::No => {}
            Expiry::Unprocessed | Expiry::AnsweredAs(_) => return engine.handle_report(now, Report::Expired { id }),
            Expiry::UnprocessedByStatus => {
                if let (Some(method), Some(_)) = (message.method(), id) {
                    self.session.add_not_found(method);
                }
                return engine.handle_report(now, Report::Expired { id });
            }
            Expiry::UnprocessedAs(kind) => {
                expiry_quirk(engine, kind, &message, refusal.status);
                return engine.handle_report(now, Report::Expired { id });
            }
        }
        match take_meaning(status, self.post_of(engine, &message, said), class(error.as_ref())) {
            Meaning::Deliver | Meaning::Nothing => {}
            Meaning::Authorize => {
                let message = Some(message).filter(|_| id.is_none());
                self.authorize(engine, id, message, sent, refusal, said);
            }
            Meaning::Retry => {
                self.retry(engine, message, refusal.retry_after.unwrap_or(RETRY).max(SHORTEST_RETRY));
            }
            Meaning::EndFormerAs(kind) => self.end_former(engine, kind, &message),
            Meaning::Answer => take_refusal(engine, id, error, false),
            Meaning::RenewHeaders => take_refusal(engine, id, error, true),
            Meaning::RefusedAsSse => {
                if let Some(id) = id {
                    self.sse.refuse(Refused {
                        id,
                        status: refusal.status.as_u16(),
                        words: refusal_words(refusal, said),
                    });
                    self.sse_step(engine, http_sse::Input::RefusedAsSse, "", b"");
                }
            }
            Meaning::Received => self.initialized_step(engine, http_initialized::Input::Answered, ""),
            Meaning::Refuse => no_answer(engine, id, refusal.status.as_u16(), &refusal_words(refusal, said)),
        }
    }

    /// The session in which a message was sent.
    fn session_of(&self, engine: &Engine, message: &Outgoing, status: Status) -> Session {
        let method = message.method();
        if self.session.id().is_none() || is_modern(message) || method == Some(method::INITIALIZE) {
            return Session::None;
        }
        let renewed = match status {
            Status::Unchallenged => engine.has_expired(),
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

    /// Sends a message again after this wait.
    fn retry(&mut self, engine: &Engine, message: Outgoing, wait: Duration) {
        match message.id() {
            Some(id) => self.pause(engine, id, wait, None),
            None => {
                self.timers.arm(engine.now() + wait, Due::SendInitialized);
                self.initialized_again = Some(Box::new(message));
            }
        }
    }

    /// `initialize` was refused because of the previous session, which is ended first.
    fn end_former(&mut self, engine: &mut Engine, kind: QuirkKind, message: &Outgoing) {
        let (Some(former), Some(id)) = (self.session.take_former(), message.id()) else { return };
        let detail = "a new `initialize` was refused for the session before, which was ended first then";
        engine.transport_quirk(kind, Some(method::INITIALIZE), detail);
        self.delete(ExchangeKind::DeleteFormer(id, former));
    }
}

fn expiry_quirk(engine: &mut Engine, kind: QuirkKind, message: &Outgoing, status: StatusCode) {
    let detail = format!("an expired session was told of by HTTP {}, where 404 is due", status.as_u16());
    engine.transport_quirk(kind, message.method(), detail);
}

/// The text of a refusal that may be shown.
fn refusal_words(refusal: &Refusal, said: &str) -> Box<str> {
    match &refusal.location {
        Some(location) if refusal.status.is_redirection() => format!("it points to `{location}`").into(),
        // The body repeats the URL with its secrets.
        None if refusal.status.is_redirection() => "it points to no address".into(),
        Some(_) | None if said.trim_start().starts_with('<') => "".into(),
        Some(_) | None => said.trim().into(),
    }
}

/// The error in a refusal is the response, whatever its id.
fn take_refusal(engine: &mut Engine, id: Option<u64>, error: Option<ErrorObject>, headers: bool) {
    if let (Some(id), Some(error)) = (id, error) {
        engine.take_refusal(engine.now(), id, error, headers);
    }
}
