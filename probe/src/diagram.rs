//! The exchange as a Mermaid sequence diagram.

use std::fmt::Write;

use crate::trace::{Kind, Side, Step};

pub(crate) fn render(steps: &[Step]) -> String {
    let mut out = String::from("sequenceDiagram\n    participant Client\n    participant Server\n");
    for step in steps {
        // Writing to a string does not fail.
        let _ = match step {
            Step::Message { from, kind, text } => {
                let (from, to) = match from {
                    Side::Client => ("Client", "Server"),
                    Side::Server => ("Server", "Client"),
                };
                let arrow = match kind {
                    Kind::Request => "->>",
                    Kind::Answer => "-->>",
                    Kind::Notification => "-)",
                };
                writeln!(out, "    {from}{arrow}{to}: {}", plain(text))
            }
            Step::Noise(1) => writeln!(out, "    Note over Server: a line that is no message"),
            Step::Noise(lines) => writeln!(out, "    Note over Server: {lines} lines that are no message"),
            Step::Note(text) => writeln!(out, "    Note over Client,Server: {}", plain(text)),
            Step::LeftOut(steps) => writeln!(out, "    Note over Client,Server: {steps} more are left out"),
        };
    }
    out
}

/// The text without characters that are special in Mermaid.
fn plain(text: &str) -> String {
    let mut out = String::new();
    for c in crate::text::one_line(text).chars() {
        match c {
            ' ' | '/' | '_' | '.' | ',' | ':' | '(' | ')' | '-' | '\'' => out.push(c),
            _ if c.is_alphanumeric() || !c.is_ascii() => out.push(c),
            _ => drop(write!(out, "#{};", u32::from(c))),
        }
    }
    // A bare `end` closes a block in Mermaid.
    if out.split(' ').any(|word| word.eq_ignore_ascii_case("end")) {
        out = format!("({out})");
    }
    if out.is_empty() { "(nothing)".into() } else { out }
}
