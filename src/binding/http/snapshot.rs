//! Saves the binding, and restores it (feature `snapshot`).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::action::Broken;
use super::connection::{Http, State};
use super::exchange::{Exchanges, Reply};
use crate::binding::address::Address;
use crate::client::{Engine, Operate, Output, Persist};
use crate::jsonrpc::MessageLimits;
use crate::machine::http_connection::phase;
use crate::snapshot::{Secrets, SnapshotError, invalid, within};

pub(super) mod header {
    //! A header's value that is a secret.

    use http::HeaderValue;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::form::Bytes;

    pub(in super::super) fn serialize<S: Serializer>(value: &HeaderValue, serializer: S) -> Result<S::Ok, S::Error> {
        Bytes(value.as_bytes().to_vec()).serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<HeaderValue, D::Error> {
        let mut value = HeaderValue::from_bytes(&Bytes::deserialize(deserializer)?.0).map_err(D::Error::custom)?;
        value.set_sensitive(true);
        Ok(value)
    }
}

pub(super) mod optional_header {
    use http::HeaderValue;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Value(#[serde(with = "super::header")] HeaderValue);

    #[expect(clippy::ref_option, reason = "serde passes the field")]
    pub(in super::super) fn serialize<S: Serializer>(
        value: &Option<HeaderValue>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.clone().map(Value).serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<HeaderValue>, D::Error> {
        Ok(Option::<Value>::deserialize(deserializer)?.map(|Value(value)| value))
    }
}

pub(super) mod status {
    use http::StatusCode;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(in super::super) fn serialize<S: Serializer>(status: &StatusCode, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u16(status.as_u16())
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<StatusCode, D::Error> {
        StatusCode::from_u16(u16::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl Serialize for Address {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = alloc::string::String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(serde::de::Error::custom)
    }
}

const WHY: &str = "the session moved to another process without its exchanges";

impl Persist for Http {
    const KIND: &'static str = "http";
    type State = State;

    fn forget_secrets(&mut self, engine: &mut Engine) {
        self.lose_transport(engine, Secrets::Excluded);
        self.session.forget();
    }

    fn state(&self, secrets: Secrets) -> impl Serialize {
        let mut saved = self.clone();
        let url = (secrets == Secrets::Included).then(|| self.url.clone());
        if url.is_none() {
            saved.exchanges.set_address(&Address::default());
        }
        saved.into_state(url)
    }

    fn restore(mut self, engine: &mut Engine, mut state: State) -> Result<Self, SnapshotError> {
        self.attach(engine);
        let limits = &engine.options().limits;
        state.exchanges.check(limits.message.bytes.saturating_add(MessageLimits::SLACK).saturating_add(1))?;
        within("buffered", state.exchanges.buffered(), limits.buffered)?;
        if !state.timers.is_sorted() || !state.queue.is_counted() {
            return Err(invalid("the timers or the messages of its connection are counted wrongly"));
        }
        if state.url.is_none() {
            state.exchanges.set_address(&self.url);
        }
        // What waited for the token or a proof is prepared anew.
        let as_exchange = |output: &Output| if let Output::Exchange(id) = output { Some(*id) } else { None };
        let queued: BTreeSet<u64> = engine.pending().filter_map(as_exchange).collect();
        for (id, it) in state.exchanges.iter() {
            if matches!(it.reply, Reply::Unsent) && !queued.contains(&id.0) {
                engine.queue_action(Output::Exchange(id.0));
            }
        }
        Ok(self.with_state(state))
    }

    fn lose_transport(&mut self, engine: &mut Engine, secrets: Secrets) {
        match secrets {
            Secrets::Included => {
                let polled = self.exchanges.iter().filter(|(_, it)| !matches!(it.reply, Reply::Unsent));
                let polled: Vec<_> = polled.map(|(id, _)| id).collect();
                for id in polled {
                    self.on_end(engine, engine.now(), id, Some(Broken::Midway), WHY);
                }
            }
            Secrets::Excluded => {
                self.step(engine, phase::Input::Overdue);
                engine.lose_transport();
                self.settle(engine);
            }
        }
        // The exchanges have ended.
        while engine.withdraw_action(|action| matches!(action, Output::Drop(_))) {}
    }
}

impl Exchanges {
    /// Checks the consistency. `limit` is the size of a message and somewhat more.
    fn check(&mut self, limit: usize) -> Result<(), SnapshotError> {
        let mut buffered = 0_usize;
        for it in self.iter_mut() {
            buffered = buffered.saturating_add(it.reply.buffered());
            match &mut it.reply {
                Reply::Json(body) => within("message", body.len(), limit)?,
                Reply::Events(events) => {
                    within("message", events.decoder.data_len(), limit)?;
                    events.decoder.set_limit(limit);
                }
                Reply::Refusal(_) | Reply::Unsent | Reply::Nothing | Reply::Begun(_) | Reply::Ignored => {}
            }
        }
        if buffered == self.buffered() && self.is_consistent() {
            Ok(())
        } else {
            Err(invalid("its exchanges contradict each other"))
        }
    }

    fn set_address(&mut self, url: &Address) {
        for it in self.iter_mut() {
            it.url = url.clone();
        }
    }
}
