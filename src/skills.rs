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

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use serde_json::value::RawValue;
use serde_saphyr::Error as YamlError;
use sha2::{Digest, Sha256};

use crate::Request;
use crate::jsonrpc::Json;
use crate::protocol::content::ReadResult;
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

/// The last part of a skill's URI.
const SKILL_MD: &str = "/SKILL.md";

/// What is accepted of one skill. By default what every host must accept: 512 files, and 16 MiB in all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct SkillLimits {
    /// Files of a skill, its `SKILL.md` included.
    pub files: usize,
    /// The sum of the sizes of a skill's files, in bytes; of a skill without digests the size of each file.
    pub bytes: u64,
}

impl Default for SkillLimits {
    fn default() -> Self {
        Self { files: 512, bytes: 16 << 20 }
    }
}

/// The entry of a skill (`Skill` in the extension's specification). Within one server its `uri` identifies it, its name
/// does not.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Skill {
    /// The URI of its `SKILL.md`.
    pub uri: Box<str>,
    /// The frontmatter of its `SKILL.md`, a JSON object.
    pub frontmatter: Box<RawValue>,
    /// All files of the skill by their URIs; `None` if the server generates them, and so has no digests of them.
    pub files: Option<BTreeMap<Box<str>, SkillFile>>,
    /// The limit of a file without digest.
    limit: u64,
}

/// A file of a skill, as its entry describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillFile {
    /// The SHA-256 digest of its content.
    pub digest: [u8; 32],
    /// The size of its content in bytes.
    pub size: u64,
}

impl Skill {
    /// Its name, a label for people and models. Several skills may have the same.
    pub fn name(&self) -> Cow<'_, str> {
        self.text("name")
    }

    /// What it is for, for the model.
    pub fn description(&self) -> Cow<'_, str> {
        self.text("description")
    }

    /// The URI of its folder, without a slash at the end.
    pub fn root(&self) -> &str {
        self.uri.strip_suffix(SKILL_MD).unwrap_or(&self.uri)
    }

    /// The sum of its files' sizes in bytes; `None` if the server generates them.
    pub fn size(&self) -> Option<u64> {
        self.files.as_ref().map(|files| files.values().fold(0, |sum: u64, file| sum.saturating_add(file.size)))
    }

    fn text(&self, name: &str) -> Cow<'_, str> {
        Json::from(&*self.frontmatter).member(name).and_then(Json::as_text).unwrap_or_default()
    }

    /// Reads and checks an entry.
    fn read(json: Json<'_>, limits: SkillLimits) -> Result<Self, SkillError> {
        let uri = json.member("uri").and_then(Json::as_string).unwrap_or_default();
        let wrong = |why: &str| SkillError::entry(&uri, why);
        let root = uri.strip_suffix(SKILL_MD).ok_or_else(|| wrong("its `uri` does not end with `/SKILL.md`"))?;
        let frontmatter = json.member("frontmatter").filter(|frontmatter| frontmatter.is_object());
        let frontmatter = frontmatter.ok_or_else(|| wrong("it has no `frontmatter`"))?;
        let text = |name| frontmatter.member(name).and_then(Json::as_string);
        let (Some(name), Some(_)) = (text("name"), text("description")) else {
            return Err(wrong("its frontmatter has no `name` and `description`"));
        };
        if !is_name(&name) {
            return Err(wrong("its name has other characters than lower-case letters, digits and single hyphens"));
        }
        if root.rsplit('/').next() != Some(&*name) {
            return Err(SkillError::entry(&uri, format!("its name `{}` is not that of its folder", excerpt(&name))));
        }
        let files = match json.member("resources") {
            Some(files) if files.first() == b'[' => Some(read_files(&uri, root, files, limits)?),
            Some(files) if files.as_string().as_deref() == Some("dynamic") => None,
            Some(_) | None => return Err(wrong("its `resources` are neither a list nor `\"dynamic\"`")),
        };
        let skill = Self { uri: uri.into(), frontmatter: frontmatter.to_raw(), files, limit: limits.bytes };
        match skill.size().filter(|bytes| *bytes > limits.bytes) {
            Some(bytes) => Err(SkillError::TooLarge { uri: excerpt(&skill.uri), bytes, limit: limits.bytes }),
            None => Ok(skill),
        }
    }

    /// Compares a response to `resources/read` for one of the skill's files with the entry: size and digest, and the
    /// frontmatter if it is the `SKILL.md`. The content of a skill without digests is compared with the limits and the
    /// frontmatter only. A frontmatter has at most 64 KiB, and as many values as bytes, counted again for each alias.
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
            compare_frontmatter(file, &bytes, &self.frontmatter)?;
        }
        Ok(SkillContent { bytes, mime_type: content.mime_type })
    }

    fn unlisted(&self, file: &str) -> SkillError {
        SkillError::Unlisted { uri: excerpt(&self.uri), file: excerpt(file) }
    }
}

