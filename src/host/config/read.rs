//! Reads entries: the keys of every known form, and a warning or an error for each that is not known.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::entry::{Endpoint, Texts, path};
use super::keys::{self, Entry, Http, Key, Servers, Stdio};
use super::others::{self, Host, Reading};
use super::{Error, Oddity, Problem, Warning};
use crate::text::cut;

/// Where other hosts have all keys of an entry.
const TRANSPORT: &str = "transport";

/// Where they have the keys about the life of a program.
const LIFECYCLE: &str = "lifecycle";

/// Where an older Zed has a program, with its arguments and environment.
const COMMAND: &str = "command";

impl Reader<'_> {
    /// The entry, if it has no errors.
    pub(super) fn entry(&mut self, value: &Value) -> Option<Entry> {
        let before = self.errors.len();
        let entry = self.any_entry(value);
        entry.filter(|_| self.errors.len() == before)
    }

    fn any_entry(&mut self, value: &Value) -> Option<Entry> {
        let Value::Map(map) = value else {
            return self.report_problem(None, Problem::NotAMap { found: value.kind() });
        };
        let keys = keys::of_entry();
        let names = [keys::names(&keys), [LIFECYCLE].into()].concat();
        let mut members = self.members(map, "", &names);
        self.add_map(&mut members, TRANSPORT, &names);
        self.add_map(&mut members, LIFECYCLE, &["idle_timeout", "max_lifetime"]);
        if matches!(members.get(COMMAND), Some((_, Value::Map(program))) if others::has_path(program)) {
            self.add_map(&mut members, COMMAND, &[COMMAND, "args", "env"]);
        }
        if let Some((key, word)) = others::built_in(self.host, map) {
            return self.report_problem(Some(&excerpt(key)), Problem::BuiltIn { word: excerpt(word) });
        }
        if self.host != Host::Own
            && let Some(member) = members.take("trust")
        {
            self.warn(Some(member.at), Oddity::Trust);
        }
        (self.is_program, self.is_url) = (members.get("command").is_some(), members.get("url").is_some());
        // Reads everything before returning, so that every problem is reported at once.
        let (stdio, http) = (Stdio::read(self, &members), Http::read(self, &members));
        match (self.is_program, self.is_url) {
            (false, false) => self.report_problem(None, Problem::NoEndpoint).unwrap_or_default(),
            (true, true) => self.report_problem(None, Problem::TwoEndpoints).unwrap_or_default(),
            (true, false) => self.warn_of_others(&members, &keys, Servers::Url, "url"),
            (false, true) => self.warn_of_others(&members, &keys, Servers::Program, "command"),
        }
        let endpoint = if self.is_program { Endpoint::Stdio(stdio) } else { Endpoint::Http(http) };
        Some(Entry::read(self, &members, endpoint))
    }

    /// Warns of the keys that are for the other servers.
    fn warn_of_others(&mut self, members: &Members<'_>, keys: &[Key], servers: Servers, needs: &'static str) {
        let of_others: Vec<_> = keys.iter().filter(|key| key.servers == servers).copied().collect();
        for (at, _) in keys::names(&of_others).into_iter().filter_map(|name| members.get(name)) {
            self.warn(Some(at), Oddity::NoEffect { needs });
        }
    }

    /// Adds the keys in a map that other hosts have.
    fn add_map(&mut self, members: &mut Members<'_>, key: &'static str, names: &[&'static str]) {
        let Some((_, Value::Map(map))) = members.get(key) else { return };
        let Some(Member { at, .. }) = members.take(key) else { return };
        let own = self.members(map, &format!("{at}."), names);
        members.filters.extend(own.filters);
        for member in own.values.into_iter().filter(|member| *member.value != Value::Null) {
            match members.values.iter_mut().find(|known| known.key == member.key) {
                // A null value counts as absent.
                Some(known) if *known.value == Value::Null => *known = member,
                Some(known) if key == LIFECYCLE => {
                    self.warn(Some(member.at.clone()), Oddity::Twice);
                    *known = member;
                }
                Some(known) => {
                    let other = known.at.as_str().into();
                    self.report_problem::<()>(Some(&member.at), Problem::SameMeaning { other });
                }
                None => members.values.push(member),
            }
        }
    }

    /// Whether a key has an effect on the server of this entry.
    pub(super) fn is_for(&self, servers: Servers) -> bool {
        match servers {
            Servers::Both => true,
            Servers::Program => self.is_program,
            Servers::Url => self.is_url,
        }
    }

    /// `${NAME}` for the name of a variable. Anything else would be read as something else within the braces.
    pub(super) fn reference(&mut self, key: &str, variable: &str) -> Option<String> {
        if variable.is_empty() || !variable.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return self.report_problem(Some(key), Problem::NotAVariable);
        }
        Some(format!("${{{variable}}}"))
    }

    /// The known members of a map.
    pub(super) fn members<'v>(
        &mut self,
        map: &'v [(Box<str>, Value)],
        prefix: &str,
        known: &[&'static str],
    ) -> Members<'v> {
        let mut members = Members { values: Vec::new(), filters: Vec::new() };
        for (name, value) in map {
            let at = format!("{prefix}{}", excerpt(name));
            let reading = match known.iter().find(|key| others::is_same(key, name)) {
                Some(key) => Some(Reading::As(key)),
                None => others::reading(name).filter(|reading| {
                    let (of, key) = reading.place();
                    known.contains(&key) && others::is_same(of, if is_of_entry(prefix) { "" } else { place_of(prefix) })
                }),
            };
            let key = match reading {
                Some(reading @ Reading::As(_)) => reading.place().1,
                Some(Reading::Nothing) => continue,
                Some(Reading::IncludeSome) if matches!(value, Value::List(list) if list.is_empty()) => continue,
                Some(Reading::Include | Reading::IncludeSome) => {
                    members.filters.push(Filter { includes: true, at, value });
                    continue;
                }
                Some(Reading::Exclude) => {
                    members.filters.push(Filter { includes: false, at, value });
                    continue;
                }
                Some(Reading::Approval) => {
                    self.warn(Some(at), Oddity::Approval);
                    continue;
                }
                None => {
                    self.unknown(at, name, prefix, known);
                    continue;
                }
            };
            match members.values.iter_mut().find(|known| known.key == key) {
                Some(first) if first.at == at => {
                    first.value = value;
                    self.warn(Some(at), Oddity::Twice);
                }
                Some(first) if *first.value == Value::Null => *first = Member { key, at, value },
                Some(first) if *value != Value::Null => {
                    let other = first.at.as_str().into();
                    self.report_problem::<()>(Some(&at), Problem::SameMeaning { other });
                }
                Some(_) => {}
                None => members.values.push(Member { key, at, value }),
            }
        }
        members
    }

    /// A key that nobody knows: an error if it may be a filter, which would let tools through.
    fn unknown(&mut self, at: String, name: &str, prefix: &str, known: &[&'static str]) {
        let nearest = nearest(name, known);
        if !others::may_filter(prefix, name) {
            return self.warn(Some(at), Oddity::UnknownKey { nearest });
        }
        let of_others = || is_of_entry(prefix).then(|| nearest_other(name)).flatten();
        let write = nearest.map(|nearest| format!("{prefix}{nearest}")).or_else(|| of_others().map(String::from));
        let write = write.unwrap_or_else(|| others::filter(name).into()).into();
        self.report_problem(Some(&at), Problem::MayFilter { write }).unwrap_or_default()
    }

    pub(super) fn map<'v>(&mut self, members: &Members<'v>, key: &str, keys: &[Key]) -> Option<Members<'v>> {
        let (key, value) = members.get(key)?;
        let Value::Map(map) = value else { return self.kind(&key, value, "a map of keys") };
        Some(self.members(map, &format!("{key}."), &keys::names(keys)))
    }

    pub(super) fn boolean(&mut self, key: &str, value: &Value) -> Option<bool> {
        let word = match value {
            Value::Bool(value) => return Some(*value),
            Value::Number { text, .. } | Value::Text(text) => text.trim().to_ascii_lowercase(),
            Value::Null | Value::List(_) | Value::Map(_) => return self.kind(key, value, "true or false"),
        };
        match &*word {
            "true" | "yes" | "on" | "1" => Some(true),
            "false" | "no" | "off" | "0" => Some(false),
            _ => self.report_problem(Some(key), Problem::NotBoolean { found: excerpt(&word) }),
        }
    }

    /// A time, with a warning if it is so long that other hosts may have meant milliseconds.
    pub(super) fn seconds(&mut self, members: &Members<'_>, key: &str, longest: Duration) -> Option<Duration> {
        let (key, value) = members.get(key)?;
        let (Value::Number { text, .. } | Value::Text(text)) = value else {
            return self.kind(&key, value, "a number of seconds");
        };
        let seconds = text.trim().parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let Some(seconds) = seconds.filter(|seconds| !seconds.is_zero()) else {
            return self.report_problem(Some(&key), Problem::NotSeconds { found: excerpt(text) });
        };
        if seconds > longest {
            self.warn(Some(key), Oddity::LongTime);
        }
        // Some formats change a number with many digits.
        Some(if seconds > DAY { Duration::from_secs(seconds.as_secs()) } else { seconds })
    }

    pub(super) fn count<N: TryFrom<u64>>(&mut self, members: &Members<'_>, key: &str) -> Option<N> {
        let (key, value) = members.get(key)?;
        let (Value::Number { text, .. } | Value::Text(text)) = value else {
            return self.kind(&key, value, "a whole number");
        };
        let count = text.trim().parse().ok().and_then(|count: u64| count.try_into().ok());
        count.or_else(|| self.report_problem(Some(&key), Problem::NotCount { found: excerpt(text) }))
    }

    /// A string that is not empty.
    pub(super) fn text(&mut self, members: &Members<'_>, key: &str, expected: &'static str) -> Option<Box<str>> {
        let (key, value) = members.get(key)?;
        match value {
            Value::Text(text) if text.trim().is_empty() => self.report_problem(Some(&key), Problem::Empty { expected }),
            Value::Text(text) => self.with_variables(&key, text),
            Value::Null | Value::Bool(_) | Value::Number { .. } | Value::List(_) | Value::Map(_) => {
                self.kind(&key, value, expected)
            }
        }
    }

    /// A string, or a scalar as one, without a report of what is wrong with it.
    pub(super) fn plain(&self, value: &Value) -> Option<Box<str>> {
        Some(others::with_variables(self.host, &value.as_text()?).into())
    }

    /// A string whose variables are written as in this crate.
    fn with_variables(&mut self, key: &str, text: &str) -> Option<Box<str>> {
        if others::has_file(self.host, text) {
            return self.report_problem(Some(key), Problem::FileReference);
        }
        Some(others::with_variables(self.host, text).into())
    }

    /// A list of strings; a single string is accepted if `single`.
    pub(super) fn elements(&mut self, key: &str, value: &Value, single: bool) -> Vec<Box<str>> {
        const EXPECTED: &str = "a list of texts";
        match value {
            Value::List(list) => list.iter().filter_map(|value| self.scalar(key, value, EXPECTED)).collect(),
            Value::Text(text) if single => self.with_variables(key, text).into_iter().collect(),
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
            if self.host != Host::Own && text.as_deref().is_some_and(others::is_bare_variable) {
                self.warn(Some(at.clone()), Oddity::BareVariable);
            }
            if text.is_some_and(|text| texts.insert(name.clone(), text).is_some()) {
                self.warn(Some(at), Oddity::Twice);
            }
        }
        texts
    }

    /// A string, or an unquoted scalar used as one.
    fn scalar(&mut self, key: &str, value: &Value, expected: &'static str) -> Option<Box<str>> {
        match value {
            Value::Text(text) => return self.with_variables(key, text),
            Value::Number { exact: true, .. } => {}
            Value::Number { exact: false, .. } | Value::Bool(_) => self.warn(Some(key.into()), Oddity::TakenAsText),
            Value::Null | Value::List(_) | Value::Map(_) => return self.kind(key, value, expected),
        }
        value.as_text()
    }

    pub(super) fn kind<T>(&mut self, key: &str, value: &Value, expected: &'static str) -> Option<T> {
        self.report_problem(Some(key), Problem::Kind { found: value.kind(), expected })
    }

    pub(super) fn report_problem<T>(&mut self, key: Option<&str>, problem: Problem) -> Option<T> {
        self.errors.push(Error { server: Arc::clone(self.server), key: key.map(Box::from), problem });
        None
    }

    pub(super) fn warn(&mut self, key: Option<String>, oddity: Oddity) {
        self.warnings.push(Warning { server: Arc::clone(self.server), key: key.map(Box::from), oddity });
    }
}

