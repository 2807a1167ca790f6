//! Component: the keepalive, which detects a server that does not respond.

use alloc::format;

use super::core::Core;
use super::request_table::Purpose;
use super::signal::Signals;
use super::timers::{SHORTEST, Timer};
use super::{FailureKind, KeepaliveMethod, RequestError};
use crate::Time;
use crate::machine::keepalive::{Effect, Input, State, take};
use crate::machine::{QuirkKind, Verdict, gate, loss};
use crate::protocol::{Family, error_code, method};

#[derive(Clone, Debug)]
pub(super) struct Keepalive {
    state: State,
    /// When the last message of the server came.
    heard: Time,
    /// The keepalive request in flight.
    request: Option<u64>,
    sent: Time,
    misses: u32,
    /// When the last timeout was.
    missed: Time,
}

impl Default for Keepalive {
    fn default() -> Self {
        Self { state: State::Off, heard: Time::ZERO, request: None, sent: Time::ZERO, misses: 0, missed: Time::ZERO }
    }
}

impl Keepalive {
    /// A message was received.
    pub(super) fn hear(&mut self, core: &Core) {
        self.heard = core.now;
    }

    /// The keepalive request has a new id.
    pub(super) fn rename(&mut self, id: u64, new: u64) {
        if self.request == Some(id) {
            self.request = Some(new);
        }
    }

    /// The client is ready. `cheapest` is the smallest list that worked.
    pub(super) fn start(&mut self, core: &mut Core, cheapest: Option<Family>) -> Signals {
        let Some(keepalive) = core.options.keepalive else { return Signals::NONE };
        *self = Self { heard: core.now, ..Self::default() };
        let input = match (core.is_modern(), keepalive.method) {
            (true, _) if !keepalive.discover => return Signals::NONE,
            (true, _) => Input::StartDiscover,
            (false, KeepaliveMethod::ToolsList) if lists_tools(core) => Input::StartList,
            (false, KeepaliveMethod::ToolsList | KeepaliveMethod::Ping) => Input::StartPing,
        };
        self.step(core, input, cheapest)
    }

    /// The connection ended.
    pub(super) fn stop(&mut self, core: &mut Core) -> Signals {
        self.step(core, Input::Stop, None)
    }

    fn step(&mut self, core: &mut Core, input: Input, cheapest: Option<Family>) -> Signals {
        let row = take(self.state, input);
        self.state = row.next;
        if let Verdict::Quirk(kind) = row.verdict {
            let server = core.server_name();
            let detail = if kind == QuirkKind::PingUnsupported {
                format!("{server} has no `ping`; it is asked otherwise, or not at all")
            } else {
                format!("{server} answers requests, but no `ping`; it is asked otherwise, or not at all")
            };
            core.quirk(kind, None, Some(method::PING), detail);
        }
        let options = core.options.keepalive.unwrap_or_default();
        for effect in row.effects {
            match effect {
                Effect::Rest => {
                    core.release_memory();
                    let due = self.heard + options.interval;
                    let due = if due > core.now { due } else { core.after(options.interval) };
                    core.timers.set(Timer::Keepalive, Some(due));
                }
                Effect::Ping => self.send(core, method::PING),
                Effect::List => {
                    let by_tools = options.method == KeepaliveMethod::ToolsList && lists_tools(core);
                    let family = if by_tools { Some(Family::Tools) } else { cheapest };
                    self.send(core, family.unwrap_or(Family::Tools).list_method());
                }
                Effect::Discover => self.send(core, method::DISCOVER),
                Effect::Await => {
                    self.sent = core.now;
                    core.arm(Timer::Keepalive, options.timeout);
                }
                Effect::GiveUp => {
                    if let Some(id) = self.request.take() {
                        core.give_up(id);
                    }
                }
                Effect::Disarm => core.timers.set(Timer::Keepalive, None),
                Effect::Dead => {
                    let (server, misses) = (core.server_name(), options.threshold);
                    let message = format!("{server} left {misses} keepalive probes in a row unanswered");
                    return Signals::lost(FailureKind::Closed, message, loss::Transport::Open);
                }
            }
        }
        Signals::NONE
    }

    fn send(&mut self, core: &mut Core, method: &'static str) {
        self.request = Some(core.requests.insert(Purpose::Keepalive(method), None));
    }

    pub(super) fn on_timer(&mut self, core: &mut Core, cheapest: Option<Family>) -> Signals {
        let Some(keepalive) = core.options.keepalive else { return Signals::NONE };
        let input = match self.state {
            State::PingDue | State::ListDue | State::DiscoverDue => {
                let quiet = core.now.since(self.heard) >= keepalive.interval;
                if quiet && core.requests.is_idle() { Input::Quiet } else { Input::Busy }
            }
            State::Pinging | State::Listing | State::Discovering => {
                let waited = core.now.since(self.sent);
                // The server is there if it sent anything else meanwhile.
                let passed_over = self.heard > self.sent;
                if self.heard > self.missed {
                    self.misses = 0;
                }
                self.missed = core.now;
                self.misses = self.misses.saturating_add(1);
                if waited >= keepalive.timeout.max(SHORTEST).saturating_mul(2) {
                    self.misses = self.misses.saturating_sub(1);
                    Input::Jumped
                } else if passed_over && cheapest.is_some() {
                    Input::PassedOverThenList
                } else if passed_over {
                    Input::PassedOverThenPassive
                } else if self.misses >= keepalive.threshold {
                    Input::Silent
                } else {
                    Input::Missed
                }
            }
            State::Off | State::Passive => return Signals::NONE,
        };
        self.step(core, input, cheapest)
    }

    /// Takes the response to the keepalive request.
    pub(super) fn on_response(
        &mut self,
        core: &mut Core,
        error: Option<&RequestError>,
        cheapest: Option<Family>,
    ) -> Signals {
        self.misses = 0;
        self.request = None;
        let unknown = error.is_some_and(|error| error.code() == Some(error_code::METHOD_NOT_FOUND));
        let input = match (unknown, cheapest) {
            (false, _) => Input::Answered,
            (true, Some(_)) => Input::UnknownThenList,
            (true, None) => Input::UnknownThenPassive,
        };
        self.step(core, input, cheapest)
    }
}

fn lists_tools(core: &Core) -> bool {
    core.gate(gate::Purpose::Keepalive, Family::Tools).is_allowed()
}
