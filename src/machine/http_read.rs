//! How the response of an HTTP exchange is read: where a redirect leads, what the body is, what an event of a stream
//! is, and what happens after a part of it if the request is over. Before it, [`http_head`](super::http_head) decides
//! by the status.

use super::{QuirkKind, alphabet};

alphabet! {
    /// What is redirected.
    Redirected {
        /// The POST of a request of the embedder, over Streamable HTTP.
        Call,
        /// The POST of any other message, over Streamable HTTP.
        Message,
        /// The POST of a request of the embedder, over HTTP+SSE.
        SseCall,
        /// The POST of any other message, over HTTP+SSE.
        SseMessage,
        /// The GET of the GET stream, which is optional.
        Stream,
        /// The GET that resumes the stream of a request, or of the HTTP+SSE stream.
        Get,
    }
}

alphabet! {
    /// Where the redirect leads.
    Target {
        /// To the same origin.
        Same,
        /// To another origin, or to no address.
        Elsewhere,
        /// To the same origin, after as many redirects as are followed.
        TooMany,
        /// Nowhere: the response has no `Location`.
        Nowhere,
    }
}

alphabet! {
    /// What follows from a redirect. A server that redirects a message did not process it: "further action needs to be
    /// taken by the user agent in order to fulfill the request" (RFC 9110, section 15.4).
    Redirect {
        /// The message, and every later one, is posted to the target.
        Post,
        /// The target is the endpoint for messages from now on; the message is posted to it.
        PostToEndpoint,
        /// The stream is requested from the target, to which every later request goes too.
        Get,
        /// The server has no GET stream.
        NoStream,
        /// The response is a refusal by its status: [`http_end`](super::http_end) decides.
        Refuse,
        /// The request fails with the status, and the connection ends with a protocol violation.
        RefuseAndEnd,
        /// The connection ends with a protocol violation.
        Violation,
    }
}

/// Decides what follows from a redirect.
pub(crate) const fn redirect(what: Redirected, target: Target) -> Redirect {
    match what {
        Redirected::Call => match target {
            Target::Same => Redirect::Post,
            Target::Elsewhere | Target::TooMany => Redirect::RefuseAndEnd,
            Target::Nowhere => Redirect::Refuse,
        },
        Redirected::Message => match target {
            Target::Same => Redirect::Post,
            Target::Elsewhere | Target::TooMany => Redirect::Violation,
            Target::Nowhere => Redirect::Refuse,
        },
        Redirected::SseCall => match target {
            Target::Same => Redirect::PostToEndpoint,
            Target::Elsewhere | Target::TooMany => Redirect::RefuseAndEnd,
            Target::Nowhere => Redirect::Refuse,
        },
        Redirected::SseMessage => match target {
            Target::Same => Redirect::PostToEndpoint,
            Target::Elsewhere | Target::TooMany => Redirect::Violation,
            Target::Nowhere => Redirect::Refuse,
        },
        Redirected::Stream => match target {
            Target::Same => Redirect::Get,
            Target::Elsewhere | Target::TooMany | Target::Nowhere => Redirect::NoStream,
        },
        Redirected::Get => match target {
            Target::Same => Redirect::Get,
            Target::Elsewhere | Target::TooMany => Redirect::Violation,
            Target::Nowhere => Redirect::Refuse,
        },
    }
}

alphabet! {
    /// What the body belongs to, and how it is labelled.
    Source {
        /// A POST; its `Content-Type` is missing or neither of the below.
        PostUnlabelled,
        /// A POST, labelled `application/json`.
        PostJson,
        /// A POST, labelled `text/event-stream`.
        PostEvents,
        /// The GET stream.
        Stream,
        /// The GET that resumes the stream of a request, or of the HTTP+SSE stream.
        Get,
    }
}

alphabet! {
    /// The first byte of the body, apart from white space and a byte order mark.
    First {
        /// It begins a JSON value that is no literal, or a page of HTML.
        Json,
        /// It begins a field of an event or a comment: `:`, `d`, `e`, `i` or `r`.
        Field,
        /// Any other.
        Other,
    }
}

/// As what the body is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// JSON.
    Json,
    /// JSON, and the deviation is recorded.
    JsonAs(QuirkKind),
    /// A stream of events.
    Events,
    /// A stream of events, and the deviation is recorded.
    EventsAs(QuirkKind),
    /// The server has no GET stream.
    NoStream,
}

