//! `application/x-www-form-urlencoded`.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use zeroize::Zeroizing;

/// Parameters of a form or a query, encoded.
#[derive(Default)]
pub(super) struct Form(Zeroizing<String>);

impl Form {
    pub(super) fn push(&mut self, name: &str, value: &str) {
        if !self.0.is_empty() {
            self.0.push('&');
        }
        encode(&mut self.0, name);
        self.0.push('=');
        encode(&mut self.0, value);
    }

    pub(super) fn push_some(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.push(name, value);
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }
}

/// Appends a value, encoded.
pub(super) fn encode(out: &mut String, value: &str) {
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
}

/// The value of a parameter of an encoded form. `Err` if it is there more than once, or is not text.
pub(super) fn param(form: &str, name: &str) -> Result<Option<Zeroizing<String>>, ()> {
    let mut found = None;
    for pair in form.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if decode(key).is_some_and(|key| *key == name) {
            let value = decode(value).ok_or(())?;
            if found.replace(value).is_some() {
                return Err(());
            }
        }
    }
    Ok(found)
}

fn decode(text: &str) -> Option<Zeroizing<String>> {
    let mut out = Zeroizing::new(Vec::with_capacity(text.len()));
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let (high, low) = (digit(bytes.next()?)?, digit(bytes.next()?)?);
                (high << 4) | low
            }
            _ => byte,
        });
    }
    Some(Zeroizing::new(core::str::from_utf8(&out).ok()?.into()))
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_text_decodes_to_the_original() {
        let mut form = Form::default();
        for (name, value) in [("a", "1 2+3"), ("b", "ä&=%"), ("c", "")] {
            form.push(name, value);
        }
        assert_eq!(form.text(), "a=1%202%2B3&b=%C3%A4%26%3D%25&c=");
        for (name, value) in [("a", "1 2+3"), ("b", "ä&=%"), ("c", "")] {
            assert_eq!(param(form.text(), name).unwrap().unwrap().as_str(), value);
        }
        assert_eq!(param(form.text(), "d"), Ok(None));
        assert_eq!(param("a=1&a=2", "a"), Err(()));
        assert_eq!(param("a=%f", "a"), Err(()));
        assert_eq!(param("a=%ff", "a"), Err(()));
    }
}
