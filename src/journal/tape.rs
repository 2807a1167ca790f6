use alloc::format;
use alloc::string::String;

use super::JournalLimits;
use super::line::{End, close, json};
use super::secrets::Secrets;
use crate::Time;

/// Room for the last line.
const LAST: usize = 80;

/// The lines that were not taken yet.
#[derive(Debug)]
pub(super) struct Tape {
    limits: JournalLimits,
    /// The first line, until there is another: secrets may be named before.
    header: Option<String>,
    text: String,
    /// Number and bytes of all lines so far.
    lines: usize,
    bytes: usize,
    /// Whether the journal ended, and how many entries were dropped since.
    dropped: Option<u64>,
}

impl Tape {
    pub(super) const fn new(header: String, limits: JournalLimits) -> Self {
        Self { limits, header: Some(header), text: String::new(), lines: 0, bytes: 0, dropped: None }
    }

    /// Whether the journal ended. An entry that it should have had is counted.
    pub(super) fn drops(&mut self, entries: u64) -> bool {
        self.dropped = self.dropped.map(|dropped| dropped.saturating_add(entries));
        self.dropped.is_some()
    }

    /// Whether there is no room for this many lines and bytes.
    pub(super) const fn is_full(&self, lines: usize, bytes: usize) -> bool {
        let JournalLimits { line: _, entries, bytes: most } = self.limits;
        self.lines.saturating_add(lines) >= entries || self.bytes.saturating_add(bytes) > most.saturating_sub(LAST)
    }

    /// Writes the header, if it was not written yet.
    pub(super) fn begin(&mut self, secrets: &Secrets) {
        if let Some(header) = self.header.take()
            && !self.push(secrets.hide(header))
        {
            self.dropped = Some(0);
        }
    }

    /// Adds an entry, an object. If there is no room, the journal ends.
    pub(super) fn entry(&mut self, now: Time, entry: String) {
        if !self.drops(1) && !self.push(entry) {
            self.end(now, End::Limit);
            self.dropped = Some(1);
        }
    }

    pub(super) fn end(&mut self, now: Time, end: End) {
        if self.dropped.is_none() {
            let mut line = format!("{{\"at\":{},\"end\":{}", now.as_micros(), json(&end));
            close(&mut line, self.lines.saturating_add(1));
            self.write(&line);
            self.dropped = Some(0);
        }
    }

    pub(super) fn take(&mut self) -> String {
        core::mem::take(&mut self.text)
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped.unwrap_or_default()
    }

    /// Adds a line, an object; false if there is no room for it.
    fn push(&mut self, mut line: String) -> bool {
        line.pop();
        close(&mut line, self.lines.saturating_add(1));
        if line.len() > self.limits.line || self.is_full(1, line.len()) {
            return false;
        }
        self.write(&line);
        true
    }

    fn write(&mut self, line: &str) {
        self.lines = self.lines.saturating_add(1);
        self.bytes = self.bytes.saturating_add(line.len());
        self.text.push_str(line);
    }
}
