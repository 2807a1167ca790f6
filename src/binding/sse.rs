//! Event streams: the decoder of `text/event-stream`.

use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

/// Splits a `text/event-stream`, in chunks of any size, into events (the HTML standard, "Interpreting an event stream";
/// specification 2026-07-28, "Streamable HTTP").
///
/// It buffers at most one event of at most `limit` bytes of data; comments and unknown fields take no memory. A type or
/// an id has at most 4 KiB: a longer type is truncated, and a longer id counts as an empty one, since a part of it
/// would resume at another event.
///
/// An event that is incomplete at the end of the stream is dropped, as the standard requires; the decoder is dropped
/// with the stream. Apart from the limits, it differs from the standard in two ways:
///
/// - An event whose `data` is empty is none either, since no message is; servers send them to convey an id.
/// - Bytes that are not UTF-8 stay as they came, and no replacement characters stand in for them: whoever parses the
///   data sees what is wrong with it, and an id goes back as it was given. Where an event ends does not depend on it.
///
/// ```
/// use mcp_proto::binding::{Sse, SseDecoder};
///
/// let mut decoder = SseDecoder::new(1 << 20);
/// let mut messages = Vec::new();
/// for chunk in [&b"id: 7\ndata: {\"jsonrpc\":\r"[..], b"\ndata: \"2.0\"}\n", b"\n: still here\n"] {
///     decoder.feed(chunk, |item| match item {
///         Sse::Event(event) => messages.push(String::from_utf8_lossy(event.data).into_owned()),
///         Sse::TooLong(_) | Sse::Retry(_) => {}
///     });
/// }
/// assert_eq!(messages, ["{\"jsonrpc\":\n\"2.0\"}"]);
/// assert_eq!(decoder.last_id(), Some(&b"7"[..]));
/// ```
#[derive(Clone, Debug)]
pub struct SseDecoder(Decoder);

impl SseDecoder {
    /// A decoder for events of at most `limit` bytes of data.
    pub const fn new(limit: usize) -> Self {
        Self(Decoder::new(limit))
    }

    /// The id of the last event that had one, even without data: the value for `Last-Event-ID`.
    ///
    /// `None` if no event had an id; empty if an event reset it.
    pub fn last_id(&self) -> Option<&[u8]> {
        self.0.last_id()
    }

    /// Takes a chunk, and calls `each` with every event that ends in it.
    pub fn feed(&mut self, chunk: &[u8], each: impl FnMut(Sse<'_>)) {
        self.0.feed(chunk, each);
    }
}

/// An item of a `text/event-stream`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sse<'a> {
    /// An event with data.
    Event(SseEvent<'a>),
    /// An event with more data than the limit: `data` is the beginning, the rest was dropped.
    TooLong(SseEvent<'a>),
    /// `retry`: the time to wait before a lost connection is reopened.
    Retry(Duration),
}

/// An event of a `text/event-stream`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// The event's type; `message` if it has none.
    pub name: &'a [u8],
    /// Its `data` lines, with a line feed between them; never empty, unless the bound is zero.
    pub data: &'a [u8],
    /// [`SseDecoder::last_id`] as of this event, which need not have an id itself.
    pub id: Option<&'a [u8]>,
}

/// Splits a stream into events, as [`SseDecoder`] describes.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Decoder {
    /// Not in a snapshot: the restored client has its own.
    #[cfg_attr(feature = "snapshot", serde(skip))]
    limit: usize,
    place: Place,
    /// No line has ended yet, so a byte order mark may follow.
    begins: bool,
    /// A carriage return ended the last line; a line feed right after it belongs to it.
    after_return: bool,
    #[cfg_attr(feature = "snapshot", serde(with = "crate::form::bytes"))]
    data: Vec<u8>,
    /// The current event has a `data` line.
    has_data: bool,
    /// The current event has exceeded the limit.
    cut: bool,
    #[cfg_attr(feature = "snapshot", serde(with = "crate::form::bytes"))]
    name: Vec<u8>,
    /// The value of the current line, if its field is a short one.
    #[cfg_attr(feature = "snapshot", serde(with = "crate::form::bytes"))]
    value: Vec<u8>,
    /// The value is longer than its stored part.
    value_cut: bool,
    #[cfg_attr(feature = "snapshot", serde(with = "crate::form::bytes"))]
    id: Vec<u8>,
    has_id: bool,
    /// The id of the current event; it counts when the event is complete.
    #[cfg_attr(feature = "snapshot", serde(with = "crate::form::bytes"))]
    next_id: Vec<u8>,
    has_next_id: bool,
}

