//! Reads a journal, and gives its inputs to a new client or hub.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::input::{InputError, Subject};
use super::{
    BindingForm, End, Entry, FORMAT, Header, JournalError, JournalLimits, Recordable, command_result, has_valid_sum,
    json, with_breaks,
};
#[cfg(feature = "http")]
use crate::Http;
use crate::host::hub::{Hub, HubOptions};
use crate::text::excerpt;
use crate::{Client, Lines, Messages, Options, Time};

/// Bytes of a value that are shown before and after a difference.
const SHOWN: usize = 80;

/// A journal that is replayed: a client or a hub is created as its header says, and is given its inputs.
#[derive(Debug)]
#[non_exhaustive]
pub enum Replay<'a> {
    /// The journal of a client over [`Messages`].
    Messages(Box<Player<'a, Client<Messages>>>),
    /// The journal of a client over [`Lines`].
    Lines(Box<Player<'a, Client<Lines>>>),
    /// The journal of a client over [`Http`](crate::Http).
    #[cfg(feature = "http")]
    Http(Box<Player<'a, Client<Http>>>),
    /// The journal of a [`Hub`].
    Hub(Box<Player<'a, Hub>>),
}

/// What a complete replay was, which had the same outputs as the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Replayed {
    /// Number of lines.
    pub lines: usize,
    /// Number of inputs and commands.
    pub inputs: usize,
    /// Number of actions.
    pub actions: usize,
    /// Why the journal ends.
    pub end: Option<End>,
}

impl<'a> Replay<'a> {
    /// Reads the header of a journal.
    ///
    /// # Errors
    /// [`JournalError::NotAJournal`], [`JournalError::Format`], [`JournalError::NoHttp`], [`JournalError::Limit`],
    /// [`JournalError::Changed`] and [`JournalError::CutOff`], for the first line.
    pub fn new(journal: &'a [u8], limits: JournalLimits) -> Result<Self, JournalError> {
        Self::with_options(journal, limits, |_| {})
    }

    /// As [`new`](Self::new), with options that differ from the recorded ones: those of the client, or of a hub's sessions
    /// ([`HubOptions::session`]). The replay ends at the first output that they make different.
    ///
    /// # Errors
    /// As of [`new`](Self::new).
    pub fn with_options(
        journal: &'a [u8],
        limits: JournalLimits,
        change: impl FnOnce(&mut Options),
    ) -> Result<Self, JournalError> {
        let (Header { binding, options, seed, authorization, .. }, lines) = Reader::new(journal, limits)?;
        #[cfg(not(feature = "http"))]
        let _ = authorization;
        Ok(match binding {
            BindingForm::Messages => Self::Messages(Box::new(Player::new(
                Client::new(Messages::new(), options_of(&options, change)?, seed),
                lines,
            ))),
            BindingForm::Lines => Self::Lines(Box::new(Player::new(
                Client::new(Lines::new(), options_of(&options, change)?, seed),
                lines,
            ))),
            #[cfg(feature = "http")]
            BindingForm::Http { url } => {
                let http = Http::new(&url).map_err(|why| not_a_journal(&why))?;
                let http = authorized(http, authorization.as_deref())?;
                Self::Http(Box::new(Player::new(Client::new(http, options_of(&options, change)?, seed), lines)))
            }
            #[cfg(not(feature = "http"))]
            BindingForm::Http { .. } => return Err(JournalError::NoHttp),
            BindingForm::Hub => {
                let options = options_of(&options, |options: &mut HubOptions| change(&mut options.session))?;
                Self::Hub(Box::new(Player::new(Hub::new(options, seed), lines)))
            }
        })
    }

    /// Replays the rest of the journal.
    ///
    /// # Errors
    /// The first difference, or what is wrong with the journal.
    pub fn finish(self) -> Result<Replayed, JournalError> {
        match self {
            Self::Messages(player) => player.finish(),
            Self::Lines(player) => player.finish(),
            #[cfg(feature = "http")]
            Self::Http(player) => player.finish(),
            Self::Hub(player) => player.finish(),
        }
    }
}

/// Replays a journal, and compares what the client does with what was recorded.
///
/// Memory is bounded by that of the client, whose limits the journal has, and by one line.
///
/// # Errors
/// The first difference, or what is wrong with the journal.
pub fn replay(journal: &[u8], limits: JournalLimits) -> Result<Replayed, JournalError> {
    Replay::new(journal, limits)?.finish()
}

/// Replays a journal line by line.
#[derive(Debug)]
pub struct Player<'a, R: Recordable> {
    subject: R,
    lines: Reader<'a>,
    done: Replayed,
    now: Time,
    /// The result of what was given, as a text and as a value, until its line.
    result: Option<(String, Played<R>)>,
    over: bool,
}

/// What a line of a journal is, of a client or of a hub.
#[derive(Debug)]
#[non_exhaustive]
pub enum Played<R: Recordable> {
    /// A command, which was applied.
    Command(R::Command),
    /// An input, which was taken.
    Input(R::Input),
    /// The result of the command before it.
    Result(Result<R::Accepted, R::Refused>),
    /// The result of the input before it, a redirect to an authorization.
    InputResult(Result<(), InputError>),
    /// An action, the recorded one.
    Action(R::Action),
    /// There was no action to poll.
    Idle,
    /// The last line.
    End(End),
}

impl<'a, R: Recordable> Player<'a, R> {
    fn new(subject: R, lines: Reader<'a>) -> Self {
        let done = Replayed { lines: 1, ..Replayed::default() };
        Self { subject, lines, done, now: Time::ZERO, result: None, over: false }
    }

    /// The client or hub, as it was after the last line.
    pub const fn get(&self) -> &R {
        &self.subject
    }

    /// The time of the last line.
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Replays the next line; `None` after the last one, and after an error.
    ///
    /// # Errors
    /// The difference from the recording, or what is wrong with the line.
    #[allow(clippy::should_implement_trait, reason = "an iterator could not lend the client")]
    pub fn next(&mut self) -> Option<Result<Played<R>, JournalError>> {
        if self.over {
            return None;
        }
        let played = self.play();
        self.over = matches!(played, Err(_) | Ok(Played::End(_)));
        Some(played)
    }

    /// Replays the rest.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn finish(mut self) -> Result<Replayed, JournalError> {
        while let Some(played) = self.next() {
            played?;
        }
        Ok(self.done)
    }

    fn play(&mut self) -> Result<Played<R>, JournalError> {
        let Line { number, at, entry, valid } = self.lines.next()?;
        let invalid = |why: &str| JournalError::Invalid { line: number, why: why.into() };
        let intact = || if valid { Ok(()) } else { Err(JournalError::Changed { line: number }) };
        self.done.lines = number;
        match entry {
            Content::Input(given) => {
                intact()?;
                self.now = at;
                let played = match read::<R>(number, &given)? {
                    Given::Command(command) => {
                        let result = self.subject.command(at, command.clone());
                        self.result = Some((command_result(&result), Played::Result(result)));
                        Played::Command(command)
                    }
                    Given::Input(input) => {
                        let result = self.subject.give(at, input.clone());
                        self.result =
                            R::has_result(&input).then(|| (command_result(&result), Played::InputResult(result)));
                        Played::Input(input)
                    }
                };
                self.done.inputs = self.done.inputs.saturating_add(1);
                Ok(played)
            }
            Content::Result(recorded) => {
                let (got, result) = self.result.take().ok_or_else(|| invalid("there is no command before it"))?;
                compare(number, recorded.get(), &got)?;
                intact()?;
                Ok(result)
            }
            Content::Output(recorded) => {
                let action = self.subject.next();
                compare(number, recorded.get(), &json(&action))?;
                intact()?;
                self.done.actions = self.done.actions.saturating_add(usize::from(action.is_some()));
                Ok(action.map_or(Played::Idle, Played::Action))
            }
            Content::End(end) => {
                intact()?;
                self.lines.check_end()?;
                self.done.end = Some(end);
                Ok(Played::End(end))
            }
        }
    }
}

