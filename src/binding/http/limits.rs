//! The times and sizes that bound the exchanges of a client.

use core::time::Duration;

/// The wait of tool calls for the GET stream.
pub(super) const STREAM_WAIT: Duration = Duration::from_millis(500);

/// The wait before a stream is resumed, or a refused message sent again, where the server does not name one.
pub(super) const RETRY: Duration = Duration::from_secs(1);

/// The shortest of these waits: a server that names none is not asked without a pause.
pub(super) const SHORTEST_RETRY: Duration = Duration::from_millis(100);

/// The longest of these waits.
pub(super) const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// The longest wait that a server may name.
pub(super) const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// How long an exchange may go on after its request was answered.
pub(super) const LINGER: Duration = Duration::from_secs(1);

/// Bytes of an incomplete event that are kept meanwhile.
pub(super) const LINGER_BYTES: usize = 64 << 10;

/// Maximum redirects per message.
pub(super) const REDIRECTS: u8 = 5;

/// Bytes of a refusal's body that are kept.
pub(super) const WORDS: usize = 64 << 10;

/// Bytes of an invalid body that are quoted.
pub(super) const EXCERPT: usize = 200;
