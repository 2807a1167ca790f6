//! The names under which tools are exposed to a model.

use std::collections::{BTreeMap, BTreeSet};

use crate::collisions::{hash, pairs};
use mcp_proto::host::Utility;
use mcp_proto::host::names::{MAX_LEN, Names, Renamed, Style, Target};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

fn targets(tools: &[&str]) -> Vec<Target> {
    tools.iter().map(|tool| Target::tool(tool)).collect()
}

/// The names of one server's tools, all assigned in one update.
fn named(style: Style, server: &str, tools: &[&str]) -> Vec<String> {
    let mut names = Names::new(style);
    names.update([(server, targets(tools))]);
    tools.iter().map(|tool| name(&names, server, tool)).collect()
}

fn name(names: &Names, server: &str, tool: &str) -> String {
    names.name(server, &Target::tool(tool)).unwrap().into()
}

/// The suffix, as documented.
fn suffix(server: &str, separator: u8, tool: &str, rest: &[u8]) -> String {
    let bytes = [server.as_bytes(), &[separator], tool.as_bytes(), rest].concat();
    format!("_{:08x}", hash(&bytes) as u32)
}

/// Tools of the server `colludes` whose names begin alike, and whose digits are equal in every attempt.
pub(crate) fn colliding(doublings: usize) -> Vec<String> {
    let kept = "t".repeat(63);
    let before = ["colludes".as_bytes(), &[0xFF], kept.as_bytes()].concat();
    let length = before.len() + 16 * doublings;
    // Without a number, with one of one digit, of two, …
    let lengths = [0, 2, 3, 4, 5].map(|more| length + more);
    let mut tools = vec![kept];
    for pair in pairs(&before, &lengths, doublings) {
        tools = tools.iter().flat_map(|tool| pair.each_ref().map(|text| tool.clone() + text)).collect();
    }
    tools
}

fn suffixed(plain: &str, server: &str, tool: &str) -> String {
    format!("{}{}", &plain[..plain.len().min(55)], suffix(server, 0xFF, tool, b""))
}

#[test]
fn the_names_of_the_reference() {
    assert_eq!(named(Style::default(), "github", &["create_issue"]), ["mcp_github_create_issue"]);
    assert_eq!(named(Style::default(), "filesystem", &["read_file"]), ["mcp_filesystem_read_file"]);
    assert_eq!(named(Style::default(), "my-api", &["query_data"]), ["mcp_my_api_query_data"]);
    assert_eq!(named(Style::default(), "my-api", &["list-items.v2"]), ["mcp_my_api_list_items_v2"]);
}

#[test]
fn utility_tools_follow_the_same_pattern() {
    let mut names = Names::default();
    names.update([("my-api", Utility::ALL.iter().copied().map(Target::from))]);
    let exposed: Vec<_> =
        Utility::ALL.iter().map(|utility| names.name("my-api", &(*utility).into()).unwrap()).collect();
    assert_eq!(
        exposed,
        ["mcp_my_api_list_resources", "mcp_my_api_read_resource", "mcp_my_api_list_prompts", "mcp_my_api_get_prompt"]
    );
    assert_eq!(names.resolve("mcp_my_api_get_prompt").unwrap().target, &Target::Utility(Utility::GetPrompt));
}

#[test]
fn the_three_styles_and_their_hyphens() {
    for (style, expected) in [
        (Style::MCP, "mcp_my_api_get_it_v2"),
        (Style::MCP_DOUBLE, "mcp__my_api__get_it_v2"),
        (Style::SERVER, "my_api_get_it_v2"),
        (Style::MCP.with_hyphens(), "mcp_my-api_get-it_v2"),
        (Style::MCP_DOUBLE.with_hyphens(), "mcp__my-api__get-it_v2"),
        (Style::SERVER.with_hyphens(), "my-api_get-it_v2"),
    ] {
        assert_eq!(named(style, "my-api", &["get-it.v2"]), [expected]);
        assert_eq!(style.plain("my-api", "get-it.v2"), expected);
    }
}

