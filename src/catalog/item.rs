//! Typed views of items, and what is wrong with an item.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use crate::jsonrpc::{Json, Scan, has_either};
use crate::protocol::Family;
use crate::protocol::content::{Annotations, Icon, ToolResult};
use crate::validation::{ValidationError, Validator};

/// A member of an item that the schemas define: the one that matters here, or its type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Member {
    /// The item's key.
    Key,
    InputSchema,
    /// The annotations of a tool.
    Hints,
    String,
    Object,
    Array,
    Number,
}

impl Member {
    /// The member of this name; `None` if the schemas do not define it.
    fn of(family: Family, name: &str) -> Option<Self> {
        Some(match (family, name) {
            (Family::Tools | Family::Prompts, "name") | (Family::Resources, "uri") => Self::Key,
            (Family::ResourceTemplates, "uriTemplate") => Self::Key,
            (Family::Tools, "inputSchema") => Self::InputSchema,
            (Family::Tools, "annotations") => Self::Hints,
            (_, "name" | "title" | "description") => Self::String,
            (_, "icons") => Self::Array,
            (_, "_meta") => Self::Object,
            (Family::Tools, "outputSchema" | "execution") => Self::Object,
            (Family::Prompts, "arguments") => Self::Array,
            (Family::Resources | Family::ResourceTemplates, "mimeType") => Self::String,
            (Family::Resources | Family::ResourceTemplates, "annotations") => Self::Object,
            (Family::Resources, "size") => Self::Number,
            _ => return None,
        })
    }

