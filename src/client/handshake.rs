//! Component: the handshake, which finds out era and version of the server.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use serde_json::value::RawValue;

use super::core::{Core, Stage, excerpt};
use super::request_table::Purpose;
use super::signal::{Signal, Signals};
use super::timers::Timer;
use super::{Eras, FailureKind, KnownEra, Options, Output, RequestError, Server, Wire};
use crate::Time;
use crate::jsonrpc::Json;
use crate::machine::handshake::{Effect, Failure, Input, State, take};
use crate::machine::resend::{self, Reason, Resend, Used};
use crate::machine::{QuirkKind, Verdict, loss, offer};
use crate::protocol::{Era, ProtocolVersion, error_code, method};

/// Factor on the timeout of `server/discover` for a server that is slow, or was modern before.
const SLOW_DISCOVER: u32 = 3;

/// Maximum number of versions that are read from a server's list.
const VERSIONS: usize = 64;

#[derive(Clone, Debug)]
pub(super) struct Handshake {
    state: State,
    offer: offer::State,
    opened_at: Time,
    discover_sent_at: Time,
    /// The version in the last `server/discover` or `initialize`.
    offered: Option<ProtocolVersion>,
    /// The versions that `initialize` offered, as bits.
    tried: u8,
    /// The version that the server named last.
    named: Option<ProtocolVersion>,
    /// The id of the last `server/discover` or `initialize`.
    request: Option<u64>,
    /// The server's description in the last response.
    candidate: Option<Box<Server>>,
    /// The server's description in a late response to `server/discover`.
    evidence: Option<Box<Server>>,
    /// The last message of the server or the system.
    words: Option<Box<str>>,
    /// `server/discover` was answered with a 5xx, which does not show the era.
    faulty: bool,
    /// How often `server/discover` was sent again because its exchange broke.
    broken: Used,
    known_era: Option<KnownEra>,
    /// The server closed the connection on `server/discover`.
    discover_closed: bool,
}

/// A classified response; nothing is changed yet.
struct Answer {
    input: Input,
    words: Option<Box<str>>,
    named: Option<ProtocolVersion>,
    candidate: Option<Box<Server>>,
}

impl Answer {
    fn new(input: Input, words: impl Into<Box<str>>) -> Self {
        Self { input, words: Some(words.into()), named: None, candidate: None }
    }
}

/// The versions that both sides support and that were not tried: the newest of each era.
#[derive(Clone, Copy, Debug, Default)]
struct Common {
    legacy: Option<ProtocolVersion>,
    modern: Option<ProtocolVersion>,
}

const fn bit(version: ProtocolVersion) -> u8 {
    1 << version as u8
}

impl Handshake {
    pub(super) fn new(known_era: Option<KnownEra>) -> Self {
        Self {
            state: State::Idle,
            offer: offer::State::Declared,
            opened_at: Time::ZERO,
            discover_sent_at: Time::ZERO,
            offered: None,
            tried: 0,
            named: None,
            request: None,
            candidate: None,
            evidence: None,
            words: None,
            faulty: false,
            broken: Used::Never,
            known_era,
            discover_closed: false,
        }
    }

    pub(super) const fn known_era(&self) -> Option<KnownEra> {
        self.known_era
    }

    /// The id of the request that the handshake waits for.
    pub(super) const fn request(&self) -> Option<u64> {
        self.request
    }

    /// The request that the handshake waits for has a new id.
    pub(super) fn rename(&mut self, id: u64, new: u64) {
        if self.request == Some(id) {
            self.request = Some(new);
        }
    }

    /// A transport is to be opened. The state is reset, except if the handshake itself requested a new transport.
    pub(super) fn reset(&mut self, core: &Core) {
        let state = if self.state == State::Reopening { State::Reopening } else { State::Idle };
        *self = Self { state, opened_at: core.now, ..Self::new(self.known_era) };
    }

    /// The connection was lost.
    pub(super) fn on_lost(&mut self) {
        self.state = take(self.state, Input::Lost).next;
    }

