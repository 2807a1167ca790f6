//! Finds the bugs planted in a small host, with one property over the test kit, and prints the shortest failing test.
//!
//! `docs/testing/host.rs` is the host, `property.rs` the property: the guide shows both.

#![allow(clippy::arithmetic_side_effects, clippy::expect_used, clippy::unwrap_used, reason = "a test may fail")]
#![allow(clippy::wildcard_enum_match_arm, reason = "the host is interested in a few events")]
#![allow(missing_docs, missing_debug_implementations, unreachable_pub, reason = "two modules that a test includes")]

#[path = "../../docs/testing/host.rs"]
mod host;
#[path = "../../docs/testing/property.rs"]
mod property;

use mcp_proto::testkit::strategy;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

use self::host::Bug;

/// Random tests per bug.
const CASES: u32 = 256;

const BUGS: [Bug; 5] =
    [Bug::RetryTooMany, Bug::LostAnswer, Bug::StaleCatalogue, Bug::WrongRoute, Bug::PromptShownTwice];

/// Tests the host, and returns the failure and the turns that lead to it.
fn test(bug: Option<Bug>, cases: u32) -> Result<(), String> {
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 150, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let turns = strategy::turns(&property::server(), 1..20);
    let test = |(seed, turns): (u64, Vec<_>)| property::keeps_its_promises(bug, seed, &turns);
    TestRunner::new_with_rng(config, rng).run(&(any::<u64>(), turns), test).map_err(|failure| match failure {
        TestError::Fail(why, (seed, turns)) => format!("{why}\nseed {seed}, {turns:#?}"),
        TestError::Abort(why) => why.to_string(),
    })
}

fn main() {
    for bug in BUGS {
        match test(Some(bug), CASES) {
            Ok(()) => println!("{bug:?}: not found\n"),
            Err(failure) => println!("{bug:?}: {failure}\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Bug, CASES, test};

    #[test]
    fn a_host_without_a_bug_passes() {
        test(None, CASES).unwrap();
    }

    fn finds(bug: Bug, words: &str) {
        let failure = test(Some(bug), CASES).unwrap_err();
        assert!(failure.contains(words), "{failure}");
    }

    #[test]
    fn a_retry_too_many_is_found() {
        finds(Bug::RetryTooMany, "a read ran 4 times where 3 were allowed");
    }

    #[test]
    fn a_lost_answer_is_found() {
        finds(Bug::LostAnswer, "an answer is lost");
    }

    #[test]
    fn a_stale_catalogue_is_found() {
        finds(Bug::StaleCatalogue, "the model knows other tools than there are");
    }

    #[test]
    fn a_wrong_route_after_a_rename_is_found() {
        finds(Bug::WrongRoute, "a tool ran that was not called");
    }

    #[test]
    fn a_prompt_shown_twice_is_found() {
        finds(Bug::PromptShownTwice, "a prompt is shown twice");
    }
}
