//! What follows when the metadata is known: the client, the user's grant, tokens; and what the responses mean.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue, StatusCode};
use zeroize::Zeroizing;

use super::Secret;
use super::action::{AuthorizationUrl, OAuthAction, RegistrationKind, SignId, SignKey, Stage, excerpt};
use super::attempt::{End, Next, Payload, TRIES, Task, failure};
use super::core::{Core, Exchange, Signing};
use super::credentials::{
    ClientRecord, LONGEST_SCOPES, LONGEST_TOKEN, Need, Record, is_token, narrowed, parse, strings, text, union,
};
#[cfg(feature = "journal")]
use super::masked::DRAWN;
use super::metadata::{Metadata, Server};
use super::options::{ClientAuth, Flow, RefreshScopes, RegisteredClient, is_same_issuer};
use super::place::{LONGEST, Place, Zone, is_native, with_port_of};
use super::proof::{self, proof_input, signed, signing_input};
use super::secret::challenge_of;
use crate::Time;
#[cfg(feature = "journal")]
use crate::binding::hider::HIDDEN;
use crate::binding::hider::Hider;
use crate::encodings::percent_encode;
use crate::jsonrpc::{Json, Object, string};
use crate::machine::oauth_attempt::{self, Client, Code, Failure, Goal, Input, State};

pub(super) const FORM: &str = "application/x-www-form-urlencoded";
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// Seconds for which an assertion of the client is valid.
const ASSERTION_LIFE: u64 = 300;

const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

/// Bytes of an ID or a secret of a client.
const LONGEST_ID: usize = 4 << 10;

/// The longest life of a token that is believed, in seconds: ten years.
const LONGEST_LIFE: u64 = 10 * 365 * 24 * 3600;

/// The part of an attempt that begins when the metadata is known.
#[derive(Clone, Debug)]
pub(super) struct Obtaining {
    pub(super) metadata: Box<Metadata>,
    /// The client that the credentials were issued to, or that was registered, and the authorization server that was asked.
    held: Option<(Box<str>, ClientRecord)>,
    /// The authorization server does not know the client any more, so that another one is registered, once.
    is_client_lost: bool,
    requested: Box<str>,
    /// The code that the user granted, and its verifier.
    code: Option<(Secret, Secret)>,
    /// The grant of the identity provider.
    assertion: Option<Secret>,
    /// The assertions and grants that were sent, which a response may repeat.
    used: Vec<Secret>,
    /// Token requests so far.
    pub(super) sent: u32,
    /// Whether the token request is sent again with the nonce that the authorization server demanded, once.
    is_nonce_renewed: bool,
    pub(super) step: Step,
}

/// The state, with its data.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Planning,
    Registering,
    Queued(ClientRecord),
    User { client: ClientRecord, word: Secret, verifier: Secret, deadline: Time },
    Exchanging,
    Signing(Signatures),
    Token(ClientRecord),
    Pausing(Time),
}

/// The signatures that a token request needs.
#[derive(Clone, Debug)]
pub(super) struct Signatures {
    client: ClientRecord,
    /// Those that are requested, and what they sign.
    requested: Vec<(SignId, SignKey, Secret)>,
    /// The assertion of the client.
    assertion: Option<Secret>,
    /// The proof of possession.
    proof: Option<Secret>,
    deadline: Time,
}

impl Obtaining {
    pub(super) fn new(metadata: Box<Metadata>, task: &Task) -> Self {
        let held = task.former.as_ref().filter(|_| !task.is_client_lost);
        Self {
            metadata,
            held: held.map(|former| (former.asked.clone(), former.client.clone())),
            is_client_lost: task.is_client_lost,
            requested: "".into(),
            code: None,
            assertion: None,
            used: Vec::new(),
            sent: 0,
            is_nonce_renewed: false,
            step: Step::Planning,
        }
    }

    pub(super) const fn state(&self) -> State {
        match self.step {
            Step::Planning => State::Planning,
            Step::Registering => State::Registering,
            Step::Queued(_) => State::Queued,
            Step::User { .. } => State::User,
            Step::Exchanging => State::Exchanging,
            Step::Signing(_) => State::Signing,
            Step::Token(_) => State::Token,
            Step::Pausing(_) => State::Pausing,
        }
    }

    pub(super) const fn stage(&self, goal: Goal) -> Stage {
        match (&self.step, goal) {
            (Step::Planning | Step::Registering, _) => Stage::Registration,
            (Step::Queued(_) | Step::User { .. }, _) => Stage::Authorization,
            (Step::Exchanging | Step::Signing(_) | Step::Token(_) | Step::Pausing(_), Goal::Refresh) => Stage::Refresh,
            (Step::Exchanging | Step::Signing(_) | Step::Token(_) | Step::Pausing(_), Goal::User | Goal::Direct) => {
                Stage::Token
            }
        }
    }

    /// Whether a code was issued, so that the attempt is not interrupted.
    pub(super) const fn has_code(&self) -> bool {
        self.code.is_some()
    }

    /// The end of a wait.
    pub(super) const fn deadline(&self) -> Option<Time> {
        match &self.step {
            Step::User { deadline, .. } | Step::Signing(Signatures { deadline, .. }) | Step::Pausing(deadline) => {
                Some(*deadline)
            }
            Step::Planning | Step::Registering | Step::Queued(_) | Step::Exchanging | Step::Token(_) => None,
        }
    }

    /// The time of the current wait is over.
    pub(super) fn on_deadline(&self, core: &Core, stage: Stage) -> Next {
        match &self.step {
            Step::User { .. } => {
                let limit = core.options.timeouts.user.as_secs();
                failure(stage, format!("the user did not authorize within {limit} s"))
            }
            Step::Signing(_) => failure(stage, "the token request was not signed in time"),
            Step::Planning
            | Step::Registering
            | Step::Queued(_)
            | Step::Exchanging
            | Step::Token(_)
            | Step::Pausing(_) => (Input::Paused, Payload::Nothing),
        }
    }

