//! The journal of a client that authorizes itself: it has no secret, and replays to the same actions.

use std::cell::RefCell;
use std::rc::Rc;

use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_proto::binding::http::{ExchangeId, HttpAction};
use mcp_proto::binding::oauth::{
    ClientAuth, Flow, GrantKind, IdentityProvider, OAuthExchangeId, OAuthInput, PublicKey, Secret, SignId, StoreId,
};
use mcp_proto::host::hub::SessionHandle;
use mcp_proto::journal::{
    Input, InputError, JournalError, JournalLimits, OAuthReport, Played, Recorder, Replay, replay,
};
use mcp_proto::testkit::{
    Embedder, Endpoint, FakeAuthorizationServer, FakeServer, FakeTool, Fault, Link, NodeId, On, Reply, Sim,
};
use mcp_proto::{Client, Command, Event, Http, Options, Request};
use proptest::prelude::*;

use super::simulated::{endpoint, reply};
use super::*;
use crate::common::seconds;

const URL: &str = "https://mcp.example/mcp?key=hush-of-the-url";
/// Each secret of the authorization server ends with it.
const MARKER: &str = "hush0of0the0issuer";

type Store = Rc<RefCell<Option<Vec<u8>>>>;

/// A program that records its client.
struct Host {
    client: Recorder<Client<Http>>,
    store: Store,
    shown: Vec<String>,
    oauth: Vec<OAuthEvent>,
}

impl Host {
    fn new(now: Time, options: OAuthOptions, store: &Store) -> Self {
        let unix = Duration::from_secs(EPOCH) + now.since(Time::ZERO);
        // No two processes draw the same.
        let mut entropy = [1; 32];
        entropy[..8].copy_from_slice(&now.as_millis().to_le_bytes());
        let auth = Authorization::new(URL, options, entropy, now, unix).unwrap();
        let http = Http::new(URL).unwrap().with_oauth(auth);
        let client = Recorder::new(http, Options::new("suite", "1.0"), 1, JournalLimits::default());
        Self { client, store: Rc::clone(store), shown: vec![], oauth: vec![] }
    }

    fn give(&mut self, now: Time, input: OAuthInput<'_>) {
        assert!(self.client.handle_oauth(now, input));
    }
}

impl Embedder for Host {
    type Driven = Recorder<Client<Http>>;

    fn driven(&mut self) -> &mut Recorder<Client<Http>> {
        &mut self.client
    }

    fn on_event(&mut self, _: Time, _: Event) {}

    fn on_oauth(&mut self, now: Time, _: Option<SessionHandle>, action: OAuthAction) {
        let store = Rc::clone(&self.store);
        match action {
            OAuthAction::Browse(url) => self.shown.push(url.as_str().into()),
            OAuthAction::Event(event) => self.oauth.push(event),
            OAuthAction::Sign(request) => {
                self.give(now, OAuthInput::Signature { id: request.id, signature: b"hush-signature" });
            }
            OAuthAction::Store(StoreAction::Acquire(id)) => {
                self.give(now, OAuthInput::Acquired { id, acquired: true });
            }
            OAuthAction::Store(StoreAction::Load(id)) => {
                self.give(now, OAuthInput::Loaded { id, record: Ok(store.borrow().as_deref()) });
            }
            OAuthAction::Store(StoreAction::Save { id, record, .. }) => {
                *store.borrow_mut() = Some(record.expose().to_vec());
                self.give(now, OAuthInput::Saved { id, saved: SaveOutcome::Stored });
            }
            OAuthAction::Store(StoreAction::Remove) => *store.borrow_mut() = None,
            _ => {}
        }
    }
}

fn issuer() -> FakeAuthorizationServer {
    FakeAuthorizationServer::new(ISSUER).marked(MARKER).protects(URL.split('?').next().unwrap())
}

fn options(change: impl FnOnce(&mut OAuthOptions)) -> OAuthOptions {
    let mut options = OAuthOptions::new("suite", REDIRECT);
    options.stored = true;
    change(&mut options);
    options
}

fn world(server: FakeServer, issuer: FakeAuthorizationServer, options: OAuthOptions) -> (Sim<Host>, NodeId) {
    world_with(server, issuer, options, None)
}

/// As [`world`], with this record in the store.
fn world_with(
    server: FakeServer,
    issuer: FakeAuthorizationServer,
    options: OAuthOptions,
    record: Option<Vec<u8>>,
) -> (Sim<Host>, NodeId) {
    let sim = Sim::new(7).with_server("s", server, Link::new(Duration::from_millis(20)));
    let mut sim = sim.with_authorization_server("as", issuer, Link::new(Duration::from_millis(20)).piece(37));
    let node = sim.add("s", Host::new(Time::ZERO, options, &Rc::new(RefCell::new(record))));
    sim.tell(node, |now, host| host.client.apply(now, Command::Open)).unwrap().unwrap();
    (sim, node)
}

