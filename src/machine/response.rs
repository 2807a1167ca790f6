//! The request that a response belongs to, by the response's id.

use super::{QuirkKind, alphabet};

alphabet! {
    /// What the response's id names.
    Id {
        /// A request that waits for its response.
        Waiting,
        /// A request that waits for its response, by an id of another type: a string, or a number with a fraction.
        WaitingLoose,
        /// A request that timed out or was cancelled.
        Abandoned,
        /// A request of this connection that is over, or that was not sent yet.
        Over,
        /// No request of this connection, and the response came in the HTTP exchange of a request that waits.
        ForeignInExchange,
        /// No request of this connection, and one request waits for its response.
        ForeignOneWaits,
        /// No request of this connection, and no request waits, or several wait.
        Foreign,
    }
}

alphabet! {
    /// What the response contains.
    Body {
        /// A result.
        Result,
        /// An error.
        Error,
    }
}

/// The request that a response belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    /// The one that the id names.
    Named,
    /// As [`Named`](Self::Named), and the deviation is recorded.
    NamedAs(QuirkKind),
    /// The one in whose exchange it came: a server that cannot read a request does not know its id.
    Exchange,
    /// The only one that waits; the deviation is recorded.
    OnlyAs(QuirkKind),
    /// None: it is a late response, which is counted.
    Late,
    /// None; the deviation is recorded.
    NoneAs(QuirkKind),
}

/// Returns the decision for these inputs.
pub(crate) const fn decide(id: Id, body: Body) -> Match {
    match id {
        Id::Waiting => Match::Named,
        Id::WaitingLoose => Match::NamedAs(QuirkKind::IdType),
        Id::Abandoned => Match::Late,
        Id::Over => Match::NoneAs(QuirkKind::UnknownId),
        Id::ForeignInExchange => match body {
            Body::Error => Match::Exchange,
            Body::Result => Match::NoneAs(QuirkKind::UnknownId),
        },
        Id::ForeignOneWaits => match body {
            Body::Error => Match::OnlyAs(QuirkKind::IdNull),
            Body::Result => Match::NoneAs(QuirkKind::UnknownId),
        },
        Id::Foreign => match body {
            Body::Error => Match::NoneAs(QuirkKind::IdNull),
            Body::Result => Match::NoneAs(QuirkKind::UnknownId),
        },
    }
}

/// [`decide`], recorded with the feature `rows`.
pub(crate) fn take(id: Id, body: Body) -> Match {
    #[cfg(feature = "rows")]
    super::rows::taken("response", &[&id, &body]);
    decide(id, body)
}
