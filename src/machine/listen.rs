//! What the server announces: the listen stream of a modern server, and subscriptions to resources.

/// The stream on which a modern server announces changes (specification 2026-07-28, "Subscriptions"): requested,
/// acknowledged, and requested again if it breaks or if other changes are subscribed to.
pub(crate) mod stream {
    use crate::machine::table::{product, state_table, values};

    values! {
        /// The stream that was requested last.
        #[derive(Default)]
        Asked {
            /// It is acknowledged, or none was requested.
            #[default]
            No,
            Sent,
            /// As `Sent`, and a different one is needed by now.
            Stale,
            /// It broke; the wait before the next request.
            Waiting,
            Refused,
        }

        /// What happens to the stream.
        Input {
            /// There is something to subscribe to, or something else than before.
            Wanted,
            Unwanted,
            /// The server acknowledged the stream that was requested last.
            Agreed,
            /// The acknowledged stream ended.
            Ended,
            /// The stream that was requested last ended before it was acknowledged.
            Failed,
            /// The server refused the stream, although it declares a capability that requires it.
            Refused,
            /// The server refused the stream, and did not send its capabilities.
            Absent,
            /// The server did not acknowledge the stream in time.
            Silent,
            Timer,
        }

        Effect {
            /// Request a stream for the current subscriptions.
            Request,
            /// Cancel the requested stream.
            DropRequested,
            /// Cancel the acknowledged stream.
            DropOpen,
            /// Make the requested stream the current one. Lists that may have changed before it are requested again.
            Adopt,
            /// No stream announces changes now.
            Forget,
            /// No stream announces changes now; the requested one will.
            Await,
            /// Refuse the subscriptions to resources.
            Refuse,
            /// Start the wait, which grows with each failure.
            Arm,
            Disarm,
        }
    }

    product! {
        /// `open`: the server acknowledged a stream, which continues.
        State { asked: Asked, open: bool }
    }

    state_table! {
        /// The stream on which a modern server announces changes.
        "listen_stream" step: State { asked: Asked, open: bool }, Input, Effect;
        (No)         (false) (Wanted)   => (Sent)    (false) [Request];
        (No)         (false) (Unwanted)                                                 => ignore;
        (No)         (false) (Agreed|Ended|Failed|Refused|Absent|Silent|Timer)          => never;
        (No)         (true)  (Wanted)   => (Sent)    (true)  [Request];
        (No)         (true)  (Unwanted) => (No)      (false) [DropOpen Forget];
        (No)         (true)  (Ended)    => (Waiting) (false) [Forget Arm];
        (No)         (true)  (Agreed|Failed|Refused|Absent|Silent|Timer) => never;
        (Sent)       (_)     (Wanted)   => (Stale)   (_);
        (Stale)      (_)     (Wanted)   => ignore;
        (Sent|Stale) (false) (Unwanted) => (No)      (false) [DropRequested];
        (Sent|Stale) (true)  (Unwanted) => (No)      (false) [DropRequested DropOpen Forget];
        (Sent)       (false) (Agreed)   => (No)      (true)  [Adopt];
        (Sent)       (true)  (Agreed)   => (No)      (true)  [DropOpen Adopt];
        (Stale)      (false) (Agreed)   => (Sent)    (true)  [Adopt Request];
        (Stale)      (true)  (Agreed)   => (Sent)    (true)  [DropOpen Adopt Request];
        (Sent|Stale) (false) (Ended)    => never;
        (Sent|Stale) (true)  (Ended)    => (_)       (false) [Await];
        (Sent|Stale) (false) (Failed)   => (Waiting) (false) [Arm];
        (Sent|Stale) (true)  (Failed)   => (Waiting) (false) [DropOpen Forget Arm];
        (Sent|Stale) (false) (Refused)  => (Refused) (false) [Refuse] ! ListenRefused;
        (Sent|Stale) (true)  (Refused)  => (Refused) (false) [DropOpen Forget Refuse] ! ListenRefused;
        (Sent|Stale) (false) (Absent)   => (Refused) (false) [Refuse];
        (Sent|Stale) (true)  (Absent)   => (Refused) (false) [DropOpen Forget Refuse];
        (Sent|Stale) (false) (Silent)   => (Waiting) (false) [DropRequested Arm];
        (Sent|Stale) (true)  (Silent)   => (Waiting) (false) [DropRequested DropOpen Forget Arm];
        (Sent|Stale) (_)     (Timer)    => never;
        (Waiting)    (_)     (Timer)    => (Sent)    (_)     [Request];
        (Waiting)    (_)     (Unwanted) => (No)      (_)     [Disarm];
        (Waiting)    (_)     (Wanted|Silent)                                    => ignore;
        (Waiting)    (_)     (Agreed|Ended|Failed|Refused|Absent)               => never;
        (Refused)    (_)     (Wanted) => ignore;
        (Refused)    (_)     (Unwanted|Agreed|Ended|Failed|Refused|Absent|Silent|Timer) => never;
    }
}

