//! The body of the target `hub`: a hub under operations, with a scripted server for each name. `Rig` checks each output.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use mcp_proto::host::Saved;
use mcp_proto::host::config::Configuration;
use mcp_proto::host::hub::ServerState as State;
use mcp_proto::host::hub::{CallError, CallId, Hub, HubCommandError, HubOptions, SessionHandle};
use mcp_proto::host::names::Target;
use mcp_proto::jsonrpc::ErrorObject;
use mcp_proto::protocol::Root;
use mcp_proto::{Family, LogLevel, Reconnect, Request, RequestId, ServerRequestId, Time, Transport};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

#[cfg(feature = "oauth")]
use super::checks::has_marker;
use super::checks::{END, check_form};
use super::input::{Input, raw};
#[cfg(feature = "oauth")]
use super::oauth::{CLIENT, METADATA, RESOURCE, TOKEN};
use crate::common::{KEY, drain, legacy};
use crate::rig::{Behaviour, Rig, full};

const NAMES: [&str; 5] = ["a", "b-c", "b.c", "d", "e"];
const TOOLS: [&str; 4] = ["x", "y-z", "y.z", "list_resources"];

/// Operations of one input. More take long and reach nothing new.
const MOST: usize = 200;

/// Reads the bytes as operations on a hub, and checks the laws after each.
pub fn hub(bytes: &[u8]) -> u64 {
    // Snapshots, which the laws of hubs take, do not contain what an authorization needs.
    let (bytes, may_authorize) = bytes.strip_prefix(b"A").map_or((bytes, false), |rest| (rest, true));
    let mut world = World::run_from(bytes, may_authorize, |_| {});
    world.end();
    let mut print = DefaultHasher::new();
    format!("{:?}", world.outputs()).hash(&mut print);
    print.finish()
}

fn some<'a>(names: &[&'a str], mask: u8) -> Vec<&'a str> {
    names.iter().enumerate().filter(|(at, _)| mask >> at & 1 == 1).map(|(_, name)| *name).collect()
}

/// Adds servers with these names. Each is different.
fn with_servers(rig: Rig, names: &[&str]) -> Rig {
    names.iter().enumerate().fold(rig, |rig, (at, name)| {
        rig.peer(name, full(&TOOLS[..at.min(TOOLS.len())], &["r"][..at % 2], &["p"][..at / 2 % 2]))
    })
}

/// A rig, and the expected state.
pub struct World {
    pub rig: Rig,
    pub names: Vec<&'static str>,
    pub entries: BTreeMap<&'static str, Value>,
    pub saved: Vec<Saved>,
    pub calls: Vec<CallId>,
    pub handles: BTreeSet<SessionHandle>,
    /// Whether sessions may authorize themselves. Then the hub is not moved.
    may_authorize: bool,
    /// How many events were checked.
    pub checked: usize,
    pub polling_paused: usize,
    pub is_open: bool,
}

impl World {
    /// Reads the options.
    fn new(input: &mut Input<'_>) -> Self {
        let names = NAMES[..3 + input.pick(3)].to_vec();
        let mut session = legacy();
        session.reconnect = (input.pick(2) == 1).then(Reconnect::default);
        session.limits.queued = 1 + input.pick(3);
        let mut options = HubOptions::new(session);
        options.starts = 1 + input.pick(3);
        options.required = some(&names, input.bits() & 7).into_iter().map(Into::into).collect();
        options.breaker = options.breaker.filter(|_| input.pick(2) == 1);
        let mut rig = with_servers(Rig::new(options), &names);
        for name in some(&names, input.bits()) {
            rig.get(name).ignores_end_of_input = true;
        }
        let entries = names.iter().map(|name| (*name, json!({"command": name}))).collect();
        let mut world = Self {
            rig,
            names,
            entries,
            saved: vec![],
            calls: vec![],
            handles: BTreeSet::new(),
            may_authorize: false,
            checked: 0,
            polling_paused: 0,
            is_open: false,
        };
        world.configure();
        // Servers whose toolset was saved before.
        let before = with_servers(Rig::of(legacy()), &world.names).up(&world.names);
        for name in some(&world.names, input.bits()) {
            let saved = before.hub.save(Time::ZERO, name, KEY, 7).unwrap();
            world.command(|hub, now| hub.restore(now, name, saved.clone())).unwrap();
            world.saved.push(saved);
        }
        world.rig.collect();
        world
    }

