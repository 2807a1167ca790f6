//! The report for programs. The names and order of its members are a contract.

use std::borrow::Cow;

use mcp_proto::catalog::Tool;
use mcp_proto::host::names::{Names, Target};
use mcp_proto::{Engine, Era, Family, FamilyStatus, Quirk, Time};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::authorization_report::AuthorizationReport;
use crate::raw::Members;
use crate::record::{CallRecord, EventRecord, FailureReport, Record};

#[derive(Serialize)]
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
    /// The report of a server that was not opened.
    pub(crate) fn unopened(outcome: &'static str, failure: Option<FailureReport>) -> Self {
        Self {
            called: "",
            outcome,
            failure,
            era: None,
            protocol_version: None,
            server: None,
            capabilities: None,
            instructions: None,
            families: Families::default(),
            tools: Vec::new(),
            prompts: Vec::new(),
            resources: Vec::new(),
            resource_templates: Vec::new(),
            calls: &[],
            quirks: Vec::new(),
            events: &[],
            connects: 0,
            timings: Timings::default(),
            authorization: None,
        }
    }

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
            capabilities: server.and_then(|server| server.capabilities.as_ref()).map(|given| given.raw()),
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
            events: record.events(),
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
}

impl<'a> ToolReport<'a> {
    fn new(called: &str, tool: Tool<'a>, names: &'a Names) -> Self {
        let exposed_name = names.name(called, &Target::tool(tool.name));
        Self { tool, exposed_name }
    }
}

impl Serialize for ToolReport<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { tool, exposed_name } = self;
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
