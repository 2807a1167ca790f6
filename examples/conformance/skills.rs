//! Loads the skills of a server, as far as their content is what their entries describe.

use mcp_proto::protocol::Capability;
use mcp_proto::skills::{Listing, Skill, SkillLimits};
use mcp_proto_tokio::{CallError, Session};

use crate::Fallible;

/// Lists the skills, if the server has any. With `loads`, loads each of them.
pub(crate) async fn load(session: &Session, loads: bool) -> Fallible<()> {
    let has_skills = session.inspect(|client| {
        let capabilities = client.server().and_then(|server| server.capabilities());
        capabilities.is_some_and(|capabilities| capabilities.has(Capability::Skills))
    });
    let mut listing = Listing::new(SkillLimits::default());
    while let Some(request) = listing.request().filter(|_| has_skills) {
        listing.take(session.request(request).await?.raw())?;
    }
    for skill in listing.skills().iter().filter(|_| loads) {
        // Its other files are needed only if the skill can be loaded.
        if load_file(session, skill, &skill.uri).await? {
            for file in skill.files.iter().flatten().map(|(file, _)| file).filter(|file| **file != skill.uri) {
                load_file(session, skill, file).await?;
            }
        }
    }
    Ok(())
}

/// Returns whether the content is what the entry describes.
async fn load_file(session: &Session, skill: &Skill, file: &str) -> Result<bool, CallError> {
    let reply = session.read_resource(file).await?;
    let verified = skill.verify(file, reply.raw());
    eprintln!("{file}: {verified:?}");
    Ok(verified.is_ok())
}
