//! Results with a size limit.

use crate::common::legacy;
use crate::rig::{Rig, configuration, full, with_tools};
use mcp_proto::Outcome;
use mcp_proto::host::Utility;
use mcp_proto::host::config::{Changes, Configuration};
use mcp_proto::host::hub::{HubEvent, HubOptions};
use mcp_proto::host::results::{Bound, MIN_BYTES, Omission, bound, bound_text, bound_utility, one_form};
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
    let content = value["content"].as_array_mut().unwrap();
    let notice = text(&left_out.to_string());
    content.remove(content.iter().position(|block| *block == notice).expect("the notice"));
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
        let ends = [0, 1].map(|at| value["content"][at].to_string().len());
        assert!(ends.iter().all(|end| (1_150..1_300).contains(end)), "{character:?}: {ends:?}");
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
        let [head, tail] = [0, 1].map(|at| value["content"][at]["text"].as_str().unwrap());
        assert!(long.starts_with(head) && long.ends_with(tail) && head.len().min(tail.len()) > 400, "{value}");
        assert_eq!((left_out.text_bytes, left_out.max_bytes), (long.len() - head.len() - tail.len(), max));
        let annotations = json!({"audience": ["user"]});
        assert!([0, 1].iter().all(|at| value["content"][at]["annotations"] == annotations));
        assert_eq!((&value["isError"], &value["resultType"]), (&json!(true), &json!("complete")));
        assert_eq!((left_out.blocks, left_out.structured_bytes, left_out.other_bytes), (0, 0, 0));
    }
}

#[test]
fn an_image_becomes_a_line_and_later_content_stays() {
    let image = json!({"type": "image", "data": "a".repeat(5_000), "mimeType": "image/png"});
    let size = image.to_string().len();
    let small = json!({"type": "image", "data": "aGk=", "mimeType": "image/png"});
    let (value, left_out) = bounded(&json!({"content": [text("before"), image, small, text("after")]}), 2_000);
    let line = text("[Left out: image/png, 5000 bytes in Base64]");
    assert_eq!(value, json!({"content": [text("before"), line, small, text("after")]}));
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
    let line = text("[Left out: image/png, 5000 bytes in Base64]");
    assert_eq!(value, json!({"content": [line], "structuredContent": structured}));
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
    assert_eq!((bounded.blocks, bounded.text_bytes > 3_000), (1, true), "the last ones stay");
}

