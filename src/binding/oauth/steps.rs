//! Steps the table of an attempt, applies its effects, and takes its inputs.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use super::action::{OAuthAction, OAuthExchangeId, SignId};
use super::attempt::Attempt;
use super::core::Core;
use super::error::{OAuthError, Stage};
use super::hide::hide;
use super::jwt::signed;
use super::metadata::Server;
use super::record::Record;
use super::task::{End, Task};
use super::token::NotIssued;
use crate::machine::authorization::{Effect, Input, State, take};
use crate::machine::authorization_plan::{Failure, Goal, Place};
use crate::machine::{authorization_metadata, once};

impl Attempt {
    /// Begins an attempt.
    pub(super) fn begin(&mut self, core: &mut Core, task: Task) -> Option<End> {
        let begin = self.step_metadata(authorization_metadata::Input::Begin);
        *self = Self {
            resource: self.resource.take(),
            server: self.server.take(),
            is_modern: self.is_modern,
            metadata: self.metadata,
            held: task.held.clone(),
            first_issuer: self.first_issuer.take(),
            registration: task.registration,
            ..Self::default()
        };
        if begin == Some(Input::Begin) {
            self.find_resource(core, task.hint.metadata.as_deref());
        }
        self.task = Some(task);
        self.follow(core, begin)
    }

    /// Takes an input, and those that its effects lead to.
    pub(super) fn step(&mut self, core: &mut Core, input: Input) -> Option<End> {
        let (mut next, mut end) = (Some(input), None);
        while let Some(input) = next.take() {
            let row = take(self.state.0, input);
            self.state.0 = row.next;
            for effect in row.effects {
                match effect {
                    Effect::RequestMetadata => next = self.request_metadata(core),
                    Effect::FindServers => self.find_servers(),
                    Effect::AssumeOrigin => self.assume_origin(core),
                    Effect::AssumeEndpoints => {
                        if let Some(server) = Server::assumed(core.server.origin()) {
                            self.set_server(server);
                        }
                    }
                    Effect::Plan => next = Some(self.plan(core)),
                    Effect::Register => self.register(core),
                    Effect::DropClient => {
                        (self.held, self.code) = (None, None);
                        self.registration.take(once::Input::Use);
                    }
                    Effect::Browse => next = self.browse(core),
                    Effect::Exchange => next = self.exchange_identity(core),
                    Effect::Sign => next = self.sign(core),
                    Effect::RequestToken => self.request_token(core),
                    Effect::Pause => {
                        let wait = Duration::from_secs(1).saturating_mul(1 << self.sent.min(8));
                        let jitter =
                            wait.saturating_mul(core.entropy.byte().into()).checked_div(512).unwrap_or_default();
                        self.deadline = Some(core.now + wait + jitter);
                    }
                    Effect::Clear => self.clear(core),
                    Effect::ReportIssued => end = self.record(core).map(End::Issued),
                    Effect::ReportRefused => end = Some(End::Refused { registration: self.registration }),
                    Effect::ReportFailed => {
                        self.step_metadata(authorization_metadata::Input::Failed);
                        let why = self.why.take();
                        let unknown = || OAuthError::new(Stage::Token, "the attempt ended");
                        let OAuthError { stage, reason } = why.unwrap_or_else(unknown);
                        let reason = hide(&reason, self.secrets(core));
                        end = Some(End::Failed(OAuthError { stage, reason }));
                    }
                }
            }
        }
        if end.is_some() {
            self.task = None;
            (self.code, self.verifier, self.state_word, self.issued) = (None, None, None, None);
            (self.assertion, self.proof, self.grant) = (None, None, None);
            self.used = Vec::new();
        }
        end
    }

    /// Ends the attempt with an error.
    pub(super) fn fail(&mut self, core: &mut Core, why: impl Into<Box<str>>) -> Option<End> {
        let input = self.failed(why);
        self.step(core, input)
    }

    fn follow(&mut self, core: &mut Core, input: Option<Input>) -> Option<End> {
        input.and_then(|input| self.step(core, input))
    }

    fn clear(&mut self, core: &mut Core) {
        if let Some(exchange) = self.exchange.take() {
            core.drop_exchange(exchange.id);
        }
        if self.state_word.take().is_some() {
            core.outbox.push_back(OAuthAction::Unbrowse);
        }
        self.deadline = None;
        self.signs = Vec::new();
    }

