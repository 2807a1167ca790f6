//! TOLERANCE.md, "Pagination": each row, with the default and with each policy.

use std::time::Duration;

use crate::common::{Host, Server, Shared, Steps, legacy, options, tools};
use mcp_proto::{Era, FailureKind, Family, FamilyStatus, ListErrors, Options, QuirkKind};
use serde_json::{Value, json};

/// Runs a case against a legacy server and against a modern one.
fn both(case: impl Fn(Era)) {
    case(Era::Legacy);
    case(Era::Modern);
}

fn options_for(era: Era) -> Options {
    let mut options = match era {
        Era::Legacy => legacy(),
        Era::Modern => options(),
    };
    options.server = "rovo".into();
    options
}

fn degrading(era: Era) -> Options {
    let mut options = options_for(era);
    options.tolerance.list_errors = ListErrors::Degrade;
    options
}

fn server(era: Era) -> Server {
    let capabilities = json!({"tools": {"listChanged": true}});
    match era {
        Era::Legacy => Server::legacy(capabilities),
        Era::Modern => Server::modern(capabilities),
    }
}

/// A page of tools, with its `nextCursor`.
fn page(names: &[&str], next: Option<&str>) -> Value {
    let mut page = tools(names);
    if let Some(next) = next {
        page["nextCursor"] = next.into();
    }
    page
}

fn complete(era: Era, mut result: Value) -> Value {
    if era == Era::Modern {
        result["resultType"] = "complete".into();
        result["ttlMs"] = 0.into();
        result["cacheScope"] = "public".into();
    }
    result
}

fn refusal(code: i64, message: &str) -> Value {
    json!({"code": code, "message": message})
}

/// A server whose pages of tools `answer` computes from the cursor.
fn paging(era: Era, mut answer: impl FnMut(Option<&str>) -> Result<Value, Value> + Send + 'static) -> Server {
    server(era).on("tools/list", move |params| {
        let cursor = params.get("cursor").map(|cursor| cursor.as_str().unwrap());
        answer(cursor).map(|result| complete(era, result))
    })
}

/// The cursors that a server received, in order.
fn cursors(server: &Server) -> Vec<Option<&str>> {
    let requested = server.messages().filter(|message| message["method"] == "tools/list");
    requested.map(|message| message["params"].get("cursor").map(|cursor| cursor.as_str().unwrap())).collect()
}

fn assert_tools(host: &Host, status: FamilyStatus, names: &[&str], quirks: &[QuirkKind]) {
    assert!(host.is_ready(), "{:?}", host.failure());
    assert_eq!(host.status(Family::Tools), status);
    assert_eq!(host.keys(Family::Tools), names);
    assert_eq!(host.quirks(), quirks);
    for kind in quirks {
        assert_eq!(host.quirk_methods(*kind), ["tools/list"]);
    }
}

fn assert_failed(host: &Host, words: &str) {
    assert!(!host.is_ready());
    assert_eq!(host.failure_kind(), Some(FailureKind::ListFailed));
    let message = &host.failure().unwrap().message;
    for part in ["rovo", "tools/list", words] {
        assert!(message.contains(part), "no {part:?} in {message:?}");
    }
}

const LOOPED: &[QuirkKind] = &[QuirkKind::CursorLoop];
const LIMITED: &[QuirkKind] = &[QuirkKind::ListLimit];
const REJECTED: &[QuirkKind] = &[QuirkKind::CursorRejected];

#[test]
fn a_list_follows_the_cursors_to_the_end() {
    both(|era| {
        let mut server = paging(era, |cursor| {
            Ok(match cursor {
                None => page(&["c"], Some("2 \"\u{e9}\\")),
                Some("2 \"\u{e9}\\") => page(&["b"], Some("3")),
                Some(_) => page(&["a"], None),
            })
        });
        let host = Host::connect(options_for(era), &mut server);
        assert_tools(&host, FamilyStatus::Listed, &["c", "b", "a"], &[]);
        assert_eq!(cursors(&server), [None, Some("2 \"\u{e9}\\"), Some("3")]);
        assert_eq!(host.session.family(Family::Tools).pages, 3);
    });
}

