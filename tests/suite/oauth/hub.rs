//! A hub whose servers authorize themselves: one browser for all of them, and servers that come up when there is a token.

use std::cell::RefCell;
use std::rc::Rc;

use mcp_proto::binding::oauth::OAuthInput;
use mcp_proto::host::hub::ServerState as State;
use mcp_proto::host::hub::{CallError, Hub, HubEvent, HubOAuth, HubOptions, SessionHandle};
use mcp_proto::testkit::{Endpoint, FakeAuthorizationServer, Reply};
use mcp_proto::{FailureKind, Options};

use crate::rig::{Rig as HubRig, configuration, full, with_tools};

use super::*;

const AS: &str = "http://127.0.0.1:3002";

/// A hub with servers over HTTP, which demand the tokens of one authorization server.
struct Many {
    rig: HubRig,
    issuer: Rc<RefCell<FakeAuthorizationServer>>,
    names: BTreeMap<SessionHandle, String>,
    sent: VecDeque<(SessionHandle, Sent)>,
    shown: Vec<(SessionHandle, String)>,
    /// Every server whose URL was shown, in order.
    asked: Vec<String>,
    events: Vec<(String, OAuthEvent)>,
    store: VecDeque<(SessionHandle, StoreAction)>,
    kept: BTreeMap<String, Vec<u8>>,
}

fn oauth(change: impl FnOnce(&mut OAuthOptions)) -> HubOAuth {
    let mut options = OAuthOptions::new("suite", REDIRECT);
    options.registered.push(RegisteredClient::new("app"));
    change(&mut options);
    HubOAuth::new(options, [1; 32], Time::ZERO, Duration::from_secs(EPOCH))
}

/// The servers with these names, which demand tokens.
fn entries(names: &[&str]) -> Value {
    let entry =
        |name: &&str| (name.to_string(), json!({"url": format!("http://127.0.0.1:3001/{name}"), "auth": "oauth"}));
    names.iter().map(entry).collect()
}

fn issuer() -> Rc<RefCell<FakeAuthorizationServer>> {
    let none = Reply::With(json!({"revocation_endpoint": null}));
    let issuer = FakeAuthorizationServer::new(AS).marked("hush").always(Endpoint::ServerMetadata, none);
    Rc::new(RefCell::new(issuer.client("app").client("own")))
}

impl Many {
    fn of(names: &[&str], oauth: HubOAuth) -> Self {
        Self::at(issuer(), names, oauth, |_| {})
    }

    fn at(
        issuer: Rc<RefCell<FakeAuthorizationServer>>,
        names: &[&str],
        oauth: HubOAuth,
        change: impl FnOnce(&mut Options),
    ) -> Self {
        let mut session = Options::new("suite", "1.0");
        session.keepalive = None;
        change(&mut session);
        let options = HubOptions::new(session);
        let mut rig = HubRig::new(options.clone());
        rig.hub = rig.hub.with_oauth(oauth);
        for name in names {
            rig = rig.peer(name, with_tools(&["x"]));
            let (known, url) = (Rc::clone(&issuer), format!("http://127.0.0.1:3001/{name}"));
            issuer.borrow_mut().protect(&url);
            rig.get(name).takes =
                Some(Box::new(move |request| known.borrow_mut().answer(Time::ZERO, request).is_none()));
        }
        Self {
            rig,
            issuer,
            names: BTreeMap::new(),
            sent: VecDeque::new(),
            shown: Vec::new(),
            asked: Vec::new(),
            events: Vec::new(),
            store: VecDeque::new(),
            kept: BTreeMap::new(),
        }
    }

    fn open(names: &[&str], oauth: HubOAuth) -> Self {
        let mut it = Self::of(names, oauth);
        it.rig.configure(configuration(entries(names)));
        it.rig.open();
        it.serve();
        it
    }

    fn name(&self, session: SessionHandle) -> String {
        self.names[&session].clone()
    }

