//! The user's side of `--oauth`: the redirect and the browser, requests, and the file of credentials.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use mcp_proto::binding::oauth::{
    AuthorizationUrl, OAuthAction, OAuthError, OAuthEvent, OAuthExchangeId, OAuthInput, SaveOutcome, Stage,
    StoreAction, StoreId, stored_generation,
};
use mcp_proto::host::config::Endpoint;
use serde_json::value::RawValue;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::args::OAuthSettings;
use crate::peer::Io;
use crate::report::FailureReport;
use crate::run::Run;
use crate::text_report;
use crate::web::Piece;

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
            Err(error) => crate::text::write_stderr(&format!(
                "probe: no redirect is received on port {port}, paste its URL here instead: {error}\n"
            )),
        }
    }

    /// Shows a URL to the user: on standard error, and by the command in `BROWSER`.
    pub(crate) fn browse(&mut self, at: usize, url: &AuthorizationUrl) {
        self.shown = Some(at);
        self.listen_for(url.redirect_uri());
        let url = url.as_str();
        crate::text::write_stderr(&format!("open: {url}\n"));
        if let Some(browser) = std::env::var("BROWSER").ok().filter(|browser| !browser.trim().is_empty())
            && let Err(error) = run(&browser, url)
        {
            crate::text::write_stderr(&format!("probe: BROWSER: {error}\n"));
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
            // While tokens are revoked the lock is held.
            StoreAction::Remove if self.locks.contains_key(&at) => {
                let _ = sender.send(Came::Removed(store.remove(&server)));
            }
            StoreAction::Remove => {
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

/// The input of a piece of an exchange.
pub(crate) fn input_of(exchange: OAuthExchangeId, piece: &Piece) -> OAuthInput<'_> {
    match piece {
        Piece::Head(status, headers) => OAuthInput::Head { exchange, status: *status, headers },
        Piece::Body(chunk) => OAuthInput::Body { exchange, chunk },
        Piece::End => OAuthInput::End { exchange },
        Piece::Failure(_, why) => OAuthInput::Failure { exchange, why },
    }
}

impl Run<'_> {
    /// Carries out an action of the authorization of a server.
    pub(crate) fn authorize(&mut self, io: &Io, at: usize, action: OAuthAction) {
        let server = self.server_url(at);
        let (Some(access), Some(peer)) = (&mut self.access, self.peers.get_mut(at)) else { return };
        match action {
            OAuthAction::Request(request) => {
                let _context = io.enter();
                peer.request_oauth(request);
            }
            OAuthAction::Drop(exchange) => peer.drop_oauth(exchange),
            OAuthAction::Browse(url) => access.browse(at, &url),
            OAuthAction::Unbrowse => access.end_browsing(at),
            OAuthAction::Store(action) => access.store(at, &server, action),
            OAuthAction::Event(event) => self.authorization_event(at, event),
            // The probe has no keys.
            OAuthAction::Sign(_) | _ => {}
        }
    }

    /// The URL of a server, under which its credentials are kept.
    fn server_url(&self, at: usize) -> String {
        let only = self.access.as_ref().and_then(|access| access.url.clone());
        let entry = self.engine.entry(at).map(|entry| &entry.endpoint);
        match (only, entry) {
            (None, Some(Endpoint::Http(http))) => http.url.to_string(),
            (only, _) => only.unwrap_or_default(),
        }
    }

    fn authorization_event(&mut self, at: usize, event: OAuthEvent) {
        let Some(peer) = self.peers.get_mut(at) else { return };
        match event {
            OAuthEvent::Authorized(grant) => {
                peer.trace.note(format!("authorized: {}", grant.kind.as_str()));
                peer.record.authorization.get_or_insert_default().granted(grant);
            }
            // A sign-out is no failure of the run.
            OAuthEvent::Failed(_) if self.is_signing_out => {}
            OAuthEvent::Failed(error) => {
                peer.trace.note(error.to_string());
                peer.record.authorization.get_or_insert_default().failed(&error);
                // Closing ends it, too.
                if !peer.record.ready && self.closing.is_none() {
                    self.unauthorized(at, &error);
                }
            }
            OAuthEvent::ChallengeIgnored(why) => peer.trace.note(format!("the challenge is not followed: {why}")),
            OAuthEvent::RecordUnreadable => {
                crate::text::write_stderr("probe: --tokens: the file cannot be read, and is replaced\n");
            }
            OAuthEvent::NotStored => {
                crate::text::write_stderr("probe: --tokens: the credentials were not stored, and end with this run\n");
            }
            OAuthEvent::NotRevoked(why) => {
                crate::text::write_stderr(&format!(
                    "probe: --sign-out: a token was not revoked, and may still be valid: {why}\n"
                ));
            }
            _ => {}
        }
    }

    /// A server that demands a token has none.
    fn unauthorized(&mut self, at: usize, error: &OAuthError) {
        let is_hub = self.is_hub();
        let Some(peer) = self.peers.get_mut(at) else { return };
        let kind = if error.stage == Stage::StepUp { "forbidden" } else { "unauthorized" };
        let message = format!("{error}. {}", text_report::authorization(error.stage));
        let text = format!("failed: {kind}: {message}");
        peer.record.failure = Some(FailureReport { kind: kind.into(), message });
        peer.is_authorizing = false;
        if is_hub {
            self.announce(at, &text);
            self.proceed();
        } else {
            self.close();
        }
    }
}

/// A file of credentials. Clones are the same file.
#[derive(Clone)]
pub(crate) struct Store {
    path: PathBuf,
}

type Records = BTreeMap<String, Box<RawValue>>;

impl Store {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Waits for the lock, which the file holds until it is dropped. A lock is never removed: another process may wait
    /// for it.
    pub(crate) fn lock(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true);
        let file = owned(&mut options).open(self.beside("lock"))?;
        file.lock()?;
        Ok(file)
    }

    /// The record of a server.
    pub(crate) fn load(&self, server: &str) -> io::Result<Option<Vec<u8>>> {
        let Some(text) = self.text()? else { return Ok(None) };
        match serde_json::from_slice::<Records>(&text) {
            Ok(records) => Ok(records.get(server).map(|record| record.get().as_bytes().to_vec())),
            // The library reports that it cannot be read.
            Err(_) => Ok(Some(text)),
        }
    }

    /// Replaces the record of a server if it has this generation. The caller holds the lock.
    pub(crate) fn save(&self, server: &str, record: &[u8], replaces: u64) -> SaveOutcome {
        let known = self.load(server).map(|known| known.as_deref().map_or(0, stored_generation));
        match known {
            Ok(known) if known != replaces => SaveOutcome::Conflict,
            Ok(_) if self.write(server, record).is_ok() => SaveOutcome::Stored,
            Ok(_) | Err(_) => SaveOutcome::Failed,
        }
    }

    /// Removes the record of a server. The caller holds the lock.
    pub(crate) fn remove(&self, server: &str) -> io::Result<()> {
        if self.load(server)?.is_none() {
            return Ok(());
        }
        self.change(|records| drop(records.remove(server)))
    }

    fn write(&self, server: &str, record: &[u8]) -> io::Result<()> {
        let record = serde_json::from_slice(record)?;
        self.change(|records| drop(records.insert(server.to_owned(), record)))
    }

    /// Replaces the file. What cannot be read is not kept.
    fn change(&self, change: impl FnOnce(&mut Records)) -> io::Result<()> {
        let text = self.text()?.unwrap_or_default();
        let mut records: Records = serde_json::from_slice(&text).unwrap_or_default();
        change(&mut records);
        let temporary = self.beside(&format!("{}.tmp", std::process::id()));
        let written = replace(&temporary, &serde_json::to_vec(&records)?, &self.path);
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    fn text(&self) -> io::Result<Option<Vec<u8>>> {
        match fs::read(&self.path) {
            Ok(text) => Ok(Some(text).filter(|text| !text.is_empty())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{ending}"));
        self.path.with_file_name(name)
    }
}

/// Writes a new file, and puts it in the place of another one.
fn replace(temporary: &Path, text: &[u8], path: &Path) -> io::Result<()> {
    let _ = fs::remove_file(temporary);
    let mut options = OpenOptions::new();
    options.create_new(true).write(true);
    let mut file = owned(&mut options).open(temporary)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(temporary, path)
}

/// A file that is created is readable by its owner alone.
#[cfg(unix)]
fn owned(options: &mut OpenOptions) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(0o600)
}

#[cfg(not(unix))]
fn owned(options: &mut OpenOptions) -> &mut OpenOptions {
    options
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

    /// A store in a folder of its own.
    fn store(name: &str) -> Store {
        let folder = std::env::temp_dir().join(format!("mcp-probe-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        Store::new(&folder.join("tokens.json"))
    }

    fn record(generation: u64) -> Vec<u8> {
        format!(r#"{{"generation":{generation},"access_token":"x"}}"#).into_bytes()
    }

    #[test]
    fn each_server_has_its_record_and_a_record_of_another_generation_is_not_replaced() {
        let store = store("records");
        assert_eq!(store.load("a").unwrap(), None);
        assert_eq!(store.save("a", &record(1), 0), SaveOutcome::Stored);
        assert_eq!(store.save("b", &record(7), 0), SaveOutcome::Stored);
        assert_eq!(store.save("a", &record(2), 0), SaveOutcome::Conflict);
        assert_eq!(store.save("a", &record(2), 1), SaveOutcome::Stored);
        assert_eq!(store.load("a").unwrap(), Some(record(2)));
        assert_eq!(store.load("b").unwrap(), Some(record(7)));
        let files: Vec<_> = fs::read_dir(store.path.parent().unwrap()).unwrap().collect();
        assert_eq!(files.len(), 1, "no file is left over");
    }

    #[test]
    fn a_file_that_cannot_be_read_is_reported_and_replaced() {
        let store = store("unreadable");
        fs::write(&store.path, "no json").unwrap();
        assert_eq!(store.load("a").unwrap(), Some(b"no json".to_vec()));
        assert_eq!(store.save("a", &record(1), 0), SaveOutcome::Stored);
        assert_eq!(store.load("a").unwrap(), Some(record(1)));
    }

    #[test]
    fn a_record_that_is_removed_leaves_those_of_other_servers() {
        let store = store("removed");
        store.remove("a").unwrap();
        assert_eq!(store.save("a", &record(1), 0), SaveOutcome::Stored);
        assert_eq!(store.save("b", &record(7), 0), SaveOutcome::Stored);
        store.remove("a").unwrap();
        assert_eq!(store.load("a").unwrap(), None);
        assert_eq!(store.load("b").unwrap(), Some(record(7)));
    }

    #[test]
    fn a_store_whose_folder_does_not_exist_fails() {
        let store = Store::new(Path::new("/nonexistent/tokens.json"));
        assert_eq!(store.save("a", &record(1), 0), SaveOutcome::Failed);
        assert!(store.lock().is_err());
    }

    #[cfg(unix)]
    #[test]
    fn the_files_are_readable_by_their_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let store = store("owner");
        fs::write(&store.path, "{}").unwrap();
        fs::set_permissions(&store.path, fs::Permissions::from_mode(0o644)).unwrap();
        let lock = store.lock().unwrap();
        assert_eq!(store.save("a", &record(1), 0), SaveOutcome::Stored);
        for file in [store.path.clone(), store.beside("lock")] {
            assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "{}", file.display());
        }
        drop(lock);
    }

    #[test]
    fn the_lock_is_held_until_it_is_dropped() {
        let store = store("lock");
        let held = store.lock().unwrap();
        let other = OpenOptions::new().write(true).open(store.beside("lock")).unwrap();
        assert!(matches!(other.try_lock(), Err(fs::TryLockError::WouldBlock)));
        drop(held);
        assert!(other.try_lock().is_ok());
    }
}
