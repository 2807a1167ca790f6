//! The client for the official conformance suite (`.ci/conformance`).
//!
//! The library makes every protocol decision. This program opens a session in the era that the suite names, makes the
//! calls that the suite names or else one of each kind, loads the server's skills, and accepts every form as proposed. What
//! a user chooses is in its environment (`settings.rs`); it does not know the scenario.

#[path = "../http/driver.rs"]
mod driver;
#[path = "../http/exchanges.rs"]
mod exchanges;
mod oauth;
mod settings;
mod skills;

use std::collections::VecDeque;
use std::error::Error;

use mcp_proto::jsonrpc::ErrorObject;
use mcp_proto::{Catalog, Cause, Era, Eras, Event, Http, Options, ProtocolVersion, RawValue, Request};
use reqwest::header::HeaderMap;
use serde::Deserialize;
use serde_json::value::to_raw_value;
use serde_json::{Map, Value, json};

use self::driver::{Driver, Next};
use self::settings::{SchemaArgument, Settings};
use self::skills::Skills;

type Fallible<T> = Result<T, Box<dyn Error>>;

/// What the suite passes in addition to the version.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Context {
    tool_calls: Vec<ToolCall>,
    #[serde(flatten)]
    client: oauth::Client,
}

#[derive(Deserialize)]
struct ToolCall {
    name: String,
    arguments: Box<RawValue>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Fallible<()> {
    let url = std::env::args().next_back().ok_or("no URL")?;
    let version: ProtocolVersion = std::env::var("MCP_CONFORMANCE_PROTOCOL_VERSION")?.parse()?;
    let settings = Settings::from_environment()?;
    let context = match std::env::var("MCP_CONFORMANCE_CONTEXT") {
        Ok(context) => serde_json::from_str(&context)?,
        Err(_) => Context::default(),
    };
    let mut options = Options::new("mcp-proto-conformance", env!("CARGO_PKG_VERSION"));
    options.eras = match version.era() {
        Era::Legacy => Eras::LegacyOnly,
        Era::Modern => Eras::ModernOnly(version),
    };
    options.capabilities.elicitation = true;
    options.reconnect = None;
    let accept = to_raw_value(&json!({"action": "accept", "content": {}}))?;
    let clients = exchanges::clients()?;
    let authorization = oauth::authorization(&url, &context.client, &settings.grant, &clients.any).await?;
    let server = Http::new(&url)?.with_oauth(authorization);
    let mut driver = Driver::new(options, 0, server, clients.clone(), HeaderMap::new());
    let now = driver.now();
    driver.session.open(now)?;
    let (mut ready, mut steps, mut skills) = (false, VecDeque::new(), None);
    while let Some(next) = driver.next().await {
        let event = match next {
            Next::Event(event) => event,
            Next::OAuth(action) => {
                oauth::act(&mut driver, &clients.any, action).await?;
                continue;
            }
        };
        eprintln!("{event:?}");
        let now = driver.now();
        let session = &mut driver.session;
        match event {
            Event::Ready if !std::mem::replace(&mut ready, true) => {
                steps = plan(settings.schema.as_ref(), &context, session.catalog())?;
            }
            Event::Finished { outcome, .. } => {
                if let Some(skills) = &mut skills {
                    Skills::take(skills, &outcome, settings.loads_skills)?;
                }
            }
            Event::ServerRequest { id: ask, method, .. } => {
                let known = method == mcp_proto::ServerMethod::Elicitation;
                let answer = if known { Ok(&*accept) } else { Err(ErrorObject::new(-32601, "not offered")) };
                session.respond(now, ask, answer)?;
                continue;
            }
            Event::InputRequired { request, inputs } => {
                session.provide(now, request, inputs.iter().map(|input| (&*input.key, &*accept)))?;
                continue;
            }
            // No authorization helps.
            Event::Unauthorized { request: None, why, .. } => return Err(why.into_string().into()),
            Event::Unauthorized { .. } => continue,
            Event::Closed { cause: Cause::Failed(failure) } => return Err(failure.to_string().into()),
            Event::Ready
            | Event::CatalogChanged { .. }
            | Event::ServerRequestEnded { .. }
            | Event::Progress { .. }
            | Event::Subscription { .. }
            | Event::ResourceUpdated { .. }
            | Event::Log { .. }
            | Event::LogLevelFailed { .. }
            | Event::Notification { .. }
            | Event::Quirk(_)
            | Event::Down { .. }
            | Event::Closed { .. }
            | _ => continue,
        }
        let step = steps.pop_front().or_else(|| skills.get_or_insert_with(|| Skills::new(session)).request());
        match step {
            Some(step) => drop(session.request(now, step)?),
            None => session.close(now)?,
        }
    }
    Ok(())
}

/// The calls that the suite names; otherwise each tool, prompt and resource once.
fn plan(schema: Option<&SchemaArgument>, context: &Context, catalog: &Catalog) -> Fallible<VecDeque<Request>> {
    if !context.tool_calls.is_empty() {
        let call = |call: &ToolCall| Request::call_tool(&call.name, Some(&call.arguments));
        return Ok(context.tool_calls.iter().map(call).collect());
    }
    let mut steps = VecDeque::new();
    for tool in catalog.tools() {
        let mut arguments = arguments(&serde_json::from_str(tool.input_schema.get())?);
        if let Some(schema) = schema.filter(|schema| schema.tool == tool.name) {
            let other = catalog.tool(&schema.schema_of).ok_or("SCHEMA_ARGUMENT names no such tool")?;
            arguments.insert(schema.argument.clone(), serde_json::from_str(other.input_schema.get())?);
        }
        steps.push_back(Request::call_tool(tool.name, Some(&*to_raw_value(&arguments)?)));
    }
    steps.extend(catalog.prompts().map(|prompt| Request::get_prompt(prompt.name, [])));
    steps.extend(catalog.resources().map(|resource| Request::read_resource(resource.uri)));
    Ok(steps)
}

/// Arguments of the types that a schema requires.
fn arguments(schema: &Value) -> Map<String, Value> {
    let required = schema.get("required").and_then(Value::as_array);
    let properties = schema.get("properties");
    let kind = |name| properties?.get(name)?.get("type")?.as_str();
    let value = |name| match kind(name) {
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        Some(_) | None => json!("x"),
    };
    required.into_iter().flatten().filter_map(Value::as_str).map(|name| (name.to_owned(), value(name))).collect()
}
