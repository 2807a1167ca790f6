use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::fmt;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::json::too_deep;
use super::{ErrorObject, Json, PeerId, ResponseId};

/// Bytes in the id of a request of the peer's, which has to be kept until it is answered.
const ID_BYTES: usize = 1024;

/// How much of a message is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes in a message; 64 MiB.
    pub bytes: usize,
    /// Levels of brackets in a message; 128, which is where `serde_json` stops too.
    pub depth: usize,
    /// Messages in a batch; 10,000.
    pub batch: usize,
}

impl Limits {
    /// What may stand around a message of the greatest length: a byte order mark, a carriage return, some spaces.
    pub(crate) const SLACK: usize = 16;
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 64 << 20, depth: 128, batch: 10_000 }
    }
}

/// Why bytes were no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Noise {
    /// Longer than [`Limits::bytes`].
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
    /// More levels of brackets than [`Limits::depth`].
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
    /// Beyond [`Limits::batch`].
    #[error("beyond the {limit} messages that a batch may hold")]
    BatchTooLong {
        /// The bound.
        limit: usize,
    },
}

/// What a message gets wrong, and is accepted all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deviations {
    /// `jsonrpc` is missing, or not `"2.0"`.
    pub version: bool,
    /// `error: null` beside a result, or `result: null` beside an error.
    pub error_null: bool,
    /// A result and an error; the error was taken.
    pub result_and_error: bool,
    /// A notification with `id: null`.
    pub id_null: bool,
}

/// One message, its payloads borrowed from the bytes that it was decoded from.
#[derive(Debug)]
#[non_exhaustive]
pub struct Message<'a> {
    /// The message.
    pub body: Body<'a>,
    /// What it gets wrong.
    pub deviations: Deviations,
}

/// The kinds of message.
#[derive(Debug)]
pub enum Body<'a> {
    /// The peer asks.
    Request {
        /// To be echoed in the answer.
        id: PeerId,
        /// What it asks.
        method: Cow<'a, str>,
        /// The parameters, raw.
        params: Option<&'a RawValue>,
    },
    /// The peer tells.
    Notification {
        /// What it tells.
        method: Cow<'a, str>,
        /// The parameters, raw.
        params: Option<&'a RawValue>,
    },
    /// The peer answers with a result.
    Result {
        /// Of the request that it answers.
        id: ResponseId,
        /// The result, raw.
        result: &'a RawValue,
    },
    /// The peer answers with an error.
    Error {
        /// Of the request that it answers.
        id: ResponseId,
        /// The error.
        error: ErrorObject,
    },
}

/// What some bytes held.
#[derive(Debug)]
pub enum Decoded<'a> {
    /// Nothing but white space.
    Blank,
    /// One message.
    One(Message<'a>),
    /// An array of messages, in order.
    Batch(Vec<Result<Message<'a>, Noise>>),
}

/// Decodes one message, or a batch of them.
///
/// A byte order mark and white space around the message are passed over. Of members that stand twice in an
/// object the last counts.
pub fn decode(bytes: &[u8], limits: Limits) -> Result<Decoded<'_>, Noise> {
    let too_long = |len| Err(Noise::TooLong { len, limit: limits.bytes });
    if bytes.len() > limits.bytes.saturating_add(Limits::SLACK) {
        return too_long(bytes.len());
    }
    let text = core::str::from_utf8(bytes).map_err(|_| Noise::NotUtf8)?;
    let text = text.trim_start_matches('\u{feff}').trim_matches([' ', '\t', '\r', '\n']);
    if text.len() > limits.bytes {
        return too_long(text.len());
    }
    match text.as_bytes().first() {
        None => return Ok(Decoded::Blank),
        Some(b'{' | b'[') => {}
        Some(_) if serde_json::from_str::<IgnoredAny>(text).is_ok() => return Err(Noise::NotAMessage),
        Some(_) => return Err(Noise::NotJson),
    }
    if too_deep(text, limits.depth) {
        return Err(Noise::TooDeep { limit: limits.depth });
    }
    if text.starts_with('{') {
        let envelope: Envelope<'_> = serde_json::from_str(text).map_err(|_| Noise::NotJson)?;
        return envelope.message().map(Decoded::One);
    }
    // The whole array is parsed once, so that half of it is never taken for a batch.
    let whole: &RawValue = serde_json::from_str(text).map_err(|_| Noise::NotJson)?;
    let elements = Json::from(whole).elements(limits.batch).ok_or(Noise::NotJson)?;
    let mut messages = Vec::with_capacity(elements.kept.len());
    for element in elements.kept {
        messages.push(match serde_json::from_str::<Envelope<'_>>(element.text()) {
            Ok(envelope) => envelope.message(),
            Err(_) => Err(Noise::NotAMessage),
        });
    }
    if elements.more {
        messages.push(Err(Noise::BatchTooLong { limit: limits.batch }));
    }
    Ok(Decoded::Batch(messages))
}

