//! Why a server cannot be used, with the cause first.

mod cause;
mod stderr;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use self::cause::Source;
pub use self::cause::{FailureCause, FailureStage};
pub use self::stderr::StderrLines;
use self::stderr::plain;
use crate::client::{Engine, Failure, FailureKind, Quirk};
use crate::machine::{QuirkKind, Wire};
use crate::text::{cut, shown};

/// How many pieces of evidence there are at most, and characters of each and of a finding.
const EVIDENCE: usize = 8;
const LONGEST: usize = 500;
/// Characters of how a program ended: `signal: 6 (SIGABRT) (core dumped)`.
const LONGEST_STATUS: usize = 40;

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
    /// Finds the cause of a failure of a client, whose program wrote these lines to standard error. Of a server over HTTP,
    /// there are none.
    pub fn new(failure: Failure, engine: &Engine, stderr: &StderrLines) -> Self {
        let full = engine.server_name();
        // The address is in the message.
        let name = full.rsplit_once(" (").filter(|(_, address)| address.contains("://")).map_or(full, |(name, _)| name);
        let (is_http, is_introduced) = (engine.wire() == Wire::Http, engine.has_agreed());
        Self::of(failure, (name, full), (is_http, is_introduced), engine.quirks(), stderr)
    }

    /// Finds the cause of a failure without the client, of the server of this name: it was not made, or is gone.
    pub fn of_server(failure: Failure, server: &str, stderr: &StderrLines) -> Self {
        Self::of(failure, (server, server), (false, false), &[], stderr)
    }

    /// What failed.
    pub const fn stage(&self) -> FailureStage {
        self.cause.stage()
    }

    /// What can be done.
    pub const fn advice(&self) -> &'static str {
        self.cause.advice()
    }

    /// `full`: the server's name in messages. `is_introduced`: the handshake of the connection is over.
    fn of(
        failure: Failure,
        (server, full): (&str, &str),
        (is_http, is_introduced): (bool, bool),
        quirks: &[Quirk],
        stderr: &StderrLines,
    ) -> Self {
        let noise = quirks.iter().filter(|quirk| quirk.kind == QuirkKind::Noise);
        let noise: Vec<_> = noise.map(|quirk| plain(&quirk.detail)).collect();
        // A name may have the words of a cause in it.
        let message = plain(failure.message.strip_prefix(full).unwrap_or(&failure.message));
        let symptoms = Symptoms { message: &message, noise: &noise, stderr, is_http, is_introduced };
        let (cause, said) = symptoms.cause(failure.kind);
        // `exit status 1`, `signal 9, SIGKILL`.
        let short = |status: &str| status.replacen(": ", " ", 1).replace(" (", ", ").replace(')', "");
        let status = exit_status(&message).filter(|_| failure.kind == FailureKind::Closed);
        // `python3: /usr/bin/python3: can't open file …`.
        let own = said.split_once(": ").filter(|(program, _)| program.rsplit(['/', '\\']).next() == Some(server));
        let own = own.map_or(&*said, |(_, rest)| rest);
        let what = match cause.finding() {
            "" => own.into(),
            // The program is there: it names another one.
            _ if status.is_some() && matches!(cause, FailureCause::CommandNotFound | FailureCause::CommandFormat) => {
                own.into()
            }
            finding => {
                let url = address(&said).map(|url| format!(" at {}", shown(url))).unwrap_or_default();
                let command = said.split('`').nth(1).filter(|command| *command != server);
                let command = command.map(|command| format!(": `{command}`")).unwrap_or_default();
                finding.replace("%url", &url).replace("%command", &command)
            }
        };
        let mut evidence: Vec<Box<str>> = Vec::new();
        let lines = [said, stderr.reason()].into_iter().chain(noise).filter(|line| !line.is_empty());
        let quirks = quirks.iter().filter(|quirk| quirk.kind != QuirkKind::Noise);
        let quirks = quirks.map(|quirk| plain(&format!("{}: {}", quirk.kind, quirk.detail)));
        for text in lines.chain(quirks) {
            let text = cut(&text, LONGEST);
            if evidence.len() < EVIDENCE && !evidence.iter().any(|it| **it == *text) {
                evidence.push(text.into());
            }
        }
        let server = plain(server);
        let server = if server.is_empty() { server } else { format!("{}: ", cut(&server, LONGEST)) };
        let status = status.map(|status| format!(" ({})", short(status))).unwrap_or_default();
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

/// What shows the cause of a failure.
struct Symptoms<'a> {
    /// The failure's message, without the server's name.
    message: &'a str,
    /// What the program wrote to standard output that is no message.
    noise: &'a [String],
    stderr: &'a StderrLines,
    is_http: bool,
    is_introduced: bool,
}

