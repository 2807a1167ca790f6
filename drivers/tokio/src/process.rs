//! A server as a child process.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::mem::{self, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use mcp_proto::{Outgoing, ShutdownStep, StderrLines};
use mcp_proto_std::{Exit, Piece, Program, Unwritten};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::{Notify, watch};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::group::{Group, Input, Pipes};

/// Maximum time from the end of output to exit, or from exit to the end of output.
pub(crate) const GRACE: Duration = Duration::from_secs(1);
/// After exit, output from descendants is read for this long.
const DESCENDANT_OUTPUT: Duration = Duration::from_secs(5);
/// Bytes that are read at once: a pipe of Linux holds as many.
const PIECE: usize = 64 << 10;
/// Time to wait for the rest of standard error and for descendants to exit.
const REST: Duration = Duration::from_millis(500);
/// Interval for checking whether descendants have exited.
const TICK: Duration = Duration::from_millis(5);
/// Interval for checking whether a program reads, while it takes nothing.
const LOOK: Duration = Duration::from_millis(500);
/// Interval for reporting that the process writes to its standard error.
const LIFE: Duration = Duration::from_millis(100);

/// A server's program, which leads a process group (on Windows: in a job object). A few tasks, and no thread, wait for its
/// pipes and its exit. Dropping it kills the group.
///
/// A descendant that left the group, as a daemon does, is not ended, and not waited for: if it holds the output, this is read
/// after the exit of the program until nothing comes for a second, and for 5 s at most.
///
/// What comes from it goes to a function. While the future that it returns is pending, no more output is read, and the
/// program has to wait.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> std::io::Result<()> { if cfg!(unix) {
/// use mcp_proto::{Outgoing, RawValue, ShutdownStep};
/// use mcp_proto_tokio::{Piece, Process, Program};
///
/// let (sender, mut pieces) = tokio::sync::mpsc::channel(16);
/// let mut process = Process::start(&Program::new("cat"), move |piece| {
///     let sender = sender.clone();
///     async move { drop(sender.send(piece).await) }
/// })?;
/// process.send(&Outgoing::new(&RawValue::from_string("{}".into())?, None, None));
/// process.shut_down(ShutdownStep::CloseInput);
/// assert!(matches!(pieces.recv().await, Some(Piece::Output(bytes)) if bytes == b"{}\n"));
/// assert!(matches!(pieces.recv().await, Some(Piece::Closed { why }) if why == "exit status: 0"));
/// # } Ok(()) }
/// ```
pub struct Process {
    id: u32,
    input: Option<Writing>,
    orders: watch::Sender<Orders>,
    supervisor: JoinHandle<()>,
    stderr_lines: SharedLines,
}

/// What the process is to do, for the task that looks after it. When the sender is dropped, it is killed.
#[derive(Default)]
struct Orders {
    step: Option<ShutdownStep>,
}

/// What waits for the task that writes.
#[derive(Default)]
pub(crate) struct Feed {
    state: Mutex<Feeding>,
    changed: Notify,
}

#[derive(Default)]
struct Feeding {
    unwritten: Unwritten,
    is_closed: bool,
    /// The input of a program, which is written under the lock, by the task or by whoever adds a message. A stream of the
    /// host's is with the task alone.
    pipe: Option<Input>,
    /// What the task is to write first.
    rest: Vec<u8>,
    /// The task is writing what comes before all that waits.
    is_writing: bool,
}

/// The right to add messages. The input is closed when it is dropped, once what waits is written.
pub(crate) struct Writing(Arc<Feed>);

impl Writing {
    pub(crate) fn new(feed: &Arc<Feed>) -> Self {
        Self(Arc::clone(feed))
    }

    /// Adds a message, which is written once [`flush`](Self::flush) is called, or [`wake`](Self::wake).
    pub(crate) fn push(&self, message: Outgoing) {
        let mut state = self.0.state();
        if !state.is_closed {
            state.unwritten.push(now(), message);
        }
    }

    /// Has the task write what waits.
    pub(crate) fn wake(&self) {
        self.0.changed.notify_one();
    }

    /// Writes what waits, as far as there is room. The task writes the rest, and finds out what is wrong.
    pub(crate) fn flush(&self) {
        if !self.0.state().write() {
            self.wake();
        }
    }
}

