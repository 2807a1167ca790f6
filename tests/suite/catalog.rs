//! The catalog: raw items, lookup, and comparison.

use std::time::Duration;

use crate::common::{Host, KEY, Server, legacy};
use mcp_proto::catalog::{Catalog, Difference, Fingerprint, FingerprintKey, ToolHints};
use mcp_proto::{Event, Family, FamilyStatus, Options, QuirkKind, Reconnect, Transport};
use serde_json::{Value, json};

/// A list result with these items as raw text.
fn result(family: Family, items: &str) -> String {
    format!(r#"{{"{}":{items}}}"#, family.member())
}

fn answer(host: &mut Host, request: &Value, result: &str) {
    host.receive_text(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, request["id"]));
}

fn capability(family: Family) -> &'static str {
    family.capability().as_str()
}

/// Answers the list requests: `family` with these items, any other with none.
fn answer_lists(host: &mut Host, family: Family, items: &str) {
    for request in host.take_sent() {
        for asked in Family::ALL.iter().copied().filter(|asked| request["method"] == asked.list_method()) {
            answer(host, &request, &result(asked, if asked == family { items } else { "[]" }));
        }
    }
}

/// Completes the handshake, and answers the list requests.
fn serve(host: &mut Host, family: Family, items: &str) {
    let initialize = host.take_one();
    let version = &initialize["params"]["protocolVersion"];
    let text = format!(
        r#"{{"protocolVersion":{version},"capabilities":{{"{}":{{"listChanged":true}}}},"serverInfo":{{"name":"s","version":"1"}}}}"#,
        capability(family)
    );
    answer(host, &initialize, &text);
    answer_lists(host, family, items);
    assert!(host.is_ready(), "{:?}", host.failure());
}

/// A client whose server has these items of one family.
fn listed(family: Family, items: &str) -> Host {
    let mut host = Host::open(legacy());
    serve(&mut host, family, items);
    host
}

fn raws(host: &Host, family: Family) -> Vec<&str> {
    host.session.catalog().list(family).iter().map(|(_, raw)| raw).collect()
}

fn array(items: &[&str]) -> String {
    format!("[{}]", items.join(","))
}

#[test]
fn items_keep_their_raw_text() {
    let items = [
        "{ \"inputSchema\" :\t{ \"type\":\"object\" ,\n \"properties\":{ } } ,\r\n\"name\":  \"spaced\" }",
        r#"{"zeta":1,"name":"order","alpha":{"b":1,"a":2},"inputSchema":{}}"#,
        r#"{"name":"escapes","description":"\u00e9\u2028\ud83d\ude00\/\b\u0000\"\\","inputSchema":{"\u0074ype":"object"}}"#,
        r#"{"name":"numbers","inputSchema":{"maximum":123456789012345678901234567890,"minimum":-0,"multipleOf":1.0000000000000000001,"default":1E400,"x":1.50}}"#,
        r#"{"name":"twice","inputSchema":{"type":"string","type":"object","properties":{"a":1,"a":2}}}"#,
        "{\"name\":\"raw é 😀 \u{7f}\",\"inputSchema\":{}}",
    ];
    let host = listed(Family::Tools, &array(&items));
    assert_eq!(raws(&host, Family::Tools), items);
    for (tool, item) in host.session.catalog().tools().zip(items) {
        assert_eq!(tool.raw.get(), item);
    }
    assert!(host.quirks().is_empty(), "{:?}", host.session.quirks());
}

