//! What the endpoints of a fake authorization server do with requests.

use core::time::Duration;
use std::borrow::ToOwned;
use std::collections::BTreeSet;
use std::string::{String, ToString};
use std::vec::Vec;
use std::{format, vec};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderValue, Method, Request};
use serde_json::{Map, Value, json};

use super::received::{
    SECRET_PARAMS, challenge_of, claims, encode, is_below, part_of, split, texts, without_query, written,
};
use super::{
    Auth, Client, Endpoint, FakeAuthorizationServer, Grant, Issued, Kind, LOG, RESOURCE_METADATA, Received, SECRETS,
};
use crate::Time;
use crate::testkit::content::{object, text_of};
use crate::testkit::script::Reply;
use crate::testkit::server::{ServerOutput, subject_of};

/// The life of an access token, in seconds.
const LIFE: u64 = 3600;

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

/// Why a request is refused.
#[derive(Debug)]
struct Refusal {
    status: u16,
    error: String,
    nonce: Option<String>,
}

impl Refusal {
    /// The text is an error, or an error and its description after a colon.
    fn new(status: u16, error: &str) -> Self {
        Self { status, error: error.into(), nonce: None }
    }

    fn members(&self) -> Map<String, Value> {
        let (error, description) = self.error.split_once(": ").unwrap_or((&self.error, ""));
        let mut members = object(json!({"error": error}));
        if !description.is_empty() {
            members.insert("error_description".into(), json!(description));
        }
        members
    }
}

fn invalid_grant(why: &str) -> Refusal {
    Refusal::new(400, &format!("invalid_grant: {why}"))
}

fn invalid_request(why: &str) -> Refusal {
    Refusal::new(400, &format!("invalid_request: {why}"))
}

fn invalid_client(why: &str) -> Refusal {
    Refusal::new(401, &format!("invalid_client: {why}"))
}

/// A response.
#[derive(Debug)]
struct Page {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Page {
    fn new(status: u16, kind: &str, body: &str) -> Self {
        Self { status, headers: vec![("content-type", kind.into())], body: body.into() }
    }

    fn json(status: u16, body: &Value) -> Self {
        Self::new(status, "application/json", &body.to_string())
    }

    fn html(status: u16, body: &str) -> Self {
        Self::new(status, "text/html", body)
    }

    fn with(mut self, name: &'static str, value: Option<String>) -> Self {
        self.headers.extend(value.map(|value| (name, value)));
        self
    }

    /// HTML, or a redirect to a URL.
    fn status(status: u16, text: &str) -> Self {
        match status {
            300..400 => Self::html(status, "").with("location", Some(text.into())),
            _ => Self::html(status, text),
        }
    }
}

impl Page {
    fn outputs(self) -> Vec<ServerOutput> {
        let Self { status, headers, body } = self;
        vec![ServerOutput::Head { status, headers }, ServerOutput::Bytes(body), ServerOutput::End]
    }

    /// Half of the response, and the end of the connection.
    fn cut_off(mut self) -> Vec<ServerOutput> {
        self.body.truncate(self.body.len() / 2);
        let mut outputs = self.outputs();
        outputs.pop();
        outputs.push(ServerOutput::Break);
        outputs
    }
}

impl From<Refusal> for Page {
    fn from(refusal: Refusal) -> Self {
        Self::json(refusal.status, &Value::Object(refusal.members())).with("dpop-nonce", refusal.nonce)
    }
}

impl FakeAuthorizationServer {
    /// The reply that is scripted for a request, and the one that says which members its answer has.
    fn replies(&mut self, received: &Received) -> (Reply, Reply) {
        let is_url = |it: &Endpoint| it.is_url(&received.url);
        let is_exact = |it: &Endpoint| received.endpoint.as_ref() == Some(it);
        let is_of = |it: &Endpoint| received.is_of(it);
        let scripts = &mut self.scripts;
        let once =
            scripts.next_reply(is_url).or_else(|| scripts.next_reply(is_exact)).or_else(|| scripts.next_reply(is_of));
        let scripts = &self.scripts;
        let standing = scripts.default_reply(is_url).or_else(|| scripts.default_reply(is_exact));
        let standing = standing.or_else(|| scripts.default_reply(is_of)).unwrap_or(Reply::Normal);
        match once {
            Some(reply @ (Reply::With(_) | Reply::Result(_))) => (reply.clone(), reply),
            Some(reply) => (reply, standing),
            None => (standing.clone(), standing),
        }
    }

