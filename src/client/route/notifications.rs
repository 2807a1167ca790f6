//! The router of notifications.

use serde_json::value::RawValue;

use super::super::notifications::on_progress;
use super::super::{Engine, calls};
use crate::jsonrpc::Json;
use crate::protocol::{Family, method};

impl Engine {
    pub(super) fn on_notification(&mut self, method: &str, params: Option<&RawValue>) {
        if method == method::TASKS && self.on_task(params) {
            return;
        }
        let core = &mut self.core;
        let established = core.agreed.is_some();
        let families: &[Family] = match method {
            method::CANCELLED => return self.on_cancelled(params),
            method::PROGRESS if on_progress(core, params) => return,
            method::ELICITATION_COMPLETE if core.options.capabilities.elicitation_url => {
                return match core.url_elicitations.on_complete(params) {
                    Some(event) if !core.is_full() => core.event(event),
                    Some(_) | None => core.leave_out(),
                };
            }
            method::ACKNOWLEDGED if established => {
                let signals = self.subscriptions.on_acknowledged(core, params);
                return self.act(signals);
            }
            method::TOOLS_LIST_CHANGED
            | method::PROMPTS_LIST_CHANGED
            | method::RESOURCES_LIST_CHANGED
            | method::RESOURCE_UPDATED
                if !self.subscriptions.admits(core, params) =>
            {
                return core.leave_out();
            }
            method::TOOLS_LIST_CHANGED if established => &[Family::Tools],
            method::PROMPTS_LIST_CHANGED if established => &[Family::Prompts],
            method::RESOURCES_LIST_CHANGED if established => &[Family::Resources, Family::ResourceTemplates],
            _ => return self.notifications.on_other(core, method, params),
        };
        for family in families {
            let signals = self.lists.on_changed(&mut self.core, *family);
            self.act(signals);
        }
    }

    /// Takes `notifications/tasks`. Returns whether that is all: it is about a task of a call, or of a foreign stream.
    fn on_task(&mut self, params: Option<&RawValue>) -> bool {
        let (core, server_requests) = (&mut self.core, &mut self.server_requests);
        if !self.subscriptions.admits(core, params) {
            core.leave_out();
            return true;
        }
        params.is_some_and(|params| {
            calls::on_notification(core, params, &mut |core, method, params| {
                server_requests.judge_input(core, method, params)
            })
        })
    }

    /// The server cancels one of its requests, or ends a stream.
    fn on_cancelled(&mut self, params: Option<&RawValue>) {
        let id = params.and_then(|params| Json::from(params).member("requestId"));
        let Some(id) = id else { return };
        match self.subscriptions.on_cancelled(&mut self.core, id.text()) {
            Some(signals) => self.act(signals),
            None => {
                let reason = params.and_then(|params| Json::from(params).member("reason"));
                let reason = reason.and_then(Json::as_string);
                self.server_requests.on_cancelled(&mut self.core, id.text(), reason.as_deref());
            }
        }
    }
}
