//! What the server's error of a call means (specification 2025-11-25, "Elicitation", URL Elicitation Required Error).

use super::alphabet;
use super::resend::Resend;
use crate::protocol::Era;

alphabet! {
    /// The error.
    Error {
        /// -32042, with elicitations at URLs.
        Urls,
        /// Any other.
        Other,
    }
}

alphabet! {
    /// Whether the client declared elicitation at URLs on this connection.
    Urls {
        /// It did.
        Declared,
        /// It did not.
        Undeclared,
    }
}

alphabet! {
    /// What the error means.
    Meaning {
        /// The user visits the URLs, and the call is made again.
        Input,
        /// The call ends with it.
        End,
    }
}

/// What the error of a call means. `again`: whether the call may be made again for this reason. In the modern era, a result
/// requires the URLs.
pub(crate) const fn decide(error: Error, era: Era, urls: Urls, again: Resend) -> Meaning {
    match error {
        Error::Other => Meaning::End,
        Error::Urls => match era {
            Era::Modern => Meaning::End,
            Era::Legacy => match urls {
                Urls::Undeclared => Meaning::End,
                Urls::Declared => match again {
                    Resend::Again => Meaning::Input,
                    Resend::End => Meaning::End,
                },
            },
        },
    }
}

/// [`decide`], recorded with the feature `rows`.
pub(crate) fn take(error: Error, era: Era, urls: Urls, again: Resend) -> Meaning {
    #[cfg(feature = "rows")]
    super::rows::taken("call_error", &[&error, &era, &urls, &again]);
    decide(error, era, urls, again)
}
