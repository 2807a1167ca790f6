//! Applies the table of an attempt: what is requested, of whom, and what comes of it.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use super::Secret;
use super::action::{AuthorizationUrl, OAuthAction, OAuthExchangeId, SignId, SignKey};
use super::core::{Core, Exchange};
use super::entropy::challenge_of;
use super::error::{OAuthError, Stage};
use super::form::Form;
use super::hide::hide;
use super::metadata::{Resource, Server};
use super::place::Place;
use super::record::{ClientRecord, Record, narrowed, union};
use super::task::{End, Held, Task};
use super::token::Issued;
use crate::Time;
use crate::machine::authorization::{Effect, Input, State, take};
use crate::machine::authorization_plan::{Goal, Tries};
use crate::machine::{authorization_metadata, credential_need, once};

/// Token requests of one attempt.
const TRIES: u32 = 3;

/// An attempt to obtain or refresh a token.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempt {
    pub(super) state: Phase,
    pub(super) task: Option<Task>,
    /// The end of the wait for the user, a signature, or the next token request.
    pub(super) deadline: Option<Time>,
    pub(super) exchange: Option<Exchange>,
    /// Where metadata may be; the first is the current place. `Err` says why a place is not asked.
    pub(super) places: VecDeque<Result<Place, Box<str>>>,
    pub(super) redirects: u8,
    /// Authorization servers whose metadata was not requested yet.
    pub(super) issuers: VecDeque<Place>,
    /// The authorization server whose metadata is requested.
    pub(super) asked: Option<Place>,
    /// What is known of the metadata.
    metadata: authorization_metadata::State,
    /// The MCP server has a version after 2025-03-26 for certain, and therefore protected-resource metadata.
    pub(super) is_modern: bool,
    pub(super) resource: Option<Resource>,
    pub(super) server: Option<Server>,
    /// The client that [`plan`](super::plan) chose.
    pub(super) client: Option<ClientRecord>,
    pub(super) held: Option<Held>,
    /// The authorization server that the server named when a configured client without an issuer was first used.
    pub(super) first_issuer: Option<Box<str>>,
    /// Whether the client is registered anew, because the authorization server does not know it any more.
    pub(super) registration: once::State,
    pub(super) state_word: Option<Secret>,
    pub(super) verifier: Option<Secret>,
    pub(super) code: Option<Secret>,
    pub(super) requested: Box<str>,
    /// Signatures that are requested, and what they sign.
    pub(super) signs: Vec<(SignId, SignKey, Secret)>,
    /// The signed assertion of the client.
    pub(super) assertion: Option<Secret>,
    /// The signed proof of possession for the token request.
    pub(super) proof: Option<Secret>,
    /// Whether the token request is sent again, with the nonce that the authorization server demanded.
    pub(super) renewal: once::State,
    /// The grant of the identity provider.
    pub(super) grant: Option<Secret>,
    /// The assertions and grants that were sent, which a response may repeat.
    pub(super) used: Vec<Secret>,
    pub(super) sent: u32,
    pub(super) issued: Option<Issued>,
    pub(super) why: Option<OAuthError>,
}

/// The state of the table, which begins idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Phase(pub(super) State);

