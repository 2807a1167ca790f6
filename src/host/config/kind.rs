//! The kinds of values that keys have: how each is read, written, shown, compared and expanded.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use serde::{Serialize, Serializer};

use super::entry::{Auth, Filter as Prepared, Texts, path};
use super::expand::Expansion;
use super::keys::{Keys as _, OAuth, Sampling, ToolOverride, ToolPolicy, names};
use super::others::{Host, Transport};
use super::read::{DAY, Filter, HOUR, Members, Reader, Value, excerpt};
use super::{OAuthGrant, Oddity, Problem};
use crate::host::glob;
use crate::host::results::MIN_BYTES;
use crate::text::shown;

/// What a key has for a value.
pub(super) trait Kind<T> {
    /// Other keys that add to the value.
    fn others(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether an entry is written with this key even if its value is the default.
    fn is_required(&self) -> bool {
        false
    }

    /// `None` if the key is absent, or wrong, which is reported.
    fn read(&self, reader: &mut Reader<'_>, members: &Members<'_>, key: &'static str) -> Option<T>;

    fn written<'a>(&'a self, value: &'a T) -> impl Serialize + 'a;

    /// The value in a `Debug`, without secrets.
    fn shown<'a>(&'a self, value: &'a T) -> impl fmt::Debug + 'a;

    /// Adds the paths of keys whose values differ.
    fn compare(&self, old: &T, new: &T, path: &'static str, keys: &mut Vec<&'static str>)
    where
        T: PartialEq,
    {
        if old != new {
            keys.push(path);
        }
    }

    /// Replaces variables, in values that may have some.
    fn expand(&self, _value: &mut T, _path: &str, _expansion: &mut Expansion<'_, '_>) {}
}

/// Written and shown as it is.
macro_rules! as_it_is {
    ($T:ty) => {
        as_it_is!(written $T);
        as_it_is!(shown $T);
    };
    (written $T:ty) => {
        fn written<'a>(&'a self, value: &'a $T) -> impl Serialize + 'a {
            value
        }
    };
    (shown $T:ty) => {
        fn shown<'a>(&'a self, value: &'a $T) -> impl fmt::Debug + 'a {
            value
        }
    };
}

/// A value that may be absent.
pub(super) struct Opt<K>(pub(super) K);

impl<T: PartialEq, K: Kind<T>> Kind<Option<T>> for Opt<K> {
    fn others(&self) -> &'static [&'static str] {
        self.0.others()
    }

    fn read(&self, reader: &mut Reader<'_>, members: &Members<'_>, key: &'static str) -> Option<Option<T>> {
        self.0.read(reader, members, key).map(Some)
    }

    fn written<'a>(&'a self, value: &'a Option<T>) -> impl Serialize + 'a {
        value.as_ref().map(|value| self.0.written(value))
    }

    fn shown<'a>(&'a self, value: &'a Option<T>) -> impl fmt::Debug + 'a {
        value.as_ref().map(|value| self.0.shown(value))
    }

    fn expand(&self, value: &mut Option<T>, path: &str, expansion: &mut Expansion<'_, '_>) {
        if let Some(value) = value {
            self.0.expand(value, path, expansion);
        }
    }
}

/// A value whose `Debug` is not shown.
pub(super) struct Secret<K>(pub(super) K);

impl<T, K: Kind<T>> Kind<T> for Secret<K> {
    fn read(&self, reader: &mut Reader<'_>, members: &Members<'_>, key: &'static str) -> Option<T> {
        self.0.read(reader, members, key)
    }

    fn written<'a>(&'a self, value: &'a T) -> impl Serialize + 'a {
        self.0.written(value)
    }

    fn shown<'a>(&'a self, _: &'a T) -> impl fmt::Debug + 'a {
        format_args!("…")
    }
}

/// A value with variables.
pub(super) struct Expanded<K>(pub(super) K);

impl<T: Expand, K: Kind<T>> Kind<T> for Expanded<K> {
    fn others(&self) -> &'static [&'static str] {
        self.0.others()
    }

    fn is_required(&self) -> bool {
        self.0.is_required()
    }

    fn read(&self, reader: &mut Reader<'_>, members: &Members<'_>, key: &'static str) -> Option<T> {
        self.0.read(reader, members, key)
    }

    fn written<'a>(&'a self, value: &'a T) -> impl Serialize + 'a {
        self.0.written(value)
    }

