//! The report for programs, on one server or on all of a file. The names and order of its members are a contract.

use std::borrow::Cow;
use std::collections::BTreeMap;

use mcp_proto::catalog::Tool;
use mcp_proto::host::hub::Hub;
use mcp_proto::host::names::{Names, Renamed, Target};
use mcp_proto::{Diagnosis, Engine, Era, FailureCause, FailureStage, Family, FamilyStatus, Quirk, Time};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::file::{Plan, Trouble};
use crate::json::hidden_name;
use crate::peer::Ended;
use crate::raw::Members;
use crate::record::{AuthorizationReport, CallRecord, EventRecord, FailureReport, Record};

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
    pub(crate) diagnosis: Option<DiagnosisReport<'a>>,
}

#[derive(Serialize)]
pub(crate) struct DiagnosisReport<'a> {
    stage: FailureStage,
    cause: FailureCause,
    advice: &'static str,
    evidence: &'a [Box<str>],
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
        let ended = || FailureReport::new("closed", "the session ended before it was ready".into(), None);
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
            diagnosis: record.diagnosis.as_ref().filter(|_| !ready).map(DiagnosisReport::from),
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

impl<'a> From<&'a Diagnosis> for DiagnosisReport<'a> {
    fn from(diagnosis: &'a Diagnosis) -> Self {
        let Diagnosis { cause, evidence, .. } = diagnosis;
        Self { stage: diagnosis.stage(), cause: *cause, advice: diagnosis.advice(), evidence }
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
                _ => map.serialize_entry(&*hidden_name(name), value)?,
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

/// The final state of all servers of a file.
pub(crate) struct AllEnded {
    pub(crate) servers: Vec<Ended>,
    pub(crate) offered: Offered,
    pub(crate) calls: Vec<CallRecord>,
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
            report.called = server;
            let before = report.failure.take().map(|failure| failure.message + "; ").unwrap_or_default();
            report.failure = Some(FailureReport::new("configuration", before + message, None));
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
