//! Configuration files of other hosts: what people paste is read, or refused with what to write instead.

use std::time::Duration;

use mcp_proto::host::config::{Configuration, Document, Entry};
use serde_json::{Value, json};

/// The file of a desktop client or an editor.
fn file(entries: Value) -> Configuration {
    let Document(configuration) = serde_json::from_value(json!({ "mcpServers": entries })).unwrap();
    configuration
}

/// The file with a program under the name `s`, and these keys beside its command.
fn program(mut keys: Value) -> Configuration {
    keys["command"] = "x".into();
    file(json!({ "s": keys }))
}

/// The entry of a program with these keys, which is without errors and warnings.
fn sound(keys: Value) -> Entry {
    let mut configuration = program(keys);
    assert_eq!((messages(&configuration.errors), messages(&configuration.warnings)), (vec![], vec![]));
    configuration.servers.remove("s").unwrap()
}

fn messages(all: &[impl ToString]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}

/// Which of some tools the entry lets through.
fn admitted(entry: &Entry) -> Vec<&'static str> {
    ["read", "write", "delete_all"].into_iter().filter(|tool| entry.tools.admits(tool)).collect()
}

#[test]
fn a_filter_of_another_host_is_read() {
    let excluding = ["excludeTools", "disabledTools", "disabled_tools", "exclude_tools", "Disabled-Tools"];
    for key in excluding {
        assert_eq!(admitted(&sound(json!({ key: ["delete_all"] }))), ["read", "write"], "{key}");
    }
    for key in ["includeTools", "enabled_tools", "allowedTools", "include-tools", "enabledtools"] {
        assert_eq!(admitted(&sound(json!({ key: ["read", "write"] }))), ["read", "write"], "{key}");
        assert_eq!(admitted(&sound(json!({ key: [] }))), [""; 0], "{key}");
        assert_eq!(admitted(&sound(json!({ key: ["*"] }))).len(), 3, "{key}");
    }
    let written = serde_json::to_value(sound(json!({ "excludeTools": "delete_all" }))).unwrap();
    assert_eq!(written, json!({"command": "x", "tools": {"exclude": ["delete_all"]}}));
}

#[test]
fn filters_in_several_keys_let_no_tool_through_that_one_of_them_excludes() {
    for keys in [
        json!({"excludeTools": ["delete_all"], "disabledTools": ["write"]}),
        json!({"excludeTools": ["delete_all"], "tools": {"exclude": ["write"]}}),
        json!({"includeTools": ["read", "write"], "excludeTools": ["write"]}),
        json!({"enabled_tools": ["read", "write"], "disabled_tools": ["wr*", "delete_all"]}),
        json!({"tools": {"include": ["read", "write"]}, "excludeTools": ["write"]}),
        json!({"tools": {"exclude": ["write"]}, "includeTools": ["read", "write"]}),
        json!({"includeTools": ["*"], "excludeTools": ["write", "delete_all"]}),
    ] {
        assert_eq!(admitted(&sound(keys.clone())), ["read"], "{keys}");
    }
    for (keys, said) in [
        (
            json!({"includeTools": ["read"], "allowedTools": ["write"]}),
            "server `s`, `allowedTools`: it means the same as `includeTools`; remove one of them",
        ),
        (
            json!({"includeTools": ["read"], "tools": {"include": ["write"]}}),
            "server `s`, `includeTools`: it means the same as `tools.include`; remove one of them",
        ),
        (
            json!({"includeTools": ["w*"], "excludeTools": ["write"]}),
            "server `s`, `includeTools`: it has patterns, and tools are excluded, too; write the names of tools in it",
        ),
    ] {
        let read = program(keys);
        assert_eq!(messages(&read.errors), [said]);
        assert!(read.servers.is_empty());
    }
}

#[test]
fn what_concerns_approvals_is_a_warning_that_names_it() {
    let advice = "approvals are up to this host, which does not take them from here";
    for key in ["autoApprove", "alwaysAllow", "always_allow", "default_tools_approval_mode"] {
        let read = program(json!({ key: ["read"] }));
        assert_eq!(messages(&read.warnings), [format!("server `s`, `{key}`: {advice}")]);
        assert_eq!(read.servers["s"], Entry::stdio("x"));
    }
    let advice = "it approves no calls; it says whether the annotations of the tools are believed";
    let read = program(json!({"trust": true}));
    assert_eq!(messages(&read.warnings), [format!("server `s`, `trust`: {advice}")]);
    assert_eq!(read.servers["s"].trust, Some(true));
    // In the map of this crate, `trust` has the meaning that its reference states.
    let Document(own) = serde_json::from_value(json!({"mcp_servers": {"s": {"command": "x", "trust": true}}})).unwrap();
    assert_eq!(messages(&own.warnings), [""; 0]);
}

