/// Whether the whole text matches the pattern; `*` matches any text, including the empty one.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let Some((start, pattern)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(start) else { return false };
    let (middle, end) = pattern.rsplit_once('*').map_or(("", pattern), |(middle, end)| (middle, end));
    let Some(mut text) = text.strip_suffix(end) else { return false };
    // Matching each part as early as possible leaves the most text for the later parts.
    for part in middle.split('*') {
        let Some((_, rest)) = text.split_once(part) else { return false };
        text = rest;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::matches;
    use alloc::string::String;
    use proptest::prelude::*;

    /// A straightforward implementation.
    fn means(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => (0..=text.len()).any(|at| means(rest, &text[at..])),
            ([a, pattern @ ..], [b, text @ ..]) => a == b && means(pattern, text),
            ([], _) | (_, []) => false,
        }
    }

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, text) in [("*", ""), ("a*", "a"), ("*a*", "bab"), ("a*c*e", "abcde"), ("é*", "éa"), ("**", "x")]
        {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in
            [("", "a"), ("a", "ab"), ("a*a", "a"), ("a*", "ba"), ("*a", "ab"), ("?", "a"), ("A", "a")]
        {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    proptest! {
        #[test]
        fn a_pattern_means_what_it_means(
            pattern in prop::collection::vec(prop::sample::select(b"ab*".to_vec()), 0..8),
            text in prop::collection::vec(prop::sample::select(b"ab*".to_vec()), 0..10),
        ) {
            let (a, b) = (String::from_utf8(pattern.clone()).unwrap(), String::from_utf8(text.clone()).unwrap());
            prop_assert_eq!(matches(&a, &b), means(&pattern, &text));
        }
    }
}
