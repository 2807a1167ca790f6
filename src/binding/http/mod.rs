//! Streamable HTTP, in both eras, and the older HTTP+SSE, over any HTTP client (feature `http`).
//!
//! Each of the first files owns a part of the binding's state, and calls no other part. The last five, which work on all
//! of them, build on each other in this order: `send` begins and ends exchanges, `phase` applies the tables of the
//! connection, `outputs` takes what the engine wants done, `answer` judges responses, and `route` takes inputs and timers.

mod action;
mod address;
mod answer;
mod exchange;
mod exchanges;
mod get_stream;
mod limits;
mod outbox;
mod outputs;
mod parts;
mod phase;
mod queue;
mod request;
mod response;
mod route;
mod send;
mod session;
mod sse;
mod timers;
mod words;

pub use action::{Broken, ExchangeId, HttpAction, HttpRequest};
pub use parts::Http;
