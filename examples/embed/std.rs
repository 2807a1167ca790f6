//! Threads: lists the tools of a server over stdio with `mcp-proto-std`.
//!
//! ```sh
//! cargo run -p mcp-proto-examples --bin embed-std -- npx -y @modelcontextprotocol/server-everything
//! ```

use std::env;
use std::error::Error;

use mcp_proto::Options;
use mcp_proto_std::{Program, Session};

fn main() -> Result<(), Box<dyn Error>> {
    let mut command = env::args().skip(1);
    let server = Program::new(command.next().ok_or("usage: embed-std PROGRAM [ARGUMENT]...")?).args(command);
    let session = Session::connect(server, Options::new("embed-std", "1.0"))?;
    session.catalog().tools().for_each(|tool| println!("{}", tool.name));
    session.end();
    Ok(())
}
