use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use serde_json::value::RawValue;

use crate::jsonrpc::Json;
use crate::protocol::{Capability, Era, Family, ProtocolVersion, ServerCapabilities};

/// What a server said of itself, in its answer to `initialize` or to `server/discover`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Server {
    /// The version that both sides speak from here on.
    pub version: ProtocolVersion,
    /// The server's name. For people: it is not verified.
    pub name: Option<Box<str>>,
    /// The server's version. For people.
    pub server_version: Option<Box<str>>,
    /// What it can do; `None` where it did not say.
    pub capabilities: Option<ServerCapabilities>,
    /// How its author wants it used, for the model.
    pub instructions: Option<Box<str>>,
    /// The whole answer, byte for byte.
    pub raw: Box<RawValue>,
}

impl Server {
    /// The era that the session has.
    pub const fn era(&self) -> Era {
        self.version.era()
    }

    /// Whether the family is declared; `None` where the server did not say what it can do.
    pub fn declares(&self, family: Family) -> Option<bool> {
        self.has(family.capability())
    }

    pub(super) fn has(&self, capability: Capability) -> Option<bool> {
        self.capabilities.as_ref().map(|capabilities| capabilities.has(capability))
    }

    /// Reads the answer to `initialize` or `server/discover`.
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
