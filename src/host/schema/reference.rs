use alloc::borrow::Cow;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use super::tree::Node;
use super::walk::{KeywordKind, escape, is_short};
use crate::catalog::hash;
use crate::jsonrpc::Json;

/// How a reference changes when `definitions` is renamed to `$defs`.
pub(super) enum Moved {
    /// The new reference as JSON; `None` if it does not change.
    To(Option<String>),
    /// It passes through `definitions` of a schema with an address of its own.
    Elsewhere,
    /// It passes through an unknown keyword.
    Unknown,
}

/// Rewrites a reference for the renaming of `definitions` to `$defs`.
pub(super) fn moved(reference: &Node<'_>) -> Moved {
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
pub(super) struct Targets {
    /// Hashes of JSON Pointers to the unions. If two collide, both unions stay as they are.
    unions: BTreeSet<u64>,
    /// Whether a pointer was too long to be compared.
    long: bool,
}

impl Targets {
    pub(super) fn add(&mut self, reference: &Node<'_>) {
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
    pub(super) fn are_in(&self, schema: &str, keyword: &str) -> bool {
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
        step = percent_decoded(&step).map_or(step, Cow::Owned);
    }
    if step.contains('~') { step.replace("~1", "/").replace("~0", "~").into() } else { step }
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let byte = if byte == b'%' { u8::try_from(digit()? << 4 | digit()?).ok()? } else { byte };
        bytes.push(byte);
    }
    String::from_utf8(bytes).ok()
}