    /// Whether a value that begins with this byte has the type that the schemas require.
    fn fits(self, first: u8) -> bool {
        match first {
            b'"' => matches!(self, Self::Key | Self::String),
            b'{' => matches!(self, Self::InputSchema | Self::Hints | Self::Object),
            b'[' => self == Self::Array,
            b'-' | b'0'..=b'9' => self == Self::Number,
            _ => false,
        }
    }
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
    let item = page.each_member(|name, scan| {
        let Some(member) = Member::of(family, name) else { return };
        match member {
            Member::Key => key = scan.value().and_then(Json::as_string),
            Member::InputSchema => schema = scan.value(),
            _ if flaw.is_some() => {}
            _ if !member.fits(scan.first()) => flaw = Some(Cow::Owned(alloc::format!("`{name}` has the wrong type"))),
            Member::Hints => {
                scan.members(|name, value| flaw = flaw.take().or_else(|| odd_annotation(name, value)));
            }
            Member::String | Member::Object | Member::Array | Member::Number => {}
        }
    })?;
    let judgement = match (key, schema) {
        (None, _) => {
            let why = match family {
                _ if !item.is_object() => "it is not an object",
                Family::Tools | Family::Prompts => "it has no `name`",
                Family::Resources => "it has no `uri`",
                Family::ResourceTemplates => "it has no `uriTemplate`",
            };
            Judgement::LeftOut { key: None, why: why.into() }
        }
        (Some(key), Some(schema)) if !schema.is_object() && !schema.is_null() => {
            Judgement::LeftOut { key: Some(key), why: "its `inputSchema` is not an object".into() }
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
        "title" => Member::String.fits(value.first()),
        "readOnlyHint" | "destructiveHint" | "idempotentHint" | "openWorldHint" => {
            matches!(value.text(), "true" | "false")
        }
        _ => true,
    }
}

fn odd_annotation(name: &str, value: Json<'_>) -> Option<Cow<'static, str>> {
    (!is_hint(name, value)).then(|| Cow::Owned(alloc::format!("`annotations.{name}` has the wrong type")))
}

/// The item without members of the wrong type; unchanged, byte for byte, if it has none.
fn well_typed(family: Family, text: &str) -> Cow<'_, RawValue> {
    let item = Json::trusted(text);
    let kept = without(item, |name, value| {
        let member = Member::of(family, name);
        if !member.is_none_or(|member| member.fits(value.first())) {
            return None;
        }
        let kept = if member == Some(Member::Hints) {
            without(value, |name, value| is_hint(name, value).then(|| value.text().into()))
        } else {
            None
        };
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
            if !Member::of(family, name).is_some_and(|member| member.fits(value.first())) {
                return;
            }
            if let Some((_, slot)) = members.strings.iter_mut().find(|(wanted, _)| *wanted == name) {
                *slot = value.as_text();
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
        let annotated = || Json::from(self.raw).member("annotations")?.member("title")?.as_text();
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
            "description" => description = value.as_text(),
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
    /// Name. Servers have to give one, but some do not.
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
    /// Name. Servers have to give one, but some do not.
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

const ANNOTATION: &str = "x-mcp-header";

/// The tool arguments that are repeated in HTTP headers (specification 2026-07-28, "Streamable HTTP", Custom Headers
/// from Tool Parameters).
#[derive(Debug)]
pub(crate) struct Mirrored<'a> {
    nodes: Vec<Node<'a>>,
    found: Vec<Found<'a>>,
}

/// A property on the path to an annotated one. Paths share their prefixes, so that all paths together are no longer
/// than the schema.
#[derive(Debug)]
struct Node<'a> {
    /// Index of the enclosing property; [`ROOT`] for a top-level property of the tool's schema.
    parent: usize,
    /// The name as written.
    name: Json<'a>,
}

/// Index of the node for the tool's schema.
const ROOT: usize = 0;

#[derive(Debug)]
struct Found<'a> {
    /// The header's name after `Mcp-Param-`.
    header: Cow<'a, str>,
    /// The annotated property.
    node: usize,
}

/// Reads the annotations of a schema. The error describes the first invalid one.
pub(crate) fn mirrored(schema: Json<'_>) -> Result<Mirrored<'_>, Box<str>> {
    let none = Mirrored { nodes: Vec::new(), found: Vec::new() };
    // The annotation's name may be written with escapes. Few schemas have a hyphen, which is found faster than a word.
    let may_have = has_either(schema.text().as_bytes(), b'-', b'\\')
        && (schema.text().contains(ANNOTATION) || schema.has_backslash());
    if may_have { Search::new(schema).run() } else { Ok(none) }
}

impl<'a> Mirrored<'a> {
    /// Whether no header repeats an argument.
    pub(crate) const fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Each header's name after `Mcp-Param-`, with the argument that it repeats, if the call has it.
    #[cfg(feature = "http")]
    pub(crate) fn values<'b>(&self, arguments: Json<'b>) -> impl Iterator<Item = (&str, Option<Json<'b>>)> {
        self.found.iter().map(move |Found { header, node }| {
            let mut path = self.path(*node).into_iter();
            (&**header, path.try_fold(arguments, |value, name| value.member(&name.as_string()?)))
        })
    }

    /// The property names on the path to a node, outermost first.
    fn path(&self, node: usize) -> Vec<Json<'a>> {
        let up = core::iter::successors(Some(node), |node| Some(self.nodes.get(*node)?.parent));
        let named = up.take_while(|node| *node != ROOT).filter_map(|node| self.nodes.get(node));
        let mut path: Vec<_> = named.map(|node| node.name).collect();
        path.reverse();
        path
    }

    fn error(&self, node: usize, why: &str) -> Box<str> {
        let mut place = String::new();
        for name in self.path(node) {
            if !place.is_empty() {
                place.push('.');
            }
            place.extend(name.as_string().unwrap_or_default().chars().take(PLACE.saturating_sub(place.len())));
            if place.len() >= PLACE {
                place.push('…');
                break;
            }
        }
        let place = if node == ROOT { "the schema" } else { &place };
        format!("`{ANNOTATION}` of {place}: {why}").into()
    }

    /// The first annotation whose header another annotation already uses; case-insensitive.
    fn duplicate(&self) -> Option<usize> {
        let mut headers: BTreeSet<Box<str>> = BTreeSet::new();
        let repeated = self.found.iter().filter(|found| !headers.insert(found.header.to_ascii_lowercase().into()));
        repeated.map(|found| found.node).min()
    }
}

/// Maximum bytes of a property's path in an error.
const PLACE: usize = 64;

/// The error for an annotation that cannot be reached from the root through `properties` only.
const UNREACHABLE: &str = "it is not at a property that properties alone lead to";

/// An object or array that is open at this point of the schema. One byte each: a schema may nest as deep as its
/// message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    /// The tool's schema, or a property reachable through `properties` only: the last of `open`.
    Property,
    /// The value of `properties` in such a schema.
    Properties,
    /// Another schema.
    Schema,
    /// A map of other schemas by name.
    Schemas,
    /// An array that may hold schemas.
    Array,
}

/// An open schema that is reachable through `properties` only.
struct Property<'a> {
    name: Json<'a>,
    /// Its node, if it has one: only annotated properties and their ancestors have nodes.
    node: Option<usize>,
    annotation: Option<Json<'a>>,
    kind: Option<Json<'a>>,
}

impl<'a> Property<'a> {
    const fn new(name: Json<'a>) -> Self {
        Self { name, node: None, annotation: None, kind: None }
    }
}

