//! A journal of the commands, inputs and outputs of a client or a hub, and its replay (feature `journal`).
//!
//! A [`Recorder`] takes the place of a client or a hub, and writes a journal: text of one JSON object per line.
//! [`replay`] creates the client or hub again, gives it the recorded commands and inputs at their recorded times, and
//! compares its outputs with the recorded ones. They are the same, or the first difference is an error that names its line.
//! Neither does I/O. [The guide](crate::guide::recording) describes the use.
//!
//! ```
//! use mcp_proto::journal::{Input, JournalLimits, Recorder, TransportEvent, replay};
//! use mcp_proto::{Action, Command, Lines, Options, Time};
//!
//! let mut client = Recorder::new(Lines::new(), Options::new("my-host", "1.0"), 1, JournalLimits::default());
//! client.apply(Time::ZERO, Command::Open).unwrap();
//! let Some(Action::Open(connection)) = client.poll() else { panic!("a transport to open") };
//! let event = TransportEvent::Opened;
//! client.handle_input(Time::from_millis(3), Input::Transport { connection, event }).unwrap();
//! let Some(Action::Send(_discover)) = client.poll() else { panic!("the handshake") };
//!
//! let (_client, journal) = client.finish();
//! let replayed = replay(journal.as_bytes(), JournalLimits::default()).unwrap();
//! assert_eq!((replayed.inputs, replayed.actions), (2, 2));
//! assert!(replay(journal.replace("server/discover", "server/discovar").as_bytes(), JournalLimits::default()).is_err());
//! ```
//!
//! [`Recorder::of_hub`] records a [`Hub`](crate::host::hub::Hub) in the same way, with
//! [`HubCommand`](crate::host::hub::HubCommand) in place of [`Command`](crate::Command), and [`HubInput`] in place of
//! [`Input`].
//!
//! # Format
//! The first line is the header: `journal` (the version of the format), `crate` (the version of this crate), `binding`
//! (`hub` for a hub), `options`, `seed`, and `authorization` for a client that has one. Each further line has `at`, the
//! microseconds since the embedder's epoch, and one of
//!
//! - `in`: a command, or an [`Input`] or [`HubInput`];
//! - `result`: the result of the command in the line before, or of a redirect to an authorization;
//! - `out`: an action that was polled, or `null` if there was none;
//! - `end`: an [`End`], in the last line.
//!
//! JSON that a server or an embedder wrote stays as it is, byte for byte, except that a line has no line breaks: a line feed
//! or a carriage return between two tokens is a space there, and the members `lf` and `cr` say which spaces these are. Each is
//! an array of distances in bytes, the first one from the begin of the line, each other one from the place before.
//!
//! ```json
//! {"at":3000,"in":{"type":"notify","value":{"method":"x","params":{ "a":1 }}},"lf":[65,6],"sum":"…"}
//! ```
//!
//! The last member of each line, `sum`, detects that a line was changed or moved. A line without it is accepted, so a
//! journal can be written or edited by hand. It does not protect against forgery.
//!
//! # Secrets
//! A journal over HTTP has `redacted` in place of session ids, of user information and query of addresses, and of the
//! values of headers that a client does not read. This changes nothing that a client decides, so the replay has the same
//! bytes. Headers that the embedder adds are not known here. The contents of messages and bodies are recorded as they
//! are, the arguments and results of tools among them: a journal is as confidential as these. Secrets that the embedder
//! names with [`Recorder::hide`] are in no line. A [`Hider`] keeps them out of what else a program shows. The password in a
//! server's URL, or a token in the place of its name, is hidden like these, with a mask in the address too; one of less than
//! 8 bytes is only together with the name.
//!
//! Nor are those of an authorization: masks stand for tokens, codes and secrets, and `redacted` for what is derived from
//! them. A token that could be a part of the format is not looked for in other texts, because a server could choose it to
//! make the journal unreadable. [The guide](crate::guide::recording#a-client-that-authorizes-itself) says what is recorded
//! of an authorization.
//!
//! In the configuration of a hub, masks such as `redacted-3` stand for the values of `env`, `headers` and `auth`, and for
//! user information and query of addresses. Equal values have equal masks, so a replay finds the same differences between
//! configurations. Commands and arguments of programs are recorded as they are.

