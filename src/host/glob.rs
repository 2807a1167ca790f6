/// Whether a pattern has characters with a meaning; otherwise it is a name.
pub(super) fn is_glob(pattern: &str) -> bool {
    pattern.contains(['*', '?', '['])
}

/// Whether the whole text matches the pattern: `*` stands for any text, the empty one included, `?` for any character,
/// `[a-z_]` for one of these, `[!a-z]` for any other one. A `[` that is not closed stands for itself.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let Some((start, mut pattern)) = split_star(pattern) else { return match_start(pattern, text) == Some("") };
    let Some(mut text) = match_start(start, text) else { return false };
    // Matching each part as early as possible leaves the most text for the later parts.
    while let Some((part, rest)) = split_star(pattern) {
        let Some(after) = match_first(part, text) else { return false };
        (pattern, text) = (rest, after);
    }
    match_end(pattern, text)
}

/// Splits a pattern at its first `*`, if there is one outside of a set.
fn split_star(pattern: &str) -> Option<(&str, &str)> {
    let mut rest = pattern;
    loop {
        let at = rest.find(['*', '['])?;
        rest = rest.get(at..)?;
        if let Some(after) = rest.strip_prefix('*') {
            let before = pattern.len().saturating_sub(rest.len());
            return Some((pattern.get(..before)?, after));
        }
        rest = rest.strip_prefix('[')?;
        rest = set(rest).map_or(rest, |(_, _, after)| after);
    }
}

/// Matches a part without `*` at the beginning of a text. Returns the rest of the text.
fn match_start<'t>(mut part: &str, mut text: &'t str) -> Option<&'t str> {
    if !is_glob(part) {
        return text.strip_prefix(part);
    }
    while !part.is_empty() {
        (part, text) = match_one(part, text)?;
    }
    Some(text)
}

/// Matches a part without `*` as early in a text as possible. Returns the rest of the text.
fn match_first<'t>(part: &str, text: &'t str) -> Option<&'t str> {
    if !is_glob(part) {
        return text.split_once(part).map(|(_, rest)| rest);
    }
    text.char_indices().find_map(|(at, _)| match_start(part, text.get(at..)?))
}

/// Matches a part without `*` at the end of a text. Each of its elements stands for one character.
fn match_end(part: &str, text: &str) -> bool {
    if !is_glob(part) {
        return text.ends_with(part);
    }
    let last = elements(part).saturating_sub(1);
    let at = text.char_indices().rev().nth(last).map(|(at, _)| at);
    at.and_then(|at| text.get(at..)).is_some_and(|end| match_start(part, end) == Some(""))
}

/// The number of elements of a part: characters and sets.
fn elements(mut part: &str) -> usize {
    let mut count = 0_usize;
    loop {
        let mut chars = part.chars();
        let Some(first) = chars.next() else { return count };
        count = count.saturating_add(1);
        let rest = chars.as_str();
        part = if first == '[' { set(rest).map_or(rest, |(_, _, after)| after) } else { rest };
    }
}

/// Matches one character. Returns the rest of the pattern and of the text.
fn match_one<'p, 't>(pattern: &'p str, text: &'t str) -> Option<(&'p str, &'t str)> {
    let (mut elements, mut chars) = (pattern.chars(), text.chars());
    let (element, char) = (elements.next()?, chars.next()?);
    let rest = elements.as_str();
    let (matched, rest) = match element {
        '?' => (true, rest),
        '[' => match set(rest) {
            Some((negated, members, after)) => (has(members, char) != negated, after),
            None => (char == '[', rest),
        },
        _ => (element == char, rest),
    };
    matched.then_some((rest, chars.as_str()))
}

/// Splits what follows a `[`: whether the set is negated, its members, the rest of the pattern. A `]` that comes first
/// is a member.
fn set(pattern: &str) -> Option<(bool, &str, &str)> {
    let inner = pattern.strip_prefix(['!', '^']);
    let (negated, inner) = (inner.is_some(), inner.unwrap_or(pattern));
    let first = inner.chars().next()?.len_utf8();
    let len = inner.get(first..)?.find(']')?.saturating_add(first);
    let (members, rest) = inner.split_at_checked(len)?;
    Some((negated, members, rest.strip_prefix(']')?))
}

/// Whether a character is one of these, or in a range such as `a-z` of them.
fn has(members: &str, char: char) -> bool {
    let mut members = members.chars();
    while let Some(first) = members.next() {
        let mut range = members.clone();
        let last = match (range.next(), range.next()) {
            (Some('-'), Some(last)) => {
                members = range;
                last
            }
            _ => first,
        };
        if (first..=last).contains(&char) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::matches;
    use alloc::string::String;
    use proptest::prelude::*;

    /// A straightforward implementation, without sets.
    fn means(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => (0..=text.len()).any(|at| means(rest, &text[at..])),
            ([b'?', pattern @ ..], [_, text @ ..]) => means(pattern, text),
            ([a, pattern @ ..], [b, text @ ..]) => a == b && means(pattern, text),
            ([], _) | (_, []) => false,
        }
    }

    #[test]
    fn a_star_matches_any_text_and_a_question_mark_any_character() {
        for (pattern, text) in [
            ("*", ""),
            ("a*", "a"),
            ("*a*", "bab"),
            ("a*c*e", "abcde"),
            ("é*", "éa"),
            ("**", "x"),
            ("?", "é"),
            ("a?c", "abc"),
            ("*?", "ab"),
            ("*a?c", "aacabc"),
            ("a*[*]", "ab*"),
            ("*[*]*?", "a*b"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in
            [("", "a"), ("a", "ab"), ("a*a", "a"), ("a*", "ba"), ("*a", "ab"), ("?", ""), ("??", "a"), ("A", "a")]
        {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn a_set_matches_one_of_its_characters() {
        for (pattern, text) in [
            ("[abc]", "b"),
            ("[a-c]x", "bx"),
            ("[!a-c]", "d"),
            ("[^a]", "b"),
            ("*[0-9]", "v12"),
            ("[]]", "]"),
            ("[!]]", "a"),
            ("[a-]", "-"),
            ("[-a]", "-"),
            ("[é-ü]", "ö"),
            ("[", "["),
            ("a[b", "a[b"),
            ("[]", "[]"),
            ("[*]", "*"),
            ("[?]", "?"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("[abc]", "d"),
            ("[abc]", ""),
            ("[abc]", "ab"),
            ("[!a-c]", "b"),
            ("[c-a]", "b"),
            ("[a]", "[a]"),
            ("[!", "a"),
        ] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    proptest! {
        #[test]
        fn a_pattern_matches_like_the_reference(
            pattern in prop::collection::vec(prop::sample::select(b"ab*?".to_vec()), 0..8),
            text in prop::collection::vec(prop::sample::select(b"ab*?".to_vec()), 0..10),
        ) {
            let (a, b) = (String::from_utf8(pattern.clone()).unwrap(), String::from_utf8(text.clone()).unwrap());
            prop_assert_eq!(matches(&a, &b), means(&pattern, &text));
        }

        #[test]
        fn any_pattern_and_any_text_can_be_matched(pattern in "[\\[\\]!^*?a-c-]{0,12}", text in "[\\[\\]!^*?a-c-]{0,12}") {
            let _ = matches(&pattern, &text);
            prop_assert!(matches("*", &text));
        }
    }
}