/// One pass over a schema's text, with an explicit stack of open brackets.
struct Search<'a> {
    scan: Scan<'a>,
    levels: Vec<Level>,
    open: Vec<Property<'a>>,
    mirrored: Mirrored<'a>,
}

impl<'a> Search<'a> {
    fn new(schema: Json<'a>) -> Self {
        let name = Json::trusted("");
        let mirrored = Mirrored { nodes: Vec::from([Node { parent: ROOT, name }]), found: Vec::new() };
        let root = Property { node: Some(ROOT), ..Property::new(name) };
        Self { scan: schema.scan(), levels: Vec::new(), open: Vec::from([root]), mirrored }
    }

    fn run(mut self) -> Result<Mirrored<'a>, Box<str>> {
        self.enter(b'{', Level::Property);
        while let Some(level) = self.levels.last().copied() {
            let inside = match level {
                Level::Array if self.scan.element() => {
                    self.within();
                    true
                }
                Level::Array => false,
                Level::Property | Level::Properties | Level::Schema | Level::Schemas => match self.scan.name() {
                    Some(name) => self.member(level, name).map_err(|why| self.error(why)).map(|()| true)?,
                    None => false,
                },
            };
            if !inside {
                self.levels.pop();
                if level == Level::Property {
                    self.leave().map_err(|why| self.error(why))?;
                    self.open.pop();
                }
            }
        }
        match self.mirrored.duplicate() {
            Some(node) => Err(self.mirrored.error(node, "another property has the same")),
            None => Ok(self.mirrored),
        }
    }

    /// Enters the next value if it begins with this bracket; otherwise skips it.
    fn enter(&mut self, bracket: u8, level: Level) -> bool {
        let inside = self.scan.enter(bracket);
        if inside {
            self.levels.push(level);
        } else {
            self.scan.value();
        }
        inside
    }

    /// Enters a value that may be a schema or an array of schemas.
    fn within(&mut self) {
        if self.scan.enter(b'[') {
            self.levels.push(Level::Array);
        } else {
            self.enter(b'{', Level::Schema);
        }
    }

    fn member(&mut self, level: Level, raw: Json<'a>) -> Result<(), &'static str> {
        let name = raw.as_string();
        match (level, name.as_deref()) {
            (Level::Properties, Some(_)) => {
                if self.enter(b'{', Level::Property) {
                    self.open.push(Property::new(raw));
                }
            }
            (Level::Schemas, Some(_)) => {
                self.enter(b'{', Level::Schema);
            }
            (Level::Schema, Some(ANNOTATION)) => return Err(UNREACHABLE),
            (Level::Property, Some(keyword @ (ANNOTATION | "type"))) => {
                let value = self.scan.value();
                if let Some(property) = self.open.last_mut() {
                    let member = if keyword == ANNOTATION { &mut property.annotation } else { &mut property.kind };
                    *member = value;
                }
            }
            // Data, in which nothing is an annotation.
            (_, None | Some("type" | "default" | "examples" | "const" | "enum")) => {
                self.scan.value();
            }
            (Level::Property, Some("properties")) => {
                self.enter(b'{', Level::Properties);
            }
            (_, Some("properties" | "$defs" | "definitions" | "patternProperties" | "dependentSchemas")) => {
                self.enter(b'{', Level::Schemas);
            }
            (_, Some(_)) => self.within(),
        }
        Ok(())
    }

    /// Checks the annotation of the innermost property, at the property's end.
    fn leave(&mut self) -> Result<(), &'static str> {
        let Some(Property { annotation: Some(annotation), kind, node, .. }) = self.open.last() else { return Ok(()) };
        if *node == Some(ROOT) {
            return Err(UNREACHABLE);
        }
        let header = annotation.as_string().ok_or("it is not a string")?;
        if header.is_empty() || !header.bytes().all(is_token) {
            return Err("it is not what a header's name can hold");
        }
        let kind = kind.and_then(Json::as_string);
        if !matches!(kind.as_deref(), Some("string" | "integer" | "boolean")) {
            return Err("the property is not a string, integer or boolean");
        }
        let node = self.node();
        self.mirrored.found.push(Found { header, node });
        Ok(())
    }

    /// The node of the innermost property. Each open property gets one node, no matter how many annotated properties it
    /// contains.
    fn node(&mut self) -> usize {
        let known = self.open.iter().rposition(|open| open.node.is_some()).unwrap_or_default();
        let mut parent = ROOT;
        for open in self.open.iter_mut().skip(known) {
            parent = *open.node.get_or_insert_with(|| {
                self.mirrored.nodes.push(Node { parent, name: open.name });
                self.mirrored.nodes.len().saturating_sub(1)
            });
        }
        parent
    }

    fn error(&mut self, why: &str) -> Box<str> {
        let node = self.node();
        self.mirrored.error(node, why)
    }
}

