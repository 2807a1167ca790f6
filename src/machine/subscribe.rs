#![doc = "How a resource is subscribed to and unsubscribed from, by era (specification 2025-11-25, \"Resources\", \
          Subscriptions; 2026-07-28, \"Subscriptions\")."]
#![doc = ""]
#![doc = include_str!("subscribe.md")]

use super::{alphabet, resource_subscription};

alphabet! {
    /// The embedder's command.
    Command {
        /// Subscribe.
        Subscribe,
        /// Unsubscribe.
        Unsubscribe,
    }
}

alphabet! {
    /// How subscriptions work on the current connection.
    Means {
        /// There is no established connection.
        None,
        /// A request for each resource (legacy).
        Requests,
        /// The listen stream (modern).
        Stream,
        /// The listen stream, which the server does not have.
        NoStream,
        /// The listen stream, which the options turn off.
        NotListening,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Keep the subscription for the next connection.
    Keep,
    /// Step the subscription with this input.
    Resource(resource_subscription::Input),
    /// Request the listen stream again if the state of the subscription requires it.
    Listen,
    /// Step the subscription with this input, then request the listen stream again if the subscription was part of it.
    ResourceThenListen(resource_subscription::Input),
}

/// Returns the decision for these inputs.
pub const fn decide(command: Command, means: Means) -> Step {
    use resource_subscription::Input::{Drop, Possible, Refused, Unsubscribe};
    match command {
        Command::Subscribe => match means {
            Means::None => Step::Keep,
            Means::Requests => Step::Resource(Possible),
            Means::Stream => Step::Listen,
            Means::NoStream | Means::NotListening => Step::Resource(Refused),
        },
        Command::Unsubscribe => match means {
            Means::None => Step::Resource(Drop),
            Means::Requests => Step::Resource(Unsubscribe),
            Means::Stream | Means::NoStream | Means::NotListening => Step::ResourceThenListen(Drop),
        },
    }
}

/// [`decide`], recorded with the feature `rows`.
pub(crate) fn take(command: Command, means: Means) -> Step {
    #[cfg(feature = "rows")]
    super::rows::taken("subscribe", &[&command, &means]);
    decide(command, means)
}
