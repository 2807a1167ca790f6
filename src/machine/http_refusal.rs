//! What follows for the client when the server refuses a request over HTTP: for lack of authorization (401, 403), and
//! with a status only. [`http_answer`](super::http_answer) comes before: it says that the response is a refusal.

use super::alphabet;
use super::resend::Resend;

alphabet! {
    /// What was refused.
    Refused {
        /// No request: a stream, or a message without a response.
        Nothing,
        /// `server/discover` or `initialize` in the handshake.
        Handshake,
        /// A page of a list.
        List,
        /// A request that detects a peer that does not answer, which this one does.
        Keepalive,
        /// Any other request of the engine.
        Engine,
        /// A request of the embedder.
        Call,
    }
}

alphabet! {
    /// How far the connection is.
    Phase {
        /// It is being opened, or the handshake or discovery is in progress.
        Connecting,
        /// Discovery is done, or there is no connection.
        Connected,
    }
}

alphabet! {
    /// What the server says about authorization.
    Access {
        /// 401: it requires authorization.
        Required,
        /// 403 with a challenge: it requires another authorization.
        Insufficient,
        /// 403 without a challenge: it refuses access.
        Denied,
    }
}

alphabet! {
    /// Who obtains the authorization that is missing.
    Authority {
        /// The embedder.
        Embedder,
        /// The client, by OAuth.
        Client,
        /// Nobody: the client knows that none helps.
        Nobody,
    }
}

alphabet! {
    /// What follows when authorization is missing.
    Authorization {
        /// The request waits for authorization.
        Block,
        /// The binding holds the request or the message, and sends it again.
        Hold,
        /// The connection ends.
        EndConnection,
        /// [`status`] decides.
        ByStatus,
        /// Nothing.
        Nothing,
    }
}

/// What follows when authorization is missing. `again`: whether the request may wait for it once more.
pub(crate) const fn authorization(
    refused: Refused,
    phase: Phase,
    access: Access,
    again: Resend,
    authority: Authority,
) -> Authorization {
    match refused {
        Refused::Nothing => match phase {
            Phase::Connecting => Authorization::EndConnection,
            Phase::Connected => held(authority, Authorization::Nothing),
        },
        Refused::Handshake => Authorization::EndConnection,
        Refused::List => match phase {
            Phase::Connecting => Authorization::EndConnection,
            Phase::Connected => held(authority, Authorization::ByStatus),
        },
        Refused::Keepalive => Authorization::ByStatus,
        Refused::Engine => held(authority, Authorization::ByStatus),
        Refused::Call => match access {
            Access::Denied => Authorization::ByStatus,
            Access::Required | Access::Insufficient => match authority {
                Authority::Nobody => Authorization::ByStatus,
                Authority::Embedder | Authority::Client => blocked(again),
            },
        },
    }
}

/// Only what the client authorizes is sent again by itself.
const fn held(authority: Authority, otherwise: Authorization) -> Authorization {
    match authority {
        Authority::Client => Authorization::Hold,
        Authority::Embedder | Authority::Nobody => otherwise,
    }
}

const fn blocked(again: Resend) -> Authorization {
    match again {
        Resend::Again => Authorization::Block,
        Resend::End => Authorization::ByStatus,
    }
}

alphabet! {
    /// The class of a status.
    Status {
        /// 2xx: the response is not one.
        Success,
        /// 502 or 504: a gateway got no response; the request may have run.
        Gateway,
        /// Any other.
        Other,
    }
}

alphabet! {
    /// What a status means for the request that it refuses.
    Meaning {
        /// The [`handshake`](super::handshake) decides.
        Handshake,
        /// The exchange is lost, and the request may have run.
        Lost,
        /// The response is invalid.
        Invalid,
        /// The request failed with this status.
        Failed,
    }
}

/// What a status means for the request that it refuses.
pub(crate) const fn status(refused: Refused, status: Status) -> Meaning {
    match refused {
        Refused::Handshake => Meaning::Handshake,
        Refused::Nothing | Refused::List | Refused::Keepalive | Refused::Engine => match status {
            Status::Gateway => Meaning::Lost,
            Status::Success | Status::Other => Meaning::Failed,
        },
        Refused::Call => match status {
            Status::Gateway => Meaning::Lost,
            Status::Success => Meaning::Invalid,
            Status::Other => Meaning::Failed,
        },
    }
}

/// [`authorization`], recorded with the feature `rows`.
pub(crate) fn take_authorization(
    refused: Refused,
    phase: Phase,
    access: Access,
    again: Resend,
    authority: Authority,
) -> Authorization {
    #[cfg(feature = "rows")]
    super::rows::taken("http_refusal::authorization", &[&refused, &phase, &access, &again, &authority]);
    authorization(refused, phase, access, again, authority)
}

/// [`status`], recorded with the feature `rows`.
pub(crate) fn take_status(refused: Refused, class: Status) -> Meaning {
    #[cfg(feature = "rows")]
    super::rows::taken("http_refusal::status", &[&refused, &class]);
    status(refused, class)
}
