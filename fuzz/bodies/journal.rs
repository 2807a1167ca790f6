//! Journals: any text ends with a result or an error, and what a journal does replays when it is recorded again.

use std::hash::{DefaultHasher, Hash, Hasher};

use mcp_proto::host::hub::HubOptions;
use mcp_proto::journal::{
    JournalBinding, JournalError, JournalLimits, Played, Player, Recordable, Recorder, Replay, replay,
};
use mcp_proto::{Client, Http, Lines, Messages, Options, Time};

/// What was done with a client or a hub, without what it answered.
enum Step<I> {
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

/// Records what a journal does, and replays the recording.
fn again<R: Recordable>(mut player: Player<'_, R>, mut recorder: Recorder<R>) -> Option<JournalError> {
    let (mut steps, mut end) = (Vec::new(), None);
    while let Some(played) = player.next() {
        match played {
            Ok(Played::Input(input)) => steps.push(Step::Input(player.now(), input)),
            Ok(Played::Action(_) | Played::Idle) => steps.push(Step::Poll),
            Ok(_) => {}
            Err(error) => end = Some(error),
        }
    }
    assert!(player.next().is_none(), "a line follows the end");
    for step in steps {
        match step {
            Step::Input(now, input) => drop(recorder.apply(now, input)),
            Step::Poll => drop(recorder.poll()),
        }
    }
    while recorder.poll().is_some() {}
    let (_, recorded) = recorder.finish();
    let replayed = replay(recorded.as_bytes(), JournalLimits::default());
    assert!(replayed.is_ok(), "{replayed:?}\n{recorded}");
    end
}
