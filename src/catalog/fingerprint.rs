use alloc::string::String;
use core::fmt;
use core::hash::Hasher;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use siphasher::sip128::{Hasher128, SipHasher13};

/// The secret under which [`Fingerprint`]s are made: 16 bytes from a secure random source, made once by the embedder and
/// kept.
///
/// Whoever knows the key can make two texts with one fingerprint, so no server may learn it; a key that is the same in
/// every installation protects nobody. Fingerprints that were made under another key differ from those made under this
/// one, even of the same text: where the key is lost, everything counts as changed once, and nothing as the same by
/// accident. It is written as 32 hexadecimal digits. Its `Debug` does not show it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FingerprintKey([u8; 16]);

impl FingerprintKey {
    /// The key of these bytes.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes, to be kept.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Debug for FingerprintKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FingerprintKey(…)")
    }
}

impl Serialize for FingerprintKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Fingerprint(u128::from_be_bytes(self.0)).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for FingerprintKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Fingerprint::deserialize(deserializer).map(|Fingerprint(number)| Self(number.to_be_bytes()))
    }
}

/// Tells texts, items or catalogues apart across runs, machines and releases, without the text itself: 128 bits of
/// SipHash-1-3 under a [`FingerprintKey`].
///
/// Whoever does not know the key cannot make another text with the same fingerprint. It is written as 32 hexadecimal
/// digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(u128);

impl Fingerprint {
    /// Of some bytes, as they are.
    pub fn of(key: FingerprintKey, bytes: &[u8]) -> Self {
        Self::of_parts(key, [bytes])
    }

    /// Of these parts, in this order.
    pub(super) fn of_parts<'a>(key: FingerprintKey, parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hasher = SipHasher13::new_with_key(&key.0);
        for part in parts {
            // The length says where the next part begins.
            hasher.write(&(part.len() as u64).to_le_bytes());
            hasher.write(part);
        }
        Self(hasher.finish128().as_u128())
    }

    /// The fingerprint as a number.
    pub const fn get(self) -> u128 {
        self.0
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = String::deserialize(deserializer)?;
        let is_hex = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u128::from_str_radix(&digits, 16).ok().filter(|_| is_hex);
        number.map(Self).ok_or_else(|| de::Error::custom("not 32 hexadecimal digits"))
    }
}
