//! The inputs of a hub as values, and the masks for the secrets of its configuration.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::time::Duration;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::input::{Part, StreamKey, Subject};
use super::secrets::Secrets;
use super::{Input, Recordable, json};
use crate::catalog::FingerprintKey;
use crate::host::Saved;
use crate::host::config::{Auth, Changes, Configuration, Endpoint, Entry, Texts};
use crate::host::hub::{CallError, CallId, Hub, HubAction, HubCommandError, SessionHandle};
use crate::{Request, RequestId, Time};

/// An input or a command of a [`Hub`], as a value. [`Hub::apply`] applies it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
#[non_exhaustive]
pub enum HubInput {
    /// [`Hub::configure`]. Serialized as a map of the valid entries, and `null` for each server whose entry has errors.
    #[serde(with = "configured")]
    Configure(Configuration),
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
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Box<RawValue>>,
        /// The call's timeout ([`Request::timeout`]), if it has its own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout: Option<Duration>,
        /// Whether progress is reported ([`Request::progress`]). `true` if it is left out.
        #[serde(default = "reported")]
        progress: bool,
    },
    /// [`Hub::cancel`].
    Cancel {
        /// The call.
        call: CallId,
    },
    /// [`Hub::handle_timeout`].
    Timeout,
    /// An input of a session's transport, or a command of a session. [`Input::Open`], [`Input::Close`],
    /// [`Input::Authorized`], [`Input::Timeout`], [`Input::Message`] and `Input::OAuth` are refused: the hub has its own,
    /// or none.
    Session {
        /// The session.
        session: SessionHandle,
        /// The input.
        input: Input,
    },
}

const fn reported() -> bool {
    true
}

impl HubInput {
    /// Whether it is a command, which a hub may refuse.
    pub const fn is_command(&self) -> bool {
        match self {
            Self::Configure(_)
            | Self::Restore { .. }
            | Self::Open
            | Self::Close
            | Self::Start { .. }
            | Self::Authorized { .. }
            | Self::Call { .. }
            | Self::Cancel { .. } => true,
            Self::Timeout => false,
            Self::Session { input, .. } => input.is_command(),
        }
    }
}

/// What an accepted [`HubInput`] returns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
#[non_exhaustive]
pub enum HubAccepted {
    /// Nothing.
    Done,
    /// [`HubInput::Configure`]: the difference from the configuration before.
    Configured(Changes),
    /// [`HubInput::Call`]: the call.
    Call(CallId),
    /// [`HubInput::Session`] with a request: the request.
    Request(RequestId),
}

/// Why a [`HubInput`] was not applied. Beyond the handling of deadlines that were due, it changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
#[non_exhaustive]
pub enum HubApplyError {
    /// The hub refused the command.
    #[error(transparent)]
    Command(#[from] HubCommandError),
    /// The hub refused the call.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A session of a hub has no such input.
    #[error("a session of a hub has no such input")]
    NotOfSession,
}

impl Hub {
    /// Applies an input or a command (feature `journal`).
    ///
    /// # Errors
    /// [`HubApplyError::Command`] and [`HubApplyError::Call`] if a command is refused, [`HubApplyError::NotOfSession`]
    /// for an input that sessions do not have.
    pub fn apply(&mut self, now: Time, input: HubInput) -> Result<HubAccepted, HubApplyError> {
        match input {
            HubInput::Configure(configuration) => {
                return Ok(HubAccepted::Configured(self.configure(now, configuration)?));
            }
            HubInput::Restore { server, saved } => self.restore(now, &server, *saved)?,
            HubInput::Open => self.open(now)?,
            HubInput::Close => self.close(now)?,
            HubInput::Start { server } => self.start(now, &server)?,
            HubInput::Authorized { server } => self.authorized(now, &server)?,
            HubInput::Call { name, arguments, timeout, progress } => {
                let adapt = |mut request: Request| {
                    if let Some(timeout) = timeout {
                        request = request.timeout(timeout);
                    }
                    request.progress(progress)
                };
                return Ok(HubAccepted::Call(self.call_with(now, &name, arguments.as_deref(), adapt)?));
            }
            HubInput::Cancel { call } => self.cancel(now, call)?,
            HubInput::Timeout => self.handle_timeout(now),
            HubInput::Session { session, input } => return self.apply_to(now, session, input),
        }
        Ok(HubAccepted::Done)
    }

