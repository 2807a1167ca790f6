//! Adapts schemas for providers that support a subset of JSON Schema.
//!
//! By default a server's schema reaches the model byte for byte. The embedder can apply these passes, or those of a
//! provider's [`Profile`]; each reports its changes. Values that are valid for the new schema are valid for the old one, so the
//! model's arguments stay valid for the server, unless a change says that it [`widens`](SchemaChangeKind::widens) the schema:
//! where a provider refuses a rule, the rule goes into the description of its place, for the model to keep it, and the
//! server checks it. For this reason nothing becomes stricter under `not`, `if` and `contains`, where that would allow
//! more. There are two exceptions: overlapping branches of a `oneOf`, and definitions that are referenced from under a
//! `not`.
//!
//! The work of each pass is linear in the schema. What nests deeper than 64 values is not read: it stays as it is, except that
//! [`Pass::Keywords`] replaces a schema at that depth by one that accepts anything
//! ([`SchemaReplaced`](SchemaChangeKind::SchemaReplaced)).
//!
//! ```
//! use mcp_proto::host::schema::{Pass, adapt};
//! use mcp_proto::RawValue;
//!
//! let schema = r##"{"properties": {"limit": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": null}}}"##;
//! let schema = RawValue::from_string(schema.into()).unwrap();
//! let adapted = adapt(&schema, &[Pass::NullUnions, Pass::MissingTypes]);
//! assert_eq!(adapted.schema.get(), r#"{"type":"object","properties":{"limit":{"type":"integer"}}}"#);
//! let changes: Vec<_> = adapted.changes.iter().map(ToString::to_string).collect();
//! assert_eq!(changes, ["/properties/limit: null is not accepted any more", "(root): `type` is object now"]);
//! ```

mod profile;

pub use self::profile::Profile;

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use serde_json::value::RawValue;

use crate::collections::hash;
use crate::jsonrpc::{Json, readable, without_lone_surrogates};
use crate::text::percent_decoded;

/// A change to tool schemas that some providers need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Pass {
    /// Renames `definitions` to `$defs`, and adapts references. The meaning stays the same. Nothing changes if a schema
    /// has both keywords with a common name, if `definitions` is not an object, if schemas nest too deep, or if a
    /// reference passes through an unknown keyword or through an address that may be the schema's own.
    Definitions,
    /// Removes null from `type`, `anyOf` and `oneOf`, together with `default: null`. Null is no longer accepted there;
    /// required properties stay required. If one branch of a union is left and no constraint is next to the union, the
    /// branch replaces it. A union whose branches are referenced by index stays.
    NullUnions,
    /// Adds `type` to a schema without it, if its other keywords imply exactly one type. The root becomes an object, as
    /// MCP requires.
    MissingTypes,
    /// Makes the root one object: `allOf`, `anyOf` and `oneOf` there become all properties of their branches, and `required` is
    /// what every branch requires. A property with different schemas in branches accepts what any of them does. The
    /// branches' rules go into the description, as those of `enum` and `not` there do; of a union of more than 512 bytes,
    /// each branch's `required` and constants, within 256 characters each and 4 KiB altogether, then `…`. **This widens the schema**,
    /// and says so. The root gets `type` and `properties` if it has none. 64 KiB of definitions at most are merged; what
    /// is left out is a change ([`UnionCut`](SchemaChangeKind::UnionCut)).
    RootUnions,
    /// Leaves out the properties of the root whose names are not 1 to 64 letters, digits, `_`, `.` and `-`, each with a change
    /// ([`PropertyLeftOut`](SchemaChangeKind::PropertyLeftOut)). The model is told in the description of those that are
    /// required, the first 16.
    PropertyNames,
    /// Writes the `exclusiveMinimum` and `exclusiveMaximum` of draft 4, true or false beside `minimum` and `maximum`, as the
    /// numbers of later drafts. The meaning stays the same.
    ExclusiveBounds,
    /// Leaves each `$ref` alone in its schema: what describes it goes into an `anyOf` around it, and rules beside it into the
    /// description. One that leads to no schema of this document, or to more than 64 references in a row, goes into the
    /// description, too; where no rule is left, the types are named as by [`AnyTypes`](Self::AnyTypes). Where a rule goes, this
    /// widens the schema.
    LoneReferences,
    /// Gives each array without `items` the `items` that accept anything; a list of schemas (before 2020-12) becomes one for
    /// any of them, which widens the schema.
    ArrayItems,
    /// Replaces a reference within the schema by its definition, where that does not refer to itself, 64 KiB at most
    /// altogether, and an `allOf` of one branch by that. Nothing changes where rules are beside it. Definitions to which
    /// nothing refers any more are removed. The meaning stays the same.
    References,
    /// Writes `const` as an `enum` of one value. The meaning stays the same.
    ConstAsEnum,
    /// Removes the keywords that a provider refuses, and what it refuses of others: formats, values, names in `required`
    /// that are no properties. Rules go into the description, the first 16 of a schema, each cut after 512 characters with `…`, a
    /// union as by [`RootUnions`](Self::RootUnions). `oneOf` becomes `anyOf`. What validates widens the schema when it goes,
    /// and the change says so.
    ///
    /// For [`Profile::Gemini`], the exclusive bounds of integers become inclusive ones, keywords of other types than a schema's own go, which have no meaning there, and an object
    /// without properties that is not the root becomes a text with JSON
    /// ([`ObjectAsText`](SchemaChangeKind::ObjectAsText)): the server refuses the text, unless the host parses it.
    Keywords(Profile),
    /// Names the types of a schema that accepts any: a text, a number, or true and false, each with the rules that concern it.
    AnyTypes,
    /// Closes each object, and requires all its properties: those that were optional may be null, which widens the
    /// schema. [`without_nulls`] removes such nulls from arguments.
    ClosedObjects,
}

