//! One transport each: how bytes become messages.

mod address;
#[cfg(feature = "http")]
pub mod http;
mod lines;
mod sse;

pub(crate) use address::shown;
#[cfg(feature = "http")]
pub(crate) use address::shown_in;
pub use lines::{Line, LineDecoder, LineSession};
#[cfg(feature = "http")]
use sse::keep;
pub use sse::{Sse, SseDecoder, SseEvent};
