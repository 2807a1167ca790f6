//! Each row of what a client does about authorization, against a fake authorization server and a fake store.

mod challenges;
mod code;
mod discovery;
mod extensions;
mod hostile;
mod hub;
mod joined;
mod joined_laws;
mod joined_messages;
#[cfg(feature = "snapshot")]
mod joined_moved;
mod joined_proofs;
mod joined_refusals;
mod joined_secrets;
mod laws;
mod program;
#[cfg(feature = "journal")]
mod recorded;
mod refresh;
mod registration;
mod simulated;
mod steps;
mod store;
mod tokens;

#[cfg(feature = "snapshot")]
pub(crate) use program::Host;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, StatusCode};
use mcp_proto::binding::oauth::{
    Authorization, OAuthAction, OAuthError, OAuthEvent, OAuthExchangeId, OAuthOptions, OAuthRequest, Reach,
    RegisteredClient, SaveOutcome, Secret, SignRequest, Stage, StoreAction, TokenId, stored_generation,
};
use mcp_proto::{Challenge, Time};
use serde_json::{Value, json};

use self::program::{EPOCH, ISSUER, REDIRECT};
use crate::fuzz_bodies::bodies::oauth_model::Watched;

const SERVER: &str = "https://mcp.example/a/mcp";
const RESOURCE: &str = "https://mcp.example/.well-known/oauth-protected-resource/a/mcp";
const METADATA: &str = "https://as.example/.well-known/oauth-authorization-server";

/// A response of the fake site.
#[derive(Clone)]
struct Page {
    status: u16,
    location: Option<String>,
    body: String,
}

/// What a server and its authorization server answer; everything else is 404.
#[derive(Clone, Default)]
struct Site {
    pages: BTreeMap<String, Page>,
    /// The responses of the token endpoint, each once; then tokens.
    tokens: VecDeque<(u16, String)>,
    issued: u32,
}

/// A store with one record, and what happened to it.
#[derive(Clone, Default)]
struct Store {
    record: Option<Vec<u8>>,
    log: Vec<&'static str>,
}

/// A request that was polled.
struct Sent {
    id: OAuthExchangeId,
    reach: Reach,
    method: String,
    url: String,
    headers: HeaderMap,
    body: String,
}

impl Sent {
    fn new(request: OAuthRequest) -> Self {
        let OAuthRequest { exchange, reach, request, .. } = request;
        let (method, url) = (request.method().to_string(), request.uri().to_string());
        let (parts, body) = request.into_parts();
        Self { id: exchange, reach, method, url, headers: parts.headers, body: String::from_utf8(body).unwrap() }
    }

    /// For a fake authorization server.
    fn request(&self) -> http::Request<Vec<u8>> {
        let mut request = http::Request::new(self.body.clone().into_bytes());
        *request.method_mut() = self.method.parse().unwrap();
        *request.uri_mut() = self.url.parse().unwrap();
        request.headers_mut().clone_from(&self.headers);
        request
    }

    /// Everything that it carries besides its URL.
    fn carried(&self) -> String {
        carried(&self.headers, self.body.as_bytes())
    }

    /// A parameter of the form.
    fn form(&self, name: &str) -> Option<String> {
        query(&self.body, name)
    }
}

struct Rig {
    auth: Watched,
    now: Time,
    site: Site,
    store: Store,
    events: Vec<OAuthEvent>,
    /// Requests in flight.
    sent: VecDeque<Sent>,
    /// Every request so far.
    log: Vec<String>,
    browse: Option<String>,
    waiting: VecDeque<StoreAction>,
    signs: VecDeque<SignRequest>,
}

