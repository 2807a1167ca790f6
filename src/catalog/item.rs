use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::mirror::mirrored;
use crate::jsonrpc::{Json, Scan};
use crate::protocol::Family;
use crate::protocol::content::{Annotations, Icon, ToolResult};
use crate::validation::{ValidationError, Validator};

/// The required type of an item's member.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    String,
    Object,
    Array,
    Number,
}

impl Shape {
    fn fits(self, value: Json<'_>) -> bool {
        match value.first() {
            b'"' => self == Self::String,
            b'{' => self == Self::Object,
            b'[' => self == Self::Array,
            b'-' | b'0'..=b'9' => self == Self::Number,
            _ => false,
        }
    }
}

/// The type that the schemas require of a member; `None` if they do not define the member.
fn shape(family: Family, name: &str) -> Option<Shape> {
    Some(match (family, name) {
        (_, "name" | "title" | "description") => Shape::String,
        (_, "icons") => Shape::Array,
        (_, "_meta") => Shape::Object,
        (Family::Tools, "inputSchema" | "outputSchema" | "annotations" | "execution") => Shape::Object,
        (Family::Prompts, "arguments") => Shape::Array,
        (Family::Resources, "uri") | (Family::ResourceTemplates, "uriTemplate") => Shape::String,
        (Family::Resources | Family::ResourceTemplates, "mimeType") => Shape::String,
        (Family::Resources | Family::ResourceTemplates, "annotations") => Shape::Object,
        (Family::Resources, "size") => Shape::Number,
        _ => return None,
    })
}

/// Whether an item is usable, by its members' names and types.
pub(super) enum Judgement<'a> {
    /// The item is kept; `flaw` describes the first member that was ignored. `mirrored` tells whether a tool's schema may
    /// name arguments that HTTP headers repeat.
    Kept { key: Cow<'a, str>, flaw: Option<Cow<'static, str>>, mirrored: bool },
    /// The item is left out, in general or over HTTP only.
    LeftOut { key: Option<Cow<'a, str>>, why: Cow<'static, str> },
}

/// Takes the next item of a page and judges it. With `mirror`, a tool with invalid header annotations is left out.
pub(super) fn judge<'a>(family: Family, page: &mut Scan<'a>, mirror: bool) -> Option<(Json<'a>, Judgement<'a>)> {
    let (mut key, mut schema, mut flaw) = (None, None, None);
    let item = page.members(|name, value| {
        let fits = shape(family, name).is_none_or(|shape| shape.fits(value));
        if name == family.key() {
            key = value.as_string().filter(|_| fits);
        } else if family == Family::Tools && name == "inputSchema" {
            schema = Some(value);
        } else if !fits && flaw.is_none() {
            flaw = Some(Cow::Owned(alloc::format!("`{name}` has the wrong type")));
        } else if family == Family::Tools && name == "annotations" && flaw.is_none() {
            flaw = odd_annotation(value);
        }
    })?;
    let judgement = match (key, schema) {
        (None, _) => {
            let why = match family {
                _ if !item.is_object() => "it is no object",
                Family::Tools | Family::Prompts => "it has no `name`",
                Family::Resources => "it has no `uri`",
                Family::ResourceTemplates => "it has no `uriTemplate`",
            };
            Judgement::LeftOut { key: None, why: why.into() }
        }
        (Some(key), Some(schema)) if !schema.is_object() && !schema.is_null() => {
            Judgement::LeftOut { key: Some(key), why: "its `inputSchema` is no object".into() }
        }
        (Some(key), Some(schema)) if schema.is_null() => {
            Judgement::Kept { key, flaw: Some(Cow::Borrowed("`inputSchema` is null")), mirrored: false }
        }
        (Some(key), None) if family == Family::Tools => {
            Judgement::Kept { key, flaw: Some(Cow::Borrowed("`inputSchema` is missing")), mirrored: false }
        }
        // A schema that was not read may name some.
        (Some(key), schema) => Judgement::Kept { key, flaw, mirrored: schema.is_some() },
    };
    let judgement = match (judgement, schema.filter(|_| mirror).map(mirrored)) {
        (Judgement::Kept { key, .. }, Some(Err(why))) => {
            Judgement::LeftOut { key: Some(key), why: String::from(why).into() }
        }
        (Judgement::Kept { key, flaw, .. }, Some(Ok(mirrored))) => {
            Judgement::Kept { key, flaw, mirrored: !mirrored.is_empty() }
        }
        (judgement, _) => judgement,
    };
    Some((item, judgement))
}

