//! Saved lists: how long they are fresh, and for whom they may be restored.

use crate::common::{Host, KEY, Server, legacy, options, seconds, tools};
use crate::rig::{Rig, configuration, programs, with_tools};
use mcp_proto::Family;
use mcp_proto::host::Saved;
use mcp_proto::host::config::Entry;
use mcp_proto::host::hub::{HubCommandError, HubOptions};
use mcp_proto::protocol::CacheScope;
use serde_json::{Value, json};

/// When lists are saved, in seconds since 1970.
const AT: u64 = 1_000_000;

#[test]
fn saved_lists_have_at_most_as_many_items_as_a_server_may_have() {
    let saved = up(of_user(None), public()).hub.save(mcp_proto::Time::ZERO, "a", KEY, AT).unwrap();
    let with = |items: usize| {
        let mut saved = serde_json::to_value(&saved).unwrap();
        let tool = |number| json!({"name": format!("t{number}"), "inputSchema": {}});
        saved["families"]["tools"]["items"] = (0..items).map(tool).collect();
        serde_json::from_value::<Saved>(saved)
    };
    let limit = mcp_proto::Limits::default().items;
    assert!(with(limit).is_ok());
    let error = with(limit + 1).unwrap_err().to_string();
    assert!(error.contains("the saved items of `tools` are invalid: there are too many"), "{error}");
}

/// A modern server, which says this of its description and of its list of tools.
fn cached(description: &Value, list: &Value) -> Server {
    let mut discover = json!({
        "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
        "serverInfo": {"name": "s", "version": "1"},
    });
    let mut listed = tools(&["x"]);
    listed["resultType"] = json!("complete");
    for (result, more) in [(&mut discover, description), (&mut listed, list)] {
        result.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    }
    Server::modern(json!({"tools": {}})).result("server/discover", discover).result("tools/list", listed)
}

fn public() -> Server {
    let public = json!({"cacheScope": "public", "ttlMs": 60_000});
    cached(&public, &public)
}

fn of_user(user: Option<&str>) -> HubOptions {
    let mut hub = HubOptions::new(options());
    hub.user = user.map(Into::into);
    hub
}

fn up(options: HubOptions, server: Server) -> Rig {
    Rig::new(options).peer("a", server).up(&["a"])
}

fn written(saved: &Saved) -> Saved {
    serde_json::from_str(&serde_json::to_string(saved).unwrap()).unwrap()
}

fn fresh_until(saved: &Saved) -> Option<u64> {
    *saved.fresh_until.get(Family::Tools)
}

#[test]
fn saved_lists_are_fresh_as_long_as_the_server_said() {
    let mut rig = up(of_user(None), public());
    rig.wait(seconds(10));
    let saved = rig.hub.save(rig.now + seconds(20), "a", KEY, AT).unwrap();
    assert_eq!(fresh_until(&saved), Some(AT + 30));
    assert!(saved.is_fresh(AT) && saved.is_fresh(AT + 29) && !saved.is_fresh(AT + 30));
    let later = rig.hub.save(rig.now + seconds(600), "a", KEY, AT).unwrap();
    assert!(!later.is_fresh(AT), "its time was over before");

    // They keep their time when they are saved again.
    let mut next = Rig::new(of_user(None)).peer("a", public());
    next.configure(programs(&["a"]));
    next.hub.restore(next.now, "a", written(&saved)).unwrap();
    let again = next.hub.save(next.now + seconds(5), "a", KEY, AT + 500).unwrap();
    assert_eq!((again.at, fresh_until(&again), again.scope), (AT, Some(AT + 30), CacheScope::Public));

    // The server lists again, and they are fresh again.
    next.open();
    next.collect();
    next.hub.start(next.now, "a").unwrap();
    next.collect();
    next.serve();
    let fresh = next.hub.save(next.now, "a", KEY, AT + 500).unwrap();
    assert_eq!((fresh.at, fresh_until(&fresh)), (AT + 500, Some(AT + 560)));
}

