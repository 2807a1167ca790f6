//! Forms of elicitations: the defaults of their fields, and whether an answer matches the form.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde::Serialize;
use serde_json::value::RawValue;

use super::content::{Elicitation, ElicitationKind};
use crate::jsonrpc::{Json, Object};
use crate::validation::{ValidationError, Validator};

/// Why what a user filled in is not found to match its form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "type", content = "value", rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum FormError {
    /// A required field is missing.
    #[error("`{field}` is required")]
    Missing {
        /// Its name.
        field: Box<str>,
    },
    /// The value of a field does not match the field's schema.
    #[error("`{field}`: {message}")]
    Field {
        /// Its name.
        field: Box<str>,
        /// What is wrong, shortened.
        message: Box<str>,
    },
    /// The content as a whole does not match, or could not be checked.
    #[error(transparent)]
    Form(ValidationError),
    /// The content has no form in JSON.
    #[error("the content cannot be serialized: {message}")]
    Content {
        /// Why.
        message: Box<str>,
    },
}

impl FormError {
    /// The field that is wrong, if it is one.
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::Missing { field } | Self::Field { field, .. } => Some(field),
            Self::Form(_) | Self::Content { .. } => None,
        }
    }

    /// Whether the content is known not to match. Otherwise the form could not be checked, and the user need not be asked
    /// again.
    pub const fn is_violation(&self) -> bool {
        match self {
            Self::Missing { .. } | Self::Field { .. } | Self::Content { .. } => true,
            Self::Form(error) => error.is_violation(),
        }
    }
}

impl From<ValidationError> for FormError {
    fn from(error: ValidationError) -> Self {
        let ValidationError::Instance(violation) = &error else { return Self::Form(error) };
        match violation.pointer.strip_prefix('/').and_then(|pointer| pointer.split('/').next()) {
            Some(field) => Self::Field {
                field: field.replace("~1", "/").replace("~0", "~").into(),
                message: violation.message.clone(),
            },
            None => Self::Form(error),
        }
    }
}

impl Elicitation<'_> {
    /// Checks what a user filled in against the form (specification 2026-07-28, "Elicitation"), before it is sent: the
    /// client itself checks nothing. `content` is what [`accept`](Self::accept) takes. Fields that it leaves out count as
    /// their defaults, unless [`form_defaults`](Self::form_defaults) is off. What is no form matches.
    ///
    /// # Errors
    ///
    /// A required field is missing, or what the validator found.
    ///
    /// ```
    /// # #[cfg(feature = "validate")] fn main() {
    /// use mcp_proto::protocol::content::{Elicitation, FormError};
    /// use mcp_proto::validation::JsonSchema;
    /// use serde_json::json;
    /// # let params = serde_json::value::to_raw_value(&json!({"message": "How old?", "requestedSchema":
    /// #     {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}})).unwrap();
    ///
    /// let asked = Elicitation::read(&params);
    /// let error = asked.check(&JsonSchema::default(), &json!({"age": "ten"})).unwrap_err();
    /// assert_eq!(error.field(), Some("age"));
    /// let error = asked.check(&JsonSchema::default(), &json!({})).unwrap_err();
    /// assert_eq!(error, FormError::Missing { field: "age".into() });
    /// assert_eq!(asked.check(&JsonSchema::default(), &json!({"age": 10})), Ok(()));
    /// # }
    /// # #[cfg(not(feature = "validate"))] fn main() {}
    /// ```
    pub fn check(&self, validator: &dyn Validator, content: &impl Serialize) -> Result<(), FormError> {
        let ElicitationKind::Form(fields) = &self.kind else { return Ok(()) };
        let Some(schema) = schema(Some(self.raw)) else { return Ok(()) };
        let answer = Self::accept(content).map_err(|error| FormError::Content { message: error.to_string().into() })?;
        let defaults = if self.form_defaults { Defaults::read(Some(self.raw)) } else { Defaults::default() };
        let filled = defaults.fill(&answer);
        let content = Json::trusted(&filled).member("content").unwrap_or(Json::EMPTY_OBJECT);
        let mut given = BTreeSet::new();
        content.members(|name, _| {
            given.insert(String::from(name));
        });
        match fields.iter().find(|field| field.is_required && !given.contains(&*field.name)) {
            Some(missing) => Err(FormError::Missing { field: (&*missing.name).into() }),
            None => Ok(validator.validate(schema.raw(), content.raw())?),
        }
    }
}

/// The defaults of a form's fields (SEP-1034): names and values as JSON.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Defaults(
    #[cfg_attr(feature = "snapshot", serde(deserialize_with = "crate::jsonrpc::form::json_members"))]
    Vec<(Box<str>, Box<str>)>,
);

/// Maximum number of fields of a form that are read.
const FIELDS: usize = 1024;

impl Defaults {
    /// The defaults in the parameters of `elicitation/create`. Only a form has any. Of properties with one name, the last
    /// one counts.
    pub(crate) fn read(params: Option<&RawValue>) -> Self {
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

    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().fold(0, |sum, (name, value)| sum.saturating_add(name.len()).saturating_add(value.len()))
    }

    /// The user's response. Missing fields of an accepted form get their defaults.
    pub(crate) fn fill<'a>(&self, answer: &'a RawValue) -> Cow<'a, str> {
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
pub(crate) fn accepts(response: Json<'_>) -> bool {
    response.member("action").and_then(Json::as_string).as_deref() == Some("accept")
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
