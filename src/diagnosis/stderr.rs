//! What a program says on its standard error, as far as it tells why it failed.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;

use super::cause::{FailureCause, Source};

/// Bytes of a line that are kept, and characters of one that are shown.
const LINE: usize = 512;
const SHOWN: usize = 300;
/// Lines that are kept: the first ones, in which a program says what it is, and the last ones, in which it says why it ends.
const FIRST: usize = 8;
const LAST: usize = 24;

/// Lines of a program's standard error that tell why it fails: 32 at most, each of 512 bytes at most, however much comes.
///
/// An error (`Error: …`, `error: …`, the last line of a Python traceback, the message of a panic of Rust or Go, what follows
/// `Caused by`, `npm error …`) counts more than other lines, a later one more than an earlier one. Frames of stacks and advice
/// such as `note: run with …` count for nothing.
///
/// ```
/// use mcp_proto::StderrLines;
///
/// let mut stderr = StderrLines::default();
/// stderr.take(b"Error: GITHUB_TOKEN is not set\n    at Module._compile (node:internal/modules:1554:14)\n\nNode.js v22\n");
/// assert_eq!(stderr.line(), "Error: GITHUB_TOKEN is not set");
/// ```
#[derive(Clone, Debug, Default)]
pub struct StderrLines {
    first: Vec<Box<[u8]>>,
    last: VecDeque<Box<[u8]>>,
    /// The line that has not ended, and whether more of it came than is kept.
    line: Vec<u8>,
    is_cut: bool,
}

#[derive(Debug, Default)]
struct Found {
    error: Option<Box<str>>,
    last: Box<str>,
    /// What it waits for.
    awaited: Option<(FailureCause, Box<str>)>,
    then: Then,
}

/// What the next line is, after a line that begins something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Then {
    #[default]
    Any,
    /// The message of a panic.
    Message,
    /// It continues the error.
    More,
    /// The cause of the error, from the outermost on.
    CausedBy,
}

