use alloc::borrow::{Cow, ToOwned};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::classify::excerpt;
use super::{CommandError, Engine, Event, Outgoing, Output, RequestId, ServerRequestId};
use crate::Time;
use crate::jsonrpc::{self, ErrorObject, Json, Object, PeerId};
use crate::machine::{QuirkKind, handshake};
use crate::protocol::{ClientCapabilities, error_code, method};

/// A question of the server's that waits for the embedder.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    id: PeerId,
    method: Asked,
    deadline: Time,
    /// In whose HTTP exchange it came.
    of: Option<RequestId>,
    /// What the form's fields are where the user leaves them out.
    defaults: Defaults,
}

impl Ask {
    /// Bytes that are kept of what the server sent.
    fn bytes(&self) -> usize {
        // The id is there twice.
        self.id.get().len().saturating_mul(2).saturating_add(self.defaults.bytes())
    }
}

/// The questions of the server's that wait for the embedder.
#[derive(Clone, Debug, Default)]
pub(super) struct Asks {
    open: BTreeMap<u64, Ask>,
    deadlines: BTreeSet<(Time, u64)>,
    by_peer_id: BTreeSet<(Box<str>, u64)>,
    bytes: usize,
}

impl Asks {
    fn insert(&mut self, id: u64, ask: Ask) {
        self.deadlines.insert((ask.deadline, id));
        self.by_peer_id.insert((ask.id.get().into(), id));
        self.bytes = self.bytes.saturating_add(ask.bytes());
        self.open.insert(id, ask);
    }

    fn remove(&mut self, id: u64) -> Option<Ask> {
        let ask = self.open.remove(&id)?;
        self.deadlines.remove(&(ask.deadline, id));
        self.by_peer_id.remove(&(ask.id.get().into(), id));
        self.bytes = self.bytes.saturating_sub(ask.bytes());
        Some(ask)
    }

    /// The oldest that has this id of the server's.
    fn find(&self, peer_id: &str) -> Option<u64> {
        let (found, id) = self.by_peer_id.range((Box::from(peer_id), 0)..).next()?;
        (**found == *peer_id).then_some(*id)
    }

    fn due(&self, now: Time) -> Option<u64> {
        self.deadlines.first().filter(|(at, _)| *at <= now).map(|(_, id)| *id)
    }
}

/// The code by which a sample is refused, by the user or by the policy (specification 2025-11-25, "Sampling").
const REJECTED: i64 = -1;

/// What an embedder can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Elicitation,
    Sampling,
}

/// What the engine makes of a request of the server's.
pub(super) enum Consideration {
    Result(Vec<u8>),
    Refuse(ErrorObject),
    Ask(Asked),
}

impl Engine {
    /// Answers a question of the server's: with the result that its method has, or with an error. Fields that an
    /// accepted form leaves out get the defaults that the server proposed (SEP-1034).
    ///
    /// # Errors
    /// [`CommandError::UnknownServerRequest`] where the question ended, [`CommandError::ParamsNotObject`] where the result is no object.
    pub(crate) fn respond(
        &mut self,
        now: Time,
        ask: ServerRequestId,
        answer: Result<&RawValue, ErrorObject>,
    ) -> Result<(), CommandError> {
        if answer.as_ref().is_ok_and(|result| !result.get().starts_with('{')) {
            return Err(CommandError::ParamsNotObject);
        }
        let Some(ask) = self.asks.as_mut().and_then(|asks| asks.remove(ask.0)) else {
            return Err(CommandError::UnknownServerRequest);
        };
        self.advance(now);
        self.asks_ended();
        let message = self.encode_answer(|out| match answer {
            Ok(result) => jsonrpc::result(out, &ask.id, &ask.defaults.fill(result)),
            Err(error) => jsonrpc::error(out, &ask.id, &error),
        });
        self.push(Output::Send(Outgoing { of: ask.of, ..message }));
        Ok(())
    }

