//! Bytes in chunks of any size, split into server-sent events.

use std::time::Duration;

use crate::common::{chunked, each_text};
use crate::fuzz_bodies::bodies::decode::{Events, Item, events_of, expected_events, owned_item};
use mcp_proto::binding::{Sse, SseDecoder};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

const LIMIT: usize = 1 << 20;

/// Decodes a stream whole, byte by byte, and in two chunks cut at each position.
#[track_caller]
fn decoded(limit: usize, stream: &[u8]) -> Events {
    let whole = events_of(limit, [stream]);
    assert_eq!(events_of(limit, stream.chunks(1)), whole, "byte by byte");
    for at in 0..=stream.len() {
        let (head, tail) = stream.split_at(at);
        assert_eq!(events_of(limit, [head, b"", tail]), whole, "cut at {at}");
    }
    whole
}

#[test]
fn each_short_stream_gives_the_events_of_the_standard_wherever_it_is_cut() {
    each_text(&["data", ":", " ", "\n", "\r", "1", "id", "retry"], 4, &mut |text| {
        for stream in [text.to_owned(), format!("data:x\n{text}\n\n")] {
            for limit in [1, LIMIT] {
                assert_eq!(
                    decoded(limit, stream.as_bytes()),
                    expected_events(limit, stream.as_bytes()),
                    "{stream:?} {limit}"
                );
            }
        }
    });
}

/// A message, as an event of the default type.
fn message(data: impl AsRef<[u8]>) -> Item {
    event("message", data, None)
}

fn event(name: &str, data: impl AsRef<[u8]>, id: Option<&str>) -> Item {
    Item::Event { name: name.into(), data: data.as_ref().into(), id: id.map(Into::into), whole: true }
}

fn too_long(data: impl AsRef<[u8]>) -> Item {
    Item::Event { name: "message".into(), data: data.as_ref().into(), id: None, whole: false }
}

/// A case: a stream, and its items.
type Row<'a> = (&'a [u8], &'a [Item]);

