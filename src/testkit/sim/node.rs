//! Does what the clients want, and gives them what arrives.

#[cfg(feature = "http")]
use std::boxed::Box;

use super::driven::{Arrival, Driven, Embedder, Port, Step};
use super::world::{Actor, Item, Parcel, Sim};
use crate::host::hub::SessionHandle;
use crate::testkit::channel::{ChannelId, ServerOutput};
use crate::{OpenFailure, Time, Transport};

impl<E: Embedder> Sim<E> {
    /// Takes one action of a client. Returns whether there was one.
    pub(super) fn act(&mut self, index: usize) -> bool {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(index) else { return false };
        let Some(step) = node.embedder.driven().step() else {
            node.is_dirty = false;
            self.rearm(index);
            return false;
        };
        match step {
            Step::Event(event) => node.embedder.on_event(now, event),
            Step::Open(port) => self.open(index, port),
            Step::Write(session, bytes) => {
                if let Some(channel) = self.newest(index, session) {
                    self.write(channel, &bytes);
                }
            }
            Step::Shutdown(session, step) => match self.newest(index, session) {
                Some(channel) => self.up(channel, Parcel::Shutdown(step)),
                None => self.report_closed(index, session),
            },
            #[cfg(feature = "http")]
            Step::Request(session, request) => {
                let port = Port::Exchange(session, request.exchange);
                let Some(channel) = self.connect(index, port) else {
                    return self.fail(index, port);
                };
                if self.is_unreachable(channel) {
                    self.down(channel, Parcel::Unreachable);
                } else if !self.is_lost(channel) {
                    self.up(channel, Parcel::Request(Box::new(request.request)));
                }
            }
            #[cfg(feature = "http")]
            Step::Drop(port) => {
                if let Some(channel) = self.ports.get(&(index, port)).copied() {
                    self.abandon(channel);
                }
            }
        }
        true
    }

    /// The deadline of a client and its embedder.
    fn rearm(&mut self, index: usize) {
        let Some(node) = self.nodes.get_mut(index) else { return };
        let own = node.embedder.deadline();
        let due = node.embedder.driven().next_deadline().into_iter().chain(own).min();
        let before = core::mem::replace(&mut node.due, due);
        self.set_timer(Actor::Node(index), before, due);
    }

    fn newest(&self, node: usize, session: Option<SessionHandle>) -> Option<ChannelId> {
        self.newest.get(&(node, session)).copied()
    }

    fn open(&mut self, index: usize, port: Port) {
        // A process of this session that still runs ends first.
        if let Some(former) = self.newest(index, port.session()) {
            self.abandon(former);
        }
        let Some(channel) = self.connect(index, port) else {
            return self.give(index, port, Arrival::Transport(unreachable()));
        };
        self.newest.insert((index, port.session()), channel);
        if self.is_unreachable(channel) {
            self.down(channel, Parcel::Unreachable);
        } else {
            self.up(channel, Parcel::Open);
        }
    }

    /// The client wants no more of a connection.
    fn abandon(&mut self, channel: ChannelId) {
        let at_client = |what: &Parcel| matches!(what, Parcel::Opened | Parcel::Unreachable | Parcel::Output(_));
        self.agenda.retain(|_, item| item.channel != channel || !at_client(&item.what));
        self.up(channel, Parcel::Close);
        if let Some(wire) = self.channels.get(&channel) {
            self.ports.remove(&(wire.node, wire.port));
        }
    }

    /// A session is to shut a connection down that is over.
    fn report_closed(&mut self, index: usize, session: Option<SessionHandle>) {
        let node = self.nodes.get_mut(index);
        if let Some(connection) = node.and_then(|node| node.embedder.driven().connection_of(session)) {
            let why = "it is closed already";
            self.give(index, Port::Connection(session, connection), Arrival::Transport(Transport::Closed { why }));
        }
    }

    #[cfg(feature = "http")]
    fn fail(&mut self, index: usize, port: Port) -> bool {
        use crate::binding::http::Broken;

        self.give(index, port, Arrival::Failure(Broken::Unreachable, "no such server"));
        true
    }

