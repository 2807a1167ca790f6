use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use http::{HeaderName, HeaderValue};

use super::Secret;
use super::action::{SignId, TokenId};
use crate::Time;
use crate::machine::once;

/// The token that a request was sent with, and which of the server's nonces its proof had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Presented {
    pub(crate) token: TokenId,
    pub(super) nonce: u64,
    /// Whether the server demanded that nonce, and accepted no request since.
    pub(super) renewal: once::State,
}

/// What a request presents.
#[derive(Clone, Debug)]
pub(crate) enum Credential {
    /// Nothing: there is no token, or it is not for this URL.
    Nothing,
    /// These headers.
    Headers(Presented, Vec<(HeaderName, HeaderValue)>),
    /// A proof that has to be signed first.
    Signing(SignId),
}

/// What came of a proof that the embedder signs.
#[derive(Clone, Debug)]
pub(crate) enum Proved {
    /// It is signed.
    Signed(Presented, Vec<(HeaderName, HeaderValue)>),
    /// There is another token now, which requires another proof.
    Outdated,
    /// It was not signed.
    Unsigned,
}

/// The proofs that are being signed, and the nonce of the server.
#[derive(Clone, Debug, Default)]
pub(super) struct Proofs {
    pub(super) signing: BTreeMap<SignId, (Presented, Secret, Time)>,
    /// The ones that the client has to take.
    pub(super) done: Vec<(SignId, Proved)>,
    /// Counts the server's nonces.
    pub(super) nonce: u64,
    /// Whether the server demanded the nonce, and accepted no request since.
    pub(super) renewal: once::State,
}

impl Proofs {
    pub(super) fn deadline(&self) -> Option<Time> {
        // The time to sign is the same for all, so the first one is due first.
        self.signing.first_key_value().map(|(_, (.., deadline))| *deadline)
    }
}
