//! A skill: its entry in an index, its frontmatter, and the verification of its files.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use serde_json::value::RawValue;
use serde_saphyr::Error as YamlError;
use sha2::{Digest, Sha256};

use super::{SkillError, excerpt};
use crate::jsonrpc::Json;
use crate::protocol::content::ReadResult;

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
    pub(super) limit: u64,
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
        Json::from(&*self.frontmatter).member(name).and_then(Json::as_string).unwrap_or_default()
    }

    /// Reads and checks an entry.
    pub(super) fn read(json: Json<'_>, limits: SkillLimits) -> Result<Self, SkillError> {
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
            compare(file, &bytes, &self.frontmatter)?;
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
pub(super) fn is_within(root: &str, uri: &str) -> bool {
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
const BYTES: usize = 64 << 10;

/// Maximum length of its texts, as a multiple of its own. A text counts again for each alias.
const EXPANDED: usize = 16;

/// Compares the frontmatter of a `SKILL.md` with that of its entry, member by member. It has at most as many values as
/// bytes; a value counts again for each alias.
pub(super) fn compare(uri: &str, content: &[u8], expected: &RawValue) -> Result<(), SkillError> {
    let wrong = |why: &str| SkillError::frontmatter(uri, why);
    let text = core::str::from_utf8(content).map_err(|_| wrong("the file is not UTF-8"))?;
    let yaml = find(text).ok_or_else(|| wrong("the file does not begin with frontmatter between two lines `---`"))?;
    if yaml.len() > BYTES {
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
fn find(text: &str) -> Option<&str> {
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