/// The result of a pass.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Adapted<'a> {
    /// The schema; borrowed and unchanged, byte for byte, if there are no changes and no half of a surrogate pair in it, in
    /// whose place is U+FFFD.
    pub schema: Cow<'a, RawValue>,
    /// The first 1,024 changes.
    pub changes: Vec<SchemaChange>,
    /// Number of further changes.
    pub omitted: usize,
}

/// Maximum number of reported changes.
const CHANGES: usize = 1024;

/// A change in a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemaChange {
    /// The place in the schema before the pass: a JSON Pointer (RFC 6901); a long one is cut off with `…`.
    pub at: Box<str>,
    /// What changed.
    pub kind: SchemaChangeKind,
}

/// The kind of a change in a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaChangeKind {
    /// `definitions` became `$defs`.
    DefinitionsMoved,
    /// A reference was adapted to it.
    Reference,
    /// Null is no longer accepted.
    NullDropped,
    /// This type was added.
    TypeAdded(&'static str),
    /// The branches of this keyword became a part of the object.
    UnionMerged(&'static str),
    /// A part of a union at the root is not in the object: there is no room for it, it nests too deep, or its reference leads
    /// nowhere.
    UnionCut,
    /// The property at this place was left out: the provider refuses its name.
    PropertyLeftOut {
        /// Whether it was required, or is not checked any more.
        widens: bool,
    },
    /// A bound of draft 4 is a number now, or was left out if it had no effect; or the exclusive bound of an integer is an
    /// inclusive one.
    BoundsMoved,
    /// What described a reference is around it now.
    ReferenceParted,
    /// An object without properties is a text with JSON now.
    ObjectAsText,
    /// `properties` was added.
    PropertiesAdded,
    /// `items` was added, or became one schema.
    ItemsAdded {
        /// Whether elements are accepted that were not before.
        widens: bool,
    },
    /// A definition is in the place of the reference to it.
    Inlined,
    /// The only branch of an `allOf` is in its place.
    BranchMerged,
    /// `const` became `enum`.
    ConstMoved,
    /// A keyword was removed that the provider refuses, or a part of its value.
    KeywordDropped {
        /// Whether it was a rule.
        widens: bool,
    },
    /// A schema in it that was no object, or nests too deep, accepts anything now.
    SchemaReplaced {
        /// Whether it was a rule.
        widens: bool,
    },
    /// `oneOf` became `anyOf`: a value may match several branches.
    UnionLoosened,
    /// A list of types became `anyOf`.
    TypesSplit,
    /// The types of a schema for anything are named.
    TypesNamed {
        /// Whether rules were removed.
        widens: bool,
    },
    /// Other properties are not accepted any more.
    Closed,
    /// All properties are required.
    AllRequired {
        /// Whether some of them were not, and accept null now, or one was required that is no property.
        widens: bool,
    },
}

impl SchemaChangeKind {
    /// Whether values may be valid now that were not before the pass.
    pub const fn widens(self) -> bool {
        match self {
            Self::UnionMerged(_) | Self::UnionCut | Self::UnionLoosened | Self::ObjectAsText => true,
            Self::ItemsAdded { widens }
            | Self::PropertyLeftOut { widens }
            | Self::KeywordDropped { widens }
            | Self::SchemaReplaced { widens }
            | Self::TypesNamed { widens }
            | Self::AllRequired { widens } => widens,
            Self::DefinitionsMoved
            | Self::Reference
            | Self::NullDropped
            | Self::TypeAdded(_)
            | Self::PropertiesAdded
            | Self::BoundsMoved
            | Self::ReferenceParted
            | Self::Inlined
            | Self::BranchMerged
            | Self::ConstMoved
            | Self::TypesSplit
            | Self::Closed => false,
        }
    }
}

impl fmt::Display for SchemaChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = if self.at.is_empty() { "(root)" } else { &self.at };
        match self.kind {
            SchemaChangeKind::DefinitionsMoved => write!(f, "{at}: `definitions` is `$defs` now"),
            SchemaChangeKind::Reference => write!(f, "{at}: the reference leads to `$defs` now"),
            SchemaChangeKind::NullDropped => write!(f, "{at}: null is not accepted any more"),
            SchemaChangeKind::TypeAdded(name) => write!(f, "{at}: `type` is {name} now"),
            SchemaChangeKind::UnionMerged(keyword) => write!(f, "{at}: `{keyword}` is a part of the object now"),
            SchemaChangeKind::UnionCut => write!(f, "{at}: a part of a union is left out now"),
            SchemaChangeKind::PropertyLeftOut { .. } => write!(f, "{at}: the property is left out now"),
            SchemaChangeKind::BoundsMoved => write!(f, "{at}: an exclusive bound is written otherwise now"),
            SchemaChangeKind::ReferenceParted => write!(f, "{at}: what describes the reference is around it now"),
            SchemaChangeKind::ObjectAsText => write!(f, "{at}: the object is a text with JSON now"),
            SchemaChangeKind::PropertiesAdded => write!(f, "{at}: `properties` is there now"),
            SchemaChangeKind::ItemsAdded { .. } => write!(f, "{at}: `items` is one schema now"),
            SchemaChangeKind::Inlined => write!(f, "{at}: the definition is in the place of the reference now"),
            SchemaChangeKind::BranchMerged => write!(f, "{at}: the branch is in the place of `allOf` now"),
            SchemaChangeKind::ConstMoved => write!(f, "{at}: `const` is `enum` now"),
            SchemaChangeKind::KeywordDropped { widens: true } => write!(f, "{at}: a rule is in the description now"),
            SchemaChangeKind::KeywordDropped { widens: false } => write!(f, "{at}: a keyword is left out now"),
            SchemaChangeKind::SchemaReplaced { .. } => write!(f, "{at}: a schema in it accepts anything now"),
            SchemaChangeKind::UnionLoosened => write!(f, "{at}: `oneOf` is `anyOf` now"),
            SchemaChangeKind::TypesSplit => write!(f, "{at}: `type` is `anyOf` now"),
            SchemaChangeKind::TypesNamed { .. } => write!(f, "{at}: the types are named now"),
            SchemaChangeKind::Closed => write!(f, "{at}: other properties are not accepted any more"),
            SchemaChangeKind::AllRequired { .. } => write!(f, "{at}: all properties are required now"),
        }
    }
}

