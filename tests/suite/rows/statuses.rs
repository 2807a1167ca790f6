//! What each status, with each error and text in the body, means: for what was posted, and for the session.

use super::http::{ENDPOINT, sse, sse_again};
use crate::common::{legacy, millis, options, seconds};
use crate::web::{Exchange, Reply, Site, Web, modern_site, site, tool};
use mcp_proto::binding::http::Broken;
use mcp_proto::protocol::ProtocolVersion;
use mcp_proto::{Eras, Event, FailureKind, Family, Keepalive, LogLevel, Outcome, QuirkKind, RequestId};
use serde_json::json;

const INITIALIZED: &str = "notifications/initialized";

/// The statuses, each with a header that matters.
const STATUSES: [(u16, Option<(&str, &str)>); 19] = [
    (304, None),
    (307, None),
    (400, None),
    (401, Some(("www-authenticate", "Bearer"))),
    (401, None),
    (403, Some(("www-authenticate", "Bearer"))),
    (403, None),
    (404, None),
    (405, None),
    (409, None),
    (429, Some(("retry-after", "1"))),
    (429, None),
    (500, None),
    (501, None),
    (502, None),
    (503, Some(("retry-after", "1"))),
    (503, None),
    (599, None),
    (600, None),
];

/// No error, and one of each class.
const ERRORS: [Option<i64>; 7] =
    [None, Some(-32601), Some(-32602), Some(-32002), Some(-32020), Some(-32021), Some(-32000)];

/// A response, and what the table needs to know of it.
#[derive(Clone, Copy, Debug)]
struct Case {
    status: u16,
    header: Option<(&'static str, &'static str)>,
    error: Option<i64>,
    names_session: bool,
    /// The exchange breaks before the end of the body.
    breaks: bool,
}

impl Case {
    fn each() -> impl Iterator<Item = Self> {
        let bodies =
            ERRORS.into_iter().flat_map(|error| [(error, false, false), (error, true, false), (error, true, true)]);
        STATUSES.into_iter().flat_map(move |(status, header)| {
            bodies.clone().map(move |(error, names_session, breaks)| Self {
                status,
                header,
                error,
                names_session,
                breaks,
            })
        })
    }

    fn answer(&self, web: &mut Web, exchange: &Exchange) {
        let said = if self.names_session { "Session not found" } else { "no" };
        let mut reply = match self.error {
            Some(code) if exchange.body().is_empty() => Reply::json(
                self.status,
                &json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": said}}),
            ),
            Some(code) => Reply::json(self.status, &exchange.error(code, said)),
            None => Reply::text(self.status, said),
        };
        reply.ends = !self.breaks;
        reply.headers.extend(self.header.map(|(name, value)| (name, value.into())));
        web.reply(exchange, reply);
        if self.breaks {
            web.fail(exchange, Broken::Midway);
        }
    }

    /// 401 without a challenge.
    fn is_unchallenged(&self) -> bool {
        self.status == 401 && self.header.is_none()
    }

    fn is_auth(&self) -> bool {
        matches!(self.status, 401 | 403)
    }

    /// Whether the message is sent again after the wait. A gateway may send 503 for a server that runs the request.
    fn is_busy(&self, repeatable: bool) -> bool {
        self.status == 429 && self.header.is_some() || self.status == 503 && self.header.is_some() && repeatable
    }

    /// Whether the session expired. `is_new`: it replaced one that expired by the same status. A text that breaks off says
    /// nothing of the session.
    fn expires(&self, is_new: bool) -> bool {
        let names_session = self.names_session && !self.breaks;
        match self.status {
            400 | 503 => names_session,
            404 => names_session || !is_new && self.error != Some(-32601),
            401 => self.is_unchallenged() && !is_new,
            _ => false,
        }
    }