/// A binding with the authorization of a header.
#[cfg(feature = "oauth")]
fn authorized(http: Http, authorization: Option<&RawValue>) -> Result<Http, JournalError> {
    Ok(match authorization {
        Some(header) => http.with_oauth(super::oauth::replayed(header).map_err(|why| not_a_journal(&why))?),
        None => http,
    })
}

#[cfg(all(feature = "http", not(feature = "oauth")))]
fn authorized(http: Http, authorization: Option<&RawValue>) -> Result<Http, JournalError> {
    if authorization.is_none() { Ok(http) } else { Err(JournalError::NoOAuth) }
}

fn options_of<'a, T: Deserialize<'a>>(options: &'a RawValue, change: impl FnOnce(&mut T)) -> Result<T, JournalError> {
    let mut options = serde_json::from_str(options.get()).map_err(|error| not_a_journal(&error))?;
    change(&mut options);
    Ok(options)
}

fn not_a_journal(why: &impl ToString) -> JournalError {
    JournalError::NotAJournal { why: brief(why) }
}

/// A reason may quote the journal.
fn brief(why: &impl ToString) -> Box<str> {
    excerpt(&why.to_string()).into()
}

fn compare(line: usize, recorded: &str, got: &str) -> Result<(), JournalError> {
    if recorded == got {
        return Ok(());
    }
    let at = recorded.bytes().zip(got.bytes()).take_while(|(one, other)| one == other).count();
    Err(JournalError::Differs { line, at, expected: around(recorded, at), got: around(got, at) })
}

