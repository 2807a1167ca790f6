//! A session over the transport that its server has.

use std::ops::{Deref, DerefMut};

use mcp_proto::binding::http::{HttpAction, HttpSession};
use mcp_proto::{Action, LineSession, Options, Session, Time};

use crate::args::Target;

pub(crate) enum Link {
    Pipe(Box<LineSession>),
    Http(Box<HttpSession>),
}

/// What such a session wants done.
pub(crate) enum Wish {
    Pipe(Action),
    Http(HttpAction),
}

impl Link {
    pub(crate) fn new(options: Options, target: &Target) -> Self {
        match target {
            Target::Demo | Target::Stdio { .. } => Self::Pipe(Box::new(LineSession::new(Session::new(options)))),
            Target::Http { url } => Self::Http(Box::new(HttpSession::new(options, url.clone()))),
        }
    }

    pub(crate) fn poll(&mut self) -> Option<Wish> {
        match self {
            Self::Pipe(session) => session.poll().map(Wish::Pipe),
            Self::Http(session) => session.poll().map(Wish::Http),
        }
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        match self {
            Self::Pipe(session) => session.deadline(),
            Self::Http(session) => session.deadline(),
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        match self {
            Self::Pipe(session) => session.handle_timeout(now),
            Self::Http(session) => session.handle_timeout(now),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Self::Pipe(session) => session.is_closed(),
            Self::Http(session) => session.is_closed(),
        }
    }
}

impl Deref for Link {
    type Target = Session;

    fn deref(&self) -> &Session {
        match self {
            Self::Pipe(session) => session,
            Self::Http(session) => session,
        }
    }
}

impl DerefMut for Link {
    fn deref_mut(&mut self) -> &mut Session {
        match self {
            Self::Pipe(session) => session,
            Self::Http(session) => session,
        }
    }
}
