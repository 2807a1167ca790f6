use alloc::string::ToString;

use serde::Deserialize;
use serde_json::value::RawValue;

#[cfg(feature = "testkit")]
use super::line::BindingForm;
use super::line::{Entry, FORMAT, Header, has_valid_sum};
use super::{End, JournalError, JournalLimits};
use crate::Time;

/// A line after the header.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    pub(crate) number: usize,
    pub(crate) at: Time,
    pub(crate) entry: Content<'a>,
    /// Whether its sum is correct.
    pub(crate) valid: bool,
}

/// What a line holds.
#[derive(Debug)]
pub(crate) enum Content<'a> {
    Input(&'a RawValue),
    Result(&'a RawValue),
    Output(&'a RawValue),
    End(End),
}

/// What a journal is of: a client over a pipe or over HTTP, or a hub.
#[cfg(feature = "testkit")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Pipe,
    Http,
    Hub,
}

/// A value of a line.
pub(crate) fn parsed<'a, T: Deserialize<'a>>(line: usize, value: &'a RawValue) -> Result<T, JournalError> {
    serde_json::from_str(value.get()).map_err(|error| JournalError::Invalid { line, why: error.to_string().into() })
}

/// Reads the lines of a journal, within limits.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    /// The number of the last line.
    number: usize,
    bytes: usize,
    limits: JournalLimits,
}

impl<'a> Reader<'a> {
    /// Reads the header.
    pub(super) fn new(
        journal: &'a [u8],
        limits: JournalLimits,
    ) -> Result<(Header<'a, &'a RawValue>, Self), JournalError> {
        #[derive(Deserialize)]
        struct Version {
            journal: u32,
        }
        let mut reader = Self { rest: journal, number: 0, bytes: 0, limits };
        let Some(line) = reader.line()? else { return Err(JournalError::NotAJournal { why: "it is empty".into() }) };
        let wrong = |error: serde_json::Error| JournalError::NotAJournal { why: error.to_string().into() };
        let Version { journal: found } = serde_json::from_str(line).map_err(wrong)?;
        if found != FORMAT {
            return Err(JournalError::Format { found });
        }
        if !has_valid_sum(line, 1) {
            return Err(JournalError::Changed { line: 1 });
        }
        Ok((serde_json::from_str(line).map_err(wrong)?, reader))
    }

    /// Reads the header: what the journal is of.
    #[cfg(feature = "testkit")]
    pub(crate) fn open(journal: &'a [u8], limits: JournalLimits) -> Result<(Kind, Self), JournalError> {
        let (header, reader) = Self::new(journal, limits)?;
        let kind = match header.binding {
            BindingForm::Messages | BindingForm::Lines => Kind::Pipe,
            BindingForm::Http { .. } => Kind::Http,
            BindingForm::Hub => Kind::Hub,
        };
        Ok((kind, reader))
    }

    /// The next line, which there is before the last one.
    pub(crate) fn next(&mut self) -> Result<Line<'a>, JournalError> {
        let Some(line) = self.line()? else { return Err(JournalError::CutOff { line: self.number }) };
        let number = self.number;
        let valid = has_valid_sum(line, number);
        let invalid = |why: &str| JournalError::Invalid { line: number, why: why.into() };
        let entry: Entry<'_> = serde_json::from_str(line).map_err(|error| {
            if valid { invalid(&error.to_string()) } else { JournalError::Changed { line: number } }
        })?;
        let at = entry.at;
        let entry = match entry {
            Entry { input: Some(input), result: None, out: None, end: None, .. } => Content::Input(input),
            Entry { input: None, result: Some(recorded), out: None, end: None, .. } => Content::Result(recorded),
            Entry { input: None, result: None, out: Some(recorded), end: None, .. } => Content::Output(recorded),
            Entry { input: None, result: None, out: None, end: Some(end), .. } => Content::End(end),
            _ => return Err(invalid("it has not exactly one of `in`, `result`, `out` and `end`")),
        };
        Ok(Line { number, at, entry, valid })
    }

    /// Nothing follows the last line.
    pub(crate) fn check_end(&self) -> Result<(), JournalError> {
        let why = || "lines follow the last one".into();
        if self.rest.is_empty() { Ok(()) } else { Err(JournalError::Invalid { line: self.number, why: why() }) }
    }

    /// The next line, without its line feed.
    fn line(&mut self) -> Result<Option<&'a str>, JournalError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (cut, line) = (JournalError::CutOff { line: self.number }, self.number.saturating_add(1));
        let exceeds = |what, limit| JournalError::Limit { line, what, limit };
        let JournalLimits { line: longest, entries, bytes: most } = self.limits;
        if line > entries {
            return Err(exceeds("entries", entries));
        }
        let window = self.rest.get(..longest).unwrap_or(self.rest);
        let Some(end) = window.iter().position(|byte| *byte == b'\n') else {
            return Err(if window.len() < self.rest.len() { exceeds("line", longest) } else { cut });
        };
        let (text, rest) = self.rest.split_at(end);
        self.bytes = self.bytes.saturating_add(end).saturating_add(1);
        if self.bytes > most {
            return Err(exceeds("bytes", most));
        }
        self.rest = rest.get(1..).unwrap_or_default();
        self.number = line;
        let invalid = |_| match line {
            1 => JournalError::NotAJournal { why: "it is not UTF-8".into() },
            _ => JournalError::Invalid { line, why: "it is not UTF-8".into() },
        };
        core::str::from_utf8(text).map(Some).map_err(invalid)
    }
}