/// Applies these passes to a schema, in order.
pub fn adapt<'a>(schema: &'a RawValue, passes: &[Pass]) -> Adapted<'a> {
    let mut adapted = Adapted { schema: readable(schema), changes: Vec::new(), omitted: 0 };
    for pass in passes {
        let Adapted { schema, changes, omitted } = pass.apply(&adapted.schema);
        if let Cow::Owned(schema) = schema {
            adapted.schema = Cow::Owned(schema);
        }
        let (room, all) = (CHANGES.saturating_sub(adapted.changes.len()), changes.len());
        adapted.changes.extend(changes.into_iter().take(room));
        adapted.omitted = adapted.omitted.saturating_add(omitted).saturating_add(all.saturating_sub(room));
    }
    adapted
}

/// The arguments of a function without the members that are null and that its schema, the one before
/// [`Pass::ClosedObjects`], does not require: a model writes null for what it leaves out. Unchanged, byte for byte, if there are
/// none.
///
/// A member counts as required if the root with its unions as [`Pass::RootUnions`] merges them requires it, or, further inside, if
/// a branch of a union does. The work is in proportion to the arguments and the schema: 1,048,576 schemas and properties at
/// most are looked at for the inner values; those for which there is no more room stay as they are.
///
/// ```
/// use mcp_proto::RawValue;
/// use mcp_proto::host::schema::without_nulls;
///
/// let schema = r#"{"properties":{"a":{},"b":{"type":["string","null"]}},"required":["b"]}"#;
/// let [schema, arguments] =
///     [schema, r#"{"a":null,"b":null}"#].map(|text| RawValue::from_string(text.into()).unwrap());
/// assert_eq!(without_nulls(&schema, &arguments).get(), r#"{"b":null}"#);
/// ```
pub fn without_nulls<'a>(schema: &RawValue, arguments: &'a RawValue) -> Cow<'a, RawValue> {
    let schema = Node::read(Json::from(schema));
    match profile::without_optional_nulls(&schema, Json::from(arguments)) {
        Some(pruned) => Cow::Owned(Json::trusted(&pruned).to_raw()),
        None => Cow::Borrowed(arguments),
    }
}

impl Pass {
    /// The basic passes, for a provider without a [`Profile`]: none of them widens a schema, and rules stay where they are.
    pub const BASIC: &'static [Self] = &[Self::Definitions, Self::NullUnions, Self::MissingTypes];