#[test]
fn lists_without_a_time_to_live_and_lists_that_changed_are_not_fresh() {
    for server in [cached(&json!({}), &json!({})), cached(&json!({"ttlMs": 9000}), &json!({}))] {
        let saved = up(of_user(None), server).hub.save(mcp_proto::Time::ZERO, "a", KEY, AT).unwrap();
        assert_eq!((fresh_until(&saved), saved.is_fresh(AT)), (None, false));
    }
    let mut hub = HubOptions::new(legacy());
    hub.session.timeouts.refresh_interval = seconds(600);
    let mut list = tools(&["x"]);
    list["ttlMs"] = json!(60_000);
    let mut rig = up(hub, with_tools(&["x"]).result("tools/list", list));
    assert!(rig.hub.save(rig.now, "a", KEY, AT).unwrap().is_fresh(AT));
    rig.write_to_output("a", &json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    let saved = rig.hub.save(rig.now, "a", KEY, AT).unwrap();
    assert!(!saved.is_fresh(AT), "the server announced a change");
}

#[test]
fn what_a_server_does_not_call_public_is_private() {
    let (public, private) = (json!({"cacheScope": "public"}), json!({"cacheScope": "private"}));
    let other = [json!({}), json!({"cacheScope": 7}), json!({"cacheScope": "Public"}), private];
    let scope = |description: &Value, list: &Value| {
        let host = Host::connect(options(), &mut cached(description, list));
        (host.session.family(Family::Tools).cache_scope, host.session.cache_scope())
    };
    assert_eq!(scope(&public, &public), (CacheScope::Public, CacheScope::Public));
    for other in &other {
        assert_eq!(scope(&public, other), (CacheScope::Private, CacheScope::Private), "{other}");
        assert_eq!(scope(other, &public), (CacheScope::Public, CacheScope::Private), "{other}");
    }
    let host = Host::connect(legacy(), &mut with_tools(&["x"]));
    assert_eq!(host.session.cache_scope(), CacheScope::Private);
    // One private page makes the list private.
    let mut server = cached(&public, &public).on("tools/list", |params| {
        let first = params["cursor"].is_null();
        let mut page = tools(&[if first { "a" } else { "b" }]);
        page["resultType"] = json!("complete");
        page["cacheScope"] = json!(if first { "private" } else { "public" });
        page["nextCursor"] = if first { json!("2") } else { Value::Null };
        Ok(page)
    });
    let host = Host::connect(options(), &mut server);
    assert_eq!((host.count(Family::Tools), host.session.cache_scope()), (2, CacheScope::Private));
}

#[test]
fn private_lists_are_restored_for_the_same_user_only() {
    let users = [None, Some("alice"), Some("bob")];
    for server in [public, || cached(&json!({}), &json!({}))] {
        for owner in users {
            let before = up(of_user(owner), server());
            let saved = written(&before.hub.save(before.now, "a", KEY, AT).unwrap());
            let text = serde_json::to_string(&saved).unwrap();
            assert!(!text.contains("alice") && !text.contains("bob"), "the user is not shown");
            for user in users {
                let mut rig = Rig::new(of_user(user)).peer("a", server());
                rig.configure(programs(&["a"]));
                let restored = rig.hub.restore(rig.now, "a", saved.clone());
                if saved.scope == CacheScope::Public || owner == user {
                    assert_eq!(restored, Ok(()), "{owner:?} {user:?}");
                    let again = rig.hub.save(rig.now, "a", KEY, AT).unwrap();
                    assert_eq!((again.scope, again.user), (saved.scope, saved.user));
                } else {
                    assert_eq!(restored, Err(HubCommandError::OtherUser { server: "a".into() }), "{owner:?} {user:?}");
                    assert!(rig.functions().is_empty());
                }
            }
        }
    }
    // A session that is not a hub's.
    let host = Host::connect(options(), &mut cached(&json!({}), &json!({})));
    let saved = Saved::of(&host.session, host.now, &Entry::stdio("a"), KEY, AT).of_user("alice");
    assert!(saved.is_for(Some("alice")) && !saved.is_for(Some("bob")) && !saved.is_for(None));
}

/// The entry changes and its command does not: the session after that has the lists of the session before. Its own
/// description says nothing of them.
#[test]
fn private_lists_of_a_replaced_session_stay_private() {
    let server = || cached(&json!({"cacheScope": "public"}), &json!({"cacheScope": "private", "ttlMs": 60_000}));
    let mut rig = up(of_user(Some("alice")), server());
    let saved = |rig: &Rig| written(&rig.hub.save(rig.now, "a", KEY, AT).unwrap());
    assert_eq!((saved(&rig).scope, fresh_until(&saved(&rig)).is_some()), (CacheScope::Private, true));
    rig.get("a").unanswered = Some("tools/list");
    let entry = json!({"a": {"command": "a", "keepalive_interval": 900}});
    rig.configure(configuration(entry.clone()));
    rig.serve();
    assert_eq!(rig.withheld("a").len(), 1);
    let inherited = saved(&rig);
    assert_eq!((inherited.scope, fresh_until(&inherited)), (CacheScope::Private, None));
    assert!(inherited.is_for(Some("alice")) && !inherited.is_for(Some("bob")));
    let mut other = Rig::new(of_user(Some("bob"))).peer("a", server());
    other.configure(configuration(entry));
    assert_eq!(other.hub.restore(other.now, "a", inherited), Err(HubCommandError::OtherUser { server: "a".into() }));
    rig.release("a");
    rig.serve();
    assert_eq!((saved(&rig).scope, fresh_until(&saved(&rig)).is_some()), (CacheScope::Private, true));
}
