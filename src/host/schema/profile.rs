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
    /// Functions of OpenAI with `strict`: besides, a subset of keywords; objects are closed and require all properties, of
    /// which those that were optional may be null
    /// (<https://platform.openai.com/docs/guides/structured-outputs#supported-schemas>). Remove these nulls from the
    /// arguments: [`without_nulls`](super::without_nulls).
    #[cfg_attr(feature = "serde", serde(rename = "openai-strict"))]
    OpenAiStrict,
    /// Tools of Anthropic: an object without unions at the root
    /// (<https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/overview>).
    Anthropic,
    /// `parameters` of Gemini: the fields of its `Schema`, one type each, no references
    /// (<https://ai.google.dev/api/caching#Schema>).
    Gemini,
}

impl Profile {
    /// Every profile.
    pub const ALL: &'static [Self] = &[Self::OpenAi, Self::OpenAiStrict, Self::Anthropic, Self::Gemini];

    /// Its passes, in order.
    pub const fn passes(self) -> &'static [Pass] {
        match self {
            Self::OpenAi => &[Pass::RootUnions, Pass::ArrayItems],
            Self::Anthropic => &[Pass::RootUnions],
            Self::OpenAiStrict => &[
                Pass::Definitions,
                Pass::References,
                Pass::RootUnions,
                Pass::ArrayItems,
                Pass::MissingTypes,
                Pass::Keywords(Self::OpenAiStrict),
                Pass::AnyTypes,
                Pass::ClosedObjects,
            ],
            Self::Gemini => &[
                Pass::References,
                Pass::RootUnions,
                Pass::NullUnions,
                Pass::ConstAsEnum,
                Pass::ArrayItems,
                Pass::MissingTypes,
                Pass::Keywords(Self::Gemini),
                Pass::AnyTypes,
            ],
        }
    }

    /// The keywords that it takes; `None` for all.
    const fn keywords(self) -> Option<&'static [&'static str]> {
        match self {
            Self::OpenAi | Self::Anthropic => None,
            Self::OpenAiStrict => Some(&[
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
            ]),
            Self::Gemini => Some(&[
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
            ]),
        }
    }

    /// The formats that it takes.
    const fn formats(self) -> &'static [&'static str] {
        match self {
            Self::OpenAiStrict => {
                &["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"]
            }
            Self::OpenAi | Self::Anthropic | Self::Gemini => {
                &["date-time", "enum", "float", "double", "int32", "int64"]
            }
        }
    }
}

/// The unions, by their keywords, with the words of a description.
const UNIONS: [(&str, &str); 3] = [
    ("allOf", "All of these apply"),
    ("anyOf", "At least one of these applies"),
    ("oneOf", "Exactly one of these applies"),
];

/// The longest rule that goes into a description, in bytes. A longer one is not described.
const RULE: usize = 512;

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

/// Removes keywords. Their rules go into the description, those that are short, as long as there is room.
fn refuse(schema: &mut Node<'_>, keywords: &BTreeSet<String>) {
    let Some(members) = schema.members_mut() else { return };
    let (mut rules, mut is_full) = (Vec::new(), false);
    members.retain(|member| {
        let is_refused = keywords.contains(&*member.name);
        if is_refused && !is_full && is_rule(&member.name) {
            let mut written = String::new();
            member.value.write(&mut written);
            if written.len() <= RULE {
                let words = UNIONS.iter().find(|(keyword, _)| *keyword == member.name).map(|(_, words)| *words);
                rules.push(format!("{}: {written}", words.unwrap_or(&member.name)));
                is_full = rules.len() >= RULES;
            }
        }
        !is_refused
    });
    if !rules.is_empty() {
        describe(schema, &rules.join("\n"));
    }
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

/// What the branches of a union at the root have.
#[derive(Default)]
struct Merged<'a> {
    properties: Vec<Member<'a>>,
    /// The places in `properties`, by name.
    places: BTreeMap<String, usize>,
    required: BTreeSet<String>,
}

impl<'a> Merged<'a> {
    /// Adds the properties of an object. Where one is known, either of two will do if they are of an `anyOf` or `oneOf`, and
    /// the first stands otherwise.
    fn add(&mut self, schema: &Node<'a>, either: bool) {
        for member in schema.get("properties").map(Node::members).unwrap_or_default() {
            let known = self.places.get(&*member.name).and_then(|at| self.properties.get_mut(*at));
            let Some(known) = known else {
                self.places.insert(member.name.clone().into_owned(), self.properties.len());
                self.properties.push(member.clone());
                continue;
            };
            if !either || known.value == member.value {
                continue;
            }
            if let (1, Some(Node::Array(branches))) = (known.value.members().len(), known.value.get_mut("anyOf")) {
                if branches.len() < DEPTH && branches.last() != Some(&member.value) {
                    branches.push(member.value.clone());
                }
            } else {
                let both =
                    alloc::vec![core::mem::replace(&mut known.value, Node::Object(Vec::new())), member.value.clone()];
                known.value = Node::Object(alloc::vec![Member::new("anyOf", Node::Array(both))]);
            }
        }
    }
}

