//! The bodies of the fuzz targets, which `cargo test` runs too: bytes in, a hash of the output out.

#![allow(dead_code, unused_imports, reason = "each target runs one of the bodies")]

mod checks;
mod embedder;
mod host;
mod http;
mod input;
mod journal;
mod message;
#[cfg(feature = "oauth")]
mod oauth;
#[cfg(feature = "oauth")]
mod oauth_joined;
mod peer;
mod rig;
mod session;
#[cfg(feature = "snapshot")]
mod snapshot;

pub(crate) use self::host::host;
pub(crate) use self::http::http;
pub(crate) use self::journal::journal;
pub(crate) use self::message::message;
#[cfg(feature = "oauth")]
pub(crate) use self::oauth::oauth;
pub(crate) use self::session::session;
#[cfg(feature = "snapshot")]
pub(crate) use self::snapshot::snapshot;
