//! Many servers: from a host's configuration file to the list of functions that its model gets.
//!
//! Each part is of use alone: [`config`] reads the file, [`names`] makes of every server's tools one space of names.

pub mod config;
mod glob;
pub mod instructions;
pub mod names;
pub mod schema;
mod utility;

pub use utility::Utility;
