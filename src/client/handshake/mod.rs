//! Component: the handshake, which finds out era and version of the server.

mod change;
mod classify;
mod texts;
mod tried;

use alloc::boxed::Box;
use alloc::format;
use serde_json::value::RawValue;

use self::classify::{Answer, Refusal};
use self::texts::{Told, record_shape};
use self::tried::Tried;
use super::core::Core;
use super::request_table::Purpose;
use super::signal::{Signal, Signals};
use super::timers::Timer;
use super::{Eras, FailureKind, KnownEra, Output, RequestError, Server};
use crate::Time;
use crate::jsonrpc::Json;
use crate::machine::handshake::{
    self, Allowed, Broken, Effect, Input, Known, Older, Refused, Request, State, Status, take,
};
use crate::machine::resend::{self, Reason, Used};
use crate::machine::{Verdict, era_change, loss, offer};
use crate::protocol::{Era, ProtocolVersion, method};
use crate::text::excerpt;

/// Factor on the timeout of `server/discover` for a server that is slow, or was modern before.
const SLOW_DISCOVER: u32 = 3;

#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Handshake {
    state: State,
    opened_at: Time,
    discover_sent_at: Time,
    /// The version in the last `server/discover` or `initialize`.
    offered: Option<ProtocolVersion>,
    tried: Tried,
    /// The version that the server named last.
    named: Option<ProtocolVersion>,
    /// The id of the last `server/discover` or `initialize`.
    request: Option<u64>,
    /// The server's description in the last response.
    #[cfg_attr(feature = "snapshot", serde(with = "super::server::form"))]
    candidate: Option<Box<Server>>,
    /// The server's description in a late response to `server/discover`.
    #[cfg_attr(feature = "snapshot", serde(with = "super::server::form"))]
    evidence: Option<Box<Server>>,
    /// The last message of the server or the system.
    words: Option<Box<str>>,
    /// How often `server/discover` was sent again because its exchange broke.
    broken: Used,
    known_era: Option<KnownEra>,
    /// Whether responses show that the server changed its era or version.
    change: era_change::State,
}

impl Handshake {
    pub(super) fn new(known_era: Option<KnownEra>) -> Self {
        Self {
            state: State::Idle,
            opened_at: Time::ZERO,
            discover_sent_at: Time::ZERO,
            offered: None,
            tried: Tried::default(),
            named: None,
            request: None,
            candidate: None,
            evidence: None,
            words: None,
            broken: Used::Never,
            known_era,
            change: era_change::State::Settled,
        }
    }

    pub(super) const fn known_era(&self) -> Option<KnownEra> {
        self.known_era
    }

    /// The request that the handshake waits for has a new id.
    pub(super) fn rename(&mut self, id: u64, new: u64) {
        if self.request == Some(id) {
            self.request = Some(new);
        }
    }

    /// A transport is to be opened.
    pub(super) fn reset(&mut self, core: &Core) {
        let state = handshake::take_opening(self.state);
        *self = Self { state, opened_at: core.now, change: self.change, ..Self::new(self.known_era) };
    }

    /// The connection was lost.
    pub(super) fn on_lost(&mut self) {
        self.state = take(self.state, Input::Lost).next;
    }

    /// The transport is open.
    pub(super) fn start(&mut self, core: &mut Core) -> Signals {
        let (state, change) = (self.state, self.change);
        *self = Self { state, opened_at: core.now, change, ..Self::new(self.known_era) };
        let offered = match core.options.capabilities.is_empty() {
            true => offer::Input::BeginBare,
            false => offer::Input::Begin,
        };
        core.offer = offer::take(core.offer, offered).next;
        core.arm(Timer::Handshake, core.options.timeouts.handshake);
        let allowed = match core.options.eras {
            Eras::Auto => Allowed::Both,
            Eras::LegacyFirst => Allowed::BothLegacyFirst,
            Eras::LegacyOnly => Allowed::Legacy,
            Eras::ModernOnly(_) => Allowed::Modern,
        };
        let known = match self.known_era.map(KnownEra::era) {
            Some(Era::Legacy) => Known::Legacy,
            Some(Era::Modern) => Known::Modern,
            None => Known::Unknown,
        };
        let input = handshake::take_start(allowed, known, core.wire);
        self.step(core, input)
    }

    pub(super) fn step(&mut self, core: &mut Core, input: Input) -> Signals {
        let row = take(self.state, input);
        self.state = row.next;
        if let Verdict::Quirk(kind) = row.verdict {
            self.told().record(core, kind, input);
        }
        let mut signals = Signals::NONE;
        for effect in row.effects {
            signals.extend(self.apply(core, *effect));
        }
        signals
    }

