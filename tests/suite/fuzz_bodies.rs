//! The bodies of the fuzz targets, over the committed corpus and over random inputs.

#[path = "../../fuzz/bodies/mod.rs"]
#[allow(unreachable_pub, reason = "public in the library of the fuzz targets")]
pub(crate) mod bodies;

use std::cell::Cell;
use std::fmt::Debug;
use std::path::PathBuf;

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestError, TestRng, TestRunner};

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

/// Runs a body over inputs of a strategy, the same ones each time: over one in eight twice, as the corpora. An input that fails is
/// shrunk before it is shown.
fn over_random_inputs(body: Body, inputs: impl Strategy<Value = Vec<u8>>) {
    let config = ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let number = Cell::new(0_u32);
    let tried = runner.run(&inputs, |input| {
        number.set(number.get() + 1);
        if number.get().is_multiple_of(8) {
            twice(body, &input);
        } else {
            body(&input);
        }
        Ok(())
    });
    if let Err(TestError::Fail(why, input)) = &tried {
        panic!("{}: {why}", input.escape_ascii());
    }
    tried.unwrap();
}

/// Parts, one after the other.
fn some<T: AsRef<[u8]> + Debug>(part: impl Strategy<Value = T>, most: usize) -> impl Strategy<Value = Vec<u8>> {
    let joined = |parts: Vec<T>| parts.iter().flat_map(|it| it.as_ref()).copied().collect();
    prop::collection::vec(part, 0..most).prop_map(joined)
}

/// This, and then inputs of a strategy.
fn after(first: &'static [u8], rest: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    rest.prop_map(move |rest| [first, &rest].concat())
}

/// One of these operations.
fn any_of(operations: &'static [u8]) -> impl Strategy<Value = [u8; 1]> {
    prop::sample::select(operations).prop_map(|operation| [operation])
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
    over_random_inputs(bodies::oauth, some(any_of(b"rfabmxcdsgtozwlu0123456789=,&\"{}\n"), 300));
}

#[cfg(feature = "oauth")]
#[test]
fn a_client_that_authorizes_itself_over_random_inputs() {
    let steps = some(any_of(b"qqhhherfkaaabxccssssttozylnu0123456789\n"), 300);
    over_random_inputs(bodies::oauth, after(b"J", steps));
}

#[cfg(feature = "snapshot")]
#[test]
fn snapshots_of_the_corpus() {
    over_the_corpus("snapshot", bodies::snapshot);
}

/// All orders of two operations. `.ci/explore` explores more.
#[test]
fn every_order_of_operations() {
    let mut explored = String::new();
    bodies::explored(2, "", |line| explored.push_str(&line));
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
        "NaN",
        "-Infinity",
        "{\"method\":\"x\"}",
        "{\"id\":1,\"result\":",
    ];
    over_random_inputs(bodies::decode, pieced(&pieces));
    over_random_inputs(bodies::message, pieced(&pieces));
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
    let used = (any_of(b"uuurk"), some((b'0'..b'@').prop_map(|it| [it]), 24));
    let names = some(used.prop_map(|(operation, choices)| [&operation[..], &choices, b" "].concat()), 9);
    let inputs = prop_oneof![
        after(b"n0", names),
        after(b"c", pieced(&pieces)),
        after(b"s", pieced(&pieces)),
        after(b"t1300", pieced(&pieces)),
    ];
    over_random_inputs(bodies::host, inputs);
}

/// The parts in random order, sometimes followed by a random byte.
fn pieced(pieces: &[&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let parts = some(prop::sample::select(pieces.to_vec()), 24);
    (parts, any::<Option<u8>>()).prop_map(|(parts, last)| {
        let kept = parts.len() - usize::from(last.is_some()).min(parts.len());
        parts[..kept].iter().copied().chain(last).collect()
    })
}

/// Operations with so many choices each, the more likely ones first, after `count` options.
fn operations<const CHOICES: usize>(
    count: usize,
    first: &'static [u8],
    choice: [std::ops::Range<u8>; CHOICES],
) -> impl Strategy<Value = Vec<u8>> {
    // One of the transport, or another one.
    let letter = prop_oneof![3 => b'a'..=b'z', 1 => prop::sample::select(&b"SULAEHTZ"[..])];
    let choices = choice.map(|range| range.boxed()).to_vec();
    let any = (letter, choices).prop_map(|(letter, choices)| [&[letter][..], &choices].concat());
    let steps = some(prop_oneof![Just(b"e00".to_vec()), any], 60);
    (prop::collection::vec(b'0'..b'p', count), after(first, steps))
        .prop_map(|(options, steps)| [options, steps].concat())
}

#[test]
fn random_sessions() {
    over_random_inputs(bodies::session, operations(10, b"ab", [b'0'..b'8', b'0'..b'@']));
}

#[test]
fn random_http() {
    over_random_inputs(bodies::http, operations(11, b"a", [b'0'..b'4', b'0'..b'H', b'0'..b'H']));
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
    let saved = |kind: u8, target: &str| {
        let line =
            |seed: Vec<u8>| seed.iter().map(|byte| if *byte == b'\n' { b' ' } else { *byte }).collect::<Vec<_>>();
        let change = (b'a'..=b'x', 0..16_u8, any::<[u8; 3]>());
        let changes = some(change.prop_map(|(what, at, [x, y, z])| [what, at, x, y, z]), 4);
        (b'0'..b'2', prop::sample::select(read(target)), changes)
            .prop_map(move |(first, seed, changes)| [vec![first, kind], line(seed), vec![b'\n'], changes].concat())
    };
    over_random_inputs(bodies::snapshot, prop_oneof![saved(b'0', "session"), saved(b'1', "http")]);
}
