//! The end of a program's standard error.

use std::collections::VecDeque;
use std::process::ExitStatus;

/// Bytes that are kept.
const BYTES: usize = 2048;
/// Characters and lines of the last words.
const CHARACTERS: usize = 300;
const LINES: usize = 3;

/// How a program ended.
#[derive(Debug)]
pub struct Exit {
    /// Its status; `None` if even killing it had no effect.
    pub status: Option<ExitStatus>,
    /// It closed its input or output, did not exit, and was ended.
    pub is_forced: bool,
    /// What happened to its input or output.
    pub broken: Option<String>,
    /// It was asked to exit.
    pub is_asked_to_exit: bool,
}

/// Keeps the end of a program's standard error, 2 KiB, for the messages of failures.
#[derive(Debug, Default)]
pub struct Tail(VecDeque<u8>);

impl Tail {
    /// Takes a piece.
    pub fn keep(&mut self, piece: &[u8]) {
        self.0.extend(piece.iter().skip(piece.len().saturating_sub(BYTES)));
        let surplus = self.0.len().saturating_sub(BYTES);
        self.0.drain(..surplus);
    }

    /// Why the program ended, with its last words unless it was asked to exit.
    pub fn exit_reason(&self, exit: &Exit) -> String {
        let mut why = String::new();
        if exit.is_forced {
            why.push_str("it closed input or output and did not exit, so it was ended: ");
        }
        match exit.status {
            Some(status) => why.push_str(&status.to_string()),
            None => why.push_str("not even killing it helped"),
        }
        if let Some(error) = exit.broken.as_ref().filter(|_| exit.is_forced) {
            why.push_str(&format!(" (before that: {error})"));
        }
        let last_words = self.last_words();
        if !last_words.is_empty() && !exit.is_asked_to_exit {
            why.push_str(&format!("; its last words on standard error: {last_words}"));
        }
        why
    }

    /// The last lines as one, without control characters; empty if there is nothing.
    pub fn last_words(&self) -> String {
        let bytes: Vec<u8> = self.0.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let last = lines.iter().skip(lines.len().saturating_sub(LINES)).copied().collect::<Vec<_>>().join(" / ");
        let surplus = last.chars().count().saturating_sub(CHARACTERS);
        let shown: String = last.chars().skip(surplus).map(|c| if c.is_control() { ' ' } else { c }).collect();
        shown.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_and_shown_on_one_line() {
        let mut tail = Tail::default();
        assert_eq!(tail.last_words(), "");
        tail.keep(&[b'x'; 10_000]);
        assert_eq!((tail.0.len(), tail.last_words().len()), (BYTES, CHARACTERS));
        tail.keep(b"\nfirst\nsecond\n\n \x1b[31mthird\tone\r\nfour\xff\n");
        assert_eq!(tail.last_words(), "second / [31mthird one / four\u{fffd}");
        assert_eq!(tail.0.len(), BYTES);
    }
}
