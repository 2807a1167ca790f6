//! The user's side of `--oauth`: the browser, and redirects that are pasted.

use std::io;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use http::Request;
use http::header::CONTENT_TYPE;
use mcp_proto::binding::oauth::Stage;
use mcp_proto_tokio::{FileStore, OAuth};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::args::OAuthSettings;
use crate::text::write_stderr;

/// Lines of standard input, which is read from the first URL on that is shown.
pub(crate) struct Lines {
    sender: UnboundedSender<String>,
    lines: UnboundedReceiver<String>,
}

impl Lines {
    pub(crate) fn new() -> Self {
        let (sender, lines) = unbounded_channel();
        Self { sender, lines }
    }

    pub(crate) async fn next(&mut self) -> Option<String> {
        self.lines.recv().await
    }
}

/// How a run signs in: it shows each URL, and takes pasted redirects.
///
/// # Errors
/// What is wrong with the options.
pub(crate) fn sign_in(settings: &OAuthSettings, lines: &Lines) -> Result<OAuth, String> {
    let (sender, reads) = (lines.sender.clone(), Arc::new(AtomicBool::new(false)));
    let mut oauth = OAuth::new(settings.options(""), move |_, url| {
        browse(url.as_str());
        if !reads.swap(true, Ordering::Relaxed) {
            let sender = sender.clone();
            thread::spawn(move || io::stdin().lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        }
        // A redirect can be pasted without a browser.
        Ok(())
    });
    oauth = oauth.unheard(|redirect_uri, error| {
        let port = redirect_uri.parse().ok().and_then(|uri: http::Uri| uri.port_u16()).unwrap_or_default();
        write_stderr(&format!("probe: no redirect is received on port {port}, paste its URL here instead: {error}\n"));
    });
    if let Some(port) = settings.port {
        oauth = oauth.port(port);
    }
    if let Some(account) = &settings.account {
        oauth = oauth.account(account);
    }
    if let Some(path) = &settings.tokens {
        oauth = oauth.store(FileStore::new(path).map_err(|error| format!("--tokens: {}: {error}", path.display()))?);
    }
    Ok(oauth)
}

/// Shows a URL to the user: on standard error, and by the command in `BROWSER`.
fn browse(url: &str) {
    write_stderr(&format!("open: {url}\n"));
    if let Some(browser) = std::env::var("BROWSER").ok().filter(|browser| !browser.trim().is_empty())
        && let Err(error) = run(&browser, url)
    {
        write_stderr(&format!("probe: BROWSER: {error}\n"));
    }
}

/// Runs the command of `BROWSER` with the URL as its last argument.
fn run(browser: &str, url: &str) -> io::Result<()> {
    let mut words = browser.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    thread::spawn(move || child.wait());
    Ok(())
}

/// Whether a request of an authorization registers a client: the others are forms, or have no body.
pub(crate) fn is_registration(request: &Request<Vec<u8>>) -> bool {
    request.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "application/json")
}

/// What the user can do about an authorization that failed at this stage, and was not tried already.
pub(crate) fn advice(stage: Stage, oauth: Option<&OAuthSettings>) -> &'static str {
    let has_client = oauth.is_some_and(|oauth| oauth.client.is_some());
    let has_scopes = oauth.is_some_and(|oauth| oauth.scopes.is_some());
    match stage {
        Stage::ResourceMetadata => "The server's operator has to correct its metadata",
        Stage::ServerMetadata => "The operator of the authorization server has to correct its metadata",
        Stage::Registration if has_client => {
            "Check the client's ID, its secret and --issuer, or register a client there"
        }
        Stage::Registration => "Register a client there, and give its ID with --client-id",
        Stage::Authorization => "Run it again and authorize in the browser, or ask who administers the account",
        Stage::Token if has_client => "Run it again; if that fails, check the client's ID and secret, and the scopes",
        Stage::Token => "Run it again; if that fails, ask who administers the authorization server",
        Stage::Refresh => "Run it again and authorize anew",
        Stage::StepUp if has_scopes => "Ask who administers the account for the scopes that are named",
        Stage::StepUp => "Ask who administers the account for the scopes that are named, or give others with --scope",
        _ => "Run it again with --diagram to see the exchange",
    }
}
