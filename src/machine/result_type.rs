//! What a result is, by its type (specification 2026-07-28, "Overview", Result types). A legacy result has no type.

use super::alphabet;
use crate::protocol::Era;

alphabet! {
    /// The request that the result answers.
    Request {
        /// A request of the embedder.
        Call,
        /// A request for the status of a task.
        TaskStatus,
        /// Any other request of the engine.
        Engine,
    }
}

alphabet! {
    /// The value of `resultType`.
    Type {
        /// None.
        Absent,
        /// `complete`.
        Complete,
        /// `input_required`.
        InputRequired,
        /// `task`, where the client enables tasks and the request may have one. In 2025-11-25: the result describes a
        /// task.
        Task,
        /// One that an extension defines, which the client declares.
        Extension,
        /// Any other.
        Unknown,
    }
}

alphabet! {
    /// What the result is.
    Meaning {
        /// The whole result.
        Complete,
        /// A round of input, which is required first.
        Input,
        /// A task, which the request runs as.
        Task,
        /// Invalid.
        Invalid,
    }
}

/// What a result is.
pub(crate) const fn decide(era: Era, request: Request, kind: Type) -> Meaning {
    match era {
        Era::Legacy => match request {
            Request::Call => match kind {
                Type::Task => Meaning::Task,
                Type::Absent | Type::Complete | Type::InputRequired | Type::Extension | Type::Unknown => {
                    Meaning::Complete
                }
            },
            Request::TaskStatus | Request::Engine => Meaning::Complete,
        },
        Era::Modern => match request {
            Request::Call => match kind {
                Type::Absent | Type::Complete | Type::Extension => Meaning::Complete,
                Type::InputRequired => Meaning::Input,
                Type::Task => Meaning::Task,
                Type::Unknown => Meaning::Invalid,
            },
            Request::TaskStatus => match kind {
                Type::Absent | Type::Complete | Type::Task => Meaning::Complete,
                Type::InputRequired | Type::Extension | Type::Unknown => Meaning::Invalid,
            },
            Request::Engine => match kind {
                Type::Absent | Type::Complete => Meaning::Complete,
                Type::InputRequired | Type::Task | Type::Extension | Type::Unknown => Meaning::Invalid,
            },
        },
    }
}

/// [`decide`], recorded with the feature `rows`.
pub(crate) fn take(era: Era, request: Request, kind: Type) -> Meaning {
    #[cfg(feature = "rows")]
    super::rows::taken("result_type", &[&era, &request, &kind]);
    decide(era, request, kind)
}
