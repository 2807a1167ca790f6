//! The wire: decodes JSON-RPC 2.0 messages without copying their payloads, and encodes messages.
//!
//! This module knows nothing of MCP. Deviations from JSON-RPC are accepted and reported as [`Deviations`]; bytes that
//! are not a message are [`Noise`].

mod decode;
mod encode;
mod error;
#[cfg(feature = "snapshot")]
pub(crate) mod form;
mod id;
mod json;
mod lookup;
mod plain;
mod raw;
mod scan;
mod spans;
mod validate;

pub(crate) use decode::decode_with_spans;
pub use decode::{Body, Decoded, Deviations, Message, MessageLimits, Noise, decode};
pub use encode::{Object, error, notification, request, result, string};
pub use error::ErrorObject;
#[cfg(feature = "snapshot")]
pub(crate) use id::peer_id;
pub use id::{PeerId, ResponseId};
pub(crate) use json::Json;
pub(crate) use scan::Scan;
pub(crate) use spans::Spans;
