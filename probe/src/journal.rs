//! The journal of a run: its file, and the replay of one.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use http::HeaderMap;
use mcp_proto::binding::http::{Broken, HttpAction};
use mcp_proto::journal::{Input, JournalBinding, JournalError, JournalLimits, Played, Player, Replay, TransportEvent};
use mcp_proto::{Action, Client, Engine as Library, Event, Outcome, RequestId, Time, TimeBound};
use serde_json::{Value, json};

use crate::args::{Settings, Step};
use crate::drive::{EventHandler, Reaction};
use crate::engine::{Engine, Session};
use crate::peer::{Peer, Place};
use crate::process::Program;
use crate::report::{CallRecord, FailureReport};
use crate::run::Ended;
use crate::trace::Trace;

/// A journal that is written as the run goes on, or none.
pub(crate) struct Journal {
    file: Option<(PathBuf, File)>,
    /// Whether the user was told that something is not in it.
    told: bool,
}

/// The limits of a journal that is written or replayed.
pub(crate) fn limits() -> JournalLimits {
    let mut limits = JournalLimits::default();
    (limits.line, limits.entries, limits.bytes) = (512 << 20, usize::MAX, 1 << 30);
    limits
}

impl Journal {
    pub(crate) const fn none() -> Self {
        Self { file: None, told: false }
    }

    /// A new file, or an emptied one.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        Ok(Self { file: Some((path.to_owned(), File::create(path)?)), told: false })
    }

    /// The limits of the recording: nothing is recorded where there is no file.
    pub(crate) fn limits(&self) -> JournalLimits {
        let mut limits = limits();
        if self.file.is_none() {
            limits.entries = 0;
        }
        limits
    }

    /// Writes what was recorded since the last call.
    pub(crate) fn write(&mut self, engine: &mut Engine) {
        let (text, dropped) = engine.journal();
        if self.file.is_some() && dropped > 0 {
            self.tell("the run goes on, and the journal ends here: it has reached its limit");
        }
        self.append(&text);
    }

    /// Writes the rest.
    pub(crate) fn end(&mut self, engine: &mut Engine) {
        self.write(engine);
        let text = engine.end_journal();
        self.append(&text);
    }

    fn append(&mut self, text: &str) {
        let Some((_, file)) = &mut self.file else { return };
        if let Err(error) = file.write_all(text.as_bytes()) {
            self.tell(&error.to_string());
            self.file = None;
        }
    }

    /// Tells the user once.
    fn tell(&mut self, what: &str) {
        if let Some((path, _)) = &self.file
            && !std::mem::replace(&mut self.told, true)
        {
            crate::text::write_stderr(&format!("probe: the journal {}: {what}\n", path.display()));
        }
    }
}

/// Why a journal was not replayed to its end.
pub(crate) enum Failed {
    /// The file cannot be read.
    File(std::io::Error),
    Journal(JournalError),
}

/// Replays a journal. There is a report even if the journal is cut off.
pub(crate) fn replay(settings: &Settings, path: &Path) -> Result<(Ended, Option<JournalError>), Failed> {
    let journal = std::fs::read(path).map_err(Failed::File)?;
    match Replay::new(&journal, limits()).map_err(Failed::Journal)? {
        Replay::Lines(player) => Run::new(player, Place::Process(Program::default())).go(settings),
        Replay::Http(player) => Run::new(player, Place::Web(HeaderMap::new())).go(settings),
        Replay::Messages(_) | _ => {
            Err(Failed::Journal(JournalError::NotAJournal { why: "probe has no such binding".into() }))
        }
    }
}

/// What a run takes from the actions of a binding.
trait Seen {
    /// Whether it begins a connection or an exchange.
    fn opens(&self) -> bool;
    fn event(self) -> Option<Event>;
}

impl Seen for Action {
    fn opens(&self) -> bool {
        matches!(self, Self::Open(_))
    }

    fn event(self) -> Option<Event> {
        if let Self::Event(event) = self { Some(event) } else { None }
    }
}

impl Seen for HttpAction {
    fn opens(&self) -> bool {
        matches!(self, Self::Request(_))
    }

    fn event(self) -> Option<Event> {
        if let Self::Event(event) = self { Some(event) } else { None }
    }
}

struct Run<'a, B: JournalBinding> {
    player: Box<Player<'a, Client<B>>>,
    engine: Engine,
    peer: Peer,
    /// The call whose result follows, then the call in flight with its start.
    requested: Option<Step>,
    calling: Option<(RequestId, Step, Time)>,
    closing: bool,
}

impl<'a, B: JournalBinding<Action: Seen>> Run<'a, B> {
    fn new(player: Box<Player<'a, Client<B>>>, place: Place) -> Self {
        let options = player.get().options();
        let peer = Peer::new((&*options.server).into(), place, Trace::new(options.limits.message, false));
        let engine = Engine::new(Session::Replayed);
        Self { player, engine, peer, requested: None, calling: None, closing: false }
    }

