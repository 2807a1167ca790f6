//! Component: the handshake, which finds out era and version of the server, and later changes of them.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::time::Duration;
use serde_json::value::RawValue;

use super::core::{Core, FallBack, Loss, Signal, Signals, Stage, Timer};
use super::request::Purpose;
use super::{Eras, Failure as ClientFailure, FailureKind, KnownEra, Options, Output, RequestError, Server};
use crate::Time;
use crate::jsonrpc::{ErrorObject, Json};
use crate::machine::handshake::{self, About, Basis, Effect, Failure, Input, Phase, State};
use crate::machine::{QuirkKind, Verdict, Wire, link};
use crate::protocol::{Capability, Era, ProtocolVersion, error_code, method};
use crate::text::excerpt;
use crate::time::shown;

/// Factor on the timeout of `server/discover` for a server that is slow, or was modern before.
const SLOW_DISCOVER: u32 = 3;

/// How often `server/discover` is sent again because its exchange broke.
const RESENDS: u8 = 2;

/// So many responses in a row that the server does not know what it declares lead to a new handshake.
const RENEWED: u8 = 3;

/// A handshake, which belongs to one connection.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Handshake {
    state: State,
    opened_at: Time,
    discover_sent_at: Time,
    /// The last `server/discover` or `initialize`: its id, and the version that it offered.
    request: Option<(u64, ProtocolVersion)>,
    tried: Tried,
    /// The server's description in a late response to `server/discover`.
    #[cfg_attr(feature = "snapshot", serde(with = "super::server::form"))]
    evidence: Option<Box<Server>>,
    /// The last message of the server or the system.
    last_error: Option<Box<str>>,
    /// How often `server/discover` was sent again because its exchange broke.
    broken: u8,
}

impl Handshake {
    /// The handshake of a connection that is opened because the one before closed on `server/discover`.
    pub(super) fn reopening() -> Self {
        Self { state: State { phase: Phase::Reopening, ..State::default() }, ..Self::default() }
    }

    /// The request that the handshake waits for is sent again, with a new id.
    pub(super) fn rename(&mut self, core: &mut Core, id: u64, new: u64) {
        if let Some((request, _)) = self.request.as_mut().filter(|(request, _)| *request == id) {
            *request = new;
            self.renew_discover(core);
        }
    }

    /// `server/discover` is sent again: it has its own time.
    fn renew_discover(&mut self, core: &mut Core) {
        if self.state.phase == Phase::Discovering {
            self.arm_discover(core);
        }
    }

    /// The time of `server/discover` is over. It begins again for one that is not polled yet: over HTTP the token that a
    /// request presents may have to be loaded first.
    pub(super) fn on_discover_timeout(&mut self, core: &mut Core) -> Signals {
        let is_sent = self.request.is_some_and(|(id, _)| core.is_sent(id));
        if core.wire == Wire::Http && !is_sent {
            self.arm_discover(core);
            return Signals::NONE;
        }
        self.step(core, Input::DiscoverTimeout)
    }

    fn arm_discover(&mut self, core: &mut Core) {
        self.discover_sent_at = core.now;
        // A server that was modern before gets more time: it is more likely slow to start.
        let modern = core.known_era.is_some_and(|known| known.era() == Era::Modern);
        let factor = if modern { SLOW_DISCOVER } else { 1 };
        core.arm(Timer::Discover, core.options.timeouts.discover.saturating_mul(factor));
    }

    /// A transport is to be opened.
    pub(super) const fn on_opening(&mut self, core: &Core) {
        self.opened_at = core.now;
    }

    /// The transport is open.
    pub(super) fn start(&mut self, core: &mut Core) -> Signals {
        self.opened_at = core.now;
        core.is_bare = core.options.capabilities.is_empty();
        core.arm(Timer::Handshake, core.options.timeouts.handshake);
        let was_legacy = core.known_era.is_some_and(|known| known.era() == Era::Legacy);
        let input = match (core.options.eras, core.wire) {
            (Eras::LegacyOnly, _) => Input::StartLegacy,
            (Eras::ModernOnly(_), _) => Input::StartModern,
            (Eras::LegacyFirst, _) => Input::StartLegacyFirst,
            (Eras::Auto, _) if was_legacy => Input::StartLegacyFirst,
            (Eras::Auto, Wire::Pipe) => Input::StartDiscover,
            (Eras::Auto, Wire::Http) => Input::StartDiscoverHttp,
        };
        self.step(core, input)
    }