impl Symptoms<'_> {
    /// The cause, and the text that shows it.
    fn cause(&self, kind: FailureKind) -> (FailureCause, String) {
        let lower = self.message.to_ascii_lowercase();
        let why = why(self.message);
        let by = |source, default| FailureCause::of(source, &lower).unwrap_or(default);
        let cause = match kind {
            FailureKind::Spawn => by(Source::Start, FailureCause::NotStarted),
            FailureKind::Connect => by(Source::Network, FailureCause::Unreachable),
            FailureKind::HandshakeTimeout => return self.silent(),
            FailureKind::HandshakeRejected => {
                // A server over HTTP is not the user's to install or to set up.
                let said = FailureCause::of(Source::Program, &why.to_ascii_lowercase()).filter(|_| !self.is_http);
                let said = said.filter(|cause| !cause.is_awaited());
                FailureCause::of(Source::Answer, &lower).or(said).unwrap_or(FailureCause::HandshakeRefused)
            }
            FailureKind::UnsupportedVersion => FailureCause::VersionUnsupported,
            FailureKind::Protocol => match FailureCause::of(Source::Answer, &lower) {
                Some(cause) => cause,
                None => return self.noise().unwrap_or_else(|| (FailureCause::AnswerInvalid, why.into())),
            },
            FailureKind::ListFailed => by(Source::Answer, FailureCause::ListFailed),
            FailureKind::Closed => return self.closed(&lower),
            FailureKind::Unauthorized if lower.contains("http 401") || lower.contains("requires authorization") => {
                FailureCause::TokenRequired
            }
            FailureKind::Unauthorized => FailureCause::SignInFailed,
            FailureKind::Forbidden => by(Source::Answer, FailureCause::AccessRefused),
            FailureKind::Overrun => FailureCause::Overrun,
        };
        (cause, why.into())
    }

    /// What the program writes to standard output in place of messages.
    fn noise(&self) -> Option<(FailureCause, String)> {
        let awaited = self.noise.iter().find_map(|noise| {
            let cause = FailureCause::of(Source::Program, &noise.to_ascii_lowercase());
            cause.filter(|cause| cause.is_awaited()).map(|cause| (cause, noise.clone()))
        });
        awaited.or_else(|| self.noise.first().map(|noise| (FailureCause::NotMcp, noise.clone())))
    }

    /// A server that does not answer: what it waits for, what else it says, or nothing.
    fn silent(&self) -> (FailureCause, String) {
        let line = self.stderr.reason();
        if self.is_introduced {
            return (FailureCause::ListSilent, line);
        }
        if let Some((cause, line)) = self.stderr.awaited() {
            return (cause, line.into());
        }
        if self.stderr.has_error() {
            return (program_cause(self.stderr).unwrap_or(FailureCause::Exited), line);
        }
        let silent = if self.is_http { FailureCause::NoAnswer } else { FailureCause::Silent };
        self.noise().unwrap_or((silent, line))
    }

    /// A connection that ended. A program that ended has a status.
    fn closed(&self, lower: &str) -> (FailureCause, String) {
        let Some(status) = exit_status(self.message) else {
            let expires = FailureCause::of(Source::Answer, lower).filter(|it| *it == FailureCause::SessionsExpire);
            let why = why(self.message);
            let cause = expires.or_else(|| FailureCause::of(Source::Network, &why.to_ascii_lowercase()));
            return (cause.unwrap_or(FailureCause::ConnectionLost), why.into());
        };
        // Where a recording is played back, the line is in the message alone, after the status.
        let after = self.message.split_once(status).and_then(|(_, rest)| rest.split_once("on standard error: "));
        let mut told = StderrLines::default();
        told.take(after.map_or("", |(_, line)| line).as_bytes());
        let stderr = if self.stderr.line().is_empty() { &told } else { self.stderr };
        let line = stderr.reason();
        let cause = program_cause(stderr);
        if lower.contains("closed input or output") {
            return (FailureCause::PipeClosed, line);
        }
        match (cause, status.starts_with("signal"), line.is_empty()) {
            (Some(cause), ..) => (cause, line),
            (None, true, _) if !stderr.has_error() => (FailureCause::Killed, line),
            (None, _, false) => (FailureCause::Exited, line),
            (None, _, true) => self.noise().unwrap_or((FailureCause::ExitedSilently, line)),
        }
    }
}

/// The cause that a program's own line gives away.
fn program_cause(stderr: &StderrLines) -> Option<FailureCause> {
    FailureCause::of(Source::Program, &stderr.line().to_ascii_lowercase())
}

/// How a program ended, as the standard library says it: `exit status: 1`, `signal: 9 (SIGKILL)`, `exit code: 1`.
fn exit_status(message: &str) -> Option<&str> {
    let start = ["exit status: ", "signal: ", "exit code: "].iter().filter_map(|form| message.find(form)).min()?;
    let rest = message.get(start..)?;
    let status = rest.split([';', ',']).next().unwrap_or(rest);
    let status = status.split(" (before").next().unwrap_or(status);
    // What looks like a status may be a server's text.
    let end = status.char_indices().nth(LONGEST_STATUS).map_or(status.len(), |(at, _)| at);
    Some(status.get(..end)?.trim_end())
}

/// The reason in a message of a failure: what follows the server and what failed.
fn why(message: &str) -> &str {
    message.split_once(": ").map_or(message, |(_, why)| why).trim_start()
}

/// The first address in a line.
fn address(line: &str) -> Option<&str> {
    let start = line.find("http://").or_else(|| line.find("https://"))?;
    let rest = line.get(start..)?;
    let end = rest.find(|it: char| it.is_whitespace() || "\"'`)>]".contains(it)).unwrap_or(rest.len());
    rest.get(..end).map(|it| it.trim_end_matches(['.', ',', ';', '!']))
}
