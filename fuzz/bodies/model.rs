//! The reference model: what may follow what a client sent and received, and what has to, as the specification and TOLERANCE.md
//! say. It sees messages, events and commands. Of the client's own state it sees only what it compares with its own.
//!
//! It knows what follows as long as each output is polled before the next input, and while each message is of a kind whose meaning
//! is certain. Otherwise it forgets the connection, and goes on with the next one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mcp_proto::jsonrpc::{Body, Message, ResponseId};
use mcp_proto::protocol::Era;
use mcp_proto::{
    Engine, Event, FailureKind, Family, FamilyStatus, ListErrors, Options, Outcome, ProtocolVersion, Quirk, QuirkKind,
    Recovery, RequestError, RequestId, Time, TimeBound,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::checks::{END, members};

/// How long a request is not sent again that a busy server refused, though the server says that it may be.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);

/// The options that decide what may follow.
#[derive(Clone, Copy)]
struct Rules {
    /// The client has exchanges over HTTP, and not one connection.
    http: bool,
    /// After how long a probe is silent.
    discover: Duration,
    discovery: Duration,
    request: Duration,
    refresh_interval: Duration,
    /// After how long without a message of the server it is asked whether it is alive.
    keepalive: Option<Duration>,
    list_undeclared: bool,
    undeclared_list_changed: bool,
    tools_absent: bool,
    /// An error to a list ends the list only, whatever its text.
    degrades: bool,
    in_flight: usize,
    items: usize,
    pages: usize,
    list_bytes: usize,
}

/// A request of the embedder that has not ended.
#[derive(Clone, Default)]
struct Asked {
    method: String,
    /// Until when it ends, unless something extends that.
    until: Time,
    /// Progress, required input, a task or another attempt may have extended it.
    extended: bool,
    /// It follows a task, or became one.
    is_task: bool,
    /// It may not run twice.
    once: bool,
    /// How often it was sent.
    sends: u32,
    /// The server was busy: it is sent again after so long at least, from then on.
    pause: Duration,
    paused_until: Time,
    pauses: bool,
    /// It did not run, because the session had expired, and is sent again in the next one.
    repeats: bool,
    /// The id that it was sent with last.
    id: Option<u64>,
    /// Its connection or exchange was lost after it was sent.
    lost: bool,
    cancelled: bool,
    answer: Option<Answer>,
}

/// A response to a request of the embedder.
#[derive(Clone, Debug, PartialEq)]
enum Answer {
    Result(String),
    Error(i64),
    /// A status after which it is not sent again, because it may have run.
    Status,
    /// One that the request may outlive: it requires input, is a task, or is an error after which it may be sent again.
    Open,
}

/// A request without a response.
#[derive(Clone)]
struct Sent {
    method: String,
    of: Option<RequestId>,
    /// It asks to run as a task (specification 2025-11-25, "Tasks").
    is_task: bool,
    at: Time,
}

/// A request of the server without a response.
#[derive(Clone, Debug)]
struct Owed {
    id: String,
    method: String,
    /// The user, or the user's model, responds to it.
    is_users: bool,
    /// The embedder was told of it, as far as that can be said.
    is_told: bool,
}

/// A list that is requested page by page.
#[derive(Clone, Default)]
struct Walk {
    /// The request of a page without a response.
    running: Option<u64>,
    /// The cursor of the last request.
    cursor: Option<String>,
    /// The cursor of the next page.
    next: Option<String>,
    /// How many pages came.
    pages: usize,
    /// The last page had items.
    brought: bool,
    /// The keys so far, while each page is of the simplest kind.
    keys: Option<Vec<String>>,
    /// The keys that the catalog has, if the last list had pages of the simplest kind only.
    listed: Option<Vec<String>>,
    /// How often it was requested from its first page on.
    begun: usize,
    /// When it was last.
    since: Option<Time>,
    /// The embedder commanded the next list.
    is_wanted: bool,
    /// The server said that the list changed, which counts though it did not declare the list.
    is_told: bool,
    /// A page or an error came.
    answered: bool,
    /// It came to an end once.
    is_known: bool,
    /// Its request may be sent again.
    repeats: bool,
    /// The code of the error that its first request got.
    refused: Option<i64>,
}

/// What happened on a connection, or over HTTP in a session.
#[derive(Clone, Default)]
struct Wire {
    opened: bool,
    /// Over HTTP, what the server sent before is not known.
    is_partial: bool,
    /// Requests without a response, by id.
    sent: BTreeMap<u64, Sent>,
    /// The ids of all requests, and which are for the embedder.
    used: BTreeMap<u64, Option<RequestId>>,
    /// The capabilities of the client that it declared last.
    offers: Value,
    /// The result of `initialize`, before it is acknowledged.
    initialized: Option<Value>,
    /// The result of `server/discover` with a modern version.
    discovered: Option<Value>,
    agreed: Option<(Era, Time)>,
    /// Over HTTP, the response to `notifications/initialized` is missing.
    is_held: bool,
    /// How many exchanges with `notifications/initialized` ended without a response.
    broken: usize,
    /// How many notifications and responses have an exchange, as far as that is known. Over HTTP others wait for theirs.
    one_way: usize,
    /// The capabilities in the result of the handshake.
    capabilities: Value,
    was_ready: bool,
    /// When a message of the server came, or the client was ready.
    heard: Time,
    /// The server does not know `ping`.
    has_no_ping: bool,
    /// The id of `initialize`, over HTTP the first one of the session.
    first: u64,
    /// Over HTTP, the server said that the session has expired, or something that may mean so.
    expired: bool,
    may_restart: bool,
    /// Nobody is reached: what is in flight is tried again, and nothing else is sent.
    is_unreached: bool,
    walks: [Walk; 4],
    /// Requests of the server without a response.
    owed: Vec<Owed>,
    /// Responses of the embedder that were not sent.
    answers: usize,
    /// The tokens with which progress was reported.
    progressed: BTreeSet<u64>,
    /// How many log messages have no event.
    logs: usize,
    /// The resources that were updated.
    updates: BTreeSet<String>,
}

#[derive(Clone)]
pub(super) struct Model {
    rules: Rules,
    asked: BTreeMap<RequestId, Asked>,
    /// Requests of the embedder that may run, by their ids on the wire.
    running: BTreeMap<u64, RequestId>,
    /// The server may have sent a request, which extends what waits for the user.
    requested: bool,
    is_ready: bool,
    /// Something was not certain once.
    missed: bool,
    /// The server speaks the older transport.
    stopped: bool,
    /// The methods of requests whose refusal may mean that the session has expired.
    gone: BTreeSet<String>,
    /// The lists that the client had at some time, and keeps where another connection has none.
    listed: [bool; 4],
    /// The connection, if it is known.
    wire: Option<Wire>,
}

/// What a capability with this name means; `None` if TOLERANCE.md does not say.
fn declares(capabilities: &Value, name: &str) -> Option<bool> {
    match capabilities.as_object()?.get(name) {
        None | Some(Value::Null | Value::Bool(false)) => Some(false),
        Some(Value::Object(_) | Value::Bool(true)) => Some(true),
        Some(Value::Array(array)) if array.is_empty() => Some(true),
        Some(_) => None,
    }
}

/// The capability that a request of the embedder needs; empty for none.
fn capability(method: &str) -> &str {
    match method {
        "tools/call" | "tools/list" => "tools",
        "prompts/get" => "prompts",
        "resources/read" => "resources",
        "completion/complete" => "completions",
        _ => "",
    }
}

fn version(value: &Value) -> Option<ProtocolVersion> {
    ProtocolVersion::ALL.iter().copied().find(|version| *value == version.as_str())
}

fn family_of(method: &str) -> Option<Family> {
    Family::ALL.iter().copied().find(|family| family.list_method() == method)
}

fn parse(raw: Option<&RawValue>) -> Value {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or(Value::Null)
}

/// The keys of a page whose items have nothing else but an empty input schema.
fn simple(family: Family, page: &Value) -> Option<Vec<String>> {
    if page.get("resultType").is_some_and(|kind| kind != "complete") {
        return None;
    }
    let keys = page.get(family.member())?.as_array()?.iter().map(|item| {
        let is_simple =
            |(name, value): (&String, &Value)| name == family.key() || name == "inputSchema" && *value == json!({});
        let key = item.get(family.key())?.as_str()?;
        (!key.is_empty() && item.as_object()?.iter().all(is_simple)).then(|| key.to_owned())
    });
    keys.collect()
}

impl Model {
    pub(super) fn new(options: &Options, http: bool) -> Self {
        let Options { tolerance, timeouts, limits, .. } = options;
        let rules = Rules {
            http,
            discover: timeouts.discover,
            discovery: timeouts.discovery,
            request: timeouts.request,
            refresh_interval: timeouts.refresh_interval,
            keepalive: options.keepalive.map(|keepalive| keepalive.interval),
            list_undeclared: tolerance.list_undeclared,
            undeclared_list_changed: tolerance.undeclared_list_changed,
            tools_absent: tolerance.tools_absent,
            degrades: tolerance.list_errors == ListErrors::Degrade && !tolerance.absent_by_text,
            in_flight: limits.in_flight,
            items: limits.items,
            pages: limits.pages,
            list_bytes: limits.list_bytes,
        };
        Self {
            rules,
            asked: BTreeMap::new(),
            running: BTreeMap::new(),
            requested: false,
            is_ready: false,
            missed: false,
            stopped: false,
            gone: BTreeSet::new(),
            listed: [false; 4],
            wire: None,
        }
    }

    /// It is not certain any more what follows.
    pub(super) fn loses_track(&mut self) {
        self.missed = true;
        self.wire = None;
    }

    /// Over HTTP, something comes whose meaning is not certain, perhaps the response to this request.
    pub(super) fn hears_unclear(&mut self, id: Option<u64>) {
        self.requested = true;
        id.and_then(|id| self.running.remove(&id));
        self.loses_track();
    }

    /// The server speaks the older transport, whose responses come in another exchange: it is never certain what follows.
    pub(super) fn stops(&mut self) {
        self.stopped = true;
        self.hears_unclear(None);
    }

    /// A connection is to be opened.
    pub(super) fn opens(&mut self, now: Time) {
        self.loses(|_| true);
        let requested = std::mem::take(&mut self.requested);
        self.asked.values_mut().for_each(|asked| asked.extended |= requested);
        self.wire = (now < END).then(Wire::default);
    }

    /// The transport is open.
    pub(super) fn opened(&mut self) {
        if let Some(wire) = &mut self.wire {
            wire.opened = true;
        }
    }

    /// The connection is lost, or given up.
    pub(super) fn ends(&mut self) {
        self.is_ready = false;
        self.loses(|_| true);
        self.wire = None;
        // A pause is for requests on one connection.
        for asked in self.asked.values_mut() {
            (asked.pause, asked.paused_until, asked.pauses) = Default::default();
        }
    }

    /// A request of the embedder is accepted. It may run only `once`, and ends by that time unless something extends it.
    pub(super) fn accepts(&mut self, id: RequestId, method: String, once: bool, until: Time) {
        let is_task = method == "tasks/get";
        let asked = Asked { method, until, once, is_task, extended: is_task, ..Asked::default() };
        assert!(self.asked.insert(id, asked).is_none(), "a request's id was used twice");
    }

    pub(super) fn cancels(&mut self, id: RequestId) {
        if let Some(asked) = self.asked.get_mut(&id) {
            asked.cancelled = true;
        }
    }

    /// The embedder responds to a request of the server.
    pub(super) fn responds(&mut self) {
        let http = self.rules.http;
        if let Some(wire) = self.wire.as_mut().filter(|wire| wire.is(Era::Legacy) && !http) {
            wire.answers += 1;
        }
    }

    /// The embedder commands that a list is requested again.
    pub(super) fn refreshes(&mut self, family: Family) {
        if let Some(wire) = &mut self.wire {
            wire.walks[family as usize].is_wanted = true;
        }
    }

    /// Whether a handshake is known.
    pub(super) fn has_agreed(&self) -> bool {
        self.wire.as_ref().is_some_and(|wire| wire.agreed.is_some())
    }

    /// The requests of the embedder that have not ended.
    pub(super) fn open(&self) -> BTreeSet<RequestId> {
        self.asked.keys().copied().collect()
    }

    /// What was sent with these ids may have run.
    pub(super) fn loses(&mut self, is_it: impl Fn(u64) -> bool) {
        let Self { running, asked, .. } = self;
        running.retain(|id, of| {
            let is_lost = is_it(*id);
            if let Some(asked) = asked.get_mut(of).filter(|_| is_lost) {
                asked.lost = true;
            }
            !is_lost
        });
    }

    /// A message is sent, for a request of the embedder if `of` is set.
    pub(super) fn sends(&mut self, message: &[u8], of: Option<RequestId>, now: Time) {
        let json: Value = serde_json::from_slice(message).expect("a message is JSON");
        let id = json["id"].as_u64();
        match (json["method"].as_str(), id) {
            (Some(method), Some(id)) => {
                self.counts_attempt(id, method, of, now);
                let rules = self.rules;
                if rules.http && (method == "initialize" || method == "server/discover" && !self.is_ready) {
                    self.begins_session(now);
                }
                // A probe of before may have been answered late.
                let is_modern = json["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].is_string();
                let is_unknown = |wire: &Wire| wire.is_partial && wire.agreed.is_none() && method != "server/discover";
                if is_modern && self.wire.as_ref().is_some_and(is_unknown) {
                    self.loses_track();
                }
                if let Some(wire) = &mut self.wire {
                    assert!(wire.opened, "sent before the transport is open: {json}");
                    wire.requests(rules, id, method, &json["params"], of, now);
                }
            }
            (Some(method), None) => {
                if let Some(wire) = &mut self.wire {
                    wire.one_way += 1;
                    wire.notifies(self.rules, method, &json["params"], now);
                }
            }
            (None, _) => {
                if let Some(wire) = &mut self.wire {
                    wire.one_way += 1;
                    wire.responds(members(message)["id"].get(), &json);
                }
            }
        }
    }

    /// A request of the embedder is sent.
    fn counts_attempt(&mut self, id: u64, method: &str, of: Option<RequestId>, now: Time) {
        let Some((of, asked)) = of.and_then(|of| Some((of, self.asked.get_mut(&of)?))) else { return };
        if method != asked.method {
            return;
        }
        assert!(!(asked.once && asked.lost), "{of:?} is sent again, though it may have run");
        assert!(now >= asked.paused_until, "{of:?} is sent again too early");
        // A redirect is the same attempt.
        asked.sends += u32::from(asked.id != Some(id));
        (asked.id, asked.answer, asked.repeats, asked.pauses) = (Some(id), None, false, false);
        self.running.retain(|_, other| *other != of);
        self.running.insert(id, of);
    }

    /// Over HTTP, a handshake begins a session. What was sent before may still be answered.
    fn begins_session(&mut self, now: Time) {
        if self.wire.as_ref().is_none_or(|wire| wire.agreed.is_some()) {
            let Wire { sent, used, one_way, owed, progressed, logs, updates, .. } =
                self.wire.take().unwrap_or_default();
            let is_partial = self.missed;
            let wire = Wire {
                opened: true,
                is_partial,
                sent,
                used,
                one_way,
                owed,
                progressed,
                logs,
                updates,
                ..Wire::default()
            };
            self.wire = (now < END && !self.stopped).then_some(wire);
        }
    }

    /// The server sends a message.
    pub(super) fn hears(&mut self, message: &Message<'_>, now: Time) {
        match &message.body {
            Body::Result { id, .. } | Body::Error { id, .. } => {
                let id = match id {
                    ResponseId::Exact(id) | ResponseId::Loose(id) => Some(*id),
                    ResponseId::Absent | ResponseId::Foreign => None,
                };
                // One with another id may be the response to anything.
                if id.and_then(|id| self.running.remove(&id)).is_none() {
                    self.running.clear();
                }
            }
            Body::Request { .. } => {
                self.requested = true;
                self.asked.values_mut().for_each(|asked| asked.extended = true);
            }
            Body::Notification { .. } => {}
        }
        let rules = self.rules;
        let Some(wire) = &mut self.wire else {
            // It may be progress of anything, or the response.
            return self.asked.values_mut().for_each(|asked| {
                (asked.extended, asked.answer) = (true, Some(Answer::Open));
            });
        };
        if !wire.opened {
            return self.loses_track();
        }
        wire.heard = now;
        match &message.body {
            Body::Request { id, method, .. } => {
                if !wire.is(Era::Modern) {
                    let (id, is_users): (String, _) = (id.get().into(), wire.is_users(method));
                    // It is not certain which of two with the same id a response is for.
                    let is_told = wire.owed.iter().any(|it| it.id == id);
                    wire.owed.iter_mut().filter(|it| it.id == id).for_each(|it| it.is_told = true);
                    wire.owed.push(Owed { id, method: method.to_string(), is_users, is_told });
                }
            }
            Body::Notification { method, params } => {
                if let Some(extended) = wire.hears_notification(rules, method, &parse(*params)) {
                    self.extend(extended);
                }
            }
            Body::Result { id, result } => {
                let Some((id, sent)) = wire.answered(id, false) else { return };
                let json = parse(Some(*result));
                let Some(of) = sent.of else { return wire.learns(rules, id, &sent, &json, result.get().len(), now) };
                let is_open = match wire.is(Era::Modern) {
                    true => json.get("resultType").is_some_and(|kind| kind != "complete"),
                    false => sent.is_task && json.get("task").is_some(),
                };
                let is_result = json.is_object() && !is_open;
                self.concludes(of, if is_result { Answer::Result(result.get().into()) } else { Answer::Open });
            }
            Body::Error { id, error } => {
                // One without an id may be for a stream that is open.
                if !matches!(id, ResponseId::Exact(_) | ResponseId::Loose(_)) && wire.has("subscriptions/listen") {
                    return self.loses_track();
                }
                let Some((_, sent)) = wire.answered(id, true) else { return };
                wire.may_restart = true;
                let Some(of) = sent.of else { return wire.fails(&sent, false, Some(error.code)) };
                // Errors of the modern era, a version that is refused, URLs to visit, a method that is gone.
                let is_open =
                    matches!(error.code, -32022..=-32020 | -32042 | -32601) || error.message.contains("version");
                self.concludes(of, if is_open { Answer::Open } else { Answer::Error(error.code) });
            }
        }
    }

    /// Over HTTP, a request is answered with a status, which may tell that it did not run.
    pub(super) fn hears_status(&mut self, id: u64, may_restart: bool) {
        let of = self.running.remove(&id);
        of.into_iter().for_each(|of| self.extend(of));
        self.breaks(id);
        if let Some(wire) = &mut self.wire {
            let sent = wire.sent.remove(&id).filter(|_| may_restart);
            self.gone.extend(sent.map(|sent| sent.method));
            wire.may_restart |= may_restart;
        }
    }

    /// Over HTTP, a request in a session is answered with 404: the session has expired, if the method was not missing before.
    pub(super) fn expires(&mut self, id: u64) {
        let sent = self.wire.as_ref().and_then(|wire| wire.sent.get(&id)).cloned();
        let sent = sent.filter(|sent| !self.gone.contains(&sent.method));
        self.hears_status(id, true);
        let (Some(sent), Some(wire)) = (sent, &mut self.wire) else { return };
        if wire.is(Era::Legacy) && id > wire.first && !self.missed {
            wire.expired = true;
            if let Some(asked) = sent.of.and_then(|of| self.asked.get_mut(&of)) {
                asked.repeats = true;
            }
        }
    }

    /// Over HTTP, the server is busy: a request did not run if it is `refused`, and is sent again later.
    pub(super) fn pauses(&mut self, id: u64, refused: bool, pause: Duration, now: Time) {
        let of = self.wire.as_ref().and_then(|wire| wire.sent.get(&id)).and_then(|sent| sent.of);
        let before = of.and_then(|of| self.asked.get(&of)).cloned();
        // What reports progress runs.
        let runs = !refused || self.wire.as_ref().is_some_and(|wire| wire.progressed.contains(&id));
        if refused {
            self.hears_status(id, false);
        } else {
            self.breaks(id);
        }
        let Some((asked, before)) = of.and_then(|of| self.asked.get_mut(&of)).zip(before) else { return };
        // Its time goes on.
        asked.extended = before.extended;
        if asked.once && runs {
            asked.answer = Some(Answer::Status);
        } else {
            asked.pause = pause.max(SHORTEST_PAUSE).max(before.pause.saturating_mul(2));
            (asked.paused_until, asked.pauses) = (now + asked.pause, true);
        }
    }

    /// Over HTTP, something comes that may mean that the session has expired.
    pub(super) fn may_restart(&mut self) {
        self.wire.iter_mut().for_each(|wire| wire.may_restart = true);
    }

    /// Over HTTP, the exchange of a request ends, or the client drops it. If there was no response, it may be sent again.
    pub(super) fn breaks(&mut self, id: u64) {
        let Some(wire) = &mut self.wire else { return };
        let Some(sent) = wire.sent.get(&id).cloned() else { return };
        wire.may_restart = true;
        // What breaks is no refusal: the next pause has nothing to do with those before.
        if let Some(asked) = sent.of.and_then(|of| self.asked.get_mut(&of)) {
            asked.pause = Duration::ZERO;
        }
        // In a legacy session its stream may be resumed, and a cancellation may follow.
        if !wire.is(Era::Legacy) {
            wire.sent.remove(&id);
        }
        match sent.of {
            Some(of) => self.concludes(of, Answer::Open),
            None => wire.fails(&sent, true, None),
        }
    }

    /// Over HTTP, the exchange of a notification or a response ends, if `begun` after the head of a response.
    pub(super) fn ends_one_way(&mut self, method: &str, begun: bool) {
        let Some(wire) = self.wire.as_mut().filter(|_| !matches!(method, "GET" | "DELETE")) else { return };
        wire.one_way = wire.one_way.saturating_sub(1);
        if method == "notifications/initialized" && !begun {
            wire.broken += 1;
            wire.may_restart = true;
            // After two that broke, nothing waits if that happened on the connection before, too; else the connection is lost.
            wire.is_held &= wire.broken < 2;
        }
    }

    /// Over HTTP, a notification or a response is accepted.
    pub(super) fn hears_accepted(&mut self, method: &str) {
        if let Some(wire) = self.wire.as_mut().filter(|_| method == "notifications/initialized") {
            wire.is_held = false;
        }
    }

    /// A request of the embedder has a response.
    fn concludes(&mut self, of: RequestId, answer: Answer) {
        if let Some(asked) = self.asked.get_mut(&of) {
            asked.extended |= answer == Answer::Open;
            asked.answer = Some(answer);
        }
    }

    fn extend(&mut self, of: RequestId) {
        if let Some(asked) = self.asked.get_mut(&of) {
            asked.extended = true;
        }
    }

    /// An event is reported.
    pub(super) fn reports(&mut self, event: &Event, now: Time) {
        match event {
            Event::Finished { request, outcome, attempts, failure } => {
                let asked = self.asked.remove(request).unwrap_or_else(|| panic!("{request:?} was not open"));
                self.check_outcome(*request, &asked, outcome, *attempts, now);
                let may_be_lost = matches!(outcome, Outcome::Unknown | Outcome::NotSent);
                assert!(failure.is_none() || may_be_lost, "{outcome:?} has the cause of a loss: {failure:?}");
            }
            Event::InputRequired { request, .. } | Event::Unauthorized { request: Some(request), .. } => {
                assert!(self.asked.contains_key(request), "{request:?} was not open");
                self.extend(*request);
            }
            Event::Resending { request, .. } => self.extend(*request),
            Event::Task { request, .. } => {
                if let Some(asked) = self.asked.get_mut(request) {
                    (asked.extended, asked.is_task) = (true, true);
                }
            }
            Event::Progress { request, .. } => assert!(self.asked.contains_key(request), "progress of what is over"),
            Event::Closed { .. } => assert!(self.asked.is_empty(), "requests without an end: {:?}", self.open()),
            _ => {}
        }
        // A server that is silent in one era is connected to once more, in the other one.
        let is_silent = |quirk: &Quirk| quirk.kind == QuirkKind::ModernSilent;
        match event {
            // The connection stays, and what is in flight is tried again.
            Event::Down { next: Recovery::Resume { .. }, .. } => {
                self.is_ready = false;
                if let Some(wire) = &mut self.wire {
                    wire.is_unreached = true;
                }
                return;
            }
            Event::Ready => {
                if let Some(wire) = &mut self.wire {
                    wire.is_unreached = false;
                }
            }
            Event::Down { failure, .. } => {
                let is_live = |wire: &Wire| wire.is(Era::Legacy) && !wire.may_restart && wire.heard == now;
                let is_given_up = failure.kind == FailureKind::Closed && self.wire.as_ref().is_some_and(is_live);
                assert!(!is_given_up, "{failure:?}, and nobody said that the session is over");
                return self.ends();
            }
            Event::Closed { .. } => return self.ends(),
            Event::Quirk(quirk) if is_silent(quirk) => return self.ends(),
            _ => {}
        }
        self.is_ready |= matches!(event, Event::Ready);
        if let Some(wire) = &mut self.wire {
            wire.reports(self.rules, event, now);
        }
    }

    fn check_outcome(&self, of: RequestId, asked: &Asked, outcome: &Outcome, attempts: u32, now: Time) {
        let Asked { method, sends, answer, .. } = asked;
        let resumes = method == "tasks/get";
        assert_eq!(attempts, if resumes { 0 } else { *sends }, "the attempts of {method}");
        match outcome {
            Outcome::Cancelled => assert!(asked.cancelled, "nobody cancelled {method}"),
            Outcome::TimedOut(TimeBound::Timeout) => assert!(now >= asked.until, "{method} timed out too early"),
            Outcome::Unknown => assert!(*sends > 0 || resumes, "{method} was not sent"),
            Outcome::NotSent => {
                let was_refused = !asked.lost && !self.running.values().any(|running| *running == of);
                assert!(*sends == 0 || was_refused, "{method} may have run");
            }
            _ => {}
        }
        let Some(wire) = self.wire.as_ref().filter(|_| !asked.is_task) else { return };
        match outcome {
            Outcome::Result(result) => {
                assert_eq!(*answer, Some(Answer::Result(result.get().into())), "the result of {method}");
            }
            Outcome::Error(RequestError::Server(error)) => {
                let is_it = *answer == Some(Answer::Open) || *answer == Some(Answer::Error(error.code));
                assert!(is_it, "the server answered {method} with {answer:?}, not {error:?}");
            }
            Outcome::InputRequired(_) => assert_eq!(*answer, Some(Answer::Open), "{method} requires no input"),
            Outcome::NotAdvertised => {
                assert!(!capability(method).is_empty(), "{method} needs no capability");
                assert_ne!(declares(&wire.capabilities, capability(method)), Some(true), "{method} is declared");
            }
            _ => {}
        }
    }

    /// All outputs are polled: what has to follow did.
    pub(super) fn settles(&mut self, session: &Engine, deadline: Option<Time>, now: Time) {
        if now < END {
            self.check_settled(session, deadline, now);
        }
        for family in Family::ALL.iter().copied() {
            self.listed[family as usize] |= session.family(family).status == FamilyStatus::Listed;
        }
    }

    fn check_settled(&self, session: &Engine, deadline: Option<Time>, now: Time) {
        for (id, asked) in self.asked.iter().filter(|_| !self.requested) {
            let until = asked.until.max(now);
            let is_bounded = asked.extended || deadline.is_some_and(|deadline| deadline <= until);
            assert!(is_bounded, "{id:?}, {}, ends after {:?}: {deadline:?}", asked.method, asked.until);
        }
        let is_bounded = self.asked.values().all(|asked| asked.until == END) || deadline.is_some();
        assert!(is_bounded, "nothing ends {:?}", self.open());
        let Some(wire) = &self.wire else { return };
        assert_eq!(session.is_ready(), self.is_ready, "whether the client is ready");
        for (id, asked) in self.asked.iter().filter(|(_, asked)| asked.pauses) {
            let is_due = deadline.is_some_and(|deadline| deadline <= asked.paused_until.max(now));
            assert!(is_due, "{id:?}, {}, is not sent again", asked.method);
        }
        for (id, Asked { method, answer, is_task, sends, repeats, .. }) in &self.asked {
            let is_open = *is_task || matches!(answer, None | Some(Answer::Open));
            assert!(is_open, "{id:?}, {method}, goes on after {answer:?}");
            let may_be_sent =
                !wire.is_held && session.is_ready() && self.asked.len().max(wire.sent.len()) < self.rules.in_flight;
            // Calls wait for each other, and for the list of tools.
            let is_free = may_be_sent && method != "tools/call" && !is_task;
            assert!(*sends > 0 && !repeats || !is_free, "{id:?}, {method}, is not sent");
        }
        wire.settles(self.rules, self.listed, session, deadline);
    }
}

impl Walk {
    /// What it found does not count. The page may be requested again if it `repeats`.
    fn fails(&mut self, repeats: bool, code: Option<i64>) {
        let refused = code.filter(|_| !self.is_known && self.cursor.is_none());
        // A list whose cursor is refused is begun again, once.
        self.is_wanted |= code == Some(-32602) && self.cursor.is_some();
        let Self { begun, since, is_wanted, is_told, is_known, .. } = *self;
        let next = self.cursor.take().filter(|_| repeats);
        let (answered, is_known) = (!repeats, is_known || !repeats);
        *self =
            Self { begun, since, is_wanted, is_told, next, answered, is_known, repeats, refused, ..Self::default() };
    }

    /// Another request without a cursor.
    fn begins(&mut self, rules: Rules, was_ready: bool, now: Time) {
        // A keepalive may be a list.
        let keeps_alive = rules.keepalive.is_some() && was_ready;
        assert!(self.running.is_none() || keeps_alive, "a list is requested twice at once");
        // A list that changes while it is requested for the first time is requested once more.
        self.begun += 1;
        let is_soon =
            was_ready && self.begun > 2 && self.since.is_some_and(|since| now < since + rules.refresh_interval);
        // Over HTTP a request may be sent again.
        let is_free = self.is_wanted || keeps_alive || rules.http;
        assert!(!is_soon || is_free, "a list is requested again within {:?}", rules.refresh_interval);
        // Where the request did not run, this may be a refresh, for which the client does not wait.
        self.is_known |= self.answered || self.repeats;
        (self.since, self.is_wanted, self.next, self.pages) = (Some(now), false, None, 0);
        self.refused = None;
        self.keys = (!keeps_alive).then(Vec::new);
        if keeps_alive {
            self.listed = None;
        }
    }

    fn takes(&mut self, rules: Rules, family: Family, page: &Value, len: usize) {
        (self.running, self.answered) = (None, true);
        self.pages += 1;
        self.next = page["nextCursor"].as_str().map(String::from);
        self.is_known |= self.next.is_none();
        let found = simple(family, page);
        self.brought = found.as_ref().is_some_and(|found| !found.is_empty());
        self.keys = self.keys.take().zip(found).map(|(keys, found)| [keys, found].concat());
        self.keys = self.keys.take().filter(|keys| {
            let is_distinct = keys.iter().collect::<BTreeSet<_>>().len() == keys.len();
            is_distinct
                && keys.len() <= rules.items
                && self.pages <= rules.pages
                && len * rules.pages < rules.list_bytes
        });
        // A page of another kind may be the end; one without items, and the last one that is requested, are.
        if self.next.is_none() || self.keys.is_none() || !self.brought || self.pages >= rules.pages {
            self.listed = self.keys.clone().filter(|_| self.next.is_none());
        }
    }
}

impl Wire {
    fn is(&self, era: Era) -> bool {
        self.agreed.is_some_and(|(agreed, _)| agreed == era)
    }

    fn has(&self, method: &str) -> bool {
        self.sent.values().any(|sent| sent.method == method)
    }

    /// Whether the user, or the user's model, responds to requests of the server with this method.
    fn is_users(&self, method: &str) -> bool {
        match method {
            "elicitation/create" => self.offers.get("elicitation").is_some(),
            "sampling/createMessage" => self.offers.get("sampling").is_some(),
            _ => false,
        }
    }

    /// The server described itself, and the client relies on that.
    fn agree_on_modern(&mut self, now: Time) {
        if let (None, Some(result)) = (self.agreed, &self.discovered) {
            self.capabilities = result["capabilities"].clone();
            self.agreed = Some((Era::Modern, now));
        }
    }

    /// Whether the client may need a capability that is not known to be missing.
    fn may(&self, name: &str) -> bool {
        declares(&self.capabilities, name) != Some(false)
    }

    /// The client sends a request.
    fn requests(&mut self, rules: Rules, id: u64, method: &str, params: &Value, of: Option<RequestId>, now: Time) {
        let meta = &params["_meta"];
        let is_modern =
            version(&meta["io.modelcontextprotocol/protocolVersion"]).is_some_and(|it| it.era() == Era::Modern);
        match method {
            "initialize" => {
                assert!(self.agreed.is_none() && !self.has(method), "another `initialize`");
                let offered = version(&params["protocolVersion"]);
                assert!(offered.is_some_and(|it| it.era() == Era::Legacy), "`initialize` with {params}");
                let probe = self.sent.values().find(|sent| sent.method == "server/discover");
                assert!(
                    probe.is_none_or(|probe| now >= probe.at + rules.discover),
                    "`initialize` before a response to the probe"
                );
                (self.offers, self.initialized) = (params["capabilities"].clone(), None);
                self.first = if self.first == 0 { id } else { self.first };
            }
            "server/discover" => {
                self.offers = meta["io.modelcontextprotocol/clientCapabilities"].clone();
                let is_it = is_modern && self.offers.is_object() && !self.is(Era::Legacy);
                assert!(is_it, "`server/discover` with {params}");
            }
            _ => {
                if is_modern {
                    self.agree_on_modern(now);
                }
                let Some((era, since)) = self.agreed else { panic!("{method} before the handshake is over") };
                self.is_held &= now < since + rules.request;
                assert_eq!(is_modern, era == Era::Modern, "{method} with {params}");
                assert!(!self.is_held, "{method} before `notifications/initialized` is answered");
                let feature = capability(method);
                let is_gated = of.is_some() && !rules.list_undeclared && !rules.undeclared_list_changed;
                assert!(!is_gated || feature.is_empty() || self.may(feature), "{method} needs what is not declared");
                match method {
                    "ping" if of.is_none() => {
                        assert!(era == Era::Legacy && !self.has_no_ping, "a ping of a server that has none");
                        let interval = rules.keepalive.expect("keepalive requests are sent");
                        assert!(now >= self.heard + interval, "a ping {:?} after a message", now.since(self.heard));
                    }
                    "subscriptions/listen" => assert_eq!(era, Era::Modern),
                    "logging/setLevel" => assert!(era == Era::Legacy && self.may("logging"), "the server has no level"),
                    "resources/subscribe" | "resources/unsubscribe" => {
                        assert!(era == Era::Legacy && self.may("resources"), "the server has no resources");
                    }
                    _ => {}
                }
            }
        }
        if let Some(family) = family_of(method).filter(|_| of.is_none()) {
            let may = self.may(family.capability().as_str()) || rules.list_undeclared;
            let walk = &mut self.walks[family as usize];
            // Over HTTP an announcement may come in an exchange that is not known.
            let is_told = walk.is_told || rules.http && rules.undeclared_list_changed;
            assert!(may || is_told, "{method} was not declared");
            walk.cursor = params.get("cursor").and_then(Value::as_str).map(String::from);
            match &walk.cursor {
                Some(cursor) => assert_eq!(Some(cursor), walk.next.as_ref(), "the cursor of {method}"),
                None => walk.begins(rules, self.was_ready, now),
            }
            (walk.running, walk.repeats) = (Some(id), false);
        }
        let is_task = params.get("task").is_some();
        self.used.insert(id, of);
        self.sent.insert(id, Sent { method: method.into(), of, is_task, at: now });
    }

    /// The client sends a notification.
    fn notifies(&mut self, rules: Rules, method: &str, params: &Value, now: Time) {
        match method {
            "notifications/initialized" if self.is_held => {}
            "notifications/initialized" => {
                let result = self.initialized.take().unwrap_or_else(|| panic!("`initialize` has no result"));
                self.capabilities = result["capabilities"].clone();
                (self.agreed, self.is_held) = (Some((Era::Legacy, now)), rules.http);
            }
            "notifications/cancelled" => {
                let sent = params["requestId"].as_u64().and_then(|id| self.sent.remove(&id));
                let sent = sent.unwrap_or_else(|| panic!("no such request is in flight: {params}"));
                assert_ne!(sent.method, "initialize", "`initialize` cannot be cancelled");
                self.fails(&sent, false, None);
            }
            "notifications/roots/list_changed" => {
                assert!(self.is(Era::Legacy) && self.offers.get("roots").is_some(), "no roots are declared");
            }
            _ => assert!(self.agreed.is_some(), "{method} before the handshake is over"),
        }
    }

    /// The client sends a response.
    fn responds(&mut self, id: &str, response: &Value) {
        assert!(!self.is(Era::Modern), "a response in an era without server requests: {response}");
        if self.is_partial {
            return;
        }
        // A server that uses an id twice has the response of the engine before that of the user.
        let of_id: Vec<_> = (0..self.owed.len()).filter(|at| self.owed[*at].id == id).collect();
        let at = of_id.iter().find(|at| !self.owed[**at].is_users).or(of_id.first());
        let Owed { method, is_users, .. } = self.owed.remove(*at.unwrap_or_else(|| panic!("nobody asked: {response}")));
        self.answers = self.answers.saturating_sub(is_users.into());
        match &*method {
            // It may name a task.
            "ping" => {
                let is_empty = |it: &serde_json::Map<String, Value>| it.keys().all(|name| name == "_meta");
                assert!(response["result"].as_object().is_some_and(is_empty), "the response to a ping: {response}");
            }
            // A probe that follows a refused `initialize` offers what that did not.
            "roots/list" if self.agreed.is_none() && self.has("server/discover") => {}
            "roots/list" if self.offers.get("roots").is_some() => {
                assert!(response["result"]["roots"].is_array(), "{response}");
            }
            _ if is_users => {}
            _ => {
                assert_eq!(response["error"]["code"], json!(-32601), "{method} is no method of the client: {response}")
            }
        }
    }

    /// The server sends a notification. Returns the request whose time it extends.
    fn hears_notification(&mut self, rules: Rules, method: &str, params: &Value) -> Option<RequestId> {
        match method {
            "notifications/progress" => {
                let token = &params["progressToken"];
                let read = |text: &str| text.parse().ok().filter(|token: &u64| token.to_string() == text);
                let token = token.as_u64().or_else(|| read(token.as_str()?))?;
                self.progressed.insert(token);
                return *self.used.get(&token)?;
            }
            "notifications/message" => self.logs += 1,
            "notifications/resources/updated" => self.updates.extend(params["uri"].as_str().map(String::from)),
            _ => {
                for family in Family::ALL.iter().copied().filter(|_| rules.undeclared_list_changed) {
                    let name = format!("notifications/{}/list_changed", family.capability().as_str());
                    self.walks[family as usize].is_told |= name == method;
                }
            }
        }
        None
    }

    /// The request that a response answers.
    fn answered(&mut self, id: &ResponseId, is_error: bool) -> Option<(u64, Sent)> {
        let id = match id {
            ResponseId::Exact(id) | ResponseId::Loose(id) if self.used.contains_key(id) => *id,
            _ => *self.sent.first_key_value().filter(|_| is_error && self.sent.len() == 1)?.0,
        };
        Some((id, self.sent.remove(&id)?))
    }

    /// A request of the client itself has no result. It may be sent again if it `repeats`.
    fn fails(&mut self, sent: &Sent, repeats: bool, code: Option<i64>) {
        self.has_no_ping |= sent.method == "ping" && code == Some(-32601);
        if let Some(family) = family_of(&sent.method).filter(|_| sent.of.is_none()) {
            self.walks[family as usize].fails(repeats, code);
        }
    }

    /// The server sends the result of a request of the client itself.
    fn learns(&mut self, rules: Rules, id: u64, sent: &Sent, result: &Value, len: usize, now: Time) {
        match &*sent.method {
            "initialize" => self.initialized = Some(result.clone()).filter(|it| it["protocolVersion"].is_string()),
            "server/discover" => {
                let mut versions = result["supportedVersions"].as_array().into_iter().flatten().filter_map(version);
                if versions.any(|version| version.era() == Era::Modern) {
                    self.discovered = Some(result.clone());
                    if self.is(Era::Modern) {
                        self.capabilities = result["capabilities"].clone();
                    } else if !self.has("initialize") && !self.has("server/discover") {
                        self.agree_on_modern(now);
                    }
                }
            }
            method => {
                if let Some(family) =
                    family_of(method).filter(|family| self.walks[*family as usize].running == Some(id))
                {
                    self.walks[family as usize].takes(rules, family, result, len);
                }
            }
        }
    }

    /// The client reports an event.
    fn reports(&mut self, rules: Rules, event: &Event, now: Time) {
        if self.is_partial && !matches!(event, Event::Ready) {
            return;
        }
        match event {
            Event::Ready => {
                self.agree_on_modern(now);
                let (_, since) = self.agreed.expect("ready after a handshake");
                // A list without a response in time has failed.
                let is_late = now >= since + rules.discovery.min(rules.request);
                for &family in Family::ALL {
                    let walk = &self.walks[family as usize];
                    let is_declared = declares(&self.capabilities, family.capability().as_str()) == Some(true);
                    let is_over =
                        walk.is_known || walk.running.is_none() && (walk.answered || walk.repeats || !is_declared);
                    assert!(is_over || is_late || self.was_ready, "ready before the {family:?} are listed");
                }
                (self.was_ready, self.heard) = (true, now);
            }
            Event::ServerRequest { method, .. } => {
                let method = method.as_str();
                let of_method = self.owed.iter_mut().filter(|it| it.method == method && it.is_users);
                let it = of_method.min_by_key(|it| it.is_told);
                it.unwrap_or_else(|| panic!("the server sent no {method} that the client declares")).is_told = true;
            }
            Event::Progress { request, .. } => {
                let of = |id: &u64| self.used.get(id) == Some(&Some(*request));
                assert!(self.progressed.iter().any(of), "no progress of {request:?} was reported");
            }
            Event::Log { .. } => self.logs = self.logs.checked_sub(1).expect("the server logged that"),
            Event::ResourceUpdated { uri } => {
                assert!(self.updates.contains(&**uri), "the server did not say that {uri:?} changed");
            }
            _ => {}
        }
    }

    fn settles(&self, rules: Rules, was_listed: [bool; 4], session: &Engine, deadline: Option<Time>) {
        let is_bounded = !self.opened || session.is_ready() || deadline.is_some();
        assert!(is_bounded, "nothing bounds the time of the handshake");
        assert!(!self.opened || self.offers.is_object(), "the transport is open, and nothing is sent");
        let Some((era, _)) = self.agreed else {
            let accepted = self.initialized.as_ref().and_then(|result| version(&result["protocolVersion"]));
            let is_open = accepted.is_none_or(|version| version.era() == Era::Modern);
            assert!(is_open, "`notifications/initialized` does not follow: {:?}", self.initialized);
            if self.has("initialize") && self.discovered.is_none() {
                self.check_owed(rules);
            }
            return;
        };
        if era == Era::Legacy {
            self.check_owed(rules);
        }
        assert!(!self.expired, "the session has expired, and no handshake follows");
        if self.is_held {
            return;
        }
        let mut is_over = true;
        for &family in Family::ALL {
            let walk = &self.walks[family as usize];
            let declared = declares(&self.capabilities, family.capability().as_str());
            let is_idle = walk.running.is_none() && !walk.repeats;
            let is_held = self.is_unreached;
            assert!(!is_idle || walk.answered || declared != Some(true) || is_held, "the {family:?} are not requested");
            let is_free = self.sent.len() < rules.in_flight;
            let has_more =
                is_free && walk.next.is_some() && walk.keys.is_some() && walk.pages < rules.pages && walk.brought;
            assert!(!is_idle || !has_more || is_held, "the next page of the {family:?} is not requested");
            if let Some(code) = walk
                .refused
                .filter(|_| is_idle && session.is_ready() && declared == Some(true) && !was_listed[family as usize])
            {
                let status = session.family(family).status;
                match code {
                    -32601 if family != Family::Tools || rules.tools_absent => {
                        assert_eq!(status, FamilyStatus::Absent, "the {family:?}");
                    }
                    -32603 | -1 if rules.degrades => assert_eq!(status, FamilyStatus::Failed, "the {family:?}"),
                    _ => {}
                }
            }
            let is_asked = declared != Some(false) || rules.list_undeclared;
            is_over &= is_idle && walk.next.is_none() && (walk.answered || !is_asked);
            if let Some(listed) = walk.listed.as_ref().filter(|_| session.is_ready()) {
                let keys: Vec<_> = session.catalog().list(family).iter().map(|(key, _)| key.to_owned()).collect();
                assert_eq!(keys, *listed, "the {family:?}");
                assert_eq!(session.family(family).status, FamilyStatus::Listed, "the {family:?}");
            }
        }
        assert!(!self.is_unreached || deadline.is_some(), "nobody is reached, and nothing is tried");
        assert!(
            !is_over || session.is_ready() || self.is_unreached,
            "each list is known, and the session is not ready"
        );
    }

    /// A ping, and a request that is not the user's, have a response at once. The embedder is told of the others.
    fn check_owed(&self, rules: Rules) {
        assert_eq!(self.answers, 0, "the embedder responded, and nothing is sent");
        if self.is_partial || rules.http && self.one_way + 1 >= rules.in_flight {
            return;
        }
        let late: Vec<_> = self.owed.iter().filter(|it| !it.is_users || !it.is_told).collect();
        assert!(late.is_empty(), "without a response, or not told: {late:?}");
    }
}
