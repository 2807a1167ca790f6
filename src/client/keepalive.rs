//! Component: the keepalive, which detects a server that does not respond.

use alloc::format;
use alloc::string::String;

use super::core::{Core, SHORTEST, Signals, Timer};
use super::request::Purpose;
use super::{FailureKind, Keepalive as KeepaliveOptions, KeepaliveMethod, RequestError};
use crate::Time;
use crate::machine::keepalive::{self, Asked, Effect, Input, Pings, State};
use crate::machine::{QuirkKind, Verdict, gate, link, request};
use crate::protocol::{Family, error_code, method};
use crate::time::shown;

/// After so many connections in a row that closed on a `ping`, it is not sent again.
const PING_EXITS: u8 = 2;

#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Keepalive {
    state: State,
    /// When the last message of the server came.
    heard: Time,
    /// Since when the response to the keepalive request is awaited: anew after a jump of the clock.
    sent: Time,
    /// Timeouts in a row.
    misses: u32,
    /// When the last timeout was.
    missed: Time,
}

impl Keepalive {
    /// A message was received.
    pub(super) fn on_message(&mut self, core: &Core) {
        self.heard = core.now;
    }

    /// The server closed the connection. If it did so on a `ping` twice in a row, none is sent again.
    pub(super) fn on_closed(&self, core: &mut Core) {
        let is_last = |id| core.is_sent(id) && core.requests.is_newest(id);
        let on_ping =
            self.state == State::Pinging && self.heard <= self.sent && core.requests.keepalive().is_some_and(is_last);
        core.ping_exits = if on_ping { core.ping_exits.saturating_add(1) } else { 0 };
        if core.ping_exits >= PING_EXITS {
            core.pings = Pings::Silent;
            let detail =
                format!("{} closed the connection on `ping`, twice in a row; it is not sent again", core.server_name());
            core.quirk(QuirkKind::PingExits, None, Some(method::PING), detail);
        }
    }

    /// The client is ready. `cheapest` is the smallest list that worked.
    pub(super) fn start(&mut self, core: &mut Core, cheapest: Option<Family>) -> Signals {
        *self = Self { heard: core.now, ..Self::default() };
        let Some(options) = core.options.keepalive else { return Signals::NONE };
        let input = match core.pings {
            _ if core.is_modern() && !options.discover => return Signals::NONE,
            _ if core.is_modern() => Input::StartDiscover,
            Pings::Silent if cheapest.is_none() => Input::StartPassive,
            Pings::Silent => Input::StartList,
            Pings::Unknown | Pings::Answered if prefers_tools(core, options) => Input::StartList,
            Pings::Unknown | Pings::Answered => Input::StartPing,
        };
        self.step(core, input, cheapest)
    }

    fn step(&mut self, core: &mut Core, input: Input, cheapest: Option<Family>) -> Signals {
        let row = keepalive::step(self.state, input);
        self.state = row.next;
        if let Verdict::Quirk(kind) = row.verdict {
            core.quirk(kind, None, Some(method::PING), quirk_text(core.server_name(), input));
        }
        let options = core.options.keepalive.unwrap_or_default();
        for effect in row.effects {
            match effect {
                Effect::StartInterval => {
                    core.release_memory();
                    let due = self.heard + options.interval;
                    let due = if due > core.now { due } else { core.after(options.interval) };
                    core.timers.set(Timer::Keepalive, Some(due));
                }
                Effect::Ping => send(core, method::PING),
                Effect::List => {
                    let family = if prefers_tools(core, options) { Some(Family::Tools) } else { cheapest };
                    family.into_iter().for_each(|family| send(core, family.list_method()));
                }
                Effect::Discover => send(core, method::DISCOVER),
                Effect::Await => {
                    self.sent = core.now;
                    core.arm(Timer::Keepalive, options.timeout);
                }
                Effect::Count => (self.misses, self.missed) = (self.misses_so_far().saturating_add(1), core.now),
                Effect::Clear => self.misses = 0,
                Effect::KnowAnswered => (core.pings, core.ping_exits) = (Pings::Answered, 0),
                Effect::KnowSilent => core.pings = Pings::Silent,
                Effect::GiveUp => {
                    if let Some(id) = core.requests.keepalive() {
                        core.end_request(id, request::Input::TimedOut, "no response in time");
                    }
                }
                Effect::Disarm => core.timers.set(Timer::Keepalive, None),
                Effect::Dead => {
                    let (server, waited) = (core.server_name(), shown(core.now.since(self.heard)));
                    let message =
                        format!("{server} did not respond to keepalive requests, and sent nothing for {waited:?}");
                    return Signals::lost(FailureKind::Closed, message, link::Transport::Open);
                }
            }
        }
        Signals::NONE
    }

