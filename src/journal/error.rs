use alloc::boxed::Box;

use super::FORMAT;

/// Why a journal cannot be replayed, or where its replay differs. Lines are counted from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The first line is not the header of a journal.
    #[error("this is not a journal: its first line is no header: {why}")]
    NotAJournal {
        /// What is wrong with the line.
        why: Box<str>,
    },
    /// The journal has another format.
    #[error("the journal has format {found}, and this version of mcp-proto reads format {FORMAT}")]
    Format {
        /// The journal's format.
        found: u32,
    },
    /// The header names a binding that this build does not have.
    #[error("the journal is of a client over HTTP, for which mcp-proto needs the feature `http`")]
    NoHttp,
    /// The journal is of a hub, where one of a client is needed.
    #[error("the journal is of a hub, not of a client")]
    OfHub,
    /// The journal is of a client, where one of a hub is needed.
    #[error("the journal is of a client, not of a hub")]
    OfClient,
    /// The journal of a hub has no session of this server.
    #[error("the journal has no session of the server `{server}`")]
    NoServer {
        /// The server.
        server: Box<str>,
    },
    /// A line is not an entry of a journal.
    #[error("line {line} of the journal is invalid: {why}")]
    Invalid {
        /// The line.
        line: usize,
        /// What is wrong with it.
        why: Box<str>,
    },
    /// A line is not as it was recorded, or lines were added, removed or reordered.
    #[error("line {line} of the journal is not the line that was recorded there: it was changed or moved")]
    Changed {
        /// The line.
        line: usize,
    },
    /// What the client does differs from what was recorded.
    #[error("line {line} of the journal differs from byte {at} on: recorded is `{expected}`, replayed is `{got}`")]
    Differs {
        /// The line.
        line: usize,
        /// The first byte that differs, counted from 0 in the recorded value.
        at: usize,
        /// The recorded value around this byte.
        expected: Box<str>,
        /// The value of the replay around this byte.
        got: Box<str>,
    },
    /// The journal ends without its last line. Up to there the replay is the same.
    #[error("the journal is cut off after line {line}; up to there the replay is the same")]
    CutOff {
        /// The last complete line.
        line: usize,
    },
    /// The journal exceeds a limit.
    #[error("line {line} of the journal exceeds the limit on {what}, {limit}")]
    Limit {
        /// The line.
        line: usize,
        /// The limit, a field of [`JournalLimits`](super::JournalLimits).
        what: &'static str,
        /// Its value.
        limit: usize,
    },
}