#[track_caller]
fn check(rows: &[Row<'_>]) {
    for (stream, items) in rows {
        let shown = stream.escape_ascii();
        assert_eq!(decoded(LIMIT, stream).0, *items, "{shown}");
        assert_eq!(expected_events(LIMIT, stream).0, *items, "the reference, {shown}");
    }
}

#[track_caller]
fn check_ids(rows: &[(&[u8], Option<&str>)]) {
    for (stream, id) in rows {
        let id = id.map(|id| id.as_bytes().to_vec());
        assert_eq!(decoded(LIMIT, stream).1, id, "{}", stream.escape_ascii());
        assert_eq!(expected_events(LIMIT, stream).1, id, "the reference, {}", stream.escape_ascii());
    }
}

#[test]
fn a_blank_line_ends_an_event_with_any_line_ending() {
    let (a, b) = (|| message("a"), || message("b"));
    check(&[
        (b"data: a\n\n", &[a()]),
        (b"data: a\r\r", &[a()]),
        (b"data: a\r\n\r\n", &[a()]),
        (b"data: a\r\n\n", &[a()]),
        (b"data: a\n\r\n", &[a()]),
        (b"data: a\r\n\r", &[a()]),
        (b"data: a\n\r", &[a()]),
        (b"data: a\r\n", &[]),
        (b"data: a\r\rdata: b\r\n\r\ndata: a\n\n", &[a(), b(), a()]),
        (b"data: a\r\n\rdata: b\n\r", &[a(), b()]),
        (b"\n\r\n\rdata: a\n\n\n\r\r\n\n", &[a()]),
        (b"data: a\rdata: b\r\ndata: c\n\n", &[message("a\nb\nc")]),
    ]);
    let many = format!("data: a\ndata: a\n{}data: b\n\n", "\n".repeat(32));
    check(&[(many.as_bytes(), &[message("a\na"), b()])]);
}

#[test]
fn a_carriage_return_ends_an_event_without_the_next_byte() {
    let mut items = Vec::new();
    SseDecoder::new(LIMIT).feed(b"data: a\r\r", |item| items.push(owned_item(item)));
    assert_eq!(items, [message("a")]);
}

#[test]
fn one_byte_order_mark_may_begin_the_stream() {
    let mark = "\u{feff}";
    for (stream, items) in [
        (format!("{mark}data: a\n\n"), vec![message("a")]),
        (format!("{mark}\n{mark}data: a\n\n"), vec![]),
        (format!("{mark}{mark}data: a\n\n"), vec![]),
        (format!("\n{mark}data: a\n\n"), vec![]),
        (format!("data: a\n\n{mark}data: b\n\n"), vec![message("a")]),
        (format!("{mark}: comment\ndata: {mark}a\n\n"), vec![message(format!("{mark}a"))]),
        (format!("d{mark}ata: a\n\n"), vec![]),
        (format!("{mark}\ndata: a\n\n"), vec![message("a")]),
    ] {
        check(&[(stream.as_bytes(), &items)]);
    }
    check(&[
        (b"\xef\xbbdata: a\n\ndata: b\n\n", &[message("b")]),
        (b"\xef\xbb\ndata: a\n\n", &[message("a")]),
        (b"\xef\xbb:\ndata: a\n\n", &[message("a")]),
        (b"\xfe\xffdata: a\n\n", &[]),
    ]);
}

#[test]
fn one_space_after_the_colon_does_not_count() {
    check(&[
        (b"data:a\n\n", &[message("a")]),
        (b"data: a\n\n", &[message("a")]),
        (b"data:  a\n\n", &[message(" a")]),
        (b"data: a \n\n", &[message("a ")]),
        (b"data:\ta\n\n", &[message("\ta")]),
        (b"data: : a: b\n\n", &[message(": a: b")]),
        (b"data::\n\n", &[message(":")]),
        (b"event:  x\ndata: a\n\n", &[event(" x", "a", None)]),
        (b"retry:  5\n", &[]),
        (b"data:  \n\n", &[message(" ")]),
    ]);
}

#[test]
fn data_lines_are_joined_by_line_feeds() {
    check(&[
        (b"data: a\ndata: b\n\n", &[message("a\nb")]),
        (b"data: a\nid: 1\n: c\nevent: x\ndata: b\n\n", &[event("x", "a\nb", Some("1"))]),
        (b"data: a\ndata\ndata: b\ndata:\n\n", &[message("a\n\nb\n")]),
        (b"data\ndata\n\n", &[message("\n")]),
        (b"data:\ndata: a\n\n", &[message("\na")]),
    ]);
}

#[test]
fn an_event_without_data_only_sets_id_and_retry() {
    check(&[
        (b"data\n\n", &[]),
        (b"data:\n\n", &[]),
        (b"data: \n\n", &[]),
        (b"event: x\n\ndata: a\n\n", &[message("a")]),
        (b"event: x\ndata:\n\ndata: a\n\n", &[message("a")]),
        (b"data:\n\ndata: a\n\n", &[message("a")]),
        (b"id: 1\nretry: 500\ndata:\n\n", &[Item::Retry(500)]),
        (b"id: 1\n\ndata: a\n\n", &[event("message", "a", Some("1"))]),
    ]);
    check_ids(&[(b"id: 1\nretry: 500\ndata: \n\n", Some("1")), (b"id: 1\n\n", Some("1"))]);
}

#[test]
fn a_truncated_event_is_dropped() {
    check(&[
        (b"data: a", &[]),
        (b"data: a\n", &[]),
        (b"data: a\n\ndata: b\n", &[message("a")]),
        (b"retry: 10", &[]),
        (b"", &[]),
    ]);
    check_ids(&[(b"id: 1\n\nid: 2\ndata: a\n", Some("1")), (b"id: 1\n", None)]);
}

#[test]
fn unknown_fields_are_ignored() {
    check(&[
        (b": a comment\n\n", &[]),
        (b":\ndata: a\n:data: b\n\n", &[message("a")]),
        (b"foo: 1\nfoo\ndata: a\ndata : b\n data: c\nDATA: d\ndat: e\ndata2: f\n\n", &[message("a")]),
        (b"Event: x\nevents: y\ndata: a\n\n", &[message("a")]),
        (b"\0data: b\n\0\0\0data: b\ndata\0: c\ndata: a\n\n", &[message("a")]),
        (b"\x01data: b\nx\0\0\0\x01data: c\ndata: a\n\n", &[message("a")]),
        (b"a very long name of a field: 1\nanother one without a value\ndata: a\n\n", &[message("a")]),
        (b"seveneventdata: b\n12345678data: c\n1234567data: d\ndata: a\n\n", &[message("a")]),
    ]);
}

#[test]
fn the_last_type_of_an_event_counts() {
    check(&[
        (b"event: endpoint\ndata: /x\n\n", &[event("endpoint", "/x", None)]),
        (b"data: /x\nevent: endpoint\n\n", &[event("endpoint", "/x", None)]),
        (b"event: a\nevent: b\ndata: 1\n\ndata: 2\n\n", &[event("b", "1", None), message("2")]),
        (b"event: a\nevent\ndata: 1\n\n", &[message("1")]),
        (b"event:\ndata: 1\n\n", &[message("1")]),
    ]);
}

#[test]
fn an_id_applies_until_the_next_one() {
    let with = |data: &str, id| event("message", data, Some(id));
    check(&[
        (b"id: 1\ndata: a\n\ndata: b\n\n", &[with("a", "1"), with("b", "1")]),
        (b"data: a\nid: 1\n\n", &[with("a", "1")]),
        (b"data: a\n\nid: 1\ndata: b\n\n", &[message("a"), with("b", "1")]),
        (b"id: 1\nid: 2\ndata: a\n\n", &[with("a", "2")]),
        (b"id: 1\ndata: a\n\nid\ndata: b\n\n", &[with("a", "1"), with("b", "")]),
        (b"id:\ndata: a\n\n", &[with("a", "")]),
        (b"id: 1\n\nid: 2\0\ndata: a\n\n", &[with("a", "1")]),
        (b"id: 1\nid: \0\ndata: a\n\n", &[with("a", "1")]),
        (b"id: \x002\ndata: a\n\n", &[message("a")]),
    ]);
    check_ids(&[
        (b"data: a\n\n", None),
        (b"id: \0\n\n", None),
        (b"id: 1\n\nid:\n\n", Some("")),
        (b"id: 1\n\ndata: a\n\n", Some("1")),
        (b"id:  1 \n\n", Some(" 1 ")),
    ]);
}

#[test]
fn retry_is_milliseconds_in_ascii_digits() {
    check(&[
        (b"retry: 500\n", &[Item::Retry(500)]),
        (b"retry:0\n", &[Item::Retry(0)]),
        (b"retry: 007\r\n", &[Item::Retry(7)]),
        (b"retry: 1\nretry: 2\r", &[Item::Retry(1), Item::Retry(2)]),
        (b"retry: 1\ndata: a\nretry: 2\n\n", &[Item::Retry(1), Item::Retry(2), message("a")]),
        (b"retry\nretry:\nretry: \n", &[]),
        (b"retry: -1\nretry: +1\nretry: 1.5\nretry: 1e3\nretry: 5s\nretry: 5 \nretry: 0x1\n", &[]),
        ("retry: ٣\n".as_bytes(), &[]),
        (b"retry: 18446744073709551615\n", &[Item::Retry(u64::MAX)]),
        (
            b"retry: 18446744073709551616\nretry: 99999999999999999999999\n",
            &[Item::Retry(u64::MAX), Item::Retry(u64::MAX)],
        ),
    ]);
    let mut after = None;
    SseDecoder::new(LIMIT).feed(b"retry: 1500\n", |item| {
        if let Sse::Retry(it) = item {
            after = Some(it);
        }
    });
    assert_eq!(after, Some(Duration::from_millis(1500)));
}

#[test]
fn characters_may_be_split_and_invalid_bytes_are_kept() {
    check(&[
        ("data: ßé€😀\n\n".as_bytes(), &[message("ßé€😀")]),
        ("event: ß\nid: é\ndata: 😀\n\n".as_bytes(), &[event("ß", "😀", Some("é"))]),
        ("data: a\u{2028}b\u{85}c\u{b}d\n\n".as_bytes(), &[message("a\u{2028}b\u{85}c\u{b}d")]),
        (b"data: \xff\xc3\ndata: \xe2\x82\n\n", &[message(b"\xff\xc3\n\xe2\x82")]),
        (b"data: \0\n\n", &[message(b"\0")]),
        (b"dat\xc3\ndata: a\xe2\x82\r\r", &[message(b"a\xe2\x82")]),
    ]);
}

#[test]
fn data_may_have_as_many_bytes_as_the_limit() {
    for (stream, items) in [
        (&b"data: abc\n\n"[..], vec![message("abc")]),
        (b"data: abcd\n\ndata: e\n\n", vec![too_long("abc"), message("e")]),
        (b"data: a\ndata: b\n\n", vec![message("a\nb")]),
        (b"data: ab\ndata:\n\n", vec![message("ab\n")]),
        (b"data: abc\ndata:\n\n", vec![too_long("abc")]),
        (b"data: abc\ndata: d\ndata: e\n\n\ndata: f\n\n", vec![too_long("abc"), message("f")]),
        (b"event: a long type\n: a long comment\nunknown: field\ndata: a\n\n", vec![event("a long type", "a", None)]),
        (b"data: abcd", vec![]),
    ] {
        assert_eq!(decoded(3, stream).0, items, "{}", stream.escape_ascii());
        assert_eq!(expected_events(3, stream).0, items, "the reference, {}", stream.escape_ascii());
    }
    assert_eq!(decoded(0, b"data:\n\ndata: a\n\n").0, [too_long("")]);
}

#[test]
fn an_event_that_is_too_long_names_its_type_and_its_id() {
    let stream = b"data: abcd\nevent: x\nid: 1\nretry: 7\n\n";
    let item = Item::Event { name: "x".into(), data: "ab".into(), id: Some("1".into()), whole: false };
    assert_eq!(decoded(2, stream), (vec![Item::Retry(7), item], Some("1".into())));
}

#[test]
fn a_type_or_an_id_has_at_most_4_kib() {
    let long = |n: usize| "x".repeat(n);
    let one = |stream: String| {
        let chunked: Vec<_> = stream.as_bytes().chunks(1000).collect();
        let items = events_of(LIMIT, chunked);
        assert_eq!(items, expected_events(LIMIT, stream.as_bytes()));
        items
    };
    let (items, id) = one(format!("id: {}\nevent: {}\ndata: a\n\n", long(4096), long(4096)));
    assert_eq!((items, id), (vec![event(&long(4096), "a", Some(&long(4096)))], Some(long(4096).into())));
    let (items, id) = one(format!("id: 1\n\nid: {}\nevent: {}\ndata: a\n\n", long(4097), long(4097)));
    assert_eq!((items, id), (vec![event(&long(4096), "a", Some(""))], Some(vec![])));
    let (items, _) = one(format!("retry: {:0>4096}\nretry: {:0>4097}\nretry: 3\n", 1, 2));
    assert_eq!(items, [Item::Retry(1), Item::Retry(3)]);
}

/// The buffers are in the `Debug` output, with about five characters per byte.
fn held(of: &impl std::fmt::Debug) -> usize {
    format!("{of:?}").len()
}

#[test]
fn long_lines_use_limited_memory() {
    let limit = 64 << 10;
    let chunk = vec![b'7'; 4 * limit];
    for (before, after, most, kept) in [
        ("data: ", "\n\n", limit, Some(too_long(&chunk[..limit]))),
        ("id: ", "\n\n", 4096, None),
        ("event: ", "\n\n", 4096, None),
        ("retry: ", "\n\n", 4096, None),
        (":", "\n", 0, None),
        ("unknown: ", "\n", 0, None),
        ("", "\n", 0, None),
    ] {
        let (mut decoder, mut items) = (SseDecoder::new(limit), Vec::new());
        let empty = held(&decoder);
        decoder.feed(before.as_bytes(), |item| items.push(owned_item(item)));
        for _ in 0..20 {
            decoder.feed(&chunk, |item| items.push(owned_item(item)));
            assert!(items.is_empty() && held(&decoder) < empty + 5 * most + 64, "{before}");
        }
        decoder.feed(after.as_bytes(), |item| items.push(owned_item(item)));
        decoder.feed(b"id: 1\ndata: next\n\n", |item| items.push(owned_item(item)));
        let next = event("message", "next", Some("1"));
        assert_eq!(items, kept.into_iter().chain([next]).collect::<Vec<_>>(), "{before}");
    }
}

fn line_ending() -> impl Strategy<Value = &'static [u8]> {
    prop_oneof![3 => Just(&b"\n"[..]), 1 => Just(&b"\r"[..]), 2 => Just(&b"\r\n"[..])]
}

