use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::written::{Seconds, Written};
use crate::client::SamplingPolicy;

/// Limits on a server's sampling requests (`sampling/createMessage`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sampling {
    /// Whether the server may send them. Default: `true`.
    pub enabled: bool,
    /// The model to use, regardless of the server's preference.
    pub model: Option<Box<str>>,
    /// Maximum tokens of one response. Default: 4,096.
    pub max_tokens_cap: u64,
    /// Timeout of one response. Default: 30 s.
    pub timeout: Duration,
    /// Maximum requests per minute. Default: 10.
    pub max_rpm: u32,
    /// The models that the server may request; empty allows any.
    pub allowed_models: Vec<Box<str>>,
    /// Maximum consecutive rounds with tools; 0 allows none. Default: 5.
    pub max_tool_rounds: u32,
    /// Log level; the embedder interprets it.
    pub log_level: Option<Box<str>>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            enabled: true,
            model: None,
            max_tokens_cap: 4096,
            timeout: Duration::from_secs(30),
            max_rpm: 10,
            allowed_models: Vec::new(),
            max_tool_rounds: 5,
            log_level: None,
        }
    }
}

impl Sampling {
    /// The limits that a client enforces. The embedder applies `log_level`.
    pub fn policy(&self) -> SamplingPolicy {
        SamplingPolicy {
            per_minute: Some(self.max_rpm),
            max_tokens: Some(self.max_tokens_cap),
            model: self.model.clone(),
            models: self.allowed_models.clone(),
            tool_rounds: Some(self.max_tool_rounds),
            timeout: Some(self.timeout),
        }
    }
}

/// As under `sampling`, without default values.
impl Serialize for Sampling {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let default = Self::default();
        let mut map = Written(serializer.serialize_map(None)?);
        map.unless(self.enabled, "enabled", &self.enabled)?;
        map.unless(self.model.is_none(), "model", &self.model)?;
        map.unless(self.max_tokens_cap == default.max_tokens_cap, "max_tokens_cap", &self.max_tokens_cap)?;
        map.unless(self.timeout == default.timeout, "timeout", &Seconds(self.timeout))?;
        map.unless(self.max_rpm == default.max_rpm, "max_rpm", &self.max_rpm)?;
        map.unless(self.allowed_models.is_empty(), "allowed_models", &self.allowed_models)?;
        map.unless(self.max_tool_rounds == default.max_tool_rounds, "max_tool_rounds", &self.max_tool_rounds)?;
        map.unless(self.log_level.is_none(), "log_level", &self.log_level)?;
        map.0.end()
    }
}