pub(super) const HOUR: Duration = Duration::from_secs(60 * 60);
pub(super) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Reads one server's entry and collects all problems in it.
pub(super) struct Reader<'a> {
    pub(super) server: &'a Arc<str>,
    pub(super) host: Host,
    /// Whether the entry has a `command`.
    pub(super) is_program: bool,
    /// Whether it has a `url`.
    pub(super) is_url: bool,
    pub(super) errors: &'a mut Vec<Error>,
    pub(super) warnings: &'a mut Vec<Warning>,
}

/// The known members of a map, each once.
pub(super) struct Members<'v> {
    values: Vec<Member<'v>>,
    /// The filters of tools under the keys of other hosts.
    pub(super) filters: Vec<Filter<'v>>,
}

struct Member<'v> {
    key: &'static str,
    /// Its path, as it is written in the file.
    at: String,
    value: &'v Value,
}

/// A filter under a key of another host.
pub(super) struct Filter<'v> {
    pub(super) includes: bool,
    pub(super) at: String,
    pub(super) value: &'v Value,
}

impl<'v> Members<'v> {
    /// The value of a key. A null value, as from `key:` in YAML, counts as absent.
    pub(super) fn get(&self, key: &str) -> Option<(String, &'v Value)> {
        let member = self.values.iter().find(|member| member.key == key)?;
        (*member.value != Value::Null).then(|| (member.at.clone(), member.value))
    }