/// Codewhale #5335
#[test]
fn next_cursor_null_is_the_end() {
    both(|era| {
        let mut server = paging(era, |cursor| {
            let mut last = page(&["b"], None);
            last["nextCursor"] = Value::Null;
            Ok(if cursor.is_none() { page(&["a"], Some("2")) } else { last })
        });
        let host = Host::connect(options_for(era), &mut server);
        assert_tools(&host, FamilyStatus::Listed, &["a", "b"], &[]);
        assert_eq!(cursors(&server), [None, Some("2")]);
    });
}

/// fastmcp #5025
#[test]
fn an_empty_cursor_is_followed() {
    both(|era| {
        let mut server =
            paging(era, |cursor| Ok(if cursor.is_none() { page(&["a"], Some("")) } else { page(&["b"], None) }));
        let host = Host::connect(options_for(era), &mut server);
        assert_tools(&host, FamilyStatus::Listed, &["a", "b"], &[]);
        assert_eq!(cursors(&server), [None, Some("")]);
    });
}

/// java-sdk #575, csharp-sdk #1072
#[test]
fn cursor_loop_of_an_endless_empty_cursor_ends_the_list() {
    both(|era| {
        let mut server = paging(era, |_| Ok(page(&["a", "b"], Some(""))));
        let host = Host::connect(options_for(era), &mut server);
        assert_tools(&host, FamilyStatus::Listed, &["a", "b"], LOOPED);
        assert_eq!(cursors(&server), [None, Some("")]);
    });
}

/// java-sdk #575
#[test]
fn cursor_loop_of_an_empty_cursor_with_new_items_is_followed() {
    both(|era| {
        let mut server = paging(era, |cursor| {
            Ok(if cursor.is_none() { page(&["a", "b"], Some("")) } else { page(&["b", "c"], Some("")) })
        });
        let host = Host::connect(options_for(era), &mut server);
        assert_tools(&host, FamilyStatus::Listed, &["a", "b", "c"], LOOPED);
        assert_eq!(cursors(&server), [None, Some(""), Some("")]);
    });
}

/// codebase-memory-mcp #1247
#[test]
fn cursor_loop_without_new_items_is_listed() {
    both(|era| {
        for repeated in [&["a"][..], &[]] {
            let mut server = paging(era, move |cursor| {
                Ok(match cursor {
                    None => page(&["a"], Some("1")),
                    Some(_) => page(repeated, Some("1")),
                })
            });
            let host = Host::connect(options_for(era), &mut server);
            assert_tools(&host, FamilyStatus::Listed, &["a"], LOOPED);
            assert_eq!(cursors(&server), [None, Some("1")]);
        }
    });
}

/// codebase-memory-mcp #1247
#[test]
fn cursor_loop_with_new_items_is_followed() {
    both(|era| {
        let mut server = paging(era, |cursor| {
            Ok(match cursor {
                None => page(&["a"], Some("1")),
                Some(_) => page(&["a", "b"], Some("1")),
            })
        });
        let host = Host::connect(options_for(era), &mut server);
        assert_tools(&host, FamilyStatus::Listed, &["a", "b"], LOOPED);
        assert_eq!(cursors(&server), [None, Some("1"), Some("1")]);
    });
}

#[test]
fn cursor_loop_of_one_constant_cursor_for_pages_that_differ_is_followed() {
    both(|era| {
        let pages = Shared::new(0);
        let mut server = paging(era, move |_| {
            pages.set(pages.get() + 1);
            Ok(page([&["a"], &["b"], &["c"], &["c"][..]][pages.get() - 1], Some("next")))
        });
        let host = Host::connect(options_for(era), &mut server);
        assert_tools(&host, FamilyStatus::Listed, &["a", "b", "c"], LOOPED);
        assert_eq!(cursors(&server), [None, Some("next"), Some("next"), Some("next")]);
    });
}

