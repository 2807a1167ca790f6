//! Secrets that an embedder names appear in no byte of a journal, wherever chunks are cut, and the journal replays.

use http::{HeaderMap, HeaderValue, StatusCode};
use mcp_proto::binding::http::{ExchangeId, HttpAction};
use mcp_proto::host::config::Configuration;
use mcp_proto::host::hub::{Hub, HubAccepted, HubAction, HubCommand, HubEvent, HubOptions};
use mcp_proto::journal::{
    self, End, HubInput, Input, JournalError, JournalLimits, Played, Recorder, Replay, SecretError, TransportEvent,
    replay,
};
use mcp_proto::testkit::{self, FakeServer, FakeTool, Link, On, Reply, Sim};
use mcp_proto::{Action, Client, Command, ConnectionId, Event, Http, Lines, Options, Outcome, RawValue, Request, Time};
use serde_json::{Value, json};

use crate::common::{millis, seconds};

/// Each has characters that another encoding changes.
const SECRETS: [&str; 5] =
    ["s3c\"r\\öße/1", "plain-token-0123456789", "8812345678", "line\none\ttwo", "sm\u{1f600}le-0123456789"];

const LIMITS: fn() -> JournalLimits = JournalLimits::default;

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

/// The text as other libraries encode it in a JSON string: with an escape sequence for each character that may have
/// one.
fn escaped(text: &str) -> String {
    text.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect()
}

/// A secret in all encodings, as a JSON document.
fn spellings(secret: &str) -> String {
    let mut parts = Vec::new();
    let mut nested = secret.to_owned();
    for _ in 0..3 {
        nested = quoted(&nested);
        parts.push(nested.clone());
    }
    parts.push(format!("\"{}\"", escaped(secret)));
    parts.push(quoted(&hex(secret)));
    // Outside a string.
    if secret.bytes().all(|byte| byte.is_ascii_digit()) {
        parts.push(secret.to_owned());
    }
    format!("[{}]", parts.join(", "))
}

/// Fails if an encoding of a secret is in the text.
fn assert_hidden(secret: &str, text: &str, what: &str) {
    let mut forms = vec![secret.to_owned(), escaped(secret), quoted(&escaped(secret)), hex(secret)];
    let mut nested = secret.to_owned();
    for _ in 0..5 {
        let whole = quoted(&nested);
        nested = whole[1..whole.len() - 1].to_owned();
        forms.push(nested.clone());
    }
    for form in forms {
        assert!(!text.contains(&form), "{what}: {form}");
    }
}

/// A message of the server: all secrets in all encodings, as a result, or as an error and in a line that is not a
/// message.
fn response(id: u64, secret: &str, result: bool) -> Vec<u8> {
    let spellings = spellings(secret);
    if result {
        let result =
            format!(r#"{{"content":[{{"type":"text","text":{}}}],"_meta":{{"a/b":{spellings}}}}}"#, quoted(secret));
        return format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}").into_bytes();
    }
    let message = format!("denied: \\u0022{}\\u0022", escaped(secret));
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-5,"message":"{message}","data":{spellings}}}}}"#)
        .into_bytes()
}

fn handshake(message: &Value) -> Option<Vec<u8>> {
    let id = message.get("id")?;
    let result = match message["method"].as_str()? {
        "initialize" => {
            json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}})
        }
        "tools/list" => json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
        _ => {
            return Some(
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}}).to_string().into(),
            );
        }
    };
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string().into())
}

