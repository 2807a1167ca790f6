//! Values are constructed, compared, serialized and deserialized.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use mcp_proto::binding::http::{Broken, ExchangeId, HttpAction, HttpRequest, WithSecrets};
use mcp_proto::binding::oauth::{GrantKind, Secret};
use mcp_proto::catalog::{Difference, FingerprintKey};
use mcp_proto::host::Utility;
use mcp_proto::host::hub::{CallError, CallId, HubAction, HubCommandError, HubEvent, HubOptions, SessionHandle};
use mcp_proto::host::names::{Names, Style, Target};
use mcp_proto::host::results::Omission;
use mcp_proto::jsonrpc::ErrorObject;
use mcp_proto::protocol::{Capability, Root};
use mcp_proto::{
    Action, Cause, Challenge, CommandError, ConnectionId, Era, Eras, Event, Failure, FailureKind, Family, FamilyStatus,
    InputRequest, KeepaliveMethod, KnownEra, ListErrors, LogLevel, OpenFailure, Options, Outcome, Outgoing, Progress,
    ProtocolVersion, Quirk, QuirkKind, RawValue, Recovery, RefreshOutcome, Request, RequestError, RequestId,
    ResendReason, ServerMethod, ServerRequestId, ShutdownStep, Task, TaskError, TaskStatus, Time, TimeBound,
    TraceContext, WireId,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::common::changed;

/// A deserialized value equals the original, and serializes to the same text.
fn returns<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let text = serde_json::to_string(value).unwrap();
    let read: T = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(&read, value, "{text}");
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
}

/// What a value is replaced by.
fn others(value: &Value) -> Vec<Value> {
    let others = [json!("x"), json!(7), json!(true), json!(null), json!({"x": 1})];
    others.into_iter().filter(|other| other != value).collect()
}

/// Values whose serialized forms differ in one place are unequal; a change that is no value of the type is none.
fn is_unequal_to_each_change<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let form = serde_json::to_value(value).unwrap();
    let value: T = serde_json::from_value(form.clone()).unwrap();
    for other in changed(&form, others).into_iter().filter_map(|other| serde_json::from_value::<T>(other).ok()) {
        assert_eq!(other == value, serde_json::to_value(&other).unwrap() == form, "{other:?}\n{value:?}");
    }
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.into()).unwrap()
}

fn text() -> impl Strategy<Value = Box<str>> {
    any::<String>().prop_map(Into::into)
}

/// JSON whose bytes a conversion would change.
fn any_json() -> impl Strategy<Value = Box<RawValue>> {
    select(&["null", "1.50", "{ \"b\" : [1e2],\n\"a\":\"\\u00e9\" }", "[]", "\"\"", "18446744073709551616"][..])
        .prop_map(raw)
}

fn object() -> impl Strategy<Value = Box<RawValue>> {
    select(&["{}", "{ \"b\": 1.0, \"a\": null }"][..]).prop_map(raw)
}

fn version() -> impl Strategy<Value = ProtocolVersion> {
    select(ProtocolVersion::ALL)
}

fn request_id() -> impl Strategy<Value = RequestId> {
    any::<u64>().prop_map(RequestId::from_u64)
}

fn time() -> impl Strategy<Value = Time> {
    any::<u64>().prop_map(Time::from_micros)
}

fn error_object() -> impl Strategy<Value = ErrorObject> {
    (any::<i64>(), text(), option::of(any_json())).prop_map(|(code, message, data)| {
        let mut error = ErrorObject::new(code, message);
        error.data = data;
        error
    })
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        any_json().prop_map(Outcome::Result),
        error_object().prop_map(|error| Outcome::Error(RequestError::Server(error))),
        (any::<u16>(), text()).prop_map(|(status, message)| Outcome::Error(RequestError::Status { status, message })),
        text().prop_map(|why| Outcome::Error(RequestError::Invalid(why))),
        text().prop_map(|message| Outcome::Error(RequestError::Task(TaskError::Failed { message }))),
        select(vec![TaskError::OtherTask, TaskError::Reopened])
            .prop_map(|error| Outcome::Error(RequestError::Task(error))),
        any_json().prop_map(Outcome::InputRequired),
        select(vec![
            Outcome::NotAdvertised,
            Outcome::TimedOut(TimeBound::Timeout),
            Outcome::TimedOut(TimeBound::Total),
            Outcome::Cancelled,
            Outcome::NotSent,
            Outcome::Unknown
        ]),
    ]
}

