use alloc::borrow::Cow;
use alloc::vec::Vec;

use super::{Room, string, strings};
use crate::jsonrpc::{Json, Object};

/// The background that an icon is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Theme {
    /// A light one.
    Light,
    /// A dark one.
    Dark,
}

/// An icon (specification 2025-11-25, "Icons"). Nothing is fetched; the documentation's page
/// [`duties`](crate::guide::duties) has the rules for whoever does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Icon<'a> {
    /// Its URI: `https:`, or `data:` with the image in Base64. Not checked.
    pub src: Cow<'a, str>,
    /// Its MIME type.
    pub mime_type: Option<Cow<'a, str>>,
    /// The sizes that it has, such as `48x48`, or `any`.
    pub sizes: Vec<Cow<'a, str>>,
    /// The background that it is made for.
    pub theme: Option<Theme>,
}

impl<'a> Icon<'a> {
    /// An icon with this URI.
    pub fn new(src: impl Into<Cow<'a, str>>) -> Self {
        Self { src: src.into(), mime_type: None, sizes: Vec::new(), theme: None }
    }

    /// Reads the member `icons` of an object. Icons without a URI are left out.
    pub(crate) fn all(json: Json<'a>) -> Vec<Self> {
        Self::within(json, &mut Room::new())
    }

    /// As [`all`](Self::all), as part of a view.
    pub(super) fn within(json: Json<'a>, room: &mut Room) -> Vec<Self> {
        room.elements(json, "icons").into_iter().filter_map(Self::read).collect()
    }

    fn read(json: Json<'a>) -> Option<Self> {
        let theme = match string(json, "theme").as_deref() {
            Some("light") => Some(Theme::Light),
            Some("dark") => Some(Theme::Dark),
            Some(_) | None => None,
        };
        let sizes = strings(json, "sizes").collect();
        Some(Self { src: string(json, "src")?, mime_type: string(json, "mimeType"), sizes, theme })
    }

    pub(crate) fn write(&self, object: &mut Object<'_>) {
        object.string("src", &self.src);
        if let Some(mime_type) = &self.mime_type {
            object.string("mimeType", mime_type);
        }
        if !self.sizes.is_empty() {
            let list = object.value("sizes");
            for (index, size) in self.sizes.iter().enumerate() {
                list.push(if index == 0 { b'[' } else { b',' });
                crate::jsonrpc::string(list, size);
            }
            list.push(b']');
        }
        match self.theme {
            Some(Theme::Light) => {
                object.string("theme", "light");
            }
            Some(Theme::Dark) => {
                object.string("theme", "dark");
            }
            None => {}
        }
    }
}
