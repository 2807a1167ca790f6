use super::Challenge;

/// What the embedder reports about the transport.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Transport<'a> {
    /// It is open.
    Opened,
    /// It could not be opened.
    OpenFailed {
        /// How it failed.
        how: OpenFailure,
        /// The system's message.
        why: &'a str,
    },
    /// It is closed: the server's output ended, a write failed or the process exited.
    Closed {
        /// The system's message, such as an exit status.
        why: &'a str,
    },
    /// The server violated the rules of the transport, and it cannot be used any more.
    ProtocolViolation {
        /// A description of the violation.
        why: &'a str,
    },
    /// It is not open or does not respond yet, but there is activity: a package is being installed, or the process
    /// writes to its standard error.
    SignOfLife,
}

/// What the HTTP binding reports about the exchanges of requests.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Report<'a> {
    /// The exchange of a request broke or ended without a response.
    Lost {
        /// The request's id on the wire.
        id: u64,
        /// Whether it may have reached the server.
        sent: bool,
        /// The system's message.
        why: &'a str,
    },
    /// The server refused a request with a status, without a JSON-RPC error.
    Refused {
        /// The request's id on the wire.
        id: u64,
        /// The HTTP status.
        status: u16,
        /// The server's text.
        why: &'a str,
    },
    /// The session expired (specification 2025-11-25, "Session Management").
    Expired {
        /// The request that was refused because of it and did not run, by its id on the wire.
        id: Option<u64>,
    },
}

/// A request that the server refused for lack of authorization: with 401, or with 403 an authorized one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unauthorized<'a> {
    /// The request's id on the wire.
    pub(crate) id: Option<u64>,
    /// The status is 403.
    pub(crate) forbidden: bool,
    /// The server's text, or why nobody obtains the authorization.
    pub(crate) why: &'a str,
    /// The challenges of the response.
    pub(crate) challenges: &'a [Challenge],
    /// Who obtains the authorization.
    pub(crate) authority: crate::machine::http_refusal::Authority,
}

/// How opening a transport failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum OpenFailure {
    /// The command could not be started. Another attempt would fail, too.
    Spawn,
    /// The server could not be reached.
    Connect,
}