fn refresh_outcome() -> impl Strategy<Value = RefreshOutcome> {
    prop_oneof![
        select(vec![RefreshOutcome::Same, RefreshOutcome::Differs, RefreshOutcome::Part]),
        text().prop_map(RefreshOutcome::Failed),
    ]
}

fn difference() -> impl Strategy<Value = Difference> {
    let keys = || vec(text(), 0..3);
    (keys(), keys(), keys()).prop_map(|(added, removed, changed)| Difference::new(added, removed, changed))
}

const REASONS: [ResendReason; 8] = [
    ResendReason::Lost,
    ResendReason::NotSent,
    ResendReason::SessionExpired,
    ResendReason::VersionRefused,
    ResendReason::Authorized,
    ResendReason::Headers,
    ResendReason::Busy,
    ResendReason::Input,
];

fn failure() -> impl Strategy<Value = Failure> {
    (select(FailureKind::ALL), text()).prop_map(|(kind, message)| Failure::new(kind, message))
}

/// Why a request is lost, if it is.
fn loss() -> impl Strategy<Value = Option<Arc<Failure>>> {
    option::of(failure().prop_map(Arc::new))
}

fn quirk() -> impl Strategy<Value = Quirk> {
    (select(QuirkKind::ALL), option::of(select(Family::ALL)), option::of(text()), text()).prop_map(
        |(kind, family, method, detail)| {
            let mut quirk = Quirk::new(kind, detail);
            (quirk.family, quirk.method) = (family, method);
            quirk
        },
    )
}

fn server_method() -> impl Strategy<Value = ServerMethod> {
    select(&[ServerMethod::Elicitation, ServerMethod::Sampling][..])
}

fn event() -> impl Strategy<Value = Event> {
    let input = (text(), server_method(), option::of(any_json()))
        .prop_map(|(key, method, params)| InputRequest::new(key, method, params));
    let challenge = (text(), vec((text(), text()), 0..3)).prop_map(|(scheme, params)| Challenge::new(scheme, params));
    let server_request = any::<u64>().prop_map(ServerRequestId::from_u64);
    let recovery = prop_oneof![
        option::of(time()).prop_map(|at| Recovery::Reopen { at }),
        (time(), any::<bool>()).prop_map(|(until, authorizing)| Recovery::Parked { until, authorizing }),
        Just(Recovery::Close),
    ];
    let levels = [LogLevel::Debug, LogLevel::Error, LogLevel::Emergency];
    prop_oneof![
        Just(Event::Ready),
        (select(Family::ALL), difference())
            .prop_map(|(family, difference)| Event::CatalogChanged { family, difference }),
        (select(Family::ALL), refresh_outcome()).prop_map(|(family, outcome)| Event::Refreshed { family, outcome }),
        (request_id(), outcome(), any::<u32>(), loss()).prop_map(|(request, outcome, attempts, failure)| {
            Event::Finished { request, outcome, attempts, failure }
        }),
        (request_id(), any::<u32>(), select(&REASONS[..])).prop_map(|(request, attempt, reason)| Event::Resending {
            request,
            attempt,
            reason
        }),
        (request_id(), vec(input, 0..3)).prop_map(|(request, inputs)| Event::InputRequired { request, inputs }),
        (option::of(request_id()), any::<bool>(), text(), vec(challenge, 0..3)).prop_map(
            |(request, forbidden, why, challenges)| {
                Event::Unauthorized { request, forbidden, why, challenges: challenges.into() }
            }
        ),
        (server_request.clone(), server_method(), option::of(any_json()))
            .prop_map(|(id, method, params)| Event::ServerRequest { id, method, params }),
        (server_request, prop::option::of(text())).prop_map(|(id, reason)| Event::ServerRequestEnded { id, reason }),
        (request_id(), object())
            .prop_map(|(request, params)| Event::Progress { request, progress: Progress::new(params) }),
        (text(), option::of(request_id())).prop_map(|(id, request)| Event::ElicitationComplete { id, request }),
        (request_id(), any_json()).prop_map(|(request, task)| Event::Task { request, task: Task::new(task) }),
        (text(), proptest::result::maybe_err(Just(()), text()))
            .prop_map(|(uri, outcome)| Event::Subscription { uri, outcome }),
        text().prop_map(|uri| Event::ResourceUpdated { uri }),
        (select(levels.to_vec()), option::of(text()), any_json()).prop_map(|(level, logger, data)| Event::Log {
            level,
            logger,
            data
        }),
        text().prop_map(|why| Event::LogLevelFailed { error: RequestError::Invalid(why) }),
        (text(), option::of(any_json()))
            .prop_map(|(method, params)| Event::Notification { method: String::from(method).into(), params }),
        quirk().prop_map(Event::Quirk),
        (failure(), recovery).prop_map(|(failure, next)| Event::Down { failure, next }),
        Just(Event::Closed { cause: Cause::Requested }),
        failure().prop_map(|failure| Event::Closed { cause: Cause::Failed(failure) }),
    ]
}