#[test]
fn characters_are_replaced_one_by_one() {
    assert_eq!(named(Style::MCP, "é", &["größe 漢字/a:b"]), ["mcp___gr__e____a_b"]);
    assert_eq!(named(Style::MCP, "", &[""]), ["mcp__"]);
    assert_eq!(named(Style::SERVER, "", &[""]), ["_"]);
    assert_eq!(named(Style::MCP, "S", &["Aa0"]), ["mcp_S_Aa0"], "case stays");
}

#[test]
fn a_name_of_64_characters_stays() {
    let tool = "a".repeat(64 - "mcp_server_".len());
    assert_eq!(named(Style::MCP, "server", &[&tool]), [format!("mcp_server_{tool}")]);
}

#[test]
fn a_name_of_65_characters_is_55_and_8_digits() {
    let tool = "a".repeat(65 - "mcp_server_".len());
    let [found] = &*named(Style::MCP, "server", &[&tool]) else { panic!("one name") };
    assert_eq!(*found, suffixed(&format!("mcp_server_{tool}"), "server", &tool));
    assert_eq!(found.len(), 64);
    let (start, digits) = found.split_at(56);
    assert_eq!(start, format!("mcp_server_{}_", "a".repeat(44)));
    assert!(digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')), "{digits}");
}

#[test]
fn the_digits_are_fixed() {
    let tool = "navigate-to-the-page-and-wait-until-all-of-it-is-there";
    assert_eq!(
        named(Style::MCP, "chrome-devtools", &[tool, "x"]),
        ["mcp_chrome_devtools_navigate_to_the_page_and_wait_until_e100aa55", "mcp_chrome_devtools_x"]
    );
}

#[test]
fn the_length_counts_characters_after_replacement() {
    let tool = "é".repeat(64 - "mcp_s_".len());
    assert_eq!(named(Style::MCP, "s", &[&tool]), [format!("mcp_s_{}", "_".repeat(58))], "bytes do not count");
}

#[test]
fn two_tools_with_the_same_first_55_characters_get_different_names() {
    let server = "chrome-devtools-aaaaaaaaaaaaaaaaaaa";
    let (a, b) = (format!("{}_first", "t".repeat(40)), format!("{}_second", "t".repeat(40)));
    let found = named(Style::MCP, server, &[&a, &b]);
    assert_eq!(found[0][..56], found[1][..56]);
    assert_ne!(found[0], found[1]);
    assert!(found.iter().all(|name| name.len() == 64));
}

#[test]
fn of_colliding_names_the_unchanged_one_stays_plain() {
    let expected: [String; 3] =
        ["mcp_s_a_b".into(), suffixed("mcp_s_a_b", "s", "a-b"), suffixed("mcp_s_a_b", "s", "a.b")];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let tools = ["a_b", "a-b", "a.b"];
        let mut names = Names::default();
        names.update([("s", order.map(|index| Target::tool(tools[index])))]);
        assert_eq!(tools.map(|tool| name(&names, "s", tool)), expected);
    }
}

#[test]
fn of_colliding_changed_names_none_stays_plain() {
    let expected = [suffixed("mcp_s_a_b", "s", "a-b"), suffixed("mcp_s_a_b", "s", "a.b")];
    assert_eq!(named(Style::MCP, "s", &["a-b", "a.b"]), expected);
}

#[test]
fn names_of_servers_collide_like_names_of_tools() {
    let mut names = Names::default();
    names.update([("a", targets(&["b_c", "x"])), ("a_b", targets(&["c"]))]);
    assert_eq!(name(&names, "a", "b_c"), suffixed("mcp_a_b_c", "a", "b_c"), "neither needed a change");
    assert_eq!(name(&names, "a_b", "c"), suffixed("mcp_a_b_c", "a_b", "c"));
    let mut names = Names::default();
    names.update([("my-api", targets(&["x"])), ("my_api", targets(&["x"]))]);
    assert_eq!(name(&names, "my_api", "x"), "mcp_my_api_x");
    assert_eq!(name(&names, "my-api", "x"), suffixed("mcp_my_api_x", "my-api", "x"));
}

