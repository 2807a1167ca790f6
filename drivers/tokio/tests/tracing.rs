//! A call's span is a child of the host's, and the server gets its context, in both eras.
#![cfg(all(feature = "tracing", feature = "testkit"))]
#![allow(missing_docs, clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_proto::testkit::{FakeServer, FakeTool, Link, Sim};
use mcp_proto::{Options, TraceContext};
use mcp_proto_tokio::testkit::Servers;
use mcp_proto_tokio::{Host, Session};
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::with_default;
use tracing::{Instrument, Subscriber, info_span};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

type Fields = BTreeMap<String, String>;

/// What spans have: a field `parent` besides their own.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<BTreeMap<u64, Fields>>>);

struct Reader<'a>(&'a mut Fields);

impl Visit for Reader<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().into(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().into(), value.into());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::new();
        attributes.record(&mut Reader(&mut fields));
        fields.insert("name".into(), attributes.metadata().name().into());
        if let Some(parent) = context.lookup_current() {
            fields.insert("parent".into(), parent.name().into());
        }
        self.0.lock().unwrap().insert(id.into_u64(), fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        values.record(&mut Reader(self.0.lock().unwrap().get_mut(&id.into_u64()).unwrap()));
    }
}

/// As the propagator of OpenTelemetry does with the current span.
fn context() -> Option<TraceContext> {
    let id = tracing::Span::current().id()?.into_u64();
    let mut context = TraceContext::default();
    context.traceparent = Some(format!("00-{:032x}-{id:016x}-01", 7).into());
    Some(context)
}

async fn calls(server: FakeServer) -> Servers {
    let server = server.tool(FakeTool::new("quick")).tool(FakeTool::new("slow").takes(Duration::from_secs(60)));
    let failure = json!({"content": [], "isError": true});
    let server = server.tool(FakeTool::new("fails").result(failure)).resource("r:1").prompt("p");
    let servers = Servers::start(Sim::new(1).with_server("s", server, Link::new(Duration::from_millis(10))));
    let mut options = Options::new("test", "1.0");
    options.server = "s".into();
    let host = Host::new(options).seed(1).trace(context);
    let session = Session::connect(servers.streams("s"), host).await.unwrap();
    async {
        session.call_tool("quick", &json!({})).await.unwrap();
        session.call_tool("missing", &json!({})).await.unwrap_err();
        let call = session.start_tool("slow", &json!({})).unwrap().timeout(Duration::from_secs(1));
        call.await.unwrap_err();
        drop(session.start_tool("slow", &json!({})).unwrap());
        session.call_tool("fails", &json!({})).await.unwrap();
        session.call_tool("quick", &json!([])).await.unwrap_err();
        session.read_resource("r:1").await.unwrap();
        session.get_prompt("p", []).await.unwrap();
    }
    .instrument(info_span!("host"))
    .await;
    servers
}

#[test]
fn a_call_is_a_span_of_the_host_and_its_context_reaches_the_server() {
    for server in [FakeServer::legacy(), FakeServer::modern()] {
        let spans = Spans::default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let servers = with_default(Registry::default().with(spans.clone()), || runtime.block_on(calls(server)));
        let spans = spans.0.lock().unwrap();
        let of_calls: Vec<_> = spans.iter().filter(|(_, fields)| fields["name"] == "mcp.client").collect();
        let ends: Vec<_> = of_calls
            .iter()
            .map(|(_, fields)| (&*fields["otel.name"], fields.get("error.type").map(String::as_str)))
            .collect();
        let expected = [
            ("tools/call quick", None),
            ("tools/call missing", Some("-32602")),
            ("tools/call slow", Some("timeout")),
            ("tools/call slow", Some("cancelled")),
            ("tools/call fails", Some("tool_error")),
            ("tools/call quick", Some("refused")),
            // A URI in the name would make too many names.
            ("resources/read", None),
            ("prompts/get p", None),
        ];
        assert_eq!(ends, expected);
        let others = [&of_calls[6].1["mcp.resource.uri"], &of_calls[7].1["gen_ai.prompt.name"]];
        assert_eq!(others, ["r:1", "p"]);
        let of_error = &of_calls[1].1;
        let found = ["mcp.server.name", "rpc.response.status_code", "otel.status_code"].map(|name| &*of_error[name]);
        assert_eq!(found, ["s", "-32602", "ERROR"]);
        let of_calls = &of_calls[..4];
        for (_, fields) in of_calls {
            let found = ["parent", "otel.kind", "mcp.method.name"].map(|name| &*fields[name]);
            assert_eq!(found, ["host", "client", "tools/call"]);
        }
        assert_eq!(of_calls[0].1["gen_ai.tool.name"], "quick");
        let received: Vec<_> = servers.with(|sim| {
            let messages = sim.server("s").unwrap().messages().filter(|message| message["method"] == "tools/call");
            messages.map(|message| message["params"]["_meta"]["traceparent"].as_str().unwrap().to_owned()).collect()
        });
        // The last one of these was dropped before it was sent.
        let sent: Vec<_> = of_calls[..3].iter().map(|(id, _)| format!("00-{:032x}-{id:016x}-01", 7)).collect();
        assert_eq!(received[..3], sent);
    }
}
