//! A client that authorizes itself, whose server, authorization server, user and store do anything.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use mcp_proto::binding::http::{Broken, ExchangeId, HttpAction};
use mcp_proto::binding::oauth::{
    Authorization, OAuthAction, OAuthExchangeId, OAuthInput, OAuthOptions, PublicKey, RegisteredClient, SaveOutcome,
    SignId, StoreAction, StoreId,
};
use mcp_proto::journal::{Input as Given, JournalLimits, Recorder, replay};
use mcp_proto::jsonrpc::{self, Decoded};
use mcp_proto::{Client, Command, CommandError, Family, Http, LogLevel, Options, Request, RequestId, Time};

use super::checks::{END, MARKER, check_event, has_marker};
use super::input::Input;
use super::journal::{Step, record};
use super::model::Model;
use super::oauth::{DOCUMENTS, RECORD, SERVER, carries_secret, line, without_marker};
use super::oauth_model::OAuthModel;
use super::rig::Operated;

/// What a journal's mask of a secret begins with, and a token, as it is and encoded.
const REPEATED: [&[u8]; 9] =
    [b"secret", b"736563", b"c2Vjcm", b"NlY3Jl", b"zZWNyZ", b"687573", b"aHVzaC", b"h1c2gt", b"odXNoL"];

/// Requests of the embedder.
const CALLS: usize = 32;

/// What is in flight.
#[derive(Clone)]
pub(super) struct Joined {
    client: Client<Http>,
    bits: u8,
    /// Whether the server repeated a token, or what is its mask in a journal.
    is_repeated: bool,
    /// What was done with the client.
    steps: Vec<Step<Command, Given>>,
    now: Time,
    /// Exchanges with the MCP server, the id and method of the message, and whether it has a token.
    exchanges: Vec<(ExchangeId, String, String, bool)>,
    model: Model,
    grants: OAuthModel,
    /// Exchanges of the authorization, and whether they are for metadata, which a journal has as it is.
    oauth: Vec<(OAuthExchangeId, bool)>,
    stores: Vec<StoreId>,
    signs: Vec<SignId>,
    state: Option<String>,
    calls: usize,
    hash: DefaultHasher,
}

/// A stored record, with the token that the authorization server issues.
fn stored() -> String {
    RECORD.replace("0ar3", "0ar")
}

/// The text of a member, as it is written.
fn member(body: &[u8], name: &str) -> String {
    let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    body.get(name).map(ToString::to_string).unwrap_or_default()
}

fn oauth_options(bits: u8) -> OAuthOptions {
    let mut oauth = OAuthOptions::new("fuzz", "http://127.0.0.1:1/");
    oauth.stored = bits & 1 != 0;
    oauth.dpop = (bits & 8 != 0).then(|| PublicKey::from_coordinates([1; 32], [2; 32]));
    if bits & 2 != 0 {
        oauth.registered.push(RegisteredClient::new("c"));
    }
    oauth
}

/// The binding with its authorization, and the options.
fn client(bits: u8) -> (Http, Options) {
    let oauth = oauth_options(bits);
    let auth = Authorization::new(SERVER, oauth, [7; 32], Time::ZERO, Duration::ZERO).expect("valid options");
    let mut options = Options::new("fuzz", "1");
    if bits & 4 != 0 {
        options.reconnect = None;
    }
    (Http::new(SERVER).expect("a URL").with_oauth(auth), options)
}