fn read_files(
    uri: &str,
    root: &str,
    files: Json<'_>,
    limits: SkillLimits,
) -> Result<BTreeMap<Box<str>, SkillFile>, SkillError> {
    let mut count = 0_usize;
    files.each_element(|_| count = count.saturating_add(1));
    if count > limits.files {
        return Err(SkillError::TooManyFiles { uri: excerpt(uri), files: count, limit: limits.files });
    }
    let listed = files.elements(count).map(|elements| elements.kept).unwrap_or_default();
    let mut files = BTreeMap::new();
    for file in listed {
        let wrong = |file: &str, why: &str| SkillError::entry(uri, format!("its file {} {why}", excerpt(file)));
        let text = |name| file.member(name).and_then(Json::as_string);
        let Some(name) = text("uri") else { return Err(SkillError::entry(uri, "a file has no `uri`")) };
        if !is_within(root, &name) {
            return Err(wrong(&name, "is not in its folder"));
        }
        let digest = text("digest").and_then(|digest| read_digest(&digest));
        let digest = digest.ok_or_else(|| wrong(&name, "has no digest `sha256:` of 64 lower-case digits"))?;
        let size = file.member("size").and_then(|size| size.text().parse().ok());
        let size = size.ok_or_else(|| wrong(&name, "has no size"))?;
        if files.insert(Box::from(&*name), SkillFile { digest, size }).is_some() {
            return Err(wrong(&name, "is listed twice"));
        }
    }
    if files.contains_key(uri) { Ok(files) } else { Err(SkillError::entry(uri, "its `SKILL.md` is not listed")) }
}

/// Whether the text is a name of a skill: 1 to 64 lower-case letters, digits and hyphens, which neither begin nor end it
/// nor follow each other.
fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && name.split('-').all(|part| !part.is_empty())
}

/// Whether a URI is that of a file in a folder, however its path is decoded.
fn is_within(root: &str, uri: &str) -> bool {
    let path = uri.strip_prefix(root).and_then(|path| path.strip_prefix('/'));
    path.is_some_and(|path| {
        let is_encoded = |byte: &str| {
            let codes = path.match_indices('%').filter_map(|(at, _)| path.get(at..at.checked_add(3)?));
            codes.into_iter().any(|code| code.eq_ignore_ascii_case(byte))
        };
        path.split('/').all(|part| !matches!(part, "" | "." | ".."))
            && !path.contains(['\\', '?', '#'])
            && !["%2e", "%2f", "%5c"].into_iter().any(is_encoded)
    })
}

fn read_digest(text: &str) -> Option<[u8; 32]> {
    let hex = text.strip_prefix("sha256:").filter(|hex| hex.len() == 64)?;
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte.wrapping_sub(b'0')),
        b'a'..=b'f' => Some(byte.wrapping_sub(b'a').wrapping_add(10)),
        _ => None,
    };
    let bytes: Option<Vec<u8>> = hex
        .as_bytes()
        .chunks_exact(2)
        .map(|pair| match pair {
            [high, low] => Some((digit(*high)? << 4) | digit(*low)?),
            _ => None,
        })
        .collect();
    bytes?.try_into().ok()
}

