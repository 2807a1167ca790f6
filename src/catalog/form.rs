//! The serialized form of catalogs (feature `snapshot`).

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::list_form::Form;
use super::{Catalog, List};
use crate::protocol::PerFamily;

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
