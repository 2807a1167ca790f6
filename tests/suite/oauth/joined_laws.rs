//! Laws of clients that authorize themselves, two of them on one store, whatever happens in whatever order.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use mcp_proto::RequestId;
use mcp_proto::binding::http::Broken;
use mcp_proto::binding::oauth::OAuthInput;
use mcp_proto::testkit::{Endpoint, FakeAuthorizationServer, Reply as Scripted};
use proptest::prelude::*;
use serde_json::value::to_raw_value;

use crate::web::{Exchange, Reply, modern_site};

use super::joined::{AS, Joined, MCP, issuer};
use super::*;

#[derive(Clone, Debug)]
enum Step {
    Call(usize),
    /// The MCP server answers one exchange.
    Serve(usize),
    /// One exchange with the MCP server breaks, before or after the server ran what it asks for.
    Lose(usize, bool),
    /// The MCP server demands further scopes.
    Forbid(usize),
    /// The MCP server redirects to another origin.
    Redirect(usize),
    /// The authorization server answers one request, or it breaks.
    Answer(usize, bool),
    /// The user authorizes, or denies.
    Consent(usize, bool),
    /// The store does one action.
    Store(usize),
    SignOut(usize),
    /// A place of metadata has an outage, is missing, or names another authorization server that takes secrets; or it is
    /// right again.
    Metadata(usize, Fault),
    /// The process ends, and another one takes its place.
    Die(usize),
    /// The server forgets the tokens.
    Revoke,
    Wait(u64),
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    Right,
    Status(u16),
    Evil,
}

const EVIL: &str = "http://127.0.0.1:4000";
const SERVER_METADATA: &str = "/.well-known/oauth-authorization-server";
const PLACES: [&str; 4] = [
    "http://127.0.0.1:3001/.well-known/oauth-protected-resource/mcp",
    "http://127.0.0.1:3001/.well-known/oauth-protected-resource",
    "http://127.0.0.1:3001/.well-known/oauth-authorization-server",
    "http://127.0.0.1:3002/.well-known/oauth-authorization-server",
];

/// The metadata of an authorization server.
fn server(issuer: &str, origin: &str) -> Value {
    json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{origin}/authorize"),
        "token_endpoint": format!("{origin}/token"),
        "code_challenge_methods_supported": ["S256"],
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let client = 0_usize..2;
    let step = prop_oneof![
        4 => client.clone().prop_map(Step::Call),
        10 => client.clone().prop_map(Step::Serve),
        1 => (client.clone(), any::<bool>()).prop_map(|(client, late)| Step::Lose(client, late)),
        1 => client.clone().prop_map(Step::Forbid),
        1 => client.clone().prop_map(Step::Redirect),
        12 => (client.clone(), prop::bool::weighted(0.85)).prop_map(|(client, ok)| Step::Answer(client, ok)),
        4 => (client.clone(), prop::bool::weighted(0.8)).prop_map(|(client, ok)| Step::Consent(client, ok)),
        12 => client.clone().prop_map(Step::Store),
        1 => client.clone().prop_map(Step::SignOut),
        2 => (0..PLACES.len(), prop_oneof![
            2 => Just(Fault::Right),
            2 => prop::sample::select(&[401_u16, 404, 429, 503][..]).prop_map(Fault::Status),
            1 => Just(Fault::Evil),
        ]).prop_map(|(place, fault)| Step::Metadata(place, fault)),
        1 => client.prop_map(Step::Die),
        2 => Just(Step::Revoke),
        4 => (1_u64..90).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..120)
}

/// A client, and the number of each of its calls.
struct Process {
    it: Joined,
    open: VecDeque<Exchange>,
    calls: Vec<(RequestId, u64)>,
    /// How many exchanges were checked.
    checked: usize,
}

impl Process {
    fn new(issuer: &Rc<RefCell<FakeAuthorizationServer>>) -> Self {
        let change = |options: &mut OAuthOptions| {
            options.stored = true;
            options.tolerance.trusted_issuers.push(("http://127.0.0.1:3003".into(), AS.into()));
            let client = &mut options.registered[0];
            (client.secret, client.issuer) = (Some(Secret::new("app-hush")), Some(AS.into()));
        };
        let it = Joined::build(modern_site(), Rc::clone(issuer), change, |_| {});
        Self { it, open: VecDeque::new(), calls: vec![], checked: 0 }
    }

