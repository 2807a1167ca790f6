#![doc = "When a server of a hub rests, if its entry limits how long its program runs."]
#![doc = ""]
#![doc = include_str!("hub_rest.md")]

use super::alphabet;

alphabet! {
    /// The server's session.
    Session {
        /// It is ready.
        Up,
        /// It is in another state.
        Other,
    }
}

alphabet! {
    /// Whether the session is used now.
    Use {
        /// Nothing is in flight or waits to be polled.
        Unused,
        /// Something is.
        Used,
    }
}

alphabet! {
    /// Whether it was used lately.
    Clock {
        /// It was, and its connection is not too old.
        Running,
        /// It was not, or its connection is too old.
        Over,
    }
}

alphabet! {
    /// When the question arises.
    Occasion {
        /// At an input or a command.
        Input,
        /// While it is polled.
        Polled,
    }
}

alphabet! {
    /// When it rests.
    Rest {
        /// Now.
        Now,
        /// At its deadline, or at the next input if that is over.
        Later,
        /// Not before something else happens.
        Never,
    }
}

/// When a server rests.
pub const fn decide(session: Session, used: Use, clock: Clock, occasion: Occasion) -> Rest {
    match session {
        Session::Up => match used {
            Use::Unused => match clock {
                Clock::Running => Rest::Later,
                Clock::Over => match occasion {
                    Occasion::Input => Rest::Now,
                    // `poll` only takes from a queue.
                    Occasion::Polled => Rest::Later,
                },
            },
            Use::Used => Rest::Never,
        },
        Session::Other => Rest::Never,
    }
}

/// [`decide`], recorded with the feature `rows`.
pub(crate) fn take(session: Session, used: Use, clock: Clock, occasion: Occasion) -> Rest {
    #[cfg(feature = "rows")]
    super::rows::taken("hub_rest", &[&session, &used, &clock, &occasion]);
    decide(session, used, clock, occasion)
}
