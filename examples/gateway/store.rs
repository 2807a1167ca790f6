//! Sessions in Valkey. One process at a time holds a session: it has the lease, and only the holder saves.

use std::collections::BTreeMap;
use std::error::Error;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, SystemTime};

use mcp_proto::{RequestId, Snapshot};
use redis::aio::ConnectionManager;
use serde::{Deserialize, Serialize};

/// A holder that is dead loses its sessions after this time.
pub(crate) const LEASE: Duration = Duration::from_secs(3);
/// While it lives, it renews them this often.
pub(crate) const RENEWAL: Duration = Duration::from_secs(1);
/// A session that nobody uses for this long is forgotten.
const KEPT: Duration = Duration::from_secs(86_400);
/// How often a process looks whether the lease of another one is over.
const RETRY: Duration = Duration::from_millis(50);

/// Saves a session, if this is still its holder, and renews the lease. No other command comes between.
const SAVE: &str = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end \
    redis.call('PEXPIRE', KEYS[1], ARGV[2]) redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[4]) return 1";
/// Gives the lease up, and deletes the session too if its key is among the arguments.
const RELEASE: &str = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end \
    if ARGV[2] == 'forget' then redis.call('DEL', KEYS[2]) end return redis.call('DEL', KEYS[1])";

/// What is saved of a session.
#[derive(Serialize, Deserialize)]
pub(crate) struct Saved {
    pub(crate) client: Snapshot,
    pub(crate) book: Book,
}

/// What the gateway knows of a session's calls, by the user's numbers of them.
#[derive(Serialize, Deserialize)]
pub(crate) struct Book {
    /// No other session has this name, also none of the same user: a store that lost this book does not know its calls.
    pub(crate) record: String,
    /// The user has the outcome of each call before this one.
    pub(crate) seen: u64,
    pub(crate) open: BTreeMap<RequestId, u64>,
    /// The replies with their outcomes.
    pub(crate) ended: BTreeMap<u64, String>,
}

impl Book {
    pub(crate) fn new() -> Self {
        let record = format!("{:016x}", RandomState::new().hash_one(SystemTime::now()));
        Self { record, seen: 0, open: BTreeMap::new(), ended: BTreeMap::new() }
    }
}

/// The right to run a session.
pub(crate) struct Lease {
    store: ConnectionManager,
    holder: String,
    session: String,
    /// Nobody had this value before, so a holder that was late does not take its successor's lease for its own.
    token: String,
}

impl Lease {
    /// Waits until no other process holds the session.
    pub(crate) async fn take(store: ConnectionManager, name: &str) -> Result<Self, Box<dyn Error>> {
        // In a cluster the braces put both keys on one node.
        let (holder, session) = (format!("mcp:{{{name}}}:holder"), format!("mcp:{{{name}}}:session"));
        let token = format!("{}-{:016x}", std::process::id(), RandomState::new().hash_one(name));
        let mut lease = Self { store, holder, session, token };
        loop {
            let mut set = redis::cmd("SET");
            set.arg(&lease.holder).arg(&lease.token).arg("NX").arg("PX").arg(millis(LEASE));
            if set.query_async::<Option<String>>(&mut lease.store).await?.is_some() {
                return Ok(lease);
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// The session as its last holder saved it.
    pub(crate) async fn load(&mut self) -> Result<Option<Saved>, Box<dyn Error>> {
        let text: Option<Vec<u8>> = redis::cmd("GET").arg(&self.session).query_async(&mut self.store).await?;
        Ok(text.map(|text| serde_json::from_slice(&text)).transpose()?)
    }

    /// Saves the session.
    ///
    /// # Errors
    /// Another process holds it by now, and this one must let go.
    pub(crate) async fn save(&mut self, saved: &Saved) -> Result<(), Box<dyn Error>> {
        let mut save = redis::cmd("EVAL");
        save.arg(SAVE).arg(2).arg(&self.holder).arg(&self.session).arg(&self.token);
        save.arg(millis(LEASE)).arg(serde_json::to_vec(saved)?).arg(millis(KEPT));
        let is_held: bool = save.query_async(&mut self.store).await?;
        if is_held { Ok(()) } else { Err("another process holds the session".into()) }
    }

    /// Lets another process take the session at once. One that is over is forgotten.
    pub(crate) async fn release(mut self, is_over: bool) -> Result<(), Box<dyn Error>> {
        let mut release = redis::cmd("EVAL");
        release.arg(RELEASE).arg(2).arg(&self.holder).arg(&self.session).arg(&self.token);
        release.arg(if is_over { "forget" } else { "" });
        Ok(release.query_async(&mut self.store).await?)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
