//! Configuration files of other hosts: what people paste is read, or refused with what to write instead.

use std::time::Duration;

use mcp_proto::Options;
use mcp_proto::host::config::{Changes, Configuration, Document, Endpoint, Entry, Http, Stdio};
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
    let advice = "approvals are up to this host; `trust` under `mcp_servers` says whether annotations are believed";
    let read = program(json!({"trust": true}));
    assert_eq!(messages(&read.warnings), [format!("server `s`, `trust`: {advice}")]);
    assert_eq!(read.servers["s"].trust, None);
    // In the map of this crate, `trust` has the meaning that its reference states.
    let Document(own) = serde_json::from_value(json!({"mcp_servers": {"s": {"command": "x", "trust": true}}})).unwrap();
    assert_eq!((messages(&own.warnings), own.servers["s"].trust), (vec![], Some(true)));
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
    // However its map is spelled, and wherever it is.
    for keys in [json!({"Tools": {"only": ["read"]}}), json!({"TOOLS": {"overrides": {"a": {"disabled": true}}}})] {
        assert!(program(keys.clone()).servers.is_empty(), "{keys}");
    }
    let nested = file(json!({"s": {"transport": {"command": "x", "tools": {"only": ["read"]}}}}));
    assert!(nested.servers.is_empty(), "{nested:?}");
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

/// The only entry of a file, which is without errors and warnings.
fn alone(keys: Value) -> Entry {
    let mut configuration = file(json!({ "s": keys }));
    assert_eq!((messages(&configuration.errors), messages(&configuration.warnings)), (vec![], vec![]));
    configuration.servers.remove("s").unwrap()
}

fn stdio(entry: &Entry) -> &Stdio {
    match &entry.endpoint {
        Endpoint::Stdio(stdio) => stdio,
        other => panic!("no program: {other:?}"),
    }
}

fn http(entry: &Entry) -> &Http {
    match &entry.endpoint {
        Endpoint::Http(http) => http,
        other => panic!("no address: {other:?}"),
    }
}

/// What is written is read as the same entry.
fn survives(entry: &Entry) {
    let mut read: Configuration = serde_json::from_value(json!({ "s": entry })).unwrap();
    assert_eq!((read.servers.remove("s").as_ref(), &*read.errors, &*read.warnings), (Some(entry), &[][..], &[][..]));
}

#[test]
fn spellings_of_the_transport_are_read() {
    for word in ["stdio", "local", "STDIO"] {
        assert_eq!(alone(json!({"type": word, "command": "x"})), Entry::stdio("x"), "{word}");
    }
    for word in ["http", "streamable-http", "streamableHttp", "streamable_http", "remote"] {
        for key in ["type", "transport"] {
            assert_eq!(alone(json!({key: word, "url": "http://x"})), Entry::http("http://x"), "{word}");
        }
    }
    for keys in [
        json!({"type": "sse", "url": "http://x"}),
        json!({"transport": "sse", "url": "http://x"}),
        json!({"transport": {"type": "sse", "url": "http://x"}}),
    ] {
        let entry = alone(keys);
        assert!(http(&entry).sse);
        survives(&entry);
    }
    let entry = alone(json!({"transport": {"type": "stdio", "command": "x", "args": ["y"]}, "timeout": 5}));
    assert_eq!((&*stdio(&entry).args, entry.timeout), (&["y".into()][..], Duration::from_secs(5)));
    let filtered = alone(json!({"transport": {"command": "x", "excludeTools": ["delete_all"]}}));
    assert_eq!(admitted(&filtered), ["read", "write"]);
    let twice = file(json!({"s": {"transport": {"command": "x"}, "command": "y"}}));
    let said = "server `s`, `transport.command`: it means the same as `command`; remove one of them";
    assert_eq!(messages(&twice.errors), [said]);
}

#[test]
fn an_address_under_the_key_of_another_host_is_read() {
    for key in ["httpUrl", "serverUrl", "http_url", "URL"] {
        assert_eq!(alone(json!({ key: "http://x" })), Entry::http("http://x"), "{key}");
    }
    let twice = file(json!({"s": {"url": "http://x/sse", "httpUrl": "http://x/mcp"}}));
    let said = "server `s`, `httpUrl`: it means the same as `url`; remove one of them";
    assert_eq!(messages(&twice.errors), [said]);
}