    fn apply_to(&mut self, now: Time, session: SessionHandle, input: Input) -> Result<HubAccepted, HubApplyError> {
        match input {
            Input::Request(request) => return Ok(HubAccepted::Request(self.request(now, session, request)?)),
            Input::Cancel { request, reason: None } => self.cancel_request(now, session, request)?,
            Input::Cancel { request, reason: Some(reason) } => {
                self.cancel_request_with_reason(now, session, request, &reason)?;
            }
            Input::Notify { method, params } => {
                self.notify(now, session, method.into_string(), params.as_deref())?;
            }
            Input::Provide { request, responses } => {
                let responses = responses.iter().map(|(key, response)| (&**key, &**response));
                self.provide(now, session, request, responses)?;
            }
            Input::Decline { request } => self.decline(now, session, request)?,
            Input::Respond { request, response: Ok(result) } => self.respond(now, session, request, Ok(&result))?,
            Input::Respond { request, response: Err(error) } => self.respond(now, session, request, Err(error))?,
            Input::Subscribe { uri } => self.subscribe(now, session, &uri)?,
            Input::Unsubscribe { uri } => self.unsubscribe(now, session, &uri)?,
            Input::SetLogLevel { level } => self.set_log_level(now, session, level)?,
            Input::SetRoots { roots } => self.set_roots(now, session, roots)?,
            Input::Refresh { family } => self.refresh(now, session, family)?,
            Input::Bytes { connection, bytes } => self.handle_bytes(now, session, connection, &bytes),
            Input::Transport { connection, event } => {
                self.handle_transport(now, session, connection, event.as_transport());
            }
            #[cfg(feature = "http")]
            Input::Head { exchange, status, headers } => self.handle_head(now, session, exchange, status, &headers),
            #[cfg(feature = "http")]
            Input::Body { exchange, bytes } => self.handle_body(now, session, exchange, &bytes),
            #[cfg(feature = "http")]
            Input::End { exchange } => self.handle_end(now, session, exchange),
            #[cfg(feature = "http")]
            Input::Failure { exchange, broken, why } => self.handle_failure(now, session, exchange, broken, &why),
            Input::Open | Input::Close | Input::Authorized | Input::Timeout | Input::Message { .. } => {
                return Err(HubApplyError::NotOfSession);
            }
            // The journal of a hub has no authorizations.
            #[cfg(feature = "oauth")]
            Input::OAuth(_) => return Err(HubApplyError::NotOfSession),
        }
        Ok(HubAccepted::Done)
    }
}

impl Recordable for Hub {}

impl Subject for Hub {
    type Input = HubInput;
    type Accepted = HubAccepted;
    type Error = HubApplyError;
    type Action = HubAction;

    fn give(&mut self, now: Time, input: HubInput) -> Result<HubAccepted, HubApplyError> {
        self.apply(now, input)
    }

    fn next(&mut self) -> Option<HubAction> {
        self.poll()
    }

    fn is_command(input: &HubInput) -> bool {
        input.is_command()
    }

    fn part(&self, input: &HubInput) -> Part {
        if let HubInput::Session { session, input } = input { input.part(session.as_u64()) } else { Part::Other }
    }

    fn bytes(input: &mut HubInput) -> Option<&mut Box<[u8]>> {
        if let HubInput::Session { input, .. } = input { input.bytes() } else { None }
    }

    #[cfg(feature = "http")]
    fn abandoned(action: &HubAction) -> Option<StreamKey> {
        if let HubAction::Drop { session, exchange } = action {
            Some((session.as_u64(), exchange.as_u64()))
        } else {
            None
        }
    }

    #[cfg(not(feature = "http"))]
    fn abandoned(_: &HubAction) -> Option<StreamKey> {
        None
    }

