//! Plays turns, and counts what a host accepted.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

use super::content::FakeTool;
use super::sim::{Embedder, NodeId, Runaway, Sim};
use super::strategy::{Incident, Operation, Turn};
use crate::Time;

/// The time to connect, before the first turn.
const START: Duration = Duration::from_secs(1);
/// The time for every timeout and backoff to pass, after the last turn.
const END: Duration = Duration::from_secs(1800);

/// The operations that a host accepted ([`Sim::play`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    counts: BTreeMap<Operation, usize>,
}

impl Accepted {
    /// How many calls of this tool.
    pub fn calls(&self, name: &str) -> usize {
        self.count(&Operation::Call(name.into()))
    }

    /// How many reads of this resource.
    pub fn reads(&self, uri: &str) -> usize {
        self.count(&Operation::Read(uri.into()))
    }

    /// How many requests for this prompt.
    pub fn gets(&self, name: &str) -> usize {
        self.count(&Operation::Get(name.into()))
    }

    /// How many operations.
    pub fn total(&self) -> usize {
        self.counts.values().sum()
    }

    fn count(&self, operation: &Operation) -> usize {
        self.counts.get(operation).copied().unwrap_or_default()
    }
}

impl<E: Embedder> Sim<E> {
    /// Makes an incident happen to the server of this name.
    pub fn incident(&mut self, server: &str, incident: &Incident) {
        match incident {
            Incident::None => {}
            Incident::Fault(fault) => self.fault(server, *fault),
            Incident::Script(on, replies) => {
                self.change(server, |server| server.add_script(on.clone(), replies.iter().cloned()));
            }
            Incident::Tools(names) => {
                self.change(server, |server| {
                    let tools: Vec<_> = names
                        .iter()
                        .map(|name| server.find_tool(name).cloned().unwrap_or_else(|| FakeTool::new(name)))
                        .collect();
                    server.set_tools(tools);
                });
            }
            Incident::Ask(ask) => {
                self.change(server, |server| server.ask(ask));
            }
        }
    }

    /// Plays turns: one second to connect, then of each turn the operation, the incident at the server of this name and
    /// the wait, and at the end half an hour, in which every timeout passes. `run` gives an operation to the host, and
    /// returns whether the host accepts it. For an id of another simulation, none is accepted.
    ///
    /// # Errors
    /// [`Runaway`] after the maximum number of steps of one run.
    pub fn play(
        &mut self,
        node: NodeId,
        server: &str,
        turns: &[Turn],
        mut run: impl FnMut(Time, &mut E, &Operation) -> bool,
    ) -> Result<Accepted, Runaway> {
        let mut accepted = Accepted::default();
        self.run_for(START)?;
        for Turn { operation, incident, wait } in turns {
            if self.tell(node, |now, host| run(now, host, operation)) == Some(true) {
                let count = accepted.counts.entry(operation.clone()).or_default();
                *count = count.saturating_add(1);
            }
            self.incident(server, incident);
            self.run_for(*wait)?;
        }
        self.run_for(END)?;
        Ok(accepted)
    }
}

/// The first item that occurs a second time.
///
/// ```
/// use mcp_proto::testkit::repeated;
///
/// assert_eq!(repeated([1, 2, 3, 2, 1]), Some(2));
/// assert_eq!(repeated(["a", "b"]), None);
/// ```
pub fn repeated<T: Ord + Clone>(items: impl IntoIterator<Item = T>) -> Option<T> {
    let mut seen = BTreeSet::new();
    items.into_iter().find(|item| !seen.insert(item.clone()))
}
