#![doc = "Whether a request may run twice: whether it is sent again although it was sent before, and its response is lost."]
#![doc = ""]
#![doc = include_str!("replay.md")]

use super::alphabet;
use super::approval::Trust;
use super::resend::Resend;

alphabet! {
    /// How messages are carried, and whether another connection follows a lost one.
    Carrier {
        /// One stream in each direction; reconnects are turned off.
        LastPipe,
        /// One stream in each direction; another connection follows.
        Pipe,
        /// An HTTP exchange for each message, which may be repeated on the same connection.
        Http,
    }
}

alphabet! {
    /// The embedder's word for this request.
    Word {
        /// It may run twice.
        Allowed,
        /// It must not run twice.
        Forbidden,
        /// The embedder did not say.
        Unsaid,
    }
}

alphabet! {
    /// What is known of the request's effects.
    Effects {
        /// Its method only reads.
        Reads,
        /// It calls a tool that the server declares as read-only or idempotent.
        Harmless,
        /// Nothing is known.
        Unknown,
    }
}

/// Returns the decision for these inputs. `again`: whether it may be sent again as often as it was so far.
pub const fn decide(carrier: Carrier, word: Word, effects: Effects, trust: Trust, again: Resend) -> Resend {
    match carrier {
        Carrier::LastPipe => Resend::End,
        Carrier::Pipe => match word {
            Word::Allowed => again,
            Word::Forbidden => Resend::End,
            Word::Unsaid => match effects {
                Effects::Harmless => match trust {
                    Trust::Trusted => again,
                    Trust::Untrusted => Resend::End,
                },
                Effects::Reads | Effects::Unknown => Resend::End,
            },
        },
        Carrier::Http => match word {
            Word::Allowed => again,
            Word::Forbidden => Resend::End,
            Word::Unsaid => match effects {
                Effects::Reads => again,
                Effects::Harmless => match trust {
                    Trust::Trusted => again,
                    Trust::Untrusted => Resend::End,
                },
                Effects::Unknown => Resend::End,
            },
        },
    }
}

/// [`decide`], recorded with the feature `rows`.
pub(crate) fn take(carrier: Carrier, word: Word, effects: Effects, trust: Trust, again: Resend) -> Resend {
    #[cfg(feature = "rows")]
    super::rows::taken("replay", &[&carrier, &word, &effects, &trust, &again]);
    decide(carrier, word, effects, trust, again)
}