    /// Lets every server, the authorization server and the store answer until nothing is in flight.
    fn serve(&mut self) {
        for _ in 0..200 {
            self.rig.serve();
            self.take();
            if let Some((session, action)) = self.store.pop_front() {
                self.serve_store(session, &action);
            } else if let Some((session, sent)) = self.sent.pop_front() {
                self.answer(session, &sent);
            } else {
                return;
            }
        }
        panic!("it does not end");
    }

    fn take(&mut self) {
        #[cfg(feature = "snapshot")]
        {
            let saved = self.rig.hub.snapshot(mcp_proto::Secrets::Excluded);
            assert!(!serde_json::to_string(&saved).unwrap().contains("hush"), "a secret is saved");
        }
        while let Some((session, name, action)) = self.rig.oauth.pop_front() {
            assert!(!format!("{action:?}").contains("hush"), "{action:?}");
            self.names.insert(session, name.clone());
            match action {
                OAuthAction::Request(request) => self.sent.push_back((session, Sent::new(request))),
                OAuthAction::Drop(id) => self.sent.retain(|(of, sent)| (*of, sent.id) != (session, id)),
                OAuthAction::Browse(url) => {
                    assert_eq!(self.shown, [], "{name} takes the browser of another server");
                    self.shown.push((session, url.as_str().to_owned()));
                    self.asked.push(name);
                }
                OAuthAction::EndBrowse => self.shown.retain(|(of, _)| *of != session),
                OAuthAction::Store(action) => self.store.push_back((session, action)),
                OAuthAction::Event(event) => self.events.push((name, event)),
                other => panic!("{other:?}"),
            }
        }
    }

    fn input(&mut self, session: SessionHandle, input: OAuthInput<'_>) -> bool {
        let is_ours = self.rig.hub.handle_oauth(self.rig.now, session, input);
        self.rig.collect();
        self.take();
        is_ours
    }

    fn answer(&mut self, session: SessionHandle, sent: &Sent) {
        let response = self.issuer.borrow_mut().answer(self.rig.now, &sent.request()).unwrap();
        let exchange = sent.id;
        self.input(session, OAuthInput::Head { exchange, status: response.status(), headers: response.headers() });
        self.input(session, OAuthInput::Body { exchange, chunk: response.body() });
        self.input(session, OAuthInput::End { exchange });
    }

    fn serve_store(&mut self, session: SessionHandle, action: &StoreAction) {
        let name = self.name(session);
        match action {
            StoreAction::Acquire(id) => self.input(session, OAuthInput::Acquired { id: *id, acquired: true }),
            StoreAction::Load(id) => {
                let record = self.kept.get(&name).cloned();
                self.input(session, OAuthInput::Loaded { id: *id, record: Ok(record.as_deref()) })
            }
            StoreAction::Save { id, record, .. } => {
                self.kept.insert(name, record.expose().to_vec());
                self.input(session, OAuthInput::Saved { id: *id, saved: SaveOutcome::Stored })
            }
            _ => false,
        };
    }

    /// The server whose URL is shown.
    fn server_shown(&self) -> Option<String> {
        self.shown.first().map(|(session, _)| self.name(*session))
    }

    fn redirect(&mut self, what: &str) {
        let (session, url) = self.shown.first().expect("no URL is shown").clone();
        let state = query(url.split_once('?').unwrap().1, "state").unwrap();
        assert!(self.input(session, OAuthInput::Redirect(&format!("?{what}&state={state}"))));
        self.serve();
    }

    /// The user authorizes at the URL that is shown.
    fn consent(&mut self) {
        let (session, url) = self.shown.first().expect("no URL is shown").clone();
        let redirect = self.issuer.borrow_mut().browse(self.rig.now, &url).unwrap();
        assert!(self.input(session, OAuthInput::Redirect(&redirect)));
        self.serve();
    }

    fn wait(&mut self, seconds: u64) {
        for _ in 0..seconds.div_ceil(10) {
            self.rig.wait(Duration::from_secs(10.min(seconds)));
            self.take();
            self.serve();
        }
    }

    fn session(&self, name: &str) -> SessionHandle {
        self.rig.hub.handle(name).unwrap()
    }
}

