//! HTTP+SSE, the transport of 2024-11-05: one stream for all that the server says, and an endpoint for what is sent.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::exchange::{Events, Exchange, Purpose, Refused};
use super::request::{is_same_origin, resolve};
use super::{ExchangeId, HttpAction, HttpSession, Mode};
use crate::Time;
use crate::binding::Sse;
use crate::session::Transport;

impl HttpSession {
    /// The server refused `initialize` as one of the older transport would.
    pub(super) fn try_events(&mut self, refused: Refused) {
        self.get(Purpose::Events { refused: Some(refused) });
    }

    /// Takes what came by the older transport's stream, whose first event names where messages go.
    pub(super) fn old_events(&mut self, now: Time, exchange: ExchangeId, events: &[(bool, Vec<u8>)]) {
        for (endpoint, data) in events {
            let Some(Exchange { purpose: Purpose::Events { refused }, .. }) = self.exchanges.get_mut(&exchange.0)
            else {
                return;
            };
            if *endpoint {
                let refused = refused.take();
                self.found_endpoint(&String::from_utf8_lossy(data), refused);
            } else if matches!(self.mode, Mode::Events(Some(_))) {
                self.session.handle_message(now, data);
            } else {
                let refused = refused.take();
                self.exchanges.remove(&exchange.0);
                self.out.push_back(HttpAction::Drop(exchange));
                return self.no_endpoint(refused);
            }
            self.tidy();
        }
    }

    /// The stream of the older transport names where messages go.
    pub(super) fn found_endpoint(&mut self, endpoint: &str, refused: Option<Refused>) {
        let now = self.session.now();
        let target = resolve(&self.url, endpoint).filter(|target| is_same_origin(&self.url, target));
        let Some(target) = target else {
            let why = format!("the server's stream names the endpoint `{endpoint}`, which is none of the same origin");
            return self.session.handle_transport(now, Transport::Senseless { why: &why });
        };
        let first = self.mode == Mode::Streamable || self.mode == Mode::Events(None);
        self.mode = Mode::Events(Some(target));
        match refused {
            Some(refused) => self.restart(refused.id),
            None if first => self.session.handle_transport(now, Transport::Opened),
            None => {}
        }
    }

    /// There is no stream of the older transport: the refusal stands, or the server has another transport by now.
    pub(super) fn no_endpoint(&mut self, refused: Option<Refused>) {
        let now = self.session.now();
        let Some(refused) = refused else {
            self.mode = Mode::Streamable;
            let why = "the stream names no endpoint";
            return self.session.handle_transport(now, Transport::Closed { why });
        };
        let (id, status, why) = (refused.id, refused.status, &*refused.words);
        self.session.handle_transport(now, Transport::Refused { id, status, why });
    }
}

/// The events in a piece of the older transport's stream: whether each names an endpoint, and its data.
pub(super) fn read(events: &mut Events, chunk: &[u8]) -> Vec<(bool, Vec<u8>)> {
    let mut found = Vec::new();
    events.decoder.feed(chunk, |item| match item {
        Sse::Event(event) | Sse::TooLong(event) if event.name == b"endpoint" || event.name == b"message" => {
            found.push((event.name == b"endpoint", event.data.to_vec()));
        }
        Sse::Event(_) | Sse::TooLong(_) | Sse::Retry(_) => {}
    });
    found
}