/// codebase-memory-mcp #1247
#[test]
fn cursor_loop_over_several_pages_is_detected() {
    both(|era| {
        let (ended, followed) = ([None, Some("A"), Some("B")], [None, Some("A"), Some("B"), Some("A")]);
        for (last, requested, names) in
            [(&["a"][..], &ended[..], &["a", "b"][..]), (&["c"], &followed, &["a", "b", "c"])]
        {
            let mut server = paging(era, move |cursor| {
                Ok(match cursor {
                    None => page(&["a"], Some("A")),
                    Some("A") => page(&["b"], Some("B")),
                    Some(_) => page(last, Some("A")),
                })
            });
            let host = Host::connect(options_for(era), &mut server);
            assert_tools(&host, FamilyStatus::Listed, names, LOOPED);
            assert_eq!(cursors(&server), requested);
        }
    });
}

/// codebase-memory-mcp #1247
#[test]
fn cursor_loop_is_reported_once_for_each_method() {
    both(|era| {
        let capabilities = json!({"tools": {"listChanged": true}, "prompts": {}});
        let server = match era {
            Era::Legacy => Server::legacy(capabilities),
            Era::Modern => Server::modern(capabilities),
        };
        let mut server = server
            .result("tools/list", complete(era, page(&["a"], Some("1"))))
            .result("prompts/list", complete(era, json!({"prompts": [{"name": "p"}], "nextCursor": "1"})));
        let mut host = Host::connect(options_for(era), &mut server);
        host.receive(list_changed());
        host.wait(Duration::from_secs(1));
        host.serve(&mut server);
        assert_eq!(server.received("tools/list"), 4);
        assert_eq!(host.quirk_methods(QuirkKind::CursorLoop), ["tools/list", "prompts/list"]);
        assert_eq!(host.quirks().len(), 2);
        assert_eq!(host.keys(Family::Prompts), ["p"]);
    });
}

/// A server with endless pages: one tool each, and always a new cursor.
fn endless(era: Era) -> Server {
    let mut count = 0_u32;
    paging(era, move |_| {
        count = count.saturating_add(1);
        let mut page = tools(&[format!("t{count}").as_str()]);
        page["nextCursor"] = count.to_string().into();
        Ok(page)
    })
}

#[test]
fn list_limit_of_pages_ends_the_list() {
    both(|era| {
        let mut options = options_for(era);
        options.limits.pages = 3;
        let mut server = endless(era);
        let host = Host::connect(options, &mut server);
        assert_tools(&host, FamilyStatus::Partial, &["t1", "t2", "t3"], LIMITED);
        assert_eq!(cursors(&server), [None, Some("1"), Some("2")]);
    });
}

#[test]
fn list_limit_of_pages_is_a_thousand() {
    both(|era| {
        let mut server = endless(era);
        let host = Host::connect(options_for(era), &mut server);
        assert_eq!(server.received("tools/list"), 1000);
        assert_eq!((host.status(Family::Tools), host.count(Family::Tools)), (FamilyStatus::Partial, 1000));
        assert_eq!(host.quirks(), LIMITED);
    });
}

#[test]
fn list_limit_applies_to_pages_without_items() {
    both(|era| {
        let mut options = options_for(era);
        options.limits.pages = 3;
        let mut count = 0_u32;
        let mut server = paging(era, move |_| {
            count = count.saturating_add(1);
            Ok(json!({"tools": [], "nextCursor": count.to_string()}))
        });
        let host = Host::connect(options, &mut server);
        assert_tools(&host, FamilyStatus::Partial, &[], LIMITED);
        assert_eq!(server.received("tools/list"), 3);
    });
}

/// Three pages with two tools each.
fn three_pages(era: Era) -> Server {
    paging(era, |cursor| {
        Ok(match cursor {
            None => page(&["a", "b"], Some("1")),
            Some("1") => page(&["c", "d"], Some("2")),
            Some(_) => page(&["e", "f"], None),
        })
    })
}

#[test]
fn list_limit_of_items_cuts_the_page() {
    both(|era| {
        let mut options = options_for(era);
        options.limits.items = 3;
        let mut server = three_pages(era);
        let host = Host::connect(options, &mut server);
        assert_tools(&host, FamilyStatus::Partial, &["a", "b", "c"], LIMITED);
        assert_eq!(cursors(&server), [None, Some("1")]);
    });
}

