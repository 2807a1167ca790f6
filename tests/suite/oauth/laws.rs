//! Properties of an authorization, over any order of refusals, responses, redirects, times and a second process.

use mcp_proto::binding::oauth::{Flow, Secret};
use proptest::prelude::*;

use super::*;

const OTHER: &str = "https://as2.example";
const ERRORS: [&str; 3] = ["{}", r#"{"error":"invalid_grant"}"#, r#"{"error":"invalid_client"}"#];

#[derive(Clone, Debug)]
enum Step {
    Refuse(bool),
    Forbid(u8),
    Answer(u16, usize),
    Serve,
    Break,
    Store,
    Consent,
    Deny,
    Wait(u16),
    SignOut,
    Authorize,
    /// Another process takes the lock, refreshes and saves.
    Sibling,
    /// The server names its other authorization server.
    Migrate,
}

/// The client of the embedder.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// It registers dynamically, and gets a secret.
    Dynamic,
    /// One with a secret and without an issuer.
    Registered,
    /// One with a secret at each authorization server.
    RegisteredTwice,
    /// As `Registered`, without a user.
    Credentials,
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::Dynamic), Just(Kind::Registered), Just(Kind::RegisteredTwice), Just(Kind::Credentials)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => any::<bool>().prop_map(Step::Refuse),
        1 => (0..3u8).prop_map(Step::Forbid),
        1 => (prop_oneof![Just(200u16), Just(302), Just(400), Just(404), Just(503)], 0..ERRORS.len())
            .prop_map(|(status, error)| Step::Answer(status, error)),
        8 => Just(Step::Serve),
        1 => Just(Step::Break),
        6 => Just(Step::Store),
        4 => Just(Step::Consent),
        1 => Just(Step::Deny),
        3 => (0..4000u16).prop_map(Step::Wait),
        1 => Just(Step::SignOut),
        1 => Just(Step::Authorize),
        2 => Just(Step::Sibling),
        1 => Just(Step::Migrate),
    ]
}

/// The expected state.
#[derive(Default)]
struct Past {
    /// Refresh tokens that the authorization server exchanged.
    spent: Vec<String>,
    /// How many events were checked.
    checked: usize,
    /// The origin that each secret belongs to: which issued it, or got it first.
    owners: BTreeMap<String, String>,
    codes: u32,
}

impl Past {
    fn check(&mut self, rig: &Rig) {
        let revocations = rig.sent.iter().filter(|sent| sent.url.ends_with("/revoke")).count();
        assert!(rig.sent.len() - revocations <= 1, "one request at a time");
        for sent in &rig.sent {
            let refresh = sent.form("refresh_token");
            assert!(refresh.is_none_or(|token| !self.spent.contains(&token)), "a refresh token is used twice");
            assert!(!sent.url.contains("hush"), "a secret in a URL");
            for secret in secrets(&sent.carried()) {
                let owner = self.owners.entry(secret.to_owned()).or_insert_with(|| origin(&sent.url).to_owned());
                // Without metadata, the MCP server's origin is the authorization server. It has the client's secret then,
                // so the secret may go to the one that it names later.
                if *owner == origin(SERVER) && secret == "own-hush" {
                    origin(&sent.url).clone_into(owner);
                }
                let allowed = [format!("{owner}/token"), format!("{owner}/revoke")];
                assert!(allowed.contains(&sent.url), "{secret} of {owner} goes to {}", sent.url);
            }
        }
        let events = rig.events.get(self.checked..).unwrap_or_default();
        self.checked = rig.events.len();
        assert!(!format!("{:?} {events:?}", rig.auth).contains("hush"));
        if let Some(record) = &rig.store.record {
            assert!(serde_json::from_slice::<Value>(record).is_ok(), "the record is whole");
        }
        let busy = !rig.sent.is_empty() || rig.browse.is_some();
        assert!(!busy || rig.auth.deadline().is_some(), "an attempt without an end");
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
        self.issue(rig.browse.as_ref().expect("a URL is shown"), &code);
        let redirect = format!("{REDIRECT}?code={code}&state={}", rig.shown("state"));
        assert!(rig.redirect(&redirect));
    }
}

