//! One transport each: how bytes become messages.

#[cfg(feature = "http")]
pub mod http;
mod lines;
#[cfg(feature = "oauth")]
pub mod oauth;
#[cfg(feature = "http")]
mod origin;
mod sse;

pub use lines::{Line, LineDecoder, Lines};
#[cfg(feature = "http")]
use sse::{Decoder as EventDecoder, keep};
pub use sse::{Sse, SseDecoder, SseEvent};