    pub(super) fn step(&mut self, core: &mut Core, input: Input) -> Signals {
        self.on_answer(core, Answer { input, error: None, version: None, server: None })
    }

    /// Steps the table with what a response says.
    fn on_answer(&mut self, core: &mut Core, mut answer: Answer) -> Signals {
        self.last_error = answer.error.take().or(self.last_error.take());
        let row = handshake::step(self.state, answer.input);
        self.state = row.next;
        if let Verdict::Quirk(kind) = row.verdict {
            self.record(core, kind, &answer);
        }
        let mut signals = Signals::NONE;
        for effect in row.effects {
            signals.extend(self.apply(core, *effect, &mut answer));
        }
        signals
    }

    fn apply(&mut self, core: &mut Core, effect: Effect, answer: &mut Answer) -> Signals {
        match effect {
            Effect::SendDiscover => {
                let version = answer.version.or(core.options.eras.pinned());
                self.send_discover(core, version.unwrap_or(ProtocolVersion::NEWEST_MODERN));
            }
            Effect::SendInitialize => {
                let saved = core.known_era.filter(|known| known.era() == Era::Legacy);
                let version = answer.version.or(saved.map(|known| known.version));
                self.send_initialize(core, version.unwrap_or(ProtocolVersion::NEWEST_LEGACY));
            }
            Effect::SendInitialized => {
                let message = core.encode_notification(method::INITIALIZED, None::<fn(&mut alloc::vec::Vec<u8>)>);
                core.outbox.push(Output::Send(message));
                return Signals::one(Signal::Discover);
            }
            Effect::ArmDiscover => self.arm_discover(core),
            Effect::DisarmDiscover => core.timers.set(Timer::Discover, None),
            // After a jump of the clock both deadlines may be due.
            Effect::ExtendDeadline => {
                core.timers.extend(Timer::Handshake, core.after(core.options.timeouts.discover));
            }
            Effect::ForgetEra => core.known_era = None,
            Effect::KeepEvidence => self.evidence = answer.server.take(),
            Effect::NoteClosedAs(kind) => {
                core.known_era = core.known_era.map(|known| KnownEra { discover_closes: true, ..known });
                let detail =
                    "the connection closed on a handshake that began with `server/discover`; opened again without it";
                core.quirk(kind, None, Some(method::DISCOVER), detail);
            }
            Effect::Adopt => {
                self.adopt(core, answer);
            }
            Effect::DiscoverModern => return Signals::one(Signal::ModernAgreed),
            Effect::Reopen => return Signals::one(Signal::Reopen),
            Effect::Fail(failure) => return self.fail(core, failure),
        }
        Signals::NONE
    }

    fn send_discover(&mut self, core: &mut Core, version: ProtocolVersion) {
        self.request = Some((core.requests.insert(Purpose::Discover(version), None), version));
    }

    fn send_initialize(&mut self, core: &mut Core, version: ProtocolVersion) {
        self.tried.add(version);
        self.request = Some((core.requests.insert(Purpose::Initialize(version), None), version));
    }

    /// The version in the last `server/discover` or `initialize`.
    fn offered(&self) -> Option<ProtocolVersion> {
        self.request.map(|(_, version)| version)
    }