    /// Applies this pass to a schema.
    pub fn apply(self, schema: &RawValue) -> Adapted<'_> {
        let mut root = Node::read(Json::from(schema));
        let (mut changes, mut omitted) = (Vec::new(), 0_usize);
        let mut change = |place: Place<'_>, kind| {
            if changes.len() < CHANGES {
                changes.push(SchemaChange { at: place.pointer.into(), kind });
            } else {
                omitted = omitted.saturating_add(1);
            }
        };
        match self {
            Self::Definitions => {
                let (mut clash, mut has_id, mut has_address) = (root.is_cut(), false, false);
                schemas(&mut root, |schema, _| {
                    clash |= has_clash(schema);
                    has_id |= schema.has("$id") || schema.has("id");
                    for keyword in REFERENCES {
                        match schema.get(keyword).map(moved) {
                            Some(Moved::Unknown) => clash = true,
                            Some(Moved::Elsewhere) => has_address = true,
                            Some(Moved::To(_)) | None => {}
                        }
                    }
                });
                clash |= has_id && has_address;
                if !clash {
                    schemas(&mut root, |schema, place| definitions(schema, |kind| change(place, kind)));
                }
            }
            Self::NullUnions => {
                let mut targets = Targets::default();
                schemas(&mut root, |schema, _| {
                    REFERENCES.iter().filter_map(|keyword| schema.get(keyword)).for_each(|it| targets.add(it));
                });
                schemas(&mut root, |schema, place| {
                    if place.positive && drop_null(schema, |keyword| targets.are_in(place.pointer, keyword)) {
                        change(place, SchemaChangeKind::NullDropped);
                    }
                });
            }
            Self::MissingTypes => schemas(&mut root, |schema, place| {
                let missing = if place.pointer.is_empty() { Some("object") } else { implied(schema) };
                if place.positive
                    && !schema.has("type")
                    && let (Some(name), Some(members)) = (missing, schema.members_mut())
                {
                    members.insert(0, Member::new("type", quoted(name)));
                    change(place, SchemaChangeKind::TypeAdded(name));
                }
            }),
            Self::RootUnions => {
                if let Node::Object(_) = root {
                    profile::merge_root(&mut root, |kind| change(Place::ROOT, kind));
                }
            }
            Self::References => root = profile::inline(&root, change),
            Self::PropertyNames => profile::leave_out_names(&mut root, |name, kind| {
                within(&mut String::from("/properties"), name, |pointer| {
                    change(Place { pointer, ..Place::ROOT }, kind)
                });
            }),
            Self::ExclusiveBounds => schemas(&mut root, |schema, place| {
                profile::bounds_as_numbers(schema).into_iter().for_each(|kind| change(place, kind));
            }),
            Self::LoneReferences => profile::part_references(&mut root, change),
            Self::ArrayItems => schemas(&mut root, |schema, place| {
                profile::add_items(schema).into_iter().for_each(|kind| change(place, kind));
            }),
            Self::ConstAsEnum => schemas(&mut root, |schema, place| {
                profile::const_as_enum(schema).into_iter().for_each(|kind| change(place, kind));
            }),
            Self::Keywords(of) => {
                schemas(&mut root, |schema, place| profile::keep_taken(schema, of, &mut |kind| change(place, kind)));
                if of == Profile::Gemini {
                    // Only now: what was removed went into descriptions with its objects.
                    schemas(&mut root, |schema, place| {
                        let text = if place.pointer.is_empty() { None } else { profile::object_as_text(schema) };
                        text.into_iter().for_each(|kind| change(place, kind));
                    });
                }
            }
            Self::AnyTypes => schemas(&mut root, |schema, place| {
                if place.positive {
                    profile::name_types(schema).into_iter().for_each(|kind| change(place, kind));
                }
            }),
            Self::ClosedObjects => schemas(&mut root, |schema, place| {
                if place.positive {
                    profile::close(schema, |kind| change(place, kind));
                }
            }),
        }
        let written = (!changes.is_empty()).then(|| {
            let mut text = String::new();
            root.write(&mut text);
            Json::trusted(&without_lone_surrogates(&text)).to_raw()
        });
        Adapted { schema: written.map_or_else(|| readable(schema), Cow::Owned), changes, omitted }
    }
}

/// Calls `each` with the JSON Pointer and text of every title and description in a schema.
pub(super) fn texts(schema: &RawValue, mut each: impl FnMut(&str, &str)) {
    schemas(&mut Node::read(Json::from(schema)), |schema, place| {
        for member in schema.members().iter().filter(|member| matches!(&*member.name, "title" | "description")) {
            if let Node::Leaf(text) = &member.value
                && let Some(text) = Json::trusted(text).as_text()
            {
                each(&format!("{}/{}", place.pointer, member.name), &text);
            }
        }
    });
}

fn quoted(text: &str) -> Node<'static> {
    Node::Leaf(format!("\"{text}\"").into())
}

/// Whether `definitions` is not an object, or has a name in common with `$defs`.
fn has_clash(schema: &Node<'_>) -> bool {
    match (schema.get("definitions"), schema.get("$defs")) {
        (None, _) | (Some(Node::Object(_)), None) => false,
        (Some(Node::Object(old)), Some(new @ Node::Object(_))) => {
            let names = new.names();
            old.iter().any(|member| names.contains(&*member.name))
        }
        (Some(_), _) => true,
    }
}

/// The keywords whose values are references.
const REFERENCES: [&str; 2] = ["$ref", "$dynamicRef"];