#[test]
fn a_server_that_demands_a_token_comes_up_when_the_user_authorized() {
    let mut it = Many::of(&["a"], oauth(|_| {}));
    it.rig = it.rig.peer("b", with_tools(&["y"]));
    let mut servers = entries(&["a"]);
    servers["b"] = json!({"command": "b"});
    it.rig.configure(configuration(servers));
    it.rig.open();
    it.serve();
    // The other servers do not wait for the user.
    assert_eq!(it.rig.state("b"), Some(State::Ready));
    assert!(it.rig.log.contains(&"settled".into()));
    assert_eq!(it.server_shown().as_deref(), Some("a"));
    assert_eq!(it.rig.functions(), ["mcp_b_y"]);
    it.wait(300);
    it.consent();
    assert_eq!(it.rig.state("a"), Some(State::Ready));
    assert_eq!(it.rig.functions(), ["mcp_a_x", "mcp_b_y"]);
    assert!(it.rig.outcome_of("mcp_a_x", json!({})).contains("content"));
    assert!(matches!(it.events.last(), Some((name, OAuthEvent::Authorized(_))) if name == "a"));
}

#[test]
fn one_server_at_a_time_has_the_browser_and_each_has_the_whole_time_of_the_user() {
    let mut it = Many::open(&["a", "b", "c"], oauth(|_| {}));
    assert_eq!(it.asked, ["a"]);
    // Ten minutes each.
    it.wait(590);
    it.consent();
    assert_eq!(it.asked, ["a", "b"]);
    it.wait(590);
    it.consent();
    it.wait(590);
    it.consent();
    assert_eq!(it.asked, ["a", "b", "c"]);
    for name in ["a", "b", "c"] {
        assert_eq!(it.rig.state(name), Some(State::Ready), "{name}");
    }
    assert_eq!(it.shown, []);
}

#[test]
fn the_browser_is_free_again_when_the_user_refuses_or_does_not_come_back() {
    let mut it = Many::open(&["a", "b", "c"], oauth(|_| {}));
    it.redirect("error=access_denied");
    assert_eq!(it.server_shown().as_deref(), Some("b"));
    it.wait(600);
    assert_eq!(it.server_shown().as_deref(), Some("c"));
    it.consent();
    let failed = it.events.iter().filter(|(_, event)| matches!(event, OAuthEvent::Failed(_)));
    assert_eq!(failed.map(|(name, _)| &**name).collect::<std::collections::BTreeSet<_>>(), ["a", "b"].into());
    assert_eq!(it.rig.state("c"), Some(State::Ready));
    // The user may try again.
    let session = it.session("a");
    it.input(session, OAuthInput::Authorize);
    it.serve();
    it.consent();
    assert_eq!(it.rig.state("a"), Some(State::Ready));
}

#[test]
fn a_server_that_gives_up_while_it_waits_for_the_browser_does_not_get_it() {
    let mut it = Many::open(&["a", "b", "c"], oauth(|_| {}));
    let session = it.session("b");
    it.input(session, OAuthInput::SignOut);
    it.consent();
    assert_eq!(it.asked, ["a", "c"]);
}

#[test]
fn a_sign_in_that_is_cancelled_while_it_waits_for_the_browser_fails_and_does_not_get_it() {
    let mut it = Many::open(&["a", "b", "c"], oauth(|_| {}));
    let session = it.session("b");
    it.input(session, OAuthInput::Cancel);
    it.serve();
    let failed = it.events.iter().filter(|(_, event)| matches!(event, OAuthEvent::Failed(_)));
    assert_eq!(failed.map(|(name, _)| &**name).collect::<Vec<_>>(), ["b"]);
    it.consent();
    assert_eq!(it.asked, ["a", "c"]);
}

#[test]
fn a_server_that_is_removed_releases_the_browser_and_its_place_in_the_queue() {
    let mut it = Many::open(&["a", "b", "c"], oauth(|_| {}));
    it.rig.configure(configuration(entries(&["c"])));
    it.serve();
    assert_eq!(it.asked, ["a", "c"]);
    it.consent();
    assert_eq!(it.rig.state("c"), Some(State::Ready));
    assert_eq!(it.rig.hub.servers().count(), 1);
}

