//! The simulation of `tests/common/simulation.rs` with clients over each binding, with and without a sign-in, and with hubs.

use std::cell::RefCell;
use std::collections::BTreeSet;

use fastrand::Rng;
#[cfg(feature = "oauth")]
use mcp_proto::binding::oauth::OAuthAction;
use mcp_proto::host::hub::{CallId, Hub, HubEvent, HubOptions, ServerReport, ServerState};
use mcp_proto::testkit::{Arrival, Carried, Collector, Port, Step};
use mcp_proto::{
    Client, Event, Failure, Family, Http, Lines, Messages, Moved, Outcome, Request, RequestId, Secrets, Snapshot, Time,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::simulation::{Observer, Program, SERVERS, Scenario, TURNS, options, read_back, run_seeds, simulate};

/// A binding as a program creates it.
trait Fresh: Carried {
    fn fresh() -> Self;
}

impl Fresh for Messages {
    fn fresh() -> Self {
        Self::new()
    }
}

impl Fresh for Lines {
    fn fresh() -> Self {
        Self::new()
    }
}

impl Fresh for Http {
    fn fresh() -> Self {
        Self::new("https://mcp.example/mcp").unwrap()
    }
}

impl<B: Fresh> Program for Collector<Client<B>> {
    type Call = RequestId;

    fn new(seed: u64) -> Self {
        Self::new(Client::new(B::fresh(), options(), seed))
    }

    fn open(&mut self, now: Time) {
        Client::open(self, now).unwrap();
    }

    fn call(&mut self, now: Time, _: &str, tool: &str) -> Option<RequestId> {
        self.request(now, Request::call_tool(tool, None)).ok()
    }

    fn cancel(&mut self, now: Time, call: RequestId) {
        let _ = Client::cancel(self, now, call);
    }

    fn refresh(&mut self, now: Time) {
        let _ = Client::refresh(self, now, Family::Tools);
    }

    fn close(&mut self, now: Time) {
        let _ = Client::close(self, now);
    }

    fn saved(&self, secrets: Secrets) -> Option<Snapshot> {
        Some(self.snapshot(secrets))
    }

    fn restore(&mut self, _: Time) {
        let snapshot = read_back(&self.snapshot(Secrets::Included));
        let options = self.options().clone();
        **self = Client::from_snapshot(B::fresh(), options, &snapshot, Moved::WithoutTransport).unwrap();
    }

    fn ended(&self) -> Vec<(RequestId, Outcome)> {
        let ended = self.events.iter().filter_map(|(_, event)| match event {
            Event::Finished { request, outcome, .. } => Some((*request, outcome.clone())),
            _ => None,
        });
        ended.collect()
    }

    fn is_settled(&self) -> bool {
        self.is_ready() || Client::is_closed(self)
    }

    fn is_closed(&self) -> bool {
        Client::is_closed(self)
    }
}

impl Program for Collector<Hub> {
    type Call = CallId;

    const IS_HUB: bool = true;

    fn new(seed: u64) -> Self {
        Self::new(Hub::new(hub_options(), seed))
    }

    fn open(&mut self, now: Time) {
        let entry = |name: &str| -> Value {
            if name == "a" { json!({"command": "a"}) } else { json!({"url": format!("https://{name}.example/mcp")}) }
        };
        let entries: serde_json::Map<String, Value> =
            SERVERS.iter().map(|name| (name.to_string(), entry(name))).collect();
        self.configure(now, serde_json::from_value(Value::Object(entries)).unwrap()).unwrap();
        Hub::open(self, now).unwrap();
    }

    fn call(&mut self, now: Time, server: &str, tool: &str) -> Option<CallId> {
        let name = format!("mcp_{}_{tool}", server.replace('-', "_"));
        Hub::call(self, now, &name, None).ok()
    }

    fn cancel(&mut self, now: Time, call: CallId) {
        let _ = Hub::cancel(self, now, call);
    }

    fn refresh(&mut self, _: Time) {}

    fn close(&mut self, now: Time) {
        let _ = Hub::close(self, now);
    }

    fn saved(&self, secrets: Secrets) -> Option<Snapshot> {
        Some(self.snapshot(secrets))
    }

    fn restore(&mut self, _: Time) {
        let snapshot = read_back(&self.snapshot(Secrets::Included));
        let configuration = self.configuration().clone();
        **self = Hub::from_snapshot(hub_options(), configuration, &snapshot, Moved::WithoutTransport).unwrap();
    }

    fn ended(&self) -> Vec<(CallId, Outcome)> {
        let ended = self.events.iter().filter_map(|(_, event)| match event {
            HubEvent::Finished { call, outcome, .. } => Some((*call, outcome.clone())),
            _ => None,
        });
        ended.collect()
    }

    fn is_settled(&self) -> bool {
        let settled = [ServerState::Idle, ServerState::Ready, ServerState::Suspended, ServerState::Closing];
        // A server whose sessions expire as soon as they are opened has failed for good.
        let loops = |failure: &Failure| failure.message.contains("a fourth session in a row expired");
        let is_settled = |server: ServerReport<'_>| match server.state {
            Some(ServerState::Failed) => server.failure.is_some_and(loops),
            state => state.is_some_and(|state| settled.contains(&state)),
        };
        self.is_closed() || self.servers().all(is_settled)
    }

    fn is_closed(&self) -> bool {
        self.events.iter().any(|(_, event)| matches!(event, HubEvent::Closed))
    }
}

