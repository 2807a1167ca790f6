//! The authorization: passes signals between an attempt and the credentials, presents the token, and decides what a
//! refused request means to them.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use zeroize::Zeroizing;

use super::Secret;
use super::action::{
    Denied, OAuthAction, OAuthError, OAuthEvent, OAuthExchangeId, OAuthInput, SaveOutcome, SignId, SignKey, Stage,
    StoreId, TokenId, excerpt,
};
use super::attempt::{Attempt, End, Hint, Task};
use super::core::{Core, Read, Signing, WallClock};
use super::credentials::{Answer, Credentials, LONGEST_SCOPES, Need, Revocation, Signal, union};
#[cfg(feature = "journal")]
use super::masked::{self, Mask};
use super::options::{Flow, OAuthConfigError, OAuthOptions};
use super::place::{LONGEST, Place};
use super::proof::{self, Credential, Presented, Proofs, Proved, nonce_in, proof_input, signed};
use super::secret::Entropy;
use crate::Time;
use crate::client::Challenge;
use crate::machine::http_response::refusal::challenge::{Progress, Step, Token, insufficient_scope, unauthorized};
use crate::machine::oauth_attempt::{self, Goal};
use crate::machine::oauth_credentials::{Input, State};

/// Bytes of a redirect.
const LONGEST_REDIRECT: usize = 64 << 10;

/// An authorization before its first input, as a journal has it.
#[cfg(feature = "journal")]
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Fresh {
    server: Box<str>,
    options: OAuthOptions,
    jitter: [u8; 32],
    clock: WallClock,
}

/// A refusal for lack of authorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// 401.
    Unauthorized,
    /// 401 with `error="use_dpop_nonce"`, and there is another nonce than the request had.
    OtherNonce,
    /// 401 with `error="use_dpop_nonce"`, and there is none, or the request was sent again for it already.
    SameNonce,
    /// 403 with `error="insufficient_scope"`.
    InsufficientScope,
    /// Any other 403.
    Forbidden,
}

/// New grants for the scopes of one challenge (specification 2026-07-28, "Authorization", Step-Up Authorization Flow).
const STEPS: u8 = 3;

/// Challenges with different scopes that are counted.
const COUNTED: usize = 64;

/// The authorization of one client at one MCP server, for one user.
///
/// It takes the refusals of the server, responses of the authorization server, redirects of the user's browser, records
/// of a store, and the time, and yields [`OAuthAction`]s by [`poll`](Self::poll). It never reads a socket or a clock,
/// opens no browser and stores nothing.
///
/// Requests to the MCP server get the header of [`header`](Self::header). If the server refuses one, that is reported by
/// [`handle_unauthorized`](Self::handle_unauthorized). When [`Authorized`](super::OAuthEvent::Authorized) comes, refused
/// requests are sent again; a [`Client`](crate::Client) does it on [`authorized`](crate::Client::authorized).
///
/// Inputs never fail: those that belong to nothing are ignored.
///
/// A clone has the same entropy: of a client and its clone, only one may authorize.
#[derive(Clone)]
pub struct Authorization {
    pub(super) core: Core,
    pub(super) attempt: Attempt,
    pub(super) credentials: Credentials,
    revocation: Revocation,
    pub(super) proofs: Proofs,
    /// Whether another grant replaced a token that was refused when it was just issued.
    is_replaced: bool,
    step_ups: StepUps,
}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorization")
            .field("server", &self.core.server)
            .field("credentials", &self.credentials.state)
            .field("attempt", &self.attempt.state())
            .finish_non_exhaustive()
    }
}

impl Authorization {
    /// The authorization at the MCP server with this URL, whose bytes are requested as `resource` unless the server
    /// names another one: without a name and a password, and with what is not ASCII percent-encoded. `entropy` has to come from a random number generator for secrets, and be different each time.
    /// `unix` is the time since the Unix epoch at `now`.
    ///
    /// # Errors
    /// [`OAuthConfigError`].
    pub fn new(
        server: &str,
        options: OAuthOptions,
        entropy: [u8; 32],
        now: Time,
        unix: Duration,
    ) -> Result<Self, OAuthConfigError> {
        let server = Self::checked(server, &options)?;
        let entropy = Entropy::new(entropy);
        entropy.check()?;
        Ok(Self::at(server, options, entropy, WallClock::new(now, unix)))
    }

