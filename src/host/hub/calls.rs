//! What a call of an exposed name means, and the results of utility tools that list.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::event::CallError;
use crate::catalog::Catalog;
use crate::client::Request;
use crate::host::Utility;
use crate::host::names::Target;
use crate::jsonrpc::{Json, Object};
use crate::protocol::Family;

/// What a call means.
pub(super) enum What {
    /// A request of the session.
    Request(Request),
    /// A result from the session's lists.
    List(Utility),
}

/// What a call of this name and target means.
pub(super) fn what(name: &str, target: &Target, arguments: Option<&RawValue>) -> Result<What, CallError> {
    // A model may write null for no arguments.
    let arguments = arguments.filter(|arguments| arguments.get() != "null");
    match target {
        Target::Tool(_) if arguments.is_some_and(|arguments| !arguments.get().starts_with('{')) => {
            Err(CallError::Arguments { name: name.into(), expected: "a JSON object" })
        }
        Target::Tool(tool) => Ok(What::Request(Request::call_tool(tool, arguments))),
        Target::Utility(utility) => utility_request(name, *utility, arguments),
    }
}

fn utility_request(name: &str, utility: Utility, arguments: Option<&RawValue>) -> Result<What, CallError> {
    let arguments = arguments.map(Json::from);
    let text = |member: &str| arguments.and_then(|arguments| arguments.member(member)).and_then(Json::as_string);
    let lacks = |expected| CallError::Arguments { name: name.into(), expected };
    match utility {
        Utility::ListResources | Utility::ListPrompts => Ok(What::List(utility)),
        Utility::ReadResource => {
            let uri = text("uri").ok_or_else(|| lacks("`uri`, the URI of a resource, as a string"))?;
            Ok(What::Request(Request::read_resource(&uri)))
        }
        Utility::GetPrompt => {
            let prompt = text("name").ok_or_else(|| lacks("`name`, the name of a prompt, as a string"))?;
            let mut values: Vec<(String, String)> = Vec::new();
            if let Some(given) = arguments.and_then(|arguments| arguments.member("arguments")) {
                if !given.is_object() && !given.is_null() {
                    return Err(lacks("`arguments`, an object of strings"));
                }
                // A value that is not a string is passed as JSON text.
                given.members(|name, value| {
                    let value = value.as_string().map_or_else(|| value.text().into(), String::from);
                    values.push((name.into(), value));
                });
            }
            let values = values.iter().map(|(name, value)| (&**name, &**value));
            Ok(What::Request(Request::get_prompt(&prompt, values)))
        }
    }
}

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
