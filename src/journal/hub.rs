//! The inputs of a hub as values, and the masks for the secrets of its configuration.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::input::{Part, StreamKey, Subject, Tagged};
use super::secrets::Secrets;
use super::{Input, InputError, Recordable, json};
use crate::Time;
use crate::catalog::FingerprintKey;
use crate::host::config::{Auth, Configuration, Endpoint, Entry, Texts};
use crate::host::hub::{Hub, HubAccepted, HubAction, HubCommand, HubCommandError, SessionHandle};

/// An input of a [`Hub`], as a value. [`Hub::handle_input`] takes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
#[non_exhaustive]
pub enum HubInput {
    /// [`Hub::handle_timeout`].
    Timeout,
    /// An input of a session's transport. [`Input::Timeout`], [`Input::Message`] and `Input::OAuth` are refused: the hub has
    /// its own, or none.
    Session {
        /// The session.
        session: SessionHandle,
        /// The input.
        input: Input,
    },
}

impl Hub {
    /// Takes an input (feature `journal`), as its method does.
    ///
    /// # Errors
    /// [`InputError::NotOfSession`] for an input that sessions do not have.
    pub fn handle_input(&mut self, now: Time, input: HubInput) -> Result<(), InputError> {
        let (session, input) = match input {
            HubInput::Timeout => {
                self.handle_timeout(now);
                return Ok(());
            }
            HubInput::Session { session, input } => (session, input),
        };
        match input {
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
            Input::Timeout | Input::Message { .. } => return Err(InputError::NotOfSession),
            // The journal of a hub has no authorizations.
            #[cfg(feature = "oauth")]
            Input::OAuth(_) => return Err(InputError::NotOfSession),
        }
        Ok(())
    }
}

impl Recordable for Hub {}

impl Subject for Hub {
    type Command = HubCommand;
    type Accepted = HubAccepted;
    type Refused = HubCommandError;
    type Input = HubInput;
    type Action = HubAction;

    fn command(&mut self, now: Time, command: HubCommand) -> Result<HubAccepted, HubCommandError> {
        self.apply(now, command)
    }

    fn give(&mut self, now: Time, input: HubInput) -> Result<(), InputError> {
        self.handle_input(now, input)
    }

    fn next(&mut self) -> Option<HubAction> {
        self.poll()
    }

    /// An input of a session has the tag that a command of a session has, and another member.
    fn is_input(json: &RawValue) -> bool {
        #[derive(Deserialize)]
        struct OfSession {
            #[serde(rename = "input")]
            _input: IgnoredAny,
        }
        let Ok(Tagged { tag, value }) = serde_json::from_str(json.get()) else { return false };
        let of_session = |value: &RawValue| serde_json::from_str::<OfSession>(value.get()).is_ok();
        tag == "timeout" || tag == "session" && value.is_some_and(of_session)
    }

    fn has_result(_: &HubInput) -> bool {
        false
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

    fn shown_command(&self, command: &HubCommand, masks: &mut Masks, secrets: &mut Secrets) -> String {
        match command {
            HubCommand::Configure(configuration) => {
                json(&HubCommand::Configure(masks.configuration(self.configuration(), configuration, secrets)))
            }
            HubCommand::Restore { server, saved } => {
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
                json(&HubCommand::Restore { server: server.clone(), saved: Box::new(shown) })
            }
            HubCommand::Open
            | HubCommand::Close
            | HubCommand::Start { .. }
            | HubCommand::Authorized { .. }
            | HubCommand::Call { .. }
            | HubCommand::Cancel { .. }
            | HubCommand::Session { .. } => json(command),
        }
    }
}

/// The secrets of the hub's configuration and of the newest one, each with a number: equal ones have the same, so that a replay
/// finds the same differences between configurations.
#[derive(Debug, Default)]
pub struct Masks {
    numbers: BTreeMap<Box<str>, u64>,
    last: u64,
}

impl Masks {
    /// The configuration with masks in place of values of `env`, `headers`, `auth` and `oauth.client_secret`, and of user
    /// information and query of addresses. Secrets that are neither in this one nor in the `current` one, which stays if this
    /// one is refused, are forgotten.
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