#[test]
fn a_tool_of_the_server_precedes_a_utility_tool_of_that_name() {
    let mut names = Names::default();
    names.update([("s", [Target::from(Utility::GetPrompt), Target::tool("get_prompt")])]);
    assert_eq!(name(&names, "s", "get_prompt"), "mcp_s_get_prompt");
    let expected = format!("mcp_s_get_prompt{}", suffix("s", 0xFE, "get_prompt", b""));
    assert_eq!(names.name("s", &Utility::GetPrompt.into()).as_deref(), Some(&*expected));
}

#[test]
fn an_assigned_name_stays_as_long_as_its_tool() {
    let mut names = Names::default();
    names.update([("s", targets(&["a-b"]))]);
    assert_eq!(name(&names, "s", "a-b"), "mcp_s_a_b");
    names.update([("s", targets(&["a_b", "a-b"]))]);
    assert_eq!(name(&names, "s", "a-b"), "mcp_s_a_b");
    assert_eq!(name(&names, "s", "a_b"), suffixed("mcp_s_a_b", "s", "a_b"));
    names.update([("s", targets(&["a_b"]))]);
    assert_eq!(name(&names, "s", "a_b"), suffixed("mcp_s_a_b", "s", "a_b"), "it stays even without a collision");
    assert_eq!(names.resolve("mcp_s_a_b"), None);
    names.update([("s", targets(&[]))]);
    names.update([("s", targets(&["a_b"]))]);
    assert_eq!(name(&names, "s", "a_b"), "mcp_s_a_b", "its tool was removed");
}

#[test]
fn an_update_does_not_change_other_servers() {
    let mut names = Names::default();
    names.update([("a", targets(&["x"])), ("b", targets(&["x", "y"]))]);
    names.update([("a", targets(&["z"]))]);
    let all: Vec<_> = names.iter().map(|(name, _)| name).collect();
    assert_eq!(all, ["mcp_a_z", "mcp_b_x", "mcp_b_y"]);
    names.remove("b");
    assert_eq!((names.len(), names.resolve("mcp_b_x")), (1, None));
    names.remove("a");
    assert!(names.is_empty());
}

#[test]
fn only_names_that_can_have_been_assigned_are_restored() {
    let long = "x".repeat(70);
    let plain = Style::MCP.plain("s", &long);
    let short: String = plain.chars().take(55).collect();
    let refused = [
        ("mcp__s__a", "a"),
        ("mcp_s_a-b", "a-b"),
        ("mcp_s_a_0123456", "a"),
        ("mcp_s_a_0123456G", "a"),
        ("mcp_s_b", "a"),
        ("", "a"),
        (&plain, &long),
    ];
    let mut names = Names::default();
    names.restore(refused.map(|(name, tool)| (name, "s", Target::tool(tool))));
    assert!(names.is_empty());
    let suffixed = format!("{short}_01234567");
    let given = [("mcp_s_a", "a"), ("mcp_s_a_b_89abcdef", "a-b"), (&suffixed, &long)];
    names.restore(given.map(|(name, tool)| (name, "s", Target::tool(tool))));
    names.restore([("mcp_s_a", "s", Target::tool("a")), ("mcp_s_a_01234567", "s", Target::tool("a"))]);
    names.restore([("mcp_s_a", "s_a", Target::tool(""))]);
    let found: Vec<_> = names.iter().collect();
    let found: Vec<_> = found.iter().map(|(name, found)| (&**name, found.target.name())).collect();
    assert_eq!(found, [("mcp_s_a", "a"), ("mcp_s_a_b_89abcdef", "a-b"), (&suffixed, &long)]);
}

