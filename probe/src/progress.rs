//! Shows on standard error what a long run is waiting for.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Delay before the first message, and minimum interval between different messages.
const PACE: Duration = Duration::from_secs(1);
/// Interval for repeating the same message.
const AGAIN: Duration = Duration::from_secs(5);

pub(crate) struct Progress {
    start: Instant,
    /// When to print next; `None` without a terminal.
    next: Option<Instant>,
    said: Option<(Instant, String)>,
}

impl Progress {
    pub(crate) fn new(start: Instant) -> Self {
        let watched = std::io::stderr().is_terminal();
        Self { start, next: start.checked_add(PACE).filter(|_| watched), said: None }
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.next
    }

    pub(crate) fn is_due(&self) -> bool {
        self.next.is_some_and(|next| next <= Instant::now())
    }

    pub(crate) fn show(&mut self, waiting: String) {
        let now = Instant::now();
        self.next = now.checked_add(PACE);
        if self.said.as_ref().is_none_or(|(at, said)| *said != waiting || at.elapsed() >= AGAIN) {
            let seconds = self.start.elapsed().as_secs();
            let _ = writeln!(std::io::stderr(), "probe: {seconds} s, waiting for {waiting}");
            self.said = Some((now, waiting));
        }
    }
}