    /// The handshake is done.
    fn adopt(&mut self, core: &mut Core, answer: &mut Answer) -> Option<()> {
        let server = answer.server.take().or(self.evidence.take())?;
        // An idle client does not keep what led to this.
        (self.last_error, self.evidence) = (None, None);
        core.timers.set(Timer::Handshake, None);
        core.timers.set(Timer::Discover, None);
        let era = server.era();
        // A server that is known to close on `server/discover` was not sent it, so this is still known.
        let discover_closes = core.known_era.is_some_and(|known| known.discover_closes) && era == Era::Legacy;
        let offered = self.offered().filter(|offered| offered.era() == era);
        let version = offered.unwrap_or(server.version);
        core.known_era = Some(KnownEra { version, discover_closes });
        record_shape(core, &server);
        core.agreed = Some(server.version);
        core.server = Some(server);
        core.encode_identity();
        // Open handshake requests were replaced: `server/discover` by `initialize`, or the reverse.
        for id in core.requests.engine() {
            core.give_up(id);
        }
        core.arm(Timer::Discovery, core.options.timeouts.discovery);
        Some(())
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
            core.timers.extend(timer, (core.now + wait).min(latest));
        }
    }

    /// The transport closed; `why` is the system's message.
    pub(super) fn on_closed(&mut self, core: &mut Core, why: Box<str>) -> Signals {
        self.last_error = Some(why);
        self.step(core, Input::TransportClosed)
    }

    /// Takes the response to `server/discover`.
    pub(super) fn on_discovered(
        &mut self,
        core: &mut Core,
        id: u64,
        response: Result<&RawValue, RequestError>,
    ) -> Signals {
        let mut answer = match response {
            Ok(result) => discovered(self.tried, &core.options, result),
            Err(error) => discover_error(self.tried, &core.options, &error),
        };
        if self.is_late(id) {
            answer.input = if answer.input == Input::ModernFound {
                Input::LateModern
            } else if matches!(answer.input, Input::VersionOffered | Input::ModernError) {
                Input::LateModernError
            } else {
                Input::LateOther
            };
        }
        self.on_answer(core, answer)
    }

    /// Whether the handshake does not wait for this `server/discover`: `initialize` was sent after it.
    fn is_late(&self, id: u64) -> bool {
        let awaits_first = self.state == State { phase: Phase::DiscoveringLast, basis: Basis::Beside };
        !awaits_first && self.request.is_none_or(|(request, _)| request != id)
    }

    /// Whether a refusal of `initialize` by this error ends the handshake: there is nothing else to offer.
    pub(super) fn is_last_offer(&self, core: &Core, error: &RequestError) -> bool {
        let data = error.server().and_then(|error| error.data.as_deref());
        let versions = data.and_then(|data| Json::from(data).member("supported"));
        let named = versions.map(|versions| common(self.tried, &core.options, versions)).unwrap_or_default();
        let older = self.tried.next(self.offered());
        let input = handshake::next_offer(about(error), older.is_some(), core.is_bare);
        let is_offered = named.legacy.is_some() || named.modern.is_some() || input != Input::Refused;
        !is_offered && handshake::step::row(self.state, Input::Refused).next.phase == Phase::Failed
    }

    /// Takes the response to `initialize`.
    pub(super) fn on_initialized(&mut self, core: &mut Core, response: Result<&RawValue, RequestError>) -> Signals {
        match response {
            Ok(result) => {
                let answer = initialized(&core.options, result);
                self.on_answer(core, answer)
            }
            Err(error) => {
                self.last_error = Some(excerpt(&format!("{error}")).into());
                let data = error.server().and_then(|error| error.data.as_deref());
                let versions = data.and_then(|data| Json::from(data).member("supported"));
                let common = versions.map(|versions| common(self.tried, &core.options, versions)).unwrap_or_default();
                let is_modern = error.code() == Some(error_code::UNSUPPORTED_PROTOCOL_VERSION);
                match common.legacy {
                    Some(_) => self.offer_next(core, About::VersionNamed, common.legacy),
                    None if is_modern || common.modern.is_some() => self.step(core, Input::RefusedByModern),
                    None => self.offer_next(core, about(&error), None),
                }
            }
        }
    }

    /// The response to `initialize` is not JSON.
    pub(super) fn on_unreadable(&mut self, core: &mut Core, why: &str) -> Signals {
        self.last_error = Some(why.into());
        self.step(core, Input::Malformed)
    }

    /// `server/discover` or `initialize` was refused with an HTTP status.
    pub(super) fn on_status(
        &mut self,
        core: &mut Core,
        (id, purpose): (u64, &Purpose),
        status: u16,
        error: Box<str>,
    ) -> Signals {
        let discovers = matches!(purpose, Purpose::Discover(_));
        if discovers && self.is_late(id) {
            return self.step(core, Input::LateOther);
        }
        self.last_error = Some(error);
        match status {
            500.. if discovers => self.step(core, Input::ServerFault),
            _ if discovers => self.step(core, Input::NotModern),
            200..300 => self.step(core, Input::Malformed),
            // A server that does not know the version answers so.
            400 | 404 | 405 => self.offer_next(core, About::Version, None),
            _ => self.offer_next(core, About::Other, None),
        }
    }

    /// The exchange of `server/discover` or `initialize` broke.
    pub(super) fn on_broken(&mut self, core: &mut Core, (id, purpose): (u64, &Purpose), why: &str) -> Signals {
        if let Purpose::Discover(version) = *purpose {
            if self.is_late(id) {
                return self.step(core, Input::LateBroke);
            }
            if self.broken < RESENDS {
                self.broken = self.broken.saturating_add(1);
                self.send_discover(core, version);
                self.renew_discover(core);
                return Signals::NONE;
            }
        }
        let message = format!("{} broke the exchange of the handshake: {why}", core.server_name());
        Signals::lost(FailureKind::Closed, message, link::Transport::Closed)
    }

    /// `initialize` was refused. `named`: a version that the server named.
    fn offer_next(&mut self, core: &mut Core, about: About, named: Option<ProtocolVersion>) -> Signals {
        let older = named.or(self.tried.next(self.offered()));
        let input = handshake::next_offer(about, older.is_some(), core.is_bare);
        core.is_bare |= input == Input::CapabilitiesRefused;
        let version = if input == Input::CapabilitiesRefused { self.offered() } else { older };
        let version = version.filter(|_| input != Input::Refused);
        self.on_answer(core, Answer { input, error: None, version, server: None })
    }

    /// Records a deviation that the table found for this input.
    fn record(&self, core: &mut Core, kind: QuirkKind, answer: &Answer) {
        let error = self.last_error.as_deref().unwrap_or("");
        let offered = self.offered().map_or("", ProtocolVersion::as_str);
        let input = answer.input;
        let detail = if input == Input::ServerFault {
            format!("{error}; `initialize` follows, and `server/discover` again the next time")
        } else if input == Input::DiscoverTimeout {
            format!("no answer within {:?}; `initialize` follows", shown(core.now.since(self.discover_sent_at)))
        } else if matches!(input, Input::LateModern | Input::LateModernError | Input::LateOther) {
            "the answer came after `initialize` had been sent".into()
        } else if input == Input::VersionRefused {
            format!("{offered} was refused ({error}); another version follows")
        } else if input == Input::CapabilitiesRefused {
            format!("the client's capabilities were refused ({error}); again without them")
        } else {
            let version = answer.server.as_ref().map_or("", |server| server.version.as_str());
            format!("{error}; taken for {version}")
        };
        let discovers = matches!(
            input,
            Input::ServerFault | Input::DiscoverTimeout | Input::LateModern | Input::LateModernError | Input::LateOther
        );
        let method = if discovers { method::DISCOVER } else { method::INITIALIZE };
        core.quirk(kind, None, Some(method), detail);
    }

    fn fail(&self, core: &Core, failure: Failure) -> Signals {
        let server = core.server_name();
        let error = self.last_error.as_deref().unwrap_or("it did not say why");
        let offered = self.offered().map_or("no version", ProtocolVersion::as_str);
        let asked = match self.offered().map(ProtocolVersion::era) {
            Some(Era::Modern) => method::DISCOVER,
            Some(Era::Legacy) | None => method::INITIALIZE,
        };
        let (kind, message) = match failure {
            Failure::Timeout => {
                let waited = shown(core.now.since(self.opened_at));
                (FailureKind::HandshakeTimeout, format!("{server} did not answer `{asked}` within {waited:?}"))
            }
            Failure::Rejected => {
                (FailureKind::HandshakeRejected, format!("{server} refused `{asked}` (offered {offered}): {error}"))
            }
            Failure::EraExcluded => (
                FailureKind::HandshakeRejected,
                format!("{server} speaks only an era that the options exclude (`{asked}` offered {offered}): {error}"),
            ),
            Failure::UnsupportedVersion => (
                FailureKind::UnsupportedVersion,
                format!(
                    "{server} and this client have no protocol version in common (`{asked}` offered {offered}): {error}"
                ),
            ),
            Failure::Protocol => {
                (FailureKind::Protocol, format!("{server} sent an invalid response to `{asked}`: {error}"))
            }
            Failure::Closed => {
                (FailureKind::Closed, format!("{server} closed the connection during the handshake: {error}"))
            }
        };
        let transport = if failure == Failure::Closed { link::Transport::Closed } else { link::Transport::Open };
        Signals::lost(kind, message, transport)
    }
}

