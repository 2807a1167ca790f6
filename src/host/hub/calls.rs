//! Calls by exposed names: to whom they go, whether they go, how they end.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::Hub;
use super::event::{CallError, CallId, CallKind, HubEvent, SessionHandle};
use super::lifecycle::{Rank, new_session};
use super::member::{Member, Offer};
use crate::Time;
use crate::client::{CommandError, Outcome, Request, RequestId};
use crate::host::Utility;
use crate::host::names::Target;
use crate::jsonrpc::{Json, Object};
use crate::machine::hub_server::State;
use crate::machine::{Verdict, breaker};
use crate::protocol::Family;

impl Hub {
    /// Calls a tool by its exposed name, with these arguments: a JSON object, or null for none.
    ///
    /// # Errors
    /// A [`CallError`], which says which server, what was expected, and what to do.
    pub fn call(&mut self, now: Time, name: &str, arguments: Option<&RawValue>) -> Result<CallId, CallError> {
        self.call_with(now, name, arguments, |request| request)
    }

    /// As [`call`](Self::call), with a request that `adapt` changes: its timeout, its progress, its trace. Utility tools
    /// that list make none.
    ///
    /// # Errors
    /// As of [`call`](Self::call).
    pub fn call_with(
        &mut self,
        now: Time,
        name: &str,
        arguments: Option<&RawValue>,
        adapt: impl FnOnce(Request) -> Request,
    ) -> Result<CallId, CallError> {
        self.check().map_err(|_| CallError::Closed)?;
        // A model that has nothing to say may say so.
        let arguments = arguments.filter(|arguments| arguments.get() != "null");
        let unknown = || CallError::UnknownTool { name: name.into() };
        let resolved = self.names.resolve(name).ok_or_else(unknown)?;
        let target = resolved.target.clone();
        let what = match &target {
            Target::Tool(_) if arguments.is_some_and(|arguments| !arguments.get().starts_with('{')) => {
                return Err(CallError::Arguments { name: name.into(), expected: "a JSON object" });
            }
            Target::Tool(tool) => What::Request(Request::call_tool(tool, arguments)),
            Target::Utility(utility) => utility_request(name, *utility, arguments)?,
        };
        let handle = self.current.get(resolved.server).copied().ok_or_else(unknown)?;
        let member = self.members.get(&handle).ok_or_else(unknown)?;
        // A name may be known from before.
        let Some(offer) = &member.offer else {
            let failure = member.failure.as_ref().map(|failure| failure.message.clone());
            let why = failure.unwrap_or_else(|| "it was not asked yet what it offers".into());
            return Err(CallError::NotUp { server: Arc::clone(&member.name), why });
        };
        if !offer.chosen.has(&target) {
            return Err(unknown());
        }
        let kind = match what {
            What::Request(request) => {
                self.check_breaker(now, handle)?;
                let utility = target.utility();
                let request = self.request_call(now, handle, adapt(request), target)?;
                self.breaker_step(handle, breaker::Input::Call);
                CallKind::Request(request, utility)
            }
            What::List(utility) => self.list(now, handle, utility)?,
        };
        // A session that waits for its next try goes on waiting; one that was given up tries for a request's sake.
        let request = matches!(kind, CallKind::Request(..));
        let rests = |member: &Member| member.state == State::Down && !(request && member.parked);
        if !self.members.get(&handle).is_some_and(|member| rests(member)) {
            self.want(handle, Rank::Called);
        }
        self.unsettled = true;
        Ok(CallId { session: handle, kind })
    }

    /// Gives up a call; it ends [`Outcome::Cancelled`].
    ///
    /// # Errors
    /// [`CommandError::UnknownRequest`] where no such call is open.
    pub fn cancel(&mut self, now: Time, call: CallId) -> Result<(), CommandError> {
        let member = self.members.get_mut(&call.session).ok_or(CommandError::UnknownRequest)?;
        match call.kind {
            CallKind::Request(request, _) => {
                let session = member.connection.as_mut().filter(|_| member.calls.contains_key(&request));
                session.ok_or(CommandError::UnknownRequest)?.command(|engine| engine.cancel(now, request))?;
                self.touch(call.session);
            }
            CallKind::List(number, _) => {
                let at = member.lists.iter().position(|(known, _)| *known == number);
                member.lists.remove(at.ok_or(CommandError::UnknownRequest)?);
                let server = Arc::clone(&member.name);
                self.events.push_back(HubEvent::Finished { call, server, outcome: Outcome::Cancelled });
            }
        }
        self.advance(now);
        Ok(())
    }

