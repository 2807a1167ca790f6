//! What a journal has of the authorization of a client: inputs as values, and masks in place of their secrets.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Debug, Formatter};
use core::time::Duration;

use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::input::{Part, StreamKey, head};
use super::secrets::Secrets;
use super::{Input, json};
use crate::binding::oauth::{
    Authorization, OAuthAction, OAuthExchangeId, OAuthInput, SaveOutcome, SignId, StoreId, masked_action,
    masked_response,
};

/// What is reported to the authorization of a client, as a value: [`OAuthInput`]. Its `Debug` shows no contents.
#[derive(Clone, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
#[non_exhaustive]
pub enum OAuthReport {
    /// [`OAuthInput::Head`].
    Head {
        /// The exchange.
        exchange: OAuthExchangeId,
        /// The status.
        #[serde(with = "head::status")]
        status: StatusCode,
        /// The headers.
        #[serde(with = "head::headers")]
        headers: HeaderMap,
    },
    /// [`OAuthInput::Body`].
    Body {
        /// The exchange.
        exchange: OAuthExchangeId,
        /// The part.
        #[serde(with = "crate::form::bytes")]
        chunk: Box<[u8]>,
    },
    /// [`OAuthInput::End`].
    End {
        /// The exchange.
        exchange: OAuthExchangeId,
    },
    /// [`OAuthInput::Failure`].
    Failure {
        /// The exchange.
        exchange: OAuthExchangeId,
        /// The words of the HTTP client.
        #[serde(serialize_with = "head::shown")]
        why: Box<str>,
    },
    /// [`OAuthInput::Redirect`]. It is refused with [`InputError::OtherRedirect`](super::InputError::OtherRedirect) if it
    /// belongs to no sign-in that is in progress.
    Redirect(Box<str>),
    /// [`OAuthInput::Signature`].
    Signature {
        /// The request for it.
        id: SignId,
        /// The signature; empty if there is none.
        #[serde(with = "crate::form::bytes")]
        signature: Box<[u8]>,
    },
    /// [`OAuthInput::Acquired`].
    Acquired {
        /// The action.
        id: StoreId,
        /// Whether the lock was acquired.
        acquired: bool,
    },
    /// [`OAuthInput::Loaded`] with the record, or none.
    Loaded {
        /// The action.
        id: StoreId,
        /// The record.
        #[serde(default, with = "record")]
        record: Option<Box<[u8]>>,
    },
    /// [`OAuthInput::Loaded`] of a store that failed.
    LoadFailed {
        /// The action.
        id: StoreId,
    },
    /// [`OAuthInput::Saved`].
    Saved {
        /// The action.
        id: StoreId,
        /// What came of it.
        saved: SaveOutcome,
    },
    /// [`OAuthInput::Clock`].
    Clock {
        /// The time since the Unix epoch.
        unix: Duration,
    },
    /// [`OAuthInput::Authorize`].
    Authorize,
    /// [`OAuthInput::Cancel`].
    Cancel,
    /// [`OAuthInput::NotShown`].
    NotShown(#[serde(serialize_with = "head::shown")] Box<str>),
    /// [`OAuthInput::SignOut`].
    SignOut,
}

impl Debug for OAuthReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.as_input().fmt(f)
    }
}

impl From<OAuthInput<'_>> for OAuthReport {
    fn from(input: OAuthInput<'_>) -> Self {
        match input {
            OAuthInput::Head { exchange, status, headers } => Self::Head { exchange, status, headers: headers.clone() },
            OAuthInput::Body { exchange, chunk } => Self::Body { exchange, chunk: chunk.into() },
            OAuthInput::End { exchange } => Self::End { exchange },
            OAuthInput::Failure { exchange, why } => Self::Failure { exchange, why: why.into() },
            OAuthInput::Redirect(redirect) => Self::Redirect(redirect.into()),
            OAuthInput::Signature { id, signature } => Self::Signature { id, signature: signature.into() },
            OAuthInput::Acquired { id, acquired } => Self::Acquired { id, acquired },
            OAuthInput::Loaded { id, record: Ok(record) } => Self::Loaded { id, record: record.map(Into::into) },
            OAuthInput::Loaded { id, record: Err(()) } => Self::LoadFailed { id },
            OAuthInput::Saved { id, saved } => Self::Saved { id, saved },
            OAuthInput::Clock { unix } => Self::Clock { unix },
            OAuthInput::Authorize => Self::Authorize,
            OAuthInput::Cancel => Self::Cancel,
            OAuthInput::NotShown(why) => Self::NotShown(why.into()),
            OAuthInput::SignOut => Self::SignOut,
        }
    }
}

impl From<OAuthInput<'_>> for Input {
    fn from(input: OAuthInput<'_>) -> Self {
        Self::OAuth(input.into())
    }
}

