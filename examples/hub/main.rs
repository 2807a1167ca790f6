//! A host of many servers: reads a configuration file, starts its servers, prints the functions for a model, and makes calls.
//!
//! ```sh
//! cargo run -p mcp-proto-examples --bin hub -- mcp.json
//! cargo run -p mcp-proto-examples --bin hub -- mcp.json mcp_memory_read_graph '{}' mcp_memory_search_nodes '{"query": "bees"}'
//! ```

use std::error::Error;
use std::io;

use mcp_proto::host::config::Document;
use mcp_proto::host::hub::HubOptions;
use mcp_proto::{Options, RawValue};
use mcp_proto_tokio::Hub;
use tokio::signal::ctrl_c;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let file = args.next().ok_or("usage: hub FILE [NAME ARGUMENTS ...]")?;
    let mut wanted = Vec::new();
    while let Some(name) = args.next() {
        wanted.push((name, RawValue::from_string(args.next().unwrap_or_else(|| "{}".into()))?));
    }
    let Document(configuration) = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    let configuration = configuration.expand(|name| std::env::var(name).ok().map(Into::into));
    configuration.errors.iter().for_each(|error| eprintln!("{error}"));
    configuration.warnings.iter().for_each(|warning| eprintln!("{warning}"));

    let hub = Hub::start(configuration, HubOptions::new(Options::new("my-host", "1.0")))?;
    let ended = tokio::select! {
        () = run(&hub, &wanted) => Ok(()),
        signal = interrupted() => Err(signal.map_or_else(Into::into, |()| "interrupted".into())),
    };
    // A terminal's Ctrl-C does not reach the servers' processes: they end here.
    hub.close().await;
    ended
}

async fn run(hub: &Hub, wanted: &[(String, Box<RawValue>)]) {
    hub.settled().await;
    hub.inspect(|hub| {
        for server in hub.servers() {
            server.failure.iter().for_each(|failure| eprintln!("{failure}"));
        }
        for (_, function) in hub.functions() {
            println!("{}  {}", function.name, function.description.unwrap_or_default());
        }
    });
    // All of them are sent before the first one is awaited.
    let calls: Vec<_> = wanted.iter().map(|(name, arguments)| (name, hub.start_call(name, arguments))).collect();
    for (name, call) in calls {
        match async { call?.await }.await {
            Ok(reply) => println!("{name}: {}", reply.raw()),
            Err(error) => eprintln!("{error}"),
        }
    }
}

/// Waits for what ends a program: Ctrl-C, or another signal.
async fn interrupted() -> io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};

        let (mut terminate, mut hang_up) = (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
        tokio::select! {
            _ = terminate.recv() => Ok(()),
            _ = hang_up.recv() => Ok(()),
            interrupt = ctrl_c() => interrupt,
        }
    }
    #[cfg(not(unix))]
    ctrl_c().await
}
