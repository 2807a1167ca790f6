//! Without the feature `journal`, a server plays none.

use serde_json::Value;

use super::asked::Asked;
use super::parts::FakeServer;
use crate::ProtocolVersion;
use crate::testkit::turn::Turn;

impl FakeServer {
    pub(super) const fn plays(&self) -> bool {
        false
    }

    pub(super) const fn recorded_version(&self, _: &Value) -> Option<ProtocolVersion> {
        None
    }

    pub(super) const fn recorded_turn(&self, _: Asked<'_>) -> Option<Turn> {
        None
    }

    pub(super) const fn recorded_notification(&self, _: Option<u64>, _: &str) {}

    pub(super) const fn tell_news(&self) {}
}
