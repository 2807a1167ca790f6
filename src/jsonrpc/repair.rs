//! Reads once more what is not JSON: whole messages with something around them, or with numbers that JSON does not have.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::OnceCell;
use core::ops::Range;

use super::decode::{Decoded, MessageLimits, Noise, ResponseId, after_escape, after_number, decode, decode_with_spans};
use super::json::{Json, Spans, after_plain};

/// What was found in bytes that are not JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repaired<'a> {
    /// The whole messages, in order: each is one that [`decode`] accepts. They are the bytes as written, but for values of `NaN`,
    /// `Infinity` and `-Infinity`, which are `null`.
    pub messages: Vec<Cow<'a, str>>,
    /// The responses that break after their ids, in order.
    pub broken: Vec<Broken>,
}

/// A response that breaks after its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Broken {
    /// The id.
    pub id: ResponseId,
    /// The offset at which it stops being JSON.
    pub at: usize,
    /// Why.
    pub why: &'static str,
}

/// Reads once more what [`decode`] rejects as [`Noise::NotJson`]; nothing is read of other bytes.
///
/// What stands around a message is left out: log text, escape sequences, NUL, another message, which counts, too. Each `{`
/// outside of an object begins an attempt. A message has to name its `jsonrpc` version, unless nothing but white space is
/// around the objects; what only looks like one is a line of a log. An object within another is no message, whether that other
/// is a message, is another value, or breaks: what follows an object that breaks counts only if nothing but white space is behind
/// the last object, since a text whose quotes are not escaped may hold whole messages. It takes time in proportion to the bytes,
/// and reads as many messages as a batch may have.
pub fn repair(bytes: &[u8], limits: MessageLimits) -> Repaired<'_> {
    match decode(bytes, limits) {
        Err(Noise::NotJson) => repair_rejected(bytes, limits),
        Ok(_) | Err(_) => Repaired::default(),
    }
}

/// Reads once more what was rejected as [`Noise::NotJson`].
#[cold]
fn repair_rejected(bytes: &[u8], limits: MessageLimits) -> Repaired<'_> {
    let mut found = Repaired::default();
    let Ok(text) = core::str::from_utf8(bytes) else { return found };
    // A line of a message over several lines.
    let mut is_within = text.trim_start().starts_with(['"', ',', ']', '}']);
    // One of objects.
    let is_indented = text.starts_with([' ', '\t']) && text.trim_start().starts_with('{');
    // Nothing but white space is around the objects.
    let mut is_bare = true;
    // How much was found up to the first object that breaks.
    let mut certain = None;
    let mut at = 0;
    // The end of the last whole object.
    let mut whole = 0;
    while found.messages.len().saturating_add(found.broken.len()) < limits.batch {
        let Some(start) = text.get(at..).and_then(|rest| rest.find('{')).map(|before| at.saturating_add(before)) else {
            break;
        };
        is_bare &= text.get(at..start).is_some_and(|gap| gap.trim().is_empty());
        let before = text.get(..start).unwrap_or_default().trim_end();
        // The value of a member, which a name is before, or an element.
        let is_value = |before: &str| before.strip_suffix(':').is_some_and(|name| name.trim_end().ends_with('"'));
        let is_part = is_within && (is_value(before) || before.ends_with([',', '[']));
        let mut reader = Reader::new(text, start);
        match reader.object(limits.depth) {
            Ok(()) => {
                at = reader.place();
                whole = at;
                // A line of a message over several lines.
                let is_part = is_part || is_indented && reader.first().is_some_and(|next| b",]}".contains(&next));
                let message = Some(start..at).filter(|_| !is_part).and_then(|place| reader.whole(place));
                found.messages.extend(message.filter(|text| is_message(text, limits)));
            }
            Err(why) => {
                let place = reader.place();
                let id = reader.response_id().filter(|_| !is_part);
                found.broken.extend(id.map(|id| Broken { id, at: place, why }));
                is_within |= reader.has_members;
                if reader.has_members {
                    certain.get_or_insert((found.messages.len(), found.broken.len()));
                }
                at = reader.torn_at().unwrap_or(place).max(start.saturating_add(1));
            }
        }
    }
    let is_blank_from = |place| text.get(place..).is_some_and(|rest| rest.trim().is_empty());
    if let Some((messages, broken)) = certain.filter(|_| !is_blank_from(whole)) {
        found.messages.truncate(messages);
        found.broken.truncate(broken);
    }
    if !(is_bare && is_blank_from(at)) {
        found.messages.retain(|text| names_version(text, limits));
    }
    found
}

