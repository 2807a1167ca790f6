//! Messages that wait to be written to a program's input.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use mcp_proto::{Outgoing, RequestId};

/// Bytes that are written at once, unless one message is longer.
const BURST: usize = 64 << 10;
/// How long a program may take nothing while anything waits, and while it has asked for this much.
const PATIENCE: Duration = Duration::from_secs(300);
const PATIENCE_WITH_ANSWERS: Duration = Duration::from_secs(10);
const ANSWERS: usize = 1 << 20;
/// Places that are kept while nothing waits.
const KEPT: usize = 4;
/// Responses that wait, at most, in bytes. The client bounds its requests, in number and in bytes.
const MOST_ANSWERS: usize = 16 << 20;

/// Messages that wait to be written to a program's input, in order. A request that is cancelled while it waits is not
/// written, and its cancellation neither.
///
/// A program does not read if it takes no byte for some time: 5 minutes, or 10 s while more than 1 MiB of responses to its own
/// requests wait. Responses are added while no more than 16 MiB of others wait.
#[derive(Debug, Default)]
pub struct Unwritten {
    messages: VecDeque<Outgoing>,
    /// Bytes of responses and notifications in `messages`, and of what is being written.
    answers: usize,
    writing: usize,
    /// Since when no byte was written, while something waits.
    waits_since: Option<Instant>,
    /// More responses waited than may.
    is_full: bool,
}

/// The request that a message is, which may be cancelled.
fn request_of(message: &Outgoing) -> Option<RequestId> {
    message.of().filter(|_| message.wire_id().is_some())
}

impl Unwritten {
    /// Adds a message.
    pub fn push(&mut self, now: Instant, message: Outgoing) {
        if message.method() == Some("notifications/cancelled")
            && let Some(request) = message.of()
            && let Some(place) = self.messages.iter().rposition(|waiting| request_of(waiting) == Some(request))
        {
            self.messages.remove(place);
            if self.messages.is_empty() && self.writing == 0 {
                self.waits_since = None;
            }
            return;
        }
        if request_of(&message).is_none() {
            // However long a message is, it counts for nothing by itself.
            self.is_full |= self.answers > MOST_ANSWERS;
            self.answers = self.answers.saturating_add(message.line().len());
        }
        self.messages.push_back(message);
        self.waits_since.get_or_insert(now);
    }

    /// What is to be written next: whole messages, which count as written from now on. `None` if nothing waits.
    pub fn burst(&mut self) -> Option<Vec<u8>> {
        let mut burst = Vec::new();
        let fits =
            |burst: &[u8], next: &Outgoing| burst.is_empty() || burst.len().saturating_add(next.line().len()) <= BURST;
        while self.messages.front().is_some_and(|next| fits(&burst, next))
            && let Some(message) = self.messages.pop_front()
        {
            if request_of(&message).is_none() {
                self.answers = self.answers.saturating_sub(message.line().len());
            }
            if burst.is_empty() {
                burst = message.into_line();
            } else {
                burst.extend_from_slice(message.line());
            }
        }
        if self.messages.is_empty() && self.messages.capacity() > KEPT {
            self.messages = VecDeque::new();
        }
        self.writing = burst.len();
        Some(burst).filter(|burst| !burst.is_empty())
    }

    /// These bytes of the burst were written.
    pub fn written(&mut self, now: Instant, len: usize) {
        self.writing = self.writing.saturating_sub(len);
        self.waits_since = Some(now).filter(|_| self.writing > 0 || !self.messages.is_empty());
    }

    /// Nothing is written any more.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Why the program counts as one that does not read, if it does.
    pub fn stalled(&self, now: Instant) -> Option<String> {
        let waits = now.saturating_duration_since(self.waits_since?);
        let limit = if self.answers > ANSWERS { PATIENCE_WITH_ANSWERS } else { PATIENCE };
        (self.is_full || waits >= limit).then(|| {
            let lengths = self.messages.iter().map(|message| message.line().len());
            let waiting = lengths.fold(self.writing, usize::saturating_add);
            format!("it does not read its input: {waiting} bytes wait, and none was taken for {waits:.1?}")
        })
    }
}

#[cfg(test)]
mod tests {
    use mcp_proto::RawValue;

    use super::*;

