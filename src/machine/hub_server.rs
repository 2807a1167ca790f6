#![doc = "A server in a hub: started when it is wanted and there is room, closed when it is to go."]
#![doc = ""]
#![doc = include_str!("hub_server.md")]

use super::{Row, alphabet, recorded};

alphabet! {
    /// Where a server stands.
    State {
        /// Nobody wanted it yet.
        Idle,
        /// Nobody wanted it yet, and a session before is left of its server: the two might be in each other's way.
        Behind,
        /// It is to be started, and waits until no session before is left of its server.
        Waiting,
        /// As `Waiting`, and somebody waits for it.
        WaitingCalled,
        /// It is to be started, and waits for room.
        Queued,
        /// As `Queued`, and somebody waits for it: it goes before the others.
        QueuedCalled,
        /// It has room, and the embedder took nothing of its session yet.
        Opening,
        /// Its session is being opened.
        Starting,
        /// Its session is ready.
        Up,
        /// Its session lost the connection, or did not get one, and tries again.
        Down,
        /// As `Down`, and it tries again after a long time only.
        Parked,
        /// Its session ended by itself, or cannot be had at all.
        Failed,
        /// As `Failed`, since the server refused the authorization.
        Refused,
        /// Its session is being closed, and the hub with it.
        Closing,
        /// Its session is being closed, since its entry is gone or changed. The server may have another session by now.
        Leaving,
        /// There is no session any more.
        Closed,
    }
}

alphabet! {
    /// What happens to a server.
    Input {
        /// The hub is opened, or the server is configured in one that is open.
        Wanted,
        /// The embedder asks for it by its name.
        Started,
        /// A request is made to it, or it is to take the place of a session that failed.
        Called,
        /// A call needs what it lists, and no request.
        Listed,
        /// It is admitted while a session before is left of its server.
        Follows,
        /// No session before is left of its server.
        Free,
        /// Something saved is to stand in for it.
        Restored,
        /// There is room for it to start.
        Room,
        /// The embedder took the first action of its session, or reports something of it.
        Taken,
        /// Its session is ready.
        Ready,
        /// Its session's catalogue changed.
        Changed,
        /// Its session lost the connection, or did not get one, and tries again.
        Down,
        /// As `Down`, after a long time only.
        Parked,
        /// Its session ended, or it cannot have one.
        Ended,
        /// The failure that ended its session is a refused authorization.
        Unauthorized,
        /// The embedder can authorize requests now.
        Authorized,
        /// Its entry is gone or changed.
        Leave,
        /// The hub is closed.
        Close,
    }
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Count it among those that wait for the session before.
    Await,
    /// Count it among them no longer.
    Arrive,
    /// Let it wait for room, behind those that go before it.
    Queue,
    /// Let it wait in front of those that nobody waits for.
    Promote,
    /// Let it wait for room no longer.
    Dequeue,
    /// Make its session, which takes requests before it is opened.
    Prepare,
    /// Open the session, which takes up room.
    Open,
    /// Drop the session, of which the embedder took nothing.
    Discard,
    /// Have the session open its connection again now.
    Reopen,
    /// Make room for the next.
    Release,
    /// Offer what the session listed.
    Offer,
    /// Offer nothing, and end the calls that wait for lists.
    Withdraw,
    /// It is up: nothing is wrong with it.
    Present,
    /// It is up no longer.
    Absent,
    /// End the calls that wait for lists, with what is known.
    AnswerLists,
    /// Make no calls to it for some time.
    Rest,
    /// Make calls to it again, whatever failed.
    Reset,
    /// Report that it did not start, and is tried again.
    ReportRetry,
    /// Report that it failed.
    ReportFailed,
    /// Give the server another session, and start it.
    Renew,
    /// Start the session that follows, if one does.
    Succeed,
    /// Count it among the sessions before of its server.
    Depart,
    /// Count it among them no longer; the last one lets the next session start.
    Free,
    /// Close the session, and end the calls that wait for lists.
    Shut,
    /// Forget it, once the embedder took everything of it.
    Forget,
}

