#![doc = "What follows when a connection is lost, and what the end of a transport means."]
#![doc = ""]
#![doc = include_str!("loss.md")]

use super::resend::Used;
use super::{QuirkKind, alphabet, link};

alphabet! {
    /// What is left of the connection's transport.
    Transport {
        /// Nothing: it closed, or did not open.
        Closed,
        /// It is open, and has to be shut down.
        Open,
        /// It is open, has to be shut down, and no other will be better.
        Hopeless,
    }
}

alphabet! {
    /// Why the connection is lost.
    Cause {
        /// The command cannot be started.
        Spawn,
        /// The server refused the client's authorization.
        Authorization,
        /// Any other cause.
        Other,
    }
}

alphabet! {
    /// Whether another connection may be opened.
    Tries {
        /// The options say that none is.
        Never,
        /// The budget of tries in a row is not used up.
        Left,
        /// The budget of tries in a row is used up.
        UsedUp,
    }
}

alphabet! {
    /// Whether the client was ready before, on this connection or an earlier one.
    Before {
        /// It was not.
        NeverReady,
        /// It was.
        Ready,
    }
}

/// The input of the [`link`] table that a loss is.
pub const fn decide(transport: Transport, cause: Cause, tries: Tries, before: Before) -> link::Input {
    match transport {
        Transport::Closed => match tries {
            Tries::Never => link::Input::LostForGood,
            Tries::UsedUp => link::Input::Exhausted,
            Tries::Left => match cause {
                Cause::Spawn => link::Input::Exhausted,
                Cause::Authorization | Cause::Other => link::Input::Lost,
            },
        },
        Transport::Open => match tries {
            Tries::Never => link::Input::Failed,
            Tries::Left | Tries::UsedUp => match cause {
                Cause::Authorization => link::Input::Hopeless,
                Cause::Spawn | Cause::Other => match before {
                    Before::NeverReady => link::Input::Failed,
                    Before::Ready => match tries {
                        Tries::Never | Tries::UsedUp => link::Input::Hopeless,
                        Tries::Left => link::Input::Unresponsive,
                    },
                },
            },
        },
        Transport::Hopeless => link::Input::Failed,
    }
}

alphabet! {
    /// In which way the transport ended.
    End {
        /// It did not open.
        OpenFailed,
        /// It closed.
        Closed,
    }
}

alphabet! {
    /// What carries the messages.
    Wire {
        /// One stream each way.
        Pipe,
        /// An exchange for each message. Nothing is opened, so a server that cannot be reached is found out later.
        Http,
    }
}

alphabet! {
    /// Whether the handshake is done.
    Handshake {
        /// It is under way, or did not begin.
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
        /// The handshake decides: a server may close on a request that it does not know.
        Handshake,
        /// The shutdown is done.
        Shutdown,
        /// Nothing: there was no such transport.
        Nothing,
    }
}

/// What the end of a transport means, where the connection stands here.
pub const fn ended(link: link::State, end: End, wire: Wire, handshake: Handshake) -> Meaning {
    match link {
        link::State::Opening => Meaning::Loss,
        link::State::Connecting => match wire {
            Wire::Http => Meaning::Loss,
            Wire::Pipe => match end {
                End::OpenFailed => Meaning::Nothing,
                End::Closed => match handshake {
                    Handshake::Open => Meaning::Handshake,
                    Handshake::Done => Meaning::Loss,
                },
            },
        },
        link::State::Ready => match wire {
            Wire::Http => Meaning::Loss,
            Wire::Pipe => match end {
                End::OpenFailed => Meaning::Nothing,
                End::Closed => Meaning::Loss,
            },
        },
        link::State::Draining | link::State::Retiring | link::State::Closing => Meaning::Shutdown,
        link::State::Idle | link::State::Waiting | link::State::Parked | link::State::Closed => Meaning::Nothing,
    }
}

/// What follows when the server forgot the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expiry {
    /// Another session is opened.
    Recover,
    /// The connection is lost: the server forgets its sessions as soon as they are opened.
    GiveUp(QuirkKind),
}

/// What follows when the server forgot the session, by how many sessions expired before it since a call was answered.
pub const fn expired(before: Used) -> Expiry {
    match before {
        Used::Never | Used::Once | Used::Twice => Expiry::Recover,
        Used::Thrice => Expiry::GiveUp(QuirkKind::SessionLoop),
    }
}

/// [`expired`], recorded where rows are counted.
pub(crate) fn take_expired(before: Used) -> Expiry {
    #[cfg(feature = "rows")]
    super::rows::taken("loss::expired", &[&before]);
    expired(before)
}

/// [`decide`], recorded where rows are counted.
pub(crate) fn take(transport: Transport, cause: Cause, tries: Tries, before: Before) -> link::Input {
    #[cfg(feature = "rows")]
    super::rows::taken("loss", &[&transport, &cause, &tries, &before]);
    decide(transport, cause, tries, before)
}

/// [`ended`], recorded where rows are counted.
pub(crate) fn take_ended(link: link::State, end: End, wire: Wire, handshake: Handshake) -> Meaning {
    #[cfg(feature = "rows")]
    super::rows::taken("loss::ended", &[&link, &end, &wire, &handshake]);
    ended(link, end, wire, handshake)
}
