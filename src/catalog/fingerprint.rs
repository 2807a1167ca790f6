use alloc::string::String;
use core::fmt;
use core::hash::Hasher;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use siphasher::sip128::{Hasher128, SipHasher13};

/// The secret key for [`Fingerprint`]s: 16 bytes from a secure random source. The embedder generates it once and stores
/// it.
///
/// Anyone who knows the key can construct two texts with the same fingerprint. Do not reveal it to a server, and do not
/// share one key between installations. Fingerprints made with different keys differ even for the same text: if the key
/// is lost, everything counts as changed once. Serialized as 32 hexadecimal digits; `Debug` does not show it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FingerprintKey([u8; 16]);

impl FingerprintKey {
    /// A key from bytes.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes, for storage.
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

/// Identifies a text, item or catalogue across runs, machines and releases without keeping the text: 128 bits of
/// SipHash-1-3 with a [`FingerprintKey`].
///
/// Without the key nobody can construct another text with the same fingerprint. Serialized as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(u128);

impl Fingerprint {
    /// The fingerprint of these bytes.
    pub fn of(key: FingerprintKey, bytes: &[u8]) -> Self {
        Self::of_parts(key, [bytes])
    }

    /// The fingerprint of a sequence of parts.
    pub(super) fn of_parts<'a>(key: FingerprintKey, parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hasher = SipHasher13::new_with_key(&key.0);
        for part in parts {
            // The length separates the parts.
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
