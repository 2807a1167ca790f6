//! Fake servers, connections in virtual time and [`proptest`] strategies, to test a program that embeds the crate
//! (feature `testkit`, for `dev-dependencies`).
//!
//! - [`FakeServer`] is an MCP server without I/O, of either era, over pipes and over Streamable HTTP. It counts what it
//!   runs, and deviates from the protocol where it is told to ([`Reply`]).
//!   `FakeServer::from_journal` plays a recorded session (feature `journal`).
//!   [`FakeServer::resumes`] continues streams that broke.
//! - `FakeAuthorizationServer` issues the tokens that a server demands (feature `oauth`), and deviates in the same way. It
//!   records which secret came where.
//! - [`Sim`] connects clients or a hub to fake servers, over links with latency and faults, and lets virtual time pass.
//!   It runs a plain client or hub as a [`Collector`], and a program around one through [`Embedder`].
//! - [`strategy`] generates what a host is told to do, what happens to its server, and messages of servers.
//!   [`Sim::play`] plays it.
//!
//! [The guide](crate::guide::testing) tests a complete host with them, in a property of 25 lines.
//!
//! ```
//! use std::time::Duration;
//!
//! use mcp_proto::testkit::{FakeServer, FakeTool, Link, On, Collector, Reply, Sim};
//! use mcp_proto::{Client, Event, Lines, Options, Outcome, Request};
//!
//! // The first call runs, and the server's process exits before it answers.
//! let server = FakeServer::legacy().tool(FakeTool::new("pay")).script(On::tool("pay"), [Reply::Dies]);
//! let mut sim = Sim::new(1).with_server("bank", server, Link::new(Duration::from_millis(20)));
//! let client = Client::new(Lines::new(), Options::new("my-host", "1.0"), 1);
//! let node = sim.add("bank", Collector::new(client));
//!
//! sim.tell(node, |now, client| client.open(now)).unwrap().unwrap();
//! sim.run_for(Duration::from_secs(1)).unwrap();
//! sim.tell(node, |now, client| client.request(now, Request::call_tool("pay", None))).unwrap().unwrap();
//! sim.run_for(Duration::from_secs(60)).unwrap();
//!
//! // The client does not send it again, because it may have run. It did.
//! let events = &sim.get(node).unwrap().events;
//! assert!(events.iter().any(|(_, event)| matches!(event, Event::Finished { outcome: Outcome::Unknown, .. })));
//! assert_eq!(sim.server("bank").unwrap().tool_runs("pay"), 1);
//! assert!(sim.get(node).unwrap().is_ready(), "the process was started again");
//! ```
//!
//! Without a simulation, a fake server is driven like a client: inputs with the time and a [`ChannelId`]
//! ([`handle_open`](FakeServer::handle_open), [`handle_bytes`](FakeServer::handle_bytes), over HTTP `handle_request`),
//! and outputs from [`poll`](FakeServer::poll) until [`deadline`](FakeServer::deadline).
//! [`answer`](FakeServer::answer) responds to one message at once:
//!
//! ```
//! use mcp_proto::testkit::{FakeServer, FakeTool};
//! use serde_json::json;
//!
//! let mut server = FakeServer::legacy().tool(FakeTool::new("echo"));
//! let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
//! let answers = server.answer(&request);
//! assert_eq!(answers[0]["result"]["tools"][0]["name"], "echo");
//! assert_eq!(server.violations(), ["tools/list before initialize"]);
//! ```

#[cfg(feature = "oauth")]
mod authorization_server;
mod content;
#[cfg(feature = "journal")]
mod recording;
mod script;
mod server;
mod sim;
mod spelling;
pub mod strategy;

#[cfg(feature = "oauth")]
pub use authorization_server::{Endpoint, FakeAuthorizationServer, Received};
pub use content::{Ask, FakeTool};
#[cfg(feature = "journal")]
pub use recording::Mismatch;
pub use script::{On, Reply};
pub use server::FakeServer;
pub use server::{ChannelId, ServerAction, ServerOutput};
pub use sim::{Arrival, Carried, Collector, Driven, Embedder, Fault, Link, NodeId, Port, Runaway, Sim, Step};
pub use spelling::Spelling;
