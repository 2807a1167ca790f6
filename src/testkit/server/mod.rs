//! The fake server. `parts` holds its state, `setup` builds it, `send` turns what it does into outputs, `run` executes
//! requests, `recorded` plays a journal, `receive` takes messages, `news` announces changes, `http` takes HTTP requests, and `input` has the inputs
//! of pipes and the outputs. Each file uses only those before it.

#[cfg(feature = "http")]
mod http;
mod input;
mod news;
mod parts;
mod receive;
#[cfg(feature = "journal")]
mod recorded;
mod resume;
mod run;
mod send;
mod setup;
#[cfg(not(feature = "journal"))]
mod unrecorded;

pub use parts::FakeServer;
#[cfg(feature = "journal")]
pub(super) use {news::SUBSCRIPTION, receive::modern_version};
