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
    AuthorizationUrl, Flow, OAuthAction, OAuthEvent, OAuthExchangeId, OAuthInput, OAuthOptions,
};
use mcp_proto::host::hub::SessionHandle;
use rustls::crypto::ring;
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinHandle};

use crate::HttpPiece;
use crate::driver::{Core, Machine, Shared, StartError};
use crate::queue::{Queue, Reports};

pub use loopback::Loopback;
pub use store::{FileRecord, FileStore, StoreResult};

/// The wall clock is reported when it differs by this from the time that passed: the machine slept, or it was set.
const DRIFT: Duration = Duration::from_secs(5);

/// How a client signs in at its server, for [`Host::oauth`](crate::Host::oauth).
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use mcp_proto::Options;
/// use mcp_proto::binding::oauth::OAuthOptions;
/// use mcp_proto_tokio::{FileStore, Host, OAuth, Remote, Session};
///
/// let oauth = OAuth::new(OAuthOptions::new("My Host", ""), |url| println!("open {}", url.as_str()));
/// let oauth = oauth.store(FileStore::new("credentials.json")?);
/// let host = Host::new(Options::new("my-host", "1.0")).oauth(oauth);
/// let session = Session::connect(Remote::new("https://example.com/mcp")?, host).await?;
/// # Ok(()) }
/// ```
pub struct OAuth {
    options: OAuthOptions,
    open: Arc<dyn Fn(&AuthorizationUrl) + Send + Sync>,
    store: Option<FileStore>,
    events: Arc<Queue<(Box<str>, OAuthEvent)>>,
}

impl OAuth {
    /// With these options. Where [`redirect_uri`](OAuthOptions::redirect_uri) is empty, a [`Loopback`] receives the
    /// redirect, at any port that is free. At another loopback address with a port, that port is listened on: if it is
    /// taken, the sign-in fails, and says so. The listener is closed when the sign-in ends. A redirect that comes to the host
    /// otherwise, such as to a scheme of its own, is given by [`Session::handle_oauth`](crate::Session::handle_oauth).
    ///
    /// `open` opens a URL in the user's browser, as one argument and never through a shell. It may block: it is called in
    /// a thread for that. Of several servers, the redirect goes to the one whose URL was opened last.
    ///
    /// Signatures are made with keys in memory alone (feature `sign` of `mcp-proto`).
    pub fn new(options: OAuthOptions, open: impl Fn(&AuthorizationUrl) + Send + Sync + 'static) -> Self {
        Self { options, open: Arc::new(open), store: None, events: Queue::new() }
    }

    /// Keeps the credentials in a file, and requests refresh tokens: a user signs in once.
    #[must_use]
    pub fn store(mut self, store: FileStore) -> Self {
        (self.options.stored, self.options.offline_access) = (true, true);
        self.store = Some(store);
        self
    }

    /// What is reported, with the name of the server: grants, and why there is none. It ends when the last session or hub
    /// of the host is dropped, not when it closes.
    pub fn events(&self) -> Reports<(Box<str>, OAuthEvent)> {
        Reports::of(Arc::clone(&self.events))
    }

