use alloc::borrow::{Cow, ToOwned};
use alloc::format;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::classify::excerpt;
use super::{Action, AskId, Event, Misuse, Session};
use crate::Time;
use crate::jsonrpc::{self, ErrorObject, Json, PeerId};
use crate::machine::{QuirkKind, handshake};
use crate::protocol::{ClientCapabilities, error_code, method};

/// A question of the server's that waits for the embedder.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    id: PeerId,
    method: Asked,
    pub(super) deadline: Time,
}

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
    /// Answers a question of the server's: with the result that its method has, or with an error.
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
            Ok(result) => jsonrpc::result(out, &ask.id, result.get()),
            Err(error) => jsonrpc::error(out, &ask.id, &error),
        });
        self.push(Action::Send(message));
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
        let message = match self.consider(&method, params) {
            Consideration::Ask(asked) => {
                self.last_ask = self.last_ask.saturating_add(1);
                let deadline = self.now + self.options.timeouts.ask;
                self.asks.insert(self.last_ask, Ask { id, method: asked, deadline });
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
        self.push(Action::Send(message));
    }

    pub(super) fn consider(&self, method: &str, params: Option<&RawValue>) -> Consideration {
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
        if self.asks.len() >= self.options.limits.asks {
            return Consideration::Refuse(ErrorObject::new(
                error_code::INTERNAL_ERROR,
                "too many questions wait already",
            ));
        }
        Consideration::Ask(asked)
    }

    /// The server takes a request of its own back. It wants no answer then.
    pub(super) fn ask_cancelled(&mut self, params: Option<&RawValue>) {
        let Some(cancelled) = params.and_then(|params| Json::from(params).member("requestId")) else { return };
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
            let message = self.encode_answer(|out| match pending.method {
                Asked::Elicitation => jsonrpc::result(out, &pending.id, r#"{"action":"decline"}"#),
                Asked::Sampling => {
                    jsonrpc::error(out, &pending.id, &ErrorObject::new(-1, "User rejected sampling request"))
                }
            });
            self.push(Action::Send(message));
            self.event(Event::AskEnded { ask: AskId(ask) });
        }
        self.asks_ended();
    }

    /// The time that the user takes is no request's: it goes on once nobody is asked any more.
    fn asks_ended(&mut self) {
        self.requests.pause(!self.asks.is_empty(), self.now);
    }

    /// Nobody waits for the answers any more.
    pub(super) fn drop_asks(&mut self) {
        for ask in core::mem::take(&mut self.asks).into_keys() {
            self.event(Event::AskEnded { ask: AskId(ask) });
        }
        self.asks_ended();
    }
}
