//! The router of commands.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::super::notifications::set_level;
use super::super::request_table::Block;
use super::super::server_requests::set_roots;
use super::super::{CommandError, Engine, LogLevel, Output, Request, RequestId, ServerRequestId, calls};
use crate::Time;
use crate::jsonrpc::ErrorObject;
use crate::machine::{gate, link, request};
use crate::protocol::{Family, Root, method};

impl Engine {
    pub(crate) fn open(&mut self, now: Time) -> Result<(), CommandError> {
        self.link.check(link::Input::Open, CommandError::AlreadyOpen)?;
        self.core.advance(now);
        let signals = self.link.step(&mut self.core, link::Input::Open);
        self.act(signals);
        Ok(())
    }

    pub(crate) fn close(&mut self, now: Time) -> Result<(), CommandError> {
        self.link.check(link::Input::Close, CommandError::Closed)?;
        self.core.advance(now);
        calls::end(&mut self.core);
        self.end_connection(false);
        let signals = self.link.close(&mut self.core);
        self.act(signals);
        Ok(())
    }

    /// Closes the connection of a client that is not used. [`open`](Self::open) opens another one.
    pub(crate) fn rest(&mut self, now: Time) {
        self.core.advance(now);
        self.end_connection(false);
        let signals = self.link.rest(&mut self.core);
        self.act(signals);
        self.core.release_memory();
    }

    pub(crate) fn request(&mut self, now: Time, request: Request) -> Result<RequestId, CommandError> {
        let id = calls::request(&mut self.core, now, request)?;
        self.freshness.on_use(&mut self.core);
        self.write_requests();
        Ok(id)
    }

    pub(crate) fn cancel(&mut self, now: Time, request: RequestId, reason: Option<&str>) -> Result<(), CommandError> {
        calls::cancel(&mut self.core, now, request, reason)?;
        self.write_requests();
        Ok(())
    }

    pub(crate) fn provide<'a>(
        &mut self,
        now: Time,
        request: RequestId,
        responses: impl IntoIterator<Item = (&'a str, &'a RawValue)>,
    ) -> Result<(), CommandError> {
        calls::provide(&mut self.core, now, request, responses)?;
        self.write_requests();
        Ok(())
    }

    pub(crate) fn decline(&mut self, now: Time, request: RequestId) -> Result<(), CommandError> {
        calls::decline(&mut self.core, now, request)?;
        self.write_requests();
        Ok(())
    }

    pub(crate) fn respond(
        &mut self,
        now: Time,
        request: ServerRequestId,
        response: Result<&RawValue, ErrorObject>,
    ) -> Result<(), CommandError> {
        self.server_requests.respond(&mut self.core, now, request, response)
    }

    pub(crate) fn notify(
        &mut self,
        now: Time,
        method: Cow<'static, str>,
        params: Option<&RawValue>,
    ) -> Result<(), CommandError> {
        let core = &mut self.core;
        if matches!(&*method, method::INITIALIZED | method::CANCELLED | method::ROOTS_LIST_CHANGED) {
            return Err(CommandError::Reserved { method: (&*method).into() });
        }
        if params.is_some_and(|params| !params.get().starts_with('{')) {
            return Err(CommandError::ParamsNotObject);
        }
        core.check_open()?;
        if !core.is_ready() {
            return Err(CommandError::NotReady);
        }
        if core.is_undelivered_full() {
            return Err(CommandError::TooManyRequests { limit: core.options.limits.output });
        }
        core.advance(now);
        let write = params.map(|params| |out: &mut Vec<u8>| out.extend_from_slice(params.get().as_bytes()));
        let message = core.encode_notification(method, write);
        core.outbox.push(Output::Send(message));
        Ok(())
    }

    pub(crate) fn authorized(&mut self, now: Time) -> Result<(), CommandError> {
        self.core.check_open()?;
        self.core.advance(now);
        calls::unblock(&mut self.core, Block::Authorization, request::Input::Admitted);
        self.admit_connection();
        Ok(())
    }

    /// The handshake was refused for lack of what is there by now: the connection is opened again.
    #[cfg(feature = "http")]
    pub(crate) fn readmit_connection(&mut self, now: Time) {
        self.core.advance(now);
        self.admit_connection();
    }

    /// A call was refused for lack of what is there by now: it is sent again.
    #[cfg(feature = "http")]
    pub(crate) fn readmit_call(&mut self, now: Time, id: u64) {
        self.core.advance(now);
        calls::unblock_one(&mut self.core, id, Block::Authorization, request::Input::Admitted);
        self.write_requests();
    }

    fn admit_connection(&mut self) {
        let signals = self.link.step(&mut self.core, link::Input::Authorized);
        self.act(signals);
        self.write_requests();
    }

    pub(crate) fn subscribe(&mut self, now: Time, uri: &str) -> Result<(), CommandError> {
        let signals = self.subscriptions.subscribe(&mut self.core, now, uri)?;
        self.freshness.on_use(&mut self.core);
        self.act(signals);
        self.write_requests();
        Ok(())
    }

    pub(crate) fn unsubscribe(&mut self, now: Time, uri: &str) -> Result<(), CommandError> {
        let signals = self.subscriptions.unsubscribe(&mut self.core, now, uri)?;
        self.act(signals);
        self.write_requests();
        Ok(())
    }

    pub(crate) fn set_log_level(&mut self, now: Time, level: LogLevel) -> Result<(), CommandError> {
        set_level(&mut self.core, now, level)?;
        self.write_requests();
        Ok(())
    }

    pub(crate) fn set_roots(&mut self, now: Time, new: Vec<Root>) -> Result<(), CommandError> {
        set_roots(&mut self.core, now, new)
    }

    pub(crate) fn refresh(&mut self, now: Time, family: Family) -> Result<(), CommandError> {
        let core = &mut self.core;
        core.check_open()?;
        if !core.is_ready() {
            return Err(CommandError::NotReady);
        }
        if !core.gate(gate::Use::Refresh, family).is_allowed() {
            return Err(core.not_advertised(family.list_method(), family.capability().as_str()));
        }
        core.advance(now);
        let signals = self.lists.demand(core, family);
        self.freshness.on_use(&mut self.core);
        self.act(signals);
        self.write_requests();
        Ok(())
    }
}
