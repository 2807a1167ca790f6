//! Takes the ends of exchanges.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::action::Broken as Failure;
use super::exchange::{Broken, Exchange, ExchangeKind, Reply};
use super::limits::{RETRY, SHORTEST_RETRY};
use super::parts::Http;
use super::report::{lost, no_answer};
use crate::client::{Engine, Report};
use crate::machine::http_end::{Decision, End, LastId, Response, Resumption};
use crate::machine::{get_stream, http, http_end, http_initialized, http_reach, http_sse};
use crate::protocol::method;

impl Http {
    /// Takes the end of a response, or the failure of an exchange.
    pub(super) fn ended(&mut self, engine: &mut Engine, it: Box<Exchange>, failure: Option<Failure>, why: &str) {
        let end = match failure {
            None => End::Ended,
            // An exchange whose response began has reached the server, whatever the failure.
            Some(Failure::Unreachable) if it.status == 0 => End::Unreached,
            Some(Failure::Unreachable | Failure::Midway) => End::Broke,
        };
        self.end(engine, it, end, failure.map(|_| why));
    }

    /// An exchange that was removed has ended; `why` says how it broke.
    pub(super) fn end(&mut self, engine: &mut Engine, it: Box<Exchange>, end: End, why: Option<&str>) {
        let (purpose, response) = (self.end_purpose(engine, &it.purpose), self.end_response(&it.reply));
        let (request, status) = (it.purpose.request(), it.status);
        match http_end::take(purpose, end, response) {
            Decision::Nothing => {}
            Decision::Judge => self.judged(engine, it, end),
            Decision::Unreached => self.unreached(engine, purpose, request, why.unwrap_or_default()),
            Decision::Resume => self.resume_broken(engine, it, why),
            Decision::ResumeLater => self.resume_later(engine, it),
            Decision::Lost => lost(engine, request, why.unwrap_or(lost_words(response))),
            Decision::NoAnswer => {
                let empty = response == Response::Empty;
                let own = if empty { "the body is empty" } else { "the body is neither JSON nor a stream of events" };
                no_answer(engine, request, status, why.unwrap_or(own));
            }
            Decision::InitializedAnswered => {
                self.initialized_step(engine, http_initialized::Input::Answered, "");
            }
            Decision::InitializedBroke => {
                if let ExchangeKind::Message(message) = it.purpose {
                    self.initialized_again = Some(Box::new(message));
                }
                self.initialized_step(engine, http_initialized::Input::Broke, why.unwrap_or(lost_words(response)));
            }
            Decision::Expire => engine.handle_report(engine.now(), Report::Expired { id: None }),
            Decision::Authorize => {
                if let Reply::Refusal(refusal) = &it.reply {
                    let words = String::from_utf8_lossy(&refusal.body);
                    let words = self.tokens.without_secrets(&words).into_owned();
                    self.authorize(engine, None, None, it.sent, refusal, &words);
                }
            }
            Decision::StreamBroke => self.stream_decided(engine, get_stream::Input::Broke),
            Decision::SseRefused => {
                self.sse_step(engine, http_sse::Input::Refused, &format!("HTTP {status}"), b"");
            }
            Decision::SseEnded => {
                self.sse_step(engine, http_sse::Input::Ended, why.unwrap_or("the stream of events ended"), b"");
            }
            Decision::SseBroke => self.sse_step(engine, http_sse::Input::Broke, why.unwrap_or_default(), b""),
            Decision::SseUnreached => self.sse_step(engine, http_sse::Input::Unreached, why.unwrap_or_default(), b""),
            Decision::SendAgain => {
                if let ExchangeKind::DeleteFormer(id, _) = it.purpose {
                    self.post_again(engine, id);
                }
            }
            Decision::Deleted => {
                self.session.reset();
                self.step(engine, http::Input::Deleted);
            }
        }
    }

    fn judged(&mut self, engine: &mut Engine, it: Box<Exchange>, end: End) {
        let Exchange { purpose: ExchangeKind::Message(message), reply, status, sent, .. } = *it else { return };
        match reply {
            Reply::Json(body) => self.answered(engine, &message, status, &body),
            Reply::Refusal(refusal) => self.refused(engine, message, sent, &refusal, end == End::Broke),
            Reply::Unsent | Reply::Nothing | Reply::Begun(_) | Reply::Events(_) | Reply::Ignored => {}
        }
    }