    fn go(mut self, settings: &Settings) -> Result<(Ended, Option<JournalError>), Failed> {
        let mut cut = None;
        loop {
            let late = self.session().stats().late_answers;
            match self.player.next() {
                None => break,
                Some(Ok(played)) => self.played(settings, played, late),
                Some(Err(error @ JournalError::CutOff { .. })) => cut = Some(error),
                Some(Err(error)) => return Err(Failed::Journal(error)),
            }
        }
        if let Some((_, step, _)) = self.calling.take() {
            self.peer.record.calls.push(CallRecord::without_answer(&step, "not-sent"));
        }
        let session = self.peer.last.take().unwrap_or_else(|| self.session().clone());
        Ok((Ended { session, peer: self.peer }, cut))
    }

    fn session(&self) -> &Library {
        let client: &Client<B> = self.player.get();
        client
    }

    fn played(&mut self, settings: &Settings, played: Played<Client<B>>, late: u64) {
        let now = self.player.now();
        match played {
            Played::Input(input) => {
                self.engine.set_now(now);
                self.take(&input);
                let late = self.session().stats().late_answers.saturating_sub(late);
                if late > 0 {
                    self.handler(settings).record("late-answer", &json!({"answers": late}));
                }
                if self.peer.record.introduced.is_none() && self.session().server().is_some() {
                    self.peer.record.introduced = Some(now);
                }
            }
            Played::Result(Ok(Some(request))) => {
                self.calling = self.requested.take().map(|step| (request, step, now));
            }
            Played::Result(_) => {
                if let Some(step) = self.requested.take() {
                    self.peer.record.calls.push(CallRecord::without_answer(&step, "not-sent"));
                }
            }
            Played::Action(action) => {
                if action.opens() {
                    self.peer.record.opened.get_or_insert(now);
                }
                if let Some(event) = action.event() {
                    let reaction = self.handler(settings).event(event);
                    self.react(reaction);
                }
            }
            Played::Idle | Played::End(_) | _ => {}
        }
    }

    fn handler<'b>(&'b mut self, settings: &'b Settings) -> EventHandler<'b> {
        EventHandler { settings, peer: &mut self.peer, engine: &mut self.engine, at: 0 }
    }

    fn take(&mut self, input: &Input) {
        match input {
            Input::Request(_) => self.requested = step_of(input),
            Input::Cancel { .. } => self.timed_out(),
            Input::Close => {
                if !self.peer.record.ready && self.peer.record.failure.is_none() {
                    self.timed_out();
                }
                self.closing = true;
            }
            Input::Transport { event: TransportEvent::Opened, .. } => self.peer.opened(),
            Input::Failure { broken: Broken::Unreachable, .. } => {}
            Input::Head { .. } | Input::Body { .. } | Input::End { .. } | Input::Failure { .. } if !self.closing => {
                self.peer.opened();
            }
            Input::Open
            | Input::Notify { .. }
            | Input::Provide { .. }
            | Input::Decline { .. }
            | Input::Respond { .. }
            | Input::Authorized
            | Input::Subscribe { .. }
            | Input::Unsubscribe { .. }
            | Input::SetLogLevel { .. }
            | Input::SetRoots { .. }
            | Input::Refresh { .. }
            | Input::Timeout
            | Input::Message { .. }
            | Input::Bytes { .. }
            | Input::Transport { .. }
            | Input::Head { .. }
            | Input::Body { .. }
            | Input::End { .. }
            | Input::Failure { .. }
            | _ => {}
        }
    }

    /// Only the end of the run's time cancels a call, or closes a session that is not ready and did not fail.
    fn timed_out(&mut self) {
        let message = "not done within the time of the recorded run".into();
        self.peer.record.failure.get_or_insert(FailureReport { kind: "timeout".into(), message });
    }

    fn react(&mut self, reaction: Reaction) {
        match reaction {
            Reaction::Finished(request, outcome) => {
                let Some((_, step, since)) = self.calling.take_if(|(calling, ..)| *calling == request) else { return };
                let outcome =
                    if matches!(outcome, Outcome::Cancelled) { Outcome::TimedOut(TimeBound::Total) } else { outcome };
                let took = Some(self.player.now().since(since));
                self.peer.record.calls.push(CallRecord { took, ..CallRecord::ended(&step, outcome) });
            }
            Reaction::Closing => self.closing = true,
            Reaction::Closed => self.peer.last = Some(self.session().clone()),
            Reaction::Nothing | Reaction::Ready | Reaction::Parked(_) => {}
        }
    }
}

/// The step that a recorded request was.
fn step_of(input: &Input) -> Option<Step> {
    let value = serde_json::to_value(input).ok()?;
    let request = value.get("value")?;
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(ToOwned::to_owned);
    let member = |name| text(request.get("params").and_then(|params| params.get(name)));
    match request.get("method")?.as_str()? {
        "tools/call" => member("name").map(Step::call),
        "resources/read" => member("uri").map(Step::read),
        "prompts/get" => member("name").map(Step::prompt),
        _ => None,
    }
}
