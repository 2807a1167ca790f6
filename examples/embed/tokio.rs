//! Tokio: lists the tools of a server over stdio with `mcp-proto-tokio`.
//!
//! ```sh
//! cargo run -p mcp-proto-examples --bin embed-tokio -- npx -y @modelcontextprotocol/server-everything
//! ```

use std::env;
use std::error::Error;

use mcp_proto::Options;
use mcp_proto_tokio::{Program, Session};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut command = env::args().skip(1);
    let server = Program::new(command.next().ok_or("usage: embed-tokio PROGRAM [ARGUMENT]...")?).args(command);
    let session = Session::connect(server, Options::new("embed-tokio", "1.0")).await?;
    session.catalog().tools().for_each(|tool| println!("{}", tool.name));
    session.close().await;
    Ok(())
}
