//! Sessions, ready or not: requests, server requests, notifications, commands, transport reports.

use std::time::Duration;

use mcp_proto::protocol::Root;
use mcp_proto::{
    Action, Event, Family, LogLevel, OpenFailure, Options, RawValue, Reference, Request, RequestId, ServerRequestId,
    TraceContext, Transport,
};

use super::Case;
use crate::meter::{Cost, measure};
use crate::peer::{CAPABILITIES, Peer, asks, greeting, legacy, line, modern, note, usual, wide};

/// The bound on actions waiting to be polled that [`tight`] sets: small actions.
const OUTPUT: usize = ACTIONS * 640;

/// Number of actions that may wait.
const ACTIONS: usize = 256;

fn tight(mut options: Options) -> Options {
    options.limits.output = ACTIONS;
    options
}

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("server-info-length", 10_000, server_info_length),
        Case::new("server-capabilities", 1_000, server_capabilities),
        Case::new("supported-versions", 2_000, supported_versions),
        Case::new("client-capabilities", 500, client_capabilities),
        Case::new("roots", 1_000, roots),
        Case::new("roots-asked", 500, roots_asked),
        Case::new("requests-open", 10, requests_open).wide(),
        Case::new("requests-answered-backwards", 250, requests_answered_backwards),
        Case::new("requests-queued", 250, requests_queued),
        Case::new("tool-calls-serial", 250, tool_calls_serial),
        Case::new("tool-calls-serial-others", 250, tool_calls_serial_others),
        Case::new("requests-disconnected", 250, requests_disconnected),
        Case::new("requests-refused", 1_000, requests_refused).at_most(OUTPUT + (1_024 + 64) * 512),
        Case::new("requests-cancelled", 250, requests_cancelled),
        Case::new("requests-timed-out", 250, requests_timed_out),
        Case::new("requests-timed-out-one-by-one", 250, requests_timed_out_one_by_one),
        Case::new("requests-lost", 250, requests_lost),
        Case::new("requests-replayed", 250, requests_replayed),
        Case::new("request-params-length", 20_000, request_params_length),
        Case::new("request-arguments", 1_000, request_arguments),
        Case::new("request-trace-length", 20_000, request_trace_length),
        Case::new("answers-late", 100, answers_late),
        Case::new("answers-unknown", 500, answers_unknown),
        Case::new("errors-without-ids", 250, errors_without_ids),
        Case::new("progress", 500, progress),
        Case::new("progress-of-many", 250, progress_of_many),
        Case::new("questions", 250, questions),
        Case::new("questions-over-limit", 1_000, questions_over_limit),
        Case::new("questions-unpolled", 1_000, questions_unpolled).at_most(OUTPUT),
        Case::new("questions-taken-back", 250, questions_taken_back),
        Case::new("questions-with-requests-open", 100, questions_with_requests_open),
        Case::new("questions-expired", 250, questions_expired),
        Case::new("url-elicitations", 1_000, url_elicitations),
        Case::new("question-defaults", 250, question_defaults),
        Case::new("question-default-length", 20_000, question_default_length),
        Case::new("question-answer-members", 1_000, question_answer_members),
        Case::new("samples-in-a-minute", 500, samples_in_a_minute),
        Case::new("sample-messages", 1_000, sample_messages),
        Case::new("sampling-models", 500, sampling_models),
        Case::new("input-rounds", 100, input_rounds),
        Case::new("input-keys", 250, input_keys),
        Case::new("tasks", 250, tasks),
        Case::new("task-polls", 100, task_polls),
        Case::new("task-input-keys", 100, task_input_keys),
        Case::new("input-defaults", 250, input_defaults),
        Case::new("input-state-length", 20_000, input_state_length),
        Case::new("list-changed", 1_000, list_changed),
        Case::new("list-changed-served", 250, list_changed_served),
        Case::new("log-messages", 500, log_messages),
        Case::new("log-messages-unpolled", 1_000, log_messages_unpolled).at_most(OUTPUT),
        Case::new("notifications-long-unpolled", 100, notifications_long_unpolled).at_most(1 << 20),
        Case::new("notifications-unknown", 500, notifications_unknown),
        Case::new("notifications-held", 1_000, notifications_held).at_most(256 * 320),
        Case::new("pings", 500, pings),
        Case::new("pings-unpolled", 1_000, pings_unpolled).at_most(OUTPUT),
        Case::new("quirks", 1_000, quirks).at_most(256 * 1_024 + 4_096 * 320),
        Case::new("subscriptions", 250, subscriptions),
        Case::new("subscriptions-modern", 250, subscriptions_modern),
        Case::new("subscriptions-reconnected", 250, subscriptions_reconnected),
        Case::new("subscription-updates", 500, subscription_updates),
        Case::new("subscribe-not-listening", 500, subscribe_not_listening).at_most(OUTPUT),
        Case::new("subscribe-again", 500, subscribe_again).at_most(OUTPUT),
        Case::new("subscribe-and-not", 500, subscribe_and_not).at_most(OUTPUT),
        Case::new("commands-open-close", 500, commands_open_close).at_most(OUTPUT),
        Case::new("commands-refresh", 500, commands_refresh).at_most(OUTPUT),
        Case::new("commands-log-level", 500, commands_log_level).at_most(OUTPUT),
        Case::new("commands-notify", 500, commands_notify).at_most(OUTPUT),
        Case::new("commands-authorized", 500, commands_authorized).at_most(OUTPUT),
        Case::new("commands-cancelled-unpolled", 500, commands_cancelled_unpolled).at_most(2 * OUTPUT),
        Case::new("reports-opened", 500, reports_opened).at_most(OUTPUT),
        Case::new("reports-open-failed", 500, reports_open_failed).at_most(OUTPUT),
        Case::new("reports-closed", 500, reports_closed).at_most(OUTPUT),
        Case::new("reports-signs-of-life", 500, reports_signs_of_life).at_most(OUTPUT),
        Case::new("timeouts", 500, timeouts).at_most(OUTPUT),
        Case::new("reconnects", 100, reconnects),
        Case::new("keepalives", 250, keepalives),
    ]
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.into()).unwrap()
}

