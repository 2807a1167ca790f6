//! The requests to the authorization server, the redirect of the user, and what comes of them.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use zeroize::Zeroizing;

use super::Secret;
use super::action::{OAuthExchangeId, SignId, SignKey};
use super::attempt::Attempt;
use super::core::{Core, Exchange, Signing};
use super::dpop;
use super::error::Stage;
use super::form::{Form, encode, param};
use super::jwt::{signed, signing_input};
use super::options::{ClientAuth, Flow, RefreshScopes};
use super::place::is_native;
use super::plan::preferred;
use super::proof::proof_input;
use super::record::union;
use super::task::{End, Held};
use super::token::{Asked, NotIssued, issued, registered, words};
use crate::jsonrpc::{Object, string};
use crate::machine::authorization::{Input, State};
use crate::machine::authorization_plan::{Advertised, Failure, Goal, Iss, Redirect, Registration, take};
use crate::machine::once;

pub(super) const FORM: &str = "application/x-www-form-urlencoded";
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// Seconds for which an assertion of the client is valid.
const ASSERTION_LIFE: u64 = 300;

impl Attempt {
    /// Sends the registration (RFC 7591, section 3.1).
    pub(super) fn register(&mut self, core: &mut Core) {
        let Some(server) = &self.server else { return };
        let Some(endpoint) = &server.registration_endpoint else { return };
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
        object.string("token_endpoint_auth_method", preferred(server).as_str());
        object.end();
        self.exchange = core.post(endpoint, "application/json", Zeroizing::new(body));
    }

    fn registration_ended(&mut self, core: &mut Core, exchange: &Exchange) -> Option<End> {
        let server = self.server.as_ref()?;
        let asked = Asked { redirect_uri: &core.options.redirect_uri, auth: &preferred(server) };
        let status = exchange.status.unwrap_or_default();
        match registered(status, &exchange.body, core.options.limits.bytes, &asked) {
            Ok(client) => {
                self.held = Some(Held { issuer: server.issuer.clone(), client, refresh_token: None });
                self.step(core, Input::Registered)
            }
            Err(why) => self.fail(core, why),
        }
    }

    /// Requests the signatures that the token request needs: of the client's assertion, of the proof of possession.
    pub(super) fn sign(&mut self, core: &mut Core) -> Option<Input> {
        if let Some((algorithm, input)) = self.assertion_input(core) {
            self.sign_one(core, SignKey::Client, &algorithm, input);
        }
        let endpoint = self.server.as_ref().map(|server| server.token_endpoint.clone());
        if let (Some(key), Some(endpoint), true) = (core.options.dpop, endpoint, self.is_bound(core)) {
            let nonce = core.nonces.of_issuer(&endpoint).map(Box::<str>::from);
            let input = proof_input(core, &key, "POST", &endpoint, nonce.as_deref(), None);
            self.sign_one(core, SignKey::Proof, dpop::ALGORITHM, input);
        }
        self.deadline = Some(core.now + core.options.timeouts.store);
        self.signs.is_empty().then_some(Input::Signed)
    }

    fn sign_one(&mut self, core: &mut Core, key: SignKey, algorithm: &str, input: String) {
        match core.sign(key, algorithm, &input) {
            Signing::Done(signature) => self.set_signed(key, signed(&input, &signature)),
            Signing::Asked(id) => self.signs.push((id, key, Secret::new(input))),
        }
    }

    fn set_signed(&mut self, key: SignKey, jwt: Secret) {
        match key {
            SignKey::Client => self.assertion = Some(jwt),
            SignKey::Proof => self.proof = Some(jwt),
        }
    }

    /// What is signed of the client's assertion, and the algorithm (RFC 7523, section 3).
    fn assertion_input(&self, core: &mut Core) -> Option<(Box<str>, String)> {
        let (client, server) = (self.client.as_ref()?, self.server.as_ref()?);
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
        object.string("iss", &client.id).string("sub", &client.id).string("aud", &server.issuer);
        object.string("jti", core.entropy.word().expose());
        object.integer("iat", now.into()).integer("exp", now.saturating_add(ASSERTION_LIFE).into());
        object.end();
        Some((algorithm.clone(), signing_input(&header, &claims)))
    }

    pub(super) fn handle_signature(&mut self, core: &mut Core, id: SignId, signature: &[u8]) -> Option<End> {
        let at = self.signs.iter().position(|(asked, ..)| *asked == id)?;
        let (_, key, input) = self.signs.remove(at);
        if signature.is_empty() {
            return self.fail(core, "the token request was not signed");
        }
        self.set_signed(key, signed(input.expose(), signature));
        if self.signs.is_empty() { self.step(core, Input::Signed) } else { None }
    }