impl Joined {
    fn drain(&mut self) {
        while let Some(action) = self.client.poll() {
            self.steps.push(Step::Poll);
            let shown = format!("{action:?}");
            assert!(!shown.contains(MARKER), "a secret is shown: {shown}");
            shown.hash(&mut self.hash);
            match action {
                HttpAction::Request(it) => {
                    let (uri, body) = (it.request.uri().to_string(), it.request.body());
                    let carries = it.request.headers().contains_key("authorization");
                    assert!(!carries || uri.starts_with("https://mcp.example/"), "a token goes to {uri}");
                    it.request.headers().get("authorization").into_iter().for_each(|it| self.grants.presents(it));
                    for (name, value) in it.request.headers() {
                        assert!(name == "authorization" || !has_marker(value.as_bytes()), "a token in {name}");
                    }
                    assert!(!has_marker(body) && !has_marker(uri.as_bytes()));
                    if it.request.method() == Method::POST {
                        self.model.sends(body, it.of, self.now);
                    }
                    self.exchanges.push((it.exchange, member(body, "id"), member(body, "method"), carries));
                }
                HttpAction::Drop(exchange) => {
                    let dropped = self.exchanges.iter().find(|(id, ..)| *id == exchange);
                    dropped.and_then(|(_, id, ..)| id.parse().ok()).into_iter().for_each(|id| self.model.breaks(id));
                    self.exchanges.retain(|(id, ..)| *id != exchange);
                }
                HttpAction::Event(event) => {
                    check_event(&event);
                    self.model.reports(&event, self.now);
                }
                HttpAction::OAuth(action) => {
                    self.grants.acts(&action);
                    self.authorize(action);
                }
                _ => {}
            }
        }
        self.grants.settles(self.client.deadline());
        // A message may wait for its proof.
        if self.signs.is_empty() {
            self.model.settles(&self.client, self.client.deadline(), self.now);
        }
    }

    fn authorize(&mut self, action: OAuthAction) {
        match action {
            OAuthAction::Request(it) => {
                let uri = it.request.uri().to_string();
                // The origin of the server may be that of its authorization server, as in 2025-03-26.
                assert!(!carries_secret(&it.request) || !uri.starts_with(SERVER), "a secret goes to {uri}");
                self.oauth.push((it.exchange, it.request.method() == Method::GET));
            }
            OAuthAction::Drop(exchange) => self.oauth.retain(|(id, _)| *id != exchange),
            OAuthAction::Browse(url) => {
                let state = url.as_str().split("&state=").nth(1).expect("a state");
                self.state = Some(state.split('&').next().unwrap_or_default().to_owned());
            }
            OAuthAction::EndBrowse => self.state = None,
            OAuthAction::Store(StoreAction::Acquire(id) | StoreAction::Load(id)) => self.stores.push(id),
            OAuthAction::Store(StoreAction::Save { id, .. }) => self.stores.push(id),
            OAuthAction::Sign(it) => self.signs.push(it.id),
            _ => {}
        }
    }

    fn command(&mut self, command: Command) -> Result<Option<RequestId>, CommandError> {
        self.steps.push(Step::Command(self.now, command.clone()));
        self.client.apply(self.now, command)
    }

    fn give(&mut self, input: Given) {
        self.steps.push(Step::Input(self.now, input.clone()));
        let _ = self.client.handle_input(self.now, input);
    }

    fn input(&mut self, input: OAuthInput<'_>) {
        self.grants.takes(&input, self.now);
        self.give(Given::OAuth(input.into()));
    }

    /// A journal of what was done has none of the secrets, and replays. Where a server repeats a token
    /// in another encoding, the client hides it, and does not find its mask in a replay. Where a server sends what is a mask,
    /// the replay hides it.
    pub(super) fn record(&self) {
        let recorder = || {
            let (http, options) = client(self.bits);
            Recorder::new(http, options, 1, JournalLimits::default())
        };
        let recorded = record(recorder, &self.steps);
        let replayed = replay(recorded.as_bytes(), JournalLimits::default());
        assert!(replayed.is_ok() || self.is_repeated, "{replayed:?}\n{recorded}");
    }

