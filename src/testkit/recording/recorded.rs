use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::string::{String, ToString};
use std::vec::Vec;

use serde_json::Value;

use crate::ProtocolVersion;
use crate::protocol::method;
use crate::testkit::turn::{Answer, Turn};

/// A request of a client that is not in the journal which a fake server plays
/// ([`FakeServer::from_journal`](crate::testkit::FakeServer::from_journal)). It was answered with the error -32603.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "type", content = "value", rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Mismatch {
    /// The journal has no request of this method.
    #[error("the journal has no request `{method}`")]
    Method {
        /// The method.
        method: String,
    },
    /// The journal has requests of this method, but none with these parameters.
    #[error("the journal has no request `{method}` with the parameters {params}")]
    Params {
        /// The method.
        method: String,
        /// The parameters that are compared, as JSON with sorted keys.
        params: String,
    },
}

/// What a server said, by the messages of the client that caused it.
#[derive(Clone, Debug, Default)]
pub(in crate::testkit) struct Recording {
    /// By method and parameters, in order, and how many were used.
    pub(super) turns: BTreeMap<(String, String), (Vec<Recorded>, usize)>,
    /// What the server said before the client did.
    pub(super) first: Vec<(Duration, Value)>,
    pub(in crate::testkit) versions: BTreeSet<ProtocolVersion>,
}

/// What a message of the client caused.
#[derive(Clone, Debug, Default)]
pub(in crate::testkit) struct Recorded {
    pub(in crate::testkit) turn: Turn,
    /// What the server said meanwhile and afterwards that is not about this message, with the times since it.
    pub(in crate::testkit) news: Vec<(Duration, Value)>,
}

impl Recording {
    /// What this request or notification caused. The last of several that are equal stands for those that follow, without
    /// its news.
    pub(in crate::testkit) fn take(&mut self, method: &str, params: &Value) -> Result<Recorded, Mismatch> {
        let params = compared(method, params);
        let Some((all, used)) = self.turns.get_mut(&(method.into(), params.clone())) else {
            let of_method = self.turns.range((method.to_string(), String::new())..).next();
            return Err(match of_method.filter(|((known, _), _)| known == method) {
                Some(_) => Mismatch::Params { method: method.into(), params },
                None => Mismatch::Method { method: method.into() },
            });
        };
        let is_repeated = *used >= all.len();
        let mut recorded = all.get((*used).min(all.len().saturating_sub(1))).cloned().unwrap_or_default();
        if is_repeated {
            recorded.news.clear();
        }
        *used = used.saturating_add(1);
        recorded.news.splice(0..0, core::mem::take(&mut self.first));
        Ok(recorded)
    }

    /// The version that the result of `initialize` names.
    pub(in crate::testkit) fn version(&self, params: &Value) -> Option<ProtocolVersion> {
        let (all, used) = self.turns.get(&(method::INITIALIZE.into(), compared(method::INITIALIZE, params)))?;
        let Recorded { turn, .. } = all.get((*used).min(all.len().saturating_sub(1)))?;
        version_of(&turn.answer)
    }
}

pub(super) fn version_of(answer: &Answer) -> Option<ProtocolVersion> {
    match answer {
        Answer::Message { outcome: Ok(result), .. } => result.get("protocolVersion")?.as_str()?.parse().ok(),
        Answer::Message { outcome: Err(_), .. } | Answer::None | Answer::Status { .. } | Answer::Break => None,
    }
}

/// The parameters that two requests must share to be the same: all but `_meta`, which names the client and its progress
/// tokens. Of `initialize` it is the offered version, and of a notification it is nothing.
pub(super) fn compared(method: &str, params: &Value) -> String {
    let mut text = String::new();
    match method {
        method::INITIALIZE => sorted(params.get("protocolVersion").unwrap_or(&Value::Null), &mut text),
        _ if method.starts_with("notifications/") => {}
        _ => match params.as_object() {
            Some(members) => {
                let members = members.iter().filter(|(name, _)| *name != "_meta");
                let members = members.map(|(name, value)| (name.clone(), value.clone()));
                sorted(&members.collect(), &mut text);
            }
            None => text.push_str("{}"),
        },
    }
    text
}

/// A value as JSON with sorted keys.
fn sorted(value: &Value, text: &mut String) {
    match value {
        Value::Object(members) => {
            text.push('{');
            for (at, (name, value)) in members.iter().collect::<BTreeMap<_, _>>().into_iter().enumerate() {
                text.push_str(if at == 0 { "" } else { "," });
                // Writing into memory cannot fail.
                let _ = write!(text, "{}:", Value::from(name.as_str()));
                sorted(value, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                text.push_str(if at == 0 { "" } else { "," });
                sorted(item, text);
            }
            text.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            let _ = write!(text, "{value}");
        }
    }
}