    fn at(server: Place, options: OAuthOptions, entropy: Entropy, clock: WallClock) -> Self {
        let mut credentials = Credentials::default();
        if options.stored {
            credentials.set_stored();
        }
        Self {
            core: Core::new(options, server, entropy, clock),
            attempt: Attempt::default(),
            credentials,
            revocation: Revocation::default(),
            proofs: Proofs::default(),
            is_replaced: false,
            step_ups: StepUps::default(),
        }
    }

    /// What a journal has of it, with masks in place of the secrets of its options.
    #[cfg(feature = "journal")]
    pub(crate) fn fresh(&self, mask: Mask<'_>) -> Fresh {
        let Core { options, server, entropy, clock, .. } = &self.core;
        Fresh {
            server: masked::url(server.text()).into(),
            options: options.clone().with_secrets(mask),
            jitter: entropy.jitter(),
            clock: *clock,
        }
    }

    /// That of a journal.
    ///
    /// # Errors
    /// [`OAuthConfigError`].
    #[cfg(feature = "journal")]
    pub(crate) fn replayed(fresh: Fresh) -> Result<Self, OAuthConfigError> {
        let Fresh { server, options, jitter, clock } = fresh;
        #[cfg_attr(not(feature = "sign"), expect(unused_mut, reason = "there are no keys"))]
        let mut checked = options.clone();
        #[cfg(feature = "sign")]
        {
            // It is not the key that the tokens are bound to.
            checked.dpop_key = None;
        }
        let server = Self::checked(&server, &checked)?;
        Ok(Self::at(server, options, Entropy::replayed(jitter), clock))
    }

    /// Whether the body of this exchange is read; `Some(true)` for metadata, which has no secrets.
    #[cfg(feature = "journal")]
    pub(crate) fn reads(&self, exchange: OAuthExchangeId) -> Option<bool> {
        self.attempt.reads(exchange)
    }

    /// The secrets that are drawn from entropy, each with its mask in a journal; and what was signed, which is hidden.
    #[cfg(feature = "journal")]
    pub(crate) fn drawn(&self) -> impl Iterator<Item = (&Secret, &'static str)> {
        self.attempt.obtaining().into_iter().flat_map(|it| it.drawn())
    }

    /// A redirect with masks; empty if it is not the answer to the URL that was shown.
    #[cfg(feature = "journal")]
    pub(crate) fn masked_redirect(&self, redirect: &str, mask: Mask<'_>) -> alloc::string::String {
        let own = self.attempt.obtaining().filter(|_| redirect.len() <= LONGEST_REDIRECT);
        own.and_then(|it| it.own_query(redirect)).map_or_else(Default::default, |query| masked::redirect(query, mask))
    }

    /// A record of the store with masks.
    #[cfg(feature = "journal")]
    pub(crate) fn masked_record(&self, record: &[u8], mask: Mask<'_>) -> Vec<u8> {
        masked::loaded(record, self.core.server.text(), mask)
    }

