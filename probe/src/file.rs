//! A configuration file: its servers and problems.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use http::HeaderMap;
use mcp_proto::host::config::{Auth, Configuration, Document, Endpoint, Entry};
use serde::Serialize;

use crate::args::field;
use crate::peer::Site;
use crate::secrets;

/// The input of a run over a file.
pub(crate) struct Plan {
    /// The valid entries among the selected servers.
    pub(crate) configuration: Configuration,
    /// The enabled ones, and where those over HTTP are.
    pub(crate) sites: BTreeMap<Box<str>, Option<Site>>,
    pub(crate) errors: Vec<Trouble>,
    pub(crate) warnings: Vec<Trouble>,
    /// The names of all servers of the file.
    names: Vec<Box<str>>,
}

/// An error or a warning about the file.
#[derive(Serialize)]
pub(crate) struct Trouble {
    pub(crate) server: Box<str>,
    pub(crate) key: Option<Box<str>>,
    /// The whole message, including server and key.
    pub(crate) message: String,
}

/// Reads a file and selects these servers; all if none is named. `headers` are added to every request to HTTP servers.
pub(crate) fn load(path: &Path, chosen: &[String], headers: &HeaderMap) -> Result<Plan, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| format!("{shown}: {error}"))?;
    let Document(mut configuration) = parse(path, &text).map_err(|wrong| format!("{shown}: {wrong}"))?;
    let names: Vec<Box<str>> = {
        let bad = configuration.errors.iter().map(|error| Box::from(&*error.server));
        let mut names: Vec<_> = configuration.servers.keys().cloned().chain(bad).collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    if names.is_empty() {
        return Err(format!("{shown}: there are no servers in it; they stand under `mcp_servers` or `mcpServers`"));
    }
    if let Some(unknown) = chosen.iter().find(|name| !names.iter().any(|known| **known == ***name)) {
        return Err(format!("{shown}: there is no server {unknown:?}; there are {}", names.join(", ")));
    }
    let is_chosen = |server: &str| chosen.is_empty() || chosen.iter().any(|name| name == server);
    configuration.servers.retain(|server, _| is_chosen(server));
    configuration.errors.retain(|error| is_chosen(&error.server));
    configuration.warnings.retain(|warning| is_chosen(&warning.server));

    let folder = path.parent().unwrap_or(Path::new(""));
    let mut configuration = configuration.expand(|name| match name.strip_prefix("envFile:") {
        Some(file) => std::fs::read_to_string(folder.join(file)).ok().map(Cow::Owned),
        None => variable(name, &names),
    });
    let mut plan = Plan {
        sites: BTreeMap::new(),
        errors: configuration.errors.drain(..).map(|it| Trouble::new(&it.server, it.key.clone(), &it)).collect(),
        warnings: configuration.warnings.drain(..).map(|it| Trouble::new(&it.server, it.key.clone(), &it)).collect(),
        configuration: Configuration::default(),
        names,
    };
    for (server, entry) in configuration.servers {
        if entry.enabled {
            match site(&server, &entry, headers) {
                Ok(site) => drop(plan.sites.insert(server.clone(), site)),
                Err(trouble) => {
                    plan.errors.push(trouble);
                    continue;
                }
            }
        }
        plan.configuration.servers.insert(server, entry);
    }
    Ok(plan)
}

impl Plan {
    /// Has no output the secrets of the entries from now on.
    pub(crate) fn keep_secrets(&self) {
        for site in self.sites.values().flatten() {
            secrets::given(&site.headers, [&*site.url]);
        }
        for entry in self.configuration.servers.values() {
            match &entry.endpoint {
                Endpoint::Stdio(stdio) => {
                    let texts = stdio.args.iter().chain(stdio.env.values()).map(|text| &**text);
                    secrets::given(&HeaderMap::new(), texts);
                    stdio.env.iter().for_each(|(name, value)| secrets::keep_named(name, value, &self.names));
                }
                Endpoint::Http(http) => {
                    let secret = http.oauth.as_ref().and_then(|oauth| oauth.client_secret.as_deref());
                    secret.into_iter().for_each(secrets::keep);
                    if let Some(Auth::Other(word)) = &http.auth {
                        secrets::keep_named("auth", word, &self.names);
                    }
                }
                _ => {}
            }
        }
    }
}

impl Trouble {
    fn new(server: &str, key: Option<Box<str>>, message: &impl ToString) -> Self {
        Self { server: server.into(), key, message: message.to_string() }
    }

    pub(crate) fn unmatched(server: &str, key: &str, pattern: &str) -> Self {
        let message = format!("server `{server}`, `{key}`: `{pattern}` is the name of none of its tools");
        Self { server: server.into(), key: Some(key.into()), message }
    }
}

/// Parses by the file's extension, or by content if the extension is unknown.
fn parse(path: &Path, text: &str) -> Result<Document, String> {
    let text = text.trim_start_matches('\u{feff}');
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    let json = match ending.as_deref() {
        Some("json") => true,
        Some("yaml" | "yml") => false,
        Some(_) | None => text.trim_start().starts_with('{'),
    };
    if json {
        serde_json::from_str(text).map_err(|error| format!("as JSON: {error}"))
    } else {
        // The lines around an error may contain secrets.
        serde_saphyr::from_str(text).map_err(|error| format!("as YAML: {}", error.without_snippet()))
    }
}

/// `${NAME}`, and `${env:NAME}` as in editors.
fn variable(name: &str, servers: &[Box<str>]) -> Option<Cow<'static, str>> {
    let name = name.strip_prefix("env:").unwrap_or(name);
    // The lookup panics on an invalid name.
    let possible = !name.is_empty() && !name.contains(['=', '\0']);
    let value = possible.then(|| std::env::var(name).ok()).flatten()?;
    secrets::keep_named(name, &value, servers);
    Some(Cow::Owned(value))
}

/// Where a server over HTTP is. Headers on the command line take the place of its entry's.
fn site(server: &str, entry: &Entry, headers: &HeaderMap) -> Result<Option<Site>, Trouble> {
    match &entry.endpoint {
        Endpoint::Stdio(_) => Ok(None),
        Endpoint::Http(http) => {
            let mut all = HeaderMap::new();
            for (name, value) in &http.headers {
                let (name, value) = field(name, value).map_err(|wrong| {
                    let key = format!("headers.{name}");
                    let message = format!("server `{server}`, `{key}`: {wrong}");
                    Trouble { server: server.into(), key: Some(key.into()), message }
                })?;
                all.append(name, value);
            }
            for name in headers.keys() {
                all.remove(name);
            }
            all.extend(headers.iter().map(|(name, value)| (name.clone(), value.clone())));
            Ok(Some(Site { url: http.url.to_string(), headers: all }))
        }
        _ => {
            let message = format!("server `{server}`: this version of probe does not know how to reach it");
            Err(Trouble { server: server.into(), key: None, message })
        }
    }
}