#[test]
fn a_hub_that_is_closed_does_not_wait_for_the_user() {
    let mut it = Many::open(&["a", "b"], oauth(|_| {}));
    it.rig.hub.close(it.rig.now).unwrap();
    let mut closed = false;
    while let Some(action) = it.rig.hub.poll() {
        use mcp_proto::host::hub::HubAction;
        match action {
            HubAction::OAuth { action, .. } => match *action {
                OAuthAction::EndBrowse => it.shown.clear(),
                action => assert!(!matches!(action, OAuthAction::Browse(_))),
            },
            action => closed |= matches!(action, HubAction::Event(HubEvent::Closed)),
        }
    }
    assert!(closed && it.shown.is_empty() && it.rig.hub.is_closed());
}

/// The server `a`, up, whose token is being refreshed, and the record before.
fn refreshing() -> (Many, Vec<u8>) {
    refreshing_with(|_| {})
}

fn refreshing_with(change: impl FnOnce(&mut OAuthOptions)) -> (Many, Vec<u8>) {
    let mut it = Many::of(
        &["a"],
        oauth(|options| {
            options.stored = true;
            change(options);
        }),
    );
    it.rig.get("a").session = Some("s");
    it.rig.configure(configuration(entries(&["a"])));
    it.rig.open();
    it.serve();
    it.consent();
    assert_eq!(it.rig.state("a"), Some(State::Ready));
    it.wait(70);
    let before = it.kept["a"].clone();
    it.issuer.borrow_mut().expire_tokens();
    it.rig.call("mcp_a_x");
    while it.sent.iter().all(|(_, sent)| !sent.url.ends_with("/token")) {
        it.rig.serve();
        it.take();
        if let Some((session, action)) = it.store.pop_front() {
            it.serve_store(session, &action);
        } else if it.sent.front().is_some_and(|(_, sent)| !sent.url.ends_with("/token")) {
            let (session, sent) = it.sent.pop_front().unwrap();
            it.answer(session, &sent);
        }
    }
    (it, before)
}

/// The refreshed token is stored, and nothing is in progress any more.
fn assert_stored(it: &Many, before: &[u8]) {
    let after = it.kept["a"].clone();
    assert_eq!(stored_generation(&after), stored_generation(before) + 1);
    assert!(String::from_utf8(after).unwrap().contains("rt2-hush"));
    assert!(it.store.is_empty() && it.rig.hub.deadline().is_none());
}

#[test]
fn a_refresh_is_completed_and_stored_although_its_server_is_removed() {
    let (mut it, before) = refreshing();
    it.rig.configure(configuration(json!({})));
    it.serve();
    assert_stored(&it, &before);
}

#[test]
fn a_client_that_registered_itself_refreshes_in_a_hub_without_the_browser() {
    let (mut it, before) = refreshing_with(|options| options.registered.clear());
    it.serve();
    assert_eq!(it.asked.len(), 1, "the browser was used for the sign-in only");
    assert_eq!(stored_generation(&it.kept["a"]), stored_generation(&before) + 1);
}

#[test]
fn a_refresh_is_completed_and_stored_although_its_hub_is_closed_and_given_authorizations_again() {
    let (mut it, before) = refreshing();
    it.rig.close();
    assert_eq!(it.rig.state("a"), Some(State::Closing));
    it.rig.hub = it.rig.hub.clone().with_oauth(oauth(|options| options.stored = true));
    it.rig.serve();
    assert_eq!(it.rig.take_log().last().map(String::as_str), Some("closed"));
    assert!(!it.rig.hub.is_closed());
    it.serve();
    assert_stored(&it, &before);
    assert!(it.rig.hub.is_closed());
}

#[test]
fn a_code_is_exchanged_and_the_token_stored_although_its_server_is_removed() {
    let mut it = Many::open(&["a"], oauth(|options| options.stored = true));
    let (session, url) = it.shown[0].clone();
    let redirect = it.issuer.borrow_mut().browse(it.rig.now, &url).unwrap();
    assert!(it.input(session, OAuthInput::Redirect(&redirect)));
    it.rig.configure(configuration(json!({})));
    it.serve();
    assert!(String::from_utf8(it.kept["a"].clone()).unwrap().contains("rt1-hush"));
    assert!(it.store.is_empty() && it.rig.hub.deadline().is_none());
}

