//! A server as a child process, and the copy of its standard error.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use mcp_proto::journal::{Input, TransportEvent};
use mcp_proto::{ConnectionId, ShutdownStep};
#[cfg(windows)]
use process_wrap::std::JobObject;
#[cfg(unix)]
use process_wrap::std::ProcessGroup;
use process_wrap::std::{ChildWrapper, CommandWrap};
#[cfg(unix)]
use signal_hook::consts::{SIGCONT, SIGTERM};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::text;

/// Interval for checking whether the process has exited.
const TICK: Duration = Duration::from_millis(50);
const TICK_AT_END: Duration = Duration::from_millis(5);
/// Maximum time from the end of output to exit, or from exit to the end of output.
const GRACE: Duration = Duration::from_secs(1);
/// After exit, output from descendants is read for this long.
const DESCENDANT_OUTPUT: Duration = Duration::from_secs(5);
/// Queued chunks of output; when the queue is full, the process blocks.
const QUEUE: usize = 64;
/// Messages that wait for its input, at most.
const INPUT_QUEUE: usize = 1_024;
/// Time to wait for the rest of standard error and for descendants to exit.
const STDERR_WAIT: Duration = Duration::from_millis(500);

/// A program to start.
#[derive(Default)]
pub(crate) struct Program {
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    /// Added to probe's own environment.
    pub(crate) env: Vec<(String, String)>,
    /// Working directory, if not probe's.
    pub(crate) cwd: Option<PathBuf>,
    /// Prefix of its lines on standard error, for runs with several servers.
    pub(crate) label: Option<String>,
    /// It gets the number of its starts as its last argument.
    pub(crate) is_counted: bool,
}

impl Program {
    /// Why it was not started, with the command.
    pub(crate) fn not_started(&self, error: &io::Error) -> io::Error {
        match &self.cwd {
            Some(cwd) if !cwd.is_dir() => {
                io::Error::other(format!("there is no folder `{}` to start it in", cwd.display()))
            }
            Some(_) | None => io::Error::other(format!("`{}`: {error}", self.program.display())),
        }
    }
}

/// A report of one of the process's threads.
pub(crate) enum Piece {
    Output(Vec<u8>),
    /// The process wrote to standard error.
    SignOfLife,
    OutputEnded(Option<io::Error>),
    InputBroken(io::Error),
}

/// Progress of the process's end, with the time of each step.
#[derive(Clone, Copy)]
enum End {
    /// It closed its input or output; its exit is awaited.
    Due(Instant),
    Terminated(Instant),
    Killed(Instant),
    /// It exited; the rest of its standard error and its descendants are awaited.
    Gone(Instant),
}

pub(crate) struct Server {
    child: Box<dyn ChildWrapper>,
    /// Queue for its input; dropping it closes the input.
    input: Option<mpsc::SyncSender<Vec<u8>>>,
    pieces: Receiver<Piece>,
    relay: Option<Relay>,
    exit: Option<(ExitStatus, Instant)>,
    last_output: Instant,
    broken: Option<(io::Error, Instant)>,
    asked_to_exit: bool,
    end: Option<End>,
    /// Whether it had to be terminated.
    forced: bool,
}

