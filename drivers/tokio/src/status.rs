//! The state of a session or of a hub, and why one cannot start.

#[cfg(feature = "oauth")]
use std::io;

use mcp_proto::Diagnosis;
use mcp_proto::host::hub::HubCommandError;

/// The state of a session, or of the sessions of a hub as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// It connects, for the first time or again.
    Connecting,
    /// It is ready; of a hub: no server is starting any more.
    Ready,
    /// It gave up for some time, and then tries again.
    Parked(Diagnosis),
    /// It closed: on request, or because of this failure. The processes have ended.
    Closed(Option<Diagnosis>),
}

/// Why a client cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// It was not called in the context of a runtime.
    #[error("there is no tokio runtime here: call it in an async function of one, or after `Runtime::enter`")]
    NoRuntime,
    /// The hub does not accept the configuration.
    #[error(transparent)]
    Hub(#[from] HubCommandError),
    /// The options of the sign-in do not fit the server.
    #[cfg(feature = "oauth")]
    #[error("it cannot sign in: {0}")]
    OAuth(#[from] mcp_proto::binding::oauth::OAuthConfigError),
    /// The browser's redirect cannot be received.
    #[cfg(feature = "oauth")]
    #[error("no redirect of the browser can be received: {0}")]
    Redirect(#[source] io::Error),
    /// The system has no random numbers for secrets.
    #[cfg(feature = "oauth")]
    #[error(transparent)]
    Entropy(io::Error),
    /// It is to be recorded, and this is why it cannot be.
    #[cfg(feature = "journal")]
    #[error("it cannot be recorded: {0}")]
    Unrecordable(&'static str),
    /// The snapshot cannot be restored.
    #[cfg(feature = "snapshot")]
    #[error(transparent)]
    Snapshot(#[from] mcp_proto::SnapshotError),
}
