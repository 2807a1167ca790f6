//! Discovery, compared with a reference model: the same server, listed by a loop without tables.

use std::collections::BTreeSet;

use crate::common::{Host, Server, Steps, options};
use mcp_proto::{FailureKind, Family, FamilyStatus, ListErrors, Options, QuirkKind};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use serde_json::{Value, json};

/// How a server declares a capability.
#[derive(Clone, Copy, Debug)]
enum Declared {
    Object,
    Missing,
    Null,
    False,
    True,
    Array,
}

#[derive(Clone, Copy, Debug)]
enum Item {
    /// A valid item with this key.
    Sound(u8),
    /// An item with a member of a wrong type.
    Flawed(u8),
    /// An item without its key.
    Keyless,
    /// Not an object.
    Scalar,
}

#[derive(Clone, Debug)]
enum Answer {
    /// These items, and the cursor of the page with this index, if any.
    Page(Vec<Item>, Option<u8>),
    Error(i64),
}

#[derive(Clone, Debug)]
struct Plan {
    modern: bool,
    /// Tools, prompts, resources; `None` if the server does not declare capabilities.
    declared: Option<[Declared; 3]>,
    /// The responses of each family: the first is for the request without a cursor, the others for theirs.
    families: [Vec<Answer>; 4],
    degrade: bool,
    tools_absent: bool,
    list_undeclared: bool,
    pages: usize,
    items: usize,
}

fn item(family: Family, item: Item) -> Value {
    let key = family.key();
    let sound = |number: u8| json!({key: format!("k{number}"), "inputSchema": {"type": "object"}});
    match item {
        Item::Sound(number) => sound(number),
        Item::Flawed(number) => {
            let mut item = sound(number);
            item["description"] = json!(7);
            item
        }
        Item::Keyless => json!({"description": "no key"}),
        Item::Scalar => json!("no object"),
    }
}

fn server(plan: &Plan) -> Server {
    let capabilities = plan.declared.map(|declared| {
        let mut object = serde_json::Map::new();
        for (name, declared) in ["tools", "prompts", "resources"].into_iter().zip(declared) {
            let value = match declared {
                Declared::Object => json!({}),
                Declared::Missing => continue,
                Declared::Null => Value::Null,
                Declared::False => json!(false),
                Declared::True => json!(true),
                Declared::Array => json!([]),
            };
            object.insert(name.into(), value);
        }
        Value::Object(object)
    });
    let mut opening = json!({"protocolVersion": "2025-11-25", "serverInfo": {"name": "s", "version": "1"}});
    if plan.modern {
        opening = json!({"supportedVersions": ["2026-07-28"], "resultType": "complete"});
    }
    if let Some(capabilities) = capabilities {
        opening["capabilities"] = capabilities;
    }
    let mut server = Server::new().result(if plan.modern { "server/discover" } else { "initialize" }, opening);
    for (family, answers) in Family::ALL.iter().copied().zip(plan.families.clone()) {
        server = server.on(family.list_method(), move |params| {
            let index = params["cursor"].as_str().map_or(0, |cursor| cursor.parse::<usize>().unwrap());
            match answers.get(index) {
                Some(Answer::Page(items, next)) => {
                    let items: Vec<_> = items.iter().map(|each| item(family, *each)).collect();
                    let mut page = json!({family.member(): items});
                    if let Some(next) = next {
                        page["nextCursor"] = json!(next.to_string());
                    }
                    Ok(page)
                }
                Some(Answer::Error(code)) => Err(json!({"code": code, "message": "no"})),
                None => Err(json!({"code": -32602, "message": "unknown cursor"})),
            }
        });
    }
    server
}

#[derive(Debug, PartialEq, Eq)]
struct Found {
    status: FamilyStatus,
    keys: Vec<String>,
    quirks: BTreeSet<QuirkKind>,
}