impl Rig {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut OAuthOptions)) -> Self {
        Self::at(SERVER, change)
    }

    fn at(server: &str, change: impl FnOnce(&mut OAuthOptions)) -> Self {
        let mut options = OAuthOptions::new("suite", REDIRECT);
        change(&mut options);
        let now = Time::from_millis(5_000);
        let auth = Watched::new(server, options, [1; 32], now, Duration::from_secs(EPOCH));
        let mut site = Site::default();
        site.json(RESOURCE, json!({"resource": SERVER, "authorization_servers": [ISSUER]}));
        site.json(METADATA, metadata());
        site.put("https://as.example/register", 201, &json!({"client_id": "dyn"}).to_string());
        Self {
            auth,
            now,
            site,
            store: Store::default(),
            events: Vec::new(),
            sent: VecDeque::new(),
            log: Vec::new(),
            browse: None,
            waiting: VecDeque::new(),
            signs: VecDeque::new(),
        }
    }

    /// A rig with a client that was registered in advance, whose authorization server is not configured.
    fn registered() -> Self {
        Self::with(|options| options.registered.push(RegisteredClient::new("app")))
    }

    fn token(&self) -> Option<TokenId> {
        self.auth.header(&SERVER.parse().unwrap()).map(|(token, _)| token)
    }

    fn bearer(&self) -> Option<String> {
        let (_, header) = self.auth.header(&SERVER.parse().unwrap())?;
        Some(header.to_str().unwrap().strip_prefix("Bearer ").unwrap().to_owned())
    }

    /// The server refuses the current token, or a request without one, with 401.
    fn refuse(&mut self, params: &[(&str, &str)]) -> Result<(), OAuthError> {
        self.refuse_as(self.token(), false, params)
    }

    fn forbid(&mut self, scopes: &str) -> Result<(), OAuthError> {
        self.refuse_as(self.token(), true, &[("error", "insufficient_scope"), ("scope", scopes)])
    }

    fn refuse_as(
        &mut self,
        token: Option<TokenId>,
        forbidden: bool,
        params: &[(&str, &str)],
    ) -> Result<(), OAuthError> {
        let params = params.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let result = self.auth.handle_unauthorized(self.now, token, forbidden, &[Challenge::new("Bearer", params)]);
        self.pump();
        result
    }

    /// Takes all actions.
    fn pump(&mut self) {
        while let Some(action) = self.auth.poll() {
            assert!(!format!("{action:?}").contains("hush"), "{action:?}");
            match action {
                OAuthAction::Request(request) => {
                    let sent = Sent::new(request);
                    self.log.push(format!("{} {}", sent.method, sent.url));
                    self.sent.push_back(sent);
                }
                OAuthAction::Drop(id) => self.sent.retain(|sent| sent.id != id),
                OAuthAction::Browse(url) => {
                    assert!(!format!("{url:?}").contains("state="));
                    self.browse = Some(url.as_str().to_owned());
                    assert_eq!(url.redirect_uri(), self.shown("redirect_uri"));
                }
                OAuthAction::EndBrowse => self.browse = None,
                OAuthAction::Store(StoreAction::Release) => self.store.log.push("release"),
                OAuthAction::Store(StoreAction::Remove) => {
                    self.store.log.push("remove");
                    self.store.record = None;
                }
                OAuthAction::Store(action) => self.waiting.push_back(action),
                OAuthAction::Sign(request) => self.signs.push_back(request),
                OAuthAction::Event(event) => self.events.push(event),
                other => panic!("{other:?}"),
            }
        }
    }

    /// Answers the oldest request in flight.
    fn answer(&mut self, status: u16, body: &str) {
        self.answer_page(&Page { status, location: None, body: body.to_owned() });
    }

    fn answer_page(&mut self, page: &Page) {
        let sent = self.sent.pop_front().expect("a request is in flight");
        let mut headers = HeaderMap::new();
        if let Some(location) = &page.location {
            headers.insert("location", HeaderValue::from_str(location).unwrap());
        }
        self.auth.handle_head(self.now, sent.id, StatusCode::from_u16(page.status).unwrap(), &headers);
        for chunk in page.body.as_bytes().chunks(7) {
            self.auth.handle_body(self.now, sent.id, chunk);
        }
        self.auth.handle_end(self.now, sent.id);
        self.pump();
    }

    /// The oldest exchange in flight breaks.
    fn break_off(&mut self) {
        let sent = self.sent.pop_front().expect("a request is in flight");
        self.auth.handle_failure(self.now, sent.id, "connection reset: https://u:hush@as.example/?code=hush");
        self.pump();
    }

    /// Lets the store answer one action, and the site all requests, until nothing is in flight.
    fn run(&mut self) {
        self.run_until(|_| false);
    }

    /// As `run`, until a request to a URL with this ending is in flight.
    fn run_to(&mut self, ending: &str) {
        self.run_until(|sent| sent.url.ends_with(ending));
        assert!(!self.sent.is_empty(), "no request to {ending}: {:?}", self.log);
    }

    fn run_until(&mut self, stop: impl Fn(&Sent) -> bool) {
        for _ in 0..200 {
            if let Some(action) = self.waiting.pop_front() {
                self.serve_store(&action);
            } else if let Some(sent) = self.sent.front() {
                if stop(sent) {
                    return;
                }
                let page = self.site.page(sent);
                self.answer_page(&page);
            } else {
                return;
            }
        }
        panic!("it does not end: {:?}", self.log);
    }

    fn serve_store(&mut self, action: &StoreAction) {
        match action {
            StoreAction::Acquire(id) => {
                self.store.log.push("acquire");
                self.auth.handle_acquired(self.now, *id, true);
            }
            StoreAction::Load(id) => {
                self.store.log.push("load");
                self.auth.handle_loaded(self.now, *id, Ok(self.store.record.as_deref()));
            }
            StoreAction::Save { id, record, replaces, .. } => {
                let known = self.store.record.as_deref().map_or(0, stored_generation);
                let saved = if known == *replaces {
                    self.store.record = Some(record.expose().to_vec());
                    self.store.log.push("save");
                    SaveOutcome::Stored
                } else {
                    self.store.log.push("conflict");
                    SaveOutcome::Conflict
                };
                self.auth.handle_saved(self.now, *id, saved);
            }
            other => panic!("{other:?}"),
        }
        self.pump();
    }

    /// The user authorizes at the URL that is shown.
    fn consent(&mut self) {
        let state = self.shown("state");
        let redirect = format!("{REDIRECT}?code=code-hush&state={state}");
        assert!(self.redirect(&redirect));
    }

    fn redirect(&mut self, redirect: &str) -> bool {
        let is_ours = self.auth.handle_redirect(self.now, redirect);
        self.pump();
        is_ours
    }

    /// A parameter of the URL that is shown.
    fn shown(&self, name: &str) -> String {
        self.shown_if(name).unwrap_or_else(|| panic!("no {name} in {:?}", self.browse))
    }

    fn shown_if(&self, name: &str) -> Option<String> {
        query(self.browse.as_ref().expect("no URL is shown").split_once('?').unwrap().1, name)
    }

    /// From the first refusal to the first token, which is just issued.
    fn obtain(&mut self) {
        self.refuse(&[]).unwrap();
        self.run();
        self.consent();
        self.run();
        assert!(self.bearer().is_some(), "{:?} {:?}", self.log, self.events);
        self.events.clear();
        self.log.clear();
    }

    /// From the first refusal to the first token that the server accepted.
    fn authorize(&mut self) {
        self.obtain();
        self.accept();
    }

    /// The server accepts the current token.
    fn accept(&mut self) {
        let token = self.token().expect("a token");
        self.auth.handle_accepted(self.now, token);
    }

    fn wait(&mut self, seconds: u64) {
        self.now = self.now + Duration::from_secs(seconds);
        self.auth.handle_timeout(self.now);
        self.pump();
    }

    /// The error of the last event, which says that the attempt failed.
    fn failure(&self) -> &OAuthError {
        match self.events.last() {
            Some(OAuthEvent::Failed(error)) => error,
            other => panic!("{other:?} after {:?}", self.log),
        }
    }

    /// The attempt failed at this stage, for a reason that contains these words.
    #[track_caller]
    fn assert_failed(&self, stage: Stage, words: &str) {
        let error = self.failure();
        assert_eq!(error.stage, stage, "{error}");
        assert!(error.reason.contains(words), "{error}");
        assert!(!error.reason.contains("hush"), "{error}");
        assert!(self.sent.is_empty() && self.browse.is_none());
    }

    /// The attempt ended with a token.
    #[track_caller]
    fn assert_authorized(&self) {
        assert!(matches!(self.events.last(), Some(OAuthEvent::Authorized(_))), "{:?} {:?}", self.events, self.log);
        assert!(self.bearer().is_some());
    }
}

