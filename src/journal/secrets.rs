//! The secrets that an embedder names, those of an authorization, and the search for them in bytes that come in parts, also
//! within JSON strings and percent-encoding.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt::{self, Debug, Formatter};

use crate::encodings::{encodings, forms, is_part_of_mask, mask};
use crate::text::RECOGNIZED;

/// The numbers of masks of named secrets have two digits.
const FIRST: u64 = 10;
const MOST: u64 = 90;
const SHORTEST: usize = 8;
const LONGEST: usize = 16 << 10;
/// `…` in UTF-8.
const ELLIPSIS: [u8; 3] = [0xe2, 0x80, 0xa6];
/// A longer one is no client's secret, which HTTP Basic has in other forms.
const LONGEST_ID: usize = 4 << 10;

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

/// Secrets of an authorization that are kept, the ones that were used last, beside those of its options. It uses no more
/// at a time.
#[cfg(feature = "oauth")]
const LEARNED: usize = 32;

/// Secrets, each with its mask. Its `Debug` shows none.
#[derive(Default)]
pub struct Secrets {
    known: Vec<Known>,
    patterns: Patterns,
    /// How many patterns there were.
    numbered: u64,
    /// How many secrets have a number.
    named: u64,
    #[cfg(feature = "oauth")]
    learned: u64,
    last: u64,
}

struct Known {
    text: Box<str>,
    mask: Box<str>,
    kind: Kind,
    /// Its number among all that were ever known.
    id: u64,
}