fn hub_options() -> HubOptions {
    HubOptions::new(options())
}

pub(crate) fn run(seed: u64, turns: usize, observer: &impl Observer) {
    let mut rng = Rng::with_seed(seed);
    match seed % 5 {
        0 => simulate::<Collector<Client<Messages>>>(&mut rng, turns, observer),
        1 => simulate::<Collector<Client<Lines>>>(&mut rng, turns, observer),
        2 => simulate::<Collector<Client<Http>>>(&mut rng, turns, observer),
        #[cfg(feature = "oauth")]
        3 => simulate::<crate::oauth::Host>(&mut rng, turns, observer),
        _ => simulate::<Collector<Hub>>(&mut rng, turns, observer),
    }
}

struct Clients;

impl Scenario for Clients {
    fn run(seed: u64, turns: usize, observer: &impl Observer) {
        run(seed, turns, observer);
    }
}

/// What gives access to something: the ids of sessions, and the secrets of authorizations, in what comes and what is sent.
#[derive(Default)]
struct Secret {
    known: RefCell<BTreeSet<String>>,
    saved: RefCell<usize>,
}

impl Secret {
    /// Those in a text: the fake servers have names for them.
    fn learn(&self, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && !"-._~".contains(letter));
        let is_one = |word: &&str| {
            let number = word.strip_prefix("session-").is_some_and(|rest| rest.parse::<u64>().is_ok());
            number || word.ends_with("-as.example") || word.len() > 40
        };
        self.known.borrow_mut().extend(words.filter(is_one).map(str::to_owned));
    }

    fn learn_headers(&self, headers: &http::HeaderMap) {
        headers.values().for_each(|value| self.learn(value.as_bytes()));
    }
}

impl Observer for Secret {
    fn turn(&self, _: Time, _: &str, _: &'static str, _: String) {}

    fn ended(&self, _: &str, _: &str, _: &Outcome, _: usize) {}

    fn step<E: Serialize>(&self, _: &str, step: &Step<E>) {
        match step {
            Step::Request(_, it) => self.learn_headers(it.request.headers()),
            #[cfg(feature = "oauth")]
            Step::OAuth(_, action) => match &**action {
                OAuthAction::Request(it) => {
                    self.learn_headers(it.request.headers());
                    self.learn(it.request.body());
                }
                OAuthAction::Browse(url) => self.learn(url.as_str().as_bytes()),
                _ => {}
            },
            _ => {}
        }
    }

    fn arrival(&self, _: &str, port: Port, input: &Arrival<'_>) {
        match input {
            Arrival::Head(_, headers) => self.learn_headers(headers),
            #[cfg(feature = "oauth")]
            Arrival::Redirect(url) => self.learn(url.as_bytes()),
            #[cfg(feature = "oauth")]
            Arrival::Bytes(bytes) if matches!(port, Port::OAuth(..)) => self.learn(bytes),
            _ => {}
        }
    }

    fn can_save(&self, save: &dyn Fn() -> Option<Snapshot>) {
        let text = serde_json::to_string(&save().unwrap()).unwrap();
        *self.saved.borrow_mut() += 1;
        for secret in self.known.borrow().iter() {
            // `session-1` is not in `session-12`.
            let follows = |(at, _): (usize, &str)| text[at + secret.len()..].chars().next();
            let is_there =
                text.match_indices(secret).map(follows).any(|next| !next.is_some_and(|it| it.is_ascii_digit()));
            assert!(!is_there, "{secret} is in {text}");
        }
    }
}

#[test]
fn what_is_saved_without_secrets_has_none_that_ever_came_or_was_sent() {
    let (mut known, mut saved) = (BTreeSet::new(), 0);
    for seed in 0..15 {
        let secret = Secret::default();
        run(seed, TURNS, &secret);
        known.extend(secret.known.into_inner());
        saved += secret.saved.into_inner();
    }
    assert!(known.len() > 20 && saved > 15 * TURNS / 2, "{known:?} {saved}");
    #[cfg(feature = "oauth")]
    assert!(known.iter().any(|secret| secret.ends_with("-as.example")), "{known:?}");
}

#[test]
fn no_call_runs_twice_or_is_lost_and_every_client_recovers() {
    run_seeds::<Clients>(40);
}
