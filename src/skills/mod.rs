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

pub use self::entry::{Skill, SkillContent, SkillFile, SkillLimits};

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
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

/// Maximum number of entries of one server, and of pages.
const MOST: usize = 10_000;

/// Maximum length of all pages together, in bytes.
const BYTES: usize = 64 << 20;

/// Collects the pages of a server's list of skills: send [`request`](Self::request), and pass each result to
/// [`take`](Self::take), until there is no further request.
///
/// A server may leave skills out of its list. The list ends at a cursor that the server gave before, and is cut off after
/// 10,000 entries or pages, or 64 MiB.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The valid entries, in order.
    skills: Vec<Skill>,
    /// Why other entries were left out.
    invalid: Vec<SkillError>,
    limits: SkillLimits,
    next: Next,
    cursors: BTreeSet<Box<str>>,
    public: bool,
    bytes: usize,
    cut: bool,
}

/// The next page.
#[derive(Clone, Debug)]
enum Next {
    First,
    After(Box<str>),
    None,
}

impl Listing {
    /// A list that is not requested yet.
    pub const fn new(limits: SkillLimits) -> Self {
        Self {
            skills: Vec::new(),
            invalid: Vec::new(),
            limits,
            next: Next::First,
            cursors: BTreeSet::new(),
            public: true,
            bytes: 0,
            cut: false,
        }
    }

    /// The request of the next page (`skills/list`); `None` after the last.
    pub fn request(&self) -> Option<Request> {
        let cursor = match &self.next {
            Next::First => None,
            Next::After(cursor) => Some(&**cursor),
            Next::None => return None,
        };
        Some(Request::with_members(method::SKILLS_LIST, |params| {
            if let Some(cursor) = cursor {
                params.string("cursor", cursor);
            }
        }))
    }

    /// Takes the result of the request of a page.
    ///
    /// # Errors
    /// [`SkillError::List`] if the result has no list. Nothing changes then.
    pub fn take(&mut self, result: &RawValue) -> Result<(), SkillError> {
        let json = Json::from(result);
        let room = MOST.saturating_sub(self.entries());
        let page = json.member("skills").and_then(|skills| skills.elements(room)).ok_or(SkillError::List)?;
        let shared = json.member("cacheScope").and_then(Json::as_string).as_deref() == Some("public");
        self.public &= shared;
        self.bytes = self.bytes.saturating_add(result.get().len());
        for entry in page.kept {
            match Skill::read(entry, self.limits) {
                Ok(skill) => self.skills.push(skill),
                Err(error) => self.invalid.push(error),
            }
        }
        let cursor = json.member("nextCursor").and_then(Json::as_string).map(Box::<str>::from);
        let cursor = cursor.filter(|cursor| self.cursors.insert(cursor.clone()));
        let is_full = self.cursors.len() > MOST || self.bytes > BYTES || self.entries() >= MOST;
        self.cut = page.more || (is_full && cursor.is_some());
        self.next = match cursor {
            Some(cursor) if !self.cut => Next::After(cursor),
            Some(_) | None => Next::None,
        };
        Ok(())
    }

    fn entries(&self) -> usize {
        self.skills.len().saturating_add(self.invalid.len())
    }

    /// Whether the list was cut off at a limit.
    pub const fn is_cut_off(&self) -> bool {
        self.cut
    }

    /// The valid entries so far, in the server's order.
    pub fn skills(&self) -> &[Skill] {
        &self.skills
    }

    /// Why other entries were left out.
    pub fn invalid(&self) -> &[SkillError] {
        &self.invalid
    }

    /// Whether other users may get the same list: each page has the `cacheScope` `public`.
    pub const fn is_public(&self) -> bool {
        self.public
    }

    /// The valid entries.
    pub fn into_skills(self) -> Vec<Skill> {
        self.skills
    }
}

/// Why an entry or a file of a skill is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "type", content = "value", rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum SkillError {
    /// The response to `skills/list` has no list.
    #[error("the response to `skills/list` has no list of `skills`")]
    List,
    /// The entry of a skill is invalid.
    #[error("the entry of the skill {uri} is invalid: {why}")]
    Entry {
        /// The URI of the skill, if it has one.
        uri: Box<str>,
        /// What is wrong.
        why: Box<str>,
    },
    /// The skill has more files than [`SkillLimits::files`](SkillLimits::files).
    #[error("the skill {uri} has {files} files, and at most {limit} are accepted")]
    TooManyFiles {
        /// The URI of the skill.
        uri: Box<str>,
        /// The number of files.
        files: usize,
        /// The limit.
        limit: usize,
    },
    /// The files of the skill are larger than [`SkillLimits::bytes`](SkillLimits::bytes) together.
    #[error("the files of the skill {uri} have {bytes} bytes, and at most {limit} are accepted")]
    TooLarge {
        /// The URI of the skill.
        uri: Box<str>,
        /// The sum of the files' sizes, in bytes.
        bytes: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The skill's entry does not list the file. The skill may have changed: request its entry again.
    #[error("the skill {uri} has no file {file} in its entry; it may have changed")]
    Unlisted {
        /// The URI of the skill.
        uri: Box<str>,
        /// The URI of the file.
        file: Box<str>,
    },
    /// The response to `resources/read` has no content of the file, or content that cannot be decoded.
    #[error("the response has no readable content of {file}")]
    NoContent {
        /// The URI of the file.
        file: Box<str>,
    },
    /// The file has another size than its entry says.
    #[error("{file} has {bytes} bytes, and its entry says {expected}; it may have changed")]
    Size {
        /// The URI of the file.
        file: Box<str>,
        /// The size of the content, in bytes.
        bytes: u64,
        /// The size in the entry, in bytes.
        expected: u64,
    },
    /// The file has another digest than its entry says.
    #[error("the content of {file} does not have the digest in its entry; it may have changed")]
    Digest {
        /// The URI of the file.
        file: Box<str>,
    },
    /// The frontmatter of the `SKILL.md` differs from the entry's, or cannot be read.
    #[error("the frontmatter of {file} differs from its entry: {why}")]
    Frontmatter {
        /// The URI of the file.
        file: Box<str>,
        /// What differs.
        why: Box<str>,
    },
}

impl SkillError {
    fn entry(uri: &str, why: impl Into<Box<str>>) -> Self {
        Self::Entry { uri: excerpt(uri), why: why.into() }
    }

    fn frontmatter(uri: &str, why: impl Into<Box<str>>) -> Self {
        Self::Frontmatter { file: excerpt(uri), why: why.into() }
    }
}

/// The beginning of a text of the server, for a message.
fn excerpt(text: &str) -> Box<str> {
    crate::text::excerpt(text).into()
}
