//! Journals: any text ends with a result or an error, and what a journal does replays when it is recorded again.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

use mcp_proto::host::hub::{Hub, HubOptions};
use mcp_proto::journal::{
    HubInput, Input, JournalBinding, JournalError, JournalLimits, Played, Player, Recordable, Recorder, Replay, replay,
};
use mcp_proto::{Client, Http, Lines, Messages, Options, Time};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::checks::{MARKER, assert_equal, check_form};

/// What was done with a client or a hub, without what it answered.
#[derive(Clone)]
pub(super) enum Step<C, I> {
    Command(Time, C),
    Input(Time, I),
    Poll,
}

/// Reads the bytes as a journal. What a header without a sum leaves out is as in the header of a new client or hub, so that
/// seeds are short, and stay valid.
pub fn journal(bytes: &[u8]) -> u64 {
    let bytes = &completed(bytes);
    let mut limits = JournalLimits::default();
    (limits.line, limits.entries, limits.bytes) = (16 << 10, 256, 64 << 10);
    let whole = replay(bytes, limits);
    let end = match Replay::new(bytes, limits) {
        Ok(Replay::Messages(player)) => {
            let options = player.get().options().clone();
            again(*player, || client(Messages::new(), options.clone()))
        }
        Ok(Replay::Lines(player)) => {
            let options = player.get().options().clone();
            again(*player, || client(Lines::new(), options.clone()))
        }
        Ok(Replay::Http(player)) => {
            let options = player.get().options().clone();
            let header = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let with_oauth = header.windows(15).any(|part| part == b"\"authorization\"");
            again(*player, || authorized(options.clone(), with_oauth))
        }
        Ok(Replay::Hub(player)) => {
            let options = HubOptions::new(Options::new("fuzz", "1"));
            again(*player, || Recorder::of_hub(options.clone(), 7, JournalLimits::default()))
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

fn completed(bytes: &[u8]) -> Cow<'_, [u8]> {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (header, lines) = bytes.split_at(end);
    let Ok(Value::Object(mut header)) = serde_json::from_slice(header) else { return bytes.into() };
    if !header.contains_key("binding") || header.contains_key("sum") {
        return bytes.into();
    }
    let options = Options::new("fuzz", "1");
    let recorded = match header["binding"]["type"].as_str() {
        Some("hub") => Recorder::of_hub(HubOptions::new(options), 7, JournalLimits::default()).finish().1,
        _ => authorized(options, header.contains_key("authorization")).finish().1,
    };
    let new: Value = serde_json::from_str(recorded.lines().next().expect("a header")).expect("a header is JSON");
    let mut new = new.as_object().expect("an object").clone();
    new.remove("sum");
    complete(&mut header, &new);
    [serde_json::to_vec(&header).expect("JSON can be written"), lines.into()].concat().into()
}

/// Adds the members that are missing. An enum has its own.
fn complete(object: &mut Map<String, Value>, new: &Map<String, Value>) {
    for (name, value) in new {
        match (object.get_mut(name), value) {
            (None, _) => _ = object.insert(name.clone(), value.clone()),
            (Some(Value::Object(own)), Value::Object(new)) if !own.contains_key("type") => complete(own, new),
            (Some(_), _) => {}
        }
    }
}

#[cfg(feature = "oauth")]
fn authorized(options: Options, with_oauth: bool) -> Recorder<Client<Http>> {
    use std::time::Duration;

    use mcp_proto::binding::oauth::{Authorization, OAuthOptions};

    let http = Http::new("https://mcp.example/mcp").expect("a URL");
    if !with_oauth {
        return client(http, options);
    }
    let oauth = OAuthOptions::new("fuzz", "http://127.0.0.1:1/");
    let auth = Authorization::new("https://mcp.example/mcp", oauth, [7; 32], Time::ZERO, Duration::ZERO);
    client(http.with_oauth(auth.expect("valid options")), options)
}

#[cfg(not(feature = "oauth"))]
fn authorized(options: Options, _: bool) -> Recorder<Client<Http>> {
    client(Http::new("https://mcp.example/mcp").expect("a URL"), options)
}

fn client<B: JournalBinding>(binding: B, options: Options) -> Recorder<Client<B>> {
    Recorder::new(binding, options, 7, JournalLimits::default())
}

/// Records what a journal does, and replays the recording, which does not have the secret. A journal that has inputs only is
/// polled after each.
fn again<R>(mut player: Player<'_, R>, recorder: impl Fn() -> Recorder<R>) -> Option<JournalError>
where
    R: Direct,
    R::Action: DeserializeOwned,
{
    let (mut steps, mut end) = (Vec::new(), None);
    while let Some(played) = player.next() {
        match played {
            Ok(Played::Command(command)) => steps.push(Step::Command(player.now(), check_form(&command))),
            Ok(Played::Input(input)) => steps.push(Step::Input(player.now(), check_form(&input))),
            Ok(Played::Action(_) | Played::Idle) => steps.push(Step::Poll),
            Ok(_) => {}
            Err(error) => end = Some(error),
        }
    }
    assert!(player.next().is_none(), "a line follows the end");
    let hiding = || {
        let mut recorder = recorder();
        recorder.hide(MARKER).expect("a secret");
        recorder
    };
    let recorded = record(hiding, &steps);
    let replayed = replay(recorded.as_bytes(), JournalLimits::default());
    // A secret that a server repeats in another encoding has a mask of its length only, which the client may cut elsewhere.
    let is_repeated = recorded.contains("secret10");
    let differs = matches!(replayed, Err(JournalError::Differs { .. }));
    assert!(replayed.is_ok() || is_repeated && differs, "{replayed:?}\n{recorded}");
    end
}

/// Records the steps: the secret is nowhere in the recording, which is the same by the recorder's own methods. Steps without
/// polls are polled after each.
pub(super) fn record<R>(recorder: impl Fn() -> Recorder<R>, steps: &[Step<R::Command, R::Input>]) -> String
where
    R: Direct,
    R::Action: DeserializeOwned,
{
    let recorded = record_by(recorder(), steps, |recorder, now, input| drop(recorder.handle_input(now, input)));
    assert!(!recorded.contains(MARKER), "a secret is in {recorded}");
    assert_equal(&record_by(recorder(), steps, R::direct), &recorded, "the methods record something else");
    recorded
}

fn record_by<R>(
    mut recorder: Recorder<R>,
    steps: &[Step<R::Command, R::Input>],
    give: impl Fn(&mut Recorder<R>, Time, R::Input),
) -> String
where
    R: Recordable,
    R::Action: DeserializeOwned,
{
    let polls = !steps.iter().any(|step| matches!(step, Step::Poll));
    for step in steps {
        match step {
            // What is refused is in the recording.
            Step::Command(now, command) => drop(recorder.apply(*now, command.clone())),
            Step::Input(now, input) => give(&mut recorder, *now, input.clone()),
            Step::Poll => drop(recorder.poll()),
        }
        while let Some(action) = if polls { recorder.poll() } else { None } {
            // What an authorization asks for has secrets, which are not read back.
            if !serde_json::to_string(&action).expect("an action can be written").starts_with(r#"{"type":"oauth""#) {
                check_form(&action);
            }
        }
    }
    while recorder.poll().is_some() {}
    recorder.finish().1
}

/// A recorder has a method for each input of what it records.
pub(super) trait Direct: Recordable + Sized {
    fn direct(recorder: &mut Recorder<Self>, now: Time, input: Self::Input);
}

impl Direct for Client<Messages> {
    fn direct(recorder: &mut Recorder<Self>, now: Time, input: Input) {
        match input {
            Input::Timeout => recorder.handle_timeout(now),
            Input::Message { connection, bytes } => recorder.handle_message(now, connection, &bytes),
            Input::Transport { connection, event } => recorder.handle_transport(now, connection, event.as_transport()),
            other => drop(recorder.handle_input(now, other)),
        }
    }
}

impl Direct for Client<Lines> {
    fn direct(recorder: &mut Recorder<Self>, now: Time, input: Input) {
        match input {
            Input::Timeout => recorder.handle_timeout(now),
            Input::Bytes { connection, bytes } => recorder.handle_bytes(now, connection, &bytes),
            Input::Transport { connection, event } => recorder.handle_transport(now, connection, event.as_transport()),
            other => drop(recorder.handle_input(now, other)),
        }
    }
}

impl Direct for Client<Http> {
    fn direct(recorder: &mut Recorder<Self>, now: Time, input: Input) {
        match input {
            Input::Timeout => recorder.handle_timeout(now),
            Input::Head { exchange, status, headers } => recorder.handle_head(now, exchange, status, &headers),
            Input::Body { exchange, bytes } => recorder.handle_body(now, exchange, &bytes),
            Input::End { exchange } => recorder.handle_end(now, exchange),
            Input::Failure { exchange, broken, why } => recorder.handle_failure(now, exchange, broken, &why),
            #[cfg(feature = "oauth")]
            Input::OAuth(report) => _ = recorder.handle_oauth(now, report.as_input()),
            other => drop(recorder.handle_input(now, other)),
        }
    }
}

impl Direct for Hub {
    fn direct(recorder: &mut Recorder<Self>, now: Time, input: HubInput) {
        let HubInput::Session { session, input } = input else { return recorder.handle_timeout(now) };
        match input {
            Input::Bytes { connection, bytes } => recorder.handle_bytes(now, session, connection, &bytes),
            Input::Transport { connection, event } => {
                recorder.handle_transport(now, session, connection, event.as_transport());
            }
            Input::Head { exchange, status, headers } => recorder.handle_head(now, session, exchange, status, &headers),
            Input::Body { exchange, bytes } => recorder.handle_body(now, session, exchange, &bytes),
            Input::End { exchange } => recorder.handle_end(now, session, exchange),
            Input::Failure { exchange, broken, why } => recorder.handle_failure(now, session, exchange, broken, &why),
            input => drop(recorder.handle_input(now, HubInput::Session { session, input })),
        }
    }
}
