//! Properties of an authorization, over any order of refusals, responses, redirects, times and a second process.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Refuse(bool),
    Forbid(u8),
    Answer(u16),
    Serve,
    Break,
    Store,
    Consent,
    Deny,
    Wait(u16),
    SignOut,
    Authorize,
    /// Another process takes the lock, refreshes and saves.
    Sibling,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => any::<bool>().prop_map(Step::Refuse),
        1 => (0..3u8).prop_map(Step::Forbid),
        1 => prop_oneof![Just(200u16), Just(302), Just(400), Just(404), Just(503)].prop_map(Step::Answer),
        8 => Just(Step::Serve),
        1 => Just(Step::Break),
        6 => Just(Step::Store),
        4 => Just(Step::Consent),
        1 => Just(Step::Deny),
        3 => (0..4000u16).prop_map(Step::Wait),
        1 => Just(Step::SignOut),
        1 => Just(Step::Authorize),
        2 => Just(Step::Sibling),
    ]
}

/// The expected state.
#[derive(Default)]
struct Past {
    /// Refresh tokens that the authorization server exchanged.
    spent: Vec<String>,
    /// How many events were checked.
    checked: usize,
}

impl Past {
    fn check(&mut self, rig: &Rig) {
        let revocations = rig.sent.iter().filter(|sent| sent.url.ends_with("/revoke")).count();
        assert!(rig.sent.len() - revocations <= 1, "one request at a time");
        for sent in &rig.sent {
            let refresh = sent.form("refresh_token");
            assert!(refresh.is_none_or(|token| !self.spent.contains(&token)), "a refresh token is used twice");
            assert!(!sent.url.contains("hush"), "a secret in a URL");
            if sent.body.contains("hush") {
                assert_eq!(sent.url, "https://as.example/token", "a secret goes elsewhere");
            }
        }
        let events = rig.events.get(self.checked..).unwrap_or_default();
        self.checked = rig.events.len();
        assert!(!format!("{:?} {events:?}", rig.auth).contains("hush"));
        if let Some(record) = &rig.store.record {
            assert!(serde_json::from_slice::<Value>(record).is_ok(), "the record is whole");
        }
        let busy = !rig.sent.is_empty() || rig.browse.is_some();
        assert!(!busy || rig.auth.deadline().is_some(), "an attempt without an end");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, rng_seed: proptest::test_runner::RngSeed::Fixed(14), ..ProptestConfig::default() })]

    #[test]
    fn one_request_at_a_time_and_every_attempt_ends(steps in proptest::collection::vec(step(), 1..60), stored: bool) {
        let mut rig = Rig::with(|options| options.stored = stored);
        let mut past = Past::default();
        for step in steps {
            match step {
                Step::Refuse(current) => {
                    let token = if current { rig.token() } else { None };
                    let _ = rig.refuse_as(token, false, &[]);
                }
                Step::Forbid(scope) => drop(rig.forbid(&format!("s{scope}"))),
                Step::Answer(status) if !rig.sent.is_empty() => rig.answer(status, "{}"),
                Step::Serve => {
                    if let Some(sent) = rig.sent.front() {
                        past.spent.extend(sent.form("refresh_token"));
                        let page = rig.site.page(sent);
                        rig.answer_page(&page);
                    }
                }
                Step::Break if !rig.sent.is_empty() => rig.break_off(),
                Step::Store => {
                    if let Some(action) = rig.waiting.pop_front() {
                        rig.serve_store(&action);
                    }
                }
                Step::Consent if rig.browse.is_some() => rig.consent(),
                Step::Deny if rig.browse.is_some() => {
                    let redirect = format!("error=access_denied&state={}", rig.shown("state"));
                    rig.redirect(&redirect);
                }
                Step::Wait(seconds) => rig.wait(seconds.into()),
                Step::SignOut => {
                    rig.auth.sign_out(rig.now);
                    rig.waiting.clear();
                    rig.pump();
                }
                Step::Authorize => {
                    rig.auth.authorize(rig.now);
                    rig.pump();
                }
                Step::Sibling => {
                    if let Some(record) = &rig.store.record {
                        let mut record: Value = serde_json::from_slice(record).unwrap();
                        rig.site.issued += 1;
                        record["generation"] = json!(record["generation"].as_u64().unwrap() + 1);
                        record["access_token"] = json!(format!("sibling{}-hush", rig.site.issued));
                        record["refresh_token"] = json!(format!("sibling-rt{}-hush", rig.site.issued));
                        rig.store.record = Some(record.to_string().into_bytes());
                    }
                }
                Step::Answer(_) | Step::Break | Step::Consent | Step::Deny => {}
            }
            past.check(&rig);
        }
        // Without further input, the authorization becomes idle.
        for _ in 0..100 {
            let busy = !rig.sent.is_empty() || rig.browse.is_some();
            let Some(deadline) = rig.auth.deadline().filter(|_| busy) else { break };
            rig.wait(deadline.since(rig.now).as_secs() + 1);
        }
        prop_assert!(rig.browse.is_none(), "the user is asked repeatedly");
    }
}
