//! The result of a tool as a model gets it: one of its two forms, within a bound.
//!
//! **One form.** A result may have `content` and `structuredContent`, and mostly both say the same. [`one_form`] leaves one of
//! them. The hub does so with the results of all tools, unless
//! [`both_forms`](super::hub::HubOptions::both_forms) is set.
//!
//! **Within a bound.** A result may be larger than a model's context. [`bound`] brings it within a number of bytes, or of what
//! an embedder's counter of tokens counts ([`Bound`]):
//!
//! - The beginning and the end of the content stay. What is between them is left out, and a notice in its place says
//!   what that was.
//! - A text is cut at the end of a character, or where the counter says. Any other block is kept whole or left out.
//! - Images, sound and blobs become a line that says of what type and how long they were.
//!
//! [`bound_utility`] does the same with the results of utility tools, and [`bound_text`] with a text. The hub does so with the
//! results of a server whose entry has [`max_result_bytes`](super::config::ToolPolicy::max_result_bytes); an embedder that
//! needs the whole result leaves that unset, and calls these functions itself.
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
//! let [Block::Text(head), Block::Text(notice), Block::Text(tail)] = &view.content[..] else { panic!("{view:?}") };
//! assert!(text.starts_with(&*head.text) && text.ends_with(&*tail.text));
//! let missing = text.len() - head.text.len() - tail.text.len();
//! assert_eq!(notice.text, format!("[The result is longer than 4096 bytes. Left out: {missing} bytes of text.]"));
//! ```

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::mem;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Utility;
use crate::jsonrpc::{self, Json, has_either_pair, readable, without_lone_surrogates};
use crate::protocol::content::Block;

/// The least bound in bytes. A smaller one counts as this.
pub const MIN_BYTES: usize = 1024;

/// Room for the notice, and for what is around the blocks.
const RESERVED: usize = 512;

/// The members that are always kept, if they are not longer than [`FLAG`].
const FLAGS: [&str; 2] = ["isError", "resultType"];

/// The longest value of a member that is always kept.
const FLAG: usize = 32;

/// The longest URI or MIME type that a notice or a line in place of data has.
const NAME: usize = 100;

/// Data of at most this many bytes of JSON stays, since a line about it would not be shorter, and so short a text is not cut.
const SHORT: usize = 256;

/// The longest text that is compared with structured content as JSON, in bytes. A longer one is compared byte for byte.
const COMPARED: usize = 1 << 20;

/// How much of a result a model gets.
#[derive(Clone, Copy)]
pub struct Bound<'a> {
    max: usize,
    count: Option<&'a dyn Fn(&str) -> usize>,
}

impl<'a> Bound<'a> {
    /// At most this many bytes of JSON (of UTF-8, of [`bound_text`]), at least [`MIN_BYTES`].
    pub const fn bytes(max: usize) -> Self {
        Self { max: if max < MIN_BYTES { MIN_BYTES } else { max }, count: None }
    }

    /// At most this many tokens, as this function counts them. It is asked for the tokens of each text, and of the JSON of
    /// everything else, images included. Where `max` is less than the tokens of a notice, a notice is all that is left.
    ///
    /// The function is called a few dozen times for a text that is cut. It may say anything; where more text has fewer
    /// tokens, a text is cut too early or too late.
    ///
    /// ```
    /// use mcp_proto::host::results::{Bound, bound_text};
    ///
    /// let words = |text: &str| text.split_whitespace().count();
    /// let long = "word ".repeat(10_000);
    /// let bounded = bound_text(&long, Bound::tokens(500, &words));
    /// assert!((400..=500).contains(&words(&bounded)));
    /// assert!(bounded.contains("[The result is longer than 500 tokens. Left out: "));
    /// ```
    pub const fn tokens(max: usize, count: &'a dyn Fn(&str) -> usize) -> Self {
        Self { max: if max == 0 { 1 } else { max }, count: Some(count) }
    }

    /// What a text takes of the bound, if it is written so.
    fn cost(self, text: &str, written: &str) -> usize {
        // A comma follows.
        self.count.map_or_else(|| written.len().saturating_add(1), |count| count(text))
    }

    /// Whether this is within the bound as it is.
    fn has_room_for(self, text: &str) -> bool {
        self.count.map_or(text.len(), |count| count(text)) <= self.max
    }

