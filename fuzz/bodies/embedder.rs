//! The embedder's operations and the invariants of their results.

use std::collections::BTreeSet;
use std::fmt::{self, Debug, Formatter};
use std::time::Duration;

use mcp_proto::jsonrpc::ErrorObject;
use mcp_proto::protocol::Root;
use mcp_proto::{
    Client, CommandError, Event, Family, LogLevel, Options, Reference, Request, RequestId, ServerRequestId, Time,
    TraceContext,
};

use super::checks::{assert_equal, check_event, check_form};
use super::input::{Input, raw};
use super::model::Model;
use super::peer::URIS;
use super::rig::Bound;

#[derive(Clone)]
pub(super) struct Embedder {
    pub(super) requests: Vec<RequestId>,
    asks: Vec<ServerRequestId>,
    /// Requests that waited for input or a token at some time.
    waiting: Vec<RequestId>,
    pub(super) model: Model,
    /// Resources that were ever subscribed to.
    wished: BTreeSet<&'static str>,
    /// Queued actions that the embedder caused since the queue was last empty.
    pub(super) own: usize,
    pub(super) closed: bool,
}

/// What later operations depend on, if they choose only the latest of each kind.
impl Debug for Embedder {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { requests, asks, waiting, wished, own, closed, model } = self;
        let latest = (requests.last(), asks.last(), waiting.last());
        write!(f, "{latest:?} {:?} {wished:?} {own} {closed}", model.open())
    }
}

/// Checks that refused commands changed nothing, or no more than the time does.
pub(super) fn check_unchanged<B: Bound>(mut before: Client<B>, session: &Client<B>, now: Time, misuse: &impl Debug) {
    let after = format!("{session:?}");
    if format!("{before:?}") != after {
        before.handle_timeout(now);
        assert_equal(&format!("{before:?}"), &after, &format!("{misuse:?} changed the session"));
    }
}

impl Embedder {
    pub(super) fn new(options: &Options, http: bool) -> Self {
        Self {
            requests: Vec::new(),
            asks: Vec::new(),
            waiting: Vec::new(),
            model: Model::new(options, http),
            wished: BTreeSet::new(),
            own: 0,
            closed: false,
        }
    }

    /// Runs an operation of the embedder, independent of the transport; false if it is not one.
    pub(super) fn operate<B: Bound>(
        &mut self,
        operation: u8,
        session: &mut Client<B>,
        now: Time,
        input: &mut Input<'_>,
    ) -> bool {
        match operation {
            b'a' => drop(self.command(session, now, 6, |session| session.open(now))),
            b'k' => self.request(session, now, input),
            b'l' => {
                if let Some(request) = input.choose(&self.requests) {
                    let cancelled = self.command(session, now, 4, |session| session.cancel(now, request));
                    if cancelled.is_some() {
                        self.model.cancels(request);
                    }
                }
            }
            b'm' => match input.pick(13) {
                kind @ (0..3 | 6..9) => self.answer(session, now, kind, input),
                kind => self.input(session, now, kind, input),
            },
            b'n' => {
                let kind = input.pick(4);
                if kind == 3 {
                    let family = Family::ALL[input.pick(4)];
                    if self.command(session, now, 1, |session| session.refresh(now, family)).is_some() {
                        self.model.refreshes(family);
                    }
                    return true;
                }
                let method = ["notifications/example", "notifications/cancelled", "x\n"][kind];
                let params = [None, Some(raw("{\n}")), Some(raw("1"))][input.pick(3)].take();
                self.command(session, now, 1, |session| session.notify(now, method, params.as_deref()));
            }
            b'o' => {
                self.command(session, now, 6, |session| session.close(now));
                self.model.loses_track();
            }
            b'S' => {
                let uri = URIS[input.pick(URIS.len())];
                self.wished.insert(uri);
                self.command(session, now, 2, |session| session.subscribe(now, uri));
            }
            b'U' => {
                let uri = URIS[input.pick(URIS.len())];
                self.command(session, now, 4, |session| session.unsubscribe(now, uri));
            }
            b'L' => {
                let level = [LogLevel::Debug, LogLevel::Error, LogLevel::Emergency][input.pick(3)];
                self.command(session, now, 1, |session| session.set_log_level(now, level));
            }
            b'R' => {
                let roots = vec![Root::new(URIS[input.pick(URIS.len())])];
                self.command(session, now, 1, |session| session.set_roots(now, roots));
            }
            b'A' => drop(self.command(session, now, 8, |session| session.authorized(now))),
            _ => return false,
        }
        true
    }

    /// Runs a command; checks that an error changes nothing.
    pub(super) fn command<B: Bound, T>(
        &mut self,
        session: &mut Client<B>,
        now: Time,
        owed: usize,
        act: impl FnOnce(&mut Client<B>) -> Result<T, CommandError>,
    ) -> Option<T> {
        let before = session.clone();
        match act(session) {
            Ok(done) => {
                self.own += owed;
                Some(done)
            }
            Err(misuse) => {
                assert!(check_form(&misuse) == misuse && !misuse.to_string().is_empty(), "{misuse:?}");
                check_unchanged(before, session, now, &misuse);
                None
            }
        }
    }

