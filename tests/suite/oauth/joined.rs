//! A client that authorizes itself: what waits for a token, is sent again, or ends.

use std::cell::RefCell;
use std::rc::Rc;

use mcp_proto::binding::http::{Broken, HttpAction};
use mcp_proto::binding::oauth::{OAuthInput, StoreId};
use mcp_proto::testkit::{Endpoint, FakeAuthorizationServer, On, Reply as Scripted};
use mcp_proto::{Event, Family, Http, Implementation, Options, Outcome, RefreshOutcome, Request, RequestId};

use crate::web::{Exchange, Reply, Site as McpSite, Web, modern_site, site as legacy_site};

use super::*;

pub(super) const MCP: &str = "http://127.0.0.1:3001/mcp";
pub(super) const AS: &str = "http://127.0.0.1:3002";

/// A client, its server, and its authorization server.
pub(super) struct Joined {
    pub(super) web: Web,
    pub(super) site: McpSite,
    pub(super) issuer: Rc<RefCell<FakeAuthorizationServer>>,
    /// Requests to the authorization server that wait for their answers.
    pub(super) sent: VecDeque<Sent>,
    pub(super) log: Vec<String>,
    pub(super) browse: Option<String>,
    pub(super) signs: VecDeque<SignRequest>,
    pub(super) store: VecDeque<StoreAction>,
    pub(super) events: Vec<OAuthEvent>,
}

/// The authorization server, which issues tokens for ten hours, and revokes none.
pub(super) fn issuer() -> FakeAuthorizationServer {
    FakeAuthorizationServer::new(AS)
        .marked("hush")
        .protects(MCP)
        .client("app")
        .always(Endpoint::ServerMetadata, Scripted::With(json!({"revocation_endpoint": null})))
        .always(Endpoint::Token, Scripted::With(json!({"expires_in": 36_000})))
}

impl Joined {
    pub(super) fn new(site: McpSite) -> Self {
        Self::with(site, |_| {})
    }

    pub(super) fn with(site: McpSite, change: impl FnOnce(&mut OAuthOptions)) -> Self {
        Self::build(site, Rc::new(RefCell::new(issuer())), change, |_| {})
    }

    pub(super) fn build(
        site: McpSite,
        issuer: Rc<RefCell<FakeAuthorizationServer>>,
        change: impl FnOnce(&mut OAuthOptions),
        client: impl FnOnce(&mut Options),
    ) -> Self {
        Self::build_at(MCP, site, issuer, change, client)
    }

    fn build_at(
        url: &str,
        site: McpSite,
        issuer: Rc<RefCell<FakeAuthorizationServer>>,
        change: impl FnOnce(&mut OAuthOptions),
        client: impl FnOnce(&mut Options),
    ) -> Self {
        let mut oauth = OAuthOptions::new("suite", REDIRECT);
        oauth.registered.push(RegisteredClient::new("app"));
        change(&mut oauth);
        let auth = Authorization::new(url, oauth, [1; 32], Time::ZERO, Duration::from_secs(EPOCH)).unwrap();
        let known = Rc::clone(&issuer);
        let site = site.rule(move |exchange| {
            let refusal = known.borrow_mut().answer(exchange.at, &exchange.request)?;
            let header = |name| refusal.headers().get(name).map(|value| (name, value.to_str().unwrap().to_owned()));
            let mut reply = Reply::status(refusal.status().as_u16());
            reply.headers.extend(["www-authenticate", "dpop-nonce"].into_iter().filter_map(header));
            Some(reply)
        });
        let mut options = Options::new("suite", "1.0");
        options.keepalive = None;
        options.timeouts.request = Duration::from_secs(120);
        client(&mut options);
        let mut web = Web::over(options, Http::new(url).unwrap().with_oauth(auth));
        web.reopen();
        Self {
            web,
            site,
            issuer,
            sent: VecDeque::new(),
            log: Vec::new(),
            browse: None,
            signs: VecDeque::new(),
            store: VecDeque::new(),
            events: Vec::new(),
        }
    }

    /// A client that is ready, whose server accepted its token.
    pub(super) fn ready(site: McpSite) -> Self {
        let mut it = Self::new(site);
        it.serve();
        it.consent();
        it.serve();
        assert!(it.web.is_ready(), "{:?}", it.web.events);
        it.log.clear();
        it
    }

    pub(super) fn input(&mut self, input: OAuthInput<'_>) -> bool {
        let is_ours = self.web.session.handle_oauth(self.web.now, input);
        self.web.collect();
        self.take();
        is_ours
    }

    /// Takes the actions of the authorization.
    pub(super) fn take(&mut self) {
        while let Some(action) = self.web.oauth.pop_front() {
            assert!(!format!("{action:?}").contains("hush"), "{action:?}");
            match action {
                OAuthAction::Request(request) => {
                    let sent = Sent::new(request);
                    self.log.push(format!("{} {}", sent.method, sent.url));
                    self.sent.push_back(sent);
                }
                OAuthAction::Drop(id) => self.sent.retain(|sent| sent.id != id),
                OAuthAction::Browse(url) => self.browse = Some(url.as_str().to_owned()),
                OAuthAction::EndBrowse => self.browse = None,
                OAuthAction::Sign(request) => self.signs.push_back(request),
                OAuthAction::Store(action) => self.store.push_back(action),
                OAuthAction::Event(event) => self.events.push(event),
                other => panic!("{other:?}"),
            }
        }
    }

