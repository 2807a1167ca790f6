#![doc = "How a session finds out what it talks to, in both eras (specification 2026-07-28, \"stdio\", Backward Compatibility; 2025-11-25, \"Lifecycle\")."]
#![doc = ""]
#![doc = include_str!("handshake.md")]

use super::{QuirkKind, Row, alphabet, recorded};

alphabet! {
    /// Where the handshake stands.
    State {
        /// Not begun.
        Idle,
        /// `server/discover` was sent; `initialize` may follow.
        Discovering,
        /// `server/discover` was sent again, with a version that the server named.
        RediscoveringNamed,
        /// `server/discover` was sent, and only the modern era will do.
        Pinned,
        /// As pinned, again with a version that the server named.
        Repinned,
        /// `server/discover` was sent after a refused `initialize`.
        DiscoveringLast,
        /// `initialize` was sent, and only the legacy era will do.
        Initializing,
        /// `initialize` was sent first; `server/discover` may follow.
        InitializingFirst,
        /// `initialize` was sent on a new transport, since the one before closed on a probe.
        InitializingAgain,
        /// `initialize` was sent after an answer to the probe.
        InitializingAfterDiscover,
        /// `initialize` was sent after a probe that was not answered.
        InitializingBlind,
        /// As blind, and then the probe's answer came: the server is modern, and said what it is.
        InitializingBacked,
        /// As blind, and then the probe was refused as only modern servers refuse.
        InitializingWarned,
        /// Done: a session opened by `initialize`.
        Legacy,
        /// Done: metadata on every request.
        Modern,
        /// The transport is to be opened again, for `initialize` without a probe.
        Reopening,
        /// Done: nothing came of it.
        Failed,
    }
}

alphabet! {
    /// What happens in a handshake.
    Input {
        /// The transport is open, and both eras will do.
        StartDiscover,
        /// The transport is open, and only the modern era will do.
        StartModern,
        /// The transport is open, and the legacy era is likelier.
        StartLegacyFirst,
        /// The transport is open, and only the legacy era will do.
        StartLegacy,
        /// The probe's answer names a modern version that both sides speak.
        ModernFound,
        /// The probe's answer names only legacy versions, one that both sides speak among them.
        LegacyFound,
        /// The probe was refused with -32022, which names a modern version that both sides speak.
        VersionOffered,
        /// The probe's answer names no version that both sides speak.
        NothingCommon,
        /// The probe was refused with another error of the modern era.
        ModernError,
        /// The probe was refused with any other error, or its answer makes no sense.
        NotModern,
        /// The probe was answered with an HTTP status that tells of a fault of the server's, a 5xx.
        ServerFault,
        /// The probe was not answered in time.
        DiscoverTimeout,
        /// The probe's answer comes after all, and is a modern server's.
        LateModern,
        /// The probe's answer comes after all, and is an error that only modern servers give.
        LateModernError,
        /// The probe's answer comes after all, and is no modern server's.
        LateOther,
        /// `initialize` was answered with a version that both sides speak.
        Accepted,
        /// `initialize` was answered with a version that this side does not know, taken for the nearest older one.
        AcceptedNearest,
        /// `initialize` was answered with a version that this side does not know.
        VersionUnknown,
        /// `initialize` was refused for its version, and there is an older one to offer.
        VersionRefused,
        /// `initialize` was refused for the client's capabilities, which it had.
        CapabilitiesRefused,
        /// `initialize` was refused by a server that names modern versions.
        RefusedByModern,
        /// `initialize` was refused for any other reason.
        Refused,
        /// `initialize` was answered with what makes no sense.
        Malformed,
        /// The time for the handshake is over.
        Deadline,
        /// The transport closed.
        TransportClosed,
        /// The connection was lost.
        Lost,
    }
}

/// What follows.
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
    /// Start the probe's timer.
    ArmDiscover,
    /// Stop the probe's timer.
    DisarmDiscover,
    /// Keep the late answer, in case `initialize` is refused.
    KeepEvidence,
    /// Record that the server closed the connection on `server/discover`.
    NoteClosed,
    /// Go on with what the answer said.
    Adopt,
    /// Go on with what the late answer to the probe said.
    AdoptEvidence,
    /// Ask for a new transport.
    Reopen,
    /// Give up.
    Fail(Failure),
}

/// Why a handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// The server did not answer in time.
    Timeout,
    /// The server refused.
    Rejected,
    /// The server speaks only an era that the options exclude.
    EraExcluded,
    /// There is no version that both sides speak.
    UnsupportedVersion,
    /// The answer makes no sense.
    Protocol,
    /// The transport closed.
    Closed,
}

type R = Row<State, Effect>;

/// Decides.
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

/// Where `initialize` does not follow by itself; such states differ in what a named version leads to.
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

/// In what the states that wait for an answer to `initialize` differ.
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
