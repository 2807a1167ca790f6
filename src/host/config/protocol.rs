use crate::ProtocolVersion;
use crate::client::Eras;

/// Which eras of the protocol are tried with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Protocol {
    /// `auto`: `server/discover` first, then `initialize` ([`Eras::Auto`]).
    Auto,
    /// `modern`: only the newest version of the modern era ([`Eras::ModernOnly`]).
    Modern,
    /// `legacy`: only `initialize` ([`Eras::LegacyOnly`]).
    Legacy,
}

impl Protocol {
    pub(super) const ALL: [Self; 3] = [Self::Auto, Self::Modern, Self::Legacy];

    /// The value in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Modern => "modern",
            Self::Legacy => "legacy",
        }
    }

    /// The option of a session.
    pub const fn eras(self) -> Eras {
        match self {
            Self::Auto => Eras::Auto,
            Self::Modern => Eras::ModernOnly(ProtocolVersion::NEWEST_MODERN),
            Self::Legacy => Eras::LegacyOnly,
        }
    }
}
