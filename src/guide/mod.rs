//! How to embed the crate, by task. Read as far as you need:
//!
//! 1. The first hour: [`embedding`], one server over stdio, with a driver or with a loop of your own.
//! 2. [`calls`]: requests, results, errors, progress. [`validation`] of results and forms; serialized [`values`].
//! 3. [`server_requests`]: what a server asks the user or the model.
//! 4. [`http`]: servers at a URL, and [`oauth`]: the ones that demand tokens.
//! 5. [`hosts`]: many servers, and the functions for a model; what [`configurations`] of other hosts give.
//! 6. [`duties`]: security, and what else a host owes its user. Read it before you ship.
//! 7. [`testing`] (feature `testkit`): a host against fake servers in virtual time. [`recording`] a session, and its replay.
//! 8. [`moving`]: a session in another process, and on more than one machine.
//! 9. [`platforms`]: Windows, macOS, a browser, a microcontroller.
//! 10. [`migrating`]: from the official SDK.
//!
//! To look things up: [`tolerance`], what servers get wrong; [`specification`], extensions and deprecated features;
//! [`tables`], the decisions of the protocol; [`proof`], how far they are explored, simulated and fuzzed.

#[doc = include_str!("embedding.md")]
pub mod embedding {}

#[doc = include_str!("calls.md")]
pub mod calls {}

#[doc = include_str!("validation.md")]
pub mod validation {}

#[doc = include_str!("values.md")]
pub mod values {}

#[doc = include_str!("server_requests.md")]
pub mod server_requests {}

#[doc = include_str!("http.md")]
pub mod http {}

#[doc = include_str!("oauth.md")]
pub mod oauth {}

#[doc = include_str!("hosts.md")]
pub mod hosts {}

#[doc = include_str!("../../docs/configurations.md")]
pub mod configurations {}

#[doc = include_str!("duties.md")]
pub mod duties {}

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

#[doc = include_str!("recording.md")]
pub mod recording {}

#[doc = include_str!("moving.md")]
pub mod moving {}

#[doc = include_str!("platforms.md")]
pub mod platforms {}

#[doc = include_str!("migrating.md")]
pub mod migrating {}

#[doc = include_str!("tolerance.md")]
pub mod tolerance {}

#[doc = include_str!("specification.md")]
pub mod specification {}

#[doc = include_str!("../../docs/tables.md")]
pub mod tables {}

#[doc = include_str!("../../docs/proof.md")]
pub mod proof {}
