//! The tables: the decisions of a client and of a hub, as pure functions of a state and an input.
//!
//! A state table says what follows from a state and an input, a decision table what a combination of conditions means.
//! Payloads are classified before, and ids, deadlines and cursors are updated after. [`table`] has the macros; the
//! page `guide::tables` of the documentation shows every table.

pub(crate) mod gate;
pub(crate) mod handshake;
#[cfg(feature = "http")]
pub(crate) mod http_connection;
#[cfg(feature = "http")]
pub(crate) mod http_response;
pub(crate) mod hub;
pub(crate) mod keepalive;
pub(crate) mod link;
pub(crate) mod listen;
pub(crate) mod lists;
#[cfg(feature = "oauth")]
pub(crate) mod oauth_attempt;
#[cfg(feature = "oauth")]
pub(crate) mod oauth_credentials;
pub(crate) mod request;
mod row;
pub(crate) mod server;
pub(crate) mod task;

pub use row::QuirkKind;
pub(crate) use row::{Decision, Wire};
pub(crate) use table::{Row, Verdict};

#[cfg(test)]
mod page;
#[cfg(feature = "rows")]
mod rows;
pub(crate) mod table;
#[cfg(test)]
mod tests;
