//! How the engine responds to a request of the server, or to a requirement of input (specification 2025-11-25,
//! "Roots", "Sampling", "Elicitation"; 2026-07-28, "Multi Round-Trip Requests").

use super::{QuirkKind, alphabet};

alphabet! {
    /// How the server sends the request.
    Asked {
        /// As a request, in the legacy era or before the era is known.
        Legacy,
        /// As a request, in the modern era, which has no server requests.
        Modern,
        /// As an `input_required` result, in the modern era.
        Input,
    }
}

alphabet! {
    /// The method of the request.
    Method {
        /// `ping`.
        Ping,
        /// `roots/list`.
        Roots,
        /// `elicitation/create`, by a form.
        Form,
        /// `elicitation/create`, at a URL.
        Url,
        /// `elicitation/create`, in an unknown mode.
        OtherMode,
        /// `sampling/createMessage`.
        Sampling,
        /// `sampling/createMessage` whose tool results do not fit its tool uses.
        SamplingInvalid,
        /// `sampling/createMessage` that violates the embedder's policy.
        SamplingDenied,
        /// An unknown method.
        Other,
    }
}

alphabet! {
    /// Whether the client declared the capability on this connection.
    Declared {
        /// It did.
        Declared,
        /// It declared elicitation, but not this mode; or sampling, but not with tools.
        OtherMode,
        /// It did not.
        Undeclared,
    }
}

alphabet! {
    /// Whether the limits allow another open request.
    Room {
        /// They do.
        Free,
        /// They do not.
        Full,
    }
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Respond with an empty result.
    Empty,
    /// Respond with the roots.
    Roots,
    /// Report the request to the embedder.
    Embedder,
    /// Refuse the method: -32601.
    RefuseMethod,
    /// Refuse the mode, or tools: -32602.
    RefuseMode,
    /// Refuse the parameters: -32602.
    RefuseParams,
    /// Refuse by policy: -1.
    RefusePolicy,
    /// Refuse, because too many are open: -32603.
    RefuseFull,
    /// Do not respond, and record the deviation.
    Ignore(QuirkKind),
    /// Give no input: the call ends with the server's requirement.
    Decline,
}

/// Returns the decision for these inputs.
pub(crate) const fn decide(asked: Asked, method: Method, declared: Declared, room: Room) -> Answer {
    match asked {
        Asked::Modern => Answer::Ignore(QuirkKind::ServerRequest),
        Asked::Legacy | Asked::Input => match method {
            Method::Ping => Answer::Empty,
            Method::Roots => match declared {
                Declared::Declared => Answer::Roots,
                Declared::OtherMode | Declared::Undeclared => undeclared(asked),
            },
            Method::Form | Method::Url => match declared {
                Declared::Declared => waiting(asked, room),
                Declared::OtherMode => Answer::RefuseMode,
                Declared::Undeclared => undeclared(asked),
            },
            Method::OtherMode => match declared {
                Declared::Declared | Declared::OtherMode => Answer::RefuseMode,
                Declared::Undeclared => undeclared(asked),
            },
            Method::Sampling => match declared {
                Declared::Declared => waiting(asked, room),
                Declared::OtherMode => Answer::RefuseMode,
                Declared::Undeclared => undeclared(asked),
            },
            Method::SamplingInvalid => match declared {
                Declared::Declared => Answer::RefuseParams,
                Declared::OtherMode => Answer::RefuseMode,
                Declared::Undeclared => undeclared(asked),
            },
            Method::SamplingDenied => match declared {
                Declared::Declared => Answer::RefusePolicy,
                Declared::OtherMode => Answer::RefuseMode,
                Declared::Undeclared => undeclared(asked),
            },
            Method::Other => Answer::RefuseMethod,
        },
    }
}

/// The inputs of one result are bounded together, where they are read.
const fn waiting(asked: Asked, room: Room) -> Answer {
    match asked {
        Asked::Input => Answer::Embedder,
        Asked::Legacy | Asked::Modern => match room {
            Room::Free => Answer::Embedder,
            Room::Full => Answer::RefuseFull,
        },
    }
}

/// The decision for a known capability that the client did not declare.
const fn undeclared(asked: Asked) -> Answer {
    match asked {
        Asked::Legacy | Asked::Modern => Answer::RefuseMethod,
        Asked::Input => Answer::Decline,
    }
}

/// [`decide`], recorded with the feature `rows`.
pub(crate) fn take(asked: Asked, method: Method, declared: Declared, room: Room) -> Answer {
    #[cfg(feature = "rows")]
    super::rows::taken("server_request", &[&asked, &method, &declared, &room]);
    decide(asked, method, declared, room)
}
