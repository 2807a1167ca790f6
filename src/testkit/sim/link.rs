use core::time::Duration;

/// The properties of the connections to a server.
///
/// A connection keeps the order of its bytes in each direction. HTTP exchanges are connections of their own: with
/// different latencies they overtake each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Link {
    /// The shortest time from one end to the other. 1 ms.
    pub latency: Duration,
    /// What is added to it at random, at most, for each piece. 0.
    pub jitter: Duration,
    /// The largest piece, in bytes: everything longer is split into pieces of random sizes, 64 at most. 0 for never.
    pub piece: usize,
    /// How many of 1,000 writes are lost, together with their connection. 0.
    pub cuts_per_mille: u16,
}

impl Default for Link {
    fn default() -> Self {
        Self { latency: Duration::from_millis(1), jitter: Duration::ZERO, piece: 0, cuts_per_mille: 0 }
    }
}

impl Link {
    /// A link with this latency, without jitter or faults.
    pub fn new(latency: Duration) -> Self {
        Self { latency, ..Self::default() }
    }

    /// Sets the jitter.
    #[must_use]
    pub const fn jitter(mut self, jitter: Duration) -> Self {
        self.jitter = jitter;
        self
    }

    /// Sets the largest piece.
    #[must_use]
    pub const fn piece(mut self, bytes: usize) -> Self {
        self.piece = bytes;
        self
    }

    /// Sets how many of 1,000 writes are lost, together with their connection.
    #[must_use]
    pub const fn cuts_per_mille(mut self, cuts: u16) -> Self {
        self.cuts_per_mille = cuts;
        self
    }
}

/// A fault of a server, or of the connections to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Every connection breaks. Bytes under way are lost.
    Cut,
    /// Nothing arrives for this time, in either direction; then everything does.
    Stall(Duration),
    /// Every connection breaks, and new ones fail for this time.
    Unreachable(Duration),
    /// The server forgets its sessions over HTTP ([`FakeServer::expire`](crate::testkit::FakeServer::expire)).
    Expire,
    /// The server crashes and is started again ([`FakeServer::crash`](crate::testkit::FakeServer::crash)).
    Crash,
}