/// Whether a byte is allowed in a header's name (RFC 9110, section 5.6.2).
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~')
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use serde_json::{Value, json};

    use super::*;

    fn read(properties: &Value) -> Result<Vec<String>, String> {
        let schema = json!({"type": "object", "properties": properties}).to_string();
        let found = mirrored(Json::trusted(&schema)).map_err(|wrong| wrong.to_string())?;
        let path = |node| found.path(node).iter().map(|name| name.as_string().unwrap()).collect::<Vec<_>>().join(".");
        Ok(found.found.iter().map(|it| format!("{}={}", it.header, path(it.node))).collect())
    }

    #[test]
    fn properties_of_properties_are_found() {
        let inner = json!({"type": "object", "properties": {"b": {"type": "integer", "x-mcp-header": "In-ner"}}});
        let properties = json!({"a": {"type": "string", "x-mcp-header": "A"}, "o": inner, "n": {"type": "number"}});
        assert_eq!(read(&properties), Ok(alloc::vec!["A=a".into(), "In-ner=o.b".into()]));
        assert_eq!(read(&json!({"x-mcp-header": {"type": "string"}})), Ok(alloc::vec![]), "a property of that name");
        assert_eq!(read(&json!({"a": {"type": "object", "default": {"x-mcp-header": 1}}})), Ok(alloc::vec![]), "data");
    }

    #[test]
    fn an_annotation_is_found_however_its_name_is_written() {
        for name in ["x-mcp-header", "x\\u002dmcp-header", "\\u0078\\u002Dmcp\\u002Dheader"] {
            let schema = format!(r#"{{"properties":{{"a":{{"type":"string","{name}":"A"}}}}}}"#);
            assert_eq!(mirrored(Json::trusted(&schema)).unwrap().found.len(), 1, "{name}");
        }
        assert!(mirrored(Json::trusted(r#"{"properties":{"a-b":{}}}"#)).unwrap().is_empty());
    }

    #[test]
    fn violations_of_the_rules_are_refused() {
        let string = |name: Value| json!({"type": "string", "x-mcp-header": name});
        for (properties, why) in [
            (json!({"a": string(json!(""))}), "header's name"),
            (json!({"a": string(json!("a b"))}), "header's name"),
            (json!({"a": string(json!("a:b"))}), "header's name"),
            (json!({"a": string(json!("\u{e9}"))}), "header's name"),
            (json!({"a": string(json!("a\r\nb"))}), "header's name"),
            (json!({"a": string(json!("a(b"))}), "header's name"),
            (json!({"a": string(json!(1))}), "not a string"),
            (json!({"a": {"type": "number", "x-mcp-header": "A"}}), "not a string, integer or boolean"),
            (json!({"a": {"type": ["string", "null"], "x-mcp-header": "A"}}), "not a string, integer or boolean"),
            (json!({"a": {"x-mcp-header": "A"}}), "not a string, integer or boolean"),
            (json!({"a": string(json!("Region")), "b": string(json!("REGION"))}), "same"),
            (json!({"a": {"type": "array", "items": string(json!("A"))}}), "properties alone"),
            (json!({"a": {"anyOf": [string(json!("A"))]}}), "properties alone"),
            (json!({"a": {"type": "array", "items": {"properties": {"b": string(json!("A"))}}}}), "properties alone"),
            (json!({"a": {"$defs": {"x": string(json!("A"))}}}), "properties alone"),
        ] {
            let wrong = read(&properties).unwrap_err();
            assert!(wrong.contains(why), "{properties}: {wrong}");
        }
        let root = r#"{"type":"object","x-mcp-header":"A"}"#;
        let wrong = mirrored(Json::trusted(root)).err().unwrap().to_string();
        assert!(wrong.starts_with("`x-mcp-header` of the schema: "), "{wrong}");
    }

    #[test]
    fn a_violation_is_at_the_path_of_its_property_as_far_as_that_fits() {
        let place = |name: &str| {
            let number = json!({"type": "number", "x-mcp-header": "N"});
            let wrong = read(&json!({"o": {"type": "object", "properties": {name: number}}})).unwrap_err();
            wrong.split(": ").next().unwrap().to_string()
        };
        assert_eq!(place("n"), "`x-mcp-header` of o.n");
        let long = format!("`x-mcp-header` of o.{}…", "n".repeat(PLACE - 2));
        assert_eq!(place(&"n".repeat(200)), long);
    }
}
