use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::line::json;
use super::part::StreamKey;
use super::recordable::Subject;
use super::scan::{Found, Scanner};
use super::secrets::{Secrets, merged};
use crate::Time;

/// The newest entries, from the first chunk on that may end with the beginning of a secret.
#[derive(Debug)]
pub(super) struct Held<R: Subject> {
    entries: VecDeque<Entry<R::Input>>,
    /// The number of the first entry, counted from 0.
    first: u64,
    bytes: usize,
    /// The streams with such chunks.
    streams: BTreeMap<StreamKey, Stream>,
}

#[derive(Debug)]
enum Entry<I> {
    /// A line, without its sum.
    Line(String),
    /// A chunk, and where it begins in the bytes that the scanner read.
    Chunk { at: Time, base: u64, input: I },
}

#[derive(Debug)]
struct Stream {
    scanner: Scanner,
    found: Vec<Found>,
    /// The numbers of its entries.
    chunks: Vec<u64>,
}

impl<R: Subject> Default for Held<R> {
    fn default() -> Self {
        Self { entries: VecDeque::new(), first: 0, bytes: 0, streams: BTreeMap::new() }
    }
}

impl<R: Subject> Held<R> {
    /// Number and bytes of the entries.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.entries.len(), self.bytes)
    }

    /// Drops everything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn line(&mut self, line: String) {
        self.bytes = self.bytes.saturating_add(line.len());
        self.entries.push_back(Entry::Line(line));
    }

    /// Adds a chunk of a stream.
    pub(super) fn chunk(&mut self, secrets: &Secrets, at: Time, key: StreamKey, mut input: R::Input) {
        let new = || Stream { scanner: Scanner::new(), found: Vec::new(), chunks: Vec::new() };
        let stream = self.streams.entry(key).or_insert_with(new);
        let base = stream.scanner.length();
        if let Some(bytes) = R::bytes(&mut input) {
            secrets.read(&mut stream.scanner, bytes, &mut stream.found);
            self.bytes = self.bytes.saturating_add(bytes.len());
        }
        stream.chunks.push(self.first.saturating_add(self.entries.len() as u64));
        let is_settled = secrets.is_settled(&stream.scanner);
        self.entries.push_back(Entry::Chunk { at, base, input });
        if is_settled {
            self.settle(secrets, key);
        }
    }

    /// The chunks of a stream become lines: nothing follows that belongs to a secret in them.
    pub(super) fn settle(&mut self, secrets: &Secrets, key: StreamKey) {
        let Some(Stream { found, chunks, .. }) = self.streams.remove(&key) else { return };
        let found = merged(found);
        for number in chunks {
            let place = usize::try_from(number.saturating_sub(self.first)).unwrap_or(usize::MAX);
            let Some(entry) = self.entries.get_mut(place) else { continue };
            let Entry::Chunk { at, base, input } = entry else { continue };
            if let Some(bytes) = R::bytes(input) {
                self.bytes = self.bytes.saturating_sub(bytes.len());
                *bytes = secrets.masked(*base, bytes, &found).into();
            }
            let line = line(secrets, *at, "in", json(input));
            self.bytes = self.bytes.saturating_add(line.len());
            *entry = Entry::Line(line);
        }
    }

    /// All streams ended.
    pub(super) fn settle_all(&mut self, secrets: &Secrets) {
        while let Some(key) = self.streams.keys().next().copied() {
            self.settle(secrets, key);
        }
    }

    /// The next line that waits for nothing.
    pub(super) fn pop(&mut self) -> Option<String> {
        let Entry::Line(line) = self.entries.front_mut()? else { return None };
        let line = core::mem::take(line);
        self.bytes = self.bytes.saturating_sub(line.len());
        self.entries.pop_front();
        self.first = self.first.saturating_add(1);
        Some(line)
    }
}

/// A line of one member besides its time, without secrets and without its sum.
pub(super) fn line(secrets: &Secrets, at: Time, name: &str, value: String) -> String {
    format!("{{\"at\":{},\"{name}\":{}}}", at.as_micros(), secrets.hide(value))
}