    /// Whether each call has ended.
    fn is_over(&self) -> bool {
        self.calls.iter().all(|(call, _)| self.it.web.ended(*call).is_some())
    }

    /// The oldest exchange with the MCP server that is open.
    fn exchange(&mut self) -> Option<Exchange> {
        while let Some(exchange) = self.open.pop_front() {
            if self.it.web.is_open(&exchange) {
                return Some(exchange);
            }
        }
        None
    }
}

struct World {
    processes: Vec<Process>,
    numbers: u64,
    /// How often the server ran each call, by its number.
    runs: BTreeMap<u64, u32>,
    record: Option<Vec<u8>>,
    lock: Option<usize>,
    issuer: Rc<RefCell<FakeAuthorizationServer>>,
    /// Refresh tokens that were exchanged.
    spent: BTreeSet<String>,
    /// Refresh tokens whose exchange broke, or whose successor is lost.
    broken: BTreeSet<String>,
    /// The refresh token that each process exchanged, and when, until what it got is stored.
    unsaved: [Option<(String, Time)>; 2],
    /// As `unsaved`, of a process whose user signed out meanwhile.
    given_up: [Option<String>; 2],
}

impl World {
    fn new() -> Self {
        let issuer = issuer()
            .client_with_secret("app", "app-hush")
            .always(Endpoint::Token, Scripted::With(json!({"expires_in": 300})))
            // Another one says that it is this one.
            .always(Endpoint::url(&format!("{EVIL}{SERVER_METADATA}")), Scripted::Result(server(AS, EVIL)));
        let issuer = Rc::new(RefCell::new(issuer));
        let mut world = Self {
            processes: vec![Process::new(&issuer), Process::new(&issuer)],
            numbers: 0,
            runs: BTreeMap::new(),
            record: None,
            lock: None,
            issuer,
            spent: BTreeSet::new(),
            broken: BTreeSet::new(),
            unsaved: [None, None],
            given_up: [None, None],
        };
        for _ in 0..100 {
            for client in 0..2 {
                world.round(client);
            }
        }
        assert!(world.processes.iter().all(|process| process.it.web.is_ready()));
        world
    }