    fn take(&mut self, key: &str) -> Option<Member<'v>> {
        let at = self.values.iter().position(|member| member.key == key)?;
        Some(self.values.swap_remove(at))
    }
}

/// The path of a map, of which `prefix` is that of its keys.
fn place_of(prefix: &str) -> &str {
    prefix.strip_suffix('.').unwrap_or(prefix)
}

/// Whether a map has keys of an entry.
fn is_of_entry(prefix: &str) -> bool {
    ["", TRANSPORT, LIFECYCLE].iter().any(|known| others::is_same(known, place_of(prefix)))
}

/// What other programs call a key, in letters.
const SYNONYMS: [(&[u8], &str); 5] =
    [(b"cmd", "command"), (b"program", "command"), (b"arguments", "args"), (b"directory", "cwd"), (b"endpoint", "url")];

/// The known key that was probably meant: different case, one or two letters wrong, or another word for it.
fn nearest(key: &str, known: &[&'static str]) -> Option<&'static str> {
    let letters = letters(key);
    let synonym = SYNONYMS.iter().find(|(other, _)| *other == &*letters).map(|(_, known)| *known);
    if let Some(synonym) = synonym.filter(|synonym| known.contains(synonym)) {
        return Some(synonym);
    }
    closest(&letters, known.iter().map(|known| (*known, *known)))
}

/// The key to write if a key of another host was probably meant.
fn nearest_other(key: &str) -> Option<&'static str> {
    let of_entry = others::OTHERS.iter().filter(|(_, reading)| reading.place().0.is_empty());
    let others = of_entry.filter_map(|(other, reading)| Some((*other, reading.own()?)));
    closest(&letters(key), others)
}

/// The first letters and digits of a key.
fn letters(key: &str) -> Vec<u8> {
    key.bytes().take(64).filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase()).collect()
}

