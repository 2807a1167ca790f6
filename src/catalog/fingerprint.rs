use core::fmt;
use serde::{Deserialize, Serialize};

/// Tells whether two texts, items or catalogues are the same, across runs, machines and releases.
///
/// 64 bits, for drift and for caches. It is no defence against a server that seeks a collision, which
/// could as well change what a tool does without changing how it is described.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Fingerprint(u64);

const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Fingerprint {
    pub(crate) const NONE: Self = Self(0);

    /// Of some bytes, as they are.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hash = mix(bytes.len() as u64 ^ ODD);
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            hash = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(ODD).rotate_left(29);
        }
        let mut last = [0; 8];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        Self(mix(hash ^ u64::from_le_bytes(last)))
    }

    /// Of parts in this order.
    pub(crate) fn combine(parts: impl IntoIterator<Item = Self>) -> Self {
        Self(parts.into_iter().fold(ODD, |hash, part| mix(hash.wrapping_mul(3) ^ part.0)))
    }

    /// Of parts in any order.
    pub(crate) fn gather(parts: impl IntoIterator<Item = Self>) -> Self {
        Self(parts.into_iter().fold(0, |sum, part| sum.wrapping_add(mix(part.0))))
    }

    /// The fingerprint as a number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// A bijection in which every bit of the input reaches every bit of the output (the finaliser of MurmurHash3).
const fn mix(mut hash: u64) -> u64 {
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