#[test]
fn headers_with_their_values_in_variables_are_read() {
    let entry = alone(json!({
        "url": "http://x",
        "bearer_token_env_var": "TOKEN",
        "env_http_headers": {"X-Key": "KEY"},
        "http_headers": {"X-Plain": "plain"},
    }));
    survives(&entry);
    let expanded = entry.expand("s", |name| Some(format!("<{name}>").into())).unwrap();
    let headers: Vec<_> = http(&expanded).headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    assert_eq!(headers, ["Authorization: Bearer <TOKEN>", "X-Key: <KEY>", "X-Plain: plain"]);
    let errors = entry.expand("s", |name| (name == "KEY").then(|| "k".into())).unwrap_err();
    assert!(errors[0].to_string().starts_with("server `s`, `headers.Authorization`: there is no `TOKEN`"));

    let read = file(json!({
        "a": {"url": "http://x", "bearer_token_env_var": "TOKEN", "headers": {"authorization": "Basic x"}},
        "b": {"url": "http://x", "env_http_headers": {"X-Key": "sk-hush}"}},
    }));
    let errors = messages(&read.errors);
    let said = "server `a`, `bearer_token_env_var`: it means the same as `headers.authorization`; remove one of them";
    assert_eq!(errors[0], said);
    assert!(errors[1].starts_with("server `b`, `env_http_headers.X-Key`: it is not the name of a variable"));
    assert!(!errors[1].contains("hush"));
    let program = program(json!({"bearer_token_env_var": "TOKEN"}));
    let said = "server `s`, `bearer_token_env_var`: it has no effect on a server without `url`";
    assert_eq!(messages(&program.warnings), [said]);
}

#[test]
fn a_program_as_other_hosts_write_it_is_read() {
    let entry = alone(json!({
        "type": "local", "command": ["npx", "-y", "server"], "environment": {"A": "b"}, "cwd": "/srv", "enabled": true,
    }));
    let program = stdio(&entry);
    assert_eq!((&*program.command, &*program.args), ("npx", &["-y".into(), "server".into()][..]));
    assert_eq!((&*program.env["A"], program.cwd.as_deref()), ("b", Some("/srv")));
    let entry = alone(json!({"command": ["npx", "-y"], "args": ["server"]}));
    assert_eq!(stdio(&entry).args, ["-y".into(), "server".into()]);
    assert!(!alone(json!({"command": "x", "disabled": true})).enabled);
    assert!(!alone(json!({"command": "x", "enabled": false})).enabled);
    let empty = file(json!({"s": {"command": []}}));
    assert_eq!(
        messages(&empty.errors),
        ["server `s`, `command`: it is empty; write the program to start, or remove the key"]
    );
}

#[test]
fn the_variables_of_an_env_file_are_added() {
    let entry = sound(json!({"envFile": "${DIR}/.env", "env": {"A": "own"}}));
    assert_eq!(stdio(&entry).env_file.as_deref(), Some("${DIR}/.env"));
    survives(&entry);
    let text = "# c\nA=file\nexport B = \"b # \\n c\" # d\n\nC='$x'\nD=d e # f\nno line\n=g\nURL=http://h?i=j#k\n";
    let lookup = |name: &str| match name {
        "DIR" => Some("conf".into()),
        "envFile:conf/.env" => Some(text.into()),
        _ => None,
    };
    let expanded = entry.expand("s", lookup).unwrap();
    let env: Vec<_> = stdio(&expanded).env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(env, ["A=own", "B=b # \n c", "C=$x", "D=d e", "URL=http://h?i=j#k"]);
    assert_eq!(stdio(&expanded).env_file, None);

    let failed = |entry: &Entry, lookup: &dyn Fn(&str) -> Option<String>| {
        messages(&entry.expand("s", |name| lookup(name).map(Into::into)).unwrap_err())
    };
    let said = "server `s`, `env_file`: the file `x/.env` cannot be read here; write its variables in `env`, or make it readable";
    assert_eq!(failed(&entry, &|name| (name == "DIR").then(|| "x".into())), [said]);
    let long = |name: &str| Some(if name == "DIR" { "x".into() } else { "A=b\n".repeat(20_000) });
    assert!(failed(&entry, &long)[0].contains("have more than 65536 bytes"));
    // A file is nothing that a value may have in it.
    let thief = alone(json!({"url": "http://x", "headers": {"A": "${envFile:/etc/passwd}"}}));
    assert!(failed(&thief, &|_| Some("hush".into()))[0].contains("there is no `envFile:/etc/passwd`"));
}

