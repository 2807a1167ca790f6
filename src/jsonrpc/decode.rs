//! Decodes messages, and validates their JSON in the same pass.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::json::{Members, SpanRecorder, Surrogate, Unrecorded, after_plain, after_string, surrogate};
use super::{Json, Spans};

/// Maximum bytes of a peer's request id, which is kept until the request is answered.
const ID_BYTES: usize = 1024;

/// Bounds on one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct MessageLimits {
    /// Maximum bytes of a message. 64 MiB.
    pub bytes: usize,
    /// Maximum nesting of a message. 128, which is also the maximum of `serde_json`.
    pub depth: usize,
    /// Maximum messages in a batch. 10,000.
    pub batch: usize,
}

impl MessageLimits {
    /// Bytes allowed around a message of maximum length: a byte order mark, a carriage return, a few spaces.
    pub(crate) const SLACK: usize = 16;
}

impl Default for MessageLimits {
    fn default() -> Self {
        Self { bytes: 64 << 20, depth: 128, batch: 10_000 }
    }
}

/// Why bytes are not a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Noise {
    /// Longer than [`MessageLimits::bytes`].
    #[error("{len} bytes, more than the {limit} allowed")]
    TooLong {
        /// The message's length.
        len: usize,
        /// The bound.
        limit: usize,
    },
    /// Not UTF-8.
    #[error("not UTF-8")]
    NotUtf8,
    /// Nested deeper than [`MessageLimits::depth`].
    #[error("nested more than {limit} levels deep")]
    TooDeep {
        /// The bound.
        limit: usize,
    },
    /// Not JSON.
    #[error("not JSON")]
    NotJson,
    /// JSON, but neither a request, a notification nor a response.
    #[error("JSON, but no JSON-RPC message")]
    NotAMessage,
    /// The batch is longer than [`MessageLimits::batch`].
    #[error("beyond the {limit} messages that a batch may hold")]
    BatchTooLong {
        /// The bound.
        limit: usize,
    },
}

/// Deviations from JSON-RPC in a message that was accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deviations {
    /// `jsonrpc` is missing, or not `"2.0"`.
    pub version: bool,
    /// `error: null` with a result, or `result: null` with an error.
    pub error_null: bool,
    /// Both a result and an error; the error counts.
    pub result_and_error: bool,
    /// A notification with `id: null`.
    pub id_null: bool,
    /// An error that is no object, or whose code is missing or no integer.
    pub error_shape: bool,
    /// A string with half of a surrogate pair: a text that was cut in UTF-16.
    pub lone_surrogate: bool,
}

/// What [`Deviations::error_shape`] is, for a quirk.
pub(crate) const ERROR_SHAPE: &str = "an error without a code that is an integer";

/// A message; its payloads borrow from the decoded bytes.
#[derive(Debug)]
#[non_exhaustive]
pub struct Message<'a> {
    /// The content.
    pub body: Body<'a>,
    /// What deviates from JSON-RPC.
    pub deviations: Deviations,
}

/// The content of a message, by kind.
#[derive(Debug)]
pub enum Body<'a> {
    /// A request from the peer.
    Request {
        /// The id to repeat in the response.
        id: PeerId,
        /// The method.
        method: Cow<'a, str>,
        /// The parameters, raw.
        params: Option<&'a RawValue>,
    },
    /// A notification from the peer.
    Notification {
        /// The method.
        method: Cow<'a, str>,
        /// The parameters, raw.
        params: Option<&'a RawValue>,
    },
    /// A response with a result.
    Result {
        /// The id of the request that it answers.
        id: ResponseId,
        /// The result, raw.
        result: &'a RawValue,
    },
    /// A response with an error.
    Error {
        /// The id of the request that it answers.
        id: ResponseId,
        /// The error.
        error: ErrorObject,
    },
}

/// The content of some bytes.
#[derive(Debug)]
pub enum Decoded<'a> {
    /// Only white space.
    Blank,
    /// One message.
    One(Message<'a>),
    /// An array of messages, in order.
    Batch(Vec<Result<Message<'a>, Noise>>),
}

/// Decodes one message, or a batch of them.
///
/// A byte order mark and white space around the message are ignored. If an object repeats a member, the last one
/// counts.
pub fn decode(bytes: &[u8], limits: MessageLimits) -> Result<Decoded<'_>, Noise> {
    decode_with_spans(bytes, limits, &mut Spans::default())
}

