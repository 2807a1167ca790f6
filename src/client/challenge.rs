use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

/// A challenge of a `WWW-Authenticate` header (RFC 9110, section 11.6.1). Its `Debug` shows the names of the parameters,
/// not the values. Its serialized form has both: a challenge needs no secret, and its recipient needs the values.
#[derive(Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Challenge {
    /// The scheme: `Bearer`.
    pub scheme: Box<str>,
    /// The parameters, names and values: `resource_metadata`, `scope`, `error`.
    pub params: Vec<(Box<str>, Box<str>)>,
}

impl fmt::Debug for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let params: Vec<_> = self.params.iter().map(|(name, _)| name).collect();
        f.debug_struct("Challenge").field("scheme", &self.scheme).field("params", &params).finish()
    }
}

impl Challenge {
    /// Creates a challenge.
    pub fn new(scheme: impl Into<Box<str>>, params: Vec<(Box<str>, Box<str>)>) -> Self {
        Self { scheme: scheme.into(), params }
    }

    /// The value of a parameter; its name is case-insensitive.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }
}
