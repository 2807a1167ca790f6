//! HTTP+SSE, the transport of 2024-11-05: one stream for all that the server says, and an endpoint for what is sent.

use alloc::format;

use super::exchange::{Purpose, Refused};
use super::request::same_origin;
use super::{Http, Mode};
use crate::Time;
use crate::binding::Sse;
use crate::client::{Engine, Report, Transport};

impl Http {
    /// The server refused `initialize` as one of the older transport would.
    pub(super) fn try_events(&mut self, engine: &mut Engine, refused: Refused) {
        self.get(engine, Purpose::Events { refused: Some(refused) }, 0);
    }

    /// Takes an event of the older transport's stream, the first of which names where messages go. Gives `false` where
    /// it is no such stream.
    pub(super) fn older_event(
        &mut self,
        engine: &mut Engine,
        now: Time,
        refused: &mut Option<Refused>,
        item: Sse<'_>,
    ) -> bool {
        let (Sse::Event(event) | Sse::TooLong(event)) = item else { return true };
        // The connection may have ended with the event before.
        if !self.is_current(engine) {
            return true;
        }
        match event.name {
            b"endpoint" => self.found_endpoint(engine, event.data, refused.take()),
            b"message" if matches!(self.mode, Mode::Events(Some(_))) => engine.handle_message(now, event.data),
            b"message" => {
                self.no_endpoint(engine, refused.take());
                return false;
            }
            _ => {}
        }
        true
    }

    /// The stream of the older transport names where messages go.
    fn found_endpoint(&mut self, engine: &mut Engine, endpoint: &[u8], refused: Option<Refused>) {
        let now = engine.now();
        let target = match same_origin(&self.url, endpoint) {
            Ok(target) => target,
            Err(shown) => {
                let why = format!("the server's stream names the endpoint `{shown}`, which is another origin");
                return engine.handle_transport(now, Transport::ProtocolViolation { why: &why });
            }
        };
        let first = self.mode == Mode::Streamable || self.mode == Mode::Events(None);
        self.mode = Mode::Events(Some(target));
        match refused {
            Some(refused) => self.restart(engine, refused.id),
            None if first => engine.handle_transport(now, Transport::Opened),
            None => {}
        }
    }

    /// There is no stream of the older transport: the refusal stands, or the server has another transport by now.
    pub(super) fn no_endpoint(&mut self, engine: &mut Engine, refused: Option<Refused>) {
        let now = engine.now();
        let Some(refused) = refused else {
            self.mode = Mode::Streamable;
            let why = "the stream names no endpoint";
            return engine.handle_transport(now, Transport::Closed { why });
        };
        let (id, status, why) = (refused.id, refused.status, &*refused.words);
        engine.handle_report(now, Report::Refused { id, status, why });
    }
}
