//! WebAssembly: the simulation of the tests of the crate, for `page.html`, which draws it.

#![allow(dead_code, reason = "the tests use the rest of these modules")]

#[path = "../../tests/common/mod.rs"]
mod common;
#[path = "../../tests/suite/oauth/program.rs"]
mod oauth;
#[path = "../../tests/suite/simulated.rs"]
mod simulated;
#[path = "../../tests/common/simulation.rs"]
mod simulation;

use mcp_proto::binding::oauth::OAuthAction;
use mcp_proto::testkit::{Arrival, Embedder, Port, Sim, Step};
use mcp_proto::{Outcome, Time};
use serde::Serialize;
use simulation::{Observer, SERVERS, TURNS};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// What happened: the time in milliseconds, the server of the program, what it is, the exchange that it is of, and a text.
#[derive(Serialize)]
struct Note(Option<u64>, String, &'static str, String, String);

#[derive(Default, Serialize)]
struct Drawing {
    notes: RefCell<Vec<Note>>,
    /// How often each tool of each server ran.
    #[serde(skip)]
    runs: RefCell<BTreeMap<(&'static str, String), usize>>,
    /// Server, tool, how the call ended, and how often it ran.
    ledger: RefCell<Vec<(String, String, String, usize)>>,
}

impl Drawing {
    /// What happened at the time that `changed` tells.
    fn note(&self, server: &str, what: &'static str, port: Option<Port>, text: impl ToString) {
        let port = port.map(|port| format!("{port:?}")).unwrap_or_default();
        self.notes.borrow_mut().push(Note(None, server.into(), what, port, text.to_string()));
    }

    fn request(&self, server: &str, port: Port, request: &http::Request<Vec<u8>>) {
        let text = format!("{} {}\n{}", request.method(), request.uri(), String::from_utf8_lossy(request.body()));
        self.note(server, "request", Some(port), text);
    }
}

impl Observer for Drawing {
    fn turn(&self, now: Time, server: &str, what: &'static str, detail: String) {
        self.notes.borrow_mut().push(Note(Some(now.as_millis()), server.into(), "turn", what.into(), detail));
    }

    fn ended(&self, server: &str, tool: &str, outcome: &Outcome, runs: usize) {
        let outcome = serde_json::to_string(outcome).unwrap();
        self.ledger.borrow_mut().push((server.into(), tool.into(), outcome, runs));
    }

    fn step<E: Serialize>(&self, server: &str, step: &Step<E>) {
        match step {
            Step::Open(_) => self.note(server, "open", None, ""),
            Step::Write(_, bytes) => self.note(server, "send", None, String::from_utf8_lossy(bytes)),
            Step::Shutdown(_, how) => self.note(server, "shutdown", None, format!("{how:?}")),
            Step::Request(session, it) => self.request(server, Port::Exchange(*session, it.exchange), &it.request),
            Step::Drop(port) => self.note(server, "drop", Some(*port), ""),
            Step::OAuth(session, action) => match &**action {
                OAuthAction::Request(it) => self.request(server, Port::OAuth(*session, it.exchange), &it.request),
                OAuthAction::Drop(exchange) => self.note(server, "drop", Some(Port::OAuth(*session, *exchange)), ""),
                OAuthAction::Browse(url) => {
                    self.note(server, "request", Some(Port::Browser(*session)), format!("browser {}\n", url.as_str()));
                }
                _ => {}
            },
            Step::Event(event) => self.note(server, "event", None, serde_json::to_string(event).unwrap()),
        }
    }

    fn arrival(&self, server: &str, port: Port, input: &Arrival<'_>) {
        match input {
            Arrival::Transport(how) => self.note(server, "transport", Some(port), format!("{how:?}")),
            Arrival::Bytes(bytes) => self.note(server, "bytes", Some(port), String::from_utf8_lossy(bytes)),
            Arrival::Head(status, _) => self.note(server, "head", Some(port), status.as_u16()),
            Arrival::End => self.note(server, "end", Some(port), ""),
            Arrival::Failure(_, why) => self.note(server, "failure", Some(port), why),
            Arrival::Redirect(_) => self.note(server, "redirect", Some(port), ""),
        }
    }

    fn changed<E: Embedder>(&self, sim: &Sim<E>) {
        for name in SERVERS {
            for (tool, runs) in sim.server(name).into_iter().flat_map(|server| server.all_tool_runs()) {
                if self.runs.borrow_mut().insert((name, tool.into()), runs) != Some(runs) {
                    self.note(name, "run", None, tool);
                }
            }
        }
        let mut notes = self.notes.borrow_mut();
        let untimed = notes.iter_mut().rev().take_while(|note| note.0.is_none());
        untimed.for_each(|note| note.0 = Some(sim.now().as_millis()));
    }
}

thread_local! {
    static OUTPUT: RefCell<Vec<u8>> = RefCell::default();
}

/// Simulates this seed. Returns the length of a drawing, as JSON at `output`.
#[unsafe(no_mangle)]
extern "C" fn run(seed: u64) -> usize {
    let drawing = Drawing::default();
    simulated::run(seed, TURNS, &drawing);
    OUTPUT.with_borrow_mut(|output| {
        *output = serde_json::to_vec(&drawing).unwrap();
        output.len()
    })
}

#[unsafe(no_mangle)]
extern "C" fn output() -> *const u8 {
    OUTPUT.with_borrow(|output| output.as_ptr())
}
