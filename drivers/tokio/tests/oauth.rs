//! Sign-ins of sessions and hubs: the fake authorization server and MCP server of `mcp-proto`, over HTTP.
#![cfg(feature = "oauth")]
#![allow(missing_docs, clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use http::{Request, Response};
use mcp_proto::binding::oauth::{OAuthEvent, OAuthInput, OAuthOptions, Stage};
use mcp_proto::host::config::Document;
use mcp_proto::host::hub::HubOptions;
use mcp_proto::testkit::{Endpoint, FakeAuthorizationServer, Reply};
use mcp_proto::{FailureKind, Options, Time};
use mcp_proto_tokio::{FileStore, Host, Hub, OAuth, Program, Remote, Session, StartError};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::yield_now;
use tokio::time::timeout;

/// Long enough for a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Reports a request, and lets it go on.
type Gate = (UnboundedSender<()>, mpsc::Receiver<()>);

/// An MCP server that demands tokens, and its authorization server, at one port.
#[derive(Clone)]
struct Servers {
    origin: String,
    authorization: Arc<Mutex<FakeAuthorizationServer>>,
    /// The next token request is reported, and waits.
    gate: Arc<Mutex<Option<Gate>>>,
}

impl Servers {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let authorization = FakeAuthorizationServer::new(&origin).marked("hush").protects(&format!("{origin}/mcp"));
        let servers = Self { origin, authorization: Arc::new(Mutex::new(authorization)), gate: Arc::default() };
        let own = servers.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let own = own.clone();
                thread::spawn(move || own.serve(&stream.unwrap()));
            }
        });
        servers
    }

    fn serve(&self, mut stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        let mut lines = Vec::new();
        while let Some(Ok(line)) = reader.by_ref().lines().next().filter(|line| !line.as_ref().unwrap().is_empty()) {
            lines.push(line);
        }
        let Some((first, fields)) = lines.split_first() else { return };
        let words: Vec<_> = first.split(' ').collect();
        let mut request = Request::builder().method(words[0]).uri(format!("{}{}", self.origin, words[1]));
        let mut length = 0;
        for (name, value) in fields.iter().filter_map(|line| line.split_once(": ")) {
            request = request.header(name, value);
            if name.eq_ignore_ascii_case("content-length") {
                length = value.parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let gate = if words[1] == "/token" { self.gate.lock().unwrap().take() } else { None };
        if let Some((came, goes_on)) = gate {
            came.send(()).unwrap();
            goes_on.recv().unwrap();
        }
        let response = self.answer(&request.body(body).unwrap());
        let mut head = format!("HTTP/1.1 {}\r\n", response.status());
        for (name, value) in response.headers().iter().filter(|(name, _)| *name != "content-length") {
            head.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap()));
        }
        head.push_str(&format!("content-length: {}\r\nconnection: close\r\n\r\n", response.body().len()));
        // The client may have dropped the exchange.
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(response.body()));
    }

    fn answer(&self, request: &Request<Vec<u8>>) -> Response<Vec<u8>> {
        if let Some(response) = self.authorization.lock().unwrap().answer(Time::ZERO, request) {
            return response;
        }
        let message: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        let result = match message["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "test", "version": "1"},
            }),
            Some("tools/list") => json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
            Some("tools/call") => json!({"content": []}),
            Some(_) => return Response::builder().status(202).body(Vec::new()).unwrap(),
            None => return Response::builder().status(405).body(Vec::new()).unwrap(),
        };
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        let response = Response::builder().header("content-type", "application/json");
        response.body(answer.to_string().into_bytes()).unwrap()
    }

    /// A user's browser, which visits a URL of another sign-in before.
    fn oauth(&self) -> OAuth {
        let own = self.clone();
        OAuth::new(OAuthOptions::new("test", ""), move |_, url| {
            let stale = format!("{}?code=code1&state=other", url.redirect_uri());
            assert!(visit(&stale).starts_with("HTTP/1.1 400"));
            let redirect = own.browse(url.as_str());
            assert!(visit(&redirect).starts_with("HTTP/1.1 200"));
            Ok(())
        })
    }

    fn browse(&self, url: &str) -> String {
        self.authorization.lock().unwrap().browse(Time::ZERO, url).unwrap()
    }

    fn url(&self) -> String {
        format!("{}/mcp", self.origin)
    }

    fn received(&self, endpoint: &Endpoint) -> usize {
        self.authorization.lock().unwrap().received(endpoint)
    }

    async fn connect(&self, oauth: OAuth) -> Session {
        let host = Host::new(Options::new("test", "1.0")).oauth(oauth);
        let session = Session::connect(Remote::new(&self.url()).unwrap(), host);
        timeout(PATIENCE, session).await.unwrap().unwrap()
    }

    fn check(&self) {
        let none: [String; 0] = [];
        assert_eq!(self.authorization.lock().unwrap().violations(), none);
    }
}

