//! Decoded messages, compared with what `serde_json` reads.

use std::fmt;

use mcp_proto::jsonrpc::{Body, Decoded, Message, MessageLimits, Noise, decode};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members of an object, as `serde_json` reads them.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}

impl<'a> Members<'a> {
    fn last(&self, name: &str) -> Option<&'a str> {
        self.0.iter().rev().find(|(member, _)| member == name).map(|(_, value)| value.get())
    }
}

/// Compares a message with the members that `serde_json` reads.
fn check_message(text: &str, members: Option<&Members<'_>>, read: Result<&Message<'_>, &Noise>) {
    let Some(members) = members else { panic!("{text}: no object, and read as {read:?}") };
    let given = |name: &str| members.last(name).filter(|value| *value != "null");
    let same = |read: Option<&RawValue>, name: &str| {
        let expected = if name == "result" { members.last(name) } else { given(name) };
        // The same slice of the text, not only an equal one.
        assert_eq!(
            read.map(|raw| raw.get().as_bytes().as_ptr_range()),
            expected.map(|text| text.as_bytes().as_ptr_range()),
            "{text}"
        );
    };
    match read.map(|message| &message.body) {
        Ok(Body::Request { id, method, params }) => {
            assert_eq!(Some(id.get()), members.last("id"), "{text}");
            assert_eq!(serde_json::from_str::<String>(members.last("method").unwrap()).unwrap(), **method, "{text}");
            same(*params, "params");
        }
        Ok(Body::Notification { method, params }) => {
            assert_eq!(given("id"), None, "{text}");
            assert_eq!(serde_json::from_str::<String>(members.last("method").unwrap()).unwrap(), **method, "{text}");
            same(*params, "params");
        }
        Ok(Body::Result { result, .. }) => {
            assert_eq!((members.last("method"), given("error")), (None, None), "{text}");
            same(Some(*result), "result");
        }
        Ok(Body::Error { .. }) => {
            assert!(members.last("method").is_none() && given("error").is_some(), "{text}");
        }
        Err(noise) => {
            assert_eq!(*noise, Noise::NotAMessage, "{text}");
            let method = members.last("method").map(serde_json::from_str::<String>);
            let id_fits = given("id").is_none_or(|id| id.starts_with(|c| matches!(c, '"' | '-' | '0'..='9')));
            let answer = members.last("result").is_some() || given("error").is_some();
            match method {
                Some(method) => assert!(method.is_err() || !id_fits, "{text}"),
                None => assert!(!answer, "{text}"),
            }
        }
    }
}

