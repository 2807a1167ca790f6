//! One transport each: how bytes become messages.

mod address;
#[cfg(feature = "http")]
pub mod http;
mod lines;
mod sse;

pub(crate) use address::shown;
pub use lines::{Line, LineDecoder, LineSession};
pub use sse::{Sse, SseDecoder, SseEvent};
