//! What providers take: the rules of each, and the passes that bring a schema within them.

use alloc::borrow::Cow;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{
    DEPTH, KeywordKind, Member, Node, Pass, Place, SchemaChangeKind, decoded, describes, identifies, quoted, schemas,
    text, with_slashes,
};
use crate::jsonrpc::Json;
use crate::text::cut;

/// What a provider takes as the schema of a function's arguments. Its [`passes`](Self::passes) bring any schema of an object
/// within that.
///
/// ```
/// use mcp_proto::RawValue;
/// use mcp_proto::host::schema::{Profile, adapt};
///
/// let schema = r#"{"type":"object","properties":{"a":{"const":1},"b":{}},"anyOf":[{"required":["a"]},{"required":["b"]}]}"#;
/// let schema = RawValue::from_string(schema.into()).unwrap();
/// let adapted = adapt(&schema, Profile::Anthropic.passes());
/// assert_eq!(
///     adapted.schema.get(),
///     r#"{"type":"object","properties":{"a":{"const":1},"b":{}},"description":"At least one of these applies: [{\"required\":[\"a\"]},{\"required\":[\"b\"]}]"}"#
/// );
/// assert!(adapted.changes.iter().any(|change| change.kind.widens()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Profile {
    /// Functions of OpenAI without `strict`: an object without unions, `enum` and `not` at the root, and arrays with `items`
    /// (<https://platform.openai.com/docs/guides/function-calling>).
    #[cfg_attr(feature = "serde", serde(rename = "openai"))]
    OpenAi,
    /// Functions of OpenAI with `strict`: besides, a subset of keywords; `$ref` stands alone and leads to a schema; objects are
    /// closed and require all properties, of which those that were optional may be null
    /// (<https://platform.openai.com/docs/guides/structured-outputs#supported-schemas>). Remove these nulls from the
    /// arguments: [`without_nulls`](super::without_nulls).
    ///
    /// The limits of a schema's size are not checked: the number of properties, the depth of objects, the number of values of
    /// `enum`, and the length of all names and values together. The provider refuses a schema above them.
    #[cfg_attr(feature = "serde", serde(rename = "openai-strict"))]
    OpenAiStrict,
    /// Tools of Anthropic: a schema of draft 2020-12, an object without unions at the root, whose properties have names of 1
    /// to 64 letters, digits, `_`, `.` and `-` (<https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/overview>).
    Anthropic,
    /// `parameters` of Gemini: the fields of its `Schema`, one type each with the keywords of that type, objects with
    /// properties, no references (<https://ai.google.dev/api/caching#Schema>). An object without properties in a schema
    /// becomes a text: see [`Pass::Keywords`].
    Gemini,
}

impl Profile {
    /// Every profile.
    pub const ALL: &'static [Self] = &[Self::OpenAi, Self::OpenAiStrict, Self::Anthropic, Self::Gemini];

    /// Its passes, in order.
    pub const fn passes(self) -> &'static [Pass] {
        match self {
            Self::OpenAi => &[Pass::RootUnions, Pass::ExclusiveBounds, Pass::ArrayItems],
            Self::Anthropic => &[Pass::RootUnions, Pass::PropertyNames, Pass::ExclusiveBounds, Pass::ArrayItems],
            Self::OpenAiStrict => &[
                Pass::Definitions,
                Pass::References,
                Pass::RootUnions,
                Pass::LoneReferences,
                Pass::ExclusiveBounds,
                Pass::ArrayItems,
                Pass::MissingTypes,
                Pass::Keywords(Self::OpenAiStrict),
                Pass::AnyTypes,
                Pass::ClosedObjects,
                // The passes since the first time have moved schemas.
                Pass::LoneReferences,
            ],
            Self::Gemini => &[
                Pass::References,
                Pass::RootUnions,
                Pass::NullUnions,
                Pass::ConstAsEnum,
                Pass::ExclusiveBounds,
                Pass::ArrayItems,
                Pass::MissingTypes,
                Pass::Keywords(Self::Gemini),
                Pass::AnyTypes,
            ],
        }
    }

    /// The keywords and the formats that it takes; `None` for all.
    const fn taken(self) -> Option<Taken> {
        match self {
            Self::OpenAi | Self::Anthropic => None,
            Self::OpenAiStrict => Some(Taken {
                keywords: &[
                    "$defs",
                    "$ref",
                    "additionalProperties",
                    "anyOf",
                    "const",
                    "description",
                    "enum",
                    "exclusiveMaximum",
                    "exclusiveMinimum",
                    "format",
                    "items",
                    "maxItems",
                    "maximum",
                    "minItems",
                    "minimum",
                    "multipleOf",
                    "pattern",
                    "properties",
                    "required",
                    "title",
                    "type",
                ],
                formats: &["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"],
            }),
            Self::Gemini => Some(Taken {
                keywords: &[
                    "anyOf",
                    "default",
                    "description",
                    "enum",
                    "format",
                    "items",
                    "maxItems",
                    "maxLength",
                    "maxProperties",
                    "maximum",
                    "minItems",
                    "minLength",
                    "minProperties",
                    "minimum",
                    "pattern",
                    "properties",
                    "required",
                    "title",
                    "type",
                ],
                formats: &["date-time", "enum", "float", "double", "int32", "int64"],
            }),
        }
    }
}

/// What a provider takes that does not take all.
struct Taken {
    keywords: &'static [&'static str],
    formats: &'static [&'static str],
}

/// The unions, by their keywords, with the words of a description.
const UNIONS: [(&str, &str); 3] = [
    ("allOf", "All of these apply"),
    ("anyOf", "At least one of these applies"),
    ("oneOf", "Exactly one of these applies"),
];

/// The most bytes of a rule that goes into a description whole; of a longer one, as many characters.
const RULE: usize = 512;

/// The most bytes of a union that go into a description, if it is longer than a rule may be: of each branch what it requires and
/// its constants; the rest is cut off.
const UNION: usize = 4096;

/// The most characters of a branch in such a description; the rest is cut off.
const BRANCH: usize = 256;

/// The most rules that go into one description.
const RULES: usize = 16;

/// The most bytes of definitions that replace references.
const INLINED: usize = 64 << 10;

