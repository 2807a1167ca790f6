//! Requests without a response until their deadline.

use alloc::format;
use alloc::string::String;

use super::super::lists::ListFailure;
use super::super::notifications::on_level_failed;
use super::super::request_table::Purpose;
use super::super::signal::Signals;
use super::super::{Engine, RequestError, calls};
use crate::machine::request;
use crate::machine::request_timeout::{Decision, Overdue, take};

impl Engine {
    /// The deadline of a request passed.
    pub(super) fn on_request_timeout(&mut self, id: u64) -> Signals {
        let core = &mut self.core;
        let Some(open) = core.requests.get(id) else { return Signals::NONE };
        match take(classify_overdue(&open.purpose)) {
            Decision::TimeOut => calls::step(core, id, request::Input::TimedOut),
            Decision::Silence => return self.subscriptions.on_silent(core),
            Decision::GiveUp => core.give_up(id),
            Decision::Fail => {
                let ended = core.end_request(id, request::Input::TimedOut, "no response in time");
                let Some(open) = ended else { return Signals::NONE };
                let words = format!("no response within {:?}", core.options.timeouts.request);
                return self.fail(open.purpose, words);
            }
        }
        Signals::NONE
    }

    /// A request of the engine that is over has no response, for this reason.
    pub(super) fn fail(&mut self, purpose: Purpose, words: String) -> Signals {
        let core = &mut self.core;
        match purpose {
            Purpose::List { family, .. } => self.lists.on_failure(core, family, ListFailure::Engine(words.into())),
            Purpose::Subscribe(uri) | Purpose::Unsubscribe(uri) => {
                self.subscriptions.on_response(core, &uri, Some(&words));
                Signals::NONE
            }
            Purpose::SetLevel => {
                on_level_failed(core, RequestError::Invalid(words.into()));
                Signals::NONE
            }
            Purpose::Rediscover => {
                self.freshness.on_response(core, None);
                Signals::NONE
            }
            Purpose::Discover(_)
            | Purpose::Initialize(_)
            | Purpose::Keepalive(_)
            | Purpose::Listen { .. }
            | Purpose::CancelTask(_)
            | Purpose::Call(_) => Signals::NONE,
        }
    }
}

const fn classify_overdue(purpose: &Purpose) -> Overdue {
    match purpose {
        Purpose::Call(_) => Overdue::Call,
        Purpose::Listen { .. } => Overdue::Stream,
        Purpose::CancelTask(_) => Overdue::TaskCancellation,
        Purpose::Discover(_)
        | Purpose::Initialize(_)
        | Purpose::List { .. }
        | Purpose::SetLevel
        | Purpose::Keepalive(_)
        | Purpose::Rediscover
        | Purpose::Subscribe(_)
        | Purpose::Unsubscribe(_) => Overdue::Engine,
    }
}
