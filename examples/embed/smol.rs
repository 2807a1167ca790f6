//! smol: lists the tools of a server over stdio. There is no driver for it: this is the loop, with a task for what is
//! written, so that a server that reads nothing does not stop the loop.
//!
//! ```sh
//! cargo run -p mcp-proto-examples --bin embed-smol -- npx -y @modelcontextprotocol/server-everything
//! ```

use std::env;
use std::error::Error;
use std::future::pending;
use std::io;
use std::time::Instant;

use mcp_proto::{Action, Cause, Client, Event, Lines, OpenFailure, Options, ShutdownStep, Time, Transport};
use smol::channel::{Sender, bounded};
use smol::future::or;
use smol::io::{AsyncReadExt, AsyncWriteExt};
use smol::process::{Child, ChildStdout, Command, Stdio};
use smol::{Task, Timer, spawn};

/// Messages that wait for a server that does not read.
const UNREAD: usize = 64;

struct Process {
    child: Child,
    output: ChildStdout,
    lines: Option<Sender<Vec<u8>>>,
    _writer: Task<()>,
}

impl Process {
    fn start(command: &[String]) -> io::Result<Self> {
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("it has no pipes"));
        };
        let (sender, lines) = bounded::<Vec<u8>>(UNREAD);
        let writer = spawn(async move {
            while let Ok(line) = lines.recv().await {
                // A server that does not read any more ends its output, too.
                if input.write_all(&line).await.and(input.flush().await).is_err() {
                    break;
                }
            }
        });
        Ok(Self { child, output, lines: Some(sender), _writer: writer })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let command: Vec<String> = env::args().skip(1).collect();
    smol::block_on(list_tools(&command))
}

async fn list_tools(command: &[String]) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let now = || Time::from_epoch(start.elapsed());
    let mut options = Options::new("embed-smol", "1.0");
    options.reconnect = None;
    let mut client = Client::new(Lines::new(), options, fastrand::u64(..));
    let (mut process, mut current, mut buffer) = (None, None, vec![0; 1 << 16]);
    client.open(now())?;
    loop {
        while let Some(action) = client.poll() {
            match (action, &mut process) {
                (Action::Open(connection), _) => {
                    current = Some(connection);
                    match Process::start(command) {
                        Ok(started) => {
                            process = Some(started);
                            client.handle_transport(now(), connection, Transport::Opened);
                        }
                        Err(error) => {
                            let why = &*error.to_string();
                            let failed = Transport::OpenFailed { how: OpenFailure::Spawn, why };
                            client.handle_transport(now(), connection, failed);
                        }
                    }
                }
                (Action::Send(message), Some(Process { lines: Some(lines), child, .. })) => {
                    drop(lines.try_send(message.line().to_vec()).or_else(|_| child.kill()));
                }
                (Action::Shutdown(ShutdownStep::CloseInput), Some(process)) => process.lines = None,
                (Action::Shutdown(_), Some(process)) => drop(process.child.kill()),
                (Action::Event(Event::Ready), _) => {
                    client.catalog().tools().for_each(|tool| println!("{}", tool.name));
                    client.close(now())?;
                }
                (Action::Event(Event::Closed { cause: Cause::Failed(failure) }), _) => return Err(failure.into()),
                (Action::Event(Event::Closed { .. }), _) => return Ok(()),
                _ => {}
            }
        }
        let due = client.deadline().and_then(|due| start.checked_add(due.since(Time::ZERO)));
        let wake = async {
            due.map_or_else(Timer::never, Timer::at).await;
            None
        };
        let read = async {
            match &mut process {
                Some(process) => Some(process.output.read(&mut buffer).await),
                None => pending().await,
            }
        };
        match (or(read, wake).await, current) {
            (Some(Ok(read @ 1..)), Some(connection)) => {
                client.handle_bytes(now(), connection, buffer.get(..read).unwrap_or_default());
            }
            (Some(_), Some(connection)) => {
                process = None;
                client.handle_transport(now(), connection, Transport::Closed { why: "the output ended" });
            }
            _ => client.handle_timeout(now()),
        }
    }
}