fn outgoing() -> impl Strategy<Value = Outgoing> {
    let messages = [
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{ "name":"é" }}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":"a","result":{}}"#,
    ];
    (select(messages.to_vec()), option::of(version()), option::of(request_id()))
        .prop_map(|(message, version, of)| Outgoing::new(&raw(message), version, of))
}

fn connection() -> impl Strategy<Value = ConnectionId> {
    any::<u32>().prop_map(|id| ConnectionId::from_u64(id.into()))
}

fn step() -> impl Strategy<Value = ShutdownStep> {
    select(&[ShutdownStep::CloseInput, ShutdownStep::Terminate, ShutdownStep::Kill][..])
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        connection().prop_map(Action::Open),
        outgoing().prop_map(Action::Send),
        step().prop_map(Action::Shutdown),
        event().prop_map(Action::Event),
    ]
}

fn http_request() -> impl Strategy<Value = HttpRequest> {
    let body = prop_oneof![vec(any::<u8>(), 0..20), Just(b"{\"a\":1}".to_vec())];
    (any::<u64>(), option::of(request_id()), select(&["GET", "POST", "DELETE"][..]), body).prop_map(
        |(exchange, of, method, body)| {
            let request = http::Request::builder()
                .method(method)
                .uri("http://localhost:8080/mcp")
                .header("accept", "application/json, text/event-stream")
                .header("x-twice", "1")
                .header("x-twice", http::HeaderValue::from_bytes(b"\xff").unwrap())
                .body(body);
            HttpRequest::new(ExchangeId::from_u64(exchange), of, request.unwrap())
        },
    )
}

fn exchange() -> impl Strategy<Value = ExchangeId> {
    any::<u64>().prop_map(ExchangeId::from_u64)
}

fn session() -> impl Strategy<Value = SessionHandle> {
    any::<u64>().prop_map(SessionHandle::from_u64)
}

fn hub_event() -> impl Strategy<Value = HubEvent> {
    let server = || text().prop_map(|server| server.as_ref().into());
    let call = prop_oneof![
        (session(), request_id(), option::of(select(Utility::ALL)))
            .prop_map(|(session, request, utility)| CallId::of_request(session, request, utility)),
        (session(), any::<u64>(), select(Utility::ALL))
            .prop_map(|(session, number, utility)| CallId::of_list(session, number, utility)),
    ];
    prop_oneof![
        (session(), server(), event()).prop_map(|(session, server, event)| HubEvent::Session {
            session,
            server,
            event
        }),
        Just(HubEvent::Ready),
        Just(HubEvent::Settled),
        (server(), failure(), any::<bool>()).prop_map(|(server, failure, again)| HubEvent::Failed {
            server,
            failure,
            again
        }),
        (server(), session()).prop_map(|(server, session)| HubEvent::IdleShutdown { server, session }),
        (server(), difference()).prop_map(|(server, difference)| HubEvent::ToolsetChanged {
            server,
            difference,
            renamed: vec![]
        }),
        (call, server(), outcome(), any::<u32>(), loss()).prop_map(|(call, server, outcome, attempts, failure)| {
            let mut omission = Omission::default();
            omission.text_bytes = 7;
            let left_out = (attempts % 2 == 0).then(|| Box::new(omission));
            HubEvent::Finished { call, server, outcome, left_out, attempts, failure }
        }),
        Just(HubEvent::Closed),
    ]
}

