//! Sign-ins by OAuth: the user's browser, requests, and the file of credentials.

mod loopback;
mod store;

use std::collections::BTreeMap;
use std::fmt;
use std::future::ready;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};
use std::{io, mem};

use mcp_proto::Time;
use mcp_proto::binding::oauth::{
    AuthorizationUrl, Flow, OAuthEvent, OAuthExchangeId, OAuthInput, OAuthOptions, OAuthRequest, StoreAction,
};
use mcp_proto::host::hub::SessionHandle;
use rustls::crypto::ring;
use tokio::runtime::Handle as Runtime;
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinHandle, spawn_blocking};

use crate::http::{HttpPiece, HttpTransport, Purpose, to_its_end};
use crate::queue::{Queue, Reports};

pub use loopback::Loopback;
pub use store::{FileRecord, FileStore, StoreResult};

/// The wall clock is reported when it differs by this from the time that passed: the machine slept, or it was set.
const DRIFT: Duration = Duration::from_secs(5);

/// Opens a URL in the user's browser, for the server of this name.
type Open = Arc<dyn Fn(&str, &AuthorizationUrl) -> io::Result<()> + Send + Sync>;

/// Is told of a redirect URI that cannot be listened at.
type Unheard = Arc<dyn Fn(&str, &io::Error) + Send + Sync>;

/// How a client signs in at its server, for [`Host::oauth`](crate::Host::oauth).
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use mcp_proto::Options;
/// use mcp_proto::binding::oauth::{AuthorizationUrl, OAuthOptions};
/// use mcp_proto_tokio::{FileStore, Host, OAuth, Remote, Session};
///
/// let open = |server: &str, url: &AuthorizationUrl| {
///     println!("to sign in at {server}, open {}", url.as_str());
///     Ok(())
/// };
/// let oauth = OAuth::new(OAuthOptions::new("My Host", ""), open);
/// let oauth = oauth.store(FileStore::new("credentials.json")?);
/// let host = Host::new(Options::new("my-host", "1.0")).oauth(oauth);
/// let session = Session::connect(Remote::new("https://example.com/mcp")?, host).await?;
/// # Ok(()) }
/// ```
pub struct OAuth {
    options: OAuthOptions,
    open: Open,
    store: Option<FileStore>,
    account: Box<str>,
    port: Option<u16>,
    unheard: Option<Unheard>,
    events: Arc<Queue<(Box<str>, OAuthEvent)>>,
}

impl OAuth {
    /// With these options. Where [`redirect_uri`](OAuthOptions::redirect_uri) is empty, a [`Loopback`] receives the
    /// redirect, at any port that is free. At another loopback address with a port, that port is listened on: if it is
    /// taken, the sign-in fails, and says so. The listener is closed when the sign-in ends. A redirect that comes to the host
    /// otherwise, such as to a scheme of its own, is given by [`Session::handle_oauth`](crate::Session::handle_oauth).
    ///
    /// `open` opens a URL in the user's browser, as one argument and never through a shell, for the server of this name. It
    /// may block: it is called in a thread for that. An error ends the sign-in, which fails for this reason, and so does a
    /// panic. Of several servers, the redirect goes to the one whose URL was opened last.
    ///
    /// Signatures are made with keys in memory alone (feature `sign` of `mcp-proto`).
    pub fn new(
        options: OAuthOptions,
        open: impl Fn(&str, &AuthorizationUrl) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self {
            options,
            open: Arc::new(open),
            store: None,
            account: Box::default(),
            port: None,
            unheard: None,
            events: Queue::new(),
        }
    }

    /// Keeps the credentials in a file, and requests refresh tokens: a user signs in once.
    #[must_use]
    pub fn store(mut self, store: FileStore) -> Self {
        (self.options.stored, self.options.offline_access) = (true, true);
        self.store = Some(store);
        self
    }

    /// Keeps the credentials of a session by this name, beside the URL of its server: a user may have several accounts at
    /// one server. In a hub, the name is that of the server's entry, whatever is set here.
    #[must_use]
    pub fn account(mut self, name: &str) -> Self {
        self.account = name.into();
        self
    }