    fn request(number: u64) -> Outgoing {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{number},"method":"tools/call"}}"#);
        Outgoing::new(&RawValue::from_string(text).unwrap(), None, Some(RequestId::from_u64(number)))
    }

    fn cancellation(number: u64) -> Outgoing {
        let text =
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{number}}}}}"#);
        Outgoing::new(&RawValue::from_string(text).unwrap(), None, Some(RequestId::from_u64(number)))
    }

    fn answer(len: usize) -> Outgoing {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"result":"{}"}}"#, "x".repeat(len));
        Outgoing::new(&RawValue::from_string(text).unwrap(), None, None)
    }

    fn text(burst: Option<Vec<u8>>) -> String {
        String::from_utf8(burst.unwrap_or_default()).unwrap()
    }

    #[test]
    fn what_is_cancelled_before_it_is_written_is_never_written() {
        let (mut unwritten, now) = (Unwritten::default(), Instant::now());
        for number in 0..4 {
            unwritten.push(now, request(number));
        }
        for number in [1, 3] {
            unwritten.push(now, cancellation(number));
        }
        assert_eq!(unwritten.messages.len(), 2);
        let burst = text(unwritten.burst());
        assert!(burst.contains(r#""id":0"#) && burst.contains(r#""id":2"#) && burst.lines().count() == 2, "{burst}");
        // What was written is cancelled.
        unwritten.push(now, cancellation(2));
        assert!(text(unwritten.burst()).contains("notifications/cancelled"));
        assert_eq!((unwritten.burst(), unwritten.messages.len(), unwritten.answers), (None, 0, 0));
    }

    #[test]
    fn any_number_of_calls_that_are_dropped_leave_nothing() {
        let (mut unwritten, now) = (Unwritten::default(), Instant::now());
        unwritten.push(now, request(0));
        for number in 1..10_000 {
            unwritten.push(now, request(number));
            unwritten.push(now, cancellation(number));
        }
        assert_eq!(unwritten.messages.len(), 1);
        unwritten.push(now, cancellation(0));
        assert_eq!(unwritten.stalled(now + 2 * PATIENCE), None, "nothing waits");
    }

    #[test]
    fn calls_that_overlap_and_are_dropped_leave_nothing() {
        let (mut unwritten, now) = (Unwritten::default(), Instant::now());
        unwritten.push(now, request(0));
        for number in 1..10_000 {
            unwritten.push(now, request(number));
            unwritten.push(now, cancellation(number - 1));
        }
        assert_eq!(unwritten.messages.len(), 1);
    }

    #[test]
    fn a_burst_is_whole_messages_and_a_long_one_goes_alone() {
        let (mut unwritten, now) = (Unwritten::default(), Instant::now());
        unwritten.push(now, answer(BURST));
        (0..3).for_each(|_| unwritten.push(now, answer(BURST / 2 - 100)));
        let sizes: Vec<_> =
            std::iter::from_fn(|| unwritten.burst()).map(|burst| text(Some(burst)).lines().count()).collect();
        assert_eq!(sizes, [1, 2, 1]);
    }

    #[test]
    fn a_program_does_not_read_if_it_takes_nothing_for_some_time() {
        let (mut unwritten, start) = (Unwritten::default(), Instant::now());
        let later = |seconds| start.checked_add(Duration::from_secs(seconds)).unwrap();
        assert_eq!(unwritten.stalled(later(1000)), None);
        unwritten.push(start, request(1));
        assert_eq!(unwritten.stalled(later(299)), None);
        assert!(unwritten.stalled(later(300)).unwrap().contains("does not read its input"));
        let len = unwritten.burst().unwrap().len();
        unwritten.written(later(200), 1);
        assert_eq!(unwritten.stalled(later(499)), None);
        let why = unwritten.stalled(later(500)).unwrap();
        assert!(why.contains(&format!("{} bytes wait", len - 1)), "{why}");
        unwritten.written(later(600), len);
        assert_eq!(unwritten.stalled(later(5000)), None);
        // However long a message is, it counts for nothing by itself.
        unwritten.push(later(600), answer(2 * MOST_ANSWERS));
        assert_eq!(unwritten.stalled(later(609)), None);
        assert!(unwritten.stalled(later(610)).is_some());
        unwritten.push(later(600), answer(1));
        assert!(unwritten.stalled(later(600)).is_some());
        unwritten.clear();
        assert_eq!(unwritten.stalled(later(5000)), None);
    }

    #[test]
    fn what_is_cancelled_leaves_what_waits_beside_it_waiting() {
        let (mut unwritten, start) = (Unwritten::default(), Instant::now());
        let later = start + PATIENCE;
        for number in [1, 2] {
            unwritten.push(start, request(number));
        }
        unwritten.push(start, cancellation(1));
        assert!(unwritten.stalled(later).is_some());
        // It is being written.
        unwritten.burst().unwrap();
        unwritten.push(start, request(3));
        unwritten.push(start, cancellation(3));
        assert!(unwritten.stalled(later).is_some());
    }

    #[test]
    fn the_limits_are_those_of_the_documentation_to_the_byte() {
        let (start, around) = (Instant::now(), answer(0).line().len());
        let later = |seconds| start.checked_add(Duration::from_secs(seconds)).unwrap();
        let mut unwritten = Unwritten::default();
        unwritten.push(start, answer((1 << 20) - around));
        assert_eq!(unwritten.stalled(later(10)), None);
        // A megabyte and a byte.
        unwritten.push(start, answer(0));
        assert!(unwritten.stalled(later(10)).is_some());
        unwritten.clear();
        unwritten.push(start, answer((16 << 20) - around));
        unwritten.push(start, answer(0));
        assert_eq!(unwritten.stalled(start), None);
        unwritten.push(start, answer(0));
        assert!(unwritten.stalled(start).is_some());
        unwritten.clear();
        (0..2).for_each(|_| unwritten.push(start, answer(BURST / 2 - around)));
        assert_eq!(unwritten.burst().map(|burst| burst.len()), Some(BURST));
        unwritten.written(start, BURST - 1);
        assert!(unwritten.stalled(later(300)).is_some(), "a byte waits");
    }
}
