//! Takes the ends of exchanges.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::action::Broken as Failure;
use super::answer::{authorize, lost, no_answer};
use super::exchange::{Broken, Exchange, Purpose, Reply};
use super::limits::{RETRY, SHORTEST_RETRY};
use super::parts::Http;
use crate::client::{Engine, Report};
use crate::machine::http_end::{Decision, End, Response};
use crate::machine::{get_stream, http, http_end, http_reach, http_sse};
use crate::protocol::method;

impl Http {
    /// Takes the end of a response, or that an exchange failed.
    pub(super) fn ended(&mut self, engine: &mut Engine, it: Box<Exchange>, failure: Option<Failure>, why: &str) {
        let end = match failure {
            None => End::Ended,
            // One whose response began has reached the server, however it failed.
            Some(Failure::Unreachable) if it.status == 0 => End::Unreached,
            Some(Failure::Unreachable | Failure::Midway) => End::Broke,
        };
        self.end(engine, it, end, failure.map(|_| why));
    }

    /// An exchange that was taken out is over; `why` are words for how it broke.
    pub(super) fn end(&mut self, engine: &mut Engine, it: Box<Exchange>, end: End, why: Option<&str>) {
        let (purpose, response) = (self.end_purpose(engine, &it.purpose), self.end_response(&it.reply));
        let (request, status) = (it.purpose.request(), it.status);
        let initialized =
            matches!(&it.purpose, Purpose::Message(message) if message.method() == Some(method::INITIALIZED));
        match http_end::take(purpose, end, response) {
            Decision::Nothing => {}
            // What becomes of `notifications/initialized` is judged as well.
            Decision::Judge => return self.judged(engine, it, end),
            Decision::Unreached => return self.unreached(engine, request, initialized, why.unwrap_or_default()),
            Decision::Resume => self.resume_broken(engine, it, why),
            Decision::ResumeLater => self.resume_later(engine, it),
            Decision::Lost => lost(engine, request, why.unwrap_or(lost_words(response))),
            Decision::NoAnswer => {
                let empty = response == Response::Empty;
                let own = if empty { "the body is empty" } else { "the body is neither JSON nor a stream of events" };
                no_answer(engine, request, status, why.unwrap_or(own));
            }
            Decision::Expire => engine.handle_report(engine.now(), Report::Expired { id: None }),
            Decision::Authorize => {
                if let Reply::Refusal(refusal) = it.reply {
                    let words = String::from_utf8_lossy(&refusal.body);
                    authorize(engine, None, &refusal, &words);
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
                if let Purpose::DeleteFormer(id, _) = it.purpose {
                    self.post_again(engine, id);
                }
            }
            Decision::Deleted => {
                self.session.reset();
                self.step(engine, http::Input::Deleted);
            }
        }
        if initialized {
            self.accepted(engine);
        }
    }

    fn judged(&mut self, engine: &mut Engine, it: Box<Exchange>, end: End) {
        let Exchange { purpose: Purpose::Message(message), reply, status, .. } = *it else { return };
        match reply {
            Reply::Json(body) => self.answered(engine, &message, status, &body),
            Reply::Refusal(refusal) => self.refused(engine, message, &refusal, end == End::Broke),
            Reply::Unsent | Reply::Nothing | Reply::Begun(_) | Reply::Events(_) | Reply::Ignored => {}
        }
    }

    fn resume_later(&mut self, engine: &Engine, it: Box<Exchange>) {
        if let (Purpose::Resume(id, broken), Reply::Refusal(refusal)) = (it.purpose, it.reply) {
            let wait = refusal.retry_after.or(broken.retry).unwrap_or(RETRY).max(SHORTEST_RETRY);
            self.pause(engine, id, wait, Some(broken));
        }
    }

    fn end_purpose(&self, engine: &Engine, purpose: &Purpose) -> http_end::Purpose {
        match purpose {
            Purpose::Message(message) if message.id().is_some() => http_end::Purpose::Request,
            Purpose::Message(_) if Self::is_owed(engine, purpose) => http_end::Purpose::Owed,
            Purpose::Message(_) => http_end::Purpose::OneWay,
            Purpose::Resume(..) => http_end::Purpose::Resume,
            Purpose::Stream => http_end::Purpose::Stream,
            Purpose::Sse => match self.sse.state() {
                http_sse::State::Fallback => http_end::Purpose::Fallback,
                http_sse::State::Streamable
                | http_sse::State::Absent
                | http_sse::State::Known
                | http_sse::State::Connecting
                | http_sse::State::Ready => http_end::Purpose::Sse,
            },
            Purpose::DeleteFormer(..) => http_end::Purpose::DeleteFormer,
            Purpose::Delete(_) => http_end::Purpose::Delete,
        }
    }

    fn end_response(&self, reply: &Reply) -> Response {
        let class = reply.class();
        // Without a session none can expire.
        if class == Response::NotFound && self.session.id().is_none() { Response::Refusal } else { class }
    }

    /// The stream of a request broke off: it is resumed from the last id, and after the wait, that the server named in
    /// any part of it.
    fn resume_broken(&mut self, engine: &mut Engine, it: Box<Exchange>, why: Option<&str>) {
        let (id, before) = match it.purpose {
            Purpose::Message(message) => (message.id(), None),
            Purpose::Resume(id, broken) => (Some(id), Some(*broken)),
            Purpose::Stream | Purpose::Sse | Purpose::DeleteFormer(..) | Purpose::Delete(_) => (None, None),
        };
        let Some(id) = id.filter(|id| engine.is_waiting(*id)) else { return };
        let events = if let Reply::Events(events) = &it.reply { Some(events) } else { None };
        let named = events.and_then(|events| events.decoder.last_id()).map(<[u8]>::to_vec);
        let before = before.unwrap_or(Broken { last_id: Vec::new(), retry: None });
        let (last_id, retry) = (named.unwrap_or(before.last_id), events.and_then(|it| it.retry).or(before.retry));
        if last_id.is_empty() || !engine.is_legacy() {
            return lost(engine, Some(id), why.unwrap_or("the stream ended before the answer"));
        }
        let wait = retry.unwrap_or(RETRY).max(SHORTEST_RETRY);
        self.pause(engine, id, wait, Some(Box::new(Broken { last_id, retry })));
    }

    /// A request reached nobody.
    fn unreached(&mut self, engine: &mut Engine, request: Option<u64>, initialized: bool, why: &str) {
        let agreed = engine.has_handshake();
        if let Some(id) = request.filter(|_| agreed) {
            engine.handle_report(engine.now(), Report::Lost { id, sent: false, why });
        }
        let others = agreed && !initialized && self.exchanges.iter().any(|(_, it)| it.status != 0);
        let input = if others { http_reach::Input::MissedOne } else { http_reach::Input::MissedAll };
        self.reach_step(engine, input, why);
    }
}

/// The words for a request without a response.
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