/// Adds a sentence to the description of a schema.
fn describe(schema: &mut Node<'_>, words: &str) {
    let told = schema.get("description").and_then(text).map(Cow::into_owned);
    let joined = told.filter(|told| !told.is_empty()).map_or_else(|| words.into(), |told| format!("{told}\n{words}"));
    let Ok(written) = serde_json::to_string(&joined) else { return };
    if let Some(slot) = schema.get_mut("description") {
        *slot = Node::Leaf(written.into());
    } else if let Some(members) = schema.members_mut() {
        members.push(Member::new("description", Node::Leaf(written.into())));
    }
}

/// Whether a keyword that is removed may have been a rule.
fn is_rule(keyword: &str) -> bool {
    !describes(keyword) && !identifies(keyword)
}

/// Removes keywords. Their rules go into the description, as long as there is room. `resolve` finds what a reference leads
/// to.
fn refuse<'n, 'a: 'n>(
    schema: &mut Node<'_>,
    keywords: &BTreeSet<String>,
    mut resolve: impl FnMut(&Node<'_>) -> Option<&'n Node<'a>>,
) {
    let Some(members) = schema.members_mut() else { return };
    let mut rules = Vec::new();
    members.retain(|member| {
        let is_refused = keywords.contains(&*member.name);
        if is_refused && rules.len() < RULES && is_rule(&member.name) {
            rules.push(rule(member, &mut resolve));
        }
        !is_refused
    });
    if !rules.is_empty() {
        describe(schema, &rules.join("\n"));
    }
}

/// No reference leads anywhere.
const fn unresolved<'n>(_: &Node<'_>) -> Option<&'n Node<'n>> {
    None
}

/// The words for a rule.
fn rule<'n, 'a: 'n>(member: &Member<'_>, resolve: impl FnMut(&Node<'_>) -> Option<&'n Node<'a>>) -> String {
    let words = UNIONS.iter().find(|(keyword, _)| *keyword == member.name).map(|(_, words)| *words);
    let written = member.value.written();
    match (words, member.value.elements()) {
        (Some(words), Some(branches)) if written.len() > RULE => format!("{words}: {}", summary(branches, resolve)),
        (words, _) => format!("{}: {}", words.unwrap_or(&member.name), cut(&written, RULE)),
    }
}

/// What the branches of a long union require, and their constants, within [`UNION`] bytes.
fn summary<'n, 'a: 'n>(branches: &[Node<'_>], mut resolve: impl FnMut(&Node<'_>) -> Option<&'n Node<'a>>) -> String {
    let mut all = String::new();
    // Many branches may use one definition.
    let mut known: BTreeMap<usize, String> = BTreeMap::new();
    for branch in branches {
        let target = branch.get("$ref").and_then(&mut resolve);
        let own = if target.is_some() { None } else { Some(summary_of_branch(branch)) };
        let of_target = target.map(|target| {
            let address = core::ptr::from_ref(target).addr();
            known.entry(address).or_insert_with(|| summary_of_branch(target)).as_str()
        });
        let told = cut(own.as_deref().or(of_target).unwrap_or_default(), BRANCH);
        if all.len().saturating_add(told.len()) > UNION {
            all.push('…');
            break;
        }
        all.extend([&*told, "; "]);
    }
    all.strip_suffix("; ").map(String::from).unwrap_or(all)
}

/// The constants of a branch, and what it requires; otherwise the beginning of the branch.
fn summary_of_branch(branch: &Node<'_>) -> String {
    let mut told = String::new();
    for property in branch.get("properties").map(Node::members).unwrap_or_default() {
        let only = match property.value.get("enum").and_then(Node::elements) {
            Some([only]) => Some(only),
            _ => property.value.get("const"),
        };
        if told.len() < BRANCH
            && let Some(constant) = only
        {
            let before = if told.is_empty() { "{" } else { "," };
            told.extend([before, &property.raw, ":", &cut(&constant.written(), BRANCH)]);
        }
    }
    if !told.is_empty() {
        told.push('}');
    }
    if let Some(required) = branch.get("required") {
        let before = if told.is_empty() { "" } else { " " };
        told.extend([before, "required: ", &required.written()]);
    }
    if told.is_empty() { branch.written() } else { told }
}

/// The schemas to which references lead.
struct Targets<'t, 'a> {
    root: &'t Node<'a>,
    /// The members of objects that references pass through, by the addresses of these.
    members: BTreeMap<usize, BTreeMap<&'t str, &'t Node<'a>>>,
    /// How long and how deep definitions are, by their addresses.
    extents: BTreeMap<usize, (usize, usize)>,
}

impl<'t, 'a> Targets<'t, 'a> {
    const fn new(root: &'t Node<'a>) -> Self {
        Self { root, members: BTreeMap::new(), extents: BTreeMap::new() }
    }

    fn extent(&mut self, target: &Node<'_>) -> (usize, usize) {
        *self.extents.entry(core::ptr::from_ref(target).addr()).or_insert_with(|| target.extent())
    }

    /// The object that a reference within the schema leads to.
    fn find(&mut self, reference: &Node<'_>) -> Option<&'t Node<'a>> {
        let reference = text(reference)?;
        let fragment = with_slashes(reference.strip_prefix('#')?);
        let mut node = self.root;
        for step in fragment.strip_prefix('/')?.split('/') {
            let step = decoded(step);
            node = match node {
                Node::Object(all) => {
                    let address = core::ptr::from_ref(node).addr();
                    let named = || all.iter().map(|member| (&*member.name, &member.value)).collect();
                    self.members.entry(address).or_insert_with(named).get(&*step)?
                }
                Node::Array(elements) => elements.get(step.parse::<usize>().ok()?)?,
                Node::Leaf(_) => return None,
            };
        }
        matches!(node, Node::Object(_)).then_some(node)
    }
}

