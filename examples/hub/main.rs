//! A host of many servers, on threads: reads a configuration file, starts its servers, prints the functions for a
//! model, and makes calls. It has no HTTP client, so servers with a `url` fail.
//!
//! ```sh
//! cargo run -p mcp-proto-examples --bin hub -- mcp.json
//! cargo run -p mcp-proto-examples --bin hub -- mcp.json mcp_memory_read_graph '{}' mcp_memory_search_nodes '{"query": "bees"}'
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use mcp_proto::binding::http::Broken;
use mcp_proto::host::config::{Document, Endpoint, Entry};
use mcp_proto::host::hub::{Hub, HubAction, HubEvent, HubOptions};
use mcp_proto::{ConnectionId, OpenFailure, Options, RawValue, ShutdownStep, Time, Transport};
#[cfg(windows)]
use process_wrap::std::JobObject;
#[cfg(unix)]
use process_wrap::std::ProcessGroup;
use process_wrap::std::{ChildWrapper, CommandWrap};
use signal_hook::consts::{SIGINT, SIGTERM};

/// Queued pieces of output; when the queue is full, the servers block.
const QUEUE: usize = 16;
/// Queued messages to a server; when the queue is full, the server counts as broken.
const UNREAD: usize = 256;
/// Interval for checking for exited processes and signals.
const TICK: Duration = Duration::from_millis(100);

/// A server's process, with a thread for each direction, so that a blocked server does not block the others. It leads a
/// process group, and signals go to the group: shells and package runners do not forward signals.
struct Process {
    connection: ConnectionId,
    child: Box<dyn ChildWrapper>,
    input: Option<SyncSender<Vec<u8>>>,
}

