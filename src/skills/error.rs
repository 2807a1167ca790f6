use alloc::boxed::Box;

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
    /// The skill has more files than [`SkillLimits::files`](super::SkillLimits::files).
    #[error("the skill {uri} has {files} files, and at most {limit} are accepted")]
    TooManyFiles {
        /// The URI of the skill.
        uri: Box<str>,
        /// The number of files.
        files: usize,
        /// The limit.
        limit: usize,
    },
    /// The files of the skill are larger than [`SkillLimits::bytes`](super::SkillLimits::bytes) together.
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
    pub(super) fn entry(uri: &str, why: impl Into<Box<str>>) -> Self {
        Self::Entry { uri: excerpt(uri), why: why.into() }
    }

    pub(super) fn frontmatter(uri: &str, why: impl Into<Box<str>>) -> Self {
        Self::Frontmatter { file: excerpt(uri), why: why.into() }
    }
}

/// The beginning of a text of the server, for a message.
pub(super) fn excerpt(text: &str) -> Box<str> {
    crate::text::excerpt(text).into()
}