impl Server {
    /// Starts a program, for the time with this number.
    pub(crate) fn start(program: &Program, count: u32) -> io::Result<Self> {
        let mut command = Command::new(&program.program);
        command.args(&program.args).envs(program.env.iter().map(|(name, value)| (name, value)));
        command.args(program.is_counted.then(|| count.to_string()));
        if let Some(cwd) = &program.cwd {
            command.current_dir(cwd);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut command = CommandWrap::from(command);
        #[cfg(unix)]
        command.wrap(ProcessGroup::leader());
        #[cfg(windows)]
        command.wrap(JobObject);
        let mut child = command.spawn()?;
        let (stdin, stdout, stderr) = (child.stdin().take(), child.stdout().take(), child.stderr().take());
        let (input, lines) = mpsc::sync_channel(INPUT_QUEUE);
        let (sender, pieces) = channel(QUEUE);
        // From here on an early return drops `server`, which kills the process.
        let mut server = Self {
            child,
            input: Some(input),
            pieces,
            relay: None,
            exit: None,
            last_output: Instant::now(),
            broken: None,
            asked_to_exit: false,
            end: None,
            forced: false,
        };
        let missing = || io::Error::from(io::ErrorKind::BrokenPipe);
        let (stdin, stdout, stderr) =
            (stdin.ok_or_else(missing)?, stdout.ok_or_else(missing)?, stderr.ok_or_else(missing)?);
        server.relay = Some(Relay::start(stderr, sender.clone(), program.label.clone())?);
        let broken = sender.clone();
        thread::Builder::new().name("input".into()).spawn(move || write(stdin, &lines, &broken))?;
        thread::Builder::new().name("output".into()).spawn(move || read(stdout, &sender))?;
        Ok(server)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Queues bytes for its input. If the input is broken, its output reports that.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let Some(input) = &self.input else { return };
        if let Err(mpsc::TrySendError::Full(_)) = input.try_send(bytes.to_vec()) {
            let error = io::Error::other(format!("it does not read its input: {INPUT_QUEUE} messages wait"));
            self.broken.get_or_insert((error, Instant::now()));
        }
    }

    pub(crate) fn shut(&mut self, how: ShutdownStep) {
        self.asked_to_exit = true;
        match how {
            ShutdownStep::CloseInput => self.input = None,
            ShutdownStep::Terminate => self.terminate(),
            ShutdownStep::Kill | _ => self.kill(),
        }
    }

    /// The next input from the process, which is this connection. Call it again after [`tick`](Self::tick) even without a
    /// wake-up. After its exit no input follows.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>, connection: ConnectionId) -> Poll<Input> {
        while self.end.is_none() {
            match self.pieces.poll_recv(context) {
                Poll::Ready(Some(Piece::Output(bytes))) => {
                    self.last_output = Instant::now();
                    if !self.is_over() {
                        return Poll::Ready(Input::Bytes { connection, bytes: bytes.into() });
                    }
                    self.end = Some(End::Due(Instant::now()));
                }
                Poll::Ready(Some(Piece::SignOfLife)) => {
                    return Poll::Ready(Input::Transport { connection, event: TransportEvent::SignOfLife });
                }
                Poll::Ready(Some(Piece::InputBroken(error))) => self.broken = Some((error, Instant::now())),
                Poll::Ready(Some(Piece::OutputEnded(error))) => {
                    if let Some(error) = error {
                        self.broken.get_or_insert((error, Instant::now()));
                    }
                    self.end = Some(End::Due(Instant::now()));
                }
                Poll::Ready(None) => self.end = Some(End::Due(Instant::now())),
                Poll::Pending if self.is_over() => self.end = Some(End::Due(Instant::now())),
                Poll::Pending => return Poll::Pending,
            }
        }
        if !self.is_gone() {
            return Poll::Pending;
        }
        let event = TransportEvent::Closed { why: self.exit_reason().into() };
        Poll::Ready(Input::Transport { connection, event })
    }

    pub(crate) const fn tick(&self) -> Duration {
        if self.end.is_some() { TICK_AT_END } else { TICK }
    }

    /// Whether no more output is expected although the output is open: the process exited and a descendant holds the
    /// output, or its input broke.
    fn is_over(&mut self) -> bool {
        self.poll_exit();
        let exited = self.exit.is_some_and(|(_, at)| {
            let quiet = at.max(self.last_output).elapsed();
            quiet >= GRACE || at.elapsed() >= DESCENDANT_OUTPUT
        });
        exited || self.broken.as_ref().is_some_and(|(_, at)| at.elapsed() >= GRACE)
    }

    fn poll_exit(&mut self) {
        if self.exit.is_none()
            && let Ok(Some(status)) = self.child.try_wait()
        {
            self.exit = Some((status, Instant::now()));
        }
    }

    /// Advances the end of the process; true when it is complete.
    fn is_gone(&mut self) -> bool {
        self.poll_exit();
        let exited = self.exit.is_some();
        let now = Instant::now();
        self.end = match self.end {
            Some(End::Due(_) | End::Terminated(_) | End::Killed(_)) if exited => {
                // Its remaining descendants.
                self.terminate();
                Some(End::Gone(now))
            }
            Some(End::Due(since)) if since.elapsed() >= GRACE => {
                self.forced = true;
                self.terminate();
                Some(End::Terminated(now))
            }
            Some(End::Terminated(since)) if since.elapsed() >= GRACE => {
                self.kill();
                Some(End::Killed(now))
            }
            // Killing failed too; give up.
            Some(End::Killed(since)) if since.elapsed() >= GRACE => Some(End::Gone(now)),
            end => end,
        };
        let Some(End::Gone(since)) = self.end else { return false };
        since.elapsed() >= STDERR_WAIT
            || (self.relay.as_mut().is_none_or(|relay| relay.wait(Duration::ZERO)) && !self.has_group())
    }

    /// Why the process ended, with the end of its standard error.
    fn exit_reason(&mut self) -> String {
        let mut why = String::new();
        if self.forced {
            why.push_str("it closed input or output and did not exit, so it was ended: ");
        }
        match self.exit {
            Some((status, _)) => why.push_str(&status.to_string()),
            None => why.push_str("not even killing it helped"),
        }
        if let Some((error, _)) = self.broken.as_ref().filter(|_| self.forced) {
            why.push_str(&format!(" (before that: {error})"));
        }
        if let Some(relay) = self.relay.take() {
            let tail = relay.tail();
            if !tail.is_empty() && !self.asked_to_exit {
                why.push_str(&format!("; its last words on standard error: {tail}"));
            }
        }
        why
    }

    /// Sends a termination signal to the group, where signals exist.
    fn terminate(&mut self) {
        #[cfg(unix)]
        // An error means that no process is left.
        let _ = self.child.signal(SIGTERM);
        #[cfg(not(unix))]
        self.kill();
    }

    fn kill(&mut self) {
        // An error means that no process is left.
        let _ = self.child.start_kill();
    }