#[test]
fn without_get_stream_a_server_is_asked_for_none() {
    let listens = |keys: Value, host: bool| {
        let mut options = Options::new("host", "1.0");
        options.listen = host;
        alone(keys).options("s", options).listen
    };
    let off = json!({"url": "http://x", "get_stream": false});
    assert!(listens(json!({"url": "http://x"}), true) && listens(json!({"url": "http://x", "getStream": true}), true));
    assert!(!listens(off.clone(), true) && !listens(json!({"url": "http://x"}), false));
    survives(&alone(off.clone()));
    let changes = Changes::between(&file(json!({"s": {"url": "http://x"}})), &file(json!({ "s": off })));
    assert_eq!((&*changes.changed[0].keys, changes.changed[0].needs_session()), (&["get_stream"][..], true));
}

#[cfg(feature = "http")]
#[test]
fn an_entry_with_sse_begins_with_the_older_transport_and_falls_back() {
    use http::{HeaderMap, Method, StatusCode};
    use mcp_proto::Time;
    use mcp_proto::host::hub::{Hub, HubAction, HubOptions};

    // Within the first attempt, for a host that makes one.
    let mut options = Options::new("host", "1.0");
    options.reconnect = None;
    let mut hub = Hub::new(HubOptions::new(options), 0);
    hub.configure(Time::ZERO, file(json!({"s": {"type": "sse", "url": "http://x/sse"}}))).unwrap();
    hub.open(Time::ZERO).unwrap();
    let mut sent = Vec::new();
    while sent.len() < 2 {
        while let Some(action) = hub.poll() {
            let HubAction::Request { session, request } = action else { continue };
            sent.push(request.request.method().clone());
            if request.request.method() == Method::GET {
                hub.handle_head(
                    Time::ZERO,
                    session,
                    request.exchange,
                    StatusCode::METHOD_NOT_ALLOWED,
                    &HeaderMap::new(),
                );
                hub.handle_end(Time::ZERO, session, request.exchange);
            }
        }
        let deadline = hub.deadline().expect("it is tried again");
        hub.handle_timeout(deadline);
    }
    assert_eq!(sent, [Method::GET, Method::POST]);
}

fn document(file: Value) -> Result<Configuration, String> {
    serde_json::from_value::<Document>(file).map(|Document(read)| read).map_err(|error| error.to_string())
}

/// The servers of a file without errors and warnings.
fn servers(file: Value) -> Vec<(String, Entry)> {
    let read = document(file).unwrap();
    assert_eq!((messages(&read.errors), messages(&read.warnings)), (vec![], vec![]));
    read.servers.into_iter().map(|(name, entry)| (name.into(), entry)).collect()
}

#[test]
fn the_map_of_each_host_is_read() {
    let program = |name: &str| vec![(name.to_owned(), Entry::stdio("x"))];
    for file in [
        json!({"servers": {"s": {"type": "stdio", "command": "x"}}, "inputs": [{"id": "a", "type": "promptString"}]}),
        json!({"mcp": {"servers": {"s": {"command": "x"}}, "inputs": []}, "editor.fontSize": 12}),
        json!({"theme": "One", "context_servers": {"s": {"source": "custom", "command": "x", "args": [], "env": {}}}}),
        json!({"$schema": "https://opencode.ai/config.json", "mcp": {"s": {"type": "local", "command": ["x"], "enabled": true}}}),
        json!({"mcp_servers": {"s": {"command": "x"}}, "model": "m"}),
        json!({"extensions": {"s": {
            "type": "stdio", "cmd": "x", "args": [], "envs": {}, "env_keys": [], "name": "s", "enabled": true,
            "description": "d", "bundled": null, "available_tools": [], "timeout": 120,
        }}}),
        json!({"numStartups": 5, "projects": {"/a": {"allowedTools": [], "mcpServers": {"s": {"type": "stdio", "command": "x"}}}, "/b": {}}}),
        json!({"s": {"command": "x"}}),
        json!({"$schema": "https://example.com", "s": {"command": "x"}}),
        json!({"mcp": {"mcp": {"command": "x"}}}),
        json!({"mcp": {"command": "x"}}),
    ] {
        let name = if file["mcp"]["mcp"].is_object() || file["mcp"]["command"].is_string() { "mcp" } else { "s" };
        assert_eq!(servers(file.clone()), program(name), "{file}");
    }
    let remote = json!({"mcp": {"s": {"type": "remote", "url": "http://x", "headers": {}}}});
    assert_eq!(servers(remote), [("s".to_owned(), Entry::http("http://x"))]);
    let goose =
        json!({"extensions": {"s": {"type": "streamable_http", "uri": "http://x", "available_tools": ["read"]}}});
    assert_eq!(admitted(&servers(goose)[0].1), ["read"]);
    let keys = json!({"extensions": {"s": {"type": "stdio", "cmd": "x", "env_keys": ["KEY"], "envs": {"A": "b"}}}});
    let expanded = servers(keys)[0].1.expand("s", |name| (name == "KEY").then(|| "k".into())).unwrap();
    assert_eq!((&*stdio(&expanded).env["KEY"], &*stdio(&expanded).env["A"]), ("k", "b"));
}