    /// What is left beside the notice.
    fn room(self) -> usize {
        let longest = || format!("{}", Omission::longest());
        self.max.saturating_sub(self.count.map_or(RESERVED, |count| count(&longest())))
    }
}

/// A number of bytes.
impl From<usize> for Bound<'_> {
    fn from(max: usize) -> Self {
        Self::bytes(max)
    }
}

impl fmt::Debug for Bound<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.max, if self.count.is_some() { "tokens" } else { "bytes" })
    }
}

/// The result of `tools/call` (`CallToolResult` in the schemas) with one of its two forms, in `content`:
///
/// - `content` as it is, if a text in it is the same JSON as `structuredContent`;
/// - the structured form, as JSON in a text in place of the texts of `content`, if `is_valid` says that the tool has an
///   output schema that it satisfies ([`Tool::check_result`](crate::catalog::Tool::check_result)), or if `content` is empty;
/// - else `content` as it is: it is what the server wrote for a model.
///
/// Blocks other than texts stay: they are no other form of the same. A result without `structuredContent` does not change.
/// `is_valid` is called once at most, and not for a result that says that the tool failed.
///
/// ```
/// use mcp_proto::RawValue;
/// use mcp_proto::host::results::one_form;
///
/// let result = r#"{"content":[{"type":"text","text":"It is mild."}],"structuredContent":{"celsius":21}}"#;
/// let result = RawValue::from_string(result.into()).unwrap();
/// assert_eq!(one_form(&result, |_| true).get(), r#"{"content":[{"type":"text","text":"{\"celsius\":21}"}]}"#);
/// assert_eq!(one_form(&result, |_| false).get(), r#"{"content":[{"type":"text","text":"It is mild."}]}"#);
/// ```
pub fn one_form<'a>(result: &'a RawValue, is_valid: impl FnOnce(&RawValue) -> bool) -> Cow<'a, RawValue> {
    const STRUCTURED: &str = "structuredContent";
    // Few results without that member have these pairs: of its name, and of an escape sequence in it.
    if !has_either_pair(result.get().as_bytes(), *b"dC", *b"\\u") {
        return Cow::Borrowed(result);
    }
    let json = Json::from(result);
    let Some(structured) = json.member(STRUCTURED) else { return Cow::Borrowed(result) };
    let content = json.member("content");
    let (mut is_empty, mut is_same) = (true, false);
    let mut same = SameJson::of(structured);
    if let Some(content) = content {
        content.each_element(|block| {
            is_empty = false;
            is_same = is_same || Kind::Block.text(block).is_some_and(|text| same.is(&text));
        });
    }
    let is_error = || json.member("isError").is_some_and(|value| value.text() == "true");
    // An object or an array: null stands for no structured content.
    let takes_place = !is_same && !structured.is_null() && (is_empty || !is_error() && is_valid(structured.raw()));
    let mut replaced = takes_place.then(|| {
        let mut blocks = text_block(&without_lone_surrogates(structured.text()), None);
        if let Some(content) = content {
            let others = |block: &Json<'_>| !matches!(Block::read(block.raw()), Block::Text(_));
            content.each_element(|block| {
                if others(&block) {
                    blocks.extend([",", block.text()]);
                }
            });
        }
        format!(r#""content":[{blocks}]"#)
    });
    let mut out = String::from("{");
    let mut push = |parts: [&str; 3]| {
        out.push_str(if out.len() > 1 { "," } else { "" });
        out.extend(parts);
    };
    json.raw_members(|raw, value| match (raw.as_string().as_deref(), &mut replaced) {
        (Some(STRUCTURED), _) => {}
        // What repeats it goes with it.
        (Some("content"), Some(replaced)) => {
            let replaced = mem::take(replaced);
            if !replaced.is_empty() {
                push([&replaced, "", ""]);
            }
        }
        _ => push([raw.text(), ":", value.text()]),
    });
    if let Some(replaced) = replaced.filter(|replaced| !replaced.is_empty()) {
        push([&replaced, "", ""]);
    }
    out.push('}');
    Cow::Owned(Json::trusted(&out).to_raw())
}

/// Whether texts are the same JSON as a value, but for white space and the order of members.
struct SameJson<'a> {
    value: Json<'a>,
    read: Option<Value>,
    /// Bytes of texts that may still be read.
    room: usize,
}

impl<'a> SameJson<'a> {
    const fn of(value: Json<'a>) -> Self {
        Self { value, read: None, room: COMPARED }
    }

