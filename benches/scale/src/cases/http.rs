//! HTTP exchanges: headers, bodies, refusals, number of exchanges.

use std::time::Duration;

use http::HeaderMap;
use mcp_proto::binding::http::{Broken, HttpAction, HttpRequest};
use mcp_proto::{Options, RawValue, Request};

use super::Case;
use crate::meter::{Cost, measure};
use crate::peer::{legacy, line, modern, wide};
use crate::web::{Web, event, headers, id_of, method_of, with};

const HOUR: Duration = Duration::from_secs(3600);

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("http-calls", 100, http_calls),
        Case::new("http-calls-streamed", 100, http_calls_streamed),
        Case::new("http-calls-answered-elsewhere", 250, http_calls_answered_elsewhere),
        Case::new("http-calls-open", 100, http_calls_open),
        Case::new("http-calls-broken", 100, http_calls_broken),
        Case::new("http-calls-resumed", 100, http_calls_resumed),
        Case::new("http-calls-later", 100, http_calls_later),
        Case::new("http-calls-expired", 100, http_calls_expired),
        Case::new("http-calls-cancelled", 100, http_calls_cancelled),
        Case::new("http-calls-before-stream", 100, http_calls_before_stream),
        Case::new("http-bodies-unfinished", 50, http_bodies_unfinished).at_most(4 * BODIES),
        Case::new("http-streams-answered", 50, http_streams_answered).at_most(4 * BODIES),
        Case::new("http-body-chunks", 1_000, http_body_chunks),
        Case::new("http-body-blank", 20_000, http_body_blank),
        Case::new("http-refusal-length", 10_000, http_refusal_length),
        Case::new("http-refusal-error-length", 5_000, http_refusal_error_length),
        Case::new("http-refusals", 500, http_refusals),
        Case::new("http-headers", 200, http_headers),
        Case::new("http-content-type-length", 5_000, http_content_type_length),
        Case::new("http-session-id-length", 5_000, http_session_id_length),
        Case::new("http-cookies", 200, http_cookies),
        Case::new("http-cookie-length", 5_000, http_cookie_length),
        // A challenge stores its scheme and each parameter's name and value.
        Case::new("http-challenges", 100, http_challenges).each(256),
        Case::new("http-challenge-params", 200, http_challenge_params),
        Case::new("http-challenge-length", 5_000, http_challenge_length),
        Case::new("http-retry-after-length", 5_000, http_retry_after_length),
        Case::new("http-location-length", 5_000, http_location_length),
        Case::new("http-redirects", 100, http_redirects),
        Case::new("http-endpoint-length", 20_000, http_endpoint_length),
        Case::new("http-endpoints", 250, http_endpoints),
        Case::new("http-notifications-unanswered", 500, http_notifications_unanswered).at_most(4096 * 640),
        Case::new("http-recoveries", 50, http_recoveries),
        // With 1,000 and with 8,000 calls, each takes two allocations less than with any other number that was tried.
        Case::new("errors-wanting-tokens", 300, errors_wanting_tokens),
        Case::new("reports-unauthorized", 500, reports_unauthorized),
        Case::new("reports-of-exchanges", 500, reports_of_exchanges),
        Case::new("header-annotations", 500, header_annotations),
        Case::new("header-annotations-wrong", 500, header_annotations_wrong),
        Case::new("header-annotations-deep", 100, header_annotations_deep),
        Case::new("header-annotations-long-path", 500, header_annotations_long_path),
        Case::new("header-annotations-wrong-path", 500, header_annotations_wrong_path),
        Case::new("header-annotations-twice", 500, header_annotations_twice),
        Case::new("header-arguments", 100, header_arguments),
        // An argument is in the message, in the request's body and, encoded, in a header.
        Case::new("header-argument-length", 10_000, header_argument_length).each(12),
        Case::new("header-calls", 50, header_calls),
        Case::new("schema-width", 500, schema_width),
        Case::new("schema-depth", 200, schema_depth),
        Case::new("schema-arrays", 1_000, schema_arrays),
        Case::new("schema-arrays-deep", 200, schema_arrays_deep),
    ]
}

/// The bound on buffered bytes in cases with bodies of maximum size.
const BODIES: usize = 1 << 20;

fn call(web: &mut Web, request: Request) {
    web.session.request(web.now, request.timeout(HOUR)).unwrap();
}