#[test]
fn items_keep_their_raw_text_whatever_separates_them() {
    let item = r#"{"name": "a","inputSchema":{} }"#;
    let host = listed(Family::Tools, &format!(" [\n\t{item}  ,\r\n {{\"name\":\"b\",\"inputSchema\":{{}}}} ] "));
    assert_eq!(raws(&host, Family::Tools), [item, r#"{"name":"b","inputSchema":{}}"#]);
}

#[test]
fn every_family_keeps_its_items() {
    for (family, item, key) in [
        (Family::Tools, r#"{"inputSchema":{}, "name":"t", "x":1.0}"#, "t"),
        (Family::Prompts, r#"{"x":1.0, "name":"p", "arguments":[ ]}"#, "p"),
        (Family::Resources, r#"{"x":1.0, "uri":"r:1", "name":"p"}"#, "r:1"),
        (Family::ResourceTemplates, r#"{"x":1.0, "uriTemplate":"r:{x}", "name":"p"}"#, "r:{x}"),
    ] {
        let host = listed(family, &array(&[item]));
        assert_eq!(host.keys(family), [key]);
        assert_eq!(host.session.catalog().list(family).find(key), Some((key, item)));
    }
}

#[test]
fn schemas_keep_their_raw_text() {
    let (input, output) = (r#"{ "b":1e2, "a" : "\u0061" }"#, r#"{"type" :"object","type":"object"}"#);
    let item = format!(r#"{{"outputSchema":{output},"name":"t","inputSchema":{input},"_meta":{{ "m":1.0}}}}"#);
    let host = listed(Family::Tools, &array(&[&item]));
    let tool = host.session.catalog().tool("t").unwrap();
    assert_eq!(tool.input_schema.get(), input);
    assert_eq!(tool.output_schema.unwrap().get(), output);
    assert_eq!(tool.meta.unwrap().get(), r#"{ "m":1.0}"#);
}

#[test]
fn a_key_is_found_in_any_encoding() {
    let items = array(&[
        r#"{"name":"\u0061","inputSchema":{}}"#,
        r#"{"name":"\u00e9t\u00E9","inputSchema":{}}"#,
        r#"{"name":"\ud83d\ude00","inputSchema":{}}"#,
        r#"{"name":"x\/y\"\\\n","inputSchema":{}}"#,
        r#"{"name":"名前","inputSchema":{}}"#,
        r#"{"name":"","inputSchema":{}}"#,
        r#"{"n\u0061me":"member","inputSchema":{}}"#,
    ]);
    let host = listed(Family::Tools, &items);
    let keys = ["a", "été", "😀", "x/y\"\\\n", "名前", "", "member"];
    assert_eq!(host.keys(Family::Tools), keys);
    for key in keys {
        assert_eq!(host.session.catalog().tool(key).unwrap().name, key);
    }
    for other in [r"\u0061", "A", "b", "名", "é"] {
        assert!(host.session.catalog().tool(other).is_none(), "{other}");
    }
}

#[test]
fn two_encodings_of_a_key_are_equal() {
    let first = r#"{"name":"\u0061b","inputSchema":{}}"#;
    let host = listed(Family::Tools, &array(&[first, r#"{"name":"ab","inputSchema":{"x":1}}"#]));
    assert_eq!(raws(&host, Family::Tools), [first]);
    assert_eq!(host.quirks(), [QuirkKind::DuplicateItem]);
}

#[test]
fn items_come_in_the_servers_order() {
    let names = ["m", "z", "a", "Z", "10", "9", "é"];
    let items: Vec<_> = names.iter().map(|name| format!(r#"{{"name":"{name}","inputSchema":{{}}}}"#)).collect();
    let host = listed(Family::Tools, &format!("[{}]", items.join(",")));
    assert_eq!(host.keys(Family::Tools), names);
    assert_eq!(host.session.catalog().tools().map(|tool| tool.name).collect::<Vec<_>>(), names);
    assert!(names.iter().all(|name| host.session.catalog().tool(name).is_some()));
}

#[test]
fn many_items_are_all_found() {
    let item = |index: u32| format!(r#"{{"name":"t{index}","inputSchema":{{"i":{index}}}}}"#);
    let items: Vec<_> = (0..2000).map(item).collect();
    let host = listed(Family::Tools, &format!("[{}]", items.join(",")));
    let list = host.session.catalog().list(Family::Tools);
    assert_eq!(list.len(), 2000);
    for index in 0..2000 {
        assert_eq!(list.find(&format!("t{index}")).unwrap().1, item(index));
    }
    assert!(list.find("t2000").is_none());
}

#[test]
fn what_precedes_the_items_of_a_long_page_is_passed_over() {
    let mut host = listed(Family::Tools, "[]");
    host.session.refresh(host.now, Family::Tools).unwrap();
    host.collect();
    let item = |index: u32| format!(r#"{{"name":"t{index}","inputSchema":{{"i":{index}}}}}"#);
    let items: Vec<_> = (0..500).map(item).collect();
    let request = host.take_one();
    let before = r#""_meta":{"a":{"long":[],"short":{"x":1}},"b":[{"c":1}]},"other":[[1],[2]]"#;
    answer(&mut host, &request, &format!(r#"{{{before},"tools":[{}]}}"#, items.join(",")));
    assert_eq!(raws(&host, Family::Tools), items);
}

#[test]
fn the_view_of_a_tool_has_all_its_members() {
    let item = r#"{"name":"t","title":"T\u00e9","description":"D","inputSchema":{"a":1}}"#;
    let host = listed(Family::Tools, &array(&[item]));
    let tool = host.session.catalog().tool("t").unwrap();
    assert_eq!((tool.title.as_deref(), tool.description.as_deref()), (Some("Té"), Some("D")));
    assert!(tool.output_schema.is_none() && tool.meta.is_none());
    assert_eq!(tool.hints, ToolHints::default());
}

#[test]
fn members_of_a_wrong_type_are_absent_only_in_the_view() {
    let item = r#"{"name":"t","title":5,"description":["D"],"inputSchema":null,"outputSchema":"o","annotations":[],"_meta":1}"#;
    let host = listed(Family::Tools, &array(&[item]));
    let tool = host.session.catalog().tool("t").unwrap();
    assert!(tool.title.is_none() && tool.description.is_none());
    assert!(tool.output_schema.is_none() && tool.meta.is_none());
    assert_eq!(tool.hints, ToolHints::default());
    assert_eq!(tool.input_schema.get(), r#"{"type":"object"}"#);
    assert_eq!(tool.raw.get(), item);
}

#[test]
fn resources_and_templates_skip_members_of_a_wrong_type() {
    let host = listed(Family::Resources, r#"[{"uri":"r:1","name":1,"title":null,"mimeType":{},"size":"5"}]"#);
    let resource = host.session.catalog().resource("r:1").unwrap();
    assert!(resource.name.is_none() && resource.title.is_none() && resource.description.is_none());
    assert!(resource.mime_type.is_none() && resource.size.is_none());

    let host = listed(Family::ResourceTemplates, r#"[{"uriTemplate":"r:{x}","name":[],"mimeType":false}]"#);
    let template = host.session.catalog().resource_template("r:{x}").unwrap();
    assert!(template.name.is_none() && template.mime_type.is_none());
}

#[test]
fn members_of_any_family_that_have_a_wrong_type_are_recorded() {
    for (family, member) in [
        (Family::Tools, "icons"),
        (Family::Prompts, "icons"),
        (Family::Resources, "icons"),
        (Family::Resources, "annotations"),
        (Family::ResourceTemplates, "annotations"),
    ] {
        let key = if family == Family::Resources { "uri" } else { "uriTemplate" };
        let items = format!(r#"[{{"name":"x","{key}":"x","inputSchema":{{}},"{member}":"wrong"}}]"#);
        let host = listed(family, &items);
        let found: Vec<_> = host.session.quirks().iter().map(|quirk| (quirk.kind, &*quirk.detail)).collect();
        assert_eq!(found, [(QuirkKind::InvalidItem, &*format!("x: `{member}` has the wrong type"))], "{family:?}");
    }
}

#[test]
fn views_of_resources_and_templates_have_all_their_members() {
    let host = listed(
        Family::Resources,
        r#"[{"uri":"r:1","name":"n","title":"T","description":"D","mimeType":"text/plain","size":18446744073709551615}]"#,
    );
    let resource = host.session.catalog().resource("r:1").unwrap();
    let texts = [resource.name, resource.title, resource.description, resource.mime_type];
    assert_eq!(texts.map(Option::unwrap), ["n", "T", "D", "text/plain"]);
    assert_eq!(resource.size, Some(u64::MAX));

    let host = listed(
        Family::ResourceTemplates,
        r#"[{"uriTemplate":"r:{x}","name":"n","title":"T","description":"D","mimeType":"text/plain"}]"#,
    );
    let template = host.session.catalog().resource_templates().next().unwrap();
    let texts = [template.name, template.title, template.description, template.mime_type];
    assert_eq!(texts.map(Option::unwrap), ["n", "T", "D", "text/plain"]);
    assert_eq!(template.uri_template, "r:{x}");
}

#[test]
fn a_size_that_is_not_a_whole_number_is_absent() {
    for size in ["1.5", "-1", "1e99", "18446744073709551616", "true", "null"] {
        let host = listed(Family::Resources, &format!(r#"[{{"uri":"r:1","name":"r","size":{size}}}]"#));
        assert_eq!(host.session.catalog().resource("r:1").unwrap().size, None, "{size}");
    }
}

fn hints(annotations: &str) -> ToolHints {
    let host = listed(Family::Tools, &format!(r#"[{{"name":"t","inputSchema":{{}},"annotations":{annotations}}}]"#));
    host.session.catalog().tool("t").unwrap().hints
}

#[test]
fn hints_have_the_values_of_the_server() {
    let all = hints(r#"{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}"#);
    assert_eq!((all.read_only, all.destructive), (Some(true), Some(false)));
    assert_eq!((all.idempotent, all.open_world), (Some(true), Some(false)));
    let one = hints(r#"{"title":"T","destructiveHint":true,"other":true}"#);
    assert_eq!((one.read_only, one.destructive), (None, Some(true)));
    assert_eq!((one.idempotent, one.open_world), (None, None));
}

#[test]
fn the_display_name_is_the_title_the_annotated_title_or_the_name() {
    for (members, name) in [
        (r#","title":"T","annotations":{"title":"A"}"#, "T"),
        (r#","annotations":{"title":"A"}"#, "A"),
        (r#","annotations":{"title":1}"#, "t"),
        ("", "t"),
    ] {
        let host = listed(Family::Tools, &format!(r#"[{{"name":"t","inputSchema":{{}}{members}}}]"#));
        assert_eq!(host.session.catalog().tool("t").unwrap().display_name(), name);
    }
}

#[test]
fn hints_of_a_wrong_type_are_absent() {
    for wrong in ["null", "1", r#""true""#, "{}"] {
        let read = hints(&format!(r#"{{"readOnlyHint":{wrong},"openWorldHint":true}}"#));
        assert_eq!((read.read_only, read.open_world), (None, Some(true)), "{wrong}");
    }
    assert_eq!(hints("null"), ToolHints::default());
}

#[test]
fn prompt_arguments_are_read_in_order() {
    let host = listed(
        Family::Prompts,
        r#"[{"name":"p","title":"T","description":"D","arguments":[{"name":"z","required":true,"description":"\u00e9"},{"name":"a","required":false},{"name":"m"}]}]"#,
    );
    let prompt = host.session.catalog().prompt("p").unwrap();
    assert_eq!((prompt.title.as_deref(), prompt.description.as_deref()), (Some("T"), Some("D")));
    let read: Vec<_> = prompt.arguments.iter().map(|it| (&*it.name, it.description.as_deref(), it.required)).collect();
    assert_eq!(read, [("z", Some("é"), true), ("a", None, false), ("m", None, false)]);
}

#[test]
fn prompt_arguments_of_a_wrong_type_are_skipped() {
    let host = listed(
        Family::Prompts,
        r#"[{"name":"p","arguments":[{"required":true},{"name":5},null,"x",{"name":"a","description":1,"required":"yes"}]},{"name":"q","arguments":{"name":"a"}},{"name":"r","arguments":null}]"#,
    );
    let read = |name: &str| {
        let prompt = host.session.catalog().prompt(name).unwrap();
        prompt
            .arguments
            .iter()
            .map(|it| (it.name.to_string(), it.description.is_some(), it.required))
            .collect::<Vec<_>>()
    };
    assert_eq!(read("p"), [("a".to_string(), false, false)]);
    assert_eq!(read("q"), []);
    assert_eq!(read("r"), []);
}

fn fingerprint(items: &[&str]) -> String {
    listed(Family::Tools, &array(items)).session.catalog().fingerprint(KEY).to_string()
}

const A: &str = r#"{"name":"a","inputSchema":{}}"#;
const B: &str = r#"{"name":"b","inputSchema":{}}"#;

#[test]
fn fingerprints_are_the_same_in_every_release() {
    let host = listed(Family::Tools, &array(&[A]));
    let list = host.session.catalog().list(Family::Tools);
    assert_eq!(list.fingerprint_of("a", KEY).unwrap().to_string(), "1e498a437f7250eeb043c72edaee5a93");
    assert_eq!(list.fingerprint(KEY).to_string(), "1e498a437f7250eeb043c72edaee5a93");
    assert_eq!(host.session.catalog().fingerprint(KEY).to_string(), "5d42e10f4ef2e0b82ca724b38c62a901");
    assert_eq!(Catalog::default().fingerprint(KEY).to_string(), "bd258c21f797c3f753143f8f44152a98");
    assert_eq!(list.fingerprint_of("b", KEY), None);
}

#[test]
fn fingerprints_of_a_catalog_do_not_depend_on_the_order() {
    assert_eq!(fingerprint(&[A, B]), fingerprint(&[B, A]));
    assert_ne!(fingerprint(&[A, B]), fingerprint(&[A]));
    assert_ne!(fingerprint(&[A]), fingerprint(&[B]));
}

#[test]
fn fingerprints_do_not_depend_on_pages() {
    let mut host = Host::open(legacy());
    let pages = [format!(r#"{{"tools":[{A}],"nextCursor":"2"}}"#), format!(r#"{{"tools":[{B}]}}"#)];
    let mut server = Server::legacy(json!({"tools": {}}));
    let initialize = host.take_one();
    server.answer(&initialize).into_iter().for_each(|answer| host.receive(answer));
    for page in pages {
        let request = host.take_sent().pop().unwrap();
        answer(&mut host, &request, &page);
    }
    assert_eq!(host.keys(Family::Tools), ["a", "b"]);
    assert_eq!(host.session.catalog().fingerprint(KEY).to_string(), fingerprint(&[A, B]));
}

#[test]
fn fingerprints_differ_by_a_byte() {
    let variants = [
        r#"{"name":"a","inputSchema":{}}"#,
        r#"{"name":"a","inputSchema":{ }}"#,
        r#"{"name":"a","inputSchema":{}} "#.trim_end(),
        r#"{"inputSchema":{},"name":"a"}"#,
        r#"{"name":"\u0061","inputSchema":{}}"#,
        r#"{"name":"a","inputSchema":{"x":1}}"#,
        r#"{"name":"a","inputSchema":{"x":2}}"#,
    ];
    let prints: Vec<_> = variants.iter().map(|item| fingerprint(&[item])).collect();
    assert_eq!(prints[0], prints[2], "white space after an item does not belong to it");
    let mut distinct = prints.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), variants.len() - 1);
}

#[test]
fn fingerprints_differ_by_family() {
    let item = r#"[{"name":"a","inputSchema":{}}]"#;
    let tools = listed(Family::Tools, item).session.catalog().fingerprint(KEY);
    let prompts = listed(Family::Prompts, item).session.catalog().fingerprint(KEY);
    assert_ne!(tools, prompts);
}

fn changes(host: &Host) -> Vec<(Family, &Difference)> {
    let changed = |event| match event {
        &Event::CatalogChanged { family, ref difference } => Some((family, difference)),
        _ => None,
    };
    host.events.iter().filter_map(changed).collect()
}

fn tool(name: &str, schema: &str) -> String {
    format!(r#"{{"name":"{name}","inputSchema":{schema}}}"#)
}

fn before() -> String {
    array(&[&tool("z", "{}"), &tool("same", "{}"), &tool("gone", "{}"), &tool("b", "{}"), &tool("also", "{}")])
}

fn after() -> String {
    array(&[&tool("y", "{}"), &tool("b", r#"{"x":1}"#), &tool("same", "{}"), &tool("new", "{}"), &tool("z", "{ }")])
}

fn assert_differs(host: &Host) {
    let changes = changes(host);
    let [(Family::Tools, difference)] = changes.as_slice() else { panic!("{changes:?}") };
    assert_eq!(difference.added, ["new".into(), "y".into()]);
    assert_eq!(difference.removed, ["also".into(), "gone".into()]);
    assert_eq!(difference.changed, ["b".into(), "z".into()]);
    assert!(!difference.is_empty());
    assert_eq!(host.keys(Family::Tools), ["y", "b", "same", "new", "z"]);
}

fn refresh(host: &mut Host, family: Family, items: &str) {
    let method = format!("notifications/{}/list_changed", capability(family));
    host.wait(Duration::from_secs(2));
    host.receive(json!({"jsonrpc": "2.0", "method": method}));
    host.wait(Duration::from_secs(1));
    answer_lists(host, family, items);
}

fn reconnecting() -> Options {
    let mut options = legacy();
    options.reconnect = Some(Reconnect::default());
    options
}

/// The next connection of a client, to a server that had these tools before.
fn reconnected(items: &str) -> Host {
    let mut host = Host::open(reconnecting());
    serve(&mut host, Family::Tools, items);
    host.close_transport();
    host.wait(Duration::from_secs(1));
    assert_eq!(host.opens, 2);
    host.transport(Transport::Opened);
    host
}

#[test]
fn the_first_list_is_not_reported_as_a_change() {
    assert!(changes(&listed(Family::Tools, &before())).is_empty());
}

#[test]
fn a_refresh_reports_the_difference() {
    let mut host = listed(Family::Tools, &before());
    refresh(&mut host, Family::Tools, &after());
    assert_differs(&host);
}

#[test]
fn a_reconnect_reports_the_difference() {
    let mut host = reconnected(&before());
    assert_eq!(host.count(Family::Tools), 5, "items stay until they are listed again");
    serve(&mut host, Family::Tools, &after());
    assert_differs(&host);
}

/// Two lists of one tool, whose descriptions have equal hashes.
fn with_one_hash() -> [String; 2] {
    let before = crate::collisions::padded(r#"{"name":"t","inputSchema":{},"description":"Adds. "#);
    let end = r#""}"#;
    let pairs = crate::collisions::pairs(before.as_bytes(), &[before.len() + 16 + end.len()], 1);
    let lists = pairs[0].each_ref().map(|text| format!("{before}{text}{end}"));
    assert_ne!(lists[0], lists[1]);
    assert_eq!(crate::collisions::hash(lists[0].as_bytes()), crate::collisions::hash(lists[1].as_bytes()));
    lists.map(|item| array(&[&item]))
}

#[test]
fn a_changed_description_with_an_equal_hash_is_a_difference() {
    let [one, other] = with_one_hash();
    let mut host = listed(Family::Tools, &one);
    refresh(&mut host, Family::Tools, &other);
    let [(Family::Tools, difference)] = changes(&host)[..] else { panic!("{:?}", changes(&host)) };
    assert_eq!(difference.changed, ["t".into()]);
    let mut host = reconnected(&one);
    serve(&mut host, Family::Tools, &other);
    assert_eq!(changes(&host).len(), 1, "also after a reconnect");
}

#[test]
fn fingerprints_of_texts_with_equal_hashes_differ() {
    let [one, other] = with_one_hash().map(|items| listed(Family::Tools, &items));
    let item = |host: &Host| host.session.catalog().list(Family::Tools).fingerprint_of("t", KEY);
    assert_ne!(item(&one), item(&other));
    assert_ne!(one.session.catalog().fingerprint(KEY), other.session.catalog().fingerprint(KEY));
}

/// Anybody can compute such names.
#[test]
fn tools_whose_names_have_equal_hashes_are_different_tools() {
    let pairs = crate::collisions::pairs(b"", &[32], 2);
    let [one, other] = pairs[0].each_ref();
    let names: Vec<String> =
        [(other, 1), (one, 0), (other, 0), (one, 1)].map(|(first, at)| format!("{first}{}", pairs[1][at])).into();
    assert!(
        names
            .iter()
            .all(|name| crate::collisions::hash(name.as_bytes()) == crate::collisions::hash(names[0].as_bytes()))
    );
    let items: Vec<String> = names.iter().map(|name| tool(name, "{}")).collect();
    let mut items: Vec<&str> = items.iter().map(String::as_str).collect();
    let host = listed(Family::Tools, &array(&items));
    for name in &names {
        assert_eq!(host.session.catalog().tool(name).map(|tool| tool.name), Some(&**name));
    }
    assert!(host.quirks().is_empty());
    let before = host.session.catalog().fingerprint(KEY);
    items.reverse();
    assert_eq!(listed(Family::Tools, &array(&items)).session.catalog().fingerprint(KEY), before);
}

#[test]
fn fingerprints_with_another_key_differ() {
    let host = listed(Family::Tools, &array(&[A]));
    let other = FingerprintKey::new([7; 16]);
    assert_ne!(host.session.catalog().fingerprint(KEY), host.session.catalog().fingerprint(other));
    assert_eq!(format!("{KEY:?}"), "FingerprintKey(…)", "the key is secret");
    assert_eq!(serde_json::to_string(&KEY).unwrap(), r#""30313233343536373839616263646566""#);
    assert_eq!(serde_json::from_str::<FingerprintKey>(r#""30313233343536373839616263646566""#).unwrap(), KEY);
    let fingerprint = Fingerprint::of(KEY, b"");
    let written = serde_json::to_string(&fingerprint).unwrap();
    assert_eq!(written, format!("\"{fingerprint}\""));
    assert_eq!(serde_json::from_str::<Fingerprint>(&written).unwrap(), fingerprint);
    for wrong in [r#""0""#, "7", r#""+0313233343536373839616263646566""#] {
        assert!(serde_json::from_str::<Fingerprint>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_refresh_without_a_difference_reports_nothing() {
    let mut host = listed(Family::Tools, &array(&[A, B]));
    let fingerprint = host.session.catalog().fingerprint(KEY);
    refresh(&mut host, Family::Tools, &format!("[ {B},\n{A}]"));
    assert!(changes(&host).is_empty());
    assert_eq!(host.keys(Family::Tools), ["b", "a"], "in the new order");
    assert_eq!(host.session.catalog().fingerprint(KEY), fingerprint);
}

#[test]
fn a_reconnect_without_a_difference_reports_nothing() {
    let mut host = reconnected(&array(&[A, B]));
    serve(&mut host, Family::Tools, &array(&[A, B]));
    assert!(changes(&host).is_empty());
    assert_eq!(host.keys(Family::Tools), ["a", "b"]);
}

#[test]
fn a_family_that_is_not_declared_any_more_is_removed() {
    let mut host = reconnected(&array(&[A, B]));
    serve(&mut host, Family::Prompts, r#"[{"name":"p"}]"#);
    let changes = changes(&host);
    let [(Family::Tools, tools), (Family::Prompts, prompts)] = changes.as_slice() else { panic!("{changes:?}") };
    assert_eq!(tools.removed, ["a".into(), "b".into()]);
    assert_eq!(prompts.added, ["p".into()]);
    assert_eq!(host.status(Family::Tools), FamilyStatus::NotAdvertised);
    assert_eq!(host.count(Family::Tools), 0);
}

#[test]
fn a_refresh_of_resources_reports_the_difference_by_uri() {
    let mut host = listed(Family::Resources, r#"[{"uri":"r:1","name":"a"},{"uri":"r:2","name":"b"}]"#);
    refresh(&mut host, Family::Resources, r#"[{"uri":"r:\u0032","name":"b"},{"uri":"r:3","name":"a"}]"#);
    let changes = changes(&host);
    let [(Family::Resources, difference)] = changes.as_slice() else { panic!("{changes:?}") };
    assert_eq!(difference.added, ["r:3".into()]);
    assert_eq!(difference.removed, ["r:1".into()]);
    assert_eq!(difference.changed, ["r:2".into()], "another encoding is another text");
}

#[test]
fn an_empty_list_removes_all_items() {
    let mut host = listed(Family::Tools, &array(&[A, B]));
    refresh(&mut host, Family::Tools, "[]");
    let [(Family::Tools, difference)] = changes(&host)[..] else { panic!("{:?}", changes(&host)) };
    assert_eq!(difference.removed, ["a".into(), "b".into()]);
    assert!(difference.added.is_empty() && difference.changed.is_empty());
    assert!(host.session.catalog().list(Family::Tools).is_empty());
}