fn call(sim: &mut Sim<Host>, node: NodeId) {
    sim.tell(node, |now, host| host.client.apply(now, Command::Request(Request::call_tool("a", None))))
        .unwrap()
        .unwrap();
    sim.run_for(seconds(60)).unwrap();
}

fn change(sim: &mut Sim<Host>, change: impl FnOnce(&mut FakeAuthorizationServer)) {
    sim.change_authorization_server("as", change).unwrap();
}

/// The journal so far, which has no secret that came to a server or to the user, and replays to the same actions. A process
/// that began at this time knows nothing of the secrets that came before only.
fn checked_since(since: Time, sim: &mut Sim<Host>, node: NodeId) -> String {
    let mut shown = vec![];
    let journal = sim.tell(node, |_, host| {
        shown.clone_from(&host.shown);
        host.client.end();
        host.client.take()
    });
    let journal = journal.unwrap();
    let mut secrets: Vec<String> =
        shown.iter().filter_map(|url| query(url.split_once('?').unwrap().1, "state")).collect();
    for issuer in sim.authorization_servers() {
        let came = issuer.requests().filter(|request| request.at >= since).flat_map(|request| request.secrets());
        secrets.extend(came.map(|(_, secret)| secret.to_owned()));
    }
    let before = |secret: &str| {
        let mut came = sim.authorization_servers().flat_map(|issuer| issuer.requests());
        came.any(|request| request.at < since && request.secrets().any(|(_, it)| it == secret))
    };
    // What was issued and never sent.
    for (at, _) in journal.match_indices(MARKER) {
        let begin = journal[..at].rfind(|it: char| !it.is_ascii_alphanumeric() && it != '-').map_or(0, |it| it + 1);
        let secret = &journal[begin..at + MARKER.len()];
        secrets.extend((!before(secret)).then(|| secret.to_owned()));
    }
    secrets.sort_unstable();
    secrets.dedup();
    let is_secret = |secret: &String| secret.contains("hush-") || sim.authorization_servers().any(|it| it.owns(secret));
    // A shorter one may be a part of other texts, and is not looked for in them.
    secrets.retain(|secret| secret.len() > 8 && (secret.len() == 43 || is_secret(secret)));
    for secret in secrets {
        for form in forms(&secret) {
            assert!(!journal.contains(&form), "{form} of {secret}: {}", line_with(&journal, &form));
        }
    }
    let played = replay(journal.as_bytes(), JournalLimits::default());
    played.unwrap_or_else(|error| panic!("{error}"));
    journal
}

fn checked(sim: &mut Sim<Host>, node: NodeId) -> String {
    checked_since(Time::ZERO, sim, node)
}

fn line_with<'a>(journal: &'a str, text: &str) -> &'a str {
    journal.lines().find(|line| line.contains(text)).unwrap_or_default()
}

/// A text in the encodings in which a server may repeat it.
fn forms(secret: &str) -> Vec<String> {
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let percent: String = secret.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let mut forms = vec![secret.to_owned(), hex, percent];
    if secret.len() >= 8 {
        for before in 0..3 {
            let mut bytes = vec![0; before];
            bytes.extend(secret.bytes());
            for encoded in
                [URL_SAFE_NO_PAD.encode(&bytes), base64::engine::general_purpose::STANDARD_NO_PAD.encode(&bytes)]
            {
                // The characters that depend on it alone.
                forms.push(encoded[(before * 8).div_ceil(6)..bytes.len() * 8 / 6].to_owned());
            }
        }
    }
    forms
}

fn server() -> FakeServer {
    FakeServer::modern().tool(FakeTool::new("a"))
}

#[test]
fn a_sign_in_is_recorded_without_its_secrets_and_replays() {
    let lives = Reply::With(json!({"expires_in": 600}));
    let (mut sim, node) = world(server(), issuer().always(Endpoint::Token, lives), options(|_| {}));
    sim.run_for(seconds(61)).unwrap();
    assert!(sim.get(node).unwrap().client.is_ready());
    call(&mut sim, node);
    change(&mut sim, FakeAuthorizationServer::expire_tokens);
    call(&mut sim, node);
    // It is renewed before it expires, too.
    sim.run_for(seconds(2000)).unwrap();
    assert!(sim.authorization_server("as").unwrap().received(&Endpoint::Refresh) > 3);
    sim.tell(node, |now, host| host.give(now, OAuthInput::Clock { unix: Duration::from_secs(EPOCH + 90_000) }));
    sim.run_for(seconds(60)).unwrap();
    sim.tell(node, |now, host| host.give(now, OAuthInput::SignOut));
    sim.run_for(seconds(60)).unwrap();
    assert!(sim.authorization_server("as").unwrap().received(&Endpoint::Revocation) >= 2);
    let journal = checked(&mut sim, node);
    // The masks are those that the responses have: a refresh has the token of the last one.
    let token = |at: usize| journal.match_indices("refresh_token=secret").nth(at).unwrap().0;
    assert_ne!(journal[token(0)..][..30], journal[token(1)..][..30]);
    for word in
        ["authorization_code", "code=secret", "code_verifier=secret0x", "state=secret0x", "resource=http", "as.example"]
    {
        assert!(journal.contains(word), "{word}");
    }
}

