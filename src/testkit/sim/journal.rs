//! A simulation drives clients that are recorded in a journal (feature `journal`).

use super::driven::{Arrival, Carried, Driven, Port, Step, first_step, hub_step, message};
use crate::host::hub::{Hub, HubEvent, SessionHandle};
use crate::journal::{self, HubInput, JournalBinding};
use crate::{Client, ConnectionId, Event, Time};

impl<B: Carried + JournalBinding> Driven for journal::Recorder<Client<B>> {
    type Event = Event;

    fn step(&mut self) -> Option<Step<Event>> {
        first_step(|| self.poll().map(B::step_of))
    }

    fn connection_of(&self, _: Option<SessionHandle>) -> Option<ConnectionId> {
        Some(self.connection())
    }

    fn next_deadline(&self) -> Option<Time> {
        self.deadline()
    }

    fn time_out(&mut self, now: Time) {
        // It is no command, so it is not refused.
        let _ = self.apply(now, journal::Input::Timeout);
    }

    fn input(&mut self, now: Time, port: Port, input: Arrival<'_>) {
        if let Some(input) = recorded(port, input, B::TAKES_MESSAGES) {
            let _ = self.apply(now, input);
        }
    }

    fn server(&self, _: Option<SessionHandle>) -> Option<&str> {
        None
    }

    fn takes_messages(&self) -> bool {
        B::TAKES_MESSAGES
    }
}

impl Driven for journal::Recorder<Hub> {
    type Event = HubEvent;

    fn step(&mut self) -> Option<Step<HubEvent>> {
        self.poll().and_then(hub_step)
    }

    fn connection_of(&self, session: Option<SessionHandle>) -> Option<ConnectionId> {
        Driven::connection_of(&**self, session)
    }

    fn next_deadline(&self) -> Option<Time> {
        self.deadline()
    }

    fn time_out(&mut self, now: Time) {
        let _ = self.apply(now, HubInput::Timeout);
    }

    fn input(&mut self, now: Time, port: Port, input: Arrival<'_>) {
        if let (Some(session), Some(input)) = (port.session(), recorded(port, input, false)) {
            let _ = self.apply(now, HubInput::Session { session, input });
        }
    }

    fn server(&self, session: Option<SessionHandle>) -> Option<&str> {
        Driven::server(&**self, session)
    }
}

/// An input as a value; `None` if a connection of this kind has none such.
fn recorded(port: Port, input: Arrival<'_>, takes_messages: bool) -> Option<journal::Input> {
    Some(match (port, input) {
        (Port::Connection(_, connection), Arrival::Transport(event)) => {
            journal::Input::Transport { connection, event: event.into() }
        }
        (Port::Connection(_, connection), Arrival::Bytes(bytes)) if takes_messages => {
            journal::Input::Message { connection, bytes: message(bytes).into() }
        }
        (Port::Connection(_, connection), Arrival::Bytes(bytes)) => {
            journal::Input::Bytes { connection, bytes: bytes.into() }
        }
        #[cfg(feature = "http")]
        (Port::Exchange(_, exchange), Arrival::Head(status, headers)) => {
            journal::Input::Head { exchange, status, headers: headers.clone() }
        }
        #[cfg(feature = "http")]
        (Port::Exchange(_, exchange), Arrival::Bytes(bytes)) => journal::Input::Body { exchange, bytes: bytes.into() },
        #[cfg(feature = "http")]
        (Port::Exchange(_, exchange), Arrival::End) => journal::Input::End { exchange },
        #[cfg(feature = "http")]
        (Port::Exchange(_, exchange), Arrival::Failure(broken, why)) => {
            journal::Input::Failure { exchange, broken, why: why.into() }
        }
        #[cfg(feature = "http")]
        (Port::Connection(..), Arrival::Head(..) | Arrival::End | Arrival::Failure(..))
        | (Port::Exchange(..), Arrival::Transport(_)) => return None,
    })
}
