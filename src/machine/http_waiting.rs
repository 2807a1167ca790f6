//! What becomes of what the server refused for lack of authorization, after [`http_refusal`](super::http_refusal)
//! decided that it is sent again when there is one.

use super::alphabet;
use super::http_refusal::Authority;

alphabet! {
    /// What was refused.
    Refused {
        /// A request of the embedder, which the engine keeps.
        Call,
        /// A request of the engine.
        Request,
        /// A notification or a response.
        Message,
        /// The handshake; its connection ends.
        Connection,
        /// The GET stream.
        Stream,
    }
}

alphabet! {
    /// Whether what it lacked is there by now.
    Lack {
        /// Another token or nonce is there.
        Over,
        /// It is being obtained, or cannot be.
        Lasting,
    }
}

alphabet! {
    /// Whether there is room for a message that waits.
    Room {
        /// There is.
        Free,
        /// As many wait as may be in flight.
        Full,
    }
}

alphabet! {
    /// What becomes of it.
    Fate {
        /// It is sent again at once.
        SendAgain,
        /// It waits until there is a token, or none can be had; a call waits in the engine.
        Wait,
        /// It is dropped.
        Drop,
    }
}

/// Returns the decision for these inputs.
pub(crate) const fn decide(refused: Refused, authority: Authority, lack: Lack, room: Room) -> Fate {
    match refused {
        // The engine decided that they wait, whoever obtains the token.
        Refused::Call | Refused::Request => resent(lack),
        Refused::Message => match lack {
            Lack::Over => Fate::SendAgain,
            Lack::Lasting => match room {
                Room::Free => Fate::Wait,
                Room::Full => Fate::Drop,
            },
        },
        Refused::Connection | Refused::Stream => match authority {
            Authority::Client => resent(lack),
            Authority::Embedder | Authority::Nobody => Fate::Drop,
        },
    }
}

const fn resent(lack: Lack) -> Fate {
    match lack {
        Lack::Over => Fate::SendAgain,
        Lack::Lasting => Fate::Wait,
    }
}

/// [`decide`], recorded with the feature `rows`.
#[cfg(feature = "http")]
pub(crate) fn take(refused: Refused, authority: Authority, lack: Lack, room: Room) -> Fate {
    #[cfg(feature = "rows")]
    super::rows::taken("http_waiting", &[&refused, &authority, &lack, &room]);
    decide(refused, authority, lack, room)
}
