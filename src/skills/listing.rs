use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::entry::{Skill, SkillLimits};
use super::error::SkillError;
use crate::Request;
use crate::jsonrpc::Json;
use crate::protocol::method;

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
