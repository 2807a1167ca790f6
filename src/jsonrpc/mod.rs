//! The wire: decodes JSON-RPC 2.0 messages without copying their payloads, and encodes messages.
//!
//! This module knows nothing of MCP. Deviations from JSON-RPC are accepted and reported as [`Deviations`]; bytes that
//! are not a message are [`Noise`]. What is not JSON may still hold messages, which [`repair`] finds.

mod decode;
mod encode;
mod json;
mod repair;

pub(crate) use decode::ERROR_SHAPE;
pub(crate) use decode::decode_with_spans;
#[cfg(feature = "snapshot")]
pub(crate) use decode::peer_id;
pub use decode::{Body, Decoded, Deviations, ErrorObject, Message, MessageLimits, Noise, PeerId, ResponseId, decode};
pub(crate) use encode::digits;
pub use encode::{Object, error, notification, request, result, string};
#[cfg(feature = "snapshot")]
pub(crate) use json::form;
#[cfg(feature = "host")]
pub(crate) use json::readable;
pub use json::without_lone_surrogates;
pub(crate) use json::{Decimal, Json, Scan, Spans, has_either, has_either_pair, part_of, position};
pub use repair::{Broken, Repaired, repair};
pub(crate) use repair::{Incoming, id_of_beginning};
