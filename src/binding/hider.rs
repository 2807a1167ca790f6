//! Secrets hidden where a server repeats them.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use zeroize::{Zeroize, Zeroizing};

use crate::encodings::forms;

/// A shorter secret could be any word.
const SHORTEST: usize = 6;

pub(super) const HIDDEN: &str = "[hidden]";

/// Hides secrets in texts, as they are and encoded, also one that was cut off before a `…`. One pass over a text finds all of
/// them (Aho and Corasick), whatever is in it.
#[derive(Clone)]
pub(super) struct Hider {
    /// The beginnings of all forms, as a tree; the first is the empty one.
    nodes: Vec<Node>,
    /// The children of the first node, by their bytes; 0 for none.
    first: Box<[u32; 256]>,
    /// What follows a beginning that is too long to be in the tree.
    rests: Vec<(u32, Zeroizing<String>)>,
}

/// The beginning of a form.
#[derive(Clone, Copy, Default)]
struct Node {
    /// Its last byte.
    byte: u8,
    length: u8,
    /// Its first child, and the next child of its parent; 0 for none.
    child: u32,
    sibling: u32,
    /// The longest beginning that it ends with, itself apart.
    shorter: u32,
    /// The longest one that it ends with, itself included, that is all of a form, or all of it that is in the tree; 0 for
    /// none.
    found: u32,
}

/// Bytes of a form that are in the tree.
const LONGEST_BEGINNING: usize = 64;

impl Drop for Hider {
    fn drop(&mut self) {
        self.overwrite();
    }
}

impl fmt::Debug for Hider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl Hider {
    pub(super) fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hider = Self { nodes: Vec::from([Node::default()]), first: Box::new([0; 256]), rests: Vec::new() };
        let secrets: BTreeSet<_> = secrets.into_iter().collect();
        for secret in secrets.into_iter().filter(|secret| secret.len() >= SHORTEST) {
            let forms = forms(secret, HIDDEN).into_iter().map(|(form, _)| Zeroizing::new(form));
            forms.filter(|form| form.len() >= SHORTEST).for_each(|form| hider.insert(&form));
        }
        hider.connect();
        hider
    }

    /// Overwrites what is in its own memory. What `Zeroizing` holds overwrites itself.
    fn overwrite(&mut self) {
        self.nodes.iter_mut().for_each(|node| node.byte.zeroize());
        self.first.zeroize();
    }

    fn node(&self, at: u32) -> Node {
        usize::try_from(at).ok().and_then(|at| self.nodes.get(at)).copied().unwrap_or_default()
    }

    /// Changes a node. One that is absent stays so.
    fn change(&mut self, at: u32, change: impl FnOnce(&mut Node)) {
        if let Some(node) = usize::try_from(at).ok().and_then(|at| self.nodes.get_mut(at)) {
            change(node);
        }
    }

    /// The beginning that this one and a byte are; 0 for none.
    fn child(&self, at: u32, byte: u8) -> u32 {
        if at == 0 {
            return self.first.get(usize::from(byte)).copied().unwrap_or_default();
        }
        let mut child = self.node(at).child;
        while child != 0 && self.node(child).byte != byte {
            child = self.node(child).sibling;
        }
        child
    }

    fn insert(&mut self, form: &str) {
        let (beginning, rest) = form.split_at_checked(floor(form, LONGEST_BEGINNING)).unwrap_or((form, ""));
        let (mut at, mut length) = (0, 0_u8);
        for byte in beginning.bytes() {
            length = length.saturating_add(1);
            let mut child = self.child(at, byte);
            if child == 0 {
                child = u32::try_from(self.nodes.len()).unwrap_or_default();
                let sibling = self.node(at).child;
                self.nodes.push(Node { byte, length, sibling, ..Node::default() });
                self.change(at, |node| node.child = child);
                if let (0, Some(first)) = (at, self.first.get_mut(usize::from(byte))) {
                    *first = child;
                }
            }
            at = child;
        }
        self.change(at, |node| node.found = at);
        if !rest.is_empty() {
            self.rests.push((at, Zeroizing::new(rest.into())));
        }
    }

    /// Finds the shorter beginnings, from the shortest nodes to the longest.
    fn connect(&mut self) {
        let mut queue = VecDeque::from([0]);
        while let Some(parent) = queue.pop_front() {
            let mut child = self.node(parent).child;
            while child != 0 {
                let Node { byte, sibling, found, .. } = self.node(child);
                let shorter = if parent == 0 { 0 } else { self.follow(self.node(parent).shorter, byte) };
                let of_shorter = self.node(shorter).found;
                let found = if found == 0 { of_shorter } else { found };
                self.change(child, |node| (node.shorter, node.found) = (shorter, found));
                queue.push_back(child);
                child = sibling;
            }
        }
    }

    /// The longest beginning that a text ends with, which ended with this one before this byte.
    fn follow(&self, mut at: u32, byte: u8) -> u32 {
        loop {
            match self.child(at, byte) {
                0 if at == 0 => return 0,
                0 => at = self.node(at).shorter,
                child => return child,
            }
        }
    }

    /// The text without secrets.
    pub(super) fn hide<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut hidden = Hidden { text, out: String::new(), copied: 0, found: VecDeque::new() };
        // The end of what is known to be hidden.
        let (mut at, mut until) = (0, 0);
        for (place, byte) in text.bytes().enumerate() {
            let cut = usize::from(self.node(at).length);
            if cut >= SHORTEST && text.get(place..).is_some_and(|rest| rest.starts_with('…')) {
                hidden.add(place.saturating_sub(cut), place);
            }
            at = self.follow(at, byte);
            let found = self.node(at).found;
            if found != 0 {
                let end = place.saturating_add(1);
                let begin = end.saturating_sub(self.node(found).length.into());
                if end >= until {
                    until = end.saturating_add(self.rest_at(found, text.get(end..).unwrap_or_default()));
                }
                hidden.add(begin, until.max(end));
            }
        }
        hidden.finish()
    }

    /// Whether a text has a secret.
    #[cfg(feature = "oauth")]
    pub(super) fn finds_in(&self, text: &str) -> bool {
        matches!(self.hide(text), Cow::Owned(_))
    }

    /// How much of what follows a beginning is at the start of a text.
    fn rest_at(&self, beginning: u32, text: &str) -> usize {
        let rests = self.rests.iter().filter(|(at, _)| *at == beginning).map(|(_, rest)| rest);
        let same =
            |rest: &Zeroizing<String>| rest.bytes().zip(text.bytes()).take_while(|(one, other)| one == other).count();
        floor(text, rests.map(same).max().unwrap_or_default())
    }
}

