//! The requests of an attempt, and what their responses mean: registration, the user's grant, tokens.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, StatusCode};
use zeroize::Zeroizing;

use super::Secret;
use super::action::{AuthorizationUrl, OAuthAction, RegistrationKind, SignKey, Stage, excerpt};
use super::attempt::{Attempt, Held, preferred};
use super::core::{Core, Exchange, Signing};
use super::credentials::{ClientRecord, Need, is_token, narrowed, parse, strings, text, union};
use super::options::{ClientAuth, Flow, RefreshScopes};
use super::place::{Place, is_native};
use super::proof::{self, proof_input, signed, signing_input};
use super::secret::challenge_of;
use crate::jsonrpc::{Json, Object, string};
use crate::machine::oauth_attempt::{self, Failure, Goal, Input, Iss};

const FORM: &str = "application/x-www-form-urlencoded";
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// Seconds for which an assertion of the client is valid.
const ASSERTION_LIFE: u64 = 300;

const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

/// The longest life of a token that is believed, in seconds: ten years.
const LONGEST_LIFE: u64 = 10 * 365 * 24 * 3600;

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
            self.sign_one(core, SignKey::Proof, proof::ALGORITHM, input);
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
                    if self.is_nonce_renewed || exchange.nonce.is_none() {
                        failed.failure = Failure::Other;
                    } else {
                        self.is_nonce_renewed = true;
                    }
                }
                Some(self.token_failed(failed))
            }
        }
    }

    /// Gives the user the URL.
    pub(super) fn browse(&mut self, core: &mut Core) -> Option<Input> {
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

    /// The scopes to request (specification 2026-07-28, "Authorization", Scope Selection Strategy).
    fn scopes(&self, core: &Core) -> Box<str> {
        let Some(task) = &self.task else { return "".into() };
        let named = task.hint.scopes.as_deref();
        let supported = self.resource.as_ref().and_then(|resource| resource.scopes.as_deref());
        let own = core.options.scopes.as_deref();
        let further = named.filter(|_| task.need == Need::StepUp).unwrap_or_default();
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

    /// The user's browser was redirected. Returns what follows, if the redirect belongs to this attempt.
    pub(super) fn redirected(&mut self, redirect: &str) -> Option<Input> {
        let query = query_of(redirect);
        let is_ours = match (&self.state_word, param(query, "state")) {
            (Some(word), Ok(Some(state))) => word.is(&state),
            _ => false,
        };
        let server = self.server.as_ref().filter(|_| is_ours)?;
        let iss = match param(query, "iss") {
            Ok(None) => Iss::Missing,
            Ok(Some(iss)) if **iss == *server.issuer => Iss::Same,
            Ok(Some(_)) | Err(()) => Iss::Other,
        };
        let advertised = server.sends_iss;
        let text = |name| param(query, name).ok().flatten().filter(|value| !value.is_empty());
        let (error, code) = (text("error"), text("code"));
        let input = oauth_attempt::redirect(advertised, iss, code.is_some() && error.is_none());
        if input == Input::Code {
            self.code = code.map(|code| Secret::new(String::from(code.as_str())));
        } else {
            let is_trusted = iss == Iss::Same || iss == Iss::Missing && !advertised;
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
        Some(input)
    }

    /// Sends the token exchange. Its response is a grant for the authorization server of the MCP server.
    pub(super) fn exchange_identity(&mut self, core: &mut Core) -> Option<Input> {
        let Flow::Enterprise(provider) = core.options.flow.clone() else { return Some(Input::Fail) };
        let Some(endpoint) = Place::parse(&provider.token_endpoint) else { return Some(Input::Fail) };
        self.requested = self.direct_scopes(core);
        let mut form = Form::default();
        form.push("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange");
        form.push("requested_token_type", ID_JAG);
        form.push_some("audience", self.server.as_ref().map(|server| &*server.issuer));
        form.push_some("resource", self.resource.as_ref().map(|resource| &*resource.resource));
        form.push_some("scope", Some(&*self.requested).filter(|scopes| !scopes.is_empty()));
        form.push("subject_token", provider.id_token.expose());
        form.push("subject_token_type", "urn:ietf:params:oauth:token-type:id_token");
        form.push("client_id", &provider.client_id);
        form.push_some("client_secret", provider.client_secret.as_ref().map(Secret::expose));
        self.sent = self.sent.saturating_add(1);
        let body = Zeroizing::new(form.text().as_bytes().to_vec());
        self.exchange = core.post(&endpoint, FORM, body);
        None
    }

    /// The response to the token exchange ended.
    pub(super) fn exchange_ended(&mut self, core: &Core, exchange: &Exchange) -> Input {
        let status = exchange.status.unwrap_or_default();
        match granted(status, &exchange.body, core.options.limits.bytes) {
            Ok(grant) => {
                self.grant = Some(grant);
                Input::Exchanged
            }
            Err(failed) => self.token_failed(failed),
        }
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
pub(super) struct Asked<'a> {
    pub(super) redirect_uri: &'a str,
    pub(super) auth: &'a ClientAuth,
}

/// Parameters of a form or a query, encoded.
#[derive(Default)]
pub(super) struct Form(Zeroizing<String>);

impl Form {
    pub(super) fn push(&mut self, name: &str, value: &str) {
        if !self.0.is_empty() {
            self.0.push('&');
        }
        encode(&mut self.0, name);
        self.0.push('=');
        encode(&mut self.0, value);
    }

    pub(super) fn push_some(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.push(name, value);
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.0
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

/// The query of a URL or of a path; otherwise the text itself is a query.
fn query_of(redirect: &str) -> &str {
    let redirect = redirect.trim();
    let redirect = redirect.split('#').next().unwrap_or_default();
    redirect.split_once('?').map_or(redirect, |(_, query)| query)
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
pub(super) fn issued(status: StatusCode, body: &[u8], limit: usize, kind: &str) -> Result<Issued, NotIssued> {
    let answer = match (parse(body, limit), core::str::from_utf8(body)) {
        (Some(json), _) => Answer::Json(json),
        (None, Ok(form)) if form.contains('=') && !form.trim_start().starts_with(['<', '{', '[']) => Answer::Form(form),
        (None, _) => return Err(no_answer(status)),
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
    Ok(Issued {
        access_token: Secret::new(token.into_string()),
        life: answer.life(),
        refresh_token: answer.text("refresh_token").filter(|it| !it.is_empty()).map(|it| Secret::new(it.into_string())),
        scopes: answer.text("scope"),
    })
}

fn no_answer(status: StatusCode) -> NotIssued {
    let transient = status.is_success() || status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
    let failure = if transient { Failure::Transient } else { Failure::Other };
    NotIssued { failure, why: format!("the token endpoint answered HTTP {} without a token", status.as_u16()).into() }
}

pub(super) fn refused(status: StatusCode, error: &str, description: Option<&str>) -> NotIssued {
    let failure = match error {
        "invalid_grant" => Failure::InvalidGrant,
        "invalid_client" => Failure::InvalidClient,
        "use_dpop_nonce" => Failure::Nonce,
        "temporarily_unavailable" | "server_error" => Failure::Transient,
        _ if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => Failure::Transient,
        _ => Failure::Other,
    };
    NotIssued { failure, why: format!("the authorization server answered {}", words(error, description)).into() }
}

/// An error of an authorization server in its own words.
pub(super) fn words(error: &str, description: Option<&str>) -> Box<str> {
    match description.map(excerpt).filter(|words| !words.is_empty()) {
        Some(description) => format!("`{}`: {description}", excerpt(error)).into(),
        None => format!("`{}`", excerpt(error)).into(),
    }
}

/// What a response of the registration endpoint says.
pub(super) fn registered(
    status: StatusCode,
    body: &[u8],
    limit: usize,
    asked: &Asked<'_>,
) -> Result<ClientRecord, Box<str>> {
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
    let named = text(json, "token_endpoint_auth_method");
    let auth = match named.as_deref().map(ClientAuth::named) {
        Some(Some(auth)) => auth,
        Some(None) => {
            let method = excerpt(&named.unwrap_or_default());
            return Err(format!("the client is registered for `{method}`, which is not supported").into());
        }
        None if secret.is_none() => ClientAuth::None,
        None if *asked.auth == ClientAuth::Post => ClientAuth::Post,
        None => ClientAuth::Basic,
    };
    let redirects = strings(json, "redirect_uris", 64).unwrap_or_default();
    let kept = redirects.is_empty() || redirects.iter().any(|uri| **uri == *asked.redirect_uri);
    let redirect_uri = match redirects.into_iter().next() {
        Some(first) if !kept => {
            // The code goes there.
            if Place::parse(&first).is_some_and(|place| place.check(super::place::Zone::Loopback).is_err()) {
                return Err("the client is registered with a redirect URI that is not https".into());
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
        scopes: text(json, "scope").filter(|scopes| !scopes.trim().is_empty()),
        kind: RegistrationKind::Dynamic,
    })
}

/// Appends a value, encoded.
pub(super) fn encode(out: &mut String, value: &str) {
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
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

fn decode(text: &str) -> Option<Zeroizing<String>> {
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
