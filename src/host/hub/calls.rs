//! Calls by exposed names: what one means, and how it is made.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::Hub;
use super::connection::Connection;
use super::event::{CallError, CallId, CallKind, HubCommandError, HubEvent, SessionHandle};
use super::route::About;
use crate::Time;
use crate::client::{CommandError, Outcome, Request};
use crate::host::Utility;
use crate::host::names::Target;
use crate::jsonrpc::Json;
use crate::machine::breaker::Input as BreakerInput;
use crate::machine::hub_server::{Input, creates, refuses};

impl Hub {
    /// Calls a tool by its exposed name, with arguments: a JSON object, or null for none.
    ///
    /// # Errors
    /// - [`CallError::Closed`] if the hub is closed or being closed.
    /// - [`CallError::UnknownTool`] if no enabled server has a tool of this name that its filters allow.
    /// - [`CallError::Arguments`] if the arguments are not a JSON object, or not those of the utility tool.
    /// - [`CallError::NotUp`] if the name is known, for example from an earlier run, and the server's lists are not.
    /// - [`CallError::CoolingDown`] if calls to the server are refused for some time ([`Breaker`](super::Breaker)).
    /// - [`CallError::Session`] with [`CommandError::TooManyRequests`] if too many calls or too many unpolled actions
    ///   wait, or with another reason of the session ([`Client::request`](crate::Client::request)).
    pub fn call(&mut self, now: Time, name: &str, arguments: Option<&RawValue>) -> Result<CallId, CallError> {
        self.call_with(now, name, arguments, |request| request)
    }

    /// As [`call`](Self::call), with a request that `adapt` changes, such as its timeout. It is not used for utility
    /// tools that list.
    ///
    /// # Errors
    /// As of [`call`](Self::call); further [`CommandError`]s if `adapt` makes the request invalid.
    pub fn call_with(
        &mut self,
        now: Time,
        name: &str,
        arguments: Option<&RawValue>,
        adapt: impl FnOnce(Request) -> Request,
    ) -> Result<CallId, CallError> {
        let now = self.router.handle_due(now);
        self.check().map_err(|_| CallError::Closed)?;
        let router = &mut self.router;
        let unknown = || CallError::UnknownTool { name: name.into() };
        let resolved = router.names.resolve(name).ok_or_else(unknown)?;
        let target = resolved.target.clone();
        let what = what(name, &target, arguments)?;
        let handle = router.current.get(resolved.server).copied().ok_or_else(unknown)?;
        let server = router.servers.get(&handle).ok_or_else(unknown)?;
        let input = if let What::List(_) = what { Input::Listed } else { Input::Called };
        // The name may be known from before.
        let refused = refuses(server.state, input);
        let offer = server.offer.as_ref().filter(|_| !refused);
        let Some(offer) = offer else {
            let failure = server.failure.as_ref().map(|failure| failure.message.clone());
            let why = failure.unwrap_or_else(|| "it was not asked yet what it offers".into());
            return Err(CallError::NotUp { server: Arc::clone(&server.name), why });
        };
        if !offer.chosen.has(&target) {
            return Err(unknown());
        }
        // A session that is created for a call may end before the embedder polls any of its actions.
        let limit = router.options.session.limits.output;
        let is_new = creates(server.state, input);
        if is_new && router.former() >= limit {
            let (server, error) = (Arc::clone(&server.name), CommandError::TooManyRequests { limit });
            return Err(CallError::Session { server, error });
        }
        let (kind, about) = match what {
            What::Request(request) => {
                let (kind, created) = self.call_request(now, handle, adapt(request), target, is_new)?;
                (kind, created.map_or(About::Nothing, About::Session))
            }
            What::List(utility) => (self.call_list(handle, utility)?, About::Nothing),
        };
        self.router.now = now;
        if let Some(server) = self.router.servers.get_mut(&handle) {
            server.note_use(now);
        }
        self.router.step_about(handle, input, about);
        self.router.settle();
        Ok(CallId { session: handle, kind })
    }

    /// Gives a call to the session of its server; to a new one, which is returned, if the call creates it.
    fn call_request(
        &mut self,
        now: Time,
        handle: SessionHandle,
        request: Request,
        target: Target,
        is_new: bool,
    ) -> Result<(CallKind, Option<Connection>), CallError> {
        let router = &mut self.router;
        let utility = target.utility();
        let server = router.servers.get(&handle).ok_or(CallError::Closed)?;
        if let Err(until) = server.breaker.admits(now) {
            return Err(CallError::CoolingDown { server: Arc::clone(&server.name), why: server.why_refused(), until });
        }
        // It becomes the server's session only if it accepts the call: an error changes nothing.
        let mut created = if is_new { router.new_session(handle) } else { None };
        let server = router.servers.get_mut(&handle).ok_or(CallError::Closed)?;
        let session = created.as_mut().or(server.connection.as_mut()).ok_or(CallError::Closed)?;
        let given = session.run(|engine| engine.request(now, request));
        let id = given.map_err(|error| CallError::Session { server: Arc::clone(&server.name), error })?;
        server.calls.insert(id, target);
        router.now = now;
        router.touch(handle);
        router.breaker_step(handle, BreakerInput::Call);
        Ok((CallKind::Request(id, utility), created))
    }