/// The last boundary of a character that is not after this one.
fn floor(text: &str, most: usize) -> usize {
    (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default()
}

/// A text in which secrets are found, in the order of their ends.
struct Hidden<'t> {
    text: &'t str,
    out: String,
    /// The part of the text that is in the output.
    copied: usize,
    /// What is found and may still grow.
    found: VecDeque<(usize, usize)>,
}

impl<'t> Hidden<'t> {
    fn add(&mut self, mut begin: usize, mut end: usize) {
        // What comes later begins after this.
        let settled = end.saturating_sub(LONGEST_BEGINNING);
        self.emit(self.found.iter().take_while(|(_, until)| *until <= settled.min(begin)).count());
        while let Some((from, until)) = self.found.back().copied()
            && until > begin
        {
            (begin, end) = (begin.min(from), end.max(until));
            self.found.pop_back();
        }
        self.found.push_back((begin, end));
    }

    /// Writes what precedes the first ones, and a mask for each.
    fn emit(&mut self, count: usize) {
        for (begin, end) in self.found.drain(..count) {
            self.out.push_str(self.text.get(self.copied..begin).unwrap_or_default());
            self.out.push_str(HIDDEN);
            self.copied = end;
        }
    }

    fn finish(mut self) -> Cow<'t, str> {
        self.emit(self.found.len());
        if self.copied == 0 {
            return Cow::Borrowed(self.text);
        }
        self.out.push_str(self.text.get(self.copied..).unwrap_or_default());
        Cow::Owned(self.out)
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    #[test]
    fn the_debug_of_what_holds_secrets_shows_none() {
        assert_eq!(format!("{:?}", Hider::new(["hush-hush"])), "…");
    }

    /// What is in freed memory cannot be seen without unsafe code. That it is overwritten is shown by the types, and by the
    /// function that `drop` calls.
    #[test]
    fn what_holds_a_secret_overwrites_it_when_it_is_dropped() {
        fn overwrites<T: zeroize::ZeroizeOnDrop>(_: &T) {}
        let long = "secret-token".repeat(9);
        let mut hider = Hider::new([&*long]);
        hider.rests.iter().for_each(|(_, rest)| overwrites(rest));
        assert!(hider.nodes.len() > LONGEST_BEGINNING && !hider.rests.is_empty());
        hider.overwrite();
        assert!(hider.nodes.iter().all(|node| node.byte == 0) && hider.first.iter().all(|child| *child == 0));
    }

    #[test]
    fn a_node_that_is_absent_stays_so() {
        let mut hider = Hider::new(["secret"]);
        let nodes = hider.nodes.len();
        hider.change(u32::MAX, |node| node.found = 1);
        assert_eq!((hider.nodes.len(), &*hider.hide("a secret")), (nodes, "a [hidden]"));
    }

