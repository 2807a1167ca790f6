use alloc::borrow::Cow;
use alloc::format;
use core::time::Duration;
use serde_json::value::RawValue;

use super::super::Wire;
use super::super::core::Core;
use super::super::result_type::of_page;
use super::slot::Listing;
use crate::catalog::{Bounds, Flaws, Items, PageReport};
use crate::jsonrpc::Json;
use crate::machine::QuirkKind;
use crate::machine::result_type::Meaning;
use crate::protocol::{CacheScope, Family};
use crate::text::excerpt;

/// One page of a list, as it was received.
pub(super) struct Page<'a> {
    pub(super) items: Items<'a>,
    pub(super) bounds: Bounds,
    /// The cursor of the next page, a JSON string.
    pub(super) cursor: Option<Json<'a>>,
    /// How long the page is fresh.
    pub(super) ttl: Option<Duration>,
    pub(super) scope: CacheScope,
}

impl<'a> Page<'a> {
    /// Reads a page, or returns why it is not one. Deviations of its shape are recorded.
    pub(super) fn read(core: &mut Core, family: Family, result: &'a RawValue) -> Result<Self, Cow<'static, str>> {
        let limits = core.options.limits;
        let mirror = core.is_modern() && core.wire == Wire::Http;
        let bounds = Bounds { items: limits.items, bytes: limits.list_bytes, mirror };
        let (mut items, mut next, mut kind, mut ttl, mut scope) = (None, None, None, None, None);
        let spans = core::mem::take(&mut core.spans);
        Json::from(result).scan().skipping(spans).each_member(|name, value| match name {
            "nextCursor" => next = value.value(),
            "resultType" => kind = value.value().and_then(Json::as_string),
            "cacheScope" => scope = value.value().and_then(Json::as_string),
            "ttlMs" => ttl = value.value().and_then(|ttl| ttl.text().parse::<i64>().ok()),
            _ if name == family.member() => items = Some(Items::read(family, value, bounds)),
            _ => {}
        });
        match of_page(core, kind.as_deref()) {
            Meaning::Complete => {}
            Meaning::Input | Meaning::Task | Meaning::Invalid => {
                let kind = kind.unwrap_or_default();
                return Err(format!("a result of type `{}`, where a list was expected", excerpt(&kind)).into());
            }
        }
        let present = items.filter(|items| !matches!(items, Err(Some(value)) if value.is_null()));
        if present.is_none() {
            let detail = format!("the result has no `{}`; taken as an empty list", family.member());
            core.quirk(QuirkKind::ListShape, Some(family), Some(family.list_method()), detail);
        }
        let next = next.filter(|next| !next.is_null());
        let cursor = next.filter(|next| next.first() == b'"');
        if let (Some(next), None) = (next, cursor) {
            let detail = format!("`nextCursor` is {}, not a string; taken as the end", excerpt(next.text()));
            core.quirk(QuirkKind::ListShape, Some(family), Some(family.list_method()), detail);
        }
        let Ok(items) = present.unwrap_or(Ok(Items::EMPTY)) else {
            return Err(format!("`{}` is no array", family.member()).into());
        };
        let ttl = ttl.map(|millis| Duration::from_millis(u64::try_from(millis).unwrap_or(0)));
        Ok(Self { items, bounds, cursor, ttl, scope: CacheScope::read(scope.as_deref()) })
    }
}

impl Listing {
    /// Adds the deviations of a page, and records those of the list: new ones, and all of them if the list `ends`.
    pub(super) fn add_flaws(&mut self, core: &mut Core, family: Family, page: PageReport, repeated: bool, ends: bool) {
        // A page that repeats earlier items is recorded as a cursor loop.
        let duplicate = if repeated { Flaws::default() } else { page.duplicate };
        let kinds = [
            (QuirkKind::InvalidItem, &mut self.invalid, page.invalid),
            (QuirkKind::DuplicateItem, &mut self.duplicate, duplicate),
        ];
        for (kind, so_far, page) in kinds {
            let grows = !page.is_empty();
            so_far.extend(page);
            if grows || ends && !so_far.is_empty() {
                core.item_quirk(kind, family, so_far.words().into(), ends);
            }
        }
    }
}
