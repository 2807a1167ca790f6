//! Typed views of what servers send to models and users: results of tools, prompts and resources, content blocks,
//! annotations, icons (specification 2026-07-28, "Tools", "Prompts", "Resources"; `ContentBlock` in the schemas).
//!
//! A view borrows from the server's JSON, which stays beside it as `raw`. Reading never fails on a member: one that is
//! missing or has the wrong type is `None`, empty or `false`, and a content block of an unknown type is
//! [`Block::Other`]. Reading costs time in proportion to the JSON. A view has at most [`MAX_VALUES`] blocks, messages,
//! contents and icons, those in blocks included: a server can make many of a few bytes each. The others are in `raw`.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

pub use super::form::FormError;
use crate::jsonrpc::{Json, Object, Scan};

/// A member that is a string.
fn string<'a>(json: Json<'a>, name: &str) -> Option<Cow<'a, str>> {
    json.member(name).and_then(Json::as_text)
}

/// A member that is an object.
fn object<'a>(json: Json<'a>, name: &str) -> Option<&'a RawValue> {
    if_object(json.member(name))
}

fn if_object(value: Option<Json<'_>>) -> Option<&RawValue> {
    value.filter(|value| value.is_object()).map(Json::raw)
}

/// Maximum number of blocks, messages, contents and icons in a view.
pub const MAX_VALUES: usize = 4096;

/// The type of a block of text.
const TEXT: &str = "text";

/// Maximum number of sizes of an icon, and of roles of an audience.
const WORDS: usize = 64;

/// How many more values a view may have.
struct Room {
    left: usize,
    /// Whether some were left out.
    is_over: bool,
}

impl Room {
    const fn new() -> Self {
        Self { left: MAX_VALUES, is_over: false }
    }

    /// The elements of a member that is an array.
    fn elements<'a>(&mut self, member: Option<Json<'a>>) -> Vec<Json<'a>> {
        member.map(|array| self.next_elements(&mut array.scan())).unwrap_or_default()
    }

    /// The elements of the next value if it is an array.
    fn next_elements<'a>(&mut self, scan: &mut Scan<'a>) -> Vec<Json<'a>> {
        let Some(elements) = scan.elements(self.left) else { return Vec::new() };
        self.left = self.left.saturating_sub(elements.kept.len());
        self.is_over |= elements.more;
        elements.kept
    }
}

/// The strings of a member that is an array.
fn strings<'a>(json: Json<'a>, name: &str, most: usize) -> impl Iterator<Item = Cow<'a, str>> {
    let elements = json.member(name).and_then(|array| array.elements(most));
    elements.into_iter().flat_map(|elements| elements.kept).filter_map(Json::as_text)
}

/// The background that an icon is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Theme {
    /// A light one.
    Light,
    /// A dark one.
    Dark,
}

/// An icon (specification 2025-11-25, "Icons"). Nothing is fetched; the documentation's page
/// [`duties`](crate::guide::duties) has the rules for whoever does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Icon<'a> {
    /// Its URI: `https:`, or `data:` with the image in Base64. Not checked.
    pub src: Cow<'a, str>,
    /// Its MIME type.
    pub mime_type: Option<Cow<'a, str>>,
    /// The sizes that it has, such as `48x48`, or `any`.
    pub sizes: Vec<Cow<'a, str>>,
    /// The background that it is made for.
    pub theme: Option<Theme>,
}

impl<'a> Icon<'a> {
    /// An icon with this URI.
    pub fn new(src: impl Into<Cow<'a, str>>) -> Self {
        Self { src: src.into(), mime_type: None, sizes: Vec::new(), theme: None }
    }

    /// Reads the member `icons` of an object. Icons without a URI are left out.
    pub(crate) fn all(json: Json<'a>) -> Vec<Self> {
        Self::within(json, &mut Room::new())
    }

