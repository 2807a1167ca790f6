//! The user's side of `--oauth`: the browser, the redirect, standard input, and the file of credentials. What they yield
//! comes through one channel.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use mcp_proto::binding::oauth::{AuthorizationUrl, SaveOutcome, StoreAction, StoreId};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::oauth_args::OAuthSettings;
use crate::store::Store;

/// Bytes of a request's first line.
const LINE: u64 = 64 << 10;
const PATH: &str = "/callback";
const PAGE: &str =
    "<!doctype html><title>mcp-probe</title><p>The probe received the answer. You may close this page.</p>";

/// What came from the user or from the store. `at` is the index of the server.
pub(crate) enum Came {
    /// The browser was redirected.
    Redirect(String),
    /// A line of standard input.
    Line(String),
    Locked {
        at: usize,
        id: StoreId,
        lock: io::Result<File>,
    },
    Loaded {
        at: usize,
        id: StoreId,
        record: io::Result<Option<Vec<u8>>>,
    },
    Saved {
        at: usize,
        id: StoreId,
        saved: SaveOutcome,
    },
    Removed(io::Result<()>),
}

pub(crate) struct Access {
    sender: UnboundedSender<Came>,
    came: UnboundedReceiver<Came>,
    redirect_uri: String,
    /// The ports that are listened on.
    ports: BTreeSet<u16>,
    store: Option<Store>,
    locks: BTreeMap<usize, File>,
    /// How many actions on the store are in progress.
    unanswered: usize,
    /// The server whose URL is shown.
    shown: Option<usize>,
    reads_lines: bool,
    /// The URL of the only server.
    pub(crate) url: Option<String>,
}