    fn shown<'a>(&'a self, value: &'a T) -> impl fmt::Debug + 'a {
        self.0.shown(value)
    }

    fn expand(&self, value: &mut T, path: &str, expansion: &mut Expansion<'_, '_>) {
        value.expand(path, expansion);
    }
}

/// Texts in which variables are replaced.
pub(super) trait Expand {
    fn expand(&mut self, path: &str, expansion: &mut Expansion<'_, '_>);
}

impl Expand for Box<str> {
    fn expand(&mut self, path: &str, expansion: &mut Expansion<'_, '_>) {
        expansion.replace(path, self);
    }
}

impl Expand for Vec<Box<str>> {
    fn expand(&mut self, path: &str, expansion: &mut Expansion<'_, '_>) {
        self.iter_mut().for_each(|text| expansion.replace(path, text));
    }
}

impl Expand for Texts {
    fn expand(&mut self, key: &str, expansion: &mut Expansion<'_, '_>) {
        self.iter_mut().for_each(|(name, text)| expansion.replace(&path(key, &excerpt(name)), text));
    }
}

/// A string that is not empty; what it is, for a message.
pub(super) struct Text(pub(super) &'static str);

impl Kind<Box<str>> for Text {
    fn read(&self, reader: &mut Reader<'_>, members: &Members<'_>, key: &'static str) -> Option<Box<str>> {
        reader.text(members, key, self.0)
    }

    as_it_is!(Box<str>);
}

/// A URL, of which a `Debug` shows neither user information nor query.
pub(super) struct Link(pub(super) &'static str);

impl Kind<Box<str>> for Link {
    fn read(&self, reader: &mut Reader<'_>, members: &Members<'_>, key: &'static str) -> Option<Box<str>> {
        reader.text(members, key, self.0)
    }

    as_it_is!(written Box<str>);

    fn shown<'a>(&'a self, value: &'a Box<str>) -> impl fmt::Debug + 'a {
        shown(value)
    }
}

/// One of a few words, with the text of each, and a list of them for a message.
pub(super) struct Words<T: 'static>(pub(super) &'static [T], pub(super) fn(T) -> &'static str, pub(super) &'static str);

impl<T: Copy + fmt::Debug> Kind<T> for Words<T> {
    fn read(&self, reader: &mut Reader<'_>, members: &Members<'_>, key: &'static str) -> Option<T> {
        let Self(all, text, expected) = *self;
        let word = reader.text(members, key, expected)?;
        let found = all.iter().copied().find(|known| text(*known) == &*word);
        if let (None, Some((at, _))) = (found, members.get(key)) {
            reader.warn(Some(at), Oddity::UnknownWord { word: excerpt(&word) });
        }
        found
    }

    fn written<'a>(&'a self, value: &'a T) -> impl Serialize + 'a {
        (self.1)(*value)
    }

    as_it_is!(shown T);
}

/// A boolean.
pub(super) struct Flag;

impl Kind<bool> for Flag {
    fn read(&self, reader: &mut Reader<'_>, members: &Members<'_>, key: &'static str) -> Option<bool> {
        members.get(key).and_then(|(at, value)| reader.boolean(&at, value))
    }

    as_it_is!(bool);
}

/// Whether a server is used. Many hosts have a key for the opposite.
pub(super) struct Enabled;

impl Enabled {
    const OPPOSITE: &str = "disabled";
}

impl Kind<bool> for Enabled {
    fn others(&self) -> &'static [&'static str] {
        &[Self::OPPOSITE]
    }

    fn read(&self, reader: &mut Reader<'_>, members: &Members<'_>, key: &'static str) -> Option<bool> {
        let (enabled, disabled) = (Flag.read(reader, members, key), Flag.read(reader, members, Self::OPPOSITE));
        Some(enabled.unwrap_or(true) && !disabled.unwrap_or(false))
    }

    as_it_is!(bool);
}

/// A whole number.
pub(super) struct Count;

impl<N: TryFrom<u64> + Serialize + fmt::Debug> Kind<N> for Count {
    fn read(&self, reader: &mut Reader<'_>, members: &Members<'_>, key: &'static str) -> Option<N> {
        reader.count(members, key)
    }

    as_it_is!(N);
}

/// A bound of bytes, where 0 is none.
pub(super) struct MaxResultBytes;

