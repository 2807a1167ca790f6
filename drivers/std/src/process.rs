//! A server as a child process.

use std::fmt;
use std::io::{self, Read};
use std::process::{ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mcp_proto::{Outgoing, ShutdownStep, StderrLines};

use crate::Program;
use crate::exit::Exit;
use crate::group::Group;
use crate::pipes::{Input, Pipes};
use crate::unwritten::Unwritten;

/// Interval for checking whether the process has exited, while it runs and while it ends.
const TICK: Duration = Duration::from_millis(100);
const TICK_AT_END: Duration = Duration::from_millis(5);
/// Interval for the same check while output comes.
const CHECK: Duration = Duration::from_millis(50);
/// Maximum time from the end of output to exit, or from exit to the end of output.
const GRACE: Duration = Duration::from_secs(1);
/// After exit, output from descendants is read for this long.
const DESCENDANT_OUTPUT: Duration = Duration::from_secs(5);
/// Queued pieces of output; when the queue is full, the process blocks.
const QUEUE: usize = 64;
/// Time to wait for the rest of standard error and for descendants to exit.
const REST: Duration = Duration::from_millis(500);
/// Interval for reporting that the process writes to its standard error.
const LIFE: Duration = Duration::from_millis(100);

/// What came from a process.
#[derive(Debug)]
#[non_exhaustive]
pub enum Piece {
    /// A part of its output.
    Output(Vec<u8>),
    /// It wrote to its standard error.
    SignOfLife,
    /// It ended, and so did its process group. Nothing follows.
    Closed {
        /// The exit status, and the last lines of its standard error.
        why: String,
    },
}

/// What a thread reports.
enum Report {
    Piece(Piece),
    OutputEnded(Option<io::Error>),
    InputBroken(io::Error),
}

/// The way of the threads' reports.
#[derive(Clone)]
struct Sender {
    reports: SyncSender<Report>,
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl Sender {
    /// Returns whether the process still wants it.
    fn send(&self, report: Report) -> bool {
        let is_sent = self.reports.send(report).is_ok();
        (self.wake)();
        is_sent
    }

    /// Sends it if the queue has room.
    fn offer(&self, report: Report) {
        let _ = self.reports.try_send(report);
        (self.wake)();
    }
}

/// How far the process's end is, with the time of each step.
#[derive(Clone, Copy)]
enum End {
    /// It closed its input or output; its exit is awaited.
    Due(Instant),
    Terminated(Instant),
    Killed(Instant),
    /// It exited; the rest of its standard error and its descendants are awaited.
    Gone(Instant),
}

/// A server's program, which leads a process group (on Windows: in a job object), with a thread for its input, its output
/// and its standard error each. Dropping it kills the group, and ends the threads.
///
/// A descendant that left the group, as a daemon does, is not ended, and not waited for: if it holds the output, this is read
/// after the exit of the program until nothing comes for a second, and for 5 s at most.
///
/// ```no_run
/// use std::time::{Duration, Instant};
///
/// use mcp_proto::{Outgoing, RawValue, ShutdownStep};
/// use mcp_proto_std::{Piece, Process, Program};
///
/// let mut process = Process::start(&Program::new("my-server"))?;
/// let ping = RawValue::from_string(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.into())?;
/// process.send(&Outgoing::new(&ping, None, None));
/// match process.read_until(Instant::now().checked_add(Duration::from_secs(5))) {
///     Some(Piece::Output(bytes)) => println!("{}", String::from_utf8_lossy(&bytes)),
///     other => println!("{other:?}"),
/// }
/// process.shut_down(ShutdownStep::CloseInput);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Process {
    group: Group,
    input: Option<Writing>,
    reports: Receiver<Report>,
    /// The threads end with it.
    pipes: Pipes,
    stderr_lines: Arc<Mutex<StderrLines>>,
    /// Disconnected at the end of standard error.
    errors_ended: Receiver<()>,
    exit: Option<(ExitStatus, Instant)>,
    /// When it was last checked whether more output is expected.
    last_check: Instant,
    last_output: Instant,
    broken: Option<(io::Error, Instant)>,
    is_asked_to_exit: bool,
    end: Option<End>,
    /// Whether it had to be terminated.
    is_forced: bool,
}

/// What waits to be written, and where it is written: by the thread for that, or by the one that flushes.
struct Feed {
    state: Mutex<Feeding>,
    changed: Condvar,
    stdin: Input,
}

#[derive(Default)]
struct Feeding {
    unwritten: Unwritten,
    /// What was not written of a burst; the thread goes on with it.
    rest: Vec<u8>,
    /// The thread writes, or has to.
    is_writing: bool,
    is_closed: bool,
}

/// The right to add messages. The input is closed when it is dropped, once what waits is written.
struct Writing(Arc<Feed>);

impl Writing {
    fn push(&self, message: Outgoing) {
        let mut state = self.0.state();
        if !state.is_closed {
            state.unwritten.push(Instant::now(), message);
        }
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.0.state().is_closed = true;
        self.0.changed.notify_one();
    }
}

impl Feed {
    fn new(stdin: Input) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), stdin }
    }

    fn state(&self) -> MutexGuard<'_, Feeding> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing is written any more.
    fn end(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.unwritten.clear();
    }

    /// Writes what waits, as far as there is room. The thread writes the rest, and finds out what is wrong.
    fn flush(&self) {
        let mut state = self.state();
        // The thread goes on with what waits.
        while !state.is_writing
            && let Some(mut burst) = state.unwritten.burst()
        {
            let len = self.stdin.try_write(&burst).unwrap_or(0);
            state.unwritten.written(Instant::now(), len);
            if len < burst.len() {
                burst.drain(..len);
                (state.rest, state.is_writing) = (burst, true);
                self.changed.notify_one();
            }
        }
    }

    /// Waits for what the thread is to write; `None` at the end.
    fn burst(&self) -> Option<Vec<u8>> {
        let mut state = self.state();
        loop {
            let rest = Some(std::mem::take(&mut state.rest)).filter(|rest| !rest.is_empty());
            if let Some(burst) = rest.or_else(|| state.unwritten.burst()) {
                state.is_writing = true;
                return Some(burst);
            }
            state.is_writing = false;
            if state.is_closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Process {
    /// Starts a program.
    ///
    /// # Errors
    /// The system's error, with the program's name.
    pub fn start(program: &Program) -> io::Result<Self> {
        Self::start_with(program, || {})
    }

    /// As [`start`](Self::start), for a loop that waits for more than this process: `wake` is called, by the threads of the
    /// process, when [`try_read`](Self::try_read) may have something.
    ///
    /// # Errors
    /// As of [`start`](Self::start).
    pub fn start_with(program: &Program, wake: impl Fn() + Send + Sync + 'static) -> io::Result<Self> {
        let pipes = Pipes::new()?;
        let mut command = program.command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut group = Group::start(&mut command).map_err(|error| program.not_started(&error))?;
        let child = group.child();
        #[cfg(unix)]
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        #[cfg(windows)]
        let (stdin, stdout, stderr) = (child.stdin().take(), child.stdout().take(), child.stderr().take());
        let (sender, reports) = sync_channel(QUEUE);
        let sender = Sender { reports: sender, wake: Arc::new(wake) };
        let (alive, errors_ended) = mpsc::channel();
        let stderr_lines = Arc::new(Mutex::new(StderrLines::default()));
        // From here on an early return drops `process`, which kills it.
        let mut process = Self {
            group,
            input: None,
            reports,
            pipes,
            stderr_lines: Arc::clone(&stderr_lines),
            errors_ended,
            exit: None,
            last_check: Instant::now(),
            last_output: Instant::now(),
            broken: None,
            is_asked_to_exit: false,
            end: None,
            is_forced: false,
        };
        let missing = || io::Error::from(io::ErrorKind::BrokenPipe);
        let feed = Arc::new(Feed::new(process.pipes.input(stdin.ok_or_else(missing)?)?));
        process.input = Some(Writing(Arc::clone(&feed)));
        let stdout = process.pipes.output(stdout.ok_or_else(missing)?);
        let stderr = process.pipes.output(stderr.ok_or_else(missing)?);
        let (program, broken, life) = (program.clone(), sender.clone(), sender.clone());
        thread::Builder::new().name("server input".into()).spawn(move || write(&feed, &broken))?;
        thread::Builder::new().name("server output".into()).spawn(move || read(stdout, &sender))?;
        thread::Builder::new().name("server errors".into()).spawn(move || {
            read_errors(stderr, &life, &stderr_lines, &program);
            drop(alive);
        })?;
        Ok(process)
    }

    /// What it says on its standard error, as far as it tells why it fails.
    pub fn stderr_lines(&self) -> StderrLines {
        self.stderr_lines.lock().map(|stderr_lines| stderr_lines.clone()).unwrap_or_default()
    }

    /// The system's number of the process.
    pub fn id(&self) -> u32 {
        self.group.id()
    }

    /// Queues a message for its input ([`Unwritten`]). If the input is broken, or the program does not read it,
    /// [`Piece::Closed`] follows.
    pub fn send(&mut self, message: &Outgoing) {
        if let Some(input) = &self.input {
            input.push(message.clone());
            input.0.changed.notify_one();
        }
    }

    /// As [`send`](Self::send), once [`flush`](Self::flush) is called.
    pub(crate) fn queue(&mut self, message: Outgoing) {
        if let Some(input) = &self.input {
            input.push(message);
        }
    }

    /// Writes what is queued. It does not wait.
    pub(crate) fn flush(&mut self) {
        if let Some(input) = &self.input {
            input.0.flush();
        }
    }

    /// Carries out a step of the shutdown. [`Piece::Closed`] follows when it has ended.
    pub fn shut_down(&mut self, step: ShutdownStep) {
        self.is_asked_to_exit = true;
        match step {
            ShutdownStep::CloseInput => self.input = None,
            ShutdownStep::Terminate => self.group.terminate(),
            ShutdownStep::Kill | _ => self.group.kill(),
        }
    }

    /// Waits until something comes from the process, or until this time; without a time, for as long as it takes. `None`
    /// if the time passed. After [`Piece::Closed`] it returns that again.
    pub fn read_until(&mut self, deadline: Option<Instant>) -> Option<Piece> {
        loop {
            if let Some(piece) = self.try_read() {
                return Some(piece);
            }
            let now = Instant::now();
            let rest = deadline.map_or(TICK, |deadline| deadline.saturating_duration_since(now));
            if rest.is_zero() {
                return None;
            }
            let rest = rest.min(self.interval());
            if self.end.is_some() {
                thread::sleep(rest);
                continue;
            }
            match self.reports.recv_timeout(rest) {
                Ok(report) => {
                    if let Some(piece) = self.take(report) {
                        return Some(piece);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => self.end = Some(End::Due(now)),
            }
        }
    }

    /// What came from the process, without waiting. Besides when it is woken, the loop calls it at this
    /// [`interval`](Self::interval). After [`Piece::Closed`] it returns that again.
    pub fn try_read(&mut self) -> Option<Piece> {
        while self.end.is_none() {
            match self.reports.try_recv() {
                Ok(report) => {
                    if let Some(piece) = self.take(report) {
                        return Some(piece);
                    }
                }
                Err(_) if self.is_found_over() => self.end = Some(End::Due(Instant::now())),
                Err(_) => return None,
            }
        }
        self.is_gone().then(|| {
            let exit = Exit {
                status: self.exit.map(|(status, _)| status),
                is_forced: self.is_forced,
                broken: self.broken.as_ref().map(|(error, _)| error.to_string()),
                is_asked_to_exit: self.is_asked_to_exit,
            };
            let why = exit.reason(&self.stderr_lines());
            Piece::Closed { why }
        })
    }

    /// The time after which [`try_read`](Self::try_read) has to be called again: the exit of a process wakes nobody.
    pub const fn interval(&self) -> Duration {
        if self.end.is_some() { TICK_AT_END } else { TICK }
    }

    fn take(&mut self, report: Report) -> Option<Piece> {
        let now = Instant::now();
        match report {
            Report::Piece(piece) => {
                if matches!(piece, Piece::Output(_)) {
                    self.last_output = now;
                    if self.is_found_over() {
                        self.end = Some(End::Due(now));
                        return None;
                    }
                }
                return Some(piece);
            }
            Report::InputBroken(error) => {
                self.broken.get_or_insert((error, now));
            }
            Report::OutputEnded(error) => {
                if let Some(error) = error {
                    self.broken.get_or_insert((error, now));
                }
                self.end = Some(End::Due(now));
            }
        }
        None
    }

    /// Whether [`is_over`](Self::is_over), which is a system call: it is checked once in a while.
    fn is_found_over(&mut self) -> bool {
        self.last_check.elapsed() >= CHECK && self.is_over()
    }

    /// Whether no more output is expected although the output is open: the process exited and a descendant holds the
    /// output, or its input broke.
    fn is_over(&mut self) -> bool {
        self.last_check = Instant::now();
        self.poll_exit();
        let stalled = self.input.as_ref().and_then(|input| input.0.state().unwritten.stalled(Instant::now()));
        if let Some(why) = stalled {
            self.broken.get_or_insert((io::Error::other(why), Instant::now()));
        }
        let exited = self.exit.is_some_and(|(_, at)| {
            let quiet = at.max(self.last_output).elapsed();
            quiet >= GRACE || at.elapsed() >= DESCENDANT_OUTPUT
        });
        exited || self.broken.as_ref().is_some_and(|(_, at)| at.elapsed() >= GRACE)
    }

    fn poll_exit(&mut self) {
        if self.exit.is_none()
            && let Ok(Some(status)) = self.group.try_wait()
        {
            self.exit = Some((status, Instant::now()));
        }
    }

    /// Advances the end of the process; true when it is complete.
    fn is_gone(&mut self) -> bool {
        self.poll_exit();
        let now = Instant::now();
        self.end = match self.end {
            Some(End::Due(_) | End::Terminated(_) | End::Killed(_)) if self.exit.is_some() => {
                // Its remaining descendants.
                self.group.terminate();
                Some(End::Gone(now))
            }
            Some(End::Due(since)) if since.elapsed() >= GRACE => {
                self.is_forced = true;
                self.group.terminate();
                Some(End::Terminated(now))
            }
            Some(End::Terminated(since)) if since.elapsed() >= GRACE => {
                self.group.kill();
                Some(End::Killed(now))
            }
            // Killing failed too; give up.
            Some(End::Killed(since)) if since.elapsed() >= GRACE => Some(End::Gone(now)),
            end => end,
        };
        let Some(End::Gone(since)) = self.end else { return false };
        if since.elapsed() >= REST {
            self.group.kill();
            return true;
        }
        matches!(self.errors_ended.try_recv(), Err(mpsc::TryRecvError::Disconnected)) && !self.group.is_left()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.input = None;
        self.group.kill();
        // A killed process exits at once; it is removed from the table of processes here.
        let start = Instant::now();
        while self.exit.is_none() && start.elapsed() < GRACE {
            self.poll_exit();
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("id", &self.id()).finish_non_exhaustive()
    }
}

fn write(feed: &Feed, reports: &Sender) {
    while let Some(burst) = feed.burst() {
        if let Err(error) = write_burst(feed, &burst) {
            feed.end();
            reports.send(Report::InputBroken(error));
            return;
        }
    }
}

fn write_burst(feed: &Feed, mut rest: &[u8]) -> io::Result<()> {
    while !rest.is_empty() {
        match feed.stdin.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(len) => {
                rest = rest.get(len..).unwrap_or_default();
                feed.state().unwritten.written(Instant::now(), len);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads until the end; false if `take` wants no more.
fn each_piece(mut from: impl Read, mut take: impl FnMut(&[u8]) -> bool) -> io::Result<bool> {
    let mut buffer = vec![0; 32 << 10];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(true),
            Ok(len) => {
                if !take(buffer.get(..len).unwrap_or_default()) {
                    return Ok(false);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn read(stdout: impl Read, reports: &Sender) {
    let ended = each_piece(stdout, |piece| reports.send(Report::Piece(Piece::Output(piece.to_vec()))));
    reports.send(Report::OutputEnded(ended.err()));
}

fn read_errors(stderr: impl Read, life: &Sender, stderr_lines: &Mutex<StderrLines>, program: &Program) {
    let mut told: Option<Instant> = None;
    // What follows an error is lost, as is what follows the end.
    let _ = each_piece(stderr, |piece| {
        if told.is_none_or(|at| at.elapsed() >= LIFE) {
            told = Some(Instant::now());
            // If the queue is full, its other pieces show that the server is alive.
            life.offer(Report::Piece(Piece::SignOfLife));
        }
        if let Ok(mut stderr_lines) = stderr_lines.lock() {
            stderr_lines.take(piece);
        }
        if let Some(sink) = program.sink() {
            sink(piece);
        }
        true
    });
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn ago(time: Duration) -> Instant {
        Instant::now().checked_sub(time).unwrap()
    }

    const PATIENCE: Duration = Duration::from_secs(60);

    fn until(mut condition: impl FnMut() -> bool) {
        let start = Instant::now();
        while !condition() {
            assert!(start.elapsed() < PATIENCE);
        }
    }

    fn object(name: &str) -> Outgoing {
        Outgoing::new(&mcp_proto::RawValue::from_string(format!(r#"{{"{name}":1}}"#)).unwrap(), None, None)
    }

    /// No time passes before it.
    fn just_now() -> Instant {
        Instant::now().checked_add(Duration::from_secs(3600)).unwrap()
    }

    #[test]
    fn output_after_the_exit_is_read_until_it_is_quiet_or_takes_too_long() {
        let mut process = Process::start(&Program::new("cat")).unwrap();
        let just_now = just_now();
        for (exited, wrote, is_over) in [
            (just_now, ago(GRACE), false),
            (ago(GRACE), just_now, false),
            (ago(GRACE), ago(GRACE), true),
            (ago(DESCENDANT_OUTPUT), just_now, true),
        ] {
            (process.exit, process.last_output) = (Some((ExitStatus::default(), exited)), wrote);
            assert_eq!(process.is_over(), is_over, "{exited:?} {wrote:?}");
        }
    }

    #[test]
    fn what_a_program_says_whose_input_broke_is_read_for_a_while() {
        let mut process = Process::start(&Program::new("cat")).unwrap();
        for (at, is_over) in [(just_now(), false), (ago(GRACE), true)] {
            process.broken = Some((io::ErrorKind::BrokenPipe.into(), at));
            assert_eq!(process.is_over(), is_over);
        }
    }

    #[test]
    fn a_program_that_does_not_exit_is_terminated_then_killed_and_then_given_up_each_after_a_while() {
        let program = Program::new("sh").args(["-c", "trap '' TERM; echo ignored; exec sleep 1000"]);
        let mut process = Process::start(&program).unwrap();
        assert!(matches!(process.read_until(None), Some(Piece::Output(_))));
        let name = |end| match end {
            None => "running",
            Some(End::Due(_)) => "due",
            Some(End::Terminated(_)) => "terminated",
            Some(End::Killed(_)) => "killed",
            Some(End::Gone(_)) => "gone",
        };
        for (end, next) in [
            (End::Due(just_now()), "due"),
            (End::Due(ago(GRACE)), "terminated"),
            (End::Terminated(just_now()), "terminated"),
            (End::Killed(just_now()), "killed"),
            (End::Killed(ago(GRACE)), "gone"),
            (End::Gone(just_now()), "gone"),
            (End::Terminated(ago(GRACE)), "killed"),
        ] {
            process.end = Some(end);
            assert!(!process.is_gone());
            assert_eq!(name(process.end), next);
        }
        let closed = process.read_until(None);
        let Some(Piece::Closed { why }) = closed else { panic!("{closed:?}") };
        assert!(why.starts_with("it closed input or output and did not exit, so it was ended: signal: 9"), "{why}");
    }

    #[test]
    fn a_read_that_was_interrupted_is_made_again_and_another_error_ends_it() {
        struct Failing(Vec<io::ErrorKind>);

        impl Read for Failing {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                match self.0.pop() {
                    Some(kind) => Err(kind.into()),
                    None => Read::read(&mut io::empty(), buffer),
                }
            }
        }

        let read =
            |errors: &[io::ErrorKind]| each_piece(Failing(errors.to_vec()), |_| true).map_err(|error| error.kind());
        assert_eq!(read(&[io::ErrorKind::Interrupted]), Ok(true));
        assert_eq!(read(&[io::ErrorKind::ConnectionReset]), Err(io::ErrorKind::ConnectionReset));
    }

    #[test]
    fn what_a_full_pipe_does_not_take_is_written_later_and_in_order() {
        let mut process = Process::start(&Program::new("cat")).unwrap();
        let mut expected = Vec::new();
        for letter in ["a", "b", "c"] {
            let message = object(&letter.repeat(100 << 10));
            expected.extend_from_slice(message.line());
            process.queue(message);
            process.flush();
        }
        let read = |process: &mut Process, len| {
            let (mut found, until) = (Vec::new(), Instant::now().checked_add(PATIENCE));
            while found.len() < len
                && let Some(Piece::Output(bytes)) = process.read_until(until)
            {
                found.extend(bytes);
            }
            found
        };
        let found = read(&mut process, expected.len());
        assert!(found == expected, "{} of {}", found.len(), expected.len());
        // Nobody has to wake the thread.
        let message = object("d");
        until(|| {
            process.queue(message.clone());
            process.flush();
            !read(&mut process, message.line().len()).is_empty()
        });
    }

    #[test]
    fn what_is_flushed_while_the_thread_writes_follows_what_it_writes() {
        let mut process = Process::start(&Program::new("cat")).unwrap();
        let (mut expected, mut found) = (Vec::new(), Vec::new());
        let long = object(&"a".repeat(1 << 20));
        process.send(&long);
        expected.extend_from_slice(long.line());
        // The thread has begun.
        until(|| {
            if let Some(Piece::Output(bytes)) = process.try_read() {
                found.extend(bytes);
            }
            !found.is_empty()
        });
        until(|| {
            // What the program reads meanwhile is short, so that there is room for it.
            if found.len() < long.line().len() {
                let message = object("b");
                process.queue(message.clone());
                process.flush();
                expected.extend_from_slice(message.line());
            }
            if let Some(Piece::Output(bytes)) = process.try_read() {
                found.extend(bytes);
            }
            found.len() == expected.len()
        });
        assert!(found == expected);
    }

    #[test]
    fn a_program_that_took_all_counts_as_one_that_reads() {
        let mut process = Process::start(&Program::new("cat")).unwrap();
        let later = Instant::now().checked_add(Duration::from_secs(3600)).unwrap();
        let stalled = |process: &Process| process.input.as_ref().unwrap().0.state().unwritten.stalled(later);
        process.queue(object("a"));
        assert!(stalled(&process).is_some());
        process.flush();
        assert_eq!(stalled(&process), None);
        process.send(&object("b"));
        until(|| stalled(&process).is_none());
    }

    #[test]
    fn a_descendant_that_writes_without_end_is_read_for_a_while_only() {
        let mut process = Process::start(&Program::new("yes")).unwrap();
        let at = ago(DESCENDANT_OUTPUT);
        (process.exit, process.last_check) = (Some((ExitStatus::default(), at)), at);
        until(|| matches!(process.read_until(None), Some(Piece::Closed { .. })));
    }

    #[test]
    fn output_of_a_descendant_is_a_reason_to_wait_for_more() {
        let mut process = Process::start(&Program::new("cat")).unwrap();
        let at = ago(GRACE);
        (process.exit, process.last_output, process.last_check) = (Some((ExitStatus::default(), at)), at, just_now());
        assert!(process.take(Report::Piece(Piece::Output(Vec::new()))).is_some());
        assert!(!process.is_over());
    }

    #[test]
    fn a_program_that_has_to_be_ended_and_the_helpers_of_one_that_ended_are_asked_to_exit_first() {
        // One that closed its output, and one that exited.
        for (is_left, rest) in [(true, "wait"), (false, "exit")] {
            let script = format!("(trap 'echo asked >&2; exit' TERM; echo; while :; do sleep 0.01; done) & {rest}");
            let heard = Arc::new(Mutex::new(Vec::new()));
            let hears = Arc::clone(&heard);
            let program = Program::new("sh").args(["-c", &script]);
            let program = program.stderr(move |piece| hears.lock().unwrap().extend_from_slice(piece));
            let mut process = Process::start(&program).unwrap();
            assert!(matches!(process.read_until(None), Some(Piece::Output(_))));
            if !is_left {
                until(|| {
                    process.poll_exit();
                    process.exit.is_some()
                });
            }
            process.end = Some(End::Due(ago(GRACE)));
            assert!(!process.is_gone());
            // A shell may tell how its command ended, too.
            until(|| String::from_utf8_lossy(&heard.lock().unwrap()).contains("asked"));
        }
    }
}
