use alloc::format;

use super::ledger::Purpose;
use super::link::Loss;
use super::timers::{SHORTEST, Timer};
use super::{Engine, FailureKind, KeepaliveMethod};
use crate::Time;
use crate::jsonrpc::ErrorObject;
use crate::machine::keepalive::{Effect, Input, State, take};
use crate::machine::{QuirkKind, Verdict, gate};
use crate::protocol::{Era, Family, error_code, method};

/// What a keepalive knows beside its state.
#[derive(Clone, Debug)]
pub(super) struct Liveness {
    pub(super) state: State,
    /// When something was heard of the server last.
    pub(super) heard: Time,
    /// The probe that waits for its answer.
    pub(super) request: Option<u64>,
    sent: Time,
    misses: u32,
    /// When the last of them was.
    missed: Time,
}

impl Default for Liveness {
    fn default() -> Self {
        Self { state: State::Off, heard: Time::ZERO, request: None, sent: Time::ZERO, misses: 0, missed: Time::ZERO }
    }
}

impl Engine {
    /// The session is ready.
    pub(super) fn start_keepalive(&mut self) {
        let Some(keepalive) = self.options.keepalive else { return };
        self.liveness = Liveness { heard: self.now, ..Liveness::default() };
        let legacy = self.server.as_ref().is_none_or(|server| server.era() == Era::Legacy);
        match (legacy, keepalive.method) {
            (false, _) if !keepalive.discover => {}
            (false, _) => self.keepalive_step(Input::StartDiscover),
            (true, KeepaliveMethod::ToolsList) if self.gate(gate::Purpose::Keepalive, Family::Tools).is_allowed() => {
                self.keepalive_step(Input::StartList);
            }
            (true, KeepaliveMethod::ToolsList | KeepaliveMethod::Ping) => self.keepalive_step(Input::StartPing),
        }
    }

    pub(super) fn stop_keepalive(&mut self) {
        self.keepalive_step(Input::Stop);
    }

    fn keepalive_step(&mut self, input: Input) {
        let row = take(self.liveness.state, input);
        self.liveness.state = row.next;
        if let Verdict::Quirk(kind) = row.verdict {
            let detail = if kind == QuirkKind::PingUnsupported {
                format!("{} has no `ping`; it is asked otherwise, or not at all", self.server_name())
            } else {
                format!("{} answers requests, but no `ping`; it is asked otherwise, or not at all", self.server_name())
            };
            self.quirk(kind, None, Some(method::PING), detail);
        }
        for effect in row.effects {
            match effect {
                Effect::Rest => {
                    self.rest();
                    let interval = self.options.keepalive.unwrap_or_default().interval;
                    let due = self.liveness.heard + interval;
                    let due = if due > self.now { due } else { self.after(interval) };
                    self.timers.set(Timer::Keepalive, Some(due));
                }
                Effect::Ping => self.send_probe(method::PING),
                Effect::List => {
                    let by_tools = self.options.keepalive.unwrap_or_default().method == KeepaliveMethod::ToolsList
                        && self.gate(gate::Purpose::Keepalive, Family::Tools).is_allowed();
                    let family = if by_tools { Some(Family::Tools) } else { self.cheapest_list() };
                    self.send_probe(family.unwrap_or(Family::Tools).list_method());
                }
                Effect::Discover => self.send_probe(method::DISCOVER),
                Effect::Await => {
                    let timeout = self.options.keepalive.unwrap_or_default().timeout;
                    self.liveness.sent = self.now;
                    self.arm(Timer::Keepalive, timeout);
                }
                Effect::GiveUp => {
                    if let Some(id) = self.liveness.request.take() {
                        self.give_up(id);
                    }
                }
                Effect::Disarm => self.timers.set(Timer::Keepalive, None),
                Effect::Dead => {
                    let probes = self.options.keepalive.unwrap_or_default().threshold;
                    let message = format!("{} left {probes} keepalive probes in a row unanswered", self.server_name());
                    self.lose(FailureKind::Closed, message.into(), Loss::Unusable);
                }
            }
        }
    }

    fn send_probe(&mut self, method: &'static str) {
        self.liveness.request = Some(self.requests.insert(Purpose::Keepalive(method), None));
    }

    /// The list that costs the server and the wire least, of those that worked.
    fn cheapest_list(&self) -> Option<Family> {
        let allowed = |family| self.gate(gate::Purpose::Keepalive, family).is_allowed();
        let listed = self.families.iter().filter(|(family, _)| allowed(*family));
        listed.min_by_key(|(family, slot)| (slot.pages, self.catalog.list(*family).len())).map(|(family, _)| family)
    }

    pub(super) fn keepalive_fired(&mut self) {
        let Some(keepalive) = self.options.keepalive else { return };
        let input = match self.liveness.state {
            State::PingDue | State::ListDue | State::DiscoverDue => {
                let quiet = self.now.since(self.liveness.heard) >= keepalive.interval;
                if quiet && self.requests.is_idle() { Input::Quiet } else { Input::Busy }
            }
            State::Pinging | State::Listing | State::Discovering => {
                let waited = self.now.since(self.liveness.sent);
                // Whatever else came in between, the peer is there.
                let passed_over = self.liveness.heard > self.liveness.sent;
                if self.liveness.heard > self.liveness.missed {
                    self.liveness.misses = 0;
                }
                self.liveness.missed = self.now;
                self.liveness.misses = self.liveness.misses.saturating_add(1);
                if waited >= keepalive.timeout.max(SHORTEST).saturating_mul(2) {
                    self.liveness.misses = self.liveness.misses.saturating_sub(1);
                    Input::Jumped
                } else if passed_over && self.cheapest_list().is_some() {
                    Input::PassedOverThenList
                } else if passed_over {
                    Input::PassedOverThenPassive
                } else if self.liveness.misses >= keepalive.threshold {
                    Input::Silent
                } else {
                    Input::Missed
                }
            }
            State::Off | State::Passive => return,
        };
        self.keepalive_step(input);
    }

    /// A probe was answered.
    pub(super) fn probe_returned(&mut self, error: Option<&ErrorObject>) {
        self.liveness.misses = 0;
        self.liveness.request = None;
        let unknown = error.is_some_and(|error| error.code == error_code::METHOD_NOT_FOUND);
        let input = match (unknown, self.cheapest_list()) {
            (false, _) => Input::Answered,
            (true, Some(_)) => Input::UnknownThenList,
            (true, None) => Input::UnknownThenPassive,
        };
        self.keepalive_step(input);
    }
}