mod hider;
mod hub;
mod input;
#[cfg(feature = "oauth")]
mod oauth;
mod recorder;
mod replay;
mod secrets;

pub use hider::{HiddenStream, Hider};
pub use hub::HubInput;
pub use input::{Input, InputError, JournalBinding, Recordable, TransportEvent};
#[cfg(feature = "oauth")]
pub use oauth::OAuthReport;
pub use recorder::Recorder;
#[cfg(feature = "testkit")]
pub(crate) use replay::{Content, Given, Kind, Line as JournalLine, Reader, parsed, read};
pub use replay::{Played, Player, Replay, Replayed, replay};
pub use secrets::SecretError;

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{Display, Write};
use core::hash::Hasher;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use siphasher::sip::SipHasher13;

use crate::Time;
use crate::jsonrpc::has_either;

/// Limits on a journal. A recorder that reaches one ends the journal with [`End::Limit`]; a replay ends with
/// [`JournalError::Limit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JournalLimits {
    /// Bytes of one line; 16 MiB.
    pub line: usize,
    /// Lines; 1,000,000.
    pub entries: usize,
    /// Bytes of all lines; 64 MiB.
    pub bytes: usize,
}

impl Default for JournalLimits {
    fn default() -> Self {
        Self { line: 16 << 20, entries: 1_000_000, bytes: 64 << 20 }
    }
}

/// Why a journal cannot be replayed, or where its replay differs. Lines are counted from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The first line is not the header of a journal.
    #[error("this is not a journal: its first line is not a header: {why}")]
    NotAJournal {
        /// What is wrong with the line.
        why: Box<str>,
    },
    /// The journal has another format.
    #[error("the journal has format {found}, and this version of mcp-proto reads format {FORMAT}")]
    Format {
        /// The journal's format.
        found: u32,
    },
    /// The header names a binding that this build does not have.
    #[error("the journal is of a client over HTTP, for which mcp-proto needs the feature `http`")]
    NoHttp,
    /// The client of the journal has an authorization, which this build does not have.
    #[error("the client of the journal authorizes itself, for which mcp-proto needs the feature `oauth`")]
    NoOAuth,
    /// The journal is of a hub, where one of a client is needed.
    #[error("the journal is of a hub, not of a client")]
    OfHub,
    /// The journal is of a client, where one of a hub is needed.
    #[error("the journal is of a client, not of a hub")]
    OfClient,
    /// The journal of a hub has no session of this server.
    #[error("the journal has no session of the server `{server}`")]
    NoServer {
        /// The server.
        server: Box<str>,
    },
    /// A line is not an entry of a journal.
    #[error("line {line} of the journal is invalid: {why}")]
    Invalid {
        /// The line.
        line: usize,
        /// What is wrong with it.
        why: Box<str>,
    },
    /// A line is not as it was recorded, or lines were added, removed or reordered.
    #[error("line {line} of the journal is not the line that was recorded there: it was changed or moved")]
    Changed {
        /// The line.
        line: usize,
    },
    /// What the client does differs from what was recorded.
    #[error("line {line} of the journal differs from byte {at} on: recorded is `{expected}`, replayed is `{got}`")]
    Differs {
        /// The line.
        line: usize,
        /// The first byte that differs, counted from 0 in the recorded value.
        at: usize,
        /// The recorded value around this byte; `null` if there was no action.
        expected: Box<str>,
        /// The value of the replay around this byte; `null` if there was no action.
        got: Box<str>,
    },
    /// The journal ends without its last line. Up to there the replay is the same.
    #[error("the journal is cut off after line {line}; up to there the replay is the same")]
    CutOff {
        /// The last complete line.
        line: usize,
    },
    /// The journal exceeds a limit.
    #[error("line {line} of the journal exceeds the limit on {what}, {limit}")]
    Limit {
        /// The line.
        line: usize,
        /// The limit, a field of [`JournalLimits`].
        what: &'static str,
        /// Its value.
        limit: usize,
    },
}