#[test]
fn a_part_of_goose_is_no_server() {
    let read = document(json!({"extensions": {
        "developer": {"type": "builtin", "enabled": true}, "s": {"type": "stdio", "cmd": "x"},
    }}))
    .unwrap();
    assert_eq!(read.servers.keys().map(|name| &**name).collect::<Vec<_>>(), ["s"]);
    assert_eq!(
        messages(&read.errors),
        ["server `developer`, `type`: `builtin` is a part of another program; remove it"]
    );
}

#[test]
fn where_two_maps_could_be_meant_both_are_named() {
    let entry = json!({"s": {"command": "x"}});
    for (one, other) in [
        ("mcpServers", "servers"),
        ("mcp_servers", "context_servers"),
        ("servers", "mcp"),
        ("mcpServers", "extensions"),
    ] {
        let error = document(json!({ one: entry.clone(), other: entry.clone() })).unwrap_err();
        assert!(error.contains(&format!("`{one}`")) && error.contains(&format!("`{other}`")), "{error}");
        // One without servers is not meant.
        assert_eq!(document(json!({ one: entry.clone(), other: {} })).unwrap().servers.len(), 1);
    }
    // What has such a key in another program.
    for other in
        [json!({"extensions": {"disabled": []}}), json!({"mcp": {"allowed": ["s"]}}), json!({"servers": ["a"]})]
    {
        let mut file = json!({ "mcpServers": entry.clone() });
        file.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
        assert_eq!(servers(file).len(), 1, "{other}");
        assert_eq!(servers(other.clone()), [], "{other}");
    }
}

#[test]
fn what_a_host_says_of_all_servers_beside_them_is_read_or_refused() {
    let entry = json!({"command": "x", "enabled": true});
    let both = json!({"good": entry, "bad": entry});
    for of_mcp in [
        json!({"allowed": ["good"]}),
        json!({"excluded": ["bad"]}),
        json!({"allowed": ["bad", "good"], "excluded": ["bad"]}),
    ] {
        let read = servers(json!({"mcp": of_mcp, "mcpServers": both}));
        let enabled: Vec<_> = read.iter().map(|(name, entry)| (&**name, entry.enabled)).collect();
        assert_eq!(enabled, [("bad", false), ("good", true)], "{of_mcp}");
    }
    for at_the_top in [json!({"allowMCPServers": ["good"]}), json!({"excludeMCPServers": "bad"})] {
        for is_first in [true, false] {
            // The key may come before the servers or after them.
            let servers = json!({ "mcpServers": both });
            let (mut file, rest) = if is_first { (at_the_top.clone(), servers) } else { (servers, at_the_top.clone()) };
            file.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            let read = document(file).unwrap().servers;
            let enabled: Vec<_> = read.iter().map(|(name, entry)| (&**name, entry.enabled)).collect();
            assert_eq!(enabled, [("bad", false), ("good", true)], "{at_the_top}");
        }
    }
    let own = json!({"command": "x", "excludeTools": ["write"]});
    let excluding =
        document(json!({"excludeTools": ["delete_all"], "mcpServers": {"one": {"command": "x"}, "two": own}}));
    let excluding = excluding.unwrap().servers;
    assert_eq!(admitted(&excluding["one"]), ["read", "write"]);
    assert_eq!(admitted(&excluding["two"]), ["read"]);
    let opencode = |filter: Value| {
        let mut file = json!({"mcp": {"s": {"type": "local", "command": ["x"]}}});
        file.as_object_mut().unwrap().extend(filter.as_object().unwrap().clone());
        document(file)
    };
    for filter in
        [json!({"tools": {"s_delete*": false}}), json!({"tools": {"*": false}}), json!({"permission": {"s_*": "deny"}})]
    {
        let error = opencode(filter.clone()).unwrap_err();
        assert!(error.contains("excludes tools of `s`") && error.contains("write `tools.exclude`"), "{error}");
    }
    for filter in [json!({"tools": {"bash": false, "s_read": true}}), json!({"permission": {"edit": "ask"}})] {
        assert_eq!(opencode(filter.clone()).unwrap().servers.len(), 1, "{filter}");
    }
}

