//! Secrets that a server repeats are not shown.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::Secret;
use super::attempt::Attempt;
use super::authorization::Authorization;
use super::core::Core;
use super::options::Flow;
use super::record::Record;

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

fn of_record(record: &Record) -> impl Iterator<Item = &Secret> {
    [Some(&record.access_token), record.refresh_token.as_ref(), record.client.secret.as_ref()].into_iter().flatten()
}

impl Attempt {
    /// The secrets that an attempt sends.
    pub(super) fn secrets<'a>(&'a self, core: &'a Core) -> Vec<&'a Secret> {
        let options = &core.options;
        let mut secrets: Vec<&Secret> = options.registered.iter().filter_map(|client| client.secret.as_ref()).collect();
        match &options.flow {
            Flow::User | Flow::ClientCredentials => {}
            Flow::JwtBearer(assertion) => secrets.push(assertion),
            Flow::Enterprise(provider) => {
                secrets.push(&provider.id_token);
                secrets.extend(&provider.client_secret);
            }
        }
        secrets
            .extend(self.code.iter().chain(&self.verifier).chain(&self.grant).chain(&self.assertion).chain(&self.used));
        secrets.extend(self.client.iter().filter_map(|client| client.secret.as_ref()));
        if let Some(held) = &self.held {
            secrets.extend(held.client.secret.iter().chain(&held.refresh_token));
        }
        let former = self.task.as_ref().and_then(|task| task.former.as_deref());
        secrets.extend(former.into_iter().flat_map(of_record));
        secrets
    }
}

impl Authorization {
    /// A text of the MCP server without the secrets that it could know.
    pub(crate) fn without_secrets<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let record = self.credentials.record.iter().flat_map(of_record);
        let mut secrets = record.chain(&self.credentials.used).peekable();
        if secrets.peek().is_none() {
            return Cow::Borrowed(text);
        }
        Cow::Owned(hide(text, secrets).into_string())
    }
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
