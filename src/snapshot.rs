//! Sessions as values (feature `snapshot`): the document, its checksum, its errors.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::fmt;
use core::hash::Hasher;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use siphasher::sip128::{Hasher128, SipHasher13};

use crate::Time;
use crate::jsonrpc::Json;

/// The format of [`Snapshot::state`]. It changes with every change of a type in it.
const FORMAT: u32 = 12;

/// The version of the crate.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Maximum levels of the state outside of messages.
const LEVELS: usize = 48;

/// A session at one moment: a [`Client`](crate::Client) or a [`Hub`](crate::host::hub::Hub), with its requests,
/// deadlines, lists and outputs. The [guide](crate::guide::moving) describes its use.
///
/// It is serialized with any serde format: format, version and kind, the time of the session's last input, a checksum,
/// and the state, which is a JSON text. It applies to the version of this crate that made it. The checksum detects
/// damage; it is not a signature, so restore only what no one else could write.
///
/// It contains parameters and results of requests as they are. Options are not in it. The id of an HTTP session and
/// addresses that the server named are in it with [`Secrets::Included`]; in that of a hub, the configuration entries of
/// sessions that are closing, with their headers, too. `Debug` shows none of these.
#[derive(Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Zero for a document that lacks a member.
    format: u32,
    version: Box<str>,
    kind: Box<str>,
    time: Time,
    secrets: bool,
    checksum: Box<str>,
    state: Box<str>,
}

/// The document. Any map is one, so that a foreign document is recognized as that.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Form<Text> {
    format: Option<u32>,
    version: Option<Text>,
    kind: Option<Text>,
    time: Option<Time>,
    secrets: Option<bool>,
    checksum: Option<Text>,
    state: Option<Text>,
}

impl Serialize for Snapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { format, version, kind, time, secrets, checksum, state } = self;
        Form {
            format: Some(*format),
            version: Some(version),
            kind: Some(kind),
            time: Some(*time),
            secrets: Some(*secrets),
            checksum: Some(checksum),
            state: Some(state),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Snapshot {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Form { format, version, kind, time, secrets, checksum, state } = Form::deserialize(deserializer)?;
        let whole = [&version, &kind, &checksum, &state].into_iter().all(Option::is_some);
        let format = format.filter(|_| whole && time.is_some() && secrets.is_some());
        Ok(Self {
            format: format.unwrap_or_default(),
            version: version.unwrap_or_default(),
            kind: kind.unwrap_or_default(),
            time: time.unwrap_or_default(),
            secrets: secrets.unwrap_or_default(),
            checksum: checksum.unwrap_or_default(),
            state: state.unwrap_or_default(),
        })
    }
}

/// Whether a snapshot contains what gives access to the server's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrets {
    /// The id of the HTTP session, and addresses that the server named. Without them an HTTP connection does not
    /// continue.
    Included,
    /// Neither. Over other transports there is no difference.
    Excluded,
}

/// What moved to the process that restores a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// The session with its transport: the process of a server, its pipes, HTTP exchanges in flight. The session
    /// continues as if it had not moved. Inputs name connections and exchanges as before.
    WithTransport,
    /// The session alone. Its transport ended at the time of the snapshot, as it does when its process ends.
    ///
    /// A request that was polled may have run: it ends with [`Outcome::Unknown`](crate::Outcome::Unknown), unless its
    /// [`Request`](crate::Request) or the options say that it may run twice. A request that was not polled is sent.
    /// The client reconnects as after any loss. Over HTTP with [`Secrets::Included`] the session of the server
    /// continues: only exchanges are lost, and a stream with event ids is resumed.
    WithoutTransport,
}

