//! Streamable HTTP, in both eras, and the older HTTP+SSE, over any HTTP client (feature `http`).
//!
//! [The guide](crate::guide::http) has a complete loop.

// `parts` names the parts, each of which owns its state and calls no other. Nine files work on all of them, and each
// calls only those before it: `send` begins and ends exchanges, `phase` applies the tables of the connection, `outputs`
// takes what the engine wants done, `authorize` takes refusals for lack of authorization, `answer` judges responses to
// messages, `end` takes the ends of exchanges, `prove` has proofs of possession signed and then sends the exchange, `read`
// reads responses, and `route` takes inputs and timers. `report` has what several of them tell the engine.

mod action;
mod address;
mod answer;
mod authorize;
mod end;
mod exchange;
mod exchanges;
#[cfg(feature = "snapshot")]
mod form;
mod get_stream;
mod limits;
#[cfg(feature = "oauth")]
mod mask;
mod outbox;
mod outputs;
mod parts;
mod phase;
mod prove;
mod queue;
mod read;
#[cfg(feature = "serde")]
mod redact;
mod report;
mod request;
mod response;
mod route;
mod send;
#[cfg(feature = "serde")]
mod serialize;
mod session;
#[cfg(feature = "snapshot")]
mod snapshot;
mod sse;
mod timers;
#[cfg_attr(not(feature = "oauth"), path = "no_tokens.rs")]
mod tokens;
mod trim;
mod waiting;
mod words;

pub use action::{Broken, ExchangeId, HttpAction, HttpRequest};
pub use address::UrlError;
pub(crate) use address::parse;
pub use parts::Http;
#[cfg(feature = "journal")]
pub(crate) use redact::{masked_address, response_value};
#[cfg(feature = "serde")]
pub use serialize::WithSecrets;