#[test]
fn a_replay_gives_the_actions_of_the_sign_in() {
    let (mut sim, node) = world(server(), issuer(), options(|_| {}));
    sim.run_for(seconds(61)).unwrap();
    let journal = checked(&mut sim, node);
    let Replay::Http(mut player) = Replay::new(journal.as_bytes(), JournalLimits::default()).unwrap() else {
        panic!("HTTP")
    };
    let (mut granted, mut saved) = (0, 0);
    while let Some(played) = player.next() {
        match played.unwrap() {
            Played::Action(HttpAction::OAuth(OAuthAction::Event(OAuthEvent::Authorized(_)))) => granted += 1,
            Played::Action(HttpAction::OAuth(OAuthAction::Store(StoreAction::Save { record, .. }))) => {
                let record: Value = serde_json::from_slice(record.expose()).unwrap();
                assert!(record["access_token"].as_str().unwrap().starts_with("secret1"), "{record}");
                saved += 1;
            }
            _ => {}
        }
    }
    assert_eq!((granted, saved, player.get().is_ready()), (1, 1, true));
    // What the server of the journal said can be served again.
    assert!(FakeServer::from_journal(journal.as_bytes(), JournalLimits::default()).is_ok());
    // A change in what was sent is a difference.
    let at = journal.find("grant_type=authorization_code").unwrap();
    let line = journal[..at].rfind('\n').unwrap() + 1;
    let end = line + journal[line..].find(",\"sum\"").unwrap();
    let changed = format!("{}{}}}\n", &journal[..line], journal[line..end].replace("code=secret", "code=secred"));
    let error = replay(changed.as_bytes(), JournalLimits::default()).unwrap_err();
    assert!(matches!(error, JournalError::Differs { .. }), "{error}");
}