    fn is(&mut self, text: &str) -> bool {
        let (text, value) = (text.trim(), self.value);
        if text == value.text() {
            return true;
        }
        // A text that is no JSON is found to be none at its beginning.
        let is_like = value.text().len() <= COMPARED && text.as_bytes().first() == Some(&value.first());
        let Some(room) = self.room.checked_sub(text.len()).filter(|_| is_like) else { return false };
        self.room = room;
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
        let value = self.read.get_or_insert_with(|| read(value.text()));
        // What cannot be read is the same as nothing.
        !value.is_null() && read(text) == *value
    }
}

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
    /// The bound, in bytes; 0 if it is in tokens.
    pub max_bytes: usize,
    /// The bound, in tokens; 0 if it is in bytes.
    #[cfg_attr(feature = "serde", serde(default))]
    pub max_tokens: usize,
    /// The text that was cut out, in bytes of UTF-8.
    pub text_bytes: usize,
    /// The number of blocks that were left out, or in whose place is a line about their data.
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

impl Omission {
    fn of(bound: Bound<'_>) -> Self {
        let (max_bytes, max_tokens) = if bound.count.is_some() { (0, bound.max) } else { (bound.max, 0) };
        Self { max_bytes, max_tokens, ..Self::default() }
    }

    /// One whose notice is as long as any.
    const fn longest() -> Self {
        const MAX: usize = usize::MAX;
        Self {
            max_bytes: MAX,
            max_tokens: MAX,
            text_bytes: MAX,
            blocks: MAX,
            block_bytes: MAX,
            items: MAX,
            item_bytes: MAX,
            structured_bytes: MAX,
            other_bytes: MAX,
        }
    }

    fn add_block(&mut self, kind: Kind, bytes: usize) {
        let (count, size) = match kind {
            Kind::Item => (&mut self.items, &mut self.item_bytes),
            Kind::Block | Kind::Contents | Kind::Message => (&mut self.blocks, &mut self.block_bytes),
        };
        *count = count.saturating_add(1);
        *size = size.saturating_add(bytes);
    }
}

impl fmt::Display for Omission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            max_bytes, max_tokens, text_bytes, blocks, block_bytes, items, item_bytes, structured_bytes, ..
        } = *self;
        match max_tokens {
            0 => write!(f, "[The result is longer than {max_bytes} bytes.")?,
            _ => write!(f, "[The result is longer than {max_tokens} tokens.")?,
        }
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

/// Brings the result of `tools/call` (`CallToolResult` in the schemas) within a bound, a number of bytes of JSON mostly.
///
/// The first and the last blocks of content are kept in their order as long as there is room, for each half of it. A text,
/// or the text of an embedded resource, that does not fit is cut, and loses its `_meta`; other blocks that do not fit are
/// left out. The notice is between the two. `structuredContent` and members such as `_meta` are kept whole if there is room
/// after the content. `isError` and `resultType` stay. Nothing of a longer result without content is kept but such members:
/// for results of other requests, use [`bound_utility`], or [`bound_text`] on what the model gets of them.
pub fn bound<'r, 'b>(result: &'r RawValue, bound: impl Into<Bound<'b>>) -> Bounded<'r> {
    let bound = bound.into();
    within(result, bound, |json, kept| {
        let content = kept.section(json.member("content"), Kind::Block);
        let mut rest = String::new();
        if let Some(structured) = json.member("structuredContent") {
            const NAME: &str = r#","structuredContent":"#;
            if kept.take(bound.cost(structured.text(), structured.text()).saturating_add(NAME.len())) {
                rest.extend([NAME, structured.text()]);
            } else {
                kept.left_out.structured_bytes = structured.text().len();
            }
        }
        kept.others(json, &["content", "structuredContent"], &mut rest);
        let notice = text_block(&format!("{}", kept.left_out), None);
        [r#"{"content":["#, &content.around(&notice), "]", &rest, "}"].concat()
    })
}

