//! The HTTP exchanges of a journal.

use std::collections::BTreeMap;
use std::string::String;
use std::vec::Vec;

use ::http::header::{CONTENT_TYPE, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE};

use super::said::{Said, messages};
use crate::binding::http::{ExchangeId, HttpRequest};
use crate::binding::{Sse, SseDecoder};
use crate::journal::Input;

/// Headers of a refusal that a client reads.
const HEADERS: [(&str, HeaderName); 2] = [("retry-after", RETRY_AFTER), ("www-authenticate", WWW_AUTHENTICATE)];

/// The exchanges whose responses are not complete.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    open: BTreeMap<ExchangeId, Response>,
}

#[derive(Debug)]
struct Response {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Whole(Vec<u8>),
    Stream(SseDecoder),
}

impl Exchanges {
    pub(super) fn output(&mut self, request: &HttpRequest, say: &mut impl FnMut(u64, Said)) {
        let channel = request.exchange.as_u64();
        messages(request.request.body()).into_iter().for_each(|message| say(channel, Said::Client(message)));
    }

    pub(super) fn input(&mut self, input: &Input, say: &mut impl FnMut(u64, Said)) {
        if let Input::Head { exchange, status, headers } = input {
            let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
            let is_stream = text(&CONTENT_TYPE).trim_start().starts_with("text/event-stream");
            let kept = HEADERS.iter().filter(|(_, name)| headers.contains_key(name));
            let body = if is_stream { Body::Stream(SseDecoder::new(usize::MAX)) } else { Body::Whole(Vec::new()) };
            let headers = kept.map(|(shown, name)| (*shown, text(name).into())).collect();
            self.open.insert(*exchange, Response { status: status.as_u16(), headers, body });
        } else if let Input::Body { exchange, bytes } = input
            && let Some(Response { status, body, .. }) = self.open.get_mut(exchange)
        {
            match body {
                Body::Whole(whole) => whole.extend_from_slice(bytes),
                Body::Stream(decoder) => decoder.feed(bytes, |item| match item {
                    Sse::Event(event) | Sse::TooLong(event) => {
                        tell(exchange.as_u64(), *status, event.data, say);
                    }
                    Sse::Retry(_) => {}
                }),
            }
        } else if let Input::End { exchange } = input
            && let Some(Response { status, headers, body }) = self.open.remove(exchange)
            && let Body::Whole(whole) = body
            && !tell(exchange.as_u64(), status, &whole, say)
        {
            let text = String::from_utf8_lossy(&whole).into_owned();
            say(exchange.as_u64(), Said::Status { status, headers, text });
        } else if let Input::Failure { exchange, .. } = input {
            self.open.remove(exchange);
            say(exchange.as_u64(), Said::Broken);
        }
    }
}

/// The server sent the messages in this text. Returns whether there are any.
fn tell(channel: u64, status: u16, text: &[u8], say: &mut impl FnMut(u64, Said)) -> bool {
    let mut any = false;
    for message in messages(text).into_iter().filter(|message| message.get("jsonrpc").is_some()) {
        say(channel, Said::Server { status, message });
        any = true;
    }
    any
}