impl Kind<usize> for MaxResultBytes {
    fn read(&self, reader: &mut Reader<'_>, members: &Members<'_>, key: &'static str) -> Option<usize> {
        let max = reader.count(members, key).filter(|max| *max > 0)?;
        if let (true, Some((at, _))) = (max < MIN_BYTES, members.get(key)) {
            reader.warn(Some(at), Oddity::BelowLeast { least: MIN_BYTES });
        }
        Some(max)
    }

    as_it_is!(usize);
}

/// Written as seconds, as an integer if they are whole.
macro_rules! in_seconds {
    () => {
        fn written<'a>(&'a self, value: &'a Duration) -> impl Serialize + 'a {
            InSeconds(*value)
        }

        as_it_is!(shown Duration);
    };
}

struct InSeconds(Duration);

impl Serialize for InSeconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.subsec_nanos() {
            0 => serializer.serialize_u64(self.0.as_secs()),
            _ => serializer.serialize_f64(self.0.as_secs_f64()),
        }
    }
}

/// How long something may take.
pub(super) struct Seconds;

impl Kind<Duration> for Seconds {
    fn read(&self, reader: &mut Reader<'_>, members: &Members<'_>, key: &'static str) -> Option<Duration> {
        reader.seconds(members, key, HOUR)
    }

    in_seconds!();
}

/// A time, where 0 and `false` stand for zero.
pub(super) struct Interval;

impl Kind<Duration> for Interval {
    fn read(&self, reader: &mut Reader<'_>, members: &Members<'_>, key: &'static str) -> Option<Duration> {
        match members.get(key)?.1 {
            Value::Bool(false) => Some(Duration::ZERO),
            Value::Number { text, .. } | Value::Text(text) if text.trim().parse() == Ok(0.0) => Some(Duration::ZERO),
            Value::Null
            | Value::Bool(true)
            | Value::Number { .. }
            | Value::Text(_)
            | Value::List(_)
            | Value::Map(_) => reader.seconds(members, key, DAY),
        }
    }

    in_seconds!();
}

/// A time, where 0 and `false` stand for no limit.
pub(super) struct Lifetime;

impl Kind<Duration> for Lifetime {
    fn read(&self, reader: &mut Reader<'_>, members: &Members<'_>, key: &'static str) -> Option<Duration> {
        Interval.read(reader, members, key).filter(|limit| !limit.is_zero())
    }

    in_seconds!();
}

/// A list of strings; a single string is a list of one.
pub(super) struct ListOrText;

impl Kind<Vec<Box<str>>> for ListOrText {
    fn read(&self, reader: &mut Reader<'_>, members: &Members<'_>, key: &'static str) -> Option<Vec<Box<str>>> {
        members.get(key).map(|(at, value)| reader.elements(&at, value, true))
    }

    as_it_is!(Vec<Box<str>>);
}

/// The program to start. A list has its first arguments, too.
pub(super) struct Program;

impl Kind<Box<str>> for Program {
    fn read(&self, reader: &mut Reader<'_>, members: &Members<'_>, key: &'static str) -> Option<Box<str>> {
        const EXPECTED: &str = "the program to start";
        let (at, value) = members.get(key)?;
        let Value::List(_) = value else { return reader.text(members, key, EXPECTED) };
        let command = reader.elements(&at, value, false).into_iter().next();
        let command = command.filter(|command| !command.trim().is_empty());
        command.or_else(|| reader.report_problem(Some(&at), Problem::Empty { expected: EXPECTED }))
    }

    as_it_is!(Box<str>);
}

/// The arguments of a program, after those in a list under `command`.
pub(super) struct Arguments;

impl Kind<Vec<Box<str>>> for Arguments {
    fn read(&self, reader: &mut Reader<'_>, members: &Members<'_>, key: &'static str) -> Option<Vec<Box<str>>> {
        let mut arguments = match members.get("command") {
            // Problems in it are those of `command`.
            Some((_, Value::List(parts))) => parts.iter().skip(1).filter_map(|part| reader.plain(part)).collect(),
            Some(_) | None => Vec::new(),
        };
        arguments.extend(members.get(key).map(|(at, value)| reader.elements(&at, value, false)).unwrap_or_default());
        Some(arguments)
    }

    as_it_is!(written Vec<Box<str>>);

    fn shown<'a>(&'a self, value: &'a Vec<Box<str>>) -> impl fmt::Debug + 'a {
        value.len()
    }
}

