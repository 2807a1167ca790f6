//! The wire: JSON-RPC 2.0 messages decoded without copying their payloads, and encoded.
//!
//! Nothing here knows of MCP. What real peers get wrong about JSON-RPC itself is accepted and reported as
//! [`Deviations`]; what is no message at all is [`Noise`].

mod decode;
mod encode;
mod error;
mod id;
mod json;
mod plain;
mod raw;
mod scan;
mod validate;

pub use decode::{Body, Decoded, Deviations, Limits, Message, Noise, decode};
pub use encode::{Object, error, notification, request, result, string};
pub use error::ErrorObject;
pub use id::{PeerId, ResponseId};
pub(crate) use json::Json;
pub(crate) use scan::Scan;
