//! Skills of servers: the extension `io.modelcontextprotocol/skills` (SEP-2640, feature `skills`).
//!
//! A skill is a folder of files, with instructions for a model in its `SKILL.md`. A server describes each skill in an
//! entry: its frontmatter, and the URI, size and digest of each file. The files are resources.
//!
//! 1. A server has skills if [`ServerCapabilities::has`](crate::protocol::ServerCapabilities::has) of
//!    [`Capability::Skills`](crate::protocol::Capability::Skills) is true. The requests of this module are refused for any
//!    other server.
//! 2. [`Listing`] makes the requests of the list and collects the entries. A server may leave skills out of its list:
//!    [`get`] requests the entry of one whose URI is known otherwise.
//! 3. When a skill is to be loaded, and not before, request its `SKILL.md` with
//!    [`Request::read_resource`], and pass the response to [`Skill::verify`]. Do the same for each other
//!    file when it is needed. Content that differs from the entry is refused; request the entry again with [`get`], and
//!    ask the user again.
//!
//! A digest shows that the content fits the entry. It does not show that either can be trusted: both come from the server.
//! What a host owes its user is in the extension's specification, "Security Considerations".

mod entry;
mod error;
mod frontmatter;
mod listing;
mod verify;

pub use entry::{Skill, SkillFile, SkillLimits};
pub use error::SkillError;
pub use listing::Listing;
pub use verify::SkillContent;

use serde_json::value::RawValue;

use crate::Request;
use crate::jsonrpc::Json;
use crate::protocol::method;

/// Requests the entry of one skill by the URI of its `SKILL.md` (`skills/get`). [`read`] reads the response.
pub fn get(uri: &str) -> Request {
    Request::with_members(method::SKILLS_GET, |params| {
        params.string("uri", uri);
    })
}

/// Requests the files and folders in a folder (`resources/directory/read`), or with a cursor the next page of them. The
/// server must declare `directoryRead`. The files of a skill with digests are in its entry.
pub fn read_directory(uri: &str, cursor: Option<&str>) -> Request {
    Request::with_members(method::DIRECTORY_READ, |params| {
        params.string("uri", uri);
        if let Some(cursor) = cursor {
            params.string("cursor", cursor);
        }
    })
}

/// Reads the response to [`get`] for this URI.
///
/// # Errors
/// [`SkillError::Entry`] if the response has no valid entry of the skill with this URI; [`SkillError::TooManyFiles`],
/// [`SkillError::TooLarge`].
pub fn read(uri: &str, result: &RawValue, limits: SkillLimits) -> Result<Skill, SkillError> {
    let entry = Json::from(result).member("skill").unwrap_or(Json::EMPTY_OBJECT);
    let skill = Skill::read(entry, limits)?;
    if *skill.uri == *uri { Ok(skill) } else { Err(SkillError::entry(uri, "the response describes another skill")) }
}
