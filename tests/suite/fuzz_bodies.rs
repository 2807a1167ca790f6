//! The bodies of the fuzz targets, over the committed corpus and over inputs from a fixed seed.

#[path = "../../fuzz/bodies/mod.rs"]
#[allow(unreachable_pub, reason = "public in the library of the fuzz targets")]
pub(crate) mod bodies;

use std::path::PathBuf;

type Body = fn(&[u8]) -> u64;

/// Runs a body twice: both outputs must be equal.
fn twice(body: Body, input: &[u8]) {
    assert_eq!(body(input), body(input), "equal inputs, different outputs");
}

fn over_the_corpus(target: &str, body: Body) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut seeds: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    seeds.sort();
    assert!(seeds.len() >= 24, "{} seeds", seeds.len());
    let failed = seeds.iter().filter(|seed| {
        let input = std::fs::read(seed).unwrap();
        std::panic::catch_unwind(|| twice(body, &input)).is_err()
    });
    let failed: Vec<_> = failed.collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

/// Runs a body over random inputs: over one in eight twice, as the corpora.
fn over_random_inputs(body: Body, mut input: impl FnMut(&mut fastrand::Rng) -> Vec<u8>) {
    let mut rng = fastrand::Rng::with_seed(7);
    for number in 0..3_000 {
        let input = input(&mut rng);
        let run = || {
            if number % 8 == 0 {
                twice(body, &input);
            } else {
                body(&input);
            }
        };
        if let Err(panic) = std::panic::catch_unwind(run) {
            eprintln!("the input: {}", input.escape_ascii());
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn texts_of_the_corpus() {
    over_the_corpus("decode", bodies::decode);
}

#[test]
fn messages_of_the_corpus() {
    over_the_corpus("message", bodies::message);
}

#[test]
fn sessions_of_the_corpus() {
    over_the_corpus("session", bodies::session);
}

#[test]
fn http_of_the_corpus() {
    over_the_corpus("http", bodies::http);
}

#[test]
fn journals_of_the_corpus() {
    over_the_corpus("journal", bodies::journal);
}

#[test]
fn host_floor_of_the_corpus() {
    over_the_corpus("host", bodies::host);
}

#[test]
fn hubs_of_the_corpus() {
    over_the_corpus("hub", bodies::hub);
}

#[cfg(feature = "oauth")]
#[test]
fn oauth_of_the_corpus() {
    over_the_corpus("oauth", bodies::oauth);
}

#[cfg(feature = "oauth")]
#[test]
fn oauth_over_random_inputs() {
    let operations = b"rfabmxcdsgtozwlu0123456789=,&\"{}\n";
    over_random_inputs(bodies::oauth, |rng| {
        (0..rng.usize(..300)).map(|_| operations[rng.usize(..operations.len())]).collect()
    });
}

#[cfg(feature = "oauth")]
#[test]
fn a_client_that_authorizes_itself_over_random_inputs() {
    let operations = b"qqhhherfkaaabxccssssttozylnu0123456789\n";
    over_random_inputs(bodies::oauth, |rng| {
        let steps = (0..rng.usize(..300)).map(|_| operations[rng.usize(..operations.len())]);
        std::iter::once(b'J').chain(steps).collect()
    });
}

#[cfg(feature = "snapshot")]
#[test]
fn snapshots_of_the_corpus() {
    over_the_corpus("snapshot", bodies::snapshot);
}

/// All orders of two operations. `.ci/explore` explores more.
#[test]
fn every_order_of_operations() {
    let explored = bodies::explored(2);
    if cfg!(feature = "oauth") {
        insta::assert_snapshot!(explored);
    }
}

/// Runs a body over one input of the corpus.
fn over_one(body: Body, name: &str) {
    twice(body, &std::fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name)).unwrap());
}

/// The error of a variable without a value has at most 40 characters of its name.
#[test]
fn a_long_variable_name_is_shortened_in_its_error() {
    over_one(bodies::host, "host/config-variables-with-long-names");
}

/// A text has one error for each variable without a value, in the order of their names.
#[test]
fn a_variable_that_occurs_twice_in_a_text_has_one_error() {
    over_one(bodies::host, "host/config-variables-twice-and-out-of-order");
}

/// Random concatenations of parts of messages.
#[test]
fn random_messages() {
    let pieces = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\",
        "\n",
        "null",
        "1",
        "7",
        "1.0",
        "-32601",
        "\"2.0\"",
        "\"id\":",
        "\"jsonrpc\":\"2.0\",",
        "\"method\":\"ping\"",
        "\"result\":",
        "\"error\":",
        "\"tools\":",
        "\"nextCursor\":",
        "\"name\":",
        "\"method\":\"notifications/tools/list_changed\"",
        "\u{feff}",
        "é",
        "\u{0}",
    ];
    over_random_inputs(bodies::decode, |rng| pieced(rng, &pieces));
    over_random_inputs(bodies::message, |rng| pieced(rng, &pieces));
}