impl Feeding {
    /// Writes what waits, as far as the pipe has room. Returns whether nothing is left for the task.
    fn write(&mut self) -> bool {
        let Self { unwritten, pipe: Some(pipe), rest, is_writing: is_writing @ false, .. } = self else { return false };
        // The task waits for room itself.
        let mut context = Context::from_waker(Waker::noop());
        while let Some(mut burst) = unwritten.burst() {
            let written = Pin::new(&mut *pipe).poll_write(&mut context, &burst);
            let len = if let Poll::Ready(Ok(len)) = written { len } else { 0 };
            unwritten.written(now(), len);
            if len < burst.len() {
                burst.drain(..len);
                (*rest, *is_writing) = (burst, true);
                return false;
            }
        }
        true
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.0.state().is_closed = true;
        self.0.changed.notify_one();
    }
}

impl Feed {
    fn state(&self) -> MutexGuard<'_, Feeding> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For the input of a program.
    fn of(pipe: Input) -> Self {
        let state = Mutex::new(Feeding { pipe: Some(pipe), ..Feeding::default() });
        Self { state, ..Self::default() }
    }

    /// Nothing is written any more.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.unwritten.clear();
        (state.pipe, state.rest) = (None, Vec::new());
    }

    /// Waits for what is to be written; `None` at the end.
    pub(crate) async fn burst(&self) -> Option<Vec<u8>> {
        loop {
            let is_closed = {
                let mut state = self.state();
                let rest = Some(mem::take(&mut state.rest)).filter(|rest| !rest.is_empty());
                let burst = rest.or_else(|| state.unwritten.burst());
                state.is_writing = burst.is_some();
                if burst.is_some() {
                    return burst;
                }
                state.is_closed
            };
            if is_closed {
                return None;
            }
            self.changed.notified().await;
        }
    }

    /// These bytes were written. A program that takes little, and asks for more, is found here.
    pub(crate) fn written(&self, len: usize) -> io::Result<()> {
        let mut state = self.state();
        state.unwritten.written(now(), len);
        state.unwritten.stalled(now()).map_or(Ok(()), |why| Err(io::Error::other(why)))
    }

    /// Waits until the program counts as one that does not read.
    pub(crate) async fn stalled(&self) -> io::Error {
        loop {
            sleep(LOOK).await;
            if let Some(why) = self.state().unwritten.stalled(now()) {
                return io::Error::other(why);
            }
        }
    }
}

/// The time, which tests may pause.
fn now() -> std::time::Instant {
    Instant::now().into_std()
}