/// Texts by name; a `Debug` shows their names.
macro_rules! names_shown {
    () => {
        as_it_is!(written Texts);

        fn shown<'a>(&'a self, value: &'a Texts) -> impl fmt::Debug + 'a {
            value.keys().collect::<Vec<_>>()
        }
    };
}

/// Environment variables, of which some have their values where the host keeps secrets.
pub(super) struct Variables;

impl Variables {
    const OF_HOST: &str = "env_keys";
}

impl Kind<Texts> for Variables {
    fn others(&self) -> &'static [&'static str] {
        &[Self::OF_HOST]
    }

    fn read(&self, reader: &mut Reader<'_>, members: &Members<'_>, key: &'static str) -> Option<Texts> {
        let mut env = reader.texts(members, key);
        if let Some((at, names)) = members.get(Self::OF_HOST) {
            for name in reader.elements(&at, names, false) {
                if let Some(reference) = reader.reference(&at, &name) {
                    env.entry(name).or_insert(reference.into());
                }
            }
        }
        Some(env)
    }

    names_shown!();
}

/// Headers, of which some have their values in variables.
pub(super) struct Headers;

impl Headers {
    const VARIABLES: &str = "env_http_headers";
    const BEARER: &str = "bearer_token_env_var";

    /// Adds a header whose value is in a variable, after a word.
    fn add(
        reader: &mut Reader<'_>,
        (headers, names): (&mut Texts, &mut BTreeMap<String, Box<str>>),
        key: &str,
        (name, before): (Box<str>, &str),
        variable: &str,
    ) {
        if let Some(other) = names.insert(name.to_ascii_lowercase(), name.clone()) {
            let other = path("headers", &excerpt(&other)).into();
            return reader.report_problem(Some(key), Problem::SameMeaning { other }).unwrap_or_default();
        }
        if let Some(reference) = reader.reference(key, variable) {
            headers.insert(name, format!("{before}{reference}").into());
        }
    }
}

impl Kind<Texts> for Headers {
    fn others(&self) -> &'static [&'static str] {
        &[Self::VARIABLES, Self::BEARER]
    }

    fn read(&self, reader: &mut Reader<'_>, members: &Members<'_>, key: &'static str) -> Option<Texts> {
        let mut headers = reader.texts(members, key);
        // Names of headers differ by more than case.
        let mut names = headers.keys().map(|name| (name.to_ascii_lowercase(), name.clone())).collect();
        if let Some((at, _)) = members.get(Self::VARIABLES) {
            for (name, variable) in reader.texts(members, Self::VARIABLES) {
                let at = path(&at, &excerpt(&name));
                Self::add(reader, (&mut headers, &mut names), &at, (name, ""), &variable);
            }
        }
        let bearer = reader.text(members, Self::BEARER, "the name of a variable");
        if let (Some((at, _)), Some(variable)) = (members.get(Self::BEARER), bearer) {
            Self::add(reader, (&mut headers, &mut names), &at, ("Authorization".into(), "Bearer "), &variable);
        }
        Some(headers)
    }

    names_shown!();
}

/// A value that an entry is written with even if it is the default.
pub(super) struct Required<K>(pub(super) K);

impl<T, K: Kind<T>> Kind<T> for Required<K> {
    fn is_required(&self) -> bool {
        true
    }

    fn read(&self, reader: &mut Reader<'_>, members: &Members<'_>, key: &'static str) -> Option<T> {
        self.0.read(reader, members, key)
    }

    fn written<'a>(&'a self, value: &'a T) -> impl Serialize + 'a {
        self.0.written(value)
    }

    fn shown<'a>(&'a self, value: &'a T) -> impl fmt::Debug + 'a {
        self.0.shown(value)
    }
}

/// Whether a server is tried with the older transport: what `transport` and `type` say beyond `command` and `url`.
pub(super) struct Sse;

impl Sse {
    const OTHER: &str = "type";

    /// The transport that a key names. `command` or `url` already determines which ones it may be.
    fn transport(reader: &mut Reader<'_>, members: &Members<'_>, key: &'static str) -> Option<Transport> {
        let word = reader.text(members, key, "`stdio` or `http`")?;
        let (at, _) = members.get(key)?;
        let Some(transport) = Transport::named(&word) else {
            reader.warn(Some(at), Oddity::UnknownWord { word: excerpt(&word) });
            return None;
        };
        if (transport == Transport::Program) != members.get("command").is_some() {
            reader.warn(Some(at), Oddity::Contradiction);
        }
        Some(transport)
    }
}

