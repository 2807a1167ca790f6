//! A program that signs in to the authorization server of the test kit, in virtual time.

use std::cell::RefCell;
use std::ops::Deref;
use std::rc::Rc;
use std::time::Duration;

use mcp_proto::binding::oauth::{
    Authorization, OAuthAction, OAuthEvent, OAuthInput, OAuthOptions, SaveOutcome, SignKey, StoreAction,
};
use mcp_proto::host::hub::SessionHandle;
use mcp_proto::testkit::{Embedder, FakeAuthorizationServer};
#[cfg(feature = "snapshot")]
use mcp_proto::testkit::{Endpoint, Fault, Link, Reply, Sim};
use mcp_proto::{Client, Event, Http, Options, Outcome, RequestId, Time};
#[cfg(feature = "snapshot")]
use mcp_proto::{Family, Moved, Request, Secrets, Snapshot};

#[cfg(feature = "snapshot")]
use crate::common::seconds;
#[cfg(feature = "snapshot")]
use crate::simulation::{self, Program, index, read_back};

pub(super) const URL: &str = "https://mcp.example/mcp";
pub(super) const ISSUER: &str = "https://as.example";
pub(super) const REDIRECT: &str = "http://127.0.0.1:7777/callback";
/// The time since the Unix epoch when each test begins.
pub(super) const EPOCH: u64 = 1_800_000_000;

pub(super) type Store = Rc<RefCell<Option<Vec<u8>>>>;

/// A program that stores records, and signs with keys that nobody verifies.
pub(crate) struct Host {
    pub(super) client: Client<Http>,
    store: Store,
    pub(super) events: Vec<Event>,
    pub(super) oauth: Vec<OAuthEvent>,
    pub(super) shown: Vec<String>,
}

impl Host {
    pub(super) fn new(options: OAuthOptions, store: &Store) -> Self {
        Self::at(Time::ZERO, options, store)
    }

    /// A process that starts at this time.
    pub(super) fn at(now: Time, options: OAuthOptions, store: &Store) -> Self {
        let client = Client::new(http(now, options), Options::new("suite", "1.0"), 1);
        Self { client, store: Rc::clone(store), events: vec![], oauth: vec![], shown: vec![] }
    }

    pub(super) fn outcome(&self, call: RequestId) -> Option<&Outcome> {
        self.events.iter().find_map(|event| match event {
            Event::Finished { request, outcome, .. } if *request == call => Some(outcome),
            _ => None,
        })
    }

    pub(super) fn failure(&self) -> String {
        let failure = self.oauth.iter().rev().find_map(|event| match event {
            OAuthEvent::Failed(error) => Some(error.to_string()),
            _ => None,
        });
        failure.unwrap_or_default()
    }
}

fn http(now: Time, options: OAuthOptions) -> Http {
    let unix = Duration::from_secs(EPOCH) + now.since(Time::ZERO);
    let entropy = u8::try_from(now.as_millis() % 251).unwrap() + 1;
    Http::new(URL).unwrap().with_oauth(Authorization::new(URL, options, [entropy; 32], now, unix).unwrap())
}

impl Embedder for Host {
    type Driven = Client<Http>;

    fn driven(&mut self) -> &mut Client<Http> {
        &mut self.client
    }

    fn on_event(&mut self, _: Time, event: Event) {
        self.events.push(event);
    }

    fn on_oauth(&mut self, now: Time, _: Option<SessionHandle>, action: OAuthAction) {
        let store = Rc::clone(&self.store);
        match action {
            OAuthAction::Browse(url) => self.shown.push(url.as_str().into()),
            OAuthAction::Event(event) => self.oauth.push(event),
            OAuthAction::Sign(request) => {
                let signature: &[u8] = if request.key == SignKey::Client { b"client" } else { b"proof" };
                self.client.handle_oauth(now, OAuthInput::Signature { id: request.id, signature });
            }
            OAuthAction::Store(StoreAction::Acquire(id)) => {
                self.client.handle_oauth(now, OAuthInput::Acquired { id, acquired: true });
            }
            OAuthAction::Store(StoreAction::Load(id)) => {
                self.client.handle_oauth(now, OAuthInput::Loaded { id, record: Ok(store.borrow().as_deref()) });
            }
            OAuthAction::Store(StoreAction::Save { id, record, .. }) => {
                *store.borrow_mut() = Some(record.expose().to_vec());
                self.client.handle_oauth(now, OAuthInput::Saved { id, saved: SaveOutcome::Stored });
            }
            OAuthAction::Store(StoreAction::Remove) => *store.borrow_mut() = None,
            _ => {}
        }
    }
}