    /// Sends the token request.
    pub(super) fn request_token(&mut self, core: &mut Core) {
        let mut form = Form::default();
        let goal = self.goal();
        match goal {
            Goal::User => {
                form.push("grant_type", "authorization_code");
                // Only a server that did not process it gets it again.
                form.push_some("code", self.code.as_ref().map(Secret::expose));
                form.push_some("code_verifier", self.verifier.as_ref().map(Secret::expose));
                form.push_some("redirect_uri", self.client.as_ref().map(|client| &*client.redirect_uri));
            }
            Goal::Refresh => {
                form.push("grant_type", "refresh_token");
                let held = self.held.as_ref().and_then(|held| held.refresh_token.as_ref());
                form.push_some("refresh_token", held.map(Secret::expose));
                let former = self.task.as_ref().and_then(|task| task.former.as_ref());
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
                        form.push_some("assertion", self.grant.as_ref().map(Secret::expose));
                        self.used.extend(self.grant.take());
                    }
                    Flow::User | Flow::ClientCredentials => form.push("grant_type", "client_credentials"),
                }
                self.requested = self.direct_scopes(core);
                form.push_some("scope", Some(&*self.requested).filter(|scopes| !scopes.is_empty()));
            }
        }
        form.push_some("resource", self.resource_param(core));
        self.send_token_request(core, form);
    }

    pub(super) fn direct_scopes(&self, core: &Core) -> Box<str> {
        let Some(task) = &self.task else { return "".into() };
        let supported = self.resource.as_ref().and_then(|resource| resource.scopes.as_deref());
        let named = task.hint.scopes.as_deref();
        let own = core.options.scopes.as_deref();
        union(&[&task.scopes, own.or(named).or(supported).unwrap_or_default()])
    }

    /// Adds the authentication of the client (RFC 6749, section 2.3.1), and sends the request.
    fn send_token_request(&mut self, core: &mut Core, mut form: Form) {
        let (Some(client), Some(server)) = (&self.client, &self.server) else { return };
        let secret = client.secret.as_ref();
        let mut header = None;
        match &client.auth {
            ClientAuth::Basic => header = secret.and_then(|secret| basic(&client.id, secret)),
            ClientAuth::Post => {
                form.push("client_id", &client.id);
                form.push_some("client_secret", secret.map(Secret::expose));
            }
            ClientAuth::None => form.push("client_id", &client.id),
            ClientAuth::PrivateKeyJwt { .. } => {
                form.push("client_id", &client.id);
                form.push("client_assertion_type", ASSERTION_TYPE);
                form.push_some("client_assertion", self.assertion.as_ref().map(Secret::expose));
                self.used.extend(self.assertion.take());
            }
        }
        self.sent = self.sent.saturating_add(1);
        self.exchange = core.post(&server.token_endpoint, FORM, Zeroizing::new(form.text().as_bytes().to_vec()));
        if let Some(header) = header {
            core.add_header(http::header::AUTHORIZATION, header);
        }
        if let Some(proof) = self.proof.take().and_then(|proof| HeaderValue::from_str(proof.expose()).ok()) {
            core.add_header(http::HeaderName::from_static("dpop"), proof);
        }
    }

    /// The response of an exchange ended.
    pub(super) fn handle_end(&mut self, core: &mut Core, id: OAuthExchangeId) -> Option<End> {
        let exchange = self.exchange.take_if(|exchange| exchange.id == id)?;
        if exchange.status.is_none() {
            return self.broke(core, "the response has no head");
        }
        match self.state.0 {
            State::Resource | State::Server | State::Assumed => self.metadata_ended(core, &exchange),
            State::Registering => self.registration_ended(core, &exchange),
            State::Exchanging => self.exchange_ended(core, &exchange),
            State::Token => self.token_ended(core, &exchange),
            State::Idle | State::Planning | State::Queued | State::User | State::Signing | State::Pausing => None,
        }
    }

    fn token_ended(&mut self, core: &mut Core, exchange: &Exchange) -> Option<End> {
        if let (Some(nonce), Some(server)) = (&exchange.nonce, &self.server) {
            core.nonces.set_issuer(&server.token_endpoint, nonce.clone());
        }
        let kind = if self.is_bound(core) { "DPoP" } else { "Bearer" };
        match issued(exchange.status?, &exchange.body, core.options.limits.bytes, kind) {
            Ok(issued) => {
                self.issued = Some(issued);
                self.step(core, Input::Issued)
            }
            Err(mut failed) => {
                // Once in an attempt, and only where there is a nonce.
                if failed.failure == Failure::Nonce {
                    match (self.renewal, &exchange.nonce) {
                        (once::State::Left, Some(_)) => self.renewal.take(once::Input::Use),
                        (once::State::Left, None) | (once::State::Spent, _) => failed.failure = Failure::Other,
                    }
                }
                self.token_failed(core, failed)
            }
        }
    }

    /// The response exceeds the limit.
    pub(super) fn too_long(&mut self, core: &mut Core) -> Option<End> {
        if let Some(exchange) = self.exchange.take() {
            core.drop_exchange(exchange.id);
        }
        let why = format!("the response is longer than {} bytes", core.options.limits.bytes);
        match self.state.0 {
            State::Resource | State::Server | State::Assumed => {
                let Some(Ok(place)) = self.places.front().cloned() else { return None };
                self.refused(core, &place, &why)
            }
            State::Exchanging | State::Token => {
                self.token_failed(core, NotIssued { failure: Failure::Other, why: why.into() })
            }
            State::Idle
            | State::Planning
            | State::Registering
            | State::Queued
            | State::User
            | State::Signing
            | State::Pausing => self.fail(core, why),
        }
    }

    /// The exchange broke.
    pub(super) fn broke(&mut self, core: &mut Core, why: &str) -> Option<End> {
        match self.state.0 {
            State::Resource | State::Server | State::Assumed => {
                let Some(Ok(place)) = self.places.front().cloned() else { return None };
                self.unusable(core, &format!("`{place}` cannot be read: {why}"))
            }
            State::Exchanging | State::Token => {
                let why = format!("the token request broke: {why}").into();
                self.token_failed(core, NotIssued { failure: Failure::Transient, why })
            }
            State::Registering => self.fail(core, format!("the registration broke: {why}")),
            State::Idle | State::Planning | State::Queued | State::User | State::Signing | State::Pausing => None,
        }
    }

    pub(super) fn token_failed(&mut self, core: &mut Core, failed: NotIssued) -> Option<End> {
        let is_dynamic = self.client.as_ref().is_some_and(|it| it.kind == super::RegistrationKind::Dynamic);
        let registration = match self.registration {
            once::State::Left if is_dynamic => Registration::Dynamic,
            once::State::Left | once::State::Spent => Registration::Fixed,
        };
        let input = take::failed(self.goal(), failed.failure, registration, self.tries());
        let stage = if failed.failure == Failure::InvalidClient { Stage::Registration } else { self.stage() };
        self.set_why(stage, failed.why);
        self.step(core, input)
    }

    /// The user's browser was redirected. Returns whether the redirect belongs to this attempt.
    pub(super) fn handle_redirect(&mut self, core: &mut Core, redirect: &str) -> (bool, Option<End>) {
        let query = query_of(redirect);
        let is_ours = match (&self.state_word, param(query, "state")) {
            (Some(word), Ok(Some(state))) => word.is(&state),
            _ => false,
        };
        let Some(server) = self.server.as_ref().filter(|_| is_ours) else { return (false, None) };
        let iss = match param(query, "iss") {
            Ok(None) => Iss::Missing,
            Ok(Some(iss)) if **iss == *server.issuer => Iss::Same,
            Ok(Some(_)) | Err(()) => Iss::Other,
        };
        let advertised = if server.sends_iss { Advertised::Yes } else { Advertised::No };
        let text = |name| param(query, name).ok().flatten().filter(|value| !value.is_empty());
        let (error, code) = (text("error"), text("code"));
        let has = if code.is_some() && error.is_none() { Redirect::Code } else { Redirect::Error };
        let input = take::redirect(advertised, iss, has);
        if input == Input::Code {
            self.code = code.map(|code| Secret::new(String::from(code.as_str())));
        } else {
            let is_trusted = iss == Iss::Same || iss == Iss::Missing && advertised == Advertised::No;
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
            self.set_why(Stage::Authorization, why);
        }
        (true, self.step(core, input))
    }
}

/// The query of a URL or of a path; otherwise the text itself is a query.
fn query_of(redirect: &str) -> &str {
    let redirect = redirect.trim();
    let redirect = redirect.split('#').next().unwrap_or_default();
    redirect.split_once('?').map_or(redirect, |(_, query)| query)
}

/// The header of HTTP Basic authentication, both parts encoded as in a form.
fn basic(id: &str, secret: &Secret) -> Option<HeaderValue> {
    let mut pair = Zeroizing::new(String::new());
    encode(&mut pair, id);
    pair.push(':');
    encode(&mut pair, secret.expose());
    let encoded = Zeroizing::new(format!("Basic {}", STANDARD.encode(pair.as_bytes())));
    let mut value = HeaderValue::from_str(&encoded).ok()?;
    value.set_sensitive(true);
    Some(value)
}