/// Decodes as [`decode`] does. `spans` becomes where the members of the items of a list are, if the message is a long one.
pub(crate) fn decode_with_spans<'a>(
    bytes: &'a [u8],
    limits: MessageLimits,
    spans: &mut Spans,
) -> Result<Decoded<'a>, Noise> {
    *spans = Spans::default();
    let too_long = |len| Err(Noise::TooLong { len, limit: limits.bytes });
    if bytes.len() > limits.bytes.saturating_add(MessageLimits::SLACK) {
        return too_long(bytes.len());
    }
    let mut text = core::str::from_utf8(bytes).map_err(|_| Noise::NotUtf8)?;
    while let Some(rest) = text.strip_prefix('\u{feff}') {
        text = rest;
    }
    if text.len() > limits.bytes {
        text = text.trim_matches([' ', '\t', '\r', '\n']);
        if text.len() > limits.bytes {
            return too_long(text.len());
        }
    }
    let fault = |fault| match fault {
        // Text that is not JSON may also nest too deep after the fault; too deep is reported first.
        Fault::NotJson if !too_deep(text, limits.depth) => Noise::NotJson,
        Fault::NotJson | Fault::TooDeep => Noise::TooDeep { limit: limits.depth },
    };
    match skip_white(text.as_bytes()).first() {
        None => Ok(Decoded::Blank),
        Some(b'{') => {
            let mut envelope = Envelope::default();
            let take = |name: &'a [u8], value| envelope.take(name, value);
            let has_half = match SpanRecorder::of(text.len(), limits.depth) {
                None => {
                    let mut members = Unrecorded::default();
                    valid_object(text, limits.depth, &mut members, take).map_err(fault)?;
                    members.has_half
                }
                Some(mut recorder) => {
                    valid_object(text, limits.depth, &mut recorder, take).map_err(fault)?;
                    let has_half = recorder.has_half;
                    *spans = recorder.finish();
                    has_half
                }
            };
            envelope.message(has_half).map(Decoded::One)
        }
        Some(b'[') => {
            // The whole array is validated first, so that a truncated batch is rejected as a whole.
            let has_half = halves(text, limits.depth).map_err(fault)?;
            batch(Json::trusted(text), limits, has_half).map(Decoded::Batch)
        }
        Some(_) => Err(valid_value(text, 0).map_or(Noise::NotJson, |()| Noise::NotAMessage)),
    }
}

/// The messages of an array. `has_half`: whether one of them has half of a surrogate pair.
fn batch(array: Json<'_>, limits: MessageLimits, has_half: bool) -> Result<Vec<Result<Message<'_>, Noise>>, Noise> {
    let limit = limits.batch;
    let elements = array.elements(limit).ok_or(Noise::NotJson)?;
    let mut messages = Vec::with_capacity(elements.kept.len());
    messages.extend(elements.kept.into_iter().map(|element| {
        let (mut envelope, mut readable) = (Envelope::default(), element.is_object());
        element.raw_members(|name, value| readable &= envelope.take(name.text().as_bytes(), value).is_some());
        let has_half = has_half && halves(element.text(), limits.depth).unwrap_or_default();
        if readable { envelope.message(has_half) } else { Err(Noise::NotAMessage) }
    }));
    if elements.more {
        messages.push(Err(Noise::BatchTooLong { limit }));
    }
    Ok(messages)
}

#[derive(Default)]
struct Envelope<'a> {
    jsonrpc: Option<Json<'a>>,
    id: Option<Json<'a>>,
    method: Option<Json<'a>>,
    params: Option<Json<'a>>,
    result: Option<Json<'a>>,
    error: Option<Json<'a>>,
}

