//! What requests to the MCP server present: the token, and the proof of possession if it is bound to a key.

use alloc::format;
use alloc::vec::Vec;

use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use zeroize::Zeroizing;

use super::Secret;
use super::action::{SignId, SignKey, TokenId};
use super::authorization::Authorization;
use super::core::Signing;
use super::dpop::{self, nonce_in};
use super::jwt::signed;
use super::place::Place;
use super::proof::proof_input;
use super::proofs::{Credential, Presented, Proved};
use crate::machine::once;

impl Authorization {
    /// The `Authorization` header for a request to this URL, and the token in it. `None` if there is no token, if the URL
    /// has another origin than the MCP server, or if the token is bound to a key: only the requests of a client that has
    /// this authorization have proofs.
    pub fn header(&self, url: &Uri) -> Option<(TokenId, HeaderValue)> {
        let (token, record) = (self.credentials.token?, self.credentials.record.as_ref()?);
        let is_ours = Place::parse(&format!("{url}"))?.is_same_origin(&self.core.server);
        let (_, header) = authorization("Bearer", &record.access_token)?;
        (is_ours && record.bound_to.is_none()).then_some((token, header))
    }

    /// What a request to the MCP server presents. A URL to which the server redirected, `is_endpoint` excepted, has to be
    /// under the resource that the token was issued for: the server may redirect to a path of another tenant, which has
    /// tokens of its own. An endpoint that an event names replaces the URL of a server, wherever its origin has it.
    pub(crate) fn credential(&mut self, method: &str, url: &Uri, is_endpoint: bool) -> Credential {
        let (Some(token), Some(record)) = (self.credentials.token, self.credentials.record.as_ref()) else {
            return Credential::Nothing;
        };
        let resource = Place::parse(&record.resource);
        let resource = resource.as_ref().unwrap_or(&self.core.server);
        let is_own = |place: &Place| {
            place.is_same_origin(&self.core.server)
                && (is_endpoint || resource.covers(place) || self.core.server.covers(place))
        };
        let Some(place) = Place::parse(&format!("{url}")).filter(is_own) else { return Credential::Nothing };
        let presented = Presented { token, nonce: self.proofs.nonce, renewal: self.proofs.renewal };
        let Some(key) = self.core.options.dpop.filter(|_| record.bound_to.is_some()) else {
            return match authorization("Bearer", &record.access_token) {
                Some(header) => Credential::Headers(presented, alloc::vec![header]),
                None => Credential::Nothing,
            };
        };
        let (secret, nonce) = (record.access_token.clone(), self.core.nonces.server.clone());
        let input = proof_input(&mut self.core, &key, method, &place, nonce.as_deref(), Some(&secret));
        match self.core.sign(SignKey::Proof, dpop::ALGORITHM, &input) {
            Signing::Done(signature) => match self.proved(presented, &signed(&input, &signature)) {
                Some(headers) => Credential::Headers(presented, headers),
                None => Credential::Nothing,
            },
            Signing::Asked(id) => {
                let deadline = self.core.now + self.core.options.timeouts.store;
                self.proofs.signing.insert(id, (presented, Secret::new(input), deadline));
                Credential::Signing(id)
            }
        }
    }

    /// Whether what was prepared for a request has the current token.
    pub(crate) fn is_current(&self, presented: Presented) -> bool {
        self.credentials.token == Some(presented.token)
    }

    /// The headers with a proof, if its token is still the current one.
    fn proved(&self, presented: Presented, proof: &Secret) -> Option<Vec<(HeaderName, HeaderValue)>> {
        let record = self.credentials.record.as_ref().filter(|_| self.is_current(presented))?;
        let mut value = HeaderValue::from_str(proof.expose()).ok()?;
        value.set_sensitive(true);
        Some(alloc::vec![authorization("DPoP", &record.access_token)?, (HeaderName::from_static("dpop"), value)])
    }

    /// A proof was signed, or was not.
    pub(super) fn proof_signed(&mut self, id: SignId, signature: &[u8]) {
        let Some((presented, input, _)) = self.proofs.signing.remove(&id) else { return };
        let proved = if signature.is_empty() {
            Proved::Unsigned
        } else {
            let headers = self.proved(presented, &signed(input.expose(), signature));
            headers.map_or(Proved::Outdated, |headers| Proved::Signed(presented, headers))
        };
        self.proofs.done.push((id, proved));
    }

    /// The proofs that are not signed in time are given up.
    pub(super) fn expire_proofs(&mut self) {
        while let Some((id, (.., deadline))) = self.proofs.signing.first_key_value()
            && *deadline <= self.core.now
        {
            self.proof_signed(*id, b"");
        }
    }

    /// The next proof that the embedder signed, or did not.
    pub(crate) fn take_proof(&mut self) -> Option<(SignId, Proved)> {
        self.proofs.done.pop()
    }

    /// The head of a response of the MCP server came: it may have a nonce for further proofs (RFC 9449, section 8.2).
    pub(crate) fn take_nonce(&mut self, is_accepted: bool, headers: &HeaderMap) {
        if is_accepted {
            self.proofs.renewal.take(once::Input::Renew);
        }
        if let Some(nonce) = nonce_in(headers).filter(|nonce| self.core.nonces.server.as_ref() != Some(nonce)) {
            self.core.nonces.server = Some(nonce);
            self.proofs.nonce = self.proofs.nonce.saturating_add(1);
        }
    }

    /// A request is sent again with the nonce that the server demanded.
    pub(super) fn renew_nonce(&mut self) {
        self.proofs.renewal.take(once::Input::Use);
    }

    /// Whether a request that was refused for its nonce is sent again: there is another nonce now, and the request did
    /// not have one already that the server demanded and never accepted.
    pub(super) fn has_other_nonce(&self, sent: Option<Presented>) -> bool {
        sent.is_some_and(|sent| {
            let is_renewed = sent.renewal == once::State::Spent && self.proofs.renewal == once::State::Spent;
            sent.nonce != self.proofs.nonce && !is_renewed
        })
    }
}

fn authorization(scheme: &str, token: &Secret) -> Option<(HeaderName, HeaderValue)> {
    let text = Zeroizing::new(format!("{scheme} {}", token.expose()));
    let mut value = HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    Some((http::header::AUTHORIZATION, value))
}
