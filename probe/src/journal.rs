//! The file of `--journal`.

use std::fs::File;
use std::io::{Result, Write};
use std::path::{Path, PathBuf};

use mcp_proto::journal::JournalLimits;

use crate::engine::Engine;

/// A journal that is written as the run goes on, or none.
pub(crate) struct Journal {
    file: Option<(PathBuf, File)>,
    /// Whether the user was told that something is not in it.
    told: bool,
}

/// The limits of a journal that is written or replayed.
pub(crate) fn limits() -> JournalLimits {
    let mut limits = JournalLimits::default();
    (limits.line, limits.entries, limits.bytes) = (512 << 20, usize::MAX, 1 << 30);
    limits
}

impl Journal {
    pub(crate) const fn none() -> Self {
        Self { file: None, told: false }
    }

    /// A new file, or an emptied one.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        Ok(Self { file: Some((path.to_owned(), File::create(path)?)), told: false })
    }

    /// The limits of the recording: nothing is recorded where there is no file.
    pub(crate) fn limits(&self) -> JournalLimits {
        let mut limits = limits();
        if self.file.is_none() {
            limits.entries = 0;
        }
        limits
    }

    /// Writes what was recorded since the last call.
    pub(crate) fn write(&mut self, engine: &mut Engine) {
        let (text, dropped) = engine.journal();
        if self.file.is_some() && dropped > 0 {
            self.tell("the run goes on, and the journal ends here: it has reached its limit");
        }
        self.append(&text);
    }

    /// Writes the rest.
    pub(crate) fn end(&mut self, engine: &mut Engine) {
        self.write(engine);
        let text = engine.end_journal();
        self.append(&text);
    }

    fn append(&mut self, text: &str) {
        let Some((_, file)) = &mut self.file else { return };
        if let Err(error) = file.write_all(text.as_bytes()) {
            self.tell(&error.to_string());
            self.file = None;
        }
    }

    /// Tells the user once.
    fn tell(&mut self, what: &str) {
        if let Some((path, _)) = &self.file
            && !std::mem::replace(&mut self.told, true)
        {
            crate::output::write_stderr(&format!("probe: the journal {}: {what}\n", path.display()));
        }
    }
}
