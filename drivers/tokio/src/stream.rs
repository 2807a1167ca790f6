//! A server at the other end of a byte stream.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use mcp_proto::{Outgoing, ShutdownStep};
use mcp_proto_std::Piece;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, split};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::process::{Aborted, Feed, GRACE, Process, SharedLines, Writing, read, write_all, written};

/// Both directions of a connection.
trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

type Opened = Pin<Box<dyn Future<Output = io::Result<Box<dyn Duplex>>> + Send>>;

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
pub struct Streams(Arc<dyn Fn() -> Opened + Send + Sync>);

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
        Self(Arc::new(move || {
            let opening = open();
            Box::pin(async move {
                let stream: Box<dyn Duplex> = Box::new(Box::pin(opening.await?));
                Ok(stream)
            })
        }))
    }

    /// Opens a stream. A function that panics has failed.
    pub(crate) async fn open(&self) -> io::Result<Opening> {
        let panicked = |_| io::Error::other("a function of the host, which opens a stream, panicked");
        let mut opening = catch_unwind(AssertUnwindSafe(|| (self.0)())).map_err(panicked)?;
        let opened = std::future::poll_fn(|context| {
            let polled = catch_unwind(AssertUnwindSafe(|| opening.as_mut().poll(context)));
            polled.unwrap_or_else(|panic| std::task::Poll::Ready(Err(panicked(panic))))
        });
        opened.await.map(Opening)
    }
}

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streams").finish_non_exhaustive()
    }
}

/// A stream that nobody reads yet.
pub(crate) struct Opening(Box<dyn Duplex>);

/// A stream, and the tasks that read and write it.
pub(crate) struct Stream {
    input: Option<Writing>,
    /// Whether it is to end at once. When this is dropped, it does so without a word.
    orders: watch::Sender<bool>,
    supervisor: JoinHandle<()>,
}

impl Stream {
    /// Reads and writes a stream, in the context of a runtime. `take` gets what comes from it.
    pub(crate) fn start<T, F>(Opening(stream): Opening, take: T) -> Self
    where
        T: Fn(Piece) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let (from, to) = split(stream);
        let lines = Arc::new(Feed::default());
        let input = Writing::new(&lines);
        let (orders, given) = watch::channel(false);
        let supervisor = Supervisor {
            orders: given,
            broken: None,
            reader: Aborted(tokio::spawn(read(from, Arc::new(Mutex::new(None)), take.clone()))),
            writer: Some(Aborted(tokio::spawn(write(to, lines)))),
        };
        let supervisor = tokio::spawn(async move {
            if let Some(why) = supervisor.run().await {
                take(Piece::Closed { why }).await;
            }
        });
        Self { input: Some(input), orders, supervisor }
    }

    fn send(&self, message: &Outgoing) {
        if let Some(input) = &self.input {
            input.push(message);
        }
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
                        Ok(Ok(())) | Err(_) => broken.unwrap_or_else(|| "the server closed its stream".into()),
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

/// What a session is connected to.
pub(crate) enum Connection {
    Process(Process),
    Stream(Stream),
}

impl Connection {
    pub(crate) fn send(&mut self, message: &Outgoing) {
        match self {
            Self::Process(process) => process.send(message),
            Self::Stream(stream) => stream.send(message),
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