/// Decodes a text, and compares it with `serde_json`. Returns whether it was JSON.
fn compare(text: &str) -> bool {
    let trimmed = text.trim_start_matches('\u{feff}').trim_matches([' ', '\t', '\r', '\n']);
    let json = serde_json::from_str::<&RawValue>(trimmed);
    let decoded = decode(text.as_bytes(), MessageLimits::default());
    match &decoded {
        Ok(Decoded::Blank) => assert_eq!(trimmed, ""),
        Ok(Decoded::One(message)) => {
            let members = serde_json::from_str(trimmed).ok();
            check_message(text, members.as_ref(), Ok(message));
        }
        Ok(Decoded::Batch(messages)) => {
            let elements: Vec<&RawValue> = serde_json::from_str(trimmed).unwrap();
            assert_eq!(elements.len(), messages.len(), "{text}");
            for (element, message) in elements.iter().zip(messages) {
                match (serde_json::from_str(element.get()), message) {
                    (Err(_), Err(noise)) => assert_eq!(*noise, Noise::NotAMessage, "{text}"),
                    (members, message) => check_message(text, members.as_ref().ok(), message.as_ref()),
                }
            }
        }
        Err(Noise::NotAMessage) => {
            assert!(json.is_ok(), "{text}");
            if trimmed.starts_with('{') {
                let members = serde_json::from_str(trimmed).ok();
                check_message(text, members.as_ref(), Err(&Noise::NotAMessage));
            }
        }
        // The name of a member must be a string to be recognized.
        Err(Noise::NotJson) if trimmed.starts_with('{') => {
            assert!(serde_json::from_str::<Members<'_>>(trimmed).is_err(), "{text}");
        }
        Err(Noise::NotJson) => assert!(json.is_err(), "{text}"),
        Err(Noise::TooDeep { .. }) => {
            let brackets = text.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count();
            assert!(brackets > 128, "{text}");
        }
        Err(noise) => panic!("{text}: {noise}"),
    }
    json.is_ok()
}

#[test]
fn messages_of_many_shapes() {
    for text in [
        r#"{"jsonrpc":"2.0","id":1,"result":{"a":[1,{"b":"\"}"}],"c":-1.5e-3}}"#,
        r#"{"id":1,"result":1,"result":2,"error":null}"#,
        r#"{"method":"a","method":"b\u0000","params":[],"params":{} }"#,
        r#"{"\u006dethod":"a","p\u0061rams":[1],"params":[2]}"#,
        r#"{"params":[2],"p\u0061rams":[1],"method":"a"}"#,
        r#"{"\ud800":1,"method":"a"}"#,
        r#"{"x":{"\ud800":1},"method":"a"}"#,
        r#"{"method":"\ud800"}"#,
        r#"{"method":"a","x":"\udc00\ud800"}"#,
        r#"[{"\ud800":1,"method":"a"},{"method":"b"},[{"method":"c"}]]"#,
        "\u{feff}\u{feff} {\"method\"\n:\t\"a\"\r}\r\n",
        " \u{feff}{}",
        "[]",
        "[[],[]]",
    ] {
        compare(text);
    }
}

#[test]
fn an_invalid_member_name_invalidates_only_its_message() {
    let noise = |text: &str| decode(text.as_bytes(), MessageLimits::default()).unwrap_err();
    assert_eq!(noise(r#"{"\ud800":1,"method":"a"}"#), Noise::NotJson);
    let text = r#"[{"\ud800":1,"method":"a"},{"method":"b","params":{"\ud800":1}}]"#;
    let Ok(Decoded::Batch(messages)) = decode(text.as_bytes(), MessageLimits::default()) else { panic!() };
    assert!(matches!(messages[0], Err(Noise::NotAMessage)) && messages[1].is_ok());
}

#[test]
fn excessive_depth_is_reported_whatever_else_is_wrong() {
    let deep = "[".repeat(129);
    for text in [deep.clone(), format!("{{]{deep}"), format!("{{\"a\":\"\n\"{deep}"), format!("[1 2]{deep}")] {
        assert_eq!(
            decode(text.as_bytes(), MessageLimits::default()).unwrap_err(),
            Noise::TooDeep { limit: 128 },
            "{text}"
        );
    }
    let text = format!("{{\"a\":\"\n{deep}");
    assert_eq!(decode(text.as_bytes(), MessageLimits::default()).unwrap_err(), Noise::NotJson);
}

fn config() -> ProptestConfig {
    let path = Box::new(FileFailurePersistence::Direct("proptest-regressions/envelope.txt"));
    ProptestConfig { cases: 2_000, failure_persistence: Some(path), ..ProptestConfig::default() }
}

fn white() -> impl Strategy<Value = &'static str> {
    prop_oneof![6 => Just(""), 1 => Just(" "), 1 => Just("\r\n\t")]
}

fn string() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => "[a-z ]{0,12}",
        1 => prop::char::range('\u{20}', '\u{2fff}').prop_filter("bare", |c| !matches!(c, '"' | '\\')).prop_map(String::from),
        1 => prop::sample::select(vec![r"\n", r#"\""#, r"\\", r"\/", r"\u00e9", r"\uD83d\ude00", r"\ud800"]).prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

fn number() -> impl Strategy<Value = String> {
    "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,9})?([eE][+-]?[0-9]{1,3})?"
}

fn value() -> impl Strategy<Value = String> {
    let leaf =
        prop_oneof![string(), number(), prop::sample::select(vec!["null", "true", "false"]).prop_map(String::from)];
    leaf.prop_recursive(5, 40, 5, |inner| {
        let element = (white(), inner.clone(), white()).prop_map(|(a, value, b)| format!("{a}{value}{b}"));
        let member = (white(), string(), white(), white(), inner, white())
            .prop_map(|(a, name, b, c, value, d)| format!("{a}{name}{b}:{c}{value}{d}"));
        prop_oneof![
            prop::collection::vec(element, 0..5).prop_map(|elements| format!("[{}]", elements.join(","))),
            prop::collection::vec(member, 0..5).prop_map(|members| format!("{{{}}}", members.join(","))),
        ]
    })
}

/// JSON that is close to a message: some valid members, possibly repeated, and others.
fn message() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        8 => prop::sample::select(vec!["jsonrpc", "id", "method", "params", "result", "error", r"m\u0065thod", r"resul\u0074"])
            .prop_map(|name| format!("\"{name}\"")),
        1 => string(),
    ];
    let value = prop_oneof![4 => value(), 1 => Just("\"2.0\"".to_owned()), 1 => Just("7".to_owned()), 2 => Just("\"m\"".to_owned())];
    let member =
        (white(), name, white(), white(), value).prop_map(|(a, name, b, c, value)| format!("{a}{name}{b}:{c}{value}"));
    prop::collection::vec(member, 0..7).prop_map(|members| format!("{{{}}}", members.join(",")))
}

/// A change of a text: a position, the number of removed bytes, and an inserted character.
type Damage = (prop::sample::Index, usize, Option<char>);

fn damage() -> impl Strategy<Value = Option<Damage>> {
    let char = prop::sample::select("{}[],:\"\\0-.eEu+ \n\u{0}é".chars().collect::<Vec<_>>());
    prop::option::of((any::<prop::sample::Index>(), 0..3_usize, prop::option::of(char)))
}

fn damaged(text: &str, damage: Option<Damage>) -> String {
    let Some((place, less, more)) = damage else { return text.to_owned() };
    let chars: Vec<char> = text.chars().collect();
    let at = place.index(chars.len() + 1);
    chars[..at].iter().copied().chain(more).chain(chars[at..].iter().copied().skip(less)).collect()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn one_message(text in message(), damage in damage(), before in white(), after in white()) {
        let valid = compare(&format!("{before}{}{after}", damaged(&text, damage)));
        prop_assert!(valid || damage.is_some());
    }

    #[test]
    fn a_batch(messages in prop::collection::vec(prop_oneof![3 => message(), 1 => value()], 0..4), damage in damage()) {
        let valid = compare(&damaged(&format!("[{}]", messages.join(" ,")), damage));
        prop_assert!(valid || damage.is_some());
    }

    #[test]
    fn any_value(text in value(), damage in damage()) {
        let valid = compare(&damaged(&text, damage));
        prop_assert!(valid || damage.is_some());
    }
}