type R = Row<State, Effect>;

/// Decides.
pub const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{
        Absent, AnswerLists, Arrive, Await, Depart, Dequeue, Discard, Forget, Free, Offer, Open, Prepare, Present,
        Promote, Queue, Release, Renew, Reopen, ReportFailed, ReportRetry, Reset, Rest, Shut, Succeed, Withdraw,
    };
    match state {
        State::Idle => match input {
            Input::Wanted => R::advance(State::Queued, &[Queue]),
            Input::Started | Input::Called | Input::Listed => R::advance(State::QueuedCalled, &[Prepare, Queue]),
            Input::Follows => R::advance(State::Behind, &[]),
            Input::Restored => R::advance(state, &[]),
            Input::Ended => R::advance(State::Failed, &[Withdraw, ReportFailed]),
            Input::Leave | Input::Close => R::advance(State::Closed, &[Forget]),
            Input::Free
            | Input::Room
            | Input::Taken
            | Input::Ready
            | Input::Changed
            | Input::Down
            | Input::Parked
            | Input::Unauthorized
            | Input::Authorized => R::ignore(state),
        },
        State::Behind => match input {
            Input::Wanted => R::advance(State::Waiting, &[Await]),
            Input::Started | Input::Called | Input::Listed => R::advance(State::WaitingCalled, &[Prepare, Await]),
            Input::Free => R::advance(State::Idle, &[]),
            Input::Restored => R::advance(state, &[]),
            Input::Ended => R::advance(State::Failed, &[Withdraw, ReportFailed]),
            Input::Leave | Input::Close => R::advance(State::Closed, &[Forget]),
            Input::Follows
            | Input::Room
            | Input::Taken
            | Input::Ready
            | Input::Changed
            | Input::Down
            | Input::Parked
            | Input::Unauthorized
            | Input::Authorized => R::ignore(state),
        },
        State::Waiting => match input {
            Input::Started | Input::Called | Input::Listed => R::advance(State::WaitingCalled, &[Prepare]),
            Input::Free => R::advance(State::Queued, &[Arrive, Queue]),
            Input::Restored => R::advance(State::Behind, &[Arrive]),
            Input::Leave => R::advance(State::Closed, &[Arrive, Succeed, Forget]),
            Input::Close => R::advance(State::Closed, &[Arrive, Forget]),
            Input::Wanted
            | Input::Follows
            | Input::Room
            | Input::Taken
            | Input::Ready
            | Input::Changed
            | Input::Down
            | Input::Parked
            | Input::Ended
            | Input::Unauthorized
            | Input::Authorized => R::ignore(state),
        },
        State::WaitingCalled => match input {
            Input::Free => R::advance(State::QueuedCalled, &[Arrive, Queue]),
            Input::Restored => R::reject(state),
            Input::Leave => R::advance(State::Leaving, &[Arrive, Succeed, Depart, Shut]),
            Input::Close => R::advance(State::Closing, &[Arrive, Shut]),
            Input::Wanted
            | Input::Started
            | Input::Called
            | Input::Listed
            | Input::Follows
            | Input::Room
            | Input::Taken
            | Input::Ready
            | Input::Changed
            | Input::Down
            | Input::Parked
            | Input::Ended
            | Input::Unauthorized
            | Input::Authorized => R::ignore(state),
        },
        State::Queued => match input {
            Input::Started | Input::Called | Input::Listed => R::advance(State::QueuedCalled, &[Prepare, Promote]),
            Input::Restored => R::advance(State::Idle, &[Dequeue]),
            Input::Room => R::advance(State::Opening, &[Prepare, Open]),
            Input::Leave => R::advance(State::Closed, &[Dequeue, Succeed, Forget]),
            Input::Close => R::advance(State::Closed, &[Dequeue, Forget]),
            Input::Wanted
            | Input::Follows
            | Input::Free
            | Input::Taken
            | Input::Ready
            | Input::Changed
            | Input::Down
            | Input::Parked
            | Input::Ended
            | Input::Unauthorized
            | Input::Authorized => R::ignore(state),
        },
        State::QueuedCalled => match input {
            Input::Restored => R::reject(state),
            Input::Room => R::advance(State::Starting, &[Open]),
            Input::Leave => R::advance(State::Leaving, &[Dequeue, Succeed, Depart, Shut]),
            Input::Close => R::advance(State::Closing, &[Dequeue, Shut]),
            Input::Wanted
            | Input::Started
            | Input::Called
            | Input::Listed
            | Input::Follows
            | Input::Free
            | Input::Taken
            | Input::Ready
            | Input::Changed
            | Input::Down
            | Input::Parked
            | Input::Ended
            | Input::Unauthorized
            | Input::Authorized => R::ignore(state),
        },
        State::Opening => match input {
            Input::Started | Input::Called | Input::Listed | Input::Taken => R::advance(State::Starting, &[]),
            Input::Restored => R::advance(State::Idle, &[Release, Discard]),
            Input::Leave => R::advance(State::Closed, &[Release, Discard, Succeed, Forget]),
            Input::Close => R::advance(State::Closed, &[Release, Discard, Forget]),
            Input::Wanted
            | Input::Follows
            | Input::Free
            | Input::Room
            | Input::Ready
            | Input::Changed
            | Input::Down
            | Input::Parked
            | Input::Ended
            | Input::Unauthorized
            | Input::Authorized => R::ignore(state),
        },
        State::Starting => match input {
            Input::Restored => R::reject(state),
            Input::Ready => R::advance(State::Up, &[Release, Offer, Present, AnswerLists]),
            Input::Down => R::advance(State::Down, &[Release, ReportRetry, AnswerLists]),
            Input::Parked => R::advance(State::Parked, &[Release, Rest, ReportRetry, AnswerLists]),
            Input::Ended => R::advance(State::Failed, &[Release, Withdraw, ReportFailed]),
            Input::Leave => R::advance(State::Leaving, &[Release, Succeed, Depart, Shut]),
            Input::Close => R::advance(State::Closing, &[Release, Shut]),
            Input::Wanted
            | Input::Started
            | Input::Called
            | Input::Listed
            | Input::Follows
            | Input::Free
            | Input::Room
            | Input::Taken
            | Input::Changed
            | Input::Unauthorized
            | Input::Authorized => R::ignore(state),
        },
        State::Up => match input {
            Input::Listed => R::advance(state, &[AnswerLists]),
            Input::Restored => R::reject(state),
            Input::Changed => R::advance(state, &[Offer]),
            Input::Down => R::advance(State::Down, &[Absent]),
            Input::Parked => R::advance(State::Parked, &[Absent, Rest]),
            Input::Ended => R::advance(State::Failed, &[Absent, Withdraw, ReportFailed]),
            Input::Leave => R::advance(State::Leaving, &[Absent, Succeed, Depart, Shut]),
            Input::Close => R::advance(State::Closing, &[Absent, Shut]),
            Input::Wanted
            | Input::Started
            | Input::Called
            | Input::Follows
            | Input::Free
            | Input::Room
            | Input::Taken
            | Input::Ready
            | Input::Unauthorized
            | Input::Authorized => R::ignore(state),
        },
        State::Down => match input {
            Input::Wanted | Input::Started => R::advance(state, &[Reopen]),
            Input::Listed => R::advance(state, &[AnswerLists]),
            Input::Restored => R::reject(state),
            Input::Ready => R::advance(State::Up, &[Offer, Present, AnswerLists]),
            Input::Changed => R::advance(state, &[Offer]),
            Input::Parked => R::advance(State::Parked, &[Rest]),
            Input::Ended => R::advance(State::Failed, &[Withdraw, ReportFailed]),
            Input::Leave => R::advance(State::Leaving, &[Succeed, Depart, Shut]),
            Input::Close => R::advance(State::Closing, &[Shut]),
            Input::Called
            | Input::Follows
            | Input::Free
            | Input::Room
            | Input::Taken
            | Input::Down
            | Input::Unauthorized
            | Input::Authorized => R::ignore(state),
        },
        State::Parked => match input {
            Input::Wanted | Input::Started | Input::Called => R::advance(state, &[Reopen]),
            Input::Listed => R::advance(state, &[AnswerLists]),
            Input::Restored => R::reject(state),
            Input::Ready => R::advance(State::Up, &[Reset, Offer, Present, AnswerLists]),
            Input::Changed => R::advance(state, &[Offer]),
            Input::Down => R::advance(State::Down, &[]),
            Input::Parked => R::advance(state, &[Rest]),
            Input::Ended => R::advance(State::Failed, &[Withdraw, ReportFailed]),
            Input::Leave => R::advance(State::Leaving, &[Succeed, Depart, Shut]),
            Input::Close => R::advance(State::Closing, &[Shut]),
            Input::Follows | Input::Free | Input::Room | Input::Taken | Input::Unauthorized | Input::Authorized => {
                R::ignore(state)
            }
        },
        State::Failed => match input {
            Input::Started => R::advance(state, &[Renew]),
            Input::Restored => R::reject(state),
            Input::Unauthorized => R::advance(State::Refused, &[]),
            Input::Leave | Input::Close => R::advance(State::Closed, &[Forget]),
            Input::Wanted
            | Input::Called
            | Input::Listed
            | Input::Follows
            | Input::Free
            | Input::Room
            | Input::Taken
            | Input::Ready
            | Input::Changed
            | Input::Down
            | Input::Parked
            | Input::Ended
            | Input::Authorized => R::ignore(state),
        },
        State::Refused => match input {
            Input::Started | Input::Authorized => R::advance(state, &[Renew]),
            Input::Restored => R::reject(state),
            Input::Leave | Input::Close => R::advance(State::Closed, &[Forget]),
            Input::Wanted
            | Input::Called
            | Input::Listed
            | Input::Follows
            | Input::Free
            | Input::Room
            | Input::Taken
            | Input::Ready
            | Input::Changed
            | Input::Down
            | Input::Parked
            | Input::Ended
            | Input::Unauthorized => R::ignore(state),
        },
        State::Closing => match input {
            Input::Ended => R::advance(State::Closed, &[Forget]),
            Input::Wanted
            | Input::Started
            | Input::Called
            | Input::Listed
            | Input::Follows
            | Input::Free
            | Input::Restored
            | Input::Room
            | Input::Taken
            | Input::Ready
            | Input::Changed
            | Input::Down
            | Input::Parked
            | Input::Unauthorized
            | Input::Authorized
            | Input::Leave
            | Input::Close => R::ignore(state),
        },
        State::Leaving => match input {
            Input::Ended => R::advance(State::Closed, &[Free, Forget]),
            Input::Wanted
            | Input::Started
            | Input::Called
            | Input::Listed
            | Input::Follows
            | Input::Free
            | Input::Restored
            | Input::Room
            | Input::Taken
            | Input::Ready
            | Input::Changed
            | Input::Down
            | Input::Parked
            | Input::Unauthorized
            | Input::Authorized
            | Input::Leave
            | Input::Close => R::ignore(state),
        },
        State::Closed => match input {
            Input::Wanted
            | Input::Started
            | Input::Called
            | Input::Listed
            | Input::Follows
            | Input::Free
            | Input::Restored
            | Input::Room
            | Input::Taken
            | Input::Ready
            | Input::Changed
            | Input::Down
            | Input::Parked
            | Input::Ended
            | Input::Unauthorized
            | Input::Authorized
            | Input::Leave
            | Input::Close => R::ignore(state),
        },
    }
}

recorded!("hub_server");