    /// Whether a process of the group is left.
    #[cfg(unix)]
    fn has_group(&self) -> bool {
        // The signal has no effect on a process that is not stopped.
        self.child.signal(SIGCONT).is_ok()
    }

    #[cfg(not(unix))]
    fn has_group(&self) -> bool {
        false
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
        if let Some(mut relay) = self.relay.take() {
            relay.wait(STDERR_WAIT);
        }
    }
}

fn write(mut stdin: impl Write, lines: &mpsc::Receiver<Vec<u8>>, pieces: &Sender<Piece>) {
    while let Ok(line) = lines.recv() {
        if let Err(error) = stdin.write_all(&line).and_then(|()| stdin.flush()) {
            let _ = pieces.blocking_send(Piece::InputBroken(error));
            return;
        }
    }
}

fn read(mut stdout: impl Read, pieces: &Sender<Piece>) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let piece = match stdout.read(&mut buffer) {
            Ok(0) => Piece::OutputEnded(None),
            Ok(len) => Piece::Output(buffer.get(..len).unwrap_or_default().to_vec()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Piece::OutputEnded(Some(error)),
        };
        let ended = matches!(piece, Piece::OutputEnded(_));
        if pieces.blocking_send(piece).is_err() || ended {
            return;
        }
    }
}

/// Queued chunks.
const CHUNKS: usize = 256;
/// How long a blocked standard error may delay the copying before output is dropped.
const PATIENCE: Duration = Duration::from_millis(100);
/// Interval for reporting that the server writes.
const LIFE: Duration = Duration::from_millis(100);
/// Bytes kept of the end, for messages.
const TAIL: usize = 2048;
const LAST_WORDS: usize = 300;
/// Maximum length of a line before it is written without its end.
const LINE: usize = 8 << 10;

pub(crate) struct Relay {
    tail: Arc<Mutex<VecDeque<u8>>>,
    done: mpsc::Receiver<()>,
}

impl Relay {
    pub(crate) fn start(from: ChildStderr, life: Sender<Piece>, label: Option<String>) -> io::Result<Self> {
        let tail = Arc::new(Mutex::new(VecDeque::new()));
        let kept = Arc::clone(&tail);
        let (chunks, waiting) = sync_channel::<Vec<u8>>(CHUNKS);
        let (end, done) = sync_channel(1);
        thread::Builder::new().name("errors in".into()).spawn(move || read_errors(from, &chunks, &life, &kept))?;
        thread::Builder::new().name("errors out".into()).spawn(move || {
            let mut to = io::stderr();
            // Errors are ignored; the server may keep writing.
            match label {
                Some(label) => pass_on_lines(&label, waiting, |line| drop(to.write_all(line))),
                None => waiting.into_iter().for_each(|chunk| drop(to.write_all(&chunk))),
            }
            let _ = end.send(());
        })?;
        Ok(Self { tail, done })
    }

    /// Waits for pending output; true if everything was copied.
    pub(crate) fn wait(&mut self, limit: Duration) -> bool {
        // After the thread reported once, the channel is closed.
        !matches!(self.done.recv_timeout(limit), Err(RecvTimeoutError::Timeout))
    }

    /// The end of the server's standard error.
    pub(crate) fn tail(self) -> String {
        let Ok(tail) = self.tail.lock() else { return String::new() };
        let tail: Vec<u8> = tail.iter().copied().collect();
        let tail = String::from_utf8_lossy(&tail);
        let lines: Vec<&str> = tail.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let last = lines.iter().rev().take(3).rev().copied().collect::<Vec<_>>().join(" / ");
        let surplus = last.chars().count().saturating_sub(LAST_WORDS);
        text::one_line(&last.chars().skip(surplus).collect::<String>())
    }
}

fn read_errors(mut from: impl Read, chunks: &SyncSender<Vec<u8>>, life: &Sender<Piece>, tail: &Mutex<VecDeque<u8>>) {
    let mut buffer = vec![0; 8 << 10];
    let mut told: Option<Instant> = None;
    let mut left_out = 0_usize;
    loop {
        let chunk = match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(len) => buffer.get(..len).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        if told.is_none_or(|at| at.elapsed() >= LIFE) {
            told = Some(Instant::now());
            // If the queue is full, its other pieces show that the server is alive.
            let _ = life.try_send(Piece::SignOfLife);
        }
        if let Ok(mut tail) = tail.lock() {
            tail.extend(chunk.iter().skip(chunk.len().saturating_sub(TAIL)));
            let surplus = tail.len().saturating_sub(TAIL);
            tail.drain(..surplus);
        }
        if left_out > 0 {
            let note = format!("\n[probe: {left_out} bytes of the server's standard error are left out here]\n");
            if offer(chunks, note.into_bytes(), Duration::ZERO) {
                left_out = 0;
            }
        }
        let patience = if left_out == 0 { PATIENCE } else { Duration::ZERO };
        if left_out > 0 || !offer(chunks, chunk.to_vec(), patience) {
            left_out = left_out.saturating_add(chunk.len());
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