    /// The next action; `None` if there is none until the next input. With a store, the first one loads the record.
    pub fn poll(&mut self) -> Option<OAuthAction> {
        self.step(Input::Open);
        self.core.outbox.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called, at the latest.
    pub fn deadline(&self) -> Option<Time> {
        let attempt = self.attempt.deadline();
        let credentials = self.credentials.deadline(&self.core);
        Time::earliest([attempt, credentials, self.revocation.deadline(), self.proofs.deadline()])
    }

    /// Reports the time.
    pub fn handle_timeout(&mut self, now: Time) {
        self.advance(now);
    }

    /// Sets whether the server has a version of the modern era, as [`Server::version`](crate::Server::version) says. A
    /// modern server has protected-resource metadata, so the conventions of 2025-03-26 do not apply: an attempt that goes by
    /// them ends. It is to be reported as soon as it is known; a client that has this authorization does so by itself.
    pub fn set_modern(&mut self, is_modern: bool) {
        let end = self.attempt.set_modern(&mut self.core, is_modern);
        self.ended(end);
    }

    /// Reports the wall clock: `unix` is the time since the Unix epoch at `now`. It is to be reported when the process
    /// slept, and when the clock was set, because the expiry of tokens and the times in assertions and proofs follow it.
    pub fn handle_clock(&mut self, now: Time, unix: Duration) {
        let now = self.core.now.max(now);
        self.core.clock = WallClock::new(now, unix);
        self.advance(now);
    }

    /// Requests a new grant, even if there is a token or an attempt just failed.
    pub fn authorize(&mut self, now: Time) {
        self.advance(now);
        self.step(Input::Renounce);
    }

    /// The user gave up the sign-in that is in progress: the attempt fails, and requests that wait for it end. Credentials
    /// stay. Nothing happens if no user is asked, or if the user authorized already.
    pub fn cancel(&mut self, now: Time) {
        self.give_up(now, "the sign-in was cancelled");
    }

    fn give_up(&mut self, now: Time, why: &str) {
        self.advance(now);
        let end = self.attempt.cancel(&mut self.core, Stage::Authorization, why);
        self.ended(end);
    }

    /// Gives the credentials up: no request has the token from now on. Those of the store are loaded under its lock, their
    /// tokens are revoked if the authorization server supports it, and they are removed. What could not be revoked is
    /// reported by [`NotRevoked`](super::OAuthEvent::NotRevoked).
    pub fn sign_out(&mut self, now: Time) {
        self.advance(now);
        self.is_replaced = false;
        self.step_ups = StepUps::default();
        self.step(Input::SignOut);
    }

    /// The head of a response came.
    pub fn handle_head(&mut self, now: Time, exchange: OAuthExchangeId, status: StatusCode, headers: &HeaderMap) {
        self.advance(now);
        let of_attempt = self.attempt.exchange_mut(exchange);
        if let Some(exchange) = of_attempt.or_else(|| self.revocation.exchange_mut(exchange)) {
            exchange.head(status, headers);
        }
    }

    /// A part of the body of a response came.
    pub fn handle_body(&mut self, now: Time, exchange: OAuthExchangeId, chunk: &[u8]) {
        self.advance(now);
        let limit = self.core.options.limits.bytes;
        if self.attempt.exchange_mut(exchange).is_some_and(|exchange| exchange.chunk(chunk, limit) == Read::TooLong) {
            let end = self.attempt.too_long(&mut self.core);
            self.ended(end);
        }
    }

    /// A response ended.
    pub fn handle_end(&mut self, now: Time, exchange: OAuthExchangeId) {
        self.advance(now);
        if let Some(revocation) = self.revocation.exchange_mut(exchange) {
            let status = revocation.status;
            let is_done = self.revocation.handle_end(&mut self.core, status);
            return self.revoked(is_done);
        }
        let end = self.attempt.handle_end(&mut self.core, exchange);
        self.ended(end);
    }

    /// An exchange failed: nobody was reached, or it broke. `why` is the message of the HTTP client.
    pub fn handle_failure(&mut self, now: Time, exchange: OAuthExchangeId, why: &str) {
        self.advance(now);
        let why = excerpt(&crate::text::shown_in(why));
        if self.revocation.exchange_mut(exchange).is_some() {
            let is_done = self.revocation.ended(&mut self.core, Some(&why));
            return self.revoked(is_done);
        }
        let end = self.attempt.handle_failure(&mut self.core, exchange, &why);
        self.ended(end);
    }

    /// The user's browser was redirected to this URL, path with a query, or query; a person may have pasted it. Returns
    /// whether it is the answer to the URL of the current attempt; any other is ignored.
    pub fn handle_redirect(&mut self, now: Time, redirect: &str) -> bool {
        self.advance(now);
        if redirect.len() > LONGEST_REDIRECT {
            return false;
        }
        let (is_ours, end) = self.attempt.handle_redirect(&mut self.core, redirect);
        self.ended(end);
        is_ours
    }

    /// Takes an input. Returns whether it belongs to what is in progress, as far as that can be said at once: a redirect
    /// may belong to another attempt.
    pub(crate) fn handle(&mut self, now: Time, input: OAuthInput<'_>) -> bool {
        match input {
            OAuthInput::Head { exchange, status, headers } => self.handle_head(now, exchange, status, headers),
            OAuthInput::Body { exchange, chunk } => self.handle_body(now, exchange, chunk),
            OAuthInput::End { exchange } => self.handle_end(now, exchange),
            OAuthInput::Failure { exchange, why } => self.handle_failure(now, exchange, why),
            OAuthInput::Redirect(redirect) => return self.handle_redirect(now, redirect),
            OAuthInput::Signature { id, signature } => self.handle_signature(now, id, signature),
            OAuthInput::Acquired { id, acquired } => self.handle_acquired(now, id, acquired),
            OAuthInput::Loaded { id, record } => self.handle_loaded(now, id, record),
            OAuthInput::Saved { id, saved } => self.handle_saved(now, id, saved),
            OAuthInput::Cancel => self.cancel(now),
            OAuthInput::NotShown(why) => self.give_up(now, &excerpt(&crate::text::shown_in(why))),
            OAuthInput::Clock { unix } => self.handle_clock(now, unix),
            OAuthInput::Authorize => self.authorize(now),
            OAuthInput::SignOut => self.sign_out(now),
        }
        true
    }

    /// What requests that wait are told, once.
    pub(crate) fn pop_verdict(&mut self) -> Option<Result<(), OAuthError>> {
        self.core.verdict.take()
    }

    /// Whether there is an action.
    pub(crate) fn has_actions(&self) -> bool {
        !self.core.outbox.is_empty()
    }

    /// What was to be signed was signed; an empty signature says that it cannot be.
    pub fn handle_signature(&mut self, now: Time, id: SignId, signature: &[u8]) {
        self.advance(now);
        self.proof_signed(id, signature);
        let is_done = self.revocation.handle_signature(&mut self.core, id, signature);
        self.revoked(is_done);
        let end = self.attempt.handle_signature(&mut self.core, id, signature);
        self.ended(end);
    }

    /// The lock was acquired, or could not be. One that nothing waits for any more is released.
    pub fn handle_acquired(&mut self, now: Time, id: StoreId, acquired: bool) {
        self.advance(now);
        if let Some(input) = self.credentials.handle_acquired(&mut self.core, id, acquired) {
            self.step(input);
        }
    }

    /// The record was loaded: `Ok(None)` if there is none, `Err` if the store failed.
    pub fn handle_loaded(&mut self, now: Time, id: StoreId, loaded: Result<Option<&[u8]>, ()>) {
        self.advance(now);
        if self.credentials.on_answer(id, Answer::Loaded) {
            let input = match loaded {
                Ok(record) => self.credentials.handle_loaded(&mut self.core, record),
                Err(()) => self.credentials.store_failed(),
            };
            self.step(input);
        }
    }

    /// The record was stored, or was not.
    pub fn handle_saved(&mut self, now: Time, id: StoreId, saved: SaveOutcome) {
        self.advance(now);
        if self.credentials.on_answer(id, Answer::Saved) {
            let input = self.credentials.handle_saved(saved);
            self.step(input);
        }
    }

    /// Serves what is due, each at most once.
    pub(super) fn advance(&mut self, now: Time) {
        self.core.now = self.core.now.max(now);
        let end = self.attempt.handle_timeout(&mut self.core);
        self.ended(end);
        let is_done = self.revocation.handle_timeout(&mut self.core);
        self.revoked(is_done);
        self.expire_proofs();
        // When the cooldown after a failed refresh ends, the next refresh may be due.
        for _ in 0..2 {
            if let Some(input) = self.credentials.pop_due(&self.core) {
                self.step(input);
            }
        }
    }

    /// Takes an input of the credentials, and what follows from it.
    pub(super) fn step(&mut self, input: Input) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            for signal in self.credentials.step(&mut self.core, input) {
                match signal {
                    Signal::Input(input) => inputs.push_back(input),
                    Signal::Begin(task) => {
                        self.step_ups.count(&task);
                        let end = self.attempt.begin(&mut self.core, *task);
                        inputs.extend(end.map(|end| self.credentials.handle_end(&self.core, end)));
                    }
                    Signal::Stop => _ = self.attempt.stop(&mut self.core),
                    Signal::Revoke(record) => {
                        if !self.revocation.begin(&mut self.core, *record) {
                            inputs.push_back(Input::Revoked);
                        }
                    }
                }
            }
        }
    }

    /// The revocation went on; `is_done` if no token is left.
    fn revoked(&mut self, is_done: bool) {
        if is_done {
            self.step(Input::Revoked);
        }
    }

    fn ended(&mut self, end: Option<End>) {
        if let Some(end) = end {
            let input = self.credentials.handle_end(&self.core, end);
            self.step(input);
        }
    }

    /// The `Authorization` header for a request to this URL, and the token in it. `None` if there is no token, if the URL
    /// has another origin than the MCP server, or if the token is bound to a key: only the requests of a client that has
    /// this authorization have proofs.
    pub fn header(&self, url: &Uri) -> Option<(TokenId, HeaderValue)> {
        let (token, record) = (self.credentials.access.token()?, self.credentials.record.as_ref()?);
        let is_ours = Place::of_server(&format!("{url}"))?.is_same_origin(&self.core.server);
        let (_, header) = authorization("Bearer", &record.access_token)?;
        (is_ours && record.bound_to.is_none()).then_some((token, header))
    }

    /// What a request to the MCP server presents. Its URL has to be under the resource that the token was issued for: the
    /// server may redirect to a path of another tenant, which has tokens of its own. The endpoint that the stream of
    /// HTTP+SSE names on the same origin may have any path (`/sse` and `/messages`): who names it has the token already.
    pub(crate) fn credential(&mut self, now: Time, (method, url): (&str, &Uri), is_endpoint: bool) -> Credential {
        self.advance(now);
        self.step(Input::Open);
        if self.holds_requests() {
            return Credential::Loading;
        }
        let (Some(token), Some(record)) = (self.credentials.access.token(), self.credentials.record.as_ref()) else {
            return Credential::Nothing;
        };
        let resource = Place::parse(&record.resource);
        let resource = resource.as_ref().unwrap_or(&self.core.server);
        let is_own = |place: &Place| {
            let covers = is_endpoint || resource.covers(place) || self.core.server.covers(place);
            place.is_same_origin(&self.core.server) && covers
        };
        let Some(place) = Place::parse(&format!("{url}")).filter(is_own) else { return Credential::Nothing };
        let presented = Presented { token, nonce: self.proofs.nonce, nonce_demanded: self.proofs.nonce_demanded };
        let Some(key) = self.core.options.dpop.filter(|_| record.bound_to.is_some()) else {
            return match authorization("Bearer", &record.access_token) {
                Some(header) => Credential::Headers(presented, alloc::vec![header]),
                None => Credential::Nothing,
            };
        };
        let (secret, nonce) = (record.access_token.clone(), self.core.nonces.server.clone());
        let input = proof_input(&mut self.core, &key, method, &place, nonce.as_deref(), Some(&secret));
        match self.core.sign(SignKey::Proof, proof::ALGORITHM, &input) {
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

    /// Whether the first requests wait for the record of the store.
    pub(crate) const fn holds_requests(&self) -> bool {
        self.credentials.is_opening
    }

    /// Whether what was prepared for a request has the current token.
    pub(crate) fn is_current(&self, presented: Presented) -> bool {
        self.credentials.access.token() == Some(presented.token)
    }

    /// The headers with a proof, if its token is still the current one.
    fn proved(&self, presented: Presented, proof: &Secret) -> Option<Vec<(HeaderName, HeaderValue)>> {
        let record = self.credentials.record.as_ref().filter(|_| self.is_current(presented))?;
        let mut value = HeaderValue::from_str(proof.expose()).ok()?;
        value.set_sensitive(true);
        Some(alloc::vec![authorization("DPoP", &record.access_token)?, (HeaderName::from_static("dpop"), value)])
    }

    /// A proof was signed, or was not.
    fn proof_signed(&mut self, id: SignId, signature: &[u8]) {
        let Some((presented, input, _)) = self.proofs.signing.remove(&id) else { return };
        let proved = if signature.is_empty() {
            Proved::Unsigned
        } else {
            let headers = self.proved(presented, &signed(input.expose(), signature));
            headers.map_or(Proved::Outdated, |headers| Proved::Signed(presented, headers))
        };
        self.proofs.done.push((id, proved));
    }

    /// A proof is not wanted any more.
    pub(crate) fn drop_proof(&mut self, id: SignId) {
        self.proofs.signing.remove(&id);
        self.proofs.done.retain(|(done, _)| *done != id);
        self.core.withdraw_sign(id);
    }

    /// The proofs that are not signed in time are given up.
    fn expire_proofs(&mut self) {
        while let Some((id, (.., deadline))) = self.proofs.signing.first_key_value()
            && *deadline <= self.core.now
        {
            self.proof_signed(*id, b"");
        }
    }

    /// The next proof that the embedder signed, or did not.
    pub(crate) fn pop_proof(&mut self) -> Option<(SignId, Proved)> {
        self.proofs.done.pop()
    }

    /// The MCP server answered a request with this token with anything but 401. A client that has this authorization
    /// reports it by itself.
    pub fn handle_accepted(&mut self, now: Time, token: TokenId) {
        self.advance(now);
        if self.credentials.access.token() == Some(token) {
            self.credentials.is_accepted = true;
            self.is_replaced = false;
        }
    }

    /// The head of a response of the MCP server came: it may have a nonce for further proofs (RFC 9449, section 8.2).
    pub(crate) fn on_head(&mut self, now: Time, sent: Option<Presented>, status: StatusCode, headers: &HeaderMap) {
        if let Some(sent) = sent.filter(|_| status != StatusCode::UNAUTHORIZED) {
            self.handle_accepted(now, sent.token);
        }
        if status.is_success() {
            self.proofs.nonce_demanded = false;
        }
        if let Some(nonce) = nonce_in(headers).filter(|nonce| self.core.nonces.server.as_ref() != Some(nonce)) {
            self.core.nonces.server = Some(nonce);
            self.proofs.nonce = self.proofs.nonce.saturating_add(1);
        }
    }

    /// Whether a request that was refused for its nonce is sent again: there is another nonce now, and the request did
    /// not have one already that the server demanded and never accepted.
    fn has_other_nonce(&self, sent: Option<Presented>) -> bool {
        sent.is_some_and(|sent| sent.nonce != self.proofs.nonce && !(sent.nonce_demanded && self.proofs.nonce_demanded))
    }

    /// The MCP server refused a request with 401, or with 403 if `forbidden`. `token` is the token that the request had.
    /// The request waits for [`Authorized`](super::OAuthEvent::Authorized) or [`Failed`](super::OAuthEvent::Failed).
    ///
    /// # Errors
    /// The reason why the request is refused for good: other scopes or another user would be required.
    pub fn handle_unauthorized(
        &mut self,
        now: Time,
        token: Option<TokenId>,
        forbidden: bool,
        challenges: &[Challenge],
    ) -> Result<(), OAuthError> {
        self.advance(now);
        let step = self.refused(token, None, forbidden, challenges).map_err(OAuthError::from)?;
        if let Some(grant) = self.credentials.grant().filter(|_| step == Step::Resend) {
            self.core.event(OAuthEvent::Authorized(grant));
        }
        Ok(())
    }

    /// The MCP server refused a request of the client that has this authorization. Returns what follows.
    pub(crate) fn on_refusal(
        &mut self,
        now: Time,
        sent: Option<Presented>,
        forbidden: bool,
        challenges: &[Challenge],
    ) -> Result<Step, Denied> {
        self.advance(now);
        self.refused(sent.map(|sent| sent.token), sent, forbidden, challenges)
    }

    fn refused(
        &mut self,
        token: Option<TokenId>,
        sent: Option<Presented>,
        forbidden: bool,
        challenges: &[Challenge],
    ) -> Result<Step, Denied> {
        let challenge = own_challenge(challenges);
        let param = |name| challenge.and_then(|challenge| challenge.param(name));
        // What repeats a token is not used: it would be shown, and sent elsewhere.
        let clean = |name| param(name).filter(|value| matches!(self.without_secrets(value), Cow::Borrowed(_)));
        let hint = hint_of(clean("resource_metadata"), clean("scope")).map_err(Denied::Unauthorized)?;
        let status = match (forbidden, param("error")) {
            (false, Some("use_dpop_nonce")) if self.has_other_nonce(sent) => Status::OtherNonce,
            (false, Some("use_dpop_nonce")) => Status::SameNonce,
            (false, _) => Status::Unauthorized,
            (true, Some("insufficient_scope")) => Status::InsufficientScope,
            (true, _) => Status::Forbidden,
        };
        let (token, progress) = (self.token_class(token), self.progress());
        let step = match status {
            Status::Unauthorized => unauthorized(progress, token, !self.is_replaced),
            Status::OtherNonce => Step::ResendWithNonce,
            Status::InsufficientScope => insufficient_scope(self.may_step_up(&hint), progress, token),
            Status::SameNonce | Status::Forbidden => Step::Refuse,
        };
        match step {
            Step::Wait => self.credentials.need = self.credentials.need.max(Need::Request),
            Step::ResendWithNonce => self.proofs.nonce_demanded = true,
            Step::Resend => {}
            Step::Demand => {
                self.require(hint, Need::Request);
                self.step(Input::Demand);
            }
            Step::Renew => {
                self.require(hint, Need::Request);
                self.step_ups.forget(&self.credentials.hint);
                self.refuse_token();
                if self.credentials.may_renew(&self.core) {
                    self.step(Input::Demand);
                }
            }
            Step::Replace => {
                self.require(hint, Need::Request);
                self.is_replaced = true;
                self.refuse_token();
                self.step(Input::Renounce);
            }
            Step::StepUp => {
                self.require(hint, Need::StepUp);
                self.step(Input::Renounce);
            }
            Step::Refuse => {
                if status == Status::Unauthorized {
                    // It is not renewed either: the server accepts no token.
                    self.credentials.access.refuse();
                }
                let OAuthError { stage, reason } = refusal(status, param("scope"), param("error_description"));
                let error = OAuthError { stage, reason: self.without_secrets(&reason).into() };
                return Err(match status {
                    Status::InsufficientScope | Status::Forbidden => Denied::Forbidden(error),
                    Status::Unauthorized | Status::OtherNonce | Status::SameNonce => Denied::Unauthorized(error),
                });
            }
        }
        Ok(step)
    }

    /// A request is refused that was refused as often as it may be sent again. Returns why.
    pub(crate) fn deny(&self, forbidden: bool, challenges: &[Challenge]) -> Denied {
        let param = |name| own_challenge(challenges).and_then(|challenge| challenge.param(name));
        let (scopes, said) = (param("scope"), param("error_description"));
        let refused = |status| {
            let OAuthError { stage, reason } = refusal(status, scopes, said);
            OAuthError { stage, reason: self.without_secrets(&reason).into() }
        };
        match (forbidden, param("error")) {
            (true, Some("insufficient_scope")) => Denied::Forbidden(refused(Status::InsufficientScope)),
            (true, _) => Denied::Forbidden(refused(Status::Forbidden)),
            (false, Some("use_dpop_nonce")) => Denied::Unauthorized(refused(Status::SameNonce)),
            (false, _) => Denied::Unauthorized(refused(Status::Unauthorized)),
        }
    }

    /// A refused request waits for the token that its challenge describes.
    fn require(&mut self, hint: Hint, need: Need) {
        let metadata = hint.metadata.or(self.credentials.hint.metadata.take());
        self.credentials.hint = Hint { metadata, scopes: hint.scopes };
        self.credentials.need = self.credentials.need.max(need);
    }

    /// The server refused the current token.
    fn refuse_token(&mut self) {
        let unix = self.core.unix();
        if self.credentials.record.as_ref().is_some_and(|record| !record.is_expired(unix)) {
            // The server may have another authorization server now.
            self.attempt.drop_metadata();
        }
        self.credentials.access.refuse();
        self.credentials.avoid_current();
    }

    fn token_class(&self, sent: Option<TokenId>) -> Token {
        let Some(current) = self.credentials.access.token() else { return Token::Missing };
        match self.credentials.is_accepted {
            _ if sent != Some(current) => Token::Former,
            true => Token::Accepted,
            false => Token::Fresh,
        }
    }

    fn progress(&self) -> Progress {
        match self.credentials.state {
            State::Unread | State::Idle | State::Cooldown => Progress::Idle,
            State::Obtaining => Progress::Authorizing,
            State::Opening
            | State::Reading
            | State::Finishing
            | State::Leaving
            | State::Collecting
            | State::Revoking
            | State::Acquiring
            | State::Loading
            | State::Refreshing
            | State::Reloading
            | State::RefreshingAgain
            | State::Saving
            | State::Comparing
            | State::SavingAgain => Progress::Renewing,
        }
    }

    /// Whether a grant with the scopes of this challenge may be requested.
    fn may_step_up(&self, hint: &Hint) -> bool {
        let options = &self.core.options;
        let has_grantor = options.flow == Flow::User || options.step_up_without_user;
        has_grantor && !self.step_ups.is_spent(hint, &options.flow)
    }

    /// Whether options fit a server.
    pub(crate) fn check(server: &str, options: &OAuthOptions) -> Result<(), OAuthConfigError> {
        Self::checked(server, options).map(drop)
    }

    fn checked(server: &str, options: &OAuthOptions) -> Result<Place, OAuthConfigError> {
        let server = Place::of_server(server).ok_or(OAuthConfigError::ServerUrl)?;
        options.check(&server)?;
        Ok(server)
    }

    /// From now on the browser belongs to several authorizations: a URL is shown after [`show`](Self::show).
    pub(crate) fn share_browser(&mut self) {
        self.core.is_browser_shared = true;
    }

    pub(crate) fn browser(&self) -> BrowserUse {
        match self.attempt.state() {
            oauth_attempt::State::Queued => BrowserUse::Wanted,
            oauth_attempt::State::User => BrowserUse::Shown,
            oauth_attempt::State::Idle
            | oauth_attempt::State::Resource
            | oauth_attempt::State::Server
            | oauth_attempt::State::Assumed
            | oauth_attempt::State::Waiting
            | oauth_attempt::State::Planning
            | oauth_attempt::State::Registering
            | oauth_attempt::State::Exchanging
            | oauth_attempt::State::Signing
            | oauth_attempt::State::Token
            | oauth_attempt::State::Pausing => BrowserUse::Unused,
        }
    }

    /// The browser is free for the attempt. The user's time begins now.
    pub(crate) fn show(&mut self, now: Time) {
        self.advance(now);
        let end = self.attempt.show(&mut self.core);
        self.ended(end);
    }

    /// The client is closed, so that nothing waits for the user any more, and no token is renewed.
    pub(crate) fn close(&mut self) {
        self.credentials.close();
        let end = self.attempt.close(&mut self.core, "the client was closed");
        self.ended(end);
    }

    /// Whether credentials are being obtained, refreshed or stored.
    pub(crate) const fn is_busy(&self) -> bool {
        !matches!(self.credentials.state, State::Unread | State::Idle | State::Cooldown)
    }

    /// A text of the MCP server without the secrets that it could know.
    pub(crate) fn without_secrets<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.credentials.without_secrets(text)
    }
}

