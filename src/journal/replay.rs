use alloc::boxed::Box;
use alloc::string::{String, ToString};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::line::{BindingForm, Header, command_result, json};
use super::reader::{Content, Line, Reader, parsed};
use super::recordable::Subject;
use super::{End, JournalError, JournalLimits, Recordable};
#[cfg(feature = "http")]
use crate::Http;
use crate::host::hub::Hub;
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
        let (Header { binding, options, seed, .. }, lines) = Reader::new(journal, limits)?;
        let client = || options_of::<Options>(options);
        Ok(match binding {
            BindingForm::Messages => {
                Self::Messages(Box::new(Player::new(Client::new(Messages::new(), client()?, seed), lines)))
            }
            BindingForm::Lines => Self::Lines(Box::new(Player::new(Client::new(Lines::new(), client()?, seed), lines))),
            #[cfg(feature = "http")]
            BindingForm::Http { url } => {
                let http = Http::new(&url).map_err(|why| not_a_journal(&why))?;
                Self::Http(Box::new(Player::new(Client::new(http, client()?, seed), lines)))
            }
            #[cfg(not(feature = "http"))]
            BindingForm::Http { .. } => return Err(JournalError::NoHttp),
            BindingForm::Hub => Self::Hub(Box::new(Player::new(Hub::new(options_of(options)?, seed), lines))),
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
    /// The result of a command, until its line.
    result: Option<Applied<R>>,
    over: bool,
}

type Applied<R> = Result<<R as Subject>::Accepted, <R as Subject>::Error>;

/// What a line of a journal is, of a client or of a hub.
#[derive(Debug)]
#[non_exhaustive]
pub enum Played<R: Recordable> {
    /// An input or a command, which was applied.
    Input(R::Input),
    /// The result of the command before it.
    Result(Result<R::Accepted, R::Error>),
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
            Content::Input(input) => {
                intact()?;
                let input: R::Input = parsed(number, input)?;
                self.now = at;
                self.done.inputs = self.done.inputs.saturating_add(1);
                let result = self.subject.give(at, input.clone());
                self.result = Some(result).filter(|_| R::is_command(&input));
                Ok(Played::Input(input))
            }
            Content::Result(recorded) => {
                let result = self.result.take().ok_or_else(|| invalid("there is no command before it"))?;
                compare(number, recorded.get(), &command_result(&result))?;
                intact()?;
                Ok(Played::Result(result))
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

fn options_of<'a, T: Deserialize<'a>>(options: &'a RawValue) -> Result<T, JournalError> {
    serde_json::from_str(options.get()).map_err(|error| not_a_journal(&error))
}

fn not_a_journal(why: &impl ToString) -> JournalError {
    JournalError::NotAJournal { why: why.to_string().into() }
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
