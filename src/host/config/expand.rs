use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::entry::path;
use super::error::{Error, Problem};
use super::value::excerpt;
use super::{Endpoint, Entry, Http, OAuth, Stdio};

impl Entry {
    /// Replaces the variables in `command`, `args`, `env`, `cwd`, `url`, the values of `headers` and those under `oauth` by
    /// what `lookup` returns for their names.
    ///
    /// `${NAME}` is the variable's value. `${NAME:-text}` is `text` if the variable is unset or empty. `$${` is a
    /// literal `${`. A name is everything before the closing brace or `:-`, so that a lookup can support more than the
    /// environment: `${env:NAME}`, `${workspaceFolder}`. Values are not expanded again.
    ///
    /// ```
    /// use mcp_proto::host::config::{Endpoint, Entry};
    ///
    /// let entry = Entry::stdio("${HOME}/bin/server");
    /// let found = entry.expand("mine", |name| (name == "HOME").then(|| "/home/ada".into())).unwrap();
    /// let Endpoint::Stdio(stdio) = found.endpoint else { panic!("a program") };
    /// assert_eq!(&*stdio.command, "/home/ada/bin/server");
    ///
    /// let errors = entry.expand("mine", |_| None).unwrap_err();
    /// assert!(errors[0].to_string().starts_with("server `mine`, `command`: there is no `HOME`"));
    /// ```
    ///
    /// # Errors
    /// [`Problem::NoVariable`] for each variable without a value.
    pub fn expand<'a>(
        &self,
        server: &str,
        lookup: impl FnMut(&str) -> Option<Cow<'a, str>>,
    ) -> Result<Self, Vec<Error>> {
        let mut expansion = Expansion { server: server.into(), lookup, errors: Vec::new() };
        let mut entry = self.clone();
        match &mut entry.endpoint {
            Endpoint::Stdio(Stdio { command, args, env, cwd }) => {
                expansion.replace("command", command);
                for arg in args {
                    expansion.replace("args", arg);
                }
                for (name, value) in env {
                    expansion.replace(&path("env", &excerpt(name)), value);
                }
                if let Some(cwd) = cwd {
                    expansion.replace("cwd", cwd);
                }
            }
            Endpoint::Http(Http { url, headers, auth: _, oauth }) => {
                expansion.replace("url", url);
                for (name, value) in headers {
                    expansion.replace(&path("headers", &excerpt(name)), value);
                }
                if let Some(oauth) = oauth {
                    let OAuth { client_id, client_secret, client_metadata_url, issuer, redirect_uri, .. } =
                        &mut **oauth;
                    for (key, value) in [
                        ("oauth.client_id", client_id),
                        ("oauth.client_secret", client_secret),
                        ("oauth.client_metadata_url", client_metadata_url),
                        ("oauth.issuer", issuer),
                        ("oauth.redirect_uri", redirect_uri),
                    ] {
                        if let Some(value) = value {
                            expansion.replace(key, value);
                        }
                    }
                    for scope in oauth.scopes.iter_mut().flatten() {
                        expansion.replace("oauth.scopes", scope);
                    }
                }
            }
        }
        if expansion.errors.is_empty() { Ok(entry) } else { Err(expansion.errors) }
    }
}

struct Expansion<L> {
    server: Arc<str>,
    lookup: L,
    errors: Vec<Error>,
}

impl<'a, L: FnMut(&str) -> Option<Cow<'a, str>>> Expansion<L> {
    fn replace(&mut self, key: &str, value: &mut Box<str>) {
        if !value.contains("${") {
            return;
        }
        let mut expanded = String::with_capacity(value.len());
        let (mut rest, mut missing) = (&**value, BTreeSet::new());
        while let Some((before, after)) = rest.split_once("${") {
            if let Some(before) = before.strip_suffix('$') {
                expanded.push_str(before);
                expanded.push_str("${");
                rest = after;
                continue;
            }
            let Some((reference, after)) = after.split_once('}') else { break };
            expanded.push_str(before);
            rest = after;
            let (name, default) = match reference.split_once(":-") {
                Some((name, default)) => (name, Some(default)),
                None => (reference, None),
            };
            let found = (self.lookup)(name).filter(|found| default.is_none() || !found.is_empty());
            match (found, default) {
                (Some(found), _) => expanded.push_str(&found),
                (None, Some(default)) => expanded.push_str(default),
                (None, None) => drop(missing.insert(name)),
            }
        }
        self.errors.extend(missing.into_iter().map(|variable| Error {
            server: Arc::clone(&self.server),
            key: Some(key.into()),
            problem: Problem::NoVariable { variable: excerpt(variable) },
        }));
        expanded.push_str(&rest.replace("$${", "${"));
        *value = expanded.into();
    }
}