fn hub_action() -> impl Strategy<Value = HubAction> {
    prop_oneof![
        (session(), connection()).prop_map(|(session, connection)| HubAction::Open { session, connection }),
        (session(), outgoing()).prop_map(|(session, message)| HubAction::Send { session, message }),
        (session(), step()).prop_map(|(session, how)| HubAction::Shutdown { session, how }),
        (session(), http_request())
            .prop_map(|(session, request)| HubAction::Request { session, request: Box::new(request) }),
        (session(), exchange()).prop_map(|(session, exchange)| HubAction::Drop { session, exchange }),
        hub_event().prop_map(HubAction::Event),
    ]
}

fn request() -> impl Strategy<Value = Request> {
    let duration = || (any::<u64>(), 0..1_000_000_000_u32).prop_map(|(secs, nanos)| Duration::new(secs, nanos));
    let trace = (option::of(text()), option::of(text()), option::of(text())).prop_map(|(a, b, c)| {
        let mut trace = TraceContext::default();
        (trace.traceparent, trace.tracestate, trace.baggage) = (a, b, c);
        trace
    });
    let times = (option::of(duration()), option::of(duration()));
    (any::<String>(), option::of(any_json()), times, any::<bool>(), option::of(any::<bool>()), option::of(trace))
        .prop_map(|(method, params, (timeout, max), progress, replay, trace)| {
            let mut request = Request::new(method);
            if let Some(params) = params {
                request = request.params(params);
            }
            if let Some(timeout) = timeout {
                request = request.timeout(timeout);
            }
            if let Some(max) = max {
                request = request.max_timeout(max);
            }
            if let Some(trace) = trace {
                request = request.trace(trace);
            }
            if let Some(allowed) = replay {
                request = request.replay(allowed);
            }
            request.progress(progress)
        })
}

fn options() -> impl Strategy<Value = Options> {
    let eras = prop_oneof![
        Just(Eras::Auto),
        Just(Eras::LegacyFirst),
        Just(Eras::LegacyOnly),
        version().prop_map(Eras::ModernOnly)
    ];
    let known = (version(), any::<bool>()).prop_map(|(version, closes)| {
        let mut known = KnownEra::new(version);
        known.discover_closes = closes;
        known
    });
    (text(), eras, option::of(known), any::<u32>(), option::of(vec(any::<String>(), 0..2)), option::of(object()))
        .prop_map(|(name, eras, known, bits, roots, extension)| {
            let mut options = Options::new(name.clone(), "1");
            (options.eras, options.known_era) = (eras, known);
            options.client.title = Some(name);
            options.capabilities.sampling = bits & 1 != 0;
            options.capabilities.roots = roots.map(|roots| roots.into_iter().map(Root::new).collect());
            options.capabilities.extensions =
                extension.into_iter().map(|it| ("x/y".parse().unwrap(), it.into())).collect();
            options.log_level = (bits & 2 != 0).then_some(LogLevel::Notice);
            options.tolerance.list_errors = if bits & 4 == 0 { ListErrors::Fail } else { ListErrors::Degrade };
            options.timeouts.grace = Duration::from_micros(bits.into());
            options.limits.pages = bits as usize;
            options.limits.message.depth = bits as usize;
            options.listen = bits & 8 != 0;
            options.parallel_tool_calls = bits & 16 != 0;
            options.sampling.models = vec!["m".into()];
            options.sampling.per_minute = Some(bits);
            if bits & 32 != 0 {
                options.keepalive = None;
            }
            if let Some(keepalive) = &mut options.keepalive {
                keepalive.method = KeepaliveMethod::ToolsList;
            }
            if bits & 64 != 0 {
                options.reconnect = None;
            }
            options
        })
}

