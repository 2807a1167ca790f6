//! Every order of operations from states of each phase, in both eras, over messages and HTTP, and of an authorization:
//! breadth first, each state once. The invariants of the fuzz targets are checked after each operation, and at the end of
//! each state; all but the last states of a path are also saved and restored.

use std::collections::HashSet;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{iter, thread};

use siphasher::sip128::{Hasher128, SipHasher13};

use super::rig::Operated;
use super::{http, session};
#[cfg(feature = "oauth")]
use super::{oauth, oauth_joined};

/// An exploration: its name, the operations before it, and those that follow in every order.
type Start = (&'static str, &'static str);

/// Open, opened, failed to open, lost; the oldest request gets an empty list or a list with one tool, an error, and the second
/// a result; `list_changed`, `ping`; a call that may be sent again and one that may not, a cancellation, a refresh, a
/// subscription, input for a call; the next deadline; a violation of the protocol; close.
const SESSION: &[&str] = &[
    "a", "b", "c0", "d", "e01", "e06", "e11", "f00", "i00", "j000", "k06", "k07", "l0", "n30", "S0", "m;0", "s", "T",
    "o",
];

const SESSIONS: &[Start] = &[
    ("closed", "2?10000110"),
    ("legacy handshake", "2?10000110 ab"),
    ("legacy discovery", "2?10000110 ab e01"),
    ("legacy ready", "2?10000110 ab e01 e06e01e01e01"),
    ("legacy refresh", "2?10000110 ab e01 e06e01e01e01 i00 s"),
    ("legacy keepalive", "2?10000110 ab e01 e06e01e01e01 s s"),
    ("legacy lost with calls", "2?10000110 ab e01 e06e01e01e01 k06 k07 d"),
    ("legacy parked with calls", "2?10000110 ab e01 e06e01e01e01 k06 k07 d c0 s c0 s c0 s c0 s c0 s c0"),
    ("legacy closing with calls", "2?10000110 ab e01 e06e01e01e01 k06 k07 o"),
    ("either era", "0?10000110 ab"),
    ("modern discovery", "0?10000110 ab e00"),
    ("modern ready", "0?10000110 ab e00 e06e01e01e01"),
    ("modern refresh", "0?10000110 ab e00 e06e01e01e01 n30"),
    ("modern keepalive", "0?10000110 ab e00 e06e01e01e01 s s"),
    ("modern lost with calls", "0?10000110 ab e00 e06e01e01e01 k06 k07 d"),
    ("modern closing with calls", "0?10000110 ab e00 e06e01e01e01 k06 k07 o"),
    ("modern with a call that requires input", "0?10000110 ab e00 e06e01e01e01 k07 e02"),
    ("modern with a task", "0_1000011< ab e00 e06 k07 e0<"),
    ("legacy with pages, without keepalive", "2?10000010 ab e01 e02"),
];

/// Open; the first exchange gets a response as JSON, as a stream, a stream that stays open, a stream that ends without one;
/// 404, 401, 500, 503, 404 with a text; it breaks, is unreachable, or ends; the second gets a response; an event of the stream;
/// `ping`; calls, a cancellation, a refresh, a subscription; the next deadline; close; 429 and 503 with `Retry-After`.
const HTTP: &[&str] = &[
    "a", "e01", "e06", "e11", "g001", "g0B1", "g021", "h060", "h040", "h0=0", "h0?0", "h062", "f00", "f01", "d0",
    "i000", "j0000", "k06", "k07", "l0", "n30", "S0", "s", "o", "B00", "B10",
];

const HTTPS: &[Start] = &[
    ("closed", "2?100001101"),
    ("legacy handshake", "2?100001101 a"),
    ("legacy discovery", "2?100001101 a e01 e01"),
    ("legacy ready", "2?100001101 a e01 e01 e01 e06e01e01e01"),
    ("legacy with a stream", "2?100001101 a e01 e01 g0B1 e16e11e11e11"),
    ("legacy with calls", "2?100001101 a e01 e01 g0B1 e16e11e11e11 k06 k07"),
    ("legacy refresh", "2?100001101 a e01 e01 g0B1 e16e11e11e11 i000 s"),
    ("legacy keepalive", "2?100001101 a e01 e01 e01 e06e01e01e01 s"),
    ("legacy closing with calls", "2?100001101 a e01 e01 g0B1 e16e11e11e11 k06 k07 o"),
    ("either era", "0?100001101 a"),
    ("modern discovery", "0?100001101 a e00"),
    ("modern ready", "0?100001101 a e00 i076 e16e11e11e11"),
    ("modern with calls", "0?100001101 a e00 i076 e16e11e11e11 k06 k07"),
    ("modern refresh", "0?100001101 a e00 i076 e16e11e11e11 n30"),
    ("modern keepalive", "0?100001101 a e00 i076 e16e11e11e11 s"),
    ("modern lost with calls", "0?100001101 a e00 i076 e16e11e11e11 k06 k07 f01f01f01f01"),
    ("legacy lost with calls", "2?100001101 a e01 e01 e01 e06e01e01e01 k06 k07 f01f01f01"),
    ("HTTP+SSE", "2?100001101 a h070 p00 e10 g0`0 e10e10 g0`0"),
];