const HOUR: Duration = Duration::from_secs(3600);

/// Makes this many requests.
fn make(peer: &mut Peer, n: usize, make: impl Fn() -> Request) {
    for _ in 0..n {
        peer.session.request(peer.now, make()).unwrap();
    }
}

fn request(peer: &mut Peer, request: Request) -> RequestId {
    peer.session.request(peer.now, request).unwrap()
}

/// A session with requests of this method that were sent, and their ids.
fn with_requests(options: Options, n: usize, method: &'static str) -> (Peer, Vec<u64>) {
    let mut peer = Peer::ready(wide(options, n));
    for _ in 0..n {
        request(&mut peer, Request::new(method).timeout(HOUR));
    }
    let ids = peer.ids();
    assert_eq!(ids.len(), n);
    (peer, ids)
}

fn connected(text: &str, options: Options) -> Cost {
    let mut peer = Peer::open(options);
    let id = peer.ids()[0];
    let text = line(id, text);
    measure(text.len(), || {
        peer.say(&text);
        peer.serve(usual);
        assert!(peer.session.is_ready());
        peer
    })
}

fn server_info_length(n: usize) -> Cost {
    let long = "Use it so.\\n".repeat(n);
    connected(
        &format!(
            r#"{{"protocolVersion":"2025-11-25","capabilities":{CAPABILITIES},"instructions":"{long}","serverInfo":{{"name":"{long}","version":"{long}"}}}}"#
        ),
        legacy(),
    )
}