impl StderrLines {
    /// Takes a piece of standard error, with or without whole lines.
    pub fn take(&mut self, piece: &[u8]) {
        for part in piece.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let (text, is_end) = match part.split_last() {
                Some((b'\n' | b'\r', text)) => (text, true),
                _ => (part, false),
            };
            let room = LINE.saturating_sub(self.line.len());
            self.is_cut |= text.len() > room;
            self.line.extend_from_slice(text.get(..room).unwrap_or(text));
            if is_end {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        if let Some(line) = self.kept() {
            if self.first.len() < FIRST {
                self.first.push(line);
            } else {
                if self.last.len() >= LAST {
                    self.last.pop_front();
                }
                self.last.push_back(line);
            }
        }
        self.line.clear();
        self.is_cut = false;
    }

    /// The line that has not ended as it is kept, unless it is empty or a frame of a stack: of those there may be many.
    fn kept(&self) -> Option<Box<[u8]>> {
        let text = self.line.trim_ascii_start();
        if text.is_empty() || text.starts_with(b"at ") {
            return None;
        }
        if !self.is_cut {
            return Some(self.line.as_slice().into());
        }
        // A secret that is cut has to be recognized.
        let text = String::from_utf8_lossy(&self.line);
        let most = text.chars().count().saturating_sub(1);
        Some(crate::text::cut(&text, most).as_bytes().into())
    }

    /// The line that says why it ended; else the one that says what it waits for; else the last one. Empty if there is none.
    pub fn line(&self) -> String {
        let found = self.found();
        let awaited = found.awaited.map(|(_, line)| line);
        found.error.or(awaited).unwrap_or(found.last).into()
    }

    /// The same, without what only marks it as an error.
    pub(super) fn reason(&self) -> String {
        let line = self.line();
        error_in(&line, &line.to_ascii_lowercase(), None).unwrap_or(&line).into()
    }

    /// What it waits for, and the line that says so, unless an error follows.
    pub(super) fn awaited(&self) -> Option<(FailureCause, Box<str>)> {
        self.found().awaited
    }

    /// Whether a line says that it failed.
    pub(super) fn has_error(&self) -> bool {
        self.found().error.is_some()
    }

    fn found(&self) -> Found {
        let mut found = Found::default();
        let rest = self.kept();
        for line in self.first.iter().chain(&self.last).chain(&rest) {
            found.take(line);
        }
        found
    }
}

impl Found {
    fn take(&mut self, line: &[u8]) {
        let line = plain(&String::from_utf8_lossy(line));
        let text = line.trim();
        if text.is_empty() {
            return;
        }
        let then = mem::take(&mut self.then);
        let is_indented = line.starts_with([' ', '\t']);
        if is_caused_by(text) {
            self.then = if self.error.is_some() { Then::CausedBy } else { Then::Any };
            return;
        }
        match then {
            Then::Message => {
                (self.error, self.awaited) = (Some(cut(text)), None);
                return;
            }
            Then::CausedBy if is_indented => {
                let (cause, outer) = (without_number(text), self.error.take().unwrap_or_default());
                self.error = Some(cut(&format!("{outer}: {cause}")));
                self.then = Then::CausedBy;
                return;
            }
            Then::More if !is_noise(text) => {
                let before = self.error.take().unwrap_or_default();
                return self.error = Some(cut(&format!("{before} {text}")));
            }
            Then::Any | Then::More | Then::CausedBy => {}
        }
        if text.contains("panicked at") {
            self.then = Then::Message;
            return;
        }
        if is_noise(text) {
            return;
        }
        self.last = cut(text);
        let lower = text.to_ascii_lowercase();
        let cause = FailureCause::of(Source::Program, &lower);
        if let Some(awaited) = cause.filter(|cause| cause.is_awaited()) {
            self.awaited = Some((awaited, cut(text)));
        } else if let Some(error) = error_in(text, &lower, cause).filter(|_| !self.is_advice(&lower, cause)) {
            self.then = if error.ends_with(':') { Then::More } else { Then::Any };
            (self.error, self.awaited) = (Some(cut(text)), None);
        } else {
            // What was downloaded is there.
            self.awaited.take_if(|(cause, _)| *cause == FailureCause::Downloading);
        }
    }

    /// npm follows what is wrong, its own error or that of a script that it runs, by what might be done.
    fn is_advice(&self, lower: &str, cause: Option<FailureCause>) -> bool {
        let names_cause = |error: &str| FailureCause::of(Source::Program, &error.to_ascii_lowercase()).is_some();
        let is_npm = NPM.iter().any(|npm| lower.starts_with(npm));
        is_npm && cause.is_none() && self.error.as_deref().is_some_and(names_cause)
    }
}

/// What npm begins the lines of an error with.
const NPM: [&str; 2] = ["npm error ", "npm err! "];

/// A text on one line, without control characters and the sequences of terminals.
pub(super) fn plain(line: &str) -> String {
    let (mut out, mut characters) = (String::with_capacity(line.len()), line.chars());
    while let Some(it) = characters.next() {
        match it {
            '\u{1b}' => match characters.next() {
                // The last byte of a control sequence is from `@` to `~`.
                Some('[') => drop(characters.by_ref().find(|it| ('@'..='~').contains(it))),
                // A title or a link ends with BEL, or ESC and a backslash.
                Some(']') => {
                    if characters.by_ref().find(|it| matches!(it, '\u{7}' | '\u{1b}')) == Some('\u{1b}') {
                        characters.next();
                    }
                }
                Some(_) | None => {}
            },
            it if it.is_whitespace() => out.push(' '),
            it if it.is_control() => {}
            it => out.push(it),
        }
    }
    out
}

fn is_caused_by(text: &str) -> bool {
    text.eq_ignore_ascii_case("caused by:")
}

/// `0: cause` without its number.
fn without_number(text: &str) -> &str {
    let rest = text.trim_start_matches(|it: char| it.is_ascii_digit());
    if rest.len() == text.len() { text } else { rest.strip_prefix(": ").unwrap_or(text) }
}

/// A frame of a stack, or advice that every failure of its kind ends with.
fn is_noise(text: &str) -> bool {
    const BEGINNINGS: [&str; 17] = [
        "at ",
        "File \"",
        "^",
        "~",
        "Node.js v",
        "note: ",
        "goroutine ",
        "Traceback (most recent call last)",
        "stack backtrace:",
        "npm error A complete log",
        "npm ERR! A complete log",
        "npm notice",
        "Stack trace:",
        "For more information, try",
        "Require stack:",
        "See 'docker run --help'",
        "Run 'docker run --help'",
    ];
    let is_frame = || {
        let (number, rest) = text.split_once(": ").unwrap_or((text, ""));
        !rest.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) && rest.contains("::")
    };
    BEGINNINGS.iter().any(|beginning| text.starts_with(beginning))
        || text.chars().all(|it| "^~-=*_+|/\\{}[]()<>.,;: ".contains(it))
        || is_frame()
}

