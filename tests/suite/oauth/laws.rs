//! Properties of an authorization, over any order of refusals, responses, redirects, times, processes, outages of each
//! place of metadata, and hostile metadata.

use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_proto::binding::oauth::{ClientAuth, Flow, IdentityProvider, OAuthConfigError};
use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::extensions::claims;
use super::*;

const OTHER: &str = "https://as2.example";
/// Names the first authorization server as its issuer, which the embedder allows.
const ALIAS: &str = "https://alias.example";
const EVIL: &str = "https://evil.example";
const IDP: &str = "https://idp.example";
const ROOT: &str = "https://mcp.example/.well-known/oauth-protected-resource";
const EVIL_RESOURCE: &str = "https://evil.example/prm";
/// The authorization servers that have metadata, the MCP server's origin included.
const SERVERS: [&str; 5] = [ISSUER, OTHER, ALIAS, EVIL, "https://mcp.example"];
const ERRORS: [&str; 3] = ["{}", r#"{"error":"invalid_grant"}"#, r#"{"error":"invalid_client"}"#];
const OUTAGES: [u16; 6] = [401, 403, 408, 429, 500, 503];

#[derive(Clone, Debug)]
enum Step {
    /// 401, for a request with the current token or without one, and whether its challenge names metadata elsewhere.
    Refuse(bool, bool),
    Forbid(u8),
    Answer(u16, usize),
    Serve,
    /// Everything is answered until nothing is in flight, and the user consents.
    Complete,
    Break,
    Store,
    Sign,
    Consent,
    Deny,
    Wait(u16),
    SignOut,
    Authorize,
    /// Another process takes the lock, refreshes and saves.
    Sibling,
    /// Another process takes the place of this one, with this configuration.
    Restart(Kind),
    /// The era of the server is known.
    Modern(bool),
    Site(Edit),
}

/// What changes of the metadata.
#[derive(Clone, Debug)]
enum Edit {
    /// That of the server names these authorization servers.
    Name(Vec<usize>),
    /// That at one place, or at all places of one server.
    Places(usize, Change),
    /// Both: it names this authorization server alone, whose places all change.
    Only(usize, Change),
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Outage(u16),
    Missing,
    Html,
    Honest,
    /// It says that it is the first authorization server.
    Impostor,
    /// It lets the user authorize at the first authorization server.
    MixUp,
    /// The first authorization server calls itself by the name of the hostile one, which the embedder allows.
    Renamed,
}

/// The client of the embedder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It registers dynamically, and gets a secret.
    Dynamic,
    /// As `Dynamic`, at the authorization server that is configured.
    DynamicAt(usize),
    /// One without a secret and an issuer.
    Public,
    /// One with a secret and without an issuer.
    Unnamed,
    /// One with a secret.
    Registered,
    /// One with a secret at each authorization server.
    RegisteredTwice,
    /// One with a key.
    Key,
    /// As `Registered`, without a user.
    Credentials,
    /// An assertion of the embedder's.
    Assertion,
    /// As `Assertion`, without an issuer.
    UnnamedAssertion,
    /// The grant of an identity provider.
    Enterprise,
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        2 => Just(Kind::Dynamic),
        1 => (0..2_usize).prop_map(Kind::DynamicAt),
        1 => Just(Kind::Public),
        1 => Just(Kind::Unnamed),
        2 => Just(Kind::Registered),
        1 => Just(Kind::RegisteredTwice),
        1 => Just(Kind::Key),
        1 => Just(Kind::Credentials),
        1 => Just(Kind::Assertion),
        1 => Just(Kind::UnnamedAssertion),
        1 => Just(Kind::Enterprise),
    ]
}

fn changes() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => prop::sample::select(&OUTAGES[..]).prop_map(Change::Outage),
        1 => Just(Change::Missing),
        1 => Just(Change::Html),
        3 => Just(Change::Honest),
        2 => Just(Change::Impostor),
        1 => Just(Change::MixUp),
        2 => Just(Change::Renamed),
    ]
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        1 => prop::collection::vec(0..SERVERS.len() - 1, 0..3).prop_map(Edit::Name),
        2 => (0..places().len(), changes()).prop_map(|(places, change)| Edit::Places(places, change)),
        3 => (0..SERVERS.len() - 1, changes()).prop_map(|(server, change)| Edit::Only(server, change)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let statuses = prop_oneof![Just(200_u16), Just(302), Just(400), Just(404), Just(503)];
    prop_oneof![
        8 => (any::<bool>(), prop::bool::weighted(0.1)).prop_map(|(current, elsewhere)| Step::Refuse(current, elsewhere)),
        2 => (0..3_u8).prop_map(Step::Forbid),
        2 => (statuses, 0..ERRORS.len()).prop_map(|(status, error)| Step::Answer(status, error)),
        24 => Just(Step::Serve),
        8 => Just(Step::Complete),
        2 => Just(Step::Break),
        12 => Just(Step::Store),
        6 => Just(Step::Sign),
        8 => Just(Step::Consent),
        2 => Just(Step::Deny),
        6 => (0..4000_u16).prop_map(Step::Wait),
        2 => Just(Step::SignOut),
        2 => Just(Step::Authorize),
        4 => Just(Step::Sibling),
        2 => kind().prop_map(Step::Restart),
        1 => any::<bool>().prop_map(Step::Modern),
        9 => edit().prop_map(Step::Site),
    ]
}