    fn request_call(
        &mut self,
        now: Time,
        handle: SessionHandle,
        request: Request,
        target: Target,
    ) -> Result<RequestId, CallError> {
        let now = self.now.max(now);
        let limit = self.options.session.limits.output;
        // Sessions that are closed, and that nobody polled yet. One that is made for a call might join them.
        let leaving = self.members.len().saturating_sub(self.current.len());
        let Some(member) = self.members.get_mut(&handle) else { return Err(CallError::Closed) };
        let refused = |misuse| CallError::Session { server: Arc::clone(&member.name), misuse };
        let id = match &mut member.connection {
            Some(session) => session.command(|engine| engine.request(now, request)).map_err(refused)?,
            None if leaving >= limit => return Err(refused(CommandError::TooManyRequests { limit })),
            None => {
                let entry = self.configuration.servers.get(&*member.name);
                let session =
                    entry.and_then(|entry| new_session(member, entry, &self.options, self.seed, &mut self.shelf));
                let mut session = session.ok_or_else(|| refused(CommandError::Closed))?;
                let id = session.command(|engine| engine.request(now, request)).map_err(refused)?;
                member.connection = Some(session);
                id
            }
        };
        member.calls.insert(id, target);
        self.advance(now);
        self.touch(handle);
        Ok(id)
    }

    /// Answers a utility tool that lists: now, or as soon as the server listed.
    fn list(&mut self, now: Time, handle: SessionHandle, utility: Utility) -> Result<CallKind, CallError> {
        let limit = self.options.session.limits.queued;
        let Some(member) = self.members.get_mut(&handle) else { return Err(CallError::Closed) };
        if member.lists.len().max(self.events.len()) >= limit {
            let (server, misuse) = (Arc::clone(&member.name), CommandError::TooManyRequests { limit });
            return Err(CallError::Session { server, misuse });
        }
        self.last_list = self.last_list.saturating_add(1);
        member.lists.push((self.last_list, utility));
        let known = matches!(member.state, State::Up | State::Down);
        self.advance(now);
        if known {
            self.end_lists(handle, true);
        }
        Ok(CallKind::List(self.last_list, utility))
    }

    /// Ends the utility tools that list, and wait: with what is known, if it is of use, and anything is.
    pub(super) fn end_lists(&mut self, handle: SessionHandle, of_use: bool) {
        let Some(member) = self.members.get_mut(&handle) else { return };
        for (number, utility) in core::mem::take(&mut member.lists) {
            let known = member.offer.as_ref().filter(|_| of_use);
            let outcome = known.map_or(Outcome::NotSent, |offer| Outcome::Result(listing(offer, utility)));
            let call = CallId { session: handle, kind: CallKind::List(number, utility) };
            self.events.push_back(HubEvent::Finished { call, server: Arc::clone(&member.name), outcome });
        }
    }

    /// A request of a session ended: the call that it was, if it was one of the hub's.
    pub(super) fn finished(&mut self, handle: SessionHandle, request: RequestId, outcome: &Outcome) -> Option<CallId> {
        let member = self.members.get_mut(&handle)?;
        let utility = member.calls.remove(&request)?.utility();
        let most = self.options.breaker.map_or(u32::MAX, |breaker| breaker.failures);
        let failed = if member.failures.saturating_add(1) >= most {
            breaker::Input::FailedAgain
        } else {
            breaker::Input::Failed
        };
        let input = match outcome {
            Outcome::Result(_) | Outcome::InputRequired(_) | Outcome::Error(_) => breaker::Input::Answered,
            // One that nobody could take yet is no failure of the server's.
            Outcome::TimedOut if member.state != State::Up => breaker::Input::Undecided,
            Outcome::Invalid(_) | Outcome::TimedOut | Outcome::Unknown => failed,
            Outcome::NotAdvertised | Outcome::Cancelled | Outcome::NotSent => breaker::Input::Undecided,
        };
        self.breaker_step(handle, input);
        Some(CallId { session: handle, kind: CallKind::Request(request, utility) })
    }

