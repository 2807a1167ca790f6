//! Classifies the responses of a handshake; nothing is changed.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use serde_json::value::RawValue;

use super::super::{Options, RequestError, Server};
use super::tried::Tried;
use crate::jsonrpc::Json;
use crate::machine::handshake::{self, Input, Nearest, Version};
use crate::machine::offer;
use crate::protocol::{Era, ProtocolVersion, error_code};
use crate::text::excerpt;

/// Maximum number of versions that are read from a server's list.
const VERSIONS: usize = 64;

/// A classified response; nothing is changed yet.
pub(super) struct Answer {
    pub(super) input: Input,
    pub(super) words: Option<Box<str>>,
    pub(super) named: Option<ProtocolVersion>,
    pub(super) candidate: Option<Box<Server>>,
}

impl Answer {
    fn new(input: Input, words: impl Into<Box<str>>) -> Self {
        Self { input, words: Some(words.into()), named: None, candidate: None }
    }
}

/// The versions that both sides support and that were not tried: the newest of each era.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Common {
    pub(super) legacy: Option<ProtocolVersion>,
    pub(super) modern: Option<ProtocolVersion>,
}

pub(super) fn discovered(tried: Tried, options: &Options, result: &RawValue) -> Answer {
    let versions = Json::from(result).member("supportedVersions").filter(|versions| versions.first() == b'[');
    let Some(versions) = versions else {
        return Answer::new(Input::NotModern, "the result has no list of `supportedVersions`");
    };
    let common = common(tried, options, versions);
    if let Some(version) = common.modern {
        let candidate = Some(Box::new(Server::read(version, result)));
        return Answer { input: Input::ModernFound, words: None, named: None, candidate };
    }
    named(common, versions)
}

pub(super) fn discover_error(tried: Tried, options: &Options, error: &RequestError) -> Answer {
    let words = excerpt(&format!("{error}")).into_owned();
    match error.code() {
        Some(error_code::UNSUPPORTED_PROTOCOL_VERSION) => {
            let data = error.server().and_then(|error| error.data.as_deref());
            let versions = data.and_then(|data| Json::from(data).member("supported"));
            let Some(versions) = versions else { return Answer::new(Input::NothingCommon, words) };
            let common = common(tried, options, versions);
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
pub(super) fn common(tried: Tried, options: &Options, versions: Json<'_>) -> Common {
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

/// What a refusal of `initialize` means; `older`: there is a version to offer next.
pub(super) fn refusal(error: &RequestError, common: Common, older: bool) -> Refusal {
    if common.legacy.is_some() {
        return Refusal::Offer(offer::Input::VersionNamed);
    }
    if common.modern.is_some() || error.code() == Some(error_code::UNSUPPORTED_PROTOCOL_VERSION) {
        return Refusal::ByModern;
    }
    let message = error.server().map_or(String::new(), |error| error.message.to_ascii_lowercase());
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

/// What a refusal of `initialize` means.
pub(super) enum Refusal {
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

pub(super) fn initialized(options: &Options, result: &RawValue) -> Answer {
    let Some(version) = Json::from(result).member("protocolVersion").and_then(Json::as_string) else {
        return Answer::new(Input::Malformed, format!("no `protocolVersion` in {}", excerpt(result.get())));
    };
    let words = format!("it answered with version {}", excerpt(&version));
    let below = |known: &ProtocolVersion| known.era() == Era::Legacy && known.as_str() < &*version;
    let known = version.parse::<ProtocolVersion>().ok();
    let usable = known.or_else(|| ProtocolVersion::ALL.iter().copied().rev().find(below));
    let class = match (known.map(ProtocolVersion::era), usable) {
        (Some(Era::Legacy), _) => Version::Legacy,
        (Some(Era::Modern), _) => Version::Modern,
        (None, Some(_)) => Version::Later,
        (None, None) => Version::Unknown,
    };
    let nearest = if options.tolerance.nearest_version { Nearest::Taken } else { Nearest::Refused };
    let input = handshake::take_answered(class, nearest);
    let usable = usable.filter(|_| matches!(input, Input::Accepted | Input::AcceptedNearest));
    let candidate = usable.map(|version| Box::new(Server::read(version, result)));
    Answer { candidate, ..Answer::new(input, words) }
}
