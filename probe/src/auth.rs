//! `probe auth URL`: what a sign-in at a server would do, up to where a client is registered and a user authorizes. The
//! library decides what is requested and what is accepted, as in a sign-in; this module reports it.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use http::header::WWW_AUTHENTICATE;
use http::{HeaderMap, Method, StatusCode};
use mcp_proto::binding::http::{ExchangeId, HttpAction};
use mcp_proto::binding::oauth::{
    Authorization, Flow, OAuthAction, OAuthError, OAuthEvent, OAuthExchangeId, OAuthInput, OAuthOptions, OAuthRequest,
    Stage,
};
use mcp_proto::journal::Input;
use mcp_proto::{Client, Event, Http, Time};
use mcp_proto_tokio::{HttpPiece, unix_time};
use serde::Serialize;
use serde_json::Value;

use crate::args::{OAuthSettings, Settings};
use crate::drive::Clock;
use crate::engine::seed;
use crate::oauth::is_registration;
use crate::peer::{Came, FromPeer, Io, Peer, Place, Site};
use crate::run::Interrupt;
use crate::text::{cut, one_line};
use crate::trace::{Trace, without_query};
use crate::web::Id;
use crate::{run, text_report};

/// Bound on the discovery after a run that was refused.
const OFFER: Duration = Duration::from_secs(10);
/// Bytes of a document that are shown.
const DOCUMENT: usize = 1 << 20;
/// Characters of a finding.
const SHOWN: usize = 500;
/// How often it is checked whether a signal came.
const TICK: Duration = Duration::from_millis(250);

/// What is checked before a user authorizes, in order.
const CHECKS: [(Stage, &str); 4] = [
    (Stage::ResourceMetadata, "the protected-resource metadata covers this URL and names an authorization server"),
    (Stage::ServerMetadata, "the metadata of the authorization server is its own, and has usable endpoints and PKCE"),
    (Stage::Registration, "there is a client, or a way to register one"),
    (Stage::Authorization, "the user can be sent to the authorization server"),
];

#[derive(Default, Serialize)]
struct DiscoveryReport {
    steps: Vec<Step>,
    registration: Vec<&'static str>,
    verdict: String,
    #[serde(skip)]
    issuer: Option<String>,
    #[serde(skip)]
    is_good: bool,
    /// What a sign-in checks, and what came of it.
    #[serde(skip)]
    checks: Vec<String>,
}

#[derive(Serialize)]
struct Step {
    stage: &'static str,
    request: String,
    status: Option<u16>,
    finding: String,
}

/// A request in flight: the index of its step, and its response so far.
#[derive(Default)]
struct InFlight {
    step: usize,
    status: Option<StatusCode>,
    body: Vec<u8>,
}

/// How a discovery ended.
enum End {
    /// The session ended before.
    Closed,
    /// What remains needs a registration, a user, or a secret.
    Passed,
    Failed(OAuthError),
}

const CHALLENGE: &str = "challenge";
const RESOURCE: &str = "resource-metadata";
const SERVER: &str = "server-metadata";
/// Begins what is found of metadata that names authorization servers.
const SERVERS: &str = "authorization servers: ";

pub(crate) fn report(settings: &Settings, url: String, interrupt: &Interrupt) -> ExitCode {
    let site = Site { url, headers: settings.headers.clone() };
    let report = match inspect(settings, &site, settings.timeout, interrupt) {
        Ok(report) => report,
        Err(wrong) => return crate::text::misused(&wrong),
    };
    if let Some(status) = interrupt.status() {
        return status.into();
    }
    let printed =
        if settings.json { crate::text::print_json(&report) } else { crate::text::print(report.text().as_bytes()) };
    crate::text::status(printed, report.is_good)
}

/// How a server's token is obtained.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// By an option.
    Option,
    /// By the server's entry in a file.
    Entry,
    /// It was tried: the message has the reason of the failure already.
    Tried,
}