#[test]
fn a_tool_named_like_an_exposed_name_does_not_take_it() {
    let mimic = format!("a_b{}", suffix("s", 0xFF, "a-b", b""));
    let mut names = Names::default();
    names.update([("s", targets(&["a-b", "a_b", &mimic]))]);
    assert_eq!(name(&names, "s", &mimic), suffixed(&format!("mcp_s_{mimic}"), "s", &mimic));
    assert_eq!(name(&names, "s", "a-b"), format!("mcp_s_{mimic}"));
}

#[test]
fn a_plain_name_of_another_server_is_neither_given_nor_restored() {
    for servers in [["my-api", "my_api"], ["my_api", "my-api"]] {
        let mut names = Names::default();
        names.set_servers(servers);
        let plain = ["mcp_my_api_x", "mcp_my_api_z_12345678"];
        names.restore([(plain[0], "my-api", Target::tool("x")), (plain[1], "my-api", Target::tool("z"))]);
        for server in servers {
            names.update([(server, targets(&["x", "y", "z"]))]);
        }
        let given = |server: &str| ["x", "y", "z"].map(|tool| name(&names, server, tool));
        assert_eq!(given("my_api"), ["mcp_my_api_x", "mcp_my_api_y", "mcp_my_api_z"], "{servers:?}");
        let [x, y, z] = given("my-api");
        assert!(x.starts_with("mcp_my_api_x_") && y.starts_with("mcp_my_api_y_") && z == plain[1], "{x} {y} {z}");
    }
}

#[test]
fn servers_and_tools_whose_names_have_one_hash_are_told_apart() {
    let names = pairs(b"", &[16], 1).concat();
    let [one, other] = [&*names[0], &*names[1]];
    let mut names = Names::default();
    names.set_servers([one, other]);
    let tools = [one, other];
    for server in [one, other] {
        names.update([(server, targets(&tools))]);
    }
    let mut exposed = BTreeSet::new();
    for (server, tool) in [(one, one), (one, other), (other, one), (other, other)] {
        let name = name(&names, server, tool);
        let found = names.resolve(&name).unwrap();
        assert_eq!((found.server, found.target.name()), (server, tool));
        exposed.insert(name);
    }
    assert_eq!(exposed.len(), 4);
    for (gone, kept) in [(one, other), (other, one)] {
        let mut names = names.clone();
        names.update([(gone, targets(&[]))]);
        let found = exposed.iter().filter_map(|name| names.resolve(name)).map(|found| found.server);
        assert_eq!((names.len(), found.collect()), (2, BTreeSet::from([kept])));
    }
}

/// Two names of tools whose hashes begin with the same 32 bits, by which they are looked up.
fn with_equal_keys() -> [String; 2] {
    let mut known = BTreeMap::new();
    let mut names = (0..).map(|at| format!("t{at}"));
    let pair = names.find_map(|name| Some([known.insert(hash(name.as_bytes()) >> 32, name.clone())?, name]));
    pair.unwrap()
}

#[test]
fn tools_and_lists_of_tools_that_are_looked_up_alike_are_told_apart() {
    let [one, other] = with_equal_keys();
    let mut names = Names::default();
    names.update([("s", targets(&[&one, &other]))]);
    for tool in [&one, &other] {
        let found = names.resolve(&format!("mcp_s_{tool}")).unwrap();
        assert_eq!(found.target.name(), *tool);
    }
    // The hash of a list of one tool is that of a byte and its name.
    let pair = pairs(&[0xFF, b't', b't', b't', b't', b't', b't', b't'], &[24], 1).concat();
    let [one, other] = [&pair[0], &pair[1]].map(|text| format!("ttttttt{text}"));
    names.update([("a", targets(&[&one])), ("b", targets(&[&other]))]);
    assert_eq!(name(&names, "a", &one).len(), name(&names, "b", &other).len());
    assert!(names.name("b", &Target::tool(&one)).is_none());
}