/// A subscription to one resource on a connection.
pub(crate) mod resource {
    use crate::machine::table::{state_table, values};

    values! {
        State {
            /// Wanted by the embedder, and not requested on this connection.
            Wanted,
            Requested,
            /// The server announces changes of the resource.
            Active,
            Refused,
            /// Requested from the server, and not wanted any more.
            Withdrawn,
            /// The end of the subscription was requested.
            Leaving,
            /// As `Leaving`, and the embedder wants it again.
            Returning,
            Gone,
        }

        Input {
            /// The server can be sent a request for the resource.
            Possible,
            /// A request for a listen stream names the resource.
            Included,
            /// The listen stream ended that announced the resource; the requested one names it.
            Replaced,
            Subscribe,
            /// The embedder unsubscribes, and the server requires a request for that.
            Unsubscribe,
            /// The embedder unsubscribes, and no request is needed for that.
            Drop,
            Accepted,
            /// The server acknowledged the listen stream, and did not say for which resources.
            StreamAccepted,
            /// The server acknowledged the listen stream without the resource.
            LeftOut,
            /// The server refused, or subscriptions are not possible.
            Refused,
        }

        Effect {
            /// Request the subscription.
            Request,
            /// Request the end of the subscription.
            Leave,
            ReportActive,
            ReportRefused,
        }
    }

    impl State {
        /// Whether the embedder wants the subscription.
        pub(crate) const fn is_wanted(self) -> bool {
            matches!(self, Self::Wanted | Self::Requested | Self::Active | Self::Refused | Self::Returning)
        }

        /// Whether requests for a listen stream name the resource.
        pub(crate) const fn is_listed(self) -> bool {
            matches!(self, Self::Wanted | Self::Requested | Self::Active)
        }
    }