impl<'a> Envelope<'a> {
    /// Takes a member; `None` if its name is not a string.
    fn take(&mut self, name: &[u8], value: Json<'a>) -> Option<()> {
        if let Some(slot) = self.slot(name) {
            *slot = Some(value);
        } else if name.contains(&b'\\') {
            let plain = Json::trusted(core::str::from_utf8(name).ok()?).as_string()?;
            if let Some(slot) = self.slot(format!("\"{plain}\"").as_bytes()) {
                *slot = Some(value);
            }
        }
        Some(())
    }

    fn slot(&mut self, name: &[u8]) -> Option<&mut Option<Json<'a>>> {
        Some(match name {
            br#""jsonrpc""# => &mut self.jsonrpc,
            br#""id""# => &mut self.id,
            br#""method""# => &mut self.method,
            br#""params""# => &mut self.params,
            br#""result""# => &mut self.result,
            br#""error""# => &mut self.error,
            _ => return None,
        })
    }

    fn message(self, lone_surrogate: bool) -> Result<Message<'a>, Noise> {
        let mut deviations = Deviations {
            version: self.jsonrpc.is_none_or(|version| version.text() != "\"2.0\""),
            lone_surrogate,
            ..Deviations::default()
        };
        let body = match self.method {
            Some(method) => {
                let method = method.as_string().ok_or(Noise::NotAMessage)?;
                let params = self.params.filter(|params| !params.is_null()).map(Json::raw);
                match self.id.map(|id| (id, id.first())) {
                    None => Body::Notification { method, params },
                    Some((_, b'n')) => {
                        deviations.id_null = true;
                        Body::Notification { method, params }
                    }
                    Some((id, b'"' | b'-' | b'0'..=b'9')) if id.text().len() <= ID_BYTES => {
                        Body::Request { id: PeerId::new(id), method, params }
                    }
                    Some(_) => return Err(Noise::NotAMessage),
                }
            }
            None => self.response(&mut deviations)?,
        };
        Ok(Message { body, deviations })
    }

    fn response(&self, deviations: &mut Deviations) -> Result<Body<'a>, Noise> {
        let id = ResponseId::read(self.id);
        match (self.result, self.error) {
            (result, Some(error)) if !error.is_null() => {
                match result {
                    Some(result) if result.is_null() => deviations.error_null = true,
                    Some(_) => deviations.result_and_error = true,
                    None => {}
                }
                let (error, is_coded) = ErrorObject::read(error);
                deviations.error_shape = !is_coded;
                Ok(Body::Error { id, error })
            }
            (Some(result), error) => {
                deviations.error_null = error.is_some();
                Ok(Body::Result { id, result: result.raw() })
            }
            (None, _) => Err(Noise::NotAMessage),
        }
    }
}

/// The id of a response, compared with the integer ids that this side sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseId {
    /// An integer, written as one.
    Exact(u64),
    /// An integer, written as a string or with a zero fraction: `"7"`, `7.0`.
    Loose(u64),
    /// `null` or missing.
    Absent,
    /// Any other value; this side never sent it.
    Foreign,
}

impl ResponseId {
    pub(crate) fn read(raw: Option<Json<'_>>) -> Self {
        let Some(json) = raw else {
            return Self::Absent;
        };
        let text = json.text();
        if let Some(id) = integer(text) {
            return Self::Exact(id);
        }
        if text == "null" {
            return Self::Absent;
        }
        let loose = match json.as_string() {
            Some(string) => integer(&string),
            None => text
                .split_once('.')
                .filter(|(_, fraction)| fraction.bytes().all(|digit| digit == b'0'))
                .and_then(|(whole, _)| integer(whole)),
        };
        loose.map_or(Self::Foreign, Self::Loose)
    }
}

/// The integer, if it is written without a sign or leading zeros.
fn integer(text: &str) -> Option<u64> {
    let plain = text == "0" || text.starts_with(|first: char| matches!(first, '1'..='9'));
    text.parse().ok().filter(|_| plain)
}

/// The id of a peer's request: a string or a number, kept as written, so that the response can repeat it.
#[derive(Clone, Debug)]
pub struct PeerId(Box<RawValue>);

#[cfg(feature = "snapshot")]
pub(crate) mod peer_id {
    use alloc::boxed::Box;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::value::RawValue;

