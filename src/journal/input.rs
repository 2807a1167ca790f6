use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

#[cfg(feature = "http")]
use crate::binding::http::{Broken, ExchangeId};
use crate::jsonrpc::ErrorObject;
use crate::protocol::{Family, Root};
use crate::{CommandError, ConnectionId, LogLevel, OpenFailure, Request, RequestId, ServerRequestId, Transport};

use super::part::Part;

/// An input or a command of a [`Client`](crate::Client), as a value. [`Client::apply`](crate::Client::apply) applies it.
///
/// It is serialized like an [`Event`](crate::Event), without the secrets of HTTP: `redacted` stands for the session's id,
/// for user information and query of addresses, and for the values of headers that the client does not read.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Input {
    /// [`Client::open`](crate::Client::open).
    Open,
    /// [`Client::close`](crate::Client::close).
    Close,
    /// [`Client::request`](crate::Client::request).
    Request(Request),
    /// [`Client::cancel`](crate::Client::cancel), or [`Client::cancel_with_reason`](crate::Client::cancel_with_reason) if there is a reason.
    Cancel {
        /// The request.
        request: RequestId,
        /// The reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Box<str>>,
    },
    /// [`Client::notify`](crate::Client::notify).
    Notify {
        /// The method.
        method: Box<str>,
        /// The parameters, raw.
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            deserialize_with = "crate::form::optional_raw::deserialize"
        )]
        params: Option<Box<RawValue>>,
    },
    /// [`Client::provide`](crate::Client::provide).
    Provide {
        /// The request.
        request: RequestId,
        /// Key and response of each input.
        responses: Vec<(Box<str>, Box<RawValue>)>,
    },
    /// [`Client::decline`](crate::Client::decline).
    Decline {
        /// The request.
        request: RequestId,
    },
    /// [`Client::respond`](crate::Client::respond).
    Respond {
        /// The server request.
        request: ServerRequestId,
        /// The response.
        #[serde(with = "crate::form::result")]
        response: Result<Box<RawValue>, ErrorObject>,
    },
    /// [`Client::authorized`](crate::Client::authorized).
    Authorized,
    /// [`Client::subscribe`](crate::Client::subscribe).
    Subscribe {
        /// The resource.
        uri: Box<str>,
    },
    /// [`Client::unsubscribe`](crate::Client::unsubscribe).
    Unsubscribe {
        /// The resource.
        uri: Box<str>,
    },
    /// [`Client::set_log_level`](crate::Client::set_log_level).
    SetLogLevel {
        /// The level.
        level: LogLevel,
    },
    /// [`Client::set_roots`](crate::Client::set_roots).
    SetRoots {
        /// The roots.
        roots: Vec<Root>,
    },
    /// [`Client::refresh`](crate::Client::refresh).
    Refresh {
        /// The family.
        family: Family,
    },
    /// [`Client::handle_timeout`](crate::Client::handle_timeout).
    Timeout,
    /// `handle_message` of a client over [`Messages`](crate::Messages).
    Message {
        /// The connection.
        connection: ConnectionId,
        /// The message or batch.
        #[serde(with = "crate::form::bytes")]
        bytes: Box<[u8]>,
    },
    /// `handle_bytes` of a client over [`Lines`](crate::Lines).
    Bytes {
        /// The connection.
        connection: ConnectionId,
        /// The chunk.
        #[serde(with = "crate::form::bytes")]
        bytes: Box<[u8]>,
    },
    /// `handle_transport` of a client over [`Messages`](crate::Messages) or [`Lines`](crate::Lines).
    Transport {
        /// The connection.
        connection: ConnectionId,
        /// The report.
        event: TransportEvent,
    },
    /// `handle_head` of a client over HTTP.
    #[cfg(feature = "http")]
    Head {
        /// The exchange.
        exchange: ExchangeId,
        /// The status.
        #[serde(with = "super::head::status")]
        status: http::StatusCode,
        /// The headers.
        #[serde(with = "super::head::headers")]
        headers: http::HeaderMap,
    },
    /// `handle_body` of a client over HTTP.
    #[cfg(feature = "http")]
    Body {
        /// The exchange.
        exchange: ExchangeId,
        /// The chunk.
        #[serde(with = "crate::form::bytes")]
        bytes: Box<[u8]>,
    },
    /// `handle_end` of a client over HTTP.
    #[cfg(feature = "http")]
    End {
        /// The exchange.
        exchange: ExchangeId,
    },
    /// `handle_failure` of a client over HTTP.
    #[cfg(feature = "http")]
    Failure {
        /// The exchange.
        exchange: ExchangeId,
        /// In which way it failed.
        broken: Broken,
        /// The HTTP client's message.
        #[serde(serialize_with = "super::head::shown")]
        why: Box<str>,
    },
}

