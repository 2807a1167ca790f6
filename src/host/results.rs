//! Bounds the size of results that reach a model.
//!
//! A result of a tool may be larger than a model's context. [`bound`] brings it within a number of bytes: text is cut
//! at the end of a character, any other block is kept whole or left out, and a notice at the end of the content says
//! what was left out. The hub does so with the results of a server's tools whose entry has
//! [`max_result_bytes`](super::config::ToolPolicy::max_result_bytes); an embedder that needs the whole result leaves that
//! unset, and calls [`bound`] itself.
//!
//! ```
//! use mcp_proto::RawValue;
//! use mcp_proto::host::results::bound;
//! use mcp_proto::protocol::content::{Block, ToolResult};
//!
//! let text = "x".repeat(100_000);
//! let result = RawValue::from_string(format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#)).unwrap();
//! let bounded = bound(&result, 4096);
//! assert!(bounded.result.get().len() <= 4096);
//!
//! let view = ToolResult::read(&bounded.result);
//! let [Block::Text(cut), Block::Text(notice)] = &view.content[..] else { panic!("{view:?}") };
//! assert!(text.starts_with(&*cut.text));
//! let missing = text.len() - cut.text.len();
//! assert_eq!(notice.text, format!("[The result is longer than 4096 bytes. Left out: {missing} bytes of text.]"));
//! ```

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use serde_json::value::RawValue;

use crate::jsonrpc::{self, Json};
use crate::protocol::content::Block;

/// The least bound. A smaller one counts as this.
pub const MIN_BYTES: usize = 1024;

/// Room for the notice, and for what is around the blocks.
const RESERVED: usize = 512;

/// The members that are always kept, if they are not longer than [`FLAG`].
const FLAGS: [&str; 2] = ["isError", "resultType"];

/// The longest value of a member that is always kept.
const FLAG: usize = 32;

/// A result within a bound.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Bounded<'a> {
    /// The result; borrowed and unchanged, byte for byte, if nothing was left out.
    pub result: Cow<'a, RawValue>,
    /// What was left out; `None` if nothing was.
    pub left_out: Option<Omission>,
}

impl<'a> Bounded<'a> {
    /// The whole result.
    pub const fn whole(result: &'a RawValue) -> Self {
        Self { result: Cow::Borrowed(result), left_out: None }
    }
}

/// What was left out of a result. Its `Display` is the notice for the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Omission {
    /// The bound, in bytes.
    pub max_bytes: usize,
    /// The text that was cut off, in bytes of UTF-8.
    pub text_bytes: usize,
    /// The number of blocks that were left out.
    pub blocks: usize,
    /// Their size, in bytes of JSON.
    pub block_bytes: usize,
    /// The size of `structuredContent`, in bytes of JSON, if it was left out.
    pub structured_bytes: usize,
    /// The size of other members that were left out, in bytes of JSON; the notice does not mention them.
    pub other_bytes: usize,
}

impl fmt::Display for Omission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { max_bytes, text_bytes, blocks, block_bytes, structured_bytes, other_bytes: _ } = *self;
        write!(f, "[The result is longer than {max_bytes} bytes.")?;
        let mut before = " Left out: ";
        if text_bytes > 0 {
            write!(f, "{before}{text_bytes} bytes of text")?;
            before = ", ";
        }
        if blocks > 0 {
            let noun = if blocks == 1 { "block" } else { "blocks" };
            write!(f, "{before}{blocks} {noun} of content ({block_bytes} bytes)")?;
            before = ", ";
        }
        if structured_bytes > 0 {
            write!(f, "{before}the structured content ({structured_bytes} bytes)")?;
            before = ", ";
        }
        f.write_str(if before == ", " { ".]" } else { "]" })
    }
}

