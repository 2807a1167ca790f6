//! Reports as JSON, without secrets. Each value is searched on its own: a secret that is an ordinary word changes no name of
//! a member, no fixed word of a report and no punctuation.

use std::borrow::Cow;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::{CharEscape, Formatter, PrettyFormatter};

use crate::secrets::hidden;

/// Members of reports whose strings are words of the probe, or the name of a server in a file.
const FIXED: [&str; 14] = [
    "advice",
    "cause",
    "era",
    "family",
    "grants",
    "kind",
    "outcome",
    "protocolVersion",
    "registration",
    "renamed",
    "server",
    "sign",
    "stage",
    "status",
];

/// A report, without secrets in its values.
pub(crate) fn to_json(report: &impl Serialize) -> io::Result<String> {
    let mut out = Vec::new();
    report.serialize(&mut Serializer::with_formatter(&mut out, Hiding::default()))?;
    String::from_utf8(out).map_err(io::Error::other)
}

/// The name of a member that a server chose. One that has only letters is a name in a protocol or a schema, more likely than
/// a secret.
pub(crate) fn hidden_name(name: &str) -> Cow<'_, str> {
    let is_word = name.bytes().all(|byte| byte.is_ascii_alphabetic() || b"_$".contains(&byte))
        && !name.as_bytes().windows(2).any(|pair| pair.iter().all(u8::is_ascii_uppercase));
    if is_word { Cow::Borrowed(name) } else { hidden(name) }
}

/// Writes JSON as `to_string_pretty` does.
#[derive(Default)]
struct Hiding<'a> {
    pretty: PrettyFormatter<'a>,
    /// The name of the member that is written.
    member: Vec<u8>,
    is_name: bool,
    /// The string that is written, as in JSON, without quotes.
    string: Vec<u8>,
}

impl Formatter for Hiding<'_> {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.pretty.begin_array(writer)
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.pretty.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.pretty.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.pretty.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.pretty.begin_object(writer)
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.pretty.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.is_name = true;
        self.pretty.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.is_name = false;
        self.pretty.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.pretty.end_object_value(writer)
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, _: &mut W, fragment: &str) -> io::Result<()> {
        self.string.extend_from_slice(fragment.as_bytes());
        Ok(())
    }

    fn write_char_escape<W: ?Sized + Write>(&mut self, _: &mut W, escape: CharEscape) -> io::Result<()> {
        self.pretty.write_char_escape(&mut self.string, escape)
    }

    fn end_string<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        let string = std::mem::take(&mut self.string);
        if self.is_name || FIXED.iter().any(|name| name.as_bytes() == self.member) {
            writer.write_all(&string)?;
        } else {
            writer.write_all(hidden(&String::from_utf8_lossy(&string)).as_bytes())?;
        }
        if self.is_name {
            self.member = string;
        }
        self.pretty.end_string(writer)
    }

    /// The code of a server's error.
    fn write_i64<W: ?Sized + Write>(&mut self, writer: &mut W, value: i64) -> io::Result<()> {
        writer.write_all(hidden_number(&value.to_string()).as_bytes())
    }

    fn write_raw_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        writer.write_all(hidden_raw(fragment).as_bytes())
    }
}

/// JSON of a server, without secrets in its strings and numbers.
fn hidden_raw(json: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(json.len()), json);
    while let Some((before, after)) = rest.split_once('"') {
        hide_numbers(&mut out, before);
        let mut is_escaped = false;
        let end = after.find(|it| {
            let is_end = it == '"' && !is_escaped;
            is_escaped = it == '\\' && !is_escaped;
            is_end
        });
        let (string, after) = after.split_at(end.unwrap_or(after.len()));
        rest = after.strip_prefix('"').unwrap_or_default();
        let is_name = rest.trim_start().starts_with(':');
        let string = if is_name { hidden_name(string) } else { hidden(string) };
        out.extend(["\"", &*string, "\""]);
    }
    hide_numbers(&mut out, rest);
    out
}

/// Appends JSON that has no strings.
fn hide_numbers(out: &mut String, json: &str) {
    let is_number = |it: char| it.is_ascii_digit() || "+-.eE".contains(it);
    let mut rest = json;
    while let Some(begin) = rest.find(is_number) {
        let (before, number) = rest.split_at(begin);
        let (number, after) = number.split_at(number.find(|it| !is_number(it)).unwrap_or(number.len()));
        out.extend([before, &*hidden_number(number)]);
        rest = after;
    }
    out.push_str(rest);
}

/// A number, or a mask in its place: a number, or a string.
fn hidden_number(number: &str) -> Cow<'_, str> {
    match hidden(number) {
        mask if *mask != *number && mask.bytes().any(|byte| !byte.is_ascii_digit()) => {
            Cow::Owned(format!("\"{mask}\""))
        }
        shown => shown,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::secrets::keep;

    #[derive(Serialize)]
    struct Report<'a> {
        outcome: &'a str,
        purposeword: &'a str,
        list: [&'a str; 2],
        code: i64,
        raw: &'a RawValue,
    }

    #[test]
    fn values_have_no_secrets_and_names_and_fixed_words_stay() {
        let secrets = ["purposeword", "outcome-word", "json-\"quo\\ted\"", "},\"a-b\":{", "9182736450", "-91.8273e4"];
        secrets.into_iter().for_each(keep);
        let raw = r#"{"purposeword": "purposeword", "a-b":{},"a-b":{"outcome-word":[9182736450, 1.5, -91.8273e4, true]},
            "x":"json-\"quo\\ted\"", "y\u0041": "\\"}"#;
        let raw: &RawValue = serde_json::from_str(raw).unwrap();
        let (purposeword, list) = ("of purposeword", ["json-\"quo\\ted\"", "\u{1}\n"]);
        let json = to_json(&Report { outcome: "outcome-word", purposeword, list, code: 9_182_736_450, raw }).unwrap();
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(read["outcome"], "outcome-word");
        assert!(read["purposeword"].as_str().unwrap().starts_with("of secret"), "{json}");
        assert!(read["list"][0].as_str().unwrap().starts_with("secret") && read["list"][1] == list[1], "{json}");
        assert!(
            read["code"].is_number() && read["raw"]["purposeword"].as_str().unwrap().starts_with("secret"),
            "{json}"
        );
        assert!(read["raw"]["yA"] == "\\" && json.matches("purposeword\"").count() == 2, "{json}");
        for secret in ["json-", "9182736450", "91.8273e4"] {
            assert!(!json.contains(secret), "{json}");
        }
        assert_eq!(json.matches("outcome-word").count(), 1, "{json}");
    }

    #[test]
    fn what_has_no_secrets_is_as_serde_writes_it() {
        let raw: &RawValue = serde_json::from_str(r#"{"a":[1, -2.5e7,"b\"",null ], "c" : {} }"#).unwrap();
        let report = Report { outcome: "ä\u{7f}", purposeword: "", list: ["\"", "\\"], code: -32601, raw };
        assert_eq!(to_json(&report).unwrap(), serde_json::to_string_pretty(&report).unwrap());
        assert_eq!(
            to_json(&([(); 0], (), true, 1.5)).unwrap(),
            serde_json::to_string_pretty(&([(); 0], (), true, 1.5)).unwrap()
        );
    }
}