/// What an attempt requires the browser for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BrowserUse {
    /// Nothing.
    Unused,
    /// It waits until the browser is free.
    Wanted,
    /// Its URL is shown, or is to be polled.
    Shown,
}

/// How many grants were requested, by the scopes of the challenge.
#[derive(Clone, Debug, Default)]
struct StepUps(BTreeMap<Box<str>, u8>);

impl StepUps {
    /// Counts a grant that begins: one that a 401 leads to is the first for its scopes.
    pub(super) fn count(&mut self, task: &Task) {
        let key = key(&task.hint);
        let room = self.0.len() < COUNTED || self.0.contains_key(&key);
        if room && task.goal != Goal::Refresh {
            let grants = self.0.entry(key).or_default();
            *grants = grants.saturating_add(1);
        }
    }

    /// The scopes of this challenge may be granted as often as at first.
    fn forget(&mut self, hint: &Hint) {
        self.0.remove(&key(hint));
    }

    /// Whether no further grant is requested for the scopes of this challenge.
    fn is_spent(&self, hint: &Hint, flow: &Flow) -> bool {
        match self.0.get(&key(hint)) {
            // A client without a user requests further scopes once.
            Some(grants) => *grants >= if *flow == Flow::User { STEPS } else { 1 },
            None => self.0.len() >= COUNTED,
        }
    }
}