#[test]
fn colliding_digits_are_computed_again() {
    let start = "t".repeat(60);
    let mut seen = BTreeMap::new();
    let (first, second) = (0..)
        .find_map(|number| {
            let tool = format!("{start}{number}");
            let digits = suffix("s", 0xFF, &tool, b"");
            seen.insert(digits, tool.clone()).map(|before| (before, tool))
        })
        .unwrap();
    let [low, high] = if first < second { [&first, &second] } else { [&second, &first] };
    for tools in [[low, high], [high, low]] {
        let mut names = Names::default();
        names.update([("s", tools.map(|tool| Target::tool(tool)))]);
        let kept = format!("mcp_s_{}", "t".repeat(49));
        assert_eq!(name(&names, "s", low), format!("{kept}{}", suffix("s", 0xFF, low, b"")));
        assert_eq!(name(&names, "s", high), format!("{kept}{}", suffix("s", 0xFF, high, b"\xFF1")));
    }
}

#[test]
fn thousands_of_colliding_tools_have_a_few_attempts_each() {
    let mut tools = colliding(12);
    for rest in [&b""[..], b"\xFF1", b"\xFF32", b"\xFF4095"] {
        let digits: BTreeSet<_> = tools.iter().map(|tool| suffix("colludes", 0xFF, tool, rest)).collect();
        assert_eq!(digits.len(), 1);
    }
    tools.sort_unstable();
    let last = tools.pop().unwrap();
    let mut names = Names::default();
    names.update([("colludes", targets(&tools.iter().map(|tool| &**tool).collect::<Vec<_>>()))]);
    let kept = format!("mcp_colludes_{}", "t".repeat(42));
    for (number, tool) in tools.iter().enumerate() {
        let again = if number == 0 { vec![] } else { [b"\xFF", number.to_string().as_bytes()].concat() };
        assert_eq!(name(&names, "colludes", tool), format!("{kept}{}", suffix("colludes", 0xFF, tool, &again)));
    }
    tools.push(last.clone());
    names.update([("colludes", targets(&tools.iter().map(|tool| &**tool).collect::<Vec<_>>()))]);
    assert_eq!(names.name("colludes", &Target::tool(&last)), None, "all its candidates are taken");
}

#[test]
fn a_tool_without_a_free_candidate_has_no_name() {
    let tries = (0..=32_u32).map(|number| match number {
        0 => suffix("s", 0xFF, "a-b", b""),
        _ => suffix("s", 0xFF, "a-b", &[b"\xFF", number.to_string().as_bytes()].concat()),
    });
    let tries: Vec<_> = tries.map(|digits| format!("mcp_s_a_b{digits}")).collect();
    for free in [None, Some(0), Some(32)] {
        let taken = tries.iter().enumerate().filter(|(at, _)| Some(*at) != free);
        let mut names = Names::default();
        names.reserve(taken.map(|(_, name)| &**name));
        names.update([("s", targets(&["a_b", "a-b", "a-c"]))]);
        let found = names.name("s", &Target::tool("a-b"));
        assert_eq!(found.as_deref(), free.map(|at| &*tries[at]));
        assert_eq!((names.len(), &*name(&names, "s", "a-c")), (2 + usize::from(free.is_some()), "mcp_s_a_c"));
    }
}

#[test]
fn the_reason_for_a_changed_name_is_reported() {
    let long = "x".repeat(70);
    let mut names = Names::default();
    names.update([("s", targets(&["plain", "a.b", "c_d", "c.d", &long])), ("t-t", targets(&["x"]))]);
    let renamed = |server, tool: &str| names.renamed(server, &Target::tool(tool));
    assert_eq!(renamed("s", "plain"), None);
    assert_eq!(renamed("s", "a.b"), Some(Renamed::Characters));
    assert_eq!(renamed("t-t", "x"), Some(Renamed::Characters));
    assert_eq!(renamed("s", "c_d"), None);
    assert_eq!(renamed("s", "c.d"), Some(Renamed::Taken));
    assert_eq!(renamed("s", &long), Some(Renamed::TooLong));
    assert_eq!(renamed("s", "nobody"), None);
}