/// Whether `initialize` may follow on another connection, if a modern server answers no list.
pub(super) fn may_fall_back(core: &Core) -> bool {
    core.stage() == Stage::Discovery
        && core.is_modern()
        && matches!(core.options.eras, Eras::Auto | Eras::LegacyFirst)
        && !core.was_ready
        && matches!(core.fall_back, FallBack::Possible)
}

/// The server answered no list: `initialize` follows on another connection, once.
pub(super) fn fall_back(core: &mut Core, within: Duration) {
    let message = format!("{} answered `server/discover`, and no list within {within:?}", core.server_name());
    let detail = format!("no list was answered within {within:?}; `initialize` follows on a new connection");
    core.quirk(QuirkKind::ModernSilent, None, Some(method::DISCOVER), detail);
    core.known_era = Some(KnownEra::new(ProtocolVersion::NEWEST_LEGACY));
    core.fall_back =
        FallBack::Tried(Box::new(ClientFailure { kind: FailureKind::ListFailed, message: message.into() }));
}

/// If the connection after the fall-back is lost too, the failure before it is reported: it says more.
pub(super) fn report_first_failure(core: &mut Core, loss: &mut Loss) {
    let FallBack::Tried(first) = &mut core.fall_back else { return };
    if !matches!(loss.kind, FailureKind::Unauthorized | FailureKind::Forbidden) {
        core.known_era = None;
        (loss.kind, loss.message) = (first.kind, core::mem::take(&mut first.message));
    }
    core.fall_back = FallBack::Over;
}

