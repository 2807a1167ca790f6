//! Where the token of a client goes, and where a server that repeats it is not quoted.

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::rc::Rc;

use mcp_proto::binding::http::Broken;
use mcp_proto::testkit::{Endpoint, Reply as Scripted};
use mcp_proto::{Event, Http, Outcome};
use serde_json::{Value, json};

use crate::web::{Reply, Web, modern_site};

use super::joined::{Joined, MCP, issuer};
use super::{Rig, SERVER};

/// How long a comparison takes cannot be measured reliably, so the sources are read: what `expose` gives is compared nowhere,
/// and a secret in one place.
#[test]
fn secrets_are_compared_in_one_place_and_in_constant_time() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/binding/oauth");
    let (mut exposed, mut constant) = (0, Vec::new());
    for file in fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()) {
        let source = fs::read_to_string(&file).unwrap();
        let source = source.split("#[cfg(test)]\nmod tests").next().unwrap();
        let code: Vec<_> = source.lines().map(str::trim).filter(|line| !line.starts_with("//")).collect();
        for statement in code.join(" ").split([';', '{', '}']) {
            if statement.contains("expose()") {
                exposed += 1;
                let comparisons = ["==", "!=", ".eq(", ".ne(", ".cmp(", "matches!", "contains(", "_with("];
                let compared = comparisons.iter().find(|comparison| statement.contains(**comparison));
                assert_eq!(compared, None, "{}: {statement}", file.display());
            }
            if statement.contains("ct_eq(") {
                constant.push(statement.trim().to_owned());
            }
        }
    }
    assert!(exposed > 20, "the sources are not found");
    assert_eq!(constant, ["self.0.as_bytes().ct_eq(other.as_bytes()).into()"]);
}

#[test]
fn a_token_goes_to_no_other_origin() {
    let mut it = Joined::ready(modern_site());
    let (_, exchange) = it.call();
    it.web.reply(&exchange, Reply::text(307, "").with("location", "http://127.0.0.1:4000/mcp"));
    for other in &it.web.log {
        assert!(other.url().starts_with(MCP) || other.header("authorization").is_none(), "{}", other.url());
    }
}

#[test]
fn a_token_that_the_server_repeats_in_a_body_that_is_no_response_is_not_shown() {
    let mut it = Joined::ready(modern_site());
    let (call, exchange) = it.call();
    it.web.reply(&exchange, Reply::text(200, "no at1-hush").with("content-type", "application/json"));
    assert_eq!(it.web.outcome(call), "Error");
    assert!(!format!("{:?}", it.web.events).contains("hush"));
    assert!(!format!("{:?}", it.web.session.quirks()).contains("hush"));
}