    /// What follows for a call, if the session did not expire: how it ends, what is sent at once, and what after the wait.
    fn call(&self, is_modern: bool, repeatable: bool) -> [String; 3] {
        let is_client_error = (400..500).contains(&self.status);
        let (ended, sent, later): (String, _, _) = match self.error {
            _ if self.status == 403 && self.header.is_none() => ("HTTP 403".into(), "", ""),
            _ if self.is_auth() => ("".into(), "", ""),
            _ if self.is_busy(repeatable) => ("".into(), "", "tools/call"),
            Some(-32020) if is_modern && is_client_error => ("".into(), "tools/list", ""),
            // A legacy server has no such errors, so it changed its era.
            Some(-32020 | -32021) if !is_modern && is_client_error => ("".into(), "", "initialize"),
            Some(code @ (-32020 | -32021)) if !is_modern => (code.to_string(), "", "initialize"),
            Some(code) => (code.to_string(), "", ""),
            None if self.status == 502 && repeatable => ("".into(), "tools/call", ""),
            None if self.status == 502 => ("Unknown".into(), "", ""),
            None => (format!("HTTP {}", self.status), "", ""),
        };
        [ended, sent.into(), later.into()]
    }
}

/// How a call ended; empty while it has not.
fn ended(web: &Web, call: RequestId) -> String {
    match web.ended(call) {
        Some(Outcome::Error(error)) => match error.code() {
            Some(code) => code.to_string(),
            None => error.to_string().split(':').next().unwrap().into(),
        },
        Some(_) => web.outcome(call),
        None => String::new(),
    }
}

/// Answers everything but calls. Returns those.
fn serve_but_calls(web: &mut Web, site: &mut Site) -> Vec<Exchange> {
    let mut calls = vec![];
    for _ in 0..20 {
        for exchange in web.take() {
            if exchange.is("tools/call") {
                calls.push(exchange);
            } else {
                let reply = site.reply(&exchange);
                web.reply(&exchange, reply);
            }
        }
    }
    calls
}

/// Where a call is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// To a server of the modern era.
    Modern,
    /// To one of the legacy era without sessions.
    Plain,
    /// Over HTTP with SSE.
    Sse,
    /// In a session.
    Session,
    /// In a session that replaced one that expired by the same status.
    NewSession,
    /// As `NewSession`, and the call was sent in the expired one.
    Resent,
}

#[test]
fn what_each_status_and_error_means_to_a_call_and_to_its_session() {
    for place in [Place::Modern, Place::Plain, Place::Sse, Place::Session, Place::NewSession, Place::Resent] {
        for case in Case::each() {
            for repeatable in [false, true] {
                let told = format!("{place:?} {case:?} {repeatable}");
                let is_modern = place == Place::Modern;
                let request = || tool("a").replay(repeatable);
                let (mut web, mut site) = if place == Place::Sse {
                    let (web, _, site) = sse(legacy());
                    (web, site)
                } else {
                    let mut site = if is_modern { modern_site() } else { site() };
                    site.sessions = !matches!(place, Place::Modern | Place::Plain);
                    (Web::connect(if is_modern { options() } else { legacy() }, &mut site), site)
                };
                web.take();
                let mut call = web.request(request());
                let mut exchange = web.take_named("tools/call");
                if matches!(place, Place::NewSession | Place::Resent) {
                    web.reply(&exchange, Reply::status(if case.status == 401 { 401 } else { 404 }));
                    exchange = serve_but_calls(&mut web, &mut site).remove(0);
                    assert!(web.is_ready(), "{told}");
                }
                if place == Place::NewSession {
                    call = web.request(request());
                    exchange = web.take_named("tools/call");
                }
                let before = web.quirks();
                case.answer(&mut web, &exchange);
                let sent = web.take_names().join(" ");
                let ended = ended(&web, call);
                let expires = match place {
                    Place::Modern | Place::Plain | Place::Sse | Place::Resent => false,
                    Place::Session => case.expires(false),
                    Place::NewSession => case.expires(true),
                };
                if expires {
                    assert_eq!((&*ended, &*sent), ("", "initialize"), "{told}");
                    let is_quirk = web.quirks().contains(&QuirkKind::SessionExpiredStatus);
                    assert_eq!(is_quirk, case.status != 404 || !before.is_empty(), "{told}");
                    continue;
                }
                let is_new = web.quirks().len() - before.len();
                web.wait(seconds(1));
                let later = web.take_names().join(" ");
                let mut expected = case.call(is_modern, repeatable);
                if place == Place::Sse && expected[2] == "initialize" {
                    // The next connection begins with its stream.
                    expected[2] = "GET".into();
                }
                if let (Place::Resent, "initialize", Some(code)) = (place, &*expected[2], case.error) {
                    // It was sent again once already.
                    expected[0] = code.to_string();
                }
                assert_eq!([ended, sent, later], expected, "{told}");
                let is_told = web.events.iter().any(|event| matches!(event, Event::Unauthorized { .. }));
                assert_eq!(is_told, case.is_auth(), "{told}");
                assert_eq!(
                    is_new,
                    usize::from(web.quirks().contains(&QuirkKind::EraChanged)),
                    "{told} {:?}",
                    web.quirks()
                );
            }
        }
    }
}

