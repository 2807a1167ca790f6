//! Sessions over lines, with a server that is a function call.

use std::time::Duration;

use mcp_proto::{Action, Client, Eras, Lines, Options, Outgoing, ProtocolVersion, Time, Transport};

pub const CAPABILITIES: &str = r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"logging":{},"completions":{}}"#;

/// Options for a legacy server.
pub fn legacy() -> Options {
    let mut options = Options::new("scale", "1");
    options.eras = Eras::LegacyOnly;
    options.keepalive = None;
    options.capabilities.elicitation = true;
    options.capabilities.sampling = true;
    options
}

/// Options for a modern server.
pub fn modern() -> Options {
    let mut options = legacy();
    options.eras = Eras::ModernOnly(ProtocolVersion::NEWEST_MODERN);
    options
}

/// Options that allow this many open requests.
pub fn wide(mut options: Options, requests: usize) -> Options {
    let limits = &mut options.limits;
    (limits.in_flight, limits.queued) = (requests + 16, requests + 16);
    limits.output = limits.output.max(4 * requests + 64);
    options
}

pub fn line(id: u64, result: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n")
}

pub fn error(id: u64, code: i64, message: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":{code},\"message\":\"{message}\"}}}}\n")
}

pub fn note(method: &str, params: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{params}}}\n")
}

pub fn asks(id: &str, method: &str, params: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n")
}

pub const EMPTY: &str = r#"{"resultType":"complete","tools":[],"prompts":[],"resources":[],"resourceTemplates":[]}"#;

/// The response to `initialize` or `server/discover`.
pub fn greeting(message: &Outgoing, capabilities: &str) -> Option<String> {
    match message.method()? {
        "initialize" => {
            let version = message.version().map_or("", ProtocolVersion::as_str);
            Some(format!(
                r#"{{"protocolVersion":"{version}","capabilities":{capabilities},"serverInfo":{{"name":"s","version":"1"}}}}"#
            ))
        }
        "server/discover" => Some(format!(
            r#"{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{capabilities}}}"#
        )),
        _ => None,
    }
}

/// The response of a server without items.
pub fn usual(message: &Outgoing) -> Option<String> {
    greeting(message, CAPABILITIES).or_else(|| {
        let lists = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"];
        lists.contains(&message.method()?).then(|| EMPTY.into())
    })
}

/// A session over lines, with its clock.
pub struct Peer {
    pub session: Client<Lines>,
    pub now: Time,
}

impl Peer {
    /// A session that is not open.
    pub fn new(options: Options) -> Self {
        Self { session: Client::new(Lines::new(), options, 0), now: Time::ZERO }
    }

    /// A session with an open transport.
    pub fn open(options: Options) -> Self {
        let mut peer = Self::new(options);
        peer.session.open(peer.now).unwrap();
        peer.reopen();
        peer
    }

    /// A ready session; its server has no items.
    pub fn ready(options: Options) -> Self {
        Self::served(options, usual)
    }

    /// A ready session; its server responds with `answer`.
    pub fn served(options: Options, answer: impl FnMut(&Outgoing) -> Option<String>) -> Self {
        let mut peer = Self::open(options);
        peer.serve(answer);
        assert!(peer.session.is_ready());
        peer
    }

    pub fn reopen(&mut self) {
        while self.session.poll().is_some_and(|action| !matches!(action, Action::Open(_))) {}
        self.report(Transport::Opened);
    }

    /// Responds to messages until there is nothing left to do.
    pub fn serve(&mut self, mut answer: impl FnMut(&Outgoing) -> Option<String>) {
        while let Some(action) = self.session.poll() {
            if let Action::Send(message) = action
                && let (Some(id), Some(result)) = (message.wire_id().map(|id| id.as_u64()), answer(&message))
            {
                self.say(&line(id, &result));
            }
        }
    }

    /// Polls until a message with this method appears, and returns its id.
    pub fn sent(&mut self, method: &str) -> u64 {
        while let Some(action) = self.session.poll() {
            if let Action::Send(message) = action
                && message.method() == Some(method)
            {
                return message.wire_id().map(|id| id.as_u64()).unwrap();
            }
        }
        panic!("no {method} was sent");
    }

    /// A session that waits for the response to this list method, and the request's id.
    pub fn listing(options: Options, method: &str) -> (Self, u64) {
        let mut peer = Self::open(options);
        while let Some(action) = peer.session.poll() {
            let Action::Send(message) = action else { continue };
            if message.method() == Some(method) {
                return (peer, message.wire_id().map(|id| id.as_u64()).unwrap());
            }
            if let (Some(id), Some(result)) = (message.wire_id().map(|id| id.as_u64()), usual(&message)) {
                peer.say(&line(id, &result));
            }
        }
        panic!("no {method} was sent");
    }

    /// The server writes these bytes.
    pub fn say(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.session.handle_bytes(self.now, self.session.connection(), bytes);
    }

    /// The transport reports an event.
    pub fn report(&mut self, event: Transport<'_>) {
        self.session.handle_transport(self.now, self.session.connection(), event);
    }

    /// Polls everything, and returns the ids of the requests.
    pub fn ids(&mut self) -> Vec<u64> {
        let mut ids = Vec::new();
        while let Some(action) = self.session.poll() {
            if let Action::Send(message) = action {
                ids.extend(message.wire_id().map(|id| id.as_u64()));
            }
        }
        ids
    }

    /// Polls everything, and returns the number of actions.
    pub fn drain(&mut self) -> usize {
        std::iter::from_fn(|| self.session.poll()).count()
    }

    /// Waits for the delay before a changed list is requested again.
    pub fn wait_for_list(&mut self) {
        self.drain();
        self.now = self.now + Duration::from_secs(120);
        self.session.handle_timeout(self.now);
    }

    /// Advances the time and handles timeouts; the resulting actions are dropped.
    pub fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        self.drain();
        while let Some(deadline) = self.session.deadline().filter(|deadline| *deadline <= end) {
            self.now = self.now.max(deadline);
            self.session.handle_timeout(self.now);
            self.drain();
        }
        self.now = end;
    }
}