/// Whether a member of a tool's annotations has the right type.
fn is_hint(name: &str, value: Json<'_>) -> bool {
    match name {
        "title" => Shape::String.fits(value),
        "readOnlyHint" | "destructiveHint" | "idempotentHint" | "openWorldHint" => {
            matches!(value.text(), "true" | "false")
        }
        _ => true,
    }
}

fn odd_annotation(annotations: Json<'_>) -> Option<Cow<'static, str>> {
    let mut odd = None;
    annotations.members(|name, value| {
        if !is_hint(name, value) {
            odd = Some(Cow::Owned(alloc::format!("`annotations.{name}` has the wrong type")));
        }
    });
    odd
}

/// The item without members of the wrong type; unchanged, byte for byte, if it has none.
fn well_typed(family: Family, text: &str) -> Cow<'_, RawValue> {
    let item = Json::trusted(text);
    let kept = without(item, |name, value| {
        if !shape(family, name).is_none_or(|shape| shape.fits(value)) {
            return None;
        }
        let hints = family == Family::Tools && name == "annotations";
        let kept =
            if hints { without(value, |name, value| is_hint(name, value).then(|| value.text().into())) } else { None };
        Some(kept.map_or(Cow::Borrowed(value.text()), Cow::Owned))
    });
    kept.map_or_else(|| Cow::Borrowed(item.raw()), |kept| Cow::Owned(Json::trusted(&kept).to_raw()))
}

/// An object with each member replaced by the result of `keep`, or removed if there is none; names stay as written.
/// `None` if no member changes.
fn without<'a>(object: Json<'a>, keep: impl Fn(&str, Json<'a>) -> Option<Cow<'a, str>>) -> Option<String> {
    let (mut text, mut changed) = (String::from("{"), false);
    object.raw_members(|raw, value| {
        // A name that is not a string is not a known name.
        let kept = raw.as_string().map_or_else(|| Some(value.text().into()), |name| keep(&name, value));
        changed |= !matches!(kept, Some(Cow::Borrowed(_)));
        let Some(kept) = kept else { return };
        if text.len() > 1 {
            text.push(',');
        }
        text.extend([raw.text(), ":", &kept]);
    });
    text.push('}');
    changed.then_some(text)
}

/// The members of an item that the schemas define and that have the right type.
struct Members<'a> {
    strings: [(&'static str, Option<Cow<'a, str>>); 4],
    values: [(&'static str, Option<Json<'a>>); 6],
}

impl<'a> Members<'a> {
    fn read(family: Family, text: &'a str) -> Self {
        let mut members = Self {
            strings: [("name", None), ("title", None), ("description", None), ("mimeType", None)],
            values: [
                ("inputSchema", None),
                ("outputSchema", None),
                ("annotations", None),
                ("arguments", None),
                ("size", None),
                ("_meta", None),
            ],
        };
        Json::trusted(text).members(|name, value| {
            if !shape(family, name).is_some_and(|shape| shape.fits(value)) {
                return;
            }
            if let Some((_, slot)) = members.strings.iter_mut().find(|(wanted, _)| *wanted == name) {
                *slot = value.as_string();
            }
            if let Some((_, slot)) = members.values.iter_mut().find(|(wanted, _)| *wanted == name) {
                *slot = Some(value);
            }
        });
        members
    }
}

/// A tool (specification 2026-07-28, "Tools"): a view of the server's JSON.
///
/// Members of a wrong type are ignored; `raw` still has them, [`well_typed`](Self::well_typed) does not.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Tool<'a> {
    /// Unique among the server's tools.
    pub name: &'a str,
    /// Display name.
    pub title: Option<Cow<'a, str>>,
    /// Description for the model.
    pub description: Option<Cow<'a, str>>,
    /// The JSON Schema of its arguments, byte for byte; `{"type":"object"}` if the server gave none.
    pub input_schema: &'a RawValue,
    /// The JSON Schema of its structured result, byte for byte.
    pub output_schema: Option<&'a RawValue>,
    /// The server's claims about the tool's behaviour. Untrusted, unless the server is trusted.
    pub hints: ToolHints,
    /// The `_meta` member.
    pub meta: Option<&'a RawValue>,
    /// The whole item, byte for byte.
    pub raw: &'a RawValue,
}

