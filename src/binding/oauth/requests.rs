//! The requests to the authorization server, and what comes of them.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use zeroize::Zeroizing;

use super::Secret;
use super::action::SignKey;
use super::attempt::Attempt;
use super::core::{Core, Exchange, Signing};
use super::dpop;
use super::form::{Form, encode};
use super::jwt::{signed, signing_input};
use super::options::{ClientAuth, Flow, RefreshScopes};
use super::place::is_native;
use super::plan::preferred;
use super::proof::proof_input;
use super::task::Held;
use super::token::{Asked, issued, registered};
use crate::jsonrpc::{Object, string};
use crate::machine::authorization::Input;
use crate::machine::authorization_plan::{Failure, Goal, Nonce, take};
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

    /// The response to the registration ended.
    pub(super) fn registration_ended(&mut self, core: &Core, exchange: &Exchange) -> Option<Input> {
        let server = self.server.as_ref()?;
        let asked = Asked { redirect_uri: &core.options.redirect_uri, auth: &preferred(server) };
        let status = exchange.status.unwrap_or_default();
        match registered(status, &exchange.body, core.options.limits.bytes, &asked) {
            Ok(client) => {
                self.held = Some(Held { issuer: server.issuer.clone(), client, refresh_token: None });
                Some(Input::Registered)
            }
            Err(why) => Some(self.failed(why)),
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

    /// Keeps what was signed.
    pub(super) fn set_signed(&mut self, key: SignKey, jwt: Secret) {
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

    /// The response to the token request ended.
    pub(super) fn token_ended(&mut self, core: &mut Core, exchange: &Exchange) -> Option<Input> {
        if let (Some(nonce), Some(server)) = (&exchange.nonce, &self.server) {
            core.nonces.set_issuer(&server.token_endpoint, nonce.clone());
        }
        let kind = if self.is_bound(core) { "DPoP" } else { "Bearer" };
        match issued(exchange.status?, &exchange.body, core.options.limits.bytes, kind) {
            Ok(issued) => {
                self.issued = Some(issued);
                Some(Input::Issued)
            }
            Err(mut failed) => {
                if failed.failure == Failure::Nonce {
                    let nonce = if exchange.nonce.is_some() { Nonce::Named } else { Nonce::Missing };
                    failed.failure = take::demand(self.renewal, nonce);
                    if failed.failure == Failure::Nonce {
                        self.renewal.take(once::Input::Use);
                    }
                }
                Some(self.token_failed(failed))
            }
        }
    }
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
