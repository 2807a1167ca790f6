//! What the fuzz targets run, and `cargo test` runs too: bytes in, a fingerprint of what came out.

#![allow(dead_code, unused_imports, reason = "each target runs one of the bodies")]

mod checks;
mod floor;
mod host;
mod http;
mod input;
mod message;
mod peer;
mod rig;
mod session;

pub(crate) use self::floor::host;
pub(crate) use self::http::http;
pub(crate) use self::message::message;
pub(crate) use self::session::session;
