use core::net::IpAddr;

use super::place::{Place, Zone, zone_of};

/// The addresses that a request may reach. Only the embedder resolves names, so only it can check them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reach {
    /// No private, loopback or link-local address.
    Public,
    /// The addresses of the MCP server: the request goes to its origin.
    Server,
    /// Every address: the MCP server is not public either.
    Any,
}

impl Reach {
    /// Whether a name that resolved to this address may be connected to.
    ///
    /// ```
    /// use mcp_proto::binding::oauth::Reach;
    ///
    /// assert!(Reach::Public.allows([93, 184, 215, 14].into()));
    /// assert!(!Reach::Public.allows([10, 0, 0, 1].into()) && !Reach::Public.allows([127, 0, 0, 1].into()));
    /// assert!(Reach::Any.allows([10, 0, 0, 1].into()));
    /// ```
    pub fn allows(self, address: IpAddr) -> bool {
        match self {
            Self::Public => zone_of(address) == Zone::Public,
            Self::Server | Self::Any => true,
        }
    }
}

impl Place {
    /// The addresses that a request to this URL may reach.
    pub(super) fn reach(&self, server: &Self, server_zone: Zone) -> Reach {
        if self.is_same_origin(server) {
            Reach::Server
        } else if server_zone == Zone::Public {
            Reach::Public
        } else {
            Reach::Any
        }
    }
}
