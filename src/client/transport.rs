use super::Challenge;

/// What the embedder reports of the transport.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Transport<'a> {
    /// It is open.
    Opened,
    /// It did not open.
    OpenFailed {
        /// In which way.
        how: OpenFailure,
        /// What the system said.
        why: &'a str,
    },
    /// It is closed, whoever closed it: the server's output ended, a write failed, the process exited.
    Closed {
        /// What the system said, an exit status say.
        why: &'a str,
    },
    /// What the server did on the transport makes no sense: there is no going on.
    ProtocolViolation {
        /// What it did.
        why: &'a str,
    },
    /// It is not open yet, or not answering yet, but something goes on: a package is installed, the process
    /// writes to its standard error.
    SignOfLife,
}

/// What an HTTP binding reports of the exchanges of requests.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Report<'a> {
    /// The exchange of a request broke, or ended, before its answer.
    Lost {
        /// The request's id on the wire.
        id: u64,
        /// It may have reached the server.
        sent: bool,
        /// What the system said.
        why: &'a str,
    },
    /// The server refused a request by a status, without a JSON-RPC error.
    Refused {
        /// The request's id on the wire.
        id: u64,
        /// The HTTP status.
        status: u16,
        /// What the server said.
        why: &'a str,
    },
    /// The server forgot the session (specification 2025-11-25, "Session Management").
    Expired {
        /// The request, by its id on the wire, that was refused for it, and did not run.
        id: Option<u64>,
    },
    /// The server wants to know who asks (401), or knows, and refuses (403).
    Unauthorized {
        /// The request, by its id on the wire, that was refused for it.
        id: Option<u64>,
        /// The status is 403.
        forbidden: bool,
        /// What the server said.
        why: &'a str,
        /// What it wants.
        challenges: &'a [Challenge],
    },
}

/// In which way a transport did not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenFailure {
    /// The command cannot be started, which trying again does not mend.
    Spawn,
    /// Nobody answers there, for now.
    Connect,
}