    fn request<B: Bound>(&mut self, session: &mut Client<B>, now: Time, input: &mut Input<'_>) {
        let method = [
            "tools/call",
            "prompts/get",
            "resources/read",
            "completion/complete",
            "ping",
            "x/y\n",
            "initialize",
            "tools/list",
        ][input.pick(8)];
        let mut request = Request::new(method);
        let kind = input.pick(15);
        let timeout = match kind {
            3 => Duration::ZERO,
            4 => Duration::MAX,
            _ => session.options().timeouts.request,
        };
        match kind {
            1 => {
                request =
                    request.params(raw("{\"name\":\"a\",\n\"_meta\":{\"progressToken\":1,\"traceparent\":\"x\"}}"))
            }
            2 => request = request.params(raw("[1]")),
            3 => request = request.timeout(Duration::ZERO),
            4 => request = request.timeout(Duration::MAX),
            5 => {
                let mut trace = TraceContext::default();
                trace.traceparent = Some("00-a-b-01".into());
                request = request.params(raw("{\"_meta\":null}")).trace(trace);
            }
            6 => request = request.progress(true).replay(true),
            7 => request = Request::call_tool("a", None).replay(false),
            8 => request = request.params(raw(r#"{"name":"\u0061","uri":" \n","arguments":{"b":"\u00e9\r\nx: y"}}"#)),
            9 => request = request.params(raw(r#"{"name":1,"arguments":[],"uri":null}"#)),
            10 => request = Request::resume_task("t").max_timeout(Duration::from_secs(5)),
            11 => request = Request::get_prompt("a", [("b", "\u{e9}\n"), ("c", "")]),
            12 => request = Request::complete(Reference::Prompt("a"), "b", "\n"),
            13 => request = Request::complete_with(Reference::Resource("r:0"), "b", "x", [("a", "1"), ("c", "\"")]),
            14 => request = request.with_params(&BTreeSet::from([1])).expect("a value can be written"),
            _ => {}
        }
        assert!(check_form(&request) == request, "another request than {request:?} was read");
        let method = request.method().to_owned();
        let once = kind == 7 || method == "tools/call" && kind != 6 && !session.options().trust;
        if let Some(id) = self.command(session, now, 4, |session| session.request(now, request)) {
            self.requests.push(id);
            self.model.accepts(id, method, once, now + timeout);
        }
    }

    fn answer<B: Bound>(&mut self, session: &mut Client<B>, now: Time, kind: usize, input: &mut Input<'_>) {
        let Some(ask) = input.choose(&self.asks) else { return };
        let json = [
            "{\"action\":\n\"accept\"}",
            "",
            "[]",
            "",
            "",
            "",
            r#"{"action":"accept","content":{"a":2}}"#,
            "{\"content\":null,\"action\":\"\\u0061ccept\",\n\"_meta\":{}}",
            r#"{"action":"accept","content":{"\u0061":2},"content":{"b\"":[]}}"#,
        ][kind];
        let json = (!json.is_empty()).then(|| raw(json));
        let answer = json.as_deref().ok_or_else(|| ErrorObject::new(-1, "no\n"));
        if self.command(session, now, 1, |session| session.respond(now, ask, answer)).is_some() {
            self.model.responds();
        }
    }

    fn input<B: Bound>(&mut self, session: &mut Client<B>, now: Time, kind: usize, input: &mut Input<'_>) {
        let Some(request) = input.choose(&self.waiting) else { return };
        let (object, array, accept) = (raw("{\n}"), raw("[]"), raw(r#"{"action":"accept","content":{"a":"\n"}}"#));
        self.command(session, now, 4, |session| match kind {
            3 => session.provide(now, request, [("e", &*object), ("e\n", &*object)]),
            4 => session.provide(now, request, [("e", &*array)]),
            9 => session.provide(now, request, [("e", &*accept), ("f", &*accept), ("e", &*object)]),
            10 => session.provide(now, request, []),
            11 => session.provide(now, request, [("e", &*accept)]),
            12 => session.provide(now, request, [("e", &*object), ("url-1", &*object)]),
            _ => session.decline(now, request),
        });
    }

    pub(super) fn take(&mut self, event: &Event, now: Time) {
        check_event(event);
        self.model.reports(event, now);
        match event {
            Event::ServerRequest { id: ask, .. } => self.asks.push(*ask),
            Event::InputRequired { request, .. } | Event::Unauthorized { request: Some(request), .. } => {
                self.waiting.push(*request);
            }
            Event::Subscription { uri, .. } => {
                assert!(self.wished.contains(&**uri), "nobody wanted to be told of {uri:?}");
            }
            Event::Closed { .. } => self.closed = true,
            _ => {}
        }
    }
}
