//! Component: an attempt to obtain or refresh a token, from metadata to the grant. `requests` has its requests.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use http::StatusCode;

use super::Secret;
use super::action::{OAuthAction, OAuthError, OAuthExchangeId, RegistrationKind, SignId, SignKey, Stage, excerpt};
use super::core::{Core, Exchange};
use super::credentials::{ClientRecord, Need, Record, union};
use super::metadata::{Resource, Server, Unfit};
use super::options::{ClientAuth, Flow, RegisteredClient};
use super::place::Place;
use super::proof::signed;
use super::requests::{Issued, NotIssued};
use super::secret::hide;
use crate::Time;
use crate::machine::oauth_attempt::{
    self, Answer, Client, Code, Configured, Effect, Failure, Fallback, Goal, Input, Offer, State,
};

/// Token requests of one attempt.
const TRIES: u32 = 3;

/// Redirects that are followed for one place.
const REDIRECTS: u8 = 3;

/// An attempt to obtain or refresh a token.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempt {
    pub(super) state: State,
    pub(super) task: Option<Task>,
    /// The end of the wait for the user, a signature, or the next token request.
    pub(super) deadline: Option<Time>,
    pub(super) exchange: Option<Exchange>,
    /// Where metadata may be; the first is the current place. `Err` says why a place is not asked.
    pub(super) places: VecDeque<Result<Place, Box<str>>>,
    pub(super) redirects: u8,
    /// Whether one of the places of the metadata that is looked for did not respond.
    unreached: bool,
    /// Authorization servers whose metadata was not requested yet.
    pub(super) issuers: VecDeque<Place>,
    /// The authorization server whose metadata is requested.
    pub(super) asked: Option<Place>,
    /// The MCP server has a version after 2025-03-26 for certain, and therefore protected-resource metadata.
    pub(super) is_modern: bool,
    pub(super) resource: Option<Resource>,
    /// There is one once it was read or assumed. It is kept for the next attempt.
    pub(super) server: Option<Server>,
    /// The client that [`plan`](Self::plan) chose.
    pub(super) client: Option<ClientRecord>,
    pub(super) held: Option<Held>,
    /// The authorization server that the server named when a configured client without an issuer was first used.
    first_issuer: Option<Box<str>>,
    /// The authorization server does not know the client any more, so that another one is registered, once.
    is_client_lost: bool,
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
    /// Whether the token request is sent again with the nonce that the authorization server demanded, once.
    pub(super) is_nonce_renewed: bool,
    /// The grant of the identity provider.
    pub(super) grant: Option<Secret>,
    /// The assertions and grants that were sent, which a response may repeat.
    pub(super) used: Vec<Secret>,
    pub(super) sent: u32,
    pub(super) issued: Option<Issued>,
    pub(super) why: Option<OAuthError>,
}

/// A document that was read.
enum Document {
    Resource(Resource),
    Server(Box<Server>),
}

/// What a challenge of the server says.
#[derive(Clone, Debug, Default)]
pub(super) struct Hint {
    pub(super) metadata: Option<Box<str>>,
    pub(super) scopes: Option<Box<str>>,
}

/// What an attempt is to obtain.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) goal: Goal,
    pub(super) hint: Hint,
    /// Who needs the token.
    pub(super) need: Need,
    /// The authorization server does not know the client any more.
    pub(super) is_client_lost: bool,
    /// The scopes that are requested besides.
    pub(super) scopes: Box<str>,
    /// The credentials so far.
    pub(super) held: Option<Held>,
    /// The record that an issued token belongs to.
    pub(super) former: Option<Box<Record>>,
}

/// A client, and the authorization server that it belongs to.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) issuer: Box<str>,
    pub(super) client: ClientRecord,
    pub(super) refresh_token: Option<Secret>,
}

/// How an attempt ended.
#[derive(Debug)]
pub(super) enum End {
    /// With a token. The record has no generation yet.
    Issued(Box<Record>),
    /// The refresh token cannot be used any more. Says whether the authorization server does not know the client either.
    Refused { is_client_lost: bool },
    /// With an error.
    Failed(OAuthError),
}

