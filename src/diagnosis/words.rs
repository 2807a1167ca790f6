//! What a program says on its standard error, as far as it tells why it failed.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;

use super::cause::{FailureCause, Source};

/// Bytes of a line that are looked at, and characters of one that are shown.
const LINE: usize = 1024;
const SHOWN: usize = 300;

/// Finds in a program's standard error the line that says why it ended, and the one that says what it waits for. It keeps
/// a few lines of at most 300 characters, however much comes.
///
/// An error (`Error: …`, `error: …`, the last line of a Python traceback, the message of a panic of Rust or Go, the root
/// under `Caused by`, `npm error …`) counts more than other lines, a later one more than an earlier one. Frames of stacks and
/// advice such as `note: run with …` count for nothing.
///
/// ```
/// use mcp_proto::LastWords;
///
/// let mut words = LastWords::default();
/// words.take(b"Error: GITHUB_TOKEN is not set\n    at Module._compile (node:internal/modules:1554:14)\n\nNode.js v22\n");
/// assert_eq!(words.line(), "GITHUB_TOKEN is not set");
/// ```
#[derive(Clone, Debug, Default)]
pub struct LastWords {
    /// The line that has not ended.
    line: Vec<u8>,
    found: Found,
}

#[derive(Clone, Debug, Default)]
struct Found {
    error: Option<Box<str>>,
    last: Box<str>,
    /// What it waits for.
    waits: Option<(FailureCause, Box<str>)>,
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

impl LastWords {
    /// Takes a piece of standard error, with or without whole lines.
    pub fn take(&mut self, piece: &[u8]) {
        for part in piece.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let room = LINE.saturating_sub(self.line.len());
            self.line.extend_from_slice(part.get(..room).unwrap_or(part));
            if part.ends_with(b"\n") || part.ends_with(b"\r") {
                self.found.take(&mem::take(&mut self.line));
            }
        }
    }

    /// The line that says why it ended, without what only marks it as an error; else the last line that is not empty. Empty
    /// if there is none.
    pub fn line(&self) -> String {
        let found = self.whole();
        found.error.unwrap_or(found.last).into()
    }

    /// What it waits for, and the line that says so.
    pub(super) fn waits(&self) -> Option<(FailureCause, Box<str>)> {
        self.whole().waits
    }

    /// Whether a line says that it failed.
    pub(super) fn has_error(&self) -> bool {
        self.whole().error.is_some()
    }

    /// As if the last line had ended.
    fn whole(&self) -> Found {
        let mut found = self.found.clone();
        found.take(&self.line);
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
            Then::Message => return self.error = Some(cut(text)),
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
        if let Some(cause) = FailureCause::of(Source::Words, &lower).filter(|cause| cause.is_a_wait()) {
            self.waits = Some((cause, cut(text)));
        }
        if let Some(error) = error_in(text, &lower) {
            self.then = if error.ends_with(':') { Then::More } else { Then::Any };
            self.error = Some(cut(error));
        }
    }
}

/// A text on one line, without control characters and the sequences that colour it.
pub(super) fn plain(line: &str) -> String {
    let (mut out, mut characters) = (String::with_capacity(line.len()), line.chars());
    while let Some(it) = characters.next() {
        if it == '\u{1b}' {
            if characters.next() == Some('[') {
                // The last byte of a control sequence is from `@` to `~`.
                characters.by_ref().find(|it| ('@'..='~').contains(it));
            }
        } else if it.is_whitespace() {
            out.push(' ');
        } else if !it.is_control() {
            out.push(it);
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

/// What a line says, if it is an error.
fn error_in<'a>(text: &'a str, lower: &str) -> Option<&'a str> {
    // `npm error 404 …`, without the lines that have only a code.
    for npm in ["npm error ", "npm err! "] {
        if lower.starts_with(npm) {
            let rest = text.get(npm.len()..).unwrap_or_default().trim();
            let rest = rest.strip_prefix("404").unwrap_or(rest).trim();
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
    if ["error", "fatal", "panic", "fatal error", "critical", "docker", "sh", "bash"].contains(&&*lower_kind)
        && !rest.is_empty()
    {
        return Some(error_in(rest, &rest.to_ascii_lowercase()).unwrap_or(rest));
    }
    if let Some((_, after)) = text.split_once(": error: ") {
        return Some(after.trim());
    }
    // Lines of a log, and those that name a cause without the form of an error.
    let is_log =
        ["[error]", " error ", "level=error", "\"level\":\"error\"", "level=fatal", "[fatal]", " fatal ", "[err]"];
    let is_logged = is_log.iter().any(|it| lower.contains(it)) || text.starts_with("ERROR");
    (is_logged || FailureCause::of(Source::Words, lower).is_some_and(|cause| !cause.is_a_wait())).then_some(text)
}

fn cut(text: &str) -> Box<str> {
    crate::text::cut(text, SHOWN).into()
}
