//! The lines of a journal.

use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use core::fmt::{Display, Write};
use core::hash::Hasher;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use siphasher::sip::SipHasher13;

use crate::Time;

/// The version of the format.
pub(super) const FORMAT: u32 = 1;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header<'a, O> {
    pub(super) journal: u32,
    #[serde(rename = "crate")]
    pub(super) version: Cow<'a, str>,
    pub(super) binding: BindingForm<'a>,
    pub(super) options: O,
    pub(super) seed: u64,
    /// It follows when the line is closed.
    #[serde(default, rename = "sum", skip_serializing)]
    pub(super) _sum: Option<Cow<'a, str>>,
}

/// A binding, as the header names it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
pub enum BindingForm<'a> {
    /// [`Messages`](crate::Messages).
    Messages,
    /// [`Lines`](crate::Lines).
    Lines,
    /// `Http`.
    Http {
        /// The server's address, without its secrets.
        url: Cow<'a, str>,
    },
    /// No binding: it is the journal of a [`Hub`](crate::host::hub::Hub).
    Hub,
}

/// A line after the first. It has one member besides its time and its sum.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry<'a> {
    pub(super) at: Time,
    #[serde(borrow, default, rename = "in")]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) out: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) end: Option<End>,
    #[serde(default, rename = "sum")]
    pub(super) _sum: Option<Cow<'a, str>>,
}

/// `null` is a value: there was no action.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Why a journal ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum End {
    /// The recorder was finished.
    Finished,
    /// A limit was reached: what followed is not in the journal.
    Limit,
}

/// A value of this crate as JSON.
pub(super) fn json(value: &impl Serialize) -> String {
    // These values serialize without errors.
    serde_json::to_string(value).unwrap_or_else(|_| "null".into())
}

/// The result of a command as JSON.
pub(super) fn command_result<T: Serialize, E: Display>(result: &Result<T, E>) -> String {
    #[derive(Serialize)]
    #[serde(tag = "type", content = "value", rename_all = "snake_case")]
    enum Form<'a, T> {
        Ok(&'a T),
        Err(String),
    }
    json(&match result {
        Ok(accepted) => Form::Ok(accepted),
        Err(error) => Form::Err(error.to_string()),
    })
}

/// Appends the sum of a line and a line feed. `line` is an object without its closing brace.
pub(super) fn close(line: &mut String, number: usize) {
    let sum = sum(line.as_bytes(), number);
    // Writing into memory cannot fail.
    let _ = writeln!(line, ",\"sum\":\"{sum:08x}\"}}");
}

/// Whether the sum at the end of a line, without its line feed, is that of the line at this number. A line without one
/// was written by hand.
pub(super) fn has_valid_sum(line: &str, number: usize) -> bool {
    let Some((text, end)) = line.rsplit_once(",\"sum\":\"") else { return true };
    let Some(written) = end.strip_suffix("\"}") else { return true };
    u32::from_str_radix(written, 16).is_ok_and(|written| written == sum(text.as_bytes(), number))
}

/// It detects damage, not forgery.
fn sum(text: &[u8], number: usize) -> u32 {
    let mut hasher = SipHasher13::new_with_keys(0, number as u64);
    hasher.write(text);
    hasher.finish() as u32
}
