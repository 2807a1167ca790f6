//! HTTP+SSE, the transport of 2024-11-05: one stream for all messages of the server, and an endpoint for those of the
//! client.

use alloc::boxed::Box;

use super::address::Address;
use crate::machine::Row;
use crate::machine::http_sse::{Effect, Input, State, take};

/// An `initialize` that was refused as by an HTTP+SSE server.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Refused {
    pub(super) id: u64,
    pub(super) status: u16,
    pub(super) words: Box<str>,
}

/// The state of the server's transport.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Sse {
    state: State,
    endpoint: Option<Address>,
    refused: Option<Box<Refused>>,
}

impl Default for Sse {
    fn default() -> Self {
        Self { state: State::Streamable, endpoint: None, refused: None }
    }
}

impl Sse {
    pub(super) const fn state(&self) -> State {
        self.state
    }

    pub(super) fn step(&mut self, input: Input) -> Row<State, Effect> {
        let row = take(self.state, input);
        self.state = row.next;
        if row.next != State::Ready {
            self.endpoint = None;
        }
        row
    }

    /// Where messages are posted, if not to the server's address.
    pub(super) const fn endpoint(&self) -> Option<&Address> {
        self.endpoint.as_ref()
    }

    pub(super) fn set_endpoint(&mut self, endpoint: Address) {
        self.endpoint = Some(endpoint);
    }

    pub(super) fn refuse(&mut self, refused: Refused) {
        self.refused = Some(Box::new(refused));
    }

    pub(super) fn take_refused(&mut self) -> Option<Box<Refused>> {
        self.refused.take()
    }
}