#[test]
fn names_of_servers_that_differ_in_replaced_characters_resolve_after_one_is_removed() {
    let servers = ["a-b", "a.b", "a_b", "a b"];
    for gone in servers {
        let mut names = Names::default();
        for (server, tool) in servers.iter().zip(["x-x", "y.y", "z", "x_y"]) {
            names.update([(*server, targets(&[tool, "same"]))]);
        }
        names.remove(gone);
        names.update([("a/b", targets(&["new", "same"]))]);
        let all: Vec<_> = names.iter().collect();
        assert_eq!((all.len(), names.len()), (8, 8));
        for (name, found) in all {
            assert_eq!(names.resolve(&name), Some(found));
            assert_eq!(names.name(found.server, found.target), Some(name));
        }
        for (server, tool) in servers.iter().zip(["x-x", "y.y", "z", "x_y"]) {
            let found = names.resolve(&Style::MCP.plain(server, tool)).map(|found| found.server);
            assert_eq!(found, (*server != gone).then_some(*server));
        }
    }
}

#[test]
fn a_name_resolves_wherever_its_server_name_ends() {
    for (style, name) in
        [(Style::MCP, "mcp_a__b___c"), (Style::MCP_DOUBLE, "mcp__a__b___c"), (Style::SERVER, "a__b___c")]
    {
        let mut found = 0;
        for (server, tool) in [
            ("a", "_b___c"),
            ("a_", "b___c"),
            ("a__b", "__c"),
            ("a__b", "_c"),
            ("a__b_", "_c"),
            ("a__b__", "c"),
            ("a", "b___c"),
        ] {
            let mut names = Names::new(style);
            names.update([
                ("a__", targets(&["x"])),
                ("a__b___c", targets(&["x"])),
                (server, targets(&["other", tool])),
            ]);
            let is_it = style.plain(server, tool) == name;
            found += usize::from(is_it);
            assert_eq!(
                names.resolve(name).map(|found| (found.server, found.target.name())),
                is_it.then_some((server, tool))
            );
        }
        assert!(found > 1, "{name}");
    }
}

#[test]
fn an_unknown_name_does_not_resolve() {
    let mut names = Names::default();
    names.update([("s", targets(&["a-b", "é", "list_resources"])), ("t-t", targets(&["x"]))]);
    for name in [
        "",
        "_",
        "mcp",
        "mcp_",
        "mcp_s",
        "mcp_s_",
        "mcp_s_a-b",
        "mcp_s_é",
        "mcp_t-t_x",
        "mcp_s_a_b_",
        "MCP_s_a_b",
        "s_a_b",
    ] {
        assert_eq!(names.resolve(name), None, "{name}");
    }
    assert_eq!(names.resolve(&"_".repeat(100_000)), None);
    assert_eq!(names.resolve("mcp_s_a_b").map(|found| found.target), Some(&Target::tool("a-b")));
    assert_eq!(names.resolve("mcp_s__").map(|found| found.target), Some(&Target::tool("é")));
}

/// Servers and their tools, with names that are likely to collide.
type Fleet = BTreeMap<String, BTreeSet<Target>>;

#[test]
fn names_are_equal_if_their_style_reserved_names_overrides_and_tools_are() {
    let names = |style, reserved: &[&str], tools: &[&str]| {
        let mut names = Names::new(style);
        names.reserve(reserved.iter().copied());
        names.update([("a", targets(tools))]);
        names
    };
    let one = names(Style::MCP, &[], &["x"]);
    assert_eq!(one, names(Style::MCP, &[], &["x"]));
    let others = [
        names(Style::MCP_DOUBLE, &[], &["x"]),
        names(Style::MCP, &["mine"], &["x"]),
        names(Style::MCP, &[], &["y"]),
        names(Style::MCP, &[], &["x", "y"]),
    ];
    for other in others {
        assert_ne!(one, other);
    }
    let mut overridden = names(Style::MCP, &[], &["x"]);
    overridden.set_overrides("b", [("x", "y")]);
    assert_ne!(one, overridden);
}

