//! One transport each: how bytes become messages.

mod lines;
mod sse;

pub use lines::{Line, LineDecoder, LineSession};
pub use sse::{Sse, SseDecoder, SseEvent};
