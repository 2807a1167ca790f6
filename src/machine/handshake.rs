#![doc = "How a client finds out the server's era and version (specification 2026-07-28, \"stdio\", Backward Compatibility; 2025-11-25, \"Lifecycle\")."]
#![doc = ""]
#![doc = include_str!("handshake.md")]

use super::{QuirkKind, Row, alphabet, recorded};

alphabet! {
    /// The state of the handshake.
    State {
        /// It did not start.
        Idle,
        /// `server/discover` is in flight; `initialize` may follow.
        Discovering,
        /// A second `server/discover`, with a version that the server named, is in flight.
        RediscoveringNamed,
        /// `server/discover` is in flight, and only the modern era is allowed.
        Pinned,
        /// As `Pinned`, for a second `server/discover` with a version that the server named.
        Repinned,
        /// `server/discover` is in flight, after `initialize` was refused.
        DiscoveringLast,
        /// `initialize` is in flight, and only the legacy era is allowed.
        Initializing,
        /// `initialize` is in flight, and was sent first; `server/discover` may follow.
        InitializingFirst,
        /// `initialize` is in flight on a new transport, after the one before closed on `server/discover`.
        InitializingAgain,
        /// `initialize` is in flight, after a response to `server/discover`.
        InitializingAfterDiscover,
        /// `initialize` is in flight, after `server/discover` timed out.
        InitializingBlind,
        /// As `InitializingBlind`, and a late response to `server/discover` showed that the server is modern.
        InitializingBacked,
        /// As `InitializingBlind`, and a late response to `server/discover` was an error that only modern servers send.
        InitializingWarned,
        /// Done: the server accepted `initialize`.
        Legacy,
        /// Done: every request carries its metadata.
        Modern,
        /// A new transport is to be opened, for `initialize` without `server/discover`.
        Reopening,
        /// The handshake failed.
        Failed,
    }
}

alphabet! {
    /// What happens to the handshake.
    Input {
        /// The transport is open, and both eras are allowed.
        StartDiscover,
        /// The transport is open, and only the modern era is allowed.
        StartModern,
        /// The transport is open, both eras are allowed, and the legacy era is tried first.
        StartLegacyFirst,
        /// The transport is open, and only the legacy era is allowed.
        StartLegacy,
        /// The response to `server/discover` names a modern version that both sides support.
        ModernFound,
        /// The response to `server/discover` names only legacy versions; both sides support one of them.
        LegacyFound,
        /// `server/discover` was refused with -32022, which names a modern version that both sides support.
        VersionOffered,
        /// The response to `server/discover` names no version that both sides support.
        NothingCommon,
        /// `server/discover` was refused with another error of the modern era.
        ModernError,
        /// `server/discover` was refused with any other error, or its response is invalid.
        NotModern,
        /// `server/discover` was answered with HTTP 5xx.
        ServerFault,
        /// `server/discover` timed out.
        DiscoverTimeout,
        /// A late response to `server/discover` is a modern server's result.
        LateModern,
        /// A late response to `server/discover` is an error that only modern servers send.
        LateModernError,
        /// A late response to `server/discover` is not from a modern server.
        LateOther,
        /// `initialize` was answered with a version that both sides support.
        Accepted,
        /// `initialize` was answered with an unknown version; the nearest older version is used.
        AcceptedNearest,
        /// `initialize` was answered with an unknown version.
        VersionUnknown,
        /// `initialize` was refused because of its version, and there is an older version to offer.
        VersionRefused,
        /// `initialize` was refused because of the client's capabilities, which it declared.
        CapabilitiesRefused,
        /// `initialize` was refused by a server that names modern versions.
        RefusedByModern,
        /// `initialize` was refused for any other reason.
        Refused,
        /// The response to `initialize` is invalid.
        Malformed,
        /// The deadline of the handshake passed.
        Deadline,
        /// The transport closed.
        TransportClosed,
        /// The connection was lost.
        Lost,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Send `server/discover`.
    SendDiscover,
    /// Send `server/discover` with the version that the server named.
    SendDiscoverNamed,
    /// Send `initialize` with the newest legacy version.
    SendInitialize,
    /// Send `initialize` with the newest version that the server named.
    SendInitializeNamed,
    /// Send `initialize` with the next older version.
    SendInitializeOlder,
    /// Send `initialize` without capabilities.
    SendInitializeBare,
    /// Send `notifications/initialized`.
    SendInitialized,
    /// Start the timer of `server/discover`.
    ArmDiscover,
    /// Stop the timer of `server/discover`.
    DisarmDiscover,
    /// Keep the late response to `server/discover`, in case `initialize` is refused.
    KeepEvidence,
    /// Record that the server closed the connection on `server/discover`.
    NoteClosed,
    /// Use the server's version and capabilities in the response.
    Adopt,
    /// Use the server's version and capabilities in the late response to `server/discover`.
    AdoptEvidence,
    /// Open a new transport.
    Reopen,
    /// Fail the handshake.
    Fail(Failure),
}

/// Why a handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// The server did not respond in time.
    Timeout,
    /// The server refused the handshake.
    Rejected,
    /// The server supports only an era that the options exclude.
    EraExcluded,
    /// There is no version that both sides support.
    UnsupportedVersion,
    /// The response is invalid.
    Protocol,
    /// The transport closed.
    Closed,
}

