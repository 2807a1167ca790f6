//! A server's description, and component: how long it is fresh (specification 2026-07-28, "Caching").

use alloc::borrow::{Cow, ToOwned};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::core::Core;
use super::request::Purpose;
use crate::Time;
use crate::jsonrpc::Json;
use crate::machine::gate;
use crate::protocol::content::Icon;
use crate::protocol::{Capability, Declared, Era, Family, ProtocolVersion, ServerCapabilities};

/// A server's response to `initialize` or `server/discover`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Server {
    /// The negotiated version.
    pub version: ProtocolVersion,
    /// The server's name, for people. It is not verified.
    pub name: Option<Box<str>>,
    /// The server's version, for people.
    pub server_version: Option<Box<str>>,
    pub(super) declared: Option<Declared>,
    /// Instructions of the server's author to the model.
    pub instructions: Option<Box<str>>,
    /// The whole result, byte for byte.
    pub raw: Box<RawValue>,
}

/// Who a server is (`Implementation` in the schemas), for people. It is not verified.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerInfo<'a> {
    /// Name.
    pub name: Option<Cow<'a, str>>,
    /// Display name.
    pub title: Option<Cow<'a, str>>,
    /// Version.
    pub version: Option<Cow<'a, str>>,
    /// Description.
    pub description: Option<Cow<'a, str>>,
    /// The address of its website. Not checked.
    pub website_url: Option<Cow<'a, str>>,
    /// Icons.
    pub icons: Vec<Icon<'a>>,
    /// The description, byte for byte.
    pub raw: &'a RawValue,
}

/// The member of a result of `initialize` or `server/discover` that has the server's description of itself.
const fn place_of_info(version: ProtocolVersion) -> &'static str {
    match version.era() {
        Era::Legacy => "serverInfo",
        Era::Modern => "_meta",
    }
}

/// The server's description of itself in that member.
fn info(version: ProtocolVersion, place: Json<'_>) -> Option<Json<'_>> {
    match version.era() {
        Era::Legacy => Some(place),
        Era::Modern => place.member("io.modelcontextprotocol/serverInfo"),
    }
}

impl Server {
    /// The negotiated era.
    pub const fn era(&self) -> Era {
        self.version.era()
    }

    /// The server's capabilities; `None` if it sent none.
    pub fn capabilities(&self) -> Option<ServerCapabilities<'_>> {
        let json = Json::from(&*self.raw).member("capabilities");
        json.zip(self.declared).map(|(json, declared)| ServerCapabilities::new(json, declared))
    }

    /// Whether the family's capability is declared; `None` if the server sent no capabilities.
    pub fn declares(&self, family: Family) -> Option<bool> {
        self.has(family.capability())
    }

    /// The server's description of itself, if it sent one.
    pub fn info(&self) -> Option<ServerInfo<'_>> {
        let place = Json::from(&*self.raw).member(place_of_info(self.version))?;
        let info = info(self.version, place).filter(|info| info.is_object())?;
        let string = |name| info.member(name).and_then(Json::as_text);
        Some(ServerInfo {
            name: string("name"),
            title: string("title"),
            version: string("version"),
            description: string("description"),
            website_url: string("websiteUrl"),
            icons: Icon::all(info),
            raw: info.raw(),
        })
    }

    pub(super) fn has(&self, capability: Capability) -> Option<bool> {
        self.declared.map(|declared| declared.has(capability))
    }

    /// Reads the result of `initialize` or `server/discover`.
    pub(super) fn read(version: ProtocolVersion, raw: &RawValue) -> Self {
        let string = |value: Json<'_>| value.as_text().map(Box::from);
        let (mut about, mut declared, mut instructions) = (None, None, None);
        Json::from(raw).members(|name, value| match name {
            "capabilities" => declared = Declared::read(value),
            "instructions" => instructions = string(value),
            _ if name == place_of_info(version) => about = Some(value),
            _ => {}
        });
        let (mut name, mut server_version) = (None, None);
        if let Some(info) = about.and_then(|about| info(version, about)) {
            info.members(|member, value| match member {
                "name" => name = string(value),
                "version" => server_version = string(value),
                _ => {}
            });
        }
        Self { version, name, server_version, declared, instructions, raw: raw.to_owned() }
    }
}