impl Site {
    fn put(&mut self, url: &str, status: u16, body: &str) {
        self.pages.insert(url.to_owned(), Page { status, location: None, body: body.to_owned() });
    }

    fn json(&mut self, url: &str, body: Value) {
        self.put(url, 200, &body.to_string());
    }

    fn redirect(&mut self, url: &str, location: &str) {
        self.pages
            .insert(url.to_owned(), Page { status: 302, location: Some(location.to_owned()), body: String::new() });
    }

    fn remove(&mut self, url: &str) {
        self.pages.remove(url);
    }

    fn page(&mut self, sent: &Sent) -> Page {
        if sent.url.ends_with("/token") {
            let (status, body) = self.tokens.pop_front().unwrap_or_else(|| {
                self.issued += 1;
                let body = json!({
                    "access_token": format!("at{}-hush", self.issued),
                    "token_type": "Bearer",
                    "expires_in": 3600,
                    "refresh_token": format!("rt{}-hush", self.issued),
                });
                (200, body.to_string())
            });
            return Page { status, location: None, body };
        }
        let missing = Page { status: 404, location: None, body: "not found".to_owned() };
        self.pages.get(&sent.url).cloned().unwrap_or(missing)
    }
}

/// A client that the authorization server knows.
fn client() -> RegisteredClient {
    let mut client = RegisteredClient::new("app");
    client.issuer = Some(ISSUER.into());
    client
}