/// Random concatenations of parts of configurations and schemas, and steps of names.
#[test]
fn random_host_floor() {
    let pieces = [
        "{",
        "}",
        "}}}",
        "[",
        "]",
        ",",
        "\"a\":",
        "null",
        "1.5",
        "\"x\"",
        "\"${A:-b}\"",
        "{\"command\":\"x\"",
        "\"url\":",
        "\"env\":",
        "\"timeout\":",
        "\"tools\":{\"include\":",
        "{\"definitions\":",
        "{\"$ref\":\"#/definitions/a\"}",
        "\"properties\":",
        "{\"anyOf\":[",
        "{\"type\":\"null\"}",
        "\"type\":[\"null\",\"x\"]",
        "{\"name\":\"a\",\"inputSchema\":",
        "\"description\":\"<system>\"",
    ];
    over_random_inputs(bodies::host, |rng| match rng.u8(..4) {
        0 => {
            let mut input = b"n0".to_vec();
            for _ in 0..rng.usize(..9) {
                input.push(*rng.choice(b"uuurk").unwrap_or(&b'u'));
                input.extend((0..rng.usize(..24)).map(|_| rng.u8(b'0'..b'@')));
                input.push(b' ');
            }
            input
        }
        part => {
            let mut input = [&b"c"[..], b"s", b"t1300"][usize::from(part) - 1].to_vec();
            input.extend(pieced(rng, &pieces));
            input
        }
    });
}

/// The parts in random order, sometimes followed by a random byte.
fn pieced(rng: &mut fastrand::Rng, pieces: &[&str]) -> Vec<u8> {
    let mut input = Vec::new();
    for _ in 0..rng.usize(..24) {
        input.extend_from_slice(rng.choice(pieces).copied().unwrap_or("").as_bytes());
    }
    if rng.bool() {
        let end = input.len().saturating_sub(1);
        input.splice(end.., [rng.u8(..)]);
    }
    input
}

/// Operations with their choices, the more likely ones first.
#[test]
fn random_sessions() {
    over_random_inputs(bodies::session, |rng| {
        let mut input: Vec<u8> = (0..10).map(|_| rng.u8(b'0'..b'p')).collect();
        input.extend_from_slice(b"ab");
        for _ in 0..rng.usize(..60) {
            if rng.bool() {
                input.extend_from_slice(b"e00");
            } else {
                input.extend([letter(rng), rng.u8(b'0'..b'8'), rng.u8(b'0'..b'@')]);
            }
        }
        input
    });
}

/// As above, with more choices after each operation.
#[test]
fn random_http() {
    over_random_inputs(bodies::http, |rng| {
        let mut input: Vec<u8> = (0..11).map(|_| rng.u8(b'0'..b'p')).collect();
        input.push(b'a');
        for _ in 0..rng.usize(..50) {
            if rng.bool() {
                input.extend_from_slice(b"e00");
            } else {
                input.extend([letter(rng), rng.u8(b'0'..b'4'), rng.u8(b'0'..b'H'), rng.u8(b'0'..b'H')]);
            }
        }
        input
    });
}

/// An operation: one of the transport, or another one.
fn letter(rng: &mut fastrand::Rng) -> u8 {
    if rng.u8(..4) > 0 { rng.u8(b'a'..=b'z') } else { *rng.choice(b"SULAEHT").unwrap_or(&b'a') }
}

/// Saved sessions of the corpus, with random changes.
#[cfg(feature = "snapshot")]
#[test]
fn random_snapshots() {
    let read = |target: &str| {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
        let mut seeds: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        seeds.sort();
        seeds.into_iter().map(|seed| std::fs::read(seed).unwrap()).collect::<Vec<_>>()
    };
    let seeds = [read("session"), read("http")];
    over_random_inputs(bodies::snapshot, |rng| {
        let http = rng.usize(0..2);
        let seeds = &seeds[http];
        let mut input = vec![b'0' + rng.u8(0..2), b'0' + u8::try_from(http).unwrap()];
        let seed = &seeds[rng.usize(0..seeds.len())];
        input.extend(seed.iter().map(|byte| if *byte == b'\n' { b' ' } else { *byte }));
        input.push(b'\n');
        for _ in 0..rng.usize(0..4) {
            input.extend([rng.u8(b'a'..=b'x'), rng.u8(0..16), rng.u8(..), rng.u8(..), rng.u8(..)]);
        }
        input
    });
}
