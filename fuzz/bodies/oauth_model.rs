//! The reference model of an authorization: what it may request, show and store after what it received, as the specification
//! and AUTHORIZATION.md say. It sees inputs and actions, and nothing of the authorization itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use mcp_proto::binding::oauth::{
    Authorization, AuthorizationUrl, Flow, GrantKind, OAuthAction, OAuthError, OAuthEvent, OAuthExchangeId, OAuthInput,
    OAuthOptions, OAuthRequest, SaveOutcome, SignId, StoreAction, StoreId, TokenId, stored_generation,
};
use mcp_proto::{Challenge, Time};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const OFFLINE: &str = "offline_access";

/// Parameters of a query or a form.
type Params = Vec<(String, String)>;

/// A request without a complete response.
#[derive(Clone)]
struct Exchange {
    url: String,
    /// It is for metadata, of the resource, or of these authorization servers.
    is_metadata: bool,
    is_resource: bool,
    asks: Vec<String>,
    form: Params,
    status: Option<StatusCode>,
    location: bool,
    body: Vec<u8>,
}

impl Exchange {
    fn is_success(&self) -> bool {
        self.status.is_some_and(|status| status.is_success())
    }

    /// It belongs to an attempt, and not to a sign-out.
    fn is_attempt(&self) -> bool {
        param(&self.form, "token").is_none()
    }
}

/// A URL that is shown to the user.
#[derive(Clone)]
struct Shown {
    query: Params,
    /// The metadata that has this endpoint.
    documents: Vec<Value>,
}

/// A code that the user brought, and the URL that was shown for it.
#[derive(Clone)]
struct Code {
    shown: Shown,
    /// What the redirect says of the authorization server (RFC 9207).
    iss: Option<String>,
    sent: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Lock {
    Free,
    Asked(StoreId),
    Held,
}

#[derive(Clone)]
pub(crate) struct OAuthModel {
    server: String,
    options: OAuthOptions,
    exchanges: BTreeMap<OAuthExchangeId, Exchange>,
    /// The metadata of the resource that challenges named.
    challenged: BTreeSet<String>,
    /// The authorization servers that may be asked for metadata.
    issuers: BTreeSet<String>,
    /// The origins from which metadata was redirected.
    redirecting: BTreeSet<(String, String, u16)>,
    /// The places that were asked for metadata, and those that have none for certain: an outage is no such certainty.
    asked: BTreeSet<String>,
    absent: BTreeSet<String>,
    /// Nobody has metadata, so that the conventions of 2025-03-26 hold.
    is_assumed: bool,
    is_modern: bool,
    /// Metadata of authorization servers that passes the checks.
    documents: Vec<Value>,
    /// The scopes that anyone named.
    scopes: BTreeSet<String>,
    /// The server, the user or the embedder wanted a token.
    is_wanted: bool,
    shown: Option<Shown>,
    states: BTreeSet<String>,
    codes: BTreeMap<String, Code>,
    /// Access tokens that may be presented, and all tokens that were issued or stored.
    access_tokens: BTreeSet<String>,
    revocable: BTreeSet<String>,
    /// The names of the server that a token may be for.
    resources: BTreeSet<String>,
    refresh_tokens: BTreeSet<String>,
    /// The refresh token that was exchanged for another, until the new access token is reported.
    exchanged: Option<String>,
    /// Refresh tokens that were exchanged or refused.
    spent: BTreeSet<String>,
    /// When the authorization server was last out of order, and with which refresh token.
    outage: Option<(Time, String)>,
    /// A text came that may be read in several ways, so that what it names is not certain.
    is_unclear: bool,
    /// How tokens were obtained.
    kinds: BTreeSet<String>,
    lock: Lock,
    now: Time,
    /// What the store is asked, when, and the generation of what is saved. An answer that is too late counts as none.
    loads: BTreeMap<StoreId, Time>,
    saves: BTreeMap<StoreId, (Time, u64)>,
    /// Those of the records that the store had, 0 for none.
    generations: BTreeSet<u64>,
    /// The embedder commanded a sign-out, or the record is gone.
    signs_out: bool,
    /// All actions were polled since the last input.
    is_settled: bool,
    /// The input means nothing, so that no action follows.
    is_quiet: bool,
}

/// Percent-encoding is read, and `+` as a space.
fn decode(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, others)) = rest.split_first() {
        let code = others.get(..2).and_then(|it| std::str::from_utf8(it).ok()).filter(|_| *first == b'%');
        let code = code.filter(|it| !it.starts_with('+')).and_then(|it| u8::from_str_radix(it, 16).ok());
        rest = code.map_or(others, |_| &others[2..]);
        bytes.push(code.unwrap_or(if *first == b'+' { b' ' } else { *first }));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The parameters of a query.
fn params(query: &str) -> Params {
    let pairs = query.split('&').filter(|it| !it.is_empty()).map(|it| it.split_once('=').unwrap_or((it, "")));
    pairs.map(|(name, value)| (decode(name), decode(value))).collect()
}

fn param<'a>(params: &'a Params, name: &str) -> Option<&'a str> {
    params.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
}

