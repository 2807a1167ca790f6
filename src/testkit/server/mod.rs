//! The fake server. `stream` and `playback` are parts of its state, `meta` has names, and `asked` is a request. `parts`
//! holds its state, `setup` builds it, `resume` continues streams, `send` turns what it does into outputs, `run` executes
//! requests, `news` announces changes, `recorded` plays a journal, `receive` takes messages, `http` takes HTTP requests,
//! and `input` has the inputs of pipes and the outputs. Each file imports only those before it.

mod asked;
#[cfg(feature = "http")]
mod http;
mod input;
mod meta;
mod news;
mod parts;
#[cfg(feature = "journal")]
mod playback;
mod receive;
#[cfg(feature = "journal")]
mod recorded;
mod resume;
mod run;
mod send;
mod setup;
mod stream;
#[cfg(not(feature = "journal"))]
mod unrecorded;

#[cfg(feature = "journal")]
pub(super) use meta::{SUBSCRIPTION, modern_version};
pub use parts::FakeServer;
