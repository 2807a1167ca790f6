//! Exposed names.

use std::collections::{BTreeMap, BTreeSet};

use mcp_proto::host::Utility;
use mcp_proto::host::names::{MAX_LEN, Names, Renamed, Style, Target};

use super::super::input::Input;

/// The tools of each server.
type Fleet = BTreeMap<String, BTreeSet<Target>>;

/// Styles with prefix and separator.
const STYLES: [(Style, &str, &str); 3] =
    [(Style::MCP, "mcp_", "_"), (Style::MCP_DOUBLE, "mcp__", "__"), (Style::SERVER, "", "_")];

/// Reads the bytes as additions, changes and removals of servers.
pub(super) fn check(steps: &[u8]) -> String {
    let mut input = Input(steps);
    let (style, prefix, between) = STYLES[input.pick(STYLES.len())];
    let hyphens = input.pick(2) == 1;
    let style = if hyphens { style.with_hyphens() } else { style };
    let mut rig = Rig { names: Names::new(style), fleet: Fleet::new(), prefix, between, hyphens };
    while let Some(operation) = input.operation() {
        let before = all(&rig.names);
        match operation {
            b'u' => rig.update(&mut input),
            b'r' => {
                let server = rig.word("", &mut input);
                rig.names.remove(&server);
                rig.fleet.remove(&server);
            }
            b'k' => rig.restore(&mut input),
            _ => continue,
        }
        rig.check(&before);
    }
    rig.check_restored();
    format!("{:?}", rig.names)
}

struct Rig {
    names: Names,
    /// The tools that must have a name.
    fleet: Fleet,
    prefix: &'static str,
    between: &'static str,
    hyphens: bool,
}

impl Rig {
    fn update(&mut self, input: &mut Input<'_>) {
        let mut step: Vec<(String, Vec<Target>)> = Vec::new();
        for _ in 0..input.pick(4) {
            let server = self.word("", input);
            let targets = (0..input.pick(8)).map(|_| self.target(&server, input)).collect();
            step.push((server, targets));
        }
        let mut backwards = self.names.clone();
        self.names.update(step.clone().iter().map(|(server, targets)| (&**server, targets.clone())));
        // The same update in reverse order, tool by tool.
        let pairs = step.iter().rev().flat_map(|(server, targets)| {
            let targets = targets.iter().rev().map(|target| Some(target.clone()));
            targets.chain([None]).map(|target| (&**server, target))
        });
        backwards.update(pairs);
        assert_eq!(all(&backwards), all(&self.names), "the order made a difference");

        let mut has = Fleet::new();
        step.into_iter().for_each(|(server, targets)| has.entry(server).or_default().extend(targets));
        self.fleet.extend(has);
    }

    /// Restores an arbitrary name.
    fn restore(&mut self, input: &mut Input<'_>) {
        let server = self.word("", input);
        let target = self.target(&server, input);
        let plain = self.names.style().plain(&server, target.name());
        let name = match input.pick(4) {
            0 => plain,
            1 => format!("{}_0123abcd", plain.get(..55).unwrap_or(&plain)),
            2 => self.word("", input),
            _ => self.names.iter().next().map_or_else(String::new, |(name, _)| name.into_owned()),
        };
        self.names.restore([(&*name, &*server, target.clone())]);
        if self.names.name(&server, &target).is_some() {
            self.fleet.entry(server).or_default().insert(target);
        }
    }

    fn target(&self, server: &str, input: &mut Input<'_>) -> Target {
        match input.pick(16) {
            utility @ 0..4 => Utility::ALL[utility].into(),
            _ => Target::tool(&self.word(server, input)),
        }
    }

    /// A tool's name at this server; some are likely to collide.
    fn word(&self, server: &str, input: &mut Input<'_>) -> String {
        match input.pick(16) {
            at @ 0..9 => ["a", "a_b", "a-b", "a.b", "", "\u{e9}", "mcp_a", "get_prompt", "\u{6f22} "][at].into(),
            at @ 9..11 => format!("{}{}", "l".repeat(40 + input.pick(30)), ["-", "_"][at - 9]),
            // A text that forms an existing name.
            11..13 => {
                let given: Vec<_> = self.names.iter().map(|(name, _)| name).collect();
                let given: Vec<_> = given.iter().map(|name| &**name).collect();
                let given = input.choose(&given).unwrap_or("");
                given.strip_prefix(&self.names.style().plain(server, "")).unwrap_or(given).into()
            }
            13 => self.word(server, input) + &self.word(server, input),
            _ => {
                let len = input.pick(80);
                String::from_utf8_lossy(input.take(len)).into()
            }
        }
    }

    fn check(&self, before: &BTreeMap<(String, Target), String>) {
        let after = all(&self.names);
        let has = |server: &String, target: &Target| self.fleet.get(server).is_some_and(|has| has.contains(target));
        assert_eq!(after.len(), self.fleet.values().map(BTreeSet::len).sum::<usize>(), "each has one name");
        assert_eq!(after.values().collect::<BTreeSet<_>>().len(), after.len(), "two have the same name");
        assert_eq!((self.names.len(), self.names.is_empty()), (after.len(), after.is_empty()));
        for ((server, target), name) in &after {
            assert!(has(server, target), "{name} is of nobody");
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || self.hyphens && byte == b'-';
            assert!(!name.is_empty() && name.len() <= MAX_LEN && name.bytes().all(allowed), "{name}");
            let found = self.names.resolve(name).expect("a way back");
            assert_eq!((found.server, found.target), (&**server, target));
            assert_eq!(self.names.name(server, target).as_deref(), Some(&**name));
            let own = format!("{}{server}{}{}", self.prefix, self.between, target.name());
            let renamed = self.names.renamed(server, target);
            assert_eq!(renamed.is_some(), own != *name, "{own} {name} {renamed:?}");
            let plain = self.names.style().plain(server, target.name());
            assert_eq!(matches!(renamed, Some(Renamed::TooLong | Renamed::Taken)), plain != *name, "{plain} {name}");
        }
        for ((server, target), name) in before.iter().filter(|((server, target), _)| has(server, target)) {
            assert_eq!(after.get(&(server.clone(), target.clone())), Some(name), "a name that was given went away");
        }
    }

    /// Saved names are equal after they are restored.
    fn check_restored(&self) {
        let mut restored = Names::new(self.names.style());
        restored.restore(self.names.iter().map(|(name, found)| (name, found.server, found.target.clone())));
        assert_eq!(all(&restored), all(&self.names));
        restored.update(self.fleet.iter().map(|(server, targets)| (&**server, targets.clone())));
        assert_eq!(all(&restored), all(&self.names));
    }
}

fn all(names: &Names) -> BTreeMap<(String, Target), String> {
    names.iter().map(|(name, found)| ((found.server.into(), found.target.clone()), name.into())).collect()
}