/// The page at an address of this machine.
fn visit(url: &str) -> String {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    stream.write_all(format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    page
}

/// A file in a folder of its own.
fn file(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("mcp-proto-tokio-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).unwrap();
    folder.join("credentials.json")
}

#[tokio::test]
async fn a_user_signs_in_once_and_a_stored_token_is_used_and_given_up() {
    let (servers, file) = (Servers::start(), file("once"));
    let store = FileStore::new(&file).unwrap();
    let oauth = servers.oauth().store(store.clone());
    let mut events = oauth.events();
    let session = servers.connect(oauth).await;
    assert!(!session.call_tool("echo", &json!({})).await.unwrap().is_error());
    let (_, event) = events.next().await.unwrap();
    assert!(
        matches!(&event, OAuthEvent::Authorized(grant) if grant.kind.as_str() == "authorization_code"),
        "{event:?}"
    );
    session.close().await;
    drop(session);
    assert!(std::fs::read_to_string(&file).unwrap().contains(&servers.url()));

    let nobody = OAuth::new(OAuthOptions::new("test", ""), |_, url| panic!("{url:?}")).store(store);
    let session = servers.connect(nobody).await;
    assert_eq!(servers.received(&Endpoint::Token), 1);
    session.handle_oauth(OAuthInput::SignOut);
    session.close().await;
    assert_eq!((std::fs::read_to_string(&file).unwrap(), servers.received(&Endpoint::Revocation)), ("{}".into(), 2));
    servers.check();
}

#[tokio::test]
async fn a_user_who_refuses_is_a_failure_that_says_so() {
    let servers = Servers::start();
    let refusal = Reply::Error { code: 302, message: "access_denied".into() };
    servers.authorization.lock().unwrap().add_script(Endpoint::Authorization, [refusal]);
    let oauth = servers.oauth();
    let mut events = oauth.events();
    let host = Host::new(Options::new("test", "1.0")).oauth(oauth);
    let connecting = Session::connect(Remote::new(&servers.url()).unwrap(), host);
    let error = timeout(PATIENCE, connecting).await.unwrap().unwrap_err();
    assert_eq!(error.failure.kind, FailureKind::Unauthorized);
    assert!(error.failure.message.contains("access_denied"), "{error}");
    assert_eq!(error.cause, mcp_proto::FailureCause::SignInFailed);
    let (_, event) = events.next().await.unwrap();
    assert!(matches!(&event, OAuthEvent::Failed(error) if error.stage == Stage::Authorization), "{event:?}");
}

#[tokio::test]
async fn a_browser_that_cannot_be_opened_ends_the_sign_in_with_that_reason() {
    for panics in [false, true] {
        let servers = Servers::start();
        let oauth = OAuth::new(OAuthOptions::new("test", ""), move |server, _| {
            assert!(!panics, "on purpose");
            Err(io::Error::other(format!("no browser for {server}")))
        });
        let mut events = oauth.events();
        let mut options = Options::new("test", "1.0");
        options.server = "docs".into();
        let session = Session::start(Remote::new(&servers.url()).unwrap(), Host::new(options).oauth(oauth)).unwrap();
        let error = timeout(PATIENCE, session.ready()).await.unwrap().unwrap_err();
        let why = if panics { "the host failed" } else { "no browser for docs" };
        assert!(error.failure.kind == FailureKind::Unauthorized && error.failure.message.contains(why), "{error}");
        let (_, event) = events.next().await.unwrap();
        assert!(matches!(&event, OAuthEvent::Failed(error) if error.stage == Stage::Authorization), "{event:?}");
        session.close().await;
    }
}

#[tokio::test]
async fn credentials_are_given_up_after_the_session() {
    let (servers, file) = (Servers::start(), file("signed-out"));
    let store = FileStore::new(&file).unwrap();
    let session = servers.connect(servers.oauth().store(store)).await;
    assert!(std::fs::read_to_string(&file).unwrap().contains(&servers.url()));
    timeout(PATIENCE, session.sign_out()).await.unwrap();
    assert_eq!((std::fs::read_to_string(&file).unwrap(), servers.received(&Endpoint::Revocation)), ("{}".into(), 2));
    // It is closed, and again there is nothing to wait for.
    timeout(PATIENCE, session.sign_out()).await.unwrap();
    servers.check();
}

#[tokio::test]
async fn a_client_does_not_start_where_its_port_for_redirects_is_taken() {
    let servers = Servers::start();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let start = || {
        let host = Host::new(Options::new("test", "1.0")).oauth(servers.oauth().port(port));
        Session::start(Remote::new(&servers.url()).unwrap(), host)
    };
    assert!(matches!(start(), Err(StartError::Redirect(_))));
    drop(taken);
    timeout(PATIENCE, start().unwrap().ready()).await.unwrap().unwrap();
    servers.check();
}

#[tokio::test]
async fn where_a_redirect_cannot_be_received_it_can_be_pasted() {
    let servers = Servers::start();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let redirect_uri = format!("http://{}/callback", taken.local_addr().unwrap());
    let (sender, mut opened) = unbounded_channel();
    let told = Arc::new(Mutex::new(Vec::new()));
    let tells = Arc::clone(&told);
    let oauth = OAuth::new(OAuthOptions::new("test", redirect_uri.as_str()), move |_, url| {
        sender.send(url.as_str().to_owned()).map_err(io::Error::other)
    });
    let oauth = oauth.unheard(move |uri, _| tells.lock().unwrap().push(uri.to_owned()));
    let host = Host::new(Options::new("test", "1.0")).oauth(oauth);
    let session = Session::start(Remote::new(&servers.url()).unwrap(), host).unwrap();
    let url = timeout(PATIENCE, opened.recv()).await.unwrap().unwrap();
    assert!(session.handle_oauth(OAuthInput::Redirect(&servers.browse(&url))));
    timeout(PATIENCE, session.ready()).await.unwrap().unwrap();
    assert_eq!(*told.lock().unwrap(), [redirect_uri]);
    servers.check();
}

#[tokio::test]
async fn credentials_that_cannot_be_removed_are_told_to_the_tap_as_well() {
    use mcp_proto::binding::oauth::OAuthAction;
    use mcp_proto_tokio::{Output, Passing};

    let (servers, file) = (Servers::start(), file("kept"));
    let store = FileStore::new(&file).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let tells = Arc::clone(&told);
    let host = Host::new(Options::new("test", "1.0")).oauth(servers.oauth().store(store)).tap(move |passed| {
        if let Passing::Output(Output::OAuth(_, OAuthAction::Event(OAuthEvent::NotRevoked(why)))) = passed.what {
            tells.lock().unwrap().push(why.to_string());
        }
    });
    let session = Session::connect(Remote::new(&servers.url()).unwrap(), host).await.unwrap();
    // Something else is in the file now, which is left as it is.
    std::fs::write(&file, "foreign").unwrap();
    timeout(PATIENCE, session.sign_out()).await.unwrap();
    assert!(told.lock().unwrap().iter().any(|why| why.contains("still in the store")), "{told:?}");
}

#[tokio::test]
async fn an_http_client_of_the_hosts_own_runs_all_exchanges() {
    use std::pin::Pin;

    use mcp_proto_tokio::{HttpClient, HttpTransport, Purpose, TakePiece};

    struct Counting(HttpClient, Arc<Mutex<[u32; 2]>>);

    impl HttpTransport for Counting {
        fn run<'a>(
            &'a self,
            request: Request<Vec<u8>>,
            purpose: Purpose,
            take: TakePiece<'a>,
        ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
            self.1.lock().unwrap()[usize::from(purpose == Purpose::Server)] += 1;
            HttpTransport::run(&self.0, request, purpose, take)
        }
    }

    let (servers, counts) = (Servers::start(), Arc::new(Mutex::new([0; 2])));
    let client = Counting(HttpClient::new().unwrap(), Arc::clone(&counts));
    let host = Host::new(Options::new("test", "1.0")).oauth(servers.oauth()).http(client);
    let session = Session::connect(Remote::new(&servers.url()).unwrap(), host).await.unwrap();
    session.close().await;
    let [authorization, server] = *counts.lock().unwrap();
    assert!(authorization >= 3 && server >= 4, "{authorization} {server}");
    servers.check();
}

#[tokio::test]
async fn a_redirect_that_comes_to_the_host_is_given_by_hand() {
    let servers = Servers::start();
    let (sender, mut opened) = unbounded_channel();
    let oauth = OAuth::new(OAuthOptions::new("test", "org.example.host:/callback"), move |_, url| {
        sender.send(url.as_str().to_owned()).map_err(io::Error::other)
    });
    let host = Host::new(Options::new("test", "1.0")).oauth(oauth);
    let session = Session::start(Remote::new(&servers.url()).unwrap(), host).unwrap();
    let url = timeout(PATIENCE, opened.recv()).await.unwrap().unwrap();
    assert!(!session.handle_oauth(OAuthInput::Redirect("org.example.host:/callback?code=code1&state=other")));
    assert!(session.handle_oauth(OAuthInput::Redirect(&servers.browse(&url))));
    timeout(PATIENCE, session.ready()).await.unwrap().unwrap();
    servers.check();
}

#[tokio::test]
async fn the_reports_of_a_sign_in_end_with_the_host() {
    let oauth = OAuth::new(OAuthOptions::new("test", ""), |_, _| Ok(()));
    let mut events = oauth.events();
    drop(Host::new(Options::new("test", "1.0")).oauth(oauth));
    assert!(timeout(PATIENCE, events.next()).await.unwrap().is_none());
}

#[tokio::test]
async fn a_session_closes_while_the_user_is_asked() {
    let servers = Servers::start();
    let (sender, mut opened) = unbounded_channel();
    let oauth = OAuth::new(OAuthOptions::new("test", ""), move |_, url| {
        sender.send(url.redirect_uri().to_owned()).map_err(io::Error::other)
    });
    let host = Host::new(Options::new("test", "1.0")).oauth(oauth);
    let session = Session::start(Remote::new(&servers.url()).unwrap(), host).unwrap();
    let redirect = timeout(PATIENCE, opened.recv()).await.unwrap().unwrap();
    timeout(PATIENCE, session.close()).await.unwrap();
    timeout(PATIENCE, unheard(&redirect)).await.unwrap();
}

/// Waits until nothing listens at the port of a redirect URI: the task that does ends at its next turn.
async fn unheard(redirect_uri: &str) {
    let address = redirect_uri.strip_prefix("http://").unwrap().split('/').next().unwrap();
    while TcpStream::connect(address).is_ok() {
        yield_now().await;
    }
}

#[tokio::test]
async fn a_redirect_is_listened_for_until_the_sign_in_ends_and_again_at_the_next_one() {
    for redirect_uri in ["", "http://127.0.0.1:PORT/back"] {
        let servers = Servers::start();
        let (sender, mut opened) = unbounded_channel();
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let options = OAuthOptions::new("test", redirect_uri.replace("PORT", &free.to_string()));
        let oauth = OAuth::new(options, move |_, url| {
            sender.send((url.redirect_uri().to_owned(), url.as_str().to_owned())).map_err(io::Error::other)
        });
        let mut events = oauth.events();
        let host = Host::new(Options::new("test", "1.0")).oauth(oauth);
        let session = Session::start(Remote::new(&servers.url()).unwrap(), host).unwrap();
        for input in [OAuthInput::Cancel, OAuthInput::Authorize] {
            // One sign-in that comes to its end, and one that does not.
            let (redirect_uri, url) = timeout(PATIENCE, opened.recv()).await.unwrap().unwrap();
            let redirect = servers.browse(&url);
            let is_answered = matches!(input, OAuthInput::Authorize);
            if is_answered {
                let page = tokio::task::spawn_blocking(move || visit(&redirect));
                assert!(page.await.unwrap().starts_with("HTTP/1.1 200"));
            } else {
                session.handle_oauth(input);
            }
            let (_, event) = timeout(PATIENCE, events.next()).await.unwrap().unwrap();
            assert_eq!(matches!(event, OAuthEvent::Authorized(_)), is_answered, "{event:?}");
            timeout(PATIENCE, unheard(&redirect_uri)).await.unwrap();
            if !is_answered {
                session.handle_oauth(OAuthInput::Authorize);
            }
        }
        timeout(PATIENCE, session.ready()).await.unwrap().unwrap();
        servers.check();
    }
}

#[tokio::test]
async fn a_redirect_port_that_is_taken_is_a_failure_that_says_so() {
    let servers = Servers::start();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let redirect_uri = format!("http://{}/callback", taken.local_addr().unwrap());
    let own = servers.clone();
    let oauth = OAuth::new(OAuthOptions::new("test", redirect_uri.as_str()), move |_, url| {
        assert!(visit(&own.browse(url.as_str())).starts_with("HTTP/1.1 200"));
        Ok(())
    });
    let mut events = oauth.events();
    let host = Host::new(Options::new("test", "1.0")).oauth(oauth);
    let session = Session::start(Remote::new(&servers.url()).unwrap(), host).unwrap();
    let error = timeout(PATIENCE, session.ready()).await.unwrap().unwrap_err();
    assert_eq!(error.failure.kind, FailureKind::Unauthorized);
    let why = format!("no redirect can be received at {redirect_uri}: ");
    assert!(error.failure.message.contains(&why), "{error}");
    let (_, event) = events.next().await.unwrap();
    assert!(matches!(&event, OAuthEvent::Failed(error) if error.reason.contains(&why)), "{event:?}");
    // The browser was not opened: nobody would be there.
    assert_eq!(servers.received(&Endpoint::Authorization), 0);
    drop(taken);
    session.handle_oauth(OAuthInput::Authorize);
    timeout(PATIENCE, session.ready()).await.unwrap().unwrap();
    servers.check();
}

#[tokio::test]
async fn a_session_that_closes_awaits_the_refresh_in_flight_and_stores_its_token() {
    let (servers, file) = (Servers::start(), file("refresh"));
    let session = servers.connect(servers.oauth().store(FileStore::new(&file).unwrap())).await;
    let (came, mut coming) = unbounded_channel();
    let (go_on, goes_on) = mpsc::channel();
    *servers.gate.lock().unwrap() = Some((came, goes_on));
    servers.authorization.lock().unwrap().expire_tokens();
    let call = session.start_tool("echo", &json!({})).unwrap();
    timeout(PATIENCE, coming.recv()).await.unwrap().unwrap();
    let mut closing = pin!(session.close());
    tokio::select! {
        biased;
        () = &mut closing => panic!("it is closed, and the rotated refresh token is lost"),
        outcome = call => assert!(outcome.is_err()),
    }
    assert!(std::fs::read_to_string(&file).unwrap().contains("rt1-hush"));
    go_on.send(()).unwrap();
    timeout(PATIENCE, closing).await.unwrap();
    assert!(std::fs::read_to_string(&file).unwrap().contains("rt2-hush"));
    assert_eq!(servers.received(&Endpoint::Refresh), 1);
    servers.check();
}

/// Its time continues, and a stored token lives as long as before.
#[cfg(feature = "snapshot")]
#[tokio::test]
async fn a_session_that_is_restored_late_knows_what_time_it_is() {
    use mcp_proto::{Client, Http, Secrets};

    let (servers, file) = (Servers::start(), file("restored"));
    let store = FileStore::new(&file).unwrap();
    servers.connect(servers.oauth().store(store.clone())).await.close().await;
    let mut saved = Client::new(Http::new(&servers.url()).unwrap(), Options::new("test", "1.0"), 0);
    saved.handle_timeout(Time::from_epoch(Duration::from_secs(30 * 86_400)));
    let nobody = OAuth::new(OAuthOptions::new("test", ""), |_, url| panic!("{url:?}")).store(store);
    let host = Host::new(Options::new("test", "1.0")).oauth(nobody);
    let snapshot = saved.snapshot(Secrets::Included);
    let session = Session::restore(Remote::new(&servers.url()).unwrap(), host, &snapshot).unwrap();
    timeout(PATIENCE, session.ready()).await.unwrap().unwrap();
    assert_eq!((servers.received(&Endpoint::Token), servers.received(&Endpoint::Refresh)), (1, 0));
    session.close().await;
    servers.check();
}

#[tokio::test]
async fn a_hub_signs_in_at_the_servers_whose_entries_say_so() {
    let (servers, file) = (Servers::start(), file("hub"));
    let entry = json!({"url": servers.url(), "auth": "oauth"});
    let Document(configuration) = serde_json::from_value(json!({"mcpServers": {"docs": entry}})).unwrap();
    let oauth = servers.oauth().store(FileStore::new(&file).unwrap());
    let mut events = oauth.events();
    let hub = Hub::start(configuration, Host::new(HubOptions::new(Options::new("test", "1.0"))).oauth(oauth)).unwrap();
    let mut changes = hub.events();
    let (server, event) = timeout(PATIENCE, events.next()).await.unwrap().unwrap();
    assert!(&*server == "docs" && matches!(event, OAuthEvent::Authorized(_)), "{server} {event:?}");
    // The user does not hold up the others.
    while !hub.inspect(|hub| hub.functions().any(|(_, function)| &*function.name == "mcp_docs_echo")) {
        timeout(PATIENCE, changes.next()).await.unwrap();
    }
    timeout(PATIENCE, hub.call("mcp_docs_echo", &json!({}))).await.unwrap().unwrap();
    assert!(!hub.handle_oauth("none", OAuthInput::Cancel));
    hub.close().await;
    assert!(std::fs::read_to_string(&file).unwrap().contains(&servers.url()));
    servers.check();
}

#[tokio::test]
async fn two_entries_with_one_url_are_two_accounts_and_a_session_names_its_own() {
    let (servers, file) = (Servers::start(), file("accounts"));
    let store = FileStore::new(&file).unwrap();
    // Of a session without an account: no entry uses it.
    servers.connect(servers.oauth().store(store.clone())).await.close().await;
    assert_eq!(servers.received(&Endpoint::Token), 1);
    let run = async |oauth: OAuth| {
        let entry = json!({"url": servers.url(), "auth": "oauth"});
        let entries = json!({"mcpServers": {"work": entry, "home": entry}});
        let Document(configuration) = serde_json::from_value(entries).unwrap();
        let host = Host::new(HubOptions::new(Options::new("test", "1.0"))).oauth(oauth.store(store.clone()));
        let hub = Hub::start(configuration, host).unwrap();
        let mut changes = hub.events();
        while hub.inspect(|hub| hub.functions().count()) < 2 {
            timeout(PATIENCE, changes.next()).await.unwrap();
        }
        hub.close().await;
    };
    run(servers.oauth()).await;
    assert_eq!(servers.received(&Endpoint::Token), 3, "each signs in");
    let records: serde_json::Map<String, Value> = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let url = servers.url();
    assert_eq!(records.keys().collect::<Vec<_>>(), [&*url, &format!("{url} home"), &format!("{url} work")]);
    let tokens: std::collections::BTreeSet<_> = records.values().map(|it| it["refresh_token"].to_string()).collect();
    assert_eq!(tokens.len(), 3, "{tokens:?}");
    // The stored records are used: nobody is asked.
    let nobody = || OAuth::new(OAuthOptions::new("test", ""), |_, url| panic!("{url:?}"));
    run(nobody()).await;
    for oauth in [nobody(), nobody().account("work")] {
        servers.connect(oauth.store(store.clone())).await.close().await;
    }
    // Another account is another sign-in; giving it up leaves the others as they are.
    let session = servers.connect(servers.oauth().account("third").store(store.clone())).await;
    assert_eq!(servers.received(&Endpoint::Token), 4);
    session.handle_oauth(OAuthInput::SignOut);
    session.close().await;
    let left: serde_json::Map<String, Value> = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(left, records);
    servers.check();
}

#[test]
fn a_client_that_cannot_start_is_an_error() {
    let options = || Options::new("test", "1.0");
    assert!(matches!(Session::start(Program::new("none"), options()), Err(StartError::NoRuntime)));
    let Document(none) = serde_json::from_value(json!({"mcpServers": {}})).unwrap();
    assert!(matches!(Hub::start(none, HubOptions::new(options())), Err(StartError::NoRuntime)));
    let host = Host::new(options()).oauth(OAuth::new(OAuthOptions::new("test", ""), |_, _| Ok(())));
    let remote = Remote::new("http://example.com/mcp").unwrap();
    assert!(matches!(Session::start(remote, host), Err(StartError::OAuth(_))));
}
