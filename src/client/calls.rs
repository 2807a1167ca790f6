use alloc::borrow::{Cow, ToOwned};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::ask::{Consideration, Defaults};
use super::ledger::{Bar, Blocked, Call, Input as Rounds, Purpose};
use super::{CommandError, Engine, Event, InputRequest, Outcome, RequestId, Wire};
use crate::Time;
use crate::jsonrpc::{ErrorObject, Json, Object};
use crate::machine::request::{Effect, Input, State, take};
use crate::protocol::error_code::METHOD_NOT_FOUND;
use crate::protocol::method;

/// How often a request that may have run is sent again.
pub(super) const REPLAYS: u32 = 2;

/// The server's answer to a request, as it is judged.
enum Answer {
    Complete(Outcome),
    Invalid(Box<str>),
    /// It wants input: the rounds so far, and what the embedder is to be asked.
    Input(Box<Rounds>, Vec<InputRequest>),
}

impl Engine {
    /// Gives a request the input that the server wants before it goes on: for each of its keys the result that the
    /// key's method has. What is left out, the server may ask for again. Fields that an accepted form leaves out get
    /// the defaults that the server proposed (SEP-1034).
    ///
    /// # Errors
    /// [`CommandError::UnknownRequest`] where the request waits for no input, [`CommandError::ParamsNotObject`] where a result is
    /// no object.
    pub(crate) fn provide<'a>(
        &mut self,
        now: Time,
        request: RequestId,
        responses: impl IntoIterator<Item = (&'a str, &'a RawValue)>,
    ) -> Result<(), CommandError> {
        let id = self.waiting(request)?;
        let given: Vec<_> = responses.into_iter().collect();
        if given.iter().any(|(_, response)| !response.get().starts_with('{')) {
            return Err(CommandError::ParamsNotObject);
        }
        self.advance(now);
        let call_time = self.requests.call_time(self.now);
        if let Some(Call { input: Some(rounds), latest, .. }) = self.requests.call_mut(id) {
            // The user's time is not the request's.
            *latest = *latest + call_time.since(rounds.since);
            // One pass over what the server wants, however many answers there are.
            let mut defaults: BTreeMap<&str, Defaults> =
                given.iter().map(|(key, _)| (*key, Defaults::default())).collect();
            let asked = Json::from(&*rounds.result).member("inputRequests");
            asked.unwrap_or(Json::EMPTY_ARRAY).members(|key, wanted| {
                if let Some(defaults) = defaults.get_mut(key) {
                    *defaults = Defaults::read(wanted.member("params").map(Json::raw));
                }
            });
            let filled = given.iter().map(|(key, response)| {
                (*key, defaults.get(key).map_or(Cow::Borrowed(response.get()), |defaults| defaults.fill(response)))
            });
            let filled: Vec<_> = filled.collect();
            let known = core::mem::take(&mut rounds.known);
            let known = known.iter().map(|(key, response)| (&**key, &**response));
            rounds.responses = Some(responses_of(known.chain(filled.iter().map(|(key, json)| (*key, &**json)))));
            let left = rounds.left;
            self.requests.set_time_left(id, left, self.now);
        }
        self.call_step(id, Input::InputGiven);
        self.pump();
        Ok(())
    }

    /// Gives no input; the request ends [`Outcome::InputRequired`]. Or gives no token, and it ends with the server's
    /// refusal.
    ///
    /// # Errors
    /// [`CommandError::UnknownRequest`] where the request waits for neither.
    pub(crate) fn decline(&mut self, now: Time, request: RequestId) -> Result<(), CommandError> {
        let id = self.requests.wire_id(request).ok_or(CommandError::UnknownRequest)?;
        let input = match self.requests.get(id).map(|open| open.phase) {
            Some(State::Waiting) => Input::InputDeclined,
            Some(State::Blocked) => Input::Denied,
            Some(State::Queued | State::Written | State::Sent | State::Ended) | None => {
                return Err(CommandError::UnknownRequest);
            }
        };
        self.advance(now);
        self.call_step(id, input);
        self.pump();
        Ok(())
    }

    fn waiting(&self, request: RequestId) -> Result<u64, CommandError> {
        let id = self.requests.wire_id(request).ok_or(CommandError::UnknownRequest)?;
        let waits = self.requests.get(id).is_some_and(|open| open.phase == State::Waiting);
        if waits { Ok(id) } else { Err(CommandError::UnknownRequest) }
    }

    /// A request of the embedder's was answered.
    pub(super) fn call_answered(&mut self, id: u64, answer: Result<&RawValue, ErrorObject>) {
        let answer = match answer {
            Ok(result) => self.judge(id, result),
            Err(error) => Answer::Complete(Outcome::Error(error)),
        };
        match answer {
            Answer::Complete(outcome) => self.call_step_to(id, Input::Answered, Some(outcome)),
            Answer::Invalid(why) => self.call_step_to(id, Input::Invalid, Some(Outcome::Invalid(why))),
            Answer::Input(mut rounds, inputs) => {
                let Some(handle) = self.handle_of(id) else { return };
                if inputs.is_empty() {
                    let known = rounds.known.iter().map(|(key, response)| (&**key, &**response));
                    rounds.responses = (!rounds.known.is_empty()).then(|| responses_of(known));
                    self.requests.set_input(id, Some(rounds));
                    return self.call_step(id, Input::RetryRequired);
                }
                self.requests.set_input(id, Some(rounds));
                self.call_step(id, Input::InputRequired);
                self.event(Event::InputRequired { request: handle, inputs });
            }
        }
    }

    /// What came in an answer's place makes no sense.
    pub(super) fn call_senseless(&mut self, id: u64, why: String) {
        self.call_step_to(id, Input::Invalid, Some(Outcome::Invalid(why.into())));
    }

    fn judge(&mut self, id: u64, result: &RawValue) -> Answer {
        if self.server.as_ref().is_none_or(|server| server.era() == crate::protocol::Era::Legacy) {
            return Answer::Complete(Outcome::Result(result.to_owned()));
        }
        let Some(kind) = Json::from(result).member("resultType") else {
            return Answer::Complete(Outcome::Result(result.to_owned()));
        };
        match kind.as_string().as_deref() {
            Some("complete") => Answer::Complete(Outcome::Result(result.to_owned())),
            Some("input_required") => self.judge_input(id, result),
            _ => Answer::Invalid(
                format!("a result of the unknown type {}", super::classify::excerpt(kind.text())).into(),
            ),
        }
    }

    fn judge_input(&mut self, id: u64, result: &RawValue) -> Answer {
        let before = self.requests.call_mut(id).and_then(|call| call.input.as_ref());
        let (before, freed) = before.map_or((0, 0), |input| (input.rounds, input.bytes));
        let rounds = before.saturating_add(1);
        if rounds > self.options.limits.input_rounds {
            return Answer::Invalid(
                format!("the server asked for input more than {} times", rounds.saturating_sub(1)).into(),
            );
        }
        let json = Json::from(result);
        let wanted = json.member("inputRequests").filter(|wanted| wanted.is_object());
        let state = json.member("requestState").filter(|state| !state.is_null());
        let (mut known, mut inputs, mut refused, mut declined) = (Vec::new(), Vec::new(), None, false);
        let limit = self.options.limits.server_requests;
        wanted.unwrap_or(Json::EMPTY_ARRAY).members(|key, wanted| {
            if known.len().saturating_add(inputs.len()) >= limit || refused.is_some() {
                let too_many = || ErrorObject::new(0, format!("more than {limit} inputs at once"));
                refused.get_or_insert_with(too_many);
                return;
            }
            let method = wanted.member("method").and_then(Json::as_string).unwrap_or_default();
            let params = wanted.member("params").map(Json::raw);
            match self.consider(&method, params) {
                Consideration::Result(result) => {
                    known.push((key.into(), String::from_utf8(result).unwrap_or_default().into()));
                }
                Consideration::Ask(_) => {
                    inputs.push(InputRequest {
                        key: key.into(),
                        method: (&*method).into(),
                        params: params.map(ToOwned::to_owned),
                    });
                }
                // What a client may have and this one has not is declined by itself.
                Consideration::Refuse(error) if error.code == METHOD_NOT_FOUND && method::is_input(&method) => {
                    declined = true;
                }
                Consideration::Refuse(error) => refused = Some(error),
            }
        });
        if let Some(error) = refused {
            return Answer::Invalid(format!("the server wants input that it cannot have: {}", error.message).into());
        }
        if declined {
            return Answer::Complete(Outcome::InputRequired(result.to_owned()));
        }
        if known.is_empty() && inputs.is_empty() && state.is_none() {
            return Answer::Invalid("the server wants input, and does not say which".into());
        }
        let answers = known.iter().fold(0, |sum: usize, (key, json): &(Box<str>, Box<str>)| {
            sum.saturating_add(key.len()).saturating_add(json.len())
        });
        let given = state.map_or(0, |state| state.text().len());
        // The answers are there twice: one by one, and as they are sent.
        let bytes = result.get().len().saturating_add(given).saturating_add(answers.saturating_mul(2));
        let limit = self.options.limits.input_bytes;
        if self.input_bytes().saturating_sub(freed).saturating_add(bytes) > limit {
            return Answer::Invalid(format!("the server wants input, and over {limit} bytes of such are kept").into());
        }
        let left = self.requests.time_left(id, self.now);
        let state = state.map(|state| state.text().into());
        Answer::Input(
            Box::new(Rounds {
                rounds,
                result: result.to_owned(),
                state,
                known,
                responses: None,
                bytes,
                left,
                since: self.requests.call_time(self.now),
            }),
            inputs,
        )
    }

    pub(super) fn call_step(&mut self, id: u64, input: Input) {
        self.call_step_to(id, input, None);
    }

    pub(super) fn call_step_to(&mut self, mut id: u64, input: Input, mut outcome: Option<Outcome>) {
        let Some(open) = self.requests.get(id) else { return };
        let row = take(open.phase, input);
        if row.next != State::Ended {
            self.requests.set_phase(id, row.next);
        }
        for effect in row.effects {
            let outcome = match effect {
                Effect::Requeue => {
                    self.requests.requeue(id);
                    continue;
                }
                Effect::RequeueAnew => {
                    id = self.requests.rename(id);
                    self.requests.requeue(id);
                    continue;
                }
                Effect::AskInput | Effect::Bar => {
                    self.requests.set_time_left(id, self.options.timeouts.server_request, self.now);
                    continue;
                }
                Effect::Retract => {
                    self.retract(id);
                    continue;
                }
                Effect::Cancel => {
                    let why =
                        if input == Input::TimedOut { "no answer in time" } else { "the client cancelled the request" };
                    self.send_cancelled(id, why);
                    self.requests.expect_late(id);
                    continue;
                }
                Effect::EndAnswered | Effect::EndInvalid => outcome.take().unwrap_or(Outcome::Unknown),
                Effect::EndInputRequired => match self.requests.set_input(id, None) {
                    Some(rounds) => Outcome::InputRequired(rounds.result),
                    None => Outcome::Unknown,
                },
                Effect::EndRefused => match self.requests.call_mut(id).and_then(|call| call.barred.take()) {
                    Some(barred) => barred.outcome,
                    None => Outcome::Unknown,
                },
                Effect::EndCancelled => Outcome::Cancelled,
                Effect::EndTimedOut => Outcome::TimedOut,
                Effect::EndNotAdvertised => Outcome::NotAdvertised,
                // What waits to run a second time may have run a first time.
                Effect::EndNotSent if self.requests.call_mut(id).is_some_and(|call| call.replays > 0) => {
                    Outcome::Unknown
                }
                Effect::EndNotSent => Outcome::NotSent,
                Effect::EndUnknown => Outcome::Unknown,
            };
            let ended = self.requests.remove(id);
            if let Some(Purpose::Call(call)) = ended.map(|open| open.purpose) {
                self.event(Event::Finished { request: call.handle, outcome });
            }
        }
    }

    /// The server refused a request unread: it waits for what it lacks.
    pub(super) fn bar(&mut self, id: u64, by: Bar, outcome: Outcome) {
        let left = self.requests.time_left(id, self.now);
        let since = self.requests.call_time(self.now);
        let Some(call) = self.requests.call_mut(id) else { return };
        call.barred = Some(Box::new(Blocked { by, outcome, left, since }));
        self.call_step(id, Input::Refused);
        if by == Bar::Headers {
            self.want_schemas();
        }
    }

    /// What barred requests lacked is there, or is not to be had.
    pub(super) fn unbar(&mut self, by: Bar, input: Input) {
        let call_time = self.requests.call_time(self.now);
        for id in self.requests.calls() {
            let Some(barred) = self.requests.call_mut(id).and_then(|call| call.barred.as_ref()) else { continue };
            if barred.by != by {
                continue;
            }
            let (left, waited) = (barred.left, call_time.since(barred.since));
            if input == Input::Admitted {
                self.requests.set_time_left(id, left, self.now);
                if let Some(call) = self.requests.call_mut(id) {
                    call.barred = None;
                    call.latest = call.latest + waited;
                }
            }
            self.call_step(id, input);
        }
    }

    /// The connection is lost: what may run twice waits again, what was not sent waits still, the rest ends.
    pub(super) fn lose_calls(&mut self) {
        for id in self.requests.calls() {
            let replayable = self.is_replayable(id);
            if replayable && let Some(call) = self.requests.call_mut(id) {
                call.replays = call.replays.saturating_add(1);
            }
            self.call_step(id, if replayable { Input::LostReplayable } else { Input::Lost });
        }
    }

    /// The session ends, and every request with it.
    pub(super) fn end_calls(&mut self) {
        for id in self.requests.calls() {
            self.call_step(id, Input::Closed);
        }
    }

    pub(super) fn is_replayable(&self, id: u64) -> bool {
        let Some(open) = self.requests.get(id).filter(|open| open.phase == State::Sent) else { return false };
        let Purpose::Call(call) = &open.purpose else { return false };
        let http = self.wire == Wire::Http;
        if (self.options.reconnect.is_none() && !http) || call.replays >= REPLAYS {
            return false;
        }
        call.request.replay.unwrap_or_else(|| {
            if http && method::only_reads(&call.request.method) {
                return true;
            }
            let params = call.request.params.as_deref().filter(|_| call.request.method == method::TOOLS_CALL);
            let name = params.and_then(|params| Json::from(params).member("name")).and_then(Json::as_string);
            let hints = name.and_then(|name| self.catalog.tool(&name)).map(|tool| tool.hints).unwrap_or_default();
            hints.read_only == Some(true) || hints.idempotent == Some(true)
        })
    }
}

/// The value of `inputResponses`.
fn responses_of<'a>(responses: impl Iterator<Item = (&'a str, &'a str)>) -> Box<str> {
    let mut json = Vec::new();
    let mut object = Object::begin(&mut json);
    for (key, response) in responses {
        object.raw(key, response);
    }
    object.end();
    String::from_utf8(json).unwrap_or_default().into()
}
