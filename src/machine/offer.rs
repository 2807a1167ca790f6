//! What `initialize` offers, and what is offered next if the server refuses it. This ends: each of the four legacy
//! versions is offered at most once, and the capabilities are left out once.

use super::{Row, alphabet, recorded};

alphabet! {
    /// Whether `initialize` declares the client's capabilities.
    State {
        /// It does.
        Declared,
        /// It does not: the client has none, or the server refused them.
        LeftOut,
    }
}

alphabet! {
    /// A handshake begins, or what the refusal of `initialize` is about.
    Input {
        /// A handshake begins.
        Begin,
        /// A handshake begins, and the client has no capabilities.
        BeginBare,
        /// The server names a version that was not offered yet.
        VersionNamed,
        /// The version; an older one was not offered yet.
        Version,
        /// The version; every older one was offered.
        LastVersion,
        /// The version and the capabilities; an older version was not offered yet.
        VersionAndCapabilities,
        /// The version and the capabilities; every older version was offered.
        LastVersionAndCapabilities,
        /// The capabilities.
        Capabilities,
        /// The parameters (-32602) and the capabilities; an older version was not offered yet.
        ParamsAndCapabilities,
        /// The parameters (-32602); an older version was not offered yet.
        Params,
        /// The parameters (-32602); every older version was offered.
        LastParams,
        /// Something else.
        Other,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Offer another version.
    OfferOlder,
    /// Offer the same version without capabilities.
    OfferBare,
    /// Nothing is left to offer.
    Refused,
}

/// Returns the row for a state and an input.
pub(crate) const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{OfferBare, OfferOlder, Refused};
    type R = Row<State, Effect>;
    match state {
        State::Declared => match input {
            Input::Begin => R::ignore(state),
            Input::BeginBare => R::advance(State::LeftOut, &[]),
            Input::VersionNamed | Input::Version | Input::VersionAndCapabilities => R::advance(state, &[OfferOlder]),
            Input::LastVersionAndCapabilities
            | Input::Capabilities
            | Input::ParamsAndCapabilities
            | Input::Params
            | Input::LastParams => R::advance(State::LeftOut, &[OfferBare]),
            Input::LastVersion | Input::Other => R::advance(state, &[Refused]),
        },
        State::LeftOut => match input {
            Input::Begin => R::advance(State::Declared, &[]),
            Input::BeginBare => R::ignore(state),
            Input::VersionNamed
            | Input::Version
            | Input::VersionAndCapabilities
            | Input::ParamsAndCapabilities
            | Input::Params => R::advance(state, &[OfferOlder]),
            Input::LastVersion
            | Input::LastVersionAndCapabilities
            | Input::Capabilities
            | Input::LastParams
            | Input::Other => R::advance(state, &[Refused]),
        },
    }
}

recorded!("offer");
