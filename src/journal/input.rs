//! The inputs of a client as values, and what a journal needs from what it records.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{Debug, Display};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::hub::Masks;
#[cfg(feature = "oauth")]
use super::oauth::OAuthReport;
use super::secrets::Secrets;
use super::{BindingForm, json};
#[cfg(feature = "http")]
use crate::Http;
#[cfg(feature = "http")]
use crate::binding::http::{Broken, ExchangeId, HttpAction};
use crate::client::Binding;
use crate::{Client, Command, CommandError, ConnectionId, Lines, Messages, OpenFailure, RequestId, Time, Transport};

/// An input of a [`Client`](crate::Client), as a value. [`Client::handle_input`](crate::Client::handle_input) takes it.
///
/// It is serialized like an [`Event`](crate::Event), without the secrets of HTTP: `redacted` stands for the session's id,
/// for user information and query of addresses, and for the values of headers that the client does not read.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Input {
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
        #[serde(with = "head::status")]
        status: http::StatusCode,
        /// The headers.
        #[serde(with = "head::headers")]
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
        #[serde(serialize_with = "head::shown")]
        why: Box<str>,
    },
    /// `handle_oauth` of a client over HTTP. It is serialized with its secrets; a [`Recorder`](super::Recorder) has masks
    /// in their place.
    #[cfg(feature = "oauth")]
    #[serde(rename = "oauth")]
    OAuth(OAuthReport),
}

impl Input {
    /// Whether the journal has its result: whether a redirect is the answer to the URL of a sign-in.
    pub(super) const fn has_result(&self) -> bool {
        match self {
            #[cfg(feature = "oauth")]
            Self::OAuth(report) => matches!(report, OAuthReport::Redirect(_)),
            Self::Timeout | Self::Message { .. } | Self::Bytes { .. } | Self::Transport { .. } => false,
            #[cfg(feature = "http")]
            Self::Head { .. } | Self::Body { .. } | Self::End { .. } | Self::Failure { .. } => false,
        }
    }

    /// Whether the serialized form of an input, and not of a command, has this tag.
    fn has_tag(tag: &str) -> bool {
        matches!(tag, "timeout" | "message" | "bytes" | "transport" | "head" | "body" | "end" | "failure" | "oauth")
    }