#[test]
fn whatever_status_and_error_refuse_the_handshake_it_goes_on_or_ends_at_once() {
    for (name, eras) in [
        ("server/discover", Eras::Auto),
        ("server/discover", Eras::ModernOnly(ProtocolVersion::V2026_07_28)),
        ("initialize", Eras::LegacyOnly),
    ] {
        let is_legacy = eras == Eras::LegacyOnly;
        for case in Case::each() {
            let mut options = options();
            options.eras = eras;
            let mut web = Web::open(options);
            let request = web.take_named(name);
            case.answer(&mut web, &request);
            let sent = web.take_names();
            let failure = web.failure_kind();
            if case.is_auth() {
                let kind = if case.status == 401 { FailureKind::Unauthorized } else { FailureKind::Forbidden };
                assert_eq!((sent, failure), (vec![], Some(kind)), "{name} {case:?}");
            } else if case.is_busy(true) {
                assert_eq!((sent, failure), (vec![], None), "{name} {case:?}");
                web.wait(seconds(1));
                assert_eq!(web.take_names(), [name], "{case:?}");
            } else if is_legacy && matches!((case.status, case.error), (400 | 404 | 405, None | Some(-32601))) {
                assert_eq!((sent, failure), (vec!["GET".into()], None), "{case:?}");
            } else {
                assert_eq!(sent.len() + usize::from(failure.is_some()), 1, "{name} {case:?} {sent:?} {failure:?}");
            }
        }
    }
}

#[test]
fn initialized_is_received_whatever_the_status_says_unless_the_server_is_busy_or_requires_authorization() {
    for (case, sessions) in Case::each().flat_map(|case| [(case, true), (case, false)]) {
        let (mut web, mut site) = (Web::open(legacy()), site());
        site.sessions = sessions;
        let initialize = web.take_named("initialize");
        let reply = site.reply(&initialize);
        web.end_with(&initialize, reply);
        let initialized = web.take_named(INITIALIZED);
        case.answer(&mut web, &initialized);
        if sessions && case.expires(false) {
            assert_eq!(web.take_names(), ["initialize"], "{case:?}");
            continue;
        }
        if case.is_auth() {
            assert!(!web.is_ready() && web.failure_kind().is_some(), "{case:?}");
            continue;
        }
        if case.is_busy(true) {
            assert!(web.take().is_empty(), "{case:?}");
            web.wait(seconds(1));
            assert_eq!(web.names().last().unwrap(), INITIALIZED);
        }
        web.serve(&mut site);
        assert!(web.is_ready(), "{case:?} {:?}", web.failure());
        assert_eq!(web.quirks(), [], "{case:?}");
    }
}

