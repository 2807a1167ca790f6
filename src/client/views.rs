//! Typed views of what a server sends, with the raw JSON beside them.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use core::fmt;
use serde_json::value::RawValue;

use crate::jsonrpc::Json;
use crate::protocol::method;

/// The parameters of `notifications/progress` (specification 2026-07-28, "Progress").
#[derive(Clone, Debug)]
pub struct Progress {
    raw: Box<RawValue>,
}

impl Progress {
    pub(super) const fn new(raw: Box<RawValue>) -> Self {
        Self { raw }
    }

    /// The progress so far; it grows with each notification, in any unit.
    pub fn progress(&self) -> Option<f64> {
        self.number("progress")
    }

    /// The total, if the server knows it.
    pub fn total(&self) -> Option<f64> {
        self.number("total")
    }

    /// A description for people.
    pub fn message(&self) -> Option<Cow<'_, str>> {
        Json::from(&*self.raw).member("message").and_then(Json::as_string)
    }

    /// The parameters, byte for byte.
    pub fn raw(&self) -> &RawValue {
        &self.raw
    }

    fn number(&self, name: &str) -> Option<f64> {
        Json::from(&*self.raw).member(name).and_then(|number| number.text().parse().ok())
    }
}

/// The method of a server request, or of required input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ServerMethod {
    /// `elicitation/create`: input from the user, by a form or at a URL (specification 2025-11-25, "Elicitation").
    Elicitation,
    /// `sampling/createMessage`: a completion by the client's model (specification 2025-11-25, "Sampling").
    Sampling,
}

impl ServerMethod {
    /// The method's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Elicitation => method::ELICITATION,
            Self::Sampling => method::SAMPLING,
        }
    }

    /// The method of this name.
    pub(super) fn of(name: &str) -> Option<Self> {
        match name {
            method::ELICITATION => Some(Self::Elicitation),
            method::SAMPLING => Some(Self::Sampling),
            _ => None,
        }
    }
}

impl fmt::Display for ServerMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
