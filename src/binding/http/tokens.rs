//! The authorization of a client: what its requests present, and the secrets that it masks.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{StatusCode, Uri};

use super::HttpAction;
use super::refusal::{Refusal, Waiting};
use super::request::Identity;
use crate::Time;
use crate::binding::oauth::{Authorization, Credential, Denied, OAuthAction, OAuthInput, Presented, Proved, SignId};
use crate::client::StartId;
use crate::machine::http_response::refusal::Authority;
use crate::machine::http_response::refusal::challenge::Step;

/// What a request was sent with.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    presented: Option<Presented>,
    /// How often it was refused for lack of authorization before.
    pub(super) refused: u8,
}

impl Sent {
    /// Nothing yet, after this many refusals.
    pub(super) const fn after(refused: u8) -> Self {
        Self { presented: None, refused }
    }
}

/// The authorization, if the client has one.
#[derive(Clone, Debug, Default)]
pub(super) struct Tokens {
    joined: Option<Box<Joined>>,
}

#[derive(Clone, Debug)]
struct Joined {
    authorization: Authorization,
    /// Exchanges that wait for the record of the store.
    loading: BTreeSet<StartId>,
    /// Exchanges whose proofs are being signed.
    signing: BTreeMap<SignId, StartId>,
    /// What exchanges present that were not polled yet.
    ready: BTreeMap<StartId, (Presented, Vec<(HeaderName, HeaderValue)>)>,
    waiting: Waiting,
}

impl Tokens {
    pub(super) fn set(&mut self, authorization: Authorization) {
        self.joined = Some(Box::new(Joined {
            authorization,
            loading: BTreeSet::new(),
            signing: BTreeMap::new(),
            ready: BTreeMap::new(),
            waiting: Waiting::default(),
        }));
    }

    pub(super) fn get(&self) -> Option<&Authorization> {
        self.joined.as_ref().map(|joined| &joined.authorization)
    }

    pub(super) fn change(&mut self, change: impl FnOnce(&mut Authorization)) {
        if let Some(joined) = &mut self.joined {
            change(&mut joined.authorization);
        }
    }

    /// Sets whether the server is known to be modern.
    pub(super) fn set_modern(&mut self, is_modern: bool) {
        self.change(|authorization| authorization.set_modern(is_modern));
    }

    /// Whether there may be secrets.
    pub(super) const fn is_set(&self) -> bool {
        self.joined.is_some()
    }

    pub(super) fn is_busy(&self) -> bool {
        self.get().is_some_and(Authorization::is_busy)
    }

    /// The client is closed.
    pub(super) fn close(&mut self) {
        self.change(Authorization::close);
    }

    /// Gives an input to the authorization; `false` without one.
    pub(super) fn handle(&mut self, now: Time, input: OAuthInput<'_>) -> bool {
        self.joined.as_mut().is_some_and(|joined| joined.authorization.handle(now, input))
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        self.change(|authorization| authorization.handle_timeout(now));
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.joined.as_ref()?.authorization.deadline()
    }

    pub(super) fn has_actions(&self) -> bool {
        self.joined.as_ref().is_some_and(|joined| joined.authorization.has_actions())
    }

    pub(super) fn poll(&mut self, identity: &Identity) -> Option<HttpAction> {
        let mut action = self.joined.as_mut()?.authorization.poll()?;
        if let OAuthAction::Request(request) = &mut action {
            identity.write(request.request.headers_mut());
        }
        Some(HttpAction::OAuth(action))
    }

    /// Prepares what an exchange presents. Returns whether it can be sent: not before the record of the store is loaded,
    /// and its proof signed. `is_named`: the server's stream names the URL as its endpoint.
    pub(super) fn prepare(
        &mut self,
        now: Time,
        exchange: StartId,
        (method, url): (&str, &Uri),
        is_named: bool,
    ) -> bool {
        let Some(joined) = &mut self.joined else { return true };
        if let Some((presented, _)) = joined.ready.get(&exchange) {
            if joined.authorization.is_current(*presented) {
                return true;
            }
            joined.ready.remove(&exchange);
        }
        match joined.authorization.credential(now, (method, url), is_named) {
            Credential::Nothing => true,
            Credential::Loading => {
                joined.loading.insert(exchange);
                false
            }
            Credential::Headers(presented, headers) => {
                joined.ready.insert(exchange, (presented, headers));
                true
            }
            Credential::Signing(id) => {
                joined.signing.insert(id, exchange);
                false
            }
        }
    }

