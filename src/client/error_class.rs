use crate::jsonrpc::ErrorObject;
use crate::machine::list_error::Class;
use crate::protocol::error_code;

/// What an error says about the method.
pub(super) fn class_of(error: &ErrorObject) -> Class {
    match error.code {
        error_code::METHOD_NOT_FOUND => Class::MethodNotFound,
        _ if says_not_found(&error.message) => Class::SaysNotFound,
        _ => Class::Other,
    }
}

fn says_not_found(message: &str) -> bool {
    let message = message.to_ascii_lowercase().replace(['_', '-'], " ");
    [
        "method not found",
        "unknown method",
        "unrecognized method",
        "unsupported method",
        "method not supported",
        "no such method",
        "not implemented",
    ]
    .iter()
    .any(|text| message.contains(text))
}