/// The text around a byte.
fn around(text: &str, at: usize) -> Box<str> {
    let bytes = text.as_bytes();
    let (from, to) = (at.saturating_sub(SHOWN), at.saturating_add(SHOWN).min(bytes.len()));
    let shown = bytes.get(from..to).map(String::from_utf8_lossy).unwrap_or_default();
    let (before, after) = (if from > 0 { "…" } else { "" }, if to < bytes.len() { "…" } else { "" });
    [before, &shown, after].concat().into()
}

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
    Input(Cow<'a, RawValue>),
    Result(Cow<'a, RawValue>),
    Output(Cow<'a, RawValue>),
    End(End),
}

impl<'a> Content<'a> {
    /// The one member that an entry has.
    fn of(entry: &Entry<'a>) -> Option<Self> {
        match *entry {
            Entry { input: Some(input), result: None, out: None, end: None, .. } => {
                Some(Self::Input(Cow::Borrowed(input)))
            }
            Entry { input: None, result: Some(result), out: None, end: None, .. } => {
                Some(Self::Result(Cow::Borrowed(result)))
            }
            Entry { input: None, result: None, out: Some(out), end: None, .. } => {
                Some(Self::Output(Cow::Borrowed(out)))
            }
            Entry { input: None, result: None, out: None, end: Some(end), .. } => Some(Self::End(end)),
            _ => None,
        }
    }

    fn into_owned(self) -> Content<'static> {
        let owned = |value: Cow<'_, RawValue>| Cow::Owned(value.into_owned());
        match self {
            Self::Input(input) => Content::Input(owned(input)),
            Self::Result(result) => Content::Result(owned(result)),
            Self::Output(out) => Content::Output(owned(out)),
            Self::End(end) => Content::End(end),
        }
    }
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
    serde_json::from_str(value.get()).map_err(|error| JournalError::Invalid { line, why: brief(&error) })
}

/// What a line gives to a client or a hub.
pub(crate) enum Given<R: Subject> {
    Command(R::Command),
    Input(R::Input),
}

/// Reads what a line gives.
pub(crate) fn read<R: Subject>(line: usize, json: &RawValue) -> Result<Given<R>, JournalError> {
    if R::is_input(json) { parsed(line, json).map(Given::Input) } else { parsed(line, json).map(Given::Command) }
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
    ) -> Result<(Header<'a, Box<RawValue>>, Self), JournalError> {
        #[derive(Deserialize)]
        struct Version {
            journal: u32,
        }
        let mut reader = Self { rest: journal, number: 0, bytes: 0, limits };
        let Some(line) = reader.line()? else { return Err(JournalError::NotAJournal { why: "it is empty".into() }) };
        let wrong = |error: serde_json::Error| not_a_journal(&error);
        let Version { journal: found } = serde_json::from_str(line).map_err(wrong)?;
        if found != FORMAT {
            return Err(JournalError::Format { found });
        }
        if !has_valid_sum(line, 1) {
            return Err(JournalError::Changed { line: 1 });
        }
        let header: Header<'_, Box<RawValue>> = serde_json::from_str(line).map_err(wrong)?;
        Ok(match with_breaks(line, &header.lf, &header.cr).map_err(|why| not_a_journal(&why))? {
            Some(line) => (serde_json::from_str(&line).map_err(wrong)?, reader),
            None => (header, reader),
        })
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
        let unread = |why: &str| if valid { invalid(why) } else { JournalError::Changed { line: number } };
        let unreadable = |error: serde_json::Error| unread(&brief(&error));
        let entry: Entry<'a> = serde_json::from_str(line).map_err(unreadable)?;
        let at = entry.at;
        let content = match with_breaks(line, &entry.lf, &entry.cr).map_err(unread)? {
            Some(line) => {
                let entry: Entry<'_> = serde_json::from_str(&line).map_err(unreadable)?;
                Content::of(&entry).map(Content::into_owned)
            }
            None => Content::of(&entry),
        };
        let entry = content.ok_or_else(|| invalid("it has not exactly one of `in`, `result`, `out` and `end`"))?;
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
