//! The states, inputs and effects of the handshake.

use super::super::{QuirkKind, alphabet};

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
        /// As `InitializingAfterDiscover`, and the response was an HTTP 5xx, which does not show the era.
        InitializingAfterFault,
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
        /// As `StartDiscover`, over HTTP: a server that does not answer one request does not answer others, either.
        StartDiscoverHttp,
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
pub(crate) enum Effect {
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
    /// Send `notifications/initialized`, and begin discovery.
    SendInitialized,
    /// Begin discovery with a server that sends no requests.
    DiscoverModern,
    /// Start the timer of `server/discover`.
    ArmDiscover,
    /// Stop the timer of `server/discover`.
    DisarmDiscover,
    /// Extend the deadline of the handshake, so that `initialize` has its time.
    ExtendDeadline,
    /// Keep the late response to `server/discover`, in case `initialize` is refused.
    KeepEvidence,
    /// Remember that the server closes the connection on `server/discover`, and record the deviation.
    NoteClosedAs(QuirkKind),
    /// Use the server's version and capabilities in the response.
    Adopt,
    /// Do not remember the era.
    ForgetEra,
    /// Use the server's version and capabilities in the late response to `server/discover`.
    AdoptEvidence,
    /// Open a new transport.
    Reopen,
    /// Fail the handshake.
    Fail(Failure),
}

/// Why a handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
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
