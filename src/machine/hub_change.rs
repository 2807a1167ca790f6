#![doc = "What becomes of a server in a hub, and of its lists, when its entry is added, removed or changed so that it needs"]
#![doc = "another session."]
#![doc = ""]
#![doc = include_str!("hub_change.md")]

use super::{alphabet, hub_offer};

alphabet! {
    /// Whether the server has a session.
    Session {
        /// It has one.
        Current,
        /// It has none: it is new, or was disabled.
        Missing,
    }
}

alphabet! {
    /// The new entry of the server.
    Entry {
        /// It is enabled.
        Enabled,
        /// It is disabled, or was removed.
        Disabled,
    }
}

alphabet! {
    /// What becomes of the server.
    Change {
        /// It gets a session.
        Add,
        /// It gets another session, which is opened after the current one is closed.
        Renew,
        /// It loses its session, its lists and its names.
        Retire,
        /// Nothing.
        Nothing,
    }
}

/// What becomes of a server.
pub const fn decide(session: Session, entry: Entry) -> Change {
    match session {
        Session::Current => match entry {
            Entry::Enabled => Change::Renew,
            Entry::Disabled => Change::Retire,
        },
        Session::Missing => match entry {
            Entry::Enabled => Change::Add,
            Entry::Disabled => Change::Nothing,
        },
    }
}

alphabet! {
    /// Where the next session of a server finds it.
    Place {
        /// At the same command or address, so that the lists are likely the same.
        Same,
        /// At another one, or the session before failed.
        Other,
    }
}

alphabet! {
    /// The next session of a server.
    Next {
        /// It takes calls.
        Created,
        /// It failed at once, and offers nothing that could be called.
        Failed,
    }
}

/// What happens to the lists of a session that is replaced.
pub const fn lists(place: Place, next: Next) -> hub_offer::Input {
    match place {
        Place::Same => match next {
            Next::Created => hub_offer::Input::Replaced,
            Next::Failed => hub_offer::Input::Lost,
        },
        Place::Other => hub_offer::Input::Lost,
    }
}

/// [`decide`], recorded with the feature `rows`.
pub(crate) fn take(session: Session, entry: Entry) -> Change {
    #[cfg(feature = "rows")]
    super::rows::taken("hub_change", &[&session, &entry]);
    decide(session, entry)
}

/// [`lists`], recorded with the feature `rows`.
pub(crate) fn take_lists(place: Place, next: Next) -> hub_offer::Input {
    #[cfg(feature = "rows")]
    super::rows::taken("hub_change::lists", &[&place, &next]);
    lists(place, next)
}
