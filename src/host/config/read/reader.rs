//! Reads values of the kinds that entries have, and collects the problems in them.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::super::Texts;
use super::super::entry::path;
use super::super::error::{Error, Oddity, Problem, Warning};
use super::super::value::{Value, excerpt};

/// A day, in seconds.
const DAY: u64 = 24 * 60 * 60;

/// Reads one server's entry and collects all problems in it.
pub(in super::super) struct Reader<'a> {
    pub(in super::super) server: &'a Arc<str>,
    pub(in super::super) errors: &'a mut Vec<Error>,
    pub(in super::super) warnings: &'a mut Vec<Warning>,
}

/// The known members of a map, each once.
pub(super) struct Members<'v> {
    /// The path of the map, with a final dot.
    prefix: String,
    values: Vec<(&'static str, &'v Value)>,
}

impl<'v> Members<'v> {
    /// The value of a key. A null value, as from `key:` in YAML, counts as absent.
    pub(super) fn get(&self, key: &str) -> Option<(String, &'v Value)> {
        let (_, value) = self.values.iter().find(|(name, _)| *name == key)?;
        (**value != Value::Null).then(|| (format!("{}{key}", self.prefix), *value))
    }
}

impl Reader<'_> {
    /// The known members of a map.
    pub(super) fn members<'v>(
        &mut self,
        map: &'v [(Box<str>, Value)],
        prefix: &str,
        known: &[&'static str],
    ) -> Members<'v> {
        let mut values: Vec<(&'static str, &Value)> = Vec::new();
        for (name, value) in map {
            let at = format!("{prefix}{}", excerpt(name));
            let Some(key) = known.iter().find(|key| ***key == **name) else {
                let nearest = nearest(name, known);
                self.warn(Some(at), Oddity::UnknownKey { nearest });
                continue;
            };
            match values.iter_mut().find(|(seen, _)| seen == key) {
                Some(slot) => {
                    slot.1 = value;
                    self.warn(Some(at), Oddity::Twice);
                }
                None => values.push((key, value)),
            }
        }
        Members { prefix: prefix.into(), values }
    }

    pub(super) fn map<'v>(&mut self, members: &Members<'v>, key: &str, known: &[&'static str]) -> Option<Members<'v>> {
        let (key, value) = members.get(key)?;
        let Value::Map(map) = value else { return self.kind(&key, value, "a map of keys") };
        Some(self.members(map, &format!("{key}."), known))
    }

    pub(super) fn boolean(&mut self, members: &Members<'_>, key: &str, default: bool) -> bool {
        members.get(key).and_then(|(key, value)| self.boolean_value(&key, value)).unwrap_or(default)
    }

    pub(super) fn boolean_value(&mut self, key: &str, value: &Value) -> Option<bool> {
        let word = match value {
            Value::Bool(value) => return Some(*value),
            Value::Number { text, .. } | Value::Text(text) => text.trim().to_ascii_lowercase(),
            Value::Null | Value::List(_) | Value::Map(_) => return self.kind(key, value, "true or false"),
        };
        match &*word {
            "true" | "yes" | "on" | "1" => Some(true),
            "false" | "no" | "off" | "0" => Some(false),
            _ => self.wrong(Some(key), Problem::NotBoolean { found: excerpt(&word) }),
        }
    }

    pub(super) fn seconds(&mut self, members: &Members<'_>, key: &str, default: Duration) -> Duration {
        let Some((key, value)) = members.get(key) else { return default };
        let (Value::Number { text, .. } | Value::Text(text)) = value else {
            return self.kind(&key, value, "a number of seconds").unwrap_or(default);
        };
        let seconds = text.trim().parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        match seconds.filter(|seconds| !seconds.is_zero()) {
            // Some formats change a number with many digits.
            Some(seconds) if seconds.as_secs() > DAY => {
                self.warn(Some(key), Oddity::LongTime);
                Duration::from_secs(seconds.as_secs())
            }
            Some(seconds) => seconds,
            None => self.wrong(Some(&key), Problem::NotSeconds { found: excerpt(text) }).unwrap_or(default),
        }
    }

    pub(super) fn count<N: TryFrom<u64>>(&mut self, members: &Members<'_>, key: &str, default: N) -> N {
        let Some((key, value)) = members.get(key) else { return default };
        let (Value::Number { text, .. } | Value::Text(text)) = value else {
            return self.kind(&key, value, "a whole number").unwrap_or(default);
        };
        let count = text.trim().parse().ok().and_then(|count: u64| count.try_into().ok());
        count.or_else(|| self.wrong(Some(&key), Problem::NotCount { found: excerpt(text) })).unwrap_or(default)
    }

    /// A string that is not empty.
    pub(super) fn text(&mut self, members: &Members<'_>, key: &str, expected: &'static str) -> Option<Box<str>> {
        let (key, value) = members.get(key)?;
        match value {
            Value::Text(text) if text.trim().is_empty() => self.wrong(Some(&key), Problem::Empty { expected }),
            Value::Text(text) => Some(text.clone()),
            Value::Null | Value::Bool(_) | Value::Number { .. } | Value::List(_) | Value::Map(_) => {
                self.kind(&key, value, expected)
            }
        }
    }

    pub(super) fn list(&mut self, members: &Members<'_>, key: &str) -> Vec<Box<str>> {
        members.get(key).map(|(key, value)| self.elements(&key, value, false)).unwrap_or_default()
    }

    /// A list of strings; a single string is accepted if `single`.
    pub(super) fn elements(&mut self, key: &str, value: &Value, single: bool) -> Vec<Box<str>> {
        const EXPECTED: &str = "a list of texts";
        match value {
            Value::List(list) => list.iter().filter_map(|value| self.scalar(key, value, EXPECTED)).collect(),
            Value::Text(text) if single => [text.clone()].into(),
            Value::Null | Value::Bool(_) | Value::Number { .. } | Value::Text(_) | Value::Map(_) => {
                let expected = if single { "text, or a list of texts" } else { EXPECTED };
                self.kind(key, value, expected).unwrap_or_default()
            }
        }
    }

    pub(super) fn texts(&mut self, members: &Members<'_>, key: &str) -> Texts {
        let Some((key, value)) = members.get(key) else { return Texts::new() };
        let Value::Map(map) = value else {
            return self.kind(&key, value, "a map of texts by name").unwrap_or_default();
        };
        let mut texts = Texts::new();
        for (name, value) in map {
            let at = path(&key, &excerpt(name));
            let text = self.scalar(&at, value, "text, `\"\"` for an empty one");
            if text.is_some_and(|text| texts.insert(name.clone(), text).is_some()) {
                self.warn(Some(at), Oddity::Twice);
            }
        }
        texts
    }

    /// A string, or an unquoted scalar used as one.
    fn scalar(&mut self, key: &str, value: &Value, expected: &'static str) -> Option<Box<str>> {
        match value {
            Value::Text(text) => Some(text.clone()),
            Value::Number { text, exact: true } => Some(text.clone()),
            Value::Number { text, exact: false } => {
                self.warn(Some(key.into()), Oddity::TakenAsText);
                Some(text.clone())
            }
            Value::Bool(value) => {
                self.warn(Some(key.into()), Oddity::TakenAsText);
                Some(value.to_string().into())
            }
            Value::Null | Value::List(_) | Value::Map(_) => self.kind(key, value, expected),
        }
    }

    pub(super) fn kind<T>(&mut self, key: &str, value: &Value, expected: &'static str) -> Option<T> {
        self.wrong(Some(key), Problem::Kind { found: value.kind(), expected })
    }

    pub(super) fn wrong<T>(&mut self, key: Option<&str>, problem: Problem) -> Option<T> {
        self.errors.push(Error { server: Arc::clone(self.server), key: key.map(Box::from), problem });
        None
    }

    pub(super) fn warn(&mut self, key: Option<String>, oddity: Oddity) {
        self.warnings.push(Warning { server: Arc::clone(self.server), key: key.map(Box::from), oddity });
    }
}

