use alloc::borrow::Cow;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::{Block, ResourceContents, Role, Room, object, string};
use crate::jsonrpc::Json;

/// The result of `tools/call` (`CallToolResult` in the schemas).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ToolResult<'a> {
    /// The content, in order.
    pub content: Vec<Block<'a>>,
    /// It has more than [`MAX_VALUES`](super::MAX_VALUES) values; those beyond are in `raw` only.
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
    /// Reads a result.
    pub fn read(raw: &'a RawValue) -> Self {
        let (json, mut room) = (Json::from(raw), Room::new());
        let content =
            room.elements(json, "content").into_iter().map(|block| Block::of(block, &mut room, true)).collect();
        Self {
            content,
            is_cut_off: room.is_over,
            structured: json.member("structuredContent").map(Json::raw),
            is_error: json.member("isError").is_some_and(|value| value.text() == "true"),
            meta: object(json, "_meta"),
            raw,
        }
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
    /// It has more than [`MAX_VALUES`](super::MAX_VALUES) values; those beyond are in `raw` only.
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
        let messages = room.elements(json, "messages");
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
    /// It has more than [`MAX_VALUES`](super::MAX_VALUES) values; those beyond are in `raw` only.
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
        let contents = room.elements(json, "contents").into_iter().filter_map(ResourceContents::read).collect();
        Self { contents, is_cut_off: room.is_over, meta: object(json, "_meta"), raw }
    }
}