    /// Takes a request of the server's. In the legacy era each is answered, and at once where the embedder has
    /// nothing to say to it.
    pub(super) fn asked(&mut self, id: PeerId, method: Cow<'_, str>, params: Option<&RawValue>) {
        if self.handshake.state == handshake::State::Modern || self.options.eras.pinned().is_some() {
            let detail = format!("a request (id {}), of which revision 2026-07-28 has none", id.get());
            self.quirk(QuirkKind::ServerRequest, None, Some(&method), detail);
            return;
        }
        let of = self.exchange.and_then(|id| self.handle_of(id.get()));
        let message = match self.consider(&method, params) {
            Consideration::Ask(asked) => {
                let timeout = self.options.sampling.timeout.filter(|_| asked == Asked::Sampling);
                let deadline = self.now + timeout.unwrap_or(self.options.timeouts.server_request);
                let defaults = if asked == Asked::Elicitation { Defaults::read(params) } else { Defaults::default() };
                let ask = Ask { id, method: asked, deadline, of, defaults };
                if self.input_bytes().saturating_add(ask.bytes()) <= self.options.limits.input_bytes {
                    return self.pass_on(ask, method.into(), params);
                }
                self.encode_answer(|out| jsonrpc::error(out, &ask.id, &too_many()))
            }
            Consideration::Result(result) => self.encode_answer(|out| {
                jsonrpc::result(out, &id, core::str::from_utf8(&result).unwrap_or("{}"));
            }),
            Consideration::Refuse(error) => self.encode_answer(|out| jsonrpc::error(out, &id, &error)),
        };
        self.push(Output::Send(Outgoing { of, ..message }));
    }

    fn pass_on(&mut self, ask: Ask, method: Box<str>, params: Option<&RawValue>) {
        self.last_ask = self.last_ask.saturating_add(1);
        let id = self.last_ask;
        self.asks.get_or_insert_default().insert(id, ask);
        let most = self.options.timeouts.server_request.max(self.options.sampling.timeout.unwrap_or_default());
        self.requests.pause(most, self.now);
        self.event(Event::ServerRequest { id: ServerRequestId(id), method, params: params.map(ToOwned::to_owned) });
    }

    /// Bytes that are kept of what the server wants to know.
    pub(super) fn input_bytes(&self) -> usize {
        self.asks.as_ref().map_or(0, |asks| asks.bytes).saturating_add(self.requests.input_bytes())
    }

    /// When the next question is declined, since nobody answered it.
    pub(super) fn next_ask_deadline(&self) -> Option<Time> {
        self.asks.as_ref().and_then(|asks| asks.deadlines.first()).map(|(at, _)| *at)
    }

    pub(super) fn consider(&mut self, method: &str, params: Option<&RawValue>) -> Consideration {
        // Where the server refused the client's capabilities, it was told of none.
        let none = ClientCapabilities::default();
        let offers = if self.handshake.bare { &none } else { &self.options.capabilities };
        let asked = match method {
            method::PING => return Consideration::Result(b"{}".to_vec()),
            method::ROOTS_LIST if offers.roots.is_some() => {
                let mut result = Vec::new();
                offers.write_roots(&mut result);
                return Consideration::Result(result);
            }
            method::ELICITATION if offers.elicitation || offers.elicitation_url => {
                let mode = params.and_then(|params| Json::from(params).member("mode")).and_then(Json::as_string);
                let known = match mode.as_deref() {
                    None | Some("form") => offers.elicitation,
                    Some("url") => offers.elicitation_url,
                    Some(_) => false,
                };
                if !known {
                    let why = format!(
                        "the client does not offer elicitation in mode {}",
                        mode.as_deref().map_or("form".into(), excerpt)
                    );
                    return Consideration::Refuse(ErrorObject::new(error_code::INVALID_PARAMS, why));
                }
                Asked::Elicitation
            }
            method::SAMPLING if offers.sampling => Asked::Sampling,
            _ => {
                let why = format!("the client does not offer {}", excerpt(method));
                return Consideration::Refuse(ErrorObject::new(error_code::METHOD_NOT_FOUND, why));
            }
        };
        if asked == Asked::Sampling
            && let Some(over) = self.over_sampling_policy(params)
        {
            return Consideration::Refuse(ErrorObject::new(
                REJECTED,
                format!("refused by the client's policy: {over}"),
            ));
        }
        if self.asks.as_ref().map_or(0, |asks| asks.open.len()) >= self.options.limits.server_requests {
            return Consideration::Refuse(too_many());
        }
        Consideration::Ask(asked)
    }

    /// The server takes a request of its own back, and wants no answer then; or it ends a stream.
    pub(super) fn cancelled(&mut self, params: Option<&RawValue>) {
        let Some(cancelled) = params.and_then(|params| Json::from(params).member("requestId")) else { return };
        if self.stream_cancelled(cancelled.text()) {
            return;
        }
        let Some(asks) = &mut self.asks else { return };
        if let Some(ask) = asks.find(cancelled.text()) {
            asks.remove(ask);
            self.asks_ended();
            self.event(Event::ServerRequestEnded { id: ServerRequestId(ask) });
        }
    }