    /// The record of the token that was issued.
    fn record(&mut self, core: &Core) -> Option<Box<Record>> {
        let (issued, task) = (self.issued.take()?, self.task.take()?);
        let (client, server, resource) = (self.client.take()?, self.server.as_ref()?, self.resource.as_ref()?);
        let former = task.former.filter(|_| task.goal == Goal::Refresh);
        let (requested, granted, refresh_token) = match former {
            Some(former) => (former.requested, former.granted, former.refresh_token),
            None => (self.requested.clone(), self.requested.clone(), None),
        };
        Some(Box::new(Record {
            generation: 0,
            server: core.server.text().into(),
            issuer: server.issuer.clone(),
            resource: resource.resource.clone(),
            client,
            requested,
            granted: issued.scopes.unwrap_or(granted),
            bound_to: if self.is_bound(core) { core.options.dpop.map(|key| key.thumbprint()) } else { None },
            access_token: issued.access_token,
            expires: issued.life.map(|life| (core.unix().saturating_add(life), life)),
            refresh_token: issued.refresh_token.or(refresh_token),
            revocation_endpoint: server.revocation_endpoint.as_ref().map(|place| place.text().into()),
        }))
    }

    /// What was to be signed was signed.
    pub(super) fn handle_signature(&mut self, core: &mut Core, id: SignId, signature: &[u8]) -> Option<End> {
        let at = self.signs.iter().position(|(asked, ..)| *asked == id)?;
        let (_, key, input) = self.signs.remove(at);
        if signature.is_empty() {
            return self.fail(core, "the token request was not signed");
        }
        self.set_signed(key, signed(input.expose(), signature));
        if self.signs.is_empty() { self.step(core, Input::Signed) } else { None }
    }

    /// The response of an exchange ended.
    pub(super) fn handle_end(&mut self, core: &mut Core, id: OAuthExchangeId) -> Option<End> {
        let exchange = self.exchange.take_if(|exchange| exchange.id == id)?;
        if exchange.status.is_none() {
            return self.broke(core, "the response has no head");
        }
        let input = match self.state.0 {
            State::Resource | State::Server | State::Assumed => self.metadata_ended(core, &exchange),
            State::Registering => self.registration_ended(core, &exchange),
            State::Exchanging => Some(self.exchange_ended(core, &exchange)),
            State::Token => self.token_ended(core, &exchange),
            State::Idle | State::Planning | State::Queued | State::User | State::Signing | State::Pausing => None,
        };
        self.follow(core, input)
    }

    /// The response exceeds the limit.
    pub(super) fn too_long(&mut self, core: &mut Core) -> Option<End> {
        if let Some(exchange) = self.exchange.take() {
            core.drop_exchange(exchange.id);
        }
        let why = format!("the response is longer than {} bytes", core.options.limits.bytes);
        let input = match self.state.0 {
            State::Resource | State::Server | State::Assumed => {
                let Some(Ok(place)) = self.places.front().cloned() else { return None };
                self.refused(&place, &why)
            }
            State::Exchanging | State::Token => {
                self.token_failed(NotIssued { failure: Failure::Other, why: why.into() })
            }
            State::Idle
            | State::Planning
            | State::Registering
            | State::Queued
            | State::User
            | State::Signing
            | State::Pausing => self.failed(why),
        };
        self.step(core, input)
    }

    /// The exchange broke.
    pub(super) fn broke(&mut self, core: &mut Core, why: &str) -> Option<End> {
        let input = match self.state.0 {
            State::Resource | State::Server | State::Assumed => {
                let Some(Ok(place)) = self.places.front().cloned() else { return None };
                self.unusable(Place::Unreached, &format!("`{place}` cannot be read: {why}"))
            }
            State::Exchanging | State::Token => {
                let why = format!("the token request broke: {why}").into();
                self.token_failed(NotIssued { failure: Failure::Transient, why })
            }
            State::Registering => self.failed(format!("the registration broke: {why}")),
            State::Idle | State::Planning | State::Queued | State::User | State::Signing | State::Pausing => {
                return None;
            }
        };
        self.step(core, input)
    }

    /// The user's browser was redirected. Returns whether the redirect belongs to this attempt.
    pub(super) fn handle_redirect(&mut self, core: &mut Core, redirect: &str) -> (bool, Option<End>) {
        let input = self.redirected(redirect);
        (input.is_some(), self.follow(core, input))
    }

    /// The time of the current wait is over.
    pub(super) fn handle_timeout(&mut self, core: &mut Core) -> Option<End> {
        if let Some(exchange) = self.exchange.take_if(|exchange| exchange.deadline <= core.now) {
            core.drop_exchange(exchange.id);
            return self.broke(core, "there was no response in time");
        }
        if self.deadline.is_none_or(|deadline| deadline > core.now) {
            return None;
        }
        self.deadline = None;
        match self.state.0 {
            State::Pausing => self.step(core, Input::Paused),
            State::User => {
                let limit = core.options.timeouts.user.as_secs();
                self.fail(core, format!("the user did not authorize within {limit} s"))
            }
            State::Signing => self.fail(core, "the token request was not signed in time"),
            State::Idle
            | State::Resource
            | State::Server
            | State::Assumed
            | State::Planning
            | State::Registering
            | State::Queued
            | State::Exchanging
            | State::Token => None,
        }
    }

    /// The time of the exchange or of the wait is over for good: nothing is in progress any more.
    pub(super) fn stop(&mut self, core: &mut Core) {
        let _ = self.step(core, Input::Stop);
        self.task = None;
    }
}
