use alloc::collections::VecDeque;
use core::fmt;
use core::time::Duration;

use http::{HeaderMap, StatusCode};

use super::action::{OAuthAction, OAuthExchangeId, SaveOutcome, SignId, StoreId};
use super::attempt::Attempt;
use super::core::{Core, Read};
use super::credentials::{Answer, Credentials, Signal};
use super::error::{OAuthError, excerpt};
use super::input::OAuthInput;
use super::options::{OAuthConfigError, OAuthOptions};
use super::place::Place;
use super::proofs::Proofs;
use super::revocation::Revocation;
use super::step_ups::StepUps;
use super::task::End;
use crate::Time;
use crate::machine::credentials::Input;
use crate::machine::once;

/// Bytes of a redirect.
const LONGEST_REDIRECT: usize = 64 << 10;

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
    pub(super) replacement: once::State,
    pub(super) step_ups: StepUps,
}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorization")
            .field("server", &self.core.server)
            .field("credentials", &self.credentials.state)
            .field("attempt", &self.attempt.state.0)
            .finish_non_exhaustive()
    }
}

impl Authorization {
    /// The authorization at the MCP server with this URL, whose bytes are requested as `resource` unless the server
    /// names another one. `entropy` has to come from a random number generator for secrets, and be different each time.
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
        options.check()?;
        let server = Place::parse(server).ok_or(OAuthConfigError::ServerUrl)?;
        let mut credentials = Credentials::default();
        if options.stored {
            credentials.set_stored();
        }
        Ok(Self {
            core: Core::new(options, server, entropy, now, unix),
            attempt: Attempt::default(),
            credentials,
            revocation: Revocation::default(),
            proofs: Proofs::default(),
            replacement: once::State::default(),
            step_ups: StepUps::default(),
        })
    }

    /// The next action; `None` if there is none until the next input.
    pub fn poll(&mut self) -> Option<OAuthAction> {
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
    /// modern server has protected-resource metadata, so the conventions of 2025-03-26 do not apply.
    pub fn set_modern(&mut self, is_modern: bool) {
        self.attempt.is_modern = is_modern;
    }

    /// Requests a new grant, even if there is a token or an attempt just failed.
    pub fn authorize(&mut self, now: Time) {
        self.advance(now);
        self.step(Input::Renounce);
    }

    /// Gives the credentials up: removes them from the store, and revokes the tokens if the authorization server
    /// supports it.
    pub fn sign_out(&mut self, now: Time) {
        self.advance(now);
        self.replacement.take(once::Input::Renew);
        self.step_ups = StepUps::default();
        self.step(Input::SignOut);
    }

    /// The head of a response came.
    pub fn handle_head(&mut self, now: Time, exchange: OAuthExchangeId, status: StatusCode, headers: &HeaderMap) {
        self.advance(now);
        if let Some(exchange) = self.attempt.exchange_mut(exchange) {
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
        if self.revocation.has(exchange) {
            return self.revocation.ended(&mut self.core);
        }
        let end = self.attempt.handle_end(&mut self.core, exchange);
        self.ended(end);
    }

    /// An exchange failed: nobody was reached, or it broke. `why` are the words of the HTTP client.
    pub fn handle_failure(&mut self, now: Time, exchange: OAuthExchangeId, why: &str) {
        self.advance(now);
        if self.revocation.has(exchange) {
            return self.revocation.ended(&mut self.core);
        }
        if self.attempt.exchange.take_if(|it| it.id == exchange).is_some() {
            let end = self.attempt.broke(&mut self.core, &excerpt(&crate::address::shown_in(why)));
            self.ended(end);
        }
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
            OAuthInput::Authorize => self.authorize(now),
            OAuthInput::SignOut => self.sign_out(now),
        }
        true
    }

    /// What requests that wait are told, once.
    pub(crate) fn take_verdict(&mut self) -> Option<Result<(), OAuthError>> {
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
        let end = self.attempt.handle_signature(&mut self.core, id, signature);
        self.ended(end);
    }

    /// The lock was acquired, or could not be. One that nothing waits for any more is released.
    pub fn handle_acquired(&mut self, now: Time, id: StoreId, acquired: bool) {
        self.advance(now);
        if let Some(input) = self.credentials.take_lock(&mut self.core, id, acquired) {
            self.step(input);
        }
    }

    /// The record was loaded: `Ok(None)` if there is none, `Err` if the store failed.
    pub fn handle_loaded(&mut self, now: Time, id: StoreId, loaded: Result<Option<&[u8]>, ()>) {
        self.advance(now);
        if self.credentials.take_answer(id, Answer::Loaded) {
            let input = match loaded {
                Ok(record) => self.credentials.take_loaded(&mut self.core, record),
                Err(()) => Input::StoreFailed,
            };
            self.step(input);
        }
    }

    /// The record was stored, or was not.
    pub fn handle_saved(&mut self, now: Time, id: StoreId, saved: SaveOutcome) {
        self.advance(now);
        if self.credentials.take_answer(id, Answer::Saved) {
            let input = self.credentials.take_saved(saved);
            self.step(input);
        }
    }

    /// Serves what is due, each at most once.
    pub(super) fn advance(&mut self, now: Time) {
        self.core.now = self.core.now.max(now);
        let end = self.attempt.handle_timeout(&mut self.core);
        self.ended(end);
        self.revocation.handle_timeout(&mut self.core);
        self.expire_proofs();
        // When the rest after a failed refresh is over, the next refresh may be due.
        for _ in 0..2 {
            if let Some(input) = self.credentials.take_due(&self.core) {
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
                        inputs.extend(end.map(|end| self.credentials.take_end(&self.core, end)));
                    }
                    Signal::Stop => self.attempt.stop(&mut self.core),
                    Signal::Revoke(record) => self.revocation.begin(&mut self.core, *record),
                }
            }
        }
    }

    pub(super) fn ended(&mut self, end: Option<End>) {
        if let Some(end) = end {
            let input = self.credentials.take_end(&self.core, end);
            self.step(input);
        }
    }
}