#[test]
fn of_two_projects_with_one_name_neither_is_guessed() {
    let project = |command: &str| json!({"mcpServers": {"s": {"command": command}}});
    let same = json!({"mcpServers": {"s": {"command": "x"}}, "projects": {"/a": project("x"), "/b": project("x")}});
    assert_eq!(servers(same), [("s".to_owned(), Entry::stdio("x"))]);
    for (file, places) in [
        (
            json!({"projects": {"/a": project("x"), "/b": project("y")}}),
            ["projects./a.mcpServers", "projects./b.mcpServers"],
        ),
        (
            json!({"projects": {"/a": project("x")}, "mcpServers": {"s": {"command": "y"}}}),
            ["mcpServers", "projects./a.mcpServers"],
        ),
    ] {
        let read = document(file).unwrap();
        let [first, second] = places;
        let said =
            format!("server `s`: it is in `{first}` and in `{second}`; keep one of them, or name them differently");
        assert_eq!(messages(&read.errors), [said]);
        assert!(read.servers.is_empty());
    }
}

#[test]
fn a_mistake_in_the_map_of_another_host_is_reported() {
    let read = document(json!({"context_servers": {"s": {"comand": "x"}}})).unwrap();
    assert_eq!(messages(&read.errors), ["server `s`: there is neither `command` nor `url`; give one of them"]);
    let read = document(json!({"a": {"command": "x"}, "b": {"timeout": 5}})).unwrap();
    assert_eq!(messages(&read.errors), ["server `b`: there is neither `command` nor `url`; give one of them"]);
    // A file of something else.
    for file in [json!({"theme": "dark", "statusLine": {"type": "command", "command": "x"}}), json!({"a": {"b": {}}})] {
        assert_eq!(servers(file), []);
    }
}

#[test]
fn an_input_without_an_answer_refuses_the_entry_and_is_named() {
    let read = document(json!({
        "inputs": [{"type": "promptString", "id": "api-key", "password": true}],
        "servers": {"s": {"command": "x", "env": {"KEY": "${input:api-key}"}}, "t": {"command": "x"}},
    }))
    .unwrap();
    let answered = read.expand(|name| (name == "input:api-key").then(|| "k".into()));
    assert_eq!((&*stdio(&answered.servers["s"]).env["KEY"], &*answered.errors), ("k", &[][..]));
    let refused = read.expand(|_| None);
    assert_eq!(refused.servers.keys().map(|name| &**name).collect::<Vec<_>>(), ["t"]);
    let said =
        "there is no answer for `input:api-key`; write its value here, or give it to this program under that name";
    assert_eq!(messages(&refused.errors), [format!("server `s`, `env.KEY`: {said}")]);
}

