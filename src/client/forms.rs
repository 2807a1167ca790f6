use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::CommandError;
use crate::jsonrpc::{Json, Object};
use crate::protocol::method;
use crate::validation::{ValidationError, Validator};

/// The defaults of a form's fields (SEP-1034): names and values as JSON.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Defaults(
    #[cfg_attr(feature = "snapshot", serde(deserialize_with = "crate::jsonrpc::form::json_members"))]
    Vec<(Box<str>, Box<str>)>,
);

/// Maximum number of fields of a form that are read.
const FIELDS: usize = 1024;

impl Defaults {
    /// The defaults in the parameters of `elicitation/create`. Only a form has any. Of properties with one name, the last
    /// one counts.
    pub(super) fn read(params: Option<&RawValue>) -> Self {
        let (mut defaults, mut places) = (Vec::<Option<(Box<str>, Box<str>)>>::new(), BTreeMap::new());
        let properties = schema(params).and_then(|schema| schema.member("properties")).unwrap_or(Json::EMPTY_ARRAY);
        properties.raw_members(|name, property| {
            let Some(decoded) = name.as_string() else { return };
            let default = property.member("default").filter(|default| has_type(property, *default));
            let default = default.map(|default| (Box::from(name.text()), Box::from(default.text())));
            if let Some(earlier) = places.get(&*decoded).and_then(|place: &usize| defaults.get_mut(*place)) {
                *earlier = default;
            } else if default.is_some() && defaults.len() < FIELDS {
                places.insert(decoded.into_owned(), defaults.len());
                defaults.push(default);
            }
        });
        Self(defaults.into_iter().flatten().collect())
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.iter().fold(0, |sum, (name, value)| sum.saturating_add(name.len()).saturating_add(value.len()))
    }

    /// The user's response. Missing fields of an accepted form get their defaults.
    pub(super) fn fill<'a>(&self, answer: &'a RawValue) -> Cow<'a, str> {
        let json = Json::from(answer);
        let accepted = accepts(json);
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

/// The schema in the parameters of `elicitation/create`, if it is a form.
fn schema(params: Option<&RawValue>) -> Option<Json<'_>> {
    let params = Json::from(params?);
    let is_form = params.member("mode").is_none_or(|mode| mode.as_string().as_deref() == Some("form"));
    params.member("requestedSchema").filter(|_| is_form)
}

/// Whether the user accepted.
pub(super) fn accepts(response: Json<'_>) -> bool {
    response.member("action").and_then(Json::as_string).as_deref() == Some("accept")
}

/// Checks the content of a response against the form's schema, with the form's defaults if `fill` is set.
pub(super) fn check(
    validator: &dyn Validator,
    params: Option<&RawValue>,
    response: &RawValue,
    fill: bool,
) -> Result<(), ValidationError> {
    let Some(schema) = schema(params).filter(|_| accepts(Json::from(response))) else { return Ok(()) };
    let defaults = if fill { Defaults::read(params) } else { Defaults::default() };
    let filled = defaults.fill(response);
    let content = Json::trusted(&filled).member("content").unwrap_or(Json::EMPTY_OBJECT);
    validator.validate(schema.raw(), content.raw())
}

/// The responses to the inputs that a result requires and the engine does not know, with the defaults of their forms if
/// `fill` is set.
pub(super) fn fill_required<'a>(
    result: &RawValue,
    known: &[(Box<str>, Box<str>)],
    given: &BTreeMap<&'a str, &'a RawValue>,
    fill: bool,
) -> Result<Vec<(&'a str, Cow<'a, str>)>, CommandError> {
    let known: BTreeSet<&str> = known.iter().map(|(key, _)| &**key).collect();
    let (mut filled, mut missing) = (Vec::new(), None);
    // One pass over the required inputs, however many responses there are.
    let required = Json::from(result).member("inputRequests");
    required.unwrap_or(Json::EMPTY_ARRAY).members(|key, wanted| match given.get_key_value(key) {
        Some((key, response)) => {
            let method = wanted.member("method").and_then(Json::as_string);
            let is_form = fill && method.as_deref() == Some(method::ELICITATION);
            let params = wanted.member("params").filter(|_| is_form).map(Json::raw);
            filled.push((*key, Defaults::read(params).fill(response)));
        }
        None if known.contains(key) => {}
        None => missing = missing.take().or_else(|| Some(Box::from(key))),
    });
    if let Some(key) = missing {
        return Err(CommandError::MissingInput { key });
    }
    let required: BTreeSet<&str> = filled.iter().map(|(key, _)| *key).collect();
    match given.keys().find(|key| !required.contains(**key) || known.contains(**key)) {
        Some(key) => Err(CommandError::UnknownInput { key: (*key).into() }),
        None => Ok(filled),
    }
}

/// Whether a default has the type that its field requires.
fn has_type(property: Json<'_>, default: Json<'_>) -> bool {
    let text = default.text();
    let is_number = matches!(default.first(), b'-' | b'0'..=b'9');
    match property.member("type").and_then(Json::as_string).as_deref() {
        Some("string") => default.first() == b'"',
        Some("boolean") => matches!(text, "true" | "false"),
        Some("number") => is_number,
        Some("integer") => is_number && !text.strip_suffix(".0").unwrap_or(text).contains(['.', 'e', 'E']),
        Some("array") => default.first() == b'[',
        Some(_) | None => false,
    }
}