/// Decides what a body is.
pub(crate) const fn body(source: Source, first: First) -> Body {
    match source {
        Source::PostUnlabelled => match first {
            First::Json | First::Other => Body::JsonAs(QuirkKind::ContentType),
            First::Field => Body::EventsAs(QuirkKind::ContentType),
        },
        Source::PostJson => match first {
            First::Json | First::Other => Body::Json,
            First::Field => Body::EventsAs(QuirkKind::ContentType),
        },
        Source::PostEvents => match first {
            First::Json => Body::JsonAs(QuirkKind::ContentType),
            First::Field | First::Other => Body::Events,
        },
        Source::Stream => match first {
            First::Json => Body::NoStream,
            First::Field | First::Other => Body::Events,
        },
        Source::Get => match first {
            First::Json => Body::Json,
            First::Field | First::Other => Body::Events,
        },
    }
}

alphabet! {
    /// The stream that an event came in.
    Stream {
        /// The response to the POST of a request.
        Request,
        /// The resumed stream of a request.
        Resumed,
        /// The GET stream.
        Get,
        /// The HTTP+SSE stream.
        Sse,
    }
}

alphabet! {
    /// The type of an event.
    Name {
        /// `message`, or none.
        Message,
        /// `endpoint`.
        Endpoint,
        /// Any other.
        Other,
    }
}

alphabet! {
    /// What an event is.
    Event {
        /// A message that may be the response to the request: [`http_answer`](super::http_answer) decides.
        Judge,
        /// A message that may be the response to the request.
        Answer,
        /// A message.
        Message,
        /// A message: [`http_sse`](super::http_sse) decides.
        SseMessage,
        /// The endpoint for messages: [`http_sse`](super::http_sse) decides.
        Endpoint,
        /// It has no meaning in MCP.
        Nothing,
    }
}

/// Decides what an event is.
pub(crate) const fn event(stream: Stream, name: Name) -> Event {
    match stream {
        Stream::Request => match name {
            Name::Message => Event::Judge,
            Name::Endpoint | Name::Other => Event::Nothing,
        },
        Stream::Resumed => match name {
            Name::Message => Event::Answer,
            Name::Endpoint | Name::Other => Event::Nothing,
        },
        Stream::Get => match name {
            Name::Message => Event::Message,
            Name::Endpoint | Name::Other => Event::Nothing,
        },
        Stream::Sse => match name {
            Name::Message => Event::SseMessage,
            Name::Endpoint => Event::Endpoint,
            Name::Other => Event::Nothing,
        },
    }
}

alphabet! {
    /// The exchange of a request that is over.
    Carrier {
        /// The POST of the request.
        Post,
        /// The GET that resumed its stream.
        Resumed,
    }
}

alphabet! {
    /// What happens to it after a part of its response.
    Over {
        /// It has a moment to end: [`http_end`](super::http_end) decides what is read meanwhile.
        Linger,
        /// It is dropped: a server may hold a resumed stream open for ever.
        Drop,
    }
}

/// Decides what happens to the exchange of a request that is over, after a part of its response.
pub(crate) const fn over(carrier: Carrier) -> Over {
    match carrier {
        Carrier::Post => Over::Linger,
        Carrier::Resumed => Over::Drop,
    }
}

/// [`redirect`], recorded with the feature `rows`.
#[cfg(feature = "http")]
pub(crate) fn take_redirect(what: Redirected, target: Target) -> Redirect {
    #[cfg(feature = "rows")]
    super::rows::taken("http_read::redirect", &[&what, &target]);
    redirect(what, target)
}

/// [`body`], recorded with the feature `rows`.
#[cfg(feature = "http")]
pub(crate) fn take_body(source: Source, first: First) -> Body {
    #[cfg(feature = "rows")]
    super::rows::taken("http_read::body", &[&source, &first]);
    body(source, first)
}

/// [`event`], recorded with the feature `rows`.
#[cfg(feature = "http")]
pub(crate) fn take_event(stream: Stream, name: Name) -> Event {
    #[cfg(feature = "rows")]
    super::rows::taken("http_read::event", &[&stream, &name]);
    event(stream, name)
}

/// [`over`], recorded with the feature `rows`.
#[cfg(feature = "http")]
pub(crate) fn take_over(carrier: Carrier) -> Over {
    #[cfg(feature = "rows")]
    super::rows::taken("http_read::over", &[&carrier]);
    over(carrier)
}