fn call(secret: &str) -> Request {
    let arguments = format!(r#"{{"key":{}}}"#, quoted(secret));
    Request::call_tool("echo", Some(&RawValue::from_string(arguments).unwrap()))
}

/// Each secret in a result, one in an error.
const RESPONSES: [(&str, bool); 6] = [
    (SECRETS[0], true),
    (SECRETS[1], true),
    (SECRETS[2], true),
    (SECRETS[3], true),
    (SECRETS[4], true),
    (SECRETS[0], false),
];

/// A session over stdio with one call, whose response is cut at a byte.
fn over_lines(secret: &str, result: bool, cut: usize) -> (String, Outcome) {
    let mut client = Recorder::new(Lines::new(), Options::new("host", "1"), 7, LIMITS());
    client.hide(secret).unwrap();
    let (now, mut connection, mut last) = (Time::ZERO, ConnectionId::default(), None);
    client.apply(now, Command::Open).unwrap();
    while let Some(action) = client.poll() {
        match action {
            Action::Open(new) => {
                connection = new;
                client.handle_input(now, Input::Transport { connection, event: TransportEvent::Opened }).unwrap();
            }
            Action::Send(message) => {
                let message: Value = serde_json::from_slice(message.bytes()).unwrap();
                let mut give = |bytes: &[u8]| {
                    client.handle_input(now, Input::Bytes { connection, bytes: bytes.into() }).unwrap();
                };
                if message["method"] == "tools/call" {
                    // The first line is not a message, and not UTF-8.
                    let mut text = [secret.replace('\n', " ").as_bytes(), &[0xff, b'\n']].concat();
                    text.extend(response(message["id"].as_u64().unwrap(), secret, result));
                    text.push(b'\n');
                    let (one, other) = text.split_at(cut.min(text.len()));
                    give(one);
                    give(other);
                } else if let Some(text) = handshake(&message) {
                    give(&text);
                    give(b"\n");
                }
            }
            Action::Event(Event::Ready) => {
                client.apply(now, Command::Request(call(secret))).unwrap();
            }
            other => last = finished(&other).or(last.take()),
        }
    }
    (client.finish().1, last.expect("the call finished"))
}

fn finished(action: &Action) -> Option<Outcome> {
    let Action::Event(Event::Finished { outcome, .. }) = action else { return None };
    Some(outcome.clone())
}

/// A session over HTTP with one call, whose response is cut at a byte.
fn over_http(secret: &str, result: bool, cut: usize) -> String {
    let mut client = Recorder::new(Http::new("http://localhost/").unwrap(), Options::new("host", "1"), 7, LIMITS());
    client.hide(secret).unwrap();
    let (now, mut calls) = (Time::ZERO, 0);
    client.apply(now, Command::Open).unwrap();
    while let Some(action) = client.poll() {
        if let HttpAction::Event(Event::Ready) = action {
            client.apply(now, Command::Request(call(secret))).unwrap();
        }
        calls += usize::from(matches!(action, HttpAction::Event(Event::Finished { .. })));
        let HttpAction::Request(it) = action else { continue };
        let exchange = it.exchange;
        let mut head = |status: u16| {
            let mut headers = HeaderMap::new();
            headers.insert("content-type", HeaderValue::from_static("application/json"));
            let status = StatusCode::from_u16(status).unwrap();
            client.handle_input(now, Input::Head { exchange, status, headers }).unwrap();
        };
        let message: Value = serde_json::from_slice(it.request.body()).unwrap_or_default();
        let (one, other) = if message["method"] == "tools/call" {
            let text = response(message["id"].as_u64().unwrap(), secret, result);
            let (one, other) = text.split_at(cut.min(text.len()));
            (one.to_vec(), other.to_vec())
        } else if let Some(text) = handshake(&message) {
            (text, Vec::new())
        } else {
            head(if it.request.method() == "POST" { 202 } else { 405 });
            client.handle_input(now, Input::End { exchange }).unwrap();
            continue;
        };
        head(200);
        client.handle_input(now, Input::Body { exchange, bytes: one.into() }).unwrap();
        client.handle_input(now, Input::Body { exchange, bytes: other.into() }).unwrap();
        client.handle_input(now, Input::End { exchange }).unwrap();
    }
    assert_eq!(calls, 1);
    client.finish().1
}

/// All chunks of a journal, as one text.
fn chunks(journal: &str) -> String {
    let Ok(Replay::Lines(mut player)) = Replay::new(journal.as_bytes(), LIMITS()) else { panic!("lines") };
    let mut text = Vec::new();
    while let Some(played) = player.next() {
        if let Played::Input(Input::Bytes { bytes, .. }) = played.unwrap() {
            text.extend(bytes);
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn secrets_are_in_no_byte_of_a_journal_over_stdio_wherever_chunks_are_cut() {
    for (secret, result) in RESPONSES {
        let length = response(0, secret, result).len() + 40;
        for cut in 0..length {
            let what = format!("{secret:?}, cut at {cut}");
            let (journal, outcome) = over_lines(secret, result, cut);
            let expected = RawValue::from_string(spellings(secret)).unwrap();
            let real = match &outcome {
                Outcome::Result(it) => it.get().contains(expected.get()),
                other => format!("{other:?}").contains("denied"),
            };
            assert!(real, "{what}: the client does not have the response as it was: {outcome:?}");
            assert_hidden(secret, &journal, &what);
            let replayed = replay(journal.as_bytes(), LIMITS()).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(replayed.end, Some(End::Finished));
            assert_hidden(secret, &chunks(&journal), &what);
        }
    }
}

#[test]
fn secrets_are_in_no_byte_of_a_journal_over_http_wherever_bodies_are_cut() {
    for (secret, result) in [RESPONSES[0], RESPONSES[4]] {
        for cut in 0..=response(0, secret, result).len() {
            let what = format!("{secret:?}, cut at {cut}");
            let journal = over_http(secret, result, cut);
            assert_hidden(secret, &journal, &what);
            replay(journal.as_bytes(), LIMITS()).unwrap_or_else(|error| panic!("{what}: {error}"));
        }
    }
}

/// Of a long message, an event has the beginning, which may end within a secret.
#[test]
fn a_secret_that_an_ellipsis_cuts_is_hidden() {
    for (secret, before_it) in [
        ("plain-token-0123456789", " "),
        ("plain-token-0123456789", "/"),
        ("p@ssw0rd!2024", "="),
        ("€uro-secret–key", " "),
    ] {
        for filled in 150..210 {
            let text = format!("{}{before_it}{secret} and more", "x".repeat(filled));
            let server =
                FakeServer::legacy().tool(FakeTool::new("a")).script(On::tool("a"), [Reply::status(400, &text)]);
            let mut sim = Sim::new(7).with_server("s", server, Link::default());
            let binding = Http::new("http://localhost/").unwrap();
            let mut client = Recorder::new(binding, Options::new("host", "1"), 7, LIMITS());
            client.hide(secret).unwrap();
            let node = sim.add("s", testkit::Collector::new(client));
            sim.tell(node, |now, client| client.apply(now, Command::Open)).unwrap().unwrap();
            sim.run_for(seconds(5)).unwrap();
            let call = Command::Request(Request::call_tool("a", None));
            sim.tell(node, |now, client| client.apply(now, call)).unwrap().unwrap();
            sim.run_for(seconds(5)).unwrap();
            let journal = sim.tell(node, |_, client| {
                client.end();
                client.take()
            });
            let journal = journal.unwrap();
            for (end, _) in secret.char_indices().skip(1) {
                let cut = format!("x{before_it}{}…", &secret[..end]);
                assert!(!journal.contains(&cut), "{cut} is in {journal}");
            }
            // A mask has as many bytes as its secret, but a message is cut after so many characters.
            if secret.is_ascii() {
                replay(journal.as_bytes(), LIMITS()).unwrap_or_else(|error| panic!("{secret}, {filled}: {error}"));
            }
        }
    }
}

#[test]
fn secrets_are_in_no_byte_of_a_journal_of_a_hub() {
    let secret = "plain-token-0123456789";
    let text = json!({"content": [{"type": "text", "text": format!("{} {secret}", hex(secret))}]});
    for piece in 1..40 {
        let server = |server: FakeServer| server.tool(FakeTool::new("echo")).result("tools/call", text.clone());
        let link = Link::new(millis(20)).jitter(millis(9)).piece(piece);
        let mut sim = Sim::new(3).with_server("files", server(FakeServer::legacy()), link).with_server(
            "web",
            server(FakeServer::modern()),
            link,
        );
        let options = HubOptions::new(Options::new("host", "1"));
        let mut hub = journal::Recorder::of_hub(options, 5, LIMITS());
        hub.hide(secret).unwrap();
        let node = sim.add_hub(testkit::Collector::new(hub));
        let configuration: Configuration = serde_json::from_value(json!({
            "files": {"command": "files-mcp", "args": ["--token", secret]},
            "web": {"url": "https://example.com/mcp"},
        }))
        .unwrap();
        let apply = |sim: &mut Sim<_>, command| {
            sim.tell(node, |now, hub: &mut testkit::Collector<journal::Recorder<Hub>>| hub.apply(now, command))
                .unwrap()
                .unwrap()
        };
        apply(&mut sim, HubCommand::Configure(configuration));
        apply(&mut sim, HubCommand::Open);
        sim.run_for(seconds(9)).unwrap();
        for name in ["mcp_files_echo", "mcp_web_echo"] {
            let arguments = Some(RawValue::from_string(format!("{{\"key\":\"{secret}\"}}")).unwrap());
            let call = HubCommand::Call { name: name.into(), arguments, timeout: None, progress: false, trace: None };
            assert!(matches!(apply(&mut sim, call), HubAccepted::Call(_)));
        }
        sim.run_for(seconds(9)).unwrap();
        let finished = |(_, event): &&(Time, HubEvent)| matches!(event, HubEvent::Finished { outcome: Outcome::Result(it), .. } if it.get().contains(secret));
        assert_eq!(sim.get(node).unwrap().events.iter().filter(finished).count(), 2, "{piece}");
        let journal = sim.tell(node, |_, hub| {
            hub.end();
            hub.take()
        });
        let journal = journal.unwrap();
        assert_hidden(secret, &journal, &format!("pieces of {piece}"));
        assert!(journal.contains("secret10xx") && journal.contains("files-mcp"));
        replay(journal.as_bytes(), LIMITS()).unwrap_or_else(|error| panic!("pieces of {piece}: {error}"));
    }
}

fn opened(secret: &str, limits: JournalLimits) -> (Recorder<Client<Lines>>, ConnectionId) {
    let mut client = Recorder::new(Lines::new(), Options::new("host", "1"), 7, limits);
    client.hide(secret).unwrap();
    client.apply(Time::ZERO, Command::Open).unwrap();
    let Some(Action::Open(connection)) = client.poll() else { panic!("a transport to open") };
    client.handle_input(Time::ZERO, Input::Transport { connection, event: TransportEvent::Opened }).unwrap();
    (client, connection)
}

fn bytes(connection: ConnectionId, text: &str) -> Input {
    Input::Bytes { connection, bytes: text.as_bytes().into() }
}

#[test]
fn lines_are_delayed_while_a_secret_may_continue() {
    let (mut client, connection) = opened("abcdefgh", LIMITS());
    let mut journal = client.take();
    client.handle_input(Time::ZERO, bytes(connection, "no message: abcd")).unwrap();
    client.handle_input(Time::ZERO, Input::Timeout).unwrap();
    assert_eq!(client.take(), "");
    client.handle_input(Time::ZERO, bytes(connection, "efgh ab-abcd")).unwrap();
    let taken = client.take();
    assert_eq!(taken, "");
    client.handle_input(Time::ZERO, bytes(connection, "-\n")).unwrap();
    let taken = client.take();
    assert!(
        taken.contains("no message: secr") && taken.contains("timeout") && taken.contains("et10 ab-abcd"),
        "{taken}"
    );
    journal += &taken;
    let event = TransportEvent::Closed { why: "exit status: 0".into() };
    client.handle_input(Time::ZERO, bytes(connection, "abc")).unwrap();
    client.handle_input(Time::ZERO, Input::Transport { connection, event }).unwrap();
    journal += &client.take();
    assert!(journal.contains("exit status"), "the end of a stream ends the wait");
    journal += &client.finish().1;
    replay(journal.as_bytes(), LIMITS()).unwrap();
    let (mut client, connection) = opened("abcdefgh", LIMITS());
    client.handle_input(Time::ZERO, bytes(connection, "abcd")).unwrap();
    assert_eq!(chunks(&client.finish().1), "abcd", "the end of the journal ends the wait");
}

#[test]
fn no_action_ends_the_wait_of_a_stream() {
    for connection in (0..3).map(ConnectionId::from_u64) {
        let (mut client, _) = opened("abcdefgh", LIMITS());
        client.handle_input(Time::ZERO, bytes(connection, "abcd")).unwrap();
        assert!(client.poll().is_some());
        client.handle_input(Time::ZERO, bytes(connection, "efgh")).unwrap();
        assert_eq!(chunks(&client.finish().1), "secret10", "{connection:?}");
    }
}

#[test]
fn without_a_secret_no_line_is_delayed() {
    let mut client = Recorder::new(Lines::new(), Options::new("host", "1"), 7, LIMITS());
    client.apply(Time::ZERO, Command::Open).unwrap();
    client.take();
    client.handle_input(Time::ZERO, bytes(ConnectionId::default(), "an escape sequence: \\")).unwrap();
    assert!(client.take().contains("an escape sequence"));
}

/// What becomes of a text that comes as one chunk. A byte after it is no UTF-8, so that the line does not have the chunk as
/// a text, in which the secret would be found again.
fn masked(secrets: &[&str], text: &str) -> String {
    let (mut client, connection) = opened(secrets[0], LIMITS());
    secrets[1..].iter().for_each(|secret| client.hide(secret).unwrap());
    let bytes = [text.as_bytes(), &[0xff]].concat().into();
    client.handle_input(Time::ZERO, Input::Bytes { connection, bytes }).unwrap();
    while client.poll().is_some() {}
    let journal = client.finish().1;
    replay(journal.as_bytes(), LIMITS()).unwrap_or_else(|error| panic!("{text}: {error}"));
    chunks(&journal).strip_suffix('\u{fffd}').unwrap().into()
}

#[test]
fn each_secret_has_its_own_mask() {
    for (secrets, text, expected) in [
        // Next to each other.
        (&["abcdefgh", "ijklmnop"][..], "abcdefghabcdefgh\n", "secret10secret10\n"),
        (&["abcdefgh", "ijklmnop"], "abcdefghijklmnopabcdefgh\n", "secret10secret11secret10\n"),
        // Within each other: the one that begins first has its mask for all, the longest of these.
        (&["abcdefgh", "abcdefghxyz"], "abcdefgh abcdefghxyz\n", "secret10 secret11xxx\n"),
        (&["abcdefghxyz", "cdefghxy"], " abcdefghxyz cdefghxy\n", " secret10xxx secret11\n"),
        (&["abcdefgh", "efghijkl"], " abcdefghijkl\n", " secret10\n"),
        (&["abcabcabc"], " abcabcabcabc\n", " secret10x\n"),
        // A beginning that is also the end of a longer one.
        (&["abcabcd-efgh"], "abcabcabcd-efgh\n", "abcsecret10xxxx\n"),
        // At the beginning of a stream.
        (&["abcdefgh"], "\\u0061bcdefgh\n", "secret10\n"),
        (&["abcdefgh"], "%61bcdefgh\n", "secret10\n"),
        (&[" p@ss word"], "+p@ss+word\n", "secret10xx\n"),
        (&["p@ss word one"], "p@ss+word+one\n", "secret10xxxxx\n"),
        // At least eight bytes before an ellipsis.
        (&["plain-token-0123456789"], "plain-t… plain-to… plain-token€\n", "plain-t… secret10… plain-token€\n"),
    ] {
        assert_eq!(masked(secrets, text), expected, "{secrets:?} in {text}");
    }
}

#[test]
fn a_client_s_secret_of_up_to_4_kib_is_hidden_as_http_basic_has_it() {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    let secret = format!("{}?", "abcdefgh".repeat(512).split_at(4_095).0);
    let credentials = STANDARD.encode(secret.replace('?', "%3F"));
    assert!(!masked(&[&secret], &format!("Basic {credentials}\n")).contains(&credentials[5_400..]));
}

#[test]
fn secrets_that_overlap_are_hidden_together_wherever_chunks_are_cut() {
    let secrets = ["abcdefgh", "efghabcd", "abcdefghxyz"];
    let text = "abcdefghabcdefgh abcdefghxyz xabcdefghxabcdefg ghabcdefghxy efghabcd\n";
    for cut in 0..text.len() {
        for more in [0, 1, 2, 9] {
            let (mut client, connection) = opened(secrets[0], LIMITS());
            client.hide(secrets[1]).unwrap();
            client.hide(secrets[2]).unwrap();
            let (one, rest) = text.split_at(cut);
            let (two, three) = rest.split_at(more.min(rest.len()));
            for part in [one, two, three] {
                client.handle_input(Time::ZERO, bytes(connection, part)).unwrap();
                while client.poll().is_some() {}
            }
            let journal = client.finish().1;
            for secret in secrets {
                assert_hidden(secret, &journal, text);
                assert_hidden(secret, &chunks(&journal), text);
            }
            replay(journal.as_bytes(), LIMITS()).unwrap_or_else(|error| panic!("{cut}, {more}: {error}"));
        }
    }
}

#[test]
fn delayed_lines_count_towards_the_limits() {
    let mut limits = LIMITS();
    limits.entries = 50;
    let recorded = |limits| {
        let (mut client, connection) = opened("abcdefgh", limits);
        client.handle_input(Time::ZERO, bytes(connection, "a")).unwrap();
        for _ in 0..100 {
            client.handle_input(Time::ZERO, Input::Timeout).unwrap();
        }
        client.end();
        (client.dropped(), client.take())
    };
    let (dropped, journal) = recorded(limits);
    assert!(dropped > 90, "{dropped}");
    assert_eq!(dropped + journal.lines().count() as u64, recorded(LIMITS()).1.lines().count() as u64);
    assert_eq!(replay(journal.as_bytes(), limits).unwrap().end, Some(End::Limit));
}

#[test]
fn a_dropped_exchange_ends_the_wait_for_its_next_chunk() {
    let mut client = Recorder::new(Http::new("http://localhost/").unwrap(), Options::new("host", "1"), 7, LIMITS());
    client.hide("{\"jsonrpc").unwrap();
    client.apply(Time::ZERO, Command::Open).unwrap();
    let mut exchange = ExchangeId::from_u64(0);
    while let Some(action) = client.poll() {
        let HttpAction::Request(it) = action else { continue };
        exchange = it.exchange;
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        client.handle_input(Time::ZERO, Input::Head { exchange, status: StatusCode::OK, headers }).unwrap();
        client.handle_input(Time::ZERO, Input::Body { exchange, bytes: b"{".as_slice().into() }).unwrap();
    }
    client.take();
    client.apply(Time::ZERO, Command::Close).unwrap();
    let mut dropped = false;
    while let Some(action) = client.poll() {
        dropped |= matches!(action, HttpAction::Drop(it) if it == exchange);
    }
    assert!(dropped);
    assert!(client.take().contains("\"drop\""));
}

#[test]
fn a_dropped_exchange_of_a_hub_ends_the_wait_for_its_next_chunk() {
    let mut hub = Recorder::of_hub(HubOptions::new(Options::new("host", "1")), 7, LIMITS());
    hub.hide("{\"jsonrpc").unwrap();
    let web = json!({"web": {"url": "https://example.com/mcp"}});
    hub.apply(Time::ZERO, HubCommand::Configure(serde_json::from_value(web).unwrap())).unwrap();
    hub.apply(Time::ZERO, HubCommand::Open).unwrap();
    let mut asked = None;
    while let Some(action) = hub.poll() {
        let HubAction::Request { session, request } = action else { continue };
        let exchange = request.exchange;
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        for input in [
            Input::Head { exchange, status: StatusCode::OK, headers },
            Input::Body { exchange, bytes: b"{".as_slice().into() },
        ] {
            hub.handle_input(Time::ZERO, HubInput::Session { session, input }).unwrap();
        }
        asked = Some((session, exchange));
    }
    hub.take();
    hub.apply(Time::ZERO, HubCommand::Close).unwrap();
    let mut dropped = None;
    while let Some(action) = hub.poll() {
        if let HubAction::Drop { session, exchange } = action {
            dropped = Some((session, exchange));
        }
    }
    assert!(dropped.is_some() && dropped == asked);
    assert!(hub.take().contains("\"drop\""));
}

#[test]
fn a_text_that_is_too_short_or_too_long_is_refused_as_a_secret() {
    let mut client = Recorder::new(Lines::new(), Options::new("host", "1"), 7, LIMITS());
    assert_eq!(client.hide("1234567"), Err(SecretError::TooShort { length: 7 }));
    assert_eq!(client.hide(""), Err(SecretError::TooShort { length: 0 }));
    let long = "a".repeat((16 << 10) + 1);
    assert_eq!(client.hide(&long), Err(SecretError::TooLong { length: long.len() }));
    client.hide(&long[1..]).unwrap();
    for number in 1..90 {
        client.hide(&format!("secret-number-{number}")).unwrap();
    }
    assert_eq!(client.hide("one-too-many"), Err(SecretError::TooMany));
    client.hide("secret-number-7").unwrap();
    assert!(!format!("{client:?}").contains("secret-number"));
}

#[test]
fn a_secret_in_the_options_is_not_in_the_first_line() {
    let mut client = Recorder::new(Lines::new(), Options::new("host-abcdefgh", "1"), 7, LIMITS());
    client.hide("abcdefgh").unwrap();
    let journal = client.finish().1;
    assert!(journal.contains("host-secret10") && !journal.contains("abcdefgh"), "{journal}");
    assert!(!matches!(replay(journal.as_bytes(), LIMITS()), Err(JournalError::Changed { .. })));
}

/// What a server may make of a secret, with another text before and after it.
fn encodings(secret: &str) -> Vec<String> {
    use base64::Engine;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};

    let bytes = secret.as_bytes();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let percent = |plain: fn(u8) -> bool| -> String {
        let one = |byte: &u8| if plain(*byte) { char::from(*byte).into() } else { format!("%{byte:02X}") };
        bytes.iter().map(one).collect()
    };
    let unreserved = percent(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte));
    let component = percent(|byte| byte.is_ascii_alphanumeric() || b"-._~!'()*".contains(&byte));
    let form = percent(|byte| byte == b' ' || byte.is_ascii_alphanumeric() || b"-._*".contains(&byte));
    let mut encodings = vec![hex.to_uppercase(), hex, component, form.replace(' ', "+")];
    let lower = |(at, text): (usize, &str)| match text.split_at_checked(2) {
        Some((digits, rest)) if at > 0 => digits.to_lowercase() + rest,
        _ => text.into(),
    };
    encodings.push(unreserved.split('%').enumerate().map(lower).collect::<Vec<_>>().join("%"));
    encodings.push(unreserved);
    for (before, after) in [("", ""), ("a", ""), ("user:", ""), ("", ":x"), ("a", "xyz"), ("ab", "\u{ff}\u{ff}")] {
        let text = [before.as_bytes(), bytes, after.as_bytes()].concat();
        encodings.extend([STANDARD.encode(&text), URL_SAFE.encode(&text), URL_SAFE_NO_PAD.encode(&text)]);
    }
    encodings
}

/// Decodes all that is base64 in a text, from any character on, and gives the bytes.
fn decoded(text: &str) -> Vec<Vec<u8>> {
    use base64::Engine;
    use base64::alphabet::{STANDARD, URL_SAFE};
    use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

    let config = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    let mut all = Vec::new();
    for alphabet in [STANDARD, URL_SAFE] {
        let engine = GeneralPurpose::new(&alphabet, config);
        for word in text.split(|character: char| !alphabet.as_str().contains(character)) {
            for skip in 0..4.min(word.len()) {
                let word = &word[skip..];
                let length = if word.len() % 4 == 1 { word.len() - 1 } else { word.len() };
                all.push(engine.decode(&word[..length]).unwrap());
            }
        }
    }
    all
}

#[test]
fn a_secret_in_another_encoding_is_hidden() {
    for secret in ["sk-0123456789abcdef", "p\u{e4}ss w/rd+?=&~!(x)*", "12345678", "\u{fb}\u{fb}>>>???~~~\u{ff}"] {
        for text in encodings(secret) {
            // Digits alone would be JSON.
            let text = format!("text {text}");
            for cut in [0, 1, text.len() / 2, text.len().saturating_sub(1)] {
                let cut = (0..=cut).rev().find(|at| text.is_char_boundary(*at)).unwrap();
                let (mut client, connection) = opened(secret, LIMITS());
                for part in [&text[..cut], &text[cut..], "\n"] {
                    client.handle_input(Time::ZERO, bytes(connection, part)).unwrap();
                    while client.poll().is_some() {}
                }
                let journal = client.finish().1;
                let chunks = chunks(&journal);
                assert!(!journal.contains(&text[5..]) && !chunks.contains(&text[5..]), "{text} in {journal}");
                let inner = secret.as_bytes().get(1..secret.len() - 1).unwrap();
                let shown = decoded(&chunks).into_iter().any(|it| it.windows(inner.len()).any(|part| part == inner));
                assert!(!shown, "{secret} as {text} in {chunks}");
                replay(journal.as_bytes(), LIMITS()).unwrap_or_else(|error| panic!("{text}, {cut}: {error}"));
            }
        }
    }
}

#[test]
fn a_percent_encoded_secret_is_hidden_whatever_characters_are_kept() {
    for (secret, shown) in [
        ("p@ss word/one", "p@ss%20word/one"),
        ("p@ss word/one", "p%40ss+word/one"),
        ("1//0gSECRET token", "1//0gSECRET%20token"),
        ("abc+def=ghi/j", "abc%2Bdef=ghi/j"),
        ("abc+def=ghi/j", "abc%2bdef%3Dghi%2fj"),
        ("abc+def=ghi/j", "abc+def%3Dghi/j"),
        ("abc+d%f=ghi/j", "abc+d%f=ghi%2Fj"),
        ("s%41cret/one", "s%41cret/one"),
        ("secret/one-two", "%73%65cret%2Fone-two"),
        ("p\u{e4}ss word", "p%C3%a4ss%20word"),
    ] {
        for (before, after) in [("https://h/?k=", "&x=%"), ("%/", "%4"), ("%2/", "+"), ("+%%/", "")] {
            let text = format!("text {before}{shown}{after} \\u0025 \n");
            for cut in (0..text.len()).filter(|at| text.is_char_boundary(*at)) {
                let (mut client, connection) = opened(secret, LIMITS());
                for part in [&text[..cut], &text[cut..]] {
                    client.handle_input(Time::ZERO, bytes(connection, part)).unwrap();
                    while client.poll().is_some() {}
                }
                let journal = client.finish().1;
                assert!(!journal.contains(shown) && !chunks(&journal).contains(shown), "{shown}, {cut}: {journal}");
                replay(journal.as_bytes(), LIMITS()).unwrap_or_else(|error| panic!("{text}, {cut}: {error}"));
            }
        }
    }
    // What does not decode to it stays.
    let (mut client, connection) = opened("p@ss word/one", LIMITS());
    client.handle_input(Time::ZERO, bytes(connection, "text p%40ss%2520word/one %p@ss%2word/one\n")).unwrap();
    while client.poll().is_some() {}
    assert!(chunks(&client.finish().1).contains("p%40ss%2520word/one %p@ss%2word/one"));
}

#[test]
fn a_secret_with_control_characters_is_hidden_in_each_of_their_escapes() {
    let secret = "one\u{8}\u{c}\r\n\t\"\\/two";
    for shown in [
        r#"one\b\f\r\n\t\"\\\/two"#,
        r#"one\b\f\r\n\t\"\\/two"#,
        r#"one\u0008\u000c\r\u000A\t\u0022\\\u002Ftwo"#,
        r#"\u006fne\b\u000C\u000d\n\u0009\"\u005c/two"#,
    ] {
        let (mut client, connection) = opened(secret, LIMITS());
        client.handle_input(Time::ZERO, bytes(connection, &format!("text {shown}\n"))).unwrap();
        while client.poll().is_some() {}
        let journal = client.finish().1;
        let read = chunks(&journal);
        assert!(read.contains("text ") && !read.contains("two") && !journal.contains("two"), "{shown}: {journal}");
        replay(journal.as_bytes(), LIMITS()).unwrap_or_else(|error| panic!("{shown}: {error}"));
    }
}

/// A client that is told its own credentials: the journal, and the replay of it.
fn with_password(user: &str, text: &str) -> String {
    let url = format!("https://{user}@example.com/mcp");
    let mut client = Recorder::new(Http::new(&url).unwrap(), Options::new("host", "1"), 7, LIMITS());
    client.apply(Time::ZERO, Command::Open).unwrap();
    while let Some(action) = client.poll() {
        let HttpAction::Request(it) = action else { continue };
        let exchange = it.exchange;
        let mut headers = HeaderMap::new();
        headers.insert("x-echo", HeaderValue::from_str(text).unwrap());
        client.handle_input(Time::ZERO, Input::Head { exchange, status: StatusCode::BAD_REQUEST, headers }).unwrap();
        for part in text.as_bytes().chunks(5) {
            client.handle_input(Time::ZERO, Input::Body { exchange, bytes: part.into() }).unwrap();
        }
        client.handle_input(Time::ZERO, Input::End { exchange }).unwrap();
    }
    client.finish().1
}

#[test]
fn the_password_of_a_url_that_a_server_repeats_is_in_no_journal() {
    for (user, secret, encoded) in [
        ("ada:hush-pass", "hush-pass", "aHVzaC1wYXNz"),
        ("ada:hush-pass", "hush-pass", "h1c2gtcGFzcw"),
        ("hush-token", "hush-token", "aHVzaC10b2tlb"),
        ("ada:hush", "ada:hush", "YWRhOmh1c2g"),
        ("ada:h%FFsh", "YWRhOmj/c2g=", "YWRhOmj/c2g="),
    ] {
        let text = format!("{{\"error\":\"no {secret}, {encoded}, and no Basic {encoded}\"}}");
        let journal = with_password(user, &text);
        assert!(journal.contains("secret") && !journal.contains(secret) && !journal.contains(encoded), "{journal}");
        assert!(!journal.contains(user), "{journal}");
        let replayed = replay(journal.as_bytes(), LIMITS()).unwrap();
        assert_eq!(replayed.end, Some(End::Finished));
    }
    // What is too short to be looked for is not in the address either.
    let journal = with_password("a:b", "no redacted, a:b");
    assert!(journal.contains("https://redacted@example.com/mcp") && !journal.contains("a:b@"), "{journal}");
    replay(journal.as_bytes(), LIMITS()).unwrap();
}

#[test]
fn the_password_of_an_entry_of_a_hub_that_its_server_repeats_is_in_no_journal() {
    let mut hub = Recorder::of_hub(HubOptions::new(Options::new("host", "1")), 7, LIMITS());
    let web = json!({"web": {"url": "https://ada:hush-pass@example.com/mcp?key=hush-key"}});
    hub.apply(Time::ZERO, HubCommand::Configure(serde_json::from_value(web).unwrap())).unwrap();
    hub.apply(Time::ZERO, HubCommand::Open).unwrap();
    let mut shown = String::new();
    while let Some(action) = hub.poll() {
        shown.push_str(&format!("{action:?}"));
        let HubAction::Request { session, request } = action else { continue };
        let (exchange, headers) = (request.exchange, HeaderMap::new());
        let bytes = b"no hush-pass, Basic YWRhOmh1c2gtcGFzcw==".as_slice().into();
        for input in [
            Input::Head { exchange, status: StatusCode::BAD_REQUEST, headers },
            Input::Body { exchange, bytes },
            Input::End { exchange },
        ] {
            hub.handle_input(Time::ZERO, HubInput::Session { session, input }).unwrap();
        }
    }
    assert!(shown.contains("[hidden]") && !shown.contains("hush-pass") && !shown.contains("h1c2gtcGFzcw"), "{shown}");
    let (_, journal) = hub.finish();
    assert!(!journal.contains("hush") && !journal.contains("h1c2gtcGFzcw"), "{journal}");
    replay(journal.as_bytes(), LIMITS()).unwrap();
}
