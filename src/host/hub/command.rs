//! The commands of a hub as values, and those of its sessions.

use alloc::boxed::Box;
use core::time::Duration;
use serde_json::value::RawValue;

use super::event::{CallId, HubCommandError, SessionHandle};
use super::{Hub, Input};
use crate::Time;
use crate::client::{Command, Request, RequestId, TraceContext, command_methods};
use crate::host::Saved;
use crate::host::config::{Changes, Configuration};

/// A command of a [`Hub`], as a value. [`Hub::apply`] applies it.
#[derive(Clone, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "type", content = "value", rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum HubCommand {
    /// [`Hub::configure`]. Serialized as a map of the valid entries, which has their secrets, and `null` for each server whose
    /// entry has errors.
    Configure(#[cfg_attr(feature = "serde", serde(with = "configured"))] Configuration),
    /// [`Hub::restore`].
    Restore {
        /// The server.
        server: Box<str>,
        /// Its lists.
        saved: Box<Saved>,
    },
    /// [`Hub::open`].
    Open,
    /// [`Hub::close`].
    Close,
    /// [`Hub::start`].
    Start {
        /// The server.
        server: Box<str>,
    },
    /// [`Hub::authorized`].
    Authorized {
        /// The server.
        server: Box<str>,
    },
    /// [`Hub::call_with`].
    Call {
        /// The exposed name.
        name: Box<str>,
        /// The arguments.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        arguments: Option<Box<RawValue>>,
        /// The call's timeout ([`Request::timeout`]), if it has its own.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        timeout: Option<Duration>,
        /// Whether progress is reported ([`Request::progress`]). `true` if it is left out.
        #[cfg_attr(feature = "serde", serde(default = "reported"))]
        progress: bool,
        /// The trace that the call is part of ([`Request::trace`]).
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        trace: Option<TraceContext>,
    },
    /// [`Hub::cancel`], or [`Hub::cancel_with_reason`] if there is a reason.
    Cancel {
        /// The call.
        call: CallId,
        /// The reason.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        reason: Option<Box<str>>,
    },
    /// A command of a session: of [`Hub::session_mut`]. [`Command::Open`], [`Command::Close`] and [`Command::Authorized`] are
    /// refused: the hub has its own.
    Session {
        /// The session.
        session: SessionHandle,
        /// The command.
        command: Command,
    },
}

#[cfg(feature = "serde")]
const fn reported() -> bool {
    true
}

/// What an accepted [`HubCommand`] returns.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(tag = "type", content = "value", rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum HubAccepted {
    /// Nothing.
    Done,
    /// [`HubCommand::Configure`]: the difference from the configuration before.
    Configured(Changes),
    /// [`HubCommand::Call`]: the call.
    Call(CallId),
    /// [`HubCommand::Session`] with a request: the request.
    Request(RequestId),
}

impl Hub {
    /// Applies a command.
    ///
    /// # Errors
    /// Those of the command's method; for a call [`HubCommandError::Call`].
    pub fn apply(&mut self, now: Time, command: HubCommand) -> Result<HubAccepted, HubCommandError> {
        match command {
            HubCommand::Configure(configuration) => {
                return Ok(HubAccepted::Configured(self.configure(now, configuration)?));
            }
            HubCommand::Restore { server, saved } => self.restore(now, &server, *saved)?,
            HubCommand::Open => self.open(now)?,
            HubCommand::Close => self.close(now)?,
            HubCommand::Start { server } => self.start(now, &server)?,
            HubCommand::Authorized { server } => self.authorized(now, &server)?,
            HubCommand::Call { name, arguments, timeout, progress, trace } => {
                let adapt = |mut request: Request| {
                    if let Some(timeout) = timeout {
                        request = request.timeout(timeout);
                    }
                    if let Some(trace) = trace {
                        request = request.trace(trace);
                    }
                    request.progress(progress)
                };
                return Ok(HubAccepted::Call(self.call_with(now, &name, arguments.as_deref(), adapt)?));
            }
            HubCommand::Cancel { call, reason } => self.cancel_call(now, call, reason)?,
            HubCommand::Session { session, command } => {
                let requested = self.session_mut(session).apply(now, command)?;
                return Ok(requested.map_or(HubAccepted::Done, HubAccepted::Request));
            }
        }
        Ok(HubAccepted::Done)
    }

    /// A session, for its commands; [`session`](Self::session) has its getters. If there is no such session, each command is
    /// refused with [`HubCommandError::UnknownSession`].
    pub const fn session_mut(&mut self, session: SessionHandle) -> HubSession<'_> {
        HubSession { hub: self, session }
    }
}

/// A session of a [`Hub`], for the commands that it has in common with a [`Client`](crate::Client).
/// [`HubCommandError::Session`] has the error of the client.
#[derive(Debug)]
pub struct HubSession<'a> {
    hub: &'a mut Hub,
    session: SessionHandle,
}

impl HubSession<'_> {
    /// Applies a command. Returns the id of a request that was accepted, which ends with an event of the session.
    ///
    /// # Errors
    /// [`HubCommandError::UnknownSession`] if there is no such session; [`HubCommandError::NotOfSession`] for
    /// [`Command::Open`], [`Command::Close`] and [`Command::Authorized`]; [`HubCommandError::Session`] if the session
    /// refuses.
    pub fn apply(&mut self, now: Time, command: Command) -> Result<Option<RequestId>, HubCommandError> {
        let input = match command {
            Command::Open | Command::Close | Command::Authorized => return Err(HubCommandError::NotOfSession),
            Command::Request(_) | Command::Subscribe { .. } => Some(Input::Called),
            Command::Cancel { .. }
            | Command::Notify { .. }
            | Command::Provide { .. }
            | Command::Decline { .. }
            | Command::Respond { .. }
            | Command::Unsubscribe { .. }
            | Command::SetLogLevel { .. }
            | Command::SetRoots { .. }
            | Command::Refresh { .. } => None,
        };
        self.hub.command(input, now, self.session, |engine, now| engine.apply(now, command))
    }

    /// Queues a request; it is sent as soon as the session is ready, and ends with an event of the session.
    ///
    /// # Errors
    /// As of [`apply`](Self::apply).
    pub fn request(&mut self, now: Time, request: Request) -> Result<RequestId, HubCommandError> {
        self.hub.command(Some(Input::Called), now, self.session, |engine, now| engine.request(now, request))
    }

    command_methods!(session, HubCommandError);
}

#[cfg(feature = "serde")]
mod configured {
    use alloc::collections::BTreeMap;
    use alloc::sync::Arc;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::host::config::Configuration;

    pub(super) fn serialize<S: Serializer>(configuration: &Configuration, serializer: S) -> Result<S::Ok, S::Error> {
        let faulty = configuration.errors.iter().map(|error| (Arc::clone(&error.server), None));
        let mut entries: BTreeMap<Arc<str>, _> = faulty.collect();
        entries.extend(configuration.servers.iter().map(|(server, entry)| (Arc::from(&**server), Some(entry))));
        entries.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Configuration, D::Error> {
        Configuration::deserialize(deserializer)
    }
}
