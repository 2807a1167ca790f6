//! The state of a call's task.

use super::super::core::Core;
use crate::machine::task::{Effect, Input, take};

/// Steps the table of the task.
pub(super) fn move_on(core: &mut Core, id: u64, input: Input) -> &'static [Effect] {
    let mut effects: &'static [Effect] = &[];
    core.requests.change_task(id, |task| {
        if let Some(task) = task {
            let row = take(task.state, input);
            (task.state, effects) = (row.next, row.effects);
            task.poll_at = if row.effects.is_empty() { task.poll_at } else { None };
        }
    });
    effects
}

/// The call ends without the server.
pub(super) fn abandon(core: &mut Core, id: u64) {
    if move_on(core, id, Input::Abandoned).contains(&Effect::Cancel) {
        cancel(core, id);
    }
}

/// Cancels the task.
pub(super) fn cancel(core: &mut Core, id: u64) {
    let task = core.requests.call(id).and_then(|call| call.task.as_ref()).map(|task| task.id.clone());
    if let Some(task) = task {
        core.cancel_task(&task);
    }
}