/// A client that the authorization server knows, with a secret.
fn client_with(secret: &str) -> RegisteredClient {
    let mut client = client();
    client.secret = Some(Secret::new(secret));
    client
}

/// The metadata of the authorization server.
fn metadata() -> Value {
    json!({
        "issuer": ISSUER,
        "authorization_endpoint": "https://as.example/authorize",
        "token_endpoint": "https://as.example/token",
        "registration_endpoint": "https://as.example/register",
        "code_challenge_methods_supported": ["plain", "S256"],
        "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
    })
}

/// The metadata with other members.
fn metadata_with(changes: Value) -> Value {
    let mut metadata = metadata();
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => drop(metadata.as_object_mut().unwrap().remove(name)),
            value => metadata[name] = value.clone(),
        }
    }
    metadata
}

/// Everything that a request carries besides its URL: its body, and the values of its headers, with HTTP Basic decoded.
/// `Debug` of headers would not show the secret ones.
fn carried(headers: &HeaderMap, body: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(body).into_owned();
    for value in headers.values().map(HeaderValue::as_bytes) {
        text.push('\n');
        match value.strip_prefix(b"Basic ").and_then(|pair| STANDARD.decode(pair).ok()) {
            Some(pair) => text.push_str(&String::from_utf8_lossy(&pair)),
            None => text.push_str(&String::from_utf8_lossy(value)),
        }
    }
    text
}

/// The secrets in a text.
fn secrets(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').filter(|word| word.contains("hush"))
}

/// The scheme and the authority of a URL.
fn origin(url: &str) -> &str {
    url.match_indices('/').nth(2).map_or(url, |(at, _)| &url[..at])
}

/// A parameter of a query or a form.
fn query(query: &str, name: &str) -> Option<String> {
    let value = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))?;
    let mut bytes = value.bytes();
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => {
                let hex = [bytes.next().unwrap(), bytes.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&hex).unwrap(), 16).unwrap()
            }
            byte => byte,
        });
    }
    Some(String::from_utf8(out).unwrap())
}