proptest! {
    #[test]
    fn events_survive_serialization(event in event()) {
        returns(&event);
    }

    #[test]
    fn actions_survive_serialization(action in action()) {
        returns(&action);
    }

    #[test]
    fn http_actions_survive_serialization(request in http_request(), exchange in exchange(), event in event()) {
        returns(&HttpAction::Request(request));
        returns(&HttpAction::Drop(exchange));
        returns(&HttpAction::Event(event));
    }

    #[test]
    fn actions_of_a_hub_survive_serialization(action in hub_action()) {
        returns(&action);
    }

    #[test]
    fn requests_survive_serialization(request in request()) {
        returns(&request);
    }

    #[test]
    fn options_survive_serialization(options in options(), own in option::of(options())) {
        returns(&options);
        let mut hub = HubOptions::new(options);
        hub.own.extend(own.map(|own| ("a".into(), own)));
        hub.required.insert("a".into());
        for style in [Style::MCP, Style::MCP_DOUBLE.with_hyphens(), Style::SERVER] {
            let mut names = Names::new(style);
            names.update([("a", vec![Target::tool("x-y"), Target::tool("x_y"), Utility::GetPrompt.into()])]);
            hub.names = names;
            returns(&hub);
        }
    }

    #[test]
    fn values_that_differ_in_one_byte_are_unequal(one in event(), other in event()) {
        let text = |event: &Event| serde_json::to_string(event).unwrap();
        assert_eq!(one == other, text(&one) == text(&other));
    }
}

proptest! {
    // Each case compares hundreds of values.
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A member that is compared with itself, or not at all, is noticed.
    #[test]
    fn values_that_differ_in_one_member_are_unequal(
        event in event(), request in request(), options in options(), event_of_hub in hub_event(),
    ) {
        is_unequal_to_each_change(&event);
        is_unequal_to_each_change(&request);
        is_unequal_to_each_change(&options);
        is_unequal_to_each_change(&event_of_hub);
    }
}