/// A session with calls whose POSTs were started.
fn calling(options: Options, n: usize, params: usize) -> (Web, Vec<(HttpRequest, u64)>) {
    let mut web = Web::ready(wide(options, n), "");
    let params = RawValue::from_string(format!(r#"{{"a":"{}"}}"#, "x".repeat(params))).unwrap();
    (0..n).for_each(|_| call(&mut web, Request::new("x/y").params(params.clone())));
    let requests = web.requests().into_iter().map(|request| {
        let id = id_of(&request).unwrap();
        (request, id)
    });
    let requests: Vec<_> = requests.collect();
    assert_eq!(requests.len(), n);
    (web, requests)
}

fn http_calls(n: usize) -> Cost {
    let (mut web, calls) = calling(legacy(), n, 10);
    measure(n * 256, || {
        for (request, id) in calls {
            web.result(request.exchange, id, "{}");
            web.session.deadline();
        }
        assert_eq!(web.drain(), n);
    })
}

fn http_calls_streamed(n: usize) -> Cost {
    let (mut web, calls) = calling(legacy(), n, 10);
    measure(n * 512, || {
        for (request, _) in &calls {
            web.events(request.exchange);
        }
        for (request, id) in &calls {
            web.session.handle_body(web.now, request.exchange, event(&line(*id, "{}")).as_bytes());
        }
        for (request, _) in &calls {
            web.session.handle_end(web.now, request.exchange);
        }
        assert_eq!(web.drain(), n);
    })
}

/// The responses arrive on the GET stream, and the POSTs stay open. The calls must leave nothing behind.
fn http_calls_answered_elsewhere(n: usize) -> Cost {
    let mut web = Web::ready(legacy(), "");
    measure(n * 64, || {
        for _ in 0..n {
            call(&mut web, Request::new("x/y"));
            let request = web.requests().pop().unwrap();
            web.events(request.exchange);
            web.told(&event(&line(id_of(&request).unwrap(), "{}")));
            // Longer than an exchange may stay open after its request was answered.
            web.now = web.now + Duration::from_secs(10);
            web.session.handle_timeout(web.now);
            web.drain();
        }
        web
    })
}

fn http_calls_open(n: usize) -> Cost {
    let mut web = Web::ready(wide(legacy(), n), "");
    measure(n * 1_024, || {
        (0..n).for_each(|_| call(&mut web, Request::new("x/y")));
        assert_eq!(web.drain(), n);
        web.now = web.now + HOUR;
        web.session.handle_timeout(web.now);
        web.drain()
    })
}

fn http_calls_broken(n: usize) -> Cost {
    let (mut web, calls) = calling(legacy(), n, 10);
    measure(n * 256, || {
        for (request, _) in calls {
            web.session.handle_failure(web.now, request.exchange, Broken::Midway, "it broke");
        }
        web.drain()
    })
}

fn http_calls_resumed(n: usize) -> Cost {
    let (mut web, calls) = calling(legacy(), n, 10);
    measure(n * 1_024, || {
        for (request, _) in &calls {
            web.events(request.exchange);
            web.session.handle_body(web.now, request.exchange, b"id: 7\nretry: 10\ndata:\n\n");
            web.session.handle_end(web.now, request.exchange);
        }
        web.drain();
        web.now = web.now + Duration::from_secs(1);
        web.session.handle_timeout(web.now);
        assert_eq!(web.drain(), n);
    })
}

fn http_calls_later(n: usize) -> Cost {
    let (mut web, calls) = calling(legacy(), n, 10);
    let busy = with(&[("retry-after", "2")]);
    measure(n * 1_024, || {
        for (request, _) in &calls {
            web.head(request.exchange, 429, &busy);
            web.session.handle_end(web.now, request.exchange);
        }
        web.drain();
        web.now = web.now + Duration::from_secs(3);
        web.session.handle_timeout(web.now);
        // For each call an event that tells of the attempt, and its request.
        assert_eq!(web.drain(), 2 * n);
    })
}

fn http_calls_expired(n: usize) -> Cost {
    let (mut web, calls) = calling(legacy(), n, 10);
    measure(n * 1_024, || {
        for (request, _) in &calls {
            web.status(request.exchange, 404);
            web.serve("");
        }
        web.serve("");
    })
}

fn http_calls_cancelled(n: usize) -> Cost {
    let mut web = Web::ready(wide(legacy(), n), "");
    let calls: Vec<_> = (0..n).map(|_| web.session.request(web.now, Request::new("x/y")).unwrap()).collect();
    web.drain();
    measure(n * 512, || {
        for call in calls {
            web.session.cancel(web.now, call).unwrap();
        }
        web.requests().into_iter().for_each(|request| web.status(request.exchange, 202));
    })
}

/// Tool calls wait for the GET stream while the server's pings are answered.
fn http_calls_before_stream(n: usize) -> Cost {
    let mut web = Web::open(wide(legacy(), 2 * n));
    // The GET of the stream is never answered.
    while let Some(action) = web.session.poll() {
        let HttpAction::Request(request) = action else { continue };
        match (request.request.method().as_str(), id_of(&request), method_of(&request)) {
            ("GET", ..) => {}
            (_, None, _) => web.status(request.exchange, 202),
            (_, Some(id), Some("initialize")) => web.result(
                request.exchange,
                id,
                r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#,
            ),
            (_, Some(id), _) => web.result(request.exchange, id, r#"{"tools":[]}"#),
        }
    }
    assert!(web.session.is_ready());
    measure(n * 1_024, || {
        for _ in 0..n {
            call(&mut web, Request::call_tool("a", None));
            call(&mut web, Request::new("x/y"));
            web.drain();
            web.session.deadline();
        }
        web.now = web.now + Duration::from_secs(1);
        web.session.handle_timeout(web.now);
        assert!(web.drain() >= n);
    })
}

fn bounded(mut options: Options) -> Options {
    options.limits.message.bytes = BODIES;
    options.limits.output_bytes = BODIES;
    // Less than the input at the smallest size, so that every size exceeds it.
    options.limits.buffered = BODIES / 16;
    options
}

/// Unfinished JSON bodies of all requests in flight.
fn http_bodies_unfinished(n: usize) -> Cost {
    let (mut web, calls) = calling(bounded(legacy()), 64, 10);
    let chunk = vec![b'x'; 100];
    for (request, _) in &calls {
        web.head(request.exchange, 200, &headers("application/json"));
        web.session.handle_body(web.now, request.exchange, b"{");
    }
    measure(n * chunk.len() * 64, || {
        for (request, _) in &calls {
            (0..n * 4).for_each(|_| web.session.handle_body(web.now, request.exchange, &chunk));
        }
        web
    })
}

/// Streams that continue with an endless event after their requests were answered.
fn http_streams_answered(n: usize) -> Cost {
    let (mut web, calls) = calling(bounded(legacy()), 64, 10);
    let chunk = vec![b'x'; 100];
    for (request, id) in &calls {
        web.events(request.exchange);
        web.session.handle_body(web.now, request.exchange, event(&line(*id, "{}")).as_bytes());
        web.session.handle_body(web.now, request.exchange, b"data: ");
    }
    web.drain();
    measure(n * chunk.len() * 64, || {
        for (request, _) in &calls {
            (0..n * 4).for_each(|_| web.session.handle_body(web.now, request.exchange, &chunk));
        }
        web
    })
}

/// One call with this response in its exchange.
fn answered(options: Options, input: usize, answer: impl FnOnce(&mut Web, HttpRequest)) -> Cost {
    let (mut web, calls) = calling(options, 1, 10);
    let (request, _) = calls.into_iter().next().unwrap();
    measure(input, || {
        answer(&mut web, request);
        web.drain()
    })
}

fn http_body_chunks(n: usize) -> Cost {
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"a":"{}"}}}}"#, "x".repeat(n));
    answered(legacy(), body.len(), |web, request| {
        web.head(request.exchange, 200, &headers("application/json"));
        body.as_bytes().chunks(1).for_each(|byte| web.session.handle_body(web.now, request.exchange, byte));
        web.session.handle_end(web.now, request.exchange);
    })
}

