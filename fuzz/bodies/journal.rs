//! Journals: any text ends with a result or an error, and what a journal does replays when it is recorded again.

use std::hash::{DefaultHasher, Hash, Hasher};

use mcp_proto::host::hub::HubOptions;
use mcp_proto::journal::{
    JournalBinding, JournalError, JournalLimits, Played, Player, Recordable, Recorder, Replay, replay,
};
use mcp_proto::{Client, Http, Lines, Messages, Options, Time};
use serde::de::DeserializeOwned;

use super::checks::{MARKER, check_form};

/// What was done with a client or a hub, without what it answered.
#[derive(Clone)]
pub(super) enum Step<I> {
    Input(Time, I),
    Poll,
}

pub fn journal(bytes: &[u8]) -> u64 {
    let mut limits = JournalLimits::default();
    (limits.line, limits.entries, limits.bytes) = (16 << 10, 256, 64 << 10);
    let whole = replay(bytes, limits);
    let end = match Replay::new(bytes, limits) {
        Ok(Replay::Messages(player)) => {
            let options = player.get().options().clone();
            again(*player, client(Messages::new(), options))
        }
        Ok(Replay::Lines(player)) => {
            let options = player.get().options().clone();
            again(*player, client(Lines::new(), options))
        }
        Ok(Replay::Http(player)) => {
            let options = player.get().options().clone();
            again(*player, client(Http::new("http://localhost/mcp").unwrap(), options))
        }
        Ok(Replay::Hub(player)) => {
            let options = HubOptions::new(Options::new("fuzz", "1"));
            again(*player, Recorder::of_hub(options, 7, JournalLimits::default()))
        }
        Ok(other) => panic!("{other:?}"),
        Err(error) => Some(error),
    };
    assert_eq!(whole.as_ref().err(), end.as_ref(), "line by line it ends in another way");
    if let Err(error) = &whole {
        assert!(error.to_string().len() < 1_000, "{error}");
    }
    let mut hasher = DefaultHasher::new();
    format!("{whole:?}").hash(&mut hasher);
    hasher.finish()
}

fn client<B: JournalBinding>(binding: B, options: Options) -> Recorder<Client<B>> {
    Recorder::new(binding, options, 7, JournalLimits::default())
}

/// Records what a journal does, and replays the recording, which does not have the secret. A journal that has inputs only is
/// polled after each.
fn again<R>(mut player: Player<'_, R>, mut recorder: Recorder<R>) -> Option<JournalError>
where
    R: Recordable,
    R::Action: DeserializeOwned,
{
    let (mut steps, mut end) = (Vec::new(), None);
    while let Some(played) = player.next() {
        match played {
            Ok(Played::Input(input)) => steps.push(Step::Input(player.now(), check_form(&input))),
            Ok(Played::Action(_) | Played::Idle) => steps.push(Step::Poll),
            Ok(_) => {}
            Err(error) => end = Some(error),
        }
    }
    assert!(player.next().is_none(), "a line follows the end");
    recorder.hide(MARKER).expect("a secret");
    let recorded = record(recorder, steps);
    let replayed = replay(recorded.as_bytes(), JournalLimits::default());
    assert!(replayed.is_ok(), "{replayed:?}\n{recorded}");
    end
}

/// Records the steps: the secret is nowhere in the recording. Steps without polls are polled after each.
pub(super) fn record<R>(mut recorder: Recorder<R>, steps: Vec<Step<R::Input>>) -> String
where
    R: Recordable,
    R::Action: DeserializeOwned,
{
    let polls = !steps.iter().any(|step| matches!(step, Step::Poll));
    for step in steps {
        let is_input = matches!(step, Step::Input(..));
        match step {
            Step::Input(now, input) => drop(recorder.apply(now, input).map_err(|error| error.to_string())),
            Step::Poll => drop(recorder.poll()),
        }
        while let Some(action) = if polls && is_input { recorder.poll() } else { None } {
            check_form(&action);
        }
    }
    while recorder.poll().is_some() {}
    let (_, recorded) = recorder.finish();
    assert!(!recorded.contains(MARKER), "a secret is in {recorded}");
    recorded
}