/// The origin and the path of a URL, without its query.
fn split(url: &str) -> (String, &str) {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let path = url.find("://").and_then(|at| url[at + 3..].find('/').map(|path| at + 3 + path)).unwrap_or(url.len());
    (url[..path].to_ascii_lowercase(), &url[path..])
}

/// A URL as it is requested, in lower case.
fn requested(url: &str) -> String {
    let url = url.split('#').next().unwrap_or_default();
    url.parse().map_or_else(|_| url.into(), |url: Uri| url.to_string()).to_ascii_lowercase()
}

/// Whether nobody on the way can read what is sent there.
fn is_protected(url: &str) -> bool {
    let is_loopback =
        |host: &str| host == "localhost" || host.ends_with(".localhost") || host.starts_with("127.") || host == "[::1]";
    origin(url).is_some_and(|(scheme, host, _)| scheme == "https" || is_loopback(&host))
}

/// What two URLs of an origin have in common.
fn origin(url: &str) -> Option<(String, String, u16)> {
    let url: Uri = requested(url).parse().ok()?;
    let (scheme, host) = (url.scheme_str()?, url.host()?);
    let port = url.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
    Some((scheme.into(), host.into(), port))
}

/// Whether two issuers are the same, or one origin with and without its final slash.
fn is_but_for_slash(one: &str, other: &str) -> bool {
    let bare = |it: &str| it.strip_suffix('/').filter(|it| it.matches('/').count() == 2).unwrap_or(it).to_owned();
    one == other || bare(one) == bare(other)
}

/// The places of the metadata of an authorization server (RFC 8414, OpenID Connect Discovery).
fn places(issuer: &str) -> [String; 3] {
    let (origin, path) = split(issuer);
    let path = path.trim_end_matches('/');
    [
        format!("{origin}/.well-known/oauth-authorization-server{path}"),
        format!("{origin}/.well-known/openid-configuration{path}"),
        format!("{origin}{path}/.well-known/openid-configuration"),
    ]
}

/// Whether a text may have half of a surrogate pair, which may be read in several ways.
fn is_unclear(text: &[u8]) -> bool {
    text.windows(3).any(|it| it.eq_ignore_ascii_case(br"\ud"))
}

/// The members of an object, the last ones of each name; null if it is none. One that cannot be represented, as 1e999, is null.
fn object(body: &[u8]) -> Value {
    let body = body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(body);
    let Ok(members) = serde_json::from_slice::<BTreeMap<String, &RawValue>>(body) else { return Value::Null };
    let read = |value: &RawValue| match serde_json::from_str::<Vec<&RawValue>>(value.get()) {
        Ok(items) => items.iter().map(|it| serde_json::from_str::<Value>(it.get()).unwrap_or_default()).collect(),
        Err(_) => serde_json::from_str::<Value>(value.get()).unwrap_or_default(),
    };
    members.into_iter().map(|(name, value)| (name, read(value))).collect()
}

/// Whether this is metadata, though perhaps such that is refused.
fn has_metadata(it: &Exchange) -> bool {
    let body = object(&it.body);
    let has_servers = || body["authorization_servers"].as_array().is_some_and(|it| it.iter().any(Value::is_string));
    let is_read = serde_json::from_slice::<Value>(&it.body).is_ok();
    it.is_success() && is_read && body.is_object() && (!it.is_resource || has_servers())
}

impl OAuthModel {
    pub(crate) fn new(server: &str, options: &OAuthOptions) -> Self {
        let tolerance = &options.tolerance;
        let origin = split(server).0;
        let mut issuers = BTreeSet::from([format!("{origin}/"), origin]);
        issuers.extend(tolerance.issuer.as_deref().map(String::from));
        issuers.extend(options.registered.iter().filter_map(|it| it.issuer.as_deref().map(String::from)));
        let scopes = options.scopes.as_deref().unwrap_or_default().split_ascii_whitespace().map(String::from);
        Self {
            server: server.into(),
            exchanges: BTreeMap::new(),
            challenged: BTreeSet::new(),
            issuers,
            redirecting: BTreeSet::new(),
            asked: BTreeSet::new(),
            absent: BTreeSet::new(),
            is_assumed: false,
            is_modern: false,
            documents: Vec::new(),
            scopes: scopes.collect(),
            is_wanted: false,
            shown: None,
            states: BTreeSet::new(),
            codes: BTreeMap::new(),
            access_tokens: BTreeSet::new(),
            revocable: BTreeSet::new(),
            resources: BTreeSet::from([server.split('#').next().unwrap_or_default().into()]),
            refresh_tokens: BTreeSet::new(),
            exchanged: None,
            spent: BTreeSet::new(),
            outage: None,
            is_unclear: false,
            kinds: BTreeSet::new(),
            lock: Lock::Free,
            now: Time::ZERO,
            loads: BTreeMap::new(),
            saves: BTreeMap::new(),
            generations: BTreeSet::from([0]),
            signs_out: false,
            is_settled: false,
            is_quiet: false,
            options: options.clone(),
        }
    }

