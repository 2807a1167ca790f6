use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

use super::ledger::Purpose;
use super::link::Loss;
use super::timers::Timer;
use super::{Eras, FailureKind, KnownEra, Server, Session, Wire};
use crate::Time;
use crate::jsonrpc::Json;
use crate::machine::handshake::{Effect, Failure, Input, State, take};
use crate::machine::{QuirkKind, Verdict, link};
use crate::protocol::{Era, ProtocolVersion, method};

/// How many times the probe's timeout a server has that is known to be slow, or modern.
const SLOW_PROBE: u32 = 3;

/// What a handshake knows beside its state.
#[derive(Clone, Debug)]
pub(super) struct Handshake {
    pub(super) state: State,
    pub(super) opened_at: Time,
    probed_at: Time,
    /// The version in the last probe or `initialize`.
    pub(super) offered: Option<ProtocolVersion>,
    /// The versions that `initialize` offered, a bit each.
    tried: u8,
    /// The version that the server named last.
    pub(super) named: Option<ProtocolVersion>,
    /// `initialize` goes without capabilities.
    pub(super) bare: bool,
    /// The probe's or `initialize`'s id, of the one that was sent last.
    pub(super) request: Option<u64>,
    /// What the last answer said of the server.
    pub(super) candidate: Option<Box<Server>>,
    /// What a late answer to the probe said of it.
    evidence: Option<Box<Server>>,
    /// The server's, or the system's, last words.
    pub(super) words: Option<Box<str>>,
    /// The probe met a fault of the server's, which says nothing of its era.
    pub(super) faulty: bool,
    /// How often the probe was sent again, since its exchange broke.
    pub(super) broken: u32,
}

impl Default for Handshake {
    fn default() -> Self {
        Self {
            state: State::Idle,
            opened_at: Time::ZERO,
            probed_at: Time::ZERO,
            offered: None,
            tried: 0,
            named: None,
            bare: false,
            request: None,
            candidate: None,
            evidence: None,
            words: None,
            faulty: false,
            broken: 0,
        }
    }
}

impl Handshake {
    /// Whether the handshake is done, and the session has an era.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Legacy | State::Modern)
    }

    /// The newest legacy version that is older than the offered one and was not tried.
    pub(super) fn older(&self) -> Option<ProtocolVersion> {
        let offered = self.offered.unwrap_or(ProtocolVersion::NEWEST_MODERN);
        let older = ProtocolVersion::ALL.iter().copied().rev().filter(|version| *version < offered);
        older.filter(|version| version.era() == Era::Legacy).find(|version| !self.was_tried(*version))
    }

    pub(super) fn was_tried(&self, version: ProtocolVersion) -> bool {
        self.tried & bit(version) != 0
    }
}

const fn bit(version: ProtocolVersion) -> u8 {
    1 << version as u8
}

impl Session {
    /// The transport is open.
    pub(super) fn start_handshake(&mut self) {
        self.handshake = Handshake { opened_at: self.now, ..Handshake::default() };
        for family in crate::protocol::Family::EACH {
            self.families.get_mut(family).reset();
        }
        self.arm(Timer::Handshake, self.options.timeouts.handshake);
        let legacy = self.known_era.is_some_and(|known| known.era() == Era::Legacy);
        let input = match self.options.eras {
            Eras::ModernOnly(_) => Input::StartModern,
            Eras::LegacyOnly => Input::StartLegacy,
            Eras::Auto | Eras::LegacyFirst if self.reopened => Input::StartAgain,
            Eras::LegacyFirst => Input::StartLegacyFirst,
            Eras::Auto if legacy => Input::StartLegacyFirst,
            Eras::Auto => Input::StartDiscover,
        };
        self.handshake_step(input);
    }

    pub(super) fn handshake_step(&mut self, input: Input) {
        if input == Input::DiscoverTimeout
            && let Some(deadline) = self.timers.get(Timer::Handshake)
        {
            // Where time jumped, both are over; what follows the probe is to have its time.
            self.timers.set(Timer::Handshake, Some(deadline.max(self.after(self.options.timeouts.discover))));
        }
        let row = take(self.handshake.state, input);
        self.handshake.state = row.next;
        if let Verdict::Quirk(kind) = row.verdict {
            self.handshake_quirk(kind);
        }
        for effect in row.effects {
            self.handshake_effect(*effect);
        }
    }

