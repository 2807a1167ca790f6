use alloc::format;
use serde_json::value::RawValue;

use super::super::RequestError;
use super::super::core::Core;
use super::super::request_table::Purpose;
use crate::jsonrpc::Json;
use crate::text::excerpt;

/// A result without its own type, or with the type `complete`. In the modern era any other is invalid (specification
/// 2026-07-28, "Overview", Result types). Pages of lists are checked where they are read.
pub(super) fn complete<'a>(core: &Core, purpose: &Purpose, result: &'a RawValue) -> Result<&'a RawValue, RequestError> {
    let modern = match purpose {
        Purpose::Discover(_) | Purpose::Rediscover => true,
        Purpose::Keepalive(_) | Purpose::Listen { .. } | Purpose::CancelTask(_) => core.is_modern(),
        Purpose::Initialize(_)
        | Purpose::List { .. }
        | Purpose::SetLevel
        | Purpose::Subscribe(_)
        | Purpose::Unsubscribe(_)
        | Purpose::Call(_) => false,
    };
    // A legacy result, and a list, is not read for it.
    let kind = if modern { Json::from(result).member("resultType") } else { None };
    match kind.filter(|kind| kind.as_string().as_deref() != Some("complete")) {
        None => Ok(result),
        Some(kind) => {
            let why = format!("a result of the unknown type {}", excerpt(kind.text()));
            Err(RequestError::Invalid(why.into()))
        }
    }
}
