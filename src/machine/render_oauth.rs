//! The tables of OAuth as the documentation shows them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec;

use super::render_markdown::{Decisions, Table, column};
use super::{authorization, authorization_plan, credential_record, credentials, store};

/// Every decision table of OAuth.
#[cfg(feature = "rows")]
pub(super) fn all() -> alloc::vec::Vec<Decisions> {
    vec![metadata_decisions(), client_decisions(), plan_decisions(), redirect_decisions(), failed_decisions()]
}

fn metadata_decisions() -> Decisions {
    use authorization_plan::{Answer, Places, Rest, metadata};
    Decisions {
        name: "authorization::metadata",
        columns: vec![column("answer", Answer::ALL), column("other places", Rest::ALL), column("places", Places::ALL)],
        decide: |at| format!("{:?}", metadata(Answer::ALL[at[0]], Rest::ALL[at[1]], Places::ALL[at[2]])),
    }
}

fn client_decisions() -> Decisions {
    use authorization_plan::{Configured, Held, Offer, client};
    Decisions {
        name: "authorization::client",
        columns: vec![column("configured", Configured::ALL), column("held", Held::ALL), column("offer", Offer::ALL)],
        decide: |at| format!("{:?}", client(Configured::ALL[at[0]], Held::ALL[at[1]], Offer::ALL[at[2]])),
    }
}

fn plan_decisions() -> Decisions {
    use authorization_plan::{Browser, Client, Code, Goal, Owner, Proof, plan};
    Decisions {
        name: "authorization::plan",
        columns: vec![
            column("goal", Goal::ALL),
            column("client", Client::ALL),
            column("owner", Owner::ALL),
            column("code", Code::ALL),
            column("proof", Proof::ALL),
            column("browser", Browser::ALL),
        ],
        decide: |at| {
            let (goal, client, owner) = (Goal::ALL[at[0]], Client::ALL[at[1]], Owner::ALL[at[2]]);
            let (code, proof, browser) = (Code::ALL[at[3]], Proof::ALL[at[4]], Browser::ALL[at[5]]);
            format!("{:?}", plan(goal, client, owner, code, proof, browser))
        },
    }
}

fn redirect_decisions() -> Decisions {
    use authorization_plan::{Advertised, Iss, Redirect, redirect};
    Decisions {
        name: "authorization::redirect",
        columns: vec![column("advertised", Advertised::ALL), column("iss", Iss::ALL), column("has", Redirect::ALL)],
        decide: |at| format!("{:?}", redirect(Advertised::ALL[at[0]], Iss::ALL[at[1]], Redirect::ALL[at[2]])),
    }
}

fn failed_decisions() -> Decisions {
    use authorization_plan::{Failure, Goal, Registration, Tries, failed};
    Decisions {
        name: "authorization::failed",
        columns: vec![
            column("goal", Goal::ALL),
            column("failure", Failure::ALL),
            column("registration", Registration::ALL),
            column("tries", Tries::ALL),
        ],
        decide: |at| {
            let (goal, failure) = (Goal::ALL[at[0]], Failure::ALL[at[1]]);
            format!("{:?}", failed(goal, failure, Registration::ALL[at[2]], Tries::ALL[at[3]]))
        },
    }
}

#[test]
fn authorization_table() {
    use authorization::{Effect, Input, State};
    let table = Table { states: State::ALL, inputs: Input::ALL, step: authorization::step };
    table.check("authorization", &[]);
    table.timer("authorization", |effect| effect == Effect::Pause, Input::Paused);
    for effect in [Effect::RequestMetadata, Effect::Register, Effect::Browse, Effect::Sign, Effect::RequestToken] {
        table.timer("authorization", |other| other == effect, Input::Fail);
    }
    let ends = |effect| matches!(effect, Effect::ReportIssued | Effect::ReportRefused | Effect::ReportFailed);
    assert_eq!(table.after(ends), BTreeSet::from([State::Idle]), "an attempt that ended is in progress");
}

#[test]
fn credentials_table() {
    use credentials::{Effect, Input, State};
    let table = Table { states: State::ALL, inputs: Input::ALL, step: credentials::step };
    table.check("credentials", &[]);
    table.timer("credentials", |effect| effect == Effect::Rest, Input::Rested);
    for effect in [Effect::Acquire, Effect::Load, Effect::Save] {
        table.timer("credentials", |other| other == effect, Input::StoreFailed);
    }
    for effect in [Effect::Refresh, Effect::Obtain] {
        table.timer("credentials", |other| other == effect, Input::Failed);
    }
    for state in State::ALL {
        assert_eq!(credentials::step(*state, Input::SignOut).next, State::Idle, "{state:?} outlives a sign-out");
    }
}

#[test]
fn the_lock_of_the_store_is_released_when_its_use_ends() {
    use credentials::{Effect, Input, State};
    let uses = |state: &State| !matches!(state, State::Idle | State::Obtaining | State::Resting);
    for state in State::ALL {
        for input in Input::ALL {
            let row = credentials::step(*state, *input);
            let released = row.effects.contains(&Effect::Release);
            assert_eq!(released, uses(state) && !uses(&row.next), "{state:?} {input:?}");
        }
    }
}

#[test]
fn store_table() {
    use store::{Input, State};
    let table = Table { states: State::ALL, inputs: Input::ALL, step: store::step };
    table.check("store", &[]);
}

#[test]
fn credential_record_table() {
    use credential_record::{Effect, Input, State};
    let table = Table { states: State::ALL, inputs: Input::ALL, step: credential_record::step };
    table.check("credential_record", &[]);
    assert_eq!(table.after(|effect| effect == Effect::Adopt), BTreeSet::from([State::Stored]));
    assert_eq!(table.after(|effect| effect == Effect::Drop), BTreeSet::from([State::Missing]));
}
