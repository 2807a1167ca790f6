//! One thread: lists the tools of many servers at once, without a runtime. All pipes are non-blocking, writes too. It polls
//! with mio, because the crate `polling` needs unsafe code. On Unix.
//!
//! ```sh
//! cargo run -p mcp-proto-examples --bin embed-mio -- 100 npx -y @modelcontextprotocol/server-everything
//! ```

use std::env;
use std::error::Error;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as Pair;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use mcp_proto::{
    Action, Client, ConnectionId, Event, Lines, OpenFailure, Options, Outgoing, ShutdownStep, Time, Transport,
};
use mio::net::UnixStream;
use mio::{Events, Interest, Poll, Registry, Token};

struct Server {
    client: Client<Lines>,
    token: Token,
    /// The process, and the socket that is its input and its output.
    process: Option<(Child, UnixStream, ConnectionId)>,
    /// What the server has not taken yet. Few messages are in flight, so it stays small.
    unsent: Vec<u8>,
    /// The input is closed when all of it is written.
    closes: bool,
}

impl Server {
    fn start(&mut self, command: &[String], registry: &Registry, connection: ConnectionId) -> io::Result<()> {
        let (program, arguments) = command.split_first().ok_or(ErrorKind::InvalidInput)?;
        let (own, other) = Pair::pair()?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(OwnedFd::from(other.try_clone()?)).stdout(OwnedFd::from(other));
        let child = command.spawn()?;
        own.set_nonblocking(true)?;
        let mut pipe = UnixStream::from_std(own);
        registry.register(&mut pipe, self.token, Interest::READABLE | Interest::WRITABLE)?;
        self.process = Some((child, pipe, connection));
        Ok(())
    }

    /// Carries out what the client wants done.
    fn act(&mut self, command: &[String], registry: &Registry, now: Time) {
        while let Some(action) = self.client.poll() {
            match (action, &mut self.process) {
                (Action::Open(connection), _) => match self.start(command, registry, connection) {
                    Ok(()) => self.client.handle_transport(now, connection, Transport::Opened),
                    Err(error) => self.client.handle_transport(now, connection, failed(&error.to_string())),
                },
                (Action::Send(message), _) => self.unsent.extend(Outgoing::line(&message)),
                (Action::Shutdown(ShutdownStep::CloseInput), _) => self.closes = true,
                (Action::Shutdown(_), Some((child, ..))) => drop(child.kill()),
                (Action::Event(Event::Ready), _) => {
                    self.client.catalog().tools().for_each(|tool| println!("{}", tool.name));
                    let _ = self.client.close(now);
                }
                _ => {}
            }
        }
        if let Some((_, pipe, _)) = &mut self.process
            && let Ok(written) = pipe.write(&self.unsent)
        {
            self.unsent.drain(..written);
            if self.closes && self.unsent.is_empty() {
                let _ = pipe.shutdown(std::net::Shutdown::Write);
            }
        }
    }

    /// Reads all that the server wrote.
    fn read(&mut self, now: Time) {
        let mut buffer = [0; 1 << 16];
        while let Some((child, pipe, connection)) = &mut self.process {
            match pipe.read(&mut buffer) {
                Ok(read @ 1..) => {
                    self.client.handle_bytes(now, *connection, buffer.get(..read).unwrap_or_default());
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Ok(_) | Err(_) => {
                    let _ = child.kill().and(child.wait());
                    self.client.handle_transport(now, *connection, Transport::Closed { why: "the output ended" });
                    self.process = None;
                }
            }
        }
    }
}

const fn failed(why: &str) -> Transport<'_> {
    Transport::OpenFailed { how: OpenFailure::Spawn, why }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let count: usize = arguments.next().ok_or("usage: embed-mio COUNT PROGRAM [ARGUMENT]...")?.parse()?;
    let command: Vec<String> = arguments.collect();
    let (start, mut poll, mut events) = (Instant::now(), Poll::new()?, Events::with_capacity(256));
    let now = || Time::from_epoch(start.elapsed());
    let mut servers = Vec::new();
    for number in 0..count {
        let mut client = Client::new(Lines::new(), Options::new("embed-mio", "1.0"), fastrand::u64(..));
        client.open(now())?;
        servers.push(Server { client, token: Token(number), process: None, unsent: Vec::new(), closes: false });
    }
    while servers.iter().any(|server| !server.client.is_closed()) {
        servers.iter_mut().for_each(|server| server.act(&command, poll.registry(), now()));
        let due = servers.iter().filter_map(|server| server.client.deadline()).min();
        poll.poll(&mut events, due.map_or(Some(Duration::from_secs(1)), |due| Some(due.since(now()))))?;
        events.iter().filter_map(|event| servers.get_mut(event.token().0).map(|it| it.read(now()))).for_each(drop);
        servers.iter_mut().for_each(|server| server.client.handle_timeout(now()));
    }
    Ok(())
}
