//! Error codes of JSON-RPC and MCP (specification 2026-07-28, "Error Codes").

/// The method does not exist.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters are invalid.
pub const INVALID_PARAMS: i64 = -32602;
/// The peer has an internal error.
pub const INTERNAL_ERROR: i64 = -32603;
/// HTTP headers and body contradict each other.
pub const HEADER_MISMATCH: i64 = -32020;
/// The request needs a capability that the client did not declare.
pub const MISSING_REQUIRED_CLIENT_CAPABILITY: i64 = -32021;
/// The server does not speak the request's protocol version.
pub const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;
/// The call needs elicitations at URLs first (specification 2025-11-25, "Elicitation").
pub const URL_ELICITATION_REQUIRED: i64 = -32042;
