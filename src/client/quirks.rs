//! The recorded deviations of the server.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::Quirk;
use crate::machine::QuirkKind;

/// One deviation per kind and method.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub(super) struct Quirks(Vec<Quirk>);

impl Quirks {
    pub(super) fn as_slice(&self) -> &[Quirk] {
        &self.0
    }

    /// Whether there is none of this kind and method, and another one is within the limit.
    pub(super) fn has_room(&self, kind: QuirkKind, method: Option<&str>, most: usize) -> bool {
        self.0.len() < most && !self.0.iter().any(|known| is(known, kind, method))
    }

    /// Adds a deviation, and returns it.
    pub(super) fn add(&mut self, quirk: Quirk) -> Quirk {
        self.0.push(quirk.clone());
        quirk
    }

    /// Changes the text of a recorded deviation. `None` if it is not recorded, or has this text.
    pub(super) fn change(&mut self, kind: QuirkKind, method: Option<&str>, detail: &str) -> Option<&Quirk> {
        let known = self.0.iter_mut().find(|known| is(known, kind, method))?;
        if *known.detail == *detail {
            return None;
        }
        known.detail = Box::from(detail);
        Some(known)
    }

    /// Releases memory that is not needed.
    pub(super) fn release(&mut self) {
        self.0.shrink_to_fit();
    }
}

fn is(known: &Quirk, kind: QuirkKind, method: Option<&str>) -> bool {
    known.kind == kind && known.method.as_deref() == method
}
