//! Commands of single sessions.

use alloc::borrow::Cow;
use alloc::sync::Arc;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::Hub;
use super::event::{HubCommandError, SessionHandle};
use crate::Time;
use crate::client::{CommandError, Engine, LogLevel, Request, RequestId, ServerRequestId};
use crate::jsonrpc::ErrorObject;
use crate::machine::hub_server::Input;
use crate::protocol::{Family, Root};

impl Hub {
    /// Makes a request ([`Client::request`](crate::Client::request)). It ends with an event of the session.
    ///
    /// # Errors
    /// [`HubCommandError::UnknownSession`] if there is no such session; [`HubCommandError::Session`] if the session
    /// refuses.
    pub fn request(
        &mut self,
        now: Time,
        session: SessionHandle,
        request: Request,
    ) -> Result<RequestId, HubCommandError> {
        self.command_as(Input::Called, now, session, |session, now| session.request(now, request))
    }

    /// Cancels a request ([`Client::cancel`](crate::Client::cancel)).
    ///
    /// # Errors
    /// As of [`request`](Self::request).
    pub fn cancel_request(
        &mut self,
        now: Time,
        session: SessionHandle,
        request: RequestId,
    ) -> Result<(), HubCommandError> {
        self.command(now, session, |session, now| session.cancel(now, request, None))
    }

    /// Cancels a request, with a reason that the server is told
    /// ([`Client::cancel_with_reason`](crate::Client::cancel_with_reason)).
    ///
    /// # Errors
    /// As of [`request`](Self::request).
    pub fn cancel_request_with_reason(
        &mut self,
        now: Time,
        session: SessionHandle,
        request: RequestId,
        reason: &str,
    ) -> Result<(), HubCommandError> {
        self.command(now, session, |session, now| session.cancel(now, request, Some(reason)))
    }

    /// Responds to a server request ([`Client::respond`](crate::Client::respond)).
    ///
    /// # Errors
    /// As of [`request`](Self::request).
    pub fn respond(
        &mut self,
        now: Time,
        session: SessionHandle,
        request: ServerRequestId,
        answer: Result<&RawValue, ErrorObject>,
    ) -> Result<(), HubCommandError> {
        self.command(now, session, |session, now| session.respond(now, request, answer))
    }

    /// Provides required input ([`Client::provide`](crate::Client::provide)).
    ///
    /// # Errors
    /// As of [`request`](Self::request).
    pub fn provide<'a>(
        &mut self,
        now: Time,
        session: SessionHandle,
        request: RequestId,
        responses: impl IntoIterator<Item = (&'a str, &'a RawValue)>,
    ) -> Result<(), HubCommandError> {
        self.command(now, session, |session, now| session.provide(now, request, responses))
    }

    /// Declines required input or authorization ([`Client::decline`](crate::Client::decline)).
    ///
    /// # Errors
    /// As of [`request`](Self::request).
    pub fn decline(&mut self, now: Time, session: SessionHandle, request: RequestId) -> Result<(), HubCommandError> {
        self.command(now, session, |session, now| session.decline(now, request))
    }

    /// Subscribes to a resource ([`Client::subscribe`](crate::Client::subscribe)).
    ///
    /// # Errors
    /// As of [`request`](Self::request).
    pub fn subscribe(&mut self, now: Time, session: SessionHandle, uri: &str) -> Result<(), HubCommandError> {
        self.command_as(Input::Called, now, session, |session, now| session.subscribe(now, uri))
    }

    /// Unsubscribes from a resource ([`Client::unsubscribe`](crate::Client::unsubscribe)).
    ///
    /// # Errors
    /// As of [`request`](Self::request).
    pub fn unsubscribe(&mut self, now: Time, session: SessionHandle, uri: &str) -> Result<(), HubCommandError> {
        self.command(now, session, |session, now| session.unsubscribe(now, uri))
    }

    /// Sets the minimum severity of log messages ([`Client::set_log_level`](crate::Client::set_log_level)).
    ///
    /// # Errors
    /// As of [`request`](Self::request).
    pub fn set_log_level(&mut self, now: Time, session: SessionHandle, level: LogLevel) -> Result<(), HubCommandError> {
        self.command(now, session, |session, now| session.set_log_level(now, level))
    }

    /// Replaces the client's roots ([`Client::set_roots`](crate::Client::set_roots)).
    ///
    /// # Errors
    /// As of [`request`](Self::request).
    pub fn set_roots(&mut self, now: Time, session: SessionHandle, roots: Vec<Root>) -> Result<(), HubCommandError> {
        self.command(now, session, |session, now| session.set_roots(now, roots))
    }

    /// Requests a family's list again ([`Client::refresh`](crate::Client::refresh)).
    ///
    /// # Errors
    /// As of [`request`](Self::request).
    pub fn refresh(&mut self, now: Time, session: SessionHandle, family: Family) -> Result<(), HubCommandError> {
        self.command(now, session, |session, now| session.refresh(now, family))
    }

    /// Sends a notification ([`Client::notify`](crate::Client::notify)).
    ///
    /// # Errors
    /// As of [`request`](Self::request).
    pub fn notify(
        &mut self,
        now: Time,
        session: SessionHandle,
        method: impl Into<Cow<'static, str>>,
        params: Option<&RawValue>,
    ) -> Result<(), HubCommandError> {
        let method = method.into();
        self.command(now, session, |session, now| session.notify(now, method, params))
    }

    /// Runs a command of a session.
    fn command<T>(
        &mut self,
        now: Time,
        handle: SessionHandle,
        give: impl FnOnce(&mut Engine, Time) -> Result<T, CommandError>,
    ) -> Result<T, HubCommandError> {
        self.command_as(Input::Taken, now, handle, give)
    }

    /// Runs a command of a session, which is this input of its table.
    fn command_as<T>(
        &mut self,
        input: Input,
        now: Time,
        handle: SessionHandle,
        give: impl FnOnce(&mut Engine, Time) -> Result<T, CommandError>,
    ) -> Result<T, HubCommandError> {
        let now = self.router.handle_due(now);
        self.check()?;
        let router = &mut self.router;
        let server = router.servers.get_mut(&handle).ok_or(HubCommandError::UnknownSession)?;
        let session = server.connection.as_mut().ok_or(HubCommandError::UnknownSession)?;
        let given = session.run(|engine| give(engine, now));
        let given = given.map_err(|error| HubCommandError::Session { server: Arc::clone(&server.name), error })?;
        server.note_use(now);
        router.now = now;
        router.step(handle, input);
        router.touch(handle);
        router.settle();
        Ok(given)
    }
}