impl Access {
    /// Listens for redirects.
    pub(crate) fn new(settings: &OAuthSettings) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, settings.port.unwrap_or(0)))?;
        let port = listener.local_addr()?.port();
        let (sender, came) = unbounded_channel();
        let mut access = Self {
            sender,
            came,
            redirect_uri: format!("http://127.0.0.1:{port}{PATH}"),
            ports: BTreeSet::new(),
            store: settings.tokens.as_deref().map(Store::new),
            locks: BTreeMap::new(),
            unanswered: 0,
            shown: None,
            reads_lines: false,
            url: None,
        };
        access.listen(port, PATH.into(), listener);
        Ok(access)
    }

    pub(crate) fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }

    /// Whether an action on the store is in progress.
    pub(crate) const fn uses_store(&self) -> bool {
        self.unanswered > 0
    }

    /// The server whose URL is shown.
    pub(crate) const fn shown(&self) -> Option<usize> {
        self.shown
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Came> {
        match self.came.poll_recv(context) {
            Poll::Ready(Some(came)) => {
                if !matches!(came, Came::Redirect(_) | Came::Line(_)) {
                    self.unanswered = self.unanswered.saturating_sub(1);
                }
                Poll::Ready(came)
            }
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }

    fn listen(&mut self, port: u16, path: String, listener: TcpListener) {
        self.ports.insert(port);
        let sender = self.sender.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if let Ok(Some(redirect)) = redirect(stream, &path) {
                    let _ = sender.send(Came::Redirect(redirect));
                }
            }
        });
    }

    /// Listens on the port of a redirect URI, which may be that of the server's entry, or of an earlier run.
    fn listen_for(&mut self, redirect_uri: &str) {
        let uri: Option<http::Uri> = redirect_uri.parse().ok();
        let Some(uri) = uri.filter(|uri| uri.scheme_str() == Some("http")) else { return };
        let Some(port) = uri.port_u16().filter(|port| !self.ports.contains(port)) else { return };
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(listener) => self.listen(port, uri.path().into(), listener),
            Err(error) => crate::output::write_stderr(&format!(
                "probe: no redirect is received on port {port}, paste its URL here instead: {error}\n"
            )),
        }
    }

    /// Shows a URL to the user: on standard error, and by the command in `BROWSER`.
    pub(crate) fn browse(&mut self, at: usize, url: &AuthorizationUrl) {
        self.shown = Some(at);
        self.listen_for(url.redirect_uri());
        let url = url.as_str();
        crate::output::write_stderr(&format!("open: {url}\n"));
        if let Some(browser) = std::env::var("BROWSER").ok().filter(|browser| !browser.trim().is_empty())
            && let Err(error) = run(&browser, url)
        {
            crate::output::write_stderr(&format!("probe: BROWSER: {error}\n"));
        }
        if !std::mem::replace(&mut self.reads_lines, true) {
            let sender = self.sender.clone();
            thread::spawn(move || {
                for line in io::stdin().lines().map_while(Result::ok) {
                    let _ = sender.send(Came::Line(line));
                }
            });
        }
    }

    /// The URL need not be shown any more.
    pub(crate) fn end_browsing(&mut self, at: usize) {
        self.shown.take_if(|shown| *shown == at);
    }

    /// Carries out an action on the store, without waiting for another process.
    pub(crate) fn store(&mut self, at: usize, server: &str, action: StoreAction) {
        let Some(store) = self.store.clone() else { return };
        let (sender, server) = (self.sender.clone(), server.to_owned());
        if !matches!(action, StoreAction::Release) {
            self.unanswered = self.unanswered.saturating_add(1);
        }
        match action {
            StoreAction::Acquire(id) => {
                thread::spawn(move || sender.send(Came::Locked { at, id, lock: store.lock() }));
            }
            StoreAction::Load(id) => {
                let _ = sender.send(Came::Loaded { at, id, record: store.load(&server) });
            }
            StoreAction::Save { id, record, replaces } if self.locks.contains_key(&at) => {
                let saved = store.save(&server, record.expose(), replaces);
                let _ = sender.send(Came::Saved { at, id, saved });
            }
            // After the user authorized the lock is not held.
            StoreAction::Save { id, record, replaces } => {
                thread::spawn(move || {
                    let saved = match store.lock() {
                        Ok(_lock) => store.save(&server, record.expose(), replaces),
                        Err(_) => SaveOutcome::Failed,
                    };
                    sender.send(Came::Saved { at, id, saved })
                });
            }
            StoreAction::Release => drop(self.locks.remove(&at)),
            StoreAction::Remove => {
                // The lock that this process has is released before.
                thread::spawn(move || {
                    let removed = store.lock().and_then(|_lock| store.remove(&server));
                    sender.send(Came::Removed(removed))
                });
            }
            _ => {}
        }
    }

    pub(crate) fn keep(&mut self, at: usize, lock: File) {
        self.locks.insert(at, lock);
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

/// Reads a request of the browser, and answers it. Returns its path and query if it is the redirect to this path.
fn redirect(stream: TcpStream, path: &str) -> io::Result<Option<String>> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.set_write_timeout(Some(Duration::from_secs(5)))?;
    let mut reader = BufReader::new(stream.take(LINE));
    let mut line = String::new();
    reader.read_line(&mut line)?;
    // The rest of the head is read so that closing does not reset the connection.
    let mut rest = String::new();
    while reader.read_line(&mut rest)? > 2 {
        rest.clear();
    }
    let target = line.strip_prefix("GET ").and_then(|line| line.split(' ').next());
    let found = target.filter(|target| target.split('?').next() == Some(path)).map(str::to_owned);
    let (status, page) = if found.is_some() { ("200 OK", PAGE) } else { ("404 Not Found", "") };
    let length = page.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    reader.into_inner().into_inner().write_all(format!("{head}{page}").as_bytes())?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(request: &str) -> (Option<String>, String) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut browser = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        browser.write_all(request.as_bytes()).unwrap();
        let found = redirect(listener.accept().unwrap().0, PATH).unwrap();
        let mut page = String::new();
        browser.read_to_string(&mut page).unwrap();
        (found, page)
    }

    #[test]
    fn the_redirect_is_taken_and_answered_without_its_secrets() {
        let (found, page) = visit("GET /callback?code=hush&state=s HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(found.as_deref(), Some("/callback?code=hush&state=s"));
        assert!(page.starts_with("HTTP/1.1 200 OK") && !page.contains("hush"), "{page}");
    }

    #[test]
    fn other_requests_are_not_the_redirect() {
        for request in ["GET /favicon.ico HTTP/1.1\r\n\r\n", "POST /callback HTTP/1.1\r\n\r\n", "\r\n\r\n"] {
            let (found, page) = visit(request);
            assert_eq!(found, None, "{request}");
            assert!(page.starts_with("HTTP/1.1 404"), "{page}");
        }
    }
}