/// Brings the result of a utility tool within a bound, a number of bytes of JSON mostly.
///
/// - Of what `read_resource` and `get_prompt` return, the first and the last contents and messages are kept as blocks are by
///   [`bound`], and the notice between them is a text like the others.
/// - Of lists, the first and the last items are kept whole as long as there is room, and the notice is the member `notice`.
///
/// Other members are kept as by [`bound`].
pub fn bound_utility<'r, 'b>(utility: Utility, result: &'r RawValue, bound: impl Into<Bound<'b>>) -> Bounded<'r> {
    within(result, bound.into(), |json, kept| {
        let (mut out, mut rest) = (String::new(), String::new());
        let known: &[&str] = match utility {
            Utility::ReadResource => {
                let contents = json.member("contents");
                let kept_of_them = kept.section(contents, Kind::Contents);
                let mut uri = None;
                if let Some(contents) = contents {
                    contents.each_element(|it| uri = uri.or(it.member("uri").filter(|uri| uri.text().len() <= NAME)));
                }
                let uri = uri.and_then(Json::as_string).unwrap_or_default();
                let notice = resource(&string(&uri), "", &format!("{}", kept.left_out));
                out.extend([r#""contents":["#, &kept_of_them.around(&notice), "]"]);
                &["contents"]
            }
            Utility::GetPrompt => {
                let messages = kept.section(json.member("messages"), Kind::Message);
                let notice = message(r#""user""#, &text_block(&format!("{}", kept.left_out), None));
                out.extend([r#""messages":["#, &messages.around(&notice), "]"]);
                &["messages"]
            }
            Utility::ListResources => kept.lists(json, &["resources", "resourceTemplates"], &mut out),
            Utility::ListPrompts => kept.lists(json, &["prompts"], &mut out),
        };
        kept.others(json, known, &mut rest);
        ["{", &out, &rest, "}"].concat()
    })
}

/// Writes a result with what is kept of it, if it is not within the bound.
fn within<'r>(
    result: &'r RawValue,
    bound: Bound<'_>,
    write: impl FnOnce(Json<'_>, &mut Kept<'_>) -> String,
) -> Bounded<'r> {
    if bound.has_room_for(result.get()) {
        return Bounded::whole(result);
    }
    let readable = readable(result);
    let nothing = Omission::of(bound);
    let mut kept = Kept { bound, room: bound.room(), left_out: nothing };
    let out = write(Json::from(&*readable), &mut kept);
    // The tokens of the JSON may be more than those of the texts in it.
    if kept.left_out == nothing && bound.count.is_some() {
        return Bounded::whole(result);
    }
    Bounded { result: Cow::Owned(Json::trusted(&out).to_raw()), left_out: Some(kept.left_out) }
}

/// What an element of a list in a result is.
#[derive(Clone, Copy)]
enum Kind {
    /// A block of content.
    Block,
    /// The contents of a resource.
    Contents,
    /// A message of a prompt.
    Message,
    /// A resource, a resource template or a prompt.
    Item,
}

impl Kind {
    /// The text that can be cut.
    fn text(self, element: Json<'_>) -> Option<Cow<'_, str>> {
        match self {
            Self::Block => match element.member("type")?.as_string()?.as_ref() {
                "text" => element.member("text")?.as_text(),
                "resource" => Self::Contents.text(element.member("resource")?),
                _ => None,
            },
            Self::Contents => element.member("uri").and(element.member("text"))?.as_text(),
            Self::Message => element.member("role").and(Self::Block.text(element.member("content")?)),
            Self::Item => None,
        }
    }

    /// An element with this text in place of its own or of its data. `is_data` tells whether it had data: a line about them
    /// is plain text.
    fn with_text(self, element: Json<'_>, text: &str, is_data: bool) -> Option<String> {
        Some(match self {
            Self::Block => match element.member("resource") {
                Some(contents) => {
                    let contents = Self::Contents.with_text(contents, text, is_data)?;
                    format!(r#"{{"type":"resource","resource":{contents}}}"#)
                }
                None => text_block(text, element.member("annotations").filter(|it| it.is_object())),
            },
            Self::Contents => {
                let mime_type = element.member("mimeType").filter(|it| !is_data && it.as_string().is_some());
                let mime_type = mime_type.map(|it| format!(r#","mimeType":{}"#, it.text())).unwrap_or_default();
                resource(element.member("uri")?.text(), &mime_type, text)
            }
            Self::Message => message(
                element.member("role")?.text(),
                &Self::Block.with_text(element.member("content")?, text, is_data)?,
            ),
            Self::Item => return None,
        })
    }

    /// The line in place of an image, sound or a blob.
    fn line(self, element: Json<'_>) -> Option<String> {
        let data = match self {
            Self::Block => match element.member("resource") {
                Some(contents) => return Self::Contents.line(contents),
                None => element.member("data")?,
            },
            Self::Contents => element.member("blob")?,
            Self::Message => return Self::Block.line(element.member("content")?),
            Self::Item => return None,
        };
        let mime_type = element.member("mimeType").and_then(Json::as_string).filter(|it| it.len() <= NAME);
        let what = mime_type.as_deref().unwrap_or("data of an unknown type");
        Some(format!("[Left out: {what}, {} bytes in Base64]", data.text().len().saturating_sub(2)))
    }

    /// An element as it is, or with a line in place of its data.
    fn shown(self, element: Json<'_>) -> Cow<'_, str> {
        let whole = element.text();
        let shorter = || self.with_text(element, &self.line(element)?, true).filter(|line| line.len() < whole.len());
        let shorter = if whole.len() > SHORT { shorter() } else { None };
        shorter.map_or(Cow::Borrowed(whole), Cow::Owned)
    }
}

/// What is kept of a result.
struct Kept<'a> {
    bound: Bound<'a>,
    room: usize,
    left_out: Omission,
}

/// The first and the last elements of a list that are kept, each followed by a comma.
#[derive(Default)]
struct Ends {
    head: String,
    tail: String,
}

impl Ends {
    /// With a notice between them.
    fn around(&self, notice: &str) -> String {
        [&self.head, notice, ",", &self.tail].concat().trim_end_matches(',').into()
    }
}

impl Kept<'_> {
    /// Whether there is room for this much, which is taken then.
    fn take(&mut self, cost: usize) -> bool {
        let after = self.room.checked_sub(cost);
        self.room = after.unwrap_or(self.room);
        after.is_some()
    }

    /// What an element takes of the bound.
    fn cost(&self, kind: Kind, shown: &str) -> usize {
        let text = if self.bound.count.is_some() { kind.text(Json::trusted(shown)) } else { None };
        self.bound.cost(text.as_deref().unwrap_or(shown), shown)
    }

    /// Keeps the first and the last elements of a list: all for which there is room, else for each a half of it.
    fn section(&mut self, list: Option<Json<'_>>, kind: Kind) -> Ends {
        let mut ends = Ends::default();
        let Some(list) = list else { return ends };
        let mut rest = 0_usize;
        list.each_element(|element| rest = rest.saturating_add(self.cost(kind, &kind.shown(element))));
        let half = if rest <= self.room { 0 } else { self.room / 2 };
        let mut is_head = true;
        list.each_element(|element| {
            let shown = kind.shown(element);
            let cost = self.cost(kind, &shown);
            // Of the elements behind this one.
            let behind = rest.saturating_sub(cost);
            let whole = mem::replace(&mut rest, behind);
            if let Cow::Owned(_) = shown {
                self.left_out.add_block(kind, element.text().len());
            }
            let head = self.room.saturating_sub(half);
            if is_head && cost <= head || !is_head && whole <= self.room {
                self.room = self.room.saturating_sub(cost);
                let end = if is_head { &mut ends.head } else { &mut ends.tail };
                end.extend([&shown, ","]);
                return;
            }
            let text = if element.text().len() > SHORT { kind.text(element).unwrap_or_default() } else { "".into() };
            let (mut beginning, mut ending) = ("", "");
            if mem::replace(&mut is_head, false) {
                beginning = self.cut(kind, element, &text, head, false, &mut ends.head);
            }
            if let Some(left) = self.room.checked_sub(behind) {
                let remaining = text.get(beginning.len()..).unwrap_or_default();
                ending = self.cut(kind, element, remaining, left, true, &mut ends.tail);
            }
            let kept = beginning.len().saturating_add(ending.len());
            if kept > 0 {
                self.left_out.text_bytes = self.left_out.text_bytes.saturating_add(text.len().saturating_sub(kept));
            } else if let Cow::Borrowed(_) = shown {
                self.left_out.add_block(kind, element.text().len());
            }
        });
        ends
    }

    /// Keeps the beginning of a text, or its end, for which there is so much room. Returns it.
    fn cut<'t>(
        &mut self,
        kind: Kind,
        element: Json<'_>,
        text: &'t str,
        room: usize,
        is_end: bool,
        out: &mut String,
    ) -> &'t str {
        let around = kind.with_text(element, "", false).map(|empty| self.bound.cost("", &empty));
        let room = around.and_then(|around| room.checked_sub(around)).unwrap_or_default();
        let kept = fitting(text, room, is_end, self.bound);
        let written = if kept.is_empty() { None } else { kind.with_text(element, kept, false) };
        let Some(written) = written else { return "" };
        self.room = self.room.saturating_sub(self.bound.cost(kept, &written));
        out.extend([&written, ","]);
        kept
    }

    /// Writes the members that are lists with what is kept of their items, and the notice.
    fn lists<'l>(&mut self, json: Json<'_>, lists: &'l [&'l str], out: &mut String) -> &'l [&'l str] {
        for list in lists {
            let Ends { head, tail } = self.section(json.member(list), Kind::Item);
            out.extend(["\"", list, "\":[", [head, tail].concat().trim_end_matches(','), "],"]);
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
            let name_length = raw.text().len().saturating_add(1);
            if self.take(self.bound.cost(value.text(), value.text()).saturating_add(name_length)) {
                rest.extend([",", raw.text(), ":", value.text()]);
            } else {
                self.left_out.other_bytes = self.left_out.other_bytes.saturating_add(value.text().len());
            }
        });
    }
}