/// What is quoted of a body may end within the token: at a number of bytes, or where no more is read.
#[test]
fn a_token_that_is_cut_at_the_end_of_what_is_quoted_is_not_shown() {
    let (wide, blank) = ("é".repeat(96), |length: usize| " ".repeat(length - "at1-hus".len()));
    let shown = |body: &str, change: fn(Reply) -> Reply| {
        let mut it = Joined::ready(modern_site());
        let (call, exchange) = it.call();
        it.web.reply(&exchange, change(Reply::text(200, body)));
        if it.web.is_open(&exchange) {
            it.web.fail(&exchange, Broken::Midway);
        }
        assert_ne!(it.web.outcome(call), "open");
        format!("{:?} {:?}", it.web.events, it.web.session.quirks())
    };
    for shown in [
        shown(&format!("\"{wide}at1-hush"), |reply| reply.with("content-type", "application/json")),
        shown(&format!("data: {}at1-hush\n\n", blank(800)), |reply| reply.with("content-type", "text/event-stream")),
        shown(&format!("{}at1-hush", blank(64 << 10)), |reply| Reply { status: 400, ..reply }),
        shown("no at1-hus", |reply| Reply { status: 400, ends: false, ..reply }),
        // Libraries escape characters in JSON that need not be.
        shown(r#"{"message":"no at1\u002dhush"}"#, |reply| Reply { status: 400, ..reply }),
        shown(&format!(r#"{{"message":"{}\u0061t1\u002Dhush"}}"#, "x".repeat(172)), |reply| Reply {
            status: 400,
            ..reply
        }),
    ] {
        assert!(!shown.contains("at1-hus") && !shown.contains("t1\\\\u002"), "{shown}");
    }
}

#[test]
fn a_token_that_the_server_repeats_as_a_name_is_not_shown() {
    for challenge in ["Basic at1-hush=x", "at1-hush a=b", "Bearer at1-hush=x"] {
        let mut it = Joined::ready(modern_site());
        let (call, exchange) = it.call();
        it.web.reply(&exchange, Reply::text(403, "no").with("www-authenticate", challenge));
        it.take();
        assert_eq!(it.web.outcome(call), "Error");
        assert!(it.web.events.iter().any(|event| matches!(event, Event::Unauthorized { .. })));
        assert!(!format!("{:?}", it.web.events).contains("hush"), "{challenge}");
    }
    let mut it = Joined::ready(modern_site());
    let (_, exchange) = it.call();
    it.web.reply(&exchange, Reply::stream("data: {\"method\":\"notifications/at1-hush\",\"id\":null}\n\n"));
    let quirks: Vec<_> = it.web.events.iter().filter(|event| matches!(event, Event::Quirk(_))).collect();
    assert!(!quirks.is_empty() && !format!("{quirks:?}").contains("hush"), "{quirks:?}");
    assert!(!format!("{:?}", it.web.session.quirks()).contains("hush"));
}

#[test]
fn a_token_goes_to_no_path_that_a_server_may_read_as_one_above_its_resource() {
    for path in ["/mcp/..%2fother", "/mcp/..%5Cother", "/mcp/x/..;a/..;/other"] {
        let mut it = Joined::ready(modern_site());
        let (_, exchange) = it.call();
        it.web.reply(&exchange, Reply::text(307, "").with("location", path));
        let last = it.web.last("tools/call");
        assert!(last.url().ends_with(path) && last.header("authorization").is_none(), "{path}");
    }
}

#[test]
fn a_token_that_the_server_repeats_in_the_error_of_a_list_is_not_shown() {
    let mut it = Joined::ready(modern_site());
    it.web.session.refresh(it.web.now, mcp_proto::Family::Tools).unwrap();
    it.web.collect();
    let exchange = it.web.take_named("tools/list");
    let error = exchange.error(-32000, "no at1-hush");
    it.web.reply(&exchange, Reply::json(200, &error));
    assert!(it.web.session.list_error(mcp_proto::Family::Tools).unwrap().contains("[hidden]"));
    assert!(!format!("{:?} {:?}", it.web.events, it.web.session.quirks()).contains("hush"));
}

#[test]
fn a_token_that_the_server_repeats_in_an_error_is_not_shown_however_it_is_written() {
    let mut it = Joined::ready(modern_site());
    for (data, shown) in [
        (r#"{"token":"at1-hush"}"#, r#"{"token":"[hidden]"}"#),
        (r#"["\u0061t1-hush"]"#, r#""[hidden]""#),
        (r#"["rt1\u002dhush", 1]"#, r#""[hidden]""#),
        (r#"{"a":"\u00e4 \/ at2"}"#, r#"{"a":"\u00e4 \/ at2"}"#),
    ] {
        let (call, exchange) = it.call();
        let id = exchange.json()["id"].clone();
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-1,"message":"no at1-hush","data":{data}}}}}"#);
        it.web.reply(&exchange, Reply::text(200, &body).with("content-type", "application/json"));
        match it.web.ended(call) {
            Some(Outcome::Error(mcp_proto::RequestError::Server(error))) => {
                assert_eq!((&*error.message, error.data.as_ref().unwrap().get()), ("no [hidden]", shown));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_token_that_the_server_repeats_as_a_number_is_not_shown() {
    let tokens = json!({"expires_in": 36_000, "refresh_token": "1234567890"});
    let issuer = issuer().always(Endpoint::Token, Scripted::With(tokens));
    let mut it = Joined::build(modern_site(), Rc::new(RefCell::new(issuer)), |_| {}, |_| {});
    it.serve();
    it.consent();
    it.serve();
    let (call, exchange) = it.call();
    let error = json!({"code": -1, "message": "no", "data": {"session": 1_234_567_890}});
    it.web.reply(&exchange, Reply::json(200, &exchange.answer("error", error)));
    match it.web.ended(call) {
        Some(Outcome::Error(mcp_proto::RequestError::Server(error))) => {
            assert_eq!(error.data.as_ref().unwrap().get(), "\"[hidden]\"");
        }
        other => panic!("{other:?}"),
    }
}

/// The embedder may give a client the authorization of another server, and a store may have a record of another resource.
#[test]
fn a_token_does_not_go_to_a_server_at_another_origin_than_that_of_the_authorization() {
    let stored = || Rig::with(|options| options.stored = true);
    let mut before = stored();
    before.authorize();
    let mut record: Value = serde_json::from_slice(&before.store.record.unwrap()).unwrap();
    for resource in [SERVER, "https://other.example/"] {
        record["resource"] = json!(resource);
        let mut rig = stored();
        rig.store.record = Some(record.to_string().into_bytes());
        rig.pump();
        rig.run();
        for (url, has_token) in [(SERVER, true), ("https://other.example/a/mcp", false)] {
            let mut options = mcp_proto::Options::new("suite", "1.0");
            options.keepalive = None;
            let mut web = Web::over(options, Http::new(url).unwrap().with_oauth((*rig.auth).clone()));
            web.now = rig.now;
            web.reopen();
            assert_eq!(web.take_one().header("authorization").is_some(), has_token, "{resource} {url}");
        }
    }
}

/// A search that starts anew for each secret or for each place would take minutes.
#[test]
fn a_token_that_the_server_repeats_a_million_times_is_not_shown() {
    let mut it = Joined::ready(modern_site());
    for (words, shown) in [("at1-hush ", "[hidden] "), ("at1-hus", "at1-hus"), ("rt1-hushat1-hush", "[hidden][hidden]")]
    {
        let count = (1 << 20) / words.len();
        let (call, exchange) = it.call();
        it.web.reply(&exchange, Reply::json(200, &exchange.error(-32000, &words.repeat(count))));
        match it.web.ended(call) {
            Some(Outcome::Error(mcp_proto::RequestError::Server(error))) => {
                assert!(*error.message == *shown.repeat(count), "{words}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_token_that_the_server_repeats_is_not_shown() {
    let mut it = Joined::ready(modern_site());
    let (call, exchange) = it.call();
    it.web.reply(&exchange, Reply::text(500, "no at1-hush, nor rt1-hush"));
    it.assert_refused(call, 500, "no [hidden], nor [hidden]");
    let (call, exchange) = it.call();
    let challenge = "Bearer error=\"insufficient\", error_description=\"at1-hush\"";
    it.web.reply(&exchange, Reply::text(403, "at1-hush").with("www-authenticate", challenge));
    it.assert_refused(call, 403, "forbidden: the server refuses this user: [hidden]");
    assert!(!format!("{:?}", it.web.events).contains("hush"));
}

/// Neither to the server nor to the authorization server.
#[test]
fn a_token_is_in_no_url() {
    for site in [modern_site(), crate::web::site()] {
        let mut it = Joined::new(site);
        it.serve();
        it.consent();
        it.serve();
        assert!(it.web.is_ready());
        // With a refresh, and a session that ends.
        it.revoke();
        let call = it.ask();
        it.serve();
        assert_eq!(it.web.outcome(call), "Result");
        it.web.close();
        it.serve();
        let presented = it.web.log.iter().filter(|asked| asked.header("authorization").is_some()).count();
        assert!(presented > 2 && it.token_requests() == 2, "{:?}", it.log);
        let urls = it.web.log.iter().map(|asked| asked.url()).chain(it.log.iter().cloned());
        for url in urls {
            assert!(!url.contains("hush") && !url.contains("access_token"), "{url}");
        }
    }
}
