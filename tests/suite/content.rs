//! Typed views of results, content, annotations and icons.

use std::borrow::Cow;

use crate::common::{Host, Server, legacy};
use mcp_proto::Implementation;
use mcp_proto::protocol::content::{
    Block, Elicitation, ElicitationKind, FieldValues, Icon, MAX_VALUES, PromptResult, ReadResult, Role, Sampling,
    Theme, ToolResult,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap()
}

#[test]
fn a_result_of_a_tool_is_read_with_all_its_blocks() {
    let json = raw(&json!({
        "content": [
            {"type": "text", "text": "a\u{e9}\n", "_meta": {"k": 1},
                "annotations": {"audience": ["user", "robot", "assistant"], "priority": 0.5, "lastModified": "2026-01-01"}},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            {"type": "audio", "data": "aGk="},
            {"type": "resource_link", "uri": "file:///a", "name": "a", "size": 7,
                "icons": [{"src": "https://x/i.png", "sizes": ["48x48"], "theme": "dark", "mimeType": "image/png"}, {}, 3]},
            {"type": "resource", "resource": {"uri": "file:///b", "mimeType": "text/plain", "text": "b"}},
            {"type": "resource", "resource": {"uri": "file:///c", "blob": "aGk="}}
        ],
        "structuredContent": [1, 2],
        "isError": true,
        "_meta": {"m": 1}
    }));
    let result = ToolResult::read(&json);
    assert_eq!((result.is_error, result.structured.map(RawValue::get)), (true, Some("[1,2]")));
    assert_eq!(result.meta.map(RawValue::get), Some(r#"{"m":1}"#));
    let [
        Block::Text(text),
        Block::Image(image),
        Block::Audio(audio),
        Block::Link(link),
        Block::Resource(embedded),
        Block::Resource(binary),
    ] = &result.content[..]
    else {
        panic!("{:?}", result.content)
    };
    assert_eq!((&*text.text, text.meta.map(RawValue::get)), ("a\u{e9}\n", Some(r#"{"k":1}"#)));
    let annotations = text.annotations.as_ref().unwrap();
    assert_eq!(annotations.audience, [Role::User, Role::Assistant]);
    assert_eq!((annotations.priority, annotations.last_modified.as_deref()), (Some(0.5), Some("2026-01-01")));
    assert_eq!((&*image.data, image.mime_type.as_deref()), ("aGk=", Some("image/png")));
    assert_eq!((&*audio.data, &audio.mime_type), ("aGk=", &None));
    assert_eq!((&*link.uri, link.name.as_deref(), link.size), ("file:///a", Some("a"), Some(7)));
    let [Icon { src, mime_type, sizes, theme, .. }] = &link.icons[..] else { panic!("{:?}", link.icons) };
    assert_eq!(
        (&**src, mime_type.as_deref(), &sizes[..]),
        ("https://x/i.png", Some("image/png"), &["48x48".into()][..])
    );
    assert_eq!(*theme, Some(Theme::Dark));
    assert_eq!((&*embedded.resource.uri, embedded.resource.text.as_deref()), ("file:///b", Some("b")));
    assert_eq!((binary.resource.text.as_deref(), binary.resource.blob.as_deref()), (None, Some("aGk=")));
}

#[test]
fn unknown_and_malformed_content_is_kept_as_raw_json() {
    let blocks = [
        json!({"type": "hologram", "x": 1}),
        json!({"type": "text"}),
        json!({"type": "text", "text": 7}),
        json!({"type": "image", "mimeType": "image/png"}),
        json!({"type": "resource", "resource": {"text": "no URI"}}),
        json!({"type": "resource_link"}),
        json!({"type": 1}),
        json!({}),
        json!("text"),
        json!(null),
    ];
    let json = raw(&json!({"content": blocks, "isError": "true", "structuredContent": null, "_meta": 1}));
    let result = ToolResult::read(&json);
    assert!(!result.is_error && result.meta.is_none());
    assert_eq!(result.structured.map(RawValue::get), Some("null"));
    assert_eq!(result.content.len(), blocks.len());
    for (block, json) in result.content.iter().zip(&blocks) {
        assert!(matches!(block, Block::Other(_)), "{json}");
        assert_eq!(block.raw().get(), json.to_string());
    }
    for odd in [json!(1), json!([]), json!({}), json!({"content": {}}), json!({"content": "text"})] {
        assert!(ToolResult::read(&raw(&odd)).content.is_empty(), "{odd}");
        assert!(PromptResult::read(&raw(&odd)).messages.is_empty());
        assert!(ReadResult::read(&raw(&odd)).contents.is_empty());
    }
}

/// The texts of a view, a line each.
fn lines(result: &ToolResult<'_>) -> String {
    let text = |block: &Block<'_>| if let Block::Text(text) = block { Some(text.text.to_string()) } else { None };
    result.content.iter().filter_map(text).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_text_of_a_result_is_that_of_its_view() {
    let text =
        |text: &str| json!({"type": "text", "text": text, "annotations": {"priority": 1}, "_meta": {"text": "x"}});
    let image = || json!({"type": "image", "text": "x", "data": "aGk=", "mimeType": "image/png"});
    let many = vec![text("a"); MAX_VALUES + 7];
    for content in [
        json!([]),
        json!([text("a")]),
        json!([text("")]),
        json!([text(""), text("b\n\"c\u{e9}")]),
        json!([image(), 7, null, [], "text", {}, text("a"), {"type": "text"}, {"type": "text", "text": 7}, text("b")]),
        json!({"type": "text", "text": "a"}),
        json!("text"),
        json!(many),
    ] {
        let json = raw(&json!({"isError": false, "content": content, "structuredContent": {"content": [text("x")]}}));
        let view = ToolResult::read(&json);
        assert_eq!(ToolResult::text_of(&json), lines(&view), "{content}");
        assert_eq!(view.is_cut_off, view.content.len() == MAX_VALUES);
    }
    for odd in [json!(null), json!([text("a")]), json!("text")] {
        assert_eq!(ToolResult::text_of(&raw(&odd)), "", "{odd}");
    }
    // One that needs no change is not copied; half of a surrogate pair is no character.
    let of =
        |text: &str| RawValue::from_string(format!(r#"{{"content":[{{"te\u0078t":"{text}","type":"te\u0078t"}}]}}"#));
    assert!(matches!(ToolResult::text_of(&of("a").unwrap()), Cow::Borrowed("a")));
    assert_eq!(ToolResult::text_of(&of(r"a\ud83d\n").unwrap()), "a\u{fffd}\n");
}

#[test]
fn the_last_of_repeated_members_of_a_result_and_of_a_text_counts() {
    let read = |json: &str| {
        let raw = RawValue::from_string(json.into()).unwrap();
        let result = ToolResult::read(&raw);
        let text = |block: &Block<'_>| match block {
            Block::Text(text) => (text.text.to_string(), text.meta.is_some(), text.annotations.is_some()),
            other => panic!("{other:?}"),
        };
        assert_eq!(ToolResult::text_of(&raw), lines(&result), "{json}");
        let structured = result.structured.map(|value| value.get().to_owned());
        (result.content.iter().map(text).collect::<Vec<_>>(), structured, result.is_error, result.meta.is_some())
    };
    let (text, other) = (r#"{"type":"text","text":"a"}"#, r#"{"type":"text","text":"b"}"#);
    let plain = |text: &str| (text.to_owned(), false, false);
    let all = format!(
        r#"{{ "isError" : true, "content":[{text},{text}], "_meta":{{}}, "structuredContent":1,
            "c\u006fntent" : [{other}] , "isError":"true", "structuredContent":{{"content":[{text}]}}, "_meta":[] }}"#
    );
    assert_eq!(read(&all), (vec![plain("b")], Some(format!(r#"{{"content":[{text}]}}"#)), false, false));
    for not_an_array in ["{\"isError\":false}", "\"isError\"", "null"] {
        let json = format!(r#"{{"content":[{text}],"content" : {not_an_array} ,"isError":true}}"#);
        assert_eq!(read(&json), (vec![], None, true, false), "{not_an_array}");
    }
    let block = r#"{"text":1,"type":"image","annotations":{},"_meta":{},"type":"text","te\u0078t":"c","_meta":3}"#;
    assert_eq!(read(&format!(r#"{{"content":[{block}]}}"#)).0, [("c".to_owned(), false, true)]);
}

#[test]
fn priorities_beyond_the_range_and_annotations_of_a_wrong_type_are_left_out() {
    let read = |annotations: Value| {
        let json = raw(&json!({"type": "text", "text": "", "annotations": annotations}));
        let Block::Text(text) = Block::read(&json) else { panic!("no text") };
        text.annotations.map(|annotations| (annotations.priority, annotations.audience.len()))
    };
    assert_eq!(read(json!({"priority": 1})), Some((Some(1.0), 0)));
    assert_eq!(read(json!({"priority": 1.1, "audience": "user"})), Some((None, 0)));
    assert_eq!(read(json!({"priority": -0.1, "audience": [1]})), Some((None, 0)));
    assert_eq!((read(json!([])), read(json!(null))), (None, None));
}

#[test]
fn messages_of_a_prompt_have_a_role_and_a_block() {
    let json = raw(&json!({"description": "d", "messages": [
        {"role": "user", "content": {"type": "text", "text": "hi"}},
        {"role": "assistant", "content": {"type": "x"}},
        {"role": "system"}
    ]}));
    let prompt = PromptResult::read(&json);
    let roles: Vec<_> = prompt.messages.iter().map(|message| message.role).collect();
    assert_eq!(
        (prompt.description.as_deref(), &roles[..]),
        (Some("d"), &[Some(Role::User), Some(Role::Assistant), None][..])
    );
    assert!(matches!(&prompt.messages[0].content, Some(Block::Text(text)) if text.text == "hi"));
    assert!(matches!(&prompt.messages[1].content, Some(Block::Other(_))));
    assert!(prompt.messages[2].content.is_none());
}

#[test]
fn contents_of_a_resource_are_text_or_binary() {
    let json = raw(&json!({"contents": [
        {"uri": "file:///a", "text": "t"}, {"uri": "file:///b", "blob": "aGk=", "mimeType": "x/y"}, {"text": "no URI"}
    ]}));
    let result = ReadResult::read(&json);
    assert_eq!(result.contents.len(), 2);
    assert_eq!(result.contents[0].text.as_deref(), Some("t"));
    assert_eq!(
        (result.contents[1].blob.as_deref(), result.contents[1].mime_type.as_deref()),
        (Some("aGk="), Some("x/y"))
    );
}

#[test]
fn a_conversation_with_tools_is_read_to_a_bounded_depth() {
    let inner = json!({"type": "tool_result", "toolUseId": "2", "content": []});
    let json = raw(&json!({"type": "tool_result", "toolUseId": "1", "isError": true,
        "content": [inner, {"type": "text", "text": "x"}]}));
    let Block::ToolOutput(output) = Block::read(&json) else { panic!("no output") };
    assert!(output.is_error && &*output.tool_use_id == "1");
    assert!(matches!(&output.content[..], [Block::Other(_), Block::Text(_)]));
    let json = raw(&json!({"type": "tool_use", "id": "1", "name": "t", "input": {"a": 1}}));
    let Block::ToolUse(call) = Block::read(&json) else { panic!("no call") };
    assert_eq!((&*call.name, call.input.map(RawValue::get)), ("t", Some(r#"{"a":1}"#)));
}

#[test]
fn items_have_icons_and_resources_have_annotations() {
    let icons = json!([{"src": "data:image/png;base64,aGk="}]);
    let annotations = json!({"priority": 1});
    let mut server = Server::legacy(json!({"tools": {}, "prompts": {}, "resources": {}}))
        .result("tools/list", json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}, "icons": icons}]}))
        .result("prompts/list", json!({"prompts": [{"name": "p", "icons": icons}]}))
        .result("resources/list", json!({"resources": [{"uri": "u:1", "name": "r", "icons": icons, "annotations": annotations}]}))
        .result(
            "resources/templates/list",
            json!({"resourceTemplates": [{"uriTemplate": "u:{x}", "name": "r", "icons": icons, "annotations": annotations}]}),
        );
    let host = Host::connect(legacy(), &mut server);
    let catalog = host.session.catalog();
    let tool = catalog.tools().next().unwrap();
    let prompt = catalog.prompts().next().unwrap();
    let resource = catalog.resources().next().unwrap();
    let template = catalog.resource_templates().next().unwrap();
    for icons in [tool.icons(), prompt.icons(), resource.icons(), template.icons()] {
        assert_eq!(icons, [Icon::new("data:image/png;base64,aGk=")]);
    }
    for annotations in [resource.annotations(), template.annotations()] {
        assert_eq!(annotations.unwrap().priority, Some(1.0));
    }
}

#[test]
fn client_and_server_info_have_all_members() {
    let mut options = legacy();
    let mut icon = Icon::new("https://x/i.png");
    (icon.mime_type, icon.sizes, icon.theme) =
        (Some("image/png".into()), vec!["16x16".into(), "any".into()], Some(Theme::Light));
    options.client = Implementation::new("host", "2");
    options.client.title = Some("Host".into());
    options.client.description = Some("a host".into());
    options.client.website_url = Some("https://x/".into());
    let icons = [icon, Icon::new("https://x/j.png")];
    options.client.icons = icons.to_vec();
    let written = json!([
        {"src": "https://x/i.png", "mimeType": "image/png", "sizes": ["16x16", "any"], "theme": "light"},
        {"src": "https://x/j.png"},
    ]);
    let theirs = json!({"name": "s", "title": "S", "version": "3", "description": "a server", "websiteUrl": "https://y/",
        "icons": written});
    let info = theirs.clone();
    let mut server = Server::legacy(json!({})).on("initialize", move |params| {
        Ok(json!({"protocolVersion": params["protocolVersion"], "capabilities": {}, "serverInfo": info}))
    });
    let host = Host::connect(options, &mut server);
    let ours = json!({"name": "host", "title": "Host", "version": "2", "description": "a host", "websiteUrl": "https://x/",
        "icons": written});
    assert_eq!(host.transcript[0].1["params"]["clientInfo"], ours);
    let server = host.session.server().unwrap().info().unwrap();
    assert_eq!(server.raw.get(), theirs.to_string());
    assert_eq!(
        (server.name.as_deref(), server.title.as_deref(), server.version.as_deref()),
        (Some("s"), Some("S"), Some("3"))
    );
    assert_eq!((server.description.as_deref(), server.website_url.as_deref()), (Some("a server"), Some("https://y/")));
    assert_eq!(server.icons, icons);
}

#[test]
fn a_view_has_a_bounded_number_of_values_and_the_rest_is_in_its_json() {
    let many = |name: &str, value: &str, count: usize| {
        RawValue::from_string(format!(r#"{{"{name}":[{}]}}"#, vec![value; count].join(","))).unwrap()
    };
    for (count, kept) in [(MAX_VALUES, MAX_VALUES), (MAX_VALUES + 1, MAX_VALUES), (1_000_000, MAX_VALUES)] {
        let result = many("content", "0", count);
        let view = ToolResult::read(&result);
        assert_eq!((view.content.len(), view.is_cut_off), (kept, count > kept));
        let result = many("messages", "{}", count);
        let view = PromptResult::read(&result);
        assert_eq!((view.messages.len(), view.is_cut_off), (kept, count > kept));
        let result = many("contents", r#"{"uri":""}"#, count);
        let view = ReadResult::read(&result);
        assert_eq!((view.contents.len(), view.is_cut_off), (kept, count > kept));
    }
    // FieldValues in blocks count, too.
    let output = format!(r#"{{"type":"tool_result","toolUseId":"1","content":[{}]}}"#, vec!["0"; 1_000].join(","));
    let link = format!(r#"{{"type":"resource_link","uri":"a","icons":[{}]}}"#, vec![r#"{"src":""}"#; 1_000].join(","));
    for block in [output, link] {
        let result = many("content", &block, 10);
        let view = ToolResult::read(&result);
        let values = |block: &Block<'_>| match block {
            Block::ToolOutput(output) => output.content.len(),
            Block::Link(link) => link.icons.len(),
            other => panic!("{other:?}"),
        };
        assert_eq!(view.content.len() + view.content.iter().map(values).sum::<usize>(), MAX_VALUES);
        assert!(view.is_cut_off);
    }
}

#[test]
fn what_a_form_asks_is_read_with_all_kinds_of_fields() {
    let params = raw(&json!({
        "message": "Who?",
        "requestedSchema": {"type": "object", "required": ["name", "age", 3], "properties": {
            "name": {"type": "string", "title": "Name", "description": "Yours", "default": "Ada"},
            "age": {"type": "integer"},
            "size": {"type": "number"},
            "ok": {"type": "boolean", "default": true},
            "old": {"type": "string", "enum": ["a", "b", 1], "enumNames": ["A"]},
            "new": {"type": "string", "oneOf": [{"const": "a", "title": "A"}, {"const": "b"}, {}]},
            "many": {"type": "array", "items": {"anyOf": [{"const": "x", "title": "X"}]}},
            "list": {"type": "array", "items": {"type": "string", "enum": ["y"]}},
            "odd": {"type": "array", "items": {}},
            "none": 1
        }}
    }));
    let asked = Elicitation::read(&params);
    assert_eq!((&*asked.message, asked.is_cut_off, asked.raw.get()), ("Who?", false, params.get()));
    let ElicitationKind::Form(fields) = &asked.kind else { panic!("{asked:?}") };
    let choices = |choices: &[(&'static str, &'static str)]| {
        choices.iter().map(|(value, name)| ((*value).into(), (*name).into())).collect::<Vec<_>>()
    };
    let expected = [
        ("name", true, FieldValues::Text),
        ("age", true, FieldValues::Integer),
        ("size", false, FieldValues::Number),
        ("ok", false, FieldValues::Boolean),
        ("old", false, FieldValues::OneOf(choices(&[("a", "A"), ("b", "b")]))),
        ("new", false, FieldValues::OneOf(choices(&[("a", "A"), ("b", "b")]))),
        ("many", false, FieldValues::AnyOf(choices(&[("x", "X")]))),
        ("list", false, FieldValues::AnyOf(choices(&[("y", "y")]))),
        ("odd", false, FieldValues::Other),
        ("none", false, FieldValues::Other),
    ];
    let read: Vec<_> = fields.iter().map(|field| (&*field.name, field.is_required, field.values.clone())).collect();
    assert_eq!(read, expected);
    let name = &fields[0];
    assert_eq!((name.title.as_deref(), name.description.as_deref()), (Some("Name"), Some("Yours")));
    assert_eq!((name.default.unwrap().get(), name.raw.get().contains("Yours")), ("\"Ada\"", true));
}

#[test]
fn what_is_no_form_and_the_answers_of_a_user() {
    let url = raw(&json!({"mode": "url", "message": "Visit", "url": "https://x/", "elicitationId": "1"}));
    assert!(matches!(Elicitation::read(&url).kind, ElicitationKind::Url(url) if url == "https://x/"));
    for odd in [json!({"mode": "url"}), json!({"mode": "dance"})] {
        assert!(matches!(Elicitation::read(&raw(&odd)).kind, ElicitationKind::Other), "{odd}");
    }
    for empty in [json!({}), json!([]), json!({"mode": 1, "requestedSchema": {"properties": []}})] {
        let params = raw(&empty);
        let asked = Elicitation::read(&params);
        assert!(
            matches!(asked.kind, ElicitationKind::Form(fields) if fields.is_empty() && asked.message.is_empty()),
            "{empty}"
        );
    }
    let answers = [
        (Elicitation::accept(&json!({"a": 1})).unwrap(), json!({"action": "accept", "content": {"a": 1}})),
        (Elicitation::visit(), json!({"action": "accept"})),
        (Elicitation::decline(), json!({"action": "decline"})),
        (Elicitation::cancel(), json!({"action": "cancel"})),
    ];
    for (answer, expected) in answers {
        assert_eq!(serde_json::from_str::<Value>(answer.get()).unwrap(), expected);
    }
}

#[test]
fn what_sampling_asks_is_read_and_answered() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let params = raw(&json!({
        "messages": [
            {"role": "user", "content": text("one")},
            {"role": "assistant", "content": [text("two"), {"type": "tool_use", "id": "1", "name": "t", "input": {}}]},
            {"role": "robot"}
        ],
        "systemPrompt": "Be brief", "maxTokens": 100, "temperature": 0.5, "stopSequences": ["end", 1],
        "modelPreferences": {"hints": [{"name": "small"}, {}]}, "tools": [{"name": "t", "inputSchema": {}}]
    }));
    let asked = Sampling::read(&params);
    let said: Vec<_> = asked.messages.iter().map(|message| (message.role, message.content.len())).collect();
    assert_eq!(said, [(Some(Role::User), 1), (Some(Role::Assistant), 2), (None, 0)]);
    assert!(matches!(&asked.messages[0].content[0], Block::Text(one) if one.text == "one"));
    assert_eq!(
        (asked.system_prompt.as_deref(), asked.max_tokens, asked.temperature),
        (Some("Be brief"), Some(100), Some(0.5))
    );
    assert_eq!(
        (&asked.stop_sequences[..], &asked.hints[..], asked.tools.len()),
        (&["end".into()][..], &["small".into()][..], 1)
    );
    assert!(!asked.is_cut_off && asked.raw.get() == params.get());
    let odd = raw(&json!({"maxTokens": -1, "messages": 3}));
    let asked = Sampling::read(&odd);
    assert_eq!((asked.messages.len(), asked.max_tokens, asked.temperature), (0, None, None));
    let expected = json!({"role": "assistant", "content": text("hi"), "model": "m", "stopReason": "endTurn"});
    assert_eq!(serde_json::from_str::<Value>(Sampling::answer("m", "hi").get()).unwrap(), expected);
}

#[test]
fn what_servers_ask_has_a_bounded_number_of_values() {
    let field = format!(r#"{{"type":"string","enum":[{}]}}"#, vec![r#""a""#; 1000].join(","));
    let fields: Vec<_> = (0..10_000).map(|n| format!(r#""f{n}":{field}"#)).collect();
    let form = format!(r#"{{"message":"","requestedSchema":{{"properties":{{{}}}}}}}"#, fields[..50].join(","));
    let many = r#"{"role":"user","content":[0,1,2,3]}"#;
    let sampling = RawValue::from_string(format!(r#"{{"messages":[{}]}}"#, vec![many; 10_000].join(","))).unwrap();
    let form = RawValue::from_string(form).unwrap();
    let asked = Elicitation::read(&form);
    let ElicitationKind::Form(fields) = asked.kind else { panic!("no form") };
    let choices = |field: &FieldValues<'_>| if let FieldValues::OneOf(choices) = field { choices.len() } else { 0 };
    let values = fields.iter().map(|field| 1 + choices(&field.values)).sum::<usize>();
    assert!(asked.is_cut_off && values <= MAX_VALUES && fields.len() > 4, "{values}");
    let asked = Sampling::read(&sampling);
    assert!(asked.is_cut_off && asked.messages.iter().map(|it| 1 + it.content.len()).sum::<usize>() <= MAX_VALUES);
}
