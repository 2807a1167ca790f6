use core::fmt::Debug;

use serde::Serialize;

use super::line::BindingForm;
use super::{ApplyError, Input};
#[cfg(feature = "http")]
use crate::Http;
#[cfg(feature = "http")]
use crate::binding::http::HttpAction;
use crate::client::Binding;
use crate::{Client, Lines, Messages, Time};

/// A binding whose clients can be recorded. All of this crate are.
pub trait JournalBinding: Binding<Action: Serialize + Debug> + Format {}

/// What a journal needs from a binding. It is implemented in this crate only.
pub trait Format: Binding {
    /// The binding, as a header names it.
    fn form(&self) -> BindingForm<'static>;

    /// The number of the exchange that nothing is reported of after this action.
    fn abandoned(_: &Self::Action) -> Option<u64> {
        None
    }

    /// Gives an input from a transport to a client.
    fn handle(client: &mut Client<Self>, now: Time, input: &Input) -> Result<(), ApplyError>
    where
        Self: Sized;
}

impl JournalBinding for Messages {}

impl Format for Messages {
    fn form(&self) -> BindingForm<'static> {
        BindingForm::Messages
    }

    fn handle(client: &mut Client<Self>, now: Time, input: &Input) -> Result<(), ApplyError> {
        if let Input::Message { connection, bytes } = input {
            client.handle_message(now, *connection, bytes);
        } else if let Input::Transport { connection, event } = input {
            client.handle_transport(now, *connection, event.as_transport());
        } else {
            return Err(ApplyError::OtherBinding { binding: "messages".into() });
        }
        Ok(())
    }
}

impl JournalBinding for Lines {}

impl Format for Lines {
    fn form(&self) -> BindingForm<'static> {
        BindingForm::Lines
    }

    fn handle(client: &mut Client<Self>, now: Time, input: &Input) -> Result<(), ApplyError> {
        if let Input::Bytes { connection, bytes } = input {
            client.handle_bytes(now, *connection, bytes);
        } else if let Input::Transport { connection, event } = input {
            client.handle_transport(now, *connection, event.as_transport());
        } else {
            return Err(ApplyError::OtherBinding { binding: "lines".into() });
        }
        Ok(())
    }
}

#[cfg(feature = "http")]
impl JournalBinding for Http {}

#[cfg(feature = "http")]
impl Format for Http {
    fn form(&self) -> BindingForm<'static> {
        BindingForm::Http { url: self.redacted_url().into() }
    }

    fn abandoned(action: &HttpAction) -> Option<u64> {
        if let HttpAction::Drop(exchange) = action { Some(exchange.as_u64()) } else { None }
    }

    fn handle(client: &mut Client<Self>, now: Time, input: &Input) -> Result<(), ApplyError> {
        if let Input::Head { exchange, status, headers } = input {
            client.handle_head(now, *exchange, *status, headers);
        } else if let Input::Body { exchange, bytes } = input {
            client.handle_body(now, *exchange, bytes);
        } else if let Input::End { exchange } = input {
            client.handle_end(now, *exchange);
        } else if let Input::Failure { exchange, broken, why } = input {
            client.handle_failure(now, *exchange, *broken, why);
        } else {
            return Err(ApplyError::OtherBinding { binding: "http".into() });
        }
        Ok(())
    }
}