#[test]
fn list_limit_of_items_applies_within_one_page() {
    both(|era| {
        let mut options = options_for(era);
        options.limits.items = 2;
        let host = Host::connect(options, &mut paging(era, |_| Ok(page(&["a", "b", "c"], None))));
        assert_tools(&host, FamilyStatus::Partial, &["a", "b"], LIMITED);
    });
}

#[test]
fn list_limit_of_bytes_ends_the_list() {
    both(|era| {
        let one_page = tools(&["a", "b"])["tools"].to_string().len();
        let mut options = options_for(era);
        options.limits.list_bytes = one_page * 2;
        let mut server = three_pages(era);
        let host = Host::connect(options, &mut server);
        assert_tools(&host, FamilyStatus::Partial, &["a", "b", "c", "d"], LIMITED);
        assert_eq!(cursors(&server), [None, Some("1"), Some("2")]);
    });
}

#[test]
fn a_list_as_long_as_the_limits_is_complete() {
    both(|era| {
        let one_page = tools(&["a", "b"])["tools"].to_string().len();
        let mut options = options_for(era);
        options.limits.pages = 3;
        options.limits.items = 6;
        options.limits.list_bytes = one_page * 3;
        let host = Host::connect(options, &mut three_pages(era));
        assert_tools(&host, FamilyStatus::Listed, &["a", "b", "c", "d", "e", "f"], &[]);
    });
}

/// A server that rejects the cursor of the second page the first `refusals` times.
fn refusing(era: Era, mut refusals: u32, code: i64) -> Server {
    paging(era, move |cursor| match cursor {
        None => Ok(page(&["a"], Some("1"))),
        Some(_) if refusals > 0 => {
            refusals = refusals.saturating_sub(1);
            Err(refusal(code, "that cursor is stale"))
        }
        Some(_) => Ok(page(&["b"], None)),
    })
}

#[test]
fn cursor_rejected_once_starts_the_walk_again() {
    both(|era| {
        for options in [options_for(era), degrading(era)] {
            let mut server = refusing(era, 1, -32602);
            let host = Host::connect(options, &mut server);
            assert_tools(&host, FamilyStatus::Listed, &["a", "b"], REJECTED);
            assert_eq!(cursors(&server), [None, Some("1"), None, Some("1")]);
        }
    });
}

#[test]
fn cursor_rejected_discards_the_first_attempt() {
    both(|era| {
        let mut walks = 0_u32;
        let mut server = paging(era, move |cursor| match cursor {
            None => {
                walks = walks.saturating_add(1);
                Ok(if walks == 1 { page(&["old"], Some("1")) } else { page(&["new"], None) })
            }
            Some(_) => Err(refusal(-32602, "that cursor is stale")),
        });
        let host = Host::connect(options_for(era), &mut server);
        assert_tools(&host, FamilyStatus::Listed, &["new"], REJECTED);
        assert_eq!(host.session.family(Family::Tools).pages, 1);
    });
}

#[test]
fn cursor_rejected_twice_fails() {
    both(|era| {
        let mut server = refusing(era, 2, -32602);
        let host = Host::connect(options_for(era), &mut server);
        assert_failed(&host, "that cursor is stale");
        assert_eq!(cursors(&server), [None, Some("1"), None, Some("1")]);
        assert_eq!(host.quirks(), REJECTED);
    });
}

#[test]
fn cursor_rejected_twice_keeps_the_earlier_pages_by_policy() {
    both(|era| {
        let mut server = refusing(era, 2, -32602);
        let host = Host::connect(degrading(era), &mut server);
        assert_tools(&host, FamilyStatus::Partial, &["a"], REJECTED);
        assert_eq!(cursors(&server), [None, Some("1"), None, Some("1")]);
    });
}

#[test]
fn invalid_params_without_a_cursor_restarts_nothing() {
    both(|era| {
        let refusing = || paging(era, |_| Err(refusal(-32602, "no cursor was given")));
        let mut server = refusing();
        let host = Host::connect(options_for(era), &mut server);
        assert_failed(&host, "no cursor was given");
        assert_eq!(cursors(&server), [None]);
        assert!(host.quirks().is_empty());

        let mut server = refusing();
        let host = Host::connect(degrading(era), &mut server);
        assert_tools(&host, FamilyStatus::Failed, &[], &[]);
        assert_eq!(cursors(&server), [None]);
    });
}