    /// As [`all`](Self::all), as part of a view.
    fn within(json: Json<'a>, room: &mut Room) -> Vec<Self> {
        room.elements(json.member("icons")).into_iter().filter_map(Self::read).collect()
    }

    fn read(json: Json<'a>) -> Option<Self> {
        let theme = match string(json, "theme").as_deref() {
            Some("light") => Some(Theme::Light),
            Some("dark") => Some(Theme::Dark),
            Some(_) | None => None,
        };
        let sizes = strings(json, "sizes", WORDS).collect();
        Some(Self { src: string(json, "src")?, mime_type: string(json, "mimeType"), sizes, theme })
    }

    pub(crate) fn write(&self, object: &mut Object<'_>) {
        object.string("src", &self.src);
        if let Some(mime_type) = &self.mime_type {
            object.string("mimeType", mime_type);
        }
        if !self.sizes.is_empty() {
            let list = object.value("sizes");
            for (index, size) in self.sizes.iter().enumerate() {
                list.push(if index == 0 { b'[' } else { b',' });
                crate::jsonrpc::string(list, size);
            }
            list.push(b']');
        }
        match self.theme {
            Some(Theme::Light) => {
                object.string("theme", "light");
            }
            Some(Theme::Dark) => {
                object.string("theme", "dark");
            }
            None => {}
        }
    }
}

/// Who speaks, or whom content is for (`Role` in the schemas).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Role {
    /// The user.
    User,
    /// The model.
    Assistant,
}

impl Role {
    pub(super) fn read(name: &str) -> Option<Self> {
        match name {
            "user" => Some(Self::User),
            "assistant" => Some(Self::Assistant),
            _ => None,
        }
    }

    /// The name of the role in the protocol.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// Hints of the server on the use of content or of a resource (`Annotations` in the schemas). Untrusted, unless the
/// server is trusted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Annotations<'a> {
    /// Whom it is for; empty if the server does not say. Unknown roles are left out.
    pub audience: Vec<Role>,
    /// How important it is, from 0 to 1.
    pub priority: Option<f64>,
    /// When it was last modified, in ISO 8601.
    pub last_modified: Option<Cow<'a, str>>,
    /// The annotations, byte for byte.
    pub raw: &'a RawValue,
}

impl<'a> Annotations<'a> {
    /// Reads the member `annotations` of an object.
    pub(crate) fn of(json: Json<'a>) -> Option<Self> {
        Self::read(json.member("annotations"))
    }

    fn read(member: Option<Json<'a>>) -> Option<Self> {
        let annotations = member.filter(|value| value.is_object())?;
        let audience = strings(annotations, "audience", WORDS);
        let priority = annotations.member("priority").and_then(|number| number.text().parse().ok());
        Some(Self {
            audience: audience.filter_map(|name| Role::read(&name)).collect(),
            priority: priority.filter(|priority| (0.0..=1.0).contains(priority)),
            last_modified: string(annotations, "lastModified"),
            raw: annotations.raw(),
        })
    }
}