    /// The response of the exchange ended.
    pub(super) fn on_end(
        &mut self,
        core: &mut Core,
        task: &Task,
        stage: Stage,
        status: StatusCode,
        exchange: &Exchange,
    ) -> Option<Next> {
        match &self.step {
            Step::Registering => Some(self.registration_ended(core, stage, status, exchange)),
            Step::Exchanging => Some(match granted(status, &exchange.body, core.options.limits.bytes) {
                Ok(grant) => (Input::Exchanged, Payload::Grant(grant)),
                Err(NotIssued { failure, why }) => {
                    let why = explained(why, exchange, core.options.limits.bytes);
                    self.token_failed(task.goal, stage, NotIssued { failure, why })
                }
            }),
            Step::Token(_) => Some(self.token_ended(core, task.goal, stage, status, exchange)),
            Step::Planning | Step::Queued(_) | Step::User { .. } | Step::Signing(_) | Step::Pausing(_) => None,
        }
    }

    /// The exchange broke.
    pub(super) fn broke(&self, goal: Goal, stage: Stage, why: &str) -> Option<Next> {
        match &self.step {
            Step::Registering => Some(failure(stage, format!("the registration broke: {why}"))),
            Step::Exchanging | Step::Token(_) => {
                let why = format!("the token request broke: {why}").into();
                Some(self.token_failed(goal, stage, NotIssued { failure: Failure::Transient, why }))
            }
            Step::Planning | Step::Queued(_) | Step::User { .. } | Step::Signing(_) | Step::Pausing(_) => None,
        }
    }

    /// The request for a token or a grant failed.
    fn token_failed(&self, goal: Goal, stage: Stage, failed: NotIssued) -> Next {
        let is_dynamic = matches!(&self.step, Step::Token(client) if client.kind == RegistrationKind::Dynamic);
        let is_renewable = is_dynamic && !self.is_client_lost;
        let stage = if failed.failure == Failure::InvalidClient { Stage::Registration } else { stage };
        let input = oauth_attempt::failed(goal, failed.failure, is_renewable, self.sent >= TRIES);
        if input == Input::Fail { failure(stage, failed.why) } else { (input, Payload::Nothing) }
    }

    /// What came before the next plan.
    pub(super) fn receive(&mut self, payload: Payload) {
        match (payload, core::mem::replace(&mut self.step, Step::Planning)) {
            (Payload::Client(client), _) => self.held = Some((self.metadata.server.asked.clone(), *client)),
            (Payload::Grant(code), Step::User { verifier, .. }) => self.code = Some((code, verifier)),
            (Payload::Grant(grant), _) => self.assertion = Some(grant),
            _ => {}
        }
    }

    /// Decides what follows.
    pub(super) fn plan(&self, core: &mut Core, task: &Task) -> Next {
        let server = &self.metadata.server;
        let configured = self.configured(core);
        let held =
            self.held.as_ref().filter(|(asked, _)| is_same_issuer(asked, &server.asked)).map(|(_, client)| client);
        let offer = offer(core, server);
        // A client that was registered for another redirect is registered again, where that is possible.
        let is_redirected = |client: &ClientRecord| {
            task.goal != Goal::User || offer != Offer::Dynamic || client.asked_redirect == core.options.redirect_uri
        };
        let is_valid = |client: &ClientRecord| client.secret_expires.is_none_or(|at| at > core.unix());
        let usable = held.filter(|client| is_valid(client) && is_redirected(client));
        let (choice, client) = match (configured, usable) {
            (Some(client), _) => (Client::Configured, Some(configured_client(core, server, client))),
            (None, _) if !core.options.registered.is_empty() => (Client::Elsewhere, None),
            // A refresh has no redirect, and keeps the client as it is registered.
            (None, Some(client)) if task.goal == Goal::Refresh => (Client::Held, Some(client.clone())),
            (None, Some(client)) => (Client::Held, Some(held_client(core, client))),
            (None, None) => match offer {
                Offer::Document(url) => (Client::Document, Some(document_client(core, url))),
                Offer::Dynamic => (Client::Dynamic, None),
                Offer::Nothing => (Client::Nothing, None),
            },
        };
        let is_owner = match (task.goal, &self.held) {
            (Goal::Refresh, Some(_)) => {
                held.is_some_and(|held| client.as_ref().is_none_or(|client| client.id == held.id))
            }
            (Goal::Refresh | Goal::User | Goal::Direct, _) => true,
        };
        let has_grant = match (task.goal, &core.options.flow) {
            (Goal::Direct, Flow::Enterprise(_)) => self.assertion.is_some(),
            (Goal::Direct, Flow::User | Flow::ClientCredentials | Flow::JwtBearer(_)) => true,
            (Goal::User | Goal::Refresh, _) => self.has_code(),
        };
        let code = match has_grant {
            true => Code::Held,
            false if core.options.may_ask_user => Code::Missing,
            false => Code::Withheld,
        };
        let is_signed = self.is_bound(core)
            || client.as_ref().is_some_and(|client| matches!(client.auth, ClientAuth::PrivateKeyJwt { .. }));
        let input = oauth_attempt::plan(task.goal, choice, is_owner, code, is_signed, core.is_browser_shared);
        if input == Input::Fail {
            return self.reason(core, choice, code);
        }
        let scopes = match (task.goal, &client) {
            (Goal::User, Some(client)) => self.scopes(core, task, client),
            (Goal::Direct, _) => self.direct_scopes(core, task),
            (Goal::Refresh, _) | (Goal::User, None) => "".into(),
        };
        if scopes.len() > LONGEST_SCOPES {
            let why = format!("the scopes that are required have more than {LONGEST_SCOPES} bytes together");
            return failure(Stage::Authorization, why);
        }
        // From now on a client without an issuer belongs to this one.
        let is_sent = matches!(input, Input::Request | Input::Sign) && !server.is_assumed;
        if is_sent && configured.is_some_and(|client| core.options.issuer_of(client).is_none()) {
            core.first_issuer = Some(server.asked.clone());
        }
        (input, client.map_or(Payload::Nothing, |client| Payload::Client(Box::new(client))))
    }