/// Takes the response to a request. Returns the loss of the connection if it shows that the server changed its era or
/// version, as a server behind a gateway may.
pub(super) fn detect_era_change(core: &mut Core, id: u64, via: Via, error: Option<&ErrorObject>) -> Signals {
    if !core.is_ready() {
        return Signals::NONE;
    }
    let before = core.outdated_responses;
    core.outdated_responses = match error.filter(|_| via != Via::HttpSuccess).map(|error| shown_by(core, id, error)) {
        Some(Shown::OtherEra) => RENEWED,
        Some(Shown::MethodNotFound) => RENEWED.min(before.saturating_add(1)),
        Some(Shown::Nothing) | None => 0,
    };
    // There is one new handshake until a response shows that it helped.
    let Some(error) = error.filter(|_| core.outdated_responses == RENEWED && before < RENEWED) else {
        return Signals::NONE;
    };
    let error = excerpt(&format!("{error}")).into_owned();
    let detail = format!("a response that shows another era or version ({error}); a new handshake follows");
    core.quirk(QuirkKind::EraChanged, None, None, detail);
    core.known_era = None;
    let message = format!("{} changed its era or version: {error}", core.server_name());
    Signals::lost(FailureKind::Protocol, message, link::Transport::Outdated)
}

/// How the message came whose response shows an era.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Via {
    Pipe,
    HttpSuccess,
    HttpError,
}

/// What an error shows of the server's era.
enum Shown {
    Nothing,
    /// The server does not know a method that its capabilities imply.
    MethodNotFound,
    OtherEra,
}

