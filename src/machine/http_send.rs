#![doc = "Whether a message is sent over HTTP now, or waits for an exchange."]
#![doc = ""]
#![doc = include_str!("http_send.md")]

use super::alphabet;

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
        /// It is left out. So many messages wait only if the server does not accept messages.
        LeaveOut,
    }
}

/// Returns the decision for these inputs.
pub const fn decide(message: Message, phase: Phase, room: Room) -> Decision {
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

/// [`decide`], recorded with the feature `rows`.
#[cfg(feature = "http")]
pub(crate) fn take(message: Message, phase: Phase, room: Room) -> Decision {
    #[cfg(feature = "rows")]
    super::rows::taken("http_send", &[&message, &phase, &room]);
    decide(message, phase, room)
}
