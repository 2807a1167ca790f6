//! The journal of a run: its file, and the replay of one.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use mcp_proto::binding::oauth::{OAuthAction, OAuthEvent};
use mcp_proto::journal::{Input, JournalBinding, JournalError, JournalLimits, OAuthReport, Played, Player, Replay};
use mcp_proto::{Client, Engine as Library, RequestId, Time};
use serde_json::json;

use crate::args::{Settings, Step};
use crate::drive::{EventHandler, Reaction};
use crate::engine::{Engine, EngineAction, Seen, Session, refusal};
use crate::peer::{Peer, Place, Site};
use crate::report::CallRecord;
use crate::run::Ended;
use crate::trace::Trace;
use crate::web::Id;

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
        engine.end_journal();
        self.write(engine);
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
        Replay::Lines(player) => Run::new(player, Place::Process(mcp_proto_std::Program::new("").into())).go(settings),
        Replay::Http(player) => Run::new(player, Place::Web(Site::default())).go(settings),
        Replay::Messages(_) | _ => {
            Err(Failed::Journal(JournalError::NotAJournal { why: "probe has no such binding".into() }))
        }
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
    is_signing_out: bool,
    /// The last input was the time, and nothing was polled since.
    is_timeout: bool,
}

impl<'a, B: JournalBinding<Action: Seen>> Run<'a, B> {
    fn new(player: Box<Player<'a, Client<B>>>, place: Place) -> Self {
        let options = player.get().options();
        let peer = Peer::new((&*options.server).into(), place, Trace::new(options.limits.message, false));
        let engine = Engine::new(Session::Replayed);
        Self {
            player,
            engine,
            peer,
            requested: None,
            calling: None,
            closing: false,
            is_signing_out: false,
            is_timeout: false,
        }
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
                self.take(now, &input);
                let late = self.session().stats().late_answers.saturating_sub(late);
                if late > 0 {
                    self.handler(settings).record("late-answer", &json!({"answers": late}));
                }
                if self.peer.record.introduced.is_none() && self.session().server().is_some() {
                    self.peer.record.introduced = Some(now);
                }
            }
            Played::Result(result) => {
                let Some(step) = self.requested.take() else { return };
                let unsent = match result {
                    // One that follows another was not sent, but at the end of the run.
                    Ok(Some(request)) => {
                        self.calling.replace((request, step, now)).map(|(_, step, _)| (step, "not-sent"))
                    }
                    Ok(None) => Some((step, "not-sent")),
                    Err(error) => Some((step, refusal(&error))),
                };
                let unsent = unsent.map(|(step, outcome)| CallRecord::without_answer(&step, outcome));
                self.peer.record.calls.extend(unsent);
            }
            Played::Action(action) => {
                self.is_timeout = false;
                match action.seen() {
                    Some(EngineAction::Open(connection)) => self.peer.opens(connection, now),
                    Some(EngineAction::Send(message)) => self.peer.send(message.bytes(), message.line()),
                    Some(EngineAction::Request(request)) => self.peer.request(now, request),
                    Some(EngineAction::Drop(exchange)) => self.peer.drop(Id::Server(exchange)),
                    Some(EngineAction::Event(event)) => {
                        let reaction = self.handler(settings).event(event);
                        self.react(reaction);
                    }
                    Some(EngineAction::OAuth(action)) => self.authorize(settings, action),
                    Some(_) | None => {}
                }
            }
            Played::Idle | Played::End(_) | _ => self.is_timeout = false,
        }
    }

    fn authorize(&mut self, settings: &Settings, action: OAuthAction) {
        match action {
            OAuthAction::Request(request) => self.peer.saw_request(&request),
            OAuthAction::Event(OAuthEvent::Authorized(grant)) => self.peer.authorized(grant),
            OAuthAction::Event(OAuthEvent::Failed(error)) if !self.is_signing_out => {
                self.peer.record.authorization.get_or_insert_default().failed(&error);
                if !self.peer.record.ready && !self.closing {
                    self.peer.unauthorized(&error, settings.oauth.as_ref());
                }
            }
            // The report has nothing of the others.
            OAuthAction::Drop(_)
            | OAuthAction::Browse(_)
            | OAuthAction::EndBrowse
            | OAuthAction::Store(_)
            | OAuthAction::Sign(_)
            | OAuthAction::Event(_)
            | _ => {}
        }
    }

    fn handler<'b>(&'b mut self, settings: &'b Settings) -> EventHandler<'b> {
        EventHandler { settings, peer: &mut self.peer, engine: &mut self.engine, at: 0 }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "all others change nothing of the report")]
    fn take(&mut self, now: Time, input: &Input) {
        let was_timeout = std::mem::replace(&mut self.is_timeout, matches!(input, Input::Timeout));
        self.peer.saw(input, self.closing);
        match input {
            Input::Request(_) => self.requested = step_of(input),
            Input::Cancel { .. } => drop(self.peer.fail_late(now)),
            Input::Close => {
                if was_timeout {
                    self.peer.fail_late(now);
                }
                self.closing = true;
            }
            Input::OAuth(OAuthReport::SignOut) => self.is_signing_out = true,
            _ => {}
        }
    }

    fn react(&mut self, reaction: Reaction) {
        match reaction {
            Reaction::Finished(request, outcome) => {
                let Some((_, step, since)) = self.calling.take_if(|(calling, ..)| *calling == request) else { return };
                let took = self.player.now().since(since);
                self.peer.record.calls.push(CallRecord::ended(&step, outcome, took));
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
    let (option, member) = match request.get("method")?.as_str()? {
        "tools/call" => ("call", "name"),
        "resources/read" => ("read", "uri"),
        "prompts/get" => ("prompt", "name"),
        _ => return None,
    };
    Step::new(option, request.get("params")?.get(member)?.as_str()?.into())
}