/// Each place of metadata, and all places of each server, with the authorization server that they are of; `None` for the
/// metadata of the resource.
fn places() -> Vec<(Vec<String>, Option<&'static str>)> {
    let well_known = ["oauth-authorization-server", "openid-configuration"];
    let of =
        |issuer: &'static str| (well_known.map(|name| format!("{issuer}/.well-known/{name}")).into(), Some(issuer));
    let resource = (vec![RESOURCE.to_owned(), ROOT.to_owned()], None);
    let all: Vec<_> = [resource].into_iter().chain(SERVERS.into_iter().map(of)).collect();
    let single = all.iter().flat_map(|(urls, of)| urls.iter().map(|url| (vec![url.clone()], *of)));
    let single: Vec<_> = single.collect();
    all.into_iter().chain(single).collect()
}

/// The metadata of an authorization server, with the endpoints of another one.
fn server(issuer: &str, authorizes: &str, rest: &str) -> Value {
    // The endpoints of the server's origin are others than those that 2025-03-26 assumes.
    let at = |origin: &str, name: &str| {
        if origin == origin_of_server() { format!("{origin}/as/{name}") } else { format!("{origin}/{name}") }
    };
    metadata_with(json!({
        "issuer": issuer,
        "authorization_endpoint": at(authorizes, "authorize"),
        "token_endpoint": at(rest, "token"),
        "registration_endpoint": at(rest, "register"),
        "revocation_endpoint": at(rest, "revoke"),
        "token_endpoint_auth_methods_supported": ["client_secret_basic"],
    }))
}

fn origin_of_server() -> &'static str {
    origin(SERVER)
}

/// What is expected of the past.
#[derive(Default)]
struct Past {
    /// Refresh tokens that the authorization server exchanged.
    spent: Vec<String>,
    /// How many events were checked.
    checked: usize,
    /// The origin that each secret belongs to: by the configuration, or because it issued it.
    owners: BTreeMap<String, String>,
    /// Whether a place of the metadata in the current walk had an outage.
    is_unknown: bool,
    is_modern: bool,
    /// The place that was answered last.
    place: String,
    codes: u32,
    /// The authorization servers that the metadata of the server names.
    named: Vec<&'static str>,
}

impl Past {
    fn new() -> Self {
        let mut past = Self { named: vec![ISSUER], ..Self::default() };
        for (issuer, secrets) in
            [(ISSUER, "own-hush one-hush unnamed-hush assertion-hush"), (OTHER, "two-hush"), (IDP, "id-hush idp-hush")]
        {
            past.issue(issuer, secrets);
        }
        past
    }

    fn check(&mut self, rig: &Rig) {
        for sent in &rig.sent {
            let refresh = sent.form("refresh_token");
            assert!(refresh.is_none_or(|token| !self.spent.contains(&token)), "a refresh token is used twice");
            assert!(!sent.url.contains("hush"), "a secret in a URL");
            self.check_secrets(sent);
            self.check_conventions(&sent.url);
        }
        if let Some(shown) = &rig.browse {
            self.check_conventions(shown.split('?').next().unwrap());
            self.owners.insert(rig.shown("code_challenge"), origin(shown).to_owned());
        }
        let events = rig.events.get(self.checked..).unwrap_or_default();
        self.checked = rig.events.len();
        assert!(!format!("{:?} {events:?}", rig.auth).contains("hush"));
    }

