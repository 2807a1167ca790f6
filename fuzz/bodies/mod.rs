//! The bodies of the fuzz targets, which `cargo test` runs too: bytes in, a hash of the output out.

mod checks;
pub mod decode;
mod embedder;
mod explored;
mod host;
mod http;
pub mod hub;
mod input;
mod journal;
mod message;
mod model;
#[cfg(feature = "oauth")]
mod oauth;
#[cfg(feature = "oauth")]
mod oauth_joined;
#[cfg(feature = "oauth")]
pub(crate) mod oauth_model;
mod peer;
mod rig;
mod session;
#[cfg(feature = "snapshot")]
mod snapshot;

pub use self::decode::decode;
pub use self::explored::explored;
pub use self::host::host;
pub use self::http::http;
pub use self::hub::hub;
pub use self::journal::journal;
pub use self::message::message;
#[cfg(feature = "oauth")]
pub use self::oauth::oauth;
pub use self::session::session;
#[cfg(feature = "snapshot")]
pub use self::snapshot::snapshot;
