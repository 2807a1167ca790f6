//! One transport each: how bytes become messages.

mod lines;

pub use lines::{Line, LineDecoder, LineSession};