impl Kind<bool> for Sse {
    fn others(&self) -> &'static [&'static str] {
        &[Self::OTHER]
    }

    fn read(&self, reader: &mut Reader<'_>, members: &Members<'_>, key: &'static str) -> Option<bool> {
        Some([Self::OTHER, key].map(|key| Self::transport(reader, members, key)).contains(&Some(Transport::Sse)))
    }

    fn written<'a>(&'a self, value: &'a bool) -> impl Serialize + 'a {
        if *value { "sse" } else { "http" }
    }

    as_it_is!(shown bool);
}

/// How the user authenticates.
pub(super) struct Authentication;

impl Kind<Auth> for Authentication {
    fn read(&self, reader: &mut Reader<'_>, members: &Members<'_>, key: &'static str) -> Option<Auth> {
        if let (Host::Mcp, None, Some((_, Value::Map(_)))) = (reader.host, members.get(key), members.get("oauth")) {
            return Some(Auth::OAuth);
        }
        let word = reader.text(members, key, "`oauth`")?;
        if &*word == Auth::OAuth.as_str() {
            return Some(Auth::OAuth);
        }
        reader.warn(Some(key.into()), Oddity::UnknownAuth);
        Some(Auth::Other(word))
    }

    fn written<'a>(&'a self, value: &'a Auth) -> impl Serialize + 'a {
        value.as_str()
    }

    as_it_is!(shown Auth);
}

/// How a token is obtained.
pub(super) struct Registration;

impl Kind<Box<OAuth>> for Registration {
    fn read(&self, reader: &mut Reader<'_>, members: &Members<'_>, key: &'static str) -> Option<Box<OAuth>> {
        // Opencode turns it off by `false`.
        if let Some((_, Value::Bool(false))) = members.get(key) {
            return None;
        }
        let auth = members.get("auth").and_then(|(_, auth)| auth.as_text());
        let is_off = auth.map_or(reader.host != Host::Mcp, |auth| &*auth != Auth::OAuth.as_str());
        let members = reader.map(members, key, &OAuth::keys())?;
        let oauth = OAuth::read(reader, &members);
        if is_off {
            reader.warn(Some(key.into()), Oddity::NoEffect { needs: "auth: oauth" });
        }
        if oauth.client_secret.is_some() && oauth.client_id.is_none() {
            reader.warn(Some("oauth.client_secret".into()), Oddity::NoEffect { needs: "oauth.client_id" });
        }
        if oauth.client_id.is_some() && oauth.issuer.is_none() {
            if oauth.client_secret.is_some() {
                return reader.report_problem(Some("oauth.client_secret"), Problem::NoIssuer);
            }
            if oauth.grant == OAuthGrant::ClientCredentials {
                return reader.report_problem(Some("oauth.grant"), Problem::NoIssuer);
            }
        }
        Some(oauth.into())
    }

    fn expand(&self, value: &mut Box<OAuth>, _: &str, expansion: &mut Expansion<'_, '_>) {
        value.expand_keys(expansion);
    }

    as_it_is!(Box<OAuth>);
}

/// Limits on sampling. `false` allows none.
pub(super) struct SamplingLimits;

impl Kind<Box<Sampling>> for SamplingLimits {
    fn read(&self, reader: &mut Reader<'_>, members: &Members<'_>, key: &'static str) -> Option<Box<Sampling>> {
        let (at, value) = members.get(key)?;
        if matches!(value, Value::Bool(_) | Value::Text(_) | Value::Number { .. }) {
            let enabled = reader.boolean(&at, value).unwrap_or(true);
            return Some(Sampling { enabled, ..Sampling::default() }.into());
        }
        let members = reader.map(members, key, &Sampling::keys())?;
        Some(Sampling::read(reader, &members).into())
    }

    as_it_is!(Box<Sampling>);
}

/// Patterns that exclude tools beside names of those to include, at most.
const GLOBS: usize = 256;

/// What a model sees of the tools, and the filters of other hosts.
pub(super) struct Tools;