/// What the message of a failure says of a server that demands a token: whether it offers OAuth, and where.
pub(crate) fn offer(
    settings: &Settings,
    site: &Site,
    how: How,
    bound: Duration,
    interrupt: &Interrupt,
) -> Option<String> {
    let report = inspect(settings, site, bound.min(OFFER), interrupt).ok()?;
    let Some(issuer) = report.issuer.as_ref().filter(|_| report.is_good) else {
        return (how != How::Tried).then(|| format!(". OAuth: {}", report.verdict));
    };
    let then = match how {
        How::Tried => format!("; registration: {}", report.registration.join(", ")),
        How::Entry => ": `auth: oauth` in its entry obtains a token".into(),
        How::Option if settings.oauth.as_ref().is_some_and(OAuthSettings::lacks_issuer) => {
            format!(
                ": a client secret goes only to the server that it belongs to, so give --issuer {issuer} if it does"
            )
        }
        How::Option => ": --oauth obtains a token".into(),
    };
    Some(format!(". The server offers OAuth at `{issuer}`{then}"))
}

fn inspect(
    settings: &Settings,
    site: &Site,
    bound: Duration,
    interrupt: &Interrupt,
) -> Result<DiscoveryReport, String> {
    let redirect_uri = "http://127.0.0.1/callback";
    let oauth = settings.oauth.as_ref();
    let mut options = match oauth {
        Some(oauth) => oauth.options(redirect_uri),
        None => OAuthOptions::new("mcp-probe", redirect_uri),
    };
    options.stored = false;
    // No secret is sent, and none needs its issuer here.
    options.registered.iter_mut().for_each(|client| client.secret = None);
    if oauth.is_some_and(OAuthSettings::lacks_issuer) {
        options.flow = Flow::User;
    }
    let authorization = Authorization::new(&site.url, options, run::entropy()?, Time::ZERO, unix_time());
    let authorization = authorization.map_err(|wrong| wrong.to_string())?;
    let http = Http::new(&site.url).map_err(|wrong| wrong.to_string())?.with_oauth(authorization);
    let options = run::options(settings);
    let trace = Trace::new(options.limits.message, false);
    let mut peer = Peer::new(String::new(), Place::Web(site.clone()), trace);
    let mut io = Io::new()?;
    peer.prepare(|| io.client())?;
    let mut inspector = Inspector {
        clock: Clock(Instant::now()),
        session: Client::new(http, options, seed()),
        peer,
        in_flight: BTreeMap::new(),
        first: None,
        method: None,
        report: DiscoveryReport::default(),
        has_discovered: false,
        end: None,
    };
    inspector.run(&mut io, bound, interrupt);
    Ok(inspector.finish(oauth))
}

struct Inspector {
    clock: Clock,
    session: Client<Http>,
    peer: Peer,
    in_flight: BTreeMap<OAuthExchangeId, InFlight>,
    /// The first request to the MCP server, which is the first step.
    first: Option<ExchangeId>,
    /// How a client that registers authenticates.
    method: Option<String>,
    report: DiscoveryReport,
    /// An authorization was requested, without or after a refusal.
    has_discovered: bool,
    end: Option<End>,
}

impl Inspector {
    /// Goes on until the end, or until this time is up: then the report is not complete, and says so.
    fn run(&mut self, io: &mut Io, bound: Duration, interrupt: &Interrupt) {
        // A new session can be opened.
        let _ = self.session.open(self.clock.now());
        while !interrupt.came() && self.clock.0.elapsed() < bound {
            while let Some(action) = self.session.poll() {
                self.act(io, action);
            }
            if self.end.is_some() || self.session.is_closed() {
                return;
            }
            let tick = TICK.min(bound.saturating_sub(self.clock.0.elapsed()));
            let tick = self.session.deadline().map_or(tick, |at| at.since(self.clock.now()).min(tick));
            let until = Instant::now().checked_add(tick).unwrap_or_else(Instant::now);
            match io.wait(std::slice::from_mut(&mut self.peer), None, until) {
                Some(Came::Server(_, FromPeer::Input(input))) => self.receive(input),
                Some(Came::Server(_, FromPeer::OAuth(exchange, piece))) => self.receive_oauth(exchange, &piece),
                Some(Came::Access(_)) | None => self.session.handle_timeout(self.clock.now()),
            }
        }
    }

