//! `probe auth URL`: follows the discovery of a server's authorization, without a browser or a registration. The library
//! decides what is requested and what is accepted; this module reports it.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::process::ExitCode;
use std::task::Poll;
use std::time::{Duration, Instant};

use http::header::WWW_AUTHENTICATE;
use http::{HeaderMap, StatusCode};
use mcp_proto::binding::http::{ExchangeId, HttpAction};
use mcp_proto::binding::oauth::{
    Authorization, OAuthAction, OAuthError, OAuthEvent, OAuthExchangeId, OAuthInput, OAuthOptions, Reach, Stage,
};
use mcp_proto::{Client, Event, Http, Time};
use serde::Serialize;
use serde_json::Value;
use tokio::time::timeout;

use crate::args::{Settings, Target};
use crate::drive::Clock;
use crate::engine::seed;
use crate::oauth::input_of;
use crate::peer::Io;
use crate::run::Interrupt;
use crate::text::{cut, one_line};
use crate::web::without_query;
use crate::web::{Exchanges, Piece};
use crate::{run, text_report};

/// Bound on the discovery after a run that was refused.
const OFFER: Duration = Duration::from_secs(10);
/// Bytes of a document that are shown.
const DOCUMENT: usize = 1 << 20;
/// Characters of a finding.
const SHOWN: usize = 500;
/// How often it is checked whether a signal came.
const TICK: Duration = Duration::from_millis(250);

