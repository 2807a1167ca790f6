//! Bounds the size of results that reach a model.
//!
//! A result of a tool may be larger than a model's context. [`bound`] brings it within a number of bytes: text is cut
//! at the end of a character, any other block is kept whole or left out, and a notice at the end of the content says
//! what was left out. [`bound_utility`] does the same with the results of utility tools. The hub does so with the results
//! of a server whose entry has [`max_result_bytes`](super::config::ToolPolicy::max_result_bytes); an embedder that needs
//! the whole result leaves that unset, and calls these functions itself.
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

use super::Utility;
use crate::jsonrpc::{self, Json, readable};
use crate::protocol::content::Block;

/// The least bound. A smaller one counts as this.
pub const MIN_BYTES: usize = 1024;

/// Room for the notice, and for what is around the blocks.
const RESERVED: usize = 512;

/// The members that are always kept, if they are not longer than [`FLAG`].
const FLAGS: [&str; 2] = ["isError", "resultType"];

/// The longest value of a member that is always kept.
const FLAG: usize = 32;

/// The longest URI that the notice in the contents of a resource has.
const URI: usize = 100;

/// A result within a bound.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Bounded<'a> {
    /// The result; borrowed and unchanged, byte for byte, if nothing was left out. In a text that was cut in UTF-16 U+FFFD is
    /// in the place of half of a surrogate pair.
    pub result: Cow<'a, RawValue>,
    /// What was left out; `None` if nothing was.
    pub left_out: Option<Omission>,
}

