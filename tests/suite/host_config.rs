//! What a configuration file means: every statement of the reference of hermes-agent's `mcp_servers`, and what people
//! write beside it.

use std::time::Duration;

use mcp_proto::Options;
use mcp_proto::catalog::FingerprintKey;
use mcp_proto::host::config::{
    Auth, Changes, Configuration, Document, Endpoint, Entry, Http, Oddity, Problem, Protocol, Sampling, Stdio,
    ToolOverride, ToolPolicy,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn yaml(text: &str) -> Configuration {
    let Document(configuration) = serde_saphyr::from_str(text).unwrap();
    configuration
}

fn json(text: &str) -> Configuration {
    let Document(configuration) = serde_json::from_str(text).unwrap();
    configuration
}

/// The only server of a configuration without errors and warnings.
fn sound(configuration: Configuration) -> Entry {
    assert_eq!((&*configuration.errors, &*configuration.warnings), (&[][..], &[][..]));
    assert_eq!(configuration.servers.len(), 1);
    configuration.servers.into_values().next().unwrap()
}

/// An entry under the name `s`, in YAML, with its keys in a line each.
fn entry(keys: &str) -> Configuration {
    let keys: String = keys.lines().map(|line| format!("    {line}\n")).collect();
    yaml(&format!("mcp_servers:\n  s:\n{keys}"))
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

fn boxed(texts: &[&str]) -> Vec<Box<str>> {
    texts.iter().map(|text| (*text).into()).collect()
}

fn errors(configuration: &Configuration) -> Vec<String> {
    configuration.errors.iter().map(ToString::to_string).collect()
}

fn warnings(configuration: &Configuration) -> Vec<String> {
    configuration.warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn the_root_shape_of_the_reference() {
    let entry = entry(concat!(
        "command: \"server\"\n",
        "args: []\n",
        "env: {}\n",
        "enabled: true\n",
        "timeout: 120\n",
        "connect_timeout: 60\n",
        "supports_parallel_tool_calls: false\n",
        "tools:\n",
        "  exclude: []\n",
        "  resources: true\n",
        "  prompts: true",
    ));
    assert_eq!(sound(entry), Entry::stdio("server"), "what the reference writes is the default");
}

#[test]
fn the_defaults_are_those_of_the_reference() {
    let entry = sound(entry("command: server"));
    assert!(entry.enabled);
    assert_eq!(entry.timeout, Duration::from_secs(120));
    assert_eq!(entry.connect_timeout, Duration::from_secs(60));
    assert!(!entry.supports_parallel_tool_calls);
    assert_eq!(entry.tools, ToolPolicy::default());
    assert!(entry.tools.resources && entry.tools.prompts);
    assert_eq!((entry.tools.include, entry.tools.exclude), (None, vec![]));
    assert_eq!(entry.sampling, None);
}

#[test]
fn command_args_and_env_are_a_program() {
    let entry = sound(entry(
        "command: \"npx\"\nargs: [\"-y\", \"@modelcontextprotocol/server-github\"]\nenv:\n  GITHUB_PERSONAL_ACCESS_TOKEN: \"***\"",
    ));
    let stdio = stdio(&entry);
    assert_eq!(&*stdio.command, "npx");
    assert_eq!(stdio.args, boxed(&["-y", "@modelcontextprotocol/server-github"]));
    assert_eq!(stdio.env.iter().collect::<Vec<_>>(), [(&"GITHUB_PERSONAL_ACCESS_TOKEN".into(), &"***".into())]);
}

#[test]
fn url_and_headers_are_an_address() {
    let entry = sound(entry("url: \"https://mcp.stripe.com\"\nheaders:\n  Authorization: \"Bearer ***\""));
    assert_eq!(&*http(&entry).url, "https://mcp.stripe.com");
    assert_eq!(&*http(&entry).headers["Authorization"], "Bearer ***");
    assert_eq!(http(&entry).auth, None);
}

#[test]
fn enabled_false_keeps_the_entry_for_later_use() {
    let entry = sound(entry("url: \"https://mcp.legacy.internal\"\nenabled: false"));
    assert!(!entry.enabled);
    assert_eq!(&*http(&entry).url, "https://mcp.legacy.internal");
}

#[test]
fn timeouts_are_seconds() {
    let entry = sound(entry("command: x\ntimeout: 1.5\nconnect_timeout: \"10\""));
    assert_eq!(entry.timeout, Duration::from_millis(1500));
    assert_eq!(entry.connect_timeout, Duration::from_secs(10));
    let written = serde_json::to_value(&entry).unwrap();
    assert_eq!((&written["timeout"], &written["connect_timeout"]), (&json!(1.5), &json!(10)));
}

#[test]
fn supports_parallel_tool_calls_is_kept() {
    assert!(sound(entry("command: docs-server\nsupports_parallel_tool_calls: true")).supports_parallel_tool_calls);
}

#[test]
fn trust_is_the_hosts_own_choice_unless_the_entry_has_it() {
    for (line, expected) in
        [("trust: yes", [true, true]), ("trust: no", [false, false]), ("enabled: on", [false, true])]
    {
        let entry = sound(entry(&format!("command: x\n{line}")));
        let trusts = [false, true].map(|host| {
            let mut options = Options::new("host", "1.0");
            options.trust = host;
            entry.options("s", options).trust
        });
        assert_eq!(trusts, expected, "{line}");
    }
}

#[test]
fn auth_oauth_is_oauth() {
    let entry = sound(entry("url: \"https://mcp.example.com/mcp\"\nauth: oauth"));
    assert_eq!(http(&entry).auth, Some(Auth::OAuth));
}

#[test]
fn auth_of_an_unknown_kind_is_kept_and_reported() {
    let read = entry("url: \"https://mcp.example.com/mcp\"\nauth: basic");
    assert_eq!(
        warnings(&read),
        ["server `s`, `auth`: nobody knows this way to authenticate; write `oauth`, or give a token in `headers`"]
    );
    assert_eq!(http(&read.servers["s"]).auth, Some(Auth::Other("basic".into())));
}

#[test]
fn auth_has_no_effect_on_a_program() {
    let read = entry("command: x\nauth: oauth");
    assert_eq!(warnings(&read), ["server `s`, `auth`: it has no effect on a server without `url`"]);
    assert_eq!(read.servers["s"], Entry::stdio("x"));
}

#[test]
fn sampling_is_typed() {
    let read = entry(concat!(
        "command: x\n",
        "sampling:\n",
        "  enabled: true\n",
        "  model: \"gemini-3-flash\"\n",
        "  max_tokens_cap: 1024\n",
        "  timeout: 45\n",
        "  max_rpm: 3\n",
        "  max_tool_rounds: 0\n",
        "  allowed_models: [a, b]\n",
        "  log_level: info"
    ));
    let sampling = sound(read).sampling.unwrap();
    assert!(sampling.enabled);
    assert_eq!(sampling.model.as_deref(), Some("gemini-3-flash"));
    assert_eq!((sampling.max_tokens_cap, sampling.max_rpm, sampling.max_tool_rounds), (1024, 3, 0));
    assert_eq!(sampling.timeout, Duration::from_secs(45));
    assert_eq!(sampling.allowed_models, boxed(&["a", "b"]));
    assert_eq!(sampling.log_level.as_deref(), Some("info"));
}

#[test]
fn sampling_defaults_and_off() {
    assert_eq!(sound(entry("command: x\nsampling: {}")).sampling, Some(Box::default()));
    let default = Sampling::default();
    assert_eq!((default.max_tokens_cap, default.max_rpm, default.max_tool_rounds), (4096, 10, 5));
    assert!(default.enabled && default.timeout == Duration::from_secs(30));
    for off in ["sampling: false", "sampling: \"off\"", "sampling: 0", "sampling: {enabled: no}"] {
        let sampling = sound(entry(&format!("command: x\n{off}"))).sampling.unwrap();
        assert!(!sampling.enabled, "{off}");
    }
}

#[test]
fn invalid_sampling_is_reported() {
    let read = entry(
        "command: x\nsampling:\n  max_rpm: -1\n  max_tool_rounds: many\n  max_tokens_cap: [1]\n  allowed_models: 5",
    );
    assert_eq!(
        errors(&read),
        [
            "server `s`, `sampling.max_tokens_cap`: it is a list; write a whole number",
            "server `s`, `sampling.max_rpm`: `-1` is not a count; write a whole number, 0 or more",
            "server `s`, `sampling.allowed_models`: it is a number; write text, or a list of texts",
            "server `s`, `sampling.max_tool_rounds`: `many` is not a count; write a whole number, 0 or more",
        ]
    );
}

#[test]
fn filters_are_text_or_a_list() {
    for (written, expected) in [
        ("include: create_issue", boxed(&["create_issue"])),
        ("include: [create_issue, list_issues]", boxed(&["create_issue", "list_issues"])),
        ("include: []", vec![]),
    ] {
        assert_eq!(sound(entry(&format!("command: x\ntools:\n  {written}"))).tools.include, Some(expected));
    }
    let excluded = sound(entry("command: x\ntools:\n  exclude: delete_customer")).tools;
    assert_eq!((excluded.include, excluded.exclude), (None, boxed(&["delete_customer"])));
}

#[test]
fn include_without_a_value_is_unset() {
    assert_eq!(sound(entry("command: x\ntools:\n  include:\n  exclude: ~")).tools, ToolPolicy::default());
    assert_eq!(sound(entry("command: x\ntools:")).tools, ToolPolicy::default());
}

#[test]
fn resources_and_prompts_are_as_people_write_them() {
    for (word, expected) in [
        ("true", true),
        ("yes", true),
        ("on", true),
        ("1", true),
        ("\"true\"", true),
        ("Yes", true),
        ("\" ON \"", true),
        ("false", false),
        ("\"false\"", false),
        ("no", false),
        ("off", false),
        ("0", false),
        ("\"0\"", false),
        ("NO", false),
        ("False", false),
    ] {
        let tools = sound(entry(&format!("command: x\ntools:\n  resources: {word}\n  prompts: {word}"))).tools;
        assert_eq!((tools.resources, tools.prompts), (expected, expected), "{word}");
        let entry = sound(entry(&format!("command: x\nenabled: {word}\nsupports_parallel_tool_calls: {word}")));
        assert_eq!((entry.enabled, entry.supports_parallel_tool_calls), (expected, expected), "{word}");
    }
}

#[test]
fn an_invalid_boolean_word_is_an_error() {
    let read = entry("command: x\nenabled: maybe\ntools:\n  prompts: 2\n  resources: [yes]");
    assert_eq!(
        errors(&read),
        [
            "server `s`, `enabled`: `maybe` is neither yes nor no; write true or false",
            "server `s`, `tools.resources`: it is a list; write true or false",
            "server `s`, `tools.prompts`: `2` is neither yes nor no; write true or false",
        ]
    );
    assert!(read.servers.is_empty(), "nothing is guessed");
}

#[test]
fn exactly_one_of_command_and_url() {
    let neither = entry("args: [x]");
    assert_eq!(errors(&neither), ["server `s`: there is neither `command` nor `url`; give one of them"]);
    assert_eq!(neither.errors[0].problem, Problem::NoEndpoint);
    let both = entry("command: x\nurl: https://example.com");
    assert_eq!(errors(&both), ["server `s`: there are both `command` and `url`; remove one of them"]);
    assert_eq!(both.errors[0].problem, Problem::TwoEndpoints);
    let empty = entry("command: \"\"");
    assert_eq!(errors(&empty), ["server `s`, `command`: it is empty; write the program to start, or remove the key"]);
    let unset = sound(entry("command:\nurl: https://example.com"));
    assert_eq!(&*http(&unset).url, "https://example.com", "a key with nothing behind it is not there");
    assert!([&neither, &both, &empty].iter().all(|read| read.servers.is_empty()));
}

#[test]
fn one_invalid_server_does_not_affect_the_others() {
    let read = yaml("mcp_servers:\n  a: {command: x}\n  b: {timeout: soon}\n  c: [1]\n  d: {url: \"http://d\"}\n  e:");
    assert_eq!(read.servers.keys().map(|name| &**name).collect::<Vec<_>>(), ["a", "d"]);
    assert_eq!(
        errors(&read),
        [
            "server `b`: there is neither `command` nor `url`; give one of them",
            "server `b`, `timeout`: `soon` is not a time; write a number of seconds above 0",
            "server `c`: the entry is a list; write a map with `command` or `url` in it",
            "server `e`: the entry is nothing; write a map with `command` or `url` in it",
        ]
    );
}

#[test]
fn invalid_times_are_errors() {
    for (time, said) in
        [("0", "`0`"), ("-1", "`-1`"), ("\"inf\"", "`inf`"), ("\"nan\"", "`nan`"), ("\"1e30\"", "`1e30`")]
    {
        let read = entry(&format!("command: x\ntimeout: {time}"));
        assert_eq!(
            errors(&read),
            [format!("server `s`, `timeout`: {said} is not a time; write a number of seconds above 0")]
        );
    }
    let read = entry("command: x\nconnect_timeout: {a: 1}");
    assert_eq!(errors(&read), ["server `s`, `connect_timeout`: it is a map; write a number of seconds"]);
}

#[test]
fn a_time_in_milliseconds_is_a_warning() {
    let said = "server `s`, `timeout`: are milliseconds meant? it is read in seconds, not in milliseconds";
    let read = entry("command: x\ntimeout: 600000");
    assert_eq!(warnings(&read), [said]);
    assert_eq!(read.servers["s"].timeout, Duration::from_secs(600_000));
    assert_eq!(sound(entry("command: x\ntimeout: 3599.5")).timeout, Duration::from_millis(3_599_500));
    let read = entry("command: x\ntimeout: 86400");
    assert_eq!((&*warnings(&read), read.servers["s"].timeout), (&[said.into()][..], Duration::from_secs(86_400)));
    let read = entry("command: x\ntimeout: 932187471.893627286");
    assert_eq!(read.servers["s"].timeout, Duration::from_secs(932_187_471), "a fraction would not be read again");
}

#[test]
fn values_of_a_wrong_kind_are_errors() {
    let read = entry("command: {npx: -y}\nargs: -y foo\nenv: [A=1]\ntools: none\nsampling: [1]");
    assert_eq!(
        errors(&read),
        [
            "server `s`, `command`: it is a map; write the program to start",
            "server `s`, `args`: it is text; write a list of texts",
            "server `s`, `env`: it is a list; write a map of texts by name",
            "server `s`, `tools`: it is text; write a map of keys",
            "server `s`, `sampling`: it is a list; write a map of keys",
        ]
    );
}

#[test]
fn whole_numbers_without_quotes_are_text() {
    let read = entry("command: x\nargs: [--port, 8080]\nenv: {PORT: 8080, EMPTY: \"\", 5: a, NO: b}");
    let entry = sound(read);
    assert_eq!(stdio(&entry).args, boxed(&["--port", "8080"]));
    let env: Vec<_> = stdio(&entry).env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(env, ["5=a", "EMPTY=", "NO=b", "PORT=8080"]);
}

#[test]
fn a_value_that_yaml_may_read_differently_is_a_warning() {
    let read = entry("command: x\nargs: [off]\nenv: {VERSION: 1.10, DEBUG: true}");
    let advice = "it is not a string, and may change (`1.10` becomes `1.1`); put it in quotes";
    assert_eq!(
        warnings(&read),
        ["args", "env.VERSION", "env.DEBUG"].map(|key| format!("server `s`, `{key}`: {advice}"))
    );
    let program = stdio(&read.servers["s"]);
    assert_eq!((&*program.env["VERSION"], &*program.env["DEBUG"]), ("1.1", "true"));
}

#[test]
fn a_variable_without_a_value_is_an_error() {
    let read = entry("command: x\nenv:\n  TOKEN:");
    assert_eq!(errors(&read), ["server `s`, `env.TOKEN`: it is nothing; write text, `\"\"` for an empty one"]);
}

#[test]
fn secrets_are_in_no_message() {
    let read = entry("url: https://example.com\nheaders:\n  X-Key: [hunter2]\n  Good: hunter2\nenv: {A: hunter2}");
    assert!(!errors(&read).concat().contains("hunter2"));
    assert!(!warnings(&read).concat().contains("hunter2"));
    let with_secrets = [
        entry("url: https://example.com\nheaders: {Authorization: hunter2}"),
        entry("command: x\nenv: {TOKEN: hunter2}"),
    ];
    for read in with_secrets {
        let shown = format!("{read:?}");
        assert!(!shown.contains("hunter2") && (shown.contains("TOKEN") || shown.contains("Authorization")), "{shown}");
    }
}

#[test]
fn an_unknown_key_is_a_warning_that_names_it() {
    let read = yaml(concat!(
        "mcp_servers:\n",
        "  a: {command: x, connectTimeouts: 5, watchPaths: [b]}\n",
        "  b: {command: x, sampling: {max_rpn: 1}}\n",
    ));
    assert_eq!(
        warnings(&read),
        [
            "server `a`, `connectTimeouts`: nobody knows this key; was `connect_timeout` meant?",
            "server `a`, `watchPaths`: nobody knows this key",
            "server `b`, `sampling.max_rpn`: nobody knows this key; was `max_rpm` meant?",
        ]
    );
    assert_eq!(read.warnings[1].oddity, Oddity::UnknownKey { nearest: None });
    assert_eq!(read.servers["a"], Entry::stdio("x"));
}

#[test]
fn keys_of_the_other_kind_of_server_have_no_effect() {
    let program = entry("command: x\nheaders: {A: b}");
    assert_eq!(warnings(&program), ["server `s`, `headers`: it has no effect on a server without `url`"]);
    let address = entry("url: \"http://x\"\nargs: [a]\nenv: {A: b}");
    assert_eq!(
        warnings(&address),
        [
            "server `s`, `args`: it has no effect on a server without `command`",
            "server `s`, `env`: it has no effect on a server without `command`",
        ]
    );
    assert_eq!(address.servers["s"], Entry::http("http://x"));
}

#[test]
fn the_last_of_repeated_keys_counts() {
    let read = json(r#"{"mcpServers": {"s": {"command": "x", "command": "y"}, "t": {}, "t": {"command": "z"}}}"#);
    assert_eq!(
        warnings(&read),
        [
            "server `s`, `command`: it is there more than once; the last one counts",
            "server `t`: it is there more than once; the last one counts",
        ]
    );
    assert_eq!(&*stdio(&read.servers["s"]).command, "y");
    assert_eq!(&*stdio(&read.servers["t"]).command, "z");
    assert_eq!(read.errors, []);
}

#[test]
fn the_json_that_desktop_clients_share() {
    let read = json(
        r#"{
            "globalShortcut": "Ctrl+Space",
            "mcpServers": {
                "filesystem": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/tmp"]},
                "remote": {"type": "http", "url": "https://example.com/mcp", "headers": {"X-Key": "k"}},
                "old": {"type": "sse", "url": "https://example.com/sse", "disabled": true},
                "local": {"type": "stdio", "command": "x", "cwd": "/srv", "env": {}}
            }
        }"#,
    );
    assert_eq!((&*read.errors, &*read.warnings), (&[][..], &[][..]));
    assert_eq!(&*stdio(&read.servers["filesystem"]).command, "npx");
    assert_eq!(&*http(&read.servers["remote"]).headers["X-Key"], "k");
    assert!(!read.servers["old"].enabled);
    assert_eq!(stdio(&read.servers["local"]).cwd.as_deref(), Some("/srv"));
}

#[test]
fn a_contradicting_or_unknown_type_is_a_warning() {
    let read = yaml(
        "mcp_servers:\n  a: {command: x, type: http}\n  b: {url: \"http://b\", transport: stdio}\n  c: {url: \"http://c\", type: websocket}",
    );
    assert_eq!(
        warnings(&read),
        [
            "server `a`, `type`: it contradicts the entry's `command` or `url`, which counts",
            "server `b`, `transport`: it contradicts the entry's `command` or `url`, which counts",
            "server `c`, `type`: nobody knows `websocket`",
        ]
    );
    assert_eq!(read.servers.len(), 3);
}

#[test]
fn both_shapes_in_one_file_are_one_configuration() {
    let read = yaml(
        "mcp_servers:\n  a: {command: own}\nmcpServers:\n  a: {command: shared}\n  b: {command: shared}\n8080: [x]\nyes: {}",
    );
    assert_eq!(&*stdio(&read.servers["a"]).command, "own");
    assert_eq!(&*stdio(&read.servers["b"]).command, "shared");
    assert_eq!(warnings(&read), ["server `a`: it is there more than once; the last one counts"]);
}

#[test]
fn a_file_without_servers_has_none() {
    for text in ["theme: dark", "mcp_servers:", "mcp_servers: {}", "~"] {
        assert_eq!(yaml(text), Configuration::default(), "{text}");
    }
    assert_eq!(json("{}"), Configuration::default());
}

#[test]
fn servers_that_are_not_a_map_fail_the_file() {
    for text in ["mcp_servers: [a]", "mcp_servers: 5", "mcp_servers: text"] {
        let error = serde_saphyr::from_str::<Document>(text).unwrap_err().to_string();
        assert!(error.contains("not a map by their names"), "{error}");
    }
    assert!(serde_json::from_str::<Document>("[]").unwrap_err().to_string().contains("`mcp_servers`"));
}

#[test]
fn numbers_are_read_with_the_feature_arbitrary_precision() {
    let read = json(r#"{"mcpServers": {"s": {"command": "x", "timeout": {"$serde_json::private::Number": "1.50"}}}}"#);
    assert_eq!(sound(read).timeout, Duration::from_millis(1500));
}

#[test]
fn variables_are_replaced_in_values_for_the_server() {
    let lookup = |name: &str| match name {
        "HOME" => Some("/home/ada".into()),
        "TOKEN" => Some("a${HOME}b".into()),
        "EMPTY" => Some("".into()),
        "env:X" => Some("x".into()),
        _ => None,
    };
    let entry = sound(entry(concat!(
        "command: ${HOME}/bin/x\n",
        "args: [\"--token=${TOKEN}\", \"${HOME}${HOME}\", \"$HOME\", \"$${HOME}\", \"${\", \"${HOME $${\"]\n",
        "env: {A: \"${EMPTY}\", B: \"${EMPTY:-b}\", C: \"${NONE:-c:-d}\", D: \"${env:X}\", \"${HOME}\": e}\n",
        "cwd: ${HOME}\n",
        "tools: {include: [\"${HOME}\"]}",
    )));
    let expanded = entry.expand("s", lookup).unwrap();
    let program = stdio(&expanded);
    assert_eq!(&*program.command, "/home/ada/bin/x");
    let args = ["--token=a${HOME}b", "/home/ada/home/ada", "$HOME", "${HOME}", "${", "${HOME ${"];
    assert_eq!(program.args, boxed(&args));
    let env: Vec<_> = program.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(env, ["${HOME}=e", "A=", "B=b", "C=c:-d", "D=x"]);
    assert_eq!(program.cwd.as_deref(), Some("/home/ada"));
    assert_eq!(expanded.tools, entry.tools, "filters are no place for variables");

    let entry =
        sound(self::entry("url: https://${HOST:-example.com}/mcp\nheaders: {Authorization: \"Bearer ${TOKEN}\"}"));
    let expanded = entry.expand("s", lookup).unwrap();
    assert_eq!(&*http(&expanded).url, "https://example.com/mcp");
    assert_eq!(&*http(&expanded).headers["Authorization"], "Bearer a${HOME}b");
}

#[test]
fn variables_without_a_value_are_all_named() {
    let entry = sound(entry("url: https://${HOST}/\nheaders: {A: \"${KEY}${OTHER}\"}"));
    let errors: Vec<_> = entry.expand("s", |_| None).unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "server `s`, `url`: there is no `HOST`; give it a value, or write `${HOST:-…}` with one to fall back on",
            "server `s`, `headers.A`: there is no `KEY`; give it a value, or write `${KEY:-…}` with one to fall back on",
            "server `s`, `headers.A`: there is no `OTHER`; give it a value, or write `${OTHER:-…}` with one to fall back on",
        ]
    );
}

#[test]
fn variables_that_expand_to_too_much_are_named() {
    let lookup = |name: &str| Some(if name == "A" { "a".repeat(24 * 1024) } else { "b".repeat(64 * 1024) }.into());
    let errors = |servers: Value| -> Vec<_> {
        let read: Configuration = serde_json::from_value(servers).unwrap();
        read.expand(lookup).errors.iter().map(ToString::to_string).collect()
    };
    // 800 KB that would be 4.9 GB.
    let bomb = json!({"s": {"command": "x", "args": ["${A}".repeat(200_000)]}, "t": {"command": "${A}"}});
    assert_eq!(
        errors(bomb),
        ["server `s`, `args`: with `A` the variables of this value have more than 65536 bytes; use less of them"]
    );
    assert_eq!(errors(json!({"s": {"command": "${A}${A}"}})), [""; 0]);
    assert_eq!(errors(json!({"s": {"command": "${B}"}})), [""; 0], "as much as is allowed");
    assert_eq!(errors(json!({"s": {"command": "${B}${B:-b}"}})).len(), 1);
    let many = |count| {
        (0..count)
            .map(|n| (format!("s{n:02}"), json!({"url": "http://x", "headers": {"A": "${B}"}})))
            .collect::<Value>()
    };
    assert_eq!(errors(many(16)), [""; 0]);
    assert_eq!(
        errors(many(17)),
        [
            "server `s16`, `headers.A`: with `B` the variables of this file have more than 1048576 bytes; use less of them"
        ]
    );
    let args = vec!["${B}"; 10_000];
    assert_eq!(errors(json!({"s": {"command": "x", "args": args}})).len(), 1, "once for each server");
    // What is written in the file itself has no such bound.
    let long = format!("{}${{C:-}}", "c".repeat(100_000));
    let read: Configuration = serde_json::from_value(json!({"s": {"command": long}})).unwrap();
    assert_eq!(read.expand(|_| None).errors, []);
}

#[test]
fn the_difference_touches_only_servers_whose_entry_changed() {
    let before = yaml(concat!(
        "mcp_servers:\n",
        "  same: {command: x, timeout: 120}\n",
        "  filtered: {command: x}\n",
        "  moved: {command: x}\n",
        "  off: {command: x}\n",
        "  gone: {command: x}\n",
        "  slip: {command: x}\n",
    ));
    let after = yaml(concat!(
        "mcp_servers:\n",
        "  new: {command: x}\n",
        "  slip: {comand: x}\n",
        "  off: {command: x, enabled: no}\n",
        "  moved: {url: \"http://x\"}\n",
        "  filtered: {command: x, tools: {exclude: a, prompts: off}}\n",
        "  same: {timeout: 120.0, command: x, enabled: \"yes\"}\n",
    ));
    let changes = Changes::between(&before, &after);
    assert_eq!(changes.added, boxed(&["new"]));
    assert_eq!(changes.removed, boxed(&["gone"]));
    assert_eq!(changes.unchanged, boxed(&["same"]));
    assert_eq!(changes.invalid, boxed(&["slip"]));
    let changed: Vec<_> =
        changes.changed.iter().map(|change| (&*change.server, &*change.keys, change.needs_session())).collect();
    assert_eq!(
        changed,
        [
            ("filtered", &["tools.exclude", "tools.prompts"][..], false),
            ("moved", &["command", "url"], true),
            ("off", &["enabled"], true),
        ]
    );
    assert!(!changes.is_empty());
    assert!(Changes::between(&before, &before).is_empty());
    assert_eq!(Changes::between(&before, &before).unchanged.len(), 6);
}

#[test]
fn every_key_that_differs_is_named() {
    let program = "command: x";
    let address = "url: \"http://x\"";
    for (base, line, key) in [
        (program, "command: x\nargs: [a]", "args"),
        ("command: x\nargs: [b, a]", "command: x\nargs: [a, b]", "args"),
        (program, "command: z", "command"),
        (program, "command: x\nenv: {A: b}", "env"),
        (program, "command: x\nenv_file: .env", "env_file"),
        (program, "command: x\ncwd: /", "cwd"),
        (address, "url: \"http://z\"", "url"),
        (address, "url: \"http://x\"\ntransport: sse", "transport"),
        (address, "url: \"http://x\"\nget_stream: no", "get_stream"),
        (address, "url: \"http://x\"\nheaders: {A: b}", "headers"),
        (address, "url: \"http://x\"\nauth: oauth", "auth"),
        (program, "command: x\nenabled: no", "enabled"),
        (program, "command: x\ntimeout: 1", "timeout"),
        (program, "command: x\nmax_timeout: 1", "max_timeout"),
        (program, "command: x\nconnect_timeout: 1", "connect_timeout"),
        (program, "command: x\nsupports_parallel_tool_calls: yes", "supports_parallel_tool_calls"),
        (program, "command: x\ntrust: no", "trust"),
        (program, "command: x\nprotocol: legacy", "protocol"),
        (program, "command: x\nkeepalive_interval: 30", "keepalive_interval"),
        (program, "command: x\nidle_timeout: 30", "idle_timeout"),
        (program, "command: x\nmax_lifetime: 30", "max_lifetime"),
        (program, "command: x\nelicitation: no", "elicitation"),
        (program, "command: x\nsampling: no", "sampling"),
        (program, "command: x\ntools: {include: a}", "tools.include"),
        (program, "command: x\ntools: {exclude: a}", "tools.exclude"),
        (program, "command: x\ntools: {resources: no}", "tools.resources"),
        (program, "command: x\ntools: {prompts: no}", "tools.prompts"),
        (program, "command: x\ntools: {overrides: {a: {name: b}}}", "tools.overrides"),
        (program, "command: x\ntools: {max_result_bytes: 9}", "tools.max_result_bytes"),
    ] {
        let changes = Changes::between(&entry(base), &entry(line));
        assert_eq!(changes.changed.len(), 1, "{line}");
        assert_eq!(changes.changed[0].keys, [key]);
        let live = ["timeout", "max_timeout", "connect_timeout", "supports_parallel_tool_calls", "trust"];
        let needs_session = !key.starts_with("tools.") && !live.contains(&key);
        assert_eq!(changes.changed[0].needs_session(), needs_session, "{key}");
    }
}

#[test]
fn entries_that_mean_the_same_have_one_fingerprint() {
    let read = |text: &str| entry(text).servers["s"].fingerprint(FingerprintKey::new([7; 16]));
    let plain = read("command: x\nenv: {A: \"1\", B: \"2\"}");
    assert_eq!(plain, read("enabled: on\nenv:\n  B: 2\n  A: 1\ncommand: x\ntimeout: 120"));
    for other in
        ["command: z\nenv: {A: 1, B: 2}", "command: x\nenv: {A: 1}", "command: x\nenv: {A: 1, B: 2}\ntimeout: 1"]
    {
        assert_ne!(plain, read(other), "{other}");
    }
}

#[test]
fn an_entry_sets_a_session_up() {
    let given = || Options::new("host", "1.0");
    let entry = sound(entry("command: x\ntimeout: 900\nconnect_timeout: 4\nsupports_parallel_tool_calls: true"));
    let options = entry.options("github", given());
    assert_eq!((&*options.server, &*options.client.name), ("github", "host"));
    assert!(options.parallel_tool_calls);
    assert_eq!(options.timeouts.request, Duration::from_secs(900));
    assert_eq!(options.timeouts.request_max, Duration::from_secs(900));
    assert_eq!(options.timeouts.connect, Some(Duration::from_secs(4)));
    assert_eq!(options.timeouts.open, Duration::from_secs(4));
    assert_eq!(options.timeouts.handshake, Duration::from_secs(4));
    assert_eq!(options.timeouts.discover, Duration::from_secs(2), "there is time left for `initialize`");

    let options = Entry::http("http://x").options("docs", given());
    assert!(!options.parallel_tool_calls);
    assert_eq!(options.timeouts.request, Duration::from_secs(120));
    assert_eq!(options.timeouts.open, Duration::from_secs(60));
    assert_eq!(options.timeouts.discover, given().timeouts.discover);
}

#[test]
fn sampling_limits_the_capabilities_of_a_session() {
    let given = |offers| {
        let mut options = Options::new("host", "1.0");
        options.capabilities.sampling = offers;
        options.sampling.max_tokens = Some(9);
        options
    };
    let entry = sound(entry(
        "command: x\nsampling: {max_rpm: 3, max_tokens_cap: 100, timeout: 2, max_tool_rounds: 1, allowed_models: a}",
    ));
    let options = entry.options("s", given(true));
    assert!(options.capabilities.sampling);
    let policy = &options.sampling;
    assert_eq!((policy.per_minute, policy.max_tokens, policy.tool_rounds), (Some(3), Some(100), Some(1)));
    assert_eq!((&policy.models, policy.timeout), (&boxed(&["a"]), Some(Duration::from_secs(2))));
    assert!(!entry.options("s", given(false)).capabilities.sampling, "the host has no model");
    let off = sound(self::entry("command: x\nsampling: off"));
    assert!(!off.options("s", given(true)).capabilities.sampling);
    let silent = Entry::stdio("x").options("s", given(true));
    assert!(silent.capabilities.sampling);
    assert_eq!(silent.sampling.max_tokens, Some(9), "the host's own policy");
}

fn texts() -> impl Strategy<Value = Vec<Box<str>>> {
    prop::collection::vec("[a-z*${}:\"\\\\é\n-]{0,6}".prop_map(Into::into), 0..3)
}

fn any_entry() -> impl Strategy<Value = Entry> {
    let text = "[a-z0-9 .:/]{1,8}x";
    let endpoint = (any::<bool>(), text, texts(), prop::collection::btree_map("[A-Z]{1,3}", "[a-z\"]{0,3}", 0..3));
    let filters = (prop::option::of(texts()), texts(), any::<bool>(), any::<bool>());
    let times = (1..100_000_u64, 1..100_000_u64, any::<bool>(), any::<bool>(), any::<Option<u16>>());
    (endpoint, filters, times).prop_map(|((program, text, list, map), filters, times)| {
        let mut entry = if program { Entry::stdio(text) } else { Entry::http(text) };
        let map = map.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        match &mut entry.endpoint {
            Endpoint::Stdio(stdio) => {
                stdio.env_file = list.first().filter(|text| !text.trim().is_empty()).cloned();
                (stdio.args, stdio.env) = (list, map);
            }
            Endpoint::Http(http) => {
                (http.sse, http.get_stream) = (list.len() == 1, list.len() < 2);
                (http.headers, http.auth) = (map, list.first().map(|_| Auth::OAuth));
            }
            other => panic!("{other:?}"),
        }
        let tools = &mut entry.tools;
        (tools.include, tools.exclude, tools.resources, tools.prompts) = filters;
        for tool in tools.exclude.iter().filter(|tool| tool.len() > 3) {
            let mut own = ToolOverride::default();
            (own.name, own.description) = (Some("b".into()), tool.starts_with('a').then(|| "Does it.".into()));
            tools.overrides.insert(tool.clone(), own);
        }
        let (timeout, connect, enabled, parallel, sampling) = times;
        tools.max_result_bytes = sampling.map(|max| usize::from(max) + 1);
        entry.timeout = Duration::from_millis(timeout);
        entry.connect_timeout = Duration::from_secs(connect.min(80_000));
        (entry.enabled, entry.supports_parallel_tool_calls) = (enabled, parallel);
        entry.trust = (timeout % 3 != 0).then_some(timeout % 3 == 1);
        entry.protocol =
            [None, Some(Protocol::Auto), Some(Protocol::Modern), Some(Protocol::Legacy)][connect as usize % 4];
        entry.keepalive_interval = (connect % 3 != 0).then(|| Duration::from_secs(connect % 3 - 1));
        entry.elicitation = connect % 5 != 0;
        if let Endpoint::Stdio(_) = entry.endpoint {
            entry.idle_timeout = (timeout % 7 != 0).then(|| Duration::from_millis(timeout));
            entry.max_lifetime = (connect % 7 != 0).then(|| Duration::from_secs(connect.min(80_000)));
        }
        entry.sampling = sampling.map(|max_rpm| {
            let mut sampling = Box::<Sampling>::default();
            (sampling.max_rpm, sampling.enabled) = (max_rpm.into(), max_rpm % 2 == 0);
            sampling
        });
        entry
    })
}

/// Whatever may stand in a file, with a liking for the keys that mean something.
fn anything() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "(yes|off|npx|http://x|-?[0-9]{1,3}|\\PC{0,3})".prop_map(Value::from),
    ];
    let keys = "(command|url|args|env|headers|timeout|connect_timeout|enabled|tools|include|exclude|overrides|max_result_bytes|resources|sampling|auth|trust|protocol|keepalive_interval|idle_timeout|max_lifetime_seconds|lifecycle|elicitation|type|max_rpm|[a-z_]{0,3})";
    scalar.prop_recursive(4, 24, 6, move |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            3 => prop::collection::btree_map(keys, inner, 0..6).prop_map(|map| json!(map)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_serialized_configuration_can_be_read(entries in prop::collection::btree_map("[a-z.é-]{0,5}", any_entry(), 0..4)) {
        let mut configuration = Configuration::default();
        configuration.servers = entries.into_iter().map(|(name, entry)| (name.into(), entry)).collect();
        let text = serde_json::to_string(&configuration).unwrap();
        let is_warned =
            |entry: &&Entry| entry.tools.include.as_deref() == Some(&[]) && !entry.tools.exclude.is_empty();
        let warned = configuration.servers.values().filter(is_warned).count();
        let is_below = |entry: &&Entry| matches!(entry.tools.max_result_bytes, Some(1..1024));
        let below = configuration.servers.values().filter(is_below).count();
        let is_long = |entry: &&Entry| entry.connect_timeout > Duration::from_secs(3600);
        let long = configuration.servers.values().filter(is_long).count();
        let document = format!(r#"{{"mcp_servers":{text}}}"#);
        // JSON is YAML.
        for mut read in [serde_json::from_str::<Configuration>(&text).unwrap(), yaml(&document)] {
            let warnings = std::mem::take(&mut read.warnings);
            let (low, others): (Vec<_>, Vec<_>) =
                warnings.iter().partition(|warning| warning.oddity == Oddity::BelowLeast { least: 1024 });
            let (slow, others): (Vec<_>, Vec<_>) =
                others.into_iter().partition(|warning| warning.oddity == Oddity::LongTime);
            prop_assert!(others.iter().all(|warning| warning.oddity == Oddity::NoTools));
            prop_assert_eq!((others.len(), low.len(), slow.len()), (warned, below, long));
            prop_assert_eq!(&read, &configuration);
        }
    }

    #[test]
    fn each_server_of_a_file_is_of_use_or_has_an_error(
        entries in prop::collection::btree_map("[a-c]", anything(), 0..4),
    ) {
        let read = json(&json!({ "mcpServers": entries }).to_string());
        for name in entries.keys() {
            let wrong = read.errors.iter().any(|error| *error.server == **name);
            prop_assert_ne!(read.servers.contains_key(&**name), wrong, "{}", name);
        }
        prop_assert!(read.servers.len() <= entries.len());
        let again = serde_json::from_str::<Configuration>(&serde_json::to_string(&read).unwrap()).unwrap();
        prop_assert_eq!(&again.servers, &read.servers);
        prop_assert_eq!(again.errors, vec![]);
    }

    #[test]
    fn an_expanded_file_is_at_most_1_mib_longer_than_the_file(
        values in prop::collection::vec(prop::collection::vec("(\\$\\{[AB]\\}|\\$\\{C:-d\\}|e){0,8}", 0..40), 0..8),
        length in 0..100_000_usize,
    ) {
        let servers: serde_json::Map<_, _> =
            (0..).zip(values).map(|(n, args): (u32, _)| (n.to_string(), json!({"command": "x", "args": args}))).collect();
        let read: Configuration = serde_json::from_value(json!(servers)).unwrap();
        let size = |read: &Configuration| -> usize {
            read.servers.values().flat_map(|entry| &stdio(entry).args).map(|arg| arg.len()).sum()
        };
        let value = "v".repeat(length);
        let expanded = read.expand(|name| (name != "C").then(|| (&*value).into()));
        prop_assert!(size(&expanded) <= size(&read) + 1024 * 1024, "{}", size(&expanded));
        for arg in expanded.servers.values().flat_map(|entry| &stdio(entry).args) {
            prop_assert!(arg.len() <= 64 * 1024 + 64);
        }
        prop_assert!(expanded.servers.len() + expanded.errors.len() >= read.servers.len());
    }

    #[test]
    fn no_text_makes_an_expansion_fail_otherwise_than_for_want_of_a_variable(text in "[$\\{}:\\-aé]{0,16}x") {
        let entry = Entry::stdio(&*text);
        let expanded = entry.expand("s", |_| Some("v".into())).unwrap();
        if !text.contains("${") {
            prop_assert_eq!(expanded, entry);
        }
    }
}

#[test]
fn debug_shows_no_secret() {
    let config: Configuration = serde_json::from_value(json!({
        "a": {"command": "x", "args": ["--key", "hush", "--token=hush"], "env": {"KEY": "hush"}},
        "b": {"url": "https://me:hush@example.com:8080/mcp?key=hush", "headers": {"Authorization": "hush"}},
        "c": {"url": "https://example.com/mcp"},
    }))
    .unwrap();
    let shown = format!("{config:?}");
    assert!(!shown.contains("hush"), "{shown}");
    for rest in ["KEY", "Authorization", "https://…@example.com:8080/mcp?…", "\"https://example.com/mcp\""] {
        assert!(shown.contains(rest), "{rest} in {shown}");
    }
}

/// What is said of a file is not much longer than the file.
#[test]
fn long_names_are_not_repeated_in_messages() {
    let (server, variable) = ("s".repeat(40_000), "v".repeat(4_000));
    let nulls: serde_json::Map<_, _> = (0..4_000).map(|n| (n.to_string(), json!([]))).collect();
    let config: Configuration = serde_json::from_value(json!({&*server: {"command": "x", "env": nulls}})).unwrap();
    assert_eq!(config.errors.len(), 4_000);
    assert!(config.errors.iter().all(|error| std::sync::Arc::ptr_eq(&error.server, &config.errors[0].server)));
    assert!(config.errors.iter().all(|error| error.to_string().len() < 200));

    let args = vec![format!("${{{variable}}}").repeat(1_000); 2];
    let entry: Configuration = serde_json::from_value(json!({&*server: {"command": "x", "args": args}})).unwrap();
    let errors = entry.expand(|_| None).errors;
    assert_eq!(errors.len(), 2, "once for each value");
    assert!(errors.iter().all(|error| error.to_string().len() < 300));
}

#[test]
fn messages_do_not_quote_the_file_or_auth() {
    for file in ["\"hush\"", "true", "1", "-1", "1.5"] {
        let error = serde_json::from_str::<Document>(file).unwrap_err().to_string();
        assert!(error.starts_with("the file is ") && !error.contains("hush"), "{error}");
    }
    let json = json!({"a": {"url": "https://example.com", "auth": "Bearer hush"}});
    let config: Configuration = serde_json::from_value(json).unwrap();
    assert_eq!(
        config.warnings[0].to_string(),
        "server `a`, `auth`: nobody knows this way to authenticate; write `oauth`, or give a token in `headers`"
    );
    assert!(!format!("{config:?}").contains("hush"));
    for url in ["me:hush@host/x", "https:\\\\me:hush@host", "https://me:hu/hush@host/x", "https://host/x#hush"] {
        let config: Configuration = serde_json::from_value(json!({"a": {"url": url}})).unwrap();
        assert!(!format!("{config:?}").contains("hush"), "{config:?}");
    }
}

/// A program that reads such a file has no servers, and no reason why.
#[test]
fn a_file_with_a_misspelled_key_is_an_error_that_names_it() {
    for key in ["mcpServer", "mcp-servers"] {
        let read =
            |text: &str| serde_json::from_str::<Document>(text).map(|it| it.0).map_err(|error| error.to_string());
        let error = read(&format!(r#"{{"{key}": {{"a": {{"command": "x"}}}}}}"#)).unwrap_err();
        assert!(error.contains(&format!("`{key}`")) && error.contains("`mcpServers`"), "{error}");
        let both = format!(r#"{{"{key}": {{}}, "mcpServers": {{"a": {{"command": "x"}}}}}}"#);
        assert_eq!(read(&both).unwrap().servers.len(), 1);
    }
}

#[test]
fn a_variable_that_is_set_twice_is_a_warning_and_the_last_value_counts() {
    let twice = json(r#"{"mcpServers": {"a": {"command": "x", "env": {"A": "1", "B": "2", "A": "3"}}}}"#);
    assert_eq!(warnings(&twice).len(), 1, "{:?}", warnings(&twice));
    assert!(matches!(&twice.warnings[0].oddity, Oddity::Twice), "{:?}", twice.warnings);
    let entry = &twice.servers["a"];
    assert_eq!(stdio(entry).env.get("A").map(|it| &**it), Some("3"));
}

#[test]
fn a_difference_is_empty_only_if_nothing_was_added_removed_or_changed() {
    let read = |keys: &str| json(&format!(r#"{{"mcpServers": {{{keys}}}}}"#));
    let (one, other, none) = (read(r#""a": {"command": "x"}"#), read(r#""a": {"command": "y"}"#), read(""));
    for (before, after, is_empty) in
        [(&one, &one, true), (&none, &one, false), (&one, &none, false), (&one, &other, false)]
    {
        assert_eq!(Changes::between(before, after).is_empty(), is_empty);
    }
}
