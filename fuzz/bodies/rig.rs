//! Drives a session through operations: its clock, and the checks after each operation.

use std::fmt::Debug;
use std::time::Duration;

use mcp_proto::{Binding, Client, Request, Time};
#[cfg(feature = "snapshot")]
use mcp_proto::{Moved, Secrets};

#[cfg(feature = "snapshot")]
use super::checks::assert_same;
use super::checks::{Deadlines, END, check_kept};
use super::embedder::{Embedder, check_unchanged};
use super::input::Input;

/// More actions than any session may queue.
const MOST: usize = 1_000_000;

/// A session's clock, and whether its embedder polls.
#[derive(Clone)]
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

/// A binding whose session can be compared with a copy of itself.
pub(super) trait Bound: Binding + Clone + Debug {}

impl<B: Binding + Clone + Debug> Bound for B {}

/// Number of queued actions.
fn owed<B: Bound>(session: &Client<B>) -> usize {
    let mut behind = session.clone();
    std::iter::from_fn(|| behind.poll()).take(MOST).count()
}

/// What the operations of an input run on. A clone runs on from where it is.
pub trait Operated: Clone {
    /// Reads the options.
    fn new(input: &mut Input<'_>) -> Self;

    /// Runs an operation, and checks the invariants.
    fn operate(&mut self, operation: u8, input: &mut Input<'_>);

    /// What later operations depend on, if they choose only the newest of each kind.
    fn state(&self) -> String;

    /// Ends it, checks that it ended, and returns a hash of all outputs.
    fn end(&mut self) -> u64;

    /// Saves and restores it: with its transport it is the same, and without it ends all the same.
    fn check_suspended(&self) {}

    /// Runs operations.
    fn then(mut self, operations: &[u8]) -> Self {
        let mut input = Input(operations);
        while let Some(operation) = input.operation() {
            self.operate(operation, &mut input);
        }
        self
    }

    /// Reads the options, and runs the operations that follow.
    fn run(bytes: &[u8]) -> Self {
        let mut input = Input(bytes);
        Self::new(&mut input).then(input.0)
    }
}

/// A running session with the state that its invariants need.
pub(super) trait Driven {
    type Binding: Bound;

    fn parts(&mut self) -> (&mut Client<Self::Binding>, &mut Clock, &mut Embedder);

    /// Polls one action.
    fn take_next(&mut self);

    /// Polls all actions.
    fn drain(&mut self);

    /// Checks that the session may queue this many actions.
    fn check_waiting(&self, owed: usize);

    /// What it is when it is restored from its snapshot.
    #[cfg(feature = "snapshot")]
    fn restored(session: &Client<Self::Binding>, binding: Self::Binding, moved: Moved) -> Client<Self::Binding> {
        let options = session.options().clone();
        let restored = Client::from_snapshot(binding, options, &session.snapshot(Secrets::Included), moved);
        let restored = restored.unwrap_or_else(|error| panic!("it cannot be restored: {error}"));
        if moved == Moved::WithTransport {
            assert_same(&restored, session, "a restored session is another one");
        }
        restored
    }

    /// What is due comes before an input: the model does not know in which order they are handled.
    fn catch_up(&mut self) {
        let (session, clock, host) = self.parts();
        if session.deadline().is_some_and(|deadline| deadline <= clock.now) {
            host.model.loses_track();
        }
    }

    /// Runs an operation on the clock or on polling, independent of the transport; false if it is not one.
    fn pass(&mut self, operation: u8, input: &mut Input<'_>) -> bool {
        let (session, clock, host) = self.parts();
        match operation {
            // Time passes, with or without handling timeouts.
            b'q' => self.wait(input.step()),
            b'r' => clock.now = clock.now + input.step(),
            b's' => {
                let Some(deadline) = session.deadline() else { return true };
                let now = clock.now;
                self.wait(deadline.since(now));
            }
            b't' => session.handle_timeout([Time::ZERO, clock.now][input.pick(2)]),
            b'u' => {
                clock.now = END;
                host.model.loses_track();
            }
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
            let Some(deadline) = session.deadline().filter(|deadline| *deadline <= end) else { break };
            deadlines.reach(deadline);
            clock.now = clock.now.max(deadline);
            session.handle_timeout(clock.now);
        }
        let (session, clock, _) = self.parts();
        clock.now = end;
        session.handle_timeout(end);
    }

    fn check(&mut self) {
        if self.parts().1.polling {
            self.drain();
            let (session, clock, host) = self.parts();
            assert!(!host.closed || session.deadline().is_none(), "there is a deadline after the end");
            host.model.settles(session, session.deadline(), clock.now);
        } else {
            let (session, clock, host) = self.parts();
            clock.behind = true;
            host.model.loses_track();
            let owed = owed(session);
            self.check_waiting(owed);
        }
        check_kept(self.parts().0);
    }

    /// The last instant comes to an end, though whatever it starts anew is due at once.
    fn reach_last_instant(&mut self) {
        self.parts().0.clone().handle_timeout(END);
    }

    /// Checks that nothing follows the end, whatever the embedder commands.
    fn check_over(&mut self) {
        let (session, clock, _) = self.parts();
        let now = clock.now;
        let before = session.clone();
        let refused = [
            session.open(now).err(),
            session.request(now, Request::new("ping")).err(),
            session.subscribe(now, "r:0").err(),
        ];
        assert!(refused.iter().all(Option::is_some), "a closed session took a command: {refused:?}");
        check_unchanged(before, session, now, &refused);
        session.handle_timeout(now + Duration::from_secs(3600));
        self.drain();
        assert_eq!(self.parts().0.deadline(), None);
    }

    /// Closes the session, and checks that it ends.
    fn close(&mut self) {
        self.parts().1.polling = true;
        self.drain();
        let (session, clock, host) = self.parts();
        let now = clock.now;
        host.command(session, now, 6, |session| session.close(now));
        let grace = session.options().timeouts.grace;
        for _ in 0..4 {
            self.wait(grace);
        }
        self.drain();
        let (session, _, host) = self.parts();
        assert!(host.closed && session.is_closed(), "closing did not end the session");
    }
}