    /// What it is to the bytes from a server.
    pub(super) const fn part(&self, session: u64) -> Part {
        match self {
            Self::Bytes { connection, .. } => Part::Chunk((session, connection.as_u64())),
            Self::Transport { event: TransportEvent::SignOfLife, .. } => Part::Other,
            Self::Transport { connection, .. } => Part::End((session, connection.as_u64())),
            Self::Timeout | Self::Message { .. } => Part::Other,
            #[cfg(feature = "http")]
            Self::Body { exchange, .. } => Part::Chunk((session, exchange.as_u64())),
            #[cfg(feature = "http")]
            Self::End { exchange } | Self::Failure { exchange, .. } => Part::End((session, exchange.as_u64())),
            #[cfg(feature = "http")]
            Self::Head { .. } => Part::Other,
            #[cfg(feature = "oauth")]
            Self::OAuth(report) => report.part(),
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
        #[cfg(feature = "oauth")]
        if let Self::OAuth(OAuthReport::Body { chunk, .. }) = self {
            return Some(chunk);
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

/// Why an [`Input`] or a [`HubInput`](super::HubInput) was not taken. Beyond the handling of deadlines that were due, it
/// changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
#[non_exhaustive]
pub enum InputError {
    /// The input belongs to another binding: bytes to `Lines`, messages to `Messages`, exchanges to `Http`.
    #[error("a client over {binding} has no such input")]
    OtherBinding {
        /// The client's binding: `messages`, `lines` or `http`.
        binding: Cow<'static, str>,
    },
    /// A session of a hub has no such input.
    #[error("a session of a hub has no such input")]
    NotOfSession,
    /// The client has no authorization.
    #[cfg(feature = "oauth")]
    #[error("the client has no authorization")]
    NoAuthorization,
    /// The redirect is not the answer to the URL of the sign-in that is in progress.
    #[cfg(feature = "oauth")]
    #[error("the redirect is not the answer to the URL of the sign-in that is in progress")]
    OtherRedirect,
}

/// The serialized form of a response's head, without its secrets.
#[cfg(feature = "http")]
pub(super) mod head {
    pub(in crate::journal) mod status {
        use http::StatusCode;
        use serde::de::Error;
        use serde::{Deserialize, Deserializer, Serializer};

        #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
        pub(in crate::journal) fn serialize<S: Serializer>(
            status: &StatusCode,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            serializer.serialize_u16(status.as_u16())
        }

        pub(in crate::journal) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<StatusCode, D::Error> {
            StatusCode::from_u16(u16::deserialize(deserializer)?).map_err(D::Error::custom)
        }
    }

    pub(in crate::journal) mod headers {
        use alloc::string::String;
        use alloc::vec::Vec;
        use http::{HeaderMap, HeaderName, HeaderValue};
        use serde::de::Error;
        use serde::{Deserialize, Deserializer, Serializer};

        use crate::binding::http::response_value;
        use crate::form::Bytes;

        pub(in crate::journal) fn serialize<S: Serializer>(
            headers: &HeaderMap,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            serializer.collect_seq(
                headers.iter().map(|(name, value)| (name.as_str(), Bytes(response_value(name, value).into()))),
            )
        }

        pub(in crate::journal) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<HeaderMap, D::Error> {
            let mut headers = HeaderMap::new();
            for (name, value) in Vec::<(String, Bytes)>::deserialize(deserializer)? {
                let name = HeaderName::from_bytes(name.as_bytes()).map_err(D::Error::custom)?;
                let value = HeaderValue::from_bytes(&value.0).map_err(D::Error::custom)?;
                headers.try_append(name, value).map_err(D::Error::custom)?;
            }
            Ok(headers)
        }
    }

    /// A message of an HTTP client, in which addresses have no secrets.
    pub(in crate::journal) fn shown<S: serde::Serializer>(why: &str, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&crate::text::shown_in(why))
    }
}

/// A stream of bytes: its session, and its connection or exchange.
pub(super) type StreamKey = (u64, u64);

/// What an input is to the bytes from a server.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// The next bytes of a stream.
    Chunk(StreamKey),
    /// The next bytes of a stream that is read as a whole, and may have secrets that are not known before.
    #[cfg(feature = "oauth")]
    Whole(StreamKey),
    /// The end of a stream.
    End(StreamKey),
    /// Something else.
    Other,
}

impl<B: JournalBinding> Client<B> {
    /// Takes an input (feature `journal`), as its method does.
    ///
    /// # Errors
    /// [`InputError::OtherBinding`] for an input of another binding; `InputError::NoAuthorization` and
    /// `InputError::OtherRedirect` for an input of an authorization that is not in progress.
    pub fn handle_input(&mut self, now: Time, input: Input) -> Result<(), InputError> {
        if let Input::Timeout = input {
            self.handle_timeout(now);
            return Ok(());
        }
        B::handle(self, now, input)
    }
}

/// A binding whose clients can be recorded. All of this crate are.
pub trait JournalBinding: Binding<Action: Serialize + Debug> + Format {}

/// What a journal needs from a binding. It is implemented in this crate only.
pub trait Format: Binding {
    /// The binding, as a header names it.
    fn form(&self) -> BindingForm<'static>;

    /// Masks a secret that the binding was given, in these and in a header.
    fn mask_given(&self, _: &mut Secrets, _: &mut String) {}

    /// Its authorization, as a header has it.
    fn authorization(&self, _: &mut Secrets) -> Option<Box<RawValue>> {
        None
    }

    /// The exchange that nothing is reported of after this action.
    fn abandoned(_: &Self::Action) -> Option<StreamKey> {
        None
    }

    /// The secrets that its authorization has drawn, each with its mask.
    fn drawn(_: &Client<Self>) -> Vec<(String, &'static str)>
    where
        Self: Sized,
    {
        Vec::new()
    }

    /// What an input is to the bytes from a server.
    fn part(_: &Client<Self>, input: &Input) -> Part
    where
        Self: Sized,
    {
        input.part(0)
    }

    /// An input as it is recorded.
    fn shown(_: &Client<Self>, input: &Input, _: &mut Secrets) -> String
    where
        Self: Sized,
    {
        json(input)
    }

    /// An action as it is recorded.
    fn shown_action(action: &Self::Action, _: &mut Secrets) -> String
    where
        Self::Action: Serialize,
    {
        json(action)
    }

    /// Gives an input from a transport to a client.
    fn handle(client: &mut Client<Self>, now: Time, input: Input) -> Result<(), InputError>
    where
        Self: Sized;
}

impl JournalBinding for Messages {}

impl Format for Messages {
    fn form(&self) -> BindingForm<'static> {
        BindingForm::Messages
    }

    fn handle(client: &mut Client<Self>, now: Time, input: Input) -> Result<(), InputError> {
        if let Input::Message { connection, bytes } = input {
            client.handle_message(now, connection, &bytes);
        } else if let Input::Transport { connection, event } = input {
            client.handle_transport(now, connection, event.as_transport());
        } else {
            return Err(InputError::OtherBinding { binding: "messages".into() });
        }
        Ok(())
    }
}

impl JournalBinding for Lines {}

impl Format for Lines {
    fn form(&self) -> BindingForm<'static> {
        BindingForm::Lines
    }

    fn handle(client: &mut Client<Self>, now: Time, input: Input) -> Result<(), InputError> {
        if let Input::Bytes { connection, bytes } = input {
            client.handle_bytes(now, connection, &bytes);
        } else if let Input::Transport { connection, event } = input {
            client.handle_transport(now, connection, event.as_transport());
        } else {
            return Err(InputError::OtherBinding { binding: "lines".into() });
        }
        Ok(())
    }
}

#[cfg(feature = "http")]
impl JournalBinding for Http {}

#[cfg(feature = "http")]
impl Format for Http {
    fn form(&self) -> BindingForm<'static> {
        BindingForm::Http { url: self.redacted_url().into() }
    }