#[derive(Default)]
struct Envelope<'a> {
    jsonrpc: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

enum Member {
    Jsonrpc,
    Id,
    Method,
    Params,
    Result,
    Error,
    Other,
}

impl<'de> Deserialize<'de> for Member {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MemberVisitor;
        impl Visitor<'_> for MemberVisitor {
            type Value = Member;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a member's name")
            }

            fn visit_str<E>(self, name: &str) -> Result<Member, E> {
                Ok(match name {
                    "jsonrpc" => Member::Jsonrpc,
                    "id" => Member::Id,
                    "method" => Member::Method,
                    "params" => Member::Params,
                    "result" => Member::Result,
                    "error" => Member::Error,
                    _ => Member::Other,
                })
            }
        }
        deserializer.deserialize_str(MemberVisitor)
    }
}

impl<'de> Deserialize<'de> for Envelope<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EnvelopeVisitor;
        impl<'de> Visitor<'de> for EnvelopeVisitor {
            type Value = Envelope<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON-RPC message")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut envelope = Envelope::default();
                while let Some(member) = map.next_key()? {
                    let slot = match member {
                        Member::Jsonrpc => &mut envelope.jsonrpc,
                        Member::Id => &mut envelope.id,
                        Member::Method => &mut envelope.method,
                        Member::Params => &mut envelope.params,
                        Member::Result => &mut envelope.result,
                        Member::Error => &mut envelope.error,
                        Member::Other => {
                            map.next_value::<IgnoredAny>()?;
                            continue;
                        }
                    };
                    *slot = Some(map.next_value()?);
                }
                Ok(envelope)
            }
        }
        deserializer.deserialize_map(EnvelopeVisitor)
    }
}

impl<'a> Envelope<'a> {
    fn message(self) -> Result<Message<'a>, Noise> {
        let mut deviations =
            Deviations { version: self.jsonrpc.is_none_or(|raw| raw.get() != "\"2.0\""), ..Deviations::default() };
        let body = match self.method {
            Some(method) => {
                let method = Json::from(method).as_string().ok_or(Noise::NotAMessage)?;
                let params = self.params.filter(|raw| !is_null(raw));
                match self.id.map(|raw| (raw, raw.get().as_bytes().first())) {
                    None => Body::Notification { method, params },
                    Some((_, Some(b'n'))) => {
                        deviations.id_null = true;
                        Body::Notification { method, params }
                    }
                    Some((id, Some(b'"' | b'-' | b'0'..=b'9'))) if id.get().len() <= ID_BYTES => {
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
            (result, Some(error)) if !is_null(error) => {
                match result {
                    Some(result) if is_null(result) => deviations.error_null = true,
                    Some(_) => deviations.result_and_error = true,
                    None => {}
                }
                Ok(Body::Error { id, error: ErrorObject::read(error) })
            }
            (Some(result), error) => {
                deviations.error_null = error.is_some();
                Ok(Body::Result { id, result })
            }
            (None, _) => Err(Noise::NotAMessage),
        }
    }
}

fn is_null(raw: &RawValue) -> bool {
    raw.get() == "null"
}
