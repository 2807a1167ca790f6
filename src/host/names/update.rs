//! Names of servers whose tools changed.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Names, Target};

impl Names {
    /// Sets the complete tools of each of these servers, in any order. Removed tools lose their names, existing ones
    /// keep them, new ones get one if an attempt finds a free name. Other servers are not affected.
    pub fn update<'a, T: IntoIterator<Item = Target>>(&mut self, servers: impl IntoIterator<Item = (&'a str, T)>) {
        let mut current: BTreeMap<Arc<str>, Vec<Target>> = BTreeMap::new();
        for (server, targets) in servers {
            current.entry(self.server(server)).or_default().extend(targets);
        }
        self.set(current);
    }

    /// As [`update`](Self::update), of one server, whose name is shared.
    pub(in super::super) fn update_one(&mut self, server: &Arc<str>, targets: Vec<Target>) {
        self.set([(Arc::clone(server), targets)]);
    }

    /// Sets the tools of servers, which are sorted.
    fn set(&mut self, servers: impl IntoIterator<Item = (Arc<str>, Vec<Target>)>) {
        let mut fresh = Vec::new();
        for (server, mut targets) in servers {
            targets.sort_unstable();
            targets.dedup();
            self.keep_only(&server, |target| targets.binary_search(target).is_ok());
            if let Some(given) = self.servers.get(&server) {
                targets.retain(|target| !given.has(target));
            }
            fresh.extend(targets.into_iter().map(|target| (Arc::clone(&server), target)));
        }
        self.assign(fresh);
    }

    /// Like an update of a server whose tools all had names: `gone` are removed, `fresh`, in their order, are new.
    pub(in super::super) fn revise(&mut self, server: &Arc<str>, gone: &[&Target], fresh: &[&Target]) {
        if !gone.is_empty() {
            self.keep_only(server, |target| gone.binary_search(&target).is_err());
        }
        self.assign(fresh.iter().map(|target| (Arc::clone(server), Target::clone(target))).collect());
    }
}
