//! Loads the skills of a server, as far as their content is what their entries describe.

use std::collections::VecDeque;

use mcp_proto::protocol::Capability;
use mcp_proto::skills::{Listing, Skill, SkillError, SkillLimits};
use mcp_proto::{Engine, Outcome, Request};

/// What is requested next.
pub(crate) enum Skills {
    List(Listing),
    Files(VecDeque<(Skill, String)>),
}

impl Skills {
    pub(crate) fn new(session: &Engine) -> Self {
        let capabilities = session.server().and_then(|server| server.capabilities());
        match capabilities.is_some_and(|capabilities| capabilities.has(Capability::Skills)) {
            true => Self::List(Listing::new(SkillLimits::default())),
            false => Self::Files(VecDeque::new()),
        }
    }

    pub(crate) fn request(&self) -> Option<Request> {
        match self {
            Self::List(listing) => listing.request(),
            Self::Files(files) => files.front().map(|(_, file)| Request::read_resource(file)),
        }
    }

    /// Takes the outcome of the request. With `load`, each skill of the list is loaded.
    pub(crate) fn take(&mut self, outcome: &Outcome, load: bool) -> Result<(), SkillError> {
        let Outcome::Result(result) = outcome else {
            *self = Self::Files(VecDeque::new());
            return Ok(());
        };
        match self {
            Self::List(listing) => {
                listing.take(result)?;
                if listing.request().is_none() {
                    let skills = listing.skills().iter().filter(|_| load);
                    *self = Self::Files(skills.map(|skill| (skill.clone(), skill.uri.to_string())).collect());
                }
            }
            Self::Files(files) => {
                let Some((skill, file)) = files.pop_front() else { return Ok(()) };
                let verified = skill.verify(&file, result);
                eprintln!("{file}: {verified:?}");
                // Its other files are needed only if the skill can be loaded.
                if verified.is_ok() && *file == *skill.uri {
                    let others = skill.files.iter().flatten().map(|(file, _)| file.to_string());
                    let others: Vec<_> = others.filter(|other| **other != *skill.uri).collect();
                    files.extend(others.into_iter().map(|other| (skill.clone(), other)));
                }
            }
        }
        Ok(())
    }
}