fn shown_by(core: &Core, id: u64, error: &ErrorObject) -> Shown {
    match error.code {
        error_code::UNSUPPORTED_PROTOCOL_VERSION => Shown::OtherEra,
        error_code::HEADER_MISMATCH | error_code::MISSING_REQUIRED_CLIENT_CAPABILITY if !core.is_modern() => {
            Shown::OtherEra
        }
        // -32601 has other causes, too: a client without reconnects keeps its connection.
        error_code::METHOD_NOT_FOUND if core.options.reconnect.is_some() && is_implied(core, id) => {
            Shown::MethodNotFound
        }
        _ => Shown::Nothing,
    }
}

/// Whether the server's capabilities imply that it has the method of the request.
fn is_implied(core: &Core, id: u64) -> bool {
    let needed = |purpose: &Purpose| {
        if let Purpose::List { family, .. } = purpose {
            return Some(family.capability());
        }
        // A server answers so for a tool that it does not know, or passes on what the one behind it answers.
        let call = purpose.call().filter(|_| !purpose.is_tool_call())?;
        Capability::needed_for(&call.request.method)
    };
    let capability = core.requests.get(id).and_then(|open| needed(&open.purpose));
    let server = core.server.as_ref();
    capability.is_some_and(|capability| server.is_some_and(|server| server.has(capability) == Some(true)))
}

/// Maximum number of versions that are read from a server's list.
const VERSIONS: usize = 64;

/// What a response says.
struct Answer {
    input: Input,
    error: Option<Box<str>>,
    /// The version to offer next.
    version: Option<ProtocolVersion>,
    /// The server's description.
    server: Option<Box<Server>>,
}

impl Answer {
    fn new(input: Input, error: impl Into<Box<str>>) -> Self {
        Self { input, error: Some(error.into()), version: None, server: None }
    }
}

/// The versions that both sides support and that were not tried: the newest of each era.
#[derive(Clone, Copy, Debug, Default)]
struct Common {
    legacy: Option<ProtocolVersion>,
    modern: Option<ProtocolVersion>,
}

fn discovered(tried: Tried, options: &Options, result: &RawValue) -> Answer {
    let versions = Json::from(result).member("supportedVersions").filter(|versions| versions.first() == b'[');
    let Some(versions) = versions else {
        return Answer::new(Input::NotModern, "the result has no list of `supportedVersions`");
    };
    let common = common(tried, options, versions);
    if let Some(version) = common.modern {
        let server = Some(Box::new(Server::read(version, result)));
        return Answer { input: Input::ModernFound, error: None, version: None, server };
    }
    named(common, versions)
}

fn discover_error(tried: Tried, options: &Options, error: &RequestError) -> Answer {
    let text = excerpt(&format!("{error}")).into_owned();
    match error.code() {
        Some(error_code::UNSUPPORTED_PROTOCOL_VERSION) => {
            let data = error.server().and_then(|error| error.data.as_deref());
            let versions = data.and_then(|data| Json::from(data).member("supported"));
            let Some(versions) = versions else { return Answer::new(Input::NothingCommon, text) };
            let common = common(tried, options, versions);
            if common.modern.is_some() {
                return Answer { version: common.modern, ..Answer::new(Input::VersionOffered, text) };
            }
            named(common, versions)
        }
        Some(error_code::HEADER_MISMATCH | error_code::MISSING_REQUIRED_CLIENT_CAPABILITY) => {
            Answer::new(Input::ModernError, text)
        }
        _ => Answer::new(Input::NotModern, text),
    }
}

/// The versions in a server's list that the client supports and has not tried.
fn common(tried: Tried, options: &Options, versions: Json<'_>) -> Common {
    let mut common = Common::default();
    for version in versions.elements(VERSIONS).into_iter().flat_map(|elements| elements.kept) {
        let Some(Ok(version)) = version.as_string().map(|version| version.parse::<ProtocolVersion>()) else {
            continue;
        };
        match version.era() {
            Era::Legacy if tried.has(version) => {}
            Era::Legacy => common.legacy = common.legacy.max(Some(version)),
            Era::Modern if options.eras.pinned().is_some_and(|pinned| pinned != version) => {}
            Era::Modern => common.modern = common.modern.max(Some(version)),
        }
    }
    common
}

