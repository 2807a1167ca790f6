//! The connection as a whole: opened, used, lost, reopened, shut down.

use super::Wire;
use super::table::{decision_table, product, state_table, values};

values! {
    #[derive(Default)]
    Phase {
        #[default]
        Idle,
        /// The transport is being opened.
        Opening,
        /// The transport is open: handshake and discovery.
        Connecting,
        Ready,
        /// Ready before, and nobody is reached over HTTP: what is in flight is tried again, and nothing else is sent.
        Unreached,
        /// The transport is being shut down, and opened again after the backoff.
        Draining,
        /// The transport is being shut down, and then the client is parked.
        Retiring,
        /// The backoff before the next attempt.
        Waiting,
        /// Attempts failed: the client waits for a command, or for a long time.
        Parked,
        /// The transport of an unused client is being shut down.
        Suspending,
        /// As `Suspending`, and it is opened again afterwards.
        Resuming,
        /// The client is not used and has no transport.
        Suspended,
        Closing,
        Closed,
    }

    /// What else is known of the phase.
    #[derive(Default)]
    Note {
        #[default]
        None,
        /// Opening or connecting: the embedder has not polled anything of the connection.
        Unseen,
        /// Retiring or parked: authorization is needed.
        Unauthorized,
    }

    Input {
        /// The embedder opens the client.
        Open,
        /// The embedder polled something of the connection.
        Seen,
        Opened,
        /// The handshake needs a new transport.
        Reopen,
        /// Handshake and discovery are done.
        Established,
        /// The connection is unusable, and no further attempt is allowed.
        Failed,
        /// The connection is unusable; another one may work.
        Unresponsive,
        /// The connection is unusable, and attempts are used up.
        Hopeless,
        /// The server requires authorization.
        Unauthorized,
        /// The connection is replaced by another one at once.
        Replace,
        /// The transport is gone; another one may work.
        Lost,
        /// The transport is gone, and attempts are used up.
        Exhausted,
        /// The transport is gone, and no further attempt is allowed.
        LostForGood,
        /// The HTTP session expired.
        Expired,
        /// Nobody is reached over HTTP while requests of the embedder are in flight, which are tried again.
        Unreached,
        /// The server answers again.
        Reached,
        /// Authorization is available.
        Authorized,
        /// The backoff is over.
        Timer,
        /// The client is not used: its transport is shut down.
        Suspend,
        /// The embedder closes the client.
        Close,
        /// The transport is shut down.
        Gone,
    }

    Effect {
        Open,
        Handshake,
        /// Report that the client is ready.
        Announce,
        /// Report that the client is ready again, on the same connection.
        AnnounceAgain,
        /// Report the loss, and what follows.
        Report,
        /// Withdraw what the embedder has not polled.
        Withdraw,
        /// Shut the transport down.
        Shut,
        Backoff,
        Park,
        /// Report that the client is closed.
        Finish,
    }

    /// What is left of the transport of a lost connection.
    Transport {
        Closed,
        Open,
        /// The client obtains the authorization that was missing.
        Authorizing,
        /// It may be open, and no other one would work better.
        Hopeless,
        /// It is open, and the server changed its era or version: there is one new handshake.
        Outdated,
    }

    /// Why a connection was lost.
    Cause {
        /// The command could not be started.
        Spawn,
        Authorization,
        /// No version in common.
        Version,
        Other,
    }

    /// Whether the options allow another attempt.
    Attempts { Never, Left, UsedUp }

    /// How a transport ended.
    End { OpenFailed, Closed, Violated, Moved }

    /// What the end of a transport means.
    Meaning {
        /// The connection is lost.
        Loss,
        /// The handshake decides.
        Handshake,
        /// The shutdown is done.
        Shutdown,
        Nothing,
    }
}

product! {
    #[derive(Default)]
    State { phase: Phase, note: Note }
}