    fn names(&mut self, scopes: &Value) {
        let texts = scopes.as_array().into_iter().flatten().chain([scopes]).filter_map(Value::as_str);
        self.scopes.extend(texts.flat_map(str::split_ascii_whitespace).map(String::from));
    }

    /// The server refuses a request.
    pub(crate) fn is_challenged(&mut self, challenges: &[Challenge]) {
        self.is_wanted = true;
        for challenge in challenges {
            self.challenged.extend(challenge.param("resource_metadata").map(String::from));
            self.names(&challenge.param("scope").unwrap_or_default().into());
        }
    }

    /// The server refuses a request, by this header. What follows is certain if it is one challenge in the common form.
    pub(crate) fn is_challenged_by(&mut self, header: &[u8]) {
        let text = String::from_utf8_lossy(header);
        let params = text.strip_prefix("Bearer").map(str::trim_start).unwrap_or("?");
        let pairs = params.split(", ").filter(|it| !it.is_empty()).map(|pair| {
            let (name, value) = pair.split_once("=\"")?;
            let value = value.strip_suffix('"')?;
            let is_plain = |text: &str| {
                !text.contains(['"', '\\', ',', '=']) && text.bytes().all(|it| it.is_ascii_graphic() || it == b' ')
            };
            (is_plain(name) && !name.contains(' ') && is_plain(value)).then(|| (name.into(), value.into()))
        });
        match pairs.collect() {
            Some(params) => self.is_challenged(&[Challenge::new("Bearer", params)]),
            None => (self.is_wanted, self.is_unclear) = (true, true),
        }
    }

    /// The authorization takes an input.
    pub(crate) fn takes(&mut self, input: &OAuthInput<'_>, now: Time) {
        let was_settled = self.is_settled;
        self.passes(now);
        let (now, patience) = (self.now, self.options.timeouts.store);
        match input {
            OAuthInput::Head { exchange, status, headers } => {
                if let Some(it) = self.exchanges.get_mut(exchange) {
                    (it.status, it.location) = (Some(*status), headers.contains_key("location"));
                }
            }
            OAuthInput::Body { exchange, chunk } => {
                if let Some(it) = self.exchanges.get_mut(exchange) {
                    it.body.extend(*chunk);
                }
            }
            OAuthInput::End { exchange } => {
                if let Some(it) = self.exchanges.remove(exchange) {
                    self.answered(&it);
                }
            }
            OAuthInput::Failure { exchange, .. } => {
                if let Some(it) = self.exchanges.remove(exchange) {
                    self.fails(&it);
                }
            }
            OAuthInput::Redirect(text) => self.is_quiet = !self.redirected(text) && was_settled,
            // A lock that an earlier request acquires serves as well.
            OAuthInput::Acquired { id, acquired } => match self.lock {
                Lock::Asked(_) if *acquired => self.lock = Lock::Held,
                Lock::Asked(asked) if asked == *id => self.lock = Lock::Free,
                _ => {}
            },
            OAuthInput::Loaded { id, record } => {
                if let (Some(_), Ok(record)) = (self.loads.remove(id).filter(|at| now < *at + patience), record) {
                    self.loaded(record.unwrap_or_default());
                }
            }
            OAuthInput::Saved { id, saved } => {
                if let Some((_, generation)) = self.saves.remove(id).filter(|(at, _)| now < *at + patience) {
                    self.generations.extend(Some(generation).filter(|_| *saved == SaveOutcome::Stored));
                }
            }
            OAuthInput::Authorize => self.is_wanted = true,
            OAuthInput::SignOut => {
                self.is_signed_out();
                self.access_tokens.clear();
            }
            _ => {}
        }
    }

    /// Time passes.
    pub(crate) fn passes(&mut self, now: Time) {
        self.now = now.max(self.now);
        self.is_settled = false;
    }

    /// What is known of the challenges is given up, too: what they named says nothing unless it is requested again.
    fn is_signed_out(&mut self) {
        self.signs_out = true;
        let challenged: Vec<_> = self.challenged.iter().map(|it| requested(it)).collect();
        self.asked.retain(|it| !challenged.contains(it));
    }