/// The position within a line at which the last chunk ended.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
enum Place {
    /// In the field's name: its bytes so far, after a leading one.
    Name(u64),
    /// After the colon: one space is skipped.
    Colon(Field),
    Value(Field),
}

#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
enum Field {
    Data,
    Event,
    Id,
    Retry,
    /// A comment or an unknown field.
    Unknown,
}

const NO_NAME: u64 = 1;
const MARK: u64 = u64::from_be_bytes(*b"\0\0\0\0\x01\xef\xbb\xbf");

impl Field {
    /// The field of a complete line, and its value.
    fn split(line: &[u8]) -> (Self, &[u8]) {
        let (field, rest) = if let Some(rest) = line.strip_prefix(b"data") {
            (Self::Data, rest)
        } else if let Some(rest) = line.strip_prefix(b"event") {
            (Self::Event, rest)
        } else if let Some(rest) = line.strip_prefix(b"id") {
            (Self::Id, rest)
        } else if let Some(rest) = line.strip_prefix(b"retry") {
            (Self::Retry, rest)
        } else {
            return (Self::Unknown, b"");
        };
        match rest.split_first() {
            None => (field, b""),
            Some((b':', value)) => (field, value.strip_prefix(b" ").unwrap_or(value)),
            // A longer name.
            Some(_) => (Self::Unknown, b""),
        }
    }

    const fn of(name: u64) -> Self {
        const DATA: u64 = u64::from_be_bytes(*b"\0\0\0\x01data");
        const EVENT: u64 = u64::from_be_bytes(*b"\0\0\x01event");
        const ID: u64 = u64::from_be_bytes(*b"\0\0\0\0\0\x01id");
        const RETRY: u64 = u64::from_be_bytes(*b"\0\0\x01retry");
        match name {
            DATA => Self::Data,
            EVENT => Self::Event,
            ID => Self::Id,
            RETRY => Self::Retry,
            _ => Self::Unknown,
        }
    }
}

impl Decoder {
    /// The maximum length of a type or an id.
    const SHORT: usize = 4 << 10;
    /// The capacity for data that is kept between events.
    const KEPT: usize = 1 << 10;

    pub(crate) const fn new(limit: usize) -> Self {
        Self {
            limit,
            place: Place::Name(NO_NAME),
            begins: true,
            after_return: false,
            data: Vec::new(),
            has_data: false,
            cut: false,
            name: Vec::new(),
            value: Vec::new(),
            value_cut: false,
            id: Vec::new(),
            has_id: false,
            next_id: Vec::new(),
            has_next_id: false,
        }
    }

    pub(crate) fn last_id(&self) -> Option<&[u8]> {
        self.has_id.then_some(&self.id)
    }

    /// Sets the limit of a restored decoder.
    #[cfg(all(feature = "http", feature = "snapshot"))]
    pub(crate) const fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Bytes of data of the current event.
    #[cfg(all(feature = "http", feature = "snapshot"))]
    pub(crate) const fn data_len(&self) -> usize {
        self.data.len()
    }

    /// Buffered bytes of the current event, and of the last id.
    #[cfg(feature = "http")]
    pub(crate) fn buffered(&self) -> usize {
        let kept = [&self.data, &self.name, &self.value, &self.id, &self.next_id];
        kept.into_iter().fold(0, |sum, kept| sum.saturating_add(kept.len()))
    }