/// A block of content.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Block<'a> {
    /// Text.
    Text(Text<'a>),
    /// An image.
    Image(Media<'a>),
    /// Sound.
    Audio(Media<'a>),
    /// A link to a resource, which `resources/read` may read. It need not be in the server's list.
    Link(ResourceLink<'a>),
    /// A resource with its contents.
    Resource(EmbeddedResource<'a>),
    /// A call of a tool by a model (sampling, since 2025-11-25).
    ToolUse(ToolUse<'a>),
    /// The result of such a call.
    ToolOutput(ToolOutput<'a>),
    /// A block of an unknown type, or without the members that its type requires.
    Other(&'a RawValue),
}

/// Text.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Text<'a> {
    /// The text.
    pub text: Cow<'a, str>,
    /// Hints on its use.
    pub annotations: Option<Annotations<'a>>,
    /// The `_meta` member.
    pub meta: Option<&'a RawValue>,
    /// The block, byte for byte.
    pub raw: &'a RawValue,
}

/// An image or sound.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Media<'a> {
    /// The data in Base64. Not checked.
    pub data: Cow<'a, str>,
    /// The MIME type.
    pub mime_type: Option<Cow<'a, str>>,
    /// Hints on its use.
    pub annotations: Option<Annotations<'a>>,
    /// The `_meta` member.
    pub meta: Option<&'a RawValue>,
    /// The block, byte for byte.
    pub raw: &'a RawValue,
}

/// A link to a resource.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ResourceLink<'a> {
    /// Its URI.
    pub uri: Cow<'a, str>,
    /// Its name.
    pub name: Option<Cow<'a, str>>,
    /// Display name.
    pub title: Option<Cow<'a, str>>,
    /// Description.
    pub description: Option<Cow<'a, str>>,
    /// MIME type.
    pub mime_type: Option<Cow<'a, str>>,
    /// Size in bytes.
    pub size: Option<u64>,
    /// Icons.
    pub icons: Vec<Icon<'a>>,
    /// Hints on its use.
    pub annotations: Option<Annotations<'a>>,
    /// The `_meta` member.
    pub meta: Option<&'a RawValue>,
    /// The block, byte for byte.
    pub raw: &'a RawValue,
}

/// A resource with its contents.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EmbeddedResource<'a> {
    /// The contents.
    pub resource: ResourceContents<'a>,
    /// Hints on its use.
    pub annotations: Option<Annotations<'a>>,
    /// The `_meta` member.
    pub meta: Option<&'a RawValue>,
    /// The block, byte for byte.
    pub raw: &'a RawValue,
}

/// The contents of a resource, or of a part of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ResourceContents<'a> {
    /// The URI.
    pub uri: Cow<'a, str>,
    /// The MIME type.
    pub mime_type: Option<Cow<'a, str>>,
    /// The text, if it is text.
    pub text: Option<Cow<'a, str>>,
    /// The data in Base64, if it is binary. Not checked.
    pub blob: Option<Cow<'a, str>>,
    /// The `_meta` member.
    pub meta: Option<&'a RawValue>,
    /// The contents, byte for byte.
    pub raw: &'a RawValue,
}

/// A call of a tool by a model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ToolUse<'a> {
    /// The id of the call.
    pub id: Cow<'a, str>,
    /// The tool.
    pub name: Cow<'a, str>,
    /// The arguments, a JSON object.
    pub input: Option<&'a RawValue>,
    /// The `_meta` member.
    pub meta: Option<&'a RawValue>,
    /// The block, byte for byte.
    pub raw: &'a RawValue,
}

/// The result of a call of a tool by a model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ToolOutput<'a> {
    /// The id of the call.
    pub tool_use_id: Cow<'a, str>,
    /// The content. Blocks of this type in it are [`Block::Other`].
    pub content: Vec<Block<'a>>,
    /// The structured result.
    pub structured: Option<&'a RawValue>,
    /// The call failed.
    pub is_error: bool,
    /// The `_meta` member.
    pub meta: Option<&'a RawValue>,
    /// The block, byte for byte.
    pub raw: &'a RawValue,
}

impl<'a> Text<'a> {
    /// The text of the next value, if that is a block of text.
    fn next(scan: &mut Scan<'a>) -> Option<Cow<'a, str>> {
        let (mut kind, mut text) = (None, None);
        scan.each_member(|name, scan| match name {
            "type" => kind = scan.value(),
            "text" => text = scan.value(),
            _ => {}
        });
        let is_text = kind.is_some_and(|kind| kind.as_text().as_deref() == Some(TEXT));
        text.filter(|_| is_text).and_then(Json::as_text)
    }
}

/// Adds a line.
fn join<'a>(all: &mut Option<Cow<'a, str>>, line: Option<Cow<'a, str>>) {
    match (all, line) {
        (Some(all), Some(line)) => {
            let all = all.to_mut();
            all.push('\n');
            all.push_str(&line);
        }
        (all, line) => *all = line.or(all.take()),
    }
}

