//! The times and sizes that limit the exchanges of a client.

use core::time::Duration;

/// The wait of tool calls for the GET stream.
pub(super) const STREAM_WAIT: Duration = Duration::from_millis(500);

/// The wait before a stream is resumed, or a refused message sent again, if the server sets none.
pub(super) const RETRY: Duration = Duration::from_secs(1);

/// The minimum of these waits, if the server sets none.
pub(super) const SHORTEST_RETRY: Duration = Duration::from_millis(100);

/// The maximum of these waits.
pub(super) const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// The maximum wait that a server may set.
pub(super) const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// How long an exchange may stay open after its request was answered.
pub(super) const LINGER: Duration = Duration::from_secs(1);

/// Maximum bytes of an incomplete event in that time.
pub(super) const LINGER_BYTES: usize = 64 << 10;

/// Maximum redirects per message.
pub(super) const REDIRECTS: u8 = 5;

/// Buffered bytes of a refusal's body.
pub(super) const WORDS: usize = 64 << 10;

/// Bytes of an invalid body that are quoted.
pub(super) const EXCERPT: usize = 200;
