//! Journals: entries and the length of a line, recorded and replayed.

use std::hint::black_box;

use mcp_proto::journal::{Input, JournalLimits, Recorder, TransportEvent, replay};
use mcp_proto::{Action, Command, Lines, Options, Time};

use super::Case;
use crate::meter::{Cost, measure};

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("journal-recorded", 500, journal_recorded).each(1_000),
        // A quote takes two bytes in the line and in the journal, whose buffers double.
        Case::new("journal-recorded-length", 20_000, journal_recorded_length).each(8),
        Case::new("journal-hidden-length", 20_000, journal_hidden_length).each(8),
        Case::new("journal-replayed", 500, journal_replayed),
        Case::new("journal-replayed-length", 20_000, journal_replayed_length),
        Case::new("journal-line-length", 20_000, journal_line_length),
    ]
}

/// A session whose server writes these chunks.
fn session(chunks: Vec<Box<[u8]>>) -> String {
    hiding(0, chunks)
}

/// A session in which so many secrets are hidden.
fn hiding(secrets: usize, chunks: Vec<Box<[u8]>>) -> String {
    let mut client = Recorder::new(Lines::new(), Options::new("scale", "1"), 1, JournalLimits::default());
    for number in 0..secrets {
        client.hide(&format!("{}{number}", "ab".repeat(20))).unwrap();
    }
    client.apply(Time::ZERO, Command::Open).unwrap();
    let Some(Action::Open(connection)) = client.poll() else { panic!("a transport to open") };
    client.handle_input(Time::ZERO, Input::Transport { connection, event: TransportEvent::Opened }).unwrap();
    for bytes in chunks {
        client.handle_input(Time::ZERO, Input::Bytes { connection, bytes }).unwrap();
        while client.poll().is_some() {}
    }
    client.finish().1
}

fn noise(n: usize, length: usize) -> Vec<Box<[u8]>> {
    (0..n).map(|_| format!("{}\n", "\"".repeat(length)).into_bytes().into()).collect()
}

fn journal_recorded(n: usize) -> Cost {
    let chunks = noise(n, 20);
    measure(n * 21, || black_box(session(chunks)).len())
}

fn journal_recorded_length(n: usize) -> Cost {
    let chunks = noise(1, n);
    measure(n, || black_box(session(chunks)).len())
}

/// Nearly the secrets, again and again.
fn journal_hidden_length(n: usize) -> Cost {
    let text = format!("{}\n", format!("{}c", "ab".repeat(19)).repeat(n / 39 + 1)).into_bytes();
    measure(text.len(), || black_box(hiding(90, vec![text.into()])).len())
}

fn replayed(journal: &str) -> Cost {
    measure(journal.len(), || replay(journal.as_bytes(), JournalLimits::default()).unwrap().lines)
}

fn journal_replayed(n: usize) -> Cost {
    replayed(&session(noise(n, 20)))
}

fn journal_replayed_length(n: usize) -> Cost {
    replayed(&session(noise(1, n)))
}

fn journal_line_length(n: usize) -> Cost {
    let text = "x".repeat(n);
    measure(n, || replay(text.as_bytes(), JournalLimits::default()).is_err())
}