impl<'a> Block<'a> {
    /// Reads a block.
    pub fn read(raw: &'a RawValue) -> Self {
        Self::of(Json::from(raw), &mut Room::new(), true)
    }

    /// The block as the server sent it.
    pub const fn raw(&self) -> &'a RawValue {
        match self {
            Self::Text(block) => block.raw,
            Self::Image(block) | Self::Audio(block) => block.raw,
            Self::Link(block) => block.raw,
            Self::Resource(block) => block.raw,
            Self::ToolUse(block) => block.raw,
            Self::ToolOutput(block) => block.raw,
            Self::Other(raw) => raw,
        }
    }

    /// Reads a block; the output of a tool in the output of a tool only if `nested` is set, so that the depth is bounded.
    fn of(json: Json<'a>, room: &mut Room, nested: bool) -> Self {
        // Texts are the most frequent by far: they are read in one pass.
        let [kind, text, annotations, meta] = json.pick(["type", "text", "annotations", "_meta"]);
        let known = match kind.and_then(Json::as_text).as_deref() {
            Some(TEXT) => text.and_then(Json::as_text).map(|text| {
                let (annotations, meta) = (Annotations::read(annotations), if_object(meta));
                Self::Text(Text { text, annotations, meta, raw: json.raw() })
            }),
            Some("image") => Self::media(json).map(Self::Image),
            Some("audio") => Self::media(json).map(Self::Audio),
            Some("resource_link") => Self::link(json, room),
            Some("resource") => Self::resource(json),
            Some("tool_use") => Self::tool_use(json),
            Some("tool_result") if nested => Self::tool_output(json, room),
            Some(_) | None => None,
        };
        known.unwrap_or(Self::Other(json.raw()))
    }

    fn media(json: Json<'a>) -> Option<Media<'a>> {
        let (data, mime_type) = (string(json, "data")?, string(json, "mimeType"));
        let (annotations, meta) = (Annotations::of(json), object(json, "_meta"));
        Some(Media { data, mime_type, annotations, meta, raw: json.raw() })
    }

    fn link(json: Json<'a>, room: &mut Room) -> Option<Self> {
        Some(Self::Link(ResourceLink {
            uri: string(json, "uri")?,
            name: string(json, "name"),
            title: string(json, "title"),
            description: string(json, "description"),
            mime_type: string(json, "mimeType"),
            size: json.member("size").and_then(|size| size.text().parse().ok()),
            icons: Icon::within(json, room),
            annotations: Annotations::of(json),
            meta: object(json, "_meta"),
            raw: json.raw(),
        }))
    }

    fn resource(json: Json<'a>) -> Option<Self> {
        let resource = json.member("resource").and_then(ResourceContents::read)?;
        let (annotations, meta) = (Annotations::of(json), object(json, "_meta"));
        Some(Self::Resource(EmbeddedResource { resource, annotations, meta, raw: json.raw() }))
    }

    fn tool_use(json: Json<'a>) -> Option<Self> {
        let (id, name, input) = (string(json, "id")?, string(json, "name")?, object(json, "input"));
        Some(Self::ToolUse(ToolUse { id, name, input, meta: object(json, "_meta"), raw: json.raw() }))
    }

    fn tool_output(json: Json<'a>, room: &mut Room) -> Option<Self> {
        Some(Self::ToolOutput(ToolOutput {
            tool_use_id: string(json, "toolUseId")?,
            content: room
                .elements(json.member("content"))
                .into_iter()
                .map(|block| Self::of(block, room, false))
                .collect(),
            structured: json.member("structuredContent").map(Json::raw),
            is_error: json.member("isError").is_some_and(|value| value.text() == "true"),
            meta: object(json, "_meta"),
            raw: json.raw(),
        }))
    }
}