/// Maximum length of a frontmatter in bytes.
const FRONTMATTER: usize = 64 << 10;

/// Maximum length of its texts, as a multiple of its own. A text counts again for each alias.
const EXPANDED: usize = 16;

/// Compares the frontmatter of a `SKILL.md` with that of its entry, member by member. It has at most as many values as
/// bytes; a value counts again for each alias.
fn compare_frontmatter(uri: &str, content: &[u8], expected: &RawValue) -> Result<(), SkillError> {
    let wrong = |why: &str| SkillError::frontmatter(uri, why);
    let text = core::str::from_utf8(content).map_err(|_| wrong("the file is not UTF-8"))?;
    let yaml = find_frontmatter(text)
        .ok_or_else(|| wrong("the file does not begin with frontmatter between two lines `---`"))?;
    if yaml.len() > FRONTMATTER {
        return Err(wrong("it is longer than 64 KiB"));
    }
    let budget = serde_saphyr::budget! {
        max_nodes: yaml.len(),
        max_total_scalar_bytes: yaml.len().saturating_mul(EXPANDED),
    };
    let options = serde_saphyr::options! { budget: budget, with_snippet: false };
    let found: Value = serde_saphyr::from_str_with_options(yaml, options).map_err(|error| {
        // One within an alias is wrapped.
        if matches!(error, YamlError::Budget { .. } | YamlError::AliasError { .. }) {
            wrong("it is not YAML of a bounded size: it is too deep, or its aliases stand for too many values or texts")
        } else {
            SkillError::frontmatter(uri, format!("it is not YAML: {}", excerpt(&format!("{error}"))))
        }
    })?;
    let expected: Value = serde_json::from_str(expected.get()).map_err(|_| wrong("the entry's is too deep"))?;
    match difference(&found, &expected) {
        None => Ok(()),
        Some(name) => Err(SkillError::frontmatter(uri, format!("`{}` differs", excerpt(&name)))),
    }
}

/// The text between the first line and the next line of three hyphens.
fn find_frontmatter(text: &str) -> Option<&str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let body = text.strip_prefix("---").and_then(|text| text.strip_prefix("\r\n").or(text.strip_prefix('\n')))?;
    let mut end = 0_usize;
    for line in body.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return body.get(..end);
        }
        end = end.saturating_add(line.len());
    }
    None
}

/// The first member in which two objects differ.
fn difference(found: &Value, expected: &Value) -> Option<Box<str>> {
    let (Value::Object(found), Value::Object(expected)) = (found, expected) else {
        return Some("the frontmatter".into());
    };
    let differs = |name: &&str| match (found.get(*name), expected.get(*name)) {
        (Some(found), Some(expected)) => !is_equal(found, expected),
        (Some(_), None) | (None, Some(_)) | (None, None) => true,
    };
    let names = found.keys().chain(expected.keys()).map(|name| &**name);
    names.into_iter().find(differs).map(Box::from)
}

/// Whether two values are equal; of numbers only the value counts, not how they are written.
fn is_equal(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (Value::Array(found), Value::Array(expected)) => {
            found.len() == expected.len()
                && found.iter().zip(expected).all(|(found, expected)| is_equal(found, expected))
        }
        (Value::Object(_), Value::Object(_)) => difference(found, expected).is_none(),
        (Value::Number(found), Value::Number(expected)) => found == expected || found.as_f64() == expected.as_f64(),
        _ => found == expected,
    }
}

/// The content of a skill's file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SkillContent<'a> {
    /// The content. It is what the skill's entry describes, unless the entry has no digests.
    pub bytes: Cow<'a, [u8]>,
    /// The MIME type that the server gives it.
    pub mime_type: Option<Cow<'a, str>>,
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