#[test]
fn a_stored_token_starts_a_server_without_the_user() {
    let stored = |options: &mut OAuthOptions| options.stored = true;
    let mut it = Many::open(&["a"], oauth(stored));
    it.consent();
    let mut other = Many::at(it.issuer, &["a"], oauth(stored), |_| {});
    other.kept = it.kept;
    other.rig.configure(configuration(entries(&["a"])));
    other.rig.open();
    other.serve();
    assert_eq!((other.rig.state("a"), other.asked.len()), (Some(State::Ready), 0));
}

#[test]
fn settings_of_an_entry_that_do_not_fit_fail_the_server() {
    let mut it = Many::of(&["a"], oauth(|_| {}));
    let mut servers = entries(&["a"]);
    servers["a"]["oauth"] = json!({"client_metadata_url": "http://app.example/client.json"});
    it.rig.configure(configuration(servers));
    it.rig.open();
    it.serve();
    let failure = it.rig.events.iter().find_map(|event| match event {
        HubEvent::Failed { failure, .. } => Some(failure),
        _ => None,
    });
    let failure = failure.expect("a failure");
    assert_eq!(failure.kind, FailureKind::Connect);
    assert_eq!(
        &*failure.message,
        "a cannot be authorized: the URL of the client ID metadata document is not https with a path"
    );
    assert_eq!(it.rig.state("a"), Some(State::Failed));
}

#[test]
fn a_hub_without_entropy_authorizes_nobody() {
    let weak = HubOAuth::new(OAuthOptions::new("suite", REDIRECT), [0; 32], Time::ZERO, Duration::from_secs(EPOCH));
    let it = Many::open(&["a"], weak);
    assert_eq!(it.rig.state("a"), Some(State::Failed));
}

#[test]
fn a_server_has_options_of_its_own() {
    let mut options = oauth(|_| {});
    let mut own = OAuthOptions::new("suite", "http://127.0.0.1:9000/own");
    own.registered.push(RegisteredClient::new("own"));
    options.own.insert("b".into(), own);
    let mut it = Many::open(&["a", "b"], options);
    let client = |it: &Many| query(it.shown[0].1.split_once('?').unwrap().1, "client_id").unwrap();
    assert_eq!(client(&it), "app");
    it.consent();
    assert_eq!(client(&it), "own");
}

#[test]
fn a_program_and_a_server_without_auth_take_no_input_for_oauth() {
    let mut it = Many::of(&["a"], oauth(|_| {}));
    it.rig = it.rig.peer("b", with_tools(&["y"]));
    let servers = json!({"a": {"url": "http://127.0.0.1:3001/a"}, "b": {"command": "b"}});
    it.rig.configure(configuration(servers));
    it.rig.open();
    it.serve();
    for name in ["a", "b"] {
        let session = it.session(name);
        assert!(!it.input(session, OAuthInput::Authorize), "{name}");
    }
    assert!(it.rig.log.contains(&"a: unauthorized".into()), "{:?}", it.rig.log);
}

#[test]
fn a_hub_tells_all_sessions_the_wall_clock_and_those_that_follow() {
    let mut it = Many::of(&["a", "b"], oauth(|options| options.stored = true));
    it.rig.configure(configuration(entries(&["a"])));
    it.rig.open();
    it.serve();
    it.rig.hub.handle_clock(it.rig.now, Duration::from_secs(EPOCH + 70_000));
    it.rig.configure(configuration(entries(&["a", "b"])));
    it.rig.hub.start(it.rig.now, "b").unwrap();
    it.serve();
    it.consent();
    it.consent();
    for name in ["a", "b"] {
        let record: Value = serde_json::from_slice(&it.kept[name]).unwrap();
        assert_eq!(record["expires"], EPOCH + 70_000 + 3600, "{name}");
    }
}