/// 401; documents of the server, the authorization server, the registration and the token; a refusal, an outage, a failure; the
/// code, a denial; the store; a signature; a minute, ten; sign out, sign in; a step-up.
#[cfg(feature = "oauth")]
const OAUTH: &[&str] = &[
    "r\n",
    "a00",
    "a10",
    "a20",
    "a30",
    "a60",
    "a41",
    "a02",
    "xgone\n",
    "ccode=x\n",
    "cerror=access_denied\n",
    "s0",
    "s1",
    "s2",
    "s3",
    "s5",
    "s6",
    "s7",
    "s8",
    "gx\n",
    "t8",
    "t9",
    "o",
    "z",
    "fBearer error=\"insufficient_scope\", scope=\"b\"\n",
];

#[cfg(feature = "oauth")]
const OAUTHS: &[Start] = &[
    ("user", "00"),
    ("user with a token", "00r\na00a10a20ccode=x\na30"),
    ("user with a store", "10"),
    ("client credentials", "82"),
    ("assertion", "03"),
    ("user with proofs", "@8r\na00a50ccode=x\n"),
];

#[cfg(feature = "oauth")]
const JOINED: &[&str] = &[
    "q",
    "h0",
    "e0",
    "r0Bearer\n",
    "f0Bearer error=\"insufficient_scope\", scope=\"b\"\n",
    "k0",
    "a00",
    "a10",
    "a20",
    "a30",
    "a41",
    "a02",
    "xgone\n",
    "c",
    "s0",
    "s1",
    "s2",
    "s3",
    "s5",
    "s6",
    "gx\n",
    "a60",
    "t8",
    "t9",
    "o",
    "z",
    "y",
];

#[cfg(feature = "oauth")]
const JOINEDS: &[Start] = &[
    ("client", "0"),
    ("client with a token", "2r0Bearer\na00a10ca30h0h0"),
    ("client with a store", "1"),
    ("client with proofs", ":r0Bearer\na00a50c"),
];

/// Explores so many operations from the starts whose names begin with `only`, and gives each line when it is known: a name, and
/// the number of states that were new after 0, 1, …
///
/// # Panics
/// If an invariant does not hold. The operations that lead there are printed.
pub fn explored(depth: usize, only: &str, mut line: impl FnMut(String)) {
    let line = &mut line;
    explore::<session::Rig>("messages", SESSIONS, SESSION, (depth, only), line);
    explore::<http::Rig>("HTTP", HTTPS, HTTP, (depth, only), line);
    #[cfg(feature = "oauth")]
    explore::<oauth::World>("OAuth", OAUTHS, OAUTH, (depth, only), line);
    #[cfg(feature = "oauth")]
    explore::<oauth_joined::Joined>("HTTP with OAuth", JOINEDS, JOINED, (depth, only), line);
}

fn explore<T: Operated + Sync>(
    what: &str,
    starts: &[Start],
    operations: &[&str],
    (depth, only): (usize, &str),
    line: &mut impl FnMut(String),
) {
    for (name, before) in starts {
        let name = format!("{what}, {name}");
        if name.starts_with(only) {
            line(format!("{name}: {:?}\n", from::<T>(before, operations, depth)));
        }
    }
}

/// The operations of a path, by number.
type Path = Vec<u8>;

/// The number of new states after 0, 1, … operations. A state is rebuilt from its path, so that only paths are kept.
///
/// # Panics
/// If an invariant does not hold; the operations that lead there are printed.
fn from<T: Operated + Sync>(before: &str, operations: &[&str], depth: usize) -> Vec<usize> {
    let start = T::run(before.as_bytes());
    let seen = Mutex::new(HashSet::from([fingerprint(&start)]));
    let mut frontier: Vec<Path> = vec![Path::new()];
    let mut counts = vec![1];
    while counts.len() <= depth {
        let taken = AtomicUsize::new(0);
        let expand_all = || {
            let next = || frontier.get(taken.fetch_add(1, Ordering::Relaxed));
            iter::from_fn(next).flat_map(|path| expand(&start, before, operations, (path, depth), &seen)).collect()
        };
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let next: Vec<Path> = thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(expand_all)).collect();
            let found = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            found.collect::<Vec<Vec<Path>>>().concat()
        });
        counts.push(next.len());
        frontier = next;
    }
    counts
}

/// The new states that one operation leads to.
fn expand<T: Operated>(
    start: &T,
    before: &str,
    operations: &[&str],
    (path, depth): (&[u8], usize),
    seen: &Mutex<HashSet<u128>>,
) -> Vec<Path> {
    let text = |path: &[u8]| path.iter().map(|at| operations[usize::from(*at)]).collect::<Vec<_>>().join(" ");
    let state = path.iter().fold(start.clone(), |state, at| state.then(operations[usize::from(*at)].as_bytes()));
    let mut found = Vec::new();
    for (at, operation) in operations.iter().enumerate() {
        let path = [path, &[u8::try_from(at).expect("few operations")]].concat();
        let run = || {
            let after = state.clone().then(operation.as_bytes());
            let print = fingerprint(&after);
            let is_new = seen.lock().expect("no thread panics with it").insert(print);
            if is_new {
                after.clone().end();
                // It takes as long as the rest, and most states are the last of their path.
                if path.len() < depth {
                    after.check_suspended();
                }
            }
            is_new
        };
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(true) => found.push(path),
            Ok(false) => {}
            Err(panic) => {
                eprintln!("found by {before:?} and then {:?}", text(&path));
                resume_unwind(panic);
            }
        }
    }
    found
}

fn fingerprint(state: &impl Operated) -> u128 {
    let mut hasher = SipHasher13::new();
    state.state().hash(&mut hasher);
    hasher.finish128().into()
}