/// Replaces references and unions of one branch. Returns the schema without them.
pub(super) fn inline<'a>(root: &Node<'a>, mut change: impl FnMut(Place<'_>, SchemaChangeKind)) -> Node<'a> {
    // With addresses of their own, references may lead elsewhere than they seem to.
    let (mut has_address, mut copy) = (false, root.clone());
    schemas(&mut copy, |schema, place| {
        has_address |= !place.pointer.is_empty() && (schema.has("$id") || schema.has("id"))
    });
    if has_address {
        return copy;
    }
    let mut inlining = Inlining { targets: Targets::new(root), room: INLINED, within: Vec::new() };
    let mut is_changed = false;
    // Inner schemas first: what was inlined is not visited.
    schemas(&mut copy, |schema, place| {
        if let Some(kind) = inlining.replace(schema, DEPTH.saturating_sub(place.depth)) {
            is_changed = true;
            change(place, kind);
        }
    });
    if !is_changed {
        return copy;
    }
    let (mut refers, mut uses) = (false, copy.clone());
    // Definitions that only definitions refer to are not used.
    ["$defs", "definitions"].iter().for_each(|keyword| uses.remove(keyword));
    schemas(&mut uses, |schema, _| refers |= super::REFERENCES.iter().any(|keyword| schema.has(keyword)));
    if !refers {
        ["$defs", "definitions"].iter().for_each(|keyword| copy.remove(keyword));
    }
    copy
}

struct Inlining<'t, 'a> {
    targets: Targets<'t, 'a>,
    room: usize,
    /// The addresses of the definitions that are being inlined.
    within: Vec<usize>,
}

impl<'a> Inlining<'_, 'a> {
    /// Replaces the reference, or the union of one branch, that is the only rule of a schema.
    fn replace(&mut self, schema: &mut Node<'a>, depth: usize) -> Option<SchemaChangeKind> {
        let rules = schema.members().iter().filter(|member| !describes(&member.name) && !identifies(&member.name));
        let rules: Vec<_> = rules.take(2).map(|member| &*member.name).collect();
        let (keyword, kind) = match rules[..] {
            ["$ref"] => ("$ref", SchemaChangeKind::Inlined),
            ["allOf"] => ("allOf", SchemaChangeKind::BranchMerged),
            _ => return None,
        };
        let inner = match schema.get(keyword)? {
            Node::Array(branches) => match &branches[..] {
                [branch @ Node::Object(_)] => branch.clone(),
                _ => return None,
            },
            reference @ (Node::Leaf(_) | Node::Object(_)) => self.definition(reference, depth)?,
        };
        let names: BTreeSet<String> = schema.members().iter().map(|member| member.name.clone().into_owned()).collect();
        // What the schema says of itself stands before what its definition says.
        let mut fresh = match inner {
            Node::Object(members) => members,
            Node::Leaf(_) | Node::Array(_) => return None,
        };
        fresh.retain(|member| !names.contains(&*member.name) || !describes(&member.name));
        if fresh.iter().any(|member| identifies(&member.name) && names.contains(&*member.name)) {
            return None;
        }
        schema.replace(keyword, fresh);
        Some(kind)
    }

    /// A copy of the definition that a reference leads to, without references in it; `None` if it leads to itself, is too
    /// deep, or is longer than what is left.
    fn definition(&mut self, reference: &Node<'_>, depth: usize) -> Option<Node<'a>> {
        let target = self.targets.find(reference)?;
        let address = core::ptr::from_ref(target).addr();
        let (size, height) = self.targets.extent(target);
        if self.within.contains(&address) || size > self.room || height >= depth {
            return None;
        }
        // What is copied in vain counts too, so that the work is bounded.
        self.room = self.room.saturating_sub(size);
        self.within.push(address);
        let (mut copy, mut whole) = (target.clone(), true);
        schemas(&mut copy, |schema, place| {
            if whole && schema.has("$ref") {
                let room = depth.saturating_sub(place.depth).saturating_sub(1);
                whole = self.replace(schema, room).is_some();
            }
        });
        self.within.pop();
        whole.then_some(copy)
    }
}

/// A property of an object, with the schemas that branches have for it.
struct Merged<'t, 'a> {
    member: &'t Member<'a>,
    /// Different ones: any will do.
    alternatives: Vec<&'t Node<'a>>,
    /// The alternatives as JSON, if there are several.
    seen: BTreeSet<String>,
}

/// Makes one object of a schema and the branches of its unions.
struct Merging<'t, 'a> {
    targets: Targets<'t, 'a>,
    /// The bytes of definitions that may still be merged: many branches may use one.
    room: usize,
    /// Whether a part is left out: there is no room for it, it nests too deep, or its reference leads nowhere.
    is_cut: bool,
    properties: Vec<Merged<'t, 'a>>,
    /// The places in `properties`, by name.
    places: BTreeMap<&'t str, usize>,
}

impl<'t, 'a> Merging<'t, 'a> {
    fn new(root: &'t Node<'a>, room: usize) -> Self {
        let targets = Targets::new(root);
        Self { targets, room, is_cut: false, properties: Vec::new(), places: BTreeMap::new() }
    }

    /// Adds the properties of an object. Where one is known, either of two will do if they are of an `anyOf` or `oneOf`, and
    /// the first stands otherwise.
    fn add(&mut self, schema: &'t Node<'a>, either: bool) {
        let properties = schema.get("properties").map(Node::members).unwrap_or_default();
        // Parsers take the last of those with one name.
        let last: BTreeMap<&str, usize> = properties.iter().enumerate().map(|(at, it)| (&*it.name, at)).collect();
        for (at, member) in properties.iter().enumerate() {
            if last.get(&*member.name) != Some(&at) {
                continue;
            }
            let known = self.places.get(&*member.name).and_then(|at| self.properties.get_mut(*at));
            let Some(known) = known else {
                self.places.insert(&member.name, self.properties.len());
                self.properties.push(Merged {
                    member,
                    alternatives: alloc::vec![&member.value],
                    seen: BTreeSet::new(),
                });
                continue;
            };
            if !either {
                continue;
            }
            if known.seen.is_empty() {
                known.seen.extend(known.alternatives.iter().map(|known| known.written()));
            }
            if known.seen.insert(member.value.written()) {
                known.alternatives.push(&member.value);
            }
        }
    }

    /// Adds what a schema and the branches of its unions have. Returns what all of them require.
    fn merge(&mut self, schema: &'t Node<'a>, depth: usize, either: bool) -> BTreeSet<String> {
        let mut required = names(schema.get("required"));
        let Some(depth) = depth.checked_sub(1) else {
            self.is_cut = true;
            return required;
        };
        self.add(schema, either);
        if let Some(reference) = schema.get("$ref") {
            let target = self.targets.find(reference);
            let left = target.and_then(|target| self.room.checked_sub(self.targets.extent(target).0));
            match (target, left) {
                (Some(target), Some(left)) => {
                    self.room = left;
                    required.extend(self.merge(target, depth, either));
                }
                _ => self.is_cut = true,
            }
        }
        for (keyword, _) in UNIONS {
            let Some(Node::Array(branches)) = schema.get(keyword) else { continue };
            let mut common: Option<BTreeSet<String>> = None;
            for branch in branches {
                let of_it = self.merge(branch, depth, keyword != "allOf");
                common = Some(match common {
                    None => of_it,
                    Some(mut common) if keyword == "allOf" => {
                        common.extend(of_it);
                        common
                    }
                    Some(common) => common.into_iter().filter(|name| of_it.contains(name)).collect(),
                });
            }
            required.extend(common.unwrap_or_default());
        }
        required
    }
}

fn names(list: Option<&Node<'_>>) -> BTreeSet<String> {
    list.and_then(Node::elements).unwrap_or_default().iter().filter_map(text).map(Cow::into_owned).collect()
}

fn has_root_union(root: &Node<'_>) -> bool {
    UNIONS.iter().any(|(keyword, _)| root.has(keyword)) || root.has("$ref")
}

/// Makes the root one object without unions.
pub(super) fn merge_root<'a>(root: &mut Node<'a>, mut change: impl FnMut(SchemaChangeKind)) {
    if has_root_union(root) {
        let before = root.clone();
        let mut merging = Merging::new(&before, INLINED);
        let required = merging.merge(&before, DEPTH, false);
        let Merging { mut targets, is_cut, properties, .. } = merging;
        let merged = |Merged { member, alternatives, .. }: Merged<'_, 'a>| {
            let value = match &alternatives[..] {
                [only] => (*only).clone(),
                all => {
                    let all = all.iter().map(|it| (*it).clone()).collect();
                    Node::Object(alloc::vec![Member::new("anyOf", Node::Array(all))])
                }
            };
            Member { raw: member.raw.clone(), name: member.name.clone(), value }
        };
        if !properties.is_empty() {
            root.put("properties", Node::Object(properties.into_iter().map(merged).collect()));
        }
        if required != names(root.get("required")) {
            let listed = required.iter().filter_map(|name| serde_json::to_string(name).ok());
            root.put("required", Node::Array(listed.map(|name| Node::Leaf(name.into())).collect()));
        }
        for (keyword, _) in UNIONS {
            if root.has(keyword) {
                refuse(root, &[keyword.into()].into(), |reference| targets.find(reference));
                change(SchemaChangeKind::UnionMerged(keyword));
            }
        }
        if root.has("$ref") {
            root.remove("$ref");
            change(SchemaChangeKind::UnionMerged("$ref"));
        }
        if is_cut {
            change(SchemaChangeKind::UnionCut);
        }
    }
    for keyword in ["enum", "not"] {
        if root.has(keyword) {
            refuse(root, &[keyword.into()].into(), unresolved);
            change(SchemaChangeKind::KeywordDropped { widens: true });
        }
    }
    let is_object = root.get("type").is_some_and(|name| name.is_string("object"));
    let had_another =
        root.get("type").is_some_and(|it| !it.elements().unwrap_or_default().iter().any(|it| it.is_string("object")));
    if let (false, Some(members)) = (is_object, root.members_mut()) {
        members.retain(|member| member.name != "type");
        members.insert(0, Member::new("type", quoted("object")));
        if had_another {
            change(SchemaChangeKind::KeywordDropped { widens: true });
        }
        change(SchemaChangeKind::TypeAdded("object"));
    }
    if !matches!(root.get("properties"), Some(Node::Object(_)))
        && let Some(members) = root.members_mut()
    {
        members.retain(|member| member.name != "properties");
        members.push(Member::new("properties", Node::Object(Vec::new())));
        change(SchemaChangeKind::PropertiesAdded);
    }
}

