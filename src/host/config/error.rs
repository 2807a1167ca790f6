use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;

use super::value::excerpt;

/// Why a server's entry is of no use. It costs that server, and no other.
///
/// Its message names the server and the key, says what is wrong, and how to mend it. Values of `env`, `headers`
/// and `auth`, which may be secrets, are never part of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", At(server, key))]
#[non_exhaustive]
pub struct Error {
    /// The server.
    pub server: Arc<str>,
    /// The key, with those that it is in: `tools.include`. None where the entry as a whole is wrong.
    pub key: Option<Box<str>>,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with an entry, and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The entry is no map.
    #[error("the entry is {found}; write a map with `command` or `url` in it")]
    NotAMap {
        /// What it is.
        found: &'static str,
    },
    /// It does not say where the server is.
    #[error("there is neither `command` nor `url`; give one of them")]
    NoEndpoint,
    /// It says so twice.
    #[error("there are both `command` and `url`; remove one of them")]
    TwoEndpoints,
    /// A value is of a kind that has no meaning there.
    #[error("it is {found}; write {expected}")]
    Kind {
        /// What it is.
        found: &'static str,
        /// What has a meaning there.
        expected: &'static str,
    },
    /// Text where it is to be said whether or not.
    #[error("`{found}` is neither yes nor no; write true or false")]
    NotBoolean {
        /// The text.
        found: Box<str>,
    },
    /// A time that is none.
    #[error("`{found}` is no time; write a number of seconds above 0")]
    NotSeconds {
        /// What was written.
        found: Box<str>,
    },
    /// A number that is none, or out of range.
    #[error("`{found}` is no count; write a whole number, 0 or more")]
    NotCount {
        /// What was written.
        found: Box<str>,
    },
    /// Nothing stands where something has to.
    #[error("it is empty; write {expected}, or remove the key")]
    Empty {
        /// What has to stand there.
        expected: &'static str,
    },
    /// The value refers to a variable that has no value.
    #[error("there is no `{variable}`; give it a value, or write `${{{variable}:-…}}` with one to fall back on")]
    NoVariable {
        /// The variable.
        variable: Box<str>,
    },
}

/// Something odd in a server's entry, which can be used all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Warning {
    /// The server.
    pub server: Arc<str>,
    /// The key, with those that it is in: `tools.include`. None where it is the server's own name.
    pub key: Option<Box<str>>,
    /// What is odd.
    pub oddity: Oddity,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", At(&self.server, &self.key), self.oddity)
    }
}

/// What is odd in an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Oddity {
    /// Nobody knows the key.
    UnknownKey {
        /// The known key that is most like it.
        nearest: Option<&'static str>,
    },
    /// The key, or the server, is there more than once; the last counts.
    Twice,
    /// The key has no effect on a server of this kind.
    NoEffect {
        /// The key that the server would have to have for it.
        needs: &'static str,
    },
    /// A value where text belongs that may have been written otherwise: `1.10` is the same number as `1.1`, and `yes`
    /// may be the same as `true`.
    TakenAsText,
    /// A time of more than a day: as milliseconds it would make sense.
    LongTime,
    /// A word that nobody knows. It is kept where there is a place for it.
    UnknownWord {
        /// The word.
        word: Box<str>,
    },
    /// A way to authenticate that nobody knows. What it says is kept, and is not told, since it may be a secret.
    UnknownAuth,
    /// It contradicts `command` or `url`, which count.
    Contradiction,
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
            Self::Contradiction => f.write_str("it contradicts the entry's `command` or `url`, which counts"),
        }
    }
}

/// Where something is, as a part of a message.
struct At<'a>(&'a str, &'a Option<Box<str>>);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server `{}`", excerpt(self.0))?;
        self.1.as_ref().map_or(Ok(()), |key| write!(f, ", `{key}`"))
    }
}
