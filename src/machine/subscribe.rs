#![doc = "How a resource is subscribed to and unsubscribed from, by era (specification 2025-11-25, \"Resources\", \
          Subscriptions; 2026-07-28, \"Subscriptions\")."]
#![doc = ""]
#![doc = include_str!("subscribe.md")]

use super::{alphabet, resource_subscription};

alphabet! {
    /// What the embedder asks for.
    Command {
        /// Subscribe.
        Subscribe,
        /// Unsubscribe.
        Unsubscribe,
    }
}

alphabet! {
    /// How the server can be asked now.
    Means {
        /// Not at all: there is no connection that is established.
        None,
        /// By a request for each resource (legacy).
        Requests,
        /// By the listen stream (modern).
        Stream,
        /// By the listen stream, which the server does not have.
        NoStream,
        /// By the listen stream, which the options turn off.
        NotListening,
    }
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Keep it for the next connection.
    Keep,
    /// Give the resource this input.
    Resource(resource_subscription::Input),
    /// Ask for the listen stream again, where the resource's state asks for it.
    Listen,
    /// Give the resource this input, then ask for the listen stream again where it was part of it.
    ResourceThenListen(resource_subscription::Input),
}

/// Decides.
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

/// [`decide`], recorded where rows are counted.
pub(crate) fn take(command: Command, means: Means) -> Step {
    #[cfg(feature = "rows")]
    super::rows::taken("subscribe", &[&command, &means]);
    decide(command, means)
}
