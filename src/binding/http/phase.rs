//! Applies the tables of the connection: its phases, its transport, the GET stream.

use super::action::ExchangeId;
use super::exchange::ExchangeKind;
use super::limits::STREAM_WAIT;
use super::parts::Http;
use super::send::is_response;
use super::timers::Due;
use crate::client::{Engine, OpenFailure, Report, Transport};
use crate::machine::resend::Used;
use crate::machine::{Verdict, get_stream, http as phase, http_initialized, http_reach, http_sse};

impl Http {
    pub(super) fn step(&mut self, engine: &mut Engine, input: phase::Input) {
        let row = phase::take(self.phase, input);
        self.phase = row.next;
        for effect in row.effects {
            match effect {
                phase::Effect::StartStream => {
                    self.stream_wait = Some(self.timers.arm(engine.now() + STREAM_WAIT, Due::StreamLate));
                    self.stream_step(engine, get_stream::Input::Start);
                }
                phase::Effect::StopWait => {
                    if let Some(timer) = self.stream_wait.take() {
                        self.timers.disarm(timer);
                    }
                }
                phase::Effect::Clear => self.clear(engine),
                phase::Effect::Delete => {
                    for timer in self.queue.clear(|_| false) {
                        self.timers.disarm(timer);
                    }
                    if let Some(session) = self.session.id().cloned() {
                        self.delete(ExchangeKind::Delete(session));
                    }
                }
                phase::Effect::ReportClosed => {
                    self.drop_exchanges(|_| false);
                    for timer in self.queue.clear(|_| false) {
                        self.timers.disarm(timer);
                    }
                    engine.handle_transport(engine.now(), Transport::Closed { why: "every exchange is dropped" });
                }
            }
        }
        engine.hold_tools(phase::holds_calls(self.phase));
    }

    /// Steps the table of the transport. `why` is the text that is reported, `message` is the received message.
    pub(super) fn sse_step(&mut self, engine: &mut Engine, input: http_sse::Input, why: &str, message: &[u8]) {
        let now = engine.now();
        for effect in self.sse.step(input).effects {
            match effect {
                http_sse::Effect::ReportOpened => engine.handle_transport(now, Transport::Opened),
                http_sse::Effect::Get => self.get(ExchangeKind::Sse, 0),
                http_sse::Effect::Drop => self.drop_first(|purpose| matches!(purpose, ExchangeKind::Sse)),
                http_sse::Effect::SendAgain => {
                    if let Some(refused) = self.sse.take_refused() {
                        self.post_again(engine, refused.id);
                    }
                }
                http_sse::Effect::Refuse => {
                    if let Some(refused) = self.sse.take_refused() {
                        let (id, status, why) = (refused.id, refused.status, &*refused.words);
                        engine.handle_report(now, Report::Refused { id, status, why });
                    }
                }
                http_sse::Effect::Deliver => engine.handle_message(now, message),
                http_sse::Effect::ReportViolation => {
                    engine.handle_transport(now, Transport::ProtocolViolation { why });
                }
                http_sse::Effect::ReportUnreached => {
                    engine.handle_transport(now, Transport::OpenFailed { how: OpenFailure::Connect, why });
                }
                http_sse::Effect::ReportClosed => engine.handle_transport(now, Transport::Closed { why }),
            }
        }
    }

    pub(super) fn stream_step(&mut self, engine: &mut Engine, input: get_stream::Input) {
        let row = self.get_stream.step(input);
        if let Verdict::Quirk(kind) = row.verdict {
            let detail = "the GET of a stream was refused with another status than 405, or answered with no stream";
            engine.transport_quirk(kind, None, detail);
        }
        for effect in row.effects {
            match effect {
                get_stream::Effect::Get => self.get(ExchangeKind::Stream, 0),
                get_stream::Effect::Drop => self.drop_first(|purpose| matches!(purpose, ExchangeKind::Stream)),
                get_stream::Effect::Arm => {
                    self.timers.arm(engine.now() + self.get_stream.wait(), Due::GetStream);
                }
                get_stream::Effect::Reset => self.get_stream.reset(),
                get_stream::Effect::CountRefusal => {
                    if let Some(waiting) = self.tokens.waiting() {
                        waiting.stream = waiting.stream.more();
                    }
                }
                get_stream::Effect::ClearRefusals => {
                    if let Some(waiting) = self.tokens.waiting() {
                        waiting.stream = Used::Never;
                    }
                }
                get_stream::Effect::Expire => engine.handle_report(engine.now(), Report::Expired { id: None }),
            }
        }
    }

