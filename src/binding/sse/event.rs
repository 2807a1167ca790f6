use core::time::Duration;

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
    /// [`SseDecoder::last_id`](super::SseDecoder::last_id) as of this event, which need not have an id itself.
    pub id: Option<&'a [u8]>,
}