    /// The outputs of the response to a request, and the time until them; none if there is no response. `None` if the MCP
    /// server answers the request.
    pub(in crate::testkit) fn respond(
        &mut self,
        now: Time,
        request: &Request<Vec<u8>>,
    ) -> Option<(Duration, Vec<ServerOutput>)> {
        self.now = self.now.max(now);
        let (endpoint, resource) = self.place(&request.uri().to_string()).unzip();
        let resource = resource.unwrap_or_default();
        let received = Received::of(self.now, endpoint, request);
        self.check(&received, request);
        if self.received.len() >= LOG {
            self.received.pop_front();
        }
        self.received.push_back(received.clone());
        let (reply, members) = self.replies(&received);
        if received.endpoint == Some(Endpoint::Resource) {
            return Some((Duration::ZERO, self.guard(&received, request, &resource, &reply)?.outputs()));
        }
        let mut page = match &reply {
            Reply::DiesFirst => return Some((Duration::ZERO, vec![ServerOutput::Break])),
            Reply::Status { status, text } => Page::status(*status, text),
            Reply::Error { message, .. } if received.endpoint == Some(Endpoint::Authorization) => {
                self.authorize(&received, &members, Some(message))
            }
            Reply::Error { code, message } => self.scripted(&received, *code, message).into(),
            Reply::Normal
            | Reply::Late(_)
            | Reply::Silent
            | Reply::Twice
            | Reply::Noise(_)
            | Reply::Result(_)
            | Reply::With(_)
            | Reply::Dies
            | Reply::Torn => self.serve(&received, request, &resource, &members),
        };
        let after = if let Reply::Late(after) = reply { after } else { Duration::ZERO };
        if let Reply::Noise(text) = &reply {
            page.body.splice(..0, text.bytes());
        }
        let outputs = match reply {
            Reply::Silent => Vec::new(),
            Reply::Dies => vec![ServerOutput::Break],
            Reply::Torn => page.cut_off(),
            Reply::Normal
            | Reply::Late(_)
            | Reply::Twice
            | Reply::Noise(_)
            | Reply::Result(_)
            | Reply::With(_)
            | Reply::Error { .. }
            | Reply::Status { .. }
            | Reply::DiesFirst => page.outputs(),
        };
        Some((after, outputs))
    }

    /// Notes what a request has where it must not.
    fn check(&mut self, received: &Received, request: &Request<Vec<u8>>) {
        for (name, _) in received.params.iter().take(received.in_url) {
            if SECRET_PARAMS.contains(&name.as_str()) {
                self.violation(received, &format!("`{name}` in the URL"));
            }
        }
        let is_form = match &received.endpoint {
            Some(Endpoint::Token | Endpoint::Refresh | Endpoint::Revocation) => true,
            Some(Endpoint::Resource) => return,
            _ => false,
        };
        let kind = request.headers().get("content-type").map(HeaderValue::as_bytes).unwrap_or_default();
        if is_form && !kind.starts_with(b"application/x-www-form-urlencoded") {
            self.violation(received, "the body is not a form");
        }
        let stray: Vec<_> = received.secrets().filter(|_| !is_form).map(|(name, _)| name.to_owned()).collect();
        for name in stray {
            self.violation(received, &format!("`{name}` where it does not belong"));
        }
    }

    /// The refusal that a script demands. With the error `use_dpop_nonce`, proofs need a new nonce from now on.
    fn scripted(&mut self, received: &Received, status: i64, error: &str) -> Refusal {
        let status = u16::try_from(status).ok().filter(|status| (100..1000).contains(status)).unwrap_or(400);
        let mut refusal = Refusal::new(status, error);
        if error == "use_dpop_nonce" {
            let nonce = format!("nonce{}", self.next("nonce"));
            let is_resource = received.endpoint == Some(Endpoint::Resource);
            let known = if is_resource { &mut self.resource_nonce } else { &mut self.nonce };
            refusal.nonce = Some(known.insert(nonce).clone());
        }
        refusal
    }

