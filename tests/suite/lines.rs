//! Bytes in chunks of any size, split into lines.

use std::time::Duration;

use crate::common::{Deliver, Server, Steps, chunked, each_text, legacy, tools};
use crate::fuzz_bodies::bodies::decode::{OwnedLine, expected_lines, lines_of, owned_line};
use mcp_proto::binding::{Line, LineDecoder};
use mcp_proto::{Action, Client, Event, Options, Outcome, QuirkKind, Reconnect, Request, Time, Transport};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use serde_json::{Value, json};

fn whole(line: &[u8]) -> OwnedLine {
    (true, line.into())
}

fn too_long(line: &[u8]) -> OwnedLine {
    (false, line.into())
}

fn config() -> ProptestConfig {
    let path = Box::new(FileFailurePersistence::Direct("proptest-regressions/lines.txt"));
    ProptestConfig { failure_persistence: Some(path), ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_chunking_gives_the_same_lines(
        bytes in prop::collection::vec(prop_oneof![1 => Just(b'\n'), 1 => Just(b'\r'), 6 => any::<u8>()], 0..300),
        cuts in prop::collection::vec(any::<usize>(), 0..20),
        limit in 0_usize..40,
    ) {
        let expected = expected_lines(limit, &bytes);
        prop_assert_eq!(&lines_of(limit, [&bytes[..]]), &expected);
        prop_assert_eq!(&lines_of(limit, bytes.chunks(1)), &expected);
        prop_assert_eq!(&lines_of(limit, chunked(&bytes, cuts)), &expected);
    }

    /// Longer than the blocks in which bytes are searched.
    #[test]
    fn a_line_feed_is_found_at_any_position(before in 0_usize..300, after in 0_usize..300) {
        let bytes = [&vec![b'a'; before][..], b"\n", &vec![b'b'; after][..], b"\n"].concat();
        prop_assert_eq!(lines_of(1000, [&bytes[..]]), [whole(&vec![b'a'; before]), whole(&vec![b'b'; after])]);
    }

    #[test]
    fn any_chunking_gives_the_same_session(cuts in prop::collection::vec(any::<usize>(), 0..40)) {
        let expected = actions(|bytes| bytes.split_inclusive(|byte| *byte == b'\n').collect());
        let ends = ["Noise", "Finished", "\"last\"", "Closed { cause"].map(|part| expected.contains(part));
        prop_assert_eq!(ends, [true; 4], "{}", expected);
        prop_assert_eq!(&actions(|bytes| chunked(bytes, cuts)), &expected);
        prop_assert_eq!(&actions(|bytes| bytes.chunks(1).collect()), &expected);
        prop_assert_eq!(&actions(|bytes| vec![bytes]), &expected);
    }
}

#[test]
fn each_chunking_of_each_short_text_gives_the_same_lines() {
    each_text(&["a", "\n", "\r"], 6, &mut |text| {
        let bytes = text.as_bytes();
        for (limit, mask) in
            [0, 2, 9].into_iter().flat_map(|limit| (0..1 << bytes.len()).map(move |mask| (limit, mask)))
        {
            let cuts = (0..bytes.len()).filter(|at| mask >> at & 1 == 1).collect();
            assert_eq!(
                lines_of(limit, chunked(bytes, cuts)),
                expected_lines(limit, bytes),
                "{text:?} {limit} {mask:b}"
            );
        }
    });
}

/// More than the blocks in which bytes are searched.
#[test]
fn many_blank_lines_are_lines() {
    for count in [1, 63, 64, 65, 200] {
        let bytes = ["\n".repeat(count), "a\n".into()].concat();
        assert_eq!(lines_of(3, [bytes.as_bytes()]), expected_lines(3, bytes.as_bytes()), "{count}");
    }
}

#[test]
fn a_line_may_have_as_many_bytes_as_the_limit() {
    assert_eq!(lines_of(3, [&b"abc\nabcd\n\nab\n"[..]]), [whole(b"abc"), too_long(b"abc"), whole(b""), whole(b"ab")]);
    assert_eq!(lines_of(3, [&b"ab"[..], b"c\n", b"abc", b"d", b"\n"]), [whole(b"abc"), too_long(b"abc")]);
}

#[test]
fn an_unfinished_last_line_is_a_line() {
    assert_eq!(lines_of(5, [&b"a\nbc"[..]]), [whole(b"a"), whole(b"bc")]);
    assert_eq!(lines_of(5, [&b"a\nbcdefg"[..]]), [whole(b"a"), too_long(b"bcdef")]);
    assert_eq!(lines_of(5, [&b"a\n"[..]]), [whole(b"a")]);
    assert!(lines_of(5, [&b""[..]]).is_empty());
}

#[test]
fn a_line_within_one_chunk_is_not_copied() {
    let chunk = b"first\nsecond\n";
    let mut lines = Vec::new();
    LineDecoder::new(100).feed(chunk, |line| match line {
        Line::Complete(line) | Line::TooLong(line) => lines.push(line.as_ptr()),
    });
    assert_eq!(lines, [chunk.as_ptr(), chunk[6..].as_ptr()]);
}

/// The buffer is in the `Debug` output, with about five characters per byte.
fn held(of: &impl std::fmt::Debug) -> usize {
    format!("{of:?}").len()
}

const MIB: usize = 1 << 20;

#[test]
fn a_line_of_100_mib_uses_limited_memory() {
    let limit = 64 << 10;
    let chunk = vec![b'x'; MIB];
    let (mut decoder, mut lines) = (LineDecoder::new(limit), Vec::new());
    let empty = held(&decoder);
    for _ in 0..100 {
        decoder.feed(&chunk, |line| lines.push(owned_line(line)));
        assert!(lines.len() == 1 && held(&decoder) < empty + 64, "it is told at once, and not kept");
    }
    decoder.feed(b"y\nnext\n", |line| lines.push(owned_line(line)));
    assert_eq!(lines, [too_long(&chunk[..limit]), whole(b"next")]);
    assert!(held(&decoder) < empty + 64);
}

// Sessions.

const START: Time = Time::ZERO;

struct Lines {
    session: Client<mcp_proto::Lines>,
    sent: Vec<Value>,
    events: Vec<Event>,
    log: String,
}

impl Lines {
    fn open(options: Options) -> Self {
        let session = Client::new(mcp_proto::Lines::new(), options, 0);
        let mut lines = Self { session, sent: vec![], events: vec![], log: String::new() };
        lines.session.open(START).unwrap();
        lines.transport(Transport::Opened);
        lines
    }

    fn ready(options: Options) -> Self {
        let mut lines = Self::open(options);
        lines.serve();
        assert!(lines.session.is_ready());
        lines
    }

    fn serve(&mut self) {
        let mut server = Server::legacy(json!({"tools": {}})).result("tools/list", tools(&["a"]));
        let mut steps = Steps::until("nothing is left to answer");
        while !self.sent.is_empty() {
            steps.step();
            for message in std::mem::take(&mut self.sent) {
                for answer in server.answer(&message) {
                    self.feed(format!("{answer}\n").as_bytes());
                }
            }
        }
    }

    fn feed(&mut self, bytes: &[u8]) {
        self.session.deliver(START, bytes);
        self.collect();
    }

    fn transport(&mut self, event: Transport<'_>) {
        self.session.report(START, event);
        self.collect();
    }

    fn collect(&mut self) {
        let mut steps = Steps::until("nothing is left to poll");
        while let Some(action) = self.session.poll() {
            steps.step();
            self.log += &format!("{action:?}\n");
            match action {
                Action::Send(message) => {
                    let line = message.line().strip_suffix(b"\n").expect("a line feed at the end");
                    self.sent.push(serde_json::from_slice(line).unwrap());
                }
                Action::Event(event) => self.events.push(event),
                _ => {}
            }
        }
    }

    /// Sends a request. Returns it and its id in the message.
    fn ask(&mut self) -> (mcp_proto::RequestId, Value) {
        let request = self.session.request(START, Request::new("tools/call")).unwrap();
        self.collect();
        let id = self.sent.pop().unwrap()["id"].clone();
        (request, id)
    }

    fn is_answered(&self, request: mcp_proto::RequestId) -> bool {
        self.events.iter().any(|event| {
            matches!(event, Event::Finished { request: ended, outcome: Outcome::Result(_), .. } if *ended == request)
        })
    }

    fn quirks(&self) -> Vec<QuirkKind> {
        self.session.quirks().iter().map(|quirk| quirk.kind).collect()
    }
}

fn result(id: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": {"ok": true}}).to_string()
}

/// The messages of a server that received two calls.
fn conversation(first: &Value, second: &Value) -> Vec<u8> {
    let told = |text: &str| json!({"jsonrpc": "2.0", "method": "notifications/x", "params": {"text": text}});
    let ping = json!({"jsonrpc": "2.0", "id": "p", "method": "ping"});
    let (first, second, told, last) = (result(first), result(second), told("ßé"), told("last"));
    format!("\u{feff}starting…\r\n{second}\r\n\n \r\n{ping}\n\u{feff}{first}\r\n\r\n{told}\n{last}").into()
}

/// All outputs of a client whose server sends these bytes in chunks of any size, and closes.
fn actions(pieces: impl FnOnce(&[u8]) -> Vec<&[u8]>) -> String {
    let mut lines = Lines::ready(legacy());
    let ((_, first), (_, second)) = (lines.ask(), lines.ask());
    lines.log.clear();
    for chunk in pieces(&conversation(&first, &second)) {
        lines.feed(chunk);
    }
    lines.transport(Transport::Closed { why: "end of file" });
    lines.log
}

/// A long line has memory of its own, which becomes that of the result of a call.
#[test]
fn a_long_line_means_the_same_in_one_piece_and_in_many() {
    let long = "x".repeat(200 << 10);
    for (body, is_result) in [
        (format!(r#""id":ID,"result":{{"content":"{long}"}}"#), true),
        (format!(r#""id":"ID","result":{{"content":"{long}"}}"#), true),
        (format!(r#""result": {{"a":1}} ,"id" : ID , "extra":"{long}""#), true),
        (format!(r#""id":ID,"result":{{"content":"{long}"}},"result":{{"a":"\ud83d"}}"#), true),
        (format!(r#""id":ID,"result":{{"content":"{long}"}},"error":null"#), true),
        (format!(r#""id":ID,"result":"{long}""#), false),
        (format!(r#""id":ID,"error":{{"code":1,"message":"{long}"}}"#), false),
        (format!(r#""id":ID,"result":{{"content":"{long}}}"#), false),
        (format!(r#""id":99,"result":{{"content":"{long}"}}"#), false),
        (format!(r#""method":"notifications/message","params":{{"level":"info","data":"{long}"}}"#), false),
    ] {
        let outputs = |size| {
            let mut lines = Lines::ready(legacy());
            let (request, id) = lines.ask();
            let line = format!("{{\"jsonrpc\":\"2.0\",{}}}\n", body.replace("ID", &id.to_string()));
            lines.log.clear();
            // The second response is one to no request.
            for chunk in line.repeat(2).as_bytes().chunks(size) {
                lines.feed(chunk);
            }
            assert_eq!(lines.is_answered(request), is_result, "{}", &line[..60]);
            lines.log
        };
        let expected = outputs(usize::MAX);
        assert!(outputs(10_000) == expected && outputs(199 << 10) == expected, "{}", &body[..60]);
    }
}

#[test]
fn line_ends_blank_lines_and_byte_order_marks_are_no_quirks() {
    let mut lines = Lines::ready(legacy());
    for (before, after) in
        [("", "\n"), ("", "\r\n"), ("\u{feff}", "\n"), ("\n\r\n \n", "\r\n\r\n"), ("\u{feff}\n", "\n")]
    {
        let (request, id) = lines.ask();
        lines.feed(format!("{before}{}{after}", result(&id)).as_bytes());
        assert!(lines.is_answered(request));
    }
    assert!(lines.quirks().is_empty());
}

#[test]
fn a_byte_order_mark_may_be_split_between_chunks() {
    let mut lines = Lines::ready(legacy());
    let (request, id) = lines.ask();
    for byte in format!("\u{feff}{}\r\n", result(&id)).as_bytes() {
        lines.feed(&[*byte]);
    }
    assert!(lines.is_answered(request) && lines.quirks().is_empty());
}

#[test]
fn an_unfinished_last_line_counts_when_the_transport_closes() {
    let mut lines = Lines::ready(legacy());
    let (request, id) = lines.ask();
    lines.feed(result(&id).as_bytes());
    assert!(!lines.is_answered(request));
    lines.transport(Transport::Closed { why: "end of file" });
    assert!(lines.is_answered(request) && lines.session.is_closed());
    assert!(lines.quirks().is_empty());
}

#[test]
fn noise_in_an_unfinished_last_line() {
    let mut lines = Lines::ready(legacy());
    lines.feed(b"{\"jsonrpc\":\"2.0\",\"id\"");
    lines.transport(Transport::Closed { why: "end of file" });
    assert_eq!(lines.quirks(), [QuirkKind::Noise]);
    assert!(matches!(lines.events.last(), Some(Event::Closed { .. })));
}

#[test]
fn an_unfinished_line_does_not_continue_on_the_next_connection() {
    let mut options = legacy();
    options.reconnect = Some(Reconnect::default());
    let mut lines = Lines::ready(options);
    lines.feed(b"half a line");
    lines.transport(Transport::Closed { why: "end of file" });
    lines.feed(b"late bytes");
    lines.session.open(START).unwrap();
    lines.collect();
    lines.transport(Transport::Opened);
    lines.serve();
    assert!(lines.session.is_ready());
    assert_eq!(lines.quirks(), [QuirkKind::Noise]);
    assert!(lines.session.quirks()[0].detail.contains("half a line"));
}

#[test]
fn a_sign_of_life_within_a_line_loses_nothing() {
    let mut lines = Lines::ready(legacy());
    let (request, id) = lines.ask();
    let answer = format!("{}\n", result(&id));
    let (first, second) = answer.as_bytes().split_at(20);
    lines.feed(first);
    lines.transport(Transport::SignOfLife);
    lines.feed(second);
    assert!(lines.is_answered(request) && lines.quirks().is_empty());
}

#[test]
fn noise_a_line_over_the_limit_loses_that_line_alone() {
    let mut options = legacy();
    options.limits.message.bytes = 64 << 10;
    let mut lines = Lines::ready(options);
    let (lost, lost_id) = lines.ask();
    let (kept, kept_id) = lines.ask();
    lines.feed(format!("{{\"jsonrpc\":\"2.0\",\"id\":{lost_id},\"result\":{{\"x\":\"").as_bytes());
    let chunk = vec![b'x'; MIB];
    // Its request ends as soon as the line is too long, and not at its timeout.
    let has_ended = |lines: &Lines| {
        let too_long =
            |error: &mcp_proto::RequestError| error.to_string().contains("more than the 65536 bytes allowed");
        lines.events.iter().any(|event| {
            matches!(event, Event::Finished { request, outcome: Outcome::Error(error), .. } if *request == lost && too_long(error))
        })
    };
    assert!(!has_ended(&lines));
    for _ in 0..100 {
        lines.feed(&chunk);
        assert!(has_ended(&lines) && held(&lines.session) < MIB);
    }
    lines.feed(format!("\"}}}}\n{}\n", result(&kept_id)).as_bytes());
    assert!(lines.is_answered(kept) && !lines.is_answered(lost));
    assert_eq!(lines.quirks(), [QuirkKind::Noise]);
    assert!(lines.session.quirks()[0].detail.contains(&format!("\"id\":{lost_id}")));
}

#[test]
fn noise_a_line_over_the_limit_whose_id_is_behind_it_ends_at_the_timeout() {
    let mut options = legacy();
    options.limits.message.bytes = 1000;
    let mut lines = Lines::ready(options);
    let (lost, id) = lines.ask();
    lines.feed(format!("{{\"result\":{{\"x\":\"{}\"}},\"id\":{id}}}\n", "x".repeat(2000)).as_bytes());
    // A request of the server with this id ends nothing either, nor does a line of a log.
    lines.feed(
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"params\":{{\"x\":\"{}\"}},\"method\":\"m\"}}\n", "x".repeat(2000))
            .as_bytes(),
    );
    lines.feed(
        format!("{{\"level\":\"info\",\"error\":\"x\",\"id\":{id},\"msg\":\"{}\"}}\n", "x".repeat(2000)).as_bytes(),
    );
    lines.feed(format!("{{\"method\":\"m\",\"id\":{id},\"params\":{{\"x\":\"{}\"}}}}\n", "x".repeat(2000)).as_bytes());
    assert_eq!(lines.quirks(), [QuirkKind::Noise]);
    lines.session.handle_timeout(START + Duration::from_secs(60));
    lines.collect();
    let timed_out = |event: &Event| matches!(event, Event::Finished { request, outcome: Outcome::TimedOut(mcp_proto::TimeBound::Timeout), .. } if *request == lost);
    assert!(lines.events.iter().any(timed_out), "{:?}", lines.events);
}

/// The end of the line does not belong to the message.
#[test]
fn a_message_at_the_limit_is_accepted_with_any_line_end() {
    for (before, after) in [("", "\n"), ("", "\r\n"), ("\u{feff}", "\r\n")] {
        let mut options = legacy();
        options.limits.message.bytes = 1000;
        let mut lines = Lines::ready(options);
        let (request, id) = lines.ask();
        let message = |text: &str| json!({"jsonrpc": "2.0", "id": id, "result": {"x": text}}).to_string();
        let fill = "y".repeat(1000 - message("").len());
        lines.feed(format!("{before}{}{after}", message(&fill)).as_bytes());
        assert!(lines.is_answered(request), "{before:?} {after:?}");
        let (request, _) = lines.ask();
        lines.feed(format!("{before}{}{after}", message(&(fill + "y"))).as_bytes());
        assert!(!lines.is_answered(request));
        assert_eq!(lines.quirks(), [QuirkKind::Noise]);
    }
}

#[test]
fn bytes_after_the_end_are_ignored() {
    let mut lines = Lines::ready(legacy());
    lines.transport(Transport::Closed { why: "end of file" });
    let events = lines.events.len();
    lines.feed(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\nnoise\n");
    assert!(lines.events.len() == events && lines.sent.is_empty() && lines.quirks().is_empty());
}

/// Here the server shows that its version is another one.
#[test]
fn lines_behind_the_one_that_ends_the_connection_are_dropped() {
    let mut options = legacy();
    options.reconnect = Some(Reconnect::default());
    let mut lines = Lines::ready(options);
    let (_, id) = lines.ask();
    let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32022, "message": "unsupported"}});
    lines.feed(format!("{error}\nnoise\n").as_bytes());
    assert_eq!(lines.quirks(), [QuirkKind::EraChanged]);
}

#[test]
fn an_unfinished_line_of_an_ended_process_loses_nothing_of_the_next() {
    for late in [false, true] {
        let mut options = legacy();
        options.reconnect = Some(Reconnect::default());
        let mut lines = Lines::ready(options);
        let dead = lines.session.connection();
        lines.feed(br#"{"jsonrpc":"2.0","method":"half of a li"#);
        lines.session.report(START, Transport::Closed { why: "crash" });
        if late {
            lines.session.handle_bytes(START, dead, br#"{"jsonrpc":"2.0","method":"what the pipe still had"#);
        }
        lines.session.open(START).unwrap();
        if late {
            lines.session.handle_bytes(START, dead, br#"{"jsonrpc":"2.0","method":"and more"#);
        }
        lines.transport(Transport::Opened);
        if late {
            lines.session.handle_bytes(START, dead, br#"{"jsonrpc":"2.0","method":"and the last of it"#);
        }
        lines.serve();
        assert!(lines.session.is_ready(), "the responses of the next process are accepted: {}", lines.log);
    }
}

#[test]
fn input_of_an_older_connection_is_dropped() {
    let mut options = legacy();
    options.reconnect = Some(Reconnect::default());
    let mut lines = Lines::ready(options);
    let dead = lines.session.connection();
    lines.transport(Transport::Closed { why: "crash" });
    lines.session.open(START).unwrap();
    lines.transport(Transport::Opened);
    lines.serve();
    lines.feed(br#"{"jsonrpc":"2.0","id":"p","met"#);
    let before = format!("{:?}", lines.session);
    lines.session.handle_bytes(START, dead, b"late\n");
    lines.session.handle_transport(START, dead, Transport::Closed { why: "its exit, seen late" });
    assert_eq!(format!("{:?}", lines.session), before);
    lines.feed(b"hod\":\"ping\"}\n");
    assert_eq!(lines.sent, [json!({"jsonrpc": "2.0", "id": "p", "result": {}})]);
}

#[test]
fn the_buffer_of_an_unfinished_line_is_freed_with_its_connection() {
    let mut lines = Lines::ready(legacy());
    let half = vec![b'x'; MIB];
    lines.feed(&half);
    assert!(held(&lines.session) >= MIB);
    lines.session.close(START).unwrap();
    lines.collect();
    assert!(held(&lines.session) < MIB / 4);
}

#[test]
fn the_first_line_feed_is_found_at_each_position() {
    // Bytes that differ from a line feed in one bit, or by one.
    for around in [b'a', b'\n' - 1, b'\n' + 1, b'\n' | 0x80, b'\n' ^ 2] {
        for len in (0..20).chain([63, 64, 65, 72, 127, 128, 137]) {
            for place in 0..len {
                let mut bytes = vec![around; len];
                bytes[place] = b'\n';
                for second in [None, Some(place + 1), Some(place + 7), Some(len - 1)] {
                    let mut bytes = bytes.clone();
                    second.and_then(|second| bytes.get_mut(second)).into_iter().for_each(|byte| *byte = b'\n');
                    let mut found = Vec::new();
                    let mut decoder = LineDecoder::new(1 << 10);
                    decoder.feed(&bytes, |line| found.push(owned_line(line).1));
                    decoder.finish(|line| found.push(owned_line(line).1));
                    let mut expected: Vec<_> = bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
                    expected.pop_if(|last| last.is_empty());
                    assert_eq!(found, expected, "{bytes:x?}");
                }
            }
        }
    }
}

/// opencode #17282
#[test]
fn repaired_lines_count_in_any_chunks() {
    let mut session = Client::new(mcp_proto::Lines::new(), legacy(), 0);
    session.open(Time::ZERO).unwrap();
    session.handle_transport(Time::ZERO, session.connection(), Transport::Opened);
    let message = |name: &str| json!({"jsonrpc": "2.0", "method": name}).to_string();
    let text = format!("> start {}{}\n\0{}\x1b[0m\r\n", message("a"), message("b"), message("c"));
    for byte in text.as_bytes() {
        session.handle_bytes(Time::ZERO, session.connection(), &[*byte]);
    }
    assert_eq!(session.quirks().iter().map(|quirk| quirk.kind).collect::<Vec<_>>(), [QuirkKind::Repaired]);
    assert!(session.quirks()[0].detail.contains("> start"), "{}", session.quirks()[0].detail);
}

/// A little longer than the limit, so that it comes as a whole; over lines and as a whole message.
#[test]
fn noise_a_whole_message_over_the_limit_ends_its_request_at_once() {
    for more in [1, 17, 18, 100] {
        let mut options = legacy();
        options.limits.message.bytes = 1000;
        let mut lines = Lines::ready(options);
        let (lost, id) = lines.ask();
        let message = |text: &str| json!({"id": id, "jsonrpc": "2.0", "result": {"x": text}}).to_string();
        let text = message(&"y".repeat(1000 + more - message("").len()));
        assert_eq!(text.len(), 1000 + more);
        lines.feed(format!("{text}\n").as_bytes());
        let ended = |event: &Event| matches!(event, Event::Finished { request, outcome: Outcome::Error(_), .. } if *request == lost);
        assert!(lines.events.iter().any(ended), "{more}");
    }
}
