//! Input that the server requires before it continues with a request (specification 2026-07-28, "Multi Round-Trip
//! Requests").

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::super::core::Core;
use super::super::reaction::Reaction;
use super::super::request_table::InputRounds;
use super::super::{InputRequest, Outcome, RequestError, ServerMethod};
use super::classified::Classified;
use super::urls;
use crate::jsonrpc::{Json, Object};
use crate::machine::required_input::{self, Inputs as Class, Meaning, RequestState};
use crate::text::excerpt;

/// Decides on an input that the server requires, by its method and parameters, and by how many sampling requests of the
/// same result were allowed before.
pub(in crate::client) type Judge<'a> = dyn Fn(&Core, &str, Option<&RawValue>, usize) -> Reaction + 'a;

/// The inputs of a result, by who provides them.
pub(super) struct Inputs {
    /// The responses of the engine: the server's keys, and JSON.
    known: Vec<(Box<str>, Box<str>)>,
    /// The inputs for the embedder.
    pub(super) wanted: Vec<InputRequest>,
    /// The client does not offer one of them.
    declined: bool,
    /// Why one of them is refused, if it is.
    refused: Option<Box<str>>,
}

/// Classifies a result that requires input.
pub(super) fn classify<'a>(core: &Core, id: u64, result: &RawValue, judge: &Judge<'_>) -> Classified<'a> {
    let json = Json::from(result);
    let state = json.member("requestState").filter(|state| !state.is_null());
    let inputs = read(core, result, &BTreeSet::new(), judge);
    let present = if state.is_some() { RequestState::Present } else { RequestState::Absent };
    let begin = |inputs: Inputs| {
        let rounds = rounds(core, id, result.to_owned(), state, &inputs, 0)?;
        Ok((Box::new(InputRounds { known: inputs.known, ..rounds }), inputs.wanted))
    };
    match required_input::take(inputs.class(), present) {
        Meaning::Ask => {
            begin(inputs).map_or_else(Classified::Invalid, |(rounds, wanted)| Classified::Input(rounds, wanted))
        }
        Meaning::Retry => begin(inputs).map_or_else(Classified::Invalid, |(rounds, _)| Classified::Retry(rounds)),
        Meaning::End => Classified::Complete(Outcome::InputRequired(result.to_owned())),
        Meaning::Invalid => Classified::Invalid(inputs.why_invalid()),
    }
}

impl Inputs {
    pub(super) fn class(&self) -> Class {
        match (&self.refused, self.declined, self.wanted.is_empty(), self.known.is_empty()) {
            (Some(_), ..) => Class::Refused,
            (None, true, ..) => Class::Declined,
            (None, false, false, _) => Class::Wanted,
            (None, false, true, false) => Class::Known,
            (None, false, true, true) => Class::None,
        }
    }

    fn why_invalid(&self) -> Box<str> {
        match &self.refused {
            Some(why) => format!("the server wants input that it cannot have: {why}").into(),
            None => "the server wants input, and does not say which".into(),
        }
    }

    /// How a call ends whose task requires inputs of which one is refused or not offered.
    pub(super) fn outcome(&self, result: &RawValue) -> Outcome {
        match self.class() {
            Class::Declined => Outcome::InputRequired(result.to_owned()),
            Class::None | Class::Known | Class::Wanted | Class::Refused => {
                Outcome::Error(RequestError::Invalid(self.why_invalid()))
            }
        }
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.known.iter().map(|(key, _)| &**key).chain(self.wanted.iter().map(|input| &*input.key))
    }
}

/// A round of input of a task, and the inputs for the embedder. `more` bytes are stored beside it.
pub(super) fn of_task(
    core: &Core,
    id: u64,
    result: Box<RawValue>,
    inputs: Inputs,
    more: usize,
) -> Result<(Box<InputRounds>, Vec<InputRequest>), Box<str>> {
    let rounds = rounds(core, id, result, None, &inputs, more)?;
    Ok((Box::new(InputRounds { known: inputs.known, ..rounds }), inputs.wanted))
}

/// The sampling requests among the inputs for the embedder.
pub(super) fn sampling_of(inputs: &[InputRequest]) -> usize {
    inputs.iter().filter(|input| input.method == ServerMethod::Sampling).count()
}

/// Stores a round of input. If the embedder has none to give, the responses are complete.
pub(super) fn set(core: &mut Core, id: u64, mut rounds: Box<InputRounds>, wanted: &[InputRequest]) {
    if wanted.is_empty() {
        let known = rounds.known.iter().map(|(key, response)| (&**key, &**response));
        rounds.responses = (!rounds.known.is_empty()).then(|| responses_of(known));
    }
    core.requests.set_input(id, Some(rounds));
}

