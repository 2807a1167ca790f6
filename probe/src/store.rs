//! The file of `--tokens`: a record for each server, readable by its owner alone, replaced as a whole, and locked against
//! other processes by a file beside it.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use mcp_proto::binding::oauth::{SaveOutcome, stored_generation};
use serde_json::value::RawValue;

/// A file of credentials. Clones are the same file.
#[derive(Clone)]
pub(crate) struct Store {
    path: PathBuf,
}

type Records = BTreeMap<String, Box<RawValue>>;

impl Store {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Waits for the lock, which the file holds until it is dropped. A lock is never removed: another process may wait
    /// for it.
    pub(crate) fn lock(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true);
        let file = owned(&mut options).open(self.beside("lock"))?;
        file.lock()?;
        Ok(file)
    }

    /// The record of a server.
    pub(crate) fn load(&self, server: &str) -> io::Result<Option<Vec<u8>>> {
        let Some(text) = self.text()? else { return Ok(None) };
        match serde_json::from_slice::<Records>(&text) {
            Ok(records) => Ok(records.get(server).map(|record| record.get().as_bytes().to_vec())),
            // The library reports that it cannot be read.
            Err(_) => Ok(Some(text)),
        }
    }

    /// Replaces the record of a server if it has this generation. The caller holds the lock.
    pub(crate) fn save(&self, server: &str, record: &[u8], replaces: u64) -> SaveOutcome {
        let known = self.load(server).map(|known| known.as_deref().map_or(0, stored_generation));
        match known {
            Ok(known) if known != replaces => SaveOutcome::Conflict,
            Ok(_) if self.write(server, record).is_ok() => SaveOutcome::Stored,
            Ok(_) | Err(_) => SaveOutcome::Failed,
        }
    }

    /// Removes the record of a server. The caller holds the lock.
    pub(crate) fn remove(&self, server: &str) -> io::Result<()> {
        if self.load(server)?.is_none() {
            return Ok(());
        }
        self.change(|records| drop(records.remove(server)))
    }

    fn write(&self, server: &str, record: &[u8]) -> io::Result<()> {
        let record = serde_json::from_slice(record)?;
        self.change(|records| drop(records.insert(server.to_owned(), record)))
    }

    /// Replaces the file. What cannot be read is not kept.
    fn change(&self, change: impl FnOnce(&mut Records)) -> io::Result<()> {
        let text = self.text()?.unwrap_or_default();
        let mut records: Records = serde_json::from_slice(&text).unwrap_or_default();
        change(&mut records);
        let temporary = self.beside(&format!("{}.tmp", std::process::id()));
        let written = replace(&temporary, &serde_json::to_vec(&records)?, &self.path);
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    fn text(&self) -> io::Result<Option<Vec<u8>>> {
        match fs::read(&self.path) {
            Ok(text) => Ok(Some(text).filter(|text| !text.is_empty())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{ending}"));
        self.path.with_file_name(name)
    }
}

/// Writes a new file, and puts it in the place of another one.
fn replace(temporary: &Path, text: &[u8], path: &Path) -> io::Result<()> {
    let _ = fs::remove_file(temporary);
    let mut options = OpenOptions::new();
    options.create_new(true).write(true);
    let mut file = owned(&mut options).open(temporary)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(temporary, path)
}

/// A file that is created is readable by its owner alone.
#[cfg(unix)]
fn owned(options: &mut OpenOptions) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(0o600)
}

#[cfg(not(unix))]
fn owned(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store in a folder of its own.
    fn store(name: &str) -> Store {
        let folder = std::env::temp_dir().join(format!("mcp-probe-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        Store::new(&folder.join("tokens.json"))
    }

    fn record(generation: u64) -> Vec<u8> {
        format!(r#"{{"generation":{generation},"access_token":"x"}}"#).into_bytes()
    }

    #[test]
    fn each_server_has_its_record_and_a_record_of_another_generation_is_not_replaced() {
        let store = store("records");
        assert_eq!(store.load("a").unwrap(), None);
        assert_eq!(store.save("a", &record(1), 0), SaveOutcome::Stored);
        assert_eq!(store.save("b", &record(7), 0), SaveOutcome::Stored);
        assert_eq!(store.save("a", &record(2), 0), SaveOutcome::Conflict);
        assert_eq!(store.save("a", &record(2), 1), SaveOutcome::Stored);
        assert_eq!(store.load("a").unwrap(), Some(record(2)));
        assert_eq!(store.load("b").unwrap(), Some(record(7)));
        let files: Vec<_> = fs::read_dir(store.path.parent().unwrap()).unwrap().collect();
        assert_eq!(files.len(), 1, "no file is left over");
    }

    #[test]
    fn a_file_that_cannot_be_read_is_reported_and_replaced() {
        let store = store("unreadable");
        fs::write(&store.path, "no json").unwrap();
        assert_eq!(store.load("a").unwrap(), Some(b"no json".to_vec()));
        assert_eq!(store.save("a", &record(1), 0), SaveOutcome::Stored);
        assert_eq!(store.load("a").unwrap(), Some(record(1)));
    }

    #[test]
    fn a_record_that_is_removed_leaves_those_of_other_servers() {
        let store = store("removed");
        store.remove("a").unwrap();
        assert_eq!(store.save("a", &record(1), 0), SaveOutcome::Stored);
        assert_eq!(store.save("b", &record(7), 0), SaveOutcome::Stored);
        store.remove("a").unwrap();
        assert_eq!(store.load("a").unwrap(), None);
        assert_eq!(store.load("b").unwrap(), Some(record(7)));
    }

    #[test]
    fn a_store_whose_folder_does_not_exist_fails() {
        let store = Store::new(Path::new("/nonexistent/tokens.json"));
        assert_eq!(store.save("a", &record(1), 0), SaveOutcome::Failed);
        assert!(store.lock().is_err());
    }

    #[cfg(unix)]
    #[test]
    fn the_files_are_readable_by_their_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let store = store("owner");
        fs::write(&store.path, "{}").unwrap();
        fs::set_permissions(&store.path, fs::Permissions::from_mode(0o644)).unwrap();
        let lock = store.lock().unwrap();
        assert_eq!(store.save("a", &record(1), 0), SaveOutcome::Stored);
        for file in [store.path.clone(), store.beside("lock")] {
            assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "{}", file.display());
        }
        drop(lock);
    }

    #[test]
    fn the_lock_is_held_until_it_is_dropped() {
        let store = store("lock");
        let held = store.lock().unwrap();
        let other = OpenOptions::new().write(true).open(store.beside("lock")).unwrap();
        assert!(matches!(other.try_lock(), Err(fs::TryLockError::WouldBlock)));
        drop(held);
        assert!(other.try_lock().is_ok());
    }
}
