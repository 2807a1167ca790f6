//! The journal of a run: its file, and the replay of one.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mcp_proto::binding::http::{ExchangeId, HttpAction};
use mcp_proto::journal::{Input as Recorded, JournalBinding, JournalError, JournalLimits};
use mcp_proto::journal::{OAuthReport, Played, Player, Replay};
use mcp_proto::{Action, Client, Command, CommandError, Diagnosis, Engine, Event, RequestId, StderrLines, Time};
use mcp_proto_tokio::{HttpPiece, Input, Output, Session};

use crate::args::{Settings, Step};
use crate::observer::{Moment, Observer};
use crate::peer::{Ended, Peer, Site};
use crate::record::CallRecord;
use crate::secrets::Given;
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
    pub(crate) fn write(&mut self, session: &Session) {
        if self.file.is_none() {
            return;
        }
        if session.journal_dropped() > 0 {
            self.tell("the run goes on, and the journal ends here: it has reached its limit");
        }
        self.append(&session.journal());
    }

    /// Writes the rest.
    pub(crate) fn end(&mut self, session: &Session) {
        self.write(session);
        let rest = session.finish_journal();
        self.append(&rest);
    }

    /// Keeps what was given as a secret out of the journal.
    pub(crate) fn hide(&self, session: &Session, given: &[Given]) {
        for Given { of, text } in given.iter().filter(|_| self.file.is_some()) {
            if let Err(why) = session.hide(text) {
                crate::text::write_stderr(&format!("probe: the journal may contain {of}: {why}\n"));
            }
        }
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
    File(io::Error),
    Journal(JournalError),
}

/// Replays a journal. There is a report even if the journal is cut off.
pub(crate) fn replay(settings: &Arc<Settings>, path: &Path) -> Result<(Ended, Option<JournalError>), Failed> {
    let journal = std::fs::read(path).map_err(Failed::File)?;
    match Replay::new(&journal, limits()).map_err(Failed::Journal)? {
        Replay::Lines(player) => Run::new(player, settings, None).go(),
        Replay::Http(player) => Run::new(player, settings, Some(Site::default())).go(),
        Replay::Messages(_) | _ => {
            Err(Failed::Journal(JournalError::NotAJournal { why: "probe has no such binding".into() }))
        }
    }
}

struct Run<'a, B: JournalBinding> {
    player: Box<Player<'a, Client<B>>>,
    observer: Observer,
    calls: Vec<CallRecord>,
    /// The call whose result follows, then the call in flight with its start.
    requested: Option<Step>,
    calling: Option<(RequestId, Step, Time)>,
    /// The last input was the time, and nothing was polled since.
    is_timeout: bool,
}

impl<'a, B: JournalBinding<Action: Shown>> Run<'a, B> {
    fn new(player: Box<Player<'a, Client<B>>>, settings: &Arc<Settings>, site: Option<Site>) -> Self {
        let options = player.get().options();
        let peer = Peer::new((&*options.server).into(), site, Trace::new(options.limits.message, false));
        // What a run does after an event is in the journal.
        let mut observer = Observer::new(settings, vec![peer], false, drop);
        observer.is_replay = true;
        Self { player, observer, calls: Vec::new(), requested: None, calling: None, is_timeout: false }
    }

    fn go(mut self) -> Result<(Ended, Option<JournalError>), Failed> {
        let mut cut = None;
        loop {
            match self.player.next() {
                None => break,
                Some(Ok(played)) => self.played(played),
                Some(Err(error @ JournalError::CutOff { .. })) => cut = Some(error),
                Some(Err(error)) => return Err(Failed::Journal(error)),
            }
        }
        if let Some((_, step, _)) = self.calling.take() {
            self.calls.push(CallRecord::without_answer(&step, "not-sent"));
        }
        self.observer.end(self.player.now());
        let client: &Client<B> = self.player.get();
        let mut peer = self.observer.peers.swap_remove(0);
        peer.record.calls = self.calls;
        let session = peer.last.take().unwrap_or_else(|| Engine::clone(client));
        peer.record.diagnose(|failure| Diagnosis::new(failure, &session, &StderrLines::default()));
        Ok((Ended { session, peer }, cut))
    }

