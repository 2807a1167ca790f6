//! An attempt to obtain or refresh a token (specification 2026-07-28, "Authorization"): the metadata of the server
//! and of its authorization server, the registration of the client, the user, and the token request.

use super::{Row, alphabet};

alphabet! {
    /// The stage of the attempt.
    State {
        /// No attempt is in progress.
        Idle,
        /// Protected-resource metadata is requested.
        Resource,
        /// Authorization server metadata is requested.
        Server,
        /// The server has no protected-resource metadata, and authorization server metadata is requested from its origin,
        /// as 2025-03-26 says.
        Assumed,
        /// The metadata is known, and [`authorization_plan`](super::authorization_plan) decides what follows.
        Planning,
        /// The client is being registered.
        Registering,
        /// The user has to authorize, and the browser may be in use for another server.
        Queued,
        /// The user authorizes.
        User,
        /// A grant is requested of the enterprise's identity provider.
        Exchanging,
        /// Signatures are requested: of the client's assertion, of the proof of possession.
        Signing,
        /// A token is requested.
        Token,
        /// The token request failed, and is sent again after a wait.
        Pausing,
    }
}

alphabet! {
    /// What happens in the attempt.
    Input {
        /// It begins, and metadata is read.
        Begin,
        /// It begins with metadata that is known.
        BeginKnown,
        /// The metadata is accepted.
        Found,
        /// The response is no metadata, and there is another place.
        Next,
        /// The response leads to another place.
        Follow,
        /// There is no metadata, and the conventions of 2025-03-26 apply.
        Assume,
        /// The client is not registered.
        Register,
        /// The user has to authorize, and the browser is free.
        Browse,
        /// The user has to authorize, and the browser may be in use for another server.
        Queue,
        /// The browser is free for this attempt.
        Show,
        /// A grant of the identity provider is required.
        Exchange,
        /// The client's assertion or the proof of possession has to be signed.
        Sign,
        /// The token request can be sent.
        Request,
        /// The client is registered.
        Registered,
        /// The user authorized.
        Code,
        /// The identity provider issued the grant.
        Exchanged,
        /// The signatures came.
        Signed,
        /// A token was issued.
        Issued,
        /// The token request is sent again after a wait.
        Retry,
        /// The token request is sent again with the nonce that the authorization server demands.
        Renew,
        /// The wait is over.
        Paused,
        /// The authorization server does not know the registered client any more.
        Unregistered,
        /// The refresh token cannot be used any more.
        Refused,
        /// The attempt failed.
        Fail,
        /// The attempt is not required any more.
        Stop,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Request metadata from the current place.
    RequestMetadata,
    /// Look for authorization servers.
    FindServers,
    /// Take the server's origin as the authorization server.
    AssumeOrigin,
    /// Take the default endpoints of the authorization server.
    AssumeEndpoints,
    /// Decide what follows.
    Plan,
    /// Send the registration.
    Register,
    /// Forget the registration.
    DropClient,
    /// Give the user the URL.
    Browse,
    /// Send the token exchange to the identity provider.
    Exchange,
    /// Request the signatures.
    Sign,
    /// Send the token request.
    RequestToken,
    /// Start the wait before the next token request.
    Pause,
    /// Drop the exchange, and every deadline of the attempt.
    Clear,
    /// Report the token.
    ReportIssued,
    /// Report that the refresh token cannot be used any more.
    ReportRefused,
    /// Report that the attempt failed.
    ReportFailed,
}

/// Returns the row for a state and an input.
pub(crate) const fn step(state: State, input: Input) -> Row<State, Effect> {
    use Effect::{
        AssumeEndpoints, AssumeOrigin, Browse, Clear, DropClient, Exchange, FindServers, Pause, Plan, Register,
        ReportFailed, ReportIssued, ReportRefused, RequestMetadata, RequestToken, Sign,
    };
    type R = Row<State, Effect>;
    match input {
        Input::Begin => match state {
            State::Idle => R::advance(State::Resource, &[RequestMetadata]),
            State::Resource
            | State::Server
            | State::Assumed
            | State::Planning
            | State::Registering
            | State::Queued
            | State::User
            | State::Exchanging
            | State::Signing
            | State::Token
            | State::Pausing => R::ignore(state),
        },
        Input::BeginKnown => match state {
            State::Idle => R::advance(State::Planning, &[Plan]),
            State::Resource
            | State::Server
            | State::Assumed
            | State::Planning
            | State::Registering
            | State::Queued
            | State::User
            | State::Exchanging
            | State::Signing
            | State::Token
            | State::Pausing => R::ignore(state),
        },
        Input::Found => match state {
            State::Resource => R::advance(State::Server, &[FindServers, RequestMetadata]),
            State::Server | State::Assumed => R::advance(State::Planning, &[Plan]),
            State::Idle
            | State::Planning
            | State::Registering
            | State::Queued
            | State::User
            | State::Exchanging
            | State::Signing
            | State::Token
            | State::Pausing => R::ignore(state),
        },
        Input::Next | Input::Follow => match state {
            State::Resource | State::Server | State::Assumed => R::advance(state, &[RequestMetadata]),
            State::Idle
            | State::Planning
            | State::Registering
            | State::Queued
            | State::User
            | State::Exchanging
            | State::Signing
            | State::Token
            | State::Pausing => R::ignore(state),
        },
        Input::Assume => match state {
            State::Resource => R::advance(State::Assumed, &[AssumeOrigin, RequestMetadata]),
            State::Assumed => R::advance(State::Planning, &[AssumeEndpoints, Plan]),
            State::Idle
            | State::Server
            | State::Planning
            | State::Registering
            | State::Queued
            | State::User
            | State::Exchanging
            | State::Signing
            | State::Token
            | State::Pausing => R::ignore(state),
        },
        Input::Register => planned(state, State::Registering, &[Register]),
        Input::Browse => planned(state, State::User, &[Browse]),
        Input::Queue => planned(state, State::Queued, &[]),
        Input::Show => match state {
            State::Queued => R::advance(State::User, &[Browse]),
            State::Idle
            | State::Resource
            | State::Server
            | State::Assumed
            | State::Planning
            | State::Registering
            | State::User
            | State::Exchanging
            | State::Signing
            | State::Token
            | State::Pausing => R::ignore(state),
        },
        Input::Exchange => planned(state, State::Exchanging, &[Exchange]),
        Input::Sign => planned(state, State::Signing, &[Sign]),
        Input::Request => planned(state, State::Token, &[RequestToken]),
        Input::Registered => match state {
            State::Registering => R::advance(State::Planning, &[Clear, Plan]),
            State::Idle
            | State::Resource
            | State::Server
            | State::Assumed
            | State::Planning
            | State::Queued
            | State::User
            | State::Exchanging
            | State::Signing
            | State::Token
            | State::Pausing => R::ignore(state),
        },
        Input::Code => match state {
            State::User => R::advance(State::Planning, &[Clear, Plan]),
            State::Idle
            | State::Resource
            | State::Server
            | State::Assumed
            | State::Planning
            | State::Registering
            | State::Queued
            | State::Exchanging
            | State::Signing
            | State::Token
            | State::Pausing => R::ignore(state),
        },
        Input::Exchanged => match state {
            State::Exchanging => R::advance(State::Planning, &[Clear, Plan]),
            State::Idle
            | State::Resource
            | State::Server
            | State::Assumed
            | State::Planning
            | State::Registering
            | State::Queued
            | State::User
            | State::Signing
            | State::Token
            | State::Pausing => R::ignore(state),
        },
        Input::Signed => match state {
            State::Signing => R::advance(State::Token, &[Clear, RequestToken]),
            State::Idle
            | State::Resource
            | State::Server
            | State::Assumed
            | State::Planning
            | State::Registering
            | State::Queued
            | State::User
            | State::Exchanging
            | State::Token
            | State::Pausing => R::ignore(state),
        },
        Input::Issued => in_token(state, State::Idle, &[Clear, ReportIssued]),
        Input::Retry => match state {
            State::Exchanging | State::Token => R::advance(State::Pausing, &[Clear, Pause]),
            State::Idle
            | State::Resource
            | State::Server
            | State::Assumed
            | State::Planning
            | State::Registering
            | State::Queued
            | State::User
            | State::Signing
            | State::Pausing => R::ignore(state),
        },
        Input::Renew => in_token(state, State::Planning, &[Clear, Plan]),
        Input::Paused => match state {
            State::Pausing => R::advance(State::Planning, &[Plan]),
            State::Idle
            | State::Resource
            | State::Server
            | State::Assumed
            | State::Planning
            | State::Registering
            | State::Queued
            | State::User
            | State::Exchanging
            | State::Signing
            | State::Token => R::ignore(state),
        },
        Input::Unregistered => in_token(state, State::Planning, &[Clear, DropClient, Plan]),
        Input::Refused => match state {
            State::Planning | State::Token => R::advance(State::Idle, &[Clear, ReportRefused]),
            State::Idle
            | State::Resource
            | State::Server
            | State::Assumed
            | State::Registering
            | State::Queued
            | State::User
            | State::Exchanging
            | State::Signing
            | State::Pausing => R::ignore(state),
        },
        Input::Fail => match state {
            State::Idle | State::Pausing => R::ignore(state),
            State::Resource
            | State::Server
            | State::Assumed
            | State::Planning
            | State::Registering
            | State::Queued
            | State::User
            | State::Exchanging
            | State::Signing
            | State::Token => R::advance(State::Idle, &[Clear, ReportFailed]),
        },
        Input::Stop => match state {
            State::Idle | State::Planning => R::ignore(state),
            State::Resource
            | State::Server
            | State::Assumed
            | State::Registering
            | State::Queued
            | State::User
            | State::Exchanging
            | State::Signing
            | State::Token
            | State::Pausing => R::advance(State::Idle, &[Clear]),
        },
    }
}

const fn planned(state: State, next: State, effects: &'static [Effect]) -> Row<State, Effect> {
    match state {
        State::Planning => Row::advance(next, effects),
        State::Idle
        | State::Resource
        | State::Server
        | State::Assumed
        | State::Registering
        | State::Queued
        | State::User
        | State::Exchanging
        | State::Signing
        | State::Token
        | State::Pausing => Row::ignore(state),
    }
}

const fn in_token(state: State, next: State, effects: &'static [Effect]) -> Row<State, Effect> {
    match state {
        State::Token => Row::advance(next, effects),
        State::Idle
        | State::Resource
        | State::Server
        | State::Assumed
        | State::Planning
        | State::Registering
        | State::Queued
        | State::User
        | State::Exchanging
        | State::Signing
        | State::Pausing => Row::ignore(state),
    }
}

#[cfg(feature = "oauth")]
super::recorded!("authorization");
