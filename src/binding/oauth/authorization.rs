use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use core::fmt;
use core::time::Duration;

use http::{HeaderMap, StatusCode};

use super::action::{OAuthAction, OAuthEvent, OAuthExchangeId, SaveOutcome, SignId, StoreId, TokenId};
use super::attempt::Attempt;
use super::core::{Core, Read};
use super::credentials::{Answer, Credentials, Signal};
use super::error::{OAuthError, Stage, excerpt};
use super::input::OAuthInput;
use super::options::{Flow, OAuthConfigError, OAuthOptions};
use super::place::{LONGEST, Place};
use super::present::{Presented, Proofs};
use super::record::union;
use super::revocation::Revocation;
use super::task::{End, Hint, Task};
use crate::Time;
use crate::client::Challenge;
use crate::machine::authorization_plan::Goal;
use crate::machine::challenge::{self, Grantor, Meaning, Progress, Status, Token, Tries};
use crate::machine::credentials::{Input, State};

/// New grants for the scopes of one challenge (specification 2026-07-28, "Authorization", Step-Up Authorization Flow).
const STEPS: u8 = 3;

/// Challenges with different scopes that are counted.
const COUNTED: usize = 64;

/// A token counts as just issued for this long, or until it expires.
const FRESH: Duration = Duration::from_secs(60);

/// Bytes of a redirect.
const LONGEST_REDIRECT: usize = 64 << 10;

