//! A journal as the script of a fake server: what client and server sent each other, and what each message of the client
//! caused.

use core::time::Duration;
#[cfg(feature = "http")]
use http::header::{CONTENT_TYPE, HeaderName, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::string::{String, ToString};
use std::vec::Vec;

use super::content::Ask;
use super::script::{Answer, Turn};
use super::server::{SUBSCRIPTION, modern_version};
#[cfg(feature = "http")]
use crate::binding::http::{ExchangeId, HttpRequest};
use crate::binding::{Line, LineDecoder};
#[cfg(feature = "http")]
use crate::binding::{Sse, SseDecoder};
use crate::host::hub::{Hub, HubAction, HubEvent, SessionHandle};
use crate::journal::{
    Content, Given, HubInput, Input, JournalError, JournalLimits, JournalLine, Kind, Reader, TransportEvent, parsed,
    read,
};
use crate::protocol::method;
use crate::{Action, Client, ConnectionId, Messages, Outgoing, ProtocolVersion, Time};

/// A request of a client that is not in the journal which a fake server plays
/// ([`FakeServer::from_journal`](crate::testkit::FakeServer::from_journal)). It was answered with the error -32603.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "type", content = "value", rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Mismatch {
    /// The journal has no request of this method.
    #[error("the journal has no request `{method}`")]
    Method {
        /// The method.
        method: String,
    },
    /// The journal has requests of this method, but none with these parameters.
    #[error("the journal has no request `{method}` with the parameters {params}")]
    Params {
        /// The method.
        method: String,
        /// The parameters that are compared, as JSON with sorted keys.
        params: String,
    },
}

/// What a server said, by the messages of the client that caused it.
#[derive(Clone, Debug, Default)]
pub(super) struct Recording {
    /// By method and parameters, in order, and how many were used.
    pub(super) turns: BTreeMap<(String, String), (Vec<Recorded>, usize)>,
    /// What the server said before the client did.
    pub(super) first: Vec<(Duration, Value)>,
    pub(super) versions: BTreeSet<ProtocolVersion>,
}

/// What a message of the client caused.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorded {
    pub(super) turn: Turn,
    /// What the server said meanwhile and afterwards that is not about this message, with the times since it.
    pub(super) news: Vec<(Duration, Value)>,
}

impl Recording {
    pub(super) fn new(journal: &[u8], limits: JournalLimits) -> Result<Self, JournalError> {
        let (is_http, words) = read_client(journal, limits)?;
        Ok(recording(words, is_http))
    }

    /// A server of a hub's journal.
    pub(super) fn of_hub(journal: &[u8], server: &str, limits: JournalLimits) -> Result<Self, JournalError> {
        let (is_http, words) = read_hub(journal, server, limits)?;
        Ok(recording(words, is_http))
    }

    /// What this request or notification caused. The last of several that are equal stands for those that follow, without
    /// its news.
    pub(super) fn take(&mut self, method: &str, params: &Value) -> Result<Recorded, Mismatch> {
        let params = compared(method, params);
        let Some((all, used)) = self.turns.get_mut(&(method.into(), params.clone())) else {
            let of_method = self.turns.range((method.to_string(), String::new())..).next();
            return Err(match of_method.filter(|((known, _), _)| known == method) {
                Some(_) => Mismatch::Params { method: method.into(), params },
                None => Mismatch::Method { method: method.into() },
            });
        };
        let is_repeated = *used >= all.len();
        let mut recorded = all.get((*used).min(all.len().saturating_sub(1))).cloned().unwrap_or_default();
        if is_repeated {
            recorded.news.clear();
        }
        *used = used.saturating_add(1);
        recorded.news.splice(0..0, core::mem::take(&mut self.first));
        Ok(recorded)
    }

    /// The version that the result of `initialize` names.
    pub(super) fn version(&self, params: &Value) -> Option<ProtocolVersion> {
        let (all, used) = self.turns.get(&(method::INITIALIZE.into(), compared(method::INITIALIZE, params)))?;
        let Recorded { turn, .. } = all.get((*used).min(all.len().saturating_sub(1)))?;
        version_of(&turn.answer)
    }
}

fn version_of(answer: &Answer) -> Option<ProtocolVersion> {
    match answer {
        Answer::Message { outcome: Ok(result), .. } => result.get("protocolVersion")?.as_str()?.parse().ok(),
        Answer::Message { outcome: Err(_), .. } | Answer::None | Answer::Status { .. } | Answer::Break => None,
    }
}

