//! A server as a child process: threads move bytes, so that nothing it does or leaves undone blocks the run.
//!
//! It leads a process group (on Windows it has a job object) which is signalled as a whole: a shell or a package runner
//! does not pass signals on, and what it started must not outlive the run.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use mcp_proto::ShutdownStep;
#[cfg(windows)]
use process_wrap::std::JobObject;
#[cfg(unix)]
use process_wrap::std::ProcessGroup;
use process_wrap::std::{ChildWrapper, CommandWrap};
#[cfg(unix)]
use signal_hook::consts::{SIGCONT, SIGTERM};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::relay::Relay;

/// How often it is looked whether the process is still there, and whether one that is to go is gone.
const TICK: Duration = Duration::from_millis(50);
const TICK_AT_END: Duration = Duration::from_millis(5);
/// How long an end may take that has begun: from the output's end to the exit, or the other way round.
const GRACE: Duration = Duration::from_secs(1);
/// After this, what still comes from an output that outlived its process counts for nothing.
const OUTLIVED: Duration = Duration::from_secs(5);
/// Chunks of output that wait; then the process waits.
const QUEUE: usize = 64;
/// How long the last of its standard error, and the end of what it started, is waited for.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// What is started.
#[derive(Default)]
pub(crate) struct Program {
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    /// Beside probe's own environment.
    pub(crate) env: Vec<(String, String)>,
    /// The folder that it runs in, if it is another than probe's.
    pub(crate) cwd: Option<PathBuf>,
    /// What the lines of its standard error begin with, where they are among those of others.
    pub(crate) label: Option<String>,
}

impl Program {
    /// Why it was not started; among others' errors with what was to be started.
    pub(crate) fn not_started(&self, error: io::Error) -> io::Error {
        if self.label.is_none() {
            return error;
        }
        match &self.cwd {
            Some(cwd) if !cwd.is_dir() => {
                io::Error::other(format!("there is no folder `{}` to start it in", cwd.display()))
            }
            Some(_) | None => io::Error::other(format!("`{}`: {error}", self.program.display())),
        }
    }
}

/// What a process's threads report.
pub(crate) enum Piece {
    Output(Vec<u8>),
    /// It wrote to its standard error.
    Life,
    OutputEnded(Option<io::Error>),
    InputBroken(io::Error),
}

/// What was heard of a process.
pub(crate) enum Heard {
    Output(Vec<u8>),
    Life,
    /// It is gone; nothing follows.
    Closed(String),
}

/// How far the end of a process has come, and since when.
#[derive(Clone, Copy)]
enum End {
    /// It closed its input or output, so that its exit is waited for.
    Due(Instant),
    Terminated(Instant),
    Killed(Instant),
    /// It is gone, but for its last words and what it started.
    Gone(Instant),
}

pub(crate) struct Server {
    child: Box<dyn ChildWrapper>,
    /// What is written to its input; dropped to close it.
    input: Option<mpsc::Sender<Vec<u8>>>,
    pieces: Receiver<Piece>,
    relay: Option<Relay>,
    exit: Option<(ExitStatus, Instant)>,
    last_output: Instant,
    broken: Option<(io::Error, Instant)>,
    told_to_end: bool,
    end: Option<End>,
    /// It did not exit by itself.
    forced: bool,
}

impl Server {
    pub(crate) fn start(program: &Program) -> io::Result<Self> {
        let mut command = Command::new(&program.program);
        command.args(&program.args).envs(program.env.iter().map(|(name, value)| (name, value)));
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
        let (input, lines) = mpsc::channel();
        let (sender, pieces) = channel(QUEUE);
        // From here on an early return drops the server, which kills the process.
        let mut server = Self {
            child,
            input: Some(input),
            pieces,
            relay: None,
            exit: None,
            last_output: Instant::now(),
            broken: None,
            told_to_end: false,
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

    /// Queues bytes for its input. Where that is broken, its output tells.
    pub(crate) fn send(&self, bytes: &[u8]) {
        if let Some(input) = &self.input {
            let _ = input.send(bytes.to_vec());
        }
    }

    pub(crate) fn shut(&mut self, how: ShutdownStep) {
        self.told_to_end = true;
        match how {
            ShutdownStep::CloseInput => self.input = None,
            ShutdownStep::Terminate => self.terminate(),
            ShutdownStep::Kill => self.kill(),
        }
    }

    /// What is heard of it next. It wants to be asked again after [`tick`](Self::tick) even where nobody wakes.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Heard> {
        while self.end.is_none() {
            match self.pieces.poll_recv(context) {
                Poll::Ready(Some(Piece::Output(bytes))) => {
                    self.last_output = Instant::now();
                    if !self.is_over() {
                        return Poll::Ready(Heard::Output(bytes));
                    }
                    self.end = Some(End::Due(Instant::now()));
                }
                Poll::Ready(Some(Piece::Life)) => return Poll::Ready(Heard::Life),
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
        if self.is_gone() { Poll::Ready(Heard::Closed(self.last_words())) } else { Poll::Pending }
    }

    pub(crate) const fn tick(&self) -> Duration {
        if self.end.is_some() { TICK_AT_END } else { TICK }
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

    /// Sees to it that a process that is to go is gone, and was heard to its last words.
    fn is_gone(&mut self) -> bool {
        self.poll_exit();
        let exited = self.exit.is_some();
        let now = Instant::now();
        self.end = match self.end {
            Some(End::Due(_) | End::Terminated(_) | End::Killed(_)) if exited => {
                // What it started and left behind.
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
            // Nothing more can be done.
            Some(End::Killed(since)) if since.elapsed() >= GRACE => Some(End::Gone(now)),
            end => end,
        };
        let Some(End::Gone(since)) = self.end else { return false };
        since.elapsed() >= LAST_WORDS || (self.relay.as_mut().is_none_or(Relay::is_done) && !self.has_group())
    }

    /// How it went.
    fn last_words(&mut self) -> String {
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
            let words = relay.words();
            if !words.is_empty() && !self.told_to_end {
                why.push_str(&format!("; its last words on standard error: {words}"));
            }
        }
        why
    }

    /// Asks the group to end, where it can be asked.
    fn terminate(&mut self) {
        #[cfg(unix)]
        // An error means that nobody is left.
        let _ = self.child.signal(SIGTERM);
        #[cfg(not(unix))]
        self.kill();
    }

    fn kill(&mut self) {
        // An error means that nobody is left.
        let _ = self.child.start_kill();
    }

    /// Whether a process of the group is left.
    #[cfg(unix)]
    fn has_group(&self) -> bool {
        // To one that is not stopped this signal means nothing.
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
            relay.wait(LAST_WORDS);
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