    fn handshake_effect(&mut self, effect: Effect) {
        match effect {
            Effect::SendDiscover => {
                let pinned = self.options.eras.pinned();
                self.send_discover(pinned.unwrap_or(ProtocolVersion::NEWEST_MODERN));
            }
            Effect::SendDiscoverNamed => {
                let named = self.handshake.named.take();
                self.send_discover(named.unwrap_or(ProtocolVersion::NEWEST_MODERN));
            }
            Effect::SendInitialize => {
                let saved = self.known_era.filter(|known| known.era() == Era::Legacy);
                self.send_initialize(saved.map_or(ProtocolVersion::NEWEST_LEGACY, |known| known.version));
            }
            Effect::SendInitializeNamed => {
                let named = self.handshake.named.take();
                self.send_initialize(named.unwrap_or(ProtocolVersion::NEWEST_LEGACY));
            }
            Effect::SendInitializeOlder => {
                let next = self.handshake.named.take().or(self.handshake.older());
                self.send_initialize(next.unwrap_or(ProtocolVersion::V2024_11_05));
            }
            Effect::SendInitializeBare => {
                self.handshake.bare = true;
                self.send_initialize(self.handshake.offered.unwrap_or(ProtocolVersion::NEWEST_LEGACY));
            }
            Effect::SendInitialized => {
                let message = self.encode_notification(method::INITIALIZED, None::<fn(&mut alloc::vec::Vec<u8>)>);
                self.out.push_back(super::Action::Send(message));
                self.start_discovery();
            }
            Effect::ArmDiscover => {
                self.handshake.probed_at = self.now;
                // Over HTTP a server that is silent to one request is silent to all.
                if self.options.wire == Wire::Http {
                    return;
                }
                // One that was modern before is waited for longer: silence is more likely a slow start.
                let modern = self.known_era.is_some_and(|known| known.era() == Era::Modern);
                let wait = self.options.timeouts.discover.saturating_mul(if modern { SLOW_PROBE } else { 1 });
                self.arm(Timer::Discover, wait);
            }
            Effect::DisarmDiscover => self.timers.set(Timer::Discover, None),
            Effect::KeepEvidence => self.handshake.evidence = self.handshake.candidate.take(),
            Effect::Adopt => {
                let candidate = self.handshake.candidate.take();
                self.adopt(candidate);
            }
            Effect::AdoptEvidence => {
                let evidence = self.handshake.evidence.take();
                self.adopt(evidence);
            }
            Effect::Reopen => self.reopen_without_probe(),
            Effect::Fail(failure) => self.handshake_failed(failure),
        }
    }

    pub(super) fn send_discover(&mut self, version: ProtocolVersion) {
        self.handshake.offered = Some(version);
        self.handshake.request = Some(self.requests.insert(Purpose::Discover, None));
    }

    fn send_initialize(&mut self, version: ProtocolVersion) {
        self.handshake.offered = Some(version);
        self.handshake.tried |= bit(version);
        self.handshake.request = Some(self.requests.insert(Purpose::Initialize, None));
    }

    /// The handshake is done. In the modern era discovery follows at once, in the legacy one `initialized` first.
    fn adopt(&mut self, server: Option<Box<Server>>) {
        let Some(server) = server else { return };
        self.timers.set(Timer::Handshake, None);
        self.timers.set(Timer::Discover, None);
        let reopened = core::mem::take(&mut self.reopened) && server.era() == Era::Legacy;
        // One that was known to close on the probe was not probed, so it is known still.
        let unprobed = self.known_era.is_some_and(|known| known.discover_closes) && server.era() == Era::Legacy;
        let offered = self.handshake.offered.filter(|offered| offered.era() == server.era());
        let known_era = KnownEra { version: offered.unwrap_or(server.version), discover_closes: reopened || unprobed };
        self.known_era = Some(known_era).filter(|_| !self.handshake.faulty);
        if reopened {
            self.probe_closed_quirk();
        }
        self.shape_quirks(&server);
        let era = server.era();
        self.server = Some(server);
        // A request that is still open here was overtaken: a probe by `initialize`, or the other way round.
        for id in self.requests.engine() {
            self.give_up(id);
        }
        self.arm(Timer::Discovery, self.options.timeouts.discovery);
        if era == Era::Modern {
            // A modern server has no questions, and is owed no answers.
            self.end_asks(true);
            self.start_discovery();
        }
    }

