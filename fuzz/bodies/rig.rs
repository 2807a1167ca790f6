//! Drives a session through operations: its clock, and the checks after each operation.

use std::time::Duration;

use mcp_proto::binding::http::HttpSession;
use mcp_proto::{Session, Time};

use super::checks::{Deadlines, END, check_kept};
use super::embedder::Embedder;
use super::input::Input;

/// More actions than any session may queue.
const MOST: usize = 1_000_000;

/// A session's clock, and whether its embedder polls.
pub(super) struct Clock {
    pub(super) now: Time,
    pub(super) polling: bool,
    /// Whether actions from before the latest operation may be queued.
    pub(super) behind: bool,
}

impl Default for Clock {
    fn default() -> Self {
        Self { now: Time::ZERO, polling: true, behind: false }
    }
}

/// A session with any binding.
pub(super) trait Bound {
    fn core(&mut self) -> &mut Session;

    fn next(&self) -> Option<Time>;

    fn fire(&mut self, now: Time);

    fn is_over(&self) -> bool;

    /// Number of queued actions.
    fn owed(&self) -> usize;
}

macro_rules! bound {
    ($session:ty) => {
        impl Bound for $session {
            fn core(&mut self) -> &mut Session {
                self
            }

            fn next(&self) -> Option<Time> {
                self.deadline()
            }

            fn fire(&mut self, now: Time) {
                self.handle_timeout(now);
            }

            fn is_over(&self) -> bool {
                self.is_closed()
            }

            fn owed(&self) -> usize {
                let mut behind = self.clone();
                std::iter::from_fn(|| behind.poll()).take(MOST).count()
            }
        }
    };
}

bound!(Session);
bound!(HttpSession);

/// A running session with the state that its invariants need.
pub(super) trait Driven {
    type Session: Bound;

    fn parts(&mut self) -> (&mut Self::Session, &mut Clock, &mut Embedder);

    /// Polls one action.
    fn take_next(&mut self);

    /// Polls all actions.
    fn drain(&mut self);

    /// Checks that the session may queue this many actions.
    fn check_waiting(&self, owed: usize);

    /// Runs an operation on the clock or on polling, independent of the transport; false if it is not one.
    fn pass(&mut self, operation: u8, input: &mut Input<'_>) -> bool {
        let (session, clock, _) = self.parts();
        match operation {
            // Time passes, with or without handling timeouts.
            b'q' => self.wait(input.step()),
            b'r' => clock.now = clock.now + input.step(),
            b's' => {
                let Some(deadline) = session.next() else { return true };
                let now = clock.now;
                self.wait(deadline.since(now));
            }
            b't' => session.fire([Time::ZERO, clock.now][input.pick(2)]),
            b'u' => clock.now = END,
            b'v' => clock.polling = !clock.polling,
            b'w' => self.take_next(),
            _ => return false,
        }
        true
    }

    /// Advances the clock, stopping at each deadline while the embedder polls.
    fn wait(&mut self, duration: Duration) {
        let end = self.parts().1.now + duration;
        let mut deadlines = Deadlines::default();
        for _ in 0..1_000 {
            let (_, clock, _) = self.parts();
            if !clock.polling || clock.now == END {
                break;
            }
            self.drain();
            let (session, clock, _) = self.parts();
            let Some(deadline) = session.next().filter(|deadline| *deadline <= end) else { break };
            deadlines.reach(deadline);
            clock.now = clock.now.max(deadline);
            session.fire(clock.now);
        }
        let (session, clock, _) = self.parts();
        clock.now = end;
        session.fire(end);
    }

    fn check(&mut self) {
        if self.parts().1.polling {
            self.drain();
            let (session, _, host) = self.parts();
            assert!(!host.closed || session.next().is_none(), "there is a deadline after the end");
        } else {
            let (session, clock, _) = self.parts();
            clock.behind = true;
            let owed = session.owed();
            self.check_waiting(owed);
        }
        check_kept(self.parts().0.core());
    }

    /// Closes the session, and checks that it ends.
    fn close(&mut self) {
        self.parts().1.polling = true;
        self.drain();
        let (session, clock, host) = self.parts();
        let now = clock.now;
        host.command(session.core(), 6, |session| session.close(now));
        let grace = session.core().options().timeouts.grace;
        for _ in 0..4 {
            self.wait(grace);
        }
        self.drain();
        let (session, _, host) = self.parts();
        assert!(host.closed && session.is_over(), "no end came of close");
    }
}
