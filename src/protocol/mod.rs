//! MCP's vocabulary: versions, methods, error codes, capabilities, item families.

mod capability;
mod client;
pub mod error_code;
mod family;
pub mod method;
mod version;

pub use capability::{Capability, ServerCapabilities};
pub use client::{ClientCapabilities, Implementation, Root};
pub use family::{Family, PerFamily};
pub use version::{Era, ProtocolVersion, UnknownVersion};