type R = Row<State, Effect>;

/// Returns the row for a state and an input.
pub const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{
        Adopt, AdoptEvidence, ArmDiscover, DisarmDiscover, Fail, KeepEvidence, NoteClosed, Reopen, SendDiscover,
        SendDiscoverNamed, SendInitialize, SendInitializeNamed, SendInitialized,
    };
    match state {
        State::Idle => match input {
            Input::StartDiscover => R::advance(State::Discovering, &[SendDiscover, ArmDiscover]),
            Input::StartModern => R::advance(State::Pinned, &[SendDiscover]),
            Input::StartLegacyFirst => R::advance(State::InitializingFirst, &[SendInitialize]),
            Input::StartLegacy => R::advance(State::Initializing, &[SendInitialize]),
            Input::Lost
            | Input::ModernFound
            | Input::LegacyFound
            | Input::VersionOffered
            | Input::NothingCommon
            | Input::ModernError
            | Input::NotModern
            | Input::ServerFault
            | Input::DiscoverTimeout
            | Input::LateModern
            | Input::LateModernError
            | Input::LateOther
            | Input::Accepted
            | Input::AcceptedNearest
            | Input::VersionUnknown
            | Input::VersionRefused
            | Input::CapabilitiesRefused
            | Input::RefusedByModern
            | Input::Refused
            | Input::Malformed
            | Input::Deadline
            | Input::TransportClosed => R::ignore(state),
        },
        State::Discovering => match input {
            Input::ModernFound => R::advance(State::Modern, &[DisarmDiscover, Adopt]),
            Input::LegacyFound => R::advance(State::InitializingAfterDiscover, &[DisarmDiscover, SendInitializeNamed]),
            Input::VersionOffered => R::advance(State::RediscoveringNamed, &[DisarmDiscover, SendDiscoverNamed]),
            Input::NothingCommon => R::advance(State::Failed, &[Fail(Failure::UnsupportedVersion)]),
            Input::ModernError => R::advance(State::Failed, &[Fail(Failure::Rejected)]),
            Input::NotModern => R::advance(State::InitializingAfterDiscover, &[DisarmDiscover, SendInitialize]),
            Input::ServerFault => {
                R::quirk(QuirkKind::Probe5xx, State::InitializingAfterDiscover, &[DisarmDiscover, SendInitialize])
            }
            Input::DiscoverTimeout => R::quirk(QuirkKind::ProbeSilent, State::InitializingBlind, &[SendInitialize]),
            Input::Deadline => R::advance(State::Failed, &[Fail(Failure::Timeout)]),
            Input::TransportClosed => R::advance(State::Reopening, &[Reopen]),
            Input::StartDiscover
            | Input::StartModern
            | Input::StartLegacyFirst
            | Input::StartLegacy
            | Input::Lost
            | Input::LateModern
            | Input::LateModernError
            | Input::LateOther
            | Input::Accepted
            | Input::AcceptedNearest
            | Input::VersionUnknown
            | Input::VersionRefused
            | Input::CapabilitiesRefused
            | Input::RefusedByModern
            | Input::Refused
            | Input::Malformed => R::ignore(state),
        },
        State::RediscoveringNamed => match input {
            Input::ModernFound => R::advance(State::Modern, &[Adopt]),
            Input::LegacyFound => R::advance(State::InitializingAfterDiscover, &[SendInitializeNamed]),
            Input::VersionOffered | Input::NothingCommon => {
                R::advance(State::Failed, &[Fail(Failure::UnsupportedVersion)])
            }
            Input::ModernError | Input::NotModern | Input::ServerFault => {
                R::advance(State::Failed, &[Fail(Failure::Rejected)])
            }
            Input::Deadline => R::advance(State::Failed, &[Fail(Failure::Timeout)]),
            Input::TransportClosed => R::advance(State::Reopening, &[Reopen]),
            Input::StartDiscover
            | Input::StartModern
            | Input::StartLegacyFirst
            | Input::StartLegacy
            | Input::Lost
            | Input::DiscoverTimeout
            | Input::LateModern
            | Input::LateModernError
            | Input::LateOther
            | Input::Accepted
            | Input::AcceptedNearest
            | Input::VersionUnknown
            | Input::VersionRefused
            | Input::CapabilitiesRefused
            | Input::RefusedByModern
            | Input::Refused
            | Input::Malformed => R::ignore(state),
        },
        State::Pinned => pinned(state, input, R::advance(State::Repinned, &[SendDiscoverNamed]), EXCLUDED),
        State::Repinned => pinned(state, input, UNSUPPORTED, EXCLUDED),
        State::DiscoveringLast => pinned(
            state,
            input,
            R::advance(State::Repinned, &[SendDiscoverNamed]),
            R::advance(State::Initializing, &[SendInitializeNamed]),
        ),
        State::Initializing => initializing(
            state,
            input,
            Exits {
                accepted: &[Adopt, SendInitialized],
                refused: REJECTED,
                refused_by_modern: EXCLUDED,
                closed: R::advance(State::Failed, &[Fail(Failure::Closed)]),
                late_modern: R::ignore(state),
                late_modern_error: R::ignore(state),
                late_other: R::ignore(state),
            },
        ),
        State::InitializingFirst => initializing(
            state,
            input,
            Exits {
                accepted: &[Adopt, SendInitialized],
                refused: R::advance(State::DiscoveringLast, &[SendDiscover]),
                refused_by_modern: R::advance(State::DiscoveringLast, &[SendDiscover]),
                closed: R::advance(State::Failed, &[Fail(Failure::Closed)]),
                late_modern: R::ignore(state),
                late_modern_error: R::ignore(state),
                late_other: R::ignore(state),
            },
        ),
        State::InitializingAgain => initializing(
            state,
            input,
            Exits {
                accepted: &[NoteClosed, Adopt, SendInitialized],
                refused: REJECTED,
                refused_by_modern: R::advance(State::DiscoveringLast, &[SendDiscover]),
                closed: R::advance(State::Failed, &[Fail(Failure::Closed)]),
                late_modern: R::ignore(state),
                late_modern_error: R::ignore(state),
                late_other: R::ignore(state),
            },
        ),
        State::InitializingAfterDiscover => initializing(
            state,
            input,
            Exits {
                accepted: &[Adopt, SendInitialized],
                refused: REJECTED,
                refused_by_modern: R::advance(State::DiscoveringLast, &[SendDiscover]),
                closed: R::advance(State::Reopening, &[Reopen]),
                late_modern: R::ignore(state),
                late_modern_error: R::ignore(state),
                late_other: R::ignore(state),
            },
        ),
        State::InitializingBlind => initializing(
            state,
            input,
            Exits {
                accepted: &[Adopt, SendInitialized],
                refused: REJECTED,
                refused_by_modern: R::advance(State::DiscoveringLast, &[SendDiscover]),
                closed: R::advance(State::Reopening, &[Reopen]),
                late_modern: R::quirk(QuirkKind::ProbeLate, State::InitializingBacked, &[KeepEvidence]),
                late_modern_error: R::quirk(QuirkKind::ProbeLate, State::InitializingWarned, &[]),
                late_other: R::quirk(QuirkKind::ProbeLate, State::InitializingAfterDiscover, &[]),
            },
        ),
        State::InitializingWarned => initializing(
            state,
            input,
            Exits {
                accepted: &[Adopt, SendInitialized],
                refused: R::advance(State::DiscoveringLast, &[SendDiscover]),
                refused_by_modern: R::advance(State::DiscoveringLast, &[SendDiscover]),
                closed: R::advance(State::Reopening, &[Reopen]),
                late_modern: R::ignore(state),
                late_modern_error: R::ignore(state),
                late_other: R::ignore(state),
            },
        ),
        State::InitializingBacked => match input {
            Input::Accepted => R::advance(State::Legacy, &[Adopt, SendInitialized]),
            Input::AcceptedNearest => R::quirk(QuirkKind::VersionUnknown, State::Legacy, &[Adopt, SendInitialized]),
            Input::VersionUnknown
            | Input::VersionRefused
            | Input::CapabilitiesRefused
            | Input::RefusedByModern
            | Input::Refused
            | Input::Malformed
            | Input::Deadline => R::advance(State::Modern, &[AdoptEvidence]),
            Input::TransportClosed => R::advance(State::Reopening, &[Reopen]),
            Input::StartDiscover
            | Input::StartModern
            | Input::StartLegacyFirst
            | Input::StartLegacy
            | Input::Lost
            | Input::ModernFound
            | Input::LegacyFound
            | Input::VersionOffered
            | Input::NothingCommon
            | Input::ModernError
            | Input::NotModern
            | Input::ServerFault
            | Input::DiscoverTimeout
            | Input::LateModern
            | Input::LateModernError
            | Input::LateOther => R::ignore(state),
        },
        State::Reopening => match input {
            Input::StartDiscover => R::advance(State::InitializingAgain, &[SendInitialize]),
            Input::Lost => R::advance(State::Idle, &[]),
            Input::StartLegacyFirst
            | Input::StartModern
            | Input::StartLegacy
            | Input::ModernFound
            | Input::LegacyFound
            | Input::VersionOffered
            | Input::NothingCommon
            | Input::ModernError
            | Input::NotModern
            | Input::ServerFault
            | Input::DiscoverTimeout
            | Input::LateModern
            | Input::LateModernError
            | Input::LateOther
            | Input::Accepted
            | Input::AcceptedNearest
            | Input::VersionUnknown
            | Input::VersionRefused
            | Input::CapabilitiesRefused
            | Input::RefusedByModern
            | Input::Refused
            | Input::Malformed
            | Input::Deadline
            | Input::TransportClosed => R::ignore(state),
        },
        State::Legacy | State::Modern | State::Failed => match input {
            Input::StartDiscover
            | Input::StartModern
            | Input::StartLegacyFirst
            | Input::StartLegacy
            | Input::Lost
            | Input::ModernFound
            | Input::LegacyFound
            | Input::VersionOffered
            | Input::NothingCommon
            | Input::ModernError
            | Input::NotModern
            | Input::ServerFault
            | Input::DiscoverTimeout
            | Input::LateModern
            | Input::LateModernError
            | Input::LateOther
            | Input::Accepted
            | Input::AcceptedNearest
            | Input::VersionUnknown
            | Input::VersionRefused
            | Input::CapabilitiesRefused
            | Input::RefusedByModern
            | Input::Refused
            | Input::Malformed
            | Input::Deadline
            | Input::TransportClosed => R::ignore(state),
        },
    }
}