    /// The transport is open.
    pub(super) fn start(&mut self, core: &mut Core) -> Signals {
        *self = Self { state: self.state, opened_at: core.now, ..Self::new(self.known_era) };
        if core.options.capabilities.is_empty() {
            self.offer = offer::State::LeftOut;
        }
        core.undeclared = false;
        core.arm(Timer::Handshake, core.options.timeouts.handshake);
        let legacy = self.known_era.is_some_and(|known| known.era() == Era::Legacy);
        let input = match core.options.eras {
            Eras::ModernOnly(_) => Input::StartModern,
            Eras::LegacyOnly => Input::StartLegacy,
            Eras::LegacyFirst => Input::StartLegacyFirst,
            Eras::Auto if legacy => Input::StartLegacyFirst,
            Eras::Auto => Input::StartDiscover,
        };
        self.step(core, input)
    }

    pub(super) fn step(&mut self, core: &mut Core, input: Input) -> Signals {
        if input == Input::DiscoverTimeout
            && let Some(deadline) = core.timers.get(Timer::Handshake)
        {
            // After a jump of the clock both deadlines may be due; `initialize`, which follows `server/discover`, still
            // needs its time.
            let least = core.after(core.options.timeouts.discover);
            core.timers.set(Timer::Handshake, Some(deadline.max(least)));
        }
        let row = take(self.state, input);
        self.state = row.next;
        if let Verdict::Quirk(kind) = row.verdict {
            self.record(core, kind);
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
                let next = self.named.take().or(self.older());
                self.send_initialize(core, next.unwrap_or(ProtocolVersion::V2024_11_05));
            }
            Effect::SendInitializeBare => {
                core.undeclared = true;
                self.send_initialize(core, self.offered.unwrap_or(ProtocolVersion::NEWEST_LEGACY));
            }
            Effect::SendInitialized => {
                let message = core.encode_notification(method::INITIALIZED, None::<fn(&mut alloc::vec::Vec<u8>)>);
                core.outbox.push(Output::Send(message));
                return Signals::one(Signal::Discover);
            }
            Effect::ArmDiscover => {
                self.discover_sent_at = core.now;
                // Over HTTP, a server that does not answer one request does not answer others.
                if core.wire == Wire::Pipe {
                    // A server that was modern before gets more time: it is more likely slow to start.
                    let modern = self.known_era.is_some_and(|known| known.era() == Era::Modern);
                    let factor = if modern { SLOW_DISCOVER } else { 1 };
                    core.arm(Timer::Discover, core.options.timeouts.discover.saturating_mul(factor));
                }
            }
            Effect::DisarmDiscover => core.timers.set(Timer::Discover, None),
            Effect::KeepEvidence => self.evidence = self.candidate.take(),
            Effect::NoteClosed => {
                self.discover_closed = true;
                let detail =
                    "the connection closed on a handshake that began with `server/discover`; opened again without it";
                core.quirk(QuirkKind::ProbeClosed, None, Some(method::DISCOVER), detail);
            }
            Effect::Adopt => {
                let candidate = self.candidate.take();
                return self.adopt(core, candidate);
            }
            Effect::AdoptEvidence => {
                let evidence = self.evidence.take();
                return self.adopt(core, evidence);
            }
            Effect::Reopen => return Signals::one(Signal::Reopen),
            Effect::Fail(failure) => return self.fail(core, failure),
        }
        Signals::NONE
    }

    fn send_discover(&mut self, core: &mut Core, version: ProtocolVersion) {
        self.offered = Some(version);
        self.request = Some(core.requests.insert(Purpose::Discover(version), None));
    }

    fn send_initialize(&mut self, core: &mut Core, version: ProtocolVersion) {
        self.offered = Some(version);
        self.tried |= bit(version);
        self.request = Some(core.requests.insert(Purpose::Initialize(version), None));
    }

    /// The newest legacy version that is older than the offered one and was not tried.
    fn older(&self) -> Option<ProtocolVersion> {
        let offered = self.offered.unwrap_or(ProtocolVersion::NEWEST_MODERN);
        let older = ProtocolVersion::ALL.iter().copied().rev().filter(|version| *version < offered);
        older.filter(|version| version.era() == Era::Legacy).find(|version| !self.was_tried(*version))
    }

    fn was_tried(&self, version: ProtocolVersion) -> bool {
        self.tried & bit(version) != 0
    }

    /// The handshake is done. The modern era continues with discovery, the legacy one with `notifications/initialized`.
    fn adopt(&mut self, core: &mut Core, server: Option<Box<Server>>) -> Signals {
        let Some(server) = server else { return Signals::NONE };
        core.timers.set(Timer::Handshake, None);
        core.timers.set(Timer::Discover, None);
        let era = server.era();
        // A server that is known to close on `server/discover` was not sent it, so this is still known.
        let known = self.known_era.is_some_and(|known| known.discover_closes) && era == Era::Legacy;
        let offered = self.offered.filter(|offered| offered.era() == era);
        let version = offered.unwrap_or(server.version);
        let discover_closes = core::mem::take(&mut self.discover_closed) || known;
        self.known_era = Some(KnownEra { version, discover_closes }).filter(|_| !self.faulty);
        record_shape(core, &server);
        core.agreed = Some(server.version);
        core.server = Some(server);
        if core.stage == Stage::Handshake {
            core.stage = Stage::Discovery;
        }
        // Open handshake requests were replaced: `server/discover` by `initialize`, or the reverse.
        for id in core.requests.engine() {
            core.give_up(id);
        }
        core.arm(Timer::Discovery, core.options.timeouts.discovery);
        match era {
            Era::Modern => Signals::one(Signal::ModernAgreed),
            Era::Legacy => Signals::NONE,
        }
    }

    fn record(&self, core: &mut Core, kind: QuirkKind) {
        let words = self.words.as_deref().unwrap_or("");
        let offered = self.offered.map_or("", ProtocolVersion::as_str);
        let (method, detail) = if kind == QuirkKind::Probe5xx {
            (method::DISCOVER, format!("{words}; `initialize` follows, and `server/discover` again the next time"))
        } else if kind == QuirkKind::ProbeSilent {
            let waited = core.now.since(self.discover_sent_at);
            (method::DISCOVER, format!("no answer within {waited:?}; `initialize` follows"))
        } else if kind == QuirkKind::ProbeLate {
            (method::DISCOVER, "the answer came after `initialize` had been sent".into())
        } else if kind == QuirkKind::VersionUnknown {
            let taken = self.candidate.as_ref().map_or("", |server| server.version.as_str());
            (method::INITIALIZE, format!("{words}; taken for {taken}"))
        } else if kind == QuirkKind::VersionRefused {
            (method::INITIALIZE, format!("{offered} was refused ({words}); another version follows"))
        } else {
            (method::INITIALIZE, format!("the client's capabilities were refused ({words}); again without them"))
        };
        core.quirk(kind, None, Some(method), detail);
    }

    fn fail(&self, core: &Core, failure: Failure) -> Signals {
        let server = core.server_name();
        let words = self.words.as_deref().unwrap_or("it did not say why");
        let offered = self.offered.map_or("no version", ProtocolVersion::as_str);
        let asked = match self.offered.map(ProtocolVersion::era) {
            Some(Era::Modern) => method::DISCOVER,
            Some(Era::Legacy) | None => method::INITIALIZE,
        };
        let (kind, message) = match failure {
            Failure::Timeout => {
                let waited = core.now.since(self.opened_at);
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
        let transport = if failure == Failure::Closed { loss::Transport::Closed } else { loss::Transport::Open };
        Signals::lost(kind, message, transport)
    }

    /// The transport is slow, but there is activity: the timeouts are extended, up to a maximum.
    pub(super) fn on_sign_of_life(&self, core: &mut Core) {
        let timeouts = core.options.timeouts;
        let latest = self.opened_at + timeouts.handshake_max;
        let discover_latest = self.discover_sent_at + timeouts.discover.saturating_mul(SLOW_DISCOVER);
        let bounds = [
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
            Ok(result) => self.classify_discovered(&core.options, result),
            Err(error) => self.classify_discover_error(&core.options, &error),
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
    pub(super) fn on_initialized(
        &mut self,
        core: &mut Core,
        id: u64,
        answer: Result<&RawValue, RequestError>,
    ) -> Signals {
        if self.request != Some(id) {
            return Signals::NONE;
        }
        match answer {
            Ok(result) => {
                let Answer { input, words, candidate, .. } = classify_initialized(&core.options, result);
                self.words = words;
                self.candidate = candidate.or(self.candidate.take());
                self.step(core, input)
            }
            Err(error) => {
                self.words = Some(excerpt(&format!("{error}")).into());
                let data = error.server().and_then(|error| error.data.as_deref());
                let versions = data.and_then(|data| Json::from(data).member("supported"));
                let common = versions.map(|versions| self.common(&core.options, versions)).unwrap_or_default();
                self.named = common.legacy.or(self.named);
                match self.classify_refusal(&error, common) {
                    Refusal::ByModern => self.step(core, Input::RefusedByModern),
                    Refusal::Offer(input) => self.step_offer(core, input),
                }
            }
        }
    }

    /// `server/discover` or `initialize` was refused with an HTTP status.
    pub(super) fn on_status(&mut self, core: &mut Core, purpose: &Purpose, status: u16, words: Box<str>) -> Signals {
        self.words = Some(words);
        if matches!(purpose, Purpose::Discover(_)) {
            self.faulty |= status >= 500;
            return self.step(core, if status >= 500 { Input::ServerFault } else { Input::NotModern });
        }
        match (status, self.older()) {
            (200..300, _) => self.step(core, Input::Malformed),
            (400 | 404 | 405, Some(_)) => self.step_offer(core, offer::Input::Version),
            _ => self.step_offer(core, offer::Input::Other),
        }
    }

    /// The exchange of `server/discover` or `initialize` broke.
    pub(super) fn on_broken(&mut self, core: &mut Core, purpose: &Purpose, why: &str) -> Signals {
        let may = resend::take(Reason::Broken, self.broken) == Resend::Again;
        if matches!(purpose, Purpose::Discover(_)) && may {
            self.broken = self.broken.more();
            self.send_discover(core, self.offered.unwrap_or(ProtocolVersion::NEWEST_MODERN));
            return Signals::NONE;
        }
        let message = format!("{} broke the exchange of the handshake: {why}", core.server_name());
        Signals::lost(FailureKind::Closed, message, loss::Transport::Closed)
    }

    /// The offered version or the capabilities were refused.
    fn step_offer(&mut self, core: &mut Core, input: offer::Input) -> Signals {
        let row = offer::take(self.offer, input);
        self.offer = row.next;
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

    fn classify_discovered(&self, options: &Options, result: &RawValue) -> Answer {
        let versions = Json::from(result).member("supportedVersions").filter(|versions| versions.first() == b'[');
        let Some(versions) = versions else {
            return Answer::new(Input::NotModern, "the result has no list of `supportedVersions`");
        };
        let common = self.common(options, versions);
        if let Some(version) = common.modern {
            let candidate = Some(Box::new(Server::read(version, result)));
            return Answer { input: Input::ModernFound, words: None, named: None, candidate };
        }
        named(common, versions)
    }

    fn classify_discover_error(&self, options: &Options, error: &RequestError) -> Answer {
        let words = excerpt(&format!("{error}")).into_owned();
        match error.code() {
            Some(error_code::UNSUPPORTED_PROTOCOL_VERSION) => {
                let data = error.server().and_then(|error| error.data.as_deref());
                let versions = data.and_then(|data| Json::from(data).member("supported"));
                let Some(versions) = versions else { return Answer::new(Input::NothingCommon, words) };
                let common = self.common(options, versions);
                if common.modern.is_some() {
                    return Answer { named: common.modern, ..Answer::new(Input::VersionOffered, words) };
                }
                named(common, versions)
            }
            Some(error_code::HEADER_MISMATCH | error_code::MISSING_REQUIRED_CLIENT_CAPABILITY) => {
                Answer::new(Input::ModernError, words)
            }
            _ => Answer::new(Input::NotModern, words),
        }
    }

    /// The versions in a server's list that the client supports and has not tried.
    fn common(&self, options: &Options, versions: Json<'_>) -> Common {
        let mut common = Common::default();
        for version in versions.elements(VERSIONS).into_iter().flat_map(|elements| elements.kept) {
            let Some(Ok(version)) = version.as_string().map(|version| version.parse::<ProtocolVersion>()) else {
                continue;
            };
            match version.era() {
                Era::Legacy if self.was_tried(version) => {}
                Era::Legacy => common.legacy = common.legacy.max(Some(version)),
                Era::Modern if options.eras.pinned().is_some_and(|pinned| pinned != version) => {}
                Era::Modern => common.modern = common.modern.max(Some(version)),
            }
        }
        common
    }

    fn classify_refusal(&self, error: &RequestError, common: Common) -> Refusal {
        if common.legacy.is_some() {
            return Refusal::Offer(offer::Input::VersionNamed);
        }
        if common.modern.is_some() || error.code() == Some(error_code::UNSUPPORTED_PROTOCOL_VERSION) {
            return Refusal::ByModern;
        }
        let message = error.server().map_or(String::new(), |error| error.message.to_ascii_lowercase());
        let older = self.older().is_some();
        let invalid = error.code() == Some(error_code::INVALID_PARAMS);
        let capabilities = ["capabilit", "elicitation", "sampling", "roots", "extensions", "experimental"]
            .iter()
            .any(|word| message.contains(word));
        let version = message.contains("version");
        Refusal::Offer(match (version, capabilities, invalid, older) {
            (true, true, _, true) => offer::Input::VersionAndCapabilities,
            (true, true, _, false) => offer::Input::LastVersionAndCapabilities,
            (true, false, _, true) => offer::Input::Version,
            (true, false, _, false) => offer::Input::LastVersion,
            (false, true, true, true) => offer::Input::ParamsAndCapabilities,
            (false, true, _, _) => offer::Input::Capabilities,
            (false, false, true, true) => offer::Input::Params,
            (false, false, true, false) => offer::Input::LastParams,
            (false, false, false, _) => offer::Input::Other,
        })
    }
}

/// What a refusal of `initialize` means.
enum Refusal {
    /// The server names modern versions.
    ByModern,
    /// The server refuses what was offered.
    Offer(offer::Input),
}

fn named(common: Common, versions: Json<'_>) -> Answer {
    let words = format!("it speaks {}", excerpt(versions.text()));
    let input = if common.legacy.is_some() { Input::LegacyFound } else { Input::NothingCommon };
    Answer { named: common.legacy, ..Answer::new(input, words) }
}

fn classify_initialized(options: &Options, result: &RawValue) -> Answer {
    let Some(version) = Json::from(result).member("protocolVersion").and_then(Json::as_string) else {
        return Answer::new(Input::Malformed, format!("no `protocolVersion` in {}", excerpt(result.get())));
    };
    let words = format!("it answered with version {}", excerpt(&version));
    let (input, version) = match version.parse::<ProtocolVersion>() {
        Ok(version) if version.era() == Era::Modern => return Answer::new(Input::RefusedByModern, words),
        Ok(version) => (Input::Accepted, version),
        Err(_) => {
            let below = |known: &ProtocolVersion| known.era() == Era::Legacy && known.as_str() < &*version;
            let nearest = ProtocolVersion::ALL.iter().copied().rev().find(below);
            let Some(nearest) = nearest.filter(|_| options.tolerance.nearest_version) else {
                return Answer::new(Input::VersionUnknown, words);
            };
            (Input::AcceptedNearest, nearest)
        }
    };
    Answer { candidate: Some(Box::new(Server::read(version, result))), ..Answer::new(input, words) }
}

/// Records deviations in the shape of a server's description.
fn record_shape(core: &mut Core, server: &Server) {
    let method = match server.era() {
        Era::Legacy => method::INITIALIZE,
        Era::Modern => method::DISCOVER,
    };
    if server.capabilities.is_none() {
        let detail = "the answer has no `capabilities`; every family is asked";
        core.quirk(QuirkKind::InitializeShape, None, Some(method), detail);
    }
    let answer = Json::from(&*server.raw);
    let odd_instructions = server.instructions.is_none() && answer.member("instructions").is_some();
    let nameless = server.era() == Era::Legacy && (server.name.is_none() || server.server_version.is_none());
    if nameless {
        let detail = "the answer has no `serverInfo` with a name and a version";
        core.quirk(QuirkKind::InitializeShape, None, Some(method), detail);
    } else if odd_instructions {
        core.quirk(QuirkKind::InitializeShape, None, Some(method), "`instructions` is no string");
    }
    let mut odd = String::new();
    if let Some(capabilities) = &server.capabilities {
        capabilities.odd_shapes(|name, value| {
            let separator = if odd.is_empty() { "" } else { ", " };
            odd.push_str(&format!("{separator}`{name}` is {}", excerpt(value)));
        });
    }
    if !odd.is_empty() {
        core.quirk(QuirkKind::CapabilityShape, None, Some(method), format!("{odd}, not an object"));
    }
}
