//! The stream on which a modern server announces changes (specification 2026-07-28, "Subscriptions"): requested,
//! acknowledged, and requested again if it breaks or if other changes are subscribed to.

use super::gate::Declaration;
use super::{QuirkKind, Row, alphabet, recorded};
use crate::protocol::Era;

alphabet! {
    /// The state of the listen stream.
    State {
        /// There is no stream, and nothing to subscribe to.
        Idle,
        /// The stream was requested.
        Requested,
        /// The stream was requested, and a different one is needed by now.
        RequestedStale,
        /// The server acknowledged the stream.
        Open,
        /// A new stream was requested; the acknowledged one continues until then.
        Changing,
        /// As `Changing`, and a different one is needed by now.
        ChangingStale,
        /// The stream broke; the wait before the next request.
        Waiting,
        /// The server refused the stream.
        Refused,
    }
}

alphabet! {
    /// What happens to the stream.
    Input {
        /// There is something to subscribe to, or something else than before.
        Wanted,
        /// There is nothing to subscribe to any more.
        Unwanted,
        /// The server acknowledged the stream that was requested last.
        Agreed,
        /// The acknowledged stream ended.
        Ended,
        /// The stream that was requested last ended before it was acknowledged.
        Failed,
        /// The server refused the stream, although it declares a capability that requires it.
        Refused,
        /// The server refused the stream, and did not send its capabilities.
        Absent,
        /// The server did not acknowledge the stream in time.
        Silent,
        /// The wait is over.
        Timer,
        /// The connection is lost.
        Lost,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Request a stream for the current subscriptions.
    Request,
    /// Cancel the requested stream.
    DropRequested,
    /// Cancel the acknowledged stream.
    DropOpen,
    /// Make the requested stream the current one. Lists that may have changed before it are requested again.
    Adopt,
    /// No stream announces changes now.
    Forget,
    /// No stream announces changes now; the requested one will.
    Await,
    /// Refuse the subscriptions to resources.
    Refuse,
    /// Start the wait, which grows with each failure.
    Arm,
    /// Stop the wait.
    Disarm,
}

type R = Row<State, Effect>;

/// Returns the row for a state and an input.
pub(crate) const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{Adopt, Arm, Await, Disarm, DropOpen, DropRequested, Forget, Refuse, Request};
    match state {
        State::Idle => match input {
            Input::Wanted => R::advance(State::Requested, &[Request]),
            Input::Unwanted
            | Input::Agreed
            | Input::Ended
            | Input::Failed
            | Input::Refused
            | Input::Absent
            | Input::Silent
            | Input::Timer
            | Input::Lost => R::ignore(state),
        },
        State::Requested => match input {
            Input::Wanted => R::advance(State::RequestedStale, &[]),
            Input::Unwanted => R::advance(State::Idle, &[DropRequested]),
            Input::Agreed => R::advance(State::Open, &[Adopt]),
            Input::Failed => R::advance(State::Waiting, &[Arm]),
            Input::Refused => R::quirk(QuirkKind::ListenRefused, State::Refused, &[Refuse]),
            Input::Absent => R::advance(State::Refused, &[Refuse]),
            Input::Silent => R::advance(State::Waiting, &[DropRequested, Arm]),
            Input::Lost => R::advance(State::Idle, &[]),
            Input::Ended | Input::Timer => R::ignore(state),
        },
        State::RequestedStale => match input {
            Input::Unwanted => R::advance(State::Idle, &[DropRequested]),
            Input::Agreed => R::advance(State::Changing, &[Adopt, Request]),
            Input::Failed => R::advance(State::Waiting, &[Arm]),
            Input::Refused => R::quirk(QuirkKind::ListenRefused, State::Refused, &[Refuse]),
            Input::Absent => R::advance(State::Refused, &[Refuse]),
            Input::Silent => R::advance(State::Waiting, &[DropRequested, Arm]),
            Input::Lost => R::advance(State::Idle, &[]),
            Input::Wanted | Input::Ended | Input::Timer => R::ignore(state),
        },
        State::Open => match input {
            Input::Wanted => R::advance(State::Changing, &[Request]),
            Input::Unwanted => R::advance(State::Idle, &[DropOpen, Forget]),
            Input::Ended => R::advance(State::Waiting, &[Forget, Arm]),
            Input::Lost => R::advance(State::Idle, &[Forget]),
            Input::Agreed | Input::Failed | Input::Refused | Input::Absent | Input::Silent | Input::Timer => {
                R::ignore(state)
            }
        },
        State::Changing => match input {
            Input::Wanted => R::advance(State::ChangingStale, &[]),
            Input::Unwanted => R::advance(State::Idle, &[DropRequested, DropOpen, Forget]),
            Input::Agreed => R::advance(State::Open, &[DropOpen, Adopt]),
            Input::Ended => R::advance(State::Requested, &[Await]),
            Input::Failed => R::advance(State::Waiting, &[DropOpen, Forget, Arm]),
            Input::Refused => R::quirk(QuirkKind::ListenRefused, State::Refused, &[DropOpen, Forget, Refuse]),
            Input::Absent => R::advance(State::Refused, &[DropOpen, Forget, Refuse]),
            Input::Silent => R::advance(State::Waiting, &[DropRequested, DropOpen, Forget, Arm]),
            Input::Lost => R::advance(State::Idle, &[Forget]),
            Input::Timer => R::ignore(state),
        },
        State::ChangingStale => match input {
            Input::Unwanted => R::advance(State::Idle, &[DropRequested, DropOpen, Forget]),
            Input::Agreed => R::advance(State::Changing, &[DropOpen, Adopt, Request]),
            Input::Ended => R::advance(State::RequestedStale, &[Await]),
            Input::Failed => R::advance(State::Waiting, &[DropOpen, Forget, Arm]),
            Input::Refused => R::quirk(QuirkKind::ListenRefused, State::Refused, &[DropOpen, Forget, Refuse]),
            Input::Absent => R::advance(State::Refused, &[DropOpen, Forget, Refuse]),
            Input::Silent => R::advance(State::Waiting, &[DropRequested, DropOpen, Forget, Arm]),
            Input::Lost => R::advance(State::Idle, &[Forget]),
            Input::Wanted | Input::Timer => R::ignore(state),
        },
        State::Waiting => match input {
            Input::Timer => R::advance(State::Requested, &[Request]),
            Input::Unwanted | Input::Lost => R::advance(State::Idle, &[Disarm]),
            Input::Wanted
            | Input::Agreed
            | Input::Ended
            | Input::Failed
            | Input::Refused
            | Input::Absent
            | Input::Silent => R::ignore(state),
        },
        State::Refused => match input {
            Input::Lost => R::advance(State::Idle, &[]),
            Input::Wanted
            | Input::Unwanted
            | Input::Agreed
            | Input::Ended
            | Input::Failed
            | Input::Refused
            | Input::Absent
            | Input::Silent
            | Input::Timer => R::ignore(state),
        },
    }
}

