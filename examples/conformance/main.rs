//! The client for the official conformance suite (`.ci/conformance`).
//!
//! The library makes every protocol decision. This program opens a session in the era that the suite names, makes the
//! calls that the suite names or else one of each kind, loads the server's skills, and accepts every form as proposed. What
//! a user chooses is in its environment (`settings.rs`); it does not know the scenario.

mod oauth;
mod settings;
mod skills;

use std::error::Error;
use std::future::pending;

use mcp_proto::{Catalog, Era, Eras, Event, Options, ProtocolVersion, RawValue, Request};
use mcp_proto_tokio::{Elicited, Host, HttpClient, Remote, Reports, Session};
use serde::Deserialize;
use serde_json::value::to_raw_value;
use serde_json::{Map, Value, json};

use self::settings::{SchemaArgument, Settings};

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
    options.reconnect = None;
    let http = HttpClient::new()?;
    let (oauth, urls) = oauth::sign_in(&url, &context.client, &settings.grant, &http).await?;
    let mut sign_in = oauth.events();
    tokio::spawn(async move {
        while let Some((_, event)) = sign_in.next().await {
            eprintln!("{event:?}");
        }
    });
    let host =
        Host::new(options).http(http.clone()).oauth(oauth).elicitation(|_| async { Elicited::Accept(json!({})) });
    let session = Session::start(Remote::new(&url)?, host)?;
    tokio::spawn(oauth::browse(session.clone(), http, urls));
    tokio::select! {
        refused = watch(session.events()) => Err(refused.into()),
        ended = run(&session, &settings, &context) => ended,
    }
}

/// Prints what happens, until no authorization helps. Returns why.
async fn watch(mut events: Reports<Event>) -> String {
    while let Some(event) = events.next().await {
        eprintln!("{event:?}");
        if let Event::Unauthorized { request: None, why, .. } = event {
            return why.into();
        }
    }
    pending().await
}

async fn run(session: &Session, settings: &Settings, context: &Context) -> Fallible<()> {
    session.ready().await?;
    for step in plan(settings.schema.as_ref(), context, &session.catalog())? {
        // How it ends is the suite's to judge.
        eprintln!("{:?}", session.start_request(step)?.await);
    }
    skills::load(session, settings.loads_skills).await?;
    session.close().await;
    session.closed().await.map_or(Ok(()), |failure| Err(failure.into()))
}

/// The calls that the suite names; otherwise each tool, prompt and resource once.
fn plan(schema: Option<&SchemaArgument>, context: &Context, catalog: &Catalog) -> Fallible<Vec<Request>> {
    if !context.tool_calls.is_empty() {
        let call = |call: &ToolCall| Request::call_tool(&call.name, Some(&call.arguments));
        return Ok(context.tool_calls.iter().map(call).collect());
    }
    let mut steps = Vec::new();
    for tool in catalog.tools() {
        let mut arguments = arguments(&serde_json::from_str(tool.input_schema.get())?);
        if let Some(schema) = schema.filter(|schema| schema.tool == tool.name) {
            let other = catalog.tool(&schema.schema_of).ok_or("SCHEMA_ARGUMENT names no such tool")?;
            arguments.insert(schema.argument.clone(), serde_json::from_str(other.input_schema.get())?);
        }
        steps.push(Request::call_tool(tool.name, Some(&*to_raw_value(&arguments)?)));
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