    /// The MCP server answers an exchange.
    fn reply(&mut self, at: usize, status: u16, header: (&'static str, &[u8]), body: &str) {
        if self.exchanges.is_empty() {
            return;
        }
        let (exchange, id, method, _) = self.exchanges.remove(at % self.exchanges.len());
        match (id.parse(), jsonrpc::decode(body.as_bytes(), self.client.options().limits.message)) {
            (Ok(_), Ok(Decoded::One(message))) => self.model.hears(&message, self.now),
            (Ok(id), _) => self.model.hears_status(id, true),
            _ if status < 300 => self.model.hears_accepted(method.trim_matches('"')),
            _ => self.model.hears_unclear(None),
        }
        let mut headers = HeaderMap::new();
        if matches!(status, 401 | 403) {
            self.grants.is_challenged_by(header.1);
        }
        if let Ok(value) = HeaderValue::from_bytes(header.1) {
            headers.insert(header.0, value);
        }
        let status = StatusCode::from_u16(status).unwrap_or_default();
        let bytes = body.as_bytes().into();
        for input in
            [Given::Head { exchange, status, headers }, Given::Body { exchange, bytes }, Given::End { exchange }]
        {
            self.give(input);
        }
    }

    /// The MCP server does what it is asked, or answers with an error that repeats the token.
    fn serve(&mut self, at: usize, fails: bool) {
        if self.exchanges.is_empty() {
            return;
        }
        let (_, id, method, carries) = self.exchanges[at % self.exchanges.len()].clone();
        // A server repeats only what it was sent.
        let (plain, escaped) = if carries { (MARKER, r"hush\u002dtide-0ar") } else { ("no", "no") };
        let result = match &*method {
            "\"server/discover\"" => {
                r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"s","version":"1"}}"#
            }
            "\"initialize\"" => {
                r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"s","version":"1"}}"#
            }
            "\"tools/list\"" => r#"{"resultType":"complete","tools":[{"name":"a","inputSchema":{"type":"object"}}]}"#,
            _ => r#"{"resultType":"complete","content":[]}"#,
        };
        self.is_repeated |= fails && carries;
        let answer = if fails {
            format!(r#""error":{{"code":-1,"message":"bad {plain}","data":{{"token":"{plain}","hash":"{escaped}"}}}}"#)
        } else {
            format!(r#""result":{result}"#)
        };
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},{answer}}}"#);
        self.reply(at, 200, ("content-type", b"application/json"), &body);
    }

    /// The MCP server answers a GET with a stream.
    fn stream(&mut self) {
        let Some((exchange, ..)) = self.exchanges.iter().find(|(_, _, method, _)| method.is_empty()) else { return };
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"))]);
        self.give(Given::Head { exchange: *exchange, status: StatusCode::OK, headers });
    }

    /// A text of the server, which has no token as it is.
    fn line<'a>(&mut self, input: &mut Input<'a>) -> &'a [u8] {
        let line = line(input);
        self.is_repeated |= REPEATED.iter().any(|text| line.windows(text.len()).any(|part| part == *text));
        line
    }

    fn answer(&mut self, status: u16, body: &[u8]) {
        let Some((exchange, is_public)) = self.oauth.pop() else { return };
        let body = if is_public { &without_marker(body) } else { body };
        let (headers, status) = (HeaderMap::new(), StatusCode::from_u16(status).unwrap_or_default());
        self.input(OAuthInput::Head { exchange, status, headers: &headers });
        self.input(OAuthInput::Body { exchange, chunk: body });
        self.input(OAuthInput::End { exchange });
    }

    fn store(&mut self, how: usize) {
        let Some(id) = self.stores.pop() else { return };
        match how {
            0 | 1 => self.input(OAuthInput::Acquired { id, acquired: how == 0 }),
            2 => self.input(OAuthInput::Loaded { id, record: Ok(None) }),
            3 => self.input(OAuthInput::Loaded { id, record: Ok(Some(stored().as_bytes())) }),
            4 => self.input(OAuthInput::Loaded { id, record: Err(()) }),
            5 => self.input(OAuthInput::Saved { id, saved: SaveOutcome::Stored }),
            6 => self.input(OAuthInput::Saved { id, saved: SaveOutcome::Conflict }),
            // That of another process.
            8 => {
                let newer = stored().replace("0ar4", "0ar5").replace(r#""generation":3"#, r#""generation":9"#);
                self.input(OAuthInput::Loaded { id, record: Ok(Some(newer.as_bytes())) });
            }
            _ => self.input(OAuthInput::Saved { id, saved: SaveOutcome::Failed }),
        }
    }
}

impl Operated for Joined {
    fn new(input: &mut Input<'_>) -> Self {
        let bits = input.bits();
        let (http, options) = client(bits);
        // What waits for a token has more time.
        let mut model = Model::new(&options, true);
        model.hears_unclear(None);
        let mut joined = Self {
            client: Client::new(http, options, 1),
            model,
            grants: OAuthModel::new(SERVER, &oauth_options(bits)),
            bits,
            is_repeated: false,
            steps: Vec::new(),
            now: Time::ZERO,
            exchanges: Vec::new(),
            oauth: Vec::new(),
            stores: Vec::new(),
            signs: Vec::new(),
            state: None,
            calls: 0,
            hash: DefaultHasher::new(),
        };
        let _ = joined.command(Command::Open);
        joined.drain();
        joined
    }