    fn shape_quirks(&mut self, server: &Server) {
        let method = match server.era() {
            Era::Legacy => method::INITIALIZE,
            Era::Modern => method::DISCOVER,
        };
        if server.capabilities.is_none() {
            let detail = "the answer has no `capabilities`; every family is asked";
            self.quirk(QuirkKind::InitializeShape, None, Some(method), detail);
        }
        let answer = Json::from(&*server.raw);
        let odd_instructions = server.instructions.is_none() && answer.member("instructions").is_some();
        let nameless = server.era() == Era::Legacy && (server.name.is_none() || server.server_version.is_none());
        if nameless {
            let detail = "the answer has no `serverInfo` with a name and a version";
            self.quirk(QuirkKind::InitializeShape, None, Some(method), detail);
        } else if odd_instructions {
            self.quirk(QuirkKind::InitializeShape, None, Some(method), "`instructions` is no string");
        }
        let mut odd = String::new();
        if let Some(capabilities) = &server.capabilities {
            capabilities.odd_shapes(|name, value| {
                let separator = if odd.is_empty() { "" } else { ", " };
                odd.push_str(&format!("{separator}`{name}` is {}", super::classify::excerpt(value)));
            });
        }
        if !odd.is_empty() {
            self.quirk(QuirkKind::CapabilityShape, None, Some(method), format!("{odd}, not an object"));
        }
    }

    fn handshake_quirk(&mut self, kind: QuirkKind) {
        let words = self.handshake.words.as_deref().unwrap_or("");
        let offered = self.handshake.offered.map_or("", ProtocolVersion::as_str);
        let (method, detail) = if kind == QuirkKind::Probe5xx {
            (method::DISCOVER, format!("{words}; `initialize` follows, and the next time the probe again"))
        } else if kind == QuirkKind::ProbeSilent {
            let waited = self.now.since(self.handshake.probed_at);
            (method::DISCOVER, format!("no answer within {waited:?}; `initialize` follows"))
        } else if kind == QuirkKind::ProbeLate {
            (method::DISCOVER, "the answer came after `initialize` had been sent".into())
        } else if kind == QuirkKind::VersionRefused {
            (method::INITIALIZE, format!("{offered} was refused ({words}); another version follows"))
        } else {
            (method::INITIALIZE, format!("the client's capabilities were refused ({words}); again without them"))
        };
        self.quirk(kind, None, Some(method), detail);
    }

    fn handshake_failed(&mut self, failure: Failure) {
        let server = self.server_name();
        let words = self.handshake.words.as_deref().unwrap_or("it did not say why");
        let offered = self.handshake.offered.map_or("no version", ProtocolVersion::as_str);
        let asked = match self.handshake.offered.map(ProtocolVersion::era) {
            Some(Era::Modern) => method::DISCOVER,
            Some(Era::Legacy) | None => method::INITIALIZE,
        };
        let (kind, message) = match failure {
            Failure::Timeout => {
                let waited = self.now.since(self.handshake.opened_at);
                (FailureKind::HandshakeTimeout, format!("{server} did not answer `{asked}` within {waited:?}"))
            }
            Failure::Rejected => {
                (FailureKind::HandshakeRejected, format!("{server} refused `{asked}` (offered {offered}): {words}"))
            }
            Failure::EraExcluded => (
                FailureKind::HandshakeRejected,
                format!("{server} speaks only an era that the options exclude (`{asked}` offered {offered}): {words}"),
            ),
            Failure::UnsupportedVersion => (
                FailureKind::UnsupportedVersion,
                format!(
                    "{server} and this client have no protocol version in common (`{asked}` offered {offered}): {words}"
                ),
            ),
            Failure::Protocol => {
                (FailureKind::Protocol, format!("{server} answered `{asked}` with what makes no sense: {words}"))
            }
            Failure::Closed => {
                (FailureKind::Closed, format!("{server} closed the connection during the handshake: {words}"))
            }
        };
        self.lose(kind, message.into(), if failure == Failure::Closed { Loss::Gone } else { Loss::Unusable });
    }

    /// Something goes on over there: wait longer, up to a bound.
    pub(super) fn sign_of_life(&mut self) {
        let timeouts = self.options.timeouts;
        let latest = self.handshake.opened_at + timeouts.handshake_max;
        let bounds = [
            (Timer::Open, timeouts.open, latest),
            (Timer::Handshake, timeouts.handshake, latest),
            (
                Timer::Discover,
                timeouts.discover,
                self.handshake.probed_at + timeouts.discover.saturating_mul(SLOW_PROBE),
            ),
        ];
        for (timer, wait, latest) in bounds {
            if let Some(at) = self.timers.get(timer) {
                self.timers.set(timer, Some(at.max((self.now + wait).min(latest))));
            }
        }
    }

    /// All families are settled.
    pub(super) fn discovered(&mut self) {
        self.link_step(link::Input::Established);
    }
}