#[test]
fn an_error_on_a_later_page_fails_the_list() {
    both(|era| {
        for code in [-32603, -32000, -32601] {
            let mut server = refusing(era, 1, code);
            let host = Host::connect(options_for(era), &mut server);
            assert_failed(&host, "that cursor is stale");
            assert_eq!(cursors(&server), [None, Some("1")]);
            assert!(host.quirks().is_empty());
        }
    });
}

#[test]
fn an_error_on_a_later_page_keeps_the_earlier_pages_by_policy() {
    both(|era| {
        for code in [-32603, -32000] {
            let mut server = refusing(era, 1, code);
            let host = Host::connect(degrading(era), &mut server);
            assert_tools(&host, FamilyStatus::Partial, &["a"], &[]);
            assert_eq!(cursors(&server), [None, Some("1")]);
        }
    });
}

fn list_changed() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
}

/// A client that waits for the first page of tools.
fn waiting_for_first_page(options: Options, era: Era) -> Host {
    let mut host = Host::open(options);
    let mut server = server(era);
    let mut steps = Steps::until("the tools are requested");
    while !host.methods().contains(&"tools/list") {
        steps.step();
        for message in host.take_sent() {
            server.answer(&message).into_iter().for_each(|answer| host.receive(answer));
        }
    }
    host
}

/// A client with the tool `a`, five seconds after it was listed.
fn after_discovery(era: Era) -> Host {
    let mut host = waiting_for_first_page(options_for(era), era);
    answer(&mut host, None, page(&["a"], None));
    assert_eq!(host.keys(Family::Tools), ["a"]);
    host.wait(Duration::from_secs(5));
    assert_eq!(take_walks(&mut host), 0);
    host
}

/// The list requests for tools since the last call.
fn take_lists(host: &mut Host) -> Vec<Value> {
    host.take_sent().into_iter().filter(|message| message["method"] == "tools/list").collect()
}

fn take_walks(host: &mut Host) -> usize {
    take_lists(host).len()
}

/// The one list request, which must have this cursor.
fn requested_page(host: &mut Host, cursor: Option<&str>) -> Value {
    let requested = take_lists(host);
    let [request] = requested.as_slice() else { panic!("one page at a time: {requested:#?}") };
    assert_eq!(request["params"].get("cursor").and_then(Value::as_str), cursor);
    request.clone()
}

