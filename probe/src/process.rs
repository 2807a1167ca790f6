//! A server as a child process, and the copy of its standard error.

use std::io::{self, Write};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use mcp_proto::journal::{Input, TransportEvent};
use mcp_proto::{ConnectionId, ShutdownStep};
use mcp_proto_std::{Piece, Process};

/// Time to wait for the rest of standard error.
const STDERR_WAIT: Duration = Duration::from_millis(500);

/// A program to start.
pub(crate) struct Program {
    pub(crate) command: mcp_proto_std::Program,
    /// Prefix of its lines on standard error, for runs with several servers.
    pub(crate) label: Option<String>,
    /// It gets the number of its starts as its last argument.
    pub(crate) is_counted: bool,
}

impl From<mcp_proto_std::Program> for Program {
    fn from(command: mcp_proto_std::Program) -> Self {
        Self { command, label: None, is_counted: false }
    }
}

/// A running server. Its process ends before the copy of its standard error, when both are dropped.
pub(crate) struct Server {
    process: Process,
    waker: Arc<Mutex<Waker>>,
    _relay: Relay,
}

impl Server {
    /// Starts a program, for the time with this number.
    pub(crate) fn start(program: &Program, count: u32) -> io::Result<Self> {
        let (chunks, relay) = Relay::start(program.label.clone())?;
        let command = program.command.clone().args(program.is_counted.then(|| count.to_string()));
        let command = command.stderr(move |piece| chunks.copy(piece));
        let waker = Arc::new(Mutex::new(Waker::noop().clone()));
        let wakes = Arc::clone(&waker);
        let wake = move || wakes.lock().unwrap_or_else(PoisonError::into_inner).wake_by_ref();
        Ok(Self { process: Process::start_with(&command, wake)?, waker, _relay: relay })
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Queues bytes for its input. If the input is broken, its output reports that.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.process.send(bytes);
    }

    pub(crate) fn shut(&mut self, how: ShutdownStep) {
        self.process.shut_down(how);
    }

    /// The next input from the process, which is this connection. Call it again after [`tick`](Self::tick) even without a
    /// wake-up. After its exit no input follows.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>, connection: ConnectionId) -> Poll<Input> {
        // Before the read: what comes after it wakes.
        self.waker.lock().unwrap_or_else(PoisonError::into_inner).clone_from(context.waker());
        let Some(piece) = self.process.try_read() else { return Poll::Pending };
        let event = match piece {
            Piece::Output(bytes) => return Poll::Ready(Input::Bytes { connection, bytes: bytes.into() }),
            Piece::Closed { why } => TransportEvent::Closed { why: why.into() },
            Piece::SignOfLife | _ => TransportEvent::SignOfLife,
        };
        Poll::Ready(Input::Transport { connection, event })
    }

    pub(crate) const fn tick(&self) -> Duration {
        self.process.interval()
    }
}

/// Queued chunks.
const CHUNKS: usize = 256;
/// How long a blocked standard error may delay the copying before output is dropped.
const PATIENCE: Duration = Duration::from_millis(100);
/// Maximum length of a line before it is written without its end.
const LINE: usize = 8 << 10;

/// The copy of a server's standard error, which a thread of its own writes. Dropping it waits for what is pending.
struct Relay {
    done: mpsc::Receiver<()>,
}

impl Relay {
    fn start(label: Option<String>) -> io::Result<(Chunks, Self)> {
        let (queue, waiting) = sync_channel::<Vec<u8>>(CHUNKS);
        let (end, done) = sync_channel(1);
        thread::Builder::new().name("errors out".into()).spawn(move || {
            let mut to = io::stderr();
            // Errors are ignored; the server may keep writing.
            match label {
                Some(label) => pass_on_lines(&label, waiting, |line| drop(to.write_all(line))),
                None => waiting.into_iter().for_each(|chunk| drop(to.write_all(&chunk))),
            }
            let _ = end.send(());
        })?;
        Ok((Chunks { queue, left_out: Mutex::new(0) }, Self { done }))
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // An error means that it takes too long.
        let _: Result<(), RecvTimeoutError> = self.done.recv_timeout(STDERR_WAIT);
    }
}

/// What is to be copied.
struct Chunks {
    queue: SyncSender<Vec<u8>>,
    /// Bytes that the queue had no room for.
    left_out: Mutex<usize>,
}

impl Chunks {
    fn copy(&self, chunk: &[u8]) {
        let mut left_out = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        if *left_out > 0 {
            let note = format!("\n[probe: {left_out} bytes of the server's standard error are left out here]\n");
            if offer(&self.queue, note.into_bytes(), Duration::ZERO) {
                *left_out = 0;
            }
        }
        let patience = if *left_out == 0 { PATIENCE } else { Duration::ZERO };
        if *left_out > 0 || !offer(&self.queue, chunk.to_vec(), patience) {
            *left_out = left_out.saturating_add(chunk.len());
        }
    }
}

fn offer(chunks: &SyncSender<Vec<u8>>, mut chunk: Vec<u8>, patience: Duration) -> bool {
    let start = Instant::now();
    loop {
        match chunks.try_send(chunk) {
            Ok(()) => return true,
            Err(TrySendError::Full(back)) if start.elapsed() < patience => chunk = back,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => return false,
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Copies whole lines, each with the label in front.
fn pass_on_lines(label: &str, chunks: mpsc::Receiver<Vec<u8>>, mut write: impl FnMut(&[u8])) {
    let mut line = Vec::new();
    let mut end = |line: &mut Vec<u8>| {
        if !line.ends_with(b"\n") {
            line.push(b'\n');
        }
        write(&[label.as_bytes(), b": ", line].concat());
        line.clear();
    };
    for chunk in chunks {
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(piece);
            if piece.ends_with(b"\n") || line.len() > LINE {
                end(&mut line);
            }
        }
    }
    if !line.is_empty() {
        end(&mut line);
    }
}