/// Gives an array `items`.
pub(super) fn add_items(schema: &mut Node<'_>) -> Option<SchemaChangeKind> {
    let is_array = schema.get("type").is_some_and(|name| {
        name.is_string("array") || name.elements().is_some_and(|all| all.iter().any(|name| name.is_string("array")))
    });
    match schema.get_mut("items") {
        Some(Node::Object(_)) => return None,
        // Before 2020-12, a schema for each element.
        Some(Node::Array(all)) => {
            let branches = core::mem::take(all);
            let any =
                if branches.is_empty() { Vec::new() } else { alloc::vec![Member::new("anyOf", Node::Array(branches))] };
            schema.replace("items", alloc::vec![Member::new("items", Node::Object(any))]);
            schema.remove("additionalItems");
            return Some(SchemaChangeKind::ItemsAdded { widens: true });
        }
        Some(Node::Leaf(items)) => {
            let widens = items != "true";
            schema.replace("items", alloc::vec![Member::new("items", Node::Object(Vec::new()))]);
            return Some(SchemaChangeKind::ItemsAdded { widens });
        }
        None => {}
    }
    if !is_array {
        return None;
    }
    let widens = schema.has("unevaluatedItems");
    schema.members_mut()?.push(Member::new("items", Node::Object(Vec::new())));
    Some(SchemaChangeKind::ItemsAdded { widens })
}

/// Whether Anthropic takes this as the name of a property.
fn is_plain_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    (1..=64).contains(&name.len()) && name.bytes().all(is_plain)
}

/// Leaves out the properties of a schema with other names than [`is_plain_name`] takes. `change` gets each name.
pub(super) fn leave_out_names(schema: &mut Node<'_>, mut change: impl FnMut(&str, SchemaChangeKind)) {
    let required = names(schema.get("required"));
    let is_closed = schema.get("additionalProperties").is_some_and(|value| value.is("false"));
    let (mut left_out, mut rules) = (BTreeSet::new(), Vec::new());
    for properties in schema.members_mut().into_iter().flatten().filter(|member| member.name == "properties") {
        let Node::Object(properties) = &mut properties.value else { continue };
        properties.retain(|property| {
            let is_kept = is_plain_name(&property.name);
            if !is_kept && left_out.insert(property.name.clone().into_owned()) {
                let is_required = required.contains(&*property.name);
                if is_required && rules.len() < RULES {
                    let (name, of_it) = (cut(&property.raw, RULE), property.value.written());
                    rules.push(format!("The property {name} is required, too: {}", cut(&of_it, RULE)));
                }
                let widens = is_required || !is_closed;
                change(&property.name, SchemaChangeKind::PropertyLeftOut { widens });
            }
            is_kept
        });
    }
    if left_out.is_empty() {
        return;
    }
    if let Some(Node::Array(required)) = schema.get_mut("required") {
        required.retain(|name| !text(name).is_some_and(|name| left_out.contains(&*name)));
    }
    if !rules.is_empty() {
        describe(schema, &rules.join("\n"));
    }
}