/// Whichever comes first.
#[test]
fn a_server_whose_name_needs_no_change_keeps_the_plain_names() {
    for changed in ["a.b", "a~b"] {
        let mut names = Names::new(Style::MCP);
        names.update([("a_b", targets(&["x"])), (changed, targets(&["x"]))]);
        assert_eq!(name(&names, "a_b", "x"), "mcp_a_b_x");
        assert_eq!(name(&names, changed, "x"), suffixed("mcp_a_b_x", changed, "x"));
    }
}

fn word() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec!["a", "b", "_", "-", ".", "é", "漢", " ", "mcp_", "__"]);
    let short = prop::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat());
    let long = (50..70_usize, prop::sample::select(vec!["", "-", "_", "a", "b"]));
    prop_oneof![6 => short, 1 => long.prop_map(|(length, end)| "a".repeat(length) + end)]
}

fn target() -> impl Strategy<Value = Target> {
    let names = prop_oneof![word(), Just("get_prompt".into()), Just("get-prompt".into())];
    prop_oneof![
        8 => names.prop_map(|name: String| Target::tool(&name)),
        1 => prop::sample::select(Utility::ALL.to_vec()).prop_map(Target::from),
    ]
}

fn fleet() -> impl Strategy<Value = Fleet> {
    prop::collection::btree_map(word(), prop::collection::btree_set(target(), 0..8), 0..5)
}

fn style() -> impl Strategy<Value = Style> {
    let styles = vec![Style::MCP, Style::MCP_DOUBLE, Style::SERVER];
    (prop::sample::select(styles), any::<bool>())
        .prop_map(|(style, hyphens)| if hyphens { style.with_hyphens() } else { style })
}

fn update(names: &mut Names, fleet: &Fleet) {
    names.update(fleet.iter().map(|(server, targets)| (&**server, targets.clone())));
}

fn all(names: &Names) -> BTreeMap<(String, Target), String> {
    let entries = names.iter().map(|(name, found)| ((found.server.into(), found.target.clone()), name.into()));
    entries.collect()
}