impl Process {
    /// Starts a program, in the context of a runtime. `take` gets what comes from it.
    ///
    /// # Errors
    /// The system's error, with the program's name.
    pub fn start<T, F>(program: &Program, take: T) -> io::Result<Self>
    where
        T: Fn(Piece) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let started = Group::start(program.command()).map_err(|error| program.not_started(&error));
        let (group, Pipes { input: stdin, output, errors }) = started?;
        let lines = Arc::new(Feed::of(stdin));
        let input = Writing::new(&lines);
        let (orders, given) = watch::channel(Orders::default());
        let (stderr_lines, last_output) = (SharedLines::default(), Arc::new(Mutex::new(Some(Instant::now()))));
        let id = group.id();
        let supervisor = Supervisor {
            group,
            orders: given,
            exit: None,
            broken: None,
            is_asked_to_exit: false,
            is_forced: false,
            last_output: Arc::clone(&last_output),
            stderr_lines: Arc::clone(&stderr_lines),
            writer: Some(Aborted(tokio::spawn(write(Ends(lines))))),
            reader: Aborted(tokio::spawn(read(output, last_output, take.clone()))),
            errors: Aborted(tokio::spawn(read_errors(
                errors,
                Arc::clone(&stderr_lines),
                program.clone(),
                take.clone(),
            ))),
        };
        let supervisor = tokio::spawn(async move {
            if let Some(why) = supervisor.run().await {
                take(Piece::Closed { why }).await;
            }
        });
        Ok(Self { id, input: Some(input), orders, supervisor, stderr_lines })
    }

    pub(crate) const fn stderr_lines(&self) -> &SharedLines {
        &self.stderr_lines
    }

    /// The system's number of the process.
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// Queues a message for its input ([`Unwritten`]). If the input is broken, or the program does not read it,
    /// [`Piece::Closed`] follows.
    pub fn send(&mut self, message: &Outgoing) {
        if let Some(input) = &self.input {
            input.push(message.clone());
            input.wake();
        }
    }

    pub(crate) const fn input(&self) -> Option<&Writing> {
        self.input.as_ref()
    }

    /// Carries out a step of the shutdown. [`Piece::Closed`] follows when it has ended.
    pub fn shut_down(&mut self, step: ShutdownStep) {
        if step == ShutdownStep::CloseInput {
            self.input = None;
        }
        self.orders.send_modify(|orders| orders.step = Some(step));
    }

    /// Kills it, and waits until its process group has ended.
    pub async fn kill(self) {
        let Self { input, orders, supervisor, .. } = self;
        drop((input, orders));
        // An error means that the runtime ends, which kills it.
        let _ = supervisor.await;
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What a program says on its standard error, as far as it tells why it fails.
pub(crate) type SharedLines = Arc<Mutex<StderrLines>>;

pub(crate) fn copy_of(stderr_lines: Option<&SharedLines>) -> StderrLines {
    stderr_lines
        .and_then(|stderr_lines| stderr_lines.lock().ok())
        .map(|stderr_lines| stderr_lines.clone())
        .unwrap_or_default()
}

/// A task that is aborted when this is dropped.
pub(crate) struct Aborted<T>(pub(crate) JoinHandle<T>);

impl<T> Aborted<T> {
    /// Ends the task, unless it has ended, and waits until what it had was dropped.
    pub(crate) async fn end(&mut self) {
        if !self.0.is_finished() {
            self.0.abort();
            // An error means that it was aborted.
            let _ = (&mut self.0).await;
        }
    }
}

impl<T> Drop for Aborted<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The process was dropped.
struct Dropped;

/// When output was taken last; `None` while some is being taken.
pub(crate) type LastOutput = Arc<Mutex<Option<Instant>>>;

/// Looks after a process until it and its descendants have ended.
struct Supervisor {
    group: Group,
    orders: watch::Receiver<Orders>,
    exit: Option<(ExitStatus, Instant)>,
    broken: Option<(String, Instant)>,
    is_asked_to_exit: bool,
    /// Whether the driver ended it, because its input or output can no longer be used.
    is_forced: bool,
    last_output: LastOutput,
    stderr_lines: SharedLines,
    writer: Option<Aborted<io::Result<()>>>,
    reader: Aborted<io::Result<()>>,
    errors: Aborted<()>,
}

impl Supervisor {
    /// Why the process ended; `None` if it was dropped.
    async fn run(mut self) -> Option<String> {
        if let Ok(()) = self.run_until_quiet().await
            && let Ok(()) = self.end().await
        {
            let exit = Exit {
                status: self.exit.map(|(status, _)| status),
                is_forced: self.is_forced,
                broken: self.broken.map(|(error, _)| error),
                is_asked_to_exit: self.is_asked_to_exit,
            };
            return Some(self.stderr_lines.lock().map(|stderr_lines| exit.reason(&stderr_lines)).unwrap_or_default());
        }
        self.group.kill();
        // A killed process exits at once, unless the system hangs.
        let _ = timeout(GRACE, self.rest()).await;
        None
    }

    /// Until the end of the output, or until no more is expected of it.
    async fn run_until_quiet(&mut self) -> Result<(), Dropped> {
        loop {
            let quiet = self.quiet();
            if quiet.is_some_and(|at| at <= Instant::now()) {
                // One that still runs is ended: it exits by itself when its output is closed, or is terminated.
                self.is_forced = self.exit.is_none();
                return Ok(());
            }
            tokio::select! {
                ended = &mut self.reader.0 => {
                    if let Ok(Err(error)) = ended {
                        self.breaks(error.to_string());
                    }
                    return Ok(());
                }
                status = self.group.wait(), if self.exit.is_none() => self.exits(status),
                ended = written(&mut self.writer) => {
                    self.writer = None;
                    if let Err(error) = ended {
                        self.breaks(error.to_string());
                    }
                }
                changed = self.orders.changed() => self.obey(changed.is_ok())?,
                () = sleep_until(quiet.unwrap_or_else(Instant::now)), if quiet.is_some() => {}
            }
        }
    }

    /// When no more output is expected although the output is open: the process exited and a descendant holds the output,
    /// or its input broke.
    fn quiet(&self) -> Option<Instant> {
        let last = self.last_output.lock().ok().and_then(|last| *last);
        let exited = self.exit.and_then(|(_, at)| match last {
            Some(last) => Some(at.max(last).checked_add(GRACE)?.min(at.checked_add(DESCENDANT_OUTPUT)?)),
            None => Instant::now().checked_add(GRACE),
        });
        let broken = self.broken.as_ref().and_then(|(_, at)| at.checked_add(GRACE));
        [exited, broken].into_iter().flatten().min()
    }

    /// Until it exited, which it is made to, and its descendants did.
    async fn end(&mut self) -> Result<(), Dropped> {
        self.reader.0.abort();
        let mut steps = [ShutdownStep::Terminate, ShutdownStep::Kill].into_iter();
        let mut due = Instant::now().checked_add(GRACE);
        while self.exit.is_none() {
            tokio::select! {
                status = self.group.wait() => self.exits(status),
                changed = self.orders.changed() => self.obey(changed.is_ok())?,
                () = sleep_until(due.unwrap_or_else(Instant::now)) => {
                    match steps.next() {
                        Some(ShutdownStep::Terminate) => {
                            self.is_forced = true;
                            self.group.terminate();
                        }
                        Some(_) => self.group.kill(),
                        // Killing failed too; give up.
                        None => break,
                    }
                    due = Instant::now().checked_add(GRACE);
                }
            }
        }
        self.group.terminate();
        // What is left after this time is killed.
        let _ = timeout(REST, self.rest()).await;
        self.group.kill();
        Ok(())
    }

    /// Waits for the exit, the end of standard error, and the exit of descendants.
    async fn rest(&mut self) {
        if self.exit.is_none() {
            let status = self.group.wait().await;
            self.exits(status);
        }
        let _ = (&mut self.errors.0).await;
        while self.group.is_left() {
            sleep(TICK).await;
        }
    }

    fn exits(&mut self, status: io::Result<ExitStatus>) {
        // There is no error for a process that was started here.
        self.exit = Some((status.unwrap_or_default(), Instant::now()));
    }

    fn breaks(&mut self, error: String) {
        self.broken.get_or_insert((error, Instant::now()));
    }

    fn obey(&mut self, is_held: bool) -> Result<(), Dropped> {
        if !is_held {
            return Err(Dropped);
        }
        let orders = self.orders.borrow_and_update();
        let step = orders.step;
        drop(orders);
        self.is_asked_to_exit = step.is_some();
        match step {
            None | Some(ShutdownStep::CloseInput) => {}
            Some(ShutdownStep::Terminate) => self.group.terminate(),
            Some(_) => self.group.kill(),
        }
        Ok(())
    }
}

/// Held by the task that writes: nothing is written, or waits, after it.
struct Ends(Arc<Feed>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.end();
    }
}

