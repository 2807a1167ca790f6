//! An authorization whose server, authorization server, user and store do anything.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};
use mcp_proto::binding::oauth::{
    ClientAuth, Flow, IdentityProvider, OAuthAction, OAuthExchangeId, OAuthOptions, PublicKey, RefreshScopes,
    RegisteredClient, SaveOutcome, Secret, SignId, StoreAction, StoreId,
};
use mcp_proto::{Challenge, Time};

use super::checks::{MARKER, has_marker};
use super::input::Input;
use super::oauth_joined::Joined;
use super::oauth_model::Watched;
use super::rig::Operated;

pub(super) const SERVER: &str = "https://mcp.example/mcp";
pub(super) const RESOURCE: &str =
    r#"{"resource":"https://mcp.example/mcp","authorization_servers":["https://as.example"],"scopes_supported":["a"]}"#;
pub(super) const METADATA: &str = r#"{"issuer":"https://as.example","authorization_endpoint":"https://as.example/authorize","token_endpoint":"https://as.example/token","registration_endpoint":"https://as.example/register","revocation_endpoint":"https://as.example/revoke","code_challenge_methods_supported":["S256"],"client_id_metadata_document_supported":true}"#;
pub(super) const CLIENT: &str = r#"{"client_id":"c","client_secret":"hush-tide-0ar","client_secret_expires_at":1000}"#;
pub(super) const TOKEN: &str =
    r#"{"access_token":"hush-tide-0ar","refresh_token":"hush-tide-0ar2","expires_in":100,"token_type":"bearer"}"#;
/// For tokens that are bound to a key.
pub(super) const PROVED_METADATA: &str = r#"{"issuer":"https://as.example","authorization_endpoint":"https://as.example/authorize?tenant=1","token_endpoint":"https://as.example/token","dpop_signing_alg_values_supported":["ES256"],"scopes_supported":["a","offline_access"],"token_endpoint_auth_methods_supported":["client_secret_post","private_key_jwt"],"code_challenge_methods_supported":["S256"],"client_id_metadata_document_supported":true}"#;
pub(super) const PROVED_TOKEN: &str = r#"{"access_token":"hush-tide-0ar","refresh_token":"hush-tide-0ar2","expires_in":"100","token_type":"DPoP","scope":"a"}"#;
/// What an identity provider grants.
pub(super) const GRANT: &str = r#"{"access_token":"hush-tide-0ar7","issued_token_type":"urn:ietf:params:oauth:token-type:id-jag","token_type":"N_A"}"#;
pub(super) const REFUSED: &str = r#"{"error":"invalid_grant","error_description":"no"}"#;
pub(super) const RECORD: &str = r#"{"generation":3,"server":"https://mcp.example/mcp","issuer":"https://as.example","resource":"https://mcp.example/mcp","client":{"id":"c","auth":"none","redirect_uri":"http://127.0.0.1:1/","kind":"dynamic"},"requested":"a","granted":"a","access_token":"hush-tide-0ar3","expires":50,"life":100,"refresh_token":"hush-tide-0ar4"}"#;

pub(super) const DOCUMENTS: [&str; 8] =
    [RESOURCE, METADATA, CLIENT, TOKEN, REFUSED, PROVED_METADATA, PROVED_TOKEN, GRANT];

const NO_HEADER: (&str, &[u8]) = ("x-none", b"");

/// What is in flight.
#[derive(Clone)]
pub(super) struct World {
    auth: Watched,
    now: Time,
    exchanges: Vec<OAuthExchangeId>,
    stores: Vec<StoreId>,
    signs: Vec<SignId>,
    state: Option<String>,
    hash: DefaultHasher,
}

