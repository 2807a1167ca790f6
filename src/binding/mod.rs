//! One transport each: how bytes become messages.

#[cfg(feature = "http")]
pub mod http;
mod lines;
mod sse;

pub use lines::{Line, LineDecoder, Lines};
#[cfg(feature = "http")]
use sse::keep;
pub use sse::{Sse, SseDecoder, SseEvent};