    fn resume_later(&mut self, engine: &Engine, it: Box<Exchange>) {
        if let (ExchangeKind::Resume(id, broken), Reply::Refusal(refusal)) = (it.purpose, it.reply) {
            let wait = refusal.retry_after.or(broken.retry).unwrap_or(RETRY).max(SHORTEST_RETRY);
            self.pause(engine, id, wait, Some(broken));
        }
    }

    fn end_purpose(&self, engine: &Engine, purpose: &ExchangeKind) -> http_end::EndOf {
        match purpose {
            ExchangeKind::Message(message) if message.id().is_some() => http_end::EndOf::Request,
            ExchangeKind::Message(message) if message.method() == Some(method::INITIALIZED) => {
                http_end::EndOf::Initialized
            }
            ExchangeKind::Message(_) if Self::is_owed(engine, purpose) => http_end::EndOf::Owed,
            ExchangeKind::Message(_) => http_end::EndOf::OneWay,
            ExchangeKind::Resume(..) => http_end::EndOf::Resume,
            ExchangeKind::Stream => http_end::EndOf::Stream,
            ExchangeKind::Sse => match self.sse.state() {
                http_sse::State::Fallback => http_end::EndOf::Fallback,
                http_sse::State::Streamable
                | http_sse::State::Absent
                | http_sse::State::Known
                | http_sse::State::Connecting
                | http_sse::State::Ready => http_end::EndOf::Sse,
            },
            ExchangeKind::DeleteFormer(..) => http_end::EndOf::DeleteFormer,
            ExchangeKind::Delete(_) => http_end::EndOf::Delete,
        }
    }

    fn end_response(&self, reply: &Reply) -> Response {
        let class = reply.class();
        // Without a session id, no session can expire.
        if class == Response::NotFound && self.session.id().is_none() { Response::Refusal } else { class }
    }

    /// The stream of a request broke: it is resumed from the last event id, after the last `retry` time in the whole
    /// stream.
    fn resume_broken(&mut self, engine: &mut Engine, it: Box<Exchange>, why: Option<&str>) {
        let (id, before) = match it.purpose {
            ExchangeKind::Message(message) => (message.id(), None),
            ExchangeKind::Resume(id, broken) => (Some(id), Some(*broken)),
            ExchangeKind::Stream | ExchangeKind::Sse | ExchangeKind::DeleteFormer(..) | ExchangeKind::Delete(_) => {
                (None, None)
            }
        };
        let events = if let Reply::Events(events) = &it.reply { Some(events) } else { None };
        let named = events.and_then(|events| events.decoder.last_id()).map(<[u8]>::to_vec);
        let before = before.unwrap_or(Broken { last_id: Vec::new(), retry: None });
        let (last_id, retry) = (named.unwrap_or(before.last_id), events.and_then(|it| it.retry).or(before.retry));
        let Some(id) = id else { return };
        let request = match (engine.is_sent(id), engine.is_legacy()) {
            (false, _) => http_end::Broken::Over,
            (true, true) => http_end::Broken::Legacy,
            (true, false) => http_end::Broken::Other,
        };
        match http_end::take_resumption(request, if last_id.is_empty() { LastId::None } else { LastId::Named }) {
            Resumption::Resume => {
                let wait = retry.unwrap_or(RETRY).max(SHORTEST_RETRY);
                self.pause(engine, id, wait, Some(Box::new(Broken { last_id, retry })));
            }
            Resumption::Lost => lost(engine, Some(id), why.unwrap_or("the stream ended before the answer")),
            Resumption::Nothing => {}
        }
    }

    /// A request did not reach the server.
    fn unreached(&mut self, engine: &mut Engine, purpose: http_end::EndOf, request: Option<u64>, why: &str) {
        let input = if !engine.has_handshake() || purpose == http_end::EndOf::Initialized {
            http_reach::Input::MissedHandshake
        } else if self.exchanges.iter().any(|(_, it)| it.status != 0) {
            http_reach::Input::MissedOne
        } else {
            http_reach::Input::MissedAll
        };
        self.reach_step(engine, input, request, why);
    }
}

/// The message for a request without a response.
const fn lost_words(response: Response) -> &'static str {
    match response {
        Response::EmptyStream | Response::Events => "the stream ended before the answer",
        Response::Unauthorized | Response::Refusal | Response::NotFound | Response::Busy => {
            "the stream of the request cannot be taken up again"
        }
        Response::Nothing | Response::Empty | Response::Json | Response::NoEvents | Response::Ignored => {
            "the connection closed before an answer"
        }
    }
}