    /// Receives the redirect at this port of 127.0.0.1 and no other, where [`redirect_uri`](OAuthOptions::redirect_uri) is
    /// empty. A client cannot start while the port is taken.
    #[must_use]
    pub const fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// A redirect that cannot be received does not end the sign-in: this function is told of the redirect URI and why, and
    /// the URL is opened all the same. For a host that takes a redirect that its user pastes
    /// ([`Session::handle_oauth`](crate::Session::handle_oauth)).
    #[must_use]
    pub fn unheard(mut self, tell: impl Fn(&str, &io::Error) + Send + Sync + 'static) -> Self {
        self.unheard = Some(Arc::new(tell));
        self
    }

    /// What is reported, with the name of the server: grants, and why there is none. It ends when the last session or hub
    /// of the host is dropped, not when it closes.
    pub fn events(&self) -> Reports<(Box<str>, OAuthEvent)> {
        Reports::of(Arc::clone(&self.events))
    }

    /// The options of a client that starts, and the listener for its redirects.
    ///
    /// # Errors
    /// The redirect cannot be received.
    pub(crate) fn prepare(&self) -> io::Result<(OAuthOptions, Option<Loopback>)> {
        let mut options = self.options.clone();
        if !options.redirect_uri.is_empty() || !matches!(options.flow, Flow::User) {
            return Ok((options, None));
        }
        let registered = self.store.as_ref().map(FileStore::redirect_uris).unwrap_or_default();
        let registered = Loopback::ports(registered.iter().map(String::as_str));
        let ports = self.port.map_or_else(|| [registered, vec![0]].concat(), |port| vec![port]);
        let loopback = Loopback::bind(ports)?;
        options.redirect_uri = loopback.redirect_uri().into();
        Ok((options, Some(loopback)))
    }

    pub(crate) fn report(&self, server: Box<str>, event: OAuthEvent) {
        self.events.push((server, event), 0);
    }
}

impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { options, store, .. } = self;
        f.debug_struct("OAuth").field("options", options).field("store", store).finish_non_exhaustive()
    }
}

/// Random numbers for secrets, for [`Authorization::new`](mcp_proto::binding::oauth::Authorization::new).
///
/// # Errors
/// The system has none.
pub fn entropy() -> io::Result<[u8; 32]> {
    let mut entropy = [0; 32];
    let filled = ring::default_provider().secure_random.fill(&mut entropy);
    filled.map(|()| entropy).map_err(|_| io::Error::other("the system has no random numbers"))
}

