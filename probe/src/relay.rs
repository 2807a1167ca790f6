//! Copies a server's standard error to probe's.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::process::ChildStderr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::Sender;

use crate::child::Piece;
use crate::text;

/// Queued chunks.
const QUEUE: usize = 256;
/// How long a blocked standard error may delay the copying before output is dropped.
const PATIENCE: Duration = Duration::from_millis(100);
/// Interval for reporting that the server writes.
const LIFE: Duration = Duration::from_millis(100);
/// Bytes kept of the end, for messages.
const TAIL: usize = 2048;
const LAST_WORDS: usize = 300;
/// Maximum length of a line before it is written without its end.
const LINE: usize = 8 << 10;

pub(crate) struct Relay {
    tail: Arc<Mutex<VecDeque<u8>>>,
    done: Receiver<()>,
}

impl Relay {
    pub(crate) fn start(from: ChildStderr, life: Sender<Piece>, label: Option<String>) -> io::Result<Self> {
        let tail = Arc::new(Mutex::new(VecDeque::new()));
        let kept = Arc::clone(&tail);
        let (chunks, waiting) = sync_channel::<Vec<u8>>(QUEUE);
        let (end, done) = sync_channel(1);
        thread::Builder::new().name("errors in".into()).spawn(move || read(from, &chunks, &life, &kept))?;
        thread::Builder::new().name("errors out".into()).spawn(move || {
            let mut to = io::stderr();
            // Errors are ignored; the server may keep writing.
            match label {
                Some(label) => pass_on_lines(&label, waiting, |line| drop(to.write_all(line))),
                None => waiting.into_iter().for_each(|chunk| drop(to.write_all(&chunk))),
            }
            let _ = end.send(());
        })?;
        Ok(Self { tail, done })
    }

    /// Whether everything was copied.
    pub(crate) fn is_done(&mut self) -> bool {
        self.wait(Duration::ZERO)
    }

    /// Waits for pending output; true if everything was copied.
    pub(crate) fn wait(&mut self, limit: Duration) -> bool {
        // After the thread reported once, the channel is closed.
        !matches!(self.done.recv_timeout(limit), Err(RecvTimeoutError::Timeout))
    }

    /// The end of the server's standard error.
    pub(crate) fn tail(self) -> String {
        let Ok(tail) = self.tail.lock() else { return String::new() };
        let tail: Vec<u8> = tail.iter().copied().collect();
        let tail = String::from_utf8_lossy(&tail);
        let lines: Vec<&str> = tail.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let last = lines.iter().rev().take(3).rev().copied().collect::<Vec<_>>().join(" / ");
        let surplus = last.chars().count().saturating_sub(LAST_WORDS);
        text::one_line(&last.chars().skip(surplus).collect::<String>())
    }
}

fn read(mut from: impl Read, chunks: &SyncSender<Vec<u8>>, life: &Sender<Piece>, tail: &Mutex<VecDeque<u8>>) {
    let mut buffer = vec![0; 8 << 10];
    let mut told: Option<Instant> = None;
    let mut left_out = 0_usize;
    loop {
        let chunk = match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(len) => buffer.get(..len).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        if told.is_none_or(|at| at.elapsed() >= LIFE) {
            told = Some(Instant::now());
            // If the queue is full, its other pieces show that the server is alive.
            let _ = life.try_send(Piece::SignOfLife);
        }
        if let Ok(mut tail) = tail.lock() {
            tail.extend(chunk.iter().skip(chunk.len().saturating_sub(TAIL)));
            let surplus = tail.len().saturating_sub(TAIL);
            tail.drain(..surplus);
        }
        if left_out > 0 {
            let note = format!("\n[probe: {left_out} bytes of the server's standard error are left out here]\n");
            if offer(chunks, note.into_bytes(), Duration::ZERO) {
                left_out = 0;
            }
        }
        let patience = if left_out == 0 { PATIENCE } else { Duration::ZERO };
        if left_out > 0 || !offer(chunks, chunk.to_vec(), patience) {
            left_out = left_out.saturating_add(chunk.len());
        }
    }
}

fn offer(chunks: &SyncSender<Vec<u8>>, mut chunk: Vec<u8>, patience: Duration) -> bool {
    let start = Instant::now();
    loop {
        match chunks.try_send(chunk) {
            Ok(()) => return true,
            Err(TrySendError::Full(back)) if start.elapsed() < patience => chunk = back,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => return false,
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Copies whole lines, each with the label in front.
fn pass_on_lines(label: &str, chunks: Receiver<Vec<u8>>, mut write: impl FnMut(&[u8])) {
    let mut line = Vec::new();
    let mut end = |line: &mut Vec<u8>| {
        if !line.ends_with(b"\n") {
            line.push(b'\n');
        }
        write(&[label.as_bytes(), b": ", line].concat());
        line.clear();
    };
    for chunk in chunks {
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(piece);
            if piece.ends_with(b"\n") || line.len() > LINE {
                end(&mut line);
            }
        }
    }
    if !line.is_empty() {
        end(&mut line);
    }
}
