//! Results with a size limit.

use crate::common::legacy;
use crate::rig::{Rig, configuration, full, with_tools};
use mcp_proto::Outcome;
use mcp_proto::host::Utility;
use mcp_proto::host::config::{Changes, Configuration};
use mcp_proto::host::hub::HubEvent;
use mcp_proto::host::results::{MIN_BYTES, Omission, bound, bound_text, bound_utility};
use mcp_proto::protocol::content::{Block, ToolResult};
use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap()
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// A result with a size limit, and its notice.
fn bounded(result: &Value, max_bytes: usize) -> (Value, Omission) {
    let result = raw(result);
    let bounded = bound(&result, max_bytes);
    assert!(bounded.result.get().len() <= max_bytes.max(MIN_BYTES), "{} bytes", bounded.result.get().len());
    let (mut value, left_out): (Value, _) = (
        serde_json::from_str(bounded.result.get()).unwrap(),
        bounded.left_out.expect("a notice that content is left out"),
    );
    let notice = value["content"].as_array_mut().unwrap().pop().unwrap();
    assert_eq!(notice, text(&left_out.to_string()));
    (value, left_out)
}

#[test]
fn a_result_within_the_limit_is_unchanged() {
    let result = RawValue::from_string(r#"{ "content": [ {"type":"text","text":"\u00e9"} ] }"#.into()).unwrap();
    let bounded = bound(&result, 0);
    assert_eq!((bounded.result.get(), bounded.left_out), (result.get(), None));
    assert_eq!(bound_text("é", 0), "é");
}

#[test]
fn a_text_is_cut_by_its_length_as_json() {
    for character in ["a", "\"", "\n", "\u{1}", "é"] {
        let (value, _) = bounded(&json!({"content": [text(&character.repeat(4_000))]}), 3_000);
        let kept = &value["content"][0];
        assert!((2_300..2_600).contains(&kept.to_string().len()), "{character:?}: {}", kept.to_string().len());
    }
}

#[test]
fn a_text_is_cut_at_the_end_of_a_character() {
    let long = "é\"\n\u{1F600}".repeat(1_000);
    let result = json!({
        "content": [{"type": "text", "text": long, "annotations": {"audience": ["user"]}, "_meta": {"k": 1}}],
        "isError": true,
        "resultType": "complete",
    });
    for max in 2_000..2_020 {
        let (value, left_out) = bounded(&result, max);
        let kept = value["content"][0]["text"].as_str().unwrap();
        assert!(long.starts_with(kept) && kept.len() > 500);
        assert_eq!((left_out.text_bytes, left_out.max_bytes), (long.len() - kept.len(), max));
        assert_eq!(value["content"][0]["annotations"], json!({"audience": ["user"]}));
        assert_eq!((&value["isError"], &value["resultType"]), (&json!(true), &json!("complete")));
        assert_eq!((left_out.blocks, left_out.structured_bytes, left_out.other_bytes), (0, 0, 0));
    }
}

#[test]
fn an_image_is_left_out_and_later_content_stays() {
    let image = json!({"type": "image", "data": "a".repeat(5_000), "mimeType": "image/png"});
    let size = image.to_string().len();
    let small = json!({"type": "image", "data": "aGk=", "mimeType": "image/png"});
    let (value, left_out) = bounded(&json!({"content": [text("before"), image, small, text("after")]}), 2_000);
    assert_eq!(value, json!({"content": [text("before"), small, text("after")]}));
    assert_eq!((left_out.blocks, left_out.block_bytes, left_out.text_bytes), (1, size, 0));
    let notice = format!("[The result is longer than 2000 bytes. Left out: 1 block of content ({size} bytes).]");
    assert_eq!(left_out.to_string(), notice);
}

#[test]
fn structured_content_is_unchanged_or_left_out() {
    let structured = json!({"list": vec![7; 600]});
    let size = structured.to_string().len();
    let result =
        json!({"content": [text(&structured.to_string())], "structuredContent": structured, "_meta": {"k": 1}});
    let (value, left_out) = bounded(&result, 2_200);
    assert_eq!(
        value,
        json!({"content": [text(&structured.to_string())], "_meta": {"k": 1}}),
        "the content is unchanged"
    );
    assert_eq!((left_out.structured_bytes, left_out.text_bytes, left_out.blocks), (size, 0, 0));
    assert!(left_out.to_string().ends_with(&format!("Left out: the structured content ({size} bytes).]")));

    let image = json!({"type": "image", "data": "a".repeat(5_000), "mimeType": "image/png"});
    let result = json!({"content": [image], "structuredContent": structured, "_meta": {"k": "v".repeat(5_000)}});
    let (value, left_out) = bounded(&result, 2_200);
    assert_eq!(value, json!({"content": [], "structuredContent": structured}));
    assert_eq!((left_out.structured_bytes, left_out.other_bytes), (0, 5_008));
}

#[test]
fn an_invalid_result_is_bounded() {
    let long = "x".repeat(5_000);
    for result in [json!(long), json!([long]), json!({"content": long}), json!({"contents": [{"text": long}]})] {
        let (value, left_out) = bounded(&result, 2_000);
        assert_eq!(value["content"], json!([]));
        assert_eq!(left_out.to_string(), "[The result is longer than 2000 bytes.]");
    }
    // A text that is cut, of which half of a surrogate pair is a character, and one without its member.
    let odd =
        format!(r#"{{"content":[{{"type":"text","text":"\ud800{long}"}},{{"type":"text","x":"{long}"}},7,null]}}"#);
    let bounded = bound(&RawValue::from_string(odd).unwrap(), 2_000).left_out.unwrap();
    assert_eq!((bounded.blocks, bounded.text_bytes > 3_000), (3, true));
}

#[test]
fn a_text_for_a_model_is_bounded() {
    let long = "é".repeat(5_000);
    for max in 2_000..2_004 {
        let bounded = bound_text(&long, max);
        let (kept, notice) = bounded.split_once('\n').unwrap();
        assert!(bounded.len() <= max && long.starts_with(kept) && kept.len() > 1_000);
        let missing = long.len() - kept.len();
        assert_eq!(notice, format!("[The result is longer than {max} bytes. Left out: {missing} bytes of text.]"));
    }
}

#[test]
fn a_hub_bounds_the_results_of_a_server_as_its_entry_says() {
    let long = json!({"content": [text(&"x".repeat(5_000))]});
    let mut rig = Rig::of(legacy()).peer("a", with_tools(&["x"])).peer("b", with_tools(&["x"]));
    for name in ["a", "b"] {
        rig.answers(name, "tools/call", long.clone());
    }
    let bound_to = |max: Value| {
        configuration(json!({"a": {"command": "a", "tools": {"max_result_bytes": max}}, "b": {"command": "b"}}))
    };
    rig.configure(bound_to(json!(2_000)));
    rig.open();
    rig.serve();
    let call = |rig: &mut Rig, tool: &str| {
        let call = rig.call(tool);
        rig.serve();
        let ended = rig.events.iter().find_map(|event| match event {
            HubEvent::Finished { call: ended, outcome: Outcome::Result(result), left_out, .. } if *ended == call => {
                Some((result.get().to_owned(), left_out.as_ref().map(|left_out| left_out.max_bytes)))
            }
            _ => None,
        });
        ended.unwrap()
    };
    let (result, left_out) = call(&mut rig, "mcp_a_x");
    assert!(result.len() <= 2_000 && left_out == Some(2_000), "{left_out:?}");
    assert_eq!(call(&mut rig, "mcp_b_x"), (long.to_string(), None), "without a bound, byte for byte");
    let handle = rig.hub.handle("a");
    rig.configure(bound_to(json!("3000")));
    rig.serve();
    assert_eq!(rig.hub.handle("a"), handle, "the session stays");
    assert_eq!(call(&mut rig, "mcp_a_x").1, Some(3_000));
    rig.configure(bound_to(json!(0)));
    assert_eq!(call(&mut rig, "mcp_a_x").1, None, "0 means no limit");
}

#[test]
fn a_hub_bounds_the_results_of_utility_tools_too() {
    let long = "x".repeat(5_000);
    let names: Vec<String> = (0..200).map(|n| format!("item-{n}")).collect();
    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    let server = full(&["x"], &names, &names)
        .result("resources/read", json!({"contents": [{"uri": "r:1", "mimeType": "text/plain", "text": long}, {"uri": "r:2", "blob": long}]}))
        .result("prompts/get", json!({"messages": [{"role": "assistant", "content": text("short")}, {"role": "user", "content": text(&long)}]}));
    let mut rig = Rig::of(legacy()).peer("a", server);
    rig.configure(configuration(json!({"a": {"command": "a", "tools": {"max_result_bytes": 2_000}}})));
    rig.open();
    rig.serve();
    let mut call = |tool: &str, arguments: Value| -> (Value, String) {
        let call = rig.try_call(tool, arguments).unwrap();
        rig.serve();
        let ended = rig.events.iter().find_map(|event| match event {
            HubEvent::Finished { call: ended, outcome: Outcome::Result(result), left_out, .. } if *ended == call => {
                assert!(result.get().len() <= 2_000, "{tool}: {} bytes", result.get().len());
                let notice = left_out.as_ref().unwrap_or_else(|| panic!("{tool}: nothing is left out")).to_string();
                Some((serde_json::from_str(result.get()).unwrap(), notice))
            }
            _ => None,
        });
        ended.unwrap()
    };
    let (read, notice) = call("mcp_a_read_resource", json!({"uri": "r:1"}));
    let contents = read["contents"].as_array().unwrap();
    let kept = contents[0]["text"].as_str().unwrap();
    assert!(long.starts_with(kept) && kept.len() > 1_000 && contents[0]["mimeType"] == "text/plain", "{read}");
    assert_eq!(contents[1..], [json!({"uri": "r:1", "text": notice})], "{read}");
    assert!(
        notice.contains(&format!("Left out: {} bytes of text, 1 block of content", 5_000 - kept.len())),
        "{notice}"
    );

    let (prompt, notice) = call("mcp_a_get_prompt", json!({"name": "item-1"}));
    let messages = prompt["messages"].as_array().unwrap();
    assert_eq!((messages.len(), &messages[0]), (3, &json!({"role": "assistant", "content": text("short")})));
    let kept = messages[1]["content"]["text"].as_str().unwrap();
    assert!(messages[1]["role"] == "user" && long.starts_with(kept) && kept.len() > 1_000, "{prompt}");
    assert_eq!(messages[2], json!({"role": "user", "content": text(&notice)}));

    for (tool, member) in [("mcp_a_list_resources", "resources"), ("mcp_a_list_prompts", "prompts")] {
        let (list, notice) = call(tool, json!({}));
        let kept = list[member].as_array().unwrap();
        assert!(kept.len() > 20 && kept[0]["name"] == "item-0", "whole items, in their order: {list}");
        assert_eq!(list["notice"], notice);
        assert!(notice.contains(&format!("Left out: {} items (", 200 - kept.len())), "{notice}");
    }
}

/// The limit of the entry that its session had.
#[test]
fn a_result_of_a_server_that_was_removed_is_bounded() {
    let long = json!({"content": [text(&"x".repeat(5_000))]});
    let mut rig = Rig::of(legacy()).peer("a", with_tools(&["x"]));
    rig.answers("a", "tools/call", long);
    rig.configure(configuration(json!({"a": {"command": "a", "tools": {"max_result_bytes": 2_000}}})));
    rig.open();
    rig.serve();
    rig.call("mcp_a_x");
    rig.polls_on_request = true;
    rig.serve();
    rig.configure(configuration(json!({})));
    rig.polls_on_request = false;
    rig.collect();
    let left_out = rig.events.iter().find_map(|event| match event {
        HubEvent::Finished { left_out, .. } => left_out.as_ref(),
        _ => None,
    });
    assert_eq!(left_out.unwrap().max_bytes, 2_000);
}

#[test]
fn the_size_limit_is_read_and_its_change_is_reported() {
    let read = |tools: Value| -> Configuration {
        serde_json::from_value(json!({"s": {"command": "x", "tools": tools}})).unwrap()
    };
    let some = read(json!({"max_result_bytes": 2_000}));
    assert_eq!(some.servers["s"].tools.max_result_bytes, Some(2_000));
    let changes = Changes::between(&read(json!({})), &some);
    assert_eq!(changes.changed[0].keys, ["tools.max_result_bytes"]);
    assert!(!changes.changed[0].needs_session());
    assert_eq!(read(json!({"max_result_bytes": 0})).servers["s"].tools, read(json!({})).servers["s"].tools);
    let low = read(json!({"max_result_bytes": 1_023}));
    assert_eq!(
        low.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "server `s`, `tools.max_result_bytes`: it is below the least, 1024, which counts in its place; write 0 for no bound"
        ]
    );
    assert_eq!((low.servers["s"].tools.max_result_bytes, &*low.errors), (Some(1_023), &[][..]));
    for sound in [0, 1_024] {
        assert_eq!(read(json!({"max_result_bytes": sound})).warnings, []);
    }
    let wrong = read(json!({"max_result_bytes": "2k"})).errors[0].to_string();
    assert_eq!(wrong, "server `s`, `tools.max_result_bytes`: `2k` is not a count; write a whole number, 0 or more");
    let again: Configuration = serde_json::from_str(&serde_json::to_string(&some).unwrap()).unwrap();
    assert_eq!(again, some);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_result_of_a_utility_tool_is_within_its_size_limit(
        texts in prop::collection::vec(("[a\"\\\\\n\u{1}é\u{1F600}]{0,400}", 0..4_u8, "[a\"é]{0,150}"), 0..12),
        meta in prop::option::of("[a\n]{0,900}"),
        utility in prop::sample::select(Utility::ALL),
        max in 0..6_000_usize,
    ) {
        let element = |(data, kind, name): &(String, u8, String)| match (utility, kind) {
            (_, 0) => json!({"name": name, "blob": data, "role": "user", "content": {"type": "image", "data": data}}),
            (Utility::GetPrompt, _) => json!({"role": "user", "content": text(data)}),
            (_, 1) => json!({"uri": name, "name": name, "text": data, "mimeType": name}),
            _ => json!({"uri": name, "name": name, "text": data}),
        };
        let elements: Vec<Value> = texts.iter().map(element).collect();
        let members: &[&str] = match utility {
            Utility::ListResources => &["resources", "resourceTemplates"],
            Utility::ReadResource => &["contents"],
            Utility::ListPrompts => &["prompts"],
            _ => &["messages"],
        };
        let mut result: Value = members.iter().map(|member| (*member, json!(elements))).collect();
        if let Some(meta) = meta {
            result["_meta"] = json!({ "v": meta });
        }
        let result = raw(&result);
        let bounded = bound_utility(utility, &result, max);
        let size = bounded.result.get().len();
        prop_assert!(size <= max.max(MIN_BYTES), "{} bytes", size);
        prop_assert_eq!(bounded.left_out.is_none(), result.get().len() <= max.max(MIN_BYTES));
        let kept: Value = serde_json::from_str(bounded.result.get()).unwrap();
        prop_assert!(members.iter().all(|member| kept[member].is_array()), "{}", kept);
        let last = |member: &str| kept[member].as_array().and_then(|array| array.last()).cloned().unwrap_or_default();
        if let Some(left_out) = bounded.left_out {
            let notice = match utility {
                Utility::ReadResource => last("contents")["text"].clone(),
                Utility::GetPrompt => last("messages")["content"]["text"].clone(),
                _ => kept["notice"].clone(),
            };
            prop_assert_eq!(notice, left_out.to_string());
        }
    }

    #[test]
    fn each_result_is_within_its_size_limit(
        blocks in prop::collection::vec(("[a\"\\\\\n\u{1}\u{7f}\u{85}é\u{1F600}]{0,400}", 0..4_u8, any::<bool>()), 0..12),
        structured in prop::option::of("[aé]{0,900}"),
        meta in prop::option::of("[a\n]{0,900}"),
        max in 0..6_000_usize,
    ) {
        let blocks: Vec<Value> = blocks.iter().map(|(data, kind, annotated)| match kind {
            0 => json!({"type": "image", "data": data}),
            1 => json!({"type": "resource", "resource": {"uri": "r:1", "text": data}}),
            _ if *annotated => json!({"type": "text", "text": data, "annotations": {"priority": 1}}),
            _ => text(data),
        }).collect();
        let mut result = json!({"content": blocks, "isError": false});
        for (name, value) in [("structuredContent", structured), ("_meta", meta)] {
            if let Some(value) = value {
                result[name] = json!({ "v": value });
            }
        }
        let result = raw(&result);
        let bounded = bound(&result, max);
        let size = bounded.result.get().len();
        prop_assert!(size <= max.max(MIN_BYTES), "{} bytes", size);
        prop_assert_eq!(bounded.left_out.is_none(), result.get().len() <= max.max(MIN_BYTES));
        let view = ToolResult::read(&bounded.result);
        prop_assert!(serde_json::from_str::<Value>(bounded.result.get()).is_ok());
        if let Some(left_out) = bounded.left_out {
            let Some(Block::Text(notice)) = view.content.last() else { panic!("no notice") };
            prop_assert_eq!(&*notice.text, left_out.to_string());
            let kept = view.content.len() - 1;
            prop_assert_eq!(kept + left_out.blocks, blocks.len());
        }
    }
}

#[test]
fn lone_surrogate_a_bounded_result_is_read_by_any_parser() {
    let text = |length: usize| {
        let half = r#"cut \ud83d"#;
        let result = format!(
            r#"{{"content":[{{"type":"text","text":"{half}"}},{{"type":"text","text":"{}{half}"}}],"structuredContent":{{"a":"{half}"}}}}"#,
            "x".repeat(length)
        );
        RawValue::from_string(result).unwrap()
    };
    for length in [1, 20_000] {
        let result = text(length);
        for bounded in [bound(&result, 4096), bound_utility(Utility::ListPrompts, &result, 4096)] {
            let read: Value = serde_json::from_str(bounded.result.get()).unwrap();
            assert!(bounded.left_out.is_some() == (length > 1) && read.is_object());
        }
        let read: Value = serde_json::from_str(bound(&result, 4096).result.get()).unwrap();
        assert_eq!(read["content"][0]["text"], "cut \u{fffd}");
        // There is no room for it behind a text that was cut.
        let structured = if length == 1 { json!({"a": "cut \u{fffd}"}) } else { json!(null) };
        assert_eq!(read["structuredContent"], structured);
    }
}