    /// No secret, assertion, token, code or verifier leaves the authorization server that it belongs to.
    fn check_secrets(&self, sent: &Sent) {
        let (to, carried) = (origin(&sent.url), sent.carried());
        let takes_secrets = sent.url.ends_with("/token") || sent.url.ends_with("/revoke");
        for secret in secrets(&carried) {
            let owner = self.owners.get(secret).unwrap_or_else(|| panic!("{secret} belongs to nobody"));
            assert!(takes_secrets && owner == to, "{secret} of {owner} goes to {}", sent.url);
        }
        if let Some(verifier) = sent.form("code_verifier") {
            let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier));
            let owner = self.owners.get(&challenge).expect("the challenge was shown");
            assert_eq!(owner, to, "a verifier of {owner} goes to {to}");
        }
        if let Some(assertion) = sent.form("client_assertion") {
            let audience = claims(&assertion)["aud"].as_str().unwrap().to_owned();
            let is_own = [ISSUER, EVIL].contains(&&*audience) && to == ISSUER;
            assert!(is_own, "an assertion for {audience} goes to {to}");
        }
    }

    /// Endpoints are assumed only where it is certain that there is no metadata, and never of a modern server.
    fn check_conventions(&self, url: &str) {
        let is_assumed =
            ["authorize", "token", "register"].iter().any(|name| url == format!("{}/{name}", origin_of_server()));
        assert!(!(is_assumed && self.is_unknown), "endpoints are assumed in an outage");
        assert!(!(is_assumed && self.is_modern), "endpoints are assumed of a modern server");
    }

    /// An authorization server issues what is in this body.
    fn issue(&mut self, url: &str, body: &str) {
        for secret in secrets(body) {
            self.owners.insert(secret.to_owned(), origin(url).to_owned());
        }
    }

    fn consent(&mut self, rig: &mut Rig) {
        self.codes += 1;
        let code = format!("code{}-hush", self.codes);
        let shown = origin(rig.browse.as_ref().expect("a URL is shown")).to_owned();
        self.issue(&shown, &code);
        // It says who it is (RFC 9207); the assumed ones do not know that.
        let iss = if shown == origin_of_server() {
            String::new()
        } else if shown == ISSUER && is_renamed(&rig.site) && !is_mixed_up(&rig.site) {
            format!("&iss={EVIL}")
        } else {
            format!("&iss={shown}")
        };
        let redirect = format!("{REDIRECT}?code={code}&state={}{iss}", rig.shown("state"));
        assert!(rig.redirect(&redirect));
    }

    fn edit(&mut self, site: &mut Site, edit: Edit) {
        match edit {
            Edit::Name(servers) => self.name(site, servers),
            Edit::Places(at, how) => change(site, &self.named, at, how),
            Edit::Only(server, how) => {
                self.name(site, vec![server]);
                // The places of the resource come before those of the servers.
                change(site, &self.named, 1 + server, how);
            }
        }
    }

    fn name(&mut self, site: &mut Site, servers: Vec<usize>) {
        self.named = servers.into_iter().map(|at| SERVERS[at]).collect();
        change(site, &self.named, 0, Change::Honest);
    }

    fn complete(&mut self, rig: &mut Rig) {
        for _ in 0..30 {
            store(rig);
            sign(rig);
            self.serve(rig);
            self.check(rig);
        }
        if rig.browse.is_some() {
            self.consent(rig);
            self.check(rig);
            sign(rig);
            self.serve(rig);
        }
    }

    /// The oldest request in flight is about to be answered.
    fn answered(&mut self, rig: &Rig, is_outage: bool) {
        let Some(sent) = rig.sent.front().filter(|sent| sent.method == "GET") else { return };
        // A walk begins at what the challenge names.
        let begins = sent.url == EVIL_RESOURCE || sent.url == RESOURCE && self.place != EVIL_RESOURCE;
        self.is_unknown = is_outage || self.is_unknown && !begins;
        self.place.clone_from(&sent.url);
    }

    fn serve(&mut self, rig: &mut Rig) {
        let Some(sent) = rig.sent.front() else { return };
        self.spent.extend(sent.form("refresh_token"));
        let page = if sent.url == format!("{IDP}/token") {
            self.codes += 1;
            let grant = format!("jag{}-hush", self.codes);
            // The audience is what the first authorization server calls itself; the client belongs to it alone.
            assert!([ISSUER, EVIL].contains(&&*sent.form("audience").unwrap()));
            self.issue(ISSUER, &grant);
            let kind = "urn:ietf:params:oauth:token-type:id-jag";
            let body = json!({"access_token": grant, "issued_token_type": kind, "token_type": "N_A"}).to_string();
            Page { status: 200, location: None, body }
        } else {
            let (url, page) = (sent.url.clone(), rig.site.page(rig.sent.front().unwrap()));
            self.issue(&url, &page.body);
            page
        };
        self.answered(rig, OUTAGES.contains(&page.status));
        rig.answer_page(&page);
    }
}

/// The first authorization server calls itself by the name of the hostile one.
fn is_renamed(site: &Site) -> bool {
    site.pages.get(METADATA).is_some_and(|page| page.body.contains(EVIL))
}

