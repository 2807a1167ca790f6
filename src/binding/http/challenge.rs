//! Reads the challenges of `WWW-Authenticate` (RFC 9110, section 11.6.1) as far as they go: one that does not parse takes no
//! other with it.

use alloc::string::String;
use alloc::vec::Vec;

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;

use crate::client::Challenge;

/// The challenges of all headers, in order.
pub(super) fn challenges_in(headers: &HeaderMap) -> Vec<Challenge> {
    let mut challenges = Vec::new();
    for value in headers.get_all(WWW_AUTHENTICATE) {
        read(&String::from_utf8_lossy(value.as_bytes()), &mut challenges);
    }
    challenges.iter_mut().for_each(|challenge: &mut Challenge| challenge.params.shrink_to_fit());
    challenges
}

/// Adds the challenges of one header.
fn read(value: &str, challenges: &mut Vec<Challenge>) {
    let first = challenges.len();
    let mut rest = value;
    // What precedes: a scheme begins at the start or after a comma, and a token68 follows a scheme.
    let (mut at_start, mut after_scheme) = (true, false);
    loop {
        let trimmed = rest.trim_start_matches(is_separator);
        let skipped = rest.get(..rest.len().saturating_sub(trimmed.len())).unwrap_or_default();
        at_start |= skipped.contains(',');
        after_scheme &= !at_start;
        if trimmed.is_empty() {
            return;
        }
        let (word, after) = split(trimmed, |it| is_blank(it) || matches!(it, ',' | '='));
        let assigned = after.trim_start_matches(is_blank).strip_prefix('=');
        let padding = assigned.map_or(after, |assigned| assigned.trim_start_matches('='));
        let is_scheme = assigned.is_none() && at_start && is_token(word);
        rest = match assigned {
            _ if after_scheme && is_end(padding) => padding,
            Some(assigned) => {
                let (value, after) = value_of(assigned.trim_start_matches(is_blank));
                let own = challenges.get_mut(first..).and_then(<[Challenge]>::last_mut);
                if let Some(challenge) = own.filter(|_| is_token(word)) {
                    challenge.params.push((word.into(), value.into()));
                }
                after
            }
            None => after,
        };
        if is_scheme {
            challenges.push(Challenge::new(word, Vec::new()));
        }
        (at_start, after_scheme) = (false, is_scheme);
    }
}

/// The value of a parameter, and what follows it: quoted, or up to a comma or a blank.
fn value_of(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let (value, after) = split(text, |it| is_blank(it) || it == ',');
        return (value.into(), after);
    };
    let mut value = String::new();
    let mut characters = quoted.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => break,
            '\\' => value.extend(characters.next()),
            other => value.push(other),
        }
    }
    (value, characters.as_str())
}

/// A text before and from the first of these characters on.
pub(super) fn split(text: &str, is_end: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at_checked(text.find(is_end).unwrap_or(text.len())).unwrap_or((text, ""))
}

/// Whether nothing more belongs to the challenge, up to a comma.
fn is_end(text: &str) -> bool {
    let text = text.trim_start_matches(is_blank);
    text.is_empty() || text.starts_with(',')
}

const fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t')
}

const fn is_separator(character: char) -> bool {
    is_blank(character) || character == ','
}

/// Whether a word may be a scheme or the name of a parameter (RFC 9110, section 5.6.2).
fn is_token(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(value: &str) -> String {
        let mut challenges = Vec::new();
        read(value, &mut challenges);
        let mut out = String::new();
        for challenge in challenges {
            out.push_str(&challenge.scheme);
            for (name, value) in challenge.params {
                out.push_str(&alloc::format!(" {name}=<{value}>"));
            }
            out.push(';');
        }
        out
    }

    #[test]
    fn challenges_are_read_as_far_as_they_go() {
        for (value, expected) in [
            ("Bearer", "Bearer;"),
            (r#"Bearer realm="x", scope="a b""#, "Bearer realm=<x> scope=<a b>;"),
            // Unquoted values end at a comma or a blank.
            ("Bearer error=invalid_token, scope=a", "Bearer error=<invalid_token> scope=<a>;"),
            ("Bearer resource_metadata=https://a.b/c?d=e&f", "Bearer resource_metadata=<https://a.b/c?d=e&f>;"),
            ("Bearer error=x error_description=y", "Bearer error=<x> error_description=<y>;"),
            // Any number of blanks.
            ("  Bearer \t realm = \"x\"  ,  scope\t=a ", "Bearer realm=<x> scope=<a>;"),
            ("Bearer,, ,realm=\"x\",", "Bearer realm=<x>;"),
            // Several, with token68.
            (r#"Negotiate, Basic realm="b", Bearer scope="a""#, "Negotiate;Basic realm=<b>;Bearer scope=<a>;"),
            (r#"Negotiate YII=, Bearer scope="a""#, "Negotiate;Bearer scope=<a>;"),
            (r#"Negotiate YII==, Bearer scope="a""#, "Negotiate;Bearer scope=<a>;"),
            (r#"NTLM abc/+, Bearer scope="a""#, "NTLM;Bearer scope=<a>;"),
            // Escapes.
            (r#"Bearer error_description="a \"b\" \\ c""#, r#"Bearer error_description=<a "b" \ c>;"#),
            // What does not parse takes nothing else with it.
            (r#"Bearer ä="x", scope="a""#, "Bearer scope=<a>;"),
            (r#"Bearer realm="x"y, scope="a""#, "Bearer realm=<x> scope=<a>;"),
            ("Bearer error_description=The token expired, scope=a", "Bearer error_description=<The> scope=<a>;"),
            (r#"(), Bearer scope="a""#, "Bearer scope=<a>;"),
            (r#"="x", Bearer scope="a""#, "Bearer scope=<a>;"),
            (r#"realm="x", Bearer scope="a""#, "Bearer scope=<a>;"),
            (r#"Bearer scope="a", ="x", error="e""#, "Bearer scope=<a> error=<e>;"),
            (r#"Bearer scope=, error="e""#, "Bearer error=<e>;"),
            (r#"Bearer error="e", scope="#, "Bearer error=<e> scope=<>;"),
            ("Bearer error=e scope=, realm=r", "Bearer error=<e> scope=<> realm=<r>;"),
            (r#"Bearer scope="a, error"#, "Bearer scope=<a, error>;"),
            (r#"Negotiate YII="#, "Negotiate;"),
            (r#"Negotiate YII= "#, "Negotiate;"),
            ("", ""),
            (" , ,", ""),
            ("=", ""),
        ] {
            assert_eq!(shown(value), expected, "{value}");
        }
    }

    #[test]
    fn a_header_that_is_no_text_is_read_as_far_as_it_goes() {
        let mut headers = HeaderMap::new();
        headers.append(WWW_AUTHENTICATE, http::HeaderValue::from_bytes(b"Basic realm=\"\xff\"").unwrap());
        headers.append(WWW_AUTHENTICATE, http::HeaderValue::from_static("bearer scope=a"));
        let challenges = challenges_in(&headers);
        assert_eq!(challenges.len(), 2);
        assert_eq!(challenges[1].param("scope"), Some("a"));
    }
}