    fn serve(&mut self, received: &Received, request: &Request<Vec<u8>>, resource: &str, reply: &Reply) -> Page {
        let expected = match &received.endpoint {
            Some(
                Endpoint::Authorization
                | Endpoint::ResourceMetadata
                | Endpoint::ServerMetadata
                | Endpoint::OpenIdMetadata,
            ) => Some(Method::GET),
            Some(Endpoint::Registration | Endpoint::Token | Endpoint::Refresh | Endpoint::Revocation) => {
                Some(Method::POST)
            }
            Some(Endpoint::Resource | Endpoint::Url(_)) | None => None,
        };
        if expected.is_some_and(|expected| *request.method() != expected) {
            return Page::html(405, "");
        }
        let served = match &received.endpoint {
            Some(Endpoint::Authorization) => Ok(self.authorize(received, reply, None)),
            Some(Endpoint::ResourceMetadata) => {
                let metadata = json!({"resource": resource, "authorization_servers": [self.issuer]});
                Ok(Page::json(200, &reply.revised(metadata)))
            }
            Some(Endpoint::ServerMetadata | Endpoint::OpenIdMetadata) => {
                Ok(Page::json(200, &reply.revised(self.metadata())))
            }
            Some(Endpoint::Registration) => self.register(request.body(), reply),
            Some(Endpoint::Token | Endpoint::Refresh) => self.token(received, reply),
            Some(Endpoint::Revocation) => self.revoke(received),
            Some(Endpoint::Resource | Endpoint::Url(_)) | None => Err(Refusal::new(404, "not_found")),
        };
        match (served, reply) {
            (Ok(page), _) => page,
            (Err(_), Reply::Result(result)) => Page::json(200, result),
            (Err(refusal), _) => refusal.into(),
        }
    }

    fn metadata(&self) -> Value {
        json!({
            "issuer": self.issuer,
            "authorization_endpoint": self.at("/authorize"),
            "token_endpoint": self.at("/token"),
            "registration_endpoint": self.at("/register"),
            "revocation_endpoint": self.at("/revoke"),
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials", JWT_BEARER],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported":
                ["none", "client_secret_post", "client_secret_basic", "private_key_jwt"],
            "token_endpoint_auth_signing_alg_values_supported": ["ES256"],
            "dpop_signing_alg_values_supported": ["ES256"],
            "authorization_response_iss_parameter_supported": true,
            "client_id_metadata_document_supported": true,
        })
    }

    fn register(&mut self, body: &[u8], reply: &Reply) -> Result<Page, Refusal> {
        let asked = object(serde_json::from_slice(body).unwrap_or_default());
        if asked.get("redirect_uris").is_none_or(|uris| texts(uris).is_empty()) {
            return Err(Refusal::new(400, "invalid_redirect_uri: there is none"));
        }
        let mut client = asked;
        client.entry("token_endpoint_auth_method").or_insert_with(|| json!("client_secret_basic"));
        client.insert("client_id".into(), json!(format!("client{}", self.next("client"))));
        if text_of(&client, "token_endpoint_auth_method").starts_with("client_secret_") {
            client.insert("client_secret".into(), json!(self.secret("cs")));
            client.insert("client_secret_expires_at".into(), json!(0));
        }
        let client = reply.revised(Value::Object(client));
        let text = |name: &str| client.get(name).and_then(Value::as_str).unwrap_or_default();
        let auth = match text("token_endpoint_auth_method") {
            "none" => Auth::None,
            "private_key_jwt" => Auth::Key,
            _ if text("client_secret").is_empty() => Auth::None,
            _ => Auth::Secret(text("client_secret").into()),
        };
        let redirect_uris = client.get("redirect_uris").map(texts).unwrap_or_default();
        if self.clients.len() >= SECRETS {
            self.clients.pop_first();
        }
        self.clients.insert(text("client_id").into(), Client { auth, redirect_uris });
        Ok(Page::json(201, &client))
    }

