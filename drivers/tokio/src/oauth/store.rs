//! Credentials in a file.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mcp_proto::RawValue;
use mcp_proto::binding::oauth::{OAuthInput, SaveOutcome, StoreAction, StoreId, StoredRecord, stored_generation};
use mcp_proto::catalog::{Fingerprint, FingerprintKey};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

/// How long a lock is waited for: shorter than a client waits for its store.
const WAIT: Duration = Duration::from_secs(30);
/// How often it is tried: at first, and later.
const SOON: Duration = Duration::from_millis(5);
const LATER: Duration = Duration::from_millis(100);

/// A file of credentials, with a record for each server's URL and account. Clones are the same file.
///
/// A record without an account is one of its own: it is not used for an account of that URL, since it is not known whose
/// it is, and two that share a refresh token would end each other's.
///
/// It is readable by its owner alone (mode 0600; on Windows as its folder is), and replaced as a whole: a new file is
/// written, synchronized and renamed. Processes may share it: each record has a lock, an empty file beside it that stays,
/// so that a refresh happens once and delays no other server's. A file of something else is not replaced. Where the path
/// is a symbolic link, the file that it leads to is replaced, and the link stays.
#[derive(Clone, Debug)]
pub struct FileStore {
    path: Arc<Path>,
}

type Records = BTreeMap<String, Box<RawValue>>;

impl FileStore {
    /// The credentials in this file, which need not exist. Its folder does.
    ///
    /// # Errors
    /// It cannot be read, or something else than credentials is in it.
    pub fn new(path: impl Into<PathBuf>) -> io::Result<Self> {
        let store = Self { path: followed(path.into()).into() };
        store.records()?;
        Ok(store)
    }

    /// The record of a server without an account.
    pub fn record(&self, server: &str) -> FileRecord {
        self.account(server, "")
    }

    /// The record of an account at a server, by the name that the host gives it; an empty name is no account.
    pub fn account(&self, server: &str, account: &str) -> FileRecord {
        // A URL has no space. A file with accounts is one of credentials for those who know none.
        let key = if account.is_empty() { server.into() } else { format!("{server} {account}").into() };
        FileRecord { store: self.clone(), key, lock: None }
    }

    /// The redirect URIs that clients of the records are registered with. An authorization server may allow no other port
    /// than that of a registration.
    pub fn redirect_uris(&self) -> Vec<String> {
        let records = self.records().unwrap_or_default();
        let redirects = records.values().filter_map(|record| member(member(record, "client")?, "redirect_uri"));
        redirects.filter_map(|redirect| serde_json::from_str(redirect.get()).ok()).collect()
    }

    /// Waits for the lock of a record. Its file is never removed: another process may wait for it.
    async fn lock(&self, server: &str) -> io::Result<Lock> {
        let name = Fingerprint::of(FingerprintKey::new([0; 16]), server.as_bytes());
        self.lock_file(&format!("{name}.lock")).await
    }

    async fn lock_file(&self, ending: &str) -> io::Result<Lock> {
        let path = self.beside(ending);
        let open = move || {
            let mut options = OpenOptions::new();
            options.create(true).truncate(false).write(true);
            owned(&mut options).open(path)
        };
        let file = blocking(open).await?;
        let mut pause = SOON;
        let locked = timeout(WAIT, async {
            loop {
                match file.try_lock() {
                    Ok(()) => return Ok(()),
                    Err(TryLockError::WouldBlock) => sleep(pause).await,
                    Err(TryLockError::Error(error)) => return Err(error),
                }
                pause = pause.saturating_mul(2).min(LATER);
            }
        });
        locked.await.map_err(|_| io::Error::new(ErrorKind::TimedOut, "another process keeps the lock"))??;
        Ok(Arc::new(file))
    }

    async fn load(self, server: Arc<str>) -> io::Result<Option<Vec<u8>>> {
        blocking(move || Ok(self.records()?.get(&*server).map(|record| record.get().as_bytes().to_vec()))).await
    }