    /// A record of the store is believed.
    fn loaded(&mut self, record: &[u8]) {
        self.generations.insert(stored_generation(record));
        // Another process signed out.
        if record.is_empty() && self.generations.len() > 1 {
            self.is_signed_out();
        }
        self.is_unclear |= is_unclear(record);
        let record = object(record);
        let text = |name: &str| record[name].as_str().map(String::from);
        self.issuers.extend(["issuer", "asked"].into_iter().filter_map(text));
        self.documents.extend(text("revocation_endpoint").map(|it| json!({"revocation_endpoint": it})));
        self.access_tokens.extend(text("access_token"));
        self.resources.extend(text("resource"));
        self.revocable.extend(["access_token", "refresh_token"].into_iter().filter_map(text));
        if let Some(token) = text("refresh_token") {
            self.spent.remove(&token);
            self.refresh_tokens.insert(token);
        }
        self.kinds.extend(text("access_token").map(|_| GrantKind::Stored.as_str().into()));
        ["requested", "granted"].into_iter().for_each(|name| self.names(&record[name]));
    }

    /// A request has no response, or one that says nothing.
    fn fails(&mut self, it: &Exchange) {
        self.absent.remove(&requested(&it.url));
        if let Some(token) = param(&it.form, "refresh_token") {
            self.outage = Some((self.now, token.into()));
        }
    }

    /// A response is complete.
    fn answered(&mut self, it: &Exchange) {
        match it.status.map_or(0, |status| status.as_u16()) {
            401 | 403 | 408 | 429 | 500.. => self.fails(it),
            _ if it.is_metadata && !has_metadata(it) => {
                self.absent.insert(requested(&it.url));
                let [first, second, _] = places(&split(&self.server).0);
                let is_absent = |place: &String| self.absent.contains(&requested(place));
                let mut clients = self.options.registered.iter();
                let has_issuer = self.options.tolerance.issuer.is_some() || clients.any(|it| it.issuer.is_some());
                let challenged = self.challenged.iter().filter(|it| self.asked.contains(&requested(it)));
                let is_certain =
                    self.resource_places().iter().chain([&first, &second]).chain(challenged).all(is_absent);
                self.is_assumed |= is_certain && !has_issuer && !self.is_modern;
            }
            _ => {}
        }
        if it.status.is_some_and(|it| it.is_redirection()) && it.location && it.is_metadata {
            self.redirecting.extend(origin(&it.url));
        }
        self.is_unclear |= is_unclear(&it.body);
        let body = object(&it.body);
        if it.is_metadata {
            if it.is_success() {
                self.described(it, &body);
            }
            return;
        }
        let Some(kind) = param(&it.form, "grant_type") else {
            // A client is registered, perhaps for other scopes.
            return self.names(&body["scope"]);
        };
        let form = if body.is_object() { Params::new() } else { params(&String::from_utf8_lossy(&it.body)) };
        let said = |name: &str| body[name].as_str().or_else(|| param(&form, name)).map(String::from);
        let sent = param(&it.form, "refresh_token").map(String::from);
        if said("error").is_some_and(|error| error == "invalid_grant") {
            self.spent.extend(sent);
        } else if it.is_success()
            && let Some(token) = said("access_token")
        {
            self.exchanged = sent.filter(|sent| said("refresh_token").is_some_and(|next| next != *sent));
            self.access_tokens.insert(token);
            self.revocable.extend(["access_token", "refresh_token"].into_iter().filter_map(said));
            // It may issue one again.
            if let Some(next) = said("refresh_token") {
                self.spent.remove(&next);
                self.refresh_tokens.insert(next);
            }
            self.names(&said("scope").unwrap_or_default().into());
            self.kinds.insert(kind.into());
        }
        if said("error").is_some_and(|error| error == "use_dpop_nonce")
            && let Some(code) = param(&it.form, "code").and_then(|code| self.codes.get_mut(code))
        {
            code.sent = false;
        }
    }

