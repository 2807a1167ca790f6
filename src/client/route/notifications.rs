//! The router of notifications.

use serde_json::value::RawValue;

use super::super::core::{Core, Stage};
use super::super::notifications::{id_of_progress, on_progress, report};
use super::super::signal::Signals;
use super::super::{Engine, calls};
use crate::jsonrpc::Json;
use crate::machine::listen_stream::Admission;
use crate::machine::notification::{Notification, Phase, Route, take};
use crate::protocol::{Family, method};

impl Engine {
    pub(super) fn on_notification(&mut self, method: &str, params: Option<&RawValue>) -> Signals {
        let core = &mut self.core;
        let request = request_of(core, method, params);
        let notification = classify(core, method, request);
        let admission = match notification {
            Notification::ListChanged
            | Notification::ResourceUpdated
            | Notification::CallTask
            | Notification::OtherTask => self.subscriptions.admission(core, params),
            Notification::Cancelled
            | Notification::Progress
            | Notification::ElicitationComplete
            | Notification::Acknowledged
            | Notification::Other => Admission::Admit,
        };
        match take(notification, admission, phase(core)) {
            Route::Cancel => return self.on_cancelled(params),
            Route::Progress => {
                if let Some((id, params)) = request.zip(params) {
                    on_progress(core, id, params);
                }
            }
            Route::Elicitation => match core.url_elicitations.on_complete(params) {
                Some(event) if !core.is_full() => core.event(event),
                Some(_) | None => core.leave_out(),
            },
            Route::Stream => return self.subscriptions.on_acknowledged(core, params),
            Route::Refresh => {
                let mut signals = Signals::NONE;
                for family in families(method) {
                    signals.extend(self.lists.on_changed(core, *family));
                }
                return signals;
            }
            Route::Task => {
                let server_requests = &mut self.server_requests;
                if let Some((id, params)) = request.zip(params) {
                    calls::on_notification(core, id, params, &mut |core, method, params| {
                        server_requests.judge_input(core, method, params)
                    });
                }
            }
            Route::Report => report(core, method, params),
            Route::Hold => self.notifications.hold(core, method, params),
            Route::LeaveOut => core.leave_out(),
        }
        Signals::NONE
    }

    /// The server cancels one of its requests, or ends a stream.
    fn on_cancelled(&mut self, params: Option<&RawValue>) -> Signals {
        let id = params.and_then(|params| Json::from(params).member("requestId"));
        let Some(id) = id else { return Signals::NONE };
        match self.subscriptions.on_cancelled(&mut self.core, id.text()) {
            Some(signals) => signals,
            None => {
                let reason = params.and_then(|params| Json::from(params).member("reason"));
                let reason = reason.and_then(Json::as_string);
                self.server_requests.on_cancelled(&mut self.core, id.text(), reason.as_deref());
                Signals::NONE
            }
        }
    }
}

/// The open request that a notification is about.
#[inline]
fn request_of(core: &Core, method: &str, params: Option<&RawValue>) -> Option<u64> {
    match method {
        method::PROGRESS => id_of_progress(core, params?),
        method::TASKS => calls::id_of_call(core, params?),
        _ => None,
    }
}

fn classify(core: &Core, method: &str, request: Option<u64>) -> Notification {
    match method {
        method::CANCELLED => Notification::Cancelled,
        method::PROGRESS if request.is_some() => Notification::Progress,
        method::ELICITATION_COMPLETE if core.options.capabilities.elicitation_url => Notification::ElicitationComplete,
        method::ACKNOWLEDGED => Notification::Acknowledged,
        method::TOOLS_LIST_CHANGED | method::PROMPTS_LIST_CHANGED | method::RESOURCES_LIST_CHANGED => {
            Notification::ListChanged
        }
        method::RESOURCE_UPDATED => Notification::ResourceUpdated,
        method::TASKS if request.is_some() => Notification::CallTask,
        method::TASKS => Notification::OtherTask,
        _ => Notification::Other,
    }
}

const fn phase(core: &Core) -> Phase {
    match core.stage() {
        Stage::Down | Stage::Handshake | Stage::Closing | Stage::Closed => Phase::Handshake,
        Stage::Discovery => Phase::Discovery,
        Stage::Ready => Phase::Ready,
    }
}

/// The families whose lists a notification says to have changed.
fn families(method: &str) -> &'static [Family] {
    match method {
        method::TOOLS_LIST_CHANGED => &[Family::Tools],
        method::PROMPTS_LIST_CHANGED => &[Family::Prompts],
        method::RESOURCES_LIST_CHANGED => &[Family::Resources, Family::ResourceTemplates],
        _ => &[],
    }
}
