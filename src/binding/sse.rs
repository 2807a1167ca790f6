use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

/// A piece of a `text/event-stream`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sse<'a> {
    /// An event that has data.
    Event(SseEvent<'a>),
    /// An event with more data than the bound: `data` is the beginning, the rest was left out.
    TooLong(SseEvent<'a>),
    /// `retry`: how long to wait before a connection that was lost is made again.
    Retry(Duration),
}

/// An event of a `text/event-stream`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// The event's type; `message` where it names none.
    pub name: &'a [u8],
    /// Its `data` lines, with a line feed between them; never empty, unless the bound is zero.
    pub data: &'a [u8],
    /// [`SseDecoder::last_id`] as of this event, which need not name one itself.
    pub id: Option<&'a [u8]>,
}

/// Cuts a `text/event-stream`, in chunks of any size, into events (the HTML standard, "Interpreting an event stream";
/// specification 2026-07-28, "Streamable HTTP").
///
/// It holds at most one event of at most `limit` bytes of data; comments and unknown fields take no room. A type or an
/// id has 4 KiB: of a longer type the beginning counts, and a longer id is as an empty one, since a part of it would
/// resume elsewhere.
///
/// An event that the stream's end cuts off is none, as the standard has it; the decoder is dropped with the stream.
/// Apart from the bounds, it differs from the standard in two ways:
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
pub struct SseDecoder {
    limit: usize,
    place: Place,
    /// No line has ended yet, so that a byte order mark may stand here.
    begins: bool,
    /// A carriage return ended the last line; a line feed right after it belongs to it.
    after_return: bool,
    data: Vec<u8>,
    /// The event under way has a `data` line already.
    has_data: bool,
    /// The event under way has more data than the bound already.
    cut: bool,
    name: Vec<u8>,
    /// The value of the line under way, where it is that of a short field.
    value: Vec<u8>,
    /// That value is longer than what is held of it.
    value_cut: bool,
    id: Vec<u8>,
    has_id: bool,
    /// The id that the event under way names; it counts once the event is whole.
    next_id: Vec<u8>,
    has_next_id: bool,
}

/// Where in a line the last chunk ended.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// In the field's name: the bytes so far, behind a one.
    Name(u64),
    /// After the colon: one space does not count.
    Colon(Field),
    Value(Field),
}

#[derive(Clone, Copy, Debug)]
enum Field {
    Data,
    Event,
    Id,
    Retry,
    /// A comment, or whatever else has no meaning.
    Unknown,
}

const NO_NAME: u64 = 1;
const MARK: u64 = u64::from_be_bytes(*b"\0\0\0\0\x01\xef\xbb\xbf");

impl Field {
    /// The field of a whole line, and its value.
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

impl SseDecoder {
    /// How long a type or an id may be.
    const SHORT: usize = 4 << 10;
    /// How much room for data stays between events.
    const KEPT: usize = 1 << 10;