fn definitions(schema: &mut Node<'_>, mut change: impl FnMut(SchemaChangeKind)) {
    for keyword in REFERENCES {
        if let Some(reference) = schema.get_mut(keyword)
            && let Moved::To(Some(moved)) = moved(reference)
        {
            *reference = Node::Leaf(moved.into());
            change(SchemaChangeKind::Reference);
        }
    }
    if !matches!(schema.get("definitions"), Some(Node::Object(_))) {
        return;
    }
    if schema.has("$defs") {
        let old = schema.get_mut("definitions").and_then(Node::members_mut).map(core::mem::take);
        schema
            .get_mut("$defs")
            .and_then(Node::members_mut)
            .into_iter()
            .for_each(|new| new.extend(old.iter().flatten().cloned()));
        schema.remove("definitions");
    } else {
        let definitions = schema.members_mut().into_iter().flatten().filter(|member| member.name == "definitions");
        definitions.for_each(|member| member.rename("$defs"));
    }
    change(SchemaChangeKind::DefinitionsMoved);
}

/// Removes null from a union with other types or branches, and returns whether it did. Unions for which `stays` returns
/// true do not change.
fn drop_null(schema: &mut Node<'_>, stays: impl Fn(&str) -> bool) -> bool {
    if schema.get("const").is_some_and(|value| value.is("null")) {
        return false;
    }
    let mut dropped = false;
    if let Some(Node::Array(types)) = schema.get_mut("type")
        && types.iter().any(|name| !name.is_string("null"))
    {
        let before = types.len();
        types.retain(|name| !name.is_string("null"));
        dropped = types.len() < before;
        let only = types.pop_if(|_| dropped && before == 2);
        if let (Some(only), Some(slot)) = (only, schema.get_mut("type")) {
            *slot = only;
        }
        if let Some(Node::Array(values)) = schema.get_mut("enum")
            && dropped
            && values.iter().any(|value| !value.is("null"))
        {
            values.retain(|value| !value.is("null"));
        }
    }
    for keyword in ["anyOf", "oneOf"] {
        dropped |= !stays(keyword) && drop_null_branch(schema, keyword);
    }
    if dropped && schema.get("default").is_some_and(|value| value.is("null")) {
        schema.remove("default");
    }
    dropped
}

fn drop_null_branch(schema: &mut Node<'_>, keyword: &'static str) -> bool {
    let Some(Node::Array(branches)) = schema.get_mut(keyword) else { return false };
    if branches.iter().all(is_null_schema) || !branches.iter().any(is_null_schema) {
        return false;
    }
    branches.retain(|branch| !is_null_schema(branch));
    // The remaining branch replaces the union if they do not affect each other: `additionalProperties`, `items`,
    // `contains`, `unevaluated…` and, before 2020-12, `$ref` depend on the keywords next to them.
    let [Node::Object(inner)] = &**branches else { return true };
    let inner = inner.clone();
    let names = schema.names();
    let constrains = names.iter().any(|name| *name != keyword && !describes(name) && !identifies(name));
    let clashes = |name: &str| identifies(name) || names.contains(name) && !describes(name);
    if constrains || inner.iter().any(|member| clashes(&member.name)) {
        return true;
    }
    let fresh: Vec<_> = inner.into_iter().filter(|member| !names.contains(&*member.name)).collect();
    schema.replace(keyword, fresh);
    true
}

/// Whether a keyword only describes the schema, without effect on validation.
fn describes(keyword: &str) -> bool {
    let access = ["deprecated", "readOnly", "writeOnly"];
    matches!(keyword, "title" | "description" | "default" | "examples" | "$comment") || access.contains(&keyword)
}

/// Whether a keyword only serves references, without effect on validation.
fn identifies(keyword: &str) -> bool {
    let anchors = ["$anchor", "$dynamicAnchor", "$recursiveAnchor"];
    matches!(keyword, "$schema" | "$id" | "id" | "$vocabulary" | "$defs" | "definitions") || anchors.contains(&keyword)
}

/// Whether a schema accepts exactly null.
fn is_null_schema(schema: &Node<'_>) -> bool {
    let only = |name: &str| {
        let others = ["title", "description", "default"];
        schema.members().iter().all(|member| member.name == name || others.contains(&&*member.name))
    };
    match (schema.get("type"), schema.get("const"), schema.get("enum")) {
        (Some(name), None, None) => only("type") && name.is_string("null"),
        (None, Some(value), None) => only("const") && value.is("null"),
        (None, None, Some(Node::Array(values))) => {
            only("enum") && !values.is_empty() && values.iter().all(|value| value.is("null"))
        }
        _ => false,
    }
}

