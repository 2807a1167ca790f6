//! Calls the tool `echo` of a server, and prints the text of the result: `PROGRAM ARGUMENT...`, or with the feature `http` a URL.

use std::error::Error;

use mcp_proto::Options;
use mcp_proto_tokio::{Endpoint, Program, Session};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let server = arguments.next().ok_or("mcp-proto-minimal PROGRAM ARGUMENT... | URL")?;
    let session = Session::connect(endpoint(server, arguments)?, Options::new("minimal", "1.0")).await?;
    println!("{}", session.call_tool("echo", &json!({"message": "hi"})).await?.text());
    session.close().await;
    Ok(())
}

fn endpoint(server: String, arguments: impl Iterator<Item = String>) -> Result<Endpoint, Box<dyn Error>> {
    #[cfg(feature = "http")]
    if server.contains("://") {
        return Ok(mcp_proto_tokio::Remote::new(&server)?.into());
    }
    Ok(Program::new(server).args(arguments).into())
}