/// The parameters that two requests must share to be the same: all but `_meta`, which names the client and its progress
/// tokens. Of `initialize` it is the offered version, and of a notification it is nothing.
fn compared(method: &str, params: &Value) -> String {
    let mut text = String::new();
    match method {
        method::INITIALIZE => sorted(params.get("protocolVersion").unwrap_or(&Value::Null), &mut text),
        _ if method.starts_with("notifications/") => {}
        _ => match params.as_object() {
            Some(members) => {
                let members = members.iter().filter(|(name, _)| *name != "_meta");
                let members = members.map(|(name, value)| (name.clone(), value.clone()));
                sorted(&members.collect(), &mut text);
            }
            None => text.push_str("{}"),
        },
    }
    text
}

/// A value as JSON with sorted keys.
fn sorted(value: &Value, text: &mut String) {
    match value {
        Value::Object(members) => {
            text.push('{');
            for (at, (name, value)) in members.iter().collect::<BTreeMap<_, _>>().into_iter().enumerate() {
                text.push_str(if at == 0 { "" } else { "," });
                // Writing into memory cannot fail.
                let _ = write!(text, "{}:", Value::from(name.as_str()));
                sorted(value, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                text.push_str(if at == 0 { "" } else { "," });
                sorted(item, text);
            }
            text.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            let _ = write!(text, "{value}");
        }
    }
}

/// Something that was said.
#[derive(Debug)]
struct Word {
    pub(super) at: Time,
    /// The connection or the exchange.
    pub(super) channel: u64,
    pub(super) said: Said,
}

#[derive(Debug)]
enum Said {
    /// The client sent this message.
    Client(Value),
    /// The server sent this message, over HTTP in a response with this status.
    Server { status: u16, message: Value },
    /// The server sent an HTTP response without a message.
    #[cfg(feature = "http")]
    Status { status: u16, headers: Vec<(&'static str, String)>, text: String },
    /// The connection broke.
    Broken,
}

/// The messages in a text: one, or those of a batch.
fn messages(text: &[u8]) -> Vec<Value> {
    match serde_json::from_slice(text) {
        Ok(Value::Array(batch)) => batch,
        Ok(message) => Vec::from([message]),
        Err(_) => Vec::new(),
    }
}

/// Reads a journal of a client: what was said, in order, and whether it was said over HTTP.
fn read_client(journal: &[u8], limits: JournalLimits) -> Result<(bool, Vec<Word>), JournalError> {
    let (kind, reader) = Reader::open(journal, limits)?;
    let is_http = match kind {
        Kind::Pipe => false,
        Kind::Http => true,
        Kind::Hub => return Err(JournalError::OfHub),
    };
    let mut talk = Talk::default();
    each_line(reader, |line| {
        match line.entry {
            Content::Input(given) => {
                if let Given::Input(input) = read::<Client<Messages>>(line.number, &given)? {
                    talk.input(line.at, &input);
                }
            }
            Content::Output(recorded) => talk.output(line.at, &action(line.number, &recorded, is_http)?),
            Content::Result(_) | Content::End(_) => {}
        }
        Ok(())
    })?;
    Ok((is_http, talk.words))
}

/// Reads a journal of a hub: the same for a server of it.
fn read_hub(journal: &[u8], server: &str, limits: JournalLimits) -> Result<(bool, Vec<Word>), JournalError> {
    let (kind, reader) = Reader::open(journal, limits)?;
    if kind != Kind::Hub {
        return Err(JournalError::OfClient);
    }
    let mut talks: BTreeMap<SessionHandle, Talk> = BTreeMap::new();
    let mut sessions = BTreeSet::new();
    each_line(reader, |line| {
        match line.entry {
            Content::Input(given) => {
                if let Given::Input(HubInput::Session { session, input }) = read::<Hub>(line.number, &given)? {
                    talks.entry(session).or_default().input(line.at, &input);
                }
            }
            Content::Output(recorded) => match parsed(line.number, &recorded)? {
                Some(HubAction::Event(HubEvent::Session { session, server: name, .. })) if *name == *server => {
                    sessions.insert(session);
                }
                Some(action) => {
                    let sent = hub_action(action);
                    sent.into_iter()
                        .for_each(|(session, sent)| talks.entry(session).or_default().output(line.at, &sent));
                }
                None => {}
            },
            Content::Result(_) | Content::End(_) => {}
        }
        Ok(())
    })?;
    // Where the server's entry was changed, it has several sessions. The last one has the transport that is played.
    let mut talks: Vec<_> = talks.into_iter().filter(|(session, _)| sessions.contains(session)).collect();
    let Some((_, last)) = talks.last() else { return Err(JournalError::NoServer { server: server.into() }) };
    let is_http = last.is_http;
    talks.retain(|(_, talk)| talk.is_http == is_http);
    let mut words = Vec::new();
    let mut base = 0;
    for (_, Talk { words: said, .. }) in talks {
        let highest = said.iter().map(|word| word.channel).max().unwrap_or_default();
        words.extend(said.into_iter().map(|word| Word { channel: word.channel.saturating_add(base), ..word }));
        base = base.saturating_add(highest).saturating_add(1);
    }
    Ok((is_http, words))
}

/// Reads the lines of a journal that follow its header, to its end.
fn each_line(
    mut reader: Reader<'_>,
    mut take: impl FnMut(JournalLine<'_>) -> Result<(), JournalError>,
) -> Result<(), JournalError> {
    loop {
        let line = reader.next()?;
        if !line.valid {
            return Err(JournalError::Changed { line: line.number });
        }
        let is_end = matches!(line.entry, Content::End(_));
        take(line)?;
        if is_end {
            return reader.check_end();
        }
    }
}

/// What a client and its server said.
#[derive(Debug, Default)]
struct Talk {
    words: Vec<Word>,
    is_http: bool,
    pipes: Pipes,
    #[cfg(feature = "http")]
    exchanges: Exchanges,
}

impl Talk {
    fn input(&mut self, at: Time, input: &Input) {
        let mut say = |channel, said| self.words.push(Word { at, channel, said });
        #[cfg(feature = "http")]
        self.exchanges.input(input, &mut say);
        self.pipes.input(input, &mut say);
    }

    fn output(&mut self, at: Time, sent: &Sent) {
        let mut say = |channel, said| self.words.push(Word { at, channel, said });
        match sent {
            Sent::None => {}
            Sent::Pipe(action) => self.pipes.output(action, &mut say),
            #[cfg(feature = "http")]
            Sent::Exchange(request) => {
                self.is_http = true;
                self.exchanges.output(request, &mut say);
            }
            #[cfg(feature = "http")]
            Sent::Drop(exchange) => self.exchanges.dropped(*exchange, &mut say),
        }
    }
}

/// An action that sends something.
enum Sent {
    None,
    Pipe(Action),
    #[cfg(feature = "http")]
    Exchange(HttpRequest),
    #[cfg(feature = "http")]
    Drop(ExchangeId),
}

fn action(line: usize, recorded: &RawValue, is_http: bool) -> Result<Sent, JournalError> {
    #[cfg(feature = "http")]
    if is_http {
        use crate::binding::http::HttpAction;

        #[derive(serde::Deserialize)]
        struct Kind<'a> {
            #[serde(borrow, rename = "type")]
            kind: std::borrow::Cow<'a, str>,
        }
        // What an authorization does is not for the server.
        if parsed::<Option<Kind<'_>>>(line, recorded)?.is_some_and(|action| action.kind == "oauth") {
            return Ok(Sent::None);
        }
        let action: Option<HttpAction> = parsed(line, recorded)?;
        return Ok(if let Some(HttpAction::Request(request)) = action {
            Sent::Exchange(request)
        } else if let Some(HttpAction::Drop(exchange)) = action {
            Sent::Drop(exchange)
        } else {
            Sent::None
        });
    }
    let _ = is_http;
    let action: Option<Action> = parsed(line, recorded)?;
    Ok(action.map_or(Sent::None, Sent::Pipe))
}

fn hub_action(action: HubAction) -> Option<(SessionHandle, Sent)> {
    if let HubAction::Open { session, connection } = action {
        Some((session, Sent::Pipe(Action::Open(connection))))
    } else if let HubAction::Send { session, message } = action {
        Some((session, Sent::Pipe(Action::Send(message))))
    } else if let HubAction::Shutdown { session, how } = action {
        Some((session, Sent::Pipe(Action::Shutdown(how))))
    } else {
        #[cfg(feature = "http")]
        if let HubAction::Request { session, request } = action {
            return Some((session, Sent::Exchange(*request)));
        }
        #[cfg(feature = "http")]
        if let HubAction::Drop { session, exchange } = action {
            return Some((session, Sent::Drop(exchange)));
        }
        None
    }
}

/// The connections of a client over messages or lines.
#[derive(Debug, Default)]
struct Pipes {
    newest: ConnectionId,
    /// What the server wrote after its last line.
    lines: BTreeMap<ConnectionId, LineDecoder>,
    /// What the client shuts down.
    shut: BTreeSet<ConnectionId>,
}

impl Pipes {
    fn output(&mut self, action: &Action, say: &mut impl FnMut(u64, Said)) {
        match action {
            Action::Open(connection) => {
                self.newest = *connection;
                self.lines.insert(*connection, LineDecoder::new(usize::MAX));
            }
            Action::Send(message) => {
                let of = self.newest.as_u64();
                messages(Outgoing::bytes(message)).into_iter().for_each(|message| say(of, Said::Client(message)));
            }
            Action::Shutdown(_) => drop(self.shut.insert(self.newest)),
            Action::Event(_) => {}
        }
    }

    fn input(&mut self, input: &Input, say: &mut impl FnMut(u64, Said)) {
        let mut said = |connection: ConnectionId, text: &[u8]| {
            for message in messages(text) {
                say(connection.as_u64(), Said::Server { status: 200, message });
            }
        };
        if let Input::Message { connection, bytes } = input {
            said(*connection, bytes);
        } else if let Input::Bytes { connection, bytes } = input
            && let Some(lines) = self.lines.get_mut(connection)
        {
            lines.feed(bytes, |line| match line {
                Line::Complete(line) | Line::TooLong(line) => said(*connection, &line),
            });
        } else if let Input::Transport { connection, event: TransportEvent::Closed { .. } } = input
            && let Some(mut lines) = self.lines.remove(connection)
        {
            lines.finish(|line| match line {
                Line::Complete(line) | Line::TooLong(line) => said(*connection, &line),
            });
            // Where the client shuts it down, its end is not the server's doing.
            if !self.shut.remove(connection) {
                say(connection.as_u64(), Said::Broken);
            }
        }
    }
}

/// Headers of a refusal that a client reads.
#[cfg(feature = "http")]
const HEADERS: [(&str, HeaderName); 3] =
    [("location", LOCATION), ("retry-after", RETRY_AFTER), ("www-authenticate", WWW_AUTHENTICATE)];

/// The exchanges whose responses are not complete.
#[cfg(feature = "http")]
#[derive(Debug, Default)]
struct Exchanges {
    open: BTreeMap<ExchangeId, Response>,
}

#[cfg(feature = "http")]
#[derive(Debug)]
struct Response {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Body,
}

#[cfg(feature = "http")]
#[derive(Debug)]
enum Body {
    Whole(Vec<u8>),
    Stream(SseDecoder),
}

#[cfg(feature = "http")]
impl Exchanges {
    pub(super) fn output(&mut self, request: &HttpRequest, say: &mut impl FnMut(u64, Said)) {
        let channel = request.exchange.as_u64();
        messages(request.request.body()).into_iter().for_each(|message| say(channel, Said::Client(message)));
    }

    /// The client drops an exchange.
    fn dropped(&mut self, exchange: ExchangeId, say: &mut impl FnMut(u64, Said)) {
        self.redirect(exchange).into_iter().for_each(|said| say(exchange.as_u64(), said));
    }

    /// Removes an exchange that breaks or is dropped. Returns its response if that is a redirect which the client follows: it
    /// reads the head only.
    fn redirect(&mut self, exchange: ExchangeId) -> Option<Said> {
        let Response { status, headers, .. } = self.open.remove(&exchange)?;
        let is_followed = is_redirect(status) && headers.iter().any(|(name, _)| *name == "location");
        is_followed.then(|| Said::Status { status, headers, text: String::new() })
    }

    pub(super) fn input(&mut self, input: &Input, say: &mut impl FnMut(u64, Said)) {
        if let Input::Head { exchange, status, headers } = input {
            let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
            let is_stream = text(&CONTENT_TYPE).trim_start().starts_with("text/event-stream");
            let kept = HEADERS.iter().filter(|(_, name)| headers.contains_key(name));
            let body = if is_stream { Body::Stream(SseDecoder::new(usize::MAX)) } else { Body::Whole(Vec::new()) };
            let headers = kept.map(|(shown, name)| (*shown, text(name).into())).collect();
            self.open.insert(*exchange, Response { status: status.as_u16(), headers, body });
        } else if let Input::Body { exchange, bytes } = input
            && let Some(Response { status, body, .. }) = self.open.get_mut(exchange)
        {
            match body {
                Body::Whole(whole) => whole.extend_from_slice(bytes),
                Body::Stream(decoder) => decoder.feed(bytes, |item| match item {
                    Sse::Event(event) | Sse::TooLong(event) => {
                        tell(exchange.as_u64(), *status, event.data, say);
                    }
                    Sse::Retry(_) => {}
                }),
            }
        } else if let Input::End { exchange } = input
            && let Some(Response { status, headers, body }) = self.open.remove(exchange)
            && let Body::Whole(whole) = body
            && !tell(exchange.as_u64(), status, &whole, say)
        {
            let text = String::from_utf8_lossy(&whole).into_owned();
            say(exchange.as_u64(), Said::Status { status, headers, text });
        } else if let Input::Failure { exchange, .. } = input {
            let said = self.redirect(*exchange).unwrap_or(Said::Broken);
            say(exchange.as_u64(), said);
        }
    }
}

const fn is_redirect(status: u16) -> bool {
    matches!(status, 307 | 308)
}

/// The server sent the messages in this text. Returns whether there are any.
#[cfg(feature = "http")]
fn tell(channel: u64, status: u16, text: &[u8], say: &mut impl FnMut(u64, Said)) -> bool {
    let mut any = false;
    for message in messages(text).into_iter().filter(|message| message.get("jsonrpc").is_some()) {
        say(channel, Said::Server { status, message });
        any = true;
    }
    any
}

/// A message of the client, and what it caused so far.
#[derive(Debug)]
struct Draft {
    method: String,
    message: Value,
    channel: u64,
    at: Time,
    /// When the client answered the last question about it, or sent it.
    since: Time,
    recorded: Recorded,
    /// It was sent again elsewhere, because the server redirected it.
    is_redirected: bool,
}

#[derive(Debug, Default)]
struct Drafts {
    is_http: bool,
    all: Vec<Draft>,
    /// The requests without an answer: by id, by connection or exchange, and by progress token.
    in_flight: BTreeMap<String, usize>,
    channels: BTreeMap<u64, BTreeMap<usize, String>>,
    tokens: BTreeMap<String, usize>,
    /// The requests that were answered with a redirect, by id.
    redirects: BTreeMap<String, usize>,
    /// The questions without an answer, by id.
    asks: BTreeMap<String, usize>,
    first: Vec<(Duration, Value)>,
}

/// What a server said, by the messages of the client that caused it.
fn recording(words: Vec<Word>, is_http: bool) -> Recording {
    let mut drafts = Drafts { is_http, ..Drafts::default() };
    for Word { at, channel, said } in words {
        match said {
            Said::Client(message) => drafts.client(at, channel, message),
            Said::Server { status, message } => drafts.server(at, channel, status, message),
            #[cfg(feature = "http")]
            Said::Status { status, headers, text } => {
                drafts.over(at, channel, status, &Answer::Status { status, headers, text });
            }
            Said::Broken => drafts.over(at, channel, 0, &Answer::Break),
        }
    }
    let mut recording = Recording { first: drafts.first, ..Recording::default() };
    for draft in drafts.all.into_iter().filter(|draft| !draft.is_redirected) {
        let params = draft.message.get("params").unwrap_or(&Value::Null);
        let answer = &draft.recorded.turn.answer;
        let named = modern_version(&draft.message).and_then(Value::as_str).and_then(|version| version.parse().ok());
        let is_taken = matches!(answer, Answer::Message { outcome: Ok(_), .. });
        recording.versions.extend(named.filter(|_| is_taken).or_else(|| version_of(answer)));
        let key = (draft.method.clone(), compared(&draft.method, params));
        recording.turns.entry(key).or_default().0.push(draft.recorded);
    }
    recording
}

/// The id of a message, as a key.
fn id_of(message: &Value) -> Option<String> {
    message.get("id").map(ToString::to_string)
}

impl Drafts {
    fn client(&mut self, at: Time, channel: u64, message: Value) {
        let id = id_of(&message);
        let Some(method) = message.get("method").and_then(Value::as_str) else {
            let asked = id.and_then(|id| self.asks.remove(&id)).and_then(|index| self.all.get_mut(index));
            asked.into_iter().for_each(|draft| draft.since = at);
            return;
        };
        if let Some(id) = id {
            let index = self.all.len();
            let moved = self.redirects.remove(&id).and_then(|index| self.all.get_mut(index));
            // The ids of another session begin anew.
            let moved = moved.filter(|draft| draft.message == message);
            moved.into_iter().for_each(|draft| draft.is_redirected = true);
            let token = message.get("params").and_then(|params| params.get("_meta")?.get("progressToken"));
            self.tokens.extend(token.map(|token| (token.to_string(), index)));
            self.channels.entry(channel).or_default().insert(index, id.clone());
            self.in_flight.insert(id, index);
        }
        let method = method.into();
        let recorded = Recorded::default();
        let draft = Draft { method, message, channel, at, since: at, recorded, is_redirected: false };
        self.all.push(draft);
    }

    fn server(&mut self, at: Time, channel: u64, status: u16, message: Value) {
        let id = id_of(&message);
        match (message.get("method").and_then(Value::as_str), id) {
            (None, id) => self.answer(at, status, id, &message),
            (Some(method), Some(id)) if method != method::PING => {
                let about = self.newest(channel);
                match about.and_then(|index| Some((index, self.all.get_mut(index)?))) {
                    Some((index, draft)) => {
                        let params = message.get("params").cloned().unwrap_or_default();
                        draft.recorded.turn.asks.push(Ask::new(method, params));
                        self.asks.insert(id, index);
                    }
                    None => self.news(at, message),
                }
            }
            (Some(method), _) => {
                let params = message.get("params").unwrap_or(&Value::Null);
                let about = match method {
                    method::PROGRESS => {
                        let index = params.get("progressToken").and_then(|it| self.tokens.get(&it.to_string()));
                        index.copied().filter(|index| self.is_open(*index))
                    }
                    method::ACKNOWLEDGED => subscription(params).and_then(|id| self.in_flight.get(&id)).copied(),
                    method::PING => None,
                    _ => self.exchange(channel),
                };
                match about.and_then(|index| self.all.get_mut(index)) {
                    Some(draft) => draft.recorded.turn.said.push((at.since(draft.since), message)),
                    None => self.news(at, message),
                }
            }
        }
    }

    /// The newest message of the client is followed by something that is not about it.
    fn news(&mut self, at: Time, message: Value) {
        match self.all.last_mut() {
            Some(draft) => draft.recorded.news.push((at.since(draft.at), message)),
            None => self.first.push((Duration::ZERO, message)),
        }
    }

    fn is_open(&self, index: usize) -> bool {
        let channel = self.all.get(index).and_then(|draft| self.channels.get(&draft.channel));
        channel.is_some_and(|open| open.contains_key(&index))
    }

    /// The newest request without an answer on a connection or exchange.
    fn newest(&self, channel: u64) -> Option<usize> {
        self.channels.get(&channel)?.last_key_value().map(|(index, _)| *index)
    }

    /// The request in whose response the server says something. A stream of subscriptions is about no request.
    fn exchange(&self, channel: u64) -> Option<usize> {
        let index = self.newest(channel).filter(|_| self.is_http)?;
        self.all.get(index).is_some_and(|draft| draft.method != method::LISTEN).then_some(index)
    }

    fn answer(&mut self, at: Time, status: u16, id: Option<String>, message: &Value) {
        let Some(index) = id.and_then(|id| self.in_flight.remove(&id)) else { return };
        let result = message.get("result").cloned().map(Ok);
        let outcome = result.or_else(|| message.get("error").cloned().map(Err));
        self.finish(index, at, outcome.map_or(Answer::None, |outcome| Answer::Message { status, outcome }));
    }

    /// A connection is over, or an HTTP response without a message. Its requests are answered by that, unless they were
    /// already or are sent to another address.
    fn over(&mut self, at: Time, channel: u64, status: u16, answer: &Answer) {
        // Over HTTP+SSE the response follows on another exchange.
        if status == 202 {
            return;
        }
        for (index, id) in self.channels.remove(&channel).unwrap_or_default() {
            self.in_flight.remove(&id);
            if is_redirect(status) {
                self.redirects.insert(id, index);
            }
            self.finish(index, at, answer.clone());
        }
    }

    fn finish(&mut self, index: usize, at: Time, answer: Answer) {
        if let Some(draft) = self.all.get_mut(index) {
            draft.recorded.turn.takes = at.since(draft.since);
            draft.recorded.turn.answer = answer;
            if let Some(open) = self.channels.get_mut(&draft.channel) {
                open.remove(&index);
            }
        }
    }
}

/// The subscription that a notification belongs to, as the key of its request.
fn subscription(params: &Value) -> Option<String> {
    params.get("_meta").and_then(|meta| meta.get(SUBSCRIPTION)).map(ToString::to_string)
}
