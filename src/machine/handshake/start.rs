//! How a handshake starts, and what follows when an exchange of it breaks.

use super::super::alphabet;
use super::super::loss::Wire;
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
#[doc = ""]
#[doc = include_str!("../handshake_start.md")]
pub const fn start(allowed: Allowed, known: Known, wire: Wire) -> Input {
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
#[doc = ""]
#[doc = include_str!("../handshake_opening.md")]
pub const fn opening(state: State) -> State {
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
    /// The request whose exchange broke.
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
#[doc = ""]
#[doc = include_str!("../handshake_broken.md")]
pub const fn broken(request: Request, resend: Resend) -> Broken {
    match request {
        Request::Initialize => Broken::Lost,
        Request::Discover => match resend {
            Resend::Again => Broken::Again,
            Resend::End => Broken::Lost,
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