#[test]
fn variables_as_other_hosts_write_them_are_read_or_named() {
    let opencode = |keys: Value| document(json!({"mcp": {"s": keys}})).unwrap();
    let read = opencode(json!({
        "type": "remote", "url": "http://{env:HOST}/mcp", "headers": {"Authorization": "Bearer {env:TOKEN}{env:X"},
    }));
    assert_eq!((messages(&read.errors), messages(&read.warnings)), (vec![], vec![]));
    let entry = &read.servers["s"];
    assert_eq!(&*http(entry).url, "http://${HOST}/mcp");
    assert_eq!(&*http(entry).headers["Authorization"], "Bearer ${TOKEN}{env:X");
    let read = opencode(json!({"type": "local", "command": ["x", "--key={env:KEY}"], "environment": {"A": "{env:B}"}}));
    assert_eq!((&*stdio(&read.servers["s"]).args[0], &*stdio(&read.servers["s"]).env["A"]), ("--key=${KEY}", "${B}"));
    // As VS Code writes it.
    let read = opencode(json!({"type": "remote", "url": "http://x", "headers": {"A": "${env:TOKEN}"}}));
    assert_eq!(&*http(&read.servers["s"]).headers["A"], "${env:TOKEN}");
    // Where nobody writes it so, it is text.
    assert_eq!(&*stdio(&sound(json!({"args": ["{env:A}"]}))).args[0], "{env:A}");

    let read = opencode(json!({"type": "remote", "url": "http://x", "headers": {"A": "{file:~/.secret}"}}));
    let said = "server `s`, `headers.A`: it has the text of a file in it, which is not read; write `${NAME}` for a variable with this text";
    assert_eq!(messages(&read.errors), [said]);

    let read = program(json!({"env": {"KEY": "$MY_KEY", "PRICE": "$5", "BOTH": "$A-$B"}}));
    assert_eq!(&*stdio(&read.servers["s"]).env["KEY"], "$MY_KEY");
    assert_eq!(
        messages(&read.warnings),
        ["server `s`, `env.KEY`: it is used as it stands; write `${NAME}` for a variable"]
    );
}

#[test]
fn the_authorization_of_opencode_is_read() {
    let opencode = |oauth: Value| servers(json!({"mcp": {"s": {"type": "remote", "url": "http://x", "oauth": oauth}}}));
    assert_eq!(opencode(json!(false)), [("s".to_owned(), Entry::http("http://x"))]);
    let read = opencode(json!({"clientId": "ada", "scope": "read write"}));
    let of_entry = http(&read[0].1);
    assert_eq!(of_entry.auth.as_ref().map(|auth| auth.as_str()), Some("oauth"));
    let oauth = of_entry.oauth.as_ref().unwrap();
    assert_eq!((oauth.client_id.as_deref(), oauth.scopes.as_deref()), (Some("ada"), Some(&["read write".into()][..])));
    survives(&read[0].1);
    // Elsewhere such a key has the place that it has here.
    let read = file(json!({"s": {"url": "http://x", "scope": "read", "oauth": {"scope": "a", "scopes": ["b"]}}}));
    assert_eq!(
        messages(&read.errors),
        ["server `s`, `oauth.scopes`: it means the same as `oauth.scope`; remove one of them"]
    );
    assert!(messages(&read.warnings)[0].starts_with("server `s`, `scope`: nobody knows this key"));
}

#[test]
fn the_variables_that_codex_passes_on_are_read() {
    let entry = alone(json!({"command": "x", "env_vars": ["TOKEN"]}));
    assert_eq!(&*stdio(&entry).env["TOKEN"], "${TOKEN}");
}

#[test]
fn the_programs_of_an_older_zed_are_read_and_its_extensions_refused() {
    let zed = |keys: Value| document(json!({"context_servers": {"s": keys}})).unwrap();
    let read = zed(json!({"command": {"path": "x", "args": ["-y"], "env": {"A": "b"}}, "settings": {}}));
    assert_eq!(messages(&read.errors), [""; 0]);
    let program = stdio(&read.servers["s"]);
    assert_eq!((&*program.command, &*program.args, &*program.env["A"]), ("x", &["-y".into()][..], "b"));
    let read = zed(json!({"command": {"path": "x", "args": []}, "args": ["y"]}));
    assert_eq!(messages(&read.errors), ["server `s`, `command.args`: it means the same as `args`; remove one of them"]);
    assert!(zed(json!({"command": {}})).servers.is_empty());
    let read = zed(json!({"source": "extension", "enabled": true, "settings": {}}));
    assert_eq!(messages(&read.errors), ["server `s`, `source`: `extension` is a part of another program; remove it"]);
    // `path` is a key of the map under `command` alone.
    assert!(file(json!({"s": {"path": "x"}})).servers.is_empty());
}

