//! What a server offers: four families of items, differences between two lists, fingerprints.
//!
//! Items stay raw JSON, byte for byte, one buffer per page; typed access is a view.

mod builder;
mod difference;
mod fingerprint;
#[cfg(feature = "snapshot")]
pub(crate) mod form;
mod hash;
mod item;
mod list;
#[cfg(feature = "snapshot")]
pub(crate) mod list_form;
mod mirror;
#[cfg(feature = "template")]
mod template;

pub(crate) use builder::{Bounds, Builder, Flaws, Items, PageReport};
pub use difference::Difference;
pub use fingerprint::{Fingerprint, FingerprintKey};
pub(crate) use hash::hash;
pub use item::{Prompt, PromptArgument, Resource, ResourceTemplate, TaskSupport, Tool, ToolHints};
pub use list::List;
#[cfg(feature = "http")]
pub(crate) use mirror::mirrored;
#[cfg(feature = "template")]
pub use template::{TemplateError, Variable};

use alloc::sync::Arc;

use crate::jsonrpc::Json;
use crate::protocol::{Family, PerFamily};

/// What a server offers, as last listed.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    lists: PerFamilyLists,
}

type PerFamilyLists = PerFamily<Option<Arc<List>>>;

impl Catalog {
    /// One family's items, in the server's order; empty if the family was not listed.
    pub fn list(&self, family: Family) -> &List {
        self.lists.get(family).as_deref().unwrap_or(List::EMPTY)
    }

    /// The tools, in the server's order.
    pub fn tools(&self) -> impl Iterator<Item = Tool<'_>> {
        self.list(Family::Tools).iter().map(|(key, raw)| Tool::read(key, raw))
    }

    /// The tool with this name.
    pub fn tool(&self, name: &str) -> Option<Tool<'_>> {
        self.list(Family::Tools).find(name).map(|(key, raw)| Tool::read(key, raw))
    }

    /// The prompts, in the server's order.
    pub fn prompts(&self) -> impl Iterator<Item = Prompt<'_>> {
        self.list(Family::Prompts).iter().map(|(key, raw)| Prompt::read(key, raw))
    }

    /// The prompt with this name.
    pub fn prompt(&self, name: &str) -> Option<Prompt<'_>> {
        self.list(Family::Prompts).find(name).map(|(key, raw)| Prompt::read(key, raw))
    }

    /// The resources, in the server's order.
    pub fn resources(&self) -> impl Iterator<Item = Resource<'_>> {
        self.list(Family::Resources).iter().map(|(key, raw)| Resource::read(key, raw))
    }

    /// The resource with this URI.
    pub fn resource(&self, uri: &str) -> Option<Resource<'_>> {
        self.list(Family::Resources).find(uri).map(|(key, raw)| Resource::read(key, raw))
    }

    /// The resource templates, in the server's order.
    pub fn resource_templates(&self) -> impl Iterator<Item = ResourceTemplate<'_>> {
        self.list(Family::ResourceTemplates).iter().map(|(key, raw)| ResourceTemplate::read(key, raw))
    }

    /// The resource template with this URI template.
    pub fn resource_template(&self, uri_template: &str) -> Option<ResourceTemplate<'_>> {
        self.list(Family::ResourceTemplates).find(uri_template).map(|(key, raw)| ResourceTemplate::read(key, raw))
    }

    /// The fingerprint of the whole catalogue, independent of the items' order. Each call hashes all bytes.
    pub fn fingerprint(&self, key: FingerprintKey) -> Fingerprint {
        let lists = Family::EACH.map(|family| self.list(family).fingerprint(key).get().to_le_bytes());
        Fingerprint::of_parts(key, lists.iter().map(|list| &list[..]))
    }

    pub(crate) fn replace(&mut self, family: Family, list: List) {
        *self.lists.get_mut(family) = (!list.is_empty()).then(|| Arc::new(list));
    }

    /// A family's shared list, if it has items.
    pub(crate) const fn held(&self, family: Family) -> Option<&Arc<List>> {
        self.lists.get(family).as_ref()
    }

    /// Sets a family's items to a list that other catalogues may share.
    pub(crate) fn share(&mut self, family: Family, list: Arc<List>) {
        *self.lists.get_mut(family) = Some(list);
    }

    /// Sets a family's items from an array that the embedder saved. The error describes why the array is rejected.
    pub(crate) fn restore(&mut self, family: Family, items: Json<'_>, bounds: Bounds) -> Result<(), &'static str> {
        let items = Items::read(family, &mut items.scan(), bounds).map_err(|_| "they are no array")?;
        let mut builder = Builder::default();
        if builder.add(items, bounds).over {
            return Err("there are too many");
        }
        self.replace(family, builder.finish());
        Ok(())
    }
}