/// Lines that servers send, and invalid ones.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let name = prop_oneof![
        8 => Just("data"), 2 => Just("event"), 3 => Just("id"), 2 => Just("retry"), 1 => Just(""), 1 => Just("Data"),
        1 => Just("unknown"), 1 => Just("\u{feff}data"), 1 => Just("\0data"),
    ];
    let colon = prop_oneof![1 => Just(""), 2 => Just(":"), 6 => Just(": "), 1 => Just(":  ")];
    let value = prop_oneof![
        2 => "[0-9]{0,22}".prop_map(String::into_bytes),
        4 => "[a-zß😀:\" \0]{0,12}".prop_map(String::into_bytes),
        1 => "[a-z]{50,200}".prop_map(String::into_bytes),
        1 => vec(any::<u8>(), 0..8),
        1 => Just(Vec::new()),
    ];
    let field = (name, colon, value)
        .prop_map(|(name, colon, value)| [name.as_bytes(), colon.as_bytes(), value.as_slice()].concat());
    prop_oneof![4 => field, 2 => Just(Vec::new())]
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let lines = vec((line(), line_ending()), 0..25)
        .prop_map(|lines| lines.into_iter().flat_map(|(line, end)| [line, end.into()].concat()).collect::<Vec<_>>());
    let parts = prop_oneof![Just("data"), Just("id"), Just("event:"), Just("retry:"), Just("\u{feff}")];
    let piece = prop_oneof![
        2 => parts.prop_map(|part| part.as_bytes().to_vec()),
        2 => line_ending().prop_map(<[u8]>::to_vec),
        1 => Just(b": ".to_vec()),
        2 => any::<u8>().prop_map(|byte| [byte].into()),
    ];
    let mark = prop_oneof![4 => Just(""), 1 => Just("\u{feff}")];
    let rest = prop_oneof![4 => lines, 2 => vec(piece, 0..100).prop_map(|pieces| pieces.concat())];
    (mark, rest).prop_map(|(mark, rest)| [mark.as_bytes(), &rest].concat())
}