#[test]
fn a_null_hides_no_key_in_a_map_of_another_host() {
    for keys in [
        json!({"tools": null, "transport": {"command": "x", "tools": {"include": ["read"]}}}),
        json!({"tools": null, "transport": {"command": "x", "tools": ["read"]}}),
    ] {
        assert_eq!(admitted(&alone(keys)), ["read"]);
    }
    for keys in [
        json!({"disabled": null, "transport": {"command": "x", "disabled": true}}),
        json!({"enabled": null, "transport": {"command": "x", "enabled": false}}),
    ] {
        assert!(!alone(keys).enabled);
    }
    let read = program(json!({"trust": null, "transport": {"trust": true}}));
    assert_eq!(read.servers["s"].trust, None);
    assert_eq!(alone(json!({"command": null, "transport": {"command": "x"}})), Entry::stdio("x"));
    let lifecycle = program(json!({"idle_timeout": null, "lifecycle": {"idle_timeout": 60}}));
    assert_eq!(lifecycle.servers["s"].idle_timeout, Some(Duration::from_secs(60)));
}

#[test]
fn filters_of_opencode_that_may_exclude_tools_of_a_server_refuse_the_file() {
    let file = |server: &str, filters: Value| {
        let mut file = json!({"mcp": {server: {"type": "local", "command": ["x"]}}});
        file.as_object_mut().unwrap().extend(filters.as_object().unwrap().clone());
        document(file)
    };
    for (server, filters) in [
        ("my.server", json!({"tools": {"my_server_*": false}})),
        ("my server", json!({"tools": {"my_server_delete": false}})),
        ("github", json!({"tools": {"git*": false}})),
        ("github", json!({"tools": {"gith*_delete": false}})),
        ("github", json!({"tools": {"?ithub_*": false}})),
        ("github", json!({"tools": {"github?delete": false}})),
        ("github", json!({"permission": "deny"})),
        ("github", json!({"permission": {"github_*": {"*": "deny"}}})),
        ("github", json!({"tools": {"github_*": "false"}})),
        ("github", json!({"tools": {"github_*": 0}})),
        ("github", json!({"permission": {"github_delete": "Deny"}})),
        ("github", json!({"tools": ["read"]})),
        ("github", json!({"agent": {"build": {"tools": {"github_*": false}}}})),
    ] {
        let error = file(server, filters.clone()).unwrap_err();
        assert!(error.contains(&format!("excludes tools of `{server}`")), "{filters}: {error}");
    }
    for filters in [
        json!({"permission": "allow"}),
        json!({"permission": {"github_*": "ask", "bash": {"rm *": "deny"}}}),
        json!({"tools": {"github_*": true, "gitlab_*": false, "git": false, "github": false}}),
        json!({"agent": {"build": {"mode": "primary", "tools": {"write": false}}}}),
    ] {
        assert_eq!(file("github", filters.clone()).unwrap().servers.len(), 1, "{filters}");
    }
}

#[test]
fn the_cost_of_filters_is_linear_whatever_they_are() {
    let names = |name: &str| (0..20_000).map(|at| json!(format!("{name}{at}"))).collect::<Vec<_>>();
    let read = program(json!({"includeTools": names("a"), "excludeTools": names("b")}));
    assert_eq!(read.servers["s"].tools.include.as_ref().map(Vec::len), Some(20_000));
    let globs = program(json!({"includeTools": names("a"), "excludeTools": names("b*")}));
    assert!(globs.servers.is_empty());
    let headers: serde_json::Map<_, _> = (0..20_000).map(|at| (format!("X-{at}"), json!("V"))).collect();
    assert_eq!(file(json!({"s": {"url": "http://x", "env_http_headers": headers}})).errors, []);
    let servers: serde_json::Map<_, _> =
        (0..20_000).map(|at| (format!("s{at}"), json!({"type": "local", "command": ["x"]}))).collect();
    let patterns: serde_json::Map<_, _> = (0..20_000).map(|at| (format!("t{at}_*"), json!(false))).collect();
    assert_eq!(document(json!({"mcp": servers, "tools": patterns})).unwrap().servers.len(), 20_000);
}

#[test]
fn a_list_of_servers_with_names_is_read() {
    let entry = json!({"name": "s", "command": "x"});
    assert_eq!(servers(json!({ "mcpServers": [entry] })), [("s".to_owned(), Entry::stdio("x"))]);
    assert_eq!(servers(json!({"mcpServers": []})), []);
    let error = document(json!({"mcpServers": [{"command": "x"}]})).unwrap_err();
    assert!(error.contains("not each has a `name`; write a map by their names"), "{error}");
    let read = document(json!({ "mcpServers": [entry, entry] })).unwrap();
    assert_eq!(messages(&read.warnings), ["server `s`: it is there more than once; the last one counts"]);
}
