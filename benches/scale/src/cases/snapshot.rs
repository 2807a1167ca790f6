//! Snapshots: items, requests and lines that they contain, and documents that are not restored.

use mcp_proto::{Client, Lines, Moved, Options, Request, Secrets, Snapshot, Time};

use super::Case;
use crate::meter::{Cost, measure};
use crate::peer::{EMPTY, Peer, greeting, legacy, wide};

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("snapshot-items", 500, snapshot_items).each(200),
        Case::new("snapshot-requests", 500, snapshot_requests).each(1_000),
        // The document, its text and the restored line exist at once, in buffers that double.
        Case::new("snapshot-line", 20_000, snapshot_line).each(2),
        Case::new("snapshot-damaged", 100_000, snapshot_damaged),
        Case::new("snapshot-invalid", 20_000, snapshot_invalid),
    ]
}

/// Saves a client, and restores it.
fn moved(client: &Client<Lines>, options: Options) -> Cost {
    let text = serde_json::to_string(&client.snapshot(Secrets::Included)).unwrap();
    measure(text.len(), || {
        let saved = serde_json::to_string(&client.snapshot(Secrets::Included)).unwrap();
        let snapshot: Snapshot = serde_json::from_str(&saved).unwrap();
        drop(saved);
        Client::from_snapshot(Lines::new(), options, &snapshot, Moved::WithTransport).unwrap()
    })
}

fn snapshot_items(n: usize) -> Cost {
    let tools: Vec<_> = (0..n)
        .map(|at| format!(r#"{{"name":"tool{at:06}","description":"Does {at}.","inputSchema":{{"type":"object"}}}}"#))
        .collect();
    let list = format!(r#"{{"tools":[{}]}}"#, tools.join(","));
    let peer = Peer::served(legacy(), |message| match message.method()? {
        "tools/list" => Some(list.clone()),
        _ => greeting(message, r#"{"tools":{}}"#).or_else(|| Some(EMPTY.into())),
    });
    moved(&peer.session, legacy())
}

fn snapshot_requests(n: usize) -> Cost {
    let mut peer = Peer::ready(wide(legacy(), n));
    for _ in 0..n {
        peer.session.request(peer.now, Request::call_tool("a", None)).unwrap();
    }
    moved(&peer.session, wide(legacy(), n))
}

fn snapshot_line(n: usize) -> Cost {
    let mut peer = Peer::ready(legacy());
    peer.say(&"x".repeat(n));
    moved(&peer.session, legacy())
}

/// A document of this length whose checksum does not match.
fn snapshot_damaged(n: usize) -> Cost {
    let client = Client::new(Lines::new(), legacy(), 0);
    let text = serde_json::to_string(&client.snapshot(Secrets::Included)).unwrap();
    let text = text.replacen("\"state\":\"", &format!("\"state\":\"{}", "[".repeat(n)), 1);
    measure(text.len(), || {
        let snapshot: Snapshot = serde_json::from_str(&text).unwrap();
        Client::from_snapshot(Lines::new(), legacy(), &snapshot, Moved::WithTransport).unwrap_err()
    })
}

/// A client beyond the limits of the options that it is restored with.
fn snapshot_invalid(n: usize) -> Cost {
    let mut peer = Peer::ready(legacy());
    peer.say(&"x".repeat(n));
    let text = serde_json::to_string(&peer.session.snapshot(Secrets::Included)).unwrap();
    let mut options = legacy();
    options.limits.message.bytes = 1;
    measure(text.len(), || {
        let snapshot: Snapshot = serde_json::from_str(&text).unwrap();
        assert_eq!(snapshot.time(), Time::ZERO);
        Client::from_snapshot(Lines::new(), options, &snapshot, Moved::WithTransport).unwrap_err()
    })
}