impl<'a> Bounded<'a> {
    /// The whole result.
    pub fn whole(result: &'a RawValue) -> Self {
        Self { result: readable(result), left_out: None }
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
    /// The number of prompts, resources or resource templates that were left out of a list.
    pub items: usize,
    /// Their size, in bytes of JSON.
    pub item_bytes: usize,
    /// The size of `structuredContent`, in bytes of JSON, if it was left out.
    pub structured_bytes: usize,
    /// The size of other members that were left out, in bytes of JSON; the notice does not mention them.
    pub other_bytes: usize,
}

impl fmt::Display for Omission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { max_bytes, text_bytes, blocks, block_bytes, items, item_bytes, structured_bytes, other_bytes: _ } =
            *self;
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
        if items > 0 {
            let noun = if items == 1 { "item" } else { "items" };
            write!(f, "{before}{items} {noun} ({item_bytes} bytes)")?;
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
/// but such members: for results of other requests, use [`bound_utility`], or [`bound_text`] on what the model gets of them.
pub fn bound(result: &RawValue, max_bytes: usize) -> Bounded<'_> {
    let max_bytes = max_bytes.max(MIN_BYTES);
    if result.get().len() <= max_bytes {
        return Bounded::whole(result);
    }
    let result = readable(result);
    let json = Json::from(&*result);
    let mut kept = Kept::new(max_bytes);
    kept.blocks(json.member("content"), cut);
    let mut rest = String::new();
    if let Some(structured) = json.member("structuredContent") {
        const NAME: &str = r#","structuredContent":"#;
        if kept.take(NAME.len().saturating_add(structured.text().len())) {
            rest.extend([NAME, structured.text()]);
        } else {
            kept.left_out.structured_bytes = structured.text().len();
        }
    }
    kept.others(json, &["content", "structuredContent"], &mut rest);
    let Kept { elements, left_out, .. } = kept;
    let notice = text_block(&format!("{left_out}"), None);
    let out = [r#"{"content":["#, &elements, &notice, "]", &rest, "}"].concat();
    Bounded { result: Cow::Owned(Json::trusted(&out).to_raw()), left_out: Some(left_out) }
}

/// Brings the result of a utility tool within this many bytes of JSON, at least [`MIN_BYTES`].
///
/// - Of what `read_resource` and `get_prompt` return, contents and messages are kept in their order as long as there is room.
///   A text that does not fit is cut, others are left out, and the notice is a text at the end, like the others.
/// - Of lists, whole items are kept in their order as long as there is room, and the notice is the member `notice`.
///
/// Other members are kept as by [`bound`].
pub fn bound_utility(utility: Utility, result: &RawValue, max_bytes: usize) -> Bounded<'_> {
    let max_bytes = max_bytes.max(MIN_BYTES);
    if result.get().len() <= max_bytes {
        return Bounded::whole(result);
    }
    let result = readable(result);
    let json = Json::from(&*result);
    let mut kept = Kept::new(max_bytes);
    let (mut out, mut rest) = (String::new(), String::new());
    let known: &[&str] = match utility {
        Utility::ReadResource => {
            let contents = json.member("contents");
            kept.blocks(contents, cut_resource);
            let mut uri = None;
            if let Some(contents) = contents {
                contents.each_element(|it| uri = uri.or(it.member("uri").filter(|uri| uri.text().len() <= URI)));
            }
            let uri = uri.and_then(Json::as_string).unwrap_or_default();
            let notice = resource(&string(&uri), "", &format!("{}", kept.left_out));
            out.extend([r#""contents":["#, &kept.elements, &notice, "]"]);
            &["contents"]
        }
        Utility::GetPrompt => {
            kept.blocks(json.member("messages"), cut_message);
            let notice = message(r#""user""#, &text_block(&format!("{}", kept.left_out), None));
            out.extend([r#""messages":["#, &kept.elements, &notice, "]"]);
            &["messages"]
        }
        Utility::ListResources => kept.lists(json, &["resources", "resourceTemplates"], &mut out),
        Utility::ListPrompts => kept.lists(json, &["prompts"], &mut out),
    };
    kept.others(json, known, &mut rest);
    let out = ["{", &out, &rest, "}"].concat();
    Bounded { result: Cow::Owned(Json::trusted(&out).to_raw()), left_out: Some(kept.left_out) }
}

/// What is kept of a result.
struct Kept {
    room: usize,
    /// Each followed by a comma.
    elements: String,
    left_out: Omission,
}

impl Kept {
    fn new(max_bytes: usize) -> Self {
        let left_out = Omission { max_bytes, ..Omission::default() };
        Self { room: max_bytes.saturating_sub(RESERVED), elements: String::new(), left_out }
    }

    /// Whether there is room for this many bytes, which are taken then.
    fn take(&mut self, bytes: usize) -> bool {
        let after = self.room.checked_sub(bytes);
        self.room = after.unwrap_or(self.room);
        after.is_some()
    }

    fn keep(&mut self, element: &str) -> bool {
        let is_kept = self.take(element.len().saturating_add(1));
        if is_kept {
            self.elements.extend([element, ","]);
        }
        is_kept
    }

    /// Keeps the blocks of an array for which there is room, whole or cut.
    fn blocks<'a>(&mut self, array: Option<Json<'a>>, cut: impl Fn(Json<'a>, usize) -> Option<Cut>) {
        let Some(array) = array else { return };
        array.each_element(|block| {
            if self.keep(block.text()) {
                return;
            }
            if let Some(cut) = cut(block, self.room).filter(|cut| self.keep(&cut.json)) {
                self.left_out.text_bytes = self.left_out.text_bytes.saturating_add(cut.missing);
            } else {
                self.left_out.blocks = self.left_out.blocks.saturating_add(1);
                self.left_out.block_bytes = self.left_out.block_bytes.saturating_add(block.text().len());
            }
        });
    }

    /// Keeps the items of an array for which there is room.
    fn items(&mut self, array: Option<Json<'_>>) {
        let Some(array) = array else { return };
        array.each_element(|item| {
            if !self.keep(item.text()) {
                self.left_out.items = self.left_out.items.saturating_add(1);
                self.left_out.item_bytes = self.left_out.item_bytes.saturating_add(item.text().len());
            }
        });
    }

    /// Writes the members that are lists with their items for which there is room, and the notice.
    fn lists<'a>(&mut self, json: Json<'_>, lists: &'a [&'a str], out: &mut String) -> &'a [&'a str] {
        for list in lists {
            self.items(json.member(list));
            let items = core::mem::take(&mut self.elements);
            out.extend(["\"", list, "\":[", items.trim_end_matches(','), "],"]);
        }
        out.extend([r#""notice":"#, &string(&format!("{}", self.left_out))]);
        lists
    }

    /// Keeps the flags, and other members than these for which there is room.
    fn others(&mut self, json: Json<'_>, known: &[&str], rest: &mut String) {
        for name in FLAGS {
            if let Some(flag) = json.member(name).filter(|flag| flag.text().len() <= FLAG) {
                rest.extend([",\"", name, "\":", flag.text()]);
            }
        }
        json.raw_members(|raw, value| {
            let name = raw.as_string();
            if name.as_deref().is_some_and(|name| known.contains(&name) || FLAGS.contains(&name)) {
                return;
            }
            let length = raw.text().len().saturating_add(value.text().len());
            if self.take(length.saturating_add(2)) {
                rest.extend([",", raw.text(), ":", value.text()]);
            } else {
                self.left_out.other_bytes = self.left_out.other_bytes.saturating_add(value.text().len());
            }
        });
    }
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
    cut_text(&text.text, room, |kept| text_block(kept, annotations))
}

/// As [`cut`], of the contents of a resource.
fn cut_resource(contents: Json<'_>, room: usize) -> Option<Cut> {
    let (uri, text) = (contents.member("uri")?, contents.member("text").and_then(Json::as_string)?);
    let mime_type = contents.member("mimeType").filter(|mime_type| mime_type.as_string().is_some());
    let mime_type = mime_type.map(|mime_type| format!(r#","mimeType":{}"#, mime_type.text())).unwrap_or_default();
    cut_text(&text, room, |kept| resource(uri.text(), &mime_type, kept))
}

/// As [`cut`], of a message of a prompt.
fn cut_message(whole: Json<'_>, room: usize) -> Option<Cut> {
    let role = whole.member("role")?;
    let around = message(role.text(), "").len();
    let Cut { json, missing } = cut(whole.member("content")?, room.checked_sub(around)?)?;
    Some(Cut { json: message(role.text(), &json), missing })
}

/// The longest beginning of a text that has room with what is written around it, and one byte after it.
fn cut_text(text: &str, room: usize, written: impl Fn(&str) -> String) -> Option<Cut> {
    let kept = fitting(text, room.checked_sub(written("").len())?.checked_sub(1)?);
    (!kept.is_empty()).then(|| Cut { json: written(kept), missing: text.len().saturating_sub(kept.len()) })
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

/// A text as JSON.
fn string(text: &str) -> String {
    let mut written = Vec::new();
    jsonrpc::string(&mut written, text);
    // Strings are written as UTF-8.
    String::from_utf8(written).unwrap_or_default()
}

/// A block of text.
fn text_block(text: &str, annotations: Option<Json<'_>>) -> String {
    let text = string(text);
    match annotations {
        Some(annotations) => format!(r#"{{"type":"text","text":{text},"annotations":{}}}"#, annotations.text()),
        None => format!(r#"{{"type":"text","text":{text}}}"#),
    }
}

/// The contents of a resource, a text.
fn resource(uri: &str, mime_type: &str, text: &str) -> String {
    format!(r#"{{"uri":{uri}{mime_type},"text":{}}}"#, string(text))
}

/// A message of a prompt.
fn message(role: &str, content: &str) -> String {
    format!(r#"{{"role":{role},"content":{content}}}"#)
}