/// What a refusal of `initialize` that names no version is about.
fn about(error: &RequestError) -> About {
    let message = match error {
        RequestError::Server(error) => error.message.to_ascii_lowercase(),
        RequestError::Invalid(message) => message.to_ascii_lowercase(),
        RequestError::Status { .. } | RequestError::Task(_) => String::new(),
    };
    let invalid = error.code() == Some(error_code::INVALID_PARAMS);
    let capabilities = ["capabilit", "elicitation", "sampling", "roots", "extensions", "experimental"]
        .iter()
        .any(|word| message.contains(word));
    let version = message.contains("version");
    match (version, capabilities, invalid) {
        (true, true, _) => About::VersionAndCapabilities,
        (true, false, _) => About::Version,
        (false, _, true) => About::Params,
        (false, true, false) => About::Capabilities,
        (false, false, false) => About::Other,
    }
}

fn named(common: Common, versions: Json<'_>) -> Answer {
    let text = format!("it speaks {}", excerpt(versions.text()));
    let input = if common.legacy.is_some() { Input::LegacyFound } else { Input::NothingCommon };
    Answer { version: common.legacy, ..Answer::new(input, text) }
}

fn initialized(options: &Options, result: &RawValue) -> Answer {
    let Some(version) = Json::from(result).member("protocolVersion").and_then(Json::as_string) else {
        return Answer::new(Input::Malformed, format!("no `protocolVersion` in {}", excerpt(result.get())));
    };
    let below = |known: &ProtocolVersion| known.era() == Era::Legacy && known.as_str() < &*version;
    let known = version.parse::<ProtocolVersion>().ok();
    let (input, agreed) = match known.map(ProtocolVersion::era) {
        Some(Era::Legacy) => (Input::Accepted, known),
        Some(Era::Modern) => (Input::RefusedByModern, None),
        None => match ProtocolVersion::ALL.iter().copied().rev().find(below) {
            Some(nearest) if options.tolerance.nearest_version => (Input::AcceptedNearest, Some(nearest)),
            _ => (Input::VersionUnknown, None),
        },
    };
    let server = agreed.map(|agreed| Box::new(Server::read(agreed, result)));
    let error = || format!("it answered with version {}", excerpt(&version)).into();
    Answer { input, error: (input != Input::Accepted).then(error), version: None, server }
}

/// The versions that `initialize` offered, as bits.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
struct Tried(u8);

impl Tried {
    const fn add(&mut self, version: ProtocolVersion) {
        self.0 |= bit(version);
    }

    const fn has(self, version: ProtocolVersion) -> bool {
        self.0 & bit(version) != 0
    }

    /// The newest legacy version that is older than the offered one and was not tried.
    fn next(self, offered: Option<ProtocolVersion>) -> Option<ProtocolVersion> {
        let offered = offered.unwrap_or(ProtocolVersion::NEWEST_MODERN);
        let older = ProtocolVersion::ALL.iter().copied().rev().filter(|version| *version < offered);
        older.filter(|version| version.era() == Era::Legacy).find(|version| !self.has(*version))
    }
}

const fn bit(version: ProtocolVersion) -> u8 {
    1 << version as u8
}

/// Records deviations in the shape of a server's description.
fn record_shape(core: &mut Core, server: &Server) {
    let method = match server.era() {
        Era::Legacy => method::INITIALIZE,
        Era::Modern => method::DISCOVER,
    };
    if server.declared.is_none() {
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
        core.quirk(QuirkKind::InitializeShape, None, Some(method), "`instructions` is not a string");
    }
    let mut odd = String::new();
    if let Some(capabilities) = server.capabilities() {
        capabilities.odd_shapes(|name, value| {
            let separator = if odd.is_empty() { "" } else { ", " };
            odd.push_str(&format!("{separator}`{name}` is {}", excerpt(value)));
        });
    }
    if !odd.is_empty() {
        core.quirk(QuirkKind::CapabilityShape, None, Some(method), format!("{odd}, not an object"));
    }
}
