#![doc = "A server in a hub: started when it is wanted and there is room, closed when it is to go."]
#![doc = ""]
#![doc = include_str!("hub_server.md")]

use super::{Row, alphabet, recorded};

alphabet! {
    /// Where a server stands.
    State {
        /// Nobody wanted it yet.
        Idle,
        /// It is wanted, and waits until no session before is left of its server.
        Waiting,
        /// It is wanted, and waits for room to start.
        Queued,
        /// Its session has room, and is being opened.
        Starting,
        /// Its session is ready.
        Up,
        /// Its session lost the connection, or never had one; it tries again, or is parked.
        Down,
        /// Its session came to an end by itself, or cannot be had at all.
        Failed,
        /// Its session is being closed.
        Closing,
        /// There is no session any more.
        Closed,
    }
}

alphabet! {
    /// What happens to a server.
    Input {
        /// The hub is opened, the server is called, or the embedder asks for it.
        Wanted,
        /// As wanted, while a session before is left of its server: the two might be in each other's way.
        WantedNext,
        /// None is left.
        Free,
        /// Something saved is to stand in for it.
        Restored,
        /// There is room for it to start.
        Room,
        /// Its session is ready.
        Ready,
        /// Its session lost its connection, or did not get one.
        Down,
        /// Its session came to its end, or there is none.
        Ended,
        /// It is to go: it is no longer configured, or otherwise, or the hub is closed.
        Close,
    }
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Wait for the session before to be gone.
    Await,
    /// Wait for it no longer.
    Arrive,
    /// Wait for room to start.
    Queue,
    /// Wait for it no longer.
    Leave,
    /// Open the session, which takes up room.
    Open,
    /// Open the session again now, if it is parked or waits.
    Reopen,
    /// Make room for the next.
    Release,
    /// What the server offers is known, or known again.
    Show,
    /// What it offers is of no use any more, and its calls end.
    Hide,
    /// Close the session.
    Shut,
    /// Forget the server.
    Forget,
}

type R = Row<State, Effect>;

/// Decides.
pub const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Arrive, Await, Forget, Hide, Leave, Open, Queue, Release, Reopen, Show, Shut};
    match state {
        State::Idle => match input {
            Input::Wanted => R::advance(State::Queued, &[Queue]),
            Input::WantedNext => R::advance(State::Waiting, &[Await]),
            Input::Restored => R::advance(State::Idle, &[]),
            Input::Ended => R::advance(State::Failed, &[Hide]),
            Input::Close => R::advance(State::Closing, &[Shut]),
            Input::Free | Input::Room | Input::Ready | Input::Down => R::ignore(state),
        },
        State::Waiting => match input {
            Input::Free => R::advance(State::Queued, &[Arrive, Queue]),
            Input::Restored => R::advance(State::Idle, &[Arrive]),
            Input::Ended => R::advance(State::Failed, &[Arrive, Hide]),
            Input::Close => R::advance(State::Closing, &[Arrive, Shut]),
            // As long as a session before is left of its server, it is wanted as the next one.
            Input::Wanted | Input::WantedNext | Input::Room | Input::Ready | Input::Down => R::ignore(state),
        },
        State::Queued => match input {
            Input::Room => R::advance(State::Starting, &[Open]),
            Input::Restored => R::advance(State::Idle, &[Leave]),
            Input::Ended => R::advance(State::Failed, &[Leave, Hide]),
            Input::Close => R::advance(State::Closing, &[Leave, Shut]),
            Input::Wanted | Input::WantedNext | Input::Free | Input::Ready | Input::Down => R::ignore(state),
        },
        State::Starting => match input {
            Input::Ready => R::advance(State::Up, &[Release, Show]),
            Input::Down => R::advance(State::Down, &[Release]),
            Input::Restored => R::reject(state),
            Input::Ended => R::advance(State::Failed, &[Release, Hide]),
            Input::Close => R::advance(State::Closing, &[Release, Shut]),
            Input::Wanted | Input::WantedNext | Input::Free | Input::Room => R::ignore(state),
        },
        State::Up => match input {
            Input::Down => R::advance(State::Down, &[]),
            Input::Restored => R::reject(state),
            Input::Ended => R::advance(State::Failed, &[Hide]),
            Input::Close => R::advance(State::Closing, &[Shut]),
            Input::Wanted | Input::WantedNext | Input::Free | Input::Room | Input::Ready => R::ignore(state),
        },
        State::Down => match input {
            Input::Wanted => R::advance(State::Down, &[Reopen]),
            Input::Ready => R::advance(State::Up, &[Show]),
            Input::Restored => R::reject(state),
            Input::Ended => R::advance(State::Failed, &[Hide]),
            Input::Close => R::advance(State::Closing, &[Shut]),
            Input::WantedNext | Input::Free | Input::Room | Input::Down => R::ignore(state),
        },
        State::Failed => match input {
            Input::Restored => R::reject(state),
            Input::Close => R::advance(State::Closed, &[Forget]),
            // Another one takes its place.
            Input::Wanted
            | Input::WantedNext
            | Input::Free
            | Input::Room
            | Input::Ready
            | Input::Down
            | Input::Ended => R::ignore(state),
        },
        State::Closing => match input {
            Input::Ended => R::advance(State::Closed, &[Forget]),
            Input::Wanted
            | Input::WantedNext
            | Input::Free
            | Input::Restored
            | Input::Room
            | Input::Ready
            | Input::Down
            | Input::Close => R::ignore(state),
        },
        State::Closed => match input {
            Input::Wanted
            | Input::WantedNext
            | Input::Free
            | Input::Restored
            | Input::Room
            | Input::Ready
            | Input::Down
            | Input::Ended
            | Input::Close => R::ignore(state),
        },
    }
}

recorded!("hub_server");