    /// Answers a request to the authorization server.
    pub(super) fn answer(&mut self, status: u16, body: &str) {
        self.answer_with(&http::Response::builder().status(status).body(body.into()).unwrap());
    }

    pub(super) fn answer_with(&mut self, response: &http::Response<Vec<u8>>) {
        let exchange = self.sent.pop_front().expect("a request is in flight").id;
        self.input(OAuthInput::Head { exchange, status: response.status(), headers: response.headers() });
        self.input(OAuthInput::Body { exchange, chunk: response.body() });
        self.input(OAuthInput::End { exchange });
    }

    /// The authorization server answers a request.
    pub(super) fn issue(&mut self) {
        let request = self.sent.front().expect("a request is in flight").request();
        let response = self.issuer.borrow_mut().answer(self.web.now, &request).expect("it is no request to the server");
        self.answer_with(&response);
    }

    /// Lets both servers answer everything.
    pub(super) fn serve(&mut self) {
        for _ in 0..100 {
            self.web.serve(&mut self.site);
            self.take();
            if self.sent.is_empty() {
                return;
            }
            self.issue();
        }
        panic!("it does not end: {:?}", self.log);
    }

    /// The user refuses.
    pub(super) fn deny(&mut self) {
        let refusal = [Scripted::error(400, "access_denied")];
        self.issuer.borrow_mut().add_script(Endpoint::Authorization, refusal);
        self.consent();
    }

    /// The user authorizes.
    pub(super) fn consent(&mut self) {
        let shown = self.browse.clone().expect("no URL is shown");
        let redirect = self.issuer.borrow_mut().browse(self.web.now, &shown).expect("no redirect");
        assert!(self.input(OAuthInput::Redirect(&redirect)));
    }

    pub(super) fn wait(&mut self, seconds: u64) {
        self.web.wait(Duration::from_secs(seconds));
        self.take();
    }

    /// The server accepts no token any more that was issued so far.
    pub(super) fn revoke(&mut self) {
        self.issuer.borrow_mut().expire_tokens();
    }

    pub(super) fn call(&mut self) -> (RequestId, Exchange) {
        self.web.call("a")
    }

    /// The server accepts the token for a call.
    pub(super) fn accept(&mut self) {
        let (_, exchange) = self.call();
        let reply = self.site.reply(&exchange);
        self.web.reply(&exchange, reply);
        self.take();
    }

    /// A call that waits to be served.
    pub(super) fn ask(&mut self) -> RequestId {
        self.web.request(Request::call_tool("a", None))
    }

    /// Requests to the token endpoint.
    pub(super) fn token_requests(&self) -> usize {
        self.log.iter().filter(|line| line.ends_with("/token")).count()
    }