/// The id of the response that these bytes begin with, which names its version and has a result or an error, if it is before the place at which they end or break: of a message that is
/// too long.
#[cold]
pub(crate) fn id_of_beginning(bytes: &[u8], limits: MessageLimits) -> Option<ResponseId> {
    let text = bytes.utf8_chunks().next()?.valid();
    let start = text.len().saturating_sub(text.trim_start().len());
    let mut reader = Reader::new(text, start);
    // It may be whole, and longer than the limit.
    let _ = reader.object(limits.depth);
    reader.response_id().filter(|_| reader.has_version && reader.has_outcome)
}

fn is_message(text: &str, limits: MessageLimits) -> bool {
    matches!(decode(text.as_bytes(), limits), Ok(Decoded::One(_)))
}

fn names_version(text: &str, limits: MessageLimits) -> bool {
    matches!(decode(text.as_bytes(), limits), Ok(Decoded::One(message)) if !message.deviations.version)
}

const ENDS: &str = "it ends before its last bracket";
const ENDS_IN_STRING: &str = "it ends within a string";
const CONTROL: &str = "a control character in a string";
const ESCAPE: &str = "an escape sequence that JSON does not have";
const NO_VALUE: &str = "no value where one has to be";
const NO_NAME: &str = "no name where that of a member has to be";
const NO_COLON: &str = "no colon after the name of a member";
const NO_COMMA: &str = "neither a comma nor the closing bracket after a value";
const TOO_DEEP: &str = "nested too deep";

/// Numbers that some writers produce, and JSON does not have.
const NUMBERS: [&[u8]; 3] = [b"NaN", b"Infinity", b"-Infinity"];

