//! rmcp.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmcp::model::{CallToolRequestParams, ProgressNotificationParam, ProtocolVersion};
use rmcp::service::{NotificationContext, RoleClient, RunningService};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, Peer as Calls};
use serde_json::{Map, Value};
use tokio::process::Command;
use tokio::runtime::Runtime;

use crate::client::{ARGUMENTS, Client, ECHO, Era, LARGE, STORM, Size, Transport, check, shares};
use crate::peer::Peer;

#[derive(Clone, Default)]
struct Handler(Arc<AtomicUsize>);

impl ClientHandler for Handler {
    async fn on_progress(&self, _: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

pub struct Rmcp {
    runtime: Rc<Runtime>,
    service: Option<RunningService<RoleClient, Handler>>,
    reports: Arc<AtomicUsize>,
}

impl Rmcp {
    pub fn connect(runtime: &Rc<Runtime>, peer: &Peer, keeps_connections: bool) -> (Box<dyn Client>, usize) {
        let handler = Handler::default();
        let reports = Arc::clone(&handler.0);
        let lifecycle = match peer.era {
            Era::Legacy => ClientLifecycleMode::Initialize,
            Era::Modern => ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] },
        };
        let connected = runtime.block_on(async {
            let service = if peer.transport == Transport::Stdio {
                let [program, arguments @ ..] = peer.command();
                let mut command = Command::new(program);
                command.args(arguments);
                let transport = TokioChildProcess::new(command).unwrap();
                handler.serve_with_lifecycle(transport, lifecycle).await
            } else if keeps_connections {
                let config = StreamableHttpClientTransportConfig::with_uri(peer.url());
                let transport = StreamableHttpClientTransport::with_client(reqwest::Client::new(), config);
                handler.serve_with_lifecycle(transport, lifecycle).await
            } else {
                let transport = StreamableHttpClientTransport::from_uri(peer.url());
                handler.serve_with_lifecycle(transport, lifecycle).await
            };
            let service = service.expect("rmcp connects");
            let tools = service.list_all_tools().await.expect("rmcp lists the tools").len();
            (service, tools)
        });
        let (service, tools) = connected;
        (Box::new(Self { runtime: Rc::clone(runtime), service: Some(service), reports }), tools)
    }

    fn service(&self) -> &RunningService<RoleClient, Handler> {
        self.service.as_ref().unwrap()
    }
}

async fn echo(calls: &Calls<RoleClient>) {
    let mut arguments = Map::new();
    arguments.insert("owner".into(), ARGUMENTS.owner.into());
    arguments.insert("repo".into(), ARGUMENTS.repo.into());
    arguments.insert("title".into(), ARGUMENTS.title.into());
    let result = calls.call_tool(CallToolRequestParams::new(ECHO).with_arguments(arguments)).await.unwrap();
    check(result.content[0].as_text().unwrap().text.len());
}

fn sized(tool: &'static str, size: usize) -> CallToolRequestParams {
    let Value::Object(arguments) = serde_json::to_value(Size { size }).unwrap() else { unreachable!() };
    CallToolRequestParams::new(tool).with_arguments(arguments)
}

impl Client for Rmcp {
    fn calls(&mut self, count: usize, at_once: usize) {
        let calls = self.service().peer();
        self.runtime.block_on(async {
            if at_once == 1 {
                for _ in 0..count {
                    echo(calls).await;
                }
                return;
            }
            let tasks: Vec<_> = shares(count, at_once)
                .map(|count| {
                    let calls = calls.clone();
                    tokio::spawn(async move {
                        for _ in 0..count {
                            echo(&calls).await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
    }

    fn storm(&mut self, size: usize) -> usize {
        self.reports.store(0, Ordering::Relaxed);
        self.runtime.block_on(async {
            self.service().call_tool(sized(STORM, size)).await.unwrap();
            // Each report is handled by a task.
            for _ in 0..1000 {
                if self.reports.load(Ordering::Relaxed) >= size {
                    break;
                }
                tokio::task::yield_now().await;
            }
        });
        self.reports.load(Ordering::Relaxed)
    }

    fn large(&mut self, size: usize, _: bool) -> Option<usize> {
        let call = self.service().call_tool(sized(LARGE, size));
        let patience = std::time::Duration::from_secs(10);
        let result = self.runtime.block_on(async { tokio::time::timeout(patience, call).await }).ok()?.ok()?;
        // The text is read with the result.
        Some(result.content[0].as_text().unwrap().text.len())
    }
}

impl Drop for Rmcp {
    fn drop(&mut self) {
        if let Some(service) = self.service.take() {
            let _ = self.runtime.block_on(service.cancel());
        }
    }
}
