//! The serialized form of a message to send (feature `serde`).

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::{Outgoing, RequestId};
use crate::jsonrpc::Json;
use crate::protocol::ProtocolVersion;

#[derive(Serialize, Deserialize)]
struct Form<Message> {
    message: Message,
    version: Option<ProtocolVersion>,
    of: Option<RequestId>,
    /// Of a message whose text was taken out, which is null here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    taken: Option<Taken>,
}

#[derive(Serialize, Deserialize)]
struct Taken {
    method: Option<Cow<'static, str>>,
    id: Option<u64>,
}

impl Serialize for Outgoing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { line, method, id, version, of } = self;
        let (version, of) = (*version, *of);
        if line.is_empty() {
            let taken = Some(Taken { method: method.clone(), id: *id });
            return Form { message: (), version, of, taken }.serialize(serializer);
        }
        // The engine encodes messages as JSON.
        let message = core::str::from_utf8(self.bytes()).map(|text| Json::trusted(text).raw());
        let message = message.map_err(serde::ser::Error::custom)?;
        Form { message, version, of, taken: None }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Outgoing {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Form::<Box<RawValue>> { message, version, of, taken } = Form::deserialize(deserializer)?;
        Ok(match taken {
            Some(Taken { method, id }) => Self { line: Vec::new(), method, id, version, of },
            None => Self::new(&message, version, of),
        })
    }
}