async fn write(lines: Ends) -> io::Result<()> {
    write_all(&mut Shared(&lines.0), &lines.0).await
}

/// The input of a program, for the task.
struct Shared<'a>(&'a Feed);

impl Shared<'_> {
    fn poll<T>(&self, poll: impl FnOnce(Pin<&mut Input>) -> Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        // It is there until the task ends.
        self.0
            .state()
            .pipe
            .as_mut()
            .map_or(Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())), |pipe| poll(Pin::new(pipe)))
    }
}

impl AsyncWrite for Shared<'_> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll(|pipe| pipe.poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(|pipe| pipe.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(|pipe| pipe.poll_shutdown(context))
    }
}

/// Writes what is added, until no more is.
pub(crate) async fn write_all(stdin: &mut (impl AsyncWrite + Unpin), lines: &Feed) -> io::Result<()> {
    while let Some(burst) = lines.burst().await {
        let mut rest = burst.as_slice();
        while !rest.is_empty() {
            let len = tokio::select! {
                biased;
                written = stdin.write(rest) => written?,
                stalled = lines.stalled() => return Err(stalled),
            };
            if len == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            rest = rest.get(len..).unwrap_or_default();
            lines.written(len)?;
        }
        stdin.flush().await?;
    }
    Ok(())
}

pub(crate) const PANICKED: &str = "a stream of the host's panicked";

/// Waits for the end of the input.
pub(crate) async fn written(writer: &mut Option<Aborted<io::Result<()>>>) -> io::Result<()> {
    match writer {
        // It is not aborted while this waits, and panics if a stream of the host's does.
        Some(writer) => (&mut writer.0).await.unwrap_or_else(|_| Err(io::Error::other(PANICKED))),
        None => std::future::pending().await,
    }
}

/// The next part of a stream; empty at its end. While the stream is quiet, there is no buffer for it.
async fn next_part(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    poll_fn(|context| {
        let mut space = [MaybeUninit::uninit(); PIECE];
        let mut buffer = ReadBuf::uninit(&mut space);
        match ready!(Pin::new(&mut *from).poll_read(context, &mut buffer)) {
            // So ends a pipe of Windows.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Vec::new()),
            read => read.map(|()| buffer.filled().to_vec()),
        }
        .into()
    })
    .await
}