    #[track_caller]
    pub(super) fn assert_refused(&self, request: RequestId, status: u16, words: &str) {
        match self.web.ended(request) {
            Some(Outcome::Error(error)) => {
                let text = error.to_string();
                assert!(text.contains(&status.to_string()) && text.contains(words), "{text}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// What the server answers to a request without a token that it accepts.
pub(super) fn refused() -> Reply {
    Reply::text(401, "who are you").with("www-authenticate", "Bearer")
}

pub(super) fn forbid(it: &mut Joined, exchange: &Exchange, scope: &str) {
    let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
    it.web.reply(exchange, Reply::text(403, "no").with("www-authenticate", &challenge));
    it.take();
}

#[test]
fn a_client_obtains_a_token_for_its_handshake() {
    let mut it = Joined::new(modern_site());
    it.serve();
    assert!(!it.web.is_ready() && it.browse.is_some());
    // The wait for the user has no deadline but its own.
    it.wait(300);
    it.serve();
    it.consent();
    it.serve();
    assert!(it.web.is_ready());
    assert!(!it.web.events.iter().any(|event| matches!(event, Event::Unauthorized { .. })));
    let last = it.web.last("tools/list");
    assert_eq!(last.header("authorization"), Some("Bearer at1-hush"));
    assert!(last.headers()["authorization"].is_sensitive());
    assert!(matches!(it.events.last(), Some(OAuthEvent::Authorized(_))));
}

#[test]
fn a_server_that_lists_without_a_token_is_asked_for_one_when_it_demands_it_for_a_call() {
    let issuer = issuer().anonymous(true).demands(On::method("tools/call"), "");
    let mut it = Joined::build(modern_site(), Rc::new(RefCell::new(issuer)), |_| {}, |_| {});
    it.serve();
    assert!(it.web.is_ready() && it.browse.is_none());
    assert_eq!(it.log, [""; 0]);
    assert!(it.web.log.iter().all(|asked| asked.header("authorization").is_none()));
    let call = it.ask();
    it.serve();
    assert!(it.browse.is_some());
    assert_eq!(it.web.outcome(call), "open");
    it.consent();
    it.serve();
    assert_eq!(it.web.outcome(call), "Result");
}

#[test]
fn a_challenge_is_read_as_far_as_it_goes() {
    for challenge in [
        "Bearer resource_metadata=http://127.0.0.1:3001/prm",
        "Negotiate YII=, Bearer   resource_metadata = \"http://127.0.0.1:3001/prm\"",
        "Basic realm=\"a, b\", bearer\terror=x,,resource_metadata=http://127.0.0.1:3001/prm, ä=\"y\"",
    ] {
        let mut it = Joined::new(modern_site());
        let exchange = it.web.take_one();
        it.web.reply(&exchange, Reply::text(401, "no").with("www-authenticate", challenge));
        it.take();
        assert_eq!(it.log, ["GET http://127.0.0.1:3001/prm"], "{challenge}");
    }
}

#[test]
fn a_client_that_does_not_reconnect_waits_for_its_token() {
    let issuer = Rc::new(RefCell::new(issuer()));
    let mut it = Joined::build(modern_site(), issuer, |_| {}, |options| options.reconnect = None);
    it.serve();
    assert_eq!(it.web.cause(), None);
    it.consent();
    it.serve();
    assert!(it.web.is_ready());
}

#[test]
fn calls_that_are_refused_wait_for_one_refresh_and_are_each_sent_again_once() {
    let mut it = Joined::ready(modern_site());
    it.revoke();
    let calls: Vec<_> = (0..3).map(|_| it.ask()).collect();
    it.serve();
    assert_eq!(it.token_requests(), 1);
    assert_eq!(it.web.count("tools/call"), 6);
    for call in calls {
        assert_eq!(it.web.outcome(call), "Result");
    }
}

#[test]
fn a_call_that_was_refused_with_a_former_token_is_only_sent_again() {
    let mut it = Joined::ready(modern_site());
    let (one, first) = it.call();
    let (other, second) = it.call();
    it.revoke();
    it.web.reply(&first, refused());
    it.take();
    it.serve();
    assert_eq!(it.web.outcome(one), "Result");
    it.web.reply(&second, refused());
    it.take();
    it.serve();
    assert_eq!(it.web.outcome(other), "Result");
    assert_eq!(it.token_requests(), 1);
    assert_eq!(it.web.last("tools/call").header("authorization"), Some("Bearer at2-hush"));
}

#[test]
fn a_call_is_sent_again_three_times_at_most() {
    let mut it = Joined::ready(modern_site());
    let (call, mut exchange) = it.call();
    for attempt in 0..4 {
        assert_eq!(it.web.outcome(call), "open");
        // The server accepts the token for another call.
        it.accept();
        it.web.reply(&exchange, refused());
        it.take();
        if attempt == 3 {
            break;
        }
        while !it.sent.is_empty() {
            it.issue();
        }
        exchange = it.web.take_named("tools/call");
    }
    it.assert_refused(call, 401, "");
    assert!(it.web.is_ready());
}

#[test]
fn a_call_that_waits_for_further_scopes_goes_on_and_one_that_never_gets_them_ends() {
    let mut it = Joined::ready(modern_site());
    let (call, exchange) = it.call();
    forbid(&mut it, &exchange, "write");
    assert_eq!(it.web.outcome(call), "open");
    // Other requests go on meanwhile.
    let other = it.ask();
    it.web.serve(&mut it.site);
    assert_eq!(it.web.outcome(other), "Result");
    // The deadline of the call stands still.
    it.wait(300);
    it.consent();
    it.serve();
    assert_eq!(it.web.outcome(call), "Result");
    let (call, mut exchange) = it.call();
    for _ in 0..2 {
        forbid(&mut it, &exchange, "write");
        it.consent();
        it.issue();
        exchange = it.web.take_named("tools/call");
    }
    forbid(&mut it, &exchange, "write");
    it.assert_refused(call, 403, "forbidden: the scopes `write` are required");
    assert!(it.web.is_ready() && it.browse.is_none());
}

#[test]
fn a_call_waits_ten_minutes_for_a_user_who_never_comes_back() {
    let mut it = Joined::ready(modern_site());
    let (call, exchange) = it.call();
    forbid(&mut it, &exchange, "write");
    it.wait(599);
    assert_eq!(it.web.outcome(call), "open");
    it.wait(1);
    it.assert_refused(call, 403, "no");
    assert!(it.web.is_ready() && it.browse.is_none());
    assert!(matches!(it.events.last(), Some(OAuthEvent::Failed(_))));
}

#[test]
fn a_failed_authorization_ends_the_calls_that_wait_and_says_why() {
    let mut it = Joined::ready(modern_site());
    it.issuer.borrow_mut().revoke_tokens();
    let call = it.ask();
    it.web.serve(&mut it.site);
    it.take();
    while it.browse.is_none() {
        it.issue();
    }
    it.deny();
    it.assert_refused(call, 401, "authorization failed at authorization: the authorization server answered");
    assert!(it.web.is_ready());
}

#[test]
fn the_end_of_an_attempt_precedes_that_of_the_client() {
    let mut it = Joined::new(modern_site());
    it.serve();
    assert!(it.browse.is_some());
    it.web.session.close(it.web.now).unwrap();
    let actions: Vec<_> = std::iter::from_fn(|| it.web.session.poll()).collect();
    let ends = |action: &HttpAction| matches!(action, HttpAction::OAuth(OAuthAction::EndBrowse));
    assert!(actions.iter().any(ends), "{actions:?}");
    assert!(matches!(actions.last(), Some(HttpAction::Event(Event::Closed { .. }))), "{actions:?}");
}

#[test]
fn calls_that_wait_end_when_the_user_closes_the_page() {
    let mut it = Joined::ready(modern_site());
    let (call, exchange) = it.call();
    forbid(&mut it, &exchange, "write");
    assert!(it.browse.is_some());
    it.input(OAuthInput::Cancel);
    it.assert_refused(call, 403, "the sign-in was cancelled");
    assert!(it.browse.is_none() && it.web.is_ready());
    // Nothing is signed out.
    let call = it.ask();
    it.serve();
    assert_eq!(it.web.outcome(call), "Result");
}

#[test]
fn calls_that_wait_end_when_the_url_cannot_be_shown_and_say_why() {
    let mut it = Joined::ready(modern_site());
    let (call, exchange) = it.call();
    forbid(&mut it, &exchange, "write");
    it.input(OAuthInput::NotShown("the port is taken: http://ada:hush@127.0.0.1:1/?hush"));
    it.assert_refused(call, 403, "the port is taken: http://…@127.0.0.1:1/?…");
    assert!(it.browse.is_none() && it.web.is_ready());
}

#[test]
fn a_client_that_is_closed_does_not_wait_for_metadata() {
    let mut it = Joined::new(modern_site());
    it.web.serve(&mut it.site);
    it.take();
    while !it.sent.is_empty() {
        it.answer(503, "");
    }
    assert!(it.events.is_empty() && it.web.session.deadline().is_some());
    it.web.session.close(it.web.now).unwrap();
    it.web.collect();
    it.take();
    assert!(matches!(&*it.events, [OAuthEvent::Failed(error)] if &*error.reason == "the client was closed"));
    assert!(it.web.session.is_closed());
}

#[test]
fn a_client_that_is_closed_does_not_wait_for_the_user() {
    let mut it = Joined::new(modern_site());
    it.serve();
    assert!(it.browse.is_some());
    it.web.session.close(it.web.now).unwrap();
    it.web.collect();
    it.take();
    assert!(it.browse.is_none());
    let why = it.events.iter().find_map(|event| match event {
        OAuthEvent::Failed(error) => Some(error.reason.to_string()),
        _ => None,
    });
    assert_eq!(why.as_deref(), Some("the client was closed"));
}

#[test]
fn a_client_is_closed_when_a_refresh_in_progress_is_complete() {
    let mut it = Joined::ready(modern_site());
    it.revoke();
    it.ask();
    it.web.serve(&mut it.site);
    it.take();
    while !it.sent.front().expect("a request is in flight").url.ends_with("/token") {
        it.issue();
    }
    it.web.session.close(it.web.now).unwrap();
    it.web.collect();
    assert!(it.web.cause().is_some() && !it.web.session.is_closed());
    let request = it.sent.front().expect("a request is in flight").request();
    let response = it.issuer.borrow_mut().answer(it.web.now, &request).expect("it is no request to the server");
    let exchange = it.sent.pop_front().expect("a request is in flight").id;
    for input in [
        OAuthInput::Head { exchange, status: response.status(), headers: response.headers() },
        OAuthInput::Body { exchange, chunk: response.body() },
        OAuthInput::End { exchange },
    ] {
        it.web.session.handle_oauth(it.web.now, input);
    }
    assert!(!it.web.session.is_closed(), "its result waits to be polled");
    it.web.collect();
    it.take();
    assert!(it.web.session.is_closed());
}

#[test]
fn a_list_that_timed_out_while_it_waited_for_a_token_is_not_requested_again() {
    let request = Duration::from_secs(5);
    let mut it = Joined::build(
        modern_site(),
        Rc::new(RefCell::new(issuer())),
        |_| {},
        |options| (options.timeouts.request, options.timeouts.server_request) = (request, request),
    );
    it.serve();
    it.consent();
    it.serve();
    let before = it.web.count("tools/list");
    it.revoke();
    it.web.session.refresh(it.web.now, Family::Tools).unwrap();
    it.web.collect();
    it.web.serve(&mut it.site);
    it.take();
    while !it.sent.front().expect("a request is in flight").url.ends_with("/token") {
        it.issue();
    }
    it.wait(5);
    let is_over = |event: &Event| matches!(event, Event::Refreshed { outcome: RefreshOutcome::Failed(_), .. });
    assert!(it.web.events.iter().any(is_over), "{:?}", it.web.events);
    it.issue();
    assert!(matches!(it.events.last(), Some(OAuthEvent::Authorized(_))), "{:?}", it.events);
    assert_eq!(it.web.count("tools/list"), before + 1);
}

#[test]
fn a_client_that_is_closed_sends_no_refresh_and_none_again() {
    let close = |it: &mut Joined| {
        it.web.session.close(it.web.now).unwrap();
        it.web.collect();
        it.take();
    };
    for (ending, status) in [("oauth-protected-resource/mcp", None), ("/token", Some(503)), ("/token", None)] {
        let mut it = Joined::ready(modern_site());
        it.revoke();
        it.ask();
        it.web.serve(&mut it.site);
        it.take();
        while !it.sent.front().expect("a request is in flight").url.ends_with(ending) {
            it.issue();
        }
        if let Some(status) = status {
            // It would be sent again after a wait.
            it.answer(status, "");
        }
        close(&mut it);
        if (ending, status) == ("/token", None) {
            assert!(!it.web.session.is_closed(), "what is in flight is awaited");
            it.answer(503, "");
            it.web.collect();
            it.take();
        }
        assert!(it.web.session.is_closed() && it.sent.is_empty(), "{ending} {status:?}");
        let sent = it.log.len();
        it.wait(72_000);
        assert_eq!((it.log.len(), it.web.session.deadline()), (sent, None));
    }
}

#[test]
fn a_client_that_is_closed_renews_no_token() {
    let mut it = Joined::ready(modern_site());
    it.web.session.close(it.web.now).unwrap();
    it.web.collect();
    assert!(it.web.cause().is_some());
    it.wait(72_000);
    assert!(it.log.is_empty() && it.web.session.deadline().is_none());
}

#[test]
fn a_client_signs_out() {
    let mut it = Joined::ready(modern_site());
    it.input(OAuthInput::SignOut);
    let (_, exchange) = it.call();
    assert_eq!(exchange.header("authorization"), None);
    assert!(!it.input(OAuthInput::Redirect("?code=x&state=y")));
    let action = it.web.session.poll();
    assert!(!matches!(action, Some(HttpAction::OAuth(_))));
}

fn stored(options: &mut OAuthOptions) {
    options.stored = true;
}

/// Everything is answered, the store included, and the user consents if asked.
fn serve_all(it: &mut Joined, record: &mut Option<Vec<u8>>) {
    for _ in 0..40 {
        it.serve();
        if it.browse.is_some() {
            it.consent();
        }
        if let Some(action) = it.store.pop_front() {
            serve_store(it, &action, record);
        }
    }
}

/// The record of a client that signed in, and the authorization server.
pub(super) fn signed_in() -> (Option<Vec<u8>>, FakeAuthorizationServer) {
    let mut it = Joined::with(modern_site(), stored);
    let mut record = None;
    serve_all(&mut it, &mut record);
    assert!(it.web.is_ready() && record.is_some());
    let issuer = it.issuer.borrow().clone();
    (record, issuer)
}

/// As [`signed_in`], some time ago: the token expired.
fn expired() -> (Option<Vec<u8>>, FakeAuthorizationServer) {
    let (record, issuer) = signed_in();
    let mut record: Value = serde_json::from_slice(&record.unwrap()).unwrap();
    record["expires"] = json!(EPOCH);
    (Some(record.to_string().into_bytes()), issuer)
}

/// A client with a store, and this authorization server.
fn at(issuer: FakeAuthorizationServer) -> Joined {
    Joined::build(modern_site(), Rc::new(RefCell::new(issuer)), stored, |_| {})
}

/// What the requests to the MCP server bore.
fn borne(it: &Joined) -> Vec<Option<String>> {
    it.web.log.iter().map(|asked| asked.header("authorization").map(str::to_owned)).collect()
}

#[test]
fn a_stored_token_goes_with_the_first_request() {
    let (mut record, issuer) = signed_in();
    // A server that has lists for everybody, too, is asked as the user who signed in.
    for is_open in [false, true] {
        let mut it = at(issuer.clone().anonymous(is_open));
        assert!(it.web.take().is_empty(), "the first request waits for the record");
        serve_all(&mut it, &mut record);
        assert!(it.web.is_ready() && it.log.is_empty() && it.browse.is_none());
        assert!(borne(&it).iter().all(|token| token.as_deref() == Some("Bearer at1-hush")), "{:?}", borne(&it));
        assert!(!it.web.events.iter().any(|event| matches!(event, Event::Down { .. })));
    }
}

#[test]
fn an_expired_stored_token_is_refreshed_before_the_first_request() {
    let (mut record, issuer) = expired();
    let mut it = at(issuer);
    serve_all(&mut it, &mut record);
    assert!(it.web.is_ready() && it.browse.is_none());
    assert!(borne(&it).iter().all(|token| token.as_deref() == Some("Bearer at2-hush")), "{:?}", borne(&it));
    assert_eq!(it.token_requests(), 1);
    assert!(String::from_utf8(record.unwrap()).unwrap().contains("rt2-hush"));
}

/// A client of a server that demands a token for calls alone, when it is ready. Its store has this record, and the store or
/// the refresh has this fault.
fn opened(issuer: FakeAuthorizationServer, record: Option<&[u8]>, fault: &str) -> Joined {
    let refusal = match fault {
        "refused" => Scripted::error(400, "invalid_grant"),
        "fails" => Scripted::status(503, ""),
        _ => Scripted::Normal,
    };
    let issuer = issuer.anonymous(true).demands(On::method("tools/call"), "").always(Endpoint::Refresh, refusal);
    let mut it = at(issuer);
    let mut record = record.map(<[u8]>::to_vec);
    for _ in 0..60 {
        it.web.serve(&mut it.site);
        it.take();
        if it.web.is_ready() {
            it.issuer.borrow_mut().set_always(Endpoint::Refresh, Scripted::Normal);
            return it;
        }
        if !it.sent.is_empty() {
            it.issue();
        } else if let Some(action) = it.store.pop_front() {
            match (&action, fault) {
                (StoreAction::Load(id), "load") => drop(it.input(OAuthInput::Loaded { id: *id, record: Err(()) })),
                (StoreAction::Acquire(id), "lock") => drop(it.input(OAuthInput::Acquired { id: *id, acquired: false })),
                (StoreAction::Load(_), "silent") => it.wait(60),
                _ => serve_store(&mut it, &action, &mut record),
            }
        } else {
            it.wait(10);
        }
    }
    panic!("{:?} {:?}", it.log, it.events);
}

#[test]
fn without_a_record_that_can_be_used_the_first_request_goes_without_a_token_and_nobody_is_asked() {
    let (record, issuer) = expired();
    let own = record.as_deref();
    let other = String::from_utf8(own.unwrap().to_vec()).unwrap().replace("/mcp", "/other");
    for (record, fault) in [
        (None, ""),
        (Some(&b"{"[..]), ""),
        (Some(other.as_bytes()), ""),
        (own, "load"),
        (own, "lock"),
        (own, "silent"),
        (own, "refused"),
        (own, "fails"),
    ] {
        let mut it = opened(issuer.clone(), record, fault);
        assert!(it.browse.is_none() && borne(&it).iter().all(Option::is_none), "{fault} {:?}", borne(&it));
        it.events.retain(|event| !matches!(event, OAuthEvent::RecordUnreadable));
        assert!(it.events.is_empty(), "{fault} {:?}", it.events);
        // The server demands a token now.
        it.wait(60);
        let call = it.ask();
        serve_all(&mut it, &mut None);
        assert_eq!(it.web.outcome(call), "Result", "{fault}");
    }
}

pub(super) fn serve_store(it: &mut Joined, action: &StoreAction, stored: &mut Option<Vec<u8>>) {
    let id: StoreId = match action {
        StoreAction::Acquire(id) | StoreAction::Load(id) | StoreAction::Save { id, .. } => *id,
        _ => return,
    };
    match action {
        StoreAction::Acquire(_) => it.input(OAuthInput::Acquired { id, acquired: true }),
        StoreAction::Load(_) => it.input(OAuthInput::Loaded { id, record: Ok(stored.as_deref()) }),
        StoreAction::Save { record, .. } => {
            *stored = Some(record.expose().to_vec());
            it.input(OAuthInput::Saved { id, saved: SaveOutcome::Stored })
        }
        _ => false,
    };
}

/// A server with tools and resources, which refuses the token once, for the first message of this name.
fn refusing_once(is_modern: bool, name: &'static str) -> McpSite {
    let capabilities = json!({"tools": {}, "resources": {}});
    let complete = |mut result: Value| {
        if is_modern {
            result["resultType"] = json!("complete");
        }
        result
    };
    let site = if is_modern { McpSite::modern(capabilities) } else { McpSite::legacy(capabilities) };
    site.result("tools/list", complete(json!({"tools": [{"name": "a", "inputSchema": {"type": "object"}}]})))
        .result("resources/list", complete(json!({"resources": []})))
        .result("resources/templates/list", complete(json!({"resourceTemplates": []})))
        .first(name, 1, |_| Reply::text(401, "no").with("www-authenticate", "Bearer"))
}

#[test]
fn a_401_during_discovery_renews_the_token_and_leaves_the_session_and_the_answered_lists() {
    for (is_modern, opens) in [(true, "server/discover"), (false, "initialize")] {
        for refused in ["notifications/initialized", "tools/list", "resources/list", "resources/templates/list", "GET"]
        {
            if is_modern && ["notifications/initialized", "GET"].contains(&refused) {
                continue;
            }
            let it = Joined::ready(refusing_once(is_modern, refused));
            let downs = it.web.events.iter().filter(|event| matches!(event, Event::Down { .. })).count();
            assert_eq!(downs, 1, "{refused}: only the first handshake had no token");
            for name in [opens, "notifications/initialized", "tools/list", "resources/list", "resources/templates/list"]
            {
                let expected = match name {
                    _ if name == refused || name == "server/discover" => 2,
                    "notifications/initialized" if is_modern => 0,
                    _ => 1,
                };
                assert_eq!(it.web.count(name), expected, "{refused}: {name} {:?}", it.web.names());
            }
            let last = it.web.last("tools/list");
            let sessions: std::collections::BTreeSet<_> =
                it.web.log.iter().filter_map(|asked| asked.header("mcp-session-id").map(str::to_owned)).collect();
            assert_eq!(sessions.len(), usize::from(!is_modern));
            assert!(last.header("authorization").is_some());
        }
    }
}

#[test]
fn a_token_that_the_server_accepts_leads_to_nothing_else() {
    let mut it = Joined::ready(modern_site());
    let call = it.ask();
    it.serve();
    assert_eq!(it.web.outcome(call), "Result");
    assert!(it.log.is_empty());
}

#[test]
fn a_stream_that_is_refused_every_other_time_does_not_drive_the_authorization_server() {
    let mut asked = 0_u32;
    let site = crate::web::site().on("GET", move |_| {
        asked += 1;
        if asked % 2 == 1 {
            let note = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#;
            Reply::status(200).body("text/event-stream", format!("retry: 1\ndata: {note}\n\n"))
        } else {
            Reply::text(401, "no").with("www-authenticate", "Bearer error=\"invalid_token\"")
        }
    });
    let mut it = Joined::ready(site);
    it.log.clear();
    let mut after = |tenths: u32| {
        for _ in 0..tenths {
            it.web.wait(Duration::from_millis(100));
            it.take();
            it.serve();
        }
        it.token_requests()
    };
    assert_eq!(after(20), 4, "the first ones are at once");
    let all = after(600);
    assert!((6..=11).contains(&all), "{all}");
}

#[test]
fn a_new_token_requests_no_stream_that_is_open_refused_or_waited_for() {
    for stream in ["open", "refused", "broken"] {
        let mut site = crate::web::site();
        site.streams = stream != "refused";
        let mut it = Joined::ready(site);
        if stream == "broken" {
            let get = it.web.last("GET");
            it.web.end(&get);
        }
        let before = it.web.count("GET");
        it.revoke();
        let call = it.ask();
        it.serve();
        assert_eq!((&*it.web.outcome(call), it.token_requests()), ("Result", 1));
        assert_eq!(it.web.count("GET"), before, "{stream}");
    }
}

/// The stream of a call breaks after an event.
pub(super) fn interrupt(it: &mut Joined, call: &Exchange) {
    it.web.head(call, 200, &[("content-type", "text/event-stream")]);
    it.web.body(call, "id: 7\ndata:\n\n");
    it.web.fail(call, Broken::Midway);
}

/// The token is refreshed meanwhile, and the call is not lost.
#[test]
fn a_stream_that_is_refused_is_resumed_with_another_token() {
    let mut it = Joined::ready(legacy_site());
    let (call, exchange) = it.call();
    interrupt(&mut it, &exchange);
    it.revoke();
    it.wait(2);
    it.serve();
    let refused = it.web.last("GET");
    it.wait(2);
    it.take();
    let resumed = it.web.last("GET");
    assert_eq!((it.web.outcome(call), it.token_requests()), ("open".into(), 1));
    assert_ne!(resumed.header("authorization"), refused.header("authorization"));
    assert_eq!(resumed.header("last-event-id"), Some("7"));
}

/// As long as the call has time.
#[test]
fn a_stream_that_is_refused_waits_for_the_user() {
    let mut it = Joined::ready(legacy_site());
    let (call, exchange) = it.call();
    interrupt(&mut it, &exchange);
    it.issuer.borrow_mut().revoke_tokens();
    for _ in 0..40 {
        it.wait(1);
        it.serve();
    }
    assert!(it.browse.is_some());
    it.consent();
    it.serve();
    it.wait(32);
    it.take();
    assert_eq!(it.web.outcome(call), "open");
    assert_eq!(it.web.last("GET").header("authorization"), Some("Bearer at2-hush"));
}

/// A server that refuses whatever token it gets is asked no more than it is for other requests.
#[test]
fn a_stream_that_is_refused_with_each_token_is_lost() {
    let mut it = Joined::ready(legacy_site().on("GET", |_| refused()));
    let (call, exchange) = it.call();
    let before = it.web.count("GET");
    interrupt(&mut it, &exchange);
    for _ in 0..60 {
        it.wait(1);
        it.serve();
        if it.browse.is_some() {
            it.consent();
        }
    }
    // One of them while the user signed in, which does not count.
    assert_eq!((it.web.outcome(call), it.web.count("GET") - before), ("Unknown".into(), 5));
}

#[test]
fn nothing_is_kept_of_messages_whose_time_ends_while_they_wait_for_a_token() {
    let mut it = Joined::ready(McpSite::legacy(json!({"resources": {"subscribe": true}})));
    it.issuer.borrow_mut().revoke_tokens();
    let sizes: Vec<_> = (0..3)
        .map(|_| {
            for number in 0..50 {
                it.web.session.subscribe(it.web.now, &format!("file:///{number}")).unwrap();
            }
            it.web.collect();
            it.serve();
            it.wait(601);
            it.serve();
            format!("{:?}", it.web.session).len()
        })
        .collect();
    assert!(sizes[2] < sizes[1] + 500, "{sizes:?}");
}

/// A handshake says which era the server is of, while the client looks for an authorization server as of 2025-03-26.
#[test]
fn a_search_by_the_conventions_ends_when_a_handshake_finds_a_modern_server() {
    // It requires no token at first.
    let open = Rc::new(RefCell::new(issuer().anonymous(true)));
    let mut it = Joined::build(legacy_site(), open, |_| {}, |_| {});
    it.serve();
    assert!(it.web.is_ready(), "{:?} {:?}", it.web.events, it.log);
    let (call, exchange) = it.call();
    let (_, other) = it.call();
    it.web.reply(&exchange, refused());
    it.take();
    it.answer(404, "");
    it.answer(404, "");
    assert_eq!(it.sent[0].url, "http://127.0.0.1:3001/.well-known/oauth-authorization-server");
    it.site = modern_site();
    it.web.reply(&other, Reply::text(404, "no such session"));
    it.web.serve(&mut it.site);
    it.take();
    assert!(it.web.is_ready() && it.sent.is_empty(), "{:?} {:?}", it.web.events, it.log);
    match &it.events[..] {
        [OAuthEvent::Failed(error)] => {
            assert_eq!(error.stage, Stage::ResourceMetadata);
            assert!(error.reason.contains("the conventions of 2025-03-26 do not apply"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    it.assert_refused(call, 401, "the conventions of 2025-03-26 do not apply");
}

/// python-sdk #3531
#[test]
fn a_firewall_that_refuses_requests_without_a_user_agent_lets_those_of_oauth_pass() {
    let guarded = legacy_site().rule(|exchange| exchange.header("user-agent").is_none().then(|| Reply::status(403)));
    let issuer = Rc::new(RefCell::new(FakeAuthorizationServer::new(AS).protects(MCP)));
    let mut it = Joined::build(
        guarded,
        issuer,
        |oauth| oauth.registered.clear(),
        |options| options.client = Implementation::new("my-host", "1.2.3"),
    );
    let mut endpoints = Vec::new();
    while !it.web.is_ready() {
        it.web.serve(&mut it.site);
        it.take();
        match it.sent.front() {
            Some(sent) => {
                endpoints.push(sent.url.rsplit('/').next().unwrap_or_default().to_owned());
                let passes = sent.headers.get("user-agent").is_some_and(|agent| agent == "my-host/1.2.3");
                if passes { it.issue() } else { it.answer(403, "") }
            }
            None if it.browse.is_some() => it.consent(),
            None => assert!(it.web.is_ready(), "{:?} {:?}", it.events, it.log),
        }
    }
    for endpoint in ["oauth-authorization-server", "register", "token"] {
        assert!(endpoints.iter().any(|asked| asked == endpoint), "{endpoint} {endpoints:?}");
    }
}

/// The name and the password are presented until there is a token, which then is the one credential.
#[test]
fn a_token_takes_the_place_of_the_name_and_the_password_in_the_url() {
    let url = MCP.replace("://", "://ada:hush-pass@");
    let issuer = Rc::new(RefCell::new(issuer()));
    let mut it = Joined::build_at(&url, modern_site(), issuer, |_| {}, |_| {});
    it.serve();
    let first = it.web.log[0].headers().get_all("authorization").iter().collect::<Vec<_>>();
    assert_eq!(first, ["Basic YWRhOmh1c2gtcGFzcw=="]);
    assert!(it.log.iter().all(|line| !line.contains("ada")), "{:?}", it.log);
    it.consent();
    it.serve();
    assert!(it.web.is_ready(), "{:?}", it.web.events);
    let (call, exchange) = it.call();
    let sent: Vec<_> = exchange.headers().get_all("authorization").iter().collect();
    assert_eq!(sent, ["Bearer at1-hush"]);
    let error = exchange.error(-32000, "no at1-hush, hush-pass, Basic YWRhOmh1c2gtcGFzcw==");
    it.web.reply(&exchange, Reply::json(200, &error));
    let shown = format!("{:?}", it.web.events);
    for secret in ["at1-hush", "hush-pass", "h1c2gtcGFzcw"] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
    assert_eq!(it.web.outcome(call), "Error");
}

/// A browser decodes bodies, and does not let anybody ask for a coding.
#[test]
fn an_embedder_that_decodes_bodies_asks_for_codings_itself() {
    for (decodes, asked) in [(false, Some("identity")), (true, None)] {
        let issuer = Rc::new(RefCell::new(issuer()));
        let mut it = Joined::build(modern_site(), issuer, |_| {}, |options| options.decodes_bodies = decodes);
        while it.sent.is_empty() {
            let exchange = it.web.open.values().next().expect("a request").clone();
            let reply = it.site.reply(&exchange);
            it.web.reply(&exchange, reply);
            it.take();
        }
        assert_eq!(it.sent[0].headers.get("accept-encoding").map(|it| it.to_str().unwrap()), asked);
    }
}
