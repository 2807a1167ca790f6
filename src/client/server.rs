use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use serde_json::value::RawValue;

use crate::jsonrpc::Json;
use crate::protocol::{Capability, Era, Family, ProtocolVersion, ServerCapabilities};

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
    /// The server's capabilities; `None` if it sent none.
    pub capabilities: Option<ServerCapabilities>,
    /// Instructions of the server's author to the model.
    pub instructions: Option<Box<str>>,
    /// The whole result, byte for byte.
    pub raw: Box<RawValue>,
}

impl Server {
    /// The negotiated era.
    pub const fn era(&self) -> Era {
        self.version.era()
    }

    /// Whether the family's capability is declared; `None` if the server sent no capabilities.
    pub fn declares(&self, family: Family) -> Option<bool> {
        self.has(family.capability())
    }

    pub(super) fn has(&self, capability: Capability) -> Option<bool> {
        self.capabilities.as_ref().map(|capabilities| capabilities.has(capability))
    }

    /// Reads the result of `initialize` or `server/discover`.
    pub(super) fn read(version: ProtocolVersion, raw: &RawValue) -> Self {
        let json = Json::from(raw);
        let info = match version.era() {
            Era::Legacy => json.member("serverInfo"),
            Era::Modern => json.member("_meta").and_then(|meta| meta.member("io.modelcontextprotocol/serverInfo")),
        };
        let string = |of: Option<Json<'_>>| of.and_then(Json::as_string).map(Box::from);
        Self {
            version,
            name: string(info.and_then(|info| info.member("name"))),
            server_version: string(info.and_then(|info| info.member("version"))),
            capabilities: json.member("capabilities").and_then(ServerCapabilities::read),
            instructions: string(json.member("instructions")),
            raw: raw.to_owned(),
        }
    }
}