fn options(input: &mut Input<'_>) -> OAuthOptions {
    let mut options = OAuthOptions::new("fuzz", "http://127.0.0.1:1/");
    let bits = input.bits();
    options.stored = bits & 1 != 0;
    options.offline_access = bits & 2 != 0;
    options.tolerance.missing_issuer = bits & 4 != 0;
    let more = input.bits();
    options.flow = match more & 7 {
        2 => Flow::ClientCredentials,
        3 => Flow::JwtBearer(Secret::new("hush-tide-0ar5")),
        4 => {
            let mut provider = IdentityProvider::new("https://idp.example/token", "app", Secret::new("hush-tide-0ar8"));
            provider.client_secret = Some(Secret::new("hush-tide-0ar9"));
            Flow::Enterprise(provider)
        }
        _ => Flow::User,
    };
    options.may_ask_user = more & 7 != 5;
    options.dpop = (more & 8 != 0).then(|| PublicKey::from_coordinates([1; 32], [2; 32]));
    if more & 16 != 0 {
        options.scopes = Some("a b".into());
        options.tolerance.refresh_scopes = RefreshScopes::Granted;
        options.tolerance.exact_resource = true;
        options.step_up_without_user = true;
    }
    if more & 32 != 0 {
        options.tolerance.refresh_scopes = RefreshScopes::Requested;
        options.tolerance.omit_resource = true;
        options.tolerance.require_iss = true;
        options.tolerance.trusted_issuers = vec![("https://as.example".into(), "https://other.example".into())];
    }
    if options.flow != Flow::User {
        options.tolerance.issuer = Some("https://as.example".into());
    }
    if bits & 8 != 0 {
        let mut client = RegisteredClient::new("c");
        client.issuer = Some("https://as.example".into());
        client.secret = Some(Secret::new("hush-tide-0ar6"));
        client.auth = match input.pick(3) {
            0 => None,
            1 => Some(ClientAuth::PrivateKeyJwt { algorithm: "ES256".into(), key_id: None }),
            _ => Some(ClientAuth::Post),
        };
        options.registered.push(client);
    }
    options.client_metadata_url = (bits & 16 != 0).then(|| "https://app.example/c.json".into());
    options
}

/// The rest of the line.
pub(super) fn line<'a>(input: &mut Input<'a>) -> &'a [u8] {
    let end = input.0.iter().position(|byte| *byte == b'\n').unwrap_or(input.0.len());
    let line = input.take(end);
    input.take(1);
    line
}

/// Whether a request to an authorization server carries a secret: in its body, or by HTTP Basic. Its headers have no
/// tokens.
pub(super) fn carries_secret(request: &http::Request<Vec<u8>>) -> bool {
    let mut has_basic = false;
    for (name, value) in request.headers() {
        let is_basic = value.as_bytes().starts_with(b"Basic ");
        assert!(!has_marker(value.as_bytes()), "a token in {name} to {}", request.uri());
        assert!(is_basic || name != "authorization", "another scheme than Basic to {}", request.uri());
        has_basic |= is_basic;
    }
    has_basic || has_marker(request.body())
}

impl World {
    fn drain(&mut self) {
        while let Some(action) = self.auth.poll() {
            let shown = format!("{action:?}");
            assert!(!shown.contains(MARKER), "a secret is shown: {shown}");
            shown.hash(&mut self.hash);
            match action {
                OAuthAction::Request(request) => {
                    let url = request.request.uri().to_string();
                    assert!(!carries_secret(&request.request) || !url.starts_with(SERVER), "{url}");
                    self.exchanges.push(request.exchange);
                }
                OAuthAction::Drop(id) => self.exchanges.retain(|exchange| *exchange != id),
                OAuthAction::Browse(url) => {
                    let state = url.as_str().split("&state=").nth(1).expect("a state");
                    self.state = Some(state.split('&').next().unwrap_or_default().to_owned());
                }
                OAuthAction::EndBrowse => self.state = None,
                OAuthAction::Store(StoreAction::Acquire(id) | StoreAction::Load(id)) => self.stores.push(id),
                OAuthAction::Store(StoreAction::Save { id, .. }) => self.stores.push(id),
                OAuthAction::Sign(request) => self.signs.push(request.id),
                _ => {}
            }
        }
        assert!(!has_marker(format!("{:?}", self.auth).as_bytes()), "a secret is shown");
        assert!(self.auth.header(&"https://as.example/token".parse().expect("a URL")).is_none());
    }

    fn answer(&mut self, status: u16, (name, value): (&'static str, &[u8]), body: &[u8]) {
        let Some(id) = self.exchanges.pop() else { return };
        let mut headers = HeaderMap::new();
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.insert(name, value);
        }
        let status = StatusCode::from_u16(status).unwrap_or_default();
        self.auth.handle_head(self.now, id, status, &headers);
        for chunk in body.chunks(50) {
            self.auth.handle_body(self.now, id, chunk);
        }
        self.auth.handle_end(self.now, id);
    }

    fn refuse(&mut self, forbidden: bool, params: &[u8]) {
        let text = String::from_utf8_lossy(params);
        let params = text.split(',').filter_map(|pair| pair.split_once('='));
        let params = params.map(|(name, value)| (name.into(), value.into())).collect();
        let token = self.auth.header(&SERVER.parse().expect("a URL")).map(|(token, _)| token);
        let challenges = [Challenge::new("Bearer", params)];
        let refused = self.auth.handle_unauthorized(self.now, token, forbidden, &challenges);
        format!("{refused:?}").hash(&mut self.hash);
    }