    /// The authorization endpoint: the user consents, unless there is an error.
    fn authorize(&mut self, received: &Received, reply: &Reply, error: Option<&str>) -> Page {
        let param = |name: &str| received.param(name).unwrap_or_default();
        let (id, redirect_uri) = (param("client_id"), param("redirect_uri"));
        let known = self.clients.get(id);
        let may_redirect = known.map_or_else(|| id.starts_with("https://"), |client| client.may_redirect(redirect_uri));
        if !may_redirect {
            return Page::html(400, "the client is unknown, or the redirect URI is not one of its own");
        }
        let (challenge, resource) = (param("code_challenge"), self.resource(received));
        let refusal = if let Some(error) = error {
            Some(Refusal::new(400, error))
        } else if param("response_type") != "code" {
            Some(Refusal::new(400, "unsupported_response_type"))
        } else if challenge.is_empty() || param("code_challenge_method") != "S256" {
            Some(invalid_request("there is no `code_challenge` of the method `S256`"))
        } else {
            resource.as_ref().err().map(|refusal| Refusal::new(refusal.status, &refusal.error))
        };
        if param("state").is_empty() {
            self.violation(received, "there is no `state`");
        }
        let mut answer = match &refusal {
            Some(refusal) => refusal.members(),
            None => object(json!({"code": self.secret("code")})),
        };
        answer.insert("state".into(), json!(param("state")));
        answer.insert("iss".into(), json!(self.issuer));
        let answer = object(reply.revised(Value::Object(answer)));
        if let (None, Ok(resource)) = (&refusal, resource) {
            if self.challenges.len() >= SECRETS {
                self.challenges.pop_first();
            }
            self.challenges.insert(challenge.into());
            let grant = self.grant(id, resource, param("scope"), None);
            let kind = Kind::Code { challenge: challenge.into(), redirect_uri: redirect_uri.into() };
            if let Some(code) = answer.get("code").and_then(Value::as_str) {
                self.remember(code.into(), Issued { kind, grant, ends: None, is_over: false });
            }
        }
        let mut location = String::from(redirect_uri);
        for (name, value) in &answer {
            location.push(if location.contains('?') { '&' } else { '?' });
            location.extend([&encode(name), "=", &encode(&written(value))]);
        }
        Page::status(302, &location)
    }

    fn grant(&mut self, client: &str, resource: Option<String>, scopes: &str, key: Option<Value>) -> Grant {
        Grant { family: self.next("family"), client: client.into(), resource, scopes: scopes.into(), key }
    }

    /// The `resource` of a request, if it covers a server that is protected here.
    fn resource(&mut self, received: &Received) -> Result<Option<String>, Refusal> {
        let Some(resource) = received.param("resource") else {
            self.violation(received, "there is no `resource`");
            return Ok(None);
        };
        if !self.resources.is_empty() && !self.resources.iter().any(|known| is_below(known, resource)) {
            return Err(Refusal::new(400, "invalid_target: the resource is not protected by this server"));
        }
        Ok(Some(resource.into()))
    }

    fn token(&mut self, received: &Received, reply: &Reply) -> Result<Page, Refusal> {
        let client = self.authenticate(received)?;
        let key = self.proof(received, None, self.nonce.clone())?;
        let kind = received.param("grant_type").unwrap_or_default();
        if kind == TOKEN_EXCHANGE {
            return self.exchange(received, &client, reply);
        }
        let resource = self.resource(received)?;
        let (grant, used) = match kind {
            "authorization_code" => (self.redeem(received, &client, resource.as_deref(), key)?, None),
            "refresh_token" => (self.refresh(received, &client, key.as_ref())?, received.param("refresh_token")),
            "client_credentials" if self.clients.get(&client).is_some_and(|client| client.auth != Auth::None) => {
                (self.grant(&client, resource, received.param("scope").unwrap_or_default(), key), None)
            }
            "client_credentials" => return Err(Refusal::new(400, "unauthorized_client: it does not authenticate")),
            JWT_BEARER => {
                self.accept(received.param("assertion"))?;
                (self.grant(&client, resource, received.param("scope").unwrap_or_default(), key), None)
            }
            _ => return Err(Refusal::new(400, "unsupported_grant_type")),
        };
        let has_refresh = matches!(kind, "authorization_code" | "refresh_token");
        Ok(self.issue(grant, has_refresh, used, reply))
    }