    /// Adds what was prepared to a request that is handed over.
    pub(super) fn present(&mut self, exchange: StartId, headers: &mut HeaderMap, sent: &mut Sent) {
        if let Some((presented, prepared)) = self.joined.as_mut().and_then(|joined| joined.ready.remove(&exchange)) {
            for (name, value) in prepared {
                // A token takes the place of the name and the password in the URL.
                headers.insert(name, value);
            }
            sent.presented = Some(presented);
        }
    }

    /// The next exchange that waited: for the record, which was loaded, or for its proof, which the embedder signed, or did
    /// not. Says whether it can be sent.
    pub(super) fn next_ready(&mut self) -> Option<(StartId, bool)> {
        let joined = self.joined.as_mut()?;
        if !joined.authorization.holds_requests()
            && let Some(exchange) = joined.loading.pop_first()
        {
            return Some((exchange, true));
        }
        let (id, proved) = joined.authorization.pop_proof()?;
        let exchange = joined.signing.remove(&id)?;
        match proved {
            Proved::Signed(presented, headers) => {
                joined.ready.insert(exchange, (presented, headers));
                Some((exchange, true))
            }
            // It is prepared again.
            Proved::Outdated => Some((exchange, true)),
            Proved::Unsigned => Some((exchange, false)),
        }
    }

    /// An exchange is over: it presents nothing any more, and what it waited for is not wanted.
    pub(super) fn forget(&mut self, exchange: StartId) {
        let Some(joined) = &mut self.joined else { return };
        joined.ready.remove(&exchange);
        joined.loading.remove(&exchange);
        let proof = joined.signing.iter().find(|(_, signed)| **signed == exchange).map(|(id, _)| *id);
        if let Some(id) = proof {
            joined.signing.remove(&id);
            joined.authorization.drop_proof(id);
        }
    }

    /// The head of a response came.
    pub(super) fn on_head(&mut self, now: Time, sent: Sent, status: StatusCode, headers: &HeaderMap) {
        self.change(|authorization| authorization.on_head(now, sent.presented, status, headers));
    }

    /// Who obtains the authorization that a refused request lacks, the reason if nobody does, and what the refusal means.
    /// `again`: whether the request may wait for authorization once more.
    pub(super) fn authority(
        &mut self,
        now: Time,
        sent: Sent,
        refusal: &Refusal,
        again: bool,
    ) -> (Authority, Option<Box<str>>, Step) {
        let Some(joined) = &mut self.joined else { return (Authority::Embedder, None, Step::Refuse) };
        let forbidden = refusal.status == StatusCode::FORBIDDEN;
        let taken = if again {
            joined.authorization.on_refusal(now, sent.presented, forbidden, &refusal.challenges)
        } else {
            Err(joined.authorization.deny(forbidden, &refusal.challenges))
        };
        match taken {
            Ok(step) => (Authority::Client, None, step),
            Err(Denied::Forbidden(error)) => (Authority::Nobody, Some(error.reason), Step::Refuse),
            Err(Denied::Unauthorized(error)) => (Authority::Nobody, Some(format!("{error}").into()), Step::Refuse),
        }
    }

    /// A text of the server without the secrets that it could know.
    pub(super) fn without_secrets<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match &self.joined {
            Some(joined) => joined.authorization.without_secrets(text),
            None => Cow::Borrowed(text),
        }
    }

    /// What waits for a token, if the client authorizes itself.
    pub(super) fn waiting(&mut self) -> Option<&mut Waiting> {
        self.joined.as_mut().map(|joined| &mut joined.waiting)
    }

    /// Changes what waits for a token, if the client authorizes itself.
    pub(super) fn update(&mut self, change: impl FnOnce(&mut Waiting)) {
        if let Some(waiting) = self.waiting() {
            change(waiting);
        }
    }

    /// The result for requests that wait: there is a token, or why there is none.
    pub(super) fn pop_verdict(&mut self) -> Option<Result<(), Box<str>>> {
        let verdict = self.joined.as_mut()?.authorization.pop_verdict()?;
        Some(verdict.map_err(|error| format!("{error}").into()))
    }
}
