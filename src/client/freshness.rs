//! Component: how long the result of `server/discover` is fresh (specification 2026-07-28, "Caching").

use alloc::boxed::Box;
use core::time::Duration;
use serde_json::value::RawValue;

use super::Server;
use super::core::Core;
use super::request_table::Purpose;
use crate::Time;
use crate::jsonrpc::Json;
use crate::machine::freshness::{Effect, Input, State, take};
use crate::protocol::ProtocolVersion;

/// Maximum number of versions that are read from a server's list.
const VERSIONS: usize = 64;

#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Freshness {
    state: State,
    /// Until when the result is fresh, if it has a time to live.
    until: Time,
}

impl Default for Freshness {
    fn default() -> Self {
        Self { state: State::Untimed, until: Time::ZERO }
    }
}

impl Freshness {
    /// Until when the result is fresh; `None` if it has no time to live.
    pub(super) const fn until(&self) -> Option<Time> {
        match self.state {
            State::Untimed => None,
            State::Timed | State::Requested => Some(self.until),
        }
    }

    /// The handshake received a result.
    pub(super) fn start(&mut self, core: &mut Core) {
        self.step(core, Input::Ended, None);
        let ttl = core.server.as_ref().and_then(|server| ttl(&server.raw));
        self.receive(core, ttl, None);
    }

    /// The connection ended.
    pub(super) fn stop(&mut self, core: &mut Core) {
        self.step(core, Input::Ended, None);
    }

    /// A command used the server's capabilities.
    #[inline]
    pub(super) fn on_use(&mut self, core: &mut Core) {
        if self.state == State::Timed && core.now >= self.until && core.is_ready() {
            self.step(core, Input::UsedLate, None);
        }
    }

    /// Takes the response to the request for a new result; `None` if there is no valid one.
    pub(super) fn on_response(&mut self, core: &mut Core, result: Option<&RawValue>) {
        let version = core.version();
        let server = result.zip(version).filter(|(result, version)| supports(result, *version));
        match server.map(|(result, version)| Box::new(Server::read(version, result))) {
            Some(server) => self.receive(core, ttl(&server.raw), Some(server)),
            None => self.step(core, Input::Failed, None),
        }
    }

    fn receive(&mut self, core: &mut Core, ttl: Option<Duration>, server: Option<Box<Server>>) {
        self.until = core.now + ttl.unwrap_or_default();
        self.step(core, if ttl.is_some() { Input::Received } else { Input::ReceivedUntimed }, server);
    }

    fn step(&mut self, core: &mut Core, input: Input, server: Option<Box<Server>>) {
        let row = take(self.state, input);
        self.state = row.next;
        let mut server = server;
        for effect in row.effects {
            match effect {
                Effect::Request => {
                    let deadline = core.request_deadline();
                    core.requests.insert(Purpose::Rediscover, Some(deadline));
                }
                Effect::Adopt => core.server = server.take().or(core.server.take()),
            }
        }
    }
}

/// The time to live of a result, if it is above zero.
fn ttl(result: &RawValue) -> Option<Duration> {
    let millis: u64 = Json::from(result).member("ttlMs")?.text().parse().ok()?;
    (millis > 0).then(|| Duration::from_millis(millis))
}

/// Whether the server still supports the version of the connection.
fn supports(result: &RawValue, version: ProtocolVersion) -> bool {
    let versions = Json::from(result).member("supportedVersions").and_then(|versions| versions.elements(VERSIONS));
    let mut versions = versions.map(|versions| versions.kept).unwrap_or_default().into_iter();
    versions.any(|known| known.as_string().as_deref() == Some(version.as_str()))
}