    /// Everything of a client is answered once.
    fn round(&mut self, client: usize) {
        for step in [Step::Store(client), Step::Answer(client, true), Step::Consent(client, true), Step::Serve(client)]
        {
            self.step(&step);
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Call(client) => self.call(client),
            Step::Serve(client) => self.serve(client),
            Step::Lose(client, late) => {
                let Some(exchange) = self.processes[client].exchange() else { return };
                if late && self.accepts(&exchange) {
                    self.run(&exchange);
                }
                let broken = if late { Broken::Midway } else { Broken::Unreachable };
                self.processes[client].it.web.fail(&exchange, broken);
            }
            Step::Forbid(client) => {
                let challenge = "Bearer error=\"insufficient_scope\", scope=\"write\"";
                self.reply(client, Reply::text(403, "no").with("www-authenticate", challenge));
            }
            Step::Redirect(client) => {
                self.reply(client, Reply::text(307, "").with("location", "http://127.0.0.1:4000/mcp"));
            }
            Step::Answer(client, ok) => self.answer(client, ok),
            Step::Consent(client, ok) => {
                let it = &mut self.processes[client].it;
                match it.browse {
                    None => return,
                    Some(_) if ok => it.consent(),
                    Some(_) => it.deny(),
                }
            }
            Step::Store(client) => self.store(client),
            Step::SignOut(client) => {
                let unsaved = self.unsaved[client].take().map(|(used, _)| used);
                self.given_up[client] = unsaved.or(self.given_up[client].take());
                self.processes[client].it.input(OAuthInput::SignOut);
            }
            Step::Metadata(place, fault) => {
                let reply = match (fault, place) {
                    (Fault::Status(status), _) => Scripted::status(status, ""),
                    (Fault::Evil, 0 | 1) => Scripted::Result(json!({"resource": MCP, "authorization_servers": [EVIL]})),
                    (Fault::Evil, 2) => Scripted::Result(server(AS, EVIL)),
                    // What the authorization server says itself is right.
                    (Fault::Right | Fault::Evil, 3) => Scripted::With(json!({"revocation_endpoint": null})),
                    (Fault::Right | Fault::Evil, _) => Scripted::Normal,
                };
                self.issuer.borrow_mut().set_always(Endpoint::url(PLACES[place]), reply);
            }
            Step::Die(client) => {
                // The authorization server may have exchanged what it was sent.
                let sent = &self.processes[client].it.sent;
                self.broken.extend(sent.iter().filter_map(|sent| sent.form("refresh_token")));
                // What was not stored is lost with the process.
                self.broken.extend(self.unsaved[client].take().map(|(used, _)| used));
                self.broken.extend(self.given_up[client].take());
                self.lock = self.lock.filter(|owner| *owner != client);
                let now = self.processes[client].it.web.now;
                self.processes[client] = Process::new(&self.issuer);
                self.processes[client].it.wait(now.since(Time::ZERO).as_secs());
            }
            Step::Revoke => self.issuer.borrow_mut().expire_tokens(),
            Step::Wait(seconds) => self.processes.iter_mut().for_each(|process| process.it.wait(seconds)),
        }
        for process in &mut self.processes {
            let it = &mut process.it;
            it.take();
            process.open.extend(it.web.take());
            // Secrets reach no other origin.
            for asked in &it.web.log[process.checked..] {
                let carried = carried(asked.headers(), asked.body());
                assert!(secrets(&carried).all(|secret| asked.url() == MCP && secret.starts_with("at")), "{carried}");
            }
            process.checked = it.web.log.len();
            for sent in &it.sent {
                let is_token = sent.url == format!("{AS}/token");
                let carried = sent.carried();
                assert!(secrets(&carried).all(|secret| is_token && !secret.starts_with("at")), "{}", sent.url);
            }
            assert!(it.sent.iter().filter(|sent| sent.url.ends_with("/token")).count() <= 1);
        }
        // What is lost before a client was ever ready closes it, and its process ends when it may.
        for client in 0..2 {
            if self.processes[client].it.web.cause().is_some() {
                assert!(self.processes[client].is_over());
                if self.processes[client].it.web.session.is_closed() {
                    // A store that does not answer for so long is given up.
                    let now = self.processes[client].it.web.now;
                    let unsaved = self.unsaved[client].as_ref().filter(|(_, at)| now.since(*at).as_secs() < 60);
                    assert_eq!(unsaved, None, "a refresh token is lost");
                    self.step(&Step::Die(client));
                }
            }
        }
    }

    fn call(&mut self, client: usize) {
        if self.processes[client].it.web.cause().is_some() {
            return;
        }
        self.numbers += 1;
        let arguments = to_raw_value(&json!({"n": self.numbers})).unwrap();
        let process = &mut self.processes[client];
        let call = process.it.web.request(mcp_proto::Request::call_tool("a", Some(&arguments)));
        process.calls.push((call, self.numbers));
    }

    /// Whether the server accepts the token of an exchange.
    fn accepts(&self, exchange: &Exchange) -> bool {
        self.issuer.borrow_mut().answer(exchange.at, &exchange.request).is_none()
    }

    /// The server does what an exchange asks for.
    fn run(&mut self, exchange: &Exchange) {
        if exchange.is("tools/call") {
            let number = exchange.json()["params"]["arguments"]["n"].as_u64().unwrap();
            let runs = self.runs.entry(number).or_default();
            *runs += 1;
            assert_eq!(*runs, 1, "call {number} ran twice");
        }
    }

    fn reply(&mut self, client: usize, reply: Reply) {
        if let Some(exchange) = self.processes[client].exchange() {
            self.processes[client].it.web.reply(&exchange, reply);
        }
    }

    fn serve(&mut self, client: usize) {
        let Some(exchange) = self.processes[client].exchange() else { return };
        if self.accepts(&exchange) {
            self.run(&exchange);
        }
        let it = &mut self.processes[client].it;
        let reply = it.site.reply(&exchange);
        it.web.reply(&exchange, reply);
    }