/// Brings a text within a bound, a number of bytes mostly: its beginning and its end stay, each cut at the end of a
/// character, and a notice on a line of its own between them says how much is left out.
///
/// ```
/// use mcp_proto::host::results::bound_text;
///
/// assert_eq!(bound_text("short", 4096), "short");
/// let bounded = bound_text(&"é".repeat(5_000), 4096).into_owned();
/// assert!(bounded.len() <= 4096 && bounded.ends_with('é') && bounded.contains(" bytes of text.]\né"));
/// ```
pub fn bound_text<'t, 'b>(text: &'t str, bound: impl Into<Bound<'b>>) -> Cow<'t, str> {
    let bound = bound.into();
    if bound.has_room_for(text) {
        return Cow::Borrowed(text);
    }
    let room = bound.room();
    let fitting = |room: usize, text: &'t str, is_end: bool| match bound.count {
        Some(_) => fitting(text, room, is_end, bound),
        None => part(text, room, is_end),
    };
    let head = fitting(room.saturating_sub(room / 2), text, false);
    let rest = text.get(head.len()..).unwrap_or_default();
    let tail = fitting(room / 2, rest, true);
    let text_bytes = rest.len().saturating_sub(tail.len());
    Cow::Owned(format!("{head}\n{}\n{tail}", Omission { text_bytes, ..Omission::of(bound) }))
}

