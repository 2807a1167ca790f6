//! Lists the tools of a server over HTTP with an HTTP client of the host's own, here reqwest, in place of the driver's.
//!
//! ```sh
//! cargo run -p mcp-proto-examples --bin reqwest -- http://127.0.0.1:3001/mcp
//! ```
//!
//! If the server requires a key, set the environment variable `MCP_KEY`, which becomes the header `x-key`.

use std::error::Error;
use std::mem::take;
use std::pin::Pin;
use std::time::Duration;

use http::Request;
use mcp_proto::Options;
use mcp_proto::binding::http::Broken;
use mcp_proto_tokio::{Host, HttpPiece, HttpTransport, Purpose, Remote, Session, TakePiece};
use reqwest::{Client, redirect, retry};

struct Reqwest(Client);

impl Reqwest {
    /// One that decides nothing that the protocol does: it follows no redirect, sends nothing again, keeps no cookie and decodes
    /// no body (the last two are features of reqwest).
    fn new() -> reqwest::Result<Self> {
        let builder = Client::builder().redirect(redirect::Policy::none()).retry(retry::never()).referer(false);
        builder.connect_timeout(Duration::from_secs(4)).build().map(Self)
    }

    async fn pass(&self, request: Request<Vec<u8>>, give: &mut TakePiece<'_>) -> reqwest::Result<()> {
        let mut response = self.0.execute(request.try_into()?).await?;
        give(HttpPiece::Head(response.status(), take(response.headers_mut())));
        while let Some(chunk) = response.chunk().await? {
            give(HttpPiece::Body(chunk.into()));
        }
        give(HttpPiece::End);
        Ok(())
    }
}

impl HttpTransport for Reqwest {
    fn run<'a>(
        &'a self,
        request: Request<Vec<u8>>,
        purpose: Purpose,
        mut give: TakePiece<'a>,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(async move {
            if purpose != Purpose::Server {
                // Those of a sign-in name the addresses that may be reached, which this client does not check.
                let why = "this client signs in nowhere";
                return give(HttpPiece::Failure(Broken::Unreachable, why.into()));
            }
            if let Err(error) = self.pass(request, &mut give).await {
                // Only what was certainly not sent may be sent again.
                let is_unsent = error.is_connect() || error.is_builder();
                let broken = if is_unsent { Broken::Unreachable } else { Broken::Midway };
                give(HttpPiece::Failure(broken, why(error)));
            }
        })
    }
}

/// An error with its causes. A URL may have secrets.
fn why(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut server = Remote::new(&std::env::args().nth(1).ok_or("usage: reqwest URL")?)?;
    if let Ok(key) = std::env::var("MCP_KEY") {
        server = server.header("x-key", &key)?;
    }
    let host = Host::new(Options::new("my-host", "1.0")).http(Reqwest::new()?);
    let session = Session::connect(server, host).await?;
    for tool in session.catalog().tools() {
        println!("{}", tool.name);
    }
    session.close().await;
    Ok(())
}
