//! Whether the server is told a setting of the embedder's: the severity of its log messages, or that the roots
//! changed. In the modern era, each request carries the severity, and the server gets the roots when it requires
//! them.

use super::alphabet;
use super::link::Handshake;
use crate::protocol::Era;

alphabet! {
    /// Whether the capability of the setting is declared: `logging` by the server, `roots` by the client.
    Declared {
        /// It is.
        Yes,
        /// It is not.
        No,
    }
}

alphabet! {
    /// The setting.
    Setting {
        /// The embedder set nothing.
        None,
        /// The embedder set it.
        Set,
        /// The embedder set it, and a request that takes the current value is queued.
        Queued,
    }
}

alphabet! {
    /// What becomes of the setting.
    Telling {
        /// The server is told.
        Tell,
        /// It is only kept.
        Keep,
    }
}

/// Whether the server is told a setting.
pub(crate) const fn decide(handshake: Handshake, era: Era, declared: Declared, setting: Setting) -> Telling {
    match handshake {
        Handshake::Open => Telling::Keep,
        Handshake::Done => match era {
            Era::Modern => Telling::Keep,
            Era::Legacy => match declared {
                Declared::No => Telling::Keep,
                Declared::Yes => match setting {
                    Setting::Set => Telling::Tell,
                    Setting::None | Setting::Queued => Telling::Keep,
                },
            },
        },
    }
}

/// [`decide`], recorded with the feature `rows`.
pub(crate) fn take(handshake: Handshake, era: Era, declared: Declared, setting: Setting) -> Telling {
    #[cfg(feature = "rows")]
    super::rows::taken("setting", &[&handshake, &era, &declared, &setting]);
    decide(handshake, era, declared, setting)
}
