//! Whether a queued request may be sent. Requests of the engine come first, then those of the embedder in the order
//! in which they were made; a request passes those before it that wait.

use super::alphabet;

alphabet! {
    /// Whether the limit of requests in flight allows another one.
    Room {
        /// It does.
        Free,
        /// It does not.
        Full,
    }
}

alphabet! {
    /// How far the connection is.
    Phase {
        /// There is none that takes messages.
        Down,
        /// Handshake or discovery is in progress.
        Connecting,
        /// The client is ready.
        Ready,
    }
}

alphabet! {
    /// The queued request.
    Queued {
        /// A request of the engine.
        Engine,
        /// A call of a tool.
        Tool,
        /// Another request of the embedder.
        Other,
    }
}

alphabet! {
    /// Whether a tool may be called.
    Tools {
        /// It may.
        Free,
        /// Another call is in flight or runs as a task, and calls are not parallel.
        Busy,
        /// The binding holds calls back.
        Held,
    }
}

alphabet! {
    /// What becomes of the request.
    Turn {
        /// It is sent.
        Send,
        /// It waits.
        Wait,
    }
}

/// Whether a queued request may be sent.
#[inline]
pub(crate) const fn decide(room: Room, phase: Phase, queued: Queued, tools: Tools) -> Turn {
    match room {
        Room::Full => Turn::Wait,
        Room::Free => match phase {
            Phase::Down => Turn::Wait,
            Phase::Connecting => match queued {
                Queued::Engine => Turn::Send,
                Queued::Tool | Queued::Other => Turn::Wait,
            },
            Phase::Ready => match queued {
                Queued::Engine | Queued::Other => Turn::Send,
                Queued::Tool => match tools {
                    Tools::Free => Turn::Send,
                    Tools::Busy | Tools::Held => Turn::Wait,
                },
            },
        },
    }
}

/// [`decide`], recorded with the feature `rows`.
#[inline]
pub(crate) fn take(room: Room, phase: Phase, queued: Queued, tools: Tools) -> Turn {
    #[cfg(feature = "rows")]
    super::rows::taken("turn", &[&room, &phase, &queued, &tools]);
    decide(room, phase, queued, tools)
}
