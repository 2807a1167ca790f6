//! MCP's vocabulary: versions, methods, error codes, capabilities, item families.

mod cache_scope;
mod capability;
mod client;
pub mod content;
pub mod error_code;
mod extension;
mod family;
pub mod method;
mod version;

pub use cache_scope::CacheScope;
pub use capability::{Capability, ServerCapabilities};
pub(crate) use client::write_roots;
pub use client::{ClientCapabilities, Implementation, Root};
pub use extension::{Extension, ExtensionId, ExtensionIdError};
pub use family::{Family, PerFamily};
pub use version::{Era, ProtocolVersion, UnknownVersion};