    /// Replaces a record. The caller holds its lock.
    async fn save(self, server: Arc<str>, record: StoredRecord, replaces: u64) -> io::Result<bool> {
        self.change(move |records| put(records, &server, record.expose(), replaces)).await
    }

    /// Removes a record. The caller holds its lock.
    async fn remove(self, server: Arc<str>) -> io::Result<()> {
        self.change(move |records| Ok(records.remove(&*server).is_some())).await.map(drop)
    }

    /// Replaces the file, if its records are changed. Its own lock is held for no longer than that takes.
    async fn change(self, change: impl FnOnce(&mut Records) -> io::Result<bool> + Send + 'static) -> io::Result<bool> {
        let lock = self.lock_file("lock").await?;
        let write = move || {
            let mut records = self.records()?;
            if !change(&mut records)? {
                return Ok(false);
            }
            let temporary = self.beside(&format!("{}.tmp", std::process::id()));
            let written = replace(&temporary, &serde_json::to_vec(&records)?, &self.path);
            if written.is_err() {
                let _ = fs::remove_file(&temporary);
            }
            drop(lock);
            written.map(|()| true)
        };
        blocking(write).await
    }

    /// The records by their keys.
    fn records(&self) -> io::Result<Records> {
        let text = match fs::read(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            text => text?,
        };
        if text.trim_ascii().is_empty() {
            return Ok(Records::new());
        }
        let records: Option<Records> = serde_json::from_slice(&text).ok();
        let foreign = "there is something else in it than credentials, so it is left as it is: give another file";
        let own = records.filter(|records| {
            let mut records = records.iter();
            records.all(|(server, record)| server.starts_with("http") && member(record, "generation").is_some())
        });
        own.ok_or_else(|| io::Error::new(ErrorKind::InvalidData, foreign))
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{ending}"));
        self.path.with_file_name(name)
    }
}

/// A lock, which is released with the last clone.
type Lock = Arc<File>;

/// A record in a [`FileStore`], and its lock while it is held: carries out the
/// [`StoreAction`]s of one authorization.
#[derive(Debug)]
pub struct FileRecord {
    store: FileStore,
    key: Arc<str>,
    lock: Option<Lock>,
}

/// What came of a [`StoreAction`], for [`FileRecord::finish`]. Its `Debug` shows no credentials.
pub struct StoreResult(Done);

enum Done {
    Acquired(StoreId, io::Result<Lock>),
    Loaded(StoreId, io::Result<Option<Vec<u8>>>),
    Saved(StoreId, SaveOutcome),
    Removed(io::Result<()>),
}

impl FileRecord {
    /// Starts an action: a future of its result, which needs a runtime and is to be run to its end. `None` if the action is
    /// complete. A process that does not release a lock is waited for 30 s.
    pub fn start(&mut self, action: StoreAction) -> Option<impl Future<Output = StoreResult> + Send + use<>> {
        if matches!(action, StoreAction::Release) {
            self.lock = None;
            return None;
        }
        let (store, key, held) = (self.store.clone(), Arc::clone(&self.key), self.lock.clone());
        Some(async move {
            // What replaces a record while no lock is held takes it.
            let lock = async |held: Option<Lock>| match held {
                Some(held) => Ok(held),
                None => store.lock(&key).await,
            };
            StoreResult(match action {
                StoreAction::Acquire(id) => Done::Acquired(id, lock(held).await),
                StoreAction::Load(id) => Done::Loaded(id, store.clone().load(key).await),
                StoreAction::Save { id, record, replaces } => {
                    let saved = match lock(held).await {
                        Ok(_held) => store.clone().save(Arc::clone(&key), record, replaces).await,
                        Err(error) => Err(error),
                    };
                    Done::Saved(
                        id,
                        match saved {
                            Ok(true) => SaveOutcome::Stored,
                            Ok(false) => SaveOutcome::Conflict,
                            Err(_) => SaveOutcome::Failed,
                        },
                    )
                }
                StoreAction::Remove => Done::Removed(match lock(held).await {
                    Ok(_held) => store.clone().remove(Arc::clone(&key)).await,
                    Err(error) => Err(error),
                }),
                action => Done::Removed(Err(io::Error::other(format!("{action:?} is not supported")))),
            })
        })
    }