    /// Issues a token, and a refresh token in place of the one that was used.
    fn issue(&mut self, grant: Grant, has_refresh: bool, used: Option<&str>, reply: &Reply) -> Page {
        let kind = if grant.key.is_some() { "DPoP" } else { "Bearer" };
        let mut answer = object(json!({"token_type": kind, "expires_in": LIFE}));
        answer.insert("access_token".into(), json!(self.secret("at")));
        if has_refresh {
            answer.insert("refresh_token".into(), json!(self.secret("rt")));
        }
        if !grant.scopes.is_empty() {
            answer.insert("scope".into(), json!(grant.scopes));
        }
        let answer = reply.revised(Value::Object(answer));
        let text = |name: &str| answer.get(name).and_then(Value::as_str);
        let life = answer.get("expires_in").and_then(|life| written(life).parse().ok());
        let ends = life.map(|life| self.now + Duration::from_secs(life));
        let scopes = text("scope").unwrap_or(&grant.scopes).to_owned();
        if let Some(token) = text("refresh_token").filter(|token| Some(*token) != used) {
            if let Some(used) = used.and_then(|used| self.issued.get_mut(used)) {
                used.is_over = true;
            }
            let issued = Issued { kind: Kind::Refresh, grant: grant.clone(), ends: None, is_over: false };
            self.remember(token.into(), issued);
        }
        if let Some(token) = text("access_token") {
            let grant = Grant { scopes, ..grant };
            self.remember(token.into(), Issued { kind: Kind::Access, grant, ends, is_over: false });
        }
        Page::json(200, &answer).with("cache-control", Some("no-store".into()))
    }

    /// The client of a request, which authenticates itself.
    fn authenticate(&mut self, received: &Received) -> Result<String, Refusal> {
        let assertion = received.param("client_assertion");
        let signed = assertion.and_then(claims).filter(|claims| self.is_audience(claims));
        if let (Some(assertion), Some(signed)) = (assertion, &signed)
            && self.is_new(assertion)
        {
            let id = signed.get("sub").and_then(Value::as_str).unwrap_or_default();
            let has_key = self.clients.get(id).is_some_and(|client| client.auth == Auth::Key);
            if has_key && signed.get("iss").and_then(Value::as_str) == Some(id) {
                return Ok(id.into());
            }
        }
        let id = received.param("client_id").unwrap_or_default();
        let has = |name: &str, value: &str| received.params.iter().any(|(known, it)| known == name && it == value);
        match self.clients.get(id).map(|client| &client.auth) {
            Some(Auth::None) => Ok(id.into()),
            Some(Auth::Secret(secret)) if has("client_secret", secret) => Ok(id.into()),
            Some(Auth::Secret(_)) => Err(invalid_client("the secret is not that of the client")),
            Some(Auth::Key) => Err(invalid_client("there is no assertion of the client for this server")),
            None if id.starts_with("https://") => Ok(id.into()),
            None => Err(invalid_client("the client is unknown")),
        }
    }

    fn redeem(
        &mut self,
        received: &Received,
        client: &str,
        resource: Option<&str>,
        key: Option<Value>,
    ) -> Result<Grant, Refusal> {
        let known = received.param("code").and_then(|code| self.issued.get_mut(code));
        let Some(Issued { kind: Kind::Code { challenge, redirect_uri }, grant, is_over, .. }) = known else {
            return Err(invalid_grant("the code is unknown"));
        };
        let family = grant.family;
        if core::mem::replace(is_over, true) {
            self.end_tokens(|issued| issued.grant.family == family);
            return Err(invalid_grant("the code was used, or revoked"));
        }
        if grant.client != client || Some(redirect_uri.as_str()) != received.param("redirect_uri") {
            return Err(invalid_grant("the code is of another client, or of another redirect URI"));
        }
        if grant.resource.is_some() && grant.resource.as_deref() != resource {
            return Err(Refusal::new(400, "invalid_target: the code is for another resource"));
        }
        let grant = Grant { key, ..grant.clone() };
        if received.param("code_verifier").map(challenge_of).as_ref() != Some(challenge) {
            self.violation(received, "the `code_verifier` is not that of the code");
            return Err(invalid_grant("the code verifier is not that of the code"));
        }
        Ok(grant)
    }

    fn refresh(&mut self, received: &Received, client: &str, key: Option<&Value>) -> Result<Grant, Refusal> {
        let known = received.param("refresh_token").and_then(|token| self.issued.get(token));
        let Some(Issued { kind: Kind::Refresh, grant, is_over, .. }) = known else {
            return Err(invalid_grant("the refresh token is unknown"));
        };
        let grant = grant.clone();
        if *is_over {
            self.end_tokens(|issued| issued.grant.family == grant.family);
            return Err(invalid_grant("the refresh token was used, or revoked"));
        }
        if grant.client != client || grant.key.as_ref() != key {
            return Err(invalid_grant("the refresh token is of another client, or bound to another key"));
        }
        let asked = received.param("scope").unwrap_or(&grant.scopes);
        if !has_scopes(&grant.scopes, asked) {
            return Err(Refusal::new(400, "invalid_scope: a refresh grants no further scopes"));
        }
        Ok(grant)
    }