/// Writes the `exclusiveMinimum` and `exclusiveMaximum` of draft 4, which are true or false, as numbers.
pub(super) fn bounds_as_numbers(schema: &mut Node<'_>) -> Option<SchemaChangeKind> {
    let mut is_changed = false;
    for (exclusive, inclusive) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        let is_exclusive = match schema.get(exclusive) {
            Some(value) if value.is("true") => true,
            Some(value) if value.is("false") => false,
            _ => continue,
        };
        is_changed = true;
        // Without a bound it has no meaning.
        let bound = schema.get(inclusive).filter(|_| is_exclusive).cloned();
        schema.remove(exclusive);
        if let Some(bound) = bound {
            schema.replace(inclusive, alloc::vec![Member::new(exclusive, bound)]);
        }
    }
    is_changed.then_some(SchemaChangeKind::BoundsMoved)
}

/// Leaves each reference alone in its schema, and removes those that lead to no schema.
pub(super) fn part_references(root: &mut Node<'_>, mut change: impl FnMut(Place<'_>, SchemaChangeKind)) {
    let mut before = root.clone();
    let mut addresses = BTreeSet::new();
    schemas(&mut before, |schema, _| {
        addresses.insert(core::ptr::from_ref(schema).addr());
    });
    let mut targets = Targets::new(&before);
    let mut leads = |reference: &Node<'_>| {
        let mut target = targets.find(reference);
        for _ in 0..DEPTH {
            let Some(node) = target.filter(|it| addresses.contains(&core::ptr::from_ref(*it).addr())) else {
                return false;
            };
            let Some(next) =
                node.get("$ref").filter(|_| node.members().iter().all(|it| !is_rule(&it.name) || it.name == "$ref"))
            else {
                return true;
            };
            target = targets.find(next);
        }
        false
    };
    schemas(root, |schema, place| {
        let Some(reference) = schema.get("$ref") else { return };
        if !leads(reference) {
            refuse(schema, &["$ref".into()].into(), unresolved);
            change(place, SchemaChangeKind::KeywordDropped { widens: true });
            let is_free = schema.members().iter().all(|member| !is_rule(&member.name));
            let named = if is_free && place.positive { name_types(schema) } else { None };
            named.into_iter().for_each(|kind| change(place, kind));
            return;
        }
        if schema.members().len() == 1 {
            return;
        }
        let reference = reference.clone();
        let rules = schema.members().iter().map(|member| &*member.name).filter(|name| is_rule(name) && *name != "$ref");
        let rules: BTreeSet<String> = rules.map(String::from).collect();
        refuse(schema, &rules, unresolved);
        rules.iter().for_each(|_| change(place, SchemaChangeKind::KeywordDropped { widens: true }));
        if schema.members().len() > 1 {
            let alone = Node::Object(alloc::vec![Member::new("$ref", reference)]);
            schema.replace("$ref", alloc::vec![Member::new("anyOf", Node::Array(alloc::vec![alone]))]);
            change(place, SchemaChangeKind::ReferenceParted);
        }
    });
}

/// Writes `const` as an `enum` of one value.
pub(super) fn const_as_enum(schema: &mut Node<'_>) -> Option<SchemaChangeKind> {
    let value = schema.get("const")?.clone();
    // Both may exclude each other.
    if schema.get("enum").is_some_and(|all| !all.elements().is_some_and(|all| all.contains(&value))) {
        return None;
    }
    schema.remove("enum");
    schema.replace("const", alloc::vec![Member::new("enum", Node::Array(alloc::vec![value]))]);
    Some(SchemaChangeKind::ConstMoved)
}

