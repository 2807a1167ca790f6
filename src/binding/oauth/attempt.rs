//! The state of an attempt: what is requested, of whom, and what is known of them.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::Secret;
use super::action::{OAuthExchangeId, RegistrationKind, SignId, SignKey};
use super::core::{Core, Exchange};
use super::error::{OAuthError, Stage};
use super::metadata::{Resource, Server};
use super::place::Place;
use super::record::{ClientRecord, union};
use super::task::{Held, Task};
use super::token::{Issued, NotIssued};
use crate::Time;
use crate::machine::authorization::{Input, State};
use crate::machine::authorization_plan::{Failure, Goal, Places, Registration, Tries, take};
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
    /// What the places of the metadata that is looked for did.
    pub(super) reached: Places,
    /// Authorization servers whose metadata was not requested yet.
    pub(super) issuers: VecDeque<Place>,
    /// The authorization server whose metadata is requested.
    pub(super) asked: Option<Place>,
    /// What is known of the metadata.
    pub(super) metadata: authorization_metadata::State,
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

    /// Keeps the reason of a failure, which is the input that follows.
    pub(super) fn failed(&mut self, why: impl Into<Box<str>>) -> Input {
        self.set_why(self.stage(), why);
        Input::Fail
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
        Time::earliest([exchange, self.deadline])
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

    /// The scopes to request without a user.
    pub(super) fn direct_scopes(&self, core: &Core) -> Box<str> {
        let Some(task) = &self.task else { return "".into() };
        let supported = self.resource.as_ref().and_then(|resource| resource.scopes.as_deref());
        let named = task.hint.scopes.as_deref();
        let own = core.options.scopes.as_deref();
        union(&[&task.scopes, own.or(named).or(supported).unwrap_or_default()])
    }

    /// The request for a token or a grant failed.
    pub(super) fn token_failed(&mut self, failed: NotIssued) -> Input {
        let is_dynamic = self.client.as_ref().is_some_and(|it| it.kind == RegistrationKind::Dynamic);
        let registration = match self.registration {
            once::State::Left if is_dynamic => Registration::Dynamic,
            once::State::Left | once::State::Spent => Registration::Fixed,
        };
        let input = take::failed(self.goal(), failed.failure, registration, self.tries());
        let stage = if failed.failure == Failure::InvalidClient { Stage::Registration } else { self.stage() };
        self.set_why(stage, failed.why);
        input
    }
}