impl<'a> ResourceContents<'a> {
    pub(super) fn read(json: Json<'a>) -> Option<Self> {
        Some(Self {
            uri: string(json, "uri")?,
            mime_type: string(json, "mimeType"),
            text: string(json, "text"),
            blob: string(json, "blob"),
            meta: object(json, "_meta"),
            raw: json.raw(),
        })
    }
}

/// The result of `tools/call` (`CallToolResult` in the schemas).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ToolResult<'a> {
    /// The content, in order.
    pub content: Vec<Block<'a>>,
    /// It has more than [`MAX_VALUES`] values; those beyond are in `raw` only.
    pub is_cut_off: bool,
    /// The structured result: any JSON value since 2026-07-28, an object before.
    pub structured: Option<&'a RawValue>,
    /// The tool failed; the content says how, for the model.
    pub is_error: bool,
    /// The `_meta` member.
    pub meta: Option<&'a RawValue>,
    /// The result, byte for byte.
    pub raw: &'a RawValue,
}

impl<'a> ToolResult<'a> {
    /// The texts of a result's [`content`](Self::content), a line each, without a view of the rest. Borrowed if there is one
    /// without escapes.
    pub fn text_of(raw: &'a RawValue) -> Cow<'a, str> {
        let mut all = None;
        Json::from(raw).scan().each_member(|name, scan| {
            if name == "content" {
                // The last of repeated members counts.
                all = None;
                let mut blocks = 0;
                scan.each_element(|scan| {
                    let is_within = blocks < MAX_VALUES;
                    if is_within {
                        blocks = blocks.saturating_add(1);
                        join(&mut all, Text::next(scan));
                    }
                    is_within
                });
            }
        });
        all.unwrap_or_default()
    }

    /// Reads a result.
    pub fn read(raw: &'a RawValue) -> Self {
        let mut room = Room::new();
        let (mut content, mut structured, mut is_error, mut meta) = (Vec::new(), None, false, None);
        // In one pass, in which long texts are read once less.
        Json::from(raw).scan().each_member(|name, scan| match name {
            "content" => {
                // The last of repeated members counts.
                room = Room::new();
                content = room.next_elements(scan);
            }
            "structuredContent" => structured = scan.value().map(Json::raw),
            "isError" => is_error = scan.value().is_some_and(|value| value.text() == "true"),
            "_meta" => meta = if_object(scan.value()),
            _ => {}
        });
        let content = content.into_iter().map(|block| Block::of(block, &mut room, true)).collect();
        Self { content, is_cut_off: room.is_over, structured, is_error, meta, raw }
    }
}

/// The result of `prompts/get` (`GetPromptResult` in the schemas).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PromptResult<'a> {
    /// Description of the prompt.
    pub description: Option<Cow<'a, str>>,
    /// The messages, in order.
    pub messages: Vec<PromptMessage<'a>>,
    /// It has more than [`MAX_VALUES`] values; those beyond are in `raw` only.
    pub is_cut_off: bool,
    /// The `_meta` member.
    pub meta: Option<&'a RawValue>,
    /// The result, byte for byte.
    pub raw: &'a RawValue,
}

/// A message of a prompt.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PromptMessage<'a> {
    /// Who speaks; `None` if the role is unknown.
    pub role: Option<Role>,
    /// What is said; `None` if the message has no content.
    pub content: Option<Block<'a>>,
    /// The message, byte for byte.
    pub raw: &'a RawValue,
}

impl<'a> PromptResult<'a> {
    /// Reads a result.
    pub fn read(raw: &'a RawValue) -> Self {
        let (json, mut room) = (Json::from(raw), Room::new());
        let messages = room.elements(json.member("messages"));
        let message = |message: Json<'a>| PromptMessage {
            role: string(message, "role").and_then(|role| Role::read(&role)),
            content: message.member("content").map(|content| Block::of(content, &mut room, true)),
            raw: message.raw(),
        };
        let messages = messages.into_iter().map(message).collect();
        Self {
            description: string(json, "description"),
            messages,
            is_cut_off: room.is_over,
            meta: object(json, "_meta"),
            raw,
        }
    }
}