fn answer(host: &mut Host, cursor: Option<&str>, result: Value) {
    let request = requested_page(host, cursor);
    let modern = request["params"]["_meta"].get("io.modelcontextprotocol/protocolVersion").is_some();
    let result = complete(if modern { Era::Modern } else { Era::Legacy }, result);
    host.receive(json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
}

fn refuse(host: &mut Host, cursor: Option<&str>, code: i64) {
    let request = requested_page(host, cursor);
    let error = refusal(code, "that cursor is stale");
    host.receive(json!({"jsonrpc": "2.0", "id": request["id"], "error": error}));
}

#[test]
fn list_changed_during_a_list_is_followed_by_another_refresh() {
    both(|era| {
        for notifications in [1, 20] {
            let mut host = waiting_for_first_page(options_for(era), era);
            answer(&mut host, None, page(&["a"], Some("1")));
            for _ in 0..notifications {
                host.receive(list_changed());
            }
            answer(&mut host, Some("1"), page(&["b"], None));
            assert!(!host.is_ready(), "the second walk is part of discovery");
            answer(&mut host, None, page(&["c"], Some("1")));
            answer(&mut host, Some("1"), page(&["d"], None));
            assert_tools(&host, FamilyStatus::Listed, &["c", "d"], &[]);
            host.wait(Duration::from_secs(60));
            assert_eq!(take_walks(&mut host), 0);
        }
    });
}

#[test]
fn list_changed_before_the_first_page_counts_as_during_the_list() {
    both(|era| {
        let mut host = waiting_for_first_page(options_for(era), era);
        host.receive(list_changed());
        answer(&mut host, None, page(&["a"], None));
        answer(&mut host, None, page(&["b"], None));
        assert_tools(&host, FamilyStatus::Listed, &["b"], &[]);
    });
}

#[test]
fn list_changed_in_the_second_refresh_does_not_delay_ready() {
    both(|era| {
        let mut host = waiting_for_first_page(options_for(era), era);
        host.receive(list_changed());
        answer(&mut host, None, page(&["a"], None));
        host.receive(list_changed());
        answer(&mut host, None, page(&["b"], None));
        assert_tools(&host, FamilyStatus::Listed, &["b"], &[]);

        host.wait(Duration::from_millis(999));
        assert_eq!(take_walks(&mut host), 0, "one refresh a second at most");
        host.wait(Duration::from_millis(1));
        answer(&mut host, None, page(&["c"], None));
        assert_tools(&host, FamilyStatus::Listed, &["c"], &[]);
        host.wait(Duration::from_secs(60));
        assert_eq!(take_walks(&mut host), 0);
    });
}

#[test]
fn list_changed_in_the_second_refresh_lets_its_pages_arrive() {
    both(|era| {
        let mut host = waiting_for_first_page(options_for(era), era);
        host.receive(list_changed());
        answer(&mut host, None, page(&["a"], None));
        answer(&mut host, None, page(&["b"], Some("1")));
        host.receive(list_changed());
        answer(&mut host, Some("1"), page(&["c"], Some("2")));
        answer(&mut host, Some("2"), page(&["d"], None));
        assert_tools(&host, FamilyStatus::Listed, &["b", "c", "d"], &[]);
        host.wait(Duration::from_secs(1));
        answer(&mut host, None, page(&["e"], None));
        assert_tools(&host, FamilyStatus::Listed, &["e"], &[]);
    });
}

#[test]
fn list_changed_on_every_page_reaches_ready() {
    both(|era| {
        let mut host = waiting_for_first_page(options_for(era), era);
        for _ in 0..10 {
            host.receive(list_changed());
            if host.is_ready() {
                break;
            }
            answer(&mut host, None, page(&["a"], None));
        }
        assert!(host.is_ready());
        assert!(host.methods().iter().filter(|method| **method == "tools/list").count() <= 2);
    });
}

#[test]
fn list_changed_of_a_slow_server_causes_no_concurrent_refreshes() {
    both(|era| {
        let mut host = waiting_for_first_page(options_for(era), era);
        host.receive(list_changed());
        answer(&mut host, None, page(&["a"], None));
        host.receive(list_changed());
        host.wait(Duration::from_secs(10));
        answer(&mut host, None, page(&["b"], None));
        assert_tools(&host, FamilyStatus::Listed, &["b"], &[]);
        host.wait(Duration::from_secs(1));
        answer(&mut host, None, page(&["c"], None));
        assert_tools(&host, FamilyStatus::Listed, &["c"], &[]);
    });
}

#[test]
fn list_changed_of_resources_during_a_list_repeats_both_lists() {
    both(|era| {
        let capabilities = json!({"resources": {"listChanged": true}});
        let server = match era {
            Era::Legacy => Server::legacy(capabilities),
            Era::Modern => Server::modern(capabilities),
        };
        let mut server = server
            .result("resources/list", complete(era, json!({"resources": [{"uri": "r:1", "name": "r"}]})))
            .result("resources/templates/list", complete(era, json!({"resourceTemplates": []})));
        let mut host = Host::open(options_for(era));
        let mut steps = Steps::until("the templates are requested");
        while !host.methods().contains(&"resources/templates/list") {
            steps.step();
            for message in host.take_sent() {
                server.answer(&message).into_iter().for_each(|answer| host.receive(answer));
            }
        }
        host.receive(json!({"jsonrpc": "2.0", "method": "notifications/resources/list_changed"}));
        host.serve(&mut server);
        assert!(host.is_ready());
        assert_eq!((server.received("resources/list"), server.received("resources/templates/list")), (2, 2));
    });
}

#[test]
fn list_changed_is_debounced() {
    both(|era| {
        let mut host = after_discovery(era);
        for _ in 0..10 {
            host.receive(list_changed());
            host.wait(Duration::from_millis(29));
        }
        host.wait(Duration::from_millis(9));
        assert_eq!(take_walks(&mut host), 0);
        host.wait(Duration::from_millis(1));
        answer(&mut host, None, page(&["b"], None));
        assert_tools(&host, FamilyStatus::Listed, &["b"], &[]);
        host.wait(Duration::from_secs(60));
        assert_eq!(take_walks(&mut host), 0);
    });
}

#[test]
fn list_changed_causes_one_refresh_a_second_at_most() {
    both(|era| {
        let mut host = after_discovery(era);
        let mut walks = 0;
        for _ in 0..100 {
            host.receive(list_changed());
            host.wait(Duration::from_millis(100));
            let requested = take_lists(&mut host);
            assert!(requested.len() <= 1);
            walks += requested.len();
            for request in requested {
                let result = complete(era, page(&[format!("t{walks}").as_str()], None));
                host.receive(json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
            }
        }
        assert!((9..=10).contains(&walks), "{walks} walks in 10 s");
    });
}

#[test]
fn list_changed_during_a_refresh_is_followed_by_another() {
    both(|era| {
        let mut host = after_discovery(era);
        host.receive(list_changed());
        host.wait(Duration::from_millis(300));
        answer(&mut host, None, page(&["b"], Some("1")));
        host.receive(list_changed());
        host.wait(Duration::from_secs(10));
        answer(&mut host, Some("1"), page(&["c"], None));
        assert_tools(&host, FamilyStatus::Listed, &["b", "c"], &[]);
        assert!(host.session.family(Family::Tools).stale);
        host.wait(Duration::from_secs(1));
        answer(&mut host, None, page(&["d"], None));
        assert_tools(&host, FamilyStatus::Listed, &["d"], &[]);
        assert!(!host.session.family(Family::Tools).stale);
    });
}

#[test]
fn cursor_rejected_during_a_refresh_restarts_it_once() {
    both(|era| {
        let mut host = after_discovery(era);
        host.receive(list_changed());
        host.wait(Duration::from_millis(300));
        answer(&mut host, None, page(&["b"], Some("1")));
        refuse(&mut host, Some("1"), -32602);
        answer(&mut host, None, page(&["c"], Some("1")));
        refuse(&mut host, Some("1"), -32602);
        assert_tools(&host, FamilyStatus::Listed, &["a"], REJECTED);
        assert_eq!(take_walks(&mut host), 0);
        host.wait(Duration::from_secs(2));
        answer(&mut host, None, page(&["d"], None));
        assert_tools(&host, FamilyStatus::Listed, &["d"], REJECTED);
    });
}

#[test]
fn an_error_after_list_changed_keeps_the_earlier_pages_and_refreshes() {
    both(|era| {
        let mut host = waiting_for_first_page(degrading(era), era);
        answer(&mut host, None, page(&["a"], Some("1")));
        host.receive(list_changed());
        refuse(&mut host, Some("1"), -32603);
        assert_tools(&host, FamilyStatus::Partial, &["a"], &[]);
        host.wait(Duration::from_secs(1));
        answer(&mut host, None, page(&["b"], None));
        assert_tools(&host, FamilyStatus::Listed, &["b"], &[]);
    });
}

/// A list result without its array is an empty list; a cursor that is not a string ends the list.
#[test]
fn list_shape_is_read_as_the_closest_valid_list() {
    let odd = [
        json!({}),
        json!({"tools": null}),
        json!({"tools": [], "nextCursor": 7}),
        json!({"tools": [], "nextCursor": {}}),
    ];
    for result in odd {
        let mut server = Server::legacy(json!({"tools": {}})).result("tools/list", result.clone());
        let host = Host::connect(legacy(), &mut server);
        assert!(host.is_ready(), "{result}");
        assert_eq!((host.status(Family::Tools), host.count(Family::Tools)), (FamilyStatus::Listed, 0));
        assert_eq!(host.quirk_methods(QuirkKind::ListShape), ["tools/list"], "{result}");
        assert_eq!(server.received("tools/list"), 1);
    }
}
