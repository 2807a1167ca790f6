//! Plays a journal: its answers in place of the content's, and what the server said besides.

use core::time::Duration;
use std::string::ToString;
use std::vec::Vec;

use serde_json::{Value, json};

use super::asked::{Asked, error};
use super::meta::SUBSCRIPTION;
use super::parts::{FakeServer, What};
use super::playback::News;
use crate::journal::{JournalError, JournalLimits};
use crate::protocol::method;
use crate::testkit::recording::{Mismatch, Recorded, Recording};
use crate::testkit::turn::{Answer, Turn};
use crate::{Era, ProtocolVersion};

/// Mismatches that are kept.
const MISMATCHES: usize = 256;

impl FakeServer {
    /// A server that plays a journal (feature `journal`), over pipes or HTTP, whichever the journal is of.
    ///
    /// Each request is answered as the recorded server answered the request with the same method and parameters, after
    /// the same time, with the request's own id. `_meta` is not compared, of `initialize` only the offered version is, of
    /// a notification nothing but the method. Equal requests get their answers in the recorded order, and further ones
    /// the last of them. Questions, progress reports and other notifications follow the message of the client that they
    /// followed in the journal, in order. A request that was never answered is not answered; where the connection broke,
    /// it breaks. The answers are equal as JSON values.
    ///
    /// A request that the journal does not have is one of [`mismatches`](Self::mismatches), except for `ping`, which is
    /// answered. Scripts come first: with them, a recorded server is silent, late, or dies.
    ///
    /// # Errors
    /// What is wrong with the journal. One that is cut off is refused.
    pub fn from_journal(journal: &[u8], limits: JournalLimits) -> Result<Self, JournalError> {
        Recording::new(journal, limits).map(Self::of_recording)
    }

    /// A server that plays one of the servers of a hub's journal, all its sessions, as
    /// [`from_journal`](Self::from_journal) does. If an entry changed its transport, the sessions over the last one are
    /// played.
    ///
    /// # Errors
    /// What is wrong with the journal; [`JournalError::NoServer`] if no session of this server reported an event.
    pub fn from_hub_journal(journal: &[u8], server: &str, limits: JournalLimits) -> Result<Self, JournalError> {
        Recording::of_hub(journal, server, limits).map(Self::of_recording)
    }

    fn of_recording(recording: Recording) -> Self {
        let mut server = Self::new(recording.versions.iter().copied());
        server.playback.recording = Some(recording);
        server
    }

    /// The requests that were not in the journal, in order: the first 256 (feature `journal`).
    pub fn mismatches(&self) -> &[Mismatch] {
        &self.playback.mismatches
    }

    pub(super) const fn plays(&self) -> bool {
        self.playback.recording.is_some()
    }

    /// The version of a session that is opened with these parameters.
    pub(super) fn recorded_version(&self, params: &Value) -> Option<ProtocolVersion> {
        self.playback.recording.as_ref()?.version(params)
    }

    /// What a request causes, if the server plays a journal.
    pub(super) fn recorded_turn(&mut self, asked: Asked<'_>) -> Option<Turn> {
        let recording = self.playback.recording.as_mut()?;
        match recording.take(asked.method(), asked.params()) {
            Ok(Recorded { mut turn, news }) => {
                turn.said.retain_mut(|(_, message)| addressed(message, asked));
                self.add_news(asked.session, news);
                Some(turn)
            }
            Err(_) if asked.method() == method::PING && asked.era == Era::Legacy => None,
            Err(mismatch) => {
                let outcome = Err(error(-32603, &mismatch.to_string()));
                if self.playback.mismatches.len() < MISMATCHES {
                    self.playback.mismatches.push(mismatch);
                }
                Some(Turn::of(Answer::Message { status: 200, outcome }))
            }
        }
    }

    /// A notification of the client.
    pub(super) fn recorded_notification(&mut self, session: Option<u64>, method: &str) {
        let recording = self.playback.recording.as_mut();
        if let Some(Ok(Recorded { news, .. })) = recording.map(|it| it.take(method, &Value::Null)) {
            self.add_news(session, news);
        }
    }

    fn add_news(&mut self, session: Option<u64>, news: Vec<(Duration, Value)>) {
        for (after, message) in news {
            self.playback.due = self.playback.due.max(self.state.now + after);
            self.playback.waiting.push_back(News { at: self.playback.due, session, message });
        }
        self.tell_news();
    }

    /// Tells what waits for a stream, where there is one now.
    pub(super) fn tell_news(&mut self) {
        let mut waiting = core::mem::take(&mut self.playback.waiting);
        waiting.retain_mut(|news| !self.tell_one(news));
        self.playback.waiting = waiting;
    }

    fn tell_one(&mut self, News { at, session, message }: &mut News) -> bool {
        let time = at.since(self.state.now);
        let Some(session) = session else {
            let listens = self.state.listens.iter().map(|listen| (listen.channel, listen.id.clone()));
            let listens: Vec<_> = listens.collect();
            for (channel, id) in &listens {
                let mut message = message.clone();
                set(&mut message, &["params", "_meta", SUBSCRIPTION], id);
                self.after(time, *channel, None, What::Message { message, ends: None });
            }
            return !listens.is_empty();
        };
        let id = self.state.next();
        let Some(open) = self.state.sessions.get_mut(session) else { return true };
        let Some(stream) = open.stream else { return false };
        if message.get("id").is_some() {
            open.asks.insert(id, None);
            set(message, &["id"], &json!(id));
        }
        self.after(time, stream, None, What::Message { message: core::mem::take(message), ends: None });
        true
    }
}

/// Makes a notification one about this request. False if its client does not want it.
fn addressed(message: &mut Value, asked: Asked<'_>) -> bool {
    match message.get("method").and_then(Value::as_str) {
        Some(method::PROGRESS) => {
            let token = asked.params().get("_meta").and_then(|meta| meta.get("progressToken"));
            token.map(|token| set(message, &["params", "progressToken"], token)).is_some()
        }
        Some(method::ACKNOWLEDGED) => {
            set(message, &["params", "_meta", SUBSCRIPTION], asked.id());
            true
        }
        _ => true,
    }
}

/// Sets a member that is there, at this path.
fn set(message: &mut Value, path: &[&str], value: &Value) {
    let found = path.iter().try_fold(message, |message, name| message.get_mut(*name));
    found.into_iter().for_each(|member| *member = value.clone());
}