/// Classifies an error that requires the user to visit URLs before the call is made again, which is offered once
/// (specification 2025-11-25, "Elicitation", URL Elicitation Required Error).
pub(super) fn classify_error<'a>(core: &Core, id: u64, error: RequestError, judge: &Judge<'_>) -> Classified<'a> {
    let RequestError::Server(object) = &error else { return Classified::Complete(Outcome::Error(error)) };
    let Some(required) = urls::required(core, id, object) else { return Classified::Complete(Outcome::Error(error)) };
    let inputs = read(core, &required, &BTreeSet::new(), judge);
    match required_input::take(inputs.class(), RequestState::Absent) {
        Meaning::Ask => match rounds(core, id, required, None, &inputs, object.message.len()) {
            Ok(rounds) => {
                Classified::Input(Box::new(InputRounds { error: Some(object.clone()), ..rounds }), inputs.wanted)
            }
            Err(_) => Classified::Complete(Outcome::Error(error)),
        },
        Meaning::Retry | Meaning::End | Meaning::Invalid => Classified::Complete(Outcome::Error(error)),
    }
}

/// Reads the inputs that a result requires, except those with these keys.
pub(super) fn read(core: &Core, result: &RawValue, except: &BTreeSet<Box<str>>, judge: &Judge<'_>) -> Inputs {
    let required = Json::from(result).member("inputRequests").filter(|required| required.is_object());
    let mut inputs = Inputs { known: Vec::new(), wanted: Vec::new(), declined: false, refused: None };
    let mut sampling: usize = 0;
    let mut keys = BTreeSet::new();
    let limit = core.options.limits.server_requests;
    required.unwrap_or(Json::EMPTY_ARRAY).members(|key, required| {
        if inputs.refused.is_some() || except.contains(key) {
            return;
        }
        if !keys.insert(Box::<str>::from(key)) {
            inputs.refused = Some(format!("two inputs with the key {}", excerpt(key)).into());
            return;
        }
        if inputs.known.len().saturating_add(inputs.wanted.len()) >= limit {
            inputs.refused = Some(format!("more than {limit} inputs at once").into());
            return;
        }
        let method = required.member("method").and_then(Json::as_string).unwrap_or_default();
        let params = required.member("params").map(Json::raw);
        match judge(core, &method, params, sampling) {
            Reaction::Result(result) => {
                inputs.known.push((key.into(), String::from_utf8(result).unwrap_or_default().into()));
            }
            Reaction::Embedder(method, params) => {
                sampling = sampling.saturating_add(usize::from(method == ServerMethod::Sampling));
                inputs.wanted.push(InputRequest { key: key.into(), method, params });
            }
            Reaction::Decline | Reaction::Ignore(_) => inputs.declined = true,
            Reaction::Refuse(error) => inputs.refused = Some(error.message),
        }
    });
    inputs
}

/// The next round of input of a request, within the limits. `more` bytes are stored beside it.
fn rounds(
    core: &Core,
    id: u64,
    result: Box<RawValue>,
    state: Option<Json<'_>>,
    inputs: &Inputs,
    more: usize,
) -> Result<InputRounds, Box<str>> {
    let before = core.requests.call(id).and_then(|call| call.input.as_ref());
    let (before, freed) = before.map_or((0, 0), |input| (input.rounds, input.bytes));
    let rounds = before.saturating_add(1);
    if rounds > core.options.limits.input_rounds {
        return Err(format!("the server asked for input more than {before} times").into());
    }
    let answers = inputs.known.iter().fold(0, |sum: usize, (key, json): &(Box<str>, Box<str>)| {
        sum.saturating_add(key.len()).saturating_add(json.len())
    });
    let given = state.map_or(0, |state| state.text().len());
    // The responses are stored twice: each one, and as they are sent.
    let bytes = result.get().len().saturating_add(given).saturating_add(answers.saturating_mul(2)).saturating_add(more);
    if core.requests.input_bytes().saturating_sub(freed).saturating_add(bytes) > core.input_room {
        let limit = core.options.limits.input_bytes;
        return Err(format!("the server wants input, and over {limit} bytes of such are kept").into());
    }
    let left = core.requests.time_left(id, core.now);
    let since = core.requests.call_time(core.now);
    let state = state.map(|state| state.text().into());
    Ok(InputRounds { rounds, result, state, known: Vec::new(), responses: None, bytes, error: None, left, since })
}

/// The value of `inputResponses`.
pub(super) fn responses_of<'a>(responses: impl Iterator<Item = (&'a str, &'a str)>) -> Box<str> {
    let mut json = Vec::new();
    let mut object = Object::begin(&mut json);
    for (key, response) in responses {
        object.raw(key, response);
    }
    object.end();
    String::from_utf8(json).unwrap_or_default().into()
}