    state_table! {
        /// A subscription to one resource on a connection.
        "resource_subscription" step: State, Input, Effect;
        (Wanted)    (Possible)                => (Requested) [Request];
        (Wanted)    (Included)                => (Requested);
        (Wanted)    (Refused)                 => (Refused)   [ReportRefused];
        (Wanted)    (Drop)                    => (Gone);
        // `Unsubscribe` is an input only where the server requires a request for it, and nothing was requested here. An
        // acknowledged stream is older than this subscription: the next one names it.
        (Wanted)    (Subscribe|Replaced|Accepted|StreamAccepted|LeftOut)             => ignore;
        (Wanted)    (Unsubscribe)                                                    => never;
        (Requested) (Accepted|StreamAccepted) => (Active)    [ReportActive];
        (Requested) (LeftOut|Refused)         => (Refused)   [ReportRefused];
        (Requested) (Unsubscribe)             => (Withdrawn);
        (Requested) (Drop)                    => (Gone);
        (Requested) (Possible|Included|Replaced|Subscribe) => ignore;
        (Active)    (LeftOut)                 => (Refused)   [ReportRefused];
        (Active)    (Replaced)                => (Requested);
        (Active)    (Unsubscribe)             => (Leaving)   [Leave];
        (Active)    (Drop)                    => (Gone);
        (Active)    (Refused|Possible|Included|Subscribe|Accepted|StreamAccepted) => ignore;
        (Refused)   (Accepted)                => (Active)    [ReportActive];
        (Refused)   (Unsubscribe|Drop)        => (Gone);
        (Refused)   (Subscribe)               => (Wanted);
        (Refused)   (Included|Replaced|StreamAccepted|LeftOut|Refused)          => ignore;
        (Refused)   (Possible)                                                  => never;
        (Withdrawn) (Accepted)                => (Leaving)   [Leave];
        (Withdrawn) (Refused)                 => (Gone);
        (Withdrawn) (Subscribe)               => (Requested);
        (Leaving)   (Accepted|Refused)        => (Gone);
        (Leaving)   (Subscribe)               => (Returning);
        (Withdrawn|Leaving) (Possible|Included|Replaced|Unsubscribe|Drop|StreamAccepted|LeftOut) => never;
        (Returning) (Accepted|Refused)        => (Requested) [Request];
        (Returning) (Unsubscribe)             => (Leaving);
        (Returning) (Possible|Subscribe)                                               => ignore;
        (Returning) (Included|Replaced|Drop|StreamAccepted|LeftOut)                    => never;
        (Gone)      (Possible|Included|Replaced|Subscribe|Unsubscribe|Drop|Accepted|StreamAccepted|LeftOut|Refused) => never;
    }
}

/// How a resource is subscribed to and unsubscribed from, by era (specification 2025-11-25, "Resources", Subscriptions;
/// 2026-07-28, "Subscriptions").
pub(crate) mod subscribe {
    use super::resource::Input;
    use crate::machine::table::{decision_table, values};

    values! {
        /// `Connected`: a connection can take subscriptions.
        Occasion { Subscribe, Unsubscribe, Connected }

        /// How subscriptions work on the current connection.
        Transport {
            /// There is no connection that can take them.
            None,
            /// A request for each resource (legacy).
            Requests,
            /// The listen stream (modern).
            Stream,
            /// The listen stream, which the server refused.
            RefusedStream,
            /// The listen stream, which the options turn off.
            NotListening,
            /// The server does not declare `resources.subscribe`.
            Undeclared,
        }
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Step {
        /// Refuse the command.
        Reject,
        /// Keep the subscription as it is.
        Keep,
        /// Step the subscription with this input.
        Resource(Input),
        /// Request the listen stream again.
        Listen,
        /// Step the subscription with this input, then request the listen stream again.
        ResourceThenListen(Input),
    }

    decision_table! {
        /// How a resource is subscribed to and unsubscribed from. `listed`: the next request for the listen stream names
        /// it, or the last one did.
        "subscribe" decide(occasion: Occasion, transport: Transport, listed: bool) -> Step;
        (Subscribe)   (None)                       (_)     => Keep;
        (Subscribe)   (Requests)                   (_)     => Resource(Input::Possible);
        (Subscribe)   (Stream)                     (true)  => Keep;
        (Subscribe)   (Stream)                     (false) => Listen;
        (Subscribe)   (RefusedStream|NotListening) (_)     => Resource(Input::Refused);
        (Subscribe)   (Undeclared)                 (_)     => Reject;
        (Unsubscribe) (None|RefusedStream|NotListening|Undeclared) (_) => Resource(Input::Drop);
        (Unsubscribe) (Requests)                   (_)     => Resource(Input::Unsubscribe);
        (Unsubscribe) (Stream)                     (true)  => ResourceThenListen(Input::Drop);
        (Unsubscribe) (Stream)                     (false) => Resource(Input::Drop);
        (Connected)   (None|Stream)                (_)     => Keep;
        (Connected)   (Requests)                   (_)     => Resource(Input::Possible);
        (Connected)   (RefusedStream|NotListening|Undeclared) (_) => Resource(Input::Refused);
    }
}