    fn operate(&mut self, operation: u8, input: &mut Input<'_>) {
        match operation {
            b'q' if self.calls < CALLS => {
                if let Ok(Some(call)) = self.command(Command::Request(Request::call_tool("a", None))) {
                    self.calls += 1;
                    let until = self.now + self.client.options().timeouts.request;
                    self.model.accepts(call, "tools/call".into(), true, until);
                }
            }
            b'h' => self.serve(input.pick(8), false),
            b'e' => self.serve(input.pick(8), true),
            b'r' => {
                let (at, challenge) = (input.pick(8), self.line(input));
                self.reply(at, 401, ("www-authenticate", challenge), "");
            }
            b'f' => {
                let (at, challenge) = (input.pick(8), self.line(input));
                self.reply(at, 403, ("www-authenticate", challenge), "");
            }
            b'i' => self.stream(),
            b'j' if self.command(Command::Refresh { family: Family::Tools }).is_ok() => {
                self.model.refreshes(Family::Tools)
            }
            b'm' => {
                drop(self.command(Command::SetLogLevel { level: [LogLevel::Debug, LogLevel::Error][input.pick(2)] }))
            }
            b'k' => {
                if let Some((exchange, id, ..)) = self.exchanges.pop() {
                    let broken = if input.bits() & 1 == 0 { Broken::Midway } else { Broken::Unreachable };
                    if let Ok(id) = id.parse::<u64>() {
                        if broken == Broken::Midway {
                            self.model.loses(|lost| lost == id);
                        } else {
                            self.model.hears_status(id, true);
                        }
                        self.model.breaks(id);
                    }
                    self.give(Given::Failure { exchange, broken, why: "reset".into() });
                }
            }
            b'a' => {
                let document = DOCUMENTS[input.pick(DOCUMENTS.len())];
                self.answer([200, 400, 503][input.pick(3)], document.as_bytes());
            }
            b'b' => {
                let body = self.line(input);
                self.answer(200, body);
            }
            b'x' => {
                if let Some((exchange, _)) = self.oauth.pop() {
                    self.input(OAuthInput::Failure { exchange, why: "reset" });
                }
            }
            b'c' => {
                let state = self.state.clone().unwrap_or_default();
                self.input(OAuthInput::Redirect(&format!("?state={state}&code={MARKER}")));
            }
            b's' => {
                let how = input.pick(9);
                self.store(how);
            }
            b'g' => {
                if let Some(id) = self.signs.pop() {
                    let signature = self.line(input);
                    self.input(OAuthInput::Signature { id, signature });
                }
            }
            b't' => {
                self.now = self.now + input.step();
                self.grants.passes(self.now);
                self.give(Given::Timeout);
            }
            b'o' => self.input(OAuthInput::SignOut),
            b'z' => self.input(OAuthInput::Authorize),
            b'l' => self.input(OAuthInput::Cancel),
            b'n' => self.input(OAuthInput::NotShown("no browser at https://user:pass@h/?code=x")),
            b'u' => self.input(OAuthInput::Clock { unix: Duration::from_secs(60) * input.bits().into() }),
            b'y' => {
                let _ = self.command(Command::Close);
                self.model.loses_track();
            }
            _ => {}
        }
        self.drain();
    }

    /// Secrets are not in the text: the outputs so far stand for them.
    fn state(&self) -> String {
        let Self { client, now, exchanges, oauth, stores, signs, state, calls, .. } = self;
        let hash = self.hash.finish();
        format!(
            "{hash} {now:?} {client:?} {exchanges:?} {oauth:?} {stores:?} {signs:?} {state:?} {calls} {:?}",
            self.model.open()
        )
    }

    fn end(&mut self) -> u64 {
        self.client.clone().handle_timeout(END);
        let _ = self.client.close(self.now);
        self.model.loses_track();
        self.drain();
        // The last one is that of a store that does not answer.
        for _ in 0..8 {
            let Some(deadline) = self.client.deadline() else { break };
            self.now = self.now.max(deadline);
            self.grants.passes(self.now);
            self.client.handle_timeout(self.now);
            self.drain();
        }
        assert!(self.client.is_closed(), "closing did not end the client");
        let (client, oauth) = (&self.client, &self.oauth);
        assert!(client.deadline().is_none() && self.exchanges.is_empty() && oauth.is_empty(), "{oauth:?}");
        self.hash.finish()
    }
}
