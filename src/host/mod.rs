//! Many servers: from a host's configuration file to the list of functions for a model.
//!
//! Each part can be used alone:
//!
//! - [`config`] reads the file, reports mistakes, and compares two configurations.
//! - [`toolset`] selects what a model may call, by a server's entry and by what the server offers.
//! - [`names`] gives every tool a unique name for the model, and resolves it.
//! - [`schema`] adapts schemas for providers that accept a subset of JSON Schema.
//! - [`results`] bounds the size of results that reach a model.
//! - [`hub`] runs the sessions of all configured servers.
//! - [`instructions`] finds text that tries to instruct the model, and invisible characters, in tools and in what a server
//!   offers besides them.
//! - [`invisible`] tells the characters of a text that nobody sees.
//!
//! None of them does I/O: the embedder reads the file, looks up variables and transfers messages.

pub mod config;
mod glob;
pub mod hub;
pub mod instructions;
pub mod invisible;
pub mod names;
pub mod results;
mod saved;
pub mod schema;
pub mod toolset;
mod utility;

pub use saved::Saved;
pub use utility::Utility;
