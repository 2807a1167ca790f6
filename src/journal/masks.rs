//! What stands for secrets in a journal.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use crate::host::config::{Auth, Configuration, Endpoint, Entry, Texts};

/// The secrets of the newest configuration, each with a number: equal ones have the same, so that a replay finds the same
/// differences between configurations.
#[derive(Debug, Default)]
pub struct Masks {
    numbers: BTreeMap<Box<str>, u64>,
    last: u64,
}

impl Masks {
    /// The configuration with masks in place of values of `env`, `headers`, `auth` and `oauth.client_secret`, and of user information and query
    /// of addresses. Secrets that are in this one no longer are forgotten.
    pub(super) fn configuration(&mut self, configuration: &Configuration) -> Configuration {
        let before = core::mem::take(&mut self.numbers);
        let mut masked = configuration.clone();
        for entry in masked.servers.values_mut() {
            self.mask(entry, &before);
        }
        masked
    }

    /// An entry of the newest configuration.
    pub(super) fn entry(&mut self, entry: &Entry) -> Entry {
        let mut masked = entry.clone();
        self.mask(&mut masked, &BTreeMap::new());
        masked
    }

    fn mask(&mut self, entry: &mut Entry, before: &BTreeMap<Box<str>, u64>) {
        match &mut entry.endpoint {
            Endpoint::Stdio(stdio) => self.values(&mut stdio.env, before),
            Endpoint::Http(http) => {
                self.values(&mut http.headers, before);
                let mask = self.mask_of(&http.url, before);
                http.url = address(&http.url, &mask).into();
                if let Some(Auth::Other(word)) = &mut http.auth {
                    *word = self.mask_of(word, before).into();
                }
                if let Some(secret) = http.oauth.as_mut().and_then(|oauth| oauth.client_secret.as_mut()) {
                    *secret = self.mask_of(secret, before).into();
                }
            }
        }
    }

    fn values(&mut self, texts: &mut Texts, before: &BTreeMap<Box<str>, u64>) {
        for value in texts.values_mut() {
            *value = self.mask_of(value, before).into();
        }
    }

    fn mask_of(&mut self, secret: &str, before: &BTreeMap<Box<str>, u64>) -> String {
        let number = match self.numbers.get(secret).or_else(|| before.get(secret)) {
            Some(number) => *number,
            None => {
                self.last = self.last.saturating_add(1);
                self.last
            }
        };
        self.numbers.insert(secret.into(), number);
        format!("redacted-{number}")
    }
}

#[cfg(feature = "http")]
fn address(url: &str, mask: &str) -> String {
    match url.parse() {
        Ok(url) => crate::binding::http::masked_address(&url, mask),
        Err(_) => crate::text::shown(url),
    }
}

#[cfg(not(feature = "http"))]
fn address(url: &str, _: &str) -> String {
    crate::text::shown(url)
}
