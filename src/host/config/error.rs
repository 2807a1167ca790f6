use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;

use super::value::excerpt;

/// Why a server's entry is invalid. Other servers are not affected.
///
/// The message names the server and the key, describes the problem and suggests a correction. It never contains values
/// of `env`, `headers`, `auth` or `oauth`, which may be secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", At(server, key))]
#[non_exhaustive]
pub struct Error {
    /// The server's name.
    pub server: Arc<str>,
    /// The key's path: `tools.include`. `None` if the entry as a whole is invalid.
    pub key: Option<Box<str>>,
    /// The problem.
    pub problem: Problem,
}

/// What is wrong with an entry, and how to correct it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The entry is not a map.
    #[error("the entry is {found}; write a map with `command` or `url` in it")]
    NotAMap {
        /// What it is instead.
        found: &'static str,
    },
    /// Neither `command` nor `url` is set.
    #[error("there is neither `command` nor `url`; give one of them")]
    NoEndpoint,
    /// Both `command` and `url` are set.
    #[error("there are both `command` and `url`; remove one of them")]
    TwoEndpoints,
    /// The value has the wrong type.
    #[error("it is {found}; write {expected}")]
    Kind {
        /// The value's type.
        found: &'static str,
        /// What is allowed.
        expected: &'static str,
    },
    /// A text that is not a boolean.
    #[error("`{found}` is neither yes nor no; write true or false")]
    NotBoolean {
        /// The text.
        found: Box<str>,
    },
    /// Not a valid number of seconds.
    #[error("`{found}` is no time; write a number of seconds above 0")]
    NotSeconds {
        /// The value.
        found: Box<str>,
    },
    /// Not a whole number, or out of range.
    #[error("`{found}` is no count; write a whole number, 0 or more")]
    NotCount {
        /// The value.
        found: Box<str>,
    },
    /// An empty text where one is required.
    #[error("it is empty; write {expected}, or remove the key")]
    Empty {
        /// What is required.
        expected: &'static str,
    },
    /// The value refers to a variable that is not set.
    #[error("there is no `{variable}`; give it a value, or write `${{{variable}:-…}}` with one to fall back on")]
    NoVariable {
        /// The variable's name.
        variable: Box<str>,
    },
}

/// A likely mistake in a server's entry that does not make it invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Warning {
    /// The server's name.
    pub server: Arc<str>,
    /// The key's path: `tools.include`. `None` if the warning is about the server's name.
    pub key: Option<Box<str>>,
    /// What is likely a mistake.
    pub oddity: Oddity,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", At(&self.server, &self.key), self.oddity)
    }
}

/// A likely mistake in an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Oddity {
    /// The key is unknown.
    UnknownKey {
        /// The known key with the most similar name.
        nearest: Option<&'static str>,
    },
    /// The key or the server is repeated; the last one counts.
    Twice,
    /// The key has no effect on servers of this kind.
    NoEffect {
        /// The key that the server needs for it to have an effect.
        needs: &'static str,
    },
    /// A value that is not a string, used as one. It may differ from what was written: `1.10` is the number `1.1`, and
    /// `yes` may become `true`.
    TakenAsText,
    /// A timeout of more than a day: probably meant as milliseconds.
    LongTime,
    /// An unknown value. It is kept if its field allows any value.
    UnknownWord {
        /// The value.
        word: Box<str>,
    },
    /// An unknown kind of authentication. It is kept, but not shown, because it may be a secret.
    UnknownAuth,
    /// The key contradicts `command` or `url`, which takes precedence.
    Contradiction,
    /// `include` is an empty list beside `exclude`: no tool is used.
    NoTools,
}

impl fmt::Display for Oddity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKey { nearest: Some(nearest) } => {
                write!(f, "nobody knows this key; was `{nearest}` meant?")
            }
            Self::UnknownKey { nearest: None } => f.write_str("nobody knows this key"),
            Self::Twice => f.write_str("it is there more than once; the last one counts"),
            Self::NoEffect { needs } => write!(f, "it has no effect on a server without `{needs}`"),
            Self::TakenAsText => {
                f.write_str("it is no text, and may come out otherwise than written; put it in quotes")
            }
            Self::LongTime => f.write_str("it is more than a day; it is in seconds, not in milliseconds"),
            Self::UnknownWord { word } => write!(f, "nobody knows `{word}`"),
            Self::UnknownAuth => {
                f.write_str("nobody knows this way to authenticate; write `oauth`, or give a token in `headers`")
            }
            Self::NoTools => {
                f.write_str("it is empty, so no tool is used; remove it to use all but those in `exclude`")
            }
            Self::Contradiction => f.write_str("it contradicts the entry's `command` or `url`, which counts"),
        }
    }
}

/// The place of a problem, as part of a message.
struct At<'a>(&'a str, &'a Option<Box<str>>);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server `{}`", excerpt(self.0))?;
        self.1.as_ref().map_or(Ok(()), |key| write!(f, ", `{key}`"))
    }
}