fn config() -> ProptestConfig {
    let path = Box::new(FileFailurePersistence::Direct("proptest-regressions/host_names.txt"));
    ProptestConfig { failure_persistence: Some(path), ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn names_stay_unique_and_resolve_after_random_updates(
        style in style(),
        steps in prop::collection::vec(fleet(), 1..5),
    ) {
        let mut names = Names::new(style);
        let mut has = Fleet::new();
        for step in &steps {
            let before = all(&names);
            update(&mut names, step);
            has.extend(step.clone());
            let after = all(&names);
            let wanted: BTreeSet<_> = has
                .iter()
                .flat_map(|(server, targets)| targets.iter().map(move |target| (server.clone(), target.clone())))
                .collect();
            prop_assert_eq!(after.keys().cloned().collect::<BTreeSet<_>>(), wanted, "each has one name");
            prop_assert_eq!(after.values().collect::<BTreeSet<_>>().len(), after.len(), "no two have the same");
            for ((server, target), name) in &after {
                prop_assert!(name.len() <= MAX_LEN, "{}", name);
                let hyphen = style == style.with_hyphens();
                let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || hyphen && byte == b'-';
                prop_assert!(!name.is_empty() && name.bytes().all(allowed), "{}", name);
                let found = names.resolve(name).unwrap();
                prop_assert_eq!((found.server, found.target), (&**server, target));
                let again = names.name(server, target);
                prop_assert_eq!(again.as_deref(), Some(&**name));
                if let Some(known) = before.get(&(server.clone(), target.clone())) {
                    prop_assert_eq!(name, known, "a name that was given stays");
                }
            }
        }
    }

    #[test]
    fn restored_names_are_the_assigned_ones(
        style in style(),
        steps in prop::collection::vec(fleet(), 1..4),
    ) {
        let mut names = Names::new(style);
        steps.iter().for_each(|step| update(&mut names, step));
        let mut restored = Names::new(style);
        restored.restore(names.iter().map(|(name, found)| (name, found.server, found.target.clone())));
        prop_assert_eq!(all(&restored), all(&names));
        let last: Fleet = steps.into_iter().flatten().collect();
        update(&mut restored, &last);
        prop_assert_eq!(all(&restored), all(&names), "what is there stays as it was named");
    }

    #[test]
    fn names_that_are_restored_with_the_same_servers_stay(
        style in style(),
        steps in prop::collection::vec(fleet(), 1..4),
        longer in prop::collection::vec((any::<prop::sample::Index>(), "[ab]{0,2}"), 0..3),
    ) {
        let mut servers: BTreeSet<String> = steps.iter().flat_map(BTreeMap::keys).cloned().collect();
        // Their names begin with that of another server.
        let all_names: Vec<_> = servers.iter().cloned().collect();
        if !all_names.is_empty() {
            servers.extend(longer.iter().map(|(at, rest)| format!("{}_{rest}", at.get(&all_names))));
        }
        let mut names = Names::new(style);
        names.set_servers(servers.iter().map(|server| &**server));
        steps.iter().for_each(|step| update(&mut names, step));
        let mut restored = Names::new(style);
        restored.restore(names.iter().map(|(name, found)| (name, found.server, found.target.clone())));
        prop_assert_eq!(restored.set_servers(servers.iter().map(|server| &**server)), vec![]);
        prop_assert_eq!(all(&restored), all(&names));
    }

    #[test]
    fn the_order_within_an_update_does_not_matter(
        (style, sorted, shuffled) in (style(), fleet()).prop_flat_map(|(style, fleet)| {
            let list: Vec<_> = fleet
                .iter()
                .flat_map(|(server, targets)| targets.iter().map(move |target| (server.clone(), target.clone())))
                .collect();
            (Just(style), Just(fleet), Just(list).prop_shuffle())
        }),
    ) {
        let (mut one, mut other) = (Names::new(style), Names::new(style));
        update(&mut one, &sorted);
        other.update(shuffled.iter().map(|(server, target)| (&**server, [target.clone()])));
        prop_assert_eq!(all(&one), all(&other));
    }

    #[test]
    fn names_assigned_in_one_update_follow_the_rule(style in style(), fleet in fleet()) {
        let mut names = Names::new(style);
        update(&mut names, &fleet);
        let found = all(&names);
        let plain = |(server, target): &(String, Target)| style.plain(server, target.name());
        let hyphen = style == style.with_hyphens();
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || hyphen && byte == b'-';
        let unchanged =
            |(server, target): &(String, Target)| server.bytes().chain(target.name().bytes()).all(allowed);
        for (key, name) in &found {
            let rivals: Vec<_> = found.keys().filter(|rival| plain(rival) == plain(key)).collect();
            let tools = rivals.iter().filter(|rival| unchanged(rival) && matches!(rival.1, Target::Tool(_))).count();
            let utilities = rivals.iter().filter(|rival| unchanged(rival)).count() - tools;
            let first = match key.1 {
                _ if rivals.len() == 1 => true,
                Target::Tool(_) => unchanged(key) && tools == 1,
                Target::Utility(_) => unchanged(key) && tools == 0 && utilities == 1,
            };
            let fits = plain(key).len() <= MAX_LEN;
            prop_assert_eq!(*name == plain(key), first && fits, "{:?} {}", key, name);
        }
    }
}

#[test]
fn the_names_that_a_new_server_takes_are_told_in_order() {
    let mut names = Names::default();
    names.set_servers(["a-b"]);
    names.update([("a-b", ["z", "m", "a", "q", "b", "y", "c", "x"].map(Target::tool))]);
    let moved = names.set_servers(["a-b", "a_b"]);
    let [(server, difference)] = moved.as_slice() else { panic!("{moved:?}") };
    assert_eq!((&**server, difference.added.len(), difference.removed.len()), ("a-b", 8, 8));
    assert!(difference.added.is_sorted() && difference.removed.is_sorted(), "{difference:?}");
}
