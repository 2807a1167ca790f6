use alloc::borrow::{Cow, ToOwned};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use serde_json::value::RawValue;

use super::discovery::ListFailure;
use super::ledger::{Match, Purpose};
use super::{Event, LogLevel, Server, Session};
use crate::jsonrpc::{self, Body, Decoded, Deviations, ErrorObject, Json, Message, Noise, ResponseId};
use crate::machine::handshake::Input;
use crate::machine::{QuirkKind, link};
use crate::protocol::{Era, Family, ProtocolVersion, error_code, method};

/// How much of a server's words is kept, in characters.
const EXCERPT: usize = 200;

/// Bytes of notifications that wait for the session to be ready.
const HELD_BYTES: usize = 1 << 20;

/// Versions that are looked at in a server's list of them.
const VERSIONS: usize = 64;

/// The beginning of a text, short enough to be kept.
pub(super) fn excerpt(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(EXCERPT) {
        Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or(""))),
        None => Cow::Borrowed(text),
    }
}

/// The notification that says that a family's list changed.
pub(super) const fn list_changed_method(family: Family) -> &'static str {
    match family {
        Family::Tools => method::TOOLS_LIST_CHANGED,
        Family::Prompts => method::PROMPTS_LIST_CHANGED,
        Family::Resources | Family::ResourceTemplates => method::RESOURCES_LIST_CHANGED,
    }
}

impl Session {
    pub(super) fn receive(&mut self, bytes: &[u8]) {
        if !matches!(self.link, link::State::Connecting | link::State::Ready) {
            return;
        }
        self.liveness.heard = self.now;
        match jsonrpc::decode(bytes, self.options.limits.message) {
            Ok(Decoded::Blank) => {}
            Ok(Decoded::One(message)) => self.message(message),
            Ok(Decoded::Batch(messages)) => {
                if self.version() != Some(ProtocolVersion::V2025_03_26) {
                    let detail = format!("{} messages in one array, which only 2025-03-26 allows", messages.len());
                    self.quirk(QuirkKind::Batch, None, None, detail);
                }
                for message in messages {
                    match message {
                        Ok(message) => self.message(message),
                        Err(noise) => self.noise(&noise, bytes),
                    }
                }
            }
            Err(noise) => self.noise(&noise, bytes),
        }
    }

    fn noise(&mut self, noise: &Noise, bytes: &[u8]) {
        let start = bytes.get(..bytes.len().min(EXCERPT.saturating_mul(4))).unwrap_or(bytes);
        let text = String::from_utf8_lossy(start);
        let detail = format!("{noise}: {}", excerpt(text.trim()));
        self.quirk(QuirkKind::Noise, None, None, detail);
    }

    fn message(&mut self, message: Message<'_>) {
        // What ended the connection in mid-batch ended the rest of the batch, too.
        if !matches!(self.link, link::State::Connecting | link::State::Ready) {
            return;
        }
        let Message { body, deviations } = message;
        match body {
            Body::Request { id, method, params } => {
                self.deviations(deviations, &method);
                if self.is_undelivered_full() {
                    self.stats.left_out = self.stats.left_out.saturating_add(1);
                } else {
                    self.asked(id, method, params);
                }
            }
            Body::Notification { method, params } => {
                self.deviations(deviations, &method);
                self.notification(&method, params);
            }
            Body::Result { id, result } => self.response(id, deviations, Ok(result)),
            Body::Error { id, error } => self.response(id, deviations, Err(error)),
        }
    }

    fn deviations(&mut self, deviations: Deviations, method: &str) {
        let found = [
            (deviations.version, QuirkKind::JsonrpcVersion, "`jsonrpc` is not \"2.0\""),
            (deviations.error_null, QuirkKind::ErrorNull, "a null member beside the answer"),
            (deviations.result_and_error, QuirkKind::ResultAndError, "a result and an error; the error counts"),
            (deviations.id_null, QuirkKind::IdNull, "a notification with `id: null`"),
        ];
        for (_, kind, detail) in found.into_iter().filter(|(found, _, _)| *found) {
            self.quirk(kind, None, Some(method), detail);
        }
    }