state_table! {
    /// The connection as a whole: opened, used, lost, reopened, closed.
    "link" step: State { phase: Phase, note: Note }, Input, Effect;
    (Idle|Waiting|Parked|Suspended) (_)            (Open)         => (Opening)    (Unseen)       [Open];
    (Waiting|Parked)                (_)            (Timer)        => (Opening)    (Unseen)       [Open];
    (Parked)                        (Unauthorized) (Authorized)   => (Opening)    (Unseen)       [Open];
    (Idle|Waiting|Parked|Suspended) (_)            (Close)        => (Closed)     (None)         [Finish];
    (Idle|Suspended)                (_)            (Timer)        => never;
    else (Idle|Waiting|Parked|Suspended) (_)       (Authorized)   => ignore;
    (Idle|Waiting|Parked|Suspended) (_)            (Seen|Opened) => ignore;
    (Idle|Waiting|Parked|Suspended) (_)
        (Reopen|Established|Failed|Unresponsive|Hopeless|Unauthorized|Replace|Lost|Exhausted|LostForGood|Expired|
         Unreached|Reached|Suspend|Gone) => never;

    (Opening|Connecting)            (Unseen)       (Seen)         => (_)          (None);
    (Opening)                       (_)            (Opened)       => (Connecting) (_)            [Handshake];
    (Connecting)                    (_)            (Reopen)       => (Opening)    (Unseen)       [Open];
    (Connecting)                    (None)         (Replace)      => (Resuming)   (None)         [Shut];
    (Connecting)                    (None)         (Established)  => (Ready)      (None)         [Announce];
    (Connecting|Ready)              (None)         (Expired)      => (Opening)    (Unseen)       [Report Open];
    (Ready)                         (_)            (Unreached)    => (Unreached)  (None)         [Report];
    (Unreached)                     (_)            (Reached)      => (Ready)      (None)         [AnnounceAgain];
    (Ready)                         (_)            (Suspend)      => (Suspending) (None)         [Shut];
    (Opening|Connecting|Ready|Unreached) (_)       (Open)         => misuse;
    // What the embedder has not seen is not reported as lost, unless that is the end.
    (Opening|Connecting|Ready|Unreached) (_)       (Failed)       => (Closing)    (None)         [Report Shut];
    (Opening|Connecting)            (Unseen)       (Unresponsive) => (Draining)   (None)         [Shut];
    else (Opening|Connecting|Ready|Unreached) (_)  (Unresponsive) => (Draining)   (None)         [Report Shut];
    (Opening|Connecting)            (Unseen)       (Hopeless)     => (Retiring)   (None)         [Shut];
    else (Opening|Connecting|Ready|Unreached) (_)  (Hopeless)     => (Retiring)   (None)         [Report Shut];
    (Opening|Connecting)            (None)         (Unauthorized) => (Retiring)   (Unauthorized) [Report Shut];
    (Opening|Connecting)            (Unseen)       (Lost)         => (Waiting)    (None)         [Backoff];
    else (Opening|Connecting|Ready|Unreached) (_)  (Lost)         => (Waiting)    (None)         [Backoff Report];
    (Opening|Connecting)            (Unseen)       (Exhausted)    => (Parked)     (None)         [Park];
    else (Opening|Connecting|Ready|Unreached) (_)  (Exhausted)    => (Parked)     (None)         [Park Report];
    (Opening|Connecting|Ready|Unreached) (_)       (LostForGood)  => (Closed)     (None)         [Report Finish];
    (Opening|Connecting)            (Unseen)       (Close)        => (Closed)     (None)         [Withdraw Finish];
    else (Opening|Connecting|Ready|Unreached) (_)  (Close)        => (Closing)    (None)         [Shut];
    (Opening)                       (_)            (Reopen|Replace|Established|Expired|Unreached|Reached) => never;
    (Connecting)                    (_)            (Opened|Unreached|Reached) => ignore;
    else (Connecting)               (_)            (Established|Expired|Replace) => never;
    else (Opening|Connecting)       (_)            (Seen|Authorized) => ignore;
    else (Opening|Connecting)       (_)            (Unauthorized|Timer|Suspend|Gone) => never;
    (Ready)                         (_)            (Reached) => never;
    (Unreached)                     (_)            (Unreached)         => ignore;
    (Unreached)                     (_)            (Suspend)           => never;
    (Ready|Unreached)               (_)            (Seen|Opened|Authorized|Timer) => ignore;
    else (Ready|Unreached)          (_)            (Reopen|Replace|Established|Expired|Unauthorized|Gone) => never;

    (Draining)                      (_)            (Open)         => misuse;
    (Draining)                      (_)            (Gone)         => (Waiting)    (None)         [Backoff];
    (Retiring)                      (Unauthorized) (Open|Close)   => never;
    // The transport is opened again after its shutdown in any case.
    else (Retiring)                 (_)            (Open)         => (Draining)   (None);
    (Retiring)                      (_)            (Gone)         => (Parked)     (_)            [Park];
    (Suspending)                    (_)            (Open)         => (Resuming)   (None);
    (Suspending)                    (_)            (Gone)         => (Suspended)  (None);
    (Resuming)                      (_)            (Open)         => ignore;
    (Resuming)                      (_)            (Gone)         => (Opening)    (Unseen)       [Open];
    else (Draining|Retiring|Suspending|Resuming) (_)    (Close)   => (Closing)    (None);
    (Closing)                       (_)            (Gone)         => (Closed)     (None)         [Finish];
    (Closing|Closed)                (_)            (Open|Close)   => misuse;
    (Closed)                        (_)            (Gone)         => never;
    (Draining|Retiring|Suspending|Resuming|Closing|Closed) (_) (Seen|Opened|Authorized) => ignore;
    (Draining|Retiring|Suspending|Resuming|Closing|Closed) (_)
        (Reopen|Established|Failed|Unresponsive|Hopeless|Unauthorized|Replace|Lost|Exhausted|LostForGood|Expired|
         Unreached|Reached|Timer|Suspend) => never;
}

