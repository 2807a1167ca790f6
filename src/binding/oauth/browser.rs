//! The user's browser, which several authorizations may share.

use super::authorization::Authorization;
use super::options::{OAuthConfigError, OAuthOptions};
use super::place::Place;
use crate::Time;
use crate::machine::authorization::{Input, State};
use crate::machine::authorization_plan::{Browser, Closing, Consent, take};
use crate::machine::{access_token, credentials};

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

impl Authorization {
    /// Whether options fit a server.
    pub(crate) fn check(server: &str, options: &OAuthOptions) -> Result<(), OAuthConfigError> {
        options.check()?;
        Place::parse(server).map(|_| ()).ok_or(OAuthConfigError::ServerUrl)
    }

    /// From now on the browser belongs to several authorizations: a URL is shown after [`show`](Self::show).
    pub(crate) fn share_browser(&mut self) {
        self.core.browser = Browser::Shared;
    }

    pub(crate) fn browser(&self) -> BrowserUse {
        match self.attempt.state.0 {
            State::Queued => BrowserUse::Wanted,
            State::User => BrowserUse::Shown,
            State::Idle
            | State::Resource
            | State::Server
            | State::Assumed
            | State::Planning
            | State::Registering
            | State::Exchanging
            | State::Signing
            | State::Token
            | State::Pausing => BrowserUse::Unused,
        }
    }

    /// The browser is free for the attempt. The user's time begins now.
    pub(crate) fn show(&mut self, now: Time) {
        self.advance(now);
        let end = self.attempt.step(&mut self.core, Input::Show);
        self.ended(end);
    }

    /// The client is closed, so that nothing waits for the user any more, and no token is renewed.
    pub(crate) fn close(&mut self) {
        self.credentials.step_token(access_token::Input::Replaced);
        if self.attempt.task.is_none() {
            return;
        }
        let consent = if self.attempt.code.is_some() { Consent::Given } else { Consent::Open };
        if take::closing(self.attempt.goal(), consent) == Closing::End {
            let end = self.attempt.fail(&mut self.core, "the client was closed");
            self.ended(end);
        }
    }

    /// Whether credentials are being obtained, refreshed or stored.
    pub(crate) const fn is_busy(&self) -> bool {
        !matches!(self.credentials.state, credentials::State::Idle | credentials::State::Resting)
    }
}
