//! Extensions and experimental capabilities: what is declared, and what a server declares.

use crate::common::{Host, Server, legacy, options, tools};
use mcp_proto::protocol::{Extension, ExtensionId, ExtensionIdError};
use mcp_proto::{CommandError, FailureKind, Outcome, Request, RequestError};
use serde_json::value::RawValue;
use serde_json::{Value, json};

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.into()).unwrap()
}

fn id(text: &str) -> ExtensionId {
    text.parse().unwrap()
}

/// "Extension identifiers MUST follow the `_meta` key naming rules, with a mandatory prefix" (2026-07-28, "Versioning").
#[test]
fn identifiers_of_extensions_are_checked() {
    for good in ["a/b", "io.modelcontextprotocol/tasks", "com.ex-ample.x1/A.b_c-9", "x/9"] {
        assert_eq!((id(good).as_str(), id(good).to_string()), (good, good.to_owned()));
    }
    for (bad, error) in [
        ("tasks", ExtensionIdError::NoPrefix),
        ("", ExtensionIdError::NoPrefix),
        ("/tasks", ExtensionIdError::NoPrefix),
        ("1a/b", ExtensionIdError::Label),
        ("a-/b", ExtensionIdError::Label),
        ("a..b/c", ExtensionIdError::Label),
        ("a_b/c", ExtensionIdError::Label),
        ("é/c", ExtensionIdError::Label),
        ("a/", ExtensionIdError::Name),
        ("a/b/c", ExtensionIdError::Name),
        ("a/-b", ExtensionIdError::Name),
        ("a/b.", ExtensionIdError::Name),
        ("a/b c", ExtensionIdError::Name),
    ] {
        assert_eq!(bad.parse::<ExtensionId>(), Err(error), "{bad:?}");
    }
}