/// The authorization of one client at one MCP server, for one user.
///
/// It takes the refusals of the server, responses of the authorization server, redirects of the user's browser, records
/// of a store, and the time, and yields [`OAuthAction`]s by [`poll`](Self::poll). It never reads a socket or a clock,
/// opens no browser and stores nothing.
///
/// Requests to the MCP server get the header of [`header`](Self::header). If the server refuses one, that is reported by
/// [`handle_unauthorized`](Self::handle_unauthorized). When [`OAuthEvent::Authorized`] comes, refused requests are sent
/// again; a [`Client`](crate::Client) does it on [`authorized`](crate::Client::authorized).
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
    /// A token that was just issued was refused, and another grant replaced it.
    replaced: bool,
    /// Grants that were requested, by the scopes of the challenge.
    steps: BTreeMap<Box<str>, u8>,
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
        Ok(Self {
            core: Core::new(options, server, entropy, now, unix),
            attempt: Attempt::default(),
            credentials: Credentials::default(),
            revocation: Revocation::default(),
            proofs: Proofs::default(),
            replaced: false,
            steps: BTreeMap::new(),
        })
    }

    /// The next action; `None` if there is none until the next input.
    pub fn poll(&mut self) -> Option<OAuthAction> {
        self.core.outbox.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called, at the latest.
    pub fn deadline(&self) -> Option<Time> {
        let attempt = self.attempt.deadline();
        let rest = [self.credentials.deadline(&self.core), self.revocation.deadline(), self.proofs.deadline()];
        attempt.into_iter().chain(rest.into_iter().flatten()).min()
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

    /// The MCP server refused a request with 401, or with 403 if `forbidden`. `token` is the token that the request had.
    /// The request waits for [`OAuthEvent::Authorized`] or [`OAuthEvent::Failed`].
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
        self.refused(token, None, forbidden, challenges)
    }

    /// The MCP server refused a request of the client that has this authorization.
    pub(crate) fn take_refusal(
        &mut self,
        now: Time,
        sent: Option<Presented>,
        forbidden: bool,
        challenges: &[Challenge],
    ) -> Result<(), OAuthError> {
        self.advance(now);
        self.refused(sent.map(|sent| sent.token), sent, forbidden, challenges)
    }

    fn refused(
        &mut self,
        token: Option<TokenId>,
        sent: Option<Presented>,
        forbidden: bool,
        challenges: &[Challenge],
    ) -> Result<(), OAuthError> {
        let is_known = |it: &&Challenge| ["bearer", "dpop"].iter().any(|known| it.scheme.eq_ignore_ascii_case(known));
        let challenge = challenges.iter().find(is_known);
        let param = |name| challenge.and_then(|challenge| challenge.param(name));
        let hint = hint_of(param("resource_metadata"), param("scope"))?;
        if !forbidden && param("error") == Some("use_dpop_nonce") {
            self.count_demanded_nonce();
        }
        let status = match (forbidden, param("error")) {
            (false, Some("use_dpop_nonce")) if self.has_other_nonce(sent) => Status::OtherNonce,
            (false, Some("use_dpop_nonce")) => Status::SameNonce,
            (false, _) => Status::Unauthorized,
            (true, Some("insufficient_scope")) => Status::InsufficientScope,
            (true, _) => Status::Forbidden,
        };
        let class = self.token_class(token);
        let meaning = challenge::take(status, class, self.progress(), self.tries(status, &hint), self.grantor());
        let sends_again = matches!(meaning, Meaning::Resend | Meaning::ResendWithNonce);
        if !sends_again && !matches!(meaning, Meaning::Wait | Meaning::Refuse) {
            self.credentials.hint = Hint { metadata: hint.metadata.or(self.credentials.hint.metadata.take()), ..hint };
        }
        self.credentials.is_awaited |= !sends_again && meaning != Meaning::Refuse;
        match meaning {
            Meaning::Wait => {}
            Meaning::ResendWithNonce => self.core.verdict = Some(Ok(())),
            Meaning::Resend => {
                let (record, kind) = (self.credentials.record.as_ref(), self.credentials.kind);
                let grant = record.zip(self.credentials.token).map(|(record, token)| record.grant(token, kind));
                if let Some(grant) = grant {
                    self.core.event(OAuthEvent::Authorized(grant));
                }
            }
            Meaning::Demand => self.step(Input::Demand),
            Meaning::Renew => {
                self.replaced = false;
                self.steps.remove(&step_key(&self.credentials.hint));
                self.refuse_token();
                self.step(Input::Demand);
            }
            Meaning::Replace => {
                self.replaced = true;
                self.refuse_token();
                self.step(Input::Renounce);
            }
            Meaning::StepUp => {
                self.credentials.step_up = true;
                self.step(Input::Renounce);
            }
            Meaning::Refuse => {
                let OAuthError { stage, reason } = refusal(status, param("scope"), param("error_description"));
                return Err(OAuthError { stage, reason: self.without_secrets(&reason).into() });
            }
        }
        Ok(())
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
        self.replaced = false;
        self.steps.clear();
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

    /// The lock was acquired, or could not be.
    pub fn handle_acquired(&mut self, now: Time, id: StoreId, acquired: bool) {
        self.advance(now);
        if self.credentials.take_answer(id, Answer::Acquired) {
            self.step(if acquired { Input::Acquired } else { Input::StoreFailed });
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
    fn step(&mut self, input: Input) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            for signal in self.credentials.step(&mut self.core, input) {
                match signal {
                    Signal::Input(input) => inputs.push_back(input),
                    Signal::Begin(task) => {
                        self.count_grant(&task);
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

    /// The server refused the current token.
    fn refuse_token(&mut self) {
        let unix = self.core.unix();
        let has_expired = self.credentials.record.as_ref().is_some_and(|record| record.is_expired(unix));
        self.credentials.reread = !has_expired;
        self.credentials.is_refused = true;
        self.credentials.avoid_current();
    }

    fn token_class(&self, sent: Option<TokenId>) -> Token {
        let Some(current) = self.credentials.token else { return Token::Missing };
        if sent != Some(current) {
            return Token::Former;
        }
        let life = self.credentials.record.as_ref().and_then(|record| record.expires).map(|(_, life)| life);
        let fresh = life.map_or(FRESH, |life| FRESH.min(Duration::from_secs(life.max(1))));
        match self.credentials.issued_at {
            Some(at) if self.core.now.since(at) < fresh => Token::Fresh,
            Some(_) | None => Token::Accepted,
        }
    }

    fn progress(&self) -> Progress {
        match self.credentials.state {
            State::Idle | State::Resting => Progress::Resting,
            State::Obtaining => Progress::Authorizing,
            State::Acquiring
            | State::Loading
            | State::Refreshing
            | State::Reloading
            | State::RefreshingAgain
            | State::Saving
            | State::Comparing
            | State::SavingAgain => Progress::Renewing,
        }
    }

    fn tries(&self, status: Status, hint: &Hint) -> Tries {
        let spent = match status {
            Status::Unauthorized => self.replaced,
            Status::InsufficientScope => match self.steps.get(&step_key(hint)) {
                Some(steps) => *steps >= STEPS,
                None => self.steps.len() >= COUNTED,
            },
            Status::OtherNonce | Status::SameNonce | Status::Forbidden => false,
        };
        if spent { Tries::Spent } else { Tries::Left }
    }

    /// Counts a grant that begins, by the scopes of the challenge: one that a 401 leads to is the first for its scopes.
    fn count_grant(&mut self, task: &Task) {
        let key = step_key(&task.hint);
        let room = self.steps.len() < COUNTED || self.steps.contains_key(&key);
        if room && task.goal != Goal::Refresh {
            let steps = self.steps.entry(key).or_default();
            *steps = steps.saturating_add(1);
        }
    }

    fn grantor(&self) -> Grantor {
        let options = &self.core.options;
        let is_present = options.flow == Flow::User || options.step_up_without_user;
        if is_present { Grantor::Present } else { Grantor::Absent }
    }
}

/// The scopes of a challenge, in an order of their own.
fn step_key(hint: &Hint) -> Box<str> {
    let mut scopes: alloc::vec::Vec<_> = hint.scopes.iter().flat_map(|it| it.split_ascii_whitespace()).collect();
    scopes.sort_unstable();
    union(&[&scopes.join(" ")])
}

/// What a challenge says, if it is not too long.
fn hint_of(metadata: Option<&str>, scopes: Option<&str>) -> Result<Hint, OAuthError> {
    let long = |name: &str, value: Option<&str>| {
        let is_long = value.is_some_and(|value| value.len() > LONGEST);
        let why = || format!("the server's challenge has a `{name}` of more than {LONGEST} bytes");
        if is_long { Err(OAuthError::new(Stage::ResourceMetadata, why())) } else { Ok(()) }
    };
    long("resource_metadata", metadata)?;
    long("scope", scopes)?;
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
