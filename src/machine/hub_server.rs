//! A server in a hub: started when it is needed and there is room, closed when its entry is removed or replaced.

use super::{Row, alphabet, recorded};

alphabet! {
    /// The state of a session of a server.
    State {
        /// It is not needed yet.
        Idle,
        /// It is not needed yet, and a session before it is not closed yet. The two might conflict.
        Behind,
        /// It is to be started, and waits until the sessions before it are closed.
        Waiting,
        /// As `Waiting`, and a request waits for it.
        WaitingCalled,
        /// It is to be started, and waits for room.
        Queued,
        /// As `Queued`, and a request waits for it: it goes before the others.
        QueuedCalled,
        /// It is open, and the embedder polled none of its actions yet.
        Opening,
        /// It is being opened.
        Starting,
        /// It is ready.
        Up,
        /// It was not used for some time, or is old: its connection is closed, and opened again when a request waits
        /// for it. Its lists are still offered.
        Resting,
        /// It lost the connection, or did not get one, and reconnects.
        Down,
        /// As `Down`, and it reconnects after a long interval.
        Parked,
        /// It ended by itself, or could not be created.
        Failed,
        /// As `Failed`, because the server refused authorization.
        Refused,
        /// It is being closed, together with the hub.
        Closing,
        /// It is being closed, because its entry was removed or replaced. The server may have another session by now.
        Leaving,
        /// It is closed.
        Closed,
    }
}

