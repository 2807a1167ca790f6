#![doc = "How often a request is sent again, and for which reason: so each of them ends."]
#![doc = ""]
#![doc = include_str!("resend.md")]

use super::alphabet;

alphabet! {
    /// Why a request could be sent again.
    Reason {
        /// Its connection or exchange broke after it was sent; it may run twice.
        Lost,
        /// The server forgot the session, and did not run it or may run it twice.
        Expired,
        /// It was refused for lack of authorization.
        Unauthorized,
        /// It was refused for headers that the tool's schema asks for; the schema is read again.
        Headers,
        /// It is a page of a list, or `server/discover`, whose exchange broke.
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
        /// Three times, or more often.
        Thrice,
    }
}

alphabet! {
    /// What becomes of the request.
    Resend {
        /// It is sent again.
        Again,
        /// It ends.
        End,
    }
}

impl Used {
    /// Once more.
    #[must_use]
    pub const fn more(self) -> Self {
        match self {
            Self::Never => Self::Once,
            Self::Once => Self::Twice,
            Self::Twice | Self::Thrice => Self::Thrice,
        }
    }
}

/// Decides.
pub const fn decide(reason: Reason, used: Used) -> Resend {
    match reason {
        Reason::Lost | Reason::Broken => match used {
            Used::Never | Used::Once => Resend::Again,
            Used::Twice | Used::Thrice => Resend::End,
        },
        Reason::Expired | Reason::Headers => match used {
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
    /// How a request ends that was not sent since it was queued.
    Unsent {
        /// It did not run.
        NotSent,
        /// It may have run: it was sent before.
        Unknown,
    }
}

/// How a request ends that waits to be sent, by how often it was sent again after its connection broke.
pub const fn unsent(lost: Used) -> Unsent {
    match lost {
        Used::Never => Unsent::NotSent,
        Used::Once | Used::Twice | Used::Thrice => Unsent::Unknown,
    }
}

/// [`decide`], recorded where rows are counted.
pub(crate) fn take(reason: Reason, used: Used) -> Resend {
    #[cfg(feature = "rows")]
    super::rows::taken("resend", &[&reason, &used]);
    decide(reason, used)
}

/// [`unsent`], recorded where rows are counted.
pub(crate) fn take_unsent(lost: Used) -> Unsent {
    #[cfg(feature = "rows")]
    super::rows::taken("resend::unsent", &[&lost]);
    unsent(lost)
}
