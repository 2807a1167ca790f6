//! The serialized form of catalogs and lists (feature `snapshot`): the pages as the server wrote them, and the position of each item.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::list::{Entry, Place};
use super::{Catalog, List};
use crate::jsonrpc::Json;
use crate::protocol::PerFamily;
use crate::snapshot::{SnapshotError, within};

pub(crate) mod catalog {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(catalog: &Catalog, serializer: S) -> Result<S::Ok, S::Error> {
        PerFamily::from_fn(|family| catalog.held(family).map(|list| list.to_form())).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Catalog, D::Error> {
        let forms = PerFamily::<Option<Form<Box<RawValue>, String>>>::deserialize(deserializer)?;
        let mut catalog = Catalog::default();
        for (family, form) in forms.into_each() {
            if let Some(form) = form {
                catalog.share(family, Arc::new(List::from_form(form).map_err(D::Error::custom)?));
            }
        }
        Ok(catalog)
    }
}

pub(crate) mod optional_catalog {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Whole(#[serde(with = "super::catalog")] Catalog);

    #[expect(clippy::ref_option, reason = "serde passes the field")]
    pub(crate) fn serialize<S: Serializer>(catalog: &Option<Catalog>, serializer: S) -> Result<S::Ok, S::Error> {
        catalog.clone().map(Whole).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Catalog>, D::Error> {
        Ok(Option::<Whole>::deserialize(deserializer)?.map(|Whole(catalog)| catalog))
    }
}

#[derive(Serialize, Deserialize)]
struct Form<Page, Text> {
    pages: Vec<Page>,
    entries: Vec<(u32, u32, u32, u32, u32, bool, bool)>,
    index: Vec<Place>,
    keys: Text,
}

impl List {
    fn to_form(&self) -> Form<&RawValue, &str> {
        let entries = self.entries.iter().map(|entry| {
            let Entry { page, start, len, key_start, key_len, unescaped, mirrored } = *entry;
            (page, start, len, key_start, key_len, unescaped, mirrored)
        });
        Form {
            pages: self.pages.iter().map(|page| Json::trusted(page).raw()).collect(),
            entries: entries.collect(),
            index: self.index.clone(),
            keys: &self.keys,
        }
    }

    /// The list, if each item is one of its page and the index is one.
    fn from_form(form: Form<Box<RawValue>, String>) -> Result<Self, &'static str> {
        let entries = form.entries.into_iter().map(|(page, start, len, key_start, key_len, unescaped, mirrored)| {
            Entry { page, start, len, key_start, key_len, unescaped, mirrored }
        });
        let pages = form.pages.iter().map(|page| page.get().into()).collect();
        let entries: Vec<_> = entries.collect();
        // Only a list that is received whole has it.
        let mirrored = !form.index.is_empty() && entries.iter().any(|entry| entry.mirrored);
        let list = Self { pages, entries, index: form.index, keys: form.keys, mirrored };
        let mut end = (0, 0);
        for entry in &list.entries {
            // Items are in order and do not overlap, so that checking them is linear.
            let (key, item) = list.item(entry);
            let start = (entry.page, entry.start);
            if start < end || key.len() != entry.key_len as usize || Json::checked(item, usize::MAX).is_none() {
                return Err("an item is not one of its page");
            }
            end = (entry.page, entry.start.saturating_add(entry.len));
        }
        let keys = || list.index.iter().map(|place| list.key_at(*place));
        let sorted = keys().zip(keys().skip(1)).all(|(one, next)| one < next);
        let hashed = keys().all(|(hash, key)| hash == Place::hash(key));
        // A list that is being received has no index yet.
        let whole = list.index.is_empty() || list.index.len() == list.entries.len();
        let known = list.index.iter().all(|place| place.entry() < list.entries.len());
        if sorted && hashed && whole && known { Ok(list) } else { Err("the index of its items is none") }
    }

    /// Checks the limits of a list.
    pub(crate) fn check(&self, items: usize, bytes: usize) -> Result<(), SnapshotError> {
        within("items", self.len(), items)?;
        within("list_bytes", self.pages.iter().map(|page| page.len()).fold(0, usize::saturating_add), bytes)
    }
}

pub(crate) mod list {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(list: &List, serializer: S) -> Result<S::Ok, S::Error> {
        list.to_form().serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<List, D::Error> {
        List::from_form(Form::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

pub(crate) mod optional_list {
    use super::*;

    #[expect(clippy::ref_option, reason = "serde passes the field")]
    pub(crate) fn serialize<S: Serializer>(list: &Option<List>, serializer: S) -> Result<S::Ok, S::Error> {
        list.as_ref().map(List::to_form).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<List>, D::Error> {
        let form = Option::deserialize(deserializer)?;
        form.map(List::from_form).transpose().map_err(D::Error::custom)
    }
}