    /// Takes the state of the GET stream, which calls may wait for.
    pub(super) fn stream_decided(&mut self, engine: &mut Engine, input: get_stream::Input) {
        self.step(engine, phase::Input::StreamDecided);
        self.stream_step(engine, input);
    }

    /// Steps the table of `notifications/initialized`; `why` says how its exchange broke.
    pub(super) fn initialized_step(&mut self, engine: &mut Engine, input: http_initialized::Input, why: &str) {
        let row = http_initialized::take(self.accepting, input);
        self.accepting = row.next;
        for effect in row.effects {
            match effect {
                http_initialized::Effect::Accept if self.is_current(engine) => {
                    let sse = http_sse::is_sse(self.sse.state());
                    self.step(engine, if sse { phase::Input::AcceptedSse } else { phase::Input::Accepted });
                }
                // The connection ended.
                http_initialized::Effect::Accept => {}
                http_initialized::Effect::SendAgain => self.post_initialized(),
                http_initialized::Effect::ReportClosed => {
                    engine.handle_transport(engine.now(), Transport::Closed { why });
                }
            }
        }
    }

    /// Steps the table of reachability; `request` is the request that was not sent, if any.
    pub(super) fn reach_step(
        &mut self,
        engine: &mut Engine,
        input: http_reach::Input,
        request: Option<u64>,
        why: &str,
    ) {
        let row = http_reach::take(self.reach, input);
        self.reach = row.next;
        for effect in row.effects {
            match effect {
                http_reach::Effect::ReportNotSent => {
                    if let Some(id) = request {
                        engine.handle_report(engine.now(), Report::Lost { id, sent: false, why });
                    }
                }
                http_reach::Effect::ReportUnreached => {
                    let how = OpenFailure::Connect;
                    engine.handle_transport(engine.now(), Transport::OpenFailed { how, why });
                }
            }
        }
    }

    /// The connection ended.
    pub(super) fn lose(&mut self, engine: &mut Engine) {
        self.step(engine, phase::Input::Lost);
        self.sse_step(engine, http_sse::Input::Lost, "", b"");
        self.stream_step(engine, get_stream::Input::Stop);
        self.initialized_step(engine, http_initialized::Input::Lost, "");
        (self.initialized, self.initialized_again, self.stream_wait) = (None, None, None);
        if let Some(waiting) = self.tokens.waiting() {
            waiting.forget();
        }
        self.sse.take_refused();
    }

    /// Drops everything of the connection, except responses that are outstanding while the client closes.
    fn clear(&mut self, engine: &Engine) {
        let closing = engine.is_closing();
        self.timers.clear();
        self.queue.clear(|message| closing && is_response(message)).for_each(drop);
        self.queue.rearm(|due| self.timers.arm(due, Due::GiveUp));
        self.exchanges.forget_paused();
        self.drop_exchanges(|purpose| Self::is_owed(engine, purpose));
    }

    fn drop_exchanges(&mut self, keep: impl Fn(&ExchangeKind) -> bool) {
        let dropped = self.exchanges.iter().filter(|(_, it)| !keep(&it.purpose));
        let dropped: alloc::vec::Vec<ExchangeId> = dropped.map(|(id, _)| id).collect();
        for id in dropped {
            self.drop_exchange(id);
        }
    }

    fn drop_first(&mut self, is_it: impl Fn(&ExchangeKind) -> bool) {
        if let Some(id) = self.exchanges.find(is_it) {
            self.drop_exchange(id);
        }
    }
}