const REJECTED: R = R::advance(State::Failed, &[Effect::Fail(Failure::Rejected)]);
const EXCLUDED: R = R::advance(State::Failed, &[Effect::Fail(Failure::EraExcluded)]);
const UNSUPPORTED: R = R::advance(State::Failed, &[Effect::Fail(Failure::UnsupportedVersion)]);

/// The rows of states that `initialize` does not follow; they differ in the row for a named version.
const fn pinned(state: State, input: Input, offered: R, legacy: R) -> R {
    match input {
        Input::ModernFound => R::advance(State::Modern, &[Effect::Adopt]),
        Input::VersionOffered => offered,
        Input::LegacyFound => legacy,
        Input::NothingCommon => UNSUPPORTED,
        Input::ModernError | Input::NotModern | Input::ServerFault => REJECTED,
        Input::Deadline => R::advance(State::Failed, &[Effect::Fail(Failure::Timeout)]),
        Input::TransportClosed => R::advance(State::Failed, &[Effect::Fail(Failure::Closed)]),
        Input::StartDiscover
        | Input::StartModern
        | Input::StartLegacyFirst
        | Input::StartLegacy
        | Input::Lost
        | Input::DiscoverTimeout
        | Input::LateModern
        | Input::LateModernError
        | Input::LateOther
        | Input::Accepted
        | Input::AcceptedNearest
        | Input::VersionUnknown
        | Input::VersionRefused
        | Input::CapabilitiesRefused
        | Input::RefusedByModern
        | Input::Refused
        | Input::Malformed => R::ignore(state),
    }
}