/// The role of an input.
enum Role {
    Command,
    /// The next bytes of a connection or an exchange.
    Chunk(u64),
    /// The end of a connection or an exchange.
    End(u64),
    Other,
}

impl Input {
    /// Whether it is a command, which a client may refuse.
    pub const fn is_command(&self) -> bool {
        matches!(self.role(), Role::Command)
    }

    const fn role(&self) -> Role {
        match self {
            Self::Open
            | Self::Close
            | Self::Request(_)
            | Self::Cancel { .. }
            | Self::Notify { .. }
            | Self::Provide { .. }
            | Self::Decline { .. }
            | Self::Respond { .. }
            | Self::Authorized
            | Self::Subscribe { .. }
            | Self::Unsubscribe { .. }
            | Self::SetLogLevel { .. }
            | Self::SetRoots { .. }
            | Self::Refresh { .. } => Role::Command,
            Self::Bytes { connection, .. } => Role::Chunk(connection.as_u64()),
            Self::Transport { event: TransportEvent::SignOfLife, .. } => Role::Other,
            Self::Transport { connection, .. } => Role::End(connection.as_u64()),
            Self::Timeout | Self::Message { .. } => Role::Other,
            #[cfg(feature = "http")]
            Self::Body { exchange, .. } => Role::Chunk(exchange.as_u64()),
            #[cfg(feature = "http")]
            Self::End { exchange } | Self::Failure { exchange, .. } => Role::End(exchange.as_u64()),
            #[cfg(feature = "http")]
            Self::Head { .. } => Role::Other,
        }
    }

    /// What it is to the bytes from a server.
    pub(super) const fn part(&self, session: u64) -> Part {
        match self.role() {
            Role::Chunk(stream) => Part::Chunk((session, stream)),
            Role::End(stream) => Part::End((session, stream)),
            Role::Command | Role::Other => Part::Other,
        }
    }

    /// The bytes of a chunk.
    pub(super) fn bytes(&mut self) -> Option<&mut Box<[u8]>> {
        if let Self::Bytes { bytes, .. } = self {
            return Some(bytes);
        }
        #[cfg(feature = "http")]
        if let Self::Body { bytes, .. } = self {
            return Some(bytes);
        }
        None
    }
}

/// A report on a transport, as a value: [`Transport`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
#[non_exhaustive]
pub enum TransportEvent {
    /// [`Transport::Opened`].
    Opened,
    /// [`Transport::OpenFailed`].
    OpenFailed {
        /// How it failed.
        how: OpenFailure,
        /// The system's message.
        why: Box<str>,
    },
    /// [`Transport::Closed`].
    Closed {
        /// The system's message.
        why: Box<str>,
    },
    /// [`Transport::ProtocolViolation`].
    ProtocolViolation {
        /// A description of the violation.
        why: Box<str>,
    },
    /// [`Transport::SignOfLife`].
    SignOfLife,
}

impl From<Transport<'_>> for TransportEvent {
    fn from(event: Transport<'_>) -> Self {
        match event {
            Transport::Opened => Self::Opened,
            Transport::OpenFailed { how, why } => Self::OpenFailed { how, why: why.into() },
            Transport::Closed { why } => Self::Closed { why: why.into() },
            Transport::ProtocolViolation { why } => Self::ProtocolViolation { why: why.into() },
            Transport::SignOfLife => Self::SignOfLife,
        }
    }
}

impl TransportEvent {
    /// The report, borrowed.
    pub fn as_transport(&self) -> Transport<'_> {
        match self {
            Self::Opened => Transport::Opened,
            Self::OpenFailed { how, why } => Transport::OpenFailed { how: *how, why },
            Self::Closed { why } => Transport::Closed { why },
            Self::ProtocolViolation { why } => Transport::ProtocolViolation { why },
            Self::SignOfLife => Transport::SignOfLife,
        }
    }
}

/// Why an [`Input`] was not applied. Beyond the handling of deadlines that were due, it changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ApplyError {
    /// The client refused the command.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The input belongs to another binding: bytes to `Lines`, messages to `Messages`, exchanges to `Http`.
    #[error("a client over {binding} has no such input")]
    OtherBinding {
        /// The client's binding: `messages`, `lines` or `http`.
        binding: Cow<'static, str>,
    },
}