/// The beginning of a text, or its end, of at most this many bytes.
fn part(text: &str, length: usize, is_end: bool) -> &str {
    let mut at = if is_end { text.len().saturating_sub(length) } else { length.min(text.len()) };
    while !text.is_char_boundary(at) {
        at = if is_end { at.saturating_add(1) } else { at.saturating_sub(1) };
    }
    if is_end { text.get(at..) } else { text.get(..at) }.unwrap_or_default()
}

/// The longest beginning of a text, or the longest end, that takes at most so much of a bound within JSON.
fn fitting<'t>(text: &'t str, room: usize, is_end: bool, bound: Bound<'_>) -> &'t str {
    let part = |length: usize| part(text, length, is_end);
    let Some(count) = bound.count else {
        let mut left = room;
        let mut fits = |char: &char| {
            let length = match char {
                '"' | '\\' | '\n' | '\r' | '\t' => 2,
                // As `\u001f`.
                char if char.is_control() => 6,
                char => char.len_utf8(),
            };
            let after = left.checked_sub(length);
            left = after.unwrap_or_default();
            after.is_some()
        };
        let length = match is_end {
            true => text.chars().rev().take_while(&mut fits).map(char::len_utf8).sum(),
            false => text.chars().take_while(&mut fits).map(char::len_utf8).sum(),
        };
        return part(length);
    };
    // Twice as long until it is too long: then the work is in proportion to what is kept.
    let (mut fits, mut over) = (0_usize, 1_usize);
    while over < text.len() && count(part(over)) <= room {
        (fits, over) = (over, over.saturating_mul(2));
    }
    if over >= text.len() && count(text) <= room {
        return text;
    }
    over = over.min(text.len());
    while over.saturating_sub(fits) > 1 {
        let middle = fits.midpoint(over);
        if count(part(middle)) <= room { fits = middle } else { over = middle }
    }
    part(fits)
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
