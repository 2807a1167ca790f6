use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("authorization failed at {stage}: {reason}")]
#[non_exhaustive]
pub struct OAuthError {
    /// The stage that failed.
    pub stage: Stage,
    /// What was expected, what came, and what to do. Words of a server are an excerpt.
    pub reason: Box<str>,
}

impl OAuthError {
    pub(super) fn new(stage: Stage, reason: impl Into<Box<str>>) -> Self {
        Self { stage, reason: reason.into() }
    }
}

/// Why a request to the MCP server is refused for good.
#[derive(Debug)]
pub(crate) enum Denied {
    /// The server forbids it. The reason says so, and names the scopes.
    Forbidden(OAuthError),
    /// There is no token that the server accepts.
    Unauthorized(OAuthError),
}

impl From<Denied> for OAuthError {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::Forbidden(error) | Denied::Unauthorized(error) => error,
        }
    }
}

/// The stage of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Protected-resource metadata.
    ResourceMetadata,
    /// Authorization server metadata.
    ServerMetadata,
    /// The registration of the client.
    Registration,
    /// The user.
    Authorization,
    /// The token request.
    Token,
    /// A refresh.
    Refresh,
    /// A grant of further scopes.
    StepUp,
}

impl Stage {
    /// The stable name, in kebab case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ResourceMetadata => "resource-metadata",
            Self::ServerMetadata => "server-metadata",
            Self::Registration => "registration",
            Self::Authorization => "authorization",
            Self::Token => "token",
            Self::Refresh => "refresh",
            Self::StepUp => "step-up",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An excerpt of a server's words, on one line.
pub(super) fn excerpt(words: &str) -> Box<str> {
    crate::text::excerpt(&one_line(words)).into()
}

/// A text on one line: white space and control characters between words become a space.
fn one_line(text: &str) -> String {
    let words = text.split(|it: char| it.is_whitespace() || it.is_control()).filter(|word| !word.is_empty());
    let mut out = String::with_capacity(text.len());
    for word in words {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_becomes_one_line() {
        assert_eq!(one_line(" a\r\n\tb\u{7}\u{85}c  d\n"), "a b c d");
        assert_eq!(one_line("\n"), "");
    }
}
