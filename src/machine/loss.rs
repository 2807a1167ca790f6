//! What follows when a connection is lost, and what the end of a transport means.

use super::resend::Used;
use super::{QuirkKind, alphabet, link};

alphabet! {
    /// The state of the connection's transport.
    Transport {
        /// It closed, or did not open.
        Closed,
        /// It is open, and is to be shut down.
        Open,
        /// It is open, is to be shut down, and the client obtains the authorization that the next one requires.
        Authorizing,
        /// It is open, is to be shut down, and a new one would fail, too.
        Hopeless,
    }
}

alphabet! {
    /// Why the connection is lost.
    Cause {
        /// The command could not be started.
        Spawn,
        /// The server refused authorization.
        Authorization,
        /// Both sides named protocol versions, and have none in common.
        Version,
        /// Any other cause.
        Other,
    }
}

alphabet! {
    /// Whether another connection may be opened.
    Tries {
        /// Reconnects are turned off.
        Never,
        /// Attempts in a row are left in the budget.
        Left,
        /// The budget of attempts in a row is used up.
        UsedUp,
    }
}

/// The input of the [`link`] table for a lost connection.
pub(crate) const fn decide(transport: Transport, cause: Cause, tries: Tries) -> link::Input {
    match transport {
        Transport::Closed => match tries {
            Tries::Never => link::Input::LostForGood,
            Tries::UsedUp => link::Input::Exhausted,
            Tries::Left => match cause {
                Cause::Spawn | Cause::Version => link::Input::Exhausted,
                Cause::Authorization | Cause::Other => link::Input::Lost,
            },
        },
        Transport::Open => match tries {
            Tries::Never => link::Input::Failed,
            Tries::UsedUp => match cause {
                Cause::Authorization => link::Input::Unauthorized,
                Cause::Spawn | Cause::Version | Cause::Other => link::Input::Hopeless,
            },
            Tries::Left => match cause {
                Cause::Authorization => link::Input::Unauthorized,
                Cause::Spawn | Cause::Version => link::Input::Hopeless,
                Cause::Other => link::Input::Unresponsive,
            },
        },
        // No attempt failed.
        Transport::Authorizing => link::Input::Unauthorized,
        Transport::Hopeless => link::Input::Failed,
    }
}

alphabet! {
    /// How the transport ended.
    End {
        /// It did not open.
        OpenFailed,
        /// It closed.
        Closed,
        /// It is open, but cannot be used any more.
        Violated,
        /// The session moved to another process without it.
        Moved,
    }
}

/// How messages are carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
#[allow(missing_docs, reason = "only the engine sees it")]
pub enum Wire {
    /// One stream in each direction.
    Pipe,
    /// An HTTP exchange for each message (specification 2026-07-28, "Streamable HTTP"). Nothing is opened, so the first
    /// request shows whether the server can be reached.
    Http,
}

#[cfg(test)]
impl Wire {
    pub(crate) const ALL: &'static [Self] = &[Self::Pipe, Self::Http];
}

alphabet! {
    /// Whether the handshake is done.
    Handshake {
        /// It is in progress, or did not start.
        Open,
        /// It is done.
        Done,
    }
}

alphabet! {
    /// What the end of a transport means.
    Meaning {
        /// The connection is lost.
        Loss,
        /// The handshake decides: a server may close the transport on an unknown request.
        Handshake,
        /// The shutdown is done.
        Shutdown,
        /// Nothing: there was no such transport.
        Nothing,
    }
}

/// What the end of a transport means in a state of the connection.
pub(crate) const fn ended(link: link::State, end: End, wire: Wire, handshake: Handshake) -> Meaning {
    match link {
        link::State::OpeningUnseen => match end {
            End::OpenFailed | End::Closed | End::Violated => Meaning::Loss,
            // The process that restored the session opens it.
            End::Moved => Meaning::Nothing,
        },
        link::State::Opening => Meaning::Loss,
        link::State::ConnectingUnseen | link::State::Connecting => match end {
            End::Violated | End::Moved => Meaning::Loss,
            End::OpenFailed => match wire {
                Wire::Http => Meaning::Loss,
                Wire::Pipe => Meaning::Nothing,
            },
            End::Closed => match wire {
                Wire::Http => Meaning::Loss,
                Wire::Pipe => match handshake {
                    Handshake::Open => Meaning::Handshake,
                    Handshake::Done => Meaning::Loss,
                },
            },
        },
        link::State::Ready => match end {
            End::Violated | End::Closed | End::Moved => Meaning::Loss,
            End::OpenFailed => match wire {
                Wire::Http => Meaning::Loss,
                Wire::Pipe => Meaning::Nothing,
            },
        },
        link::State::Draining
        | link::State::Retiring
        | link::State::RetiringUnauthorized
        | link::State::Releasing
        | link::State::Renewing
        | link::State::Closing => match end {
            End::Violated => Meaning::Nothing,
            End::OpenFailed | End::Closed | End::Moved => Meaning::Shutdown,
        },
        link::State::Idle
        | link::State::Waiting
        | link::State::Parked
        | link::State::ParkedUnauthorized
        | link::State::Resting
        | link::State::Closed => Meaning::Nothing,
    }
}

/// What follows when the server forgot the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// A new session is opened.
    Recover,
    /// The connection is lost: sessions expire as soon as they are opened.
    GiveUp(QuirkKind),
}

/// What follows when the server forgot the session, by the number of sessions that expired before it without an
/// answered call.
pub(crate) const fn expired(before: Used) -> Expiry {
    match before {
        Used::Never | Used::Once | Used::Twice => Expiry::Recover,
        Used::Thrice => Expiry::GiveUp(QuirkKind::SessionLoop),
    }
}

/// [`expired`], recorded with the feature `rows`.
pub(crate) fn take_expired(before: Used) -> Expiry {
    #[cfg(feature = "rows")]
    super::rows::taken("loss::expired", &[&before]);
    expired(before)
}

/// [`decide`], recorded with the feature `rows`.
pub(crate) fn take(transport: Transport, cause: Cause, tries: Tries) -> link::Input {
    #[cfg(feature = "rows")]
    super::rows::taken("loss", &[&transport, &cause, &tries]);
    decide(transport, cause, tries)
}

/// [`ended`], recorded with the feature `rows`.
pub(crate) fn take_ended(link: link::State, end: End, wire: Wire, handshake: Handshake) -> Meaning {
    #[cfg(feature = "rows")]
    super::rows::taken("loss::ended", &[&link, &end, &wire, &handshake]);
    ended(link, end, wire, handshake)
}
