//! The end of a program's standard error.

use std::collections::VecDeque;

/// Bytes that are kept.
const BYTES: usize = 2048;
/// Characters and lines of the last words.
const CHARACTERS: usize = 300;
const LINES: usize = 3;

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
