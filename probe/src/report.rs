//! The report for programs, on one server or on all of a file. The names and order of its members are a contract.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use mcp_proto::binding::oauth::{Grant, GrantKind, OAuthError, RegistrationKind, TokenId};
use mcp_proto::catalog::Tool;
use mcp_proto::host::hub::Hub;
use mcp_proto::host::names::{Names, Renamed, Target};
use mcp_proto::{Engine, Era, Failure, Family, FamilyStatus, Outcome, Quirk, RequestError, Time, TimeBound};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::args::Step;
use crate::file::{Plan, Trouble};
use crate::raw::Members;
use crate::run::AllEnded;

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report<'a> {
    /// The server's name in this run.
    #[serde(skip)]
    pub(crate) called: &'a str,
    pub(crate) outcome: &'static str,
    pub(crate) failure: Option<FailureReport>,
    pub(crate) era: Option<Era>,
    pub(crate) protocol_version: Option<&'static str>,
    pub(crate) server: Option<ServerReport<'a>>,
    pub(crate) capabilities: Option<&'a RawValue>,
    pub(crate) instructions: Option<&'a str>,
    pub(crate) families: Families,
    tools: Vec<ToolReport<'a>>,
    prompts: Vec<Cow<'a, RawValue>>,
    resources: Vec<Cow<'a, RawValue>>,
    resource_templates: Vec<Cow<'a, RawValue>>,
    pub(crate) calls: &'a [CallRecord],
    pub(crate) quirks: Vec<QuirkReport<'a>>,
    events: &'a [EventRecord],
    pub(crate) connects: u32,
    pub(crate) timings: Timings,
    pub(crate) authorization: Option<&'a AuthorizationReport>,
}

#[derive(Serialize)]
pub(crate) struct ServerReport<'a> {
    pub(crate) name: Option<&'a str>,
    pub(crate) version: Option<&'a str>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Families {
    pub(crate) tools: FamilyReport,
    pub(crate) prompts: FamilyReport,
    pub(crate) resources: FamilyReport,
    pub(crate) resource_templates: FamilyReport,
}

#[derive(Clone, Copy, Serialize)]
pub(crate) struct FamilyReport {
    pub(crate) status: &'static str,
    pub(crate) items: usize,
    pub(crate) pages: usize,
}

#[derive(Serialize)]
pub(crate) struct QuirkReport<'a> {
    pub(crate) kind: &'static str,
    pub(crate) family: Option<Family>,
    pub(crate) method: Option<&'a str>,
    pub(crate) detail: &'a str,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Timings {
    pub(crate) handshake_ms: Option<u64>,
    pub(crate) discovery_ms: Option<u64>,
}

/// The status of a family whose list was not requested before the run ended.
const NOT_REQUESTED: &str = "unasked";

impl Default for FamilyReport {
    fn default() -> Self {
        Self { status: NOT_REQUESTED, items: 0, pages: 0 }
    }
}

impl<'a> Report<'a> {
    /// The report of a session whose tools have these names.
    pub(crate) fn new(called: &'a str, session: &'a Engine, record: &'a Record, names: &'a Names) -> Self {
        let server = session.server();
        let ready = record.ready && record.failure.is_none();
        let ended = || FailureReport { kind: "closed".into(), message: "the session ended before it was ready".into() };
        let failure = record.failure.clone().or_else(|| (!ready).then(ended));
        let family = |family| {
            let report = session.family(family);
            let items = session.catalog().list(family).len();
            let requested = report.status != FamilyStatus::NotRequested;
            let status = if requested { report.status.as_str() } else { NOT_REQUESTED };
            FamilyReport { status, items, pages: report.pages }
        };
        let catalog = session.catalog();
        Self {
            called,
            outcome: if ready { "ready" } else { "failed" },
            failure,
            era: server.map(|server| server.era()),
            protocol_version: server.map(|server| server.version.as_str()),
            server: server
                .map(|server| ServerReport { name: server.name.as_deref(), version: server.server_version.as_deref() }),
            capabilities: server.and_then(|server| server.capabilities()).map(|given| given.raw()),
            instructions: server.and_then(|server| server.instructions.as_deref()),
            families: Families {
                tools: family(Family::Tools),
                prompts: family(Family::Prompts),
                resources: family(Family::Resources),
                resource_templates: family(Family::ResourceTemplates),
            },
            tools: catalog.tools().map(|tool| ToolReport::new(called, tool, names)).collect(),
            prompts: catalog.prompts().map(|prompt| prompt.well_typed()).collect(),
            resources: catalog.resources().map(|resource| resource.well_typed()).collect(),
            resource_templates: catalog.resource_templates().map(|template| template.well_typed()).collect(),
            calls: &record.calls,
            quirks: session.quirks().iter().map(QuirkReport::from).collect(),
            events: &record.events,
            connects: record.connects,
            timings: Timings {
                handshake_ms: between(record.opened, record.introduced),
                discovery_ms: between(record.introduced, record.discovered),
            },
            authorization: record.authorization.as_ref(),
        }
    }