/// The type that a schema's keywords imply, if they imply exactly one.
fn implied(schema: &Node<'_>) -> Option<&'static str> {
    let mut found = None;
    for member in schema.members() {
        let implied = match &*member.name {
            // These may accept any type.
            "$ref" | "$dynamicRef" | "allOf" | "anyOf" | "oneOf" => return None,
            "properties"
            | "patternProperties"
            | "additionalProperties"
            | "unevaluatedProperties"
            | "required"
            | "propertyNames"
            | "minProperties"
            | "maxProperties"
            | "dependentRequired"
            | "dependentSchemas" => "object",
            "items" | "prefixItems" | "additionalItems" | "unevaluatedItems" | "contains" | "minItems" | "maxItems"
            | "uniqueItems" => "array",
            "minLength" | "maxLength" | "pattern" => "string",
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => "number",
            "const" => type_of(&member.value)?,
            "enum" => {
                let mut types = member.value.elements()?.iter().map(type_of);
                let first = types.next()??;
                types.all(|other| other == Some(first)).then_some(first)?
            }
            _ => continue,
        };
        if found.is_some_and(|found| found != implied) {
            return None;
        }
        found = Some(implied);
    }
    found
}

/// The type of a value; `None` for null.
fn type_of(value: &Node<'_>) -> Option<&'static str> {
    Some(match value {
        Node::Array(_) => "array",
        Node::Object(_) => "object",
        Node::Leaf(text) => match text.as_bytes().first()? {
            b'"' => "string",
            b't' | b'f' => "boolean",
            b'n' => return None,
            b'{' => "object",
            b'[' => "array",
            _ => "number",
        },
    })
}

/// The meaning of a keyword's value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeywordKind {
    /// A schema or an array of schemas.
    Schemas,
    /// Schemas by name.
    Named,
    /// Data without schemas.
    Data,
}

impl KeywordKind {
    fn of(keyword: &str) -> Self {
        match keyword {
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" | "dependencies" => {
                Self::Named
            }
            "allOf"
            | "anyOf"
            | "oneOf"
            | "prefixItems"
            | "items"
            | "additionalItems"
            | "unevaluatedItems"
            | "contains"
            | "additionalProperties"
            | "unevaluatedProperties"
            | "propertyNames"
            | "not"
            | "if"
            | "then"
            | "else"
            | "contentSchema" => Self::Schemas,
            _ => Self::Data,
        }
    }
}

/// The position of a schema in the root schema.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// A JSON Pointer (RFC 6901).
    pointer: &'a str,
    /// Whether a stricter schema here makes the root stricter: false under `not`, `if` or `contains`.
    positive: bool,
    /// The number of values that it is in.
    depth: usize,
}

impl Place<'_> {
    const ROOT: Self = Self { pointer: "", positive: true, depth: 0 };
}

/// Calls `each` with every schema that is an object, inner schemas first.
fn schemas<'a>(root: &mut Node<'a>, mut each: impl FnMut(&mut Node<'a>, Place<'_>)) {
    visit(root, &mut String::new(), (true, 0), &mut each);
}

fn visit<'a>(
    schema: &mut Node<'a>,
    pointer: &mut String,
    (positive, depth): (bool, usize),
    each: &mut impl FnMut(&mut Node<'a>, Place<'_>),
) {
    let below = depth.saturating_add(1);
    match schema {
        Node::Leaf(_) => return,
        Node::Array(elements) => {
            for (index, element) in elements.iter_mut().enumerate() {
                within(pointer, &index.to_string(), |pointer| visit(element, pointer, (positive, below), each));
            }
            return;
        }
        Node::Object(members) => {
            for member in members {
                let positive = positive && !matches!(&*member.name, "not" | "if" | "contains");
                let under = KeywordKind::of(&member.name);
                within(pointer, &member.name, |pointer| match (under, &mut member.value) {
                    (KeywordKind::Schemas, value) => visit(value, pointer, (positive, below), each),
                    (KeywordKind::Named, Node::Object(named)) => {
                        let below = below.saturating_add(1);
                        for member in named {
                            within(pointer, &member.name, |pointer| {
                                visit(&mut member.value, pointer, (positive, below), each);
                            });
                        }
                    }
                    (KeywordKind::Named, Node::Leaf(_) | Node::Array(_)) | (KeywordKind::Data, _) => {}
                });
            }
        }
    }
    each(schema, Place { pointer, positive, depth });
}

/// Maximum length of a pointer: thousands of schemas may share one long name in their pointers.
const LONGEST: usize = 512;

/// Whether a pointer is complete.
const fn is_short(pointer: &str) -> bool {
    pointer.len() <= LONGEST
}

/// Appends a character to a step of a pointer, escaped.
fn escape(pointer: &mut String, char: char) {
    match char {
        '~' => pointer.push_str("~0"),
        '/' => pointer.push_str("~1"),
        _ => pointer.push(char),
    }
}

/// Calls `inside` with the pointer extended by one step.
fn within(pointer: &mut String, step: &str, inside: impl FnOnce(&mut String)) {
    let length = pointer.len();
    if length <= LONGEST {
        pointer.push('/');
        for char in step.chars() {
            if pointer.len() > LONGEST {
                pointer.push('…');
                break;
            }
            escape(pointer, char);
        }
    }
    inside(pointer);
    pointer.truncate(length);
}

/// Maximum depth of a parsed schema; deeper values are kept as text.
const DEPTH: usize = 64;

