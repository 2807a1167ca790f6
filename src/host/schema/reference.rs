use alloc::borrow::Cow;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use super::tree::Node;
use super::walk::{Under, escape, is_short};
use crate::catalog::hash;
use crate::jsonrpc::Json;

/// What becomes of a reference once `definitions` are `$defs`.
pub(super) enum Moved {
    /// It is this, as JSON; unset where it stays as it is.
    To(Option<String>),
    /// It leads through `definitions` of the schema with some address.
    Elsewhere,
    /// It leads where nothing is known to be a schema.
    Unknown,
}

/// Where a reference leads once `definitions` are `$defs`.
pub(super) fn moved(reference: &Node<'_>) -> Moved {
    let Some(reference) = text(reference) else { return Moved::To(None) };
    let Some((address, fragment)) = reference.split_once('#') else { return Moved::To(None) };
    let fragment = with_slashes(fragment);
    let Some(steps) = fragment.strip_prefix('/') else { return Moved::To(None) };
    let mut moved = String::from("#");
    let mut changed = false;
    // A name is no keyword, wherever it stands.
    let mut is_name = false;
    for raw in steps.split('/') {
        let step = decoded(raw);
        moved.push('/');
        let is_index = !step.is_empty() && step.bytes().all(|byte| byte.is_ascii_digit());
        if core::mem::take(&mut is_name) || is_index {
            moved.push_str(raw);
            continue;
        }
        match Under::keyword(&step) {
            Under::Named => is_name = true,
            Under::Schemas => {}
            // In another document it is that one's affair.
            Under::Data if address.is_empty() => return Moved::Unknown,
            Under::Data => return Moved::To(None),
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

/// The places that references lead to by the number of a branch of `anyOf` or `oneOf`.
#[derive(Default)]
pub(super) struct Targets {
    /// Hashes of JSON Pointers to the unions. Two that collide both stay as they are.
    unions: BTreeSet<u64>,
    /// Some are too long to be told apart.
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

    /// Whether a branch of this union is among them.
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

/// A fragment whose slashes, which separate the steps of a JSON Pointer, are not percent-encoded.
fn with_slashes(fragment: &str) -> Cow<'_, str> {
    if fragment.contains('%') { fragment.replace("%2F", "/").replace("%2f", "/").into() } else { fragment.into() }
}

/// A step of a JSON Pointer in a fragment (RFC 6901, section 6), decoded.
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
