//! The copy of servers' standard error, which never blocks the run and has no secrets.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use mcp_proto::journal::HiddenStream;

use crate::secrets::passed;

/// How long the rest is waited for at the end.
const REST: Duration = Duration::from_millis(500);
/// Bytes that wait to be written; while there are more, output is left out.
const WAITING: usize = 8 << 20;
/// Maximum length of a line before it is written without its end.
const LINE: usize = 8 << 10;

/// A piece of the standard error of a server, with its name.
type Chunk = (Box<str>, Vec<u8>);

/// What is to be copied. Clones copy to the same place.
#[derive(Clone)]
pub(crate) struct Copier {
    queue: Sender<Chunk>,
    waiting: Arc<AtomicUsize>,
    left_out: Arc<AtomicUsize>,
}

/// The end of the copy.
pub(crate) struct Rest(Receiver<()>);

impl Copier {
    /// Starts the copy on a thread of its own. With several servers each line begins with the server's name.
    pub(crate) fn start(is_labelled: bool) -> io::Result<(Self, Rest)> {
        let (queue, chunks) = channel::<Chunk>();
        let (end, rest) = sync_channel(1);
        let waiting = Arc::new(AtomicUsize::new(0));
        let written = Arc::clone(&waiting);
        thread::Builder::new().name("errors out".into()).spawn(move || {
            let mut to = io::stderr();
            let (mut lines, mut streams) = (Lines::default(), BTreeMap::<Box<str>, HiddenStream>::new());
            let mut write = |lines: &mut Lines, server: Box<str>, shown: &[u8]| {
                // Errors are ignored; the server may keep writing.
                if is_labelled {
                    lines.pass_on(server, shown, |line| drop(to.write_all(line)));
                } else {
                    let _ = to.write_all(shown);
                }
            };
            for (server, chunk) in chunks {
                let shown = passed(streams.entry(server.clone()).or_default(), &chunk);
                write(&mut lines, server, &shown);
                written.fetch_sub(weight(&chunk), Ordering::Relaxed);
            }
            for (server, mut stream) in streams {
                write(&mut lines, server, &stream.end());
            }
            lines.end(|line| drop(to.write_all(line)));
            let _ = end.send(());
        })?;
        Ok((Self { queue, waiting, left_out: Arc::default() }, Rest(rest)))
    }

    pub(crate) fn copy(&self, server: &str, chunk: &[u8]) {
        let left_out = self.left_out.load(Ordering::Relaxed);
        if self.waiting.load(Ordering::Relaxed).saturating_add(weight(chunk)) > WAITING {
            self.left_out.store(left_out.saturating_add(chunk.len()), Ordering::Relaxed);
            return;
        }
        if left_out > 0 {
            self.left_out.store(0, Ordering::Relaxed);
            let note = format!("\n[probe: {left_out} bytes of the server's standard error are left out here]\n");
            self.queue(server, note.into_bytes());
        }
        self.queue(server, chunk.to_vec());
    }

    fn queue(&self, server: &str, chunk: Vec<u8>) {
        self.waiting.fetch_add(weight(&chunk), Ordering::Relaxed);
        // An error means that the thread could not go on.
        let _ = self.queue.send((server.into(), chunk));
    }
}

/// Bytes that a piece takes, about.
const fn weight(chunk: &[u8]) -> usize {
    chunk.len().saturating_add(128)
}

impl Rest {
    /// Waits for what is still to be copied, once nothing more can come.
    pub(crate) fn wait(self) {
        // An error means that it takes too long.
        let _: Result<(), RecvTimeoutError> = self.0.recv_timeout(REST);
    }
}

/// Whole lines, each with the server's name in front.
#[derive(Default)]
struct Lines(BTreeMap<Box<str>, Vec<u8>>);

impl Lines {
    fn pass_on(&mut self, server: Box<str>, chunk: &[u8], mut write: impl FnMut(&[u8])) {
        let label = server.clone();
        let line = self.0.entry(server).or_default();
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(piece);
            if piece.ends_with(b"\n") || line.len() > LINE {
                write(&labelled(&label, std::mem::take(line)));
            }
        }
    }

    fn end(self, mut write: impl FnMut(&[u8])) {
        for (server, line) in self.0.into_iter().filter(|(_, line)| !line.is_empty()) {
            write(&labelled(&server, line));
        }
    }
}

fn labelled(server: &str, mut line: Vec<u8>) -> Vec<u8> {
    if !line.ends_with(b"\n") {
        line.push(b'\n');
    }
    [server.as_bytes(), b": ", &line].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_several_servers_are_whole_and_have_their_names() {
        let (mut lines, mut out) = (Lines::default(), Vec::new());
        for (server, chunk) in [("a", "one\ntw"), ("b", "three\n"), ("a", "o\n"), ("b", "rest")] {
            lines.pass_on(server.into(), chunk.as_bytes(), |line| out.extend_from_slice(line));
        }
        lines.end(|line| out.extend_from_slice(line));
        assert_eq!(String::from_utf8(out).unwrap(), "a: one\nb: three\na: two\nb: rest\n");
    }
}