/// Why a secret is known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The embedder named it, or its options have it.
    Lasting,
    /// An authorization was given it. The last one is the one that was used last.
    #[cfg(feature = "oauth")]
    Learned,
    /// An authorization draws it from entropy, or signed it.
    #[cfg(feature = "oauth")]
    Drawn,
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
        if let Some(at) = self.known.iter().position(|known| *known.text == *secret) {
            if self.known.get(at).is_some_and(|known| known.kind != Kind::Lasting) {
                let known = self.known.remove(at);
                self.patterns.forget(known.id);
                self.push(secret, &known.mask, Kind::Lasting);
            }
            return Ok(());
        }
        if self.named >= MOST {
            return Err(SecretError::TooMany);
        }
        let mask = mask(secret, self.named.saturating_add(FIRST));
        self.named = self.named.saturating_add(1);
        self.push(secret, &mask, Kind::Lasting);
        Ok(())
    }

    /// Adds a secret that the subject was given, and that has room for a mask. Returns its mask.
    #[cfg(feature = "http")]
    pub(super) fn add_given(&mut self, secret: &str) -> Option<Box<str>> {
        self.add_beyond(secret).ok()?;
        self.known.iter().find(|known| *known.text == *secret).map(|known| known.mask.clone())
    }

    /// Adds a secret, with the last mask where all others are taken.
    pub(super) fn add_beyond(&mut self, secret: &str) -> Result<(), SecretError> {
        match self.add(secret) {
            Err(SecretError::TooMany) => {
                self.push(secret, &mask(secret, FIRST.saturating_add(MOST).saturating_sub(1)), Kind::Lasting);
                Ok(())
            }
            added => added,
        }
    }

    /// Adds a secret, which is looked for if it has room for its mask; of a long one, the beginning is. What a server
    /// chose is not looked for where it could be a part of the format.
    fn push(&mut self, secret: &str, mask: &str, kind: Kind) {
        self.last = self.last.saturating_add(1);
        let id = self.last;
        self.known.push(Known { text: secret.into(), mask: mask.into(), kind, id });
        if secret.len() >= mask.len() {
            let end = (0..=secret.len().min(LONGEST)).rev().find(|at| secret.is_char_boundary(*at)).unwrap_or_default();
            let (secret, mask) = (secret.get(..end).unwrap_or(secret), mask.get(..end).unwrap_or(mask));
            let forms = if secret.len() > LONGEST_ID { encodings(secret, mask) } else { forms(secret, mask) };
            for (text, mask) in forms.into_iter().filter(|(text, _)| kind == Kind::Lasting || is_distinct(text)) {
                self.numbered = self.numbered.saturating_add(1);
                self.patterns.add(Pattern::new(text.as_bytes(), mask.as_bytes(), self.numbered, id));
            }
        }
    }

    /// The mask of a secret that the authorization was given.
    #[cfg(feature = "oauth")]
    pub(super) fn learn(&mut self, secret: &str, is_lasting: bool) -> String {
        if let Some(mask) = self.mask_of(secret) {
            return mask;
        }
        self.learned = self.learned.saturating_add(1);
        let mask = mask(secret, FIRST.saturating_add(MOST).saturating_add(self.learned));
        let kind = if is_lasting { Kind::Lasting } else { Kind::Learned };
        self.push(secret, &mask, kind);
        mask
    }

    /// The mask of a secret that was named or learned, and is used now.
    #[cfg(feature = "oauth")]
    pub(super) fn mask_of(&mut self, secret: &str) -> Option<String> {
        let is_it = |known: &Known| known.kind != Kind::Drawn && *known.text == *secret;
        let at = self.known.iter().position(is_it)?;
        let known = self.known.remove(at);
        let mask = known.mask.clone().into_string();
        self.known.push(known);
        Some(mask)
    }

    /// Forgets secrets that are not used any more, and knows those that the authorization draws, each with its mask. One
    /// that it does not use any more gets another mask: a replay draws no other.
    #[cfg(feature = "oauth")]
    pub(super) fn set_drawn(&mut self, drawn: &[(String, &'static str)]) {
        let mut learned = self.known.iter().filter(|it| it.kind == Kind::Learned).count();
        let (patterns, mut former) = (&mut self.patterns, Vec::new());
        self.known.retain(|it| {
            let is_kept = match it.kind {
                Kind::Lasting => true,
                Kind::Learned => learned <= LEARNED,
                Kind::Drawn => drawn.iter().any(|(text, _)| **text == *it.text),
            };
            if !is_kept {
                learned = learned.saturating_sub(usize::from(it.kind == Kind::Learned));
                patterns.forget(it.id);
                former.extend((it.kind == Kind::Drawn).then(|| it.text.clone()));
            }
            is_kept
        });
        for secret in former {
            self.learn(&secret, false);
        }
        for (text, mask) in drawn {
            if self.known.iter().all(|known| *known.text != **text) {
                self.push(text, mask, Kind::Drawn);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.patterns.by_beginning.is_empty()
    }

    /// A value of a line, with masks in place of secrets.
    pub(super) fn hide(&self, text: String) -> String {
        // Masks are ASCII, and a secret begins and ends with whole characters.
        String::from_utf8(self.hide_bytes(text.into_bytes()))
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    /// Bytes with masks in place of secrets.
    pub(super) fn hide_bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        if self.is_empty() {
            return bytes;
        }
        let (mut scanner, mut found) = (Scanner::new(), Vec::new());
        scanner.read(&self.patterns, &bytes, &mut found);
        if found.is_empty() { bytes } else { masked(0, &bytes, &merged(found)) }
    }

    pub(super) fn read(&self, scanner: &mut Scanner, bytes: &[u8], found: &mut Vec<Found>) {
        scanner.read(&self.patterns, bytes, found);
    }
}

/// Whether a text that a server chose cannot be a part of the format: of JSON, of a name or a number in it, of a mask.
fn is_distinct(text: &str) -> bool {
    let has = |punctuation: &[u8]| text.bytes().any(|byte| punctuation.contains(&byte));
    let consists_of = |is_one: fn(u8) -> bool, others: &[u8]| {
        text.bytes().all(|byte| is_one(byte) || byte.is_ascii_whitespace() || others.contains(&byte))
    };
    let pairs = || text.as_bytes().windows(2);
    let is_run = pairs().all(|pair| pair.first() == pair.last());
    let is_number = consists_of(|byte| byte.is_ascii_digit(), b"+-.eE");
    // `protocolVersion`, `Content-Type`, `tools/call`: it has no two capitals in sequence.
    let is_name = consists_of(|byte| byte.is_ascii_alphabetic(), b"_-./$")
        && !pairs().any(|pair| pair.iter().all(u8::is_ascii_uppercase));
    !has(b"\"\\{}[]:,") && !is_run && !is_number && !is_name && !is_part_of_mask(text)
}

/// Bytes that begin at `base`, with masks in place of what was found. The parts of a secret that is divided have the parts
/// of its mask.
pub(super) fn masked(base: u64, bytes: &[u8], found: &[Found]) -> Vec<u8> {
    let within = |at: u64| usize::try_from(at.saturating_sub(base)).unwrap_or(usize::MAX).min(bytes.len());
    let (mut masked, mut done) = (Vec::with_capacity(bytes.len()), 0);
    let first = found.partition_point(|found| found.end <= base);
    for Found { start, end, pattern } in found.iter().skip(first) {
        let (from, to) = (within(*start), within(*end));
        masked.extend_from_slice(bytes.get(done..from).unwrap_or_default());
        let part = |at: usize| {
            let at = base.saturating_add(at as u64).saturating_sub(*start);
            usize::try_from(at).unwrap_or(usize::MAX).min(pattern.mask.len())
        };
        masked.extend_from_slice(pattern.mask.get(part(from)..part(to)).unwrap_or_default());
        done = to;
        if to == bytes.len() {
            break;
        }
    }
    masked.extend_from_slice(bytes.get(done..).unwrap_or_default());
    masked
}

/// What was found, in order, and without overlaps: of those that overlap, the first one, the longest of these, has its
/// mask for all.
pub(super) fn merged(mut found: Vec<Found>) -> Vec<Found> {
    found.sort_unstable_by_key(|found| (found.start, Reverse(found.end), found.pattern.number));
    let mut merged: Vec<Found> = Vec::with_capacity(found.len());
    for next in found {
        match merged.last_mut() {
            Some(last) if next.start < last.end => last.end = last.end.max(next.end),
            _ => merged.push(next),
        }
    }
    merged
}

/// How many levels of JSON strings are read. A message has up to three, and a line of a journal may have it as a string.
const LEVELS: usize = 5;

/// How many bytes of a pattern are looked up at once, so that the cost of a text does not depend on the number of secrets
/// unless they begin alike. No pattern is shorter.
const BEGINNING: usize = 3;

/// Each secret in each encoding.
#[derive(Default)]
struct Patterns {
    /// By their first bytes, in the order of the numbers.
    by_beginning: BTreeMap<u32, Vec<Arc<Pattern>>>,
    /// A bit for each hash of their first bytes, which most texts do not have.
    hashes: Vec<u64>,
}

/// Words of bits.
const HASHES: usize = 256;

/// A text that is looked for.
#[derive(Debug)]
struct Pattern {
    text: Box<[u8]>,
    /// Per position, the length of the longest part before it that the text also begins with (Knuth, Morris, Pratt).
    fallback: Box<[u32]>,
    /// What replaces it: not longer than the text.
    mask: Box<[u8]>,
    number: u64,
    /// The number of the secret.
    of: u64,
}

/// Where a pattern was found, in bytes since the scanner began.
#[derive(Clone)]
pub(super) struct Found {
    start: u64,
    pub(super) end: u64,
    pattern: Arc<Pattern>,
}

/// The bytes read so far.
pub(super) struct Scanner {
    /// The bytes as they are, and then as the contents of JSON strings within JSON strings. A level that does not differ
    /// from the one before it is missing.
    levels: Vec<Level>,
    /// The deepest level without percent-encoding, and then with `+` as a space, as in forms. One that does not differ is
    /// missing.
    encoded: [Option<Level>; 2],
    length: u64,
}

#[derive(Clone, Default)]
struct Level {
    /// The patterns that the text ends with the beginning of, of `BEGINNING` bytes at least, by their numbers, and how many
    /// bytes of each. A pattern that is forgotten stays until it is not continued.
    begun: Vec<(Arc<Pattern>, usize)>,
    /// Where the last bytes of the text began: as many as the longest match needs.
    starts: VecDeque<u64>,
    /// The last bytes of the text.
    last: u32,
    /// An escape sequence that is not complete.
    escape: Vec<Unit>,
    /// The beginnings of secrets that end where an ellipsis may begin, and how many of its bytes were read.
    cut: Vec<Found>,
    ellipsis: usize,
}

/// A byte of a level's text, and where it comes from.
#[derive(Clone, Copy, Debug)]
struct Unit {
    byte: u8,
    start: u64,
    end: u64,
}

impl Patterns {
    fn add(&mut self, pattern: Pattern) {
        let beginning = pattern.text.iter().take(BEGINNING).fold(0, |last, byte| next(last, *byte));
        self.by_beginning.entry(beginning).or_default().push(Arc::new(pattern));
        self.note(beginning);
    }

    fn note(&mut self, beginning: u32) {
        self.hashes.resize(HASHES, 0);
        let (word, bit) = hash(beginning);
        if let Some(bits) = self.hashes.get_mut(word) {
            *bits |= bit;
        }
    }

    /// Removes those of a secret.
    fn forget(&mut self, secret: u64) {
        self.by_beginning.retain(|_, patterns| {
            patterns.retain(|pattern| pattern.of != secret);
            !patterns.is_empty()
        });
        self.hashes.clear();
        let left: Vec<_> = self.by_beginning.keys().copied().collect();
        left.into_iter().for_each(|beginning| self.note(beginning));
    }

    fn with_beginning(&self, beginning: u32) -> &[Arc<Pattern>] {
        let (word, bit) = hash(beginning);
        if self.hashes.get(word).is_none_or(|bits| bits & bit == 0) {
            return &[];
        }
        self.by_beginning.get(&beginning).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether one begins with the last bytes of a text, fewer than `BEGINNING`.
    fn may_begin(&self, last: u32, bytes: usize) -> bool {
        (1..=bytes.min(BEGINNING.saturating_sub(1))).any(|length| {
            let (known, others) = (length.saturating_mul(8), BEGINNING.saturating_sub(length).saturating_mul(8));
            let first = (last & !(u32::MAX << known)) << others;
            self.by_beginning.range(first..=first | !(u32::MAX << others)).next().is_some()
        })
    }
}

/// The last bytes of a text after one more.
fn next(last: u32, byte: u8) -> u32 {
    (last << 8 | u32::from(byte)) & !(u32::MAX << (BEGINNING * 8))
}

/// The word and the bit of the first bytes of a pattern.
fn hash(beginning: u32) -> (usize, u64) {
    let hash = beginning.wrapping_mul(0x9e37_79b1) >> 18;
    (usize::try_from(hash >> 6).unwrap_or_default(), 1 << (hash & 63))
}

impl Pattern {
    fn new(text: &[u8], mask: &[u8], number: u64, of: u64) -> Self {
        let mut fallback = alloc::vec![0];
        let mut length = 0;
        for byte in text.iter().skip(1) {
            while length > 0 && text.get(length) != Some(byte) {
                length = before(&fallback, length);
            }
            length = length.saturating_add(usize::from(text.get(length) == Some(byte)));
            fallback.push(u32::try_from(length).unwrap_or_default());
        }
        Self { text: text.into(), fallback: fallback.into(), mask: mask.into(), number, of }
    }

    /// How much of the text is matched after a byte.
    fn step(&self, mut matched: usize, byte: u8) -> usize {
        loop {
            if self.text.get(matched) == Some(&byte) {
                return matched.saturating_add(1);
            }
            if matched == 0 {
                return 0;
            }
            matched = before(&self.fallback, matched);
        }
    }
}

fn before(fallback: &[u32], length: usize) -> usize {
    let length = length.checked_sub(1).and_then(|last| fallback.get(last)).copied();
    length.and_then(|length| usize::try_from(length).ok()).unwrap_or_default()
}

impl Default for Scanner {
    fn default() -> Self {
        Self::new()
    }
}

impl Scanner {
    pub(super) fn new() -> Self {
        Self { levels: alloc::vec![Level::default()], encoded: [None, None], length: 0 }
    }

    /// How many bytes were read.
    pub(super) const fn length(&self) -> u64 {
        self.length
    }

    /// Whether no pattern can begin in the bytes read so far and end in those that follow.
    pub(super) fn is_settled(&self, secrets: &Secrets) -> bool {
        let mut levels = self.levels.iter().chain(self.encoded.iter().flatten());
        levels.all(|level| {
            let may_begin = secrets.patterns.may_begin(level.last, level.starts.len());
            level.escape.is_empty() && level.begun.is_empty() && level.cut.is_empty() && !may_begin
        })
    }

    /// Reads bytes, and reports the patterns that end in them.
    fn read(&mut self, patterns: &Patterns, bytes: &[u8], found: &mut Vec<Found>) {
        let (mut units, mut decoded, mut plain) = (Vec::new(), Vec::new(), Vec::new());
        for byte in bytes {
            let start = self.length;
            self.length = self.length.saturating_add(1);
            units.clear();
            units.push(Unit { byte: *byte, start, end: self.length });
            let mut depth = 0;
            while !units.is_empty() {
                if units.iter().any(|unit| unit.byte == b'\\') {
                    self.deepen(depth);
                }
                let has_next = self.levels.len() > depth.saturating_add(1);
                let Some(level) = self.levels.get_mut(depth) else { break };
                for unit in units.drain(..) {
                    if has_next {
                        level.read(patterns, unit, found);
                        level.decode(unit, &mut decoded);
                    } else {
                        read_encoded(&mut self.encoded, level, unit, &mut plain, |level, unit| {
                            level.read(patterns, unit, found);
                        });
                        level.read(patterns, unit, found);
                    }
                }
                core::mem::swap(&mut units, &mut decoded);
                depth = depth.saturating_add(1);
            }
        }
    }

    /// Adds a level below the deepest one, which has the same text so far.
    fn deepen(&mut self, depth: usize) {
        if depth.saturating_add(1) == self.levels.len() && self.levels.len() < LEVELS {
            self.levels.extend(self.levels.last().cloned());
        }
    }
}

/// Gives the levels without percent-encoding a byte of the deepest level, and calls `read` with what becomes of it.
fn read_encoded(
    encoded: &mut [Option<Level>; 2],
    deepest: &Level,
    unit: Unit,
    plain: &mut Vec<Unit>,
    mut read: impl FnMut(&mut Level, Unit),
) {
    let [percent, form] = encoded;
    // Each has the same text so far as the one that it is copied from.
    if percent.is_none() && unit.byte == b'%' {
        *percent = Some(deepest.clone());
    }
    if form.is_none() && unit.byte == b'+' {
        *form = Some(percent.as_ref().unwrap_or(deepest).clone());
    }
    let space = if unit.byte == b'+' { b' ' } else { unit.byte };
    for (level, byte) in [(percent, unit.byte), (form, space)] {
        let Some(level) = level else { continue };
        level.decode_percent(Unit { byte, ..unit }, plain);
        plain.drain(..).for_each(|unit| read(level, unit));
    }
}

impl Level {
    fn read(&mut self, patterns: &Patterns, unit: Unit, found: &mut Vec<Found>) {
        // What begins within an escape sequence is replaced with all of it: the rest would be another one.
        let start = self.escape.first().map_or(unit.start, |escape| escape.start.min(unit.start));
        self.starts.push_back(start);
        self.last = next(self.last, unit.byte);
        // In a message that is too long for an event, an ellipsis replaces the rest of a secret.
        let is_cut = unit.byte == ELLIPSIS[0];
        let goes_on = ELLIPSIS.get(self.ellipsis) == Some(&unit.byte);
        self.ellipsis = if goes_on { self.ellipsis.saturating_add(1) } else { usize::from(is_cut) };
        if self.ellipsis < 2 {
            self.cut.clear();
        }
        let (starts, cut, mut longest) = (&self.starts, &mut self.cut, BEGINNING.saturating_sub(1));
        self.begun.retain_mut(|(pattern, matched)| {
            if is_cut && *matched >= RECOGNIZED {
                let begin = starts.len().checked_sub(matched.saturating_add(1)).and_then(|first| starts.get(first));
                let begin = begin.copied().unwrap_or(start);
                cut.push(Found { start: begin, end: start, pattern: Arc::clone(pattern) });
            }
            *matched = pattern.step(*matched, unit.byte);
            longest = longest.max(*matched);
            if *matched == pattern.text.len() {
                let start = starts.len().checked_sub(*matched).and_then(|first| starts.get(first)).copied();
                let start = start.unwrap_or(unit.start);
                match found.last_mut() {
                    // One that overlaps itself is one.
                    Some(last) if last.pattern.number == pattern.number && last.start <= start && start < last.end => {
                        last.end = last.end.max(unit.end);
                    }
                    _ => found.push(Found { start, end: unit.end, pattern: Arc::clone(pattern) }),
                }
                *matched = before(&pattern.fallback, *matched);
            }
            // A shorter beginning is found again when it is long enough.
            *matched >= BEGINNING
        });
        if self.ellipsis == ELLIPSIS.len() {
            found.append(&mut self.cut);
        }
        let first = if self.starts.len() >= BEGINNING { patterns.with_beginning(self.last) } else { &[] };
        for pattern in first {
            if let Err(at) = self.begun.binary_search_by_key(&pattern.number, |(begun, _)| begun.number) {
                self.begun.insert(at, (Arc::clone(pattern), BEGINNING));
                longest = longest.max(BEGINNING);
            }
        }
        while self.starts.len() > longest {
            self.starts.pop_front();
        }
    }

    /// Gives its text without percent-encoding. What is no valid encoding is passed on as it is.
    fn decode_percent(&mut self, unit: Unit, plain: &mut Vec<Unit>) {
        if unit.byte == b'%' {
            plain.append(&mut self.escape);
            self.escape.push(unit);
            return;
        }
        self.escape.push(unit);
        let digit = |unit: &Unit| char::from(unit.byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        match &*self.escape {
            [_, high] if digit(high).is_some() => {}
            [first, high, low] => match digit(high).zip(digit(low)) {
                Some((high, low)) => {
                    plain.push(Unit { byte: (high << 4) | low, start: first.start, end: unit.end });
                    self.escape.clear();
                }
                None => plain.append(&mut self.escape),
            },
            _ => plain.append(&mut self.escape),
        }
    }

    /// Gives the level below its text. What is no valid escape sequence is passed on as it is.
    fn decode(&mut self, unit: Unit, decoded: &mut Vec<Unit>) {
        if self.escape.is_empty() && unit.byte != b'\\' {
            decoded.push(unit);
            return;
        }
        self.escape.push(unit);
        let mut text = [0; 12];
        for (byte, unit) in text.iter_mut().zip(&self.escape) {
            *byte = unit.byte;
        }
        match unescaped(text.get(..self.escape.len()).unwrap_or_default()) {
            Escape::Incomplete => {}
            Escape::Character(character) => {
                let start = self.escape.first().map_or(unit.start, |first| first.start);
                let mut bytes = [0; 4];
                decoded.extend(character.encode_utf8(&mut bytes).bytes().map(|byte| Unit {
                    byte,
                    start,
                    end: unit.end,
                }));
                self.escape.clear();
            }
            Escape::Invalid => decoded.append(&mut self.escape),
        }
    }
}

/// An escape sequence of JSON.
enum Escape {
    Incomplete,
    Character(char),
    Invalid,
}

fn unescaped(text: &[u8]) -> Escape {
    let plain = |character| Escape::Character(character);
    match text {
        [b'\\'] => Escape::Incomplete,
        [b'\\', b'b'] => plain('\u{8}'),
        [b'\\', b'f'] => plain('\u{c}'),
        [b'\\', b'n'] => plain('\n'),
        [b'\\', b'r'] => plain('\r'),
        [b'\\', b't'] => plain('\t'),
        [b'\\', byte @ (b'"' | b'\\' | b'/')] => plain(char::from(*byte)),
        [b'\\', b'u', digits @ ..] if digits.len() < 4 => incomplete(digits.iter().all(u8::is_ascii_hexdigit)),
        [b'\\', b'u', a, b, c, d] => match code(&[*a, *b, *c, *d]) {
            Some(0xd800..=0xdbff) => Escape::Incomplete,
            Some(code) => char::from_u32(code).map_or(Escape::Invalid, Escape::Character),
            None => Escape::Invalid,
        },
        [b'\\', b'u', _, _, _, _, b'\\'] | [b'\\', b'u', _, _, _, _, b'\\', b'u'] => Escape::Incomplete,
        [b'\\', b'u', _, _, _, _, b'\\', b'u', digits @ ..] if digits.len() < 4 => {
            incomplete(digits.iter().all(u8::is_ascii_hexdigit))
        }
        [b'\\', b'u', a, b, c, d, b'\\', b'u', e, f, g, h] => {
            let pair = code(&[*a, *b, *c, *d]).zip(code(&[*e, *f, *g, *h]));
            let character = pair.filter(|(_, low)| (0xdc00..=0xdfff).contains(low)).and_then(|(high, low)| {
                let high = high.checked_sub(0xd800)?.checked_mul(0x400)?;
                char::from_u32(low.checked_sub(0xdc00)?.checked_add(high)?.checked_add(0x1_0000)?)
            });
            character.map_or(Escape::Invalid, Escape::Character)
        }
        _ => Escape::Invalid,
    }
}

const fn incomplete(yes: bool) -> Escape {
    if yes { Escape::Incomplete } else { Escape::Invalid }
}

/// A code unit in hexadecimal digits.
fn code(digits: &[u8; 4]) -> Option<u32> {
    let digits = digits.iter().map(|digit| char::from(*digit).to_digit(16));
    digits.into_iter().try_fold(0_u32, |code, digit| code.checked_mul(16)?.checked_add(digit?))
}

#[cfg(test)]
mod tests {
    use super::is_distinct;

    #[test]
    fn what_may_be_a_part_of_the_format_is_not_looked_for() {
        for text in ["12 345", "-1.5e-7", "tools/call", "Content-Type", "protocolVersion", "aaaaaaaa", "a,bcdefg"] {
            assert!(!is_distinct(text), "{text}");
        }
        for text in ["hush-1234", "aXYZ", "12 34x"] {
            assert!(is_distinct(text), "{text}");
        }
    }
}
