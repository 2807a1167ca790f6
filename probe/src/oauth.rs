//! The user's side of `--oauth`: the redirect and the browser, requests, and the file of credentials.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::process::{Command, Stdio};
use std::task::{Context, Poll};
use std::thread;

use http::header::CONTENT_TYPE;
use mcp_proto::binding::oauth::{
    AuthorizationUrl, Grant, OAuthAction, OAuthError, OAuthEvent, OAuthInput, OAuthRequest, Stage, StoreAction,
};
use mcp_proto_tokio::{FileRecord, FileStore, Loopback, StoreResult};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use crate::args::OAuthSettings;
use crate::peer::{Io, Peer};
use crate::report::FailureReport;
use crate::run::Run;
use crate::text::write_stderr;
use crate::text_report;
use crate::web::Id;

/// What came from the user or from the store, with the index of the server.
pub(crate) enum Came {
    /// The browser was redirected; whether to the answer that is awaited goes back to its page.
    Redirect(String, oneshot::Sender<bool>),
    /// A line of standard input.
    Line(String),
    Stored(usize, StoreResult),
}

pub(crate) struct Access {
    sender: UnboundedSender<Came>,
    came: UnboundedReceiver<Came>,
    pub(crate) redirect_uri: String,
    /// Listens from the first URL on that is shown.
    loopback: Option<Loopback>,
    /// The ports that are listened on.
    ports: BTreeSet<u16>,
    store: Option<FileStore>,
    records: BTreeMap<usize, FileRecord>,
    /// How many actions on the store are in progress.
    unanswered: usize,
    /// The server whose URL is shown.
    pub(crate) shown: Option<usize>,
    reads_lines: bool,
}

impl Access {
    /// Takes a port for redirects.
    ///
    /// # Errors
    /// What is wrong with the options.
    pub(crate) fn new(settings: &OAuthSettings) -> Result<Self, String> {
        let store = settings
            .tokens
            .as_deref()
            .map(|path| FileStore::new(path).map_err(|error| format!("--tokens: {}: {error}", path.display())));
        let store = store.transpose()?;
        // The authorization server of a stored client may allow no other port than that of its registration.
        let stored = store.as_ref().map(FileStore::redirect_uris).unwrap_or_default();
        let stored = Loopback::ports(stored.iter().map(String::as_str));
        let ports = settings.port.map_or_else(|| [stored, vec![0]].concat(), |port| vec![port]);
        let loopback =
            Loopback::bind(ports).map_err(|error| format!("--oauth: no redirect can be received: {error}"))?;
        let (sender, came) = unbounded_channel();
        Ok(Self {
            sender,
            came,
            redirect_uri: loopback.redirect_uri(),
            ports: BTreeSet::from([loopback.port()]),
            loopback: Some(loopback),
            store,
            records: BTreeMap::new(),
            unanswered: 0,
            shown: None,
            reads_lines: false,
        })
    }

    /// Whether an action on the store is in progress.
    pub(crate) const fn uses_store(&self) -> bool {
        self.unanswered > 0
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Came> {
        match self.came.poll_recv(context) {
            Poll::Ready(Some(came)) => Poll::Ready(came),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }

    fn listen(&mut self, loopback: Loopback) {
        self.ports.insert(loopback.port());
        let sender = self.sender.clone();
        tokio::spawn(loopback.run(move |redirect| {
            let (judge, verdict) = oneshot::channel();
            let _ = sender.send(Came::Redirect(redirect, judge));
            async { verdict.await.unwrap_or(false) }
        }));
    }

    /// Listens on the port of a redirect URI, which may be that of the server's entry, or of an earlier run.
    fn listen_for(&mut self, redirect_uri: &str) {
        if let Some(loopback) = self.loopback.take() {
            self.listen(loopback);
        }
        let uri: Option<http::Uri> = redirect_uri.parse().ok();
        let Some(port) = uri.and_then(|uri| uri.port_u16()).filter(|port| !self.ports.contains(port)) else { return };
        match Loopback::of(redirect_uri) {
            Ok(loopback) => loopback.into_iter().for_each(|loopback| self.listen(loopback)),
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

    /// Carries out an action on the store.
    pub(crate) fn store(&mut self, at: usize, server: &str, action: StoreAction) {
        let Some(store) = &self.store else { return };
        let record = self.records.entry(at).or_insert_with(|| store.record(server));
        let Some(running) = record.start(action) else { return };
        self.unanswered = self.unanswered.saturating_add(1);
        let sender = self.sender.clone();
        tokio::spawn(async move { sender.send(Came::Stored(at, running.await)) });
    }

    /// Takes what came of an action on the store: the input that it is.
    pub(crate) fn stored<'a>(&mut self, at: usize, result: &'a StoreResult) -> Option<OAuthInput<'a>> {
        self.unanswered = self.unanswered.saturating_sub(1);
        self.records.get_mut(&at)?.finish(result).unwrap_or_else(|error| {
            write_stderr(&format!("probe: --tokens: the credentials were not removed: {error}\n"));
            None
        })
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

/// Whether a request registers a client: the others are forms, or have no body.
pub(crate) fn is_registration(request: &OAuthRequest) -> bool {
    request.request.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "application/json")
}

impl Run<'_> {
    /// Carries out an action of the authorization of a server.
    pub(crate) fn authorize(&mut self, io: &Io, at: usize, action: OAuthAction) {
        let (Some(access), Some(peer)) = (&mut self.access, self.peers.get_mut(at)) else { return };
        let _context = io.enter();
        match action {
            OAuthAction::Request(request) => {
                peer.saw_request(&request);
                peer.request_oauth(request);
            }
            OAuthAction::Drop(exchange) => peer.drop(Id::OAuth(exchange)),
            OAuthAction::Browse(url) => access.browse(at, &url),
            OAuthAction::EndBrowse => access.end_browsing(at),
            OAuthAction::Store(action) => {
                // Credentials are kept under the server's URL.
                let server = peer.site().map(|site| site.url.clone()).unwrap_or_default();
                access.store(at, &server, action);
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