    fn notification(&mut self, method: &str, params: Option<&RawValue>) {
        let families: &[Family] = match method {
            method::CANCELLED => return self.cancelled(params),
            method::PROGRESS if self.progressed(params) => return,
            method::ACKNOWLEDGED if self.handshake.is_over() => return self.acknowledged(params),
            method::TOOLS_LIST_CHANGED => &[Family::Tools],
            method::PROMPTS_LIST_CHANGED => &[Family::Prompts],
            method::RESOURCES_LIST_CHANGED => &[Family::Resources, Family::ResourceTemplates],
            _ => &[],
        };
        if self.handshake.is_over() && !families.is_empty() {
            for family in families {
                self.list_changed(*family);
            }
        } else if self.is_ready() {
            self.tell(method, params);
        } else {
            self.hold(method, params);
        }
    }

    /// Whether progress was told of a request that asked for it.
    fn progressed(&mut self, params: Option<&RawValue>) -> bool {
        let Some(params) = params else { return false };
        let Some(token) = Json::from(params).member("progressToken") else { return false };
        let Ok(token) = token.text().trim_matches('"').parse() else { return false };
        let interval = self.options.timeouts.progress_interval;
        let Some((request, due)) = self.requests.progress(token, self.now, interval) else { return false };
        if due && !self.is_full() {
            self.event(Event::Progress { request, params: params.to_owned() });
        } else {
            self.stats.left_out = self.stats.left_out.saturating_add(1);
        }
        true
    }

    fn tell(&mut self, method: &str, params: Option<&RawValue>) {
        if self.is_full() {
            self.stats.left_out = self.stats.left_out.saturating_add(1);
            return;
        }
        let event = match method {
            method::RESOURCE_UPDATED => resource_updated(params),
            method::MESSAGE => log_message(params),
            _ => None,
        };
        let other = || Event::Notification { method: method.into(), params: params.map(ToOwned::to_owned) };
        self.event(event.unwrap_or_else(other));
    }

    fn hold(&mut self, method: &str, params: Option<&RawValue>) {
        let size = method.len().saturating_add(params.map_or(0, |params| params.get().len()));
        let held = self.held.get_or_insert_default();
        let bytes = held.bytes.saturating_add(size);
        if held.notifications.len() >= self.options.limits.held || bytes > HELD_BYTES {
            self.stats.left_out = self.stats.left_out.saturating_add(1);
            return;
        }
        held.bytes = bytes;
        held.notifications.push((method.into(), params.map(ToOwned::to_owned)));
    }

    /// The session is ready: what waited for that is handled now, in order.
    pub(super) fn release_held(&mut self) {
        for (method, params) in self.held.take().unwrap_or_default().notifications {
            self.notification(&method, params.as_deref());
        }
    }