fn server_capabilities(n: usize) -> Cost {
    let members: String = (0..n).map(|at| format!(r#","capability{at}":{{"a":[true]}}"#)).collect();
    let capabilities = format!(r#"{{"tools":{{}}{members},"experimental":{{"x":1{members}}}}}"#);
    connected(
        &format!(r#"{{"protocolVersion":"2025-11-25","capabilities":{capabilities},"serverInfo":{{"name":"s"}}}}"#),
        legacy(),
    )
}

fn supported_versions(n: usize) -> Cost {
    let versions: String = (0..n).map(|at| format!(r#","{at:04}-01-01""#)).collect();
    connected(
        &format!(r#"{{"resultType":"complete","supportedVersions":["2026-07-28"{versions}],"capabilities":{{}}}}"#),
        modern(),
    )
}

fn client_capabilities(n: usize) -> Cost {
    let mut options = legacy();
    options.capabilities.extensions = (0..n).map(|at| (format!("x/{at}").parse().unwrap(), raw("{}").into())).collect();
    let input = n * 16;
    measure(input, || Peer::ready(options))
}

fn rooted(n: usize) -> Options {
    let mut options = legacy();
    let root = |at| Root::new(format!("file:///home/{at}")).with_name(format!("root {at}"));
    options.capabilities.roots = Some((0..n).map(root).collect());
    options
}

fn roots(n: usize) -> Cost {
    let mut peer = Peer::ready(rooted(n));
    measure(n * 56, || {
        peer.say(&asks("1", "roots/list", "{}"));
        assert_eq!(peer.drain(), 1);
    })
}

/// `roots/list` requests. The number of waiting responses is bounded.
fn roots_asked(n: usize) -> Cost {
    let mut peer = Peer::ready(rooted(10));
    let text: String = (0..n).map(|at| asks(&at.to_string(), "roots/list", "{}")).collect();
    measure(text.len() * 10, || {
        peer.say(&text);
        assert_eq!(peer.drain(), n);
    })
}

fn requests_open(n: usize) -> Cost {
    let mut peer = Peer::ready(wide(legacy(), n));
    measure(n * 256, || {
        make(&mut peer, n, || Request::new("x/y").timeout(HOUR));
        for id in peer.ids() {
            peer.session.deadline();
            peer.say(&line(id, "{}"));
        }
        assert_eq!(peer.drain(), n);
    })
}

fn requests_answered_backwards(n: usize) -> Cost {
    let (mut peer, ids) = with_requests(legacy(), n, "x/y");
    measure(n * 128, || {
        ids.iter().rev().for_each(|id| peer.say(&line(*id, "{}")));
        assert_eq!(peer.drain(), n);
    })
}

/// Requests of which few are in flight at a time.
fn queued(n: usize, mut options: Options, one: fn() -> Request) -> Cost {
    let in_flight = options.limits.in_flight;
    options = wide(options, n);
    options.limits.in_flight = in_flight;
    let mut peer = Peer::ready(options);
    measure(n * 512, || {
        make(&mut peer, n, || one().timeout(HOUR));
        let mut finished = 0;
        while let Some(action) = peer.session.poll() {
            match action {
                Action::Send(message) => peer.say(&line(message.wire_id().map(|id| id.as_u64()).unwrap(), "{}")),
                Action::Event(Event::Finished { .. }) => finished += 1,
                _ => {}
            }
        }
        assert_eq!(finished, n);
    })
}

fn requests_queued(n: usize) -> Cost {
    queued(n, legacy(), || Request::new("x/y"))
}

fn tool_calls_serial(n: usize) -> Cost {
    let mut options = legacy();
    options.parallel_tool_calls = false;
    queued(n, options, || Request::call_tool("a", None))
}

/// Other requests overtake waiting tool calls.
fn tool_calls_serial_others(n: usize) -> Cost {
    let mut options = wide(legacy(), 2 * n);
    options.limits.in_flight = 64;
    options.parallel_tool_calls = false;
    let mut peer = Peer::ready(options);
    measure(2 * n * 512, || {
        make(&mut peer, n, || Request::call_tool("a", None).timeout(HOUR));
        make(&mut peer, n, || Request::new("x/y").timeout(HOUR));
        peer.serve(|_| Some("{}".into()));
    })
}

fn requests_disconnected(n: usize) -> Cost {
    let mut peer = Peer::open(wide(legacy(), n));
    measure(n * 512, || {
        make(&mut peer, n, || Request::new("x/y").timeout(HOUR));
        peer.serve(|message| if message.method()? == "x/y" { Some("{}".into()) } else { usual(message) });
        assert!(peer.session.is_ready());
    })
}

fn requests_refused(n: usize) -> Cost {
    let mut peer = Peer::ready(tight(legacy()));
    measure(n * 16, || {
        let made = (0..n).filter(|_| peer.session.request(peer.now, Request::new("x/y")).is_ok()).count();
        assert!(made <= 1024 + 64);
    })
}

fn requests_cancelled(n: usize) -> Cost {
    let mut peer = Peer::ready(wide(legacy(), n));
    let requests: Vec<_> = (0..n).map(|_| request(&mut peer, Request::new("x/y").timeout(HOUR))).collect();
    peer.drain();
    measure(n * 128, || {
        for request in requests {
            peer.session.cancel(peer.now, request).unwrap();
        }
        peer.drain()
    })
}

fn requests_timed_out(n: usize) -> Cost {
    let (mut peer, _) = with_requests(legacy(), n, "x/y");
    measure(n * 128, || {
        peer.now = peer.now + HOUR;
        peer.session.handle_timeout(peer.now);
        assert!(peer.drain() >= n);
    })
}

fn requests_timed_out_one_by_one(n: usize) -> Cost {
    let mut peer = Peer::ready(wide(legacy(), n));
    for at in 0..n {
        request(&mut peer, Request::new("x/y").timeout(Duration::from_millis(1_000 + at as u64)));
    }
    peer.drain();
    measure(n * 128, || peer.wait(HOUR))
}

fn lost(n: usize, replay: bool) -> Cost {
    let mut peer = Peer::ready(wide(legacy(), n));
    for _ in 0..n {
        request(&mut peer, Request::new("x/y").timeout(HOUR).replay(replay));
    }
    peer.drain();
    measure(n * 512, || {
        peer.report(Transport::Closed { why: "gone" });
        peer.wait(Duration::from_secs(5));
        peer.report(Transport::Opened);
        peer.serve(|message| if message.method()? == "x/y" { Some("{}".into()) } else { usual(message) });
        assert!(peer.session.is_ready());
        peer
    })
}

fn requests_lost(n: usize) -> Cost {
    lost(n, false)
}

fn requests_replayed(n: usize) -> Cost {
    lost(n, true)
}

fn request_params_length(n: usize) -> Cost {
    let mut peer = Peer::ready(modern());
    let params = raw(&format!(r#"{{"a":"{}"}}"#, "x\\n".repeat(n)));
    measure(3 * n, || {
        request(&mut peer, Request::new("x/y").params(params));
        peer.drain()
    })
}

fn request_arguments(n: usize) -> Cost {
    let mut peer = Peer::ready(modern());
    let names: Vec<_> = (0..n).map(|at| format!("argument{at}")).collect();
    let arguments =
        raw(&format!("{{{}}}", names.iter().map(|name| format!("\"{name}\":1")).collect::<Vec<_>>().join(",")));
    measure(n * 64, || {
        request(&mut peer, Request::get_prompt("p", names.iter().map(|name| (&**name, "value"))));
        request(&mut peer, Request::call_tool("p", Some(&arguments)));
        request(&mut peer, Request::complete(Reference::Prompt("p"), &names[0], &names[n - 1]));
        peer.drain()
    })
}

fn request_trace_length(n: usize) -> Cost {
    let mut peer = Peer::ready(modern());
    let mut trace = TraceContext::default();
    trace.baggage = Some("a=b,".repeat(n).into());
    measure(4 * n, || {
        request(&mut peer, Request::new("x/y").trace(trace));
        peer.drain()
    })
}

fn answers_late(n: usize) -> Cost {
    let (mut peer, ids) = with_requests(legacy(), n, "x/y");
    peer.now = peer.now + HOUR;
    peer.session.handle_timeout(peer.now);
    peer.drain();
    let text: String = ids.iter().map(|id| line(*id, "{}")).collect();
    measure(text.len(), || {
        peer.say(&text);
        assert_eq!(peer.session.stats().late_answers, n.min(1024) as u64);
    })
}

fn answers_unknown(n: usize) -> Cost {
    let mut peer = Peer::ready(legacy());
    let text: String = (0..n).map(|at| line(1_000_000 + at as u64, "{}") + &line(1, "{}")).collect();
    measure(text.len(), || {
        peer.say(&text);
        peer.drain()
    })
}

/// As many errors without ids as open requests, none of which was polled.
fn errors_without_ids(n: usize) -> Cost {
    let mut peer = Peer::ready(wide(legacy(), n));
    make(&mut peer, n, || Request::new("x/y").timeout(HOUR));
    let one = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"what?"}}"#;
    let text = format!("[{}]\n", vec![one; n].join(","));
    measure(text.len(), || {
        peer.say(&text);
        peer.drain()
    })
}

fn progress(n: usize) -> Cost {
    let mut peer = Peer::ready(legacy());
    request(&mut peer, Request::new("x/y").progress(true));
    let id = peer.sent("x/y");
    let text = |at| note("notifications/progress", &format!(r#"{{"progressToken":{},"progress":{at}}}"#, id + at % 2));
    let text: Vec<_> = (0..n as u64).map(text).collect();
    measure(text.iter().map(String::len).sum(), || {
        for line in &text {
            peer.now = peer.now + Duration::from_millis(100);
            peer.say(line);
        }
        peer.drain()
    })
}

fn progress_of_many(n: usize) -> Cost {
    let mut peer = Peer::ready(wide(legacy(), n));
    make(&mut peer, n, || Request::new("x/y").progress(true).timeout(HOUR));
    let text: String = peer
        .ids()
        .iter()
        .map(|id| {
            note(
                "notifications/progress",
                &format!(r#"{{"progressToken":{id},"progress":1,"message":"{}"}}"#, "x".repeat(64)),
            )
        })
        .collect();
    measure(text.len(), || {
        peer.say(&text);
        peer.session.deadline();
        assert_eq!(peer.drain(), n);
    })
}

fn form(at: usize) -> String {
    asks(
        &at.to_string(),
        "elicitation/create",
        &format!(
            r#"{{"message":"Question {at}: {}","requestedSchema":{{"type":"object","properties":{{}}}}}}"#,
            "y".repeat(64)
        ),
    )
}

fn asking(options: Options, n: usize) -> Peer {
    let mut options = wide(options, n);
    options.limits.server_requests = n + 1;
    Peer::ready(options)
}

/// Polls everything, and returns the server requests.
fn asked(peer: &mut Peer) -> Vec<ServerRequestId> {
    let mut asked = Vec::new();
    while let Some(action) = peer.session.poll() {
        if let Action::Event(Event::ServerRequest { id: ask, .. }) = action {
            asked.push(ask);
        }
    }
    asked
}

fn questions(n: usize) -> Cost {
    let mut peer = asking(legacy(), n);
    let text: String = (0..n).map(form).collect();
    let answer = raw(r#"{"action":"accept","content":{"a":1}}"#);
    measure(text.len(), || {
        peer.say(&text);
        let asked = asked(&mut peer);
        assert_eq!(asked.len(), n);
        for ask in asked {
            peer.session.deadline();
            peer.session.respond(peer.now, ask, Ok(&answer)).unwrap();
        }
        peer.drain()
    })
}

/// URLs that a user has visited, the last one first.
fn url_elicitations(n: usize) -> Cost {
    let mut options = legacy();
    options.capabilities.elicitation_url = true;
    let mut peer = asking(options, n);
    let ask = |at| {
        let params =
            format!(r#"{{"mode":"url","elicitationId":"e-{at}","url":"https://x.example/{at}","message":"sign in"}}"#);
        asks(&format!("{at}"), "elicitation/create", &params)
    };
    let done = |at| note("notifications/elicitation/complete", &format!(r#"{{"elicitationId":"e-{at}"}}"#));
    let (text, done): (String, String) = ((0..n).map(ask).collect(), (0..n).rev().map(done).collect());
    let answer = raw(r#"{"action":"accept"}"#);
    measure(text.len() + done.len(), || {
        peer.say(&text);
        for ask in asked(&mut peer) {
            peer.session.respond(peer.now, ask, Ok(&answer)).unwrap();
        }
        assert_eq!(peer.drain(), n);
        peer.say(&done);
        assert_eq!(peer.drain(), n);
        peer
    })
}

/// More server requests than may wait.
fn questions_over_limit(n: usize) -> Cost {
    let mut peer = Peer::ready(legacy());
    let text: String = (0..n).map(form).collect();
    measure(text.len(), || {
        for line in text.split_inclusive('\n') {
            peer.say(line);
            peer.drain();
        }
    })
}

fn questions_unpolled(n: usize) -> Cost {
    let mut peer = Peer::ready(tight(legacy()));
    let text: String = (0..n).map(form).collect();
    measure(text.len(), || peer.say(&text))
}

fn questions_taken_back(n: usize) -> Cost {
    let mut peer = asking(legacy(), n);
    let text: String = (0..n).map(form).collect();
    peer.say(&text);
    peer.drain();
    let text: String =
        (0..n).rev().map(|at| note("notifications/cancelled", &format!(r#"{{"requestId":{at}}}"#))).collect();
    measure(text.len(), || {
        peer.say(&text);
        assert_eq!(peer.drain(), n);
    })
}

/// Server requests that are made and cancelled while as many client requests are open.
fn questions_with_requests_open(n: usize) -> Cost {
    let (mut peer, _) = with_requests(legacy(), n, "x/y");
    let mut text = String::new();
    for at in 0..n {
        text += &form(at);
        text += &note("notifications/cancelled", &format!(r#"{{"requestId":{at}}}"#));
    }
    measure(text.len(), || {
        for line in text.split_inclusive('\n') {
            peer.now = peer.now + Duration::from_millis(1);
            peer.say(line);
        }
        peer.drain()
    })
}

fn questions_expired(n: usize) -> Cost {
    let mut peer = asking(legacy(), n);
    for at in 0..n {
        peer.now = peer.now + Duration::from_millis(1);
        peer.say(&form(at));
    }
    measure(n * 64, || peer.wait(HOUR))
}

fn defaults(n: usize, default: &str) -> String {
    let fields: Vec<_> = (0..n).map(|at| format!(r#""field{at}":{{"type":"string","default":"{default}"}}"#)).collect();
    format!(r#"{{"message":"?","requestedSchema":{{"type":"object","properties":{{{}}}}}}}"#, fields.join(","))
}

/// A form with defaults; the response has half of the fields.
fn question_defaults(n: usize) -> Cost {
    let mut peer = Peer::ready(legacy());
    let given: Vec<_> = (0..n).step_by(2).map(|at| format!(r#""field{at}":"mine""#)).collect();
    let answer = raw(&format!(r#"{{"action":"accept","content":{{{}}}}}"#, given.join(",")));
    let text = asks("1", "elicitation/create", &defaults(n, "its"));
    measure(text.len() + answer.get().len(), || {
        peer.say(&text);
        let ask = asked(&mut peer)[0];
        peer.session.respond(peer.now, ask, Ok(&answer)).unwrap();
        peer.drain()
    })
}

/// Server requests with long defaults that wait after being polled.
fn question_default_length(n: usize) -> Cost {
    let mut peer = Peer::ready(legacy());
    let text: Vec<_> =
        (0..16).map(|at| asks(&at.to_string(), "elicitation/create", &defaults(1, &"x".repeat(n)))).collect();
    let text = text.concat();
    measure(text.len(), || {
        peer.say(&text);
        peer.drain();
        peer
    })
}

fn question_answer_members(n: usize) -> Cost {
    let mut peer = Peer::ready(legacy());
    let given: String = (0..n).map(|at| format!(r#","field{at}":"mine""#)).collect();
    let answer = raw(&format!(r#"{{"action":"accept"{given},"content":{{"a":1{given}}}}}"#));
    peer.say(&asks("1", "elicitation/create", &defaults(10, "its")));
    let ask = asked(&mut peer)[0];
    measure(answer.get().len(), || {
        peer.session.respond(peer.now, ask, Ok(&answer)).unwrap();
        peer.drain()
    })
}

fn samples_in_a_minute(n: usize) -> Cost {
    let mut options = legacy();
    options.sampling.per_minute = Some(u32::MAX);
    let mut peer = asking(options, n);
    let text: String =
        (0..n).map(|at| asks(&at.to_string(), "sampling/createMessage", r#"{"messages":[],"maxTokens":1}"#)).collect();
    measure(text.len() * 4, || {
        peer.say(&text);
        assert_eq!(peer.drain(), n);
    })
}

fn sample_messages(n: usize) -> Cost {
    let mut options = legacy();
    (options.sampling.tool_rounds, options.sampling.models) = (Some(u32::MAX), vec!["model".into()]);
    let mut peer = Peer::ready(options);
    let message = r#"{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"tool_use"}]}"#;
    let hint = r#"{"name":"other"}"#;
    let params = format!(
        r#"{{"messages":[{}],"modelPreferences":{{"hints":[{},{{"name":"model"}}]}}}}"#,
        vec![message; n].join(","),
        vec![hint; n].join(",")
    );
    let text = asks("1", "sampling/createMessage", &params);
    measure(text.len(), || {
        peer.say(&text);
        assert_eq!(peer.drain(), 1);
    })
}

/// The allowed models of sampling, and as many model hints.
fn sampling_models(n: usize) -> Cost {
    let mut options = legacy();
    options.sampling.models = (0..n).map(|at| format!("model-{at}").into()).collect();
    let mut peer = Peer::ready(options);
    let hints: Vec<_> = (0..n).map(|at| format!(r#"{{"name":"other-{at}"}}"#)).collect();
    let text =
        asks("1", "sampling/createMessage", &format!(r#"{{"modelPreferences":{{"hints":[{}]}}}}"#, hints.join(",")));
    measure(text.len(), || {
        peer.say(&text);
        assert_eq!(peer.drain(), 1);
    })
}

fn wanting(keys: &[String], params: &str, state: &str) -> String {
    let keys: Vec<_> =
        keys.iter().map(|key| format!(r#""{key}":{{"method":"elicitation/create","params":{params}}}"#)).collect();
    format!(r#"{{"resultType":"input_required","inputRequests":{{{}}},"requestState":"{state}"}}"#, keys.join(","))
}

/// Rounds of input for one request, with this content each.
fn rounds(n: usize, keys: usize, params: &str, state: &str) -> Cost {
    let mut options = modern();
    (options.limits.input_rounds, options.limits.server_requests) = (u32::MAX, keys);
    let mut peer = Peer::ready(options);
    let keys: Vec<_> = (0..keys).map(|at| format!("key{at}")).collect();
    let wanted = wanting(&keys, params, state);
    let given = raw(r#"{"action":"accept","content":{}}"#);
    let request = request(&mut peer, Request::call_tool("a", None).timeout(HOUR));
    measure(n * (wanted.len() + keys.len() * given.get().len()), || {
        for _ in 0..n {
            let id = peer.sent("tools/call");
            peer.say(&line(id, &wanted));
            peer.drain();
            peer.session.provide(peer.now, request, keys.iter().map(|key| (&**key, &*given))).unwrap();
        }
        peer.drain()
    })
}

fn input_rounds(n: usize) -> Cost {
    rounds(n, 1, r#"{"message":"?"}"#, "state")
}

fn tasked(n: usize) -> Options {
    let mut options = wide(modern(), n);
    (options.capabilities.tasks, options.listen) = (true, false);
    options.limits.input_rounds = u32::MAX;
    options
}

fn task(id: u64, status: &str, more: &str) -> String {
    format!(r#"{{"resultType":"task","taskId":"task-{id}","status":"{status}","pollIntervalMs":1000{more}}}"#)
}

/// Calls that run as tasks at the same time, and are polled once.
fn tasks(n: usize) -> Cost {
    let (mut peer, ids) = with_requests(tasked(n), n, "tools/call");
    measure(n * 1024, || {
        ids.iter().for_each(|id| peer.say(&line(*id, &task(*id, "working", ""))));
        peer.drain();
        peer.now = peer.now + Duration::from_secs(1);
        peer.session.handle_timeout(peer.now);
        let polls = peer.ids();
        for (poll, id) in polls.iter().zip(&ids) {
            peer.say(&line(*poll, &task(*id, "completed", r#","result":{}"#)));
        }
        assert_eq!(peer.drain(), n);
    })
}

/// Polls of one task, with this content each.
fn polls(n: usize, content: impl Fn(usize) -> String) -> Cost {
    let (mut peer, ids) = with_requests(tasked(1), 1, "tools/call");
    let id = ids.first().copied().unwrap();
    peer.say(&line(id, &task(id, "working", "")));
    measure(n * 512, || {
        for at in 0..n {
            peer.now = peer.now + Duration::from_secs(1);
            peer.session.handle_timeout(peer.now);
            let poll = peer.sent("tasks/get");
            peer.say(&line(poll, &content(at).replace("task-0", &format!("task-{id}"))));
            for update in peer.ids() {
                peer.say(&line(update, "{}"));
            }
        }
        peer.drain()
    })
}

fn task_polls(n: usize) -> Cost {
    polls(n, |_| task(0, "working", ""))
}

/// Inputs that the engine provides, each with another key.
fn task_input_keys(n: usize) -> Cost {
    polls(n, |at| {
        let inputs = format!(r#","inputRequests":{{"key{at}":{{"method":"ping"}}}}"#);
        task(0, "input_required", &inputs)
    })
}

fn input_keys(n: usize) -> Cost {
    rounds(1, n, r#"{"message":"?"}"#, "state")
}

fn input_defaults(n: usize) -> Cost {
    rounds(1, 4, &defaults(n, "its"), "state")
}

fn input_state_length(n: usize) -> Cost {
    rounds(4, 1, r#"{"message":"?"}"#, &"s".repeat(n))
}

fn list_changed(n: usize) -> Cost {
    let mut peer = Peer::ready(legacy());
    let text: String = ["tools", "prompts", "resources"]
        .iter()
        .cycle()
        .take(n)
        .map(|family| note(&format!("notifications/{family}/list_changed"), "{}"))
        .collect();
    measure(text.len(), || {
        peer.say(&text);
        peer.drain()
    })
}

/// Each change is followed by a listing.
fn list_changed_served(n: usize) -> Cost {
    let mut peer = Peer::ready(legacy());
    let changed = note("notifications/tools/list_changed", "{}");
    let mut at = 0;
    measure(n * 128, || {
        for _ in 0..n {
            peer.say(&changed);
            peer.wait_for_list();
            peer.serve(|_| {
                at += 1;
                Some(format!(r#"{{"tools":[{{"name":"tool{at}","inputSchema":{{}}}}]}}"#))
            });
        }
        peer.drain()
    })
}

fn log(at: usize) -> String {
    note(
        "notifications/message",
        &format!(r#"{{"level":"info","logger":"part","data":"message {at} {}"}}"#, "x".repeat(64)),
    )
}

fn log_messages(n: usize) -> Cost {
    let mut peer = Peer::ready(legacy());
    let text: Vec<_> = (0..n).map(log).collect();
    measure(n * text[0].len(), || {
        for line in &text {
            peer.say(line);
            // Those beyond the limit of a second are left out.
            assert!(peer.drain() <= 1);
        }
    })
}

fn unpolled(text: &str) -> Cost {
    let mut peer = Peer::ready(tight(legacy()));
    measure(text.len(), || peer.say(text))
}

fn log_messages_unpolled(n: usize) -> Cost {
    unpolled(&(0..n).map(log).collect::<String>())
}

fn notifications_long_unpolled(n: usize) -> Cost {
    let mut options = legacy();
    options.limits.output_bytes = 1 << 19;
    let mut peer = Peer::ready(options);
    let text = note("x/told", &format!(r#"{{"text":"{}"}}"#, "x".repeat(4_000))).repeat(n);
    measure(text.len(), || peer.say(&text))
}

fn notifications_unknown(n: usize) -> Cost {
    let mut peer = Peer::ready(legacy());
    let text: String = (0..n)
        .map(|at| note(&format!("notifications/unknown{at}"), &format!("{{\"text\":\"{}\"}}", "x".repeat(100))))
        .collect();
    measure(text.len(), || {
        peer.say(&text);
        peer.drain()
    })
}

/// Notifications before the handshake completes.
fn notifications_held(n: usize) -> Cost {
    let mut peer = Peer::open(legacy());
    peer.drain();
    let text: String = (0..n).map(log).collect();
    measure(text.len(), || peer.say(&text))
}

fn ping(at: usize) -> String {
    asks(&at.to_string(), "ping", "{}")
}

fn pings(n: usize) -> Cost {
    let mut peer = Peer::ready(legacy());
    let text: Vec<_> = (0..n).map(ping).collect();
    measure(text.iter().map(String::len).sum(), || {
        for line in &text {
            peer.say(line);
            assert_eq!(peer.drain(), 1);
        }
    })
}

fn pings_unpolled(n: usize) -> Cost {
    unpolled(&(0..n).map(ping).collect::<String>())
}

fn quirks(n: usize) -> Cost {
    let mut peer = Peer::ready(legacy());
    let text: String = (0..n).map(|at| format!("{{\"method\":\"x/{at}\",\"id\":null,\"params\":{{}}}}\n")).collect();
    measure(text.len(), || {
        peer.say(&text);
        peer.drain();
        assert_eq!(peer.session.quirks().len(), 256);
        peer
    })
}

fn subscribing(options: Options, n: usize) -> Peer {
    let mut options = wide(options, n);
    options.limits.subscriptions = n;
    Peer::ready(options)
}

fn subscribe(peer: &mut Peer, at: usize) {
    peer.session.subscribe(peer.now, &format!("file:///resource/{at}")).unwrap();
}

fn agree(message: &mcp_proto::Outgoing) -> Option<String> {
    usual(message).or_else(|| Some("{}".into()))
}

fn subscriptions(n: usize) -> Cost {
    let mut peer = subscribing(legacy(), n);
    measure(n * 512, || {
        (0..n).for_each(|at| subscribe(&mut peer, at));
        peer.serve(agree);
        for at in 0..n {
            peer.session.unsubscribe(peer.now, &format!("file:///resource/{at}")).unwrap();
        }
        peer.serve(agree);
        assert_eq!(peer.session.subscriptions().count(), 0);
    })
}

/// All subscriptions of a modern server use one stream, which is requested after they were made.
fn subscriptions_modern(n: usize) -> Cost {
    let mut options = wide(modern(), n);
    options.limits.subscriptions = n;
    let mut peer = Peer::served(options, |message| {
        greeting(message, r#"{"resources":{"subscribe":true}}"#).or_else(|| usual(message))
    });
    measure(n * 128, || {
        (0..n).for_each(|at| subscribe(&mut peer, at));
        let id = peer.sent("subscriptions/listen");
        let uris: Vec<_> = (0..n).map(|at| format!("\"file:///resource/{at}\"")).collect();
        peer.say(&note(
            "notifications/subscriptions/acknowledged",
            &format!(
                r#"{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}},"notifications":{{"resourceSubscriptions":[{}]}}}}"#,
                uris.join(",")
            ),
        ));
        peer.drain()
    })
}

fn subscriptions_reconnected(n: usize) -> Cost {
    let mut peer = subscribing(legacy(), n);
    (0..n).for_each(|at| subscribe(&mut peer, at));
    peer.serve(agree);
    measure(n * 512, || {
        peer.report(Transport::Closed { why: "gone" });
        peer.wait(Duration::from_secs(5));
        peer.report(Transport::Opened);
        peer.serve(agree);
        assert!(peer.session.is_ready());
    })
}

fn subscription_updates(n: usize) -> Cost {
    let mut peer = subscribing(legacy(), n);
    (0..n).for_each(|at| subscribe(&mut peer, at));
    peer.serve(agree);
    let text: String = (0..n)
        .map(|at| note("notifications/resources/updated", &format!(r#"{{"uri":"file:///resource/{at}"}}"#)))
        .collect();
    measure(text.len(), || {
        peer.say(&text);
        assert_eq!(peer.drain(), n);
    })
}

/// A command is repeated, and nothing is polled.
fn repeated(n: usize, mut peer: Peer, mut command: impl FnMut(&mut Peer, usize)) -> Cost {
    measure(n * 32, || {
        (0..n).for_each(|at| command(&mut peer, at));
        peer
    })
}

fn subscribe_not_listening(n: usize) -> Cost {
    let mut options = modern();
    options.listen = false;
    repeated(n, Peer::ready(tight(options)), |peer, at| {
        let _ = peer.session.subscribe(peer.now, &format!("file:///resource/{}", at % 10));
    })
}

fn subscribe_again(n: usize) -> Cost {
    repeated(n, Peer::ready(tight(legacy())), |peer, _| {
        let _ = peer.session.subscribe(peer.now, "file:///resource");
    })
}

fn subscribe_and_not(n: usize) -> Cost {
    repeated(n, Peer::ready(tight(legacy())), |peer, at| {
        let uri = format!("file:///resource/{}", at % 10);
        let _ = peer.session.subscribe(peer.now, &uri);
        let _ = peer.session.unsubscribe(peer.now, &uri);
    })
}

fn commands_open_close(n: usize) -> Cost {
    repeated(n, Peer::new(legacy()), |peer, _| {
        let _ = peer.session.open(peer.now);
        let _ = peer.session.close(peer.now);
    })
}

fn commands_refresh(n: usize) -> Cost {
    repeated(n, Peer::ready(tight(legacy())), |peer, at| {
        let _ = peer.session.refresh(peer.now, Family::ALL[at % 4]);
    })
}

fn commands_log_level(n: usize) -> Cost {
    repeated(n, Peer::ready(tight(legacy())), |peer, at| {
        let _ = peer.session.set_log_level(peer.now, if at % 2 == 0 { LogLevel::Info } else { LogLevel::Error });
    })
}

fn commands_notify(n: usize) -> Cost {
    let params = raw("{\"a\":1}");
    repeated(n, Peer::ready(tight(legacy())), move |peer, _| {
        let _ = peer.session.notify(peer.now, "notifications/example", Some(&params));
    })
}

fn commands_authorized(n: usize) -> Cost {
    repeated(n, Peer::ready(tight(legacy())), |peer, _| {
        let _ = peer.session.authorized(peer.now);
    })
}

fn commands_cancelled_unpolled(n: usize) -> Cost {
    repeated(n, Peer::ready(tight(legacy())), |peer, _| {
        if let Ok(request) = peer.session.request(peer.now, Request::new("x/y")) {
            let _ = peer.session.cancel(peer.now, request);
        }
    })
}

fn reports_opened(n: usize) -> Cost {
    repeated(n, Peer::ready(tight(legacy())), |peer, _| peer.report(Transport::Opened))
}

fn reports_open_failed(n: usize) -> Cost {
    let mut peer = Peer::open(tight(legacy()));
    peer.report(Transport::Closed { why: "gone" });
    repeated(n, peer, |peer, _| {
        // The wait before the next attempt has passed each time.
        peer.now = peer.now + HOUR;
        peer.session.handle_timeout(peer.now);
        let failed = Transport::OpenFailed { how: OpenFailure::Connect, why: "nobody is there" };
        peer.report(failed);
    })
}

fn reports_closed(n: usize) -> Cost {
    repeated(n, Peer::ready(tight(legacy())), |peer, _| {
        peer.report(Transport::Closed { why: "gone" });
        peer.now = peer.now + HOUR;
        peer.session.handle_timeout(peer.now);
        peer.report(Transport::Opened);
    })
}

fn reports_signs_of_life(n: usize) -> Cost {
    repeated(n, Peer::open(tight(legacy())), |peer, _| {
        peer.now = peer.now + Duration::from_millis(10);
        peer.report(Transport::SignOfLife);
    })
}

fn timeouts(n: usize) -> Cost {
    let mut options = legacy();
    options.keepalive = Some(mcp_proto::Keepalive::default());
    repeated(n, Peer::ready(tight(options)), |peer, _| {
        peer.now = peer.now + Duration::from_secs(20);
        peer.session.handle_timeout(peer.now);
    })
}

fn reconnects(n: usize) -> Cost {
    let mut peer = Peer::ready(legacy());
    measure(n * 1_024, || {
        for _ in 0..n {
            peer.report(Transport::Closed { why: "gone" });
            peer.wait(Duration::from_secs(5));
            peer.report(Transport::Opened);
            peer.serve(usual);
            // The connection outlives a keepalive interval, so it counts as working.
            peer.wait(HOUR);
        }
        assert!(peer.session.is_ready());
        peer
    })
}

fn keepalives(n: usize) -> Cost {
    let mut options = legacy();
    options.keepalive = Some(mcp_proto::Keepalive::default());
    let mut peer = Peer::ready(options);
    measure(n * 64, || {
        for _ in 0..n {
            peer.now = peer.session.deadline().unwrap();
            peer.session.handle_timeout(peer.now);
            peer.serve(agree);
        }
        assert!(peer.session.is_ready());
    })
}