fn http_body_blank(n: usize) -> Cost {
    let body = " \r\n".repeat(n);
    answered(legacy(), body.len(), |web, request| {
        web.head(request.exchange, 200, &HeaderMap::new());
        body.as_bytes().chunks(1).for_each(|byte| web.session.handle_body(web.now, request.exchange, byte));
        web.session.handle_end(web.now, request.exchange);
    })
}

fn refused(status: u16, body: &str) -> Cost {
    answered(legacy(), body.len(), |web, request| {
        web.head(request.exchange, status, &headers("text/plain"));
        web.session.handle_body(web.now, request.exchange, body.as_bytes());
        web.session.handle_end(web.now, request.exchange);
    })
}

fn http_refusal_length(n: usize) -> Cost {
    refused(500, &"Oh no! ".repeat(n))
}

fn http_refusal_error_length(n: usize) -> Cost {
    refused(
        400,
        &format!(r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":-32000,"message":"{}"}}}}"#, "Oh no! ".repeat(n)),
    )
}

/// Calls that are refused again each time they are sent.
fn http_refusals(n: usize) -> Cost {
    let mut web = Web::ready(wide(legacy(), 16), "");
    let later = with(&[("retry-after", "1")]);
    measure(n * 512, || {
        let mut refused = 0;
        while refused < n {
            let mut requests = web.requests();
            if requests.is_empty() {
                (0..16).for_each(|_| call(&mut web, Request::new("x/y")));
                requests = web.requests();
            }
            for request in requests {
                web.head(request.exchange, if refused % 2 == 0 { 429 } else { 503 }, &later);
                web.session.handle_body(web.now, request.exchange, b"Later.");
                web.session.handle_end(web.now, request.exchange);
                refused += 1;
            }
            web.now = web.now + Duration::from_secs(60);
            web.session.handle_timeout(web.now);
        }
        web
    })
}

fn headed(status: u16, headers: &HeaderMap) -> Cost {
    let input = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    answered(legacy(), input, |web, request| {
        web.head(request.exchange, status, headers);
        web.session.handle_end(web.now, request.exchange);
    })
}

fn http_headers(n: usize) -> Cost {
    let members: Vec<_> = (0..n).map(|at| (format!("x-header-{at}"), format!("value {at}"))).collect();
    let members: Vec<_> = members.iter().map(|(name, value)| (&**name, &**value)).collect();
    headed(500, &with(&members))
}

fn http_content_type_length(n: usize) -> Cost {
    headed(200, &headers(&format!("text/x; {}", "a=b; ".repeat(n))))
}

fn http_session_id_length(n: usize) -> Cost {
    let mut web = Web::open(legacy());
    let request = web.requests().pop().unwrap();
    let id = "0123456789".repeat(n / 10);
    measure(n, || {
        web.head(request.exchange, 200, &with(&[("content-type", "application/json"), ("mcp-session-id", &id)]));
        web.drain();
        web
    })
}

fn http_cookies(n: usize) -> Cost {
    let cookies = (0..n).map(|at| (http::header::SET_COOKIE, format!("cookie{at}={at}; Path=/").parse().unwrap()));
    headed(500, &cookies.collect())
}

fn http_cookie_length(n: usize) -> Cost {
    headed(500, &with(&[("set-cookie", &format!("a={}; Path=/{}", "x".repeat(n), "; ".repeat(n)))]))
}

fn http_challenges(n: usize) -> Cost {
    let mut headers = HeaderMap::new();
    for at in 0..n {
        let challenge = format!(r#"Bearer realm="{at}", scope="a b", Basic realm="{at}""#);
        headers.append("www-authenticate", challenge.parse().unwrap());
    }
    headed(401, &headers)
}

fn http_challenge_params(n: usize) -> Cost {
    let params: Vec<_> = (0..n).map(|at| format!(r#"param{at}="value {at}""#)).collect();
    headed(401, &with(&[("www-authenticate", &format!("Bearer {}", params.join(", ")))]))
}

fn http_challenge_length(n: usize) -> Cost {
    headed(401, &with(&[("www-authenticate", &format!(r#"Bearer realm="{}", {}"#, "a\\\"".repeat(n), ",".repeat(n)))]))
}

/// Calls that are refused without a token, and sent again with one.
fn errors_wanting_tokens(n: usize) -> Cost {
    let (mut web, calls) = calling(legacy(), n, 10);
    let why = "Who are you? ".repeat(4);
    let challenge = with(&[("www-authenticate", "Bearer")]);
    measure(n * (128 + why.len()), || {
        for (request, _) in &calls {
            web.head(request.exchange, 401, &challenge);
            web.session.handle_body(web.now, request.exchange, why.as_bytes());
            web.session.handle_end(web.now, request.exchange);
        }
        web.drain();
        web.session.authorized(web.now).unwrap();
        assert!(web.drain() >= n);
    })
}

/// Consecutive calls that are refused and abandoned.
fn reports_unauthorized(n: usize) -> Cost {
    let mut web = Web::ready(legacy(), "");
    let challenge = with(&[("www-authenticate", r#"Bearer scope="a b""#)]);
    measure(n * 128, || {
        for at in 0..n {
            let call = web.session.request(web.now, Request::new("x/y")).unwrap();
            let request = web.requests().pop().unwrap();
            web.head(request.exchange, if at % 2 == 0 { 401 } else { 403 }, &challenge);
            web.session.handle_end(web.now, request.exchange);
            web.session.cancel(web.now, call).unwrap();
        }
        web
    })
}

/// All inputs for an exchange that is over.
fn reports_of_exchanges(n: usize) -> Cost {
    let (mut web, calls) = calling(legacy(), 1, 10);
    let (request, id) = &calls[0];
    web.result(request.exchange, *id, "{}");
    measure(n * 32, || {
        for at in 0..n {
            match at % 4 {
                0 => web.head(request.exchange, 404, &HeaderMap::new()),
                1 => web.session.handle_body(web.now, request.exchange, b"data: x\n\n"),
                2 => web.session.handle_end(web.now, request.exchange),
                _ => web.session.handle_failure(web.now, request.exchange, Broken::Midway, "it broke"),
            }
        }
        web
    })
}

fn http_retry_after_length(n: usize) -> Cost {
    headed(429, &with(&[("retry-after", &"0".repeat(n))]))
}

fn http_location_length(n: usize) -> Cost {
    headed(307, &with(&[("location", &format!("/{}?key=1", "../a/".repeat(n)))]))
}

/// Calls that are each redirected to another origin.
fn http_redirects(n: usize) -> Cost {
    let mut web = Web::ready(legacy(), "");
    let targets: Vec<_> = (0..n).map(|at| with(&[("location", &format!("/mcp{at}"))])).collect();
    measure(n * 1_024, || {
        for target in &targets {
            call(&mut web, Request::new("x/y"));
            let request = web.requests().pop().unwrap();
            web.head(request.exchange, 307, target);
            let request = web.requests().pop().unwrap();
            web.result(request.exchange, id_of(&request).unwrap(), "{}");
            web.drain();
        }
    })
}

/// A session whose `initialize` was refused, and the answered GET for the HTTP+SSE stream.
fn older() -> (Web, HttpRequest) {
    let mut web = Web::open(legacy());
    let request = web.requests().pop().unwrap();
    web.status(request.exchange, 405);
    let stream = web.requests().pop().unwrap();
    web.events(stream.exchange);
    (web, stream)
}

fn http_endpoint_length(n: usize) -> Cost {
    let (mut web, stream) = older();
    let text = format!("event: endpoint\ndata: https://other.example/{}\n\n", "\u{e9}%20/".repeat(n));
    measure(text.len(), || {
        web.session.handle_body(web.now, stream.exchange, text.as_bytes());
        web.drain();
        web
    })
}

fn http_endpoints(n: usize) -> Cost {
    let (mut web, stream) = older();
    let text: String = (0..n).map(|at| format!("event: endpoint\ndata: /messages?session={at}\n\n")).collect();
    measure(text.len(), || {
        web.session.handle_body(web.now, stream.exchange, text.as_bytes());
        web.drain();
        web
    })
}

/// Notifications whose POSTs the server leaves open.
fn http_notifications_unanswered(n: usize) -> Cost {
    let mut web = Web::ready(legacy(), "");
    measure(n * 64, || {
        for _ in 0..n {
            let _ = web.session.notify(web.now, "notifications/example", None);
            web.drain();
        }
        web
    })
}

/// The server repeatedly expires the session, each time after a call was answered.
fn http_recoveries(n: usize) -> Cost {
    let mut web = Web::ready(legacy(), "");
    measure(n * 2_048, || {
        for _ in 0..n {
            call(&mut web, Request::new("x/y"));
            let request = web.requests().into_iter().find(|request| method_of(request) == Some("x/y")).unwrap();
            web.status(request.exchange, 404);
            web.serve("");
            web.now = web.now + HOUR;
            web.session.handle_timeout(web.now);
            web.serve("");
        }
        web
    })
}

/// Lists a tool with this schema in the modern era.
fn listed(schema: &str) -> Cost {
    let mut options = modern();
    options.limits.message.depth = 1_000_000;
    let mut web = Web::open(options);
    let request = loop {
        let request = web.requests().pop().unwrap();
        let (Some("tools/list"), Some(_)) = (method_of(&request), id_of(&request)) else {
            let greeting =
                r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#;
            web.result(request.exchange, id_of(&request).unwrap(), greeting);
            continue;
        };
        break request;
    };
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{{"resultType":"complete","tools":[{{"name":"a","inputSchema":{schema}}}]}}}}"#,
        id_of(&request).unwrap()
    );
    measure(body.len(), || {
        web.head(request.exchange, 200, &headers("application/json"));
        web.session.handle_body(web.now, request.exchange, body.as_bytes());
        web.session.handle_end(web.now, request.exchange);
        web.drain();
        assert!(web.session.is_ready());
        web
    })
}

fn annotated(n: usize, name: impl Fn(usize) -> String) -> String {
    let property = |at| format!(r#""p{at}":{{"type":"string","x-mcp-header":"{}"}}"#, name(at));
    format!(r#"{{"type":"object","properties":{{{}}}}}"#, (0..n).map(property).collect::<Vec<_>>().join(","))
}

fn header_annotations(n: usize) -> Cost {
    listed(&annotated(n, |at| format!("Header-{at}")))
}

fn header_annotations_wrong(n: usize) -> Cost {
    listed(&annotated(n, |at| format!("not a header {at}")))
}

fn header_annotations_twice(n: usize) -> Cost {
    listed(&annotated(n, |_| "Same".into()))
}

/// As many annotated properties as nesting levels above them.
fn header_annotations_deep(n: usize) -> Cost {
    let inner = annotated(n, |at| format!("Header-{at}"));
    let (open, close) = (r#"{"type":"object","properties":{"o":"#.repeat(n), "}}".repeat(n));
    listed(&format!("{open}{inner}{close}"))
}

fn under_long_name(n: usize, name: impl Fn(usize) -> String) -> String {
    format!(r#"{{"type":"object","properties":{{"{}":{}}}}}"#, "long".repeat(n), annotated(n, name))
}

/// Annotated properties below a property whose name is as long as all of them together.
fn header_annotations_long_path(n: usize) -> Cost {
    listed(&under_long_name(n, |at| format!("Header-{at}")))
}

fn header_annotations_wrong_path(n: usize) -> Cost {
    listed(&under_long_name(n, |at| format!("not a header {at}")))
}

/// Calls a tool whose arguments are repeated in headers.
fn mirrored(schema: &str, arguments: &str, calls: usize) -> Cost {
    let mut web = Web::ready(modern(), &format!(r#"{{"name":"a","inputSchema":{schema}}}"#));
    let arguments = RawValue::from_string(arguments.into()).unwrap();
    // The schema is read again for each call.
    measure(calls * (arguments.get().len() + schema.len()), || {
        for _ in 0..calls {
            call(&mut web, Request::call_tool("a", Some(&arguments)));
            let request = web.requests().pop().unwrap();
            web.result(request.exchange, id_of(&request).unwrap(), r#"{"content":[]}"#);
            web.drain();
        }
    })
}

fn values(n: usize) -> String {
    format!("{{{}}}", (0..n).map(|at| format!(r#""p{at}":"value {at} é""#)).collect::<Vec<_>>().join(","))
}

fn header_arguments(n: usize) -> Cost {
    mirrored(&annotated(n, |at| format!("Header-{at}")), &values(n), 1)
}

fn header_argument_length(n: usize) -> Cost {
    mirrored(&annotated(1, |_| "Header".into()), &format!(r#"{{"p0":"{}"}}"#, "xé".repeat(n)), 1)
}

fn header_calls(n: usize) -> Cost {
    mirrored(&annotated(10, |at| format!("Header-{at}")), &values(10), n)
}

fn schema_width(n: usize) -> Cost {
    let property = |at| format!(r#""p{at}":{{"type":"string","description":"x-mcp-header {at}","enum":["a","b"]}}"#);
    listed(&format!(r#"{{"type":"object","properties":{{{}}}}}"#, (0..n).map(property).collect::<Vec<_>>().join(",")))
}

fn schema_depth(n: usize) -> Cost {
    let (open, close) = (r#"{"type":"object","properties":{"o":"#.repeat(n), "}}".repeat(n));
    listed(&format!(r#"{open}{{"type":"string","x-mcp-header":"A"}}{close}"#))
}

fn schema_arrays(n: usize) -> Cost {
    let branches = vec![r#"{"type":"string"}"#; n].join(",");
    listed(&format!(r#"{{"type":"object","description":"x-mcp-header","anyOf":[{branches}]}}"#))
}

fn schema_arrays_deep(n: usize) -> Cost {
    let (open, close) = (r#"{"anyOf":["#.repeat(n), "]}".repeat(n));
    listed(&format!(r#"{{"type":"object","description":"x-mcp-header","allOf":[{open}{close}]}}"#))
}