/// A server's claims about a tool's behaviour (`ToolAnnotations` in the schemas).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ToolHints {
    /// The tool does not modify anything.
    pub read_only: Option<bool>,
    /// The tool may delete or overwrite.
    pub destructive: Option<bool>,
    /// Repeated calls with the same arguments have no further effect.
    pub idempotent: Option<bool>,
    /// The tool interacts with systems outside the server.
    pub open_world: Option<bool>,
}

impl ToolHints {
    fn read(annotations: Json<'_>) -> Self {
        let mut hints = Self::default();
        annotations.members(|name, value| {
            let slot = match name {
                "readOnlyHint" => &mut hints.read_only,
                "destructiveHint" => &mut hints.destructive,
                "idempotentHint" => &mut hints.idempotent,
                "openWorldHint" => &mut hints.open_world,
                _ => return,
            };
            *slot = value.text().parse().ok();
        });
        hints
    }
}

const ANY_OBJECT: &str = r#"{"type":"object"}"#;

impl<'a> Tool<'a> {
    /// The item without members of the wrong type; unchanged, byte for byte, if it has none.
    pub fn well_typed(&self) -> Cow<'a, RawValue> {
        well_typed(Family::Tools, self.raw.get())
    }

    /// Its icons.
    pub fn icons(&self) -> Vec<Icon<'a>> {
        Icon::all(Json::from(self.raw))
    }

    /// The name to show to people: the title, the title of the annotations, or the name (`BaseMetadata` in the schemas).
    pub fn display_name(&self) -> Cow<'a, str> {
        let annotated = || Json::from(self.raw).member("annotations")?.member("title")?.as_string();
        self.title.clone().or_else(annotated).unwrap_or(Cow::Borrowed(self.name))
    }

    /// Whether it can be called as a task (`execution.taskSupport`, specification 2025-11-25, "Tasks").
    pub fn task_support(&self) -> TaskSupport {
        let execution = Json::from(self.raw).member("execution");
        let support = execution.and_then(|execution| execution.member("taskSupport")).and_then(Json::as_string);
        match support.as_deref() {
            Some("required") => TaskSupport::Required,
            Some("optional") => TaskSupport::Optional,
            Some(_) | None => TaskSupport::Forbidden,
        }
    }

    /// Checks a result of the tool against its output schema (specification 2026-07-28, "Tools").
    ///
    /// A tool without an output schema has no wrong result, and neither has one that says that it failed (`isError`).
    ///
    /// # Errors
    ///
    /// [`ValidationError::Missing`] if there is no `structuredContent`; else what the validator found.
    pub fn check_result(&self, validator: &dyn Validator, result: &RawValue) -> Result<(), ValidationError> {
        let result = ToolResult::read(result);
        match (self.output_schema, result.structured) {
            (Some(schema), Some(structured)) if !result.is_error => validator.validate(schema, structured),
            (Some(_), None) if !result.is_error => Err(ValidationError::Missing),
            _ => Ok(()),
        }
    }

    pub(crate) fn read(name: &'a str, text: &'a str) -> Self {
        let Members {
            strings: [_, (_, title), (_, description), _],
            values: [(_, input), (_, output_schema), (_, annotations), _, _, (_, meta)],
        } = Members::read(Family::Tools, text);
        Self {
            name,
            title,
            description,
            input_schema: input.unwrap_or(Json::trusted(ANY_OBJECT)).raw(),
            output_schema: output_schema.map(Json::raw),
            hints: annotations.map(ToolHints::read).unwrap_or_default(),
            meta: meta.map(Json::raw),
            raw: Json::trusted(text).raw(),
        }
    }
}

/// A prompt (specification 2026-07-28, "Prompts"): a view of the server's JSON.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Prompt<'a> {
    /// Unique among the server's prompts.
    pub name: &'a str,
    /// Display name.
    pub title: Option<Cow<'a, str>>,
    /// Description.
    pub description: Option<Cow<'a, str>>,
    /// Its arguments; those without a name are left out.
    pub arguments: Vec<PromptArgument<'a>>,
    /// The whole item, byte for byte.
    pub raw: &'a RawValue,
}

/// An argument of a prompt.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PromptArgument<'a> {
    /// Name.
    pub name: Cow<'a, str>,
    /// Description.
    pub description: Option<Cow<'a, str>>,
    /// Whether the argument is required.
    pub required: bool,
}

impl<'a> PromptArgument<'a> {
    fn read(argument: Json<'a>) -> Option<Self> {
        let (mut name, mut description, mut required) = (None, None, false);
        argument.members(|member, value| match member {
            "name" => name = value.as_string(),
            "description" => description = value.as_string(),
            "required" => required = value.text() == "true",
            _ => {}
        });
        name.map(|name| Self { name, description, required })
    }
}

