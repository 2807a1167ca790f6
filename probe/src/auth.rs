//! `probe auth URL`: what a sign-in at a server would do, up to where a client is registered and a user authorizes. The
//! library decides what is requested and what is accepted, as in a sign-in; this module reports it.

use std::collections::BTreeMap;
use std::future::pending;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::header::WWW_AUTHENTICATE;
use http::{HeaderMap, Method, Request, StatusCode};
use mcp_proto::binding::http::ExchangeId;
use mcp_proto::binding::oauth::{
    Flow, OAuthAction, OAuthError, OAuthEvent, OAuthExchangeId, OAuthInput, OAuthOptions, OAuthRequest, Stage,
};
use mcp_proto::{Cause, Diagnosis, Event, StderrLines};
use mcp_proto_tokio::{
    Host, HttpClient, HttpPiece, HttpTransport, Input, OAuth, Output, Passed, Passing, Purpose, Remote, Session,
    StartError, TakePiece,
};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::args::{OAuthSettings, Settings};
use crate::interrupt::Interrupt;
use crate::oauth::{advice, is_registration};
use crate::peer::Site;
use crate::text::{cut, one_line, print, print_json, status};
use crate::trace::without_query;

/// Bound on the discovery after a run that was refused.
const OFFER: Duration = Duration::from_secs(10);
/// Bytes of a document that are shown.
const DOCUMENT: usize = 1 << 20;
/// Characters of a finding.
const SHOWN: usize = 500;

/// What is checked before a user authorizes, in order.
const CHECKS: [(Stage, &str); 4] = [
    (Stage::ResourceMetadata, "the protected-resource metadata covers this URL and names an authorization server"),
    (Stage::ServerMetadata, "the metadata of the authorization server is its own, and has usable endpoints and PKCE"),
    (Stage::Registration, "there is a client, or a way to register one"),
    (Stage::Authorization, "the user can be sent to the authorization server"),
];

#[derive(Default, Serialize)]
pub(crate) struct DiscoveryReport {
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
    Closed(Cause),
    /// What remains needs a registration, a user, or a secret.
    Passed,
    Failed(OAuthError),
}

const CHALLENGE: &str = "challenge";
const RESOURCE: &str = "resource-metadata";
const SERVER: &str = "server-metadata";
/// Begins what is found of metadata that names authorization servers.
const SERVERS: &str = "authorization servers: ";

