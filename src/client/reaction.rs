use alloc::boxed::Box;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::ServerMethod;
use crate::jsonrpc::ErrorObject;
use crate::machine::QuirkKind;

/// The decision on a server request, or on an input that the server requires.
pub(super) enum Reaction {
    /// Respond with this result.
    Result(Vec<u8>),
    /// Respond with this error.
    Refuse(ErrorObject),
    /// Report it to the embedder, with these parameters.
    Embedder(ServerMethod, Option<Box<RawValue>>),
    /// Give no input.
    Decline,
    /// Do not respond, and record the deviation.
    Ignore(QuirkKind),
}