/// The version of the format.
const FORMAT: u32 = 1;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header<'a, O> {
    journal: u32,
    #[serde(rename = "crate")]
    version: Cow<'a, str>,
    binding: BindingForm<'a>,
    options: O,
    seed: u64,
    /// The authorization of a client over HTTP, before its first input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    authorization: Option<Box<RawValue>>,
    /// What follows is written when the line is closed.
    #[serde(default, skip_serializing)]
    lf: Vec<usize>,
    #[serde(default, skip_serializing)]
    cr: Vec<usize>,
    #[serde(default, rename = "sum", skip_serializing)]
    _sum: Option<Cow<'a, str>>,
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

/// A line after the first. It has one member besides its time, its line breaks and its sum.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry<'a> {
    at: Time,
    #[serde(borrow, default, rename = "in")]
    input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    out: Option<&'a RawValue>,
    #[serde(default)]
    end: Option<End>,
    #[serde(default)]
    lf: Vec<usize>,
    #[serde(default)]
    cr: Vec<usize>,
    #[serde(default, rename = "sum")]
    _sum: Option<Cow<'a, str>>,
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
fn json(value: &impl Serialize) -> String {
    // These values serialize without errors.
    serde_json::to_string(value).unwrap_or_else(|_| "null".into())
}

/// The result of a command as JSON.
fn command_result<T: Serialize, E: Display>(result: &Result<T, E>) -> String {
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

/// Appends the places of line breaks, the sum of a line and a line feed. `line` is an object without its closing brace.
fn close(line: &mut String, number: usize) {
    // JSON strings contain no raw line breaks, so any line break is white space between tokens.
    if has_either(line.as_bytes(), b'\n', b'\r') {
        let places = [("lf", b'\n'), ("cr", b'\r')].map(|(name, of)| (name, distances(line, of)));
        *line = line.replace(['\n', '\r'], " ");
        for (name, places) in places.iter().filter(|(_, places)| !places.is_empty()) {
            // Writing into memory cannot fail.
            let _ = write!(line, ",\"{name}\":{}", json(places));
        }
    }
    let sum = sum(line.as_bytes(), number);
    // Writing into memory cannot fail.
    let _ = writeln!(line, ",\"sum\":\"{sum:08x}\"}}");
}

/// Where a line has a byte: each distance from the place before.
fn distances(line: &str, of: u8) -> Vec<usize> {
    let places = line.bytes().enumerate().filter(|(_, byte)| *byte == of).map(|(at, _)| at);
    let mut before = 0;
    places.map(|at| at.saturating_sub(core::mem::replace(&mut before, at))).collect()
}

/// A line with its line breaks, if it had any.
fn with_breaks(line: &str, lf: &[usize], cr: &[usize]) -> Result<Option<String>, &'static str> {
    if lf.is_empty() && cr.is_empty() {
        return Ok(None);
    }
    let mut bytes = line.as_bytes().to_vec();
    for (distances, of) in [(lf, b'\n'), (cr, b'\r')] {
        let mut at = 0_usize;
        for distance in distances {
            at = at.saturating_add(*distance);
            let space = bytes.get_mut(at).filter(|byte| **byte == b' ');
            *space.ok_or("`lf` or `cr` names a place that is no space")? = of;
        }
    }
    // One character of a byte is in place of another.
    Ok(String::from_utf8(bytes).ok())
}

/// Whether the sum at the end of a line, without its line feed, is that of the line at this number. A line without one
/// was written by hand.
fn has_valid_sum(line: &str, number: usize) -> bool {
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