recorded!("listen_stream");

alphabet! {
    /// Whether a modern server is asked to announce changes ([`Options::listen`]).
    ///
    /// [`Options::listen`]: crate::Options::listen
    Listening {
        /// It is.
        On,
        /// It is not.
        Off,
    }
}

alphabet! {
    /// What a listen stream would announce.
    Content {
        /// Changes of lists or of resources.
        Some,
        /// Nothing.
        Nothing,
    }
}

/// The input when the set of subscriptions changed. In the legacy era, there are no streams.
pub(crate) const fn wanted(era: Era, listening: Listening, content: Content) -> Input {
    match era {
        Era::Legacy => Input::Unwanted,
        Era::Modern => match listening {
            Listening::Off => Input::Unwanted,
            Listening::On => match content {
                Content::Some => Input::Wanted,
                Content::Nothing => Input::Unwanted,
            },
        },
    }
}

alphabet! {
    /// The stream that ended.
    Stream {
        /// The one that was requested last.
        Requested,
        /// The acknowledged one.
        Open,
    }
}

alphabet! {
    /// How a stream ended.
    End {
        /// Its request was answered with an error.
        Error,
        /// Its request was answered with a result, the server cancelled it, or its exchange ended.
        Other,
    }
}

alphabet! {
    /// Whether the server sent its capabilities.
    Capabilities {
        /// It did.
        Sent,
        /// It did not.
        Missing,
    }
}

/// The input when a stream ended.
pub(crate) const fn ended(stream: Stream, end: End, capabilities: Capabilities) -> Input {
    match stream {
        Stream::Open => Input::Ended,
        Stream::Requested => match end {
            End::Other => Input::Failed,
            End::Error => match capabilities {
                Capabilities::Sent => Input::Refused,
                Capabilities::Missing => Input::Absent,
            },
        },
    }
}