/// The known key that was probably meant: different case, or one or two letters wrong.
pub(super) fn nearest(key: &str, known: &[&'static str]) -> Option<&'static str> {
    let letters = |key: &str| -> Vec<u8> {
        key.bytes().take(64).filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase()).collect()
    };
    let key = letters(key);
    let allowed = if key.len() > 4 { 2 } else { 1 };
    let distances = known.iter().map(|known| (distance(&key, &letters(known)), *known));
    distances.min().filter(|(distance, _)| *distance <= allowed).map(|(_, known)| known)
}

/// The edit distance: how many letters to insert, remove or replace.
fn distance(from: &[u8], to: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (at, a) in from.iter().enumerate() {
        let mut diagonal = at;
        let mut left = at.saturating_add(1);
        for (slot, b) in row.iter_mut().skip(1).zip(to) {
            let replaced = diagonal.saturating_add(usize::from(a != b));
            diagonal = *slot;
            left = replaced.min(left.saturating_add(1)).min(slot.saturating_add(1));
            *slot = left;
        }
        if let Some(first) = row.first_mut() {
            *first = at.saturating_add(1);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn the_distance_is_the_number_of_changes() {
        for (a, b, expected) in
            [("", "", 0), ("", "abc", 3), ("kitten", "sitting", 3), ("abc", "abc", 0), ("ab", "ba", 2)]
        {
            assert_eq!(distance(a.as_bytes(), b.as_bytes()), expected, "{a} {b}");
            assert_eq!(distance(b.as_bytes(), a.as_bytes()), expected, "{b} {a}");
        }
    }
}