impl Process {
    /// `tell` is called with each piece of output, and with `None` at its end.
    fn start(
        entry: &Entry,
        connection: ConnectionId,
        tell: impl Fn(Option<Vec<u8>>) + Send + 'static,
    ) -> io::Result<Self> {
        let Endpoint::Stdio(program) = &entry.endpoint else { return Err(io::ErrorKind::Unsupported.into()) };
        let mut command = Command::new(&*program.command);
        command.args(program.args.iter().map(|arg| &**arg));
        // The variables that the entry allows, and no others.
        let variables = program.environment(|name| std::env::var(name).ok().map(Into::into));
        command.env_clear().envs(variables.iter().map(|(name, value)| (&**name, &**value)));
        command.current_dir(program.cwd.as_deref().unwrap_or("."));
        let (input, lines) = sync_channel::<Vec<u8>>(UNREAD);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut command = CommandWrap::from(command);
        #[cfg(unix)]
        command.wrap(ProcessGroup::leader());
        #[cfg(windows)]
        command.wrap(JobObject);
        let child = command.spawn()?;
        let mut process = Self { connection, child, input: Some(input) };
        let (stdin, stdout) = (process.child.stdin().take(), process.child.stdout().take());
        let (mut stdin, mut stdout) = stdin.zip(stdout).ok_or(io::ErrorKind::BrokenPipe)?;
        // If a write fails, the output ends too, or the response times out.
        thread::spawn(move || lines.into_iter().try_for_each(|line| stdin.write_all(&line)));
        thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(len @ 1..) = stdout.read(&mut buffer) {
                tell(buffer.get(..len).map(<[u8]>::to_vec));
            }
            tell(None);
        });
        Ok(process)
    }

    fn send(&mut self, line: &[u8]) {
        let full = |input: &SyncSender<_>| matches!(input.try_send(line.to_vec()), Err(TrySendError::Full(_)));
        if self.input.as_ref().is_some_and(full) {
            // The end of its output follows.
            let _ = self.child.start_kill();
        }
    }

    fn shut(&mut self, how: ShutdownStep) {
        match how {
            ShutdownStep::CloseInput => self.input = None,
            #[cfg(unix)]
            ShutdownStep::Terminate => drop(self.child.signal(SIGTERM)),
            #[cfg(not(unix))]
            ShutdownStep::Terminate => drop(self.child.start_kill()),
            ShutdownStep::Kill | _ => drop(self.child.start_kill()),
        }
    }

    /// Ends the descendants of an exited process: they may hold its output open.
    fn reap(&mut self) {
        if let Ok(Some(_)) = self.child.try_wait() {
            let _ = self.child.start_kill();
        }
    }

    /// Describes how the process ended. A process without output is useless, and is killed if it still runs.
    fn end(&mut self) -> String {
        let _ = self.child.start_kill();
        self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let file = args.next().ok_or("usage: hub FILE [NAME ARGUMENTS ...]")?;
    let mut wanted = Vec::new();
    while let Some(name) = args.next() {
        wanted.push((name, RawValue::from_string(args.next().unwrap_or_else(|| "{}".into()))?));
    }
    let Document(configuration) = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    let configuration = configuration.expand(|name| std::env::var(name).ok().map(Into::into));
    configuration.errors.iter().for_each(|error| eprintln!("{error}"));
    configuration.warnings.iter().for_each(|warning| eprintln!("{warning}"));

    // A terminal's Ctrl-C does not reach the servers' process groups. They are ended when `main` returns.
    let interrupted = Arc::new(AtomicBool::new(false));
    let signals = [
        SIGINT,
        SIGTERM,
        #[cfg(unix)]
        signal_hook::consts::SIGHUP,
    ];
    for signal in signals {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }

    let clock = Instant::now();
    let now = || Time::from_epoch(clock.elapsed());
    let mut looked = clock;
    let (sender, pieces) = sync_channel(QUEUE);
    let (mut processes, mut calls, mut settled) = (BTreeMap::<_, Process>::new(), BTreeMap::new(), false);
    let seed = RandomState::new().build_hasher().finish();
    let mut hub = Hub::new(HubOptions::new(Options::new("my-host", "1.0")), seed);
    hub.configure(now(), configuration)?;
    hub.open(now())?;
    loop {
        while let Some(action) = hub.poll() {
            match action {
                HubAction::Open { session, connection } => {
                    // The session may have abandoned a process without shutting it down.
                    processes.remove(&session);
                    let Some(entry) = hub.entry(session) else { continue };
                    let sender = sender.clone();
                    let tell = move |piece| drop(sender.send((session, connection, piece)));
                    let started = Process::start(entry, connection, tell).map_err(|error| error.to_string());
                    let event = match &started {
                        Ok(_) => Transport::Opened,
                        Err(why) => Transport::OpenFailed { how: OpenFailure::Spawn, why },
                    };
                    hub.handle_transport(now(), session, connection, event);
                    processes.extend(started.ok().map(|process| (session, process)));
                }
                HubAction::Send { session, message } => {
                    processes.get_mut(&session).into_iter().for_each(|process| process.send(message.line()));
                }
                HubAction::Shutdown { session, how } => {
                    processes.get_mut(&session).into_iter().for_each(|process| process.shut(how));
                }
                HubAction::Request { session, request } => {
                    let why = "this example does not do HTTP";
                    hub.handle_failure(now(), session, request.exchange, Broken::Unreachable, why);
                }
                // `Settled` repeats if a server is started later.
                HubAction::Event(HubEvent::Settled) if !settled => {
                    settled = true;
                    for (_, function) in hub.functions() {
                        println!("{}  {}", function.name, function.description.unwrap_or_default());
                    }
                    for (name, arguments) in &wanted {
                        match hub.call(now(), name, Some(arguments)) {
                            Ok(call) => drop(calls.insert(call, name)),
                            Err(error) => eprintln!("{error}"),
                        }
                    }
                    if calls.is_empty() {
                        hub.close(now())?;
                    }
                }
                HubAction::Event(HubEvent::Finished { call, outcome, .. }) => {
                    println!("{}: {outcome:?}", calls.remove(&call).map_or("", String::as_str));
                    if calls.is_empty() {
                        hub.close(now())?;
                    }
                }
                HubAction::Event(HubEvent::Failed { server, failure, .. }) => eprintln!("{server}: {failure}"),
                HubAction::Event(HubEvent::Closed) => return Ok(()),
                // Irrelevant for a command that lists and calls.
                HubAction::Drop { .. } | HubAction::Event(_) | _ => {}
            }
        }
        let wait = hub.deadline().map_or(Duration::MAX, |deadline| deadline.since(now()));
        // Deadlines come before input, so that a busy server does not delay them.
        if wait.is_zero() {
            hub.handle_timeout(now());
            continue;
        }
        if looked.elapsed() >= TICK {
            looked = Instant::now();
            processes.values_mut().for_each(Process::reap);
            if interrupted.load(Ordering::Relaxed) {
                return Err("interrupted".into());
            }
        }
        match pieces.recv_timeout(wait.min(TICK)) {
            // Output of a replaced process.
            Ok((session, old, _)) if processes.get(&session).is_none_or(|process| process.connection != old) => {}
            Ok((session, connection, Some(bytes))) => hub.handle_bytes(now(), session, connection, &bytes),
            Ok((session, connection, None)) => {
                let why = processes.remove(&session).map_or_else(String::new, |mut process| process.end());
                hub.handle_transport(now(), session, connection, Transport::Closed { why: &why });
            }
            Err(_) => hub.handle_timeout(now()),
        }
    }
}
