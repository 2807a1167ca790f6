//! Streamable HTTP, seen from the server (specification 2025-11-25 and 2026-07-28, "Streamable HTTP").

use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use ::http::{HeaderMap, Method, Request};
use serde_json::Value;

use super::meta::modern_version;
use super::parts::{Channel, FakeServer, What};
use crate::protocol::method;
use crate::testkit::channel::ChannelId;
use crate::{Era, Time};

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";

impl FakeServer {
    /// The client sends an HTTP request, whole (feature `http`). The response is the outputs for this connection.
    pub fn handle_request(&mut self, now: Time, channel: ChannelId, request: &Request<Vec<u8>>) {
        self.advance(now);
        self.state.channels.insert(channel, Channel::new(true, None));
        if let Err((status, text)) = self.route(channel, request) {
            self.now(channel, What::Status { status, text });
        }
    }

    /// An error is a refusal: a status and a text.
    fn route(&mut self, channel: ChannelId, request: &Request<Vec<u8>>) -> Result<(), (u16, String)> {
        let headers = request.headers();
        if *request.method() == Method::POST {
            return self.post(channel, headers, request.body());
        }
        if !self.speaks(Era::Legacy) {
            return Err((405, String::new()));
        }
        let key = self.session(headers)?;
        if *request.method() == Method::DELETE {
            self.state.sessions.remove(&key);
            self.now(channel, What::Status { status: 200, text: String::new() });
            return Ok(());
        }
        if let Some(last) = headers.get("last-event-id").and_then(|last| last.to_str().ok()).filter(|_| self.resumes) {
            self.state.channels.remove(&channel);
            return self.resume(channel, key, last);
        }
        if !self.with_stream {
            return Err((405, String::new()));
        }
        if let Some(session) = self.state.sessions.get_mut(&key) {
            session.stream = Some(channel);
        }
        self.join(channel, key);
        self.now(channel, What::Stream);
        self.tell_news();
        Ok(())
    }

    fn post(&mut self, channel: ChannelId, headers: &HeaderMap, body: &[u8]) -> Result<(), (u16, String)> {
        let message: Value = serde_json::from_slice(body).map_err(|error| {
            self.state.violation(format!("a body that is no message: {error}"));
            (400, error.to_string())
        })?;
        let is_modern = self.speaks(Era::Modern) && modern_version(&message).is_some();
        self.check_headers(headers, &message, is_modern);
        let method = message.get("method").and_then(Value::as_str);
        if is_modern {
            self.receive(channel, &message);
        } else if method == Some(method::INITIALIZE) && self.speaks(Era::Legacy) {
            let name = self.with_sessions.then(|| format!("session-{}", self.state.next()));
            if let (Some(name), Some(known)) = (&name, self.state.channels.get_mut(&channel)) {
                known.headers.push((SESSION, name.clone()));
            }
            let key = self.state.open_session(name, None);
            self.join(channel, key);
            self.receive(channel, &message);
        } else if self.speaks(Era::Legacy) {
            let key = self.session(headers)?;
            self.join(channel, key);
            self.receive(channel, &message);
        } else {
            self.receive(channel, &message);
        }
        // Only a request has an answer.
        if method.is_none() || message.get("id").is_none() {
            self.now(channel, What::Status { status: 202, text: String::new() });
        }
        Ok(())
    }

    fn join(&mut self, channel: ChannelId, session: u64) {
        if let Some(known) = self.state.channels.get_mut(&channel) {
            known.session = Some(session);
        }
    }

    /// The session of a request. A server without sessions has one for all, the newest.
    fn session(&mut self, headers: &HeaderMap) -> Result<u64, (u16, String)> {
        let named = headers.get(SESSION).and_then(|name| name.to_str().ok());
        let mut sessions = self.state.sessions.iter().rev();
        if !self.with_sessions {
            let newest = sessions.next().map(|(key, _)| *key);
            return newest.ok_or_else(|| (400, "Bad Request: Server not initialized".into()));
        }
        let Some(named) = named else { return Err((400, "Bad Request: Mcp-Session-Id header is required".into())) };
        let found = sessions.find(|(_, session)| session.name.as_deref() == Some(named));
        let (key, version) = found.map(|(key, session)| (*key, session.version)).ok_or((404, String::new()))?;
        let sent = headers.get(VERSION).and_then(|version| version.to_str().ok());
        if let (Some(version), Some(sent)) = (version, sent)
            && sent != version.as_str()
        {
            self.state.violation(format!("{VERSION}: {sent} in a session of {version}"));
        }
        Ok(key)
    }

    /// Notes what the client's headers lack.
    fn check_headers(&mut self, headers: &HeaderMap, message: &Value, is_modern: bool) {
        let value = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let accept = value("accept").unwrap_or_default();
        if !accept.contains("application/json") || !accept.contains("text/event-stream") {
            self.state.violation(format!("accept: {accept}"));
        }
        if value("content-type") != Some("application/json") {
            self.state.violation(format!("content-type: {}", value("content-type").unwrap_or_default()));
        }
        if !is_modern {
            return;
        }
        let method = message.get("method").and_then(Value::as_str);
        let version = modern_version(message).and_then(Value::as_str);
        for (name, expected) in [(VERSION, version), ("mcp-method", method)] {
            if value(name) != expected {
                self.state.violation(format!("{name}: {}", value(name).unwrap_or_default()));
            }
        }
    }
}