    fn act(&mut self, io: &Io, action: HttpAction) {
        let _context = io.enter();
        match action {
            HttpAction::Request(it) => {
                if self.first.is_none() {
                    self.first = Some(it.exchange);
                    self.step(CHALLENGE, &it.request);
                }
                self.peer.request(self.clock.now(), it);
            }
            HttpAction::Drop(exchange) => self.peer.drop(Id::Server(exchange)),
            HttpAction::OAuth(OAuthAction::Request(it)) if it.request.method() == Method::POST => self.register(&it),
            HttpAction::OAuth(OAuthAction::Request(it)) => {
                self.has_discovered = true;
                let path = it.request.uri().path();
                let is_server = path.contains("/oauth-authorization-server") || path.contains("/openid-configuration");
                let was_server = self.report.steps.last().is_some_and(|step| step.stage == SERVER);
                let step = self.step(if is_server || was_server { SERVER } else { RESOURCE }, &it.request);
                self.in_flight.insert(it.exchange, InFlight { step, ..InFlight::default() });
                self.peer.request_oauth(it);
            }
            HttpAction::OAuth(OAuthAction::Drop(exchange)) => self.peer.drop(Id::OAuth(exchange)),
            HttpAction::OAuth(OAuthAction::Browse(_)) => self.end = Some(End::Passed),
            HttpAction::OAuth(OAuthAction::Event(OAuthEvent::Failed(error))) => self.end = Some(End::Failed(error)),
            // It demands no token for its lists; it may for calls.
            HttpAction::Event(Event::Ready) if !self.has_discovered => {
                let now = self.clock.now();
                self.session.handle_oauth(now, OAuthInput::Authorize);
            }
            HttpAction::Event(Event::Closed { .. }) => self.end = Some(End::Closed),
            HttpAction::Event(_) | HttpAction::OAuth(_) | _ => {}
        }
    }

    /// Answers a registration as a server does that accepts all of it. Any other request needs a user or a secret.
    fn register(&mut self, it: &OAuthRequest) {
        let client = serde_json::from_slice(it.request.body()).ok().filter(|_| is_registration(it));
        let Some(Value::Object(mut client)) = client else { return self.end = Some(End::Passed) };
        let method = client.get("token_endpoint_auth_method").and_then(Value::as_str);
        self.method = method.map(str::to_owned);
        for name in ["client_id", "client_secret"] {
            client.insert(name.into(), "unregistered".into());
        }
        let (now, exchange) = (self.clock.now(), it.exchange);
        let pieces = [
            HttpPiece::Head(StatusCode::CREATED, HeaderMap::new()),
            HttpPiece::Body(Value::from(client).to_string().into_bytes()),
            HttpPiece::End,
        ];
        for piece in &pieces {
            self.session.handle_oauth(now, piece.oauth_input(exchange));
        }
    }