/// The result of `resources/read` (`ReadResourceResult` in the schemas).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReadResult<'a> {
    /// The contents; a directory may have several. Those without a URI are left out.
    pub contents: Vec<ResourceContents<'a>>,
    /// It has more than [`MAX_VALUES`] values; those beyond are in `raw` only.
    pub is_cut_off: bool,
    /// The `_meta` member.
    pub meta: Option<&'a RawValue>,
    /// The result, byte for byte.
    pub raw: &'a RawValue,
}

impl<'a> ReadResult<'a> {
    /// Reads a result.
    pub fn read(raw: &'a RawValue) -> Self {
        let (json, mut room) = (Json::from(raw), Room::new());
        let contents = room.elements(json.member("contents")).into_iter().filter_map(ResourceContents::read).collect();
        Self { contents, is_cut_off: room.is_over, meta: object(json, "_meta"), raw }
    }
}

/// What `elicitation/create` asks of a user (`ElicitRequestParams` in the schemas), and the answers to it.
///
/// ```
/// use mcp_proto::protocol::content::{Elicitation, ElicitationKind};
/// # let params = serde_json::value::to_raw_value(&serde_json::json!({"message": "Who?", "requestedSchema":
/// #     {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}})).unwrap();
///
/// let asked = Elicitation::read(&params);
/// let answer = match asked.kind {
///     ElicitationKind::Form(fields) if fields.iter().all(|field| field.name == "name") => {
///         Elicitation::accept(&serde_json::json!({"name": "Ada"}))?
///     }
///     _ => Elicitation::decline(),
/// };
/// assert_eq!(answer.get(), r#"{"action":"accept","content":{"name":"Ada"}}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Elicitation<'a> {
    /// What the server tells the user.
    pub message: Cow<'a, str>,
    /// A form, or a URL.
    pub kind: ElicitationKind<'a>,
    /// The form has more than [`MAX_VALUES`] fields and choices; those beyond are in `raw` only.
    pub is_cut_off: bool,
    /// Whether the client adds the defaults of fields that an answer leaves out. Set it as
    /// [`Options::form_defaults`](crate::Options::form_defaults) is, which is on by default.
    pub form_defaults: bool,
    /// The parameters, byte for byte.
    pub raw: &'a RawValue,
}

/// What an [`Elicitation`] asks the user for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ElicitationKind<'a> {
    /// To fill in a form with these fields, in the server's order.
    Form(Vec<FormField<'a>>),
    /// To visit this URL, which is not checked. The host shows it, whole, and opens it only if the user agrees.
    Url(Cow<'a, str>),
    /// Something of an unknown mode.
    Other,
}

/// A field of a form (`PrimitiveSchemaDefinition` in the schemas).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FormField<'a> {
    /// The member of the answer.
    pub name: Cow<'a, str>,
    /// Its name for a user.
    pub title: Option<Cow<'a, str>>,
    /// What it means.
    pub description: Option<Cow<'a, str>>,
    /// The values that it takes.
    pub values: FieldValues<'a>,
    /// The answer must have it.
    pub is_required: bool,
    /// Its value unless the user changes it, of any type.
    pub default: Option<&'a RawValue>,
    /// Its schema, with bounds and format, byte for byte.
    pub raw: &'a RawValue,
}

/// The values that a [`FormField`] takes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldValues<'a> {
    /// A text.
    Text,
    /// A number.
    Number,
    /// A number without a fraction.
    Integer,
    /// Yes or no.
    Boolean,
    /// One of these values, each with its name for a user.
    OneOf(Vec<(Cow<'a, str>, Cow<'a, str>)>),
    /// Any number of these values, as an array.
    AnyOf(Vec<(Cow<'a, str>, Cow<'a, str>)>),
    /// Those of an unknown schema.
    Other,
}

