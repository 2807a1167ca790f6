//! A configuration file: its servers and problems.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use http::HeaderMap;
use jsonc_parser::ParseOptions;
use jsonc_parser::ParseStringErrorKind::UnterminatedStringLiteral as Unended;
use jsonc_parser::errors::ParseErrorKind;
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
    let configuration = read(path).map_err(|wrong| format!("{}: {wrong}", path.display()))?;
    plan(path, configuration, chosen, headers)
}

/// What a run does with a file that was read.
pub(crate) fn plan(
    path: &Path,
    mut configuration: Configuration,
    chosen: &[String],
    headers: &HeaderMap,
) -> Result<Plan, String> {
    let shown = path.display();
    let names: Vec<Box<str>> = {
        let bad = configuration.errors.iter().map(|error| Box::from(&*error.server));
        let mut names: Vec<_> = configuration.servers.keys().cloned().chain(bad).collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    if names.is_empty() {
        return Err(format!(
            "{shown}: there are no servers in it; they stand under `mcpServers`, or as another host has them"
        ));
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
        Some(file) => variables(&folder.join(file)).map(Cow::Owned),
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
    /// Has no output the secrets of the entries from now on, those of servers that are turned off too.
    pub(crate) fn keep_secrets(&self) {
        for entry in self.configuration.servers.values() {
            match &entry.endpoint {
                Endpoint::Stdio(stdio) => {
                    let texts = [&stdio.command].into_iter().chain(&stdio.args).chain(stdio.env.values());
                    secrets::given(&HeaderMap::new(), texts.map(|text| &**text));
                    self.keep_words(stdio.command.split_whitespace().chain(stdio.args.iter().map(|arg| &**arg)));
                    stdio.env.iter().for_each(|(name, value)| secrets::keep_named(name, value, &self.names));
                }
                Endpoint::Http(http) => {
                    let headers = http.headers.iter().filter_map(|(name, value)| field(name, value).ok()).collect();
                    secrets::given(&headers, [&*http.url]);
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

    /// The secrets in the words of a command: `--api-key VALUE`, `--api-key=VALUE`, `API_KEY=VALUE` as containers take it, and
    /// `Name: value`, a header.
    fn keep_words<'a>(&self, words: impl Iterator<Item = &'a str>) {
        let keep = |name: &str, value: &str| secrets::keep_named(name.trim_start_matches('-'), value, &self.names);
        let mut option = "";
        for word in words {
            if let Some((name, value)) = word.split_once('=') {
                keep(name, value);
            }
            keep(option, word);
            let header = word.rsplit('=').next().and_then(|header| header.split_once(':'));
            let is_header = word.contains(": ") || matches!(option, "-H" | "--header" | "--headers");
            if let Some((name, value)) = header.filter(|_| is_header) {
                secrets::given(&field(name, value).ok().into_iter().collect(), []);
            }
            option = if word.starts_with('-') { word } else { "" };
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

/// The servers of a file, without variables.
pub(crate) fn read(path: &Path) -> Result<Configuration, String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    let Document(configuration) = parse(ending.as_deref(), &decode(&bytes)?)?;
    Ok(configuration)
}

/// The text of a file in UTF-8, or in UTF-16 with a byte order mark.
fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, String> {
    let units = |two: fn([u8; 2]) -> u16, bytes: &[u8]| {
        let (pairs, rest) = bytes.as_chunks::<2>();
        let text = char::decode_utf16(pairs.iter().map(|pair| two(*pair))).collect::<Result<String, _>>();
        text.ok().filter(|_| rest.is_empty()).ok_or("it begins as UTF-16, and is not; save it as UTF-8")
    };
    match bytes {
        [0xff, 0xfe, rest @ ..] => Ok(units(u16::from_le_bytes, rest)?.into()),
        [0xfe, 0xff, rest @ ..] => Ok(units(u16::from_be_bytes, rest)?.into()),
        [0xef, 0xbb, 0xbf, rest @ ..] | rest => str::from_utf8(rest).map(Cow::Borrowed).map_err(|wrong| {
            let at = wrong.valid_up_to().saturating_add(1);
            format!("it is neither UTF-8 (at byte {at}) nor UTF-16 with a byte order mark; save it as UTF-8")
        }),
    }
}

/// Parses by the file's extension, or by content if the extension is unknown. No error quotes the text: it may contain
/// secrets.
fn parse(ending: Option<&str>, text: &str) -> Result<Document, String> {
    let first = text.lines().map(str::trim_start).find(|line| !line.is_empty() && !line.starts_with('#'));
    match (ending, first.unwrap_or_default()) {
        (Some("json" | "jsonc" | "json5"), _) => json(text),
        (Some("toml"), _) => toml(text),
        (Some("yaml" | "yml"), _) => yaml(text),
        (_, first) if first.starts_with(['{', '/']) => json(text),
        (_, first) if first.starts_with('[') => toml(text),
        _ => yaml(text),
    }
}

fn json(text: &str) -> Result<Document, String> {
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    jsonc_parser::parse_to_serde_value(text, &options).map_err(|wrong| {
        let is_escape = matches!(wrong.kind(), ParseErrorKind::String(it) if !matches!(it, Unended));
        let advice = if is_escape { "; a backslash in a string is written twice: `C:\\\\Users`" } else { "" };
        format!("as JSON: {wrong}{advice}")
    })
}

fn toml(text: &str) -> Result<Document, String> {
    toml::from_str(text).map_err(|wrong| {
        let before = wrong.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        format!("as TOML: {} on line {}", wrong.message(), before.split('\n').count())
    })
}

fn yaml(text: &str) -> Result<Document, String> {
    serde_saphyr::from_str(text).map_err(|wrong| format!("as YAML: {}", wrong.without_snippet()))
}

/// The text of a file of variables. A longer one is refused by its length.
fn variables(path: &Path) -> Option<String> {
    const LONGEST: u64 = 1 << 20;
    let file = std::fs::File::open(path).ok().filter(|_| path.is_file())?;
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text).ok()?;
    Some(text)
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    /// The text in UTF-16, with a byte order mark.
    fn utf16(text: &str, two: fn(u16) -> [u8; 2]) -> Vec<u8> {
        ['\u{feff}'].into_iter().collect::<String>().encode_utf16().chain(text.encode_utf16()).flat_map(two).collect()
    }

    #[test]
    fn comments_trailing_commas_toml_utf16_and_byte_order_marks_are_read() {
        let jsonc = "// mine\n{\"mcpServers\": {\"ä\": {\"command\": \"x\", \"args\": [\"a\",], /* no */},},}";
        let toml = "# mine\n[mcp_servers.\"ä\"]\ncommand = \"x\"\nargs = [\"a\"]\n";
        let yaml = "mcp_servers:\n  ä: {command: x, args: [a]}\n";
        for (text, endings) in [
            (jsonc, [Some("json"), Some("jsonc"), None]),
            (toml, [Some("toml"), Some("conf"), None]),
            (yaml, [Some("yaml"), Some("yml"), None]),
        ] {
            let with_mark = format!("\u{feff}{text}").into_bytes();
            for bytes in [text.into(), with_mark, utf16(text, u16::to_le_bytes), utf16(text, u16::to_be_bytes)] {
                for ending in endings {
                    let Document(read) = parse(ending, &decode(&bytes).unwrap()).unwrap();
                    let Endpoint::Stdio(stdio) = &read.servers["ä"].endpoint else { panic!("{read:?}") };
                    assert_eq!((&*stdio.command, &*stdio.args[0]), ("x", "a"));
                }
            }
        }
    }

    /// What is read of a file of `tests/configurations`. The lookup knows the files with variables alone.
    fn row(path: &Path) -> String {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let lines = std::fs::read_to_string(path).unwrap();
        let text = lines.lines().map(str::trim_end).collect::<Vec<_>>().join(" ⏎ ");
        let gives = match read(path) {
            Err(wrong) => vec![format!("refused: {wrong}")],
            Ok(read) => {
                let read = read.expand(|name| name.starts_with("envFile:").then_some("DB=sqlite".into()));
                let servers = read
                    .servers
                    .iter()
                    .map(|(name, entry)| format!("`{name}`: `{}`", serde_json::to_string(entry).unwrap()));
                let errors = read.errors.iter().map(|error| format!("error: {error}"));
                servers.chain(errors).chain(read.warnings.iter().map(|it| format!("warning: {it}"))).collect()
            }
        };
        format!("| `{name}` | `{text}` | {} |\n", gives.join("<br>")).replace("\\|", "|")
    }

    /// With `MCP_WRITE` in the environment, the table is written.
    #[test]
    fn files_as_people_post_them_give_what_the_guide_says() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let files = std::fs::read_dir(folder.join("tests/configurations")).unwrap();
        let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        files.sort();
        assert!(files.len() >= 40);
        let rows: String = files.iter().map(|file| row(file)).collect();
        let guide = folder.join("../docs/configurations.md");
        let text = std::fs::read_to_string(&guide).unwrap();
        let (head, _) = text.split_once("| --- | --- | --- |\n").unwrap();
        let expected = format!("{head}| --- | --- | --- |\n{rows}");
        if std::env::var_os("MCP_WRITE").is_some() {
            std::fs::write(guide, expected).unwrap();
        } else {
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn a_file_that_cannot_be_used_names_its_format_the_place_and_what_to_write_instead() {
        let told = |ending, bytes: &[u8]| decode(bytes).and_then(|text| parse(ending, &text).map(drop)).unwrap_err();
        for (ending, bytes, words) in [
            (Some("json"), &b"{\n \"a\": 1,, }"[..], "as JSON: Unexpected token in object on line 2 column 9"),
            (Some("json"), br#"{"a": "C:\Users"}"#, "a backslash in a string is written twice: `C:\\\\Users`"),
            (Some("json"), b"{\"a\": \"x", "as JSON: Unterminated string literal on line 1 column 7"),
            (Some("toml"), b"a = 1\n[mcp_servers.a\n", "as TOML: unclosed table, expected `]` on line 2"),
            (Some("yaml"), b"a: [\nb: {", "as YAML: "),
            (
                None,
                b"{\"a\": \xff}",
                "it is neither UTF-8 (at byte 7) nor UTF-16 with a byte order mark; save it as UTF-8",
            ),
            (None, b"\xff\xfe{", "it begins as UTF-16, and is not; save it as UTF-8"),
            (None, b"\xff\xfe\x00\xd8", "it begins as UTF-16, and is not; save it as UTF-8"),
        ] {
            assert!(told(ending, bytes).contains(words), "{}", told(ending, bytes));
        }
        let secret = told(Some("json"), br#"{"key": "hush-hush" x}"#);
        assert!(!secret.contains("hush"), "{secret}");
        for (ending, deep) in [("json", "[".repeat(1 << 20)), ("toml", format!("a={}", "[".repeat(1 << 20)))] {
            told(Some(ending), deep.as_bytes());
        }
    }
}