    /// Whether the session became ready and every call returned a result.
    pub(crate) fn is_good(&self) -> bool {
        self.outcome == "ready" && self.calls.iter().all(CallRecord::is_good)
    }
}

impl<'a> Report<'a> {
    /// The tools that a model knows by another name: that name, their own, and why.
    pub(crate) fn renamed(&self) -> impl Iterator<Item = (String, &'a str, &'static str)> {
        self.tools.iter().filter_map(|ToolReport { tool, exposed_name, renamed }| {
            let name = exposed_name.as_deref().filter(|name| is_renamed(name, tool.name))?;
            Some((name.to_owned(), tool.name, (*renamed)?))
        })
    }
}

/// Whether a model knows a tool by another name. If only the server's name was changed, listing each of its tools adds
/// nothing.
pub(crate) fn is_renamed(exposed: &str, tool: &str) -> bool {
    !exposed.ends_with(tool)
}

impl Families {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Family, FamilyReport)> {
        Family::ALL.iter().copied().zip([self.tools, self.prompts, self.resources, self.resource_templates])
    }
}

impl<'a> From<&'a Quirk> for QuirkReport<'a> {
    fn from(quirk: &'a Quirk) -> Self {
        Self { kind: quirk.kind.as_str(), family: quirk.family, method: quirk.method.as_deref(), detail: &quirk.detail }
    }
}

fn between(start: Option<Time>, end: Option<Time>) -> Option<u64> {
    start.zip(end).map(|(start, end)| Time::from_epoch(end.since(start)).as_millis())
}

/// The exposed names of one server's tools.
pub(crate) fn names(called: &str, session: &Engine) -> Names {
    let mut names = Names::default();
    names.update([(called, session.catalog().tools().map(|tool| Target::tool(tool.name)))]);
    names
}

/// A tool as the server wrote it, without members of a wrong type, with its exposed name, if it has one.
struct ToolReport<'a> {
    tool: Tool<'a>,
    exposed_name: Option<Cow<'a, str>>,
    renamed: Option<&'static str>,
}

impl<'a> ToolReport<'a> {
    fn new(called: &str, tool: Tool<'a>, names: &'a Names) -> Self {
        let target = Target::tool(tool.name);
        let renamed = names.renamed(called, &target).map(why);
        Self { tool, exposed_name: names.name(called, &target), renamed }
    }
}

impl Serialize for ToolReport<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { tool, exposed_name, .. } = self;
        let item = tool.well_typed();
        let members = Members::of(&item);
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", tool.name)?;
        map.serialize_entry("exposedName", exposed_name)?;
        for (name, value) in members.iter() {
            match name {
                "name" | "exposedName" => {}
                "inputSchema" => map.serialize_entry(name, tool.input_schema)?,
                _ => map.serialize_entry(name, value)?,
            }
        }
        if members.get("description").is_none() {
            map.serialize_entry("description", &())?;
        }
        if members.get("inputSchema").is_none() {
            map.serialize_entry("inputSchema", tool.input_schema)?;
        }
        map.end()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReportAll<'a> {
    pub(crate) servers: BTreeMap<&'a str, Report<'a>>,
    pub(crate) toolset: &'a [FunctionReport],
    pub(crate) left_out: &'a [LeftOutReport],
    pub(crate) suspicious: &'a [SuspiciousReport],
    pub(crate) calls: Vec<CallReport<'a>>,
    pub(crate) configuration: ConfigurationReport<'a>,
}

#[derive(Serialize)]
pub(crate) struct ConfigurationReport<'a> {
    pub(crate) errors: &'a [Trouble],
    pub(crate) warnings: Vec<&'a Trouble>,
}

#[derive(Serialize)]
pub(crate) struct CallReport<'a> {
    server: Option<&'a str>,
    #[serde(flatten)]
    pub(crate) call: &'a CallRecord,
}

