//! Journals: a recording replays to the same bytes, and errors in a journal are reported.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use mcp_proto::binding::http::{Broken, ExchangeId, HttpAction};
use mcp_proto::journal::{
    End, Input, InputError, JournalBinding, JournalError, JournalLimits, Played, Recorder, Replay, TransportEvent,
    replay,
};
use mcp_proto::jsonrpc::ErrorObject;
use mcp_proto::protocol::Root;
use mcp_proto::testkit::{Spelling, strategy};
use mcp_proto::{
    Action, Client, Command, CommandError, ConnectionId, Event, Family, Http, Lines, LogLevel, Messages, OpenFailure,
    Options, Outcome, RawValue, Request, RequestId, ServerRequestId, Time,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

const LIMITS: fn() -> JournalLimits = JournalLimits::default;

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.into()).unwrap()
}

fn options() -> Options {
    Options::new("journal", "1")
}

/// The response of a small legacy server, if any.
fn answer(message: &[u8]) -> Option<String> {
    let message: Value = serde_json::from_slice(message).unwrap();
    let result = match message["method"].as_str()? {
        "initialize" => {
            r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#
        }
        "tools/list" => r#"{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}"#,
        "tools/call" => r#"{"content":[ {"type":"text","text":"größe"} ]}"#,
        _ => {
            let id = message.get("id")?;
            return Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"no"}}}}"#));
        }
    };
    Some(format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, message["id"]))
}

/// Runs a session over stdio with one call, and returns its journal and the outcome of the call.
fn session(limits: JournalLimits) -> (Recorder<Client<Lines>>, Vec<Outcome>) {
    let mut client = Recorder::new(Lines::new(), options(), 7, limits);
    let (mut now, mut outcomes) = (Time::ZERO, Vec::new());
    client.apply(now, Command::Open).unwrap();
    let (mut connection, mut steps) = (ConnectionId::default(), 0);
    while let Some(action) = client.poll() {
        steps += 1;
        assert!(steps < 100, "{action:?}");
        now = now + Duration::from_micros(150);
        match action {
            Action::Open(new) => {
                connection = new;
                client.handle_input(now, Input::Transport { connection, event: TransportEvent::Opened }).unwrap();
            }
            Action::Send(message) => {
                let Some(mut line) = answer(message.bytes()) else { continue };
                line.push('\n');
                // A chunk ends within a character.
                let (one, other) = line.as_bytes().split_at(line.find('ö').map_or(9, |at| at + 1));
                for bytes in [one, other] {
                    client.handle_input(now, Input::Bytes { connection, bytes: bytes.into() }).unwrap();
                }
            }
            Action::Event(Event::Ready) => {
                let call = client.apply(now, Command::Request(Request::call_tool("echo", None)));
                assert!(matches!(call, Ok(Some(_))), "{call:?}");
            }
            Action::Event(Event::Finished { outcome, .. }) => {
                outcomes.push(outcome);
                client.apply(now, Command::Close).unwrap();
            }
            Action::Shutdown(_) => {
                let event = TransportEvent::Closed { why: "exit status: 0".into() };
                client.handle_input(now, Input::Transport { connection, event }).unwrap();
            }
            _ => {}
        }
    }
    (client, outcomes)
}

fn journal() -> String {
    session(LIMITS()).0.finish().1
}

#[test]
fn the_recorder_of_a_client_that_is_not_new_has_an_empty_journal() {
    let mut client = Client::new(Lines::new(), options(), 7);
    client.open(Time::ZERO).unwrap();
    let mut recorder = Recorder::from(client);
    let Some(Action::Open(connection)) = recorder.poll() else { panic!() };
    recorder.close(Time::ZERO).unwrap();
    recorder.end();
    assert_eq!(recorder.take(), "");
    let (client, journal) = recorder.finish();
    assert!(journal.is_empty());
    assert_eq!(client.connection(), connection);
}

#[test]
fn a_session_over_stdio_replays_to_the_same_bytes() {
    let (client, outcomes) = session(LIMITS());
    assert!(matches!(&outcomes[..], [Outcome::Result(_)]), "{outcomes:?}");
    assert!(client.is_closed());
    let (_, journal) = client.finish();
    let replayed = replay(journal.as_bytes(), LIMITS()).unwrap();
    assert_eq!((replayed.lines, replayed.end), (journal.lines().count(), Some(End::Finished)));
    assert!(replayed.inputs > 8 && replayed.actions > 8, "{replayed:?}");
    assert_eq!(journal, self::journal(), "equal sessions, different journals");
}

