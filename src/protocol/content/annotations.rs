use alloc::borrow::Cow;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::{string, strings};
use crate::jsonrpc::Json;

/// Who speaks, or whom content is for (`Role` in the schemas).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Role {
    /// The user.
    User,
    /// The model.
    Assistant,
}

impl Role {
    pub(super) fn read(name: &str) -> Option<Self> {
        match name {
            "user" => Some(Self::User),
            "assistant" => Some(Self::Assistant),
            _ => None,
        }
    }

    /// The name of the role in the protocol.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// Hints of the server on the use of content or of a resource (`Annotations` in the schemas). Untrusted, unless the
/// server is trusted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Annotations<'a> {
    /// Whom it is for; empty if the server does not say. Unknown roles are left out.
    pub audience: Vec<Role>,
    /// How important it is, from 0 to 1.
    pub priority: Option<f64>,
    /// When it was last modified, in ISO 8601.
    pub last_modified: Option<Cow<'a, str>>,
    /// The annotations, byte for byte.
    pub raw: &'a RawValue,
}

impl<'a> Annotations<'a> {
    /// Reads the member `annotations` of an object.
    pub(crate) fn of(json: Json<'a>) -> Option<Self> {
        let annotations = json.member("annotations").filter(|value| value.is_object())?;
        let audience = strings(annotations, "audience");
        let priority = annotations.member("priority").and_then(|number| number.text().parse().ok());
        Some(Self {
            audience: audience.filter_map(|name| Role::read(&name)).collect(),
            priority: priority.filter(|priority| (0.0..=1.0).contains(priority)),
            last_modified: string(annotations, "lastModified"),
            raw: annotations.raw(),
        })
    }
}
