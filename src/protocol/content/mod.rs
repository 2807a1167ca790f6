//! Typed views of what servers send to models and users: results of tools, prompts and resources, content blocks,
//! annotations, icons (specification 2026-07-28, "Tools", "Prompts", "Resources"; `ContentBlock` in the schemas).
//!
//! A view borrows from the server's JSON, which stays beside it as `raw`. Reading never fails on a member: one that is
//! missing or has the wrong type is `None`, empty or `false`, and a content block of an unknown type is
//! [`Block::Other`]. Reading costs time in proportion to the JSON. A view has at most [`MAX_VALUES`] blocks, messages,
//! contents and icons, those in blocks included: a server can make many of a few bytes each. The others are in `raw`.

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

/// Maximum number of blocks, messages, contents and icons in a view.
pub const MAX_VALUES: usize = 4096;

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
    fn elements<'a>(&mut self, json: Json<'a>, name: &str) -> Vec<Json<'a>> {
        let Some(elements) = json.member(name).and_then(|array| array.elements(self.left)) else { return Vec::new() };
        self.left = self.left.saturating_sub(elements.kept.len());
        self.is_over |= elements.more;
        elements.kept
    }
}

/// The strings of a member that is an array.
fn strings<'a>(json: Json<'a>, name: &str) -> impl Iterator<Item = Cow<'a, str>> {
    let elements = json.member(name).and_then(|array| array.elements(WORDS));
    elements.into_iter().flat_map(|elements| elements.kept).filter_map(Json::as_string)
}
