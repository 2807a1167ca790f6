//! A journal as the script of a fake server. `talk` reads what was said, `exchanges` does so for HTTP, `turns` finds out
//! what each message of the client caused, which `recorded` keeps.

#[cfg(feature = "http")]
mod exchanges;
mod recorded;
mod said;
mod talk;
mod turns;

pub use recorded::Mismatch;
pub(super) use recorded::{Recorded, Recording};

use crate::journal::{JournalError, JournalLimits};

impl Recording {
    pub(super) fn new(journal: &[u8], limits: JournalLimits) -> Result<Self, JournalError> {
        let (is_http, words) = talk::read(journal, limits)?;
        Ok(turns::recording(words, is_http))
    }

    /// A server of a hub's journal.
    pub(super) fn of_hub(journal: &[u8], server: &str, limits: JournalLimits) -> Result<Self, JournalError> {
        let (is_http, words) = talk::read_hub(journal, server, limits)?;
        Ok(turns::recording(words, is_http))
    }
}
