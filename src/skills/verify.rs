use alloc::borrow::Cow;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::entry::{Skill, is_within};
use super::error::{SkillError, excerpt};
use super::frontmatter;
use crate::protocol::content::ReadResult;

/// The content of a skill's file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SkillContent<'a> {
    /// The content. It is what the skill's entry describes, unless the entry has no digests.
    pub bytes: Cow<'a, [u8]>,
    /// The MIME type that the server gives it.
    pub mime_type: Option<Cow<'a, str>>,
}

impl Skill {
    /// Compares a response to `resources/read` for one of the skill's files with the entry: size and digest, and the
    /// frontmatter if it is the `SKILL.md`. The content of a skill without digests is compared with the limits and the
    /// frontmatter only.
    ///
    /// # Errors
    /// [`SkillError::Unlisted`], [`SkillError::NoContent`], [`SkillError::Size`], [`SkillError::Digest`],
    /// [`SkillError::Frontmatter`], [`SkillError::TooLarge`]: the content must not be used.
    pub fn verify<'a>(&self, file: &str, result: &'a RawValue) -> Result<SkillContent<'a>, SkillError> {
        let entry = match &self.files {
            Some(files) => Some(files.get(file).ok_or_else(|| self.unlisted(file))?),
            None if is_within(self.root(), file) => None,
            None => return Err(self.unlisted(file)),
        };
        let missing = || SkillError::NoContent { file: excerpt(file) };
        let contents = ReadResult::read(result).contents;
        let content = contents.into_iter().find(|content| content.uri == file).ok_or_else(missing)?;
        let bytes = match (content.text, content.blob) {
            (Some(Cow::Borrowed(text)), _) => Cow::Borrowed(text.as_bytes()),
            (Some(Cow::Owned(text)), _) => Cow::Owned(text.into_bytes()),
            (None, Some(blob)) => Cow::Owned(STANDARD.decode(blob.as_bytes()).map_err(|_| missing())?),
            (None, None) => return Err(missing()),
        };
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        match entry {
            Some(entry) if entry.size != size => {
                return Err(SkillError::Size { file: excerpt(file), bytes: size, expected: entry.size });
            }
            Some(entry) if entry.digest != <[u8; 32]>::from(Sha256::digest(&bytes)) => {
                return Err(SkillError::Digest { file: excerpt(file) });
            }
            None if size > self.limit => {
                return Err(SkillError::TooLarge { uri: excerpt(&self.uri), bytes: size, limit: self.limit });
            }
            Some(_) | None => {}
        }
        if file == &*self.uri {
            frontmatter::compare(file, &bytes, &self.frontmatter)?;
        }
        Ok(SkillContent { bytes, mime_type: content.mime_type })
    }

    fn unlisted(&self, file: &str) -> SkillError {
        SkillError::Unlisted { uri: excerpt(&self.uri), file: excerpt(file) }
    }
}
