use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::spans::{SpanRecorder, Unrecorded};
use super::validate::{self, Fault, too_deep};
use super::{ErrorObject, Json, PeerId, ResponseId, Spans};

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
}

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

/// Decodes as [`decode`] does. `spans` becomes where the long values deep in a single message are.
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
    match validate::skip_white(text.as_bytes()).first() {
        None => Ok(Decoded::Blank),
        Some(b'{') => {
            let mut envelope = Envelope::default();
            let take = |name: &'a [u8], value| envelope.take(name, value);
            match SpanRecorder::of(text.len(), limits.depth) {
                None => validate::object(text, limits.depth, &mut Unrecorded, take).map_err(fault)?,
                Some(mut recorder) => {
                    validate::object(text, limits.depth, &mut recorder, take).map_err(fault)?;
                    *spans = recorder.finish();
                }
            }
            envelope.message().map(Decoded::One)
        }
        Some(b'[') => {
            // The whole array is validated first, so that a truncated batch is rejected as a whole.
            validate::value(text, limits.depth).map_err(fault)?;
            batch(Json::trusted(text), limits.batch).map(Decoded::Batch)
        }
        Some(_) => Err(validate::value(text, 0).map_or(Noise::NotJson, |()| Noise::NotAMessage)),
    }
}

fn batch(array: Json<'_>, limit: usize) -> Result<Vec<Result<Message<'_>, Noise>>, Noise> {
    let elements = array.elements(limit).ok_or(Noise::NotJson)?;
    let mut messages = Vec::with_capacity(elements.kept.len());
    messages.extend(elements.kept.into_iter().map(|element| {
        let (mut envelope, mut readable) = (Envelope::default(), element.is_object());
        element.raw_members(|name, value| readable &= envelope.take(name.text().as_bytes(), value).is_some());
        if readable { envelope.message() } else { Err(Noise::NotAMessage) }
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
            let plain: String = serde_json::from_slice(name).ok()?;
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

    fn message(self) -> Result<Message<'a>, Noise> {
        let mut deviations = Deviations {
            version: self.jsonrpc.is_none_or(|version| version.text() != "\"2.0\""),
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
                Ok(Body::Error { id, error: ErrorObject::read(error) })
            }
            (Some(result), error) => {
                deviations.error_null = error.is_some();
                Ok(Body::Result { id, result: result.raw() })
            }
            (None, _) => Err(Noise::NotAMessage),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;
    use alloc::format;
    use alloc::string::String;

    use super::*;
    use crate::jsonrpc::Json;
    use crate::jsonrpc::spans::{Ahead, LONG, Spans};

    /// The members of the items of a list, read with and without spans.
    fn members(text: &str, skip: bool) -> Vec<(String, String)> {
        let mut spans = Spans::default();
        let decoded = decode_with_spans(text.as_bytes(), MessageLimits::default(), &mut spans);
        let Ok(Decoded::One(message)) = decoded else { panic!("{text}") };
        let Body::Result { result, .. } = message.body else { panic!("{text}") };
        assert_eq!(Ahead::new(spans.clone()).is_empty(), text.len() < LONG, "{}", text.len());
        let (scan, mut found) = (Json::from(result).scan(), Vec::new());
        let mut scan = if skip { scan.skipping(spans) } else { scan };
        scan.each_member(|_, scan| {
            scan.each_element(|scan| {
                scan.members(|name, value| found.push((name.to_owned(), value.text().to_owned()))).is_some()
            });
        });
        found
    }

    #[test]
    fn a_scan_that_skips_values_finds_the_same() {
        let deep = format!("{}{}", "[ ".repeat(70), "]".repeat(70));
        let schema = r#"{"a":["]}",{"b":"\\"} ] , "c" : { "description":"as long as it takes" }}"#;
        let item = format!(
            r#" {{"name":"n", "schema" : {schema}, "deep":{deep},"short":[1],"none": {{}} , "after": [ {schema} ] }}"#
        );
        for count in [1, 5, 50] {
            let items = alloc::vec![item.clone(); count].join(",");
            let text = format!(r#"{{"id":1, "result" : {{"first":[{items}],"second":[ {items}]}},"jsonrpc":"2.0"}}"#);
            let plain = members(&text, false);
            assert_eq!(plain.len(), 12 * count);
            assert_eq!(members(&text, true), plain);
        }
    }
}