/// The rules of the standard apply to characters.
fn replaced((items, id): Events) -> Events {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned().into_bytes();
    let items = items.into_iter().map(|item| match item {
        Item::Event { name, data, id, whole } => {
            Item::Event { name: text(name), data: text(data), id: id.map(text), whole }
        }
        Item::Retry(after) => Item::Retry(after),
    });
    (items.collect(), id.map(text))
}

fn config() -> ProptestConfig {
    let path = Box::new(FileFailurePersistence::Direct("proptest-regressions/sse.txt"));
    let default = ProptestConfig::default();
    ProptestConfig { cases: default.cases.saturating_mul(4), failure_persistence: Some(path), ..default }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_chunking_gives_the_same_events(
        stream in stream(),
        cuts in vec(any::<usize>(), 0..20),
        limit in prop_oneof![0_usize..40, Just(LIMIT)],
    ) {
        let expected = expected_events(limit, &stream);
        prop_assert_eq!(&events_of(limit, [&stream[..]]), &expected);
        prop_assert_eq!(&events_of(limit, stream.chunks(1)), &expected);
        prop_assert_eq!(&events_of(limit, chunked(&stream, cuts)), &expected);
    }

    #[test]
    fn any_bytes_give_the_same_events(
        stream in vec(any::<u8>(), 0..300), cuts in vec(any::<usize>(), 0..20), limit in 0_usize..40,
    ) {
        prop_assert_eq!(events_of(limit, chunked(&stream, cuts)), expected_events(limit, &stream));
    }

    /// As in the standard, which replaces invalid bytes first and then looks for lines.
    #[test]
    fn invalid_characters_do_not_change_where_events_end(stream in stream()) {
        let text = String::from_utf8_lossy(&stream).into_owned();
        prop_assert_eq!(replaced(events_of(LIMIT, [&stream[..]])), expected_events(LIMIT, text.as_bytes()));
    }

    /// Longer than the blocks in which bytes are searched.
    #[test]
    fn a_line_ending_is_found_at_any_position(first in 1_usize..300, second in 1_usize..300, end in line_ending()) {
        let (first, second) = (vec![b'a'; first], vec![b'b'; second]);
        let stream = [b"data:", &first[..], end, b"data:", &second, end, end].concat();
        prop_assert_eq!(events_of(LIMIT, [&stream[..]]).0, [message([&first[..], b"\n", &second].concat())]);
    }
}
