//! Schemas.

use std::borrow::Cow;

use mcp_proto::host::schema::{Adapted, Pass, Profile, SchemaChange, SchemaChangeKind, adapt, without_nulls};
use mcp_proto::jsonrpc::without_lone_surrogates;
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::input::raw;

/// Reads the bytes as a schema.
pub(super) fn check(json: &[u8]) -> String {
    let Ok(schema) = serde_json::from_slice::<&RawValue>(json) else { return String::new() };
    check_passes(schema);
    check_profiles(schema);
    if let Ok(value) = serde_json::from_slice::<Value>(json) {
        check_places(&value);
    }
    format!("{:?}", adapt(schema, Pass::BASIC))
}

/// Invariants for every JSON value, including invalid schemas.
pub(super) fn check_passes(schema: &RawValue) {
    for passes in [Pass::BASIC, &Pass::BASIC[..1], &Pass::BASIC[1..2], &Pass::BASIC[2..], &[]] {
        let Adapted { schema: new, changes, .. } = adapt(schema, passes);
        let same = matches!(new, Cow::Borrowed(same) if std::ptr::eq(same, schema));
        // Half of a surrogate pair is replaced without a change that is reported.
        let readable = without_lone_surrogates(schema.get());
        assert_eq!(changes.is_empty() && readable == schema.get(), same, "{changes:?}");
        assert_eq!(changes.is_empty(), new.get() == readable, "{changes:?} {new}");
        let read = serde_json::from_str::<&RawValue>(new.get()).unwrap_or_else(|error| panic!("{new}: {error}"));
        assert_eq!(read.get(), new.get());
        changes.iter().for_each(|change| check_pointer(&change.at));
        assert!(new.get().len() <= schema.get().len() + 32 * changes.len(), "{new}");
        let again = adapt(&new, passes);
        assert!(again.changes.is_empty(), "{new} is not all that there is to do: {:?}", again.changes);
    }
}

/// What a profile gives out is JSON of a bounded size, whatever came in.
fn check_profiles(schema: &RawValue) {
    for profile in Profile::ALL {
        let new = adapt(schema, profile.passes()).schema;
        assert!(serde_json::from_str::<&RawValue>(new.get()).is_ok(), "{profile:?}: {new}");
        // Definitions, types and descriptions are added.
        assert!(new.get().len() <= 64 * schema.get().len() + (512 << 10), "{profile:?}: {} bytes", new.get().len());
        let pruned = without_nulls(schema, schema);
        assert!(pruned.get().len() <= schema.get().len() && serde_json::from_str::<&RawValue>(pruned.get()).is_ok());
    }
}

/// Pointers are short, however long the names in them are.
pub(super) fn check_pointer(pointer: &str) {
    assert!(pointer.len() <= 1024, "a pointer of {} bytes", pointer.len());
}

/// A reported change is at its reported place. No object repeats a member, so that a pointer is unambiguous.
fn check_places(value: &Value) {
    let schema = raw(&value.to_string());
    // A large number may be read as another one than was written.
    let value: &Value = &serde_json::from_str(schema.get()).expect("what is written can be read");
    for &pass in Pass::BASIC {
        let adapted = pass.apply(&schema);
        let new: Value = serde_json::from_str(adapted.schema.get()).expect("what can be read before can be after");
        assert_eq!(new == *value, adapted.changes.is_empty(), "{:?}", adapted.changes);
        for change in adapted.changes.iter().filter(|change| !change.at.contains('…')) {
            let Some(Value::Object(old)) = value.pointer(&change.at) else { panic!("nothing is there: {change}") };
            assert!(change.to_string().starts_with(if change.at.is_empty() { "(root)" } else { &change.at }));
            match change.kind {
                SchemaChangeKind::DefinitionsMoved => assert!(old.contains_key("definitions"), "{change}"),
                SchemaChangeKind::Reference => check_reference(value, &new, change),
                SchemaChangeKind::NullDropped => {
                    assert!(["type", "anyOf", "oneOf"].iter().any(|key| old.contains_key(*key)), "{change}");
                }
                SchemaChangeKind::TypeAdded(_) => assert!(!old.contains_key("type"), "{change}"),
                _ => {}
            }
        }
    }
}

/// A valid reference stays valid.
fn check_reference(old: &Value, new: &Value, change: &SchemaChange) {
    let place = old.pointer(&change.at).and_then(|schema| schema["$ref"].as_str()).expect("a reference");
    let moved = place_after(new, &change.at)["$ref"].as_str().expect("a reference");
    assert_ne!(place, moved);
    // A number may be a name under an unknown keyword.
    if place.split('/').any(|step| !step.is_empty() && step.bytes().all(|byte| byte.is_ascii_digit())) {
        return;
    }
    let leads = |value: &Value, reference: &str| value.pointer(reference.trim_start_matches('#')).is_some();
    assert!(!leads(old, place) || leads(new, moved), "{place} led somewhere, and {moved} leads nowhere");
}

/// The place after `definitions` was renamed to `$defs`.
fn place_after<'v>(mut new: &'v Value, pointer: &str) -> &'v Value {
    for step in pointer.split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        let moved = if step == "definitions" && new.get(&step).is_none() { "$defs" } else { &step };
        new = match new {
            Value::Array(elements) => &elements[moved.parse::<usize>().expect("an index")],
            other => &other[moved],
        };
    }
    new
}