#[derive(Default, Serialize)]
struct DiscoveryReport {
    steps: Vec<Step>,
    registration: Vec<&'static str>,
    verdict: String,
    #[serde(skip)]
    issuer: Option<String>,
    #[serde(skip)]
    is_good: bool,
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

/// A piece of an exchange.
enum Received {
    Server(ExchangeId, Piece),
    OAuth(OAuthExchangeId, Piece),
}

const CHALLENGE: &str = "challenge";
const RESOURCE: &str = "resource-metadata";
const SERVER: &str = "server-metadata";

pub(crate) fn report(settings: &Settings, target: &Target, interrupt: &Interrupt) -> ExitCode {
    let Target::Http { url, http, .. } = target else { return ExitCode::from(2) };
    let report = match inspect(settings, url, http, settings.timeout, interrupt) {
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

/// What the failure's message says of a server that demands a token: whether it offers OAuth, and where.
pub(crate) fn offer(settings: &Settings, target: &Target, interrupt: &Interrupt) -> Option<String> {
    let Target::Http { url, http, .. } = target else { return None };
    let report = inspect(settings, url, http, OFFER, interrupt).ok()?;
    Some(match &report.issuer {
        Some(issuer) if report.is_good => format!(". The server offers OAuth at `{issuer}`: --oauth obtains a token"),
        Some(_) | None => format!(". OAuth: {}", report.verdict),
    })
}

fn inspect(
    settings: &Settings,
    url: &str,
    http: &Http,
    bound: Duration,
    interrupt: &Interrupt,
) -> Result<DiscoveryReport, String> {
    let mut options = OAuthOptions::new("mcp-probe", "http://127.0.0.1/callback");
    options.may_ask_user = false;
    let authorization = Authorization::new(url, options, run::entropy()?, Time::ZERO, run::unix());
    let authorization = authorization.map_err(|wrong| wrong.to_string())?;
    let session = Client::new(http.clone().with_oauth(authorization), run::options(settings), seed());
    let mut io = Io::new()?;
    let http = io.client()?;
    let mut inspector = Inspector {
        clock: Clock(Instant::now()),
        session,
        own: settings.headers.clone(),
        server: Exchanges::new(http.clone()),
        oauth: Exchanges::new(http),
        in_flight: BTreeMap::new(),
        messages: BTreeMap::new(),
        report: DiscoveryReport::default(),
        has_discovered: false,
        end: None,
    };
    // A report that is not complete says so.
    io.block_on(async { timeout(bound, inspector.run(interrupt)).await.unwrap_or_default() });
    Ok(inspector.finish(bound))
}

struct Inspector {
    clock: Clock,
    session: Client<Http>,
    /// Headers of the requests to the MCP server.
    own: HeaderMap,
    server: Exchanges<ExchangeId>,
    oauth: Exchanges<OAuthExchangeId>,
    in_flight: BTreeMap<OAuthExchangeId, InFlight>,
    /// The step of a request to the MCP server that is shown.
    messages: BTreeMap<ExchangeId, usize>,
    report: DiscoveryReport,
    /// An authorization was requested, without or after a refusal.
    has_discovered: bool,
    end: Option<Result<(), OAuthError>>,
}

impl Inspector {
    async fn run(&mut self, interrupt: &Interrupt) {
        // A new session can be opened.
        let _ = self.session.open(self.clock.now());
        while self.end.is_none() && !interrupt.came() {
            while let Some(action) = self.session.poll() {
                self.act(action);
            }
            if self.end.is_some() || self.session.is_closed() {
                return;
            }
            let wait = self.session.deadline().map_or(TICK, |at| at.since(self.clock.now()).min(TICK));
            let (server, oauth) = (&mut self.server, &mut self.oauth);
            let received = poll_fn(|context| {
                if let Poll::Ready(Some((exchange, piece))) = pin!(server.next()).poll(context) {
                    return Poll::Ready(Received::Server(exchange, piece));
                }
                match pin!(oauth.next()).poll(context) {
                    Poll::Ready(Some((exchange, piece))) => Poll::Ready(Received::OAuth(exchange, piece)),
                    Poll::Ready(None) | Poll::Pending => Poll::Pending,
                }
            });
            match timeout(wait, received).await {
                Ok(Received::Server(exchange, piece)) => self.receive(exchange, piece),
                Ok(Received::OAuth(exchange, piece)) => self.receive_oauth(exchange, &piece),
                Err(_) => self.session.handle_timeout(self.clock.now()),
            }
        }
    }

    fn act(&mut self, action: HttpAction) {
        match action {
            HttpAction::Request(it) => {
                if self.report.steps.is_empty() {
                    let step = self.step(CHALLENGE, &it.request);
                    self.messages.insert(it.exchange, step);
                }
                self.server.start(it.exchange, Reach::Any, it.request, self.own.clone());
            }
            HttpAction::Drop(exchange) => self.server.drop(exchange),
            HttpAction::OAuth(OAuthAction::Request(it)) => {
                self.has_discovered = true;
                let path = it.request.uri().path();
                let is_server = path.contains("/oauth-authorization-server") || path.contains("/openid-configuration");
                let was_server = self.report.steps.last().is_some_and(|step| step.stage == SERVER);
                let step = self.step(if is_server || was_server { SERVER } else { RESOURCE }, &it.request);
                self.in_flight.insert(it.exchange, InFlight { step, ..InFlight::default() });
                self.oauth.start(it.exchange, it.reach, it.request, HeaderMap::new());
            }
            HttpAction::OAuth(OAuthAction::Drop(exchange)) => self.oauth.drop(exchange),
            HttpAction::OAuth(OAuthAction::Event(OAuthEvent::Failed(error))) => self.end = Some(Err(error)),
            // It demands no token for its lists; it may for calls.
            HttpAction::Event(Event::Ready) if !self.has_discovered => {
                let now = self.clock.now();
                self.session.handle_oauth(now, OAuthInput::Authorize);
            }
            HttpAction::Event(Event::Closed { .. }) => self.end = Some(Ok(())),
            HttpAction::Event(_) | HttpAction::OAuth(_) | _ => {}
        }
    }

    fn step(&mut self, stage: &'static str, request: &http::Request<Vec<u8>>) -> usize {
        let request = format!("{} {}", request.method(), without_query(request.uri()));
        self.report.steps.push(Step { stage, request, status: None, finding: "no response".into() });
        self.report.steps.len().saturating_sub(1)
    }

    fn receive(&mut self, exchange: ExchangeId, piece: Piece) {
        let now = self.clock.now();
        let step = self.messages.get(&exchange).and_then(|step| self.report.steps.get_mut(*step));
        if let Some(step) = step {
            match &piece {
                Piece::Head(status, headers) => {
                    step.status = Some(status.as_u16());
                    step.finding = challenge(*status, headers);
                }
                Piece::Failure(_, why) => step.finding = shown(why),
                Piece::Body(_) | Piece::End => {}
            }
        }
        match piece {
            Piece::Head(status, headers) => self.session.handle_head(now, exchange, status, &headers),
            Piece::Body(chunk) => self.session.handle_body(now, exchange, &chunk),
            Piece::End => self.session.handle_end(now, exchange),
            Piece::Failure(broken, why) => self.session.handle_failure(now, exchange, broken, &why),
        }
    }

    fn receive_oauth(&mut self, exchange: OAuthExchangeId, piece: &Piece) {
        if let Some(asked) = self.in_flight.get_mut(&exchange) {
            match piece {
                Piece::Head(status, _) => asked.status = Some(*status),
                Piece::Body(chunk) => {
                    let room = DOCUMENT.saturating_sub(asked.body.len());
                    asked.body.extend(chunk.iter().take(room));
                }
                Piece::End => self.answered(exchange),
                Piece::Failure(_, why) => {
                    if let Some(step) = self.report.steps.get_mut(asked.step) {
                        step.finding = format!("it cannot be read: {}", shown(why));
                    }
                }
            }
        }
        let now = self.clock.now();
        self.session.handle_oauth(now, input_of(exchange, piece));
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

    fn finish(self, bound: Duration) -> DiscoveryReport {
        let mut report = self.report;
        let has_server = report.issuer.is_some();
        let issuer = report.issuer.clone().unwrap_or_default();
        match self.end {
            None => report.verdict = format!("not done within {bound:?}"),
            Some(Ok(())) if report.steps.iter().all(|step| step.stage == CHALLENGE) => {
                report.verdict = "the server cannot be reached, or is no MCP server".into();
            }
            Some(Ok(())) => report.verdict = "the server ended the session".into(),
            // DiscoveryReport ends where a user would be needed.
            Some(Err(error)) if matches!(error.stage, Stage::Authorization | Stage::Registration) && has_server => {
                report.is_good = true;
                let ways = report.registration.join(", ");
                report.verdict = format!("a token can be obtained from `{issuer}`; registration: {ways}");
            }
            Some(Err(error)) if matches!(error.stage, Stage::Authorization | Stage::Registration) => {
                report.verdict =
                    "the server has no metadata. Servers of 2025-03-26 may have `/authorize`, `/token` and \
                                `/register` all the same; otherwise its operator has to add protected-resource metadata"
                        .into();
            }
            Some(Err(error)) => {
                if let Some(step) = report.steps.last_mut() {
                    step.finding = format!("{}. {}", step.finding, error.reason);
                }
                report.registration.clear();
                report.verdict = format!("{error}. {}", text_report::authorization(error.stage));
            }
        }
        report
    }
}

impl DiscoveryReport {
    /// The report for people.
    fn text(&self) -> String {
        let mut out = String::new();
        for (number, step) in (1_u32..).zip(&self.steps) {
            let status = step.status.map_or_else(|| "no response".into(), |status| format!("HTTP {status}"));
            out.push_str(&format!("{number}. {}: {}\n   {status}: {}\n", step.stage, step.request, step.finding));
        }
        out.push_str(&format!("{}\n", self.verdict));
        out
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

fn resource(document: &Value) -> String {
    let servers = listed(document, "authorization_servers").unwrap_or_else(|| "none".into());
    let named = document.get("resource").and_then(Value::as_str).map_or_else(|| "none".into(), shown);
    let scopes = listed(document, "scopes_supported").map(|scopes| format!("; scopes: {scopes}")).unwrap_or_default();
    format!("authorization servers: {servers}; resource: {named}{scopes}")
}

fn server(document: &Value) -> String {
    let issuer = document.get("issuer").and_then(Value::as_str).map_or_else(|| "none".into(), shown);
    let methods = listed(document, "code_challenge_methods_supported").unwrap_or_else(|| "none".into());
    let scopes = listed(document, "scopes_supported").map(|scopes| format!("; scopes: {scopes}")).unwrap_or_default();
    format!("issuer: {issuer}; PKCE: {methods}; registration: {}{scopes}", ways(document).join(", "))
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
