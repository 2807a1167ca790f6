//! Typed views of what servers send to models and users: results of tools, prompts and resources, content blocks,
//! annotations, icons (specification 2026-07-28, "Tools", "Prompts", "Resources"; `ContentBlock` in the schemas).
//!
//! A view borrows from the server's JSON, which stays beside it as `raw`. Reading never fails on a member: one that is
//! missing or has the wrong type is `None`, empty or `false`, and a content block of an unknown type is
//! [`Block::Other`]. Reading costs time and memory in proportion to the JSON.

mod annotations;
mod block;
mod icon;
mod result;

pub use annotations::{Annotations, Role};
pub use block::{Block, EmbeddedResource, Media, ResourceContents, ResourceLink, Text, ToolOutput, ToolUse};
pub use icon::{Icon, Theme};
pub use result::{PromptMessage, PromptResult, ReadResult, ToolResult};

use alloc::borrow::Cow;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use crate::jsonrpc::Json;

/// A member that is a string.
fn string<'a>(json: Json<'a>, name: &str) -> Option<Cow<'a, str>> {
    json.member(name).and_then(Json::as_string)
}

/// A member that is an object.
fn object<'a>(json: Json<'a>, name: &str) -> Option<&'a RawValue> {
    json.member(name).filter(|value| value.is_object()).map(Json::raw)
}

/// The elements of a member that is an array.
fn elements<'a>(json: Json<'a>, name: &str) -> Vec<Json<'a>> {
    let array = json.member(name).filter(|value| value.first() == b'[');
    array.and_then(|array| array.elements(usize::MAX)).map_or(Vec::new(), |elements| elements.kept)
}