#[test]
fn a_text_for_a_model_is_bounded() {
    let long = "é".repeat(5_000);
    for max in 2_000..2_004 {
        let bounded = bound_text(&long, max);
        let [head, notice, tail] = bounded.split('\n').collect::<Vec<_>>()[..] else { panic!("{bounded}") };
        assert!(bounded.len() <= max && long.starts_with(head) && long.ends_with(tail));
        assert!(head.len().min(tail.len()) > 700);
        let missing = long.len() - head.len() - tail.len();
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
    let [head, tail] = [0, 2].map(|at| contents[at]["text"].as_str().unwrap().len());
    assert!(head > 600 && tail > 500 && contents[0]["mimeType"] == "text/plain", "{read}");
    assert_eq!(contents[1], json!({"uri": "r:1", "text": notice}), "{read}");
    let line = "[Left out: data of an unknown type, 5000 bytes in Base64]";
    assert_eq!(contents[3..], [json!({"uri": "r:2", "text": line})], "{read}");
    assert!(
        notice.contains(&format!("Left out: {} bytes of text, 1 block of content", 5_000 - head - tail)),
        "{notice}"
    );

    let (prompt, notice) = call("mcp_a_get_prompt", json!({"name": "item-1"}));
    let messages = prompt["messages"].as_array().unwrap();
    assert_eq!((messages.len(), &messages[0]), (4, &json!({"role": "assistant", "content": text("short")})));
    for at in [1, 3] {
        let kept = messages[at]["content"]["text"].as_str().unwrap();
        assert!(messages[at]["role"] == "user" && long.starts_with(kept) && kept.len() > 500, "{prompt}");
    }
    assert_eq!(messages[2], json!({"role": "user", "content": text(&notice)}));

    for (tool, member) in [("mcp_a_list_resources", "resources"), ("mcp_a_list_prompts", "prompts")] {
        let (list, notice) = call(tool, json!({}));
        let kept = list[member].as_array().unwrap();
        assert!(kept.len() > 20 && kept[0]["name"] == "item-0", "whole items, in their order: {list}");
        assert_eq!(kept.last().unwrap()["name"], "item-199", "the last ones, too: {list}");
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

/// A result of a tool, and what [`one_form`] makes of it where its structured content is valid or not.
fn forms(result: &Value) -> [Value; 2] {
    let result = raw(result);
    [true, false].map(|is_valid| serde_json::from_str(one_form(&result, |_| is_valid).get()).unwrap())
}

/// A number as the guide writes it.
fn grouped(number: usize) -> String {
    if number < 1_000 { number.to_string() } else { format!("{},{:03}", number / 1_000, number % 1_000) }
}

/// The rows of the guide, of what real servers answered (`results_of_servers.json`, byte for byte).
#[test]
fn the_guide_says_how_many_bytes_of_results_of_real_servers_a_model_gets() {
    let all: Vec<(String, String, Box<RawValue>)> =
        serde_json::from_str(include_str!("results_of_servers.json")).unwrap();
    let rows: Vec<_> = all
        .iter()
        .map(|(server, tool, sent)| {
            let one = one_form(sent, |_| true);
            let within = bound(&one, 4_096);
            let left_out = within.left_out.unwrap_or_default();
            let told = match (left_out.blocks, left_out.text_bytes) {
                (0, 0) => String::new(),
                (0, bytes) => format!(": the beginning and the end, without {} bytes", grouped(bytes)),
                (_, _) => ": a line in place of the image".into(),
            };
            let [sent, one, within] = [sent, &*one, &*within.result].map(|it| grouped(it.get().len()));
            format!("| {server}, `{tool}` | {sent} | {one} | {within}{told} |\n")
        })
        .collect();
    let table = format!(
        "| server, tool | sent | one form | within 4,096 bytes |\n| --- | --- | --- | --- |\n{}\n",
        rows.concat()
    );
    assert!(include_str!("../../src/guide/hosts.md").contains(&table), "{table}");
}

#[test]
fn of_two_forms_the_model_gets_the_structured_one_if_it_is_valid_or_the_same() {
    let structured = json!({"celsius": 21, "city": "Bern \u{e9}"});
    let as_text = text(&structured.to_string());
    // Valid, or else the content.
    let summary = json!({"content": [text("It is mild.")], "structuredContent": structured, "_meta": {"k": 1}});
    let [valid, invalid] = forms(&summary);
    assert_eq!(valid, json!({"content": [as_text], "_meta": {"k": 1}}));
    assert_eq!(invalid, json!({"content": [text("It is mild.")], "_meta": {"k": 1}}));
    // The same JSON, however it is written, stays as it is.
    for written in [structured.to_string(), "\n{ \"city\":\"Bern \\u00e9\", \"celsius\": 21}\n".into()] {
        let same = json!({"content": [text(&written)], "structuredContent": structured});
        assert_eq!(forms(&same), [json!({"content": [text(&written)]}), json!({"content": [text(&written)]})]);
    }
    // What is no text stays.
    let image = json!({"type": "image", "data": "aGk=", "mimeType": "image/png"});
    let [valid, invalid] = forms(&json!({"content": [text("a"), image, text("b")], "structuredContent": structured}));
    assert_eq!(valid, json!({"content": [as_text, image]}));
    assert_eq!(invalid, json!({"content": [text("a"), image, text("b")]}));
}

#[test]
fn of_two_forms_there_is_always_one() {
    let structured = json!([1]);
    let as_text = json!({"content": [text("[1]")]});
    for empty in [json!({"structuredContent": structured}), json!({"content": [], "structuredContent": structured})] {
        assert_eq!(forms(&empty), [as_text.clone(), as_text.clone()]);
    }
    // A failed tool says why in its content.
    let failed = json!({"content": [text("no")], "structuredContent": structured, "isError": true});
    assert_eq!(forms(&failed)[0], json!({"content": [text("no")], "isError": true}));
    let null = json!({"content": [text("a")], "structuredContent": null});
    assert_eq!(forms(&null)[0], json!({"content": [text("a")]}));
    // Without structured content nothing changes, byte for byte.
    for whole in [r#"{ "content":[{"type":"text","text":"structuredContent \u0064C"}]}"#, "[]", "7", "{}"] {
        let whole = RawValue::from_string(whole.into()).unwrap();
        assert!(std::ptr::eq(&*one_form(&whole, |_| true), &*whole));
    }
    // A name with escapes, and members that are repeated.
    let odd = r#"{"structured\u0043ontent":{"a":1},"content":[],"content":[{"type":"text","text":"x"}],"structuredContent":[1]}"#;
    let odd = RawValue::from_string(odd.into()).unwrap();
    let read: Value = serde_json::from_str(one_form(&odd, |_| true).get()).unwrap();
    assert!(read["content"][0]["text"] == "[1]" && read.as_object().unwrap().len() == 1, "{read}");
    // Half of a surrogate pair is no JSON for a model.
    let half = r#"{"content":[],"structuredContent":{"a":"\ud83d"}}"#;
    let half = RawValue::from_string(half.into()).unwrap();
    assert!(one_form(&half, |_| true).get().contains("ufffd"));
}

/// A hub does so with the output schema that the server lists.
#[test]
#[cfg(feature = "validate")]
fn a_hub_gives_one_form_of_a_result() {
    let schema = json!({"type": "object", "properties": {"celsius": {"type": "integer"}}, "required": ["celsius"]});
    let tools = json!({"tools": [
        {"name": "has", "inputSchema": {"type": "object"}, "outputSchema": schema},
        {"name": "lacks", "inputSchema": {"type": "object"}},
    ]});
    let result = |structured: Value| json!({"content": [text("mild")], "structuredContent": structured});
    for both_forms in [false, true] {
        let mut options = HubOptions::new(legacy());
        options.both_forms = both_forms;
        let server = with_tools(&[]).result("tools/list", tools.clone());
        let mut rig = Rig::new(options).peer("a", server).up(&["a"]);
        for (tool, structured, kept) in [
            ("mcp_a_has", json!({"celsius": 21}), r#"{"celsius":21}"#),
            ("mcp_a_has", json!({"celsius": "21"}), "mild"),
            ("mcp_a_lacks", json!({"celsius": 21}), "mild"),
        ] {
            let result = result(structured);
            rig.answers("a", "tools/call", result.clone());
            let call = rig.call(tool);
            rig.serve();
            let kept = if both_forms { result } else { json!({"content": [text(kept)]}) };
            assert_eq!(serde_json::from_str::<Value>(&rig.outcome(call)).unwrap(), kept);
        }
    }
}

#[test]
fn the_first_and_the_last_blocks_stay() {
    let blocks: Vec<Value> = (0..200).map(|at| text(&format!("block {at}"))).collect();
    let result = raw(&json!({ "content": blocks }));
    let bounded = bound(&result, 3_000);
    let value: Value = serde_json::from_str(bounded.result.get()).unwrap();
    let texts: Vec<_> =
        value["content"].as_array().unwrap().iter().map(|block| block["text"].as_str().unwrap()).collect();
    let notice = bounded.left_out.unwrap().to_string();
    let gap = texts.iter().position(|text| **text == notice).unwrap();
    assert!(gap > 20 && texts.len() - gap > 20, "{texts:?}");
    assert!(texts[..gap].iter().enumerate().all(|(at, text)| *text == format!("block {at}")));
    let last = &texts[gap + 1..];
    assert!(last.iter().enumerate().all(|(at, text)| *text == format!("block {}", 200 - last.len() + at)));
    assert!(notice.contains(&format!("Left out: {} blocks of content", 201 - texts.len())), "{notice}");
}

/// As servers return files.
#[test]
fn the_text_of_an_embedded_resource_is_cut() {
    let long = "line\n".repeat(2_000);
    let resource = json!({"uri": "file:///a", "mimeType": "text/plain", "text": long});
    let (value, left_out) =
        bounded(&json!({"content": [text("Read it."), {"type": "resource", "resource": resource}]}), 3_000);
    let ends = [1, 2].map(|at| value["content"][at]["resource"]["text"].as_str().unwrap());
    assert!(long.starts_with(ends[0]) && long.ends_with(ends[1]) && ends.iter().all(|end| end.len() > 700), "{value}");
    assert_eq!(left_out.text_bytes, long.len() - ends[0].len() - ends[1].len());
    assert_eq!(value["content"][2]["resource"]["uri"], "file:///a");
}

#[test]
fn blobs_become_lines() {
    let blob = json!({"uri": "file:///a.pdf", "mimeType": "application/pdf", "blob": "a".repeat(4_000)});
    let audio = json!({"type": "audio", "data": "a".repeat(400)});
    let content = json!({"content": [{"type": "resource", "resource": blob}, audio]});
    let (value, left_out) = bounded(&content, 2_000);
    let line = json!({"uri": "file:///a.pdf", "text": "[Left out: application/pdf, 4000 bytes in Base64]"});
    let audio = text("[Left out: data of an unknown type, 400 bytes in Base64]");
    assert_eq!(value, json!({"content": [{"type": "resource", "resource": line}, audio]}));
    assert_eq!(left_out.blocks, 2);
}

#[test]
fn a_result_is_cut_where_a_token_counter_says() {
    let words = |text: &str| text.split_whitespace().count();
    let long: String = (0..5_000).map(|at| format!("w{at} ")).collect();
    let result = raw(&json!({"content": [text("before"), text(&long), text("after")], "isError": true}));
    let bounded = bound(&result, Bound::tokens(300, &words));
    let value: Value = serde_json::from_str(bounded.result.get()).unwrap();
    let texts: Vec<_> =
        value["content"].as_array().unwrap().iter().map(|block| block["text"].as_str().unwrap()).collect();
    let [before, head, notice, tail, after] = texts[..] else { panic!("{texts:?}") };
    assert_eq!((before, after, notice), ("before", "after", &*bounded.left_out.unwrap().to_string()));
    assert!(long.starts_with(head) && long.ends_with(tail) && notice.contains("longer than 300 tokens"));
    let all: usize = texts.iter().map(|text| words(text)).sum();
    assert!((250..=300).contains(&all), "{all}");
    assert_eq!(value["isError"], true);

    let whole = bound(&result, Bound::tokens(10_000, &words));
    assert!(whole.left_out.is_none() && std::ptr::eq(&*whole.result, &*result));
    let messages = raw(&json!({"messages": [{"role": "user", "content": text(&long)}]}));
    assert!(
        bound_utility(Utility::GetPrompt, &messages, Bound::tokens(300, &words)).left_out.unwrap().text_bytes > 10_000
    );
}

/// What it counts is not to be trusted.
#[test]
fn any_token_counter_is_safe() {
    let long = "\u{1F600}é".repeat(2_000);
    let result = raw(&json!({"content": [text(&long), text("x"), {"type": "image", "data": "a".repeat(400)}]}));
    let calls = std::cell::Cell::new(0_usize);
    let counters: [&dyn Fn(&str) -> usize; 5] = [
        &|_| 0,
        &|_| usize::MAX,
        &|text| usize::MAX - text.len(),
        &|text| if text.len() % 2 == 0 { 0 } else { usize::MAX },
        &|text| text.len().wrapping_mul(0x9E37_79B9),
    ];
    for counter in counters {
        let counted = |text: &str| {
            calls.set(calls.get() + 1);
            counter(text)
        };
        for max in [0, 1, 100, 10_000, usize::MAX] {
            let bounded = bound(&result, Bound::tokens(max, &counted));
            assert!(serde_json::from_str::<Value>(bounded.result.get()).is_ok());
            assert!(bounded.result.get().len() <= result.get().len() + 1_000);
            bound_text(&long, Bound::tokens(max, &counted));
        }
    }
    assert!(calls.get() < 5 * 5 * 250, "{}", calls.get());
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
        if let Some(left_out) = bounded.left_out {
            let has = |member: &str, pointer: &str| {
                kept[member].as_array().unwrap().iter().any(|it| it.pointer(pointer) == Some(&json!(left_out.to_string())))
            };
            prop_assert!(match utility {
                Utility::ReadResource => has("contents", "/text"),
                Utility::GetPrompt => has("messages", "/content/text"),
                _ => kept["notice"] == left_out.to_string(),
            }, "{}", kept);
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
            let texts = || view.content.iter().filter_map(|block| match block {
                Block::Text(text) => Some(&*text.text),
                _ => None,
            });
            prop_assert_eq!(texts().filter(|text| *text == left_out.to_string()).count(), 1);
            // One text at most has two ends, and lines are in place of the data that is left out.
            let lines = texts().filter(|text| text.starts_with("[Left out: data")).count();
            let kept = view.content.len() - 1 - lines + left_out.blocks;
            prop_assert!(kept == blocks.len() || kept == blocks.len() + 1, "{} of {}", kept, blocks.len());
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