impl Tools {
    /// What the key says.
    fn own(reader: &mut Reader<'_>, members: &Members<'_>, key: &'static str) -> ToolPolicy {
        // Copilot has a list here.
        if let Some((at, value @ Value::List(_))) = members.get(key) {
            return ToolPolicy { include: all_or(reader.elements(&at, value, false)), ..ToolPolicy::default() };
        }
        let Some(members) = reader.map(members, key, &ToolPolicy::keys()) else { return ToolPolicy::default() };
        let policy = ToolPolicy::read(reader, &members);
        // A template of all keys, copied: who wants no tool has no use for `exclude`.
        if let (Some((at, Value::List(list))), Some(_)) = (members.get("include"), members.get("exclude"))
            && list.is_empty()
        {
            reader.warn(Some(at), Oddity::NoTools);
        }
        policy
    }

    /// Adds the filters in keys of other hosts. No tool that one of them excludes is used, whatever includes it.
    fn add_filters(reader: &mut Reader<'_>, members: &Members<'_>, key: &'static str, policy: &mut ToolPolicy) {
        let filters = members.filters.iter().filter(|filter| *filter.value != Value::Null);
        let mut include_key: Option<&str> = policy.include.as_ref().map(|_| match members.get(key) {
            Some((_, Value::List(_))) => key,
            Some(_) | None => "tools.include",
        });
        let mut has_any = false;
        for Filter { includes, at, value } in filters {
            has_any = true;
            let patterns = reader.elements(at, value, true);
            match (includes, include_key) {
                (false, _) => policy.exclude.extend(patterns),
                (true, None) => {
                    include_key = Some(at);
                    policy.include = all_or(patterns);
                }
                (true, Some(other)) => {
                    reader.report_problem(Some(at), Problem::SameMeaning { other: other.into() }).unwrap_or_default()
                }
            }
        }
        if !has_any || policy.exclude.is_empty() {
            return;
        }
        // A policy has either of them.
        policy.include = policy.include.take().and_then(all_or);
        let ToolPolicy { include: Some(include), exclude, .. } = policy else { return };
        let globs = exclude.iter().filter(|pattern| glob::is_glob(pattern)).count();
        if globs > GLOBS || include.iter().any(|pattern| glob::is_glob(pattern)) {
            return reader.report_problem(include_key, Problem::MixedFilters).unwrap_or_default();
        }
        let excluding = ToolPolicy { exclude: core::mem::take(exclude), ..ToolPolicy::default() };
        let filter = Prepared::new(&excluding);
        include.retain(|tool| filter.admits(tool));
    }
}

/// Tools to include, of which `*` is all.
fn all_or(patterns: Vec<Box<str>>) -> Option<Vec<Box<str>>> {
    (!patterns.iter().any(|pattern| &**pattern == "*")).then_some(patterns)
}

impl Kind<ToolPolicy> for Tools {
    fn read(&self, reader: &mut Reader<'_>, members: &Members<'_>, key: &'static str) -> Option<ToolPolicy> {
        let mut policy = Self::own(reader, members, key);
        Self::add_filters(reader, members, key, &mut policy);
        Some(policy)
    }

    fn compare(&self, old: &ToolPolicy, new: &ToolPolicy, _: &'static str, keys: &mut Vec<&'static str>) {
        old.compare(new, keys);
    }

    as_it_is!(ToolPolicy);
}

/// What a model sees of single tools.
pub(super) struct Overrides;

type ByTool = BTreeMap<Box<str>, ToolOverride>;

impl Kind<ByTool> for Overrides {
    fn read(&self, reader: &mut Reader<'_>, members: &Members<'_>, key: &'static str) -> Option<ByTool> {
        let (at, value) = members.get(key)?;
        let Value::Map(map) = value else { return reader.kind(&at, value, "a map of tools by name") };
        let mut overrides = BTreeMap::new();
        for (tool, value) in map {
            let at = path(&at, &excerpt(tool));
            let known = match value {
                Value::Map(known) => known,
                Value::Null => continue,
                Value::Bool(_) | Value::Number { .. } | Value::Text(_) | Value::List(_) => {
                    reader.kind::<()>(&at, value, "a map of keys");
                    continue;
                }
            };
            let members = reader.members(known, &format!("{at}."), &names(&ToolOverride::keys()));
            let own = ToolOverride::read(reader, &members);
            if overrides.insert(tool.clone(), own).is_some() {
                reader.warn(Some(at), Oddity::Twice);
            }
        }
        // One without a value replaces nothing.
        overrides.retain(|_, own| *own != ToolOverride::default());
        Some(overrides)
    }

    as_it_is!(ByTool);
}
