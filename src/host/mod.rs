//! Many servers: from a host's configuration file to the list of functions that its model gets.
//!
//! Each part is of use alone:
//!
//! - [`config`] reads the file, says what is wrong with it, and in what it differs from the one before.
//! - [`toolset`] chooses what of a server the model may call, by the server's entry and by what the server has.
//! - [`names`] makes of all servers' tools one space of names, and leads back from a name to its tool.
//! - [`schema`] changes schemas for providers that accept less, where it is wanted.
//! - [`hub`] runs the sessions of a configuration's servers as one.
//! - [`instructions`] finds text that tries to instruct the model.
//!
//! None of it does any I/O: the embedder reads the file, looks variables up, carries the messages.

pub mod config;
mod glob;
pub mod hub;
pub mod instructions;
pub mod names;
mod saved;
pub mod schema;
pub mod toolset;
mod utility;

pub use saved::Saved;
pub use utility::Utility;