    fn step(&mut self, stage: &'static str, request: &http::Request<Vec<u8>>) -> usize {
        let request = format!("{} {}", request.method(), without_query(request.uri()));
        self.report.steps.push(Step { stage, request, status: None, finding: "no response".into() });
        self.report.steps.len().saturating_sub(1)
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "the rest of a response is not shown")]
    fn receive(&mut self, input: Input) {
        let shown = match &input {
            Input::Head { exchange, status, headers } if self.first == Some(*exchange) => {
                Some((Some(status.as_u16()), challenge(*status, headers)))
            }
            Input::Failure { exchange, why, .. } if self.first == Some(*exchange) => Some((None, self::shown(why))),
            _ => None,
        };
        if let (Some((status, finding)), Some(step)) = (shown, self.report.steps.first_mut()) {
            step.status = status.or(step.status);
            step.finding = finding;
        }
        // An input of a transport is no command, which could be refused.
        let _ = self.session.apply(self.clock.now(), input);
    }

    fn receive_oauth(&mut self, exchange: OAuthExchangeId, piece: &HttpPiece) {
        if let Some(asked) = self.in_flight.get_mut(&exchange) {
            match piece {
                HttpPiece::Head(status, _) => asked.status = Some(*status),
                HttpPiece::Body(chunk) => {
                    let room = DOCUMENT.saturating_sub(asked.body.len());
                    asked.body.extend(chunk.iter().take(room));
                }
                HttpPiece::End => self.answered(exchange),
                HttpPiece::Failure(_, why) => {
                    if let Some(step) = self.report.steps.get_mut(asked.step) {
                        step.finding = format!("it cannot be read: {}", shown(why));
                    }
                }
            }
        }
        let now = self.clock.now();
        self.session.handle_oauth(now, piece.oauth_input(exchange));
    }

    /// A document came.
    fn answered(&mut self, exchange: OAuthExchangeId) {
        let Some(asked) = self.in_flight.remove(&exchange) else { return };
        let Some(step) = self.report.steps.get_mut(asked.step) else { return };
        step.status = asked.status.map(|status| status.as_u16());
        let document: Option<Value> = serde_json::from_slice(&asked.body).ok().filter(Value::is_object);
        step.finding = match document.filter(|_| asked.status == Some(StatusCode::OK)) {
            None if asked.status.is_some_and(|status| status.is_redirection()) => "a redirect".into(),
            None => "there is no metadata here".into(),
            Some(document) if step.stage == SERVER => {
                self.report.issuer = document.get("issuer").and_then(Value::as_str).map(shown);
                self.report.registration = ways(&document);
                server(&document)
            }
            Some(document) => resource(&document),
        };
    }

    fn finish(self, oauth: Option<&OAuthSettings>) -> DiscoveryReport {
        let Self { mut report, end, clock, method, .. } = self;
        let ways = report.registration.join(", ");
        report.verdict = match (end, report.issuer.clone()) {
            (None, _) => format!("not done after {:.1?}", clock.0.elapsed()),
            (Some(End::Closed), _) if report.steps.iter().all(|step| step.stage == CHALLENGE) => {
                "the server cannot be reached, or is not an MCP server".into()
            }
            (Some(End::Closed), _) => "the server ended the session".into(),
            (Some(End::Passed), None) => {
                "the server has no metadata. Servers of 2025-03-26 may have `/authorize`, `/token` and `/register` all \
                 the same; otherwise its operator has to add protected-resource metadata"
                    .into()
            }
            (Some(End::Passed), Some(issuer)) => {
                report.is_good = true;
                report.check(None, method.as_deref());
                format!("a token can be obtained from `{issuer}`; registration: {ways}")
            }
            (Some(End::Failed(error)), issuer) => {
                report.check(Some(error.stage), method.as_deref());
                let advice = text_report::authorization(error.stage, oauth);
                // A client that is not known here may do.
                let is_unknown = error.stage == Stage::Registration && oauth.is_none_or(|oauth| oauth.client.is_none());
                if let Some(issuer) = issuer.filter(|_| is_unknown) {
                    report.is_good = true;
                    format!(
                        "a token can be obtained from `{issuer}` by a client that it knows; registration: {ways}. {advice}"
                    )
                } else {
                    if let Some(step) = report.steps.last_mut() {
                        step.finding = format!("{}. {}", step.finding, one_line(&error.reason));
                    }
                    report.registration.clear();
                    format!("{}. {advice}", one_line(&error.to_string()))
                }
            }
        };
        report
    }
}