fn names(list: Option<&Node<'_>>) -> BTreeSet<String> {
    list.and_then(Node::elements).unwrap_or_default().iter().filter_map(text).map(Cow::into_owned).collect()
}

/// Adds what a schema and the branches of its unions have. Returns what all of them require.
fn merge<'a>(
    schema: &Node<'a>,
    targets: &mut Targets<'_, 'a>,
    depth: usize,
    room: &mut usize,
    into: &mut Merged<'a>,
    either: bool,
) -> BTreeSet<String> {
    let mut required = names(schema.get("required"));
    let Some(depth) = depth.checked_sub(1) else { return required };
    into.add(schema, either);
    if let Some(target) = schema.get("$ref").and_then(|reference| targets.find(reference)) {
        // Many branches may use one definition.
        if let Some(left) = room.checked_sub(targets.extent(target).0) {
            *room = left;
            required.extend(merge(target, targets, depth, room, into, either));
        }
    }
    for (keyword, _) in UNIONS {
        let Some(Node::Array(branches)) = schema.get(keyword) else { continue };
        let mut common: Option<BTreeSet<String>> = None;
        for branch in branches {
            let of_it = merge(branch, targets, depth, room, into, keyword != "allOf");
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

/// Makes the root one object without unions.
pub(super) fn merge_root<'a>(root: &mut Node<'a>, mut change: impl FnMut(SchemaChangeKind)) {
    let has_union = UNIONS.iter().any(|(keyword, _)| root.has(keyword)) || root.has("$ref");
    if has_union {
        let mut merged = Merged::default();
        let before = root.clone();
        let mut targets = Targets::new(&before);
        let required = merge(&before, &mut targets, DEPTH, &mut { INLINED }, &mut merged, false);
        merged.required = required;
        let Merged { properties, required, .. } = merged;
        let known = root.get("properties").map_or(0, |known| known.members().len());
        if let (Some(slot), true) = (root.get_mut("properties"), properties.len() >= known) {
            *slot = Node::Object(properties);
        } else if let Some(members) = root.members_mut().filter(|_| !properties.is_empty()) {
            members.push(Member::new("properties", Node::Object(properties)));
        }
        if required != names(root.get("required")) {
            let listed = required.iter().filter_map(|name| serde_json::to_string(name).ok());
            let listed = Node::Array(listed.map(|name| Node::Leaf(name.into())).collect());
            root.replace("required", alloc::vec![Member::new("required", listed)]);
        }
        for (keyword, _) in UNIONS {
            if root.has(keyword) {
                refuse(root, &[keyword.into()].into());
                change(SchemaChangeKind::UnionMerged(keyword));
            }
        }
        if root.has("$ref") {
            root.remove("$ref");
            change(SchemaChangeKind::UnionMerged("$ref"));
        }
    }
    for keyword in ["enum", "not"] {
        if root.has(keyword) {
            refuse(root, &[keyword.into()].into());
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

/// Removes from a schema what a provider refuses.
pub(super) fn keep_taken(schema: &mut Node<'_>, profile: Profile, change: &mut dyn FnMut(SchemaChangeKind)) {
    let Some(taken) = profile.keywords() else { return };
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
    if profile == Profile::Gemini && split_types(schema) {
        change(SchemaChangeKind::TypesSplit);
        // Each has one type.
        for branch in schema.get_mut("anyOf").and_then(Node::elements_mut).into_iter().flatten() {
            keep_taken(branch, profile, change);
        }
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
            ("format", value) => text(value).is_some_and(|format| profile.formats().contains(&&*format)),
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
    refuse(schema, &names);
    for name in names {
        change(SchemaChangeKind::KeywordDropped { widens: is_rule(&name) });
    }
    require_known(schema, change);
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

/// Writes a list of types as `anyOf`, each with the keywords that concern it. Returns whether it did.
fn split_types(schema: &mut Node<'_>) -> bool {
    let Some(Node::Array(types)) = schema.get("type") else { return false };
    let types: Vec<_> = TYPES.iter().filter(|(name, _)| types.iter().any(|it| it.is_string(name))).collect();
    if schema.has("anyOf") || types.is_empty() {
        return false;
    }
    let Some(members) = schema.members_mut() else { return false };
    let (mut kept, mut branches) = (Vec::new(), Vec::new());
    let own = core::mem::take(members);
    for (name, keywords) in types {
        let mut branch = alloc::vec![Member::new("type", quoted(name))];
        let is_value = |value: &Node<'_>| super::type_of(value).unwrap_or("null") == *name;
        for member in &own {
            match (&*member.name, &member.value) {
                ("enum", Node::Array(values)) => {
                    let values: Vec<_> = values.iter().filter(|value| is_value(value)).cloned().collect();
                    branch.push(Member::new("enum", Node::Array(values)));
                }
                (keyword, _) if keywords.contains(&keyword) => branch.push(member.clone()),
                _ => {}
            }
        }
        branches.push(Node::Object(branch));
    }
    let is_split = |name: &str| name == "type" || name == "enum" || TYPES.iter().any(|(_, all)| all.contains(&name));
    kept.extend(
        own.into_iter()
            .filter(|member| !is_split(&member.name) && !matches!(&*member.name, "title" | "default" | "format")),
    );
    if let (1, Some(Node::Object(only))) = (branches.len(), branches.first_mut()) {
        kept.append(only);
    } else {
        kept.push(Member::new("anyOf", Node::Array(branches)));
    }
    if let Some(members) = schema.members_mut() {
        *members = kept;
    }
    true
}

/// Names the types of a schema that takes any.
pub(super) fn name_types(schema: &mut Node<'_>) -> Option<SchemaChangeKind> {
    if ["type", "anyOf", "oneOf", "allOf", "$ref", "enum", "const"].iter().any(|keyword| schema.has(keyword)) {
        return None;
    }
    let members = schema.members_mut()?;
    // What concerns one type only has implied it before; what is left concerns several.
    let widens = members.iter().any(|member| !describes(&member.name) && !identifies(&member.name));
    members.retain(|member| member.name == "description" || identifies(&member.name));
    let any = ["string", "number", "boolean"].map(|name| Node::Object(alloc::vec![Member::new("type", quoted(name))]));
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
    match schema.get_mut("anyOf") {
        Some(Node::Array(branches)) if branches.iter().any(super::is_null_schema) => return,
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
    let mut targets = Targets::new(schema);
    let mut changed = false;
    let mut out = String::new();
    prune(&[schema], &mut targets, arguments, DEPTH, &mut out, &mut changed);
    changed.then_some(out)
}

/// The most schemas that a value in the arguments is compared with.
const CANDIDATES: usize = 16;

/// The schemas that may describe a value: these, and what their references and unions lead to.
fn candidates<'t, 'a>(of: &[&'t Node<'a>], targets: &mut Targets<'t, 'a>) -> Vec<&'t Node<'a>> {
    let mut all: Vec<&'t Node<'a>> = of.iter().copied().take(CANDIDATES).collect();
    let mut at = 0_usize;
    while let Some(schema) = all.get(at).copied() {
        at = at.saturating_add(1);
        let target = schema.get("$ref").and_then(|reference| targets.find(reference));
        let branches = UNIONS.iter().filter_map(|(keyword, _)| schema.get(keyword)?.elements()).flatten();
        for next in target.into_iter().chain(branches) {
            if all.len() < CANDIDATES && !all.iter().any(|known| core::ptr::eq(*known, next)) {
                all.push(next);
            }
        }
    }
    all
}

fn prune<'t, 'a>(
    of: &[&'t Node<'a>],
    targets: &mut Targets<'t, 'a>,
    value: Json<'_>,
    depth: usize,
    out: &mut String,
    changed: &mut bool,
) {
    let Some(depth) = depth.checked_sub(1).filter(|_| !of.is_empty()) else {
        out.push_str(value.text());
        return;
    };
    let schemas = candidates(of, targets);
    match value.first() {
        b'{' => {
            let required: BTreeSet<String> = schemas.iter().flat_map(|schema| names(schema.get("required"))).collect();
            let mut properties: BTreeMap<&str, Vec<&'t Node<'a>>> = BTreeMap::new();
            for schema in &schemas {
                for member in schema.get("properties").map(Node::members).unwrap_or_default() {
                    properties.entry(&member.name).or_default().push(&member.value);
                }
            }
            out.push('{');
            let mut is_first = true;
            value.raw_members(|raw, value| {
                let name = raw.as_string().unwrap_or_default();
                let known = properties.get(&*name).map_or(&[][..], |known| known);
                if value.is_null() && !known.is_empty() && !required.contains(&*name) {
                    *changed = true;
                    return;
                }
                if !core::mem::take(&mut is_first) {
                    out.push(',');
                }
                out.extend([raw.text(), ":"]);
                prune(known, targets, value, depth, out, changed);
            });
            out.push('}');
        }
        b'[' => {
            let items: Vec<_> = schemas.iter().filter_map(|schema| schema.get("items")).collect();
            out.push('[');
            let mut is_first = true;
            value.each_element(|element| {
                if !core::mem::take(&mut is_first) {
                    out.push(',');
                }
                prune(&items, targets, element, depth, out, changed);
            });
            out.push(']');
        }
        _ => out.push_str(value.text()),
    }
}