    /// Runs operations, and `then` after each.
    pub fn run_and(bytes: &[u8], then: impl FnMut(&mut Self)) -> Self {
        Self::run_from(bytes, false, then)
    }

    fn run_from(bytes: &[u8], may_authorize: bool, mut then: impl FnMut(&mut Self)) -> Self {
        let mut input = Input(bytes);
        let mut world = Self::new(&mut input);
        world.may_authorize = may_authorize;
        for _ in 0..MOST {
            let Some(operation) = input.operation() else { break };
            world.operate(operation, &mut input);
            then(&mut world);
        }
        world
    }

    pub fn run(bytes: &[u8]) -> Self {
        Self::run_and(bytes, |_| {})
    }

    pub fn outputs(&self) -> impl std::fmt::Debug + PartialEq {
        (self.rig.log.clone(), format!("{:?}{:?}", self.rig.events, self.rig.sent))
    }

    fn name(&self, input: &mut Input<'_>) -> &'static str {
        self.names[input.pick(self.names.len())]
    }

    /// Gives a command. A refused command must change nothing, except that deadlines that are due are handled.
    fn command<T, E>(&mut self, command: impl FnOnce(&mut Hub, Time) -> Result<T, E>) -> Result<T, E>
    where
        E: std::error::Error + PartialEq + Serialize + DeserializeOwned,
    {
        let before = self.rig.hub.clone();
        let result = command(&mut self.rig.hub, self.rig.now);
        if let Err(error) = &result {
            assert!(
                check_form(error) == *error && !error.to_string().is_empty(),
                "another error than {error:?} was read"
            );
            assert!(is_unchanged(&before, &self.rig.hub, self.rig.now), "{error:?} changed something");
        }
        result
    }

    fn configure(&mut self) {
        let configuration: Configuration = serde_json::from_value(json!(self.entries)).unwrap();
        let before: BTreeMap<_, _> = self.names.iter().map(|name| (*name, self.rig.hub.handle(name))).collect();
        let Ok(changes) = self.command(|hub, now| hub.configure(now, configuration)) else {
            return assert!(self.rig.is_closing());
        };
        for server in changes.unchanged.iter().chain(&changes.invalid) {
            assert_eq!(self.rig.hub.handle(server), before[&**server], "{server} was touched");
        }
        for change in &changes.changed {
            let (former, now) = (before[&*change.server], self.rig.hub.handle(&change.server));
            assert!(!change.needs_session() || now.is_none() || former != now, "{change:?} without another session");
            assert!(change.needs_session() || former == now, "{change:?} took a session");
        }
        for server in &changes.removed {
            assert_eq!(self.rig.hub.handle(server), None);
        }
        for report in self.rig.hub.servers() {
            assert_eq!(report.handle.is_some(), report.entry.enabled, "{}", report.name);
        }
    }

    fn change(&mut self, name: &'static str, input: &mut Input<'_>) {
        let entry = self.entries.entry(name).or_insert_with(|| json!({"command": name}));
        match input.pick(12) {
            0 => drop(self.entries.remove(name)),
            1 => entry["enabled"] = json!(false),
            2 => *entry = json!({"command": format!("{name}{}", input.pick(3))}),
            3 => entry["timeout"] = json!([1, 2, 3, 600][input.pick(4)]),
            // Its program is stopped after so many seconds without use, or at this age.
            4 => (entry["idle_timeout"], entry["max_lifetime"]) = (json!(input.pick(60)), json!(input.pick(200))),
            5 => entry["tools"] = json!({"include": some(&TOOLS, input.bits())}),
            6 => entry["tools"] = json!({"resources": false}),
            7 => *entry = json!({"url": "https://example.com/mcp"}),
            8 => *entry = json!({"url": "/mcp"}),
            9 => *entry = json!({"command": name, "url": "https://example.com/mcp"}),
            11 if self.may_authorize => {
                *entry = json!({"url": "https://mcp.example/mcp", "auth": "oauth", "oauth": {"scopes": "a"}})
            }
            _ => *entry = json!({"command": name}),
        }
    }

    /// A command of a session. One that ended has none.
    fn command_session(&mut self, input: &mut Input<'_>) {
        let name = self.name(input);
        let (kind, at) = (input.pick(13), input.pick(8) as u64);
        let gone = self.handles.iter().copied().find(|handle| self.rig.hub.server(*handle).is_none());
        let Some(session) = self.rig.hub.handle(name).or(gone) else { return };
        let (request, asked) = (RequestId::from_u64(at), ServerRequestId::from_u64(at));
        let object = raw("{\n}");
        let result = self.command(|hub, now| match kind {
            0 => hub.session_mut(session).request(now, Request::call_tool("x", None)).map(drop),
            1 => hub
                .session_mut(session)
                .request(now, Request::read_resource("r:r").timeout(Duration::from_secs(1)))
                .map(drop),
            2 => hub.session_mut(session).cancel(now, request),
            3 => hub.session_mut(session).cancel_with_reason(now, request, "enough"),
            4 => hub.session_mut(session).respond(now, asked, Ok(&object)),
            5 => hub.session_mut(session).respond(now, asked, Err(ErrorObject::new(-1, "no"))),
            6 => hub.session_mut(session).provide(now, request, [("e", &*object)]),
            7 => hub.session_mut(session).decline(now, request),
            8 => hub.session_mut(session).subscribe(now, "r:r"),
            9 => hub.session_mut(session).unsubscribe(now, "r:r"),
            10 => hub.session_mut(session).set_log_level(now, [LogLevel::Debug, LogLevel::Error][at as usize % 2]),
            11 => hub.session_mut(session).set_roots(now, vec![Root::new("file:///a")]),
            _ => hub.session_mut(session).refresh(now, Family::ALL[at as usize % 4]),
        });
        let is_known = self.rig.hub.session(session).is_some();
        match result {
            Err(HubCommandError::UnknownSession) => assert!(!is_known, "{name} is known"),
            Err(HubCommandError::Closed) => assert!(self.rig.is_closing()),
            Err(HubCommandError::Session { server, .. }) => assert!(is_known && *server == *name),
            Err(other) => panic!("{other:?}"),
            Ok(()) => assert!(is_known, "a session that ended took a command"),
        }
    }

    /// Sessions of servers with `auth: oauth` authorize themselves from now on.
    #[cfg(feature = "oauth")]
    fn with_oauth(&mut self) {
        use mcp_proto::binding::oauth::OAuthOptions;
        use mcp_proto::host::hub::HubOAuth;

        let options = OAuthOptions::new("fuzz", "http://127.0.0.1:1/");
        let oauth = HubOAuth::new(options, [7; 32], self.rig.now, Duration::ZERO);
        self.rig.hub = self.rig.hub.clone().with_oauth(oauth);
    }

    /// The authorization server, the user and the store do what an authorization asks for, or fail.
    #[cfg(feature = "oauth")]
    fn authorize(&mut self, input: &mut Input<'_>) {
        use http::{HeaderMap, StatusCode};
        use mcp_proto::binding::oauth::{OAuthAction, OAuthInput};

        let how = input.pick(4);
        let Some((session, _, action)) = self.rig.oauth.pop_front() else { return };
        assert!(!has_marker(format!("{action:?}").as_bytes()), "a secret is shown: {action:?}");
        let (hub, now) = (&mut self.rig.hub, self.rig.now);
        match action {
            OAuthAction::Request(it) if how == 3 => {
                hub.handle_oauth(now, session, OAuthInput::Failure { exchange: it.exchange, why: "reset" });
            }
            OAuthAction::Request(it) => {
                let (exchange, url) = (it.exchange, it.request.uri().to_string());
                let place = ["oauth-protected-resource", "oauth-authorization-server", "/register", "/token"];
                let place = place.iter().position(|place| url.contains(place));
                let body = place.map_or("{}", |at| [RESOURCE, METADATA, CLIENT, TOKEN][at]);
                let status = if place.is_some() && how < 2 { StatusCode::OK } else { StatusCode::NOT_FOUND };
                hub.handle_oauth(now, session, OAuthInput::Head { exchange, status, headers: &HeaderMap::new() });
                hub.handle_oauth(now, session, OAuthInput::Body { exchange, chunk: body.as_bytes() });
                hub.handle_oauth(now, session, OAuthInput::End { exchange });
            }
            OAuthAction::Browse(url) => {
                let state = url.as_str().split("&state=").nth(1).and_then(|rest| rest.split('&').next());
                let query = format!("?state={}&code=x", state.expect("a state"));
                let input = match how {
                    0 | 1 => OAuthInput::Redirect(&query),
                    2 => OAuthInput::Cancel,
                    _ => OAuthInput::NotShown("no browser"),
                };
                hub.handle_oauth(now, session, input);
            }
            _ => hub.handle_clock(now, Duration::from_secs(1)),
        }
    }

    /// Calls one of these tools, or one that no server has.
    fn call(&mut self, names: &[String], input: &mut Input<'_>) {
        let (which, sound) = (input.bits(), input.pick(2) == 1);
        let offered = self.rig.functions();
        let unknown = "mcp_no_such_tool".to_owned();
        let name = names.get(usize::from(which) % (names.len() + 1)).unwrap_or(&unknown);
        let arguments = if sound { "{\n  \"uri\": \"r:\\u0072\",\r\n\t\"name\": \"p\"\n}" } else { "{\n}" };
        let arguments = mcp_proto::RawValue::from_string(arguments.into()).unwrap();
        match self.command(|hub, now| hub.call(now, name, Some(&arguments))) {
            Ok(call) => {
                assert!(offered.contains(name) && !self.calls.contains(&call));
                self.calls.push(call);
                self.rig.accept(call);
            }
            Err(CallError::UnknownTool { .. } | CallError::NotUp { .. }) => {
                assert!(!offered.contains(name), "{name} is offered");
            }
            Err(CallError::Closed) => assert!(self.rig.is_closing()),
            Err(CallError::Arguments { .. }) => assert!(!sound),
            Err(CallError::CoolingDown { .. } | CallError::Session { .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
    }

    /// Input for a removed session changes nothing, except that deadlines that are due are handled.
    fn late(&mut self, input: &mut Input<'_>) {
        let gone: Vec<_> = self.handles.iter().filter(|handle| self.rig.hub.server(**handle).is_none()).collect();
        let Some(handle) = input.choose(&gone) else { return };
        let (now, session, connection) = (self.rig.now, *handle, self.rig.connection(*handle));
        let hub = &mut self.rig.hub;
        hub.handle_timeout(now);
        let before = format!("{hub:?}");
        match input.pick(4) {
            0 => hub.handle_bytes(now, session, connection, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n"),
            1 => hub.handle_transport(now, session, connection, Transport::Opened),
            2 => hub.handle_transport(now, session, connection, Transport::Closed { why: "late" }),
            _ => hub.handle_transport(now, session, connection, Transport::SignOfLife),
        }
        assert!(before == format!("{hub:?}"), "late input changed something");
    }

    fn check_refusal(&mut self, name: &str, result: &Result<(), HubCommandError>) {
        let Err(misuse) = result else { return };
        let entry = self.rig.hub.configuration().servers.get(name);
        match misuse {
            HubCommandError::Closed => assert!(self.rig.is_closing()),
            HubCommandError::UnknownServer { server } => assert!(**server == *name && entry.is_none()),
            HubCommandError::Disabled { server } => assert!(**server == *name && !entry.unwrap().enabled),
            HubCommandError::AlreadyOpen => assert!(self.is_open),
            HubCommandError::Started { .. } => assert_ne!(self.rig.state(name), None),
            HubCommandError::Stale { .. } => assert!(entry.is_some()),
            other => panic!("{other:?}"),
        }
    }

    /// Runs an operation, and checks the laws.
    fn operate(&mut self, operation: u8, input: &mut Input<'_>) {
        let is_command = b"acklmorsuxCZ".contains(&operation);
        self.rig.polls_on_request = is_command && self.polling_paused > 0;
        self.polling_paused = if self.rig.polls_on_request { self.polling_paused - 1 } else { 0 };
        if !self.rig.polls_on_request {
            self.rig.collect();
        }
        match operation {
            b'c' | b'u' => {
                for _ in 0..=input.pick(3) {
                    let name = self.name(input);
                    self.change(name, input);
                }
                self.configure();
            }
            b'o' => {
                let result = self.command(|hub, now| hub.open(now));
                self.check_refusal(self.names[0], &result);
                self.is_open |= result.is_ok();
            }
            b's' => {
                let name = self.name(input);
                let result = self.command(|hub, now| hub.start(now, name));
                self.check_refusal(name, &result);
            }
            b'a' => {
                let name = self.name(input);
                let result = self.command(|hub, now| hub.authorized(now, name));
                self.check_refusal(name, &result);
            }
            b'v' => {
                let name = self.name(input);
                self.saved.extend(self.rig.hub.save(Time::ZERO, name, KEY, 7));
            }
            b'r' => {
                let name = self.name(input);
                let at = input.pick(self.saved.len().max(1));
                let Some(saved) = self.saved.get(at).cloned() else { return };
                let result = self.command(|hub, now| hub.restore(now, name, saved));
                self.check_refusal(name, &result);
            }
            b'k' | b'l' => self.call(&self.rig.functions(), input),
            b'm' => {
                let known: Vec<_> = self.rig.hub.names().iter().map(|(name, _)| name.into_owned()).collect();
                self.call(&known, input);
            }
            b'x' => {
                let open = self.rig.open_calls();
                let of = if input.pick(4) == 0 { &self.calls } else { &open };
                let Some(call) = input.choose(of) else { return };
                let cancelled = self.command(|hub, now| hub.cancel(now, call));
                assert!(cancelled.is_ok() || self.rig.polls_on_request || !open.contains(&call), "{call:?} goes on");
            }
            b'Z' => {
                if !self.rig.is_closing() {
                    self.rig.close();
                }
            }
            b'b' | b'n' => {
                let name = self.name(input);
                let behaviours = [
                    Behaviour::Answers,
                    Behaviour::Silent,
                    Behaviour::DoesNotStart,
                    Behaviour::Exits,
                    Behaviour::Refuses,
                    Behaviour::Garbles,
                ];
                self.rig.set_behaviour(name, behaviours[input.pick(6)]);
            }
            b'e' => {
                let name = self.name(input);
                self.rig.exit(name);
            }
            b't' => {
                let name = self.name(input);
                self.rig.change_tools(name, &some(&TOOLS, input.bits()));
            }
            b'h' => {
                let name = self.name(input);
                match input.pick(2) {
                    0 => self.rig.get(name).unanswered = Some("tools/call"),
                    _ => self.rig.release(name),
                }
            }
            b'i' => {
                let name = self.name(input);
                match input.pick(2) {
                    0 => self.rig.get(name).ignores_end_of_input = true,
                    _ => self.rig.end_process(name),
                }
            }
            b'j' => self.late(input),
            b'C' => self.command_session(input),
            #[cfg(feature = "oauth")]
            b'O' if self.may_authorize => self.with_oauth(),
            #[cfg(feature = "oauth")]
            b'A' => self.authorize(input),
            // The user gives up the sign-in at a server.
            #[cfg(feature = "oauth")]
            b'Q' => {
                let name = self.name(input);
                let Some(session) = self.rig.hub.handle(name) else { return };
                self.rig.hub.handle_oauth(self.rig.now, session, mcp_proto::binding::oauth::OAuthInput::Cancel);
            }
            b'q' => self.rig.wait(input.step().min(Duration::from_secs(600))),
            b'd' | b'y' => {
                if let Some(deadline) = self.rig.hub.deadline() {
                    self.rig.wait(deadline.since(self.rig.now));
                }
            }
            // The next few commands are given without polling.
            b'p' => self.polling_paused = 2 + input.pick(3),
            b'M' | b'N' if self.may_authorize => {}
            #[cfg(feature = "snapshot")]
            b'M' => self.move_with_transport(),
            #[cfg(feature = "snapshot")]
            b'N' => {
                let secrets = [mcp_proto::Secrets::Included, mcp_proto::Secrets::Excluded][input.pick(2)];
                self.rig.move_hub(secrets, mcp_proto::Moved::WithoutTransport);
            }
            _ => self.rig.serve(),
        }
        self.rig.collect();
        self.check();
    }

    /// The restored hub is the saved one.
    #[cfg(feature = "snapshot")]
    pub fn move_with_transport(&mut self) {
        let before = format!("{:?}", self.rig.hub);
        self.rig.move_hub(mcp_proto::Secrets::Included, mcp_proto::Moved::WithTransport);
        assert_eq!(format!("{:?}", self.rig.hub), before);
    }

    fn check(&mut self) {
        for event in &self.rig.events[self.checked..] {
            assert!(check_form(event) == *event, "another event than {event:?} was read");
        }
        self.checked = self.rig.events.len();
        let hub = &self.rig.hub;
        self.handles.extend(hub.servers().filter_map(|report| report.handle));
        let mut seen = BTreeSet::new();
        for (server, function) in hub.functions() {
            assert!(seen.insert(function.name.clone()), "{} twice", function.name);
            let resolved = hub.names().resolve(&function.name).expect(&function.name);
            assert_eq!(resolved.server, server);
            assert_eq!(hub.names().name(server, resolved.target), Some(function.name.clone()));
            assert!(hub.needs_approval(&function.name).is_some(), "{} is unknown", function.name);
            let entry = &hub.configuration().servers[server];
            assert!(entry.enabled);
            if let Target::Tool(tool) = resolved.target {
                assert!(entry.tools.admits(tool), "{tool} is filtered out");
            }
        }
        let shown: BTreeSet<_> = hub.functions().map(|(server, _)| server).collect();
        for (name, resolved) in hub.names().iter().filter(|_| !self.rig.is_closing()) {
            // A server that is not up keeps its names. One that is up has only the names of its tools.
            let enabled = hub.configuration().servers.get(resolved.server).is_some_and(|entry| entry.enabled);
            assert!(enabled, "{name} is a name without a tool");
            assert!(!shown.contains(resolved.server) || seen.contains(&name), "{name} is a name without a tool");
        }
        for report in hub.servers() {
            let chosen = hub.choice(report.name).and_then(|choice| choice.toolset.map(|toolset| toolset.tools.len()));
            assert_eq!(chosen, hub.toolset(report.name).map(|toolset| toolset.tools.len()), "{}", report.name);
            assert_eq!(hub.notices(report.name).is_some(), hub.choice(report.name).is_some(), "{}", report.name);
        }
        let required = &self.rig.options.required;
        assert!(hub.missing().all(|name| required.contains(name)), "a server that is not required is missing");
        if !self.rig.polls_on_request {
            self.check_deadline();
        }
    }

    /// Nothing happens before the deadline, and something at the deadline.
    fn check_deadline(&self) {
        let hub = &self.rig.hub;
        let Some(deadline) = hub.deadline() else {
            let mut later = hub.clone();
            later.handle_timeout(self.rig.now + Duration::from_secs(1_000_000));
            return assert!(later.poll().is_none() && later.deadline().is_none(), "without a deadline nothing is due");
        };
        let before = Time::from_micros(deadline.as_micros().saturating_sub(1));
        if before >= self.rig.now {
            let mut early = hub.clone();
            early.handle_timeout(before);
            assert!(early.poll().is_none(), "something is due before the deadline");
            assert_eq!(early.deadline(), Some(deadline));
        }
        let mut at = hub.clone();
        at.handle_timeout(deadline.max(self.rig.now));
        drain(|| at.poll());
        assert!(at.deadline().is_none_or(|next| next > deadline), "no progress at the deadline");
    }

    /// All servers answer: the hub must reach a final state, and all calls must end.
    fn settle(&mut self) {
        self.rig.polls_on_request = false;
        self.rig.collect();
        for name in self.names.clone() {
            self.rig.set_behaviour(name, Behaviour::Answers);
            self.rig.end_process(name);
            self.rig.release(name);
            let result = self.command(|hub, now| hub.authorized(now, name));
            self.check_refusal(name, &result);
        }
        self.rig.collect();
        self.rig.wait(Duration::from_secs(4000));
        self.check();
        assert_eq!(self.rig.open_calls(), [], "{:#?}", self.rig.log);
        for report in self.rig.hub.servers().filter(|_| self.is_open && !self.rig.is_closing()) {
            let rests = match report.state {
                None => !report.entry.enabled,
                Some(State::Idle) => report.saved_at.is_some(),
                Some(State::Suspended) => report.session.is_some_and(|session| !session.is_ready()),
                Some(State::Ready) => report.session.is_some_and(mcp_proto::Engine::is_ready),
                Some(State::Failed) => report.failure.is_some(),
                Some(_) => false,
            };
            assert!(rests, "{} is {:?}: {:#?}", report.name, report.state, self.rig.log);
        }
    }

    pub fn end(&mut self) {
        self.settle();
        self.rig.hub.clone().handle_timeout(END);
        if !self.rig.is_closing() {
            self.rig.close();
        }
        self.rig.wait(Duration::from_secs(60));
        assert_eq!(self.rig.log.last().unwrap(), "closed");
        assert!(self.rig.hub.is_closed() && self.rig.hub.deadline().is_none());
        assert_eq!(self.rig.running().count(), 0, "a process still runs");
        assert_eq!(self.rig.open_calls(), []);
        assert!(self.rig.count("ready") <= 1);
        let now = self.rig.now;
        assert_eq!(self.rig.hub.open(now), Err(HubCommandError::Closed));
        assert_eq!(self.rig.hub.start(now, "a"), Err(HubCommandError::Closed));
        self.rig.timeout();
    }
}

/// Whether a hub is unchanged, or changed only by handling the deadlines that are due.
pub fn is_unchanged(before: &Hub, after: &Hub, now: Time) -> bool {
    let after = format!("{after:?}");
    let mut served = before.clone();
    served.handle_timeout(now);
    after == format!("{before:?}") || after == format!("{served:?}")
}
