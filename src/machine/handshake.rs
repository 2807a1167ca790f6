//! How a client finds out the server's era and version (specification 2026-07-28, "stdio", Backward Compatibility;
//! 2025-11-25, "Lifecycle").

use super::QuirkKind;
use super::table::{decision_table, product, state_table, values};

values! {
    #[derive(Default)]
    Phase {
        #[default]
        Idle,
        /// `server/discover` is in flight; `initialize` may follow.
        Discovering,
        /// A second `server/discover`, with a version that the server named, is in flight.
        Rediscovering,
        /// `server/discover` is in flight, and only the modern era is allowed.
        Pinned,
        /// As `Pinned`, for a second `server/discover` with a version that the server named.
        Repinned,
        /// `server/discover` is in flight, after `initialize` was refused.
        DiscoveringLast,
        /// `initialize` is in flight.
        Initializing,
        /// Done: the server accepted `initialize`.
        Legacy,
        /// Done: every request carries its metadata.
        Modern,
        /// A new transport is to be opened, for `initialize` without `server/discover`.
        Reopening,
        Failed,
    }

    /// What is known while `initialize` is in flight, or before it.
    #[derive(Default)]
    Basis {
        /// Only the legacy era is allowed, or possible.
        #[default]
        None,
        /// It was sent first; `server/discover` may follow.
        First,
        /// The transport before closed on `server/discover`.
        Reopened,
        /// A response to `server/discover` came before.
        AfterDiscover,
        /// As `AfterDiscover`, and the response was an HTTP 5xx, which does not show the era.
        AfterFault,
        /// `server/discover` timed out.
        Blind,
        /// Over HTTP: `server/discover` is in an exchange of its own, which goes on after it timed out, beside that of
        /// `initialize`.
        Beside,
        /// As `Blind`, and a late response to `server/discover` showed that the server is modern.
        Backed,
        /// As `Blind`, and a late response to `server/discover` was an error that only modern servers send.
        Warned,
    }

    Input {
        /// The transport is open, and both eras are allowed.
        StartDiscover,
        /// As `StartDiscover`, over HTTP: each request is in an exchange of its own.
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
        DiscoverTimeout,
        /// A late response to `server/discover` is a modern server's result.
        LateModern,
        /// A late response to `server/discover` is an error that only modern servers send.
        LateModernError,
        /// A late response to `server/discover` is not from a modern server.
        LateOther,
        /// The exchange of `server/discover` broke after it had timed out.
        LateBroke,
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
        Deadline,
        TransportClosed,
    }

    /// Why a handshake failed.
    Failure {
        Timeout,
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
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Send `server/discover`, with the version that the response names, if there is one.
    SendDiscover,
    /// Send `initialize`, with the version that the response names or the next older one, if there is one.
    SendInitialize,
    /// Send `notifications/initialized`, and begin discovery.
    SendInitialized,
    /// Begin discovery with a server that sends no requests.
    DiscoverModern,
    ArmDiscover,
    DisarmDiscover,
    /// Extend the deadline of the handshake, so that `initialize` has its time.
    ExtendDeadline,
    /// Keep the late response to `server/discover`, in case `initialize` is refused.
    KeepEvidence,
    /// Remember that the server closes the connection on `server/discover`, and record the deviation.
    NoteClosedAs(QuirkKind),
    /// Use the server's version and capabilities in the response, or else in the late one to `server/discover`.
    Adopt,
    /// Do not remember the era.
    ForgetEra,
    /// Open a new transport.
    Reopen,
    Fail(Failure),
}

product! {
    #[derive(Default)]
    State { phase: Phase, basis: Basis }
}

state_table! {
    /// How a client finds out the server's era and version (specification 2026-07-28, "stdio", Backward Compatibility;
    /// 2025-11-25, "Lifecycle").
    "handshake" step: State { phase: Phase, basis: Basis }, Input, Effect;
    (Idle)            (_)             (StartDiscover)     => (Discovering)     (None)          [SendDiscover ArmDiscover];
    (Idle)            (_)             (StartDiscoverHttp) => (Discovering)     (Beside)        [SendDiscover ArmDiscover];
    (Idle)            (_)             (StartModern)       => (Pinned)          (None)          [SendDiscover];
    (Idle)            (_)             (StartLegacyFirst)  => (Initializing)    (First)         [SendInitialize];
    (Idle)            (_)             (StartLegacy)       => (Initializing)    (None)          [SendInitialize];
    (Reopening)       (_)             (StartDiscover)     => (Initializing)    (Reopened)      [SendInitialize];
    (Reopening)       (_)             (StartDiscoverHttp|StartModern|StartLegacyFirst|StartLegacy) => never;

    (Discovering|Rediscovering|Pinned|Repinned|DiscoveringLast) (_) (ModernFound) => (Modern)  (None) [DisarmDiscover Adopt DiscoverModern];
    (Discovering|Rediscovering) (_)   (LegacyFound)       => (Initializing)    (AfterDiscover) [DisarmDiscover SendInitialize];
    (Pinned|Repinned) (_)             (LegacyFound)       => (Failed)          (None)          [Fail(Failure::EraExcluded)];
    (DiscoveringLast) (_)             (LegacyFound)       => (Initializing)    (None)          [SendInitialize];
    (Discovering)     (_)             (VersionOffered)    => (Rediscovering)   (None)          [DisarmDiscover SendDiscover];
    (Pinned|DiscoveringLast) (_)      (VersionOffered)    => (Repinned)        (None)          [SendDiscover];
    (Rediscovering|Repinned) (_)      (VersionOffered)    => (Failed)          (None)          [Fail(Failure::UnsupportedVersion)];
    (Discovering|Rediscovering|Pinned|Repinned|DiscoveringLast) (_) (NothingCommon) => (Failed) (None) [Fail(Failure::UnsupportedVersion)];
    (Discovering|Rediscovering|Pinned|Repinned|DiscoveringLast) (_) (ModernError) => (Failed)  (None) [Fail(Failure::Rejected)];
    (Discovering)     (_)             (NotModern)         => (Initializing)    (AfterDiscover) [DisarmDiscover SendInitialize];
    (Discovering)     (Beside)        (ServerFault)       => (Initializing)    (AfterFault)    [DisarmDiscover SendInitialize] ! Probe5xx;
    // Only HTTP has statuses.
    else (Discovering)     (_)        (ServerFault)       => never;
    (Rediscovering|Pinned|Repinned|DiscoveringLast) (_) (NotModern|ServerFault) => (Failed)    (None) [Fail(Failure::Rejected)];
    (Discovering)     (Beside)        (DiscoverTimeout)   => (Initializing)    (Beside)        [ExtendDeadline SendInitialize] ! ProbeSilent;
    else (Discovering)     (_)        (DiscoverTimeout)   => (Initializing)    (Blind)         [ExtendDeadline SendInitialize] ! ProbeSilent;
    // The refusal of `initialize` says more.
    (DiscoveringLast) (Beside)        (Deadline)          => (Failed)          (None)          [Fail(Failure::Rejected)];
    else (Discovering|Rediscovering|Pinned|Repinned|DiscoveringLast) (_) (Deadline) => (Failed)     (None) [Fail(Failure::Timeout)];
    // Over HTTP, the end of the transport is a loss.
    (Discovering|DiscoveringLast) (Beside) (TransportClosed) => never;
    else (Discovering|Rediscovering) (_)   (TransportClosed)   => (Reopening)       (None)          [Reopen];
    else (Pinned|Repinned|DiscoveringLast) (_) (TransportClosed) => (Failed)        (None)          [Fail(Failure::Closed)];

    (Initializing)    (Reopened)      (Accepted)          => (Legacy)          (None)          [Adopt NoteClosedAs(QuirkKind::ProbeClosed) SendInitialized];
    (Initializing)    (AfterFault)    (Accepted)          => (Legacy)          (None)          [Adopt ForgetEra SendInitialized];
    else (Initializing)    (_)        (Accepted)          => (Legacy)          (None)          [Adopt SendInitialized];
    (Initializing)    (Reopened)      (AcceptedNearest)   => (Legacy)          (None)          [Adopt NoteClosedAs(QuirkKind::ProbeClosed) SendInitialized] ! VersionUnknown;
    (Initializing)    (AfterFault)    (AcceptedNearest)   => (Legacy)          (None)          [Adopt ForgetEra SendInitialized] ! VersionUnknown;
    else (Initializing)    (_)        (AcceptedNearest)   => (Legacy)          (None)          [Adopt SendInitialized] ! VersionUnknown;
    (Initializing)    (Backed)        (VersionUnknown|VersionRefused|CapabilitiesRefused|RefusedByModern|Refused|Malformed|Deadline) => (Modern) (None) [Adopt DiscoverModern];
    // A modern server that is slow may refuse `initialize` before it answers `server/discover`, which is still in flight.
    (Initializing)    (Beside)        (RefusedByModern|Refused) => (DiscoveringLast) (Beside);
    else (Initializing)    (_)        (VersionUnknown)    => (Failed)          (None)          [Fail(Failure::UnsupportedVersion)];
    else (Initializing)    (_)        (VersionRefused)    => stay [SendInitialize] ! VersionRefused;
    else (Initializing)    (_)        (CapabilitiesRefused) => stay [SendInitialize] ! CapabilitiesRefused;
    (Initializing)    (None)          (RefusedByModern)   => (Failed)          (None)          [Fail(Failure::EraExcluded)];
    else (Initializing)    (_)        (RefusedByModern)   => (DiscoveringLast) (None)          [SendDiscover];
    (Initializing)    (First|Warned)  (Refused)           => (DiscoveringLast) (None)          [SendDiscover];
    else (Initializing)    (_)        (Refused)           => (Failed)          (None)          [Fail(Failure::Rejected)];
    else (Initializing)    (_)        (Malformed)         => (Failed)          (None)          [Fail(Failure::Protocol)];
    else (Initializing)    (_)        (Deadline)          => (Failed)          (None)          [Fail(Failure::Timeout)];
    (Initializing)    (None|First|Reopened) (TransportClosed) => (Failed)      (None)          [Fail(Failure::Closed)];
    (Initializing)    (AfterDiscover|Blind|Backed|Warned) (TransportClosed) => (Reopening) (None) [Reopen];
    (Initializing)    (AfterFault|Beside) (TransportClosed) => never;
    (Initializing)    (Blind|Beside)  (LateModern)        => (_)               (Backed)        [KeepEvidence] ! ProbeLate;
    (Initializing)    (Blind|Beside)  (LateModernError)   => (_)               (Warned)        [] ! ProbeLate;
    (Initializing)    (Blind|Beside)  (LateOther)         => (_)               (AfterDiscover) [] ! ProbeLate;
    (Initializing)    (Beside)        (LateBroke)         => (_)               (Blind);
    else (Initializing)    (_)        (LateModern|LateModernError|LateOther|LateBroke) => never;

    (Rediscovering|Pinned|Repinned|DiscoveringLast) (_) (DiscoverTimeout) => never;
    (Discovering|Rediscovering|Pinned|Repinned|DiscoveringLast) (_) (LateModern) => ignore;
    (Discovering|Rediscovering|Pinned|Repinned|DiscoveringLast) (_)
        (StartDiscover|StartDiscoverHttp|StartModern|StartLegacyFirst|StartLegacy|LateModernError|LateOther|
         LateBroke|Accepted|AcceptedNearest|VersionUnknown|VersionRefused|CapabilitiesRefused|RefusedByModern|Refused|
         Malformed) => never;
    (Initializing)    (_) (StartDiscover|StartDiscoverHttp|StartModern|StartLegacyFirst|StartLegacy|ModernFound|LegacyFound|VersionOffered|NothingCommon|ModernError|NotModern|ServerFault|DiscoverTimeout) => never;
    (Legacy|Modern|Failed) (_) (StartDiscover|StartDiscoverHttp|StartModern|StartLegacyFirst|StartLegacy) => never;
    (Idle|Legacy|Modern|Reopening|Failed) (_) (ModernFound|LegacyFound|VersionOffered|NothingCommon|ModernError|NotModern|ServerFault|DiscoverTimeout|LateModern|LateModernError|LateOther|LateBroke|Accepted|AcceptedNearest|VersionUnknown|VersionRefused|CapabilitiesRefused|RefusedByModern|Refused|Malformed|Deadline|TransportClosed) => never;
}

values! {
    /// What a refusal of `initialize` is about.
    About {
        /// The server names a legacy version that was not tried.
        VersionNamed,
        Version,
        VersionAndCapabilities,
        Capabilities,
        /// The parameters are invalid, and the message does not name the version.
        Params,
        Other,
    }
}

decision_table! {
    /// What is offered after a refusal of `initialize`: an older version, no capabilities, or nothing. `older`: there is a
    /// version to offer next. `bare`: no capabilities were declared. This ends: each of the four legacy versions is offered
    /// at most once, and the capabilities are left out once.
    "handshake_offer" next_offer(about: About, older: bool, bare: bool) -> Input;
    (VersionNamed)           (_)     (_)     => VersionRefused;
    (Version)                (true)  (_)     => VersionRefused;
    (Version)                (false) (_)     => Refused;
    (VersionAndCapabilities) (true)  (_)     => VersionRefused;
    (VersionAndCapabilities) (false) (false) => CapabilitiesRefused;
    (VersionAndCapabilities) (false) (true)  => Refused;
    (Capabilities)           (_)     (false) => CapabilitiesRefused;
    (Capabilities)           (_)     (true)  => Refused;
    (Params)                 (_)     (false) => CapabilitiesRefused;
    (Params)                 (true)  (true)  => VersionRefused;
    (Params)                 (false) (true)  => Refused;
    (Other)                  (_)     (_)     => Refused;
}