decision_table! {
    /// What follows when a connection is lost.
    "loss" lose(transport: Transport, cause: Cause, attempts: Attempts) -> Input;
    (Closed)      (_)                         (Never)       => LostForGood;
    (Closed)      (_)                         (UsedUp)      => Exhausted;
    (Closed)      (Spawn|Version)             (Left)        => Exhausted;
    (Closed)      (Authorization|Other)       (Left)        => Lost;
    (Open)        (_)                         (Never)       => Failed;
    (Open)        (Authorization)             (Left|UsedUp) => Unauthorized;
    (Open)        (Spawn|Version)             (Left|UsedUp) => Hopeless;
    (Open)        (Other)                     (UsedUp)      => Hopeless;
    (Open)        (Other)                     (Left)        => Unresponsive;
    // No attempt failed.
    (Authorizing) (_)                         (_)           => Unauthorized;
    (Hopeless)    (_)                         (_)           => Failed;
    // The requests that were refused did not run, and are sent again after the handshake, whatever the options say.
    (Outdated)    (_)                         (_)           => Unresponsive;
}

decision_table! {
    /// What the end of a transport means. `agreed`: the handshake is done.
    "transport_end" end(phase: Phase, note: Note, end: End, wire: Wire, agreed: bool) -> Meaning;
    // The process that restored the session opens the transport.
    (Opening)          (Unseen) (Moved)                      (_)    (_)    => Nothing;
    else (Opening)     (_)      (OpenFailed|Closed|Violated|Moved) (_) (_) => Loss;
    (Connecting|Ready|Unreached) (_) (Violated|Moved)        (_)    (_)    => Loss;
    (Connecting|Ready|Unreached) (_) (OpenFailed)            (Http) (_)    => Loss;
    (Connecting|Ready|Unreached) (_) (OpenFailed)            (Pipe) (_)    => Nothing;
    (Connecting)       (_)      (Closed)                     (Pipe) (false) => Handshake;
    else (Connecting|Ready|Unreached) (_) (Closed)           (_)    (_)    => Loss;
    (Draining|Retiring|Suspending|Resuming|Closing) (_) (OpenFailed|Closed|Moved) (_) (_) => Shutdown;
    (Draining|Retiring|Suspending|Resuming|Closing) (_) (Violated) (_) (_) => Nothing;
    (Idle|Waiting|Parked|Suspended|Closed) (_) (OpenFailed|Closed|Violated|Moved) (_) (_) => Nothing;
}

/// How a transport is shut down.
pub(crate) mod shutdown {
    use crate::machine::table::{state_table, values};

    values! {
        #[derive(Default)]
        State {
            #[default]
            Idle,
            /// The input of an open transport is closed.
            InputClosed,
            /// The input of a transport that was not open, or has no process, is closed.
            Unopened,
            Terminated,
            Killed,
        }

        Input {
            Shut,
            ShutUnopened,
            /// The transport is closed.
            Exited,
            Timer,
        }

        Effect {
            CloseInput,
            Terminate,
            Kill,
            Arm,
            Done,
        }
    }

    state_table! {
        /// How a transport is shut down: close its input, then terminate, then kill (specification 2026-07-28, "stdio",
        /// Shutdown).
        "shutdown" step: State, Input, Effect;
        (Idle)                                   (Shut)              => (InputClosed) [CloseInput Arm];
        (Idle)                                   (ShutUnopened)      => (Unopened)    [CloseInput Arm];
        (Idle)                                   (Exited|Timer)      => never;
        (InputClosed)                            (Timer)             => (Terminated)  [Terminate Arm] ! NoExit;
        (Unopened)                               (Timer)             => (Terminated)  [Terminate Arm];
        (Terminated)                             (Timer)             => (Killed)      [Kill Arm];
        (Killed)                                 (Timer)             => (Idle)        [Done];
        (InputClosed|Unopened|Terminated|Killed) (Exited)            => (Idle)        [Done];
        (InputClosed|Unopened|Terminated|Killed) (Shut|ShutUnopened) => never;
    }
}
