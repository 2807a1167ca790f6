use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use http::HeaderValue;

use super::address::Address;
use super::limits::LINGER_BYTES;
use super::response::{Events, Kind, Refusal};
use super::timers::Timer;
use super::tokens::Sent;
use crate::client::Outgoing;
use crate::machine::http_end::{Kept, Response};

/// The purpose of an exchange.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum ExchangeKind {
    /// The POST of a message.
    Message(Outgoing),
    /// The GET of the GET stream.
    Stream,
    /// The GET that resumes the stream of a request.
    Resume(u64, Box<Broken>),
    /// The GET of the HTTP+SSE stream.
    Sse,
    /// The DELETE of the previous session; then this request is sent again.
    DeleteFormer(u64, #[cfg_attr(feature = "snapshot", serde(with = "super::form::header"))] HeaderValue),
    /// The DELETE of the session.
    Delete(#[cfg_attr(feature = "snapshot", serde(with = "super::form::header"))] HeaderValue),
}

/// Where the stream of a request broke.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Broken {
    #[cfg_attr(feature = "snapshot", serde(with = "crate::form::bytes"))]
    pub(super) last_id: Vec<u8>,
    /// The `retry` time of the server.
    pub(super) retry: Option<Duration>,
}

/// A request and its response.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Exchange {
    pub(super) purpose: ExchangeKind,
    pub(super) url: Address,
    pub(super) redirects: u8,
    /// The status of the response; 0 until it begins.
    pub(super) status: u16,
    pub(super) reply: Reply,
    /// The credentials that it was sent with.
    #[cfg_attr(feature = "snapshot", serde(skip))]
    pub(super) sent: Sent,
    /// When the exchange is dropped, if it does not end by itself.
    pub(super) release: Option<Timer>,
}

/// The part of the response that was received.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) enum Reply {
    /// The request was not polled yet.
    Unsent,
    /// Nothing.
    Nothing,
    /// A success status; whether JSON or a stream follows is not known yet.
    Begun(Option<Kind>),
    /// JSON.
    Json(#[cfg_attr(feature = "snapshot", serde(with = "crate::form::bytes"))] Vec<u8>),
    /// A stream of events.
    Events(Box<Events>),
    /// An error status.
    Refusal(Box<Refusal>),
    /// Nothing relevant.
    Ignored,
}

impl ExchangeKind {
    /// The request, by its JSON-RPC id, whose response is in the exchange.
    pub(super) fn request(&self) -> Option<u64> {
        match self {
            Self::Message(message) => message.id(),
            Self::Resume(id, _) => Some(*id),
            Self::Stream | Self::Sse | Self::DeleteFormer(..) | Self::Delete(_) => None,
        }
    }

    /// The message that it posts, if that is a notification or a response.
    pub(super) fn one_way(&self) -> Option<&Outgoing> {
        match self {
            Self::Message(message) if message.id().is_none() => Some(message),
            Self::Message(_)
            | Self::Stream
            | Self::Resume(..)
            | Self::Sse
            | Self::DeleteFormer(..)
            | Self::Delete(_) => None,
        }
    }
}

impl Reply {
    /// Buffered bytes.
    pub(super) fn buffered(&self) -> usize {
        match self {
            Self::Json(body) => body.len(),
            Self::Events(events) => events.decoder.buffered(),
            Self::Refusal(refusal) => refusal.body.len(),
            Self::Unsent | Self::Nothing | Self::Begun(_) | Self::Ignored => 0,
        }
    }

    /// The class of the response at the end of the exchange.
    pub(super) fn class(&self) -> Response {
        match self {
            Self::Unsent | Self::Nothing => Response::Nothing,
            Self::Begun(Some(Kind::Events)) => Response::EmptyStream,
            Self::Begun(Some(Kind::Json) | None) => Response::Empty,
            Self::Json(_) => Response::Json,
            Self::Events(events) if events.sure => Response::Events,
            Self::Events(_) => Response::NoEvents,
            Self::Refusal(refusal) => refusal.end_response(),
            Self::Ignored => Response::Ignored,
        }
    }

    /// How much of it is kept.
    pub(super) fn kept(&self) -> Kept {
        if self.buffered() > LINGER_BYTES { Kept::Long } else { Kept::Short }
    }
}