fn authorization(scheme: &str, token: &Secret) -> Option<(HeaderName, HeaderValue)> {
    let text = Zeroizing::new(format!("{scheme} {}", token.expose()));
    let mut value = HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    Some((http::header::AUTHORIZATION, value))
}

/// The challenge that the client can meet.
fn own_challenge(challenges: &[Challenge]) -> Option<&Challenge> {
    let is_known = |it: &&Challenge| ["bearer", "dpop"].iter().any(|known| it.scheme.eq_ignore_ascii_case(known));
    challenges.iter().find(is_known)
}

/// What a challenge says, if it is not too long.
fn hint_of(metadata: Option<&str>, scopes: Option<&str>) -> Result<Hint, OAuthError> {
    let long = |name: &str, value: Option<&str>, limit: usize| {
        let is_long = value.is_some_and(|value| value.len() > limit);
        let why = || format!("the server's challenge has a `{name}` of more than {limit} bytes");
        if is_long { Err(OAuthError::new(Stage::ResourceMetadata, why())) } else { Ok(()) }
    };
    long("resource_metadata", metadata, LONGEST)?;
    long("scope", scopes, LONGEST_SCOPES)?;
    let is_scope = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
    let scopes = scopes.filter(|scopes| !scopes.trim().is_empty() && scopes.bytes().all(is_scope));
    Ok(Hint { metadata: metadata.map(Into::into), scopes: scopes.map(Into::into) })
}

