//! Connects to a server over HTTP with tokio and reqwest, lists its tools, and calls one of them.
//!
//! ```sh
//! cargo run -p mcp-proto-examples --bin http -- http://127.0.0.1:3001/mcp
//! cargo run -p mcp-proto-examples --bin http -- http://127.0.0.1:3001/mcp echo '{"message": "hi"}'
//! ```
//!
//! If the server requires a token, set the environment variable `MCP_TOKEN`.

mod driver;
mod exchanges;

use std::error::Error;
use std::hash::{BuildHasher, Hasher, RandomState};

use mcp_proto::{Cause, Event, Http, Options, Outcome, RawValue, Request};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};

use self::driver::{Driver, Next};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let url = args.next().ok_or("usage: http URL [TOOL [ARGUMENTS]]")?;
    let tool = args.next();
    let arguments = RawValue::from_string(args.next().unwrap_or_else(|| "{}".into()))?;
    let mut own = HeaderMap::new();
    if let Ok(token) = std::env::var("MCP_TOKEN") {
        let mut value = HeaderValue::try_from(format!("Bearer {token}"))?;
        value.set_sensitive(true);
        own.insert(AUTHORIZATION, value);
    }
    let mut options = Options::new("my-host", "1.0");
    // The user can run the command again.
    options.reconnect = None;

    let seed = RandomState::new().build_hasher().finish();
    let mut driver = Driver::new(options, seed, Http::new(&url)?, exchanges::clients()?, own);
    let now = driver.now();
    driver.session.open(now)?;
    let mut call = None;
    while let Some(next) = driver.next().await {
        let Next::Event(event) = next else { continue };
        let now = driver.now();
        let session = &mut driver.session;
        match event {
            // `Ready` repeats when a new session replaces an expired one.
            Event::Ready if call.is_none() => {
                for tool in session.catalog().tools() {
                    println!("{}  {}", tool.name, tool.description.unwrap_or_default());
                }
                match &tool {
                    Some(tool) => call = Some(session.request(now, Request::call_tool(tool, Some(&arguments)))?),
                    None => session.close(now)?,
                }
            }
            Event::Finished { outcome, .. } => {
                if let Outcome::Result(result) = &outcome {
                    println!("{result}");
                } else {
                    println!("{outcome:?}");
                }
                session.close(now)?;
            }
            Event::InputRequired { request, .. } => session.decline(now, request)?,
            // A host would obtain a token here, add it to the next requests and call `authorized`.
            Event::Unauthorized { request: Some(request), .. } => session.decline(now, request)?,
            Event::Quirk(quirk) => eprintln!("{}: {}", quirk.kind, quirk.detail),
            Event::Closed { cause: Cause::Failed(failure) } => return Err(failure.to_string().into()),
            // Irrelevant for a command that lists and calls.
            Event::Ready
            | Event::CatalogChanged { .. }
            | Event::ServerRequest { .. }
            | Event::ServerRequestEnded { .. }
            | Event::Unauthorized { .. }
            | Event::Progress { .. }
            | Event::Subscription { .. }
            | Event::ResourceUpdated { .. }
            | Event::Log { .. }
            | Event::LogLevelFailed { .. }
            | Event::Notification { .. }
            | Event::Down { .. }
            | Event::Closed { .. }
            | _ => {}
        }
    }
    Ok(())
}
