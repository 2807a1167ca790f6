//! Lists: items, pages, cursors, schemas.

use mcp_proto::catalog::Catalog;
use mcp_proto::catalog::FingerprintKey;
use mcp_proto::{Family, FamilyStatus, Options};

use super::Case;
use crate::meter::{Cost, measure};
use crate::peer::{EMPTY, Peer, greeting, legacy, line, note, usual};

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("list-items", 100, list_items).wide(),
        Case::new("list-items-unsorted", 500, list_items_unsorted),
        Case::new("list-families", 250, list_families),
        Case::new("list-pages", 250, list_pages),
        Case::new("list-cursor-length", 10_000, list_cursor_length),
        Case::new("list-cursor-loop", 250, list_cursor_loop),
        Case::new("list-restarts", 250, list_restarts),
        Case::new("list-bytes", 100_000, list_bytes),
        Case::new("item-name-length", 20_000, item_name_length),
        Case::new("item-description-length", 20_000, item_description_length),
        Case::new("item-members", 1_000, item_members),
        Case::new("items-wrong", 500, items_wrong),
        Case::new("items-wrong-members", 500, items_wrong_members),
        Case::new("items-duplicate", 500, items_duplicate),
        Case::new("items-changed", 250, items_changed),
        Case::new("items-read", 250, items_read),
        Case::new("prompt-arguments", 1_000, prompt_arguments),
    ]
}