    fn mask_given(&self, secrets: &mut Secrets, header: &mut String) {
        let Some(secret) = self.user_secret() else { return };
        if let Some(mask) = secrets.add_given(&secret.text) {
            let user = secret.masked("redacted", &mask);
            *header = header.replacen("://redacted@", &format!("://{user}@"), 1);
        }
    }

    fn abandoned(action: &HttpAction) -> Option<StreamKey> {
        match action {
            HttpAction::Drop(exchange) => Some((0, exchange.as_u64())),
            #[cfg(feature = "oauth")]
            HttpAction::OAuth(action) => super::oauth::abandoned(action),
            HttpAction::Request(_) | HttpAction::Event(_) => None,
        }
    }

    #[cfg(feature = "oauth")]
    fn authorization(&self, secrets: &mut Secrets) -> Option<Box<RawValue>> {
        self.oauth().and_then(|authorization| super::oauth::header(authorization, secrets))
    }

    #[cfg(feature = "oauth")]
    fn drawn(client: &Client<Self>) -> Vec<(String, &'static str)> {
        let drawn = client.binding.oauth().into_iter().flat_map(|authorization| authorization.drawn());
        drawn.map(|(secret, mask)| (secret.expose().into(), mask)).collect()
    }

    #[cfg(feature = "oauth")]
    fn part(client: &Client<Self>, input: &Input) -> Part {
        super::oauth::part(client.binding.oauth(), input)
    }

    #[cfg(feature = "oauth")]
    fn shown(client: &Client<Self>, input: &Input, secrets: &mut Secrets) -> String {
        super::oauth::shown(client.binding.oauth(), input, secrets)
    }

    #[cfg(feature = "oauth")]
    fn shown_action(action: &HttpAction, secrets: &mut Secrets) -> String {
        if let HttpAction::OAuth(action) = action { super::oauth::action(action, secrets) } else { json(action) }
    }

    fn handle(client: &mut Client<Self>, now: Time, input: Input) -> Result<(), InputError> {
        if let Input::Head { exchange, status, headers } = input {
            client.handle_head(now, exchange, status, &headers);
        } else if let Input::Body { exchange, bytes } = input {
            client.handle_body(now, exchange, &bytes);
        } else if let Input::End { exchange } = input {
            client.handle_end(now, exchange);
        } else if let Input::Failure { exchange, broken, why } = input {
            client.handle_failure(now, exchange, broken, &why);
        } else if let Some(handled) = handle_oauth(client, now, &input) {
            return handled;
        } else {
            return Err(InputError::OtherBinding { binding: "http".into() });
        }
        Ok(())
    }
}

#[cfg(feature = "oauth")]
fn handle_oauth(client: &mut Client<Http>, now: Time, input: &Input) -> Option<Result<(), InputError>> {
    let Input::OAuth(report) = input else { return None };
    let is_ours = client.handle_oauth(now, report.as_input());
    let is_redirect = matches!(report, OAuthReport::Redirect(_)) && client.binding.oauth().is_some();
    Some(match is_ours {
        true => Ok(()),
        false if is_redirect => Err(InputError::OtherRedirect),
        false => Err(InputError::NoAuthorization),
    })
}

