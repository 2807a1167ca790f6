//! What a model would get from all servers, and what was left out and why.

use mcp_proto::host::hub::Hub;
use mcp_proto::host::names::{Names, Renamed};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::file::Trouble;

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
