//! Rows that several states of the handshake share.

use super::super::{QuirkKind, Row};
use super::{Effect, Failure, Input, State};

type R = Row<State, Effect>;

pub(super) const REJECTED: R = R::advance(State::Failed, &[Effect::Fail(Failure::Rejected)]);
pub(super) const EXCLUDED: R = R::advance(State::Failed, &[Effect::Fail(Failure::EraExcluded)]);
pub(super) const UNSUPPORTED: R = R::advance(State::Failed, &[Effect::Fail(Failure::UnsupportedVersion)]);

/// The rows of states that `initialize` does not follow; they differ in the row for a named version.
pub(super) const fn pinned(state: State, input: Input, offered: R, legacy: R) -> R {
    match input {
        Input::ModernFound => R::advance(State::Modern, &[Effect::Adopt, Effect::DiscoverModern]),
        Input::VersionOffered => offered,
        Input::LegacyFound => legacy,
        Input::NothingCommon => UNSUPPORTED,
        Input::ModernError | Input::NotModern | Input::ServerFault => REJECTED,
        Input::Deadline => R::advance(State::Failed, &[Effect::Fail(Failure::Timeout)]),
        Input::TransportClosed => R::advance(State::Failed, &[Effect::Fail(Failure::Closed)]),
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
    }
}

/// The rows in which states with `initialize` in flight differ.
#[derive(Clone, Copy)]
pub(super) struct Exits {
    pub(super) accepted: &'static [Effect],
    pub(super) refused: R,
    pub(super) refused_by_modern: R,
    pub(super) closed: R,
    pub(super) late_modern: R,
    pub(super) late_modern_error: R,
    pub(super) late_other: R,
}

pub(super) const fn initializing(state: State, input: Input, exits: Exits) -> R {
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
        | Input::DiscoverTimeout => R::ignore(state),
    }
}
