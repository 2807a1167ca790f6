/// Counts of messages that were dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Stats {
    /// Responses to requests that had timed out or were cancelled.
    pub late_answers: u64,
    /// Notifications and requests of the server that were left out, because too many actions waited to be polled or
    /// progress was reported too often.
    pub left_out: u64,
    /// Responses and notifications of the client that were dropped over HTTP before they were sent: they were not
    /// polled in time, or the server did not accept the messages before them.
    pub undelivered: u64,
}
