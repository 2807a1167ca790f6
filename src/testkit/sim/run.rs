//! Lets time pass.

use core::time::Duration;

use super::driven::Embedder;
use super::world::{Actor, NodeId, Sim};
use crate::Time;
use crate::testkit::server::FakeServer;

/// A run that does not end: a client or an embedder acts without end, or a deadline does not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[error("the simulation made {steps} steps in one run, and is still at {at:?}")]
pub struct Runaway {
    /// The maximum number of steps of one run.
    pub steps: usize,
    /// The time that was reached.
    pub at: Time,
}

impl<E: Embedder> Sim<E> {
    /// Gives a command to an embedder, at the current time: `sim.tell(node, |now, host| host.open(now))`. Its actions
    /// are taken by the next run. `None` for an id of another simulation.
    pub fn tell<T>(&mut self, node: NodeId, command: impl FnOnce(Time, &mut E) -> T) -> Option<T> {
        let embedder = &mut self.nodes.get_mut(node.0)?.embedder;
        let result = command(self.now, embedder);
        self.soil(node.0);
        Some(result)
    }

    /// Changes a server: `sim.change("docs", |server| server.set_tools([]))`. `None` if there is none of this name.
    pub fn change<T>(&mut self, server: &str, change: impl FnOnce(&mut FakeServer) -> T) -> Option<T> {
        let index = self.servers.iter().position(|site| site.name == server)?;
        let server = &mut self.servers.get_mut(index)?.server;
        // What it announces is sent now.
        server.advance(self.now);
        let result = change(server);
        self.pump(index);
        Some(result)
    }

    /// Runs for this time.
    ///
    /// # Errors
    /// [`Runaway`] after the maximum number of steps.
    pub fn run_for(&mut self, time: Duration) -> Result<(), Runaway> {
        self.run_until(time, |_| false).map(drop)
    }

    /// Runs until a condition holds, or for this time. Returns whether the condition holds.
    ///
    /// # Errors
    /// [`Runaway`] after the maximum number of steps.
    pub fn run_until(&mut self, time: Duration, mut condition: impl FnMut(&Self) -> bool) -> Result<bool, Runaway> {
        let end = self.now + time;
        self.steps = 0;
        loop {
            self.settle()?;
            if condition(self) {
                return Ok(true);
            }
            let Some(next) = self.next_time().filter(|next| *next <= end) else {
                self.now = end;
                return Ok(false);
            };
            self.count_step()?;
            self.now = self.now.max(next);
            self.advance();
        }
    }

    /// Makes one step: an embedder takes one action. If no action is left, time passes until the next arrival or
    /// deadline, which is handled. Returns whether there was anything to do.
    ///
    /// Between two steps a test can read the state of a client, save and restore it, or change its server.
    pub fn step(&mut self) -> bool {
        if self.take_action() {
            return true;
        }
        let Some(next) = self.next_time() else { return false };
        self.now = self.now.max(next);
        self.advance();
        true
    }

    /// Takes every action of the clients.
    fn settle(&mut self) -> Result<(), Runaway> {
        while self.take_action() {
            self.count_step()?;
        }
        Ok(())
    }

    /// Takes one action of a client. Returns whether there was one.
    fn take_action(&mut self) -> bool {
        while let Some(index) = self.dirty.front().copied() {
            if self.act(index) {
                return true;
            }
            self.dirty.pop_front();
        }
        false
    }

    fn count_step(&mut self) -> Result<(), Runaway> {
        self.steps = self.steps.saturating_add(1);
        if self.steps > self.max_steps { Err(Runaway { steps: self.max_steps, at: self.now }) } else { Ok(()) }
    }

    /// When something happens next.
    fn next_time(&self) -> Option<Time> {
        let arrival = self.agenda.first_key_value().map(|((at, _), _)| *at);
        let timer = self.timers.first().map(|(at, _)| *at);
        arrival.into_iter().chain(timer).min()
    }

    /// Lets one thing happen that is due. What arrives comes before a deadline of the same time.
    fn advance(&mut self) {
        if let Some(entry) = self.agenda.first_entry()
            && entry.key().0 <= self.now
        {
            let (_, number) = *entry.key();
            let item = entry.remove();
            let wire = self.channels.get(&item.channel);
            let stalled = wire.and_then(|wire| self.servers.get(wire.server)).map(|site| site.stalled_until);
            match stalled.filter(|until| *until > self.now) {
                Some(until) => drop(self.agenda.insert((until, number), item)),
                None => self.arrive(item),
            }
        } else if let Some((_, actor)) = self.timers.first().copied() {
            match actor {
                Actor::Node(index) => self.time_out(index),
                Actor::Server(index) => self.pump(index),
            }
        }
    }
}
