//! The user's side of `--oauth`: the redirect and the browser, requests, and the file of credentials.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use http::header::CONTENT_TYPE;
use mcp_proto::binding::oauth::{
    AuthorizationUrl, Grant, OAuthAction, OAuthError, OAuthEvent, OAuthExchangeId, OAuthInput, OAuthRequest,
    SaveOutcome, Stage, StoreAction, StoreId, stored_generation,
};
use mcp_proto::catalog::{Fingerprint, FingerprintKey};
use mcp_proto_tokio::HttpPiece;
use serde_json::value::RawValue;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::args::OAuthSettings;
use crate::peer::{Io, Peer};
use crate::raw::Members;
use crate::report::FailureReport;
use crate::run::Run;
use crate::text::write_stderr;
use crate::text_report;
use crate::web::Id;

/// Bytes of the head of a browser's request.
const HEAD: usize = 64 << 10;
/// How long a connection of a browser may take to send its request, and then the probe to judge it.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections that are served side by side.
const CONNECTIONS: usize = 256;
const PATH: &str = "/callback";
const ACCEPTED: &str = "The probe received the answer. You may close this page.";
const REFUSED: &str = "This is not the answer that the probe waits for, and nothing was done.";

/// What came from the user or from the store, with the index of the server.
pub(crate) enum Came {
    /// The browser was redirected; whether to the answer that is awaited goes back to its page.
    Redirect(String, mpsc::Sender<bool>),
    /// A line of standard input.
    Line(String),
    Locked(usize, StoreId, io::Result<File>),
    Loaded(usize, StoreId, io::Result<Option<Vec<u8>>>),
    Saved(usize, StoreId, SaveOutcome),
    Removed(io::Result<()>),
}

pub(crate) struct Access {
    sender: UnboundedSender<Came>,
    came: UnboundedReceiver<Came>,
    pub(crate) redirect_uri: String,
    /// The ports that are listened on.
    ports: BTreeSet<u16>,
    store: Option<Store>,
    locks: BTreeMap<usize, File>,
    /// How many actions on the store are in progress.
    unanswered: usize,
    /// The server whose URL is shown.
    pub(crate) shown: Option<usize>,
    reads_lines: bool,
}

impl Access {
    /// Listens for redirects.
    ///
    /// # Errors
    /// What is wrong with the options.
    pub(crate) fn new(settings: &OAuthSettings) -> Result<Self, String> {
        let store = settings.tokens.as_deref().map(Store::new);
        let unread = |store: &Store, error| format!("--tokens: {}: {error}", store.path.display());
        let stored = store.as_ref().map(|store| store.records().map_err(|error| unread(store, error))).transpose()?;
        let stored = stored.iter().flat_map(Records::values).filter_map(|record| redirect_port(record));
        // The authorization server of a stored client may allow no other port than that of its registration.
        let ports = settings.port.map_or_else(|| stored.chain([0]).collect(), |port| vec![port]);
        let addresses: Vec<SocketAddr> = ports.into_iter().map(|port| (Ipv4Addr::LOCALHOST, port).into()).collect();
        // Binds the first one that is free.
        let bound = TcpListener::bind(&*addresses);
        let bound = bound.and_then(|listener| Ok((listener.local_addr()?.port(), listener)));
        let (port, listener) = bound.map_err(|error| format!("--oauth: no redirect can be received: {error}"))?;
        let (sender, came) = unbounded_channel();
        let mut access = Self {
            sender,
            came,
            redirect_uri: format!("http://127.0.0.1:{port}{PATH}"),
            ports: BTreeSet::new(),
            store,
            locks: BTreeMap::new(),
            unanswered: 0,
            shown: None,
            reads_lines: false,
        };
        access.listen(port, PATH.into(), listener);
        Ok(access)
    }