/// The wall clock: the time since the Unix epoch.
pub fn unix_time() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Gives an input to the authorization of a session. Returns whether it belongs to what is in progress.
pub(crate) type Give<'a> = &'a mut dyn FnMut(SessionHandle, OAuthInput<'_>) -> bool;

/// What sign-ins need of the driver.
pub(crate) trait Owner: Send + Sync + 'static {
    fn runtime(&self) -> &Runtime;
    fn http(&self) -> Result<&dyn HttpTransport, HttpPiece>;
    fn report(&self, session: SessionHandle, event: OAuthEvent);
    /// Locks the driver, and carries out what follows from the inputs that are given.
    fn input<T>(self: &Arc<Self>, run: impl FnOnce(&mut SignIns, Give<'_>) -> T) -> T;
}

/// What the authorizations of a client or a hub have in progress.
#[derive(Default)]
pub(crate) struct SignIns {
    exchanges: BTreeMap<(SessionHandle, OAuthExchangeId), AbortHandle>,
    records: BTreeMap<SessionHandle, FileRecord>,
    /// How many actions on the store are in progress.
    storing: usize,
    /// The session whose URL was opened last, until its sign-in ends.
    shown: Option<SessionHandle>,
    /// Whether a sign-in ended, and the listeners are not closed yet.
    has_ended: bool,
    /// By their ports.
    listeners: BTreeMap<u16, Listener>,
    /// The wall clock at the start.
    epoch: Option<Duration>,
    /// Whether what is in progress goes on after the end of the session.
    outlives: bool,
}

/// A listener for redirects.
struct Listener {
    /// It is closed when this is dropped.
    open: Option<oneshot::Sender<()>>,
    /// It ends when the port is free.
    task: JoinHandle<()>,
}

impl Drop for OAuth {
    fn drop(&mut self) {
        self.events.finish();
    }
}

impl SignIns {
    /// Ends what has no result any more.
    pub(crate) fn end(&mut self) {
        if !self.outlives {
            let Self { exchanges, .. } = mem::take(self);
            exchanges.values().for_each(AbortHandle::abort);
        }
    }

    /// What is in progress goes on after the end of the session.
    pub(crate) const fn outlive_the_session(&mut self) {
        self.outlives = true;
    }

    /// Whether no request and no action on the store is in progress.
    pub(crate) fn is_idle(&self) -> bool {
        self.exchanges.is_empty() && self.storing == 0
    }

    /// Closes the listeners, if a sign-in ended and no other one began.
    pub(crate) fn close_unused_listeners(&mut self) {
        if mem::take(&mut self.has_ended) && self.shown.is_none() {
            self.listeners.values_mut().for_each(|listener| listener.open = None);
        }
    }

    /// The wall clock, if the machine slept or it was set.
    pub(crate) fn drift(&mut self, now: Time) -> Option<Duration> {
        let (unix, since) = (unix_time(), now.since(Time::ZERO));
        let epoch = self.epoch.get_or_insert_with(|| unix.saturating_sub(since));
        let expected = epoch.saturating_add(since);
        if unix.abs_diff(expected) <= DRIFT {
            return None;
        }
        *epoch = unix.saturating_sub(since);
        Some(unix)
    }

    /// Sends a request to an authorization server, or for metadata.
    pub(crate) fn request<O: Owner>(&mut self, owner: &Arc<O>, session: SessionHandle, it: OAuthRequest) {
        let (own, exchange) = (Arc::clone(owner), it.exchange);
        let task = owner.runtime().spawn(async move {
            let taker = Arc::clone(&own);
            let take = move |piece: HttpPiece| {
                taker.input(|sign_ins, give| {
                    // A task that was aborted goes on until it waits for something.
                    if !sign_ins.exchanges.contains_key(&(session, exchange)) {
                        return;
                    }
                    if matches!(piece, HttpPiece::End | HttpPiece::Failure(..)) {
                        sign_ins.exchanges.remove(&(session, exchange));
                    }
                    give(session, piece.oauth_input(exchange));
                });
            };
            match own.http() {
                Ok(client) => to_its_end(client, it.request, Purpose::Authorization(it.reach), take).await,
                Err(piece) => take(piece),
            }
        });
        self.exchanges.insert((session, exchange), task.abort_handle());
    }

    pub(crate) fn drop_exchange(&mut self, session: SessionHandle, exchange: OAuthExchangeId) {
        if let Some(task) = self.exchanges.remove(&(session, exchange)) {
            task.abort();
        }
    }

    /// Opens a URL in the user's browser, and listens for its redirect.
    pub(crate) fn browse<O: Owner>(
        &mut self,
        owner: &Arc<O>,
        oauth: &OAuth,
        (session, server): (SessionHandle, Box<str>),
        url: AuthorizationUrl,
    ) {
        self.shown = Some(session);
        let port = Loopback::port_of(url.redirect_uri());
        let (open, unheard) = (Arc::clone(&oauth.open), oauth.unheard.clone());
        let page = Page { open, unheard, session, server, url };
        let former = port.and_then(|port| self.listeners.remove(&port));
        match (port, former) {
            (Some(port), former) if former.as_ref().is_none_or(|former| former.open.is_none()) => {
                let former = former.map(|former| former.task);
                let (sender, closed) = oneshot::channel();
                let show = show(Arc::clone(owner), page, former, closed);
                let task = owner.runtime().spawn(show);
                self.listeners.insert(port, Listener { open: Some(sender), task });
            }
            // It listens already, or the host gives the redirect.
            (port, former) => {
                self.listeners.extend(port.zip(former));
                owner.runtime().spawn(page.show(Arc::downgrade(owner)));
            }
        }
    }

    pub(crate) fn end_browsing(&mut self, session: SessionHandle) {
        let ended = self.shown.take_if(|shown| *shown == session);
        self.has_ended |= ended.is_some();
    }

    /// Starts an action on the store, on the record of this session: that of its URL, and of its account, or else the
    /// account of all sessions. The future runs it to its end.
    pub(crate) fn store<O: Owner>(
        &mut self,
        owner: &Arc<O>,
        oauth: &OAuth,
        (session, url, account): (SessionHandle, &str, Option<&str>),
        action: StoreAction,
    ) -> Option<impl Future<Output = ()> + Send + 'static + use<O>> {
        let store = oauth.store.as_ref()?;
        let record =
            self.records.entry(session).or_insert_with(|| store.account(url, account.unwrap_or(&oauth.account)));
        let running = record.start(action)?;
        self.storing = self.storing.saturating_add(1);
        let owner = Arc::clone(owner);
        Some(async move {
            let result = running.await;
            let failed = owner.input(|sign_ins, give| {
                sign_ins.storing = sign_ins.storing.saturating_sub(1);
                match sign_ins.records.get_mut(&session)?.finish(&result) {
                    Ok(input) => {
                        input.map(|input| give(session, input));
                        None
                    }
                    Err(error) => Some(error),
                }
            });
            if let Some(error) = failed {
                let why = format!("the credentials are still in the store: {error}");
                owner.report(session, OAuthEvent::NotRevoked(why.into()));
            }
        })
    }

    /// Receives redirects at a port until the first sign-in ends.
    pub(crate) fn listen<O: Owner>(&mut self, owner: &Arc<O>, loopback: Loopback) {
        let (port, (sender, closed)) = (loopback.port(), oneshot::channel());
        let task = owner.runtime().spawn(receive(Arc::downgrade(owner), loopback, closed));
        self.listeners.insert(port, Listener { open: Some(sender), task });
    }
}

/// A page of the authorization server, for the user's browser.
struct Page {
    open: Open,
    unheard: Option<Unheard>,
    session: SessionHandle,
    server: Box<str>,
    url: AuthorizationUrl,
}

impl Page {
    /// Opens it. If that fails, so does the sign-in.
    async fn show<O: Owner>(self, owner: Weak<O>) {
        let Self { open, session, server, url, .. } = self;
        let why = match spawn_blocking(move || open(&server, &url)).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => format!("the browser cannot be opened: {error}"),
            Err(_) => "the browser cannot be opened: the host failed".into(),
        };
        if let Some(owner) = owner.upgrade() {
            owner.input(|_, give| give(session, OAuthInput::NotShown(&why)));
        }
    }
}

