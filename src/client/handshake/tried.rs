use crate::protocol::{Era, ProtocolVersion};

/// The versions that `initialize` offered, as bits.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Tried(u8);

impl Tried {
    pub(super) const fn add(&mut self, version: ProtocolVersion) {
        self.0 |= bit(version);
    }

    pub(super) const fn has(self, version: ProtocolVersion) -> bool {
        self.0 & bit(version) != 0
    }

    /// The newest legacy version that is older than the offered one and was not tried.
    pub(super) fn next(self, offered: Option<ProtocolVersion>) -> Option<ProtocolVersion> {
        let offered = offered.unwrap_or(ProtocolVersion::NEWEST_MODERN);
        let older = ProtocolVersion::ALL.iter().copied().rev().filter(|version| *version < offered);
        older.filter(|version| version.era() == Era::Legacy).find(|version| !self.has(*version))
    }
}

const fn bit(version: ProtocolVersion) -> u8 {
    1 << version as u8
}
