//! Component: whether a server is called. It has the state of [`machine::breaker`](crate::machine::breaker), the count
//! and the cooldown.

use super::event::Breaker;
use crate::Time;
use crate::client::{Outcome, RequestError};
use crate::machine::breaker::{Effect, End, Failures, Input, Server, State, refuses, step, take, take_end};

/// The breaker of one server.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct CallBreaker {
    state: State,
    /// How many calls in a row failed.
    failures: u32,
    /// The end of the cooldown.
    refused_until: Time,
}

impl Default for CallBreaker {
    fn default() -> Self {
        Self { state: State::Closed, failures: 0, refused_until: Time::ZERO }
    }
}

impl CallBreaker {
    pub(super) const fn failures(&self) -> u32 {
        self.failures
    }

    /// The end of the cooldown, while there is one.
    pub(super) fn refused_until(&self) -> Option<Time> {
        (self.state == State::Open).then_some(self.refused_until)
    }

    /// Whether a call may be made at this time; otherwise, until when not.
    pub(super) fn admits(self, now: Time) -> Result<(), Option<Time>> {
        let is_over = now >= self.refused_until;
        let state = if is_over { step(self.state, Input::Cooled).next } else { self.state };
        match refuses(state, Input::Call) {
            false => Ok(()),
            // Without a time, a trial call is in flight, and its end decides.
            true => Err((state == State::Open).then_some(self.refused_until)),
        }
    }

    pub(super) fn step(&mut self, options: Breaker, now: Time, input: Input) {
        self.cool(now);
        let row = take(self.state, input);
        self.state = row.next;
        for effect in row.effects {
            match effect {
                Effect::Count => self.failures = self.failures.saturating_add(1),
                Effect::Clear => self.failures = 0,
                Effect::StartCooldown => {
                    self.failures = self.failures.saturating_add(1);
                    self.refused_until = now + options.cooldown;
                }
            }
        }
    }

    /// Takes the end of a call.
    pub(super) fn call_ended(&mut self, options: Breaker, now: Time, end: End, is_up: bool) {
        let server = if is_up { Server::Up } else { Server::NotUp };
        let many = self.failures.saturating_add(1) >= options.failures;
        let input = take_end(end, server, if many { Failures::Many } else { Failures::Few });
        self.step(options, now, input);
    }

    fn cool(&mut self, now: Time) {
        if now >= self.refused_until {
            self.state = take(self.state, Input::Cooled).next;
        }
    }
}

/// Classifies the end of a call.
pub(super) fn end_of(outcome: &Outcome) -> End {
    match outcome {
        Outcome::Error(RequestError::Invalid(_)) => End::Failed,
        Outcome::Result(_) | Outcome::InputRequired(_) | Outcome::Error(_) => End::Answered,
        Outcome::TimedOut(_) => End::TimedOut,
        Outcome::Unknown => End::Failed,
        Outcome::NotAdvertised | Outcome::Cancelled | Outcome::NotSent => End::NotSent,
    }
}