    use super::PeerId;

    pub(crate) fn serialize<S: Serializer>(id: &PeerId, serializer: S) -> Result<S::Ok, S::Error> {
        id.0.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PeerId, D::Error> {
        let raw: Box<RawValue> = Deserialize::deserialize(deserializer)?;
        let is_id = raw.get().starts_with(|first: char| matches!(first, '"' | '-' | '0'..='9'));
        is_id
            .then_some(PeerId(raw))
            .ok_or_else(|| D::Error::custom("the id of a server request is not a string or number"))
    }
}

impl PeerId {
    /// The id as written.
    pub fn get(&self) -> &str {
        self.0.get()
    }

    pub(super) fn new(raw: Json<'_>) -> Self {
        Self(raw.to_raw())
    }
}

/// The error of a JSON-RPC response, as the peer sent it.
#[derive(Clone, Debug, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[error("{message} ({code})")]
#[non_exhaustive]
pub struct ErrorObject {
    /// Error code; 0 if the peer sent no integer.
    pub code: i64,
    /// Message for people.
    pub message: Box<str>,
    /// Additional data, raw JSON.
    #[cfg_attr(
        feature = "serde",
        serde(
            default,
            skip_serializing_if = "Option::is_none",
            deserialize_with = "crate::form::optional_raw::deserialize"
        )
    )]
    pub data: Option<Box<RawValue>>,
}

/// The data are compared byte for byte.
impl PartialEq for ErrorObject {
    fn eq(&self, other: &Self) -> bool {
        let Self { code, message, data } = self;
        (code, message, data.as_deref().map(RawValue::get))
            == (&other.code, &other.message, other.data.as_deref().map(RawValue::get))
    }
}

impl Eq for ErrorObject {}

impl ErrorObject {
    /// An error without data.
    pub fn new(code: i64, message: impl Into<Box<str>>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Reads an `error` member, and whether it has a code. Never fails: if the value is not an object, it becomes the message.
    pub(crate) fn read(raw: Json<'_>) -> (Self, bool) {
        let (mut code, mut message, mut data) = (None, raw, None);
        raw.members(|name, value| match name {
            "code" => code = Json::trusted(value.text().trim_matches('"')).as_integer(),
            "message" => message = value,
            "data" => data = Some(value.to_raw()),
            _ => {}
        });
        let message = message.as_text().unwrap_or(Cow::Borrowed(message.text()));
        (Self { code: code.unwrap_or(0), message: message.into(), data }, code.is_some())
    }
}

/// Why a text is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is not JSON.
    NotJson,
    /// It nests deeper than the bound.
    TooDeep,
}

/// Validates that the text is one object, at most `limit` levels deep, and calls `each` with the name and value of
/// every member, as written, in order. Fails as not JSON if `each` returns `None`.
fn valid_object<'a>(
    text: &'a str,
    limit: usize,
    spans: &mut impl Members,
    mut each: impl FnMut(&'a [u8], Json<'a>) -> Option<()>,
) -> Result<(), Fault> {
    let limit = limit.checked_sub(1).ok_or(Fault::TooDeep)?;
    let place = |rest: &[u8]| text.len().wrapping_sub(rest.len());
    let (b'{', rest) = token(text.as_bytes()) else { return Err(Fault::NotJson) };
    let mut rest = skip_white(rest);
    if let [b'}', after @ ..] = rest {
        return at_end(after);
    }
    loop {
        let [b'"', quoted @ ..] = rest else { return Err(Fault::NotJson) };
        let after = after_text::<false>(quoted, spans).ok_or(Fault::NotJson)?;
        let (name, _) = rest.split_at_checked(rest.len().wrapping_sub(after.len())).ok_or(Fault::NotJson)?;
        let value = skip_white(after_colon(after).ok_or(Fault::NotJson)?);
        let after = match value {
            [b'"', quoted @ ..] => after_text::<false>(quoted, spans).ok_or(Fault::NotJson)?,
            _ => after_value(value, limit, spans)?,
        };
        let value = text.get(place(value)..place(after)).map(Json::trusted);
        value.and_then(|value| each(name, value)).ok_or(Fault::NotJson)?;
        match token(after) {
            (b',', after) => rest = skip_white(after),
            (b'}', after) => return at_end(after),
            _ => return Err(Fault::NotJson),
        }
    }
}