impl DiscoveryReport {
    /// Lists what a sign-in checks, and the first that failed. `method`: how a client that registers authenticates.
    fn check(&mut self, failed: Option<Stage>, method: Option<&str>) {
        let at = failed.and_then(|failed| CHECKS.iter().position(|(stage, _)| *stage == failed));
        let named = |step: &Step| step.stage == RESOURCE && step.finding.starts_with(SERVERS);
        for (index, (stage, what)) in CHECKS.iter().enumerate() {
            let (result, detail) = match (at, stage, method) {
                (Some(at), ..) if index == at => ("FAILS", String::new()),
                (Some(at), ..) if index > at => ("-", String::new()),
                (_, Stage::ResourceMetadata, _) if !self.steps.iter().any(named) => {
                    ("-", ": there is none, and the server's own origin is asked, as of 2025-03-26".into())
                }
                (_, Stage::Registration, Some(method)) => {
                    ("ok", format!(": dynamic, authenticates by `{}`", one_line(method)))
                }
                _ => ("ok", String::new()),
            };
            self.checks.push(format!("   {result:<6}{}: {what}{detail}", stage.as_str()));
        }
    }

    /// The report for people.
    fn text(&self) -> String {
        let mut lines = Vec::new();
        for (number, step) in (1_u32..).zip(&self.steps) {
            let status = step.status.map_or_else(|| "no response".into(), |status| format!("HTTP {status}"));
            lines.push(format!("{number}. {}: {}\n   {status}: {}", step.stage, one_line(&step.request), step.finding));
        }
        lines.extend(self.checks.first().map(|_| "What a sign-in checks:".into()));
        lines.extend(self.checks.iter().chain([&self.verdict]).cloned());
        lines.join("\n") + "\n"
    }
}

fn shown(text: &str) -> String {
    cut(&one_line(text), SHOWN)
}

fn challenge(status: StatusCode, headers: &HeaderMap) -> String {
    let challenges: Vec<_> = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|it| it.to_str().ok()).collect();
    match (status, challenges.is_empty()) {
        (StatusCode::UNAUTHORIZED, true) => {
            "it demands a token, without a challenge: its operator should add one".into()
        }
        (StatusCode::UNAUTHORIZED, false) => format!("it demands a token: {}", shown(&challenges.join(", "))),
        _ => "it demands no token here".into(),
    }
}

/// The strings of a member, for people.
fn listed(document: &Value, name: &str) -> Option<String> {
    let strings: Vec<_> = document.get(name)?.as_array()?.iter().filter_map(Value::as_str).collect();
    Some(shown(&strings.join(" ")))
}

/// A string of a document, or that there is none.
fn named(document: &Value, name: &str) -> String {
    document.get(name).and_then(Value::as_str).map_or_else(|| "none".into(), shown)
}

fn scopes(document: &Value) -> String {
    listed(document, "scopes_supported").map(|scopes| format!("; scopes: {scopes}")).unwrap_or_default()
}

fn resource(document: &Value) -> String {
    let servers = listed(document, "authorization_servers").unwrap_or_else(|| "none".into());
    format!("{SERVERS}{servers}; resource: {}{}", named(document, "resource"), scopes(document))
}

fn server(document: &Value) -> String {
    let methods = listed(document, "code_challenge_methods_supported").unwrap_or_else(|| "none".into());
    let (issuer, ways) = (named(document, "issuer"), ways(document).join(", "));
    format!("issuer: {issuer}; PKCE: {methods}; registration: {ways}{}", scopes(document))
}

/// The registrations that would work.
fn ways(document: &Value) -> Vec<&'static str> {
    let mut ways = vec!["pre-registered"];
    if document.get("client_id_metadata_document_supported") == Some(&Value::Bool(true)) {
        ways.push("metadata-document");
    }
    if document.get("registration_endpoint").is_some_and(Value::is_string) {
        ways.push("dynamic");
    }
    ways
}
