//! Connects to a server over HTTP, lists its tools, and calls one of them.
//!
//! ```sh
//! cargo run -p mcp-proto-examples --bin http -- http://127.0.0.1:3001/mcp
//! cargo run -p mcp-proto-examples --bin http -- http://127.0.0.1:3001/mcp echo '{"message": "hi"}'
//! ```
//!
//! If the server requires a token, set the environment variable `MCP_TOKEN`.

use std::error::Error;

use mcp_proto::{Options, RawValue};
use mcp_proto_tokio::{Remote, Session};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let mut server = Remote::new(&args.next().ok_or("usage: http URL [TOOL [ARGUMENTS]]")?)?;
    if let Ok(token) = std::env::var("MCP_TOKEN") {
        server = server.header("authorization", &format!("Bearer {token}"))?;
    }
    let mut options = Options::new("my-host", "1.0");
    // The user can run the command again.
    options.reconnect = None;
    let session = Session::connect(server, options).await?;
    for tool in session.catalog().tools() {
        println!("{}  {}", tool.name, tool.description.unwrap_or_default());
    }
    if let Some(tool) = args.next() {
        let arguments = RawValue::from_string(args.next().unwrap_or_else(|| "{}".into()))?;
        println!("{}", session.call_tool(&tool, &arguments).await?.raw());
    }
    session.inspect(|client| client.quirks().iter().for_each(|quirk| eprintln!("{}: {}", quirk.kind, quirk.detail)));
    session.close().await;
    Ok(())
}
