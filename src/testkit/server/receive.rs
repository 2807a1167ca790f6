//! Takes the messages of clients.

use std::format;
use std::string::ToString;

use serde_json::{Value, json};

use super::asked::Asked;
use super::meta::modern_version;
use super::parts::{FakeServer, Listen, What};
use crate::protocol::method;
use crate::testkit::channel::ChannelId;
use crate::testkit::script::Reply;
use crate::{Era, ProtocolVersion};

/// Ids of a session that are remembered.
const IDS: usize = 65_536;

impl FakeServer {
    /// Takes a message on a connection.
    pub(super) fn receive(&mut self, channel: ChannelId, message: &Value) {
        self.state.note(message);
        let session = self.state.channels.get(&channel).and_then(|channel| channel.session);
        let is_request = message.get("id").is_some();
        match message.get("method").and_then(Value::as_str) {
            None => self.answered(session, message),
            Some(method) if !is_request => self.notified(channel, session, method, message),
            Some(method) => self.request(channel, session, method, message),
        }
    }

    /// The client answers a server request.
    fn answered(&mut self, session: Option<u64>, message: &Value) {
        let id = message.get("id").and_then(Value::as_u64);
        let open = session.and_then(|session| self.state.sessions.get_mut(&session));
        let ask = open.zip(id).and_then(|(session, id)| session.asks.remove(&id));
        match ask {
            Some(Some(call)) => self.ask_next(call),
            Some(None) => {}
            None => self.state.violation(format!("a response to no server request: {message}")),
        }
    }

    fn notified(&mut self, channel: ChannelId, session: Option<u64>, method: &str, message: &Value) {
        self.recorded_notification(session, method);
        let open = session.and_then(|session| self.state.sessions.get_mut(&session));
        match (method, open) {
            (method::INITIALIZED, Some(session)) if session.version.is_some() => session.is_initialized = true,
            (method::INITIALIZED, _) => self.state.violation(format!("{method} before initialize")),
            (method::CANCELLED, _) => {
                let id = message.get("params").and_then(|params| params.get("requestId"));
                self.cancelled(channel, session, id.unwrap_or(&Value::Null));
            }
            _ => {}
        }
    }

    /// A request is cancelled: what it still waits for is dropped. Over HTTP the request came on another connection of
    /// the session.
    fn cancelled(&mut self, channel: ChannelId, session: Option<u64>, id: &Value) {
        let channels = &self.state.channels;
        let is_of = |other: ChannelId| {
            let known = channels.get(&other).and_then(|channel| channel.session);
            other == channel || session.is_some() && known == session
        };
        self.state.jobs.retain(|_, job| !(is_of(job.channel) && job.of.as_ref() == Some(id)));
        self.state.calls.retain(|_, call| !(is_of(call.channel) && call.message.get("id") == Some(id)));
        self.state.listens.retain(|listen| !(is_of(listen.channel) && listen.id == *id));
    }

    fn request(&mut self, channel: ChannelId, session: Option<u64>, method: &str, message: &Value) {
        let asked = |era, session| Asked { channel, session, era, message };
        if method == method::INITIALIZE {
            return self.open(asked(Era::Legacy, session));
        }
        if let Some(version) = modern_version(message).filter(|_| self.speaks(Era::Modern)) {
            if !self.versions.iter().any(|known| version.as_str() == Some(known.as_str())) {
                let names = self.versions.iter().map(|version| json!(version.as_str()));
                let data = json!({"supported": names.collect::<Value>(), "requested": version});
                let refusal = json!({"code": -32022, "message": "Unsupported protocol version", "data": data});
                return self.answer_with(asked(Era::Modern, None), Err(refusal));
            }
            if method == method::LISTEN && !self.is_handled(method) {
                return self.listen(asked(Era::Modern, None));
            }
            return self.execute(asked(Era::Modern, None));
        }
        self.check(session, method, message);
        self.execute(asked(Era::Legacy, session));
    }

    /// Notes what a legacy client must not do.
    fn check(&mut self, session: Option<u64>, method: &str, message: &Value) {
        // A client finds out the era with this.
        if method == method::DISCOVER {
            return;
        }
        let Some(session) = session.and_then(|session| self.state.sessions.get_mut(&session)) else { return };
        let (version, is_initialized) = (session.version, session.is_initialized);
        let id = message.get("id").map(ToString::to_string).unwrap_or_default();
        let is_new = session.ids.len() >= IDS || session.ids.insert(id.clone());
        if version.is_none() {
            self.state.violation(format!("{method} before initialize"));
        } else if !is_initialized && method != method::PING {
            self.state.violation(format!("{method} before {}", method::INITIALIZED));
        }
        if !is_new {
            self.state.violation(format!("the id {id} is used again, by {method}"));
        }
    }

    /// `initialize`: a function may answer it; the session has the offered version then.
    fn open(&mut self, asked: Asked<'_>) {
        let version = if self.plays() {
            self.recorded_version(asked.params())
        } else if self.is_handled(method::INITIALIZE) {
            let offered = asked.params().get("protocolVersion").and_then(Value::as_str);
            Some(offered.and_then(|version| version.parse().ok()).unwrap_or(ProtocolVersion::NEWEST_LEGACY))
        } else {
            self.initialized(asked.params()).map(|(version, _)| version)
        };
        self.execute(asked);
        if let Some(session) = asked.session.and_then(|session| self.state.sessions.get_mut(&session)) {
            session.version = version;
            session.is_initialized = false;
            session.subscribed.clear();
            session.ids.clear();
        }
    }

    fn listen(&mut self, asked: Asked<'_>) {
        if let Some(turn) = self.recorded_turn(asked) {
            // Its acknowledgement is the first that is said.
            if !turn.said.is_empty() {
                self.now(asked.channel, What::Stream);
                let (channel, id) = (asked.channel, asked.id().clone());
                self.state.listens.push(Listen { channel, id, filter: Value::Null });
            }
            self.finish(asked, Reply::Normal, Some(turn));
            return self.tell_news();
        }
        self.now(asked.channel, What::Stream);
        let filter = self.agree(asked);
        self.state.listens.push(Listen { channel: asked.channel, id: asked.id().clone(), filter });
    }
}
