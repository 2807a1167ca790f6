//! Whether a message is sent over HTTP now, or waits for an exchange; and what happens to a notification or a
//! response that is not delivered in time.

use super::{QuirkKind, alphabet};

alphabet! {
    /// The message.
    Message {
        /// A request.
        Request,
        /// `notifications/initialized`, without which the handshake does not end.
        Initialized,
        /// Any other notification.
        Notification,
        /// A response to a request of the server.
        Response,
    }
}

alphabet! {
    /// Whether `notifications/initialized` was sent and not accepted yet.
    Phase {
        /// No: every message may be sent.
        Free,
        /// Yes: only responses may be sent.
        Accepting,
    }
}

alphabet! {
    /// Whether the limits allow another exchange of a message without a response.
    Room {
        /// They do.
        Free,
        /// As many exchanges as [`Limits::in_flight`] carry such messages, or another message waits already.
        ///
        /// [`Limits::in_flight`]: crate::Limits::in_flight
        Taken,
        /// As above, and as many messages wait as [`Limits::output`] allows.
        ///
        /// [`Limits::output`]: crate::Limits::output
        Full,
    }
}

alphabet! {
    /// What happens to the message.
    Decision {
        /// It is sent.
        Send,
        /// It waits until `notifications/initialized` is accepted.
        Hold,
        /// It waits for room.
        Queue,
        /// It is dropped, as [`undelivered`] decides.
        LeaveOut,
    }
}

/// Returns the decision for these inputs.
pub(crate) const fn decide(message: Message, phase: Phase, room: Room) -> Decision {
    match message {
        Message::Request => match phase {
            Phase::Free => Decision::Send,
            Phase::Accepting => Decision::Hold,
        },
        Message::Initialized => Decision::Send,
        Message::Notification => match phase {
            Phase::Free => match room {
                Room::Free => Decision::Send,
                Room::Taken => Decision::Queue,
                Room::Full => Decision::LeaveOut,
            },
            Phase::Accepting => Decision::Hold,
        },
        Message::Response => match room {
            Room::Free => Decision::Send,
            Room::Taken | Room::Full => Decision::Queue,
        },
    }
}

alphabet! {
    /// How far a notification or a response came that is not delivered in time.
    Reached {
        /// There is no room for it to wait.
        Nothing,
        /// It waits for an exchange, which earlier messages use.
        Queue,
        /// It has an exchange that was not polled.
        Unpolled,
        /// It was polled, and the server did not respond.
        Server,
    }
}

/// What happens to a notification or a response that is not delivered in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undelivered {
    /// It is dropped and counted. The deviation is recorded: the server does not accept messages.
    DropAs(QuirkKind),
    /// It is dropped and counted.
    Drop,
    /// Its exchange is dropped. The server may have received it.
    Release,
}

/// Decides what happens to a notification or a response that is not delivered in time.
pub(crate) const fn undelivered(reached: Reached) -> Undelivered {
    match reached {
        Reached::Nothing | Reached::Queue => Undelivered::DropAs(QuirkKind::Undelivered),
        Reached::Unpolled => Undelivered::Drop,
        Reached::Server => Undelivered::Release,
    }
}

/// [`undelivered`], recorded with the feature `rows`.
#[cfg(feature = "http")]
pub(crate) fn take_undelivered(reached: Reached) -> Undelivered {
    #[cfg(feature = "rows")]
    super::rows::taken("http_send::undelivered", &[&reached]);
    undelivered(reached)
}

/// [`decide`], recorded with the feature `rows`.
#[cfg(feature = "http")]
pub(crate) fn take(message: Message, phase: Phase, room: Room) -> Decision {
    #[cfg(feature = "rows")]
    super::rows::taken("http_send", &[&message, &phase, &room]);
    decide(message, phase, room)
}