/// The hostile server lets the user authorize at the first one. If that called itself by the hostile name, no client could
/// tell.
fn is_mixed_up(site: &Site) -> bool {
    let mut pages = site.pages.iter().filter(|(url, _)| origin(url) == EVIL);
    pages.any(|(_, page)| page.body.contains(&format!("{ISSUER}/authorize")))
}

fn store(rig: &mut Rig) {
    if let Some(action) = rig.waiting.pop_front() {
        rig.serve_store(&action);
    }
}

fn sign(rig: &mut Rig) {
    if let Some(request) = rig.signs.pop_front() {
        rig.auth.handle_signature(rig.now, request.id, b"signature");
        rig.pump();
    }
}

fn with_issuer(id: &str, secret: &str, issuer: Option<&str>) -> RegisteredClient {
    let mut client = RegisteredClient::new(id);
    (client.secret, client.issuer) = (Some(Secret::new(secret)), issuer.map(Into::into));
    client
}

fn configure(options: &mut OAuthOptions, kind: Kind) {
    options.tolerance.trusted_issuers.push((ALIAS.into(), ISSUER.into()));
    options.tolerance.trusted_issuers.push((ISSUER.into(), EVIL.into()));
    options.registered = match kind {
        Kind::Dynamic => vec![],
        Kind::DynamicAt(issuer) => {
            options.tolerance.issuer = Some(SERVERS[issuer].into());
            vec![]
        }
        Kind::Public => vec![RegisteredClient::new("public")],
        Kind::Unnamed => vec![with_issuer("app", "unnamed-hush", None)],
        Kind::Registered | Kind::Credentials => vec![with_issuer("app", "own-hush", Some(ISSUER))],
        Kind::RegisteredTwice => {
            vec![with_issuer("one", "one-hush", Some(ISSUER)), with_issuer("two", "two-hush", Some(OTHER))]
        }
        Kind::Key => {
            let mut client = client();
            client.auth = Some(ClientAuth::PrivateKeyJwt { algorithm: "ES256".into(), key_id: None });
            vec![client]
        }
        Kind::Assertion | Kind::Enterprise => vec![client()],
        Kind::UnnamedAssertion => vec![RegisteredClient::new("app")],
    };
    options.flow = match kind {
        Kind::Credentials => Flow::ClientCredentials,
        Kind::Assertion | Kind::UnnamedAssertion => Flow::JwtBearer(Secret::new("assertion-hush")),
        Kind::Enterprise => {
            let mut provider = IdentityProvider::new(format!("{IDP}/token"), "idp-app", Secret::new("id-hush"));
            provider.client_secret = Some(Secret::new("idp-hush"));
            Flow::Enterprise(provider)
        }
        _ => Flow::User,
    };
}

/// A rig with several authorization servers, which issue secrets to clients; `None` if the client is refused.
fn rig(kind: Kind, stored: bool) -> Option<Rig> {
    let mut options = OAuthOptions::new("suite", REDIRECT);
    configure(&mut options, kind);
    let made = Authorization::new(SERVER, options, [1; 32], Time::ZERO, Duration::ZERO);
    if let Err(wrong) = made {
        assert!(matches!(kind, Kind::Unnamed | Kind::UnnamedAssertion) && wrong == OAuthConfigError::Issuer);
        return None;
    }
    let mut rig = Rig::with(|options| {
        options.stored = stored;
        configure(options, kind);
    });
    for (at, (_, of)) in places().into_iter().enumerate() {
        if of.is_some_and(|of| of != origin_of_server()) {
            change(&mut rig.site, &[ISSUER], at, Change::Honest);
        }
    }
    for (at, issuer) in SERVERS.into_iter().enumerate() {
        let registered = json!({"client_id": "dyn", "client_secret": format!("dyn{at}-hush")}).to_string();
        rig.site.put(&format!("{issuer}/register"), 201, &registered);
        rig.site.put(&format!("{issuer}/as/register"), 201, &registered);
    }
    rig.site.json(EVIL_RESOURCE, json!({"resource": SERVER, "authorization_servers": [EVIL]}));
    Some(rig)
}

