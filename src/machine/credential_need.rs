#![doc = "Who needs the next token: it decides for which scopes a grant is requested, and who is told if it fails."]
#![doc = ""]
#![doc = include_str!("credential_need.md")]

use super::credentials::Input as Outcome;
use super::{Row, alphabet};

alphabet! {
    /// Who needs the token.
    #[derive(Default)]
    State {
        /// No request: it is renewed before it expires, or the embedder requests it.
        #[default]
        Nobody,
        /// A refused request.
        Request,
        /// A refused request that requires further scopes.
        StepUp,
    }
}

alphabet! {
    /// What happens.
    Input {
        /// A refused request waits for a token.
        Wait,
        /// A refused request waits for further scopes.
        StepUp,
        /// The requests that wait are told that there is a token, or none.
        Told,
        /// The credentials are given up.
        SignedOut,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Tell the requests that wait that there is no token.
    Tell,
}

/// Returns the row for a state and an input.
pub const fn step(state: State, input: Input) -> Row<State, Effect> {
    type R = Row<State, Effect>;
    match state {
        State::Nobody => match input {
            Input::Wait => R::advance(State::Request, &[]),
            Input::StepUp => R::advance(State::StepUp, &[]),
            Input::Told | Input::SignedOut => R::ignore(state),
        },
        State::Request => match input {
            Input::StepUp => R::advance(State::StepUp, &[]),
            Input::Told => R::advance(State::Nobody, &[]),
            Input::SignedOut => R::advance(State::Nobody, &[Effect::Tell]),
            Input::Wait => R::ignore(state),
        },
        State::StepUp => match input {
            Input::Told => R::advance(State::Nobody, &[]),
            Input::SignedOut => R::advance(State::Nobody, &[Effect::Tell]),
            Input::Wait | Input::StepUp => R::ignore(state),
        },
    }
}

#[cfg(feature = "oauth")]
super::recorded!("credential_need");

#[cfg(feature = "oauth")]
impl State {
    /// Takes an input that nothing but the next state follows from.
    pub(crate) fn take(&mut self, input: Input) {
        *self = take(*self, input).next;
    }
}

alphabet! {
    /// The access token that there is.
    Token {
        /// It can be used.
        Alive,
        /// There is none, it expired, or the server refused it.
        Over,
    }
}

alphabet! {
    /// What failed.
    Attempt {
        /// A refresh.
        Refresh,
        /// A new grant.
        Grant,
    }
}

alphabet! {
    /// Whether a request waits for the token.
    Waiting {
        /// None does.
        Nobody,
        /// One does.
        Request,
    }
}

impl State {
    /// Whether a request waits.
    pub const fn waiting(self) -> Waiting {
        match self {
            Self::Nobody => Waiting::Nobody,
            Self::Request | Self::StepUp => Waiting::Request,
        }
    }
}

/// What the failure of an attempt is to the [`credentials`](super::credentials).
#[doc = ""]
#[doc = include_str!("credential_need_failed.md")]
pub const fn failed(token: Token, attempt: Attempt, waiting: Waiting) -> Outcome {
    match token {
        Token::Over => Outcome::Failed,
        Token::Alive => match attempt {
            Attempt::Grant => Outcome::FailedAlive,
            Attempt::Refresh => match waiting {
                Waiting::Nobody => Outcome::FailedAlive,
                // The server refused a request with the token, so that it is told.
                Waiting::Request => Outcome::Failed,
            },
        },
    }
}

/// [`failed`], recorded with the feature `rows`.
#[cfg(feature = "oauth")]
pub(crate) fn take_failed(token: Token, attempt: Attempt, waiting: Waiting) -> Outcome {
    #[cfg(feature = "rows")]
    super::rows::taken("credential_need::failed", &[&token, &attempt, &waiting]);
    failed(token, attempt, waiting)
}