    fn answer(&mut self, client: usize, ok: bool) {
        let it = &mut self.processes[client].it;
        let Some(sent) = it.sent.front() else { return };
        let used = sent.form("refresh_token");
        if let Some(used) = &used {
            // Another process does not use it meanwhile, and it is sent again only if its exchange broke.
            assert_eq!(self.lock, Some(client), "a refresh without the lock");
            assert!(!self.spent.contains(used) || self.broken.contains(used), "{used} is used twice");
        }
        if !ok {
            let sent = it.sent.pop_front().unwrap();
            self.broken.extend(used);
            it.input(OAuthInput::Failure { exchange: sent.id, why: "reset" });
            return;
        }
        if sent.url.ends_with("/token") {
            self.unsaved[client] =
                used.clone().filter(|used| !self.spent.contains(used)).map(|used| (used, it.web.now));
        }
        self.spent.extend(used);
        it.issue();
    }

    fn store(&mut self, client: usize) {
        let it = &mut self.processes[client].it;
        let Some(action) = it.store.front() else { return };
        match action {
            // Another process holds it.
            StoreAction::Acquire(_) if self.lock.is_some_and(|owner| owner != client) => {}
            StoreAction::Acquire(id) => {
                let id = *id;
                it.store.pop_front();
                self.lock = Some(client);
                it.input(OAuthInput::Acquired { id, acquired: true });
            }
            StoreAction::Load(id) => {
                let id = *id;
                it.store.pop_front();
                it.input(OAuthInput::Loaded { id, record: Ok(self.record.as_deref()) });
            }
            StoreAction::Save { id, record, replaces } => {
                let id = *id;
                let is_known = self.record.as_deref().map_or(0, stored_generation) == *replaces;
                if is_known {
                    assert!(stored_generation(record.expose()) > *replaces);
                    self.record = Some(record.expose().to_vec());
                }
                it.store.pop_front();
                (self.unsaved[client], self.given_up[client]) = (None, None);
                let saved = if is_known { SaveOutcome::Stored } else { SaveOutcome::Conflict };
                it.input(OAuthInput::Saved { id, saved });
            }
            StoreAction::Release => {
                it.store.pop_front();
                self.lock = self.lock.filter(|owner| *owner != client);
            }
            StoreAction::Remove => {
                it.store.pop_front();
                self.record = None;
            }
            other => panic!("{other:?}"),
        }
    }

    /// Everything is answered, until nothing is left to answer.
    fn settle(&mut self) {
        for place in 0..PLACES.len() {
            self.step(&Step::Metadata(place, Fault::Right));
        }
        for _ in 0..60 {
            for _ in 0..40 {
                for client in 0..2 {
                    self.round(client);
                }
            }
            if self.processes.iter().all(Process::is_over) && self.lock.is_none() {
                return;
            }
            self.step(&Step::Wait(30));
        }
        panic!("a call does not end, or the lock is not released");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn each_call_ends_and_runs_once_at_most_whatever_happens_to_its_token(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
        }
        world.settle();
        for process in &world.processes {
            for (call, number) in &process.calls {
                let has_result = process.it.web.outcome(*call) == "Result";
                prop_assert!(!has_result || world.runs.contains_key(number), "a result of what did not run");
            }
        }
    }
}

/// The token is renewed before it expires, and the record is being loaded, or the exchange breaks. A refresh is tried again
/// under the same lock, so that no other process uses its refresh token meanwhile.
#[test]
fn the_lock_is_released_although_the_answer_to_a_refresh_is_lost() {
    for (actions, waits) in [(2, false), (3, true)] {
        let mut world = World::new();
        for seconds in [42, 29, 85, 30, 77, 7] {
            world.step(&Step::Wait(seconds));
        }
        for _ in 0..actions {
            world.step(&Step::Store(0));
        }
        world.step(&Step::Answer(0, false));
        assert_eq!(world.lock, Some(0));
        for client in [0, 1].repeat(20) {
            world.round(client);
        }
        assert_eq!(world.lock, Some(0).filter(|_| waits));
        world.step(&Step::Wait(5));
        for client in [0, 1].repeat(20) {
            world.round(client);
        }
        assert_eq!(world.lock, None);
        let token_requests = world.processes.iter().map(|process| process.it.token_requests()).collect::<Vec<_>>();
        assert_eq!(token_requests[0], if waits { 3 } else { 2 });
        world.settle();
    }
}
