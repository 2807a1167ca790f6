//! The name and the password in a server's URL: the header that presents them, and what of them is hidden where the server
//! repeats it.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;
use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use zeroize::Zeroizing;

use crate::binding::hider::Hider;
use crate::text::percent_decoded;

/// `Authorization: Basic` (RFC 7617). Its `Debug` shows nothing.
#[derive(Clone)]
pub(super) struct Basic {
    value: HeaderValue,
    /// What hides the secret, once a text was read.
    hider: OnceLock<Box<Hider>>,
}

impl fmt::Debug for Basic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl Basic {
    const SCHEME: &str = "Basic ";

    /// For user information of a URL, which may be percent-encoded.
    pub(super) fn of(user: &str) -> Option<Self> {
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        let mut plain = Zeroizing::new(percent_decoded(name));
        plain.push(b':');
        plain.extend_from_slice(&percent_decoded(password));
        let mut value = String::from(Self::SCHEME);
        STANDARD.encode_string(&*plain, &mut value);
        let mut value = HeaderValue::try_from(value).ok()?;
        value.set_sensitive(true);
        Some(Self::presenting(value))
    }

    /// The one with this header.
    pub(super) const fn presenting(value: HeaderValue) -> Self {
        Self { value, hider: OnceLock::new() }
    }

    pub(super) const fn value(&self) -> &HeaderValue {
        &self.value
    }

    /// A text of the server without the secret.
    pub(super) fn hide<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let make = || {
            let secret = self.secret();
            Box::new(Hider::new(secret.iter().map(|secret| &**secret.text)))
        };
        self.hider.get_or_init(make).hide(text)
    }

    /// What is looked for; `None` if all of it is so short that it could be any word.
    pub(super) fn secret(&self) -> Option<UserSecret> {
        let encoded = self.value.to_str().ok()?.strip_prefix(Self::SCHEME)?;
        let decoded = STANDARD.decode(encoded).ok()?;
        let Ok(plain) = String::from_utf8(decoded).map(Zeroizing::new) else {
            return UserSecret::new(encoded, false);
        };
        let (name, password) = plain.split_once(':')?;
        // As a journal has it that does not have the secret.
        let is_mask = |rest: &str| rest.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit());
        if password.is_empty() && name.strip_prefix(REDACTED).is_some_and(is_mask) {
            return None;
        }
        let secret = match password {
            // Some have a token in the place of a name.
            "" | "x-oauth-basic" => UserSecret::new(name, false),
            _ => UserSecret::new(password, true),
        };
        secret.or_else(|| UserSecret::new(&plain, false))
    }
}

/// The secret in the user information of a URL.
#[cfg(feature = "journal")]
pub(crate) fn user_secret(url: &http::Uri) -> Option<UserSecret> {
    let (_, user) = crate::binding::address::without_user(url.clone());
    Basic::of(&user?)?.secret()
}

/// What stands for the user information without a secret.
const REDACTED: &str = "redacted";

/// A shorter secret could be any word, and no journal hides it.
const SHORTEST: usize = 8;

/// A longer one is hidden in no journal.
const LONGEST: usize = 16 << 10;

/// The secret in the user information of a URL. A replay of a journal has a mask in its place, and hides that.
pub(crate) struct UserSecret {
    pub(crate) text: Zeroizing<String>,
    /// Whether a name precedes it, which is none.
    #[cfg_attr(not(feature = "journal"), expect(dead_code, reason = "only a journal has the name"))]
    is_password: bool,
}

impl UserSecret {
    fn new(text: &str, is_password: bool) -> Option<Self> {
        let fits = (SHORTEST..=LONGEST).contains(&text.len());
        fits.then(|| Self { text: Zeroizing::new(text.into()), is_password })
    }

    /// User information with a mask in the place of the secret. `name` stands for what is not looked for.
    #[cfg(feature = "journal")]
    pub(crate) fn masked(&self, name: &str, mask: &str) -> String {
        if self.is_password { alloc::format!("{name}:{mask}") } else { mask.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_is_what_no_word_is() {
        for (user, secret) in [
            ("ada:password", Some("password")),
            ("ada:pass%3Aword", Some("pass:word")),
            ("ada:pass", Some("ada:pass")),
            ("a:b", None),
            ("token-01", Some("token-01")),
            ("token-01:", Some("token-01")),
            ("token-01:x-oauth-basic", Some("token-01")),
            ("token:x-oauth-basic", Some("token:x-oauth-basic")),
            ("ada:%FF", Some("YWRhOv8=")),
            ("ada:%FFpass", Some("YWRhOv9wYXNz")),
            ("redacted", None),
            ("redacted-12", None),
            ("redacted-x", Some("redacted-x")),
            ("redacted:secret10", Some("secret10")),
        ] {
            let found =
                Basic::of(user).and_then(|basic| basic.secret()).map(|secret| String::from(secret.text.as_str()));
            assert_eq!(found.as_deref(), secret, "{user}");
        }
        assert!(Basic::of(&"x".repeat(LONGEST + 1)).and_then(|basic| basic.secret()).is_none());
    }
}