    pub(crate) fn feed(&mut self, mut chunk: &[u8], mut each: impl FnMut(Sse<'_>)) {
        while let Some((first, rest)) = chunk.split_first() {
            if mem::take(&mut self.after_return) && *first == b'\n' {
                chunk = rest;
                continue;
            }
            if let Place::Name(NO_NAME) = self.place
                // A byte order mark may follow.
                && (!self.begins || *first != 0xef)
                && let Some(rest) = self.whole_line(chunk, &mut each)
            {
                chunk = rest;
                continue;
            }
            match self.place {
                Place::Name(name) => {
                    chunk = rest;
                    match first {
                        b'\r' | b'\n' => {
                            self.start_value(Field::of(name));
                            self.end_value(Field::of(name), &mut each);
                            self.end_line(*first);
                        }
                        b':' => {
                            self.start_value(Field::of(name));
                            self.place = Place::Colon(Field::of(name));
                        }
                        byte => self.place = self.lengthen(name, *byte),
                    }
                }
                Place::Colon(field) => {
                    self.place = Place::Value(field);
                    if *first == b' ' {
                        chunk = rest;
                    }
                }
                Place::Value(field) => {
                    let (value, tail) = chunk.split_at(line_end(chunk).unwrap_or(chunk.len()));
                    self.keep(field, value);
                    chunk = tail;
                    if let Some((ending, tail)) = tail.split_first() {
                        self.end_value(field, &mut each);
                        self.end_line(*ending);
                        chunk = tail;
                    }
                }
            }
        }
    }

    /// Takes a line that is complete in the chunk, and returns the rest. `None` if the chunk does not contain its end.
    fn whole_line<'a>(&mut self, chunk: &'a [u8], each: &mut impl FnMut(Sse<'_>)) -> Option<&'a [u8]> {
        let (line, tail) = chunk.split_at_checked(line_end(chunk)?)?;
        let (ending, tail) = tail.split_first()?;
        if line.is_empty() {
            self.end_event(each);
            self.end_line(*ending);
            return Some(tail);
        }
        let (field, value) = Field::split(line);
        // An event of one line that is complete in the chunk is not copied.
        if let (Field::Data, false, b'\n', Some(rest)) = (field, self.has_data, *ending, tail.strip_prefix(b"\n"))
            && value.len() <= self.limit
            && !value.is_empty()
        {
            self.take_id();
            let name = if self.name.is_empty() { b"message" } else { &*self.name };
            each(Sse::Event(SseEvent { name, data: value, id: self.last_id() }));
            self.name.clear();
            self.begins = false;
            return Some(rest);
        }
        if let (Field::Event, b"message") = (field, value) {
            // The default type takes no memory.
            self.name.clear();
        } else {
            self.start_value(field);
            self.keep(field, value);
            self.end_value(field, each);
        }
        self.end_line(*ending);
        Some(tail)
    }

    fn lengthen(&mut self, name: u64, byte: u8) -> Place {
        // A longer name is not a known field.
        if name >> 56 != 0 {
            return Place::Value(Field::Unknown);
        }
        let name = name << 8 | u64::from(byte);
        let mark = name == MARK && mem::take(&mut self.begins);
        Place::Name(if mark { NO_NAME } else { name })
    }

    fn start_value(&mut self, field: Field) {
        match field {
            Field::Data if self.has_data => self.keep(field, b"\n"),
            Field::Data => self.has_data = true,
            Field::Event | Field::Id | Field::Retry => {
                self.value.clear();
                self.value_cut = false;
            }
            Field::Unknown => {}
        }
    }

    fn keep(&mut self, field: Field, bytes: &[u8]) {
        match field {
            Field::Data => self.cut |= !keep(&mut self.data, bytes, self.limit),
            Field::Event | Field::Id | Field::Retry => {
                self.value_cut |= !keep(&mut self.value, bytes, Self::SHORT);
            }
            Field::Unknown => {}
        }
    }

    fn end_value(&mut self, field: Field, each: &mut impl FnMut(Sse<'_>)) {
        match field {
            Field::Event => mem::swap(&mut self.name, &mut self.value),
            Field::Id => {
                if self.value_cut {
                    self.value.clear();
                }
                if !self.value.contains(&0) {
                    mem::swap(&mut self.next_id, &mut self.value);
                    self.has_next_id = true;
                }
            }
            Field::Retry if !self.value_cut => {
                if let Some(millis) = number(&self.value) {
                    each(Sse::Retry(Duration::from_millis(millis)));
                }
            }
            Field::Data | Field::Retry | Field::Unknown => {}
        }
    }

    /// The stream ended: the event that no blank line ended, whose last line may have no end either.
    #[cfg(feature = "http")]
    pub(crate) fn finish(&mut self) -> Option<Vec<u8>> {
        if let Place::Colon(field) | Place::Value(field) = self.place {
            self.end_value(field, &mut |_| {});
        }
        (!self.cut && !self.data.is_empty()).then(|| mem::take(&mut self.data))
    }

    fn end_line(&mut self, ending: u8) {
        self.place = Place::Name(NO_NAME);
        self.begins = false;
        self.after_return = ending == b'\r';
    }

    /// The id of the event counts from here on.
    fn take_id(&mut self) {
        if mem::take(&mut self.has_next_id) {
            mem::swap(&mut self.id, &mut self.next_id);
            self.has_id = true;
        }
    }

    fn end_event(&mut self, each: &mut impl FnMut(Sse<'_>)) {
        self.take_id();
        self.has_data = false;
        let cut = mem::take(&mut self.cut);
        if cut || !self.data.is_empty() {
            let name = if self.name.is_empty() { b"message" } else { &*self.name };
            let event = SseEvent { name, data: &self.data, id: self.last_id() };
            each(if cut { Sse::TooLong(event) } else { Sse::Event(event) });
        }
        self.name.clear();
        self.data.clear();
        // A long event's memory is not kept while a stream is idle.
        self.data.shrink_to(Self::KEPT);
    }
}

/// Usual lengths of a transport's reads. More data usually follows, so more room is allocated.
const READS: core::ops::Range<usize> = 8 << 10..32 << 10;

/// Appends as much of `bytes` as the limit allows. Returns whether that was all.
pub(super) fn keep(buffer: &mut Vec<u8>, bytes: &[u8], limit: usize) -> bool {
    let room = limit.saturating_sub(buffer.len());
    let kept = bytes.get(..bytes.len().min(room)).unwrap_or_default();
    let needed = buffer.len().saturating_add(kept.len());
    if needed > buffer.capacity() {
        // Doubles, but never beyond the limit.
        let room = if READS.contains(&kept.len()) { needed } else { buffer.capacity() };
        let grown = room.saturating_mul(2).min(limit).max(needed);
        buffer.reserve_exact(grown.saturating_sub(buffer.len()));
    }
    buffer.extend_from_slice(kept);
    kept.len() == bytes.len()
}

/// The number in ASCII digits, if there is nothing else.
fn number(digits: &[u8]) -> Option<u64> {
    let number = digits.iter().try_fold(0_u64, |number, digit| {
        let digit = char::from(*digit).to_digit(10)?;
        Some(number.saturating_mul(10).saturating_add(digit.into()))
    })?;
    (!digits.is_empty()).then_some(number)
}

/// The position of the first line ending. Words without a control character are skipped, and blocks of words first.
fn line_end(bytes: &[u8]) -> Option<usize> {
    const WORD: usize = 8;
    let ends = |byte: &u8| *byte == b'\n' || *byte == b'\r';
    let mut start = 0_usize;
    for block in bytes.as_chunks::<{ 4 * WORD }>().0 {
        // Without an exit from the loop the compiler vectorizes it.
        if block.iter().fold(0, |found, byte| found | u8::from(*byte < 16)) != 0 {
            break;
        }
        start = start.saturating_add(block.len());
    }
    for word in bytes.get(start..)?.as_chunks::<WORD>().0 {
        let found = controls(*word);
        if found != 0 {
            start = start.saturating_add(found.trailing_zeros() as usize / WORD);
            break;
        }
        start = start.saturating_add(WORD);
    }
    bytes.get(start..)?.iter().position(ends).map(|at| start.saturating_add(at))
}

/// Zero if none of these eight bytes is below 16, as the bytes that end lines are; else the lowest set bit is the
/// highest bit of the first such byte.
const fn controls(word: [u8; 8]) -> u64 {
    const ONES: u64 = u64::MAX / 0xff;
    let high = u64::from_le_bytes(word) & (ONES << 4).wrapping_mul(0xf);
    high.wrapping_sub(ONES) & !high & (ONES << 7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_limited_and_released() {
        let (limit, mut too_long) = (3000, 0);
        let mut decoder = Decoder::new(limit);
        decoder.feed(b"data: ", |_| {});
        for _ in 0..4 * limit {
            decoder.feed(b"x", |_| {});
            assert!(decoder.data.capacity() <= limit);
        }
        assert!(decoder.data.capacity() > Decoder::KEPT);
        decoder.feed(b"\n\n", |item| too_long += usize::from(matches!(item, Sse::TooLong(_))));
        assert_eq!(too_long, 1);
        assert!((1..=Decoder::KEPT).contains(&decoder.data.capacity()));
    }

    /// The rest could change what it means.
    #[cfg(feature = "http")]
    #[test]
    fn an_unfinished_event_that_is_too_long_is_not_taken() {
        for (blanks, taken) in [(2, true), (200, false)] {
            let mut decoder = Decoder::new(100);
            decoder.feed(b"data: {}\ndata:", |_| {});
            decoder.feed(&[b' '].repeat(blanks), |_| {});
            assert_eq!(decoder.finish().is_some(), taken, "{blanks}");
        }
    }
}
