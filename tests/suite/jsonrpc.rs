//! JSON-RPC messages, decoded and encoded.

use std::borrow::Cow;

use crate::common::{Host, Server, each_text, legacy};
use mcp_proto::jsonrpc::{
    self, Body, Decoded, Deviations, ErrorObject, Message, MessageLimits, Noise, Object, PeerId, Repaired, ResponseId,
    decode, repair, without_lone_surrogates,
};
use mcp_proto::{Action, Request};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use serde_json::value::RawValue;
use serde_json::{Value, json};

fn limits() -> MessageLimits {
    MessageLimits::default()
}

fn one(text: &str) -> Message<'_> {
    match decode(text.as_bytes(), limits()) {
        Ok(Decoded::One(message)) => message,
        other => panic!("{text}: {other:?}"),
    }
}

fn noise(bytes: impl AsRef<[u8]>) -> Noise {
    decode(bytes.as_ref(), limits()).expect_err("noise")
}

fn batch(text: &str, limits: MessageLimits) -> Vec<Result<Message<'_>, Noise>> {
    match decode(text.as_bytes(), limits) {
        Ok(Decoded::Batch(messages)) => messages,
        other => panic!("{text}: {other:?}"),
    }
}

fn result_id(text: &str) -> ResponseId {
    match one(text).body {
        Body::Result { id, .. } => id,
        body => panic!("{text}: {body:?}"),
    }
}

fn error_of(text: &str) -> ErrorObject {
    match one(&format!(r#"{{"jsonrpc":"2.0","id":1,"error":{text}}}"#)).body {
        Body::Error { error, .. } => error,
        body => panic!("{text}: {body:?}"),
    }
}

fn method_of(message: &Message<'_>) -> String {
    match &message.body {
        Body::Request { method, .. } | Body::Notification { method, .. } => method.to_string(),
        body => panic!("{body:?}"),
    }
}

fn peer_id(id: &str) -> PeerId {
    match one(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#)).body {
        Body::Request { id, .. } => id,
        body => panic!("{id}: {body:?}"),
    }
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.into()).unwrap()
}

// Decoding.

