//! Variables in the values of an entry.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::entry::{Endpoint, Texts};
use super::keys::{Entry, Keys as _};
use super::read::excerpt;
use super::{Error, Problem};

/// The most bytes that variables bring into one value.
const MAX_VALUE_EXPANDED: usize = 64 * 1024;
/// The most bytes that variables bring into all values of a file.
pub(super) const MAX_EXPANDED: usize = 1024 * 1024;

impl Entry {
    /// Replaces the variables in the texts of [`Stdio`](super::Stdio), [`Http`](super::Http) without `auth`, and
    /// [`OAuth`](super::OAuth) by what `lookup` returns for their names. For a file in `env_file` it is asked for `envFile:` and the path, and
    /// returns its text, whose variables are added to `env`. No variable has such a name.
    ///
    /// `${NAME}` is the variable's value. `${NAME:-text}` is `text` if the variable is unset or empty. `$${` is a
    /// literal `${`. A name is everything before the closing brace or `:-`, so that a lookup can support more than the
    /// environment: `${env:NAME}`, `${workspaceFolder}`, and `${input:NAME}` of VS Code, which is what a user answers for the
    /// input. Values are not expanded again.
    ///
    /// ```
    /// use mcp_proto::host::config::{Endpoint, Entry};
    ///
    /// let entry = Entry::stdio("${HOME}/bin/server");
    /// let found = entry.expand("mine", |name| (name == "HOME").then(|| "/home/ada".into())).unwrap();
    /// let Endpoint::Stdio(stdio) = found.endpoint else { panic!("a program") };
    /// assert_eq!(&*stdio.command, "/home/ada/bin/server");
    ///
    /// let errors = entry.expand("mine", |_| None).unwrap_err();
    /// assert!(errors[0].to_string().starts_with("server `mine`, `command`: there is no `HOME`"));
    /// ```
    ///
    /// # Errors
    /// [`Problem::NoVariable`] and [`Problem::NoInput`] for each variable without a value; [`Problem::VariablesTooLong`] for the first one with which
    /// they bring more than 64 KiB into a value, or 1 MiB into the entry; [`Problem::NoEnvFile`] for a file without a text.
    pub fn expand<'a>(
        &self,
        server: &str,
        lookup: impl FnMut(&str) -> Option<Cow<'a, str>>,
    ) -> Result<Self, Vec<Error>> {
        self.expand_within(server, lookup, &mut { MAX_EXPANDED })
    }

    /// As [`expand`](Self::expand); `room` is what variables may still bring into the file.
    pub(super) fn expand_within<'a>(
        &self,
        server: &str,
        mut lookup: impl FnMut(&str) -> Option<Cow<'a, str>>,
        room: &mut usize,
    ) -> Result<Self, Vec<Error>> {
        let mut expansion =
            Expansion { server: server.into(), lookup: &mut lookup, room, is_full: false, errors: Vec::new() };
        let mut entry = self.clone();
        entry.expand_keys(&mut expansion);
        match &mut entry.endpoint {
            Endpoint::Stdio(stdio) => {
                stdio.expand_keys(&mut expansion);
                if let Some(file) = stdio.env_file.take() {
                    expansion.add_file(&file, &mut stdio.env);
                }
            }
            Endpoint::Http(http) => http.expand_keys(&mut expansion),
        }
        if expansion.errors.is_empty() { Ok(entry) } else { Err(expansion.errors) }
    }
}

/// What a lookup is asked for before the name of an input that a user answers.
const INPUT: &str = "input:";

/// What a lookup is asked for before the path of a file with variables.
const ENV_FILE: &str = "envFile:";

/// The replacement of variables in an entry.
pub(super) struct Expansion<'e, 'a> {
    server: Arc<str>,
    lookup: &'e mut dyn FnMut(&str) -> Option<Cow<'a, str>>,
    /// What variables may still bring into the file.
    room: &'e mut usize,
    /// Whether they brought too much, so that the entry is invalid.
    is_full: bool,
    errors: Vec<Error>,
}

