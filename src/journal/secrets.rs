//! The secrets that an embedder names, and what a journal has in their place.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt::{self, Debug, Formatter};

use super::scan::{Found, Pattern, Scanner};
use crate::encodings::encodings;

/// The numbers of masks have two digits.
const FIRST: usize = 10;
const MOST: usize = 90;
const SHORTEST: usize = 8;
const LONGEST: usize = 16 << 10;

/// Why a text cannot be a secret of a [`Recorder`](super::Recorder).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, serde::Serialize, serde::Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
#[non_exhaustive]
pub enum SecretError {
    /// The text is shorter than 8 bytes: it may be a part of other texts.
    #[error("the secret has {length} bytes: a secret has at least {SHORTEST}")]
    TooShort {
        /// Its length in bytes.
        length: usize,
    },
    /// The text is longer than 16 KiB.
    #[error("the secret has {length} bytes: a secret has at most {LONGEST}")]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// The recorder has 90 secrets already.
    #[error("a recorder has at most {MOST} secrets")]
    TooMany,
}

/// Secrets, each with its mask. Its `Debug` shows none.
#[derive(Default)]
pub(super) struct Secrets {
    known: Vec<Box<str>>,
    /// Each secret in each encoding.
    patterns: Vec<Pattern>,
}

impl Debug for Secrets {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").field("known", &self.known.len()).finish_non_exhaustive()
    }
}

impl Secrets {
    pub(super) fn add(&mut self, secret: &str) -> Result<(), SecretError> {
        let length = secret.len();
        if length < SHORTEST {
            return Err(SecretError::TooShort { length });
        }
        if length > LONGEST {
            return Err(SecretError::TooLong { length });
        }
        if self.known.iter().any(|known| **known == *secret) {
            return Ok(());
        }
        if self.known.len() >= MOST {
            return Err(SecretError::TooMany);
        }
        let mask = mask(secret, self.known.len().saturating_add(FIRST));
        self.known.push(secret.into());
        for (text, mask) in encodings(secret, &mask) {
            self.patterns.push(Pattern::new(text.as_bytes(), mask.as_bytes()));
        }
        Ok(())
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// A value of a line, with masks in place of secrets.
    pub(super) fn hide(&self, text: String) -> String {
        if self.is_empty() {
            return text;
        }
        let (mut scanner, mut found) = (Scanner::new(), Vec::new());
        scanner.read(&self.patterns, text.as_bytes(), &mut found);
        if found.is_empty() {
            return text;
        }
        let hidden = self.masked(0, text.as_bytes(), &merged(found));
        // Masks are ASCII, and a secret begins and ends with whole characters.
        String::from_utf8(hidden).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    pub(super) fn read(&self, scanner: &mut Scanner, bytes: &[u8], found: &mut Vec<Found>) {
        scanner.read(&self.patterns, bytes, found);
    }

    pub(super) fn is_settled(&self, scanner: &Scanner) -> bool {
        scanner.is_settled(&self.patterns)
    }

    /// Bytes that begin at `base`, with masks in place of what was found. The parts of a secret that is divided have the
    /// parts of its mask.
    pub(super) fn masked(&self, base: u64, bytes: &[u8], found: &[Found]) -> Vec<u8> {
        let within = |at: u64| usize::try_from(at.saturating_sub(base)).unwrap_or(usize::MAX).min(bytes.len());
        let (mut masked, mut done) = (Vec::with_capacity(bytes.len()), 0);
        let first = found.partition_point(|found| found.end <= base);
        for Found { start, end, pattern } in found.iter().skip(first) {
            let (from, to) = (within(*start), within(*end));
            masked.extend_from_slice(bytes.get(done..from).unwrap_or_default());
            let mask = self.patterns.get(*pattern).map(|pattern| &*pattern.mask).unwrap_or_default();
            let part = |at: usize| {
                let at = base.saturating_add(at as u64).saturating_sub(*start);
                usize::try_from(at).unwrap_or(usize::MAX).min(mask.len())
            };
            if from < to {
                masked.extend_from_slice(mask.get(part(from)..part(to)).unwrap_or_default());
            }
            done = to;
            if to == bytes.len() {
                break;
            }
        }
        masked.extend_from_slice(bytes.get(done..).unwrap_or_default());
        masked
    }
}

/// What was found, in order, and without overlaps: of those that overlap, the first one, the longest of these, has its
/// mask for all.
pub(super) fn merged(mut found: Vec<Found>) -> Vec<Found> {
    found.sort_unstable_by_key(|found| (found.start, Reverse(found.end), found.pattern));
    let mut merged: Vec<Found> = Vec::with_capacity(found.len());
    for next in found {
        match merged.last_mut() {
            Some(last) if next.start < last.end => last.end = last.end.max(next.end),
            _ => merged.push(next),
        }
    }
    merged
}

/// As long as the secret, so that limits on lengths have the same effect in a replay. That of a number is one.
fn mask(secret: &str, number: usize) -> String {
    let is_number = secret.bytes().all(|byte| byte.is_ascii_digit());
    let (begin, fill) = if is_number { ("", "9") } else { ("secret", "x") };
    let mut mask = format!("{begin}{number}");
    mask.push_str(&fill.repeat(secret.len().saturating_sub(mask.len())));
    mask
}
