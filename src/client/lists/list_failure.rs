use alloc::borrow::Cow;

use crate::jsonrpc::ErrorObject;

/// Why a list failed.
pub(in crate::client) enum ListFailure<'a> {
    /// The server's error.
    Server(&'a ErrorObject),
    /// A problem that the engine found.
    Engine(Cow<'a, str>),
}
