//! What drives a session through a sequence of operations: its time, and what is looked at after each operation.

use std::time::Duration;

use mcp_proto::binding::http::HttpSession;
use mcp_proto::{Session, Time};

use super::checks::{Deadlines, END, check_kept};
use super::host::Host;
use super::input::Input;

/// More actions than any session may owe.
const MOST: usize = 1_000_000;

/// The time of a session, and whether anybody polls it.
pub(super) struct Clock {
    pub(super) now: Time,
    pub(super) polling: bool,
    /// Something may wait that was said before the latest operation.
    pub(super) behind: bool,
}

impl Default for Clock {
    fn default() -> Self {
        Self { now: Time::ZERO, polling: true, behind: false }
    }
}

/// A session, whatever its binding.
pub(super) trait Bound {
    fn core(&mut self) -> &mut Session;

    fn next(&self) -> Option<Time>;

    fn fire(&mut self, now: Time);

    fn is_over(&self) -> bool;

    /// How many actions wait to be polled.
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

/// A session under way, and what has to hold of it.
pub(super) trait Driven {
    type Session: Bound;

    fn parts(&mut self) -> (&mut Self::Session, &mut Clock, &mut Host);

    /// Takes the next of what can be polled.
    fn take_next(&mut self);

    /// Takes all of it.
    fn drain(&mut self);

    /// So many actions may wait to be polled.
    fn check_waiting(&self, owed: usize);

    /// Does an operation on time, or on who polls, whatever the transport; tells whether it is one.
    fn pass(&mut self, operation: u8, input: &mut Input<'_>) -> bool {
        let (session, clock, _) = self.parts();
        match operation {
            // Time, and time that nobody tells of.
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

    /// Lets time go by, stopping at each deadline while there is somebody who polls.
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

    /// Whatever came before: a session that is closed comes to its end.
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
