//! Many servers: from a host's configuration file to the list of functions that its model gets.
//!
//! Each part is of use alone: [`config`] reads the file.

pub mod config;
mod glob;
