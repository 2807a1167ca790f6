//! Why a server cannot be used, with the cause first.

mod cause;
mod words;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use self::cause::Source;
pub use self::cause::{FailureCause, FailureStage};
pub use self::words::LastWords;
use self::words::plain;
use crate::client::{Engine, Failure, FailureKind, Quirk};
use crate::machine::QuirkKind;
use crate::text::{cut, shown};

/// How many pieces of evidence there are at most, and characters of each and of a finding.
const EVIDENCE: usize = 8;
const LONGEST: usize = 500;

/// What a failure comes from: its cause in words that a user can search for, what to do, and the evidence. It is made of the
/// failure, the client's state, and the standard error of the program.
///
/// It holds only what servers and programs said, each text cut to a line or two. Known tokens are not in it; what else the
/// embedder gave a program as a secret is the embedder's to hide.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Diagnosis {
    /// The failure.
    pub failure: Failure,
    /// Its cause.
    pub cause: FailureCause,
    /// The server's name, and what is wrong: `node: GITHUB_TOKEN is not set (exit status 1)`.
    pub finding: Box<str>,
    /// What shows it: what the program said, deviations before the failure. At most eight texts.
    pub evidence: Vec<Box<str>>,
}

impl Diagnosis {
    /// Finds the cause of a failure of a client, whose program said this on standard error. Of a server over HTTP, that is
    /// nothing.
    pub fn new(failure: Failure, engine: &Engine, words: &LastWords) -> Self {
        let full = engine.server_name();
        // The address is in the message.
        let name = full.rsplit_once(" (").filter(|(_, address)| address.contains("://")).map_or(full, |(name, _)| name);
        Self::of(failure, (name, full), engine.quirks(), words)
    }

    /// Finds the cause of a failure without the client, of the server of this name: it was not made, or is gone.
    pub fn of_server(failure: Failure, server: &str, words: &LastWords) -> Self {
        Self::of(failure, (server, server), &[], words)
    }

    /// What failed.
    pub const fn stage(&self) -> FailureStage {
        self.cause.stage()
    }

    /// What can be done.
    pub const fn advice(&self) -> &'static str {
        self.cause.advice()
    }

    /// `full`: the server's name in messages.
    fn of(failure: Failure, (server, full): (&str, &str), quirks: &[Quirk], words: &LastWords) -> Self {
        let noise: Vec<&str> =
            quirks.iter().filter(|quirk| quirk.kind == QuirkKind::Noise).map(|quirk| &*quirk.detail).collect();
        // A name may have the words of a cause in it.
        let message = plain(failure.message.strip_prefix(full).unwrap_or(&failure.message));
        let message = &*message;
        let (cause, said) = find(failure.kind, message, &noise, words);
        // `exit status 1`, `signal 9, SIGKILL`.
        let plain = |status: &str| status.replacen(": ", " ", 1).replace(" (", ", ").replace(')', "");
        let status = exit_status(message)
            .filter(|_| failure.kind == FailureKind::Closed)
            .map(|status| format!(" ({})", plain(status)))
            .unwrap_or_default();
        let what = match cause.finding() {
            "" => said.clone(),
            // A program that ended says more than its cause.
            _ if !status.is_empty()
                && !said.is_empty()
                && cause.stage() == FailureStage::Spawn
                && !cause.is_a_wait() =>
            {
                said.clone()
            }
            finding => {
                let url = address(&said).map(|url| format!(" at {}", shown(url))).unwrap_or_default();
                let command = said.split('`').nth(1).filter(|command| *command != server);
                let command = command.map(|command| format!(": `{command}`")).unwrap_or_default();
                finding.replace("%url", &url).replace("%command", &command)
            }
        };
        let mut evidence: Vec<Box<str>> = Vec::new();
        let lines = [said, words.line()].into_iter().filter(|line| !line.is_empty());
        let quirks = quirks.iter().map(|quirk| plain(&format!("{}: {}", quirk.kind, quirk.detail)));
        for text in lines.chain(quirks) {
            let text = cut(&text, LONGEST);
            if evidence.len() < EVIDENCE && !evidence.iter().any(|it| **it == *text) {
                evidence.push(text.into());
            }
        }
        let server = if server.is_empty() { String::new() } else { format!("{server}: ") };
        let finding = [server, cut(&what, LONGEST).into(), status].concat().into();
        Self { finding, cause, failure, evidence }
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}. {}", self.finding, self.advice())
    }
}

impl core::error::Error for Diagnosis {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.failure)
    }
}

