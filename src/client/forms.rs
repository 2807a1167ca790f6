use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use crate::jsonrpc::{Json, Object};

/// The defaults of a form's fields (SEP-1034): names and values as JSON.
#[derive(Clone, Debug, Default)]
pub(super) struct Defaults(Vec<(Box<str>, Box<str>)>);

/// Maximum number of fields of a form that are read.
const FIELDS: usize = 1024;

impl Defaults {
    /// The defaults in the parameters of `elicitation/create`.
    pub(super) fn read(params: Option<&RawValue>) -> Self {
        let schema = params.and_then(|params| Json::from(params).member("requestedSchema"));
        let mut defaults = Vec::new();
        let properties = schema.and_then(|schema| schema.member("properties")).unwrap_or(Json::EMPTY_ARRAY);
        properties.raw_members(|name, property| {
            if let Some(default) = property.member("default")
                && defaults.len() < FIELDS
            {
                defaults.push((name.text().into(), default.text().into()));
            }
        });
        Self(defaults)
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.iter().fold(0, |sum, (name, value)| sum.saturating_add(name.len()).saturating_add(value.len()))
    }

    /// The user's response. Missing fields of an accepted form get their defaults.
    pub(super) fn fill<'a>(&self, answer: &'a RawValue) -> Cow<'a, str> {
        let json = Json::from(answer);
        let accepted = json.member("action").and_then(Json::as_string).as_deref() == Some("accept");
        let given = json.member("content").filter(|content| content.is_object());
        let mut names = BTreeSet::new();
        given.unwrap_or(Json::EMPTY_ARRAY).members(|name, _| {
            names.insert(String::from(name));
        });
        let is_left_out = |name: &str| Json::trusted(name).as_string().is_some_and(|name| !names.contains(&*name));
        let mut missing = self.0.iter().filter(|(name, _)| accepted && is_left_out(name)).peekable();
        if missing.peek().is_none() {
            return Cow::Borrowed(answer.get());
        }
        let mut out = Vec::new();
        let mut filled = Object::begin(&mut out);
        json.raw_members(|name, value| {
            if name.as_string().as_deref() != Some("content") {
                filled.member(name.text(), value.text());
            }
        });
        filled.object("content", |content| {
            given.unwrap_or(Json::EMPTY_ARRAY).raw_members(|name, value| content.member(name.text(), value.text()));
            for (name, value) in missing {
                content.member(name, value);
            }
        });
        filled.end();
        String::from_utf8(out).map_or(Cow::Borrowed(answer.get()), Cow::Owned)
    }
}
