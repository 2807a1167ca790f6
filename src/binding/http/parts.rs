use http::Uri;

use super::action::ExchangeId;
use super::address::Address;
use super::exchanges::Exchanges;
use super::get_stream::GetStream;
use super::outbox::Outbox;
use super::queue::Queue;
use super::session::Session;
use super::sse::Sse;
use super::timers::{Timer, Timers};
use crate::client::{ConnectionId, Outgoing};
use crate::machine::{http as phase, http_reach};

/// Streamable HTTP, in both eras, and HTTP+SSE.
///
/// The embedder executes requests with an HTTP client that follows no redirects, and reports the results by
/// [`handle_head`](crate::Client::<Http>::handle_head), [`handle_body`](crate::Client::<Http>::handle_body),
/// [`handle_end`](crate::Client::<Http>::handle_end) and [`handle_failure`](crate::Client::<Http>::handle_failure).
/// Exchanges run concurrently; a stream may last as long as the client, so no exchange has a time limit but the
/// client's own.
#[derive(Clone, Debug)]
pub struct Http {
    /// Where the server is.
    pub(super) url: Address,
    /// The connection that the exchanges belong to.
    pub(super) connection: ConnectionId,
    pub(super) phase: phase::State,
    pub(super) reach: http_reach::State,
    /// The exchange of `notifications/initialized`.
    pub(super) initialized: Option<ExchangeId>,
    /// `notifications/initialized`, while it waits to be sent again.
    pub(super) initialized_again: Option<alloc::boxed::Box<Outgoing>>,
    /// The wait of tool calls for the GET stream.
    pub(super) stream_wait: Option<Timer>,
    pub(super) session: Session,
    pub(super) sse: Sse,
    pub(super) get_stream: GetStream,
    pub(super) exchanges: Exchanges,
    pub(super) queue: Queue,
    pub(super) timers: Timers,
    pub(super) outbox: Outbox,
}

impl Http {
    /// A server at this URL, which is absolute.
    pub fn new(url: Uri) -> Self {
        Self {
            url: Address(url),
            connection: ConnectionId::default(),
            phase: phase::State::Idle,
            reach: http_reach::State::Reached,
            initialized: None,
            initialized_again: None,
            stream_wait: None,
            session: Session::default(),
            sse: Sse::default(),
            get_stream: GetStream::default(),
            exchanges: Exchanges::default(),
            queue: Queue::default(),
            timers: Timers::default(),
            outbox: Outbox::default(),
        }
    }
}