    pub(super) fn expire_asks(&mut self) {
        while let Some(asks) = &mut self.asks
            && let Some(due) = asks.due(self.now)
            && let Some(ask) = asks.remove(due)
        {
            self.refuse(&ask, r#"{"action":"decline"}"#);
            self.event(Event::ServerRequestEnded { id: ServerRequestId(due) });
        }
        self.asks_ended();
    }

    fn refuse(&mut self, ask: &Ask, elicited: &str) {
        let message = self.encode_answer(|out| match ask.method {
            Asked::Elicitation => jsonrpc::result(out, &ask.id, elicited),
            Asked::Sampling => {
                jsonrpc::error(out, &ask.id, &ErrorObject::new(REJECTED, "User rejected sampling request"))
            }
        });
        self.push(Output::Send(Outgoing { of: ask.of, ..message }));
    }

    /// The time that the user takes is no request's: it goes on once nobody is asked any more.
    fn asks_ended(&mut self) {
        if self.asks.as_ref().is_none_or(|asks| asks.open.is_empty()) {
            self.asks = None;
            self.requests.resume(self.now);
        }
    }

    /// The connection ends, and the embedder needs not answer any more; a server that is not gone is told so.
    pub(super) fn end_asks(&mut self, gone: bool) {
        for (id, ask) in self.asks.take().into_iter().flat_map(|asks| asks.open) {
            if !gone {
                self.refuse(&ask, r#"{"action":"cancel"}"#);
            }
            self.event(Event::ServerRequestEnded { id: ServerRequestId(id) });
        }
        self.asks_ended();
    }
}

fn too_many() -> ErrorObject {
    ErrorObject::new(error_code::INTERNAL_ERROR, "too many questions wait already")
}

/// The defaults of a form's fields (SEP-1034), where it has any: names and values, JSON both.
#[derive(Clone, Debug, Default)]
pub(super) struct Defaults(Vec<(Box<str>, Box<str>)>);

/// How many fields of a form are looked at.
const FIELDS: usize = 1024;

impl Defaults {
    /// The defaults in the parameters of `elicitation/create`.
    pub(super) fn read(params: Option<&RawValue>) -> Self {
        let schema = params.and_then(|params| Json::from(params).member("requestedSchema"));
        let mut defaults = Vec::new();
        let properties = schema.and_then(|schema| schema.member("properties")).unwrap_or(Json::EMPTY_ARRAY);
        properties.raw_members(|name, property| {
            if let Some(default) = property.member("default")
                && defaults.len() < FIELDS
            {
                defaults.push((name.text().into(), default.text().into()));
            }
        });
        Self(defaults)
    }

    fn bytes(&self) -> usize {
        self.0.iter().fold(0, |sum, (name, value)| sum.saturating_add(name.len()).saturating_add(value.len()))
    }

    /// The user's answer: where the form was accepted, the fields that it leaves out are as they were proposed.
    pub(super) fn fill<'a>(&self, answer: &'a RawValue) -> Cow<'a, str> {
        let json = Json::from(answer);
        let accepted = json.member("action").and_then(Json::as_string).as_deref() == Some("accept");
        let given = json.member("content").filter(|content| content.is_object());
        let mut names = BTreeSet::new();
        given.unwrap_or(Json::EMPTY_ARRAY).members(|name, _| {
            names.insert(String::from(name));
        });
        let is_left_out = |name: &str| Json::trusted(name).as_string().is_some_and(|name| !names.contains(&*name));
        let mut missing = self.0.iter().filter(|(name, _)| accepted && is_left_out(name)).peekable();
        if missing.peek().is_none() {
            return Cow::Borrowed(answer.get());
        }
        let mut out = Vec::new();
        let mut filled = Object::begin(&mut out);
        json.raw_members(|name, value| {
            if name.as_string().as_deref() != Some("content") {
                filled.member(name.text(), value.text());
            }
        });
        filled.object("content", |content| {
            given.unwrap_or(Json::EMPTY_ARRAY).raw_members(|name, value| content.member(name.text(), value.text()));
            for (name, value) in missing {
                content.member(name, value);
            }
        });
        filled.end();
        String::from_utf8(out).map_or(Cow::Borrowed(answer.get()), Cow::Owned)
    }
}
