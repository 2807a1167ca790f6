//! The bodies of the fuzz targets, which `cargo test` runs too: bytes in, a hash of the output out.

#![allow(dead_code, unused_imports, reason = "each target runs one of the bodies")]

mod checks;
mod embedder;
mod host;
mod http;
mod input;
mod message;
mod peer;
mod rig;
mod session;

pub(crate) use self::host::host;
pub(crate) use self::http::http;
pub(crate) use self::message::message;
pub(crate) use self::session::session;