/// A JSON value that can be edited. Unchanged parts are written as they were, except for white space between values.
#[derive(Clone, Debug, PartialEq)]
enum Node<'a> {
    /// The text as written: a scalar, or a value nested too deep.
    Leaf(Cow<'a, str>),
    Array(Vec<Node<'a>>),
    Object(Vec<Member<'a>>),
}

#[derive(Clone, Debug, PartialEq)]
struct Member<'a> {
    /// The text as written, with quotes.
    raw: Cow<'a, str>,
    name: Cow<'a, str>,
    value: Node<'a>,
}

impl<'a> Member<'a> {
    /// A member whose name needs no escapes.
    fn new(name: &'static str, value: Node<'a>) -> Self {
        Self { raw: format!("\"{name}\"").into(), name: name.into(), value }
    }

    fn rename(&mut self, name: &'static str) {
        (self.raw, self.name) = (format!("\"{name}\"").into(), name.into());
    }
}

impl<'a> Node<'a> {
    fn read(json: Json<'a>) -> Self {
        Self::read_to(json, DEPTH)
    }

    fn read_to(json: Json<'a>, depth: usize) -> Self {
        let Some(depth) = depth.checked_sub(1) else { return Self::Leaf(json.text().into()) };
        match json.first() {
            b'{' => {
                let mut members = Vec::new();
                json.raw_members(|raw, value| {
                    // A name that is not a valid string is not a keyword.
                    let name = raw.as_string().unwrap_or(Cow::Borrowed(raw.text()));
                    members.push(Member { raw: raw.text().into(), name, value: Self::read_to(value, depth) });
                });
                // Most objects are smaller than a vector's initial capacity.
                members.shrink_to_fit();
                Self::Object(members)
            }
            b'[' => {
                let elements = json.elements(usize::MAX).map(|elements| elements.kept).unwrap_or_default();
                Self::Array(elements.into_iter().map(|element| Self::read_to(element, depth)).collect())
            }
            _ => Self::Leaf(json.text().into()),
        }
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Leaf(text) => out.push_str(text),
            Self::Array(elements) => {
                out.push('[');
                for (index, element) in elements.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    element.write(out);
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (index, member) in members.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    out.push_str(&member.raw);
                    out.push(':');
                    member.value.write(out);
                }
                out.push('}');
            }
        }
    }

    fn is(&self, text: &str) -> bool {
        matches!(self, Self::Leaf(leaf) if *leaf == text)
    }

    /// Whether it is the string `text`, with or without escapes.
    fn is_string(&self, text: &str) -> bool {
        matches!(self, Self::Leaf(leaf) if Json::trusted(leaf).as_string().as_deref() == Some(text))
    }

    fn members(&self) -> &[Member<'a>] {
        match self {
            Self::Object(members) => members,
            Self::Leaf(_) | Self::Array(_) => &[],
        }
    }

    fn members_mut(&mut self) -> Option<&mut Vec<Member<'a>>> {
        match self {
            Self::Object(members) => Some(members),
            Self::Leaf(_) | Self::Array(_) => None,
        }
    }

    /// The value of the member with this name; the last one if it is repeated, as parsers do.
    fn get(&self, name: &str) -> Option<&Self> {
        self.members().iter().rev().find(|member| member.name == name).map(|member| &member.value)
    }

    fn get_mut(&mut self, name: &str) -> Option<&mut Self> {
        self.members_mut()?.iter_mut().rev().find(|member| member.name == name).map(|member| &mut member.value)
    }

    /// The members' names, for many lookups.
    fn names(&self) -> BTreeSet<&str> {
        self.members().iter().map(|member| &*member.name).collect()
    }

    /// About how long it is as JSON, in bytes, and how many values are around its deepest one.
    fn extent(&self) -> (usize, usize) {
        let around = |(bytes, depth): (usize, usize), inner: (usize, usize)| {
            (bytes.saturating_add(inner.0).saturating_add(2), depth.max(inner.1.saturating_add(1)))
        };
        match self {
            Self::Leaf(text) => (text.len(), 0),
            Self::Array(elements) => elements.iter().fold((2, 0), |all, element| around(all, element.extent())),
            Self::Object(members) => members.iter().fold((2, 0), |all, member| {
                let (bytes, depth) = member.value.extent();
                around(all, (bytes.saturating_add(member.raw.len()), depth))
            }),
        }
    }

    /// Whether it contains a value that was too deep to be parsed.
    fn is_cut(&self) -> bool {
        match self {
            Self::Leaf(text) => text.starts_with(['{', '[']),
            Self::Array(elements) => elements.iter().any(Self::is_cut),
            Self::Object(members) => members.iter().any(|member| member.value.is_cut()),
        }
    }

    fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    fn elements(&self) -> Option<&[Self]> {
        match self {
            Self::Array(elements) => Some(elements),
            Self::Leaf(_) | Self::Object(_) => None,
        }
    }

    fn elements_mut(&mut self) -> Option<&mut Vec<Self>> {
        match self {
            Self::Array(elements) => Some(elements),
            Self::Leaf(_) | Self::Object(_) => None,
        }
    }

    fn written(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    /// Sets the value of the member of this name, where the last of them is, or at the end.
    fn put(&mut self, name: &'static str, value: Self) {
        let Some(members) = self.members_mut() else { return };
        let mut value = Some(value);
        let last = members.iter().rposition(|member| member.name == name);
        let mut at = 0_usize;
        members.retain_mut(|member| {
            let is_last = last == Some(at);
            at = at.saturating_add(1);
            if let Some(value) = value.take_if(|_| is_last) {
                member.value = value;
            }
            member.name != name || is_last
        });
        members.extend(value.map(|value| Member::new(name, value)));
    }

    fn remove(&mut self, name: &str) {
        self.replace(name, Vec::new());
    }

    /// Replaces the members of this name.
    fn replace(&mut self, name: &str, others: Vec<Member<'a>>) {
        if let Some(members) = self.members_mut() {
            members.retain(|member| member.name != name);
            members.extend(others);
        }
    }
}