    fn store(&mut self, how: usize, record: &[u8]) {
        let Some(id) = self.stores.pop() else { return };
        match how {
            0 => self.auth.handle_acquired(self.now, id, true),
            1 => self.auth.handle_acquired(self.now, id, false),
            2 => self.auth.handle_loaded(self.now, id, Ok(None)),
            3 => self.auth.handle_loaded(self.now, id, Ok(Some(RECORD.as_bytes()))),
            4 => self.auth.handle_loaded(self.now, id, Ok(Some(record))),
            5 => self.auth.handle_loaded(self.now, id, Err(())),
            6 => self.auth.handle_saved(self.now, id, SaveOutcome::Stored),
            7 => self.auth.handle_saved(self.now, id, SaveOutcome::Conflict),
            _ => self.auth.handle_saved(self.now, id, SaveOutcome::Failed),
        }
    }
}

impl Operated for World {
    fn new(input: &mut Input<'_>) -> Self {
        Self {
            auth: Watched::new(SERVER, options(input), [7; 32], Time::ZERO, Duration::ZERO),
            now: Time::ZERO,
            exchanges: Vec::new(),
            stores: Vec::new(),
            signs: Vec::new(),
            state: None,
            hash: DefaultHasher::new(),
        }
    }

    fn operate(&mut self, operation: u8, input: &mut Input<'_>) {
        match operation {
            b'r' => self.refuse(false, line(input)),
            b'f' => self.refuse(true, line(input)),
            b'a' => {
                let document = DOCUMENTS[input.pick(DOCUMENTS.len())];
                self.answer([200, 400, 503][input.pick(3)], NO_HEADER, document.as_bytes());
            }
            b'b' => self.answer(200, NO_HEADER, line(input)),
            b'm' => self.answer(302, ("location", line(input)), b""),
            b'n' => self.answer(400, ("dpop-nonce", line(input)), br#"{"error":"use_dpop_nonce"}"#),
            b'x' => {
                if let Some(id) = self.exchanges.pop() {
                    self.auth.handle_failure(self.now, id, &String::from_utf8_lossy(line(input)));
                }
            }
            b'c' => {
                let state = self.state.clone().unwrap_or_default();
                let text = format!("state={state}&{}", String::from_utf8_lossy(line(input)));
                self.auth.handle_redirect(self.now, &text);
            }
            b'd' => {
                self.auth.handle_redirect(self.now, &String::from_utf8_lossy(line(input)));
            }
            b's' => {
                let how = input.pick(9);
                let record = if how == 4 { line(input) } else { b"" };
                self.store(how, record);
            }
            b'g' => {
                if let Some(id) = self.signs.pop() {
                    self.auth.handle_signature(self.now, id, line(input));
                }
            }
            b't' => {
                self.now = self.now + input.step();
                self.auth.handle_timeout(self.now);
            }
            b'o' => self.auth.sign_out(self.now),
            b'z' => self.auth.authorize(self.now),
            b'h' => {
                if let Some((token, _)) = self.auth.header(&SERVER.parse().expect("a URL")) {
                    self.auth.handle_accepted(self.now, token);
                }
            }
            b'l' => self.auth.cancel(self.now),
            b'u' => self.auth.handle_clock(self.now, Duration::from_secs(60) * input.bits().into()),
            b'w' => self.auth.set_modern(input.bits() & 1 != 0),
            _ => {}
        }
        self.drain();
    }

    /// Secrets are not in the text: the outputs so far stand for them.
    fn state(&self) -> String {
        let Self { auth, now, exchanges, stores, signs, state, .. } = self;
        format!("{} {now:?} {auth:?} {exchanges:?} {stores:?} {signs:?} {state:?}", self.hash.finish())
    }

    fn end(&mut self) -> u64 {
        self.state().hash(&mut self.hash);
        self.hash.finish()
    }
}

/// The input, with each marker of secrets cut out.
pub(super) fn without_marker(bytes: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(bytes.len());
    for byte in bytes {
        kept.push(*byte);
        if kept.ends_with(MARKER.as_bytes()) {
            kept.truncate(kept.len() - MARKER.len());
        }
    }
    kept
}

pub fn oauth(bytes: &[u8]) -> u64 {
    let bytes = without_marker(bytes);
    // The rest is about a client that authorizes itself.
    if let Some(rest) = bytes.strip_prefix(b"J") {
        let mut joined = Joined::run(rest);
        joined.record();
        return joined.end();
    }
    World::run(&bytes).end()
}