impl<'a> Prompt<'a> {
    /// The item without members of the wrong type; unchanged, byte for byte, if it has none.
    pub fn well_typed(&self) -> Cow<'a, RawValue> {
        well_typed(Family::Prompts, self.raw.get())
    }

    /// Its icons.
    pub fn icons(&self) -> Vec<Icon<'a>> {
        Icon::all(Json::from(self.raw))
    }

    pub(super) fn read(name: &'a str, text: &'a str) -> Self {
        let Members { strings: [_, (_, title), (_, description), _], values: [_, _, _, (_, arguments), _, _] } =
            Members::read(Family::Prompts, text);
        let arguments = arguments.and_then(|raw| raw.elements(usize::MAX)).map(|elements| elements.kept);
        Self {
            name,
            title,
            description,
            arguments: arguments.into_iter().flatten().filter_map(PromptArgument::read).collect(),
            raw: Json::trusted(text).raw(),
        }
    }
}

/// A resource (specification 2026-07-28, "Resources"): a view of the server's JSON.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Resource<'a> {
    /// Unique among the server's resources.
    pub uri: &'a str,
    /// Name.
    pub name: Option<Cow<'a, str>>,
    /// Display name.
    pub title: Option<Cow<'a, str>>,
    /// Description.
    pub description: Option<Cow<'a, str>>,
    /// MIME type of its content.
    pub mime_type: Option<Cow<'a, str>>,
    /// Size in bytes, if the server gives a whole number.
    pub size: Option<u64>,
    /// The whole item, byte for byte.
    pub raw: &'a RawValue,
}

impl<'a> Resource<'a> {
    /// The item without members of the wrong type; unchanged, byte for byte, if it has none.
    pub fn well_typed(&self) -> Cow<'a, RawValue> {
        well_typed(Family::Resources, self.raw.get())
    }

    /// Its icons.
    pub fn icons(&self) -> Vec<Icon<'a>> {
        Icon::all(Json::from(self.raw))
    }

    /// Hints on its use.
    pub fn annotations(&self) -> Option<Annotations<'a>> {
        Annotations::of(Json::from(self.raw))
    }

    pub(super) fn read(uri: &'a str, text: &'a str) -> Self {
        let Members {
            strings: [(_, name), (_, title), (_, description), (_, mime_type)],
            values: [_, _, _, _, (_, size), _],
        } = Members::read(Family::Resources, text);
        Self {
            uri,
            name,
            title,
            description,
            mime_type,
            size: size.and_then(|raw| raw.text().parse().ok()),
            raw: Json::trusted(text).raw(),
        }
    }
}

/// A resource template (specification 2026-07-28, "Resources"): a view of the server's JSON.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ResourceTemplate<'a> {
    /// URI template (RFC 6570), unique among the server's templates.
    pub uri_template: &'a str,
    /// Name.
    pub name: Option<Cow<'a, str>>,
    /// Display name.
    pub title: Option<Cow<'a, str>>,
    /// Description.
    pub description: Option<Cow<'a, str>>,
    /// MIME type of all matching resources.
    pub mime_type: Option<Cow<'a, str>>,
    /// The whole item, byte for byte.
    pub raw: &'a RawValue,
}

impl<'a> ResourceTemplate<'a> {
    /// The item without members of the wrong type; unchanged, byte for byte, if it has none.
    pub fn well_typed(&self) -> Cow<'a, RawValue> {
        well_typed(Family::ResourceTemplates, self.raw.get())
    }

    /// Its icons.
    pub fn icons(&self) -> Vec<Icon<'a>> {
        Icon::all(Json::from(self.raw))
    }

    /// Hints on its use.
    pub fn annotations(&self) -> Option<Annotations<'a>> {
        Annotations::of(Json::from(self.raw))
    }

    pub(super) fn read(uri_template: &'a str, text: &'a str) -> Self {
        let Members { strings: [(_, name), (_, title), (_, description), (_, mime_type)], .. } =
            Members::read(Family::ResourceTemplates, text);
        Self { uri_template, name, title, description, mime_type, raw: Json::trusted(text).raw() }
    }
}
/// Whether a tool can be called as a task (`execution.taskSupport`, specification 2025-11-25, "Tasks").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskSupport {
    /// Only as a task.
    Required,
    /// As a task or not.
    Optional,
    /// Not as a task, or the server does not say.
    Forbidden,
}