/// Validates that the text is one value, at most `limit` levels deep.
pub(super) fn valid_value(text: &str, limit: usize) -> Result<(), Fault> {
    halves(text, limit).map(drop)
}

/// Validates as [`valid_value`] does. Returns whether a string has half of a surrogate pair.
fn halves(text: &str, limit: usize) -> Result<bool, Fault> {
    let mut members = Unrecorded::default();
    at_end(after_value(text.as_bytes(), limit, &mut members)?)?;
    Ok(members.has_half)
}

fn at_end(rest: &[u8]) -> Result<(), Fault> {
    if skip_white(rest).is_empty() { Ok(()) } else { Err(Fault::NotJson) }
}

#[inline(always)]
const fn skip_white(bytes: &[u8]) -> &[u8] {
    // `cargo mutants` does not read a range without a beginning here.
    if let [0..=b' ', ..] = bytes { skip_more_white(bytes) } else { bytes }
}

/// Most messages have no white space between tokens.
#[cold]
#[inline(never)]
const fn skip_more_white(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t' | b'\n' | b'\r', rest @ ..] = bytes {
        bytes = rest;
    }
    bytes
}

/// The next byte that is not white space, and the bytes after it; at the end zero, which begins no token.
#[inline(always)]
const fn token(bytes: &[u8]) -> (u8, &[u8]) {
    match skip_white(bytes) {
        [byte, rest @ ..] => (*byte, rest),
        [] => (0, bytes),
    }
}

/// The bytes after the value that `bytes` begins with. Nearly every value is plain, and is validated faster as such.
fn after_value<'a>(bytes: &'a [u8], limit: usize, spans: &mut impl Members) -> Result<&'a [u8], Fault> {
    let recorded = spans.len();
    after_value_of::<true>(bytes, limit, spans).or_else(|_| {
        spans.truncate(recorded);
        after_value_of::<false>(bytes, limit, spans)
    })
}

/// Like `after_value`. A plain value nests less than 63 levels deep, and no string in it has half of a surrogate pair.
#[inline(never)]
fn after_value_of<'a, const PLAIN: bool>(
    bytes: &'a [u8],
    limit: usize,
    spans: &mut impl Members,
) -> Result<&'a [u8], Fault> {
    let (mut rest, mut room) = (bytes, limit);
    // One bit per open bracket, the innermost lowest: set if it is an object's. A marker bit is above them. Each full
    // set of 63 brackets is moved to `outer`.
    let (mut levels, mut outer) = (1_u64, Vec::new());
    loop {
        let (first, after) = token(rest);
        let value = match first {
            b'"' => after_text::<PLAIN>(after, spans),
            b'{' | b'[' => {
                room = room.checked_sub(1).ok_or(Fault::TooDeep)?;
                if levels >> 63 == 1 {
                    if PLAIN {
                        return Err(Fault::TooDeep);
                    }
                    outer.push(core::mem::replace(&mut levels, 1));
                }
                levels = levels << 1 | u64::from(first == b'{');
                match (first, token(after)) {
                    // The code below takes the closing bracket.
                    (b'{', (b'}', _)) | (b'[', (b']', _)) => Some(after),
                    (b'{', (quote, name)) => {
                        let after = after_name::<PLAIN>(quote, name, room, spans);
                        rest = after.and_then(after_colon).ok_or(Fault::NotJson)?;
                        continue;
                    }
                    _ => {
                        rest = after;
                        continue;
                    }
                }
            }
            b'-' => after_digit(after).and_then(|(first, rest)| after_number(first, rest)),
            b'0'..=b'9' => after_number(first, after),
            b't' => after.strip_prefix(b"rue"),
            b'f' => after.strip_prefix(b"alse"),
            b'n' => after.strip_prefix(b"ull"),
            _ => None,
        };
        rest = value.ok_or(Fault::NotJson)?;
        loop {
            spans.value(rest, room);
            if levels == 1 {
                match outer.pop() {
                    Some(around) => levels = around,
                    None => return Ok(rest),
                }
            }
            let in_object = levels & 1 == 1;
            let (byte, after) = token(rest);
            rest = after;
            match byte {
                b',' if in_object => {
                    let (quote, name) = token(rest);
                    let after = after_name::<PLAIN>(quote, name, room, spans);
                    rest = after.and_then(after_colon).ok_or(Fault::NotJson)?;
                    break;
                }
                b',' => break,
                b'}' | b']' if in_object == (byte == b'}') => {
                    levels >>= 1;
                    room = room.wrapping_add(1);
                }
                _ => return Err(Fault::NotJson),
            }
        }
    }
}

