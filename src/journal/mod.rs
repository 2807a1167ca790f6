//! A journal of the inputs and outputs of a client or a hub, and its replay (feature `journal`).
//!
//! A [`Recorder`] takes the place of a client or a hub, and writes a journal: text of one JSON object per line.
//! [`replay`] creates the client or hub again, gives it the recorded inputs at their recorded times, and compares its
//! outputs with the recorded ones. They are the same, or the first difference is an error that names its line. Neither
//! does I/O. [The guide](crate::guide::recording) describes the use.
//!
//! ```
//! use mcp_proto::journal::{Input, JournalLimits, Recorder, TransportEvent, replay};
//! use mcp_proto::{Action, Lines, Options, Time};
//!
//! let mut client = Recorder::new(Lines::new(), Options::new("my-host", "1.0"), 1, JournalLimits::default());
//! client.apply(Time::ZERO, Input::Open).unwrap();
//! let Some(Action::Open(connection)) = client.poll() else { panic!("a transport to open") };
//! let event = TransportEvent::Opened;
//! client.apply(Time::from_millis(3), Input::Transport { connection, event }).unwrap();
//! let Some(Action::Send(_discover)) = client.poll() else { panic!("the handshake") };
//!
//! let (_client, journal) = client.finish();
//! let replayed = replay(journal.as_bytes(), JournalLimits::default()).unwrap();
//! assert_eq!((replayed.inputs, replayed.actions), (2, 2));
//! assert!(replay(journal.replace("server/discover", "server/discovar").as_bytes(), JournalLimits::default()).is_err());
//! ```
//!
//! [`Recorder::of_hub`] records a [`Hub`](crate::host::hub::Hub) in the same way, with [`HubInput`] in place of [`Input`].
//!
//! # Format
//! The first line is the header: `journal` (the version of the format), `crate` (the version of this crate), `binding`
//! (`hub` for a hub), `options`, `seed`. Each further line has `at`, the microseconds since the embedder's epoch, and one of
//!
//! - `in`: an [`Input`] or [`HubInput`];
//! - `result`: the result of the command in the line before;
//! - `out`: an action that was polled, or `null` if there was none;
//! - `end`: an [`End`], in the last line.
//!
//! The last member of each line, `sum`, detects that a line was changed or moved. A line without it is accepted, so a
//! journal can be written or edited by hand. It does not protect against forgery.
//!
//! # Secrets
//! A journal over HTTP has `redacted` in place of session ids, of user information and query of addresses, and of the
//! values of headers that a client does not read. This changes nothing that a client decides, so the replay has the same
//! bytes. Headers that the embedder adds are not known here. The contents of messages and bodies are recorded as they
//! are, the arguments and results of tools among them: a journal is as confidential as these. Secrets that the embedder
//! names with [`Recorder::hide`] are in no line.
//!
//! In the configuration of a hub, masks such as `redacted-3` stand for the values of `env`, `headers` and `auth`, and for
//! user information and query of addresses. Equal values have equal masks, so a replay finds the same differences between
//! configurations. Commands and arguments of programs are recorded as they are.

mod apply;
mod binding;
mod error;
#[cfg(feature = "http")]
mod head;
mod held;
mod hub;
mod input;
mod line;
mod masks;
mod part;
mod reader;
mod recordable;
mod recorder;
mod replay;
mod scan;
mod secrets;
mod tape;

#[cfg(feature = "testkit")]
pub(crate) use reader::{Content, Kind, Line as JournalLine, Reader, parsed};

pub use binding::JournalBinding;
pub use error::JournalError;
pub use hub::{HubAccepted, HubApplyError, HubInput};
pub use input::{ApplyError, Input, TransportEvent};
pub use line::End;
pub use recordable::Recordable;
pub use recorder::Recorder;
pub use replay::{Played, Player, Replay, Replayed, replay};
pub use secrets::SecretError;

use line::FORMAT;

/// Limits on a journal. A recorder that reaches one ends the journal with [`End::Limit`]; a replay ends with
/// [`JournalError::Limit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JournalLimits {
    /// Bytes of one line; 16 MiB.
    pub line: usize,
    /// Lines; 1,000,000.
    pub entries: usize,
    /// Bytes of all lines; 64 MiB.
    pub bytes: usize,
}

impl Default for JournalLimits {
    fn default() -> Self {
        Self { line: 16 << 20, entries: 1_000_000, bytes: 64 << 20 }
    }
}