/// Writes the exclusive bounds of integers as inclusive ones, which is the same, where they are all integers.
fn include_bounds(schema: &mut Node<'_>, change: &mut dyn FnMut(SchemaChangeKind)) {
    if !schema.get("type").is_some_and(|name| name.is_string("integer")) {
        return;
    }
    let integer = |value: &Node<'_>| if let Node::Leaf(text) = value { text.parse::<i64>().ok() } else { None };
    for (exclusive, inclusive, step) in [("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1_i64)] {
        let Some(bound) = schema.get(exclusive).and_then(integer).and_then(|bound| bound.checked_add(step)) else {
            continue;
        };
        let own = schema.get(inclusive).map(integer);
        let bound = match (own, step > 0) {
            (None, _) => bound,
            (Some(Some(own)), true) => own.max(bound),
            (Some(Some(own)), false) => own.min(bound),
            (Some(None), _) => continue,
        };
        schema.remove(inclusive);
        let leaf = Node::Leaf(format!("{bound}").into());
        schema.replace(exclusive, alloc::vec![Member::new(inclusive, leaf)]);
        change(SchemaChangeKind::BoundsMoved);
    }
}

/// Removes from a schema what a provider refuses.
pub(super) fn keep_taken(schema: &mut Node<'_>, profile: Profile, change: &mut dyn FnMut(SchemaChangeKind)) {
    let Some(Taken { keywords: taken, formats }) = profile.taken() else { return };
    if profile == Profile::Gemini {
        include_bounds(schema, change);
    }
    if let (Some(Node::Array(_)), false) = (schema.get("oneOf"), schema.has("anyOf"))
        && let Some(members) = schema.members_mut()
    {
        members.iter_mut().filter(|member| member.name == "oneOf").for_each(|member| member.rename("anyOf"));
        change(SchemaChangeKind::UnionLoosened);
    }
    // Schemas that are no objects: booleans, and what is too deep.
    let mut plain = |value: &mut Node<'_>| {
        if !matches!(value, Node::Object(_)) {
            let widens = !value.is("true");
            *value = Node::Object(Vec::new());
            change(SchemaChangeKind::SchemaReplaced { widens });
        }
    };
    for member in schema.members_mut().into_iter().flatten() {
        match (KeywordKind::of(&member.name), &mut member.value) {
            _ if !taken.contains(&&*member.name) || member.name == "additionalProperties" => {}
            (KeywordKind::Schemas, Node::Array(branches)) => branches.iter_mut().for_each(&mut plain),
            (KeywordKind::Schemas, value) => plain(value),
            (KeywordKind::Named, Node::Object(named)) => named.iter_mut().for_each(|member| plain(&mut member.value)),
            (KeywordKind::Named, Node::Leaf(_) | Node::Array(_)) | (KeywordKind::Data, _) => {}
        }
    }
    if profile == Profile::Gemini && split_types(schema, change) {
        // Each has one type.
        for branch in schema.get_mut("anyOf").and_then(Node::elements_mut).into_iter().flatten() {
            keep_taken(branch, profile, change);
        }
    }
    if profile == Profile::Gemini && repeats_type(schema) {
        schema.remove("type");
        change(SchemaChangeKind::KeywordDropped { widens: false });
    }
    let is_text = schema.get("type").is_some_and(|name| name.is_string("string"));
    let has_union = profile == Profile::Gemini && matches!(schema.get("anyOf"), Some(Node::Array(_)));
    let is_alone = schema
        .members()
        .iter()
        .all(|member| member.name == "anyOf" || describes(&member.name) || !taken.contains(&&*member.name));
    let refused = |member: &Member<'_>| {
        let fits = match (&*member.name, &member.value) {
            (name, _) if !taken.contains(&name) => false,
            ("title" | "default", _) if has_union => false,
            ("anyOf", Node::Array(branches)) => !branches.is_empty() && (profile != Profile::Gemini || is_alone),
            ("format", value) => text(value).is_some_and(|format| formats.contains(&&*format)),
            ("enum", Node::Array(values)) => {
                let are_texts = || values.iter().all(|value| super::type_of(value) == Some("string"));
                !values.is_empty() && (profile != Profile::Gemini || are_texts() && is_text)
            }
            ("$defs" | "properties", Node::Object(_)) | ("required", Node::Array(_)) | ("items", Node::Object(_)) => {
                true
            }
            ("anyOf" | "enum" | "$defs" | "properties" | "required" | "items", _) => false,
            ("type", Node::Array(_)) => profile == Profile::OpenAiStrict,
            ("type", value) => text(value).is_some_and(|name| TYPES.iter().any(|(known, _)| *known == &*name)),
            ("description" | "title" | "pattern" | "$ref", value) => text(value).is_some(),
            _ => true,
        };
        !fits
    };
    let names: BTreeSet<String> = schema
        .members()
        .iter()
        .filter(|member| refused(member))
        .map(|member| member.name.clone().into_owned())
        .collect();
    refuse(schema, &names, unresolved);
    for name in names {
        change(SchemaChangeKind::KeywordDropped { widens: is_rule(&name) });
    }
    if profile == Profile::Gemini {
        drop_foreign(schema, change);
    }
    require_known(schema, change);
}

/// Whether each branch of `anyOf` has the type that is beside it.
fn repeats_type(schema: &Node<'_>) -> bool {
    let (Some(name), Some(Node::Array(branches))) = (schema.get("type").and_then(text), schema.get("anyOf")) else {
        return false;
    };
    !branches.is_empty() && branches.iter().all(|it| it.get("type").is_some_and(|own| own.is_string(&name)))
}

/// Removes the keywords that concern other types than the one of a schema: they have no meaning there.
fn drop_foreign(schema: &mut Node<'_>, change: &mut dyn FnMut(SchemaChangeKind)) {
    let Some(name) = schema.get("type").and_then(text).map(Cow::into_owned) else { return };
    let own = TYPES.iter().find(|(known, _)| *known == name).map_or(&[][..], |(_, own)| own);
    let is_foreign = |keyword: &str| !own.contains(&keyword) && TYPES.iter().any(|(_, all)| all.contains(&keyword));
    schema.members_mut().into_iter().for_each(|members| {
        members.retain(|member| {
            let is_kept = !is_foreign(&member.name);
            if !is_kept {
                change(SchemaChangeKind::KeywordDropped { widens: false });
            }
            is_kept
        });
    });
}

/// Makes an object without properties a text.
pub(super) fn object_as_text(schema: &mut Node<'_>) -> Option<SchemaChangeKind> {
    let has_properties = schema.get("properties").is_some_and(|all| !all.members().is_empty());
    if has_properties || !schema.get("type").is_some_and(|name| name.is_string("object")) {
        return None;
    }
    schema.remove("properties");
    refuse(schema, &["minProperties".into(), "maxProperties".into()].into(), unresolved);
    schema.remove("default");
    schema.put("type", quoted("string"));
    describe(schema, "An object, written as JSON");
    Some(SchemaChangeKind::ObjectAsText)
}

/// Removes names from `required` that are no properties.
fn require_known(schema: &mut Node<'_>, mut change: impl FnMut(SchemaChangeKind)) {
    let known: BTreeSet<String> = schema
        .get("properties")
        .map(Node::members)
        .unwrap_or_default()
        .iter()
        .map(|it| it.name.clone().into_owned())
        .collect();
    let Some(Node::Array(required)) = schema.get_mut("required") else { return };
    let before = required.len();
    let mut seen = BTreeSet::new();
    let mut repeated = 0_usize;
    required.retain(|name| {
        let Some(name) = text(name).filter(|name| known.contains(&**name)) else { return false };
        let is_new = seen.insert(name.into_owned());
        repeated = repeated.saturating_add(usize::from(!is_new));
        is_new
    });
    let after = required.len();
    if after < before {
        change(SchemaChangeKind::KeywordDropped { widens: after.saturating_add(repeated) < before });
    }
    if after == 0 {
        schema.remove("required");
    }
}

/// The types, with the keywords that concern each alone.
const TYPES: [(&str, &[&str]); 7] = [
    ("object", &["properties", "required", "minProperties", "maxProperties"]),
    ("array", &["items", "minItems", "maxItems"]),
    ("string", &["pattern", "minLength", "maxLength"]),
    ("number", &["minimum", "maximum"]),
    ("integer", &["minimum", "maximum"]),
    ("boolean", &[]),
    ("null", &[]),
];