impl OAuthReport {
    /// The report, borrowed.
    pub fn as_input(&self) -> OAuthInput<'_> {
        match self {
            Self::Head { exchange, status, headers } => {
                OAuthInput::Head { exchange: *exchange, status: *status, headers }
            }
            Self::Body { exchange, chunk } => OAuthInput::Body { exchange: *exchange, chunk },
            Self::End { exchange } => OAuthInput::End { exchange: *exchange },
            Self::Failure { exchange, why } => OAuthInput::Failure { exchange: *exchange, why },
            Self::Redirect(redirect) => OAuthInput::Redirect(redirect),
            Self::Signature { id, signature } => OAuthInput::Signature { id: *id, signature },
            Self::Acquired { id, acquired } => OAuthInput::Acquired { id: *id, acquired: *acquired },
            Self::Loaded { id, record } => OAuthInput::Loaded { id: *id, record: Ok(record.as_deref()) },
            Self::LoadFailed { id } => OAuthInput::Loaded { id: *id, record: Err(()) },
            Self::Saved { id, saved } => OAuthInput::Saved { id: *id, saved: *saved },
            Self::Clock { unix } => OAuthInput::Clock { unix: *unix },
            Self::Authorize => OAuthInput::Authorize,
            Self::Cancel => OAuthInput::Cancel,
            Self::NotShown(why) => OAuthInput::NotShown(why),
            Self::SignOut => OAuthInput::SignOut,
        }
    }

    /// What it is to the bytes from a server.
    pub(super) const fn part(&self) -> Part {
        match self {
            Self::Body { exchange, .. } => Part::Chunk(stream(*exchange)),
            Self::End { exchange } | Self::Failure { exchange, .. } => Part::End(stream(*exchange)),
            Self::Head { .. }
            | Self::Redirect(_)
            | Self::Signature { .. }
            | Self::Acquired { .. }
            | Self::Loaded { .. }
            | Self::LoadFailed { .. }
            | Self::Saved { .. }
            | Self::Clock { .. }
            | Self::Authorize
            | Self::Cancel
            | Self::NotShown(_)
            | Self::SignOut => Part::Other,
        }
    }
}

/// No session of a client has this number.
const fn stream(exchange: OAuthExchangeId) -> StreamKey {
    (u64::MAX, exchange.as_u64())
}

/// The exchange that nothing is reported of after this action.
pub(super) fn abandoned(action: &OAuthAction) -> Option<StreamKey> {
    if let OAuthAction::Drop(exchange) = action { Some(stream(*exchange)) } else { None }
}

/// What an input is to the bytes from a server. Metadata has no secrets; what is not read is left out.
pub(super) fn part(authorization: Option<&Authorization>, input: &Input) -> Part {
    let Input::OAuth(OAuthReport::Body { exchange, .. }) = input else { return input.part(0) };
    match authorization.and_then(|authorization| authorization.reads(*exchange)) {
        Some(true) => Part::Chunk(stream(*exchange)),
        Some(false) => Part::Whole(stream(*exchange)),
        None => Part::Other,
    }
}

/// An input as it is recorded.
pub(super) fn shown(authorization: Option<&Authorization>, input: &Input, secrets: &mut Secrets) -> String {
    let (Input::OAuth(report), Some(authorization)) = (input, authorization) else { return json(input) };
    let mut mask = |secret: &str| secrets.learn(secret, false);
    let report = match report {
        OAuthReport::Body { exchange, .. } if authorization.reads(*exchange).is_none() => {
            OAuthReport::Body { exchange: *exchange, chunk: Box::default() }
        }
        OAuthReport::Redirect(redirect) => {
            OAuthReport::Redirect(authorization.masked_redirect(redirect, &mut mask).into())
        }
        OAuthReport::Signature { id, signature } if !signature.is_empty() => {
            OAuthReport::Signature { id: *id, signature: Box::from(*b"signature") }
        }
        OAuthReport::Loaded { id, record: Some(record) } => {
            OAuthReport::Loaded { id: *id, record: Some(authorization.masked_record(record, &mut mask).into()) }
        }
        OAuthReport::Head { .. }
        | OAuthReport::Body { .. }
        | OAuthReport::End { .. }
        | OAuthReport::Failure { .. }
        | OAuthReport::Signature { .. }
        | OAuthReport::Acquired { .. }
        | OAuthReport::Loaded { .. }
        | OAuthReport::LoadFailed { .. }
        | OAuthReport::Saved { .. }
        | OAuthReport::Clock { .. }
        | OAuthReport::Authorize
        | OAuthReport::Cancel
        | OAuthReport::NotShown(_)
        | OAuthReport::SignOut => return json(input),
    };
    json(&Input::OAuth(report))
}

/// An action as it is recorded.
pub(super) fn action(action: &OAuthAction, secrets: &mut Secrets) -> String {
    let mut mask = |secret: &str| secrets.mask_of(secret).unwrap_or_default();
    format!("{{\"type\":\"oauth\",\"value\":{}}}", json(&masked_action(action, &mut mask)))
}

/// The response to a request with secrets, as it is recorded: as long as it is, because there is a limit.
pub(super) fn response(body: &[u8], secrets: &mut Secrets) -> Vec<u8> {
    let (masked, fill) = masked_response(body, &mut |secret| secrets.learn(secret, false));
    let mut masked = secrets.hide_bytes(masked);
    masked.resize(masked.len().max(body.len()), fill);
    masked
}

/// An authorization, as a header has it.
pub(super) fn header(authorization: &Authorization, secrets: &mut Secrets) -> Option<Box<RawValue>> {
    to_raw_value(&authorization.fresh(&mut |secret| secrets.learn(secret, true))).ok()
}

/// The authorization of a header.
pub(super) fn replayed(header: &RawValue) -> Result<Authorization, String> {
    let fresh = serde_json::from_str(header.get()).map_err(|error| format!("{error}"))?;
    Authorization::replayed(fresh).map_err(|error| format!("{error}"))
}

mod record {
    use alloc::boxed::Box;
    use alloc::vec::Vec;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::form::Bytes;

    pub(super) fn serialize<S: Serializer>(record: &Option<Box<[u8]>>, serializer: S) -> Result<S::Ok, S::Error> {
        record.as_deref().map(|record| Bytes(Vec::from(record))).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<[u8]>>, D::Error> {
        Ok(Option::<Bytes>::deserialize(deserializer)?.map(|record| record.0.into()))
    }
}
