//! Names of tools.

use mcp_proto::host::names::{Names, Target};

use super::Case;
use crate::meter::{Cost, measure};

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("names", 500, names),
        Case::new("names-of-servers", 500, names_of_servers),
        Case::new("names-long", 500, names_long),
        Case::new("name-length", 20_000, name_length),
        Case::new("names-colliding", 500, names_colliding),
        Case::new("names-of-one-hash", 50, names_of_one_hash),
        Case::new("names-updated", 250, names_updated),
        Case::new("names-restored", 500, names_restored),
        Case::new("names-resolved", 500, names_resolved),
    ]
}

fn tools(names: &[String]) -> impl Iterator<Item = Target> {
    names.iter().map(|name| Target::tool(name))
}

fn named(server: &str, tools: &[String]) -> Cost {
    let input = tools.iter().map(String::len).sum::<usize>();
    let targets: Vec<_> = tools.iter().map(|name| Target::tool(name)).collect();
    // A target stores its server's name, its own, and the name made of both.
    measure(2 * input + tools.len() * (server.len() + 64), || {
        let mut names = Names::default();
        names.update([(server, targets)]);
        names
    })
}

fn numbered(n: usize) -> Vec<String> {
    (0..n).map(|at| format!("tool_{at}")).collect()
}

fn names(n: usize) -> Cost {
    named("server", &numbered(n))
}

/// Servers with one tool each, added one after the other.
fn names_of_servers(n: usize) -> Cost {
    let servers: Vec<_> = (0..n).map(|at| format!("server-{}", at * 7919 % n)).collect();
    measure(n * 128, || {
        let mut names = Names::default();
        for server in &servers {
            names.update([(&**server, [Target::tool("search")])]);
        }
        assert_eq!(names.len(), n);
        names
    })
}

fn names_long(n: usize) -> Cost {
    let long = "x".repeat(80);
    named("server", &(0..n).map(|at| format!("{long}{at}")).collect::<Vec<_>>())
}

fn name_length(n: usize) -> Cost {
    named("server", &["x-".repeat(n), "x+".repeat(n)])
}

/// Names that are equal after characters are replaced.
fn names_colliding(n: usize) -> Cost {
    let marks = ['-', '+', '.', '/', ':', ' ', '!', '='];
    let name =
        |at: usize| -> String { (0..8).map(|digit| marks[at >> (3 * digit) & 7]).chain("tool".chars()).collect() };
    named("server", &(0..n).map(name).collect::<Vec<_>>())
}

/// The multiplier of the hash for suffixes.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Names for which an unkeyed hash over 8-byte words has the same final state, whatever number follows: in each pair of
/// words, a changed bit of the first word is cancelled by a changed bit of the second. All share a prefix, and are too
/// long to stay unchanged.
pub fn of_one_hash(server: &str, n: usize) -> Vec<String> {
    const PAIRS: usize = 12;
    let step = |hash: u64, word: u64| (hash ^ word).wrapping_mul(ODD).rotate_left(29);
    let mix = |mut hash: u64| {
        hash ^= hash >> 33;
        hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash ^= hash >> 33;
        hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        hash ^ (hash >> 33)
    };
    let start = "a".repeat(56);
    let head = [server.as_bytes(), b"\xff", start.as_bytes()].concat();
    assert!(head.len() % 8 == 0 && n <= 1 << PAIRS);
    // The hash starts with the length, and zero to five bytes, except one, follow the name.
    let begin = |more: usize| {
        let length = (head.len() + 16 * PAIRS + more) as u64;
        head.chunks(8).fold(mix(length ^ ODD), |hash, bytes| step(hash, u64::from_le_bytes(bytes.try_into().unwrap())))
    };
    let mut states = [0, 2, 3, 4, 5].map(begin);
    let second = u64::from_le_bytes(*b"aaaaaaaa");
    let firsts: Vec<u64> = (0..PAIRS)
        .map(|_| {
            // Bit 6 of the last letter is unset, so that changing it affects no other bit.
            let word =
                |at: u64| (0..7).fold(u64::from(b'1'), |word, digit| word << 8 | (at >> (4 * digit) & 15) + 0x41);
            let fits =
                |word: u64| states.iter().all(|state| step(*state, word) ^ step(*state, word ^ 1 << 62) == 1 << 27);
            let first = (0..).map(word).find(|word| fits(*word)).unwrap();
            states = states.map(|state| step(step(state, first), second));
            first
        })
        .collect();
    let name = |at: usize| {
        let words = firsts.iter().enumerate().flat_map(|(pair, first)| {
            let set = (at >> pair & 1) as u64;
            [first ^ set << 62, second ^ set << 27]
        });
        start.clone() + &String::from_utf8(words.flat_map(u64::to_le_bytes).collect()).unwrap()
    };
    (0..n).map(name).collect()
}

fn names_of_one_hash(n: usize) -> Cost {
    named("server!", &of_one_hash("server!", n))
}

/// A list with repeated small changes.
fn names_updated(n: usize) -> Cost {
    let all = numbered(n);
    let mut names = Names::default();
    // Each update changes a few tools of a list of fixed length.
    names.update([("server", tools(&all[..n.min(16)]))]);
    measure(n * 16 * 32, || {
        for at in 0..n.saturating_sub(16) {
            names.update([("server", tools(&all[at..at + 16]))]);
        }
    })
}

fn names_restored(n: usize) -> Cost {
    let mut before = Names::default();
    before.update([("server", tools(&numbered(n)))]);
    measure(n * 64, || {
        let mut names = Names::default();
        names.restore(before.iter().map(|(name, it)| (name, it.server, it.target.clone())));
        assert_eq!(names.len(), n);
        names
    })
}

fn names_resolved(n: usize) -> Cost {
    let (all, mut names) = (numbered(n), Names::default());
    names.update([("server", tools(&all))]);
    measure(n * 64, || {
        for target in tools(&all) {
            let name = names.name("server", &target).unwrap();
            assert!(names.resolve(&name).is_some() && names.renamed("server", &target).is_none());
        }
    })
}
