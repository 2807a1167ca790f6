//! What is reported about a handshake: its failure, and deviations of the server.

use alloc::format;
use alloc::string::String;

use super::super::core::Core;
use super::super::signal::Signals;
use super::super::{FailureKind, Server};
use crate::Time;
use crate::jsonrpc::Json;
use crate::machine::handshake::{Failure, Input};
use crate::machine::{QuirkKind, loss};
use crate::protocol::{Era, ProtocolVersion, method};
use crate::text::excerpt;

/// What is known of a handshake.
pub(super) struct Told<'a> {
    /// The last message of the server or the system.
    pub(super) words: Option<&'a str>,
    /// The version in the last `server/discover` or `initialize`.
    pub(super) offered: Option<ProtocolVersion>,
    /// The version in the last response.
    pub(super) candidate: Option<ProtocolVersion>,
    pub(super) opened_at: Time,
    pub(super) discover_sent_at: Time,
}

impl Told<'_> {
    /// Records a deviation that the table found for this input.
    pub(super) fn record(&self, core: &mut Core, kind: QuirkKind, input: Input) {
        let words = self.words.unwrap_or("");
        let offered = self.offered.map_or("", ProtocolVersion::as_str);
        let (method, detail) = match input {
            Input::ServerFault => {
                (method::DISCOVER, format!("{words}; `initialize` follows, and `server/discover` again the next time"))
            }
            Input::DiscoverTimeout => {
                let waited = core.now.since(self.discover_sent_at);
                (method::DISCOVER, format!("no answer within {waited:?}; `initialize` follows"))
            }
            Input::LateModern | Input::LateModernError | Input::LateOther => {
                (method::DISCOVER, "the answer came after `initialize` had been sent".into())
            }
            Input::AcceptedNearest => {
                let taken = self.candidate.map_or("", ProtocolVersion::as_str);
                (method::INITIALIZE, format!("{words}; taken for {taken}"))
            }
            Input::VersionRefused => {
                (method::INITIALIZE, format!("{offered} was refused ({words}); another version follows"))
            }
            Input::CapabilitiesRefused => {
                (method::INITIALIZE, format!("the client's capabilities were refused ({words}); again without them"))
            }
            Input::StartDiscover
            | Input::StartDiscoverHttp
            | Input::StartModern
            | Input::StartLegacyFirst
            | Input::StartLegacy
            | Input::ModernFound
            | Input::LegacyFound
            | Input::VersionOffered
            | Input::NothingCommon
            | Input::ModernError
            | Input::NotModern
            | Input::Accepted
            | Input::VersionUnknown
            | Input::RefusedByModern
            | Input::Refused
            | Input::Malformed
            | Input::Deadline
            | Input::TransportClosed
            | Input::Lost => (method::INITIALIZE, String::from(words)),
        };
        core.quirk(kind, None, Some(method), detail);
    }

    pub(super) fn fail(&self, core: &Core, failure: Failure) -> Signals {
        let server = core.server_name();
        let words = self.words.unwrap_or("it did not say why");
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
                (FailureKind::Protocol, format!("{server} sent an invalid response to `{asked}`: {words}"))
            }
            Failure::Closed => {
                (FailureKind::Closed, format!("{server} closed the connection during the handshake: {words}"))
            }
        };
        let transport = if failure == Failure::Closed { loss::Transport::Closed } else { loss::Transport::Open };
        Signals::lost(kind, message, transport)
    }
}

/// Records deviations in the shape of a server's description.
pub(super) fn record_shape(core: &mut Core, server: &Server) {
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