    /// Accepts an assertion, or an ID token.
    fn accept(&mut self, assertion: Option<&str>) -> Result<(), Refusal> {
        let assertion = assertion.unwrap_or_default();
        let is_own = claims(assertion).is_some_and(|claims| self.is_audience(&claims));
        if self.accepted.contains(assertion) || is_own && self.is_new(assertion) {
            return Ok(());
        }
        Err(invalid_grant("the assertion is not accepted, or not any more"))
    }

    /// The token exchange of an identity provider: an ID token for a grant that another server accepts.
    fn exchange(&mut self, received: &Received, client: &str, reply: &Reply) -> Result<Page, Refusal> {
        self.accept(received.param("subject_token"))?;
        let Some(audience) =
            received.param("audience").filter(|_| received.param("requested_token_type") == Some(ID_JAG))
        else {
            return Err(invalid_request("there is no `audience`, or another type than an ID-JAG is requested"));
        };
        let signature = self.secret("jag");
        let header = json!({"alg": "none", "typ": "oauth-id-jag+jwt"});
        let claims = json!({
            "iss": self.issuer, "sub": "user", "aud": audience, "client_id": client, "jti": signature,
            "resource": received.param("resource"), "scope": received.param("scope"),
        });
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let grant = format!("{}.{}.{signature}", part(&header), part(&claims));
        let answer =
            json!({"access_token": grant, "issued_token_type": ID_JAG, "token_type": "N_A", "expires_in": 300});
        Ok(Page::json(200, &reply.revised(answer)))
    }

    fn revoke(&mut self, received: &Received) -> Result<Page, Refusal> {
        let client = self.authenticate(received)?;
        let known = received.param("token").and_then(|token| self.issued.get_mut(token));
        if let Some(issued) = known.filter(|issued| issued.grant.client == client) {
            issued.is_over = true;
            let family = issued.grant.family;
            if matches!(issued.kind, Kind::Refresh) {
                self.end_tokens(|issued| issued.grant.family == family);
            }
        }
        Ok(Page::html(200, ""))
    }

    /// The key of a proof of possession, if the request has one. `token` is the token that it is sent with.
    fn proof(
        &mut self,
        received: &Received,
        token: Option<&str>,
        nonce: Option<String>,
    ) -> Result<Option<Value>, Refusal> {
        let Some(proof) = received.param("dpop") else { return Ok(None) };
        let invalid = |why: &str| Err(Refusal::new(400, &format!("invalid_dpop_proof: {why}")));
        let (Some(header), Some(claims)) = (part_of(proof, 0), claims(proof)) else {
            return invalid("it is not a JWT");
        };
        let claim = |name: &str| claims.get(name).and_then(Value::as_str);
        let Some(key) = header.get("jwk").filter(|_| header.get("typ") == Some(&json!("dpop+jwt"))) else {
            return invalid("it has no key, or another type");
        };
        let is_here = claim("htu").is_some_and(|htu| htu.trim_end_matches('/') == without_query(&received.url));
        if claim("htm") != Some(&*received.method) || !is_here {
            return invalid("it is for another request");
        }
        if claim("ath") != token.map(challenge_of).as_deref() {
            return invalid("it is for another token");
        }
        if nonce.is_some() && claim("nonce") != nonce.as_deref() {
            return Err(Refusal { nonce, ..Refusal::new(400, "use_dpop_nonce") });
        }
        if !self.is_new(claim("jti").unwrap_or_default()) {
            return invalid("it was used");
        }
        Ok(Some(key.clone()))
    }

