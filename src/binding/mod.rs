//! One transport each: how bytes become messages.

#[cfg(feature = "http")]
mod address;
#[cfg(feature = "http")]
mod coding;
#[cfg(feature = "http")]
mod hider;
#[cfg(feature = "http")]
pub mod http;
mod lines;
#[cfg(feature = "oauth")]
pub mod oauth;
mod sse;

pub use lines::{Line, LineDecoder, Lines};
pub use sse::{Sse, SseDecoder, SseEvent};
