//! A server at the other end of a byte stream, or of a pair of channels.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use mcp_proto::ShutdownStep;
use mcp_proto_std::Piece;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, split};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::process::{Aborted, Feed, GRACE, PANICKED, Process, SharedLines, Writing, read, write_all, written};

/// Both directions of a connection.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

type Opens = Pin<Box<dyn Future<Output = io::Result<Opening>> + Send>>;

/// What opens a connection.
#[derive(Clone)]
pub(crate) struct Opener(Arc<dyn Fn() -> Opens + Send + Sync>);

/// A connection that nobody reads yet.
pub(crate) enum Opening {
    Stream(Box<dyn Duplex>),
    Channels(mpsc::Sender<Vec<u8>>, mpsc::Receiver<Vec<u8>>),
}

impl Opener {
    fn new<F, T>(open: impl Fn() -> F + Send + Sync + 'static, make: fn(T) -> Opening) -> Self
    where
        F: Future<Output = io::Result<T>> + Send + 'static,
        T: 'static,
    {
        Self(Arc::new(move || {
            let opening = open();
            Box::pin(async move { opening.await.map(make) })
        }))
    }

    /// Opens a connection. A function that panics has failed.
    pub(crate) async fn open(&self) -> io::Result<Opening> {
        let panicked = |_| io::Error::other("a function of the host, which opens a connection, panicked");
        let mut opening = catch_unwind(AssertUnwindSafe(|| (self.0)())).map_err(panicked)?;
        poll_fn(|context| {
            let polled = catch_unwind(AssertUnwindSafe(|| opening.as_mut().poll(context)));
            polled.unwrap_or_else(|panic| Poll::Ready(Err(panicked(panic))))
        })
        .await
    }
}

/// A server at the other end of a byte stream, which carries a message a line in both directions, as the pipes of a program
/// do: a socket, a pipe in memory, a program that the host runs in its own way.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use mcp_proto::Options;
/// use mcp_proto_tokio::{Session, Streams};
/// use tokio::net::TcpStream;
///
/// let server = Streams::new(|| TcpStream::connect("127.0.0.1:7000"));
/// let session = Session::connect(server, Options::new("my-host", "1.0")).await?;
/// # Ok(()) }
/// ```
///
/// A reader and a writer are one stream by [`tokio::io::join`].
#[derive(Clone)]
pub struct Streams(pub(crate) Opener);

impl Streams {
    /// The streams that this function opens, one for each connection: after one ended, and [`Options`](mcp_proto::Options)
    /// allow it, another is opened. The future is dropped when its stream is not wanted any more. A stream that is over was
    /// dropped before the next is opened. When the client closes, its writing half is shut down, and it is dropped as soon as
    /// the server has closed its own, or when the client's patience is over.
    pub fn new<F, S>(open: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<S>> + Send + 'static,
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        Self(Opener::new(open, |stream| Opening::Stream(Box::new(Box::pin(stream)))))
    }
}

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streams").finish_non_exhaustive()
    }
}

/// A server at the other end of a pair of channels, which carry whole messages: a WebSocket, an actor, another part of the same
/// program. A message is a JSON value; line breaks in it are white space like any.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let answer = |message: &[u8]| -> Option<Vec<u8>> {
/// #     let message: serde_json::Value = serde_json::from_slice(message).ok()?;
/// #     let result = match message["method"].as_str()? {
/// #         "tools/list" => serde_json::json!({"tools": []}),
/// #         "initialize" => serde_json::json!({
/// #             "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
/// #             "serverInfo": {"name": "s", "version": "1"},
/// #         }),
/// #         _ => return Some(serde_json::json!({
/// #             "jsonrpc": "2.0", "id": message.get("id")?, "error": {"code": -32601, "message": "no such method"},
/// #         }).to_string().into()),
/// #     };
/// #     Some(serde_json::json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string().into())
/// # };
/// use mcp_proto::Options;
/// use mcp_proto_tokio::{Channels, Session};
/// use tokio::sync::mpsc;
///
/// let server = Channels::new(move || {
///     let (to_server, mut requests) = mpsc::channel::<Vec<u8>>(16);
///     let (answers, from_server) = mpsc::channel(16);
///     tokio::spawn(async move {
///         while let Some(message) = requests.recv().await {
///             if let Some(answer) = answer(&message) {
///                 let _ = answers.send(answer).await;
///             }
///         }
///     });
///     async { Ok((to_server, from_server)) }
/// });
/// let session = Session::connect(server, Options::new("my-host", "1.0")).await?;
/// session.close().await;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Channels(pub(crate) Opener);