#[test]
fn a_refused_notification_or_response_changes_nothing() {
    for case in Case::each() {
        for is_response in [false, true] {
            let mut site = site();
            let mut web = Web::connect(legacy(), &mut site);
            if is_response {
                let stream = web.last("GET");
                web.push(&stream, json!({"jsonrpc": "2.0", "id": "q", "method": "ping"}));
            } else {
                web.session.notify(web.now, "notifications/example", None).unwrap();
                web.collect();
            }
            let posted = web.take_one();
            case.answer(&mut web, &posted);
            if case.expires(false) {
                assert_eq!(web.take_names(), ["initialize"], "{case:?}");
                continue;
            }
            web.wait(seconds(10));
            assert_eq!((web.take_names(), web.is_ready(), web.quirks()), (vec![], true, vec![]), "{case:?}");
            assert!(web.events.iter().all(|event| !matches!(event, Event::Unauthorized { .. })));
            let (call, exchange) = web.call("a");
            web.reply(&exchange, site.reply(&exchange));
            assert_eq!(web.outcome(call), "Result");
        }
    }
}

#[test]
fn a_notification_over_sse_changes_nothing_whatever_is_answered() {
    for (status, header) in STATUSES.into_iter().chain([(200, None), (202, None)]) {
        let (mut web, _, _) = sse(legacy());
        web.session.notify(web.now, "notifications/example", None).unwrap();
        web.collect();
        let posted = web.take_one();
        let mut reply = Reply::text(status, "what?");
        reply.headers.extend(header.map(|(name, value)| (name, value.into())));
        web.reply(&posted, reply);
        web.wait(seconds(10));
        assert_eq!((web.take_names(), web.is_ready(), web.quirks()), (vec![], true, vec![]), "{status}");
    }
}

/// A response to a server request that is in flight while the client closes, and the DELETE after it.
#[test]
fn a_client_closes_whatever_is_answered_meanwhile() {
    let success = |status| Case { status, header: None, error: None, names_session: false, breaks: false };
    for case in Case::each().chain([success(200), success(202)]) {
        let mut web = Web::connect(legacy(), &mut site());
        let stream = web.last("GET");
        web.push(&stream, json!({"jsonrpc": "2.0", "id": "q", "method": "ping"}));
        let answer = web.take_one();
        web.close();
        assert!(web.take().is_empty());
        case.answer(&mut web, &answer);
        let delete = web.take_named("DELETE");
        assert!(!web.session.is_closed());
        case.answer(&mut web, &delete);
        assert!(web.session.is_closed() && web.take().is_empty(), "{case:?}");
        let quirks = if case.status == 200 { vec![QuirkKind::NotificationStatus] } else { vec![] };
        assert_eq!(web.quirks(), quirks, "{case:?}");
    }
}

/// Tool calls wait for the GET stream, until it is decided whether there is one.
#[test]
fn the_head_of_the_get_decides_whatever_its_status_is() {
    for (status, header) in STATUSES.into_iter().chain([(200, None), (202, None)]) {
        let (mut web, mut site) = (Web::open(legacy()), site());
        let mut stream = None;
        for _ in 0..5 {
            for exchange in web.take() {
                if exchange.verb() == "GET" {
                    stream = Some(exchange);
                } else {
                    let reply = site.reply(&exchange);
                    web.reply(&exchange, reply);
                }
            }
        }
        let stream = stream.unwrap();
        let call = web.request(tool("a"));
        assert_eq!(web.take_names(), [""; 0], "it waits");
        web.head(&stream, status, header.as_slice());
        assert_eq!(web.take_names(), ["tools/call"], "{status}");
        assert_eq!(web.outcome(call), "open");
    }
}

/// What the requests of the engine, and the GET stream, are refused with for lack of authorization.
const DENIALS: [(u16, Option<(&str, &str)>); 3] =
    [(401, Some(("www-authenticate", "Bearer"))), (403, Some(("www-authenticate", "Bearer"))), (403, None)];

