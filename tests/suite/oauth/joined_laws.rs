//! Laws of clients that authorize themselves, two of them on one store, whatever happens in whatever order.

use std::collections::BTreeSet;

use mcp_proto::RequestId;
use mcp_proto::binding::oauth::OAuthInput;
use proptest::prelude::*;

use crate::web::{Exchange, modern_site};

use super::joined::{Joined, MCP};
use super::*;

#[derive(Clone, Debug)]
enum Step {
    Call(usize),
    /// The MCP server answers one exchange.
    Serve(usize),
    /// The authorization server answers one request, or it breaks.
    Answer(usize, bool),
    /// The user authorizes, or denies.
    Consent(usize, bool),
    /// The store does one action.
    Store(usize),
    /// The server forgets the tokens.
    Revoke,
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let client = 0_usize..2;
    let step = prop_oneof![
        2 => client.clone().prop_map(Step::Call),
        5 => client.clone().prop_map(Step::Serve),
        6 => (client.clone(), prop::bool::weighted(0.85)).prop_map(|(client, ok)| Step::Answer(client, ok)),
        2 => (client.clone(), prop::bool::weighted(0.8)).prop_map(|(client, ok)| Step::Consent(client, ok)),
        6 => client.prop_map(Step::Store),
        1 => Just(Step::Revoke),
        2 => (1_u64..90).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..120)
}

struct World {
    clients: Vec<Joined>,
    open: Vec<VecDeque<Exchange>>,
    calls: Vec<Vec<RequestId>>,
    /// How often the server ran each call, by its id on the wire and its client.
    runs: BTreeMap<(usize, String), u32>,
    record: Option<Vec<u8>>,
    lock: Option<usize>,
    issued: u32,
    /// The tokens that the server accepts.
    valid: BTreeSet<String>,
    refresh: BTreeSet<String>,
    /// Refresh tokens whose exchange broke.
    broken: BTreeSet<String>,
}

impl World {
    fn new() -> Self {
        let client = || Joined::with(modern_site(), |options| options.stored = true);
        let mut world = Self {
            clients: vec![client(), client()],
            open: vec![VecDeque::new(), VecDeque::new()],
            calls: vec![vec![], vec![]],
            runs: BTreeMap::new(),
            record: None,
            lock: None,
            issued: 0,
            valid: BTreeSet::new(),
            refresh: BTreeSet::new(),
            broken: BTreeSet::new(),
        };
        // What is lost before a client was ever ready closes it.
        for _ in 0..100 {
            for client in 0..2 {
                world.round(client);
            }
        }
        assert!(world.clients.iter().all(|it| it.web.is_ready()));
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
            Step::Call(client) => {
                let it = &mut self.clients[client];
                let call = it.web.request(mcp_proto::Request::call_tool("a", None));
                self.calls[client].push(call);
            }
            Step::Serve(client) => self.serve(client),
            Step::Answer(client, ok) => self.answer(client, ok),
            Step::Consent(client, ok) => {
                let it = &mut self.clients[client];
                let Some(shown) = it.browse.clone() else { return };
                let state = query(shown.split_once('?').unwrap().1, "state").unwrap();
                let what = if ok { "code=c-hush" } else { "error=access_denied" };
                it.input(OAuthInput::Redirect(&format!("?{what}&state={state}")));
            }
            Step::Store(client) => self.store(client),
            Step::Revoke => self.valid.clear(),
            Step::Wait(seconds) => self.clients.iter_mut().for_each(|it| it.wait(seconds)),
        }
        for (client, it) in self.clients.iter_mut().enumerate() {
            it.take();
            self.open[client].extend(it.web.take());
            // Secrets reach no other origin.
            assert!(it.web.log.iter().all(|asked| asked.url() == MCP));
            for sent in &it.sent {
                let is_token = sent.url == "http://127.0.0.1:3002/token";
                assert!(is_token || !format!("{}{:?}", sent.body, sent.headers).contains("hush"), "{}", sent.url);
            }
            assert!(it.sent.iter().filter(|sent| sent.url.ends_with("/token")).count() <= 1);
        }
    }

    fn serve(&mut self, client: usize) {
        let Some(exchange) = self.open[client].pop_front() else { return };
        let it = &mut self.clients[client];
        if !it.web.is_open(&exchange) {
            return;
        }
        let token = exchange.header("authorization").unwrap_or_default().trim_start_matches("Bearer ").to_owned();
        let is_valid = self.valid.contains(&token);
        *it.valid.borrow_mut() = if is_valid { token } else { String::new() };
        if is_valid && exchange.is("tools/call") {
            *self.runs.entry((client, exchange.json()["id"].to_string())).or_default() += 1;
        }
        let reply = it.site.reply(&exchange);
        it.web.reply(&exchange, reply);
    }

    fn answer(&mut self, client: usize, ok: bool) {
        let it = &mut self.clients[client];
        let Some(sent) = it.sent.front() else { return };
        let used = sent.form("refresh_token");
        if let Some(used) = &used {
            // Another process does not use it meanwhile, and it is sent again only if its exchange broke.
            assert_eq!(self.lock, Some(client), "a refresh without the lock");
            assert!(self.refresh.contains(used) || self.broken.contains(used), "{used} is used twice");
        }
        if !ok {
            let sent = it.sent.pop_front().unwrap();
            self.broken.extend(used);
            it.input(OAuthInput::Failure { exchange: sent.id, why: "reset" });
            return;
        }
        if !sent.url.ends_with("/token") {
            let (status, body) = it.page(&sent.url.clone());
            return it.answer(status, &body);
        }
        if used.is_some_and(|used| !self.refresh.remove(&used)) {
            return it.answer(400, r#"{"error":"invalid_grant"}"#);
        }
        self.issued += 1;
        let (token, refresh) = (format!("at{}-hush", self.issued), format!("rt{}-hush", self.issued));
        self.valid.insert(token.clone());
        self.refresh.insert(refresh.clone());
        let body = json!({"access_token": token, "token_type": "Bearer", "expires_in": 300, "refresh_token": refresh});
        it.answer(200, &body.to_string());
    }

    fn store(&mut self, client: usize) {
        let it = &mut self.clients[client];
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
                let saved = if is_known { SaveOutcome::Stored } else { SaveOutcome::Conflict };
                it.input(OAuthInput::Saved { id, saved });
            }
            StoreAction::Release => {
                it.store.pop_front();
                self.lock = None;
            }
            other => panic!("{other:?}"),
        }
    }

    /// Everything is answered, until nothing is left to answer.
    fn settle(&mut self) {
        for _ in 0..60 {
            for _ in 0..40 {
                for client in 0..2 {
                    self.round(client);
                }
            }
            let over = |it: &Joined, calls: &[RequestId]| calls.iter().all(|call| it.web.ended(*call).is_some());
            if self.clients.iter().zip(&self.calls).all(|(it, calls)| over(it, calls)) {
                return;
            }
            self.step(&Step::Wait(30));
        }
        panic!("a call does not end");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn each_call_ends_and_runs_once_at_most_whatever_happens_to_its_token(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
        }
        world.settle();
        for runs in world.runs.values() {
            prop_assert_eq!(*runs, 1);
        }
        for (client, calls) in world.calls.iter().enumerate() {
            let runs = world.runs.keys().filter(|(owner, _)| *owner == client).count();
            prop_assert!(runs <= calls.len(), "a call ran twice");
        }
    }
}
