//! How a program ended.

use std::process::ExitStatus;

use mcp_proto::StderrLines;

/// How a program ended.
#[derive(Debug)]
pub struct Exit {
    /// Its status; `None` if even killing it had no effect.
    pub status: Option<ExitStatus>,
    /// It closed its input or output, did not exit, and was ended.
    pub is_forced: bool,
    /// What happened to its input or output.
    pub broken: Option<String>,
    /// It was asked to exit.
    pub is_asked_to_exit: bool,
}

impl Exit {
    /// Why the program ended, with what it said of that unless it was asked to exit.
    pub fn reason(&self, stderr_lines: &StderrLines) -> String {
        let mut why = String::new();
        if self.is_forced {
            why.push_str("it closed input or output and did not exit, so it was ended: ");
        }
        match self.status {
            Some(status) => why.push_str(&status.to_string()),
            None => why.push_str("not even killing it helped"),
        }
        if let Some(error) = self.broken.as_ref().filter(|_| self.is_forced) {
            why.push_str(&format!(" (before that: {error})"));
        }
        let line = stderr_lines.line();
        if !line.is_empty() && !self.is_asked_to_exit {
            why.push_str(&format!("; its last words on standard error: {line}"));
        }
        why
    }
}