/// What the most similar of the known keys means, if one or two letters are wrong.
fn closest(key: &[u8], known: impl Iterator<Item = (&'static str, &'static str)>) -> Option<&'static str> {
    let allowed = if key.len() > 4 { 2 } else { 1 };
    let near = known.filter_map(|(known, means)| Some((distance(key, &letters(known), allowed)?, means)));
    near.min().map(|(_, means)| means)
}

/// The edit distance, if it is this at most: how many letters to insert, remove or replace. Only the letters whose places differ
/// by no more than that are compared.
fn distance<T: PartialEq>(from: &[T], to: &[T], most: usize) -> Option<usize> {
    if from.len().abs_diff(to.len()) > most {
        return None;
    }
    let far = most.saturating_add(1);
    // A row of the matrix, without its first column, which has the number of the row.
    let mut row: Vec<usize> = (1..=to.len()).map(|column| column.min(far)).collect();
    for (at, a) in from.iter().enumerate() {
        let first = at.saturating_sub(most);
        let (mut diagonal, mut left) = match first.checked_sub(1) {
            Some(before) => (row.get(before).copied().unwrap_or(far), far),
            None => (at, at.saturating_add(1)),
        };
        let end = at.saturating_add(far).min(to.len());
        for (slot, b) in row.iter_mut().zip(to).take(end).skip(first) {
            let replaced = diagonal.saturating_add(usize::from(a != b));
            diagonal = *slot;
            left = replaced.min(left.saturating_add(1)).min(slot.saturating_add(1)).min(far);
            *slot = left;
        }
    }
    Some(row.last().copied().unwrap_or(from.len())).filter(|distance| *distance <= most)
}

/// Characters of a value in a message.
const LONGEST: usize = 40;

/// The name of a number's only member in `serde_json` with the feature `arbitrary_precision`.
const NUMBER: &str = "$serde_json::private::Number";