    /// Gives up the calls that were not sent yet, and that the policy does not allow any more.
    pub(super) fn give_up_calls(&mut self, handle: SessionHandle) {
        let now = self.now;
        let Some(member) = self.members.get_mut(&handle) else { return };
        let (Some(session), Some(offer)) = (&mut member.connection, &member.offer) else { return };
        for (request, _) in member.calls.iter().filter(|(_, target)| !offer.chosen.has(target)) {
            if session.is_unsent(*request) {
                // It is open.
                let _ = session.command(|engine| engine.cancel(now, *request));
            }
        }
        self.touch(handle);
    }

    fn check_breaker(&self, now: Time, handle: SessionHandle) -> Result<(), CallError> {
        let Some(member) = self.members.get(&handle) else { return Err(CallError::Closed) };
        let cooled = self.now.max(now) >= member.rests_until;
        let state = if cooled { breaker::take(member.breaker, breaker::Input::Cooled).next } else { member.breaker };
        if breaker::take(state, breaker::Input::Call).verdict == Verdict::Reject {
            let why = match &member.failure {
                Some(failure) => failure.message.clone(),
                None => alloc::format!("{} calls in a row failed", member.failures).into(),
            };
            // A call that is under way, to see, tells when.
            let until = (state == breaker::State::Open).then_some(member.rests_until);
            return Err(CallError::Resting { server: Arc::clone(&member.name), why, until });
        }
        Ok(())
    }

    pub(super) fn breaker_step(&mut self, handle: SessionHandle, input: breaker::Input) {
        let (Some(options), Some(member)) = (self.options.breaker, self.members.get_mut(&handle)) else { return };
        if self.now >= member.rests_until {
            member.breaker = breaker::take(member.breaker, breaker::Input::Cooled).next;
        }
        let row = breaker::take(member.breaker, input);
        member.breaker = row.next;
        for effect in row.effects {
            match effect {
                breaker::Effect::Count => member.failures = member.failures.saturating_add(1),
                breaker::Effect::Clear => member.failures = 0,
                breaker::Effect::Rest => {
                    member.failures = member.failures.saturating_add(1);
                    member.rests_until = self.now + options.cooldown;
                }
            }
        }
    }

    pub(super) fn reset_breaker(&mut self, handle: SessionHandle) {
        self.breaker_step(handle, breaker::Input::Reset);
    }
}

/// What a call comes to.
enum What {
    Request(Request),
    List(Utility),
}

fn utility_request(name: &str, utility: Utility, arguments: Option<&RawValue>) -> Result<What, CallError> {
    let arguments = arguments.map(Json::from);
    let text = |member: &str| arguments.and_then(|arguments| arguments.member(member)).and_then(Json::as_string);
    let lacks = |expected| CallError::Arguments { name: name.into(), expected };
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
                // A model's numbers are as good as their text.
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

/// What a utility tool that lists answers: the items as the server wrote them.
fn listing(offer: &Offer, utility: Utility) -> Box<RawValue> {
    let families: &[Family] = match utility {
        Utility::ListPrompts | Utility::GetPrompt => &[Family::Prompts],
        Utility::ListResources | Utility::ReadResource => &[Family::Resources, Family::ResourceTemplates],
    };
    let mut json = Vec::new();
    let mut object = Object::begin(&mut json);
    for family in families {
        let out = object.value(family.member());
        out.push(b'[');
        for (at, (_, item)) in offer.catalog.list(*family).iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            out.extend_from_slice(item.as_bytes());
        }
        out.push(b']');
    }
    object.end();
    Json::trusted(&String::from_utf8(json).unwrap_or_default()).to_raw()
}