/// Passes a stream on, until its end.
pub(crate) async fn read<F: Future<Output = ()>>(
    mut output: impl AsyncRead + Unpin,
    last: LastOutput,
    take: impl Fn(Piece) -> F,
) -> io::Result<()> {
    loop {
        let part = next_part(&mut output).await?;
        if part.is_empty() {
            return Ok(());
        }
        let (set, is_full) = (|time| last.lock().map(|mut last| *last = time), part.len() == PIECE);
        let _ = set(None);
        take(Piece::Output(part)).await;
        let _ = set(Some(Instant::now()));
        if is_full {
            // More is there: other servers, and deadlines, have their turn before it.
            yield_now().await;
        }
    }
}

async fn read_errors<F: Future<Output = ()>>(
    mut errors: impl AsyncRead + Unpin,
    stderr_lines: SharedLines,
    program: Program,
    take: impl Fn(Piece) -> F,
) {
    let mut told: Option<Instant> = None;
    // What follows an error is lost, as is what follows the end.
    while let Ok(part) = next_part(&mut errors).await
        && !part.is_empty()
    {
        if let Ok(mut stderr_lines) = stderr_lines.lock() {
            stderr_lines.take(&part);
        }
        // A function that panics costs the program nothing: its standard error is read on.
        if let Some(sink) = program.sink() {
            let _ = catch_unwind(AssertUnwindSafe(|| sink(&part)));
        }
        if told.is_none_or(|at| at.elapsed() >= LIFE) {
            told = Some(Instant::now());
            take(Piece::SignOfLife).await;
        }
        if part.len() == PIECE {
            yield_now().await;
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use mcp_proto::RawValue;
    use tokio::io::BufWriter;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    /// A message that waits, and nothing that follows it.
    pub(crate) async fn waiting() -> Arc<Feed> {
        let feed = Arc::new(Feed::default());
        let message = RawValue::from_string("{}".into()).unwrap();
        Writing::new(&feed).push(Outgoing::new(&message, None, None));
        assert!(is_stalled(&feed).await);
        feed
    }

    /// Whether who does not read is found.
    pub(crate) async fn is_stalled(feed: &Feed) -> bool {
        timeout(HOUR, feed.stalled()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_written_is_flushed_and_waits_no_more() {
        let feed = waiting().await;
        let mut to = BufWriter::new(Vec::new());
        write_all(&mut to, &feed).await.unwrap();
        assert_eq!(to.get_ref(), b"{}\n");
        assert!(!is_stalled(&feed).await);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn what_a_full_pipe_does_not_take_is_written_by_the_task_in_order() {
        let (sender, mut pieces) = tokio::sync::mpsc::unbounded_channel();
        let take = move |piece| {
            let _ = sender.send(piece);
            std::future::ready(())
        };
        let mut process = Process::start(&Program::new("cat"), take).unwrap();
        let (mut expected, mut found) = (Vec::new(), Vec::new());
        for (number, length) in [1, 2, 1 << 20, 3, 1 << 20, 4].into_iter().enumerate() {
            let text = format!(r#"{{"{}":{number}}}"#, "x".repeat(length));
            let message = Outgoing::new(&RawValue::from_string(text).unwrap(), None, None);
            expected.extend_from_slice(message.line());
            let input = process.input().unwrap();
            input.push(message);
            input.flush();
            match number {
                // The runtime has to learn first that the pipe has room.
                0 => match pieces.recv().await {
                    Some(Piece::Output(bytes)) => found.extend(bytes),
                    other => panic!("{other:?}"),
                },
                // It is written, although the task had no turn.
                1 => {
                    let mut state = input.0.state();
                    assert!(!state.is_writing && state.unwritten.burst().is_none());
                }
                _ => {}
            }
        }
        process.shut_down(ShutdownStep::CloseInput);
        while let Some(Piece::Output(bytes)) = pieces.recv().await {
            found.extend(bytes);
        }
        assert!(found == expected, "{} of {}", found.len(), expected.len());
    }
    #[cfg(unix)]
    #[tokio::test]
    async fn nothing_waits_for_a_program_that_ended() {
        let (sender, mut pieces) = tokio::sync::mpsc::unbounded_channel();
        let take = move |piece| {
            let _ = sender.send(piece);
            std::future::ready(())
        };
        let process = Process::start(&Program::new("true"), take).unwrap();
        while !matches!(pieces.recv().await, Some(Piece::Closed { .. })) {}
        let input = process.input().unwrap();
        while !input.0.state().is_closed {
            yield_now().await;
        }
        input.push(Outgoing::new(&RawValue::from_string("{}".into()).unwrap(), None, None));
        input.flush();
        let mut state = input.0.state();
        assert!(state.pipe.is_none() && state.rest.is_empty() && state.unwritten.burst().is_none());
    }
}
