//! How a handshake starts, and what follows when an exchange of it breaks or is refused.

use super::super::Wire;
use super::super::alphabet;
use super::super::offer;
use super::super::resend::Resend;
use super::{Input, State};

alphabet! {
    /// Which eras the embedder allows ([`Eras`](crate::Eras)).
    Allowed {
        /// Both; the modern one is tried first.
        Both,
        /// Both; the legacy one is tried first.
        BothLegacyFirst,
        /// The legacy one.
        Legacy,
        /// The modern one.
        Modern,
    }
}

alphabet! {
    /// What is known of the server's era from earlier connections.
    Known {
        /// It is legacy.
        Legacy,
        /// It is modern.
        Modern,
        /// Nothing.
        Unknown,
    }
}

/// How a handshake starts.
pub(crate) const fn start(allowed: Allowed, known: Known, wire: Wire) -> Input {
    match allowed {
        Allowed::Both => match known {
            Known::Legacy => Input::StartLegacyFirst,
            Known::Modern | Known::Unknown => match wire {
                Wire::Pipe => Input::StartDiscover,
                Wire::Http => Input::StartDiscoverHttp,
            },
        },
        Allowed::BothLegacyFirst => Input::StartLegacyFirst,
        Allowed::Legacy => Input::StartLegacy,
        Allowed::Modern => Input::StartModern,
    }
}

/// The state when a transport is to be opened: a transport that the handshake itself requests continues it.
pub(crate) const fn opening(state: State) -> State {
    match state {
        State::Reopening => State::Reopening,
        State::Idle
        | State::Discovering
        | State::RediscoveringNamed
        | State::Pinned
        | State::Repinned
        | State::DiscoveringLast
        | State::Initializing
        | State::InitializingFirst
        | State::InitializingAgain
        | State::InitializingAfterDiscover
        | State::InitializingAfterFault
        | State::InitializingBlind
        | State::InitializingWarned
        | State::InitializingBacked
        | State::Legacy
        | State::Modern
        | State::Failed => State::Idle,
    }
}

alphabet! {
    /// The request whose exchange broke, or which was refused with an HTTP status.
    Request {
        /// `server/discover`, which only reads.
        Discover,
        /// `initialize`.
        Initialize,
    }
}

alphabet! {
    /// What follows when the exchange of a request of the handshake broke.
    Broken {
        /// The request is sent again.
        Again,
        /// The connection is lost.
        Lost,
    }
}

/// What follows when the exchange of a request of the handshake broke, by what the [`resend`](crate::machine::resend) table
/// decides.
pub(crate) const fn broken(request: Request, resend: Resend) -> Broken {
    match request {
        Request::Initialize => Broken::Lost,
        Request::Discover => match resend {
            Resend::Again => Broken::Again,
            Resend::End => Broken::Lost,
        },
    }
}

alphabet! {
    /// The version in the response to `initialize`.
    Version {
        /// A legacy one that the client supports.
        Legacy,
        /// A modern one.
        Modern,
        /// An unknown one, and there is an older legacy one.
        Later,
        /// Another unknown one.
        Unknown,
    }
}

alphabet! {
    /// Whether the nearest older version stands for an unknown one ([`Tolerance::nearest_version`]).
    ///
    /// [`Tolerance::nearest_version`]: crate::Tolerance::nearest_version
    Nearest {
        /// It does.
        Taken,
        /// It does not.
        Refused,
    }
}

/// The input when `initialize` was answered with a version.
pub(crate) const fn answered(version: Version, nearest: Nearest) -> Input {
    match version {
        Version::Legacy => Input::Accepted,
        Version::Modern => Input::RefusedByModern,
        Version::Later => match nearest {
            Nearest::Taken => Input::AcceptedNearest,
            Nearest::Refused => Input::VersionUnknown,
        },
        Version::Unknown => Input::VersionUnknown,
    }
}

alphabet! {
    /// The HTTP status with which a request of the handshake was refused.
    Status {
        /// 2xx: the body is not a response.
        Good,
        /// 400, 404 or 405: the server does not understand the request.
        NotUnderstood,
        /// 5xx.
        Server,
        /// Any other.
        Other,
    }
}

alphabet! {
    /// Whether there is an older version to offer.
    Older {
        /// There is one.
        Some,
        /// There is none.
        None,
    }
}

/// What a refusal with an HTTP status is an input of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Of this table.
    Handshake(Input),
    /// Of the [`offer`] table.
    Offer(offer::Input),
}

/// What a refusal with an HTTP status means.
pub(crate) const fn refused(request: Request, status: Status, older: Older) -> Refused {
    match request {
        Request::Discover => match status {
            Status::Server => Refused::Handshake(Input::ServerFault),
            Status::Good | Status::NotUnderstood | Status::Other => Refused::Handshake(Input::NotModern),
        },
        Request::Initialize => match status {
            Status::Good => Refused::Handshake(Input::Malformed),
            Status::NotUnderstood => match older {
                Older::Some => Refused::Offer(offer::Input::Version),
                Older::None => Refused::Offer(offer::Input::Other),
            },
            Status::Server | Status::Other => Refused::Offer(offer::Input::Other),
        },
    }
}

/// [`start`], recorded with the feature `rows`.
pub(crate) fn take_start(allowed: Allowed, known: Known, wire: Wire) -> Input {
    #[cfg(feature = "rows")]
    crate::machine::rows::taken("handshake::start", &[&allowed, &known, &wire]);
    start(allowed, known, wire)
}

/// [`opening`], recorded with the feature `rows`.
pub(crate) fn take_opening(state: State) -> State {
    #[cfg(feature = "rows")]
    crate::machine::rows::taken("handshake::opening", &[&state]);
    opening(state)
}

/// [`broken`], recorded with the feature `rows`.
pub(crate) fn take_broken(request: Request, resend: Resend) -> Broken {
    #[cfg(feature = "rows")]
    crate::machine::rows::taken("handshake::broken", &[&request, &resend]);
    broken(request, resend)
}

/// [`answered`], recorded with the feature `rows`.
pub(crate) fn take_answered(version: Version, nearest: Nearest) -> Input {
    #[cfg(feature = "rows")]
    crate::machine::rows::taken("handshake::answered", &[&version, &nearest]);
    answered(version, nearest)
}

/// [`refused`], recorded with the feature `rows`.
pub(crate) fn take_refused(request: Request, status: Status, older: Older) -> Refused {
    #[cfg(feature = "rows")]
    crate::machine::rows::taken("handshake::refused", &[&request, &status, &older]);
    refused(request, status, older)
}
