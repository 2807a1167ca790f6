//! The user's side of `--oauth`: the browser, and redirects that are pasted.

use std::io;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use http::Request;
use http::header::CONTENT_TYPE;
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

impl OAuthSettings {
    /// How a run signs in: it shows each URL, and takes pasted redirects.
    ///
    /// # Errors
    /// What is wrong with the options.
    pub(crate) fn sign_in(&self, lines: &Lines) -> Result<OAuth, String> {
        let (sender, reads) = (lines.sender.clone(), Arc::new(AtomicBool::new(false)));
        let mut oauth = OAuth::new(self.options(""), move |url| {
            browse(url.as_str());
            if !reads.swap(true, Ordering::Relaxed) {
                let sender = sender.clone();
                thread::spawn(move || io::stdin().lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
            }
        });
        if let Some(port) = self.port {
            oauth = oauth.port(port);
        }
        if let Some(path) = &self.tokens {
            oauth = oauth.store(FileStore::new(path).map_err(|error| format!("--tokens: {}: {error}", path.display()))?);
        }
        Ok(oauth)
    }
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
