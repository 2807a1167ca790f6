//! How a resource is subscribed to and unsubscribed from, by era (specification 2025-11-25, "Resources",
//! Subscriptions; 2026-07-28, "Subscriptions").

use super::{alphabet, resource_subscription};

alphabet! {
    /// What happens.
    Occasion {
        /// The embedder subscribes.
        Subscribe,
        /// The embedder unsubscribes.
        Unsubscribe,
        /// A connection can take subscriptions.
        Connected,
    }
}

alphabet! {
    /// How subscriptions work on the current connection.
    Means {
        /// There is no connection that can take them.
        None,
        /// A request for each resource (legacy).
        Requests,
        /// The listen stream (modern).
        Stream,
        /// The listen stream, which the server refused.
        NoStream,
        /// The listen stream, which the options turn off.
        NotListening,
        /// The server does not declare `resources.subscribe`.
        Undeclared,
    }
}

alphabet! {
    /// Whether the next request for the listen stream names the resource.
    Listed {
        /// It does, or the last one did.
        Yes,
        /// It does not: the resource has no subscription, or the server refused it.
        No,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Refuse the command.
    Reject,
    /// Keep the subscription as it is.
    Keep,
    /// Step the subscription with this input.
    Resource(resource_subscription::Input),
    /// Request the listen stream again.
    Listen,
    /// Step the subscription with this input, then request the listen stream again.
    ResourceThenListen(resource_subscription::Input),
}

/// Returns the decision for these inputs.
pub(crate) const fn decide(occasion: Occasion, means: Means, listed: Listed) -> Step {
    use resource_subscription::Input::{Drop, Possible, Refused, Unsubscribe};
    match occasion {
        Occasion::Subscribe => match means {
            Means::None => Step::Keep,
            Means::Requests => Step::Resource(Possible),
            Means::Stream => match listed {
                Listed::Yes => Step::Keep,
                Listed::No => Step::Listen,
            },
            Means::NoStream | Means::NotListening => Step::Resource(Refused),
            Means::Undeclared => Step::Reject,
        },
        Occasion::Unsubscribe => match means {
            Means::None | Means::NoStream | Means::NotListening | Means::Undeclared => Step::Resource(Drop),
            Means::Requests => Step::Resource(Unsubscribe),
            Means::Stream => match listed {
                Listed::Yes => Step::ResourceThenListen(Drop),
                Listed::No => Step::Resource(Drop),
            },
        },
        Occasion::Connected => match means {
            Means::None | Means::Stream => Step::Keep,
            Means::Requests => Step::Resource(Possible),
            Means::NoStream | Means::NotListening | Means::Undeclared => Step::Resource(Refused),
        },
    }
}

/// [`decide`], recorded with the feature `rows`.
pub(crate) fn take(occasion: Occasion, means: Means, listed: Listed) -> Step {
    #[cfg(feature = "rows")]
    super::rows::taken("subscribe", &[&occasion, &means, &listed]);
    decide(occasion, means, listed)
}