    /// What a request to an MCP server is refused with.
    fn guard(
        &mut self,
        received: &Received,
        request: &Request<Vec<u8>>,
        resource: &str,
        reply: &Reply,
    ) -> Option<Page> {
        if let Reply::Status { status, text } = reply {
            return Some(Page::status(*status, text));
        }
        if let Reply::Error { code, message } = reply {
            let refusal = self.scripted(received, *code, message);
            return Some(challenge(received, resource, Some(refusal), None, reply));
        }
        let message: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        let method = message.get("method").and_then(Value::as_str).unwrap_or_default();
        let demands = self.demands.iter().filter(|(on, _)| on.matches(method, subject_of(&message)));
        let demanded: Vec<_> = demands.map(|(_, scopes)| scopes.as_str()).collect();
        let (is_free, scopes) = (self.is_open && demanded.is_empty(), demanded.join(" "));
        let Some(token) = received.param("access_token") else {
            let needed = Some(scopes.as_str()).filter(|scopes| !scopes.is_empty());
            return (!is_free).then(|| challenge(received, resource, None, needed, reply));
        };
        match self.accept_token(received, token) {
            Err(refusal) => Some(challenge(received, resource, Some(refusal), None, reply)),
            Ok(granted) if has_scopes(&granted, &scopes) => None,
            Ok(_) => {
                let refusal = Refusal::new(403, "insufficient_scope");
                Some(challenge(received, resource, Some(refusal), Some(&scopes), reply))
            }
        }
    }

    /// The scopes of a token that a request to an MCP server has.
    fn accept_token(&mut self, received: &Received, token: &str) -> Result<String, Refusal> {
        let invalid = || Refusal::new(401, "invalid_token");
        let known = self.issued.get(token).filter(|issued| matches!(issued.kind, Kind::Access) && !issued.is_over);
        let known = known.filter(|issued| issued.ends.is_none_or(|ends| ends > self.now)).ok_or_else(invalid)?;
        let grant = known.grant.clone();
        if !grant.resource.is_none_or(|resource| is_below(&received.url, &resource)) {
            return Err(invalid());
        }
        if grant.key.is_some() {
            let nonce = self.resource_nonce.clone();
            let key = self.proof(received, Some(token), nonce).map_err(|refusal| Refusal { status: 401, ..refusal })?;
            if key != grant.key {
                return Err(Refusal::new(401, "invalid_dpop_proof: it is of another key"));
            }
        }
        Ok(grant.scopes)
    }
}

impl Client {
    fn may_redirect(&self, uri: &str) -> bool {
        self.redirect_uris.is_empty() || self.redirect_uris.iter().any(|known| is_same_redirect(known, uri))
    }
}

/// The refusal of a request to an MCP server, with a challenge (RFC 6750, section 3; RFC 9728, section 5.1).
fn challenge(
    received: &Received,
    resource: &str,
    refusal: Option<Refusal>,
    scopes: Option<&str>,
    reply: &Reply,
) -> Page {
    let (origin, path) = split(resource);
    let mut params = refusal.as_ref().map(Refusal::members).unwrap_or_default();
    params.insert("resource_metadata".into(), json!(format!("{origin}{RESOURCE_METADATA}{path}")));
    if let Some(scopes) = scopes {
        params.insert("scope".into(), json!(scopes));
    }
    let params = object(reply.revised(Value::Object(params)));
    let params: Vec<_> = params.iter().map(|(name, value)| format!("{name}={}", json!(written(value)))).collect();
    let scheme = if received.param("dpop").is_some() { "DPoP" } else { "Bearer" };
    let challenge = format!("{scheme} {}", params.join(", "));
    let (status, nonce) = refusal.map_or((401, None), |refusal| (refusal.status, refusal.nonce));
    Page::html(status, "").with("www-authenticate", Some(challenge)).with("dpop-nonce", nonce)
}

/// Whether these scopes have all the others.
fn has_scopes(granted: &str, demanded: &str) -> bool {
    let granted: BTreeSet<_> = granted.split_ascii_whitespace().collect();
    demanded.split_ascii_whitespace().all(|scope| granted.contains(scope))
}

/// Whether a registered redirect URI is this one; the port of a loopback address may differ (RFC 8252, section 7.3).
fn is_same_redirect(known: &str, uri: &str) -> bool {
    let ((origin, path), (other_origin, other_path)) = (split(known), split(uri));
    let host = |origin: &str| match origin.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host.to_owned(),
        _ => origin.to_owned(),
    };
    let is_loopback = matches!(&*host(origin), "http://127.0.0.1" | "http://[::1]" | "http://localhost");
    known == uri || is_loopback && host(origin) == host(other_origin) && path == other_path
}