impl<'a> ReportAll<'a> {
    pub(crate) fn new(plan: &'a Plan, ended: &'a AllEnded) -> Self {
        let AllEnded { servers, offered, calls } = ended;
        let mut reports = BTreeMap::new();
        for Trouble { server, message, .. } in &plan.errors {
            let report: &mut Report<'_> = reports.entry(&**server).or_default();
            report.outcome = "failed";
            let before = report.failure.take().map(|failure| failure.message + "; ").unwrap_or_default();
            report.failure = Some(FailureReport { kind: "configuration".into(), message: before + message });
        }
        let disabled = plan.configuration.servers.iter().filter(|(_, entry)| !entry.enabled);
        reports.extend(disabled.map(|(server, _)| (&**server, Report { outcome: "disabled", ..Report::default() })));
        reports.extend(servers.iter().map(|ended| {
            let report = Report::new(&ended.peer.name, &ended.session, &ended.peer.record, &offered.names);
            (&*ended.peer.name, report)
        }));
        Self {
            servers: reports,
            toolset: &offered.toolset,
            left_out: &offered.left_out,
            suspicious: &offered.suspicious,
            calls: calls.iter().map(|call| CallReport { server: call.server.as_deref(), call }).collect(),
            configuration: ConfigurationReport {
                errors: &plan.errors,
                warnings: plan.warnings.iter().chain(&offered.unmatched).collect(),
            },
        }
    }

    /// Whether every enabled server became ready and every call returned a result.
    pub(crate) fn is_good(&self) -> bool {
        self.servers.values().all(|report| report.outcome == "disabled" || report.is_good())
            && self.calls.iter().all(|call| call.call.is_good())
    }
}

/// Bounds on recorded events, whatever a server sends.
const EVENTS: usize = 10_000;
const EVENT_BYTES: usize = 64 << 20;

#[derive(Default)]
pub(crate) struct Record {
    pub(crate) ready: bool,
    pub(crate) failure: Option<FailureReport>,
    pub(crate) calls: Vec<CallRecord>,
    pub(crate) connects: u32,
    /// `None` where no authorization was required.
    pub(crate) authorization: Option<AuthorizationReport>,
    /// When the transport first opened, when the handshake completed, and when the session became ready.
    pub(crate) opened: Option<Time>,
    pub(crate) introduced: Option<Time>,
    pub(crate) discovered: Option<Time>,
    pub(crate) events: Vec<EventRecord>,
    event_bytes: usize,
    pub(crate) events_left_out: u64,
}

#[derive(Clone, Serialize)]
pub(crate) struct FailureReport {
    pub(crate) kind: String,
    pub(crate) message: String,
}

