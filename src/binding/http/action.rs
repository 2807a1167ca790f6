use alloc::vec::Vec;
use core::fmt;

use super::address::Address;
use crate::client::{Event, RequestId};

/// What the embedder is to do next.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum HttpAction {
    /// Run a request.
    Request(HttpRequest),
    /// Drop an exchange: close its stream, read no more of it, report nothing more of it.
    Drop(ExchangeId),
    /// Something happened.
    Event(Event),
}

/// A request to run. Its `Debug` shows no secret: of the headers the names, and nothing of the body.
#[derive(Clone)]
#[non_exhaustive]
pub struct HttpRequest {
    /// The exchange that its response is reported for.
    pub exchange: ExchangeId,
    /// The embedder's request that it carries or is about, if any, so that it can be authorized as that request's user.
    pub of: Option<RequestId>,
    /// The request, without the embedder's own headers. They are given anew for each, and never kept here.
    pub request: http::Request<Vec<u8>>,
}

impl fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { exchange, of, request } = self;
        f.debug_struct("HttpRequest")
            .field("exchange", exchange)
            .field("of", of)
            .field("method", request.method())
            .field("uri", &Address(request.uri().clone()))
            .field("headers", &request.headers().keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// An exchange of a client: a request and its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExchangeId(pub(super) u64);

/// In which way an exchange failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Broken {
    /// Nobody was reached: the request was not sent.
    Unreachable,
    /// It broke after the request was sent, or after a part of it was.
    Midway,
}