    /// The input that a result is. `Ok(None)`: none is awaited.
    ///
    /// # Errors
    /// The record was not removed, which nothing else reports.
    pub fn finish<'a>(&mut self, result: &'a StoreResult) -> io::Result<Option<OAuthInput<'a>>> {
        Ok(Some(match &result.0 {
            Done::Acquired(id, lock) => {
                self.lock = lock.as_ref().ok().cloned();
                OAuthInput::Acquired { id: *id, acquired: lock.is_ok() }
            }
            Done::Loaded(id, record) => {
                OAuthInput::Loaded { id: *id, record: record.as_ref().map(Option::as_deref).map_err(|_| ()) }
            }
            Done::Saved(id, saved) => OAuthInput::Saved { id: *id, saved: *saved },
            Done::Removed(Ok(())) => return Ok(None),
            Done::Removed(Err(error)) => return Err(io::Error::new(error.kind(), error.to_string())),
        }))
    }
}

impl fmt::Debug for StoreResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreResult").finish_non_exhaustive()
    }
}

/// A member of a record.
fn member<'a>(record: &'a RawValue, name: &str) -> Option<&'a RawValue> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(record.get()).ok()?;
    members.get(name).copied()
}

/// Replaces a record if it has this generation, and says whether it had.
fn put(records: &mut Records, server: &str, record: &[u8], replaces: u64) -> io::Result<bool> {
    let known = records.get(server).map_or(0, |known| stored_generation(known.get().as_bytes()));
    let fits = known == replaces;
    if fits {
        records.insert(server.to_owned(), serde_json::from_slice(record)?);
    }
    Ok(fits)
}