/// Whether a format concerns values of a type.
fn suits(format: &Node<'_>, name: &str) -> bool {
    match text(format).as_deref() {
        Some("float" | "double") => name == "number",
        Some("int32" | "int64") => matches!(name, "number" | "integer"),
        _ => name == "string",
    }
}

/// Writes a list of types as `anyOf`, each with the keywords that concern it. Returns whether it did.
fn split_types(schema: &mut Node<'_>, change: &mut dyn FnMut(SchemaChangeKind)) -> bool {
    let Some(Node::Array(types)) = schema.get("type") else { return false };
    let types: Vec<_> = TYPES.iter().filter(|(name, _)| types.iter().any(|it| it.is_string(name))).collect();
    if schema.has("anyOf") || types.is_empty() {
        return false;
    }
    let Some(members) = schema.members_mut() else { return false };
    let (mut kept, mut branches) = (Vec::new(), Vec::new());
    let is_one = types.len() == 1;
    let own = core::mem::take(members);
    for (name, keywords) in &types {
        let mut branch = alloc::vec![Member::new("type", quoted(name))];
        let kind = if *name == "integer" { "number" } else { name };
        let is_value = |value: &Node<'_>| super::type_of(value).unwrap_or("null") == kind;
        for member in &own {
            match (&*member.name, &member.value) {
                ("enum", Node::Array(values)) => {
                    let values: Vec<_> = values.iter().filter(|value| is_value(value)).cloned().collect();
                    branch.push(Member::new("enum", Node::Array(values)));
                }
                ("format", format) if suits(format, name) => branch.push(member.clone()),
                (keyword, _) if keywords.contains(&keyword) => branch.push(member.clone()),
                _ => {}
            }
        }
        branches.push(Node::Object(branch));
    }
    let is_split = |name: &str| name == "type" || name == "enum" || TYPES.iter().any(|(_, all)| all.contains(&name));
    for member in own {
        match &*member.name {
            "format" if types.iter().any(|(name, _)| suits(&member.value, name)) => {}
            // It concerns none of these types.
            "format" => change(SchemaChangeKind::KeywordDropped { widens: false }),
            "title" | "default" if !is_one => change(SchemaChangeKind::KeywordDropped { widens: false }),
            name if is_split(name) => {}
            _ => kept.push(member),
        }
    }
    if let (1, Some(Node::Object(only))) = (branches.len(), branches.first_mut()) {
        kept.append(only);
    } else {
        kept.push(Member::new("anyOf", Node::Array(branches)));
    }
    if let Some(members) = schema.members_mut() {
        *members = kept;
    }
    change(SchemaChangeKind::TypesSplit);
    true
}

/// Names the types of a schema that takes any.
pub(super) fn name_types(schema: &mut Node<'_>) -> Option<SchemaChangeKind> {
    if ["type", "anyOf", "oneOf", "allOf", "$ref", "enum", "const"].iter().any(|keyword| schema.has(keyword)) {
        return None;
    }
    let members = schema.members_mut()?;
    // What concerns one type only has implied it before; what is left concerns several, and goes to each of them.
    let is_of = |member: &Member<'_>, name: &str| match &*member.name {
        "format" => suits(&member.value, name),
        "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => name == "number",
        keyword => TYPES.iter().any(|(known, own)| *known == name && own.contains(&keyword)),
    };
    let any = ["string", "number", "boolean"].map(|name| {
        let rules = members.iter().filter(|member| is_of(member, name)).cloned();
        Node::Object([Member::new("type", quoted(name))].into_iter().chain(rules).collect())
    });
    let is_kept = |member: &Member<'_>| TYPES.iter().any(|(name, _)| is_of(member, name));
    let widens = members.iter().any(|member| !describes(&member.name) && !identifies(&member.name) && !is_kept(member));
    members.retain(|member| member.name == "description" || identifies(&member.name));
    members.push(Member::new("anyOf", Node::Array(any.into())));
    Some(SchemaChangeKind::TypesNamed { widens })
}

/// Closes an object, and requires all its properties: those that were optional may be null.
pub(super) fn close(schema: &mut Node<'_>, mut change: impl FnMut(SchemaChangeKind)) {
    let is_object = schema.get("type").is_some_and(|name| {
        name.is_string("object") || name.elements().is_some_and(|all| all.iter().any(|name| name.is_string("object")))
    });
    if !is_object && !schema.has("properties") {
        return;
    }
    if !schema.get("additionalProperties").is_some_and(|value| value.is("false")) {
        let closed = Member::new("additionalProperties", Node::Leaf("false".into()));
        schema.replace("additionalProperties", alloc::vec![closed]);
        change(SchemaChangeKind::Closed);
    }
    let required = names(schema.get("required"));
    let (mut all, mut is_new) = (Vec::new(), false);
    let mut seen = BTreeSet::new();
    if let Some(Node::Object(properties)) = schema.get_mut("properties") {
        for property in properties.iter_mut() {
            if seen.insert(property.name.clone().into_owned()) {
                all.push(Node::Leaf(property.raw.clone()));
            }
            if !required.contains(&*property.name) {
                is_new = true;
                accept_null(&mut property.value);
            }
        }
    }
    if !matches!(schema.get("properties"), Some(Node::Object(_))) {
        schema.replace("properties", alloc::vec![Member::new("properties", Node::Object(Vec::new()))]);
    }
    if is_new || required.len() != all.len() || !schema.has("required") {
        schema.replace("required", alloc::vec![Member::new("required", Node::Array(all))]);
        let is_lost = required.iter().any(|name| !seen.contains(name));
        change(SchemaChangeKind::AllRequired { widens: is_new || is_lost });
    }
}

/// Lets a schema accept null, too.
fn accept_null(schema: &mut Node<'_>) {
    let null = || Node::Object(alloc::vec![Member::new("type", quoted("null"))]);
    let is_plain = schema.members().iter().all(|member| member.name == "anyOf" || describes(&member.name));
    match schema.get_mut("anyOf") {
        Some(Node::Array(branches)) if branches.iter().any(super::is_null_schema) => return,
        Some(Node::Array(branches)) if is_plain => {
            branches.push(null());
            return;
        }
        _ => {}
    }
    let described = schema.get("description").cloned();
    schema.remove("description");
    let inner = core::mem::replace(schema, Node::Object(Vec::new()));
    let mut members = alloc::vec![Member::new("anyOf", Node::Array(alloc::vec![inner, null()]))];
    members.extend(described.map(|described| Member::new("description", described)));
    *schema = Node::Object(members);
}

