/// A stream of bytes: its session, and its connection or exchange.
pub(super) type StreamKey = (u64, u64);

/// What an input is to the bytes from a server.
#[derive(Debug)]
pub enum Part {
    /// The next bytes of a stream.
    Chunk(StreamKey),
    /// The end of a stream.
    End(StreamKey),
    /// Something else.
    Other,
}