/// A session over HTTP in which host and server indent their JSON, and the server answers by a body or by a stream. Returns its
/// journal, and the result of its call.
fn indented_session(by_stream: bool) -> (String, Outcome) {
    let mut options = options();
    let settings = Spelling::Spaced.spell(r#"{"a":[1,2]}"#);
    options.capabilities.extensions.insert("x/y".parse().unwrap(), raw(&settings).into());
    let mut client = Recorder::new(Http::new("http://localhost/mcp").unwrap(), options, 7, LIMITS());
    client.apply(Time::ZERO, Command::Open).unwrap();
    let mut ended = None;
    while let Some(action) = client.poll() {
        let HttpAction::Request(it) = action else {
            if let HttpAction::Event(Event::Ready) = action {
                let arguments = raw("{\n  \"text\": \"gr\u{f6}\u{df}e\",\r\n\t\"n\": [1,\r2]\n}\n");
                let call = Request::call_tool("echo", Some(&arguments));
                client.apply(Time::ZERO, Command::Request(call)).unwrap();
            } else if let HttpAction::Event(Event::Finished { outcome, .. }) = action {
                ended = Some(outcome);
                client.apply(Time::ZERO, Command::Close).unwrap();
            }
            continue;
        };
        let exchange = it.exchange;
        let answer = Some(it.request.body()).filter(|body| !body.is_empty()).and_then(|body| answer(body));
        let (status, kind) = match &answer {
            Some(_) => (200, if by_stream { "text/event-stream" } else { "application/json" }),
            None => (202, "text/plain"),
        };
        let headers = HeaderMap::from_iter([(HeaderName::from_static("content-type"), HeaderValue::from_static(kind))]);
        let status = StatusCode::from_u16(status).unwrap();
        client.handle_input(Time::ZERO, Input::Head { exchange, status, headers }).unwrap();
        if let Some(answer) = answer {
            let text = Spelling::Indented.spell(&answer);
            let bytes = if by_stream { event(&text) } else { text };
            client.handle_input(Time::ZERO, Input::Body { exchange, bytes: bytes.into_bytes().into() }).unwrap();
        }
        client.handle_input(Time::ZERO, Input::End { exchange }).unwrap();
    }
    (client.finish().1, ended.unwrap())
}

#[test]
fn a_session_whose_json_has_line_breaks_replays_to_the_same_bytes() {
    for by_stream in [false, true] {
        let (journal, outcome) = indented_session(by_stream);
        let Outcome::Result(result) = &outcome else { panic!("{outcome:?}") };
        assert!(result.get().contains('\n'), "{result}");
        for line in journal.lines() {
            assert!(serde_json::from_str::<Value>(line).is_ok() && !line.contains('\r'), "{line}");
        }
        let replayed = replay(journal.as_bytes(), LIMITS()).unwrap();
        assert_eq!(replayed.lines, journal.lines().count());
        // The outcome has the bytes that the server sent.
        let Ok(Replay::Http(mut player)) = Replay::new(journal.as_bytes(), LIMITS()) else { panic!("a client") };
        let mut outcomes = vec![];
        while let Some(played) = player.next() {
            if let Played::Action(HttpAction::Event(Event::Finished { outcome, .. })) = played.unwrap() {
                outcomes.push(outcome);
            }
        }
        assert_eq!(format!("{outcomes:?}"), format!("{:?}", [outcome]));
    }
}

#[test]
fn line_breaks_are_spaces_in_a_line_which_says_where_they_are() {
    let mut client = Recorder::new(Lines::new(), options(), 7, LIMITS());
    let params = Some(raw("{\n\"a\":\r\n1}"));
    let _ = client.apply(Time::from_millis(3), Command::Notify { method: "x".into(), params });
    let (_, journal) = client.finish();
    let line = journal.lines().nth(1).unwrap();
    let expected =
        r#"{"at":3000,"in":{"type":"notify","value":{"method":"x","params":{ "a":  1}}},"lf":[65,6],"cr":[70],"sum":""#;
    assert!(line.starts_with(expected), "{line}");
    // By hand, without the sum.
    let (text, _) = line.rsplit_once(",\"sum\"").unwrap();
    let edited = |from: &str, to: &str| journal.replacen(line, &format!("{}}}", text.replace(from, to)), 1);
    replay(edited("", "").as_bytes(), LIMITS()).unwrap();
    replay(edited(r#","cr":[70]"#, "").as_bytes(), LIMITS()).unwrap();
    for (from, to) in [("[65,6]", "[64,6]"), ("[65,6]", "[65,0]"), ("[65,6]", "[65,900]"), ("[65,6]", "[-1]")] {
        let error = replay(edited(from, to).as_bytes(), LIMITS()).unwrap_err();
        assert!(matches!(error, JournalError::Invalid { line: 2, .. }), "{to}: {error}");
    }
    // A string has no line break.
    let spaced = edited(r#""x","#, r#""a b","#);
    replay(spaced.replacen("[65,6]", "[67,6]", 1).replacen("[70]", "[72]", 1).as_bytes(), LIMITS()).unwrap();
    let error = replay(spaced.replacen("[65,6]", "[53]", 1).as_bytes(), LIMITS()).unwrap_err();
    assert!(matches!(error, JournalError::Invalid { line: 2, .. }), "{error}");
}

#[test]
fn a_replay_gives_the_actions_and_the_client_of_the_session() {
    let journal = journal();
    let Replay::Lines(mut player) = Replay::new(journal.as_bytes(), LIMITS()).unwrap() else { panic!("lines") };
    let (mut events, mut times) = (Vec::new(), Vec::new());
    while let Some(played) = player.next() {
        times.push(player.now());
        if let Played::Action(Action::Event(event)) = played.unwrap() {
            events.push(event);
        }
    }
    assert!(player.get().is_closed());
    assert_eq!(player.get().catalog().tools().count(), 1);
    assert_eq!(events.first(), Some(&Event::Ready));
    assert!(matches!(events.last(), Some(Event::Closed { .. })));
    assert!(times.is_sorted() && times.last() > Some(&Time::ZERO));
}

#[test]
fn only_a_command_has_a_result() {
    let journal = journal();
    let lines: Vec<Value> = journal.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut commands = vec![];
    for pair in lines.windows(2) {
        if let Some(input) = pair[0]["in"]["type"].as_str() {
            let is_command = !matches!(input, "transport" | "bytes");
            assert_eq!(pair[1].get("result").is_some(), is_command, "{input}");
            commands.extend(is_command.then_some(input));
        }
    }
    assert_eq!(commands, ["open", "request", "close"]);
}

#[test]
fn each_changed_byte_is_reported_with_its_line() {
    changed_bytes_are_reported(&journal());
    changed_bytes_are_reported(&indented_session(false).0);
}

fn changed_bytes_are_reported(journal: &str) {
    for (at, byte) in journal.bytes().enumerate() {
        let line = 1 + journal.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count();
        let mut changed = journal.as_bytes().to_vec();
        changed[at] = if byte == b'x' { b'y' } else { b'x' };
        let named = match replay(&changed, LIMITS()).unwrap_err() {
            JournalError::Changed { line }
            | JournalError::Differs { line, .. }
            | JournalError::Invalid { line, .. } => line,
            JournalError::NotAJournal { .. } => 1,
            JournalError::CutOff { line } => line + 1,
            other => panic!("{other}"),
        };
        assert_eq!(named, line, "byte {at}");
    }
}

#[test]
fn a_difference_shows_the_recorded_and_the_actual_output() {
    // Edited by hand, without checksums.
    let journal = journal();
    let plain: String =
        journal.lines().map(|line| line.rsplit_once(",\"sum\"").unwrap().0.to_owned() + "}\n").collect();
    assert!(replay(plain.as_bytes(), LIMITS()).is_ok());
    let changed = plain.replacen(r#""name":"echo"}"#, r#""name":"ecco"}"#, 1);
    assert_ne!(changed, plain);
    let error = replay(changed.as_bytes(), LIMITS()).unwrap_err();
    let JournalError::Differs { expected, got, .. } = &error else { panic!("{error}") };
    assert!(expected.contains("echo") && got.contains("ecco") || expected.contains("ecco") && got.contains("echo"));
    assert!(expected.len() < 250 && got.len() < 250);
    // It is cut at its beginning, and not at the end of the line.
    let ends = |text: &str| (text.starts_with('…'), text.ends_with('…'));
    assert_eq!((ends(expected), ends(got)), ((true, false), (true, false)), "{error}");
    let changed = plain.replacen(r#""out":{"type":"send""#, r#""out":{"type":"sent""#, 1);
    let error = replay(changed.as_bytes(), LIMITS()).unwrap_err();
    let JournalError::Differs { expected, got, .. } = &error else { panic!("{error}") };
    assert_eq!((ends(expected), ends(got)), ((false, true), (false, true)), "{error}");
    let short = plain.replacen(r#""out":null"#, r#""out":{"type":"none"}"#, 1);
    let error = replay(short.as_bytes(), LIMITS()).unwrap_err();
    let JournalError::Differs { expected, got, .. } = &error else { panic!("{error}") };
    assert_eq!((&**expected, &**got), (r#"{"type":"none"}"#, "null"));
}

#[test]
fn a_replay_with_other_options_names_the_first_output_that_they_change() {
    let journal = journal();
    let with = |change: &dyn Fn(&mut Options)| {
        Replay::with_options(journal.as_bytes(), LIMITS(), |options| change(options)).unwrap().finish()
    };
    assert!(with(&|options| options.limits.queued = 7).is_ok(), "an option that changes no output");
    let error = with(&|options| options.client.version = "2".into()).unwrap_err();
    let JournalError::Differs { line, expected, got, .. } = error else { panic!("{error}") };
    assert!(line > 1, "{line}");
    assert!(expected.contains(r#""name":"journal","version":"1""#), "{expected}");
    assert!(got.contains(r#""name":"journal","version":"2""#), "{got}");
}

#[test]
fn a_truncated_journal_is_an_error_that_names_the_last_line() {
    let journal = journal();
    let lines = journal.lines().count();
    for end in 0..journal.len() {
        let complete = journal.as_bytes()[..end].iter().filter(|byte| **byte == b'\n').count();
        match replay(&journal.as_bytes()[..end], LIMITS()).unwrap_err() {
            JournalError::CutOff { line } => assert_eq!(line, complete),
            JournalError::NotAJournal { .. } => assert_eq!(end, 0),
            other => panic!("{end}: {other}"),
        }
        assert!(complete < lines);
    }
}

#[test]
fn lines_that_were_reordered_repeated_or_removed_are_errors() {
    let journal = journal();
    let lines: Vec<&str> = journal.split_inclusive('\n').collect();
    for at in 1..lines.len() {
        let mut swapped = lines.clone();
        swapped.swap(at - 1, at);
        let mut removed = lines.clone();
        removed.remove(at - 1);
        let mut repeated = lines.clone();
        repeated.insert(at, lines[at - 1]);
        for wrong in [swapped, removed, repeated] {
            assert!(replay(wrong.concat().as_bytes(), LIMITS()).is_err());
        }
    }
}

#[test]
fn a_journal_of_another_version_is_an_error_that_names_it() {
    let other = journal().replacen("{\"journal\":1,", "{\"journal\":2,", 1);
    assert_eq!(replay(other.as_bytes(), LIMITS()), Err(JournalError::Format { found: 2 }));
    let later = b"{\"journal\":7,\"something\":\"else\"}\n";
    assert_eq!(replay(later, LIMITS()), Err(JournalError::Format { found: 7 }));
}

#[test]
fn text_that_is_not_a_journal_is_an_error() {
    for text in ["\n", "{}\n", "[]\n", "\u{feff}{\"journal\":1}\n", "{\"journal\":1}\n", "{\"journal\":\"1\"}\n"] {
        let error = replay(text.as_bytes(), LIMITS()).unwrap_err();
        assert!(matches!(error, JournalError::NotAJournal { .. }), "{text}: {error}");
    }
    assert!(matches!(replay(b"", LIMITS()), Err(JournalError::NotAJournal { .. })));
    assert!(matches!(replay(b"\xff\n", LIMITS()), Err(JournalError::NotAJournal { .. })));
}

#[test]
fn an_error_quotes_a_line_in_a_few_words() {
    let header = journal().lines().next().unwrap().to_owned();
    let long = "\u{7f}".repeat(1_000);
    for text in [format!("\"{long}\"\n"), format!("{header}\n\"{long}\"\n")] {
        let error = replay(text.as_bytes(), LIMITS()).unwrap_err();
        assert!(error.to_string().chars().count() < 300, "{error}");
    }
}

#[test]
fn a_line_with_two_contents_or_none_or_after_the_end_is_invalid() {
    let header = journal().split_inclusive('\n').next().unwrap().to_owned();
    for line in [
        r#"{"at":0}"#,
        r#"{"at":0,"in":{"type":"open"},"out":null}"#,
        r#"{"at":0,"in":{"type":"opan"}}"#,
        r#"{"at":0,"in":{"type":"open"},"more":1}"#,
        r#"{"at":-1,"in":{"type":"open"}}"#,
        r#"{"at":0,"result":{"type":"ok","value":null}}"#,
        "{\"at\":0,\"end\":\"finished\"}\n{\"at\":0,\"out\":null}",
    ] {
        let error = replay(format!("{header}{line}\n").as_bytes(), LIMITS()).unwrap_err();
        assert!(matches!(error, JournalError::Invalid { .. }), "{line}: {error}");
    }
}

#[test]
fn a_hundred_megabytes_end_at_a_limit() {
    let endless = vec![b'x'; 100 << 20];
    let error = replay(&endless, LIMITS()).unwrap_err();
    assert_eq!(error, JournalError::Limit { line: 1, what: "line", limit: LIMITS().line });

    let mut journal = journal().split_inclusive('\n').next().unwrap().to_owned();
    let idle = format!("{{\"at\":0,\"out\":{}null}}\n", " ".repeat(1 << 20));
    while journal.len() < 100 << 20 {
        journal.push_str(&idle);
    }
    let error = replay(journal.as_bytes(), LIMITS()).unwrap_err();
    assert!(matches!(error, JournalError::Limit { what: "bytes", .. }), "{error}");
}

#[test]
fn a_recorder_stops_at_a_limit_says_so_and_does_not_change_the_client() {
    let (_, whole) = session(LIMITS());
    let lines = journal().lines().count();
    for entries in 0..=lines {
        let mut limits = LIMITS();
        limits.entries = entries;
        let (client, outcomes) = session(limits);
        assert_eq!(outcomes, whole);
        let dropped = client.dropped();
        let (_, journal) = client.finish();
        if entries < 2 {
            assert!(matches!(replay(journal.as_bytes(), LIMITS()), Err(JournalError::NotAJournal { .. })));
            continue;
        }
        assert_eq!(dropped > 0, entries < lines, "{entries} of {lines}");
        assert!(journal.lines().count() <= entries);
        let end = if dropped > 0 { End::Limit } else { End::Finished };
        assert_eq!(replay(journal.as_bytes(), limits).unwrap().end, Some(end));
        limits.entries = journal.lines().count() - 1;
        let (line, limit) = (journal.lines().count(), limits.entries);
        let error = replay(journal.as_bytes(), limits).unwrap_err();
        assert_eq!(error, JournalError::Limit { line, what: "entries", limit });
    }
    let mut limits = LIMITS();
    limits.line = journal().split_inclusive('\n').map(str::len).max().unwrap();
    assert_eq!(session(limits).0.dropped(), 0);
    assert!(replay(journal().as_bytes(), limits).is_ok());
    limits.line -= 1;
    let (client, _) = session(limits);
    assert!(client.dropped() > 0, "the longest line has no room");
    // 80 bytes are kept for the last line, and one that is read may end at the limit.
    let last = journal().split_inclusive('\n').next_back().unwrap().len();
    let mut limits = LIMITS();
    limits.bytes = journal().len() - last + 80;
    assert_eq!(session(limits).0.dropped(), 0);
    limits.bytes -= 1;
    assert_eq!(session(limits).0.dropped(), 1);
    limits.bytes = journal().len();
    assert!(replay(journal().as_bytes(), limits).is_ok());
    limits.bytes -= 1;
    let error = replay(journal().as_bytes(), limits).unwrap_err();
    assert!(matches!(error, JournalError::Limit { what: "bytes", .. }), "{error}");
    let mut limits = LIMITS();
    limits.bytes = 4_000;
    let (client, _) = session(limits);
    assert!(client.dropped() > 0);
    let (_, journal) = client.finish();
    assert!(journal.len() <= 4_000);
    assert!(replay(journal.as_bytes(), limits).is_ok());
}

#[test]
fn lines_are_accepted_with_any_json_formatting() {
    let mut client = Recorder::new(Lines::new(), options(), 7, LIMITS());
    let mut text = client.take();
    assert!(text.starts_with("{\"journal\":1,") && text.ends_with("}\n"));
    client.apply(Time::ZERO, Command::Open).unwrap();
    text += &client.take();
    assert_eq!(client.take(), "");
    assert!(matches!(replay(text.as_bytes(), LIMITS()), Err(JournalError::CutOff { line: 3 })));
    text += &client.finish().1;
    assert!(replay(text.as_bytes(), LIMITS()).is_ok());
}

#[test]
fn an_input_of_another_binding_is_refused_and_changes_nothing() {
    let connection = ConnectionId::default();
    let bytes = Input::Bytes { connection, bytes: [].into() };
    let message = Input::Message { connection, bytes: [].into() };
    let end = Input::End { exchange: ExchangeId::from_u64(0) };
    let refused = |binding: &'static str| Err(InputError::OtherBinding { binding: binding.into() });
    assert_eq!(Client::new(Messages::new(), options(), 0).handle_input(Time::ZERO, bytes), refused("messages"));
    assert_eq!(Client::new(Lines::new(), options(), 0).handle_input(Time::ZERO, message), refused("lines"));
    assert_eq!(Client::new(Lines::new(), options(), 0).handle_input(Time::ZERO, end), refused("lines"));
    let mut client = Client::new(Http::new("http://localhost/").unwrap(), options(), 0);
    let event = TransportEvent::Opened;
    assert_eq!(client.handle_input(Time::ZERO, Input::Transport { connection, event }), refused("http"));
    client.apply(Time::ZERO, Command::Authorized).unwrap();
    let refresh = Command::Refresh { family: Family::Tools };
    assert_eq!(client.apply(Time::ZERO, refresh), Err(CommandError::NotReady));
}

/// Runs a session over HTTP whose responses and URLs have secrets.
fn web_session() -> String {
    let url = "https://ada:hush@example.com/mcp?key=hush&mail=hush@hush";
    let mut options = options();
    options.server = url.into();
    let mut client = Recorder::new(Http::new(url).unwrap(), options, 7, LIMITS());
    let mut now = Time::ZERO;
    client.apply(now, Command::Open).unwrap();
    let mut steps = 0;
    while let Some(action) = client.poll() {
        steps += 1;
        assert!(steps < 100, "{action:?}");
        now = now + Duration::from_millis(1);
        let HttpAction::Request(it) = action else {
            if let HttpAction::Event(Event::Ready) = action {
                client.apply(now, Command::Request(Request::call_tool("echo", None))).unwrap();
                client.apply(now, Command::Request(Request::new("x/y"))).unwrap();
            } else if let HttpAction::Event(Event::Finished { .. }) = action {
                // The client is closed already at the second one.
                let _ = client.apply(now, Command::Close);
            }
            continue;
        };
        let exchange = it.exchange;
        let head = |status, more: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            headers.insert("set-cookie", HeaderValue::from_static("a=hush"));
            headers.insert("x-api-key", HeaderValue::from_static("hush"));
            headers.extend(
                more.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))),
            );
            Input::Head { exchange, status: StatusCode::from_u16(status).unwrap(), headers }
        };
        if it.request.method() != "POST" {
            client.handle_input(now, head(405, &[])).unwrap();
            client.handle_input(now, Input::End { exchange }).unwrap();
            continue;
        }
        let body = it.request.body().clone();
        if body.windows(3).any(|part| part == b"x/y") && !it.request.uri().path().ends_with("elsewhere") {
            // Redirected once, with secrets in the URL.
            client.handle_input(now, head(308, &[("location", "/elsewhere?token=hush@hush")])).unwrap();
            client.handle_input(now, Input::End { exchange }).unwrap();
            continue;
        }
        let Some(answer) = answer(&body) else {
            client.handle_input(now, head(202, &[])).unwrap();
            client.handle_input(now, Input::End { exchange }).unwrap();
            continue;
        };
        client
            .handle_input(now, head(200, &[("content-type", "application/json"), ("mcp-session-id", "hush-1")]))
            .unwrap();
        client.handle_input(now, Input::Body { exchange, bytes: answer.into_bytes().into() }).unwrap();
        client.handle_input(now, Input::End { exchange }).unwrap();
    }
    assert!(client.is_closed());
    client.finish().1
}

#[test]
fn a_session_over_http_replays_to_the_same_bytes_without_its_secrets() {
    let journal = web_session();
    assert!(!journal.contains("hush") && journal.contains("redacted"), "{journal}");
    assert!(journal.contains("elsewhere"));
    let replayed = replay(journal.as_bytes(), LIMITS()).unwrap();
    assert!(replayed.inputs > 15, "{replayed:?}");
}

#[test]
fn the_error_text_of_a_broken_exchange_has_no_secrets() {
    let mut client = Recorder::new(Http::new("http://localhost/").unwrap(), options(), 7, LIMITS());
    client.apply(Time::ZERO, Command::Open).unwrap();
    while let Some(action) = client.poll() {
        let HttpAction::Request(it) = action else { continue };
        let why = "no route to https://ada:hush@example.com/mcp?key=hush".into();
        client.handle_input(Time::ZERO, Input::Failure { exchange: it.exchange, broken: Broken::Midway, why }).unwrap();
    }
    let (_, journal) = client.finish();
    assert!(!journal.contains("hush"), "{journal}");
    assert!(replay(journal.as_bytes(), LIMITS()).is_ok());
}

/// A small object, spelled in some way.
fn spelled() -> impl Strategy<Value = Box<RawValue>> {
    let text = select(&["{}", r#"{"a":1.0}"#, r#"{"a":["b\n",{"c":null}],"d":[]}"#][..]);
    (text, strategy::spelling()).prop_map(|(text, spelling)| raw(&spelling.spell(text)))
}

/// A message of a server, spelled in some way.
fn message() -> impl Strategy<Value = String> {
    (select(&MESSAGES[..]), strategy::spelling()).prop_map(|(text, spelling)| spelling.spell(text))
}

/// A message as an event of a stream.
fn event(message: &str) -> String {
    message.lines().map(|line| format!("data: {line}\n")).collect::<String>() + "\n"
}

#[derive(Clone, Debug)]
enum Given {
    Command(Command),
    Input(Input),
}

/// Commands, and inputs of any binding, at any time.
fn given() -> impl Strategy<Value = Given> {
    let connection = (0..3_u64).prop_map(ConnectionId::from_u64);
    let exchange = (0..6_u64).prop_map(ExchangeId::from_u64);
    let request = (0..4_u64).prop_map(RequestId::from_u64);
    let bytes = prop_oneof![
        message().prop_map(String::into_bytes),
        message().prop_map(|text| format!("{}\n", text.replace('\n', "")).into_bytes()),
        message().prop_map(|text| event(&text).into_bytes()),
        Just(b"event: endpoint\ndata: /messages?session=1\n\n".to_vec()),
        vec(any::<u8>(), 0..9),
    ];
    let bytes = bytes.prop_map(Vec::into_boxed_slice).boxed();
    let why = || select(&["", "gone", "http://a:b@c/?d"][..]).prop_map(Into::into);
    let event = prop_oneof![
        4 => Just(TransportEvent::Opened),
        1 => why().prop_map(|why| TransportEvent::OpenFailed { how: OpenFailure::Connect, why }),
        1 => why().prop_map(|why| TransportEvent::Closed { why }),
        1 => why().prop_map(|why| TransportEvent::ProtocolViolation { why }),
        1 => Just(TransportEvent::SignOfLife),
    ];
    let headers = vec((select(&HEADERS[..]), select(&VALUES[..])), 0..4).prop_map(|headers| {
        let pair = |(name, value): (&'static str, &'static [u8])| {
            (HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap())
        };
        headers.into_iter().map(pair).collect::<HeaderMap>()
    });
    let status = select(&[200_u16, 202, 307, 308, 400, 401, 403, 404, 405, 429, 503][..])
        .prop_map(|status| StatusCode::from_u16(status).unwrap());
    let server_request = (0..3_u64).prop_map(ServerRequestId::from_u64);
    let uri = || select(&["file:///a", ""][..]).prop_map(Into::into);
    let command = prop_oneof![
        2 => Just(Command::Open),
        1 => Just(Command::Close),
        2 => spelled()
            .prop_map(|arguments| Command::Request(Request::call_tool("echo", Some(&*arguments)).progress(true))),
        1 => Just(Command::Request(Request::new("initialize"))),
        1 => (request.clone(), prop::option::of(why()))
            .prop_map(|(request, reason)| Command::Cancel { request, reason }),
        1 => spelled().prop_map(|params| Command::Notify { method: "a/b".into(), params: Some(params) }),
        1 => (request.clone(), spelled())
            .prop_map(|(request, response)| Command::Provide { request, responses: vec![("a".into(), response)] }),
        1 => request.prop_map(|request| Command::Decline { request }),
        1 => (server_request.clone(), spelled())
            .prop_map(|(request, result)| Command::Respond { request, response: Ok(result) }),
        1 => server_request
            .prop_map(|request| Command::Respond { request, response: Err(ErrorObject::new(-1, "no")) }),
        1 => Just(Command::Authorized),
        1 => uri().prop_map(|uri| Command::Subscribe { uri }),
        1 => uri().prop_map(|uri| Command::Unsubscribe { uri }),
        1 => Just(Command::SetLogLevel { level: LogLevel::Alert }),
        1 => uri().prop_map(|uri| Command::SetRoots { roots: vec![Root::new(uri).with_name("n")] }),
        1 => select(Family::ALL).prop_map(|family| Command::Refresh { family }),
    ];
    let input = prop_oneof![
        2 => Just(Input::Timeout),
        6 => (connection.clone(), bytes.clone()).prop_map(|(connection, bytes)| Input::Message { connection, bytes }),
        6 => (connection.clone(), bytes.clone()).prop_map(|(connection, bytes)| Input::Bytes { connection, bytes }),
        4 => (connection, event).prop_map(|(connection, event)| Input::Transport { connection, event }),
        6 => (exchange.clone(), status, headers)
            .prop_map(|(exchange, status, headers)| Input::Head { exchange, status, headers }),
        6 => (exchange.clone(), bytes).prop_map(|(exchange, bytes)| Input::Body { exchange, bytes }),
        3 => exchange.clone().prop_map(|exchange| Input::End { exchange }),
        1 => (exchange, select(&[Broken::Unreachable, Broken::Midway][..]), why())
            .prop_map(|(exchange, broken, why)| Input::Failure { exchange, broken, why }),
    ];
    prop_oneof![19 => command.prop_map(Given::Command), 34 => input.prop_map(Given::Input)]
}

const MESSAGES: [&str; 8] = [
    r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#,
    r#"{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}"#,
    r#"{"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}}"#,
    r#"{"jsonrpc":"2.0","id":4,"result":{}}"#,
    r#"{"jsonrpc":"2.0","id":"a","method":"elicitation/create","params":{}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#,
    r#"{"jsonrpc":"2.0","id":4,"result":{"content":[{"type":"text","text":"one\ntwo"}],"structuredContent":{"n":[1,2]}}}"#,
    r#"{"jsonrpc":"2.0","id":4,"error":{"code":-32000,"message":"no","data":{"why":["a","b"]}}}"#,
];
const HEADERS: [&str; 7] =
    ["content-type", "mcp-session-id", "location", "retry-after", "www-authenticate", "set-cookie", "x-other"];
const VALUES: [&[u8]; 10] = [
    b"application/json",
    b"text/event-stream",
    b"abc",
    b"a b",
    b"\xff",
    b"3",
    b"Bearer resource_metadata=\"https://a/b?c\"",
    b"https://ada:hush@localhost/a?b",
    b"/a?b@c",
    b"?b#c",
];

/// Gives a command to a recorder by its method.
fn command<B: JournalBinding>(client: &mut Recorder<Client<B>>, now: Time, command: Command) {
    // What is refused is in the journal.
    _ = match command {
        Command::Open => client.open(now),
        Command::Close => client.close(now),
        Command::Request(request) => client.request(now, request).map(drop),
        Command::Cancel { request, reason: None } => client.cancel(now, request),
        Command::Cancel { request, reason: Some(reason) } => client.cancel_with_reason(now, request, &reason),
        Command::Notify { method, params } => client.notify(now, method, params.as_deref()),
        Command::Provide { request, responses } => {
            client.provide(now, request, responses.iter().map(|(key, response)| (&**key, &**response)))
        }
        Command::Decline { request } => client.decline(now, request),
        Command::Respond { request, response } => {
            client.respond(now, request, response.as_deref().map_err(Clone::clone))
        }
        Command::Authorized => client.authorized(now),
        Command::Subscribe { uri } => client.subscribe(now, &uri),
        Command::Unsubscribe { uri } => client.unsubscribe(now, &uri),
        Command::SetLogLevel { level } => client.set_log_level(now, level),
        Command::SetRoots { roots } => client.set_roots(now, roots),
        Command::Refresh { family } => client.refresh(now, family),
        other => panic!("{other:?}"),
    };
}

fn survives<T: Serialize + DeserializeOwned>(value: &T) {
    let text = serde_json::to_string(value).unwrap();
    let read: T = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
}

/// A recorded client behaves like one that is not, and its journal replays to the same bytes, whether inputs are values or
/// calls. `own` gives an input that is the binding's own.
fn check<B: JournalBinding + Clone>(
    binding: B,
    inputs: &[(u64, Given, u8)],
    own: impl Fn(&mut Recorder<Client<B>>, Time, &Input) -> bool,
) where
    B::Action: Clone + std::fmt::Debug + PartialEq,
{
    let mut called = Recorder::new(binding.clone(), options(), 7, LIMITS());
    let mut plain = Client::new(binding.clone(), options(), 7);
    let mut client = Recorder::new(binding, options(), 7, LIMITS());
    let mut now = Time::ZERO;
    for (step, given, polls) in inputs {
        now = now + Duration::from_millis(*step);
        match given.clone() {
            Given::Command(given) => {
                assert_eq!(client.apply(now, given.clone()), plain.apply(now, given.clone()));
                command(&mut called, now, given);
            }
            Given::Input(input) => {
                assert_eq!(client.handle_input(now, input.clone()), plain.handle_input(now, input.clone()));
                match input {
                    Input::Timeout => called.handle_timeout(now),
                    input if own(&mut called, now, &input) => {}
                    input => _ = called.handle_input(now, input),
                }
            }
        }
        for _ in 0..*polls {
            let action = plain.poll();
            assert_eq!((client.poll(), called.poll()), (action.clone(), action));
        }
    }
    let (_, journal) = client.finish();
    assert_eq!(called.finish().1, journal);
    let replayed = replay(journal.as_bytes(), LIMITS()).unwrap_or_else(|error| panic!("{error}\n{journal}"));
    assert_eq!(replayed.inputs, inputs.len());
}

fn inputs() -> impl Strategy<Value = Vec<(u64, Given, u8)>> {
    vec((select(&[0_u64, 1, 400, 6_000, 70_000][..]), given(), 0..9_u8), 0..60)
}

proptest! {
    #[test]
    fn recordings_of_messages_replay_to_the_same_bytes(inputs in inputs()) {
        check(Messages::new(), &inputs, |client, now, input| match input {
            Input::Message { connection, bytes } => {
                client.handle_message(now, *connection, bytes);
                true
            }
            Input::Transport { connection, event } => {
                client.handle_transport(now, *connection, event.as_transport());
                true
            }
            _ => false,
        });
    }

    #[test]
    fn recordings_of_lines_replay_to_the_same_bytes(inputs in inputs()) {
        check(Lines::new(), &inputs, |client, now, input| match input {
            Input::Bytes { connection, bytes } => {
                client.handle_bytes(now, *connection, bytes);
                true
            }
            Input::Transport { connection, event } => {
                client.handle_transport(now, *connection, event.as_transport());
                true
            }
            _ => false,
        });
    }

    #[test]
    fn recordings_of_http_replay_to_the_same_bytes(inputs in inputs()) {
        check(Http::new("https://ada:hush@localhost/mcp?a@b").unwrap(), &inputs, |client, now, input| {
            match input {
                Input::Head { exchange, status, headers } => client.handle_head(now, *exchange, *status, headers),
                Input::Body { exchange, bytes } => client.handle_body(now, *exchange, bytes),
                Input::End { exchange } => client.handle_end(now, *exchange),
                Input::Failure { exchange, broken, why } => client.handle_failure(now, *exchange, *broken, why),
                _ => return false,
            }
            true
        });
    }

    #[test]
    fn commands_and_inputs_survive_serialization(given in given()) {
        match given {
            Given::Command(command) => survives(&command),
            Given::Input(input) => survives(&input),
        }
    }

    #[test]
    fn any_text_is_an_error(text in any::<Vec<u8>>(), at in any::<proptest::sample::Index>()) {
        let mut journal = journal().into_bytes();
        let at = at.index(journal.len());
        journal.splice(at..at, text.iter().copied());
        assert!(text.is_empty() || replay(&journal, LIMITS()).is_err());
        assert!(replay(&text, LIMITS()).is_err());
    }
}