/// The bytes after a member's name, whose first byte should be `quote`. A name without escapes is passed to `spans`.
#[inline(always)]
fn after_name<'a, const PLAIN: bool>(
    quote: u8,
    name: &'a [u8],
    room: usize,
    spans: &mut impl Members,
) -> Option<&'a [u8]> {
    if quote != b'"' {
        return None;
    }
    match after_plain(name)? {
        (b'"', after) => {
            spans.name(name, after, room);
            Some(after)
        }
        (b'\\', after) => after_text::<PLAIN>(after_escape_of::<PLAIN>(after, spans)?, spans),
        _ => None,
    }
}

#[inline(always)]
fn after_colon(rest: &[u8]) -> Option<&[u8]> {
    match token(rest) {
        (b':', after) => Some(after),
        _ => None,
    }
}

/// The bytes after a string whose opening quote was already taken.
#[inline(always)]
fn after_text<'a, const PLAIN: bool>(bytes: &'a [u8], members: &mut impl Members) -> Option<&'a [u8]> {
    after_string(bytes, |rest| after_escape_of::<PLAIN>(rest, members))
}

/// As [`after_escape`]. Half of a surrogate pair is passed to `members`; a plain value has none.
#[inline(always)]
fn after_escape_of<'a, const PLAIN: bool>(rest: &'a [u8], members: &mut impl Members) -> Option<&'a [u8]> {
    if let [b'u', b'd' | b'D', ..] = rest { after_surrogate::<PLAIN>(rest, members) } else { after_escape(rest) }
}

/// Takes the second half of a pair together with the first one.
#[inline(never)]
fn after_surrogate<'a, const PLAIN: bool>(rest: &'a [u8], members: &mut impl Members) -> Option<&'a [u8]> {
    let after = after_escape(rest)?;
    match surrogate(rest) {
        Some(Surrogate::Pair) => after_escape(after.get(1..)?),
        Some(Surrogate::Lone) if PLAIN => None,
        Some(Surrogate::Lone) => {
            members.lone_surrogate();
            Some(after)
        }
        None => Some(after),
    }
}

