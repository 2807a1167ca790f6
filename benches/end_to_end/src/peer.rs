//! The server: its command, or its process with its URL.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::client::{Era, Transport};

pub struct Peer {
    pub transport: Transport,
    pub era: Era,
    tools: usize,
    /// Over HTTP.
    process: Option<Child>,
    pub port: u16,
}

impl Peer {
    pub fn new(transport: Transport, era: Era, tools: usize) -> Self {
        let mut peer = Self { transport, era, tools, process: None, port: 0 };
        if transport != Transport::Stdio {
            let [program, arguments @ ..] = &peer.command()[..] else { unreachable!() };
            let command = Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
            let mut process = command.expect("the server starts");
            let mut line = String::new();
            BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
            peer.port = line.trim().parse().expect("the server prints its port");
            peer.process = Some(process);
        }
        peer
    }

    /// Program and arguments.
    pub fn command(&self) -> [String; 4] {
        let program: PathBuf = std::env::current_exe().unwrap().with_file_name("mcp-proto-end-to-end-server");
        let program = program.to_str().unwrap().to_owned();
        [program, self.transport.name().into(), self.era.name().into(), self.tools.to_string()]
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            drop(process.stdin.take());
            let _ = process.wait();
        }
    }
}
