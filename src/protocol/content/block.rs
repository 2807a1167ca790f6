use alloc::borrow::Cow;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::{Annotations, Icon, Room, object, string};
use crate::jsonrpc::Json;

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
    pub(super) fn of(json: Json<'a>, room: &mut Room, nested: bool) -> Self {
        let known = match string(json, "type").as_deref() {
            Some("text") => Self::text(json),
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

    fn text(json: Json<'a>) -> Option<Self> {
        let (text, annotations, meta) = (string(json, "text")?, Annotations::of(json), object(json, "_meta"));
        Some(Self::Text(Text { text, annotations, meta, raw: json.raw() }))
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
            content: room.elements(json, "content").into_iter().map(|block| Self::of(block, room, false)).collect(),
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
