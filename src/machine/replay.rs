//! Whether a request may run twice: whether it is sent again although it was sent before, and its response is lost;
//! and what the loss of a request means.

use super::resend::Resend;
use super::{alphabet, request, task};

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

alphabet! {
    /// Whether the embedder trusts the server's annotations.
    Trust {
        /// It does.
        Trusted,
        /// It does not.
        Untrusted,
    }
}

/// Returns the decision for these inputs. `again`: whether it may be sent again as often as it was so far.
pub(crate) const fn decide(carrier: Carrier, word: Word, effects: Effects, trust: Trust, again: Resend) -> Resend {
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

alphabet! {
    /// What broke.
    Broke {
        /// The exchange of the request; the connection remains.
        Exchange,
        /// The connection.
        Connection,
    }
}

alphabet! {
    /// Whether the request may have reached the server.
    Sent {
        /// It may.
        Yes,
        /// It did not.
        No,
    }
}

alphabet! {
    /// What the request is about.
    About {
        /// The call itself.
        Call,
        /// The task that the server runs the call as. It may be repeated.
        Task,
    }
}

/// What the loss of a request is an input of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// Of the [`request`] table.
    Request(request::Input),
    /// Of the [`task`] table.
    Task(task::Input),
}

/// What the loss of a request means. `twice`: what [`decide`] says of a call that was sent.
pub(crate) const fn lost(broke: Broke, sent: Sent, about: About, twice: Resend) -> Lost {
    match sent {
        Sent::No => match broke {
            Broke::Exchange => Lost::Request(request::Input::NotRun),
            Broke::Connection => Lost::Request(request::Input::Lost),
        },
        Sent::Yes => match about {
            About::Task => match broke {
                Broke::Exchange => Lost::Task(task::Input::Broken),
                Broke::Connection => Lost::Request(request::Input::LostTask),
            },
            About::Call => match twice {
                Resend::Again => Lost::Request(request::Input::LostReplayable),
                Resend::End => Lost::Request(request::Input::Lost),
            },
        },
    }
}

/// [`lost`], recorded with the feature `rows`.
pub(crate) fn take_lost(broke: Broke, sent: Sent, about: About, twice: Resend) -> Lost {
    #[cfg(feature = "rows")]
    super::rows::taken("replay::lost", &[&broke, &sent, &about, &twice]);
    lost(broke, sent, about, twice)
}

/// [`decide`], recorded with the feature `rows`.
pub(crate) fn take(carrier: Carrier, word: Word, effects: Effects, trust: Trust, again: Resend) -> Resend {
    #[cfg(feature = "rows")]
    super::rows::taken("replay", &[&carrier, &word, &effects, &trust, &again]);
    decide(carrier, word, effects, trust, again)
}
