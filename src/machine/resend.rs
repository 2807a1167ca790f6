//! How often a request is sent again, and for which reason. The limits ensure that every request ends.

use super::alphabet;

alphabet! {
    /// Why a request may be sent again.
    Reason {
        /// Its connection or exchange broke after it was sent, and it may run twice.
        Lost,
        /// Its session expired, and it did not run or may run twice.
        Expired,
        /// It was refused for lack of authorization.
        Unauthorized,
        /// It was refused because of headers that the tool's schema requires; the schema is requested again.
        Headers,
        /// The user visited the URLs that the server required.
        Urls,
        /// It is a page of a list or `server/discover`, and its exchange broke.
        Broken,
    }
}

alphabet! {
    /// How often it was sent again for this reason.
    #[derive(Default)]
    Used {
        /// Never.
        #[default]
        Never,
        /// Once.
        Once,
        /// Twice.
        Twice,
        /// Three times or more.
        Thrice,
    }
}

alphabet! {
    /// What happens to the request.
    Resend {
        /// It is sent again.
        Again,
        /// It ends.
        End,
    }
}

impl Used {
    /// The count after one more time.
    #[must_use]
    pub(crate) const fn more(self) -> Self {
        match self {
            Self::Never => Self::Once,
            Self::Once => Self::Twice,
            Self::Twice | Self::Thrice => Self::Thrice,
        }
    }
}

/// Returns the decision for these inputs.
pub(crate) const fn decide(reason: Reason, used: Used) -> Resend {
    match reason {
        Reason::Lost | Reason::Broken => match used {
            Used::Never | Used::Once => Resend::Again,
            Used::Twice | Used::Thrice => Resend::End,
        },
        Reason::Expired | Reason::Headers | Reason::Urls => match used {
            Used::Never => Resend::Again,
            Used::Once | Used::Twice | Used::Thrice => Resend::End,
        },
        Reason::Unauthorized => match used {
            Used::Never | Used::Once | Used::Twice => Resend::Again,
            Used::Thrice => Resend::End,
        },
    }
}

alphabet! {
    /// How a request ends that was not sent since it was last queued.
    Unsent {
        /// It did not run.
        NotSent,
        /// It may have run: it was sent earlier.
        Unknown,
    }
}

/// How a queued request ends, by how often it was sent again after its connection broke.
pub(crate) const fn unsent(lost: Used) -> Unsent {
    match lost {
        Used::Never => Unsent::NotSent,
        Used::Once | Used::Twice | Used::Thrice => Unsent::Unknown,
    }
}

/// [`decide`], recorded with the feature `rows`.
pub(crate) fn take(reason: Reason, used: Used) -> Resend {
    #[cfg(feature = "rows")]
    super::rows::taken("resend", &[&reason, &used]);
    decide(reason, used)
}

/// [`unsent`], recorded with the feature `rows`.
pub(crate) fn take_unsent(lost: Used) -> Unsent {
    #[cfg(feature = "rows")]
    super::rows::taken("resend::unsent", &[&lost]);
    unsent(lost)
}