impl Expansion<'_, '_> {
    pub(super) fn replace(&mut self, key: &str, value: &mut Box<str>) {
        if self.is_full || !value.contains("${") {
            return;
        }
        let mut expanded = String::with_capacity(value.len());
        let (mut rest, mut missing) = (&**value, BTreeSet::new());
        let mut value_room = MAX_VALUE_EXPANDED;
        while let Some((before, after)) = rest.split_once("${") {
            if let Some(before) = before.strip_suffix('$') {
                expanded.push_str(before);
                expanded.push_str("${");
                rest = after;
                continue;
            }
            let Some((reference, after)) = after.split_once('}') else { break };
            expanded.push_str(before);
            rest = after;
            let (name, default) = match reference.split_once(":-") {
                Some((name, default)) => (name, Some(default)),
                None => (reference, None),
            };
            // An entry names its file in `env_file`, and sends no other one to its server.
            let found = if name.starts_with(ENV_FILE) { None } else { (self.lookup)(name) };
            let found = found.filter(|found| default.is_none() || !found.is_empty());
            let Some(found) = found.or(default.map(Cow::Borrowed)) else {
                missing.insert(name);
                continue;
            };
            if !self.take(key, name, found.len(), &mut value_room) {
                return;
            }
            expanded.push_str(&found);
        }
        self.errors.extend(missing.into_iter().map(|name| Error {
            server: Arc::clone(&self.server),
            key: Some(key.into()),
            problem: match name.strip_prefix(INPUT) {
                Some(_) => Problem::NoInput { input: excerpt(name) },
                None => Problem::NoVariable { variable: excerpt(name) },
            },
        }));
        expanded.push_str(&rest.replace("$${", "${"));
        *value = expanded.into();
    }

    /// Adds the variables of a file to those that are there.
    fn add_file(&mut self, file: &str, env: &mut Texts) {
        const KEY: &str = "env_file";
        if self.is_full || !self.errors.is_empty() {
            return;
        }
        let name = format!("{ENV_FILE}{file}");
        let Some(text) = (self.lookup)(&name) else {
            let problem = Problem::NoEnvFile { file: excerpt(file) };
            self.errors.push(Error { server: Arc::clone(&self.server), key: Some(KEY.into()), problem });
            return;
        };
        if !self.take(KEY, &name, text.len(), &mut { MAX_VALUE_EXPANDED }) {
            return;
        }
        for (name, value) in text.lines().filter_map(variable) {
            env.entry(name.into()).or_insert(value);
        }
    }

    /// Whether there is room for so many bytes; it is smaller after that.
    fn take(&mut self, key: &str, name: &str, bytes: usize, value_room: &mut usize) -> bool {
        let (of_value, of_file) = (value_room.checked_sub(bytes), self.room.checked_sub(bytes));
        if let (Some(of_value), Some(of_file)) = (of_value, of_file) {
            (*value_room, *self.room) = (of_value, of_file);
            return true;
        }
        let (whole, max_bytes) = match of_value {
            None => ("value", MAX_VALUE_EXPANDED),
            Some(_) => ("file", MAX_EXPANDED),
        };
        let problem = Problem::VariablesTooLong { variable: excerpt(name), whole, max_bytes };
        self.errors.push(Error { server: Arc::clone(&self.server), key: Some(key.into()), problem });
        self.is_full = true;
        false
    }
}

/// The variable in a line of a file: `NAME=value`, perhaps after `export`, perhaps in quotes, of which `"` has `\n` for a
/// line break. A comment begins with `#`.
fn variable(line: &str) -> Option<(&str, Box<str>)> {
    let line = line.trim();
    let line = line.strip_prefix("export ").unwrap_or(line);
    let (name, value) = line.split_once('=').filter(|_| !line.starts_with('#'))?;
    let (name, value) = (name.trim(), value.trim());
    let quoted = |quote: char| value.strip_prefix(quote)?.split_once(quote).map(|(text, _)| text);
    let value = match (quoted('"'), quoted('\'')) {
        (Some(text), _) => text.replace("\\n", "\n").into(),
        (None, Some(text)) => text.into(),
        (None, None) => value.split_once(" #").map_or(value, |(text, _)| text.trim_end()).into(),
    };
    (!name.is_empty()).then_some((name, value))
}
