//! The results of utility tools that list.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use crate::catalog::Catalog;
use crate::host::Utility;
use crate::jsonrpc::{Json, Object};
use crate::protocol::Family;

/// The result of a utility tool that lists: the server's items, unchanged.
pub(super) fn listing(catalog: &Catalog, utility: Utility) -> Box<RawValue> {
    let families: &[Family] = match utility {
        Utility::ListPrompts | Utility::GetPrompt => &[Family::Prompts],
        Utility::ListResources | Utility::ReadResource => &[Family::Resources, Family::ResourceTemplates],
    };
    let mut json = Vec::new();
    let mut object = Object::begin(&mut json);
    for family in families {
        let out = object.value(family.member());
        out.push(b'[');
        for (at, (_, item)) in catalog.list(*family).iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            out.extend_from_slice(item.as_bytes());
        }
        out.push(b']');
    }
    object.end();
    Json::trusted(&String::from_utf8(json).unwrap_or_default()).to_raw()
}