    fn apply(&mut self, core: &mut Core, effect: Effect) -> Signals {
        match effect {
            Effect::SendDiscover => {
                let pinned = core.options.eras.pinned();
                self.send_discover(core, pinned.unwrap_or(ProtocolVersion::NEWEST_MODERN));
            }
            Effect::SendDiscoverNamed => {
                let named = self.named.take();
                self.send_discover(core, named.unwrap_or(ProtocolVersion::NEWEST_MODERN));
            }
            Effect::SendInitialize => {
                let saved = self.known_era.filter(|known| known.era() == Era::Legacy);
                self.send_initialize(core, saved.map_or(ProtocolVersion::NEWEST_LEGACY, |known| known.version));
            }
            Effect::SendInitializeNamed => {
                let named = self.named.take();
                self.send_initialize(core, named.unwrap_or(ProtocolVersion::NEWEST_LEGACY));
            }
            Effect::SendInitializeOlder => {
                let next = self.named.take().or(self.tried.next(self.offered));
                self.send_initialize(core, next.unwrap_or(ProtocolVersion::V2024_11_05));
            }
            Effect::SendInitializeBare => {
                self.send_initialize(core, self.offered.unwrap_or(ProtocolVersion::NEWEST_LEGACY));
            }
            Effect::SendInitialized => {
                let message = core.encode_notification(method::INITIALIZED, None::<fn(&mut alloc::vec::Vec<u8>)>);
                core.outbox.push(Output::Send(message));
                return Signals::one(Signal::Discover);
            }
            Effect::ArmDiscover => {
                self.discover_sent_at = core.now;
                // A server that was modern before gets more time: it is more likely slow to start.
                let modern = self.known_era.is_some_and(|known| known.era() == Era::Modern);
                let factor = if modern { SLOW_DISCOVER } else { 1 };
                core.arm(Timer::Discover, core.options.timeouts.discover.saturating_mul(factor));
            }
            Effect::DisarmDiscover => core.timers.set(Timer::Discover, None),
            // After a jump of the clock both deadlines may be due.
            Effect::ExtendDeadline => {
                if let Some(deadline) = core.timers.get(Timer::Handshake) {
                    let least = core.after(core.options.timeouts.discover);
                    core.timers.set(Timer::Handshake, Some(deadline.max(least)));
                }
            }
            Effect::ForgetEra => self.known_era = None,
            Effect::KeepEvidence => self.evidence = self.candidate.take(),
            Effect::NoteClosedAs(kind) => {
                self.known_era = self.known_era.map(|known| KnownEra { discover_closes: true, ..known });
                let detail =
                    "the connection closed on a handshake that began with `server/discover`; opened again without it";
                core.quirk(kind, None, Some(method::DISCOVER), detail);
            }
            Effect::Adopt => {
                let candidate = self.candidate.take();
                self.adopt(core, candidate);
            }
            Effect::AdoptEvidence => {
                let evidence = self.evidence.take();
                self.adopt(core, evidence);
            }
            Effect::DiscoverModern => return Signals::one(Signal::ModernAgreed),
            Effect::Reopen => return Signals::one(Signal::Reopen),
            Effect::Fail(failure) => return self.told().fail(core, failure),
        }
        Signals::NONE
    }