/// Why a snapshot is not restored. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// It is not a snapshot of this crate.
    #[error("this is not a snapshot of mcp-proto")]
    Foreign,
    /// Another version of this crate made it.
    #[error("the snapshot is of mcp-proto {found}, and this is {expected}; restore it with the version that made it")]
    Version {
        /// The version that made it, with its format.
        found: Box<str>,
        /// This version, with its format.
        expected: Box<str>,
    },
    /// It is of another kind of session.
    #[error("the snapshot is of a session of the kind `{found}`, and `{expected}` is expected")]
    Kind {
        /// The kind of the snapshot: `messages`, `lines`, `http` or `hub`.
        found: Box<str>,
        /// The kind of the session to restore.
        expected: &'static str,
    },
    /// The checksum does not match: it was changed or cut off.
    #[error("the snapshot is damaged: its checksum does not match")]
    Damaged,
    /// The checksum matches, and the state is not one of a session.
    #[error("the state in the snapshot is invalid: {why}")]
    Invalid {
        /// What is invalid.
        why: Box<str>,
    },
    /// It exceeds a limit of the given options.
    #[error("the snapshot has {found} of what `Limits::{limit}` limits to {most}")]
    Limit {
        /// The field of [`Limits`](crate::Limits).
        limit: &'static str,
        /// The value in the snapshot.
        found: usize,
        /// The limit.
        most: usize,
    },
    /// The configuration of a hub differs from that of the snapshot: in whether it has the server, whether that is
    /// enabled, in the kind of its transport, or in its filters.
    #[error("the entry of `{server}` differs from the one that the hub was saved with; configure the hub later")]
    Configuration {
        /// The server.
        server: Box<str>,
    },
    /// It was made with [`Secrets::Excluded`], and cannot continue [`Moved::WithTransport`].
    #[error(
        "the snapshot has no session id, so the HTTP connection does not continue: restore it without its transport"
    )]
    NoSecrets,
}

impl Snapshot {
    pub(crate) fn seal(kind: &str, time: Time, secrets: Secrets, state: &impl Serialize) -> Self {
        // Memory takes every byte, and no map of a session has keys that JSON lacks.
        let state = serde_json::to_string(state).unwrap_or_default().into();
        let secrets = secrets == Secrets::Included;
        let sealed = Self {
            format: FORMAT,
            version: VERSION.into(),
            kind: kind.into(),
            time,
            secrets,
            checksum: "".into(),
            state,
        };
        Self { checksum: sealed.digest().into(), ..sealed }
    }

    /// The state, if the document is whole and of this kind. `depth` is the maximum depth of messages.
    pub(crate) fn open<T: DeserializeOwned>(&self, kind: &'static str, depth: usize) -> Result<T, SnapshotError> {
        if self.format == 0 {
            return Err(SnapshotError::Foreign);
        }
        if self.format != FORMAT || *self.version != *VERSION {
            let named = |version: &str, format: u32| format!("{version}, format {format}").into();
            let (found, expected) = (named(shortened(&self.version), self.format), named(VERSION, FORMAT));
            return Err(SnapshotError::Version { found, expected });
        }
        if *self.checksum != *self.digest() {
            return Err(SnapshotError::Damaged);
        }
        if *self.kind != *kind {
            return Err(SnapshotError::Kind { found: shortened(&self.kind).into(), expected: kind });
        }
        if Json::checked(&self.state, depth.saturating_add(LEVELS)).is_none() {
            return Err(invalid("it is not JSON, or nests too deep"));
        }
        serde_json::from_str(&self.state).map_err(|why| invalid(&format!("{why}")))
    }

    /// The time of the session's last input. The clock of the process that restores it continues from there.
    pub const fn time(&self) -> Time {
        self.time
    }

    /// Whether it was made with secrets.
    pub const fn secrets(&self) -> Secrets {
        if self.secrets { Secrets::Included } else { Secrets::Excluded }
    }

    fn digest(&self) -> String {
        let Self { format, version, kind, time, secrets, checksum: _, state } = self;
        let mut hasher = SipHasher13::new();
        for text in [version, kind, state] {
            hasher.write(&(text.len() as u64).to_le_bytes());
            hasher.write(text.as_bytes());
        }
        hasher.write(&format.to_le_bytes());
        hasher.write(&time.as_micros().to_le_bytes());
        hasher.write(&[u8::from(*secrets)]);
        format!("{:032x}", hasher.finish128().as_u128())
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("version", &self.version)
            .field("kind", &self.kind)
            .field("time", &self.time)
            .field("bytes", &self.state.len())
            .finish_non_exhaustive()
    }
}

pub(crate) fn invalid(why: &str) -> SnapshotError {
    SnapshotError::Invalid { why: why.into() }
}

/// Checks a number against a limit of the options.
pub(crate) const fn within(limit: &'static str, found: usize, most: usize) -> Result<(), SnapshotError> {
    if found <= most { Ok(()) } else { Err(SnapshotError::Limit { limit, found, most }) }
}

/// The beginning of a text from outside, for a message.
fn shortened(text: &str) -> &str {
    text.char_indices().nth(40).map_or(text, |(end, _)| text.get(..end).unwrap_or_default())
}