    /// Takes a call that is answered from the session's lists.
    fn call_list(&mut self, handle: SessionHandle, utility: Utility) -> Result<CallKind, CallError> {
        let router = &mut self.router;
        let limit = router.options.session.limits.queued;
        let events = router.queue.events();
        let server = router.servers.get_mut(&handle).ok_or(CallError::Closed)?;
        if server.list_calls.len().max(events) >= limit {
            let (server, error) = (Arc::clone(&server.name), CommandError::TooManyRequests { limit });
            return Err(CallError::Session { server, error });
        }
        router.last_list_call = router.last_list_call.saturating_add(1);
        server.list_calls.push((router.last_list_call, utility));
        Ok(CallKind::List(router.last_list_call, utility))
    }

    /// Cancels a call; it ends with [`Outcome::Cancelled`].
    ///
    /// # Errors
    /// [`HubCommandError::UnknownCall`] if no such call is open.
    pub fn cancel(&mut self, now: Time, call: CallId) -> Result<(), HubCommandError> {
        let unknown = HubCommandError::UnknownCall;
        let router = &mut self.router;
        let now = router.handle_due(now);
        let server = router.servers.get_mut(&call.session).ok_or(unknown.clone())?;
        match call.kind {
            CallKind::Request(request, _) => {
                let session = server.connection.as_mut().filter(|_| server.calls.contains_key(&request));
                session.ok_or(unknown.clone())?.run(|engine| engine.cancel(now, request, None)).map_err(|_| unknown)?;
                router.touch(call.session);
            }
            CallKind::List(number, _) => {
                let at = server.list_calls.iter().position(|(known, _)| *known == number);
                server.list_calls.remove(at.ok_or(unknown)?);
                let server = Arc::clone(&server.name);
                router.queue.report(HubEvent::Finished { call, server, outcome: Outcome::Cancelled, attempts: 0 });
            }
        }
        router.now = now;
        router.settle();
        Ok(())
    }
}

/// What a call means.
enum What {
    /// A request of the session.
    Request(Request),
    /// A result from the session's lists.
    List(Utility),
}

/// What a call of this name and target means.
fn what(name: &str, target: &Target, arguments: Option<&RawValue>) -> Result<What, CallError> {
    // A model may write null for no arguments.
    let arguments = arguments.filter(|arguments| arguments.get() != "null");
    match target {
        Target::Tool(_) if arguments.is_some_and(|arguments| !arguments.get().starts_with('{')) => {
            Err(CallError::Arguments { name: name.into(), expected: "a JSON object".into() })
        }
        Target::Tool(tool) => Ok(What::Request(Request::call_tool(tool, arguments))),
        Target::Utility(utility) => utility_request(name, *utility, arguments),
    }
}

fn utility_request(name: &str, utility: Utility, arguments: Option<&RawValue>) -> Result<What, CallError> {
    let arguments = arguments.map(Json::from);
    let text = |member: &str| arguments.and_then(|arguments| arguments.member(member)).and_then(Json::as_string);
    let lacks = |expected: &'static str| CallError::Arguments { name: name.into(), expected: expected.into() };
    match utility {
        Utility::ListResources | Utility::ListPrompts => Ok(What::List(utility)),
        Utility::ReadResource => {
            let uri = text("uri").ok_or_else(|| lacks("`uri`, the URI of a resource, as a string"))?;
            Ok(What::Request(Request::read_resource(&uri)))
        }
        Utility::GetPrompt => {
            let prompt = text("name").ok_or_else(|| lacks("`name`, the name of a prompt, as a string"))?;
            let mut values: Vec<(String, String)> = Vec::new();
            if let Some(given) = arguments.and_then(|arguments| arguments.member("arguments")) {
                if !given.is_object() && !given.is_null() {
                    return Err(lacks("`arguments`, an object of strings"));
                }
                // A value that is not a string is passed as JSON text.
                given.members(|name, value| {
                    let value = value.as_string().map_or_else(|| value.text().into(), String::from);
                    values.push((name.into(), value));
                });
            }
            let values = values.iter().map(|(name, value)| (&**name, &**value));
            Ok(What::Request(Request::get_prompt(&prompt, values)))
        }
    }
}