    /// The client that was registered in advance for the authorization server. One with a secret is not used at one that
    /// is assumed.
    fn configured<'a>(&self, core: &'a Core) -> Option<&'a RegisteredClient> {
        let (options, server) = (&core.options, &self.metadata.server);
        let fits = |client: &&RegisteredClient| {
            let is_named = |own: &str| options.tolerance.is_configured(own, &server.asked, &server.issuer);
            options.issuer_of(client).is_some_and(is_named) && !(server.is_assumed && options.is_confidential(client))
        };
        let is_free = |client: &&RegisteredClient| {
            options.issuer_of(client).is_none()
                && self.first_issuer(core, client).is_none_or(|own| is_same_issuer(own, &server.asked))
        };
        let mut registered = options.registered.iter();
        registered.clone().find(fits).or_else(|| registered.find(is_free))
    }

    /// The authorization server that a client without an issuer was used at first.
    fn first_issuer<'a>(&'a self, core: &'a Core, client: &RegisteredClient) -> Option<&'a str> {
        let is_same = |held: &ClientRecord| held.kind == RegistrationKind::PreRegistered && held.id == client.id;
        let held = self.held.as_ref().filter(|(_, held)| is_same(held));
        held.map(|(issuer, _)| &**issuer).or(core.first_issuer.as_deref())
    }

    /// Why nothing can follow.
    fn reason(&self, core: &Core, choice: Client, code: Code) -> Next {
        let server = &self.metadata.server;
        let issuer = excerpt(&crate::text::shown(&server.asked));
        if choice == Client::Elsewhere {
            let own = |client| core.options.issuer_of(client).or(self.first_issuer(core, client));
            let other = excerpt(&crate::text::shown(core.options.registered.iter().find_map(own).unwrap_or_default()));
            let named = if server.is_assumed { "has no metadata, so that" } else { "now names" };
            let why =
                format!("the client is registered at `{other}`, and the server {named} `{issuer}`: register one there");
            return failure(Stage::Registration, why);
        }
        if code == Code::Withheld && core.options.flow == Flow::User {
            let why = format!("the server offers OAuth at `{issuer}`, and the user may not be asked");
            return failure(Stage::Authorization, why);
        }
        let why = format!("`{issuer}` offers no registration that can be used: configure a client ID for it");
        failure(Stage::Registration, why)
    }

    /// The secrets that are sent.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &Secret> {
        let held = self.held.iter().filter_map(|(_, client)| client.secret.as_ref());
        let code = self.code.iter().flat_map(|(code, verifier)| [code, verifier]);
        let (client, verifier) = match &self.step {
            Step::User { client, verifier, .. } => (client.secret.as_ref(), Some(verifier)),
            Step::Queued(client) | Step::Token(client) => (client.secret.as_ref(), None),
            Step::Signing(it) => (it.client.secret.as_ref(), None),
            Step::Planning | Step::Registering | Step::Exchanging | Step::Pausing(_) => (None, None),
        };
        held.chain(code).chain(&self.assertion).chain(client).chain(verifier).chain(&self.used)
    }

    /// The secrets that are drawn from entropy, each with its mask in a journal; and what was signed, which is hidden.
    #[cfg(feature = "journal")]
    pub(super) fn drawn(&self) -> impl Iterator<Item = (&Secret, &'static str)> {
        let sent = self.code.as_ref().map(|(_, verifier)| verifier);
        let shown = if let Step::User { word, verifier, .. } = &self.step { Some([verifier, word]) } else { None };
        let words = sent.into_iter().chain(shown.into_iter().flatten()).map(|word| (word, DRAWN));
        words.chain(self.used.iter().map(|signed| (signed, HIDDEN)))
    }

    /// The query of a redirect, if it is the answer to the URL that was shown.
    pub(super) fn own_query<'a>(&self, redirect: &'a str) -> Option<&'a str> {
        let Step::User { word, .. } = &self.step else { return None };
        let query = query_of(redirect);
        param(query, "state").ok().flatten().filter(|state| word.is(state))?;
        Some(query)
    }

    /// Whether tokens are bound to a key: the embedder has one, and the servers support it.
    fn is_bound(&self, core: &Core) -> bool {
        core.options.dpop.is_some() && (self.metadata.resource.requires_proofs || self.metadata.server.takes_proofs)
    }

    /// The resource that a token is requested for.
    fn resource_param(&self, core: &Core) -> Option<&str> {
        Some(&*self.metadata.resource.resource).filter(|_| !core.options.tolerance.omit_resource)
    }

    /// The refresh token cannot be used.
    pub(super) const fn refusal(&self) -> End {
        End::Refused { is_client_lost: self.is_client_lost }
    }

    /// Forgets the registration.
    pub(super) fn drop_client(&mut self) {
        (self.held, self.code, self.is_client_lost) = (None, None, true);
    }

    /// The record of the token that was issued.
    pub(super) fn record(&mut self, core: &Core, task: &Task, payload: Payload) -> Option<End> {
        let (Payload::Issued(issued), Step::Token(client)) = (payload, &self.step) else { return None };
        let Metadata { resource, server, .. } = &*self.metadata;
        let former = task.former.as_deref().filter(|_| task.goal == Goal::Refresh);
        let requested = former.map_or(&self.requested, |former| &former.requested);
        let granted = former.map_or(&self.requested, |former| &former.granted);
        // The scopes are shown.
        let secrets = self.secrets().chain(task.secrets()).chain([&issued.access_token]).chain(&issued.refresh_token);
        let hider = Hider::new(secrets.map(Secret::expose));
        let scopes = issued.scopes.filter(|scopes| !hider.finds_in(scopes));
        Some(End::Issued(Box::new(Record {
            generation: 0,
            server: core.server.text().into(),
            asked: server.asked.clone(),
            issuer: server.issuer.clone(),
            is_assumed: server.is_assumed,
            resource: resource.resource.clone(),
            client: client.clone(),
            requested: requested.clone(),
            granted: scopes.unwrap_or_else(|| granted.clone()),
            bound_to: core.options.dpop.filter(|_| self.is_bound(core)).map(|key| key.thumbprint()),
            access_token: issued.access_token,
            expires: issued.life.map(|life| (core.unix().saturating_add(life), life)),
            refresh_token: issued.refresh_token.or_else(|| former.and_then(|former| former.refresh_token.clone())),
            revocation_endpoint: server.revocation_endpoint.as_ref().map(|place| place.text().into()),
        })))
    }

    /// Sends the registration (RFC 7591, section 3.1).
    pub(super) fn register(&mut self, core: &mut Core) -> Option<Exchange> {
        let server = &self.metadata.server;
        let options = &core.options;
        let mut body = Vec::new();
        let mut object = Object::begin(&mut body);
        let native = is_native(&options.redirect_uri);
        object.string("application_type", if native { "native" } else { "web" });
        object.string("client_name", &options.client_name);
        object.raw("grant_types", r#"["authorization_code","refresh_token"]"#);
        object.raw("response_types", r#"["code"]"#);
        let redirects = object.value("redirect_uris");
        redirects.push(b'[');
        string(redirects, &options.redirect_uri);
        redirects.push(b']');
        object.string("token_endpoint_auth_method", preferred(core, server).as_str());
        object.end();
        self.step = Step::Registering;
        let endpoint = server.registration_endpoint.as_ref()?;
        Some(core.post(endpoint, "application/json", Zeroizing::new(body), None))
    }

    /// The response to the registration ended.
    fn registration_ended(&self, core: &Core, stage: Stage, status: StatusCode, exchange: &Exchange) -> Next {
        let asked = Asked { redirect_uri: &core.options.redirect_uri, auth: preferred(core, &self.metadata.server) };
        match registered(status, &exchange.body, core.options.limits.bytes, &asked) {
            Ok(client) => (Input::Registered, Payload::Client(Box::new(client))),
            Err(why) => failure(stage, explained(why, exchange, core.options.limits.bytes)),
        }
    }

    /// Requests the signatures that the token request needs: of the client's assertion, of the proof of possession.
    pub(super) fn sign(&mut self, core: &mut Core, client: ClientRecord) -> Option<Next> {
        let assertion = assertion_of(core, &client, &self.metadata.server.issuer);
        let deadline = core.now + core.options.timeouts.store;
        let mut it = Signatures { client, requested: Vec::new(), assertion: None, proof: None, deadline };
        if let Some((algorithm, input)) = assertion {
            it.sign(core, SignKey::Client, &algorithm, input);
        }
        if let (Some(key), true) = (core.options.dpop, self.is_bound(core)) {
            let endpoint = &self.metadata.server.token_endpoint;
            let nonce = core.nonces.of_issuer(endpoint).map(Box::<str>::from);
            let input = proof_input(core, &key, "POST", endpoint, nonce.as_deref(), None);
            it.sign(core, SignKey::Proof, proof::ALGORITHM, input);
        }
        let is_complete = it.requested.is_empty();
        self.step = Step::Signing(it);
        is_complete.then_some((Input::Signed, Payload::Nothing))
    }

    /// What was to be signed was signed.
    pub(super) fn on_signature(&mut self, id: SignId, signature: &[u8], stage: Stage) -> Option<Next> {
        let Step::Signing(it) = &mut self.step else { return None };
        let at = it.requested.iter().position(|(asked, ..)| *asked == id)?;
        let (_, key, input) = it.requested.remove(at);
        if signature.is_empty() {
            return Some(failure(stage, "the token request was not signed"));
        }
        it.keep(key, signed(input.expose(), signature));
        it.requested.is_empty().then_some((Input::Signed, Payload::Nothing))
    }

    /// Sends the token request.
    pub(super) fn request_token(
        &mut self,
        core: &mut Core,
        task: &Task,
        client: Option<ClientRecord>,
    ) -> Option<Exchange> {
        let (client, assertion, proof) = match (client, core::mem::replace(&mut self.step, Step::Planning)) {
            (Some(client), _) => (client, None, None),
            (None, Step::Signing(it)) => (it.client, it.assertion, it.proof),
            _ => return None,
        };
        let mut form = Form::default();
        match task.goal {
            Goal::User => {
                form.push("grant_type", "authorization_code");
                // Only a server that did not process it gets it again.
                let code = self.code.as_ref();
                form.push_some("code", code.map(|(code, _)| code.expose()));
                form.push_some("code_verifier", code.map(|(_, verifier)| verifier.expose()));
                form.push("redirect_uri", &client.redirect_uri);
            }
            Goal::Refresh => {
                form.push("grant_type", "refresh_token");
                let former = task.former.as_ref();
                let token = former.and_then(|former| former.refresh_token.as_ref());
                form.push_some("refresh_token", token.map(Secret::expose));
                let scopes = match core.options.tolerance.refresh_scopes {
                    RefreshScopes::None => None,
                    RefreshScopes::Granted => former.map(|former| &*former.granted),
                    RefreshScopes::Requested => former.map(|former| &*former.requested),
                };
                form.push_some("scope", scopes.filter(|scopes| !scopes.is_empty()));
            }
            Goal::Direct => {
                match &core.options.flow {
                    Flow::JwtBearer(assertion) => {
                        form.push("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer");
                        form.push("assertion", assertion.expose());
                    }
                    Flow::Enterprise(_) => {
                        form.push("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer");
                        // It may be accepted once only, so each request has a new one.
                        let grant = self.assertion.take();
                        form.push_some("assertion", grant.as_ref().map(Secret::expose));
                        self.used.extend(grant);
                    }
                    Flow::User | Flow::ClientCredentials => form.push("grant_type", "client_credentials"),
                }
                self.requested = self.direct_scopes(core, task);
                form.push_some("scope", Some(&*self.requested).filter(|scopes| !scopes.is_empty()));
            }
        }
        form.push_some("resource", self.resource_param(core));
        let header = client.authenticate(&mut form, assertion.as_ref());
        self.used.extend(assertion);
        self.sent = self.sent.saturating_add(1);
        let proof = proof.and_then(|proof| HeaderValue::from_str(proof.expose()).ok());
        let proof = proof.map(|proof| (HeaderName::from_static("dpop"), proof));
        let headers = header.map(|header| (AUTHORIZATION, header)).into_iter().chain(proof);
        self.step = Step::Token(client);
        Some(core.post(&self.metadata.server.token_endpoint, FORM, form.into_body(), headers))
    }

    /// The response to the token request ended.
    fn token_ended(
        &mut self,
        core: &mut Core,
        goal: Goal,
        stage: Stage,
        status: StatusCode,
        exchange: &Exchange,
    ) -> Next {
        if let Some(nonce) = &exchange.nonce {
            core.nonces.set_issuer(&self.metadata.server.token_endpoint, nonce.clone());
        }
        let kind = if self.is_bound(core) { "DPoP" } else { "Bearer" };
        match issued(status, &exchange.body, core.options.limits.bytes, kind) {
            Ok(issued) => (Input::Issued, Payload::Issued(issued)),
            Err(mut failed) => {
                failed.why = explained(failed.why, exchange, core.options.limits.bytes);
                if failed.failure == Failure::Nonce {
                    if self.is_nonce_renewed || exchange.nonce.is_none() {
                        failed.failure = Failure::Other;
                    } else {
                        self.is_nonce_renewed = true;
                    }
                }
                self.token_failed(goal, stage, failed)
            }
        }
    }

    /// The user has to authorize, and the browser may be in use for another server.
    pub(super) fn enqueue(&mut self, client: ClientRecord) {
        self.step = Step::Queued(client);
    }

    /// Gives the user the URL.
    pub(super) fn browse(&mut self, core: &mut Core, task: &Task, client: Option<ClientRecord>) -> Option<Next> {
        let client = match (client, core::mem::replace(&mut self.step, Step::Planning)) {
            (Some(client), _) => client,
            (None, Step::Queued(client)) => client,
            _ => return None,
        };
        let endpoint = self.metadata.server.authorization_endpoint.as_ref()?;
        self.requested = self.scopes(core, task, &client);
        let (word, verifier) = (core.entropy.word(), core.entropy.word());
        let mut query = Form::default();
        query.push("response_type", "code");
        query.push("client_id", &client.id);
        query.push("redirect_uri", &client.redirect_uri);
        query.push("code_challenge", &challenge_of(&verifier));
        query.push("code_challenge_method", "S256");
        query.push("state", word.expose());
        query.push_some("resource", self.resource_param(core));
        query.push_some("scope", Some(&*self.requested).filter(|scopes| !scopes.is_empty()));
        let url: Box<str> = endpoint.with_query(query.text()).into();
        if url.len() > LONGEST {
            let why = format!("the URL for the browser, with its parameters, has more than {LONGEST} bytes");
            return Some(failure(Stage::Authorization, why));
        }
        core.outbox.push_back(OAuthAction::Browse(AuthorizationUrl { url, redirect_uri: client.redirect_uri.clone() }));
        let deadline = core.now + core.options.timeouts.user;
        self.step = Step::User { client, word, verifier, deadline };
        None
    }

    /// The scopes to request of a user (specification 2026-07-28, "Authorization", Scope Selection Strategy).
    fn scopes(&self, core: &Core, task: &Task, client: &ClientRecord) -> Box<str> {
        let named = task.hint.scopes.as_deref();
        let supported = self.metadata.resource.scopes.as_deref();
        let own = core.options.scopes.as_deref();
        let further = named.filter(|_| task.need == Need::StepUp).unwrap_or_default();
        let base = own.or(named).or(supported).unwrap_or_default();
        // Another authorization server may not have the scopes of the one before.
        let server = &self.metadata.server;
        let before =
            task.former.as_ref().filter(|former| is_same_issuer(&former.asked, &server.asked)).map(|_| &*task.scopes);
        let all = union(&[before.unwrap_or_default(), base, further]);
        let all = match &client.scopes {
            Some(allowed) => narrowed(&all, allowed),
            None => all,
        };
        if core.options.offline_access && server.has_offline_access { union(&[&all, "offline_access"]) } else { all }
    }

    /// The scopes to request without a user.
    fn direct_scopes(&self, core: &Core, task: &Task) -> Box<str> {
        let named = task.hint.scopes.as_deref().or(self.metadata.resource.scopes.as_deref());
        union(&[&task.scopes, core.options.scopes.as_deref().or(named).unwrap_or_default()])
    }

    /// The user's browser was redirected. Returns what follows, if the redirect belongs to this attempt.
    pub(super) fn redirected(&self, core: &Core, redirect: &str) -> Option<Next> {
        let query = self.own_query(redirect)?;
        let server = &self.metadata.server;
        // RFC 9207, section 2.4.
        let is_trusted = match param(query, "iss") {
            Ok(None) => !(server.sends_iss || core.options.tolerance.require_iss),
            Ok(Some(iss)) => **iss == *server.issuer,
            Err(()) => false,
        };
        let text = |name| param(query, name).ok().flatten().filter(|value| !value.is_empty());
        let error = text("error");
        let code = text("code").filter(|_| error.is_none());
        if let Some(code) = code.filter(|_| is_trusted) {
            return Some((Input::Code, Payload::Grant(Secret::new(String::from(code.as_str())))));
        }
        let why = match (is_trusted, error) {
            (false, _) => "the response to the authorization request names no or another issuer: it is discarded, \
                           because it may be from another authorization server"
                .into(),
            (true, Some(error)) => {
                let said = words(&error, text("error_description").as_ref().map(|words| words.as_str()));
                format!("the authorization server answered {said}")
            }
            (true, None) => "the response to the authorization request has no code".into(),
        };
        Some(failure(Stage::Authorization, why))
    }

    /// Sends the token exchange. Its response is a grant for the authorization server of the MCP server.
    pub(super) fn exchange_identity(&mut self, core: &mut Core, task: &Task) -> Option<Exchange> {
        self.step = Step::Exchanging;
        self.requested = self.direct_scopes(core, task);
        let Flow::Enterprise(provider) = &core.options.flow else { return None };
        let endpoint = Place::parse(&provider.token_endpoint)?;
        let mut form = Form::default();
        form.push("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange");
        form.push("requested_token_type", ID_JAG);
        form.push("audience", &self.metadata.server.issuer);
        form.push("resource", &self.metadata.resource.resource);
        form.push_some("scope", Some(&*self.requested).filter(|scopes| !scopes.is_empty()));
        form.push("subject_token", provider.id_token.expose());
        form.push("subject_token_type", "urn:ietf:params:oauth:token-type:id_token");
        form.push("client_id", &provider.client_id);
        form.push_some("client_secret", provider.client_secret.as_ref().map(Secret::expose));
        self.sent = self.sent.saturating_add(1);
        Some(core.post(&endpoint, FORM, form.into_body(), None))
    }
}

impl Signatures {
    fn sign(&mut self, core: &mut Core, key: SignKey, algorithm: &str, input: String) {
        match core.sign(key, algorithm, &input) {
            Signing::Done(signature) => self.keep(key, signed(&input, &signature)),
            Signing::Asked(id) => self.requested.push((id, key, Secret::new(input))),
        }
    }

    /// Keeps what was signed.
    fn keep(&mut self, key: SignKey, jwt: Secret) {
        match key {
            SignKey::Client => self.assertion = Some(jwt),
            SignKey::Proof => self.proof = Some(jwt),
        }
    }
}

/// What is signed of the client's assertion for an authorization server, and the algorithm (RFC 7523, section 3). `None`
/// if it authenticates in another way.
pub(super) fn assertion_of(core: &mut Core, client: &ClientRecord, audience: &str) -> Option<(Box<str>, String)> {
    let ClientAuth::PrivateKeyJwt { algorithm, key_id } = &client.auth else { return None };
    let mut header = Vec::new();
    let mut object = Object::begin(&mut header);
    object.string("alg", algorithm).string("typ", "JWT");
    if let Some(key_id) = key_id {
        object.string("kid", key_id);
    }
    object.end();
    let mut claims = Vec::new();
    let mut object = Object::begin(&mut claims);
    let now = core.unix();
    object.string("iss", &client.id).string("sub", &client.id).string("aud", audience);
    object.string("jti", core.entropy.word().expose());
    object.integer("iat", now.into()).integer("exp", now.saturating_add(ASSERTION_LIFE).into());
    object.end();
    Some((algorithm.clone(), signing_input(&header, &claims)))
}

impl ClientRecord {
    /// Adds the authentication of the client (RFC 6749, section 2.3.1). Returns the header, if it is one.
    pub(super) fn authenticate(&self, form: &mut Form, assertion: Option<&Secret>) -> Option<HeaderValue> {
        match (&self.auth, &self.secret) {
            (ClientAuth::Basic, Some(secret)) => return basic(&self.id, secret),
            (ClientAuth::Post, _) => {
                form.push("client_id", &self.id);
                form.push_some("client_secret", self.secret.as_ref().map(Secret::expose));
            }
            // A client that was registered for a secret, and got none, is named at least.
            (ClientAuth::Basic, None) | (ClientAuth::None, _) => form.push("client_id", &self.id),
            (ClientAuth::PrivateKeyJwt { .. }, _) => {
                form.push("client_id", &self.id);
                form.push("client_assertion_type", ASSERTION_TYPE);
                form.push_some("client_assertion", assertion.map(Secret::expose));
            }
        }
        None
    }
}

/// A token that was issued.
#[derive(Clone, Debug)]
pub(super) struct Issued {
    pub(super) access_token: Secret,
    /// Its life in seconds, if it is known.
    pub(super) life: Option<u64>,
    pub(super) refresh_token: Option<Secret>,
    pub(super) scopes: Option<Box<str>>,
}

/// Why no token came.
#[derive(Debug)]
pub(super) struct NotIssued {
    pub(super) failure: Failure,
    pub(super) why: Box<str>,
}

/// The members of a response, in JSON or as a form.
enum Answer<'a> {
    Json(Json<'a>),
    Form(&'a str),
}

impl Answer<'_> {
    fn text(&self, name: &str) -> Option<Box<str>> {
        match self {
            Self::Json(json) => text(*json, name),
            Self::Form(form) => param(form, name).ok()?.map(|value| value.as_str().into()),
        }
    }

    /// The life that `expires_in` says, as a number or a string.
    fn life(&self) -> Option<u64> {
        let written = match self {
            Self::Json(json) => {
                let value = json.member("expires_in")?;
                value.as_string().unwrap_or_else(|| value.text().into())
            }
            Self::Form(_) => self.text("expires_in")?.into_string().into(),
        };
        let seconds: f64 = written.trim().parse().ok().filter(|it: &f64| !it.is_nan())?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
        Some((seconds.max(0.0) as u64).min(LONGEST_LIFE))
    }
}

/// What was asked for in a registration.
struct Asked<'a> {
    redirect_uri: &'a str,
    auth: ClientAuth,
}