/// An attempt to read one object.
struct Reader<'a> {
    text: &'a str,
    /// What was not read. After a failure it begins where that is.
    rest: &'a [u8],
    /// The object up to the last value that became `null`.
    out: String,
    /// Where that value ends, or the object begins.
    written: usize,
    /// The last string, if nothing follows it that was read.
    string: Option<Range<usize>>,
    /// The name of the member of the outermost object that is read.
    name: Json<'a>,
    /// Where its value begins.
    value: usize,
    id: Option<Json<'a>>,
    /// It has a method, and is no response.
    has_method: bool,
    /// It has a member that responses alone have.
    is_response: bool,
    has_version: bool,
    has_outcome: bool,
    has_members: bool,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, start: usize) -> Self {
        let rest = text.as_bytes().get(start..).unwrap_or_default();
        Self {
            text,
            rest,
            out: String::new(),
            written: start,
            string: None,
            name: Json::EMPTY_OBJECT,
            value: start,
            id: None,
            has_method: false,
            is_response: false,
            has_version: false,
            has_outcome: false,
            has_members: false,
        }
    }

    const fn place(&self) -> usize {
        self.text.len().saturating_sub(self.rest.len())
    }

    fn response_id(&self) -> Option<ResponseId> {
        self.id.filter(|_| self.is_response && !self.has_method).map(|id| ResponseId::read(Some(id)))
    }

    /// Reads the object.
    fn object(&mut self, limit: usize) -> Result<(), &'static str> {
        // One for each open bracket, the innermost last: whether it is an object's.
        let mut levels = Vec::new();
        loop {
            let first = self.first();
            match first {
                Some(b'{' | b'[') if levels.len() >= limit => return Err(TOO_DEEP),
                Some(b'{' | b'[') => {
                    self.skip(1);
                    levels.push(first == Some(b'{'));
                    // The code below takes the closing bracket.
                    match (first, self.first()) {
                        (Some(b'{'), Some(b'}')) | (Some(b'['), Some(b']')) => {}
                        (Some(b'{'), _) => {
                            self.name(levels.len())?;
                            continue;
                        }
                        _ => continue,
                    }
                }
                Some(b'"') => self.string()?,
                Some(_) => self.scalar()?,
                None => return Err(ENDS),
            }
            loop {
                if levels.len() == 1 {
                    self.end_member();
                }
                let Some(in_object) = levels.last() else { return Ok(()) };
                match (self.first(), in_object) {
                    (Some(b','), true) => {
                        self.skip(1);
                        self.name(levels.len())?;
                        break;
                    }
                    (Some(b','), false) => {
                        self.skip(1);
                        break;
                    }
                    (Some(b'}'), true) | (Some(b']'), false) => {
                        self.skip(1);
                        levels.pop();
                    }
                    (Some(_), _) => return Err(NO_COMMA),
                    (None, _) => return Err(ENDS),
                }
            }
        }
    }

    /// The next byte that is not white space.
    const fn first(&mut self) -> Option<u8> {
        while let [b' ' | b'\t' | b'\n' | b'\r', rest @ ..] = self.rest {
            self.rest = rest;
        }
        if let [first, ..] = self.rest { Some(*first) } else { None }
    }

    fn skip(&mut self, count: usize) {
        self.rest = self.rest.get(count..).unwrap_or_default();
        self.string = None;
    }

    /// Reads the name of a member of an object this deep, and the colon.
    fn name(&mut self, depth: usize) -> Result<(), &'static str> {
        match self.first() {
            Some(b'"') => {}
            Some(_) => return Err(NO_NAME),
            None => return Err(ENDS),
        }
        let start = self.place();
        self.string()?;
        let name = self.text.get(start..self.place()).map(Json::trusted);
        match self.first() {
            Some(b':') => self.skip(1),
            Some(_) => return Err(NO_COLON),
            None => return Err(ENDS),
        }
        self.has_members = true;
        if depth == 1 {
            self.first();
            self.name = name.unwrap_or(Json::EMPTY_OBJECT);
            self.value = self.place();
            self.has_method |= self.is_named("method");
            self.has_version |= self.is_named("jsonrpc");
            self.has_outcome |= ["result", "error"].iter().any(|name| self.is_named(name));
            self.is_response |= self.has_version || self.has_outcome;
        }
        Ok(())
    }

    fn is_named(&self, name: &str) -> bool {
        self.name.as_string().is_some_and(|read| read == name)
    }

    /// The value of a member of the outermost object ended. A number that nothing follows may have gone on.
    fn end_member(&mut self) {
        let value = self.text.get(self.value..self.place()).map(Json::trusted);
        if self.is_named("id") && matches!(self.first(), Some(b',' | b'}')) {
            self.id = value;
        }
        self.name = Json::EMPTY_OBJECT;
    }

    fn string(&mut self) -> Result<(), &'static str> {
        let start = self.place();
        self.skip(1);
        loop {
            let Some((byte, rest)) = after_plain(self.rest) else {
                self.rest = &[];
                return Err(ENDS_IN_STRING);
            };
            let before = self.rest.len().saturating_sub(rest.len()).saturating_sub(1);
            self.skip(before);
            self.rest = match byte {
                b'"' => rest,
                b'\\' => after_escape(rest).ok_or(ESCAPE)?,
                _ => return Err(CONTROL),
            };
            if byte == b'"' {
                self.string = Some(start..self.place());
                return Ok(());
            }
        }
    }

    fn scalar(&mut self) -> Result<(), &'static str> {
        let start = self.place();
        if let Some(number) = NUMBERS.into_iter().find(|number| self.rest.starts_with(number)) {
            self.skip(number.len());
            self.out.push_str(self.text.get(self.written..start).unwrap_or_default());
            self.out.push_str("null");
            self.written = self.place();
            return Ok(());
        }
        let words: [&[u8]; 3] = [b"true", b"false", b"null"];
        let word = words.into_iter().find_map(|word| self.rest.strip_prefix(word));
        let digits = self.rest.strip_prefix(b"-").unwrap_or(self.rest);
        let number = || match digits {
            [first @ b'0'..=b'9', rest @ ..] => after_number(*first, rest),
            _ => None,
        };
        let rest = word.or_else(number).ok_or(NO_VALUE)?;
        self.skip(self.rest.len().saturating_sub(rest.len()));
        Ok(())
    }

    /// The object as JSON.
    fn whole(&mut self, place: Range<usize>) -> Option<Cow<'a, str>> {
        if self.out.is_empty() {
            return self.text.get(place).map(Cow::Borrowed);
        }
        self.out.push_str(self.text.get(self.written..place.end)?);
        Some(Cow::Owned(core::mem::take(&mut self.out)))
    }

    /// Where another object begins, if this one was cut off within a string: the first quote of the other ended the string.
    fn torn_at(&self) -> Option<usize> {
        let string = self.string.clone()?;
        let inside = self.text.get(string.start.saturating_add(1)..string.end.saturating_sub(1))?;
        let before = inside.trim_end_matches([' ', '\t', '\n', '\r']).strip_suffix('{')?;
        Some(string.start.saturating_add(1).saturating_add(before.len()))
    }
}