    /// A decoder for events of at most `limit` bytes of data.
    pub const fn new(limit: usize) -> Self {
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

    /// The id that the last event with one named, be it an event without data: what `Last-Event-ID` is to say.
    ///
    /// `None` where the stream named none yet; empty where it took back what it had named.
    pub fn last_id(&self) -> Option<&[u8]> {
        self.has_id.then_some(&self.id)
    }

    /// Bytes that are kept of the event under way, and of the last id.
    #[cfg(feature = "http")]
    pub(super) fn buffered(&self) -> usize {
        let kept = [&self.data, &self.name, &self.value, &self.id, &self.next_id];
        kept.into_iter().fold(0, |sum, kept| sum.saturating_add(kept.len()))
    }

    /// Takes a chunk, and calls `each` with every event that ends in it.
    pub fn feed(&mut self, mut chunk: &[u8], mut each: impl FnMut(Sse<'_>)) {
        while let Some((first, rest)) = chunk.split_first() {
            if mem::take(&mut self.after_return) && *first == b'\n' {
                chunk = rest;
                continue;
            }
            if let Place::Name(NO_NAME) = self.place
                // A byte order mark may stand there.
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
                        b'\r' | b'\n' if name == NO_NAME => {
                            self.end_event(&mut each);
                            self.end_line(*first);
                        }
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

    /// Takes a line that the chunk has all of, and gives what follows it. `None` where its end is not in the chunk.
    fn whole_line<'a>(&mut self, chunk: &'a [u8], each: &mut impl FnMut(Sse<'_>)) -> Option<&'a [u8]> {
        let (line, tail) = chunk.split_at_checked(line_end(chunk)?)?;
        let (ending, tail) = tail.split_first()?;
        if line.is_empty() {
            self.end_event(each);
            self.end_line(*ending);
            return Some(tail);
        }
        let (field, value) = Field::split(line);
        // An event of one line, which is whole in the chunk, is copied nowhere.
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
            // The type of an event that names none takes no room.
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
        // What does not fit is no name that means anything.
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

    fn end_line(&mut self, ending: u8) {
        self.place = Place::Name(NO_NAME);
        self.begins = false;
        self.after_return = ending == b'\r';
    }

    /// The id that the event names counts from here on.
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
        // A long event's room is not kept while a stream is idle.
        self.data.shrink_to(Self::KEPT);
    }
}

/// Appends as much of `bytes` as the bound allows, and says whether that was all.
pub(super) fn keep(buffer: &mut Vec<u8>, bytes: &[u8], limit: usize) -> bool {
    let room = limit.saturating_sub(buffer.len());
    let kept = bytes.get(..bytes.len().min(room)).unwrap_or_default();
    let needed = buffer.len().saturating_add(kept.len());
    if needed > buffer.capacity() {
        // Twice as much each time, but never beyond the bound.
        let grown = buffer.capacity().saturating_mul(2).min(limit).max(needed);
        buffer.reserve_exact(grown.saturating_sub(buffer.len()));
    }
    buffer.extend_from_slice(kept);
    kept.len() == bytes.len()
}

/// What ASCII digits say, if there is nothing else.
fn number(digits: &[u8]) -> Option<u64> {
    let number = digits.iter().try_fold(0_u64, |number, digit| {
        let digit = char::from(*digit).to_digit(10)?;
        Some(number.saturating_mul(10).saturating_add(digit.into()))
    })?;
    (!digits.is_empty()).then_some(number)
}

/// Where the first line ending is. Words without a control character are passed over, four at once.
fn line_end(bytes: &[u8]) -> Option<usize> {
    const WORD: usize = 8;
    let ends = |byte: &u8| *byte == b'\n' || *byte == b'\r';
    let mut start = 0_usize;
    for block in bytes.as_chunks::<{ 4 * WORD }>().0 {
        let words = block.as_chunks::<WORD>().0;
        if words.iter().fold(0, |found, word| found | controls(*word)) != 0 {
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

/// Zero where none of these eight bytes is below 16, as the bytes that end lines are; else the lowest bit that is set is
/// the highest one of the first such byte.
const fn controls(word: [u8; 8]) -> u64 {
    const ONES: u64 = u64::MAX / 0xff;
    let high = u64::from_le_bytes(word) & (ONES << 4).wrapping_mul(0xf);
    high.wrapping_sub(ONES) & !high & (ONES << 7)
}

#[cfg(test)]
mod tests {
    use super::{Sse, SseDecoder};

    #[test]
    fn room_is_bounded_and_given_back() {
        let (limit, mut too_long) = (3000, 0);
        let mut decoder = SseDecoder::new(limit);
        decoder.feed(b"data: ", |_| {});
        for _ in 0..4 * limit {
            decoder.feed(b"x", |_| {});
            assert!(decoder.data.capacity() <= limit);
        }
        assert!(decoder.data.capacity() > SseDecoder::KEPT);
        decoder.feed(b"\n\n", |item| too_long += usize::from(matches!(item, Sse::TooLong(_))));
        assert_eq!(too_long, 1);
        assert!((1..=SseDecoder::KEPT).contains(&decoder.data.capacity()));
    }
}