#[test]
fn extensions_and_experimental_capabilities_are_declared_once_each_with_objects_as_settings() {
    let mut options = legacy();
    options.capabilities.extensions = [
        (id("com.acme/a"), Extension::from(raw(r#"{"v":1}"#))),
        (id("com.acme/b"), Extension::from(raw("[1]"))),
        (id("com.acme/a"), Extension::from(raw(r#"{"v":2}"#))),
    ]
    .into();
    options.capabilities.experimental = [("trial".into(), raw("{}"))].into();
    let host = Host::open(options);
    let declared = &host.transcript[0].1["params"]["capabilities"];
    assert_eq!(declared["extensions"], json!({"com.acme/a": {"v": 2}, "com.acme/b": {}}));
    assert_eq!(declared["experimental"], json!({"trial": {}}));
}

/// "If one party supports an extension but the other does not, the supporting party MUST revert to core behaviour": the
/// embedder sees what the server declares.
#[test]
fn the_declared_extensions_of_a_server_can_be_read() {
    let capabilities = json!({
        "extensions": {"com.acme/a": {"v": 1}, "com.acme/off": false},
        "experimental": {"trial": {"x": 2}, "none": null},
    });
    let host = Host::connect(legacy(), &mut Server::legacy(capabilities));
    let server = host.session.server().unwrap().capabilities().unwrap();
    assert_eq!(server.extension(&id("com.acme/a")).unwrap().get(), r#"{"v":1}"#);
    assert!(server.extension(&id("com.acme/off")).is_none() && server.extension(&id("com.acme/b")).is_none());
    assert_eq!(server.experimental("trial").unwrap().get(), r#"{"x":2}"#);
    assert!(server.experimental("none").is_none() && server.experimental("other").is_none());
}

fn modern(extensions: Option<Extension>) -> Host {
    let mut options = options();
    options.listen = false;
    options.capabilities.extensions = extensions.into_iter().map(|it| (id("com.acme/a"), it)).collect();
    let server = Server::modern(json!({"tools": {}})).result("tools/list", tools(&["a"]));
    let mut host = Host::connect(options, &mut { server });
    assert!(host.is_ready());
    host.take_sent();
    host
}

fn call(host: &mut Host, result: Value) -> mcp_proto::RequestId {
    let id = host.session.request(host.now, Request::call_tool("a", None)).unwrap();
    host.collect();
    let sent = host.take_one();
    host.receive(json!({"jsonrpc": "2.0", "id": sent["id"], "result": result}));
    id
}

/// "The set of supported `resultType` values MUST include any additional values of supported extensions".
#[test]
fn a_result_type_of_a_declared_extension_is_accepted() {
    let mut extension = Extension::default();
    extension.result_types = vec!["com.acme/later".into()];
    let result = json!({"resultType": "com.acme/later", "ticket": 7});
    let mut host = modern(Some(extension));
    let id = call(&mut host, result.clone());
    let Outcome::Result(came) = host.result_of(id) else { panic!("{:?}", host.result_of(id)) };
    assert_eq!(serde_json::from_str::<Value>(came.get()).unwrap(), result);
    for undeclared in [None, Some(Extension::default())] {
        let mut host = modern(undeclared);
        let id = call(&mut host, result.clone());
        assert!(matches!(host.result_of(id), Outcome::Error(RequestError::Invalid(why)) if why.contains("later")));
    }
}

/// "A `resultType` of any value unrecognized by the client MUST be considered invalid": also of the engine's requests.
#[test]
fn a_result_of_an_unknown_type_does_not_answer_server_discover() {
    // The handshake falls back to `initialize`, as after any response that is not of the modern era.
    let mut host = Host::open(options());
    let sent = host.take_one();
    assert_eq!(sent["method"], "server/discover");
    let result = json!({"resultType": "weird", "supportedVersions": ["2026-07-28"], "capabilities": {}});
    host.receive(json!({"jsonrpc": "2.0", "id": sent["id"], "result": result}));
    assert_eq!(host.take_methods(), ["initialize"]);
}

/// As above, of a page of a list.
#[test]
fn a_result_type_of_a_page_that_is_unknown_or_no_string_fails_the_list() {
    for (kind, fails) in [
        (json!("complete"), false),
        (json!("weird"), true),
        (json!("input_required"), true),
        (json!(5), true),
        (json!(null), true),
        (json!({}), true),
    ] {
        let mut list = tools(&["a"]);
        list["resultType"] = kind.clone();
        let host = Host::connect(options(), &mut Server::modern(json!({"tools": {}})).result("tools/list", list));
        assert_eq!(
            (host.is_ready(), host.failure_kind()),
            (!fails, fails.then_some(FailureKind::ListFailed)),
            "{kind}"
        );
    }
    let mut list = tools(&["a"]);
    list["resultType"] = json!(5);
    let host = Host::connect(legacy(), &mut Server::legacy(json!({"tools": {}})).result("tools/list", list));
    assert!(host.is_ready(), "a legacy result has no type");
}

#[test]
fn requests_of_tasks_and_skills_require_their_declaration() {
    let tasks = "io.modelcontextprotocol/tasks";
    let skills = "io.modelcontextprotocol/skills";
    let refused = |capabilities: Value, modern: bool| {
        let server = if modern { Server::modern(capabilities) } else { Server::legacy(capabilities) };
        let mut host = Host::connect(if modern { options() } else { legacy() }, &mut { server });
        let methods =
            ["tasks/get", "tasks/list", "tasks/cancel", "skills/list", "skills/get", "resources/directory/read"];
        let refused = methods.map(|method| match host.session.request(host.now, Request::new(method)) {
            Err(CommandError::NotAdvertised { .. }) => '-',
            Ok(_) => '+',
            Err(error) => panic!("{error}"),
        });
        refused.into_iter().collect::<String>()
    };
    for modern in [false, true] {
        assert_eq!(refused(json!({}), modern), "------");
        assert_eq!(refused(json!({"extensions": {skills: {}}}), modern), "---++-");
        assert_eq!(refused(json!({"extensions": {skills: {"directoryRead": true}}}), modern), "---+++");
        assert_eq!(refused(json!({"extensions": {skills: {"directoryRead": "yes"}}}), modern), "---++-");
        assert_eq!(refused(json!({"extensions": {skills: null, tasks: {}}}), modern), "+-+---");
    }
    assert_eq!(refused(json!({"tasks": {}}), false), "+-----");
    assert_eq!(refused(json!({"tasks": {"list": {}, "cancel": {}}}), false), "+++---");
    // Of both revisions.
    assert_eq!(refused(json!({"tasks": {"list": {}, "cancel": {}}, "extensions": {tasks: {}}}), false), "+++---");
}
