//! Secrets that a server repeats are not shown.

use alloc::boxed::Box;
use alloc::string::{String, ToString};

use super::Secret;

/// A shorter secret could be any word.
const SHORTEST: usize = 6;

const HIDDEN: &str = "[hidden]";

/// Replaces each secret in a text, also one that was cut off before a `…`.
pub(super) fn hide<'a>(text: &str, secrets: impl IntoIterator<Item = &'a Secret>) -> Box<str> {
    let mut out = text.to_string();
    for secret in secrets {
        let secret = secret.expose();
        if secret.len() >= SHORTEST {
            out = hide_cut(&out.replace(secret, HIDDEN), secret);
        }
    }
    out.into()
}

/// Replaces the beginning of a secret before each `…`.
fn hide_cut(text: &str, secret: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut parts = text.split('…').peekable();
    while let Some(part) = parts.next() {
        let is_cut = parts.peek().is_some();
        match cut(part, secret).filter(|_| is_cut) {
            Some(shown) => {
                out.push_str(shown);
                out.push_str(HIDDEN);
            }
            None => out.push_str(part),
        }
        if is_cut {
            out.push('…');
        }
    }
    out
}

/// The text without the beginning of a secret that it ends with.
fn cut<'a>(text: &'a str, secret: &str) -> Option<&'a str> {
    let longest = text.len().min(secret.len());
    (SHORTEST..=longest).rev().find_map(|length| text.strip_suffix(secret.get(..length)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_hidden_wherever_it_is_and_however_it_is_cut() {
        let (secret, short) = (Secret::new("secret-token"), Secret::new("abc"));
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
            assert_eq!(&*hide(text, [&secret, &short]), shown);
        }
    }
}
