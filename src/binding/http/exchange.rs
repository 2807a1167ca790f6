use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, DATE, HeaderName, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};

use super::RETRY;
use super::request::{Address, resolve};
use crate::Time;
use crate::binding::SseDecoder;
use crate::client::{Challenge, Outgoing};

/// The longest wait that a server may ask for before the next try.
pub(super) const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// What an exchange is for.
#[derive(Clone, Debug)]
pub(super) enum Purpose {
    /// The POST of a message.
    Message(Outgoing),
    /// The GET of the stream for what a legacy server says unasked.
    Stream,
    /// The GET that takes up the stream of a request where it broke.
    Resume { id: u64, last_id: Vec<u8>, retry: Option<Duration> },
    /// The GET of the older transport's only stream; where it was a try, what was refused before.
    Events { refused: Option<Refused> },
    /// The DELETE of a session; then this request is sent again.
    Delete { then: Option<u64> },
}

/// An `initialize` that was refused, in a way that may mean that the server is of the older transport.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub(super) id: u64,
    pub(super) status: u16,
    pub(super) words: Box<str>,
}

/// An exchange that is under way.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    pub(super) purpose: Purpose,
    pub(super) url: Address,
    pub(super) redirects: u8,
    /// The answer's; 0 until it has one.
    pub(super) status: u16,
    pub(super) reply: Reply,
    /// What is due for it, if it does not end by itself.
    pub(super) let_go: Option<(Time, u64)>,
}

impl Purpose {
    /// The request, by its id on the wire, whose answer it brings.
    pub(super) fn carried(&self) -> Option<u64> {
        match self {
            Self::Message(message) => message.id(),
            Self::Resume { id, .. } => Some(*id),
            Self::Stream | Self::Events { .. } | Self::Delete { .. } => None,
        }
    }

    /// The message that it posts, where that is a notification or an answer.
    pub(super) fn one_way(&self) -> Option<&Outgoing> {
        match self {
            Self::Message(message) if message.id().is_none() => Some(message),
            Self::Message(_) | Self::Stream | Self::Resume { .. } | Self::Events { .. } | Self::Delete { .. } => None,
        }
    }
}

impl Reply {
    /// Bytes that are kept until more of them comes.
    pub(super) fn buffered(&self) -> usize {
        match self {
            Self::Json(body) => body.len(),
            Self::Events(events) => events.decoder.buffered(),
            Self::Refusal(refusal) => refusal.body.len(),
            Self::None | Self::Begun { .. } | Self::Ignored => 0,
        }
    }
}

/// What came of the answer so far.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    /// Nothing.
    None,
    /// A good status; whether JSON or a stream follows is not known yet.
    Begun { labelled: Option<Kind> },
    /// JSON, in one piece.
    Json(Vec<u8>),
    /// A stream of events.
    Events(Events),
    /// A bad status.
    Refusal(Box<Refusal>),
    /// Nothing that matters.
    Ignored,
}

#[derive(Clone, Debug)]
pub(super) struct Events {
    pub(super) decoder: SseDecoder,
    /// How long to wait before it is taken up again.
    pub(super) retry: Option<Duration>,
    /// It is one, as its label or an event in it shows.
    pub(super) sure: bool,
}

/// How an answer comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Json,
    Events,
}

#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    /// The wait that the server asks for before the next try, [`LONGEST_RETRY_AFTER`] at most; [`RETRY`] where its
    /// `Retry-After` says no time.
    pub(super) retry_after: Option<Duration>,
    pub(super) challenges: Vec<Challenge>,
    /// Where else the server points to.
    pub(super) location: Option<Address>,
    /// How long the body is, where the server says.
    pub(super) length: Option<usize>,
    pub(super) body: Vec<u8>,
    /// The body broke off.
    pub(super) cut: bool,
}

impl Kind {
    /// What the label says.
    pub(super) fn labelled(headers: &HeaderMap) -> Option<Self> {
        let label = headers.get(CONTENT_TYPE)?.to_str().ok()?;
        let kind = label.split(';').next()?.trim().to_ascii_lowercase();
        match &*kind {
            "application/json" => Some(Self::Json),
            "text/event-stream" => Some(Self::Events),
            _ => None,
        }
    }

    /// What the first byte of a body says, beside its label; nothing where there is none yet.
    pub(super) fn sniffed(body: &[u8], labelled: Option<Self>) -> Option<Self> {
        Some(match body.first()? {
            // A page for people is no stream.
            b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b'<' => Self::Json,
            _ if labelled == Some(Self::Events) => Self::Events,
            // A comment, `data`, `event`, `id`, `retry`.
            b':' | b'd' | b'e' | b'i' | b'r' => Self::Events,
            _ => Self::Json,
        })
    }
}

impl Refusal {
    pub(super) fn new(status: StatusCode, headers: &HeaderMap, url: &Address) -> Self {
        let retry_after = headers.contains_key(RETRY_AFTER).then(|| retry_after(headers).unwrap_or(RETRY));
        let mut challenges = Vec::new();
        for value in headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok()) {
            for challenge in http_auth::parser::ChallengeParser::new(value).map_while(Result::ok) {
                let params = challenge.params.iter().map(|(name, value)| ((*name).into(), value.to_unescaped().into()));
                challenges.push(Challenge::new(challenge.scheme, params.collect()));
            }
        }
        let location = headers.get(LOCATION).and_then(|location| resolve(url, location.as_bytes()));
        let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.trim().parse().ok());
        Self { status, retry_after, challenges, location, length, body: Vec::new(), cut: false }
    }
}

/// The time that `Retry-After` says, where it says one (RFC 9110, section 10.2.3). A date counts from the answer's own
/// `Date`, since a session knows no calendar.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: HeaderName| headers.get(name)?.to_str().ok().map(str::trim);
    let after = text(RETRY_AFTER).filter(|after| !after.is_empty())?;
    let wait = if after.bytes().all(|byte| byte.is_ascii_digit()) {
        // What overflows is above any bound.
        Duration::from_secs(after.parse().unwrap_or(u64::MAX))
    } else {
        let (until, now) = (httpdate::parse_http_date(after).ok()?, httpdate::parse_http_date(text(DATE)?).ok()?);
        until.duration_since(now).unwrap_or_default()
    };
    Some(wait.min(LONGEST_RETRY_AFTER))
}