/// The cause of a failure, and the words that show it.
fn find(kind: FailureKind, message: &str, noise: &[&str], words: &LastWords) -> (FailureCause, String) {
    let lower = message.to_ascii_lowercase();
    let by = |source, default| FailureCause::of(source, &lower).unwrap_or(default);
    let why = || why(message).into();
    match kind {
        FailureKind::Spawn => (by(Source::Start, FailureCause::NotStarted), why()),
        FailureKind::Connect => (by(Source::Network, FailureCause::Unreachable), why()),
        FailureKind::HandshakeTimeout => silent(noise, words),
        FailureKind::HandshakeRejected => {
            let refused = FailureCause::HandshakeRefused;
            let cause = FailureCause::of(Source::Answer, &lower).or_else(|| FailureCause::of(Source::Words, &lower));
            (cause.unwrap_or(refused), why())
        }
        FailureKind::UnsupportedVersion => (FailureCause::VersionUnsupported, why()),
        FailureKind::Protocol => match (noise.first(), FailureCause::of(Source::Answer, &lower)) {
            (_, Some(cause)) => (cause, why()),
            (Some(noise), None) => serves_http(noise).unwrap_or_else(|| (FailureCause::NotMcp, (*noise).into())),
            (None, None) => (FailureCause::AnswerInvalid, why()),
        },
        FailureKind::ListFailed => (by(Source::Answer, FailureCause::ListFailed), why()),
        FailureKind::Closed => closed(message, &lower, noise, words),
        FailureKind::Unauthorized => {
            let is_answer = lower.contains("http 401") || lower.contains("authorization");
            (if is_answer { FailureCause::TokenRequired } else { FailureCause::SignInFailed }, why())
        }
        FailureKind::Forbidden => (by(Source::Answer, FailureCause::AccessRefused), why()),
        FailureKind::Overrun => (FailureCause::Overrun, why()),
    }
}

/// A server that does not answer: what it waits for, what else it says, or nothing.
fn silent(noise: &[&str], words: &LastWords) -> (FailureCause, String) {
    if let Some(found) = noise.iter().find_map(|noise| serves_http(noise)) {
        return found;
    }
    if let Some((cause, line)) = words.waits() {
        return (cause, line.into());
    }
    let line = words.line();
    if words.has_error() {
        let cause = FailureCause::of(Source::Words, &line.to_ascii_lowercase());
        return (cause.unwrap_or(FailureCause::Exited), line);
    }
    match noise.first() {
        Some(noise) => (FailureCause::NotMcp, (*noise).into()),
        None => (FailureCause::Silent, line),
    }
}

/// A line of standard output with which a program says that it serves HTTP.
fn serves_http(noise: &str) -> Option<(FailureCause, String)> {
    let cause = FailureCause::of(Source::Words, &noise.to_ascii_lowercase());
    cause.filter(|cause| cause.is_a_wait()).map(|cause| (cause, noise.into()))
}

/// A connection that ended. A program that ended has a status.
fn closed(message: &str, lower: &str, noise: &[&str], words: &LastWords) -> (FailureCause, String) {
    let Some(status) = exit_status(message) else {
        let expires = FailureCause::of(Source::Answer, lower).filter(|cause| *cause == FailureCause::SessionsExpire);
        let why = why(message);
        let cause = expires.or_else(|| FailureCause::of(Source::Network, &why.to_ascii_lowercase()));
        return (cause.unwrap_or(FailureCause::ConnectionLost), why.into());
    };
    if let Some((cause, line)) = words.waits().filter(|_| !words.has_error()) {
        return (cause, line.into());
    }
    // Where a recording is played back, the words are in the message alone, after the status.
    let after = message.split_once(status).and_then(|(_, rest)| rest.split_once(": "));
    let line = Some(words.line()).filter(|line| !line.is_empty()).or_else(|| Some(after?.1.into())).unwrap_or_default();
    let cause = FailureCause::of(Source::Words, &line.to_ascii_lowercase());
    let default = match (status.starts_with("signal"), line.is_empty()) {
        (true, true) => FailureCause::Killed,
        (false, true) => {
            return noise.first().map_or((FailureCause::ExitedSilently, line), |noise| {
                serves_http(noise).unwrap_or_else(|| (FailureCause::NotMcp, (*noise).into()))
            });
        }
        (_, false) => FailureCause::Exited,
    };
    let said = if line.is_empty() { "a signal ended it".into() } else { line };
    (cause.unwrap_or(default), said)
}

/// How a program ended, as the standard library says it: `exit status: 1`, `signal: 9 (SIGKILL)`, `exit code: 1`.
fn exit_status(message: &str) -> Option<&str> {
    let start = ["exit status: ", "signal: ", "exit code: "].iter().filter_map(|form| message.find(form)).min()?;
    let rest = message.get(start..)?;
    Some(rest.split([';', ',', '\n']).next().unwrap_or(rest).trim_end())
}

/// The reason in a message of a failure: what follows the server and what failed.
fn why(message: &str) -> &str {
    message.split_once(": ").map_or(message, |(_, why)| why)
}

/// The first address in a line.
fn address(line: &str) -> Option<&str> {
    let start = line.find("http://").or_else(|| line.find("https://"))?;
    let rest = line.get(start..)?;
    let end = rest.find(|it: char| it.is_whitespace() || "\"'`)>]".contains(it)).unwrap_or(rest.len());
    rest.get(..end).map(|it| it.trim_end_matches(['.', ',', ';', '!']))
}