    /// Metadata comes, of the resource or of an authorization server.
    fn described(&mut self, it: &Exchange, body: &Value) {
        let is_here = body["resource"].as_str().is_none_or(|it| origin(it) == origin(&self.server));
        if it.is_resource && is_here {
            self.resources.extend(body["resource"].as_str().map(|it| it.split('#').next().unwrap_or_default().into()));
            self.names(&body["scopes_supported"]);
        } else if self.options.offline_access {
            let scopes = body["scopes_supported"].as_array();
            self.scopes.extend(Some(OFFLINE.into()).filter(|_| scopes.is_some_and(|it| it.contains(&OFFLINE.into()))));
        }
        let servers = body["authorization_servers"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let servers = servers.filter(|_| it.is_resource && is_here);
        self.issuers.extend(servers.map(|it| it.split('#').next().unwrap_or_default().into()));
        let tolerance = &self.options.tolerance;
        let said = body["issuer"].as_str();
        let issuer = it.asks.iter().find_map(|asked| {
            let is_trusted =
                |said: &str| tolerance.trusted_issuers.iter().any(|(from, to)| **from == **asked && **to == *said);
            let said = said.or(Some(&**asked).filter(|_| tolerance.missing_issuer));
            said.filter(|said| is_but_for_slash(asked, said) || is_trusted(said)).map(String::from)
        });
        let methods = body["code_challenge_methods_supported"].as_array();
        let is_safe = self.options.flow != Flow::User || methods.is_some_and(|it| it.contains(&"S256".into()));
        if let Some(issuer) = issuer.filter(|_| is_safe) {
            let mut document = body.clone();
            document["issuer"] = issuer.into();
            self.documents.push(document);
        }
    }

    /// The user's browser comes back. Returns whether this belongs to the URL that is shown.
    fn redirected(&mut self, text: &str) -> bool {
        let query = text.trim().split('#').next().unwrap_or_default();
        let query = params(query.split_once('?').map_or(query, |(_, query)| query));
        let state = param(&query, "state");
        let Some(shown) = self.shown.clone().filter(|shown| state == param(&shown.query, "state")) else {
            return false;
        };
        if let Some(code) = param(&query, "code") {
            let iss = param(&query, "iss").map(String::from);
            self.codes.insert(code.into(), Code { shown, iss, sent: false });
        }
        true
    }

    /// The authorization says what to do.
    pub(crate) fn acts(&mut self, action: &OAuthAction) {
        assert!(!self.is_quiet, "an input without a meaning leads to {action:?}");
        match action {
            OAuthAction::Request(request) => self.requests(request),
            OAuthAction::Drop(exchange) => drop(self.exchanges.remove(exchange)),
            OAuthAction::Browse(url) => self.shows(url),
            OAuthAction::EndBrowse => self.shown = None,
            OAuthAction::Store(action) => self.stores(action),
            OAuthAction::Event(event) => self.reports(event),
            _ => {}
        }
    }

    fn requests(&mut self, request: &OAuthRequest) {
        let OAuthRequest { exchange, request, .. } = request;
        let url = request.uri().to_string();
        let is_private = self.options.private_network && request.method() == Method::GET;
        assert!(is_protected(&url) || is_private && origin(&url) == origin(&self.server), "{url}");
        assert!(self.is_wanted || self.options.stored, "nobody wanted a token: {url}");
        let form = request.method() != Method::GET && !request.body().starts_with(b"{");
        let mut it = Exchange {
            is_metadata: request.method() == Method::GET,
            is_resource: false,
            asks: Vec::new(),
            form: if form { params(std::str::from_utf8(request.body()).expect("a form")) } else { Params::new() },
            status: None,
            location: false,
            body: Vec::new(),
            url,
        };
        if it.is_metadata {
            assert!(request.body().is_empty() && !request.headers().contains_key("authorization"), "{}", it.url);
            self.requests_metadata(&mut it);
        } else if form {
            self.requests_by_form(&it.url, &it.form, request.headers());
        } else {
            self.requests_registration(&it.url, &object(request.body()));
        }
        let is_other = |other: &Exchange| other.is_attempt() == it.is_attempt();
        assert!(!self.exchanges.values().any(is_other), "two requests at once: {}", it.url);
        self.exchanges.insert(*exchange, it);
    }

    /// The well-known places of the metadata of the resource (RFC 9728).
    fn resource_places(&self) -> [String; 2] {
        let (server, path) = split(&self.server);
        let root = format!("{server}/.well-known/oauth-protected-resource");
        [format!("{root}{}", path.trim_end_matches('/')), root]
    }

    /// Metadata is requested.
    fn requests_metadata(&mut self, it: &mut Exchange) {
        if self.is_unclear {
            return;
        }
        let [of_path, of_origin] = self.resource_places();
        let url = requested(&it.url);
        let is = |place: &str| url == requested(place);
        it.asks = self.issuers.iter().filter(|issuer| places(issuer).iter().any(|it| is(it))).cloned().collect();
        let is_challenged = self.challenged.iter().any(|it| is(it));
        let is_resource = is(&of_path) || is(&of_origin) || is_challenged;
        let is_redirected = origin(&it.url).is_some_and(|origin| self.redirecting.contains(&origin));
        assert!(is_resource || !it.asks.is_empty() || is_redirected, "nobody named {}", it.url);
        let was_asked = |place: &str| self.asked.contains(&requested(place));
        if !is_challenged && !is_redirected {
            assert!(
                !is(&of_origin) || of_path == of_origin || was_asked(&of_path),
                "{} before the place of its path",
                it.url
            );
            let is_in_order = |issuer: &String| {
                let [first, second, third] = places(issuer);
                (!is(&second) || was_asked(&first)) && (!is(&third) || third == second || was_asked(&second))
            };
            assert!(is_resource || it.asks.iter().any(is_in_order), "{} before the place of RFC 8414", it.url);
        }
        self.asked.insert(url);
        it.is_resource = is_resource || is_redirected;
        if is_redirected {
            it.asks = self.issuers.iter().cloned().collect();
        }
    }

    /// Whether this is an endpoint of one of these authorization servers, or of 2025-03-26, if there is none.
    fn is_endpoint(&self, url: &str, documents: &[Value], name: &str, convention: &str) -> bool {
        let is = |known: &str| requested(known) == requested(url);
        let is_conventional = !convention.is_empty() && is(&format!("{}/{convention}", split(&self.server).0));
        is_conventional && self.is_assumed || documents.iter().any(|it| it[name].as_str().is_some_and(is))
    }

    fn requests_registration(&self, url: &str, client: &Value) {
        if self.is_unclear {
            return;
        }
        let is_endpoint = self.is_endpoint(url, &self.documents, "registration_endpoint", "register");
        assert!(is_endpoint, "no clients register at {url}");
        let is_registered = !self.options.registered.is_empty() || self.options.flow != Flow::User;
        assert!(!is_registered, "the client is registered already");
        assert_eq!(client["redirect_uris"], json!([self.options.redirect_uri]));
        let has_grants = client["grant_types"].as_array().is_some_and(|it| it.contains(&"refresh_token".into()));
        assert!(has_grants && client["application_type"].is_string(), "{client}");
        self.asks_for(client["scope"].as_str());
    }

    /// Only scopes that someone named are requested.
    fn asks_for(&self, scopes: Option<&str>) {
        let scopes = scopes.unwrap_or_default().split_ascii_whitespace();
        let unnamed: Vec<_> = scopes.filter(|it| !self.scopes.contains(*it)).collect();
        assert!(unnamed.is_empty(), "nobody named the scopes {unnamed:?}");
    }

    /// A token is for the server, under the name that it was given, or that its metadata or the record has.
    fn asks_about(&self, resource: Option<&str>) {
        assert_eq!(resource.is_none(), self.options.tolerance.omit_resource, "{resource:?}");
        assert!(resource.is_none_or(|it| self.resources.contains(it)), "another resource: {resource:?}");
    }

    fn requests_by_form(&mut self, url: &str, form: &Params, headers: &HeaderMap) {
        if self.is_unclear {
            return;
        }
        let Some(kind) = param(form, "grant_type") else {
            let is_endpoint = self.is_endpoint(url, &self.documents, "revocation_endpoint", "");
            assert!(is_endpoint, "no tokens are revoked at {url}");
            let token = param(form, "token").expect("a token that is revoked");
            return assert!(self.revocable.contains(token), "not its own token");
        };
        if let (Flow::Enterprise(provider), true) = (&self.options.flow, kind.ends_with(":token-exchange")) {
            return assert!(*provider.token_endpoint == *url, "an assertion goes to {url}");
        }
        assert!(self.is_endpoint(url, &self.documents, "token_endpoint", "token"), "no tokens are issued at {url}");
        self.asks_for(param(form, "scope"));
        self.asks_about(param(form, "resource"));
        self.exchanged = None;
        let is_named = headers.contains_key("authorization") || param(form, "client_id").is_some();
        assert!(is_named || self.options.flow != Flow::User, "of which client is {kind}?");
        match kind {
            "authorization_code" => self.sends_code(url, form),
            "refresh_token" => {
                let token = param(form, "refresh_token").expect("a refresh token");
                assert!(self.refresh_tokens.contains(token), "a refresh token that nobody issued");
                assert!(!self.spent.contains(token), "a refresh token is used twice");
                let is_out = self.outage.as_ref().is_some_and(|(at, out)| *at == self.now && out == token);
                assert!(!is_out, "a refresh is tried again at once");
                assert!(!self.options.stored || self.lock == Lock::Held, "a refresh without the lock");
            }
            "client_credentials" => assert_eq!(self.options.flow, Flow::ClientCredentials),
            "urn:ietf:params:oauth:grant-type:jwt-bearer" => assert_ne!(self.options.flow, Flow::User),
            _ => panic!("another grant: {kind}"),
        }
    }

    fn sends_code(&mut self, url: &str, form: &Params) {
        let code = param(form, "code").and_then(|code| self.codes.get_mut(code)).expect("a code of the user's");
        assert!(!std::mem::replace(&mut code.sent, true), "a code is sent twice");
        let Code { shown: Shown { query, documents }, iss, .. } = code.clone();
        assert_eq!(param(form, "redirect_uri"), param(&query, "redirect_uri"));
        assert_eq!(param(form, "resource"), param(&query, "resource"));
        let digest = Sha256::digest(param(form, "code_verifier").expect("a verifier"));
        assert_eq!(Some(&*URL_SAFE_NO_PAD.encode(digest)), param(&query, "code_challenge"), "another verifier");
        let may_say = |it: &Value| match &iss {
            Some(iss) => it["issuer"] == **iss,
            None => it["authorization_response_iss_parameter_supported"] != true,
        };
        assert!(documents.is_empty() || documents.iter().any(may_say), "a code of another issuer: {iss:?}");
        assert!(iss.is_some() || !self.options.tolerance.require_iss, "a code of an unnamed issuer");
        assert!(self.is_endpoint(url, &documents, "token_endpoint", "token"), "a code goes to {url}");
    }

    /// A URL is shown to the user.
    fn shows(&mut self, url: &AuthorizationUrl) {
        assert!(self.is_wanted && self.options.may_ask_user && self.options.flow == Flow::User, "nobody is asked");
        assert!(self.shown.is_none(), "two URLs at once");
        assert!(is_protected(url.as_str()) && url.as_str().len() <= 8 << 10, "{url:?}");
        let (endpoint, query) = url.as_str().split_once('?').expect("a query");
        let is_it = |known: &str| {
            let known = known.split(['?', '#']).next().unwrap_or_default();
            decode(known).eq_ignore_ascii_case(&decode(endpoint))
        };
        let documents = self.documents.iter().filter(|it| it["authorization_endpoint"].as_str().is_some_and(is_it));
        let documents: Vec<_> = documents.cloned().collect();
        let is_conventional = self.is_assumed && is_it(&format!("{}/authorize", split(&self.server).0));
        assert!(is_conventional || !documents.is_empty() || self.is_unclear, "nobody authorizes at {endpoint}");
        let query = params(query);
        let is = |name, value| param(&query, name) == Some(value);
        assert!(is("response_type", "code") && is("code_challenge_method", "S256"), "{query:?}");
        assert_eq!(param(&query, "code_challenge").map(str::len), Some(43));
        assert!(param(&query, "client_id").is_some() && is("redirect_uri", url.redirect_uri()), "{query:?}");
        let state = param(&query, "state").expect("a state");
        assert!(state.len() >= 22 && self.states.insert(state.into()), "a state that is guessed: {query:?}");
        if !self.is_unclear {
            self.asks_about(param(&query, "resource"));
            self.asks_for(param(&query, "scope"));
        }
        self.shown = Some(Shown { query, documents });
    }

    fn stores(&mut self, action: &StoreAction) {
        assert!(self.options.stored, "there is no store");
        match action {
            StoreAction::Acquire(id) => {
                assert!(self.lock != Lock::Held, "the lock is taken twice");
                self.lock = Lock::Asked(*id);
            }
            StoreAction::Load(id) => _ = self.loads.insert(*id, self.now),
            StoreAction::Save { id, record, replaces } => {
                assert!(self.generations.contains(replaces), "a record that is not known is replaced");
                let generation = stored_generation(record.expose());
                assert!(generation >= *replaces && object(record.expose()).is_object(), "no record, or an old one");
                self.saves.insert(*id, (self.now, generation));
            }
            StoreAction::Remove => {
                assert!(std::mem::take(&mut self.signs_out), "a record is removed, and nobody signed out");
            }
            StoreAction::Release => self.lock = Lock::Free,
            _ => {}
        }
    }

    fn reports(&mut self, event: &OAuthEvent) {
        if let OAuthEvent::Authorized(grant) = event {
            let kind = grant.kind.as_str();
            assert!(self.kinds.contains(kind) || self.is_unclear, "no token was obtained by {kind}");
            // What is granted is renewed.
            self.is_wanted = true;
            self.spent.extend(self.exchanged.take().filter(|_| grant.kind == GrantKind::RefreshToken));
        }
    }

    /// All actions were polled.
    pub(crate) fn settles(&mut self, deadline: Option<Time>) {
        (self.is_settled, self.is_quiet) = (true, false);
        let is_busy = !self.exchanges.is_empty() || self.shown.is_some() || self.lock != Lock::Free;
        assert!(!is_busy || deadline.is_some(), "nothing ends what is in progress");
    }

    /// A request to the MCP server has this header.
    pub(crate) fn presents(&self, header: &HeaderValue) {
        let token = header.to_str().expect("a text").split_once(' ').map(|(_, token)| token);
        let is_known = token.is_some_and(|token| self.access_tokens.contains(token));
        assert!(is_known || self.is_unclear, "a token that nobody issued");
    }
}

/// An authorization and its model, which sees each input and action.
#[derive(Clone)]
pub(crate) struct Watched {
    inner: Authorization,
    model: OAuthModel,
    server: Uri,
}

impl std::ops::Deref for Watched {
    type Target = Authorization;

