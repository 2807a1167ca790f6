//! Names under `_meta`.

use serde_json::Value;

pub(super) const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
pub(in crate::testkit) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// The version that a message of the modern era names.
pub(in crate::testkit) fn modern_version(message: &Value) -> Option<&Value> {
    message.get("params")?.get("_meta")?.get(VERSION)
}
