//! Reacts to the events of sessions.

use super::{About, Router};
use crate::client::{Cause, Event, Failure, FailureKind, Recovery, RequestId};
use crate::host::hub::breaker::end_of;
use crate::host::hub::connection::Tail;
use crate::host::hub::event::SessionHandle;
use crate::machine::breaker::{End, Input as BreakerInput};
use crate::machine::hub_rest::{Occasion, Rest};
use crate::machine::hub_server::{Input, State};

/// An event of a session, classified.
enum SessionEvent {
    Ready,
    Changed,
    /// The server responds during a call.
    Responding,
    RequestEnded(RequestId, End),
    /// It reconnects.
    Down(Failure),
    /// It reconnects after a long interval.
    Parked(Failure),
    /// It does not reconnect; its end follows.
    Ending(Failure),
    Ended(Failure),
    /// It ended because the server refused authorization.
    Refused(Failure),
    Other,
}

impl Router {
    /// Processes new events of a session, and adds its turns.
    pub(super) fn process_events(&mut self, handle: SessionHandle) {
        if let Some(server) = self.servers.get_mut(&handle) {
            server.pending.untouch();
        }
        while let Some(server) = self.servers.get_mut(&handle) {
            let Some(connection) = &server.connection else { return };
            let Some(event) = connection.event_after(server.pending.processed_events()) else { break };
            let event = classify(event);
            self.queue.push_event(handle, &mut server.pending);
            self.react(handle, event);
        }
        #[cfg(feature = "oauth")]
        self.note_browser(handle);
        let Some(server) = self.servers.get_mut(&handle) else { return };
        let Some(connection) = &server.connection else { return };
        match connection.tail() {
            Tail::Empty => {
                return match server.rest(self.now, Occasion::Input) {
                    Some((Rest::Now, _)) => self.step(handle, Input::Unused),
                    Some((Rest::Later | Rest::Never, _)) | None => self.note_polled(handle),
                };
            }
            Tail::Event => {}
            Tail::Action => self.queue.push_actions(handle, &mut server.pending),
        }
        self.queue.bring_forward(handle, &mut server.pending, connection.next_timer());
    }

    fn react(&mut self, handle: SessionHandle, event: SessionEvent) {
        match event {
            SessionEvent::Ready => self.step(handle, Input::Ready),
            SessionEvent::Changed => self.step(handle, Input::Changed),
            SessionEvent::Responding => self.breaker_step(handle, BreakerInput::Answered),
            SessionEvent::RequestEnded(request, end) => self.request_ended(handle, request, end),
            SessionEvent::Down(failure) => {
                self.note_failure(handle, &failure);
                self.step_about(handle, Input::Down, About::Failure(&failure));
            }
            SessionEvent::Parked(failure) => {
                self.note_failure(handle, &failure);
                self.step_about(handle, Input::Parked, About::Failure(&failure));
            }
            SessionEvent::Ending(failure) => self.note_failure(handle, &failure),
            SessionEvent::Ended(failure) => self.step_about(handle, Input::Ended, About::Failure(&failure)),
            SessionEvent::Refused(failure) => {
                self.step_about(handle, Input::Ended, About::Failure(&failure));
                self.step(handle, Input::Unauthorized);
            }
            SessionEvent::Other => {}
        }
    }

    fn note_failure(&mut self, handle: SessionHandle, failure: &Failure) {
        if let Some(server) = self.servers.get_mut(&handle) {
            server.failure = Some(failure.clone());
        }
    }

    /// A request of a session ended: it was used, and if the request is a call, its breaker takes the end.
    fn request_ended(&mut self, handle: SessionHandle, request: RequestId, end: End) {
        let Some(server) = self.servers.get_mut(&handle) else { return };
        server.note_use(self.now);
        if let Some(options) = self.options.breaker
            && server.calls.contains_key(&request)
        {
            server.breaker.call_ended(options, self.now, end, server.state == State::Up);
        }
    }
}

/// Classifies an event of a session.
fn classify(event: &Event) -> SessionEvent {
    match event {
        Event::Ready => SessionEvent::Ready,
        Event::CatalogChanged { .. } => SessionEvent::Changed,
        Event::Down { failure, next: Recovery::Reopen { .. } } => SessionEvent::Down(failure.clone()),
        Event::Down { failure, next: Recovery::Parked { .. } } => SessionEvent::Parked(failure.clone()),
        Event::Down { failure, next: Recovery::Close } => SessionEvent::Ending(failure.clone()),
        Event::Closed { cause: Cause::Failed(failure) } => match failure.kind {
            FailureKind::Unauthorized | FailureKind::Forbidden => SessionEvent::Refused(failure.clone()),
            FailureKind::Spawn
            | FailureKind::Connect
            | FailureKind::HandshakeTimeout
            | FailureKind::HandshakeRejected
            | FailureKind::UnsupportedVersion
            | FailureKind::Protocol
            | FailureKind::Overrun
            | FailureKind::ListFailed
            | FailureKind::Closed => SessionEvent::Ended(failure.clone()),
        },
        Event::Closed { cause: Cause::Requested } => {
            SessionEvent::Ended(Failure { kind: FailureKind::Closed, message: "the host closed the session".into() })
        }
        Event::Finished { request, outcome, .. } => SessionEvent::RequestEnded(*request, end_of(outcome)),
        Event::InputRequired { .. } | Event::Progress { .. } | Event::Task { .. } | Event::ServerRequest { .. } => {
            SessionEvent::Responding
        }
        Event::Unauthorized { .. }
        | Event::ServerRequestEnded { .. }
        | Event::Refreshed { .. }
        | Event::Subscription { .. }
        | Event::ElicitationComplete { .. }
        | Event::ResourceUpdated { .. }
        | Event::Log { .. }
        | Event::LogLevelFailed { .. }
        | Event::Notification { .. }
        | Event::Resending { .. }
        | Event::Quirk(_) => SessionEvent::Other,
    }
}
