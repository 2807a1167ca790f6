//! Carries bytes between clients and servers.

use std::vec::Vec;

use super::driven::{Driven, Embedder, Port};
use super::link::{Fault, Link};
use super::world::{Actor, Item, Parcel, Sim, Wire};
use crate::Time;
use crate::testkit::channel::{ChannelId, ServerAction, ServerOutput};

/// The direction of a parcel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

impl<E: Embedder> Sim<E> {
    /// Begins a connection; `None` if there is no server for it.
    pub(super) fn connect(&mut self, node: usize, port: Port) -> Option<ChannelId> {
        let server = self.target(node, port.session())?;
        let channel = ChannelId::from_u64(self.next());
        self.channels.insert(channel, Wire { node, port, server, up: self.now, down: self.now });
        self.ports.insert((node, port), channel);
        Some(channel)
    }

    /// Whether new connections to the server of a connection fail.
    pub(super) fn is_unreachable(&self, channel: ChannelId) -> bool {
        let wire = self.channels.get(&channel);
        let site = wire.and_then(|wire| self.servers.get(wire.server));
        site.is_none_or(|site| site.unreachable_until > self.now)
    }

    pub(super) fn up(&mut self, channel: ChannelId, what: Parcel) {
        self.enqueue(channel, Way::Up, what);
    }

    pub(super) fn down(&mut self, channel: ChannelId, what: Parcel) {
        self.enqueue(channel, Way::Down, what);
    }

    /// The client writes to a pipe.
    pub(super) fn write(&mut self, channel: ChannelId, bytes: &[u8]) {
        self.carry(channel, Way::Up, bytes);
    }

    /// Puts bytes on their way, in pieces as the link cuts them.
    fn carry(&mut self, channel: ChannelId, way: Way, bytes: &[u8]) {
        let Some((node, link)) = self.link(channel) else { return };
        if self.is_lost(channel) {
            return;
        }
        let is_whole = self.nodes.get_mut(node).is_some_and(|node| node.embedder.driven().takes_messages());
        for piece in self.pieces(bytes.len(), if is_whole { 0 } else { link.piece }) {
            let piece = bytes.get(piece).unwrap_or_default().to_vec();
            let what = match way {
                Way::Up => Parcel::Write(piece),
                Way::Down => Parcel::Output(ServerOutput::Bytes(piece)),
            };
            self.enqueue(channel, way, what);
        }
    }

    fn link(&self, channel: ChannelId) -> Option<(usize, Link)> {
        let wire = self.channels.get(&channel)?;
        self.servers.get(wire.server).map(|site| (wire.node, site.link))
    }

    /// Whether the next write on a connection is lost, and the connection with it.
    pub(super) fn is_lost(&mut self, channel: ChannelId) -> bool {
        let cuts = self.link(channel).map_or(0, |(_, link)| link.cuts_per_mille);
        let lost = cuts > 0 && self.rng.u16(0..1000) < cuts;
        if lost {
            self.cut(channel);
        }
        lost
    }

    /// A piece arrives after those before it.
    fn enqueue(&mut self, channel: ChannelId, way: Way, what: Parcel) {
        let Some((_, link)) = self.link(channel) else { return };
        let soonest = self.now + link.latency + self.random_time(link.jitter);
        let number = self.next();
        let Some(wire) = self.channels.get_mut(&channel) else { return };
        let free = match way {
            Way::Up => &mut wire.up,
            Way::Down => &mut wire.down,
        };
        *free = soonest.max(*free);
        self.agenda.insert((*free, number), Item { channel, what });
    }

    /// Takes what the server of this number does now.
    pub(super) fn pump(&mut self, index: usize) {
        let mut actions: Vec<ServerAction> = Vec::new();
        let Some(site) = self.servers.get_mut(index) else { return };
        while let Some(action) = site.server.poll(self.now) {
            actions.push(action);
        }
        let (before, due) = (site.due, site.server.deadline());
        site.due = due;
        self.set_timer(Actor::Server(index), before, due);
        for ServerAction { channel, output } in actions {
            match output {
                ServerOutput::Bytes(bytes) => self.carry(channel, Way::Down, &bytes),
                output @ (ServerOutput::Head { .. } | ServerOutput::End | ServerOutput::Break) => {
                    self.down(channel, Parcel::Output(output));
                }
            }
        }
    }

    pub(super) fn set_timer(&mut self, actor: Actor, before: Option<Time>, due: Option<Time>) {
        if before != due {
            before.map(|before| self.timers.remove(&(before, actor)));
            due.map(|due| self.timers.insert((due, actor)));
        }
    }

    /// A connection breaks: what is under way is lost, and both ends notice.
    pub(super) fn cut(&mut self, channel: ChannelId) {
        let Some(server) = self.channels.get(&channel).map(|wire| wire.server) else { return };
        self.agenda.retain(|_, item| item.channel != channel);
        if let Some(site) = self.servers.get_mut(server) {
            site.server.handle_closed(self.now, channel);
        }
        self.enqueue(channel, Way::Down, Parcel::Output(ServerOutput::Break));
    }

    /// Forgets a connection that is over at the client.
    pub(super) fn forget(&mut self, channel: ChannelId) {
        if let Some(wire) = self.channels.remove(&channel) {
            self.ports.remove(&(wire.node, wire.port));
            let key = (wire.node, wire.port.session());
            if self.newest.get(&key) == Some(&channel) {
                self.newest.remove(&key);
            }
        }
    }

    /// A fault happens to the server of this name, and to the connections to it.
    pub fn fault(&mut self, server: &str, fault: Fault) {
        let Some(index) = self.servers.iter().position(|site| site.name == server) else { return };
        let now = self.now;
        let Some(site) = self.servers.get_mut(index) else { return };
        match fault {
            Fault::Cut => self.cut_all(index),
            Fault::Stall(time) => site.stalled_until = site.stalled_until.max(now + time),
            Fault::Unreachable(time) => {
                site.unreachable_until = site.unreachable_until.max(now + time);
                self.cut_all(index);
            }
            Fault::Expire => site.server.expire(now),
            Fault::Crash => site.server.crash(now),
        }
        self.pump(index);
    }

    fn cut_all(&mut self, server: usize) {
        let of_server = self.channels.iter().filter(|(_, wire)| wire.server == server);
        let channels: Vec<_> = of_server.map(|(channel, _)| *channel).collect();
        channels.into_iter().for_each(|channel| self.cut(channel));
    }
}