/// Fails unless the values of a strategy have each variant of the type that can be serialized. Its error names them.
fn has_every_variant<T: Serialize + DeserializeOwned + Debug>(values: impl Strategy<Value = T>) {
    let error = serde_json::from_str::<T>(r#"{"type":"none of them"}"#).unwrap_err().to_string();
    let mut missing: BTreeSet<&str> = error.split('`').skip(3).step_by(2).collect();
    assert!(!missing.is_empty(), "{error}");
    let mut runner = TestRunner::deterministic();
    for _ in 0..1_000 {
        let value = values.new_tree(&mut runner).unwrap().current();
        let value = serde_json::to_value(value).unwrap();
        missing.remove(value["type"].as_str().unwrap());
    }
    assert_eq!(missing, BTreeSet::new());
}

#[test]
fn every_variant_is_tested() {
    has_every_variant(event());
    has_every_variant(outcome());
    has_every_variant(refresh_outcome());
    has_every_variant(action());
    has_every_variant(hub_event());
    has_every_variant(hub_action());
    let error = serde_json::from_str::<FailureKind>(r#""none of them""#).unwrap_err().to_string();
    let names: BTreeSet<&str> = error.split('`').skip(3).step_by(2).collect();
    assert_eq!(names, FailureKind::ALL.iter().map(|kind| kind.as_str()).collect());
}

#[test]
fn ids_are_numbers() {
    let max = u64::MAX;
    assert_eq!(RequestId::from_u64(max).as_u64(), max);
    assert_eq!(ServerRequestId::from_u64(max).as_u64(), max);
    assert_eq!(WireId::from_u64(max).as_u64(), max);
    assert_eq!(ExchangeId::from_u64(max).as_u64(), max);
    assert_eq!(SessionHandle::from_u64(max).as_u64(), max);
    assert_eq!(ConnectionId::from_u64(7).as_u64(), 7);
    assert_eq!(ConnectionId::from_u64(max), ConnectionId::from_u64(u32::MAX.into()));
    returns(&WireId::from_u64(3));
    returns(&Time::from_micros(3));
    assert_eq!(serde_json::to_string(&RequestId::from_u64(3)).unwrap(), "3");
}

#[test]
fn the_names_of_variants_are_stable() {
    for (value, expected) in [
        (serde_json::to_string(&Event::Ready).unwrap(), r#"{"type":"ready"}"#),
        (
            serde_json::to_string(&Event::Finished {
                request: RequestId::from_u64(1),
                outcome: Outcome::Result(raw("{ }")),
                attempts: 1,
                failure: None,
            })
            .unwrap(),
            r#"{"type":"finished","value":{"request":1,"outcome":{"type":"result","value":{ }},"attempts":1}}"#,
        ),
        (
            serde_json::to_string(&Event::Subscription { uri: "a".into(), outcome: Err("no".into()) }).unwrap(),
            r#"{"type":"subscription","value":{"uri":"a","outcome":{"type":"err","value":"no"}}}"#,
        ),
        (serde_json::to_string(&FailureKind::HandshakeTimeout).unwrap(), r#""handshake-timeout""#),
        (serde_json::to_string(&ServerMethod::Sampling).unwrap(), r#""sampling/createMessage""#),
        (serde_json::to_string(&ShutdownStep::CloseInput).unwrap(), r#""close_input""#),
        (serde_json::to_string(&OpenFailure::Spawn).unwrap(), r#""spawn""#),
        (serde_json::to_string(&Broken::Midway).unwrap(), r#""midway""#),
        (serde_json::to_string(&Capability::Logging).unwrap(), r#""logging""#),
        (serde_json::to_string(&Utility::GetPrompt).unwrap(), r#""get_prompt""#),
        (serde_json::to_string(&Target::tool("x")).unwrap(), r#"{"type":"tool","value":"x"}"#),
    ] {
        assert_eq!(value, expected);
    }
    for kind in FailureKind::ALL.iter().copied() {
        assert_eq!(serde_json::to_string(&kind).unwrap(), format!("{:?}", kind.as_str()));
    }
}

/// `Display` gives the name that is serialized, or that the protocol has.
#[test]
fn values_are_shown_by_their_stable_names() {
    fn shown<T: std::fmt::Display>(values: &[T]) -> String {
        values.iter().map(|value| format!("{value} ")).collect()
    }
    assert_eq!(
        shown(FailureKind::ALL),
        FailureKind::ALL.iter().map(|kind| format!("{} ", kind.as_str())).collect::<String>()
    );
    assert_eq!(shown(&[Era::Legacy, Era::Modern]), "legacy modern ");
    assert_eq!(
        shown(&[TaskStatus::Working, TaskStatus::InputRequired, TaskStatus::Completed, TaskStatus::Failed]),
        "working input_required completed failed "
    );
    assert_eq!(
        shown(&[Utility::ListResources, Utility::ReadResource, Utility::ListPrompts, Utility::GetPrompt]),
        "list_resources read_resource list_prompts get_prompt "
    );
    let statuses =
        [FamilyStatus::NotRequested, FamilyStatus::Listed, FamilyStatus::NotAdvertised, FamilyStatus::Absent];
    assert_eq!(statuses.map(FamilyStatus::as_str), ["not-requested", "listed", "not-advertised", "absent"]);
    assert_eq!([FamilyStatus::Partial, FamilyStatus::Failed].map(FamilyStatus::as_str), ["partial", "failed"]);
    let grants = [GrantKind::AuthorizationCode, GrantKind::RefreshToken, GrantKind::ClientCredentials];
    assert_eq!(grants.map(GrantKind::as_str), ["authorization_code", "refresh_token", "client_credentials"]);
    assert_eq!(GrantKind::JwtBearer.as_str(), "urn:ietf:params:oauth:grant-type:jwt-bearer");
    assert_eq!(GrantKind::Stored.as_str(), "stored");
}

#[test]
fn progress_and_tasks_are_read_where_the_server_says_them() {
    let progress = Progress::new(raw(r#"{"progressToken":1,"progress":0.5,"total":4,"message":"a \"b\""}"#));
    assert_eq!((progress.progress(), progress.total()), (Some(0.5), Some(4.0)));
    assert_eq!(progress.message().as_deref(), Some("a \"b\""));
    let progress = Progress::new(raw(r#"{"progress":"0.5","total":null,"message":7}"#));
    assert_eq!((progress.progress(), progress.total(), progress.message()), (None, None, None));

    let task = Task::new(raw(
        r#"{"taskId":"t","status":"working","statusMessage":"m","ttl":1500,"ttlMs":1500,"pollInterval":20,"pollIntervalMs":20}"#,
    ));
    assert_eq!((task.id().as_deref(), task.status()), (Some("t"), Some(TaskStatus::Working)));
    assert_eq!((task.message().as_deref(), task.ttl()), (Some("m"), Some(Duration::from_millis(1500))));
    assert_eq!(task.poll_interval(), Some(Duration::from_millis(20)));
    let task = Task::new(raw(r#"{"taskId":1,"status":"else","ttl":null}"#));
    assert_eq!((task.id(), task.status(), task.message(), task.ttl()), (None, None, None, None));
}

#[test]
fn the_parts_of_a_value_are_those_that_it_was_made_of() {
    assert_eq!(Request::new("a/b").method(), "a/b");
    for bytes in [[7; 16], *b"0123456789abcdef"] {
        assert_eq!(FingerprintKey::new(bytes).to_bytes(), bytes);
    }
}

/// A journal has masks in place of secrets. They are read from it and written again.
#[cfg(feature = "journal")]
#[test]
fn a_secret_is_serialized_as_a_mask_or_not_at_all() {
    for mask in ["secret7", "secret12xxxx"] {
        assert_eq!(serde_json::to_value(Secret::new(mask)).unwrap(), mask);
    }
    for secret in ["hush", "secret", "secretxx", "secret7hush", "7", "hush-secret7"] {
        assert_eq!(serde_json::to_value(Secret::new(secret)).unwrap(), "redacted");
    }
}

/// What is secret, or belongs to no log, is not shown at all.
#[test]
fn the_debug_of_a_secret_shows_that_there_is_one() {
    assert_eq!(format!("{:?}", Secret::new("hush")), "…");
    assert_eq!(format!("{:?}", FingerprintKey::new([7; 16])), "FingerprintKey(…)");
}

#[test]
fn the_debug_of_a_message_shows_its_text() {
    let message = Outgoing::new(&raw("{\"jsonrpc\":\"2.0\",\n\"id\":7,\"method\":\"ping\"}"), None, None);
    assert_eq!(message.bytes(), br#"{"jsonrpc":"2.0", "id":7,"method":"ping"}"#);
    assert_eq!((message.method(), message.wire_id()), (Some("ping"), Some(WireId::from_u64(7))));
    assert!(format!("{message:?}").contains(r#"\"method\":\"ping\""#), "{message:?}");
}

#[test]
fn secrets_are_not_serialized_by_default() {
    let request = http::Request::post("https://ada:hush@example.com/mcp?key=hush")
        .header("authorization", "Bearer hush")
        .header("cookie", "a=hush")
        .header("mcp-session-id", "hush")
        .header("accept", "application/json")
        .body(b"{}".to_vec());
    let request = HttpRequest::new(ExchangeId::from_u64(1), None, request.unwrap());
    let text = serde_json::to_string(&request).unwrap();
    assert_eq!(
        text,
        concat!(
            r#"{"exchange":1,"of":null,"method":"POST","uri":"https://redacted@example.com/mcp?redacted","#,
            r#""headers":[["authorization","redacted"],["cookie","redacted"],["mcp-session-id","redacted"],"#,
            r#"["accept","application/json"]],"body":"{}"}"#
        )
    );
    let read: HttpRequest = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), text);

    let whole = serde_json::to_string(&WithSecrets(&request)).unwrap();
    assert_eq!(serde_json::from_str::<HttpRequest>(&whole).unwrap(), request);

    let mut options = Options::new("x", "1");
    options.server = "https://ada:hush@example.com/mcp?key=hush".into();
    assert!(!serde_json::to_string(&options).unwrap().contains("hush"));
    assert!(!format!("{:?}", WithSecrets(&request)).contains("hush"));
}

/// All that is sent is compared.
#[test]
fn requests_that_differ_in_one_part_are_unequal() {
    let post = |uri: &str, header: &str, body: &str| {
        http::Request::post(uri.to_owned()).header("accept", header).body(body.as_bytes().to_vec()).unwrap()
    };
    let get = http::Request::get("https://a.example/").header("accept", "a").body(b"a".to_vec()).unwrap();
    let mut other_version = post("https://a.example/", "a", "a");
    *other_version.version_mut() = http::Version::HTTP_2;
    let one = post("https://a.example/", "a", "a");
    let exchange = |number: u64, of: Option<u64>, request: &http::Request<Vec<u8>>| {
        HttpRequest::new(ExchangeId::from_u64(number), of.map(RequestId::from_u64), request.clone())
    };
    let parts = [
        get,
        post("https://b.example/", "a", "a"),
        post("https://a.example/", "b", "a"),
        post("https://a.example/", "a", "b"),
    ];
    assert_eq!(exchange(1, None, &one), exchange(1, None, &one));
    assert_ne!(exchange(1, None, &one), exchange(2, None, &one));
    assert_ne!(exchange(1, None, &one), exchange(1, Some(1), &one));
    for other in parts.iter().chain([&other_version]) {
        assert_ne!(exchange(1, None, &one), exchange(1, None, other));
    }
}

#[test]
fn refusals_survive_serialization() {
    let refused = [
        CommandError::NotReady,
        CommandError::NotAdvertised { server: "s".into(), method: "tools/call".into(), capability: "tools".into() },
        CommandError::TooManyRequests { limit: 7 },
        CommandError::MissingInput { key: "k".into() },
    ];
    refused.iter().for_each(returns);
    let [_, error, ..] = refused;
    returns(&HubCommandError::Closed);
    returns(&HubCommandError::Unpolled { limit: 3 });
    returns(&HubCommandError::Session { server: "s".into(), error: error.clone() });
    returns(&CallError::Arguments { name: "n".into(), expected: "a JSON object".into() });
    returns(&CallError::CoolingDown { server: "s".into(), why: "w".into(), until: Some(Time::from_millis(1)) });
    returns(&CallError::Session { server: "s".into(), error });
}

#[test]
fn a_body_is_text_or_hexadecimal() {
    let request = |body: Value| {
        let form = json!({
            "exchange": 1, "of": null, "method": "POST", "uri": "https://a.b/", "headers": [], "body": body,
        });
        serde_json::from_value::<HttpRequest>(form).map(|it| it.request.into_body())
    };
    assert_eq!(request(json!("{}")).unwrap(), b"{}");
    assert_eq!(request(json!({"hex": "00fF"})).unwrap(), [0, 255]);
    for wrong in [json!({"hex": "0"}), json!({"hex": "0x"}), json!({"base64": "00"}), json!({}), json!(7)] {
        assert!(request(wrong.clone()).is_err(), "{wrong}");
    }
    let error = request(json!(7)).unwrap_err().to_string();
    assert!(error.ends_with("expected a string, or an object with `hex`"), "{error}");
}

#[test]
fn a_time_is_shown_in_seconds() {
    for (micros, shown) in [(0, "0.000000s"), (1_500_000, "1.500000s"), (61_000_007, "61.000007s")] {
        assert_eq!(format!("{:?}", Time::from_micros(micros)), shown);
    }
}

#[test]
fn times_saturate_at_the_first_and_the_last() {
    let edges = [0, 1, 999, 1_000, 1 << 32, u64::MAX / 1_000, u64::MAX - 2, u64::MAX - 1, u64::MAX];
    let last = u128::from(u64::MAX - 1);
    for (one, other) in edges.into_iter().flat_map(|one| edges.map(|other| (one, other))) {
        let (time, earlier, duration) =
            (Time::from_micros(one), Time::from_micros(other), Duration::from_micros(other));
        let micros = u128::from(one).min(last);
        assert_eq!(u128::from(time.as_micros()), micros);
        assert_eq!(u128::from((time + duration).as_micros()), (micros + u128::from(other)).min(last), "{one} {other}");
        let since = micros.saturating_sub(u128::from(other).min(last));
        assert_eq!((time.since(earlier).as_micros(), (time - earlier).as_micros()), (since, since), "{one} {other}");
        assert_eq!(u128::from(Time::from_millis(one).as_micros()), (u128::from(one) * 1_000).min(last));
        assert_eq!(u128::from((time + Duration::MAX).as_micros()), last);
    }
}

#[test]
fn outcomes_and_events_that_differ_in_one_part_are_unequal() {
    let input = |json: &str| Outcome::InputRequired(raw(json));
    assert_eq!(input("{}"), input("{}"));
    assert_ne!(input("{}"), input("{ }"));
    assert_eq!(Outcome::TimedOut(TimeBound::Total), Outcome::TimedOut(TimeBound::Total));
    assert_ne!(Outcome::TimedOut(TimeBound::Total), Outcome::TimedOut(TimeBound::Timeout));
    let down =
        |message: &str, next: Recovery| Event::Down { failure: Failure::new(FailureKind::Closed, message), next };
    assert_eq!(down("a", Recovery::Close), down("a", Recovery::Close));
    assert_ne!(down("a", Recovery::Close), down("b", Recovery::Close));
    assert_ne!(down("a", Recovery::Close), down("a", Recovery::Reopen { at: None }));
}