    /// Whether an action on the store is in progress.
    pub(crate) const fn uses_store(&self) -> bool {
        self.unanswered > 0
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Came> {
        match self.came.poll_recv(context) {
            Poll::Ready(Some(came)) => {
                if !matches!(came, Came::Redirect(..) | Came::Line(_)) {
                    self.unanswered = self.unanswered.saturating_sub(1);
                }
                Poll::Ready(came)
            }
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }

    fn listen(&mut self, port: u16, path: String, listener: TcpListener) {
        self.ports.insert(port);
        let (sender, path) = (self.sender.clone(), Arc::<str>::from(path));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // Each connection has a clone of it.
                if Arc::strong_count(&path) > CONNECTIONS {
                    continue;
                }
                let (sender, path) = (sender.clone(), Arc::clone(&path));
                // One that cannot be served is closed.
                let _ = thread::Builder::new().spawn(move || serve(stream, &path, &sender));
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
            Err(error) => write_stderr(&format!(
                "probe: no redirect is received on port {port}, paste its URL here instead: {error}\n"
            )),
        }
    }

    /// Shows a URL to the user: on standard error, and by the command in `BROWSER`.
    pub(crate) fn browse(&mut self, at: usize, url: &AuthorizationUrl) {
        self.shown = Some(at);
        self.listen_for(url.redirect_uri());
        let url = url.as_str();
        write_stderr(&format!("open: {url}\n"));
        if let Some(browser) = std::env::var("BROWSER").ok().filter(|browser| !browser.trim().is_empty())
            && let Err(error) = run(&browser, url)
        {
            write_stderr(&format!("probe: BROWSER: {error}\n"));
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
    pub(crate) fn store(&mut self, at: usize, server: String, action: StoreAction) {
        let Some(store) = self.store.clone() else { return };
        let sender = self.sender.clone();
        if !matches!(action, StoreAction::Release) {
            self.unanswered = self.unanswered.saturating_add(1);
        }
        match action {
            StoreAction::Acquire(id) => {
                thread::spawn(move || sender.send(Came::Locked(at, id, store.lock(&server))));
            }
            StoreAction::Load(id) => {
                let _ = sender.send(Came::Loaded(at, id, store.load(&server)));
            }
            StoreAction::Save { id, record, replaces } => {
                // After the user authorized the lock is not held.
                let is_held = self.locks.contains_key(&at);
                thread::spawn(move || {
                    let lock = if is_held { Ok(None) } else { store.lock(&server).map(Some) };
                    let saved = match lock.and_then(|_lock| store.save(&server, record.expose(), replaces)) {
                        Ok(true) => SaveOutcome::Stored,
                        Ok(false) => SaveOutcome::Conflict,
                        Err(_) => SaveOutcome::Failed,
                    };
                    sender.send(Came::Saved(at, id, saved))
                });
            }
            StoreAction::Release => drop(self.locks.remove(&at)),
            // While tokens are revoked the lock is held.
            StoreAction::Remove if self.locks.contains_key(&at) => {
                let _ = sender.send(Came::Removed(store.remove(&server)));
            }
            StoreAction::Remove => {
                thread::spawn(move || {
                    let removed = store.lock(&server).and_then(|_lock| store.remove(&server));
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

/// Reads a request of a browser, and answers it. A redirect to this path is judged by the run.
fn serve(mut stream: TcpStream, path: &str, sender: &UnboundedSender<Came>) -> io::Result<()> {
    let head = head(&mut stream)?;
    let target = head.strip_prefix("GET ").and_then(|line| line.split(' ').next());
    let (status, text) = match target.filter(|target| target.split('?').next() == Some(path)) {
        None => ("404 Not Found", ""),
        Some(redirect) => {
            let (judge, verdict) = mpsc::channel();
            let _ = sender.send(Came::Redirect(redirect.into(), judge));
            let is_accepted = verdict.recv_timeout(PATIENCE).unwrap_or(false);
            if is_accepted { ("200 OK", ACCEPTED) } else { ("400 Bad Request", REFUSED) }
        }
    };
    let page = format!("<!doctype html><title>mcp-probe</title><p>{text}</p>");
    let length = page.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{head}{page}").as_bytes())
}

/// The head of a request. All of it is read, because closing would reset the connection otherwise.
fn head(stream: &mut TcpStream) -> io::Result<String> {
    let start = Instant::now();
    let (mut head, mut buffer) = (Vec::new(), [0; 4096]);
    while head.len() < HEAD {
        let rest = PATIENCE.checked_sub(start.elapsed()).filter(|rest| !rest.is_zero());
        stream.set_read_timeout(Some(rest.ok_or(ErrorKind::TimedOut)?))?;
        let read = stream.read(&mut buffer)?;
        // What came before may have the beginning of the blank line.
        let known = head.len().saturating_sub(3);
        head.extend_from_slice(buffer.get(..read).unwrap_or_default());
        if head.get(known..).is_some_and(|tail| tail.windows(4).any(|bytes| bytes == b"\r\n\r\n")) {
            return Ok(String::from_utf8_lossy(&head).into_owned());
        }
        if read == 0 {
            break;
        }
    }
    Err(ErrorKind::InvalidData.into())
}

/// Whether a request registers a client: the others are forms, or have no body.
pub(crate) fn is_registration(request: &OAuthRequest) -> bool {
    request.request.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "application/json")
}

/// The input of a piece of an exchange.
pub(crate) fn input_of(exchange: OAuthExchangeId, piece: &HttpPiece) -> OAuthInput<'_> {
    match piece {
        HttpPiece::Head(status, headers) => OAuthInput::Head { exchange, status: *status, headers },
        HttpPiece::Body(chunk) => OAuthInput::Body { exchange, chunk },
        HttpPiece::End => OAuthInput::End { exchange },
        HttpPiece::Failure(_, why) => OAuthInput::Failure { exchange, why },
    }
}

impl Run<'_> {
    /// Carries out an action of the authorization of a server.
    pub(crate) fn authorize(&mut self, io: &Io, at: usize, action: OAuthAction) {
        let (Some(access), Some(peer)) = (&mut self.access, self.peers.get_mut(at)) else { return };
        match action {
            OAuthAction::Request(request) => {
                peer.saw_request(&request);
                let _context = io.enter();
                peer.request_oauth(request);
            }
            OAuthAction::Drop(exchange) => peer.drop(Id::OAuth(exchange)),
            OAuthAction::Browse(url) => access.browse(at, &url),
            OAuthAction::Unbrowse => access.end_browsing(at),
            OAuthAction::Store(action) => {
                // Credentials are kept under the server's URL.
                let server = peer.site().map(|site| site.url.clone()).unwrap_or_default();
                access.store(at, server, action);
            }
            OAuthAction::Event(event) => self.authorization_event(at, event),
            // The probe has no keys.
            OAuthAction::Sign(_) | _ => {}
        }
    }

    fn authorization_event(&mut self, at: usize, event: OAuthEvent) {
        let Some(peer) = self.peers.get_mut(at) else { return };
        match event {
            OAuthEvent::Authorized(grant) => peer.authorized(grant),
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
                write_stderr("probe: --tokens: the record of this server cannot be read, and is replaced\n");
            }
            OAuthEvent::NotStored => {
                write_stderr("probe: --tokens: the credentials were not stored, and end with this run\n");
            }
            OAuthEvent::NotRevoked(why) => {
                write_stderr(&format!("probe: --sign-out: a token was not revoked, and may still be valid: {why}\n"));
            }
            _ => {}
        }
    }

    /// A server that demands a token has none.
    fn unauthorized(&mut self, at: usize, error: &OAuthError) {
        let is_hub = self.is_hub();
        let Some(peer) = self.peers.get_mut(at) else { return };
        let text = peer.unauthorized(error, self.settings.oauth.as_ref());
        if is_hub {
            self.announce(at, &text);
            self.proceed();
        } else {
            self.close();
        }
    }
}

impl Peer {
    /// A request of the authorization is sent.
    pub(crate) fn saw_request(&mut self, request: &OAuthRequest) {
        if is_registration(request) {
            self.record.authorization.get_or_insert_default().registers();
        }
    }

    /// There is a token.
    pub(crate) fn authorized(&mut self, grant: Grant) {
        self.trace.note(format!("authorized: {}", grant.kind.as_str()));
        self.record.authorization.get_or_insert_default().granted(grant);
    }

    /// The server demands a token, and there is none. Returns what the user is told.
    pub(crate) fn unauthorized(&mut self, error: &OAuthError, oauth: Option<&OAuthSettings>) -> String {
        let kind = if error.stage == Stage::StepUp { "forbidden" } else { "unauthorized" };
        let advice = text_report::authorization(error.stage, oauth);
        let is_metadata = matches!(error.stage, Stage::ResourceMetadata | Stage::ServerMetadata);
        let steps = if is_metadata { "; `probe auth URL` shows each step" } else { "" };
        let message = format!("{error}. {advice}{steps}");
        let text = format!("failed: {kind}: {message}");
        self.record.failure = Some(FailureReport { kind: kind.into(), message });
        self.is_authorizing = false;
        text
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

    /// Waits for the lock of a server's record, which the file holds until it is dropped. A lock is never removed:
    /// another process may wait for it.
    pub(crate) fn lock(&self, server: &str) -> io::Result<File> {
        let name = Fingerprint::of(FingerprintKey::new([0; 16]), server.as_bytes());
        self.lock_file(&format!("{name}.lock"))
    }

    fn lock_file(&self, ending: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true);
        let file = owned(&mut options).open(self.beside(ending))?;
        file.lock()?;
        Ok(file)
    }

    /// The record of a server.
    pub(crate) fn load(&self, server: &str) -> io::Result<Option<Vec<u8>>> {
        Ok(self.records()?.get(server).map(|record| record.get().as_bytes().to_vec()))
    }

    /// Replaces the record of a server if it has this generation, and says whether it had. The caller holds its lock.
    pub(crate) fn save(&self, server: &str, record: &[u8], replaces: u64) -> io::Result<bool> {
        let record = serde_json::from_slice(record)?;
        self.change(|records| {
            let known = records.get(server).map_or(0, |known| stored_generation(known.get().as_bytes()));
            let fits = known == replaces;
            if fits {
                records.insert(server.to_owned(), record);
            }
            fits
        })
    }

    /// Removes the record of a server. The caller holds its lock.
    pub(crate) fn remove(&self, server: &str) -> io::Result<()> {
        self.change(|records| records.remove(server).is_some()).map(drop)
    }

    /// Replaces the file, if its records are changed. Its own lock is held for no longer than that takes.
    fn change(&self, change: impl FnOnce(&mut Records) -> bool) -> io::Result<bool> {
        let _lock = self.lock_file("lock")?;
        let mut records = self.records()?;
        if !change(&mut records) {
            return Ok(false);
        }
        let temporary = self.beside(&format!("{}.tmp", std::process::id()));
        let written = replace(&temporary, &serde_json::to_vec(&records)?, &self.path);
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written.map(|()| true)
    }

    /// The records by the URLs of their servers.
    ///
    /// # Errors
    /// The file is not one of credentials, and must not be replaced.
    fn records(&self) -> io::Result<Records> {
        let text = match fs::read(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            text => text?,
        };
        if text.trim_ascii().is_empty() {
            return Ok(Records::new());
        }
        let records: Option<Records> = serde_json::from_slice(&text).ok();
        let foreign = "there is something else in it than credentials, so it is left as it is: give another file";
        let own = records.filter(|records| {
            let mut records = records.iter();
            records
                .all(|(server, record)| server.starts_with("http") && Members::of(record).get("generation").is_some())
        });
        own.ok_or_else(|| io::Error::new(ErrorKind::InvalidData, foreign))
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{ending}"));
        self.path.with_file_name(name)
    }
}

/// The port of the redirect that the client of a record is registered with, if it comes to the probe.
fn redirect_port(record: &RawValue) -> Option<u16> {
    let redirect = Members::of(Members::of(record).get("client")?).string("redirect_uri")?;
    redirect.strip_prefix("http://127.0.0.1:")?.strip_suffix(PATH)?.parse().ok()
}

/// Writes a new file, and puts it in the place of another one.
fn replace(temporary: &Path, text: &[u8], path: &Path) -> io::Result<()> {
    let _ = fs::remove_file(temporary);
    let mut options = OpenOptions::new();
    options.create_new(true).write(true);
    let mut file = owned(&mut options).open(temporary)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(temporary, path)?;
    // The new name is kept for certain only once the folder is on disk, too, which not every system can tell.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
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

    /// What a request is answered with, and the redirect that it was; `accepts` judges it.
    fn visit(request: &str, accepts: bool) -> (Option<String>, String) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut browser = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        browser.write_all(request.as_bytes()).unwrap();
        let (sender, mut came) = unbounded_channel();
        let server = thread::spawn(move || serve(listener.accept().unwrap().0, PATH, &sender));
        let found = came.blocking_recv().map(|came| {
            let Came::Redirect(redirect, judge) = came else { panic!("something else came") };
            judge.send(accepts).unwrap();
            redirect
        });
        server.join().unwrap().unwrap();
        let mut page = String::new();
        browser.read_to_string(&mut page).unwrap();
        (found, page)
    }

    #[test]
    fn the_port_of_a_stored_client_is_used_again_while_it_is_free() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let path = std::env::temp_dir().join(format!("mcp-probe-{}-ports", std::process::id()));
        let record = |redirect: &str| format!(r#"{{"generation":1,"client":{{"redirect_uri":"{redirect}"}}}}"#);
        let (own, other) = (record(&format!("http://127.0.0.1:{port}{PATH}")), record("https://app.example/callback"));
        fs::write(&path, format!(r#"{{"https://a.example/mcp":{other},"https://b.example/mcp":{own}}}"#)).unwrap();
        let used = || {
            let mut settings = OAuthSettings::default();
            settings.tokens = Some(path.clone());
            Access::new(&settings).unwrap().redirect_uri
        };
        let at_port = format!("http://127.0.0.1:{port}{PATH}");
        assert_ne!(used(), at_port);
        drop(taken);
        assert_eq!(used(), at_port);
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn only_the_redirect_is_judged_and_answered_without_its_secrets() {
        for (request, accepts, is_redirect, status) in [
            ("GET /callback?code=hush&state=s HTTP/1.1\r\nHost: a\r\n\r\n", true, true, "200 OK"),
            ("GET /callback?code=hush&state=s HTTP/1.1\r\n\r\n", false, true, "400 Bad Request"),
            ("GET /favicon.ico HTTP/1.1\r\n\r\n", true, false, "404"),
            ("POST /callback HTTP/1.1\r\n\r\n", true, false, "404"),
            ("\r\n\r\n", true, false, "404"),
        ] {
            let (found, page) = visit(request, accepts);
            assert_eq!(found, is_redirect.then(|| "/callback?code=hush&state=s".into()), "{request}");
            assert!(page.starts_with(&format!("HTTP/1.1 {status}")) && !page.contains("hush"), "{page}");
        }
    }

    /// A store in a folder of its own.
    fn store(name: &str) -> Store {
        let folder = std::env::temp_dir().join(format!("mcp-probe-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        Store::new(&folder.join("tokens.json"))
    }

    const A: &str = "https://a.example/mcp";
    const B: &str = "https://b.example/mcp";

    fn record(generation: u64) -> Vec<u8> {
        format!(r#"{{"generation":{generation},"access_token":"x"}}"#).into_bytes()
    }

    #[test]
    fn each_server_has_its_record_and_a_record_of_another_generation_is_not_replaced() {
        let store = store("records");
        assert_eq!(store.load(A).unwrap(), None);
        for (server, generation, replaces, is_stored) in
            [(A, 1, 0, true), (B, 7, 0, true), (A, 2, 0, false), (A, 2, 1, true)]
        {
            assert_eq!(store.save(server, &record(generation), replaces).unwrap(), is_stored, "{server} {generation}");
        }
        assert_eq!((store.load(A).unwrap(), store.load(B).unwrap()), (Some(record(2)), Some(record(7))));
        let left = fs::read_dir(store.path.parent().unwrap()).unwrap().map(|file| file.unwrap().file_name());
        assert!(left.into_iter().all(|name| !name.to_string_lossy().ends_with("tmp")), "no file is left over");
        store.remove(A).unwrap();
        store.remove(A).unwrap();
        assert_eq!((store.load(A).unwrap(), store.load(B).unwrap()), (None, Some(record(7))));
    }

    #[test]
    fn a_file_of_something_else_is_left_as_it_is_and_a_folder_that_does_not_exist_fails() {
        let store = store("foreign");
        for text in ["no json", "[]", r#"{"mcpServers":{}}"#, r#"{"https://a.example":{"token":"x"}}"#] {
            fs::write(&store.path, text).unwrap();
            assert!(
                store.load(A).is_err() && store.save(A, &record(1), 0).is_err() && store.remove(A).is_err(),
                "{text}"
            );
            assert_eq!(fs::read_to_string(&store.path).unwrap(), text);
        }
        fs::write(&store.path, " \n").unwrap();
        assert!(store.save(A, &record(1), 0).unwrap(), "an empty file is one of no credentials");
        let store = Store::new(Path::new("/nonexistent/tokens.json"));
        assert!(store.save(A, &record(1), 0).is_err() && store.lock(A).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn the_files_are_readable_by_their_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let store = store("owner");
        fs::write(&store.path, "{}").unwrap();
        fs::set_permissions(&store.path, fs::Permissions::from_mode(0o644)).unwrap();
        let _lock = store.lock(A).unwrap();
        assert!(store.save(A, &record(1), 0).unwrap());
        for file in fs::read_dir(store.path.parent().unwrap()).unwrap().map(Result::unwrap) {
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{}", file.path().display());
        }
    }

    #[test]
    fn the_lock_of_a_record_delays_no_other_record() {
        let store = store("lock");
        let held = store.lock(A).unwrap();
        let (other, is_free) = (store.clone(), mpsc::channel());
        let waiting = thread::spawn(move || other.lock(A).map(|_lock| is_free.0.send(())));
        let _other = store.lock(B).unwrap();
        assert!(store.save(B, &record(1), 0).unwrap());
        assert!(is_free.1.try_recv().is_err(), "the lock is held until it is dropped");
        drop(held);
        waiting.join().unwrap().unwrap().unwrap();
    }
}