/// The metadata at these places changes.
fn change(site: &mut Site, named: &[&str], at: usize, change: Change) {
    let (urls, of) = &places()[at];
    for url in urls {
        let document = match (of, change) {
            (_, Change::Outage(status)) => {
                site.put(url, status, "{}");
                continue;
            }
            (_, Change::Missing) => {
                site.remove(url);
                continue;
            }
            (_, Change::Html) => json!("<html>"),
            (None, _) => json!({"resource": SERVER, "authorization_servers": named}),
            (Some(ALIAS), _) => server(ISSUER, ISSUER, ISSUER),
            (Some(ISSUER), Change::Renamed) => server(EVIL, ISSUER, ISSUER),
            (Some(EVIL), Change::Impostor) => server(ISSUER, EVIL, EVIL),
            (Some(EVIL), Change::MixUp) => server(EVIL, ISSUER, EVIL),
            (Some(issuer), _) => server(issuer, issuer, issuer),
        };
        site.json(url, document);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn no_secret_leaves_its_issuer_and_every_attempt_ends(
        edits in prop::collection::vec(edit(), 0..6),
        steps in prop::collection::vec(step(), 1..60),
        kind in kind(),
        stored: bool,
    ) {
        let Some(mut rig) = rig(kind, stored) else { return Ok(()) };
        let mut past = Past::new();
        edits.into_iter().for_each(|edit| past.edit(&mut rig.site, edit));
        for step in steps {
            if rig.sent.is_empty() {
                // The next walk continues none.
                past.place.clear();
            }
            match step {
                Step::Refuse(current, elsewhere) => {
                    let token = if current { rig.token() } else { None };
                    let params = [("resource_metadata", EVIL_RESOURCE)];
                    let _ = rig.refuse_as(token, false, if elsewhere { &params } else { &[] });
                }
                Step::Forbid(scope) => drop(rig.forbid(&format!("s{scope}"))),
                Step::Answer(status, error) if !rig.sent.is_empty() => {
                    past.answered(&rig, OUTAGES.contains(&status));
                    rig.answer(status, ERRORS[error]);
                }
                Step::Serve => past.serve(&mut rig),
                Step::Complete => past.complete(&mut rig),
                Step::Break if !rig.sent.is_empty() => {
                    past.answered(&rig, true);
                    rig.break_off();
                }
                Step::Store => store(&mut rig),
                Step::Sign => sign(&mut rig),
                Step::Consent if rig.browse.is_some() => past.consent(&mut rig),
                Step::Deny if rig.browse.is_some() => {
                    let redirect = format!("error=access_denied&state={}", rig.shown("state"));
                    rig.redirect(&redirect);
                }
                Step::Wait(seconds) => {
                    // A request that is not answered in time is an outage.
                    past.answered(&rig, seconds >= 30);
                    rig.wait(seconds.into());
                }
                Step::SignOut => {
                    rig.auth.sign_out(rig.now);
                    rig.waiting.clear();
                    rig.pump();
                }
                Step::Authorize => {
                    rig.auth.authorize(rig.now);
                    rig.pump();
                }
                Step::Sibling => {
                    if let Some(record) = &rig.store.record {
                        let mut record: Value = serde_json::from_slice(record).unwrap();
                        rig.site.issued += 1;
                        record["generation"] = json!(record["generation"].as_u64().unwrap() + 1);
                        record["access_token"] = json!(format!("sibling{}-hush", rig.site.issued));
                        record["refresh_token"] = json!(format!("sibling-rt{}-hush", rig.site.issued));
                        // The alias has the endpoints of the first authorization server.
                        let asked = record.get("asked").unwrap_or(&record["issuer"]).as_str().unwrap();
                        past.issue(
                            if asked == ALIAS { ISSUER } else { asked },
                            &format!("{} {}", record["access_token"], record["refresh_token"]),
                        );
                        rig.store.record = Some(record.to_string().into_bytes());
                    }
                }
                Step::Restart(kind) => {
                    let Some(mut next) = self::rig(kind, stored) else { continue };
                    (next.site, next.store, next.now) = (rig.site, rig.store, rig.now);
                    next.wait(0);
                    rig = next;
                    (past.checked, past.is_unknown, past.is_modern) = (0, false, false);
                    past.place.clear();
                }
                Step::Modern(is_modern) => {
                    past.is_modern = is_modern;
                    rig.auth.set_modern(is_modern);
                    rig.pump();
                }
                Step::Site(edit) => past.edit(&mut rig.site, edit),
                Step::Answer(..) | Step::Break | Step::Consent | Step::Deny => {}
            }
            past.check(&rig);
        }
        // Without further input, the authorization becomes idle.
        for _ in 0..100 {
            let Some(deadline) = rig.auth.deadline() else { break };
            past.answered(&rig, true);
            rig.wait(deadline.since(rig.now).as_secs() + 1);
            past.check(&rig);
        }
        prop_assert!(rig.auth.deadline().is_none(), "an attempt follows another one without an input");
        prop_assert!(rig.browse.is_none() && rig.sent.is_empty(), "an attempt that does not end");
    }
}