    fn shown(&self, input: &HubInput, masks: &mut Masks, secrets: &mut Secrets) -> String {
        match input {
            HubInput::Configure(configuration) => {
                json(&HubInput::Configure(masks.configuration(self.configuration(), configuration, secrets)))
            }
            HubInput::Restore { server, saved } => {
                let mut shown = (**saved).clone();
                shown.key = FingerprintKey::new([0; 16]);
                // It applies to the masked entry if it does to the entry.
                let entry = self.handle(server).and_then(|session| self.entry(session));
                if let Some(entry) = entry.filter(|entry| saved.is_of(entry)) {
                    shown.entry = masks.entry(entry, secrets).fingerprint(shown.key);
                }
                // And to the user of the hub if it did under the key before.
                if let Some(user) = self.user().filter(|user| saved.is_for(Some(user))) {
                    shown = shown.of_user(user);
                }
                json(&HubInput::Restore { server: server.clone(), saved: Box::new(shown) })
            }
            HubInput::Open
            | HubInput::Close
            | HubInput::Start { .. }
            | HubInput::Authorized { .. }
            | HubInput::Call { .. }
            | HubInput::Cancel { .. }
            | HubInput::Timeout
            | HubInput::Session { .. } => json(input),
        }
    }
}

mod configured {
    use super::*;

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

/// The secrets of the hub's configuration and of the newest one, each with a number: equal ones have the same, so that a replay finds the same
/// differences between configurations.
#[derive(Debug, Default)]
pub struct Masks {
    numbers: BTreeMap<Box<str>, u64>,
    last: u64,
}

impl Masks {
    /// The configuration with masks in place of values of `env`, `headers`, `auth` and `oauth.client_secret`, and of user
    /// information and query of addresses. Secrets that are neither in this one nor in the `current` one, which stays if this one is refused, are
    /// forgotten.
    fn configuration(
        &mut self,
        current: &Configuration,
        configuration: &Configuration,
        secrets: &mut Secrets,
    ) -> Configuration {
        let before = core::mem::take(&mut self.numbers);
        let [_, masked] = [current, configuration].map(|configuration| {
            let mut masked = configuration.clone();
            masked.servers.values_mut().for_each(|entry| self.mask(entry, &before, secrets));
            masked
        });
        masked
    }

    /// An entry of the newest configuration.
    pub(super) fn entry(&mut self, entry: &Entry, secrets: &mut Secrets) -> Entry {
        let mut masked = entry.clone();
        self.mask(&mut masked, &BTreeMap::new(), secrets);
        masked
    }

    fn mask(&mut self, entry: &mut Entry, before: &BTreeMap<Box<str>, u64>, secrets: &mut Secrets) {
        match &mut entry.endpoint {
            Endpoint::Stdio(stdio) => self.values(&mut stdio.env, before),
            Endpoint::Http(http) => {
                self.values(&mut http.headers, before);
                let mask = self.mask_of(&http.url, before);
                http.url = address(&http.url, &mask, secrets).into();
                if let Some(Auth::Other(word)) = &mut http.auth {
                    *word = self.mask_of(word, before).into();
                }
                if let Some(secret) = http.oauth.as_mut().and_then(|oauth| oauth.client_secret.as_mut()) {
                    *secret = self.mask_of(secret, before).into();
                }
            }
        }
    }

    fn values(&mut self, texts: &mut Texts, before: &BTreeMap<Box<str>, u64>) {
        for value in texts.values_mut() {
            *value = self.mask_of(value, before).into();
        }
    }

    fn mask_of(&mut self, secret: &str, before: &BTreeMap<Box<str>, u64>) -> String {
        let number = match self.numbers.get(secret).or_else(|| before.get(secret)) {
            Some(number) => *number,
            None => {
                self.last = self.last.saturating_add(1);
                self.last
            }
        };
        self.numbers.insert(secret.into(), number);
        format!("redacted-{number}")
    }
}

#[cfg(feature = "http")]
fn address(url: &str, mask: &str, secrets: &mut Secrets) -> String {
    let Ok(url) = crate::binding::http::parse(url) else { return crate::text::shown(url) };
    // The session masks its credentials where its server repeats them, and a replay has to do the same.
    let user = crate::binding::http::user_secret(&url).and_then(|secret| {
        let own = secrets.add_given(&secret.text)?;
        Some(secret.masked(mask, &own))
    });
    crate::binding::http::masked_address(&url, user.as_deref().unwrap_or(mask), mask)
}

#[cfg(not(feature = "http"))]
fn address(url: &str, _: &str, _: &mut Secrets) -> String {
    crate::text::shown(url)
}