/// A configuration value in any format. Reading values before interpreting them makes an invalid value an error of its
/// server only.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    /// A number's text; `exact` if it is written this way, except for its base.
    Number {
        text: Box<str>,
        exact: bool,
    },
    Text(Box<str>),
    List(Vec<Value>),
    /// In the file's order, with duplicates.
    Map(Vec<(Box<str>, Value)>),
}

impl Value {
    /// The value's type, for messages.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "true or false",
            Self::Number { .. } => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }

    /// A string, or an unquoted scalar as one.
    pub(super) fn as_text(&self) -> Option<Box<str>> {
        match self {
            Self::Text(text) | Self::Number { text, .. } => Some(text.clone()),
            Self::Bool(value) => Some(value.to_string().into()),
            Self::Null | Self::List(_) | Self::Map(_) => None,
        }
    }

    fn whole(number: impl fmt::Display) -> Self {
        Self::Number { text: number.to_string().into(), exact: true }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::whole(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::whole(value))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Value, E> {
        Ok(Value::whole(value))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Value, E> {
        Ok(Value::whole(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Number { text: value.to_string().into(), exact: false })
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = seq.next_element()? {
            list.push(value);
        }
        // Most lists are smaller than a vector's initial capacity.
        list.shrink_to_fit();
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members: Vec<(Box<str>, Value)> = Vec::new();
        while let Some((Name(key), value)) = map.next_entry()? {
            members.push((key, value));
        }
        members.shrink_to_fit();
        if let [(name, Value::Text(number))] = &*members
            && **name == *NUMBER
        {
            return Ok(Value::Number { text: number.clone(), exact: true });
        }
        Ok(Value::Map(members))
    }
}

/// A member's name. YAML allows names that are not strings, such as `8080:` or `yes:`. They are requested as strings,
/// because only the format knows how they were written.
pub(super) struct Name(pub(super) Box<str>);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match deserializer.deserialize_str(ValueVisitor)? {
            Value::Null => "null".into(),
            Value::Bool(value) => value.to_string().into(),
            Value::Number { text, .. } | Value::Text(text) => text,
            Value::List(_) | Value::Map(_) => "(no text)".into(),
        }))
    }
}

/// A value for a message, at most one line long.
pub(super) fn excerpt(text: &str) -> Box<str> {
    cut(&text.replace(char::is_control, " "), LONGEST).into()
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use std::cell::Cell;

    use super::{distance, nearest};
    use crate::host::config::keys;

    #[test]
    fn the_nearest_key_is_one_that_may_have_been_meant() {
        for (key, expected) in [
            ("connectTimeout", Some("connect_timeout")),
            ("comand", Some("command")),
            ("cmd", Some("command")),
            ("endpoint", Some("url")),
            ("header", Some("headers")),
            ("URL", Some("url")),
            ("arg", Some("args")),
            ("alwaysAllow", None),
            // Two letters may be wrong in a key of more than four, else one.
            ("argsxx", Some("args")),
            ("axgx", None),
            ("", None),
        ] {
            assert_eq!(nearest(key, &keys::names(&keys::of_entry())), expected, "{key}");
        }
    }

    #[test]
    fn the_distance_is_the_number_of_changes() {
        for (a, b, expected) in
            [("", "", 0), ("", "abc", 3), ("kitten", "sitting", 3), ("abc", "abc", 0), ("ab", "ba", 2)]
        {
            for most in 0..5 {
                let expected = Some(expected).filter(|expected| *expected <= most);
                assert_eq!(distance(a.as_bytes(), b.as_bytes(), most), expected, "{a} {b} {most}");
                assert_eq!(distance(b.as_bytes(), a.as_bytes(), most), expected, "{b} {a} {most}");
            }
        }
    }

    /// A letter that counts how often it is compared.
    struct Counted<'a>(u8, &'a Cell<usize>);

    impl PartialEq for Counted<'_> {
        fn eq(&self, other: &Self) -> bool {
            self.1.set(self.1.get().saturating_add(1));
            self.0 == other.0
        }
    }

    #[test]
    fn an_unknown_key_is_compared_with_few_letters_of_each_known_one() {
        let compared = |from: &str, to: &str| {
            let count = Cell::new(0);
            let counted = |text: &str| text.bytes().map(|byte| Counted(byte, &count)).collect::<Vec<_>>();
            assert_eq!(distance(&counted(from), &counted(to), 2), None);
            count.get()
        };
        let (one, other) = ("a".repeat(64), "b".repeat(64));
        assert!(compared(&one, &other) <= 5 * 64);
        assert_eq!(compared(&one, "abc"), 0);
        assert_eq!(compared("abc", &other), 0);
    }
}