    fn give(&mut self, index: usize, port: Port, input: Arrival<'_>) {
        if let Some(node) = self.nodes.get_mut(index) {
            node.embedder.driven().input(self.now, port, input);
        }
        self.soil(index);
    }

    /// Something arrives.
    pub(super) fn arrive(&mut self, Item { channel, what }: Item) {
        let Some(wire) = self.channels.get(&channel) else { return };
        let (index, port, server) = (wire.node, wire.port, wire.server);
        let now = self.now;
        let Some(site) = self.servers.get_mut(server) else { return };
        match what {
            Parcel::Open => {
                site.server.handle_open(now, channel);
                self.down(channel, Parcel::Opened);
            }
            Parcel::Write(bytes) => site.server.handle_bytes(now, channel, &bytes),
            Parcel::Shutdown(step) => site.server.handle_shutdown(now, channel, step),
            #[cfg(feature = "http")]
            Parcel::Request(request) => site.server.handle_request(now, channel, &request),
            Parcel::Close => {
                site.server.handle_closed(now, channel);
                self.forget(channel);
            }
            Parcel::Opened => self.give(index, port, Arrival::Transport(Transport::Opened)),
            Parcel::Unreachable => {
                self.forget(channel);
                match port {
                    Port::Connection(..) => self.give(index, port, Arrival::Transport(unreachable())),
                    #[cfg(feature = "http")]
                    Port::Exchange(..) => drop(self.fail(index, port)),
                }
            }
            Parcel::Output(output) => self.deliver(channel, index, port, output),
        }
        self.pump(server);
    }

    fn deliver(&mut self, channel: ChannelId, index: usize, port: Port, output: ServerOutput) {
        let is_over = matches!(output, ServerOutput::End | ServerOutput::Break);
        if is_over {
            self.forget(channel);
        }
        match (port, output) {
            (Port::Connection(..), ServerOutput::End) => {
                self.give(index, port, Arrival::Transport(Transport::Closed { why: "exit status: 0" }));
            }
            (Port::Connection(..), ServerOutput::Break) => {
                self.give(index, port, Arrival::Transport(Transport::Closed { why: "the pipe broke" }));
            }
            (_, ServerOutput::Bytes(bytes)) => self.give(index, port, Arrival::Bytes(&bytes)),
            // A pipe has no head.
            (Port::Connection(..), ServerOutput::Head { .. }) => {}
            #[cfg(feature = "http")]
            (Port::Exchange(..), output) => self.deliver_http(index, port, output),
        }
    }

    #[cfg(feature = "http")]
    fn deliver_http(&mut self, index: usize, port: Port, output: ServerOutput) {
        use crate::binding::http::Broken;

        match output {
            ServerOutput::Head { status, headers } => {
                let status = ::http::StatusCode::from_u16(status).unwrap_or(::http::StatusCode::OK);
                let headers = headers.into_iter().filter_map(|(name, value)| {
                    Some((::http::HeaderName::from_static(name), ::http::HeaderValue::from_str(&value).ok()?))
                });
                let headers = headers.collect();
                self.give(index, port, Arrival::Head(status, &headers));
            }
            ServerOutput::Bytes(bytes) => self.give(index, port, Arrival::Bytes(&bytes)),
            ServerOutput::End => self.give(index, port, Arrival::End),
            ServerOutput::Break => self.give(index, port, Arrival::Failure(Broken::Midway, "connection reset")),
        }
    }

    /// A deadline of a client, or of its embedder, is due.
    pub(super) fn time_out(&mut self, index: usize) {
        let now: Time = self.now;
        if let Some(node) = self.nodes.get_mut(index) {
            let before = node.due.take();
            node.embedder.driven().time_out(now);
            if node.embedder.deadline().is_some_and(|deadline| deadline <= now) {
                node.embedder.on_timeout(now);
            }
            self.set_timer(Actor::Node(index), before, None);
        }
        self.soil(index);
    }
}

const fn unreachable() -> Transport<'static> {
    Transport::OpenFailed { how: OpenFailure::Connect, why: "connection refused" }
}