impl<'a> Elicitation<'a> {
    /// Reads the parameters of a request.
    pub fn read(raw: &'a RawValue) -> Self {
        let (json, mut room) = (Json::from(raw), Room::new());
        let kind = match string(json, "mode").as_deref() {
            Some("form") | None => ElicitationKind::Form(FormField::within(json, &mut room)),
            Some("url") => string(json, "url").map_or(ElicitationKind::Other, ElicitationKind::Url),
            Some(_) => ElicitationKind::Other,
        };
        let message = string(json, "message").unwrap_or_default();
        Self { message, kind, is_cut_off: room.is_over, form_defaults: true, raw }
    }

    /// The answer of a user who filled the form in.
    ///
    /// # Errors
    /// The content cannot be serialized.
    pub fn accept(content: &impl Serialize) -> Result<Box<RawValue>, serde_json::Error> {
        to_raw_value(&Answer { action: "accept", content: Some(content) })
    }

    /// The answer of a user who visits the URL.
    pub fn visit() -> Box<RawValue> {
        Self::without_content("accept")
    }

    /// The answer of a user who declined.
    pub fn decline() -> Box<RawValue> {
        Self::without_content("decline")
    }

    /// The answer of a user who chose neither.
    pub fn cancel() -> Box<RawValue> {
        Self::without_content("cancel")
    }

    fn without_content(action: &'static str) -> Box<RawValue> {
        // Two strings cannot fail.
        to_raw_value(&Answer::<()> { action, content: None }).unwrap_or_default()
    }
}

#[derive(Serialize)]
struct Answer<'a, T> {
    action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a T>,
}

impl<'a> FormField<'a> {
    fn within(json: Json<'a>, room: &mut Room) -> Vec<Self> {
        let Some(schema) = json.member("requestedSchema") else { return Vec::new() };
        let mut required: Vec<_> = strings(schema, "required", MAX_VALUES).collect();
        required.sort_unstable();
        let mut fields = Vec::new();
        let Some(properties) = schema.member("properties") else { return fields };
        properties.raw_members(|name, field| {
            if room.left == 0 {
                room.is_over = true;
                return;
            }
            room.left = room.left.saturating_sub(1);
            let name = name.as_string().unwrap_or_default();
            fields.push(Self {
                title: string(field, "title"),
                description: string(field, "description"),
                values: FieldValues::of(field, room),
                is_required: required.binary_search(&name).is_ok(),
                default: field.member("default").map(Json::raw),
                raw: field.raw(),
                name,
            });
        });
        fields
    }
}

impl<'a> FieldValues<'a> {
    fn of(field: Json<'a>, room: &mut Room) -> Self {
        match string(field, "type").as_deref() {
            Some("array") => match field.member("items").map(|items| Self::choices(items, "anyOf", room)) {
                Some(choices) if !choices.is_empty() => Self::AnyOf(choices),
                Some(_) | None => Self::Other,
            },
            Some("string") => match Self::choices(field, "oneOf", room) {
                choices if choices.is_empty() => Self::Text,
                choices => Self::OneOf(choices),
            },
            Some("number") => Self::Number,
            Some("integer") => Self::Integer,
            Some("boolean") => Self::Boolean,
            Some(_) | None => Self::Other,
        }
    }

