//! Streamable HTTP, in both eras, and the older HTTP+SSE, over any HTTP client (feature `http`).
//!
//! `parts` names the parts, each of which owns its state and calls no other. Seven files work on all of them, and each
//! calls only those before it: `send` begins and ends exchanges, `phase` applies the tables of the connection, `outputs`
//! takes what the engine wants done, `answer` judges responses to messages, `end` takes the ends of exchanges, `read`
//! reads responses, and `route` takes inputs and timers.

mod action;
mod address;
mod answer;
mod end;
mod exchange;
mod exchanges;
mod get_stream;
mod limits;
mod outbox;
mod outputs;
mod parts;
mod phase;
mod queue;
mod read;
mod request;
mod response;
mod route;
mod send;
mod session;
mod sse;
mod timers;
mod trim;
mod words;

pub use action::{Broken, ExchangeId, HttpAction, HttpRequest};
pub use parts::Http;