    /// The options of a client that starts, and the listener for its redirects.
    pub(crate) fn prepare(&self) -> Result<(OAuthOptions, Option<Loopback>), StartError> {
        let mut options = self.options.clone();
        if !options.redirect_uri.is_empty() || !matches!(options.flow, Flow::User) {
            return Ok((options, None));
        }
        let registered = self.store.as_ref().map(FileStore::redirect_uris).unwrap_or_default();
        let ports = Loopback::ports(registered.iter().map(String::as_str));
        let loopback = Loopback::bind(ports.into_iter().chain([0])).map_err(StartError::Redirect)?;
        options.redirect_uri = loopback.redirect_uri().into();
        Ok((options, Some(loopback)))
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

/// What the authorizations of a client or a hub have in progress.
#[derive(Default)]
pub(crate) struct SignIns {
    exchanges: BTreeMap<(SessionHandle, OAuthExchangeId), AbortHandle>,
    records: BTreeMap<SessionHandle, FileRecord>,
    /// The session whose URL was opened last, until its sign-in ends.
    shown: Option<SessionHandle>,
    /// Whether a sign-in ended, and the listeners are not closed yet.
    has_ended: bool,
    /// By their ports.
    listeners: BTreeMap<u16, Listener>,
    /// The wall clock at the start.
    epoch: Option<Duration>,
}

/// A listener for redirects.
struct Listener {
    /// It is closed when this is dropped.
    open: Option<oneshot::Sender<()>>,
    /// It ends when the port is free.
    task: JoinHandle<()>,
}

impl SignIns {
    /// Ends what has no result any more.
    pub(crate) fn end(&mut self) {
        let Self { exchanges, .. } = mem::take(self);
        exchanges.values().for_each(AbortHandle::abort);
    }

    /// Closes the listeners, if a sign-in ended and no other one began.
    pub(crate) fn close_unused_listeners(&mut self) {
        if mem::take(&mut self.has_ended) && self.shown.is_none() {
            self.listeners.values_mut().for_each(|listener| listener.open = None);
        }
    }
}

impl Drop for OAuth {
    fn drop(&mut self) {
        self.events.finish();
    }
}

impl<M: Machine> Shared<M> {
    /// Carries out an action of the authorization of a session.
    pub(crate) fn authorize(self: &Arc<Self>, core: &mut Core<M>, session: SessionHandle, action: OAuthAction) {
        let Some(oauth) = &self.wiring.oauth else { return };
        match action {
            OAuthAction::Request(it) => {
                let (shared, exchange) = (Arc::clone(self), it.exchange);
                let task = self.runtime.spawn(async move {
                    let take = |piece| {
                        shared.take_oauth(session, exchange, &piece);
                        ready(())
                    };
                    match shared.wiring.http() {
                        Ok(client) => client.within(it.reach).run(it.request, take).await,
                        Err(piece) => take(piece).await,
                    }
                });
                core.sign_ins.exchanges.insert((session, exchange), task.abort_handle());
            }
            OAuthAction::Drop(exchange) => {
                if let Some(task) = core.sign_ins.exchanges.remove(&(session, exchange)) {
                    task.abort();
                }
            }
            OAuthAction::Browse(url) => {
                core.sign_ins.shown = Some(session);
                let open = Arc::clone(&oauth.open);
                let port = Loopback::port_of(url.redirect_uri());
                let former = port.and_then(|port| core.sign_ins.listeners.remove(&port));
                match (port, former) {
                    (Some(port), former) if former.as_ref().is_none_or(|former| former.open.is_none()) => {
                        let former = former.map(|former| former.task);
                        let (sender, closed) = oneshot::channel();
                        let task = self.runtime.spawn(Arc::clone(self).show(session, url, former, closed));
                        core.sign_ins.listeners.insert(port, Listener { open: Some(sender), task });
                    }
                    // It listens already, or the host gives the redirect.
                    (port, former) => {
                        core.sign_ins.listeners.extend(port.zip(former));
                        self.runtime.spawn_blocking(move || open(&url));
                    }
                }
            }
            OAuthAction::EndBrowse => {
                let ended = core.sign_ins.shown.take_if(|shown| *shown == session);
                core.sign_ins.has_ended |= ended.is_some();
            }
            OAuthAction::Store(action) => {
                let Some(store) = &oauth.store else { return };
                let machine = &core.machine;
                let record =
                    core.sign_ins.records.entry(session).or_insert_with(|| store.record(&machine.url(session)));
                let Some(running) = record.start(action) else { return };
                let shared = Arc::clone(self);
                while core.tasks.try_join_next().is_some() {}
                let run = async move { shared.stored(session, &running.await) };
                core.tasks.spawn_on(run, &self.runtime);
            }
            OAuthAction::Event(event) => {
                if let OAuthEvent::Failed(error) = &event {
                    self.unauthorized(M::unauthorized(error));
                }
                self.report(core, session, event);
            }
            // Keys in memory need no signature of the host, and there are no others.
            OAuthAction::Sign(request) => {
                let none = OAuthInput::Signature { id: request.id, signature: &[] };
                core.machine.oauth(self.now(), session, none);
            }
            _ => {}
        }
    }

    fn report(&self, core: &Core<M>, session: SessionHandle, event: OAuthEvent) {
        if let Some(oauth) = &self.wiring.oauth {
            oauth.events.push((core.machine.server(session), event), 0);
        }
    }

    /// Receives redirects at a port until the first sign-in ends.
    pub(crate) fn listen(self: &Arc<Self>, core: &mut Core<M>, loopback: Loopback) {
        let (port, (sender, closed)) = (loopback.port(), oneshot::channel());
        let task = self.runtime.spawn(Self::receive(Arc::downgrade(self), loopback, closed));
        core.sign_ins.listeners.insert(port, Listener { open: Some(sender), task });
    }

    async fn receive(shared: Weak<Self>, loopback: Loopback, closed: oneshot::Receiver<()>) {
        let take =
            move |redirect: String| ready(shared.upgrade().is_some_and(|shared| shared.take_redirect(&redirect)));
        loopback.run_until(closed, take).await;
    }

    /// Listens for the redirect, once the listener before has left its port, and opens the URL.
    async fn show(
        self: Arc<Self>,
        session: SessionHandle,
        url: AuthorizationUrl,
        former: Option<JoinHandle<()>>,
        closed: oneshot::Receiver<()>,
    ) {
        if let Some(former) = former {
            let _ = former.await;
        }
        let loopback = match Loopback::of(url.redirect_uri()) {
            Ok(Some(loopback)) => loopback,
            // It has a port.
            Ok(None) => return,
            Err(error) => {
                let why = format!("no redirect can be received at {}: {error}", url.redirect_uri());
                self.input(|machine, now| machine.oauth(now, session, OAuthInput::NotShown(&why)));
                return;
            }
        };
        if let Some(open) = self.wiring.oauth.as_ref().map(|oauth| Arc::clone(&oauth.open)) {
            self.runtime.spawn_blocking(move || open(&url));
        }
        // What listens does not keep the client open.
        let shared = Arc::downgrade(&self);
        drop(self);
        Self::receive(shared, loopback, closed).await;
    }

    fn take_redirect(self: &Arc<Self>, redirect: &str) -> bool {
        let mut core = self.lock();
        let Some(shown) = core.sign_ins.shown else { return false };
        let is_ours = core.machine.oauth(self.now(), shown, OAuthInput::Redirect(redirect));
        self.act(&mut core);
        is_ours
    }

    fn take_oauth(self: &Arc<Self>, session: SessionHandle, exchange: OAuthExchangeId, piece: &HttpPiece) {
        let mut core = self.lock();
        if matches!(piece, HttpPiece::End | HttpPiece::Failure(..)) {
            core.sign_ins.exchanges.remove(&(session, exchange));
        }
        core.machine.oauth(self.now(), session, piece.oauth_input(exchange));
        self.act(&mut core);
    }

    /// Takes what came of an action on the store.
    fn stored(self: &Arc<Self>, session: SessionHandle, result: &StoreResult) {
        let mut core = self.lock();
        let Some(record) = core.sign_ins.records.get_mut(&session) else { return };
        match record.finish(result) {
            Ok(Some(input)) => drop(core.machine.oauth(self.now(), session, input)),
            Ok(None) => {}
            Err(error) => {
                let why = format!("the credentials are still in the store: {error}");
                self.report(&core, session, OAuthEvent::NotRevoked(why.into()));
            }
        }
        self.act(&mut core);
    }

    /// Reports the wall clock, if the machine slept or it was set.
    pub(crate) fn check_clock(self: &Arc<Self>, core: &mut Core<M>) {
        if self.wiring.oauth.is_none() {
            return;
        }
        let (now, unix) = (self.now(), unix_time());
        let since = now.since(Time::ZERO);
        let epoch = core.sign_ins.epoch.get_or_insert_with(|| unix.saturating_sub(since));
        let expected = epoch.saturating_add(since);
        if unix.abs_diff(expected) > DRIFT {
            *epoch = unix.saturating_sub(since);
            core.machine.handle_clock(now, unix);
            self.act(core);
        }
    }
}