    #[test]
    fn a_secret_is_hidden_wherever_it_is_and_however_it_is_cut() {
        let (secret, short) = ("secret-token", "abc");
        for (text, shown) in [
            ("bad secret-token, secret-token", "bad [hidden], [hidden]"),
            ("the token secret-…", "the token [hidden]…"),
            ("the token secret-… and secret-to…", "the token [hidden]… and [hidden]…"),
            ("a secret is no token", "a secret is no token"),
            ("abc", "abc"),
            ("secret-", "secret-"),
            ("", ""),
            ("…", "…"),
        ] {
            assert_eq!(&*Hider::new([secret, short]).hide(text), shown);
        }
    }

    #[test]
    fn a_secret_is_hidden_in_each_encoding() {
        let secret = "1//0g token+\"hash";
        for (text, shown) in [
            ("a=b&refresh_token=1%2F%2F0g%20token%2B%22hash&c=d", "a=b&refresh_token=[hidden]&c=d"),
            ("a=b&refresh_token=1%2f%2f0g+token%2b%22hash", "a=b&refresh_token=[hidden]"),
            // `app:` and the secret, as it is and form-encoded.
            ("Basic YXBwOjEvLzBnIHRva2VuKyJoYXNo.", "Basic YXBwOj[hidden]."),
            ("Basic YXBwOjElMkYlMkYwZyUyMHRva2VuJTJCJTIyaGFzaA==", "Basic YXBwOj[hidden]=="),
            (r#""1\/\/0g token+\"hash""#, "\"[hidden]\""),
            (r#""1//0g token+\"hash""#, "\"[hidden]\""),
            ("token 1%2F%2F0g%20…", "token [hidden]…"),
        ] {
            assert_eq!(&*Hider::new([secret]).hide(text), shown);
        }
    }

    #[test]
    fn the_longest_beginning_of_a_secret_is_hidden_at_the_end() {
        let texts = ["aaaaaaab", "abaabaabaab", "aaaaaaaa", "abababababc", "ééééab", "abcdefgh"];
        for secret in texts {
            let hider = Hider::new([secret]);
            for text in texts.iter().flat_map(|one| texts.map(|other| [*one, other].concat())) {
                for text in (0..=text.len()).filter_map(|end| text.get(..end)).filter(|text| !text.contains(secret)) {
                    let longest = (SHORTEST..=secret.len())
                        .rev()
                        .filter_map(|length| secret.get(..length))
                        .find_map(|beginning| text.strip_suffix(beginning));
                    let expected = longest.map_or_else(|| format!("{text}…"), |shown| format!("{shown}{HIDDEN}…"));
                    assert_eq!(hider.hide(&format!("{text}…")), expected, "{text} {secret}");
                }
            }
        }
    }

    #[test]
    fn secrets_are_hidden_wherever_they_overlap() {
        let long = format!("{}{}", "x".repeat(100), "y".repeat(100));
        let cut = |end| long.get(..end).unwrap();
        let cases = [
            // One is part of another, or goes on in it.
            (&["secret-token", "token-more"][..], "a secret-token-more b", "a [hidden] b"),
            (&["secret-token", "et-tok"], "secret-token et-tok", "[hidden] [hidden]"),
            (&["abcabcabc"], "abcabcabcabcabc", "[hidden]"),
            (&["abcdef", "abcdef"], "abcdefabcdef", "[hidden][hidden]"),
            // One that is longer than the tree, whole, cut, and with another end.
            (&[&long], &format!("a {long} b"), "a [hidden] b"),
            (&[&long], &format!("a {}… b", cut(150)), "a [hidden]… b"),
            (&[&long], &format!("a {}z b", cut(150)), "a [hidden]z b"),
            (&[&long], &format!("a {} b", cut(50)), &format!("a {} b", cut(50))),
            (&[&long, &format!("{}z", cut(190))], &format!("a {}z b", cut(190)), "a [hidden] b"),
            (&[&long], &format!("{}é", cut(150)), "[hidden]é"),
        ];
        for (secrets, text, shown) in cases {
            assert_eq!(Hider::new(secrets.iter().copied()).hide(text), shown, "{text}");
        }
        let text = format!("{}ä", "é".repeat(40));
        assert_eq!(Hider::new([&*text]).hide(&format!("{}ö", "é".repeat(40))), "[hidden]ö");
    }

    #[test]
    fn what_has_no_secret_stays_as_it_is() {
        assert!(matches!(Hider::new(["secret-token"]).hide("a secret-toke"), Cow::Borrowed(_)));
        assert!(matches!(Hider::new([]).hide("…"), Cow::Borrowed("…")));
    }

    /// A search that starts anew for each beginning, or for each secret, would take minutes.
    #[test]
    fn the_cost_of_hiding_is_linear_whatever_repeats() {
        let text = "a".repeat(1 << 18);
        let secrets: Vec<_> = (0..4).map(|at| format!("{}{at}", "a".repeat(10_000))).collect();
        assert_eq!(Hider::new(secrets.iter().map(String::as_str)).hide(&text), HIDDEN);
    }
}
