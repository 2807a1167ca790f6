//! What it means that the server requires input before it goes on: in the result of a call (specification 2026-07-28,
//! "Multi Round-Trip Requests"), and in the status of a task. The number of such results of a request has its own
//! limit.

use super::{alphabet, task};

alphabet! {
    /// The inputs that were not required before.
    Inputs {
        /// None.
        None,
        /// The engine has all of them.
        Known,
        /// The embedder has to provide at least one; the engine may have others.
        Wanted,
        /// One of them is of a kind that the client does not offer.
        Declined,
        /// One of them is invalid, violates the policy, or exceeds a limit.
        Refused,
    }
}

alphabet! {
    /// Whether the result has a `requestState`, with which the call is made again.
    RequestState {
        /// It has.
        Present,
        /// It has not.
        Absent,
    }
}

alphabet! {
    /// What the result of a call means that requires input.
    Meaning {
        /// The embedder provides input, and the call is made again.
        Ask,
        /// The call is made again.
        Retry,
        /// The call ends with the requirement.
        End,
        /// The result is invalid.
        Invalid,
    }
}

/// What the result of a call means that requires input.
pub(crate) const fn decide(inputs: Inputs, state: RequestState) -> Meaning {
    match inputs {
        Inputs::None => match state {
            RequestState::Present => Meaning::Retry,
            RequestState::Absent => Meaning::Invalid,
        },
        Inputs::Known => Meaning::Retry,
        Inputs::Wanted => Meaning::Ask,
        Inputs::Declined => Meaning::End,
        Inputs::Refused => Meaning::Invalid,
    }
}

/// The input of the [`task`] table when the status of a task requires input.
pub(crate) const fn of_task(inputs: Inputs) -> task::Input {
    match inputs {
        Inputs::None => task::Input::InputPending,
        Inputs::Known => task::Input::InputKnown,
        Inputs::Wanted => task::Input::InputWanted,
        Inputs::Declined | Inputs::Refused => task::Input::Invalid,
    }
}

/// [`decide`], recorded with the feature `rows`.
pub(crate) fn take(inputs: Inputs, state: RequestState) -> Meaning {
    #[cfg(feature = "rows")]
    super::rows::taken("required_input", &[&inputs, &state]);
    decide(inputs, state)
}

/// [`of_task`], recorded with the feature `rows`.
pub(crate) fn take_of_task(inputs: Inputs) -> task::Input {
    #[cfg(feature = "rows")]
    super::rows::taken("required_input::of_task", &[&inputs]);
    of_task(inputs)
}