async fn receive<O: Owner>(owner: Weak<O>, loopback: Loopback, closed: oneshot::Receiver<()>) {
    let take = move |redirect: String| {
        let taken = owner.upgrade().is_some_and(|owner| {
            owner.input(|sign_ins, give| {
                sign_ins.shown.is_some_and(|shown| give(shown, OAuthInput::Redirect(&redirect)))
            })
        });
        ready(taken)
    };
    loopback.run_until(closed, take).await;
}

/// Listens for the redirect, once the listener before has left its port, and opens the URL.
async fn show<O: Owner>(owner: Arc<O>, page: Page, former: Option<JoinHandle<()>>, closed: oneshot::Receiver<()>) {
    if let Some(former) = former {
        let _ = former.await;
    }
    let (session, redirect_uri) = (page.session, page.url.redirect_uri());
    let loopback = match Loopback::of(redirect_uri) {
        Ok(Some(loopback)) => loopback,
        // It has a port.
        Ok(None) => return,
        Err(error) => {
            match &page.unheard {
                Some(unheard) => {
                    unheard(redirect_uri, &error);
                    page.show(Arc::downgrade(&owner)).await;
                }
                None => {
                    let why = format!("no redirect can be received at {redirect_uri}: {error}");
                    owner.input(|_, give| give(session, OAuthInput::NotShown(&why)));
                }
            }
            return;
        }
    };
    // What listens does not keep the client open.
    let weak = Arc::downgrade(&owner);
    owner.runtime().spawn(page.show(Weak::clone(&weak)));
    drop(owner);
    receive(weak, loopback, closed).await;
}