/// What a line says, if it is an error, or names a cause.
fn error_in<'a>(text: &'a str, lower: &str, cause: Option<FailureCause>) -> Option<&'a str> {
    // `npm error 404 …`, without the lines that have only a code.
    for npm in NPM {
        if lower.starts_with(npm) {
            let rest = text.get(npm.len()..).unwrap_or_default().trim();
            let tag = ["404", "notarget", "notsup", "engine", "enoent"].iter().find_map(|tag| rest.strip_prefix(tag));
            let rest = tag.unwrap_or(rest).trim();
            let is_code = ["code ", "errno ", "syscall ", "path "].iter().any(|code| rest.starts_with(code));
            return (!rest.is_empty() && !is_code).then_some(rest);
        }
    }
    // `Error: …`, `error[E1]: …`, `TypeError: …`, `pkg.SomeError: …`, `panic: …`, `docker: …`; `program: error: …`.
    let (head, rest) = text.split_once(": ").or_else(|| Some((text.strip_suffix(':')?, ""))).unwrap_or((text, ""));
    let (kind, rest) =
        (head.trim_start_matches("Uncaught ").trim_start_matches("Exception in thread \"main\" "), rest.trim());
    let is_word = |kind: &str| {
        !kind.is_empty() && kind.bytes().all(|it| it.is_ascii_alphanumeric() || b"._:$[]()-".contains(&it))
    };
    let last = kind.rsplit(['.', ':']).next().unwrap_or(kind);
    let named = ["Error", "Exception", "Exit", "Fault"].iter().any(|end| last.ends_with(end));
    if is_word(kind) && named {
        // `KeyError: 'TOKEN'` says less without its kind.
        return Some(if last == "Error" && !rest.is_empty() { rest } else { text });
    }
    let lower_kind = kind.split('[').next().unwrap_or(kind).trim().to_ascii_lowercase();
    if ["error", "fatal", "panic", "fatal error", "critical", "docker"].contains(&&*lower_kind) && !rest.is_empty() {
        return Some(error_in(rest, &rest.to_ascii_lowercase(), None).unwrap_or(rest));
    }
    if let Some((_, after)) = text.split_once(": error: ") {
        return Some(after.trim());
    }
    // Lines of a log, and those that name a cause without the form of an error.
    let is_log =
        ["[error]", " error ", "level=error", "\"level\":\"error\"", "level=fatal", "[fatal]", " fatal ", "[err]"];
    let is_logged = is_log.iter().any(|it| lower.contains(it)) || text.starts_with("ERROR");
    (is_logged || cause.is_some()).then_some(text)
}

fn cut(text: &str) -> Box<str> {
    crate::text::cut(text, SHOWN).into()
}
