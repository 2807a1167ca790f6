//! Component: the client's roots, which the embedder may change. Their state is in the core.

use alloc::vec::Vec;

use super::core::Core;
use super::{CommandError, Output};
use crate::Time;
use crate::machine::setting::{Setting, Telling};
use crate::protocol::{Root, method, write_roots};

/// The embedder changes the roots.
pub(super) fn set(core: &mut Core, now: Time, roots: Vec<Root>) -> Result<(), CommandError> {
    core.check_open()?;
    if core.options.capabilities.roots.is_none() {
        return Err(CommandError::NotDeclared { capability: "roots".into() });
    }
    if core.is_undelivered_full() {
        return Err(CommandError::TooManyRequests { limit: core.options.limits.output });
    }
    core.advance(now);
    core.roots = Some(roots.into());
    match core.telling(!core.is_undeclared(), Setting::Set) {
        Telling::Tell => {
            let message = core.encode_notification(method::ROOTS_LIST_CHANGED, None::<fn(&mut Vec<u8>)>);
            core.outbox.push(Output::Send(message));
        }
        Telling::Keep => {}
    }
    Ok(())
}

impl Core {
    /// The result of `roots/list`.
    pub(super) fn roots_result(&self) -> Vec<u8> {
        let declared = self.options.capabilities.roots.as_deref().unwrap_or_default();
        let mut result = Vec::new();
        write_roots(self.roots.as_deref().unwrap_or(declared), &mut result);
        result
    }
}