impl Deref for Host {
    type Target = Client<Http>;

    fn deref(&self) -> &Client<Http> {
        &self.client
    }
}

pub(super) fn issuer() -> FakeAuthorizationServer {
    FakeAuthorizationServer::new(ISSUER).protects(URL)
}

pub(super) fn options(change: impl FnOnce(&mut OAuthOptions)) -> OAuthOptions {
    let mut options = OAuthOptions::new("suite", REDIRECT);
    change(&mut options);
    options
}

#[cfg(feature = "snapshot")]
fn stored() -> OAuthOptions {
    options(|options| options.stored = true)
}

/// A program that signs in, and has a store.
#[cfg(feature = "snapshot")]
impl Program for Host {
    type Call = RequestId;

    /// The user has ten minutes for each page, and pages that break are shown again.
    const RECOVERS: Duration = seconds(7_200);

    fn new(seed: u64) -> Self {
        let mut host = Self::new(stored(), &Store::default());
        host.client = Client::new(http(Time::ZERO, stored()), simulation::options(), seed);
        host
    }

    fn prepare<E: Embedder>(sim: Sim<E>) -> Sim<E> {
        sim.with_authorization_server("as", issuer(), Link::new(Duration::from_millis(20)).piece(100))
    }

    fn disturb<E: Embedder>(sim: &mut Sim<E>, rng: &mut fastrand::Rng) -> Option<&'static str> {
        let endpoints = [Endpoint::Token, Endpoint::Refresh, Endpoint::Authorization, Endpoint::ServerMetadata];
        let replies = [
            ("no tokens: 503", Reply::status(503, "busy")),
            ("no tokens: torn", Reply::Torn),
            ("no tokens: dies after", Reply::Dies),
            ("no tokens: dies before", Reply::DiesFirst),
            ("no tokens: late", Reply::Late(seconds(rng.u64(..90)))),
        ];
        match rng.u8(..4) {
            0 => {
                sim.change_authorization_server("as", FakeAuthorizationServer::expire_tokens).map(|()| "tokens expire")
            }
            1 => {
                sim.change_authorization_server("as", FakeAuthorizationServer::revoke_tokens).map(|()| "tokens revoked")
            }
            2 => {
                sim.fault("as", Fault::Unreachable(seconds(rng.u64(..60))));
                Some("no authorization server")
            }
            _ => {
                let (what, reply) = replies[index(rng, replies.len())].clone();
                let endpoint = endpoints[index(rng, endpoints.len())].clone();
                sim.change_authorization_server("as", |issuer| issuer.add_script(endpoint, [reply])).map(|()| what)
            }
        }
    }

    fn open(&mut self, now: Time) {
        self.client.open(now).unwrap();
    }

    fn call(&mut self, now: Time, _: &str, tool: &str) -> Option<RequestId> {
        self.client.request(now, Request::call_tool(tool, None)).ok()
    }

    fn cancel(&mut self, now: Time, call: RequestId) {
        let _ = self.client.cancel(now, call);
    }

    fn refresh(&mut self, now: Time) {
        let _ = self.client.refresh(now, Family::Tools);
    }

    fn close(&mut self, now: Time) {
        let _ = self.client.close(now);
    }

    fn saved(&self, secrets: Secrets) -> Option<Snapshot> {
        Some(self.client.snapshot(secrets))
    }

    fn restore(&mut self, now: Time) {
        let (snapshot, options) = (read_back(&self.client.snapshot(Secrets::Included)), self.client.options().clone());
        let http = http(now, stored());
        self.client = Client::from_snapshot(http, options, &snapshot, Moved::WithoutTransport).unwrap();
    }

    fn ended(&self) -> Vec<(RequestId, Outcome)> {
        let ended = self.events.iter().filter_map(|event| match event {
            Event::Finished { request, outcome, .. } => Some((*request, outcome.clone())),
            _ => None,
        });
        ended.collect()
    }

    fn is_settled(&self) -> bool {
        // A token that is revoked before its first use is asked for again when the user wants it, not by itself.
        let refused = "refuses a token that was just issued";
        let waits_for_the_user =
            |event: &Event| matches!(event, Event::Down { failure, .. } if failure.message.contains(refused));
        self.client.is_ready() || self.client.is_closed() || self.events.last().is_some_and(waits_for_the_user)
    }

    fn is_closed(&self) -> bool {
        self.client.is_closed()
    }
}