#[test]
fn requests_notifications_results_and_errors_are_distinguished() {
    let request = one(r#"{"jsonrpc":"2.0","id":"a","method":"m","params":{ "x": 1.0 }}"#);
    let Body::Request { id, method, params: Some(params) } = request.body else { panic!("{request:?}") };
    assert_eq!((id.get(), &*method, params.get()), ("\"a\"", "m", "{ \"x\": 1.0 }"));

    let notification = one(r#"{"jsonrpc":"2.0","method":"m"}"#);
    assert!(matches!(&notification.body, Body::Notification { method, params: None } if method == "m"));

    let result = one(r#"{"jsonrpc":"2.0","id":7,"result":[ 1e2 ]}"#);
    let Body::Result { id, result: payload } = result.body else { panic!("{result:?}") };
    assert_eq!((id, payload.get()), (ResponseId::Exact(7), "[ 1e2 ]"));

    let error = one(r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"no"}}"#);
    assert!(matches!(error.body, Body::Error { id: ResponseId::Exact(7), error } if error.code == -32601));
    for deviations in [request.deviations, notification.deviations, result.deviations, error.deviations] {
        assert_eq!(deviations, Deviations::default());
    }
}

#[test]
fn payloads_are_borrowed() {
    let text = r#"{"jsonrpc":"2.0","method":"m","params":{"x":1}}"#;
    let Body::Notification { params: Some(params), .. } = one(text).body else { panic!() };
    assert!(text.as_bytes().as_ptr_range().contains(&params.get().as_ptr()));
}

#[test]
fn the_ids_of_responses() {
    let max = u64::MAX;
    for (id, expected) in [
        ("0", ResponseId::Exact(0)),
        ("7", ResponseId::Exact(7)),
        (&max.to_string(), ResponseId::Exact(max)),
        ("\"7\"", ResponseId::Loose(7)),
        (r#""\u0037""#, ResponseId::Loose(7)),
        ("7.0", ResponseId::Loose(7)),
        ("7.000", ResponseId::Loose(7)),
        ("null", ResponseId::Absent),
        ("\"server-error\"", ResponseId::Foreign),
        ("\"\"", ResponseId::Foreign),
        ("\"7.5\"", ResponseId::Foreign),
        ("\"-7\"", ResponseId::Foreign),
        ("\" 7\"", ResponseId::Foreign),
        ("-7", ResponseId::Foreign),
        ("7.5", ResponseId::Foreign),
        ("-0.5", ResponseId::Foreign),
        ("18446744073709551616", ResponseId::Foreign),
        ("true", ResponseId::Foreign),
        ("[7]", ResponseId::Foreign),
        ("{}", ResponseId::Foreign),
    ] {
        assert_eq!(result_id(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":1}}"#)), expected, "{id}");
    }
    assert_eq!(result_id(r#"{"jsonrpc":"2.0","result":1}"#), ResponseId::Absent);
}

#[test]
fn the_ids_of_requests_keep_their_raw_text() {
    for id in ["0", "-1", "1.50", "1e3", "18446744073709551616", "\"\"", r#""\u00e9\n""#] {
        assert_eq!(peer_id(id).get(), id);
    }
    let longest = format!("\"{}\"", "i".repeat(1022));
    assert_eq!(peer_id(&longest).get(), longest);
    let longer = format!("\"{}\"", "i".repeat(1023));
    for id in ["{}", "[1]", "true", "false", &longer] {
        assert_eq!(noise(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#)), Noise::NotAMessage);
    }
}

#[test]
fn a_notification_with_a_null_id_is_a_deviation() {
    let message = one(r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#);
    assert!(matches!(message.body, Body::Notification { .. }) && message.deviations.id_null);
}

#[test]
fn malformed_errors_are_accepted() {
    for (error, code, message) in [
        (r#"{"code":-1,"message":"no"}"#, -1, "no"),
        (r#"{"message":"n\u00f6 \"x\"\n","code":5}"#, 5, "nö \"x\"\n"),
        (r#"{"code":"-32601","message":"no"}"#, -32601, "no"),
        (r#"{"code":-32601.0,"message":"no"}"#, -32601, "no"),
        (r#"{"code":-3.2e4,"message":"no"}"#, -32000, "no"),
        (r#"{"code":-32601.5,"message":"no"}"#, 0, "no"),
        (r#"{"code":"inf","message":"no"}"#, 0, "no"),
        (r#"{"code":null,"message":"no"}"#, 0, "no"),
        (r#"{"code":{},"message":"no"}"#, 0, "no"),
        (r#"{"code":99999999999999999999,"message":"no"}"#, 0, "no"),
        (r#"{"message":"no"}"#, 0, "no"),
        (r#"{"code":1,"message":{"text":"no"}}"#, 1, r#"{"text":"no"}"#),
        (r#"{"code":1,"message":null}"#, 1, "null"),
        (r#"{"code":1}"#, 1, r#"{"code":1}"#),
        (r#"{}"#, 0, "{}"),
        (r#""just \"text\"""#, 0, "just \"text\""),
        ("[1, 2]", 0, "[1, 2]"),
        ("true", 0, "true"),
        ("-5", 0, "-5"),
    ] {
        let read = error_of(error);
        assert_eq!((read.code, &*read.message), (code, message), "{error}");
        assert!(read.data.is_none());
    }
}

#[test]
fn the_data_of_an_error_is_kept_raw() {
    for data in [r#"{ "a": 1.50 }"#, "null", "[]", "\"\\u00e9\""] {
        let error = error_of(&format!(r#"{{"code":1,"message":"m","data":{data}}}"#));
        assert_eq!(error.data.unwrap().get(), data);
    }
    assert_eq!(error_of(r#"{"code":1,"message":"m"}"#).to_string(), "m (1)");
}

#[test]
fn deviations_are_reported() {
    let odd = |text: &str| one(text).deviations;
    let none = Deviations::default;
    for version in ["", r#""jsonrpc":"1.0","#, r#""jsonrpc":2.0,"#, r#""jsonrpc":null,"#] {
        let deviations = odd(&format!(r#"{{{version}"id":1,"result":1}}"#));
        assert!(deviations.version && !deviations.error_null);
    }
    let error_null = |text| odd(text).error_null && !odd(text).result_and_error;
    assert!(error_null(r#"{"jsonrpc":"2.0","id":1,"result":{},"error":null}"#));
    assert!(error_null(r#"{"jsonrpc":"2.0","id":1,"result":null,"error":{}}"#));
    let both = r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"m"}}"#;
    assert!(odd(both).result_and_error && matches!(one(both).body, Body::Error { .. }));
    let null = r#"{"jsonrpc":"2.0","id":1,"result":null}"#;
    assert_eq!(odd(null), none());
    assert!(matches!(one(null).body, Body::Result { result, .. } if result.get() == "null"));
}

#[test]
fn null_parameters_count_as_absent() {
    let message = one(r#"{"jsonrpc":"2.0","id":1,"method":"m","params":null}"#);
    assert!(matches!(message.body, Body::Request { params: None, .. }));
}

#[test]
fn the_last_of_repeated_members_counts_and_unknown_members_are_skipped() {
    let message = one(r#"{"method":"a","x":[{}],"jsonrpc":"1.0","method":"b","jsonrpc":"2.0"}"#);
    assert_eq!((method_of(&message), message.deviations), ("b".into(), Deviations::default()));
}

#[test]
fn escapes_in_names_and_methods_are_read() {
    let message = one(r#"{"\u006asonrpc":"2.0","\u0069d":1,"metho\u0064":"a\/\u00e9\ud83d\ude00\n"}"#);
    assert_eq!(message.deviations, Deviations::default());
    assert_eq!(method_of(&message), "a/é😀\n");
    assert!(matches!(message.body, Body::Request { .. }));
    let error = error_of(r#"{"c\u006fde":4,"m\u0065ssage":"m","d\u0061ta":1}"#);
    assert_eq!((error.code, &*error.message, error.data.is_some()), (4, "m", true));
}

#[test]
fn white_space_and_byte_order_marks_are_skipped() {
    for blank in ["", " ", "\r", "\r\n\t ", "\u{feff}", "\u{feff} \r\n"] {
        assert!(matches!(decode(blank.as_bytes(), limits()), Ok(Decoded::Blank)), "{blank:?}");
    }
    for (before, after) in [("\u{feff}", ""), (" ", "\r"), ("\u{feff}\t", " \r\n")] {
        let text = format!(r#"{before}{{"jsonrpc":"2.0","method":"m"}}{after}"#);
        assert_eq!(method_of(&one(&text)), "m");
    }
}

#[test]
fn text_that_is_not_a_message_is_noise() {
    for text in ["hello", "{", "{\"a\"", "[1,", "[{}] x", "{}{}", "{\"a\":01}", "nul", "\"a", "{'a':1}", "\u{a0}"] {
        assert_eq!(noise(text), Noise::NotJson, "{text}");
    }
    for text in ["1", "\"a\"", "null", "true", "{}", r#"{"id":1}"#, r#"{"error":null}"#, r#"{"method":5}"#] {
        assert_eq!(noise(text), Noise::NotAMessage, "{text}");
    }
    assert_eq!(noise(b"{\"method\":\"\xff\"}"), Noise::NotUtf8);
    assert_eq!(noise([0xff, 0xfe, b'{', 0, b'}', 0]), Noise::NotUtf8);
}

#[test]
fn a_message_over_the_size_limit_is_noise() {
    let text = r#"{"jsonrpc":"2.0","method":"m"}"#;
    let mut limits = limits();
    limits.bytes = text.len();
    assert!(decode(text.as_bytes(), limits).is_ok());
    limits.bytes -= 1;
    let too_long = Noise::TooLong { len: text.len(), limit: limits.bytes };
    assert_eq!(decode(text.as_bytes(), limits).unwrap_err(), too_long);
    // White space around it does not count, up to 16 bytes.
    limits.bytes += 1;
    for (white, is_known) in [(16, true), (17, false), (100, false)] {
        let text = format!("{text}{}", " ".repeat(white));
        let too_long = Noise::TooLong { len: text.len(), limit: limits.bytes };
        assert_eq!(decode(text.as_bytes(), limits).err(), (!is_known).then_some(too_long));
    }
}

fn nested(levels: usize) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"m","params":{}{}}}"#, "[".repeat(levels), "]".repeat(levels))
}

#[test]
fn a_message_over_the_depth_limit_is_noise() {
    assert_eq!(method_of(&one(&nested(127))), "m");
    for levels in [128, 1000, 1_000_000] {
        assert_eq!(noise(nested(levels)), Noise::TooDeep { limit: 128 });
        assert_eq!(noise("[".repeat(levels + 1)), Noise::TooDeep { limit: 128 });
    }
    let mut limits = limits();
    limits.depth = 3;
    assert!(decode(nested(2).as_bytes(), limits).is_ok());
    assert_eq!(decode(nested(3).as_bytes(), limits).unwrap_err(), Noise::TooDeep { limit: 3 });
}

#[test]
fn brackets_in_strings_or_in_sequence_do_not_count_as_depth() {
    let brackets = "[{".repeat(1000);
    for text in [
        format!(r#"{{"jsonrpc":"2.0","method":"m","params":{{"x":"{brackets}"}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","method":"m","params":{{"\"\\":"\\\"{brackets}"}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","method":"m","params":[{}[]]}}"#, "[],{},".repeat(1000)),
    ] {
        assert_eq!(method_of(&one(&text)), "m");
    }
}

#[test]
fn a_batch_keeps_its_order_and_loses_only_noise() {
    let text = r#"[{"method":"a"}, 1, {"method":"b"}, [{"method":"c"}], {}, null, {"method":"d"}]"#;
    let messages = batch(text, limits());
    let methods: Vec<_> = messages.iter().map(|message| message.as_ref().map(method_of).ok()).collect();
    let some = |method: &str| Some(method.to_owned());
    assert_eq!(methods, [some("a"), None, some("b"), None, None, None, some("d")]);
    assert!(messages.iter().flat_map(|message| message.as_ref().err()).all(|noise| *noise == Noise::NotAMessage));
}

#[test]
fn a_truncated_batch_is_noise() {
    assert_eq!(noise(r#"[{"method":"a"},{"method":"b""#), Noise::NotJson);
    assert_eq!(noise(r#"[{"method":"a"} {"method":"b"}]"#), Noise::NotJson);
}

#[test]
fn a_batch_over_the_limit_of_messages_is_noise() {
    let mut limits = limits();
    limits.batch = 3;
    let text = |messages: usize| format!("[{}]", vec![r#"{"method":"a"}"#; messages].join(","));
    assert_eq!(batch(&text(3), limits).iter().filter(|message| message.is_ok()).count(), 3);
    let messages = text(5);
    let messages = batch(&messages, limits);
    assert_eq!(messages.len(), 4);
    assert!(messages[..3].iter().all(Result::is_ok));
    assert_eq!(messages[3].as_ref().unwrap_err(), &Noise::BatchTooLong { limit: 3 });
    let messages = text(10_001);
    assert_eq!(batch(&messages, self::limits()).len(), 10_001);
}

// Encoding.

type Params = fn(&mut Vec<u8>);

#[test]
fn messages_are_encoded_in_a_fixed_order_without_white_space() {
    let params: Params = |out| out.extend_from_slice(br#"{"a":1}"#);
    let none = None::<Params>;
    let id = peer_id("7.50");
    let error = ErrorObject::new(-32601, "no \"x\"");
    let mut with_data = ErrorObject::new(i64::MIN, "");
    with_data.data = Some(raw("[1]"));
    for (text, expected) in [
        (
            written(|out| jsonrpc::request(out, u64::MAX, "m/x", Some(params))),
            r#"{"jsonrpc":"2.0","id":18446744073709551615,"method":"m/x","params":{"a":1}}"#,
        ),
        (written(|out| jsonrpc::request(out, 0, "a\"b", none)), r#"{"jsonrpc":"2.0","id":0,"method":"a\"b"}"#),
        (
            written(|out| jsonrpc::notification(out, "n", Some(params))),
            r#"{"jsonrpc":"2.0","method":"n","params":{"a":1}}"#,
        ),
        (written(|out| jsonrpc::notification(out, "n", none)), r#"{"jsonrpc":"2.0","method":"n"}"#),
        (written(|out| jsonrpc::result(out, &id, "{}")), r#"{"jsonrpc":"2.0","id":7.50,"result":{}}"#),
        (
            written(|out| jsonrpc::error(out, &id, &error)),
            r#"{"jsonrpc":"2.0","id":7.50,"error":{"code":-32601,"message":"no \"x\""}}"#,
        ),
        (
            written(|out| jsonrpc::error(out, &id, &with_data)),
            r#"{"jsonrpc":"2.0","id":7.50,"error":{"code":-9223372036854775808,"message":"","data":[1]}}"#,
        ),
    ] {
        assert_eq!(text, expected);
    }
}

#[test]
fn objects_are_encoded_member_by_member() {
    let text = written(|out| {
        let mut object = Object::begin(out);
        object.string("s\"", "a\nb").raw("r", "[1, 2]").integer("i", i128::MIN);
        object.object("o", |inner| {
            inner.object("empty", |_| {});
        });
        object.value("v").extend_from_slice(b"null");
        object.end();
    });
    assert_eq!(text, format!(r#"{{"s\"":"a\nb","r":[1, 2],"i":{},"o":{{"empty":{{}}}},"v":null}}"#, i128::MIN));
}

#[test]
fn strings_are_escaped_where_required() {
    for (string, expected) in [
        ("", r#""""#),
        ("a/é😀\u{7f}\u{2028}", "\"a/é😀\u{7f}\u{2028}\""),
        ("\"\\\n\r\t", r#""\"\\\n\r\t""#),
        ("\0\u{8}\u{c}\u{1f}", r#""\u0000\u0008\u000c\u001f""#),
        ("a\"", r#""a\"""#),
    ] {
        assert_eq!(written(|out| jsonrpc::string(out, string)), expected);
    }
}

/// "Messages are delimited by newlines, and MUST NOT contain embedded newlines" (specification 2026-07-28, "stdio").
#[test]
fn line_breaks_in_an_embedders_json_are_not_sent() {
    let given = "{\r\n  \"name\": \"a\",\n\n\"arguments\": {\"text\": \"x\\ny\\r\\u000a\"}\r}";
    let capabilities = json!({"tools": {}});
    let servers =
        [(Server::legacy(capabilities.clone()), legacy()), (Server::modern(capabilities), crate::common::options())];
    for (server, options) in servers {
        let mut host = Host::connect(options, &mut server.result("tools/list", json!({"tools": []})));
        host.session.request(host.now, Request::new("tools/call").params(raw(given))).unwrap();
        let Some(Action::Send(message)) = host.session.poll() else { panic!("nothing was sent") };
        let line = message.line();
        assert!(line.ends_with(b"\n") && line.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count() == 1);
        let sent: Value = serde_json::from_slice(message.bytes()).unwrap();
        assert_eq!(sent["params"]["arguments"], json!({"text": "x\ny\r\n"}));
    }
}

// Properties.

fn config() -> ProptestConfig {
    let path = Box::new(FileFailurePersistence::Direct("proptest-regressions/jsonrpc.txt"));
    ProptestConfig { failure_persistence: Some(path), ..ProptestConfig::default() }
}

/// Strings with many characters that must be escaped.
fn string() -> impl Strategy<Value = String> {
    let char = prop_oneof![
        3 => any::<char>(),
        1 => prop::char::range('\0', '\u{1f}'),
        1 => prop_oneof![Just('"'), Just('\\'), Just('/'), Just('\u{7f}'), Just('\u{2028}')],
    ];
    prop::collection::vec(char, 0..40).prop_map(String::from_iter)
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        string().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 30, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((string(), inner), 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Text that is close to a message.
fn near_json() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("{"),
        Just("}"),
        Just("["),
        Just("]"),
        Just(","),
        Just(":"),
        Just("\""),
        Just("\\"),
        Just(" "),
        Just("\n"),
        Just("\"jsonrpc\":\"2.0\""),
        Just("\"id\":1"),
        Just("\"id\":null"),
        Just("\"method\":\"m\""),
        Just("\"params\":{}"),
        Just("\"result\":{}"),
        Just("\"error\":{\"code\":1}"),
        Just("null"),
        Just("1.5e3"),
        Just("\\u12"),
        Just("é"),
        Just("\u{feff}"),
    ];
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn strings_survive_encoding_and_decoding(string in string()) {
        let text = written(|out| jsonrpc::string(out, &string));
        prop_assert_eq!(serde_json::from_str::<String>(&text).unwrap(), string);
        prop_assert!(!text.chars().any(|c| c < ' '));
    }

    #[test]
    fn requests_and_notifications_survive_encoding_and_decoding(id: u64, method in string(), params in json_value()) {
        let json = params.to_string();
        let write = |out: &mut Vec<u8>| out.extend_from_slice(json.as_bytes());
        let text = written(|out| jsonrpc::request(out, id, &method, Some(write)));
        let message = one(&text);
        prop_assert_eq!(message.deviations, Deviations::default());
        let Body::Request { id: read, method: named, params } = message.body else { panic!("{text}") };
        prop_assert_eq!((read.get(), &*named), (&*id.to_string(), &*method));
        prop_assert_eq!(params.map(RawValue::get), Some(&*json).filter(|json| *json != "null"));

        let text = written(|out| jsonrpc::notification(out, &method, Some(write)));
        let Body::Notification { method: named, params } = one(&text).body else { panic!("{text}") };
        prop_assert_eq!(&*named, &*method);
        prop_assert_eq!(params.map(RawValue::get), Some(&*json).filter(|json| *json != "null"));
    }

    #[test]
    fn responses_survive_encoding_and_decoding(id: u64, result in json_value(), code: i64, message in string()) {
        let peer = peer_id(&id.to_string());
        let json = result.to_string();
        let text = written(|out| jsonrpc::result(out, &peer, &json));
        let Body::Result { id: read, result } = one(&text).body else { panic!("{text}") };
        prop_assert_eq!((read, result.get()), (ResponseId::Exact(id), &*json));

        let mut error = ErrorObject::new(code, message.clone());
        error.data = Some(raw(&json));
        let text = written(|out| jsonrpc::error(out, &peer, &error));
        let Body::Error { id: read, error } = one(&text).body else { panic!("{text}") };
        prop_assert_eq!((read, error.code, &*error.message), (ResponseId::Exact(id), code, &*message));
        prop_assert_eq!(error.data.as_deref().map(RawValue::get), Some(&*json));
    }

    #[test]
    fn any_bytes_decode_to_a_message_or_noise(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes, limits());
    }

    #[test]
    fn a_message_with_text_around_it_is_found_as_written(
        before in "[^{]{0,20}",
        value in json_value(),
        after in "[^{]{0,20}",
    ) {
        let message = format!(r#"{{"jsonrpc":"2.0","method":"m","params":{{"a":{value}}}}}"#);
        let text = format!("{before}x{message}{after}");
        prop_assert_eq!(repair(text.as_bytes(), limits()).messages, [message]);
    }

    /// With the escape sequences of halves among others.
    #[test]
    fn lone_surrogate_json_without_them_is_read_by_any_parser(
        pieces in prop::collection::vec(
            prop::sample::select(&["\\ud83d", "\\uDE00", "\\u0041", "\\\\", "\\n", "u", "d83d", "é", "\\ud7ff"][..]),
            0..12,
        ),
    ) {
        let text = format!(r#"{{"a":["{}"]}}"#, pieces.concat());
        let read = without_lone_surrogates(&text);
        prop_assert_eq!(read.len(), text.len());
        prop_assert!(serde_json::from_str::<Value>(&read).is_ok(), "{}", read);
        let is_read = serde_json::from_str::<Value>(&text).is_ok();
        prop_assert_eq!(is_read, matches!(read, Cow::Borrowed(_)), "{}", text);
        let message = format!(r#"{{"jsonrpc":"2.0","method":"m","params":{text}}}"#);
        prop_assert_eq!(one(&message).deviations.lone_surrogate, !is_read, "{}", text);
        for (batch, has_half) in batch(&format!("[{message},{}]", r#"{"jsonrpc":"2.0","method":"m"}"#), limits()).iter().zip([!is_read, false]) {
            prop_assert_eq!(batch.as_ref().unwrap().deviations.lone_surrogate, has_half);
        }
    }

    #[test]
    fn what_is_json_is_not_repaired(value in json_value()) {
        for text in [value.to_string(), format!(r#"{{"jsonrpc":"2.0","id":1,"result":{value}}}"#), format!("[{value}]")] {
            prop_assert_eq!(repair(text.as_bytes(), limits()), Repaired::default(), "{}", text);
        }
    }

    #[test]
    fn text_close_to_json_is_judged_like_serde_json(text in near_json()) {
        check_like_serde_json(&text);
    }
}

/// What `serde_json` rejects is noise, and what it accepts is never called invalid JSON.
fn check_like_serde_json(text: &str) {
    let trimmed = text.trim_start_matches('\u{feff}').trim_matches([' ', '\n']);
    let valid = serde_json::from_str::<Value>(trimmed).is_ok();
    match decode(text.as_bytes(), limits()) {
        Ok(Decoded::Blank) => assert!(trimmed.is_empty()),
        Ok(_) => assert!(valid, "{text}"),
        Err(Noise::NotJson) => assert!(!valid, "{text}"),
        Err(noise) => assert_eq!((noise, valid), (Noise::NotAMessage, true), "{text}"),
    }
}

#[test]
fn each_short_text_is_judged_like_serde_json() {
    let pieces = ["{", "}", "[", "]", ",", ":", "\"", "\\", "a", "u00e9", "1", "-", ".", "e", "null", " "];
    each_text(&pieces, 4, &mut |text| {
        check_like_serde_json(text);
        check_like_serde_json(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{text}}}"#));
    });
}

/// Text that a search which begins again at each bracket would read in the square of its length.
#[test]
fn text_that_breaks_everywhere_is_repaired_in_one_pass() {
    let pieces = [
        r#"{"a":"#,
        r#"{"a":["#,
        "{",
        r#"{""#,
        r#"{"a{""#,
        r#"{"a":{"b":1},"#,
        r#"{"id":7,"#,
        "{   ",
        r#"{"a":"{"#,
        r#"{"a":"\u0000"#,
        r#"{"a":NaN"#,
        r#"x{"method":1}"#,
        "[[{",
    ];
    for piece in pieces {
        for end in ["", "}", "\"", "\0"] {
            let text = format!("x{}{end}", piece.repeat((1 << 17) / piece.len()));
            let repaired = repair(text.as_bytes(), limits());
            assert!(repaired.messages.is_empty(), "{piece}");
        }
    }
}

#[test]
fn what_is_repaired_is_the_text_as_written_but_for_values_of_null() {
    let text = "log {\"jsonrpc\":\"2.0\",\"method\" : \"a\",\"params\":[NaN , -Infinity,\"NaN\"]}\0\
                {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"b\":1.50}} end";
    let expected = [
        r#"{"jsonrpc":"2.0","method" : "a","params":[null , null,"NaN"]}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{"b":1.50}}"#,
    ];
    assert_eq!(repair(text.as_bytes(), limits()).messages, expected);
}

#[test]
fn what_breaks_behind_an_id_says_where_and_why() {
    for (text, at, why) in [
        (r#"{"id":7,"result":{"a":undefined}}"#, 22, "no value"),
        (r#"{"id":7,"result":{"a":1"#, 23, "ends before"),
        (r#"{"id":7,"result":{"a":"b"#, 24, "ends within a string"),
        ("{\"id\":7,\"result\":\"a\tb\"}", 19, "control character"),
        (r#"{"id":7,"result":"a\x"}"#, 19, "escape"),
        (r#"{"id":7,"result":{a:1}}"#, 18, "no name"),
        (r#"{"id":7,"result":{"a" 1}}"#, 22, "no colon"),
        (r#"log {"id":7,"result":[1 2]}"#, 24, "neither a comma"),
        (r#"{"\u0069d":7,"jsonrpc":"2.0""#, 28, "ends before"),
    ] {
        let repaired = repair(text.as_bytes(), limits());
        let [broken] = &*repaired.broken else { panic!("{text}: {repaired:?}") };
        assert_eq!((broken.id, broken.at), (ResponseId::Exact(7), at), "{text}");
        assert!(broken.why.contains(why), "{text}: {}", broken.why);
    }
    for text in [
        r#"{"id":"#,
        r#"{"id":7"#,
        r#"{"result":undefined,"id":7}"#,
        r#"{"method":"x","id":7,"params":{"#,
        r#"{"id":7,"method":"x","params":{"#,
        r#"{"result":{"id":7,"#,
        r#"{"result":[undefined,{"id":7,"#,
        r#"{"level":30,"pid":1,"id":7,"msg":"cut"#,
    ] {
        assert_eq!(repair(text.as_bytes(), limits()).broken, [], "{text}");
    }
}

#[test]
fn an_object_of_a_log_that_looks_like_a_message_is_none() {
    for text in [
        r#"[api] upstream failed: {"error":"ETIMEDOUT"}"#,
        r#"WARN 429 {"error":{"message":"rate limited","code":429}}, retrying"#,
        r#"req {"id":"abc","method":"GET","url":"/x"}"#,
        r#"job done {"id":7,"result":"ok"}"#,
        r#"<script>var cfg = {"method":"POST"};"#,
        // Lines of a value over several lines.
        r#"    {"id":3,"result":"row"},"#,
        r#"    {"jsonrpc":"2.0","id":3,"result":{}},"#,
        "\t{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}]",
        // A text within a string, whose quotes are not escaped.
        r#"{"jsonrpc":"2.0","id":99,"result":{"text":"use {"method":"notifications/tools/list_changed"} here"}}"#,
        r#"{"jsonrpc":"2.0","id":99,"result":{"text":"it said {"jsonrpc":"2.0","id":7,"result":{"a":1}} ok"}}"#,
        r#"{"jsonrpc":"2.0","id":99,"result":{"text":"it said" {"jsonrpc":"2.0","id":7,"result":{"a":1}}{ "}}"#,
    ] {
        assert_eq!(repair(text.as_bytes(), limits()).messages, [""; 0], "{text}");
    }
    // Nor does it end another request.
    let text = r#"{"jsonrpc":"2.0","id":99,"result":{"text":"it said {"jsonrpc":"2.0","id":7,"result":[1 2]} ok"}}"#;
    let ids: Vec<_> = repair(text.as_bytes(), limits()).broken.iter().map(|broken| broken.id).collect();
    assert_eq!(ids, [ResponseId::Exact(99)]);
    // Nothing else is there, so that the version may be left out, as in any message.
    for (text, count) in [(r#"{"id":7,"result":{"a":NaN}}"#, 1), (r#"{"id":1,"result":{}} {"id":2,"result":{}}"#, 2)] {
        assert_eq!(repair(text.as_bytes(), limits()).messages.len(), count, "{text}");
    }
    // A log behind a broken object is no member.
    let text = r#"{"pid":12 oops} INFO: {"jsonrpc":"2.0","id":7,"result":{}}"#;
    assert_eq!(repair(text.as_bytes(), limits()).messages, [r#"{"jsonrpc":"2.0","id":7,"result":{}}"#]);
}
