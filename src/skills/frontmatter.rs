use alloc::boxed::Box;
use alloc::format;
use serde_json::Value;
use serde_json::value::RawValue;

use super::error::{SkillError, excerpt};

/// Maximum length of a frontmatter in bytes.
const BYTES: usize = 64 << 10;

/// Maximum length of its texts in bytes, a text counted again for each alias.
const EXPANDED: usize = 1 << 20;

/// Compares the frontmatter of a `SKILL.md` with that of its entry, member by member.
pub(super) fn compare(uri: &str, content: &[u8], expected: &RawValue) -> Result<(), SkillError> {
    let wrong = |why: &str| SkillError::frontmatter(uri, why);
    let text = core::str::from_utf8(content).map_err(|_| wrong("the file is not UTF-8"))?;
    let yaml = find(text).ok_or_else(|| wrong("the file does not begin with frontmatter between two lines `---`"))?;
    if yaml.len() > BYTES {
        return Err(wrong("it is longer than 64 KiB"));
    }
    let options = serde_saphyr::options! { budget: serde_saphyr::budget! { max_total_scalar_bytes: EXPANDED } };
    let found: Value = serde_saphyr::from_str_with_options(yaml, options)
        .map_err(|error| SkillError::frontmatter(uri, format!("it is no YAML: {}", excerpt(&format!("{error}")))))?;
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