fn client(id: &str, secret: &str, issuer: Option<&str>) -> RegisteredClient {
    let mut client = RegisteredClient::new(id);
    (client.secret, client.issuer) = (Some(Secret::new(secret)), issuer.map(Into::into));
    client
}

/// A rig with two authorization servers, which issue secrets to clients.
fn rig(kind: Kind, stored: bool) -> Rig {
    let mut rig = Rig::with(|options| {
        options.stored = stored;
        options.registered = match kind {
            Kind::Dynamic => vec![],
            Kind::Registered | Kind::Credentials => vec![client("app", "own-hush", None)],
            Kind::RegisteredTwice => {
                vec![client("one", "one-hush", Some(ISSUER)), client("two", "two-hush", Some(OTHER))]
            }
        };
        if matches!(kind, Kind::Credentials) {
            options.flow = Flow::ClientCredentials;
        }
    });
    for issuer in [ISSUER, OTHER] {
        let metadata = metadata_with(json!({
            "issuer": issuer,
            "authorization_endpoint": format!("{issuer}/authorize"),
            "token_endpoint": format!("{issuer}/token"),
            "registration_endpoint": format!("{issuer}/register"),
            "revocation_endpoint": format!("{issuer}/revoke"),
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
        }));
        rig.site.json(&format!("{issuer}/.well-known/oauth-authorization-server"), metadata);
        let secret = if issuer == ISSUER { "dyn1-hush" } else { "dyn2-hush" };
        let registered = json!({"client_id": "dyn", "client_secret": secret});
        rig.site.put(&format!("{issuer}/register"), 201, &registered.to_string());
    }
    rig
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn one_request_at_a_time_and_every_attempt_ends(
        steps in proptest::collection::vec(step(), 1..60),
        kind in kind(),
        stored: bool,
    ) {
        let mut rig = rig(kind, stored);
        let mut past = Past::default();
        let mut issuer = ISSUER;
        past.issue(ISSUER, "one-hush");
        past.issue(OTHER, "two-hush");
        for step in steps {
            match step {
                Step::Refuse(current) => {
                    let token = if current { rig.token() } else { None };
                    let _ = rig.refuse_as(token, false, &[]);
                }
                Step::Forbid(scope) => drop(rig.forbid(&format!("s{scope}"))),
                Step::Answer(status, error) if !rig.sent.is_empty() => rig.answer(status, ERRORS[error]),
                Step::Serve => {
                    if let Some(sent) = rig.sent.front() {
                        past.spent.extend(sent.form("refresh_token"));
                        let page = rig.site.page(sent);
                        past.issue(&sent.url, &page.body);
                        rig.answer_page(&page);
                    }
                }
                Step::Break if !rig.sent.is_empty() => rig.break_off(),
                Step::Store => {
                    if let Some(action) = rig.waiting.pop_front() {
                        rig.serve_store(&action);
                    }
                }
                Step::Consent if rig.browse.is_some() => past.consent(&mut rig),
                Step::Deny if rig.browse.is_some() => {
                    let redirect = format!("error=access_denied&state={}", rig.shown("state"));
                    rig.redirect(&redirect);
                }
                Step::Wait(seconds) => rig.wait(seconds.into()),
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
                        past.issue(
                            record["issuer"].as_str().unwrap(),
                            &format!("{} {}", record["access_token"], record["refresh_token"]),
                        );
                        rig.store.record = Some(record.to_string().into_bytes());
                    }
                }
                Step::Migrate => {
                    issuer = if issuer == ISSUER { OTHER } else { ISSUER };
                    rig.site.json(RESOURCE, json!({"resource": SERVER, "authorization_servers": [issuer]}));
                }
                Step::Answer(..) | Step::Break | Step::Consent | Step::Deny => {}
            }
            past.check(&rig);
        }
        // Without further input, the authorization becomes idle.
        for _ in 0..100 {
            let Some(deadline) = rig.auth.deadline() else { break };
            rig.wait(deadline.since(rig.now).as_secs() + 1);
            past.check(&rig);
        }
        prop_assert!(rig.auth.deadline().is_none(), "an attempt follows another one without an input");
        prop_assert!(rig.browse.is_none() && rig.sent.is_empty(), "an attempt that does not end");
    }
}