#[test]
fn keys_are_compared_without_regard_to_case_and_separators() {
    let entry =
        sound(json!({"connectTimeout": 5, "Max-Timeout": 300, "TIMEOUT": 7, "supportsParallelToolCalls": true}));
    assert_eq!((entry.connect_timeout, entry.timeout), (Duration::from_secs(5), Duration::from_secs(7)));
    assert_eq!((entry.max_timeout, entry.supports_parallel_tool_calls), (Some(Duration::from_secs(300)), true));
    let entry = sound(json!({"tools": {"Exclude": ["write"], "maxResultBytes": 2048}, "sampling": {"maxRpm": 3}}));
    assert_eq!((admitted(&entry), entry.tools.max_result_bytes), (vec!["read", "delete_all"], Some(2048)));
    assert_eq!(entry.sampling.unwrap().max_rpm, 3);
    let twice = program(json!({"timeout": 5, "tool_timeout_sec": 6}));
    assert_eq!(
        messages(&twice.errors),
        ["server `s`, `tool_timeout_sec`: it means the same as `timeout`; remove one of them"]
    );
    assert_eq!(sound(json!({"timeout": null, "tool_timeout_sec": 6})).timeout, Duration::from_secs(6));
}

#[test]
fn an_unknown_key_that_may_be_a_filter_refuses_the_entry() {
    for (key, advice) in [
        ("excludedTools", "`tools.exclude`"),
        ("toolDenyList", "`tools.exclude`"),
        ("blocked_tools", "`tools.exclude`"),
        ("deny", "`tools.exclude`"),
        ("exclude", "`tools.exclude`"),
        ("include", "`tools.include`"),
        ("allow", "`tools.include`"),
        ("toolFilter", "`tools.include`"),
        ("Tool", "`tools`"),
        ("supports_parallel_tool_cals", "`supports_parallel_tool_calls`"),
        ("tool_timeout_secs", "`timeout`"),
    ] {
        let read = program(json!({ key: ["a"] }));
        assert!(read.servers.is_empty(), "{key}");
        let said = "nobody knows this key, which may concern what tools are used; write";
        assert_eq!(messages(&read.errors), [format!("server `s`, `{key}`: {said} {advice}, or remove it")]);
    }
    let inner = |tools: Value| messages(&program(json!({ "tools": tools })).errors);
    let said = "nobody knows this key, which may concern what tools are used; write";
    assert_eq!(
        inner(json!({"includes": ["a"], "deny": ["b"], "search": {"approval_mode": "prompt"}})),
        [
            format!("server `s`, `tools.includes`: {said} `tools.include`, or remove it"),
            format!("server `s`, `tools.deny`: {said} `tools.exclude`, or remove it"),
            format!("server `s`, `tools.search`: {said} `tools.include`, or remove it"),
        ]
    );
    assert_eq!(
        inner(json!({"overrides": {"a": {"disabled": true}}})),
        [format!("server `s`, `tools.overrides.a.disabled`: {said} `tools.exclude`, or remove it")]
    );
    assert_eq!(
        messages(&program(json!({"sampling": {"allowed_model": "a"}})).errors),
        [format!("server `s`, `sampling.allowed_model`: {said} `sampling.allowed_models`, or remove it")]
    );
    assert_eq!(sound(json!({"tool_timeout_sec": 45})).timeout, Duration::from_secs(45));
}

#[test]
fn a_list_of_tools_is_what_is_included() {
    assert_eq!(sound(json!({"tools": ["*"]})).tools.include, None);
    assert_eq!(sound(json!({"tools": ["read", "*"]})).tools.include, None);
    assert_eq!(admitted(&sound(json!({"tools": ["read", "write"]}))), ["read", "write"]);
    assert_eq!(admitted(&sound(json!({"tools": []}))), [""; 0]);
    assert_eq!(admitted(&sound(json!({"tools": ["*"], "excludeTools": ["write"]}))), ["read", "delete_all"]);
    let read = program(json!({"tools": ["read", {"name": "write"}]}));
    assert_eq!(messages(&read.errors), ["server `s`, `tools`: it is a map; write a list of texts"]);
}

#[test]
fn a_time_above_an_hour_asks_whether_milliseconds_are_meant() {
    let said = "are milliseconds meant? it is read in seconds, not in milliseconds";
    for key in ["timeout", "max_timeout", "connect_timeout", "tool_timeout_sec", "startup_timeout_sec", "initTimeout"] {
        assert_eq!(messages(&program(json!({ key: 3600 })).warnings), [""; 0], "{key}");
        let read = program(json!({ key: 30_000 }));
        assert_eq!(messages(&read.warnings), [format!("server `s`, `{key}`: {said}")]);
        let entry = &read.servers["s"];
        let times = [Some(entry.timeout), entry.max_timeout, Some(entry.connect_timeout)];
        assert!(times.contains(&Some(Duration::from_secs(30_000))), "{key}: {times:?}");
    }
    // A program may well be idle for hours, or live for them.
    assert_eq!(sound(json!({"idle_timeout": 7200})).idle_timeout, Some(Duration::from_secs(7200)));
}