    fn deref(&self) -> &Authorization {
        &self.inner
    }
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}

/// The URL of a server as a resource is named: without a name and a password, and in ASCII.
fn resource_of(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let begin = rest[..end].rfind('@').map_or(0, |at| at + 1);
    let encode = |byte: u8| if byte.is_ascii() { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    format!("{scheme}://{}", rest[begin..].bytes().map(encode).collect::<String>())
}

impl Watched {
    pub(crate) fn new(server: &str, options: OAuthOptions, seed: [u8; 32], now: Time, unix: Duration) -> Self {
        let plain = resource_of(server);
        let mut model = OAuthModel::new(&plain, &options);
        model.passes(now);
        let inner = Authorization::new(server, options, seed, now, unix).expect("valid options");
        Self { inner, model, server: plain.parse().expect("a URL") }
    }

    pub(crate) fn poll(&mut self) -> Option<OAuthAction> {
        let action = self.inner.poll();
        match &action {
            Some(action) => self.model.acts(action),
            None => {
                self.inner.header(&self.server).iter().for_each(|(_, header)| self.model.presents(header));
                self.model.settles(self.inner.deadline());
            }
        }
        action
    }

    pub(crate) fn handle_unauthorized(
        &mut self,
        now: Time,
        token: Option<TokenId>,
        forbidden: bool,
        challenges: &[Challenge],
    ) -> Result<(), OAuthError> {
        self.model.passes(now);
        self.model.is_challenged(challenges);
        self.inner.handle_unauthorized(now, token, forbidden, challenges)
    }

    pub(crate) fn handle_head(
        &mut self,
        now: Time,
        exchange: OAuthExchangeId,
        status: StatusCode,
        headers: &HeaderMap,
    ) {
        self.model.takes(&OAuthInput::Head { exchange, status, headers }, now);
        self.inner.handle_head(now, exchange, status, headers);
    }

    pub(crate) fn handle_body(&mut self, now: Time, exchange: OAuthExchangeId, chunk: &[u8]) {
        self.model.takes(&OAuthInput::Body { exchange, chunk }, now);
        self.inner.handle_body(now, exchange, chunk);
    }

    pub(crate) fn handle_end(&mut self, now: Time, exchange: OAuthExchangeId) {
        self.model.takes(&OAuthInput::End { exchange }, now);
        self.inner.handle_end(now, exchange);
    }

    pub(crate) fn handle_failure(&mut self, now: Time, exchange: OAuthExchangeId, why: &str) {
        self.model.takes(&OAuthInput::Failure { exchange, why }, now);
        self.inner.handle_failure(now, exchange, why);
    }

    pub(crate) fn handle_redirect(&mut self, now: Time, redirect: &str) -> bool {
        let is_due = self.inner.deadline().is_some_and(|deadline| deadline <= now);
        self.model.is_settled &= !is_due;
        self.model.takes(&OAuthInput::Redirect(redirect), now);
        let is_ours = self.inner.handle_redirect(now, redirect);
        assert!(!is_ours || !self.model.is_quiet, "a redirect of another attempt is taken");
        is_ours
    }

    pub(crate) fn handle_acquired(&mut self, now: Time, id: StoreId, acquired: bool) {
        self.model.takes(&OAuthInput::Acquired { id, acquired }, now);
        self.inner.handle_acquired(now, id, acquired);
    }

    pub(crate) fn handle_loaded(&mut self, now: Time, id: StoreId, record: Result<Option<&[u8]>, ()>) {
        self.model.takes(&OAuthInput::Loaded { id, record }, now);
        self.inner.handle_loaded(now, id, record);
    }

    pub(crate) fn handle_saved(&mut self, now: Time, id: StoreId, saved: SaveOutcome) {
        self.model.takes(&OAuthInput::Saved { id, saved }, now);
        self.inner.handle_saved(now, id, saved);
    }

    pub(crate) fn authorize(&mut self, now: Time) {
        self.model.takes(&OAuthInput::Authorize, now);
        self.inner.authorize(now);
    }

    pub(crate) fn sign_out(&mut self, now: Time) {
        self.model.takes(&OAuthInput::SignOut, now);
        self.inner.sign_out(now);
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.model.passes(now);
        self.inner.handle_timeout(now);
    }

    pub(crate) fn handle_signature(&mut self, now: Time, id: SignId, signature: &[u8]) {
        self.model.passes(now);
        self.inner.handle_signature(now, id, signature);
    }

    pub(crate) fn handle_accepted(&mut self, now: Time, token: TokenId) {
        self.model.passes(now);
        self.inner.handle_accepted(now, token);
    }

    pub(crate) fn handle_clock(&mut self, now: Time, unix: Duration) {
        self.model.passes(now);
        self.inner.handle_clock(now, unix);
    }

    pub(crate) fn cancel(&mut self, now: Time) {
        self.model.passes(now);
        self.inner.cancel(now);
    }

    pub(crate) fn set_modern(&mut self, is_modern: bool) {
        self.model.is_modern = is_modern;
        // What was assumed of the server before is not used from now on.
        self.model.is_assumed &= !is_modern;
        self.inner.set_modern(is_modern);
    }
}