/// An escape may be half of a surrogate pair; reading the string checks that.
pub(super) fn after_escape(rest: &[u8]) -> Option<&[u8]> {
    match rest {
        [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', rest @ ..] => Some(rest),
        [b'u', rest @ ..] => {
            let (digits, rest) = rest.split_first_chunk::<4>()?;
            digits.iter().all(u8::is_ascii_hexdigit).then_some(rest)
        }
        _ => None,
    }
}

/// The bytes after a number that begins with this digit.
pub(super) fn after_number(first: u8, mut rest: &[u8]) -> Option<&[u8]> {
    if first != b'0' {
        rest = skip_digits(rest);
    } else if after_digit(rest).is_some() {
        return None;
    }
    if !matches!(rest, [b'.' | b'e' | b'E', ..]) {
        return Some(rest);
    }
    if let [b'.', fraction @ ..] = rest {
        rest = skip_digits(after_digit(fraction)?.1);
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let exponent = if let [b'+' | b'-', digits @ ..] = exponent { digits } else { exponent };
        rest = skip_digits(after_digit(exponent)?.1);
    }
    Some(rest)
}

const fn after_digit(rest: &[u8]) -> Option<(u8, &[u8])> {
    match rest {
        [digit @ b'0'..=b'9', rest @ ..] => Some((*digit, rest)),
        _ => None,
    }
}

const fn skip_digits(mut rest: &[u8]) -> &[u8] {
    while let Some((_, after)) = after_digit(rest) {
        rest = after;
    }
    rest
}

/// Whether brackets outside strings nest deeper than `limit`, in any text.
fn too_deep(text: &str, limit: usize) -> bool {
    let (mut depth, mut string, mut escaped) = (0_usize, false, false);
    text.bytes().any(|byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if string => escaped = true,
            b'"' => string = !string,
            _ if string => {}
            b'[' | b'{' => depth = depth.saturating_add(1),
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > limit
    })
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;
    use alloc::string::String;

    use super::*;
    use crate::jsonrpc::json::{Ahead, LONG};

    /// The members of the items of a list, read with and without spans.
    fn members(text: &str, skip: bool) -> Vec<(String, String)> {
        let mut spans = Spans::default();
        let decoded = decode_with_spans(text.as_bytes(), MessageLimits::default(), &mut spans);
        let Ok(Decoded::One(message)) = decoded else { panic!("{text}") };
        let Body::Result { result, .. } = message.body else { panic!("{text}") };
        assert_eq!(Ahead::new(spans.clone()).is_empty(), text.len() < LONG, "{}", text.len());
        let (scan, mut found) = (Json::from(result).scan(), Vec::new());
        let mut scan = if skip { scan.with(spans) } else { scan };
        scan.each_member(|_, scan| {
            scan.each_element(|scan| {
                scan.members(|name, value| found.push((name.to_owned(), value.text().to_owned()))).is_some()
            });
        });
        found
    }

    #[test]
    fn a_scan_with_recorded_members_finds_the_same() {
        let deep = format!("{}{}", "[ ".repeat(70), "]".repeat(70));
        let schema = r#"{"a":["]}",{"b":"\\"} ] , "c" : { "description":"as long as it takes" }}"#;
        let item = format!(
            r#" {{"name":"n", "schema" : {schema}, "deep":{deep},"short":[1],"none": {{}} , "after": [ {schema} ], "na\u006de" :-1.5e3 ,"" :null}}"#
        );
        // Of items with short members, the first ones are recorded.
        let short = r#"{"a":1,"b":"","c":[],"d":{},"e":true,"f":0,"g":2,"h":3}"#;
        let half = short.replace(r#""b":"""#, r#""b":"\ud83d""#);
        for item in [&*item, short, &*half] {
            for count in [1, 5, 500] {
                let items = alloc::vec![item; count].join(",");
                let lists = format!(r#""first":[{items}],"second":[ {items}],"third":[[{{"a":[1]}},2]]"#);
                let text = format!(r#"{{"id":1, "result" : {{{lists}}},"jsonrpc":"2.0"}}"#);
                let plain = members(&text, false);
                assert_eq!(plain.len(), 16 * count);
                assert_eq!(members(&text, true), plain);
            }
        }
    }

    /// Calls `each` with every text of at most `len` of these pieces.
    fn every_text(pieces: &[&str], len: usize, each: &mut impl FnMut(&str)) {
        fn extend(text: &str, pieces: &[&str], len: usize, each: &mut impl FnMut(&str)) {
            each(text);
            let Some(len) = len.checked_sub(1) else { return };
            for piece in pieces {
                extend(&format!("{text}{piece}"), pieces, len, each);
            }
        }
        extend("", pieces, len, each);
    }

    #[test]
    fn every_short_text_is_judged_as_serde_json_does() {
        let structure = &["{", "}", "[", "]", ",", ":", "\"", "\"a\":", "1", " ", "null"];
        let number = &["-", "0", "1", "9", ".", "e", "E", "+", " ", ","];
        let string = &["\"", "\\", "u", "n", "/", "0", "F", "g", "\n", "\u{7f}", "é"];
        let words = &["t", "r", "u", "e", "f", "a", "l", "s", "n", "\0", "x"];
        let (mut texts, mut valid) = (0_u32, 0_u32);
        let mut compare = |text: &str| {
            let expected = serde_json::from_str::<&RawValue>(text).is_ok();
            assert_eq!(valid_value(text, 128).is_ok(), expected, "{text:?}");
            texts += 1;
            valid += u32::from(expected);
        };
        every_text(structure, 5, &mut compare);
        every_text(number, 5, &mut |text| compare(text));
        every_text(string, 4, &mut |text| {
            for before in ["", "\\u00a", "plain text, "] {
                compare(&format!("\"{before}{text}\""));
            }
        });
        every_text(words, 3, &mut |text| {
            for before in ["", "t", "tr", "fa", "fal", "n", "nu", "-"] {
                compare(&format!("[{before}{text}]"));
            }
        });
        assert!(texts > 300_000 && valid > 10_000, "{valid} of {texts}");
    }

    #[test]
    fn brackets_are_matched_and_counted_at_every_depth() {
        let brackets = [("[", "]"), ("{\"a\":", "}"), (" { \"\\n\" : ", " } ")];
        for depth in 1..200 {
            let levels: Vec<_> = (0..depth).map(|level| brackets[level * 7 % 3]).collect();
            let open: String = levels.iter().map(|(open, _)| *open).collect();
            let close: Vec<&str> = levels.iter().rev().map(|(_, close)| *close).collect();
            let text = format!("{open}0{}", close.concat());
            assert!(serde_json::from_str::<&RawValue>(&text).is_ok());
            assert_eq!(valid_value(&text, depth), Ok(()), "{text}");
            assert_eq!(valid_value(&text, depth - 1), Err(Fault::TooDeep), "{text}");
            for wrong in 0..depth {
                let mut close = close.clone();
                close[wrong] = if close[wrong] == "]" { "}" } else { "]" };
                assert_eq!(
                    valid_value(&format!("{open}0{}", close.concat()), depth),
                    Err(Fault::NotJson),
                    "{open} {close:?}"
                );
            }
        }
    }

    #[test]
    fn members_are_as_they_were_written() {
        let text = " {\"a\" : [1, {}] ,\n\"\\u0062\":\"x\\\"\",\"a\":{\"c\":-0.5E+7}, \"\" :null } ";
        let mut found = Vec::new();
        let each = |name: &[u8], value: Json<'_>| {
            found.push((String::from_utf8(name.to_vec()).unwrap(), value.text().to_owned()));
            Some(())
        };
        valid_object(text, 3, &mut Unrecorded::default(), each).unwrap();
        let expected =
            [("\"a\"", "[1, {}]"), (r#""\u0062""#, r#""x\"""#), ("\"a\"", r#"{"c":-0.5E+7}"#), ("\"\"", "null")];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(valid_object(text, 1, &mut Unrecorded::default(), |_, _| Some(())), Err(Fault::TooDeep));
        assert_eq!(valid_object(text, 0, &mut Unrecorded::default(), |_, _| Some(())), Err(Fault::TooDeep));
        assert_eq!(
            valid_object(text, 3, &mut Unrecorded::default(), |name, _| (name != b"\"\"").then_some(())),
            Err(Fault::NotJson)
        );
        for text in
            ["{} x", "{}}", "{,}", "{\"a\":1,}", "{\"a\" 1}", "{\"a\":}", "{1:1}", "{\"a\":1 \"b\":2}", "[]", ""]
        {
            assert_eq!(
                valid_object(text, 3, &mut Unrecorded::default(), |_, _| Some(())),
                Err(Fault::NotJson),
                "{text}"
            );
        }
    }

    #[test]
    fn depth_counts_brackets_outside_strings() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(!too_deep(&nested(128), 128));
        assert!(too_deep(&nested(129), 128));
        assert!(!too_deep(&format!("[{}]", "[],".repeat(500)), 128));
        assert!(!too_deep(&format!("\"{}\"", "[".repeat(500)), 128));
        assert!(!too_deep(&format!("\"\\\"{}\"", "[".repeat(500)), 128));
        assert!(too_deep(&format!("\"\\\\\"{}", "[".repeat(500)), 128));
        assert!(too_deep(&format!("\\{}", "[".repeat(129)), 128), "a backslash outside a string");
    }
}
