//! Whether a server changed its era or version under a live connection, as a server behind a gateway may: then there
//! is one new handshake.

use super::{QuirkKind, Row, alphabet, recorded};
use crate::protocol::Era;

alphabet! {
    /// What the last responses showed.
    State {
        /// The server has the era and version of the handshake.
        Settled,
        /// It did not have the method of the last request.
        Doubted,
        /// It did not have the methods of the last two requests.
        DoubtedTwice,
        /// There was a new handshake, and no response since then showed that the server has its era and version.
        Renewed,
    }
}

alphabet! {
    /// What a response shows.
    Input {
        /// It is a result, or an error of the server's era.
        Expected,
        /// The server does not have the method, which its capabilities or lists imply.
        NotFound,
        /// It is an error that only a server of another era or version sends.
        OtherEra,
    }
}

alphabet! {
    /// How far the connection is.
    Phase {
        /// The handshake or discovery is in progress, or there is no connection.
        Connecting,
        /// The client is ready.
        Ready,
    }
}

alphabet! {
    /// Whether a lost connection is opened again ([`Options::reconnect`]).
    ///
    /// [`Options::reconnect`]: crate::Options::reconnect
    Reconnect {
        /// It is.
        On,
        /// It is not.
        Off,
    }
}

alphabet! {
    /// Whether a response is an input of the table.
    Watch {
        /// It is.
        Judge,
        /// It is not: there is no handshake to compare with, or no new one may follow.
        Ignore,
    }
}

/// Decides whether a response is an input of the table.
pub(crate) const fn watch(phase: Phase, reconnect: Reconnect) -> Watch {
    match phase {
        Phase::Connecting => Watch::Ignore,
        Phase::Ready => match reconnect {
            Reconnect::On => Watch::Judge,
            Reconnect::Off => Watch::Ignore,
        },
    }
}

/// [`watch`], recorded with the feature `rows`.
pub(crate) fn take_watch(phase: Phase, reconnect: Reconnect) -> Watch {
    #[cfg(feature = "rows")]
    super::rows::taken("era_change::watch", &[&phase, &reconnect]);
    watch(phase, reconnect)
}

alphabet! {
    /// How a response is carried.
    Carrier {
        /// Over a pipe.
        Pipe,
        /// Over HTTP, with a 2xx status.
        HttpSuccess,
        /// Over HTTP, with the status of an error.
        HttpError,
    }
}

alphabet! {
    /// What a response says.
    Response {
        /// It is a result, or an error that says nothing of the server's era.
        Other,
        /// The server does not have the method, which its capabilities or lists imply.
        MethodNotFound,
        /// It is the error -32022: the server does not have the version.
        VersionUnsupported,
        /// It is an error that only a modern server sends.
        ModernError,
    }
}

/// What a response shows. A server of another era refuses requests over HTTP with a status.
pub(crate) const fn shown(carrier: Carrier, response: Response, era: Era) -> Input {
    match carrier {
        Carrier::HttpSuccess => Input::Expected,
        Carrier::Pipe | Carrier::HttpError => match response {
            Response::Other => Input::Expected,
            Response::MethodNotFound => Input::NotFound,
            Response::VersionUnsupported => Input::OtherEra,
            Response::ModernError => match era {
                Era::Legacy => Input::OtherEra,
                Era::Modern => Input::Expected,
            },
        },
    }
}

/// [`shown`], recorded with the feature `rows`.
pub(crate) fn take_shown(carrier: Carrier, response: Response, era: Era) -> Input {
    #[cfg(feature = "rows")]
    super::rows::taken("era_change::shown", &[&carrier, &response, &era]);
    shown(carrier, response, era)
}

/// What the engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// End the connection, and open another one without an assumption on the era.
    Renew,
}

/// Returns the row for a state and an input.
pub(crate) const fn step(state: State, input: Input) -> Row<State, Effect> {
    type R = Row<State, Effect>;
    const RENEW: R = R::quirk(QuirkKind::EraChanged, State::Renewed, &[Effect::Renew]);
    match state {
        State::Settled => match input {
            Input::Expected => R::ignore(state),
            Input::NotFound => R::advance(State::Doubted, &[]),
            Input::OtherEra => RENEW,
        },
        State::Doubted => match input {
            Input::Expected => R::advance(State::Settled, &[]),
            Input::NotFound => R::advance(State::DoubtedTwice, &[]),
            Input::OtherEra => RENEW,
        },
        State::DoubtedTwice => match input {
            Input::Expected => R::advance(State::Settled, &[]),
            Input::NotFound | Input::OtherEra => RENEW,
        },
        State::Renewed => match input {
            Input::Expected => R::advance(State::Settled, &[]),
            Input::NotFound | Input::OtherEra => R::ignore(state),
        },
    }
}

recorded!("era_change");
