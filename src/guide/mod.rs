//! How to embed the crate.
//!
//! - One server over stdio: [`embedding`]; over HTTP: [`http`], with tokens [`oauth`]. Many servers, for a model: [`hosts`].
//!   From the official SDK: [`migrating`].
//! - What a host does with a client: [`calls`], [`server_requests`], [`validation`], and its [`duties`] to the user.
//! - Tests of a host: `testing` (feature `testkit`), [`recording`]. A session in another process: [`moving`].
//! - What the crate does about servers: [`tolerance`], [`specification`], [`tables`].

#[doc = include_str!("embedding.md")]
pub mod embedding {}

#[doc = include_str!("migrating.md")]
pub mod migrating {}

#[doc = include_str!("calls.md")]
pub mod calls {}

#[doc = include_str!("server_requests.md")]
pub mod server_requests {}

#[doc = include_str!("http.md")]
pub mod http {}

#[doc = include_str!("oauth.md")]
pub mod oauth {}

#[doc = include_str!("values.md")]
pub mod values {}

#[doc = include_str!("validation.md")]
pub mod validation {}

#[doc = include_str!("recording.md")]
pub mod recording {}

#[doc = include_str!("moving.md")]
pub mod moving {}

#[doc = include_str!("hosts.md")]
pub mod hosts {}

#[doc = include_str!("tolerance.md")]
pub mod tolerance {}

#[doc = include_str!("specification.md")]
pub mod specification {}

#[cfg(feature = "testkit")]
#[doc = include_str!("testing.md")]
#[doc = "```rust"]
#[doc = include_str!("../../docs/testing/host.rs")]
#[doc = "```"]
#[doc = include_str!("testing_property.md")]
#[doc = "```rust,ignore"]
#[doc = include_str!("../../docs/testing/property.rs")]
#[doc = "```"]
#[doc = include_str!("testing_end.md")]
pub mod testing {}

#[doc = include_str!("../../docs/tables.md")]
pub mod tables {}

#[doc = include_str!("duties.md")]
pub mod duties {}