/// The JSON of a value in the arguments without what [`close`] let in.
pub(super) fn without_optional_nulls(schema: &Node<'_>, arguments: Json<'_>) -> Option<String> {
    let mut shapes = Shapes::new(schema);
    let root = shapes.root(schema);
    let mut changed = false;
    let mut out = String::new();
    shapes.prune(Some(root), arguments, DEPTH, &mut out, &mut changed);
    changed.then_some(out)
}

/// The most schemas and properties that are looked at for the arguments of a call.
pub(super) const COMPARED: usize = 1 << 20;

/// The schemas that may describe values, and what they make of these together.
struct Shapes<'t, 'a> {
    targets: Targets<'t, 'a>,
    all: Vec<Shape<'t, 'a>>,
    /// The places in `all`, by the addresses of the schemas.
    places: BTreeMap<Vec<usize>, usize>,
    /// How many schemas and properties may still be looked at.
    room: usize,
}

#[derive(Default)]
struct Shape<'t, 'a> {
    required: BTreeSet<String>,
    properties: BTreeMap<&'t str, Inner<'t, 'a>>,
    items: Inner<'t, 'a>,
}

/// The schemas that may describe an inner value.
#[derive(Default)]
struct Inner<'t, 'a> {
    of: Vec<&'t Node<'a>>,
    /// The place of their shape, once it was needed; `None` in it if there was no room.
    shape: Option<Option<usize>>,
}

impl<'t, 'a> Shapes<'t, 'a> {
    const fn new(root: &'t Node<'a>) -> Self {
        Self { targets: Targets::new(root), all: Vec::new(), places: BTreeMap::new(), room: COMPARED }
    }

    fn push(&mut self, shape: Shape<'t, 'a>) -> usize {
        self.all.push(shape);
        self.all.len().saturating_sub(1)
    }

    /// The shape of the root: what [`merge_root`] makes of it.
    fn root(&mut self, root: &'t Node<'a>) -> usize {
        // The pass for references may have replaced as many before.
        let mut merging = Merging::new(root, INLINED.saturating_mul(2));
        let required = merging.merge(root, DEPTH, false);
        let inner = |it: Merged<'t, 'a>| (&*it.member.name, Inner { of: it.alternatives, shape: None });
        let properties = merging.properties.into_iter().map(inner).collect();
        self.push(Shape { required, properties, items: Inner::default() })
    }

    /// The shape of a value that these schemas, and what their references and unions lead to, may describe.
    fn shape(&mut self, of: &[&'t Node<'a>]) -> Option<usize> {
        let address = |schema: &Node<'a>| core::ptr::from_ref(schema).addr();
        self.room = self.room.checked_sub(of.len())?;
        let key: Vec<usize> = of.iter().copied().map(address).collect();
        if let Some(known) = self.places.get(&key) {
            return Some(*known);
        }
        let mut shape = Shape::default();
        let mut seen: BTreeSet<usize> = key.iter().copied().collect();
        let mut rest = of.to_vec();
        while let Some(schema) = rest.pop() {
            let properties = schema.get("properties").map(Node::members).unwrap_or_default();
            let members = schema.members().len().saturating_add(properties.len());
            self.room = self.room.checked_sub(members.saturating_add(1))?;
            shape.required.extend(names(schema.get("required")));
            for member in properties {
                shape.properties.entry(&member.name).or_default().of.push(&member.value);
            }
            shape.items.of.extend(schema.get("items"));
            let target = schema.get("$ref").and_then(|reference| self.targets.find(reference));
            let branches = UNIONS.iter().filter_map(|(keyword, _)| schema.get(keyword)?.elements()).flatten();
            let fresh = target.into_iter().chain(branches).filter(|next| seen.insert(address(next)));
            rest.extend(fresh);
        }
        let at = self.push(shape);
        self.places.insert(key, at);
        Some(at)
    }

    /// The shape of a member of an object, or of the elements of an array.
    fn inner(&mut self, at: Option<usize>, name: Option<&str>) -> Option<usize> {
        let at = at?;
        let shape = self.all.get_mut(at)?;
        let inner = match name {
            Some(name) => shape.properties.get_mut(name)?,
            None => &mut shape.items,
        };
        if let Some(known) = inner.shape {
            return known;
        }
        let of = core::mem::take(&mut inner.of);
        let found = if of.is_empty() { None } else { self.shape(&of) };
        let shape = self.all.get_mut(at)?;
        let inner = match name {
            Some(name) => shape.properties.get_mut(name)?,
            None => &mut shape.items,
        };
        inner.shape = Some(found);
        found
    }

    fn is_optional(&self, at: Option<usize>, name: &str) -> bool {
        let shape = at.and_then(|at| self.all.get(at));
        shape.is_some_and(|shape| shape.properties.contains_key(name) && !shape.required.contains(name))
    }

    fn prune(&mut self, shape: Option<usize>, value: Json<'_>, depth: usize, out: &mut String, changed: &mut bool) {
        let Some(depth) = depth.checked_sub(1).filter(|_| shape.is_some()) else {
            out.push_str(value.text());
            return;
        };
        match value.first() {
            b'{' => {
                out.push('{');
                let mut is_first = true;
                value.raw_members(|raw, value| {
                    let name = raw.as_string().unwrap_or_default();
                    if value.is_null() && self.is_optional(shape, &name) {
                        *changed = true;
                        return;
                    }
                    if !core::mem::take(&mut is_first) {
                        out.push(',');
                    }
                    out.extend([raw.text(), ":"]);
                    let inner = self.inner(shape, Some(&name));
                    self.prune(inner, value, depth, out, changed);
                });
                out.push('}');
            }
            b'[' => {
                let items = self.inner(shape, None);
                out.push('[');
                let mut is_first = true;
                value.each_element(|element| {
                    if !core::mem::take(&mut is_first) {
                        out.push(',');
                    }
                    self.prune(items, element, depth, out, changed);
                });
                out.push(']');
            }
            _ => out.push_str(value.text()),
        }
    }
}