#[test]
fn secrets_that_servers_repeat_are_not_in_the_journal() {
    let token = format!("at1-{MARKER}");
    let echo = |text: &str| json!({"content": [{"type": "text", "text": text}]});
    let encoded = STANDARD.encode(format!("xy{token}"));
    let texts = [token.clone(), encoded, format!("a%20{}", token.replace('-', "%2D")), format!(r#"{{"t":"{token}"}}"#)];
    for text in texts {
        let server = FakeServer::modern().tool(FakeTool::new("a").result(echo(&text)));
        let (mut sim, node) = world(server, issuer(), options(|_| {}));
        // Many that the embedder names take no place of those that servers give.
        let named =
            sim.tell(node, |_, host| (0..40).try_for_each(|at| host.client.hide(&format!("named-secret-{at}"))));
        named.unwrap().unwrap();
        sim.run_for(seconds(61)).unwrap();
        call(&mut sim, node);
        // An error that repeats what was sent.
        let words = format!("invalid_grant: rt1-{MARKER} of code1-{MARKER} and {token}");
        change(&mut sim, |issuer| {
            issuer.expire_tokens();
            issuer.add_script(Endpoint::Refresh, [Reply::error(400, &words)]);
            issuer.add_script(Endpoint::Token, [Reply::error(400, &words)]);
        });
        call(&mut sim, node);
        let journal = checked(&mut sim, node);
        assert!(journal.contains("tools/call"), "{journal}");
    }
}

/// Of the secrets that servers give, a recorder knows those that were used last.
#[test]
fn after_many_tokens_the_one_in_use_and_one_that_was_named_are_hidden() {
    let token = |number: usize| format!("at{number}-{MARKER}");
    let (mut sim, node) = world(server(), issuer(), options(|_| {}));
    sim.run_for(seconds(61)).unwrap();
    sim.tell(node, |_, host| host.client.hide(&token(1))).unwrap().unwrap();
    for _ in 0..20 {
        change(&mut sim, FakeAuthorizationServer::expire_tokens);
        call(&mut sim, node);
    }
    let said = json!({"content": [{"type": "text", "text": format!("It was {}, and is {}.", token(1), token(21))}]});
    sim.change("s", |server| server.add_script(On::tool("a"), [Reply::Result(said)]));
    call(&mut sim, node);
    assert!(sim.authorization_servers().any(|issuer| issuer.owns(&token(21)) && !issuer.owns(&token(22))));
    let journal = checked(&mut sim, node);
    assert!(journal.contains("It was secret"), "{}", line_with(&journal, "It was"));
}

#[test]
fn each_way_to_authenticate_is_recorded() {
    let client = |secret: Option<&str>, auth: Option<ClientAuth>| {
        let mut client = RegisteredClient::new("app");
        (client.issuer, client.secret, client.auth) = (Some(ISSUER.into()), secret.map(Secret::new), auth);
        client
    };
    let secret = "hush/of the+client";
    let key = Some(ClientAuth::PrivateKeyJwt { algorithm: "ES256".into(), key_id: None });
    let provider = IdentityProvider::new("https://idp.example/token", "idp-app", Secret::new("hush-identity"));
    for (client, flow) in [
        (client(Some(secret), Some(ClientAuth::Basic)), Flow::ClientCredentials),
        (client(Some(secret), Some(ClientAuth::Post)), Flow::User),
        (client(None, key), Flow::User),
        (client(Some(secret), None), Flow::JwtBearer(Secret::new("hush-assertion"))),
        (client(Some(secret), None), Flow::Enterprise(provider)),
    ] {
        for bound in [false, true] {
            let issuer = match &client.secret {
                Some(_) => issuer().client_with_secret("app", secret),
                None => issuer().client_with_key("app"),
            };
            let options = options(|options| {
                options.flow = flow.clone();
                options.registered.push(client.clone());
                options.dpop = bound.then(|| PublicKey::from_coordinates([1; 32], [2; 32]));
            });
            let (mut sim, node) = world(server(), issuer.accepts("hush-assertion"), options);
            let idp = FakeAuthorizationServer::new("https://idp.example").marked(MARKER).client("idp-app");
            sim = sim.with_authorization_server("idp", idp.accepts("hush-identity"), Link::default());
            sim.run_for(seconds(61)).unwrap();
            assert!(sim.get(node).unwrap().client.is_ready(), "{flow:?} {bound}");
            change(&mut sim, |issuer| {
                issuer.expire_tokens();
                if bound {
                    issuer.add_script(Endpoint::Resource, [Reply::error(401, "use_dpop_nonce")]);
                }
            });
            call(&mut sim, node);
            checked(&mut sim, node);
        }
    }
}

#[cfg(feature = "sign")]
#[test]
fn keys_in_memory_are_not_in_the_journal() {
    let key = mcp_proto::binding::oauth::SigningKey::from_bytes(&[7; 32]).unwrap();
    let options = options(|options| {
        let mut client = RegisteredClient::new("app");
        client.issuer = Some(ISSUER.into());
        client.auth = Some(ClientAuth::PrivateKeyJwt { algorithm: "ES256".into(), key_id: None });
        options.registered.push(client);
        (options.dpop, options.dpop_key, options.client_key) = (Some(key.public()), Some(key.clone()), Some(key));
    });
    let (mut sim, node) = world(server(), issuer().client_with_key("app"), options);
    sim.run_for(seconds(61)).unwrap();
    assert!(sim.get(node).unwrap().client.is_ready());
    call(&mut sim, node);
    checked(&mut sim, node);
}

#[test]
fn a_redirect_of_another_attempt_is_recorded_as_none() {
    let never = issuer().always(Endpoint::Authorization, Reply::Silent);
    let (mut sim, node) = world(server(), never, options(|_| {}));
    sim.run_for(seconds(5)).unwrap();
    for other in ["code=hush-code&state=hush-state", "hush-pasted", "https://hush.example/?code=hush", ""] {
        let refused = sim.tell(node, |now, host| host.client.handle_input(now, OAuthInput::Redirect(other).into()));
        assert_eq!(refused.unwrap(), Err(InputError::OtherRedirect));
    }
    sim.tell(node, |now, host| {
        let state = query(host.shown[0].split_once('?').unwrap().1, "state").unwrap();
        let own = format!("{REDIRECT}?code=hush%2Fcode&state={state}&iss={ISSUER}&session_state=hush");
        host.give(now, OAuthInput::Redirect(&own));
    });
    sim.run_for(seconds(5)).unwrap();
    let journal = checked(&mut sim, node);
    assert!(journal.contains(r#"{"type":"redirect","value":""}"#));
    assert!(
        journal.contains(&format!("&state=secret0{}&iss={ISSUER}", "x".repeat(36))),
        "{}",
        line_with(&journal, "state=")
    );
    // A client without an authorization has no such input.
    let mut plain = Recorder::new(Http::new(URL).unwrap(), Options::new("suite", "1.0"), 1, JournalLimits::default());
    for input in [OAuthReport::Authorize, OAuthReport::Redirect("?code=hush".into())] {
        assert_eq!(plain.handle_input(Time::ZERO, Input::OAuth(input)), Err(InputError::NoAuthorization));
    }
    assert!(!plain.handle_oauth(Time::ZERO, OAuthInput::Authorize));
    assert!(replay(plain.finish().1.as_bytes(), JournalLimits::default()).is_ok());
}

#[test]
fn a_journal_that_was_changed_causes_no_panic() {
    let (mut sim, node) = world(server(), issuer(), options(|_| {}));
    sim.run_for(seconds(61)).unwrap();
    let journal = checked(&mut sim, node);
    let lines: Vec<_> =
        journal.lines().map(|line| format!("{}}}\n", line.rsplit_once(",\"sum\"").unwrap().0)).collect();
    let plain = lines.concat();
    assert!(replay(plain.as_bytes(), JournalLimits::default()).is_ok());
    for (at, _) in plain.match_indices(['"', ':', '[', '0', '{', '=', '&']).step_by(29) {
        for byte in [b'"', b'x', b'9', b'}'] {
            let mut changed = plain.clone().into_bytes();
            changed[at] = byte;
            let _ = replay(&changed, JournalLimits::default());
        }
    }
    for left_out in 0..lines.len() {
        let others = lines.iter().enumerate().filter(|(at, _)| *at != left_out).map(|(_, line)| &**line);
        let _ = replay(others.collect::<String>().as_bytes(), JournalLimits::default());
    }
    // Without its authorization the client is another one.
    let (before, after) = plain.split_once(",\"authorization\":").unwrap();
    let (_, after) = after.split_once('\n').unwrap();
    assert!(replay(format!("{before}}}\n{after}").as_bytes(), JournalLimits::default()).is_err());
    for wrong in ["{}", "[]", "7", r#"{"server":"mcp.example"}"#] {
        let changed = format!("{before},\"authorization\":{wrong}}}\n{after}");
        let error = replay(changed.as_bytes(), JournalLimits::default()).unwrap_err();
        assert!(matches!(error, JournalError::NotAJournal { .. }), "{error}");
    }
}

/// The highest number of a mask.
fn masks(journal: &str) -> u64 {
    let number = |at: usize| journal[at..].bytes().take_while(u8::is_ascii_digit).collect::<Vec<_>>();
    let numbers = journal.match_indices("secret").map(|(at, word)| String::from_utf8(number(at + word.len())).unwrap());
    numbers.filter_map(|number| number.parse().ok()).max().unwrap()
}

#[test]
fn of_a_member_that_is_repeated_the_one_that_is_read_is_recorded() {
    let many = |form: &dyn Fn(usize) -> String, by: &str| (0..20_000).map(form).collect::<Vec<_>>().join(by);
    let json = format!("{{{}}}", many(&|at| format!(r#""access_token":"hush-{at:040}","scope":"s{at}""#), ","));
    let json_of_both = format!("{{{}}}", many(&|at| format!(r#""refresh_token":"hush-{at:040}""#), ","));
    let form = many(&|at| format!("access_token=hush-{at:040}&scope=s{at}"), "&");
    for (body, is_read) in [(json, true), (json_of_both, false), (form, false)] {
        let token = Reply::status(200, &body);
        let (mut sim, node) = world(server(), issuer().script(Endpoint::Token, [token]), options(|_| {}));
        sim.run_for(seconds(60)).unwrap();
        let journal = checked(&mut sim, node);
        assert!(masks(&journal) < 120, "{}", masks(&journal));
        assert!(!journal.contains("hush-"));
        assert_eq!(journal.contains(r#"\"scope\":\"s19999\""#) || journal.contains(r#"\"s19999\""#), is_read);
    }
    let never = issuer().always(Endpoint::Authorization, Reply::Silent);
    let (mut sim, node) = world(server(), never, options(|_| {}));
    sim.run_for(seconds(5)).unwrap();
    sim.tell(node, |now, host| {
        let state = query(host.shown[0].split_once('?').unwrap().1, "state").unwrap();
        let codes = (0..1000).map(|at| format!("code=hush-{at:040}")).collect::<Vec<_>>().join("&");
        host.give(now, OAuthInput::Redirect(&format!("{REDIRECT}?{codes}&state={state}&iss={ISSUER}")));
    });
    sim.run_for(seconds(5)).unwrap();
    let journal = checked(&mut sim, node);
    assert!(journal.contains("?code=%&state=secret0"), "{}", line_with(&journal, "redirect"));
    assert!(masks(&journal) < 110 && !journal.contains("hush-"));
}

#[test]
fn members_that_are_no_secrets_are_recorded_without_objects() {
    let body = format!(
        r#"{{"access_token":"at1-{MARKER}","token_type":"Bearer","scope":{{"access_token":"hush-a"}},"expires_in":600,
        "redirect_uris":["uri",{{"a":"hush-b"}},["hush-c"]],"error":null,"client_id":[{{"a":"hush-d"}}]}}"#
    );
    let (mut sim, node) =
        world(server(), issuer().script(Endpoint::Token, [Reply::status(200, &body)]), options(|_| {}));
    sim.run_for(seconds(20)).unwrap();
    let journal = checked(&mut sim, node);
    assert!(!journal.contains("hush-"), "{}", line_with(&journal, "hush-"));
}

/// It stays one of another server in the journal, though no query is shown: else the replay would use it.
#[test]
fn a_record_of_another_server_or_of_another_query_is_recorded_as_such() {
    let (mut sim, node) = world(server(), issuer(), options(|_| {}));
    sim.run_for(seconds(60)).unwrap();
    let stored = sim.tell(node, |_, host| host.store.borrow().clone()).unwrap().expect("a record");
    let place = URL.split('?').next().unwrap();
    for (of, is_used) in [
        (URL.to_owned(), true),
        (place.to_owned(), false),
        (format!("{place}?key=hush-of-another"), false),
        ("https://other.example/mcp?key=hush-of-another".to_owned(), false),
    ] {
        let mut record: Value = serde_json::from_slice(&stored).unwrap();
        record["server"] = json!(of);
        let (mut sim, node) = world_with(server(), issuer(), options(|_| {}), Some(record.to_string().into_bytes()));
        sim.run_for(seconds(5)).unwrap();
        let of_store = |event: &OAuthEvent| matches!(event, OAuthEvent::Authorized(it) if it.kind == GrantKind::Stored);
        assert_eq!(sim.tell(node, |_, host| host.oauth.iter().any(of_store)).unwrap(), is_used, "{of}");
        assert!(!checked(&mut sim, node).contains("hush-"));
    }
}

#[test]
fn a_form_without_a_token_is_recorded_as_one() {
    for body in ["other=1", "access_token=&token_type=Bearer"] {
        let token = Reply::status(200, body);
        let (mut sim, node) = world(server(), issuer().script(Endpoint::Token, [token]), options(|_| {}));
        sim.run_for(seconds(60)).unwrap();
        checked(&mut sim, node);
    }
}

#[test]
fn what_is_shown_of_a_recorder_and_of_its_inputs_has_no_secret() {
    let (id, exchange) = (StoreId::from_u64(1), OAuthExchangeId::from_u64(1));
    for input in [
        OAuthInput::Redirect("?code=hush"),
        OAuthInput::Loaded { id, record: Ok(Some(b"hush")) },
        OAuthInput::Body { exchange, chunk: b"hush" },
        OAuthInput::Signature { id: SignId::from_u64(1), signature: b"hush" },
    ] {
        let shown = format!("{:?}", Input::from(input));
        assert!(!shown.contains("hush") && !shown.contains("104, 117"), "{shown}");
    }
    // A response that did not end.
    let silent = issuer().script(Endpoint::Token, [Reply::Silent]);
    let (mut sim, node) = world(server(), silent, options(|_| {}));
    sim.run_for(seconds(5)).unwrap();
    let shown = sim.tell(node, |now, host| {
        for exchange in (0..16).map(OAuthExchangeId::from_u64) {
            host.give(now, OAuthInput::Head { exchange, status: StatusCode::OK, headers: &HeaderMap::new() });
            host.give(now, OAuthInput::Body { exchange, chunk: b"hushhush" });
        }
        format!("{:?}", host.client)
    });
    let shown = shown.unwrap();
    assert!(shown.contains("held: Held { entries: ") && !shown.contains("held: Held { entries: 0"), "{shown}");
    assert!(!shown.contains("hush") && !shown.contains("104, 117"), "{shown}");
    // That it is given up ends the wait for the rest of it.
    sim.run_for(seconds(120)).unwrap();
    let journal = sim.tell(node, |_, host| host.client.take()).unwrap();
    assert!(journal.contains(r#"{"type":"oauth","value":{"type":"drop""#), "{journal}");
}

#[test]
fn a_signature_is_recorded_without_its_bytes_and_that_there_is_none_as_it_is() {
    let (mut sim, node) = world(server(), issuer(), options(|_| {}));
    sim.tell(node, |now, host| {
        for signature in [&b"hush-signature"[..], b""] {
            host.give(now, OAuthInput::Signature { id: SignId::from_u64(9), signature });
        }
    });
    let journal = checked(&mut sim, node);
    let recorded = |signature: &str| journal.contains(&format!(r#"{{"id":9,"signature":{signature}}}"#));
    assert!(recorded(r#""signature""#) && recorded(r#""""#), "{}", line_with(&journal, "signature"));
}

#[test]
fn the_credentials_of_http_basic_are_not_in_the_journal() {
    let secret = "hush/Of the+Client=";
    for (secret, form) in [(secret, "hush%2FOf%20the%2BClient%3D"), (secret, "hush%2fOf+the%2bClient%3d")] {
        let mut client = RegisteredClient::new("app");
        (client.issuer, client.secret, client.auth) =
            (Some(ISSUER.into()), Some(Secret::new(secret)), Some(ClientAuth::Basic));
        let sent = STANDARD.encode(format!("app:{form}"));
        let result = json!({"content": [{"type": "text", "text": format!("Basic {sent}")}]});
        let server = FakeServer::modern().tool(FakeTool::new("a").result(result));
        let issuer = issuer().client_with_secret("app", secret);
        let (mut sim, node) = world(server, issuer, options(|options| options.registered.push(client)));
        sim.run_for(seconds(61)).unwrap();
        call(&mut sim, node);
        let journal = checked(&mut sim, node);
        assert!(journal.contains("Basic YXBwO"), "{journal}");
        // The first characters and the last ones have bits of the colon and of what follows.
        assert!(!journal.contains(&sent[8..sent.len() - 4]), "{}", line_with(&journal, &sent[8..]));
    }
}

#[test]
fn a_server_cannot_choose_a_token_that_makes_the_journal_unreadable() {
    for token in [
        "\"exchange\":",
        "{\"type\":\"in",
        "connection",
        "onnectio",
        "protocolVersion",
        "serverInfo",
        "content-type",
        "0000000000",
        "1000000000",
        "2025-11-25",
        "secret102",
        "cret102xxxxxxx",
        "n0123456789",
        "u00410123456789",
    ] {
        let text = "\n0123456789 \u{1}0123456789 A0123456789 connection 2025-11-25 0000000000 1000000000";
        let result = json!({"content": [{"type": "text", "text": text}]});
        let server = FakeServer::legacy().tool(FakeTool::new("a").result(result));
        let tokens = Reply::With(json!({"access_token": token, "refresh_token": token}));
        let (mut sim, node) = world(server, issuer().script(Endpoint::Token, [tokens]), options(|_| {}));
        sim.run_for(seconds(61)).unwrap();
        let request = Command::Request(Request::call_tool("a", None));
        sim.tell(node, |now, host| drop(host.client.apply(now, request))).unwrap();
        sim.run_for(seconds(60)).unwrap();
        let body = format!(r#"{{"text":"{}"}}"#, "\\n0123456789 \\u00410123456789");
        sim.tell(node, |now, host| {
            let exchange = ExchangeId::from_u64(9999);
            host.client.handle_input(now, Input::Body { exchange, bytes: body.as_bytes().into() }).unwrap();
            host.client.handle_input(now, Input::End { exchange }).unwrap();
        });
        let journal = sim.tell(node, |_, host| (host.client.end(), host.client.take()).1).unwrap();
        replay(journal.as_bytes(), JournalLimits::default()).unwrap_or_else(|error| panic!("{token}: {error}"));
        assert!(!journal.contains(&format!("access_token\\\":{}", json!(token))), "{token}");
        // What the server said is JSON in the journal, too.
        let line: Value = serde_json::from_str(journal.lines().find(|line| line.contains(":9999,")).unwrap()).unwrap();
        let chunk = line["in"]["value"]["bytes"].as_str().unwrap();
        assert!(serde_json::from_str::<Value>(chunk).is_ok(), "{token} {chunk}");
    }
}

#[test]
fn a_secret_that_is_divided_is_not_in_the_journal_if_the_secrets_change_between_its_parts() {
    let never = issuer().always(Endpoint::Authorization, Reply::Silent);
    let (mut sim, node) = world(server(), never, options(|_| {}));
    sim.run_for(seconds(5)).unwrap();
    let (state, named) = sim
        .tell(node, |now, host| {
            host.client.hide("hush-named-0123456789").unwrap();
            let state = query(host.shown[0].split_once('?').unwrap().1, "state").unwrap();
            let streams = [(9998, state.clone()), (0, "hush-named-0123456789".to_owned())];
            let parts = |at: usize| {
                streams.clone().map(|(exchange, secret)| {
                    let (one, other) = secret.split_at(15);
                    (ExchangeId::from_u64(exchange), [one, other][at].as_bytes().into())
                })
            };
            for (exchange, chunk) in parts(0) {
                host.client.handle_input(now, Input::Body { exchange, bytes: chunk }).unwrap();
            }
            host.give(now, OAuthInput::Cancel);
            while host.client.poll().is_some() {}
            for (exchange, chunk) in parts(1) {
                host.client.handle_input(now, Input::Body { exchange, bytes: chunk }).unwrap();
                host.client.handle_input(now, Input::End { exchange }).unwrap();
            }
            (state, "hush-named-0123456789")
        })
        .unwrap();
    let journal = checked(&mut sim, node);
    for secret in [&*state, named] {
        let (one, other) = secret.split_at(15);
        assert!(!journal.contains(one) && !journal.contains(other), "{}", line_with(&journal, one));
    }
}

#[derive(Clone, Debug)]
enum Step {
    Script(Endpoint, Vec<Reply>),
    /// A server repeats what was sent last.
    Repeat(Endpoint, &'static str),
    Fault(bool, Fault),
    Call,
    Wait(u64),
    Expire,
    Revoke,
    SignOut,
    Authorize,
    Cancel,
    Clock(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let fault = prop_oneof![
        (1_u64..60).prop_map(|time| Fault::Unreachable(seconds(time))),
        (1_u64..60).prop_map(|time| Fault::Stall(seconds(time))),
        Just(Fault::Cut),
        Just(Fault::Crash),
    ];
    let errors = prop::sample::select(vec!["invalid_grant", "invalid_client", "server_error"]);
    let tokens = prop::sample::select(vec![json!("~q7~"), json!("~q7~ with blanks"), json!(7), json!("")]);
    let tokens = (prop::sample::select(vec!["access_token", "refresh_token", "client_secret", "id_token"]), tokens);
    let others = tokens.prop_map(|(name, value)| Reply::With(json!({name: value})));
    let issuing = prop::sample::select(vec![Endpoint::Token, Endpoint::Refresh, Endpoint::Registration]);
    prop_oneof![
        8 => (endpoint(), prop::collection::vec(reply(), 1..4)).prop_map(|(at, replies)| Step::Script(at, replies)),
        3 => (issuing, others).prop_map(|(at, reply)| Step::Script(at, vec![reply])),
        3 => (endpoint(), errors).prop_map(|(at, error)| Step::Repeat(at, error)),
        2 => (any::<bool>(), fault).prop_map(|(issuer, fault)| Step::Fault(issuer, fault)),
        4 => Just(Step::Call),
        4 => (1_u64..900).prop_map(Step::Wait),
        4 => Just(Step::Expire),
        1 => Just(Step::Revoke),
        1 => Just(Step::SignOut),
        2 => Just(Step::Authorize),
        1 => Just(Step::Cancel),
        1 => (0_u64..10_000).prop_map(Step::Clock),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn whatever_servers_do_the_journal_has_no_secret_and_replays(
        steps in prop::collection::vec(step(), 1..24),
        stored: bool,
        is_configured: bool,
        seed: u64,
    ) {
        let issuer = issuer().client_with_secret("app", "hush-of-the-client");
        let link = Link::default().piece(50).cuts_per_mille(5);
        let mut sim = Sim::new(seed)
            .with_server("s", FakeServer::legacy().tool(FakeTool::new("a")), Link::default().cuts_per_mille(5))
            .with_authorization_server("as", issuer, link);
        let options = options(|options| {
            options.stored = stored;
            if is_configured {
                let mut client = RegisteredClient::new("app");
                (client.issuer, client.secret) = (Some(ISSUER.into()), Some(Secret::new("hush-of-the-client")));
                options.registered.push(client);
            }
        });
        let store = Store::default();
        let mut node = sim.add("s", Host::new(Time::ZERO, options.clone(), &store));
        sim.tell(node, |now, host| host.client.apply(now, Command::Open).unwrap());
        for step in steps {
            match step {
                Step::Script(at, replies) => change(&mut sim, |issuer| issuer.add_script(at, replies)),
                Step::Repeat(at, error) => change(&mut sim, |issuer| {
                    let sent: Vec<_> = issuer.requests().rev().flat_map(|request| request.secrets()).take(4).collect();
                    let words: Vec<_> = sent.into_iter().map(|(name, secret)| format!("{name} {secret}")).collect();
                    issuer.add_script(at, [Reply::error(400, &format!("{error}: {}", words.join(" ")))]);
                }),
                Step::Fault(issuer, fault) => sim.fault(if issuer { "as" } else { "s" }, fault),
                Step::Call => {
                    let call = || Command::Request(Request::call_tool("a", None));
                    sim.tell(node, |now, host| host.client.apply(now, call()).ok());
                }
                Step::Wait(time) => sim.run_for(seconds(time))?,
                Step::Expire => change(&mut sim, FakeAuthorizationServer::expire_tokens),
                Step::Revoke => change(&mut sim, FakeAuthorizationServer::revoke_tokens),
                Step::SignOut => drop(sim.tell(node, |now, host| host.give(now, OAuthInput::SignOut))),
                Step::Authorize => drop(sim.tell(node, |now, host| host.give(now, OAuthInput::Authorize))),
                Step::Cancel => drop(sim.tell(node, |now, host| host.give(now, OAuthInput::Cancel))),
                Step::Clock(time) => {
                    let unix = Duration::from_secs(EPOCH + time);
                    sim.tell(node, |now, host| host.give(now, OAuthInput::Clock { unix }));
                }
            }
            sim.run_for(seconds(1))?;
        }
        sim.run_for(seconds(100))?;
        // A process that ends answers nothing more.
        sim.tell(node, |now, host| host.client.apply(now, Command::Close).ok());
        sim.run_for(seconds(100))?;
        checked(&mut sim, node);
        // Another process continues with the record.
        let since = sim.now();
        node = sim.add("s", Host::new(since, options, &store));
        sim.tell(node, |now, host| host.client.apply(now, Command::Open).unwrap());
        sim.run_for(seconds(1000))?;
        checked_since(since, &mut sim, node);
    }
}
