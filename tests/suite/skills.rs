//! Skills of servers (SEP-2640): requests, valid entries, and verified content.

use crate::common::{Host, Server, legacy};
use mcp_proto::skills::{self, Listing, Skill, SkillError, SkillLimits};
use mcp_proto::{CommandError, Outcome};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const URI: &str = "skill://acme/pdf/SKILL.md";
const FORMS: &str = "skill://acme/pdf/references/FORMS.md";
const MARKDOWN: &str =
    "---\nname: pdf\ndescription: \"Fills forms\"\nmetadata: {level: 2, tags: [a, b]}\n---\n\nBody.\n";
const SUPPORT: &str = "Supporting text.\n";

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap()
}

fn digest(text: &str) -> String {
    let hex: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

fn file(uri: &str, content: &str) -> Value {
    json!({"uri": uri, "digest": digest(content), "size": content.len()})
}

fn entry() -> Value {
    json!({
        "uri": URI,
        "frontmatter": {"name": "pdf", "description": "Fills forms", "metadata": {"level": 2.0, "tags": ["a", "b"]}},
        "resources": [file(URI, MARKDOWN), file(FORMS, SUPPORT)],
    })
}

fn read(entry: &Value) -> Result<Skill, SkillError> {
    skills::read(URI, &raw(&json!({"skill": entry})), SkillLimits::default())
}

fn skill() -> Skill {
    read(&entry()).unwrap()
}

fn contents(uri: &str, text: &str) -> Box<RawValue> {
    raw(&json!({"contents": [{"uri": uri, "mimeType": "text/markdown", "text": text}]}))
}

fn why(entry: &Value) -> String {
    match read(entry) {
        Err(SkillError::Entry { why, .. }) => why.into(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_list_is_requested_page_by_page_and_no_file_before_it_is_needed() {
    let capabilities = json!({"resources": {}, "extensions": {"io.modelcontextprotocol/skills": {}}});
    let mut host = Host::connect(legacy(), &mut Server::legacy(capabilities));
    host.take_sent();
    let mut listing = Listing::new(SkillLimits::default());
    let mut cursors = Vec::new();
    while let Some(request) = listing.request() {
        let id = host.session.request(host.now, request).unwrap();
        host.collect();
        let sent = host.take_one();
        assert_eq!(sent["method"], "skills/list");
        cursors.push(sent["params"]["cursor"].clone());
        let page = match cursors.len() {
            1 => json!({"skills": [entry(), {"uri": 1}], "nextCursor": "2", "cacheScope": "public"}),
            // The cursor was used before.
            _ => json!({"skills": [entry()], "nextCursor": "2", "cacheScope": "private"}),
        };
        host.receive(json!({"jsonrpc": "2.0", "id": sent["id"], "result": page}));
        let Outcome::Result(result) = host.result_of(id) else { panic!() };
        listing.take(result).unwrap();
    }
    assert_eq!(cursors, [Value::Null, json!("2")]);
    assert_eq!(listing.skills().iter().map(|skill| skill.name()).collect::<Vec<_>>(), ["pdf", "pdf"]);
    assert_eq!(listing.invalid().len(), 1);
    assert!(!listing.is_public() && !listing.is_cut_off());
    assert!(host.take_sent().is_empty());
}

#[test]
fn a_result_without_a_list_changes_nothing_and_an_endless_list_is_cut_off() {
    let mut listing = Listing::new(SkillLimits::default());
    assert_eq!(listing.take(&raw(&json!({"skills": {}}))), Err(SkillError::List));
    assert!(listing.request().is_some());
    let mut pages = 0;
    while listing.request().is_some() {
        pages += 1;
        listing.take(&raw(&json!({"skills": [], "nextCursor": pages.to_string()}))).unwrap();
    }
    assert_eq!(pages, 10_001);
    assert!(listing.is_cut_off());
    let mut listing = Listing::new(SkillLimits::default());
    listing.take(&raw(&json!({"skills": vec![json!(1); 20_000]}))).unwrap();
    assert!(listing.is_cut_off() && listing.request().is_none());
    assert_eq!(listing.invalid().len(), 10_000);
}

#[test]
fn the_entries_and_bytes_of_a_list_are_bounded_over_all_its_pages() {
    let mut listing = Listing::new(SkillLimits::default());
    listing.take(&raw(&json!({"skills": vec![json!(1); 9_999], "nextCursor": "2"}))).unwrap();
    assert!(!listing.is_cut_off());
    listing.take(&raw(&json!({"skills": [1, entry()], "nextCursor": "3"}))).unwrap();
    assert!(listing.is_cut_off() && listing.request().is_none() && listing.into_skills().is_empty());
    // Four pages are exactly as long as all may be.
    let page = |text: &str, cursor: usize| raw(&json!({"skills": [text], "nextCursor": cursor.to_string()}));
    let long = "x".repeat((16 << 20) - page("", 0).get().len());
    let mut listing = Listing::new(SkillLimits::default());
    while listing.request().is_some() {
        listing.take(&page(&long, listing.invalid().len())).unwrap();
    }
    assert!(listing.is_cut_off());
    assert_eq!(listing.invalid().len(), 5);
}

#[test]
fn the_skills_of_a_list_are_its_valid_entries() {
    let mut listing = Listing::new(SkillLimits::default());
    listing.take(&raw(&json!({"skills": [entry(), {"uri": 1}]}))).unwrap();
    assert_eq!(listing.into_skills().iter().map(|skill| skill.name()).collect::<Vec<_>>(), ["pdf"]);
}

#[test]
fn a_list_is_for_other_users_if_each_of_its_pages_is() {
    for (scopes, is_public) in
        [(["public", "public"], true), (["public", "private"], false), (["private", "public"], false)]
    {
        let mut listing = Listing::new(SkillLimits::default());
        for scope in scopes {
            listing.take(&raw(&json!({"skills": [], "nextCursor": scope, "cacheScope": scope}))).unwrap();
        }
        assert_eq!(listing.is_public(), is_public, "{scopes:?}");
    }
}

#[test]
fn one_entry_is_requested_by_its_uri_and_must_be_of_that_skill() {
    let capabilities =
        json!({"resources": {}, "extensions": {"io.modelcontextprotocol/skills": {"directoryRead": true}}});
    let mut host = Host::connect(legacy(), &mut Server::legacy(capabilities));
    host.take_sent();
    for (request, method, params) in [
        (skills::get(URI), "skills/get", json!({"uri": URI})),
        (skills::read_directory("d", None), "resources/directory/read", json!({"uri": "d"})),
        (skills::read_directory("d", Some("c")), "resources/directory/read", json!({"uri": "d", "cursor": "c"})),
    ] {
        host.session.request(host.now, request).unwrap();
        host.collect();
        let sent = host.take_one();
        assert_eq!((&sent["method"], &sent["params"]), (&json!(method), &params));
    }
    let skill = skill();
    assert_eq!((&*skill.name(), &*skill.description(), skill.root()), ("pdf", "Fills forms", "skill://acme/pdf"));
    assert_eq!(skill.size(), Some((MARKDOWN.len() + SUPPORT.len()) as u64));
    let other = skills::read("skill://other/SKILL.md", &raw(&json!({"skill": entry()})), SkillLimits::default());
    assert!(matches!(other, Err(SkillError::Entry { why, .. }) if why.contains("another skill")));
    assert!(matches!(skills::read(URI, &raw(&json!({})), SkillLimits::default()), Err(SkillError::Entry { .. })));
}

#[test]
fn a_server_that_does_not_declare_skills_gets_no_request_for_them() {
    let mut host = Host::connect(legacy(), &mut Server::legacy(json!({"resources": {}})));
    let error = host.session.request(host.now, skills::get(URI)).unwrap_err();
    assert!(
        matches!(&error, CommandError::NotAdvertised { capability, .. } if capability == "io.modelcontextprotocol/skills")
    );
}

#[test]
fn an_entry_that_breaks_a_rule_is_refused_with_the_rule() {
    type Change = fn(&mut Value);
    let cases: [(Change, &str); 15] = [
        (|it| it["uri"] = json!("skill://acme/pdf/README.md"), "does not end with"),
        (|it| it["frontmatter"] = json!([]), "no `frontmatter`"),
        (|it| it["frontmatter"] = json!({"name": "pdf"}), "no `name` and `description`"),
        (|it| it["frontmatter"]["name"] = json!("PDF"), "lower-case"),
        (|it| it["frontmatter"]["name"] = json!("p--f"), "lower-case"),
        (|it| it["frontmatter"]["name"] = json!("forms"), "not that of its folder"),
        (|it| it["resources"] = json!("static"), "neither a list"),
        (|it| drop(it.as_object_mut().unwrap().remove("resources")), "neither a list"),
        (|it| it["resources"][1] = json!({}), "no `uri`"),
        (|it| it["resources"][1]["uri"] = json!("skill://acme/other.md"), "not in its folder"),
        (|it| it["resources"][1]["uri"] = json!("skill://acme/pdf/../x"), "not in its folder"),
        (|it| it["resources"][1]["digest"] = json!("sha256:AB"), "no digest"),
        (|it| it["resources"][1]["size"] = json!("17"), "no size"),
        (|it| it["resources"][1] = it["resources"][0].clone(), "listed twice"),
        (|it| it["resources"] = json!([file(FORMS, SUPPORT)]), "`SKILL.md` is not listed"),
    ];
    for (change, words) in cases {
        let mut entry = entry();
        change(&mut entry);
        let why = why(&entry);
        assert!(why.contains(words), "{why} does not say {words}");
    }
}

#[test]
fn a_skill_above_a_limit_is_refused_with_the_numbers() {
    let with = |files: usize, size: u64| {
        let mut entry = entry();
        let file = |at| json!({"uri": format!("skill://acme/pdf/{at}"), "digest": digest(""), "size": size});
        entry["resources"].as_array_mut().unwrap().extend((2..files).map(file));
        read(&entry).map(|skill| skill.files.unwrap().len())
    };
    assert_eq!(with(512, 0), Ok(512));
    assert_eq!(with(513, 0), Err(SkillError::TooManyFiles { uri: URI.into(), files: 513, limit: 512 }));
    let rest = (16 << 20) - (MARKDOWN.len() + SUPPORT.len()) as u64;
    assert_eq!(with(3, rest), Ok(3));
    assert!(matches!(with(3, rest + 1), Err(SkillError::TooLarge { bytes: 16_777_217, limit: 16_777_216, .. })));
    assert!(matches!(with(4, u64::MAX), Err(SkillError::TooLarge { bytes: u64::MAX, .. })));
}

/// "When a host retrieves a file listed in a skill's `resources`, it MUST verify the content against that entry's `digest`
/// and `size`."
#[test]
fn content_is_returned_only_if_it_has_the_size_and_digest_of_its_entry() {
    let skill = skill();
    let result = contents(FORMS, SUPPORT);
    let content = skill.verify(FORMS, &result).unwrap();
    assert_eq!((&*content.bytes, content.mime_type.as_deref()), (SUPPORT.as_bytes(), Some("text/markdown")));
    let blob =
        raw(&json!({"contents": [{"uri": "x", "text": ""}, {"uri": FORMS, "blob": "U3VwcG9ydGluZyB0ZXh0Lgo="}]}));
    assert_eq!(&*skill.verify(FORMS, &blob).unwrap().bytes, SUPPORT.as_bytes());

    let other = SUPPORT.replace("text", "evil");
    assert_eq!(skill.verify(FORMS, &contents(FORMS, &other)).unwrap_err(), SkillError::Digest { file: FORMS.into() });
    let longer = format!("{SUPPORT}!");
    let error = skill.verify(FORMS, &contents(FORMS, &longer)).unwrap_err();
    assert_eq!(error, SkillError::Size { file: FORMS.into(), bytes: 18, expected: 17 });
    for result in [
        json!({}),
        json!({"contents": [{"uri": URI, "text": SUPPORT}]}),
        json!({"contents": [{"uri": FORMS}]}),
        json!({"contents": [{"uri": FORMS, "blob": "%%"}]}),
    ] {
        assert_eq!(skill.verify(FORMS, &raw(&result)).unwrap_err(), SkillError::NoContent { file: FORMS.into() });
    }
    // "A host MUST treat a read of an unlisted file within the skill as a verification failure."
    let new = "skill://acme/pdf/new.md";
    let error = skill.verify(new, &contents(new, "")).unwrap_err();
    assert_eq!(error, SkillError::Unlisted { uri: URI.into(), file: new.into() });
}

/// "Hosts MUST parse its YAML frontmatter and compare it field-by-field against the entry's `frontmatter`."
#[test]
fn a_skill_whose_frontmatter_differs_from_its_entry_is_not_loaded() {
    assert_eq!(&*skill().verify(URI, &contents(URI, MARKDOWN)).unwrap().bytes, MARKDOWN.as_bytes());
    let windows = MARKDOWN.replace('\n', "\r\n");
    let padded = |by: usize| MARKDOWN.replace("name", &format!("# {}\nname", "x".repeat(by)));
    let shortest = padded(0).find("---\n\nBody").unwrap() - "---\n".len();
    let longest = (64 << 10) - shortest;
    for (markdown, words) in [
        (MARKDOWN.replace("Fills forms", "Sends secrets"), Some("`description` differs")),
        (MARKDOWN.replace("level: 2", "level: 3"), Some("`metadata` differs")),
        (MARKDOWN.replace("[a, b]", "[a]"), Some("`metadata` differs")),
        (MARKDOWN.replace("metadata", "allowed-tools: Bash\nmetadata"), Some("`allowed-tools` differs")),
        (MARKDOWN.replace("metadata: {level: 2, tags: [a, b]}\n", ""), Some("`metadata` differs")),
        (MARKDOWN.replace("---\n\nBody", "Body"), Some("does not begin with frontmatter")),
        (MARKDOWN.replace("---\nname", "name"), Some("does not begin with frontmatter")),
        (MARKDOWN.replace("{level", "{{{level"), Some("not YAML")),
        ("---\nname\n---\n\nBody".into(), Some("`the frontmatter` differs")),
        (padded(longest), None),
        (padded(longest + 1), Some("longer than 64 KiB")),
        (MARKDOWN.replace("[a, b]", &"[".repeat(30_000)), Some("not YAML")),
        (windows, None),
        (format!("\u{feff}{MARKDOWN}"), None),
    ] {
        let mut entry = entry();
        entry["resources"][0] = file(URI, &markdown);
        match (read(&entry).unwrap().verify(URI, &contents(URI, &markdown)), words) {
            (Ok(_), None) => {}
            (Err(SkillError::Frontmatter { why, .. }), Some(words)) => {
                assert!(why.contains(words), "{why}: not {words}")
            }
            (other, _) => panic!("{words:?}: {other:?}"),
        }
    }
}

#[test]
fn aliases_in_a_frontmatter_do_not_multiply_the_content() {
    let bomb: String =
        (1..12).map(|at| format!("a{at}: &a{at} [{}]\n", vec![format!("*a{}", at - 1); 9].join(", "))).collect();
    let markdown = MARKDOWN.replace("metadata", &format!("a0: &a0 [x]\n{bomb}metadata"));
    let mut entry = entry();
    entry["resources"][0] = file(URI, &markdown);
    let error = read(&entry).unwrap().verify(URI, &contents(URI, &markdown)).unwrap_err();
    assert!(matches!(error, SkillError::Frontmatter { why, .. } if why.contains("not YAML of a bounded size")));
}

#[test]
fn a_frontmatter_has_at_most_as_many_values_as_bytes_with_each_alias() {
    let why = |values: usize, aliases: usize, padding: usize| {
        let yaml = format!(
            "x: &x [{}]\ny: [{}]\n# {}\nmetadata",
            "a, ".repeat(values),
            "*x, ".repeat(aliases),
            "-".repeat(padding)
        );
        let markdown = MARKDOWN.replace("metadata", &yaml);
        let mut entry = entry();
        entry["resources"][0] = file(URI, &markdown);
        match read(&entry).unwrap().verify(URI, &contents(URI, &markdown)) {
            Err(SkillError::Frontmatter { why, .. }) => String::from(why),
            other => panic!("{other:?}"),
        }
    };
    assert!(why(20, 5, 0).contains("`x` differs"), "{}", why(20, 5, 0));
    assert!(why(40, 40, 0).contains("aliases stand for too many values or texts"), "{}", why(40, 40, 0));
    assert!(why(40, 40, 2_000).contains("`x` differs"), "{}", why(40, 40, 2_000));
}

#[test]
fn a_generated_skill_is_checked_by_its_frontmatter_folder_and_size() {
    let mut entry = entry();
    entry["resources"] = json!("dynamic");
    let skill = read(&entry).unwrap();
    assert!(skill.files.is_none() && skill.size().is_none());
    skill.verify(URI, &contents(URI, MARKDOWN)).unwrap();
    skill.verify(FORMS, &contents(FORMS, "anything")).unwrap();
    let other = MARKDOWN.replace("Fills", "Sends");
    assert!(matches!(skill.verify(URI, &contents(URI, &other)), Err(SkillError::Frontmatter { .. })));
    let outside = "skill://acme/pdfs/x";
    assert!(matches!(skill.verify(outside, &contents(outside, "")), Err(SkillError::Unlisted { .. })));
    let large = "x".repeat((16 << 20) + 1);
    assert!(matches!(skill.verify(FORMS, &contents(FORMS, &large)), Err(SkillError::TooLarge { .. })));
    skill.verify(FORMS, &contents(FORMS, &large[1..])).unwrap();
}

#[test]
fn a_file_outside_of_the_folder_is_refused_however_its_path_is_written() {
    let mut dynamic = entry();
    dynamic["resources"] = json!("dynamic");
    let skill = read(&dynamic).unwrap();
    for path in [
        "../x",
        "../../x",
        "a/../../x",
        "./x",
        "a//b",
        "",
        "%2e%2e/%2E%2E/x",
        "..%2fx",
        "a%2F..%2F..%2Fx",
        ".%2e/x",
        "a\\..\\..\\x",
        "..%5cx",
        "a?b",
        "a#b",
    ] {
        let uri = format!("skill://acme/pdf/{path}");
        let mut listed = entry();
        listed["resources"][1] = file(&uri, SUPPORT);
        assert!(why(&listed).contains("not in its folder"), "{path}");
        let error = skill.verify(&uri, &contents(&uri, SUPPORT)).unwrap_err();
        assert!(matches!(error, SkillError::Unlisted { .. }), "{path}: {error}");
    }
    for path in ["a%20b.md", "100%.txt", "%é", "...", "a/.hidden", "é.md"] {
        let uri = format!("skill://acme/pdf/{path}");
        let mut listed = entry();
        listed["resources"][1] = file(&uri, SUPPORT);
        read(&listed).unwrap().verify(&uri, &contents(&uri, SUPPORT)).unwrap();
        skill.verify(&uri, &contents(&uri, SUPPORT)).unwrap();
    }
}

#[test]
fn the_texts_of_a_frontmatter_are_bounded_with_each_alias() {
    let verified = |aliases: usize| {
        let list = "*x, ".repeat(aliases);
        let aliases = format!("x: &x \"{}\"\ny: [{list}]\nmetadata", "y".repeat(20_000));
        let markdown = MARKDOWN.replace("metadata", &aliases);
        let mut entry = entry();
        entry["resources"][0] = file(URI, &markdown);
        match read(&entry).unwrap().verify(URI, &contents(URI, &markdown)) {
            Err(SkillError::Frontmatter { why, .. }) => String::from(why),
            other => panic!("{other:?}"),
        }
    };
    assert!(verified(10).contains("`x` differs"), "{}", verified(10));
    assert!(verified(90).contains("not YAML"), "{}", verified(90));
}

#[test]
fn a_name_has_1_to_64_lower_case_letters_digits_and_hyphens() {
    let named = |name: &str| {
        let mut entry = entry();
        entry["uri"] = json!(format!("skill://acme/{name}/SKILL.md"));
        entry["frontmatter"]["name"] = json!(name);
        entry["resources"] = json!("dynamic");
        let result =
            skills::read(entry["uri"].as_str().unwrap(), &raw(&json!({"skill": entry})), SkillLimits::default());
        result.err().map(|error| error.to_string())
    };
    let long = "a".repeat(64);
    for name in ["p", "pdf-2", "2", &long] {
        assert_eq!(named(name), named("pdf"), "{name}");
    }
    for name in [&format!("{long}a"), "p_f", "-pdf", "pdf-"] {
        assert!(named(name).unwrap().contains("lower-case"), "{name}");
    }
}

/// Writers of YAML and JSON write one number in different ways.
#[test]
fn numbers_in_a_frontmatter_are_compared_by_their_value() {
    for (number, is_same) in [("2", true), ("2.0", true), ("[1, 2.0]", true), ("2.5", false), ("[1, 2.5]", false)] {
        let markdown = MARKDOWN.replace("level: 2", &format!("level: {number}"));
        let mut entry = entry();
        entry["frontmatter"]["metadata"]["level"] = if number.starts_with('[') { json!([1, 2]) } else { json!(2) };
        entry["resources"][0] = file(URI, &markdown);
        let verified = read(&entry).unwrap().verify(URI, &contents(URI, &markdown)).is_ok();
        assert_eq!(verified, is_same, "{number}");
    }
}