impl Channels {
    /// The channels that this function opens, a pair for each connection, as [`Streams::new`] does: messages to the server,
    /// and those from it. The server has ended when it drops its sender.
    pub fn new<F>(open: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<(mpsc::Sender<Vec<u8>>, mpsc::Receiver<Vec<u8>>)>> + Send + 'static,
    {
        Self(Opener::new(open, |(to, from)| Opening::Channels(to, from)))
    }
}

impl fmt::Debug for Channels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channels").finish_non_exhaustive()
    }
}

/// A stream or a pair of channels, and the tasks that read and write it.
pub(crate) struct Stream {
    input: Option<Writing>,
    /// Whether it is to end at once. When this is dropped, it does so without a word.
    orders: watch::Sender<bool>,
    supervisor: JoinHandle<()>,
}

impl Stream {
    /// Reads and writes a stream, in the context of a runtime. `take` gets what comes from it: of channels each message, or
    /// the line that it is.
    pub(crate) fn start<T, F>(opening: Opening, as_lines: bool, take: T) -> Self
    where
        T: Fn(Piece) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let lines = Arc::new(Feed::default());
        let input = Writing::new(&lines);
        let (reader, writer) = match opening {
            Opening::Stream(stream) => {
                let (from, to) = split(stream);
                let reader = tokio::spawn(read(from, Arc::new(Mutex::new(None)), take.clone()));
                (reader, tokio::spawn(write(to, lines)))
            }
            Opening::Channels(to, from) => {
                (tokio::spawn(receive(from, as_lines, take.clone())), tokio::spawn(send(to, lines)))
            }
        };
        let (orders, given) = watch::channel(false);
        let supervisor =
            Supervisor { orders: given, broken: None, reader: Aborted(reader), writer: Some(Aborted(writer)) };
        let supervisor = tokio::spawn(async move {
            if let Some(why) = supervisor.run().await {
                take(Piece::Closed { why }).await;
            }
        });
        Self { input: Some(input), orders, supervisor }
    }

    fn shut_down(&mut self, step: ShutdownStep) {
        self.input = None;
        if step != ShutdownStep::CloseInput {
            self.orders.send_replace(true);
        }
    }

    async fn kill(self) {
        let Self { input, orders, supervisor } = self;
        drop((input, orders));
        // An error means that the runtime ends.
        let _ = supervisor.await;
    }
}

/// Looks after a stream until it has ended and was dropped.
struct Supervisor {
    orders: watch::Receiver<bool>,
    /// Nothing can be written any more.
    broken: Option<(String, Instant)>,
    reader: Aborted<io::Result<()>>,
    writer: Option<Aborted<io::Result<()>>>,
}

impl Supervisor {
    /// Why the stream ended; `None` if it is not wanted any more.
    async fn run(mut self) -> Option<String> {
        let why = self.end().await;
        let Self { mut reader, writer, .. } = self;
        if let Some(mut writer) = writer {
            writer.end().await;
        }
        reader.end().await;
        why
    }

