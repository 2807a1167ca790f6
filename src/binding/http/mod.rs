//! Streamable HTTP, in both eras, and the older HTTP+SSE, over any HTTP client (feature `http`).
//!
//! [The guide](crate::guide::http) has a complete loop.

mod action;
mod challenge;
mod connection;
mod exchange;
mod refusal;
mod request;
mod response;
#[cfg(feature = "serde")]
mod serialize;
#[cfg(feature = "snapshot")]
mod snapshot;
#[cfg_attr(not(feature = "oauth"), path = "no_tokens.rs")]
mod tokens;

pub use crate::binding::address::UrlError;
pub(crate) use crate::binding::address::parse;
pub use crate::client::ExchangeId;
pub use action::{Broken, HttpAction, HttpRequest};
pub use connection::Http;
#[cfg(feature = "serde")]
pub use serialize::WithSecrets;
#[cfg(feature = "journal")]
pub(crate) use serialize::{masked_address, response_value};
