//! How to embed the crate.

#[doc = include_str!("embedding.md")]
pub mod embedding {}

#[doc = include_str!("http.md")]
pub mod http {}

#[doc = include_str!("hosts.md")]
pub mod hosts {}

#[doc = include_str!("tolerance.md")]
pub mod tolerance {}