    /// The choices of `enum`, with the names of `enumNames`, or those of `oneOf` or `anyOf`.
    fn choices(json: Json<'a>, titled: &str, room: &mut Room) -> Vec<(Cow<'a, str>, Cow<'a, str>)> {
        let values = room.elements(json.member("enum"));
        if values.is_empty() {
            let choice = |choice: Json<'a>| {
                let value = string(choice, "const")?;
                Some((value.clone(), string(choice, "title").unwrap_or(value)))
            };
            return room.elements(json.member(titled)).into_iter().filter_map(choice).collect();
        }
        let mut names = room.elements(json.member("enumNames")).into_iter();
        let choice = |value: Json<'a>| {
            let (value, name) = (value.as_string(), names.next().and_then(Json::as_text));
            value.map(|value| (value.clone(), name.unwrap_or(value)))
        };
        values.into_iter().filter_map(choice).collect()
    }
}

/// What `sampling/createMessage` asks of the host's model (`CreateMessageRequestParams` in the schemas).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Sampling<'a> {
    /// The messages.
    pub messages: Vec<SamplingMessage<'a>>,
    /// The system prompt that the server suggests.
    pub system_prompt: Option<Cow<'a, str>>,
    /// The most tokens of the answer.
    pub max_tokens: Option<u64>,
    /// The temperature.
    pub temperature: Option<f64>,
    /// Texts that end the answer.
    pub stop_sequences: Vec<Cow<'a, str>>,
    /// Names of models, or parts of them, in the order of preference.
    pub hints: Vec<Cow<'a, str>>,
    /// The tools that the model may call, each as in a list of tools.
    pub tools: Vec<&'a RawValue>,
    /// It has more than [`MAX_VALUES`] values; those beyond are in `raw` only.
    pub is_cut_off: bool,
    /// The parameters, byte for byte.
    pub raw: &'a RawValue,
}

/// A message of a [`Sampling`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SamplingMessage<'a> {
    /// Who speaks; `None` if the role is unknown.
    pub role: Option<Role>,
    /// What is said.
    pub content: Vec<Block<'a>>,
    /// The message, byte for byte.
    pub raw: &'a RawValue,
}

impl<'a> Sampling<'a> {
    /// Reads the parameters of a request.
    pub fn read(raw: &'a RawValue) -> Self {
        let (json, mut room) = (Json::from(raw), Room::new());
        let messages = room.elements(json.member("messages"));
        let message = |message: Json<'a>| {
            let content = match message.member("content") {
                Some(one) if one.is_object() => vec![Block::of(one, &mut room, true)],
                Some(_) => {
                    let blocks = room.elements(message.member("content"));
                    blocks.into_iter().map(|block| Block::of(block, &mut room, true)).collect()
                }
                None => Vec::new(),
            };
            let role = string(message, "role").and_then(|role| Role::read(&role));
            SamplingMessage { role, content, raw: message.raw() }
        };
        let messages = messages.into_iter().map(message).collect();
        let hints = json.member("modelPreferences").map(|preferences| room.elements(preferences.member("hints")));
        let number = |name: &str| json.member(name).map(Json::text);
        Self {
            messages,
            system_prompt: string(json, "systemPrompt"),
            max_tokens: number("maxTokens").and_then(|text| text.parse().ok()),
            temperature: number("temperature").and_then(|text| text.parse().ok()),
            stop_sequences: strings(json, "stopSequences", WORDS).collect(),
            hints: hints.into_iter().flatten().filter_map(|hint| string(hint, "name")).collect(),
            tools: room.elements(json.member("tools")).into_iter().map(Json::raw).collect(),
            is_cut_off: room.is_over,
            raw,
        }
    }

    /// The answer of a model: a text. `model` is its name. An answer with other content is a `CreateMessageResult` of the
    /// schemas.
    pub fn answer(model: &str, text: &str) -> Box<RawValue> {
        let content = Content { kind: "text", text };
        let message = Message { role: Role::Assistant.as_str(), content, model, stop_reason: "endTurn" };
        // Strings cannot fail.
        to_raw_value(&message).unwrap_or_default()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Message<'a> {
    role: &'static str,
    content: Content<'a>,
    model: &'a str,
    stop_reason: &'static str,
}

#[derive(Serialize)]
struct Content<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: &'a str,
}
