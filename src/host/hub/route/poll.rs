//! Takes the outputs of sessions in the order of the queue.

use alloc::sync::Arc;

use super::Router;
use crate::client::Event;
use crate::host::hub::connection::{Connection, SessionOutput};
use crate::host::hub::event::{CallId, CallKind, HubAction, HubEvent, SessionHandle};
use crate::host::hub::queue::Turn;
use crate::machine::hub_server::Input;

impl Router {
    /// The next action.
    pub(in super::super) fn poll(&mut self) -> Option<HubAction> {
        loop {
            let action = match self.queue.front()? {
                Turn::Event(_) => match self.queue.pop(None) {
                    Some(Turn::Event(event)) => Some(HubAction::Event(*event)),
                    Some(Turn::ThroughEvent(_) | Turn::UntilEvent(_)) | None => None,
                },
                Turn::ThroughEvent(handle) => {
                    let handle = *handle;
                    self.take_through_event(handle)
                }
                Turn::UntilEvent(handle) => {
                    let handle = *handle;
                    self.take_until_event(handle)
                }
            };
            if action.is_some() {
                return action;
            }
        }
    }

    fn take_through_event(&mut self, handle: SessionHandle) -> Option<HubAction> {
        match self.pull(handle) {
            None => {
                self.end_turn(handle);
                None
            }
            Some(SessionOutput::Event(event)) => {
                let event = self.event_polled(handle, event);
                self.end_turn(handle);
                event
            }
            Some(SessionOutput::Action(action)) => Some(action),
        }
    }

    fn take_until_event(&mut self, handle: SessionHandle) -> Option<HubAction> {
        let connection = self.servers.get(&handle).and_then(|server| server.connection.as_ref());
        if connection.is_none_or(Connection::is_event_next) {
            self.end_turn(handle);
            return None;
        }
        match self.pull(handle) {
            None => {
                self.end_turn(handle);
                None
            }
            Some(SessionOutput::Event(event)) => self.event_polled(handle, event),
            Some(SessionOutput::Action(action)) => Some(action),
        }
    }

    /// Takes the next output of a session.
    fn pull(&mut self, handle: SessionHandle) -> Option<SessionOutput> {
        let server = self.servers.get_mut(&handle)?;
        let connection = server.connection.as_mut()?;
        let output = connection.poll(handle);
        self.queue.bring_forward(handle, &mut server.pending, connection.next_timer());
        if output.is_some() {
            self.step(handle, Input::Taken);
        }
        output
    }

    /// An event of a session is polled: returns what the embedder gets.
    fn event_polled(&mut self, handle: SessionHandle, event: Event) -> Option<HubAction> {
        let server = self.servers.get_mut(&handle)?;
        let name = Arc::clone(&server.name);
        let mut call = None;
        if let Event::Finished { request, .. } = &event {
            call = server.calls.remove(request).map(|target| (*request, target.utility()));
        }
        let event = match (call, event) {
            (Some((request, utility)), Event::Finished { outcome, attempts, .. }) => {
                let kind = CallKind::Request(request, utility);
                HubEvent::Finished { call: CallId { session: handle, kind }, server: name, outcome, attempts }
            }
            (_, event) => HubEvent::Session { session: handle, server: name, event },
        };
        Some(HubAction::Event(event))
    }

    /// Ends the first turn.
    fn end_turn(&mut self, handle: SessionHandle) {
        let server = self.servers.get_mut(&handle);
        self.queue.pop(server.map(|server| &mut server.pending));
        self.note_polled(handle);
    }
}
