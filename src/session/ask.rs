use alloc::borrow::{Cow, ToOwned};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::classify::excerpt;
use super::{Action, AskId, Event, Misuse, Outgoing, RequestId, Session};
use crate::Time;
use crate::jsonrpc::{self, ErrorObject, Json, Object, PeerId};
use crate::machine::{QuirkKind, handshake};
use crate::protocol::{ClientCapabilities, error_code, method};

/// A question of the server's that waits for the embedder.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    id: PeerId,
    method: Asked,
    pub(super) deadline: Time,
    /// In whose HTTP exchange it came.
    of: Option<RequestId>,
    /// What the form's fields are where the user leaves them out.
    defaults: Defaults,
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

impl Session {
    /// Answers a question of the server's: with the result that its method has, or with an error. Fields that an
    /// accepted form leaves out get the defaults that the server proposed (SEP-1034).
    ///
    /// # Errors
    /// [`Misuse::UnknownAsk`] where the question ended, [`Misuse::ParamsNotObject`] where the result is no object.
    pub fn answer(&mut self, now: Time, ask: AskId, answer: Result<&RawValue, ErrorObject>) -> Result<(), Misuse> {
        if answer.as_ref().is_ok_and(|result| !result.get().starts_with('{')) {
            return Err(Misuse::ParamsNotObject);
        }
        let Some(ask) = self.asks.remove(&ask.0) else {
            return Err(Misuse::UnknownAsk);
        };
        self.advance(now);
        self.asks_ended();
        let message = self.encode_answer(|out| match answer {
            Ok(result) => jsonrpc::result(out, &ask.id, &ask.defaults.fill(result)),
            Err(error) => jsonrpc::error(out, &ask.id, &error),
        });
        self.push(Action::Send(Outgoing { of: ask.of, ..message }));
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
                self.last_ask = self.last_ask.saturating_add(1);
                let timeout = self.options.sampling.timeout.filter(|_| asked == Asked::Sampling);
                let deadline = self.now + timeout.unwrap_or(self.options.timeouts.ask);
                let defaults = if asked == Asked::Elicitation { Defaults::read(params) } else { Defaults::default() };
                self.asks.insert(self.last_ask, Ask { id, method: asked, deadline, of, defaults });
                self.requests.pause(true, self.now);
                let ask = AskId(self.last_ask);
                let (method, params) = (method.into(), params.map(ToOwned::to_owned));
                return self.event(Event::Asked { ask, method, params });
            }
            Consideration::Result(result) => self.encode_answer(|out| {
                jsonrpc::result(out, &id, core::str::from_utf8(&result).unwrap_or("{}"));
            }),
            Consideration::Refuse(error) => self.encode_answer(|out| jsonrpc::error(out, &id, &error)),
        };
        self.push(Action::Send(Outgoing { of, ..message }));
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
        if self.asks.len() >= self.options.limits.asks {
            return Consideration::Refuse(ErrorObject::new(
                error_code::INTERNAL_ERROR,
                "too many questions wait already",
            ));
        }
        Consideration::Ask(asked)
    }

    /// The server takes a request of its own back, and wants no answer then; or it ends a stream.
    pub(super) fn cancelled(&mut self, params: Option<&RawValue>) {
        let Some(cancelled) = params.and_then(|params| Json::from(params).member("requestId")) else { return };
        if self.stream_cancelled(cancelled.text()) {
            return;
        }
        let ask = self.asks.iter().find(|(_, ask)| ask.id.get() == cancelled.text()).map(|(ask, _)| *ask);
        if let Some(ask) = ask {
            self.asks.remove(&ask);
            self.asks_ended();
            self.event(Event::AskEnded { ask: AskId(ask) });
        }
    }

    pub(super) fn expire_asks(&mut self) {
        let due = |(ask, pending): (&u64, &Ask)| (pending.deadline <= self.now).then_some(*ask);
        let due: Vec<u64> = self.asks.iter().filter_map(due).collect();
        for ask in due {
            let Some(pending) = self.asks.remove(&ask) else { continue };
            self.refuse(&pending, r#"{"action":"decline"}"#);
            self.event(Event::AskEnded { ask: AskId(ask) });
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
        self.push(Action::Send(Outgoing { of: ask.of, ..message }));
    }

    /// The time that the user takes is no request's: it goes on once nobody is asked any more.
    fn asks_ended(&mut self) {
        self.requests.pause(!self.asks.is_empty(), self.now);
    }

    /// The connection ends, and the embedder needs not answer any more; a server that is not gone is told so.
    pub(super) fn end_asks(&mut self, gone: bool) {
        for (id, ask) in core::mem::take(&mut self.asks) {
            if !gone {
                self.refuse(&ask, r#"{"action":"cancel"}"#);
            }
            self.event(Event::AskEnded { ask: AskId(id) });
        }
        self.asks_ended();
    }
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