/// Brings the result of `tools/call` (`CallToolResult` in the schemas) within this many bytes of JSON, at least
/// [`MIN_BYTES`].
///
/// Blocks of content are kept in their order as long as there is room. A text that does not fit is cut, and loses its
/// `_meta`; other blocks that do not fit are left out. `structuredContent` and members such as `_meta` are kept whole if
/// there is room after the content. `isError` and `resultType` stay. Nothing of a longer result without content is kept
/// but such members: for results of other requests, use [`bound_text`] on what the model gets of them.
pub fn bound(result: &RawValue, max_bytes: usize) -> Bounded<'_> {
    let max_bytes = max_bytes.max(MIN_BYTES);
    if result.get().len() <= max_bytes {
        return Bounded::whole(result);
    }
    let (json, mut left_out) = (Json::from(result), Omission { max_bytes, ..Omission::default() });
    let mut room = max_bytes.saturating_sub(RESERVED);
    let mut out = String::from(r#"{"content":["#);
    let take = |block: Json<'_>| {
        if let Some(after) = room.checked_sub(block.text().len().saturating_add(1)) {
            room = after;
            out.extend([block.text(), ","]);
        } else if let Some(cut) = cut(block, room) {
            room = room.saturating_sub(cut.json.len().saturating_add(1));
            left_out.text_bytes = left_out.text_bytes.saturating_add(cut.missing);
            out.extend([&*cut.json, ","]);
        } else {
            left_out.blocks = left_out.blocks.saturating_add(1);
            left_out.block_bytes = left_out.block_bytes.saturating_add(block.text().len());
        }
    };
    if let Some(content) = json.member("content") {
        content.each_element(take);
    }
    let mut rest = String::new();
    if let Some(structured) = json.member("structuredContent") {
        const NAME: &str = r#","structuredContent":"#;
        match room.checked_sub(NAME.len().saturating_add(structured.text().len())) {
            Some(after) => {
                room = after;
                rest.extend([NAME, structured.text()]);
            }
            None => left_out.structured_bytes = structured.text().len(),
        }
    }
    for name in FLAGS {
        if let Some(flag) = json.member(name).filter(|flag| flag.text().len() <= FLAG) {
            rest.extend([",\"", name, "\":", flag.text()]);
        }
    }
    json.raw_members(|raw, value| {
        let name = raw.as_string();
        if matches!(name.as_deref(), Some("content" | "structuredContent" | "isError" | "resultType")) {
            return;
        }
        let length = raw.text().len().saturating_add(value.text().len());
        match room.checked_sub(length.saturating_add(2)) {
            Some(after) => {
                room = after;
                rest.extend([",", raw.text(), ":", value.text()]);
            }
            None => left_out.other_bytes = left_out.other_bytes.saturating_add(value.text().len()),
        }
    });
    out.push_str(&text_block(&format!("{left_out}"), None));
    out.extend(["]", &rest, "}"]);
    Bounded { result: Cow::Owned(Json::trusted(&out).to_raw()), left_out: Some(left_out) }
}

/// Brings a text within this many bytes, at least [`MIN_BYTES`]: it is cut at the end of a character, and a notice on a
/// line of its own says how much is left out.
///
/// ```
/// use mcp_proto::host::results::bound_text;
///
/// assert_eq!(bound_text("short", 4096), "short");
/// let bounded = bound_text(&"é".repeat(5_000), 4096).into_owned();
/// assert!(bounded.len() <= 4096 && bounded.ends_with(" bytes of text.]"));
/// ```
pub fn bound_text(text: &str, max_bytes: usize) -> Cow<'_, str> {
    let max_bytes = max_bytes.max(MIN_BYTES);
    if text.len() <= max_bytes {
        return Cow::Borrowed(text);
    }
    let mut end = max_bytes.saturating_sub(RESERVED);
    while !text.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    let kept = text.get(..end).unwrap_or_default();
    let text_bytes = text.len().saturating_sub(kept.len());
    let left_out = Omission { max_bytes, text_bytes, ..Omission::default() };
    Cow::Owned(format!("{kept}\n{left_out}"))
}

/// A block whose text was cut.
struct Cut {
    json: String,
    /// The bytes of text that were left out.
    missing: usize,
}

/// A text within this many bytes of JSON; `None` if the block is not a text, or there is no room for a part of it.
fn cut(block: Json<'_>, room: usize) -> Option<Cut> {
    let Block::Text(text) = Block::read(block.raw()) else { return None };
    let annotations = block.member("annotations").filter(|annotations| annotations.is_object());
    let around = text_block("", annotations).len();
    let kept = fitting(&text.text, room.checked_sub(around)?.checked_sub(1)?);
    (!kept.is_empty())
        .then(|| Cut { json: text_block(kept, annotations), missing: text.text.len().saturating_sub(kept.len()) })
}

/// The longest beginning of a text that takes at most this many bytes as JSON.
fn fitting(text: &str, mut room: usize) -> &str {
    for (at, char) in text.char_indices() {
        let length = match char {
            '"' | '\\' | '\n' | '\r' | '\t' => 2,
            // As `\u001f`.
            char if char.is_control() => 6,
            char => char.len_utf8(),
        };
        match room.checked_sub(length) {
            Some(rest) => room = rest,
            None => return text.get(..at).unwrap_or_default(),
        }
    }
    text
}

/// A block of text.
fn text_block(text: &str, annotations: Option<Json<'_>>) -> String {
    let mut written = Vec::new();
    jsonrpc::string(&mut written, text);
    // Strings are written as UTF-8.
    let text = String::from_utf8(written).unwrap_or_default();
    match annotations {
        Some(annotations) => format!(r#"{{"type":"text","text":{text},"annotations":{}}}"#, annotations.text()),
        None => format!(r#"{{"type":"text","text":{text}}}"#),
    }
}