/// Parameters of a form or a query, encoded.
#[derive(Default)]
pub(super) struct Form(Zeroizing<String>);

impl Form {
    pub(super) fn push(&mut self, name: &str, value: &str) {
        if !self.0.is_empty() {
            self.0.push('&');
        }
        percent_encode(&mut self.0, name);
        self.0.push('=');
        percent_encode(&mut self.0, value);
    }

    pub(super) fn push_some(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.push(name, value);
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// As the body of a request.
    pub(super) fn into_body(mut self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(core::mem::take(&mut *self.0).into_bytes())
    }
}

/// The way of registration that the authorization server offers, and the embedder too.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Offer<'a> {
    Nothing,
    /// By a client ID metadata document at this URL.
    Document(&'a str),
    Dynamic,
}

fn offer<'a>(core: &'a Core, server: &Server) -> Offer<'a> {
    if server.has_client_documents
        && let Some(url) = core.options.client_metadata_url.as_deref()
    {
        Offer::Document(url)
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
        asked_redirect: core.options.redirect_of(client),
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
        asked_redirect: core.options.redirect_uri.clone(),
        scopes: None,
        kind: RegistrationKind::MetadataDocument,
    }
}

/// The client of the credentials, whose redirect may be received at another port now.
fn held_client(core: &Core, client: &ClientRecord) -> ClientRecord {
    let present = &core.options.redirect_uri;
    let mut client = client.clone();
    match client.kind {
        RegistrationKind::MetadataDocument => client.redirect_uri.clone_from(present),
        RegistrationKind::Dynamic if client.asked_redirect != *present => {
            client.redirect_uri = with_port_of(&client.redirect_uri, present);
        }
        RegistrationKind::Dynamic | RegistrationKind::PreRegistered => {}
    }
    client
}