    fn played(&mut self, played: Played<Client<B>>) {
        let client: &Client<B> = self.player.get();
        let moment = Moment { now: self.player.now(), session: Some(client) };
        match played {
            Played::Command(command) => self.command(moment.now, &command),
            Played::Input(input) => {
                given(&mut self.observer, moment, &input);
                self.is_timeout = matches!(input, Recorded::Timeout);
                if let Recorded::OAuth(OAuthReport::SignOut) = input {
                    self.observer.is_signing_out = true;
                }
            }
            Played::Result(result) => {
                let Some(step) = self.requested.take() else { return };
                let unsent = match result {
                    // One that follows another was not sent, but at the end of the run.
                    Ok(Some(request)) => {
                        self.calling.replace((request, step, moment.now)).map(|(_, step, _)| (step, "not-sent"))
                    }
                    Ok(None) => Some((step, "not-sent")),
                    Err(CommandError::NotAdvertised { .. }) => Some((step, "not-advertised")),
                    Err(_) => Some((step, "not-sent")),
                };
                let unsent = unsent.map(|(step, outcome)| CallRecord::without_answer(&step, outcome));
                self.calls.extend(unsent);
            }
            Played::Action(action) => {
                self.is_timeout = false;
                match action.shown() {
                    Some(Output::Event(Event::Finished { request, outcome, .. })) => {
                        let called = self.calling.take_if(|(calling, ..)| *calling == request);
                        let Some((_, step, since)) = called else { return };
                        self.calls.push(CallRecord::ended(&step, outcome, moment.now.since(since)));
                    }
                    Some(Output::Event(event)) => self.observer.event(0, moment, &event),
                    Some(output) => self.observer.output(0, moment, &output),
                    None => {}
                }
            }
            Played::Idle | Played::End(_) | _ => self.is_timeout = false,
        }
    }

    /// Takes a command of the run.
    #[allow(clippy::wildcard_enum_match_arm, reason = "all others change nothing of the report")]
    fn command(&mut self, now: Time, command: &Command) {
        let was_timeout = std::mem::take(&mut self.is_timeout);
        let is_late = match command {
            Command::Cancel { .. } => true,
            Command::Close => was_timeout,
            _ => false,
        };
        if is_late && let Some(peer) = self.observer.peers.first_mut() {
            peer.fail_late(now);
        }
        match command {
            Command::Request(_) => self.requested = step_of(command),
            Command::Close => self.observer.is_closing = true,
            _ => {}
        }
    }
}

/// Gives the observer a recorded input, as a driver does.
#[allow(clippy::wildcard_enum_match_arm, reason = "there is the time besides")]
fn given(observer: &mut Observer, moment: Moment<'_>, input: &Recorded) {
    let mut http = |exchange: &ExchangeId, piece: &HttpPiece| {
        observer.input(0, moment, None, &Input::Http(*exchange, piece));
    };
    match input {
        Recorded::Head { exchange, status, headers } => http(exchange, &HttpPiece::Head(*status, headers.clone())),
        Recorded::Body { exchange, bytes } => http(exchange, &HttpPiece::Body(bytes.to_vec())),
        Recorded::End { exchange } => http(exchange, &HttpPiece::End),
        Recorded::Failure { exchange, broken, why } => http(exchange, &HttpPiece::Failure(*broken, why.to_string())),
        Recorded::Bytes { connection, bytes } => {
            observer.input(0, moment, None, &Input::Bytes(*connection, bytes));
        }
        Recorded::Transport { connection, event } => {
            observer.input(0, moment, None, &Input::Transport(*connection, event.as_transport()));
        }
        Recorded::OAuth(report) => observer.input(0, moment, None, &Input::OAuth(report.as_input())),
        _ => {}
    }
}

/// What a recorded action is as an output of a driver.
trait Shown {
    fn shown(self) -> Option<Output<Event>>;
}

impl Shown for Action {
    fn shown(self) -> Option<Output<Event>> {
        Output::of_lines(self)
    }
}

impl Shown for HttpAction {
    fn shown(self) -> Option<Output<Event>> {
        Output::of_http(self)
    }
}

/// The step that a recorded request was.
fn step_of(command: &Command) -> Option<Step> {
    let value = serde_json::to_value(command).ok()?;
    let request = value.get("value")?;
    let (option, member) = match request.get("method")?.as_str()? {
        "tools/call" => ("call", "name"),
        "resources/read" => ("read", "uri"),
        "prompts/get" => ("prompt", "name"),
        _ => return None,
    };
    Step::new(option, request.get("params")?.get(member)?.as_str()?.into())
}