/// The rows in which states with `initialize` in flight differ.
#[derive(Clone, Copy)]
struct Exits {
    accepted: &'static [Effect],
    refused: R,
    refused_by_modern: R,
    closed: R,
    late_modern: R,
    late_modern_error: R,
    late_other: R,
}

const fn initializing(state: State, input: Input, exits: Exits) -> R {
    match input {
        Input::Accepted => R::advance(State::Legacy, exits.accepted),
        Input::AcceptedNearest => R::quirk(QuirkKind::VersionUnknown, State::Legacy, exits.accepted),
        Input::VersionUnknown => R::advance(State::Failed, &[Effect::Fail(Failure::UnsupportedVersion)]),
        Input::VersionRefused => R::quirk(QuirkKind::VersionRefused, state, &[Effect::SendInitializeOlder]),
        Input::CapabilitiesRefused => R::quirk(QuirkKind::CapabilitiesRefused, state, &[Effect::SendInitializeBare]),
        Input::Malformed => R::advance(State::Failed, &[Effect::Fail(Failure::Protocol)]),
        Input::Deadline => R::advance(State::Failed, &[Effect::Fail(Failure::Timeout)]),
        Input::Refused => exits.refused,
        Input::RefusedByModern => exits.refused_by_modern,
        Input::TransportClosed => exits.closed,
        Input::LateModern => exits.late_modern,
        Input::LateModernError => exits.late_modern_error,
        Input::LateOther => exits.late_other,
        Input::StartDiscover
        | Input::StartModern
        | Input::StartLegacyFirst
        | Input::StartLegacy
        | Input::Lost
        | Input::ModernFound
        | Input::LegacyFound
        | Input::VersionOffered
        | Input::NothingCommon
        | Input::ModernError
        | Input::NotModern
        | Input::ServerFault
        | Input::DiscoverTimeout => R::ignore(state),
    }
}

recorded!("handshake");