alphabet! {
    /// Whether a stream waits for its acknowledgement.
    Waiting {
        /// Its request was sent.
        Sent,
        /// None was requested, or its request was not sent yet.
        None,
    }
}

alphabet! {
    /// The stream that an acknowledgement names.
    Named {
        /// None: it is for the one that waits.
        None,
        /// The one that was requested last.
        Requested,
        /// Another one.
        Other,
    }
}

alphabet! {
    /// What follows from an acknowledgement.
    Acknowledgement {
        /// The requested stream is acknowledged.
        Agreed,
        /// Nothing.
        Ignored,
    }
}

/// What follows from an acknowledgement.
pub(crate) const fn acknowledged(waiting: Waiting, named: Named) -> Acknowledgement {
    match waiting {
        Waiting::None => Acknowledgement::Ignored,
        Waiting::Sent => match named {
            Named::None | Named::Requested => Acknowledgement::Agreed,
            Named::Other => Acknowledgement::Ignored,
        },
    }
}

alphabet! {
    /// The subscription that a notification names (specification 2026-07-28, "Subscriptions").
    Subscription {
        /// None.
        None,
        /// The requested or the acknowledged stream.
        Own,
        /// Another one.
        Foreign,
    }
}

alphabet! {
    /// What follows from a notification of a change.
    Admission {
        /// It is acted on.
        Admit,
        /// It changes nothing.
        Ignore,
    }
}

/// Whether a notification of a change is acted on. In the legacy era, there are no streams, and the name means nothing.
pub(crate) const fn admission(era: Era, subscription: Subscription) -> Admission {
    match era {
        Era::Legacy => Admission::Admit,
        Era::Modern => match subscription {
            Subscription::None | Subscription::Own => Admission::Admit,
            Subscription::Foreign => Admission::Ignore,
        },
    }
}

alphabet! {
    /// Whether the acknowledged stream announces changes of a list.
    Announced {
        /// It does.
        Yes,
        /// It does not, or there is none.
        No,
    }
}

alphabet! {
    /// Whether the server announces changes of a list.
    Watched {
        /// It does.
        Yes,
        /// It does not, as far as it says.
        No,
    }
}

/// Whether the server announces changes of a list. `declared`: its capability `listChanged`.
pub(crate) const fn watched(era: Era, declared: Declaration, announced: Announced) -> Watched {
    match era {
        Era::Legacy => match declared {
            Declaration::Declared => Watched::Yes,
            Declaration::Undeclared | Declaration::Unknown => Watched::No,
        },
        Era::Modern => match announced {
            Announced::Yes => Watched::Yes,
            Announced::No => Watched::No,
        },
    }
}

/// [`wanted`], recorded with the feature `rows`.
pub(crate) fn take_wanted(era: Era, listening: Listening, content: Content) -> Input {
    #[cfg(feature = "rows")]
    super::rows::taken("listen_stream::wanted", &[&era, &listening, &content]);
    wanted(era, listening, content)
}

/// [`ended`], recorded with the feature `rows`.
pub(crate) fn take_ended(stream: Stream, end: End, capabilities: Capabilities) -> Input {
    #[cfg(feature = "rows")]
    super::rows::taken("listen_stream::ended", &[&stream, &end, &capabilities]);
    ended(stream, end, capabilities)
}

/// [`acknowledged`], recorded with the feature `rows`.
pub(crate) fn take_acknowledged(waiting: Waiting, named: Named) -> Acknowledgement {
    #[cfg(feature = "rows")]
    super::rows::taken("listen_stream::acknowledged", &[&waiting, &named]);
    acknowledged(waiting, named)
}

/// [`admission`], recorded with the feature `rows`.
pub(crate) fn take_admission(era: Era, subscription: Subscription) -> Admission {
    #[cfg(feature = "rows")]
    super::rows::taken("listen_stream::admission", &[&era, &subscription]);
    admission(era, subscription)
}

/// [`watched`], recorded with the feature `rows`.
pub(crate) fn take_watched(era: Era, declared: Declaration, announced: Announced) -> Watched {
    #[cfg(feature = "rows")]
    super::rows::taken("listen_stream::watched", &[&era, &declared, &announced]);
    watched(era, declared, announced)
}
