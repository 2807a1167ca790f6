//! Text for a terminal, made safe; and the standard streams, whose text has no secrets.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, IsTerminal, Write, stderr, stdout};
use std::process::ExitCode;

use mcp_proto::host::invisible::{Character, characters};
use mcp_proto::jsonrpc::without_lone_surrogates;

use crate::json::to_json;
use crate::secrets::hidden;

/// The text without secrets, cursor movement, colours, changes of writing direction and characters that nobody sees. Line
/// breaks stay.
pub(crate) fn safe(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for it in characters(&hidden(text).replace("\r\n", "\n")) {
        match it.char {
            '\n' => out.push('\n'),
            '\t' => out.push_str("    "),
            c if is_unsafe(it) => drop(write!(out, "{}", c.escape_unicode())),
            c => out.push(c),
        }
    }
    out
}

/// Like `safe`, on one line.
pub(crate) fn one_line(text: &str) -> String {
    safe(&hidden(text).split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Whether a terminal acts on it, or nobody sees it.
fn is_unsafe(it: Character) -> bool {
    it.is_hidden || it.char.is_control() || matches!(it.char, '\u{2028}' | '\u{2029}')
}

/// Approximate width of a text in columns.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(columns).sum()
}

const fn columns(c: char) -> usize {
    match c {
        '\u{300}'..='\u{36f}'
        | '\u{1ab0}'..='\u{1aff}'
        | '\u{200c}'..='\u{200d}'
        | '\u{20d0}'..='\u{20ff}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{fe20}'..='\u{fe2f}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1f64f}'
        | '\u{1f680}'..='\u{1f9ff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

/// The text cut to a number of columns.
pub(crate) fn cut(text: &str, limit: usize) -> String {
    if width(text) <= limit {
        return text.into();
    }
    let mut used = 1_usize;
    let mut out = String::new();
    for c in text.chars() {
        used = used.saturating_add(columns(c));
        if used > limit {
            break;
        }
        out.push(c);
    }
    out.push('…');
    out
}

/// The text padded with spaces to a number of columns.
pub(crate) fn pad(text: &str, columns: usize) -> String {
    let missing = columns.saturating_sub(width(text));
    format!("{text}{}", " ".repeat(missing))
}

/// The text wrapped to a number of columns, at spaces if possible.
pub(crate) fn wrap(text: &str, limit: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let words = line.trim_start_matches(' ');
        let mut current: String = line.chars().take_while(|c| *c == ' ').take(limit / 2).collect();
        let mut used = current.len();
        for (index, word) in words.split(' ').enumerate() {
            let wide = width(word);
            if index > 0 {
                if used.saturating_add(1).saturating_add(wide) <= limit {
                    current.push(' ');
                    used = used.saturating_add(1);
                } else {
                    lines.push(std::mem::take(&mut current));
                    used = 0;
                }
            }
            for c in word.chars() {
                if used.saturating_add(columns(c)) > limit {
                    lines.push(std::mem::take(&mut current));
                    used = 0;
                }
                current.push(c);
                used = used.saturating_add(columns(c));
            }
        }
        lines.push(current);
    }
    lines
}

pub(crate) fn misused(wrong: &str) -> ExitCode {
    write_stderr(&format!("probe: {wrong}\n"));
    ExitCode::from(2)
}

/// Prints a report, with no secrets in its values. What a terminal would act on, and JSON allows as it is, is escaped.
pub(crate) fn print_json(report: &impl serde::Serialize) -> io::Result<()> {
    write_stdout(&(escaped(&without_lone_surrogates(&to_json(report)?)) + "\n"))
}

/// JSON without control characters, changes of writing direction and invisible characters in its strings.
fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for it in characters(json) {
        if it.char >= '\u{7f}' && is_unsafe(it) {
            it.char.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        } else {
            out.push(it.char);
        }
    }
    out
}

pub(crate) fn colours() -> bool {
    stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

pub(crate) fn print(text: &str) -> io::Result<()> {
    write_stdout(&hidden(text))
}

fn write_stdout(text: &str) -> io::Result<()> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Ignores errors: standard error may be closed.
pub(crate) fn write_stderr(message: &str) {
    let _ = stderr().write_all(hidden(message).as_bytes());
}

/// A closed output, as with `head`, is not an error.
pub(crate) fn status(printed: io::Result<()>, good: bool) -> ExitCode {
    match printed {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            write_stderr(&format!("probe: standard output: {error}\n"));
            ExitCode::FAILURE
        }
        Ok(()) | Err(_) if good => ExitCode::SUCCESS,
        Ok(()) | Err(_) => ExitCode::FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_acts_on_is_escaped_in_json_and_in_text() {
        for c in ('\u{7f}'..='\u{9f}').chain("\u{61c}\u{200e}\u{200f}\u{202a}\u{202e}\u{2066}\u{2069}\u{e0041}".chars())
        {
            let json = escaped(&serde_json::to_string_pretty(&[format!("ä{c}ö\n")]).unwrap());
            assert!(!json.contains(c) && json.contains("ä\\u"), "{json}");
            assert_eq!(serde_json::from_str::<[String; 1]>(&json).unwrap(), [format!("ä{c}ö\n")]);
            assert!(!safe(&format!("a{c}b\n")).contains(c) && !one_line(&format!("a{c}b")).contains(c), "{c:?}");
        }
    }
    #[test]
    fn what_nobody_sees_is_escaped_in_json_and_in_text_and_emoji_stay() {
        let hidden = "\u{ad}\u{34f}\u{115f}\u{180e}\u{200b}\u{200c}\u{200d}\u{3164}\u{fe00}\u{2060}\u{feff}";
        for c in hidden.chars() {
            let json = escaped(&serde_json::to_string(&[format!("a{c}b")]).unwrap());
            assert!(!json.contains(c) && json.contains("a\\u"), "{json}");
            assert!(!safe(&format!("a{c}b")).contains(c), "{}", c.escape_unicode());
        }
        let smuggled = "\u{1f600}\u{fe01}\u{e0101}\u{e0102}\u{1f3f4}\u{e0072}\u{e006d}";
        assert_eq!(safe(smuggled), "\u{1f600}\u{fe01}\\u{e0101}\\u{e0102}\u{1f3f4}\\u{e0072}\\u{e006d}");
        let sound = "\u{2764}\u{fe0f}\u{200d}\u{1f525} می\u{200c}خواهم";
        assert_eq!((safe(sound), escaped(sound)), (sound.to_owned(), sound.to_owned()));
    }
}
