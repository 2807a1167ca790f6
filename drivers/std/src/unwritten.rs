//! Messages that wait to be written to a program's input.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use mcp_proto::{Outgoing, RequestId};

/// Bytes that are written at once, unless one message is longer.
const BURST: usize = 64 << 10;
/// How long a program may take nothing while anything waits, and while it has asked for this much.
const PATIENCE: Duration = Duration::from_secs(300);
const PATIENCE_WITH_ANSWERS: Duration = Duration::from_secs(10);
const ANSWERS: usize = 1 << 20;
/// Responses that wait, at most, in bytes. Requests are bounded by the client, which has only some in flight.
const MOST_ANSWERS: usize = 16 << 20;

/// Messages that wait to be written to a program's input, in order. A request that is cancelled while it waits is not
/// written, and its cancellation neither.
///
/// A program does not read if it takes no byte for some time: 5 minutes, or 10 s while more than 1 MiB of responses to its own
/// requests wait. Of these, 16 MiB may wait.
#[derive(Debug, Default)]
pub struct Unwritten {
    lines: VecDeque<Line>,
    /// How many lines were taken before the first one.
    taken: u64,
    /// The lines of requests, by their numbers.
    requests: BTreeMap<RequestId, u64>,
    /// Bytes of responses and notifications that wait.
    answers: usize,
    /// Since when no byte was written, while something waits.
    waits_since: Option<Instant>,
}

#[derive(Debug)]
struct Line {
    /// Empty if the request was cancelled.
    bytes: Vec<u8>,
    request: Option<RequestId>,
}

impl Unwritten {
    /// Adds a message.
    pub fn push(&mut self, now: Instant, message: &Outgoing) {
        if message.method() == Some("notifications/cancelled")
            && let Some(request) = message.of()
            && let Some(number) = self.requests.remove(&request)
        {
            return self.take_back(number);
        }
        let request = message.of().filter(|_| message.wire_id().is_some());
        if let Some(request) = request {
            self.requests.insert(request, self.taken.saturating_add(self.lines.len() as u64));
        } else {
            self.answers = self.answers.saturating_add(message.line().len());
        }
        self.lines.push_back(Line { bytes: message.line().to_vec(), request });
        self.waits_since.get_or_insert(now);
    }

    fn take_back(&mut self, number: u64) {
        let at = usize::try_from(number.saturating_sub(self.taken)).unwrap_or(usize::MAX);
        if let Some(line) = self.lines.get_mut(at) {
            (line.bytes, line.request) = (Vec::new(), None);
        }
        while self.lines.back().is_some_and(|line| line.bytes.is_empty()) {
            self.lines.pop_back();
        }
    }

    /// What is to be written next: whole messages, which count as written from now on. `None` if nothing waits.
    pub fn burst(&mut self) -> Option<Vec<u8>> {
        let mut burst = Vec::new();
        while let Some(line) = self.lines.front() {
            if !burst.is_empty() && burst.len().saturating_add(line.bytes.len()) > BURST {
                break;
            }
            let Some(Line { bytes, request }) = self.lines.pop_front() else { break };
            self.taken = self.taken.saturating_add(1);
            match request {
                Some(request) => drop(self.requests.remove(&request)),
                None => self.answers = self.answers.saturating_sub(bytes.len()),
            }
            if burst.is_empty() {
                burst = bytes;
            } else {
                burst.extend_from_slice(&bytes);
            }
        }
        Some(burst).filter(|burst| !burst.is_empty())
    }

    /// A byte was written.
    pub const fn written(&mut self, now: Instant) {
        self.waits_since = Some(now);
    }

    /// All was written: nothing waits any more, but for what was added since.
    pub fn drained(&mut self, now: Instant) {
        self.waits_since = Some(now).filter(|_| !self.lines.is_empty());
    }

    /// Why the program counts as one that does not read, if it does.
    pub fn stalled(&self, now: Instant) -> Option<String> {
        let waits = now.saturating_duration_since(self.waits_since?);
        let limit = if self.answers > ANSWERS { PATIENCE_WITH_ANSWERS } else { PATIENCE };
        let is_stalled = waits >= limit || self.answers > MOST_ANSWERS;
        is_stalled.then(|| {
            let bytes = self.lines.iter().fold(0_usize, |sum, line| sum.saturating_add(line.bytes.len()));
            format!("it does not read its input: {bytes} bytes wait, and nothing was written for {waits:.1?}")
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
            unwritten.push(now, &request(number));
        }
        for number in [1, 3] {
            unwritten.push(now, &cancellation(number));
        }
        assert_eq!(unwritten.lines.len(), 3);
        let burst = text(unwritten.burst());
        assert!(burst.contains(r#""id":0"#) && burst.contains(r#""id":2"#) && burst.lines().count() == 2, "{burst}");
        // What was written is cancelled.
        unwritten.push(now, &cancellation(2));
        assert!(text(unwritten.burst()).contains("notifications/cancelled"));
        assert_eq!((unwritten.burst(), unwritten.requests.len(), unwritten.answers), (None, 0, 0));
    }

    #[test]
    fn any_number_of_calls_that_are_dropped_leave_nothing() {
        let (mut unwritten, now) = (Unwritten::default(), Instant::now());
        unwritten.push(now, &request(0));
        for number in 1..10_000 {
            unwritten.push(now, &request(number));
            unwritten.push(now, &cancellation(number));
        }
        assert_eq!((unwritten.lines.len(), unwritten.requests.len()), (1, 1));
    }

    #[test]
    fn a_burst_is_whole_messages_and_a_long_one_goes_alone() {
        let (mut unwritten, now) = (Unwritten::default(), Instant::now());
        unwritten.push(now, &answer(BURST));
        (0..3).for_each(|_| unwritten.push(now, &answer(BURST / 2 - 100)));
        let sizes: Vec<_> =
            std::iter::from_fn(|| unwritten.burst()).map(|burst| text(Some(burst)).lines().count()).collect();
        assert_eq!(sizes, [1, 2, 1]);
    }

    #[test]
    fn a_program_does_not_read_if_it_takes_nothing_for_some_time() {
        let (mut unwritten, start) = (Unwritten::default(), Instant::now());
        let later = |seconds| start.checked_add(Duration::from_secs(seconds)).unwrap();
        assert_eq!(unwritten.stalled(later(1000)), None);
        unwritten.push(start, &request(1));
        assert_eq!(unwritten.stalled(later(299)), None);
        assert!(unwritten.stalled(later(300)).unwrap().contains("does not read its input"));
        unwritten.written(later(200));
        assert_eq!(unwritten.stalled(later(499)), None);
        // However long a message is, it counts for nothing by itself.
        unwritten.push(later(200), &answer(ANSWERS));
        assert_eq!(unwritten.stalled(later(209)), None);
        assert!(unwritten.stalled(later(210)).is_some());
        unwritten.push(later(200), &answer(MOST_ANSWERS));
        assert!(unwritten.stalled(later(200)).is_some());
        while unwritten.burst().is_some() {}
        unwritten.drained(later(300));
        assert_eq!(unwritten.stalled(later(5000)), None);
    }
}
