//! The task that a request of the server belongs to, which the response names, too (specification 2025-11-25, "Tasks",
//! Related Task Metadata).

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::core::Core;
use crate::jsonrpc::{Json, Object};

const RELATED: &str = "io.modelcontextprotocol/related-task";

/// A value of the server's, a JSON object, if the request belongs to a task and tasks are enabled.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct RelatedTask(
    #[cfg_attr(feature = "snapshot", serde(deserialize_with = "crate::jsonrpc::form::optional_json"))] Option<Box<str>>,
);

impl RelatedTask {
    pub(super) fn read(core: &Core, params: Option<&RawValue>) -> Self {
        let params = params.filter(|_| core.has_legacy_tasks());
        let meta = params.and_then(|params| Json::from(params).member("_meta"));
        let related = meta.and_then(|meta| meta.member(RELATED)).filter(|related| related.is_object());
        Self(related.map(|related| related.text().into()))
    }

    /// Bytes of the server's data that are stored.
    pub(super) fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |related| related.len())
    }

    /// A result, a JSON object, that names the task.
    pub(super) fn name_in<'a>(&self, result: &'a str) -> Cow<'a, str> {
        let Some(related) = &self.0 else { return Cow::Borrowed(result) };
        let mut json = Vec::new();
        let mut object = Object::begin(&mut json);
        let mut given = None;
        Json::trusted(result).raw_members(|name, value| {
            if name.as_string().as_deref() == Some("_meta") {
                given = Some(value);
            } else {
                object.member(name.text(), value.text());
            }
        });
        object.object("_meta", |meta| {
            given.unwrap_or(Json::EMPTY_ARRAY).members(|name, value| {
                if name != RELATED {
                    meta.raw(name, value.text());
                }
            });
            meta.raw(RELATED, related);
        });
        object.end();
        String::from_utf8(json).map_or(Cow::Borrowed(result), Cow::Owned)
    }
}