/// Walks the discovery of a server.
///
/// # Errors
/// What is wrong with the options.
pub(crate) async fn report(
    settings: &Settings,
    url: String,
    interrupt: &mut Interrupt,
) -> Result<DiscoveryReport, String> {
    let site = Site { url, headers: settings.headers.clone() };
    tokio::select! {
        report = inspect(settings, &site, settings.timeout) => report,
        // There is no report after a signal.
        () = interrupt.next() => Ok(DiscoveryReport::default()),
    }
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
pub(crate) async fn offer(settings: &Settings, site: &Site, how: How, bound: Duration) -> Option<String> {
    let report = inspect(settings, site, bound.min(OFFER)).await.ok()?;
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

/// Goes on until the end, or until this time is up: then the report is not complete, and says so.
async fn inspect(settings: &Settings, site: &Site, bound: Duration) -> Result<DiscoveryReport, String> {
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
    let inspector = Inspector {
        start: Instant::now(),
        in_flight: BTreeMap::new(),
        first: None,
        method: None,
        report: DiscoveryReport::default(),
        has_discovered: false,
        is_ready: false,
        end: None,
        news: Arc::default(),
    };
    let news = Arc::clone(&inspector.news);
    let inspector = Arc::new(Mutex::new(inspector));
    let (shown, tapped) = (Arc::clone(&inspector), Arc::clone(&inspector));
    let client = HttpClient::new().map_err(|error| error.to_string())?;
    let host = Host::new(settings.options())
        .oauth(OAuth::new(options, move |_, _| {
            locked(&shown).ends(End::Passed);
            Ok(())
        }))
        .http(Unregistered { client, inspector: Arc::clone(&inspector) })
        .tap(move |passed| locked(&tapped).pass(&passed));
    let remote = Remote::new(&site.url).map_err(|wrong| wrong.to_string())?.headers(site.headers.clone());
    let session = Session::start(remote, host)
        .map_err(|error| if let StartError::OAuth(wrong) = error { wrong.to_string() } else { error.to_string() })?;
    let walk = async {
        loop {
            news.notified().await;
            let (is_over, is_refused) = {
                let mut inspector = locked(&inspector);
                // It demands no token for its lists; it may for calls.
                let is_ready = std::mem::take(&mut inspector.is_ready);
                (inspector.end.is_some(), is_ready && !inspector.has_discovered)
            };
            if is_over {
                return;
            }
            if is_refused {
                session.handle_oauth(OAuthInput::Authorize);
            }
        }
    };
    // Without an end the report says that it is not complete.
    let _ = timeout(bound, walk).await;
    let report = locked(&inspector).finish(oauth);
    session.close_within(Duration::ZERO).await;
    Ok(report)
}

fn locked(inspector: &Mutex<Inspector>) -> MutexGuard<'_, Inspector> {
    inspector.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The HTTP client of the walk: nothing is registered, and no token requested.
struct Unregistered {
    client: HttpClient,
    inspector: Arc<Mutex<Inspector>>,
}

impl HttpTransport for Unregistered {
    fn run<'a>(
        &'a self,
        request: Request<Vec<u8>>,
        purpose: Purpose,
        mut take: TakePiece<'a>,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        let is_form = matches!(purpose, Purpose::Authorization(_)) && request.method() == Method::POST;
        if !is_form {
            return HttpTransport::run(&self.client, request, purpose, take);
        }
        let answer = locked(&self.inspector).register(&request);
        Box::pin(async move {
            match answer {
                Some(answer) => answer.into_iter().for_each(take.as_mut()),
                None => pending().await,
            }
        })
    }
}

struct Inspector {
    start: Instant,
    in_flight: BTreeMap<OAuthExchangeId, InFlight>,
    /// The first request to the MCP server, which is the first step.
    first: Option<ExchangeId>,
    /// How a client that registers authenticates.
    method: Option<String>,
    report: DiscoveryReport,
    /// An authorization was requested, without or after a refusal.
    has_discovered: bool,
    /// The session became ready.
    is_ready: bool,
    end: Option<End>,
    news: Arc<Notify>,
}

impl Inspector {
    fn ends(&mut self, end: End) {
        self.end.get_or_insert(end);
        self.news.notify_one();
    }

    fn pass(&mut self, passed: &Passed<'_, Event>) {
        match &passed.what {
            _ if self.end.is_some() => {}
            Passing::Input(Input::Http(exchange, piece)) => self.receive(*exchange, piece),
            Passing::Input(Input::OAuth(input)) => self.receive_oauth(input),
            Passing::Output(output) => self.act(output),
            Passing::Input(_) => {}
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "the others are no step")]
    fn act(&mut self, output: &Output<Event>) {
        match output {
            Output::Request(_, it) if self.first.is_none() => {
                self.first = Some(it.exchange);
                self.step(CHALLENGE, &it.request);
            }
            Output::OAuth(_, OAuthAction::Request(it)) if it.request.method() != Method::POST => self.ask(it),
            Output::OAuth(_, OAuthAction::Event(OAuthEvent::Failed(error))) => self.ends(End::Failed(error.clone())),
            Output::Event(Event::Ready) => {
                self.is_ready = true;
                self.news.notify_one();
            }
            Output::Event(Event::Closed { cause }) => self.ends(End::Closed(cause.clone())),
            _ => {}
        }
    }

    /// A document is requested.
    fn ask(&mut self, it: &OAuthRequest) {
        self.has_discovered = true;
        let path = it.request.uri().path();
        let is_server = path.contains("/oauth-authorization-server") || path.contains("/openid-configuration");
        let was_server = self.report.steps.last().is_some_and(|step| step.stage == SERVER);
        let step = self.step(if is_server || was_server { SERVER } else { RESOURCE }, &it.request);
        self.in_flight.insert(it.exchange, InFlight { step, ..InFlight::default() });
    }

    /// Answers a registration as a server does that accepts all of it. Any other request needs a user or a secret.
    fn register(&mut self, request: &Request<Vec<u8>>) -> Option<[HttpPiece; 3]> {
        let client = serde_json::from_slice(request.body()).ok().filter(|_| is_registration(request));
        let Some(Value::Object(mut client)) = client else {
            self.ends(End::Passed);
            return None;
        };
        let method = client.get("token_endpoint_auth_method").and_then(Value::as_str);
        self.method = method.map(str::to_owned);
        for name in ["client_id", "client_secret"] {
            client.insert(name.into(), "unregistered".into());
        }
        Some([
            HttpPiece::Head(StatusCode::CREATED, HeaderMap::new()),
            HttpPiece::Body(Value::from(client).to_string().into_bytes()),
            HttpPiece::End,
        ])
    }

    fn step(&mut self, stage: &'static str, request: &http::Request<Vec<u8>>) -> usize {
        let request = format!("{} {}", request.method(), without_query(request.uri()));
        self.report.steps.push(Step { stage, request, status: None, finding: "no response".into() });
        self.report.steps.len().saturating_sub(1)
    }

    fn receive(&mut self, exchange: ExchangeId, piece: &HttpPiece) {
        let (status, finding) = match piece {
            HttpPiece::Head(status, headers) => (Some(status.as_u16()), challenge(*status, headers)),
            HttpPiece::Failure(_, why) => (None, self::shown(why)),
            HttpPiece::Body(_) | HttpPiece::End => return,
        };
        if let Some(step) = self.report.steps.first_mut().filter(|_| self.first == Some(exchange)) {
            step.status = status.or(step.status);
            step.finding = finding;
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "the others are no responses")]
    fn receive_oauth(&mut self, input: &OAuthInput<'_>) {
        match *input {
            OAuthInput::Head { exchange, status, .. } => {
                if let Some(asked) = self.in_flight.get_mut(&exchange) {
                    asked.status = Some(status);
                }
            }
            OAuthInput::Body { exchange, chunk } => {
                if let Some(asked) = self.in_flight.get_mut(&exchange) {
                    let room = DOCUMENT.saturating_sub(asked.body.len());
                    asked.body.extend(chunk.iter().take(room));
                }
            }
            OAuthInput::End { exchange } => self.answered(exchange),
            OAuthInput::Failure { exchange, why } => {
                let asked = self.in_flight.get(&exchange);
                if let Some(step) = asked.and_then(|asked| self.report.steps.get_mut(asked.step)) {
                    step.finding = format!("it cannot be read: {}", shown(why));
                }
            }
            _ => {}
        }
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

    /// What was found.
    fn finish(&mut self, oauth: Option<&OAuthSettings>) -> DiscoveryReport {
        let mut report = std::mem::take(&mut self.report);
        let (end, method, start) = (self.end.take(), self.method.take(), self.start);
        let ways = report.registration.join(", ");
        report.verdict = match (end, report.issuer.clone()) {
            (None, _) => format!("not done after {:.1?}", start.elapsed()),
            (Some(End::Closed(Cause::Failed(failure))), _) => {
                Diagnosis::of_server(failure, "the server", &StderrLines::default()).to_string()
            }
            (Some(End::Closed(_)), _) => "the server ended the session".into(),
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
                let advice = advice(error.stage, oauth);
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
    /// Prints it, as JSON or for people.
    pub(crate) fn print(&self, settings: &Settings) -> ExitCode {
        let printed = if settings.json { print_json(self) } else { print(&self.text()) };
        status(printed, self.is_good)
    }

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
