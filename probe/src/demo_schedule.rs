//! What the demo server does without requests while watched: it changes its tools and resources, exits once, and after
//! the restart stops responding for a while.

use std::{
    collections::VecDeque,
    io::{self, BufRead, StdoutLock, Write},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use super::{Server, content};

#[derive(Clone, Copy)]
enum Act {
    /// Adds or removes the tool `butterfly`.
    Butterfly(bool),
    Rain,
    /// Stops responding and reading.
    Hush,
    /// Continues, with the input that arrived.
    Speak,
    /// Exits as soon as no call is running, so that no call is lost.
    Leave,
}

/// Seconds after the start. At exit the butterfly is present, so that the restart changes the list.
const FIRST: [(u64, Act); 5] =
    [(2, Act::Butterfly(true)), (3, Act::Rain), (4, Act::Butterfly(false)), (6, Act::Butterfly(true)), (7, Act::Leave)];
/// The silence lasts longer than an interval of five seconds and a timeout of three, and ends before a second such
/// wait.
const LATER: [(u64, Act); 8] = [
    (2, Act::Butterfly(true)),
    (3, Act::Rain),
    (4, Act::Butterfly(false)),
    (5, Act::Hush),
    (14, Act::Speak),
    (15, Act::Butterfly(true)),
    (17, Act::Butterfly(false)),
    (19, Act::Butterfly(true)),
];
/// Queued input lines; when the queue is full, the client blocks.
const QUEUE: usize = 64;

/// Serves standard input until it ends. When watched, the first process exits earlier.
pub(crate) fn serve(watched: Option<u32>) -> io::Result<()> {
    let mut server = Server::default();
    let mut life = Life::new(watched)?;
    // The lines that wait. The lock blocks sleeping calls from writing.
    let mut silence: Option<(Vec<Vec<u8>>, StdoutLock<'static>)> = None;
    loop {
        match life.next()? {
            Next::Line(line) => match &mut silence {
                Some((queued, _)) => queued.push(line),
                None => server.handle_line(&line)?,
            },
            Next::Act(Act::Butterfly(there)) => {
                log(if there { "the butterfly comes" } else { "the butterfly goes" });
                server.guests.butterfly = there;
                server.tools_changed()?;
            }
            Next::Act(Act::Rain) => {
                log("it rains");
                server.showers = server.showers.saturating_add(1);
                server.resource_updated(content::RAIN)?;
            }
            Next::Act(Act::Hush) => {
                log("silence");
                silence = Some((Vec::new(), io::stdout().lock()));
            }
            Next::Act(Act::Speak) => {
                log("it speaks again");
                let queued = silence.take().map(|(queued, _)| queued).unwrap_or_default();
                queued.iter().try_for_each(|line| server.handle_line(line))?;
            }
            Next::Act(leave @ Act::Leave) if server.is_busy() => life.postpone(leave),
            Next::Act(Act::Leave) => {
                log("the gate closes");
                return Ok(());
            }
            // Dropping the server ends the sleepers: their callers have gone.
            Next::End => return Ok(()),
        }
    }
}

/// What to do next.
enum Next {
    Line(Vec<u8>),
    Act(Act),
    /// The client closed the input.
    End,
}

struct Life {
    lines: Receiver<io::Result<Vec<u8>>>,
    plan: VecDeque<(Instant, Act)>,
}

impl Life {
    /// The schedule of the process with this number of starts, counted from 1; without a number nothing happens.
    fn new(watched: Option<u32>) -> io::Result<Self> {
        let plan: &[_] = match watched {
            None => &[],
            Some(1) => &FIRST,
            Some(_) => &LATER,
        };
        let start = Instant::now();
        let at = |seconds| start.checked_add(Duration::from_secs(seconds));
        let plan = plan.iter().filter_map(|(seconds, act)| Some((at(*seconds)?, *act))).collect();
        let (sender, lines) = mpsc::sync_channel(QUEUE);
        thread::Builder::new().spawn(move || {
            for line in io::stdin().lock().split(b'\n') {
                let is_last = line.is_err();
                if sender.send(line).is_err() || is_last {
                    return;
                }
            }
        })?;
        Ok(Self { lines, plan })
    }

    fn next(&mut self) -> io::Result<Next> {
        let Some((at, act)) = self.plan.front().copied() else {
            return self.lines.recv().map_or(Ok(Next::End), |line| line.map(Next::Line));
        };
        match self.lines.recv_timeout(at.saturating_duration_since(Instant::now())) {
            Ok(line) => line.map(Next::Line),
            Err(RecvTimeoutError::Disconnected) => Ok(Next::End),
            Err(RecvTimeoutError::Timeout) => {
                self.plan.pop_front();
                Ok(Next::Act(act))
            }
        }
    }

    /// Schedules the action for later.
    fn postpone(&mut self, act: Act) {
        if let Some(at) = Instant::now().checked_add(Duration::from_millis(50)) {
            self.plan.push_front((at, act));
        }
    }
}

/// Prints the event on standard error, for comparison with what the client reports.
fn log(what: &str) {
    // One write call, because probe writes to standard error too.
    let _ = io::stderr().write_all(format!("demo: {what}\n").as_bytes());
}