/// Lists a family as TOLERANCE.md says, in one loop; `None` if the session fails for it.
fn walk(plan: &Plan, family: Family) -> Option<Found> {
    let mut found = Found { status: FamilyStatus::Listed, keys: vec![], quirks: BTreeSet::new() };
    let declared = plan.declared.map(|declared| {
        let index = match family {
            Family::Tools => 0,
            Family::Prompts => 1,
            Family::Resources | Family::ResourceTemplates => 2,
            _ => panic!("{family:?}"),
        };
        matches!(declared[index], Declared::Object | Declared::True | Declared::Array)
    });
    if declared == Some(false) && !plan.list_undeclared {
        found.status = FamilyStatus::NotAdvertised;
        return Some(found);
    }
    let answers = &plan.families[family as usize];
    let (mut at, mut pages, mut seen, mut restarted) = (0_usize, 0, BTreeSet::new(), false);
    let mut steps = Steps::until("the walk comes to an end");
    loop {
        steps.step();
        match answers.get(at).unwrap_or(&Answer::Error(-32602)) {
            Answer::Error(code) => {
                if *code == -32602 && pages > 0 && !restarted {
                    found.quirks.insert(QuirkKind::CursorRejected);
                    found.keys.clear();
                    (at, pages, restarted) = (0, 0, true);
                    seen.clear();
                    continue;
                }
                let absent = *code == -32601 && (family != Family::Tools || plan.tools_absent);
                if declared == Some(false) || absent {
                    if declared == Some(true) {
                        found.quirks.insert(QuirkKind::MethodNotFound);
                    }
                    found.status = FamilyStatus::Absent;
                    found.keys.clear();
                    return Some(found);
                }
                found.status = if found.keys.is_empty() { FamilyStatus::Failed } else { FamilyStatus::Partial };
                return plan.degrade.then_some(found);
            }
            Answer::Page(items, next) => {
                pages += 1;
                if declared == Some(false) {
                    found.quirks.insert(QuirkKind::UndeclaredFamily);
                }
                let repeated = next.is_some_and(|next| !seen.insert(next));
                let (mut fresh, mut over, mut cut) = (0, items.len() > plan.items, false);
                for item in items.iter().take(plan.items) {
                    let number = match item {
                        Item::Sound(number) => number,
                        Item::Flawed(number) => {
                            found.quirks.insert(QuirkKind::InvalidItem);
                            number
                        }
                        Item::Keyless | Item::Scalar => {
                            found.quirks.insert(QuirkKind::InvalidItem);
                            continue;
                        }
                    };
                    let key = format!("k{number}");
                    // Items over the limit are left out.
                    if found.keys.len() == plan.items && !found.keys.contains(&key) {
                        cut = true;
                    }
                    if cut {
                        over = true;
                    } else if found.keys.contains(&key) {
                        if !repeated {
                            found.quirks.insert(QuirkKind::DuplicateItem);
                        }
                    } else {
                        found.keys.push(key);
                        fresh += 1;
                    }
                }
                let Some(next) = next.filter(|_| !over) else {
                    if over {
                        found.status = FamilyStatus::Partial;
                        found.quirks.insert(QuirkKind::ListLimit);
                    }
                    return Some(found);
                };
                if repeated && fresh == 0 {
                    found.quirks.insert(QuirkKind::CursorLoop);
                    return Some(found);
                }
                if pages == plan.pages {
                    found.quirks.insert(QuirkKind::ListLimit);
                    found.status = FamilyStatus::Partial;
                    return Some(found);
                }
                if repeated {
                    found.quirks.insert(QuirkKind::CursorLoop);
                }
                at = next as usize;
            }
        }
    }
}

fn plan() -> impl Strategy<Value = Plan> {
    let declared = prop_oneof![
        6 => Just(Declared::Object),
        1 => Just(Declared::Missing),
        1 => Just(Declared::Null),
        1 => Just(Declared::False),
        1 => Just(Declared::True),
        1 => Just(Declared::Array),
    ];
    let item = prop_oneof![
        8 => (0..6_u8).prop_map(Item::Sound),
        1 => (0..6_u8).prop_map(Item::Flawed),
        1 => Just(Item::Keyless),
        1 => Just(Item::Scalar),
    ];
    let page = (prop::collection::vec(item, 0..5), prop::option::of(0..5_u8));
    let code = prop_oneof![Just(-32601), Just(-32602), Just(-32603), Just(0)];
    let answer = prop_oneof![
        5 => page.prop_map(|(items, next)| Answer::Page(items, next)),
        1 => code.prop_map(Answer::Error),
    ];
    let family = || prop::collection::vec(answer.clone(), 1..5);
    let declared = prop::option::weighted(0.9, [declared.clone(), declared.clone(), declared]);
    let policies = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), 1..5_usize, 1..8_usize);
    (declared, [family(), family(), family(), family()], policies).prop_map(
        |(declared, families, (modern, degrade, tools_absent, list_undeclared, pages, items))| Plan {
            modern,
            declared,
            families,
            degrade,
            tools_absent,
            list_undeclared,
            pages,
            items,
        },
    )
}

fn session_options(plan: &Plan) -> Options {
    let mut options = options();
    options.tolerance.list_errors = if plan.degrade { ListErrors::Degrade } else { ListErrors::Fail };
    options.tolerance.tools_absent = plan.tools_absent;
    options.tolerance.list_undeclared = plan.list_undeclared;
    options.limits.pages = plan.pages;
    options.limits.items = plan.items;
    options
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 3000,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("proptest-regressions/model.txt"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn discovery_matches_the_model(plan in plan()) {
        let host = Host::connect(session_options(&plan), &mut server(&plan));
        let expected: Vec<_> = Family::ALL.iter().map(|family| walk(&plan, *family)).collect();
        if expected.iter().any(Option::is_none) {
            prop_assert_eq!(host.failure_kind(), Some(FailureKind::ListFailed));
            return Ok(());
        }
        prop_assert!(host.is_ready(), "{:?}", host.failure());
        for (family, expected) in Family::ALL.iter().copied().zip(expected.into_iter().flatten()) {
            let of_family = host.session.quirks().iter().filter(|quirk| quirk.family == Some(family));
            let found = Found {
                status: host.status(family),
                keys: host.keys(family).into_iter().map(String::from).collect(),
                quirks: of_family.map(|quirk| quirk.kind).collect(),
            };
            prop_assert_eq!(found, expected, "{:?}", family);
        }
    }
}