/// Received bytes, and the result of their repair if they are not JSON.
#[derive(Debug)]
pub(crate) struct Incoming<'a> {
    bytes: &'a [u8],
    /// The connection ended before the line did.
    is_unfinished: bool,
    repaired: OnceCell<Box<Repaired<'a>>>,
}

impl<'a> Incoming<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, is_unfinished: false, repaired: OnceCell::new() }
    }

    /// A line that the end of the connection cut off. A response in it that breaks is lost with the connection.
    pub(crate) const fn unfinished(bytes: &'a [u8]) -> Self {
        Self { bytes, is_unfinished: true, repaired: OnceCell::new() }
    }

    pub(crate) const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// What was read once more, if the bytes are not JSON.
    pub(crate) fn repaired(&self) -> Option<&Repaired<'a>> {
        self.repaired.get().map(|repaired| &**repaired)
    }

    /// The responses that break.
    pub(crate) fn broken(&self) -> &[Broken] {
        self.repaired().filter(|_| !self.is_unfinished).map_or(&[], |repaired| &repaired.broken)
    }

    /// Decodes the bytes, or the messages that repair found. Several messages are a batch then.
    pub(crate) fn decode(&self, limits: MessageLimits, spans: &mut Spans) -> Result<Decoded<'_>, Noise> {
        match decode_with_spans(self.bytes, limits, spans) {
            Err(Noise::NotJson) => self.decode_repaired(limits, spans),
            decoded => decoded,
        }
    }

    #[cold]
    pub(crate) fn decode_repaired(&self, limits: MessageLimits, spans: &mut Spans) -> Result<Decoded<'_>, Noise> {
        let repaired = self.repaired.get_or_init(|| Box::new(repair_rejected(self.bytes, limits)));
        match &*repaired.messages {
            [] => Err(Noise::NotJson),
            [message] => decode_with_spans(message.as_bytes(), limits, spans),
            messages => {
                let each = messages.iter().map(|message| match decode(message.as_bytes(), limits)? {
                    Decoded::One(message) => Ok(message),
                    Decoded::Blank | Decoded::Batch(_) => Err(Noise::NotAMessage),
                });
                Ok(Decoded::Batch(each.collect()))
            }
        }
    }
}