fn deny((status, header): (u16, Option<(&'static str, &str)>)) -> Reply {
    let reply = Reply::text(status, "who?");
    match header {
        Some((name, value)) => reply.with(name, value),
        None => reply,
    }
}

#[test]
fn a_list_that_is_refused_for_lack_of_authorization_ends_the_connection_or_the_refresh() {
    for denial in DENIALS {
        let mut site = site().on("tools/list", move |_| deny(denial));
        let web = Web::connect(legacy(), &mut site);
        let kind = if denial.0 == 401 { FailureKind::Unauthorized } else { FailureKind::Forbidden };
        assert_eq!(web.failure_kind(), Some(kind), "{denial:?}");

        let mut web = Web::connect(legacy(), &mut crate::web::site());
        web.session.refresh(web.now, Family::Tools).unwrap();
        web.collect();
        let list = web.take_named("tools/list");
        web.reply(&list, deny(denial));
        assert!(web.is_ready(), "{denial:?}");
        let is_told = |event: &Event| matches!(event, Event::Unauthorized { request: None, .. });
        assert!(web.events.iter().any(is_told), "{denial:?}");
        let (call, exchange) = web.call("a");
        web.reply(&exchange, Reply::json(200, &exchange.result(json!({"content": []}))));
        assert_eq!(web.outcome(call), "Result");
    }
}

#[test]
fn a_level_that_is_refused_for_lack_of_authorization_is_not_set() {
    for denial in DENIALS {
        for is_ready in [false, true] {
            let mut site = Site::legacy(json!({"logging": {}, "tools": {}})).result("tools/list", json!({"tools": []}));
            site = site.on("logging/setLevel", move |_| deny(denial));
            let mut web = Web::new(legacy());
            if is_ready {
                web.reopen();
                web.serve(&mut site);
            }
            web.session.set_log_level(web.now, LogLevel::Warning).unwrap();
            if !is_ready {
                web.reopen();
            }
            web.collect();
            web.serve(&mut site);
            let count = |is_it: fn(&Event) -> bool| web.events.iter().filter(|event| is_it(event)).count();
            let told = count(|event| matches!(event, Event::Unauthorized { request: None, .. }));
            assert_eq!((web.is_ready(), told), (true, 1), "{denial:?} {is_ready}");
            assert_eq!(count(|event| matches!(event, Event::LogLevelFailed { .. })), 1, "{denial:?} {is_ready}");
        }
    }
}

#[test]
fn a_keepalive_that_is_refused_for_lack_of_authorization_shows_that_the_server_lives() {
    for denial in DENIALS {
        let mut options = legacy();
        options.keepalive = Some(Keepalive::default());
        let mut web = Web::connect(options, &mut site());
        web.take();
        for _ in 0..5 {
            web.wait(seconds(60));
            let ping = web.take_named("ping");
            web.reply(&ping, deny(denial));
            assert!(web.is_ready(), "{denial:?}");
        }
        assert_eq!(web.quirks(), []);
    }
}

#[test]
fn a_fallback_stream_that_ends_means_no_fallback_and_one_that_breaks_ends_the_connection() {
    let good = [(200, None, ""), (200, None, ": a\n\n"), (200, None, "data: a")];
    // What a refusal says is not read.
    let refused = STATUSES.into_iter().map(|(status, header)| (status, header, ENDPOINT));
    for (status, header, body) in good.into_iter().chain(refused) {
        for breaks in [false, true] {
            let mut web = Web::open(legacy());
            let initialize = web.take_named("initialize");
            web.reply(&initialize, Reply::text(405, "no POST here"));
            let stream = web.take_named("GET");
            let mut reply = Reply::status(status).body("text/event-stream", body);
            reply.headers.extend(header.map(|(name, value)| (name, value.into())));
            reply.ends = !breaks;
            web.reply(&stream, reply);
            if breaks {
                web.fail(&stream, Broken::Midway);
            }
            let expected = match status {
                _ if breaks => (vec![], Some(FailureKind::Closed)),
                401 => (vec![], Some(FailureKind::Unauthorized)),
                403 => (vec![], Some(FailureKind::Forbidden)),
                // A refused `initialize` is offered with another version.
                _ => (vec!["initialize".into()], None),
            };
            assert_eq!((web.take_names(), web.failure_kind()), expected, "{status} {body}");
        }
    }
}

#[test]
fn a_stream_over_sse_that_is_refused_is_not_requested_by_the_next_connection() {
    for (status, header) in STATUSES {
        if matches!(status, 401 | 403) {
            continue;
        }
        for breaks in [false, true] {
            let (mut web, again, _) = sse_again();
            let mut reply = Reply::text(status, "no");
            reply.headers.extend(header.map(|(name, value)| (name, value.into())));
            reply.ends = !breaks;
            web.reply(&again, reply);
            if breaks {
                web.fail(&again, Broken::Midway);
            }
            while web.log.last().unwrap().id == again.id {
                web.wait(seconds(1));
            }
            assert_eq!(web.take_names(), ["initialize"], "{status}");
        }
    }
    // One that ends is requested again.
    let (mut web, again, _) = sse_again();
    web.end(&again);
    web.wait(seconds(10));
    assert_eq!(web.take_names(), ["GET"]);
}

#[test]
fn an_initialize_that_is_refused_over_sse_is_refused() {
    let (mut web, again, _) = sse_again();
    web.reply(&again, Reply::stream(ENDPOINT));
    let initialize = web.take_named("initialize");
    web.reply(&initialize, Reply::text(405, "no"));
    assert_eq!(web.take_names(), ["initialize"], "with another version");
}

#[test]
fn a_stream_over_sse_may_begin_with_any_field() {
    let mut web = Web::open(legacy());
    let initialize = web.take_named("initialize");
    web.reply(&initialize, Reply::text(405, "no POST here"));
    let stream = web.take_named("GET");
    web.reply(&stream, Reply::stream(&format!("x-field: 1\n\n{ENDPOINT}")));
    assert_eq!(web.take_names(), ["initialize"]);
}

/// A call whose stream broke after an event with an id, and the GET that resumes it.
fn resuming() -> (Web, mcp_proto::RequestId, Exchange) {
    let mut web = Web::connect(legacy(), &mut site());
    web.take();
    let (call, exchange) = web.call("a");
    web.reply(&exchange, Reply::stream("id: 1\ndata:\n\n"));
    web.fail(&exchange, Broken::Midway);
    web.wait(seconds(5));
    let get = web.take_named("GET");
    assert_eq!(get.header("last-event-id"), Some("1"));
    (web, call, get)
}

#[test]
fn a_stream_is_resumed_again_until_it_is_refused() {
    for (status, kind, body, expected) in [
        (200, "text/event-stream", "", "GET"),
        (200, "text/event-stream", ": a\n\n", "GET"),
        (200, "application/json", "{}", "GET"),
        (202, "text/plain", "", "GET"),
        (503, "text/plain", "busy", "GET"),
        (429, "text/plain", "busy", "GET"),
        (404, "text/plain", "no", "Unknown initialize"),
        (401, "text/plain", "no", "Unknown"),
        (403, "text/plain", "no", "Unknown"),
        (410, "text/plain", "no", "Unknown"),
        (501, "text/plain", "no", "Unknown"),
    ] {
        for breaks in [false, true] {
            let (mut web, call, get) = resuming();
            let mut reply = Reply::status(status).body(kind, body);
            reply.ends = !breaks;
            web.reply(&get, reply);
            if breaks {
                web.fail(&get, Broken::Midway);
            }
            let ended = ended(&web, call);
            web.wait(seconds(5));
            let then = format!("{ended} {}", web.take_names().join(" "));
            assert_eq!(then.trim(), expected, "{status} {kind} {body} {breaks}");
        }
    }
}

/// A server that stays busy is asked less and less often.
#[test]
fn a_stream_is_resumed_after_twice_the_wait_while_the_server_is_busy() {
    for status in [429, 503] {
        let (mut web, _, mut get) = resuming();
        for wait in [1, 2, 4] {
            web.reply(&get, Reply::text(status, "busy"));
            web.wait(seconds(wait) - millis(1));
            assert!(web.take().is_empty(), "{status} {wait}");
            web.wait(millis(1));
            get = web.take_named("GET");
        }
    }
}

#[test]
fn a_resumption_that_is_redirected_within_the_origin_follows() {
    let (mut web, _, get) = resuming();
    web.reply(&get, Reply::status(307).with("location", "/there"));
    let there = web.take_named("GET");
    assert_eq!((&*there.url(), there.header("last-event-id")), ("https://example.com/there", Some("1")));
}

#[test]
fn a_body_without_a_label_that_has_no_message_is_no_answer_and_one_that_breaks_after_an_id_is_resumed() {
    for body in [": a\n\n", "id: 7\n\n", "nonsense"] {
        let mut web = Web::connect(legacy(), &mut site());
        let (call, exchange) = web.call("a");
        let mut reply = Reply::status(200);
        reply.body = body.into();
        web.reply(&exchange, reply);
        assert_eq!(web.outcome(call), "Error", "{body}");
        assert!(web.quirks().contains(&QuirkKind::ContentType), "{body}");
    }
    let mut web = Web::connect(legacy(), &mut site());
    web.take();
    let (_, exchange) = web.call("a");
    let mut reply = Reply::status(200).unfinished();
    reply.body = b"id: 7\n\n".into();
    web.reply(&exchange, reply);
    web.fail(&exchange, Broken::Midway);
    web.wait(seconds(5));
    assert_eq!(web.take_named("GET").header("last-event-id"), Some("7"));
}

#[test]
fn a_call_that_is_redirected_without_end_is_refused_by_the_status() {
    let mut web = Web::connect(legacy(), &mut site());
    web.take();
    let (call, mut exchange) = web.call("a");
    for _ in 0..20 {
        web.reply(&exchange, Reply::status(308).with("location", "/again"));
        match web.take().pop() {
            Some(next) => exchange = next,
            None => break,
        }
    }
    assert_eq!((&*ended(&web, call), web.failure_kind()), ("HTTP 308", Some(FailureKind::Protocol)));
}

#[test]
fn a_call_that_is_redirected_over_sse_is_posted_there_as_are_later_ones() {
    let (mut web, _, _) = sse(legacy());
    let (_, exchange) = web.call("a");
    web.reply(&exchange, Reply::status(307).with("location", "/there"));
    assert_eq!(web.take_one().url(), "https://example.com/there");
    let (_, exchange) = web.call("a");
    assert_eq!(exchange.url(), "https://example.com/there");
}

#[test]
fn a_call_whose_response_breaks_after_its_head_may_have_run() {
    for kind in ["application/json", "text/plain", "text/event-stream"] {
        for body in ["", " "] {
            let mut web = Web::connect(legacy(), &mut site());
            let (call, exchange) = web.call("a");
            web.reply(&exchange, Reply::status(200).body(kind, body).unfinished());
            web.fail(&exchange, Broken::Midway);
            assert_eq!(web.outcome(call), "Unknown", "{kind} {body:?}");
        }
    }
}

#[test]
fn a_body_that_is_labelled_as_json_is_read_as_json_whatever_it_begins_with() {
    let mut web = Web::connect(legacy(), &mut site());
    let (call, exchange) = web.call("a");
    web.reply(&exchange, Reply::status(200).body("application/json", "nonsense"));
    assert_eq!((&*web.outcome(call), web.quirks().contains(&QuirkKind::ContentType)), ("Error", false));
}
