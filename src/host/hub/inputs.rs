//! Inputs: the time, and what the transports of sessions received.

use super::Hub;
use super::connection::Connection;
use super::event::SessionHandle;
use crate::Time;
#[cfg(feature = "http")]
use crate::binding::http::{Broken, ExchangeId};
use crate::client::{ConnectionId, Transport};

impl Hub {
    /// Handles the deadlines that are due. Without any it does nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        self.router.advance(now);
    }

    /// Takes a chunk, of any size, of a process's output.
    pub fn handle_bytes(&mut self, now: Time, session: SessionHandle, connection: ConnectionId, chunk: &[u8]) {
        self.router.input(now, session, |client, now| match client {
            Connection::Lines(lines) => lines.handle_bytes(now, connection, chunk),
            #[cfg(feature = "http")]
            Connection::Http(_) => {}
        });
    }

    /// Takes a report on a process or another transport.
    pub fn handle_transport(
        &mut self,
        now: Time,
        session: SessionHandle,
        connection: ConnectionId,
        event: Transport<'_>,
    ) {
        self.router.input(now, session, |client, now| match client {
            Connection::Lines(lines) => lines.handle_transport(now, connection, event),
            #[cfg(feature = "http")]
            Connection::Http(_) => {}
        });
    }

    /// Takes the head of a response ([`Client::handle_head`](crate::Client::handle_head)).
    #[cfg(feature = "http")]
    pub fn handle_head(
        &mut self,
        now: Time,
        session: SessionHandle,
        exchange: ExchangeId,
        status: http::StatusCode,
        headers: &http::HeaderMap,
    ) {
        self.router.input(now, session, |connection, now| match connection {
            Connection::Http(it) => it.handle_head(now, exchange, status, headers),
            Connection::Lines(_) => {}
        });
    }

    /// Takes a chunk of a response's body.
    #[cfg(feature = "http")]
    pub fn handle_body(&mut self, now: Time, session: SessionHandle, exchange: ExchangeId, chunk: &[u8]) {
        self.router.input(now, session, |connection, now| match connection {
            Connection::Http(it) => it.handle_body(now, exchange, chunk),
            Connection::Lines(_) => {}
        });
    }

    /// Takes the end of a response.
    #[cfg(feature = "http")]
    pub fn handle_end(&mut self, now: Time, session: SessionHandle, exchange: ExchangeId) {
        self.router.input(now, session, |connection, now| match connection {
            Connection::Http(it) => it.handle_end(now, exchange),
            Connection::Lines(_) => {}
        });
    }

    /// Takes a failure of an exchange.
    #[cfg(feature = "http")]
    pub fn handle_failure(
        &mut self,
        now: Time,
        session: SessionHandle,
        exchange: ExchangeId,
        broken: Broken,
        why: &str,
    ) {
        self.router.input(now, session, |connection, now| match connection {
            Connection::Http(it) => it.handle_failure(now, exchange, broken, why),
            Connection::Lines(_) => {}
        });
    }
}