/// How a reference changes when `definitions` is renamed to `$defs`.
enum Moved {
    /// The new reference as JSON; `None` if it does not change.
    To(Option<String>),
    /// It passes through `definitions` of a schema with an address of its own.
    Elsewhere,
    /// It passes through an unknown keyword.
    Unknown,
}

/// Rewrites a reference for the renaming of `definitions` to `$defs`.
fn moved(reference: &Node<'_>) -> Moved {
    let Some(reference) = text(reference) else { return Moved::To(None) };
    let Some((address, fragment)) = reference.split_once('#') else { return Moved::To(None) };
    let fragment = with_slashes(fragment);
    let Some(steps) = fragment.strip_prefix('/') else { return Moved::To(None) };
    let mut moved = String::from("#");
    let mut changed = false;
    // The step is a name, such as that of a property, and not a keyword.
    let mut is_name = false;
    for raw in steps.split('/') {
        let step = decoded(raw);
        moved.push('/');
        let is_index = !step.is_empty() && step.bytes().all(|byte| byte.is_ascii_digit());
        if core::mem::take(&mut is_name) || is_index {
            moved.push_str(raw);
            continue;
        }
        match KeywordKind::of(&step) {
            KeywordKind::Named => is_name = true,
            KeywordKind::Schemas => {}
            // The structure of other documents does not matter.
            KeywordKind::Data if address.is_empty() => return Moved::Unknown,
            KeywordKind::Data => return Moved::To(None),
        }
        let is_moved = step == "definitions";
        changed |= is_moved;
        moved.push_str(if is_moved { "$defs" } else { raw });
    }
    if changed && !address.is_empty() {
        return Moved::Elsewhere;
    }
    Moved::To(changed.then(|| serde_json::to_string(&moved).ok()).flatten())
}

/// The unions whose branches are referenced by index.
#[derive(Default)]
struct Targets {
    /// Hashes of JSON Pointers to the unions. If two collide, both unions stay as they are.
    unions: BTreeSet<u64>,
    /// Whether a pointer was too long to be compared.
    long: bool,
}

impl Targets {
    fn add(&mut self, reference: &Node<'_>) {
        let reference = text(reference).unwrap_or_default();
        let fragment = with_slashes(reference.split_once('#').map_or("", |(_, fragment)| fragment));
        let Some(steps) = fragment.strip_prefix('/') else { return };
        let mut pointer = String::new();
        let mut steps = steps.split('/').map(decoded).peekable();
        while let Some(step) = steps.next() {
            if !is_short(&pointer) {
                self.long = true;
                return;
            }
            pointer.push('/');
            step.chars().for_each(|char| escape(&mut pointer, char));
            if matches!(&*step, "anyOf" | "oneOf") && steps.peek().is_some() {
                self.unions.insert(hash(pointer.as_bytes()));
            }
        }
    }

    /// Whether a branch of this union is referenced.
    fn are_in(&self, schema: &str, keyword: &str) -> bool {
        if !is_short(schema) {
            return self.long;
        }
        !self.unions.is_empty() && self.unions.contains(&hash([schema, "/", keyword].concat().as_bytes()))
    }
}

fn text<'a>(reference: &'a Node<'_>) -> Option<Cow<'a, str>> {
    match reference {
        Node::Leaf(text) => Json::trusted(text).as_string(),
        Node::Array(_) | Node::Object(_) => None,
    }
}

/// The fragment with percent-encoded slashes decoded; slashes separate the steps of a JSON Pointer.
fn with_slashes(fragment: &str) -> Cow<'_, str> {
    if fragment.contains('%') { fragment.replace("%2F", "/").replace("%2f", "/").into() } else { fragment.into() }
}

/// One step of a JSON Pointer in a fragment (RFC 6901, section 6), decoded.
fn decoded(step: &str) -> Cow<'_, str> {
    let mut step = Cow::Borrowed(step);
    if step.contains('%') {
        step = String::from_utf8(percent_decoded(&step)).map_or(step, Cow::Owned);
    }
    if step.contains('~') { step.replace("~1", "/").replace("~0", "~").into() } else { step }
}