#[cfg(feature = "snapshot")]
#[test]
fn a_hub_that_is_restored_without_its_authorizations_asks_the_store_again() {
    use mcp_proto::{Moved, Secrets};
    let stored = |options: &mut OAuthOptions| options.stored = true;
    let mut it = Many::open(&["a", "b"], oauth(stored));
    it.consent();
    let text = serde_json::to_string(&it.rig.hub.snapshot(Secrets::Included)).unwrap();
    assert!(!text.contains("-hush"), "a snapshot contains no tokens");
    it.rig.move_hub(Secrets::Included, Moved::WithTransport);
    it.rig.hub = it.rig.hub.clone().with_oauth(oauth(stored));
    it.shown.clear();
    assert!(it.rig.outcome_of("mcp_a_x", json!({})).contains("open"));
    it.serve();
    assert_eq!(it.rig.state("a"), Some(State::Ready));
    assert_eq!(it.asked, ["a", "b"]);
}

#[test]
fn a_refused_call_draws_no_entropy() {
    let shown = |calls: usize| {
        let mut it = Many::at(issuer(), &["a"], oauth(|_| {}), |session| session.limits.queued = 0);
        let configured = configuration(entries(&["a"]));
        let mut saved = crate::hub::saved("a", with_tools(&["x"]));
        saved.entry = configured.servers["a"].fingerprint(saved.key);
        it.rig.configure(configured);
        it.rig.hub.restore(it.rig.now, "a", saved).unwrap();
        it.rig.collect();
        for _ in 0..calls {
            assert!(it.rig.hub.call(it.rig.now, "mcp_a_x", None).is_err());
        }
        it.rig.open();
        it.rig.hub.start(it.rig.now, "a").unwrap();
        it.rig.collect();
        it.serve();
        it.shown[0].1.clone()
    };
    assert_eq!(shown(0), shown(2));
}

#[test]
fn a_debug_of_the_authorization_of_a_hub_shows_no_entropy() {
    let text = format!("{:?}", oauth(|_| {}));
    assert!(text.contains("redirect_uri") && !text.contains("1, 1"), "{text}");
}

#[test]
fn a_hub_without_authorizations_takes_the_clock() {
    let mut rig = HubRig::of(Options::new("suite", "1")).peer("a", with_tools(&["x"])).up(&["a"]);
    rig.hub.handle_clock(rig.now, Duration::from_secs(EPOCH));
    rig.hub.handle_clock(rig.now, Duration::ZERO);
    assert!(rig.hub.poll().is_none());
}

/// The options of the authorization change to ones that are not valid, and then the entry changes.
#[test]
fn a_session_that_cannot_be_created_inherits_no_lists_and_takes_no_calls() {
    let entry = |interval: u32| json!({"a": {"url": "http://127.0.0.1:3001/a", "auth": "oauth", "keepalive_interval": interval}});
    let options = || HubOptions::new(Options::new("suite", "1"));
    let mut rig = HubRig::new(options()).peer("a", full(&["x"], &["r"], &["p"]));
    rig.configure(configuration(entry(100)));
    rig.open();
    rig.serve();
    let names = ["mcp_a_x", "mcp_a_list_prompts"];
    assert!(names.iter().all(|name| rig.functions().iter().any(|known| known == name)), "{:?}", rig.functions());
    let invalid = HubOAuth::new(OAuthOptions::new("suite", "no url"), [1; 32], Time::ZERO, Duration::from_secs(EPOCH));
    rig.hub = std::mem::replace(&mut rig.hub, Hub::new(options(), 0)).with_oauth(invalid);
    rig.configure(configuration(entry(200)));
    rig.serve();
    assert_eq!((rig.state("a"), rig.functions()), (Some(State::Failed), Vec::new()));
    let start = rig.hub.start(rig.now, "a");
    for _ in 0..2 {
        for name in names {
            let error = rig.try_call(name, json!({})).unwrap_err();
            assert!(matches!(error, CallError::NotUp { .. }), "{name}: {error}");
        }
        rig.wait(Duration::from_secs(600));
    }
    start.unwrap();
    rig.close();
    rig.serve();
    assert!(rig.open_calls().is_empty());
}
