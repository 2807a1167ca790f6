//! Which deviations of the shape of what is received are recorded. The decoder reports the shape.

use super::{Decision, QuirkKind, alphabet};

alphabet! {
    /// The shape of what is received.
    Shape {
        /// A batch in version 2025-03-26, which has batches.
        Batch,
        /// A batch in any other version, or before the version is known.
        StrayBatch,
        /// What is no message.
        Noise,
        /// A message whose `jsonrpc` is not `"2.0"`.
        Version,
        /// A response with a null result or a null error beside the other.
        NullMember,
        /// A response with a result and an error; the error counts.
        ResultAndError,
        /// A notification with `id: null`.
        NullId,
    }
}

/// Whether it is taken, and the deviation.
pub(crate) const fn decide(shape: Shape) -> Decision {
    match shape {
        Shape::Batch => Decision::Allow,
        Shape::StrayBatch => Decision::AllowAs(QuirkKind::Batch),
        Shape::Noise => Decision::WithholdAs(QuirkKind::Noise),
        Shape::Version => Decision::AllowAs(QuirkKind::JsonrpcVersion),
        Shape::NullMember => Decision::AllowAs(QuirkKind::ErrorNull),
        Shape::ResultAndError => Decision::AllowAs(QuirkKind::ResultAndError),
        Shape::NullId => Decision::AllowAs(QuirkKind::IdNull),
    }
}

/// [`decide`], recorded with the feature `rows`.
pub(crate) fn take(shape: Shape) -> Decision {
    #[cfg(feature = "rows")]
    super::rows::taken("shape", &[&shape]);
    decide(shape)
}