impl From<&Failure> for FailureReport {
    fn from(failure: &Failure) -> Self {
        Self { kind: failure.kind.as_str().into(), message: (&*failure.message).into() }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventRecord {
    pub(crate) at_ms: u64,
    pub(crate) kind: &'static str,
    pub(crate) detail: Box<RawValue>,
}

/// A call, a read or a prompt, and its outcome.
#[derive(Serialize)]
pub(crate) struct CallRecord {
    pub(crate) method: &'static str,
    pub(crate) target: String,
    pub(crate) outcome: &'static str,
    pub(crate) result: Option<Box<RawValue>>,
    pub(crate) error: Option<ErrorReport>,
    #[serde(skip)]
    pub(crate) took: Option<Duration>,
    /// Its server, if there are several.
    #[serde(skip)]
    pub(crate) server: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct ErrorReport {
    /// The code of the server's JSON-RPC error.
    pub(crate) code: Option<i64>,
    /// The HTTP status, if the server sent no JSON-RPC error.
    pub(crate) status: Option<u16>,
    pub(crate) message: String,
    pub(crate) data: Option<Box<RawValue>>,
}

impl ErrorReport {
    /// An error that the engine found.
    pub(crate) fn new(message: String) -> Self {
        Self { code: None, status: None, message, data: None }
    }
}

impl From<RequestError> for ErrorReport {
    fn from(error: RequestError) -> Self {
        let message = error.to_string();
        match error {
            RequestError::Server(error) => {
                Self { code: Some(error.code), data: error.data, ..Self::new((&*error.message).into()) }
            }
            RequestError::Status { status, .. } => Self { status: Some(status), ..Self::new(message) },
            RequestError::Invalid(_) | _ => Self::new(message),
        }
    }
}

impl CallRecord {
    /// A call without a response.
    pub(crate) fn without_answer(step: &Step, outcome: &'static str) -> Self {
        let (method, target) = (step.method(), step.target.clone());
        Self { method, target, outcome, result: None, error: None, took: None, server: None }
    }

    pub(crate) fn ended(step: &Step, outcome: Outcome, took: Duration) -> Self {
        let bare = |word| Self { took: Some(took), ..Self::without_answer(step, word) };
        let late = |why: &str| Self { error: Some(ErrorReport::new(why.into())), ..bare("timeout") };
        match outcome {
            Outcome::Result(result) => {
                let failed = || Members::of(&result).get("isError").is_some_and(|value| value.get() == "true");
                let word = if step.is_call() && failed() { "tool-error" } else { "result" };
                Self { result: Some(result), ..bare(word) }
            }
            Outcome::Error(error) => Self { error: Some(error.into()), ..bare("error") },
            Outcome::InputRequired(result) => Self { result: Some(result), ..bare("input-required") },
            Outcome::NotAdvertised => bare("not-advertised"),
            Outcome::TimedOut(bound) => late(passed(bound)),
            // Only the end of the run's time cancels a call.
            Outcome::Cancelled => late("no response before the run's time was up"),
            Outcome::NotSent => bare("not-sent"),
            Outcome::Unknown => bare("unknown"),
            _ => bare("unknown"),
        }
    }

    pub(crate) fn is_good(&self) -> bool {
        matches!(self.outcome, "result" | "tool-error")
    }
}

/// Says which bound on a request's time passed.
const fn passed(bound: TimeBound) -> &'static str {
    match bound {
        TimeBound::Timeout => "neither a response nor progress within the timeout",
        TimeBound::Total | _ => "no response within the maximum time, despite progress or a task",
    }
}

impl Record {
    pub(crate) fn event(&mut self, at: Time, kind: &'static str, detail: Box<RawValue>) {
        let bytes = self.event_bytes.saturating_add(detail.get().len());
        if self.events.len() >= EVENTS || bytes > EVENT_BYTES {
            self.events_left_out = self.events_left_out.saturating_add(1);
            return;
        }
        self.event_bytes = bytes;
        self.events.push(EventRecord { at_ms: at.as_millis(), kind, detail });
    }
}

#[derive(Default)]
pub(crate) struct Offered {
    pub(crate) names: Names,
    pub(crate) toolset: Vec<FunctionReport>,
    pub(crate) left_out: Vec<LeftOutReport>,
    pub(crate) suspicious: Vec<SuspiciousReport>,
    /// Filter patterns that match no tool.
    pub(crate) unmatched: Vec<Trouble>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FunctionReport {
    pub(crate) name: String,
    pub(crate) server: String,
    /// Its own name.
    pub(crate) tool: String,
    /// Why the exposed name differs from the tool's own name with its server's prefix.
    pub(crate) renamed: Option<&'static str>,
    pub(crate) description: Option<String>,
    input_schema: Box<RawValue>,
}

#[derive(Serialize)]
pub(crate) struct LeftOutReport {
    pub(crate) server: String,
    pub(crate) tool: String,
    pub(crate) why: String,
}

#[derive(Serialize)]
pub(crate) struct SuspiciousReport {
    pub(crate) server: String,
    pub(crate) tool: String,
    /// Position in the tool: a JSON Pointer.
    pub(crate) at: String,
    pub(crate) sign: &'static str,
    pub(crate) excerpt: String,
}

impl Offered {
    pub(crate) fn of(hub: &Hub) -> Self {
        let mut offered = Self { names: hub.names().clone(), ..Self::default() };
        for (server, function) in hub.functions() {
            let tool = hub.names().resolve(&function.name).map_or("", |resolved| resolved.target.name());
            offered.toolset.push(FunctionReport {
                name: function.name.into(),
                server: server.into(),
                tool: tool.into(),
                renamed: function.renamed.map(why),
                description: function.description.map(Into::into),
                input_schema: function.input_schema.to_owned(),
            });
        }
        for server in hub.servers() {
            let Some(choice) = hub.choice(server.name) else { continue };
            let name = || String::from(server.name);
            offered.left_out.extend(choice.left_out.iter().map(|left_out| LeftOutReport {
                server: name(),
                tool: left_out.target.name().into(),
                why: left_out.why.to_string(),
            }));
            offered.suspicious.extend(choice.suspicious.iter().map(|suspicious| SuspiciousReport {
                server: name(),
                tool: suspicious.tool.into(),
                at: (&*suspicious.at).into(),
                sign: suspicious.finding.sign.as_str(),
                excerpt: (&*suspicious.finding.excerpt).into(),
            }));
            let key = if server.entry.tools.include.is_some() { "tools.include" } else { "tools.exclude" };
            let unmatched = choice.unmatched.iter().map(|pattern| Trouble::unmatched(server.name, key, pattern));
            offered.unmatched.extend(unmatched);
            let overrides = choice.unmatched_overrides.iter();
            offered.unmatched.extend(overrides.map(|tool| Trouble::unmatched(server.name, "tools.overrides", tool)));
        }
        offered
    }
}

const fn why(renamed: Renamed) -> &'static str {
    match renamed {
        Renamed::Characters => "characters",
        Renamed::TooLong => "too-long",
        Renamed::Taken => "taken",
        Renamed::Configured => "configured",
        _ => "otherwise",
    }
}

#[derive(Clone, Default, Serialize)]
pub(crate) struct AuthorizationReport {
    pub(crate) issuer: Option<Box<str>>,
    pub(crate) resource: Option<Box<str>>,
    /// How the client of the last token was registered, or `stored` if it came with a stored record.
    pub(crate) registration: Option<&'static str>,
    pub(crate) scopes: Vec<String>,
    /// How each token was obtained, in order.
    pub(crate) grants: Vec<&'static str>,
    pub(crate) error: Option<AuthorizationError>,
    #[serde(skip)]
    last: Option<TokenId>,
    /// This run registers a client.
    #[serde(skip)]
    is_registered: bool,
}

#[derive(Clone, Serialize)]
pub(crate) struct AuthorizationError {
    pub(crate) stage: &'static str,
    pub(crate) reason: Box<str>,
}

/// The registration of a client that came with a stored record.
const STORED: &str = "stored";

impl AuthorizationReport {
    pub(crate) const fn registers(&mut self) {
        self.is_registered = true;
    }

    pub(crate) fn granted(&mut self, grant: Grant) {
        self.error = None;
        // Requests that are sent again with a known token are reported, too.
        if self.last.replace(grant.token) == Some(grant.token) {
            return;
        }
        let registered = grant.registration.as_str();
        self.registration = Some(match (grant.kind, self.registration) {
            // A refresh uses the client of the token before it; if it is the first token, that of the stored record.
            (GrantKind::Stored, _) | (GrantKind::RefreshToken, None) => STORED,
            (GrantKind::RefreshToken, Some(before)) => before,
            (_, Some(STORED)) if !self.is_registered => STORED,
            (_, None) if grant.registration == RegistrationKind::Dynamic && !self.is_registered => STORED,
            _ => registered,
        });
        if grant.kind != GrantKind::Stored {
            self.grants.push(grant.kind.as_str());
        }
        self.scopes = grant.scopes.split_ascii_whitespace().map(str::to_owned).collect();
        (self.issuer, self.resource) = (Some(grant.issuer), Some(grant.resource));
    }

    pub(crate) fn failed(&mut self, error: &OAuthError) {
        self.error = Some(AuthorizationError { stage: error.stage.as_str(), reason: error.reason.clone() });
    }
}

#[cfg(test)]
mod tests {
    use mcp_proto::jsonrpc::ErrorObject;

    use super::*;

    fn report(error: RequestError) -> String {
        serde_json::to_string(&ErrorReport::from(error)).unwrap_or_default()
    }

    #[test]
    fn a_timeout_names_the_bound_that_passed() {
        for (bound, words) in [(TimeBound::Timeout, "nor progress"), (TimeBound::Total, "maximum time")] {
            let call =
                CallRecord::ended(&Step::new("call", "a".into()).unwrap(), Outcome::TimedOut(bound), Duration::ZERO);
            assert_eq!(call.outcome, "timeout");
            assert!(call.error.is_some_and(|error| error.message.contains(words)), "{bound:?}");
        }
    }

    #[test]
    fn an_error_of_the_server_has_its_code() {
        assert_eq!(
            report(RequestError::Server(ErrorObject::new(-32602, "no"))),
            r#"{"code":-32602,"status":null,"message":"no","data":null}"#
        );
    }

    #[test]
    fn an_error_without_a_json_rpc_error_has_the_http_status_if_there_is_one() {
        assert_eq!(
            report(RequestError::Status { status: 500, message: "broken".into() }),
            r#"{"code":null,"status":500,"message":"HTTP 500: broken","data":null}"#
        );
        assert_eq!(
            report(RequestError::Invalid("no result".into())),
            r#"{"code":null,"status":null,"message":"no result","data":null}"#
        );
    }
}