    async fn end(&mut self) -> Option<String> {
        loop {
            // What the server said before its end is read, for this long at most.
            let late = self.broken.as_ref().and_then(|(_, at)| at.checked_add(GRACE));
            tokio::select! {
                biased;
                changed = self.orders.changed() => {
                    return changed.is_ok().then(|| "it did not close its stream, which was dropped".into());
                }
                ended = &mut self.reader.0 => {
                    let broken = self.broken.take().map(|(why, _)| why);
                    return Some(match ended {
                        Ok(Err(error)) => error.to_string(),
                        Ok(Ok(())) => broken.unwrap_or_else(|| "the server closed its stream".into()),
                        Err(_) => broken.unwrap_or_else(|| PANICKED.into()),
                    });
                }
                ended = written(&mut self.writer) => {
                    self.writer = None;
                    if let Err(error) = ended {
                        self.broken = Some((error.to_string(), Instant::now()));
                    }
                }
                () = sleep_until(late.unwrap_or_else(Instant::now)), if late.is_some() => {
                    return self.broken.take().map(|(why, _)| why);
                }
            }
        }
    }
}

async fn write(mut to: impl AsyncWrite + Unpin, lines: Arc<Feed>) -> io::Result<()> {
    let written = write_all(&mut to, &lines).await;
    lines.end();
    written?;
    to.shutdown().await
}

async fn receive<F: Future<Output = ()>>(
    mut from: mpsc::Receiver<Vec<u8>>,
    as_lines: bool,
    take: impl Fn(Piece) -> F,
) -> io::Result<()> {
    while let Some(mut message) = from.recv().await {
        if as_lines {
            // A line break in JSON is white space.
            message.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
            message.push(b'\n');
        }
        take(Piece::Output(message)).await;
    }
    Ok(())
}

async fn send(to: mpsc::Sender<Vec<u8>>, lines: Arc<Feed>) -> io::Result<()> {
    let sent = send_all(&to, &lines).await;
    lines.end();
    sent
}

async fn send_all(to: &mpsc::Sender<Vec<u8>>, lines: &Feed) -> io::Result<()> {
    while let Some(burst) = lines.burst().await {
        // A message that is sent has no line break but the one at its end.
        for line in burst.split_inclusive(|byte| *byte == b'\n') {
            let message = line.strip_suffix(b"\n").unwrap_or(line).to_vec();
            tokio::select! {
                biased;
                sent = to.send(message) => sent.map_err(|_| io::ErrorKind::BrokenPipe)?,
                stalled = lines.stalled() => return Err(stalled),
            }
            lines.written(line.len())?;
        }
    }
    Ok(())
}

/// What a session is connected to.
pub(crate) enum Connection {
    Process(Process),
    Stream(Stream),
}

impl Connection {
    /// Where messages are added; `None` once that is closed.
    pub(crate) const fn input(&self) -> Option<&Writing> {
        match self {
            Self::Process(process) => process.input(),
            Self::Stream(stream) => stream.input.as_ref(),
        }
    }

    pub(crate) fn shut_down(&mut self, step: ShutdownStep) {
        match self {
            Self::Process(process) => process.shut_down(step),
            Self::Stream(stream) => stream.shut_down(step),
        }
    }

    /// Ends it, and waits until it has ended.
    pub(crate) async fn kill(self) {
        match self {
            Self::Process(process) => process.kill().await,
            Self::Stream(stream) => stream.kill().await,
        }
    }

    /// The system's number of the process.
    pub(crate) const fn process(&self) -> Option<u32> {
        match self {
            Self::Process(process) => Some(process.id()),
            Self::Stream(_) => None,
        }
    }

    pub(crate) const fn stderr_lines(&self) -> Option<&SharedLines> {
        match self {
            Self::Process(process) => Some(process.stderr_lines()),
            Self::Stream(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::tests::{is_stalled, waiting};

    #[tokio::test(start_paused = true)]
    async fn a_message_that_was_taken_waits_no_more() {
        let feed = waiting().await;
        let (sender, mut taken) = mpsc::channel(1);
        send_all(&sender, &feed).await.unwrap();
        assert_eq!(taken.recv().await.unwrap(), b"{}");
        assert!(!is_stalled(&feed).await);
    }
}