    fn response(&mut self, id: ResponseId, deviations: Deviations, answer: Result<&RawValue, ErrorObject>) {
        let (id, quirk) =
            match self.requests.match_response(id, answer.is_err(), self.exchange.map(core::num::NonZero::get)) {
                Match::Id(id) => (id, None),
                Match::Loose(id) => (id, Some((QuirkKind::IdType, "the id came back in another type"))),
                Match::Only(id) => {
                    (id, Some((QuirkKind::IdNull, "an error without an id of ours; the only request was meant")))
                }
                Match::Late => {
                    self.stats.late_answers = self.stats.late_answers.saturating_add(1);
                    return;
                }
                Match::NoId => {
                    let words = answer.err().map(|error| format!("an error without an id of ours: {error}"));
                    return self.quirk(QuirkKind::IdNull, None, None, excerpt(&words.unwrap_or_default()));
                }
                Match::Unknown => {
                    return self.quirk(QuirkKind::UnknownId, None, None, "an answer to no open request; ignored");
                }
            };
        let Some(open) = self.requests.get(id) else { return };
        let method: Cow<'static, str> = match &open.purpose {
            Purpose::Discover => Cow::Borrowed(method::DISCOVER),
            Purpose::Initialize => Cow::Borrowed(method::INITIALIZE),
            Purpose::List(family) => Cow::Borrowed(family.list_method()),
            Purpose::SetLevel => Cow::Borrowed(method::SET_LEVEL),
            Purpose::Keepalive(method) => Cow::Borrowed(*method),
            Purpose::Listen { .. } => Cow::Borrowed(method::LISTEN),
            Purpose::Subscribe(_) => Cow::Borrowed(method::SUBSCRIBE),
            Purpose::Unsubscribe(_) => Cow::Borrowed(method::UNSUBSCRIBE),
            Purpose::Call(call) => call.request.method.clone(),
        };
        self.deviations(deviations, &method);
        if let Some((kind, detail)) = quirk {
            self.quirk(kind, None, Some(&method), detail);
        }
        self.answered(id, answer, true);
    }

    /// Takes the answer to a request that is open; `coded` tells whether an error is the server's own.
    pub(super) fn answered(&mut self, id: u64, answer: Result<&RawValue, ErrorObject>, coded: bool) {
        let Some(open) = self.requests.get(id) else { return };
        if matches!(open.purpose, Purpose::Call(_)) {
            self.proven = true;
            self.expiries = 0;
            return self.call_answered(id, answer);
        }
        let Some(open) = self.requests.remove(id) else { return };
        match open.purpose {
            Purpose::Discover => self.probe_answered(id, answer),
            Purpose::Initialize => self.initialize_answered(id, answer),
            Purpose::List(family) => match answer {
                Ok(result) => self.listed(family, result),
                Err(error) if coded => self.list_failed(family, ListFailure::Server(&error)),
                Err(error) => self.list_failed(family, ListFailure::Engine((*error.message).into())),
            },
            Purpose::SetLevel => {
                if let Err(error) = answer {
                    let detail = format!("declared, yet answered with {error}; the level is not set");
                    self.quirk(QuirkKind::MethodNotFound, None, Some(method::SET_LEVEL), detail);
                }
            }
            Purpose::Keepalive(_) => self.probe_returned(answer.err().as_ref()),
            Purpose::Listen { .. } => self.stream_ended(id, answer.err().as_ref()),
            Purpose::Subscribe(uri) | Purpose::Unsubscribe(uri) => {
                let words = answer.err().map(|error| format!("{error}"));
                self.subscription_answered(&uri, words.as_deref());
            }
            Purpose::Call(_) => {}
        }
    }

    fn probe_answered(&mut self, id: u64, answer: Result<&RawValue, ErrorObject>) {
        let late = self.handshake.request != Some(id);
        let named = self.handshake.named;
        let input = match answer {
            Ok(result) => self.classify_discovered(result),
            Err(error) => self.classify_probe_error(&error),
        };
        if late {
            // What a late answer names is not what the `initialize` under way was told.
            self.handshake.named = named;
        }
        self.handshake_step(match (late, input) {
            (false, input) => input,
            (true, Input::ModernFound) => Input::LateModern,
            (true, Input::VersionOffered | Input::ModernError) => Input::LateModernError,
            (true, _) => Input::LateOther,
        });
    }

    fn classify_discovered(&mut self, result: &RawValue) -> Input {
        let versions = Json::from(result).member("supportedVersions").filter(|versions| versions.first() == b'[');
        let Some(versions) = versions else {
            self.handshake.words = Some("the result has no list of `supportedVersions`".into());
            return Input::NotModern;
        };
        let common = self.common(versions);
        if let Some(version) = common.modern {
            self.handshake.candidate = Some(Box::new(Server::read(version, result)));
            return Input::ModernFound;
        }
        self.named(common, versions)
    }

    fn classify_probe_error(&mut self, error: &ErrorObject) -> Input {
        self.handshake.words = Some(excerpt(&format!("{error}")).into());
        match error.code {
            error_code::UNSUPPORTED_PROTOCOL_VERSION => {
                let versions = error.data.as_deref().and_then(|data| Json::from(data).member("supported"));
                let Some(versions) = versions else { return Input::NothingCommon };
                let common = self.common(versions);
                if common.modern.is_some() {
                    self.handshake.named = common.modern;
                    return Input::VersionOffered;
                }
                self.named(common, versions)
            }
            error_code::HEADER_MISMATCH | error_code::MISSING_REQUIRED_CLIENT_CAPABILITY => Input::ModernError,
            _ => Input::NotModern,
        }
    }

    fn named(&mut self, common: Common, versions: Json<'_>) -> Input {
        let words = format!("it speaks {}", excerpt(versions.text()));
        self.handshake.words = Some(words.into());
        self.handshake.named = common.legacy;
        if common.legacy.is_some() { Input::LegacyFound } else { Input::NothingCommon }
    }

    /// The versions in a server's list that this side speaks, too, and has not tried: the newest of each era.
    fn common(&self, versions: Json<'_>) -> Common {
        let mut common = Common::default();
        for version in versions.elements(VERSIONS).into_iter().flat_map(|elements| elements.kept) {
            let Some(Ok(version)) = version.as_string().map(|version| version.parse::<ProtocolVersion>()) else {
                continue;
            };
            match version.era() {
                Era::Legacy if self.handshake.was_tried(version) => {}
                Era::Legacy => common.legacy = common.legacy.max(Some(version)),
                Era::Modern if self.options.eras.pinned().is_some_and(|pinned| pinned != version) => {}
                Era::Modern => common.modern = common.modern.max(Some(version)),
            }
        }
        common
    }

    fn initialize_answered(&mut self, id: u64, answer: Result<&RawValue, ErrorObject>) {
        if self.handshake.request != Some(id) {
            return;
        }
        let input = match answer {
            Ok(result) => self.classify_initialized(result),
            Err(error) => self.classify_initialize_error(&error),
        };
        self.handshake_step(input);
    }

    fn classify_initialized(&mut self, result: &RawValue) -> Input {
        let Some(version) = Json::from(result).member("protocolVersion").and_then(Json::as_string) else {
            self.handshake.words = Some(format!("no `protocolVersion` in {}", excerpt(result.get())).into());
            return Input::Malformed;
        };
        self.handshake.words = Some(format!("it answered with version {}", excerpt(&version)).into());
        let version = match version.parse::<ProtocolVersion>() {
            Ok(version) if version.era() == Era::Modern => return Input::RefusedByModern,
            Ok(version) => version,
            Err(_) => {
                let below = |known: &ProtocolVersion| known.era() == Era::Legacy && known.as_str() < &*version;
                let nearest = ProtocolVersion::ALL.iter().copied().rev().find(below);
                let Some(nearest) = nearest.filter(|_| self.options.tolerance.nearest_version) else {
                    return Input::VersionUnknown;
                };
                let detail = format!("answered with {}; taken for {nearest}", excerpt(&version));
                self.quirk(QuirkKind::VersionUnknown, None, Some(method::INITIALIZE), detail);
                nearest
            }
        };
        self.handshake.candidate = Some(Box::new(Server::read(version, result)));
        Input::Accepted
    }

    fn classify_initialize_error(&mut self, error: &ErrorObject) -> Input {
        self.handshake.words = Some(excerpt(&format!("{error}")).into());
        let versions = error.data.as_deref().and_then(|data| Json::from(data).member("supported"));
        let common = versions.map(|versions| self.common(versions)).unwrap_or_default();
        if common.legacy.is_some() {
            self.handshake.named = common.legacy;
            return Input::VersionRefused;
        }
        if common.modern.is_some() || error.code == error_code::UNSUPPORTED_PROTOCOL_VERSION {
            return Input::RefusedByModern;
        }
        let message = error.message.to_ascii_lowercase();
        let older = self.handshake.older().is_some();
        let bare = self.handshake.bare || self.options.capabilities.is_empty();
        let invalid = error.code == error_code::INVALID_PARAMS;
        let names_capability = ["capabilit", "elicitation", "sampling", "roots", "extensions", "experimental"]
            .iter()
            .any(|word| message.contains(word));
        let names_version = message.contains("version");
        if names_version && older {
            Input::VersionRefused
        } else if !bare && (names_capability || (invalid && !names_version)) {
            Input::CapabilitiesRefused
        } else if invalid && older {
            Input::VersionRefused
        } else {
            Input::Refused
        }
    }
}

fn resource_updated(params: Option<&RawValue>) -> Option<Event> {
    let uri = Json::from(params?).member("uri").and_then(Json::as_string)?;
    Some(Event::ResourceUpdated { uri: (&*uri).into() })
}

fn log_message(params: Option<&RawValue>) -> Option<Event> {
    let (mut level, mut logger, mut data) = (None, None, None);
    Json::from(params?).members(|name, value| match name {
        "level" => level = value.as_string().and_then(|level| LogLevel::read(&level)),
        "logger" => logger = value.as_string(),
        "data" => data = Some(value),
        _ => {}
    });
    Some(Event::Log { level: level?, logger: logger.map(|logger| (&*logger).into()), data: data?.to_raw() })
}

/// The versions that both sides speak.
#[derive(Clone, Copy, Debug, Default)]
struct Common {
    legacy: Option<ProtocolVersion>,
    modern: Option<ProtocolVersion>,
}