impl Attempt {
    /// What was read may be outdated: the next attempt reads it anew.
    pub(super) fn drop_metadata(&mut self) {
        (self.resource, self.server) = (None, None);
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
            Some(Need::StepUp) => Stage::StepUp,
            Some(Need::Nobody | Need::Request) | None => stage,
        };
        self.why = Some(OAuthError::new(stage, why));
    }

    pub(super) fn stage(&self) -> Stage {
        match self.state {
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
        let is_renewable = is_dynamic && !self.is_client_lost;
        let input = oauth_attempt::failed(self.goal(), failed.failure, is_renewable, self.sent >= TRIES);
        let stage = if failed.failure == Failure::InvalidClient { Stage::Registration } else { self.stage() };
        self.set_why(stage, failed.why);
        input
    }

    /// Begins an attempt.
    pub(super) fn begin(&mut self, core: &mut Core, task: Task) -> Option<End> {
        let is_known = self.server.is_some();
        *self = Self {
            resource: self.resource.take().filter(|_| is_known),
            server: self.server.take(),
            is_modern: self.is_modern,
            held: task.held.clone(),
            first_issuer: self.first_issuer.take(),
            is_client_lost: task.is_client_lost,
            ..Self::default()
        };
        if !is_known {
            self.find_resource(core, task.hint.metadata.as_deref());
        }
        self.task = Some(task);
        self.step(core, if is_known { Input::BeginKnown } else { Input::Begin })
    }

    /// Takes an input, and those that its effects lead to.
    pub(super) fn step(&mut self, core: &mut Core, input: Input) -> Option<End> {
        let (mut next, mut end) = (Some(input), None);
        while let Some(input) = next.take() {
            let row = oauth_attempt::step(self.state, input);
            self.state = row.next;
            for effect in row.effects {
                match effect {
                    Effect::RequestMetadata => next = self.request_metadata(core),
                    Effect::FindServers => self.find_servers(),
                    Effect::AssumeOrigin => self.assume_origin(core),
                    Effect::AssumeEndpoints => self.server = Server::assumed(core.server.origin()),
                    Effect::Plan => next = Some(self.plan(core)),
                    Effect::Register => self.register(core),
                    Effect::DropClient => {
                        (self.held, self.code) = (None, None);
                        self.is_client_lost = true;
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
                    Effect::ReportRefused => end = Some(End::Refused { is_client_lost: self.is_client_lost }),
                    Effect::ReportFailed => {
                        self.drop_metadata();
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
        let input = match self.state {
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
        let input = match self.state {
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
        let input = match self.state {
            State::Resource | State::Server | State::Assumed => {
                let Some(Ok(place)) = self.places.front().cloned() else { return None };
                self.unreached = true;
                self.unusable(&format!("`{place}` cannot be read: {why}"))
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
        match self.state {
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

    /// Finds the places of protected-resource metadata: the one that the challenge names, and the well-known ones.
    fn find_resource(&mut self, core: &Core, named: Option<&str>) {
        if let Some(named) = named {
            let checked = Place::parse(named).ok_or("is no http(s) URL, or is too long");
            let checked = checked.and_then(|place| place.check(core.zone).map(|()| place));
            let shown = excerpt(&crate::text::shown(named));
            self.places
                .push_back(checked.map_err(|why| format!("`resource_metadata` is `{shown}`, which {why}").into()));
        }
        for text in core.server.resource_metadata() {
            let place = Place::parse(&text).filter(|place| !self.places.contains(&Ok(place.clone())));
            self.places.extend(place.map(Ok));
        }
    }

    fn find_servers(&mut self) {
        self.issuers = self.resource.iter().flat_map(|resource| resource.issuers.iter().cloned()).collect();
        self.next_server();
    }

    /// The conventions of 2025-03-26: the MCP server's origin is the authorization server.
    fn assume_origin(&mut self, core: &Core) {
        let resource = core.server.text().into();
        self.resource = Some(Resource { resource, issuers: Vec::new(), scopes: None, requires_proofs: false });
        self.issuers = Place::parse(core.server.origin()).into_iter().collect();
        self.next_server();
    }

    /// Finds the places of the next authorization server's metadata.
    fn next_server(&mut self) {
        self.places.clear();
        self.unreached = false;
        self.asked = self.issuers.pop_front();
        if let Some(asked) = &self.asked {
            self.places.extend(asked.server_metadata().filter_map(|text| Place::parse(&text)).map(Ok));
        }
    }

    /// Requests metadata from the current place.
    fn request_metadata(&mut self, core: &mut Core) -> Option<Input> {
        match self.places.front() {
            Some(Ok(place)) => {
                self.exchange = core.get(place);
                None
            }
            Some(Err(why)) => {
                let why = why.clone();
                self.set_why(self.stage(), why);
                Some(oauth_attempt::metadata(Answer::Refused, self.fallback(), self.unreached))
            }
            None => None,
        }
    }

    /// Where else metadata may be.
    fn fallback(&self) -> Fallback {
        let (others, conventions) = match self.state {
            State::Resource => (false, !self.is_modern),
            State::Assumed => (false, true),
            State::Server
            | State::Idle
            | State::Planning
            | State::Registering
            | State::Queued
            | State::User
            | State::Exchanging
            | State::Signing
            | State::Token
            | State::Pausing => (!self.issuers.is_empty(), false),
        };
        match (others || self.places.len() > 1, conventions) {
            (true, _) => Fallback::Place,
            (false, true) => Fallback::Conventions,
            (false, false) => Fallback::Nothing,
        }
    }

    /// The response from the current place ended.
    fn metadata_ended(&mut self, core: &Core, exchange: &Exchange) -> Option<Input> {
        let Some(Ok(place)) = self.places.front().cloned() else { return None };
        let status = exchange.status.unwrap_or_default();
        if status.is_redirection() {
            let target = exchange.location.as_deref().and_then(|location| place.resolve(location));
            return Some(self.moved(&place, target));
        }
        if status != StatusCode::OK {
            return Some(self.unusable(&format!("`{place}` answered HTTP {}", status.as_u16())));
        }
        let read = match (self.state, &self.asked) {
            (State::Server | State::Assumed, Some(asked)) => {
                let read = |asked| {
                    Server::read(&exchange.body, asked, core.zone, &core.options).map(Box::new).map(Document::Server)
                };
                match (read(asked), self.slashed(asked)) {
                    (Err(Unfit::Refused(_)), Some(slashed)) => read(&slashed),
                    (read, _) => read,
                }
            }
            _ => Resource::read(&exchange.body, &core.server, core.zone, &core.options).map(Document::Resource),
        };
        Some(match read {
            Ok(document) => {
                let input = oauth_attempt::metadata(Answer::Accepted, self.fallback(), self.unreached);
                match document {
                    Document::Resource(resource) => self.resource = Some(resource),
                    Document::Server(server) => self.server = Some(*server),
                }
                input
            }
            Err(Unfit::NoMetadata(why)) => self.unusable(&format!("at `{place}`, {why}")),
            Err(Unfit::Refused(why)) => self.refused(&place, &why),
        })
    }

    /// An assumed issuer has no spelling of its own: with a final slash it is the same.
    fn slashed(&self, asked: &Place) -> Option<Place> {
        Place::parse(&format!("{}/", asked.text())).filter(|_| self.state == State::Assumed)
    }

    fn moved(&mut self, from: &Place, target: Option<Place>) -> Input {
        let within = target.filter(|to| to.is_same_origin(from) && self.redirects < REDIRECTS);
        let answer = if within.is_some() { Answer::Moved } else { Answer::MovedAway };
        let input = oauth_attempt::metadata(answer, self.fallback(), self.unreached);
        match (within, self.places.front_mut()) {
            (Some(target), Some(front)) => {
                *front = Ok(target);
                self.redirects = self.redirects.saturating_add(1);
            }
            _ => {
                let why = format!("`{from}` redirects to another origin, to no URL, or more than {REDIRECTS} times");
                self.set_why(self.stage(), why);
            }
        }
        input
    }

    /// The current place has no metadata, or did not respond.
    fn unusable(&mut self, why: &str) -> Input {
        let input = oauth_attempt::metadata(Answer::Unusable, self.fallback(), self.unreached);
        if input == Input::Next {
            self.places.pop_front();
            if self.places.is_empty() {
                self.next_server();
            }
        }
        self.redirects = 0;
        let found = if self.unreached { "whether there is metadata is not known" } else { "there is no metadata" };
        self.set_why(self.stage(), format!("{found}; last, {why}"));
        input
    }

    /// What the current place has is not used.
    pub(super) fn refused(&mut self, place: &Place, why: &str) -> Input {
        let why: Box<str> = format!("the metadata at `{place}` is refused: {why}").into();
        let input = oauth_attempt::metadata(Answer::Refused, self.fallback(), self.unreached);
        self.set_why(self.stage(), why);
        input
    }

    /// What follows when the metadata is known.
    fn plan(&mut self, core: &Core) -> Input {
        let Some(server) = &self.server else { return Input::Fail };
        let is_own = |client: &&RegisteredClient| self.issuer_of(client).is_none_or(|own| *own == *server.issuer);
        let configured = configured(core, &server.issuer).filter(is_own);
        let class = match configured {
            Some(_) => Configured::Fits,
            None if core.options.registered.is_empty() => Configured::Nothing,
            None => Configured::Elsewhere,
        };
        let choice = oauth_attempt::client(class, self.is_held(core, server), offer(core, server));
        let client = match choice {
            Client::Configured => configured.map(|client| configured_client(core, server, client)),
            Client::Held => self.held.as_ref().map(|held| held.client.clone()),
            Client::Document => core.options.client_metadata_url.as_deref().map(|url| document_client(core, url)),
            Client::Dynamic | Client::Elsewhere | Client::Nothing => None,
        };
        let is_owner = self.goal() != Goal::Refresh
            || self.held.as_ref().is_none_or(|held| {
                let is_other = client.as_ref().is_some_and(|client| client.id != held.client.id);
                held.issuer == server.issuer && !is_other
            });
        let has_grant = match (self.goal(), &core.options.flow) {
            (Goal::Direct, Flow::Enterprise(_)) => self.grant.is_some(),
            (Goal::Direct, Flow::User | Flow::ClientCredentials | Flow::JwtBearer(_)) => true,
            (Goal::User | Goal::Refresh, _) => self.code.is_some(),
        };
        let code = if has_grant {
            Code::Held
        } else if core.options.may_ask_user {
            Code::Missing
        } else {
            Code::Withheld
        };
        let auth = client.as_ref().map(|client| &client.auth);
        let is_signed = self.is_bound(core) || matches!(auth, Some(ClientAuth::PrivateKeyJwt { .. }));
        let is_shared = core.is_browser_shared;
        let input = oauth_attempt::plan(self.goal(), choice, is_owner, code, is_signed, is_shared);
        let (stage, why) = self.reason(core, server, choice, code);
        // From now on a client without an issuer belongs to this one, so that no other one gets its secret. One that is
        // assumed does not count: once there is metadata, it may be another one.
        let is_sent = matches!(input, Input::Request | Input::Sign);
        let is_named = self.resource.as_ref().is_some_and(|resource| !resource.issuers.is_empty());
        if is_sent && is_named && configured.is_some_and(|client| client.issuer.is_none()) {
            self.first_issuer = Some(server.issuer.clone());
        }
        self.client = client;
        if input == Input::Fail {
            self.set_why(stage, why);
        }
        input
    }

    /// Whether the credentials were issued to a client of this authorization server, whose secret has not expired.
    fn is_held(&self, core: &Core, server: &Server) -> bool {
        self.held.as_ref().is_some_and(|held| {
            held.issuer == server.issuer && held.client.secret_expires.is_none_or(|at| at > core.unix())
        })
    }

    /// The authorization server that a configured client belongs to: the one that is configured, or the first one that
    /// it was used at.
    fn issuer_of<'a>(&'a self, client: &'a RegisteredClient) -> Option<&'a str> {
        let is_same = |held: &&Held| held.client.kind == RegistrationKind::PreRegistered && held.client.id == client.id;
        let held = self.held.as_ref().filter(is_same).map(|held| &*held.issuer);
        client.issuer.as_deref().or(held).or(self.first_issuer.as_deref())
    }

    /// Why nothing can follow.
    fn reason(&self, core: &Core, server: &Server, choice: Client, code: Code) -> (Stage, Box<str>) {
        let issuer = excerpt(&crate::text::shown(&server.issuer));
        if choice == Client::Elsewhere {
            let other = core.options.registered.iter().find_map(|client| self.issuer_of(client)).unwrap_or_default();
            let other = excerpt(&crate::text::shown(other));
            let why = format!(
                "the client is registered at `{other}`, and the server now names `{issuer}`: register one there"
            );
            return (Stage::Registration, why.into());
        }
        if code == Code::Withheld && core.options.flow == Flow::User {
            let why = format!("the server offers OAuth at `{issuer}`, and the user may not be asked");
            return (Stage::Authorization, why.into());
        }
        let why = format!("`{issuer}` offers no registration that can be used: configure a client ID for it");
        (Stage::Registration, why.into())
    }

    /// The secrets that an attempt sends.
    pub(super) fn secrets<'a>(&'a self, core: &'a Core) -> Vec<&'a Secret> {
        let options = &core.options;
        let mut secrets: Vec<&Secret> = options.registered.iter().filter_map(|client| client.secret.as_ref()).collect();
        match &options.flow {
            Flow::User | Flow::ClientCredentials => {}
            Flow::JwtBearer(assertion) => secrets.push(assertion),
            Flow::Enterprise(provider) => {
                secrets.push(&provider.id_token);
                secrets.extend(&provider.client_secret);
            }
        }
        secrets
            .extend(self.code.iter().chain(&self.verifier).chain(&self.grant).chain(&self.assertion).chain(&self.used));
        secrets.extend(self.client.iter().filter_map(|client| client.secret.as_ref()));
        if let Some(held) = &self.held {
            secrets.extend(held.client.secret.iter().chain(&held.refresh_token));
        }
        let former = self.task.as_ref().and_then(|task| task.former.as_deref());
        secrets.extend(former.into_iter().flat_map(Record::secrets));
        secrets
    }
}

/// The client that was registered in advance for an authorization server.
fn configured<'a>(core: &'a Core, issuer: &str) -> Option<&'a RegisteredClient> {
    let registered = &core.options.registered;
    let exact = registered.iter().find(|client| client.issuer.as_deref() == Some(issuer));
    exact.or_else(|| registered.iter().find(|client| client.issuer.is_none()))
}

fn offer(core: &Core, server: &Server) -> Offer {
    if server.has_client_documents && core.options.client_metadata_url.is_some() {
        Offer::Document
    } else if server.registration_endpoint.is_some() && core.options.flow == Flow::User {
        Offer::Dynamic
    } else {
        Offer::Nothing
    }
}

fn configured_client(core: &Core, server: &Server, client: &RegisteredClient) -> ClientRecord {
    let auth = match (&client.auth, &client.secret) {
        (Some(auth), _) => auth.clone(),
        (None, None) => ClientAuth::None,
        (None, Some(_)) => with_secret(server),
    };
    ClientRecord {
        id: client.id.clone(),
        secret: client.secret.clone(),
        secret_expires: None,
        auth,
        redirect_uri: core.options.redirect_of(client),
        scopes: None,
        kind: RegistrationKind::PreRegistered,
    }
}

fn document_client(core: &Core, url: &str) -> ClientRecord {
    ClientRecord {
        id: url.into(),
        secret: None,
        secret_expires: None,
        auth: ClientAuth::None,
        redirect_uri: core.options.redirect_uri.clone(),
        scopes: None,
        kind: RegistrationKind::MetadataDocument,
    }
}

fn supports(server: &Server, auth: &ClientAuth) -> bool {
    let listed = |methods: &alloc::vec::Vec<Box<str>>| methods.iter().any(|method| **method == *auth.as_str());
    server.auth_methods.as_ref().is_some_and(listed)
}

/// How a client with a secret authenticates (RFC 8414, section 2: `client_secret_basic` unless the metadata says
/// otherwise).
fn with_secret(server: &Server) -> ClientAuth {
    if !supports(server, &ClientAuth::Basic) && supports(server, &ClientAuth::Post) {
        ClientAuth::Post
    } else {
        ClientAuth::Basic
    }
}

/// How a client that registers dynamically asks to authenticate.
pub(super) fn preferred(server: &Server) -> ClientAuth {
    if supports(server, &ClientAuth::None) { ClientAuth::None } else { with_secret(server) }
}
