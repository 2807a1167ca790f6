use alloc::vec::Vec;

/// Where the long nested values at one depth of a message are, so that a scan skips them without a second reading.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spans(Vec<Span>);

/// The inside of an object or array, from after its opening bracket to after its closing one.
#[derive(Clone, Copy, Debug)]
struct Span {
    /// The address of its first byte. A scan of the same bytes meets it again.
    start: usize,
    len: usize,
}

/// Bytes of a message from which on spans are recorded: shorter ones are scanned faster than memory is allocated.
pub(super) const LONG: usize = 4 << 10;

/// Bytes of a value from which on it is recorded, so that spans take less memory than the message.
const SHORTEST: usize = 32;

impl Spans {
    /// The depth of the members of a list's items: envelope, result, list, item, member.
    const DEPTH: usize = 5;
}

fn address(bytes: &[u8]) -> usize {
    bytes.as_ptr() as usize
}

/// What the validation of a message does at the brackets of nested values.
pub(super) trait Brackets {
    /// A bracket was opened before `inside`, with room for so many levels in it.
    fn open(&mut self, inside: &[u8], room: usize);

    /// The bracket with so much room in it was closed before `after`.
    fn close(&mut self, after: &[u8], room: usize);

    /// How many values were closed and noted.
    fn len(&self) -> usize;

    /// Forgets the values after the first `len`.
    fn truncate(&mut self, len: usize);
}

/// Notes nothing.
#[derive(Debug)]
pub(super) struct Unrecorded;

impl Brackets for Unrecorded {
    #[inline(always)]
    fn open(&mut self, _: &[u8], _: usize) {}

    #[inline(always)]
    fn close(&mut self, _: &[u8], _: usize) {}

    fn len(&self) -> usize {
        0
    }

    fn truncate(&mut self, _: usize) {}
}

/// Records spans.
#[derive(Debug)]
pub(super) struct SpanRecorder {
    /// The levels that remain inside a value to record.
    room: usize,
    start: usize,
    found: Vec<Span>,
}

impl SpanRecorder {
    /// For a message of this length, which may nest `limit` levels deep, if its spans are worth recording.
    pub(super) fn of(len: usize, limit: usize) -> Option<Self> {
        let room = if len < LONG { None } else { limit.checked_sub(Spans::DEPTH) };
        room.map(|room| Self { room, start: 0, found: Vec::new() })
    }

    pub(super) fn finish(self) -> Spans {
        Spans(self.found)
    }
}

impl Brackets for SpanRecorder {
    #[inline(always)]
    fn open(&mut self, inside: &[u8], room: usize) {
        if room == self.room {
            self.start = address(inside);
        }
    }

    #[inline(always)]
    fn close(&mut self, after: &[u8], room: usize) {
        if room == self.room {
            let len = address(after).wrapping_sub(self.start);
            if len >= SHORTEST {
                self.found.push(Span { start: self.start, len });
            }
        }
    }

    fn len(&self) -> usize {
        self.found.len()
    }

    fn truncate(&mut self, len: usize) {
        self.found.truncate(len);
    }
}

/// The spans that a scan has not passed yet.
#[derive(Debug)]
pub(super) struct Ahead {
    spans: Vec<Span>,
    next: usize,
}

impl Ahead {
    pub(super) const NONE: Self = Self { spans: Vec::new(), next: 0 };

    pub(super) fn new(spans: Spans) -> Self {
        Self { spans: spans.0, next: 0 }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The bytes after the value that `bytes` begins with, if it was recorded.
    pub(super) fn after<'a>(&mut self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let [b'{' | b'[', inside @ ..] = bytes else { return None };
        let here = address(inside);
        while let Some(span) = self.spans.get(self.next).filter(|span| span.start <= here) {
            self.next = self.next.saturating_add(1);
            if span.start == here {
                return inside.get(span.len..);
            }
        }
        None
    }
}