    pub(super) fn on_timer(&mut self, core: &mut Core, cheapest: Option<Family>) -> Signals {
        let Some(options) = core.options.keepalive else { return Signals::NONE };
        let input = match self.state {
            State::PingDue | State::ListDue | State::DiscoverDue => self.classify_interval(core, options, cheapest),
            State::Pinging if cheapest.is_some() => self.classify_timeout(core, options, Asked::PingThenList),
            State::Pinging => self.classify_timeout(core, options, Asked::Ping),
            State::Confirming => self.classify_timeout(core, options, Asked::Confirmation),
            State::Listing | State::Discovering => self.classify_timeout(core, options, Asked::Last),
            State::Off | State::Passive => return Signals::NONE,
        };
        self.step(core, input, cheapest)
    }

    /// The interval passed.
    fn classify_interval(&self, core: &Core, options: KeepaliveOptions, cheapest: Option<Family>) -> Input {
        let quiet = core.now.since(self.heard) >= options.interval;
        match (quiet && core.requests.is_idle(), cheapest) {
            (false, _) => Input::Busy,
            (true, Some(_)) => Input::Quiet,
            (true, None) => Input::QuietWithoutList,
        }
    }

    /// The keepalive request timed out.
    fn classify_timeout(&self, core: &Core, options: KeepaliveOptions, asked: Asked) -> Input {
        let jumped = core.now.since(self.sent) >= options.timeout.max(SHORTEST).saturating_mul(2);
        let reached = self.misses_so_far().saturating_add(1) >= options.threshold;
        keepalive::judge(jumped, self.heard > self.sent, asked, reached, core.pings)
    }

    /// Timeouts in a row before this one: a message since the last one begins a new row.
    fn misses_so_far(&self) -> u32 {
        if self.heard > self.missed { 0 } else { self.misses }
    }

    /// Takes the response to the keepalive request.
    pub(super) fn on_response(
        &mut self,
        core: &mut Core,
        error: Option<&RequestError>,
        cheapest: Option<Family>,
    ) -> Signals {
        let unknown = error.is_some_and(|error| error.code() == Some(error_code::METHOD_NOT_FOUND));
        let input = match (unknown, self.state == State::Pinging && cheapest.is_some()) {
            (false, _) => Input::Answered,
            (true, true) => Input::UnknownThenList,
            (true, false) => Input::UnknownThenPassive,
        };
        self.step(core, input, cheapest)
    }
}

fn send(core: &mut Core, method: &'static str) {
    core.requests.insert(Purpose::Keepalive(method), None);
}

/// Whether the options want the list of tools to be requested, and it worked.
fn prefers_tools(core: &Core, options: KeepaliveOptions) -> bool {
    options.method == KeepaliveMethod::ToolsList && core.gate(gate::Use::Keepalive, Family::Tools).is_allowed()
}

/// The description of a deviation.
fn quirk_text(server: &str, input: Input) -> String {
    if matches!(input, Input::UnknownThenList | Input::UnknownThenPassive) {
        format!("{server} does not have `ping`; a list is requested instead, or nothing")
    } else if input == Input::SilentAlways {
        format!("{server} never responds to `ping`; it is not sent on the next connections")
    } else {
        format!("{server} responds to other requests, but not to `ping`; a list is requested instead, or nothing")
    }
}