impl Default for Phase {
    fn default() -> Self {
        Self(State::Idle)
    }
}

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
        begin.and_then(|input| self.step(core, input))
    }

    /// Takes an input of the metadata. Returns how an attempt begins.
    pub(super) fn step_metadata(&mut self, input: authorization_metadata::Input) -> Option<Input> {
        use authorization_metadata::Effect;
        let row = authorization_metadata::take(self.metadata, input);
        self.metadata = row.next;
        let mut begin = None;
        for effect in row.effects {
            match effect {
                Effect::Keep => begin = Some(Input::BeginKnown),
                Effect::Drop => (self.resource, self.server) = (None, None),
                Effect::Read => begin = Some(Input::Begin),
            }
        }
        begin
    }

    /// The metadata of the authorization server was read, or is assumed.
    pub(super) fn set_server(&mut self, server: Server) {
        self.server = Some(server);
        self.step_metadata(authorization_metadata::Input::Found);
    }

    pub(super) fn goal(&self) -> Goal {
        self.task.as_ref().map_or(Goal::User, |task| task.goal)
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
        self.set_why(self.stage(), why);
        self.step(core, Input::Fail)
    }

    /// Keeps the reason of a failure.
    pub(super) fn set_why(&mut self, stage: Stage, why: impl Into<Box<str>>) {
        let stage = match self.task.as_ref().map(|task| task.need) {
            Some(credential_need::State::StepUp) => Stage::StepUp,
            Some(credential_need::State::Nobody | credential_need::State::Request) | None => stage,
        };
        self.why = Some(OAuthError::new(stage, why));
    }

    pub(super) fn stage(&self) -> Stage {
        match self.state.0 {
            State::Resource => Stage::ResourceMetadata,
            State::Server | State::Assumed => Stage::ServerMetadata,
            State::Registering | State::Planning => Stage::Registration,
            State::Queued | State::User => Stage::Authorization,
            State::Idle | State::Exchanging | State::Signing | State::Token | State::Pausing => match self.goal() {
                Goal::Refresh => Stage::Refresh,
                Goal::User | Goal::Direct => Stage::Token,
            },
        }
    }

    pub(super) fn tries(&self) -> Tries {
        if self.sent < TRIES { Tries::Left } else { Tries::Spent }
    }

    /// The exchange, if it is the one with this id.
    pub(super) fn exchange_mut(&mut self, id: OAuthExchangeId) -> Option<&mut Exchange> {
        self.exchange.as_mut().filter(|exchange| exchange.id == id)
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        let exchange = self.exchange.as_ref().map(|exchange| exchange.deadline);
        exchange.into_iter().chain(self.deadline).min()
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

    /// The scopes to request (specification 2026-07-28, "Authorization", Scope Selection Strategy).
    fn scopes(&self, core: &Core) -> Box<str> {
        let Some(task) = &self.task else { return "".into() };
        let named = task.hint.scopes.as_deref();
        let supported = self.resource.as_ref().and_then(|resource| resource.scopes.as_deref());
        let own = core.options.scopes.as_deref();
        let further = named.filter(|_| task.need == credential_need::State::StepUp).unwrap_or_default();
        let base = own.or(named).or(supported).unwrap_or_default();
        // Another authorization server may not have the scopes of the one before.
        let issuer = self.server.as_ref().map(|server| &server.issuer);
        let before = task.former.as_ref().filter(|former| Some(&former.issuer) == issuer).map(|_| &*task.scopes);
        let all = union(&[before.unwrap_or_default(), base, further]);
        let all = match self.client.as_ref().and_then(|client| client.scopes.as_deref()) {
            Some(allowed) => narrowed(&all, allowed),
            None => all,
        };
        let has_offline = self.server.as_ref().is_some_and(|server| server.has_offline_access);
        let is_user = task.goal == Goal::User;
        if core.options.offline_access && has_offline && is_user { union(&[&all, "offline_access"]) } else { all }
    }

    /// Gives the user the URL.
    fn browse(&mut self, core: &mut Core) -> Option<Input> {
        self.requested = self.scopes(core);
        let (word, verifier) = (core.entropy.word(), core.entropy.word());
        let mut query = Form::default();
        let endpoint = self.server.as_ref().and_then(|server| server.authorization_endpoint.as_ref());
        let (Some(endpoint), Some(client)) = (endpoint, &self.client) else {
            self.set_why(Stage::ServerMetadata, "the authorization server has no `authorization_endpoint`");
            return Some(Input::Fail);
        };
        query.push("response_type", "code");
        query.push("client_id", &client.id);
        query.push("redirect_uri", &client.redirect_uri);
        query.push("code_challenge", &challenge_of(&verifier));
        query.push("code_challenge_method", "S256");
        query.push("state", word.expose());
        query.push_some("resource", self.resource_param(core));
        query.push_some("scope", Some(&*self.requested).filter(|scopes| !scopes.is_empty()));
        let (url, redirect_uri) = (endpoint.with_query(query.text()).into(), client.redirect_uri.clone());
        let url = AuthorizationUrl { url, redirect_uri };
        (self.state_word, self.verifier) = (Some(word), Some(verifier));
        core.outbox.push_back(OAuthAction::Browse(url));
        self.deadline = Some(core.now + core.options.timeouts.user);
        None
    }

    /// Whether tokens are bound to a key: the embedder has one, and the servers support it.
    pub(super) fn is_bound(&self, core: &Core) -> bool {
        let required = self.resource.as_ref().is_some_and(|resource| resource.requires_proofs);
        let supported = self.server.as_ref().is_some_and(|server| server.takes_proofs);
        core.options.dpop.is_some() && (required || supported)
    }

    /// The resource that a token is requested for.
    pub(super) fn resource_param<'a>(&'a self, core: &Core) -> Option<&'a str> {
        self.resource.as_ref().map(|resource| &*resource.resource).filter(|_| !core.options.tolerance.omit_resource)
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