/// Runs this where it may block.
async fn blocking<T: Send + 'static>(run: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    spawn_blocking(run).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// The file that a path leads to through symbolic links; it need not exist.
fn followed(mut path: PathBuf) -> PathBuf {
    // What leads nowhere after that many is refused when it is read.
    for _ in 0..40 {
        let Ok(target) = fs::read_link(&path) else { break };
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    path
}

/// Writes a new file, and puts it in the place of another one.
fn replace(temporary: &Path, text: &[u8], path: &Path) -> io::Result<()> {
    let _ = fs::remove_file(temporary);
    let mut options = OpenOptions::new();
    options.create_new(true).write(true);
    let mut file = owned(&mut options).open(temporary)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(temporary, path)?;
    // The new name is kept for certain only once the folder is on disk, too, which not every system can tell.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
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
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::pin::pin;
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    /// A file in a folder of its own.
    fn path(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("mcp-proto-tokio-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        folder.join("credentials.json")
    }

    const A: &str = "https://a.example/mcp";
    const B: &str = "https://b.example/mcp";

    fn text(generation: u64) -> Vec<u8> {
        format!(r#"{{"generation":{generation},"access_token":"x"}}"#).into_bytes()
    }

    async fn save(store: &FileStore, server: &str, generation: u64, replaces: u64) -> io::Result<bool> {
        let record = text(generation);
        let change = move |records: &mut Records, server: &str| put(records, server, &record, replaces);
        let server = server.to_owned();
        store.clone().change(move |records| change(records, &server)).await
    }

    async fn load(store: &FileStore, server: &str) -> io::Result<Option<Vec<u8>>> {
        store.clone().load(server.into()).await
    }

    #[tokio::test]
    async fn each_server_has_its_record_and_a_record_of_another_generation_is_not_replaced() {
        let path = path("records");
        let store = FileStore::new(&path).unwrap();
        assert_eq!(load(&store, A).await.unwrap(), None);
        for (server, generation, replaces, is_stored) in
            [(A, 1, 0, true), (B, 7, 0, true), (A, 2, 0, false), (A, 2, 1, true)]
        {
            let saved = save(&store, server, generation, replaces).await.unwrap();
            assert_eq!(saved, is_stored, "{server} {generation}");
        }
        assert_eq!(load(&store, A).await.unwrap(), Some(text(2)));
        assert_eq!(load(&store, B).await.unwrap(), Some(text(7)));
        let left = fs::read_dir(path.parent().unwrap()).unwrap().map(|file| file.unwrap().file_name());
        assert!(left.into_iter().all(|name| !name.to_string_lossy().ends_with("tmp")), "no file is left over");
        for _ in 0..2 {
            store.clone().remove(A.into()).await.unwrap();
        }
        assert_eq!((load(&store, A).await.unwrap(), load(&store, B).await.unwrap()), (None, Some(text(7))));
    }

    #[tokio::test]
    async fn a_file_of_something_else_is_left_as_it_is_and_a_folder_that_does_not_exist_fails() {
        let path = path("foreign");
        let store = FileStore::new(&path).unwrap();
        for text in ["no json", "[]", r#"{"mcpServers":{}}"#, r#"{"https://a.example":{"token":"x"}}"#] {
            fs::write(&path, text).unwrap();
            assert!(FileStore::new(&path).is_err() && load(&store, A).await.is_err(), "{text}");
            assert!(save(&store, A, 1, 0).await.is_err() && store.clone().remove(A.into()).await.is_err(), "{text}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        fs::write(&path, " \n").unwrap();
        assert!(save(&store, A, 1, 0).await.unwrap(), "an empty file is one of no credentials");
        let store = FileStore::new("/nonexistent/credentials.json").unwrap();
        assert!(save(&store, A, 1, 0).await.is_err() && store.lock(A).await.is_err());
    }

    #[tokio::test]
    async fn each_account_of_a_url_has_its_record_and_its_lock_and_the_url_alone_another() {
        let store = FileStore::new(path("accounts")).unwrap();
        let records =
            [store.record(A), store.account(A, "work"), store.account(A, "at home"), store.account(B, "work")];
        let keys = records.each_ref().map(|record| Arc::clone(&record.key));
        assert_eq!(keys[..2], [A.into(), format!("{A} work").into()]);
        let mut locks = Vec::new();
        for (generation, key) in (1..).zip(&keys) {
            locks.push(store.lock(key).await.unwrap());
            assert_eq!(load(&store, key).await.unwrap(), None);
            assert!(save(&store, key, generation, 0).await.unwrap());
        }
        for (generation, key) in (1..).zip(&keys) {
            assert_eq!(load(&FileStore::new(&*store.path).unwrap(), key).await.unwrap(), Some(text(generation)));
        }
        assert_eq!(store.account(A, "").key, records[0].key);
    }

    #[test]
    fn the_redirect_uris_of_registered_clients_are_known() {
        let path = path("redirects");
        let client = r#"{"redirect_uri":"http://127.0.0.1:1234/callback"}"#;
        let records = format!(r#"{{"{A}":{{"generation":1,"client":{client}}},"{B}":{{"generation":2}}}}"#);
        fs::write(&path, records).unwrap();
        assert_eq!(FileStore::new(&path).unwrap().redirect_uris(), ["http://127.0.0.1:1234/callback"]);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn the_files_are_readable_by_their_owner_alone() {
        use std::os::unix::fs::PermissionsExt;

        let path = path("owner");
        fs::write(&path, "{}").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let store = FileStore::new(&path).unwrap();
        let _lock = store.lock(A).await.unwrap();
        assert!(save(&store, A, 1, 0).await.unwrap());
        for file in fs::read_dir(path.parent().unwrap()).unwrap().map(Result::unwrap) {
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{}", file.path().display());
        }
    }

    #[cfg(unix)]
    #[tokio::test(start_paused = true)]
    async fn a_symbolic_link_stays_and_the_file_that_it_leads_to_is_replaced() {
        use std::os::unix::fs::symlink;

        let path = path("link");
        let folder = path.parent().unwrap();
        let (far, link) = (folder.join("far"), folder.join("link"));
        fs::create_dir(&far).unwrap();
        // Over another link, which is relative, to a file that does not exist yet.
        symlink("far/real.json", &path).unwrap();
        symlink(&path, &link).unwrap();
        for generation in 1..3 {
            let store = FileStore::new(&link).unwrap();
            assert!(save(&store, A, generation, generation - 1).await.unwrap());
            assert_eq!(load(&FileStore::new(far.join("real.json")).unwrap(), A).await.unwrap(), Some(text(generation)));
        }
        for link in [&path, &link] {
            assert!(fs::symlink_metadata(link).unwrap().is_symlink());
        }
        // Those who use the file and those who use the link have the same lock.
        let _lock = FileStore::new(&link).unwrap().lock(A).await.unwrap();
        assert!(timeout(LATER, FileStore::new(far.join("real.json")).unwrap().lock(A)).await.is_err());
        let own = folder.join("loop");
        symlink(&own, &own).unwrap();
        assert!(FileStore::new(&own).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn the_lock_of_a_record_delays_no_other_record_and_is_not_waited_for_without_end() {
        let store = FileStore::new(path("lock")).unwrap();
        let mut record = store.record(A);
        let acquired = record.start(StoreAction::Acquire(StoreId::from_u64(1))).unwrap().await;
        let input = record.finish(&acquired).unwrap();
        assert!(matches!(input, Some(OAuthInput::Acquired { acquired: true, .. })));
        drop(acquired);
        let _other = store.lock(B).await.unwrap();
        let mut sibling = store.record(A);
        let acquired = sibling.start(StoreAction::Acquire(StoreId::from_u64(2))).unwrap().await;
        let input = sibling.finish(&acquired).unwrap();
        assert!(matches!(input, Some(OAuthInput::Acquired { acquired: false, .. })));
        // The end of an action does not release it.
        let removed = record.start(StoreAction::Remove).unwrap().await;
        assert!(matches!(record.finish(&removed), Ok(None)));
        assert!(timeout(LATER, store.lock(A)).await.is_err());
        // It stays held until what it is held for is complete, which waits for the lock of the file here.
        let file = store.lock_file("lock").await.unwrap();
        let mut removing = pin!(record.start(StoreAction::Remove).unwrap());
        assert!(timeout(LATER, &mut removing).await.is_err());
        assert!(record.start(StoreAction::Release).is_none());
        assert!(timeout(LATER, store.lock(A)).await.is_err());
        drop(file);
        let removed = removing.await;
        assert!(matches!(record.finish(&removed), Ok(None)));
        store.lock(A).await.unwrap();
    }

    #[tokio::test]
    async fn the_lock_of_the_file_is_held_until_the_file_is_replaced() {
        let store = FileStore::new(path("replaced")).unwrap();
        let next = store.clone();
        let (waits, is_waiting) = mpsc::channel();
        let (found, finds) = mpsc::channel();
        let change = move |records: &mut Records| {
            thread::spawn(move || {
                let file = File::open(next.beside("lock")).unwrap();
                waits.send(()).unwrap();
                file.lock().unwrap();
                found.send(next.records().unwrap().contains_key(A)).unwrap();
            });
            is_waiting.recv().unwrap();
            put(records, A, &text(1), 0)
        };
        assert!(store.change(change).await.unwrap());
        assert!(finds.recv().unwrap(), "another process has the lock before the record is in the file");
    }
}