    /// What is known for a report.
    fn told(&self) -> Told<'_> {
        Told {
            words: self.words.as_deref(),
            offered: self.offered,
            candidate: self.candidate.as_ref().map(|server| server.version),
            opened_at: self.opened_at,
            discover_sent_at: self.discover_sent_at,
        }
    }

    fn send_discover(&mut self, core: &mut Core, version: ProtocolVersion) {
        self.offered = Some(version);
        self.request = Some(core.requests.insert(Purpose::Discover(version), None));
    }

    fn send_initialize(&mut self, core: &mut Core, version: ProtocolVersion) {
        self.offered = Some(version);
        self.tried.add(version);
        self.request = Some(core.requests.insert(Purpose::Initialize(version), None));
    }

    /// The handshake is done.
    fn adopt(&mut self, core: &mut Core, server: Option<Box<Server>>) {
        let Some(server) = server else { return };
        core.timers.set(Timer::Handshake, None);
        core.timers.set(Timer::Discover, None);
        let era = server.era();
        // A server that is known to close on `server/discover` was not sent it, so this is still known.
        let discover_closes = self.known_era.is_some_and(|known| known.discover_closes) && era == Era::Legacy;
        let offered = self.offered.filter(|offered| offered.era() == era);
        let version = offered.unwrap_or(server.version);
        self.known_era = Some(KnownEra { version, discover_closes });
        record_shape(core, &server);
        core.agreed = Some(server.version);
        core.server = Some(server);
        // Open handshake requests were replaced: `server/discover` by `initialize`, or the reverse.
        for id in core.requests.engine() {
            core.give_up(id);
        }
        core.arm(Timer::Discovery, core.options.timeouts.discovery);
    }

    /// The transport is slow, but there is activity: the timeouts are extended, up to a maximum.
    pub(super) fn on_sign_of_life(&self, core: &mut Core) {
        let timeouts = core.options.timeouts;
        let latest = self.opened_at + timeouts.handshake_max;
        let discover_latest = self.discover_sent_at + timeouts.discover.saturating_mul(SLOW_DISCOVER);
        let bounds = [
            (Timer::Connect, timeouts.connect.unwrap_or_default(), latest),
            (Timer::Open, timeouts.open, latest),
            (Timer::Handshake, timeouts.handshake, latest),
            (Timer::Discover, timeouts.discover, discover_latest),
        ];
        for (timer, wait, latest) in bounds {
            if let Some(at) = core.timers.get(timer) {
                core.timers.set(timer, Some(at.max((core.now + wait).min(latest))));
            }
        }
    }

    /// The transport closed; `why` is the system's message.
    pub(super) fn on_closed(&mut self, core: &mut Core, why: Box<str>) -> Signals {
        self.words = Some(why);
        self.step(core, Input::TransportClosed)
    }

    /// Takes the response to `server/discover`.
    pub(super) fn on_discovered(
        &mut self,
        core: &mut Core,
        id: u64,
        answer: Result<&RawValue, RequestError>,
    ) -> Signals {
        let late = self.request != Some(id);
        let Answer { input, words, named, candidate } = match answer {
            Ok(result) => classify::discovered(self.tried, &core.options, result),
            Err(error) => classify::discover_error(self.tried, &core.options, &error),
        };
        self.words = words.or(self.words.take());
        self.candidate = candidate.or(self.candidate.take());
        if !late {
            self.named = named;
        }
        let input = match (late, input) {
            (false, input) => input,
            (true, Input::ModernFound) => Input::LateModern,
            (true, Input::VersionOffered | Input::ModernError) => Input::LateModernError,
            (true, _) => Input::LateOther,
        };
        self.step(core, input)
    }

    /// Takes the response to `initialize`.
    pub(super) fn on_initialized(&mut self, core: &mut Core, answer: Result<&RawValue, RequestError>) -> Signals {
        match answer {
            Ok(result) => {
                let Answer { input, words, candidate, .. } = classify::initialized(&core.options, result);
                self.words = words;
                self.candidate = candidate.or(self.candidate.take());
                self.step(core, input)
            }
            Err(error) => {
                self.words = Some(excerpt(&format!("{error}")).into());
                let data = error.server().and_then(|error| error.data.as_deref());
                let versions = data.and_then(|data| Json::from(data).member("supported"));
                let common = versions.map(|versions| classify::common(self.tried, &core.options, versions));
                let common = common.unwrap_or_default();
                self.named = common.legacy.or(self.named);
                let older = self.tried.next(self.offered).is_some();
                match classify::refusal(&error, common, older) {
                    Refusal::ByModern => self.step(core, Input::RefusedByModern),
                    Refusal::Offer(input) => self.step_offer(core, input),
                }
            }
        }
    }

    /// `server/discover` or `initialize` was refused with an HTTP status.
    pub(super) fn on_status(&mut self, core: &mut Core, purpose: &Purpose, status: u16, words: Box<str>) -> Signals {
        self.words = Some(words);
        let status = match status {
            200..300 => Status::Good,
            400 | 404 | 405 => Status::NotUnderstood,
            500.. => Status::Server,
            _ => Status::Other,
        };
        let older = if self.tried.next(self.offered).is_some() { Older::Some } else { Older::None };
        match handshake::take_refused(classify_request(purpose), status, older) {
            Refused::Handshake(input) => self.step(core, input),
            Refused::Offer(input) => self.step_offer(core, input),
        }
    }

    /// The exchange of `server/discover` or `initialize` broke.
    pub(super) fn on_broken(&mut self, core: &mut Core, purpose: &Purpose, why: &str) -> Signals {
        let request = classify_request(purpose);
        match handshake::take_broken(request, resend::take(Reason::Broken, self.broken)) {
            Broken::Again => {
                self.broken = self.broken.more();
                self.send_discover(core, self.offered.unwrap_or(ProtocolVersion::NEWEST_MODERN));
                Signals::NONE
            }
            Broken::Lost => {
                let message = format!("{} broke the exchange of the handshake: {why}", core.server_name());
                Signals::lost(FailureKind::Closed, message, loss::Transport::Closed)
            }
        }
    }

    /// The offered version or the capabilities were refused.
    fn step_offer(&mut self, core: &mut Core, input: offer::Input) -> Signals {
        let row = offer::take(core.offer, input);
        core.offer = row.next;
        let mut signals = Signals::NONE;
        for effect in row.effects {
            let input = match effect {
                offer::Effect::OfferOlder => Input::VersionRefused,
                offer::Effect::OfferBare => Input::CapabilitiesRefused,
                offer::Effect::Refused => Input::Refused,
            };
            signals.extend(self.step(core, input));
        }
        signals
    }
}

/// The request of the handshake that a request is.
const fn classify_request(purpose: &Purpose) -> Request {
    match purpose {
        Purpose::Discover(_) => Request::Discover,
        Purpose::Initialize(_)
        | Purpose::List { .. }
        | Purpose::SetLevel
        | Purpose::Keepalive(_)
        | Purpose::Rediscover
        | Purpose::Listen { .. }
        | Purpose::Subscribe(_)
        | Purpose::Unsubscribe(_)
        | Purpose::CancelTask(_)
        | Purpose::Call(_) => Request::Initialize,
    }
}
