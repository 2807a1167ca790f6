use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};

use super::super::RequestId;
use super::purpose::Call;
use crate::Time;

/// The indices of the calls that run as tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Tasks {
    polls: BTreeSet<(Time, u64)>,
    tokens: BTreeMap<u64, RequestId>,
    ids: BTreeMap<Box<str>, RequestId>,
}

impl Tasks {
    #[inline]
    pub(super) fn add(&mut self, id: u64, call: &Call) {
        let Some(task) = &call.task else { return };
        if let Some(at) = task.poll_at {
            self.polls.insert((at, id));
        }
        if call.request.progress {
            self.tokens.insert(task.token, call.handle);
        }
        self.ids.insert(task.id.clone(), call.handle);
    }

    #[inline]
    pub(super) fn remove(&mut self, id: u64, call: &Call) {
        let Some(task) = &call.task else { return };
        if let Some(at) = task.poll_at {
            self.polls.remove(&(at, id));
        }
        self.tokens.remove(&task.token);
        self.ids.remove(&task.id);
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    #[inline]
    pub(super) fn next(&self) -> Option<Time> {
        self.polls.first().map(|(at, _)| *at)
    }

    /// The call whose task is to be polled now.
    pub(super) fn due(&self, now: Time) -> Option<u64> {
        self.polls.first().filter(|(at, _)| *at <= now).map(|(_, id)| *id)
    }

    /// The call with this progress token.
    #[inline]
    pub(super) fn of_token(&self, token: u64) -> Option<RequestId> {
        self.tokens.get(&token).copied()
    }

    /// The call that runs as the task with this id.
    pub(super) fn of_id(&self, id: &str) -> Option<RequestId> {
        self.ids.get(id).copied()
    }

    /// The ids of the tasks.
    pub(super) fn ids(&self) -> impl Iterator<Item = &str> {
        self.ids.keys().map(|id| &**id)
    }
}
