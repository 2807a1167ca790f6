//! How a client finds out the server's era and version (specification 2026-07-28, "stdio", Backward Compatibility;
//! 2025-11-25, "Lifecycle").

mod shared;
mod start;
mod vocabulary;

pub(crate) use start::{Allowed, Broken, Known, Nearest, Older, Refused, Request, Status, Version};
#[cfg(test)]
pub(crate) use start::{answered, broken, opening, refused, start};
pub(crate) use start::{take_answered, take_broken, take_opening, take_refused, take_start};
pub(crate) use vocabulary::{Effect, Failure, Input, State};

use self::shared::{EXCLUDED, Exits, REJECTED, UNSUPPORTED, initializing, pinned};
use super::{QuirkKind, Row, recorded};

type R = Row<State, Effect>;

/// Returns the row for a state and an input.
pub(crate) const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{
        Adopt, AdoptEvidence, ArmDiscover, DisarmDiscover, DiscoverModern, ExtendDeadline, Fail, ForgetEra,
        KeepEvidence, NoteClosedAs, Reopen, SendDiscover, SendDiscoverNamed, SendInitialize, SendInitializeNamed,
        SendInitialized,
    };
    match state {
        State::Idle => match input {
            Input::StartDiscover => R::advance(State::Discovering, &[SendDiscover, ArmDiscover]),
            Input::StartDiscoverHttp => R::advance(State::Discovering, &[SendDiscover]),
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
            Input::ModernFound => R::advance(State::Modern, &[DisarmDiscover, Adopt, DiscoverModern]),
            Input::LegacyFound => R::advance(State::InitializingAfterDiscover, &[DisarmDiscover, SendInitializeNamed]),
            Input::VersionOffered => R::advance(State::RediscoveringNamed, &[DisarmDiscover, SendDiscoverNamed]),
            Input::NothingCommon => R::advance(State::Failed, &[Fail(Failure::UnsupportedVersion)]),
            Input::ModernError => R::advance(State::Failed, &[Fail(Failure::Rejected)]),
            Input::NotModern => R::advance(State::InitializingAfterDiscover, &[DisarmDiscover, SendInitialize]),
            Input::ServerFault => {
                R::quirk(QuirkKind::Probe5xx, State::InitializingAfterFault, &[DisarmDiscover, SendInitialize])
            }
            Input::DiscoverTimeout => {
                R::quirk(QuirkKind::ProbeSilent, State::InitializingBlind, &[ExtendDeadline, SendInitialize])
            }
            Input::Deadline => R::advance(State::Failed, &[Fail(Failure::Timeout)]),
            Input::TransportClosed => R::advance(State::Reopening, &[Reopen]),
            Input::StartDiscover
            | Input::StartDiscoverHttp
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
            Input::ModernFound => R::advance(State::Modern, &[Adopt, DiscoverModern]),
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
            | Input::StartDiscoverHttp
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
                accepted: &[Adopt, NoteClosedAs(QuirkKind::ProbeClosed), SendInitialized],
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
        State::InitializingAfterFault => initializing(
            state,
            input,
            Exits {
                accepted: &[Adopt, ForgetEra, SendInitialized],
                refused: REJECTED,
                refused_by_modern: R::advance(State::DiscoveringLast, &[SendDiscover]),
                // Over HTTP, the end of the transport is a loss.
                closed: R::ignore(state),
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
            | Input::Deadline => R::advance(State::Modern, &[AdoptEvidence, DiscoverModern]),
            Input::TransportClosed => R::advance(State::Reopening, &[Reopen]),
            Input::StartDiscover
            | Input::StartDiscoverHttp
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
            | Input::StartDiscoverHttp
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
            | Input::StartDiscoverHttp
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

recorded!("handshake");
