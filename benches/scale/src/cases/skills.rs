//! Skills: their entries, files and frontmatter.

use std::fmt::Write;

use mcp_proto::RawValue;
use mcp_proto::skills::{self, Listing, Skill, SkillLimits};

use super::Case;
use crate::meter::{Cost, measure};

/// What the reader of YAML makes of the longest frontmatter.
const YAML: usize = 16 << 20;

pub fn cases() -> Vec<Case> {
    vec![
        // An entry has its texts and a map of its files.
        Case::new("skills", 250, entries).each(512),
        Case::new("skills-wrong", 500, entries_wrong).each(256),
        Case::new("skill-files", 250, files),
        Case::new("skill-frontmatter-values", 500, frontmatter_values).at_most(YAML),
        Case::new("skill-frontmatter-length", 7_000, frontmatter_length).at_most(YAML),
        Case::new("skill-frontmatter-aliases", 500, frontmatter_aliases).at_most(YAML),
    ]
}

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn raw(text: String) -> Box<RawValue> {
    RawValue::from_string(text).unwrap()
}

fn entry(at: usize) -> String {
    let uri = format!("skill://acme/skill-{at}/SKILL.md");
    format!(
        r#"{{"uri":"{uri}","frontmatter":{{"name":"skill-{at}","description":"what it is for"}},"resources":[{{"uri":"{uri}","digest":"{DIGEST}","size":9}}]}}"#
    )
}

fn listed(n: usize, entry: fn(usize) -> String) -> Cost {
    let all: Vec<_> = (0..n).map(entry).collect();
    let page = raw(format!(r#"{{"skills":[{}]}}"#, all.join(",")));
    measure(page.get().len(), || {
        let mut listing = Listing::new(SkillLimits::default());
        listing.take(&page).unwrap();
        assert_eq!(listing.skills().len() + listing.invalid().len(), n);
        listing
    })
}

fn entries(n: usize) -> Cost {
    listed(n, entry)
}

fn entries_wrong(n: usize) -> Cost {
    listed(n, |at| format!(r#"{{"uri":"skill://acme/skill-{at}/SKILL.md"}}"#))
}

fn files(n: usize) -> Cost {
    let file = |at| format!(r#"{{"uri":"skill://acme/a/file-{at}.md","digest":"{DIGEST}","size":9}}"#);
    let all: Vec<_> = (0..n).map(file).collect();
    let uri = "skill://acme/a/SKILL.md";
    let result = raw(format!(
        r#"{{"skill":{{"uri":"{uri}","frontmatter":{{"name":"a","description":"d"}},"resources":[{},{{"uri":"{uri}","digest":"{DIGEST}","size":9}}]}}}}"#,
        all.join(",")
    ));
    let mut limits = SkillLimits::default();
    limits.files = n + 1;
    measure(result.get().len(), || skills::read(uri, &result, limits).unwrap())
}

/// Compares this frontmatter with that of an entry which has these members too, as JSON.
fn verified(yaml: &str, json: &str) -> Cost {
    let uri = "skill://acme/a/SKILL.md";
    let entry = raw(format!(
        r#"{{"skill":{{"uri":"{uri}","frontmatter":{{"name":"a","description":"d"{json}}},"resources":"dynamic"}}}}"#
    ));
    let skill: Skill = skills::read(uri, &entry, SkillLimits::default()).unwrap();
    let text = format!("---\nname: a\ndescription: d\n{yaml}---\n").replace('\n', "\\n");
    let result = raw(format!(r#"{{"contents":[{{"uri":"{uri}","text":"{text}"}}]}}"#));
    measure(result.get().len() + entry.get().len(), || {
        let found = skill.verify(uri, &result);
        assert!(found.is_ok() != json.is_empty(), "{found:?}");
    })
}

fn frontmatter_values(n: usize) -> Cost {
    let (mut yaml, mut json) = (String::new(), String::new());
    for at in 0..n {
        let _ = writeln!(yaml, "k{at}: 1");
        let _ = write!(json, r#","k{at}":1"#);
    }
    verified(&yaml, &json)
}

fn frontmatter_length(n: usize) -> Cost {
    let text = "text ".repeat(n / 5);
    verified(&format!("a: x{text}x\n"), &format!(r#","a":"x{text}x""#))
}

/// Aliases that stand for more values than are accepted.
fn frontmatter_aliases(n: usize) -> Cost {
    verified(&format!("a: &a [{}]\nb: [{}]\n", "1, ".repeat(n), "*a, ".repeat(n)), "")
}