fn tool(at: usize) -> String {
    let schema = r#"{"type":"object","properties":{"path":{"type":"string"}}}"#;
    format!(r#"{{"name":"tool{at:06}","description":"Does {at}.","inputSchema":{schema}}}"#)
}

fn tools(ats: impl Iterator<Item = usize>) -> String {
    ats.map(tool).collect::<Vec<_>>().join(",")
}

fn unlimited() -> Options {
    let mut options = legacy();
    options.limits.pages = usize::MAX;
    options
}

/// Receives a list of these tools on one page.
fn listed(tools: &str, count: usize) -> Cost {
    let (mut peer, id) = Peer::listing(unlimited(), "tools/list");
    let text = line(id, &format!(r#"{{"tools":[{tools}]}}"#));
    measure(text.len(), || {
        peer.say(&text);
        peer.drain();
        assert_eq!(peer.session.catalog().list(Family::Tools).len(), count);
        peer
    })
}

fn list_items(n: usize) -> Cost {
    listed(&tools(0..n), n)
}

fn list_items_unsorted(n: usize) -> Cost {
    // A multiplier coprime to every size visits all indices.
    listed(&tools((0..n).map(|at| at * 7919 % n)), n)
}

fn list_families(n: usize) -> Cost {
    let mut peer = Peer::open(legacy());
    let item = |at| format!(r#"{{"name":"i{at}","uri":"file:///{at}","uriTemplate":"file:///{at}/{{x}}"}}"#);
    let items = (0..n).map(item).collect::<Vec<_>>().join(",");
    let lists = format!(r#"{{"prompts":[{items}],"resources":[{items}],"resourceTemplates":[{items}],"tools":[]}}"#);
    // The response to each of the four lists contains all items.
    measure(4 * lists.len(), || {
        peer.serve(|message| usual(message).map(|usual| if usual == EMPTY { lists.clone() } else { usual }));
        assert_eq!(peer.session.catalog().list(Family::ResourceTemplates).len(), n);
        peer
    })
}

/// Receives pages of one tool each, with this cursor, as long as they are requested.
fn paged(n: usize, cursor: impl Fn(usize) -> String) -> Cost {
    let (mut peer, mut id) = Peer::listing(unlimited(), "tools/list");
    let pages: Vec<_> = (0..n)
        .map(|at| {
            let next = if at + 1 < n { format!(r#","nextCursor":"{}""#, cursor(at)) } else { String::new() };
            format!(r#"{{"tools":[{}]{next}}}"#, tool(at))
        })
        .collect();
    measure(pages.iter().map(String::len).sum(), || {
        for page in &pages {
            peer.say(&line(id, page));
            let Some(next) = peer.ids().pop() else { break };
            id = next;
        }
        assert!(peer.session.family(Family::Tools).status != FamilyStatus::NotRequested);
        peer
    })
}

fn list_pages(n: usize) -> Cost {
    paged(n, |at| format!("page {at}"))
}

fn list_cursor_loop(n: usize) -> Cost {
    paged(n, |_| "next".into())
}

fn list_cursor_length(n: usize) -> Cost {
    paged(4, |at| format!("{at}{}", "x".repeat(n)))
}

/// A `list_changed` during each listing, so that another one follows.
fn list_restarts(n: usize) -> Cost {
    let mut peer = Peer::ready(legacy());
    let changed = note("notifications/tools/list_changed", "{}");
    let page = r#"{"tools":[]}"#;
    measure(n * (2 * changed.len() + page.len()), || {
        for _ in 0..n {
            peer.say(&changed);
            peer.wait_for_list();
            let id = peer.sent("tools/list");
            peer.say(&changed);
            peer.say(&line(id, page));
        }
        peer.drain()
    })
}

fn list_bytes(n: usize) -> Cost {
    let mut options = legacy();
    options.limits.list_bytes = 50_000;
    let (mut peer, id) = Peer::listing(options, "tools/list");
    let items: Vec<_> = (0..n / 100)
        .map(|at| format!(r#"{{"name":"t{at}","inputSchema":{{}},"title":"{}"}}"#, "x".repeat(100)))
        .collect();
    let text = line(id, &format!(r#"{{"tools":[{}]}}"#, items.join(",")));
    measure(text.len(), || {
        peer.say(&text);
        peer.drain();
        assert!(peer.session.family(Family::Tools).status == FamilyStatus::Partial);
        peer
    })
}

fn item_name_length(n: usize) -> Cost {
    listed(&format!(r#"{{"name":"{}","inputSchema":{{}}}}"#, "x-".repeat(n)), 1)
}

fn item_description_length(n: usize) -> Cost {
    listed(&format!(r#"{{"name":"a","description":"{}","inputSchema":{{}}}}"#, "Does it.\\n".repeat(n)), 1)
}

fn item_members(n: usize) -> Cost {
    let members: String = (0..n).map(|at| format!(r#","member{at}":[{at}],"title":{at},"description":{{}}"#)).collect();
    listed(&format!(r#"{{"name":"a","inputSchema":{{}}{members}}}"#), 1)
}

fn items_wrong(n: usize) -> Cost {
    let items: Vec<_> = (0..n).map(|at| format!(r#"{{"title":"nameless {at}","inputSchema":{at}}}"#)).collect();
    listed(&items.join(","), 0)
}

fn items_wrong_members(n: usize) -> Cost {
    let wrong =
        |at| format!(r#"{{"name":"t{at}","title":{at},"description":{{}},"inputSchema":null,"annotations":null}}"#);
    listed(&(0..n).map(wrong).collect::<Vec<_>>().join(","), n)
}

fn items_duplicate(n: usize) -> Cost {
    listed(&vec![tool(1); n].join(","), 1)
}

fn items_changed(n: usize) -> Cost {
    let (first, second) = (tools(0..n), tools(n / 2..n + n / 2).replace("Does", "Did"));
    let mut peer = Peer::served(legacy(), |message| {
        greeting(message, crate::peer::CAPABILITIES).or_else(|| {
            Some(if message.method()? == "tools/list" { format!(r#"{{"tools":[{first}]}}"#) } else { EMPTY.into() })
        })
    });
    peer.say(&note("notifications/tools/list_changed", "{}"));
    peer.wait_for_list();
    let id = peer.sent("tools/list");
    let text = line(id, &format!(r#"{{"tools":[{second}]}}"#));
    measure(text.len(), || {
        peer.say(&text);
        assert!(peer.drain() > 0);
    })
}

fn read(catalog: &Catalog) -> usize {
    let tools = catalog.tools().filter(|tool| catalog.tool(tool.name).is_some()).count();
    tools
        + catalog.prompts().map(|prompt| prompt.arguments.len()).sum::<usize>()
        + catalog.fingerprint(FingerprintKey::new([7; 16])).get() as usize % 2
}

fn items_read(n: usize) -> Cost {
    let list = format!(r#"{{"tools":[{}]}}"#, tools(0..n));
    let peer = Peer::served(legacy(), |message| {
        usual(message)
            .map(|usual| if usual == EMPTY && message.method() == Some("tools/list") { list.clone() } else { usual })
    });
    measure(list.len(), || assert!(read(peer.session.catalog()) >= n))
}

fn prompt_arguments(n: usize) -> Cost {
    let arguments: Vec<_> =
        (0..n).map(|at| format!(r#"{{"name":"a{at}","description":"What {at} is.","required":true}}"#)).collect();
    let list = format!(r#"{{"prompts":[{{"name":"p","arguments":[{}]}}]}}"#, arguments.join(","));
    let peer = Peer::served(legacy(), |message| {
        usual(message).map(|usual| if message.method() == Some("prompts/list") { list.clone() } else { usual })
    });
    measure(list.len(), || assert!(read(peer.session.catalog()) >= n))
}
