//! What follows from a request that the MCP server refused with 401 or 403.

use alloc::format;
use core::time::Duration;

use super::action::{OAuthEvent, TokenId};
use super::authorization::Authorization;
use super::error::{Denied, OAuthError, Stage, excerpt};
use super::options::Flow;
use super::place::LONGEST;
use super::proofs::Presented;
use super::task::Hint;
use crate::Time;
use crate::client::Challenge;
use crate::machine::challenge::{Grantor, Meaning, Progress, Status, Token, Tries, take};
use crate::machine::credentials::{Input, State};
use crate::machine::{access_token, authorization_metadata, credential_need, once};

/// A token counts as just issued for this long, or until it expires.
const FRESH: Duration = Duration::from_secs(60);

impl Authorization {
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
        if self.refused(token, None, forbidden, challenges).map_err(OAuthError::from)? == Meaning::Resend {
            self.report_token();
        }
        Ok(())
    }

    /// The MCP server refused a request of the client that has this authorization. Returns what follows.
    pub(crate) fn take_refusal(
        &mut self,
        now: Time,
        sent: Option<Presented>,
        forbidden: bool,
        challenges: &[Challenge],
    ) -> Result<Meaning, Denied> {
        self.advance(now);
        self.refused(sent.map(|sent| sent.token), sent, forbidden, challenges)
    }

    fn refused(
        &mut self,
        token: Option<TokenId>,
        sent: Option<Presented>,
        forbidden: bool,
        challenges: &[Challenge],
    ) -> Result<Meaning, Denied> {
        let challenge = own_challenge(challenges);
        let param = |name| challenge.and_then(|challenge| challenge.param(name));
        let hint = hint_of(param("resource_metadata"), param("scope")).map_err(Denied::Unauthorized)?;
        let status = match (forbidden, param("error")) {
            (false, Some("use_dpop_nonce")) if self.has_other_nonce(sent) => Status::OtherNonce,
            (false, Some("use_dpop_nonce")) => Status::SameNonce,
            (false, _) => Status::Unauthorized,
            (true, Some("insufficient_scope")) => Status::InsufficientScope,
            (true, _) => Status::Forbidden,
        };
        let class = self.token_class(token);
        let meaning = take(status, class, self.progress(), self.tries(status, &hint), self.grantor());
        match meaning {
            Meaning::Wait => self.credentials.need.take(credential_need::Input::Wait),
            Meaning::ResendWithNonce => self.renew_nonce(),
            Meaning::Resend => {}
            Meaning::Demand => {
                self.take_need(hint, credential_need::Input::Wait);
                self.step(Input::Demand);
            }
            Meaning::Renew => {
                self.take_need(hint, credential_need::Input::Wait);
                self.replacement.take(once::Input::Renew);
                self.step_ups.forget(&self.credentials.hint);
                self.refuse_token();
                self.step(Input::Demand);
            }
            Meaning::Replace => {
                self.take_need(hint, credential_need::Input::Wait);
                self.replacement.take(once::Input::Use);
                self.refuse_token();
                self.step(Input::Renounce);
            }
            Meaning::StepUp => {
                self.take_need(hint, credential_need::Input::StepUp);
                self.step(Input::Renounce);
            }
            Meaning::Refuse => {
                let OAuthError { stage, reason } = refusal(status, param("scope"), param("error_description"));
                let error = OAuthError { stage, reason: self.without_secrets(&reason).into() };
                return Err(match status {
                    Status::InsufficientScope | Status::Forbidden => Denied::Forbidden(error),
                    Status::Unauthorized | Status::OtherNonce | Status::SameNonce => Denied::Unauthorized(error),
                });
            }
        }
        Ok(meaning)
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

    /// Reports the current token again.
    fn report_token(&mut self) {
        let (record, kind) = (self.credentials.record.as_ref(), self.credentials.kind);
        let grant = record.zip(self.credentials.token).map(|(record, token)| record.grant(token, kind));
        if let Some(grant) = grant {
            self.core.event(OAuthEvent::Authorized(grant));
        }
    }

    /// A refused request waits for the token that its challenge describes.
    fn take_need(&mut self, hint: Hint, need: credential_need::Input) {
        let metadata = hint.metadata.or(self.credentials.hint.metadata.take());
        self.credentials.hint = Hint { metadata, scopes: hint.scopes };
        self.credentials.need.take(need);
    }

    /// The server refused the current token.
    fn refuse_token(&mut self) {
        let unix = self.core.unix();
        if self.credentials.record.as_ref().is_some_and(|record| !record.is_expired(unix)) {
            self.attempt.step_metadata(authorization_metadata::Input::Refused);
        }
        self.credentials.step_token(access_token::Input::Refused);
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
            Status::Unauthorized => self.replacement == once::State::Spent,
            Status::InsufficientScope => self.step_ups.is_spent(hint, &self.core.options.flow),
            Status::OtherNonce | Status::SameNonce | Status::Forbidden => false,
        };
        if spent { Tries::Spent } else { Tries::Left }
    }

    fn grantor(&self) -> Grantor {
        let options = &self.core.options;
        let is_present = options.flow == Flow::User || options.step_up_without_user;
        if is_present { Grantor::Present } else { Grantor::Absent }
    }
}

/// The challenge that the client can meet.
fn own_challenge(challenges: &[Challenge]) -> Option<&Challenge> {
    let is_known = |it: &&Challenge| ["bearer", "dpop"].iter().any(|known| it.scheme.eq_ignore_ascii_case(known));
    challenges.iter().find(is_known)
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