alphabet! {
    /// What happens to the session.
    Input {
        /// The hub is opened, or the server is configured in one that is open.
        Wanted,
        /// The embedder starts the server by its name.
        Started,
        /// A request is made to it, or it replaces a session that failed.
        Called,
        /// A call needs its lists, and no request.
        Listed,
        /// It is created while a session before it is not closed.
        Follows,
        /// The sessions before it are closed.
        Free,
        /// The embedder restores saved lists.
        Restored,
        /// There is room for it to start.
        Room,
        /// The embedder polled its first action, or reported an input for it.
        Taken,
        /// It is ready.
        Ready,
        /// Its catalogue changed.
        Changed,
        /// Nothing is in flight, and it was not used for some time, or is old.
        Unused,
        /// It lost the connection, or did not get one, and reconnects.
        Down,
        /// As `Down`, and it reconnects after a long interval.
        Parked,
        /// It ended, or could not be created.
        Ended,
        /// It ended because the server refused authorization.
        Unauthorized,
        /// The embedder can authorize requests now.
        Authorized,
        /// The hub is given what sessions authorize themselves with.
        OAuthGiven,
        /// Its actions are polled, and no credentials are being refreshed or stored.
        Polled,
        /// Its entry was removed or replaced.
        Leave,
        /// The hub is closed.
        Close,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Count it among the sessions that wait for the one before.
    Await,
    /// Stop counting it among them.
    Arrive,
    /// Queue it for room to start, required servers before the others.
    Queue,
    /// Queue it before the sessions that no request waits for.
    QueueCalled,
    /// Move it before the sessions that no request waits for.
    Promote,
    /// Remove it from that queue.
    Dequeue,
    /// Create it, unless it was created for the call that it accepted; it accepts requests before it is opened. It
    /// authorizes itself if its entry says so.
    Prepare,
    /// Let it authorize itself if its entry says so.
    Join,
    /// Open it; it takes up room.
    Open,
    /// Drop it; the embedder polled none of its actions.
    Discard,
    /// Open its connection again now.
    Reopen,
    /// Close its connection until it is opened again, and report that.
    Rest,
    /// Release its room to start.
    Release,
    /// Offer its lists to the model.
    Offer,
    /// Remove its lists from the offer, and end the calls that wait for lists.
    Withdraw,
    /// Report that it is up, clear its failure, and start the clock of its connection.
    Present,
    /// Report that it is not up.
    Absent,
    /// Answer the calls that wait for lists, with what is known.
    AnswerLists,
    /// Refuse calls to it for some time.
    RefuseCalls,
    /// Allow calls to it again.
    AllowCalls,
    /// Report that it did not start, and that it reconnects.
    ReportRetry,
    /// Report that it failed.
    ReportFailed,
    /// Create another session for the server, and start it.
    Renew,
    /// Start the session that follows, if there is one.
    Succeed,
    /// Count it among the closing sessions of its server.
    Depart,
    /// Stop counting it among them; after the last one, the next session may start.
    Free,
    /// Close it, and end the calls that wait for lists.
    Shut,
    /// Count it as over, and end the calls that wait for lists. Its last actions can still be polled.
    Forget,
    /// Remove it.
    Remove,
}

type R = Row<State, Effect>;

/// Returns the row for a state and an input.
pub(crate) const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{
        Absent, AllowCalls, AnswerLists, Arrive, Await, Depart, Dequeue, Discard, Forget, Free, Join, Offer, Open,
        Prepare, Present, Promote, Queue, QueueCalled, RefuseCalls, Release, Remove, Renew, Reopen, ReportFailed,
        ReportRetry, Rest, Shut, Succeed, Withdraw,
    };
    match state {
        State::Idle => match input {
            Input::Wanted => R::advance(State::Queued, &[Queue]),
            Input::Started | Input::Called | Input::Listed => R::advance(State::QueuedCalled, &[Prepare, QueueCalled]),
            Input::Follows => R::advance(State::Behind, &[]),
            Input::Restored => R::advance(state, &[]),
            Input::Ended => R::advance(State::Failed, &[Withdraw, ReportFailed]),
            Input::Leave | Input::Close => R::advance(State::Closed, &[Forget]),
            Input::Free
            | Input::Room
            | Input::Taken
            | Input::Ready
            | Input::Changed
            | Input::Unused
            | Input::Down
            | Input::Parked
            | Input::Unauthorized
            | Input::Authorized
            | Input::OAuthGiven
            | Input::Polled => R::ignore(state),
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
            | Input::Unused
            | Input::Down
            | Input::Parked
            | Input::Unauthorized
            | Input::Authorized
            | Input::OAuthGiven
            | Input::Polled => R::ignore(state),
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
            | Input::Unused
            | Input::Down
            | Input::Parked
            | Input::Ended
            | Input::Unauthorized
            | Input::Authorized
            | Input::OAuthGiven
            | Input::Polled => R::ignore(state),
        },
        State::WaitingCalled => match input {
            Input::Free => R::advance(State::QueuedCalled, &[Arrive, QueueCalled]),
            Input::Restored => R::reject(state),
            Input::Leave => R::advance(State::Leaving, &[Arrive, Depart, Succeed, Shut]),
            Input::Close => R::advance(State::Closing, &[Arrive, Shut]),
            Input::OAuthGiven => R::advance(state, &[Join]),
            Input::Wanted
            | Input::Started
            | Input::Called
            | Input::Listed
            | Input::Follows
            | Input::Room
            | Input::Taken
            | Input::Ready
            | Input::Changed
            | Input::Unused
            | Input::Down
            | Input::Parked
            | Input::Ended
            | Input::Unauthorized
            | Input::Authorized
            | Input::Polled => R::ignore(state),
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
            | Input::Unused
            | Input::Down
            | Input::Parked
            | Input::Ended
            | Input::Unauthorized
            | Input::Authorized
            | Input::OAuthGiven
            | Input::Polled => R::ignore(state),
        },
        State::QueuedCalled => match input {
            Input::Restored => R::reject(state),
            Input::Room => R::advance(State::Starting, &[Open]),
            Input::Leave => R::advance(State::Leaving, &[Dequeue, Depart, Succeed, Shut]),
            Input::Close => R::advance(State::Closing, &[Dequeue, Shut]),
            Input::OAuthGiven => R::advance(state, &[Join]),
            Input::Wanted
            | Input::Started
            | Input::Called
            | Input::Listed
            | Input::Follows
            | Input::Free
            | Input::Taken
            | Input::Ready
            | Input::Changed
            | Input::Unused
            | Input::Down
            | Input::Parked
            | Input::Ended
            | Input::Unauthorized
            | Input::Authorized
            | Input::Polled => R::ignore(state),
        },
        State::Opening => match input {
            Input::Started | Input::Called | Input::Listed | Input::Taken => R::advance(State::Starting, &[]),
            Input::Restored => R::advance(State::Idle, &[Release, Discard]),
            Input::Leave => R::advance(State::Closed, &[Release, Discard, Succeed, Forget]),
            Input::Close => R::advance(State::Closed, &[Release, Discard, Forget]),
            Input::OAuthGiven => R::advance(state, &[Join]),
            Input::Wanted
            | Input::Follows
            | Input::Free
            | Input::Room
            | Input::Ready
            | Input::Changed
            | Input::Unused
            | Input::Down
            | Input::Parked
            | Input::Ended
            | Input::Unauthorized
            | Input::Authorized
            | Input::Polled => R::ignore(state),
        },
        State::Starting => match input {
            Input::Restored => R::reject(state),
            Input::Ready => R::advance(State::Up, &[Release, Offer, Present, AnswerLists]),
            Input::Down => R::advance(State::Down, &[Release, ReportRetry, AnswerLists]),
            Input::Parked => R::advance(State::Parked, &[Release, RefuseCalls, ReportRetry, AnswerLists]),
            Input::Ended => R::advance(State::Failed, &[Release, Withdraw, ReportFailed]),
            Input::Leave => R::advance(State::Leaving, &[Release, Depart, Succeed, Shut]),
            Input::Close => R::advance(State::Closing, &[Release, Shut]),
            Input::OAuthGiven => R::advance(state, &[Join]),
            Input::Wanted
            | Input::Started
            | Input::Called
            | Input::Listed
            | Input::Follows
            | Input::Free
            | Input::Room
            | Input::Taken
            | Input::Changed
            | Input::Unused
            | Input::Unauthorized
            | Input::Authorized
            | Input::Polled => R::ignore(state),
        },
        State::Up => match input {
            Input::Listed => R::advance(state, &[AnswerLists]),
            Input::Restored => R::reject(state),
            Input::Changed => R::advance(state, &[Offer]),
            // Its lists are known, so it counts as up.
            Input::Unused => R::advance(State::Resting, &[Rest]),
            Input::Down => R::advance(State::Down, &[Absent]),
            Input::Parked => R::advance(State::Parked, &[Absent, RefuseCalls]),
            Input::Ended => R::advance(State::Failed, &[Absent, Withdraw, ReportFailed]),
            Input::Leave => R::advance(State::Leaving, &[Absent, Depart, Succeed, Shut]),
            Input::Close => R::advance(State::Closing, &[Absent, Shut]),
            Input::OAuthGiven => R::advance(state, &[Join]),
            Input::Wanted
            | Input::Started
            | Input::Called
            | Input::Follows
            | Input::Free
            | Input::Room
            | Input::Taken
            | Input::Ready
            | Input::Unauthorized
            | Input::Authorized
            | Input::Polled => R::ignore(state),
        },
        State::Resting => match input {
            Input::Started | Input::Called | Input::Listed => R::advance(State::QueuedCalled, &[Absent, QueueCalled]),
            Input::Restored => R::reject(state),
            Input::Leave => R::advance(State::Leaving, &[Absent, Depart, Succeed, Shut]),
            Input::Close => R::advance(State::Closing, &[Absent, Shut]),
            Input::OAuthGiven => R::advance(state, &[Join]),
            Input::Wanted
            | Input::Follows
            | Input::Free
            | Input::Room
            | Input::Taken
            | Input::Ready
            | Input::Changed
            | Input::Unused
            | Input::Down
            | Input::Parked
            | Input::Ended
            | Input::Unauthorized
            | Input::Authorized
            | Input::Polled => R::ignore(state),
        },
        State::Down => match input {
            Input::Wanted | Input::Started => R::advance(state, &[Reopen]),
            Input::Listed => R::advance(state, &[AnswerLists]),
            Input::Restored => R::reject(state),
            Input::Ready => R::advance(State::Up, &[Offer, Present, AnswerLists]),
            Input::Changed => R::advance(state, &[Offer]),
            Input::Parked => R::advance(State::Parked, &[RefuseCalls]),
            Input::Ended => R::advance(State::Failed, &[Withdraw, ReportFailed]),
            Input::Leave => R::advance(State::Leaving, &[Depart, Succeed, Shut]),
            Input::Close => R::advance(State::Closing, &[Shut]),
            Input::OAuthGiven => R::advance(state, &[Join]),
            Input::Called
            | Input::Follows
            | Input::Free
            | Input::Room
            | Input::Taken
            | Input::Down
            | Input::Unauthorized
            | Input::Authorized
            | Input::Unused
            | Input::Polled => R::ignore(state),
        },
        State::Parked => match input {
            Input::Wanted | Input::Started | Input::Called => R::advance(state, &[Reopen]),
            Input::Listed => R::advance(state, &[AnswerLists]),
            Input::Restored => R::reject(state),
            Input::Ready => R::advance(State::Up, &[AllowCalls, Offer, Present, AnswerLists]),
            Input::Changed => R::advance(state, &[Offer]),
            Input::Down => R::advance(State::Down, &[]),
            Input::Parked => R::advance(state, &[RefuseCalls]),
            Input::Ended => R::advance(State::Failed, &[Withdraw, ReportFailed]),
            Input::Leave => R::advance(State::Leaving, &[Depart, Succeed, Shut]),
            Input::Close => R::advance(State::Closing, &[Shut]),
            Input::OAuthGiven => R::advance(state, &[Join]),
            Input::Follows
            | Input::Free
            | Input::Room
            | Input::Taken
            | Input::Unauthorized
            | Input::Authorized
            | Input::Unused
            | Input::Polled => R::ignore(state),
        },
        State::Failed => match input {
            Input::Started => R::advance(state, &[Renew]),
            Input::Called | Input::Listed | Input::Restored => R::reject(state),
            Input::OAuthGiven => R::advance(state, &[Join]),
            Input::Unauthorized => R::advance(State::Refused, &[]),
            Input::Leave | Input::Close => R::advance(State::Closed, &[Forget]),
            Input::Wanted
            | Input::Follows
            | Input::Free
            | Input::Room
            | Input::Taken
            | Input::Ready
            | Input::Changed
            | Input::Unused
            | Input::Down
            | Input::Parked
            | Input::Ended
            | Input::Authorized
            | Input::Polled => R::ignore(state),
        },
        State::Refused => match input {
            Input::Started | Input::Authorized => R::advance(state, &[Renew]),
            Input::Called | Input::Listed | Input::Restored => R::reject(state),
            Input::OAuthGiven => R::advance(state, &[Join]),
            Input::Leave | Input::Close => R::advance(State::Closed, &[Forget]),
            Input::Wanted
            | Input::Follows
            | Input::Free
            | Input::Room
            | Input::Taken
            | Input::Ready
            | Input::Changed
            | Input::Unused
            | Input::Down
            | Input::Parked
            | Input::Ended
            | Input::Unauthorized
            | Input::Polled => R::ignore(state),
        },
        State::Closing => match input {
            Input::Ended => R::advance(State::Closed, &[Forget]),
            // It needs no token any more, and one that is being refreshed would be lost with its authorization.
            Input::OAuthGiven
            | Input::Wanted
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
            | Input::Unused
            | Input::Down
            | Input::Parked
            | Input::Unauthorized
            | Input::Authorized
            | Input::Leave
            | Input::Close
            | Input::Polled => R::ignore(state),
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
            | Input::Unused
            | Input::Down
            | Input::Parked
            | Input::Unauthorized
            | Input::Authorized
            | Input::Leave
            | Input::Close
            | Input::OAuthGiven
            | Input::Polled => R::ignore(state),
        },
        State::Closed => match input {
            Input::Polled => R::advance(state, &[Remove]),
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
            | Input::Unused
            | Input::Down
            | Input::Parked
            | Input::Ended
            | Input::Unauthorized
            | Input::Authorized
            | Input::Leave
            | Input::Close
            | Input::OAuthGiven => R::ignore(state),
        },
    }
}

recorded!("hub_server", refuses);

/// Whether a command creates the session.
pub(crate) fn creates(state: State, command: Input) -> bool {
    step(state, command).effects.contains(&Effect::Prepare)
}
