//! Saves the binding, and restores it (feature `snapshot`).

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use http::HeaderValue;
use serde::{Deserialize, Serialize};

use super::Broken;
use super::basic::Basic;
use super::connection::{Connection, Http, KnownServer};
use super::cookies::COOKIES;
use super::exchange::{Exchange, ExchangeKind, Exchanges, Past, Queue, Reply, Timers};
use super::request::Identity;
use crate::binding::address::Address;
use crate::client::{Again, Engine, Operate, Output, Persist, StartId};
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

/// The saved state of the binding. Without secrets it has no URL: that of the new binding is used.
#[derive(Debug, Serialize, Deserialize)]
pub struct State {
    url: Option<Address>,
    #[serde(with = "optional_header")]
    basic: Option<HeaderValue>,
    server: KnownServer,
    connection: Connection,
    exchanges: Exchanges,
    queue: Queue,
    timers: Timers,
}

const WHY: &str = "the session moved to another process without its exchanges";

impl Persist for Http {
    const KIND: &'static str = "http";
    type State = State;

    fn forget_secrets(&mut self, engine: &mut Engine) {
        self.lose_transport(engine, Secrets::Excluded);
        self.server.session.forget();
    }

    fn state(&self, secrets: Secrets) -> impl Serialize {
        let Self { url, basic, identity: _, server, connection, mut exchanges, queue, timers, tokens: _, masked: _ } =
            self.clone();
        let url = Some(url).filter(|_| secrets == Secrets::Included);
        let basic = basic.filter(|_| secrets == Secrets::Included).map(|basic| basic.value().clone());
        if url.is_none() {
            exchanges.set_address(&Address::default());
        }
        State { url, basic, server, connection, exchanges, queue, timers }
    }

    fn restore(self, engine: &mut Engine, state: State) -> Result<Self, SnapshotError> {
        engine.locate(&self.url.shown());
        let State { url, basic, server, connection, mut exchanges, queue, timers } = state;
        let limits = &engine.options().limits;
        exchanges.check(limits.message.bytes.saturating_add(MessageLimits::SLACK).saturating_add(1))?;
        within("buffered", exchanges.buffered(), limits.buffered)?;
        server.session.cookies().into_iter().try_for_each(|cookies| within("cookies", cookies, COOKIES))?;
        let has_no_head = |it: &Exchange| matches!((&it.purpose, &it.reply), (ExchangeKind::Sse, Reply::Nothing));
        if exchanges.carried().any(|id| engine.is_queued(id))
            || connection.sse.is_ready() && exchanges.iter().any(|(_, it)| has_no_head(it))
        {
            return Err(invalid("its exchanges contradict each other"));
        }
        if !timers.is_sorted() || !queue.is_counted() {
            return Err(invalid("the timers or the messages of its connection are counted wrongly"));
        }
        if url.is_none() {
            exchanges.set_address(&self.url);
        }
        // What waited for the token or a proof is prepared anew.
        let as_start = |output: &Output| if let Output::Start(number) = output { Some(*number) } else { None };
        let queued: BTreeSet<StartId> = engine.pending().filter_map(as_start).collect();
        for (number, _) in exchanges.starts().filter(|(number, _)| !queued.contains(number)) {
            engine.queue(Output::Start(number));
        }
        let (url, basic) = match url {
            Some(url) => (url, basic.map(Basic::presenting).map(Box::new)),
            None => (self.url, self.basic),
        };
        let identity = Identity::of(engine.options());
        let Self { tokens, masked, .. } = self;
        let mut it = Self { url, basic, identity, server, connection, exchanges, queue, timers, tokens, masked };
        // What waited for a token demands another one.
        let carried: BTreeSet<u64> = it.exchanges.carried().collect();
        for id in engine.held().into_iter().filter(|id| !carried.contains(id)) {
            it.post_again(engine, id, Again::Refused, Past::default());
        }
        Ok(it)
    }

    fn lose_transport(&mut self, engine: &mut Engine, secrets: Secrets) {
        match secrets {
            Secrets::Included => {
                for id in self.exchanges.iter().map(|(id, _)| id).collect::<Vec<_>>() {
                    if let Some(ended) = self.take_ended(id) {
                        self.on_end(engine, ended, Some(Broken::Midway), WHY);
                    }
                }
            }
            Secrets::Excluded => {
                self.step(engine, phase::Input::Overdue);
                engine.lose_transport();
                self.follow_up(engine);
            }
        }
        // The exchanges have ended.
        engine.withdraw_drops();
    }
}

impl Exchanges {
    /// Checks the consistency. `limit` is the size of a message and somewhat more.
    fn check(&mut self, limit: usize) -> Result<(), SnapshotError> {
        let mut buffered = 0_usize;
        for it in self.all_mut() {
            buffered = buffered.saturating_add(it.reply.buffered());
            match &mut it.reply {
                Reply::Json(body) => within("message", body.len(), limit)?,
                Reply::Events(events) => {
                    within("message", events.decoder.data_len(), limit)?;
                    events.decoder.set_limit(limit);
                }
                Reply::Refusal(_) | Reply::Nothing | Reply::Begun(_) | Reply::Ignored => {}
            }
        }
        if buffered == self.buffered() && self.is_consistent() {
            Ok(())
        } else {
            Err(invalid("its exchanges contradict each other"))
        }
    }

    fn set_address(&mut self, url: &Address) {
        for it in self.all_mut() {
            it.url = url.clone();
        }
    }
}