#[cfg(all(feature = "http", not(feature = "oauth")))]
const fn handle_oauth(_: &mut Client<Http>, _: Time, _: &Input) -> Option<Result<(), InputError>> {
    None
}

/// What can be recorded: a [`Client`] over any binding, and a [`Hub`](crate::host::hub::Hub). It is implemented in this
/// crate only.
pub trait Recordable: Subject {}

/// What a journal needs from a client or a hub.
pub trait Subject {
    /// A command, as a value.
    type Command: Clone + Debug + Serialize + DeserializeOwned;
    /// What an accepted command returns.
    type Accepted: Debug + Serialize;
    /// Why a command was refused.
    type Refused: Debug + Display;
    /// An input, as a value.
    type Input: Clone + Debug + Serialize + DeserializeOwned;
    /// What the embedder has to do next.
    type Action: Debug + Serialize;

    /// Applies a command.
    fn command(&mut self, now: Time, command: Self::Command) -> Result<Self::Accepted, Self::Refused>;

    /// Takes an input.
    fn give(&mut self, now: Time, input: Self::Input) -> Result<(), InputError>;

    /// The next action.
    fn next(&mut self) -> Option<Self::Action>;

    /// Whether this is the serialized form of an input, and not of a command.
    fn is_input(json: &RawValue) -> bool;

    /// Whether the journal has the result of an input.
    fn has_result(input: &Self::Input) -> bool;

    /// What an input is to the bytes from a server.
    fn part(&self, input: &Self::Input) -> Part;

    /// The bytes of a chunk.
    fn bytes(input: &mut Self::Input) -> Option<&mut Box<[u8]>>;

    /// The stream that nothing is reported of after this action.
    fn abandoned(action: &Self::Action) -> Option<StreamKey>;

    /// A command as it is recorded.
    fn shown_command(&self, command: &Self::Command, _: &mut Masks, _: &mut Secrets) -> String {
        json(command)
    }

    /// An input as it is recorded.
    fn shown(&self, input: &Self::Input, _: &mut Secrets) -> String {
        json(input)
    }

    /// An action as it is recorded.
    fn shown_action(action: &Self::Action, _: &mut Secrets) -> String {
        json(action)
    }

    /// Masks a secret that it was given, in these and in the header of a journal that was not begun.
    fn mask_given(&self, _: &mut Secrets, _: &mut String) {}

    /// The secrets that an authorization has drawn, each with its mask.
    fn drawn(&self) -> Vec<(String, &'static str)> {
        Vec::new()
    }
}

/// Tag and contents of a serialized command or input.
#[derive(Deserialize)]
pub(super) struct Tagged<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) tag: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) value: Option<&'a RawValue>,
}

impl<B: JournalBinding> Recordable for Client<B> {}

impl<B: JournalBinding> Subject for Client<B> {
    type Command = Command;
    type Accepted = Option<RequestId>;
    type Refused = CommandError;
    type Input = Input;
    type Action = B::Action;

    fn command(&mut self, now: Time, command: Command) -> Result<Option<RequestId>, CommandError> {
        self.apply(now, command)
    }

    fn give(&mut self, now: Time, input: Input) -> Result<(), InputError> {
        self.handle_input(now, input)
    }

    fn next(&mut self) -> Option<B::Action> {
        self.poll()
    }

    fn is_input(json: &RawValue) -> bool {
        serde_json::from_str(json.get()).is_ok_and(|Tagged { tag, .. }| Input::has_tag(&tag))
    }

    fn has_result(input: &Input) -> bool {
        input.has_result()
    }

    fn part(&self, input: &Input) -> Part {
        B::part(self, input)
    }

    fn bytes(input: &mut Input) -> Option<&mut Box<[u8]>> {
        input.bytes()
    }

    fn abandoned(action: &B::Action) -> Option<StreamKey> {
        B::abandoned(action)
    }

    fn shown(&self, input: &Input, secrets: &mut Secrets) -> String {
        B::shown(self, input, secrets)
    }

    fn shown_action(action: &B::Action, secrets: &mut Secrets) -> String {
        B::shown_action(action, secrets)
    }

    fn mask_given(&self, secrets: &mut Secrets, header: &mut String) {
        self.binding.mask_given(secrets, header);
    }

    fn drawn(&self) -> Vec<(String, &'static str)> {
        B::drawn(self)
    }
}
