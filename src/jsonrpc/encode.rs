//! Writes messages and JSON objects.

use alloc::vec::Vec;
use core::fmt::Write;

use super::json::{after_plain, is_plain};
use super::{ErrorObject, PeerId};

/// Writes a JSON object member by member, in call order.
#[derive(Debug)]
pub struct Object<'a> {
    out: &'a mut Vec<u8>,
    empty: bool,
}

impl<'a> Object<'a> {
    /// Opens an object.
    pub fn begin(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, empty: true }
    }

    /// Writes a member's name, and returns the buffer. The caller appends exactly one JSON value.
    pub fn value(&mut self, name: &str) -> &mut Vec<u8> {
        self.separate();
        string(self.out, name);
        self.out.push(b':');
        self.out
    }

    /// Like [`value`](Self::value), for a name that needs no escapes.
    pub(crate) fn plain(&mut self, name: &'static str) -> &mut Vec<u8> {
        self.separate();
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    fn separate(&mut self) {
        if !self.empty {
            self.out.push(b',');
        }
        self.empty = false;
    }

    /// Writes a string member.
    pub fn string(&mut self, name: &str, value: &str) -> &mut Self {
        string(self.value(name), value);
        self
    }

    /// Writes a member whose value is already JSON.
    pub fn raw(&mut self, name: &str, json: &str) -> &mut Self {
        self.value(name).extend_from_slice(json.as_bytes());
        self
    }

    /// Writes a member whose name and value are both already JSON.
    pub(crate) fn member(&mut self, name: &str, json: &str) {
        self.separate();
        self.out.extend_from_slice(name.as_bytes());
        self.out.push(b':');
        self.out.extend_from_slice(json.as_bytes());
    }

    /// Writes the members of an object that was begun and not ended.
    pub(crate) fn members_of(&mut self, begun: &[u8]) {
        self.separate();
        self.out.extend_from_slice(begun.get(1..).unwrap_or_default());
    }

    /// Writes an integer member.
    pub fn integer(&mut self, name: &str, value: i128) -> &mut Self {
        integer(self.value(name), value);
        self
    }

    /// Writes an object member.
    pub fn object(&mut self, name: &str, members: impl FnOnce(&mut Object<'_>)) -> &mut Self {
        let mut object = Object::begin(self.value(name));
        members(&mut object);
        object.end();
        self
    }

    /// Closes the object.
    pub fn end(self) {
        self.out.push(b'}');
    }
}

/// Writes a request; `params` writes its parameters, if it has any.
pub fn request(out: &mut Vec<u8>, id: u64, method: &str, params: Option<impl FnOnce(&mut Vec<u8>)>) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    digits(out, id);
    out.extend_from_slice(br#","method":"#);
    string(out, method);
    if let Some(params) = params {
        out.extend_from_slice(br#","params":"#);
        params(out);
    }
    out.push(b'}');
}

/// Writes a notification; `params` writes its parameters, if it has any.
pub fn notification(out: &mut Vec<u8>, method: &str, params: Option<impl FnOnce(&mut Vec<u8>)>) {
    envelope(out, |object| {
        string(object.plain("method"), method);
        if let Some(params) = params {
            params(object.plain("params"));
        }
    });
}

/// Writes a response with a result; `json` is the result.
pub fn result(out: &mut Vec<u8>, id: &PeerId, json: &str) {
    envelope(out, |object| {
        object.raw("id", id.get()).raw("result", json);
    });
}

/// Writes a response with an error.
pub fn error(out: &mut Vec<u8>, id: &PeerId, error: &ErrorObject) {
    envelope(out, |object| {
        object.raw("id", id.get()).object("error", |object| {
            object.integer("code", error.code.into()).string("message", &error.message);
            if let Some(data) = &error.data {
                object.raw("data", data.get());
            }
        });
    });
}

fn envelope(out: &mut Vec<u8>, members: impl FnOnce(&mut Object<'_>)) {
    let mut object = Object::begin(out);
    object.member(r#""jsonrpc""#, r#""2.0""#);
    members(&mut object);
    object.end();
}

fn integer(out: &mut Vec<u8>, value: i128) {
    match u64::try_from(value) {
        Ok(value) => digits(out, value),
        // Writing into memory cannot fail.
        Err(_) => {
            let _ = write!(Text(out), "{value}");
        }
    }
}

/// Writes an integer.
pub(crate) fn digits(out: &mut Vec<u8>, mut value: u64) {
    /// The digits of the greatest value.
    const MOST: usize = 20;
    let (mut digits, mut first) = ([b'0'; MOST], MOST);
    for (place, digit) in digits.iter_mut().enumerate().rev() {
        first = place;
        *digit |= (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(first..).unwrap_or_default());
}

/// Writes a JSON string (RFC 8259, section 7).
pub fn string(out: &mut Vec<u8>, value: &str) {
    let mut rest = value.as_bytes();
    out.reserve(rest.len().saturating_add(2));
    out.push(b'"');
    if is_plain(rest) {
        out.extend_from_slice(rest);
        out.push(b'"');
        return;
    }
    while let Some((byte, after)) = after_plain(rest) {
        let (plain, _) = rest.split_at(rest.len().wrapping_sub(after.len()).wrapping_sub(1));
        out.extend_from_slice(plain);
        match byte {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            ..b' ' => {
                let _ = write!(Text(out), "\\u{byte:04x}");
            }
            _ => out.extend([b'\\', byte]),
        }
        rest = after;
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

struct Text<'a>(&'a mut Vec<u8>);

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}
