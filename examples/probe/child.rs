//! A server as a child process: threads move bytes, so that nothing it does or leaves undone blocks the run.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use mcp_proto::Shut;

use crate::relay::Relay;
use crate::tree::Tree;

/// How often it is looked whether the process is still there.
const TICK: Duration = Duration::from_millis(50);
/// How long an end may take that has begun: from the output's end to the exit, or the other way round.
const GRACE: Duration = Duration::from_secs(1);
/// After this, what still comes from an output that outlived its process counts for nothing.
const OUTLIVED: Duration = Duration::from_secs(5);
/// Chunks of output that wait; then the process waits.
const QUEUE: usize = 64;

/// What a process's threads report.
pub(crate) enum Piece {
    Output(Vec<u8>),
    /// It wrote to its standard error.
    Life,
    OutputEnded(Option<io::Error>),
    InputBroken(io::Error),
}

/// What was heard of a server.
pub(crate) enum Heard {
    Output(Vec<u8>),
    Life,
    /// It is gone; nothing follows.
    Closed(String),
    Nothing,
}

pub(crate) struct Server {
    child: Child,
    tree: Tree,
    /// What is written to its input; dropped to close it.
    input: Option<Sender<Vec<u8>>>,
    pieces: Receiver<Piece>,
    relay: Option<Relay>,
    exit: Option<(ExitStatus, Instant)>,
    last_output: Instant,
    broken: Option<(io::Error, Instant)>,
    told_to_end: bool,
}

impl Server {
    pub(crate) fn start(program: &OsStr, args: &[OsString]) -> io::Result<Self> {
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (input, lines) = channel();
        let (sender, pieces) = sync_channel(QUEUE);
        // From here on an early return drops the server, which kills the process.
        let mut server = Self {
            child,
            tree: Tree::default(),
            input: Some(input),
            pieces,
            relay: None,
            exit: None,
            last_output: Instant::now(),
            broken: None,
            told_to_end: false,
        };
        let missing = || io::Error::from(io::ErrorKind::BrokenPipe);
        let (stdin, stdout, stderr) =
            (stdin.ok_or_else(missing)?, stdout.ok_or_else(missing)?, stderr.ok_or_else(missing)?);
        server.relay = Some(Relay::start(stderr, sender.clone())?);
        let broken = sender.clone();
        thread::Builder::new().name("input".into()).spawn(move || write(stdin, &lines, &broken))?;
        thread::Builder::new().name("output".into()).spawn(move || read(stdout, &sender))?;
        Ok(server)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Queues bytes for its input. Where that is broken, its output tells.
    pub(crate) fn send(&self, bytes: &[u8]) {
        if let Some(input) = &self.input {
            let _ = input.send(bytes.to_vec());
        }
    }

    pub(crate) fn shut(&mut self, how: Shut) {
        self.told_to_end = true;
        match how {
            Shut::CloseInput => self.input = None,
            Shut::Terminate => self.terminate(),
            Shut::Kill => self.kill(),
        }
    }

    /// Waits for something to be heard, until then.
    pub(crate) fn wait(&mut self, until: Instant) -> Heard {
        loop {
            let rest = until.saturating_duration_since(Instant::now());
            match self.pieces.recv_timeout(rest.min(TICK)) {
                Ok(Piece::Output(bytes)) => {
                    self.last_output = Instant::now();
                    return if self.is_over() { self.closed() } else { Heard::Output(bytes) };
                }
                Ok(Piece::Life) => return Heard::Life,
                Ok(Piece::InputBroken(error)) => self.broken = Some((error, Instant::now())),
                Ok(Piece::OutputEnded(error)) => {
                    if let Some(error) = error {
                        self.broken.get_or_insert((error, Instant::now()));
                    }
                    return self.closed();
                }
                Err(RecvTimeoutError::Disconnected) => return self.closed(),
                Err(RecvTimeoutError::Timeout) => {
                    if self.is_over() {
                        return self.closed();
                    }
                    if rest.is_zero() {
                        return Heard::Nothing;
                    }
                }
            }
        }
    }

    /// Whether nothing is to come any more although the output has not ended: its process exited, and another
    /// one holds it, or its input broke.
    fn is_over(&mut self) -> bool {
        self.poll_exit();
        let exited = self.exit.is_some_and(|(_, at)| {
            let quiet = at.max(self.last_output).elapsed();
            quiet >= GRACE || at.elapsed() >= OUTLIVED
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

    fn exits_within(&mut self, limit: Duration) -> bool {
        let start = Instant::now();
        loop {
            self.poll_exit();
            if self.exit.is_some() {
                return true;
            }
            if start.elapsed() >= limit {
                return false;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sees to it that the process is gone, and says how it went.
    fn closed(&mut self) -> Heard {
        let mut why = String::new();
        let forced = !self.exits_within(GRACE);
        if forced {
            why.push_str("it closed input or output and did not exit, so it was ended: ");
            self.terminate();
            if !self.exits_within(GRACE) {
                self.kill();
                self.exits_within(GRACE);
            }
        }
        match self.exit {
            Some((status, _)) => why.push_str(&status.to_string()),
            None => why.push_str("not even killing it helped"),
        }
        if let Some((error, _)) = self.broken.as_ref().filter(|_| forced) {
            why.push_str(&format!(" (before that: {error})"));
        }
        if let Some(relay) = self.relay.take() {
            let words = relay.finish();
            if !words.is_empty() && !self.told_to_end {
                why.push_str(&format!("; its last words on standard error: {words}"));
            }
        }
        Heard::Closed(why)
    }

    /// `SIGTERM`, where there is such a thing. What the process started hears it too: a shell or a package
    /// runner that goes does not take the server with it.
    fn terminate(&mut self) {
        self.poll_exit();
        if self.exit.is_none() {
            self.tree.note(self.child.id());
            if !self.tree.terminate(self.child.id()) {
                self.kill();
            }
        }
    }

    fn kill(&mut self) {
        self.poll_exit();
        if self.exit.is_none() {
            self.tree.note(self.child.id());
            let _ = self.child.kill();
        }
        self.tree.kill();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        if self.exit.is_none() {
            let _ = self.child.wait();
        }
        if let Some(relay) = self.relay.take() {
            relay.finish();
        }
    }
}

fn write(mut stdin: impl Write, lines: &Receiver<Vec<u8>>, pieces: &SyncSender<Piece>) {
    while let Ok(line) = lines.recv() {
        if let Err(error) = stdin.write_all(&line).and_then(|()| stdin.flush()) {
            let _ = pieces.send(Piece::InputBroken(error));
            return;
        }
    }
}

fn read(mut stdout: impl Read, pieces: &SyncSender<Piece>) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let piece = match stdout.read(&mut buffer) {
            Ok(0) => Piece::OutputEnded(None),
            Ok(len) => Piece::Output(buffer.get(..len).unwrap_or_default().to_vec()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Piece::OutputEnded(Some(error)),
        };
        let ended = matches!(piece, Piece::OutputEnded(_));
        if pieces.send(piece).is_err() || ended {
            return;
        }
    }
}