#[cfg(feature = "snapshot")]
pub(super) mod form {
    //! The serialized form: the version and the raw result, from which the rest is read.

    use alloc::boxed::Box;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::value::RawValue;

    use super::Server;
    use crate::protocol::ProtocolVersion;

    #[expect(clippy::ref_option, reason = "serde passes the field")]
    pub(in super::super) fn serialize<S: Serializer>(
        server: &Option<Box<Server>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        server.as_ref().map(|server| (server.version, &server.raw)).serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Box<Server>>, D::Error> {
        let form: Option<(ProtocolVersion, Box<RawValue>)> = Option::deserialize(deserializer)?;
        Ok(form.map(|(version, raw)| Box::new(Server::read(version, &raw))))
    }
}

/// Maximum number of versions that are read from a server's list.
const VERSIONS: usize = 64;

/// How long the server's description is fresh, on this connection.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Freshness {
    /// Until when it is fresh, if it has a time to live.
    until: Option<Time>,
    /// `server/discover` was sent again.
    is_requested: bool,
}

impl Freshness {
    /// Of the result that the handshake received.
    pub(super) fn new(core: &Core) -> Self {
        let ttl = core.server.as_ref().and_then(|server| ttl(&server.raw));
        Self { until: ttl.map(|ttl| core.now + ttl), is_requested: false }
    }

    /// Until when the result is fresh; `None` if it has no time to live.
    pub(super) const fn until(&self) -> Option<Time> {
        self.until
    }

    /// A command used the server's capabilities.
    #[inline]
    pub(super) fn on_use(&mut self, core: &mut Core) {
        if !self.is_requested && self.until.is_some_and(|until| core.now >= until) && core.is_ready() {
            self.is_requested = true;
            let deadline = core.request_deadline();
            core.requests.insert(Purpose::Rediscover, Some(deadline));
        }
    }

    /// Takes the response to the request for a new result; `None` if there is no valid one.
    pub(super) fn on_response(&mut self, core: &mut Core, result: Option<&RawValue>) {
        let server = result.zip(core.version()).filter(|(result, version)| supports(result, *version));
        if let Some((result, version)) = server {
            core.server = Some(Box::new(Server::read(version, result)));
            *self = Self::new(core);
        } else {
            // The stale result stays in use on this connection: a server that fails is not asked with every command.
            *self = Self::default();
        }
    }
}

/// The time to live of a result, if it is above zero.
fn ttl(result: &RawValue) -> Option<Duration> {
    let millis = Json::from(result).member("ttlMs").and_then(Json::as_integer)?;
    u64::try_from(millis).ok().filter(|millis| *millis > 0).map(Duration::from_millis)
}

/// Whether the server still supports the version of the connection.
fn supports(result: &RawValue, version: ProtocolVersion) -> bool {
    let versions = Json::from(result).member("supportedVersions").and_then(|versions| versions.elements(VERSIONS));
    let mut versions = versions.map(|versions| versions.kept).unwrap_or_default().into_iter();
    versions.any(|known| known.as_string().as_deref() == Some(version.as_str()))
}

/// The state of a family's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FamilyStatus {
    /// The list was not requested yet.
    NotRequested,
    /// The whole list is known.
    Listed,
    /// The server did not declare the capability, and the list was not requested.
    NotAdvertised,
    /// The server declared the capability, but does not have the method.
    Absent,
    /// A limit or an error ended the list; the pages before it are kept.
    Partial,
    /// The list failed, and no items are kept.
    Failed,
}

impl FamilyStatus {
    /// The status' stable name, in kebab case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotRequested => "not-requested",
            Self::Listed => "listed",
            Self::NotAdvertised => "not-advertised",
            Self::Absent => "absent",
            Self::Partial => "partial",
            Self::Failed => "failed",
        }
    }

    /// What the gate knows of the list.
    pub(super) const fn known(self) -> gate::Known {
        match self {
            Self::NotRequested | Self::NotAdvertised => gate::Known::NotRequested,
            Self::Listed => gate::Known::Listed,
            Self::Partial => gate::Known::Partial,
            Self::Absent => gate::Known::Absent,
            Self::Failed => gate::Known::Failed,
        }
    }
}