/// Why a request is refused for good.
fn refusal(status: Status, scopes: Option<&str>, description: Option<&str>) -> OAuthError {
    let said = description.map(excerpt).filter(|said| !said.is_empty()).map(|said| format!(": {said}"));
    let said = said.unwrap_or_default();
    match status {
        Status::OtherNonce | Status::SameNonce => {
            let why = "the server refuses each nonce in the proof of possession, or names none";
            OAuthError::new(Stage::Token, format!("{why}{said}"))
        }
        Status::Unauthorized => {
            OAuthError::new(Stage::Token, format!("the server refuses a token that was just issued{said}"))
        }
        Status::InsufficientScope => {
            let scopes = excerpt(scopes.unwrap_or_default());
            OAuthError::new(Stage::StepUp, format!("forbidden: the scopes `{scopes}` are required{said}"))
        }
        Status::Forbidden => OAuthError::new(Stage::Token, format!("forbidden: the server refuses this user{said}")),
    }
}

/// The scopes of a challenge, in an order of their own.
fn key(hint: &Hint) -> Box<str> {
    let mut scopes: Vec<_> = hint.scopes.iter().flat_map(|it| it.split_ascii_whitespace()).collect();
    scopes.sort_unstable();
    union(&[&scopes.join(" ")])
}
