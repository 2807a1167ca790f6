//! Input that the embedder provides.

use alloc::collections::BTreeMap;
use serde_json::value::RawValue;

use super::super::core::Core;
use super::super::forms::{accepts, fill_required};
use super::super::request_table::Call;
use super::super::{CommandError, RequestId};
use super::input::responses_of;
use super::step::step;
use super::task_state;
use crate::Time;
use crate::jsonrpc::Json;
use crate::machine::request::Input;
use crate::machine::task;

/// Takes the input that the server requires from the embedder.
pub(in crate::client) fn provide<'a>(
    core: &mut Core,
    now: Time,
    request: RequestId,
    responses: impl IntoIterator<Item = (&'a str, &'a RawValue)>,
) -> Result<(), CommandError> {
    let id = core.requests.wire_id(request).ok_or(CommandError::UnknownRequest)?;
    if core.requests.refuses(id, Input::InputGiven) {
        return Err(CommandError::UnknownRequest);
    }
    let mut given: BTreeMap<&str, &RawValue> = BTreeMap::new();
    for (key, response) in responses {
        if !response.get().starts_with('{') {
            return Err(CommandError::ResultNotObject);
        }
        if given.insert(key, response).is_some() {
            return Err(CommandError::DuplicateInput { key: key.into() });
        }
    }
    let fill = core.options.form_defaults;
    let Some(Call { input: Some(rounds), .. }) = core.requests.call_mut(id) else {
        return Err(CommandError::UnknownRequest);
    };
    let filled = fill_required(&rounds.result, &rounds.known, &given, fill)?;
    let declined = rounds.error.is_some() && !filled.iter().all(|(_, response)| accepts(Json::trusted(response)));
    core.advance(now);
    let call_time = core.requests.call_time(core.now);
    if let Some(Call { input: Some(rounds), latest, .. }) = core.requests.call_mut(id) {
        // The time that the user takes does not count towards the request's deadline.
        *latest = *latest + call_time.since(rounds.since);
        let known = core::mem::take(&mut rounds.known);
        let sends = rounds.error.is_none();
        let known = known.iter().map(|(key, response)| (&**key, &**response));
        rounds.responses = sends.then(|| responses_of(known.chain(filled.iter().map(|(key, json)| (*key, &**json)))));
        let left = rounds.left;
        core.requests.set_time_left(id, left, core.now);
    }
    task_state::move_on(core, id, task::Input::InputGiven);
    step(core, id, if declined { Input::InputDeclined } else { Input::InputGiven });
    Ok(())
}