/// Whether who receives one redirect receives the other, too: at a loopback address, by a scheme of its own, at an origin.
fn is_same_receiver(asked: &str, answered: &str) -> bool {
    match (Place::parse(asked), Place::parse(answered)) {
        (Some(asked), Some(answered)) if asked.zone() == Zone::Loopback => answered.zone() == Zone::Loopback,
        (Some(asked), Some(answered)) => asked.is_same_origin(&answered),
        (None, None) => {
            let scheme = |uri: &str| uri.split(':').next().unwrap_or_default().to_ascii_lowercase();
            scheme(asked) == scheme(answered)
        }
        (Some(_), None) | (None, Some(_)) => false,
    }
}

fn supports(server: &Server, auth: &ClientAuth) -> bool {
    let listed = |methods: &Vec<Box<str>>| methods.iter().any(|method| **method == *auth.as_str());
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

/// How a client that registers dynamically asks to authenticate: as the embedder says, or the first that the authorization
/// server supports. Some advertise `client_secret_basic`, and want the client's ID in the form all the same.
fn preferred(core: &Core, server: &Server) -> ClientAuth {
    let ways = [ClientAuth::None, ClientAuth::Post];
    let named = core.options.registration_auth.clone();
    named.or_else(|| ways.into_iter().find(|auth| supports(server, auth))).unwrap_or(ClientAuth::Basic)
}

/// The header of HTTP Basic authentication, both parts encoded as in a form.
fn basic(id: &str, secret: &Secret) -> Option<HeaderValue> {
    let mut pair = Zeroizing::new(String::new());
    percent_encode(&mut pair, id);
    pair.push(':');
    percent_encode(&mut pair, secret.expose());
    let encoded = Zeroizing::new(format!("Basic {}", STANDARD.encode(pair.as_bytes())));
    let mut value = HeaderValue::from_str(&encoded).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The query of a URL or of a path; otherwise the text itself is a query.
fn query_of(redirect: &str) -> &str {
    let redirect = redirect.trim();
    let redirect = redirect.split('#').next().unwrap_or_default();
    redirect.split_once('?').map_or(redirect, |(_, query)| query)
}

/// Why a response is refused, with its coding if it cannot be read for that.
fn explained(why: Box<str>, exchange: &Exchange, limit: usize) -> Box<str> {
    let is_read = parse(&exchange.body, limit).is_some() || as_form(&exchange.body).is_some();
    match exchange.encoded().filter(|_| !is_read) {
        Some(detail) => format!("{why}: {detail}").into(),
        None => why,
    }
}

/// The grant that a token exchange was answered with.
fn granted(status: StatusCode, body: &[u8], limit: usize) -> Result<Secret, NotIssued> {
    let json = parse(body, limit).ok_or_else(|| {
        let failure = if status.is_server_error() { Failure::Transient } else { Failure::Other };
        NotIssued { failure, why: format!("the identity provider answered HTTP {}", status.as_u16()).into() }
    })?;
    if let Some(error) = text(json, "error").filter(|error| !error.is_empty()) {
        let NotIssued { failure, why } = refused(status, &error, text(json, "error_description").as_deref());
        // The errors of one server are not those of the other.
        let failure = if failure == Failure::Transient { failure } else { Failure::Other };
        return Err(NotIssued { failure, why: format!("at the identity provider, {why}").into() });
    }
    let other = |why: Box<str>| NotIssued { failure: Failure::Other, why };
    let kind = text(json, "issued_token_type").unwrap_or_default();
    if *kind != *ID_JAG {
        return Err(other(format!("the identity provider issued `{}`, not `{ID_JAG}`", excerpt(&kind)).into()));
    }
    let grant = text(json, "access_token").filter(|grant| is_token(grant));
    let grant = grant.ok_or_else(|| other("the identity provider's response has no token".into()))?;
    Ok(Secret::new(grant.into_string()))
}

/// What a response of the token endpoint says.
///
/// `kind` is the type of token that was asked for.
fn issued(status: StatusCode, body: &[u8], limit: usize, kind: &str) -> Result<Issued, NotIssued> {
    let answer = match (parse(body, limit), as_form(body)) {
        (Some(json), _) => Answer::Json(json),
        (None, Some(form)) => Answer::Form(form),
        (None, None) => return Err(no_answer(status)),
    };
    if let Some(error) = answer.text("error").filter(|error| !error.is_empty()) {
        return Err(refused(status, &error, answer.text("error_description").as_deref()));
    }
    if !status.is_success() {
        return Err(no_answer(status));
    }
    let other = |why: &str| NotIssued { failure: Failure::Other, why: why.into() };
    let token = answer.text("access_token").ok_or_else(|| other("the response has no `access_token`"))?;
    if !is_token(&token) {
        return Err(other("the `access_token` is empty, too long, or has characters that no header may have"));
    }
    if let Some(other_kind) = answer.text("token_type").filter(|named| !named.eq_ignore_ascii_case(kind)) {
        return Err(other(&format!("the `token_type` is `{}`, not `{kind}`", excerpt(&other_kind))));
    }
    let refresh_token = answer.text("refresh_token").filter(|it| !it.is_empty() && it.len() <= LONGEST_TOKEN);
    Ok(Issued {
        access_token: Secret::new(token.into_string()),
        life: answer.life(),
        refresh_token: refresh_token.map(|it| Secret::new(it.into_string())),
        scopes: answer.text("scope").filter(|scopes| scopes.len() <= LONGEST_SCOPES),
    })
}

/// A response that is no JSON, if it may be a form.
pub(super) fn as_form(body: &[u8]) -> Option<&str> {
    let is_form = |form: &&str| form.contains('=') && !form.trim_start().starts_with(['<', '{', '[']);
    core::str::from_utf8(body).ok().filter(is_form)
}

fn no_answer(status: StatusCode) -> NotIssued {
    let transient = status.is_success() || status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
    let failure = if transient { Failure::Transient } else { Failure::Other };
    NotIssued { failure, why: format!("the token endpoint answered HTTP {} without a token", status.as_u16()).into() }
}

fn refused(status: StatusCode, error: &str, description: Option<&str>) -> NotIssued {
    let failure = match error {
        "invalid_grant" => Failure::InvalidGrant,
        "invalid_client" => Failure::InvalidClient,
        // The official Python SDK says so of a client that it does not know.
        "unauthorized_client" if status == StatusCode::UNAUTHORIZED => Failure::InvalidClient,
        "use_dpop_nonce" => Failure::Nonce,
        "temporarily_unavailable" | "server_error" => Failure::Transient,
        _ if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => Failure::Transient,
        _ => Failure::Other,
    };
    NotIssued { failure, why: format!("the authorization server answered {}", words(error, description)).into() }
}

/// An error of an authorization server in its own words.
fn words(error: &str, description: Option<&str>) -> Box<str> {
    match description.map(excerpt).filter(|words| !words.is_empty()) {
        Some(description) => format!("`{}`: {description}", excerpt(error)).into(),
        None => format!("`{}`", excerpt(error)).into(),
    }
}

/// What a response of the registration endpoint says.
fn registered(status: StatusCode, body: &[u8], limit: usize, asked: &Asked<'_>) -> Result<ClientRecord, Box<str>> {
    let json = parse(body, limit);
    let error = json
        .and_then(|json| text(json, "error").map(|error| words(&error, text(json, "error_description").as_deref())));
    let (Some(json), None, true) = (json, &error, status.is_success()) else {
        let said = error.unwrap_or_else(|| "no registration".into());
        return Err(format!("the authorization server answered HTTP {}: {said}", status.as_u16()).into());
    };
    let id = text(json, "client_id").filter(|id| !id.is_empty());
    let id = id.ok_or("the authorization server's registration has no `client_id`")?;
    let secret = text(json, "client_secret").filter(|secret| !secret.is_empty());
    if id.len().max(secret.as_ref().map_or(0, |secret| secret.len())) > LONGEST_ID {
        return Err(format!("the `client_id` or the `client_secret` has more than {LONGEST_ID} bytes").into());
    }
    let named = text(json, "token_endpoint_auth_method");
    let auth = match named.as_deref().map(ClientAuth::named) {
        Some(Some(auth)) => auth,
        Some(None) => {
            let method = excerpt(&named.unwrap_or_default());
            return Err(format!("the client is registered for `{method}`, which is not supported").into());
        }
        None if secret.is_none() => ClientAuth::None,
        None if asked.auth == ClientAuth::Post => ClientAuth::Post,
        None => ClientAuth::Basic,
    };
    let redirects = strings(json, "redirect_uris", 64).unwrap_or_default();
    let kept = redirects.is_empty() || redirects.iter().any(|uri| **uri == *asked.redirect_uri);
    let redirect_uri = match redirects.into_iter().next() {
        Some(first) if !kept => {
            if !is_same_receiver(asked.redirect_uri, &first) {
                let first = excerpt(&crate::text::shown(&first));
                return Err(
                    format!("the client is registered with the redirect URI `{first}`, which leads elsewhere").into()
                );
            }
            first
        }
        Some(_) | None => asked.redirect_uri.into(),
    };
    let expires = json.member("client_secret_expires_at").and_then(|at| at.text().to_string().parse::<f64>().ok());
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    let secret_expires = expires.filter(|at| *at > 0.0).map(|at| at as u64);
    Ok(ClientRecord {
        id,
        secret: secret.map(|it| Secret::new(it.into_string())),
        secret_expires,
        auth,
        redirect_uri,
        asked_redirect: asked.redirect_uri.into(),
        scopes: text(json, "scope").filter(|scopes| !scopes.trim().is_empty() && scopes.len() <= LONGEST_SCOPES),
        kind: RegistrationKind::Dynamic,
    })
}

/// The value of a parameter of an encoded form. `Err` if it is there more than once, or is not text.
pub(super) fn param(form: &str, name: &str) -> Result<Option<Zeroizing<String>>, ()> {
    let mut found = None;
    for pair in form.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if decode(key).is_some_and(|key| *key == name) {
            let value = decode(value).ok_or(())?;
            if found.replace(value).is_some() {
                return Err(());
            }
        }
    }
    Ok(found)
}

/// The names of the parameters of an encoded form.
pub(super) fn names_in(form: &str) -> impl Iterator<Item = Zeroizing<String>> {
    form.split('&').filter_map(|pair| decode(pair.split('=').next().unwrap_or_default()))
}

pub(super) fn decode(text: &str) -> Option<Zeroizing<String>> {
    let mut out = Zeroizing::new(Vec::with_capacity(text.len()));
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let (high, low) = (digit(bytes.next()?)?, digit(bytes.next()?)?);
                (high << 4) | low
            }
            _ => byte,
        });
    }
    Some(Zeroizing::new(core::str::from_utf8(&out).ok()?.into()))
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_text_decodes_to_the_original() {
        let mut form = Form::default();
        for (name, value) in [("a", "1 2+3"), ("b", "ä&=%"), ("c", "")] {
            form.push(name, value);
        }
        assert_eq!(form.text(), "a=1%202%2B3&b=%C3%A4%26%3D%25&c=");
        for (name, value) in [("a", "1 2+3"), ("b", "ä&=%"), ("c", "")] {
            assert_eq!(param(form.text(), name).unwrap().unwrap().as_str(), value);
        }
        assert_eq!(param(form.text(), "d"), Ok(None));
        assert_eq!(param("a=1&a=2", "a"), Err(()));
        assert_eq!(param("a=%f", "a"), Err(()));
        assert_eq!(param("a=%ff", "a"), Err(()));
    }
}
