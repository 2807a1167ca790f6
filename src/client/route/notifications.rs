//! The router of notifications.

use serde_json::value::RawValue;

use super::super::core::{Core, Stage};
use super::super::notifications::{id_of_progress, on_progress, report};
use super::super::signal::Signals;
use super::super::subscriptions::Subscriptions;
use super::super::{Engine, calls};
use crate::jsonrpc::Json;
use crate::machine::listen_stream::Admission;
use crate::machine::notification::{Notification, Phase, Route, take};
use crate::machine::request;
use crate::protocol::{Family, method};

impl Engine {
    pub(super) fn on_notification(&mut self, method: &str, params: Option<&RawValue>) -> Signals {
        let core = &mut self.core;
        let request = request_of(core, &self.subscriptions, method, params);
        let notification = classify(core, method, request);
        let admission = match notification {
            Notification::ListChanged
            | Notification::ResourceUpdated
            | Notification::CallTask
            | Notification::BusyTask
            | Notification::OtherTask => self.subscriptions.admission(core, params),
            Notification::Cancelled
            | Notification::StreamCancelled
            | Notification::Progress
            | Notification::ElicitationComplete
            | Notification::Acknowledged
            | Notification::Other => Admission::Admit,
        };
        match take(notification, admission, phase(core)) {
            Route::Cancel => self.on_cancelled(params),
            Route::EndStream => {
                if let Some(id) = request {
                    return self.subscriptions.on_cancelled(core, id);
                }
            }
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
                let server_requests = &self.server_requests;
                if let Some((id, params)) = request.zip(params) {
                    return calls::on_notification(core, id, params, &|core, method, params, uncounted| {
                        server_requests.judge_input(core, method, params, uncounted)
                    });
                }
            }
            Route::Report => report(core, method, params),
            Route::Hold => self.notifications.hold(core, method, params),
            Route::LeaveOut => core.leave_out(),
            Route::Nothing => {}
        }
        Signals::NONE
    }

    /// The server cancels one of its requests.
    fn on_cancelled(&mut self, params: Option<&RawValue>) {
        let member = |name| params.and_then(|params| Json::from(params).member(name));
        if let Some(id) = member("requestId") {
            let reason = member("reason").and_then(Json::as_string);
            self.server_requests.on_cancelled(&mut self.core, id.text(), reason.as_deref());
        }
    }
}

/// The open request that a notification is about.
#[inline]
fn request_of(core: &Core, streams: &Subscriptions, method: &str, params: Option<&RawValue>) -> Option<u64> {
    match method {
        method::PROGRESS => id_of_progress(core, params?),
        method::TASKS => calls::id_of_call(core, params?),
        method::CANCELLED => streams.stream_of_wire_id(core, Json::from(params?).member("requestId")?.text()),
        _ => None,
    }
}

fn classify(core: &Core, method: &str, request: Option<u64>) -> Notification {
    match method {
        method::CANCELLED if request.is_some() => Notification::StreamCancelled,
        method::CANCELLED => Notification::Cancelled,
        method::PROGRESS if request.is_some() => Notification::Progress,
        method::ELICITATION_COMPLETE if core.options.capabilities.elicitation_url => Notification::ElicitationComplete,
        method::ACKNOWLEDGED => Notification::Acknowledged,
        method::TOOLS_LIST_CHANGED | method::PROMPTS_LIST_CHANGED | method::RESOURCES_LIST_CHANGED => {
            Notification::ListChanged
        }
        method::RESOURCE_UPDATED => Notification::ResourceUpdated,
        method::TASKS => match request.and_then(|id| core.requests.get(id)) {
            Some(open) if open.phase == request::State::Running => Notification::CallTask,
            Some(_) => Notification::BusyTask,
            None => Notification::OtherTask,
        },
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
